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
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import shared
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.errors import BadInput, BadParameter, RunLocked, TooManyLost, UnknownName
from prep_lib.events import listen
from prep_lib.ledger import Ledger
from prep_lib.locks import lock
from prep_lib.source import hub
from prep_lib.source.export import chunk_files, export, export_dataset, parse_columns, rename

with hub._quiet():
    import datasets


@pytest.fixture(autouse=True)
def _caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def said() -> Iterator[list[str]]:
    notes: list[str] = []
    with listen(lambda event: notes.append(event.get("text", "")), instead=True):
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


# ---------------------------------------------------------------------------------------------------- chunks and counts


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
    ledger = export(table(7), tmp_path, "x", 4, lambda row: answers.get(row["n"], dict)(row))
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
    def answer(row: dict) -> Any:
        count = answers[row["n"]]
        return None if count is None else [{"n": row["n"]}] * count

    with tempfile.TemporaryDirectory() as folder, listen(lambda event: None, instead=True):
        ledger = export(table(len(answers)), folder, "x", size, answer)
        ledger.check()
        written = [n for chunk in numbers(chunk_files(folder, "x")) for n in chunk]
    assert written == [n for n, count in enumerate(answers) for _ in range(count or 0)]
    assert ledger.total("export", "in") == len(answers)
    assert ledger.total("export", "failed") == answers.count(None)
    assert ledger.total("export", "dropped") == answers.count(0)


def test_every_kind_of_bad_row_is_named_and_kept_aside(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'id,text\n1,a\n2\n3,"a"b\n4,\xff\n')
    assert flows(export(tmp_path / "a.csv", tmp_path, "x")) == {"in": 4, "kept": 1, "failed": 3}
    found = [(row["id"], row["reason"]) for row in rejected(tmp_path)]
    assert found == [("a.csv#L3", "wrong_number_of_fields"), ("a.csv#L4", "bad_csv"), ("a.csv#L5", "invalid_utf8")]

    def shaky(batch: dict) -> dict:
        if 2 in batch["n"]:
            raise ValueError("two")
        return {"n": batch["n"]}

    ledger = export(table(4).with_transform(shaky), tmp_path, "y")
    assert numbers(chunk_files(tmp_path, "y")) == [[0, 1, 3]]
    assert ledger.reasons("export", "failed") == {"unreadable_row": 1}
    assert rejected(tmp_path, "y")[0]["id"] == "y[2]"


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


def test_too_many_failures_stop_early_with_examples(tmp_path: Path) -> None:
    calls = []

    def broken(row: dict) -> Any:
        calls.append(row)
        raise ValueError("no\nsuch thing")

    sentence = (
        r"^export: 21 of 21 records failed \(allowed: 2\.00%\); the commonest reason is function_raised \(21\), "
        r"for example x\[0\] \(ValueError: no such thing\), x\[1\] \(.*\), x\[2\] \(.*\); "
        r"all of them are in x_rejected\.jsonl$"
    )
    with pytest.raises(TooManyLost, match=sentence):
        export(table(100), tmp_path, "x", 10, broken, max_failed=0.02)
    assert len(calls) == len(rejected(tmp_path)) == 21
    assert listing(tmp_path) == ["x_chunk_0.jsonl", "x_chunk_1.jsonl", "x_rejected.jsonl"]


def test_what_has_no_utf8_is_told_all_the_same(tmp_path: Path) -> None:
    def broken(row: dict) -> Any:
        raise ValueError("half \ud800")

    export(table(3), tmp_path, "x", process_func=broken)
    assert rejected(tmp_path)[0]["detail"] == "ValueError: half \\ud800"
    with pytest.raises(TooManyLost, match=r"for example y\[0\] \(ValueError: half \\ud800\)"):
        export(table(30), tmp_path, "y", process_func=broken)


def test_a_few_failures_never_stop_an_export(tmp_path: Path) -> None:
    ledger = export(stream(20), tmp_path, "x", process_func=lambda row: None, max_failed=0.0)
    assert flows(ledger) == {"in": 20, "failed": 20}


