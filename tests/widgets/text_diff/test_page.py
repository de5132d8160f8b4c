"""The page of differences: each change is there as text, what nobody sees has a name, and data stays data."""

from __future__ import annotations

import re

import pytest

from prep_lib.markup import STYLE
from prep_lib.record import Document
from prep_lib.text.normalize import Normalize
from prep_lib.words import LANGS, WORDS
from widgets.text_diff.page import EACH, MOST, SHOWN, STRETCH, STRETCHES, WHOLE, view


def shown(docs: list[Document], lang: str = "en", **settings: bool) -> str:
    stage = Normalize(**settings)  # type: ignore[arg-type]
    return view(docs, [stage.map(doc) for doc in docs], lang).html.split("</style>")[-1]


def test_changes_are_counted_by_kind_over_all_documents() -> None:
    html = shown([Document(str(n), "a \nb ") for n in range(50)] + [Document("x", "isnâ€™t")])
    assert (
        '<td class="word">trailing</td><td class="word">lines that ended in blanks</td><td>100</td><td>50</td>' in html
    )
    assert '<td class="word">mojibake</td>' in html
    assert "51 of 51 documents changed" in html


@pytest.mark.parametrize("lang", LANGS)
def test_the_same_documents_give_the_same_bytes(lang: str) -> None:
    docs = [Document("1", "a\xa0b \r\n", "web"), Document("2", "same")]
    assert shown(docs, lang) == shown(docs, lang)


def test_what_nobody_sees_is_shown_and_named() -> None:
    html = shown([Document("1", "1\xa0000\u200b km  ")])
    assert '<del title="U+00A0 NO-BREAK SPACE"><i class="u">U+00A0</i></del>' in html
    assert '<ins title="U+0020 SPACE"><i class="s">·</i></ins>' in html
    assert '<del title="U+200B ZERO WIDTH SPACE"><i class="u">U+200B</i></del>' in html
    assert '<td class="word">U+200B ZERO WIDTH SPACE</td><td>1</td><td>0</td>' in html
    assert "U+000D CARRIAGE RETURN" in shown([Document("1", "a\r\nb")])


def test_lines_have_their_number_and_unchanged_ones_are_left_out() -> None:
    html = shown([Document("1", "first\nsecond\x00\nthird\nfourth\x00\n")])
    assert re.findall(r"<span>(\d+)</span><div>(.*?)</div>", html) == [
        ("2", 'second<del title="U+0000 NULL"><i class="u">U+0000</i></del>'),
        ("4", 'fourth<del title="U+0000 NULL"><i class="u">U+0000</i></del>'),
    ]
    assert 'aria-label="2 changed lines of 1"' in html
    assert "third" not in html


def test_a_handful_of_documents_with_the_most_of_each_kind() -> None:
    docs = [Document(f"t{n}", "x \n" * (n + 1)) for n in range(30)]
    docs += [Document("nul", "a\x00b"), Document("mix", "café e\u0301")]
    html = shown(docs)
    titles = re.findall(r"<h2>(\w+)</h2>", html)
    assert titles == ["t28", "t29", "nul", "mix"]
    assert len(titles) <= MOST
    assert EACH == 2


def test_long_texts_and_long_lines_are_cut_and_said_to_be() -> None:
    html = shown([Document("1", "x \n" * 500)])
    assert html.count("<del") == SHOWN + 1  # and the legend
    assert f"{500 - SHOWN:,} more changed lines are not shown." in html
    html = shown([Document("1", "word\xa0" * 400)])
    assert f"… {399 - STRETCHES // 2 + 1:,} more changes in this line" in html
    html = shown([Document("1", "far " * 400 + "\x00" + "away " * 400 + " " * 5000)])
    assert len(html) < 6_000 + STRETCH


def test_another_text_stands_beside() -> None:
    page = "<html>" + "<div>menu</div>\n" * 200 + "<p>kept</p>"
    html = view([Document("1", page, "web")], [Document("1", "kept", "web")]).html
    assert "Only 0." in html
    assert "up to 1,500 characters" in html
    assert html.count("&lt;div&gt;menu") < WHOLE / 15 + 2
    assert "before: 3,217 characters" in html


def test_a_step_that_counts_nothing_has_one_kind_and_dropped_documents_are_told() -> None:
    page = view([Document("1", "ab"), Document("2", "c")], [Document("1", "abc")])
    assert "1 more documents have no text afterwards" in page.html
    assert '<td class="word">other</td><td class="word">characters more or fewer</td><td>1</td><td>1</td>' in page.html
    assert repr(page) == "<text_diff: 1 of 1 documents changed>"


def test_nothing_changed() -> None:
    assert "Nothing changed." in shown([Document("1", "a")])
    assert "没有任何改动。" in view([], [], "zh").html


def test_nothing_from_data_gets_out(nasty: str) -> None:
    before = Document(nasty, nasty + "\x00 \n" + nasty, nasty, {"url": nasty})
    after = Document(nasty, nasty + "\n" + nasty, nasty, {"changes": {nasty: 1, "control": 1, "no": "number"}})
    other = Document(nasty + "2", "entirely another text")
    for html in (view([before], [after]).html, view([Document(other.id, nasty * 9)], [other]).html):
        body = html.replace(STYLE, "")
        assert "<script" not in body
        assert "<img" not in body
        assert "\u202e" not in body
        assert "\x07" not in body


def test_every_kind_the_stage_counts_has_its_sentence() -> None:
    text = "\ufeffa\r\nisnâ€™t\x00 a\u202eb c\u200cd e\u0301\xa0“x”  \n\n\n\n\n\ud83d Belgiâš´"
    kinds = Normalize(punctuation=True).normalize(text)[1]
    assert len(kinds) == 13
    assert all(f"text_diff.kind_{kind}" in WORDS for kind in kinds)
