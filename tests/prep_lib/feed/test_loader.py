"""Every row once an epoch over all ranks and workers, and a run that goes on is the run that never stopped."""

from __future__ import annotations

import gc
import itertools
import json
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader
from toy_feed import npz_folder, rows_of, token_folder

from prep_lib.errors import BadParameter
from prep_lib.events import listen
from prep_lib.feed import loader as module
from prep_lib.feed.dataset import Costs, PreProcessedDataset, RowDataset, TokenDataset, locate
from prep_lib.feed.loader import Loader, Profile, Steps, create_dataloader, profile, total_steps
from prep_lib.feed.mix import MixedDataset, Shares

law = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
SMALL = st.integers(1, 4)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RowDataset]:
    """Eleven rows in three shards, mapped and packed, and a mixture of the two halves of eleven."""
    root = tmp_path_factory.mktemp("feed")
    parts = {name: PreProcessedDataset(npz_folder(root / name, [5, 6], first)) for name, first in (("a", 0), ("b", 11))}
    return {
        "bin": TokenDataset(token_folder(root / "bin", [4, 2, 5]), labels="shifted", cu_seqlens=True),
        "npz": PreProcessedDataset(npz_folder(root / "npz", [4, 2, 5])),
        "mix": MixedDataset(parts, {"a": 2, "b": 1}, rows=13),
    }


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with listen(lambda event: None, instead=True):
        yield


def numbers(batch: dict[str, Any]) -> list[int]:
    """Which rows a batch holds."""
    return batch["row"].tolist() if "row" in batch else (batch["input_ids"][:, 0] // 10).tolist()


def stream(dataset: RowDataset, shuffle: bool, epochs: int) -> list[int]:
    """All rows of some epochs in their order, as no loader was asked."""
    orders = [dataset.order(shuffle, 42, epoch) for epoch in range(epochs)]
    return np.concatenate([order.rows(np.arange(len(order))) for order in orders]).tolist()


def together(dataset: RowDataset, world: int, batch_size: int, **options: Any) -> list[Loader]:
    return [create_dataloader(dataset, batch_size, rank=rank, world_size=world, **options) for rank in range(world)]


# ------------------------------------------------------------------------------------------------- places and ranks


def test_an_epoch_that_fits_in_the_head() -> None:
    steps = Steps(rows=11, batch_size=2, world_size=2)
    shared = [[steps.places(at, rank).tolist() for rank in range(2)] for at in (0, 4, 8)]
    assert shared == [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10]]]
    assert Steps(9, 2, 2).places(8, 0).tolist() == Steps(9, 2, 2).places(8, 1).tolist() == [8]  # one row for two ranks
    assert (Steps(9, 2, 2).tail(), Steps(9, 2, 2, drop_last=True).tail()) == ((0, 1), (1, 0))


@law
@given(rows=st.integers(1, 60), batch_size=SMALL, world=SMALL, drop=st.booleans())
def test_each_place_is_read_once_or_accounted_for(rows: int, batch_size: int, world: int, drop: bool) -> None:
    if drop and rows < batch_size * world:
        with pytest.raises(BadParameter, match="would drop them all"):
            Steps(rows, batch_size, world, drop)
        return
    steps = Steps(rows, batch_size, world, drop)
    read = [steps.places(at * steps.width, rank) for at in range(steps.count()) for rank in range(world)]
    dropped, repeated = steps.tail()
    flat = np.concatenate(read).tolist()
    assert sorted(set(flat)) == list(range(rows - dropped))
    assert len(flat) == rows - dropped + repeated
    assert all(1 <= len(places) <= batch_size for places in read)
    assert not (dropped and repeated)


@law
@given(rows=st.integers(1, 60), batch_size=SMALL, world=SMALL)
def test_a_place_is_found_where_it_is_read(rows: int, batch_size: int, world: int) -> None:
    steps = Steps(rows, batch_size, world)
    for place in range(rows):
        step, rank, at = steps.find(place)
        assert steps.places(step * steps.width, rank)[at] == place
    with pytest.raises(BadParameter, match="place 4 is dropped"):
        Steps(5, 2, 2, drop_last=True).find(4)


# --------------------------------------------------------------------------------------------- once an epoch, resume


