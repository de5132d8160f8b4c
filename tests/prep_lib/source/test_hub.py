"""Sources: whatever holds rows gives them in order, each with its id, and a bad row costs itself only."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import shared

from prep_lib.errors import BadInput, BadParameter, BadRecord, UnknownName
from prep_lib.source import hub
from prep_lib.source.hub import open_source, parsed, sample

with hub._quiet():
    import datasets


@pytest.fixture(autouse=True)
def _caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def table(rows: int) -> datasets.Dataset:
    return datasets.Dataset.from_dict({"n": list(range(rows)), "text": [f"第 {n} 行" for n in range(rows)]})


def stream(rows: int) -> datasets.IterableDataset:
    return datasets.IterableDataset.from_generator(lambda: ({"n": n} for n in range(rows)))


def records(dataset: Any, **options: Any) -> list[Any]:
    return [parsed(raw) for _, _, raw in open_source(dataset, **options).read(0)]


def numbers(dataset: Any) -> list[int]:
    return [record["n"] for record in records(dataset)]


def ids(dataset: Any, *options: Any, start: int = 0) -> list[str]:
    return [place for _, place, _ in open_source(dataset, *options).read(start)]


def failed(dataset: Any) -> list[tuple[str, str]]:
    rows = ((place, parsed(raw)) for _, place, raw in open_source(dataset).read(0))
    return [(place, record.reason) for place, record in rows if isinstance(record, BadRecord)]


def _parquet(rows: list[dict], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


# ----------------------------------------------------------------------------------------------------- what it can read


def test_a_dataset_dict_names_its_splits(tmp_path: Path) -> None:
    both = datasets.DatasetDict({"train": table(2), "test": table(1)})
    with pytest.raises(BadParameter, match="has the splits train, test; name one"):
        open_source(both)
    assert numbers(datasets.DatasetDict({"only": table(2)})) == [0, 1]
    with hub._quiet():
        both.save_to_disk(tmp_path / "saved")
        table(3).save_to_disk(tmp_path / "one")
    with pytest.raises(BadParameter, match=r"saved has the splits train, test; name one: 'name\[train\]'"):
        open_source(tmp_path / "saved")
    assert numbers(f"{tmp_path}/saved[test]") == [0]
    with pytest.raises(UnknownName, match=r"unknown split of .*'tset'; did you mean 'test'"):
        open_source(f"{tmp_path}/saved[tset]")
    assert ids(str(tmp_path / "one")) == ["one[0]", "one[1]", "one[2]"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (7, "hub: cannot open a int; give a Dataset"),
        (Path("missing"), "hub: no file missing"),
        ("missing.jsonl", "hub: no file missing.jsonl"),
        ("missing/*.jsonl", "hub: no file missing"),
        ([Path("missing.jsonl")], "hub: no file missing"),
        (__file__, "hub: cannot read .* by its ending"),
        ("nobody/has-this-name", "hub: cannot load 'nobody/has-this-name': [^\n]+$"),
        ("nobody/has-this-name:config[train]", "hub: cannot load 'nobody/has-this-name:config"),
    ],
)
def test_what_is_no_data_set_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch, given: Any, sentence: str) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises((BadInput, BadParameter), match=sentence):
        open_source(given)


def test_files_are_read_by_their_ending(tmp_path: Path) -> None:
    rows = [{"n": n, "text": "x"} for n in range(3)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "a.jsonl").write_text(lines, "utf-8")
    (tmp_path / "b.json").write_text(lines, "utf-8")
    (tmp_path / "c.json").write_text(json.dumps(rows, indent=1), "utf-8")
    (tmp_path / "d.json.gz").write_bytes(gzip.compress(json.dumps(rows).encode("utf-8-sig")))
    _parquet(rows, tmp_path / "e.parquet")
    for path in sorted(tmp_path.glob("*.*")):
        assert records(path) == rows
        assert [raw for _, _, raw in open_source(path).read(2)] == [raw for _, _, raw in open_source(path).read(0)][2:]
    assert numbers(f"{tmp_path}/[ac].json*") == [0, 1, 2, 0, 1, 2]
    two = open_source([tmp_path / "b.json", tmp_path / "a.jsonl"])
    assert [name for name, _, _ in two.read(0)] == ["b.json"] * 3 + ["a.jsonl"] * 3


def test_files_of_one_name_keep_different_ids(tmp_path: Path) -> None:
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.jsonl").write_text('{"n":1}\n', "utf-8")
    source = open_source(f"{tmp_path}/*/x.jsonl")
    assert [place for _, place, _ in source.read(0)] == ["a/x.jsonl#L1", "b/x.jsonl#L1"]
    with pytest.raises(BadParameter, match="given twice"):
        open_source([tmp_path / "a/x.jsonl"] * 2)


def test_csv_values_stay_as_they_are_written(tmp_path: Path) -> None:
    long = "é" * 200_000
    content = f'id,text\n007,"NA, ""or""\nnot"\n8\n9,{long}\n\n10,"a"b\n'.encode() + b"11,\xff\n12,None\n13,'open\n"
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + content)
    rows = [record for record in records(tmp_path / "a.csv") if not isinstance(record, BadRecord)]
    assert rows[0] == {"id": "007", "text": 'NA, "or"\nnot'}
    assert rows[1:] == [{"id": "9", "text": long}, {"id": "12", "text": "None"}, {"id": "13", "text": "'open"}]
    found = [("a.csv#L4", "wrong_number_of_fields"), ("a.csv#L7", "bad_csv"), ("a.csv#L8", "invalid_utf8")]
    assert failed(tmp_path / "a.csv") == found
    (tmp_path / "o.csv").write_text('n,text\n1,a\n2,"open\n3,c\n', "utf-8")
    assert [reason for _, reason in failed(tmp_path / "o.csv")] == ["bad_csv"]
    (tmp_path / "b.tsv").write_text("n\ttext\n1\ta,b\n", "utf-8")
    assert open_source(tmp_path / "b.tsv").columns == ("n", "text")
    for bad in ("", "a,a\n1,2\n"):
        (tmp_path / "c.csv").write_text(bad, "utf-8")
        with pytest.raises(BadInput, match="must name the columns"):
            open_source(tmp_path / "c.csv")


@pytest.mark.parametrize("text", ['[{"n":1}', '[{"n":1} {"n":2}]', '[{"n":1},]', '[{"n":1}] x', "[", '[{"n":1}, {"n]'])
def test_an_array_that_is_not_whole_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text, "utf-8")
    with pytest.raises(BadInput, match=r"a\.json is no JSON array: .* at line 1$"):
        records(tmp_path / "a.json")


def test_a_format_of_the_data_set_does_not_reach_the_rows() -> None:
    assert records(table(2).with_format("numpy", columns=["n"])) == [{"n": 0}, {"n": 1}]
    doubled = table(2).with_transform(lambda batch: {"twice": [2 * n for n in batch["n"]]})
    assert records(doubled) == [{"twice": 0}, {"twice": 2}]
    assert records(table(1).to_iterable_dataset().with_format("numpy")) == [{"n": 0, "text": "第 0 行"}]


def test_columns_that_json_cannot_hold_are_known_beforehand() -> None:
    picture = {"bytes": b"\xff", "path": None}
    images = datasets.Dataset.from_dict({"id": [1], "image": [picture]}).cast_column("image", datasets.Image())
    source = open_source(images)
    assert source.binary == {"image": "Image data"}
    # Without a function that wants the picture, no decoder is needed.
    assert records(images) == [{"id": 1, "image": picture}]
    assert open_source(images.select_columns(["id"])).binary == {}
    nested = datasets.Features({"m": datasets.List({"pic": datasets.Image(), "raw": datasets.Value("binary")})})
    assert hub._binary_kind(nested["m"]) == "Image data"


def test_a_row_that_cannot_be_read_costs_itself_only() -> None:
    def shaky(batch: dict) -> dict:
        if 2 in batch["n"]:
            raise ValueError("two")
        return {"n": batch["n"]}

    rows = records(table(4).with_transform(shaky))
    assert [row for row in rows if isinstance(row, dict)] == [{"n": 0}, {"n": 1}, {"n": 3}]
    assert str(rows[2]) == "unreadable_row: ValueError: two"


def test_a_stream_that_breaks_off_is_named() -> None:
    def rows() -> Iterator[dict]:
        yield from ({"n": n} for n in range(3))
        raise OSError("gone")

    with pytest.raises(BadInput, match="hub: data broke off after 3 rows: OSError: gone"):
        records(datasets.IterableDataset.from_generator(rows))


def test_equal_rows_have_an_equal_identity(tmp_path: Path) -> None:
    for name, text in (("a", '{"n":1}\n'), ("b", '{"n":1}\n'), ("c", '{"n":2}\n')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.jsonl").write_text(text, "utf-8")
    a, b, c = (open_source(tmp_path / name / "x.jsonl").identity for name in "abc")
    assert a == b != c
    assert open_source(table(2)).identity == open_source(table(2)).identity != open_source(table(3)).identity
    assert open_source(stream(2)).identity is None


def test_loading_is_quiet_and_leaves_the_settings_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with hub._quiet():
        table(3).save_to_disk(tmp_path / "one")
    before = datasets.logging.get_verbosity(), datasets.are_progress_bars_disabled()
    _parquet([{"n": 1}], tmp_path / "folder" / "train.parquet")
    assert numbers(tmp_path / "folder") == [1]
    assert numbers(tmp_path / "one") == [0, 1, 2]
    assert capfd.readouterr() == ("", "")
    assert before == (datasets.logging.get_verbosity(), datasets.are_progress_bars_disabled())


def test_datasets_is_loaded_only_when_it_is_needed(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n":1}\n', "utf-8")
    code = f"""
        import sys
        from prep_lib import export_dataset
        from prep_lib.source import hub
        hub.sample({str(tmp_path / "a.jsonl")!r})
        export_dataset({str(tmp_path / "a.jsonl")!r}, {str(tmp_path)!r}, "x")
        print("datasets" in sys.modules, "pandas" in sys.modules, "torch" in sys.modules)
    """
    out = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert out.stdout.splitlines()[-1] == "False False False"


# -------------------------------------------------------------------------------------------------------------- samples


def test_a_sample_is_the_same_however_the_rows_are_read() -> None:
    drawn = ids(table(100), "x", 10)
    assert drawn == ids(stream(100), "x", 10) == sorted(drawn, key=lambda place: int(place[2:-1]))
    assert len({*drawn}) == 10
    assert drawn != ids(table(100), "x", 10, 1)
    for make in (table, stream):
        assert ids(make(100), "x", 10, start=8) == drawn[8:]
    assert ids(table(3), "x", 10) == ["x[0]", "x[1]", "x[2]"]


def test_sample_gives_ids_and_records(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text("".join(f'{{"n":{n}}}\n' for n in range(50)), "utf-8")
    _parquet([{"n": n} for n in range(50)], tmp_path / "c.parquet")
    paths = sorted(tmp_path.iterdir())
    drawn = sample(paths, 12)
    assert [place for place, _ in drawn] == ids(paths, "data", 12)
    assert {place.split(".")[0] for place, _ in drawn} == {*"abc"}
    every = {place: parsed(raw) for _, place, raw in open_source(paths).read(0)}
    assert all(record == every[place] for place, record in drawn)
    assert sample(paths, 12, seed=1) != drawn == sample(paths, 12)
    assert sample(table(1)) == sample(stream(1).map(lambda row: {**row, "text": "第 0 行"}))
    assert [record["n"] for _, record in sample(stream(3))] == [0, 1, 2]


def test_sample_leaves_out_what_it_cannot_parse(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n":1}\n{"n":\n[2]\n{"n":3}\n', "utf-8")
    assert sample(tmp_path / "a.jsonl") == [("a.jsonl#L1", {"n": 1}), ("a.jsonl#L4", {"n": 3})]
    (tmp_path / "a.csv").write_text("n,m\n1,2\n3\n", "utf-8")
    assert sample(str(tmp_path / "a.csv")) == [("a.csv#L2", {"n": "1", "m": "2"})]
    with pytest.raises(BadParameter, match="hub: rows=-1; give at least 1, or 0 for all"):
        sample(tmp_path / "a.jsonl", -1)
    assert [place for place, _ in sample(tmp_path / "a.jsonl", 0)] == ["a.jsonl#L1", "a.jsonl#L4"]


# ------------------------------------------------------------------------------------------------------------ real data


ROLES = {"human": "user", "gpt": "assistant", "system": "system"}


def test_real_rows_are_the_same_from_a_file_and_a_data_set() -> None:
    path = shared("sft/toolcall_sharegpt_zh.json")
    expected = json.loads(path.read_bytes())
    with hub._quiet():
        loaded = datasets.load_dataset("json", data_files=str(path), split="train")
    assert records(path) == expected
    assert [row["conversations"] for row in records(loaded)] == [row["conversations"] for row in expected]
    assert all(record in expected for _, record in sample(path, 5))
