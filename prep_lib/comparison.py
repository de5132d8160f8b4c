"""Two runs side by side: what was asked differently, what went in, what came of it, and where they disagree.

    runs/a ─┐   asked        12_dedup.threshold      0.8        0.7
            │   read         pages/1.html            only in a
            ├─▶ funnel       12_dedup near_dedup     kept 348   kept 331    −17
            │   shards       tokens, targets, lengths, packing, shares of sources
            │   documents    near_duplicate | kept   17, three of them shown           see `disagree`
    runs/b ─┘   bytes        identical, or which files are not

Runs of one workspace or of two, finished or not, of the same way or not: what only one of them has is told as such.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from prep_lib.disagree import Disagreement, disagreements
from prep_lib.documents import NAME as DOCUMENTS
from prep_lib.errors import BadParameter, BadShard
from prep_lib.facts import Facts, facts
from prep_lib.files import digest, natural
from prep_lib.ledger import Ledger
from prep_lib.results import Numbers, numbers, summary
from prep_lib.shards import compare as masks
from prep_lib.shards.formats import document_counts
from prep_lib.shelf import NEUTRAL
from prep_lib.workspace import Run

#: Shards of more tokens are compared by what their manifests say, not token by token.
MOST_TOKENS = 200_000_000

#: Documents of a folder up to which their lengths are looked at, at 64 bytes each.
MOST_LENGTHS = 20_000_000

#: Parameters that change no number.
PLAIN = (*NEUTRAL, "lang")

#: Where a distribution of lengths is read off: the least, shares of the documents, the most.
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)

#: Flows of a stage that are told side by side.
FLOWS = ("in", "kept", "dropped", "failed")


@dataclass(frozen=True)
class Lengths:
    """Tokens of the documents in a folder of shards.

    Parameters
    ----------
    documents : int
    mean : float, tokens
    quantiles : tuple of int, tokens
        At `QUANTILES`.
    bins : tuple of int, documents
        Of 1, 2 to 3, 4 to 7 tokens, and so on.
    """

    documents: int
    mean: float
    quantiles: tuple[int, ...]
    bins: tuple[int, ...]


@dataclass(frozen=True)
class Changed:
    """One thing both were asked for, or say of themselves, and not alike; None: this one does not say."""

    where: str
    name: str
    one: Any
    other: Any


@dataclass(frozen=True)
class Side:
    """What one of the two runs says of itself."""

    run: Run

    @property
    def name(self) -> str:
        """What the run is called."""
        return self.run.name

    @cached_property
    def facts(self) -> Facts:
        """What its folder tells."""
        return facts(self.run)

    @cached_property
    def states(self) -> dict[str, str]:
        """Where each notebook stands: done, failed, running …"""
        return {name: state for name, (state, _) in self.facts.states.items()}

    @cached_property
    def asked(self) -> dict[str, dict[str, Any]]:
        """The parameters of each notebook, as they were used; of what was made by hand, those of its stages."""
        told = {name: dict(asked.used) for name, asked in self.facts.asked.items() if asked.known}
        for folder, stages in _stages(self.run.folder / "data").items():
            if folder.split("/")[0] not in self.facts.asked:
                told[folder] = {
                    f"{one['name']}.{key}": value for one in stages for key, value in one["parameters"].items()
                }
        return told

    @cached_property
    def changed(self) -> tuple[Changed, ...]:
        """Parameters that differ from the notebook's own: ``one`` is the default, ``other`` what was asked."""
        return tuple(
            Changed(name, key, asked.known[key].default, asked.used[key])
            for name, asked in self.facts.asked.items()
            for key in asked.changed
            if key not in PLAIN
        )

    @cached_property
    def costs(self) -> dict[str, tuple[float, int]]:
        """Finished notebook -> seconds, and the most bytes it held; 0 where nobody looked."""
        found = self.facts.records
        return {name: (told.get("seconds", 0.0), int(told.get("memory") or 0)) for name, told in found.items()}

    @cached_property
    def ledgers(self) -> dict[str, Ledger]:
        """What each notebook counted."""
        return dict(self.facts.ledgers)

    @cached_property
    def summary(self) -> Numbers:
        """The numbers the way ends with."""
        return summary(self.run) if self.ledgers else Numbers()

    @cached_property
    def inputs(self) -> dict[str, str]:
        """File read -> sha256, as the finished notebooks tell."""
        return {told["file"]: told["sha256"] for each in self.facts.records.values() for told in each["inputs"]}

    @cached_property
    def versions(self) -> dict[str, str]:
        """Library -> version, as the notebooks tell."""
        return {name: version for each in self.facts.versions.values() for name, version in each.items()}

    @cached_property
    def outputs(self) -> dict[str, str]:
        """File written -> sha256."""
        records, data = self.facts.records, self.run.folder / "data"
        told = {said["file"]: said["sha256"] for each in records.values() for said in each["outputs"]}
        # A notebook that was run by hand has no record: its files are read.
        unknown = (path for path in _files(data) if path.relative_to(data).parts[0] not in records)
        return told | {path.relative_to(self.run.folder).as_posix(): digest(path) for path in unknown}

    @cached_property
    def shards(self) -> dict[str, Mapping[str, Any]]:
        """Folder of shards, below ``data`` -> its manifest."""
        return {name: told for name, told in self.facts.manifests.items() if "totals" in told}

    @cached_property
    def lengths(self) -> dict[str, Lengths]:
        """Folder of shards -> the lengths of its documents, where they are written down and not too many."""
        data, found = self.run.folder / "data", dict[str, Lengths]()
        for name, told in self.shards.items():
            if 0 < (told["totals"].get("documents") or 0) <= MOST_LENGTHS and (data / name).is_dir():
                with contextlib.suppress(BadShard, KeyError, IndexError):
                    tokens = document_counts(data / name)[0]
                    found |= {name: _lengths(tokens)} if len(tokens) else {}
        return found

    def given(self, **facts: Any) -> Side:
        """Return a side that says these facts in place of what its files say."""
        side = Side(facts.pop("run", self.run))
        # Where a cached property keeps its value.
        side.__dict__.update(facts)
        return side


