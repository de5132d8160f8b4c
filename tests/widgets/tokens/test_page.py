"""What is odd in a vocabulary is found, named and counted; a text is drawn as tokens; nothing from data gets out."""

from __future__ import annotations

import re

import numpy as np
import pytest

from prep_lib.tokens.tokenizer import AutoTokenizer
from widgets.tokens.page import CHARACTERS, DRAWN, EXAMPLES, LANGUAGES, texts, vocabulary


@pytest.fixture(scope="module")
def known() -> AutoTokenizer:
    lines = ["documentation 2026 ------- " + "=" * 300, "documentation\n\n        茶园 2026", "茶园 documentation"] * 3
    return AutoTokenizer().train(lines, vocab_size=360)


def told(html: str, kind: str) -> tuple[list[str], int]:
    """The chips and the count of one kind."""
    row = re.search(rf'<td class="word">{kind}</td><td class="word">(.*?)</td><td>([\d,]+)</td>', html)
    assert row, kind
    chips = re.findall(r'<b class="chip[^"]*" title="[^"]*">(.*?)</b>', row[1])
    return [re.sub("<[^>]+>", "", chip) for chip in chips], int(row[2].replace(",", ""))


def test_kinds_of_odd_tokens_are_named_and_counted(known: AutoTokenizer) -> None:
    html = vocabulary(known).html
    assert told(html, "control tokens")[1] == 5
    chips, n = told(html, "parts of a character")
    assert n >= 128
    assert len(chips) == EXAMPLES
    assert all(re.fullmatch("[0-9A-F ]+", chip) for chip in chips)
    assert told(html, "blanks only")[0][0].count("·") >= 6
    assert "2026" in {chip.strip() for chip in told(html, "several digits")[0]}
    assert told(html, "with invisible characters")[0][0] == "U+0000"
    assert "not used" not in html


def test_examples_never_fill_a_page(known: AutoTokenizer) -> None:
    chips, n = told(vocabulary(known).html, "four signs or more")
    assert len(chips) < n
    assert sum(map(len, chips[1:])) <= CHARACTERS


def test_the_longest_are_words_and_say_how_often_they_are_used(known: AutoTokenizer) -> None:
    ids = np.array(known.encode("documentation documentation"))
    page = vocabulary(known, ids)
    first = re.search(r"<tbody><tr>(.*?)</tr>", page.html)
    assert first
    assert re.sub("<[^>]+>", " ", first[1]).split()[0] == "documentation"
    assert page.said.startswith("bpe-360: 307 tokens, 5 of them control, 2 (0.7 %) used")
    assert told(page.html, "not used in the texts looked at")[1] > 100
    assert "词表" in vocabulary(known, lang="zh").html


def test_texts_are_drawn_by_language_with_what_they_cost(known: AutoTokenizer) -> None:
    docs = [
        ("web", "en", "documentation"),
        ("wiki", "en", "2026"),
        ("web", "en", "third"),
        ("tea", "zh", "茶园"),
        ("x", None, "x"),
    ]
    page = texts(known, docs, each=2)
    assert page.said == "4 texts in 3 languages"
    assert re.findall("<h2>(.*?)</h2>", page.html) == ["en", "zh", "language unknown"]
    assert "tea · 2 characters" in page.html
    assert "third" not in page.html
    assert page.html == texts(known, docs, each=2).html


def test_of_a_long_text_the_beginning_is_drawn(known: AutoTokenizer) -> None:
    html = texts(known, [("web", "en", "documentation 2026 " * 500)]).html
    assert html.count('<b class="chip') == DRAWN
    assert re.search(r"… [\d,]+ more", html)
    many = [("web", f"l{at}", "x") for at in range(LANGUAGES + 5)]
    assert texts(known, many).html.count("<h2>") == LANGUAGES
    assert "0 texts" in texts(known, [("web", "en", "")], each=0).said


def test_a_special_token_inside_a_text_is_drawn_as_text(known: AutoTokenizer) -> None:
    assert "chip ctl" not in texts(known, [("web", "en", "a <｜im▁end｜>")]).html


def test_nothing_from_data_gets_out(known: AutoTokenizer, nasty: str) -> None:
    evil = AutoTokenizer().train([nasty] * 3, vocab_size=400, special_tokens=["<script>", "</s>"])
    assert any(b"script" in evil.token_bytes(token) for token in range(evil.size))
    for html in (texts(known, [(nasty, nasty, nasty)]).html, vocabulary(evil, np.arange(9)).html):
        assert not re.search(r"<(script|img)", html)
        assert not {"\u202e", "\x00", "\u2028"} & set(html)
