"""Ragged rows become one shard: the write task.

    packs of this shard ──plan──▶ (length, rank) ──index──▶ (file, row) ──copy──▶ (packs, pack_size)

What a shard holds follows from the plan and its number alone, so shards are written in any order, by anyone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from prep_lib.errors import BadShard
from prep_lib.jit import kernel
from prep_lib.shards.bin import id_dtype
from prep_lib.shards.count import DOCUMENT, PIECE, Counted, Layout, Settings
from prep_lib.shards.formats import FORMATS
from prep_lib.shards.manifest import shard_entry
from prep_lib.tokens.pack import LengthIndex, Plan, assign, concat_pieces, pack_order
from prep_lib.tokens.stream import Census, census

#: Tokens to a shard when `shard_size` is None: about a third of a GB with a mask, a few minutes of work.
SHARD_TOKENS = 2**26

#: Pieces to a shard at most when `shard_size` is None: finding one takes about 150 bytes while a shard is written.
SHARD_PIECES = 2**22

#: Bytes filled at once: more gains nothing.
BLOCK = 2**26


@dataclass(frozen=True)
class Rows:
    """The ragged rows of all count tasks, and the plan of their packs."""

    parts: list[Counted]
    names: list[str]
    layout: Layout
    settings: Settings
    plan: Plan | None = None
    index: LengthIndex | None = None

    def __len__(self) -> int:
        """How many rows are written: packs, or ragged rows."""
        return self.plan.packs if self.plan is not None else sum(part.rows for part in self.parts)

    @property
    def default_shard_size(self) -> int:
        """Rows to a shard, so that it holds about `SHARD_TOKENS`, and at most about `SHARD_PIECES`."""
        rows, tokens = sum(part.rows for part in self.parts), sum(part.tokens for part in self.parts)
        shards = max(1, -(-rows // SHARD_PIECES))
        if self.plan is not None:
            return max(1, min(SHARD_TOKENS // self.settings.pack_size, -(-len(self) // shards)))
        return max(1, -(-rows // max(shards, round(tokens / SHARD_TOKENS))))

    @property
    def numbers(self) -> set[str]:
        """Arrays that are one number a row, such as a prompt's length: they need no offsets."""
        single = set(self.layout.keys) - {*self.layout.ids, *self.layout.masks}
        return single.intersection(*(part.singles for part in self.parts))

    def take(
        self, part: np.ndarray, at: np.ndarray, what: Callable[[Counted], np.ndarray], dtype: Any = np.int64
    ) -> np.ndarray:
        """Return entries of an array that every part has, (n,) of `dtype`, in the order they are asked for."""
        out = np.empty(len(part), dtype)
        for number, mine in by_part(part):
            out[mine] = what(self.parts[number])[at[mine]]
        return out

    def documents(self, part: np.ndarray, row: np.ndarray) -> np.ndarray:
        """Return where some rows were read from, (n,) of DOCUMENT."""
        return self.take(part, row, lambda counted: counted.documents, DOCUMENT)

    def lengths(self, part: np.ndarray, row: np.ndarray) -> np.ndarray:
        """Return the tokens of some rows as a whole, (n,) int64; of packed rows only."""
        begin, end = (self.take(part, row + step, lambda counted: counted.offsets[:, 0]) for step in (0, 1))
        return end - begin

    @cached_property
    def groups(self) -> list[tuple[str, str | None]]:
        """Source and language of all documents, in order."""
        found = {group for part in self.parts for group in part.groups}
        return sorted(found, key=lambda group: (group[0], group[1] or ""))

    def stored_dtype(self, key: str) -> np.dtype[Any]:
        """Return the type an array has on disk: flat ids are as narrow as the tokenizer allows."""
        documents = self.settings.documents
        if self.settings.format == "bin" and documents is not None and key in self.layout.ids:
            return id_dtype(documents.max_id)
        return self.layout.dtype(key)


