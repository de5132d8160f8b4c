"""The control tokens, character by character, and what counts as a marker."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prep_lib.special import BOS, BRACKETED, CONTROL_TOKENS, EOS, IM_END, IM_START, PAD, THOUGHT_TAG, markers


def test_the_tokens_are_spelled_with_the_full_width_bar_and_the_low_block() -> None:
    assert CONTROL_TOKENS == (BOS, EOS, PAD, IM_START, IM_END)
    assert {character for token in CONTROL_TOKENS for character in token if not character.isascii()} == {
        "\N{FULLWIDTH VERTICAL LINE}",
        "\N{LOWER ONE EIGHTH BLOCK}",
    }
    assert BOS == "<\uff5cbegin\u2581of\u2581sentence\uff5c>"
    assert EOS == "<\uff5cend\u2581of\u2581sentence\uff5c>"
    assert (PAD, IM_START, IM_END) == (
        "<\uff5c\u2581pad\u2581\uff5c>",
        "<\uff5cim\u2581start\uff5c>",
        "<\uff5cim\u2581end\uff5c>",
    )


def test_composing_never_changes_them_but_compatibility_folding_would() -> None:
    for token in CONTROL_TOKENS:
        assert unicodedata.normalize("NFC", token) == token
        assert unicodedata.normalize("NFKC", token) != token


@given(st.lists(st.sampled_from([*CONTROL_TOKENS, "<|im_end|>"]), max_size=6), st.text("ab \n｜|▁_", max_size=5))
def test_markers_are_found_in_order_whatever_stands_between(tokens: list[str], between: str) -> None:
    assert markers(between.join(["", *tokens, ""])) == tokens


@pytest.mark.parametrize(
    "text", ["### Response:\n", "<s>", "[INST]", "a < b | c > d", "<||>", "<|two words|>", "<｜｜>"]
)
def test_other_text_holds_no_marker(text: str) -> None:
    assert markers(text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [("<s>[INST] x [/INST]</s>", ["<s>", "[INST]", "[/INST]", "</s>"]), ("a[i] < b > [1] <1>", []), (IM_START, [])],
)
def test_bracketed_pieces(text: str, found: list[str]) -> None:
    assert BRACKETED.findall(text) == found


def test_what_a_model_writes_around_a_thought() -> None:
    for tag in ("<think>", "</think>", "<seed:think>", "</seed:think>"):
        assert THOUGHT_TAG.fullmatch(tag)
    for other in ("<thinking>", "<think", IM_END, "<tool_call>"):
        assert not THOUGHT_TAG.fullmatch(other)
