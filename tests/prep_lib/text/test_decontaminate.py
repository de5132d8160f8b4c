"""Decontamination: an item is found however it is written and wherever it stands; what everybody writes is no item."""

from __future__ import annotations

import gzip
import json
import pickle
import re
import unicodedata
from typing import Any

import numpy as np
import pytest
from conftest import shared
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.errors import BadParameter, UnknownName
from prep_lib.pipeline import stage_digest
from prep_lib.record import Cut, Document, Drop
from prep_lib.stage import Measuring, contract, run
from prep_lib.text import decontaminate as room
from prep_lib.text.benchmarks import Benchmarks, Item, load_benchmarks
from prep_lib.text.decontaminate import (
    DISGUISES,
    KINDS,
    Decontaminate,
    Recall,
    alignment,
    classes,
    common_windows,
    self_test,
    terms,
    windows,
)

LAMPS = (
    "A lamp maker sells 14 lamps on Monday and twice as many on Tuesday. Each lamp costs $35, and every fifth lamp is "
    "sold at half the price. How much money does the lamp maker take in on the two days together?"
)
MOON = "月球绕地球公转一周大约需要二十七天，那么在三百天之内月球大约绕地球公转多少周？"
SHORT = Item("quiz", "1", "Why do owls hunt at night?", ("Owls hunt at night because mice are active then.", "Noise."))
TOY = Benchmarks((Item("toy", "0", LAMPS), Item("toy", "1", MOON), SHORT))
STAGE = Decontaminate(benchmarks=TOY)

FILLER = (
    "The harbour was quiet that morning, and the gulls had not yet come down from the roofs. Somebody had left a coil "
    "of rope beside the steps. Nobody in the town remembered a colder spring than this one had been so far.\n"
)


def hits(text: str, stage: Decontaminate = STAGE) -> list[tuple[str, str]]:
    return [(hit.item, hit.kind) for hit in stage.hits(Document("d", text))]


def items(*queries: str, benchmark: str = "toy") -> Benchmarks:
    return Benchmarks(tuple(Item(benchmark, str(at), query) for at, query in enumerate(queries)))


# ── terms ──


def spelled(text: str, chinese: str = "simplified") -> list[str]:
    raw = text.encode()
    found = terms(raw, chinese)
    return [raw[a:b].decode() for a, b in zip(found.starts, found.stops, strict=True)]


def test_a_text_is_cut_into_what_its_look_leaves() -> None:
    assert spelled("It’s 3,650.50 km; [1,2]") == ["It", "s", "3,650", "50", "km", "1", "2"]
    assert spelled("<p class='q'><b>Ａ</b> 好的&nbsp;x&#39;s<br/>") == ["Ａ", "好", "的", "x", "s"]
    assert spelled("a < b and c > d, List<int>") == ["a", "b", "and", "c", "d", "List"]
    assert spelled("see <name = 3 or more>") == ["see", "name", "3", "or", "more"]
    assert spelled("hasCloseElements has_close_elements SHOUTED") == [
        "has", "Close", "Elements", "has", "close", "elements", "SHOUTED",
    ]  # fmt: skip
    assert spelled("") == spelled("… — !") == []
    assert spelled("co\u00adoperate zero\u200bwidth") == ["co\u00adoperate", "zero\u200bwidth"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("café", "CAFE\u0301"), ("Ｆｕｌｌ width ３", "full WIDTH 4"), ("ÉCOLE", "école"),
        ("國際學校", "国际学校"), ("cooperate", "co\u00adoper\u200bate"), ("x² ①", "x2 1"), ("7 days", "19 days"),
        ("3,650,000 km", "3650000 km"), ("１，０００", "1000"), ("٣٥", "35"), ("ガラス", "ｶﾞﾗｽ"),
        ("한국어", "\u1112\u1161\u11ab국어"),
        ("ガ한가", unicodedata.normalize("NFD", "ガ한가")), ("ำ", unicodedata.normalize("NFKC", "ำ")),
    ],
)  # fmt: skip
def test_what_counts_as_the_same(one: str, other: str) -> None:
    assert terms(one.encode()).hashes.tolist() == terms(other.encode()).hashes.tolist()


