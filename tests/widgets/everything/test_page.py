"""Each state is told in words, in both languages, and nothing of a name or an error acts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prep_lib.background import Left
from prep_lib.results import Stage, Stages
from widgets.everything.page import command_page, page
from widgets.everything.state import State, begin

RUNNING = State(
    "r-all", "prep run x", "running", notebook="11_b", finished=1, plan=3, seconds=720.0,
    stages=Stages((Stage("sketch", 12, 5, 0, 60.0),)), left=Left(84.0, "11_b", ("12_c",)),
    memory=3_100_000_000, limit=8_600_000_000,
)  # fmt: skip


def test_while_it_runs_it_says_how_far_how_long_and_how_much() -> None:
    drawn = page(RUNNING)
    for text in ("Running · 12 min", "1 of 3 notebooks done", "5 of 12 tasks", "Time left: about 84 s",
                 "the rest of 11_b, 12_c", "at most 3.1 GB of 8.6 GB (36 %)", "prep run x"):  # fmt: skip
        assert text in drawn
    assert "Time left: unknown" in page(replace(RUNNING, left=Left(None, "", ("11_b",))))
    assert "Memory: not known" in page(replace(RUNNING, memory=0))
    assert "Running on far" in page(replace(RUNNING, elsewhere="far"))


@pytest.mark.parametrize("state", ["new", "starting", "running", "stopping", "done", "failed", "interrupted", "killed"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_each_state_is_told_in_each_language(state: str, lang: str) -> None:
    drawn = page(replace(RUNNING, state=state, said="r-all: said", lang=lang))
    assert ('lang="zh' in drawn) == (lang == "zh")
    assert ("r-all: said" in drawn) == (state in ("done", "failed", "interrupted", "killed"))
    assert drawn.count("<h1") == 1


def test_a_killed_one_says_why_it_may_have_been() -> None:
    assert "want of memory" in page(replace(RUNNING, state="killed", starved=True))
    assert "by this not the cause" in page(replace(RUNNING, state="killed"))


def test_nothing_that_comes_from_elsewhere_acts(nasty: str) -> None:
    drawn = page(replace(RUNNING, name=nasty, command=nasty, problems=(nasty,), notebook=nasty, said=nasty))
    assert nasty not in drawn
    assert "<script" not in drawn


def test_in_a_report_stands_the_command_alone() -> None:
    drawn = command_page(RUNNING)
    assert "prep run x" in drawn
    assert "Running" not in drawn
    assert drawn == command_page(begin("r-all", ["run", "x"]))
