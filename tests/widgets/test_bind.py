"""Bind: control and state stay equal, whoever changes first, and every new state is drawn once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from widgets.bind import Holder, View, part


@dataclass(frozen=True)
class Light:
    on: bool = False
    level: int = 3


class Control:
    """What an ipywidgets control is to us."""

    def __init__(self) -> None:
        self._value: Any = None
        self.observers: list[Callable[[dict[str, Any]], None]] = []

    @property
    def value(self) -> Any:
        return self._value

    @value.setter
    def value(self, new: Any) -> None:
        changed, self._value = new != self._value, new
        for observer in list(self.observers) if changed else []:
            observer({"new": new})

    def observe(self, callback: Callable[[dict[str, Any]], None], names: str) -> None:
        assert names == "value"
        self.observers.append(callback)

    def unobserve_all(self) -> None:
        self.observers.clear()


def world() -> tuple[Holder[Light], Control, Control, list[Light]]:
    drawn: list[Light] = []
    holder = Holder(Light(), drawn.append)
    return holder, holder.bind(Control(), *part("on")), holder.bind(Control(), *part("level")), drawn


def test_a_control_starts_with_what_the_state_says() -> None:
    _, switch, level, drawn = world()
    assert (switch.value, level.value, drawn) == (False, 3, [])


def test_a_person_turns_and_it_is_drawn_once() -> None:
    holder, switch, _, drawn = world()
    switch.value = True
    assert holder.state == Light(on=True)
    assert drawn == [Light(on=True)]


def test_a_new_state_moves_all_controls_and_is_drawn_once() -> None:
    holder, switch, level, drawn = world()
    holder.become(Light(True, 9))
    assert (switch.value, level.value) == (True, 9)
    assert drawn == [Light(True, 9)]


def test_an_equal_state_is_not_drawn() -> None:
    holder, _, _, drawn = world()
    holder.become(Light())
    assert drawn == []


def test_a_control_that_drives_another_does_not_run_for_ever() -> None:
    drawn: list[Light] = []
    holder = Holder(Light(), drawn.append)
    level = holder.bind(Control(), *part("level"))
    switch = holder.bind(Control(), lambda s: s.on, lambda s, on: s if on == s.on else replace(s, on=on, level=9 * on))
    switch.value = True
    assert level.value == 9
    assert drawn == [Light(True, 9)]


def test_a_control_released_while_drawing_changes_nothing_any_more() -> None:
    """A field of the old strategy must not write its old value into the new one."""
    holder: Holder[Light] = Holder(Light(), lambda state: holder.release([level]))
    level = holder.bind(Control(), lambda state: 0, lambda state, value: replace(state, level=value))
    holder.become(Light(on=True))
    level.value = 7
    assert holder.state == Light(on=True, level=3)


class Box:
    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        return {"application/vnd.jupyter.widget-view+json": {"model_id": "x"}, "text/plain": "VBox(children=(…))"}


def test_a_view_is_the_widget_and_its_html_twin() -> None:
    bundle = View(Box(), lambda: "<p>page</p>", "mask: 3 records")._repr_mimebundle_()
    assert bundle == {
        "application/vnd.jupyter.widget-view+json": {"model_id": "x"},
        "text/html": "<p>page</p>",
        "text/plain": "<mask: 3 records>",
    }
