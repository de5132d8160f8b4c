"""The controls of the near duplicates: slider, number and bands say the same; Apply hands the parameters over."""

from __future__ import annotations

from typing import Any

import pytest

from widgets.pairs.page import page
from widgets.pairs.view import PairsView, view


@pytest.fixture
def made(world: Any) -> PairsView:
    return view(*world)


def test_it_starts_as_the_parameters_say(made: PairsView) -> None:
    values = {name: control.value for name, control in made.controls.items() if name != "apply"}
    assert values == {"move": 30, "type": "0.8", "bands": "auto: 10 x 6"}
    assert repr(made) == "<pairs: 10 documents, 4 near duplicates went>"
    assert "differ from the parameters cell" not in made._page.value


def test_the_slider_moves_the_threshold_and_everything_follows(made: PairsView) -> None:
    for place in range(made.controls["move"].max + 1):
        made.controls["move"].value = place
        assert made.controls["move"].value == place
        assert made._page.value == page(made.holder.state)
    assert (made.controls["type"].value, made.controls["bands"].value) == ("1.0", "auto: 1 x 64")


def test_typing_moves_the_slider_and_nonsense_is_taken_back(made: PairsView) -> None:
    made.controls["type"].value = "0.9"
    assert made.controls["move"].value == 40
    made.controls["bands"].value = "8x8"
    assert made.controls["bands"].value == "8 x 8"
    for name, text, held in (("type", "two", "0.9"), ("bands", "8 x 9", "8 x 8")):
        made.controls[name].value = text
        assert made.controls[name].value == held
    made.controls["bands"].value = ""
    assert made.controls["bands"].value == "auto: 7 x 9"


def test_apply_hands_over_and_the_difference_is_gone(world: Any) -> None:
    told: list[dict[str, Any]] = []
    made = view(*world, apply=told.append)
    made.controls["move"].value = 35
    assert "differ from the parameters cell" in made._page.value
    made.controls["apply"].click()
    made.controls["bands"].value = "8 x 8"
    made.controls["apply"].click()
    assert told == [{"threshold": 0.85}, {"threshold": 0.85, "bands": 8, "rows": 8}]
    assert "differ from the parameters cell" not in made._page.value
    bundle = made._repr_mimebundle_()
    assert bundle["text/html"] == made._page.value
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_without_a_callback_there_is_no_button(made: PairsView) -> None:
    bar = made.box.children[0]
    assert [type(control).__name__ for control in bar.children] == ["IntSlider", "Text", "Text"]


def test_controls_can_be_found_by_class_and_speak_chinese(world: Any) -> None:
    made = view(*world, lang="zh", pairs=1)
    classes = {name: control._dom_classes[0] for name, control in made.controls.items()}
    assert classes == {"move": "prep-move", "type": "prep-type", "bands": "prep-bands", "apply": "prep-apply"}
    assert made.controls["type"].description == "阈值"
    assert "达到 0.8：最近的 1 对" in made._page.value
