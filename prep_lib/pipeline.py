"""Files pass through maps and judges: read, changed, judged, and written as documents.

    survey   digest and cut every input                  small files together
    clean    a task per span of input                    records -> stage -> stage -> part-00000.jsonl.zst
    then     rejected.jsonl.zst, documents.json, and ledger.json last: its presence means the folder is complete

    a.jsonl ──read──▶ normalize ──▶ language ──▶ quality ──▶ part-00000.jsonl.zst
               │ failed               │ dropped    │ dropped      part-00000.quality.npy  (kept and dropped)
               └──────────────────────┴────────────┴──▶ rejected.jsonl.zst

Every document passes all stages in one go, so text is read and written once, however many stages there are; memory
holds a few hundred short documents, or one long one. The bytes do not depend on workers, nor on how the files are cut.
"""

from __future__ import annotations

import contextlib
import dataclasses
import heapq
import json
import os
import pickle
import re
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import zstandard

from prep_lib import documents as stored
from prep_lib import files as fs
from prep_lib import inputs, rejected, remote, seeds, verdicts
from prep_lib.engine import Crew, Task, run_tasks
from prep_lib.errors import BadInput, BadParameter, BadRecord, TooManyLost
from prep_lib.events import emit
from prep_lib.files import Span, Survey
from prep_lib.inputs import Input, Source
from prep_lib.keys import Key, function_digest, make_key
from prep_lib.ledger import FEW, Ledger, LossLimit
from prep_lib.locks import HIDDEN, lock
from prep_lib.record import Cut, Document, Drop
from prep_lib.rejected import RejectedWriter
from prep_lib.source import jsonl, read
from prep_lib.stage import Counts, Judge, Line, Map, Measuring, Rejected, together

#: Where the rejected records of finished tasks wait to be joined.
WAITING = f"{HIDDEN}/rejected"

#: What a part of documents, or of numbers, is called.
_PART = re.compile(r"part-\d{5,}\.(jsonl\.zst|[A-Za-z][A-Za-z0-9_-]*\.npy)")

#: What readers find out about a document, added up as `stage.Line` does for maps.
READ = ("format", "encoding", "encoding_by", "content_type", "damage")

#: Bytes of several files from which processes of their own read them to draw a sample: they take a second to begin.
SPREAD = 2**28

#: Libraries whose output is written, whatever the stages are.
PACKAGES = ("fastwarc", "orjson", "pyarrow", "zstandard")


@dataclass(frozen=True)
class _Settings:
    """What changes the bytes of an output, beside the stages.

    Parameters
    ----------
    text : str
        The key that holds the text of a JSONL or Parquet record.
    source_field : str
        The key that names its source; empty: the file does.
    options : mapping
        Handed to the readers that know them.
    seed : int
    everything : bool
        Rejected texts are all kept.
    """

    text: str
    source_field: str
    options: Mapping[str, Any]
    seed: int
    everything: bool


