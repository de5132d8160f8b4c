"""Run on everything in a real JupyterLab: started by its button, found again by a notebook opened anew, and linked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from conftest import prep
from toy_runs import write_notebook

from prep_lib.background import look
from prep_lib.workspace import Run

#: A way of two notebooks that no other test has, the second of which waits for a file: nothing here depends on speed.
LAST = """
    import time
    while not (run.root / 'go').is_file():
        time.sleep(0.05)
    """
CELL = "from widgets.everything.view import view\nview(run)"


@pytest.fixture(name="page")
def _page(browser: Any, lab: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    yield context.new_page()
    context.close()


def test_it_is_started_found_again_and_linked(page: Any, lab: Any) -> None:
    from playwright.sync_api import expect

    write_notebook(lab.workspace, "91_last", LAST)
    write_notebook(lab.workspace, "90_first", CELL)
    path = lab.workspace / "notebooks/90_first.ipynb"
    node = nbformat.read(path, as_version=4)
    node.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    path.write_text(json.dumps(node).replace('run = \\"\\"', 'run = \\"toy\\"'))
    run = Run(lab.workspace, "toy-all")
    live, press = page.locator(".prep-page-live"), page.locator("button.prep-start")

    lab.run_all(page, "notebooks/90_first.ipynb")
    expect(live).to_contain_text("Not started yet")
    expect(live).to_contain_text("prep run runs/toy/recipe.yaml --name toy-all")
    press.click()
    expect(live).to_contain_text("Running")
    expect(press).to_be_disabled()
    expect(live).to_contain_text("1 of 2 notebooks done")

    # Whoever opens it anew has another kernel, which knows nothing but the workspace.
    page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
    assert look(run).state == "running"
    lab.run_all(page, "notebooks/90_first.ipynb")
    expect(live).to_contain_text("1 of 2 notebooks done")
    (lab.workspace / "go").touch()
    expect(live).to_contain_text("toy-all: done in")
    link = page.get_by_role("link", name="The report of this run")
    expect(link).to_have_count(1)
    shown = page.request.get(link.evaluate("a => a.href"), headers={"Authorization": f"token {lab.token}"})
    assert shown.ok
    assert "toy-all" in shown.text()
    assert prep("status", "toy-all", "--line", cwd=lab.workspace).stdout.startswith("toy-all: done in ")
