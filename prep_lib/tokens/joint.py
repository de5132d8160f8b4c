"""A text made by a template becomes ids at once, and each character finds its place among them.

    <|im_start|>user↵Hi<|im_end|>↵     ═ added tokens: cut here, each one id; between them content
    ════════════       ══════════                    pieces ──encode_many──▶ ids, ids, …
                                                     bytes of each id, summed ──▶ where characters lie

Two ways give the same: the reference with its own offsets, for any model; and pieces between added tokens with lengths
in bytes, for byte-level models that change no text, where the accelerator serves. What is proven here for each border
that is asked for: a token begins there, and the text before it has the same ids when it is encoded alone. Of an edge it
is only told which tokens meet there: one ends and the next begins, or one lies across.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from prep_lib.special import THOUGHT_TAG
from prep_lib.traced import Origin, Run

#: An added token in a text: characters start:stop are the one id.
Control = tuple[int, int, int]

#: Headers remembered per model; a data set with more of them starts afresh.
HEADS = 4096


class Model(Protocol):
    """What is needed of a tokenizer's model."""

    @property
    def parsing(self) -> Any:
        """The engine that reads control tokens as such."""

    @property
    def marked(self) -> Any:
        """The engine that reads `aliases` as control tokens, and their own spellings as text."""

    @property
    def aliases(self) -> dict[str, str]:
        """Control token -> a spelling no text has."""

    @property
    def added_ids(self) -> dict[str, int]:
        """The ids of all added tokens."""

    @property
    def control_spellings(self) -> frozenset[str]:
        """The control tokens among them."""

    @property
    def splits(self) -> bool:
        """Whether texts on both sides of an added token are encoded as if each stood alone."""

    @property
    def byte_sizes(self) -> np.ndarray:
        """Bytes of each id, (max_id + 1,) int64."""

    @property
    def heads(self) -> dict[str, np.ndarray]:
        """Ids of the texts proven so far."""

    def find(self, text: str) -> list[tuple[int, int]]:
        """Return the added tokens spelled in a text, leftmost and longest first."""


class Row(NamedTuple):
    """A text to encode and the borders whose places are asked for.

    Parameters
    ----------
    text : str
    controls : sequence of (start, stop, id)
    borders : sequence of int, characters
        To be found and proven.
    edges : sequence of int, characters
        Only to be found.
    """

    text: str
    controls: Sequence[Control]
    borders: Sequence[int]
    edges: Sequence[int] = ()


class Placed(NamedTuple):
    """The ids of a text, and where its borders are.

    Parameters
    ----------
    ids : (n,) int32
    places : list of int, tokens
        For each border the first token that begins at it or behind it.
    proven : list of bool
        Whether a token begins exactly there, and the text before has the same ids when encoded alone.
    edges : list of int, tokens
        For each edge the first token that begins at it or behind it.
    across : list of int, tokens
        The same, but where a token lies across the edge it is that one: a range that must not hold a token by half
        ends at `across`, and one that must hold it begins there.
    """

    ids: np.ndarray
    places: list[int]
    proven: list[bool]
    edges: list[int]
    across: list[int]


def spelled(
    model: Model, text: str, runs: Sequence[Run], answers: Collection[int] = (), parse: bool = False
) -> tuple[tuple[Control, ...], int]:
    """Return the added tokens that count as such, and how many control tokens only data spells.

    A control token counts where the template spells it, alone or together with a role (``<|`` + role + ``|>``). The
    tags around a thought count inside an answer too, where the model itself must write them. Added tokens that are not
    control count wherever they stand, as in `transformers`.

    Parameters
    ----------
    runs : sequence of Run
        Whose characters they are.
    answers : collection of int
        The messages of the assistant.
    parse : bool
        True: control tokens count wherever they stand.
    """
    places = model.find(text)
    found, starts = [], [run.start for run in runs] if places else []
    for start, stop in places:
        token, first = text[start:stop], bisect_right(starts, start) - 1
        whole = runs[first].origin is None and stop <= runs[first].stop  # nearly all: the template spells it alone
        if not (whole or parse or token not in model.control_spellings):
            touched = runs[first : bisect_left(starts, stop)]
            if not _counts(token, [run.origin for run in touched], answers):
                continue
        found.append((start, stop, model.added_ids[token]))
    return tuple(found), len(places) - len(found)


def _counts(token: str, origins: Sequence[Origin | None], answers: Collection[int]) -> bool:
    """Tell whether a control token is one: nobody's data but a role is in it, or it is a thought's tag in an answer."""
    data = [origin for origin in origins if origin is not None]
    if not data:
        return True
    if THOUGHT_TAG.fullmatch(token) and all(origin.message in answers for origin in data):
        return True
    return len(data) < len(origins) and all(origin.field == "role" for origin in data)


# ---------------------------------------------------------------- one text, by the reference


