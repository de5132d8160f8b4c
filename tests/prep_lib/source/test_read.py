"""The reader of each kind of file, found by its ending; the same laws through every one of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import datasets
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from prep_lib import corpus
from prep_lib.errors import BadInput, BadParameter, BadRecord, UnknownName
from prep_lib.files import Span, survey
from prep_lib.record import Document, Drop
from prep_lib.source import read

#: A text with every line end there is: U+2028, U+0085 and vertical tab part no records.
TEXT = "one\u2028two\u0085three\x0bfour"


def parquet_bytes(*texts: str) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": list(texts)}), out)
    return out.getvalue().to_pybytes()


def warc_bytes(*texts: str) -> bytes:
    blocks = [text.encode() for text in texts]
    head = "WARC/1.0\r\nWARC-Type: conversion\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n"
    return b"".join(head.format(len(block)).encode() + block + b"\r\n\r\n" for block in blocks)


def lines(*texts: str) -> bytes:
    return b"".join(json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n" for text in texts)


#: A file of each kind that holds TEXT, then "x" where it can hold two.
FILES = {
    "a.txt": TEXT.encode(),
    "a.html": TEXT.encode(),
    "a.warc": warc_bytes(TEXT, "x"),
    "a.wet": warc_bytes(TEXT, "x"),
    "a.jsonl": lines(TEXT, "x"),
    "a.ndjson": lines(TEXT, "x"),
    "a.json": json.dumps([{"text": TEXT}, {"text": "x"}]).encode(),
    "a.csv": f'text\n"{TEXT}"\n"x"\n'.encode(),
    "a.tsv": f'n\ttext\n1\t"{TEXT}"\n2\tx\n'.encode(),
    "a.parquet": parquet_bytes(TEXT, "x"),
}
PACK = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}


@pytest.mark.parametrize("packed", PACK)
@pytest.mark.parametrize("name", FILES)
def test_every_kind_is_read_here_and_behind_an_address(tmp_path: Path, name: str, packed: str) -> None:
    """And packed both ways; bug 037: no reader of ours takes U+2028 or U+0085 for the end of a line."""
    if name + packed not in {"a" + ending for ending in read.ENDINGS}:
        assert name == "a.parquet"
        return
    data = PACK[packed](FILES[name])
    (tmp_path / (name + packed)).write_bytes(data)
    address = f"memory://read/{name}{packed}"
    with fsspec.open(address, "wb") as file:
        file.write(data)
    found = {}
    for path in (str(tmp_path / (name + packed)), address):
        told = read.survey(path)
        assert (told.size, told.digest) == (len(data), survey(path).digest)
        found[path] = [item for span in told.spans for item in read.documents(span)]
    here, there = found.values()
    assert here == there
    texts = [item.text for _, item in here if isinstance(item, Document)]
    assert texts == [TEXT, "x"][: len(texts)]
    assert len(texts) == (1 if name in ("a.txt", "a.html") else 2) == len({place for place, _ in here})
    assert all(
        place.startswith(name + packed) and item.id == place for place, item in here if isinstance(item, Document)
    )
    named = [place for span in read.survey(address).spans for place, _ in read.documents(span, name="in/b")]
    assert named == [place.replace(name + packed, "in/b", 1) for place, _ in here]


@pytest.mark.parametrize("ending", [".jsonl", ".txt", ".html", ".warc", ".csv"])
def test_a_cut_stream_costs_what_is_behind_the_cut(tmp_path: Path, ending: str) -> None:
    """Bug 041: an error by name, the file's lines before it, and no claim that all was read."""
    path = tmp_path / f"a{ending}.gz"
    path.write_bytes(gzip.compress(FILES[f"a{ending}"]) + gzip.compress(FILES[f"a{ending}"])[:-8])
    *found, (_, last) = read.documents(Span(str(path)))
    assert isinstance(last, BadRecord)
    # Of a page everybody knows that one is missing; of lines nobody knows how many.
    assert last.reason == ("damaged_file" if ending in (".txt", ".html") else "cut_stream")
    assert all(isinstance(item, Document | BadRecord) for _, item in found)
    assert len(found) >= (0 if ending in (".txt", ".html") else 2)


def test_names_and_kinds() -> None:
    kinds = {
        "a.HTM": "html", "a.xhtml.zst": "html", "a.md": "text", "CC.warc.gz": "warc", "CC.warc.wet.gz": "warc",
        "a.arc.gz": "warc", "a.ndjson.zst": "jsonl", "a.csv.gz": "table", "a.parquet": "parquet",
        "https://a.example/b.jsonl.gz?version=2": "jsonl",
    }  # fmt: skip
    assert {name: read.kind_of(name) for name in kinds} == kinds
    assert set(kinds.values()) == set(read.KINDS)


