"""Spans put together are both texts, whatever the texts are; and what is the same is found, in bounded time."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widgets.text_diff import spans
from widgets.text_diff.spans import LINES, PAIRS, WINDOW, Span, compare, same

TEXTS = st.text(st.sampled_from("ab cé”\n\r\t\u200b。"), max_size=40)


def kinds(before: str, after: str) -> list[tuple[str, str, str]]:
    return [(span.kind, span.before, span.after) for span in compare(before, after) if span.kind != "equal"]


@settings(max_examples=200, deadline=None)
@given(TEXTS, TEXTS)
def test_the_spans_are_both_texts(before: str, after: str) -> None:
    found = compare(before, after)
    assert "".join(span.before for span in found) == before
    assert "".join(span.after for span in found) == after
    assert all(span.before or span.after for span in found)
    assert not any(a.kind == b.kind == "equal" for a, b in pairwise(found))
    assert 0 <= same(found) <= 1


def test_each_kind() -> None:
    assert kinds("a b\nc", "a b\nc") == []
    assert kinds("say “yes” ", "say “yes”") == [("delete", " ", "")]
    assert kinds("cafe\u0301 x", "café x") == [("replace", "e\u0301", "é")]
    assert kinds("a\nb\n", "a\nnew\nb\n") == [("insert", "", "new\n")]
    assert kinds("a\r\nb\r\n", "a\nb\n") == [("delete", "\r", ""), ("delete", "\r", "")]


def test_a_line_with_other_blanks_and_marks_is_still_that_line() -> None:
    before = "“one” line\n\n\n\n\nand two\u200b\nthree\n"
    after = '"one" line\n\n\nand two\nthree\n'
    assert [span.kind for span in compare(before, after) if span.kind != "equal"] == [
        "replace", "replace", "delete", "delete",
    ]  # fmt: skip


def test_a_whole_article_in_one_line_shows_each_change() -> None:
    words = [f"w{number}" for number in range(20_000)]
    before = " ".join(words)
    after = before.replace("w70 ", "W70 ").replace(" w19990 ", "  w19990 ")
    assert kinds(before, after) == [("replace", "w", "W"), ("insert", "", " ")] or kinds(before, after) == [
        ("replace", "w70", "W70"), ("insert", "", " "),
    ]  # fmt: skip
    assert same(compare(before, after)) > 0.99


def test_what_is_too_much_to_compare_is_one_span() -> None:
    before, after = "ab " * 3000, "cd " * 3000
    assert "".join(span.after for span in compare(before, after)) == after
    old, new = (f"{letter}\n" * (LINES + 5) for letter in "xy")
    assert "".join(span.before for span in compare(old, new + "z\n")) == old


def test_the_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def counting(junk: None, a: list[str], b: list[str], autojunk: bool = True) -> SequenceMatcher[str]:
        asked.append(len(a) * len(b))
        return SequenceMatcher(junk, a, b, autojunk)

    monkeypatch.setattr(spans, "SequenceMatcher", counting)
    compare(*(" ".join(f"{letter}{number}" for number in range(60_000)) for letter in "ab"))
    assert len(asked) > 2
    assert sum(asked) <= PAIRS + WINDOW**2


def test_the_share_that_is_the_same() -> None:
    assert same(compare("", "")) == 1
    assert same(compare("abcd", "")) == 0
    assert same([Span("ab", "ab"), Span("", "cd")]) == 0.5
