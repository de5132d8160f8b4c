"""Shards as npz: read block by block without unpacking a file whole, written by ISA-L, opened by plain `np.load`.

    a.npz   a zip of members  ids.npy   header {shape (N, 128), int16}   N rows behind each other, deflated
                              mask.npy  header {shape (N, 128), uint8}   N rows …

    fields      from the headers alone: the first bytes of each member
    blocks(3)   ids  [0 1 2] [3 4 5] [6]      all members side by side, three rows in memory;
                mask [0 1 2] [3 4 5] [6]      with the last rows every checksum is compared

Nothing the file says of its size is believed before it is checked: a member gets only the room its header asks for, and
is refused if it holds more or less. Pickles are never opened.
"""

from __future__ import annotations

import ast
import contextlib
import math
import os
import struct
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

import numpy as np
from isal import igzip_lib, isal_zlib

from prep_lib.errors import BadInput, BadParameter, BadShard, PrepError
from prep_lib.files import local, natural, place, replace, space_for, temporary_name
from prep_lib.remote import forget_copy
from prep_lib.shards.bin import Side, SideShard, beside
from prep_lib.shards.shard import exact

#: Bytes handed to ISA-L at once, packed or not: larger pieces leave the cache and are slower, both ways.
PIECE = 2**18

#: Longest .npy header that is parsed, characters; NumPy's own limit.
LONGEST_HEADER = 10_000

#: A deflated byte holds at most this many (258 bytes a match of two bits); more is a lie of the zip directory.
SWELL = 1032

_MAGIC = b"\x93NUMPY"
_STORED, _DEFLATED = 0, 8


class Field(NamedTuple):
    """One array of an npz file, as its header says.

    Parameters
    ----------
    name : str
    dtype : dtype
    shape : tuple of int
        The first number is the rows.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return self.shape[1:]

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, unpacked."""
        return self.dtype.itemsize * math.prod(self.shape[1:])

    @property
    def nbytes(self) -> int:
        """Bytes of all rows, unpacked."""
        return self.dtype.itemsize * math.prod(self.shape)

    def __str__(self) -> str:
        """Say dtype and the shape of a row."""
        return f"{self.dtype} rows of shape {self.shape[1:]}"


class _Member(NamedTuple):
    """Where the rows of a field lie in the file, and what the zip directory promises of them."""

    field: Field
    at: int  # of the packed bytes in the file
    packed: int  # bytes
    unpacked: int  # bytes, the .npy header among them
    head: int  # bytes of that header
    method: int
    crc: int
    fortran: bool


# Reading


