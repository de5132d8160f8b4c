"""Segments and pieces: the source is cut without loss, trimmed as Jinja trims, and marks tell who wrote what."""

from __future__ import annotations

import json

import pytest
from conftest import shared
from hypothesis import given
from hypothesis import strategies as st

from prep_lib.chat.source_map import (
    Condition,
    Piece,
    Stuck,
    cut_up,
    effective,
    literal,
    marked_copy,
    operands,
    plain_string,
    segments,
    wrote_by,
)
from prep_lib.jinja import Template


def test_segments_put_together_are_the_source() -> None:
    for entry in json.loads(shared("chat_templates/index.json").read_text("utf-8"))["templates"]:
        source = shared(f"chat_templates/{entry['file']}").read_text("utf-8")
        assert "".join(one.source() for one in segments(source)) == source.removesuffix("\n")


@pytest.mark.parametrize("source", ["{% raw %}{{ a }}{% endraw %}", "{{ 'a'", "{% if a", "{# never", "{{ '}} }}"])
def test_what_does_not_end_is_not_cut(source: str) -> None:
    with pytest.raises(Stuck):
        segments(source)


@pytest.mark.parametrize(
    "source",
    [
        "a \n {%- if 1 %} b \n{% endif -%} \n c", "  {% if 1 %}\nx\n  {% endif %}\ny\n", "{# a #}\n b {#- c -#} d",
        "{{ 1 }}\n{{- 2 -}}\n 3", "x {%+ if 1 +%}\n y{% endif %}", "\n {% set a = 1 %}\n\n{{ a }}\n\n",
        "a{% if 1 %} {% endif %}b", " {% if 1 %}a{% endif %} {% if 1 %}b{% endif %}",
    ],
)  # fmt: skip
def test_text_is_trimmed_as_jinja_trims(source: str) -> None:
    found = segments(source)
    pieces = cut_up(found)
    text, wrote = wrote_by(Template(marked_copy(found, pieces)).render())
    assert text == Template(source).render()
    assert all(0 <= number < len(pieces) for number, _, _, _ in wrote)
    assert len(effective(found)) == len(found)


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r"), max_size=30))
def test_a_spelled_text_is_the_text(text: str) -> None:
    assert Template("{{ " + literal(text) + " }}").render() == text
    assert plain_string(literal(text)) == text


@pytest.mark.parametrize(
    ("code", "parts"),
    [
        ("a + b ~ 'c + d'", ["a", "b", "'c + d'"]),
        ("a['x + y'] + f(b + c)", ["a['x + y']", "f(b + c)"]),
        ("a + b | trim", ["a", "b | trim"]),
        ("a + b if c else d", ["a + b if c else d"]),
        ("a - b + c", ["a - b + c"]),
        ("a + b == c", ["a + b == c"]),
        ("iffy + notes", ["iffy", "notes"]),
        ("+ a", ["+ a"]),
    ],
)
def test_only_what_is_joined_is_taken_apart(code: str, parts: list[str]) -> None:
    assert operands(code) == parts


def test_marks_tell_which_piece_wrote_what_and_when() -> None:
    found = segments("{% for m in messages %}{{ '<' + m.content }}.{% endfor %}")
    pieces = cut_up(found)
    rendered = Template(marked_copy(found, pieces)).render(
        messages=[{"role": "assistant", "content": "a"}, {"role": "user", "content": ""}]
    )
    text, wrote = wrote_by(rendered)
    assert text == "<a.<."
    assert [(number, text[start:stop]) for number, _, start, stop in wrote] == [
        (0, "<"), (1, "a"), (2, "."), (0, "<"), (1, ""), (2, "."),
    ]  # fmt: skip
    names = pieces[0].conditions
    held = [{name for name, holds in zip(names, bits, strict=True) if holds} for _, bits, _, _ in wrote]
    assert held[0] == {"m.role == 'assistant'", "m.content", "loop.first"}
    assert held[3] == {"loop.last"}


def test_macros_and_captures_are_left_alone() -> None:
    source = "{% macro f(a) %}<{{ a }}>{% endmacro %}{% set b %}x{{ 1 }}{% endset %}{{ f(b) }}"
    found = segments(source)
    pieces = cut_up(found)
    assert [piece.code for piece in pieces] == ["f(b)"]
    assert wrote_by(Template(marked_copy(found, pieces)).render())[0] == Template(source).render() == "<x1>"


def piece(*seen: tuple[bool, tuple[bool, bool]]) -> Piece:
    return Piece("x", None, ("a", "b == 'c'"), list(seen))


def test_the_simplest_condition_that_tells_is_taken() -> None:
    assert piece().verdict() is None
    assert piece((True, (True, True))).verdict() == ""
    assert piece((True, (True, False)), (False, (False, False))).verdict() == "a"
    assert piece((True, (True, False)), (False, (True, True))).verdict() == "b != 'c'"
    three = [(False, (True, False)), (False, (False, True)), (False, (False, False))]
    assert piece((True, (True, True)), *three).verdict() == "a and b == 'c'"
    either = [(True, (True, True)), (True, (True, False)), (True, (False, True))]
    assert piece(*either, (False, (False, False))).verdict() == "a or b == 'c'"


def test_what_no_condition_tells_is_not_guessed() -> None:
    with pytest.raises(Stuck):
        piece((True, (True, True)), (False, (True, True))).verdict()


def test_a_condition_holds_by_all_or_any() -> None:
    assert Condition("", ((0, True), (1, False))).holds([True, False])
    assert not Condition("", ((0, True), (1, False))).holds([True, True])
    assert Condition("", ((0, True), (1, False)), both=False).holds([True, True])
