"""The documents that two runs decide differently: counted exactly in bounded memory, with a seeded sample of each kind.

    run a   rejected.jsonl.zst ──hash of the id──▶  64 partitions on disk ─┐
    run b   rejected.jsonl.zst ──hash of the id──▶  64 partitions on disk ─┴─▶  sorted and merged, one at a time

    a.jsonl#L7      a  12_dedup near_dedup near_duplicate 0.84 >= 0.8      b  kept

Where both read the same inputs, who is not among the rejected was kept, and only those are read. Where not, the ids of
all documents that came through are read too. Ids are compared by 64-bit hashes: two of ten million share one with a
chance of 3 in a million.
"""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prep_lib import documents as stored
from prep_lib import rejected
from prep_lib.documents import Documents, id_hash
from prep_lib.files import natural
from prep_lib.seeds import key as draw
from prep_lib.shards import manifest
from prep_lib.verdicts import first_copy
from prep_lib.workspace import Run

#: Ids are sorted a partition at a time.
PARTITIONS = 64

#: Rows held before they are written to their partitions.
HELD = 2**20

#: Examples of one pair of fates, and pairs that get some, the commonest first.
EACH, PAIRS = 3, 40

#: Characters kept of the text of an example.
EXCERPT = 300

_ROW = np.dtype([("hash", "<u8"), ("code", "<i4")])


class Fate(NamedTuple):
    """What became of a document: who turned it down, and why; all empty: kept; flow ``absent``: it never came."""

    folder: str = ""
    stage: str = ""
    flow: str = "kept"
    reason: str = ""


KEPT, ABSENT = Fate(), Fate(flow="absent")


@dataclass(frozen=True)
class Example:
    """One document of which two runs think differently.

    Parameters
    ----------
    id : str
    one, other : dict or None
        Its line among what was rejected, see `prep_lib.rejected`; None where it was kept, or never came.
    """

    id: str
    one: dict[str, Any] | None
    other: dict[str, Any] | None


@dataclass(frozen=True)
class Disagreement:
    """What two runs decide differently at one place of their way.

    Parameters
    ----------
    place : str
        The notebooks that decided: ``10_read – 13_mix``.
    counts : dict of (Fate, Fate) -> int, documents
        Every pair that is not the same, the commonest first.
    examples : dict of (Fate, Fate) -> tuple of Example
    same_inputs : bool
        Both read the same documents, as their digests say.
    """

    place: str
    counts: dict[tuple[Fate, Fate], int]
    examples: dict[tuple[Fate, Fate], tuple[Example, ...]]
    same_inputs: bool = True

    def total(self, one: str | None = None, other: str | None = None) -> int:
        """Return how many documents have fates of these flows; None: of any but ``kept`` and ``absent``."""
        return sum(
            n
            for pair, n in self.counts.items()
            if all(_is(fate, flow) for fate, flow in zip(pair, (one, other), strict=True))
        )


def _is(fate: Fate, flow: str | None) -> bool:
    return fate.flow == flow if flow else fate not in (KEPT, ABSENT)


# ── where to look ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Level:
    """Folders of one run whose ids mean the same documents.

    Parameters
    ----------
    folders : list of (name, file of what was rejected)
    inputs : JSON value
        Equal where the same documents came in.
    last : Path or None
        The folder of documents that came through; None: nobody wrote their ids down.
    """

    folders: list[tuple[str, Path]] = field(default_factory=list)
    inputs: Any = None
    last: Path | None = None


def levels(run: Run) -> dict[str, Level]:
    """Return where the documents of a run were decided about.

    Returns
    -------
    dict
        ``documents`` is the chain of folders whose documents keep their ids; an export, and each folder of shards,
        stand by their own names, for there a document is a row, or a line, of the input.
    """
    data = run.folder / "data"
    found: dict[str, Level] = {}
    for path in _inside(data, stored.NAME):
        chain = found.setdefault("documents", Level())
        chain.folders.append((path.parent.relative_to(data).as_posix(), path.with_name(rejected.NAME)))
        chain.last = path.parent
    for path in _inside(data, "*_rejected.jsonl"):
        name = path.parent.relative_to(data).as_posix()
        found.setdefault(name, Level()).folders.append((name, path))
    for path in _inside(data, manifest.NAME):
        beside = path.with_name(rejected.NAME)
        if beside.is_file():
            name = path.parent.relative_to(data).as_posix()
            told = manifest.read_manifest(path.parent)
            asked = told["recipe"] or {}
            found[name] = Level([(name, beside)], [told["parents"], asked.get("sample"), asked.get("inputs")])
    return found


