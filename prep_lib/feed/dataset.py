"""Rows on disk as a trainer asks for them: any rows, a whole batch at a time.

rows [7, 2, 9] ──read──▶ arrays, one row a line ──dress──▶ tensors a model takes

TokenDataset          bin, h5    mapped: a row costs its bytes, whichever it is; boundaries come from stored segments
PreProcessedDataset   npz        packed: a row costs its whole shard, so rows are asked for shard by shard

    dataset[3]           one row, as plain torch loaders ask       dataset[rows]     a batch, with one call
    dataset.order(…)     in which order an epoch asks              dataset.sizes     rows of each shard

Datasets hold paths, not files: a worker process, forked or spawned, opens what it reads itself. What is handed out is
copied, so that nothing points into a file that was closed.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from prep_lib.errors import BadInput, BadParameter, BadShard, unknown
from prep_lib.feed import segments as layout
from prep_lib.files import digest, place
from prep_lib.jit import kernel
from prep_lib.machine import memory_limit
from prep_lib.remote import sizes
from prep_lib.shards.bin import BinShard
from prep_lib.shards.formats import open_shard
from prep_lib.shards.manifest import NAME, read_manifest
from prep_lib.shards.npz import npz_files, open_alike
from prep_lib.shards.shard import Shard
from prep_lib.shuffle.order import FullOrder, SequentialOrder, ShardOrder, WindowOrder
from prep_lib.tensors import share, to_tensor

#: What a batch says once for all its rows, not row by row.
WHOLE = ("cu_seqlens", "max_seqlen")

#: Shards mapped at once; a process may hold some 65,000 maps, and each shard has up to three.
OPEN = 4096

#: Rows whose place in an epoch is looked up together where somebody asks for one at a time.
AHEAD = 4096

LABELS = ("", "aligned", "shifted")
EXTRAS = ("position_ids", "segment_ids", "cu_seqlens", "block_mask")


@dataclass(frozen=True)
class Costs:
    """What a batch costs before it is handed over.

    Parameters
    ----------
    read, convert, collate : float, seconds
        Fetch the stored rows; copy them to the types a model takes; labels, positions, boundaries and masks.
    again : bool
        Whether shards are unpacked more often than once.
    """

    read: float
    convert: float
    collate: float = 0.0
    again: bool = False


def seconds(work: Callable[[Any], Any], inputs: Sequence[Any], *, mean: bool = False) -> float:
    """Return what one input takes: the median, or the mean where the slow ones count."""
    times = []
    for each in inputs:
        began = time.perf_counter()
        work(each)
        times.append(time.perf_counter() - began)
    return statistics.fmean(times) if mean else statistics.median(times)


class RowDataset(Dataset[dict[str, Any]]):
    """What a loader wants of a dataset.

    Attributes
    ----------
    metadata : dict
        As stored beside the rows; ``pre_shuffled`` decides whether a loader shuffles when it is not told.
    sizes : tuple of int
        Rows of each shard.
    mapped : bool
        Whether reading a row is a matter of microseconds, which no worker process can better.
    """

    metadata: dict[str, Any]
    sizes: tuple[int, ...]
    mapped: bool

    def __len__(self) -> int:
        return sum(self.sizes)

    @abstractmethod
    def read(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return what is stored of some rows: arrays of (n, ...)."""

    def dress(self, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Return what was read as tensors; uint16 and uint32 become int64."""
        return {name: to_tensor(values) for name, values in arrays.items()}

    @abstractmethod
    def order(self, shuffle: bool, seed: int, epoch: int) -> Any:
        """Return which row stands at each place of an epoch: an object with ``rows(places)``."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Return a digest by which a loader knows, when it goes on, that the rows are still the same."""

    @property
    def numbering(self) -> Any:
        """Return how the rows are numbered anew, so that a loader that goes on can tell; None where they are not."""
        return None

    @property
    @abstractmethod
    def tokens_per_row(self) -> float | None:
        """Return the mean, padding apart; None where nobody knows."""

    @property
    @abstractmethod
    def kind(self) -> Any:
        """Return what must be equal for the rows of two datasets to stand in one batch."""

    def fetch(self, rows: np.ndarray) -> dict[str, Any]:
        """Return a batch.

        Parameters
        ----------
        rows : (n,) integers in ``range(len(self))``, n at least 1
            In any order, with repeats; the batch keeps it.
        """
        return self.dress(self.read(self._stored(rows)))

    def costs(self, plan: Sequence[np.ndarray], steps: int) -> Costs:
        """Measure what reading costs.

        Parameters
        ----------
        plan : sequence of (n,) int64
            Rows of some batches, not yet read.
        steps : int
            Batches of a whole epoch.
        """
        read = seconds(self.read, plan, mean=True)
        arrays = [self.read(rows) for rows in plan[-4:]]
        return Costs(read, seconds(self.dress, arrays))

    def _checked(self, rows: Any) -> np.ndarray:
        found = np.asarray(rows, np.int64)
        # One comparison for both ends: below 0 is a huge number without sign.
        if not len(found) or int(found.view(np.uint64).max()) >= self._rows:
            raise IndexError(f"feed/dataset: rows {list(rows)[:5]} are not all inside range({len(self)})")
        return found

    @property
    def _rows(self) -> int:
        return len(self)

    def __getitem__(self, i: Any) -> dict[str, Any]:
        """Return one row, or for an array of rows the batch of them."""
        if np.ndim(i):
            return self.fetch(i)
        at = i + len(self) if i < 0 else i
        if not 0 <= at < len(self):
            raise IndexError(f"feed/dataset: row {i} of {len(self):,}")
        return _one(self.fetch(np.array([at])), 0)

    def __getitems__(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Return rows read together, as a plain `DataLoader` asks for a batch and collates it itself."""
        batch = self.fetch(np.asarray(rows))
        if any(name in batch for name in WHOLE):
            return [self[int(row)] for row in rows]
        return [_one(batch, at) for at in range(len(rows))]

    def _stored(self, rows: np.ndarray) -> np.ndarray:
        """Return the numbers under which rows are stored."""
        return rows


def _one(batch: dict[str, Any], at: int) -> dict[str, Any]:
    return {name: values if name in WHOLE else values[at] for name, values in batch.items()}


def _bounds(sizes: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


# ---------------------------------------------------------------------------------------------------------------------
# Memory-mapped shards
# ---------------------------------------------------------------------------------------------------------------------


@kernel
def locate(begins: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    """Find the shard of each row, and its number in there.

    Parameters
    ----------
    begins : (s + 1,) int64
        First row of each shard, and the end.
    rows : (n,) int64

    Returns
    -------
    shards, local : (n,) int64
    inside : bool
        Whether there are rows, and all are where shards are; otherwise the numbers mean nothing.
    """
    shards, local, inside = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64), len(rows) > 0
    for at in range(len(rows)):
        inside &= 0 <= rows[at] < begins[-1]
        low, high = 0, len(begins) - 1
        while high - low > 1:
            middle = (low + high) // 2
            if begins[middle] <= rows[at]:
                low = middle
            else:
                high = middle
        shards[at], local[at] = low, rows[at] - begins[low]
    return shards, local, inside


@kernel
def gather(column: np.ndarray, local: np.ndarray, shards: np.ndarray, shard: int, out: np.ndarray) -> None:
    """Copy the rows of one shard to their places in a batch; those of other shards are left alone.

    Parameters
    ----------
    column : (rows, width)
    local, shards : (n,) int64
        The wanted rows, and the shard of each.
    shard : int
    out : (n, width)
        Of a type that holds every value of `column`.
    """
    for at in range(len(local)):
        if shards[at] == shard:
            row = local[at]
            for place in range(column.shape[1]):
                out[at, place] = column[row, place]


class TokenDataset(RowDataset):
    """Rows of token ids from a folder of bin or h5 shards, memory-mapped.

    Parameters
    ----------
    path : path
        A folder with a manifest, as `build_shards` or `cache_jsonl` wrote it.
    key : str
        Which array of ids. Empty: the first.
    labels : str
        ``aligned``: each target at its own place, for models that shift by themselves. ``shifted``: at the place
        before. Empty: no labels, and the loss mask as it is stored where there is one. Labels follow the stored loss
        mask; padding is -100.
    first_token : bool
        False: the first token of each piece of a document is no target, since nothing before it belongs to it.
    position_ids, segment_ids, cu_seqlens, block_mask : bool
        What else a batch holds, see below.

    Raises
    ------
    BadParameter
        If there is no such key, or `labels` is none of the three.
    BadShard
        If the folder is not complete, a shard is missing or has another size than the manifest says. A shard whose
        rows are others than the manifest says is found when it is first read.

    Notes
    -----
    A batch of n rows of L tokens holds

        ``input_ids``     (n, L) int64
        ``labels``        (n, L) int64
        ``loss_mask``     (n, L) as stored
        ``position_ids``  (n, L) int64, from 0 in each piece; the padding of a row counts as a piece
        ``segment_ids``   (n, L) int64, from 0 in each row, -1 for padding
        ``cu_seqlens``    (k + 1,) int32 over the n * L places behind each other, with ``max_seqlen``
        ``block_mask``    (n, 1, L, L) bool, True where a token may look

    Rows of different lengths are padded with 0 to the longest of the batch; ``segment_ids`` are there to tell.

    Examples
    --------
    >>> import tempfile
    >>> from prep_lib.shards.h5 import IOHandler
    >>> from prep_lib.shards.manifest import shard_entry, write_manifest
    >>> folder = tempfile.mkdtemp()
    >>> rows = [np.array([7, 8, 9], np.int32), np.array([5], np.int32)]
    >>> path = IOHandler.save_h5(folder, "chunk_0", {"sequence": rows})
    >>> entry = shard_entry(path, 2, 4, "int32", {})
    >>> _ = write_manifest(folder, shards=[entry], seq_len=None, totals={}, seed=None)
    >>> dataset = TokenDataset(folder, labels="shifted")
    >>> dataset.fetch([1, 0])["labels"].tolist()
    [[-100, -100, -100], [8, 9, -100]]
    """

    mapped = True

    def __init__(
        self,
        path: str | Path,
        *,
        key: str = "",
        labels: str = "",
        first_token: bool = True,
        position_ids: bool = False,
        segment_ids: bool = False,
        cu_seqlens: bool = False,
        block_mask: bool = False,
    ) -> None:
        if labels not in LABELS:
            raise unknown("feed/dataset", "labels", labels, LABELS[1:])
        self.path, self.metadata = place(path), read_manifest(path)
        self._labels, self._first, self._key = labels, first_token, key
        asked = (position_ids, segment_ids, cu_seqlens, block_mask)
        self._extras = frozenset(name for name, wanted in zip(EXTRAS, asked, strict=True) if wanted)
        self._entries = self.metadata["shards"]
        self.sizes = tuple(int(entry["sequences"]) for entry in self._entries)
        self._begins = _bounds(self.sizes)
        self._total = int(self._begins[-1])
        self._opened: dict[int, Shard] = {}
        self._check_files()
        self._mask: str | None = None
        self._ragged = False
        if self._entries:
            self._find_keys(self._open(0))

    def _check_files(self) -> None:
        size_of = sizes(self.path)
        for entry in self._entries:
            path = self.path / entry["file"]
            if path.suffix == ".npz":
                raise BadParameter(
                    f"feed/dataset: {path.name} is packed and cannot be mapped; read the folder with "
                    'PreProcessedDataset, or build it with format="bin"'
                )
            if (size := size_of(entry["file"])) is None:
                raise BadShard(f"feed/dataset: {path} is missing, though {NAME} lists it; build it again")
            if size != entry["bytes"]:
                raise BadShard(
                    f"feed/dataset: {path} has {size:,} bytes, {NAME} says {entry['bytes']:,}; run prep verify"
                )

    def _find_keys(self, shard: Shard) -> None:
        self._key = self._key or shard.ids[0]
        if self._key not in shard.ids:
            raise unknown("feed/dataset", "key of ids", self._key, shard.ids)
        self._mask, self._ragged = shard.mask_of(self._key), self._key in shard.offsets
        self._width = self.metadata["seq_len"] or shard.columns[self._key].shape[-1]
        self._check_columns(shard)
        if self._ragged:
            # The batch will be padded, and must say where.
            self._extras |= {"segment_ids"}

    def _check_columns(self, shard: Shard) -> None:
        """Refuse a shard of another layout than the first: rows are copied by its numbers, with nobody to look."""
        for key in filter(None, (self._key, self._mask)):
            column = shard.columns.get(key)
            if column is None or (key in shard.offsets) is not self._ragged:
                raise BadShard(f"feed/dataset: {shard.path} has no {key} as the first shard has it")
            if not self._ragged and column.shape != (len(shard), self._width):
                raise BadShard(f"feed/dataset: {shard.path}: {key} is {column.shape}, not rows of {self._width:,}")

    def __getstate__(self) -> dict[str, Any]:
        """Leave the maps here: whoever receives this opens the files anew."""
        return {**self.__dict__, "_opened": {}}

    def _open(self, number: int) -> Shard:
        if number not in self._opened:
            if len(self._opened) >= OPEN:
                del self._opened[next(iter(self._opened))]
            self._opened[number] = shard = self._checked_shard(self._entries[number])
            if number:
                self._check_columns(shard)
        return self._opened[number]

    def _checked_shard(self, entry: Mapping[str, Any]) -> Shard:
        path, length = self.path / entry["file"], self.metadata["seq_len"]
        # The manifest is read already; by itself a bin shard would read it again.
        bare = path.suffix == ".bin" and length and isinstance(path, Path)
        shard = BinShard(path, length, entry["dtype"]) if bare else open_shard(path)
        if len(shard) != entry["sequences"]:
            raise BadShard(f"feed/dataset: {path} has {len(shard):,} rows, {NAME} says {entry['sequences']:,}")
        return shard

    @property
    def _rows(self) -> int:
        return self._total

    @property
    def fingerprint(self) -> str:
        """Return the digest of the manifest."""
        return digest(self.path / NAME)

    @property
    def tokens_per_row(self) -> float | None:
        """Return the mean over all rows, padding apart."""
        return sum(entry["tokens"] for entry in self._entries) / max(self._total, 1)

    @property
    def kind(self) -> Any:
        """Return the length of a row, and what was asked for."""
        return self.metadata["seq_len"], self._key, self._mask, self._labels, self._first, self._extras

    def order(self, shuffle: bool, seed: int, epoch: int) -> Any:
        """Return the order of an epoch: all rows mixed with all others, or as they are stored."""
        return FullOrder(self._total, seed, epoch) if shuffle else SequentialOrder(self._total)

    def read(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return ids as int64, ``segments`` (n, s) tokens and ``trained`` (n, L) where the batch will want them."""
        shards, local, inside = locate(self._begins, np.asarray(rows, np.int64))
        if not inside:
            self._checked(rows)
        found = {"input_ids": self._gather(self._key, shards, local, np.dtype(np.int64))}
        if self._labels or self._extras:
            found["segments"] = self._segments(shards, local, found["input_ids"].shape[1])
        if self._mask is not None:
            found["trained"] = self._gather(self._mask, shards, local)
        return found

    def _gather(self, key: str, shards: np.ndarray, local: np.ndarray, dtype: np.dtype | None = None) -> np.ndarray:
        """Copy rows out of their shards, to another type on the way."""
        if self._ragged:
            return self._padded(key, shards, local, dtype)
        columns = {shard: self._open(shard).columns[key] for shard in set(shards.tolist())}
        first = next(iter(columns.values()))
        out = np.empty((len(local), *first.shape[1:]), dtype or first.dtype)
        for shard, column in columns.items():
            gather(column, local, shards, shard, out)
        return out

    def _padded(self, key: str, shards: np.ndarray, local: np.ndarray, dtype: np.dtype | None) -> np.ndarray:
        values = [self._open(shard).row(row)[key] for shard, row in zip(shards.tolist(), local.tolist(), strict=True)]
        out = np.zeros((len(values), max(map(len, values))), dtype or values[0].dtype)
        for at, row in enumerate(values):
            out[at, : len(row)] = row
        return out

    def _segments(self, shards: np.ndarray, local: np.ndarray, width: int) -> np.ndarray:
        if self._ragged:
            offsets = [self._open(shard).offsets[self._key] for shard in shards.tolist()]
            pairs = zip(offsets, local.tolist(), strict=True)
            return np.array([ends[row + 1] - ends[row] for ends, row in pairs], np.int32)[:, None]
        stored = {shard: self._pieces(shard) for shard in set(shards.tolist())}
        first, counts = np.zeros(len(local), np.int64), np.zeros(len(local), np.int64)
        for shard, (rows, _) in stored.items():
            layout.find_segments(rows, local, shards, shard, first, counts)
        out = np.zeros((len(local), max(1, int(counts.max()))), np.int32)
        for shard, (_, lengths) in stored.items():
            layout.fill_segments(lengths, first, counts, shards, shard, out)
        if not layout.fit(out, width):
            names = ", ".join(self._open(shard).path.name for shard in stored)
            raise BadShard(f"feed/dataset: segments longer than a row of {width:,} in one of {names}; run prep verify")
        return out

    def _pieces(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the row and the length of each stored segment of a shard; a row that is not packed is one."""
        shard = self._open(number)
        if shard.packed:
            return shard.segment_columns["row"], shard.segment_columns["length"]
        return np.arange(len(shard)), np.full(len(shard), self._width, np.int32)

    def costs(self, plan: Sequence[np.ndarray], steps: int) -> Costs:
        """Measure what reading costs; the copy to int64 is what it takes longer than a copy as stored."""
        read = seconds(self.read, plan, mean=True)
        warm = seconds(self.read, plan)
        bare = seconds(lambda place: self._gather(self._key, *place), [locate(self._begins, rows)[:2] for rows in plan])
        convert = max(0.0, warm - bare)
        collate = seconds(self.dress, [self.read(rows) for rows in plan[-4:]])
        return Costs(max(bare, read - convert), convert, collate)

    def dress(self, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Return what was read as the tensors that were asked for."""
        ids, segments, trained = arrays["input_ids"], arrays.get("segments"), arrays.get("trained")
        batch: dict[str, Any] = {"input_ids": torch.from_numpy(ids)}
        if trained is not None and not self._labels:
            batch["loss_mask"] = to_tensor(trained)
        if segments is not None:
            batch |= self._labelled(ids, segments, trained) | self._extra(segments, ids.shape[1])
        return batch

    def _labelled(self, ids: np.ndarray, segments: np.ndarray, trained: np.ndarray | None) -> dict[str, Any]:
        if not self._labels:
            return {}
        mask = np.empty((0, 0), bool) if trained is None else trained.astype(bool)
        shift = self._labels == "shifted"
        return {
            "labels": torch.from_numpy(layout.targets(ids, segments, mask, trained is not None, shift, self._first))
        }

    def _extra(self, segments: np.ndarray, width: int) -> dict[str, Any]:
        asked, found = self._extras, dict[str, np.ndarray]()
        if "position_ids" in asked:
            found["position_ids"] = layout.position_ids(segments, width)
        if asked & {"segment_ids", "block_mask"}:
            found["segment_ids"] = layout.segment_ids(segments, width)
        if "block_mask" in asked:
            found["block_mask"] = layout.block_mask(found["segment_ids"])
        if "cu_seqlens" in asked:
            found["cu_seqlens"] = layout.cu_seqlens(segments, width)
        batch: dict[str, Any] = {name: torch.from_numpy(each) for name, each in found.items() if name in asked}
        if "cu_seqlens" in asked:
            batch["max_seqlen"] = int(np.diff(found["cu_seqlens"]).max())
        return batch


# ---------------------------------------------------------------------------------------------------------------------
# Packed shards
# ---------------------------------------------------------------------------------------------------------------------


class PreProcessedDataset(RowDataset):
    """Rows of npz shards, read so that few shards are in memory at a time.

    Parameters
    ----------
    path : path
        A folder of ``.npz`` files, or one with ``train/`` in it. ``metadata.json``, or a manifest, is optional.
    max_cache_shards : int, shards
        How many stay unpacked in memory. Reading front to back needs one. A shuffling loader mixes the rows of so many
        shards at a time.

    Attributes
    ----------
    metadata : dict
        What ``metadata.json`` or the manifest says; empty without one. Rows are counted from the headers of the shards:
        what it says of sizes is not believed.
    loads : int
        How often a shard was unpacked.

    Raises
    ------
    BadInput
        If there is no shard, or ``metadata.json`` is none.
    BadShard
        If a shard cannot be read or has other fields than the first.
    BadParameter
        If `max_cache_shards` is below 1, or so many of the largest shards do not fit the memory of this machine.

    Notes
    -----
    A row comes with the fields, shapes and types that were stored; uint16 and uint32, which torch can hardly compute
    with, become int64.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.savez(folder / "shard_0.npz", ids=np.arange(6, dtype=np.int16).reshape(3, 2), kind=np.arange(3))
    >>> dataset = PreProcessedDataset(folder)
    >>> len(dataset), dataset[2]
    (3, {'ids': tensor([4, 5], dtype=torch.int16), 'kind': tensor(2)})
    """

    mapped = False

    def __init__(self, path: str | Path, max_cache_shards: int = 1) -> None:
        if max_cache_shards < 1:
            raise BadParameter(f"feed/dataset: max_cache_shards must be at least 1, got {max_cache_shards}")
        self.path, self.max_cache_shards = place(path), max_cache_shards
        files = npz_files(path).train
        self.metadata = _metadata(dict.fromkeys([files[0].parent, self.path]))
        self._readers = open_alike(files)
        self.sizes = tuple(reader.rows for reader in self._readers)
        self._begins = _bounds(self.sizes)
        self._total = int(self._begins[-1])
        self._check_memory()
        self.loads = 0
        self._cache: OrderedDict[int, dict[str, np.ndarray]] = OrderedDict()
        # Shared, so that workers that outlive an epoch follow; -1: as stored.
        self._epoch = share(np.array([-1, 0]))
        self._ahead: tuple[tuple[int, int, int], np.ndarray] | None = None

    def _check_memory(self) -> None:
        largest = sorted((reader.nbytes for reader in self._readers), reverse=True)[: self.max_cache_shards]
        if sum(largest) > (limit := memory_limit()):
            raise BadParameter(
                f"feed/dataset: {len(largest)} unpacked shards take {sum(largest):,} bytes, this machine has "
                f"{limit:,}; lower max_cache_shards, or make smaller shards with prep shuffle-npz"
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": OrderedDict()}

    @property
    def _rows(self) -> int:
        return self._total

    @property
    def fingerprint(self) -> str:
        """Return a digest of the shards' names, fields and checksums, and of how many are mixed where rows are."""
        told = [self.max_cache_shards, [[reader.path.name, reader.fingerprint] for reader in self._readers]]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()

    @property
    def tokens_per_row(self) -> float | None:
        """Return None: nobody says which field holds tokens."""
        return None

    @property
    def kind(self) -> Any:
        """Return the fields, their types and the shapes of a row."""
        fields = self._readers[0].fields.values()
        return [(field.name, field.dtype, field.row_shape) for field in fields]

    def set_epoch(self, n: int, seed: int = 42) -> None:
        """Number the rows anew: epoch 0 as stored, each later one with shards and their rows shuffled.

        For loaders that do not shuffle, ours and plain torch ones: they ask for rows 0, 1, 2 …, and one shard is read
        after another all the same. To be called between epochs; workers of a loader follow.

        Parameters
        ----------
        n : int, >= 0
        seed : int, >= 0 and < 2**63
        """
        if n < 0:
            raise BadParameter(f"feed/dataset: an epoch must be >= 0, got {n}")
        self._epoch[0], self._epoch[1] = n, seed

    @property
    def numbering(self) -> dict[str, int] | None:
        """Return what `set_epoch` was called with; None where the rows stand as stored."""
        epoch, seed = self._epoch.tolist()
        return {"n": epoch, "seed": seed} if epoch > 0 else None

    def _stored(self, rows: np.ndarray) -> np.ndarray:
        epoch, seed = self._epoch.tolist()
        if epoch < 1:
            return rows
        if len(rows) > 1:
            return ShardOrder(self.sizes, seed, epoch).rows(rows)
        first = int(rows[0]) // AHEAD * AHEAD
        if self._ahead is None or self._ahead[0] != (epoch, seed, first):
            places = np.arange(first, min(first + AHEAD, self._total))
            self._ahead = (epoch, seed, first), ShardOrder(self.sizes, seed, epoch).rows(places)
        return self._ahead[1][rows - first]

    def order(self, shuffle: bool, seed: int, epoch: int) -> Any:
        """Return the order of an epoch: as stored, or shards shuffled and the rows of `max_cache_shards` mixed."""
        if not shuffle:
            return SequentialOrder(self._total)
        if self._epoch[0] > 0:
            raise BadParameter(
                "feed/dataset: set_epoch is for shuffle=False; a loader that shuffles does so every epoch"
            )
        return WindowOrder(self.sizes, self.max_cache_shards, seed, epoch)

    def read(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return all fields of some rows, each shard of them unpacked once."""
        rows = self._checked(rows)
        shards = np.searchsorted(self._begins, rows, side="right") - 1
        local = rows - self._begins[shards]
        if (shards == shards[0]).all():
            return {name: values[local] for name, values in self._shard(int(shards[0])).items()}
        out = {
            name: np.empty((len(rows), *field.row_shape), field.dtype)
            for name, field in self._readers[0].fields.items()
        }
        # Those at hand first, or reading one would put another out.
        for shard in sorted(set(shards.tolist()), key=lambda number: number not in self._cache):
            where = shards == shard
            for name, values in self._shard(shard).items():
                out[name][where] = values[local[where]]
        return out

    def costs(self, plan: Sequence[np.ndarray], steps: int) -> Costs:
        """Measure what reading costs; a shard that serves many batches costs each its part of the unpacking."""
        before, read = self.loads, seconds(self.read, plan, mean=True)
        loads, convert = self.loads - before, seconds(self.dress, [self.read(plan[-1])] * 4)
        touched = np.unique(np.searchsorted(self._begins, np.concatenate(plan), side="right")) - 1
        if loads > len(touched):
            return Costs(read, convert, again=True)
        unpack = seconds(lambda shard: self._readers[shard].read(), touched[:1].tolist())
        own = max(0.0, read - unpack * loads / len(plan))
        return Costs(own + unpack * len(self.sizes) / steps, convert)

    def _shard(self, number: int) -> dict[str, np.ndarray]:
        found = self._cache.get(number)
        if found is None:
            # Put out before the next is unpacked: never more than so many are in memory.
            while len(self._cache) >= self.max_cache_shards:
                self._cache.popitem(last=False)
            self.loads += 1
            found = self._cache[number] = self._readers[number].read()
        self._cache.move_to_end(number)
        return found


def _metadata(folders: Mapping[Path, Any]) -> dict[str, Any]:
    """Read ``metadata.json``, or the manifest of a build, beside the shards or in the folder that was named."""
    for path in (folder / name for folder in folders for name in ("metadata.json", NAME)):
        if path.is_file():
            try:
                found = json.loads(path.read_bytes())
            except (OSError, ValueError) as error:
                raise BadInput(f"feed/dataset: cannot read {path}: {error}") from None
            if not isinstance(found, dict):
                raise BadInput(f"feed/dataset: {path} holds no object of names and values")
            return found
    return {}
