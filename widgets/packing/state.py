"""What the packing widget shows: lengths counted once, and the choices a person makes over them.

lengths ──count──▶ Lengths ──plan per (algorithm, pack size), kept──▶ rows of the table, pieces of the strips
                           └─ rows at every size of SWEPT, kept ────▶ the curves

A pack of 8 with documents of 3, 4 and a padding attends 8 × 8 places, 3 × 3 + 4 × 4 of them inside a document:
1 - 25 / 64 = 61 % are outside, and cost time without teaching anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from prep_lib.errors import BadParameter
from prep_lib.files import Span
from prep_lib.shards.formats import document_counts
from prep_lib.shards.manifest import read_manifest
from prep_lib.source.jsonl import read_records
from prep_lib.tokens.pack import ALGORITHMS, Comparison, Plan, check_choice, concat_cuts, concat_pieces, plan_packs

#: The stops of the slider: powers of two and what lies halfway, in tokens.
SIZES = tuple(sorted({2**power for power in range(6, 18)} | {3 * 2**power for power in range(5, 16)}))

#: Pack sizes all algorithms are compared over, in tokens.
SWEPT = tuple(2**power for power in range(9, 16))

#: Rows looked at together, so that what is computed of them stays in the processor's cache.
_BLOCK = 2**14

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
    told : dict
        Rows of the table already worked out.
    """

    lengths: np.ndarray
    values: np.ndarray
    numbers: np.ndarray
    trained: np.ndarray | None = None
    plans: dict[tuple[int, str, str], Plan] = field(default_factory=dict)
    told: dict[tuple[int, str], list[Row]] = field(default_factory=dict)

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


