"""One record as arrays, and how it is brought under a length: what each way loses is known before it is applied.

    u u a a · u a a a ■      ■ stop, limit 8
    drop        the row goes
    cut_turns   u u a a ·                     whole turns go, the last first
    cut         u u a a · u a a               the right end goes: an answer without its stop

Masks are made before; no EOS is ever added to what was cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prep_lib.errors import BadParameter
from prep_lib.record import Drop

#: What may happen to a row longer than the limit.
TOO_LONG = ("drop", "cut_turns", "cut")


@dataclass(slots=True)
class Row:
    """The arrays of one record and the count of every token in them.

    Parameters
    ----------
    arrays : dict of str to ndarray
        Ids as int32, masks as bool. Rows of one batch share memory; copy an array to keep it beyond the batch.
    content, control, eos : int, tokens
        Over all arrays of ids: text of the record, format tokens (markers made of text too), ids equal to the EOS id
        among the format tokens. They describe the record as it was processed: `fit` leaves them as they are, so
        ``content + control + eos == tokens + cut``.
    turn : (n,) int32 or None
        Index of the message each token of the sequence belongs to. None: there are no turns (pt, dpo).
    literal_specials : int
        Control tokens spelled inside the texts. They are text and stay text.
    ids : tuple of str
        The names of the arrays that hold token ids.
    """

    arrays: dict[str, np.ndarray]
    content: int
    control: int
    eos: int
    turn: np.ndarray | None = None
    literal_specials: int = 0
    ids: tuple[str, ...] = ("sequence",)

    @property
    def tokens(self) -> int:
        """How many ids the row holds now."""
        return sum(len(self.arrays[name]) for name in self.ids)


def fit(row: Row, max_length: int | None, too_long: str = "drop") -> tuple[Row | Drop, int]:
    """Bring a row under a length, after its mask was made; no EOS is ever added to what was cut.

    Parameters
    ----------
    row : Row
    max_length : int or None, tokens
        Of each array of ids. None: no limit.
    too_long : str
        ``drop``: the row goes. ``cut``: the right end goes, in both sequences of a pair. ``cut_turns``: whole turns go,
        the last first, until it fits; a row without turns, or without a target then, goes as too long.

    Returns
    -------
    Row or Drop
        *Drops* ``too_long`` (value and limit in tokens); after a cut ``no_target`` or ``chosen_equals_rejected``.
    int
        Ids cut off a kept row. A dropped row counts as dropped whole, not as cut.

    Raises
    ------
    BadParameter
        An unknown `too_long`, a limit below 1.

    Examples
    --------
    >>> row = Row({"sequence": np.arange(5), "loss_mask": np.arange(5) > 2}, content=5, control=0, eos=0)
    >>> fit(row, 4, "cut")[0].arrays["sequence"].tolist(), fit(row, 4, "cut")[1]
    ([0, 1, 2, 3], 1)
    >>> fit(row, 4)
    (Drop(reason='too_long', value=5, limit=4), 0)
    """
    check_fit(max_length, too_long)
    sizes = [len(row.arrays[name]) for name in row.ids]
    longest = max(sizes, default=0)
    if max_length is None or longest <= max_length:
        return row, 0
    keep = _keep(row, max_length, too_long)
    # What is as long as the ids goes with them: masks, and whatever a user's processor keeps a token.
    kept = {name: array[:keep] if array.ndim and len(array) in sizes else array for name, array in row.arrays.items()}
    if keep == 0 or (too_long == "cut_turns" and no_target(kept)):
        return Drop("too_long", longest, max_length), 0
    if no_target(kept):
        return Drop("no_target"), 0
    if "rejected" in kept and "chosen" in kept and np.array_equal(kept["chosen"], kept["rejected"]):
        return Drop("chosen_equals_rejected"), 0
    short = replace(row, arrays=kept, turn=None if row.turn is None else row.turn[:keep])
    return short, row.tokens - short.tokens


def check_fit(max_length: int | None, too_long: str) -> None:
    """Raise `BadParameter` for values `fit` cannot use, before any row is made.

    Examples
    --------
    >>> check_fit(4096, "truncate")
    Traceback (most recent call last):
    prep_lib.errors.BadParameter: chat/row: too_long must be one of drop, cut_turns, cut, got 'truncate'
    """
    if too_long not in TOO_LONG:
        raise BadParameter(f"chat/row: too_long must be one of {', '.join(TOO_LONG)}, got {too_long!r}")
    if max_length is not None and max_length < 1:
        raise BadParameter(f"chat/row: max_length must be at least 1 token or None for no limit, got {max_length}")


def _keep(row: Row, limit: int, too_long: str) -> int:
    """Return how many tokens of a row beyond the limit may stay: all up to it, whole turns up to it, or none."""
    if too_long == "drop" or (too_long == "cut_turns" and row.turn is None):
        return 0
    return limit if row.turn is None or too_long == "cut" else int(np.searchsorted(row.turn, row.turn[limit]))


def no_target(arrays: Mapping[str, np.ndarray]) -> bool:
    """Tell whether a mask among the arrays trains nothing."""
    masks = (array for name, array in arrays.items() if name.endswith("mask") and array.dtype == bool)
    return any(not mask.any() for mask in masks)


@dataclass(frozen=True)
class Loss:
    """What one way of keeping rows under one limit loses.

    Parameters
    ----------
    too_long : str
    limit : int, tokens
    rows, answers, tokens, targets : int
        What there was. An answer is an unbroken run of targets.
    rows_dropped : int
    answers_cut : int
        Answers of kept rows that lost their end: what is left of them teaches no stop.
    answers_lost : int
        Answers that went whole, those of dropped rows among them.
    tokens_lost, targets_lost : int
        Those of dropped rows among them.
    """

    too_long: str
    limit: int
    rows: int = 0
    answers: int = 0
    tokens: int = 0
    targets: int = 0
    rows_dropped: int = 0
    answers_cut: int = 0
    answers_lost: int = 0
    tokens_lost: int = 0
    targets_lost: int = 0


def simulate(rows: Iterable[Row], limits: Sequence[int], ways: Sequence[str] = TOO_LONG) -> list[Loss]:
    """Return what every way loses at every limit, nothing being changed; read once, in bounded memory.

    Parameters
    ----------
    rows : iterable of Row
        As a processor gives them.
    limits : sequence of int, tokens
    ways : sequence of str
        Of `TOO_LONG`.

    Examples
    --------
    >>> row = Row({"sequence": np.arange(5), "loss_mask": np.arange(5) > 2}, content=5, control=0, eos=0)
    >>> [(loss.too_long, loss.rows_dropped, loss.answers_cut, loss.targets_lost) for loss in simulate([row], [4])]
    [('drop', 1, 0, 2), ('cut_turns', 1, 0, 2), ('cut', 0, 1, 1)]
    """
    for limit in limits:
        for way in ways:
            check_fit(limit, way)
    tallies = {(way, limit): dict.fromkeys(_COUNTED, 0) for limit in limits for way in ways}
    for row in rows:
        whole = _spans(row)
        for (way, limit), tally in tallies.items():
            _tally(tally, row, whole, fit(row, limit, way)[0])
    return [Loss(way, limit, **tally) for (way, limit), tally in tallies.items()]


_COUNTED = (
    "rows", "answers", "tokens", "targets", "rows_dropped", "answers_cut", "answers_lost", "tokens_lost",
    "targets_lost",
)  # fmt: skip


def _tally(tally: dict[str, int], row: Row, whole: list[tuple[int, int]], kept: Row | Drop) -> None:
    left = [] if isinstance(kept, Drop) else _spans(kept)
    tokens = 0 if isinstance(kept, Drop) else kept.tokens
    targets = sum(stop - start for start, stop in whole)
    tally["rows"] += 1
    tally["answers"] += len(whole)
    tally["tokens"] += row.tokens
    tally["targets"] += targets
    tally["rows_dropped"] += isinstance(kept, Drop)
    # What is left of an answer begins where it began, so the ends tell which were cut.
    tally["answers_cut"] += len(left) - len(set(left) & set(whole))
    tally["answers_lost"] += len(whole) - len(left)
    tally["tokens_lost"] += row.tokens - tokens
    tally["targets_lost"] += targets - sum(stop - start for start, stop in left)


def _spans(row: Row) -> list[tuple[int, int]]:
    """Return the answers of a row as runs of targets; those of its second sequence lie behind all of its first."""
    out: list[tuple[int, int]] = []
    base = 0
    for name, mask in row.arrays.items():
        if name.endswith("mask") and mask.dtype == bool:
            edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
            out += [(base + start, base + stop) for start, stop in edges.reshape(-1, 2).tolist()]
            base += 2**40
    return out
