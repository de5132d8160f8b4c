"""Shards as HDF5: one flat dataset a key, memory-mapped when read.

    packed    sequence   (rows, pack_size) int32      loss_mask (rows, pack_size) bool
              segments/  row, start, length, document one entry a piece, in file order; start: its place in the document
    ragged    sequence   (tokens,) int32              offsets/sequence (rows + 1,) int64
    numbers   prompt_length (rows,) int32             one value a row
    both      documents/ source, line, sources        where each document was read from; of `build_shards` also
                         group, groups, tokens, id, id_end

Never one dataset a sequence: that reads hundreds of times slower. The data of a key lie in one piece, so a reader maps
them straight from the file, as fast as raw bytes, and keeps no file open.
"""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, overload

import h5py
import numpy as np
import orjson

from prep_lib.errors import BadInput, BadParameter, BadShard, PrepError
from prep_lib.files import local, natural, place, replace, space_for, temporary_name
from prep_lib.shards.shard import RESERVED, Shard, exact, row_blocks, split_groups
from prep_lib.tensors import share, to_array, to_tensor

if TYPE_CHECKING:
    from torch import Tensor

_COLUMNS = {
    "segments": {"row", "start", "length", "document"},
    "documents": {"source", "line", "sources"},
}

#: What documents have besides numbers; ``id`` is the bytes of all ids behind each other, ``id_end`` where each ends.
_TEXTS = ("sources", "groups", "id", "id_end")

#: Old enough for every reader of the last decade, new enough for checksums on what describes the data.
_LIBVER = ("v108", "v108")


