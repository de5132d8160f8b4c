"""Parquet row groups, read as the same records as JSON lines.

    a.parquet   row group 0   rows 0 … 99,999         Span(start 0, stop 1, first 0)
                row group 1   rows 100,000 … 180,310  Span(start 1, stop 2, first 100,000)

    timestamp, date, time, duration    ISO 8601            binary     refused record by record, or base64
    decimal                            string              NaN        refused record by record, or null
    map                                [[key, value], …]   arrow.json the value it spells

A struct column has every field in every row: a field that one row never had and one that was null are the same nulls
in the file, so nulls are kept as they are and nothing is guessed. The readers of messages treat null as absent.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from prep_lib.errors import BadInput, BadRecord
from prep_lib.files import Span, Survey, digest, is_remote, open_stored, stamp
from prep_lib.record import Document
from prep_lib.source import jsonl
from prep_lib.verdicts import Column, called

#: Bytes of rows turned into Python objects at once; those take several times as much.
BATCH = 4 * 2**20

#: Rows to a batch at most: more gain nothing.
BATCH_ROWS = 1024


def survey(path: str | Path) -> Survey:
    """Digest a Parquet file, here or behind an fsspec address, and make a span of every row group.

    Raises
    ------
    BadInput
        If it is not a Parquet file, is cut, or has two columns of one name.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "a.parquet")
    >>> pq.write_table(pa.table({"text": ["a", "b", "c"]}), path, row_group_size=2)
    >>> found = survey(path)
    >>> found.rows, [(span.start, span.stop, span.first) for span in found.spans]
    (3, [(0, 1, 0), (1, 2, 2)])
    """
    with _open(path) as file:
        meta = file.metadata
        spans, first = [], 0
        for group in range(meta.num_row_groups):
            spans.append(Span(str(path), group, group + 1, first))
            first += meta.row_group(group).num_rows
        return Survey(digest(path), stamp(path)[0], first, tuple(spans))


def columns(path: str | Path) -> list[str]:
    """Return the names of the columns, in the file's order."""
    with _open(path) as file:
        return list(file.schema_arrow.names)


def read_records(
    span: Span, *, nan: jsonl.Nan = "reject", bytes: jsonl.Bytes = "reject"
) -> Iterator[tuple[int, dict[str, Any] | BadRecord]]:
    """Yield (row number, record) of a span, in memory of one batch.

    Parameters
    ----------
    span : Span
        Of `survey`, or ``Span(path, first=0)`` for the whole file.
    nan, bytes
        As for `jsonl.dumps`, whose conversions are applied: a record holds only what JSON has.

    Raises
    ------
    BadInput
        If the file is damaged: behind the damage no row can be told from another.

    Examples
    --------
    >>> import datetime, tempfile
    >>> path = Path(tempfile.mkdtemp(), "a.parquet")
    >>> pq.write_table(pa.table({"day": [datetime.date(2024, 1, 2)], "n": [7]}), path)
    >>> list(read_records(Span(str(path), first=0)))
    [(0, {'day': '2024-01-02', 'n': 7})]
    """
    jsonl.check_policies(nan, bytes)
    for number, row in read_rows(span):
        if not isinstance(row, BadRecord):
            try:
                row = jsonl.plain(row, nan=nan, bytes=bytes)
            except BadRecord as error:
                row = error.with_traceback(None)
        yield number, row


def read_rows(span: Span) -> Iterator[tuple[int, dict[str, Any] | BadRecord]]:
    """Yield (row number, row) as Python values, not yet converted: for a function that wants the bytes or dates."""
    number = span.first
    with _open(span.path) as file:
        groups = range(span.start, file.metadata.num_row_groups if span.stop is None else span.stop)
        decode = decoder(pa.struct(list(file.schema_arrow)))
        batches = file.iter_batches(_batch_rows(file, groups), row_groups=list(groups), use_threads=False)
        while (batch := _next(batches, span.path, number)) is not None:
            for row in _rows(batch, decode):
                yield number, row
                number += 1


def documents(
    span: Span, *, name: str | None = None, text: str = "text", column: Column | None = None
) -> Iterator[tuple[str, Document | BadRecord]]:
    """Yield (id, document) of a span as `jsonl.documents` does; the id is ``file.parquet[6]``.

    Parameters
    ----------
    name : str or None
        What the ids begin with; None: the file's name.
    text : str
        The column that holds the text; the other columns become the meta.
    column : Column or None
        What was decided about the rows; see `prep_lib.verdicts`. None: all are read.

    Yields
    ------
    (str, Document or BadRecord)
        A damaged row group is one BadRecord, ``damaged_row_group``, in the place of its first row that was not read;
        its detail says how many were not. The next row group is read.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "a.parquet")
    >>> pq.write_table(pa.table({"text": ["b"], "n": [7]}), path)
    >>> list(documents(Span(str(path), first=0)))
    [('a.parquet[0]', Document(id='a.parquet[0]', text='b', source='a.parquet', meta={'n': 7}))]
    """
    return (found for _, found in numbered(span, name=name, text=text, column=column))


