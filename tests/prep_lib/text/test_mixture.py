"""Mixture: the plan from sizes alone, who comes how often, and both the same however the rows are cut and ordered."""

import itertools
import json
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from conftest import shared
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.errors import BadParameter, UnknownName
from prep_lib.files import Span
from prep_lib.pipeline import stage_digest
from prep_lib.record import Document, Drop, Repeat
from prep_lib.seeds import key
from prep_lib.source.jsonl import read_records
from prep_lib.stage import contract, run
from prep_lib.text.mixture import (
    BITS,
    ROW,
    Finding,
    Mixture,
    add,
    copies,
    cuts,
    findings,
    inside,
    limits,
    parse_budget,
    parse_weights,
    plan,
    settle,
    sizes,
    source_key,
    totals,
    verdict,
    write_weights,
)
from prep_lib.tokens.tokenizer import AutoTokenizer


def items(**numbers):
    """So many documents of one character from each source."""
    return [Document(f"{source}.jsonl#L{n}", "x", source) for source, many in numbers.items() for n in range(many)]


def given_of(made):
    return {portion.source: portion.given for portion in made.portions}


# ── what a person writes ─────────────────────────────────────────────────────────────────────────────────────────────


@given(st.dictionaries(st.text(max_size=8), st.floats(0, 1e15), min_size=1, max_size=5))
def test_weights_come_back_as_they_were_written(weights):
    weights["one"] = 1.0
    assert parse_weights(write_weights(weights)) == weights


def test_names_may_hold_anything():
    assert parse_weights('a=b=0.5 "two words"=1 中文=2e-1') == {"a=b": 0.5, "two words": 1.0, "中文": 0.2}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("", "no weight is above 0"),
        ("web=0 code=0", "no weight is above 0"),
        ("unimaxx", "'unimaxx' in weights must be SOURCE=NUMBER, as in web=0.7, or weights one of natural, unimax"),
        ("web=0.5 code", "'code' in weights must be SOURCE=NUMBER"),
        ("web=-1", "the weight of 'web' must be a number of 0 or more, got '-1'"),
        ("web=nan", "must be a number of 0 or more, got 'nan'"),
        ({"web": True}, "must be a number of 0 or more, got True"),
        ({"web": math.inf}, "must be a number of 0 or more, got inf"),
        ("web=1 web=2", "weights name 'web' twice"),
        ('"web=1', "a quote in weights="),
        (None, "weights must be one text such as"),
    ],
)
def test_weights_nobody_can_read_are_refused_at_birth(weights, message):
    with pytest.raises(BadParameter, match=message):
        Mixture(weights=weights)


def test_budgets():
    assert [parse_budget(text) for text in ("10B", "500M", "1.5T", "2 k", "1_000", "3,000", 7, 1e9, "1g")] == [
        10**10, 5 * 10**8, 15 * 10**11, 2000, 1000, 3000, 7, 10**9, 10**9,
    ]  # fmt: skip
    assert parse_budget("0.3B") == 300_000_000
    for wrong in ("", "ten", 0, "0M", -5, 1.5, "1.5", True, "10BB", "99999999999T", math.nan, math.inf):
        with pytest.raises(BadParameter, match="budget must be a whole number of units"):
            parse_budget(wrong)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"temperature": 0}, "temperature must be a number above 0, or None, got 0"),
        ({"temperature": math.nan}, "temperature must be a number above 0"),
        ({"max_epochs": math.inf}, "max_epochs must be a number above 0, or None, got inf"),
        ({"max_epochs": "4"}, "max_epochs must be a number above 0, or None, got '4'"),
        ({"weights": "a=1", "temperature": 2}, "temperature=2 changes natural weights only"),
        ({"weights": "unimax"}, "unimax needs a budget to share out and max_epochs"),
        ({"weights": "unimax", "budget": 10}, "unimax needs a budget to share out and max_epochs"),
        ({"unit": "bytes"}, "unknown unit 'bytes'"),
        ({"unit": "tokens"}, "unit='tokens' needs count, a tokenizer or a function"),
        ({"unit": "tokens", "count": "gpt2"}, "unit='tokens' needs count"),
        ({"count": len}, "count is for unit='tokens'"),
        ({"by": ""}, "by must be 'source' or a key of meta"),
        ({"seed": -1}, "seed must be a whole number of 0 or more, got -1"),
    ],
)
def test_nonsense_is_refused_at_birth(parameters, message):
    with pytest.raises(BadParameter, match=message):
        Mixture(**parameters)


