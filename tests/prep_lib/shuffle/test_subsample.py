"""Exactly as many rows as asked, each as likely as any other, train and eval apart, whatever files and memory."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import killing
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.cli import main
from prep_lib.errors import BadInput, BadParameter, BadShard
from prep_lib.events import listen
from prep_lib.shards.npz import NpzWriter
from prep_lib.shuffle import subsample as module
from prep_lib.shuffle.audit import audit, read_rows
from prep_lib.shuffle.subsample import Plan, shares, subsample

KINDS = np.array(["web", "code", "books"])


def rows(size: int) -> dict[str, np.ndarray]:
    """Rows that can be told apart, with a field of every shape."""
    number = np.arange(size)
    return {
        "input_ids": np.stack([number, number * 7 % 97, number % 11], axis=1).astype(np.int16),
        "mask": (number[:, None] + np.arange(3)) % 2 == 0,
        "number": number,
        "kind": KINDS[(number % 10 > 5).astype(int) + (number % 10 > 8)],
        "time": number.astype("datetime64[s]"),
    }


def write(folder: Path, data: dict[str, np.ndarray], ends: list[int]) -> Path:
    for at, (first, last) in enumerate(itertools.pairwise([0, *ends])):
        with NpzWriter(folder / f"shard_{at}.npz") as writer:
            for name, values in data.items():
                writer.array(name, values[first:last])
    return folder


def read(folder: Path) -> dict[str, np.ndarray]:
    paths = sorted(folder.glob("*.npz"))
    parts = [dict(np.load(path, allow_pickle=False)) for path in paths]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def sizes(folder: Path) -> list[int]:
    return [len(np.load(path)["number"]) for path in sorted(folder.glob("*.npz"))]


def draw(source: Path, out: Path, **asked: Any) -> tuple[list[int], list[int]]:
    told = subsample(source, out, engine="inline", **asked)
    found = [read(out / part).get("number", np.zeros(0, int)).tolist() for part in ("train", "eval")]
    assert told == (len(found[0]), len(found[1]))
    return found[0], found[1]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,000 rows in three uneven files and an empty one."""
    return write(tmp_path_factory.mktemp("source"), rows(2000), [100, 100, 1500, 2000])


# --------------------------------------------------------------------------------------------------------------- laws


