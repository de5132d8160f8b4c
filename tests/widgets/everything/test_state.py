"""What a person asked for is said until the files say more; the files have the last word."""

from __future__ import annotations

from pathlib import Path

import pytest

from prep_lib.background import Owner, Status
from prep_lib.results import Journal, Notebook, Stage, Stages
from prep_lib.workspace import Run
from widgets.everything.state import (
    State,
    begin,
    may_start,
    may_stop,
    refused,
    seen,
    settled,
    starting,
    stopping,
)

FRESH = begin("r-all", ["run", "runs/r/recipe.yaml", "--name", "r-all", "-p", "11_a.sample=0"])


def status(state: str, host: str = "", folder: str = "/nowhere/工作") -> Status:
    """Ten minutes after a run of two notebooks began, the first of which is done."""
    ended = "" if state in ("running", "killed", "new") else state
    notebooks = {"10_a": Notebook("done", seconds=60.0), "11_b": Notebook("running", since=60.0, memory=95)}
    story = Journal(
        began=1.0, last=601.0, state=ended, limit=100, plan=("10_a", "11_b"), notebooks=notebooks, now="11_b",
        stages=Stages((Stage("sketch", 8, 2, 0, 400.0),)), stage_at=201.0,
    )  # fmt: skip
    import socket

    return Status(Run(Path(folder), "r-all"), state, story, Owner(host or socket.gethostname(), 7, 601.0, True), 601.0)


def test_pressed_it_starts_and_the_files_say_when_it_runs() -> None:
    assert may_start(FRESH)
    pressed = starting(FRESH)
    assert not may_start(pressed)
    assert seen(pressed, status("new")).state == "starting"  # it is being checked, and nothing is there yet
    running = seen(pressed, status("running"))
    assert (running.state, running.notebook, running.finished, running.plan) == ("running", "11_b", 1, 2)
    assert running.left is not None
    assert running.left.seconds == pytest.approx(1200)
    assert running.seconds == 600
    assert may_stop(running)
    done = seen(running, status("done"))
    assert (done.state, done.said, done.left) == ("done", "r-all: done in 10 min", None)
    assert may_start(done)


def test_what_was_refused_is_said_until_it_runs() -> None:
    said = refused(starting(FRESH), ("11_b: no file",))
    assert seen(said, status("new")).problems == ("11_b: no file",)
    assert seen(said, status("running")).problems == ()
    assert settled(starting(FRESH)).state == "new"
    assert settled(seen(FRESH, status("running"))).state == "running"


def test_stopped_it_is_being_stopped_until_it_has() -> None:
    running = seen(FRESH, status("running"))
    asked = stopping(running)
    assert seen(asked, status("running")).state == "stopping"
    assert not may_start(asked)
    assert seen(asked, status("interrupted")).state == "interrupted"
    assert stopping(FRESH) == FRESH


def test_a_run_of_another_host_is_not_stopped_from_here() -> None:
    far = seen(FRESH, status("running", "far"))
    assert far.elsewhere == "far"
    assert not may_stop(far)


def test_a_killed_one_says_whether_memory_was_short() -> None:
    assert seen(FRESH, status("killed")).starved
    assert seen(FRESH, status("killed")) == seen(seen(FRESH, status("running")), status("killed"))


def test_the_command_is_what_a_shell_takes() -> None:
    assert FRESH.command == "prep run runs/r/recipe.yaml --name r-all -p 11_a.sample=0"
    assert State("a", "b") == State("a", "b")
