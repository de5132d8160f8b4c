"""Uneven, ordered npz shards become even, shuffled ones in bounded memory, with a proof that nothing was lost.

    bundles   a.npz  A A A A A A A      b.npz c.npz  B B C      large sources alone, small ones together
    cells     shard 0: [· ·][· ·]  shard 1: [· ·][· ·]  shard 2: [· ·]    what a worker holds of a shard at once
    table     a: 2 1 2 1 1    b, c: 0 1 0 1 1       how many rows of each bundle a cell gets, drawn once
    scatter   a.npz block by block ──▶ for every cell its rows, a zstd frame a field              a task a bundle
    finish    frames of a cell ──▶ in their new order ──▶ shard_000000.npz, field by field        a task a shard
    proof     sum and xor of a 64-bit hash of every row, taken while scattering == taken while finishing

Every order of all rows is equally likely. Deal the rows to the cells evenly: all ways to fill the cells are equally
likely. The table is drawn as such a deal draws it, see `contingency`. What a cell still takes of a bundle is then dealt
to the bundle's blocks: of an even deal any part follows the multivariate hypergeometric law, by which the counts of a
block are drawn, and who goes where is a permutation of the block. Last, each cell is permuted. Each draw has a stream
of its own, by seed and bundle, block or cell: bundles and shards are worked on in parallel, and again after a kill,
with the same result.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import importlib
import itertools
import json
import mmap
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import zstandard

from prep_lib.engine import Crew, Task, run_tasks
from prep_lib.errors import BadInput, BadParameter, BadShard, NoSpace, PrepError, Unbalanced
from prep_lib.events import emit
from prep_lib.files import absolute, digest, is_remote, is_temporary, local, space_for, stamp, write_whole
from prep_lib.jit import kernel
from prep_lib.keys import Key, changed, make_key
from prep_lib.locks import HIDDEN, kind_of, lock
from prep_lib.machine import parse_bytes
from prep_lib.remote import AHEAD, own_corner, remove_folder, unmoved
from prep_lib.seeds import stream
from prep_lib.shards.npz import PIECE, Field, NpzColumn, NpzReader, NpzWriter, npz_files, open_alike
from prep_lib.shuffle.subsample import metadata

#: Bytes of rows that are dealt at once, and of the widest field of a cell. Constants of the format: which row goes
#: where must not depend on the memory a machine has.
BLOCK, CELL = 2**23, 2**24

#: Bytes beside a row of a cell: its place in the order, and what sorting it takes.
PLACE = 16

#: Sources in a temporary file: so many bytes of rows, and at most about so many files, which are open together.
BUNDLE, BUNDLES = 2**26, 256

#: Bytes of a cell's rows worth a frame of their own: smaller frames pack worse and take longer.
FRAME = 2**19

#: How temporary frames are packed: level 1 with a table that stays in the nearest cache. Ids that follow Zipf's law
#: pack a sixth faster, tokens of text as fast into a tenth more bytes. Levels below 1 save little for a third more.
PACKING = zstandard.ZstdCompressionParameters.from_level(1, hash_log=12, min_match=7)

#: Bytes of a row's hash.
HASH = 8

#: Bytes of a worker before it reads anything.
IDLE = 40 * 2**20

#: Bytes of a worker beside the rows it holds.
SLACK = 2**23

#: Bytes of rows that are tried before anything starts.
SAMPLE = 2**23

#: Seconds a worker process takes to start.
START = 1.0

#: Rows in one file, at most: NumPy draws hypergeometric numbers of fewer than 10**9 things.
MOST_ROWS = 10**9 - 1

#: What a finished run leaves beside the shards.
METADATA, CHECK, DONE = "metadata.json", "check.py", f"{HIDDEN}/shuffle.json"


def shuffle_npz(
    input_dir: str | Path,
    output_dir: str | Path,
    shard_size: int = 1_000_000,
    seed: int = 42,
    *,
    engine: str | Executor = "processes",
    workers: int | None = None,
    memory_budget: int | str = "2GiB",
    temp_dir: str | Path | None = None,
) -> dict[str, Any]:
    """Rewrite npz shards so that they are even and shuffled: each order of all their rows is equally likely.

    Parameters
    ----------
    input_dir : path
        ``*.npz`` in it, or in its ``train/`` where that folder exists, in natural order: any fields of any dtype and
        shape whose first axis is the rows. It is only read.
    output_dir : path
        Gets ``shard_000000.npz`` …, in ``train/`` if the input has it, with ``metadata.json`` and ``check.py``; and a
        copy of ``eval/``, if there is one.
    shard_size : int, rows
        In every shard but the last.
    seed : int
    engine, workers
        As for `engine.Crew`. The bytes do not depend on them.
    memory_budget : int or str, bytes
        Over all workers, however large a source is. The bytes do not depend on it.
    temp_dir : path or None
        Where rows wait between the two passes, packed. None: in the output folder.

    Returns
    -------
    dict
        ``metadata.json``: ``num_samples, max_seq_length, dtype, fields, shard_size, num_shards, shard_sizes,
        pre_shuffled, seed``; ``sources``, each with its ``file``, ``rows`` and how many of them are ``in_shards``; and
        ``digest``, the sum and xor of all row hashes ``before`` and ``after``.

    Raises
    ------
    BadParameter
        If a number is nonsense, the output or the temporary folder meets the input, or the budget is too small.
    BadInput, BadShard
        If there is no npz file, one is damaged or holds objects, fields differ, or the output holds shards of something
        else.
    NoSpace
        If the disks have too little room; on a terminal it is asked first.
    RunLocked
        If another process writes there.

    Notes
    -----
    A killed run goes on where it was; a finished one is recognised and not done again.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name, rows in (("a", range(7)), ("b", range(7, 9))):
    ...     with NpzWriter(folder / "in" / f"{name}.npz") as writer:
    ...         writer.array("ids", np.array(rows))
    >>> from prep_lib.events import listen
    >>> with listen(lambda event: None, instead=True):
    ...     told = shuffle_npz(folder / "in", folder / "out", shard_size=4, workers=1)
    >>> told["shard_sizes"], told["digest"]["before"] == told["digest"]["after"]
    ([4, 4, 1], True)
    >>> sorted(np.concatenate([np.load(path)["ids"] for path in folder.glob("out/*.npz")]).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8]
    """
    source, folder = npz_files(input_dir), absolute(output_dir)
    temp = _temp(folder, temp_dir)
    for place in (folder, temp):
        _check_apart([source.root, *source.train], place)
    plan = Plan.of(open_alike(source.train), _whole("shard_size", shard_size, 1), _whole("seed", seed, 0))
    target = folder / "train" if source.nested else folder
    _check_folder(folder, target, source.eval is not None)
    if workers is not None:
        _whole("workers", workers, 1)
    with Crew(engine, workers) as crew:
        crew.check_reach([source.root, folder])
        count, share = _shares(plan, crew.workers, parse_bytes(memory_budget))
        crew.limit(count)
        with lock(folder, "shuffle-npz"):
            return _Run(folder, target, temp, source.eval, plan, crew, share).run()


# Before the first task: where things are, and whether they fit


def _whole(name: str, value: Any, low: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < low:
        raise BadParameter(f"shuffle/npz: {name} must be a whole number of at least {low}; got {value!r}")
    return int(value)


def _temp(folder: Path, temp_dir: str | Path | None) -> Path:
    """Return the folder of temporary files: one for each output, so that runs can share a disk."""
    if temp_dir is None:
        return folder / HIDDEN / "scatter"
    mark = hashlib.sha256(str(folder).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return absolute(temp_dir) / f"shuffle-{mark}"


def _check_apart(read: Sequence[Path], place: Path) -> None:
    """Refuse to write where something is read: at the same place, inside it, or around it."""
    place, root = place.resolve(), read[0].resolve()
    if place == root or root in place.parents:
        raise BadParameter(f"shuffle/npz: {place} is in the input {root}, which is only read; write somewhere else")
    if inside := next((path for path in read if place in path.resolve().parents), None):
        raise BadParameter(f"shuffle/npz: the input {inside} is inside {place}; write somewhere else")


def _check_folder(folder: Path, target: Path, evals: bool) -> None:
    for place in (folder, target):
        if place.exists() and not place.is_dir():
            raise BadParameter(f"shuffle/npz: {place} is a file; give a folder")
    # In both layouts: readers take what lies in train/ where there is one, and older shards of ours are cleared away.
    found = [path for place in (folder, folder / "train") for what in ("*.npz", METADATA) for path in place.glob(what)]
    foreign = [*found, *(folder.glob("eval") if evals else ())]
    if foreign and not kind_of(folder):
        what = foreign[0].relative_to(folder)
        raise BadInput(f"shuffle/npz: {folder} holds {what} of something else; use another output folder")


def _shares(plan: Plan, workers: int, budget: int) -> tuple[int, int]:
    """Return how many of the workers are needed, and the bytes of rows that each may hold."""
    least = IDLE + max(2 * plan.block_bytes, plan.cell_bytes + SLACK)
    count = min(workers, max(len(plan.bundles), len(plan.shard_sizes)))
    # One worker is this process; more are beside it.
    fit = next((n for n in range(count, 0, -1) if n * least + (n > 1) * IDLE <= budget), 0)
    if not fit:
        raise BadParameter(
            f"shuffle/npz: memory_budget of {budget:,} bytes is too small; these rows need {least:,} a worker"
        )
    if fit < count:
        emit("note", text=f"shuffle: the memory budget is enough for {fit} of {count} workers")
    return fit, (budget - (fit > 1) * IDLE) // fit - IDLE


# Plan: which row goes where, as far as numbers tell


@dataclass(frozen=True)
class Plan:
    """Everything that decides which row goes where.

    Parameters
    ----------
    fields : tuple of Field
        In the order of the first file; their row counts say nothing here.
    paths : tuple of str
    rows : tuple of int
        Of each source.
    shard_size : int, rows
    seed : int
    block_rows : int
        Dealt at once.
    cell_rows : int
        At most, in a cell.
    bundle_rows : int
        A bundle that has so many takes no further source.
    fingerprints : tuple of str
        What tells the content of each source.
    """

    fields: tuple[Field, ...]
    paths: tuple[str, ...]
    rows: tuple[int, ...]
    shard_size: int
    seed: int
    block_rows: int
    cell_rows: int
    bundle_rows: int
    fingerprints: tuple[str, ...] = ()

    @classmethod
    def of(cls, readers: Sequence[NpzReader], shard_size: int, seed: int) -> Plan:
        """Plan for files that hold the same fields."""
        if large := next((reader for reader in readers if reader.rows > MOST_ROWS), None):
            raise BadInput(f"shuffle/npz: {large.path} has {large.rows:,} rows; at most {MOST_ROWS:,} in one file")
        fields, rows = tuple(readers[0].fields.values()), tuple(reader.rows for reader in readers)
        if gaps := next((one.name for one in fields if _has_gaps(one.dtype)), None):
            raise BadInput(
                f"shuffle/npz: {gaps} of {readers[0].path} is a structure with gaps, whose bytes NumPy does not keep; "
                "save it without align=True"
            )
        widths = [one.row_bytes for one in fields]
        return cls(
            fields, tuple(str(reader.path) for reader in readers), rows, shard_size, seed,
            block_rows=max(1, BLOCK // (sum(widths) + PLACE)),
            cell_rows=max(1, CELL // (max(widths) + PLACE)),
            bundle_rows=max(BUNDLE // max(sum(widths), 1), sum(rows) // BUNDLES, 1),
            fingerprints=tuple(map(_told, readers)),
        )  # fmt: skip

    @cached_property
    def total(self) -> int:
        """Rows of all sources."""
        return sum(self.rows)

    @cached_property
    def widths(self) -> list[int]:
        """Bytes of a row, field by field."""
        return [one.row_bytes for one in self.fields]

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        return self.block_rows * (sum(self.widths) + PLACE)

    @property
    def cell_bytes(self) -> int:
        """Bytes of the widest field of a cell."""
        return self.cell_rows * (max(self.widths) + PLACE)

    def held(self, memory: int) -> int:
        """Return the bytes of rows that are held before they are written out, out of what there is."""
        return min(len(self.cells) * FRAME, memory - self.block_bytes)

    def peak(self, workers: int, memory: int) -> int:
        """Return the bytes of memory that all workers, and this process beside them, take at most."""
        rows = max(max(self.held(memory), self.block_bytes) + self.block_bytes, self.cell_bytes + SLACK)
        return workers * (IDLE + rows) + (workers > 1) * IDLE

    @cached_property
    def shard_sizes(self) -> list[int]:
        """Rows of each output shard: all full but the last. Without rows there is one, so that the fields are kept."""
        full, rest = divmod(self.total, self.shard_size)
        return [self.shard_size] * full + [rest] * (rest > 0 or not full)

    @cached_property
    def _first_cells(self) -> list[int]:
        """The first cell of each shard, and the end."""
        return list(itertools.accumulate((max(1, -(-size // self.cell_rows)) for size in self.shard_sizes), initial=0))

    def cells_of(self, shard: int) -> range:
        """Return the cells of a shard."""
        return range(*self._first_cells[shard : shard + 2])

    @cached_property
    def cells(self) -> np.ndarray:
        """Rows of each cell, (cells,) int64, shard by shard; those of one shard are as even as can be."""
        cuts = (
            np.arange(len(cells) + 1) * size // len(cells)
            for size, cells in zip(self.shard_sizes, map(self.cells_of, range(len(self.shard_sizes))), strict=True)
        )
        return np.concatenate([np.diff(cut) for cut in cuts])

    @cached_property
    def table(self) -> np.ndarray:
        """Rows of each bundle in each cell, (bundles, cells) int64: drawn once, for all tasks."""
        rows = np.array([sum(self.rows[source] for source in bundle) for bundle in self.bundles], np.int64)
        return contingency(stream(self.seed, "shuffle_table"), rows, self.cells)

    def deal(self, bundle: int, block: int, left: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Deal a block: how many of its rows each cell gets, and all of them in the order of cells.

        Parameters
        ----------
        bundle, block : int
            The blocks of a bundle are numbered through its sources.
        left : (cells,) int64
            What each cell still takes of this bundle.
        rows : int
            Of the block.

        Returns
        -------
        (cells,) int64, (rows,) int64
        """
        random = stream(self.seed, "shuffle_block", bundle, block)
        return random.multivariate_hypergeometric(left, rows, method="marginals"), random.permutation(rows)

    def by_shard(self, counts: np.ndarray) -> list[int]:
        """Sum numbers of cells, (cells,), over the cells of each shard."""
        ends = np.concatenate([[0], np.cumsum(counts)])
        return np.diff(ends[self._first_cells]).tolist()

    def order(self, cell: int) -> np.ndarray:
        """Return which of the rows that came to a cell stands at each of its places, (rows,) int64."""
        return stream(self.seed, "shuffle_cell", cell).permutation(int(self.cells[cell]))

    @cached_property
    def bundles(self) -> list[range]:
        """The sources of each temporary file: large ones alone, small ones together."""
        starts, held = [0], 0
        for source, rows in enumerate(self.rows):
            if held >= self.bundle_rows or held + rows > MOST_ROWS:
                starts.append(source)
                held = 0
            held += rows
        return [range(first, last) for first, last in itertools.pairwise([*starts, len(self.rows)])]


