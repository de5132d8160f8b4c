"""Every drop is proven against one that stays, one of each cluster stays, and the bands find what the curve says."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import shared
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.errors import BadParameter, BadRecord
from prep_lib.record import Document, Drop
from prep_lib.stage import run
from prep_lib.text import near_dedup
from prep_lib.text.near_dedup import (
    NearDedup,
    choose_bands,
    components,
    curve,
    exact_jaccard,
    groups,
    least_matches,
    permutations,
    settle,
    sign,
)
from prep_lib.text.shingles import read_shingles, shingle_texts

#: A few words in any order: sets that are like each other to every degree.
WORDS = st.lists(st.sampled_from("abcdefghij"), max_size=12).map(" ".join)
CORPORA = st.lists(WORDS, max_size=14)
THRESHOLDS = st.sampled_from([0.3, 0.5, 0.6, 0.75, 0.8, 1.0])
#: The first call compiles.
slow = settings(deadline=None)


def documents(texts: Sequence[str]) -> list[Document]:
    return [Document(f"t.jsonl#L{at}", text) for at, text in enumerate(texts)]


def words(threshold: float, **parameters: Any) -> NearDedup:
    """A stage that compares sets of single words."""
    return NearDedup(threshold=threshold, shingle="word1", num_perm=64, recall=0.9, **parameters)


def sketches(stage: NearDedup, docs: Sequence[Document]) -> np.ndarray:
    return np.concatenate([np.empty(0, stage.row), *map(stage.sketch, docs)])


def evidence(stage: NearDedup, docs: Sequence[Document]) -> tuple[np.ndarray, np.ndarray]:
    found = [stage.evidence(doc) for doc in docs]
    return np.cumsum([0, *map(len, found)]), np.concatenate([np.empty(0, np.uint64), *found])


def jaccard(one: str, two: str, shingle: str = "word1") -> float:
    a, b = set(shingle_texts(one, shingle)), set(shingle_texts(two, shingle))
    return len(a & b) / max(len(a | b), 1)


def drops(stage: NearDedup, docs: Sequence[Document]) -> dict[str, Drop]:
    return {each.document.id: each.drop for each in run([stage], docs).dropped if isinstance(each.drop, Drop)}


def near_texts(count: int, shared_words: int, own: int) -> list[str]:
    """Texts that share words and have words of their own: any two are shared / (shared + 2 own) alike."""
    return [
        " ".join([*(f"w{at}" for at in range(shared_words)), *(f"x{k}y{at}" for at in range(own))])
        for k in range(count)
    ]


# ── who stays ────────────────────────────────────────────────────────────────────────────────────────────────────────


def plain(stage: NearDedup, docs: Sequence[Document]) -> dict[str, tuple[str, float]]:
    """The rule in plain Python: one after the other, against all that stay, share a band and are not told far apart."""
    rows = sketches(stage, docs)
    keys, least = stage.keys(rows), least_matches(stage.threshold, stage.num_perm)
    ranks = sorted(range(len(docs)), key=lambda k: (-len(docs[k].text), int(rows["tie"][k]), int(rows["id"][k])))
    kept: list[int] = []
    out = {}
    for k in ranks if stage.keep == "best" else range(len(docs)):
        for other in kept:
            meets = bool(((keys[k] == keys[other]) & (keys[k] > 0)).any())
            alike = int((rows["signature"][k] == rows["signature"][other]).sum()) >= least
            if meets and alike and (j := jaccard(docs[k].text, docs[other].text)) >= stage.threshold:
                out[docs[k].id] = docs[other].id, j
                break
        else:
            kept.append(k)
    return out


@pytest.mark.parametrize("num_perm", [2, 128, 1030, 4096])
@pytest.mark.parametrize("threshold", [0.1, 0.8, 1.0])
def test_the_least_matches_of_any_signature(num_perm, threshold):
    least = near_dedup.least_matches(threshold, num_perm)
    spread = math.sqrt(num_perm * threshold * (1 - threshold))
    assert num_perm * threshold - 5 * spread - 1 <= least <= num_perm * threshold


@pytest.mark.parametrize("threshold", [1e-300, 1e-9, 0.001, 0.2, 0.999999, 1.0])
@pytest.mark.parametrize("recall", [1e-12, 0.5, 0.999999])
def test_bands_of_any_threshold_reach_the_recall_or_are_refused(threshold, recall):
    try:
        bands, rows = choose_bands(threshold, 128, recall)
    except BadParameter:
        # Even a hash a band does not find so many.
        assert curve(128, 1, threshold) < recall
    else:
        assert bands * rows <= 128
        assert curve(bands, rows, threshold) >= recall * (1 - 1e-3)


@slow
@given(CORPORA, THRESHOLDS, st.sampled_from(["best", "first"]))
def test_who_goes_is_what_the_plain_rule_says(texts: list[str], threshold: float, keep: str) -> None:
    stage, docs = words(threshold, keep=keep), documents(texts)
    assert {name: (drop.twin, drop.value) for name, drop in drops(stage, docs).items()} == plain(stage, docs)


@slow
@given(CORPORA, THRESHOLDS, st.randoms(use_true_random=False))
def test_verdicts_do_not_depend_on_the_order_of_documents(
    texts: list[str], threshold: float, rng: random.Random
) -> None:
    docs = documents(texts)
    assert drops(words(threshold), rng.sample(docs, len(docs))) == drops(words(threshold), docs)


@slow
@given(CORPORA, THRESHOLDS)
def test_every_drop_is_proven_and_nothing_is_left_to_drop(texts: list[str], threshold: float) -> None:
    stage, docs = words(threshold), documents(texts)
    result = run([stage], docs)
    kept = {doc.id: doc.text for doc in result.kept}
    for each in result.dropped:
        assert isinstance(each.drop, Drop)
        assert (
            each.drop.value == jaccard(each.document.text, kept[each.drop.twin or ""]) >= threshold == each.drop.limit
        )
    assert run([stage], result.kept).kept == result.kept
    assert bool(kept) == bool(docs)


def test_similarity_is_not_handed_on() -> None:
    """A is like B and B is like C, A is not like C: both A and C stay, whatever other tools say of chains."""
    numbers = list(map(str, range(100)))
    chain = [" ".join(numbers[start : start + 60]) for start in range(0, 40, 6)]
    result = run([NearDedup(shingle="word1", recall=0.9999)], documents(chain))
    assert len(result.kept) > len(chain) / 3
    assert len(result.dropped) > 0
    texts = [doc.text for doc in result.kept]
    assert max(jaccard(a, b) for a in texts for b in texts if a != b) < 0.8


def test_one_of_equal_documents_stays_the_first_where_that_is_asked() -> None:
    docs = documents(["a b c", "a b c d", "a b c d", "d c b a"])
    assert [doc.id for doc in run([words(1.0, keep="first")], docs).kept] == [docs[0].id, docs[1].id]
    best = run([words(1.0)], docs)
    assert len(best.kept) == 2
    assert {each.drop.twin for each in best.dropped} <= {docs[1].id, docs[2].id, docs[3].id}  # type: ignore[union-attr]


@pytest.mark.parametrize("shingle", ["word5", "char5"])
def test_texts_shorter_than_a_shingle_are_compared_whole(shingle: str) -> None:
    different = documents(["no way", "oh my", "so be", "at it", "go up"])
    assert run([NearDedup(shingle=shingle)], different).kept == different
    equal = documents(["a bc d"[: 3 if shingle == "char5" else None]] * 5)
    assert len(run([NearDedup(shingle=shingle)], equal).kept) == 1
    short = documents(["abc", "abd", "", "", " \n", "abc"])
    result = run([NearDedup(shingle=shingle)], short)
    assert sorted(doc.text for doc in result.kept) == sorted(["", "", " \n", "abc", "abd"])


def test_texts_that_differ_only_in_numbers_go_by_similarity_alone_and_are_told_as_a_family() -> None:
    routes = documents([f"Route {at} (R {at}) starts in Example County." for at in range(12, 112)])
    stage = NearDedup()
    assert run([stage], routes).kept == routes
    told = stage.rehearse(sketches(stage, [*routes, Document("other", "Route of another sort")]))
    assert [family.tolist() for family in told.families] == [list(range(100))]
    assert (told.family_count, told.family_documents) == (1, 100)
    long = "word " + " ".join(f"w{at}" for at in range(100))
    assert len(run([stage], documents([f"{long} page {at}" for at in range(30)])).kept) == 1


def test_two_versions_of_a_quotation_show_what_the_shingle_does() -> None:
    one = "学习一门语言需要长期积累。要想说得流利，就要多听多读多说。"
    two = "学习一门语言需要长期积累。想要说得流利，就得多听多读多说。——佚名"
    alike = {name: jaccard(one, two, name) for name in ("char2", "char5", "word5")}
    assert alike["char2"] > 0.6 > 0.5 > max(alike["char5"], alike["word5"])
    assert len(run([NearDedup(threshold=0.6, shingle="char2")], documents([one, two])).kept) == 1
    assert len(run([NearDedup(threshold=0.6, shingle="char5")], documents([one, two])).kept) == 2


def test_a_document_whose_text_cannot_be_had_fails_and_takes_nobody_with_it() -> None:
    class Lossy(NearDedup):
        def evidence(self, doc: Document) -> np.ndarray:
            if doc.id == "2":
                raise BadRecord("gone", "text")
            return super().evidence(doc)

    result = run([Lossy()], [Document(str(at), "the same text in all of them") for at in range(4)])
    assert len(result.kept) == 1
    assert sorted(type(each.drop).__name__ for each in result.dropped) == ["BadRecord", "Drop", "Drop"]


# ── many ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def made(sets: Sequence[np.ndarray], num_perm: int = 128) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Rows and evidence of made-up sets of hashes, longer documents first."""
    rows = np.zeros(len(sets), NearDedup(num_perm=num_perm).row)
    rows["characters"], rows["tie"] = len(sets) - np.arange(len(sets)), np.arange(len(sets))
    rows["shingles"] = list(map(len, sets))
    for row, hashes in zip(rows, sets, strict=True):
        near_dedup.sign(hashes, *permutations(42, num_perm), row["signature"])
    return rows, (np.cumsum([0, *map(len, sets)]), np.concatenate([np.sort(each) for each in sets]))


