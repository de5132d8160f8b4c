"""Orders are bijections both ways, clean, really different each epoch, and never change."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.errors import BadParameter
from prep_lib.seeds import SORTED, network, permute
from prep_lib.shuffle.order import (
    BLOCK,
    READY,
    BufferOrder,
    FullOrder,
    Order,
    Permutation,
    SequentialOrder,
    ShardOrder,
    WindowOrder,
    buffered,
    walk,
)

SEEDS = st.integers(0, 2**32)
SIZES = [1, 2, 1024, 1025, 4096, 4097, 16_385, 65_536, 65_537, 100_000, 131_071, 131_073]
SHARDS = st.lists(st.integers(0, 9), min_size=1, max_size=12)

MAKERS: dict[str, Callable[[list[int], int, int], Order]] = {
    "sequential": lambda sizes, seed, epoch: SequentialOrder(sum(sizes)),
    "full": lambda sizes, seed, epoch: FullOrder(sum(sizes), seed, epoch),
    "shard": lambda sizes, seed, epoch: ShardOrder(sizes, seed, epoch),
    "window": lambda sizes, seed, epoch: WindowOrder(sizes, 3, seed, epoch),
    "buffer": lambda sizes, seed, epoch: BufferOrder(sizes, 5, seed, epoch),
}
SHUFFLED = [name for name in MAKERS if name != "sequential"]


def everything(order: Order | Permutation) -> np.ndarray:
    return order.rows(np.arange(order.size))


# -------------------------------------------------------------------------------------------------------- bijections


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(0, 5000) | st.sampled_from(SIZES))
def test_a_permutation_is_that_of_seeds_and_its_inverse_is_exact(seed: int, size: int) -> None:
    order = Permutation(seed, "rows", size, 3)
    rows = everything(order)
    assert rows.dtype == np.int64
    assert np.array_equal(rows, permute(seed, "rows", size, np.arange(size), 3))
    assert np.array_equal(order.places(rows), np.arange(size))
    assert np.array_equal(order.rows(order.places(np.arange(size))), np.arange(size))


@pytest.mark.parametrize("size", [2**40, 2**40 + 1, 2**62 + 1, 2**63 - 1])
def test_a_range_no_memory_could_hold_has_an_inverse_too(size: int) -> None:
    order = Permutation(1, "rows", size)
    places = np.concatenate([np.arange(3000), size - 1 - np.arange(3000)])
    rows = order.rows(places)
    assert 0 <= rows.min() <= rows.max() < size
    assert np.array_equal(order.places(rows), places)
    assert np.array_equal(rows, permute(1, "rows", size, places))


@pytest.mark.parametrize("size", [1025, 4097, 5000])
@pytest.mark.parametrize("backwards", [False, True])
def test_the_kernel_is_its_python_twin(size: int, backwards: bool) -> None:
    half, rounds = network(5, "rows", size)
    values = np.arange(BLOCK + 3, dtype=np.uint64)
    with np.errstate(over="ignore"):
        plain = walk.python(values, np.uint64(size), half, rounds, backwards)
    assert np.array_equal(plain, walk(values, np.uint64(size), half, rounds, backwards))


def test_the_buffer_kernel_is_its_python_twin() -> None:
    with np.errstate(over="ignore"):
        plain = buffered.python(50, 7, np.uint64(99))
    assert np.array_equal(plain, buffered(50, 7, np.uint64(99)))


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(sorted(MAKERS)), SHARDS, SEEDS, st.integers(0, 3))
def test_every_order_has_each_row_once_and_an_exact_inverse(name: str, sizes: list[int], seed: int, epoch: int) -> None:
    order = MAKERS[name](sizes, seed, epoch)
    rows = everything(order)
    assert len(order) == order.size == sum(sizes)
    assert sorted(rows.tolist()) == list(range(sum(sizes)))
    assert order.places(rows).tolist() == list(range(sum(sizes)))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(MAKERS)), SHARDS, SEEDS, st.data())
def test_some_places_are_asked_for_as_all_are(name: str, sizes: list[int], seed: int, data: st.DataObject) -> None:
    order = MAKERS[name](sizes, seed, 0)
    whole = everything(order)
    if order.size:
        places = data.draw(st.lists(st.integers(0, order.size - 1), max_size=20))
        assert order.rows(np.array(places, dtype=np.int64)).tolist() == whole[places].tolist()
        assert order.places(whole[places]).tolist() == places


def test_more_windows_than_are_kept_ready() -> None:
    order = ShardOrder([3] * (2 * READY + 1), 1, 0)
    rows = everything(order)
    assert np.array_equal(order.places(rows), np.arange(order.size))
    assert np.array_equal(rows, everything(order))


# ------------------------------------------------------------------------------------------------------------- shape


def opened(order: WindowOrder | BufferOrder) -> np.ndarray:
    """The shard of the row at each place."""
    return np.searchsorted(np.cumsum(order.sizes), everything(order), side="right")


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), SEEDS)
def test_a_shard_order_opens_one_shard_after_another(sizes: list[int], seed: int) -> None:
    shards = opened(ShardOrder(sizes, seed, 0))
    assert (np.diff(shards) != 0).sum() == len(sizes) - 1


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 5), SEEDS)
def test_a_window_order_keeps_no_more_shards_open_than_asked(sizes: list[int], window: int, seed: int) -> None:
    order = WindowOrder(sizes, window, seed, 0)
    shards = opened(order)
    held = [set(shards[a:b].tolist()) for a, b in zip(order.windows[:-1], order.windows[1:], strict=True)]
    assert max(map(len, held)) <= window
    assert sum(map(len, held)) == len(sizes)
    # The last window is no smaller than the others by more than one shard.
    assert max(map(len, held)) - min(map(len, held)) <= 1


def test_a_buffer_gives_a_row_soon_after_it_came() -> None:
    order = BufferOrder([1000], buffer=10, seed=1, epoch=0)
    rows = everything(order)
    # Row r comes into the buffer at step r - 10 or later, so it cannot be given earlier.
    assert (order.places(np.arange(1000)) >= np.arange(1000) - 9).all()
    assert 5 < np.abs(rows - np.arange(1000)).mean() < 15


def test_a_buffer_of_one_row_shuffles_nothing_and_a_large_one_everything() -> None:
    assert everything(BufferOrder([50], 1, 3, 0)).tolist() == list(range(50))
    rows = everything(BufferOrder([4000], 9999, 3, 0))
    assert abs(np.corrcoef(rows, np.arange(4000))[0, 1]) < 5 / np.sqrt(4000)


# ---------------------------------------------------------------------------------------------------------- quality


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(a, b)[0, 1])


@pytest.mark.parametrize("size", [SORTED, SORTED + 1, 4097, 16_385, 65_536, 65_537, 100_000, 131_073])
def test_a_permutation_is_clean_in_lag_parity_and_dispersion(size: int) -> None:
    # Under an even order each of these is normal with deviation 1/sqrt(size), or 1 for the sums. 8 seeds x 8 sizes x 9
    # figures = 576 draws: beyond 5 deviations once in 3,000 changes of the seeds.
    limit, place = 5 / np.sqrt(size), np.arange(size)
    for seed in range(8):
        rows = permute(seed, "rows", size, place) if size == SORTED else everything(Permutation(seed, "rows", size))
        for lag in (1, 2, 3, 64):
            assert abs(correlation(rows[:-lag], rows[lag:])) < limit * 1.1, (seed, lag)
        assert abs(correlation(rows, place)) < limit
        assert abs(correlation(rows & 1, place & 1)) < limit
        assert abs(correlation((rows >> 1) & 1, place & 1)) < limit
        assert abs(correlation(rows < size // 2, place & 1)) < limit
        # Ten sources laid out one after another, counted in windows of 64 places against the hypergeometric.
        source, windows = rows * 10 // size, size // 64
        counts = np.stack([np.bincount(source[64 * w : 64 * w + 64], minlength=10) for w in range(windows)])
        share = np.bincount(source, minlength=10) / size
        expected = 64 * share * (1 - share) * (size - 64) / (size - 1)
        dispersion = float((((counts - 64 * share) ** 2) / expected).mean())
        assert abs(dispersion - 1) < 5 * np.sqrt(2 / (windows * 9)), (seed, dispersion)


@pytest.mark.parametrize("name", SHUFFLED)
def test_epochs_are_really_different(name: str) -> None:
    # In peers an epoch was the one before it again, or a shift of it.
    sizes, pairs = [60] * 40, []
    for seed in range(4):
        orders = [everything(MAKERS[name](sizes, seed, epoch)) for epoch in range(4)]
        for one in range(4):
            for other in range(one):
                pairs.append(float((orders[one] == orders[other]).mean()))
                assert np.bincount((orders[one] - orders[other]) % 2400).max() < 240
                assert abs(correlation(orders[one], orders[other])) < 0.6
    # Two even orders agree in one row of 2,400; a stream of shards agrees more where a shard has the same turn twice.
    assert np.mean(pairs) < (0.02 if name == "buffer" else 0.002)


def test_the_seed_is_not_the_epoch() -> None:
    # Adding both gave epoch 1 of seed 1 the order of epoch 0 of seed 2.
    for make in (MAKERS[name] for name in SHUFFLED):
        orders = [tuple(everything(make([9] * 9, seed, epoch)).tolist()) for seed in range(4) for epoch in range(4)]
        assert len(set(orders)) == 16


def test_shards_of_one_size_are_not_mixed_alike() -> None:
    order = ShardOrder([200] * 30, 1, 0)
    inside = everything(order).reshape(30, 200) % 200
    assert len({tuple(row) for row in inside.tolist()}) == 30
    assert abs(np.corrcoef(inside)[np.triu_indices(30, 1)]).max() < 5 / np.sqrt(200)


# ------------------------------------------------------------------------------------- what users reported of others


def test_a_buffer_that_was_stopped_goes_on_without_loss() -> None:
    # BUG-074, huggingface/datasets#7901: after a stop the rows that waited in the buffer were lost, others came twice.
    order = BufferOrder([2500] * 4, buffer=500, seed=3, epoch=0)
    before = order.rows(np.arange(1000))
    again = BufferOrder([2500] * 4, buffer=500, seed=3, epoch=0)
    after = again.rows(np.arange(1000, 10_000))
    assert sorted([*before.tolist(), *after.tolist()]) == list(range(10_000))
    assert np.array_equal(np.concatenate([before, after]), everything(order))


@pytest.mark.parametrize("name", SHUFFLED)
def test_an_epoch_ends_before_the_next_begins(name: str) -> None:
    # NVIDIA/Megatron-LM#697: one order over all epochs together gives some rows twice before others come once.
    for epoch in range(3):
        assert sorted(everything(MAKERS[name]([5, 4, 3], 1, epoch)).tolist()) == list(range(12))


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_fewer_shards_than_readers_leave_none_without_rows(shards: int) -> None:
    # webdataset/webdataset#65, #242: shards are dealt to workers, or each worker draws from the same seed.
    order = WindowOrder([24 // shards] * shards, 8, 1)
    readers = [order.rows(np.arange(reader, 24, 8)).tolist() for reader in range(8)]
    assert all(len(rows) == 3 for rows in readers)
    assert sorted(row for rows in readers for row in rows) == list(range(24))


@pytest.mark.parametrize("name", SHUFFLED)
def test_no_order_depends_on_what_a_worker_has_drawn(name: str) -> None:
    # pytorch/pytorch#5059: every worker inherits one global generator.
    orders = []
    for seed in (0, 1):
        np.random.seed(seed)
        orders.append(everything(MAKERS[name]([40] * 9, 5, 2)))
    assert np.array_equal(*orders)


# ---------------------------------------------------------------------------------------------------------- the rest


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_an_order_goes_to_another_process(name: str) -> None:
    order = MAKERS[name]([4, 3, 4, 2], 7, 1)
    before = everything(order)
    again = pickle.loads(pickle.dumps(order))
    assert again == order
    assert np.array_equal(everything(again), before)


def test_a_buffer_order_is_sent_without_its_list() -> None:
    order = BufferOrder([100_000], 10, 7, 0)
    everything(order)
    assert len(pickle.dumps(order)) < 1000


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Permutation(1, "x", 5).rows([5]), r"place 5 is not inside range\(5\)"),
        (lambda: Permutation(1, "x", 5000).rows([-1]), r"place -1 is not inside range\(5000\)"),
        (lambda: Permutation(1, "x", 5000).places([5000]), r"row 5000 is not inside range\(5000\)"),
        (lambda: FullOrder(0, 1).rows([0]), r"is not inside range\(0\)"),
        (lambda: FullOrder(5, 1).rows([[0]]), r"places must be \(n,\) whole numbers, got \(1, 1\) int64"),
        (lambda: FullOrder(5, 1).rows([0.5]), "whole numbers, got \\(1,\\) float64"),
        (lambda: SequentialOrder(5).places([5]), r"row 5 is not inside range\(5\)"),
        (lambda: Permutation(1, "x", -1), "size must be >= 0 and"),
        (lambda: WindowOrder([3], 0, 1), "window must be at least 1 shard, got 0"),
        (lambda: BufferOrder([3], 0, 1), "buffer must be at least 1 row, got 0"),
        (lambda: ShardOrder([3, -1], 1), "a shard cannot hold -1 rows"),
    ],
)
def test_what_no_order_holds_is_refused(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(BadParameter, match=sentence):
        call()


def test_no_places_give_no_rows() -> None:
    for make in MAKERS.values():
        assert make([3, 2], 1, 0).rows([]).dtype == np.int64
        assert len(make([0], 1, 0)) == 0


# ------------------------------------------------------------------------------------------------------------ golden


def test_golden_orders() -> None:
    # These must never change: a training that is resumed, repeated or traced reads by the order that its seed and epoch
    # meant on the day it began. If one fails, undo the change; a better order gets a new name. They rest on raw PCG64
    # numbers and whole-number arithmetic alone, so no release of NumPy or numba may change them either.
    sizes = [4, 3, 4, 2]
    assert everything(FullOrder(13, 7, 0)).tolist() == [1, 4, 0, 10, 6, 9, 3, 11, 12, 5, 2, 7, 8]
    assert everything(ShardOrder(sizes, 7, 0)).tolist() == [12, 11, 1, 0, 2, 3, 10, 9, 7, 8, 4, 6, 5]
    assert everything(WindowOrder(sizes, 2, 7, 0)).tolist() == [3, 2, 0, 1, 12, 11, 10, 8, 4, 9, 7, 5, 6]
    assert everything(BufferOrder(sizes, 2, 7, 0)).tolist() == [12, 0, 1, 2, 3, 7, 8, 11, 10, 9, 5, 6, 4]
    assert FullOrder(1_000_000, 42, 3).rows(range(6)).tolist() == [856448, 64919, 429547, 48311, 559655, 680713]
    assert WindowOrder([5000] * 20, 4, 42, 1).rows(range(6)).tolist() == [65336, 97088, 87295, 97481, 24640, 22868]
    assert BufferOrder([5000] * 20, 1000, 42, 1).rows(range(6)).tolist() == [65062, 65444, 65094, 65086, 65785, 65075]
    assert ShardOrder([5000] * 20, 42, 1).rows(range(6)).tolist() == [67346, 68221, 65061, 65093, 69157, 69024]
