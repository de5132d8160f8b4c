"""Who is at work in a folder: one process at a time, on this machine or in a store, and its place is free once it dies.

.prep/lock            held by the system for as long as the process lives
.prep/owner.json      who that is; touched every five seconds
.prep/owners/*.json   in a store, which has no locks: whoever comes lays one down, then looks who else has
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from prep_lib import remote
from prep_lib.errors import BadInput, RunLocked, StoreFailed
from prep_lib.events import emit
from prep_lib.files import is_temporary, place, space_for, write_whole

#: Our own corner of an output folder: the lock, the records of finished tasks, what is being written.
HIDDEN = ".prep"

#: Seconds that whoever comes waits for a lock: `is_held` has it for a moment, and is not one to give way to.
LOOKED = 0.5

#: Seconds without a sign of life after which the owner of a folder in a store counts as dead.
SILENT = 60


@contextlib.contextmanager
def lock(folder: str | Path, kind: str = "") -> Iterator[None]:
    """Hold a folder while the block runs.

    A dead owner's lock is taken over, with one line that names it: the system lets go of it, and in a store of objects
    it counts as dead after a minute without a sign of life.

    Parameters
    ----------
    folder : path or fsspec address
    kind : str
        What writes there, if it removes what it wrote before: a folder belongs to the first that comes. Empty: nothing
        is removed.

    Raises
    ------
    RunLocked
        If a living process holds it; the message names host, process and last sign of life.
    BadInput
        If another kind of work writes there: its files would be taken for old ones of this.
    """
    folder = place(folder)
    with _held(folder) if isinstance(folder, Path) else _held_in_store(folder):
        if kind:
            _claim(folder, kind)
        try:
            _sweep(folder)
            yield
        finally:
            _sweep(folder)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    import filelock

    hidden = folder / HIDDEN
    held, owner = filelock.FileLock(hidden / "lock", thread_local=False), hidden / "owner.json"
    try:
        with space_for(hidden / "lock"):
            hidden.mkdir(parents=True, exist_ok=True)
            held.acquire(timeout=LOOKED, poll_interval=0.02)
    except filelock.Timeout:
        raise RunLocked(f"locks: {folder} is in use by {_owner(owner)}; wait for it, or use another folder") from None
    stop = threading.Event()
    try:
        if owner.exists():
            emit("note", text=f"took over the lock of {_owner(owner)}, which is gone")
        with space_for(owner):
            owner.write_text(json.dumps(_myself()), "utf-8")
        threading.Thread(target=_heartbeat, args=(lambda: os.utime(owner), stop), daemon=True).start()
        yield
    finally:
        stop.set()
        owner.unlink(missing_ok=True)
        held.release()


def is_held(lock: Path) -> bool:
    """Say whether a process holds the lock of a folder of this machine, as `lock` does.

    Any number may look at once and see the same: they share it for that moment. `lock` waits longer than that.

    Raises
    ------
    PermissionError
        If the lock is not for us to see.
    """
    try:
        import fcntl

        with open(lock, "rb") as file:
            return _is_locked(file, fcntl)
    except FileNotFoundError:
        return False
    except ImportError:
        return _is_taken(lock)


def _is_locked(file: IO[bytes], fcntl: Any) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # some file systems say it in the second way
        return True
    except OSError:  # such locks are not to be had there: `lock` takes another kind
        return _is_taken(Path(file.name))
    # Closing would not do where a process was forked meanwhile.
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def _is_taken(lock: Path) -> bool:
    import filelock

    try:
        with filelock.FileLock(lock).acquire(timeout=0):
            return False
    except filelock.Timeout:
        return True


@contextlib.contextmanager
def _held_in_store(folder: Path) -> Iterator[None]:
    """Hold a folder of a store, which has no locks.

    Whoever comes lays down an object that tells who it is, and then looks who else has. One that has shown a sign of
    life within `SILENT` seconds, by the store's own clock, is respected; of two who come at the same moment, at least
    one sees the other and gives way. What remains is an owner that was silent for a minute and then goes on (its
    machine slept, its network was gone): it may write what the next one has begun to write anew.
    """
    owners = folder / HIDDEN / "owners"
    mine, stop = owners / f"{os.urandom(16).hex()}.json", threading.Event()
    mine.write_text(json.dumps(_myself()), "utf-8")
    try:
        for other, who, silent in _others(owners, mine):
            told = f"process {who.get('process')} on {who.get('host')} (last sign of life {silent:.0f} s ago)"
            if not _is_gone(who, silent):
                raise RunLocked(f"locks: {folder} is in use by {told}; wait for it, or use another folder")
            emit("note", text=f"took over the lock of {told}, which is gone")
            other.unlink(missing_ok=True)
        threading.Thread(target=_heartbeat, args=(lambda: _show_life(mine), stop), daemon=True).start()
        yield
    finally:
        stop.set()
        with contextlib.suppress(StoreFailed):
            mine.unlink(missing_ok=True)


def _others(owners: Path, mine: Path) -> Iterator[tuple[Path, dict[str, Any], float]]:
    """Yield who else has laid down an object, what it tells, and the seconds since it was written."""
    there = remote.written(owners)
    for name in sorted(there.keys() - {mine.name}):
        with contextlib.suppress(FileNotFoundError, ValueError):
            who = json.loads((owners / name).read_bytes())
            yield owners / name, who, max(0.0, there[mine.name] - there[name])


def _is_gone(who: Mapping[str, Any], silent: float) -> bool:
    if silent > SILENT:
        return True
    # On the same machine nobody need wait for the minute to pass.
    return bool(_machine()) and who.get("machine") == _machine() and not remote.lives(int(who["process"]))


def _show_life(mine: Path) -> None:
    # Whoever was taken over stays so.
    if mine.exists():
        mine.write_text(json.dumps(_myself()), "utf-8")


def _myself() -> dict[str, Any]:
    mine = os.getpid()
    return {"host": socket.gethostname(), "process": mine, "machine": _machine(), "born": born(mine)}


def is_still(who: Mapping[str, Any]) -> bool:
    """Say whether the process that ``owner.json`` tells of lives and is that one: numbers are given again."""
    told = (who.get("machine"), who.get("born"))
    return bool(told[1]) and told == (_machine(), born(int(who["process"])))


def born(process: int) -> str:
    """Return what tells a process of this machine from others that have its number: when it began; empty: it is gone.

    Examples
    --------
    >>> born(os.getpid()) == born(os.getpid()) != ""
    True
    """
    if Path("/proc/self/stat").exists():
        with contextlib.suppress(OSError):
            # The name of a process, in brackets, may hold anything.
            return Path(f"/proc/{process}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
        return ""
    with contextlib.suppress(OSError):  # where there is no /proc
        asked = ["ps", "-o", "lstart=", "-p", str(process)]
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return ""


def _machine() -> str:
    """Return what tells this machine, and who sees its processes, from others; empty if it does not say."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def kind_of(folder: str | Path) -> str:
    """Return the kind of work a folder belongs to, as `lock` was told; empty if to none."""
    with contextlib.suppress(OSError):
        return (place(folder) / HIDDEN / "kind").read_text("utf-8")
    return ""


def _claim(folder: Path, kind: str) -> None:
    if (other := kind_of(folder)) not in ("", kind):
        raise BadInput(f"locks: {folder} holds what {other} wrote; use another output folder")
    with write_whole(folder / HIDDEN / "kind", "w") as file:
        file.write(kind)


def _sweep(folder: Path) -> None:
    """Remove what a killed process left half written; only whoever holds the lock may."""
    hidden = folder / HIDDEN
    remote.remove_folder(hidden / "tmp")
    remote.forget_copies(folder)
    for where in (folder, hidden, hidden / "tasks") if isinstance(folder, Path) else ():
        for path in where.glob(".*.tmp"):
            with contextlib.suppress(OSError):
                if is_temporary(path.name):
                    path.unlink()


def _heartbeat(show_life: Callable[[], None], stop: threading.Event) -> None:
    while not stop.wait(5):
        with contextlib.suppress(OSError, StoreFailed):
            show_life()


def _owner(path: Path) -> str:
    try:
        who = json.loads(path.read_text("utf-8"))
        age = time.time() - path.stat().st_mtime
        return f"process {who['process']} on {who['host']} (last sign of life {age:.0f} s ago)"
    except (OSError, ValueError, KeyError):
        return "a process that has not said its name yet"
