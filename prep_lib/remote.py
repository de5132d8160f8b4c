"""A path behind an fsspec address: it does what pathlib's does, as far as a store of objects can.

    place("runs/a")                    Path       as ever
    place("s3://bucket/runs/a")        Remote     / name, open, glob, stat, unlink …

    local(Remote("s3://…/x.bin"))      a copy on this machine, for what needs a real file (a memory map, HDF5)

A store has no folders, no renames and no locks: an object appears whole under its name when it has been sent. Who may
open it is fsspec's to know (environment, ``~/.config/fsspec``); nothing of that is kept, and no message shows it.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import io
import json
import os
import posixpath
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import IO, Any, TypeVar, cast

from prep_lib.errors import PrepError, StoreFailed

#: Requests to a store at once, where many objects are read or removed.
AT_ONCE = 16

#: Bytes that a request asks for where an object is read front to back.
AHEAD = 8 * 2**20

#: Copies that nobody has asked for as long as this are removed by whoever copies next, seconds.
FORGOTTEN = 86_400

_T = TypeVar("_T")


def is_remote(path: object) -> bool:
    """Tell an fsspec address from a path of this machine.

    Examples
    --------
    >>> is_remote("s3://bucket/a.jsonl"), is_remote(Path("a.jsonl"))
    (True, False)
    """
    return isinstance(path, Remote) or "://" in str(path)


def place(path: str | Path | Remote) -> Path:
    """Return what stands for a path: pathlib's, or one of ours behind an address, which does the same.

    Examples
    --------
    >>> place("memory://example") / "a.txt", place("a") / "b"
    (Remote('memory://example/a.txt'), PosixPath('a/b'))
    """
    return cast(Path, Remote(str(path))) if is_remote(path) else Path(cast(Any, path))


def absolute(path: str | Path | Remote) -> Path:
    """Return what stands for a path from the root on; see `place`."""
    return place(path) if is_remote(path) else Path(os.path.abspath(cast(Any, path)))


def without_secrets(path: str) -> str:
    """Return an address without user, password and, behind http, what a signed one ends in: as it may be written down.

    Examples
    --------
    >>> without_secrets("ftp://me:secret@host/a.jsonl"), without_secrets("https://host/a.jsonl?sig=1")
    ('ftp://host/a.jsonl', 'https://host/a.jsonl')
    >>> without_secrets("s3://bucket/what?.jsonl"), without_secrets("a@b.jsonl")
    ('s3://bucket/what?.jsonl', 'a@b.jsonl')
    """
    if not is_remote(path):
        return path
    bare = re.sub(r"(?<=://)[^/@]*@", "", path)
    return re.sub(r"[?#].*", "", bare) if bare.startswith(("http://", "https://")) else bare


class Remote:
    """A file or folder behind an address.

    Parameters
    ----------
    url : str
        Any that fsspec opens, with one ``://``.

    Raises
    ------
    StoreFailed
        From each method, if the store cannot be reached, or says no.
    OSError
        As pathlib does, if a file is not there.
    """

    def __init__(self, url: str) -> None:
        head, _, rest = url.partition("://")
        self.url = f"{head}://{rest.rstrip('/') or rest[:1]}"

    def __repr__(self) -> str:
        return f"Remote({self.url!r})"

    def __str__(self) -> str:
        return self.url

    def __reduce__(self) -> tuple[Any, ...]:
        return Remote, (self.url,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Remote) and self.url == other.url

    def __hash__(self) -> int:
        return hash(self.url)

    def __lt__(self, other: Remote) -> bool:
        return self.url < other.url

    # Names

    @property
    def _split(self) -> tuple[str, PurePosixPath]:
        head, _, rest = self.url.partition("://")
        return f"{head}://", PurePosixPath(rest)

    def __truediv__(self, name: str | PurePosixPath | Path) -> Remote:
        return (
            Remote(f"{self.url}{'' if self.url.endswith('/') else '/'}{PurePosixPath(name)}")
            if str(name) != "."
            else self
        )

    @property
    def name(self) -> str:
        """The last part."""
        return self._split[1].name

    @property
    def stem(self) -> str:
        """The last part without its ending."""
        return self._split[1].stem

    @property
    def suffix(self) -> str:
        """The ending of the last part."""
        return self._split[1].suffix

    @property
    def parent(self) -> Remote:
        """The folder it is in."""
        head, rest = self._split
        return Remote(f"{head}{rest.parent if str(rest.parent) != '.' else ''}")

    @property
    def parents(self) -> list[Remote]:
        """The folders it is in, from the nearest on."""
        above, at = list[Remote](), self
        while at.parent != at:
            at = at.parent
            above.append(at)
        return above

    def with_name(self, name: str) -> Remote:
        """Return the path with another last part."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> Remote:
        """Return the path with another ending."""
        return self.with_name(PurePosixPath(self.name).with_suffix(suffix).name)

    def relative_to(self, other: Remote) -> PurePosixPath:
        """Return the way here from a folder above."""
        return self._split[1].relative_to(other._split[1])

    def as_posix(self) -> str:
        """Return the address."""
        return self.url

    def absolute(self) -> Remote:
        """Return the path itself: it says where it is from the root on."""
        return self

    def resolve(self) -> Remote:
        """Return the path itself: there are no links."""
        return self

    expanduser = absolute

    # What is there

    @cached_property
    def _system(self) -> tuple[Any, str]:
        import fsspec

        with self._told("open"):
            # Another machine may write there at any time: no listing is remembered.
            options = {} if "::" in self.url else {"use_listings_cache": False}
            try:
                return fsspec.core.url_to_fs(self.url, **options)
            except TypeError:
                # Some hand every option on to what they stand on (SFTP); those remember no listing anyway.
                return fsspec.core.url_to_fs(self.url)

    @contextlib.contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        """Say in one line what a store said, whatever it raises; a file that is not there stays what it is."""
        try:
            yield
        except (PrepError, FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError):
            raise
        except Exception as error:
            raise StoreFailed(
                f"files: cannot {doing} {without_secrets(self.url)}: {_cause(error)}; {WHAT_TO_DO}"
            ) from error

    def info(self) -> dict[str, Any]:
        """Return what the store says of an object or folder."""
        system, inside = self._system
        with self._told("look at"):
            return dict(system.info(inside))

    def _kind(self) -> str:
        try:
            return str(self.info()["type"])
        except OSError:
            return ""

    def exists(self) -> bool:
        """Tell whether there is such a file or folder."""
        return bool(self._kind())

    def is_file(self) -> bool:
        """Tell whether there is such a file."""
        return self._kind() == "file"

    def is_dir(self) -> bool:
        """Tell whether anything lies below."""
        system, inside = self._system
        with self._told("look at"):
            return bool(system.isdir(inside))

    def stat(self) -> Any:
        """Return an object with the size: `st_size`."""
        return SimpleNamespace(st_size=self.info()["size"] or 0)

    def listing(self) -> dict[str, dict[str, Any]]:
        """Return every object below this folder by its name from here on, asked for at once; none: it is not there."""
        system, inside = self._system
        with self._told("list"), contextlib.suppress(FileNotFoundError):
            found = system.find(inside, detail=True)
            return {name[len(inside) :].strip("/"): about for name, about in found.items() if name != inside}
        return {}

    def iterdir(self) -> Iterator[Remote]:
        """Yield what is directly in this folder, in order."""
        system, inside = self._system
        with self._told("list"):
            found = sorted(str(about["name"]).rstrip("/") for about in system.ls(inside, detail=True))
        bare = inside.rstrip("/")
        yield from (self / posixpath.basename(name) for name in found if name != bare)

    def glob(self, pattern: str) -> Iterator[Remote]:
        """Yield what matches in this folder, or in one below it that the pattern names; stars in the last part only."""
        below, _, last = pattern.rpartition("/")
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found = (self / below if below else self).iterdir()
            yield from (path for path in found if fnmatch.fnmatchcase(path.name, last))

    def rglob(self, pattern: str) -> Iterator[Remote]:
        """Yield the objects at any depth whose last part matches."""
        for name in sorted(self.listing()):
            if fnmatch.fnmatchcase(posixpath.basename(name), pattern):
                yield self / name

    # What is in it, and what changes it

    def open(self, mode: str = "rb", buffering: int = -1, **options: Any) -> IO[Any]:
        """Open for reading; `buffering`: the bytes a request asks for at least, -1: `AHEAD`."""
        system, inside = self._system
        with self._told("read"):
            raw = system.open(inside, "rb", block_size=buffering if buffering > 0 else AHEAD)
        # Files of some stores cannot read a line of limited length.
        file = io.BufferedReader(_Opened(self, raw), 2**20 if buffering < 0 else buffering)
        return file if "b" in mode else io.TextIOWrapper(file, **{"encoding": "utf-8", **options})

    def read_bytes(self) -> bytes:
        """Return what is in it."""
        system, inside = self._system
        with self._told("read"):
            return bytes(system.cat_file(inside))

    def read_text(self, encoding: str = "utf-8") -> str:
        """Return what is in it, decoded."""
        return self.read_bytes().decode(encoding)

    def write_bytes(self, data: bytes) -> None:
        """Write it whole."""
        system, inside = self._system
        with self._told("write"):
            _made(self, lambda: system.pipe_file(inside, data))

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """Write it whole, encoded."""
        self.write_bytes(text.encode(encoding))

    def send(self, file: Path) -> None:
        """Send a file of this machine; what stood there is replaced at once, when it has arrived."""
        system, inside = self._system
        with self._told("write"):
            _made(self, lambda: system.put_file(str(file), inside))

    def read_range(self, start: int, stop: int) -> bytes:
        """Return some bytes of the object."""
        system, inside = self._system
        with self._told("read"):
            return bytes(system.cat_file(inside, start, stop))

    def get(self, file: Path) -> None:
        """Copy the object to a file of this machine."""
        system, inside = self._system
        with self._told("read"):
            system.get_file(inside, str(file))

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object."""
        system, inside = self._system
        try:
            with self._told("remove"):
                system.rm_file(inside)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def mkdir(self, *_: object, **__: object) -> None:
        """Do nothing: a store makes folders as they are needed."""

    def rmdir(self) -> None:
        """Do nothing: where nothing is left there is no folder."""


class _Opened(io.RawIOBase):
    """An object that is read piece by piece: what a store says meanwhile is told as when it was opened."""

    def __init__(self, path: Remote, file: Any) -> None:
        self._path, self._file = path, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def readinto(self, buffer: Any) -> int:
        with self._path._told("read"):
            return int(self._file.readinto(buffer))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with self._path._told("read"):
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


WHAT_TO_DO = "what was finished is kept: set it right and run the same command again"


def _made(path: Remote, write: Callable[[], Any]) -> None:
    """Write; where the file system has folders and this one is not there yet, make it first."""
    system, inside = path._system
    try:
        write()
    except FileNotFoundError:
        top = inside.strip("/").split("/")[0]
        if not inside.startswith("/") and not system.exists(top):
            raise StoreFailed(
                f"files: there is no {top!r} to write {without_secrets(path.url)} to; make it first"
            ) from None
        system.makedirs(system._parent(inside), exist_ok=True)
        write()


def _cause(error: BaseException) -> str:
    if isinstance(error, ImportError):
        return f"a package is missing ({error})"
    # Where the store is, and who asks, is nobody's business: neither addresses nor words of the request are repeated.
    text = re.sub(r"""["']?\bhttps?://[^\s"']+["']?""", "…", " ".join(str(error).split()))[:200]
    said = "no permission" if isinstance(error, PermissionError) else type(error).__name__
    return f"{said} ({text})" if text else said


# Many at once


def many(work: Callable[[Any], _T], items: Iterable[Any]) -> list[_T]:
    """Call `work` with each item, `AT_ONCE` at a time: requests are waiting, not work."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, items))


