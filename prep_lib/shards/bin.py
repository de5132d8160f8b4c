"""Shards as flat ids without a header: what a trainer maps and nothing else, and two small files beside it.

    shard-00000.bin                  (rows, seq_len) ids behind each other, uint16 or uint32, little-endian
    shard-00000.segments.npy         (pieces,) row, start, length, document: which document stands where
    shard-00000.documents.jsonl.zst  a line a document: {"file", "line", "id", "source", "language", "tokens"}

An id that does not fit its type raises: it never wraps. Type and row length stand in the manifest.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import orjson
import zstandard

from prep_lib.errors import BadParameter, BadShard
from prep_lib.files import open_bytes, place, replace, space_for, temporary_name, write_whole
from prep_lib.shards.manifest import NAME, read_manifest
from prep_lib.shards.shard import Shard, document_id, exact

#: A piece of a document in a row.
SEGMENT = np.dtype([("row", "<i8"), ("start", "<i8"), ("length", "<i4"), ("document", "<i4")])

#: What the files beside a shard are called: in place of its own ending.
BESIDE = (".segments.npy", ".documents.jsonl.zst")


def id_dtype(max_id: int) -> np.dtype[Any]:
    """Return the narrowest type that holds every id a tokenizer can give.

    Parameters
    ----------
    max_id : int
        The largest id, added tokens counted.

    Examples
    --------
    >>> id_dtype(65_535), id_dtype(65_536)
    (dtype('uint16'), dtype('uint32'))
    """
    if not 0 <= max_id < 2**32:
        raise BadParameter(f"shards/bin: the largest id is {max_id}; it must be from 0 to {2**32 - 1}")
    return np.dtype("<u2" if max_id < 2**16 else "<u4")


def beside(path: str | Path) -> list[Path]:
    """Return the two files that belong to a shard.

    Examples
    --------
    >>> [found.name for found in beside("shard-00000.bin")]
    ['shard-00000.segments.npy', 'shard-00000.documents.jsonl.zst']
    """
    return [place(path).with_suffix(ending) for ending in BESIDE]


class Side:
    """Collects what is known of a shard's pieces and documents, under the names HDF5 has them, and writes it."""

    def __init__(self) -> None:
        self.columns: dict[str, Any] = {}

    def write(self, path: Path) -> None:
        """Write the two files beside `path`."""
        segments, documents = beside(path)
        table = np.empty(len(self.columns["segments/row"]), SEGMENT)
        for name in SEGMENT.names or ():
            table[name] = exact(self.columns[f"segments/{name}"], SEGMENT[name], f"shards/bin: segments/{name}")
        with write_whole(segments) as file:
            np.lib.format.write_array(file, table, version=(1, 0))
        with write_whole(documents) as raw, zstandard.ZstdCompressor(3).stream_writer(raw, closefd=False) as out:
            for line in self._lines():
                out.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))

    def _lines(self) -> Iterator[dict[str, Any]]:
        columns = [self.columns[f"documents/{name}"] for name in ("source", "line", "group", "tokens", "id_end")]
        files, spelled = self.columns["documents/sources"], bytes(self.columns["documents/id"])
        groups = list(map(orjson.loads, self.columns["documents/groups"]))
        begin = 0
        for source, line, group, tokens, end in zip(*(column.tolist() for column in columns), strict=True):
            own = spelled[begin:end].decode("utf-8") or None
            name, language = groups[group]
            yield _Told(files[source], line, own, name, language, tokens)._asdict()
            begin = end