def _inside(data: Path, pattern: str) -> list[Path]:
    """Return files in the order in which notebooks wrote them: what lies in a folder inside came first."""
    paths = (path for path in data.rglob(pattern) if _counts(path.relative_to(data).parts))
    return sorted(paths, key=lambda path: _order(path.relative_to(data).parts))


def _counts(parts: Sequence[str]) -> bool:
    # A tour shows every stage, each for itself.
    return not any(part.startswith(".") for part in parts) and not parts[0].startswith("00")


def _order(parts: Sequence[str]) -> Any:
    return parts[0], len(parts) == 2, [natural(part) for part in parts]


def disagreements(one: Run, other: Run, seed: int = 42) -> list[Disagreement]:
    """Return what two runs decide differently, place by place; a place only one of them came to is left out."""
    found, others = levels(one), levels(other)
    return [
        each
        for name, level in found.items()
        if name in others
        for each in [_at(name, level, others[name], seed)]
        if each is not None
    ]


def _at(name: str, one: Level, other: Level, seed: int) -> Disagreement | None:
    common = [place for place, _ in one.folders if place in dict(other.folders)]
    if not common:
        return None
    # A folder that only one run came to after that says nothing about the other.
    pair = [_until(level, common[-1]) for level in (one, other)]
    place = name if name != "documents" else " – ".join(dict.fromkeys((pair[0].folders[0][0], common[-1])))
    whole = [_universe(level) if name == "documents" else level.inputs for level in pair]
    same = whole[0] is not None and whole[0] == whole[1]
    if not same and any(level.last is None for level in pair) and whole[0] is not None:
        return Disagreement(place, {}, {}, same_inputs=False)
    with tempfile.TemporaryDirectory(prefix="prep-compare-") as scratch:
        return _Merge(Path(scratch), pair[0], pair[1], read_kept=not same and whole[0] is not None, seed=seed).told(
            place, same
        )


def _until(level: Level, last: str) -> Level:
    names = [name for name, _ in level.folders]
    folders = level.folders[: names.index(last) + 1]
    return Level(folders, level.inputs, folders[-1][1].parent if level.last else None)


def _universe(level: Level) -> Any:
    contents = Documents(level.folders[0][1].parent).contents
    return [contents["inputs"], contents.get("sample")]


# ── who differs ──────────────────────────────────────────────────────────────────────────────────────────────────────


