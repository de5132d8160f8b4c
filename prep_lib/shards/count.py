"""A span of input becomes ragged rows of ids on disk: the count task.

    .prep/rows/00000.sequence.bin    the ids of all rows behind each other, one file an array
                     lengths.npy     (rows, arrays) tokens
                     documents.npy   (rows,) line numbers
                     pieces.npy      what best_fit packs, ordered by length
                     rejected.jsonl.zst

Every record ends as a row or as a named loss; the ledger of the span balances.
"""

from __future__ import annotations

import contextlib
import heapq
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import orjson
import zstandard

from prep_lib import files as fs
from prep_lib.chat.process import Processor, Row, fit
from prep_lib.engine import HIDDEN
from prep_lib.errors import BadParameter, BadRecord
from prep_lib.files import Span
from prep_lib.ledger import Ledger
from prep_lib.record import Drop
from prep_lib.seeds import key as draw
from prep_lib.source import jsonl, parquet
from prep_lib.tokens.pack import pieces

#: Where the ragged rows wait for the plan.
ROWS = f"{HIDDEN}/rows"

#: Bytes of input handed to the processor at once: many records for a tokenizer, little beside a worker's memory.
BATCH = 2**22

#: Texts kept of rejected records, per reason and source.
KEPT_TEXTS = 1000

#: Characters kept of such a text.
EXCERPT = 4000

#: A piece of a row, as it is stored: where it begins in the row and in the id file.
PIECE = np.dtype([("row", "<i8"), ("start", "<i8"), ("begin", "<i8"), ("length", "<i4")])


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What changes the bytes of a build, besides input, processor and code; the meaning is `build.cache_jsonl`'s."""

    pack_size: int
    packing: str
    tail: str
    pad_value: int
    max_length: int | None
    too_long: str
    shard_size: int | None
    seed: int
    sample: int

    @property
    def packed(self) -> bool:
        """Whether rows become packs."""
        return self.pack_size > 0

    @property
    def sorted(self) -> bool:
        """Whether packs are planned from lengths, not cut from the stream."""
        return self.packed and self.packing != "concat"


@dataclass(frozen=True)
class Counted:
    """What a count task left: its result, and its files by name."""

    folder: Path
    number: int
    source: int
    result: dict[str, Any]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.result["rows"]

    def path(self, part: str) -> Path:
        """Return one of the files."""
        return self.folder / ROWS / f"{self.number:05d}.{part}"

    @property
    def lengths(self) -> np.ndarray:
        """(rows, keys) int32, tokens."""
        return np.load(self.path("lengths.npy"), mmap_mode="r" if self.rows else None)

    @property
    def documents(self) -> np.ndarray:
        """(rows,) int64, line or row numbers."""
        return np.load(self.path("documents.npy"), mmap_mode="r" if self.rows else None)

    @property
    def pieces(self) -> np.ndarray:
        """(pieces,) of PIECE, ordered by length, stable."""
        return np.load(self.path("pieces.npy"), mmap_mode="r" if self.rows else None)

    def array(self, key: str) -> np.ndarray:
        """Return one array of all rows behind each other, memory-mapped."""
        dtype = np.dtype(self.result["dtypes"].get(key, "<i4"))
        path = self.path(f"{key}.bin")
        # A plain view: numba knows no memmap.
        return np.asarray(np.memmap(path, dtype, "r")) if path.stat().st_size else np.zeros(0, dtype)


def count(
    number: int, span: Span, source: str, processor: Processor, settings: Settings, share: float, out: Path
) -> dict[str, Any]:
    """Turn one span into rows; `share` is the part of its records that a sample takes."""
    tally = _Tally(number, source, settings, processor.keys, out)
    with tally:
        for batch in _batches(_records(span, source, settings.seed, share, tally)):
            verdicts = processor.rows([record for _, record in batch])
            for (at, record), verdict in zip(batch, verdicts, strict=True):
                tally.judge(at, record, verdict)
            tally.flush()
    return tally.result()


def reader(path: str) -> Any:
    """Return the module that reads such a file: both have ``read_records(span)``."""
    return parquet if path.endswith(".parquet") else jsonl


