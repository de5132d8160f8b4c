"""Several datasets as one, by weights: whose turn it is, and which of its rows comes.

weights   web 0.6   code 0.3   zh 0.1           the k-th row of a source is due at (k + 1/2) / weight

due       web   0.83    2.5    4.17    5.83    7.5    9.17
          code      1.67           5               8.33
          zh                       5
given     web code web web code zh web web code web

So a source is never further from its share than rounding makes it, and one with a weight of 0.00001 waits for the
50,000th place instead of taking the first. What the n-th row is follows from n alone: nothing is drawn or remembered.
Rows of a source come in its own order, all of them before one comes again.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from prep_lib.errors import BadParameter, unknown
from prep_lib.feed.dataset import RowDataset
from prep_lib.seeds import key


@dataclass(frozen=True)
class Shares:
    """How many rows each source has given after `taken` of them, computed from the weights alone.

    Parameters
    ----------
    weights : (s,) float64, > 0, with the sum 1

    Examples
    --------
    >>> shares = Shares(np.array([0.6, 0.3, 0.1]))
    >>> shares.taken(10).tolist()
    [6, 3, 1]
    >>> shares.block(0, 10)[0].tolist()
    [0, 1, 0, 0, 1, 2, 0, 0, 1, 0]
    """

    weights: np.ndarray

    def due(self, source: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Return when the k-th row of a source is due, on the scale of rows given."""
        return (k + 0.5) / self.weights[source]

    def taken(self, n: int) -> np.ndarray:
        """Return how many of the first `n` rows come from each source: (s,) int64."""
        # At moment n about n rows are due; rounding moves each source by a half at most.
        far = len(self.weights) + 1
        counts = self._until(n - far)
        source, _ = self._between(counts, self._until(n + far))
        return counts + np.bincount(source[: n - counts.sum()], minlength=len(counts))

    def block(self, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the source and the k of `count` rows from the `first` on: two (count,) int64."""
        return self._between(self.taken(first), self.taken(first + count))

    def _until(self, moment: float) -> np.ndarray:
        """How many rows of each source are due at a moment or before."""
        every = np.arange(len(self.weights))
        k = np.maximum(np.floor(moment * self.weights + 0.5).astype(np.int64), 0)
        # The product is rounded; `due` is what counts.
        k -= (k > 0) & (self.due(every, k - 1) > moment)
        return k + (self.due(every, k) <= moment)

    def _between(self, begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Source and k of the rows between two counts of each source, as they fall due; at once: in their order."""
        source = np.repeat(np.arange(len(self.weights)), end - begin)
        k = np.concatenate([np.arange(*pair) for pair in zip(begin.tolist(), end.tolist(), strict=True)])
        turn = np.lexsort((source, self.due(source, k)))
        return source[turn], k[turn]


class MixedDataset(RowDataset):
    """Rows of several datasets, in the proportion of their weights.

    Parameters
    ----------
    parts : mapping of str -> RowDataset
        Of one kind, and asked for the same things: their batches must fit together.
    weights : mapping of str -> float, > 0
        In rows, which are tokens where rows are full; only their proportion counts.
    rows : int or None
        Of one epoch. None: as many as all parts have. The next epoch goes on where this one ended, so that a source
        gives all of its rows before it repeats one, however long epochs are.

    Raises
    ------
    BadParameter
        If a weight is missing, unknown, or not above 0, a part has no rows, or parts differ in kind.

    Examples
    --------
    >>> import tempfile
    >>> from prep_lib.feed.dataset import PreProcessedDataset
    >>> folders = {name: tempfile.mkdtemp() for name in ("web", "code")}
    >>> for n, folder in enumerate(folders.values()):
    ...     np.savez(f"{folder}/shard_0.npz", ids=np.arange(4) + 10 * n)
    >>> parts = {name: PreProcessedDataset(folder) for name, folder in folders.items()}
    >>> mixed = MixedDataset(parts, {"web": 3, "code": 1})
    >>> mixed.fetch(mixed.order(False, 42, 0).rows(np.arange(8)))["ids"].tolist()
    [0, 1, 10, 2, 3, 0, 11, 1]
    >>> [(row["source"], row["rows"], row["achieved"], row["passes"]) for row in mixed.shares(8)]
    [('web', 6, 0.75, 1.5), ('code', 2, 0.25, 0.5)]
    """

    def __init__(self, parts: Mapping[str, RowDataset], weights: Mapping[str, float], rows: int | None = None) -> None:
        _check(parts, weights)
        self.parts, self.names = list(parts.values()), list(parts)
        total = math.fsum(weights.values())
        self.targets = Shares(np.array([weights[name] / total for name in self.names]))
        self.metadata = {"pre_shuffled": all(part.metadata.get("pre_shuffled", False) for part in self.parts)}
        self.sizes = tuple(len(part) for part in self.parts)
        self.mapped = all(part.mapped for part in self.parts)
        self._begins = np.concatenate([[0], np.cumsum(self.sizes)])
        self.epoch_rows = int(self._begins[-1]) if rows is None else rows
        if self.epoch_rows < 1:
            raise BadParameter(f"feed/mix: an epoch needs at least one row, got {rows}")

    @property
    def numbering(self) -> list[Any] | None:
        """Return how the rows of each part are numbered anew; None where none are."""
        parts = [part.numbering for part in self.parts]
        return parts if any(parts) else None

    @property
    def fingerprint(self) -> str:
        """Return a digest of the parts, their names and weights, and the length of an epoch."""
        told = [self.names, self.targets.weights.tolist(), self.epoch_rows, [part.fingerprint for part in self.parts]]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()

    @property
    def kind(self) -> Any:
        """Return that of the parts."""
        return self.parts[0].kind

    @property
    def tokens_per_row(self) -> float | None:
        """Return the mean at these weights; None where a part does not know its own."""
        each = [part.tokens_per_row for part in self.parts]
        return None if None in each else float(self.targets.weights @ np.array(each, float))

    def order(self, shuffle: bool, seed: int, epoch: int) -> MixOrder:
        """Return the order of an epoch; each part is shuffled by itself, or read as stored."""
        return MixOrder(self, shuffle, seed, epoch)

    def read(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return what is stored of some rows, padded with 0 where parts differ in length."""
        source = np.searchsorted(self._begins, rows, side="right") - 1
        pieces = []
        for number in np.unique(source).tolist():
            where = np.flatnonzero(source == number)
            pieces.append((where, self.parts[number].read(rows[where] - self._begins[number])))
        return {name: _joined([(where, found[name]) for where, found in pieces], len(rows)) for name in pieces[0][1]}

    def dress(self, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Return what was read as the parts do."""
        return self.parts[0].dress(arrays)

    def shares(self, consumed: int) -> list[dict[str, Any]]:
        """Return what each source gave after so many rows, all ranks together.

        Parameters
        ----------
        consumed : int, rows
            `Loader.position`.

        Returns
        -------
        list of dict
            ``source``; ``target`` and ``achieved`` share of rows; ``rows`` it gave; ``passes`` over its rows;
            ``unseen`` rows that did not come yet; ``tokens`` it gave at its mean, and ``token_share``: None where
            nobody knows.
        """
        taken = self.targets.taken(consumed).tolist()
        tokens = [_times(part.tokens_per_row, rows) for part, rows in zip(self.parts, taken, strict=True)]
        known = sum(each for each in tokens if each is not None)
        return [
            {
                "source": name, "target": float(weight), "achieved": rows / max(consumed, 1), "rows": rows,
                "passes": rows / size, "unseen": max(0, size - rows), "tokens": each,
                "token_share": None if None in tokens else (each or 0) / max(known, 1),
            }
            for name, weight, rows, size, each in zip(
                self.names, self.targets.weights, taken, self.sizes, tokens, strict=True
            )
        ]  # fmt: skip


def _times(mean: float | None, rows: int) -> int | None:
    return None if mean is None else round(mean * rows)


def _check(parts: Mapping[str, RowDataset], weights: Mapping[str, float]) -> None:
    if not parts:
        raise BadParameter("feed/mix: nothing to mix")
    for name in weights:
        if name not in parts:
            raise unknown("feed/mix", "source", name, parts)
    for name, part in parts.items():
        weight = weights.get(name, 0)
        if not 0 < weight < math.inf:
            raise BadParameter(
                f"feed/mix: the weight of {name} must be above 0, got {weight}; leave it out to read none"
            )
        if not len(part):
            raise BadParameter(f"feed/mix: {name} has no rows")
        first, other = next(iter(parts.items()))
        if type(part) is not type(other) or part.kind != other.kind:
            raise BadParameter(f"feed/mix: rows of {name} and {first} do not fit together: {part.kind}, {other.kind}")


def _joined(pieces: list[tuple[np.ndarray, np.ndarray]], rows: int) -> np.ndarray:
    shape = np.max([values.shape[1:] for _, values in pieces], axis=0).astype(int).tolist()
    out = np.zeros((rows, *shape), np.result_type(*(values.dtype for _, values in pieces)))
    for where, values in pieces:
        place: tuple[Any, ...] = (where, *(slice(size) for size in values.shape[1:]))
        out[place] = values
    return out


class MixOrder:
    """Which row of which part stands at each place of an epoch of a `MixedDataset`; rows may come more than once."""

    def __init__(self, mixed: MixedDataset, shuffle: bool, seed: int, epoch: int) -> None:
        self._mixed, self._shuffle, self._seed, self._epoch = mixed, shuffle, seed, epoch
        self._orders: dict[tuple[int, int], Any] = {}

    def __len__(self) -> int:
        return self._mixed.epoch_rows

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Return the row at each place: (n,) int64, rows of all parts numbered one part after another."""
        if not len(places):
            return np.zeros(0, np.int64)
        low, high = int(places.min()), int(places.max())
        source, k = self._mixed.targets.block(self._epoch * len(self) + low, high + 1 - low)
        source, k = source[places - low], k[places - low]
        passes, place = np.divmod(k, np.array(self._mixed.sizes)[source])
        out = np.empty(len(places), np.int64)
        for number, turn in np.unique(np.stack([source, passes]), axis=1).T.tolist():
            where = (source == number) & (passes == turn)
            out[where] = self._mixed._begins[number] + self._order(number, turn).rows(place[where])
        return out

    def _order(self, part: int, turn: int) -> Any:
        if (part, turn) not in self._orders:
            # A seed of its own: parts of one size would otherwise have one order.
            seed = key(self._seed, "mix", self._mixed.names[part])
            self._orders[part, turn] = self._mixed.parts[part].order(self._shuffle, seed, turn)
        return self._orders[part, turn]
