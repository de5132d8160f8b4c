"""The packing state: from counts the same as from rows, and the strips hold what the plan says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.errors import BadParameter, UnknownName
from prep_lib.tokens.pack import ALGORITHMS, compare
from widgets.packing.state import STRIPS, State, count, parameters, pieces, plan, rows, save, sizes, unsaved

ROWS = st.lists(st.integers(1, 40), min_size=1, max_size=60)


@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(1, 30))
def test_the_table_is_what_compare_says_from_the_rows(lengths: list[int], pack_size: int) -> None:
    trained = [length // 2 for length in lengths]
    state = State(count(lengths, trained), pack_size=pack_size)
    assert rows(state) == compare(np.array(lengths), pack_size, np.array(trained))


@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(1, 30), st.sampled_from(ALGORITHMS))
def test_a_strip_is_never_longer_than_a_pack_and_all_strips_hold_all_tokens(
    lengths: list[int], pack_size: int, algorithm: str
) -> None:
    state = State(count(lengths), algorithm, pack_size)
    drawn = pieces(state)
    packs = plan(state.data, pack_size, algorithm)
    assert [number for number, _ in drawn] == sorted({number for number, _ in drawn})
    assert all(0 < sum(piece.tokens for piece in members) <= pack_size for _, members in drawn)
    if packs.packs <= STRIPS:
        assert sum(piece.tokens for _, members in drawn for piece in members) == packs.tokens


def test_concat_shows_where_a_document_goes_on() -> None:
    (_, first), (_, second) = pieces(State(count([3, 3]), "concat", 4))
    assert [(piece.tokens, piece.document, piece.came, piece.goes) for piece in first + second] == [
        (3, 0, False, False), (1, 1, False, True), (2, 1, True, False),
    ]  # fmt: skip


def test_best_fit_split_marks_what_was_cut_off_a_longer_row() -> None:
    drawn = pieces(State(count([9, 4]), "best_fit_split", 4))
    assert sorted((piece.tokens, piece.came) for _, members in drawn for piece in members) == [
        (1, True), (4, False), (4, True), (4, True),
    ]  # fmt: skip


def test_many_packs_are_shown_from_first_to_last() -> None:
    numbers = [number for number, _ in pieces(State(count([4] * 100), pack_size=4))]
    assert (len(numbers), numbers[0], numbers[-1]) == (STRIPS, 0, 99)


def test_a_plan_is_made_once() -> None:
    data = count([3, 4])
    assert plan(data, 4, "best_fit") is plan(data, 4, "best_fit_split")
    assert plan(data, 3, "best_fit") is not plan(data, 3, "best_fit_split")


def test_one_giant_row_does_not_make_a_giant_table() -> None:
    state = State(count([10**9, 3]), pack_size=4)
    assert [row.lost_tokens for row in rows(state)] == [0, 10**9, 0, 10**9]


def test_no_rows() -> None:
    state = State(count([]))
    assert [row.packs for row in rows(state)] == [0, 0, 0, 0]
    assert pieces(state) == []


def test_nonsense_is_refused() -> None:
    with pytest.raises(BadParameter, match="a row must have at least 1 token, got length 0"):
        count([3, 0])
    with pytest.raises(BadParameter, match="2 lengths, but trained has 1 entries"):
        count([3, 4], [1])
    with pytest.raises(UnknownName, match="unknown algorithm 'best-fit'; did you mean 'best_fit'"):
        State(count([3]), "best-fit")
    with pytest.raises(BadParameter, match="pack_size must be at least 1"):
        State(count([3]), pack_size=0)


def test_the_slider_knows_the_size_that_was_given() -> None:
    assert 1000 in sizes(State(count([3]), pack_size=1000))
    assert sizes(State(count([3]))) == sorted(sizes(State(count([3]))))


def test_what_differs_from_the_parameters_cell_is_told_as_lines_to_paste() -> None:
    data = count([3])
    state = save(State(data, pack_size=8))
    assert unsaved(state) == ""
    turned = State(data, "concat", 8, saved=state.saved)
    assert parameters(turned) == {"pack_size": 8, "packing": "concat"}
    assert unsaved(turned) == "pack_size = 8\npacking = 'concat'"
    assert unsaved(save(turned)) == ""
    assert unsaved(State(data)) == ""
