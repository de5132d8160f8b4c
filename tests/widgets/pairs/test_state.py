"""What is shown is what the run decided and what signatures of everything say; what is marked is what J counts."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import shared as real
from hypothesis import given
from hypothesis import strategies as st
from toy_pairs import RECORDS, STAGE, decided, words

from prep_lib.decide import decide_files
from prep_lib.documents import Documents
from prep_lib.errors import BadInput, BadParameter
from prep_lib.text.exact_dedup import ExactDedup
from prep_lib.text.near_dedup import NearDedup, choose_bands
from prep_lib.text.shingles import shingle_hashes, shingle_texts
from widgets.pairs import state as change
from widgets.pairs.state import Data, State, collect, shared, start


@pytest.fixture(scope="module")
def data(world: Any) -> Data:
    return collect(*world)


@pytest.fixture
def state(data: Data, world: Any) -> State:
    return start(data, world.stage)


def jaccard(one: str, two: str, shingle: str) -> float:
    sets = {*shingle_texts(one, shingle)}, {*shingle_texts(two, shingle)}
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


# What was decided


def test_the_run_is_told_as_the_ledger_has_it(data: Data, world: Any) -> None:
    ledger = Documents(world.folder).ledger
    assert data.names == ("web", "shop", "law"), "the largest first"
    for at, name in enumerate(data.names):
        assert data.documents[at] == ledger.total("near_dedup", "in", name)
        assert data.went[at] == ledger.total("near_dedup", "dropped", name)
        assert data.before[at] == ledger.total("exact_dedup", "dropped", name)
    assert data.went.tolist() == [1, 2, 1]


def test_every_pair_has_its_exact_similarity(data: Data, world: Any) -> None:
    told = [(data.ids[one][-2:], data.ids[two][-2:], round(j, 2), went) for one, two, j, went in data.pairs.tolist()]
    assert [each[2:] for each in told] == [(0.73, False), (0.89, True), (0.95, True), (0.95, True), (0.95, True)]
    assert ({*told[0][:2]}, {*told[2][:2]}) == ({"L3", "L4"}, {"L1", "L2"})
    for one, two, value, went in data.pairs.tolist():
        assert value == pytest.approx(jaccard(data.texts[one].text, data.texts[two].text, "word2"))
        assert (data.twin[one] == two) == went


def test_sampled_truth_is_exact_and_says_what_the_bands_find(state: State) -> None:
    data = state.data
    assert len(data.points) == 6
    assert change.found(state).tolist() == data.points["found"].tolist()
    told = change.bins(state, (0.5, 0.8, 1.0))
    assert [(one.pairs, one.found) for one in told] == [(1, int(data.points["found"][0])), (5, 5)]
    assert 4.9 < told[1].expected <= 5
    strict = change.with_bands(state, "1 x 64")
    assert not change.found(strict).any(), "no two of these texts share all of their minima"


def test_largest_clusters_and_families(state: State) -> None:
    first, *others = change.largest(state)
    assert (first.members, first.went) == (3, 2)
    assert [value is None for _, value in first.texts] == [True, False, False], "the one that stays comes first"
    assert [group.members for group in others] == [2, 2]
    (family,) = change.templates(state)
    assert (family.members, family.went) == (3, 2)
    assert [doc.text.split()[-1] for doc, _ in family.texts] == ["7", "12", "123"]


def test_another_threshold_is_looked_up_and_says_what_the_stage_would(state: State) -> None:
    data = state.data
    assert data.stops[0] == 0.5
    assert data.stops[-1] == 1
    for threshold in (0.5, 0.7, 0.96, 1.0):
        stage = NearDedup(shingle="word2", num_perm=64, recall=0.95, threshold=threshold)
        told = stage.rehearse(data.rows, data.codes, thresholds=())
        assert change.dropped(change.with_threshold(state, threshold)).tolist() == told.dropped[0].tolist()
    assert change.dropped(change.with_text(state, "0.9555")).sum() <= 4, "between two stops"
    assert [one.dropped for one in change.thresholds(state)][-1] == 0
    assert change.dropped(change.with_bands(state, "1 x 64")).sum() == 0


def test_a_source_that_loses_most_of_itself_comes_first(state: State) -> None:
    told = change.losses(state)
    assert [(one.source, one.documents, one.before, one.now, one.alarm) for one in told] == [
        ("shop", 3, 0, 2, True), ("web", 6, 1, 1, False), ("law", 2, 0, 1, False),
    ]  # fmt: skip
    assert [round(one.share, 3) for one in told] == [0.667, 0.333, 0.5], "what went before counts"
    none = change.losses(change.with_threshold(state, 1.0))
    assert not any(one.alarm for one in none)
    assert change.together(told) == (None, 11, 1, 4, 4)


def test_pairs_on_both_sides_of_the_threshold_follow_it(state: State) -> None:
    below, above = change.borderline(state)
    assert [round(pair.jaccard, 2) for pair in below] == [0.73]
    assert [round(pair.jaccard, 2) for pair in above] == [0.89, 0.95, 0.95]
    below, above = change.borderline(change.with_threshold(state, 0.9))
    assert [round(pair.jaccard, 2) for pair in below] == [0.89, 0.73], "the nearest first"
    assert not any(pair.met for pair in change.borderline(change.with_bands(state, "1 x 64"))[1])


def test_nothing_depends_on_the_order_of_the_documents(data: Data, tmp_path: Path) -> None:
    other = collect(*decided(tmp_path, RECORDS[::-1]))
    assert (other.names, other.stops) == (data.names, data.stops)
    assert other.dropped.tolist() == data.dropped.tolist()
    assert other.pairs["jaccard"].tolist() == data.pairs["jaccard"].tolist()
    assert other.points["jaccard"].tolist() == data.points["jaccard"].tolist()
    assert {doc.text for doc in other.texts.values()} == {doc.text for doc in data.texts.values()}


def test_a_few_pairs_of_each_percent_the_nearest_first(tmp_path: Path) -> None:
    stage = replace(STAGE, threshold=0.9)
    records = [("s", f"{words(f'x{at}', 60)} {end}") for at in range(20) for end in ("first", "second")]
    found = collect(*decided(tmp_path, records, stage))
    assert found.went.tolist() == [20]
    assert found.pairs["jaccard"].tolist() == [pytest.approx(59 / 61)] * change.EACH


# A sample


def test_of_many_documents_a_sample_is_shown_in_which_those_alike_come_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [("s", f"{words(f'x{at}', 60)} {end}") for at in range(400) for end in ("first", "second")]
    folder, files, stage = decided(tmp_path, records)
    whole = collect(folder, files, stage)
    monkeypatch.setattr(change, "MOST", 200)
    some = collect(folder, files, stage)
    assert some.share == 0.25
    assert 120 < len(some.ids) < 280
    assert some.gone.sum() == some.went.sum()
    assert abs(some.went.sum() / len(some.ids) - whole.went.sum() / len(whole.ids)) < 0.1
    at_run = start(some, stage)
    assert abs(int(change.dropped(at_run).sum()) - int(some.went.sum())) <= 1, "the run's own number"
    assert (some.twin >= 0).sum() > 0.8 * some.gone.sum(), "alike by 0.96, so nearly always both or neither"
    assert set(some.ids) <= set(whole.ids)


def test_texts_are_read_from_a_few_files_where_there_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [("s", f"{words(f'x{at}', 60)} {end}") for at in range(40) for end in ("first", "second")]
    folder, files, stage = decided(tmp_path, records)
    told = Documents(folder)
    noted = change.sketches(folder, stage)
    assert change._readable(told, noted)[1] is None
    monkeypatch.setattr(change, "READ", told.contents["characters"] // 2)
    readable, only = change._readable(told, noted)
    assert readable.tolist() == (noted.spans == 0).tolist()
    assert only == {str(Path(path).resolve()) for path in ([files] if isinstance(files, str | Path) else files)}


# Marks


@given(st.text("ab c\n一二İ", max_size=30), st.text("ab c\n一二İ", max_size=30), st.sampled_from(["word2", "char3"]))
def test_a_word_is_marked_if_a_shingle_that_holds_it_is_in_both(one: str, two: str, shingle: str) -> None:
    pieces = shared(one, shingle_hashes(two, shingle, unique=True), shingle)
    assert "".join(text for text, _ in pieces) == one
    mine, other = shingle_texts(one, shingle), {*shingle_texts(two, shingle)}
    hits, size = [each in other for each in mine], int(shingle[-1])
    count = len(shingle_texts(one, f"{shingle[:-1]}1"))
    covered = [any(hits[max(0, at - size + 1) : at + 1]) for at in range(count)]
    assert any(both for _, both in pieces) == any(covered)
    assert all(both for _, both in pieces) == (count > 0 and all(covered))
    assert len(pieces) == max(1, 1 + sum(a != b for a, b in pairwise(covered)))


def test_words_in_other_lines_are_the_same_and_a_moved_sentence_too() -> None:
    other = shingle_hashes("the dog ran home\nand the cat sat", "word2", unique=True)
    assert shared("and the cat\nsat here the dog ran home", other, "word2") == (
        ("and the cat\nsat ", True), ("here ", False), ("the dog ran home", True),
    )  # fmt: skip
    assert shared("", other, "word2") == (("", False),)
    assert shared("第一条 ", shingle_hashes("第二条", "word2"), "word2") == (("第一条 ", False),)


# What a person chooses


def test_sliding_and_typing(state: State) -> None:
    assert change.with_stop(state, change.stop(state)) is state
    assert change.with_stop(state, 0).threshold == 0.5
    assert change.with_text(state, "0.85").threshold == 0.85
    for text in ("", "much", "0", "1.5", "nan"):
        assert change.with_text(state, text) == state
    few = replace(state, data=replace(state.data, stage=NearDedup(shingle="word2", num_perm=64, bands=2, rows=32)))
    assert change.with_text(few, "0.01") == few, "no bands of 64 minima find 99 % there"


def test_bands_are_chosen_for_the_threshold_until_a_person_does(state: State) -> None:
    assert change.banded(state) == choose_bands(0.8, 64, 0.95)
    assert change.show_bands(state) == "auto: 10 x 6"
    assert change.with_bands(state, change.show_bands(state)) == state
    own = change.with_bands(state, "9x 7")
    assert (change.banded(own), change.show_bands(own)) == ((9, 7), "9 x 7")
    assert change.banded(change.with_threshold(own, 0.5)) == (9, 7)
    for text in ("9 x 13", "0 x 4", "nine", "9"):
        assert change.with_bands(own, text) == own
    assert change.with_bands(own, "") == state


def test_parameters_name_bands_only_if_they_are_chosen(state: State, data: Data) -> None:
    assert change.unsaved(state) == ""
    moved = change.with_threshold(state, 0.9)
    assert change.unsaved(moved) == "threshold = 0.9"
    own = change.with_bands(moved, "8 x 8")
    assert change.parameters(own) == {"threshold": 0.9, "bands": 8, "rows": 8}
    assert change.unsaved(change.save(own)) == ""
    back = change.with_bands(change.save(own), "auto")
    assert change.unsaved(back) == "threshold = 0.9\nbands = None\nrows = None"
    given = start(data, replace(data.stage, threshold=0.7, bands=8, rows=8))
    assert (given.threshold, given.bands, change.unsaved(given)) == (0.7, (8, 8), "")


# What is refused, and what is not there


def test_signatures_made_in_another_way_are_refused(world: Any) -> None:
    with pytest.raises(BadParameter, match="the run had shingle='word2', this stage has 'word5'"):
        collect(world.folder, world.files, NearDedup(num_perm=64))


def test_a_folder_where_nothing_near_was_decided_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n')
    decide_files([ExactDedup()], tmp_path / "a.jsonl", tmp_path / "out", engine="inline")
    with pytest.raises(BadInput, match="near_dedup did not decide in"):
        collect(tmp_path / "out", tmp_path / "a.jsonl", NearDedup())


def test_no_more_texts_are_read_than_there_is_room_for(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change, "CHARACTERS", 400)
    few = collect(*world)
    assert sum(len(doc.text) for doc in few.texts.values()) <= 400
    assert len(few.pairs) < 5
    assert few.went.tolist() == [1, 2, 1], "numbers come from everything"


def test_real_licences(tmp_path: Path) -> None:
    files = real("mixture/legal_en_spdx.jsonl.gz")
    stage = NearDedup()
    decide_files([ExactDedup(), stage], files, tmp_path / "out", engine="inline")
    state = start(collect(tmp_path / "out", files, stage), stage)
    pairs, points = state.data.pairs, state.data.points
    assert (pairs["jaccard"][pairs["went"]] >= 0.8).all()
    assert (np.abs(pairs["jaccard"] - 0.8) < 0.01).sum() >= 4, "on both sides, close by"
    assert change.found(state)[points["jaccard"] >= 0.8].mean() > 0.95
    # Signatures estimate who goes within a few documents of the truth.
    assert abs(int(change.dropped(state).sum()) - int(state.data.went.sum())) < 15
