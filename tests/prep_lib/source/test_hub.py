"""Export: every row is accounted for, chunks are whole, and nothing stale is left."""

from __future__ import annotations

import datetime
import gzip
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib import engine
from prep_lib.errors import BadInput, BadParameter, RunLocked, TooManyLost, UnknownName
from prep_lib.ledger import Ledger
from prep_lib.source import hub
from prep_lib.source.hub import chunk_files, export, export_dataset, open_source, parse_columns, rename

with hub._quiet():
    import datasets

DATA = Path(__file__).parents[3] / ".." / "shared" / "data"


@pytest.fixture(autouse=True)
def _caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def said() -> Iterator[list[str]]:
    notes: list[str] = []
    with engine.listen(lambda event: notes.append(event.get("text", "")), instead=True):
        yield notes


def table(rows: int) -> datasets.Dataset:
    return datasets.Dataset.from_dict({"n": list(range(rows)), "text": [f"第 {n} 行" for n in range(rows)]})


def stream(rows: int) -> datasets.IterableDataset:
    return datasets.IterableDataset.from_generator(lambda: ({"n": n} for n in range(rows)))


def numbers(files: list[Path]) -> list[list[int]]:
    return [[json.loads(line)["n"] for line in file.read_bytes().splitlines()] for file in files]


def rejected(folder: Path, prefix: str = "x") -> list[dict]:
    return [json.loads(line) for line in (folder / f"{prefix}_rejected.jsonl").read_bytes().splitlines()]


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith((".", "cache")))


def flows(ledger: Ledger) -> dict[str, int]:
    return {flow: n for flow in ("in", "expanded", "kept", "dropped", "failed") if (n := ledger.total("export", flow))}


# --------------------------------------------------------------------------------------------------- chunks and counts


@pytest.mark.parametrize("make", [table, stream])
@pytest.mark.parametrize(
    ("rows", "size", "chunks"),
    [(5, 2, [[0, 1], [2, 3], [4]]), (4, 2, [[0, 1], [2, 3]]), (3, 10, [[0, 1, 2]]), (0, 2, [[]])],
)
def test_chunks_count_input_rows(
    tmp_path: Path, make: Callable[[int], Any], rows: int, size: int, chunks: list[list[int]]
) -> None:
    files = export_dataset(make(rows), tmp_path, "x", size)
    assert [file.name for file in files] == [f"x_chunk_{k}.jsonl" for k in range(len(chunks))]
    assert numbers(files) == chunks
    assert listing(tmp_path) == sorted([*(file.name for file in files), "x_ledger.json"])


def test_a_function_makes_one_many_or_none(tmp_path: Path) -> None:
    def copies(row: dict) -> Any:
        return {"n": row["n"]} if row["n"] == 1 else [{"n": row["n"]}] * row["n"]

    ledger = export(table(4), tmp_path, "x", 2, copies)
    assert numbers(chunk_files(tmp_path, "x")) == [[1], [2, 2, 3, 3, 3]]
    assert flows(ledger) == {"in": 4, "expanded": 3, "kept": 6, "dropped": 1}
    assert ledger.reasons("export", "dropped") == {"dropped_by_function": 1}
    assert Ledger.from_json((tmp_path / "x_ledger.json").read_text("utf-8")).rows
    assert not (tmp_path / "x_rejected.jsonl").exists()


