"""Toy notebooks in a toy workspace, run as a recipe and pressed."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import nbformat

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


def page(run: Run, name: str = "10_a") -> str:
    return (run.folder / "reports" / f"{name}.html").read_text("utf-8")