def run_files(
    stages: Sequence[Map | Judge],
    files: Sequence[str | Path] | str | Path,
    output_dir: str | Path,
    *,
    text: str = "text",
    source_field: str = "source",
    options: Mapping[str, Any] | None = None,
    sample: int = 0,
    seed: int = 42,
    keep_rejected: str = "sample",
    max_failed: float = 0.001,
    max_dropped: float = 1.0,
    engine: str | Executor = "processes",
    workers: int | None = None,
    keep_old: bool = False,
    rehash: bool = False,
) -> Ledger:
    """Pass files through stages, and write the documents that come through.

    Parameters
    ----------
    stages : sequence of Map or Judge
        In this order; none: the files are only read. Each must be picklable.
    files : path, fsspec address, or sequence of them
        Anything `source.read` knows by its ending; a folder stands for all such files in it, at any depth. Documents of
        an earlier run are read as they are, those it decided about as it decided.
    output_dir : path
        Gets what `prep_lib.documents` draws.
    text : str
        The key, or column, that holds the text.
    source_field : str
        The key that says where a record belongs, for the ledger; empty or missing: its file, or its folder.
    options : mapping or None
        For readers, such as ``{"max_bytes": 2**20}``; each takes those it knows.
    sample : int, records
        0: everything. Otherwise about this many, chosen by a hash of their ids over all files.
    seed : int
        Of the sample, and of which rejected texts are kept.
    keep_rejected : "sample" or "all"
        Whether a rejected document keeps its text: of each reason and source `rejected.KEPT_TEXTS`, or always.
    max_failed : float
        Share of records that may fail before the run stops; it never stops for `ledger.FEW` or fewer.
    max_dropped : float
        Share of a source's documents that may be dropped before the run stops; 1.0: never.
    engine, workers
        As for `engine.Crew`: processes of this machine, a cluster, or an executor. No byte depends on them.
    keep_old : bool
        True: finished tasks are used even if the code has changed since.
    rehash : bool
        True: digest inputs, and what an earlier run wrote, again even if size and time of change are as remembered.

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
    >>> from prep_lib.text.normalize import Normalize
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.jsonl").write_text('{"text": "one\\\\r\\\\ntwo"}\\n{"txt": "?"}\\n')
    >>> ledger = run_files([Normalize()], folder / "a.jsonl", folder / "out", engine="inline")
    >>> ledger.total("normalize", "kept"), ledger.reasons("read", "failed")
    (1, {'missing_text': 1})
    >>> [doc.text for doc in stored.Documents(folder / "out")]
    ['one\\ntwo']
    """
    Line(stages)
    check_names([stage.name for stage in stages])
    everything = keeps_all(keep_rejected, "pipeline")
    check_sample(sample, "pipeline")
    limits = Limits(LossLimit("pipeline", max_failed), max_dropped)
    folder = fs.absolute(output_dir)
    through, columns = verdicts.through(files, "pipeline")
    paths = inputs.find(through, read.ENDINGS, where="pipeline", deep=True)
    check_folder(folder, paths, "pipeline")
    settings = _Settings(text, source_field, dict(options or {}), seed, everything)
    with lock(folder, inputs.DOCUMENTS), Crew(engine, workers) as crew:
        sources = inputs.survey(
            paths, folder, crew, where="pipeline", surveyor=survey, parts=_parts, columns=columns, rehash=rehash,
            count=sample > 0,
        )  # fmt: skip
        check_apart(sources)
        share = share_of(sources, sample, "pipeline")
        before = stored.sampled(files)
        return _Run(folder, crew, tuple(stages), settings, sources, share, limits, keep_old, rehash, before).run()


def keeps_all(keep_rejected: str, where: str) -> bool:
    """Read "sample" or "all"; refuse anything else."""
    if keep_rejected not in ("sample", "all"):
        raise BadParameter(f"{where}: keep_rejected must be 'sample' or 'all', got {keep_rejected!r}")
    return keep_rejected == "all"


def check_names(names: Sequence[str]) -> None:
    """Refuse names of stages that cannot name files, or that readers and writers have."""
    for name in names:
        if name in ("read", "write") or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,40}", name):
            raise BadParameter(
                f"pipeline: a stage cannot be named {name!r}: letters, digits and _ only, and not read or write"
            )


def draw(
    files: Sequence[str | Path] | str | Path,
    size: int,
    seed: int = 42,
    *,
    text: str = "text",
    source_field: str = "source",
    workers: int | None = None,
    **options: Any,
) -> list[Document]:
    """Draw documents to look at, by a hash of their ids over all files: the same ones in every notebook.

    All of the files are read, because every document has the same chance; only what is drawn so far is parsed.

    Parameters
    ----------
    files
        As for `run_files`.
    size : int
        How many; 0: all of them.
    seed : int
    text, source_field, **options
        As for `run_files`.
    workers : int or None
        Processes that read, where there are several files of `SPREAD` bytes together; None: this machine's share.

    Returns
    -------
    list of Document
        In the order of the files. What cannot be read is left out.
    """
    named, crew = _named(files), Crew("processes", workers)
    if not size:
        every = (doc for one in named for _, doc in _reader(one, text, source_field, options))
        return [doc for doc in every if isinstance(doc, Document)]
    told: dict[str, Any] = {"size": size, "seed": seed, "text": text, "field": source_field, "options": options}
    if crew.workers > 1 and len(named) > 1 and _bytes(named) >= SPREAD:
        with tempfile.TemporaryDirectory() as folder, crew:
            tasks = [
                Task(name := f"draw-{one.source:05d}", _draw_apart, {"one": one, **told}, (name,)) for one in named
            ]
            run_tasks("draw", tasks, folder, crew=crew)
            found = [lot for task in tasks for lot in pickle.loads(Path(folder, *task.outputs).read_bytes())]
        drawn = heapq.nlargest(size, found)
    else:
        drawn = _drawn(named, **told)
    return [doc for *_, doc in sorted(drawn, key=lambda lot: lot[1:3], reverse=True)]