class ShardWriter:
    """Write one shard; it appears under its name when the block ends well, the same bytes for the same calls.

    Parameters
    ----------
    path : path
        The parent folder is made if it is not there.

    Raises
    ------
    NoSpace
        If the disk is full. What stood under `path` before still does.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "chunk_0.h5")
    >>> with ShardWriter(path) as writer:
    ...     column = writer.create("sequence", (2, 3), np.int32)
    ...     column[0:2] = np.arange(6).reshape(2, 3)
    >>> H5Shard(path).row(1)
    {'sequence': array([3, 4, 5], dtype=int32)}
    """

    def __init__(self, path: str | Path) -> None:
        self.path = place(path)
        self._temporary = temporary_name(self.path)

    def __enter__(self) -> ShardWriter:
        with space_for(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._disk = _Disk(self._temporary)
            self._file = h5py.File(self._disk, "w", libver=_LIBVER, track_order=True)
        return self

    def create(self, name: str, shape: tuple[int, ...], dtype: Any) -> Column:
        """Make a dataset of known shape, to be filled by slices; what is never filled reads as zeros."""
        with space_for(self.path):
            return Column(self.path, self._file.create_dataset(name, shape, dtype, track_times=False))

    def write(self, name: str, values: np.ndarray) -> None:
        """Make a dataset of these values."""
        values = np.asarray(values)
        self.create(name, values.shape, values.dtype)[0 : len(values)] = values

    def strings(self, name: str, values: Sequence[str]) -> None:
        """Make a dataset of strings: UTF-8 of one width, no limit on how many."""
        raw = [value.encode("utf-8", "surrogateescape") for value in values]
        width = max(map(len, raw), default=0) or 1
        with space_for(self.path):
            dtype = h5py.string_dtype("utf-8", width)
            self._file.create_dataset(name, data=np.array(raw, dtype=dtype), track_times=False)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with space_for(self.path):
                self._file.close()
                self._disk.close()
                if kind is None:
                    replace(self._temporary, self.path)
        finally:
            self._temporary.unlink(missing_ok=True)


class _Disk:
    """A new file for HDF5 to write to, whose failures wait until `close`.

    HDF5 keeps data back: what it cannot write while a dataset is closed is lost without a word, and the shard would be
    taken for whole; what it cannot write while the file is closed takes the process down when that ends.
    """

    def __init__(self, path: Path) -> None:
        self._raw = io.FileIO(path, "w+")
        self._failed: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of `data`, or nothing more after the first failure."""
        view, at = memoryview(data).cast("B"), 0
        try:
            while at < len(view) and self._failed is None:
                at += self._raw.write(view[at:]) or 0
        except OSError as error:
            self._failed = error
        return len(view)

    def truncate(self, size: int) -> int:
        """Set the size: HDF5 asks for the room of what it never wrote."""
        try:
            return self._raw.truncate(size)
        except OSError as error:
            self._failed = self._failed or error
            return size

    def seek(self, offset: int, whence: int = 0) -> int:
        """As of any file."""
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        """As of any file."""
        return self._raw.tell()

    def read(self, size: int = -1) -> bytes:
        """As of any file; by this h5py knows it for one."""
        return self._raw.read(size) or b""

    def readinto(self, buffer: Any) -> int:
        """As of any file."""
        return self._raw.readinto(buffer) or 0

    def flush(self) -> None:
        """Nothing stands between this and the file."""

    def close(self) -> None:
        """Wait until all is on the disk, and raise what failed."""
        with self._raw:
            if self._failed is not None:
                raise self._failed
            os.fsync(self._raw.fileno())


class Column:
    """A dataset that is being written: ``column[a:b] = values``.

    HDF5 itself would clip a value that does not fit its type, or spread a smaller array: here both are refused.
    """

    def __init__(self, path: Path, data: h5py.Dataset) -> None:
        self._path, self._data = path, data

    def __setitem__(self, rows: slice, values: np.ndarray) -> None:
        values, name = np.asarray(values), self._data.name[1:]
        start, stop, _ = rows.indices(len(self._data))
        if values.shape != (stop - start, *self._data.shape[1:]):
            raise BadParameter(
                f"shards/h5: {values.shape} does not fill rows {start} to {stop} of {name} {self._data.shape}"
            )
        if values.size:
            with space_for(self._path):
                self._data[start:stop] = exact(values, self._data.dtype, f"shards/h5: {name}")


class H5Shard(Shard):
    """Read one shard; rows are views of the memory-mapped file.

    Parameters
    ----------
    path : path
    writable : bool
        True: a write to a column stays in this process; it never reaches the file.

    Raises
    ------
    BadShard
        If the file cannot be read, is cut, or does not have the layout of this module.
    """

    where = "shards/h5"

    def __init__(self, path: str | Path, *, writable: bool = False) -> None:
        self.path = Path(path)
        # Copy on write: a stray write stays in this process and never reaches the file.
        self._mode = "c" if writable else "r"
        with _open(self.path) as file:
            self._check_layout(file)
            # One map for all datasets: each holds a handle of the system, and shards are many.
            self._mapped = np.asarray(np.memmap(self.path, np.uint8, self._mode))  # type: ignore[call-overload]
            self.keys = tuple(name for name in file if name not in RESERVED)
            self.columns = {key: self._map(file[key]) for key in self.keys}
            self.offsets = {key: self._map(file["offsets"][key]) for key in file.get("offsets", ())}
            self.segment_columns = {name: self._map(data) for name, data in file.get("segments", {}).items()}
            documents = {name: self._map(data) for name, data in file.get("documents", {}).items()}
        self._texts = {name: documents.pop(name) for name in _TEXTS if name in documents}
        self.document_columns = documents
        self.rows = {key: self._count(key) for key in self.keys}

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.path, self._mode == "c")

    def _check_layout(self, file: h5py.File) -> None:
        for name, item in file.items():
            if isinstance(item, h5py.Group) == (name not in RESERVED):
                raise self._bad(f"{name!r} is not laid out as this workbench writes it (one flat dataset a key)")
        for name, data in ((name, file[name]) for name in file if name not in RESERVED):
            if data.dtype.kind not in "biuf" or data.ndim not in (1, 2):
                raise self._bad(f"{name!r} holds {data.dtype} of shape {data.shape}, no rows of numbers")
        if strays := [name for name in file.get("offsets", ()) if name not in file]:
            raise self._bad(f"offsets/{strays[0]} belongs to no key")
        for group, columns in _COLUMNS.items():
            if group in file and (missing := sorted(columns - set(file[group]))):
                raise self._bad(f"{group} lacks {', '.join(missing)}")

    def _map(self, data: h5py.Dataset) -> np.ndarray:
        """Map a dataset, or read it where its bytes are not in one piece (empty, chunked by another writer)."""
        at = data.id.get_offset()
        if at is None or data.size == 0:
            return data[()]
        return np.ndarray(data.shape, data.dtype, self._mapped, at)

    def _count(self, key: str) -> int:
        offsets, values = self.offsets.get(key), self.columns[key]
        if offsets is None:
            return len(values)
        ends = len(offsets) and offsets[0] == 0 and offsets[-1] == len(values)
        if values.ndim != 1 or not ends or (offsets[1:] < offsets[:-1]).any():
            raise self._bad(f"offsets/{key} does not divide the {len(values):,} values of {key}")
        return len(offsets) - 1

    @property
    def sources(self) -> list[str]:  # type: ignore[override]
        """Names of the inputs, as documents refer to them."""
        return [name.decode("utf-8", "surrogateescape") for name in self._texts.get("sources", ())]

    @property
    def groups(self) -> list[tuple[str, str | None]]:  # type: ignore[override]
        """Source and language of records, as documents refer to them."""
        return split_groups(orjson.loads(bytes(group)) for group in self._texts.get("groups", ()))

    @property
    def record_ids(self) -> list[str | None]:  # type: ignore[override]
        """The own ids of records."""
        raw, ends = self._texts.get("id", b""), self._texts.get("id_end", np.zeros(0, np.int64)).tolist()
        spelled = bytes(raw)
        return [spelled[a:b].decode("utf-8") or None for a, b in itertools.pairwise([0, *ends])]


def _reopen(path: Path, writable: bool) -> H5Shard:
    return H5Shard(path, writable=writable)


@contextlib.contextmanager
def _open(path: Path) -> Iterator[h5py.File]:
    """Open for reading, and say in our words what is wrong with a file that HDF5 cannot read."""
    try:
        # Reading works where locks do not; where they do, a file that is being written is noticed.
        with h5py.File(path, "r", locking="best-effort") as file:
            yield file
    except PrepError:
        raise
    except Exception as error:  # damaged bytes make h5py raise anything, AttributeError and MemoryError included
        raise BadShard(f"shards/h5: {path}: {_cause(path, error)}") from error


def _cause(path: Path, error: Exception) -> str:
    number, text = getattr(error, "errno", None), str(error)
    if not path.is_file():
        return "there is no such file"
    if "unable to lock file" in text:
        if number in (errno.EAGAIN, errno.EACCES):
            return "another process has it open for writing; wait until it has finished"
        return "this file system has no locks; set HDF5_USE_FILE_LOCKING=FALSE and start again"
    if "truncated file" in text:
        return f"it is cut: {path.stat().st_size:,} bytes are left; build it again"
    if "signature not found" in text:
        return "it is no HDF5 file"
    return f"it cannot be read ({text.splitlines()[0]}); build it again"


class Rows(Sequence["Tensor"]):
    """The rows of one key as tensors, each a view made when it is asked for.

    Parameters
    ----------
    values : Tensor
        (rows, width), (rows,) or (tokens,).
    offsets : (rows + 1,) int64 or None
        Where each row begins; None when the first dimension is the rows.
    origin : (path, key) or None
        Where a memory map comes from: another process maps the file again instead of copying it.
    """

    def __init__(self, values: Tensor, offsets: np.ndarray | None, origin: tuple[Path, str] | None = None) -> None:
        self._values, self._offsets, self._origin = values, offsets, origin

    def __reduce__(self) -> tuple[Any, ...]:
        return (_map_rows, self._origin) if self._origin else (Rows, (self._values, self._offsets))

    def __len__(self) -> int:
        return len(self._values) if self._offsets is None else len(self._offsets) - 1

    @overload
    def __getitem__(self, i: int) -> Tensor: ...
    @overload
    def __getitem__(self, i: slice) -> list[Tensor]: ...
    def __getitem__(self, i: int | slice) -> Tensor | list[Tensor]:
        if isinstance(i, slice):
            return [self[at] for at in range(*i.indices(len(self)))]
        at = i + len(self) if i < 0 else i
        if not 0 <= at < len(self):
            raise IndexError(f"shards/h5: row {i} of {len(self)}")
        if self._offsets is None:
            return self._values[at]
        return self._values[int(self._offsets[at]) : int(self._offsets[at + 1])]


def _map_rows(path: Path, key: str) -> Rows:
    shard = H5Shard(path, writable=True)
    return Rows(to_tensor(shard.columns[key]), shard.offsets.get(key), (path, key))


class IOHandler:
    """Tensors to an HDF5 file and back, and what lies in a folder.

    Examples
    --------
    >>> import tempfile, torch
    >>> path = IOHandler.save_h5(tempfile.mkdtemp(), "chunk_0", {"sequence": [torch.tensor([1, 2]), torch.tensor([3])]})
    >>> path.name, list(IOHandler.load_h5(path)["sequence"])
    ('chunk_0.h5', [tensor([1, 2]), tensor([3])])
    """

    @staticmethod
    def save_h5(
        output_dir: str | Path, file_name: str, tensor_group: Mapping[str, Sequence[Any]], *, ragged: bool = True
    ) -> Path:
        """Write lists of rows, one list a key.

        Parameters
        ----------
        output_dir : path
        file_name : str
            ``.h5`` is added if it is not there.
        tensor_group : mapping of str -> list of (n,) Tensor or array
            The rows of one key have one dtype, which is kept; their lengths are free.
        ragged : bool
            False: all rows of a key have one length and are stored as one (rows, length) dataset.

        Returns
        -------
        Path
            Of the file.

        Raises
        ------
        BadParameter
            For a key HDF5 or the layout cannot hold, a row without one dimension, rows that differ in dtype, or in
            length with ``ragged=False``.
        """
        name = file_name if file_name.endswith(".h5") else f"{file_name}.h5"
        group = {_checked_key(key): _checked_rows(key, rows, ragged) for key, rows in tensor_group.items()}
        with ShardWriter(place(output_dir) / name) as writer:
            for key, rows in group.items():
                _write_rows(writer, key, rows, ragged)
        return writer.path

    @staticmethod
    def load_h5(file_path: str | Path, share_memory: bool = True) -> dict[str, Sequence[Tensor]]:
        """Read what `save_h5` or a build wrote.

        Parameters
        ----------
        file_path : path
        share_memory : bool
            True: copied once into shared memory, so that the workers of a DataLoader see one copy. False: mapped from
            the file, nothing is read before it is used; a write to such a tensor stays in this process.

        Returns
        -------
        dict of str -> Sequence of Tensor
            Rows are views. uint16 and uint32 come as int64.

        Raises
        ------
        BadShard
            If the file is cut, foreign, or open for writing elsewhere.
        NoSpace
            If shared memory is too small.
        """
        path = local(file_path)
        if not share_memory:
            return {key: _map_rows(path, key) for key in H5Shard(path).keys}
        shard = H5Shard(path, writable=True)
        return {key: Rows(share(values), _own(shard.offsets.get(key))) for key, values in shard.columns.items()}

    @staticmethod
    def fetch_files(directory: str | Path) -> list[str]:
        """Return the files of one folder, ``chunk_9`` before ``chunk_10``, without hidden and temporary ones."""
        return [str(path) for path in _entries(directory) if path.is_file()]

    @staticmethod
    def fetch_folders(root: str | Path) -> list[str]:
        """Return the folders of one folder, in the same order, without hidden ones."""
        return [str(path) for path in _entries(root) if path.is_dir()]


def _own(offsets: np.ndarray | None) -> np.ndarray | None:
    return None if offsets is None else np.array(offsets)


def _entries(folder: str | Path) -> list[Path]:
    try:
        found = list(place(folder).iterdir())
    except OSError as error:
        raise BadInput(f"shards/h5: cannot list {folder}: {error.strerror or error}") from None
    shown = [path for path in found if not path.name.startswith(".") and not path.name.endswith((".tmp", ".part", "~"))]
    return sorted(shown, key=lambda path: natural(path.name))


def _checked_key(key: str) -> str:
    if not key or "/" in key or "\0" in key or key in (".", *RESERVED):
        raise BadParameter(f"shards/h5: a key cannot be {key!r}: no '/' and none of {', '.join(RESERVED)}")
    return key


def _checked_rows(key: str, rows: Iterable[Any], ragged: bool) -> list[np.ndarray]:
    arrays = [to_array(row) for row in rows]
    for at, array in enumerate(arrays):
        if array.ndim != 1 or array.dtype.kind not in "biuf":
            raise BadParameter(
                f"shards/h5: {key}[{at}] is {array.dtype} {array.shape}; a row has one dimension of numbers"
            )
    if len(dtypes := {str(array.dtype) for array in arrays}) > 1:
        raise BadParameter(f"shards/h5: rows of {key} differ in dtype: {', '.join(sorted(dtypes))}; convert them first")
    lengths = {len(array) for array in arrays}
    if not ragged and len(lengths) > 1:
        raise BadParameter(
            f"shards/h5: rows of {key} have {min(lengths)} to {max(lengths)} values; store them with ragged=True"
        )
    return arrays


def _write_rows(writer: ShardWriter, key: str, rows: list[np.ndarray], ragged: bool) -> None:
    lengths = [len(row) for row in rows]
    dtype = rows[0].dtype if rows else np.dtype(np.int32)
    if not ragged:
        column = writer.create(key, (len(rows), lengths[0] if rows else 0), dtype)
        for at, row in enumerate(rows):
            column[at : at + 1] = row[None]
        return
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    column = writer.create(key, (int(offsets[-1]),), dtype)
    for first, last in row_blocks(offsets):
        column[int(offsets[first]) : int(offsets[last])] = np.concatenate(rows[first:last])
    writer.write(f"offsets/{key}", offsets)
