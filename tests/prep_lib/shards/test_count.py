"""A span becomes rows on disk, and every record of it is accounted for."""

import json
from pathlib import Path

import numpy as np
import pytest

from prep_lib.chat.process import Processor
from prep_lib.errors import BadParameter
from prep_lib.files import Span, open_bytes
from prep_lib.shards import count as module
from prep_lib.shards.count import PIECE, Settings, among_smallest, count, document_id


class Numbers(Processor):
    keys = ("sequence",)
    id_keys = ("sequence",)

    def arrays(self, record):
        return {"sequence": np.arange(record["n"])}


class Uneven(Processor):
    keys = ("sequence", "loss_mask")
    id_keys = ("sequence",)

    def arrays(self, record):
        return {"sequence": np.arange(3), "loss_mask": np.ones(2, bool)}


def settings(**given) -> Settings:
    plain = {"pack_size": 4, "packing": "best_fit_split", "tail": "pad", "pad_value": 0, "max_length": None,
             "too_long": "drop", "shard_size": None, "seed": 1, "sample": 0}  # fmt: skip
    return Settings(**{**plain, **given})


def span(folder: Path, numbers: list[int]) -> Span:
    path = folder / "in.jsonl"
    path.write_text("".join(json.dumps({"n": n}) + "\n" for n in numbers))
    return Span(str(path))


def test_pieces_are_ordered_by_length_and_say_where_they_begin(tmp_path: Path) -> None:
    result = count(0, span(tmp_path, [3, 6, 1]), "in.jsonl", Numbers(None), settings(), 1.0, tmp_path)
    stored = np.load(tmp_path / "00000.pieces.npy")
    assert stored.dtype == PIECE
    assert [(p["row"], p["start"], p["begin"], p["length"]) for p in stored] == [
        (2, 0, 9, 1), (1, 4, 7, 2), (0, 0, 0, 3), (1, 0, 3, 4),
    ]  # fmt: skip
    assert np.fromfile(tmp_path / "00000.sequence.bin", np.int32).tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5, 0]
    assert np.load(tmp_path / "00000.documents.npy").tolist() == [1, 2, 3]
    assert (result["rows"], result["tokens"], result["seen"]) == (3, 10, 3)


def test_an_empty_row_is_dropped_by_name(tmp_path: Path) -> None:
    result = count(0, span(tmp_path, [0, 2]), "in.jsonl", Numbers(None), settings(), 1.0, tmp_path)
    assert result["rows"] == 1
    with open_bytes(tmp_path / "00000.rejected.jsonl.zst") as file:
        (line,) = map(json.loads, file)
    assert (line["id"], line["reason"]) in {("in.jsonl#L1", "empty"), ("in.jsonl#L1", "no_target")}


def test_arrays_that_differ_in_length_are_not_packed(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="differ in length and cannot be packed"):
        count(0, span(tmp_path, [1]), "in.jsonl", Uneven(None), settings(), 1.0, tmp_path)


def test_batches_are_an_implementation_detail(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    source = span(tmp_path, list(range(1, 40)))
    count(0, source, "in.jsonl", Numbers(None), settings(), 1.0, tmp_path / "a")
    monkeypatch.setattr(module, "BATCH", 1)
    count(0, source, "in.jsonl", Numbers(None), settings(), 1.0, tmp_path / "b")
    for path in sorted((tmp_path / "a").iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_the_smallest_lots_keep_their_texts(monkeypatch) -> None:
    monkeypatch.setattr(module, "KEPT_TEXTS", 3)
    heap: list[int] = []
    lots = [50, 10, 40, 20, 60, 30]
    assert [among_smallest(heap, lot) for lot in lots] == [True, True, True, True, False, True]
    assert sorted(-lot for lot in heap) == [10, 20, 30]


def test_ids_name_lines_and_rows() -> None:
    assert document_id("a.jsonl.gz", 7) == "a.jsonl.gz#L7"
    assert document_id("b.parquet", 0) == "b.parquet[0]"