@pytest.mark.parametrize("name", ["a", "a.docx", "a.parquet.gz", "a.gz", "a.d/b"])
def test_an_ending_nobody_knows_is_told_with_those_we_do(name: str) -> None:
    with pytest.raises(UnknownName, match=r"^read: unknown ending of .*known: .*\.jsonl\.zst"):
        read.kind_of(name)


def test_a_kind_may_be_named(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_text("<p>one")
    ((_, found),) = read.documents(Span(str(path)), kind="html")
    assert isinstance(found, Document)
    assert found.meta["format"] == "html"
    assert read.survey(str(path), kind="jsonl").rows == 1
    with pytest.raises(UnknownName, match="unknown kind of file 'htlm'; did you mean 'html'"):
        read.documents(Span(str(path)), kind="htlm")


def test_one_set_of_options_serves_every_kind(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"body": "one"}\n')
    (tmp_path / "a.txt").write_text("two")
    options = {"text": "body", "max_bytes": 100}
    found = [item for name in ("a.jsonl", "a.txt") for item in read.documents(Span(str(tmp_path / name)), **options)]
    assert [item.text for _, item in found if isinstance(item, Document)] == ["one", "two"]
    with pytest.raises(BadParameter, match="no reader has an option 'max_byte'; known: column, max_bytes, name, text"):
        read.documents(Span(str(tmp_path / "a.txt")), max_byte=3)


def test_spans_of_lines_and_row_groups_and_whole_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "b", "c"]}), tmp_path / "a.parquet", row_group_size=2)
    (tmp_path / "a.txt").write_text("one")
    parquet = read.survey(str(tmp_path / "a.parquet"))
    assert [(span.start, span.stop, span.first) for span in parquet.spans] == [(0, 1, 0), (1, 2, 2)]
    assert read.survey(str(tmp_path / "a.txt")).spans == (Span(str(tmp_path / "a.txt")),)
    with pytest.raises(BadInput, match=r"cannot read .*gone\.html: No such file"):
        read.survey(str(tmp_path / "gone.html"))


@pytest.mark.parametrize(
    ("name", "data", "reasons"),
    [
        ("a.json", b'[{"text": "a"}, {"text": 7}, {"text": "c"', [None, "text_not_a_string", "unreadable_file"]),
        ("a.json", b'{"text": "a"}\n{"text": \n{"text": "c"}\n', [None, "bad_json", None]),
        ("a.csv", b"text,n\na,1\nb\nc,3\n", [None, "wrong_number_of_fields", None]),
        ("a.csv", b"text,text\na,1\n", ["unreadable_file"]),
        ("a.csv", "text\nGr\xf6\xdfe\nc\n".encode("latin-1"), ["invalid_utf8", None]),
    ],
)
def test_a_bad_row_of_a_table_costs_itself(tmp_path: Path, name: str, data: bytes, reasons: list) -> None:
    (tmp_path / name).write_bytes(data)
    found = [item for _, item in read.documents(Span(str(tmp_path / name)))]
    assert [item.reason if isinstance(item, BadRecord) else None for item in found] == reasons


def test_data_sets_are_documents_too() -> None:
    rows = datasets.Dataset.from_dict({"text": ["a", None, "c"], "n": [1, 2, 3]})
    found = list(read.dataset_documents(rows, name="toy"))
    assert found[0] == ("toy[0]", Document("toy[0]", "a", "toy", {"n": 1}))
    assert [item.reason for _, item in found if isinstance(item, BadRecord)] == ["text_not_a_string"]
    stream = list(read.dataset_documents(rows.to_iterable_dataset(), name="toy"))
    assert [place for place, _ in stream] == ["toy[0]", "toy[1]", "toy[2]"]


def test_the_planted_web_is_read_whole_and_every_id_is_unique(tmp_path: Path) -> None:
    paths = corpus.write_pages(tmp_path, limit=2)
    found = [
        item
        for path in paths
        for span in read.survey(str(path)).spans
        for item in read.documents(span, name=path.relative_to(tmp_path).as_posix())
    ]
    assert len({place for place, _ in found}) == len(found)
    documents = [item for _, item in found if isinstance(item, Document)]
    assert {item.source for item in documents} == {
        "harbour", "school", "teahouse", "abroad", "library", "notes", "pages.warc.gz", "pages.warc.wet.gz"
    }  # fmt: skip
    assert sum(isinstance(item, Drop) for _, item in found) == 6
    assert sum(isinstance(item, BadRecord) for _, item in found) == 1
    assert json.dumps([dict(item.meta) for item in documents])
