"""Contamination as a page: no benchmark is a red line, every hit stands beside its item, and data stays data."""

from __future__ import annotations

import re

import pytest

from prep_lib.markup import document
from prep_lib.record import Document
from prep_lib.text.benchmarks import Benchmarks, Declared, Item
from prep_lib.text.decontaminate import KINDS, Decontaminate, self_test
from widgets.contamination.page import EACH, SOME, none_given, view

LAMPS = (
    "A lamp maker sells 14 lamps on Monday and <b>twice</b> as many on Tuesday. How many lamps does she sell in all?"
)
OWLS = Item("quiz", "7", "Why do owls hunt at night?", ("Owls hunt at night because mice are active then.",))
TOY = Benchmarks(
    (Item("toy", "0", LAMPS), Item("toy", "1", "Add 2 and 2."), OWLS),
    (Declared("toy", "own", ("ask",), (), 2), Declared("quiz", "truthfulqa", ("question",), ("best_answer",), 1)),
)
STAGE = Decontaminate(benchmarks=TOY)


def pages(number: int = 1) -> list[Document]:
    """Pages with the item, one with other numbers, and one without anything."""
    shouted = "Before.\n" + LAMPS.upper() + "\nAfter."
    return [
        *(Document(f"p{at}", shouted) for at in range(number)),
        Document("n", LAMPS.replace("14", "15")),
        Document("clean", "Nothing to see."),
    ]


def test_no_benchmark_is_a_red_line_and_no_clean_result() -> None:
    shown = view(None, pages())
    assert repr(shown) == "<contamination: no benchmark given>"
    for html in (shown.html, str(none_given())):
        assert '<p class="note bad" role="alert"' in html
        assert "no benchmark was given, so nothing was looked for. This is not a clean result." in html
    assert "没有给出任何评测集" in view(None, [], lang="zh").html


def test_counts_by_benchmark_and_kind() -> None:
    shown = view(STAGE, pages(2))
    assert repr(shown) == "<contamination: 3 of 4 documents>"
    assert "3 of 4 documents hold items, 2 of them are dropped or cut; 3 items were looked for" in shown.html
    rows = re.findall(r'<td class="word">(toy|quiz)<span class="below">(.*?)</span></td>(.*?)</tr>', shown.html)
    cells = {name: [fields, *map(int, re.findall(r"<td>(\d+)</td>", rest))] for name, fields, rest in rows}
    kinds = dict.fromkeys(KINDS, 0) | {"verbatim": 2, "renumbered": 1}
    assert cells["toy"] == ["ask", 2, 1, 0, 3, *kinds.values()]
    assert cells["quiz"] == ["question, beside it best_answer", 1, 0, 1, 0, *[0] * len(KINDS)]


def test_what_lay_there_and_is_not_looked_for_is_told() -> None:
    """A benchmark that was left out would pass for clean."""
    assert "Not looked for" not in view(STAGE, pages()).html
    unread = ("x.parq", "<b>.md", *(f"more{at}" for at in range(SOME)))
    told = tuple(one._replace(empty=3) for one in TOY.declared)
    html = view(Decontaminate(benchmarks=Benchmarks(TOY.items, told, unread)), pages()).html
    assert f"Not looked for: {len(unread)} files of no known ending (x.parq, &lt;b&gt;.md, more0" in html
    assert "Not looked for: 6 records whose question is empty." in html
    assert f"more{SOME - 1}" not in html


def test_an_item_stands_beside_its_place_and_what_both_share_is_marked() -> None:
    html = view(STAGE, pages()).html
    assert "toy/0 · in p0, characters 8 to" in html
    marked = [re.sub(r"<[^>]*>", "", text) for text in re.findall(r"<mark>(.*?)</mark>", html, re.S)]
    assert any("lamps on Monday and &lt;b&gt;twice&lt;/b&gt; as many" in text for text in marked)
    assert any("LAMPS ON MONDAY AND &lt;B&gt;TWICE&lt;/B&gt; AS MANY" in text for text in marked)
    # The numbers that differ are not what both share.
    assert not any("15" in text for text in marked)
    assert "<b>twice</b>" not in html


def test_an_item_that_needs_its_support_is_shown_with_it() -> None:
    html = view(STAGE, [Document("d", f"{OWLS.query} {OWLS.support[0]}")]).html
    assert html.count("because mice are active then") == 2


def test_only_a_few_of_each_kind_are_shown_and_the_rest_is_counted() -> None:
    html = view(STAGE, pages(EACH + 3)).html
    assert html.count('<div class="pair"') == EACH + 1
    assert "3 more hits are not shown." in html


def test_nothing_found_is_said_with_what_was_looked_for() -> None:
    html = view(STAGE, [Document("clean", "Nothing to see.")]).html
    assert "None of the items was found." in html
    assert "3 items were looked for" in html


def test_the_self_test_as_a_table() -> None:
    rows = self_test(STAGE, each=2, neutral=["Some words of no interest."])
    html = view(STAGE, [], recall=rows).html
    planted = sum(row.planted for row in rows)
    assert f"{planted} of {planted} items planted in neutral text were found (100.0 %)." in html
    assert "1 items too short or too common" in html
    assert '<td class="word">toy</td><td>1 / 1</td>' in html


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(("unit", "renumbered"), [("document", "report"), ("paragraph", "drop")])
def test_the_policy_is_told_in_words(lang: str, unit: str, renumbered: str) -> None:
    stage = Decontaminate(benchmarks=TOY, unit=unit, renumbered=renumbered)
    html = view(stage, pages(), lang=lang).html
    said = {
        "endocumentreport": "The document goes. Items with other numbers are reported",
        "enparagraphdrop": "The paragraph goes. Items with other numbers are treated",
        "zhdocumentreport": "整篇文档丢弃。 数字不同的题目只报告",
        "zhparagraphdrop": "切除所在段落。 数字不同的题目与其他命中同样处理",
    }
    assert said[lang + unit + renumbered] in html


def test_data_cannot_leave_its_place(nasty: str) -> None:
    item = Item(nasty, nasty, f"{LAMPS} {nasty}", (nasty,))
    stage = Decontaminate(benchmarks=Benchmarks((item,), (Declared(nasty, "own", (nasty,), (nasty,), 1),)))
    shown = view(stage, [Document(nasty, f"{nasty} {LAMPS} {nasty}")])
    page = document("t", shown.html)
    assert "<script" not in page
    assert nasty not in page