def _bytes(named: Sequence[Input]) -> int:
    return sum(size for size, *_ in fs.stamps([one.span.path for one in named]).values())


#: A document that was drawn: the largest hash is the first to go, then the last in the order of the files.
_Lot: TypeAlias = tuple[int, int, int, Document]


def _drawn(
    named: Sequence[Input], size: int, seed: int, text: str, field: str, options: Mapping[str, Any]
) -> list[_Lot]:
    """Return a heap of the documents of some files with the smallest hashes."""
    drawn: list[_Lot] = []

    def wanted(name: str) -> bool:
        return len(drawn) < size or seeds.key(seed, "sample", name) < -drawn[0][0]

    for one in named:
        found = (doc for _, doc in _reader(one, text, field, {**options, "wanted": wanted}))
        for at, doc in enumerate(doc for doc in found if isinstance(doc, Document)):
            add = heapq.heappush if len(drawn) < size else heapq.heappushpop
            add(drawn, (-seeds.key(seed, "sample", doc.id), -one.source, -at, doc))
    return drawn


def _draw_apart(one: Input, out: Path, **told: Any) -> dict[str, Any]:
    """Draw from one file, in a worker."""
    (out / f"draw-{one.source:05d}").write_bytes(pickle.dumps(_drawn([one], **told)))
    return {}


def original(
    files: Sequence[str | Path] | str | Path,
    name: str,
    *,
    text: str = "text",
    source_field: str = "source",
    **options: Any,
) -> Document | Drop | BadRecord | None:
    """Return the record with this id as `run_files` reads it from the same files; None: none of them has it.

    Parameters
    ----------
    files
        As for `run_files`: what an id begins with depends on all of them.
    name : str
        An id, as a document or a rejected record carries it.
    text, source_field, **options
        As for `run_files`.
    """
    # A second copy is the first one under another name.
    names = dict.fromkeys([name, verdicts.first_copy(name)])
    for one in sorted(_named(files), key=lambda one: not name.startswith(one.name)):
        told = {**options, "wanted": names.__contains__}
        found = (what for place, what in _reader(one, text, source_field, told) if place in names)
        if (what := next(found, None)) is not None:
            return replace(what, id=name) if isinstance(what, Document) else what
    return None


def fetch(
    files: Sequence[str | Path] | str | Path,
    ids: Iterable[str],
    *,
    text: str = "text",
    source_field: str = "source",
    only: Collection[str] | None = None,
    **options: Any,
) -> dict[str, Document]:
    """Return the documents with these ids, in one pass over the files; one that is not there is left out.

    Parameters
    ----------
    files, text, source_field, **options
        As for `run_files`.
    ids : iterable of str
    only : collection of str, or None
        Paths of the files that are read, if the others need not be.
    """
    firsts = {name: verdicts.first_copy(name) for name in ids}
    wanted = {*firsts, *firsts.values()}
    found: dict[str, Document] = {}
    for one in _named(files):
        if only is not None and one.span.path not in only:
            continue
        told = {**options, "wanted": wanted.__contains__}
        for place, doc in _reader(one, text, source_field, told):
            if place in wanted and isinstance(doc, Document):
                found[place] = doc
    # A second copy is the first one under another name.
    got = {name: found.get(name) or found.get(first) for name, first in firsts.items()}
    return {name: replace(doc, id=name) for name, doc in got.items() if doc is not None}