def test_twenty_thousand_copies_with_a_number_each_cost_one_comparison_each() -> None:
    draw = np.random.default_rng(1)
    page = draw.integers(0, 2**64, 60, np.uint64)
    sets = [np.concatenate([page, own]) for own in draw.integers(0, 2**64, (20_000, 3), np.uint64)]
    rows, shown = made(sets)
    told = np.zeros(3, np.int64)
    twin, similarity = settle(rows, *groups(NearDedup().keys(rows), np.arange(len(rows))), shown, 0.8, told=told)
    assert (twin[1:] == 0).mean() > 0.999
    assert set(similarity[twin >= 0].tolist()) == {60 / 66}
    assert told.max() < 1.01 * len(rows)


def test_a_template_just_below_the_threshold_is_not_compared_pair_by_pair() -> None:
    """2,000 documents, any two 0.7 alike, all stay: two million pairs, of which few are worth a look at the sets."""
    draw = np.random.default_rng(2)
    page = draw.integers(0, 2**64, 140, np.uint64)
    sets = [np.concatenate([page, own]) for own in draw.integers(0, 2**64, (2000, 30), np.uint64)]
    rows, shown = made(sets)
    told = np.zeros(3, np.int64)
    twin, _ = settle(rows, *groups(NearDedup().keys(rows), np.arange(len(rows))), shown, 0.8, told=told)
    assert (twin == -1).all()
    assert told[0] > 1_000_000
    assert told[1] < 70 * len(rows)


