"""Markup: data never becomes markup, nothing invisible stays invisible, the same input gives the same bytes."""

from __future__ import annotations

import sys
import unicodedata
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib import markup
from prep_lib.markup import (
    Html,
    Part,
    attribute,
    bar,
    card,
    chip,
    chips,
    code,
    document,
    escape,
    fold,
    join,
    note,
    runs,
    tag,
)

NASTY = '</script><script>alert(1)</script><img src=x onerror="alert(1)">\u202e\x00\x1b[31m\ud800"\' &amp;'

ANY_TEXT = st.text(st.characters(codec=None), max_size=40)


class Reader(HTMLParser):
    """What a browser would see: elements, attributes, text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@settings(max_examples=200)
@given(ANY_TEXT, st.booleans(), st.booleans())
def test_text_never_becomes_an_element_and_always_fits_utf8(text: str, blanks: bool, breaks: bool) -> None:
    html = escape(text, blanks=blanks, breaks=breaks)
    html.encode("utf-8")
    assert set(Reader(html).tags) <= {"i"}
    assert "\x00" not in html


@settings(max_examples=200)
@given(ANY_TEXT)
def test_an_attribute_is_one_attribute(text: str) -> None:
    read = Reader(f'<p title="{attribute(text)}">')
    assert read.tags == ["p"]
    assert [name for name, _ in read.attributes] == ["title"]


@given(st.text(st.characters(categories=("L", "N", "P", "S"), max_codepoint=0x2FFF), max_size=40))
def test_what_can_be_seen_stays_as_it_is(text: str) -> None:
    visible = "".join(character for character in text if not markup._TEXT.search(character) or character in "&<>\"'")
    assert Reader(escape(visible)).text == visible


def test_every_control_and_format_character_is_shown() -> None:
    """The exceptions are Arabic, Syriac and Kaithi number signs and the like: format characters that have a shape."""
    hidden = [
        character
        for character in map(chr, range(sys.maxunicode + 1))
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") and not markup._TEXT.match(character)
    ]
    shaped = [
        "\u0600",
        "\u0601",
        "\u0602",
        "\u0603",
        "\u0604",
        "\u0605",
        "\u06dd",
        "\u070f",
        "\u0890",
        "\u0891",
        "\u08e2",
    ]
    assert [character for character in hidden if ord(character) < 0x10000] == shaped
    assert all(0x11000 <= ord(character) <= 0x1DFFF for character in hidden if ord(character) >= 0x10000)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a\nb", 'a<i class="s">↵</i>b'),
        ("\t", '<i class="s">→</i>'),
        ("\u202e", '<i class="u">U+202E</i>'),
        ("\ud800", '<i class="u">U+D800</i>'),
        ("\U000e0041", '<i class="u">U+E0041</i>'),
        ("\r", '<i class="u">U+000D</i>'),
        ("é 你 👍", "é 你 👍"),
    ],
)
def test_symbols(text: str, html: str) -> None:
    assert escape(text) == html


def test_blanks_are_shown_where_asked() -> None:
    assert escape(" ") == " "
    assert escape(" ", blanks=True) == '<i class="s">·</i>'
    assert escape("\u3000", blanks=True) == '<i class="u">U+3000</i>'


def test_breaks_keep_the_symbol_and_the_line() -> None:
    assert escape("a\nb", breaks=True) == 'a<i class="s">↵</i>\nb'


def test_code_keeps_lines_and_escapes_them() -> None:
    assert code("a = '<'\nb") == "<pre>a = &#x27;&lt;&#x27;\nb</pre>"


def test_a_bidirectional_control_cannot_be_in_a_title() -> None:
    assert attribute("a\u202eb") == "a[U+202E]b"


def test_tag_leaves_out_what_is_none_and_writes_true_bare() -> None:
    assert tag("details", "a", open=True, title=None, hidden=False) == "<details open>a</details>"
    assert tag("p", cls="x", aria_label="y") == '<p class="x" aria-label="y"></p>'


def test_join_escapes_data_only() -> None:
    assert join(["<", Html("<b>")], " ") == "&lt; <b>"


@pytest.mark.parametrize("make", [
    lambda text: markup.table([text], [[text, 1]], caption=text, best=0),
    lambda text: bar([Part("kept", 1, text, text)], 2, text),
    lambda text: chips([(text, text, [chip(text, "on", text)], "line")], text, text),
    lambda text: fold(text, text),
    lambda text: card(text, text),
    lambda text: note("warn", text),
    lambda text: code(text),
    lambda text: markup.snippet(text),
    lambda text: document(text, text),
])  # fmt: skip
def test_nothing_made_here_lets_data_out(make: object) -> None:
    html = make(NASTY)  # type: ignore[operator]
    read = Reader(html)
    html.encode("utf-8")
    assert not {"script", "img"} & set(read.tags)
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    assert not {"\u202e", "\x00", "\x1b"} & set(html)
    assert make(NASTY) == html  # type: ignore[operator]


def test_numbers_for_people() -> None:
    assert [markup.number(value) for value in (0, 1234567, 0.25, None)] == ["0", "1,234,567", "0.2", "–"]
    assert [markup.percent(*pair) for pair in ((1, 8), (0, 0), (None, 3), (2.0, 1))] == ["12.5 %", "–", "–", "200.0 %"]


def test_a_table_puts_words_left_and_marks_the_best() -> None:
    html = markup.table(["a", "b"], [["x", 1000], ["y", 2]], best=1)
    assert '<tr class="best"><td class="word">★ y</td><td>2</td></tr>' in html
    assert "<td>1,000</td>" in html


def test_a_bar_of_nothing_is_empty_and_still_says_its_numbers() -> None:
    assert bar([Part("kept", 0, "0")], 0, "nothing") == '<div class="bar" role="img" aria-label="nothing"></div>'


def test_a_chip_can_be_reached_by_keyboard_and_a_group_holds_its_reason_once() -> None:
    html = chips([("turn 1", "Because.", [chip("a", "", "id 1"), chip("b", "", "id 2")], "")], "hint", "tokens")
    assert html.count("tabindex=0") == 2
    assert html.count('<span class="why">') == 1
    assert 'title="turn 1 · Because."' in html


def test_a_chip_may_have_a_name_to_jump_to() -> None:
    assert chip("a", "on", "id 1", "t-0-1") == '<b class="chip on" tabindex=0 id=t-0-1>a<i>id 1</i></b>'
    assert " id=" not in chip("a", "on", "id 1")


def test_runs_say_their_reason_beside_their_tokens_and_every_line_can_be_opened() -> None:
    html = runs([("turn <1>", "Because.", [chip("a", "on", "id 1")], "on")], "every line", "hint", "tokens")
    assert '<div class="run on" role="listitem"><div class="said"><b>turn &lt;1&gt;</b>Because.</div>' in html
    assert html.index("<details") < html.index('class="runs" role="list" aria-label="tokens"')


def test_a_note_says_its_kind_by_a_mark_too() -> None:
    assert [note(kind, "x")[note(kind, "x").index("<b>") + 3] for kind in ("bad", "warn", "ok")] == ["✗", "!", "✓"]


def test_a_document_may_not_run_or_fetch_anything() -> None:
    page = document("t", Html("<p>x</p>"), "zh")
    assert "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'none'" in page
    assert '<html lang="zh-CN">' in page
    assert page.index("Content-Security-Policy") < page.index("<style>")
    assert "http" not in page.replace("http-equiv", "")


def test_the_style_asks_for_nothing_and_knows_both_themes_of_a_notebook() -> None:
    assert "url(" not in markup.STYLE
    assert "@import" not in markup.STYLE
    assert "prefers-color-scheme:dark" in markup.STYLE
    assert 'body[data-jp-theme-light="false"] .prep{' in markup.STYLE
    assert "</" not in markup.STYLE


def _luminance(colour: str) -> float:
    full = "".join(2 * digit for digit in colour) if len(colour) == 3 else colour
    linear = [
        v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4
        for v in (int(full[i : i + 2], 16) / 255 for i in (0, 2, 4))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [markup._LIGHT, markup._DARK])
@pytest.mark.parametrize(
    ("ink", "ground"),
    [("ink", "bg"), ("ink", "card"), ("ink", "ctx"), ("dim", "card"), ("dim", "bg"), ("on", "on-bg"), ("ctl", "ctl-bg"),
     ("pad", "card"), ("bad", "bad-bg"), ("ok", "ok-bg")],
)  # fmt: skip
def test_every_text_has_the_contrast_of_wcag_aa(theme: str, ink: str, ground: str) -> None:
    colours = dict(part[2:].split(":#") for part in theme.split(";") if part.startswith("--"))
    light, dark = sorted((_luminance(colours[ink]), _luminance(colours[ground])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_a_page_says_one_line_elsewhere() -> None:
    page = markup.Page("<p>x</p>", "ledger: 3 stages")
    assert (repr(page), page._repr_html_()) == ("<ledger: 3 stages>", "<p>x</p>")