def _named(files: Sequence[str | Path] | str | Path) -> list[Input]:
    through, columns = verdicts.through(files, "pipeline")
    paths = inputs.find(through, read.ENDINGS, where="pipeline", deep=True)
    names = inputs.names(paths, _parts)
    # Rows of Parquet count from 0.
    spans = [Span(path, first=0 if read.kind_of(path) == "parquet" else 1) for path in paths]
    return [
        Input(span, at, name, [], columns.get(span.path))
        for at, (span, name) in enumerate(zip(spans, names, strict=True))
    ]


def _parts(path: str) -> int:
    """A page or a text is called after its folder too: that is its source."""
    return 2 if read.kind_of(path) in read.WHOLE else 1


def _reader(one: Input, text: str, source_field: str, options: Mapping[str, Any]) -> Iterator[read.Found]:
    field = inputs.source_field(one.span.path, source_field)
    for place, found in read.documents(one.span, name=one.name, text=text, column=one.column, **options):
        yield place, stored.from_field(found, field) if isinstance(found, Document) else found


def check_folder(folder: Path, paths: Sequence[str], where: str) -> None:
    """Refuse an output folder in which something of somebody else's would be overwritten, or taken for ours."""
    if folder.exists() and not folder.is_dir():
        raise BadParameter(f"{where}: output_dir {folder} is a file; give a folder")
    strange = [] if inputs.kind_of(folder) else [*folder.glob("part-*"), *folder.glob("ledger.json")]
    if strange:
        raise BadInput(f"{where}: {folder} holds {strange[0].name}, which no run left there; use another folder")
    inside = [path for path in paths if fs.place(path).resolve().parent == folder.resolve()]
    if inside:
        raise BadInput(
            f"{where}: the input {os.path.basename(inside[0])} lies where the output is written; use another folder"
        )


def check_apart(sources: Sequence[Source]) -> None:
    """Refuse inputs whose documents would have the same ids: two runs over files of one name, read together."""
    folders = {folder: inputs.kind_of(folder) == inputs.DOCUMENTS for folder in {_folder(one.path) for one in sources}}
    # The parts of a run carry the ids of what it read.
    held = {folder: stored.input_names(folder) for folder, mine in folders.items() if mine}
    held |= {source.path: [source.name] for source in sources if _folder(source.path) not in held}
    seen: dict[str, str] = {}
    for holder, names in sorted(held.items()):
        for name in names:
            if name in seen:
                raise BadInput(
                    f"pipeline: {seen[name]} and {holder} both hold documents of {name}, whose ids would be the same; "
                    "give the files of one of them another name, or read both in one run"
                )
            seen[name] = holder


def _folder(path: str) -> str:
    return os.path.dirname(path)


def check_sample(sample: int, where: str) -> None:
    """Refuse what is no number of records."""
    if sample < 0:
        raise BadParameter(f"{where}: sample={sample}; give a number of records, or 0 for all of them")


def share_of(sources: Sequence[Source], sample: int, where: str) -> float:
    """Return the share of records a sample takes, and say so; 1.0 for everything."""
    total = sum(source.rows or 0 for source in sources)
    share = min(1.0, sample / max(total, 1)) if sample else 1.0
    if share < 1:
        emit("note", text=f"{where}: a sample, about {sample:,} of {total:,} records; all figures are the sample's own")
    return share


def in_sample(place: str, share: float, seed: int) -> bool:
    """Tell whether a record is in a sample, by a hash of its id alone."""
    return share >= 1 or seeds.key(seed, "sample", place) < int(share * 2**64)


