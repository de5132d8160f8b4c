"""Rows of any length become packs of one length, planned from length counts alone.

    rows          A A A · B B B · C C C C · D          (a letter a token, pack size 4)

    concat        A A A B | B B C C | C C D ·          the stream is cut: B and C lie across a border
    best_fit      C C C C | A A A D | B B B ·          the longest first, each into the tightest space; nothing is cut
    one_row       A A A · | B B B · | C C C C | D · · ·

`plan_packs` never sees a row: it counts how many rows have each length, so its memory is bounded by the pack size. A
writer then asks the plan which pieces its own packs hold, as (length, rank): "the 7th row of length 350". A
`LengthIndex` of the counts per file tells where that row is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from prep_lib.errors import BadParameter, unknown
from prep_lib.seeds import feistel, stream
from prep_lib.tensors import to_array, to_tensor

if TYPE_CHECKING:
    from torch import Tensor

Counts: TypeAlias = Mapping[int, int] | np.ndarray | Sequence[int]

ALGORITHMS = ("concat", "best_fit", "best_fit_split")

#: Rows looked at together: what is computed of so many stays in the processor's cache, which halves the time.
_BLOCK = 2**14


@dataclass(frozen=True, eq=False)
class Plan:
    """How many packs there are, what they waste, and which pieces each holds.

    Parameters
    ----------
    pack_size : int, tokens
    algorithm : str
        One of `ALGORITHMS`.
    packs : int
    tokens : int
        In the packs, padding apart.
    cut_documents : int or None
        Rows that are in more than one pack. None for concat: it depends on the order (see `concat_cuts`).
    lost_documents, lost_tokens : int
        Not in any pack: rows longer than a pack under best_fit (as documents), the tail of concat with tail="drop"
        (as tokens only).
    steps : (n, 4) int64
        What was done, in this order: a length, the pieces of it each pack got, how many packs got them, and the tokens
        that were free in each of these before. At most about ``3 pack_size log2(pack_size)`` rows, however many packs
        there are; none for concat.

    Examples
    --------
    >>> plan = plan_packs({4: 1, 3: 2, 1: 1}, 4)
    >>> plan.packs, plan.tokens, plan.padding, round(plan.efficiency, 3)
    (3, 11, 1, 0.917)
    >>> strips(plan, range(3))
    [[4], [3, 1], [3]]
    """

    pack_size: int
    algorithm: str
    packs: int
    tokens: int
    cut_documents: int | None
    lost_documents: int
    lost_tokens: int
    steps: np.ndarray = field(repr=False)

    @property
    def padding(self) -> int:
        """Places of all packs that hold no token."""
        return self.packs * self.pack_size - self.tokens

    @property
    def efficiency(self) -> float:
        """Share of the places that hold a token; 1.0 when there is no pack."""
        return self.tokens / (self.packs * self.pack_size) if self.packs else 1.0

    def members(self, packs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Say which pieces the given packs hold.

        Parameters
        ----------
        packs : (n,) integers in ``range(self.packs)``
            In any order. The cost depends on how many they are, not on how many there are.

        Returns
        -------
        at : (m,) int64
            Place in `packs`, ascending.
        length : (m,) int64, tokens
            Of each piece, the longest of a pack first.
        rank : (m,) int64
            Which of the pieces of that length, from 0. Over all packs each rank appears exactly once.

        Raises
        ------
        BadParameter
            If a pack does not exist, or under concat, where packs follow from the stream (see `concat_pieces`).
        """
        packs = self._checked(packs)
        line, finished = self._line
        starts = np.cumsum(finished[:, 1]) - finished[:, 1]
        group = np.searchsorted(starts, packs, side="right") - 1
        at, place, taken = np.arange(len(packs)), packs - starts[group] + finished[group, 0], []
        while len(at):
            step = np.searchsorted(line[:, 0], place, side="right") - 1
            first, before, length, times, rank = line[step].T
            taken.append((at, length, times, rank + (place - first) * times))
            more = before >= 0
            at, place = at[more], (before + place - first)[more]
        return _unroll(taken)

    @cached_property
    def _line(self) -> tuple[np.ndarray, np.ndarray]:
        """The steps as packs can be followed through them, last step first.

        Packs with equal space wait in a queue: who came first is taken first. All queues behind each other are one
        line, in which every step has a place where its packs go, and one where they come from.

        Returns
        -------
        line : (n, 5) int64
            Steps ordered by place: place of their first pack, its place before (-1: it was empty), length, pieces a
            pack, rank of the first piece.
        finished : (g, 2) int64
            Packs nobody took, by free space: place of the first, and how many.
        """
        length, times, packs, space = np.ascontiguousarray(self.steps.T)
        served = np.cumsum(times * packs) - times * packs  # pieces of all lengths so far
        rank = served - np.maximum.accumulate(np.where(np.diff(length, prepend=0) != 0, served, 0))
        order, first, came = _queue(space - times * length, packs, self.pack_size)
        _, taken, left = _queue(space, packs, self.pack_size)
        begins, leaves = np.cumsum(came) - came, np.cumsum(left) - left
        before = np.where(space == self.pack_size, -1, taken + (begins - leaves)[space])
        stay = np.flatnonzero(came > left)
        line = np.stack([first, before, length, times, rank], axis=1)[order]
        return line, np.stack([begins + left, came - left], axis=1)[stay]

    def _checked(self, packs: np.ndarray) -> np.ndarray:
        packs = np.asarray(packs, dtype=np.int64)
        if self.algorithm == "concat":
            raise BadParameter(
                "tokens/pack: a concat plan has no members, its packs follow the stream; use concat_pieces"
            )
        if packs.size and not (packs.min() >= 0 and packs.max() < self.packs):
            raise BadParameter(
                f"tokens/pack: packs {packs.min()} to {packs.max()} asked for, but they are 0 to {self.packs - 1}"
            )
        return packs