# ── the plan ─────────────────────────────────────────────────────────────────────────────────────────────────────────

SIZES = {"web": (40, 4000), "code": (10, 500), "zh": (5, 100)}


def test_natural_weights_without_a_budget_keep_everything_once():
    made = plan(SIZES)
    assert given_of(made) == {"code": 500, "web": 4000, "zh": 100}
    assert (made.scarcest, findings(made)) == ("", [])
    result = run([Mixture()], items(a=3, b=4))
    assert ([doc.source for doc in result.kept], result.dropped) == (list("aaabbbb"), [])


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 10**14), max_size=20))
def test_everything_once_is_exactly_that(units):
    made = plan({name: (1, size) for name, size in units.items()})
    assert (given_of(made), made.scarcest) == (units, "")
    again = plan({name: (1, size) for name, size in units.items()}, budget=3 * sum(units.values()) or 1)
    assert given_of(again) == {name: pytest.approx(3 * size, abs=1) for name, size in units.items()}


def test_without_a_budget_the_scarcest_source_decides_and_is_named():
    made = plan(SIZES, "web=0.5 code=0.3 zh=0.2")
    assert given_of(made) == {"code": 150, "web": 250, "zh": 100}
    assert made.scarcest == "zh"
    assert findings(made)[-1] == Finding("scarcest", "zh", 350 + 3750)
    assert given_of(plan(SIZES, "web=0.5 code=0.3 zh=0.2", max_epochs=4)) == {"code": 600, "web": 1000, "zh": 400}


def test_a_temperature_lifts_the_small_ones():
    shares = {one.source: one.weight for one in plan({"a": (1, 10_000), "b": (1, 100)}, temperature=2).portions}
    assert shares == {"a": pytest.approx(100 / 110), "b": pytest.approx(10 / 110)}
    even = [one.weight for one in plan(SIZES, temperature=1e9, budget=10).portions]
    assert even == pytest.approx([1 / 3] * 3)
    # 1 / 0.3 is what multilingual models use: shares as size ** 0.3.
    told = {one.source: one.weight for one in plan(SIZES, temperature=1 / 0.3, budget=10).portions}
    assert told["web"] / told["zh"] == pytest.approx(40**0.3)
    assert plan(SIZES, temperature=0.001, budget=10).portions[1].weight == 1


def test_unimax_is_even_up_to_the_cap():
    """Chung et al. 2023, algorithm 1, by hand: of 3,000 zh gets 4 x 100, code half of 2,600, web the rest."""
    made = plan(SIZES, "unimax", budget=3000, max_epochs=4)
    assert given_of(made) == {"zh": 400, "code": 1300, "web": 1300}
    assert {one.source: one.missing for one in made.portions} == {"zh": 600, "code": 0, "web": 0}
    assert [one.weight for one in made.portions] == pytest.approx([1 / 3] * 3)
    assert made.missing == 0
    every = plan(SIZES, "unimax", budget=10**6, max_epochs=1)
    assert given_of(every) == {"zh": 100, "code": 500, "web": 4000}
    assert every.missing == 10**6 - 4600


def test_a_cap_leaves_units_missing_and_others_as_they_were():
    two = {name: SIZES[name] for name in ("web", "code")}
    made = plan(two, "web=0.5 code=0.5", budget=4000, max_epochs=2)
    code, web = made.portions
    assert (code.asked, code.given, code.missing, code.epochs, code.repeats) == (2000, 1000, 1000, 2.0, 500)
    assert (web.asked, web.given, web.missing, web.left_over) == (2000, 2000, 0, 2000)
    assert (code.share, made.missing, made.given) == (1 / 3, 1000, 3000)
    assert Finding("missing", "code", 1000) in findings(made)