@slow
@given(st.lists(st.sets(st.integers(0, 40), min_size=1), min_size=1, max_size=25), st.integers(0, 3))
def test_asking_who_holds_the_rarer_shingles_changes_no_verdict(sets: list[set[int]], many: int) -> None:
    rows, shown = made([np.array(sorted(each), np.uint64) * np.uint64(0x9E3779B97F4A7C15) for each in sets])
    everyone = groups(np.ones((len(rows), 1), np.uint64), np.arange(len(rows)))
    asked, usual = settle(rows, *everyone, shown, 0.6, many=many), settle(rows, *everyone, shown, 0.6)
    assert [part.tolist() for part in asked] == [part.tolist() for part in usual]


def test_a_table_too_small_for_its_shingles_only_looks_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    sets, _ = drawn_pairs(100, 50, 9)
    rows, shown = made(sets)
    everyone = groups(np.ones((len(rows), 1), np.uint64), np.arange(len(rows)))
    usual = settle(rows, *everyone, shown, 0.8)
    monkeypatch.setattr(near_dedup, "ROOM", 256)
    small = settle(rows, *everyone, shown, 0.8)
    assert [part.tolist() for part in small] == [part.tolist() for part in usual]
    assert (usual[0] >= 0).any()


# ── signatures and bands ─────────────────────────────────────────────────────────────────────────────────────────────