class NpzReader:
    """Read one npz file, a block of rows at a time.

    Parameters
    ----------
    path : path

    Attributes
    ----------
    fields : dict of str -> Field
        In the order of the file, from the headers alone.
    rows : int
        The first number of every shape.
    nbytes : int, bytes
        What all rows take in memory.
    fingerprint : list of [name, dtype, shape, crc32]
        What the file holds, as its own checksums tell it; `blocks` proves them.

    Raises
    ------
    BadShard
        If the file is no zip or cut, if two members have one name, if one is no ``.npy``, holds Python objects, or has
        no rows, if fields differ in rows, or if the zip directory and a header contradict each other.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "a.npz")
    >>> np.savez(path, ids=np.arange(10).reshape(5, 2), kind=np.array(list("abcde")))
    >>> reader = NpzReader(path)
    >>> reader.rows, [str(field) for field in reader.fields.values()]
    (5, ['int64 rows of shape (2,)', '<U1 rows of shape ()'])
    >>> ["".join(block["kind"]) for block in reader.blocks(2)]
    ['ab', 'cd', 'e']
    """

    def __init__(self, path: str | Path) -> None:
        self.path = place(path)
        with _readable(self.path), self.path.open("rb", 2**16) as file:
            self._members = {member.field.name: member for member in _members(self.path, file)}
        self.fields = {name: member.field for name, member in self._members.items()}
        self.rows = self._common_rows()
        self.nbytes = sum(field.nbytes for field in self.fields.values())
        self.fingerprint = [
            [name, member.field.dtype.str, list(member.field.shape), member.crc]
            for name, member in self._members.items()
        ]

    def _common_rows(self) -> int:
        counts = {name: field.shape[0] for name, field in self.fields.items()}
        if len(set(counts.values())) > 1:
            told = ", ".join(f"{name} {count:,}" for name, count in counts.items())
            raise BadShard(f"shards/npz: {self.path}: fields differ in rows ({told}); a row needs a value in each")
        return next(iter(counts.values()))

    def blocks(
        self, rows: int, fields: Sequence[str] | None = None, *, temp_dir: str | Path | None = None
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yield all rows in order, `rows` at a time, each block in arrays of its own.

        Parameters
        ----------
        rows : int, at least 1
            The last block may be smaller. A file without rows gives none, and is checked all the same.
        fields : sequence of str or None
            None: all.
        temp_dir : path or None
            Where a field in Fortran order is unpacked. None: the system's temporary folder.

        Yields
        ------
        dict of str -> (rows, ...) array

        Raises
        ------
        BadParameter
            If there is no such field.
        BadShard
            If a member ends early, goes on behind its rows, or has another CRC-32 than the directory says. This is
            known before the last block is given, so whoever has all rows has them as they were written.

        Notes
        -----
        A field stored in Fortran order cannot be read by rows from a stream: it is unpacked into an unnamed temporary
        file first.
        """
        names = list(self.fields if fields is None else fields)
        if strange := [name for name in names if name not in self.fields]:
            raise BadParameter(f"shards/npz: {self.path.name} has no field {strange[0]!r}; it has {self._known()}")
        if rows < 1:
            raise BadParameter(f"shards/npz: a block needs at least one row; got {rows}")
        with contextlib.ExitStack() as stack:
            with _readable(self.path):
                # The fields are read in turns: what lies in a store is copied for as long as it takes.
                stack.callback(forget_copy, self.path)
                file = stack.enter_context(open(local(self.path), "rb"))
                columns = {name: self._column(name, file, stack, temp_dir) for name in names}
            if not self.rows:
                _check_ends(columns.values())
            for first in range(0, self.rows, rows):
                count = min(rows, self.rows - first)
                block = {name: column.take(count) for name, column in columns.items()}
                if first + count == self.rows:
                    _check_ends(columns.values())
                yield block

    def read(self, fields: Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """Return all rows at once, checked; `nbytes` says before how much memory that takes."""
        names = list(self.fields if fields is None else fields)
        whole = next(self.blocks(max(self.rows, 1), names), None)
        return whole or {name: np.empty(self.fields[name].shape, self.fields[name].dtype) for name in names}

    def _column(self, name: str, file: IO[bytes], stack: contextlib.ExitStack, temp_dir: str | Path | None) -> _Column:
        column, member = _Column(self.path, file, self._members[name]), self._members[name]
        if not (member.fortran and member.field.nbytes):
            return column
        return _FortranColumn(column, stack.enter_context(tempfile.TemporaryFile(dir=temp_dir)))

    def _known(self) -> str:
        return ", ".join(self.fields)


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say in our words what is wrong with a file that cannot be read; damaged bytes make zipfile raise anything."""
    try:
        yield
    except (PrepError, MemoryError):
        raise
    except FileNotFoundError:
        raise BadShard(f"shards/npz: {path}: there is no such file") from None
    except OSError as error:
        raise BadShard(f"shards/npz: {path}: {error.strerror or error}") from error
    except Exception as error:
        raise BadShard(f"shards/npz: {path}: {_cause(path, error)}") from error


def _cause(path: Path, error: Exception) -> str:
    with path.open("rb") as file:
        head = file.read(6)
    if head.startswith(b"PK"):
        return f"it is cut or damaged ({error}; it has {path.stat().st_size:,} bytes)"
    if head.startswith(b"\x80"):
        return "it is a pickle, which can run any code and is never opened; write it again with np.savez"
    if head == _MAGIC:
        return "it is a single .npy array; write it with np.savez(path, name=array)"
    return "it is no npz file" if head else "it is empty"


def _members(path: Path, file: IO[bytes]) -> Iterator[_Member]:
    with zipfile.ZipFile(file) as archive:
        infos, end = archive.infolist(), archive.start_dir
    names = Counter(info.filename for info in infos)
    if twice := next((name for name, count in names.items() if count > 1), None):
        raise BadShard(f"shards/npz: {path}: two members are named {twice!r}; nobody knows which one is meant")
    if not infos:
        raise BadShard(f"shards/npz: {path}: it holds no array")
    _check_places([(info.header_offset, _data_start(file, info) + info.compress_size) for info in infos], end)
    for info in infos:
        yield _member(path, file, info)


def _check_places(places: Sequence[tuple[int, int]], end: int) -> None:
    """Refuse members that overlap, or leave room for one that the directory does not name."""
    # Behind a member may stand its sizes once more: at most 24 bytes (APPNOTE 4.3.9).
    ends = [0, *(stop for _, stop in sorted(places))]
    starts = [*(start for start, _ in sorted(places)), end]
    if not all(0 <= start - stop <= 24 for start, stop in zip(starts, ends, strict=True)):
        raise ValueError("its members do not follow each other")


def _member(path: Path, file: IO[bytes], info: zipfile.ZipInfo) -> _Member:
    where = f"shards/npz: {path}: member {info.filename!r}"
    if not info.filename.endswith(".npy"):
        raise BadShard(f"{where} is no .npy array")
    if info.flag_bits & 1 or info.compress_type not in (_STORED, _DEFLATED):
        raise BadShard(f"{where} is packed with method {info.compress_type} or encrypted; only deflate and stored work")
    if info.file_size > SWELL * info.compress_size + SWELL:
        raise BadShard(f"{where} cannot hold the {info.file_size:,} bytes it claims; the file is damaged")
    name, at = info.filename.removesuffix(".npy"), _data_start(file, info)
    stream = _Stream(where, file, at, info.compress_size, info.compress_type)
    descr, shape, fortran, head = _header(where, name, stream)
    field = Field(name, descr, shape)
    if head + field.nbytes != info.file_size:
        raise BadShard(
            f"{where} holds {info.file_size - head:,} bytes, its header says {field.nbytes:,}; the file is damaged"
        )
    return _Member(
        field, at, info.compress_size, info.file_size, head, info.compress_type, info.CRC, fortran and len(shape) > 1
    )


def _data_start(file: IO[bytes], info: zipfile.ZipInfo) -> int:
    """Return where the packed bytes begin: behind the local header, whose length only it knows."""
    file.seek(info.header_offset)
    local = struct.unpack("<4s5H3L2H", file.read(30))
    if local[0] != b"PK\x03\x04":
        raise ValueError(f"no local header for {info.filename!r}")
    return info.header_offset + 30 + int(local[9]) + int(local[10])


def _header(where: str, name: str, stream: _Stream) -> tuple[np.dtype, tuple[int, ...], bool, int]:
    """Parse a .npy header: dtype, shape, whether in Fortran order, and its length in bytes.

    Source: NumPy enhancement proposal 1 and the format versions 2.0 and 3.0 after it. `numpy.lib.format` reads only
    from a file, and version 3.0 only privately.
    """
    magic = stream.take(8)
    if magic[:6] != _MAGIC:
        kind = "a pickle, which is never opened" if magic[:1] == b"\x80" else "no .npy array"
        raise BadShard(f"{where} is {kind}")
    if magic[6] not in (1, 2, 3):
        raise BadShard(f"{where} has .npy version {magic[6]}; versions 1 to 3 are known")
    size = stream.take(2 if magic[6] == 1 else 4)
    length = int.from_bytes(size, "little")
    if length > LONGEST_HEADER:
        raise BadShard(f"{where} has a header of {length:,} bytes; at most {LONGEST_HEADER:,} are read")
    text = stream.take(length).decode("utf-8" if magic[6] == 3 else "latin-1")
    try:
        said = ast.literal_eval(text)
        dtype, shape, fortran = np.lib.format.descr_to_dtype(said["descr"]), said["shape"], bool(said["fortran_order"])
        shape = tuple(int(size) for size in shape)
    except Exception as error:
        raise BadShard(f"{where} has a header that cannot be read ({error})") from None
    if dtype.hasobject:
        raise BadShard(
            f"{where}: field {name!r} holds Python objects, which need pickle and are never opened; "
            "store numbers, or rows padded to one length"
        )
    if not shape or min(shape) < 0:
        raise BadShard(f"{where}: field {name!r} has shape {shape} and so no rows")
    return dtype, shape, fortran, 8 + len(size) + length


class _Stream:
    """The bytes of one member, unpacked as they are asked for; at most what is asked for is in memory."""

    def __init__(self, where: str, file: IO[bytes], at: int, packed: int, method: int) -> None:
        self._where, self._file, self._at, self._left = where, file, at, packed
        self._inflater = (
            igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE) if method == _DEFLATED else _Stored()
        )
        self.crc = 0

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        out = bytearray(size)
        self.fill(memoryview(out))
        return bytes(out)

    def fill(self, view: memoryview) -> None:
        """Fill a buffer with the bytes that come next."""
        at = 0
        while at < len(view):
            got = self._next(min(PIECE, len(view) - at))
            if not got:
                raise BadShard(f"{self._where} ends before its last row; the file is cut or damaged")
            view[at : at + len(got)] = got
            at += len(got)

    def _next(self, limit: int) -> bytes:
        while True:
            packed = self._packed() if self._inflater.needs_input and not self._inflater.eof else b""
            try:
                got = b"" if self._inflater.eof else self._inflater.decompress(packed, limit)
            except (isal_zlib.IsalError, ValueError, EOFError) as error:  # type: ignore[misc]  # no stubs
                raise BadShard(f"{self._where} does not unpack ({error}); the file is damaged") from None
            if got or self._inflater.eof or (self._inflater.needs_input and not self._left):
                self.crc = isal_zlib.crc32(got, self.crc)
                return got

    def _packed(self) -> bytes:
        # Members are read side by side from one file: each remembers its own place.
        self._file.seek(self._at)
        packed = self._file.read(min(PIECE, self._left))
        # Nothing is left of a member that a damaged header has put behind the end of the file.
        self._at, self._left = self._at + len(packed), self._left - len(packed) if packed else 0
        return packed

    def check_end(self, crc: int) -> None:
        """Refuse a member that goes on, or whose checksum is another."""
        if self._next(1):
            raise BadShard(f"{self._where} goes on behind its last row; the file is damaged")
        if self.crc != crc:
            raise BadShard(f"{self._where} has CRC-32 {self.crc:08x}, the zip says {crc:08x}; the file is damaged")


