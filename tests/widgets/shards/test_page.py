"""Bars and tables of shards say the same numbers, in text too; the audit says what failed first."""

from __future__ import annotations

import re
from typing import Any

import pytest

from prep_lib.errors import BadParameter
from prep_lib.shuffle.audit import Check
from widgets.shards.page import BINS, COLOURS, MOST, ROWS, SOME, audit, view
from widgets.shards.state import Held

BEFORE = [Held("a.jsonl", 90, {"web": 90}), Held("b.jsonl", 10, {"code": 10})]
AFTER = [Held("shard-00000.bin", 60, {"web": 54, "code": 6}), Held("shard-00001.bin", 40, {"web": 36, "code": 4})]


def check(passed: bool, **given: Any) -> Check:
    told = {"name": "lag", "value": 0.25, "ideal": 0.0, "limit": 0.05, "what": "neighbours", "passed": passed}
    return Check(**told | given)


def body(html: str) -> str:
    return html.split("</style>")[1]


def test_before_and_after_say_their_sizes_and_shares() -> None:
    page = view(AFTER, BEFORE)
    assert repr(page) == "<2 files, 40 to 60 tokens each>"
    assert 'aria-label="a.jsonl: 90 tokens; web 100.0 %"' in page.html
    assert 'aria-label="shard-00000.bin: 60 tokens; web 90.0 %, code 10.0 %"' in page.html
    assert "smallest 10 · median 50 · largest 90 · largest / smallest 9.00" in page.html
    cells = "<td>90</td><td>90.0 %</td><td>0.0 % – 100.0 %</td><td>90.0 % – 90.0 %</td>"
    assert f'<td class="word">web</td>{cells}' in page.html
    assert view(AFTER, BEFORE).html == page.html


def test_a_source_has_one_colour_on_both_sides() -> None:
    html = body(view(AFTER, BEFORE).html)
    assert {
        kind for kind, name in re.findall(r'<span class="(\w+)" style="[^"]*" title="(\w+)', html) if name == "web"
    } == {"d0"}
    assert len(re.findall(r'<span class="d1" style="[^"]*" title="code', html)) == 3


def test_alone_nothing_is_said_of_before() -> None:
    html = body(view(AFTER, lang="zh").html)
    assert "之前" not in html
    assert "2 个文件，每个 40 至 60 token" in html


def test_many_files_are_told_as_a_histogram_and_some_of_them() -> None:
    files = [Held(f"s{at}", 100 + at, {}) for at in range(10 * MOST)]
    html = body(view(files, unit="rows").html)
    assert html.count('class="strip file"') == BINS + SOME
    assert "100–119 rows: 20 files" in html
    assert "s0" in html
    assert f"s{10 * MOST - 1}" in html


def test_more_sources_than_colours_share_a_pattern_and_are_all_named() -> None:
    names = [f"source{at:02d}" for at in range(ROWS + 5)]
    html = body(view([Held("a", len(names), dict.fromkeys(names, 1))]).html)
    assert f"{len(names) - COLOURS} more sources" in html
    assert html.count('<span class="d-more"') == 1
    assert "5 more sources are not listed." in html


def test_nothing_to_look_at_and_an_empty_file() -> None:
    assert "There is no file to look at." in view([]).html
    assert "largest / smallest –" in view([Held("a", 0, {}), Held("b", 3, {})]).html
    assert repr(view([Held("a", 3, {})])) == "<1 files of 3 tokens>"
    with pytest.raises(BadParameter, match="unit must be tokens or rows, got 'bytes'"):
        view([], unit="bytes")


def test_the_audit_says_in_words_and_signs_what_failed_first() -> None:
    page = audit([check(True, name="batch_sources", value=3.5, ideal=4.0, limit=3.25), check(False)])
    assert repr(page) == "<1 of 2 checks failed.>"
    assert re.findall(r"[✓✗] \w+", body(page.html)) == ["✗ failed", "✓ passed"]
    cells = re.sub(r' data-v="[^"]*"', "", page.html)
    assert "<td>3.5</td><td>4</td><td>≥ 3.25</td>" in cells
    assert "<td>0.25</td><td>0</td><td>≤ 0.05</td>" in cells
    assert '<code>lag</code><span class="below">neighbours</span>' in page.html
    assert audit([check(True)], "zh").said == "全部 1 项检查通过。"
    assert audit([]).said == "Nothing was checked."


def test_nothing_from_data_gets_out(nasty: str) -> None:
    for html in (view([Held(nasty, 3, {nasty: 3})]).html, audit([check(False, name=nasty, what=nasty)]).html):
        assert "<script" not in html
        assert "<img" not in html
        assert "\u202e" not in html
