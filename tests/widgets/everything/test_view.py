"""The button starts what a shell would start, a cell run again looks alone, and in a report nothing acts."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from toy_runs import write_cell

from prep_lib.workspace import HEADLESS, MARKER, Run
from widgets.everything import view as module
from widgets.everything.view import view


@pytest.fixture(name="run")
def _run(tmp_path: Path) -> Run:
    """A run of one notebook whose recipe was applied."""
    (tmp_path / MARKER).write_text("{}")
    write_cell(tmp_path, "10_a")
    run = Run(tmp_path, "r", "10_a")
    run.folder.mkdir(parents=True)
    (run.folder / "recipe.yaml").write_text("notebooks: [10_a]")
    return run


def waited(shown: Any) -> str:
    """Return the state once the command has ended."""
    starting = shown._starting
    assert starting is not None
    starting.result()
    shown.refresh()
    return str(shown.holder.state.state)


def test_the_button_starts_it_and_what_the_command_says_is_shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, go = [], threading.Event()

    def answer(command: list[str], **given: Any) -> subprocess.CompletedProcess[bytes]:
        go.wait(30)
        asked.append((command[command.index("prep_lib.cli") :], given["cwd"]))
        return subprocess.CompletedProcess(command, 2, b"", "10_a: 没有文件\nnothing was run: 1 to put right".encode())

    monkeypatch.setattr(module.subprocess, "run", answer)
    shown = view(run)
    shown.start.click()
    shown.start.click()  # a second press changes nothing
    assert shown.holder.state.state == "starting"
    assert shown.start.disabled
    go.set()
    assert waited(shown) == "new"
    words = ["prep_lib.cli", "run", "runs/r/recipe.yaml", "--name", "r-all", "--detach"]
    assert asked == [(words, run.root)]
    assert "10_a: 没有文件" in shown._repr_mimebundle_()["text/html"]
    assert not shown.start.disabled


def test_what_ended_meanwhile_is_not_stopped_and_its_report_is_linked(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.root)
    shown = view(run)
    whole = Run(run.root, "r-all")
    (whole.folder / "reports").mkdir(parents=True)
    (whole.folder / "reports/index.html").touch()
    whole.note({"event": "run", "state": "began", "notebooks": ["10_a"]})
    whole.note({"event": "run", "state": "done"})
    shown.stop.click()
    assert shown.holder.state.state == "done"
    assert 'href="runs/r-all/reports/index.html"' in shown._link.outputs[0]["data"]["text/html"]


def test_a_cell_run_again_looks_alone(run: Run) -> None:
    async def twice() -> tuple[bool, bool]:
        first, second = view(run), view(run)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        tasks = first._task, second._task
        second.close()
        assert None not in tasks
        return tasks[0].cancelled(), tasks[1].done()  # type: ignore[union-attr]

    # In a thread of its own: where a browser was driven before, this one has a loop that still runs.
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: asyncio.run(twice())).result() == (True, False)


def test_in_a_report_it_is_the_command_as_text(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HEADLESS, "1")
    shown = view(run, lang="zh")
    html = shown._repr_mimebundle_()["text/html"]
    assert "prep run runs/r/recipe.yaml --name r-all" in html
    assert "尚未开始" not in html
    assert shown._task is None
