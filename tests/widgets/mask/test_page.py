"""The mask page: every token says what it is and why; nothing from data gets out; the same state, the same bytes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from prep_lib.chat.strategy import Piece
from prep_lib.errors import BadParameter
from widgets.mask.page import MOST, page, row, why
from widgets.mask.state import Said, State, start, with_index, with_param, with_strategy

TALK = {"messages": [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "yo", "train": False},
    {"role": "user", "content": "and\tnow?"},
    {"role": "assistant", "content": "so"},
]}  # fmt: skip


@pytest.fixture
def state(tokenizer: Any) -> State:
    return start(tokenizer, [TALK, {"query": "hi", "chosen": "yo", "rejected": "no"}, {"text": "a page"}])


def drawn(html: str) -> list[str]:
    """The classes of the chips in order, the legend apart."""
    return re.findall(r'<b class="(chip[^"]*)" tabindex=0>', html)


def test_control_trained_and_context_are_told_apart_by_mark(state: State) -> None:
    kinds = drawn(page(state))
    assert kinds.count("chip on") == 2  # s, o
    assert kinds.count("chip ctl on") == 1  # the stop token of the one trained answer
    assert kinds.count("chip ctl") == 7
    assert "chip" in kinds


def test_a_token_says_id_position_and_bytes_and_its_group_says_why(state: State) -> None:
    html = page(state)
    assert "<i>id 109 · position 6 · bytes 68</i>" in html
    assert "turn 3 (assistant) · stop: where the turn ends" in html
    assert "Trained. The model must learn to write the token it stops at" in html
    assert "Not trained. This answer is marked as context (train is false in its message)" in html
    assert "Not trained. This is the generation prompt" in html


def test_chinese(state: State) -> None:
    html = page(State(state.tokenizer, state.records, lang="zh"))
    assert "模型必须学会写出停止 token" in html
    assert "位置 6 · 字节 68" in html


def test_numbers_are_said_in_text(state: State) -> None:
    assert re.search(r"\d+ tokens · 3 trained \(\d+\.\d %\) · 8 control", page(state))


def test_both_answers_of_a_preference_and_a_plain_text(state: State) -> None:
    html = page(with_index(state, 1))
    assert "Tokens · chosen" in html
    assert "Tokens · rejected" in html
    html = page(with_index(state, 2))
    assert "One EOS ends every document" in html
    assert "What the strategy writes" not in html


def test_a_bad_marker_is_one_line_on_the_page(state: State) -> None:
    html = page(with_param(state, "user_end", "<｜im_end｜>"))
    assert '<p class="note bad" role="alert"><b>✗</b>' in html
    assert drawn(html) == []


def test_a_dropped_record_and_no_record(state: State) -> None:
    assert "The reason: empty_response." in page(start(state.tokenizer, [{"query": "a", "response": ""}]))
    assert "There is no record to show." in page(start(state.tokenizer, []))


def test_a_changed_parameter_is_marked_and_the_difference_told(state: State) -> None:
    html = page(with_param(state, "train_after_stop", True))
    assert "★ train_after_stop" in html
    assert "train_after_stop = True" in html
    assert "is trained because train_after_stop is on" in html
    assert "differ from the parameters cell" not in page(state)


def test_control_tokens_spelled_in_the_text_are_named_and_stay_text(state: State) -> None:
    html = page(start(state.tokenizer, [{"query": "say <｜im▁end｜>", "response": "ok"}]))
    assert "The text itself spells control tokens (&lt;｜im▁end｜&gt;)" in html
    assert sum("ctl" in kinds for kinds in drawn(html)) == 4


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_data_stays_data(state: State, nasty: str, lang: str) -> None:
    records = [{"messages": [{"role": "user", "content": nasty}, {"role": "assistant", "content": nasty}]}]
    records += [{"messages": [{"role": nasty, "content": "x"}]}, {nasty: nasty}]
    for index in range(3):
        shown = with_index(start(state.tokenizer, records, lang=lang), index)
        html = page(shown)
        html.encode("utf-8")
        assert html == page(shown)
        assert not re.search(r"<(script|img)", html)
        assert not {"\u202e", "\x00", "\u2028"} & set(html)


def test_half_a_character_is_shown_as_its_bytes(state: State) -> None:
    html = page(start(state.tokenizer, [{"query": "é", "response": "ok"}]))
    assert '<i class="u">C3</i>' in html
    assert '<i class="u">A9</i>' in html


def test_a_long_record_is_cut_to_what_a_notebook_can_hold(state: State) -> None:
    html = page(start(state.tokenizer, [{"query": "x" * 9000, "response": "y"}]))
    assert len(drawn(html)) == MOST
    assert "The first 2,000 of" in html
    assert len(html.replace("x" * 9000, "")) < 300_000


def test_another_strategy(state: State) -> None:
    html = page(with_strategy(state, "alpaca"))
    assert "strategy alpaca" in html
    assert "response_start" in html


CASES = [
    ("start", False, "user", "hi", False, "opens? a turn|open a turn"),
    ("content", False, "user", "hi", False, "what the user says"),
    ("stop", False, "user", "hi", False, "closes a turn that is only read"),
    ("after", False, "user", "hi", False, "closes a turn that is only read"),
    ("start", False, "assistant", "yo", False, "generation prompt"),
    ("start", True, "assistant", "yo", False, "inside the answer"),
    ("content", True, "assistant", "yo", False, "must learn to write it"),
    ("stop", True, "assistant", "yo", False, "token it stops at"),
    ("after", True, "assistant", "yo", False, "train_after_stop is on"),
    ("after", False, "assistant", "yo", False, "already stopped in front of it"),
    ("content", False, "assistant", "yo", True, "marked as context"),
    ("stop", False, "assistant", "", False, "empty"),
    ("content", False, "assistant", "yo", False, "out of the loss"),
    ("content", True, "document", "page", False, "text of the document"),
    ("stop", True, "document", "page", False, "One EOS"),
]


@pytest.mark.parametrize(("part", "trained", "role", "text", "context", "sentence"), CASES)
def test_every_piece_has_a_reason(part: str, trained: bool, role: str, text: str, context: bool, sentence: str) -> None:
    said = Said("0", role, text, context)
    assert re.search(sentence, why(Piece([1], trained, 0, part), said))
    assert why(Piece([1], trained, 0, part), said, "zh")


# ── stored rows ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_padding_is_known_by_length_and_never_by_id(tokenizer: Any) -> None:
    """The EOS inside the first document is no padding, the EOS behind the last one is."""
    shown = row([70, 1, 71, 1, 1], [False, True, True, False, False], tokenizer=tokenizer, lengths=[2, 1])
    assert drawn(shown.html) == ["chip", "chip ctl on", "chip on", "chip ctl pad", "chip ctl pad"]
    assert shown.html.count('<span class="new"') == 2
    assert repr(shown) == "<row: 5 places · 2 trained · 2 documents · 2 padding (40.0 %)>"


def test_a_row_without_mask_trains_every_token_of_a_document(tokenizer: Any) -> None:
    shown = row([70, 71, 2], tokenizer=tokenizer, lengths=[2], names=["a.jsonl#L1"])
    assert drawn(shown.html) == ["chip on", "chip on", "chip ctl pad"]
    assert "document 0 of the row · a.jsonl#L1" in shown.html
    assert "This row has no loss mask" in shown.html


def test_a_row_can_be_looked_at_in_parts(tokenizer: Any) -> None:
    shown = row([70] * 5000, tokenizer=tokenizer, start=4000)
    assert len(drawn(shown.html)) == 1000
    assert "Places 4,000 to 4,999 of 5,000 are drawn." in shown.html
    assert len(row([70] * 5000, tokenizer=tokenizer).html) < 300_000


def test_an_id_the_tokenizer_does_not_have_is_shown_as_such(tokenizer: Any) -> None:
    assert '<i class="u">id 70000</i>' in row([70_000], tokenizer=tokenizer).html


def test_names_of_a_row_are_data(tokenizer: Any, nasty: str) -> None:
    html = row([70], tokenizer=tokenizer, names=[nasty]).html
    assert not re.search(r"<(script|img)", html)


def test_a_row_that_does_not_fit_is_refused(tokenizer: Any) -> None:
    with pytest.raises(BadParameter, match="2 ids, but the mask has 1 entries"):
        row([70, 71], [True], tokenizer=tokenizer)
    with pytest.raises(BadParameter, match="segments of 3 tokens in a row of 2"):
        row([70, 71], tokenizer=tokenizer, lengths=[3])
    with pytest.raises(BadParameter, match="1 segments, but 2 names"):
        row([70, 71], tokenizer=tokenizer, names=["a", "b"])