def remove(paths: Iterable[Path]) -> None:
    """Remove files, in a store or here; one that is not there is no error."""
    paths = list(paths)
    if paths and is_remote(paths[0]):
        many(lambda path: path.unlink(missing_ok=True), paths)
    else:
        for path in paths:
            path.unlink(missing_ok=True)


def remove_folder(folder: Path) -> None:
    """Remove a folder and all in it, in a store or here; one that is not there is no error."""
    if isinstance(folder, Remote):
        remove([cast(Path, folder / name) for name in folder.listing()])
    else:
        shutil.rmtree(folder, ignore_errors=True)


def sizes(folder: Path) -> Callable[[str], int | None]:
    """Return a function from a name in a folder to its size, None: it is not there; a store is asked once for all."""
    if isinstance(folder, Remote):
        return _listed_sizes(folder)

    def size(name: str) -> int | None:
        try:
            return (folder / name).stat().st_size
        except OSError:
            return None

    return size


def _listed_sizes(folder: Remote) -> Callable[[str], int | None]:
    there = folder.listing()

    def size(name: str) -> int | None:
        about = there.get(name)
        if about is None:
            return None
        return stamp(cast(Path, folder / name))[0] if about["size"] is None else int(about["size"])

    return size


def read_many(paths: Iterable[Path]) -> list[bytes | None]:
    """Return what is in each file, None if it cannot be read."""
    paths = list(paths)
    return many(_read, paths) if paths and is_remote(paths[0]) else [_read(path) for path in paths]


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def stamp(path: Path) -> list[int]:
    """Return size and a number for the version of an object; see `files.stamp`."""
    return _stamp(cast(Any, path).info())