def test_a_row_that_fails_is_kept_aside_and_the_others_go_on(tmp_path: Path) -> None:
    answers: dict[int, Callable[[dict], Any]] = {
        1: lambda row: None, 2: lambda row: 7, 3: lambda row: [row, "b"], 4: lambda row: {"n": math.nan},
        5: lambda row: row["missing"],
    }  # fmt: skip
    ledger = export(table(7), tmp_path, "x", 4, lambda row: answers.get(row["n"], dict)(row), max_failed=1.0)
    assert numbers(chunk_files(tmp_path, "x")) == [[0, 3], [6]]
    assert flows(ledger) == {"in": 7, "expanded": 1, "kept": 3, "failed": 5}
    found = [(row["id"], row["reason"]) for row in rejected(tmp_path)]
    assert found == [
        ("x[1]", "function_returned_none"), ("x[2]", "function_returned_other"), ("x[3].1", "function_returned_other"),
        ("x[4]", "nan"), ("x[5]", "function_raised"),
    ]  # fmt: skip
    assert rejected(tmp_path)[4]["detail"] == "KeyError: 'missing'"
    assert json.loads(rejected(tmp_path)[4]["text"]) == {"n": 5, "text": "第 5 行"}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([None, 0, 1, 2, 3]), max_size=12), st.integers(1, 5))
def test_every_row_is_accounted_for(answers: list[int | None], size: int) -> None:
    import tempfile

    def answer(row: dict) -> Any:
        count = answers[row["n"]]
        return None if count is None else [{"n": row["n"]}] * count

    with tempfile.TemporaryDirectory() as folder, engine.listen(lambda event: None, instead=True):
        ledger = export(table(len(answers)), folder, "x", size, answer, max_failed=1.0)
        ledger.check()
        written = [n for chunk in numbers(chunk_files(folder, "x")) for n in chunk]
    assert written == [n for n, count in enumerate(answers) for _ in range(count or 0)]
    assert ledger.total("export", "in") == len(answers)
    assert ledger.total("export", "failed") == answers.count(None)
    assert ledger.total("export", "dropped") == answers.count(0)


def test_too_many_failures_stop_early_with_examples(tmp_path: Path) -> None:
    calls = []

    def broken(row: dict) -> Any:
        calls.append(row)
        raise ValueError("no\nsuch thing")

    sentence = (
        r"^export: 3 of 3 records failed, more than max_failed=0.02 allows; most often function_raised \(3\), as in "
        r"x\[0\] \(ValueError: no such thing\), x\[1\] \(.*\), x\[2\] \(.*\); all of them are in x_rejected\.jsonl$"
    )
    with pytest.raises(TooManyLost, match=sentence):
        export(table(100), tmp_path, "x", 10, broken, max_failed=0.02)
    assert len(calls) == 3
    assert listing(tmp_path) == ["x_rejected.jsonl"]
    with pytest.raises(TooManyLost, match="1 of 2 records"):
        export(stream(2), tmp_path, "y", process_func=lambda row: row if row["n"] else None)


def test_two_exports_into_one_folder_meet_the_lock(tmp_path: Path) -> None:
    with engine.lock(tmp_path), pytest.raises(RunLocked):
        export(table(1), tmp_path, "x")


# ----------------------------------------------------------------------------------------------------- again and again


def test_finished_chunks_of_the_same_inputs_are_not_made_again(tmp_path: Path, said: list[str]) -> None:
    def run(**options: Any) -> tuple[list[int], bytes]:
        before = {path: path.stat().st_mtime_ns for path in chunk_files(tmp_path, "x")}
        export(table(6), tmp_path, "x", 2, **options)
        after = {path: path.stat().st_mtime_ns for path in chunk_files(tmp_path, "x")}
        made = [k for k, path in enumerate(sorted(after)) if before.get(path) != after[path]]
        return made, (tmp_path / "x_ledger.json").read_bytes()

    first, ledger = run()
    assert first == [0, 1, 2]
    assert run() == ([], ledger)
    (tmp_path / "x_chunk_1.jsonl").write_text("{}\n", "utf-8")
    assert run() == ([1], ledger)
    (tmp_path / "x_chunk_2.jsonl").unlink()
    assert run() == ([2], ledger)
    assert run(nan="null")[0] == [0, 1, 2]
    assert any("chunks of x are made again: parameters" in note for note in said)
    assert run(process_func=lambda row: {"n": row["n"]})[0] == [0, 1, 2]
    handle = open(os.devnull)  # noqa: SIM115  something that cannot be digested
    assert run(process_func=lambda row: (handle.closed, row)[1])[0] == [0, 1, 2]
    assert run(process_func=lambda row: (handle.closed, row)[1])[0] == [0, 1, 2]
    handle.close()
    assert any("chunks are not reused" in note for note in said)


