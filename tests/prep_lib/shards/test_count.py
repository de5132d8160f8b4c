"""A span becomes rows on disk, and every record of it is accounted for."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from prep_lib.chat.process import Processor
from prep_lib.errors import BadParameter
from prep_lib.files import Span, open_bytes, stamp
from prep_lib.ledger import Ledger
from prep_lib.shards import count as module
from prep_lib.shards.count import (
    PIECE,
    Counted,
    Input,
    Layout,
    Settings,
    count,
    document_id,
    order_pieces,
)
from prep_lib.tokens.pack import pieces


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


def test_ids_name_lines_and_rows() -> None:
    assert document_id("a.jsonl.gz", 7) == "a.jsonl.gz#L7"
    assert document_id("b.parquet", 0) == "b.parquet[0]"


@given(lengths=st.lists(st.integers(1, 9), max_size=40), pack_size=st.integers(1, 5), block=st.integers(1, 50))
@hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_blocks_order_pieces_as_one_sort_would(tmp_path: Path, monkeypatch, lengths, pack_size, block) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    begins, given_ = np.cumsum([0, *lengths]), settings(pack_size=pack_size)
    counts = order_pieces(begins, given_, tmp_path / "pieces.bin")
    stored = np.fromfile(tmp_path / "pieces.bin", PIECE)
    row, start, length = pieces(np.array(lengths), pack_size, "best_fit_split")
    order = np.argsort(length, kind="stable")
    assert stored["row"].tolist() == row[order].tolist()
    assert stored["start"].tolist() == start[order].tolist()
    assert stored["begin"].tolist() == (begins[row] + start)[order].tolist()
    assert counts.tolist() == np.bincount(length).tolist()


def test_a_key_holds_what_changes_the_rows() -> None:
    assert settings(pack_size=4).counted != settings(pack_size=8).counted  # it cuts the pieces
    for given_ in ({"pack_size": 8}, {"tail": "drop"}, {"pad_value": 7}, {"shard_size": 3}):
        assert settings(packing="concat").counted == settings(packing="concat", **given_).counted
    for given_ in ({"max_length": 8}, {"too_long": "cut"}, {"seed": 2}, {"packing": "best_fit"}, {"pack_size": 0}):
        assert settings().counted != settings(**given_).counted


def test_records_of_several_files_share_a_batch(tmp_path: Path) -> None:
    inputs = []
    for at, numbers in enumerate([[1, 2], [], [3]]):
        (tmp_path / str(at)).mkdir()
        one = source(tmp_path / str(at), numbers)
        inputs.append(Input(one.span, at, f"{at}.jsonl", one.stamp))
    result = work(inputs, tmp_path)
    stored = np.fromfile(tmp_path / "00000.documents.bin", module.DOCUMENT)
    assert stored["source"].tolist() == [0, 0, 2]
    assert stored["line"].tolist() == [1, 2, 1]
    ledger = Ledger.from_json(json.dumps(result["ledger"]))
    assert [ledger.total("read", "in", f"{at}.jsonl") for at in range(3)] == [2, 0, 1]
    assert ledger.sources("read") == ["0.jsonl", "1.jsonl", "2.jsonl"]


def test_a_processor_that_gives_too_few_verdicts_is_refused(tmp_path: Path) -> None:
    class Lazy(Numbers):
        def rows(self, records):
            return []

    with pytest.raises(BadParameter, match="Lazy gave 0 verdicts for 2 records"):
        work([source(tmp_path, [1, 2])], tmp_path, Lazy(None))
