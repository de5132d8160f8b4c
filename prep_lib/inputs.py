"""What a run reads: the files found, digested once, and cut into pieces of work.

    find("web/ more.jsonl.gz")     web/a.jsonl  web/b.parquet  more.jsonl.gz          natural order, none twice
    survey(files)                  digest, size, spans; remembered by size and time of change in .prep/inputs.json
    bundles(weights)               small neighbours share a task:   [a b c d] [e] [f g]

A file may lie behind any fsspec address. What a piece is called never depends on where the workspace lies.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prep_lib import files as fs
from prep_lib import remote
from prep_lib.engine import Crew, Task
from prep_lib.errors import BadInput
from prep_lib.events import emit
from prep_lib.files import Span, Survey, is_remote
from prep_lib.locks import HIDDEN, kind_of
from prep_lib.verdicts import Column, called

#: Bytes of text in a byte of a compressed file, about.
UNPACKED = 4

#: Small inputs share a task up to this part of a span (16 MiB): thousands of them are not thousands of tasks, and a
#: run over a hundred MB in several files still keeps several workers busy.
BUNDLES = 8

#: What opening a file costs, as if it were bytes of it.
OPENING = 2**14

#: The kind of a folder that `pipeline.run_files` writes, see `locks.lock`: its parts are its data; what lies beside
#: them (the ledger, the rejected) is not.
DOCUMENTS = "a run of stages"

#: What such a run wrote, and when: a rerun sees whether it is still so, and a reader need not digest it.
WRITTEN = f"{HIDDEN}/written.json"

#: Files whose records have numbers: what a build and a decision read.
NUMBERED = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".ndjson", ".ndjson.gz", ".ndjson.zst", ".parquet")

#: Called as ``surveyor(path, count)``: digests a file and cuts it into spans; `count`: its rows are wanted even if that
#: takes reading it through. Workers call it, so it must be importable.
Surveyor = Callable[[str, bool], Survey]


@dataclass(frozen=True)
class Input:
    """A span to read, and what its records are called after.

    Parameters
    ----------
    span : Span
    source : int
        Its file's place among all inputs.
    name : str
        What the ids of its records begin with.
    stamp : list of int
        Size and time of change of the file when it was digested.
    column : Column or None
        What was decided about its records. None: all are read.
    """

    span: Span
    source: int
    name: str
    stamp: list[int]
    column: Column | None = None

    def check(self) -> None:
        """Raise `BadInput` if the file is no longer the one that was digested."""
        if fs.stamp(self.span.path) != self.stamp:
            raise BadInput(f"{self.span.path} was changed while it was read; run again when nothing writes to it")


@dataclass(frozen=True)
class Source:
    """One input file, and what its survey told.

    Parameters
    ----------
    path : str
    name : str
        See `names`.
    stamp : list of int
    survey : Survey
    column : Column or None
        See `Input`.
    """

    path: str
    name: str
    stamp: list[int]
    survey: Survey
    column: Column | None = None

    @property
    def rows(self) -> int | None:
        """How many records are read of it; None: not counted yet."""
        return self.column.records[self.column.copy] if self.column and self.column.records else self.survey.rows

    @property
    def digest(self) -> str:
        """What is read of it, digested: the file, and what was decided about its records."""
        return f"{self.survey.digest}+{self.column.digest}" if self.column else self.survey.digest

    def weight(self, span: Span) -> int:
        """Return the bytes of text in a span, about."""
        if self.path.endswith(".parquet"):
            return OPENING + self.survey.size * UNPACKED // max(1, len(self.survey.spans))
        if span.stop is None:
            return OPENING + self.survey.size * (UNPACKED if fs.compression(self.path) else 1)
        return OPENING + span.stop - span.start


# Found


def find(
    files: Sequence[str | Path] | str | Path, endings: tuple[str, ...], *, where: str, deep: bool = False
) -> list[str]:
    """Return the files that `files` stands for: a folder becomes its files with one of the endings, in natural order.

    Parameters
    ----------
    files : path, fsspec address, or sequence of them
    endings : tuple of str
        What is looked for in a folder; a file that is named is taken whatever it is called.
    where : str
        Who asks, for the error line.
    deep : bool
        True: folders inside a folder too.

    Raises
    ------
    BadInput
        If there is none, one is missing or cannot be read, or one is named twice.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("c10.jsonl", "c9.jsonl", "notes.md"):
    ...     _ = (folder / name).write_text("")
    >>> [os.path.basename(path) for path in find(folder, (".jsonl",), where="example")]
    ['c9.jsonl', 'c10.jsonl']
    """
    given = [files] if isinstance(files, str | Path) else list(files)
    paths = [found for one in map(str, given) for found in _found(one, endings, where, deep)]
    missing = [path for path in paths if not is_remote(path) and not os.path.isfile(path)]
    if missing or not paths:
        told = ", ".join(missing[:3]) or ", ".join(map(str, given)) or "none given"
        raise BadInput(f"{where}: no such input: {told}")
    if closed := [path for path in paths if not is_remote(path) and not os.access(path, os.R_OK)]:
        raise BadInput(f"{where}: no permission to read {', '.join(closed[:3])}")
    real = Counter(path if is_remote(path) else os.path.realpath(path) for path in paths)
    if twice := [path for path, count in real.items() if count > 1]:
        raise BadInput(f"{where}: {twice[0]} is given twice; every record in it would count twice")
    return [path if is_remote(path) else os.path.abspath(path) for path in paths]


def _found(path: str, endings: tuple[str, ...], where: str, deep: bool) -> list[str]:
    if not fs.place(path).is_dir():
        return [path]
    if kind_of(path) == DOCUMENTS:
        return _parts_of(path, where)
    return _chosen((_walk_store if is_remote(path) else _walk)(path, where, deep), path, endings, where)


def _parts_of(folder: str, where: str) -> list[str]:
    """Return the parts of a folder of documents, all of them there."""
    size = remote.sizes(fs.place(folder))
    if size("ledger.json") is None:
        raise BadInput(f"{where}: {folder} is not complete: the run that writes it did not end; run it again")
    told = json.loads((fs.place(folder) / "documents.json").read_bytes())["parts"]
    paths = [str(fs.place(folder) / part["file"]) for part in told]
    for path, part in zip(paths, told, strict=True):
        if size(part["file"]) != part["bytes"]:
            raise BadInput(f"{where}: {path} is missing or cut; write {folder} again")
    return paths


def _walk(folder: str, where: str, deep: bool) -> Iterator[str]:
    """Yield the files of a folder; links to folders are followed, each folder once."""

    def refuse(error: OSError) -> None:
        raise BadInput(f"{where}: cannot list {error.filename}: {error.strerror}") from None

    been: set[str] = set()
    for place, folders, files in os.walk(folder, followlinks=True, onerror=refuse):
        real = os.path.realpath(place)
        if real in been or not deep:
            folders.clear()
        if real not in been:
            yield from (os.path.join(place, file) for file in files)
        been.add(real)
        # Hidden folders are not data, and a fixed order decides by which of two links a folder is reached.
        seen = (name for name in sorted(folders) if not name.startswith("."))
        folders[:] = [name for name in seen if not _is_output(place, name, where)]


def _is_output(place: str, name: str, where: str) -> bool:
    """Tell whether a folder holds what a run wrote: read with its inputs, everything in it would count twice."""
    found = bool(kind_of(os.path.join(place, name)))
    if found:
        emit("note", text=f"{where}: left out {name}/, which a run wrote; name it to use it")
    return found


def _walk_store(folder: str, where: str, deep: bool) -> Iterator[str]:
    """Yield the objects of a folder in a store, which is asked once; see `_walk`."""
    there, mark = remote.Remote(folder).listing(), f"/{HIDDEN}/kind"
    outputs = sorted(name.removesuffix(mark) for name in there if name.endswith(mark))
    for name in outputs if deep else ():
        emit("note", text=f"{where}: left out {os.path.basename(name)}/, which a run wrote; name it to use it")
    for name in there:
        folders = name.split("/")[:-1]
        above = ["/".join(folders[: at + 1]) for at in range(len(folders))]
        if not folders or (deep and not any(one.startswith(".") for one in folders) and not set(above) & set(outputs)):
            yield str(remote.Remote(folder) / name)


def _chosen(paths: Iterable[str], folder: str, endings: tuple[str, ...], where: str) -> list[str]:
    found = [path for path in paths if path.lower().endswith(endings) and not os.path.basename(path).startswith(".")]
    # What an earlier step turned down lies beside its output, and is no input of the next.
    rejected = [path for path in found if _REJECTED.fullmatch(os.path.basename(path))]
    if rejected:
        told = ", ".join(sorted(map(os.path.basename, rejected)))
        emit("note", text=f"{where}: left out {told}; name a file to use it")
    chosen = sorted(set(found) - set(rejected), key=fs.natural)
    if not chosen:
        raise BadInput(f"{where}: no data file in {folder}; looked for {', '.join(endings)}")
    return chosen


_REJECTED = re.compile(r"[^.]*rejected\.jsonl(\.gz|\.zst)?")

#: Called with a path: how many parts of it its name has at least.
Parts = Callable[[str], int]


def one(path: str) -> int:
    """Return 1: a file name alone will do."""
    return 1


def names(paths: Sequence[str], parts: Parts = one) -> list[str]:
    """Name every input by its file name, with as many parent folders as it takes to tell them apart.

    Parameters
    ----------
    paths : sequence of str
    parts : callable
        See `Parts`.

    Examples
    --------
    >>> names(["a/x.jsonl", "a/y.jsonl"]), names(["a/x.jsonl", "b/x.jsonl"])
    (['x.jsonl', 'y.jsonl'], ['a/x.jsonl', 'b/x.jsonl'])
    """
    whole, depth = [_parts(str(path)) for path in paths], 1
    while len({tuple(each[-depth:]) for each in whole}) < len(whole):
        depth += 1
        if depth > max(map(len, whole)):
            spelled = Counter(each[-1] for each in whole).most_common(1)[0][0]
            raise BadInput(f"inputs: two files are called {spelled}; rename one of them")
    return ["/".join(each[-max(depth, parts(str(path))) :]) for each, path in zip(whole, paths, strict=True)]


def _parts(path: str) -> list[str]:
    # The name as given, not where a link leads: caches of downloads link to files named by digests. One that is no
    # UTF-8 is spelled out, because every file that will hold it is UTF-8.
    spelled = remote.without_secrets(path).encode("utf-8", "backslashreplace").decode("utf-8")
    return spelled.split("/") if is_remote(path) else list(Path(os.path.abspath(spelled)).parts)


def source_field(path: str, field: str) -> str:
    """Return which field of the records of a file names their source; empty: none.

    Documents of an earlier run have their source. What their meta calls ``source`` was passed over then, and is passed
    over again; another field does what it does for any record.
    """
    return "" if field == "source" and kind_of(os.path.dirname(path)) == DOCUMENTS else field


# Surveyed


def survey(
    paths: Sequence[str],
    folder: Path,
    crew: Crew,
    *,
    where: str,
    surveyor: Surveyor,
    parts: Parts = one,
    columns: Mapping[str, Column] | None = None,
    rehash: bool = False,
    count: bool = False,
) -> list[Source]:
    """Digest and cut every input, remembering by path, size and time of change what was read before.

    Parameters
    ----------
    paths : sequence of str
        As `find` returns them.
    folder : Path
        Of the output; hold its lock.
    crew : Crew
    where : str
        Who asks.
    surveyor : callable
        See `Surveyor`.
    parts : callable
        See `Parts`.
    columns : mapping or None
        By path, as `verdicts.through` returns them.
    rehash : bool
        True: read them again even if size and time of change are as remembered.
    count : bool
        True: the number of records is wanted.
    """
    crew.check_reach(paths)
    memory, stamps = folder / HIDDEN / "inputs.json", _stamps(paths, where)
    known = {} if rehash else {**_written(paths), **_remembered(memory, paths)}
    fresh = {path: now for path, now in stamps.items() if not _is_known(known.get(path), now, count)}
    cuts, items = bundles([OPENING + now[0] for now in fresh.values()]), list(fresh.items())
    args = [{"stamps": dict(items[first:last]), "count": count, "surveyor": surveyor} for first, last in cuts]
    tasks = [Task(f"survey-{number:05d}", _survey_task, each) for number, each in enumerate(args)]
    saved = time.monotonic()
    for found in _watched("survey", crew, tasks, folder):
        known |= found
        if time.monotonic() - saved > 10:
            _remember(memory, {path: known[path] for path in stamps if path in known})
            saved = time.monotonic()
    _remember(memory, {path: known[path] for path in stamps})
    told = zip(paths, names(paths, parts), stamps.values(), strict=True)
    through = columns or {}
    sources = [Source(path, name, now, _survey_from(known[path], path), through.get(path)) for path, name, now in told]
    _tell_copies(sources, where)
    return [*sources, *_again(sources)]


def _again(sources: Sequence[Source]) -> Iterator[Source]:
    """Yield the inputs whose records are read again: all second copies, then all third ones."""
    rounds = [(copy, at) for at, one in enumerate(sources) if one.column for copy in range(1, len(one.column.records))]
    for copy, at in sorted(rounds):
        one = sources[at]
        column = one.column and replace(one.column, copy=copy)
        yield replace(one, name=called(one.name, copy), column=column)


def _watched(stage: str, crew: Crew, tasks: Sequence[Task], folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the results of tasks that write nothing; what takes more than one is worth showing."""
    began, shown = time.monotonic(), len(tasks) > 1
    if shown:
        emit("begin", stage=stage, tasks=len(tasks), done=0)
    with contextlib.closing(crew.run(stage, tasks, folder)) as finished:
        for done, (task, out, result, seconds) in enumerate(finished, 1):
            out.rmdir()
            if shown:
                emit("task", stage=stage, name=task.name, done=done, tasks=len(tasks), seconds=round(seconds, 3))
            yield result
    if shown:
        emit("end", stage=stage, seconds=round(time.monotonic() - began, 3))


