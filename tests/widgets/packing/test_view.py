"""The packing widget: turning a control redraws, Apply hands the parameters over."""

from __future__ import annotations

from typing import Any

from widgets.packing.page import page
from widgets.packing.view import PackingView, view


def test_it_starts_as_the_parameters_say() -> None:
    shown = view([3, 3, 4], pack_size=4, algorithm="concat")
    assert isinstance(shown, PackingView)
    assert (shown.controls["algorithm"].value, shown.controls["pack_size"].value) == ("concat", 4)
    assert repr(shown) == "<packing: 3 documents, 4 tokens a pack, concat>"


def test_turning_a_control_redraws_the_same_page() -> None:
    shown = view([3, 3, 4], pack_size=4)
    shown.controls["algorithm"].value = "concat"
    shown.controls["pack_size"].value = 64
    assert (shown.holder.state.algorithm, shown.holder.state.pack_size) == ("concat", 64)
    bundle = shown._repr_mimebundle_()
    assert bundle["text/html"] == page(shown.holder.state)
    assert shown._page.value == bundle["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_apply_hands_over_and_the_difference_is_gone() -> None:
    told: list[dict[str, Any]] = []
    shown = view([3], pack_size=64, apply=told.append)
    shown.controls["algorithm"].value = "concat"
    assert "differ from the parameters cell" in shown._page.value
    shown.controls["apply"].click()
    assert told == [{"pack_size": 64, "packing": "concat"}]
    assert "differ from the parameters cell" not in shown._page.value


def test_the_parameters_have_the_names_of_the_cell() -> None:
    told: list[dict[str, Any]] = []
    shown = view([3, 9], pack_size=64, algorithm="concat", tail="drop", size_name="seq_len", apply=told.append)
    assert "0 of 0 packs by concat" in shown._page.value, "the tail is dropped"
    shown.controls["apply"].click()
    assert told == [{"seq_len": 64, "packing": "concat"}]


def test_without_a_callback_there_is_no_button() -> None:
    bar = view([3]).box.children[0]
    assert [type(control).__name__ for control in bar.children] == ["Dropdown", "Dropdown"]


def test_controls_can_be_found_by_class() -> None:
    shown = view([3])
    assert {name: control._dom_classes for name, control in shown.controls.items()} == {
        "algorithm": ("prep-algorithm",), "pack_size": ("prep-pack-size",), "apply": ("prep-apply",),
    }  # fmt: skip