def _queue(space: np.ndarray, packs: np.ndarray, pack_size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lay the packs of all steps in one line, by space and then by step.

    Returns the steps in that order, the place of each step in the line, and how many packs each space has there.
    """
    order = np.argsort(space, kind="stable")
    place = np.empty_like(packs)
    place[order] = np.cumsum(packs[order]) - packs[order]
    numbers = np.zeros(pack_size + 1, np.int64)
    np.add.at(numbers, space, packs)
    return order, place, numbers


def _unroll(steps: Sequence[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give every piece its own place: the steps of a walk from the last piece to the first, turned round."""
    if not steps:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing
    at, length, times, rank = (np.concatenate(column[::-1]) for column in zip(*steps, strict=True))
    starts = np.cumsum(times) - times
    within = np.arange(times.sum()) - np.repeat(starts, times)
    at, length, rank = np.repeat(at, times), np.repeat(length, times), np.repeat(rank, times) + within
    order = np.argsort(at, kind="stable")
    return at[order], length[order], rank[order]


def plan_packs(counts: Counts, pack_size: int, algorithm: str = "best_fit", tail: str = "pad") -> Plan:
    """Plan the packs of all rows from the number of rows of each length.

    Parameters
    ----------
    counts : mapping or array, length -> number of rows
        Lengths in tokens, at least 1. Counts of pieces that are already cut give the same packs.
    pack_size : int, tokens, >= 1
    algorithm : str
        - "concat": the stream cut into packs.
        - "best_fit": best-fit-decreasing; rows longer than a pack are counted as lost.
        - "best_fit_split": the same, but those rows are cut into full packs and a rest; nothing is lost.
    tail : "pad" or "drop"
        What concat does with the last, incomplete pack.

    Returns
    -------
    Plan
        The same for the same counts.

    Raises
    ------
    BadParameter
        For a length below 1, a negative count, a pack size below 1, or an unknown algorithm or tail.

    Examples
    --------
    >>> plan_packs({5: 3}, 4, "concat").packs, plan_packs({5: 3}, 4, "concat", tail="drop").lost_tokens
    (4, 3)
    >>> plan_packs({5: 3}, 4).lost_documents, plan_packs({5: 3}, 4, "best_fit_split").packs
    (3, 4)
    """
    check_choice(pack_size, algorithm, tail)
    lengths, numbers = _histogram(counts)
    if algorithm == "concat":
        return _plan_concat(int(lengths @ numbers), pack_size, tail)
    long = lengths > pack_size
    too_long, lost = int(numbers[long].sum()), int(lengths[long] @ numbers[long])
    table = np.zeros(pack_size + 1, np.int64)
    table[lengths[~long]] = numbers[~long]
    split = algorithm == "best_fit_split"
    if split:
        table[pack_size] += int(lengths[long] // pack_size @ numbers[long])
        np.add.at(table, lengths[long] % pack_size, numbers[long])
        table[0] = 0  # no rest
    steps = _best_fit(table, pack_size)
    packs, tokens = int(steps[steps[:, 3] == pack_size, 2].sum()), int(np.arange(pack_size + 1) @ table)
    fate = (too_long, 0, 0) if split else (0, too_long, lost)
    return Plan(pack_size, algorithm, packs, tokens, *fate, steps)


def _plan_concat(tokens: int, pack_size: int, tail: str) -> Plan:
    lost = tokens % pack_size if tail == "drop" else 0
    packs = -(-(tokens - lost) // pack_size)
    return Plan(pack_size, "concat", packs, tokens - lost, None, 0, lost, np.zeros((0, 4), np.int64))


def check_choice(pack_size: int, algorithm: str, tail: str = "pad") -> None:
    """Refuse a pack size, algorithm or tail that no plan could use, before any work starts."""
    if pack_size < 1:
        raise BadParameter(f"tokens/pack: pack_size must be at least 1 token, got {pack_size}")
    if algorithm not in ALGORITHMS:
        raise unknown("tokens/pack", "algorithm", algorithm, ALGORITHMS)
    if tail not in ("pad", "drop"):
        raise unknown("tokens/pack", "tail", tail, ("pad", "drop"))


def _histogram(counts: Counts) -> tuple[np.ndarray, np.ndarray]:
    """Return lengths that occur, ascending, and how often."""
    if isinstance(counts, Mapping):
        lengths, numbers = (np.fromiter(each, np.int64, len(counts)) for each in (counts, counts.values()))
        order = np.argsort(lengths)
        lengths, numbers = lengths[order], numbers[order]
    else:
        numbers = np.asarray(counts, dtype=np.int64)
        lengths = np.arange(len(numbers))
    if numbers.size and numbers.min() < 0:
        raise BadParameter(f"tokens/pack: a count must be >= 0, got {numbers.min()}")
    lengths, numbers = lengths[numbers > 0], numbers[numbers > 0]
    _check_lengths(lengths)
    return lengths, numbers


def _check_lengths(lengths: np.ndarray) -> None:
    if lengths.size and lengths.min() < 1:
        raise BadParameter(
            f"tokens/pack: a row must have at least 1 token, got length {lengths.min()}; drop empty rows first"
        )


def _best_fit(table: np.ndarray, pack_size: int) -> np.ndarray:
    """Best-fit-decreasing over a table of counts by length; return `Plan.steps`.

    A pack with space s, once it is the tightest for length l, stays the tightest until ``s // l`` pieces are in it: so
    all packs with that space take that many at once. Their space more than halves, and each length leaves at most two
    spaces that are not full: the steps are bounded by the pack size, whatever the counts.

    Lengths only get shorter, so the spaces wide enough are a stack, the tightest on top: what is put back is below the
    length, where nobody has looked yet, or tighter than all others.
    """
    waiting = [0] * (pack_size + 1)  # packs by free tokens
    fitting: list[int] = []  # spaces >= length in which packs wait, the tightest last
    steps: list[tuple[int, int, int, int]] = []
    lengths = np.flatnonzero(table)[::-1]
    seen = int(lengths[0]) if len(lengths) else 0
    for length, left in zip(lengths.tolist(), table[lengths].tolist(), strict=True):
        while seen > length:
            seen -= 1
            if waiting[seen]:
                fitting.append(seen)
        while left:
            space = fitting.pop() if fitting else pack_size
            times = space // length
            packs = waiting[space] or -(-left // times)  # nothing waits where all is free: as many are opened
            full, rest = (packs, 0) if packs * times <= left else divmod(left, times)
            waiting[space] = packs - full - (rest > 0)
            if waiting[space]:
                fitting.append(space)
            if full:
                steps.append((length, times, full, space))
                waiting[space - times * length] += full
            if rest:  # one more pack takes it
                steps.append((length, rest, 1, space))
                waiting[space - rest * length] += 1
                fitting.append(space - rest * length)
            left -= full * times + rest
    return np.fromiter(itertools.chain.from_iterable(steps), np.int64, 4 * len(steps)).reshape(-1, 4)


def _cut(starts: np.ndarray, lengths: np.ndarray, pack_size: int) -> tuple[np.ndarray, ...]:
    """Cut rows that begin at token `starts` at every multiple of the pack size: (pack, row, start in row, length)."""
    first, last = starts // pack_size, (starts + lengths - 1) // pack_size
    times = last - first + 1
    row = np.repeat(np.arange(len(lengths)), times)
    pack = np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times) + first[row]
    begin = np.maximum(starts[row], pack * pack_size)
    end = np.minimum((starts + lengths)[row], (pack + 1) * pack_size)
    return pack, row, begin - starts[row], (end - begin).astype(np.int32)


def pieces(lengths: np.ndarray, pack_size: int, algorithm: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cut rows into the pieces that best_fit and best_fit_split pack.

    Parameters
    ----------
    lengths : (n,) integers, tokens
    pack_size : int, tokens
    algorithm : str
        "best_fit": one piece a row. "best_fit_split": a row longer than the pack becomes full packs and a rest.

    Returns
    -------
    row : (m,) int64
    start : (m,) int64, tokens
        Where the piece begins in its row.
    length : (m,) int32, tokens

    Raises
    ------
    BadParameter
        For a length below 1; under best_fit also for one above the pack size.

    Examples
    --------
    >>> [column.tolist() for column in pieces(np.array([3, 9]), 4, "best_fit_split")]
    [[0, 1, 1, 1], [0, 0, 4, 8], [3, 4, 4, 1]]
    """
    check_choice(pack_size, algorithm)
    lengths = np.asarray(lengths, dtype=np.int64)
    _check_lengths(lengths)
    if algorithm == "concat":
        raise BadParameter("tokens/pack: concat cuts by place in the stream; use concat_pieces")
    if algorithm == "best_fit" and lengths.size and lengths.max() > pack_size:
        raise BadParameter(
            f"tokens/pack: a row of {lengths.max():,} tokens does not fit a pack of {pack_size:,}; "
            'drop it as too_long or use "best_fit_split"'
        )
    return _cut(np.zeros_like(lengths), lengths, pack_size)[1:]  # type: ignore[return-value]


def concat_pieces(
    lengths: np.ndarray, pack_size: int, first: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cut rows where the borders of concat fall.

    Parameters
    ----------
    lengths : (n,) integers, tokens
        Rows that follow each other in the stream: all of them, or those of one file.
    pack_size : int, tokens
    first : int, tokens
        Where the first of them begins in the stream.

    Returns
    -------
    pack : (m,) int64
    row : (m,) int64
    start : (m,) int64, tokens
        Where the piece begins in its row.
    length : (m,) int32, tokens

    Examples
    --------
    >>> [column.tolist() for column in concat_pieces(np.array([3, 3]), 4)]
    [[0, 0, 1], [0, 1, 1], [0, 0, 1], [3, 1, 2]]
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    _check_lengths(lengths)
    pack, row, start, length = _cut(first + np.cumsum(lengths) - lengths, lengths, pack_size)
    return pack, row, start, length


def concat_cuts(lengths: np.ndarray, pack_size: int) -> int:
    """Count the rows that lie across a border of concat.

    Parameters
    ----------
    lengths : (n,) integers, tokens
        In the order of the stream.

    Examples
    --------
    >>> concat_cuts(np.array([3, 3, 4, 1]), 4)
    2
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    cut = begin = 0
    for at in range(0, len(lengths), _BLOCK):
        part = lengths[at : at + _BLOCK]
        ends = begin + np.cumsum(part)
        cut += int(np.count_nonzero((ends - part) // pack_size != (ends - 1) // pack_size))
        begin = int(ends[-1]) % pack_size
    return cut


class LengthIndex:
    """Where the k-th row of each length is, found from counts per file.

    Parameters
    ----------
    counts : sequence of (c,) integers
        For every file, in order, how many rows (or pieces) of each length it has: ``np.bincount(lengths)``. They may
        differ in size. Memory is bounded by the number of different lengths of each file, never by rows.

    Examples
    --------
    >>> index = LengthIndex([np.bincount([2, 5, 2]), np.bincount([5, 2])])
    >>> index.totals.tolist()
    [0, 0, 3, 0, 0, 2]
    >>> file, position = index.locate(np.array([2, 2, 2, 5, 5]), np.array([0, 1, 2, 0, 1]))
    >>> file.tolist(), position.tolist()
    ([0, 0, 1, 0, 1], [0, 1, 0, 2, 1])
    """

    def __init__(self, counts: Sequence[np.ndarray]) -> None:
        width = max((len(count) for count in counts), default=0)
        self.totals = np.zeros(width, np.int64)
        cells: list[np.ndarray] = [np.zeros((4, 0), np.int64)]
        for file, count in enumerate(counts):
            lengths = np.flatnonzero(count)
            numbers = np.asarray(count, dtype=np.int64)[lengths]
            self.totals[lengths] += numbers
            cells.append(np.stack([lengths, np.full_like(lengths, file), np.cumsum(numbers) - numbers, numbers]))
        table = np.concatenate(cells, axis=1)
        table = table[:, np.argsort(table[0], kind="stable")]
        _, self._file, self._begins, numbers = table
        self._ends = np.cumsum(numbers)
        self._starts = self._ends - numbers
        self._first = np.cumsum(self.totals) - self.totals

    def locate(self, length: np.ndarray, rank: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the file of each row, and its position among that file's rows ordered by length.

        Parameters
        ----------
        length, rank : (n,) integers
            As `Plan.members` gives them; ``rank < totals[length]``.

        Returns
        -------
        file : (n,) int64
        position : (n,) int64
            Into ``np.argsort(lengths of the file, kind="stable")``.
        """
        length, rank = np.asarray(length, dtype=np.int64), np.asarray(rank, dtype=np.int64)
        known = (length >= 0) & (length < len(self.totals))
        if not known.all() or (rank >= self.totals[length]).any():
            raise BadParameter("tokens/pack: a piece was asked for that no file has; plan and index differ in counts")
        place = self._first[length] + rank
        cell = np.searchsorted(self._ends, place, side="right")
        return self._file[cell], self._begins[cell] + place - self._starts[cell]


def pack_order(packs: int, seed: int) -> np.ndarray:
    """Return the order in which the packs are written: place -> pack, (packs,) int64.

    Examples
    --------
    >>> sorted(pack_order(5, 42).tolist())
    [0, 1, 2, 3, 4]
    """
    return stream(seed, "pack_order").permutation(packs)


def shuffle_ranks(totals: np.ndarray, length: np.ndarray, rank: np.ndarray, seed: int) -> np.ndarray:
    """Shuffle the ranks inside each length, so that rows of one source do not stay together.

    Parameters
    ----------
    totals : (c,) integers
        Pieces of each length, over all files.
    length, rank : (n,) integers
    seed : int

    Returns
    -------
    (n,) int64
        For each length a bijection of ``range(totals[length])``, the same whichever pieces are asked for together.

    Notes
    -----
    The network of `seeds.permute`, with the secrets of all lengths drawn at once: thousands of lengths cost no more
    than one.
    """
    totals = np.asarray(totals, dtype=np.int64)
    secrets = stream(seed, "pack_rows").integers(0, 2**63, size=(len(totals), 6), dtype=np.uint64) | np.uint64(1)
    bits = np.frexp(np.maximum(totals - 1, 0).astype(np.float64))[1]
    halves = ((bits + 1) // 2).astype(np.uint64)
    out = np.array(rank, dtype=np.uint64)
    outside = np.arange(len(out))
    while len(outside):
        at = np.asarray(length)[outside]
        out[outside] = feistel(out[outside], halves[at], secrets[at].T)
        outside = outside[out[outside] >= totals[at].astype(np.uint64)]
    return out.astype(np.int64)


def assign(
    plan: Plan, index: LengthIndex, packs: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Say where the pieces of the given packs are: members, shuffled inside each length, located.

    Parameters
    ----------
    plan : Plan
        Made from ``index.totals``.
    index : LengthIndex
    packs : (n,) integers
        For one shard a slice of `pack_order`.
    seed : int

    Returns
    -------
    at : (m,) int64
        Place in `packs`, ascending.
    file : (m,) int64
    position : (m,) int64
        Among that file's pieces ordered by length, stable.
    length : (m,) int64, tokens

    Examples
    --------
    >>> index = LengthIndex([np.bincount([3, 1]), np.bincount([4, 3])])
    >>> plan = plan_packs(index.totals, 4)
    >>> at, file, position, length = assign(plan, index, np.arange(plan.packs), seed=42)
    >>> at.tolist(), length.tolist()
    ([0, 1, 1, 2], [4, 3, 1, 3])
    """
    at, length, rank = plan.members(packs)
    file, position = index.locate(length, shuffle_ranks(index.totals, length, rank, seed))
    return at, file, position, length


def strips(plan: Plan, packs: Iterable[int], lengths: np.ndarray | None = None) -> list[list[int]]:
    """Return the piece lengths of some packs, for drawing.

    Parameters
    ----------
    plan : Plan
    packs : iterable of int
    lengths : (n,) integers, tokens, or None
        Of all rows in order; only concat needs them.

    Examples
    --------
    >>> lengths = np.array([3, 3, 4, 1])
    >>> strips(plan_packs(np.bincount(lengths), 4, "concat"), [0, 1], lengths)
    [[3, 1], [2, 2]]
    """
    wanted = np.fromiter(packs, np.int64)
    if plan.algorithm == "concat":
        if lengths is None:
            raise BadParameter("tokens/pack: the strips of concat depend on the order; give lengths")
        pack, _, _, length = concat_pieces(lengths, plan.pack_size)
        return [length[slice(*np.searchsorted(pack, (number, number + 1)))].tolist() for number in wanted]
    at, length, _ = plan.members(wanted)
    return [length[slice(*np.searchsorted(at, (place, place + 1)))].tolist() for place in range(len(wanted))]


@dataclass(frozen=True)
class Comparison:
    """What one algorithm would do.

    Parameters
    ----------
    algorithm : str
        One of `ALGORITHMS`, or "one_row": one row a pack, longer rows dropped.
    packs : int
    padding : float
        Share of all places that hold no token.
    cut_documents : int
    lost_documents, lost_tokens : int
    trained : float or None
        Share of all places that are targets; None where targets were not given.
    """

    algorithm: str
    packs: int
    padding: float
    cut_documents: int
    lost_documents: int
    lost_tokens: int
    trained: float | None


def compare(lengths: np.ndarray, pack_size: int, trained: np.ndarray | None = None) -> list[Comparison]:
    """Compare all algorithms on the same rows.

    Parameters
    ----------
    lengths : (n,) integers, tokens
        Of all rows, in the order given: what concat cuts depends on it.
    pack_size : int, tokens
    trained : (n,) integers, tokens, or None
        Targets of each row.

    Returns
    -------
    list of Comparison
        concat, best_fit, best_fit_split, one_row.

    Examples
    --------
    >>> for row in compare(np.array([3, 3, 4, 1, 5]), 4):
    ...     print(row.algorithm, row.packs, row.cut_documents, row.lost_tokens, f"{row.padding:.0%}")
    concat 4 3 0 0%
    best_fit 3 0 5 8%
    best_fit_split 4 1 0 0%
    one_row 4 0 5 31%
    """
    check_choice(pack_size, "concat")
    lengths = np.asarray(lengths, dtype=np.int64)
    _check_lengths(lengths)
    fits = lengths <= pack_size
    counts = _count(lengths, fits)
    concat, best = plan_packs(counts, pack_size, "concat"), plan_packs(counts, pack_size)
    split = replace(best, algorithm="best_fit_split")
    if best.lost_tokens:
        split = plan_packs(counts, pack_size, "best_fit_split")
    targets = None if trained is None else (int(np.sum(trained)), int(np.asarray(trained)[fits].sum()))
    rows = [
        (plan.algorithm, plan.packs, plan.padding, plan.cut_documents, plan.lost_documents, plan.lost_tokens)
        for plan in (concat, best, split)
    ]
    rows[0] = (*rows[0][:3], concat_cuts(lengths, pack_size), 0, 0)
    held = int(fits.sum())
    rows.append(("one_row", held, held * pack_size - best.tokens, 0, best.lost_documents, best.lost_tokens))
    return [_comparison(row, pack_size, targets) for row in rows]


def _count(lengths: np.ndarray, fits: np.ndarray) -> dict[int, int]:
    # One row of a hundred million tokens must not make a table of that size: long rows are counted by value.
    table = np.bincount(lengths[fits])
    values, numbers = np.unique(lengths[~fits], return_counts=True)
    short = np.flatnonzero(table)
    return dict(zip(short.tolist(), table[short].tolist(), strict=True)) | dict(
        zip(values.tolist(), numbers.tolist(), strict=True)
    )


def _comparison(row: tuple[Any, ...], pack_size: int, targets: tuple[int, int] | None) -> Comparison:
    algorithm, packs, padding, cut, lost_documents, lost = row
    places = packs * pack_size or 1
    kept = None if targets is None else targets[1] if lost_documents else targets[0]
    trained = None if kept is None else kept / places
    return Comparison(algorithm, packs, padding / places, cut, lost_documents, lost, trained)


class SequencePacker:
    """Join sequences and cut the stream into packs of one length: concat, in memory.

    Parameters
    ----------
    pack_size : int, tokens, >= 1
    pad_value : number
        Fills the last pack.

    Examples
    --------
    >>> SequencePacker(4).pack([[1, 2, 3], [4, 5, 6]])
    [tensor([1, 2, 3, 4]), tensor([5, 6, 0, 0])]
    """

    def __init__(self, pack_size: int, pad_value: float = 0) -> None:
        check_choice(pack_size, "concat")
        self.pack_size, self.pad_value = pack_size, pad_value

    def pack(self, sequences: Iterable[Any]) -> list[Tensor]:
        """Return the packs; a sequence may lie across two of them, and none of its elements is lost.

        Parameters
        ----------
        sequences : iterable of (n,) Tensor, array or list
            Of numbers or of bool; the packs have the smallest type that holds them all.

        Returns
        -------
        list of (pack_size,) Tensor
            Empty when there is nothing to pack.

        Raises
        ------
        BadParameter
            For a sequence that has not one dimension or holds no numbers, types without an exact common one, or a pad
            value the type cannot hold.
        """
        arrays = [_one_dimension(at, to_array(sequence)) for at, sequence in enumerate(sequences)]
        arrays = [array for array in arrays if len(array)]
        dtype = _common_type(arrays)
        empty = np.full(self.pack_size, self._pad(dtype), dtype)
        packs: list[np.ndarray] = []
        used = self.pack_size
        for array in arrays:
            start = 0
            while start < len(array):
                if used == self.pack_size:
                    packs.append(empty.copy())
                    used = 0
                taken = min(self.pack_size - used, len(array) - start)
                packs[-1][used : used + taken] = array[start : start + taken]
                start, used = start + taken, used + taken
        return [to_tensor(pack) for pack in packs]

    def _pad(self, dtype: np.dtype) -> Any:
        try:
            with np.errstate(all="ignore"):
                value = np.asarray(self.pad_value).astype(dtype)[()]
        except OverflowError:
            value = None
        if not (value == self.pad_value or (value != value and self.pad_value != self.pad_value)):
            raise BadParameter(f"tokens/pack: pad_value {self.pad_value} does not fit {dtype}; choose one that does")
        return value


def _one_dimension(at: int, array: np.ndarray) -> np.ndarray:
    if array.ndim != 1:
        raise BadParameter(f"tokens/pack: sequence {at} has shape {array.shape}; each must have one dimension")
    if array.dtype.kind not in "biuf":
        raise BadParameter(f"tokens/pack: sequence {at} holds {array.dtype}; only numbers and bool can be packed")
    return array


def _common_type(arrays: list[np.ndarray]) -> np.dtype:
    dtype = np.result_type(*{array.dtype for array in arrays}) if arrays else np.dtype(np.int64)
    if dtype.kind == "f" and not any(array.dtype.kind == "f" for array in arrays):
        raise BadParameter("tokens/pack: uint64 and signed integers have no common type; convert them to int64 first")
    return dtype