def test_chunks_of_an_older_larger_run_are_removed(tmp_path: Path) -> None:
    (tmp_path / "x_chunk_note.txt").write_text("mine", "utf-8")
    export(table(6), tmp_path, "x", 2)
    files = export_dataset(table(3), tmp_path, "x", 2)
    assert numbers(files) == [[0, 1], [2]]
    assert numbers(export_dataset(stream(1), tmp_path, "x", 2)) == [[0]]
    assert (tmp_path / "x_chunk_note.txt").exists()


def test_files_of_others_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "x_chunk_7.jsonl").write_text("{}\n", "utf-8")
    with pytest.raises(BadParameter, match=r"x_chunk_7\.jsonl in .* is not from an earlier export here"):
        export(table(3), tmp_path, "x")
    export(table(3), tmp_path, "y")
    assert (tmp_path / "x_chunk_7.jsonl").read_text("utf-8") == "{}\n"
    (tmp_path / "z_rejected.jsonl").write_text("mine", "utf-8")
    with pytest.raises(BadParameter, match=r"z_rejected\.jsonl in"):
        export(table(3), tmp_path, "z")


def test_a_failing_export_leaves_whole_chunks_and_no_ledger(tmp_path: Path) -> None:
    def rows() -> Iterator[dict]:
        yield from ({"n": n} for n in range(3))
        raise OSError("gone")

    export(table(4), tmp_path, "x", 2)
    with pytest.raises(BadInput, match="hub: x broke off after 3 rows: OSError: gone"):
        export(datasets.IterableDataset.from_generator(rows), tmp_path, "x", 2)
    assert numbers(chunk_files(tmp_path, "x")) == [[0, 1]]
    assert not (tmp_path / "x_ledger.json").exists()


@pytest.mark.kill
def test_a_killed_run_continues_and_ends_with_the_same_bytes(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text("".join(f'{{"n":{n}}}\n' for n in range(300)), "utf-8")
    code = f"""
        import time
        from prep_lib.source.hub import export
        export({str(source)!r}, {str(tmp_path / "out")!r}, "x", 10, lambda row: (time.sleep(0.003), row)[1])
    """
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(code), "utf-8")
    for moment in (0.0, 0.15, 0.3):
        job = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.DEVNULL)
        while not list(tmp_path.glob("out/x_chunk_*.jsonl")):
            time.sleep(0.01)
        time.sleep(moment)
        job.send_signal(signal.SIGKILL)
        job.wait()
        for number, chunk in enumerate(numbers(chunk_files(tmp_path / "out", "x"))):
            assert chunk == list(range(10 * number, 10 * number + 10))
        assert not (tmp_path / "out" / "x_ledger.json").exists()
    subprocess.run([sys.executable, str(script)], check=True, stdout=subprocess.DEVNULL)
    assert numbers(chunk_files(tmp_path / "out", "x")) == [list(range(k, k + 10)) for k in range(0, 300, 10)]
    ledger = Ledger.from_json((tmp_path / "out" / "x_ledger.json").read_bytes())
    assert flows(ledger) == {"in": 300, "kept": 300}


# ------------------------------------------------------------------------------------------------- what it can read


