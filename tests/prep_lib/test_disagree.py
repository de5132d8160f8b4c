"""Who is decided differently is counted exactly, as a plain dict would, for any two runs, of the same inputs or not."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib import disagree as module
from prep_lib.disagree import ABSENT, KEPT, Fate, disagreements, levels
from prep_lib.ledger import Ledger
from prep_lib.record import Drop
from prep_lib.rejected import NAME, RejectedWriter
from prep_lib.workspace import Run

#: A run: document -> the reason it goes for; empty: it is kept.
Told = dict[str, str]


def documents(run: Run, place: str, told: Told, inputs: str = "one") -> None:
    """A folder of documents as `run_files` leaves it."""
    import zstandard

    folder = run.folder / "data" / place
    folder.mkdir(parents=True)
    kept = [id for id, why in told.items() if not why]
    lines = "".join(json.dumps({"id": id, "text": "t", "source": "s", "meta": {}}) + "\n" for id in kept)
    (folder / "part-00000.jsonl.zst").write_bytes(zstandard.compress(lines.encode()))
    size = (folder / "part-00000.jsonl.zst").stat().st_size
    part = {"file": "part-00000.jsonl.zst", "bytes": size, "documents": len(kept)}
    contents = {"format": "documents", "parts": [part], "inputs": [["a.jsonl", inputs]], "sample": None, "stages": []}
    (folder / "documents.json").write_text(json.dumps(contents | {"measured": {}, "tallies": []}))
    (folder / "ledger.json").write_text(Ledger().to_json())
    with RejectedWriter(folder / NAME) as rejected:
        for id, why in told.items():
            if why:
                rejected.add(id, "s", "judge", Drop(why, 1, 2), lambda id=id: f"text of {id}")


def pair(root: Path, one: Told, other: Told, inputs: tuple[str, str] = ("one", "one")) -> tuple[Run, Run]:
    runs = Run(root, "a"), Run(root, "b")
    for run, told, read in zip(runs, (one, other), inputs, strict=True):
        documents(run, "11_clean", told, read)
    return runs


def fate(why: str) -> Fate:
    return Fate("11_clean", "judge", "dropped", why) if why else KEPT


IDS = [f"a.jsonl#L{n}" for n in range(30)]
WHY = st.sampled_from(["", "", "short", "long"])


@settings(max_examples=15, deadline=None)
@given(one=st.lists(WHY, min_size=30, max_size=30), other=st.lists(WHY, min_size=30, max_size=30))
def test_the_counts_are_those_of_a_dict(tmp_path_factory: pytest.TempPathFactory, one: Any, other: Any) -> None:
    runs = pair(tmp_path_factory.mktemp("w"), dict(zip(IDS, one, strict=True)), dict(zip(IDS, other, strict=True)))
    (found,) = disagreements(*runs)
    wanted = Counter((fate(a), fate(b)) for a, b in zip(one, other, strict=True) if a != b)
    assert found.counts == wanted
    assert found.same_inputs
    assert found.total("kept") == sum(n for (a, _), n in wanted.items() if a == KEPT)


def test_other_inputs_are_told_apart_from_other_decisions(tmp_path: Path) -> None:
    one = {"a#L1": "", "a#L2": "short", "a#L3": ""}
    other = {"a#L1": "long", "a#L2": "short", "b#L9": ""}
    (found,) = disagreements(*pair(tmp_path, one, other, ("one", "other")))
    assert not found.same_inputs
    assert found.counts == {(KEPT, ABSENT): 1, (KEPT, fate("long")): 1, (ABSENT, KEPT): 1}


def test_examples_are_drawn_by_the_seed_and_bring_their_numbers(tmp_path: Path) -> None:
    runs = pair(tmp_path, dict.fromkeys(IDS, ""), dict.fromkeys(IDS, "short"))
    first, again, another = (disagreements(*runs, seed=seed)[0] for seed in (1, 1, 2))
    (drawn,) = first.examples.values()
    assert len(drawn) == module.EACH
    assert first == again
    assert first.examples != another.examples
    line = drawn[0].other
    assert line is not None
    assert (drawn[0].one, line["value"], line["limit"]) == (None, 1, 2)
    assert line["text"] == f"text of {drawn[0].id}"


def test_memory_does_not_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = dict.fromkeys(IDS, ""), {id: "short" if n % 3 else "" for n, id in enumerate(IDS)}
    runs = pair(tmp_path, *told)
    whole = disagreements(*runs)
    monkeypatch.setattr(module, "HELD", 4)
    assert disagreements(*runs) == whole


def test_a_folder_only_one_run_came_to_is_left_out(tmp_path: Path) -> None:
    runs = pair(tmp_path, {"a#L1": "", "a#L2": ""}, {"a#L1": "", "a#L2": "short"})
    documents(runs[0], "12_dedup", {"a#L1": "twin"})
    (found,) = disagreements(*runs)
    assert found.place == "11_clean"
    assert found.counts == {(KEPT, fate("short")): 1}
    assert [name for name, _ in levels(runs[0])["documents"].folders] == ["11_clean", "12_dedup"]


def test_a_copy_is_the_same_document(tmp_path: Path) -> None:
    (found,) = disagreements(*pair(tmp_path, {"d1~2": "short"}, {"d1": "short"}))
    assert not found.counts
