"""A mixture keeps its proportions at every length, reads every row before one comes again, and can begin anywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_feed import npz_folder, rows_of, token_folder

from prep_lib.errors import BadParameter, UnknownName
from prep_lib.feed.dataset import PreProcessedDataset, TokenDataset
from prep_lib.feed.mix import MixedDataset, Shares

law = settings(deadline=None, max_examples=80)
WEIGHTS = st.lists(st.floats(1e-6, 1), min_size=1, max_size=6)


def shares(*weights: float) -> Shares:
    return Shares(np.array(weights) / sum(weights))


def mixed(folder: Path, sizes: dict[str, int], weights: dict[str, float], rows: int | None = None) -> MixedDataset:
    """Parts whose rows are numbered one part after another, so that a row says where it is from."""
    first, parts = 0, {}
    for name, size in sizes.items():
        parts[name] = PreProcessedDataset(npz_folder(folder / name, [size], first))
        first += size
    return MixedDataset(parts, weights, rows)


# ----------------------------------------------------------------------------------------------------------- whose turn


def test_a_mixture_that_fits_in_the_head() -> None:
    source, k = shares(6, 3, 1).block(0, 10)
    assert "".join("wcz"[at] for at in source) == "wcwwczwwcw"
    assert k.tolist() == [0, 0, 1, 2, 1, 0, 3, 4, 2, 5]


def test_a_tiny_weight_waits_for_its_turn() -> None:
    """Whoever asks who is furthest behind before anything was given lets it have the very first row."""
    tiny = shares(1, 1e-5)
    assert tiny.taken(1000).tolist() == [1000, 0]
    first = int(np.flatnonzero(tiny.block(0, 60_000)[0] == 1)[0])
    assert abs(first - 50_000) <= 1
    assert shares(0.999, 0.001).taken(10_000).tolist() == [9990, 10]


@law
@given(WEIGHTS, st.integers(0, 10**6))
def test_the_counts_are_exact_and_near_their_share(weights: list[float], n: int) -> None:
    mix = shares(*weights)
    taken = mix.taken(n)
    assert taken.sum() == n
    # Each is rounded from a common moment, and the moment is off by no more than all roundings together.
    assert (np.abs(taken - n * mix.weights) <= 0.5 + mix.weights * len(weights) / 2 + 1e-6).all()


@law
@given(WEIGHTS, st.integers(0, 10**7), st.lists(st.integers(0, 40), min_size=1, max_size=5))
def test_any_part_of_the_mixture_is_the_same_part(weights: list[float], first: int, counts: list[int]) -> None:
    mix = shares(*weights)
    whole = np.stack(mix.block(first, sum(counts)))
    begins = first + np.cumsum([0, *counts])
    parts = [np.stack(mix.block(int(at), count)) for at, count in zip(begins[:-1], counts, strict=True)]
    assert whole.tolist() == np.concatenate(parts, axis=1).tolist()
    for source in range(len(weights)):
        k = whole[1, whole[0] == source]
        assert k.tolist() == list(range(*(mix.taken(at)[source] for at in (first, first + sum(counts)))))


def test_equal_weights_take_turns() -> None:
    assert shares(1, 1, 1).block(0, 7)[0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert shares(0.1, 0.1, 0.1).taken(4).tolist() == [2, 1, 1]


# ------------------------------------------------------------------------------------------------------------ which row


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_source_gives_all_its_rows_before_one_comes_again(tmp_path: Path, shuffle: bool) -> None:
    sizes = {"web": 7, "code": 7, "zh": 3}
    data = mixed(tmp_path, sizes, {"web": 5, "code": 3, "zh": 2}, rows=10)
    given_ = np.concatenate([data.order(shuffle, 42, epoch).rows(np.arange(10)) for epoch in range(6)])
    begin = 0
    for name, size in sizes.items():
        own = given_[(given_ >= begin) & (given_ < begin + size)] - begin
        assert len(own) == {"web": 30, "code": 18, "zh": 12}[name]
        for at in range(0, len(own) - size + 1, size):
            assert sorted(own[at : at + size]) == list(range(size))
        begin += size
    assert data.fetch(given_)["row"].tolist() == given_.tolist()
    if shuffle:
        web, code = (given_[(given_ >= low) & (given_ < low + 7)][:7] - low for low in (0, 7))
        assert web.tolist() != code.tolist()  # two parts of one size do not share an order


def test_places_may_be_asked_for_in_any_order(tmp_path: Path) -> None:
    order = mixed(tmp_path, {"a": 5, "b": 4}, {"a": 1, "b": 2}).order(True, 7, 3)
    every = order.rows(np.arange(9))
    assert order.rows(np.array([8, 0, 3])).tolist() == every[[8, 0, 3]].tolist()
    assert len(order) == 9
    assert order.rows(np.array([], np.int64)).tolist() == []


@pytest.mark.parametrize(
    ("sizes", "rows"), [({"a": 3, "b": 4, "c": 5}, [9, 2, 1]), ({"a": 1000, "b": 10, "c": 10}, [714, 204, 102])]
)
def test_what_was_achieved_is_told(tmp_path: Path, sizes: dict[str, int], rows: list[int]) -> None:
    """How often a source repeats, and what of it was never read, must be seen: it follows from sizes and weights."""
    data = mixed(tmp_path, sizes, {"a": 0.7, "b": 0.2, "c": 0.1})
    told = data.shares(sum(sizes.values()))
    assert [row["rows"] for row in told] == rows
    assert sum(row["achieved"] for row in told) == pytest.approx(1)
    for row in told:
        assert row["passes"] == row["rows"] / sizes[row["source"]]
        assert row["unseen"] == max(0, sizes[row["source"]] - row["rows"])
        assert row["tokens"] is row["token_share"] is None
    assert [row["achieved"] for row in data.shares(0)] == [0, 0, 0]


def test_tokens_are_mixed_with_their_segments(tmp_path: Path) -> None:
    parts = {
        "long": TokenDataset(token_folder(tmp_path / "a", [2, 2], segments=(4,)), position_ids=True, cu_seqlens=True),
        "short": TokenDataset(
            token_folder(tmp_path / "b", [3], dtype=np.uint32, segments=(1, 1), first=4), position_ids=True,
            cu_seqlens=True,
        ),
    }  # fmt: skip
    data = MixedDataset(parts, {"long": 1, "short": 1})
    batch = data.fetch(np.array([6, 0, 3, 4]))
    assert batch["input_ids"].tolist() == rows_of([6, 0, 3, 4]).tolist()
    assert batch["position_ids"].tolist() == [[0, 0, 0, 1], [0, 1, 2, 3], [0, 1, 2, 3], [0, 0, 0, 1]]
    assert batch["cu_seqlens"].tolist() == [0, 1, 2, 4, 8, 12, 13, 14, 16]
    told = data.shares(10)
    assert [(row["rows"], row["tokens"]) for row in told] == [(5, 20), (5, 10)]
    assert [row["token_share"] for row in told] == pytest.approx([2 / 3, 1 / 3])
    assert data.tokens_per_row == 3


def test_parts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    packed = PreProcessedDataset(npz_folder(tmp_path / "npz", [2]))
    tokens = TokenDataset(token_folder(tmp_path / "bin", [2]))
    labelled = TokenDataset(tmp_path / "bin", labels="aligned")
    for parts, weights, sentence in [
        ({}, {}, "nothing to mix"),
        ({"a": packed}, {"a": 0}, "weight of a must be above 0, got 0"),
        ({"a": packed}, {"a": float("nan")}, "must be above 0, got nan"),
        ({"a": packed, "b": packed}, {"a": 1}, "weight of b must be above 0"),
        ({"a": packed, "b": tokens}, {"a": 1, "b": 1}, "rows of b and a do not fit together"),
        ({"a": tokens, "b": labelled}, {"a": 1, "b": 1}, "rows of b and a do not fit together"),
    ]:
        with pytest.raises(BadParameter, match=sentence):
            MixedDataset(parts, weights)  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="unknown source 'wbe'; did you mean 'web'"):
        MixedDataset({"web": packed}, {"wbe": 1})
    with pytest.raises(BadParameter, match="an epoch needs at least one row, got 0"):
        MixedDataset({"a": packed}, {"a": 1}, rows=0)
    with pytest.raises(BadParameter, match="empty has no rows"):
        MixedDataset({"empty": PreProcessedDataset(npz_folder(tmp_path / "none", [0]))}, {"empty": 1})
