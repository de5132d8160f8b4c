"""The mask widget: every control changes the page, and a half typed marker never raises."""

from __future__ import annotations

from typing import Any

import pytest

from widgets.mask.page import page
from widgets.mask.view import MaskView, view

RECORDS = [
    {"query": "hi", "response": "yo"},
    {"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]},
]


@pytest.fixture
def shown(tokenizer: Any) -> MaskView:
    return view(tokenizer, RECORDS)


def test_it_starts_with_fields_for_every_parameter_and_text(shown: MaskView) -> None:
    assert list(shown.controls) == [
        "strategy", "record", "reset", "apply", "user_start", "user_end", "assistant_start", "assistant_end",
        "system_start", "tool_start", "allow_multi_token", "train_after_stop", "text-query", "text-response",
    ]  # fmt: skip
    assert shown.controls["user_start"].value == "<｜im▁start｜>user↵"
    assert shown.controls["system_start"].placeholder == "<｜im▁start｜>system↵"
    assert repr(shown) == "<mask: 2 records, strategy chatml>"


def test_the_bundle_holds_the_widget_and_the_page(shown: MaskView) -> None:
    bundle = shown._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["text/html"] == page(shown.holder.state) == shown._page.value


def test_typing_a_query_redraws(shown: MaskView) -> None:
    shown.controls["text-query"].value = "Where is it?"
    assert "Where is it?" in shown._page.value
    shown.controls["reset"].click()
    assert shown.controls["text-query"].value == "hi"
    assert "Where is it?" not in shown._page.value


def test_another_strategy_has_other_fields(shown: MaskView) -> None:
    shown.controls["user_end"].value = "X"
    shown.controls["strategy"].value = "alpaca"
    assert "user_end" not in shown.controls
    assert shown.controls["response_start"].value == "### Response:↵"
    assert shown.holder.state.params == ()
    assert "strategy alpaca" in shown._page.value


def test_another_record_has_other_texts(shown: MaskView) -> None:
    shown.controls["text-query"].value = "changed"
    shown.controls["record"].value = 2
    assert [name for name in shown.controls if name.startswith("text-")] == ["text-0", "text-1"]
    assert shown.controls["text-0"].value == "one"
    assert shown.holder.state.edits == ()
    shown.controls["record"].value = 1
    assert shown.controls["text-query"].value == "hi"


def test_a_half_typed_marker_is_a_line_and_the_next_key_mends_it(shown: MaskView) -> None:
    shown.controls["user_end"].value = "<｜im_end｜>"
    assert 'class="note bad"' in shown._page.value
    shown.controls["user_end"].value = "<｜im▁end｜>\\n"
    assert 'class="note bad"' not in shown._page.value
    assert shown.controls["user_end"].value == "<｜im▁end｜>↵"
    assert shown.holder.state.params == ()


def test_a_flag_trains_what_stands_behind_the_stop_token(shown: MaskView) -> None:
    shown.controls["train_after_stop"].value = True
    assert "is trained because train_after_stop is on" in shown._page.value


def test_apply_hands_over_and_the_difference_is_gone(tokenizer: Any) -> None:
    told: list[dict[str, Any]] = []
    shown = view(tokenizer, RECORDS, apply=told.append)
    shown.controls["strategy"].value = "alpaca"
    assert "differ from the parameters cell" in shown._page.value
    shown.controls["apply"].click()
    assert told == [{"strategy": "alpaca", "strategy_params": "", "train_after_stop": False}]
    assert "differ from the parameters cell" not in shown._page.value


def test_wrong_parameters_from_the_cell_are_told_on_the_page(tokenizer: Any) -> None:
    shown = view(tokenizer, RECORDS, user_ende="x")
    assert "unknown parameter &#x27;user_ende&#x27;" in shown._page.value


def test_no_records_and_one_record(tokenizer: Any) -> None:
    assert "There is no record to show." in view(tokenizer, [])._page.value
    assert view(tokenizer, RECORDS[:1]).controls["record"].max == 1


def test_controls_can_be_found_by_class(shown: MaskView) -> None:
    assert shown.controls["strategy"]._dom_classes == ("prep-strategy",)
    assert shown.controls["train_after_stop"]._dom_classes == ("prep-train-after-stop",)
    assert shown.controls["text-query"]._dom_classes == ("prep-text-query",)
