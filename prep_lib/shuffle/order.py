"""Orders: which row stands at which place of an epoch, and at which place a row stands, without a list of them all.

stored        shard 0        shard 1      shard 2        shard 3
              0  1  2  3     4  5  6      7  8  9 10     11 12
sequential    0  1  2  3  4  5  6  7  8  9 10 11 12       what a folder shuffled on disk needs
full          1  4  0 10  6  9  3 11 12  5  2  7  8       all orders of all rows; reads everywhere
shard        12 11 |  1  0  2  3 | 10  9  7  8 |  4  6  5    one shard open at a time
window of 2   3  2  0  1 12 11 | 10  8  4  9  7  5  6        two shards open at a time, their rows mixed
buffer of 2  12  0  1  2  3  7  8 11 10  9  5  6  4          a stream with a shuffle buffer: nearly as stored

order.rows([0, 1])     rows at places 0 and 1        the step of training says what it reads
order.places([9])      the place of row 9            a row says when it is read
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from prep_lib.errors import BadParameter
from prep_lib.jit import kernel
from prep_lib.seeds import SORTED, network, sorted_order, stream

#: Permutations of windows kept ready: a batch falls into one or two, a whole epoch asks for each once.
READY = 64

#: Values that go through the network together: three arrays that stay in the first-level cache.
BLOCK = 512


class Permutation:
    """One order of ``range(size)``, both ways, in constant memory; the same as `seeds.permute`.

    Parameters
    ----------
    seed, name, keys
        As for `seeds.stream`.
    size : int, >= 0 and < 2**63

    Raises
    ------
    BadParameter
        If a place or row is not inside ``range(size)``, or a number does not fit.

    Notes
    -----
    Six rounds of a balanced Feistel network, walked until the value falls inside; up to `seeds.SORTED` places a table.
    Backwards it is the same network with the halves changed over and the rounds the other way round.

    Examples
    --------
    >>> order = Permutation(42, "rows", 10)
    >>> order.rows([0, 1, 2]).tolist()
    [5, 8, 9]
    >>> order.places([5, 8, 9]).tolist()
    [0, 1, 2]
    """

    def __init__(self, seed: int, name: str, size: int, *keys: int) -> None:
        if not 0 <= size < 2**63:
            raise BadParameter(f"shuffle/order: size must be >= 0 and < 2**63, got {size}")
        self.size = int(size)
        self._table: np.ndarray | None = None
        if size <= SORTED:
            self._table = sorted_order(seed, name, self.size, *keys)
            self._inverse = np.argsort(self._table)
        else:
            self._half, self._rounds = network(seed, name, self.size, *keys)

    def __len__(self) -> int:
        return self.size

    def rows(self, places: npt.ArrayLike) -> np.ndarray:
        """Return the row at each place: (n,) int64."""
        wanted = checked("place", places, self.size)
        return self._walk(wanted, self._rounds, False) if self._table is None else self._table[wanted]

    def places(self, rows: npt.ArrayLike) -> np.ndarray:
        """Return the place of each row: (n,) int64."""
        wanted = checked("row", rows, self.size)
        return self._walk(wanted, self._rounds[::-1].copy(), True) if self._table is None else self._inverse[wanted]

    def _walk(self, wanted: np.ndarray, rounds: np.ndarray, backwards: bool) -> np.ndarray:
        return walk(wanted.view(np.uint64), np.uint64(self.size), self._half, rounds, backwards)


def checked(what: str, numbers: npt.ArrayLike, size: int) -> np.ndarray:
    """Return whole numbers inside ``range(size)`` as (n,) int64, or raise `BadParameter`."""
    found = np.asarray(numbers)
    if found.size == 0:
        return np.zeros(0, np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise BadParameter(f"shuffle/order: {what}s must be (n,) whole numbers, got {found.shape} {found.dtype}")
    low, high = int(found.min()), int(found.max())
    if low < 0 or high >= size:
        raise BadParameter(f"shuffle/order: {what} {low if low < 0 else high} is not inside range({size})")
    return np.ascontiguousarray(found, dtype=np.int64)


@kernel
def walk(values: np.ndarray, size: np.uint64, half: np.uint64, rounds: np.ndarray, backwards: bool) -> np.ndarray:
    """Send each value through the network of `seeds.feistel` until it falls inside.

    Parameters
    ----------
    values : (n,) uint64, below `size`
    half : uint64, bits
    rounds : (r,) odd uint64
    backwards : bool
        Change the halves over before and after.

    Returns
    -------
    (n,) int64

    Notes
    -----
    Block by block: a round over a whole block is vector code, and those still outside are moved together for the next
    pass without a branch. One value at a time took 115 ns where a size lies just above a power of four; this 25 to 40.
    """
    out = np.empty(len(values), np.int64)
    one = np.uint64(1)
    mask = (one << half) - one
    left, right = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    at = np.empty(BLOCK, np.int64)
    for first in range(0, len(values), BLOCK):
        count = min(BLOCK, len(values) - first)
        for n in range(count):
            value = values[first + n]
            left[n] = value & mask if backwards else value >> half
            right[n] = value >> half if backwards else value & mask
            at[n] = first + n
        while count:
            for secret in rounds:
                for n in range(count):
                    mixed = (right[n] + secret) * np.uint64(0x9E3779B97F4A7C15)
                    mixed ^= mixed >> np.uint64(29)
                    mixed *= np.uint64(0xBF58476D1CE4E5B9) ^ (secret << one)
                    mixed ^= mixed >> np.uint64(32)
                    left[n], right[n] = right[n], (left[n] ^ mixed) & mask
            outside = 0
            for n in range(count):
                value = (right[n] << half) | left[n] if backwards else (left[n] << half) | right[n]
                out[at[n]] = value
                left[outside], right[outside], at[outside] = left[n], right[n], at[n]
                outside += value >= size
            count = outside
    return out


class Order(ABC):
    """What every order can say: `size`, ``rows(places)``, ``places(rows)``."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Return the rows of an epoch."""

    @abstractmethod
    def _rows(self, places: np.ndarray) -> np.ndarray: ...

    @abstractmethod
    def _places(self, rows: np.ndarray) -> np.ndarray: ...

    def __len__(self) -> int:
        return self.size

    def rows(self, places: npt.ArrayLike) -> np.ndarray:
        """Return which row stands at each place: (n,) int64.

        Raises
        ------
        BadParameter
            If a place is not inside ``range(size)``.
        """
        return self._rows(checked("place", places, self.size))

    def places(self, rows: npt.ArrayLike) -> np.ndarray:
        """Return the place of each row, the inverse of `rows`: (n,) int64."""
        return self._places(checked("row", rows, self.size))