def _stages(data: Path) -> dict[str, list[dict[str, Any]]]:
    """Return folder of documents -> its stages, each with its parameters."""
    found = {}
    for path in sorted(data.rglob(DOCUMENTS)):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found[path.parent.relative_to(data).as_posix()] = json.loads(path.read_bytes())["stages"]
    return {name: stages for name, stages in found.items() if not any(part.startswith(".") for part in name.split("/"))}


def _files(data: Path) -> Iterator[Path]:
    for path in sorted(data.rglob("*"), key=lambda path: natural(str(path))):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(data).parts):
            yield path


def _lengths(tokens: np.ndarray) -> Lengths:
    """Return how long documents are.

    Examples
    --------
    >>> _lengths(np.array([1, 2, 3, 9])).bins
    (1, 2, 0, 1)
    """
    ordered = np.sort(tokens)
    # The value at a share of the documents, and none between two: what stands here is some document's length.
    places = [min(len(ordered) - 1, int(share * len(ordered))) for share in QUANTILES]
    sizes = np.bincount(np.frexp(np.maximum(ordered, 1).astype(float))[1] - 1)
    return Lengths(len(ordered), float(ordered.mean()), tuple(int(ordered[at]) for at in places), tuple(sizes.tolist()))


@dataclass(frozen=True)
class Row:
    """A stage of the funnel in both runs, documents.

    Parameters
    ----------
    notebook, stage : str
    one, other : dict of flow -> int, or None
        None: the run has no such stage.
    reasons : dict of (flow, reason) -> (int, int)
        Those that are not the same, the largest difference first.
    """

    notebook: str
    stage: str
    one: dict[str, int] | None
    other: dict[str, int] | None
    reasons: dict[tuple[str, str], tuple[int, int]]

    @property
    def same(self) -> bool:
        """Whether both counted the same, reason by reason."""
        return self.one == self.other and not self.reasons


