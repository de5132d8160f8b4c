"""What kill tests need: processes found by a mark in their environment, random moments, folders compared byte by byte.

spawn(code) ──▶ a process and all it starts carry the mark ──▶ family(mark), workers(mark), wait_gone(mark)
moments(20, seed, 0.1, 1.5)    the same 20 random moments every time, seconds
tree(folder)                   every file by name and content, but for what is being written
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import psutil

#: Inherited by every process a marked one starts.
MARK = "PREP_TEST_MARK"


def spawn(code: str, *args: str | Path, mark: str | None = None, **options: object) -> tuple[subprocess.Popen, str]:
    """Start a Python script, given as text, as a process of its own group; return it and its mark."""
    return start([sys.executable, "-c", code, *map(str, args)], mark=mark, **options)


def start(command: list[str], mark: str | None = None, **options: object) -> tuple[subprocess.Popen, str]:
    """Start any command as a process of its own group; return it and its mark."""
    mark = mark or uuid.uuid4().hex
    given = {"env": {**os.environ, MARK: mark}, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, start_new_session=True, **{**given, **options}), mark


def done_at_last(code: str, *args: str | Path, at: Sequence[float]) -> None:
    """Run a script that says when it begins, kill it so many seconds later, each time anew; then let it end."""
    for moment in at:
        process, mark = spawn(code, *args)
        with process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(moment)
            process.send_signal(signal.SIGKILL)
        assert wait_gone(mark) == []
    process, _ = spawn(code, *args)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors


def family(mark: str) -> list[psutil.Process]:
    """Return the living processes that carry the mark."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def workers(mark: str) -> list[psutil.Process]:
    """Return the engine's worker processes among them."""
    return [process for process in family(mark) if is_worker(process)]


def is_worker(process: psutil.Process) -> bool:
    """Say whether a process is a worker of loky's."""
    with contextlib.suppress(psutil.Error):
        return "loky.backend.popen_loky_posix" in process.cmdline()
    return False


def own_workers() -> list[psutil.Process]:
    """Return the worker processes of this process."""
    return [process for process in psutil.Process().children() if is_worker(process)]


def wait_gone(mark: str, within: float = 5.0) -> list[str]:
    """Wait until no process carries the mark; return the command lines of those left, none if all is well."""
    until = time.monotonic() + within
    while (left := family(mark)) and time.monotonic() < until:
        time.sleep(0.1)
    return [str(process) for process in left]


def moments(count: int, seed: int, low: float, high: float) -> list[float]:
    """Return seconds at random between two bounds, the same for the same seed."""
    return np.random.default_rng(seed).uniform(low, high, count).round(3).tolist()


def tree(folder: str | Path) -> dict[str, bytes]:
    """Return every file of a folder by its relative name, without ``.prep/tmp``."""
    root = Path(folder)
    files = (path for path in root.rglob("*") if path.is_file())
    return {
        name: path.read_bytes()
        for path in sorted(files)
        if not (name := path.relative_to(root).as_posix()).startswith(".prep/tmp/")
    }


@contextlib.contextmanager
def small_disk(folder: Path, size: str = "1m") -> Iterator[Path]:
    """Mount a small tmpfs while the block runs; skip the test where that is not allowed."""
    import pytest

    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