def drawn_pairs(count: int, size: int, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Sets of hashes, two by two, and how alike each two are, from 0.5 to 0.95."""
    draw = np.random.default_rng(seed)
    out, alike = [], []
    for similarity in draw.uniform(0.5, 0.95, count):
        both = round(2 * size * similarity / (1 + similarity))
        hashes = draw.integers(0, 2**64, 2 * size - both, np.uint64)
        out += [hashes[:size], hashes[size - both :]]
        alike.append(both / (2 * size - both))
    return out, np.array(alike)


@pytest.mark.parametrize("size", [60, 300, 1500])
def test_the_estimate_is_as_good_as_theory_says(size: int) -> None:
    sets, alike = drawn_pairs(600, size, size)
    rows, _ = made(sets)
    signatures = rows["signature"]
    error = (signatures[::2] == signatures[1::2]).mean(axis=1) - alike
    expected = math.sqrt((alike * (1 - alike) / 128).mean())
    assert math.sqrt((error**2).mean()) == pytest.approx(expected, rel=0.12)
    assert abs(error.mean()) < 4 * expected / math.sqrt(len(alike))


@pytest.mark.parametrize(("bands", "rows"), [(16, 6), (9, 13), (14, 8), (25, 5)])
def test_the_bands_find_the_share_of_the_curve(bands: int, rows: int) -> None:
    sets, alike = drawn_pairs(3000, 100, bands)
    sketched, _ = made(sets)
    keys = NearDedup(bands=bands, rows=rows).keys(sketched)
    found = (keys[::2] == keys[1::2]).any(axis=1)
    expected = curve(bands, rows, alike)
    for low in (0.5, 0.65, 0.8):
        some = (alike >= low) & (alike < low + 0.15)
        spread = math.sqrt((expected[some] * (1 - expected[some])).sum()) / some.sum()
        assert found[some].mean() == pytest.approx(expected[some].mean(), abs=4 * spread + 1e-9)


def test_minima_are_of_32_bits() -> None:
    """The product of two uint32 is a uint64 to numba: uncut, each pair would be a candidate."""
    hashes = np.random.default_rng(3).integers(0, 2**64, 37, np.uint64)
    factors, terms = permutations(42, 16)
    plain = [
        min((int(f) * (int(h) >> 32) + int(t)) % 2**32 for h in hashes) for f, t in zip(factors, terms, strict=True)
    ]
    outs = np.empty((2, 16), np.uint32)
    near_dedup.sign(hashes, factors, terms, outs[0])
    with np.errstate(over="ignore"):
        near_dedup.sign.python(hashes, factors, terms, outs[1])
    assert outs.tolist() == [plain, plain]
    assert (factors % 2 == 1).all()


@pytest.mark.parametrize("shingle", ["word2", "char3"])
def test_a_text_among_others_is_sketched_as_it_is_alone(shingle: str) -> None:
    stage = NearDedup(shingle=shingle, num_perm=16, recall=0.5)
    texts = [
        "the cat sat on the mat",
        "",
        " ",
        "ÉCOLE à 12 km, École à 7 km",
        "我有 a cat",
        "half \ud800 a pair",
        "cat",
    ]
    docs = documents(texts)
    rows = np.concatenate(stage.sketch_many(docs))
    assert rows.tobytes() == sketches(stage, docs).tobytes()
    assert stage.sketch_many([]) == []
    for row, text in zip(rows, texts, strict=True):
        hashes, template = read_shingles(text, shingle)
        signature = np.empty(16, np.uint32)
        sign(hashes, *permutations(stage.seed, 16), signature)
        assert (row["shingles"], row["template"]) == (len(hashes), template)
        assert row["signature"].tolist() == signature.tolist()


def test_signatures_do_not_change() -> None:
    """They are in the sketches of runs that may be resumed by a later version: a change must change the stage's key."""
    row = NearDedup(num_perm=4, recall=0.5).sketch(Document("1", "the cat sat on the mat"))[0]
    assert row["signature"].tolist() == SIGNATURE
    assert (
        NearDedup(num_perm=4, recall=0.5, seed=7).sketch(Document("1", "the cat"))[0]["signature"].tolist() != SIGNATURE
    )


@pytest.mark.parametrize("num_perm", [16, 128, 256])
@pytest.mark.parametrize("threshold", [0.5, 0.7, 0.8, 0.9, 1.0])
def test_the_bands_chosen_reach_the_recall_with_the_fewest_false_candidates(threshold: float, num_perm: int) -> None:
    bands, rows = choose_bands(threshold, num_perm, 0.95)
    assert curve(bands, rows, threshold) >= 0.95
    assert bands * rows <= num_perm
    grid = np.linspace(0, threshold, 200)
    area = curve(bands, rows, grid).sum()
    for r in range(1, num_perm + 1):
        for b in range(1, num_perm // r + 1):
            assert curve(b, r, threshold) < 0.95 or curve(b, r, grid).sum() >= area * 0.999


def test_the_specified_call_finds_forty_percent() -> None:
    assert curve(9, 13, 0.8) == pytest.approx(0.40, abs=0.005)
    assert curve(*choose_bands(0.8), 0.8) > 0.99


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=30))
@slow
def test_groups_and_components_are_those_of_plain_python(pairs: list[tuple[int, int]]) -> None:
    keys = np.array([key for key, _ in pairs], np.uint64)
    places = np.array([place for _, place in pairs], np.int64)
    met = {key: sorted({place for other, place in pairs if other == key}) for key, _ in pairs if key}
    expected = [met[key] for key in sorted(met) if len(met[key]) > 1]
    starts, members = groups(keys, places)
    assert [members[a:b].tolist() for a, b in itertools.pairwise(starts)] == expected
    labels: dict[int, int] = {place: place for group in expected for place in group}
    for _ in labels:
        for group in expected:
            smallest = min(labels[place] for place in group)
            labels |= dict.fromkeys(group, smallest)
    named, found = components(starts, members)
    assert dict(zip(named.tolist(), found.tolist(), strict=True)) == labels