class _Merge:
    """Two runs' fates, partitioned by the hash of the id, met one partition at a time."""

    def __init__(self, scratch: Path, one: Level, other: Level, *, read_kept: bool, seed: int) -> None:
        self.scratch, self.levels, self.read_kept = scratch, (one, other), read_kept
        self.salt = np.uint64(draw(seed, "disagree", ""))
        self.codes: dict[Fate, int] = {KEPT: 0, ABSENT: 1}

    def told(self, place: str, same: bool) -> Disagreement:
        for side, level in enumerate(self.levels):
            self._spill(side, level)
        counts: Counter[tuple[int, int]] = Counter()
        chosen: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for number in range(PARTITIONS):
            self._meet(number, counts, chosen)
        fates = list(self.codes)
        named = {(fates[a], fates[b]): n for (a, b), n in counts.items()}
        ordered = dict(sorted(named.items(), key=lambda item: (-item[1], item[0])))
        wanted = {
            hash: (fates[a], fates[b])
            for (a, b), lots in chosen.items()
            for _, hash in lots
            if (fates[a], fates[b]) in itertools.islice(ordered, PAIRS)
        }
        return Disagreement(place, ordered, self._examples(wanted), same)

    def _spill(self, side: int, level: Level) -> None:
        held = np.empty(HELD, _ROW)
        files = [open(self._path(side, number), "wb") for number in range(PARTITIONS)]  # noqa: SIM115
        try:
            rows = self._rows(level)
            while size := sum(1 for _ in _filled(held, rows)):
                part = held[:size]
                place = (part["hash"] >> np.uint64(58)).astype(np.int64)
                ordered = part[np.argsort(place, kind="stable")]
                ends = np.cumsum(np.bincount(place, minlength=PARTITIONS))
                for file, mine in zip(files, np.split(ordered, ends[:-1]), strict=True):
                    file.write(mine.tobytes())
        finally:
            for file in files:
                file.close()

    def _path(self, side: int, number: int) -> Path:
        return self.scratch / f"{side}-{number:02d}"

    def _rows(self, level: Level) -> Iterator[tuple[int, int]]:
        for name, path in level.folders:
            for line in rejected.read(path):
                yield id_hash(first_copy(line["id"])), self.codes.setdefault(_fate(name, line), len(self.codes))
        if self.read_kept and level.last is not None:
            for doc in Documents(level.last):
                yield id_hash(first_copy(doc.id)), 0

    def _meet(
        self, number: int, counts: Counter[tuple[int, int]], chosen: dict[tuple[int, int], list[tuple[int, int]]]
    ) -> None:
        """Count the pairs of fates of one partition, and keep the smallest lots of each."""
        sides = [self._load(side, number) for side in (0, 1)]
        hashes = np.union1d(*(side["hash"] for side in sides))
        # Who is nowhere was kept, where both saw the same; where not, it never came.
        codes = np.full((2, len(hashes)), 1 if self.read_kept else 0, np.int64)
        for mine, side in zip(codes, sides, strict=True):
            mine[np.searchsorted(hashes, side["hash"])] = side["code"]
        differs = codes[0] != codes[1]
        hashes, codes = hashes[differs], codes[:, differs]
        lots = hashes ^ self.salt
        order = np.lexsort((lots, codes[1], codes[0]))
        ends = np.flatnonzero(np.diff(codes[:, order], axis=1).any(axis=0)) + 1
        for mine in np.split(order, ends) if len(order) else ():
            pair = int(codes[0, mine[0]]), int(codes[1, mine[0]])
            counts[pair] += len(mine)
            best = zip(lots[mine[:EACH]].tolist(), hashes[mine[:EACH]].tolist(), strict=True)
            chosen[pair] = sorted([*chosen.get(pair, ()), *best])[:EACH]

    def _load(self, side: int, number: int) -> np.ndarray:
        rows = np.fromfile(self._path(side, number), _ROW)
        # The first word counts: who was turned down twice was so by the earlier stage, or in its first copy.
        return rows[np.unique(rows["hash"], return_index=True)[1]]

    def _examples(self, wanted: dict[int, tuple[Fate, Fate]]) -> dict[tuple[Fate, Fate], tuple[Example, ...]]:
        lines: list[dict[int, dict[str, Any]]] = [{}, {}]
        for found, level in zip(lines, self.levels, strict=True):
            for name, path in level.folders:
                for line in rejected.read(path):
                    hash = id_hash(first_copy(line["id"]))
                    if hash in wanted and hash not in found:
                        text = line.get("text")
                        found[hash] = {**line, "folder": name, "text": text[:EXCERPT] if text else text}
        out: dict[tuple[Fate, Fate], list[Example]] = {}
        for hash, pair in wanted.items():
            sides = [found.get(hash) for found in lines]
            told = sides[0] or sides[1]
            if told is not None:
                out.setdefault(pair, []).append(Example(first_copy(told["id"]), *sides))
        return {pair: tuple(sorted(found, key=lambda each: natural(each.id))) for pair, found in out.items()}


def _fate(folder: str, line: dict[str, Any]) -> Fate:
    return Fate(folder, line.get("stage", "export"), line.get("flow", "failed"), line["reason"])


def _filled(held: np.ndarray, rows: Iterator[tuple[int, int]]) -> Iterator[int]:
    """Put rows into an array until it is full, and yield the place of each."""
    for at, row in enumerate(itertools.islice(rows, len(held))):
        held[at] = row
        yield at