class _Stored:
    """A member that is not compressed, read through the same door as one that is."""

    eof = False

    def __init__(self) -> None:
        self._held = b""

    @property
    def needs_input(self) -> bool:
        return not self._held

    def decompress(self, packed: bytes, limit: int) -> bytes:
        held = self._held or packed
        out, self._held = held[:limit], held[limit:]
        return out


class _Column:
    """A field, row after row."""

    def __init__(self, path: Path, file: IO[bytes], member: _Member) -> None:
        where = f"shards/npz: {path}: member '{member.field.name}.npy'"
        self.field, self._crc = member.field, member.crc
        self.stream = _Stream(where, file, member.at, member.packed, member.method)
        self.stream.take(member.head)

    def take(self, rows: int) -> np.ndarray:
        """Return the next rows, in an array of their own."""
        out = np.empty((rows, *self.field.row_shape), self.field.dtype)
        if out.nbytes:
            self.stream.fill(out.reshape(-1).view(np.uint8).data)
        return out

    def check_end(self) -> None:
        """Refuse a member whose end is not as it must be."""
        self.stream.check_end(self._crc)


class _FortranColumn(_Column):
    """A field stored column after column: unpacked into an unnamed file and mapped, so that rows can be taken."""

    def __init__(self, column: _Column, spool: IO[bytes]) -> None:
        self.field, self._next = column.field, 0
        with space_for(Path(tempfile.gettempdir(), self.field.name)):
            left = self.field.nbytes
            while left:
                left -= spool.write(column.stream.take(min(PIECE, left)))
            spool.flush()
        column.check_end()
        self._all = np.memmap(spool, self.field.dtype, "r", 0, self.field.shape, "F")

    def take(self, rows: int) -> np.ndarray:
        """Return the next rows, in an array of their own."""
        first, self._next = self._next, self._next + rows
        return np.array(self._all[first : self._next], order="C")

    def check_end(self) -> None:
        """Nothing is left to check: the whole field was read before the first row was given."""