def test_a_dataset_dict_names_its_splits(tmp_path: Path) -> None:
    both = datasets.DatasetDict({"train": table(2), "test": table(1)})
    with pytest.raises(BadParameter, match="has the splits train, test; name one"):
        export(both, tmp_path, "x")
    assert numbers(export_dataset(datasets.DatasetDict({"only": table(2)}), tmp_path, "x")) == [[0, 1]]
    with hub._quiet():
        both.save_to_disk(tmp_path / "saved")
        table(3).save_to_disk(tmp_path / "one")
    with pytest.raises(BadParameter, match=r"saved has the splits train, test; name one: 'name\[train\]'"):
        export(tmp_path / "saved", tmp_path, "x")
    assert numbers(export_dataset(f"{tmp_path}/saved[test]", tmp_path, "x")) == [[0]]
    with pytest.raises(UnknownName, match=r"unknown split of .*'tset'; did you mean 'test'"):
        export(f"{tmp_path}/saved[tset]", tmp_path, "x")
    ledger = export(str(tmp_path / "one"), tmp_path, "x")
    assert ledger.sources("export") == ["one"]


def test_what_is_no_data_set_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    cases: list[tuple[Any, str]] = [
        (7, "cannot export a int; give a Dataset"),
        (tmp_path / "missing", "no file .*missing"),
        ("missing.jsonl", "no file missing.jsonl"),
        ("missing/*.jsonl", "no file missing"),
        (__file__, "cannot read .* by its ending"),
        ("nobody/has-this-name", "cannot load 'nobody/has-this-name': [^\n]+$"),
        ("nobody/has-this-name:config[train]", "cannot load 'nobody/has-this-name:config"),
    ]
    for given_, sentence in cases:
        with pytest.raises((BadInput, BadParameter), match=sentence):
            export(given_, tmp_path, "x")
    for options in ({"prefix": "a/b"}, {"chunk_size": 0}, {"sample": -1}, {"max_failed": 2}, {"nan": "x"}):
        with pytest.raises(BadParameter):
            export(**{"dataset": table(1), "output_dir": tmp_path, "prefix": "x", **options})  # type: ignore[arg-type]
    assert listing(tmp_path) == []


def test_files_are_read_by_their_ending(tmp_path: Path) -> None:
    rows = [{"n": n, "text": "x"} for n in range(3)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "a.jsonl").write_text(lines, "utf-8")
    (tmp_path / "b.json").write_text(lines, "utf-8")
    (tmp_path / "c.json").write_text(json.dumps(rows, indent=1), "utf-8")
    (tmp_path / "d.json.gz").write_bytes(gzip.compress(json.dumps(rows).encode("utf-8-sig")))
    _parquet(rows, tmp_path / "e.parquet")
    for path in sorted(tmp_path.glob("*.*")):
        assert numbers(export_dataset(path, tmp_path / "out", path.name.replace(".", "_"), 2)) == [[0, 1], [2]]
    files = export_dataset(f"{tmp_path}/[ac].json*", tmp_path / "out", "all", 4)
    assert numbers(files) == [[0, 1, 2, 0], [1, 2]]
    assert export([tmp_path / "a.jsonl", tmp_path / "b.json"], tmp_path / "out", "two").sources() == [
        "a.jsonl",
        "b.json",
    ]


def _parquet(rows: list[dict], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


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
    (file,) = export_dataset(tmp_path / "a.csv", tmp_path, "x", max_failed=1.0)
    rows = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert rows[0] == {"id": "007", "text": 'NA, "or"\nnot'}
    assert rows[1:] == [{"id": "9", "text": long}, {"id": "12", "text": "None"}, {"id": "13", "text": "'open"}]
    found = [(row["id"], row["reason"]) for row in rejected(tmp_path)]
    assert found == [("a.csv#L4", "wrong_number_of_fields"), ("a.csv#L7", "bad_csv"), ("a.csv#L8", "invalid_utf8")]
    (tmp_path / "o.csv").write_text('n,text\n1,a\n2,"open\n3,c\n', "utf-8")
    assert export(tmp_path / "o.csv", tmp_path, "o", max_failed=1.0).reasons("export", "failed") == {"bad_csv": 1}
    (tmp_path / "b.tsv").write_text("n\ttext\n1\ta,b\n", "utf-8")
    assert open_source(tmp_path / "b.tsv").columns == ("n", "text")
    for bad in ("", "a,a\n1,2\n"):
        (tmp_path / "c.csv").write_text(bad, "utf-8")
        with pytest.raises(BadInput, match="must name the columns"):
            export(tmp_path / "c.csv", tmp_path, "y")


@pytest.mark.parametrize("text", ['[{"n":1}', '[{"n":1} {"n":2}]', '[{"n":1},]', '[{"n":1}] x', "[", '[{"n":1}, {"n]'])
def test_an_array_that_is_not_whole_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text, "utf-8")
    with pytest.raises(BadInput, match=r"a\.json is no JSON array: .* at line 1$"):
        export(tmp_path / "a.json", tmp_path, "x")