def document_id(source: str, number: int) -> str:
    """Return the id of a record: line numbers for JSONL, row numbers for Parquet.

    Examples
    --------
    >>> document_id("a.jsonl", 12), document_id("b.parquet", 3)
    ('a.jsonl#L12', 'b.parquet[3]')
    """
    return f"{source}[{number}]" if source.endswith(".parquet") else f"{source}#L{number}"


def _records(span: Span, source: str, seed: int, share: float, tally: _Tally) -> Iterator[tuple[int, dict[str, Any]]]:
    limit = int(share * 2**64)
    for at, record in reader(span.path).read_records(span):
        if share < 1 and draw(seed, "sample", document_id(source, at)) >= limit:
            continue
        tally.seen += 1
        if isinstance(record, BadRecord):
            tally.lose("read", at, record, None)
        else:
            yield at, record


def _batches(records: Iterator[tuple[int, dict[str, Any]]]) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    batch, size = [], 0
    for at, record in records:
        batch.append((at, record))
        size += 100 + sum(len(value) if isinstance(value, str) else 500 for value in record.values())
        if size > BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _Tally:
    """Writes the rows of one span, and counts what happened to every record."""

    def __init__(self, number: int, source: str, settings: Settings, keys: Sequence[str], out: Path) -> None:
        self.number, self.source, self.settings, self.keys, self.out = number, source, settings, keys, out
        self.seen = self.literal_specials = self.stored = 0
        self.lost: Counter[tuple[str, str, str]] = Counter()  # stage, flow, reason
        self.tokens: Counter[tuple[str, str]] = Counter()  # flow, reason
        self.lengths: list[list[int]] = []
        self.documents: list[int] = []
        self.waiting: list[Row] = []
        self.dtypes: dict[str, str] = {}
        self.examples: dict[str, list[str]] = {}
        self.with_text: dict[str, list[int]] = {}

    def __enter__(self) -> _Tally:
        self.stack = contextlib.ExitStack()
        self.sinks = {key: self.stack.enter_context(self._path(f"{key}.bin").open("wb")) for key in self.keys}
        raw = self.stack.enter_context(self._path("rejected.jsonl.zst").open("wb"))
        self.rejected: IO[bytes] = self.stack.enter_context(zstandard.ZstdCompressor(3).stream_writer(raw))
        return self

    def __exit__(self, *error: Any) -> None:
        with fs.space_for(self.out):
            self.stack.close()

    def _path(self, part: str) -> Path:
        return self.out / f"{self.number:05d}.{part}"

    def lose(self, stage: str, at: int, why: Drop | BadRecord, record: dict[str, Any] | None) -> None:
        """Count a record that goes, and put it aside with its reason."""
        flow = "dropped" if isinstance(why, Drop) else "failed"
        self.lost[stage, flow, why.reason] += 1
        where = document_id(self.source, at)
        if flow == "failed" and len(self.examples.setdefault(why.reason, [])) < 3:
            self.examples[why.reason].append(where)
        wanted = among_smallest(self.with_text.setdefault(why.reason, []), lot(self.settings.seed, where))
        line = {
            "id": where, "source": self.source, "stage": stage, "flow": flow, "reason": why.reason,
            "value": getattr(why, "value", None), "limit": getattr(why, "limit", None),
            "detail": getattr(why, "detail", ""), "text": _excerpt(record) if wanted else None,
        }  # fmt: skip
        with fs.space_for(self.out):
            self.rejected.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))

    def judge(self, at: int, record: dict[str, Any], verdict: Row | Drop | BadRecord) -> None:
        """Bring a row under the limit and keep it, or lose the record."""
        if isinstance(verdict, Row):
            verdict = self._fitted(verdict)
        if isinstance(verdict, Row):
            self._keep(at, verdict)
        else:
            self.lose("process", at, verdict, record)

    def _fitted(self, row: Row) -> Row | Drop:
        for flow in ("content", "control", "eos"):
            self.tokens[flow, ""] += getattr(row, flow)
        self.literal_specials += row.literal_specials
        limit = self.settings.max_length
        fitted, cut = fit(row, limit, self.settings.too_long) if row.tokens else (Drop("empty"), 0)
        self.tokens["cut", ""] += cut
        if isinstance(fitted, Drop):
            self.tokens["dropped", fitted.reason] += row.tokens
        return fitted

    def _keep(self, at: int, row: Row) -> None:
        if tuple(row.arrays) != tuple(self.keys):
            raise BadParameter(f"build: a row has {list(row.arrays)}, but the processor names {list(self.keys)}")
        self.waiting.append(row)
        self.documents.append(at)
        self.lengths.append([len(array) for array in row.arrays.values()])
        self.stored += row.tokens
        masks = [array for key, array in row.arrays.items() if key.endswith("mask")]
        self.tokens["trained", ""] += sum(int(np.count_nonzero(mask)) for mask in masks) if masks else row.tokens

    def flush(self) -> None:
        """Write the rows of a batch."""
        if not self.waiting:
            return
        with fs.space_for(self.out):
            for key, sink in self.sinks.items():
                flat = np.concatenate([row.arrays[key] for row in self.waiting])
                if self.dtypes.setdefault(key, flat.dtype.str) != flat.dtype.str:
                    raise BadParameter(f"build: {key} is {flat.dtype} in one row and {self.dtypes[key]} in another")
                sink.write(flat.data)
        self.waiting.clear()

    def result(self) -> dict[str, Any]:
        """Write what is known of all rows, and return what the span tells."""
        lengths = np.array(self.lengths, np.int32).reshape(-1, len(self.keys))
        if self.settings.packed and (lengths != lengths[:, :1]).any():
            raise BadParameter("build: the arrays of a row differ in length and cannot be packed; use pack_size=0")
        with fs.space_for(self.out):
            np.save(self._path("lengths.npy"), lengths)
            np.save(self._path("documents.npy"), np.array(self.documents, np.int64))
            if self.settings.sorted:
                np.save(self._path("pieces.npy"), _pieces(lengths[:, 0].astype(np.int64), self.settings))
        failed: Counter[str] = Counter()
        for (_, flow, reason), lost in self.lost.items():
            failed[reason] += lost if flow == "failed" else 0
        return {
            "rows": len(lengths), "seen": self.seen, "tokens": self.stored, "dtypes": self.dtypes,
            "literal_specials": self.literal_specials, "ledger": json.loads(self.ledger().to_json()),
            "failed": +failed, "examples": self.examples,
        }  # fmt: skip

    def ledger(self) -> Ledger:
        """Return what happened to every record and token of the span."""
        ledger, source = Ledger(), self.source
        unread = sum(lost for (stage, _, _), lost in self.lost.items() if stage == "read")
        for stage, flow, number in (
            ("read", "in", self.seen), ("read", "kept", self.seen - unread), ("process", "in", self.seen - unread),
            ("process", "kept", len(self.documents)),
        ):  # fmt: skip
            ledger.add(stage, flow, source, documents=number)
        for (stage, flow, reason), lost in sorted(self.lost.items()):
            ledger.add(stage, flow, source, reason, documents=lost)
        for (flow, reason), number in sorted(self.tokens.items()):
            ledger.add_tokens("tokens", flow, number, source, reason)
        return ledger


def _excerpt(record: dict[str, Any] | None) -> str | None:
    # As JSON in ASCII: it may hold anything, half a surrogate pair among it.
    return None if record is None else json.dumps(record, default=repr)[:EXCERPT]


def _pieces(lengths: np.ndarray, settings: Settings) -> np.ndarray:
    row, start, length = pieces(lengths, settings.pack_size, settings.packing)
    begin = (np.cumsum(lengths) - lengths)[row] + start
    table = np.empty(len(row), PIECE)
    for name, column in (("row", row), ("start", start), ("begin", begin), ("length", length)):
        table[name] = column
    return table[np.argsort(length, kind="stable")]


def lot(seed: int, where: str) -> int:
    """Return the number that decides whether a rejected record keeps its text."""
    return draw(seed, "rejected", where)


def among_smallest(heap: list[int], lot: int) -> bool:
    """Keep the `KEPT_TEXTS` smallest lots in a heap; say whether this one is (still) among them."""
    if len(heap) < KEPT_TEXTS:
        heapq.heappush(heap, -lot)
        return True
    return -heapq.heappushpop(heap, -lot) != lot
