"""A data set becomes JSON lines in chunks, every row accounted for.

rows 0 … 999,999     ──process_func──▶  sft_chunk_0.jsonl     whole or not there
rows 1,000,000 …     ──process_func──▶  sft_chunk_1.jsonl     finished: not made again by the same inputs
rows that failed     ────────────────▶  sft_rejected.jsonl    id, reason, detail, the row
counts               ────────────────▶  sft_ledger.json       written last: the export is complete

a row in ──▶ dict        one record            in 1               kept 1
         ──▶ [a, b, c]   three                 in 1  expanded 2   kept 3
         ──▶ []          dropped_by_function   in 1               dropped 1
         ──▶ None, 7     function_returned_…   in 1               failed 1
         ──▶ raises      function_raised       in 1               failed 1
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from prep_lib.errors import BadParameter, BadRecord, TooManyLost, unknown
from prep_lib.events import emit
from prep_lib.files import digest, is_remote, natural, place, replace, write_whole
from prep_lib.keys import Key, changed, function_digest, make_key
from prep_lib.ledger import Ledger, LossLimit
from prep_lib.locks import HIDDEN, lock
from prep_lib.remote import scratch
from prep_lib.source import jsonl
from prep_lib.source.hub import Row, Source, open_source, parsed, told

STAGE = "export"

ProcessFunc = Callable[[dict[str, Any]], Any]

#: Characters of a rejected row that are kept.
KEPT_TEXT = 10_000


def export_dataset(
    dataset: Any,
    output_dir: str | Path,
    prefix: str,
    chunk_size: int = 1_000_000,
    process_func: ProcessFunc | None = None,
    *,
    columns: str = "",
    nan: jsonl.Nan = "reject",
    bytes: jsonl.Bytes = "reject",
    sample: int = 0,
    seed: int = 42,
    max_failed: float = 0.001,
) -> list[Path]:
    """Export a data set as `export` does, and return the files.

    Returns
    -------
    list of Path
        ``prefix_chunk_0.jsonl`` and so on, in order.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "in.jsonl").write_text('{"q": "1+1?"}\\n{"q": "2+2?"}\\n{"q": "3+3?"}\\n')
    >>> files = export_dataset(folder / "in.jsonl", folder, "sums", chunk_size=2, columns="q->query")
    >>> [file.name for file in files], files[1].read_text()
    (['sums_chunk_0.jsonl', 'sums_chunk_1.jsonl'], '{"query":"3+3?"}\\n')
    """
    export(
        dataset, output_dir, prefix, chunk_size, process_func, columns=columns, nan=nan, bytes=bytes, sample=sample,
        seed=seed, max_failed=max_failed,
    )  # fmt: skip
    return chunk_files(output_dir, prefix)


def export(
    dataset: Any,
    output_dir: str | Path,
    prefix: str,
    chunk_size: int = 1_000_000,
    process_func: ProcessFunc | None = None,
    *,
    columns: str = "",
    nan: jsonl.Nan = "reject",
    bytes: jsonl.Bytes = "reject",
    sample: int = 0,
    seed: int = 42,
    max_failed: float = 0.001,
) -> Ledger:
    """Write a data set as JSON lines, in chunks and in bounded memory.

    Parameters
    ----------
    dataset
        As for `hub.open_source`: a data set, a path or pattern, a list of paths, or a name on the hub.
    output_dir : path
    prefix : str
        Of every file name.
    chunk_size : int, input rows
        Chunk k holds what became of rows k * chunk_size and following, be it more, fewer or none. A data set without
        rows gives one empty chunk.
    process_func : callable or None
        Called with each row, a dict; see the module's drawing. None: rows are written as they are.
    columns : str
        ``"prompt->query answer->response"`` renames columns before `process_func`; empty: nothing is renamed.
    nan, bytes
        What to do with values JSON does not have: see `jsonl.dumps`.
    sample : int, rows
        Draw that many by a hash of each row's id, for a rehearsal; the others are not counted. 0: all.
    seed : int
        Of the sample.
    max_failed : float, share of the records
        More failed ones stop the export; it never stops for `ledger.FEW` or fewer.

    Returns
    -------
    Ledger
        Stage "export"; also in ``prefix_ledger.json``. Documents are counted, characters are not.

    Raises
    ------
    BadParameter
        For parameters that fit no run, a data set of several splits, a column that does not exist, binary columns that
        could not be written, and files of such names that are not from an earlier export.
    BadInput
        If the data set cannot be loaded or read.
    TooManyLost
        If more failed than `max_failed` allows. Finished chunks are kept, ``prefix_rejected.jsonl`` tells why.

    Notes
    -----
    A `Dataset` is known by its fingerprint, files by their content, `process_func` by its source and what it uses. A
    stream, or a function that cannot be digested, has no identity: its chunks are always made again.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "in.csv").write_text("text,stars\\ngood,5\\nbad,1\\n")
    >>> ledger = export(folder / "in.csv", folder, "best", process_func=lambda row: row if row["stars"] == "5" else [])
    >>> ledger.total("export", "in"), ledger.reasons("export", "dropped")
    (2, {'dropped_by_function': 1})
    """
    _check_parameters(prefix, chunk_size, sample)
    jsonl.check_policies(nan, bytes)
    limit = LossLimit(STAGE, max_failed)
    source = open_source(dataset, prefix, sample, seed, whole=process_func is not None)
    renames = parse_columns(columns)
    _check_columns(source, renames, process_func, bytes)
    parameters = [chunk_size, renames, nan, bytes, sample, seed if sample else 0]
    work = _Work(renames, process_func, nan, bytes)
    with lock(output_dir):
        store = _Store(place(output_dir), prefix, _key(source, process_func, parameters))
        store.begin()
        return _write_chunks(source, work, store, chunk_size, limit)


def chunk_files(output_dir: str | Path, prefix: str) -> list[Path]:
    """Return the chunks of an export in order."""
    name = re.compile(re.escape(prefix) + r"_chunk_\d+\.jsonl")
    found = (path for path in place(output_dir).iterdir() if name.fullmatch(path.name))
    return sorted(found, key=lambda path: natural(path.name))


def _check_parameters(prefix: str, chunk_size: int, sample: int) -> None:
    if not re.fullmatch(r"[^./\\\s][^/\\\n]*", prefix):
        raise BadParameter(f"export: prefix={prefix!r} must be the beginning of a file name, without folders")
    if chunk_size < 1:
        raise BadParameter(f"export: chunk_size={chunk_size}; give at least 1 row")
    if sample < 0:
        raise BadParameter(f"export: sample={sample}; give a number of rows, or 0 for all")


def parse_columns(text: str) -> dict[str, str]:
    """Read ``"prompt->query answer->response"``.

    Examples
    --------
    >>> parse_columns("prompt->query answer->response")
    {'prompt': 'query', 'answer': 'response'}
    """
    pairs = [re.fullmatch(r"(.+?)->(.+)", word) for word in text.split()]
    if None in pairs:
        raise BadParameter(f"export: columns={text!r}; write 'prompt->query answer->response'")
    renames = {pair[1]: pair[2] for pair in pairs if pair}
    if len(renames) < len(pairs) or len({*renames.values()}) < len(pairs):
        raise BadParameter(f"export: columns={text!r} names a column twice")
    return renames


def rename(row: dict[str, Any], renames: dict[str, str]) -> dict[str, Any]:
    """Return the row with columns renamed, in the same order; the others stay.

    Raises
    ------
    BadRecord
        ``missing_column``, or ``column_taken`` if a new name is there already.

    Examples
    --------
    >>> rename({"prompt": "a", "id": 1}, {"prompt": "query"})
    {'query': 'a', 'id': 1}
    """
    for old, new in renames.items():
        if old not in row:
            raise BadRecord("missing_column", f"{old}; known: {', '.join(row)}")
        if new in row and new not in renames:
            raise BadRecord("column_taken", f"{old}->{new}: there is a column {new}")
    return {renames.get(name, name): value for name, value in row.items()}


def _check_columns(source: Source, renames: dict[str, str], process_func: Any, bytes: str) -> None:
    """Refuse, before any work, what would fail in every row."""
    if source.columns is not None:
        for old, new in renames.items():
            if old not in source.columns:
                raise unknown("export", "column", old, source.columns)
            if new in source.columns and new not in renames:
                raise BadParameter(f"export: columns: {old}->{new}, but there is a column {new!r} already")
    if source.binary and process_func is None and bytes == "reject":
        name, kind = next(iter(source.binary.items()))
        raise BadParameter(
            f"export: column {name!r} holds {kind}, which JSON cannot; leave it out by process_func, or bytes='base64'"
        )


def _key(source: Source, process_func: ProcessFunc | None, parameters: list[Any]) -> Key | None:
    """Return what the chunks depend on, or None, with the reason said, if it cannot be known."""
    function = function_digest(process_func) if process_func is not None else ""
    if source.identity is None or function is None:
        what = f"{source.name} is a stream" if source.identity is None else "process_func uses what cannot be digested"
        emit("note", text=f"{STAGE}: {what}, so chunks are not reused by a later run")
        return None
    return make_key(
        inputs=source.identity,
        parameters=[function, *parameters],
        modules=["prep_lib.source.export"],
        packages=["orjson"],
    )


@dataclass(frozen=True)
class _Work:
    """What happens to one row."""

    renames: dict[str, str]
    process_func: ProcessFunc | None
    nan: jsonl.Nan
    bytes: jsonl.Bytes

    def lines(self, raw: Any) -> list[Any]:
        """Return the lines a row becomes, a `BadRecord` in the place of one that cannot be written."""
        try:
            row = self._row(raw)
            records = [row] if self.process_func is None else self._called(row)
        except BadRecord as error:
            return [error.with_traceback(None)]
        return [self._line(record) for record in records]

    def _row(self, raw: Any) -> dict[str, Any]:
        row = parsed(raw)
        if isinstance(row, BadRecord):
            raise row
        return rename(row, self.renames) if self.renames else row

    def _called(self, row: dict[str, Any]) -> list[Any]:
        try:
            result = self.process_func(row)  # type: ignore[misc]
        except BadRecord:
            raise
        except Exception as error:
            raise BadRecord("function_raised", told(error)) from None
        if isinstance(result, dict):
            return [result]
        if result is None:
            raise BadRecord("function_returned_none", "return a dict, a list of dicts, or [] to drop the row")
        if isinstance(result, list | tuple):
            return list(result)
        raise BadRecord("function_returned_other", f"{type(result).__name__}; return a dict or a list of dicts")

    def _line(self, record: Any) -> Any:
        if not isinstance(record, dict):
            return BadRecord("function_returned_other", f"a list with {type(record).__name__}; return dicts")
        try:
            return jsonl.dumps(record, nan=self.nan, bytes=self.bytes)
        except BadRecord as error:
            return error.with_traceback(None)


_UNFINISHED = "unfinished"


class _Store:
    """The chunks of one prefix: which are finished, and which files are ours to replace.

    A record is made before its chunk, so that a killed run's files are known as ours, and marked whole after it.
    """

    def __init__(self, folder: Path, prefix: str, key: Key | None) -> None:
        self.folder, self.prefix, self.key = folder, prefix, key
        self.hidden = folder / HIDDEN / "export" / prefix
        self.ledger, self.rejected = folder / f"{prefix}_ledger.json", folder / f"{prefix}_rejected.jsonl"

    def chunk(self, number: int) -> Path:
        return self.folder / f"{self.prefix}_chunk_{number}.jsonl"

    def rejects(self, number: int) -> Path:
        return self.hidden / f"{number}.rejected.jsonl"

    def _record(self, number: int) -> Path:
        return self.hidden / f"{number}.json"

    def _load(self, number: int) -> dict[str, Any]:
        try:
            return json.loads(self._record(number).read_bytes())
        except (OSError, ValueError):
            return {}

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self.hidden.glob("*.json") if path.stem.isdecimal())

    def begin(self) -> None:
        """Take back the sign that the export is complete, and every chunk that belongs to other inputs."""
        self.hidden.mkdir(parents=True, exist_ok=True)
        ours = {self.chunk(number) for number in self._numbers()}
        if ours:
            ours |= {self.ledger, self.rejected}
        there = [*chunk_files(self.folder, self.prefix), self.ledger, self.rejected]
        if foreign := [path.name for path in there if path.exists() and path not in ours]:
            raise BadParameter(
                f"export: {foreign[0]} in {self.folder} is not from an earlier export here; "
                "choose another prefix or folder, or delete it"
            )
        self.ledger.unlink(missing_ok=True)
        self.rejected.unlink(missing_ok=True)
        other = {number: why for number in self._numbers() if (why := self._differs(number))}
        for why in sorted({why for why in other.values() if why != _UNFINISHED}):
            emit("note", text=f"{STAGE}: chunks of {self.prefix} are made again: {why}")
        for number in other:
            self.forget(number)

    def _differs(self, number: int) -> str:
        record = self._load(number)
        if not record.get("whole"):
            return _UNFINISHED
        if self.key is None or record["key"] is None:
            return "what they were made of is not known"
        return "; ".join(changed(record["key"], self.key))

    def finished(self, number: int) -> dict[str, Any] | None:
        """Return the record of a chunk that is whole, unchanged and of the same inputs."""
        record, path = self._load(number), self.chunk(number)
        if not (record.get("whole") and path.is_file() and self.rejects(number).is_file()):
            return None
        return record if path.stat().st_size == record["size"] and digest(path) == record["sha256"] else None

    def promise(self, number: int) -> None:
        self._write(number, {"whole": False})

    def commit(self, number: int, record: dict[str, Any]) -> None:
        self._write(number, {"whole": True, "key": self.key, **record})

    def _write(self, number: int, record: dict[str, Any]) -> None:
        with write_whole(self._record(number), "w") as file:
            json.dump(record, file, ensure_ascii=False, indent=1)

    def forget(self, number: int) -> None:
        self.promise(number)
        self.chunk(number).unlink(missing_ok=True)
        self.rejects(number).unlink(missing_ok=True)
        self._record(number).unlink(missing_ok=True)

    def publish_rejects(self, chunks: int) -> None:
        """Join what the chunks rejected into one file; none if nothing was."""
        parts = [path for number in range(chunks) if (path := self.rejects(number)).is_file() and path.stat().st_size]
        if parts:
            with write_whole(self.rejected) as out:
                for path in parts:
                    with path.open("rb") as file:
                        shutil.copyfileobj(file, out)

    def finish(self, ledger: Ledger, chunks: int) -> None:
        for number in self._numbers():
            if number >= chunks:
                self.forget(number)
        with write_whole(self.ledger, "w") as file:
            file.write(ledger.to_json())


class _Cursor:
    """The rows of a source, read on from where the last chunk ended, or entered anew where chunks are skipped."""

    def __init__(self, source: Source) -> None:
        self._source, self._at = source, 0
        self._rows: Iterator[Row] | None = None
        self._next: Row | None = None

    def seek(self, start: int) -> None:
        if self._rows is None or self._at != start:
            self._rows, self._at = self._source.read(start), start
            self._next = next(self._rows, None)

    def take(self, count: int) -> Iterator[Row]:
        while self._next is not None and count:
            row, count, self._at = self._next, count - 1, self._at + 1
            self._next = next(self._rows, None)  # type: ignore[arg-type]
            yield row

    @property
    def ended(self) -> bool:
        return self._next is None


def _write_chunks(source: Source, work: _Work, store: _Store, chunk_size: int, limit: LossLimit) -> Ledger:
    began, cursor, ledger = time.monotonic(), _Cursor(source), Ledger([STAGE])
    tasks = max(1, -(-source.size // chunk_size)) if source.size is not None else 0
    emit("begin", stage=STAGE, tasks=tasks, done=0)
    number, last = 0, False
    while not last:
        tick = time.monotonic()
        try:
            record = _chunk_record(cursor, chunk_size, number, work, store, limit)
        except TooManyLost as error:
            store.publish_rejects(number + 1)
            raise TooManyLost(f"{error}; all of them are in {store.rejected.name}") from None
        ledger += Ledger.from_json(record["ledger"])
        last, name = record["last"], store.chunk(number).name
        number += 1
        seconds = round(time.monotonic() - tick, 3)
        emit("task", stage=STAGE, name=name, done=number, tasks=max(tasks, number), seconds=seconds)
    store.publish_rejects(number)
    ledger.check()
    store.finish(ledger, number)
    emit("end", stage=STAGE, seconds=round(time.monotonic() - began, 3))
    return ledger


def _chunk_record(
    cursor: _Cursor, chunk_size: int, number: int, work: _Work, store: _Store, limit: LossLimit
) -> dict[str, Any]:
    """Return the record of a chunk, which is made unless it is finished."""
    record = store.finished(number)
    if record is not None:
        ledger = Ledger.from_json(record["ledger"])
        seen = ledger.total(STAGE, "in") + ledger.total(STAGE, "expanded")
        limit.add(seen=seen, failed=ledger.reasons(STAGE, "failed"), examples=record["examples"])
        return record
    cursor.seek(number * chunk_size)
    store.promise(number)
    path, counts = store.chunk(number), _Counts(limit)
    with write_whole(path) as out, _kept(store.rejects(number)) as rejects:
        for name, place, raw in cursor.take(chunk_size):
            lines = work.lines(raw)
            counts.row(name, len(lines))
            for at, line in enumerate(lines):
                if isinstance(line, bytes):
                    out.write(line)
                    continue
                where = place if len(lines) == 1 else f"{place}.{at}"
                rejects.write(_rejected(where, line, raw))
                counts.failed(name, where, line)
    record = {"last": cursor.ended, "size": path.stat().st_size, "sha256": digest(path), **counts.record()}
    store.commit(number, record)
    return record


@contextlib.contextmanager
def _kept(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that is there in any case: what was rejected tells why the rest failed."""
    if not is_remote(path):
        with path.open("wb") as file:
            yield file
        return
    folder = scratch("rejected")
    try:
        with (folder / path.name).open("wb") as file:
            yield file
    finally:
        replace(folder / path.name, path)
        shutil.rmtree(folder)