@law
@given(kind=st.sampled_from(["bin", "npz", "mix"]), shuffle=st.booleans(), batch_size=SMALL, world=SMALL)
def test_each_row_once_an_epoch_over_all_ranks(
    datasets: dict[str, RowDataset], kind: str, shuffle: bool, batch_size: int, world: int
) -> None:
    dataset = datasets[kind]
    loaders = together(dataset, world, batch_size, shuffle=shuffle)
    expected = stream(dataset, shuffle, 2)
    rows = loaders[0].steps.rows
    for epoch in range(2):
        batches = [list(loader) for loader in loaders]
        assert {len(each) for each in batches} == {len(loaders[0])}  # or a rank would wait for ever
        got = [row for step in zip(*batches, strict=True) for batch in step for row in numbers(batch)]
        repeated = loaders[0].steps.tail()[1]
        assert got[: rows if repeated else None] == expected[epoch * rows :][: rows if repeated else len(got)]
        assert len(got) == rows + repeated
    assert {loader.position for loader in loaders} == {2 * rows}


@law
@given(
    kind=st.sampled_from(["bin", "npz", "mix"]),
    shuffle=st.booleans(),
    runs=st.lists(st.tuples(SMALL, SMALL, st.integers(0, 9)), min_size=1, max_size=5),
)
def test_going_on_with_other_ranks_and_batches_is_the_run_that_never_stopped(
    datasets: dict[str, RowDataset], kind: str, shuffle: bool, runs: list[tuple[int, int, int]]
) -> None:
    """Any number of times, in the middle of an epoch and over its end, from nothing but one integer."""
    dataset, position, got, repeated = datasets[kind], 0, list[int](), 0
    for world, batch_size, steps in runs:
        loaders = together(dataset, world, batch_size, shuffle=shuffle, start=position)
        for _ in range(steps):
            step = [next(loader.take(1)) for loader in loaders]
            before = loaders[0].repeated
            rows = [row for batch in step for row in numbers(batch)]
            got += rows[: len(rows) - before + repeated]
            repeated = before
        repeated = 0
        positions = {loader.position for loader in loaders}
        assert len(positions) == 1
        position = positions.pop()
    assert position == len(got)
    assert got == stream(dataset, shuffle, position // 11 + 1)[: len(got)]


@law
@given(shuffle=st.booleans(), stop=st.integers(0, 12), again=st.integers(0, 5))
def test_resumed_at_every_step_and_resumed_again(
    datasets: dict[str, RowDataset], shuffle: bool, stop: int, again: int
) -> None:
    options: dict[str, Any] = {"batch_size": 2, "shuffle": shuffle, "drop_last": True}
    whole = create_dataloader(datasets["bin"], **options)
    expected = [numbers(batch) for batch in whole.take(stop + again + 4)]
    first = create_dataloader(datasets["bin"], **options)
    got = [numbers(batch) for batch in first.take(stop)]
    second = create_dataloader(datasets["bin"], **options)
    second.load_state_dict(first.state_dict())
    got += [numbers(batch) for batch in second.take(again)]
    third = create_dataloader(datasets["bin"], **options, start=second.position)
    got += [numbers(batch) for batch in third.take(4)]
    assert got == expected
    assert first.dropped + second.dropped + third.dropped == whole.dropped


def test_the_position_counts_the_batch_that_is_being_worked_on(datasets: dict[str, RowDataset]) -> None:
    """What was read ahead but not given is not consumed."""
    for options in ({}, {"prefetch_factor": 3}):
        loader = create_dataloader(datasets["npz"], 3, shuffle=False, **options)  # type: ignore[arg-type]
        seen = [(loader.position, loader.epoch, loader.left) for _ in loader.take(6)]
        assert seen == [(3, 0, 3), (6, 0, 2), (9, 0, 1), (11, 1, 4), (14, 1, 3), (17, 1, 2)]
        assert len(loader) == 4


def test_a_loop_that_is_left_goes_on_where_it_was(datasets: dict[str, RowDataset]) -> None:
    loader = create_dataloader(datasets["bin"], 4, shuffle=False)
    assert numbers(next(iter(loader))) == [0, 1, 2, 3]
    assert [numbers(batch) for batch in loader] == [[4, 5, 6, 7], [8, 9, 10]]
    assert [numbers(batch) for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]


def test_what_is_left_of_an_epoch_and_fills_no_step_is_dropped_and_counted(datasets: dict[str, RowDataset]) -> None:
    """Ten rows are consumed; four ranks of two cannot make a step of the last one."""
    loaders = together(datasets["bin"], 4, 2, shuffle=False, drop_last=True, start=10)
    assert [numbers(next(iter(loader))) for loader in loaders] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert {(loader.dropped, loader.position) for loader in loaders} == {(1 + 3, 22)}


def test_a_rank_sees_other_rows_in_every_epoch(datasets: dict[str, RowDataset]) -> None:
    """Shuffling what a rank was given once for all would leave each with its own shards for ever."""
    loader = create_dataloader(datasets["bin"], 2, rank=0, world_size=2, drop_last=True)
    halves = [sorted(row for batch in loader for row in numbers(batch)) for _ in range(6)]
    assert len({tuple(rows) for rows in halves}) > 3


def test_places_beyond_32_bits_are_places() -> None:
    steps = Steps(rows=2**45 + 3, batch_size=512, world_size=1000)
    last = (steps.count() - 1) * steps.width
    assert steps.places(last, 999)[-1] == 2**45 + 2
    assert steps.find(2**44 + 1)[0] == (2**44 + 1) // 512_000
    shards, local, _ = locate(np.array([0, 2**40, 2**45 + 3]), np.array([2**40 - 1, 2**45 + 2]))
    assert (shards.tolist(), local.tolist()) == ([0, 1], [2**40 - 1, 2**45 + 2 - 2**40])
    source, k = Shares(np.array([0.75, 0.25])).block(2**44, 4)
    assert sorted(source.tolist()) == [0, 0, 0, 1]
    assert k.max() == 3 * 2**42 + 2


def test_epochs_differ_and_one_seed_is_one_order(datasets: dict[str, RowDataset]) -> None:
    orders = {}
    for seed, epoch in itertools.product((1, 2), range(4)):
        loader = create_dataloader(datasets["bin"], 11, seed=seed, start=11 * epoch)
        orders[seed, epoch] = numbers(next(iter(loader)))
    assert len({tuple(order) for order in orders.values()}) == 8
    assert all(sorted(order) == list(range(11)) for order in orders.values())


# -------------------------------------------------------------------------------------------------------- processes


@pytest.mark.parametrize("kind", ["bin", "npz", "mix"])
def test_batches_are_the_same_for_any_number_of_workers(datasets: dict[str, RowDataset], kind: str) -> None:
    expected = [(numbers(batch), batch) for batch in create_dataloader(datasets[kind], 3, shuffle=True).take(7)]
    for options in ({"num_workers": 1}, {"num_workers": 2, "persistent_workers": True}, {"prefetch_factor": 2}):
        loader = create_dataloader(datasets[kind], 3, shuffle=True, **options)  # type: ignore[arg-type]
        for batch, (rows, wanted) in zip(loader.take(7), expected, strict=True):
            assert numbers(batch) == rows
            assert set(batch) == set(wanted)
            for name, values in batch.items():
                assert torch.equal(torch.as_tensor(values), torch.as_tensor(wanted[name])), name


@pytest.mark.parametrize("options", [{"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}])
def test_a_loop_that_is_left_early_costs_its_workers_no_batch(
    datasets: dict[str, RowDataset], options: dict[str, Any]
) -> None:
    loader = create_dataloader(datasets["npz"], 2, shuffle=True, **options)
    got = []
    for _ in range(4):
        for batch in loader:
            got += numbers(batch)
            if len(got) % 3:
                break
    assert got == stream(datasets["npz"], True, 3)[: len(got)]
    assert loader.position == len(got)


def test_workers_end_with_their_loader(datasets: dict[str, RowDataset]) -> None:
    """Kept in a ring of references they would be ended by the garbage collector, who waits for each in vain."""
    loader = create_dataloader(datasets["bin"], 3, num_workers=1, persistent_workers=True)
    next(iter(loader))
    gone = weakref.ref(loader._iterator)
    processes = list(loader._iterator._workers)  # type: ignore[union-attr]
    gc.disable()
    try:
        del loader
        assert gone() is None
        assert not any(process.is_alive() for process in processes)
    finally:
        gc.enable()


def test_workers_change_while_the_run_goes_on(datasets: dict[str, RowDataset]) -> None:
    position, got = 0, list[int]()
    for workers, steps in ((2, 2), (0, 1), (1, 3)):
        loader = create_dataloader(datasets["bin"], 3, num_workers=workers, shuffle=True, start=position)
        got += [row for batch in loader.take(steps) for row in numbers(batch)]
        position = loader.position
    assert got == stream(datasets["bin"], True, 3)[: len(got)]


def test_a_spawned_worker_opens_its_files_itself(tmp_path: Path) -> None:
    """A handle of HDF5 that is shared by processes reads garbage; nothing but paths crosses over."""
    dataset = TokenDataset(token_folder(tmp_path, [4, 3], kind="h5", dtype=np.int32), labels="aligned")
    dataset.fetch(np.arange(7))
    loader = create_dataloader(dataset, 7, num_workers=1, shuffle=False)
    loader.multiprocessing_context = "spawn"
    (batch,) = loader
    assert batch["labels"].tolist() == rows_of(range(7)).tolist()


def test_a_thread_that_reads_ahead_ends_with_its_loop_and_tells_its_error(datasets: dict[str, RowDataset]) -> None:
    loader = create_dataloader(datasets["bin"], 1, prefetch_factor=2)
    batches = iter(loader)
    next(batches)
    assert [thread.name for thread in threading.enumerate()].count("feed") == 1
    batches.close()  # type: ignore[attr-defined]
    assert [thread.name for thread in threading.enumerate()].count("feed") == 0

    class Broken(PreProcessedDataset):
        def read(self, rows: np.ndarray) -> dict[str, np.ndarray]:
            raise OSError("the disk is gone")

    broken = Broken(datasets["npz"].path)  # type: ignore[attr-defined]
    with pytest.raises(OSError, match="the disk is gone"):
        list(create_dataloader(broken, 2, shuffle=False, prefetch_factor=2))


# ------------------------------------------------------------------------------------------------ what is said of it


def test_what_a_loader_costs_is_said_when_it_is_made(datasets: dict[str, RowDataset]) -> None:
    said: list[str] = []
    with listen(lambda event: said.append(event["text"]), instead=True):
        loader = create_dataloader(datasets["bin"], 2, num_workers=2, pin_memory=True, drop_last=True)
        create_dataloader(datasets["npz"], 2, num_workers=2, world_size=3, shuffle=False)
        create_dataloader(datasets["npz"], 5, world_size=2, shuffle=True)
        quiet = create_dataloader(datasets["bin"], 11)
    assert loader.notes == said[: len(loader.notes)]
    assert quiet.notes == []
    whole = "\n".join(said)
    for sentence in (
        "drop_last drops 1 of 11 rows at the end of each epoch",
        "num_workers=2 is slower than 0 here: the data are memory-mapped",
        "each of 2 workers unpacks every shard",
        "1 rows are given twice at the end of each epoch",
        "rows of 1 of 3 shards are mixed at a time; for rows mixed over all shards run prep shuffle-npz once",
    ):
        assert sentence in whole
    assert ("pin_memory is left out: there is no device" in whole) is not torch.accelerator.is_available()
    assert isinstance(loader, DataLoader)
    assert repr(loader) == "<Loader: 11 rows in 5 steps of 2; 1 rows dropped at its end>"
    ranked = create_dataloader(datasets["bin"], 5, rank=1, world_size=2)
    assert repr(ranked) == "<Loader: rank 1 of 2, 11 rows in 2 steps of 10; 1 rows given twice at its end>"


def test_who_shuffles_when_nobody_says(tmp_path: Path, datasets: dict[str, RowDataset]) -> None:
    assert create_dataloader(datasets["npz"], 2).shuffle is True
    ready = PreProcessedDataset(npz_folder(tmp_path, [9, 9], pre_shuffled=True))
    loader = create_dataloader(ready, 18)
    assert loader.shuffle is False
    assert numbers(next(iter(loader))) == list(range(18))
    assert create_dataloader(ready, 18, shuffle=True).notes == []
    ready.set_epoch(1)
    second = numbers(next(iter(loader)))
    assert second != list(range(18)) != sorted(second[:9])
    with pytest.raises(BadParameter, match="set_epoch is for shuffle=False"):
        next(iter(create_dataloader(ready, 18, shuffle=True)))


def test_a_state_of_other_data_or_another_order_is_refused(tmp_path: Path, datasets: dict[str, RowDataset]) -> None:
    state = create_dataloader(datasets["bin"], 2, start=4).state_dict()
    assert state["position"] == 4
    for dataset, options, name in [
        (datasets["bin"], {"seed": 7}, "seed was 42 and is 7"),
        (datasets["bin"], {"shuffle": False}, "shuffle was True and is False"),
        (TokenDataset(token_folder(tmp_path, [4, 2, 5], dtype=np.uint32)), {}, "data was"),
        (datasets["mix"], {}, "rows was 11 and is 13"),
    ]:
        loader = create_dataloader(dataset, 2, **options)  # type: ignore[arg-type]
        with pytest.raises(BadParameter, match=f"cannot go on: {name}"):
            loader.load_state_dict(state)
    packed = create_dataloader(datasets["npz"], 2).state_dict()
    wider = PreProcessedDataset(datasets["npz"].path, max_cache_shards=2)  # type: ignore[attr-defined]
    with pytest.raises(BadParameter, match="cannot go on: data was"):  # two shards mixed are another order than one
        create_dataloader(wider, 2).load_state_dict(packed)
    ready = PreProcessedDataset(npz_folder(tmp_path / "ready", [4, 3], pre_shuffled=True))
    ready.set_epoch(3)
    numbered = create_dataloader(ready, 2).state_dict()
    fresh = PreProcessedDataset(tmp_path / "ready")
    with pytest.raises(BadParameter, match=r"set_epoch was .* and is None; .* call set_epoch as before"):
        create_dataloader(fresh, 2).load_state_dict(numbered)
    fresh.set_epoch(3)
    create_dataloader(fresh, 2).load_state_dict(json.loads(json.dumps(numbered)))
    other = create_dataloader(datasets["bin"], 3, world_size=2, rank=1)
    other.load_state_dict(state)
    assert other.position == 4


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"rank": 2, "world_size": 2}, "rank must be 0 to 1 of 2, got 2"),
        ({"start": -1}, "start must be >= 0, got -1"),
        ({"prefetch_factor": -1}, "prefetch_factor must be >= 0"),
        ({"batch_size": 12, "drop_last": True}, "11 rows do not fill one step of 1 x 12"),
    ],
)
def test_nonsense_is_refused(datasets: dict[str, RowDataset], options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadParameter, match=sentence):
        create_dataloader(datasets["bin"], **{"batch_size": 2, **options})