def test_a_comma_joins_digits_only_as_thousands() -> None:
    assert spelled("1,000,000.50 12,34 1,2345 1,000a 5,٣") == [
        "1,000,000", "50", "12", "34", "1", "2345", "1,000", "a", "5", "٣",
    ]  # fmt: skip


def test_traditional_characters_count_as_simplified_ones_only_by_choice() -> None:
    one, other = "國學".encode(), "国学".encode()
    assert terms(one).hashes.tolist() == terms(other).hashes.tolist()
    assert terms(one, "as_written").hashes.tolist() != terms(other, "as_written").hashes.tolist()


def test_the_table_of_characters_is_one_to_one_text() -> None:
    """Each traditional character once; no pair leads on to another one."""
    old, new = room._TRADITIONAL, room._SIMPLIFIED
    assert len(old) == len(new) == len({*old})
    assert not {*old} & {*new}
    assert all("\u4e00" <= char <= "\u9fff" for char in old + new)


TEXTS = st.text(st.sampled_from("ab Zé3,.<>/&;=\n'\"x界的ｱﾞが한\u1112\u1161\u11ab０，Ａ\u0301\u00ad-_(){}"), max_size=60)


@given(TEXTS)
@settings(max_examples=40, deadline=None)
def test_the_kernel_and_its_python_twin_agree(text: str) -> None:
    data, codes = np.frombuffer(text.encode(), np.uint8), classes("simplified")
    index = STAGE.index
    results = []
    for function in (room.scan, room.scan.python):
        out, found = np.zeros((64, 3), np.uint64), np.zeros((8, 2), np.int64)
        with np.errstate(over="ignore"):
            told = function(data, codes, index.bits, index.shift, index.slots, found, out)
        results.append((tuple(map(int, told)), out.tolist(), found.tolist()))
    assert results[0] == results[1]


def test_filling_and_gathering_agree_with_their_python_twins() -> None:
    index, keys = STAGE.index, np.sort(STAGE.index.slots[STAGE.index.slots != 0])
    tables = [(np.zeros(1024, np.uint64), np.full(1024, -1, np.int32)) for _ in range(2)]
    room.fill(keys, *tables[0])
    room.fill.python(keys, *tables[1])
    assert [part.tolist() for part in tables[0]] == [part.tolist() for part in tables[1]]
    found = STAGE._scan((FILLER + LAMPS + MOON).encode())
    parts = (index.which, index.first, index.owners, index.places, index.begins, index.queries, index.needs)
    assert room.gather(found, *parts).tolist() == room.gather.python(found, *parts).tolist() != []


@given(TEXTS)
@settings(max_examples=60, deadline=None)
def test_every_window_of_a_text_is_looked_up_as_it_was_stored(text: str) -> None:
    found = terms(text.encode())
    keys = windows(found.hashes, found.sorts)
    bits, shift, slots, _ = room._table(np.unique(keys[keys != 0]))
    hits = np.empty((100, 2), np.int64)
    data = np.frombuffer(text.encode(), np.uint8)
    _, number = room.scan(data, classes("simplified"), bits, shift, slots, hits, room._NO_TERMS)
    assert {*(hits[:number, 0] >> 32).tolist()} == {*np.flatnonzero(keys).tolist()}


# ── what is found ──


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("query", [LAMPS, MOON], ids=["en", "zh"])
def test_an_item_is_found_in_every_disguise(disguise: str, query: str) -> None:
    if disguise == "fragment":
        # Two thirds of a question: too little of the Chinese one, which has the weight of sixteen words, for a piece.
        query = LAMPS
    page = FILLER + DISGUISES[disguise](query) + "\n" + FILLER
    assert [item for item, _ in hits(page)] == [f"toy/{[LAMPS, MOON].index(query)}"]


@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from([LAMPS, MOON]))
@settings(max_examples=25, deadline=None)
def test_the_length_of_the_page_plays_no_part(before: int, after: int, query: str) -> None:
    """BUG-035: the score is against the item, never against the page."""
    head = FILLER * before
    (hit,) = STAGE.hits(Document("d", head + query + "\n" + FILLER * after))
    assert (hit.score, hit.kind, hit.start) == (1.0, "verbatim", len(head))
    assert query.startswith((head + query)[hit.start : hit.stop])
    assert len(query) - (hit.stop - hit.start) <= 1  # the question mark


