"""Two runs: identical is said when bytes are, and each thing that differs is found where it is, both ways round."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from toy_twins import twins

from prep_lib.comparison import Changed, brief, compare_runs, other_run
from prep_lib.errors import BadParameter
from prep_lib.workspace import Run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    return twins(tmp_path_factory.mktemp("twins") / "ws")


def test_what_was_asked_differently_is_found(runs: tuple[Run, Run]) -> None:
    found = compare_runs(*runs)
    assert Changed("11_clean", "least", 14, 20) in found.asked
    assert Changed("22_tensorize", "max_length", 128, 75) in found.asked
    assert all(change.name != "seed" for change in found.asked)
    assert not found.inputs
    assert not found.versions
    assert not found.identical


def test_the_funnel_and_the_documents_agree(runs: tuple[Run, Run]) -> None:
    found = compare_runs(*runs)
    row = next(row for row in found.funnel if row.stage == "words")
    assert row.one
    assert row.other
    lost = row.one["kept"] - row.other["kept"]
    assert lost > 0
    assert row.reasons == {("dropped", "too_few_chars"): (row.one["dropped"] - 4, row.other["dropped"] - 4)}
    place = next(place for place in found.documents if place.place == "11_clean")
    assert place.total("kept") == lost
    assert place.total(None, "kept") == place.total() == 0


def test_the_other_way_round_is_the_mirror(runs: tuple[Run, Run]) -> None:
    one, other = compare_runs(*runs), compare_runs(*runs[::-1])
    assert [(change.one, change.other) for change in one.asked] == [(c.other, c.one) for c in other.asked]
    for left, right in zip(one.documents, other.documents, strict=True):
        assert left.counts == {(b, a): n for (a, b), n in right.counts.items()}
    swapped = {"only_one": "only_other", "only_other": "only_one"}
    assert one.outputs == {name: swapped.get(state, state) for name, state in other.outputs.items()}


def test_masks_are_compared_and_too_many_tokens_are_not(runs: tuple[Run, Run]) -> None:
    (shards,) = compare_runs(*runs).shards
    assert shards.masks
    assert shards.masks.total.only_one > 0
    assert shards.masks.total.trained_one == 0
    assert all(shards.lengths)
    (shards,) = compare_runs(*runs, most_tokens=10).shards
    assert (shards.masks, shards.why) == (None, "compare.too_many_tokens")


def test_identical_is_said_when_every_byte_is(runs: tuple[Run, Run], tmp_path: Path) -> None:
    copied = Run(tmp_path, "copy")
    shutil.copytree(runs[0].folder, copied.folder)
    found = compare_runs(runs[0], copied)
    assert found.identical
    assert brief(found)[0].startswith(f"identical: {len(found.outputs)} files, every byte")
    assert all(row.same for row in found.funnel)
    (copied.folder / "data" / "30_more").mkdir()
    (copied.folder / "data" / "30_more" / "new.json").write_text("{}")
    found = compare_runs(runs[0], copied)
    assert not found.identical
    assert [name for name, state in found.outputs.items() if state != "same"] == ["data/30_more/new.json"]


def test_runs_of_another_way_and_unfinished_ones_are_compared_too(runs: tuple[Run, Run], tmp_path: Path) -> None:
    other = Run(tmp_path, "half")
    shutil.copytree(runs[1].folder, other.folder)
    shutil.rmtree(other.folder / "data" / "11_clean")
    (other.folder / "executed" / "11_clean.ipynb").unlink()
    (other.folder / "run.jsonl").unlink()
    found = compare_runs(runs[0], other)
    assert "11_clean" in found.apart[0]
    assert all(row.other is None for row in found.funnel if row.notebook == "11_clean")
    assert f"only {runs[0].name}: 11_clean" in "\n".join(brief(found))


def test_the_run_before_is_found_by_when_it_was_worked_on(tmp_path: Path) -> None:
    for at, name in enumerate(("old", "middle", "new")):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "run.jsonl").touch()
        os.utime(folder / "run.jsonl", (at, at))
    assert other_run(Run(tmp_path, "new"), "before").name == "middle"
    assert other_run(Run(tmp_path, "middle"), "before").name == "old"
    assert other_run(Run(tmp_path, "old"), "before").name == "new"
    assert other_run(Run(tmp_path, "new"), "old") == Run(tmp_path, "old")
    assert other_run(Run(tmp_path, "new"), str(tmp_path / "runs" / "old")) == Run(tmp_path, "old")


def test_what_cannot_be_compared_is_one_line(runs: tuple[Run, Run], tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="comparison: quetzalcoatl-a is the same run twice; name another one"):
        compare_runs(runs[0], runs[0])
    with pytest.raises(BadParameter, match="comparison: there is no run 'nobody' in "):
        compare_runs(runs[0], Run(tmp_path, "nobody"))
    (tmp_path / "runs" / "one").mkdir(parents=True)
    with pytest.raises(BadParameter, match="comparison: one is the only run of "):
        other_run(Run(tmp_path, "one"), "before")