def test_kernels_are_their_python_twins() -> None:
    stage, docs = words(0.6), documents(["a b c d", "a b c", "b c d e", "", "e f", "a b c d e", "f e"])
    rows, shown = sketches(stage, docs), evidence(stage, docs)
    keys, names = (
        stage.keys(rows),
        ["sign", "band_keys", "mark", "gather", "unite", "spread", "greedy", "count_matches"],
    )
    settled = settle(rows, *groups(keys, np.arange(7)), shown, 0.6)
    seen = stage.truth(rows, lambda at: stage.evidence(docs[at]))
    compiled = {name: getattr(near_dedup, name) for name in names}
    try:
        for name in names:
            setattr(near_dedup, name, compiled[name].python)
        with np.errstate(over="ignore"):
            assert sketches(stage, docs).tobytes() == rows.tobytes()
            assert stage.keys(rows).tolist() == keys.tolist()
            again = settle(rows, *groups(keys, np.arange(7)), shown, 0.6)
            assert stage.truth(rows, lambda at: stage.evidence(docs[at])).tobytes() == seen.tobytes()
    finally:
        for name in names:
            setattr(near_dedup, name, compiled[name])
    assert [part.tolist() for part in again] == [part.tolist() for part in settled]
    assert (settled[0] >= 0).any()


# ── before anything is decided ───────────────────────────────────────────────────────────────────────────────────────