class _Counts:
    """The counts of one chunk, in plain dicts: a ledger's bookkeeping would cost more than the row."""

    def __init__(self, limit: LossLimit) -> None:
        self.rows: Counter[tuple[str, int]] = Counter()
        self.bad: Counter[tuple[str, str]] = Counter()
        self.examples: dict[str, list[str]] = {}
        self._limit, self._seen = limit, 0

    def row(self, source: str, lines: int) -> None:
        self.rows[source, lines] += 1
        self._seen += max(1, lines)

    def failed(self, source: str, where: str, error: BadRecord) -> None:
        self.bad[source, error.reason] += 1
        example = _encodable(f"{where} ({error.detail})" if error.detail else where)
        if len(shown := self.examples.setdefault(error.reason, [])) < 3:
            shown.append(example)
        self._tell({error.reason: 1}, {error.reason: [example]})

    def _tell(self, failed: dict[str, int], examples: dict[str, list[str]]) -> None:
        self._limit.add(seen=self._seen, failed=failed, examples=examples)
        self._seen = 0

    def record(self) -> dict[str, Any]:
        """Return what a finished chunk is remembered by."""
        self._tell({}, {})
        return {"ledger": self.ledger().to_json(), "examples": self.examples}

    def ledger(self) -> Ledger:
        ledger, kept = Ledger([STAGE]), Counter[str]()
        for (source, lines), rows in sorted(self.rows.items()):
            ledger.add(STAGE, "in", source, documents=rows)
            kept[source] += rows * lines
            if lines == 0:
                ledger.add(STAGE, "dropped", source, "dropped_by_function", documents=rows)
            if lines > 1:
                ledger.add(STAGE, "expanded", source, documents=rows * (lines - 1))
        for (source, reason), records in sorted(self.bad.items()):
            ledger.add(STAGE, "failed", source, reason, documents=records)
            kept[source] -= records
        for source, records in kept.items():
            ledger.add(STAGE, "kept", source, documents=records)
        return ledger


def _rejected(place: str, error: BadRecord, raw: Any) -> bytes:
    """Return a line that says what failed, why, and what it was."""
    if isinstance(raw, bytes):
        text = raw.decode("utf-8", "replace")
    else:
        try:
            text = jsonl.dumps(raw, nan="null", bytes="base64").decode() if isinstance(raw, dict) else ""
        except BadRecord:
            text = repr(raw)
    line = {"id": place, "stage": STAGE, "reason": error.reason, "detail": error.detail, "text": text[:KEPT_TEXT]}
    return jsonl.dumps({key: _encodable(value) for key, value in line.items()})


def _encodable(text: str) -> str:
    # What failed may have failed for half a surrogate pair, and must be told all the same.
    return text.encode("utf-8", "backslashreplace").decode()