@dataclass(frozen=True)
class Shards:
    """A folder of shards in both runs.

    Parameters
    ----------
    name : str
    one, other : dict
        Their manifests.
    settings : tuple of Changed
        What the manifests say differently of how the shards were made.
    lengths : (Lengths or None, Lengths or None)
    masks : Difference or None
        Token by token; None where that cannot be, or was not asked for.
    why : str
        Why not, as a key of the words; empty where it was done, or is not called for.
    """

    name: str
    one: Mapping[str, Any]
    other: Mapping[str, Any]
    settings: tuple[Changed, ...]
    lengths: tuple[Lengths | None, Lengths | None]
    masks: masks.Difference | None = None
    why: str = ""

    @property
    def same(self) -> bool:
        """Whether the bytes of all shards are the same."""
        return all(_bytes(told) == _bytes(self.one) for told in (self.one, self.other))


def _bytes(told: Mapping[str, Any]) -> list[str]:
    return [entry["sha256"] for entry in told["shards"]]


@dataclass(frozen=True)
class Comparison:
    """Two runs, differences first.

    Parameters
    ----------
    one, other : Side
    asked : tuple of Changed
        Parameters of notebooks both have.
    inputs : tuple of Changed
        Files: digest in one, digest in the other.
    versions : tuple of Changed
    funnel : tuple of Row
    shares : dict of notebook -> dict of source -> (int or None, int or None)
        What of each source was kept at the end, in tokens where there are shards, in documents where not.
    shards : tuple of Shards
        Folders both have.
    documents : tuple of Disagreement
    outputs : dict of str -> str
        File written -> ``same``, ``differs``, ``only_one`` or ``only_other``.
    """

    one: Side
    other: Side
    asked: tuple[Changed, ...]
    inputs: tuple[Changed, ...]
    versions: tuple[Changed, ...]
    funnel: tuple[Row, ...]
    shares: dict[str, dict[str, tuple[int, int]]]
    shards: tuple[Shards, ...]
    documents: tuple[Disagreement, ...]
    outputs: dict[str, str]

    @property
    def identical(self) -> bool:
        """Whether both wrote the same files with the same bytes."""
        return bool(self.outputs) and set(self.outputs.values()) == {"same"}

    @property
    def common(self) -> list[str]:
        """The notebooks both have, in order."""
        return [name for name in self.one.states if name in self.other.states]

    @property
    def apart(self) -> tuple[list[str], list[str]]:
        """The notebooks only one of them has, and only the other."""
        left, right = self.one.states, self.other.states
        return [name for name in left if name not in right], [name for name in right if name not in left]


def other_run(run: Run, text: str) -> Run:
    """Return the run that another one is compared with.

    Parameters
    ----------
    run : Run
    text : str
        A name in the same workspace, or the folder of a run of another one; ``before``: the one that was worked on last
        before `run`.

    Raises
    ------
    BadParameter
        If there is none.
    """
    folder = run.path(text)
    if (folder / "run.jsonl").is_file() or (folder / "data").is_dir():
        return Run(folder.parents[1], folder.name)
    if text != "before":
        return Run(run.root, text)
    others = [path for path in (run.root / "runs").glob("*/run.jsonl") if path.parent.name != run.name]
    older = [path for path in others if path.stat().st_mtime <= _worked_on(run)] or others
    if not older:
        raise BadParameter(
            f"comparison: {run.name} is the only run of {run.root}; run something else, or name a folder"
        )
    return Run(run.root, max(older, key=lambda path: (path.stat().st_mtime, path.parent.name)).parent.name)


def _worked_on(run: Run) -> float:
    journal = run.folder / "run.jsonl"
    return journal.stat().st_mtime if journal.is_file() else 0.0