def test_datasets_of_others_and_without_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="list is no dataset of this library"):
        create_dataloader([1, 2], 1)  # type: ignore[arg-type]
    with pytest.raises(BadParameter, match="the dataset has no rows"):
        create_dataloader(TokenDataset(token_folder(tmp_path, [])), 1)


# ------------------------------------------------------------------------------------------- trainer rules, profile


def test_the_steps_of_a_training(datasets: dict[str, RowDataset]) -> None:
    loader = create_dataloader(datasets["bin"], 2, world_size=2)
    assert total_steps(loader, epochs=3) == 9
    assert total_steps(loader, epochs=3, max_iter_length=9) == 6  # 9 rows are two whole steps of four
    assert total_steps(loader, epochs=3, max_iter_length=1000) == 9
    assert sum(1 for _ in loader.take(9)) == 9
    assert loader.position == 33


def test_a_profile_measures_and_leaves_the_loader_where_it_was(datasets: dict[str, RowDataset]) -> None:
    for kind, options in (("bin", {}), ("npz", {}), ("mix", {}), ("bin", {"num_workers": 1})):
        loader = create_dataloader(datasets[kind], 3, shuffle=True, start=2, **options)  # type: ignore[arg-type]
        found = profile(loader, batches=3)
        costs = {name: getattr(found, name) for name in ("read", "convert", "collate", "hand_over")}
        assert all(cost >= 0 for cost in costs.values())
        assert found.total > 0
        assert costs[found.bottleneck] == max(costs.values())
        assert (loader.position, loader.dropped, loader.repeated) == (2, 0, 0)
        assert str(found).endswith((".", "faster."))
    assert profile(create_dataloader(datasets["bin"], 2), step_seconds=1e9).advice == "fine"
    with pytest.raises(BadParameter, match="1 batches are left in this epoch; a profile needs two"):
        profile(create_dataloader(datasets["bin"], 11))


