"""Web pages: one document each, decoded and not yet extracted."""

from __future__ import annotations

import gzip
from pathlib import Path

import fsspec
import pytest

from prep_lib.corpus import Page, pages
from prep_lib.files import Span
from prep_lib.record import Document, Drop
from prep_lib.source.html import documents, page

PAGE = '<!doctype html><meta charset="{}"><p>Größe über alles</p>'


@pytest.mark.parametrize(("says", "codec", "by"), [("utf-8", "utf-8", "meta"), ("utf-8", "cp1252", "detected")])
def test_the_page_is_decoded_and_kept_as_it_is(tmp_path: Path, says: str, codec: str, by: str) -> None:
    text = PAGE.format(says)
    (tmp_path / "a.html").write_bytes(text.encode(codec))
    ((place, found),) = documents(Span(str(tmp_path / "a.html")), name="web/en/a.html")
    encoding = "utf-8" if codec == "utf-8" else "windows-1252"
    meta = {"format": "html", "encoding": encoding, "encoding_by": by}
    assert (place, found) == ("web/en/a.html", Document("web/en/a.html", text, "web/en", meta))


def test_what_the_server_said_comes_first() -> None:
    text = PAGE.format("utf-8")
    found = page("a", "web", text.encode("cp1252"), "ISO-8859-1")
    assert isinstance(found, Document)
    assert (found.text, found.meta["encoding_by"]) == (text, "http")


def test_a_picture_that_is_called_a_page_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_bytes(bytes(range(256)) * 4)
    assert list(documents(Span(str(path)))) == [("a.html", Drop("not_text"))]
    assert list(documents(Span(str(path)), max_bytes=100)) == [("a.html", Drop("too_large", 101, 100))]


def test_a_packed_page_behind_an_address() -> None:
    with fsspec.open("memory://html/a.html.gz", "wb") as file:
        file.write(gzip.compress(PAGE.format("utf-8").encode()))
    ((place, found),) = documents(Span("memory://html/a.html.gz"))
    assert (place, found.text) == ("a.html.gz", PAGE.format("utf-8"))  # type: ignore[union-attr]


@pytest.mark.parametrize("planted", pages(), ids=lambda planted: planted.path)
def test_every_planted_page_is_read_in_its_true_encoding(planted: Page) -> None:
    found = page(planted.path, "web", planted.data)
    assert isinstance(found, Document)
    assert found.meta["encoding"] == planted.encoding
    assert "replaced" not in found.meta
    assert all(line in found.text for line in planted.keep if "(" not in line and "<" not in line)