def test_bug_039_one_bad_line_does_not_stop_the_file(tmp_path: Path) -> None:
    lines = [b'{"n":%d}' % n for n in range(10_000)]
    lines[4_999] = b'{"n":"Nan","n":1}'
    lines[9_999] = b'{"n":99'
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    ledger = export(tmp_path / "a.jsonl", tmp_path, "x", 3_000)
    assert flows(ledger) == {"in": 10_000, "kept": 9_998, "failed": 2}
    assert [(row["id"], row["reason"]) for row in rejected(tmp_path)] == [
        ("a.jsonl#L5000", "duplicate_key"),
        ("a.jsonl#L10000", "bad_json"),
    ]


def test_bug_044_the_output_is_json_lines_that_read_back_equal(tmp_path: Path) -> None:
    files = export_dataset(table(1_500), tmp_path, "x", 1_000)
    with hub._quiet():
        again = datasets.load_dataset("json", data_files=[str(file) for file in files], split="train")
    assert again.to_dict() == table(1_500).to_dict()
    assert "第".encode() in files[0].read_bytes()


def test_bug_045_memory_is_bounded_by_the_row_not_the_data_set(tmp_path: Path) -> None:
    code = f"""
        import datasets
        from prep_lib.source.hub import export
        peak = lambda: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
        def rows():
            for number in range(20_000):
                yield {{"n": number, "text": str(number % 10) * 10_000}}
        export(datasets.Dataset.from_dict({{"n": [1]}}).to_iterable_dataset(), {str(tmp_path)!r}, "warm")
        before = peak()
        ledger = export(datasets.IterableDataset.from_generator(rows), {str(tmp_path)!r}, "x", 15_000)
        print(ledger.total("export", "kept"), peak() - before)
    """
    out = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    rows, kib = map(int, out.stdout.splitlines()[-1].split())
    assert rows == 20_000
    assert sum(file.stat().st_size for file in chunk_files(tmp_path, "x")) > 200_000_000
    assert kib < 30_000


def test_bug_046_dates_come_out_as_iso_8601(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"created":"2024-01-02T03:04:05","day":"2024-01-02"}\n', "utf-8")
    with hub._quiet():
        loaded = datasets.load_dataset("json", data_files=str(tmp_path / "a.jsonl"), split="train")
    assert isinstance(loaded[0]["created"], datetime.datetime)
    (file,) = export_dataset(loaded, tmp_path, "x")
    assert json.loads(file.read_text("utf-8"))["created"] == "2024-01-02T03:04:05"
    # Straight from the file nothing was a date to begin with.
    (file,) = export_dataset(tmp_path / "a.jsonl", tmp_path, "y")
    assert file.read_text("utf-8") == '{"created":"2024-01-02T03:04:05","day":"2024-01-02"}\n'