def _stamps(paths: Sequence[str], where: str) -> dict[str, list[int]]:
    try:
        return fs.stamps(paths)
    except FileNotFoundError as error:
        raise BadInput(f"{where}: no such input: {error.filename or error}") from None


def _remembered(memory: Path, paths: Sequence[str]) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        known = json.loads(memory.read_bytes())
        return {path: known[name] for path in paths if (name := remote.without_secrets(path)) in known}
    return {}


def _written(paths: Iterable[str]) -> dict[str, Any]:
    """Return what is known of parts that a run of ours wrote: it digested them, and a part is one span."""
    out: dict[str, Any] = {}
    for folder in {os.path.dirname(path) for path in paths if not is_remote(path)}:
        with contextlib.suppress(OSError, ValueError, TypeError):
            written = json.loads(Path(folder, WRITTEN).read_bytes()) if kind_of(folder) == DOCUMENTS else {}
            for name, (size, modified, digest) in written.items():
                found = {"stamp": [size, modified], "digest": digest, "size": size, "rows": None}
                out[os.path.join(folder, name)] = {**found, "spans": [[0, None, 1]]}
    return out


def _remember(memory: Path, known: dict[str, Any]) -> None:
    with fs.write_whole(memory, "w") as file:
        file.write(json.dumps({remote.without_secrets(path): told for path, told in known.items()}))


