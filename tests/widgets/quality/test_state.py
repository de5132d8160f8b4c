"""Limits move, and everything that follows is what the rules themselves would say."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_quality import DOCS, EN, VALUES, Toy

from prep_lib.errors import BadParameter, UnknownName
from prep_lib.record import Document, Drop
from prep_lib.text.presets import Rule, RuleSet, parse_limits
from prep_lib.text.quality import Quality, decide
from widgets.quality import state as change
from widgets.quality.state import Limit, State, collect, start

DATA = collect(DOCS, Toy(), VALUES)
FIRST = start(DATA)
LOW, HIGH, SIGNS, FEW = "toy/en:words>=", "toy/en:words<=", "toy/en:signs<=", "toy/zh:few>="
NUMBERS = st.sampled_from([0.0, 0.05, 0.1, 1.0, 2.0, 3.0, 9.0, 100.0, math.nan])


def at(name: str, value: float, state: State = FIRST) -> State:
    return change.with_value(change.choose(state, name), value)


# Who falls


def test_the_world_by_the_presets() -> None:
    told = change.tally(FIRST)
    assert told.first.tolist() == [0, -1, 1, 0, 2, -1]
    assert told.times.tolist() == [1, 0, 1, 2, 1, 0]
    assert [tuple(row) for row in change.rows(FIRST, told)] == [
        ("toy/en:words", 2, 2, 1), ("toy/en:signs", 2, 1, 1), ("toy/zh:few", 1, 1, 1),
    ]  # fmt: skip


def test_a_moved_limit_brings_documents_back() -> None:
    state = at(LOW, 2)
    assert change.tally(state).first.tolist() == [-1, -1, 1, 0, 2, -1]
    assert change.preset(state) is change.tally(FIRST)
    assert at(HIGH, 5).moved == ((HIGH, 5.0),)
    assert change.tally(at(HIGH, 5)).kept.tolist() == [False, True, False, False, False, True]


def test_off_lets_everything_pass_even_what_has_no_value() -> None:
    values = VALUES.copy()
    values[4, 0] = np.nan
    state = start(collect(DOCS, Toy(), values))
    assert not change.tally(state).kept[4]
    assert change.tally(at(FEW, -math.inf, state)).kept[4]
    assert not change.tally(at(LOW, math.inf)).kept[3], "signs still drop it"
    assert change.tally(at(LOW, math.inf)).first.tolist()[:4] == [-1, -1, 1, 1]


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=8), NUMBERS, NUMBERS)
def test_law_it_decides_as_the_rules_do(table: list[tuple[float, float]], low: float, high: float) -> None:
    values = np.array(table)
    docs = [Document(str(number), "x", "s", {"language": "en"}) for number in range(len(table))]
    state = at(SIGNS, high, at(LOW, low, start(collect(docs, Toy(), values))))
    now = dict(state.moved)
    # A rule whose limits can never hold is none of a rule set, but where a slider may stand.
    told = change.tally(state)
    if now.get(LOW, 3) <= 100 and (rules := EN.moved(now)) is not None:
        assert told.first.tolist() == decide(rules, values).tolist()
    counted = change.rows(state, told)
    assert sum(row.first for row in counted) == (~told.kept).sum()
    assert all(row.alone <= row.first <= row.falls for row in counted)


def test_law_it_says_what_the_stage_says(tmp_path: Path) -> None:
    """Line rules among it: they shorten what stays, and a page of which they leave nothing falls."""
    (tmp_path / "my.yaml").write_text(
        "name: mine\nlanguages: [en]\nwords: blank\nlines: {min_words: 3}\n"
        "rules:\n  - {signal: words, low: 2}\n  - {signal: hashes, high: 0.2}\n"
    )
    quality = Quality(rules=f"en={tmp_path / 'my.yaml'} other=pass")
    texts = ["One line that stays.\nNot this", "# # #", "No end mark here", "", "fr", "All of it stays here."]
    docs = [Document(str(n), text, "s", {"language": "fr" if text == "fr" else "en"}) for n, text in enumerate(texts)]
    data = collect(docs, quality)
    told = change.tally(start(data))
    for number, doc in enumerate(docs):
        verdict = quality.judge(doc)
        if isinstance(verdict, Drop):
            assert data.columns[told.first[number]].name == verdict.reason
        else:
            assert told.kept[number]
            assert data.left[number] == len(verdict.apply(doc.text) if verdict else doc.text)
    assert [data.columns[place].rule for place in told.first if place >= 0] == ["hashes", "lines", "words"]
    assert "mine:lines>=" not in data.limits


def test_a_table_of_another_shape_is_refused() -> None:
    with pytest.raises(BadParameter, match=r"signals must be \(documents, signals\) = \(6, 2\), got \(6, 1\)"):
        collect(DOCS, Toy(), VALUES[:, :1])


def test_nothing_at_all() -> None:
    state = start(collect([], Quality()))
    assert (state.limit, change.stop(state), change.rows(state, change.tally(state))) == (None, 0, [])
    assert change.borderline(state) == ([], [])
    assert change.histogram(state) is None
    assert change.with_text(state, "3") == change.reset(state) == state


# What a person chooses


def test_it_begins_with_the_rule_that_drops_most_by_itself() -> None:
    values = VALUES.copy()
    values[1, 1] = 0.3
    assert start(collect(DOCS, Toy(), values)).chosen == SIGNS


def test_a_limit_where_the_preset_has_it_is_not_moved() -> None:
    state = at(LOW, 5)
    assert (state.value, state.limit) == (5, Limit("toy/en", "words", "low", 3.0))
    assert change.with_value(state, 3).moved == ()
    assert change.reset(state) == replace(FIRST, chosen=LOW)
    two = at(SIGNS, 0.5, state)
    assert change.reset(two).moved == ((LOW, 5.0),)
    assert change.reset(two, every=True).moved == ()


def test_what_is_typed() -> None:
    state = change.choose(FIRST, LOW)
    assert change.with_text(state, " 4.5 ").value == 4.5
    assert change.with_text(state, "off").value == -math.inf
    assert change.with_text(change.choose(FIRST, SIGNS), "off").value == math.inf
    for nonsense in ("", "four", "nan"):
        assert change.with_text(state, nonsense) == state
    assert change.choose(state, "nothing") == state


@pytest.mark.parametrize("name", [LOW, HIGH, SIGNS, FEW])
def test_law_the_slider_and_the_limit_agree(name: str) -> None:
    state = change.choose(FIRST, name)
    places = change.stops(state)
    assert places == sorted(set(places))
    assert {state.value, state.limit.off if state.limit else 0} <= set(places)
    low, high = {LOW: (-math.inf, 100), HIGH: (3, math.inf)}.get(name, (-math.inf, math.inf))
    for stop in range(len(places)):
        moved = change.with_stop(state, stop)
        assert moved.value == min(max(places[stop], low), high), "the rule's other limit holds it"
        assert change.stop(moved) == stop or moved.value != places[stop]
        assert change.with_stop(moved, stop) == moved
    between = change.with_value(state, 2.2)
    assert change.with_stop(between, change.stop(between)) == between
    assert change.with_stop(state, 999) == state


# The parameters cell


@given(st.dictionaries(st.sampled_from([LOW, HIGH, SIGNS, FEW]),
                       st.floats(allow_nan=False, allow_infinity=False) | st.just(math.inf)))  # fmt: skip
def test_law_limits_are_read_as_they_were_written(limits: dict[str, float]) -> None:
    state = FIRST
    for name, value in limits.items():
        state = at(name, value, state)
    text = change.format_limits(state)
    assert parse_limits(text) == dict(state.moved)
    again = start(DATA, text)
    assert (again.moved, again.saved, change.unsaved(again)) == (state.moved, text, "")


def test_the_form_of_the_parameter() -> None:
    state = at(SIGNS, math.inf, at(LOW, 0.25, at(HIGH, 30)))
    assert change.parameters(state) == {"limits": "toy/en:signs<=off toy/en:words<=30 toy/en:words>=0.25"}
    assert change.unsaved(state) == "limits = 'toy/en:signs<=off toy/en:words<=30 toy/en:words>=0.25'"
    assert change.unsaved(change.save(state)) == ""
    assert start(DATA, "toy/en:words>=3").moved == ()


@pytest.mark.parametrize("text", ["words>=3", "a:b=3", "a:b<3", "a:b<=", "a:b<=x", "a:b<=nan", "a:b<=3 a:b<=4"])
def test_limits_that_are_none(text: str) -> None:
    with pytest.raises(BadParameter, match=r"^limits: "):
        parse_limits(text)


def test_a_limit_no_rule_has() -> None:
    with pytest.raises(UnknownName, match=r"unknown limit 'toy/en:word>='; did you mean 'toy/en:words>='\?"):
        start(DATA, "toy/en:word>=3")


# What is drawn


def test_groups_count_documents_and_characters() -> None:
    state = at(LOW, 2)
    found = {group.name: tuple(group[1:]) for group in change.groups(state, *DATA.languages)}
    assert found == {"en": (4, 2, 1, 100, 30, 20), "zh": (1, 0, 0, 50, 0, 0), "fr": (1, 1, 1, 60, 60, 60)}
    assert [group.name for group in change.groups(state, *DATA.sources)] == ["web", "book"]


def test_many_groups_are_one_line() -> None:
    docs = [Document(str(n), "ab", f"s{n}", {"language": "en"}) for n in range(change.GROUPS + 5)]
    data = collect(docs, Toy(), np.full((len(docs), 2), 0.0))
    found = change.groups(start(data), *data.sources)
    assert (len(found), found[-1].name, found[-1].documents, found[-1].characters) == (change.GROUPS + 1, None, 5, 10)


def test_the_histogram_counts_every_measured_document_once() -> None:
    values = VALUES.copy()
    values[0, 1] = np.nan
    state = at(SIGNS, 0.3, start(collect(DOCS, Toy(), values)))
    told = change.histogram(state)
    assert told is not None
    assert (told.kept.sum(), told.others.sum(), told.falls.sum(), told.missing) == (2, 0, 1, 1)
    assert told.preset == pytest.approx(0.1 / told.edges[-1], abs=0.01)
    assert told.now is not None
    assert told.preset is not None
    assert told.now > told.preset
    off = change.histogram(change.with_value(state, math.inf))
    assert off is not None
    assert (off.now, off.falls.sum()) == (None, 0)


def test_a_wide_signal_is_drawn_by_its_logarithm() -> None:
    docs = [Document(str(n), "x", "s", {"language": "en"}) for n in range(5)]
    values = np.array([[1, 0], [10, 0], [100, 0], [1000, 0], [90_000, 0]], np.float64)
    told = change.histogram(change.choose(start(collect(docs, Toy(), values)), LOW))
    assert told is not None
    assert told.edges[change.BARS // 2] < 1000
    assert np.count_nonzero(told.kept + told.falls) == 5
    assert (told.kept + told.falls).sum() == 5


def test_borderline_documents_are_the_nearest_on_both_sides() -> None:
    docs = [Document(f"d{n}", "x", "s", {"language": "en"}) for n in range(20)]
    values = np.array([[n, 0.5 if n in (11, 7) else 0] for n in range(20)], np.float64)
    state = at(LOW, 10, start(collect(docs, Toy(), values)))
    kept, dropped = change.borderline(state)
    assert [example.document.id for example in kept] == ["d10", "d12", "d13", "d14", "d15"]
    assert [example.document.id for example in dropped] == ["d9", "d8", "d7", "d6", "d5"]
    assert [example.also for example in dropped] == [(), (), ("signs",), (), ()]
    assert [example.value for example in dropped] == [9, 8, 7, 6, 5]
    high = change.borderline(at(HIGH, 15, state))
    assert [[example.document.id for example in side][:2] for side in high] == [["d15", "d14"], ["d16", "d17"]]
    off = change.borderline(change.with_value(state, math.inf))
    assert [example.document.id for example in off[0]][:2] == ["d0", "d1"]
    assert off[1] == []


def test_health_is_of_the_limits_as_they_are_now() -> None:
    def kinds(state: State) -> set[tuple[str, str]]:
        return {(finding.kind, finding.rule) for finding in change.findings(state)["toy/en"]}

    assert ("fired_often", "words") in kinds(FIRST)
    assert ("never_fired", "words") in kinds(at(LOW, 0))
    off = at(HIGH, math.inf, at(LOW, -math.inf))
    assert not {pair for pair in kinds(off) if pair[1] == "words"}
    assert "toy/zh" not in change.findings(at(FEW, -math.inf)), "no rule is left"


def test_little_is_remembered() -> None:
    for number in range(50):
        change.tally(at(LOW, 10 + number))
    assert all(len(known) <= change.REMEMBERED for known in DATA.memo.values())


def test_rules_of_one_name_in_two_sets_are_two() -> None:
    other = RuleSet("toy/other", None, (Rule("words", "words", low=1),))
    data = collect(DOCS, Toy({"en": EN, "zh": other, "fr": None}), VALUES)
    assert [column.name for column in data.columns] == ["toy/en:words", "toy/en:signs", "toy/other:words"]


def test_a_language_outside_the_design_is_found() -> None:
    data = collect(DOCS, Toy({"en": EN, "fr": EN, "zh": None}), VALUES)
    found = [finding for finding in change.findings(start(data))["toy/en"] if finding.kind == "other_language"]
    assert [(finding.rule, finding.share) for finding in found] == [("fr", 0.2)]


def test_a_limit_does_not_pass_the_other_one_of_its_rule() -> None:
    assert at(HIGH, 1.0).value == 3, "low is 3"
    assert at(LOW, 500.0).value == 100
    assert at(HIGH, 1.0, at(LOW, math.inf)).value == 1, "low is off"
    for low in change.stops(at(LOW, 3.0)):
        for high in change.stops(at(HIGH, 100.0)):
            moved = dict(at(HIGH, high, at(LOW, low)).moved)
            EN.moved(moved)
    with pytest.raises(BadParameter, match="keeps nothing"):
        start(DATA, f"{LOW}50 {HIGH}20")
    assert dict(start(DATA, f"{LOW}200 {HIGH}300").moved) == {LOW: 200, HIGH: 300}


def test_one_endless_name_among_many_short_ones() -> None:
    docs = [Document(str(at), "x", "s" * (10**6 if at == 7 else 1), {"language": "en"}) for at in range(2000)]
    assert len(collect(docs, Toy(), np.zeros((2000, 2))).sources[0]) == 2
