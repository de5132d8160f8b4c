"""What the packing widget shows: lengths counted once, and the choices a person makes over them.

lengths ──count──▶ Lengths ──plan per (algorithm, pack size), kept──▶ rows of the table, pieces of the strips
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from prep_lib.errors import BadParameter
from prep_lib.tokens.pack import ALGORITHMS, Comparison, Plan, check_choice, concat_cuts, concat_pieces, plan_packs

#: The stops of the slider: powers of two and what lies halfway, in tokens.
SIZES = tuple(sorted({2**power for power in range(6, 18)} | {3 * 2**power for power in range(5, 16)}))

#: Strips drawn: enough to see a pattern, few enough to see a document.
STRIPS = 12


@dataclass(frozen=True, eq=False, repr=False)
class Lengths:
    """Lengths counted once, so that another pack size costs a plan and never a pass over the rows.

    Parameters
    ----------
    lengths : (n,) int64, tokens
        In the order of the stream.
    values, numbers : (m,) int64
        The lengths that occur, ascending, and how often.
    trained : (m,) int64 or None
        Targets of all rows of each length; None where targets were not given.
    plans : dict
        Those already made.
    """

    lengths: np.ndarray
    values: np.ndarray
    numbers: np.ndarray
    trained: np.ndarray | None = None
    plans: dict[tuple[int, str], Plan] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """All of them."""
        return int(self.values @ self.numbers)


def count(lengths: Sequence[int] | np.ndarray, trained: Sequence[int] | np.ndarray | None = None) -> Lengths:
    """Count rows by length.

    Parameters
    ----------
    lengths : (n,) integers, tokens, >= 1
    trained : (n,) integers, tokens, or None
        Targets of each row.

    Raises
    ------
    BadParameter
        If a length is below 1, or the two differ in number.

    Examples
    --------
    >>> counted = count([3, 5, 3])
    >>> counted.values.tolist(), counted.numbers.tolist(), counted.tokens
    ([3, 5], [2, 1], 11)
    """
    rows = np.asarray(lengths, dtype=np.int64).ravel()
    if rows.size and rows.min() < 1:
        raise BadParameter(f"widgets/packing: a row must have at least 1 token, got length {rows.min()}")
    values, which, numbers = np.unique(rows, return_inverse=True, return_counts=True)
    if trained is None:
        return Lengths(rows, values, numbers)
    if len(trained) != len(rows):
        raise BadParameter(f"widgets/packing: {len(rows):,} lengths, but trained has {len(trained):,} entries")
    # Sums of integers below 2**53 are exact in bincount's float64.
    return Lengths(rows, values, numbers, np.bincount(which, weights=trained).astype(np.int64))


@dataclass(frozen=True)
class State:
    """What a person has chosen.

    Parameters
    ----------
    data : Lengths
    algorithm : str
        One of `prep_lib.tokens.pack.ALGORITHMS`.
    pack_size : int, tokens
    lang : str
    saved : tuple of (name, value)
        The parameters cell as it stands; empty: not known.
    """

    data: Lengths = field(repr=False)
    algorithm: str = "best_fit"
    pack_size: int = 4096
    lang: str = "en"
    saved: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        check_choice(self.pack_size, self.algorithm)


def parameters(state: State) -> dict[str, Any]:
    """Return the choices by the names the parameters cell and the recipe give them.

    Examples
    --------
    >>> parameters(State(count([3]), pack_size=8))
    {'pack_size': 8, 'packing': 'best_fit'}
    """
    return {"pack_size": state.pack_size, "packing": state.algorithm}


def save(state: State) -> State:
    """Return the state whose choices are those of the parameters cell."""
    return replace(state, saved=tuple(parameters(state).items()))


def unsaved(state: State) -> str:
    """Return the lines to put into the parameters cell; empty when it says the same already."""
    if not state.saved or dict(state.saved) == parameters(state):
        return ""
    return "\n".join(f"{name} = {value!r}" for name, value in parameters(state).items())


def sizes(state: State) -> list[int]:
    """Return the stops of the slider, the present size among them.

    Examples
    --------
    >>> sizes(State(count([3]), pack_size=100))[:3]
    [64, 96, 100]
    """
    return sorted({*SIZES, state.pack_size})


def plan(data: Lengths, pack_size: int, algorithm: str) -> Plan:
    """Plan the packs, once for each choice."""
    if algorithm == "best_fit_split" and len(data.values) and data.values[-1] <= pack_size:
        algorithm = "best_fit"  # nothing to split: the same packs, and the slower half of the work saved
    key = (pack_size, algorithm)
    if key not in data.plans:
        counts = dict(zip(data.values.tolist(), data.numbers.tolist(), strict=True))
        data.plans[key] = plan_packs(counts, pack_size, algorithm)
    return data.plans[key]


def rows(state: State) -> list[Comparison]:
    """Compare all algorithms at this pack size: what `prep_lib.tokens.pack.compare` says, from the counts.

    Examples
    --------
    >>> for row in rows(State(count([3, 3, 4, 1, 5]), pack_size=4)):
    ...     print(row.algorithm, row.packs, row.cut_documents, row.lost_tokens)
    concat 4 3 0
    best_fit 3 0 5
    best_fit_split 4 1 0
    one_row 4 0 5
    """
    data, size = state.data, state.pack_size
    fits = data.values <= size
    held, kept = int(data.numbers[fits].sum()), int((data.values * data.numbers)[fits].sum())
    long, lost = len(data.lengths) - held, data.tokens - kept
    packs = {algorithm: plan(data, size, algorithm).packs for algorithm in ALGORITHMS} | {"one_row": held}
    told = {
        "concat": (data.tokens, concat_cuts(data.lengths, size), 0, 0),
        "best_fit": (kept, 0, long, lost),
        "best_fit_split": (data.tokens, long, 0, 0),
        "one_row": (kept, 0, long, lost),
    }
    return [_comparison(state, name, packs[name], fits, *numbers) for name, numbers in told.items()]


def _comparison(
    state: State, algorithm: str, packs: int, fits: np.ndarray, tokens: int, cut: int, long: int, lost: int
) -> Comparison:
    trained, places = state.data.trained, packs * state.pack_size or 1
    targets = None if trained is None else int(trained[fits].sum() if long else trained.sum())
    share = None if targets is None else targets / places
    return Comparison(algorithm, packs, (packs * state.pack_size - tokens) / places, cut, long, lost, share)


@dataclass(frozen=True)
class Piece:
    """A piece of a strip.

    Parameters
    ----------
    tokens : int
    document : int
        Neighbours of one number are one document; under concat it goes on in the next pack.
    came, goes : bool
        Whether the document has more of itself in another pack, before or behind this piece.
    """

    tokens: int
    document: int
    came: bool = False
    goes: bool = False


def pieces(state: State) -> list[tuple[int, list[Piece]]]:
    """Return some packs to draw, each with its number and its pieces.

    concat: the first packs, so that a cut can be followed. Otherwise packs spread evenly over the plan.
    """
    made = plan(state.data, state.pack_size, state.algorithm)
    if state.algorithm == "concat":
        return _stream(state, min(made.packs, STRIPS))
    wanted = np.unique(np.linspace(0, made.packs - 1, min(made.packs, STRIPS)).astype(np.int64))
    at, length, rank = made.members(wanted)
    # Whole rows take the first ranks of a length, what was cut off longer rows the ranks behind them.
    whole = _whole(state.data, length)
    cut = (rank >= whole) & (state.algorithm == "best_fit_split")
    drawn: list[tuple[int, list[Piece]]] = [(int(pack), []) for pack in wanted]
    for number, (strip, tokens, off) in enumerate(zip(at.tolist(), length.tolist(), cut.tolist(), strict=True)):
        drawn[strip][1].append(Piece(tokens, number, came=off))
    return drawn


def _whole(data: Lengths, length: np.ndarray) -> np.ndarray:
    """How many rows have exactly this length."""
    place = np.searchsorted(data.values, length).clip(max=len(data.values) - 1)
    return np.where(data.values[place] == length, data.numbers[place], 0)


def _stream(state: State, packs: int) -> list[tuple[int, list[Piece]]]:
    # A row has at least one token, so the rows of the first packs are among as many rows as these packs have places.
    places = packs * state.pack_size
    lengths = state.data.lengths[:places]
    lengths = lengths[: np.searchsorted(np.cumsum(lengths), places) + 1]
    drawn: list[tuple[int, list[Piece]]] = [(pack, []) for pack in range(packs)]
    columns = (column.tolist() for column in concat_pieces(lengths, state.pack_size))
    for pack, row, start, tokens in zip(*columns, strict=True):
        if pack >= packs:
            break
        drawn[pack][1].append(Piece(tokens, row, start > 0, start + tokens < int(lengths[row])))
    return drawn