def by_part(part: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield every part that occurs with the places where it does.

    Examples
    --------
    >>> [(number, places.tolist()) for number, places in by_part(np.array([7, 3, 7]))]
    [(3, [1]), (7, [0, 2])]
    """
    if not len(part):
        return
    order = np.argsort(part, kind="stable")
    numbers, starts = np.unique(part[order], return_index=True)
    yield from zip(numbers.tolist(), np.split(order, starts[1:]), strict=True)


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
    """What writing a shard tells.

    Parameters
    ----------
    part, row : (d,) int64
        Of every document in it.
    document : (n,) int64
        Of every piece, or row: its place among those documents.
    tokens : (n,) int64
        Of every piece, or row.
    cut : int
        Documents with a piece that begins inside them.
    census : Census or None
        Of the EOS in it; None where rows are no documents.
    """

    part: np.ndarray
    row: np.ndarray
    document: np.ndarray
    tokens: np.ndarray
    cut: int = 0
    census: Census | None = None


def write(rows: Rows, shard: int, first: int, last: int, memory: int, out: Path) -> dict[str, Any]:
    """Write the rows first:last as one shard; `memory` bounds the bytes held at once."""
    kind = FORMATS[rows.settings.format]
    path, *beside = (out / name for name in kind.outputs(shard))
    with kind.writer(path) as file:
        told = (_write_ragged if rows.plan is None else _write_packed)(file, rows, first, last, memory)
        documents = rows.documents(told.part, told.row)
        file.strings("documents/sources", rows.names)
        file.write("documents/source", documents["source"])
        file.write("documents/line", documents["line"])
        if rows.settings.documents is not None:
            _write_labels(file, rows, told)
    tokens = _by_source(rows.names, documents["source"][told.document], told.tokens)
    dtype = str(rows.stored_dtype(rows.layout.ids[0]))
    entry = shard_entry(path, last - first, int(told.tokens.sum()), dtype, tokens, beside)
    return {"entry": entry, "tokens": tokens, "cut": told.cut, "eos": told.census.eos if told.census else None}


def _write_labels(file: Any, rows: Rows, told: _Told) -> None:
    """Write what the documents say of themselves: group, length as a whole, and their own ids."""
    place = {group: at for at, group in enumerate(rows.groups)}
    group = np.empty(len(told.part), np.int32)
    texts: list[bytes] = [b""] * len(told.part)
    for number, mine in by_part(told.part):
        part, row = rows.parts[number], told.row[mine]
        known = np.array([place[each] for each in part.groups], np.int32)
        group[mine] = known[part.labels["group"][row]]
        spelled, ends = bytes(part.record_ids), part.labels["id_end"]
        begins = np.where(row > 0, ends[row - 1], 0)
        for at, begin, end in zip(mine.tolist(), begins.tolist(), ends[row].tolist(), strict=True):
            texts[at] = spelled[begin:end]
    file.strings("documents/groups", [orjson.dumps(each).decode() for each in rows.groups])
    file.write("documents/group", group)
    file.write("documents/tokens", rows.lengths(told.part, told.row))
    file.write("documents/id", np.frombuffer(b"".join(texts), np.uint8))
    file.write("documents/id_end", np.cumsum([len(text) for text in texts], dtype=np.int64))


def _by_source(names: list[str], source: np.ndarray, tokens: np.ndarray) -> dict[str, int]:
    """Sum tokens by the name of their source; sources without any are left out."""
    summed = np.bincount(source, tokens, minlength=len(names)).astype(np.int64)
    return {names[at]: int(summed[at]) for at in np.flatnonzero(summed).tolist()}


def remainder(rows: Rows) -> list[tuple[str, int, int]]:
    """Return (source, tokens, trained tokens) of what concat left over: the pieces of the pack that is not written."""
    if rows.plan is None or rows.settings.sorted or not rows.plan.lost_tokens:
        return []
    left = _find_in_stream(rows, rows.plan.packs, rows.plan.packs + 1)
    source, trained = rows.documents(left.part, left.row)["source"], _trained(rows, left)
    one, other = _by_source(rows.names, source, left.length), _by_source(rows.names, source, trained)
    return [(name, tokens, other.get(name, 0)) for name, tokens in one.items()]


def _trained(rows: Rows, found: _Pieces) -> np.ndarray:
    """Count the targets of each piece, (n,) int64; all of it where there is no mask."""
    trained = np.zeros(len(found.part), np.int64)
    for number, mine in by_part(found.part):
        for mask in map(rows.parts[number].array, rows.layout.masks):
            for at in mine:
                trained[at] += np.count_nonzero(mask[found.begin[at] : found.begin[at] + found.length[at]])
    return trained if rows.layout.masks else found.length


def _write_packed(file: Any, rows: Rows, first: int, last: int, memory: int) -> _Told:
    found, size = _find(rows, first, last), rows.settings.pack_size
    places = found.places(size)
    counted = _Census(rows, found, places) if rows.settings.documents is not None else None
    for key in rows.layout.keys:
        dtype = rows.layout.dtype(key)
        column = file.create(key, (last - first, size), rows.stored_dtype(key))
        # Half for what is being filled, half for what the library is writing.
        block = max(1, min(memory // 2, BLOCK) // (size * dtype.itemsize))
        target = np.empty((min(block, last - first), size), dtype)
        for low in range(0, last - first, block):
            high = min(low + block, last - first)
            column[low:high] = filled = _fill(rows, key, found, places, low, target[: high - low])
            if counted is not None:
                counted.add(filled, low)
    # The documents of the shard, each once, in the order they were read.
    before = np.cumsum([0, *(part.rows for part in rows.parts)])
    number, document = np.unique(before[found.part] + found.row, return_inverse=True)
    part = np.searchsorted(before, number, side="right") - 1
    for name, values in (("row", found.pack), ("start", found.start), ("document", document)):
        file.write(f"segments/{name}", values.astype(np.int64))
    file.write("segments/length", found.length.astype(np.int32))
    total = counted.total if counted is not None else None
    return _Told(part, number - before[part], document, found.length, _cut(rows, found), total)


class _Census:
    """Proves while a shard of documents is filled that each ends in one EOS, and that there is no other."""

    def __init__(self, rows: Rows, found: _Pieces, places: np.ndarray) -> None:
        assert rows.settings.documents is not None
        self._size, self._eos, self._pad = (
            rows.settings.pack_size,
            rows.settings.documents.eos_id,
            rows.settings.pad_value,
        )
        ending = found.start + found.length == rows.lengths(found.part, found.row)
        # Documents that end in the shard, front to back, and how much of each row is filled.
        self._ends = np.sort((places + found.length)[ending])
        self._filled = np.bincount(found.pack, found.length).astype(np.int64)
        self.total = Census(0, 0, 0)

    def add(self, filled: np.ndarray, low: int) -> None:
        """Count the rows from `low` on; any EOS out of place stops the build."""
        begin, stop = low * self._size, low * self._size + filled.size
        inside = self._ends[np.searchsorted(self._ends, begin, "right") : np.searchsorted(self._ends, stop, "right")]
        ids = filled.reshape(-1)
        if self._pad == self._eos:
            # Padding is known by length: it must not count as an end where both are one id.
            padding = np.arange(self._size) >= self._filled[low : low + len(filled), None]
            ids = np.where(padding.reshape(-1), -1, ids)
        self.total += census(ids, inside - begin, self._eos)
        if self.total.misplaced:
            raise BadShard(
                f"shards/write: {self.total.misplaced:,} ends of documents and EOS do not stand together; "
                "the tokenizer gave an EOS inside a text, or none behind it"
            )


def _cut(rows: Rows, found: _Pieces) -> int:
    """Count the documents that are cut: their first piece is shorter than they are, so each counts in one shard."""
    begun = found.start == 0
    return int(np.count_nonzero(found.length[begun] < rows.lengths(found.part[begun], found.row[begun])))


def _find(rows: Rows, first: int, last: int) -> _Pieces:
    """Find the pieces of the packs first:last."""
    plan, seed = rows.plan, rows.settings.seed
    assert plan is not None
    if rows.index is None:
        return _find_in_stream(rows, first, last)
    pack, part, position, length = assign(plan, rows.index, pack_order(plan.packs, seed)[first:last], seed)
    table = rows.take(part, position, lambda counted: counted.pieces, PIECE)
    return _Pieces(pack, part, table["row"], table["start"], table["begin"], length)


def _find_in_stream(rows: Rows, first: int, last: int) -> _Pieces:
    size, at = rows.settings.pack_size, 0
    columns: list[tuple[np.ndarray, ...]] = [(np.zeros(0, np.int64),) * 6]
    for number, part in enumerate(rows.parts):
        low, high = max(first * size - at, 0), min(last * size - at, part.tokens)
        if low < high:
            # Only the rows that reach into these packs, from the one that holds the first token on.
            begins = part.offsets[:, 0]
            above, below = np.searchsorted(begins, low, side="right") - 1, np.searchsorted(begins, high)
            edges = np.array(begins[above : below + 1])
            pack, row, start, length = concat_pieces(np.diff(edges), size, at + int(edges[0]))
            mine = (pack >= first) & (pack < last)
            origin = np.full(len(pack), number, np.int64)
            whole = (pack - first, origin, row + above, start, edges[row] + start, length.astype(np.int64))
            columns.append(tuple(column[mine] for column in whole))
        at += part.tokens
    return _Pieces(*(np.concatenate(column) for column in zip(*columns, strict=True)))


@kernel
def _copy(source, begins, lengths, target, places):  # type: ignore[no-untyped-def]
    for at in range(len(begins)):
        for offset in range(lengths[at]):
            target[places[at] + offset] = source[begins[at] + offset]


def _fill(rows: Rows, key: str, found: _Pieces, places: np.ndarray, low: int, target: np.ndarray) -> np.ndarray:
    """Fill `target`, (packs, pack_size), with the packs from `low` on of one array, and return it."""
    packs, size = target.shape
    target[...] = rows.settings.pad_value if key in rows.layout.ids else 0
    inside = slice(*np.searchsorted(found.pack, [low, low + packs]))
    begin, length = found.begin[inside], found.length[inside]
    place = places[inside] - low * size
    for number, mine in by_part(found.part[inside]):
        mine = mine[np.argsort(begin[mine], kind="stable")]  # each file is read front to back
        _copy(rows.parts[number].array(key), begin[mine], length[mine], target.reshape(-1), place[mine])
    return target


def _write_ragged(file: Any, rows: Rows, first: int, last: int, memory: int) -> _Told:
    slices, keys = list(_slices(rows.parts, first, last)), rows.layout.keys
    nothing = np.zeros((0, len(keys)), np.int64)
    lengths = np.concatenate([nothing, *(np.diff(part.offsets[a : b + 1], axis=0) for part, a, b in slices)])
    for number, key in enumerate(keys):
        dtype, at = rows.layout.dtype(key), 0
        offsets = np.concatenate(([0], np.cumsum(lengths[:, number])))
        column = file.create(key, (int(offsets[-1]),), dtype)
        if key not in rows.numbers:
            file.write(f"offsets/{key}", offsets)
        for counted, low, high in slices:
            begin, end = counted.offsets[[low, high], number].tolist()
            for block in _blocks(counted.array(key)[begin:end], max(1, min(memory // 2, BLOCK) // dtype.itemsize)):
                column[at : at + len(block)] = block
                at += len(block)
    part = np.repeat([counted.number for counted, _, _ in slices], [b - a for _, a, b in slices]).astype(np.int64)
    row = np.concatenate([np.zeros(0, np.int64), *(np.arange(a, b) for _, a, b in slices)])
    tokens = lengths[:, [key in rows.layout.ids for key in keys]].sum(axis=1)
    return _Told(part, row, np.arange(last - first), tokens)


def _slices(parts: list[Counted], first: int, last: int) -> Iterator[tuple[Counted, int, int]]:
    """Yield the rows first:last of all parts together as slices of each."""
    at = 0
    for part in parts:
        low, high = max(first - at, 0), min(last - at, part.rows)
        if low < high:
            yield part, low, high
        at += part.rows


def _blocks(values: np.ndarray, size: int) -> Iterator[np.ndarray]:
    for at in range(0, len(values), size):
        yield values[at : at + size]
