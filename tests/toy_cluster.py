"""A cluster on loopback: a scheduler of dask and workers, each a process of its own, ended workers first."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

#: A worker is restarted by its nanny; a task that takes two down is given back.
ENVIRONMENT = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}


def kill(*processes: subprocess.Popen) -> None:
    """Kill processes and those they started."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Cluster:
    """A scheduler and its workers.

    Parameters
    ----------
    folder : Path
        Gets the scheduler's address and everybody's log. Workers start elsewhere, so that nothing is found by luck.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.workers = folder, list[subprocess.Popen]()
        self.file = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--port", "0")

    def _start(self, what: str, *options: str) -> subprocess.Popen:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--scheduler-file", str(self.file)]
        command += ["--host", "127.0.0.1", "--no-dashboard", *options]
        with open(self.folder / f"{what}-{time.monotonic_ns()}.log", "wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=ENVIRONMENT, cwd="/", start_new_session=True)

    def add(self, *options: str) -> subprocess.Popen:
        """Start a worker of one thread."""
        self.workers.append(self._start("worker", "--nworkers", "1", "--nthreads", "1", *options))
        return self.workers[-1]

    @property
    def engine(self) -> str:
        """The cluster's name, once the scheduler listens."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with contextlib.suppress(OSError, ValueError):
                return f"dask:{json.loads(self.file.read_text())['address']}"
            time.sleep(0.02)
        raise TimeoutError(f"no scheduler; see the logs in {self.folder}")

    def close(self) -> None:
        """End the workers, then the scheduler, which they would look for; kill what does not heed it."""
        for processes in (self.workers, [self.scheduler]):
            for process in processes:
                process.terminate()
            for process in processes:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(3)
            kill(*processes)


@contextlib.contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Run a cluster while the block runs."""
    made = Cluster(folder)
    try:
        for _ in range(workers):
            made.add()
        yield made
    finally:
        made.close()