def _is_known(entry: dict[str, Any] | None, now: list[int], count: bool) -> bool:
    return entry is not None and remote.unmoved(now, entry["stamp"]) and not (count and entry["rows"] is None)


def _survey_task(stamps: dict[str, list[int]], count: bool, surveyor: Surveyor, out: Path) -> dict[str, Any]:
    return {path: _survey_file(path, now, count, surveyor) for path, now in stamps.items()}


def _survey_file(path: str, now: list[int], count: bool, surveyor: Surveyor) -> dict[str, Any]:
    found = surveyor(path, count)
    Input(Span(path), 0, "", now).check()
    spans = [[span.start, span.stop, span.first] for span in found.spans]
    return {"stamp": now, "digest": found.digest, "size": found.size, "rows": found.rows, "spans": spans}


def _survey_from(stored: dict[str, Any], path: str) -> Survey:
    spans = tuple(Span(path, *place) for place in stored["spans"])
    return Survey(stored["digest"], stored["size"], stored["rows"], spans)


def _tell_copies(sources: Sequence[Source], where: str) -> None:
    first: dict[str, Source] = {}
    pairs = [(source, first.setdefault(source.survey.digest, source)) for source in sources if source.survey.size]
    if copies := [(source.name, other.name) for source, other in pairs if source is not other]:
        one, other = copies[0]
        emit("note", text=f"{where}: {len(copies)} of the inputs are copies, {one} of {other} for one: used as given")


