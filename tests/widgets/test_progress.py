"""Progress: one output a cell, drawn in place, at rest when the run is; outside a notebook nothing."""

from __future__ import annotations

from typing import Any

import pytest

from prep_lib.errors import UnknownName
from prep_lib.events import emit
from prep_lib.results import Stage, Stages, advance
from widgets import progress
from widgets.progress import Progress, line, page, show

RUN = [
    {"event": "begin", "stage": "count", "tasks": 4, "done": 1},
    {"event": "task", "stage": "count", "name": "a", "done": 2, "tasks": 4, "seconds": 1.0},
    {"event": "task", "stage": "count", "name": "b", "done": 4, "tasks": 4, "seconds": 1.0},
    {"event": "end", "stage": "count", "seconds": 2.5},
]


class Screen:
    """What a notebook front end would show: outputs, each as last updated."""

    def __init__(self) -> None:
        self.outputs: list[dict[str, str]] = []

    def display(self, bundle: dict[str, str], raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        self.outputs.append(bundle)
        screen, at = self, len(self.outputs) - 1

        class Handle:
            def update(self, bundle: dict[str, str], raw: bool) -> None:
                screen.outputs[at] = bundle

        return Handle()


def tell(events: list[dict[str, Any]]) -> None:
    for event in events:
        emit(**event)


def test_a_run_leaves_one_output_that_says_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    with Progress("en", screen.display, lambda: 1):
        tell(RUN)
    (output,) = screen.outputs
    assert output["text/plain"] == "count: 4 of 4 tasks · 1 were already done · 2.5 s"
    assert "width:100%" in output["text/html"]
    assert capsys.readouterr().out == ""


def test_another_cell_gets_an_output_of_its_own() -> None:
    screen, cell = Screen(), [1]
    with Progress("en", screen.display, lambda: cell[0]):
        tell(RUN)
        tell(RUN)
        cell[0] = 2
        tell(RUN)
    assert [output["text/plain"].count("count:") for output in screen.outputs] == [2, 1]


def test_it_listens_only_while_it_is_open() -> None:
    screen = Screen()
    Progress("en", screen.display, lambda: 1).close()
    tell([{"event": "begin", "stage": "count", "tasks": 1, "done": 0}])
    assert screen.outputs == []


def test_time_left_is_guessed_from_what_finished_here() -> None:
    assert Stage("a", tasks=10, done=6, before=4, seconds=3.0).left == 6.0
    assert Stage("a", tasks=10, done=4, before=4, seconds=3.0).left is None
    assert Stage("a", tasks=10, done=10, seconds=3.0, ended=True).left is None


def test_a_line_in_both_languages() -> None:
    stage = Stage("count", tasks=12, done=6, seconds=3.0)
    assert line(stage) == "6 of 12 tasks · 3.0 s · about 3 s left"
    assert line(stage, "zh") == "已完成 6 / 12 个任务 · 3.0 秒 · 预计还需 3 秒"


def test_an_event_of_a_stage_that_began_before_is_let_pass() -> None:
    assert advance(Stages(), RUN[1]) == Stages()
    assert advance(Stages(), {"event": "something new"}) == Stages()


def test_notes_and_names_are_escaped(nasty: str) -> None:
    state = advance(Stages(), {"event": "note", "text": nasty})
    html = page(advance(state, {"event": "begin", "stage": nasty, "tasks": 1, "done": 0}))
    assert "<script" not in html
    assert "\u202e" not in html
    assert html == page(advance(state, {"event": "begin", "stage": nasty, "tasks": 1, "done": 0}))


def test_outside_a_notebook_the_engine_prints_its_own_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with show():
        tell([{"event": "note", "text": "a worker died"}])
    assert capsys.readouterr().out == "a worker died\n"


def test_in_a_notebook_show_draws_and_a_second_one_replaces_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shell:
        kernel = object()
        execution_count = 1

    screen = Screen()
    monkeypatch.setattr(progress, "_notebook", Shell)
    monkeypatch.setattr("IPython.display.display", screen.display)
    first, second = show(), show("zh")
    tell(RUN)
    second.close()
    assert len(screen.outputs) == 1
    assert "已完成" in screen.outputs[0]["text/plain"]
    assert first is not second
    assert isinstance(second, Progress)
    assert second._ipython_display_() is None  # type: ignore[func-returns-value]


def test_an_unknown_language_is_refused_at_once() -> None:
    with pytest.raises(UnknownName, match="unknown language 'de'"):
        show("de")


def test_a_headless_notebook_shows_nothing(monkeypatch) -> None:
    """Seconds in a report would change its bytes from run to run."""
    monkeypatch.setenv("PREP_HEADLESS", "1")
    shown = progress.show()
    assert type(shown).__name__ == "_Nothing"
    assert shown._ipython_display_() is None
