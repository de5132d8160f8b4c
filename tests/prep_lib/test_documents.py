from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from prep_lib.documents import MEASURED, Documents, numbers_dtype, sampled
from prep_lib.errors import BadInput
from prep_lib.pipeline import draw, run_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five documents of two sources, in two parts."""
    for name, texts in (("a", ["one", "two", "три"]), ("b", ["四", 'with "quotes"'])):
        lines = [json.dumps({"text": text, "source": name}) + "\n" for text in texts]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("prep_lib.inputs.BUNDLES", 2**40)
        run_files([], sorted(tmp_path.glob("*.jsonl")), tmp_path / "out", engine="inline")
    return tmp_path / "out"


def test_documents_come_back_in_order(folder: Path) -> None:
    found = Documents(folder)
    assert len(found.parts) == 2
    assert len(found) == 5
    assert [doc.text for doc in found] == ["one", "two", "три", "四", 'with "quotes"']
    assert [doc.source for doc in found] == ["a", "a", "a", "b", "b"]
    assert found.ledger.total("write", "kept", "b") == 2


def test_a_sample_is_drawn_over_all_parts(folder: Path) -> None:
    found = Documents(folder)
    drawn = [doc.id for doc in draw(folder, 3)]
    assert len(drawn) == 3
    assert drawn == [doc.id for doc in found if doc.id in drawn]
    assert {doc.id for doc in draw(folder, 2)} < set(drawn)


def test_what_is_made_of_a_sample_is_one_wherever_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": f"number {at}"}) + "\n" for at in range(40)))
    for home in (str(tmp_path), "memory://sampled"):
        run_files([], path, f"{home}/a", sample=10, engine="inline")
        run_files([], f"{home}/a", f"{home}/b", engine="inline")
        assert [Documents(f"{home}/{name}").contents["sample"] for name in "ab"] == [0.25, 0.25]
        part = f"{home}/a/part-00000.jsonl.zst"
        assert [sampled(one) for one in (part, [f"{home}/b", path], path, f"{home}/none", [])] == [0.25, 0.25, 1, 1, 1]


def test_a_damaged_part_is_one_error_line(folder: Path) -> None:
    (part, _) = Documents(folder).parts
    whole = part.read_bytes()
    part.write_bytes(whole[:-5] + b"12345")
    with pytest.raises(BadInput, match=r"documents: part-00000.jsonl.zst is damaged at .*; write it again"):
        list(Documents(folder))
    with pytest.raises(BadInput, match=r"part-00000.jsonl.zst is damaged"):
        Documents(folder).find("b.jsonl#L2")
    part.write_bytes(whole[:-5])
    with pytest.raises(BadInput, match=r"part-00000.jsonl.zst is missing or cut"):
        Documents(folder)


def test_a_folder_without_its_contents_is_not_opened(folder: Path) -> None:
    (folder / "documents.json").write_text("{}")
    with pytest.raises(BadInput, match=r"is no complete folder of documents \(KeyError\)"):
        Documents(folder)


def test_a_table_says_who_was_measured() -> None:
    kind = numbers_dtype(("words", "lines"))
    assert kind.names == (*(name for name, _ in MEASURED), "words", "lines")
    assert np.zeros(1, kind)["words"].dtype == np.float64
