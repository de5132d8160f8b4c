"""The languages of documents: every number is there as text, a piece says its language, and data stays data."""

from __future__ import annotations

import re

import pytest

from prep_lib.errors import BadParameter
from prep_lib.record import Document
from prep_lib.text.language import Language
from widgets.language.page import BINS, LANGUAGES, LEAST, PIECES, view

ENGLISH = "The committee met on Tuesday to discuss the new library, and agreed to open it before the end of the year. "
VERSE = "Hello again my friend! 駅まで一緒に歩こうよ Take it slow tonight 雨が止んだら帰ろう\n"


def toy() -> list[Document]:
    """Two English documents, one in two languages, one of numbers."""
    texts = {"a": ENGLISH, "b": ENGLISH * 2, "c": VERSE * 4, "d": "3.14 2.72 1.41 1.73 " * 9}
    return [Language().map(Document(name, text)) for name, text in texts.items()]


def test_documents_and_characters_are_told_by_language() -> None:
    shown = view(toy())
    assert "4 documents, languages: 1; 1 of the documents (25.0 %) hold several languages" in shown.html
    assert re.search(r'<td class="word">zxx · no language</td>.*?<td>1</td><td>0</td><td>180</td>', shown.html)
    assert "en: " in shown.html
    assert repr(shown).startswith("<languages of 4 documents: en ")


def test_every_document_is_in_one_bar_of_the_histogram() -> None:
    counts = re.findall(r'aria-label="score [\d.–]+: (\d+) documents"', view(toy()).html)
    assert len(counts) == BINS
    assert sum(map(int, counts)) == 4


def test_the_least_sure_come_first() -> None:
    docs = [Document(f"d{at}", "x", meta={"language": "en", "language_score": at / 100}) for at in range(99, -1, -1)]
    html = view(docs).html
    rows = re.findall(r'<td class="word">(d\d+)</td>', html)
    assert rows == [f"d{at}" for at in range(LEAST)]


def test_pieces_say_their_language_in_colour_and_in_words() -> None:
    """Without a wish the document with several languages is shown."""
    html = view(toy()).html
    pieces = re.findall(r'<span class="doc o(\d)"><b class="chip"><small>(\w+) [\d.]+</small>(.*?)</b>', html, re.S)
    assert {code for _, code, _ in pieces} == {"en", "ja"}
    assert len({colour for colour, code, _ in pieces if code == "en"}) == 1
    assert any("駅まで一緒に歩こうよ" in text for _, code, text in pieces if code == "ja")
    assert "<small>zxx 1.00</small>" in view(toy(), show="d").html


def test_an_id_nobody_has_is_refused() -> None:
    with pytest.raises(BadParameter, match="widgets/language: no document with a language has the id 'e'"):
        view(toy(), show="e")


def test_nothing_to_show_and_documents_without_a_language() -> None:
    assert "No document has a language yet." in view([]).html
    assert "1 documents have no language in their meta" in view([*toy(), Document("e", "x")]).html


def test_what_is_left_out_is_said() -> None:
    codes = [f"x{at}" for at in range(LANGUAGES + 3)]
    docs = [Document(code, "x", meta={"language": code, "language_score": 1.0}) for code in codes]
    assert "3 more languages" in view(docs).html
    long = Language().map(Document("long", VERSE * 200))
    html = view([long]).html
    assert html.count('<span class="doc') == PIECES
    assert f"Shown: {PIECES} pieces" in html


def test_chinese() -> None:
    html = view(toy(), lang="zh").html
    assert 'lang="zh-CN"' in html
    assert "最不确定的文档" in html
    assert "非语言" in html


def test_data_is_escaped(nasty: str) -> None:
    meta = {"language": nasty, "language_score": 0.5, "languages": {nasty: 1.0}, "mixed": True}
    html = view([Document(nasty, nasty + VERSE, nasty, meta)]).html
    html.encode("utf-8")
    assert "<script" not in html
    assert "<img" not in html
    assert "\u202e" not in html


def test_the_same_documents_give_the_same_bytes_in_any_order() -> None:
    assert view(toy()).html == view(toy()[::-1]).html
