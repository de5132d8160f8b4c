"""What a task of `decide_files` writes: rows sorted by key, ranges in which all of a key meet, and evidence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from prep_lib import decide_tasks as work
from prep_lib.errors import BadInput
from prep_lib.files import Span, stamp
from prep_lib.inputs import Input
from prep_lib.text.exact_dedup import ExactDedup
from prep_lib.text.mixture import Mixture
from prep_lib.text.near_dedup import NearDedup

SETTINGS = work.Settings("text", "source", 42, False)
TEXTS = ["one two three four five six", "other", "one two three four five six", "one two three four five six seven"]


def given(folder: Path, texts: list[str]) -> list[Input]:
    path = folder / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text, "source": "web"}) + "\n" for text in texts))
    return [Input(Span(str(path)), 0, "a.jsonl", stamp(path))]


def sketched(folder: Path, texts: list[str], stages: list) -> dict:
    """Run the sketch task as the engine does: its files move under the folder."""
    (folder / work.SKETCH).mkdir(parents=True, exist_ok=True)
    return work.sketch(0, given(folder, texts), stages, SETTINGS, folder / work.SKETCH)


def test_a_sketch_holds_heads_ids_and_rows_by_key(tmp_path: Path) -> None:
    result = sketched(tmp_path, TEXTS, [ExactDedup(), Mixture()])
    heads = np.load(tmp_path / work.SKETCH / "00000.heads.npy")
    ids = np.load(tmp_path / work.SKETCH / "00000.ids.npy").tobytes().decode()
    assert heads["number"].tolist() == [0, 1, 2, 3]
    assert heads["characters"].tolist() == [len(text) for text in TEXTS]
    assert ids == "a.jsonl#L1a.jsonl#L2a.jsonl#L3a.jsonl#L4"
    rows = np.load(tmp_path / work.SKETCH / "00000.exact_dedup.npy")
    assert (np.diff(rows["key"].astype(float)) >= 0).all()
    assert sorted(rows["document"].tolist()) == [0, 1, 2, 3]
    assert (result["rows"], result["labels"], result["records"]) == (
        {"exact_dedup": 4, "mixture": 4}, {"mixture": ["web"]}, [4],
    )  # fmt: skip


def test_whom_one_stage_cannot_read_the_later_ones_do_not_see(tmp_path: Path) -> None:
    path, out = tmp_path / "a.jsonl", tmp_path / "out"
    out.mkdir()
    told = [{"text": "a"}, {"text": "b", "language": "en"}, {"text": "c"}]
    path.write_text("".join(json.dumps(record) + "\n" for record in told))
    one = Input(Span(str(path)), 0, "a.jsonl", stamp(path))
    result = work.sketch(0, [one], [Mixture(by="language"), ExactDedup(), NearDedup()], SETTINGS, out)
    assert np.load(out / "00000.failed.npy").tolist() == [[0, 0], [2, 0]]
    assert result["rows"] == {"mixture": 1, "exact_dedup": 1, "near_dedup": 1}
    assert [np.load(out / f"00000.{name}.npy")["document"].tolist() for name in result["rows"]] == [[1]] * 3
    assert sorted(result["lost"]) == ["0", "2"]


@pytest.mark.parametrize("ranges", [1, 2, 7])
def test_all_rows_of_a_key_meet_in_one_range(tmp_path: Path, ranges: int) -> None:
    stages = [ExactDedup()]
    sketched(tmp_path, TEXTS, stages)
    (tmp_path / work.DECIDED).mkdir()
    found = []
    for number in range(ranges):
        work.meet(tmp_path, 0, stages, 1, ranges, number, tmp_path / work.DECIDED)
        found.append(np.load(tmp_path / work.DECIDED / f"exact_dedup.{number:05d}.gone.npy"))
    gone = np.concatenate(found)
    assert [{int(one["document"]), int(one["twin"])} for one in gone] == [{0, 2}]


def test_a_document_that_went_is_not_seen_by_the_next_stage(tmp_path: Path) -> None:
    stages = [ExactDedup(keep="first"), NearDedup(threshold=0.5)]
    sketched(tmp_path, TEXTS, stages)
    (tmp_path / work.DECIDED).mkdir()
    work.meet(tmp_path, 0, stages, 1, 1, 0, tmp_path / work.DECIDED)
    work.collect(tmp_path, 0, stages, 0, [f"{work.DECIDED}/exact_dedup.00000.gone.npy"], None, tmp_path / work.DECIDED)
    rows = work.alive(tmp_path, stages, 1, 0)
    assert rows["document"].tolist() == rows["place"].tolist() == [0, 1, 3]
    assert work.gone_before(tmp_path, ["exact_dedup"], 0).tolist() == [2]


def test_evidence_is_read_of_the_documents_asked_for_alone(tmp_path: Path) -> None:
    stages = [NearDedup()]
    sketched(tmp_path, TEXTS, stages)
    (tmp_path / work.DECIDED).mkdir()
    each, wanted = [Input(Span(str(tmp_path / "a.jsonl")), 0, "a.jsonl", stamp(tmp_path / "a.jsonl"))], np.array([0, 3])
    work.prove(tmp_path, 0, stages, 0, each, SETTINGS, wanted, np.zeros(2, np.int64), tmp_path / work.DECIDED)
    table = np.load(tmp_path / work.DECIDED / "near_dedup.00000.evidence.table.npy")
    assert (table["document"].tolist(), table["end"].tolist()) == ([0, 3], [2, 5])


def test_a_file_that_lost_lines_meanwhile_is_noticed(tmp_path: Path) -> None:
    stages = [NearDedup()]
    sketched(tmp_path, TEXTS, stages)
    (tmp_path / work.DECIDED).mkdir()
    (each,) = given(tmp_path, TEXTS[:2])
    with pytest.raises(BadInput, match=r"a\.jsonl was changed while it was read"):
        work.prove(
            tmp_path, 0, stages, 0, [each], SETTINGS, np.array([0, 3]), np.zeros(2, np.int64), tmp_path / work.DECIDED
        )


def test_how_a_stage_decides() -> None:
    assert [work.way(stage) for stage in (ExactDedup(), NearDedup(), Mixture(), object())] == [
        "grouped", "banded", "counted", None,
    ]  # fmt: skip


def test_numbers_of_documents_come_span_by_span() -> None:
    documents = np.array([0, 5, work.PLACE + 1, 3 * work.PLACE])
    assert list(work.by_piece(documents)) == [(0, 0, 2), (1, 2, 3), (3, 3, 4)]
    assert list(work.by_piece(documents[:0])) == []