def test_every_source_needs_a_weight_and_every_weight_a_source():
    with pytest.raises(UnknownName, match="unknown source in weights 'wed'; did you mean 'web'"):
        plan(SIZES, "wed=0.7 code=0.2 zh=0.1")
    with pytest.raises(
        BadParameter, match=r"source 'code' has no weight \(2 in all have none\); .*rest=0.1, or rest=0"
    ):
        plan(SIZES, "web=0.7")
    rest = plan(SIZES, "web=0.7 rest=0.3", budget=1000)
    assert given_of(rest) == {"code": 250, "web": 700, "zh": 50}
    assert given_of(plan(SIZES, "web=0.7 code=0.3 rest=0", budget=1000)) == {"code": 300, "web": 700, "zh": 0}
    assert Finding("left_out", "zh", 100) in findings(plan(SIZES, "web=7 code=3 rest=0", budget=1000))
    with pytest.raises(BadParameter, match="rest=1 has nobody to go to"):
        plan({"web": (1, 5)}, "web=2 rest=1")
    with pytest.raises(BadParameter, match="a source is called 'rest'"):
        plan({"rest": (1, 5)}, "rest=1")
    # A share that vanishes without a word is worse than an error (marin-community/marin#1753).
    with pytest.raises(UnknownName, match="unknown source in weights 'b'"):
        run([Mixture(weights="a=1 b=1")], items(a=3))


def test_a_source_with_nothing_in_it():
    with pytest.raises(BadParameter, match="source 'b' has nothing to give and without a budget holds all others"):
        plan({"a": (1, 5), "b": (3, 0)}, "a=1 b=1")
    made = plan({"a": (1, 5), "b": (3, 0)}, "a=1 b=1", budget=10)
    assert given_of(made) == {"a": 5, "b": 0}
    assert findings(made) == [Finding("nothing", "b", 5)]
    assert given_of(plan({"a": (1, 5), "b": (3, 0)})) == {"a": 5, "b": 0}
    assert plan({}).portions == ()
    assert run([Mixture()], []).kept == []


def test_what_repeats_much_is_said():
    made = plan({"a": (100, 1000), "b": (100, 100)}, "a=1 b=1", budget=1000)
    assert findings(made) == [Finding("repeated", "b", 5.0)]
    assert findings(plan({"a": (100, 1000), "b": (100, 100)}, "a=1 b=1", budget=800)) == []
    assert findings(plan({"a": (2, 1000)}, budget=1300)) == [Finding("rough", "a", 500 / 1300)]
    assert findings(plan({"a": (2, 1000)}, budget=2000)) == [], "whole epochs are exact"


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.integers(1, 50), st.integers(0, 10**12)), min_size=1),
    st.sampled_from(["natural", "unimax", "a=3 b=1 rest=0.5"]),
    st.integers(1, 10**13),
    st.sampled_from([0.5, 1, 4, 7.5]),
)
def test_no_plan_gives_more_than_was_asked_or_allowed(units, weights, budget, max_epochs):
    units |= {"a": (5, 70), "b": (5, 10), "f": (1, 3)}
    made = plan(units, weights, budget=budget, max_epochs=max_epochs)
    assert all(0 <= one.given <= one.units * max_epochs for one in made.portions)
    assert made.given + made.missing == pytest.approx(budget, abs=len(units))
    assert sum(one.weight for one in made.portions) == pytest.approx(1)
    assert all(one.given + one.left_over - one.repeats == one.units for one in made.portions)
    if weights != "unimax":
        assert all(one.given + one.missing == one.asked for one in made.portions if one.units)


# ── who comes how often ──────────────────────────────────────────────────────────────────────────────────────────────


