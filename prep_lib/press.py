"""notebook + parameters -> executed notebook -> one-file HTML.

    22_tensorize.ipynb + pack_size=4096
        │  execute   a kernel of this interpreter, at work in the workspace
        ▼
    executed/22_tensorize.ipynb ──report──▶ reports/22_tensorize.html ──index──▶ reports/index.html
    executed/22_tensorize.json   key, inputs, outputs; written last: a finished notebook is not executed again

A report is complete without network and without script, and holds no path of this machine, no host, no traceback.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import importlib.metadata
import json
import logging
import os
import platform
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import prep_lib
from prep_lib import engine, markup
from prep_lib.errors import BadInput, NoSpace, NotebookFailed, PrepError
from prep_lib.files import digest, is_temporary, natural, space_for, write_whole
from prep_lib.keys import Key, changed, make_key
from prep_lib.ledger import Ledger
from prep_lib.markup import Html, Part, card, document, escape, fold, join, note, percent, table, tag
from prep_lib.recipes import Parameter, Recipe, Step, inputs, read_cell
from prep_lib.words import LANGS, say
from prep_lib.workspace import CHECKOUT, HEADLESS, Run, read_events, write_kernel

#: Parameters that say where and how fast, and change no byte of what is written.
NEUTRAL = ("run", "workers", "memory_budget", "keep_old", "rehash")

#: Modules that only stand around a notebook.
AROUND = ("prep_lib.press", "prep_lib.cli")

#: Libraries whose output is written as it is.
PACKAGES = ("numpy", "tokenizers", "h5py", "zstandard")

#: What the engine in a kernel gets to end its work once the run is interrupted, seconds; then all of it is killed.
GRACE = 1.0

#: Output types a page can show, the best first. The widget's own type is left out: its text/html twin is the page.
SHOWN = ("text/html", "image/svg+xml", "image/png", "image/jpeg", "text/markdown", "text/plain")
WIDGET = "application/vnd.jupyter.widget-view+json"

#: How a note begins that says which tokenizer served.
SERVED = "tokenizer: "

# ── a run of a whole recipe ──────────────────────────────────────────────────────────────────────────────────────────


def run_recipe(
    recipe: Recipe, run: Run, *, rehash: bool = False, keep_old: bool = False, tell: Callable[[str], None] = print
) -> list[str]:
    """Execute the notebooks of a recipe in order, those that are not done yet, and press their reports.

    Parameters
    ----------
    recipe : Recipe
    run : Run
        Hold its lock.
    rehash : bool
        True: read raw inputs again even if size and time of change are as remembered.
    keep_old : bool
        True: what a finished notebook wrote is used even if the code has changed since.
    tell : callable
        Gets one line at a time.

    Returns
    -------
    list of str
        The notebooks that were executed now.

    Raises
    ------
    NotebookFailed
        At the first that stops; its executed notebook and a report marked as failed are there.
    """
    for folder in (run.folder / "executed", run.folder / "reports"):
        folder.mkdir(parents=True, exist_ok=True)
        for left in filter(lambda path: is_temporary(path.name), folder.iterdir()):
            left.unlink()
    with write_whole(run.folder / "recipe.yaml", "w") as file:
        file.write(recipe.to_yaml())
    earlier: dict[str, Key] = {}
    executed = []
    try:
        for step in recipe.steps:
            shelf = _Shelf(Run(run.root, run.name, step.notebook), step, rehash)
            key = shelf.key(earlier)
            if shelf.is_done(key, keep_old, tell):
                _mark(shelf.run, "kept")
                tell(f"{step.notebook}: already done")
            else:
                _perform(shelf, key, tell)
                executed.append(step.notebook)
            # With keep_old the notebooks after it must see what they saw then.
            earlier[step.notebook] = (record(shelf.run) or {"key": key})["key"]
    except BaseException:
        with contextlib.suppress(PrepError, OSError):  # a page about what happened must not hide it
            index(run, recipe)
        raise
    index(run, recipe)
    return executed


def _perform(shelf: _Shelf, key: Key, tell: Callable[[str], None]) -> None:
    """Execute one notebook, press it, and record it as done."""
    step, run = shelf.step, shelf.run
    shelf.forget()
    run.data.mkdir(parents=True, exist_ok=True)
    executed = run.folder / "executed" / f"{step.notebook}.ipynb"
    began = time.monotonic()
    _mark(run, "began")
    tell(f"{step.notebook}: running")
    try:
        timing = execute(step.path, {**step.values, **_where(step, run)}, executed, run)
    except PrepError as error:
        _mark(run, "failed", text=str(error))
        with contextlib.suppress(PrepError, OSError):
            report(executed, run)
        raise
    except KeyboardInterrupt:
        _mark(run, "interrupted")
        raise
    report(executed, run)
    seconds = round(time.monotonic() - began, 3)
    shelf.commit(key, seconds, timing)
    _mark(run, "done", seconds=seconds)
    tell(f"{step.notebook}: done, {seconds:.1f} s")


def _where(step: Step, run: Run) -> dict[str, str]:
    return {"run": run.name} if "run" in step.known else {}


def record(run: Run) -> dict[str, Any] | None:
    """Return what is known of a finished notebook: key, seconds, inputs and outputs with size and sha256."""
    try:
        stored: dict[str, Any] = json.loads((run.folder / "executed" / f"{run.notebook}.json").read_bytes())
    except (OSError, ValueError):
        return None
    return stored


def _mark(run: Run, state: str, **more: Any) -> None:
    run.note({"event": "notebook", "state": state, **more})


@dataclass
class _Shelf:
    """Where one notebook's record lies, and whether it still holds."""

    run: Run
    step: Step
    rehash: bool = False

    @property
    def path(self) -> Path:
        return self.run.folder / "executed" / f"{self.step.notebook}.json"

    def key(self, earlier: Mapping[str, Key]) -> Key:
        """Return what everything this notebook writes depends on."""
        values = {name: value for name, value in self.step.values.items() if name not in NEUTRAL}
        found = [[_short_path(path, self.run.root), sha] for path, sha in self.inputs()]
        whole = make_key(inputs=found, parameters=values, modules=_our_modules(), packages=PACKAGES)
        # The front door leads everywhere, and so back to what only stands around a notebook.
        whole["code"] = {name: code for name, code in whole["code"].items() if name not in AROUND}
        return whole | {
            "notebook": _digest_cells(self.step.path),
            "earlier": {n: _digest_json(k) for n, k in earlier.items()},
        }

    def inputs(self) -> list[tuple[Path, str]]:
        memory = _Digests(self.run.root, self.rehash)
        found = [(path, memory.of(path)) for path in inputs(self.step, self.run)]
        memory.save()
        self.rehash = False
        return found

    def is_done(self, key: Key, keep_old: bool, tell: Callable[[str], None]) -> bool:
        """Say whether the record holds, and tell what would be redone if it does not."""
        stored = record(self.run)
        if stored is None:
            return False
        differs = changed(stored["key"], key)
        if keep_old:
            differs = [part for part in differs if not part.startswith("code of")]
        whole = all(_size(self.run.folder / said["file"]) == said["bytes"] for said in stored["outputs"])
        if not whole:
            differs.append("outputs that are missing or cut")
        if differs:
            tell(f"{self.step.notebook}: runs again: {_brief(differs)} changed" + _offer(differs))
        return not differs

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)

    def commit(self, key: Key, seconds: float, timing: dict[str, float]) -> None:
        """Record the notebook as done; this is the last file written."""
        stored = {
            "key": key, "seconds": seconds, **timing,
            "inputs": [_described(path, self.run.root, sha) for path, sha in self.inputs()],
            "outputs": [_described(path, self.run.folder, sha) for path, sha in _outputs(self.run.data)],
        }  # fmt: skip
        with write_whole(self.path, "w") as file:
            json.dump(stored, file, ensure_ascii=False, indent=1)


