"""Corpus stages over files: what needs all documents is decided from numbers, and no text is written.

    sketch     a task per span       documents ──▶ numbers of fixed size, sorted by key
    decide     a task per key range  rows of one key meet          exact_dedup
               per key range         band keys meet ──▶ groups     near_dedup: groups ──▶ texts of those in them, once
               per batch             groups ──▶ who goes, proven   more, as shingles ──▶ batches that share nothing
               once                  totals ──▶ plan ──▶ limits    mixture
    apply      a task per span       part-00000.copies.npy, .cuts.npy and rejected.jsonl.zst; ledger.json last

Each stage sees what the ones before it left. Memory holds a key range, a batch or a span, whatever the size of the
corpus, and for near_dedup a few numbers for every document that looks like another. The folder stands for the
documents it lets through: see `prep_lib.verdicts`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from prep_lib import decide_tasks as work
from prep_lib import documents as stored
from prep_lib import files as fs
from prep_lib import inputs, rejected, remote, verdicts
from prep_lib.engine import Crew, Task, run_tasks
from prep_lib.errors import BadInput, BadParameter
from prep_lib.events import emit
from prep_lib.inputs import Input, Source
from prep_lib.keys import Key, make_key
from prep_lib.ledger import FEW, Ledger, LossLimit
from prep_lib.locks import lock
from prep_lib.machine import parse_bytes
from prep_lib.pipeline import (
    Limits,
    check_apart,
    check_folder,
    check_names,
    check_sample,
    keeps_all,
    parameters_of,
    share_of,
    stage_digest,
)
from prep_lib.source.read import survey_rows
from prep_lib.stage import Corpus, check_stages, contract
from prep_lib.text import mixture, near_dedup

#: A source that loses a larger share of its documents is worth a line.
ALARM = 0.5


def decide_files(
    stages: Sequence[Corpus],
    files: Sequence[str | Path] | str | Path,
    output_dir: str | Path,
    *,
    text: str = "text",
    source_field: str = "source",
    sample: int = 0,
    seed: int = 42,
    memory_budget: int | str = "2GiB",
    keep_rejected: str = "sample",
    max_failed: float = 0.001,
    max_dropped: float = 0.9,
    engine: str | Executor = "processes",
    workers: int | None = None,
    keep_old: bool = False,
    rehash: bool = False,
) -> Ledger:
    """Decide about the documents of files by looking at all of them.

    Parameters
    ----------
    stages : sequence of Corpus
        In this order: `ExactDedup`, `NearDedup`, `Mixture`. Each sees the texts as they are in the files.
    files : path, fsspec address, or sequence of them
        JSONL or Parquet, folders of documents, or of verdicts: then what they let through.
    output_dir : path
        Gets what the module's drawing shows. It stands for the documents it lets through, and the files must stay.
    text, source_field, keep_rejected, max_failed, engine, workers, keep_old, rehash
        As for `pipeline.run_files`.
    sample : int, records
        0: everything. Otherwise about this many, the same as `pipeline.run_files` draws. A pair is found only if both
        of its documents are drawn: what a sample says of duplicates is true of the sample alone.
    seed : int
        Of the sample, and of which rejected texts are kept.
    memory_budget : int or str, bytes
        For all workers together; the verdicts do not depend on it.
    max_dropped : float
        Share of a source's documents that may go before the run is refused; 1.0: never. It is never refused for
        `ledger.FEW` or fewer.

    Returns
    -------
    Ledger
        Checked: it balances to the last document and character.

    Raises
    ------
    BadParameter, BadInput, TooManyLost, RunLocked, NoSpace, TaskFailed

    Examples
    --------
    >>> import tempfile
    >>> from prep_lib.text.exact_dedup import ExactDedup
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.jsonl").write_text('{"text": "one"}\\n{"text": "two"}\\n{"text": "one"}\\n')
    >>> ledger = decide_files([ExactDedup(keep="first")], folder / "a.jsonl", folder / "out", engine="inline")
    >>> ledger.reasons("exact_dedup", "dropped")
    {'exact_duplicate': 1}
    >>> [(doc.id, doc.text) for doc in stored.Documents(folder / "out")]
    [('a.jsonl#L1', 'one'), ('a.jsonl#L2', 'two')]
    """
    _check_stages(stages)
    everything = keeps_all(keep_rejected, "decide")
    check_sample(sample, "decide")
    limits = Limits(LossLimit("decide", max_failed), max_dropped)
    folder = fs.absolute(output_dir)
    through, columns = verdicts.through(files, "decide")
    paths = inputs.find(through, inputs.NUMBERED, where="decide")
    check_folder(folder, paths, "decide")
    with lock(folder, verdicts.VERDICTS), Crew(engine, workers) as crew:
        sources = inputs.survey(
            paths, folder, crew, where="decide", surveyor=survey_rows, columns=columns, rehash=rehash, count=sample > 0
        )
        check_apart(sources)
        if again := [source.name for source in sources if source.column and source.column.copy]:
            raise BadInput(
                f"decide: {again[0]}: documents that are repeated already cannot be decided about; do it first"
            )
        settings = work.Settings(text, source_field, seed, everything, share_of(sources, sample, "decide"))
        share = settings.share * stored.sampled(files)
        memory = parse_bytes(memory_budget) // crew.workers
        return _Decision(folder, crew, tuple(stages), settings, sources, limits, memory, keep_old, share).run()


def _check_stages(stages: Sequence[Any]) -> None:
    check_stages(stages)
    if not stages:
        raise BadParameter("decide: no stage given; give at least one, such as ExactDedup()")
    check_names([stage.name for stage in stages])
    for stage in stages:
        if contract(stage) != "corpus" or work.way(stage) is None:
            raise BadParameter(
                f"decide: {stage.name} cannot decide over files; it takes a corpus stage with losers, keys or plan"
            )


@dataclass
class _Decision:
    """One run: what is read, which stages decide, where it goes, who works."""

    folder: Path
    crew: Crew
    stages: tuple[Any, ...]
    settings: work.Settings
    sources: list[Source]
    limits: Limits
    memory: int
    keep_old: bool
    share: float

    def run(self) -> Ledger:
        self._clear()
        self.plans: dict[str, Any] = {}
        self.sketched = self._tasks("sketch", [self._sketch(number) for number in range(len(self.pieces))])
        for result in self.sketched:
            self.limits.add({**result, "ledger": {"rows": []}})
        for at, stage in enumerate(self.stages):
            getattr(self, f"_{work.way(stage)}")(at, stage)
        return self._finish(self._tasks("apply", [self._apply(number) for number in range(len(self.pieces))]))

    @cached_property
    def pieces(self) -> list[list[Input]]:
        return inputs.pieces(self.sources)

    def _clear(self) -> None:
        """Take away what says that an older run is complete; what it worked out is kept for tasks that still fit."""
        remote.remove(self.folder / name for name in (stored.LEDGER, stored.NAME, rejected.NAME))
        parts = self.folder.glob("part-*.npy")
        remote.remove(path for path in parts if re.fullmatch(r"part-\d{5,}\.(copies|cuts)\.npy", path.name))

    def _tasks(self, name: str, todo: Sequence[Task]) -> list[dict[str, Any]]:
        return run_tasks(name, todo, self.folder, crew=self.crew, keep_old=self.keep_old)

    def _work(self, name: str, work: Any, args: Mapping[str, Any], outputs: Sequence[str], key: Key | None) -> Task:
        return Task(name, work, {"folder": self.folder, **args}, tuple(outputs), key)

    # Keys: what the numbers depend on

    def _base_key(self, parameters: Any) -> Key | None:
        if None in self._digests:
            return None
        modules = ["prep_lib.decide", *(type(stage).__module__ for stage in self.stages)]
        packages = sorted({name for stage in self.stages for name in getattr(stage, "packages", ())} | {"orjson"})
        ours = sorted({name for name in modules if name.startswith("prep_lib.")})
        return make_key(parameters=parameters, modules=ours, packages=packages)

    @cached_property
    def _sketch_key(self) -> Key | None:
        # A limit that is moved does not make anybody read the texts again.
        bare = [stage_digest(stage, without=getattr(stage, "decides", ())) for stage in self.stages]
        drawn = [self.settings.share, self.settings.seed] if self.settings.share < 1 else []
        return self._base_key([bare, self.settings.text, self.settings.source_field, *drawn])

    @cached_property
    def _inputs_digests(self) -> list[str]:
        whole = []
        for each in self.pieces:
            digests = [[self.sources[one.source].digest, one.name] for one in each]
            places = [[one.span.start, one.span.stop, one.span.first] for one in each]
            whole.append(make_key(inputs=[digests, places])["inputs"])
        return whole

    @cached_property
    def _digests(self) -> list[str | None]:
        """What each stage does, digested once: a stage may hold a tokenizer, and every task has a key."""
        digests = [stage_digest(stage) for stage in self.stages]
        if None in digests:
            emit("note", text="decide: a stage holds what cannot be digested, so nothing is reused")
        return digests

    @cached_property
    def _all_inputs(self) -> str:
        """All inputs in one word."""
        return str(make_key(inputs=self._inputs_digests)["inputs"])

    def _decided_key(self, until: int, *more: Any) -> Key | None:
        """The key of what the stages up to a number decide, about everything."""
        key = self._base_key([self._digests[: until + 1], dataclasses.asdict(self.settings), *more])
        return key and {**key, "inputs": self._all_inputs}

    # Sketch: everything is read once

    def _sketch(self, number: int) -> Task:
        key = self._sketch_key and {**self._sketch_key, "inputs": self._inputs_digests[number]}
        args = {"number": number, "each": self.pieces[number], "stages": self.stages, "settings": self.settings}
        parts = ("heads", "ids", "failed", *(one.name for one in self.stages))
        names = [f"{work.SKETCH}/{number:05d}.{part}.npy" for part in parts]
        return Task(f"sketch-{number:05d}", work.sketch, args, tuple(names), key)

    def _rows(self, stage: Any) -> int:
        return sum(result["rows"][stage.name] for result in self.sketched)

    def _ranges(self, size: int) -> int:
        """How many key ranges there are, so that one fits in memory several times."""
        return max(1, -(-size * 6 // max(self.memory, 2**20)))

    # Rows of one key meet

    def _grouped(self, at: int, stage: Any) -> None:
        ranges = self._ranges(self._rows(stage) * (stage.row.itemsize + 8))
        args = {"at": at, "stages": self.stages, "pieces": len(self.pieces), "ranges": ranges}
        names = [f"{work.DECIDED}/{stage.name}.{number:05d}.gone.npy" for number in range(ranges)]
        self._tasks(stage.name, [
            self._work(
                f"{stage.name}-{number:05d}", work.meet, {**args, "number": number}, [name],
                self._decided_key(at, ranges, number),
            )
            for number, name in enumerate(names)
        ])  # fmt: skip
        self._collect(at, stage, names)

    # Documents whose band keys meet are compared

    def _banded(self, at: int, stage: Any) -> None:
        pieces, base = len(self.pieces), {"at": at, "stages": self.stages}
        keys = [
            self._work(
                f"{stage.name}-keys-{number:05d}", work.band, {**base, "number": number},
                [f"{work.DECIDED}/{stage.name}.{number:05d}.keys.npy"], self._decided_key(at, number),
            )
            for number in range(pieces)
        ]  # fmt: skip
        told = self._tasks(f"{stage.name} keys", keys)
        ranges = self._ranges(sum(result["keys"] for result in told) * 16)
        args = {**base, "pieces": pieces, "ranges": ranges}
        met = [
            self._work(
                f"{stage.name}-groups-{number:05d}", work.group, {**args, "number": number},
                [f"{work.DECIDED}/{stage.name}.{number:05d}.{part}.npy" for part in ("starts", "members")],
                self._decided_key(at, ranges, number),
            )
            for number in range(ranges)
        ]  # fmt: skip
        self._tasks(f"{stage.name} groups", met)
        batches = self._batches(at, stage, ranges)
        self._evidence(at, stage, batches)
        names = [f"{work.DECIDED}/{stage.name}.{number:05d}.gone.npy" for number in range(len(batches))]
        self._tasks(stage.name, [
            self._work(
                f"{stage.name}-{number:05d}", work.settle, {**base, "number": number}, [name],
                self._decided_key(at, ranges, self.memory, number),
            )
            for number, name in enumerate(names)
        ])  # fmt: skip
        self._collect(at, stage, names)

    def _batches(self, at: int, stage: Any, ranges: int) -> list[np.ndarray]:
        """Write the groups of each batch, and return its documents: no group is in two, so each settles by itself."""
        starts, members = work.all_groups(self.folder, stage.name, ranges)
        named, labels = near_dedup.components(starts, members)
        order = np.argsort(labels, kind="stable")
        # Texts as shingles take about two bytes a character, and the pass over them as much again.
        cost = np.cumsum(self._characters(named)[order] * 4 + 1024)
        first = np.flatnonzero(np.diff(labels[order], prepend=-1))
        batch_of_label = (cost[first] if len(first) else cost[:0]) // max(self.memory, 2**20)
        batch = np.empty(len(named), np.int64)
        batch[order] = np.repeat(batch_of_label, np.diff(np.append(first, len(named))))
        _, batch = np.unique(batch, return_inverse=True)
        group_batch = batch[np.searchsorted(named, members[starts[:-1]])] if len(members) else batch
        out = []
        for number in range(int(batch.max()) + 1 if len(batch) else 0):
            mine = np.flatnonzero(group_batch == number)
            sizes = (starts[1:] - starts[:-1])[mine]
            inside = np.concatenate([members[starts[one] : starts[one + 1]] for one in mine])
            place = self.folder / work.DECIDED / f"{stage.name}.{number:05d}"
            work.save(f"{place}.batch-starts.npy", np.concatenate([[0], np.cumsum(sizes)]))
            work.save(f"{place}.batch-members.npy", inside)
            out.append(named[batch == number])
        return out

    def _characters(self, documents: np.ndarray) -> np.ndarray:
        out = np.zeros(len(documents), np.int64)
        for number, low, high in work.by_piece(documents):
            heads = fs.load_array(self.folder / work.SKETCH / f"{number:05d}.heads.npy", mmap_mode="r")
            out[low:high] = heads["characters"][documents[low:high] % work.PLACE]
        return out

    def _evidence(self, at: int, stage: Any, batches: Sequence[np.ndarray]) -> None:
        """Have the texts of the documents that meet read once more, each span by itself."""
        whole = np.concatenate([np.empty(0, np.int64), *batches])
        batch = np.repeat(np.arange(len(batches)), [len(one) for one in batches])
        order = np.argsort(whole)
        whole, batch = whole[order], batch[order]
        tasks = []
        for number, low, high in work.by_piece(whole):
            args = {
                "at": at, "stages": self.stages, "number": number, "each": self.pieces[number],
                "settings": self.settings, "wanted": whole[low:high] % work.PLACE, "batch": batch[low:high],
            }  # fmt: skip
            names = [f"{work.DECIDED}/{stage.name}.{number:05d}.evidence.{part}.npy" for part in ("table", "values")]
            key = self._decided_key(at, number, make_key(inputs=[whole[low:high].tolist(), batch[low:high].tolist()]))
            tasks.append(self._work(f"{stage.name}-evidence-{number:05d}", work.prove, args, names, key))
        self._tasks(f"{stage.name} evidence", tasks)
        # A span whose documents meet nobody any more has nothing to tell the batches.
        current = {name for task in tasks for name in task.outputs}
        old = (self.folder / work.DECIDED).glob(f"{stage.name}.*.evidence.*.npy")
        remote.remove(path for path in old if f"{work.DECIDED}/{path.name}" not in current)

    # Everything is added up

    def _counted(self, at: int, stage: Any) -> None:
        names = sorted({name for result in self.sketched for name in result["labels"].get(stage.name, ())})
        pieces = range(len(self.pieces))
        counted = mixture.add(mixture.totals(work.alive(self.folder, self.stages, at, number)) for number in pieces)
        plan = stage.plan(mixture.sizes(counted, names))
        cut, held = mixture.cuts(plan, counted), [np.empty(0, work.stored_row(stage))]
        for number in pieces:
            rows = work.alive(self.folder, self.stages, at, number)
            held.append(rows[mixture.inside(rows, cut)])
        limit = mixture.limits(plan, counted, np.concatenate(held))
        self.plans[stage.name] = mixture.settle(plan, limit).table()
        self._collect(at, stage, [], limit)

    # What a stage decided, span by span

    def _collect(self, at: int, stage: Any, gone: Sequence[str], limit: np.ndarray | None = None) -> None:
        args = {"at": at, "stages": self.stages, "gone": list(gone), "limit": limit}
        self._tasks(f"{stage.name} verdicts", [
            self._work(
                f"{stage.name}-verdicts-{number:05d}", work.collect, {**args, "number": number},
                [f"{work.DECIDED}/{stage.name}.{number:05d}.{part}.npy" for part in ("verdicts", "cuts")],
                self._decided_key(at, number, len(gone)),
            )
            for number in range(len(self.pieces))
        ])  # fmt: skip

    # Applied: columns, ledger, rejected

    def _apply(self, number: int) -> Task:
        args = {"number": number, "each": self.pieces[number], "stages": self.stages, "settings": self.settings}
        names = [f"{work.DECIDED}/{number:05d}.{part}.npy" for part in ("copies", "spans")]
        names.append(f"{work.WAITING}/{number:05d}.{rejected.NAME}")
        key = self._decided_key(len(self.stages) - 1, number)
        return self._work(f"apply-{number:05d}", work.apply, {**args, "told": self.sketched[number]}, names, key)

    def _finish(self, results: Sequence[Mapping[str, Any]]) -> Ledger:
        ledger = Ledger(stages=["read", *(stage.name for stage in self.stages)])
        for result in results:
            ledger += Ledger.from_json(json.dumps(result["ledger"]))
        ledger.check()
        self._check_lost(ledger, results)
        waiting = [self.folder / work.WAITING / f"{number:05d}.{rejected.NAME}" for number in range(len(results))]
        rejected.join(waiting, self.folder / rejected.NAME, self.settings.seed, everything=self.settings.everything)
        for source in self.sources:
            Input(fs.Span(source.path), 0, source.name, source.stamp).check()
        parts = [self._part(number, source) for number, source in enumerate(self.sources)]
        with fs.write_whole(self.folder / verdicts.STAMPS, "w") as file:
            json.dump({part["file"]: source.stamp for part, source in zip(parts, self.sources, strict=True)}, file)
        with fs.write_whole(self.folder / work.LABELS, "w") as file:
            files = (sorted({one.source for one in each}) for each in self.pieces)
            json.dump([[told["names"], read] for told, read in zip(self.sketched, files, strict=True)], file)
        with fs.write_whole(self.folder / stored.NAME, "w") as file:
            json.dump(self._contents(parts, results), file, ensure_ascii=False, indent=1)
        with fs.write_whole(self.folder / stored.LEDGER, "w") as file:
            file.write(ledger.to_json())
        return ledger

    def _check_lost(self, ledger: Ledger, results: Sequence[Mapping[str, Any]]) -> None:
        """Refuse a run in which a source loses too much; what a mixture leaves out was asked for."""
        asked = {stage.name for stage in self.stages if work.way(stage) == "counted"}
        examples: dict[str, list[str]] = {}
        for result in results:
            for reason, places in result["examples"].items():
                examples.setdefault(reason, []).extend(places)
        rows = [row for row in ledger.rows() if row["stage"] not in asked]
        self.limits.add({"seen": 0, "failed": {}, "examples": examples, "ledger": {"rows": rows}})
        for source, reasons in sorted(self.limits.dropped.items()):
            seen, gone = self.limits.seen[source], reasons.total()
            if gone > max(FEW, ALARM * seen):
                emit(
                    "note",
                    text=f"decide: {source!r} loses {gone:,} of {seen:,} documents ({gone / seen:.0%}); look at them",
                )

    @cached_property
    def _spans(self) -> list[list[tuple[int, int]]]:
        """For each input file the spans of it, as (piece, place in the piece), in order."""
        out: list[list[tuple[int, int]]] = [[] for _ in self.sources]
        for number, each in enumerate(self.pieces):
            for place, one in enumerate(each):
                out[one.source].append((number, place))
        return out

    def _part(self, number: int, source: Source) -> dict[str, Any]:
        """Join what was decided about the spans of one file."""
        first, found = self._first(source), list[tuple[int, np.ndarray, np.ndarray]]()
        for piece, place in self._spans[number]:
            ends = np.concatenate([[0], np.cumsum(self.sketched[piece]["records"])])
            low, high = int(ends[place]), int(ends[place + 1])
            spans = fs.load_array(self.folder / work.DECIDED / f"{piece:05d}.spans.npy")
            spans = spans[(spans["record"] >= low) & (spans["record"] < high)]
            begin = self.pieces[piece][place].span.first - first
            spans["record"] += begin - low
            copied = fs.load_array(self.folder / work.DECIDED / f"{piece:05d}.copies.npy", mmap_mode="r")
            found.append((begin, copied[low:high], spans))
        # Blank lines between spans have a place, and nobody asks for it.
        copies = np.zeros(max((begin + len(part) for begin, part, _ in found), default=0), np.uint16)
        for begin, part, _ in found:
            copies[begin : begin + len(part)] = part
        cuts = np.concatenate([np.empty(0, verdicts.CUTS), *(spans for _, _, spans in found)])
        name = f"part-{number:05d}"
        paths = {part: self.folder / f"{name}.{part}.npy" for part in ("copies", "cuts")}
        for kind, values in (("copies", copies), ("cuts", cuts)):
            work.save(paths[kind], values)
        often = np.bincount(copies)[1:][::-1].cumsum()[::-1]
        base = verdicts.base_of(source.path, self.folder)
        return {
            "file": name, "base": base, "base_sha256": source.survey.digest, "first": self._first(source),
            "records": often.tolist(), "bytes": {part: path.stat().st_size for part, path in paths.items()},
            "sha256": "+".join(fs.digest(path) for path in paths.values()),
        }  # fmt: skip

    @staticmethod
    def _first(source: Source) -> int:
        return 0 if source.path.endswith(".parquet") else 1

    def _contents(self, parts: list[dict[str, Any]], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        names = sorted({row["source"] for result in results for row in result["ledger"]["rows"]})
        tallies: Counter[tuple[str, ...]] = Counter()
        for result in results:
            tallies.update({tuple(at): number for *at, number in result["tallies"]})
        return {
            "format": "verdicts",
            "version": verdicts.VERSION,
            "text": self.settings.text,
            "source_field": self.settings.source_field,
            "documents": sum(result["documents"] for result in results),
            "characters": sum(result["characters"] for result in results),
            "parts": parts,
            "inputs": [[source.name, source.digest] for source in self.sources],
            "sample": self.share if self.share < 1 else None,
            "stages": [{"name": stage.name, "parameters": parameters_of(stage)} for stage in self.stages],
            "measured": {},
            "plans": self.plans,
            "sources": {str(stored.id_hash(name)): name for name in names},
            "tallies": [[*at, number] for at, number in sorted(tallies.items())],
        }


# For whoever wants to see what was decided


@dataclass(frozen=True)
class Sketches:
    """The sketches of everything in a folder of verdicts, for a rehearsal or a picture.

    Parameters
    ----------
    ids : list of str
        The documents that were sketched, in the order of the files.
    sources : list of str
    characters : (n,) int64
    rows : (n,) structured
        What the stage noted of each; its `place` is the document's place here.
    spans : (n,) int64
        Which span of the input each stands in.
    files : list of list of int
        Which files each span was read from, by their place among the inputs.
    """

    ids: list[str]
    sources: list[str]
    characters: np.ndarray
    rows: np.ndarray
    spans: np.ndarray
    files: list[list[int]]


def sketches(
    folder: str | Path,
    stage: Corpus,
    *,
    before: bool = True,
    choose: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Sketches:
    """Return what a stage with one row a document noted when `decide_files` ran; memory holds all that is chosen.

    Parameters
    ----------
    folder : path
        That `decide_files` wrote.
    stage : Corpus
        As it ran there, but for what its `decides` names.
    before : bool
        True: only documents that the stages before it let through, which is what it decides about.
    choose : callable or None
        Called with the rows of a span, returns which are wanted, bool. None: all.
    """
    folder = fs.place(folder)
    contents = stored.Documents(folder).contents
    names = [told["name"] for told in contents["stages"]]
    if stage.name not in names:
        raise BadInput(f"decide: {stage.name} did not decide in {folder}; it was {', '.join(names)}")
    at = names.index(stage.name) if before else 0
    ids, sources = list[str](), list[str]()
    characters, rows, files = [np.empty(0, np.int64)], [np.empty(0, stage.row)], list[list[int]]()
    for number, (told, read) in enumerate(json.loads((folder / work.LABELS).read_bytes())):
        table = fs.load_array(folder / work.SKETCH / f"{number:05d}.{stage.name}.npy")
        gone = work.gone_before(folder, names[:at], number)
        table = table[~np.isin(table["document"], gone)]
        table = table if choose is None else table[choose(table)]
        heads = fs.load_array(folder / work.SKETCH / f"{number:05d}.heads.npy")
        ends = np.concatenate([[0], heads["id_end"]]).tolist()
        spelled = fs.load_array(folder / work.SKETCH / f"{number:05d}.ids.npy").tobytes()
        for document in table["document"].tolist():
            ids.append(spelled[ends[document] : ends[document + 1]].decode("utf-8", "surrogatepass"))
            sources.append(told[heads["source"][document]])
        characters.append(heads["characters"][table["document"]])
        rows.append(work.bare(stage, table))
        files.append(read)
    whole, sizes = np.concatenate(rows), [len(each) for each in rows[1:]]
    if "place" in (whole.dtype.names or ()):
        whole["place"] = np.arange(len(whole))
    return Sketches(ids, sources, np.concatenate(characters), whole, np.repeat(np.arange(len(sizes)), sizes), files)
