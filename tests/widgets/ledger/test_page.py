"""The funnel: every number of the ledger is there as text, and data stays data."""

from __future__ import annotations

import pytest

from prep_lib.ledger import Ledger
from widgets.ledger.page import page, view


def toy() -> Ledger:
    """Ten come in from two sources, one fails, two are too long, seven stay."""
    ledger = Ledger()
    ledger.add("read", "in", "web", documents=6, characters=60)
    ledger.add("read", "in", "chat", documents=4, characters=40)
    ledger.add("read", "kept", "web", documents=5, characters=50)
    ledger.add("read", "kept", "chat", documents=4, characters=40)
    ledger.add("read", "failed", "web", "bad_json", documents=1, characters=10)
    ledger.add("fit", "in", "web", documents=5, characters=50)
    ledger.add("fit", "in", "chat", documents=4, characters=40)
    ledger.add("fit", "kept", "web", documents=3, characters=30)
    ledger.add("fit", "kept", "chat", documents=4, characters=40)
    ledger.add("fit", "dropped", "web", "too_long", documents=2, characters=20)
    for flow, count in {
        "content": 90,
        "control": 8,
        "eos": 3,
        "written": 96,
        "cut": 0,
        "dropped": 3,
        "remainder": 2,
    }.items():
        ledger.add_tokens("pack", flow, count)
    ledger.add_tokens("pack", "padding", 4)
    ledger.add_tokens("pack", "trained", 48)
    return ledger


def test_each_stage_says_its_numbers() -> None:
    html = page(toy())
    assert "10 documents in, 7 kept (70.0 %)" in html
    assert "in 10 · kept 9 · dropped 0 · failed 1" in html
    assert "in 9 · kept 7 · dropped 2 · failed 0 · characters 90 → 70" in html


def test_bars_share_one_scale() -> None:
    html = page(toy())
    assert 'class="kept" style="width:90%"' in html
    assert 'class="kept" style="width:70%"' in html
    assert 'class="dropped" style="width:20%" title="dropped 2"' in html


def test_reasons_and_sources_are_told() -> None:
    html = page(toy())
    assert '<td class="word">dropped</td><td class="word">too_long</td><td class="word">web</td><td>2</td>' in html
    assert '<td class="word">chat</td><td>4</td><td>4</td><td>0</td><td>0</td><td>100.0 %</td><td>40</td>' in html


def test_thousands_of_sources_are_not_a_page_of_megabytes() -> None:
    ledger = Ledger()
    for number in range(3000):
        for flow, reason in (("in", ""), ("dropped", f"reason_{number}")):
            ledger.add("read", flow, f"page_{number}", reason)
    html = page(ledger)
    assert len(html) < 100_000
    assert html.count("and 2,950 more") == 2


def test_the_token_equation_is_spelled_out() -> None:
    html = page(toy())
    for word, count in {"content": 90, "control": 8, "EOS": 3, "written": 96, "remainder": 2}.items():
        assert f"<b>{count}</b><small>{word}</small>" in html
    assert "<b>101</b>" in html
    assert "≠" not in html
    assert "4 padding (4.0 % of the stored places), 48 trained (50.0 % of the written tokens)" in html


def test_a_ledger_that_does_not_balance_is_drawn_with_a_line_that_says_so() -> None:
    ledger = toy()
    ledger.add_tokens("pack", "written", 1)
    html = page(ledger)
    assert "ledger: pack, source &#x27;&#x27;: tokens do not balance" in html
    assert "≠" in html
    assert "every document and every token is accounted for" not in html


def test_an_empty_ledger_says_so() -> None:
    assert "Nothing has been counted yet." in page(Ledger())


def test_a_ledger_without_tokens_or_without_documents_is_drawn() -> None:
    ledger = Ledger()
    ledger.add_tokens("pack", "content", 5)
    ledger.add_tokens("pack", "written", 5)
    assert "0 documents in, 0 kept (–)" in page(ledger)


def test_chinese() -> None:
    html = page(toy(), "zh")
    assert "输入 10 篇文档，保留 7 篇" in html
    assert 'lang="zh-CN"' in html
    assert "too_long" in html


def test_names_from_data_are_escaped(nasty: str) -> None:
    ledger = Ledger()
    ledger.add(nasty, "in", nasty)
    ledger.add(nasty, "dropped", nasty, nasty)
    html = page(ledger)
    html.encode("utf-8")
    assert "<script" not in html
    assert "<img" not in html
    assert "\u202e" not in html


def test_the_same_ledger_gives_the_same_bytes_whoever_counted_first() -> None:
    one, other = toy(), toy()
    mixed = Ledger(stages=one.stages)
    for name in ("documents", "characters", "tokens"):
        getattr(mixed, name).update(dict(reversed(getattr(other, name).items())))
    assert page(one) == page(mixed)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_view_is_one_line_and_the_page(lang: str) -> None:
    shown = view(toy(), lang)
    assert repr(shown) == "<ledger: 10 documents in, 7 kept (70.0 %)>"
    assert shown._repr_html_() == page(toy(), lang)