@settings(max_examples=20, deadline=None)
@given(data=st.data(), seed=st.integers(0, 9), shuffle=st.booleans(), field=st.sampled_from([None, "kind"]))
def test_as_many_as_asked_apart_and_whole(
    data: st.DataObject, seed: int, shuffle: bool, field: str | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    size = data.draw(st.integers(1, 60))
    ends = sorted([*data.draw(st.lists(st.integers(0, size), max_size=4)), size])
    evals = data.draw(st.integers(0, size))
    train = data.draw(st.integers(0, size - evals))
    shard = data.draw(st.integers(1, 20))
    folder = tmp_path_factory.mktemp("law")
    asked = {"num_samples": train, "eval_samples": evals, "seed": seed, "shuffle": shuffle, "stratify_by": field}
    drawn = draw(write(folder / "in", rows(size), ends), folder / "out", shard_size=shard, **asked)
    assert [len(part) for part in drawn] == [train, evals]
    assert len(set(drawn[0] + drawn[1])) == train + evals
    for part, numbers in zip(("train", "eval"), drawn, strict=True):
        # The fields of a row stay together, and keep their types.
        for name, values in read(folder / "out" / part).items():
            assert values.dtype == rows(size)[name].dtype
            assert np.array_equal(values, rows(size)[name][numbers])
        if numbers:
            assert sizes(folder / "out" / part) == [shard] * (len(numbers) // shard) + [len(numbers) % shard] * (
                len(numbers) % shard > 0
            )
            assert shuffle or numbers == sorted(numbers)


def planned(size: int, train: int, evals: int, field: str | None = None) -> Plan:
    """What `subsample` would draw from one file of rows."""
    counts = Counter(rows(size)["kind"].tolist()) if field else Counter({"": size})
    totals = [counts[label] for label in sorted(counts)]
    some = shares(totals, evals)
    rest = shares([total - used for total, used in zip(totals, some, strict=True)], train)
    starts = (tuple(0 for _ in totals),)
    return Plan(("",), field, tuple(sorted(counts)), tuple(totals), tuple(rest), tuple(some), starts, 9, True, 0)


def drawn_by(plan: Plan, seed: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The part of each row, -1 where it is left out, and its number in it."""
    part, number = np.full(size, -1), np.full(size, -1)
    (row, parts, numbers), *_ = replace(plan, seed=seed).draw(0, iter([rows(size)["kind"]]))
    part[row], number[row] = parts, numbers
    return part, number


@pytest.mark.parametrize("field", [None, "kind"])
def test_every_row_is_equally_likely(field: str | None) -> None:
    plan, found = planned(20, 10, 5, field), np.zeros((3, 20))
    for seed in range(2000):
        found[drawn_by(plan, seed, 20)[0], np.arange(20)] += 1
    # Part 0 is train, 1 eval, 2 (that is -1) left out. Strata of 12, 6 and 2 rows give what their shares say, to a row.
    for at, kind in enumerate(rows(20)["kind"].tolist()):
        stratum = plan.strata.index(kind if field else "")
        for part, amounts in enumerate((plan.train, plan.evals)):
            chance = amounts[stratum] / plan.totals[stratum]
            # Beyond 4.5 deviations once in 3,500 times over all figures here.
            assert abs(found[part, at] - 2000 * chance) <= 4.5 * (2000 * chance * (1 - chance)) ** 0.5, (kind, part)


def test_ordered_pairs_are_equally_likely() -> None:
    plan, pairs = planned(6, 2, 1), Counter[tuple[int, ...]]()
    for seed in range(3000):
        part, number = drawn_by(plan, seed, 6)
        pairs[tuple(int(np.flatnonzero((part == 0) & (number == at))[0]) for at in range(2))] += 1
    # 30 ordered pairs, 100 times each: chi-square of 29 degrees of freedom, 99.99 % below 66.
    assert sum((pairs[pair] - 100) ** 2 / 100 for pair in itertools.permutations(range(6), 2)) < 66


def test_what_is_planned_is_what_is_written(source: Path, tmp_path: Path) -> None:
    part, number = drawn_by(planned(2000, 300, 50, "kind"), 42, 2000)
    drawn = draw(source, tmp_path / "out", num_samples=300, eval_samples=50, stratify_by="kind")
    for at in range(2):
        chosen = np.flatnonzero(part == at)
        assert drawn[at] == chosen[np.argsort(number[chosen])].tolist()


def test_which_rows_depends_on_seed_and_number_only(source: Path, tmp_path: Path) -> None:
    one = write(tmp_path / "one", rows(2000), [2000])
    asked = {"num_samples": 300, "eval_samples": 50, "shard_size": 70, "stratify_by": "kind"}
    drawn = draw(source, tmp_path / "a", **asked)
    assert draw(one, tmp_path / "b", **asked) == drawn
    assert draw(source, tmp_path / "c", memory_budget=2000, **asked) == drawn
    assert killing.tree(tmp_path / "a" / "train") == killing.tree(tmp_path / "c" / "train")
    assert draw(source, tmp_path / "d", seed=43, **asked)[0] != drawn[0]
    # Another order of the same rows, not other rows.
    assert sorted(draw(source, tmp_path / "e", shuffle=False, **asked)[0]) == sorted(drawn[0])


def test_golden_draw(source: Path, tmp_path: Path) -> None:
    # Which rows are drawn must never change: an eval set that moves into train makes every later figure worthless.
    train, evals = draw(source, tmp_path / "out", num_samples=6, eval_samples=4)
    assert train == [1090, 1252, 513, 675, 819, 99]
    assert evals == [1929, 1419, 1718, 560]


def test_more_train_rows_keep_the_eval_rows(source: Path, tmp_path: Path) -> None:
    few, many = (draw(source, tmp_path / str(n), num_samples=n, eval_samples=50) for n in (100, 400))
    assert few[1] == many[1]
    assert set(few[0]) < set(many[0])


def test_strata_keep_their_shares(source: Path, tmp_path: Path) -> None:
    train, evals = draw(source, tmp_path / "out", num_samples=500, eval_samples=101, stratify_by="kind")
    for drawn in (train, evals):
        counts = Counter(rows(2000)["kind"][drawn].tolist())
        for kind, share in (("web", 0.6), ("code", 0.3), ("books", 0.1)):
            assert abs(counts[kind] - share * len(drawn)) < 1


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.data())
def test_shares_sum_and_never_pass_what_there_is(totals: list[int], data: st.DataObject) -> None:
    wanted = data.draw(st.integers(0, sum(totals)))
    found = shares(totals, wanted)
    assert sum(found) == wanted
    assert all(abs(one - total * wanted / max(sum(totals), 1)) < 1 for one, total in zip(found, totals, strict=True))
    assert all(one <= total for one, total in zip(found, totals, strict=True))


def test_a_tiny_stratum_gets_its_share_and_no_more() -> None:
    # NVIDIA/Megatron-LM#705: a weight of almost nothing took the very first sample all the same.
    assert shares([1, 99_999], 1000) == [0, 1000]
    assert shares([10, 9990], 1000) == [1, 999]


def test_the_output_is_well_mixed(source: Path, tmp_path: Path) -> None:
    draw(source, tmp_path / "out", fraction=1.0, shard_size=250)
    assert all(check.passed for check in audit(tmp_path / "out", before=source))
    draw(source, tmp_path / "kept", fraction=1.0, shard_size=250, shuffle=False)
    assert not all(check.passed for check in audit(read_rows(tmp_path / "kept", before=source)))


# ------------------------------------------------------------------------------------------------------ what is asked


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, (2000, 0)),
        ({"eval_samples": 100}, (1900, 100)),
        ({"fraction": 0.1}, (200, 0)),
        ({"fraction": 0.5, "eval_samples": 100}, (950, 100)),
        ({"num_samples": 0, "eval_samples": 7}, (0, 7)),
    ],
)
def test_how_many(asked: dict[str, Any], expected: tuple[int, int], source: Path, tmp_path: Path) -> None:
    train, evals = draw(source, tmp_path / "out", **asked)
    assert (len(train), len(evals)) == expected


def test_metadata_says_what_was_written(source: Path, tmp_path: Path) -> None:
    draw(source, tmp_path / "out", num_samples=25, eval_samples=5, shard_size=10, seed=7)
    assert json.loads((tmp_path / "out" / "train" / "metadata.json").read_text()) == {
        "num_samples": 25, "max_seq_length": 3, "dtype": "int16", "shard_size": 10, "num_shards": 3,
        "fields": ["input_ids", "mask", "number", "kind", "time"], "shard_sizes": [10, 10, 5], "pre_shuffled": True,
        "seed": 7,
    }  # fmt: skip
    assert json.loads((tmp_path / "out" / "eval" / "metadata.json").read_text())["shard_sizes"] == [5]
    draw(source, tmp_path / "kept", num_samples=25, shuffle=False)
    assert json.loads((tmp_path / "kept" / "train" / "metadata.json").read_text())["pre_shuffled"] is False


def test_a_train_folder_is_found_and_natural_order_holds(tmp_path: Path) -> None:
    write(tmp_path / "in" / "train", rows(120), [*range(10, 121, 10)])
    train, _ = draw(tmp_path / "in", tmp_path / "out", shuffle=False)
    assert train == list(range(120))


def test_plain_numpy_files_in_fortran_order_work(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    ids = np.asfortranarray(np.arange(300).reshape(100, 3))
    np.savez_compressed(tmp_path / "in" / "a.npz", ids=ids, number=np.arange(100))
    train, _ = draw(tmp_path / "in", tmp_path / "out", num_samples=40)
    assert np.array_equal(read(tmp_path / "out" / "train")["ids"], ids[train])


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"num_samples": 2001}, "2,001 rows are asked for, there are 2,000; ask for fewer"),
        ({"num_samples": 1990, "eval_samples": 11}, "2,001 rows are asked for"),
        ({"eval_samples": 2001}, "2,001 rows are asked for"),
        ({"num_samples": 5, "fraction": 0.5}, "give num_samples or fraction, not both"),
        ({"fraction": 0.0}, "fraction must be above 0 and at most 1; got 0.0"),
        ({"fraction": 1.5}, "fraction must be above 0"),
        ({"num_samples": -1}, "cannot be below 0"),
        ({"eval_samples": -1}, "cannot be below 0"),
        ({"shard_size": 0}, "shard_size must be at least 1 row; got 0"),
        ({"stratify_by": "input_ids"}, "'input_ids' has int16 rows of shape"),
        ({"stratify_by": "time"}, "wants a whole number or a text a row"),
        ({"stratify_by": "topic"}, "'topic' is not there; there are input_ids, mask"),
    ],
)
def test_what_cannot_be_drawn_is_refused(asked: dict[str, Any], sentence: str, source: Path, tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match=sentence):
        subsample(source, tmp_path / "out", engine="inline", **asked)


def test_too_many_strata_are_refused(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STRATA", 100)
    with pytest.raises(BadParameter, match="'number' has 2,000 values; at most 100 work"):
        subsample(source, tmp_path / "out", engine="inline", stratify_by="number")


@pytest.mark.parametrize("place", ["in", "in/out", "in/train/x"])
def test_the_input_is_never_written_to(place: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "in", rows(10), [10])
    before = killing.tree(folder)
    with pytest.raises(BadParameter, match="which is only read; write somewhere else"):
        subsample(folder, tmp_path / place, engine="inline")
    assert killing.tree(folder) == before


def test_the_folder_above_train_is_no_place_either(tmp_path: Path) -> None:
    folder = write(tmp_path / "data" / "train", rows(10), [10])
    with pytest.raises(BadParameter, match="which is only read"):
        subsample(folder, tmp_path / "data", engine="inline")
    assert draw(folder, tmp_path / "data" / "smaller", num_samples=3)[1] == []


def test_files_of_something_else_are_kept(source: Path, tmp_path: Path) -> None:
    write(tmp_path / "out" / "train", rows(10), [10])
    with pytest.raises(BadParameter, match=r"holds shard_0.npz of something else; name another folder"):
        subsample(source, tmp_path / "out", engine="inline")


def test_no_files_and_damaged_files_are_told(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(BadInput, match="no npz file in"):
        subsample(tmp_path / "in", tmp_path / "out", engine="inline")
    folder = write(tmp_path / "in", rows(50), [20, 50])
    raw = bytearray((folder / "shard_1.npz").read_bytes())
    raw[len(raw) // 4] ^= 255
    (folder / "shard_1.npz").write_bytes(raw)
    with pytest.raises(BadShard, match=r"shard_1.npz"):
        subsample(folder, tmp_path / "out", engine="inline")


def test_files_that_differ_are_told(tmp_path: Path) -> None:
    folder = write(tmp_path / "in", rows(10), [10])
    np.savez(folder / "shard_5.npz", input_ids=np.zeros((3, 4), np.int16))
    with pytest.raises(BadShard, match=r"shard_5.npz"):
        subsample(folder, tmp_path / "out", engine="inline")


# -------------------------------------------------------------------------------------------------------------- again


def test_a_second_call_does_nothing_and_another_one_replaces(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    draw(source, out, num_samples=100, eval_samples=10, shard_size=20)
    stamps = {path: path.stat().st_mtime_ns for path in out.rglob("*.npz")}
    notes: list[str] = []
    with listen(lambda event: notes.append(event.get("text", ""))):
        draw(source, out, num_samples=100, eval_samples=10, shard_size=20)
    assert "subsample: out was already done" in notes
    assert stamps == {path: path.stat().st_mtime_ns for path in out.rglob("*.npz")}
    draw(source, out, num_samples=30, shard_size=20)
    assert sizes(out / "train") == [20, 10]
    assert not (out / "eval" / "metadata.json").exists()
    clean = tmp_path / "clean"
    draw(source, clean, num_samples=30, shard_size=20)
    assert killing.tree(out / "train") == killing.tree(clean / "train")
    assert sorted(path.name for path in (out / ".prep").iterdir()) == ["kind", "lock", "subsample.json"]


def test_workers_write_the_same_bytes(source: Path, tmp_path: Path) -> None:
    asked = {"num_samples": 500, "eval_samples": 100, "shard_size": 64}
    draw(source, tmp_path / "one", **asked)
    subsample(source, tmp_path / "two", workers=2, **asked)  # type: ignore[arg-type]
    for part in ("train", "eval"):
        assert killing.tree(tmp_path / "one" / part) == killing.tree(tmp_path / "two" / part)


@pytest.mark.kill
def test_killed_and_called_again_equals_one_clean_run(tmp_path: Path) -> None:
    code = (
        "import sys; from prep_lib.shuffle.subsample import subsample;"
        "subsample(sys.argv[1], sys.argv[2], fraction=0.5, eval_samples=999, shard_size=3000, workers=2, seed=1)"
    )
    folder = write(tmp_path / "in", rows(60_000), [5000, 6000, 40_000, 60_000])
    done, _ = killing.spawn(code, folder, tmp_path / "clean")
    assert "Error" not in done.communicate(timeout=120)[1]
    for moment in killing.moments(4, 7, 0.8, 3.0):
        process, mark = killing.spawn(code, folder, tmp_path / "out")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moment)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)
        assert killing.wait_gone(mark) == []
    done, _ = killing.spawn(code, folder, tmp_path / "out")
    assert "Error" not in done.communicate(timeout=120)[1]
    for part in ("train", "eval"):
        assert killing.tree(tmp_path / "out" / part) == killing.tree(tmp_path / "clean" / part)
    assert killing.tree(folder).keys() == {f"shard_{at}.npz" for at in range(4)}


# ------------------------------------------------------------------------------------------------------------ command


def test_the_command(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    asked = ["subsample", "--input-dir", str(source), "--output-dir", str(out), "--shard-size", "100", "--workers", "1"]
    assert main([*asked, "--num-samples", "250", "--eval-samples", "20", "--seed", "3", "--stratify-by", "kind"]) == 0
    assert "250 rows for train, 20 for eval" in capsys.readouterr().out
    assert sizes(out / "train") == [100, 100, 50]
    expected = draw(source, tmp_path / "same", num_samples=250, eval_samples=20, seed=3, stratify_by="kind")
    assert read(out / "train")["number"].tolist() == expected[0]
    assert main([*asked, "--fraction", "0.1", "--no-shuffle"]) == 0
    numbers = read(out / "train")["number"].tolist()
    assert len(numbers) == 200
    assert numbers == sorted(numbers)
    assert main([*asked, "--num-samples", "9999"]) == 2
    assert "9,999 rows are asked for, there are 2,000" in capsys.readouterr().err


def test_a_shard_that_was_harmed_is_written_again(source: Path, tmp_path: Path) -> None:
    draw(source, tmp_path / "out", num_samples=100, shard_size=50)
    path = tmp_path / "out" / "train" / "shard_000001.npz"
    before = path.read_bytes()
    path.write_bytes(before[:60] + bytes([before[60] ^ 1]) + before[61:])
    draw(source, tmp_path / "out", num_samples=100, shard_size=50)
    assert path.read_bytes() == before
