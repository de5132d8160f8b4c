"""The page of a comparison: harmless, complete, the same again, in both languages; and each part for a notebook."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from toy_twins import twins

from prep_lib.comparison import Comparison, compare_runs
from prep_lib.contrast import PARTS, verdict, view, write
from prep_lib.workspace import Run


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return compare_runs(*twins(tmp_path_factory.mktemp("twins") / "ws"))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_page_is_one_harmless_file_and_the_same_again(found: Comparison, lang: str) -> None:
    path = Path(write(found, lang))
    page = path.read_text("utf-8")
    assert path == found.one.run.folder / "reports" / "compare-quetzalcoatl-b.html"
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "/home/quetzalcoatl" not in page
    assert str(found.one.run.root) not in page
    assert Path(write(found, lang)).read_text("utf-8") == page


def test_the_verdict_counts_what_differs(found: Comparison) -> None:
    told = verdict(found, "en")
    n = sum(sum(place.counts.values()) for place in found.documents)
    assert told.startswith(f"They differ: parameters: {len(found.asked)}, ")
    assert f"documents they disagree on: {n}," in told


@pytest.mark.parametrize("part", ["", *PARTS])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_each_part_stands_alone(found: Comparison, part: str, lang: str) -> None:
    page = view(found, lang, part)
    assert "prep" in page.html
    assert repr(page) == f"<{verdict(found, 'en')}>"


def test_what_differs_is_on_the_page_with_both_values(found: Comparison) -> None:
    asked = view(found, "en", "asked").html
    assert all(f">{value}<" in asked for value in (14, 20, 128, 75))
    documents = view(found, "en", "documents").html
    assert "too_few_chars" in documents
    assert "against 20" in documents


def test_identical_runs_say_so_and_each_part_in_a_line(found: Comparison, tmp_path: Path) -> None:
    shutil.copytree(found.one.run.folder, tmp_path / "runs" / "copy")
    same = compare_runs(found.one.run, Run(tmp_path, "copy"))
    assert verdict(same, "en").startswith("Identical: ")
    assert "the same in both" in view(same, "en", "asked").html
    assert "<table" not in view(same, "en", "funnel").html