def _check_ends(columns: Iterable[_Column]) -> None:
    for column in columns:
        column.check_end()


def open_alike(paths: Sequence[str | Path]) -> list[NpzReader]:
    """Open files that hold the same fields.

    Raises
    ------
    BadShard
        If one cannot be read, or has other fields, dtypes or row shapes than the first: the message names both.

    Examples
    --------
    >>> import tempfile
    >>> paths = [Path(tempfile.mkdtemp(), name) for name in ("a.npz", "b.npz")]
    >>> np.savez(paths[0], x=np.zeros((2, 3))), np.savez(paths[1], x=np.zeros((9, 3)))
    (None, None)
    >>> [reader.rows for reader in open_alike(paths)]
    [2, 9]
    """
    readers = [NpzReader(path) for path in paths]
    for reader in readers[1:]:
        _check_alike(readers[0], reader)
    return readers


def _check_alike(first: NpzReader, other: NpzReader) -> None:
    where = f"shards/npz: {other.path}"
    for name in {**first.fields, **other.fields}:
        one, two = first.fields.get(name), other.fields.get(name)
        if one is None or two is None:
            what = "lacks field" if two is None else "has a field of its own,"
            raise BadShard(f"{where} {what} {name!r}; {first.path.name} has {first._known()}")
        if (one.dtype, one.row_shape) != (two.dtype, two.row_shape):
            raise BadShard(f"{where}: field {name!r} holds {two}, in {first.path.name} it holds {one}; make them equal")