def test_a_rehearsal_tells_losses_by_source_clusters_and_alarms() -> None:
    texts = [*near_texts(20, 190, 5), *near_texts(1, 0, 200), "entirely other words"]
    sources = np.array([1] * 20 + [0, 0])
    stage = NearDedup(shingle="word1")
    docs = documents(texts)
    told = stage.rehearse(
        sketches(stage, docs), sources, evidence=lambda at: stage.evidence(docs[at]), thresholds=(0.5, 0.99)
    )
    assert told.thresholds == (0.5, 0.8, 0.99)
    assert told.documents.tolist() == [2, 20]
    assert told.dropped.tolist() == [[0, 19], [0, 19], [0, 0]]
    assert told.shares().tolist() == [0, 0.95]
    assert told.alarms().tolist() == [1]
    assert told.alarms(threshold=0.99).tolist() == []
    assert [count for _, count in told.clusters] == [19]
    assert [len(family) for family in told.families] == [20]


def test_a_rehearsal_with_evidence_tells_what_a_run_does() -> None:
    """Of a family below the threshold the signatures alone let more go than a run does."""
    docs = documents([*near_texts(300, 140, 30), *[text.replace("w", "v") for text in near_texts(20, 190, 5)]])
    stage = NearDedup(shingle="word1")
    rows = sketches(stage, docs)
    told = stage.rehearse(rows, evidence=lambda at: stage.evidence(docs[at]), thresholds=(0.6, 0.9))
    runs = {limit: len(run([NearDedup(shingle="word1", threshold=limit)], docs).dropped) for limit in told.thresholds}
    assert dict(zip(told.thresholds, told.dropped[:, 0].tolist(), strict=True)) == runs
    assert runs[0.8] == 19 < stage.rehearse(rows).dropped[stage.rehearse(rows).thresholds.index(0.8), 0]


def test_a_rehearsal_of_nothing() -> None:
    stage = NearDedup()
    told = stage.rehearse(np.empty(0, stage.row))
    assert told.dropped.sum() == told.family_count == len(told.clusters) == 0
    assert len(stage.truth(np.empty(0, stage.row), lambda at: None)) == 0
    assert run([stage], []).kept == []


def test_the_truth_is_exact_and_lies_on_the_curve() -> None:
    texts = [text for own in range(2, 60) for text in near_texts(4, 100, own)]
    texts = [text.replace("w", f"w{at // 4}_") for at, text in enumerate(texts)]
    docs, stage = documents(texts), NearDedup(shingle="word1", bands=9, rows=13)
    rows = sketches(stage, docs)
    found = stage.truth(rows, lambda at: stage.evidence(docs[at]), anchors=200, floor=0.3)
    assert len(found) > 250
    for pair in found[::10]:
        assert pair["jaccard"] == pytest.approx(jaccard(docs[pair["anchor"]].text, docs[pair["other"]].text))
    assert np.abs(found["estimate"] - found["jaccard"]).max() < 0.25
    expected = curve(9, 13, found["jaccard"])
    assert found["found"].sum() == pytest.approx(expected.sum(), abs=5 * math.sqrt((expected * (1 - expected)).sum()))
    assert 0 < found["found"].mean() < 1
    shuffled = np.random.default_rng(0).permutation(len(docs))
    other = stage.truth(rows[shuffled], lambda at: stage.evidence(docs[shuffled[at]]), anchors=200, floor=0.3)
    assert sorted(other["jaccard"].tolist()) == sorted(found["jaccard"].tolist())


def test_texts_that_cannot_be_had_are_no_pairs() -> None:
    stage, docs = NearDedup(), documents(["the same text in all of them"] * 3)
    found = stage.truth(sketches(stage, docs), lambda at: None if at == 1 else stage.evidence(docs[at]))
    assert [(pair["jaccard"], bool(pair["found"])) for pair in found] == [(1.0, True)]


