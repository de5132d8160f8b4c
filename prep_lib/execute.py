"""A notebook executed in a kernel of its own: followed while it runs, and one line that says what stopped it.

12_dedup.ipynb + values  ──papermill──▶  executed/12_dedup.ipynb, saved cell by cell
              kernel, workers  ──▶  events, memory; none of them is left when it ends, however it ends
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from prep_lib.errors import NoSpace, NotebookFailed
from prep_lib.files import space_for, write_whole
from prep_lib.locks import HIDDEN
from prep_lib.machine import memory_limit
from prep_lib.report import first_line
from prep_lib.workspace import HEADLESS, Run, read_events, retell, transport, write_kernel

#: An event tells the memory of a notebook when it has grown by so much: a few hundred at most, whatever it grows to.
GROWN = 1.05

#: What the engine in a kernel gets to end its work once the run is interrupted, seconds; then all of it is killed.
GRACE = 1.0

#: The type of a live widget in an executed notebook.
WIDGET = "application/vnd.jupyter.widget-view+json"


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C and a request to end be a KeyboardInterrupt, also where whoever started this has them ignored."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with _handled(stop):
        yield


@contextlib.contextmanager
def _handled(handler: Callable[..., None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def execute(notebook: Path, values: Mapping[str, Any], target: Path, run: Run) -> dict[str, float]:
    """Execute a notebook with these parameters in a kernel of its own.

    Parameters
    ----------
    notebook : Path
    values : mapping
        Typed; written into a cell behind the one tagged ``parameters``.
    target : Path
        The executed notebook, saved cell by cell.
    run : Run
        The kernel works in its workspace; events it notes are told by the engine's listener while it runs.

    Returns
    -------
    dict
        ``start``: seconds until the first cell behind the parameters began, which more data would not change.
        ``memory``: the most bytes that kernel and workers held together, looked at once a second; 0 if unknown.

    Raises
    ------
    NotebookFailed
        With notebook, stage, cell and cause in one line; `target` is kept and marked.
    NoSpace
        If not even `target` could be written.
    KeyboardInterrupt
        The kernel and its workers are gone by then.
    """
    _quiet_papermill()
    import papermill
    from papermill.exceptions import PapermillExecutionError

    node, injected = _inject(notebook, values)
    with (
        space_for(target),
        _kernels(run.data) as (manager, started),
        tempfile.TemporaryDirectory() as scratch,
        _Watch(run, injected, started) as watch,
    ):
        try:
            papermill.execute_notebook(
                # papermill fills in {braces} of a path that is text.
                node, str(target).replace("{", "{{").replace("}", "}}"), cwd=str(run.root),
                kernel_name="python3", language="python", progress_bar=False, kernel_manager_class=manager,
                config=_kernel_config(Path(scratch)), on_cell_start=watch.on_cell,
            )  # fmt: skip
        except PapermillExecutionError as error:
            raise _failed(target, run, watch, f"{error.ename}: {first_line(error.evalue)}") from None
        except RuntimeError as error:  # the kernel died, or never came up
            raise _failed(target, run, watch, _why_dead(error, started)) from None
    _finish(target, run, "")
    return {"start": round(watch.start, 3), "memory": watch.memory}


def _quiet_papermill() -> None:
    """Keep it from telling on stderr what is raised anyway, and from a second of loading."""
    logging.getLogger("papermill").addHandler(logging.NullHandler())
    # With this module jsonschema builds a grammar of web addresses when it is imported, and nothing here checks any.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


def _inject(notebook: Path, values: Mapping[str, Any]) -> tuple[Any, int]:
    """Put the values behind the parameters cell, as Python writes them: papermill would escape what is not ASCII."""
    import nbformat

    node = nbformat.v4.upgrade(nbformat.read(notebook, as_version=4))
    at = 1 + next(n for n, cell in enumerate(node.cells) if "parameters" in cell.metadata.get("tags", []))
    source = "\n".join(f"{name} = {value!r}" for name, value in values.items())
    cell = nbformat.v4.new_code_cell(source, id="values-of-the-run", metadata={"tags": ["injected-parameters"]})
    node.cells.insert(at, cell)
    return node, at


def _kernel_config(scratch: Path) -> Any:
    from traitlets.config import Config

    config = Config()
    config.KernelManager.transport = transport(scratch)
    config.KernelManager.connection_file = str(scratch / "kernel.json")
    return config


@contextlib.contextmanager
def _kernels(folder: Path) -> Iterator[Any]:
    """Give a kernel manager class that knows one kernel, this interpreter, and leave no process behind the block.

    `folder` is where the kernel's notebook writes.
    """
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    started: list[Any] = []
    with tempfile.TemporaryDirectory() as spec, open(Path(spec, "log"), "wb") as log:
        kernels = [str(write_kernel(spec) / "kernels")]

        class ThisInterpreter(AsyncKernelManager):
            leader: int | None = None
            process: Any = None
            interrupted = False
            said = Path(spec, "log")

            def __init__(self, **given: Any) -> None:
                super().__init__(kernel_spec_manager=KernelSpecManager(kernel_dirs=kernels), **given)
                started.append(self)

            async def start_kernel(self, **given: Any) -> None:  # type: ignore[override]
                given["env"] = {**os.environ, HEADLESS: "1"}
                # What cells print is in the notebook; this is what is said before it can be, and past it.
                await super().start_kernel(**given, stdout=log, stderr=log)
                self.leader = getattr(self.provisioner, "pid", None)
                self.process = getattr(self.provisioner, "process", None)

            async def shutdown_kernel(self, now: bool = False, restart: bool = False) -> None:  # type: ignore[override]
                if self.interrupted:
                    await _let_go(self, folder)
                # With helpers of loky's beside it, which end only after it, a kernel waits for them until it is killed:
                # 2.5 s a notebook. Its cells have run, so it can be killed at once.
                await super().shutdown_kernel(now or len(_group(self.leader)) > 1, restart)

        with _impatient(started):
            try:
                yield ThisInterpreter, started
            finally:
                for manager in started:
                    _end_group(manager.leader)


@contextlib.contextmanager
def _impatient(started: list[Any]) -> Iterator[None]:
    """Tell the kernels of an interrupt, or of a request to end, before it is raised."""

    def stop(*_: object) -> None:
        for manager in started:
            manager.interrupted = True
        raise KeyboardInterrupt

    with _handled(stop):
        yield


async def _let_go(manager: Any, folder: Path) -> None:
    """Interrupt the running cell, and wait while the engine ends its workers and gives back the folders it holds."""
    with contextlib.suppress(RuntimeError):  # it is gone already
        await manager.interrupt_kernel()
    until = time.monotonic() + GRACE
    while any(folder.rglob(f"{HIDDEN}/owner.json")) and time.monotonic() < until:
        await asyncio.sleep(0.05)


def _end_group(leader: int | None) -> None:
    # A kernel leads a process group of its own, so its workers are in it and nobody else.
    if leader is not None and hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def _group(leader: int | None) -> dict[int, int]:
    """Return the processes of a group, each with the bytes it holds; none where /proc does not tell."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat") if leader else ():
        # A process may end between the listing and the reading.
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) == leader:
                found[int(stat.parent.name)] = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return found