@dataclass(frozen=True)
class SequentialOrder(Order):
    """Rows as they are stored.

    Examples
    --------
    >>> SequentialOrder(5).rows([0, 1, 2]).tolist()
    [0, 1, 2]
    """

    length: int

    @property
    def size(self) -> int:
        """Return the rows of an epoch."""
        return self.length

    def _rows(self, places: np.ndarray) -> np.ndarray:
        return places

    def _places(self, rows: np.ndarray) -> np.ndarray:
        return rows


@dataclass(frozen=True)
class FullOrder(Order):
    """All rows mixed with all others; each epoch another order.

    Examples
    --------
    >>> FullOrder(10, seed=7, epoch=0).rows([0, 1, 2]).tolist(), FullOrder(10, seed=7, epoch=1).rows([0, 1, 2]).tolist()
    ([9, 8, 1], [4, 1, 3])
    """

    length: int
    seed: int
    epoch: int = 0

    @property
    def size(self) -> int:
        """Return the rows of an epoch."""
        return self.length

    @cached_property
    def _permutation(self) -> Permutation:
        return Permutation(self.seed, "full_order", self.length, self.epoch)

    def _rows(self, places: np.ndarray) -> np.ndarray:
        return self._permutation.rows(places)

    def _places(self, rows: np.ndarray) -> np.ndarray:
        return self._permutation.places(rows)


