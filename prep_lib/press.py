"""notebook + parameters -> executed notebook, one after the other as a recipe says.

22_tensorize.ipynb + pack_size=4096
    │  execute   a kernel of this interpreter, at work in the workspace
    ▼
executed/22_tensorize.ipynb ──report──▶ reports/22_tensorize.html ──index──▶ reports/index.html
executed/22_tensorize.json   key, inputs, outputs; written last: a finished notebook is not executed again
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import prep_lib
from prep_lib import engine
from prep_lib.errors import NoSpace, NotebookFailed, PrepError
from prep_lib.files import (
    as_written,
    digest,
    is_remote,
    is_temporary,
    link_tree,
    natural,
    place,
    space_for,
    stamp,
    stamps,
    write_whole,
)
from prep_lib.index import index
from prep_lib.keys import Key, changed, imports, make_key
from prep_lib.preflight import code_files, inputs
from prep_lib.recipes import Recipe, Step
from prep_lib.remote import without_secrets
from prep_lib.report import PACKAGES, first_line, report
from prep_lib.results import digest_json, record
from prep_lib.workspace import CHECKOUT, HEADLESS, Run, importable, read_events, retell, transport, write_kernel

#: Parameters that say where and how fast, and change no byte of what is written.
NEUTRAL = ("run", "workers", "engine", "memory_budget", "keep_old", "rehash")

#: Modules that only stand around a notebook, and that none imports.
_AROUND = (
    "results lab preflight survey draft safe sheets facts alerts report index press trial matrix publish background "
    "disguise onepage share cli"
)
AROUND = tuple(f"prep_lib.{name}" for name in _AROUND.split())

#: The packages a notebook of ours uses, and where they lie.
OURS = {"prep_lib": Path(prep_lib.__file__).parent, "widgets": CHECKOUT / "widgets"}

#: Where a folder that the engine wrote keeps what its tasks are done by.
TASKS = f"{engine.HIDDEN}/tasks"

#: What in such a folder says who is at work, and belongs to that folder alone.
ITS_OWN = ("lock", "owner.json", "tmp")

#: How `changed` begins to name the notebooks that came before.
EARLIER = "earlier of "

#: An event tells the memory of a notebook when it has grown by so much: a few hundred at most, whatever it grows to.
GROWN = 1.05

#: What the engine in a kernel gets to end its work once the run is interrupted, seconds; then all of it is killed.
GRACE = 1.0

#: The type of a live widget in an executed notebook.
WIDGET = "application/vnd.jupyter.widget-view+json"

# ── a run of a whole recipe ──────────────────────────────────────────────────────────────────────────────────────────


def run_recipe(
    recipe: Recipe,
    run: Run,
    *,
    rehash: bool = False,
    keep_old: bool = False,
    donors: Sequence[Run] = (),
    like: Sequence[str] = (),
    tell: Callable[[str], None] = print,
) -> list[str]:
    """Execute the notebooks of a recipe in order, those that are not done yet, and press their reports.

    Parameters
    ----------
    recipe : Recipe
        Notebooks that it leaves out are not looked at; those behind them depend on what they wrote.
    run : Run
        Hold its lock.
    rehash : bool
        True: read raw inputs again even if size and time of change are as remembered.
    keep_old : bool
        True: what a finished notebook wrote is used even if the code has changed since.
    donors : sequence of Run
        Runs of this workspace whose finished notebooks, and tasks, are taken over where nothing differs.
    like : sequence of str
        Options of the command that this is, such as ``--detach``: whoever goes on with it later is told them.
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
    with interruptible(), _noted(run, recipe, like):
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
                if step.notebook in recipe.left:
                    tell(f"{step.notebook}: left as it is{shelf.differs(key)}")
                elif not (why := shelf.why(key, keep_old)):
                    _mark(shelf.run, "kept", why=shelf.since())
                    tell(f"{step.notebook}: {shelf.since()}")
                elif donor := shelf.adopt(key, donors):
                    report(run.folder / "executed" / f"{step.notebook}.ipynb", shelf.run)
                    _mark(shelf.run, "kept", why=f"shared with run {donor}")
                    tell(f"{step.notebook}: shared with run {donor}")
                else:
                    _perform(shelf, key, why, tell)
                    executed.append(step.notebook)
                # With keep_old, and behind what was left out, notebooks must see what really stands.
                earlier |= shelf.standing()
        except BaseException:
            with contextlib.suppress(PrepError, OSError):  # a page about what happened must not hide it
                index(run, recipe)
            raise
        index(run, recipe)
        return executed