def stamps(paths: Iterable[str]) -> dict[str, list[int]]:
    """Return the stamps of many objects, by address: a folder with several of them is asked once for all.

    Raises
    ------
    FileNotFoundError
        If one is not there.
    """
    out: dict[str, list[int]] = {}
    folders: dict[Remote, list[str]] = {}
    for path in paths:
        folders.setdefault(Remote(path).parent, []).append(path)
    for folder, mine in folders.items():
        there = folder.listing() if len(mine) > 1 else {}
        for path in mine:
            about = there.get(Remote(path).name)
            out[path] = _listed(place(path), about) if about else stamp(place(path))
    return out


def stamps_in(folder: Path) -> Callable[[str], list[int] | None]:
    """Return a function from a name in a folder to its stamp, None: it is not there; a store is asked once for all."""
    if isinstance(folder, Remote):
        there = folder.listing()
        return lambda name: _listed(folder / name, there[name]) if name in there else None

    def found(name: str) -> list[int] | None:
        try:
            about = os.stat(folder / name)
        except OSError:
            return None
        return [about.st_size, about.st_mtime_ns]

    return found


def written(folder: Path) -> dict[str, float]:
    """Return when every object of a folder was written, by the store's own clock, seconds; 0.0: it does not say."""
    return {name: _seconds(_first(about, _TIMES)) for name, about in cast(Any, folder).listing().items()}


