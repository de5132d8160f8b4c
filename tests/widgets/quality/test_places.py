"""What a signal counts is marked where it stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prep_lib.text.signals import SIGNALS
from widgets.quality.places import SHOWN, excerpt


def marked(text: str, signal: str) -> list[str]:
    return [piece for piece, offends in excerpt(text, signal)[1] if offends]


@pytest.mark.parametrize(
    ("signal", "text", "places"),
    [
        ("hashes", "a # b ##", ["#", "#", "#"]),
        ("ellipses", "so ... and …", ["...", "…"]),
        ("short_lines", "A line of more than thirty characters.\n  Home \n\nAbout", ["Home", "About"]),
        ("end_mark_lines", "Ends well.\nDoes not\n好。", ["Does not"]),
        ("bullet_lines", "• one\n - two\nthree", ["• one", "- two"]),
        ("ellipsis_lines", "a…\nb...\nc.", ["a…", "b..."]),
        ("dup_lines", "same\nother\n same\nsame", ["same", "same"]),
        ("top_2_gram", "a b c a b d", ["a b", "a b"]),
        ("most_2_gram", "a b c", []),
        ("dup_5_grams", "a b c d e f x a b c d e f", ["a b c d e f"]),
        ("braces", "if {x}", ["{"]),
        ("digits", "in 1984 or 7", ["1984", "7"]),
        ("lorem_ipsum", "Lorem Ipsum dolor", ["Lorem Ipsum"]),
        ("alpha_words", "one 2 -- three4", ["2", "--"]),
        ("mean_word_length", "nothing to mark", []),
    ],
)
def test_places(signal: str, text: str, places: list[str]) -> None:
    assert marked(text, signal) == places


def test_the_excerpt_begins_near_the_first_place() -> None:
    begin, pieces = excerpt("word " * 100 + "# end", "hashes")
    assert begin == 440
    assert "".join(text for text, _ in pieces).endswith("# end")
    assert excerpt("a" * 1000, "hashes") == (0, (("a" * SHOWN, False),))


@given(st.text(st.sampled_from("ab# .…\n-•1{é好"), max_size=60), st.sampled_from(sorted(SIGNALS)))
def test_law_the_pieces_are_the_text(text: str, signal: str) -> None:
    begin, pieces = excerpt(text, signal)
    shown = "".join(piece for piece, _ in pieces)
    assert text[begin : begin + len(shown)] == shown
    assert len(shown) <= SHOWN