def _told(reader: NpzReader) -> str:
    """Return what tells the content of a file, short."""
    return str(make_key(inputs=reader.fingerprint)["inputs"])


def contingency(random: np.random.Generator, sources: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Draw how many rows of each source fall into each cell when all rows are dealt evenly.

    Parameters
    ----------
    random : Generator
    sources : (s,) int64
        Rows of each.
    cells : (c,) int64
        Rows that each cell takes; as many together as the sources have.

    Returns
    -------
    (s, c) int64
        With these sums of rows and columns.

    Notes
    -----
    Each row is thrown into a cell by its size alone; then cells that got too many give back rows drawn evenly, and
    cells that got too few take evenly from what was given back. All rows are treated alike, so all ways to fill the
    cells, which differ only in which row is which, are equally likely. NumPy draws such a table directly only below
    10**9 rows; here that limit holds for a cell.

    Examples
    --------
    >>> contingency(stream(42, "example"), np.array([4, 2]), np.array([3, 3])).sum(axis=0)
    array([3, 3])
    """
    shares = cells / max(int(cells.sum()), 1)
    table = np.array([random.multinomial(rows, shares) for rows in sources], np.int64).reshape(len(sources), len(cells))
    over = table.sum(axis=0) - cells
    given = np.zeros(len(sources), np.int64)
    for cell in np.flatnonzero(over > 0):
        moved = random.multivariate_hypergeometric(table[:, cell], over[cell])
        table[:, cell] -= moved
        given += moved
    for cell in np.flatnonzero(over < 0):
        moved = random.multivariate_hypergeometric(given, -over[cell])
        table[:, cell] += moved
        given -= moved
    return table


# Digest: the same for the same rows in any order


class RowDigest:
    """Sum and xor of a 64-bit hash of every row, defined so that ten lines of NumPy compute it again (`check.py`).

    The bytes of a row, field by field in the order of names, each field filled up with zeros to whole words of 64 bits:
    every word is mixed with a key of its place, the mixed words are summed, and the sum is mixed. Mixing before the sum
    is what tells rows apart that differ in several words in the same way, such as numbers with the other sign; mixing
    behind it lets no value move from one row to another unnoticed. All numbers wrap at 2**64.

    Parameters
    ----------
    names : sequence of str
    widths : sequence of int, bytes of a row
    """

    def __init__(self, names: Sequence[str], widths: Sequence[int]) -> None:
        words = [-(-width // 8) for width in widths]
        self._keys, first = {}, 0
        for name, count in sorted(zip(names, words, strict=True)):
            self._keys[name] = _mixed(np.arange(first + 1, first + count + 1, dtype=np.uint64) * _A)
            first += count
        self.sum = self.xor = 0

    def part(self, name: str, raw: np.ndarray) -> np.ndarray:
        """Return what one field adds to the hashes of rows, (n,) uint64.

        Parameters
        ----------
        raw : (n, width) uint8
        """
        parts = np.zeros(len(raw), np.uint64)
        _sum_mixed(_words(raw), self._keys[name], parts)
        return parts

    def add(self, parts: np.ndarray) -> None:
        """Take rows whose parts have been summed, (n,) uint64."""
        hashes = _mixed(parts + _A)
        self.sum = (self.sum + int(hashes.sum(dtype=np.uint64))) % 2**64
        self.xor ^= int(np.bitwise_xor.reduce(hashes))


_A, _B, _C = (np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_HALF, _LESS = np.uint64(32), np.uint64(29)


def _mixed(values: np.ndarray) -> np.ndarray:
    """Return a bijection of 64-bit numbers in which every bit depends on every bit."""
    values = (values ^ (values >> _HALF)) * _B
    values = (values ^ (values >> _LESS)) * _C
    return values ^ (values >> _HALF)


@kernel
def _sum_mixed(words, keys, out):  # type: ignore[no-untyped-def]
    """Add the mixed words of each row to `out`: `_mixed`, word by word."""
    for row in range(words.shape[0]):
        total = out[row]
        for at in range(words.shape[1]):
            value = words[row, at] ^ keys[at]
            value = (value ^ (value >> _HALF)) * _B
            value = (value ^ (value >> _LESS)) * _C
            total += value ^ (value >> _HALF)
        out[row] = total


def _has_gaps(dtype: np.dtype[Any]) -> bool:
    """Tell whether a structure holds bytes that belong to no field of it.

    Examples
    --------
    >>> _has_gaps(np.dtype([("a", "<i2"), ("b", "<i4")])), _has_gaps(np.dtype([("a", "<i2"), ("b", "<i4")], align=True))
    (False, True)
    """
    if dtype.subdtype is not None:
        return _has_gaps(dtype.subdtype[0])
    inside = [place[0] for place in (dtype.fields or {}).values()]
    return bool(inside) and (sum(one.itemsize for one in inside) != dtype.itemsize or any(map(_has_gaps, inside)))


def _words(raw: np.ndarray) -> np.ndarray:
    """View rows of bytes as rows of 64-bit words, filled up with zeros."""
    rows, width = raw.shape
    if width % 8:
        filled = np.zeros((rows, -(-width // 8) * 8), np.uint8)
        filled[:, :width] = raw
        raw = filled
    return raw.view("<u8") if width else np.zeros((rows, 0), "<u8")


def _raw(values: np.ndarray, width: int) -> np.ndarray:
    """View an array as the bytes of its rows, (n, width) uint8; any dtype moves as what it is made of."""
    rows = len(values)
    return values.reshape(-1).view(np.uint8).reshape(rows, width) if width and rows else np.empty((rows, width), "u1")


def _typed(raw: np.ndarray, one: Field) -> np.ndarray:
    """View the bytes of rows as the array they are."""
    shape = (len(raw), *one.row_shape)
    return raw.reshape(-1).view(one.dtype).reshape(shape) if raw.size else np.empty(shape, one.dtype)


# Scatter: rows of sources, grouped by the cell they go to


def scatter(plan: Plan, bundle: int, left: np.ndarray, memory: int, out: Path) -> dict[str, Any]:
    """Write the rows of a bundle to one temporary file, cell by cell.

    Parameters
    ----------
    left : (cells,) int64
        What each cell takes of this bundle.
    memory : int, bytes
        Of rows held at once. How often they are written out depends on it, the order of a cell's rows does not.

    Returns
    -------
    dict
        ``sum, xor``: of the rows' hashes; ``in_shards``: how many rows of each source went to each shard.
    """
    found, left = RowDigest([one.name for one in plan.fields], plan.widths), left.copy()
    number, counted = itertools.count(), []
    with _Frames(plan, _temp_file(out, bundle), memory) as frames:
        for source in plan.bundles[bundle]:
            before = left.copy()
            for block in _blocks(plan, source, out):
                found.add(
                    np.sum([found.part(one.name, raw) for one, raw in zip(plan.fields, block, strict=True)], axis=0)
                )
                counts, order = plan.deal(bundle, next(number), left, len(block[0]))
                left -= counts
                frames.add(block, counts, order)
            counted.append(plan.by_shard(before - left))
    return {"sum": found.sum, "xor": found.xor, "in_shards": counted}


def _blocks(plan: Plan, source: int, out: Path) -> Iterator[list[np.ndarray]]:
    """Yield the rows of a source as bytes, in the order of fields."""
    reader = NpzReader(plan.paths[source])
    if _told(reader) != plan.fingerprints[source]:
        raise BadInput(f"shuffle/npz: {reader.path} has changed since this run began; run it again")
    for block in reader.blocks(plan.block_rows, temp_dir=out):
        yield [_raw(block[one.name], width) for one, width in zip(plan.fields, plan.widths, strict=True)]


class _Frames:
    """A temporary file: again and again, for every cell and field, a zstd frame of the rows that go there."""

    def __init__(self, plan: Plan, path: Path, memory: int) -> None:
        self._plan, self._path = plan, path
        self._row = sum(plan.widths) + PLACE
        self._limit = plan.held(memory)
        self._held: list[_Dealt] = []
        self._packer = zstandard.ZstdCompressor(compression_params=PACKING)
        self._sizes: list[np.ndarray] = []
        self._rows: list[np.ndarray] = []

    def __enter__(self) -> _Frames:
        self._file = open(self._path, "wb")  # closed by __exit__
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._file:
            if kind is None:
                self._write_out()
                cells, fields = len(self._plan.cells), len(self._plan.fields)
                sizes, rows = _stacked(self._sizes, (cells, fields)), _stacked(self._rows, (cells,))
                np.savez(_index_file(self._path), sizes=sizes, rows=rows)

    def add(self, block: list[np.ndarray], counts: np.ndarray, order: np.ndarray) -> None:
        """Take a block that was dealt."""
        self._held.append(_Dealt(block, np.concatenate([[0], np.cumsum(counts)]), order))
        if (sum(len(dealt.order) for dealt in self._held) + self._plan.block_rows) * self._row > self._limit:
            self._write_out()

    def _write_out(self) -> None:
        if not self._held:
            return
        rows = np.sum([np.diff(dealt.ends) for dealt in self._held], axis=0)
        sizes = np.zeros((len(rows), len(self._plan.fields)), np.int64)
        room = np.empty(int(rows.max()) * max(self._plan.widths), np.uint8)
        for cell in np.flatnonzero(rows).tolist():
            for at, width in enumerate(self._plan.widths):
                if width:
                    data = room[: rows[cell] * width].reshape(-1, width)
                    self._gather(cell, at, data)
                    sizes[cell, at] = self._file.write(self._packer.compress(data.data))
        self._sizes.append(sizes)
        self._rows.append(rows)
        self._held = []

    def _gather(self, cell: int, at: int, out: np.ndarray) -> None:
        first = 0
        for dealt in self._held:
            rows = dealt.order[dealt.ends[cell] : dealt.ends[cell + 1]]
            # "clip" writes where it is told without a copy between; no place is outside.
            dealt.block[at].take(rows, axis=0, out=out[first : first + len(rows)], mode="clip")
            first += len(rows)


class _Dealt(NamedTuple):
    """A block, field by field, and its rows in the order of cells, with where each cell's end."""

    block: list[np.ndarray]
    ends: np.ndarray
    order: np.ndarray


def _stacked(arrays: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    return np.array(arrays, np.int64).reshape(-1, *shape)


def _temp_file(folder: Path, bundle: int) -> Path:
    return folder / f"{bundle:05d}.rows"


def _index_file(path: Path) -> Path:
    return path.with_suffix(".npz")


class _Scattered:
    """Reads back what the cells of one shard got from one temporary file."""

    def __init__(self, path: Path, cells: range) -> None:
        self._path, self._first, self._unpacker = path, cells.start, zstandard.ZstdDecompressor()
        with np.load(local(_index_file(path)), allow_pickle=False) as index:
            sizes, rows = index["sizes"], index["rows"]
        ends = np.cumsum(sizes).reshape(sizes.shape)
        mine = slice(cells.start, cells.stop)
        self._sizes, self._rows, self._begins = sizes[:, mine], rows[:, mine], (ends - sizes)[:, mine]

    def __enter__(self) -> _Scattered:
        with self._path.open("rb") if isinstance(self._path, Path) else self._fetched() as file:
            empty = not os.fstat(file.fileno()).st_size
            self._file = None if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self

    def _fetched(self) -> IO[bytes]:
        """Return a file with what these cells have in a store, the only bytes of it that are asked for."""
        file = tempfile.TemporaryFile(dir=own_corner())  # noqa: SIM115  it goes to whoever asked, who closes it
        for sizes, begins in zip(self._sizes, self._begins, strict=True):
            # What was written out at once stands together, cell by cell.
            first = int(begins.min(initial=2**63 - 1))
            last = int((begins + sizes).max(initial=first))
            begins += file.tell() - first
            for start in range(first, last, AHEAD):
                file.write(self._path.read_range(start, min(start + AHEAD, last)))  # type: ignore[attr-defined]
        file.flush()
        return file

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def fill(self, cell: int, at: int, out: np.ndarray) -> int:
        """Put the rows of a field into the beginning of `out`, (n, width) uint8; return how many there are."""
        filled, cell = 0, cell - self._first
        for size, rows, begin in zip(
            self._sizes[:, cell, at], self._rows[:, cell], self._begins[:, cell, at], strict=True
        ):
            if size and self._file is not None:
                with memoryview(self._file)[begin : begin + size] as frame:
                    self._unpack(frame, out[filled : filled + rows].reshape(-1))
            filled += int(rows)
        return filled

    def _unpack(self, frame: memoryview, out: np.ndarray) -> None:
        try:
            with self._unpacker.stream_reader(frame) as file:
                whole = file.readinto(out.data) == len(out)
        except zstandard.ZstdError:
            whole = False
        if not whole:
            raise BadShard(f"shuffle/npz: {self._path} is damaged; remove {self._path.parent} and run it again")


# Finish: the frames of a shard in their new order


def finish(plan: Plan, shard: int, temp: Path, out: Path) -> dict[str, Any]:
    """Write one shard, field by field, cell by cell: memory for one field of one cell.

    Returns
    -------
    dict
        ``sum, xor``: of the rows' hashes, as they were handed to the writer.
    """
    cells, size = plan.cells_of(shard), plan.shard_sizes[shard]
    found = RowDigest([one.name for one in plan.fields], plan.widths)
    orders = functools.lru_cache(maxsize=4)(plan.order)
    room = np.empty(int(plan.cells[cells].max(initial=0)) * max(plan.widths), np.uint8)
    with contextlib.ExitStack() as stack:
        sources = [stack.enter_context(_Scattered(_temp_file(temp, at), cells)) for at in range(len(plan.bundles))]
        hashes = _mapped(stack.enter_context(tempfile.TemporaryFile(dir=out)), size)
        writer = stack.enter_context(NpzWriter(out / shard_name(shard)))
        for at, one in enumerate(plan.fields):
            column, place = writer.stream(one.name, one.dtype, (size, *one.row_shape)), 0
            for cell in cells:
                rows = int(plan.cells[cell])
                held = room[: rows * one.row_bytes].reshape(rows, one.row_bytes)
                _gather(sources, cell, at, held)
                _write_cell(column, one, held, orders(cell), found, hashes[place : place + rows])
                place += rows
        for first in range(0, size, PIECE):
            found.add(hashes[first : first + PIECE])
    return {"sum": found.sum, "xor": found.xor}


def _gather(sources: Sequence[_Scattered], cell: int, at: int, held: np.ndarray) -> None:
    filled = 0
    for source in sources:
        filled += source.fill(cell, at, held[filled:])
    if filled != len(held):
        raise Unbalanced(f"shuffle/npz: cell {cell} got {filled:,} rows, planned were {len(held):,}")


def _mapped(file: IO[bytes], rows: int) -> np.ndarray:
    """Return zeros for a hash a row, in a file without a name: a shard may have more rows than memory holds."""
    # Zeros first: a full disk is an error here, and would end the process in what is mapped below.
    for left in range(HASH * rows, 0, -PIECE):
        file.write(bytes(min(left, PIECE)))
    file.flush()
    return np.memmap(file, np.uint64, "r+", 0, (rows,)) if rows else np.zeros(0, np.uint64)


def _write_cell(
    column: NpzColumn, one: Field, held: np.ndarray, order: np.ndarray, found: RowDigest, hashes: np.ndarray
) -> None:
    # In pieces that stay in the cache while they are taken, hashed and packed.
    step = max(1, PIECE // max(one.row_bytes, 8))
    piece = np.empty((min(step, len(order)), one.row_bytes), np.uint8)
    for first in range(0, len(order), step):
        rows = order[first : first + step]
        taken = held.take(rows, axis=0, out=piece[: len(rows)], mode="clip")
        hashes[first : first + step] += found.part(one.name, taken)
        column.write(_typed(taken, one))


def shard_name(shard: int) -> str:
    """Return what an output shard is called.

    Examples
    --------
    >>> shard_name(7)
    'shard_000007.npz'
    """
    return f"shard_{shard:06d}.npz"


# Estimate: a trial before the start


@dataclass(frozen=True)
class Estimate:
    """What a run will take, from a sample of its rows.

    Parameters
    ----------
    rows, total : int
        Of the sample, and of all.
    seconds : float
    temporary, output, memory : int, bytes
    """

    rows: int
    total: int
    seconds: float
    temporary: int
    output: int
    memory: int

    def __str__(self) -> str:
        """Say it in one line."""
        sizes = (f"{name} {size / 1e6:,.0f} MB" for name, size in self._sizes)
        return (
            f"shuffle: {self.total:,} rows, about {self.seconds:,.0f} s; {'; '.join(sizes)} "
            f"(from {self.rows:,} shuffled rows of all sources)"
        )

    @property
    def _sizes(self) -> list[tuple[str, int]]:
        return [("temporary space", self.temporary), ("output", self.output), ("memory at most", self.memory)]


def estimate(plan: Plan, workers: int, memory: int) -> Estimate:
    """Pack a shuffled sample of rows of all sources, and say what all of them will take.

    Parameters
    ----------
    workers : int
    memory : int, bytes
        Of rows, for each of them.

    Notes
    -----
    A packed file cannot be entered in the middle: rows are drawn from the beginning of each source, in proportion to
    its size. They are shuffled, because rows in their old order would pack better than they will.
    """
    raw, read = _sample(plan)
    began = time.perf_counter()
    packer, unpacker = zstandard.ZstdCompressor(compression_params=PACKING), zstandard.ZstdDecompressor()
    frames = [packer.compress(part.tobytes()) for rows in _parts(raw) for part in rows]
    packed = time.perf_counter()
    for frame in frames:
        unpacker.decompress(frame)
    output = _deflated(plan, raw)
    done = time.perf_counter()
    times = plan.total / max(len(raw[0]), 1)
    # The largest source, or shard, is one worker's alone.
    first = (read * plan.total + (packed - began) * times) * max(1 / workers, max(plan.rows) / max(plan.total, 1))
    second = (done - packed) * times * max(1 / workers, max(plan.shard_sizes) / max(plan.total, 1))
    temporary = sum(map(len, frames))
    return Estimate(
        len(raw[0]), plan.total, first + second + START * (workers > 1), int(temporary * times), int(output * times),
        plan.peak(workers, memory),
    )  # fmt: skip


def _sample(plan: Plan) -> tuple[list[np.ndarray], float]:
    """Return shuffled rows of all sources, (n, width) uint8 a field, and the seconds it took to unpack one."""
    wanted = min(plan.total, max(1, SAMPLE // max(sum(plan.widths), 1)))
    drawn, seconds = [[np.zeros((0, width), np.uint8) for width in plan.widths]], 0.0
    for source, rows in enumerate(plan.rows):
        share = -(-rows * wanted // max(plan.total, 1))
        began = time.perf_counter()
        block = next(NpzReader(plan.paths[source]).blocks(max(1, min(rows, 2 * share))), None)
        if block is not None:
            count = len(next(iter(block.values())))
            # Of few rows one would only learn what opening a file takes.
            seconds = (time.perf_counter() - began) / count if rows == max(plan.rows) else seconds
            chosen = stream(plan.seed, "shuffle_sample", source).permutation(count)[:share]
            columns = (_raw(block[one.name], one.row_bytes) for one in plan.fields)
            drawn.append([values.take(chosen, axis=0) for values in columns])
    order = stream(plan.seed, "shuffle_sample").permutation(sum(len(rows[0]) for rows in drawn))
    return [np.concatenate(columns).take(order, axis=0) for columns in zip(*drawn, strict=True)], seconds


def _parts(raw: list[np.ndarray]) -> Iterator[list[np.ndarray]]:
    step = max(1, FRAME // max(sum(values.shape[1] for values in raw), 1))
    for first in range(0, len(raw[0]), step):
        yield [values[first : first + step] for values in raw]


def _deflated(plan: Plan, raw: list[np.ndarray]) -> int:
    """Return the bytes of the sample as an npz file."""
    with tempfile.TemporaryDirectory(prefix="prep-shuffle-") as folder:
        path = Path(folder, "sample.npz")
        with NpzWriter(path) as writer:
            for one, values in zip(plan.fields, raw, strict=True):
                writer.array(one.name, _typed(values, one))
        return path.stat().st_size


# The run


@dataclass
class _Run:
    """One shuffle: what is read, where it goes, who works."""

    folder: Path
    target: Path
    temp: Path
    eval: Path | None
    plan: Plan
    crew: Crew
    share: int

    def run(self) -> dict[str, Any]:
        key = self._key("whole", self._evals())
        if (told := self._finished(key)) is not None:
            emit("note", text=f"shuffle: {self.folder.name} was already done")
            self._forget()
            return told
        self._clear()
        self._check_space()
        before = self._scatter()
        tasks = [self._finish_task(shard) for shard in range(len(self.plan.shard_sizes))]
        after = run_tasks("finish", tasks, self.folder, crew=self.crew)
        told = self._told(before, after)
        self._copy_eval()
        with write_whole(self.target / CHECK, "w") as file:
            file.write(CHECK_TEXT)
        paths = [self.target / shard_name(at) for at in range(len(tasks))]
        shards = {path.name: [stamp(path), NpzReader(path).fingerprint] for path in paths}
        with write_whole(self.folder / DONE, "w") as file:
            json.dump({"key": key, "shards": shards, "eval": [name for name, _ in self._evals()]}, file)
        with write_whole(self.target / METADATA, "w") as file:
            file.write(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
        self._forget()
        return told

    # Keys

    @cached_property
    def _code(self) -> Key:
        return make_key(modules=["prep_lib.shuffle.shuffle_npz"], packages=["isal", "numpy", "zstandard"])

    def _key(self, *what: Any) -> Key:
        plan = self.plan
        told = make_key(
            inputs=[plan.rows, plan.fingerprints],
            parameters=[plan.seed, plan.shard_size, self.target != self.folder, *what],
        )
        return {**self._code, "inputs": told["inputs"], "parameters": told["parameters"]}

    def _evals(self) -> list[list[str]]:
        return [[path.relative_to(self.eval).as_posix(), digest(path)] for path in self._eval_files() if self.eval]

    def _eval_files(self) -> list[Path]:
        return sorted(path for path in self.eval.rglob("*") if path.is_file()) if self.eval else []

    # Tasks

    def _scatter(self) -> list[dict[str, Any]]:
        """Return what each bundle's task says, in the order of bundles."""
        # Large ones first: the last task to end decides when all have.
        order = np.argsort(-self.plan.table.sum(axis=1), kind="stable").tolist()
        results = run_tasks("scatter", [self._scatter_task(bundle) for bundle in order], self.temp, crew=self.crew)
        return [result for _, result in sorted(zip(order, results, strict=True), key=lambda pair: pair[0])]

    def _scatter_task(self, bundle: int) -> Task:
        path = _temp_file(Path(), bundle)
        args = {"plan": self._bare, "bundle": bundle, "left": self.plan.table[bundle], "memory": self.share}
        outputs = (path.name, _index_file(path).name)
        return Task(f"scatter-{bundle:05d}", scatter, args, outputs, self._key("scatter", bundle))

    def _finish_task(self, shard: int) -> Task:
        args = {"plan": self._bare, "shard": shard, "temp": self.temp}
        name = (self.target / shard_name(shard)).relative_to(self.folder).as_posix()
        return Task(f"finish-{shard:06d}", finish, args, (name,), self._key("finish", shard))

    @cached_property
    def _bare(self) -> Plan:
        """The plan without what it has worked out: a task is sent with it."""
        return replace(self.plan)

    # Around them

    def _finished(self, key: Key) -> dict[str, Any] | None:
        """Return the metadata of a run that is complete and made from the same key."""
        try:
            record = json.loads((self.folder / DONE).read_bytes())
            told: dict[str, Any] = json.loads((self.target / METADATA).read_bytes())
            whole = all(self._is_whole(name, *before) for name, before in record["shards"].items())
        except (OSError, ValueError, KeyError, TypeError, PrepError):
            return None
        if differs := changed(record["key"], key):
            emit("note", text=f"shuffle: {self.folder.name} is written again: {'; '.join(differs)}")
        return told if whole and not differs else None

    def _is_whole(self, name: str, before: list[int], fingerprint: str) -> bool:
        """Tell whether a shard is as it was written; it is read only if its time of change says it may not be."""
        path = self.target / name
        reader = NpzReader(path)
        if not unmoved(stamp(path), before):
            for _ in reader.blocks(2**16):
                pass
        return reader.fingerprint == fingerprint

    def _clear(self) -> None:
        """Take away what says that an older run is complete, and what it left that is not ours."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            for name in json.loads((self.folder / DONE).read_bytes())["eval"]:
                (self.folder / "eval" / name).unlink(missing_ok=True)
        (self.folder / DONE).unlink(missing_ok=True)
        ours = {self.target / shard_name(at) for at in range(len(self.plan.shard_sizes))}
        # An older run may have had the other layout: its train/ would be read in place of what lies beside it.
        for place in (self.folder, self.folder / "train"):
            for path in (place / METADATA, place / CHECK, *place.glob("shard_*.npz")):
                if path not in ours:
                    path.unlink(missing_ok=True)
        if self.target == self.folder:
            with contextlib.suppress(OSError):
                (self.folder / "train").rmdir()
        # What a killed run left half written where its lock does not sweep.
        remove_folder(self.temp / HIDDEN / "tmp")
        for path in [*self.target.glob(".*.tmp"), *(self.folder / "eval").rglob(".*.tmp")]:
            if is_temporary(path.name):
                path.unlink()

    def _check_space(self) -> None:
        """Say what it will take, and stop or ask if a disk has too little room."""
        said = estimate(self.plan, self.crew.workers, self.share)
        emit("note", text=str(said))
        hashes = HASH * max(self.plan.shard_sizes) * self.crew.workers
        with space_for(self.temp):
            self.temp.mkdir(parents=True, exist_ok=True)
        if is_remote(self.folder) or is_remote(self.temp):
            # A store does not say how much room it has.
            return
        needs = [
            (self.temp, said.temporary, _size(self.temp, "*.rows")),
            (self.folder, said.output + hashes, _size(self.target, "*.npz")),
        ]
        if os.stat(self.temp).st_dev == os.stat(self.folder).st_dev:
            needs = [(self.folder, sum(need for _, need, _ in needs), sum(there for _, _, there in needs))]
        for place, need, there in needs:
            free = shutil.disk_usage(place).free
            if need - there > free:
                _ask(f"{place} needs about {(need - there) / 1e6:,.0f} MB and has {free / 1e6:,.0f} MB free")

    def _told(self, before: list[dict[str, Any]], after: list[dict[str, Any]]) -> dict[str, Any]:
        """Prove that what was written is what was read, and return the metadata."""
        plan = self.plan
        proof = {"rows": plan.total, "before": _joined(before), "after": _joined(after)}
        if proof["before"] != proof["after"]:
            raise Unbalanced(
                f"shuffle/npz: the rows written are not the rows read ({proof['before']} and {proof['after']}); "
                f"remove {self.folder} and {self.temp} and run it again"
            )
        told = metadata(NpzReader(plan.paths[0]), plan.shard_sizes, plan.shard_size, True, plan.seed)
        counted = [counts for result in before for counts in result["in_shards"]]
        sources = [
            {"file": Path(path).name, "rows": rows, "in_shards": counts}
            for path, rows, counts in zip(plan.paths, plan.rows, counted, strict=True)
        ]
        return {**told, "sources": sources, "digest": proof}

    def _copy_eval(self) -> None:
        for path in self._eval_files():
            assert self.eval is not None
            with path.open("rb") as file, write_whole(self.folder / "eval" / path.relative_to(self.eval)) as out:
                shutil.copyfileobj(file, out, 2**20)

    def _forget(self) -> None:
        """Take away temporary rows and the records of tasks: the output says by itself that it is complete."""
        remove_folder(self.temp)
        remove_folder(self.folder / HIDDEN / "tasks")


def _size(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern))


def _ask(what: str) -> None:
    if not (sys.stdin.isatty() and input(f"{what}; go on all the same? [y/N] ").strip().lower() in ("y", "yes")):
        raise NoSpace(f"shuffle/npz: {what}; free some, or name another temp_dir")


def _joined(results: Sequence[dict[str, Any]]) -> dict[str, str]:
    total = sum(result["sum"] for result in results) % 2**64
    return {
        "sum": f"{total:016x}",
        "xor": f"{functools.reduce(lambda a, b: a ^ b, (r['xor'] for r in results), 0):016x}",
    }


# What stays with the output

#: Others prove counts and digests again with NumPy alone. It says what `RowDigest` says once more, on purpose.
CHECK_TEXT = '''\
"""Count and digest the rows of npz files: python check.py [FOLDER, this one if not given]. Needs NumPy alone."""
import json, pathlib, sys, numpy as np
a, b, c, half, less = map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 32, 29))
def mix(x):
    x = (x ^ (x >> half)) * b
    return (x := (x ^ (x >> less)) * c) ^ (x >> half)
here, rows, total, xor = pathlib.Path(__file__).parent, 0, 0, 0
for path in pathlib.Path(*sys.argv[1:2] or [here]).glob("*.npz"):
    with np.load(path) as shard:
        fields = [shard[name] for name in sorted(shard.files)]
    raw = [np.frombuffer(v.tobytes(), "u1").reshape(len(v), v.dtype.itemsize * v[:1].size) for v in fields]
    words = np.hstack([np.pad(v, ((0, 0), (0, -v.shape[1] % 8))) for v in raw]).view("<u8")  # a row's bytes
    keyed = (mix(word ^ mix(np.array([place], "<u8") * a)) for place, word in enumerate(words.T, 1))
    hashes = mix(sum(keyed, np.full(len(words), a)))
    rows, total, xor = rows + len(hashes), total + int(hashes.sum()), xor ^ int(np.bitwise_xor.reduce(hashes))
found, told = f"{rows} {total % 2**64:016x} {xor:016x}", json.loads((here / "metadata.json").read_bytes())["digest"]
same = all(found == " ".join(map(str, (told["rows"], *told[when].values()))) for when in ("before", "after"))
print(found, "as read and as written" if same else f"is not what was read or written: {told}")
sys.exit(not same)
'''


# The command


def command(arguments: Sequence[str] | None = None, prog: str | None = None) -> None:
    """Shuffle what the command line asks for, and say what was proven.

    Parameters
    ----------
    arguments : sequence of str or None
        None: those of this process.
    prog : str or None
        What the help calls the command.
    """
    parser = argparse.ArgumentParser(
        prog=prog, description="Make npz shards even and shuffled; the input is only read."
    )
    parser.add_argument("--input-dir", required=True, metavar="DIR", help="of npz files, or with train/ in it")
    parser.add_argument("--output-dir", required=True, metavar="DIR", help="gets the shards, metadata.json, check.py")
    parser.add_argument(
        "--shard-size", type=int, default=1_000_000, metavar="N", help="rows of all shards but the last"
    )
    parser.add_argument("--seed", type=int, default=42, metavar="N", help="of the order")
    parser.add_argument("--workers", type=int, metavar="N", help="processes; this machine's share if not given")
    parser.add_argument("--memory-budget", default="2GiB", metavar="BYTES", help="over all workers")
    parser.add_argument("--temp-dir", metavar="DIR", help="where rows wait, packed; in the output if not given")
    asked = parser.parse_args(arguments)
    told = shuffle_npz(**vars(asked))
    print(
        f"{asked.output_dir}: {told['num_samples']:,} rows in {told['num_shards']:,} shards; digest before == after "
        f"({told['digest']['after']['sum']}); prove it again with check.py"
    )


def main() -> int:
    """Run ``python -m prep_lib.shuffle.shuffle_npz``, the specification's own way to call it; return the exit code."""
    try:
        command()
        return 0
    except (PrepError, OSError) as error:
        print(f"shuffle_npz: {error}", file=sys.stderr)
        return 2 if isinstance(error, BadParameter) else 1


if __name__ == "__main__":
    # Under its own name, by which worker processes know it.
    sys.exit(importlib.import_module("prep_lib.shuffle.shuffle_npz").main())