def _seconds(told: Any) -> float:
    if isinstance(told, str):
        with contextlib.suppress(ValueError):
            told = parsedate_to_datetime(told)
    if isinstance(told, datetime):
        return told.timestamp()
    return float(told) if isinstance(told, float | int) else 0.0


def unmoved(now: Sequence[int], before: Sequence[int]) -> bool:
    """Tell whether two stamps are those of one version; of a store that tells no version, nobody knows.

    Examples
    --------
    >>> unmoved([17, 5], [17, 5]), unmoved([17, 5], [17, 6]), unmoved([17, 0], [17, 0])
    (True, False, False)
    """
    return [*now] == [*before] and now[1] != 0


#: Words in which stores tell when an object was written, and others in which they tell its version.
_TIMES = ("LastModified", "mtime", "last_modified", "Last-Modified", "updated", "created")
_VERSIONS = ("ETag", "etag", "md5Hash", "Content-MD5", "Digest", "generation", "sha", "hex")
_TOLD = (*_VERSIONS, *_TIMES, "modificationTime", "modify")


def _first(about: Mapping[str, Any], words: Sequence[str]) -> Any:
    return next((about[word] for word in words if about.get(word)), None)


def _stamp(about: Mapping[str, Any]) -> list[int]:
    # Stores tell the version of an object each in their own words; any of them changes with the content.
    told = _first(about, _TOLD)
    told = told.timestamp() if isinstance(told, datetime) else told
    version = 0 if told is None else int.from_bytes(hashlib.sha256(str(told).encode()).digest()[:6])
    return [about["size"] or 0, version]


def _listed(path: Path, about: Mapping[str, Any]) -> list[int]:
    """Return the stamp of an object that was listed; it is asked for itself where the listing told only its name."""
    found = _stamp(about)
    return found if found[1] and about["size"] is not None else stamp(path)


# Copies on this machine


