"""A folder of verdicts stands for the documents it lets through, to whoever reads documents."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prep_lib.build import build_shards
from prep_lib.decide import decide_files
from prep_lib.documents import Documents
from prep_lib.errors import BadInput, BadParameter
from prep_lib.files import Span
from prep_lib.inputs import survey as survey_inputs
from prep_lib.pipeline import draw, run_files
from prep_lib.source import jsonl
from prep_lib.text.exact_dedup import ExactDedup
from prep_lib.verdicts import CUTS, Column, called, joined, through, under


def column(folder: Path, copies: list[int], cuts: list[tuple[int, int, int]] = [], copy: int = 0) -> Column:  # noqa: B006
    np.save(folder / "part-00000.copies.npy", np.array(copies, np.uint16))
    np.save(folder / "part-00000.cuts.npy", np.array(cuts, CUTS))
    often = tuple(sum(each > time for each in copies) for time in range(max(copies, default=0)))
    return Column(str(folder / "part-00000"), "digest", often, copy=copy)


def lines(path: Path, *texts: str) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def test_a_column_leaves_out_repeats_and_cuts(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", "one", "two", "three", "four")
    first = column(tmp_path, [1, 0, 3, 2], [(2, 0, 2)])
    rounds = [column(tmp_path, [1, 0, 3, 2], [(2, 0, 2)], copy) for copy in range(len(first.records))]
    assert first.records == (3, 2, 1)
    read = [
        [(place, doc.id, doc.text, doc.source) for place, doc in jsonl.documents(Span(str(path)), column=each)]
        for each in rounds
    ]
    assert read[0] == [
        ("a.jsonl#L1", "a.jsonl#L1", "one", "a.jsonl"),
        ("a.jsonl#L3", "a.jsonl#L3", "ree", "a.jsonl"),
        ("a.jsonl#L4", "a.jsonl#L4", "four", "a.jsonl"),
    ]
    assert [doc for _, doc, *_ in read[1]] == ["a.jsonl~2#L3", "a.jsonl~2#L4"]
    assert read[2] == [("a.jsonl~3#L3", "a.jsonl~3#L3", "ree", "a.jsonl")]


def test_a_record_behind_the_end_of_a_column_is_not_read(tmp_path: Path) -> None:
    assert [column(tmp_path, [1]).takes(number) for number in (1, 2, 99)] == [True, False, False]


@given(st.text(max_size=30), st.data())
def test_joined_cuts_are_the_cuts_one_after_the_other(text: str, data: st.DataObject) -> None:
    def spans(size: int) -> list[tuple[int, int]]:
        marks = data.draw(st.lists(st.integers(0, size), unique=True, max_size=6))
        ends = sorted(marks)[: len(marks) // 2 * 2]
        return list(zip(ends[::2], ends[1::2], strict=True))

    def cut(text: str, spans: list[tuple[int, int]]) -> str:
        gone = {at for start, stop in spans for at in range(start, stop)}
        return "".join(letter for at, letter in enumerate(text) if at not in gone)

    old = spans(len(text))
    new = spans(len(cut(text, old)))
    whole = joined(old, new)
    assert cut(text, whole) == cut(cut(text, old), new)
    assert all(start < stop for start, stop in whole)
    assert all(one[1] < two[0] for one, two in itertools.pairwise(whole)) or not new


def decided(folder: Path) -> Path:
    lines(folder / "a.jsonl", "one", "two", "one", "three")
    decide_files([ExactDedup(keep="first")], folder / "a.jsonl", folder / "out", engine="inline")
    return folder / "out"


def test_everybody_reads_through_it(tmp_path: Path) -> None:
    out = decided(tmp_path)
    assert [doc.text for doc in Documents(out)] == ["one", "two", "three"]
    assert len(Documents(out)) == 3
    assert [doc.text for doc in draw(out, 0)] == ["one", "two", "three"]
    ledger = run_files([], out, tmp_path / "copy", engine="inline")
    assert [doc.text for doc in Documents(tmp_path / "copy")] == ["one", "two", "three"]
    # What one run let through is what the next has in.
    assert ledger.total("read", "in") == Documents(out).ledger.total("exact_dedup", "kept") == 3


def test_what_lies_under_it_must_be_what_was_decided_about(tmp_path: Path) -> None:
    out = decided(tmp_path)
    lines(tmp_path / "a.jsonl", "one", "two")
    with pytest.raises(
        BadInput, match=r"example: .*a.jsonl is missing or not what was decided about; write .*out again"
    ):
        through(out, "example")
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(BadInput, match="is missing or not what was decided about"):
        draw(out, 0)


@pytest.mark.parametrize("name", ["ledger.json", "part-00000.copies.npy"])
def test_it_must_be_complete(tmp_path: Path, name: str) -> None:
    out = decided(tmp_path)
    kept = (out / name).read_bytes()
    (out / name).unlink()
    with pytest.raises(BadInput, match=r"is not complete|is missing or cut; write"):
        under(out, "example")
    if name.endswith("npy"):
        (out / name).write_bytes(kept[:-2] + b"\x07\x00")
        with pytest.raises(BadInput, match="is not as it was written"):
            under(out, "example")


def test_one_that_another_version_wrote_is_written_again(tmp_path: Path) -> None:
    contents = decided(tmp_path) / "documents.json"
    contents.write_text(contents.read_text().replace('"version": 1', '"version": 0'))
    with pytest.raises(BadInput, match="another version of prep_lib wrote"):
        under(contents.parent, "example")


def test_files_that_are_no_verdicts_stay_what_they_are(tmp_path: Path) -> None:
    assert through(["a.jsonl", "memory://bucket/b"], "example") == (["a.jsonl", "memory://bucket/b"], {})
    assert called("a", 0) == "a"


def test_what_was_cut_from_one_text_is_not_cut_from_another(tmp_path: Path) -> None:
    rows = [{"text": "twice", "body": at} for at in "ab"]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    decide_files([ExactDedup()], tmp_path / "a.jsonl", tmp_path / "out", text="body", engine="inline")
    for read in (lambda: draw(tmp_path / "out", 0), lambda: build_shards(tmp_path / "out", tmp_path / "s", "", 8)):
        with pytest.raises(BadParameter, match="these are about the field 'body'; 'text' is another text"):
            read()


def test_a_moved_workspace_still_finds_its_texts(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    decided(tmp_path / "here")
    (tmp_path / "here").rename(tmp_path / "there")
    assert [doc.text for doc in Documents(tmp_path / "there" / "out")] == ["one", "two", "three"]


def test_later_copies_are_inputs_of_their_own_behind_all_others(tmp_path: Path) -> None:
    from prep_lib.engine import Crew
    from prep_lib.source.read import survey_rows

    paths = [str(lines(tmp_path / name, "one", "two")) for name in ("a.jsonl", "b.jsonl")]
    columns = {path: column(tmp_path, [1, 3]) for path in paths[:1]}
    with Crew("inline") as crew:
        sources = survey_inputs(paths, tmp_path, crew, where="example", surveyor=survey_rows, columns=columns)
    assert [source.name for source in sources] == ["a.jsonl", "b.jsonl", "a.jsonl~2", "a.jsonl~3"]
    assert [source.rows for source in sources] == [2, 2, 1, 1]