def brute(docs, stage):
    """Every document's copies, by sorting all of a source and adding one at a time."""
    by_source = {}
    for doc in docs:
        by_source.setdefault(doc.source, []).append(doc)
    made = stage.plan({name: (len(own), sum(len(doc.text) for doc in own)) for name, own in by_source.items()})
    out = {}
    for portion in made.portions:
        own = sorted(by_source[portion.source], key=lambda doc: key(stage.seed, "mixture", doc.id))
        whole, wanted = divmod(portion.planned, portion.units) if portion.units else (0, 0)
        more = came = 0
        while came < wanted:
            before, came, more = came, came + len(own[more].text), more + 1
            if came - wanted >= wanted - before:
                more -= 1  # without this one it is as near
        out |= {doc.id: whole + (rank < more) for rank, doc in enumerate(own)}
    return out


ALL_SOURCES = (("web", 3), ("code", 5), ("zh", 1))
DOCS = st.lists(st.tuples(st.sampled_from(["web", "code", "zh"]), st.integers(0, 9)), max_size=60).map(
    lambda told: [
        Document(f"f.jsonl#L{n}", "x" * size, source) for n, (source, size) in enumerate([*told, *ALL_SOURCES])
    ]
)
STAGES = st.builds(
    lambda weights, budget, cap, seed: Mixture(weights=weights, budget=budget, max_epochs=cap, seed=seed),
    st.sampled_from(["natural", "unimax", "web=3 code=1 rest=0.5"]), st.integers(1, 500),
    st.sampled_from([0.7, 2, 100]), st.integers(0, 9),
)  # fmt: skip


@settings(deadline=None)
@given(DOCS, STAGES, st.randoms(use_true_random=False))
def test_in_any_order_and_cut_it_is_what_brute_force_says(docs, stage, chance):
    wanted = brute(docs, stage)
    shuffled = chance.sample(docs, len(docs))
    found = {doc.id: 0 for doc in docs}
    for doc in run([stage], shuffled).kept:
        found[doc.id] += 1
    assert found == wanted
    # And in three passes over rows in pieces, as files have them.
    rows = np.concatenate([stage.sketch(doc) for doc in shuffled])
    pieces = np.array_split(rows, chance.randint(1, 4))
    counted = add(totals(piece) for piece in pieces)
    assert np.array_equal(counted, totals(rows))
    made = stage.plan(sizes(counted, {stage.evidence(doc) for doc in docs}))
    cut = cuts(made, counted)
    limit = limits(made, counted, np.concatenate([piece[inside(piece, cut)] for piece in pieces[::-1]]))
    assert np.array_equal(limit, limits(made, counted, rows)), "rows outside the bin do not matter"
    numbers = np.concatenate([copies(piece, limit) for piece in pieces])
    assert dict(zip([doc.id for doc in shuffled], numbers.tolist(), strict=True)) == wanted
    # The plan, settled, is what is there.
    for portion in settle(made, limit).portions:
        own = [doc for doc in docs if doc.source == portion.source]
        assert portion.given == sum(wanted[doc.id] * len(doc.text) for doc in own)
        assert portion.copies == sum(wanted[doc.id] for doc in own)
        assert 2 * abs(portion.given - portion.planned) <= max(len(doc.text) for doc in own)


def test_many_rows_and_every_kind_of_bin():
    generator = np.random.default_rng(7)
    rows = np.empty(200_000, ROW)
    rows["source"] = generator.choice([source_key("a"), source_key("b")], len(rows), p=[0.99, 0.01])
    rows["key"] = generator.integers(0, 2**63, len(rows), np.uint64)
    rows["units"] = generator.geometric(0.01, len(rows))
    counted = totals(rows)
    assert len(counted) <= 2 * 2**BITS
    made = plan(sizes(counted, ["a", "b"]), "a=1 b=1", budget=3_000_000)
    held = rows[inside(rows, cuts(made, counted))]
    assert len(held) < 100, "one bin in 4,096 of each source"
    limit = limits(made, counted, held)
    given_now = copies(rows, limit) * rows["units"]
    for portion in settle(made, limit).portions:
        assert portion.given == given_now[rows["source"] == source_key(portion.source)].sum()
        assert abs(portion.given - 1_500_000) <= rows["units"].max() / 2


