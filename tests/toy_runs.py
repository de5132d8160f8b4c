"""Toy notebooks in a toy workspace, run as a recipe and pressed."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat

from prep_lib import execute, press, shelf
from prep_lib.press import run_recipe
from prep_lib.recipes import read
from prep_lib.workspace import MARKER, Run

OPEN = 'from prep_lib.workspace import open_run\nrun = open_run(run, notebook="{name}")'


def write_notebook(folder: Path, name: str, *cells: str, title: str = "What goes in?") -> None:
    """Write a notebook that opens its run, then runs `cells`."""
    parameters = nbformat.v4.new_code_cell('run = ""  # the latest\nn = 3  # rows', metadata={"tags": ["parameters"]})
    code = [nbformat.v4.new_code_cell(textwrap.dedent(cell).strip()) for cell in (OPEN.format(name=name), *cells)]
    node = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(f"# {title}\n\nHow many?"), parameters, *code])
    (folder / "notebooks").mkdir(exist_ok=True)
    nbformat.write(node, folder / "notebooks" / f"{name}.ipynb")


#: Parameters of every type.
CELL = """# what can be asked for
text = "a"          # any text
seed = 42           # of every draw
ratio = 0.5         # share, 0 to 1
flag = False        # yes or no
run = ""            # "" = the latest
"""


def write_cell(folder: Path, name: str, source: str | None = CELL) -> None:
    """Write a notebook that is nothing but its parameters cell; None: without one."""
    cells = [nbformat.v4.new_markdown_cell("# Title")]
    if source is not None:
        cells.append(nbformat.v4.new_code_cell(source, metadata={"tags": ["parameters"]}))
    (folder / "notebooks").mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "notebooks" / f"{name}.ipynb")


def workspace(folder: Path) -> Path:
    """Make a workspace with a name that is hard on paths."""
    (folder / "my {ws}").mkdir()
    (folder / "my {ws}" / MARKER).write_text("{}")
    return folder / "my {ws}"


def pressed(ws: Path, *names: str, **options: Any) -> tuple[list[str], list[str], Run]:
    """Run notebooks as a recipe; return the executed ones, what was told, and the run."""
    (ws / "r.yaml").write_text("notebooks: [" + ", ".join(names) + "]")
    run, told = Run(ws, "r"), list[str]()
    executed = run_recipe(read(ws / "r.yaml", ws, options.pop("given", ())), run, tell=told.append, **options)
    return executed, told, run


def instantly(monkeypatch: Any, work: dict[str, Callable[[dict[str, Any], Run], None]]) -> None:
    """Let notebooks be executed without a kernel: what each does is a function of its values and its run."""

    def at_once(notebook: Path, values: dict[str, Any], target: Path, run: Run) -> dict[str, float]:
        nbformat.write(execute._inject(notebook, values)[0], target)
        work[run.notebook](values, run)
        return {"start": 0.0, "memory": 0}

    monkeypatch.setattr(press, "execute", at_once)
    # Our own code does not change while a test runs, even if somebody is editing it.
    monkeypatch.setattr(shelf, "_our_modules", lambda: ["prep_lib.seeds"])


def page(run: Run, name: str = "10_a") -> str:
    return (run.folder / "reports" / f"{name}.html").read_text("utf-8")