def test_a_question_wrapped_by_other_quotes_in_three_thousand_words() -> None:
    """BUG-035, its own example, with a question of GSM8K."""
    benchmarks = load_benchmarks(shared("bench") / "gsm8k_test_600.jsonl")
    item = benchmarks.items[0]
    assert "’" in item.query
    words = item.query.replace("’", "'").split()
    wrapped = "\n".join(" ".join(words[at : at + 7]) for at in range(0, len(words), 7))
    page = FILLER * 40 + wrapped + "\n" + FILLER * 40
    assert len(page.split()) > 3_000
    (hit,) = Decontaminate(benchmarks=benchmarks).hits(Document("d", page))
    assert (hit.item, hit.score) == ("gsm8k_test_600/0", 1.0)


def test_every_word_may_stand_in_a_tag_of_its_own() -> None:
    words = "".join(f'<span class="word" data-n="{at}">{word}</span> ' for at, word in enumerate(LAMPS.split()))
    assert hits(FILLER + words + FILLER) == [("toy/0", "verbatim")]


def test_places_are_characters_of_the_text_as_it_was() -> None:
    page = "“前言” — 𝕏é …\n" + MOON + "\n后记"
    (hit,) = STAGE.hits(Document("d", page))
    assert page[hit.start : hit.stop] == MOON[:-1]


def test_the_kinds() -> None:
    words = LAMPS.split()
    first, second, third = LAMPS.split(". ")
    assert hits(LAMPS.replace("14", "19").replace("35", "48")) == [("toy/0", "renumbered")]
    assert hits(" ".join(words[:20]) + "\n" + FILLER) == [("toy/0", "fragment")]
    piece = STAGE.judge(Document("d", " ".join(words[:20])))
    assert isinstance(piece, Drop)
    assert (piece.limit, piece.value) == (0.4, pytest.approx(0.45, abs=0.01))
    assert hits(f"{third} {second}. {first}.") == [("toy/0", "reordered")]
    assert hits(LAMPS.replace("lamp maker", "shop owner", 1)) == [("toy/0", "edited")]
    assert hits(LAMPS.lower()) == [("toy/0", "verbatim")]
    assert {"renumbered", "fragment", "reordered", "edited", "verbatim"} == {*KINDS}


def test_an_item_twice_on_a_page_is_two_hits_and_many_windows_are_no_problem() -> None:
    page = (LAMPS + "\n" + FILLER) * 5
    found = STAGE.hits(Document("d", page))
    assert [hit.start for hit in found] == [at * len(LAMPS + "\n" + FILLER) for at in range(5)]


def test_one_sentence_of_a_long_item_is_no_hit() -> None:
    assert hits(FILLER + "A lamp maker sells 14 lamps on Monday.") == []
    assert hits("Each lamp costs $35, and every fifth lamp is sold at half the price.") == []


def test_a_short_question_counts_only_with_what_stands_beside_it() -> None:
    assert hits(FILLER + SHORT.query) == []
    assert hits(FILLER + SHORT.support[0]) == []
    assert hits(f"{FILLER}{SHORT.query} {SHORT.support[0]}") == [("quiz/1", "verbatim")]


def test_options_alone_are_no_hit() -> None:
    """BUG-036: ARC matched by its options only."""
    options = ("The days will become shorter", "The years will become longer", "The gravity will become stronger")
    question = "A planet turns faster after a stone from space hits it. Which effect is the most likely one?"
    stage = Decontaminate(benchmarks=Benchmarks((Item("arc", "0", question, options), SHORT)))
    assert hits("\n".join(options), stage) == []
    assert hits(question, stage) == [("arc/0", "verbatim")]


def test_a_generic_question_needs_its_passage() -> None:
    ask = "Which one of the following, if true, most seriously weakens the argument of the author?"
    passages = (
        "Goats on Skye eat moss alone. Moss has no salt in it, so the goats of Skye must find their salt elsewhere.",
        "The mayor says that trams are late because of snow. But last summer every second tram came late as well.",
        "Rum was made on this island before the first ship came. Therefore somebody here grew sugar long ago.",
    )
    stage = Decontaminate(benchmarks=Benchmarks(tuple(Item("lr", str(at), ask, (p,)) for at, p in enumerate(passages))))
    assert hits(FILLER + ask, stage) == []
    assert hits(passages[2], stage) == []
    assert hits(f"{passages[2]}\n{ask}", stage) == [("lr/2", "verbatim")]
    assert stage.index.weak.all()