def explain(recipe: Recipe, run: Run, *, rehash: bool = False, keep_old: bool = False) -> Iterator[str]:
    """Yield for each notebook why it would run or be skipped, and run none.

    What a notebook that runs will write nobody knows: those behind it are judged by what it is asked for.
    """
    earlier: dict[str, Key] = {}
    for step in recipe.steps:
        shelf = _Shelf(Run(run.root, run.name, step.notebook), step, rehash)
        key = shelf.key(earlier)
        if step.notebook in recipe.left:
            yield f"{step.notebook}: left as it is{shelf.differs(key)}"
            earlier |= shelf.standing()
        elif reason := shelf.why(key, keep_old):
            yield f"{step.notebook}: {reason}"
            earlier[step.notebook] = key
        else:
            yield f"{step.notebook}: {shelf.since()}"
            earlier |= shelf.standing()


@contextlib.contextmanager
def _noted(run: Run, recipe: Recipe, like: Sequence[str]) -> Iterator[None]:
    """Note in the journal that a run begins, with what a look at it must know, and how it ends."""
    name = ["--name", run.name] if recipe.name != run.name else []
    with space_for(run.folder):
        run.folder.mkdir(parents=True, exist_ok=True)
    run.note({
        "event": "run", "state": "began", "process": os.getpid(), "limit": engine.memory_limit(),
        "notebooks": [step.notebook for step in recipe.steps],
        "again": shlex.join(["prep", "run", f"runs/{run.name}/recipe.yaml", *name, *like]),
    })  # fmt: skip
    try:
        yield
    except BaseException as error:
        state = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        text = str(error) if isinstance(error, PrepError) else f"{type(error).__name__}: {error}"
        run.note({"event": "run", "state": state, **({"text": text} if state == "failed" else {})})
        raise
    run.note({"event": "run", "state": "done"})


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