def _brief(differs: Sequence[str]) -> str:
    # The code part names every changed module; three are enough to know what it is about.
    return "; ".join(re.sub(r"((?:[^,]+, ){2}[^,]+), .*", r"\1, …", part) for part in differs)


def _offer(differs: Sequence[str]) -> str:
    return " (--keep-old uses what is there)" if all(part.startswith("code of") for part in differs) else ""


def _our_modules() -> list[str]:
    """Return every module a notebook may have used: all of ours, without those around it."""
    roots = {"prep_lib": Path(prep_lib.__file__).parent, "widgets": CHECKOUT / "widgets"}
    names = [
        ".".join((name, *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
        for name, root in roots.items()
        for path in sorted(root.rglob("*.py"))
    ]
    return [name for name in names if name not in AROUND]


def _digest_cells(path: Path) -> str:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return _digest_json([[cell["cell_type"], "".join(cell["source"])] for cell in cells])


def _digest_json(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


def _short_path(path: Path, root: Path) -> str:
    # A file from elsewhere goes by its name: where it lies on this machine is nobody's business.
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


class _Digests:
    """Digests of raw inputs, remembered by path, size and time of change."""

    def __init__(self, root: Path, rehash: bool) -> None:
        self.path, self.known = root / "runs" / ".digests.json", dict[str, Any]()
        with contextlib.suppress(OSError, ValueError):
            self.known = json.loads(self.path.read_bytes())
        self.rehash = rehash

    def of(self, path: Path) -> str:
        seen = path.stat()
        stamp = [seen.st_size, seen.st_mtime_ns]
        stored = self.known.get(str(path))
        if stored is None or self.rehash or stored[:2] != stamp:
            stored = self.known[str(path)] = [*stamp, digest(path)]
        return str(stored[2])

    def save(self) -> None:
        with write_whole(self.path, "w") as file:
            json.dump(self.known, file, indent=1)


def _described(path: Path, root: Path, sha256: str) -> dict[str, Any]:
    return {"file": _short_path(path, root), "bytes": _size(path), "sha256": sha256}


def _outputs(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield what a notebook wrote, each with its sha256; a manifest's word for its shards is taken."""
    told: dict[Path, str] = {}
    for manifest in folder.rglob("manifest.json"):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            shards = json.loads(manifest.read_bytes())["shards"]
            told |= {manifest.parent / shard["file"]: shard["sha256"] for shard in shards}
    for path in sorted(folder.rglob("*"), key=lambda path: natural(str(path))):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden:
            yield path, told.get(path) or digest(path)


# ── execute ──────────────────────────────────────────────────────────────────────────────────────────────────────────


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
            raise _failed(target, run, watch, f"{error.ename}: {_first_line(error.evalue)}") from None
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
    # A socket file in a folder only this user can enter, instead of open ports on this machine.
    if os.name == "posix":
        config.KernelManager.transport = "ipc"
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

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _let_go(manager: Any, folder: Path) -> None:
    """Interrupt the running cell, and wait while the engine ends its workers and gives back the folders it holds."""
    with contextlib.suppress(RuntimeError):  # it is gone already
        await manager.interrupt_kernel()
    until = time.monotonic() + GRACE
    while any(folder.rglob(f"{engine.HIDDEN}/owner.json")) and time.monotonic() < until:
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
        looked = 0.0
        while not self._stop.wait(0.3):
            self._read()
            if time.monotonic() - looked > 1:
                looked = time.monotonic()
                self.memory = max(self.memory, *(sum(_group(m.leader).values()) for m in self.started), 0)
        self._read()

    def _read(self) -> None:
        events, self._seen = read_events(self.run.folder, self._seen)
        for event in events:
            if event.get("event") in ("begin", "task", "end", "note"):
                fields = {name: value for name, value in event.items() if name not in ("time", "notebook", "event")}
                self.stage = {"end": "", "note": self.stage}.get(event["event"], fields.get("stage", ""))
                # The engine prints it here, in its own rhythm, as if the work were done in this process.
                engine.emit(event["event"], **fields)


def _failed(target: Path, run: Run, watch: _Watch, cause: str) -> NotebookFailed:
    """Mark the executed notebook and make the one line."""
    stage = f" ({watch.stage})" if watch.stage else ""
    line = f"{run.notebook}{stage}: cell {watch.cell}: {cause}"
    with contextlib.suppress(NoSpace):  # most often this is what failed
        if target.is_file():
            _finish(target, run, line)
    return NotebookFailed(line)


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0] if lines else "no message"


def _why_dead(error: Exception, started: Sequence[Any]) -> str:
    if "died" not in str(error).lower() or not started:
        return f"{type(error).__name__}: {_first_line(str(error))}"
    lines = started[-1].said.read_text("utf-8", "replace").splitlines()
    if found := [line for line in lines if re.match(r"\w+Error: ", line)]:
        return f"the kernel died: {found[-1]}"
    code = started[-1].process.poll() if started[-1].process else None
    if code not in (None, -signal.SIGKILL):
        return f"the kernel died of {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
    limit = engine.memory_limit() / 2**30
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


#: Tables of pandas, which bring none of our classes: words to the left, and a wide one scrolls by itself.
TABLES = Html(
    "<style>.prep table.dataframe{border-collapse:collapse;border:0;font-size:13px;overflow-wrap:break-word}"
    ".prep table.dataframe :is(td,th){border:0;border-bottom:1px solid var(--line);padding:4px 8px;text-align:left;"
    "vertical-align:top;max-width:48ch;min-width:4ch}.prep table.dataframe thead th{color:var(--dim)}"
    ".prep img{max-width:100%}</style>"
)

# ── one notebook's report ────────────────────────────────────────────────────────────────────────────────────────────


def report(executed: Path, run: Run) -> Path:
    """Make one HTML file of an executed notebook, whole or stopped half way.

    Notes
    -----
    Its words are those of the notebook's parameter ``lang``, English without one.

    Returns
    -------
    Path
        ``reports/NAME.html``; the same executed notebook gives the same bytes.

    Raises
    ------
    BadInput
        If the executed notebook was torn by a kill or a full disk.
    """
    try:
        notebook = json.loads(executed.read_bytes())
    except ValueError:
        raise BadInput(f"press: {executed.name} was not written to its end; run it again") from None
    mask = _Mask(run.root)
    cells = [_joined(cell) for cell in notebook["cells"]]
    failure = notebook["metadata"].get("prep", {}).get("failed", "")
    title = _title(cells) or executed.stem
    known, used = _values(cells)
    lang = _lang(used)
    head = [
        TABLES,
        tag("p", tag("a", say("report.run", lang, name=run.name), href="index.html"), cls="sub"),
        note("bad", tag("b", "FAILED"), " ", mask(failure)) if failure else Html(),
        _parameter_table(known, used, mask, lang),
        _served(run, mask, executed.stem),
    ]
    body = [drawn for cell in cells if (drawn := _cell(cell, mask, executed.parent, failure, lang))]
    target = run.folder / "reports" / f"{executed.stem}.html"
    with write_whole(target, "w") as file:
        file.write(document(f"{title} · {run.name}", join((*head, *body, _versions(lang))), lang))
    return target


def _joined(cell: dict[str, Any]) -> dict[str, Any]:
    return {**cell, "source": "".join(cell["source"])}


def _title(cells: Sequence[Mapping[str, Any]]) -> str:
    text = "\n".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
    found = re.search(r"^# +(.+?)\s*$", text, re.MULTILINE)
    return re.sub(r"[*_`]", "", found[1]) if found else ""


def _tagged(cells: Sequence[Mapping[str, Any]], name: str) -> str:
    return "\n".join(cell["source"] for cell in cells if name in cell["metadata"].get("tags", []))


def _values(cells: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Parameter], dict[str, Any]]:
    """Return what the notebook can be asked for, and every value as it was used."""
    known = {each.name: each for each in read_cell("report", _tagged(cells, "parameters"))}
    asked = {each.name: each.default for each in read_cell("report", _tagged(cells, "injected-parameters"))}
    return known, {name: asked.get(name, own.default) for name, own in known.items()}


def _lang(values: Mapping[str, Any]) -> str:
    return str(values.get("lang")) if values.get("lang") in LANGS else LANGS[0]


def _parameter_table(known: Mapping[str, Parameter], used: Mapping[str, Any], mask: _Mask, lang: str) -> Html:
    """Show the values as used, with a mark where they are not the notebook's own."""
    rows = [
        [name, mask(repr(used[name])), "✎" if used[name] != own.default else "", own.help]
        for name, own in known.items()
    ]
    heads = [say(f"report.{key}", lang) for key in ("parameter", "value", "changed", "meaning")]
    return fold(say("report.parameters", lang, n=len(rows)), table(heads, rows, words=4)) if rows else Html()


def _cell(cell: Mapping[str, Any], mask: _Mask, folder: Path, failure: str, lang: str) -> Html | None:
    tags = cell["metadata"].get("tags", [])
    if cell["cell_type"] == "markdown":
        return card("", _markdown(mask(cell["source"]), cell.get("attachments", {}), folder), cls="text")
    if (
        cell["cell_type"] != "code"
        or "parameters" in tags
        or "injected-parameters" in tags
        or not cell["source"].strip()
    ):
        return None
    code = fold(say("report.code", lang), tag("pre", _lines(mask(cell["source"]))))
    if not cell["outputs"]:
        return code
    return card("", code, *(_output(each, mask, failure) for each in cell["outputs"]))


def _lines(text: str) -> Html:
    """Escape text that keeps its line breaks; only odd characters become symbols."""
    return join((escape(line) for line in text.expandtabs(4).split("\n")), "\n")


def _markdown(source: str, attachments: dict[str, Any], folder: Path) -> Html:
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    renderer = IPythonRenderer(
        escape=False, attachments=attachments, embed_images=True, path=str(folder), exclude_anchor_links=True
    )
    return safe_html(MarkdownWithMath(renderer=renderer).render(source))


def _output(output: Mapping[str, Any], mask: _Mask, failure: str) -> Html:
    kind = output["output_type"]
    if kind == "stream":
        return tag("pre", _lines(mask(_plain("".join(output["text"])))))
    if kind == "error":
        line = failure or f"{output['ename']}: {_first_line(output['evalue'])}"
        return note("bad", mask(line))
    data = {name: value for name, value in output["data"].items() if name in SHOWN}
    best = min(data, key=SHOWN.index, default=None)
    return _shown(best, data[best], data.get("text/plain", ""), mask) if best else Html()


def _shown(kind: str, value: Any, plain: Any, mask: _Mask) -> Html:
    """Show one output by the best of its types."""
    text = "".join(value)
    if kind == "text/html":
        return tag("div", safe_html(mask(text)), cls="wide")
    if kind == "text/markdown":
        return _markdown(mask(text), {}, Path())
    if kind.startswith("image/"):
        # An SVG as a picture cannot run anything, and its text stays text.
        packed = base64.b64encode(mask(text).encode()).decode() if kind == "image/svg+xml" else re.sub(r"\s", "", text)
        said = markup.attribute(mask(_plain("".join(plain))))
        return Html(f'<img src="data:{kind};base64,{packed}" alt="{said}">')
    return tag("pre", _lines(mask(_plain(text))))


def _plain(text: str) -> str:
    """Return terminal text without colours, without what a carriage return overwrote, without addresses in memory."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    text = re.sub(r"[^\n]*\r(?!\n)", "", text)
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _versions(lang: str) -> Html:
    python = f"Python {platform.python_version()}"
    shown = [f"{name} {importlib.metadata.version(name)}" for name in (*PACKAGES, "torch", "datasets", "pyarrow")]
    return tag(
        "p",
        say("report.versions", lang),
        " ",
        ", ".join((f"prep_lib {prep_lib.__version__}", python, *shown)),
        cls="dim",
    )


class _Mask:
    """Takes this machine out of a text: paths, home folders, the host's name."""

    def __init__(self, root: Path) -> None:
        folders = [(root, ""), (CHECKOUT, ""), (Path(sys.prefix), "python/"), (Path.home(), "~/")]
        # A root as short as "/" or "/data" is not told apart from data that happens to say the same.
        rules = [(rf"{re.escape(str(path))}(?![\w.-])/?", name) for path, name in folders if len(path.parts) > 2]
        rules.append((r"(?:/home|/Users)/[^/\s\"'<>:]+|/root(?=/)|[A-Z]:\\Users\\[^\\\s]+", "~"))
        host = platform.node()
        if len(host) > 2 and host != "localhost":
            name = rf"\b{re.escape(host)}\b"
            # A host called "train" must not take a word out of the data.
            rules.append((rf"(?<=@){name}|(?<= on ){name}" if host.isalpha() else name, "host"))
        self.rules = [(re.compile(pattern), name) for pattern, name in rules]

    def __call__(self, text: str) -> str:
        for pattern, name in self.rules:
            text = pattern.sub(name, text)
        return text


class _Safe(HTMLParser):
    """Rewrites HTML without anything that acts or asks: the second wall behind the page's own policy."""

    GONE = frozenset({"script", "iframe", "object", "embed", "applet", "frame", "frameset", "noscript", "template"})
    BARE = frozenset({"link", "meta", "base", "html", "head", "body", "form", "title"})
    ASKING = frozenset({"src", "srcset", "poster", "background", "data", "action", "formaction", "ping", "xlink:href"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.out: list[str] = []
        self.gone: list[str] = []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        """Copy a tag, or leave it out, or write it without the attributes that act."""
        if name in self.GONE:
            self.gone.append(name)
        elif not self.gone and name not in self.BARE:
            kept = [pair for pair in attributes if self._harmless(name, *pair)]
            self.out.append((self.get_starttag_text() or "") if kept == attributes else _open_tag(name, kept))

    def handle_startendtag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        """Treat ``<br/>`` as ``<br>``; an element that must be gone has no content to skip here."""
        if name not in self.GONE:
            self.handle_starttag(name, attributes)

    def _harmless(self, name: str, attribute: str, value: str | None) -> bool:
        value = re.sub(r"[\x00-\x20]+", "", value or "").lower()
        if attribute.startswith("on") or attribute in ("srcdoc", "http-equiv"):
            return False
        if attribute == "style":
            return not _ASKS.search(value)
        if attribute == "href" and name == "a":
            return ":" not in value.split("/")[0] or value.startswith(("https:", "http:", "mailto:"))
        if attribute in self.ASKING or attribute == "href":
            return value.startswith(("data:image/", "#"))
        return True

    def handle_endtag(self, name: str) -> None:
        """Copy an end tag unless its element is left out."""
        if self.gone and name == self.gone[-1]:
            self.gone.pop()
        elif not self.gone and name not in self.BARE | self.GONE:
            self.out.append(f"</{name}>")

    def handle_data(self, data: str) -> None:
        """Copy text; a style sheet that asks for a file is left out, and ours is on the page already."""
        if not self.gone:
            own_style = self.cdata_elem == "style" and (data == markup.STYLE or _ASKS.search(data.lower()))
            self.out.append("" if own_style else data)

    def handle_entityref(self, name: str) -> None:
        """Copy ``&amp;``."""
        if not self.gone:
            self.out.append(f"&{name};")

    def handle_charref(self, name: str) -> None:
        """Copy ``&#38;``."""
        if not self.gone:
            self.out.append(f"&#{name};")


#: What makes a style sheet ask for a file.
_ASKS = re.compile(r"url\((?![\"']?(?:data:image/|#))|@import|expression\(|\\\\")


def _open_tag(name: str, attributes: Sequence[tuple[str, str | None]]) -> str:
    written = "".join(
        f' {key}="{markup.attribute(value)}"' if value is not None else f" {key}" for key, value in attributes
    )
    return f"<{name}{written}>"


def safe_html(html: str) -> Html:
    """Return HTML of a notebook without scripts, handlers, frames and addresses that would be asked by themselves.

    Examples
    --------
    >>> safe_html('<b onclick="x()">a</b><script>1</script><img src="http://a/b.png" alt="c">')
    '<b>a</b><img alt="c">'
    """
    parser = _Safe()
    parser.feed(html)
    parser.close()
    return Html("".join(parser.out))


# ── the report of a whole run ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Numbers:
    """The few numbers that matter of a run or one of its notebooks; None where nothing was counted.

    Parameters
    ----------
    records, kept : int or None
        Into the first stage, and out of the last.
    tokens : int or None
        Written.
    places : int or None
        Written tokens and padding.
    """

    records: int | None = None
    kept: int | None = None
    tokens: int | None = None
    places: int | None = None

    @property
    def efficiency(self) -> float | None:
        """The share of stored places that hold a token."""
        return self.tokens / self.places if self.tokens is not None and self.places else None


def ledgers(run: Run) -> dict[str, Ledger]:
    """Return what each notebook counted, in the order of their names: the sum of its ``…ledger.json`` files.

    What a notebook with a ledger of its own wrote into a folder inside, before it came to its end, stands for itself:
    ``13_mix/texts``, then ``13_mix``.
    """
    data = run.folder / "data"
    paths = [path.relative_to(data) for path in data.rglob("*ledger.json")]
    seen = sorted(path for path in paths if not any(part.startswith(".") for part in path.parts))
    own = {path.parts[0] for path in seen if len(path.parts) == 2}
    found: dict[str, Ledger] = {}
    for path in sorted(seen, key=lambda path: (path.parts[0], len(path.parts) == 2, path)):
        name = path.parent.as_posix() if path.parts[0] in own else path.parts[0]
        found.setdefault(name, Ledger())
        found[name] += Ledger.from_json((data / path).read_bytes())
    return found


def numbers(ledger: Ledger) -> Numbers:
    """Read the numbers that matter out of a ledger."""
    counted = [stage for stage in ledger.stages if any(key[0] == stage for key in ledger.documents)]
    tokens = [stage for stage in ledger.stages if ledger.total(stage, "written", unit="tokens")]
    written = ledger.total(tokens[-1], "written", unit="tokens") if tokens else None
    padding = ledger.total(tokens[-1], "padding", unit="tokens") if tokens else 0
    return Numbers(
        records=ledger.total(counted[0], "in") if counted else None,
        kept=ledger.total(counted[-1], "kept") if counted else None,
        tokens=written,
        places=None if written is None else written + padding,
    )


def summary(run: Run) -> Numbers:
    """Return the numbers of the way a run ends with: what came into its first notebook, what its last one wrote."""
    counted = ledgers(run)
    # Notebooks of one way share their first digit; a tour counts for itself.
    way = [numbers(ledger) for name, ledger in counted.items() if name[0] == max(counted)[0]]
    records = next((one.records for one in way if one.records is not None), None)
    kept = next((one.kept for one in reversed(way) if one.kept is not None), None)
    last = next((one for one in reversed(way) if one.tokens is not None), Numbers())
    return Numbers(records, kept, last.tokens, last.places)


def states(run: Run, names: Sequence[str] = ()) -> dict[str, tuple[str, str]]:
    """Return for each notebook its state (open, running, done, failed, interrupted) and what there is to say about it.

    Parameters
    ----------
    run : Run
    names : sequence of str
        The notebooks of the recipe; those only found in the run follow.
    """
    found = dict.fromkeys(
        [*names, *(path.stem for path in sorted((run.folder / "executed").glob("*.ipynb")))], ("open", "")
    )
    for event in read_events(run.folder)[0]:
        if event.get("event") == "notebook":
            state = {"began": "running", "kept": "done"}.get(event["state"], event["state"])
            found[event["notebook"]] = (state, event.get("text", ""))
    return found


def index(run: Run, recipe: Recipe | None = None) -> Path:
    """Make the page a team reads first: what came in, what was kept, where everything is.

    Returns
    -------
    Path
        ``reports/index.html``; the same run gives the same bytes.
    """
    lang = _lang(
        {"lang": next((step.values["lang"] for step in recipe.steps if "lang" in step.values), "")} if recipe else {}
    )
    mask = _Mask(run.root)
    names = [step.notebook for step in recipe.steps] if recipe else []
    state = states(run, names)
    records = {name: record(Run(run.root, run.name, name)) or {} for name in state}
    failed = [text for kind, text in state.values() if kind == "failed"]
    body = [
        tag("h1", say("report.title", lang, name=run.name)),
        *(note("bad", tag("b", "FAILED"), " ", mask(text)) for text in failed),
        _cards(summary(run), lang),
        _served(run, mask),
        _notebook_table(run, state, lang),
        *(_funnel(name, ledger, lang) for name, ledger in ledgers(run).items()),
        _file_table(say("report.inputs", lang), _united(records, "inputs"), lang),
        _file_table(say("report.outputs", lang), _united(records, "outputs"), lang),
        _notes(run, mask, lang),
        _recipe_text(run, mask, lang),
        _versions(lang),
    ]
    target = run.folder / "reports" / "index.html"
    with write_whole(target, "w") as file:
        file.write(document(say("report.title", lang, name=run.name), join(body), lang))
    return target


def _cards(found: Numbers, lang: str) -> Html:
    shown = {
        "records": markup.number(found.records), "kept": markup.number(found.kept),
        "tokens": markup.number(found.tokens), "efficiency": percent(found.efficiency),
    }  # fmt: skip
    return card(
        "", table([say(f"report.{key}", lang) for key in shown], [[tag("b", value) for value in shown.values()]])
    )


def _notebook_table(run: Run, state: Mapping[str, tuple[str, str]], lang: str) -> Html:
    marks = {"done": "✓", "failed": "✗", "running": "…", "open": "·"}
    rows = [
        [_link(run, name), f"{marks.get(kind, '!')} {say(f'report.state_{kind}', lang)}"]
        for name, (kind, _) in state.items()
    ]
    return card(
        say("report.notebooks", lang), table([say("report.notebook", lang), say("report.state", lang)], rows, words=2)
    )


def _link(run: Run, name: str) -> Html:
    there = (run.folder / "reports" / f"{name}.html").is_file()
    return tag("a", name, href=f"{quote(name)}.html") if there else escape(name)


def _funnel(name: str, ledger: Ledger, lang: str) -> Html:
    """Draw what each stage of a notebook kept, dropped and failed, and why."""
    flows = ("kept", "dropped", "failed")
    rows, whys = [], []
    for stage in ledger.stages:
        into, *n = (ledger.total(stage, flow) for flow in ("in", *flows))
        if into or any(n):
            parts = [Part(flow, count, f"{flow} {count:,}") for flow, count in zip(flows, n, strict=True)]
            drawn = tag("div", markup.bar(parts, sum(n), f"{stage}: {n[0]:,} of {into:,}"), style="min-width:14em")
            rows.append([stage, into, *n, percent(n[0], into), drawn])
        for flow in flows[1:]:
            whys += [[stage, say(flow, lang), why, count] for why, count in ledger.reasons(stage, flow).items()]
    heads = [say("report.stage", lang), *(say(flow, lang) for flow in ("in", *flows)), say("share", lang), ""]
    reasons = table([say(key, lang) for key in ("report.stage", "flow", "reason", "documents")], whys, words=3)
    why = fold(say("report.why", lang), reasons) if whys else Html()
    return card(say("report.counted", lang, name=name), table(heads, rows), why)


def _united(records: Mapping[str, dict[str, Any]], part: str) -> list[dict[str, Any]]:
    return [said for record in records.values() for said in record.get(part, [])]


def _file_table(title: str, found: Sequence[Mapping[str, Any]], lang: str) -> Html:
    rows = [[said["file"], said["bytes"], tag("code", said["sha256"])] for said in found]
    heads = [say("report.file", lang), say("report.bytes", lang), "sha256"]
    return fold(f"{title} ({len(rows)})", table(heads, rows)) if rows else Html()


def _served(run: Run, mask: _Mask, notebook: str = "") -> Html:
    """Say which tokenizer served, and why, by the last word of each notebook, or of one of them.

    That may be older than the notebook's last run: one that finds its shards finished tokenises nothing.
    """
    said = {}
    for event in read_events(run.folder)[0]:
        by, text = event.get("notebook", ""), str(event.get("text", ""))
        if event.get("event") == "note" and text.startswith(SERVED) and notebook in ("", by):
            said[by] = mask(text)
    return join(tag("p", text, cls="sub") for text in dict.fromkeys(said.values()))


def _notes(run: Run, mask: _Mask, lang: str) -> Html:
    """List what the engine had to say while the notebooks ran last, each sentence once."""
    said: dict[str, list[str]] = {}
    for event in read_events(run.folder)[0]:
        if event.get("event") == "note" and not str(event["text"]).startswith(SERVED):
            said.setdefault(event.get("notebook", ""), []).append(mask(event["text"]))
        elif event.get("event") == "notebook" and event["state"] == "began":
            said[event["notebook"]] = []  # what was said before belongs to what this one replaces
    texts = dict.fromkeys(text for each in said.values() for text in each)
    return card(say("report.notes", lang), tag("ul", *(tag("li", text) for text in texts))) if texts else Html()


def _recipe_text(run: Run, mask: _Mask, lang: str) -> Html:
    path = run.folder / "recipe.yaml"
    return (
        fold(say("report.recipe", lang), tag("pre", _lines(mask(path.read_text("utf-8")))))
        if path.is_file()
        else Html()
    )
