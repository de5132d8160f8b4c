"""Batches for a trainer: which rows each rank gets at each step, and going on exactly where it stopped.

epoch 0                                         epoch 1
0 1 2 3 4 5 6 7 8 9                             0 1 2 3 …        places; an order says which row stands at each
└ rank 0 ┘└ rank 1 ┘ …                                           one step of two ranks with batches of two: 0 1 | 2 3
position ─────────────▶                                          rows of all ranks so far: the one number to keep

What a step reads follows from its position alone. So ranks share nothing, workers change nothing, and a run goes on
with another number of either. At the end of an epoch a smaller step is left over: it is shared out evenly, or dropped;
a rank that would get nothing repeats a row, because all ranks must take as many steps. The loader says which.
"""

from __future__ import annotations

import queue
import statistics
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from prep_lib.errors import BadParameter
from prep_lib.events import emit
from prep_lib.feed.dataset import Costs, PreProcessedDataset, RowDataset, seconds
from prep_lib.words import say

#: Places whose rows are looked up together: an order costs some microseconds a call.
AHEAD = 2**15


@dataclass(frozen=True)
class Steps:
    """How the places of an epoch become the batches of all ranks.

    Parameters
    ----------
    rows : int, at least 1
        Of an epoch.
    batch_size : int, rows of one rank
    world_size : int, ranks
    drop_last : bool
        Whether what does not fill a step of all ranks at the end of an epoch is dropped.

    Raises
    ------
    BadParameter
        If a number is below 1, or every row would be dropped.

    Examples
    --------
    >>> steps = Steps(rows=10, batch_size=2, world_size=2)
    >>> [[steps.places(start, rank).tolist() for rank in range(2)] for start in (0, 4, 8)]
    [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8], [9]]]
    >>> steps.count(), steps.tail(), Steps(10, 2, 2, drop_last=True).tail()
    (3, (0, 0), (2, 0))
    """

    rows: int
    batch_size: int
    world_size: int = 1
    drop_last: bool = False

    def __post_init__(self) -> None:
        for name in ("rows", "batch_size", "world_size"):
            if getattr(self, name) < 1:
                raise BadParameter(f"feed/loader: {name} must be at least 1, got {getattr(self, name)}")
        if self.drop_last and self.rows < self.width:
            raise BadParameter(
                f"feed/loader: {self.rows:,} rows do not fill one step of {self.world_size} x {self.batch_size}, so "
                "drop_last would drop them all; lower batch_size"
            )

    @property
    def width(self) -> int:
        """Rows of a whole step, all ranks together."""
        return self.batch_size * self.world_size

    def count(self, place: int = 0) -> int:
        """Return the steps from a place of an epoch to its end."""
        whole, rest = divmod(self.rows - place, self.width)
        return whole + (rest > 0 and not self.drop_last)

    def tail(self, place: int = 0) -> tuple[int, int]:
        """Return how many rows are dropped, and how many given once more, at the end of an epoch begun at a place."""
        rest = (self.rows - place) % self.width
        if self.drop_last or not rest:
            return rest, 0
        return 0, max(0, self.world_size - rest)

    def places(self, start: int, rank: int) -> np.ndarray:
        """Return the places of one rank in the step that begins at place `start`: (n,) int64."""
        here = min(self.width, self.rows - start)
        if here < self.world_size:
            return np.array([start + rank % here])
        share, rest = divmod(here, self.world_size)
        first = start + rank * share + min(rank, rest)
        return np.arange(first, first + share + (rank < rest))

    def find(self, place: int) -> tuple[int, int, int]:
        """Return the step (from 0), the rank and the number in its batch at which a place of a whole epoch is read.

        Raises
        ------
        BadParameter
            If it is dropped.
        """
        step = place // self.width
        if step >= self.count():
            raise BadParameter(f"feed/loader: place {place} is dropped at the end of the epoch")
        for rank in range(self.world_size):
            held = self.places(step * self.width, rank)
            if held[0] <= place <= held[-1]:
                return step, rank, place - int(held[0])
        raise AssertionError(f"place {place} belongs to no rank")