# ── manners ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"threshold": 0.0}, r"threshold must lie above 0 and not above 1 \(1: equal shingle sets\), got 0.0"),
        ({"threshold": 1.2}, "threshold must lie above 0 and not above 1"),
        ({"threshold": "0.8"}, "threshold must lie above 0"),
        ({"threshold": math.nan}, "threshold must lie above 0"),
        ({"shingle": "words"}, "shingle must be word or char"),
        ({"keep": "longest"}, "keep must be 'best' or 'first'"),
        ({"num_perm": 0}, "num_perm must be a whole number from 1 to 4096"),
        ({"recall": 1.0}, "recall must lie above 0 and below 1"),
        ({"bands": 4}, "give both bands and rows, or neither"),
        ({"bands": 16, "rows": 9}, "rows must be a whole number from 1 to 8, got 9"),
        (
            {"threshold": 0.3, "num_perm": 4},
            "no bands of 4 minima find 0.99 of the pairs at 0.3; use a larger num_perm",
        ),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_nonsense_is_refused_at_birth(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        NearDedup(**wrong)  # type: ignore[arg-type]


def test_at_a_threshold_of_one_equal_sets_go() -> None:
    docs = documents(["a b c", "b c a", "a b c d", "a a b c"])
    assert {doc.text for doc in run([words(1.0)], docs).kept} == {"a a b c", "a b c d"}


def test_a_stage_travels_and_another_process_decides_the_same() -> None:
    stage = NearDedup(shingle="word2")
    assert pickle.loads(pickle.dumps(stage)) == stage == NearDedup(shingle="word2", bands=16, rows=6)
    code = (
        "from prep_lib.record import Document\nfrom prep_lib.stage import run\n"
        "from prep_lib.text.near_dedup import NearDedup\n"
        "docs = [Document(str(at), 'a b c d e f g h i j k l m n o p ' * 2 + str(at % 7)) for at in range(20)]\n"
        "print([doc.id for doc in run([NearDedup(shingle='word2')], docs).kept])"
    )
    docs = [Document(str(at), "a b c d e f g h i j k l m n o p " * 2 + str(at % 7)) for at in range(20)]
    env, root = {**os.environ, "PYTHONHASHSEED": "1"}, Path(__file__).parents[3]
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env, cwd=root)
    assert said.stdout.strip() == str([doc.id for doc in run([stage], docs).kept])


# ── real pairs ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "shingle", "key"), [("legal_en_spdx", "word5", "id"), ("legal_zh_versions", "char5", "title")]
)
def test_recall_and_precision_on_pairs_of_known_similarity(name: str, shingle: str, key: str) -> None:
    gold = {
        frozenset(pair[:2]): pair[2]
        for pair in json.loads(shared("stats/exact_jaccard_pairs.json").read_text("utf-8"))[name]
    }
    with gzip.open(shared(f"mixture/{name}.jsonl.gz"), "rt", encoding="utf-8") as lines:
        docs = [Document(row[key], row["text"]) for row in map(json.loads, lines)]
    stage = NearDedup(shingle=shingle)
    starts, members = groups(stage.keys(sketches(stage, docs)), np.arange(len(docs)))
    met = {
        (int(a), int(b))
        for k in range(len(starts) - 1)
        for a in members[starts[k] : starts[k + 1]]
        for b in members[starts[k] : starts[k + 1]]
        if a < b
    }
    sets = {at: stage.evidence(docs[at]) for pair in met for at in pair}
    proven = {frozenset((docs[a].id, docs[b].id)) for a, b in met if exact_jaccard(sets[a], sets[b]) >= 0.8}
    # The file rounds to four digits; no pair of it lies between 0.79995 and 0.8.
    right = {pair for pair, similarity in gold.items() if similarity >= 0.8}
    assert len(right) == {"legal_en_spdx": 326, "legal_zh_versions": 5}[name]
    assert proven <= right
    assert len(proven) >= 0.99 * len(right)
    for name_of, drop in drops(stage, docs).items():
        assert gold[frozenset((name_of, drop.twin or ""))] == pytest.approx(drop.value, abs=6e-5)
    if name == "legal_zh_versions":
        below = next(pair for pair, similarity in gold.items() if similarity == 0.7999)
        assert below in {frozenset((docs[a].id, docs[b].id)) for a, b in met}
        assert not below & drops(stage, docs).keys()


SIGNATURE = [961056471, 2030220495, 559060471, 1479891221]