def test_binary_columns_are_refused_by_name_or_written_as_base64(tmp_path: Path) -> None:
    picture = {"bytes": b"\xff", "path": None}
    plain = datasets.Dataset.from_dict({"id": [1], "raw": [b"\xff"]})
    images = datasets.Dataset.from_dict({"id": [1], "image": [picture]}).cast_column("image", datasets.Image())
    with pytest.raises(BadParameter, match="column 'raw' holds bytes, which JSON cannot; leave it out"):
        export(plain, tmp_path, "x")
    with pytest.raises(BadParameter, match="column 'image' holds Image data"):
        export(images, tmp_path, "x")
    nested = datasets.Features({"m": datasets.List({"pic": datasets.Image()})})
    assert hub._binary_kind(nested["m"]) == "Image data"
    (file,) = export_dataset(images, tmp_path, "x", bytes="base64")
    assert json.loads(file.read_text("utf-8")) == {"id": 1, "image": {"bytes": "/w==", "path": None}}
    assert numbers(export_dataset(plain, tmp_path, "y", process_func=lambda row: {"n": row["id"]})) == [[1]]
    (file,) = export_dataset(plain.select_columns(["id"]), tmp_path, "z")
    assert file.read_text("utf-8") == '{"id":1}\n'


def test_a_format_of_the_data_set_does_not_reach_the_file(tmp_path: Path) -> None:
    chosen = table(2).with_format("numpy", columns=["n"])
    (file,) = export_dataset(chosen, tmp_path, "x")
    assert file.read_text("utf-8") == '{"n":0}\n{"n":1}\n'
    doubled = table(2).with_transform(lambda batch: {"twice": [2 * n for n in batch["n"]]})
    (file,) = export_dataset(doubled, tmp_path, "y")
    assert file.read_text("utf-8") == '{"twice":0}\n{"twice":2}\n'
    (file,) = export_dataset(table(1).to_iterable_dataset().with_format("numpy"), tmp_path, "z")
    assert file.read_text("utf-8") == '{"n":0,"text":"第 0 行"}\n'


def test_a_row_that_cannot_be_read_costs_itself_only(tmp_path: Path) -> None:
    def shaky(batch: dict) -> dict:
        if 2 in batch["n"]:
            raise ValueError("two")
        return {"n": batch["n"]}

    ledger = export(table(4).with_transform(shaky), tmp_path, "x", max_failed=1.0)
    assert numbers(chunk_files(tmp_path, "x")) == [[0, 1, 3]]
    assert ledger.reasons("export", "failed") == {"unreadable_row": 1}
    assert rejected(tmp_path)[0]["id"] == "x[2]"


def test_loading_is_quiet_and_leaves_the_settings_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with hub._quiet():
        table(3).save_to_disk(tmp_path / "one")
    before = datasets.logging.get_verbosity(), datasets.are_progress_bars_disabled()
    _parquet([{"n": 1}], tmp_path / "folder" / "train.parquet")
    assert numbers(export_dataset(tmp_path / "folder", tmp_path, "x")) == [[1]]
    assert numbers(export_dataset(tmp_path / "one", tmp_path, "y")) == [[0, 1, 2]]
    assert capfd.readouterr() == ("", "")
    assert before == (datasets.logging.get_verbosity(), datasets.are_progress_bars_disabled())