def test_documents_of_one_key_stay_together():
    rows = np.array([(source_key("a"), 5, 3), (source_key("a"), 5, 3), (source_key("a"), 9, 3)], ROW)
    made = plan({"a": (3, 9)}, budget=4)
    assert copies(rows, limits(made, totals(rows), rows)).tolist() == [1, 1, 0]
    assert copies(rows, limits(plan({"a": (3, 9)}, budget=3), totals(rows), rows)).tolist() == [0, 0, 0]


def test_rows_that_do_not_belong_are_refused():
    rows = np.array([(source_key("a"), 5, 3), (source_key("a"), 2**62, 3)], ROW)
    made, counted = plan({"a": (2, 6)}, budget=4), totals(rows)
    with pytest.raises(BadParameter, match="rows of a source that was not counted"):
        copies(np.array([(source_key("b"), 5, 3)], ROW), limits(made, counted, rows))
    with pytest.raises(BadParameter, match="rows of the bin that holds a limit are missing"):
        limits(made, counted, rows[:1])


def test_a_larger_budget_only_adds():
    docs = items(a=30, b=50)
    kept = [{doc.id for doc in run([Mixture(budget=n)], docs).kept} for n in range(1, 80)]
    assert all(less <= more for less, more in itertools.pairwise(kept))
    assert len(kept[-1]) > len(kept[20]) > 10


def test_another_seed_chooses_others():
    chosen = {tuple(doc.id for doc in run([Mixture(budget=10, seed=seed)], items(a=100)).kept) for seed in range(5)}
    assert len(chosen) == 5


def test_who_is_chosen_is_fixed():
    """Pinned: another choice would change every corpus that somebody mixed before."""
    kept = run([Mixture(weights="a=1 b=2", budget=9)], items(a=10, b=4)).kept
    lines = [f"{doc.source}{doc.id[-1]}" for doc in kept]
    assert lines == ["a0", "a1", "a3", "b0", "b1", "b2", "b2", "b3", "b3"]


# ── what people met elsewhere ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("numbers", "budget", "given_units"),
    [
        # BUG-075: what a stopping rule does to 0.7, 0.2, 0.1 is on the table.
        ((3, 4, 5), None, (3, 1, 0)),
        ((3, 4, 5), 20, (14, 4, 2)),
        ((1000, 10, 10), None, (35, 10, 5)),
        ((1000, 10, 10), 1000, (700, 200, 100)),
    ],
)
def test_the_stopping_rule_is_on_the_table(numbers, budget, given_units):
    docs = items(**dict(zip("abc", numbers, strict=True)))
    stage = Mixture(weights="a=0.7 b=0.2 c=0.1", budget=budget)
    made = stage.plan({name: (n, n) for name, n in zip("abc", numbers, strict=True)})
    result = run([stage], docs)
    came = {name: sum(doc.source == name for doc in result.kept) for name in "abc"}
    assert tuple(came.values()) == given_units == tuple(given_of(made).values())
    for portion, n in zip(made.settled({name: (n, n) for name, n in came.items()}).portions, numbers, strict=True):
        assert portion.weight == pytest.approx({"a": 0.7, "b": 0.2, "c": 0.1}[portion.source])
        assert portion.share == came[portion.source] / sum(given_units)
        assert (portion.repeats, portion.left_over) == (max(0, portion.given - n), max(0, n - portion.given))
        assert portion.copies == came[portion.source]
    result.ledger.check()
    assert result.ledger.total("mixture", "kept") == sum(given_units)
    repeated = sum(one.repeats for one in made.portions)
    assert result.ledger.total("mixture", "repeated") == repeated
    assert result.ledger.reasons("mixture", "dropped") == (
        {"mixture_left_over": sum(one.left_over for one in made.portions)} if made.given < made.units + repeated else {}
    )


