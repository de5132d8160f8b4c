"""Strands: a strategy and a template that write the same give the same tokens and reasons; differences are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from prep_lib.chat.mask import WHY, Policy, Token
from prep_lib.chat.process import ProcessorFactory
from prep_lib.record import Conversation, Message, Preference
from prep_lib.tokens.tokenizer import AutoTokenizer
from widgets.workbench import strand
from widgets.workbench.state import State, with_index, with_way, work, worked
from widgets.workbench.strand import as_row, changes, conversations


def letters(text: str, trained: str = "") -> list[Token]:
    """One token a letter; those of `trained` are targets. A digit is the number of the message from there on."""
    out, message = [], None
    for letter in text:
        if letter.isdigit():
            message = int(letter)
        else:
            part, on = "content", letter in trained
            out.append(Token(ord(letter), 0, 0, message, "content", 0, part, on, "answer" if on else "prompt"))
    return out


def said(found: list[strand.Change]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    return [(change.a, change.b) for change in found]


def test_a_strategy_and_a_template_of_the_same_text_are_the_same_tokens(make: Callable[..., State]) -> None:
    state = make()
    chatml = next(way for way in state.ways if way.name == "chatml")
    for index in range(4):
        shown = with_index(state, index)
        one, other = work(shown).strands, worked(shown, chatml, shown.policy).strands
        assert [strand.key for strand in one] == [strand.key for strand in other]
        for mine, theirs in zip(one, other, strict=True):
            assert changes(mine.tokens, theirs.tokens) == []
            assert [(token.start, token.stop, token.why) for token in mine.tokens if token.trained] == [
                (token.start, token.stop, token.why) for token in theirs.tokens if token.trained
            ]


def test_what_is_shown_of_a_strategy_is_what_is_stored(make: Callable[..., State], known: AutoTokenizer) -> None:
    state = with_way(make(), "strategy: chatml")
    for index, kind in enumerate(["sft", "sft"]):
        (shown,) = work(with_index(state, index)).strands
        arrays = ProcessorFactory.create(kind, known).arrays(dict(state.data.records[index]))
        row = as_row([shown])
        assert np.array_equal(row.arrays["sequence"], arrays["sequence"])
        assert np.array_equal(row.arrays["loss_mask"], arrays["loss_mask"])


def test_places_are_characters_also_where_a_character_is_several_tokens(make: Callable[..., State]) -> None:
    state = with_way(make([{"query": "a你b", "response": "é"}]), "strategy: chatml")
    (shown,) = work(state).strands
    content = [token for token in shown.tokens if token.message == 0 and token.part == "content"]
    base = content[0].start
    assert [(token.start - base, token.stop - base) for token in content] == [(0, 1), (1, 2), (1, 2), (1, 2), (2, 3)]
    assert [token.at for token in content] == [0, 1, 1, 1, 2]


@pytest.mark.parametrize("message", [{"tool_calls": ({"type": "function"},)}, {"reasoning": "hm"}])
def test_what_no_strategy_writes_is_refused(make: Callable[..., State], message: dict[str, object]) -> None:
    talk = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]}
    talk["messages"][1] |= {"reasoning_content": "hm"} if "reasoning" in message else {
        "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {}}}]
    }  # fmt: skip
    done = work(with_way(make([talk]), "strategy: chatml"))
    assert done.strands == ()
    assert "unwritten_field: messages[1]." in done.problem
    assert "choose a template" in done.problem


def test_the_prompt_of_a_preference_is_context() -> None:
    prompt = (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    pair = Preference("", prompt, (Message("assistant", "d"),), (Message("assistant", "e"),))
    for key, talk in conversations(pair):
        assert key in ("chosen", "rejected")
        assert Policy().wanted(talk.messages) == [3]


def test_every_reason_of_a_strategy_is_one_of_the_masks(make: Callable[..., State]) -> None:
    state = with_way(make(), "strategy: alpaca")
    for index in range(4):
        for shown in work(with_index(state, index)).strands:
            assert {token.why for token in shown.tokens} <= set(WHY)


def test_a_text_that_is_too_long_is_told_and_not_tokenised(make: Callable[..., State]) -> None:
    done = work(make([{"query": "x" * (strand.CHARACTERS + 1), "response": "yo"}]))
    assert "are not tokenised while you look" in done.problem


# ── differences ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_differences_are_places_of_both() -> None:
    assert changes(letters("0abc"), letters("0abc")) == []
    assert said(changes(letters("0abc"), letters("0axc"))) == [((1, 2), (1, 2))]
    assert said(changes(letters("0ac"), letters("0abc"))) == [((1, 1), (1, 2))]
    assert said(changes(letters("0abc"), letters("0abc", trained="b"))) == [((1, 2), (1, 2))]
    assert said(changes(letters("0"), letters("0ab"))) == [((0, 0), (0, 2))]


def test_a_difference_knows_its_message() -> None:
    (change,) = changes(letters("0ab1cd"), letters("0ab1xd"))
    assert change.message == 1
    (change,) = changes(letters("0ab"), letters("0ab1c"))
    assert change.message == 1


def test_long_ones_are_aligned_message_by_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strand, "ALIGNED", 4)
    one, other = letters("xab0cdef1ghij"), letters("yab0cdxf1ghyj")
    assert said(changes(one, other)) == [((0, 1), (0, 1)), ((5, 6), (5, 6)), ((9, 10), (9, 10))]
    # What is too long even so is one change.
    assert said(changes(letters("0abcabc"), letters("0xyzxyz"))) == [((0, 6), (0, 6))]


def test_rows_have_a_turn_for_each_token() -> None:
    tokens = tuple(letters("ab0cd1e"))
    tokens = (*tokens, replace(tokens[0], message=None))
    shown = strand.Strand("sequence", Conversation("", ()), tokens)
    assert as_row([shown]).turn.tolist() == [0, 0, 0, 0, 1, 1]