def scratch(name: str) -> Path:
    """Make an empty folder on this machine for what is on its way to a store; its maker removes it."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=own_corner()))


def own_corner() -> Path:
    """Return where work of this process lies; what processes that are gone have left is removed."""
    root, whose = _root(), f"process-{_who_sees()}-"
    mine = root / f"{whose}{os.getpid()}"
    if not mine.is_dir():
        for other in root.glob(f"{whose}*"):
            if not lives(int(other.name.rsplit("-", 1)[1])):
                shutil.rmtree(other, ignore_errors=True)
        mine.mkdir(parents=True, exist_ok=True)
    return mine


def _who_sees() -> str:
    """Return what tells processes that see each other from those of another container; empty if it is not known."""
    try:
        return re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))
    except OSError:
        return ""


def _root() -> Path:
    whose = os.getuid() if hasattr(os, "getuid") else "mine"
    root = Path(tempfile.gettempdir(), f"prep-{whose}")
    root.mkdir(mode=0o700, exist_ok=True)
    if hasattr(os, "getuid") and root.stat().st_uid != os.getuid():
        raise StoreFailed(f"files: {root} belongs to somebody else; set TMPDIR to a folder of your own")
    return root


def lives(process: int) -> bool:
    """Tell whether a process of this machine is alive."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def local(path: str | Path) -> Path:
    """Return a file on this machine with the content of `path`: itself, or a copy of an object under the same name.

    All processes of this machine share the copy; it is made anew when the object has changed, or its store does not
    say whether it has, and goes with `forget_copies`, or when it has not been asked for in a day.
    """
    if not is_remote(path):
        return Path(path)
    far = Remote(str(path))
    copy = _copies(far.parent) / far.name
    with contextlib.suppress(OSError):
        # That somebody asks for it is seen by whoever looks for what is forgotten.
        os.utime(copy.parent)
    if not _is_copy(copy, stamp(cast(Path, far))):
        # One at a time, from the look at the version to its mark: old bytes never stand under a new version.
        with _copying(copy):
            now = stamp(cast(Path, far))
            if not _is_copy(copy, now):
                _copy(far, copy, now)
    return copy


def _is_copy(copy: Path, now: Sequence[int]) -> bool:
    return now[1] != 0 and copy.is_file() and _read(_mark(copy)) == json.dumps(now).encode()


def _mark(copy: Path) -> Path:
    return copy.with_name(f".{copy.name}.version")


def _copying(copy: Path) -> Any:
    import filelock

    # A few locks for all copies: one each would stay behind for each.
    number = int.from_bytes(hashlib.sha256(str(copy).encode()).digest()[:1])
    return filelock.FileLock(_root() / f"copying-{number}.lock")


def _copy(far: Remote, copy: Path, now: Sequence[int]) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    (copy.parent / _WHERE).write_text(far.parent.url, "utf-8")
    _mark(copy).unlink(missing_ok=True)
    _get(far, copy)
    _mark(copy).write_text(json.dumps(now), "utf-8")


def _get(far: Remote, copy: Path) -> None:
    with tempfile.NamedTemporaryFile(dir=own_corner(), delete=False) as fresh:
        pass
    try:
        far.get(Path(fresh.name))
        os.replace(fresh.name, copy)
    finally:
        Path(fresh.name).unlink(missing_ok=True)


def _copies(folder: Remote) -> Path:
    return _root() / f"copies-{hashlib.sha256(folder.url.encode()).hexdigest()[:24]}"


#: Beside the copies of a folder's objects: the address of the folder.
_WHERE = ".prep-address"


def forget_copies(folder: Path) -> None:
    """Remove the copies of all objects below a folder, and those of others that nobody has asked for in a day."""
    if not isinstance(folder, Remote):
        return
    for mark in _root().glob(f"copies-*/{_WHERE}"):
        with contextlib.suppress(OSError):
            below = f"{mark.read_text('utf-8')}/".startswith(f"{folder.url}/")
            if below or time.time() - mark.parent.stat().st_mtime > FORGOTTEN:
                shutil.rmtree(mark.parent, ignore_errors=True)


def forget_copy(path: Path) -> None:
    """Remove the copy of one object, where there is one."""
    if isinstance(path, Remote):
        copy = _copies(path.parent) / path.name
        _mark(copy).unlink(missing_ok=True)
        copy.unlink(missing_ok=True)


# In this process alone


def only_here(paths: Iterable[object]) -> str:
    """Return the first address whose file system lives in the memory of one process; empty if there is none."""
    return next((str(path) for path in paths if str(path).startswith("memory://")), "")
