"""The planner's page: bars and table say the same numbers, in text too."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from prep_lib.text.mixture import plan
from widgets.mixture.page import BARS, REMARKS, page, report
from widgets.mixture.state import start, with_weight

SIZES = {"web": (400, 4000), "code": (100, 500), "zh": (50, 100)}


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_same_state_gives_the_same_bytes_and_names_every_source(lang: str) -> None:
    state = start(SIZES, "web=1 code=1 zh=1", budget=900, lang=lang)
    assert page(state) == page(replace(state))
    assert all(f"<b>{name}</b>" in page(state) for name in SIZES)


def test_a_source_says_its_numbers() -> None:
    html = re.sub(' data-v="[^"]*"', "", page(start(SIZES, "web=0.5 code=0.25 zh=0.25", budget=2000, max_epochs=4)))
    assert 'aria-label="zh: asked 25.0 %"' in html
    assert 'aria-label="zh: given 21.1 %"' in html
    assert "4.00 epochs · gives 400, has 100 characters · 300 again · 100 missing" in html
    assert "0.25 epochs · gives 1,000, has 4,000 characters · 3,000 left over" in html
    cells = "<td>50</td><td>100</td><td>25.0 %</td><td>21.1 %</td><td>400</td><td>4.00</td><td>300</td><td>100</td>"
    assert f'<td class="word">zh</td>{cells}<td>0</td>' in html
    assert "The mixture holds 1,900 characters: 41.3 % of what there is, 95.0 % of the 2,000 asked for" in html
    assert "; 100 are missing" in html


def test_remarks_are_plain_words() -> None:
    html = page(start(SIZES, "web=0.5 code=0.25 zh=0.25", budget=2400, max_epochs=5))
    assert "zh cannot give its share: 100 characters of it are missing" in html
    assert "zh comes 5.0 times. Up to 4 times, repeated text is nearly as good as new" in html
    html = page(start(SIZES, "web=0.5 code=0.5 zh=0"))
    assert "code ends first and decides how large the mixture is: the other sources leave 3,500 characters" in html
    assert "zh has the weight 0: its 100 characters are left out." in html
    html = page(start({"a": (2, 1000)}, budget=300))
    assert "One document of a is about 166.7 % of what it gives" in html
    assert "b gives nothing of the 5 tokens asked of it" in page(
        start({"a": (9, 90), "b": (3, 0)}, "a=1 b=1", budget=10, unit="tokens")
    )
    assert 'class="note' not in page(start(SIZES))


def test_remarks_that_matter_come_first_and_not_all_are_written() -> None:
    sources = {f"s{n:02}": (100, 1000) for n in range(30)}
    html = page(start({**sources, "z": (100, 10)}, {**dict.fromkeys(sources, 0), "z": 1}, budget=1000))
    assert html.count('class="note warn"') == REMARKS
    assert html.index("z comes 100.0 times") < html.index("s00 has the weight 0")
    assert f"{31 - REMARKS} more remarks" in html


def test_thousands_of_sources_are_one_page() -> None:
    html = page(start({f"s{n:04}": (1, n + 1) for n in range(3000)}, budget=4_000_000))
    assert html.count('class="stage"') == BARS
    assert f"{3000 - BARS:,} more sources" in html
    assert len(html) < 300_000


def test_a_settled_plan_says_what_came() -> None:
    planned = plan(SIZES, "web=1 code=1 rest=0", budget=800)
    html = report(planned.settled({"web": (39, 391), "code": (81, 402)})).html
    assert "49.3 %" in html
    assert '<th scope="col">documents given, with copies</th>' in html
    assert "Counted from the documents chosen." in html
    assert "Planned from sizes alone." in report(planned).html


def test_what_cannot_be_planned_says_why() -> None:
    html = page(start(SIZES, "unimax"))
    assert "unimax needs a budget" in html
    assert 'role="alert"' in html
    assert "There is no source to mix." in page(start({}))


def test_the_page_says_while_it_differs_from_the_parameters_cell() -> None:
    state = start(SIZES)
    assert "differ from the parameters cell" not in page(state)
    assert "weights = &#x27;web=0.87 code=0.109 zh=1&#x27;" in page(with_weight(state, "zh", 1.0))


def test_names_from_data_are_only_shown() -> None:
    bad = '<script>alert(1)</script>" onmouseover="x\u202e'
    html = page(start({bad: (3, 30), "b": (1, 10)}, {bad: 1, "b": 1}))
    html += page(start({bad: (3, 30)}, {"missing" + bad: 1}))
    body = re.sub(r"<style>.*?</style>", "", html, flags=re.S)
    assert "<script" not in body
    assert 'onmouseover="' not in body
    assert "\u202e" not in body