def encode(model: Model, text: str, controls: Sequence[Control]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ids, first and last characters of a text whose added tokens are known: (n,) int32, (n,) and (n,) int64.

    Notes
    -----
    Where only some spellings count, they are exchanged for spellings no text has, which are the same ids.
    """
    meant = {(start, stop) for start, stop, _ in controls}
    stray = [span for span in model.find(text) if span not in meant and text[span[0] : span[1]] in model.aliases]
    if not stray:
        return _offsets(model.parsing.encode(text, add_special_tokens=False))
    renamed = [(start, stop) for start, stop, _ in controls if text[start:stop] in model.aliases]
    pieces, ends, shifts, at, size = [], [0], [0], 0, 0
    for start, stop in renamed:
        alias = model.aliases[text[start:stop]]
        pieces += [text[at:start], alias]
        size += start - at + len(alias)
        at = stop
        ends.append(size)
        shifts.append(stop - size)
    ids, starts, stops = _offsets(model.marked.encode("".join([*pieces, text[at:]]), add_special_tokens=False))
    return ids, _shifted(starts, ends, shifts), _shifted(stops, ends, shifts)


def _offsets(encoding: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    spans = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
    return np.array(encoding.ids, dtype=np.int32), spans[:, 0], spans[:, 1]


def _shifted(places: np.ndarray, ends: list[int], shifts: list[int]) -> np.ndarray:
    """Move places behind the k-th end by the k-th shift."""
    moved: np.ndarray = places + np.array(shifts)[np.searchsorted(ends, places, side="right") - 1]
    return moved


# ---------------------------------------------------------------- many texts


def encode_rows(
    model: Model, rows: Sequence[Row], encode_many: Callable[[list[str]], tuple[np.ndarray, np.ndarray]]
) -> list[Placed]:
    """Return the ids of many texts and the places of their borders.

    Parameters
    ----------
    encode_many : callable
        ``AutoTokenizer.encode_many``: pieces of content become flat ids and offsets.
    """
    if not model.splits:
        return [_by_reference(model, row) for row in rows]
    pieces, before, ids = [], [], []
    for row in rows:
        at = 0
        for start, stop, id in row.controls:
            if start > at:
                pieces.append(row.text[at:start])
            before.append(len(pieces))
            ids.append(id)
            at = stop
        if at < len(row.text):
            pieces.append(row.text[at:])
    flat, offsets = encode_many(pieces)
    flat = np.insert(flat, offsets[before], ids) if ids else flat
    return _placed(model, rows, flat, encode_many)


def _placed(model: Model, rows: Sequence[Row], flat: np.ndarray, encode_many: Any) -> list[Placed]:
    """Cut the ids of all rows apart, and find their borders: both by counting bytes."""
    ends = np.zeros(len(flat) + 1, np.int64)
    np.cumsum(model.byte_sizes[flat], out=ends[1:])
    bases = np.cumsum([0, *(_bytes(row.text) for row in rows)])
    bounds = np.searchsorted(ends[1:], bases, side="right")
    # Where the pieces of some id do not spell the text, the reference knows by its own offsets.
    right = (ends[bounds] == bases) & (ends[-1] == bases[-1])
    counts = np.array([len(row.borders) + len(row.edges) for row in rows], np.int64)
    wanted = np.array([at for row in rows for at in _byte_places(row)], np.int64) + np.repeat(bases[:-1], counts)
    places = np.searchsorted(ends[1:], wanted, side="right")
    exact = ends[places] == wanted
    places -= np.repeat(bounds[:-1], counts)
    # A token that lies across a border begins before it; the first one behind is the next.
    across, behind, sure = places.tolist(), (places + ~exact).tolist(), exact.tolist()
    out, at = [], 0
    for row, good, (first, last) in zip(rows, right[:-1] & right[1:], pairwise(bounds.tolist()), strict=True):
        middle, end = at + len(row.borders), at + len(row.borders) + len(row.edges)
        if good:
            ids, heads = flat[first:last], behind[at:middle]
            proven = _proven(model, row, ids, heads, sure[at:middle], encode_many)
            out.append(Placed(ids, heads, proven, behind[middle:end], across[middle:end]))
        else:
            out.append(_by_reference(model, row))
        at = end
    return out


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _byte_places(row: Row) -> list[int]:
    """Return the places of borders, then of edges, in bytes."""
    if row.text.isascii():
        return [*row.borders, *row.edges]
    sizes, at, size = {}, 0, 0
    for border in sorted({*row.borders, *row.edges}):
        size += _bytes(row.text[at:border])
        at = border
        sizes[border] = size
    return [sizes[border] for border in (*row.borders, *row.edges)]


def _proven(
    model: Model, row: Row, ids: np.ndarray, places: Sequence[int], exact: Sequence[bool], encode_many: Any
) -> list[bool]:
    """Prove that the text before a border has these ids when alone; an added token cuts, so from the last one on."""
    stops, out = [stop for _, stop, _ in row.controls], []
    for border, place, sure in zip(row.borders, places, exact, strict=True):
        at = bisect_right(stops, border)
        head = row.text[stops[at - 1] if at else 0 : border]
        out.append(sure and (not head or _same_head(model, head, ids[:place], encode_many)))
    return out


def _same_head(model: Model, head: str, ids: np.ndarray, encode_many: Any) -> bool:
    known = model.heads.get(head)
    if known is None:
        if len(model.heads) >= HEADS:
            model.heads.clear()
        known = model.heads[head] = encode_many([head])[0]
    return len(known) <= len(ids) and ids[len(ids) - len(known) :].tobytes() == known.tobytes()


def _by_reference(model: Model, row: Row) -> Placed:
    ids, starts, stops = encode(model, row.text, row.controls)
    # How far the tokens reach up to each: those that are bytes of one letter share its characters.
    reach = np.maximum.accumulate(stops)
    places = np.searchsorted(starts, row.borders).tolist()
    proven = []
    for place, border in zip(places, row.borders, strict=True):
        head = [control for control in row.controls if control[1] <= border]
        alone = encode(model, row.text[:border], head)[0]
        proven.append(bool(np.array_equal(alone, ids[:place]) and (not place or reach[place - 1] <= border)))
    edges = np.searchsorted(starts, row.edges)
    across = np.minimum(edges, np.searchsorted(reach, row.edges, side="right"))
    return Placed(ids, places, proven, edges.tolist(), across.tolist())