def compare_runs(one: Run, other: Run, *, seed: int = 42, most_tokens: int = MOST_TOKENS) -> Comparison:
    """Compare two runs.

    Parameters
    ----------
    one, other : Run
    seed : int
        Of the sample of documents on which they disagree.
    most_tokens : int
        Shards of more tokens are not compared token by token.

    Returns
    -------
    Comparison

    Raises
    ------
    BadParameter
        If both are the same run, or one of them has done nothing yet.
    """
    if one.folder.resolve() == other.folder.resolve():
        raise BadParameter(f"comparison: {one.name} is the same run twice; name another one")
    for run in (one, other):
        if not run.folder.is_dir():
            raise BadParameter(f"comparison: there is no run {run.name!r} in {run.root}")
    left, right = Side(one), Side(other)
    return Comparison(
        left,
        right,
        asked=tuple(_asked(left, right)),
        inputs=tuple(_differing("", left.inputs, right.inputs)),
        versions=tuple(_differing("", left.versions, right.versions)),
        funnel=tuple(_funnel(left, right)),
        shares=_shares(left, right),
        shards=tuple(_shards(left, right, name, seed, most_tokens) for name in left.shards if name in right.shards),
        documents=tuple(disagreements(one, other, seed)),
        outputs=_compared(left.outputs, right.outputs),
    )


def _asked(one: Side, other: Side) -> Iterator[Changed]:
    for name, values in one.asked.items():
        if name in other.asked:
            plain, others = (
                {key: value for key, value in told.items() if key not in PLAIN} for told in (values, other.asked[name])
            )
            yield from _differing(name, plain, others)


def _differing(where: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Changed]:
    for name in dict.fromkeys([*one, *other]):
        if one.get(name) != other.get(name):
            yield Changed(where, name, one.get(name), other.get(name))


def _funnel(one: Side, other: Side) -> Iterator[Row]:
    for notebook in sorted({*one.ledgers, *other.ledgers}, key=lambda name: (name.split("/")[0], "/" not in name)):
        left, right = one.ledgers.get(notebook, Ledger()), other.ledgers.get(notebook, Ledger())
        for stage in dict.fromkeys([*left.stages, *right.stages]):
            one_row, other_row = _counts(left, stage), _counts(right, stage)
            if one_row or other_row:
                yield Row(notebook, stage, one_row, other_row, _reasons(left, right, stage))


def _counts(ledger: Ledger, stage: str) -> dict[str, int] | None:
    """Return what a stage did with documents; None if it saw none."""
    if not any(at[0] == stage for at in ledger.documents):
        return None
    return {flow: ledger.total(stage, flow) for flow in FLOWS}


def _reasons(one: Ledger, other: Ledger, stage: str) -> dict[tuple[str, str], tuple[int, int]]:
    found = {}
    for flow in ("dropped", "failed"):
        left, right = one.reasons(stage, flow), other.reasons(stage, flow)
        for reason in {*left, *right}:
            pair = left.get(reason, 0), right.get(reason, 0)
            if pair[0] != pair[1]:
                found[flow, reason] = pair
    return dict(sorted(found.items(), key=lambda item: (-abs(item[1][1] - item[1][0]), item[0])))


def _shares(one: Side, other: Side) -> dict[str, dict[str, tuple[int, int]]]:
    """Return what is left of each source where each way ends, in the last notebook of both that kept documents."""
    out: dict[str, dict[str, tuple[int, int]]] = {}
    for way in sorted({name[0] for name in one.ledgers if "/" not in name} - {"0"}):
        names = [name for name in one.ledgers if name[0] == way and name in other.ledgers]
        for name in reversed(names):
            left, right = (_by_source(side, name) for side in (one, other))
            if left and right:
                both = {source: (left.get(source, 0), right.get(source, 0)) for source in {*left, *right}}
                out[name] = dict(sorted(both.items(), key=lambda item: (-sum(item[1]), item[0])))
                break
    return out


def _by_source(side: Side, notebook: str) -> dict[str, int]:
    """Return how much of each source there is: tokens where the shards tell them, documents where not."""
    groups = side.shards.get(notebook, {}).get("totals", {}).get("groups") or []
    counts: Counter[str] = Counter()
    for group in groups:
        counts[group["source"]] += group["tokens"]
    if groups:
        return dict(counts)
    ledger = side.ledgers[notebook]
    last = next((stage for stage in reversed(ledger.stages) if ledger.total(stage, "kept")), None)
    return {source: ledger.total(last, "kept", source) for source in ledger.sources(last)} if last else {}