class Limits:
    """Stops a run that loses too much, whether it fails or is dropped."""

    def __init__(self, failed: LossLimit, max_dropped: float) -> None:
        if not 0 <= max_dropped <= 1:
            raise BadParameter(f"{failed.where}: max_dropped={max_dropped}; give a share from 0 to 1")
        self.failed, self.max_dropped = failed, max_dropped
        self.seen: Counter[str] = Counter()
        self.dropped: dict[str, Counter[str]] = {}
        self.examples: dict[str, list[str]] = {}

    def add(self, result: Mapping[str, Any]) -> None:
        """Count what a task tells: `seen`, `failed`, `examples`, and the rows of its ledger."""
        self.failed.add(seen=result["seen"], failed=result["failed"], examples=result["examples"])
        for reason, places in result["examples"].items():
            self.examples.setdefault(reason, []).extend(places)
        for row in result["ledger"]["rows"]:
            if row["stage"] == "read" and row["flow"] == "in":
                self.seen[row["source"]] += row["documents"]
            elif row["flow"] == "dropped":
                self.dropped.setdefault(row["source"], Counter())[row["reason"]] += row["documents"]
        if self.max_dropped < 1:
            self._check()

    def _check(self) -> None:
        for source, reasons in self.dropped.items():
            seen, gone = self.seen[source], reasons.total()
            if gone > max(FEW, self.max_dropped * seen):
                reason, number = reasons.most_common(1)[0]
                shown = ", ".join(self.examples.get(reason, ())[:3])
                raise TooManyLost(
                    f"{self.failed.where}: {source!r} lost {gone:,} of {seen:,} documents "
                    f"(allowed: {self.max_dropped:.2%}); "
                    f"the commonest reason is {reason} ({number:,})" + (f", for example {shown}" if shown else "")
                )


