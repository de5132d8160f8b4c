"""notebook + parameters -> executed notebook, one after the other as a recipe says.

22_tensorize.ipynb + pack_size=4096
    │  execute   a kernel of this interpreter, at work in the workspace
    ▼
executed/22_tensorize.ipynb ──report──▶ reports/22_tensorize.html ──index──▶ reports/index.html
executed/22_tensorize.json   key, inputs, outputs; written last: a finished notebook is not executed again
"""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from prep_lib.errors import PrepError
from prep_lib.execute import execute, interruptible
from prep_lib.files import is_temporary, space_for, write_whole
from prep_lib.index import index
from prep_lib.keys import Key
from prep_lib.machine import memory_limit
from prep_lib.recipes import Recipe, Step
from prep_lib.report import report
from prep_lib.shelf import Shelf
from prep_lib.workspace import Run


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
                shelf = Shelf(Run(run.root, run.name, step.notebook), step, rehash)
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
        shelf = Shelf(Run(run.root, run.name, step.notebook), step, rehash)
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
        "event": "run", "state": "began", "process": os.getpid(), "limit": memory_limit(),
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


def _perform(shelf: Shelf, key: Key, why: str, tell: Callable[[str], None]) -> None:
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