class _Watch:
    """Follows a running notebook: which cell it is in, and what its kernel notes in run.jsonl."""

    def __init__(self, run: Run, injected: int, started: list[Any]) -> None:
        self.run, self.injected, self.started = run, injected, started
        self.cell, self.start, self.stage, self.memory = 0, 0.0, "", 0
        self._seen = read_events(run.folder)[1]
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def on_cell(self, cell: Any, cell_index: int) -> None:
        """Note the cell that begins, counted as its author does: without the one that was put in."""
        if cell_index > self.injected and not self.start:
            self.start = time.monotonic() - self._began
        self.cell = cell_index + (cell_index < self.injected)

    def _follow(self) -> None:
        looked = told = 0.0
        while not self._stop.wait(0.3):
            self._read()
            if time.monotonic() - looked > 1:
                looked = time.monotonic()
                self.memory = max(self.memory, *(sum(_group(m.leader).values()) for m in self.started), 0)
                if self.memory > GROWN * told:
                    told = self.memory
                    self.run.note({"event": "memory", "bytes": self.memory})
        self._read()

    def _read(self) -> None:
        events, self._seen = read_events(self.run.folder, self._seen)
        for event in events:
            if event.get("event") in ("begin", "task", "end", "note"):
                self.stage = {"end": "", "note": self.stage}.get(event["event"], event.get("stage", ""))
                retell(event)


def _failed(target: Path, run: Run, watch: _Watch, cause: str) -> NotebookFailed:
    """Mark the executed notebook and make the one line."""
    stage = f" ({watch.stage})" if watch.stage else ""
    line = f"{run.notebook}{stage}: cell {watch.cell}: {cause}"
    with contextlib.suppress(NoSpace):  # most often this is what failed
        if target.is_file():
            _finish(target, run, line)
    return NotebookFailed(line)


def _why_dead(error: Exception, started: Sequence[Any]) -> str:
    if "died" not in str(error).lower() or not started:
        return f"{type(error).__name__}: {first_line(str(error))}"
    lines = started[-1].said.read_text("utf-8", "replace").splitlines()
    if found := [line for line in lines if re.match(r"\w+Error: ", line)]:
        return f"the kernel died: {found[-1]}"
    code = started[-1].process.poll() if started[-1].process else None
    if code not in (None, -signal.SIGKILL):
        return f"the kernel died of {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
    limit = memory_limit() / 2**30
    return (
        f"the kernel died, most often for want of memory ({limit:.1f} GiB here); "
        "run the same command again with --workers 1 or a smaller memory_budget: finished tasks are kept"
    )


def _finish(target: Path, run: Run, failure: str) -> None:
    """Take out what papermill put in, and note what a report needs to know."""
    import nbformat

    node = nbformat.read(target, as_version=4)
    node.cells = [cell for cell in node.cells if "papermill-error-cell-tag" not in cell.metadata.get("tags", [])]
    for noise in (node, *node.cells):
        for name in ("papermill", "execution"):  # clock times, and the whole notebook once more
            noise.metadata.pop(name, None)
    node.metadata.pop("widgets", None)
    for output in (output for cell in node.cells for output in cell.get("outputs", [])):
        output.get("data", {}).pop(WIDGET, None)  # nobody answers its controls any more: its twin stays
    node.metadata["prep"] = {**node.metadata.get("prep", {}), "run": run.name, "failed": failure}
    with write_whole(target, "w") as file:
        file.write(nbformat.writes(node) + "\n")