def numbered(
    span: Span, *, name: str | None = None, text: str = "text", column: Column | None = None
) -> Iterator[tuple[int, tuple[str, Document | BadRecord]]]:
    """Yield the number of each row that is read, and what `documents` yields."""
    name = os.path.basename(span.path) if name is None else name
    if column is None:
        for number, record in _sound_records(span):
            yield number, jsonl.document(f"{name}[{number}]", name, record, text)
        return
    column.check(text)
    name = column.original(name)
    for number, record in _sound_records(span):
        if column.takes(number):
            place = f"{called(name, column.copy)}[{number}]"
            yield number, jsonl.decided(jsonl.document(place, name, record, text), place, number, column)


def _sound_records(span: Span) -> Iterator[tuple[int, dict[str, Any] | BadRecord]]:
    """Yield (row number, record); what a damaged row group loses is one BadRecord."""
    for group, stop in _row_groups(span):
        unread = group.first
        try:
            for number, record in read_records(group):
                yield number, record
                unread = number + 1
        except BadInput as error:
            yield unread, BadRecord("damaged_row_group", f"{stop - unread:,} rows lost; {error}")


def _row_groups(span: Span) -> list[tuple[Span, int]]:
    """Cut a span into its row groups, each with the number of the row behind it."""
    cut, first = [], span.first
    with _open(span.path) as file:
        for group in range(span.start, file.metadata.num_row_groups if span.stop is None else span.stop):
            stop = first + file.metadata.row_group(group).num_rows
            cut.append((Span(span.path, group, group + 1, first), stop))
            first = stop
    return cut


@contextlib.contextmanager
def _open(path: str | Path) -> Iterator[pq.ParquetFile]:
    with contextlib.ExitStack() as opened:
        try:
            stored = opened.enter_context(open_stored(str(path))) if is_remote(path) else str(path)
            # Without pre_buffer a row group is read as it is needed, not whole.
            file = opened.enter_context(pq.ParquetFile(stored, pre_buffer=False, buffer_size=2**20))
        except (pa.ArrowException, OSError) as error:
            raise BadInput(f"parquet: cannot read {path}: {one_line(error)}") from None
        names = file.schema_arrow.names
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise BadInput(f"parquet: {path} has more than one column {', '.join(twice)}; rename them")
        yield file


def one_line(error: BaseException) -> str:
    """Return the message of somebody else's error in one line."""
    return " ".join(str(error).split())[:300]


def _batch_rows(file: pq.ParquetFile, groups: range) -> int:
    sizes = [file.metadata.row_group(group) for group in groups]
    rows, size = sum(group.num_rows for group in sizes), sum(group.total_byte_size for group in sizes)
    return max(1, min(BATCH_ROWS, BATCH * rows // max(size, 1)))


def _next(batches: Iterator[pa.RecordBatch], path: str, number: int) -> pa.RecordBatch | None:
    try:
        return next(batches, None)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"parquet: {path} is damaged after row {number}: {one_line(error)}") from None


def _rows(batch: pa.RecordBatch, decode: Decoder | None) -> Iterator[dict[str, Any] | BadRecord]:
    """Turn a batch into rows; where one of them fails, each on its own."""
    try:
        rows = batch.to_pylist()
        yield from rows if decode is None else [decode(row) for row in rows]
    except Exception:
        for at in range(batch.num_rows):
            yield _row(batch.slice(at, 1), decode)


def _row(batch: pa.RecordBatch, decode: Decoder | None) -> dict[str, Any] | BadRecord:
    try:
        (row,) = batch.to_pylist()
        return row if decode is None else decode(row)
    except BadRecord as error:
        return error.with_traceback(None)
    except UnicodeDecodeError as error:
        return BadRecord("invalid_utf8", f"byte 0x{error.object[error.start]:02x} at {error.start}")
    except Exception as error:  # dates beyond year 9999, time zones nobody knows, maps with one key twice
        return BadRecord("unreadable_value", f"{type(error).__name__}: {one_line(error)}")


Decoder = Callable[[Any], Any]


def decoder(kind: pa.DataType) -> Decoder | None:
    """Return a function that reads the JSON text inside a value of this type; None: there is none.

    Data sets with a ``Json`` feature (messages whose tool calls differ from row to row) are stored that way.

    Examples
    --------
    >>> decoder(pa.list_(pa.string())) is None
    True
    """
    if getattr(kind, "extension_name", None) == "arrow.json":
        return lambda text: None if text is None else jsonl.parse(text.encode("utf-8"))
    if pa.types.is_struct(kind):
        inside = {field.name: decode for field in kind if (decode := decoder(field.type)) is not None}
        return _struct_decoder(inside) if inside else None
    if hasattr(kind, "value_type") and not pa.types.is_dictionary(kind):
        decode = decoder(kind.value_type)
        return None if decode is None else lambda items: None if items is None else [decode(item) for item in items]
    return None


def _struct_decoder(inside: dict[str, Decoder]) -> Decoder:
    def decode(value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is None:
            return None
        return {name: inside[name](child) if name in inside else child for name, child in value.items()}

    return decode
