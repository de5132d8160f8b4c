"""Windows are the beginnings of spans; their lines have the numbers they have in the whole file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from prep_lib import files as fs
from prep_lib import windows as module
from prep_lib.files import Span
from prep_lib.inputs import Input
from prep_lib.pipeline import draw
from prep_lib.source import read
from prep_lib.windows import windows

LINES = [json.dumps({"text": f"document {number}", "n": number}) for number in range(400)]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a span 2,000 bytes, and a window at least 300."""
    monkeypatch.setattr(fs, "SPAN", 2_000)
    monkeypatch.setattr(module, "LOOKED", 2_000)
    monkeypatch.setattr(module, "LEAST", 300)


def write(folder: Path, name: str = "a.jsonl") -> Input:
    data = "".join(f"{line}\n" for line in LINES).encode()
    packed = {"gz": gzip.compress, "zst": zstandard.ZstdCompressor().compress}.get(name.split(".")[-1], bytes)(data)
    (folder / name).write_bytes(packed)
    return Input(Span(str(folder / name)), 0, name, [])


def ids(found: list[Input]) -> list[str]:
    return [place for one in found for place, _ in read.documents(one.span, name=one.name)]


def test_what_is_small_is_read_whole(tmp_path: Path) -> None:
    whole = write(tmp_path)
    assert windows([whole], 10**6) == [whole]


def test_windows_begin_where_spans_do_and_count_lines_as_the_file_does(tmp_path: Path) -> None:
    whole = write(tmp_path)
    found = windows([whole], 2_000)
    spans = fs.survey(whole.span.path, fs.SPAN).spans
    begins = {(span.start, span.first) for span in spans}
    assert len(found) > 3
    assert {(one.span.start, one.span.first) for one in found} <= begins
    assert found[0].span.start == 0
    every = dict(read.documents(whole.span))
    for one in found:
        for place, doc in read.documents(one.span, name=one.name):
            assert doc == every[place]
    assert sum((one.span.stop or 0) - one.span.start for one in found) < 2 * 2_000


def test_a_window_of_everything_is_everything(tmp_path: Path) -> None:
    whole = write(tmp_path)
    assert ids(windows([whole], 10**6 // 2)) == ids([whole])


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst"])
def test_of_a_packed_file_the_beginning_is_read(tmp_path: Path, name: str) -> None:
    whole = write(tmp_path, name)
    (one,) = windows([whole], 2_000)
    found, every = ids([one]), ids([whole])
    assert 20 < len(found) < len(every)
    assert found == every[: len(found)]


def test_a_packed_file_that_is_shorter_than_its_window_is_no_error(tmp_path: Path) -> None:
    span = write(tmp_path, "a.jsonl.gz").span
    assert len([*read.documents(Span(span.path, 0, 10**6))]) == len(LINES)


def test_what_is_drawn_is_drawn_from_windows_until_there_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prep_lib.pipeline.LOOKED", 2_000)
    path = write(tmp_path).span.path
    few, many, more = (draw(path, size) for size in (5, 200, 10**4))
    assert (len(few), len(many), len(more)) == (5, 200, len(LINES))
    assert draw(path, 5) == few
    assert len({doc.id for doc in few} & {doc.id for doc in draw(path, 20)}) == 5, "the same ones, and some more"
