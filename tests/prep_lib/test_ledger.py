"""Counts add in any order, travel as JSON, and must balance."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.errors import BadParameter, TooManyLost, Unbalanced
from prep_lib.ledger import FEW, FLOWS, TOKEN_FLOWS, Ledger, LossLimit

NAMES = st.sampled_from(["", "web", "code"])
DOCUMENTS = st.tuples(
    st.sampled_from(["read", "judge"]), st.sampled_from(FLOWS), NAMES, NAMES, st.integers(0, 9), st.integers(0, 99)
)
TOKENS = st.tuples(st.sampled_from(["judge", "pack"]), st.sampled_from(TOKEN_FLOWS), NAMES, NAMES, st.integers(0, 99))


@st.composite
def ledgers(draw: st.DrawFn) -> Ledger:
    ledger = Ledger()
    for stage, flow, source, reason, documents, characters in draw(st.lists(DOCUMENTS, max_size=6)):
        ledger.add(stage, flow, source, reason, documents=documents, characters=characters)
    for stage, flow, source, reason, count in draw(st.lists(TOKENS, max_size=6)):
        ledger.add_tokens(stage, flow, count, source, reason)
    return ledger


def summed(*parts: Ledger) -> Ledger:
    total = Ledger()
    for part in parts:
        total += part
    return total


def balanced() -> Ledger:
    ledger = Ledger()
    ledger.add("read", "in", "web", documents=5, characters=50)
    ledger.add("read", "kept", "web", documents=4, characters=40)
    ledger.add("read", "failed", "web", "bad_json", documents=1, characters=10)
    ledger.add("judge", "in", "web", documents=4, characters=40)
    ledger.add("judge", "kept", "web", documents=2, characters=25)
    ledger.add("judge", "dropped", "web", "short", documents=2, characters=15)
    ledger.add_tokens("pack", "content", 90, "web")
    ledger.add_tokens("pack", "control", 8, "web")
    ledger.add_tokens("pack", "eos", 3, "web")
    ledger.add_tokens("pack", "written", 96, "web")
    ledger.add_tokens("pack", "dropped", 3, "web", "too_long")
    ledger.add_tokens("pack", "remainder", 2, "web")
    ledger.add_tokens("pack", "padding", 1000, "web")
    return ledger


# ---------------------------------------------------------------------------------------------------------- adding


@settings(max_examples=60)
@given(ledgers(), ledgers(), ledgers())
def test_addition_does_not_depend_on_who_added_first(one: Ledger, two: Ledger, three: Ledger) -> None:
    sums = [summed(one, two, three), summed(three, one, two), summed(summed(two, three), one)]
    for other in sums[1:]:
        assert sorted(other.stages) == sorted(sums[0].stages)
        other.stages = sums[0].stages
        assert other == sums[0]
        assert other.to_json() == sums[0].to_json()


@given(ledgers())
def test_an_empty_ledger_adds_nothing_and_the_parts_stay_as_they_were(ledger: Ledger) -> None:
    before = ledger.to_json()
    total = summed(ledger, Ledger())
    total += ledger
    assert ledger.to_json() == before
    assert summed(Ledger(), ledger) == ledger


def test_totals_reasons_and_sources() -> None:
    ledger = balanced()
    ledger.add("judge", "dropped", "code", "empty", documents=3)
    assert ledger.total("judge", "dropped") == 5
    assert ledger.total("judge", "dropped", "code") == 3
    assert ledger.total("judge", "dropped", unit="characters") == 15
    assert ledger.total("pack", "written", unit="tokens") == 96
    assert list(ledger.reasons("judge", "dropped").items()) == [("empty", 3), ("short", 2)]
    assert ledger.reasons("pack", "dropped", unit="tokens") == {"too_long": 3}
    assert ledger.sources() == ["code", "web"]
    assert ledger.sources("read") == ["web"]


def test_an_unknown_flow_is_refused() -> None:
    with pytest.raises(BadParameter, match="unknown flow 'keep'; known: in, repeated"):
        Ledger().add("judge", "keep")
    with pytest.raises(BadParameter, match="unknown token flow 'in'; known: content"):
        Ledger().add_tokens("pack", "in", 3)


# ------------------------------------------------------------------------------------------------------------ JSON


@settings(max_examples=60)
@given(ledgers())
def test_json_there_and_back(ledger: Ledger) -> None:
    again = Ledger.from_json(ledger.to_json())
    assert again == ledger
    assert again.to_json() == ledger.to_json()
    assert list(again.rows()) == list(ledger.rows())


def test_counts_of_numpy_are_counts() -> None:
    ledger = Ledger()
    ledger.add("read", "in", documents=np.int64(2), characters=np.int32(7))  # type: ignore[arg-type]
    ledger.add_tokens("pack", "written", np.uint64(5))  # type: ignore[arg-type]
    assert [row["documents"] for row in json.loads(ledger.to_json())["rows"]] == [2, 0]


def test_a_row_that_counts_nothing_is_not_shown() -> None:
    ledger = balanced()
    before = ledger.to_json()
    ledger.add("judge", "dropped", "web", "never", documents=0)
    ledger.add_tokens("pack", "cut", 0, "web")
    assert ledger.to_json() == before


# --------------------------------------------------------------------------------------------------------- balance


def test_a_balanced_ledger_passes_also_after_the_way_through_json() -> None:
    balanced().check()
    Ledger.from_json(balanced().to_json()).check()
    Ledger().check()


@pytest.mark.parametrize(
    ("flow", "source", "sentence"),
    [
        ("in", "web", r"ledger: judge, source 'web': documents do not balance: \{'in': 5, 'repeated': 0"),
        ("kept", "code", r"ledger: judge, source 'code': documents do not balance"),
        ("failed", "web", r"ledger: judge, source 'web': documents do not balance"),
    ],
)
def test_one_lost_document_is_named_with_stage_and_source(flow: str, source: str, sentence: str) -> None:
    ledger = balanced()
    ledger.add("judge", flow, source)
    with pytest.raises(Unbalanced, match=sentence):
        ledger.check()


def test_sources_do_not_lend_to_each_other() -> None:
    ledger = Ledger()
    ledger.add("judge", "in", "web")
    ledger.add("judge", "kept", "code")
    with pytest.raises(Unbalanced, match="source 'code'"):
        ledger.check()


@pytest.mark.parametrize("flow", ["content", "control", "eos", "written", "cut", "dropped", "remainder"])
def test_one_lost_token_is_named(flow: str) -> None:
    ledger = balanced()
    ledger.add_tokens("pack", flow, 1, "web")
    with pytest.raises(Unbalanced, match="ledger: pack, source 'web': tokens do not balance"):
        ledger.check()


def test_padding_and_trained_stand_apart() -> None:
    ledger = balanced()
    ledger.add_tokens("pack", "padding", 7, "web")
    ledger.add_tokens("pack", "trained", 50, "web")
    ledger.check()


def test_repeated_and_expanded_documents_must_go_somewhere() -> None:
    ledger = Ledger()
    ledger.add("mix", "in", documents=3)
    ledger.add("mix", "repeated", documents=2)
    ledger.add("mix", "expanded", documents=1)
    ledger.add("mix", "kept", documents=5)
    with pytest.raises(Unbalanced, match="documents do not balance"):
        ledger.check()
    ledger.add("mix", "kept")
    ledger.check()


def test_what_one_stage_keeps_the_next_one_must_have() -> None:
    ledger = balanced()
    ledger.add("late", "in", "web", documents=2, characters=24)
    ledger.add("late", "kept", "web", documents=2, characters=24)
    with pytest.raises(Unbalanced, match="ledger: judge kept 25 characters, but late has 24 in"):
        ledger.check()


def test_a_stage_that_got_nothing_is_missed_also_after_json() -> None:
    ledger = Ledger()
    for stage, documents in (("a", 3), ("b", 0), ("c", 3)):
        ledger.add(stage, "in", documents=documents)
        ledger.add(stage, "kept", documents=documents)
    for same in (ledger, Ledger.from_json(ledger.to_json())):
        with pytest.raises(Unbalanced, match="ledger: a kept 3 documents, but b has 0 in"):
            same.check()


# ----------------------------------------------------------------------------------------------------------- limit


def test_a_few_failures_never_stop_a_run() -> None:
    limit = LossLimit("build", max_failed=0.0)
    limit.add(seen=10, failed={"bad_json": 1})
    limit.add(seen=FEW, failed={"bad_json": FEW - 1})
    with pytest.raises(TooManyLost, match=r"^build: 21 of 31 records failed \(allowed: 0\.00%\); the commonest"):
        limit.add(seen=1, failed={"nan": 1})


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 2000), st.sampled_from(["bad_json", "nan"]), st.integers(0, 30)), max_size=8),
    st.sampled_from([0.0, 0.01, 0.5, 1.0]),
)
def test_a_run_stops_at_the_first_failure_beyond_the_limit(tasks: list[tuple[int, str, int]], share: float) -> None:
    limit, seen, lost, stopped = LossLimit("x", share), 0, 0, False
    for good, reason, bad in tasks:
        seen, lost = seen + good + bad, lost + bad
        try:
            limit.add(seen=good + bad, failed={reason: bad} if bad else {})
        except TooManyLost:
            stopped = True
            break
    assert stopped == (lost > max(FEW, share * seen))


def test_the_sentence_names_the_commonest_reason_and_its_first_examples() -> None:
    limit = LossLimit("export", max_failed=0.1)
    limit.add(seen=100, failed={"nan": 4, "bad_json": 2}, examples={"nan": ["a[0]"], "bad_json": ["a[1]", "a[2]"]})
    limit.add(seen=0, failed={"bad_json": 4}, examples={"bad_json": ["a[3]", "a[4]"]})
    sentence = (
        r"^export: 1,010 of 2,100 records failed \(allowed: 10\.00%\); the commonest reason is bad_json \(1,006\), "
        r"for example a\[1\], a\[2\], a\[3\]$"
    )
    with pytest.raises(TooManyLost, match=sentence):
        limit.add(seen=2_000, failed={"bad_json": 1_000})
    unseen = LossLimit("export", max_failed=0.1)
    with pytest.raises(TooManyLost, match=r"the commonest reason is nan \(21\)$"):
        unseen.add(seen=21, failed={"nan": 21})


@pytest.mark.parametrize("share", [-0.1, 5, float("nan")])
def test_a_limit_is_a_share(share: float) -> None:
    with pytest.raises(BadParameter, match=r"build: max_failed=.*; give a share from 0 to 1"):
        LossLimit("build", share)


def test_a_damaged_stream_stops_the_run_unless_everything_is_allowed() -> None:
    sentence = "build: cut_stream at a.jsonl.gz#L7: an unknown number of records behind it is missing"
    with pytest.raises(TooManyLost, match=sentence):
        LossLimit("build", 0.9).add(seen=100, failed={"cut_stream": 1}, examples={"cut_stream": ["a.jsonl.gz#L7"]})
    LossLimit("build", 1.0).add(seen=100, failed={"cut_stream": 1})