def test_a_weight_near_nothing_does_not_take_the_first_document():
    """NVIDIA/Megatron-LM#705: a weight of 1e-5 takes the very first sample of a thousand there."""
    kept = run([Mixture(weights="a=0.99999 b=0.00001", budget=1000)], items(b=5, a=1000)).kept
    assert {doc.source for doc in kept} == {"a"}
    assert len(kept) == 1000


def test_verdicts():
    assert [verdict(n) for n in (0, 1, 3)] == [Drop("mixture_left_over"), None, Repeat(3)]
    assert contract(Mixture()) == "corpus"
    assert Mixture.reasons == ("mixture_left_over",)


# ── units ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def words(text):
    return len(text.split())


def test_tokens_are_counted_by_whatever_is_given():
    tokenizer = AutoTokenizer().train(["abc abc"] * 3, vocab_size=270)
    doc = Document("1", "abc abc abc", "a")
    for count, many in ((words, 3), (str.split, 3), (tokenizer, len(tokenizer.encode(doc.text)))):
        stage = Mixture(unit="tokens", count=count)
        assert stage.sketch(doc)["units"].tolist() == [many]
        assert pickle.loads(pickle.dumps(stage)).sketch(doc) == stage.sketch(doc)
        assert stage_digest(stage) is not None
    with pytest.raises(BadParameter, match="count gave -1 tokens for document 1"):
        Mixture(unit="tokens", count=lambda text: -1).sketch(doc)


def test_the_digest_knows_the_tokenizer_and_not_how_weights_were_written():
    one, other = (AutoTokenizer().train([text] * 9, vocab_size=264) for text in ("abc abc", "xyz xyz"))
    digests = [stage_digest(Mixture(unit="tokens", count=count)) for count in (one, other, one, words)]
    assert len(set(digests)) == 3
    same = [Mixture(weights="a=0.5 b=1", budget="1k"), Mixture(weights={"b": 1, "a": 0.5}, budget=1000)]
    assert same[0] == same[1]
    assert stage_digest(same[0]) == stage_digest(same[1]) != stage_digest(replace(same[0], seed=1))


def test_documents_may_count_by_language():
    docs = [Document(str(n), "x", "web", {"language": language}) for n, language in enumerate(["en"] * 8 + ["zh"] * 4)]
    kept = run([Mixture(weights="en=1 zh=3", by="language")], docs).kept
    assert sorted(doc.meta["language"] for doc in kept) == ["en", *["zh"] * 4]
    result = run([Mixture(weights="natural", by="language")], [*docs, Document("12", "x", "web")])
    assert len(result.kept) == 12
    assert result.ledger.reasons("mixture", "failed") == {"no_language": 1}


# ── real text ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_mixture_of_real_sources_is_what_was_planned():
    folder, docs = shared("mixture"), []
    for name in ("web_en_c4.jsonl", "wiki_en.jsonl", "poetry_zh.jsonl", "legal_zh.jsonl.gz"):
        for number, record in read_records(Span(str(folder / name))):
            text = record.get("text") or json.dumps(record, ensure_ascii=False)
            docs.append(Document(f"{name}#L{number}", text, name.split(".")[0]))
    stage = Mixture(weights="web_en_c4=0.5 wiki_en=0.2 poetry_zh=0.1 legal_zh=0.2", budget="400k")
    result = run([stage], docs)
    longest = {doc.source: 0 for doc in docs}
    for doc in docs:
        longest[doc.source] = max(longest[doc.source], len(doc.text))
    for source, share in parse_weights(stage.weights).items():
        came = sum(len(doc.text) for doc in result.kept if doc.source == source)
        assert abs(came - share * 400_000) <= longest[source] / 2 + 1
    assert {doc.id for doc in run([stage], docs[::-1]).kept} == {doc.id for doc in result.kept}