def documents(folder: str | Path) -> np.ndarray:
    """Return the lengths of the documents a folder of shards was built from, (n,) int64, tokens.

    Those that are stored in the order they were read, the last one with the tail that was dropped; then those that
    were turned down as too long.

    Raises
    ------
    BadShard
        If the folder has no manifest, or a shard cannot be read.
    """
    lengths, _ = document_counts(folder)
    lengths[-1:] += read_manifest(folder)["dropped_remainder_tokens"]
    rejected = Path(folder, "rejected.jsonl.zst")
    rows = read_records(Span(str(rejected))) if rejected.is_file() else ()
    long = [int(row["value"]) for _, row in rows if isinstance(row, dict) and row["reason"] == "too_long"]
    return np.concatenate([lengths, np.array(long, np.int64)])


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
    tail : str
        What concat does with the last pack: pad or drop.
    size_name : str
        What the parameters cell calls the pack size.
    """

    data: Lengths = field(repr=False)
    algorithm: str = "best_fit"
    pack_size: int = 4096
    lang: str = "en"
    saved: tuple[tuple[str, Any], ...] = ()
    tail: str = "pad"
    size_name: str = "pack_size"

    def __post_init__(self) -> None:
        check_choice(self.pack_size, self.algorithm, self.tail)

    @property
    def documents(self) -> bool:
        """Whether the rows are documents, each with one EOS at its end: nothing was said of targets."""
        return self.data.trained is None


def parameters(state: State) -> dict[str, Any]:
    """Return the choices by the names the parameters cell and the recipe give them.

    Examples
    --------
    >>> parameters(State(count([3]), pack_size=8))
    {'pack_size': 8, 'packing': 'best_fit'}
    """
    return {state.size_name: state.pack_size, "packing": state.algorithm}


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


def plan(data: Lengths, pack_size: int, algorithm: str, tail: str = "pad") -> Plan:
    """Plan the packs, once for each choice."""
    if algorithm == "best_fit_split" and len(data.values) and data.values[-1] <= pack_size:
        algorithm = "best_fit"  # nothing to split: the same packs, and the slower half of the work saved
    key = (pack_size, algorithm, tail)
    if key not in data.plans:
        counts = dict(zip(data.values.tolist(), data.numbers.tolist(), strict=True))
        data.plans[key] = plan_packs(counts, pack_size, algorithm, tail)
    return data.plans[key]


@dataclass(frozen=True)
class Row(Comparison):
    """What one algorithm would do at one pack size.

    Parameters
    ----------
    outside : float
        Share of the attention of all packs, ``pack_size`` squared each, between places that are not of one document.
    """

    outside: float


def rows(state: State) -> list[Row]:
    """Compare all algorithms at this pack size: what `prep_lib.tokens.pack.compare` says, from the counts.

    Examples
    --------
    >>> for row in rows(State(count([3, 3, 4, 1, 5]), pack_size=4)):
    ...     print(row.algorithm, row.packs, row.cut_documents, row.lost_tokens, f"{row.outside:.0%}")
    concat 4 3 0 38%
    best_fit 3 0 5 27%
    best_fit_split 4 1 0 19%
    one_row 4 0 5 45%
    """
    return _rows(state.data, state.pack_size, state.tail)


def sweep(state: State) -> dict[int, list[Row]]:
    """Compare all algorithms at every size of `SWEPT`: worked out once, whatever a person turns afterwards."""
    return {size: _rows(state.data, size, state.tail) for size in SWEPT}


def _rows(data: Lengths, size: int, tail: str) -> list[Row]:
    if (size, tail) not in data.told:
        data.told[size, tail] = list(_compared(data, size, tail))
    return data.told[size, tail]


def _compared(data: Lengths, size: int, tail: str) -> Iterator[Row]:
    fits = data.values <= size
    held, kept = int(data.numbers[fits].sum()), int((data.values * data.numbers)[fits].sum())
    long, lost, rest = len(data.lengths) - held, data.tokens - kept, data.tokens % size if tail == "drop" else 0
    packs = {algorithm: plan(data, size, algorithm, tail).packs for algorithm in ALGORITHMS} | {"one_row": held}
    whole, split = _squares(data, size)
    told = {
        "concat": (data.tokens - rest, concat_cuts(data.lengths, size), 0, rest, _stream_squares(data, size, rest)),
        "best_fit": (kept, 0, long, lost, whole),
        "best_fit_split": (data.tokens, long, 0, 0, whole + split),
        "one_row": (kept, 0, long, lost, whole),
    }
    for name, (tokens, cut, out, gone, inside) in told.items():
        places = packs[name] * size or 1
        trained = None
        if data.trained is not None and not (rest and name == "concat"):
            trained = int((data.trained[fits] if out else data.trained).sum()) / places
        padding, outside = (packs[name] * size - tokens) / places, 1 - inside / (places * size) if packs[name] else 0.0
        yield Row(name, packs[name], padding, cut, out, gone, trained, outside)


def _squares(data: Lengths, size: int) -> tuple[int, int]:
    """Sum the squares of the lengths of all pieces: of the rows that fit, and of those cut into full packs and a rest.

    In Python's integers, of which none is too large.
    """
    pairs = list(zip(data.values.tolist(), data.numbers.tolist(), strict=True))
    whole = sum(n * length * length for length, n in pairs if length <= size)
    split = sum(n * (length // size * size * size + (length % size) ** 2) for length, n in pairs if length > size)
    return whole, split


def _stream_squares(data: Lengths, size: int, rest: int) -> int:
    """Sum the squares of the lengths of all pieces of concat, without those of the last `rest` tokens."""
    total = begin = 0
    for at in range(0, len(data.lengths), _BLOCK):
        lengths = data.lengths[at : at + _BLOCK]
        ends = begin + np.cumsum(lengths)
        first = np.minimum(lengths, size - (ends - lengths) % size)
        full, last = np.divmod(lengths - first, size)
        total += int((first * first).sum() + (last * last).sum()) + int(full.sum()) * size * size
        begin = int(ends[-1]) % size
    # Every row has a token, so what was dropped is among as many rows as it has tokens.
    dropped = data.lengths[len(data.lengths) - min(rest, len(data.lengths)) :][::-1]
    cut = np.diff(np.minimum(np.cumsum(dropped), rest), prepend=0)
    return total - int((cut * cut).sum())


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
    made = plan(state.data, state.pack_size, state.algorithm, state.tail)
    if state.algorithm == "concat":
        return _stream(state, min(made.packs, STRIPS))
    wanted = np.unique(np.linspace(0, made.packs - 1, min(made.packs, STRIPS)).astype(np.int64))
    at, length, rank = made.members(wanted)
    # Whole rows take the first ranks of a length, what was cut off longer rows the ranks behind them.
    whole = _whole(state.data, length)
    cut = (rank >= whole) & (state.algorithm == "best_fit_split")
    drawn: list[tuple[int, list[Piece]]] = [(int(pack), []) for pack in wanted]
    for number, (strip, tokens, off) in enumerate(zip(at.tolist(), length.tolist(), cut.tolist(), strict=True)):
        # A full pack cut off a longer row has more of it behind it, unless the row is a multiple of the pack.
        drawn[strip][1].append(Piece(tokens, number, off, off and tokens == state.pack_size))
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
