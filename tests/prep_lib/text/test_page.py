"""A page's tree: what is read, what is made ready, and how it is written."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from prep_lib.text import page


@pytest.mark.parametrize(
    ("tag", "before", "inside", "linked", "told"),
    [
        ("sup", "10", "3", False, "^3"),
        ("sup", "e", "-x", False, "^(-x)"),
        ("sup", "2", "n", False, "^n"),
        ("sup", "1", "st", False, ""),
        ("sup", "1", "e", False, ""),
        ("sup", "word ", "3", False, ""),
        ("sup", "10", "3", True, "[3]"),
        ("sub", "H", "2", False, ""),
        ("sub", "CaCl", "2", False, ""),
        ("sub", "log", "2", False, "_2"),
        ("sub", "10", "2", False, "_2"),
    ],
)
def test_what_is_raised_or_lowered(tag: str, before: str, inside: str, linked: bool, told: str) -> None:
    assert page.raised(tag, before, inside, linked=linked) == told


def test_spelling_out_is_one_pass_however_much_is_left_open() -> None:
    html = "<sup>" * 20_000 + "<math>" * 20_000
    assert page.spell_out(html) == html


def test_digits_of_the_cell_before_are_not_raised_to_a_power() -> None:
    html = "<td>10</td><td><sup>3</sup></td>"
    assert page.spell_out(html) == html


@pytest.mark.parametrize(
    "math", ['<math alttext="c^2"><mi>c</mi></math>', "<MATH><msup><mi>c</mi><mn>2</mn></msup></MATH>"]
)
def test_formulas(math: str) -> None:
    assert page.spell_out(math).strip("$") == "c^2"


def test_a_layout_table_is_opened_and_a_table_of_data_is_not() -> None:
    tree = page.parse(b"<table><tr><td><table><tr><td>1</td><td>2</td></tr></table></td></tr></table>")
    assert tree is not None
    page.prepare(tree)
    assert [node.tag for node in tree.iter()] == ["html", "body", "div", "div", "div", "table", "tr", "td", "td"]


def test_writing() -> None:
    body = etree.fromstring(
        "<body><head>Head</head><p>One <code>x()</code>\n two<lb/>three</p><code>\n  a\n\tb\n</code>"
        "<list><item>first<list><item>inner</item></list></item><item rend='dt-1'>term</item></list>"
        "<table><row><cell>a</cell><cell/><cell>c</cell></row><row><cell/></row></table><quote><p>said</p></quote></body>"
    )
    assert page.render(body).split("\n\n") == [
        "Head", "One x() two\nthree", "  a\n\tb", "- first\n  - inner\nterm", "a |  | c", "said",
    ]  # fmt: skip


def test_a_block_is_left_out_only_if_the_page_says_it_once() -> None:
    block = "x" * 80
    assert page.once(f"{block}\n\nb\n\n{block}", lambda: block) == f"{block}\n\nb"
    assert page.once(f"{block}\n\nb\n\n{block}", lambda: f"{block} {block}") == f"{block}\n\nb\n\n{block}"


def test_what_was_run_together_is_put_apart() -> None:
    tree = page.parse(
        "<h1>One</h1><div>Two <b>bold</b></div><p><ruby>三<rt>さん</rt></ruby>つ</p><script>no</script>".encode()
    )
    assert page.apart("One Two bold 三つ", tree) == "One\n\nTwo bold\n\n三つ"
    assert page.apart("Something else", tree) == "Something else"


@pytest.mark.parametrize(
    ("html", "attributes"),
    [
        ("no tag, a=b c=d", 0),
        ("< p a b c>", 0),
        ("<p>a=1 b=2</p>", 0),
        ("<p a b/c  d=1 e = '1 2' f=\"x>y\">g h", 6),
        ("<p a='b'c=\"d\"e>", 3),
        ("<p =a ==b c=>d e", 2),
        ("<p a=b'c d\"e>f'", 2),
        ("<p a='never closed b c", 1),
        ("<img src='data:image/png;base64," + "A+/=" * 10_000 + "'>", 1),
        ("<p a=\"<b c d e='x'>\" f>", 3),
        ("<script>if(a<b c='</script><p d e f>'", 3),
    ],
)
def test_the_attributes_of_the_longest_tag_are_counted(html: str, attributes: int) -> None:
    assert page.survey(html) == (html.count("<"), attributes)


#: One attribute, as the states of the standard read it; a value that is not closed goes on to the end.
ATTRIBUTE = r"""[^\s/>][^\s/>=]*(?:\s*=\s*(?:"[^"]*(?:"|$)|'[^']*(?:'|$)|[^\s"'>][^\s>]*)?)?"""
TAG = re.compile(rf"<[a-zA-Z][^\s/>]*+((?:[\s/]*+{ATTRIBUTE})*+)".replace(")?)?", ")?+)?+"))


@given(st.text(alphabet="<>pq =/\"'\té", max_size=40))
def test_every_start_is_followed_as_if_it_were_the_only_one(html: str) -> None:
    starts = [TAG.match(html, at) for at in range(len(html))]
    most = max((len(re.findall(rf"[\s/]*+({ATTRIBUTE})", one[1])) for one in starts if one), default=0)
    assert page.survey(html) == (html.count("<"), most)
    units = np.frombuffer(html.encode("utf-16-le"), np.uint16)
    assert page.count_attributes.python(units) == page.count_attributes(units)
