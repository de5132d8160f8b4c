"""A document's way says what every stage did, and data stays data."""

from __future__ import annotations

from prep_lib.errors import BadRecord
from prep_lib.record import Cut, Document, Drop
from prep_lib.stage import Step
from widgets.ledger.journey import page, view

RAW = Document("a.html", "<p>one</p>", "web", {"url": "x"})
TEXT = Document("a.html", "one", "web", {"url": "x", "title": "<b>Tea</b>", "changes": {"newlines": 2}})


def test_a_kept_document_tells_sizes_and_what_was_written() -> None:
    html = page([Step("extract", RAW, TEXT), Step("language", TEXT, TEXT)])
    assert "it came through" in html
    assert "10 → 3 characters" in html
    assert "text unchanged, 3 characters" in html
    assert "newlines 2" in html
    assert "<b>Tea</b>" not in html
    assert ">url<" not in html


def test_a_dropped_one_ends_with_value_and_limit() -> None:
    step = Step("quality", TEXT, None, Drop("words", 12.0, 50.0), {"words": 12.0, "lines": float("nan")})
    html = page([Step("extract", RAW, TEXT), step])
    assert "dropped by quality: words" in html
    assert "12 against the limit 50" in html
    assert "1 signals measured" in html
    assert "quality: words" in view([step]).said


def test_a_failure_and_a_cut_are_told() -> None:
    failed = page([Step("upper", TEXT, None, BadRecord("unreadable", "at <3>"))], "zh")
    assert "在 upper 失败：unreadable" in failed
    assert "at &lt;3&gt;" in failed
    assert "without the lines cut by c4" in page([Step("quality", TEXT, RAW, Cut(((0, 1),), "c4"))])