# Cut


def pieces(sources: Sequence[Source]) -> list[list[Input]]:
    """Return the inputs of every task: spans in order, small neighbours together."""
    inputs = [
        Input(span, at, source.name, source.stamp, source.column)
        for at, source in enumerate(sources)
        for span in source.survey.spans
    ]
    weights = [sources[one.source].weight(one.span) for one in inputs]
    return [joined(inputs[first:last]) for first, last in bundles(weights)]


def bundles(weights: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of neighbours that are small enough to share a task; one that weighs more stands alone.

    Parameters
    ----------
    weights : sequence of int, bytes

    Examples
    --------
    >>> list(bundles([2**20] * 40)), list(bundles([2**30, 5, 5]))
    ([(0, 16), (16, 32), (32, 40)], [(0, 1), (1, 3)])
    """
    first = size = 0
    for at, weight in enumerate(weights):
        if size and size + weight > fs.SPAN // BUNDLES:
            yield first, at
            first, size = at, 0
        size += weight
    if weights:
        yield first, len(weights)


def joined(inputs: Sequence[Input]) -> list[Input]:
    """Join row groups of Parquet that follow each other: opening a file reads what is known of all of them.

    Examples
    --------
    >>> groups = [Input(Span("a.parquet", at, at + 1, 10 * at), 0, "a.parquet", []) for at in range(3)]
    >>> [(one.span.start, one.span.stop, one.span.first) for one in joined(groups)]
    [(0, 3, 0)]
    """
    out: list[Input] = []
    for one in inputs:
        before = out[-1] if out else None
        if before and before.source == one.source and one.span.path.endswith(".parquet"):
            out[-1] = replace(before, span=replace(before.span, stop=one.span.stop))
        else:
            out.append(one)
    return out
