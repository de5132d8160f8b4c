"""Ragged rows become one shard: the write task.

    packs of this shard ──plan──▶ (length, rank) ──index──▶ (file, row) ──copy──▶ (packs, pack_size)

What a shard holds follows from the plan and its number alone, so shards are written in any order, by anyone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prep_lib.jit import kernel
from prep_lib.shards.count import PIECE, Counted, Settings
from prep_lib.shards.h5 import ShardWriter
from prep_lib.shards.manifest import shard_entry
from prep_lib.tokens.pack import LengthIndex, Plan, assign, concat_pieces, pack_order

#: Tokens to a shard when `shard_size` is None: about a third of a GB with a mask, a few minutes of work.
SHARD_TOKENS = 2**26


@dataclass(frozen=True)
class Rows:
    """The ragged rows of all count tasks, and the plan of their packs."""

    parts: list[Counted]
    names: list[str]
    keys: tuple[str, ...]
    settings: Settings
    plan: Plan | None
    index: LengthIndex | None
    ids: tuple[str, ...]

    def __len__(self) -> int:
        """How many rows are written: packs, or ragged rows."""
        return self.plan.packs if self.plan is not None else sum(part.rows for part in self.parts)

    @property
    def default_shard_size(self) -> int:
        """Rows to a shard, so that it holds about `SHARD_TOKENS`."""
        if self.settings.packed:
            return max(1, SHARD_TOKENS // self.settings.pack_size)
        tokens = sum(part.result["tokens"] for part in self.parts)
        return max(1, -(-len(self) // max(1, round(tokens / SHARD_TOKENS))))

    @property
    def dtypes(self) -> dict[str, np.dtype[Any]]:
        """The type of each array; that of no rows is what the specification says: int32 ids, bool masks."""
        told = {key: dtype for part in self.parts for key, dtype in part.result["dtypes"].items()}
        return {key: np.dtype(told.get(key, bool if key.endswith("mask") else np.int32)) for key in self.keys}

    @property
    def numbers(self) -> set[str]:
        """Arrays that are one number a row, such as a prompt's length: they need no offsets."""
        single = [
            key for at, key in enumerate(self.keys) if all((part.lengths[:, at] == 1).all() for part in self.parts)
        ]
        return {key for key in single if key not in self.ids and not key.endswith("mask")}

    def sources(self, part: np.ndarray) -> np.ndarray:
        """Return which source each of some parts belongs to, (n,) int32."""
        return np.array([counted.source for counted in self.parts], np.int32)[part]

    def gather(self, part: np.ndarray, row: np.ndarray, what: Callable[[Counted], np.ndarray]) -> np.ndarray:
        """Return one number for each of some rows of some parts, (n,) int64."""
        out = np.zeros(len(row), np.int64)
        for number in np.unique(part):
            mine = part == number
            out[mine] = what(self.parts[number])[row[mine]]
        return out

    def tokens_by_source(self, part: np.ndarray, tokens: np.ndarray) -> dict[str, int]:
        """Sum the tokens of pieces by the name of their source; sources without any are left out."""
        by_source = np.bincount(self.sources(part), tokens, minlength=len(self.names)).astype(np.int64)
        return {name: int(count) for name, count in zip(self.names, by_source, strict=True) if count}


@dataclass(frozen=True)
class _Pieces:
    """The pieces of one shard in the order they are written: where each comes from and where it goes.

    Parameters
    ----------
    pack : (n,) int64, place in the shard, ascending
    part : (n,) int64, which count task's files
    row : (n,) int64, row in that part
    start : (n,) int64, tokens, where the piece begins in its row
    begin : (n,) int64, tokens, where it begins in the part's id file
    length : (n,) int64, tokens
    """

    pack: np.ndarray
    part: np.ndarray
    row: np.ndarray
    start: np.ndarray
    begin: np.ndarray
    length: np.ndarray

    def places(self, pack_size: int) -> np.ndarray:
        """Return where each piece begins in the shard's tokens, packs behind each other, (n,) int64."""
        ends = np.cumsum(self.length)
        in_packs_before = np.concatenate(([0], ends))[np.searchsorted(self.pack, self.pack)]
        return self.pack * pack_size + ends - self.length - in_packs_before


@dataclass(frozen=True)
class _Told:
    """What writing a shard tells: the documents in it, and the tokens of every piece with the part it comes from.

    Parameters
    ----------
    documents : (2, d) int64, part and row
    part, tokens : (n,) int64
    cut : int, documents with a piece that begins inside them
    """

    documents: np.ndarray
    part: np.ndarray
    tokens: np.ndarray
    cut: int = 0


def write(rows: Rows, shard: int, first: int, last: int, memory: int, out: Path) -> dict[str, Any]:
    """Write the rows first:last as one shard; `memory` bounds the bytes held at once."""
    path = out / f"chunk_{shard}.h5"
    with ShardWriter(path) as file:
        told = (_write_ragged if rows.plan is None else _write_packed)(file, rows, first, last, memory)
        part, row = told.documents
        file.strings("documents/sources", rows.names)
        file.write("documents/source", rows.sources(part))
        file.write("documents/line", rows.gather(part, row, lambda counted: counted.documents))
    tokens = rows.tokens_by_source(told.part, told.tokens)
    entry = shard_entry(path, last - first, int(told.tokens.sum()), str(rows.dtypes[rows.ids[0]]), tokens)
    return {"entry": entry, "tokens": tokens, "cut": told.cut}