def test_finished_chunks_count_towards_the_limit(tmp_path: Path) -> None:
    def run(max_failed: float) -> Ledger:
        return export(table(100), tmp_path, "x", 30, lambda row: row if row["n"] % 2 else None, max_failed=max_failed)

    assert flows(run(1.0)) == {"in": 100, "kept": 50, "failed": 50}
    with pytest.raises(TooManyLost, match=r"30 of 60 records failed .* for example x\[0\] \(return a dict.*x\[4\] \("):
        run(0.1)
    assert len(rejected(tmp_path)) == 30


def test_parameters_that_fit_no_run_are_refused_before_any_work(tmp_path: Path) -> None:
    for options in ({"prefix": "a/b"}, {"chunk_size": 0}, {"sample": -1}, {"max_failed": 2}, {"nan": "x"}):
        with pytest.raises(BadParameter):
            export(**{"dataset": table(1), "output_dir": tmp_path, "prefix": "x", **options})  # type: ignore[arg-type]
    for given_ in (7, tmp_path / "missing", "missing.jsonl"):
        with pytest.raises((BadInput, BadParameter)):
            export(given_, tmp_path, "x")
    assert listing(tmp_path) == []


def test_two_exports_into_one_folder_meet_the_lock(tmp_path: Path) -> None:
    with lock(tmp_path), pytest.raises(RunLocked):
        export(table(1), tmp_path, "x")


# ------------------------------------------------------------------------------------------------------ again and again


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
        from prep_lib.source.export import export
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


# ------------------------------------------------------------------------------------------------------- what comes out


def test_sources_of_every_kind_come_out_in_chunks(tmp_path: Path) -> None:
    for name, rows in (("a", 3), ("b", 2)):
        (tmp_path / f"{name}.jsonl").write_text("".join(f'{{"n":{n}}}\n' for n in range(rows)), "utf-8")
    with hub._quiet():
        table(3).save_to_disk(tmp_path / "one")
    assert numbers(export_dataset(f"{tmp_path}/*.jsonl", tmp_path / "out", "all", 4)) == [[0, 1, 2, 0], [1]]
    ledger = export([tmp_path / "b.jsonl", tmp_path / "a.jsonl"], tmp_path / "out", "two")
    assert ledger.sources() == ["a.jsonl", "b.jsonl"]
    assert export(str(tmp_path / "one"), tmp_path / "out", "x").sources("export") == ["one"]
    assert numbers(chunk_files(tmp_path / "out", "x")) == [[0, 1, 2]]


def test_bug_044_the_output_is_json_lines_that_read_back_equal(tmp_path: Path) -> None:
    files = export_dataset(table(1_500), tmp_path, "x", 1_000)
    with hub._quiet():
        again = datasets.load_dataset("json", data_files=[str(file) for file in files], split="train")
    assert again.to_dict() == table(1_500).to_dict()
    assert "第".encode() in files[0].read_bytes()


def test_bug_045_memory_is_bounded_by_the_row_not_the_data_set(tmp_path: Path) -> None:
    code = f"""
        import datasets
        from prep_lib.source.export import export
        peak = lambda: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
        def rows():
            for number in range(10_000):
                yield {{"n": number, "text": str(number % 10) * 10_000}}
        export(datasets.Dataset.from_dict({{"n": [1]}}).to_iterable_dataset(), {str(tmp_path)!r}, "warm")
        before = peak()
        ledger = export(datasets.IterableDataset.from_generator(rows), {str(tmp_path)!r}, "x", 7_000)
        print(ledger.total("export", "kept"), peak() - before)
    """
    out = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    rows, kib = map(int, out.stdout.splitlines()[-1].split())
    assert rows == 10_000
    assert sum(file.stat().st_size for file in chunk_files(tmp_path, "x")) > 100_000_000
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
    ledger = export(tmp_path / "a.jsonl", tmp_path, "y", columns="a->b")
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


# ------------------------------------------------------------------------------------------------------------ real data


ROLES = {"human": "user", "gpt": "assistant", "system": "system"}


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
