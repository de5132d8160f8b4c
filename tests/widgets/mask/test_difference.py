"""What differs is told in words and marked on the token, in both masks; nothing from data gets out."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_shards import MASK, PACKED, SEQUENCE, build, write_shard

from prep_lib.errors import BadParameter
from prep_lib.shards.compare import Difference, compare
from widgets.mask import difference
from widgets.mask.difference import EDGE, RUNS, counts, document, settings

#: Trains one token more, behind what both train: the last of b.parquet[4] keeps its own.
MORE = MASK | np.array([[False] * 6, [False, True] + [False] * 4])


def compared(tmp_path: Path, changes: dict[str, Any], sources: Any = None, **manifest: Any) -> Difference:
    one, other = (tmp_path / name for name in ("one", "other"))
    for folder in (one, other):
        folder.mkdir()
    build(one)
    build(other, PACKED | changes, **manifest)
    if sources:
        write_shard(one / "chunk_0.h5", PACKED, sources)
        write_shard(other / "chunk_0.h5", PACKED | changes, sources)
    return compare(one, other)


def cells(html: str) -> list[tuple[str, list[str]]]:
    """The cells of the grid: what is said, and the classes of the chips."""
    grid = html.split('<div class="even">')[1].split('<p class="dim small">')[0]
    parts = [part.split(">", 1)[1] for part in grid.split("<div")[1:]]
    # What is written on a chip is not what is told; the other marks are.
    told = [re.sub("<[^>]+>", "", re.sub('<b class="chip.*?</b>', "", part)) for part in parts]
    return [(text, re.findall('<b class="(chip[^"]*)"', part)) for text, part in zip(told, parts, strict=True)]


def test_without_a_second_folder_one_line_says_so(tokenizer: Any) -> None:
    for page in (settings(None), counts(None, tokenizer), document(None, tokenizer)):
        assert repr(page) == "<Nothing is compared: the parameter `other` is empty.>"
        assert "Nothing is compared" in page.html
    assert "未作比较" in settings(None, "zh").html


def test_the_same_is_said_in_one_line(tmp_path: Path, tokenizer: Any) -> None:
    found = compared(tmp_path, {})
    assert "Both manifests say the same" in settings(found).html
    said = "All 3 documents are the same in both: same ids, same targets."
    assert [page.said for page in (counts(found, tokenizer), document(found, tokenizer))] == [said, said]
    assert "trained only" not in counts(found, tokenizer).html


def test_settings_that_differ_stand_side_by_side(tmp_path: Path) -> None:
    html = settings(compared(tmp_path, {}, packing={"algorithm": "concat", "note": "x" * 999})).html
    assert re.search("packing.algorithm.*best_fit.*concat", html)
    assert "x" * difference.VALUE + "…" in html


def test_counts_by_source_by_place_and_by_id(tmp_path: Path, tokenizer: Any) -> None:
    page = counts(compared(tmp_path, {"loss_mask": MORE}), tokenizer)
    assert page.said.startswith("1 of 3 documents differ (33.3 %). 0 tokens are trained only in these shards, 1 only")
    text = re.sub("<[^>]+>", " ", page.html)
    assert re.search(r"all sources\s+3\s+3\s+2\s+1\s", text)
    assert re.search(r"a\.jsonl\s+2\s+2\s+2\s+0\s", text)
    assert re.search(r"b\.parquet\s+1\s+1\s+0\s+1\s", text)
    assert re.search(r"right before what both train\s+0\s+1\s", text)
    assert "one is shorter" not in text  # a column nobody has


def test_a_document_is_seen_in_both_masks(tmp_path: Path, tokenizer: Any) -> None:
    page = document(compared(tmp_path, {"loss_mask": MORE}), tokenizer)
    assert page.said == "b.parquet[4]: the same ids, other targets."
    assert "chunk_0.h5, row 1, place 0" in page.html
    assert cells(page.html)[3:] == [
        ("= trained in neither0", []), ("", ["chip ctl"]), ("", ["chip ctl"]),
        ("≠ trained only in the other1", []), ("", ["chip ctl"]), ("", ["chip ctl on"]),
        ("= trained in both2–3", []), ("", ["chip ctl on"] * 2), ("", ["chip ctl on"] * 2),
    ]  # fmt: skip


def test_other_ids_are_shown_from_where_they_differ(tmp_path: Path, tokenizer: Any) -> None:
    changed = SEQUENCE.copy()
    changed[1, 2] = 9
    page = document(compared(tmp_path, {"sequence": changed}), tokenizer)
    assert "the ids differ from token 2 on" in page.said
    assert "not compared" in cells(page.html)[-3][0]
    assert [len(chips) for _, chips in cells(page.html)[-2:]] == [2, 2]


def test_a_document_of_one_folder_only(tmp_path: Path, tokenizer: Any) -> None:
    found = compared(tmp_path, {"documents/line": np.array([12, 13, 5])})
    page = document(found, tokenizer)
    assert page.said == "b.parquet[4]: only in these shards."
    assert "no token" in page.html
    assert document(found, tokenizer, "zh", at=1).said == "b.parquet[5]：仅在另一份分片中。"
    with pytest.raises(BadParameter, match="there are 2 examples, from 0; got 2"):
        document(found, tokenizer, at=2)


def test_a_long_document_is_folded_and_cut(tmp_path: Path, tokenizer: Any) -> None:
    found = compared(tmp_path, {"loss_mask": MORE})
    ids = np.full(5000, 70)
    one = difference.Stored(ids, np.arange(5000) % 10 < 5)
    other = replace(one, mask=one.mask | (np.arange(5000) == 2007))
    html = difference._drawn(found.examples[0], one, other, difference.Labels(tokenizer), "en")
    # What is the same far away, the run before the change, the change, the run behind it, and far away again.
    assert [said[0] for said, _ in cells(html + '<p class="dim small">')[3::3]] == ["=", "=", "≠", "=", "="]
    assert html.count('<b class="chip') < 2 * (4 * 2 * EDGE + 2)
    other = replace(one, mask=~one.mask)
    html = difference._drawn(found.examples[0], one, other, difference.Labels(tokenizer), "en")
    assert html.count("≠") == RUNS
    assert "940 more runs are not drawn." in html


def test_nothing_from_data_gets_out(tmp_path: Path, tokenizer: Any, nasty: str) -> None:
    found = compared(
        tmp_path, {"loss_mask": MORE}, sources=["a.jsonl", nasty.replace("\x00", "")], packing={nasty: nasty}
    )
    for page in (settings(found), counts(found, tokenizer), document(found, tokenizer)):
        assert "<script" not in page.html
        assert "<img" not in page.html
        assert "\u202e" not in page.html
