"""The page of near duplicates: the same numbers drawn and written, and nothing from data is trusted."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from toy_pairs import decided, words

from widgets.pairs import state as change
from widgets.pairs.page import page
from widgets.pairs.state import State, collect, start


@pytest.fixture(scope="module")
def first(world: Any) -> State:
    return start(collect(*world), world.stage)


def body(state: State) -> str:
    return page(state).split("</style>")[-1]


class Balanced(HTMLParser):
    """Fails where a tag is closed that is not open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("threshold", [0.5, 0.8, 0.9, 1.0])
def test_the_same_state_gives_the_same_bytes_in_both_languages(first: State, threshold: float, lang: str) -> None:
    state = replace(change.with_threshold(first, threshold), lang=lang)
    html = page(state)
    assert html == page(replace(state))
    read = Balanced()
    read.feed(html)
    assert read.open == []
    assert "<script" not in html


def test_who_goes_in_the_run_and_now(first: State) -> None:
    html = body(first)
    assert 'aria-label="the run, at 0.8 (10 × 6): 4 documents go (40.0 %), 6 stay"' in html
    assert 'aria-label="now, at 0.8 (10 × 6), estimated: 4 documents go (40.0 %), 6 stay"' in html
    assert 'now, at 1 (1 × 64), estimated: 0 documents go (0.0 %), 10 stay"' in body(change.with_threshold(first, 1.0))


def test_an_alarm_while_a_source_loses_most_of_itself(first: State) -> None:
    html = body(first)
    assert "shop would lose 66.7 % of its documents (2 of 3), more than 50 %" in html
    assert 'role="alert"' in html
    assert "<td>2</td><td>2</td><td>▲ 66.7 %</td>" in html
    assert 'role="alert"' not in body(change.with_threshold(first, 1.0))


def test_many_alarms_and_sources_are_cut_short(tmp_path: Path) -> None:
    records = [(f"s{at:02d}", f"{words('x', 40)} {at} {copy}") for at in range(25) for copy in range(3)]
    world = decided(tmp_path, records)
    html = body(start(collect(*world), world.stage))
    assert html.count('class="note bad"') == 8
    assert "more sources would lose most of themselves" in html
    assert "other sources" in html
    assert '<td class="word">all sources</td><td>75</td>' in html


def test_pairs_side_by_side_with_what_they_share(first: State) -> None:
    html = body(first)
    assert "exact Jaccard similarity 0.8889 ≥ 0.8</b> · the run dropped the second for the first" in html
    assert "exact Jaccard similarity 0.7333 &lt; 0.8</b> · the run kept both" in html
    assert '<span class="only">other</span>' in html
    assert '<span class="only">第二</span>' in html
    assert re.search(r'<mark class="both">aaa aab .* abm</mark>', html)
    assert html.count('class="goes"') == 3
    assert html.count('class="sides" role="group" aria-label="exact Jaccard') == 4


def test_a_pair_that_the_bands_do_not_find_stays(first: State) -> None:
    html = body(change.with_bands(first, "1 x 64"))
    assert html.count("these bands do not bring them together") == 3
    assert 'class="goes"' not in html


def test_a_long_shared_stretch_and_many_changes_are_cut(tmp_path: Path) -> None:
    long = words("a", 200)
    torn = " ".join(f"{words(f'b{at}', 12)} {at}z" for at in range(60))
    records = [("s", long + " one"), ("s", long + " two"), ("s", torn), ("s", torn.replace("z ", "y "))]
    world = decided(tmp_path, records)
    html = body(start(collect(*world), world.stage))
    assert "… " in html
    assert words("a", 200) not in html
    assert "more stretches" in html
    assert 40 <= html.count('class="only"') <= 44
    assert len(html) < 100_000


def test_thresholds_are_drawn_and_written(first: State) -> None:
    html = body(change.with_threshold(first, 0.9))
    assert '<td class="word">★ 0.9</td><td>7 × 9</td><td>4</td><td>40.0 %</td><td>+0</td>' in html
    assert '<td class="word">1</td><td>1 × 64</td><td>0</td><td>0.0 %</td><td>−4</td>' in html
    assert 'aria-label="Who would go at other thresholds. 0.5 50.0 %, ' in html
    assert "the run, exact 40.0 %" in html


def test_the_curve_with_its_points_and_their_numbers(first: State) -> None:
    html = body(first)
    assert "What the bands find: 1 - (1 - J^6)^10" in html
    assert "Of the 5 at 0.8 or above the bands find 5 (100.0 %); right at 0.8 the curve promises 95.2 %" in html
    assert 'aria-label="Share of pairs that 10 bands of 6 rows find, by similarity: 95.2 % at 0.8. Found of' in html
    assert html.count('class="mark dot"') == 6
    assert "What the bands find: 1 - (1 - J^64)^1" in body(change.with_bands(first, "1 x 64"))
    assert html.count("<svg") == html.count('role="img" aria-label') - 2 + html.count('aria-hidden="true"')


def test_every_point_lies_inside_its_drawing(first: State) -> None:
    spots = [tuple(map(float, spot)) for spot in re.findall(r"translate\((\S+) (\S+)\)", body(first))]
    assert len(spots) > 20
    assert all(0 < x < 340 and 0 < y < 236 for x, y in spots)


def test_clusters_and_families(first: State) -> None:
    html = body(first)
    assert "3 documents, 2 of them went" in html
    assert "3 documents from one template, 2 of them went" in html
    assert 'order <mark class="digits">123</mark>' in html
    assert "0.9524 · a.jsonl#L7 · shop" in html


def test_the_cell_is_told_of_a_difference(first: State) -> None:
    assert "differ from the parameters cell" not in body(first)
    html = body(change.with_bands(change.with_threshold(first, 0.75), "8 x 8"))
    assert "differ from the parameters cell" in html
    assert "<pre>threshold = 0.75\nbands = 8\nrows = 8</pre>" in html


def test_nothing_from_data_is_trusted(tmp_path: Path, nasty: str) -> None:
    text = f"{nasty} {words('a', 40)}"
    world = decided(tmp_path, [(nasty, f"{text} {at} {nasty}") for at in range(3)])
    html = body(start(collect(*world), world.stage))
    assert "<script" not in html
    assert "<img" not in html
    assert "\u202e" not in html
    assert "U+202E" in html


@pytest.mark.parametrize("records", [[], [("web", "")], [("web", "one two")], [("web", "one"), ("shop", "two")]])
def test_where_nothing_is_alike(tmp_path: Path, records: list[tuple[str, str]]) -> None:
    world = decided(tmp_path, records)
    html = body(start(collect(*world), world.stage))
    said = "The run dropped no near duplicate." if records else "There is no document to compare."
    assert said in html