# ── every item that is looked for is found ──

WORDS = [
    "owl",
    "mill",
    "x",
    "y",
    "7",
    "12",
    "1,000",
    "the",
    "ant",
    "果",
    "月",
    "球",
    "的",
    "f(x)",
    "=",
    "Lamp",
    "<p>",
    "&amp;",
    "é",
]
PIECE = st.lists(st.sampled_from([*WORDS, "verylongword" * 30]), max_size=24).map(" ".join)
MADE = st.lists(st.tuples(PIECE, st.lists(PIECE, max_size=3).map(tuple), st.booleans()), min_size=1, max_size=6)


def told_planted(stage: Decontaminate, at: int) -> list[str]:
    """An item as it is found: its query, or that with its support, a passage before it or behind it."""
    item = stage.benchmarks.items[at]
    if not stage.index.weak[at]:
        return [item.query]
    behind, before = (item.query, *item.support), (*item.support[:1], item.query, *item.support[1:])
    return ["\n".join(parts) for parts in ((behind, before) if item.about_passage else (behind,))]


@given(MADE)
@settings(max_examples=60, deadline=None)
def test_every_item_that_is_looked_for_is_found_as_it_is(made: list[tuple[str, tuple[str, ...], bool]]) -> None:
    stage = Decontaminate(benchmarks=Benchmarks(tuple(Item("b", str(n), *one) for n, one in enumerate(made))))
    for at in {*range(len(made))} - {*stage.untold}:
        for text in told_planted(stage, at)[:1]:
            page = Document("d", f"{FILLER}\n{text}\n{FILLER}")
            kinds = [hit.kind for hit in stage.hits(page) if hit.number == at]
            assert "verbatim" in kinds, (stage.benchmarks.items[at], kinds)
            assert stage.judge(page) is not None


@pytest.mark.parametrize(
    "query",
    [
        "If $a=4$, $b=7$, $c=9$, $d=2$, $e=5$, $f=8$, $g=1$, $h=3$, what is $a+b+c$?",
        "Return the tribonacci number at a place. trib(10) 81 trib(1) 0 trib(8) 24 trib(5) 4 trib(12) 274 trib(3) 1",
        "ACGT" * 40 + " is read from left to right by " + "TTGA" * 90 + " and then from right to left by whom",
    ],
)
def test_letters_between_numbers_and_words_without_end(query: str) -> None:
    """Found by the examiner: no gram of three words with one number lies in some items."""
    assert hits(f"{FILLER}\n{query}\n{FILLER}", Decontaminate(benchmarks=items(query))) == [("toy/0", "verbatim")]


def test_a_file_that_holds_every_row_five_times_is_no_other_benchmark() -> None:
    five = Benchmarks(
        tuple(Item("toy", f"{at}/{n}", query) for at, query in enumerate((LAMPS, MOON)) for n in range(5))
    )
    stage = Decontaminate(benchmarks=five)
    assert (stage.untold, stage.leaning) == ((), ())
    for text in (LAMPS, MOON):
        verdict = stage.judge(Document("d", FILLER + text))
        assert isinstance(verdict, Drop)
        assert verdict.value == 1.0
    # One row a choice: the same question about five things, each found with its own.
    choices = ["eggs and ham", "salt and oil", "rye and oats", "figs and dates", "rice and peas"]
    rows = Decontaminate(benchmarks=Benchmarks(tuple(Item("toy", one, LAMPS, (one,)) for one in choices)))
    assert len(rows.leaning) == 5
    assert hits(f"{LAMPS} {choices[2]}", rows) == [("toy/rye and oats", "verbatim")]


def test_other_numbers_beside_the_item_itself_hide_nothing() -> None:
    for query in (LAMPS, MOON.replace("三百", "300"), "Ann has 9 hens and 4 ducks; how many birds does Ann have?"):
        stage = Decontaminate(benchmarks=items(query))
        other = re.sub(r"\d+", lambda number: str(int(number[0]) + 7), query)
        for parts in ((other, query), (query, other), (other, query, other), (query, other, other)):
            for between in ("\n", f"\n{FILLER}\n", "\n" + FILLER * 3):
                page = Document("d", between.join(parts))
                found = stage.hits(page)
                assert [hit.kind for hit in found] == [("renumbered", "verbatim")[part is query] for part in parts]
                assert isinstance(stage.judge(page), Drop)


