"""A span becomes rows on disk, and every record of it is accounted for."""

import json
from pathlib import Path

import numpy as np

from prep_lib.chat.process import Processor
from prep_lib.files import Span, open_bytes
from prep_lib.shards import count as module
from prep_lib.shards.count import PIECE, Counted, Input, Layout, Settings, among_smallest, count, document_id, stamp


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


NUMBERS = Layout(("sequence",), ("sequence",), ("<i4",))
PAIRS = Layout.specified(("sequence", "loss_mask"), ("sequence",))


def source(folder: Path, numbers: list[int]) -> Input:
    path = folder / "in.jsonl"
    path.write_text("".join(json.dumps({"n": n}) + "\n" for n in numbers))
    return Input(Span(str(path)), 0, "in.jsonl", stamp(path))


def work(inputs: list[Input], out: Path, processor: Processor | None = None, layout: Layout = NUMBERS) -> dict:
    return count(0, inputs, processor or Numbers(None), layout, settings(), 1.0, out)


def rejected(folder: Path) -> list[dict]:
    with open_bytes(folder / "00000.rejected.jsonl.zst") as file:
        return [json.loads(line) for line in file]


def test_pieces_are_ordered_by_length_and_say_where_they_begin(tmp_path: Path) -> None:
    """Rows of 3, 6 and 1 tokens, packs of 4: the 6 is cut into 4 and 2."""
    result = work([source(tmp_path, [3, 6, 1])], tmp_path)
    stored = np.fromfile(tmp_path / "00000.pieces.bin", PIECE)
    assert [(p["row"], p["start"], p["begin"], p["length"]) for p in stored] == [
        (2, 0, 9, 1), (1, 4, 7, 2), (0, 0, 0, 3), (1, 0, 3, 4),
    ]  # fmt: skip
    assert np.fromfile(tmp_path / "00000.sequence.bin", np.int32).tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5, 0]
    assert np.fromfile(tmp_path / "00000.offsets.bin", np.int64).tolist() == [0, 3, 9, 10]
    assert (result["rows"], result["tokens"]) == (3, 10)


def test_an_empty_row_is_dropped_by_name(tmp_path: Path) -> None:
    assert work([source(tmp_path, [0, 2])], tmp_path)["rows"] == 1
    ((line),) = rejected(tmp_path)
    assert line["id"] == "in.jsonl#L1"
    assert line["reason"] in ("empty", "no_target")


def test_a_row_that_is_not_like_the_others_fails_alone(tmp_path: Path) -> None:
    assert work([source(tmp_path, [1])], tmp_path, Uneven(None), PAIRS)["rows"] == 0
    (line,) = rejected(tmp_path)
    assert (line["reason"], line["flow"]) == ("other_arrays", "failed")
    assert "differ in length" in line["detail"]


def test_batches_are_an_implementation_detail(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = source(tmp_path, list(range(1, 40)))
    work([one], tmp_path / "a")
    monkeypatch.setattr(module, "BATCH", 1)
    work([one], tmp_path / "b")
    for path in sorted((tmp_path / "a").iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_what_is_left_is_read_back(tmp_path: Path) -> None:
    folder = tmp_path / module.ROWS
    folder.mkdir(parents=True)
    result = work([source(tmp_path, [3, 6, 1])], folder)
    left = Counted(tmp_path, 0, NUMBERS, True, result["rows"], result["tokens"])
    assert left.array("sequence").tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5, 0]
    assert left.documents["line"].tolist() == [1, 2, 3]
    assert left.counts.tolist() == [0, 1, 1, 1, 1]


def test_the_smallest_lots_keep_their_texts(monkeypatch) -> None:
    monkeypatch.setattr(module, "KEPT_TEXTS", 3)
    heap: list[int] = []
    lots = [50, 10, 40, 20, 60, 30]
    assert [among_smallest(heap, lot) for lot in lots] == [True, True, True, True, False, True]
    assert sorted(-lot for lot in heap) == [10, 20, 30]


def test_ids_name_lines_and_rows() -> None:
    assert document_id("a.jsonl.gz", 7) == "a.jsonl.gz#L7"
    assert document_id("b.parquet", 0) == "b.parquet[0]"