def test_datasets_is_loaded_only_when_it_is_needed(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n":1}\n', "utf-8")
    code = f"""
        import sys
        from prep_lib.source.hub import export
        export({str(tmp_path / "a.jsonl")!r}, {str(tmp_path)!r}, "x")
        print("datasets" in sys.modules, "pandas" in sys.modules, "torch" in sys.modules)
    """
    out = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert out.stdout.splitlines()[-1] == "False False False"


# ------------------------------------------------------------------------------------------------ columns and samples


def test_columns_are_renamed_before_the_function(tmp_path: Path) -> None:
    export(table(2), tmp_path, "x", process_func=lambda row: {"n": row["id"]}, columns="n->id")
    assert numbers(chunk_files(tmp_path, "x")) == [[0, 1]]
    with pytest.raises(UnknownName, match="unknown column 'txt'; did you mean 'text'\\? known: n, text"):
        export(table(2), tmp_path, "x", columns="txt->query")
    with pytest.raises(BadParameter, match="n->text, but there is a column 'text' already"):
        export(table(2), tmp_path, "x", columns="n->text")
    for text in ("n", "n->", "n->a n->b", "n->a text->a", "n=a"):
        with pytest.raises(BadParameter, match="columns="):
            parse_columns(text)
    assert rename({"a": 1, "b": 2}, {"a": "b", "b": "a"}) == {"b": 1, "a": 2}
    (tmp_path / "a.jsonl").write_text('{"a":1}\n{"b":1,"a":2}\n{"c":3}\n', "utf-8")
    ledger = export(tmp_path / "a.jsonl", tmp_path, "y", columns="a->b", max_failed=1.0)
    assert ledger.reasons("export", "failed") == {"column_taken": 1, "missing_column": 1}
    assert rejected(tmp_path, "y")[1]["detail"] == "a; known: c"


def test_a_sample_is_the_same_however_the_rows_are_read(tmp_path: Path) -> None:
    by_index = export_dataset(table(100), tmp_path, "x", 4, sample=10)
    by_stream = export_dataset(stream(100), tmp_path / "other", "x", 4, sample=10)
    drawn = numbers(by_index)
    assert drawn == numbers(by_stream)
    assert [len(chunk) for chunk in drawn] == [4, 4, 2]
    flat = [n for chunk in drawn for n in chunk]
    assert flat == sorted(set(flat))
    assert numbers(export_dataset(table(100), tmp_path, "x", 4, sample=10, seed=1)) != drawn
    assert sum(map(len, numbers(export_dataset(table(3), tmp_path, "y", sample=10)))) == 3
    source = open_source(table(100), "x", 10)
    assert [place for _, place, _ in source.read(0)] == [f"x[{n}]" for n in flat]
    assert [place for _, place, _ in source.read(8)] == [f"x[{n}]" for n in flat[8:]]


# ----------------------------------------------------------------------------------------------------------- real data


def shared(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"shared data not here: {name}")
    return path


ROLES = {"human": "user", "gpt": "assistant", "system": "system"}


def to_messages(row: dict) -> Any:
    turns = row["conversations"]
    if not {turn["from"] for turn in turns} <= {*ROLES}:
        return []
    return {"messages": [{"role": ROLES[turn["from"]], "content": turn["value"]} for turn in turns]}


def test_real_tool_calls_become_plain_turns(tmp_path: Path) -> None:
    path = shared("sft/toolcall_sharegpt_zh.json")
    rows = json.loads(path.read_bytes())
    expected = [out for row in rows if (out := to_messages(row))]
    with hub._quiet():
        loaded = datasets.load_dataset("json", data_files=str(path), split="train")
    for prefix, given_ in (("objects", loaded), ("file", path)):
        ledger = export(given_, tmp_path, prefix, 128, to_messages)
        files = chunk_files(tmp_path, prefix)
        assert len(files) == 3
        assert [json.loads(line) for file in files for line in file.read_bytes().splitlines()] == expected
        assert flows(ledger) == {"in": 300, "kept": len(expected), "dropped": 300 - len(expected)}
    assert 0 < len(expected) < 300


def test_real_questions_come_out_as_they_went_in(tmp_path: Path) -> None:
    path = shared("sft/gsm8k_train_query_response.jsonl.gz")
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    ledger = export(path, tmp_path, "x", 1_000)
    files = chunk_files(tmp_path, "x")
    assert [json.loads(line) for file in files for line in file.read_bytes().splitlines()] == rows
    assert flows(ledger) == {"in": 3_000, "kept": 3_000}
    assert numbers_of_lines(files) == [1_000] * 3


def numbers_of_lines(files: list[Path]) -> list[int]:
    return [file.read_bytes().count(b"\n") for file in files]
