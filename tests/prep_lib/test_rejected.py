from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prep_lib import rejected as module
from prep_lib.errors import BadRecord
from prep_lib.record import Drop
from prep_lib.rejected import NAME, RejectedWriter, among_smallest, join, read


def write(path: Path, ids: list[int], everything: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with RejectedWriter(path, everything=everything) as file:
        for number in ids:
            file.add(
                f"a#L{number}", "web", "quality", Drop("short", number, 50), lambda number=number: f"text {number}"
            )
    return path


def test_the_smallest_lots_keep_their_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_TEXTS", 3)
    heap: list[int] = []
    lots = [50, 10, 40, 20, 60, 30]
    assert [among_smallest(heap, lot) for lot in lots] == [True, True, True, True, False, True]
    assert sorted(-lot for lot in heap) == [10, 20, 30]


@given(cut=st.integers(0, 30))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_parts_join_to_what_one_part_would_hold(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    monkeypatch.setattr(module, "KEPT_TEXTS", 5)
    folder = tmp_path_factory.mktemp("parts")
    join([write(folder / "one" / NAME, list(range(30)))], folder / "one.zst")
    parts = [write(folder / "a" / NAME, list(range(cut))), write(folder / "b" / NAME, list(range(cut, 30)))]
    join(parts, folder / "two.zst")
    assert (folder / "one.zst").read_bytes() == (folder / "two.zst").read_bytes()
    lines = list(read(folder / "two.zst"))
    assert [line["id"] for line in lines] == [f"a#L{number}" for number in range(30)]
    assert sum(line["text"] is not None for line in lines) == 5


def test_a_text_goes_whatever_it_and_its_line_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_TEXTS", 1)
    for name in "ab":
        with RejectedWriter(tmp_path / f"{name}.zst") as file:
            file.add(name, "web", "read", BadRecord("odd", '","text":"'), lambda: '\\","text":"a","text":null}\n')
    parts = [line for name in "ab" for line in read(tmp_path / f"{name}.zst")]
    join([tmp_path / "a.zst", tmp_path / "b.zst"], tmp_path / "joined.zst")
    joined = [*read(tmp_path / "joined.zst")]
    assert sorted(line["text"] is None for line in joined) == [False, True]
    assert [{**line, "text": None} for line in joined] == [{**line, "text": None} for line in parts]


def test_everything_keeps_whole_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_TEXTS", 1)
    monkeypatch.setattr(module, "EXCERPT", 3)
    join([write(tmp_path / NAME, [1, 2], everything=True)], tmp_path / "all.zst", everything=True)
    assert [line["text"] for line in read(tmp_path / "all.zst")] == ["text 1", "text 2"]
    join([write(tmp_path / "some" / NAME, [1, 2])], tmp_path / "some.zst")
    assert sorted(line["text"] or "" for line in read(tmp_path / "some.zst")) == ["", "tex"]


def test_a_failure_tells_its_detail_and_never_breaks_the_file(tmp_path: Path) -> None:
    with RejectedWriter(tmp_path / NAME) as file:
        file.add("a", "web", "read", BadRecord("bad_json", "at \udcff"), lambda: None)
        file.add("b", "web", "near", Drop("near_duplicate", 0.9, 0.8, twin="a"), lambda: "text")
    first, second = read(tmp_path / NAME)
    assert (first["flow"], first["detail"], first["text"]) == ("failed", "at \\udcff", None)
    assert (second["flow"], second["twin"], second["value"]) == ("dropped", "a", 0.9)


SPELLED = st.lists(
    st.sampled_from(["a", "é", '"', "\\", ",", '","source":"', '","stage":"', '","reason":"', '","value":', "\n"]),
    max_size=8,
).map("".join)


@given(SPELLED, SPELLED, SPELLED)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_lot_is_drawn_without_parsing_whatever_stands_in_names(
    tmp_path_factory: pytest.TempPathFactory, name: str, source: str, reason: str
) -> None:
    path = tmp_path_factory.mktemp("names") / NAME
    with RejectedWriter(path) as file:
        file.add(name, source, "quality", Drop(reason or "none"), lambda: "text")
    ((line,), seed) = (list(module._lines([path])), 42)
    assert module._drawn(line, seed) == (
        (source.encode(), (reason or "none").encode()),
        module.draw(seed, "rejected", name),
    )
