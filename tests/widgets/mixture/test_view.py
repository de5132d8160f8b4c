"""The planner live: turning a control redraws the same page, Apply hands the parameters over."""

from __future__ import annotations

from typing import Any

from prep_lib.text.mixture import Mixture
from widgets.mixture.page import page
from widgets.mixture.view import MixtureView, view

SIZES = {"web": (400, 4000), "code": (100, 500), "zh": (50, 100)}


def test_it_starts_as_the_parameters_say() -> None:
    shown = view(SIZES, weights="web=0.7 code=0.2 zh=0.1", budget="2k", max_epochs=4)
    assert isinstance(shown, MixtureView)
    values = {name: control.value for name, control in shown.controls.items() if name != "apply"}
    assert values == {
        "way": "weights", "temperature": "1", "budget": "2k", "max_epochs": "4", "weights": "web=0.7 code=0.2 zh=0.1",
    }  # fmt: skip
    assert {name: control.value for name, control in shown.inputs.items()} == {"web": 0.7, "code": 0.2, "zh": 0.1}
    assert repr(shown) == "<mixture: 3 sources, planned before anything is read>"
    assert "differ from the parameters cell" not in shown._page.value


def test_turning_a_control_redraws_the_same_page_and_others_follow() -> None:
    shown = view(SIZES)
    shown.inputs["zh"].value = 0.5
    assert (shown.controls["way"].value, shown.controls["weights"].value) == ("weights", "web=0.87 code=0.109 zh=0.5")
    shown.controls["weights"].value = "code=3 rest=1"
    assert [control.value for control in shown.inputs.values()] == [0, 3, 0]
    shown.controls["budget"].value = "1,000"
    assert shown.controls["budget"].value == "1k"
    shown.controls["way"].value = "unimax"
    assert "unimax needs a budget" in shown._page.value
    shown.controls["max_epochs"].value = "2"
    assert "unimax needs a budget" not in shown._page.value
    bundle = shown._repr_mimebundle_()
    assert bundle["text/html"] == page(shown.holder.state) == shown._page.value
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_nonsense_is_taken_back() -> None:
    shown = view({"web": (40, 400)}, weights="web=1", budget=500)
    for name, text in (("weights", "web"), ("budget", "much"), ("max_epochs", "-1"), ("temperature", "")):
        before = shown.controls[name].value
        shown.controls[name].value = text
        assert shown.controls[name].value == before
    shown.inputs["web"].value = 0
    assert shown.inputs["web"].value == 1


def test_apply_hands_over_what_the_stage_takes_and_the_difference_is_gone() -> None:
    told: list[dict[str, Any]] = []
    shown = view(SIZES, temperature=2, apply=told.append)
    shown.controls["temperature"].value = "3"
    shown.controls["budget"].value = "2k"
    assert "differ from the parameters cell" in shown._page.value
    shown.controls["apply"].click()
    assert told == [{"weights": "natural", "temperature": 3.0, "max_epochs": None, "budget": "2k"}]
    assert "differ from the parameters cell" not in shown._page.value
    assert Mixture(**told[0]).budget == 2000


def test_without_a_callback_there_is_no_button() -> None:
    top, below = view(SIZES).box.children[:2]
    assert [type(control).__name__ for control in top.children] == ["Dropdown", "Text", "Text", "Text"]
    assert [control.description for control in below.children] == ["weights", "web", "code", "zh"]


def test_controls_can_be_found_by_class() -> None:
    shown = view(SIZES)
    assert {name: control._dom_classes[0] for name, control in shown.controls.items()} == {
        "way": "prep-way", "temperature": "prep-temperature", "budget": "prep-budget",
        "max_epochs": "prep-max-epochs", "weights": "prep-weights", "apply": "prep-apply",
    }  # fmt: skip
    assert {control._dom_classes[0] for control in shown.inputs.values()} == {"prep-weight"}