class Loader(DataLoader[dict[str, Any]]):
    """Batches of a dataset; made by `create_dataloader`.

    Each ``for`` gives what is left of the present epoch; the next one gives the next epoch. A loop that is left early
    goes on there: no row is skipped or seen twice.

    Attributes
    ----------
    position : int, rows
        Consumed so far by all ranks together, over all epochs; what drop_last dropped is counted, what was repeated is
        not. The batch a loop is just working on is consumed. Give it as ``start`` to go on.
    steps : Steps
    dropped, repeated : int, rows
        Over all ranks, by this loader so far.
    notes : list of str
        What was said when it was made.
    """

    def __init__(
        self,
        dataset: RowDataset,
        steps: Steps,
        *,
        shuffle: bool,
        seed: int,
        start: int,
        rank: int,
        ahead: int,
        notes: list[str],
        **options: Any,
    ) -> None:
        self.steps, self.shuffle, self.seed, self.rank, self.notes = steps, shuffle, seed, rank, notes
        self.position, self.dropped, self.repeated = start, 0, 0
        self._ahead = ahead
        super().__init__(dataset, batch_size=None, sampler=_Plan(self), collate_fn=_as_it_is, **options)

    def __len__(self) -> int:
        """Return the steps of a whole epoch."""
        return self.steps.count()

    def __repr__(self) -> str:
        steps = self.steps
        dropped, repeated = steps.tail()
        rest = f"; {dropped:,} rows dropped at its end" * (dropped > 0)
        rest += f"; {repeated:,} rows given twice at its end" * (repeated > 0)
        ranks = f"rank {self.rank} of {steps.world_size}, " * (steps.world_size > 1)
        return f"<Loader: {ranks}{steps.rows:,} rows in {len(self):,} steps of {steps.width:,}{rest}>"

    @property
    def epoch(self) -> int:
        """The epoch of the next batch, from 0."""
        return self.position // self.steps.rows

    def take(self, batches: int) -> Iterator[dict[str, Any]]:
        """Yield so many batches, over as many epochs as that takes."""
        while batches:
            for batch in islice(self, batches):
                batches -= 1
                yield batch

    @property
    def left(self) -> int:
        """Steps left in the present epoch."""
        return self.steps.count(self.position % self.steps.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:  # type: ignore[override]
        steps = self.steps
        if not self.left:
            self._finish_epoch(self.position % steps.rows)
        epoch, place = divmod(self.position, steps.rows)
        count = steps.count(place)
        for number, batch in enumerate(self._batches(), 1):
            if number < count:
                self.position = epoch * steps.rows + place + number * steps.width
            else:
                self._finish_epoch(place)
            yield batch

    def _finish_epoch(self, place: int) -> None:
        dropped, repeated = self.steps.tail(place)
        self.dropped += dropped
        self.repeated += repeated
        self.position = (self.position // self.steps.rows + 1) * self.steps.rows

    def _batches(self) -> Iterator[dict[str, Any]]:
        if self.num_workers:
            return super().__iter__()
        batches: Iterator[dict[str, Any]] = map(self.dataset.fetch, self.sampler)  # type: ignore[attr-defined]
        if self.pin_memory:
            batches = map(_pinned, batches)
        return _fetched_ahead(batches, self._ahead) if self._ahead else batches

    def rows_ahead(self) -> Iterator[np.ndarray]:
        """Return the rows of each batch of this rank, from the present position to the end of its epoch.

        Yields
        ------
        (n,) int64
            As the dataset numbers them.
        """
        epoch, place = divmod(self.position, self.steps.rows)
        order = self.dataset.order(self.shuffle, self.seed, epoch)  # type: ignore[attr-defined]
        return _planned(order, self.steps, place, self.rank)

    def state_dict(self) -> dict[str, Any]:
        """Return the position, and by what a loader that goes on knows that it is the same data in the same order."""
        return {"position": self.position, **self._told()}

    def _told(self) -> dict[str, Any]:
        fingerprint = self.dataset.fingerprint  # type: ignore[attr-defined]
        numbering = self.dataset.numbering  # type: ignore[attr-defined]
        order = {"shuffle": self.shuffle, "seed": self.seed, "set_epoch": numbering}
        return {"rows": self.steps.rows, **order, "data": fingerprint}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where the other loader was; batch size, ranks and workers may be others.

        Raises
        ------
        BadParameter
            If data, seed or shuffling differ: the rows would not be those that are left.
        """
        for name, own in self._told().items():
            if state.get(name) != own:
                raise BadParameter(
                    f"feed/loader: cannot go on: {name} was {state.get(name)!r} and is {own!r}; give the loader the "
                    "same dataset, seed and shuffle, and call set_epoch as before"
                )
        self.position = state["position"]


def _planned(order: Any, steps: Steps, place: int, rank: int) -> Iterator[np.ndarray]:
    whole = (steps.rows - place) // steps.width
    at_once = max(1, AHEAD // steps.batch_size)
    inside = np.arange(steps.batch_size) + rank * steps.batch_size
    for first in range(0, whole, at_once):
        starts = place + np.arange(first, min(first + at_once, whole)) * steps.width
        places = starts[:, None] + inside
        yield from order.rows(places.ravel()).reshape(places.shape)
    if steps.count(place) > whole:
        yield order.rows(steps.places(place + whole * steps.width, rank))


class _Plan:
    """The sampler: rows of each batch, looked up again for every epoch.

    It and what it gives know the loader weakly: in a ring of references the workers that torch keeps would be found by
    the garbage collector, which shuts their queues before it tells them to end, and each is waited for in vain for 5 s.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = weakref.ref(loader)

    def __iter__(self) -> Iterator[np.ndarray]:
        loader = self._loader()
        return iter(()) if loader is None else loader.rows_ahead()

    def __len__(self) -> int:
        loader = self._loader()
        return 0 if loader is None else loader.left


def _as_it_is(batch: Any) -> Any:
    return batch


def _pinned(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: each.pin_memory() if isinstance(each, torch.Tensor) else each for name, each in batch.items()}


def _fetched_ahead(batches: Iterator[dict[str, Any]], most: int) -> Iterator[dict[str, Any]]:
    """Give the batches of an iterator that a thread works through, at most so many ahead."""
    waiting: queue.Queue[tuple[str, Any]] = queue.Queue(most)
    stop = threading.Event()

    def offer(kind: str, what: Any) -> None:
        while not stop.is_set():
            try:
                return waiting.put((kind, what), timeout=0.1)
            except queue.Full:
                continue

    def work() -> None:
        try:
            for batch in batches:
                if stop.is_set():
                    return
                offer("batch", batch)
        except BaseException as error:
            offer("error", error)
        else:
            offer("end", None)

    thread = threading.Thread(target=work, name="feed", daemon=True)
    thread.start()
    try:
        while (got := waiting.get())[0] == "batch":
            yield got[1]
        if got[0] == "error":
            raise got[1]
    finally:
        stop.set()
        thread.join()


def create_dataloader(
    dataset: RowDataset,
    batch_size: int,
    num_workers: int = 0,
    pin_memory: bool = False,
    shuffle: bool | None = None,
    *,
    seed: int = 42,
    start: int = 0,
    rank: int = 0,
    world_size: int = 1,
    drop_last: bool = False,
    prefetch_factor: int | None = None,
    persistent_workers: bool = False,
) -> Loader:
    """Return batches of a dataset for one rank.

    Parameters
    ----------
    dataset : RowDataset
        `TokenDataset`, `PreProcessedDataset` or `MixedDataset`.
    batch_size : int, rows of one rank
    num_workers : int, processes
        0 reads in this process, which is the fastest for memory-mapped data: handing a batch from one process to
        another costs more than reading it. Batches are the same for any number.
    pin_memory : bool
        Lock the pages of batches for a faster copy to a device; without one it is left out.
    shuffle : bool or None
        None: unless the data say that they are pre-shuffled. Every epoch has another order.
    seed : int
        Of the orders.
    start : int, rows
        Consumed so far by all ranks together: `Loader.position` of the loader to go on from. What `set_epoch` was
        called with is not in this number: call it again, or keep `Loader.state_dict`, which is refused without.
    rank, world_size : int
        Which of how many processes that train together this one is.
    drop_last : bool
        Drop what does not fill a step of all ranks at the end of an epoch. False: share it out, some batches are
        smaller.
    prefetch_factor : int or None
        Batches to read ahead: of each worker process, or without one by a thread. None: two of each worker, and no
        thread.
    persistent_workers : bool
        Keep worker processes between epochs.

    Raises
    ------
    BadParameter
        If a number is out of its range.

    Notes
    -----
    What the settings cost is said as a note when the loader of rank 0 is made: rows dropped or repeated, processes that
    only slow it down, shards that are mixed a few at a time.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> np.savez(f"{folder}/shard_0.npz", ids=np.arange(10))
    >>> loader = create_dataloader(PreProcessedDataset(folder), batch_size=4, shuffle=False)
    >>> batches = iter(loader)
    >>> next(batches)["ids"].tolist(), loader.position
    ([0, 1, 2, 3], 4)
    >>> again = create_dataloader(PreProcessedDataset(folder), 3, shuffle=False, start=loader.position)
    >>> [batch["ids"].tolist() for batch in again]
    [[4, 5, 6], [7, 8, 9]]
    """
    _check(dataset, num_workers, start, rank, world_size, prefetch_factor)
    steps = Steps(_epoch_rows(dataset), batch_size, world_size, drop_last)
    shuffled = not dataset.metadata.get("pre_shuffled", False) if shuffle is None else shuffle
    pin = pin_memory and torch.accelerator.is_available()
    notes = list(_notes(dataset, steps, num_workers, pin_memory and not pin, shuffled))
    for text in notes if rank == 0 else ():
        emit("note", text=text)
    options: dict[str, Any] = {"num_workers": num_workers, "pin_memory": pin}
    if num_workers:
        options |= {"prefetch_factor": prefetch_factor, "persistent_workers": persistent_workers}
    ahead = 0 if num_workers else prefetch_factor or 0
    return Loader(
        dataset, steps, shuffle=shuffled, seed=seed, start=start, rank=rank, ahead=ahead, notes=notes, **options
    )


def _epoch_rows(dataset: RowDataset) -> int:
    return len(dataset.order(False, 0, 0))


def _check(dataset: Any, num_workers: int, start: int, rank: int, world_size: int, prefetch_factor: int | None) -> None:
    if not isinstance(dataset, RowDataset):
        raise BadParameter(
            f"feed/loader: {type(dataset).__name__} is no dataset of this library; use TokenDataset, "
            "PreProcessedDataset or MixedDataset"
        )
    if not len(dataset):
        raise BadParameter("feed/loader: the dataset has no rows")
    if not 0 <= rank < world_size:
        raise BadParameter(f"feed/loader: rank must be 0 to {world_size - 1} of {world_size}, got {rank}")
    for name, value in {"start": start, "num_workers": num_workers, "prefetch_factor": prefetch_factor or 0}.items():
        if value < 0:
            raise BadParameter(f"feed/loader: {name} must be >= 0, got {value}")


def _notes(dataset: RowDataset, steps: Steps, workers: int, unpinned: bool, shuffle: bool) -> Iterator[str]:
    dropped, repeated = steps.tail()
    if dropped:
        yield f"feed/loader: drop_last drops {dropped:,} of {steps.rows:,} rows at the end of each epoch"
    if repeated:
        yield f"feed/loader: {repeated:,} rows are given twice at the end of each epoch, so that each rank gets one"
    if workers and dataset.mapped:
        yield (
            f"feed/loader: num_workers={workers} is slower than 0 here: the data are memory-mapped, and handing a "
            "batch over costs more than reading it"
        )
    if isinstance(dataset, PreProcessedDataset):
        yield from _packed_notes(dataset, workers, shuffle)
    if unpinned:
        yield "feed/loader: pin_memory is left out: there is no device to copy to"


def _packed_notes(dataset: PreProcessedDataset, workers: int, shuffle: bool) -> Iterator[str]:
    if workers > 1:
        yield f"feed/loader: each of {workers} workers unpacks every shard; one is enough for npz shards read in order"
    if shuffle and len(dataset.sizes) > 1 and not dataset.metadata.get("pre_shuffled", False):
        window, shards = min(dataset.max_cache_shards, len(dataset.sizes)), len(dataset.sizes)
        yield (
            f"feed/loader: rows of {window} of {shards} shards are mixed at a time; for rows mixed over all shards run "
            "prep shuffle-npz once"
        )


def total_steps(loader: Loader, epochs: int, max_iter_length: int = 0) -> int:
    """Return how many steps a training takes: the length a learning-rate schedule needs, and `Loader.take` gives.

    Parameters
    ----------
    loader : Loader
    epochs : int
    max_iter_length : int, rows
        Of all ranks, at most so many for each epoch. 0: all.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> np.savez(f"{folder}/shard_0.npz", ids=np.arange(100))
    >>> loader = create_dataloader(PreProcessedDataset(folder), 16, shuffle=False)
    >>> total_steps(loader, epochs=3), total_steps(loader, 3, max_iter_length=50)
    (21, 9)
    """
    most = max_iter_length // loader.steps.width if max_iter_length > 0 else len(loader)
    return min(len(loader), most) * epochs


# ---------------------------------------------------------------------------------------------------------------------
# Where the time goes
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Profile:
    """What a batch of a loader costs, by what is done for it, and which setting to change.

    Parameters
    ----------
    read : float, seconds
        Fetch the stored rows. Of mapped files as they are met, in memory or not; of packed shards with the share of a
        batch in unpacking them.
    convert : float, seconds
        Copy to the types a model takes.
    collate : float, seconds
        Labels, positions, boundaries and masks.
    hand_over : float, seconds
        Get the batch to the loop: from another process, thread, or just Python.
    total : float, seconds
        What a loop waits for a batch when it does nothing else.
    rows : float
        Of a batch.
    bottleneck : str
        The largest of the four.
    advice : str
        ``workers, batch, cache, prefetch, disk, extras, limit`` or ``fine``; `str` of the profile is its sentence.
    """

    read: float
    convert: float
    collate: float
    hand_over: float
    total: float
    rows: float
    bottleneck: str
    advice: str

    def __str__(self) -> str:
        return say(f"feed.advice_{self.advice}", "en")


def profile(loader: Loader, batches: int = 32, step_seconds: float = 0.0) -> Profile:
    """Measure where the time of a loader goes; its position stays.

    Parameters
    ----------
    loader : Loader
    batches : int
        To read for it, the next ones of this epoch.
    step_seconds : float
        What a training step takes; a loader that needs less than a twentieth of it is fine as it is. 0: not known.

    Raises
    ------
    BadParameter
        If less than two batches are left in this epoch.
    """
    dataset: Any = loader.dataset
    plan = list(islice(loader.rows_ahead(), batches))
    if len(plan) < 2:
        raise BadParameter(f"feed/loader: {len(plan)} batches are left in this epoch; a profile needs two")
    dataset.fetch(plan[0])  # opens what is opened once, and compiles
    found = dataset.costs(plan[1:], len(loader))
    warm, work = seconds(dataset.read, plan), seconds(dataset.fetch, plan)
    total = _loop_seconds(loader, len(plan))
    hand_over = max(0.0, total - work / max(1, loader.num_workers))
    costs = {"read": found.read, "convert": found.convert, "collate": found.collate, "hand_over": hand_over}
    bottleneck = max(costs, key=lambda name: costs[name])
    fine = 0 < sum(costs.values()) < step_seconds / 20
    advice = "fine" if fine else _advice(bottleneck, loader, found, disk=found.read > 3 * warm)
    return Profile(**costs, total=total, rows=statistics.fmean(map(len, plan)), bottleneck=bottleneck, advice=advice)


def _loop_seconds(loader: Loader, batches: int) -> float:
    """Seconds between two batches in a loop that does nothing; the first, for which workers start, is left out."""
    position, counted = loader.position, (loader.dropped, loader.repeated)
    began, times = 0.0, []
    for _ in islice(loader, batches):
        now = time.perf_counter()
        times.append(now - began)
        began = now
    loader.position, (loader.dropped, loader.repeated) = position, counted
    # Batches that are read elsewhere come in bursts.
    return statistics.fmean(times[1:]) if loader.num_workers else statistics.median(times[1:])


def _advice(bottleneck: str, loader: Loader, found: Costs, disk: bool) -> str:
    dataset: Any = loader.dataset
    if bottleneck == "hand_over":
        return "workers" if loader.num_workers else "batch"
    if bottleneck == "collate":
        return "extras"
    if bottleneck == "read" and not dataset.mapped:
        return "cache" if found.again else "prefetch"
    return "disk" if bottleneck == "read" and disk else "limit"
