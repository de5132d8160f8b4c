"""The rehearsal's page: the same numbers as bars and as words, and nothing from data is trusted."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from toy_quality import DOCS, VALUES, Toy

from prep_lib.record import Document
from prep_lib.text.quality import Quality
from widgets.quality import state as change
from widgets.quality.page import page
from widgets.quality.state import State, collect, start

LOW, SIGNS = "toy/en:words>=", "toy/en:signs<="
FIRST = change.choose(start(collect(DOCS, Toy(), VALUES)), LOW)
MOVED = change.with_value(FIRST, 2)


def body(state: State) -> str:
    return page(state).split("</style>")[1]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("state", [FIRST, MOVED, change.with_value(FIRST, math.inf), change.choose(MOVED, SIGNS)])
def test_the_same_state_gives_the_same_bytes_in_both_languages(state: State, lang: str) -> None:
    state = replace(state, lang=lang)
    assert page(state) == page(replace(state))
    assert "toy/en" in page(state)


def test_kept_and_dropped_now_and_by_the_preset() -> None:
    html = body(MOVED)
    assert 'aria-label="preset: kept 2 documents (33.3 %) · dropped 4 · characters lost 130 (61.9 %)"' in html
    assert 'aria-label="now: kept 3 documents (50.0 %) · dropped 3 · characters lost 120 (57.1 %)"' in html
    assert "1 documents come back (10 characters) and 0 more go (0 characters)" in html
    assert "No limit is moved." in body(FIRST)
    assert "1 documents are in no rule set and pass" in html


def test_the_limit_is_said_and_drawn() -> None:
    html = body(MOVED)
    assert "kept while words ≥ 2 (preset: 3)" in html
    assert (
        'aria-label="Documents by their value. kept 2, dropped by other rules only 1, dropped by this rule 1"' in html
    )
    assert html.count("2px solid var(--ink)") == 1
    assert html.count("2px dashed var(--ink)") == 1
    assert "2px dashed" not in body(FIRST), "the preset is where the limit is"
    off = body(change.with_value(FIRST, math.inf))
    assert "kept while words ≥ off (preset: 3)" in off
    assert "2px solid var(--ink)" not in off


def test_each_rule_with_its_counts() -> None:
    html = body(MOVED)
    assert "★ words" in html
    assert "words ≥ 2 ≤ 100 *</span></td><td>1</td><td>1</td><td>0</td><td>2</td>" in html
    assert "hashes ≤ 0.1</span></td><td>2</td><td>1</td><td>1</td><td>1</td>" in html


def test_rules_that_drop_nobody_are_folded() -> None:
    html = body(change.choose(change.with_value(change.choose(FIRST, SIGNS), math.inf), LOW))
    assert "that drop nobody" not in html, "by the preset it did"
    values = VALUES.copy()
    values[:, 1] = 0
    assert "1 rules of toy/en that drop nobody" in body(change.choose(start(collect(DOCS, Toy(), values)), LOW))


def test_borderline_documents_with_value_and_places() -> None:
    html = body(change.choose(FIRST, SIGNS))
    assert "<b>0.2</b> · d2 · book · 30 characters" in html
    assert "also dropped by words" in html
    assert html.count("<mark") > 10


def test_the_cell_is_told_of_a_difference() -> None:
    assert "differ from the parameters cell" in body(MOVED)
    assert "limits = &#x27;toy/en:words&gt;=2&#x27;" in body(MOVED)
    assert "differ from the parameters cell" not in body(change.save(MOVED))
    assert "differ from the parameters cell" not in body(FIRST)


def test_health() -> None:
    assert "drop very many (share of the documents):" in body(FIRST)
    assert "drop nobody here:" in body(change.with_value(FIRST, 0))


def test_nothing_from_data_is_trusted(nasty: str) -> None:
    docs = [Document(nasty, nasty + "#", nasty, {"language": "en"}), Document("2", nasty, nasty, {"language": nasty})]
    toy = Toy({"en": Toy().route("en"), nasty: None})
    html = body(change.choose(start(collect(docs, toy, np.array([[5, 0.5], [5, 0.0]]))), SIGNS))
    assert "<script" not in html
    assert "<img" not in html
    assert "\u202e" not in html
    assert "U+202E" in html


def test_without_documents_or_rules() -> None:
    for state in (start(collect([], Quality())), start(collect(DOCS, Toy({}), VALUES))):
        assert "There is no document that a rule looks at." in body(state)