def _shards(one: Side, other: Side, name: str, seed: int, most: int) -> Shards:
    left, right = one.shards[name], other.shards[name]
    folders = [side.run.folder / "data" / name for side in (one, other)]
    settings = tuple(_differing("", *(_made(told) for told in (left, right))))
    lengths = one.lengths.get(name), other.lengths.get(name)
    drawn = Shards(name, left, right, settings, lengths)
    if drawn.same or not any(_has_mask(told) for told in (left, right)):
        return drawn
    if sum(entry["tokens"] for told in (left, right) for entry in told["shards"]) > most:
        return Shards(name, left, right, settings, lengths, why="compare.too_many_tokens")
    try:
        found = masks.compare(folders[0], folders[1], limit=20, seed=seed)
    except BadParameter:
        return Shards(name, left, right, settings, lengths, why="compare.other_tokenizer")
    except BadShard:
        return Shards(name, left, right, settings, lengths, why="compare.unreadable")
    return Shards(name, left, right, settings, lengths, found)


def _has_mask(told: Mapping[str, Any]) -> bool:
    """Tell whether some of what is written is not trained."""
    totals = told["totals"]
    return totals.get("trained") is not None and totals.get("trained") != totals.get("written")


def _made(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a manifest says of how its shards were made, results and digests apart."""
    kept = {name: told.get(name) for name in ("format", "seq_len", "strategy", "seed", "tokenizer", "recipe")}
    packing = told.get("packing")
    kept["packing"] = packing.get("algorithm") if isinstance(packing, Mapping) else packing
    return dict(_flat("", kept))


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for part, inner in value.items():
            yield from _flat(f"{name}.{part}" if name else str(part), inner)
    else:
        yield name, json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value


def _compared(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    def state(name: str) -> str:
        if name not in other:
            return "only_one"
        if name not in one:
            return "only_other"
        return "same" if one[name] == other[name] else "differs"

    return {name: state(name) for name in sorted({*one, *other}, key=natural)}


def ends(found: Comparison) -> dict[str, tuple[Numbers, Numbers]]:
    """Return the numbers that matter of each notebook both counted in, and of the ways as a whole under ``""``."""
    both = {
        name: (numbers(ledger), numbers(found.other.ledgers[name]))
        for name, ledger in found.one.ledgers.items()
        if name in found.other.ledgers
    }
    return both | {"": (found.one.summary, found.other.summary)}


def brief(found: Comparison) -> list[str]:
    """Return what differs, as lines for a terminal."""
    one, other = found.one.name, found.other.name
    if found.identical:
        return [f"identical: {len(found.outputs)} files, every byte of what {one} and {other} wrote is the same"]
    lines = []
    for name, alone in zip((one, other), found.apart, strict=True):
        lines += [f"only {name}: {', '.join(alone)}"] if alone else []
    lines += [f"{change.where}.{change.name}: {change.one!r} | {change.other!r}" for change in found.asked]
    lines += [f"version of {change.name}: {change.one} | {change.other}" for change in found.versions]
    if found.inputs:
        lines.append(f"inputs: {len(found.inputs)} files differ, {found.inputs[0].name} among them")
    for row in found.funnel:
        if row.one and row.other and row.one["kept"] != row.other["kept"]:
            lines.append(f"{row.notebook} {row.stage}: kept {_signed(row.one['kept'], row.other['kept'])}")
    for shards in found.shards:
        totals = [told["totals"] for told in (shards.one, shards.other)]
        for name in ("written", "trained"):
            pair = [told.get(name) for told in totals]
            if pair[0] != pair[1]:
                lines.append(f"{shards.name}: tokens {name} {_signed(*pair)}")
    for place in found.documents:
        total = sum(place.counts.values())
        lines.append(f"{place.place}: they disagree on {total:,} documents")
    counted = list(found.outputs.values())
    lines.append(f"files written: {counted.count('same')} the same, {len(counted) - counted.count('same')} not")
    return lines


def _signed(one: int | None, other: int | None) -> str:
    if one is None or other is None:
        return f"{_some(one)} | {_some(other)}"
    return f"{one:,} | {other:,} ({other - one:+,})"


def _some(value: int | None) -> str:
    return "nothing" if value is None else f"{value:,}"