@dataclass
class _Run:
    """One run: what is read, through which stages, where it goes, who works."""

    folder: Path
    crew: Crew
    stages: tuple[Map | Judge, ...]
    settings: _Settings
    sources: list[Source]
    share: float
    limits: Limits
    keep_old: bool
    rehash: bool
    before: float

    def run(self) -> Ledger:
        pieces = inputs.pieces(self.sources)
        tasks = [self._task(number, each) for number, each in enumerate(pieces)]
        self._forget_harmed()
        self._clear(tasks)
        results = run_tasks(
            "clean",
            tasks,
            self.folder,
            crew=self.crew,
            keep_old=self.keep_old,
            watch=lambda _, result: self.limits.add(result),
        )
        return self._finish(results)

    @cached_property
    def _key(self) -> Key | None:
        digests = [stage_digest(stage) for stage in self.stages]
        if None in digests:
            emit("note", text="pipeline: a stage holds what cannot be digested, so nothing is reused")
            return None
        modules = sorted({type(stage).__module__ for stage in self.stages if _is_ours(stage)})
        packages = {*PACKAGES, *(name for stage in self.stages for name in getattr(stage, "packages", ()))}
        parameters = [digests, dataclasses.asdict(self.settings), self.share]
        return make_key(parameters=parameters, modules=["prep_lib.pipeline", *modules], packages=sorted(packages))

    def _task(self, number: int, each: list[Input]) -> Task:
        args = {
            "number": number, "each": each, "stages": self.stages, "settings": self.settings, "share": self.share,
        }  # fmt: skip
        digests = [[self.sources[one.source].digest, one.name] for one in each]
        places = [[one.span.start, one.span.stop, one.span.first] for one in each]
        key = self._key and {**self._key, "inputs": make_key(inputs=[digests, places])["inputs"]}
        return Task(f"clean-{number:05d}", clean, args, outputs(number, self.stages), key)

    def _clear(self, tasks: Sequence[Task]) -> None:
        """Take away what says that an older run is complete, and its parts that this one will not write."""
        remote.remove(self.folder / name for name in (stored.LEDGER, stored.NAME, rejected.NAME, inputs.WRITTEN))
        ours = {Path(name).name for task in tasks for name in task.outputs}
        parts = [path for path in self.folder.glob("part-*") if _PART.fullmatch(path.name)]
        named, records = {task.name for task in tasks}, (self.folder / HIDDEN / "tasks").glob("clean-*.json")
        remote.remove(path for path in [*parts, *self.folder.glob(f"{WAITING}/*")] if path.name not in ours)
        remote.remove(record for record in records if record.stem not in named)

    def _forget_harmed(self) -> None:
        """Take away what is no longer as it was written: its task is then not done."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            known = json.loads((self.folder / inputs.WRITTEN).read_bytes())
            harmed = fs.harmed(self.folder, known, rehash=self.rehash)
            for name in known:
                if name in harmed:
                    emit("note", text=f"pipeline: {name} is not as it was written, and is written again")
                    (self.folder / name).unlink(missing_ok=True)

    def _finish(self, results: Sequence[Mapping[str, Any]]) -> Ledger:
        ledger = Ledger()
        for result in results:
            ledger += Ledger.from_json(json.dumps(result["ledger"]))
        ledger.check()
        waiting = [self.folder / WAITING / f"{number:05d}.{rejected.NAME}" for number in range(len(results))]
        rejected.join(waiting, self.folder / rejected.NAME, self.settings.seed, everything=self.settings.everything)
        with fs.write_whole(self.folder / stored.NAME, "w") as file:
            json.dump(self._contents(results), file, ensure_ascii=False, indent=1)
        written = [entry for result in results for entry in (result["part"], *result["part"]["beside"])]
        stamps = fs.stamps([str(self.folder / entry["file"]) for entry in written])
        told = {entry["file"]: [*stamps[str(self.folder / entry["file"])], entry["sha256"]] for entry in written}
        with fs.write_whole(self.folder / inputs.WRITTEN, "w") as file:
            json.dump(told, file)
        with fs.write_whole(self.folder / stored.LEDGER, "w") as file:
            file.write(ledger.to_json())
        return ledger

    def _contents(self, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        tallies: Counter[tuple[str, ...]] = Counter()
        for result in results:
            tallies.update({tuple(at): number for *at, number in result["tallies"]})
        names = sorted({row["source"] for result in results for row in result["ledger"]["rows"]})
        return {
            "format": "documents",
            "parts": [result["part"] for result in results],
            "inputs": [[source.name, source.digest] for source in self.sources],
            "sample": share if (share := self.share * self.before) < 1 else None,
            "stages": [{"name": stage.name, "parameters": parameters_of(stage)} for stage in self.stages],
            "measured": {
                judge.name: {"signals": list(judge.signals), "reasons": list(judge.reasons)}
                for judge in self.stages
                if isinstance(judge, Measuring)
            },
            "sources": {str(stored.id_hash(name)): name for name in names},
            "tallies": [[*at, number] for at, number in sorted(tallies.items())],
        }


def _is_ours(part: object) -> bool:
    return type(part).__module__.startswith("prep_lib.")


def stage_digest(stage: object, without: Sequence[str] = ()) -> str | None:
    """Digest what a stage does: its class, if it is the user's, and its parameters; None if that is not possible.

    Our own classes are in a key as modules. Parameters named in `without` do not count.
    """
    # All fields: what a stage read from a file at birth stands in one that is no parameter.
    told = {name: value for name, (value, _) in _fields(stage).items() if name not in without}
    return function_digest([type(stage).__qualname__ if _is_ours(stage) else type(stage), told])


def _fields(stage: Any) -> dict[str, tuple[Any, bool]]:
    """Return the fields of a stage, not what it has worked out since, and whether each is a parameter."""
    if not dataclasses.is_dataclass(stage):
        return {name: (value, True) for name, value in vars(stage).items()}
    return {field.name: (getattr(stage, field.name), field.init) for field in dataclasses.fields(stage)}


def parameters_of(stage: Any) -> dict[str, Any]:
    """Return the parameters of a stage as JSON shows them, long ones shortened."""
    return {name: _short(value) for name, (value, given) in _fields(stage).items() if given}


def _short(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    text = repr(value)
    sized = f" of {len(value)}" if hasattr(value, "__len__") else ""
    return text if len(text) <= 200 else f"{type(value).__name__}{sized}"


# In a worker


def survey(path: str, count: bool) -> Survey:
    """Digest a file and cut it; `count`: its records are counted even if that takes reading them."""
    found = read.survey(path)
    if count and found.rows is None:
        found = replace(found, rows=sum(1 for span in found.spans for _ in read.documents(span)))
    return found


def outputs(number: int, stages: Sequence[Map | Judge]) -> tuple[str, ...]:
    """Name what the task with this number writes."""
    judges = [stage.name for stage in stages if isinstance(stage, Measuring)]
    parts = [f"part-{number:05d}.jsonl.zst", *(f"part-{number:05d}.{name}.npy" for name in judges)]
    return (*parts, f"{WAITING}/{number:05d}.{rejected.NAME}")


def clean(
    number: int, each: Sequence[Input], stages: Sequence[Map | Judge], settings: _Settings, share: float, out: Path
) -> dict[str, Any]:
    """Pass the records of some spans through all stages; `share` is the part of them that a sample takes."""
    with _Writer(number, stages, settings, out) as writer:
        line = Line(stages, writer.measured)
        for some in together(_records(each, settings, share), _characters):
            settled = iter(line.many([found for _, found, *_ in some if isinstance(found, Document)]))
            for place, found, source, told in some:
                writer.read(place, found, source, told)
                if isinstance(found, Document):
                    writer.settle(next(settled))
    return writer.result(line)


#: A record: where it stands, what it is, the source of what is no document, what its reader found out.
_Record: TypeAlias = tuple[str, Document | Drop | BadRecord, str, tuple[str, ...]]


def _characters(record: _Record) -> int:
    return len(record[1].text) if isinstance(record[1], Document) else 0


def _records(each: Sequence[Input], settings: _Settings, share: float) -> Iterator[_Record]:
    for one in each:
        one.check()
        source = read.source_of(one.span.path, one.column.original(one.name) if one.column else one.name)
        # Documents of an earlier run carry what their reader found out.
        told = () if read.kind_of(one.span.path) == "jsonl" else READ
        field = inputs.source_field(one.span.path, settings.source_field)
        options = {"text": settings.text, "column": one.column, **settings.options}
        for place, found in read.documents(one.span, name=one.name, **options):
            if not in_sample(place, share, settings.seed):
                continue
            yield place, stored.from_field(found, field) if isinstance(found, Document) else found, source, told
        one.check()


class _Writer:
    """Writes what one task makes: documents, numbers, rejected records."""

    def __init__(self, number: int, stages: Sequence[Map | Judge], settings: _Settings, out: Path) -> None:
        self.number, self.out = number, out
        self.judges = {stage.name: stage for stage in stages if isinstance(stage, Measuring)}
        self.tables: dict[str, list[np.ndarray]] = {
            name: [np.empty(0, stored.numbers_dtype(judge.signals))] for name, judge in self.judges.items()
        }
        self.codes = {name: {why: at for at, why in enumerate(judge.reasons)} for name, judge in self.judges.items()}
        self.rejected = RejectedWriter(
            out / f"{number:05d}.{rejected.NAME}", settings.seed, everything=settings.everything
        )
        self.part = out / f"part-{number:05d}.jsonl.zst"
        self.documents = self.characters = self.seen = 0
        self.examples: dict[str, list[str]] = {}
        self.failed: Counter[str] = Counter()
        self.counts = Counts()

    def __enter__(self) -> _Writer:
        self.stack = contextlib.ExitStack()
        self.stack.enter_context(self.rejected)
        raw = self.stack.enter_context(self.part.open("wb"))
        # With a checksum, so that no reader ever takes a flipped bit for a text.
        packer = zstandard.ZstdCompressor(3, write_checksum=True)
        self.file: IO[bytes] = self.stack.enter_context(packer.stream_writer(raw))
        return self

    def __exit__(self, *error: Any) -> None:
        with fs.space_for(self.out):
            self.stack.close()

    def read(self, place: str, found: Document | Drop | BadRecord, source: str, told: tuple[str, ...]) -> None:
        """Count what a reader gave."""
        self.seen += 1
        source = found.source if isinstance(found, Document) else source
        size = len(found.text) if isinstance(found, Document) else 0
        self.counts.add("read", "in", source, characters=size)
        if isinstance(found, Document):
            self.counts.add("read", "kept", source, characters=size)
            self.counts.tally("read", told, found, source)
        else:
            self._lose("read", Document(place, "", source), found)
            self.counts.add("read", "dropped" if isinstance(found, Drop) else "failed", source, found.reason)

    def settle(self, settled: Document | Rejected) -> None:
        """Write a document, or why there is none."""
        if isinstance(settled, Rejected):
            self._lose(settled.stage, settled.document, settled.drop)
            return
        doc, size = settled, len(settled.text)
        self.counts.add("write", "in", doc.source, characters=size)
        try:
            text = jsonl.dumps({"id": doc.id, "text": doc.text, "source": doc.source, "meta": dict(doc.meta)})
        except BadRecord as error:
            self.counts.add("write", "failed", doc.source, error.reason, characters=size)
            self._lose("write", doc, error.with_traceback(None))
            return
        self.counts.add("write", "kept", doc.source, characters=size)
        try:
            self.file.write(text)
        except (OSError, RuntimeError):
            with fs.space_for(self.out):
                raise
        self.documents, self.characters = self.documents + 1, self.characters + size

    def _lose(self, stage: str, doc: Document, why: Drop | BadRecord) -> None:
        shown = self.examples.setdefault(why.reason, [])
        if len(shown) < 3:
            shown.append(doc.id)
        if isinstance(why, BadRecord):
            self.failed[why.reason] += 1
        self.rejected.add(doc.id, doc.source, stage, why, lambda: doc.text or None)

    def measured(
        self,
        judge: str,
        docs: Sequence[Document],
        values: Sequence[np.ndarray],
        verdicts: Sequence[Drop | Cut | None],
    ) -> None:
        """Keep what a judge measured of some documents."""
        table = np.empty(len(docs), self.tables[judge][0].dtype)
        table["id"] = [stored.id_hash(doc.id) for doc in docs]
        table["source"] = [stored.id_hash(doc.source) for doc in docs]
        table["language"] = [str(doc.meta.get("language", "")).encode("utf-8", "replace") for doc in docs]
        table["characters"] = [len(doc.text) for doc in docs]
        table["verdict"] = [self._code(judge, doc, verdict) for doc, verdict in zip(docs, verdicts, strict=True)]
        signals = self.judges[judge].signals
        for name, column in zip(signals, np.reshape(values, (len(docs), len(signals))).T, strict=True):
            table[name] = column
        self.tables[judge].append(table)

    def _code(self, judge: str, doc: Document, verdict: Drop | Cut | None) -> int:
        if not isinstance(verdict, Drop):
            return stored.KEPT if verdict is None else stored.CUT
        code = self.codes[judge].get(verdict.reason)
        if code is None:
            error = BadParameter(f"stage: {judge} dropped for {verdict.reason!r}, which is none of its reasons")
            error.add_note(f"while {judge} handled document {doc.id}")
            raise error
        return code

    def result(self, line: Line) -> dict[str, Any]:
        """Write the numbers, and return what the task tells."""
        beside = []
        for name in self.judges:
            path = self.out / f"part-{self.number:05d}.{name}.npy"
            with fs.space_for(self.out):
                np.save(path, np.concatenate(self.tables[name]))
            beside.append(_entry(path))
        return {
            "seen": self.seen, "failed": dict(self.failed), "examples": self.examples,
            "ledger": json.loads(self._ledger(line).to_json()),
            "tallies": [[*at, number] for at, number in sorted((self.counts.tallies + line.counts.tallies).items())],
            "part": {
                **_entry(self.part), "documents": self.documents, "characters": self.characters, "beside": beside,
            },
        }  # fmt: skip

    def _ledger(self, line: Line) -> Ledger:
        """Return the ledger with its stages in the order documents pass them."""
        ledger = Ledger(stages=["read", *line.names, "write"])
        for part in (self.counts.ledger(), line.counts.ledger()):
            ledger += part
        return ledger


def _entry(path: Path) -> dict[str, Any]:
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": fs.digest(path)}
