"""The packing state: from counts the same as from rows, and the strips hold what the plan says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.build import build_shards
from prep_lib.errors import BadParameter, UnknownName
from prep_lib.tokens.pack import ALGORITHMS, Comparison, compare, concat_pieces
from prep_lib.tokens.pack import pieces as cut_pieces
from prep_lib.tokens.tokenizer import AutoTokenizer
from widgets.packing.state import (
    STRIPS,
    SWEPT,
    State,
    count,
    documents,
    parameters,
    pieces,
    plan,
    rows,
    save,
    sizes,
    sweep,
    unsaved,
)

ROWS = st.lists(st.integers(1, 40), min_size=1, max_size=60)


@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(1, 30))
def test_the_table_is_what_compare_says_from_the_rows(lengths: list[int], pack_size: int) -> None:
    trained = [length // 2 for length in lengths]
    state = State(count(lengths, trained), pack_size=pack_size)
    told = [Comparison(*list(vars(row).values())[:-1]) for row in rows(state)]
    assert told == compare(np.array(lengths), pack_size, np.array(trained))


@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(1, 30), st.sampled_from(["pad", "drop"]))
def test_attention_outside_documents_is_counted_from_the_pieces_of_every_pack(
    lengths: list[int], pack_size: int, tail: str
) -> None:
    rows_of = np.array(lengths)
    packs = sum(lengths) // pack_size if tail == "drop" else -(-sum(lengths) // pack_size)
    pack, _, _, length = concat_pieces(rows_of, pack_size)
    found = {row.algorithm: row for row in rows(State(count(lengths), "concat", pack_size, tail=tail))}
    assert found["concat"].packs == packs
    assert found["concat"].lost_tokens == (sum(lengths) % pack_size if tail == "drop" else 0)
    _, _, parts = cut_pieces(rows_of, pack_size, "best_fit_split")
    inside = {"concat": length[pack < packs], "best_fit_split": parts, "one_row": rows_of[rows_of <= pack_size]}
    for name, held in inside.items():
        whole = found[name].packs * pack_size**2
        assert found[name].outside == pytest.approx(1 - (held.astype(int) ** 2).sum() / whole if whole else 0), name


def test_the_sweep_is_worked_out_once() -> None:
    data = count([600, 40_000, 3])
    before = sweep(State(data, "best_fit", 64, tail="drop"))
    assert list(before) == list(SWEPT) == [512, 1024, 2048, 4096, 8192, 16384, 32768]
    plans = dict(data.plans)
    assert sweep(State(data, "concat", 64, "zh", tail="drop")) == before
    assert data.plans == plans
    assert [row.lost_tokens for row in before[512]] == [40_603 % 512, 40_600, 0, 40_600]


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
    with pytest.raises(UnknownName, match="unknown tail 'cut'"):
        State(count([3]), tail="cut")


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
    assert parameters(State(data, size_name="seq_len")) == {"seq_len": 4096, "packing": "best_fit"}


@pytest.mark.parametrize("packing", ALGORITHMS)
def test_a_folder_tells_the_lengths_of_all_documents_whatever_was_lost(tmp_path: Path, packing: str) -> None:
    texts = ["a" * n for n in (3, 7, 1, 30, 4)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    tokenizer = AutoTokenizer().train(["b"], vocab_size=261)
    build_shards(tmp_path / "a.jsonl", tmp_path / "out", tokenizer, 10, packing=packing, engine="inline", workers=1)
    found = documents(tmp_path / "out").tolist()
    assert sorted(found) == [2, 4, 5, 8, 31], "a byte a token, and EOS"
    assert found == [4, 8, 2, 31, 5] or packing == "best_fit"
