"""Pieces land where they belong; the whole way from plan to shard is tested in test_build."""

from pathlib import Path

import numpy as np

from prep_lib.shards.count import Counted, Layout, Settings
from prep_lib.shards.write import SHARD_TOKENS, Rows, _copy, _Pieces, _slices
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
