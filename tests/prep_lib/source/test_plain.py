"""Text files: one document each, whatever they are packed and written in."""

from __future__ import annotations

import gzip
from pathlib import Path

import fsspec
import pytest
import zstandard

from prep_lib.errors import BadRecord
from prep_lib.files import Span
from prep_lib.record import Document, Drop
from prep_lib.source.plain import documents

TEXT = "Größe über alles\r\nund nicht weiter\n"


def read(path: Path, data: bytes, **options: int) -> Document | Drop | BadRecord:
    path.write_bytes(data)
    ((place, found),) = documents(Span(str(path)), name=f"notes/{path.name}", **options)
    assert place == f"notes/{path.name}"
    return found


def test_the_file_is_the_document_and_its_folder_the_source(tmp_path: Path) -> None:
    assert read(tmp_path / "a.txt", TEXT.encode()) == Document(
        "notes/a.txt", TEXT, "notes", {"encoding": "utf-8", "encoding_by": "detected"}
    )
    assert [place for place, _ in documents(Span(str(tmp_path / "a.txt")))] == ["a.txt"]


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("zst", zstandard.compress)])
def test_packed_files_and_what_is_wrong_with_them(tmp_path: Path, ending: str, pack) -> None:
    whole = pack(TEXT.encode() * 100)
    path = tmp_path / f"a.txt.{ending}"
    assert read(path, whole).text == TEXT * 100  # type: ignore[union-attr]
    assert str(read(path, whole[:-3])).startswith("damaged_file: cut_stream")
    assert str(read(path, b"no stream")).startswith("damaged_file: corrupt_stream")
    assert str(read(path, whole + b"xyz")).startswith("damaged_file: bytes_after_stream")


def test_a_broken_byte_is_replaced_and_counted(tmp_path: Path) -> None:
    found = read(tmp_path / "a.txt", TEXT.encode() * 3 + b"\xff")
    assert isinstance(found, Document)
    assert (found.text, found.meta["replaced"]) == (TEXT * 3 + "\ufffd", 1)


def test_what_is_no_text_or_too_much_is_dropped_by_name(tmp_path: Path) -> None:
    assert read(tmp_path / "a.txt", b"\x89PNG\r\n\x1a\n" + bytes(range(200))) == Drop("not_text")
    assert read(tmp_path / "a.txt", b"x" * 11, max_bytes=10) == Drop("too_large", 11, 10)
    assert read(tmp_path / "a.txt.gz", gzip.compress(bytes(10**7)), max_bytes=10) == Drop("too_large", 11, 10)
    assert read(tmp_path / "a.txt", b"").text == ""  # type: ignore[union-attr]


def test_a_file_behind_an_address_and_one_that_is_gone(tmp_path: Path) -> None:
    with fsspec.open("memory://plain/a.txt.gz", "wb") as file:
        file.write(gzip.compress(TEXT.encode()))
    ((place, found),) = documents(Span("memory://plain/a.txt.gz"))
    assert (place, found.text) == ("a.txt.gz", TEXT)  # type: ignore[union-attr]
    ((place, gone),) = documents(Span(str(tmp_path / "gone.txt")))
    assert isinstance(gone, BadRecord)
    assert (place, gone.reason, gone.detail) == ("gone.txt", "unreadable_file", "No such file or directory")