def _write_packed(file: ShardWriter, rows: Rows, first: int, last: int, memory: int) -> _Told:
    found, size = _find(rows, first, last), rows.settings.pack_size
    places = found.places(size)
    for key, dtype in rows.dtypes.items():
        column = file.create(key, (last - first, size), dtype)
        # Half for what is being filled, half for what the library is writing.
        block = max(1, memory // (2 * size * dtype.itemsize))
        for low in range(0, last - first, block):
            high = min(low + block, last - first)
            column[low:high] = _fill(rows, key, dtype, found, places, low, high)
    # The documents of the shard, each once, in the order they were read.
    names, document = np.unique(np.stack([found.part, found.row]), axis=1, return_inverse=True)
    for name, values in (("row", found.pack), ("start", found.start), ("document", document.ravel())):
        file.write(f"segments/{name}", values.astype(np.int64))
    file.write("segments/length", found.length.astype(np.int32))
    # A document that is cut has a first piece shorter than itself: counted where it begins, so once over all shards.
    begun = found.start == 0
    whole = rows.gather(found.part[begun], found.row[begun], lambda counted: counted.lengths[:, 0])
    cut = int(np.count_nonzero(found.length[begun] < whole))
    return _Told(names, found.part, found.length, cut)


def _find(rows: Rows, first: int, last: int) -> _Pieces:
    """Find the pieces of the packs first:last."""
    plan, seed = rows.plan, rows.settings.seed
    assert plan is not None
    if rows.index is None:
        return _find_in_stream(rows, first, last)
    pack, part, position, length = assign(plan, rows.index, pack_order(plan.packs, seed)[first:last], seed)
    table = np.zeros(len(pack), PIECE)
    for number in np.unique(part):
        mine = part == number
        table[mine] = rows.parts[number].pieces[position[mine]]
    return _Pieces(pack, part, table["row"], table["start"], table["begin"], length)


def _find_in_stream(rows: Rows, first: int, last: int) -> _Pieces:
    size, at = rows.settings.pack_size, 0
    columns: list[tuple[np.ndarray, ...]] = [(np.zeros(0, np.int64),) * 6]
    for number, part in enumerate(rows.parts):
        tokens = part.result["tokens"]
        if at < last * size and at + tokens > first * size:
            lengths = part.lengths[:, 0].astype(np.int64)
            pack, row, start, length = concat_pieces(lengths, size, at)
            begin = (np.cumsum(lengths) - lengths)[row] + start
            mine = (pack >= first) & (pack < last)
            whole = (pack - first, np.full_like(pack, number), row, start, begin, length.astype(np.int64))
            columns.append(tuple(column[mine] for column in whole))
        at += tokens
    return _Pieces(*(np.concatenate(column) for column in zip(*columns, strict=True)))


@kernel
def _copy(source, begins, lengths, target, places):  # type: ignore[no-untyped-def]
    for at in range(len(begins)):
        for offset in range(lengths[at]):
            target[places[at] + offset] = source[begins[at] + offset]


def _fill(
    rows: Rows, key: str, dtype: np.dtype[Any], found: _Pieces, places: np.ndarray, low: int, high: int
) -> np.ndarray:
    """Return the packs low:high of one array, (high - low, pack_size)."""
    size = rows.settings.pack_size
    target = np.full((high - low) * size, False if dtype.kind == "b" else rows.settings.pad_value, dtype)
    inside = slice(*np.searchsorted(found.pack, [low, high]))
    part, begin, length = found.part[inside], found.begin[inside], found.length[inside]
    place = places[inside] - low * size
    for number in np.unique(part):
        mine = np.flatnonzero(part == number)
        mine = mine[np.argsort(begin[mine], kind="stable")]  # each file is read front to back
        _copy(rows.parts[number].array(key), begin[mine], length[mine], target, place[mine])
    return target.reshape(high - low, size)


def _write_ragged(file: ShardWriter, rows: Rows, first: int, last: int, memory: int) -> _Told:
    slices, numbers = list(_slices(rows.parts, first, last)), rows.numbers
    lengths = np.concatenate([np.zeros((0, len(rows.keys)), np.int32), *(part.lengths[a:b] for part, a, b in slices)])
    for number, (key, dtype) in enumerate(rows.dtypes.items()):
        offsets = np.concatenate(([0], np.cumsum(lengths[:, number], dtype=np.int64)))
        column = file.create(key, (int(offsets[-1]),), dtype)
        if key not in numbers:
            file.write(f"offsets/{key}", offsets)
        at = 0
        for part, low, high in slices:
            for block in _blocks(part, number, key, low, high, max(1, memory // (2 * dtype.itemsize))):
                column[at : at + len(block)] = block
                at += len(block)
    origin = np.repeat([part.number for part, _, _ in slices], [b - a for _, a, b in slices]).astype(np.int64)
    row = np.concatenate([np.zeros(0, np.int64), *(np.arange(a, b) for _, a, b in slices)])
    ids = [at for at, key in enumerate(rows.keys) if key in rows.ids]
    return _Told(np.stack([origin, row]), origin, lengths[:, ids].sum(axis=1, dtype=np.int64))


def _slices(parts: list[Counted], first: int, last: int) -> Iterator[tuple[Counted, int, int]]:
    """Yield the rows first:last of all parts together as slices of each."""
    at = 0
    for part in parts:
        low, high = max(first - at, 0), min(last - at, part.rows)
        if low < high:
            yield part, low, high
        at += part.rows


def _blocks(part: Counted, number: int, key: str, low: int, high: int, size: int) -> Iterator[np.ndarray]:
    """Yield the tokens of the rows low:high of a part in blocks."""
    begin = int(part.lengths[:low, number].sum(dtype=np.int64))
    end = begin + int(part.lengths[low:high, number].sum(dtype=np.int64))
    for at in range(begin, end, size):
        yield part.array(key)[at : min(at + size, end)]