@pytest.mark.parametrize(
    "write",
    [
        lambda text: text.replace("1,200", "1200"), lambda text: text.replace("1,200", "1 200"),
        lambda text: text.replace("1,200", "1.200"), lambda text: text.replace("1,200", "１，２００"),
        lambda text: text.translate(str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")), lambda text: "\u200b".join(text),
    ],
)  # fmt: skip
def test_a_number_may_be_written_otherwise(write: Any) -> None:
    query = "A mill grinds 1,200 sacks of rye in 30 days. How many sacks of rye does the mill grind in 45 days?"
    stage = Decontaminate(benchmarks=items(query))
    (hit,) = stage.hits(Document("d", FILLER + write(query)))
    assert hit.kind in ("verbatim", "edited")
    assert stage.judge(Document("d", write(query))) is not None
    spaced = "小明有120个苹果，他给了小红35个，又买了48个，请问现在小明一共有多少个苹果？"
    assert Decontaminate(benchmarks=items(spaced)).judge(Document("d", " ".join(spaced))) is not None


def test_half_a_surrogate_pair_is_no_reason_to_fail() -> None:
    page = f"x\ud83d {LAMPS} \ud83d"
    (hit,) = STAGE.hits(Document("d", page))
    assert page[hit.start : hit.stop] == LAMPS[:-1]
    assert common_windows(STAGE, [Document("d", page)] * 2, at_least=2) != ()


# ── what is no item alone ──


def test_a_question_about_a_passage_needs_some_of_what_stands_beside_it() -> None:
    ask, passage = "下列对小说相关内容和艺术特色的分析鉴赏，不正确的一项是", MOON
    option = "小说以月球开头，又以月球收尾，首尾呼应"
    item = Item("zh", "0", ask, (passage, option), about_passage=True)
    stage = Decontaminate(benchmarks=Benchmarks((item,)))
    assert stage.leaning == (0,)
    assert hits(FILLER + ask, stage) == hits(passage, stage) == hits(option, stage) == []
    assert hits(f"{passage}\n{ask}", stage) == hits(f"{ask}\nA. {option}", stage) == [("zh/0", "verbatim")]
    # A question that quotes its passage is not found by that.
    quoting = Item("en", "0", f"Why does the author say: {LAMPS}", (f"Prices. {LAMPS} So far the lamps.",), True)
    stage = Decontaminate(benchmarks=Benchmarks((quoting,)))
    assert hits(quoting.support[0], stage) == []
    assert hits(quoting.support[0] + quoting.query, stage) != []
    # Without a passage the same words would be the item.
    assert hits(ask, Decontaminate(benchmarks=Benchmarks((item._replace(about_passage=False),)))) == [
        ("zh/0", "verbatim")
    ]


def test_the_wording_of_a_benchmark_is_no_item() -> None:
    """No passage, and no two questions are the same: it is told by its pieces."""
    asks = [f"Which one of the following, if true, most {verb} the argument of the {who}?"
            for verb, who in [("weakens", "editor"), ("helps", "mayor"), ("hurts", "miller"), ("aids", "judge"),
                              ("mends", "clerk"), ("weakens", "judge"), ("helps", "clerk")]]  # fmt: skip
    made = tuple(
        Item("lr", str(n), ask, (f"Option {n} says that goats of kind {n} eat moss",)) for n, ask in enumerate(asks)
    )
    stage = Decontaminate(benchmarks=Benchmarks((*made, Item("lr", "own", LAMPS, ("1,029 dollars",)))))
    assert not {7, *stage.leaning} & {*stage.untold}
    assert 7 not in stage.leaning
    for at, item in enumerate(made):
        assert stage.judge(Document("d", FILLER + item.query)) is None
        if at in stage.leaning:
            assert f"lr/{at}" in {name for name, _ in hits(f"{item.query} {item.support[0]}", stage)}


# ── what everybody writes ──

ADDRESS = (
    "Four score and seven years ago our fathers brought forth on this continent a new nation, conceived in liberty, "
    "and dedicated to the proposition that all men are created equal."
)


def test_a_famous_quotation_is_no_hit_once_it_is_called_common() -> None:
    """BUG-034: forty pages quote the address; one of them asks the item's own question."""
    benchmarks = items(
        f"{ADDRESS} In which town, and in the course of which war, did the speaker say these words?", LAMPS
    )
    pages = [Document(str(at), f"{FILLER}Page {at}. {ADDRESS}\n{FILLER}") for at in range(40)]
    stage = Decontaminate(benchmarks=benchmarks)
    assert all(stage.judge(page) for page in pages)
    asked = Document("asked", "In which town, and in the course of which war, did the speaker say these words?")
    for common in (common_windows(stage, pages, at_least=20), (ADDRESS,), ADDRESS):
        stage = Decontaminate(benchmarks=benchmarks, common=common)
        assert not any(stage.hits(page) for page in pages)
        assert stage.judge(asked) is not None
        assert hits(LAMPS, stage) == [("toy/1", "verbatim")]


def test_phrases_of_many_items_do_not_count() -> None:
    """BUG-034: "complete truth tables for the following argument"."""
    ask = "Construct a complete truth table for the following argument, and then say whether it is valid or not: "
    tails = ["rain or shine and no wind", "if cats then dogs and birds", "neither ships nor trains at noon",
             "roses only if tulips and never lilies", "both drums and pipes unless it snows"]  # fmt: skip
    page = Document("d", f"{FILLER}{ask}this one I made up myself this afternoon for my students.")
    many = Decontaminate(benchmarks=items(*(ask + tail for tail in tails)))
    assert many.hits(page) == ()
    assert many.index.common > 0
    assert Decontaminate(benchmarks=items(ask + tails[0])).hits(page) != ()


def test_a_table_of_numbers_or_of_one_letter_is_no_item() -> None:
    stage = Decontaminate(
        benchmarks=items("Sum the row 1 2 3 4 5 6 7 8 9 and then p p p p p p p p p p p for the answer")
    )
    assert hits("1 2 3 4 5 6 7 8 9\n" * 20 + "p p p p p p p p p p p p p p p", stage) == []


def test_items_nobody_can_tell_from_chance_are_named() -> None:
    stage = Decontaminate(benchmarks=items("Compute 2 + 2.", LAMPS, "5, 6, 7?"))
    assert stage.untold == (0, 2)
    assert hits("Compute 2 + 2.", stage) == []


# ── what becomes of a document ──


def test_a_drop_names_benchmark_item_score_and_limit() -> None:
    verdict = STAGE.judge(Document("d", FILLER + LAMPS))
    assert verdict == Drop("contaminated", 1.0, 0.6, "toy/0")
    assert STAGE.judge(Document("d", FILLER)) is None
    assert (STAGE.name, STAGE.reasons, contract(STAGE)) == ("decontaminate", ("contaminated",), "judge")


def test_paragraphs_are_cut_and_the_rest_stays() -> None:
    stage = Decontaminate(benchmarks=TOY, unit="paragraph")
    blank = f"First.\n\n{LAMPS}\nA. 1,200\nB. 1,300\n\nLast."
    lines = f"First line.\n{LAMPS}\nLast line."
    for page, left in ((blank, "First.\n\nLast."), (lines, "First line.\nLast line.")):
        verdict = stage.judge(Document("d", page))
        assert isinstance(verdict, Cut)
        assert (verdict.reason, verdict.apply(page)) == ("contaminated", left)
    assert stage.judge(Document("d", LAMPS)) == Drop("contaminated", 1.0, 0.6, "toy/0")
    block = "A line.\n" * 400 + LAMPS + "\n" + "A line.\n" * 400 + "\n\nend"
    verdict = stage.judge(Document("d", block))
    assert isinstance(verdict, Cut)
    assert verdict.apply(block) == block.replace(LAMPS + "\n", "")


def test_two_items_in_one_paragraph_are_one_cut() -> None:
    page = f"Start\n{LAMPS} {MOON}\n{LAMPS}\nEnd"
    verdict = Decontaminate(benchmarks=TOY, unit="paragraph").judge(Document("d", page))
    assert isinstance(verdict, Cut)
    assert (len(verdict.spans), verdict.apply(page)) == (1, "Start\nEnd")


def test_other_numbers_are_reported_and_dropped_only_if_asked_for() -> None:
    doc = Document("d", LAMPS.replace("14", "19").replace("35", "48"))
    assert STAGE.judge(doc) is None
    assert STAGE.measure(doc).tolist() == [0, 1]
    strict = Decontaminate(benchmarks=TOY, renumbered="drop")
    assert strict.judge(doc) == Drop("renumbered", 1.0, 0.6, "toy/0")
    assert strict.reasons == ("contaminated", "renumbered")
    both = Document("d", doc.text + "\n" + MOON)
    verdict = strict.judge(both)
    assert isinstance(verdict, Drop)
    assert (verdict.reason, verdict.twin) == ("contaminated", "toy/1")


@given(st.lists(st.sampled_from([LAMPS, MOON, FILLER, LAMPS.replace("14", "15"), "short"]), max_size=4))
@settings(max_examples=25, deadline=None)
def test_a_verdict_from_measurements_is_the_judgement(parts: list[str]) -> None:
    doc = Document("d", "\n\n".join(parts))
    for stage in (STAGE, Decontaminate(benchmarks=TOY, unit="paragraph", renumbered="drop")):
        assert stage.verdict(doc, stage.measure(doc)) == stage.judge(doc)
        assert isinstance(stage, Measuring)
        assert len(stage.measure(doc)) == len(stage.signals)


def test_in_a_run_the_ledger_balances_and_the_order_plays_no_part() -> None:
    docs = [Document(str(at), text, "web") for at, text in enumerate([FILLER, LAMPS, FILLER + MOON, SHORT.query])]
    one, other = run([STAGE], docs), run([Decontaminate(benchmarks=TOY)], docs[::-1])
    assert [doc.id for doc in one.kept] == [doc.id for doc in other.kept][::-1] == ["0", "3"]
    assert one.ledger.reasons("decontaminate", "dropped") == {"contaminated": 2}


# ── the stage ──


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"unit": "line"}, "unknown unit 'line'"), ({"chinese": "both"}, "unknown chinese"),
        ({"renumbered": "keep"}, "unknown renumbered"), ({"threshold": 0}, "threshold=0"),
        ({"threshold": 1.2}, "threshold=1.2"), ({"fragment": 2}, "fragment=2"), ({"min_words": 1.5}, "min_words=1.5"),
        ({"shared": 1}, "shared=1"), ({"benchmarks": []}, "no benchmark given"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_at_birth(options: dict[str, Any], said: str) -> None:
    with pytest.raises((BadParameter, UnknownName), match=said):
        Decontaminate(**{"benchmarks": TOY, **options})


def test_what_is_common_in_one_document_is_no_question() -> None:
    with pytest.raises(BadParameter, match="at_least=1"):
        common_windows(STAGE, [], at_least=1)


def test_a_stage_holds_its_items_and_is_told_by_them() -> None:
    again = pickle.loads(pickle.dumps(STAGE))
    assert again.hits(Document("d", LAMPS)) == STAGE.hits(Document("d", LAMPS))
    digest = stage_digest(STAGE)
    assert digest is not None
    assert digest == stage_digest(again) == stage_digest(Decontaminate(benchmarks=TOY))
    others = [Decontaminate(benchmarks=items(LAMPS)), Decontaminate(benchmarks=TOY, threshold=0.5)]
    assert len({digest, *map(stage_digest, others)}) == 3


def test_the_shared_parts_of_two_texts() -> None:
    passage = "<p>" + LAMPS.upper().replace("14", "99")
    parts = alignment(LAMPS, passage)
    assert [LAMPS[a:b].upper() for a, b, _, _ in parts] == [passage[c:d] for _, _, c, d in parts]
    assert [LAMPS[a:b] for a, b, _, _ in parts][:2] == ["A lamp maker sells", LAMPS[LAMPS.index("lamps on") : -1]]


def test_the_self_test_tells_what_was_planted_and_found() -> None:
    rows = self_test(STAGE, seed=7, each=2, neutral=[FILLER])
    assert rows == self_test(STAGE, seed=7, each=2, neutral=[FILLER])
    assert Recall("toy", "embedded", 2, 2) in rows
    assert Recall("quiz", "verbatim", 1, 1) in rows
    assert all(row.found == row.planted for row in rows)
    # A stage that keeps traditional characters apart says so.
    apart = self_test(Decontaminate(benchmarks=TOY, chinese="as_written"), each=2, neutral=[FILLER])
    assert Recall("toy", "traditional", 1, 0) in apart
    with pytest.raises(BadParameter, match="neutral holds no words"):
        self_test(STAGE, neutral=["  "])


# ── real data ──


@pytest.fixture(scope="module")
def real() -> Decontaminate:
    return Decontaminate(benchmarks=load_benchmarks(shared("bench"), skip="planted*"))


def test_all_planted_items_are_found_and_no_clean_page_is_touched(real: Decontaminate) -> None:
    said = {"contaminated": 0, "clean": 0, "report_only": 0}
    names = {one.name for one in real.benchmarks.declared}
    with gzip.open(shared("bench/planted_contamination.jsonl.gz"), "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            doc = Document(row["id"], row["text"])
            found, verdict = real.hits(doc), real.judge(doc)
            kinds = {hit.kind for hit in found}
            got = "contaminated" if verdict else "report_only" if kinds == {"renumbered"} else "clean"
            assert got == row["expected"], (row["id"], row["note"], found)
            assert bool(found) == (got != "clean")
            said[got] += 1
            if found:
                (name,) = [name for name in names if name.startswith(row["benchmark"]) and "_v1.1" not in name]
                item = row["item"] if row["benchmark"] == "HumanEval" else f"{name}/{row['item']}"
                assert item in {hit.item for hit in found}, row["id"]
    assert said == {"contaminated": 69, "clean": 38, "report_only": 6}


def test_texts_nobody_planted_anything_in_are_clean(real: Decontaminate) -> None:
    for name in ("web_en_c4.jsonl", "legal_zh.jsonl.gz", "poetry_zh.jsonl"):
        path = shared(f"mixture/{name}")
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for line in data.splitlines():
            assert real.judge(Document("d", json.loads(line)["text"])) is None


def test_every_real_item_that_is_looked_for_is_found_as_it_is(real: Decontaminate) -> None:
    missed = []
    for name in real.benchmarks.names:
        # One benchmark at a time is four times faster: the same task stands in three of them.
        own = tuple(item for item in real.benchmarks.items if item.benchmark == name)
        stage = Decontaminate(benchmarks=Benchmarks(own))
        for at in {*range(len(own))} - {*stage.untold}:
            # Of long ones, programs and passages, every fourth: they take most of the time.
            for text in (text for text in told_planted(stage, at) if len(text) < 300 or at % 4 == 0):
                page = Document("d", f"Before it stands this.\n{text}\nAnd this behind it.")
                if "verbatim" not in [hit.kind for hit in stage.hits(page) if hit.number == at]:
                    missed.append((own[at].name, text))
    assert missed == []
    assert len(real.untold) < 40


def test_no_question_about_a_passage_drops_a_page_by_itself(real: Decontaminate) -> None:
    alone = [item for item in real.benchmarks.items if item.about_passage]
    assert len(alone) > 250
    dropped = [item.name for item in alone if real.judge(Document("d", FILLER + item.query)) is not None]
    assert dropped == []


def test_translations_of_items_into_other_languages_of_programs_are_found(real: Decontaminate) -> None:
    """The programs of the mixture are tasks of MBPP in nine languages, told by their numbers."""
    with gzip.open(shared("mixture/code_multilang.jsonl.gz"), "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file][::40]
    found = {}
    for row in rows:
        named = {hit.item for hit in real.hits(Document(row["id"], row["text"]))}
        found[row["id"]] = f"mbpp_prompts/MBPP/{row['id'].split('/')[1]}" in named
    assert sum(found.values()) >= 0.85 * len(found)
    assert all(yes for name, yes in found.items() if name.startswith("MBPP/"))


def test_the_real_index_is_small_and_told_by_its_items(real: Decontaminate) -> None:
    assert stage_digest(real) == stage_digest(Decontaminate(benchmarks=real.benchmarks))
    assert len(pickle.dumps(real)) < 14_000_000