# Writing


class NpzWriter:
    """Write one npz file; it appears under its name when the block ends well, the same bytes for the same calls.

    Parameters
    ----------
    path : path
        The parent folder is made if it is not there.
    level : 0 to 3
        ISA-L's. 1 wrote 14 times faster than zlib's 6 for 7 % more bytes; 2 saves one of those percent.

    Raises
    ------
    NoSpace
        If the disk is full. What stood under `path` before still does.
    BadParameter
        If a name is given twice or cannot stand in a zip, if an array holds Python objects, or if a stream did not get
        the rows it promised.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "a.npz")
    >>> with NpzWriter(path) as writer:
    ...     writer.array("kind", np.array([7, 8, 9]))
    ...     column = writer.stream("ids", np.int16, (3, 2))
    ...     column.write(np.array([[0, 1], [2, 3]], np.int16))
    ...     column.write(np.array([[4, 5]], np.int16))
    >>> np.load(path)["ids"].tolist()
    [[0, 1], [2, 3], [4, 5]]
    """

    def __init__(self, path: str | Path, level: int = 1) -> None:
        if level not in range(4):
            raise BadParameter(f"shards/npz: level must be 0 to 3; got {level!r}")
        self.path, self._level = place(path), level
        self._temporary = temporary_name(self.path)
        self._entries: dict[str, _Entry] = {}
        self._open: NpzColumn | None = None

    def __enter__(self) -> NpzWriter:
        with space_for(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self._temporary, "wb", PIECE)  # closed by __exit__
        return self

    def array(self, name: str, values: Any) -> None:
        """Write a whole array."""
        values = np.asarray(values)
        column = self.stream(name, values.dtype, values.shape)
        # A copy in C order of a block at a time: a view in another order is never copied whole.
        step = max(1, PIECE // max(1, values[:1].nbytes)) if values.ndim else 1
        for first in range(0, len(values) if values.ndim else 0, step):
            column.write(values[first : first + step])
        if not values.ndim:
            column.write(values)

    def stream(self, name: str, dtype: Any, shape: Sequence[int]) -> NpzColumn:
        """Begin an array whose rows come block by block; it ends where the next one begins."""
        self._finish()
        dtype, shape = np.dtype(dtype), tuple(int(size) for size in shape)
        raw = _zip_name(name)
        if name in self._entries:
            raise BadParameter(f"shards/npz: {self.path.name} already has a field {name!r}")
        if dtype.hasobject:
            raise BadParameter(f"shards/npz: field {name!r} holds Python objects; npz without pickle holds numbers")
        with space_for(self.path):
            self._open = NpzColumn(self, name, raw, dtype, shape)
        return self._open

    def _finish(self) -> None:
        if self._open is not None:
            column, self._open = self._open, None
            with space_for(self.path):
                self._entries[column.name] = column.close()

    def _write_directory(self) -> None:
        start = self._file.tell()
        for entry in self._entries.values():
            self._file.write(entry.central())
        self._file.write(_directory_end(start, self._file.tell() - start, len(self._entries)))
        self._file.flush()
        os.fsync(self._file.fileno())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with space_for(self.path), self._file:
                if kind is None:
                    self._finish()
                    self._write_directory()
            if kind is None:
                replace(self._temporary, self.path)
        finally:
            self._temporary.unlink(missing_ok=True)


class NpzColumn:
    """An array that is being written; `NpzWriter.stream` makes it."""

    def __init__(self, writer: NpzWriter, name: str, raw: bytes, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        self.name, self.dtype, self.shape, self._writer = name, dtype, shape, writer
        self._file, self._raw, self._offset = writer._file, raw, writer._file.tell()
        self._file.write(_Entry(raw, self._offset).local())
        self._deflater = isal_zlib.compressobj(writer._level, wbits=-15)
        self._crc = self._unpacked = self._packed = 0
        head = npy_header(dtype, shape)
        self._size = len(head) + dtype.itemsize * math.prod(shape)
        self._put(memoryview(head))

    def write(self, block: np.ndarray) -> None:
        """Append rows: of the promised dtype and row shape, and no more than promised."""
        block = np.asarray(block)
        if self._writer._open is not self:
            raise BadParameter(f"shards/npz: field {self.name!r} ended where the next one began")
        if block.dtype != self.dtype or block.shape[1:] != self.shape[1:]:
            raise BadParameter(
                f"shards/npz: field {self.name!r} holds {self.dtype} rows of shape {self.shape[1:]}; "
                f"got {block.dtype} {block.shape}"
            )
        if self._unpacked + block.nbytes > self._size:
            raise BadParameter(f"shards/npz: field {self.name!r} was promised {self.shape[0]:,} rows and got more")
        if block.nbytes:
            # Every dtype as bytes: dates and texts have no buffer of their own.
            flat = np.ascontiguousarray(block).reshape(-1).view(np.uint8)
            with space_for(self._writer.path):
                self._put(flat.data)

    def _put(self, data: memoryview) -> None:
        for at in range(0, len(data), PIECE):
            piece = data[at : at + PIECE]
            self._crc = isal_zlib.crc32(piece, self._crc)
            self._packed += self._file.write(self._deflater.compress(piece))
        self._unpacked += len(data)

    def close(self) -> _Entry:
        """Fill in what the local header must say; the writer calls it."""
        if self._unpacked != self._size:
            row = self.dtype.itemsize * math.prod(self.shape[1:])
            got = self.shape[0] - (self._size - self._unpacked) // max(row, 1) if self.shape else 0
            promised = self.shape[0] if self.shape else 1
            raise BadParameter(f"shards/npz: field {self.name!r} was promised {promised:,} rows and got {got:,}")
        self._packed += self._file.write(self._deflater.flush())
        entry = _Entry(self._raw, self._offset, self._crc, self._packed, self._unpacked)
        end = self._file.tell()
        self._file.seek(self._offset)
        self._file.write(entry.local())
        self._file.seek(end)
        return entry


def npy_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """Return the header of a .npy file in C order, its length a multiple of 64 bytes.

    Source: NumPy's format versions 1.0, 2.0 (longer than 65,535 bytes) and 3.0 (field names beyond Latin-1).

    Examples
    --------
    >>> npy_header(np.dtype(np.int16), (5, 2))[10:69]
    b"{'descr': '<i2', 'fortran_order': False, 'shape': (5, 2), }"
    """
    text = f"{{'descr': {np.lib.format.dtype_to_descr(dtype)!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    version, encoding = (1, "latin-1") if len(text) < 65_000 else (2, "latin-1")
    try:
        raw = text.encode(encoding)
    except UnicodeEncodeError:
        version, raw = 3, text.encode("utf-8")
    width = 2 if version == 1 else 4
    raw += b" " * (-(8 + width + len(raw) + 1) % 64) + b"\n"
    return _MAGIC + bytes([version, 0]) + len(raw).to_bytes(width, "little") + raw


def _zip_name(name: str) -> bytes:
    try:
        raw = f"{name}.npy".encode()
    except UnicodeEncodeError:
        raw = b"\0"
    if b"\0" in raw or len(raw) > 65_000 or name.startswith(("/", "\\")) or ".." in Path(name).parts:
        raise BadParameter(f"shards/npz: a field cannot be called {name[:80]!r}: a zip has no such name")
    return raw


#: What fits the zip format's first 32-bit fields; beyond it, zip64.
_MAX32 = 2**32 - 1

#: 1 January 1980, midnight: no clock times in what we write.
_DATE = (0, 1 << 5 | 1)


@dataclass(frozen=True)
class _Entry:
    """One member, as both of its headers say it.

    Source: PKWARE APPNOTE 6.3.9, sections 4.3.7, 4.3.12, 4.5.3. The local header always has the zip64 sizes, because
    it is written before they are known; NumPy's own files do the same.
    """

    name: bytes
    offset: int
    crc: int = 0
    packed: int = 0
    unpacked: int = 0

    @property
    def _flags(self) -> int:
        return 0 if self.name.isascii() else 1 << 11

    def local(self) -> bytes:
        extra = struct.pack("<HHQQ", 1, 16, self.unpacked, self.packed)
        fields = (b"PK\x03\x04", 45, self._flags, _DEFLATED, *_DATE, self.crc, _MAX32, _MAX32)
        return struct.pack("<4s5H3L2H", *fields, len(self.name), len(extra)) + self.name + extra

    def central(self) -> bytes:
        large = [number for number in (self.unpacked, self.packed, self.offset) if number >= _MAX32]
        extra = struct.pack(f"<HH{len(large)}Q", 1, 8 * len(large), *large) if large else b""
        unpacked, packed, offset = (min(number, _MAX32) for number in (self.unpacked, self.packed, self.offset))
        # Made by 4.5 on Unix (3), readable and writable by its owner: 0o600.
        fields = (b"PK\x01\x02", 3 << 8 | 45, 45, self._flags, _DEFLATED, *_DATE, self.crc, packed, unpacked)
        places = (len(self.name), len(extra), 0, 0, 0, 0o600 << 16, offset)
        return struct.pack("<4s6H3L5H2L", *fields, *places) + self.name + extra


def _directory_end(start: int, size: int, count: int) -> bytes:
    zip64 = b""
    if start >= _MAX32 or size >= _MAX32 or count >= 0xFFFF:
        zip64 = struct.pack("<4sQHHLLQQQQ", b"PK\x06\x06", 44, 3 << 8 | 45, 45, 0, 0, count, count, size, start)
        zip64 += struct.pack("<4sLQL", b"PK\x06\x07", 0, start + size, 1)
    few = min(count, 0xFFFF)
    return zip64 + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, few, few, min(size, _MAX32), min(start, _MAX32), 0)


# Shards


#: What a build calls its ids, and what they are called in the file: the name trainers know.
_IDS = ("sequence", "input_ids")


class NpzShardWriter:
    """Write one shard of a build: its ids as ``input_ids``, its pieces and documents in two files beside it.

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
        self.path, self._side, self._writer = place(path), Side(), NpzWriter(path)

    def __enter__(self) -> NpzShardWriter:
        self._writer.__enter__()
        return self

    def create(self, name: str, shape: tuple[int, ...], dtype: Any) -> _ShardColumn:
        """Begin an array, to be filled front to back before the next one begins."""
        return _ShardColumn(self._writer.stream(_IDS[1] if name == _IDS[0] else name, dtype, shape))

    def write(self, name: str, values: np.ndarray) -> None:
        """Take a column of segments or documents."""
        self._side.columns[name] = np.asarray(values)

    def strings(self, name: str, values: Sequence[str]) -> None:
        """Take a list of names."""
        self._side.columns[name] = list(values)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return self._writer.__exit__(kind, error, trace)
        with contextlib.ExitStack() as stack:
            stack.push(self._writer.__exit__)
            self._side.write(self.path)


class _ShardColumn:
    """``column[a:b] = rows``, front to back."""

    def __init__(self, column: NpzColumn) -> None:
        self._column, self._at = column, 0

    def __setitem__(self, rows: slice, values: np.ndarray) -> None:
        name, shape = self._column.name, self._column.shape
        start, stop, _ = rows.indices(shape[0])
        if start != self._at or np.shape(values) != (stop - start, *shape[1:]):
            raise BadParameter(
                f"shards/npz: {np.shape(values)} does not fill rows {start} to {stop} of {name} {shape}, "
                f"of which {self._at} are written"
            )
        self._at = stop
        self._column.write(exact(values, self._column.dtype, f"shards/npz: {name}"))


class NpzShard(SideShard):
    """Read one shard, all of it at once: a build's with its pieces and documents, or any small one without.

    Parameters
    ----------
    path : path
    most : int, bytes
        A file of 200 kB can hold 200 MB of zeros: what takes more memory than this is refused before it is unpacked.

    Raises
    ------
    BadShard
        If the file cannot be read, or holds more than `most`.
    """

    where = "shards/npz"
    offsets: Mapping[str, np.ndarray] = {}

    def __init__(self, path: str | Path, most: int = 4 * 2**30) -> None:
        reader = NpzReader(path)
        self.path, self._most = reader.path, most
        if reader.nbytes > most:
            raise self._bad(
                f"its arrays take {reader.nbytes:,} bytes of memory, more than {most:,}; read it with NpzReader.blocks"
            )
        self._alone = not any(file.exists() for file in beside(self.path))
        names = {name: name if self._alone or name != _IDS[1] else _IDS[0] for name in reader.fields}
        self.columns = {names[name]: _fixed(values) for name, values in reader.read().items()}
        self.keys = tuple(self.columns)
        self.rows = dict.fromkeys(self.keys, reader.rows)
        if self._alone:
            # Nobody wrote down what its rows are made of: each is whole, and its document unknown.
            self.segment_columns, self._documents = {}, []

    def __reduce__(self) -> tuple[Any, ...]:
        return NpzShard, (self.path, self._most)


def _fixed(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False
    return values


# Folders


@dataclass(frozen=True)
class NpzFolder:
    """The npz files of a data set.

    Parameters
    ----------
    root : path
    train : list of path
        In natural order: ``shard_9`` before ``shard_10``.
    eval : path or None
        The folder ``eval``, if there is one.
    nested : bool
        True: `train` lies in ``root/train``, else in `root` itself.
    """

    root: Path
    train: list[Path]
    eval: Path | None
    nested: bool


def npz_files(input_dir: str | Path) -> NpzFolder:
    """Return the npz files of a folder: those in ``train/`` where that folder exists, else its own.

    Raises
    ------
    BadInput
        If there is no such folder, or no npz file where they are looked for.
    """
    root = place(input_dir)
    nested = (root / "train").is_dir()
    folder = root / "train" if nested else root
    try:
        found = [path for path in folder.iterdir() if path.suffix == ".npz" and not path.name.startswith(".")]
    except OSError as error:
        raise BadInput(f"shards/npz: cannot list {folder}: {error.strerror or error}") from None
    if not found:
        raise BadInput(f"shards/npz: no npz file in {folder}; give the folder that holds them, or train/ with them")
    train = sorted(found, key=lambda path: natural(path.name))
    return NpzFolder(root, train, root / "eval" if (root / "eval").is_dir() else None, nested)
