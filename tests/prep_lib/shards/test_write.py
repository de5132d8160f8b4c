"""Pieces land where they belong; the whole way from plan to shard is tested in test_build."""

import os
from pathlib import Path

import numpy as np
import pytest

from prep_lib.shards.count import DOCUMENT, Counted, Layout, Settings
from prep_lib.shards.h5 import H5Shard
from prep_lib.shards.write import SHARD_PIECES, SHARD_TOKENS, Rows, _copy, _Pieces, _slices, write
from prep_lib.tokens.pack import plan_packs


def settings(pack_size: int) -> Settings:
    return Settings(
        pack_size=pack_size, packing="concat", tail="pad", pad_value=0, max_length=None, too_long="drop",
        shard_size=None, seed=1, sample=0,
    )  # fmt: skip


LAYOUT = Layout.specified(("sequence", "loss_mask"), ("sequence",))


def part(number: int, rows: int, tokens: int = 0) -> Counted:
    return Counted(Path("nowhere"), number, LAYOUT, True, rows, tokens)


def test_places_follow_each_other_inside_a_pack() -> None:
    """Packs of 4:  A A A B | C C · ·"""
    pack, length = np.array([0, 0, 1]), np.array([3, 1, 2])
    nothing = np.zeros(3, np.int64)
    assert _Pieces(pack, nothing, nothing, nothing, nothing, length).places(4).tolist() == [0, 3, 4]


def test_the_kernel_copies_what_its_python_twin_copies() -> None:
    source, begins, lengths, places = np.arange(10), np.array([7, 0]), np.array([3, 2]), np.array([0, 4])
    compiled, plain = np.zeros(6, np.int64), np.zeros(6, np.int64)
    _copy(source, begins, lengths, compiled, places)
    _copy.python(source, begins, lengths, plain, places)
    assert compiled.tolist() == plain.tolist() == [7, 8, 9, 0, 0, 1]


def test_slices_go_over_parts() -> None:
    parts = [part(0, 3), part(1, 0), part(2, 4)]
    assert [(p.number, low, high) for p, low, high in _slices(parts, 2, 5)] == [(0, 2, 3), (2, 0, 2)]
    assert list(_slices(parts, 7, 9)) == []


def test_default_shard_size_holds_about_the_same_tokens() -> None:
    def rows(parts: list[Counted], pack_size: int, packs: int) -> Rows:
        plan = plan_packs({pack_size: packs}, pack_size, "concat") if pack_size else None
        return Rows(parts, ["a"], LAYOUT, settings(pack_size), plan)

    assert rows([part(0, 10**6, 10**9)], 2048, 10**6).default_shard_size == SHARD_TOKENS // 2048
    assert rows([part(0, 1000, 3 * SHARD_TOKENS)], 0, 0).default_shard_size == 334
    assert rows([], 0, 0).default_shard_size == 1


def test_rows_of_few_tokens_make_smaller_shards() -> None:
    """What finds a piece takes the same memory however short the piece is."""
    plan = plan_packs({1: 4 * SHARD_PIECES}, 16, "concat")
    rows = Rows([part(0, 4 * SHARD_PIECES, 4 * SHARD_PIECES)], ["a"], LAYOUT, settings(16), plan)
    assert rows.default_shard_size == SHARD_PIECES // 16


def test_more_tokens_than_32_bits_count(tmp_path: Path) -> None:
    """Three rows of 2**30 tokens and one of 4 make packs of 2**20; the last pack is the last row."""
    ids = Layout(("sequence",), ("sequence",), ("<i4",))
    lengths, size = [2**30, 2**30, 2**30, 4], 2**20
    left = Counted(tmp_path, 0, ids, True, 4, sum(lengths))
    left.path("").parent.mkdir(parents=True)
    np.cumsum([0, *lengths]).tofile(left.path("offsets.bin"))
    documents = np.zeros(4, DOCUMENT)
    documents["line"] = [1, 2, 3, 2**40]
    documents.tofile(left.path("documents.bin"))
    with left.path("sequence.bin").open("wb") as file:
        try:
            file.truncate(4 * sum(lengths))  # a file of holes
        except OSError:
            pytest.skip("this file system has no sparse files")
        file.seek(-16, os.SEEK_END)
        file.write(np.array([7, 8, 9, 10], np.int32).tobytes())
    plan = plan_packs({1: sum(lengths)}, size, "concat")
    rows = Rows([left], ["in.jsonl"], ids, settings(size), plan)
    assert (plan.packs, len(rows)) == (3 * 2**10 + 1, 3 * 2**10 + 1)
    told = write(rows, 0, plan.packs - 2, plan.packs, 2**20, tmp_path)
    assert told["tokens"] == {"in.jsonl": size + 4}
    assert told["cut"] == 0
    shard = H5Shard(tmp_path / "chunk_0.h5")
    assert shard.row(1)["sequence"][:5].tolist() == [7, 8, 9, 10, 0]
    assert [shard.document(at) for at in (0, 1)] == ["in.jsonl#L3", f"in.jsonl#L{2**40}"]
    assert shard.segments(0)["start"].tolist() == [2**30 - size]
