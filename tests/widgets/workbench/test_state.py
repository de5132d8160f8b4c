"""The workbench state: every change is a new state, going back gives the old one, nothing is raised while typing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from prep_lib.chat.mask import Policy
from prep_lib.chat.template import ChatTemplate
from prep_lib.errors import BadParameter, UnknownName
from prep_lib.recipes import pairs
from prep_lib.tokens.tokenizer import AutoTokenizer
from tests.widgets.workbench.conftest import CHATML, ENDLESS, LOOPS, PAIR, RECORDS, TALK
from widgets.workbench import state as change
from widgets.workbench.state import State, start


def trained(state: State) -> str:
    """What the targets of the row shown spell."""
    tokens = [token.id for strand in change.work(state).strands for token in strand.tokens if token.trained]
    return state.data.tokenizer.decode(tokens)


def test_every_form_is_read_and_named(make: Callable[..., State]) -> None:
    state = make()
    found = [change.work(change.with_index(state, index)) for index in range(5)]
    assert [done.form for done in found] == ["messages", "query_response", "preference_prompt", "kto", "text"]
    assert [len(done.strands) for done in found] == [1, 1, 2, 1, 1]
    assert [done.label for done in found] == [None, None, None, False, None]
    assert trained(state) == "so it is<｜im▁end｜>"


def test_states_are_equal_by_what_was_chosen(make: Callable[..., State]) -> None:
    state = make()
    assert change.rewrite(change.rewrite(state, "messages.0", "other"), "messages.0", "hi") == state
    assert change.with_source(change.with_source(state, ENDLESS), CHATML) == state
    assert change.with_way(change.with_way(state, "strategy: alpaca"), "template: mine") == state
    assert change.with_policy(change.with_policy(state, "answers", "last"), "answers", "all") == state
    edited = change.with_source(state, ENDLESS)
    assert change.with_way(edited, "template: mine") == edited, "the present one again keeps what was edited"
    assert change.reset(edited) == state


def test_what_was_rewritten_belongs_to_its_record(make: Callable[..., State]) -> None:
    state = change.rewrite(make(), "messages.3", "it was")
    assert trained(state) == "it was<｜im▁end｜>"
    assert change.with_index(state, 1).edits == ()
    assert TALK["messages"][3]["content"] == "so it is"
    assert change.rewrite(state, "messages.99", "x") == state


def test_a_record_may_be_rewritten_whole(make: Callable[..., State]) -> None:
    state = make()
    assert change.rewrite(state, "record", change.as_json(state)) == state
    turned = change.rewrite(state, "record", json.dumps(PAIR))
    assert (change.work(turned).form, trained(turned)) == ("query_response", "yo<｜im▁end｜>")
    both = change.rewrite(turned, "messages.1", "so")
    assert trained(both) == "so<｜im▁end｜>"
    broken = change.work(change.rewrite(state, "record", '{"messages": ['))
    assert broken.strands == ()
    assert broken.problem


@pytest.mark.parametrize("record", [{}, {"messages": "no"}, {"messages": [3]}, {"query": 3, "response": ""}])
def test_a_broken_record_is_one_line(make: Callable[..., State], record: dict[str, Any]) -> None:
    done = change.work(make([record]))
    assert done.strands == ()
    assert done.problem
    assert "\n" not in done.problem


def test_no_records(make: Callable[..., State]) -> None:
    state = make([])
    assert change.work(state).strands == ()
    assert (change.texts(state), change.as_json(state), change.with_index(state, 3).index) == ([], "", 0)
    assert change.search(state, "x") == state
    assert change.walk(state) == state
    assert change.settle(state, 10).scan is not None


@pytest.mark.parametrize("source", ["{% for", "{{ raise_exception('no') }}", LOOPS, "{{ nothing() }}"])
def test_the_last_template_that_worked_is_shown_while_typing(make: Callable[..., State], source: str) -> None:
    state = make()
    done = change.work(change.with_source(state, source))
    assert done.stale
    assert done.problem
    assert done.strands == change.work(state).strands
    assert change.edited(change.with_source(state, source))


def test_a_template_may_come_with_its_options(known: AutoTokenizer) -> None:
    chat = ChatTemplate("{{ word }}" + CHATML, known, variables={"word": "hi"})
    state = start(known, [PAIR], templates={"mine": chat})
    tokens = change.work(state).strands[0].tokens
    assert known.decode([tokens[0].id]) == "hi"
    assert hash(state.way) == hash(replace(state.way, options={}))


def test_a_row_that_cannot_be_proven_says_why(make: Callable[..., State]) -> None:
    silent = make([PAIR], way="mine")
    (strand,) = change.work(change.with_source(silent, "{{ messages[0].content }}")).strands
    assert strand.problem is not None
    assert strand.problem[0] == "message_not_rendered"


# ── choices ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_may_be_compared_with(make: Callable[..., State]) -> None:
    state = make()
    assert change.rivals(state)[:4] == ["", "template: endless", "strategy: chatml", "strategy: alpaca"]
    assert "template: mine" in change.rivals(change.with_source(state, ENDLESS)), "an edited one with its original"
    turned = replace(state, other="policy: answers")
    assert change.rival(turned) == (state.way, Policy(answers="last"))
    assert change.rival(state) is None
    for code in change.rivals(state)[1:]:
        shown = replace(state, other=code)
        assert change.rival(shown) is not None
        assert code in change.rivals(change.with_way(shown, code) if code.startswith("t") else shown)


def test_wrong_choices_are_refused(make: Callable[..., State], known: AutoTokenizer) -> None:
    with pytest.raises(UnknownName, match="unknown template or strategy 'mime'; did you mean 'mine'"):
        make(way="mime")
    with pytest.raises(BadParameter, match="neither a template nor a strategy"):
        start(known, [], strategies=[])
    with pytest.raises(BadParameter, match="too_long must be one of drop, cut_turns, cut, got 'chop'"):
        make(too_long="chop")
    with pytest.raises(BadParameter, match="max_length must be 0"):
        make(max_length=-1)


def test_the_next_record_that_holds_a_text(make: Callable[..., State]) -> None:
    state = make()
    assert change.search(state, "A PAGE").index == 4
    assert change.search(change.with_index(state, 4), "yo").index == 0, "round the end"
    assert change.search(change.with_index(state, 4), "yo", -1).index == 3
    assert change.search(state, "nowhere") == state
    assert change.search(state, "") == state


def test_what_is_left_under_a_limit(make: Callable[..., State]) -> None:
    state = make()
    n = len(change.work(state).strands[0].tokens)
    for too_long, left in (("drop", "too_long"), ("cut", [n - 3])):
        shown = replace(state, max_length=n - 3, too_long=too_long)
        assert change.kept(shown, change.work(shown).strands) == left
    assert change.kept(replace(state, max_length=n), change.work(state).strands) == [n]
    pair = replace(change.with_index(state, 2), max_length=8, too_long="cut")
    assert change.kept(pair, change.work(pair).strands) == "no_target"


# ── parts and rows ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_parts_belong_to_the_choices_they_were_made_for(make: Callable[..., State]) -> None:
    state = make(way="endless")
    assert change.pending(state) == ["findings", "methods", "repairs"]
    done = change.settle(state)
    assert change.pending(done) == []
    found, current = change.part(done, "findings")
    assert current
    assert found is not None
    assert "EOT_NOT_TRAINED" in {finding.rule for finding in found.value.findings}
    other = change.with_policy(done, "answers", "last")
    assert change.pending(other) == ["findings", "methods", "repairs"]
    assert change.part(other, "findings")[1] is False
    assert change.pending(change.with_way(done, "strategy: chatml")) == []


def test_a_part_that_fails_is_a_line(make: Callable[..., State], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(change, "diagnose", broken)
    found, _ = change.part(change.with_part(make(), "findings"), "findings")
    assert found is not None
    assert found.problem == "ZeroDivisionError: oops"


def test_findings_come_before_their_repairs(make: Callable[..., State]) -> None:
    state = change.with_index(make(way="endless"), 1)
    found, _ = change.part(change.with_part(state, "findings"), "findings")
    assert found is not None
    first = next(one for one in found.value.findings if one.rule == "EOT_NOT_TRAINED")
    assert first.repair is None
    done = change.settle(state)
    found, current = change.part(done, "findings")
    assert found is not None
    assert current
    assert next(one for one in found.value.findings if one.rule == "EOT_NOT_TRAINED").repair is not None
    other = change.with_part(change.with_index(done, 0), "findings")
    assert change.part(other, "findings")[1]
    assert change.pending(other) == ["methods", "repairs"]


def test_where_nothing_is_found_nothing_is_looked_for_again(
    make: Callable[..., State], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = change.with_part(change.with_index(make([PAIR]), 0), "findings")
    monkeypatch.setattr(change, "diagnose", None)
    found, _ = change.part(change.with_part(state, "repairs"), "repairs")
    assert found is not None
    assert not found.problem


def test_a_proven_repair_can_be_taken(make: Callable[..., State]) -> None:
    state = change.settle(change.with_source(make(), CHATML.replace("{{ m.content }}", "{{ m.content | trim }}")))
    turned = change.repaired(change.settle(change.rewrite(state, "messages.2", " and now? ")))
    fix = change.repair(change.settle(change.rewrite(state, "messages.2", " and now? ")))
    if fix is None:
        pytest.skip("the doctor proposes no text for this")
    assert turned.way.source == fix.template


def test_all_rows_are_looked_at_in_slices(make: Callable[..., State]) -> None:
    rows = [*RECORDS, {"nothing": 1}, {"query": "say <｜im▁end｜>", "response": "ok"}]
    state = make(rows)
    while not change.scanned(state):
        state = change.scan_some(state, 2)
    whole = change.scan_some(make(rows), 100)
    assert state.scan is not None
    assert state.scan.groups == whole.scan.groups  # type: ignore[union-attr]
    assert (state.scan.done, state.scan.clean) == (7, 5)
    assert [(group.rule, group.rows, group.first) for group in state.scan.groups] == [
        ("RECORD_UNREADABLE", 1, (5,)), ("LITERAL_SPECIAL_IN_CONTENT", 1, (6,)),
    ]  # fmt: skip
    assert len(state.scan.rows) == 6
    assert not change.scanned(change.with_policy(state, "answers", "last"))


def test_walking_goes_from_finding_to_finding(make: Callable[..., State]) -> None:
    state = change.scan_some(make([PAIR, {}, PAIR, {}, PAIR]), 10)
    assert change.walk(state).index == 1
    assert change.walk(change.walk(state)).index == 3
    assert change.walk(change.walk(change.walk(state))).index == 1
    assert change.walk(state, -1).index == 3
    assert change.walk(replace(state, rule="other")) == replace(state, rule="other")


def test_strategies_are_looked_at_too(make: Callable[..., State]) -> None:
    state = change.scan_some(make([PAIR, {}, {"query": "a", "response": ""}], way="chatml"), 10)
    assert state.scan is not None
    assert {group.rule for group in state.scan.groups} >= {"unknown_form"}
    assert state.scan.clean == 1


def test_an_endless_template_does_not_take_all_rows(make: Callable[..., State]) -> None:
    state = change.with_source(make([PAIR] * 50), LOOPS)
    looks = 0
    while not change.scanned(state):
        state, looks = change.scan_some(state, 1), looks + 1
    assert looks == change.LIMITED


def test_limits_are_tried_on_the_rows_looked_at(make: Callable[..., State]) -> None:
    state = change.settle(make(max_length=12), 100)
    losses, current = change.part(state, "truncation")
    assert current
    assert losses is not None
    assert [loss.too_long for loss in losses.value] == ["drop", "cut_turns", "cut"]
    assert losses.value[0].rows_dropped > 0


# ── parameters and files ─────────────────────────────────────────────────────────────────────────────────────────────


def test_parameters_are_what_the_recipe_reads(make: Callable[..., State]) -> None:
    state = make(way="chatml", params={"user_end": "it's\n", "allow_multi_token": True})
    told = change.parameters(state)
    assert pairs(told["strategy_params"]) == {"user_end": "it's\n"}
    assert (told["template"], told["strategy"], told["allow_multi_token"]) == ("", "chatml", True)
    assert "strategy" not in change.parameters(make())


def test_what_differs_from_the_parameters_cell_is_told_as_python(make: Callable[..., State]) -> None:
    state = make()
    assert change.unsaved(state) == ""
    turned = change.with_policy(change.with_way(state, "template: endless"), "reasoning", False)
    assert change.unsaved(turned) == "template = 'endless'\nreasoning = False"
    assert change.unsaved(change.save(turned)) == ""


def test_an_edited_template_becomes_one_that_lies_somewhere(make: Callable[..., State]) -> None:
    state = change.with_source(make(), ENDLESS)
    kept = change.stored(state, "runs/a/template.jinja")
    assert not change.edited(kept)
    assert change.parameters(kept)["template"] == "runs/a/template.jinja"
    assert change.label(kept.ways[0]) == "template: runs/a/template.jinja"
    assert len(kept.ways) == len(state.ways) + 1


def test_files_are_the_template_and_the_findings(make: Callable[..., State]) -> None:
    names = ["a.jsonl#L1", "a.jsonl#L2"]
    state = change.settle(make([PAIR, {}], way="endless", names=names), 10)
    files = change.files(state)
    assert files["template.jinja"] == ENDLESS
    told = json.loads(files["findings.json"])
    assert {group["rule"]: group["first"] for group in told["rows"]["found"]}["RECORD_UNREADABLE"] == ["a.jsonl#L2"]
    assert "EOT_NOT_TRAINED" in {finding["rule"] for finding in told["findings"]}
    assert told["choices"]["template"] == "endless"
    assert list(change.files(change.with_way(state, "strategy: chatml"))) == ["findings.json"]
    assert change.files(state) == files


# ── parameters of a strategy, as fields ──────────────────────────────────────────────────────────────────────────────


def test_derived_texts_are_none_by_default_and_follow_the_others(make: Callable[..., State]) -> None:
    state = make(way="chatml", params={"user_end": "X"})
    assert (change.defaults(state)["user_end"], change.defaults(state)["system_start"]) == ("<｜im▁end｜>\n", None)
    assert (change.used(state)["user_end"], change.used(state)["system_start"]) == ("X", "<｜im▁start｜>system\n")


def test_a_tokenizer_without_the_markers_still_has_fields() -> None:
    state = start(AutoTokenizer().train(["hi"] * 3, special_tokens=["<|endoftext|>"]), [PAIR], strategies=["chatml"])
    assert change.work(state).problem
    assert change.defaults(state)["allow_multi_token"] is False


def test_a_strategy_of_a_persons_own_that_raises_has_no_fields(
    make: Callable[..., State], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("oops")

    state = make(way="chatml", params={"user_end": "x"})
    monkeypatch.setattr(change.StrategyFactory, "create", broken)
    assert (change.defaults(state), change.used(state)) == ({}, {"user_end": "x"})


def test_a_line_feed_in_a_field_of_one_line() -> None:
    assert change.typed(change.shown("<｜im▁end｜>\n")) == "<｜im▁end｜>\n"
    assert change.typed("user\\n") == "user\n"
