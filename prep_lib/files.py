"""Files written whole or not at all, digested, opened, and read line by line.

write_whole("a.jsonl")     .a.jsonl.4711.tmp ──fsync──▶ rename ──▶ a.jsonl      a kill leaves no half file
write_whole("s3://b/a")    a temporary file here ──sent whole──▶ s3://b/a

survey("a.jsonl")          one pass: sha256, lines, and spans that end at line ends
    ├── Span 0   bytes [0, 128 MiB + rest of a line)      first line 1
    └── Span 1   bytes [128 MiB + …, end)                 first line 90,211
read_lines(span)           (90211, b'{"text": …}'), (90212, …), …
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import itertools
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import zstandard
from isal import isal_zlib

from prep_lib import remote
from prep_lib.errors import BadInput, BadRecord, DamagedStream, NoSpace
from prep_lib.remote import absolute as absolute
from prep_lib.remote import is_remote, local, place

#: Bytes of input to a task: two big files keep 64 cores busy, and a kill costs about a minute. A constant of the
#: format, because which span a row fell into must never depend on the machine.
SPAN = 128 * 2**20

#: Longest line that is read, bytes. Longer ones are rejected so that memory stays bounded.
MAX_LINE = 128 * 2**20

#: Read in blocks: large enough to keep a disk streaming, small enough to stay in cache.
BLOCK = 2**20

#: Packed bytes handed to a decompressor at once: at most this much is lost before a damaged place, and even a stream
#: made to swell (32,768-fold is what zstd allows) stays at 128 MiB.
PACKED = 2**12

_counter = itertools.count()


@contextlib.contextmanager
def write_whole(path: str | Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a file that appears under its name only when the block ends well.

    Parameters
    ----------
    path : path or fsspec address
        The parent folder is made if it is not there.
    mode : "wb" or "w"
        Text is UTF-8 with plain line feeds on every system.

    Raises
    ------
    NoSpace
        If the disk is full. The partial file is removed; what stood under `path` before still does.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with write_whole(folder / "a.txt", "w") as file:
    ...     _ = file.write("你好")
    >>> [found.name for found in folder.iterdir()]
    ['a.txt']
    """
    path = place(path)
    text = {"encoding": "utf-8", "newline": "\n"} if "b" not in mode else {}
    with space_for(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary_name(path)
        try:
            with open(temporary, mode, **text) as file:  # type: ignore[call-overload]
                yield file
                file.flush()
                os.fsync(file.fileno())
            replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def replace(file: Path, path: Path) -> None:
    """Give a finished file of this machine its name: by a rename, or by sending it to the store that `path` is in."""
    if isinstance(path, remote.Remote):
        path.send(file)
        file.unlink()
    else:
        os.replace(file, path)


def temporary_name(path: Path) -> Path:
    """Return a name that no other process or thread uses, hidden from every listing of ours.

    It is beside `path`, or, if that is behind an address, on this machine.
    """
    if isinstance(path, remote.Remote):
        return remote.own_corner() / temporary_name(Path(path.name)).name
    return path.with_name(f".{path.name}.{os.getpid()}-{next(_counter)}.tmp")


def is_hidden(name: str) -> bool:
    """Tell whether a path, its parts apart by ``/``, leads through something hidden.

    Examples
    --------
    >>> is_hidden(".prep/kind"), is_hidden("a/b.txt")
    (True, False)
    """
    return any(part.startswith(".") for part in name.split("/"))


def is_temporary(name: str) -> bool:
    """Say whether a file has a name of `temporary_name`: a killed process leaves such files.

    Examples
    --------
    >>> is_temporary(temporary_name(Path("a.jsonl")).name), is_temporary(".a.tmp")
    (True, False)
    """
    return re.fullmatch(r"\..+\.\d+-\d+\.tmp", name) is not None


@contextlib.contextmanager
def space_for(path: str | Path) -> Iterator[None]:
    """Turn a full disk into `NoSpace`, with the folder and what to do, wherever the library below noticed it."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        if not _is_full(error):
            raise
        raise NoSpace(
            f"files: no space left for {place(path).name} in {place(path).parent}; "
            "free some and run the same command again: what was finished is kept"
        ) from error


def _is_full(error: BaseException) -> bool:
    # h5py reports the system's error only inside its text ("errno = 28"); NumPy says how much it could not write.
    number, text = getattr(error, "errno", None), r"errno = (28|122)\b|requested and \d+ written"
    return number in (errno.ENOSPC, errno.EDQUOT) or re.search(text, str(error)) is not None


def digest(path: str | Path) -> str:
    """Return the sha256 of a file as it is stored, hex; the file may be behind an fsspec address.

    Examples
    --------
    >>> digest(os.devnull)[:16]
    'e3b0c44298fc1c14'
    """
    with contextlib.closing(open_stored(str(path))) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that puts ``chunk_10`` after ``chunk_9``.

    Examples
    --------
    >>> sorted(["c10", "c9", "b"], key=natural)
    ['b', 'c9', 'c10']
    """
    pieces = re.split(r"(\d+)", name)
    return [(1, int(piece), piece) if piece.isdecimal() else (0, 0, piece) for piece in pieces]


@dataclass(frozen=True)
class Span:
    """A piece of one input file, the input of one task.

    Parameters
    ----------
    path : str
    start, stop : int, bytes
        Half open, at line ends. `stop` None: to the end of the file. For Parquet: row groups.
    first : int
        The number of the first record: lines count from 1, Parquet rows from 0.
    """

    path: str
    start: int = 0
    stop: int | None = None
    first: int = 1


@dataclass(frozen=True)
class Survey:
    """What one pass over an input file tells.

    Parameters
    ----------
    digest : str
        sha256 of the bytes as stored, hex.
    size : int, bytes
    rows : int or None
        Lines that are not the empty rest after the last line feed; None for a compressed file, which is not unpacked.
    spans : tuple of Span
    """

    digest: str
    size: int
    rows: int | None
    spans: tuple[Span, ...]


def compression(path: str | Path) -> str | None:
    """Return "gz", "zst" or None, by the name's ending."""
    # Behind http an address may go on; elsewhere a question mark is part of a name.
    ending = remote.without_secrets(str(path)).rsplit(".", 1)[-1].lower()
    return ending if ending in ("gz", "zst") else None


def survey(path: str | Path, span: int = SPAN) -> Survey:
    """Digest a JSONL file, count its lines and cut it into spans, in one pass.

    Parameters
    ----------
    path : path
        Or an fsspec address. A compressed file is one span, because it cannot be entered in the middle.
    span : int, bytes
        Only tests change it.

    Raises
    ------
    BadInput
        If the file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "a.jsonl")
    >>> _ = path.write_bytes(b'{"a": 1}\\n{"a": 2}\\n{"a": 3}')
    >>> found = survey(path, span=10)
    >>> found.rows, [(piece.start, piece.stop, piece.first) for piece in found.spans]
    (3, [(0, 18, 1), (18, 26, 3)])
    """
    path = str(path)
    try:
        with contextlib.closing(open_stored(path)) as file:
            return _survey_packed(path, file) if compression(path) else _survey_plain(path, file, span)
    except OSError as error:
        raise BadInput(f"files: cannot read {path}: {error.strerror or error}") from error


def _survey_packed(path: str, file: IO[bytes]) -> Survey:
    sha, size = hashlib.sha256(), 0
    while block := file.read(8 * BLOCK):
        sha.update(block)
        size += len(block)
    return Survey(sha.hexdigest(), size, None, (Span(path),))


def _survey_plain(path: str, file: IO[bytes], span: int) -> Survey:
    sha, position, lines, start, first, spans = hashlib.sha256(), 0, 0, 0, 1, []
    last = b"\n"
    while block := file.read(8 * BLOCK):
        sha.update(block)
        at = 0
        # A span ends behind the first line feed at or after its full length.
        while (cut := block.find(b"\n", max(at, start + span - position))) >= 0:
            lines += block.count(b"\n", at, cut + 1)
            at = cut + 1
            spans.append(Span(path, start, position + at, first))
            start, first = position + at, lines + 1
        lines += block.count(b"\n", at)
        position += len(block)
        last = block[-1:]
    if start < position:
        spans.append(Span(path, start, position, first))
    return Survey(sha.hexdigest(), position, lines + (last != b"\n"), tuple(spans))


class _Unpacker(io.RawIOBase):
    """Decompress every member of a gz or zst file, and say where the last one is damaged.

    The libraries' own file objects lose the last lines before a cut (gzip) or end as if the file were whole (zstd).
    """

    def __init__(self, file: IO[bytes], kind: str) -> None:
        self._file, self._kind, self._pending = file, kind, memoryview(b"")
        self._member: Any = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._pending:
            packed = self._packed()
            if not packed:
                return 0
            try:
                self._pending = memoryview(self._member.decompress(packed))
            except (isal_zlib.IsalError, zstandard.ZstdError, EOFError) as error:  # type: ignore[misc]  # no stubs
                raise DamagedStream("corrupt_stream", str(error)) from None
        size = min(len(buffer), len(self._pending))
        buffer[:size], self._pending = self._pending[:size], self._pending[size:]
        return size

    def _packed(self) -> bytes:
        """Return the next packed bytes, with a member open for them; empty at the end of a whole file."""
        if self._member is None or self._member.eof:
            return self._begin_member()
        if packed := self._file.read(PACKED):
            return packed
        raise DamagedStream("cut_stream", f"the {self._kind} stream ends before its end mark")

    def _begin_member(self) -> bytes:
        head = self._without_padding(self._member.unused_data if self._member is not None else b"")
        while len(head) < 4 and (more := self._file.read(PACKED)):
            head = self._without_padding(head + more)
        if not head and self._member is not None:
            return b""
        if not head.startswith(_MAGIC[self._kind]):
            raise self._no_member(head)
        gz = self._kind == "gz"
        self._member = isal_zlib.decompressobj(wbits=31) if gz else zstandard.ZstdDecompressor().decompressobj()
        return head

    def _without_padding(self, head: bytes) -> bytes:
        # Zeros may pad a gzip file to a block; gzip and tar accept them.
        return head.lstrip(b"\0") if self._kind == "gz" and self._member is not None else head

    def _no_member(self, head: bytes) -> DamagedStream:
        if any(magic.startswith(head) for magic in _MAGIC[self._kind]):
            return DamagedStream("cut_stream", f"the {self._kind} stream ends after {len(head)} bytes")
        reason = "corrupt_stream" if self._member is None else "bytes_after_stream"
        return DamagedStream(reason, f"{head[:4].hex(' ')} does not begin a {self._kind} stream")

    def close(self) -> None:
        self._file.close()
        super().close()


#: How a member begins: RFC 1952; RFC 8878 with its sixteen skippable frames.
_MAGIC = {
    "gz": (b"\x1f\x8b",),
    "zst": (b"\x28\xb5\x2f\xfd", *(bytes([0x50 + n, 0x2A, 0x4D, 0x18]) for n in range(16))),
}


def open_bytes(path: str | Path) -> io.BufferedIOBase | IO[bytes]:
    """Open a file for reading bytes: plain, ``.gz``, ``.zst``, here or behind an fsspec address.

    Raises
    ------
    DamagedStream
        While reading, where a compressed stream is cut or corrupt: what came before it has been given.
    """
    file, kind = open_stored(str(path)), compression(path)
    return io.BufferedReader(_Unpacker(file, kind), BLOCK) if kind else file


def open_stored(path: str) -> IO[bytes]:
    """Open a file as it is stored, packed or not, here or behind an fsspec address."""
    return place(path).open("rb") if is_remote(path) else open(path, "rb", BLOCK)


def read_lines(span: Span) -> Iterator[tuple[int, bytes | BadRecord]]:
    """Yield (line number, line) of a span, without the line feed.

    Lines end at ``\\n`` alone: U+2028 and U+0085 inside a string are data. A byte order mark before line 1 is taken
    off. Blank lines are counted but not given. What cannot be read comes as a `BadRecord` in the line's place:
    ``line_too_long``, or a reason of `DamagedStream` after the last whole line before the damage.

    Raises
    ------
    BadInput
        If the file ends before the span does: somebody changed it since it was surveyed.
    """
    number, left = span.first - 1, None if span.stop is None else span.stop - span.start
    if left == 0:
        return
    with contextlib.closing(open_bytes(span.path)) as file:
        if span.start:
            file.seek(span.start)
        try:
            for size, line in _sized_lines(file):
                number += 1
                left = None if left is None else left - size
                if found := _clean(line, number):
                    yield number, found
                if left is not None and left <= 0:
                    return
        except DamagedStream as damage:
            yield number + 1, BadRecord(damage.reason, damage.detail)
    # A span of a compressed file is only a limit: nobody knows its length before it is unpacked.
    if left and not compression(span.path):
        raise BadInput(f"files: {span.path} ends {left:,} bytes before it did when it was surveyed; run again")


def _sized_lines(file: Any) -> Iterator[tuple[int, bytes | BadRecord]]:
    """Yield every line with its size in the file, in bounded memory."""
    while line := file.readline(MAX_LINE + 1):
        if len(line) <= MAX_LINE or line.endswith(b"\n"):
            yield len(line), line
        else:
            yield len(line) + _skip_line(file), BadRecord("line_too_long", f"over {MAX_LINE:,} bytes")


def _clean(line: bytes | BadRecord, number: int) -> bytes | BadRecord | None:
    """Take off the line's end and, from line 1, the byte order mark; None for a blank line."""
    if isinstance(line, BadRecord):
        return line
    if number == 1:
        line = line.removeprefix(b"\xef\xbb\xbf")
    return line.removesuffix(b"\n").removesuffix(b"\r") if line.strip() else None


def _skip_line(file: Any) -> int:
    skipped = 0
    while piece := file.readline(BLOCK):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            break
    return skipped


def stamp(path: str | Path) -> list[int]:
    """Return size and time of change: what tells, without reading it, that a file is still the same.

    Behind an fsspec address a number for the version stands for the time; 0: the store tells none, and only reading
    the file would tell (`remote.unmoved`).

    Raises
    ------
    OSError
        If there is no such file.
    """
    if is_remote(path):
        return remote.stamp(place(path))
    found = os.stat(path)
    return [found.st_size, found.st_mtime_ns]


def stamps(paths: Sequence[str]) -> dict[str, list[int]]:
    """Return the `stamp` of every file; a store is asked once for a whole folder."""
    far = remote.stamps(path for path in paths if is_remote(path))
    return {path: far[path] if path in far else stamp(path) for path in paths}


def load_array(path: str | Path, mmap_mode: Literal["r"] | None = None) -> np.ndarray:
    """Read a ``.npy`` file, here or behind an address, without letting it run code.

    Parameters
    ----------
    path : path
    mmap_mode : "r" or None
        "r": it is mapped, not read; behind an address, from a copy on this machine.
    """
    return np.load(local(path) if is_remote(path) else path, mmap_mode=mmap_mode, allow_pickle=False)


def as_written(path: str | Path, before: Sequence[int], sha256: str, *, rehash: bool = False) -> bool:
    """Tell whether a file is as it was written; it is read only if its time of change says it may not be.

    Parameters
    ----------
    path : path
    before : sequence of int
        Its `stamp` when it was written.
    sha256 : str
    rehash : bool
        True: read it in any case.
    """
    try:
        now = stamp(path)
    except OSError:
        return False
    return _is_same(path, now, before, sha256, rehash)


def harmed(folder: Path, known: Mapping[str, Sequence[Any]], *, rehash: bool = False) -> set[str]:
    """Return which files of a folder are not as they were written; see `as_written`.

    Parameters
    ----------
    folder : path
    known : mapping
        Name -> (size, time of change, sha256).
    rehash : bool
    """
    there = remote.stamps_in(folder)
    out = set()
    for name, (size, modified, sha256) in known.items():
        now = there(name)
        if now is None or not _is_same(folder / name, now, (size, modified), sha256, rehash):
            out.add(name)
    return out


def _is_same(path: str | Path, now: Sequence[int], before: Sequence[int], sha256: str, rehash: bool) -> bool:
    return now[0] == before[0] and ((remote.unmoved(now, before) and not rehash) or digest(path) == sha256)


def link_tree(source: Path, target: Path, skip: Sequence[str] = ()) -> None:
    """Let another folder hold the same files, the disk holding them once; folders and files named in `skip` stay away.

    Whoever changes one of them must write it whole, under another name first: both folders see what is written into it.
    """
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.iterdir()):
        if path.name in skip or is_temporary(path.name):
            continue
        if path.is_dir():
            link_tree(path, target / path.name, skip)
        else:
            link_file(path, target / path.name)


def link_file(source: Path, target: Path) -> None:
    """Let another name stand for a file; where the file system has no links, for a copy of it.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a").write_text("one")
    >>> link_file(folder / "a", folder / "b")
    >>> os.path.samefile(folder / "a", folder / "b")
    True
    """
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        with space_for(target):
            shutil.copy2(source, target)