@pytest.mark.parametrize(
    ("kind", "workers", "bottleneck", "again", "disk", "advice"),
    [
        ("bin", 1, "hand_over", False, False, "workers"),
        ("bin", 0, "hand_over", False, False, "batch"),
        ("bin", 0, "collate", False, False, "extras"),
        ("bin", 0, "convert", False, False, "limit"),
        ("bin", 0, "read", False, False, "limit"),
        ("bin", 0, "read", False, True, "disk"),
        ("npz", 0, "read", False, False, "prefetch"),
        ("npz", 0, "read", True, False, "cache"),
    ],
)
def test_the_advice_names_the_setting(
    datasets: dict[str, RowDataset], kind: str, workers: int, bottleneck: str, again: bool, disk: bool, advice: str
) -> None:
    loader = create_dataloader(datasets[kind], 2, num_workers=workers)
    assert module._advice(bottleneck, loader, Costs(1, 1, again=again), disk) == advice
    assert str(Profile(1, 1, 1, 1, 1, 1, bottleneck, advice))


def test_shards_that_are_unpacked_again_and_again_are_noticed(tmp_path: Path) -> None:
    """Rows shuffled over all shards, one of them in memory: the specification's two minutes a batch."""
    dataset = PreProcessedDataset(npz_folder(tmp_path, [8, 8, 8]))
    scattered = np.random.default_rng(0).permutation(24).reshape(6, 4)
    assert dataset.costs(list(scattered), 6).again
    assert not dataset.costs(list(np.arange(24).reshape(6, 4)), 6).again