@dataclass(frozen=True)
class _Shards(Order):
    """Shards laid out one after another in an order of their own.

    `sizes`: the rows of each shard, in the order of the rows' numbers.
    """

    sizes: Sequence[int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))
        if any(size < 0 for size in self.sizes):
            raise BadParameter(f"shuffle/order: a shard cannot hold {min(self.sizes)} rows")

    @property
    def size(self) -> int:
        """Return the rows of an epoch."""
        return int(self._stored[-1])

    def _shuffled_shards(self, seed: int, epoch: int) -> np.ndarray:
        return Permutation(seed, "shard_order", len(self.sizes), epoch).rows(np.arange(len(self.sizes)))

    @property
    @abstractmethod
    def shards(self) -> np.ndarray:
        """Return the shards in the order they are opened."""

    @cached_property
    def _stored(self) -> np.ndarray:
        """First row of each shard, and the end."""
        return _ends(np.array(self.sizes, np.int64))

    @cached_property
    def _laid(self) -> np.ndarray:
        """First position of the shard at each turn, and the end."""
        return _ends(np.array(self.sizes, np.int64)[self.shards])

    @cached_property
    def _turns(self) -> np.ndarray:
        """The turn of each shard."""
        return np.argsort(self.shards)

    def _row_at(self, positions: np.ndarray) -> np.ndarray:
        turn = np.searchsorted(self._laid, positions, side="right") - 1
        return self._stored[self.shards[turn]] + positions - self._laid[turn]

    def _position_of(self, rows: np.ndarray) -> np.ndarray:
        shard = np.searchsorted(self._stored, rows, side="right") - 1
        return self._laid[self._turns[shard]] + rows - self._stored[shard]


