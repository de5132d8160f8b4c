"""The rehearsal's controls: choosing, sliding and typing say the same; Apply hands one string over."""

from __future__ import annotations

from typing import Any

from toy_quality import DOCS, VALUES, Toy

from widgets.quality.page import page
from widgets.quality.view import QualityView, view

LOW, SIGNS = "toy/en:words>=", "toy/en:signs<="


def shown(**options: Any) -> QualityView:
    made = view(DOCS, Toy(), VALUES, **options)
    made.controls["choose"].value = LOW
    return made


def test_it_starts_as_the_parameters_say() -> None:
    made = view(DOCS, Toy(), VALUES, limits="toy/en:signs<=0.5")
    assert (made.controls["choose"].value, made.controls["type"].value) == (SIGNS, "0.5")
    assert repr(made) == "<quality: 6 documents, toy/en, toy/zh>"
    assert "differ from the parameters cell" not in made._page.value


def test_the_slider_moves_the_limit_and_the_number_follows() -> None:
    made = shown()
    for place in range(made.controls["move"].max + 1):
        made.controls["move"].value = place
        assert made.controls["move"].value == place
        assert made._page.value == page(made.holder.state)
    assert made.controls["type"].value == "9"
    made.controls["move"].value = 0
    assert made.controls["type"].value == "off"


def test_a_typed_number_moves_the_slider_and_nonsense_is_taken_back() -> None:
    made = shown()
    made.controls["type"].value = "2.2"
    assert made.holder.state.value == 2.2
    made.controls["type"].value = "two"
    assert (made.controls["type"].value, made.holder.state.value) == ("2.2", 2.2)
    made.controls["type"].value = "off"
    assert made.controls["move"].value == 0


def test_another_limit_has_another_slider() -> None:
    made = shown()
    first = made.controls["move"]
    made.controls["move"].value = 0
    made.controls["choose"].value = SIGNS
    assert made.controls["move"] is not first
    assert made._place.children == (made.controls["move"],)
    assert made.controls["type"].value == "0.1"
    first.value = 1
    assert made.holder.state.moved == ((LOW, float("-inf")),), "the old slider is forgotten"


def test_back_to_the_preset() -> None:
    made = shown()
    made.controls["move"].value = 0
    made.controls["choose"].value = SIGNS
    made.controls["type"].value = "0.5"
    made.controls["reset"].click()
    assert made.holder.state.moved == ((LOW, float("-inf")),)
    assert made.controls["type"].value == "0.1"
    made.controls["reset_all"].click()
    assert made.holder.state.moved == ()


def test_apply_hands_over_and_the_difference_is_gone() -> None:
    told: list[dict[str, Any]] = []
    made = shown(apply=told.append)
    made.controls["type"].value = "2"
    assert "differ from the parameters cell" in made._page.value
    made.controls["apply"].click()
    assert told == [{"limits": "toy/en:words>=2"}]
    assert "differ from the parameters cell" not in made._page.value
    bundle = made._repr_mimebundle_()
    assert bundle["text/html"] == made._page.value
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_without_a_callback_there_is_no_button() -> None:
    bar = shown().box.children[0]
    assert [type(control).__name__ for control in bar.children] == ["Dropdown", "HBox", "Text", "Button", "Button"]


def test_controls_can_be_found_by_class() -> None:
    assert {name: control._dom_classes[0] for name, control in shown().controls.items()} == {
        "choose": "prep-choose", "type": "prep-type", "reset": "prep-reset", "reset_all": "prep-reset-all",
        "apply": "prep-apply", "move": "prep-move",
    }  # fmt: skip


def test_nothing_to_move() -> None:
    made = view(DOCS, Toy({}), VALUES)
    made.controls["type"].value = "3"
    made.controls["reset"].click()
    assert made.holder.state.moved == ()
    assert "There is no document" in made._page.value