class BinWriter:
    """Write one shard; it and its two files appear when the block ends well, the same bytes for the same calls.

    Parameters
    ----------
    path : path

    Raises
    ------
    BadParameter
        For an id that does not fit.
    NoSpace
        If the disk is full. What stood under `path` before still does.
    """

    def __init__(self, path: str | Path) -> None:
        self.path, self._side = place(path), Side()
        self._temporary = temporary_name(self.path)

    def __enter__(self) -> BinWriter:
        with space_for(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = io.FileIO(self._temporary, "w")
        return self

    def create(self, name: str, shape: tuple[int, ...], dtype: Any) -> BinColumn:
        """Begin the ids, (rows, seq_len), to be filled front to back; a shard holds one key."""
        return BinColumn(self.path, self._file, name, shape, np.dtype(dtype).newbyteorder("<"))

    def write(self, name: str, values: np.ndarray) -> None:
        """Take a column of segments or documents."""
        self._side.columns[name] = np.asarray(values)

    def strings(self, name: str, values: Sequence[str]) -> None:
        """Take a list of names."""
        self._side.columns[name] = list(values)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with space_for(self.path), self._file:
                if kind is None:
                    os.fsync(self._file.fileno())
                    self._side.write(self.path)
                    replace(self._temporary, self.path)
        finally:
            self._temporary.unlink(missing_ok=True)


class BinColumn:
    """The ids of a shard that is being written: ``column[a:b] = rows``, front to back."""

    def __init__(self, path: Path, file: io.FileIO, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._path, self._file, self._name, self._shape, self._dtype, self._at = path, file, name, shape, dtype, 0

    def __setitem__(self, rows: slice, values: np.ndarray) -> None:
        start, stop, _ = rows.indices(self._shape[0])
        if start != self._at or np.shape(values) != (stop - start, *self._shape[1:]):
            raise BadParameter(
                f"shards/bin: {np.shape(values)} does not fill rows {start} to {stop} of {self._name} {self._shape}, "
                f"of which {self._at} are written"
            )
        self._at = stop
        left = np.ascontiguousarray(exact(values, self._dtype, f"shards/bin: {self._name}")).data.cast("B")
        with space_for(self._path):
            while left:
                left = left[self._file.write(left) or 0 :]


class SideShard(Shard):
    """A shard whose pieces and documents stand in two files beside it."""

    @cached_property
    def segment_columns(self) -> Mapping[str, np.ndarray]:  # type: ignore[override]
        """The pieces, mapped from their file."""
        path = beside(self.path)[0]
        try:
            table = np.load(path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            raise self._bad(
                f"{path.name} is missing, so nobody knows where its documents begin; build it again"
            ) from None
        except Exception as error:  # damaged bytes raise what the library likes, a TokenError among it
            raise self._bad(f"{path.name} cannot be read ({error}); build it again") from None
        if table.dtype != SEGMENT or table.ndim != 1:
            raise self._bad(f"{path.name} holds {table.dtype}, no segments")
        return {name: np.asarray(table[name]) for name in SEGMENT.names or ()}

    @cached_property
    def _documents(self) -> list[_Told]:
        path = beside(self.path)[1]
        try:
            with open_bytes(path) as file:
                return [_Told(**orjson.loads(line)) for line in file]
        except FileNotFoundError:
            raise self._bad(f"{path.name} is missing, so nobody knows its documents; build it again") from None
        except Exception as error:  # damaged bytes raise what the library likes
            raise self._bad(f"{path.name} cannot be read ({error}); build it again") from None

    @cached_property
    def document_columns(self) -> Mapping[str, np.ndarray]:  # type: ignore[override]
        """Where each document was read from, its group and its tokens."""
        files, groups = ({name: at for at, name in enumerate(names)} for names in (self.sources, self.groups))
        found = [(files[one.file], one.line, groups[one.source, one.language], one.tokens) for one in self._documents]
        table = np.array(found, np.int64).reshape(-1, 4)
        return dict(zip(("source", "line", "group", "tokens"), table.T, strict=True))

    @cached_property
    def sources(self) -> list[str]:  # type: ignore[override]
        """Names of the inputs, as documents refer to them."""
        return list(dict.fromkeys(one.file for one in self._documents))

    @cached_property
    def groups(self) -> list[tuple[str, str | None]]:  # type: ignore[override]
        """Source and language of records, as documents refer to them."""
        return list(dict.fromkeys((one.source, one.language) for one in self._documents))

    @property
    def record_ids(self) -> list[str | None]:  # type: ignore[override]
        """The own ids of records."""
        return [one.id for one in self._documents]

    def document(self, i: int) -> str:
        """Return where document `i` was read from: ``file.jsonl#L12``, ``file.parquet[11]``."""
        if not 0 <= i < len(self._documents):
            raise IndexError(f"{self.where}: {self.path.name} has no document {i}")
        return document_id(self._documents[i].file, self._documents[i].line)


class _Told(NamedTuple):
    """A line of the documents."""

    file: str
    line: int
    id: str | None
    source: str
    language: str | None
    tokens: int


class BinShard(SideShard):
    """Read one shard; its rows are views of the memory-mapped file.

    Parameters
    ----------
    path : path
    seq_len : int or None, tokens
        None, together with `dtype`: what the manifest beside it says.
    dtype : str or None

    Raises
    ------
    BadShard
        If the file is not there, is cut, or no manifest says how to read it.
    """

    where = "shards/bin"
    offsets: Mapping[str, np.ndarray] = {}

    def __init__(self, path: str | Path, seq_len: int | None = None, dtype: str | None = None) -> None:
        self.path = Path(path)
        self._given = (seq_len, dtype)
        if seq_len is None or dtype is None:
            seq_len, dtype = _told(self.path)
        self.keys = ("sequence",)
        self.columns = {"sequence": self._map(seq_len, np.dtype(dtype).newbyteorder("<"))}
        self.rows = {"sequence": len(self.columns["sequence"])}

    def __reduce__(self) -> tuple[Any, ...]:
        return BinShard, (self.path, *self._given)

    def _map(self, seq_len: int, dtype: np.dtype[Any]) -> np.ndarray:
        try:
            size = self.path.stat().st_size
        except OSError:
            raise self._bad("there is no such file") from None
        if size % (seq_len * dtype.itemsize):
            raise self._bad(f"it is cut: {size:,} bytes are no whole rows of {seq_len:,} {dtype}; build it again")
        if not size:
            return np.zeros((0, seq_len), dtype)
        return np.asarray(np.memmap(self.path, dtype, "r").reshape(-1, seq_len))


def _told(path: Path) -> tuple[int, str]:
    """Return row length and type of a shard, as the manifest beside it says."""
    try:
        found = (path.parent / NAME).stat()
    except OSError:
        read_manifest(path.parent)  # says what is wrong with it
        raise
    seq_len, dtypes = _layout(path.parent.absolute(), (found.st_ino, found.st_size, found.st_mtime_ns))
    if path.name not in dtypes or not seq_len:
        raise BadShard(f"shards/bin: {path} is not in the manifest beside it; give seq_len and dtype")
    return seq_len, dtypes[path.name]


@lru_cache(8)
def _layout(folder: Path, stamp: tuple[int, ...]) -> tuple[int | None, dict[str, str]]:
    """Return row length, and the type of each shard: thousands of shards must not parse their manifest each."""
    manifest = read_manifest(folder)
    return manifest["seq_len"], {entry["file"]: entry["dtype"] for entry in manifest["shards"]}