def _perform(shelf: _Shelf, key: Key, why: str, tell: Callable[[str], None]) -> None:
    """Execute one notebook, press it, and record it as done."""
    step, run = shelf.step, shelf.run
    shelf.forget()
    run.data.mkdir(parents=True, exist_ok=True)
    executed = run.folder / "executed" / f"{step.notebook}.ipynb"
    began = time.monotonic()
    _mark(run, "began", why=why)
    tell(f"{step.notebook}: {why}")
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
        whole = make_key(modules=[*_our_modules(), *self._their_modules()], packages=PACKAGES)
        # The front door leads everywhere, and so back to what only stands around a notebook.
        whole["code"] = {name: code for name, code in whole["code"].items() if name not in AROUND}
        return whole | {
            "inputs": self._named(),
            "parameters": {name: json.dumps(value) for name, value in values.items()},
            "notebook": _digest_cells(self.step.path),
            "earlier": {n: digest_json(k) for n, k in earlier.items()},
        }

    def _their_modules(self) -> list[str]:
        """Return what the user's own files import, but for what is ours: of that, all is in the key."""
        files = code_files(self.step, self.run)
        for path in files:
            importable(path.parent)
        return [name for path in files for name in imports(path) if name.split(".")[0] not in OURS]

    def _named(self) -> dict[str, str]:
        """Return the digest of each input; files of one name in several places stand together."""
        found: dict[str, str] = {}
        for path, sha in self.inputs():
            name = _short_path(path, self.run.root)
            # What nothing tells is never the same again.
            sha = sha or os.urandom(10).hex()
            found[name] = f"{found[name]} {sha}" if name in found else sha
        return found

    def inputs(self) -> list[tuple[Path, str]]:
        memory = _Digests(self.run.root, self.rehash)
        paths = inputs(self.step, self.run)
        memory.ask([str(path) for path in paths if is_remote(path)])
        # Hashing lets go of the interpreter: threads take as many cores as there are.
        with ThreadPoolExecutor(engine.default_workers()) as threads:
            found = [*zip(paths, threads.map(memory.of, paths), strict=True)]
        memory.save()
        self.rehash = False
        return found

    def why(self, key: Key, keep_old: bool = False) -> str:
        """Say why this notebook runs; empty: what it wrote holds."""
        stored = record(self.run)
        if stored is None:
            begun = (self.run.folder / "executed" / f"{self.step.notebook}.ipynb").is_file()
            return "runs: it did not come to its end" if begun else "runs for the first time"
        differs = changed(stored["key"], key)
        if keep_old:
            differs = [part for part in differs if not part.startswith("code of")]
        if not self.is_whole(stored):
            differs.append("outputs are missing or changed")
        return _reason(differs)

    def since(self) -> str:
        """Say since when nothing has changed: the record was written last of all."""
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.path.stat().st_mtime))
        return f"skipped, nothing changed since {when}"

    def is_whole(self, stored: Mapping[str, Any]) -> bool:
        """Say whether everything that was written then is there, as it was; what has another time is read."""
        return all(
            as_written(self.run.folder / said["file"], [said["bytes"], said.get("changed")], said["sha256"])
            for said in stored["outputs"]
        )

    def differs(self, key: Key) -> str:
        """Say what has changed since a notebook that is left out came to its end."""
        stored = record(self.run)
        found = [part for part in changed(stored["key"], key) if not part.startswith("code of")] if stored else []
        return f", although {_brief(found)} changed since" if found else ""

    def standing(self) -> dict[str, Key]:
        """Return what the notebooks behind this one depend on: the key of what it wrote, if it wrote something."""
        stored = record(self.run)
        if stored is not None and self.is_whole(stored):
            return {self.run.notebook: stored["key"]} if stored["outputs"] else {}
        # Written in a session, or half: nobody knows by what, so the files themselves tell.
        files = [
            path for path in sorted(self.run.data.rglob("*")) if path.is_file() and engine.HIDDEN not in path.parts
        ]
        told = [[str(path.relative_to(self.run.data)), *stamp(path)] for path in files]
        return {self.run.notebook: {"files": digest_json(told)}} if told else {}

    def adopt(self, key: Key, donors: Sequence[Run]) -> str:
        """Take over what another run has of this notebook, the disk holding it once; return the run it is finished in.

        Where none has finished it with this key, the tasks of one that began with the same inputs are a start.
        """
        found = [(donor, stored) for donor in donors if (stored := record(replace(donor, notebook=self.run.notebook)))]
        same = [(donor, stored) for donor, stored in found if not changed(stored["key"], key)]
        for donor, stored in same:
            other = _Shelf(replace(donor, notebook=self.run.notebook), self.step)
            if other.is_whole(stored):
                self._link(other)
                # No link: papermill writes into the file that stands there.
                name = f"executed/{self.run.notebook}.ipynb"
                shutil.copyfile(other.run.folder / name, self.run.folder / name)
                with write_whole(self.path, "w") as file:
                    json.dump(
                        {**stored, "shared": stored.get("shared", donor.name)}, file, ensure_ascii=False, indent=1
                    )
                return str(stored.get("shared", donor.name))
        begun = [donor for donor, stored in found if stored["key"].get("earlier") == key["earlier"]]
        start = next((donor for donor in begun if (donor.folder / "data" / self.run.notebook / TASKS).is_dir()), None)
        if start is not None and not (self.run.data / TASKS).is_dir():
            self._link(_Shelf(replace(start, notebook=self.run.notebook), self.step))
        return ""

    def _link(self, other: _Shelf) -> None:
        """Stand for what another run wrote: the notebook's folder, and what it left in the run's own."""
        self.forget()
        shutil.rmtree(self.run.data, ignore_errors=True)
        link_tree(other.run.data, self.run.data, skip=ITS_OWN)
        kept = ("data", "executed", "reports", engine.HIDDEN)
        for folder in (path for path in other.run.folder.iterdir() if path.is_dir() and path.name not in kept):
            if not (self.run.folder / folder.name).exists():
                link_tree(folder, self.run.folder / folder.name, skip=ITS_OWN)

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)
        # What another run shares is written by the engine beside it, never into it; other cells may do so.
        if not (self.run.data / TASKS).is_dir():
            for path in [path for path in self.run.data.rglob("*") if path.is_file() and path.stat().st_nlink > 1]:
                path.unlink()

    def commit(self, key: Key, seconds: float, timing: dict[str, float]) -> None:
        """Record the notebook as done; this is the last file written."""
        stored = {
            "key": key, "seconds": seconds, **timing,
            "inputs": [_described(path, self.run.root, sha) for path, sha in self.inputs() if sha],
            "outputs": [
                {**_described(path, self.run.folder, sha), "changed": stamp(path)[1]}
                for path, sha in _outputs(self.run.data)
            ],
        }  # fmt: skip
        with write_whole(self.path, "w") as file:
            json.dump(stored, file, ensure_ascii=False, indent=1)


