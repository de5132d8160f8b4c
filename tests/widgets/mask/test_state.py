"""The mask state: every change is a new state, going back gives the old one, nothing is raised while typing."""

from __future__ import annotations

from typing import Any

import pytest

from prep_lib.chat.process import ProcessorFactory
from prep_lib.chat.strategy import PromptStrategy, StrategyFactory
from prep_lib.errors import UnknownName
from prep_lib.recipes import pairs
from prep_lib.special import EOS, IM_END
from widgets.mask.state import (
    State,
    defaults,
    editable,
    parameters,
    record,
    reset,
    rewrite,
    save,
    shown,
    start,
    texts,
    typed,
    unsaved,
    used,
    with_index,
    with_param,
    with_strategy,
    with_text,
    work,
)  # fmt: skip

PAIR = {"query": "hi", "response": "yo"}
TALK = {"messages": [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "yo", "train": False},
    {"role": "user", "content": "and?"},
    {"role": "assistant", "content": "so"},
]}  # fmt: skip
PREFER = {"query": "hi", "chosen": "yo", "rejected": "no"}
TEXT = {"text": "a page"}


@pytest.fixture
def state(tokenizer: Any) -> State:
    return start(tokenizer, [PAIR, TALK, PREFER, TEXT])


def test_what_is_shown_is_what_is_stored(state: State) -> None:
    """The pieces of the widget are the ids and the mask the processor writes, for each kind of record."""
    for at, (kind, keys) in enumerate(
        [("sft", ["sequence"]), ("sft", ["sequence"]), ("dpo", ["chosen", "rejected"]), ("pt", ["sequence"])]
    ):
        result = work(with_index(state, at))
        arrays = ProcessorFactory.create(kind, state.tokenizer).arrays(dict(state.records[at]))
        assert [key for key, _ in result.sequences] == keys
        for key, pieces in result.sequences:
            assert [token for piece in pieces for token in piece.ids] == arrays[key].tolist()
            mask = arrays.get("loss_mask" if key == "sequence" else f"{key}_mask")
            if mask is not None:
                assert [piece.trained for piece in pieces for _ in piece.ids] == mask.tolist()


def test_states_are_equal_by_what_was_chosen(state: State) -> None:
    assert with_param(with_param(state, "train_after_stop", True), "train_after_stop", False) == state
    assert rewrite(rewrite(state, "query", "other"), "query", "hi") == state
    assert with_strategy(with_strategy(state, "alpaca"), "chatml") == state


def test_another_strategy_forgets_parameters_and_another_record_forgets_edits(state: State) -> None:
    turned = rewrite(with_param(state, "user_end", "x"), "query", "other")
    assert with_strategy(turned, "alpaca").params == ()
    assert with_index(turned, 1).edits == ()
    assert reset(turned).edits == ()
    assert with_index(turned, 99).index == 3


def test_a_rewritten_message_is_that_message_only(state: State) -> None:
    turned = rewrite(with_index(state, 1), "4", "better")
    messages = (record(turned) or {})["messages"]
    assert [message["content"] for message in messages] == ["Be kind.", "hi", "yo", "and?", "better"]
    assert TALK["messages"][4]["content"] == "so"


def test_a_place_the_record_does_not_have_is_let_pass(state: State) -> None:
    assert rewrite(state, "17", "x") == state


def test_texts_and_what_may_be_rewritten(state: State) -> None:
    assert [(said.place, said.role, said.context) for said in texts(with_index(state, 1))] == [
        ("0", "system", False), ("1", "user", False), ("2", "assistant", True), ("3", "user", False),
        ("4", "assistant", False),
    ]  # fmt: skip
    assert [said.place for said in editable(with_index(state, 1))] == ["3", "4"]
    assert [said.place for said in editable(with_index(state, 2))] == ["query", "chosen", "rejected"]


def test_a_bad_marker_is_one_line(state: State) -> None:
    result = work(with_param(state, "user_end", "<｜im_end｜>\n"))
    assert result.sequences == ()
    assert "the marker '<｜im_end｜>' is" in result.problem or "marker '<｜im_end｜>'" in result.problem
    assert "\n" not in result.problem


def test_a_dropped_record_says_why(state: State) -> None:
    assert work(rewrite(state, "response", "")).dropped == "empty_response"


@pytest.mark.parametrize("broken", [{}, {"query": 3, "response": "x"}, {"messages": "no list"}, {"messages": [3]}])
def test_a_broken_record_is_one_line(tokenizer: Any, broken: dict[str, Any]) -> None:
    assert work(start(tokenizer, [broken])).problem


def test_half_a_surrogate_pair_is_one_line(state: State) -> None:
    assert "surrogate" in work(rewrite(state, "query", "\ud800")).problem


def test_what_a_strategy_remarks_is_kept(state: State) -> None:
    result = work(with_param(state, "user_end", "</s>"))
    assert result.sequences
    assert "</s>" in result.warned[0]


def test_a_strategy_of_a_persons_own_that_raises_is_one_line(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> PromptStrategy:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(StrategyFactory, "create", broken)
    assert work(state).problem == "ZeroDivisionError: oops"
    assert defaults(state) == {}
    assert used(state) == {}


def test_no_records(tokenizer: Any) -> None:
    empty = start(tokenizer, [])
    assert (record(empty), texts(empty), work(empty).sequences, with_index(empty, 3).index) == (None, [], (), 0)


def test_derived_texts_are_none_by_default_and_follow_the_others(state: State) -> None:
    assert defaults(state)["system_start"] is None
    assert used(state)["system_start"] == "<｜im▁start｜>system\n"
    assert with_text(state, "system_start", "") == state
    assert dict(with_text(state, "system_start", "S:").params) == {"system_start": "S:"}


def test_a_tokenizer_without_the_markers_still_has_fields(state: State) -> None:
    class Bare(type(state.tokenizer)):  # type: ignore[misc]
        def encode(self, text: str, parse_special: bool = False) -> list[int]:
            return [5 + byte for byte in text.encode()]

    bare = start(Bare(), [PAIR])
    assert work(bare).problem
    assert defaults(bare)["allow_multi_token"] is False
    assert work(with_param(bare, "allow_multi_token", True)).sequences


def test_a_line_feed_in_a_field_of_one_line() -> None:
    assert typed(shown(f"{IM_END}\n")) == f"{IM_END}\n"
    assert typed("user\\n") == "user\n"


def test_an_unknown_strategy_is_refused(state: State) -> None:
    with pytest.raises(UnknownName, match="unknown strategy 'chatlm'; did you mean 'chatml'"):
        with_strategy(state, "chatlm")


def test_parameters_are_what_the_recipe_reads(state: State) -> None:
    turned = with_param(with_param(state, "user_end", f"{EOS} it's\n"), "train_after_stop", True)
    told = parameters(turned)
    assert pairs(told["strategy_params"]) == {"user_end": f"{EOS} it's\n"}
    assert told["train_after_stop"] is True
    assert parameters(state) == {"strategy": "chatml", "strategy_params": "", "train_after_stop": False}


def test_what_differs_from_the_parameters_cell_is_told_as_python(state: State) -> None:
    assert unsaved(state) == ""
    turned = with_strategy(state, "alpaca")
    assert unsaved(turned) == "strategy = 'alpaca'\nstrategy_params = ''\ntrain_after_stop = False"
    assert unsaved(save(turned)) == ""