def _ends(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


@dataclass(frozen=True)
class WindowOrder(_Shards):
    """Shards in a shuffled order, a window of them open at a time with all its rows mixed.

    Parameters
    ----------
    sizes : sequence of int, rows of each shard
    window : int, shards
        At most so many are open at once; windows are as even as they can be, so that the last is not left with one.
    seed, epoch : int

    Notes
    -----
    Where a source fills whole shards, windows of w shards mix about w sources: the audit finds a dispersion near
    (rows looked at) / w. A folder like that wants shuffling on disk, or a full order.

    Examples
    --------
    >>> order = WindowOrder([4, 3, 4, 2], window=2, seed=7, epoch=0)
    >>> order.rows(range(order.size)).tolist()
    [3, 2, 0, 1, 12, 11, 10, 8, 4, 9, 7, 5, 6]
    """

    window: int
    seed: int
    epoch: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window < 1:
            raise BadParameter(f"shuffle/order: window must be at least 1 shard, got {self.window}")

    @cached_property
    def shards(self) -> np.ndarray:
        """Return the shards in the order they are opened."""
        return self._shuffled_shards(self.seed, self.epoch)

    @cached_property
    def windows(self) -> np.ndarray:
        """Return the first place of each window, and the end."""
        count = max(1, -(-len(self.sizes) // self.window))
        return self._laid[np.arange(count + 1) * len(self.sizes) // count]

    def _rows(self, places: np.ndarray) -> np.ndarray:
        return self._row_at(self._inside(places, Permutation.rows))

    def _places(self, rows: np.ndarray) -> np.ndarray:
        return self._inside(self._position_of(rows), Permutation.places)

    def _inside(self, numbers: np.ndarray, step: Callable[[Permutation, np.ndarray], np.ndarray]) -> np.ndarray:
        """Send each number through the permutation of its window."""
        window = np.searchsorted(self.windows, numbers, side="right") - 1
        # Places come in ascending runs; rows come from everywhere, and are brought together first.
        turn = None if (window[1:] >= window[:-1]).all() else np.argsort(window, kind="stable")
        numbers, window = (numbers, window) if turn is None else (numbers[turn], window[turn])
        cuts = np.flatnonzero(np.diff(window, prepend=-1, append=-1))
        moved = np.empty_like(numbers)
        for start, stop in itertools.pairwise(cuts.tolist()):
            first = self.windows[window[start]]
            moved[start:stop] = first + step(self._permutation(int(window[start])), numbers[start:stop] - first)
        if turn is None:
            return moved
        out = np.empty_like(moved)
        out[turn] = moved
        return out

    @cached_property
    def _ready(self) -> dict[int, Permutation]:
        return {}

    def _permutation(self, window: int) -> Permutation:
        if window not in self._ready:
            if len(self._ready) >= READY:
                self._ready.clear()
            size = int(self.windows[window + 1] - self.windows[window])
            self._ready[window] = Permutation(self.seed, "window_order", size, self.epoch, window)
        return self._ready[window]


@dataclass(frozen=True)
class ShardOrder(WindowOrder):
    """Shards in a shuffled order, rows mixed inside each: sequential reading of one shard after another.

    Right for shards whose rows were mixed on disk, where it makes every epoch different.

    Examples
    --------
    >>> order = ShardOrder([4, 3, 4, 2], seed=7, epoch=0)
    >>> order.rows(range(order.size)).tolist()
    [12, 11, 1, 0, 2, 3, 10, 9, 7, 8, 4, 6, 5]
    """

    window: int = field(default=1, init=False)


@dataclass(frozen=True)
class BufferOrder(_Shards):
    """Shards in a shuffled order, read front to back through a shuffle buffer.

    Parameters
    ----------
    sizes : sequence of int, rows of each shard
    buffer : int, rows
        One of so many waiting rows is given, and the next one of the stream takes its seat.
    seed, epoch : int

    Notes
    -----
    What readers of streams do, here to be compared: a row leaves about `buffer` places after it came, so that sources
    laid out one after another stay so. The whole order is made at the first question: 16 bytes a row. In exchange it
    is a function of the place, and goes on exactly where it stopped, which a buffer that was not saved does not.

    Examples
    --------
    >>> order = BufferOrder([4, 3, 4, 2], buffer=2, seed=7, epoch=0)
    >>> order.rows(range(order.size)).tolist()
    [12, 0, 1, 2, 3, 7, 8, 11, 10, 9, 5, 6, 4]
    """

    buffer: int
    seed: int
    epoch: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.buffer < 1:
            raise BadParameter(f"shuffle/order: buffer must be at least 1 row, got {self.buffer}")

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the order itself: a worker process makes its own.
        return BufferOrder, (self.sizes, self.buffer, self.seed, self.epoch)

    @cached_property
    def shards(self) -> np.ndarray:
        """Return the shards in the order they are opened."""
        return self._shuffled_shards(self.seed, self.epoch)

    @cached_property
    def _given(self) -> np.ndarray:
        secret = stream(self.seed, "buffer_order", self.epoch).bit_generator.random_raw(1)[0]
        return buffered(self.size, self.buffer, secret)

    @cached_property
    def _taken(self) -> np.ndarray:
        out = np.empty_like(self._given)
        out[self._given] = np.arange(self.size)
        return out

    def _rows(self, places: np.ndarray) -> np.ndarray:
        return self._row_at(self._given[places])

    def _places(self, rows: np.ndarray) -> np.ndarray:
        return self._taken[self._position_of(rows)]


@kernel
def buffered(size: int, buffer: int, secret: np.uint64) -> np.ndarray:
    """Return the order in which a shuffle buffer gives ``range(size)``: place -> position in the stream, (size,) int64.

    Notes
    -----
    The seat is drawn by SplitMix64 (Steele, Lea & Flood 2014): its numbers are those of a counter, so that no release
    of a library changes them.
    """
    out = np.empty(size, np.int64)
    waiting = min(buffer, size)
    seats, coming, state = np.arange(waiting), waiting, secret
    for at in range(size):
        state += np.uint64(0x9E3779B97F4A7C15)
        draw = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        draw = (draw ^ (draw >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        draw ^= draw >> np.uint64(31)
        seat = np.int64(((draw >> np.uint64(32)) * np.uint64(waiting)) >> np.uint64(32))
        out[at] = seats[seat]
        if coming < size:
            seats[seat] = coming
            coming += 1
        else:
            waiting -= 1
            seats[seat] = seats[waiting]
    return out