def _reason(differs: Sequence[str]) -> str:
    """Say in a few words why a notebook runs, given what differs; empty where nothing does.

    Examples
    --------
    >>> _reason(["earlier of 12_dedup"]), _reason(["threshold 0.8 -> 0.85"]), _reason([])
    ('runs, because 12_dedup is new', 'runs: threshold 0.8 -> 0.85', '')
    """
    own = [part for part in differs if not part.startswith(EARLIER)]
    names = [name for part in differs if part.startswith(EARLIER) for name in part.removeprefix(EARLIER).split(", ")]
    because = f"because {_listed(names)} {'is' if len(names) == 1 else 'are'} new" if names else ""
    if own:
        return f"runs: {_brief(own)}{_offer(differs)}" + (f", and {because}" if because else "")
    return f"runs, {because}" if because else ""


def _listed(names: Sequence[str]) -> str:
    shown = [*names] if len(names) <= 3 else [*names[:2], f"{len(names) - 2} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _brief(differs: Sequence[str]) -> str:
    # A part that names every changed module or file is cut: three are enough to know what it is about.
    return "; ".join(
        re.sub(r"^((?:code|inputs|versions) of (?:[^,]+, ){2}[^,]+), .*", r"\1, …", one) for one in differs
    )


def _offer(differs: Sequence[str]) -> str:
    return " (--keep-old uses what is there)" if all(part.startswith("code of") for part in differs) else ""


def _our_modules() -> list[str]:
    """Return every module a notebook may have used: all of ours, without those around it."""
    names = [
        ".".join((name, *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
        for name, root in OURS.items()
        for path in sorted(root.rglob("*.py"))
    ]
    return [name for name in names if name not in AROUND]


def _digest_cells(path: Path) -> str:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return digest_json([[cell["cell_type"], "".join(cell["source"])] for cell in cells])


def _size(path: Path) -> int | None:
    with contextlib.suppress(PrepError, OSError):
        return path.stat().st_size
    return None


def _short_path(path: Path, root: Path) -> str:
    # A file from elsewhere goes by its name: where it lies is nobody's business.
    if is_remote(path):
        return place(without_secrets(str(path))).name
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


class _Digests:
    """Digests of raw inputs, remembered by path, size and time of change."""

    def __init__(self, root: Path, rehash: bool) -> None:
        self.path, self.known = root / "runs" / ".digests.json", dict[str, Any]()
        with contextlib.suppress(OSError, ValueError):
            self.known = json.loads(self.path.read_bytes())
        self.rehash, self.stamps = rehash, dict[str, list[int]]()

    def ask(self, addresses: Sequence[str]) -> None:
        """Ask stores for the versions of objects, folder by folder."""
        with contextlib.suppress(PrepError, OSError):  # not of one that is gone: each is asked for by itself then
            self.stamps = stamps(addresses)

    def of(self, path: Path) -> str:
        """Return what tells the content of an input; empty: nothing does."""
        with contextlib.suppress(PrepError, OSError):
            return self._of_object(path) if is_remote(path) else self._of_file(path)
        return ""

    def _of_object(self, path: Path) -> str:
        """Return the version of an object, as its store tells; where it tells none, the object is read."""
        told = self.stamps.get(str(path), [0, 0])
        size, version = told if told[1] else stamp(path)
        return f"version {version:x} of {size:,} bytes" if version else digest(path)

    def _of_file(self, path: Path) -> str:
        seen = path.stat()
        stamp = [seen.st_size, seen.st_mtime_ns]
        stored = self.known.get(str(path))
        if stored is None or self.rehash or stored[:2] != stamp:
            stored = self.known[str(path)] = [*stamp, digest(path)]
        return str(stored[2])

    def save(self) -> None:
        # Only a memory: without it files are read once more.
        with contextlib.suppress(NoSpace, OSError), write_whole(self.path, "w") as file:
            json.dump(self.known, file, indent=1)


def _described(path: Path, root: Path, sha256: str) -> dict[str, Any]:
    return {"file": _short_path(path, root), "bytes": _size(path), "sha256": sha256}


def _outputs(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield what a notebook wrote, each with its sha256.

    The word of a manifest for its shards, and of documents for their parts, is taken: whoever wrote them has just
    digested them.
    """
    told: dict[Path, str] = {}
    for table, parts in (("manifest.json", "shards"), ("documents.json", "parts")):
        for contents in folder.rglob(table):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                files = json.loads(contents.read_bytes())[parts]
                named = (one for file in files for one in (file, *file.get("beside", ())))
                told |= {contents.parent / one["file"]: one["sha256"] for one in named}
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
