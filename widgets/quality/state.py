"""What the threshold rehearsal shows: signals measured once, the limits a person moves over them, and what follows.

signals (documents, signals) ──▶ a column a rule      words            1,204  38  5,120  47 …
limits  words >= 50  ──moved──▶  words >= 30          falls            ·      ▨   ·      · …
first rule that drops each document                   and per rule: at all, first, by it alone
documents nearest to the limit, on both sides         47 … 38 │ 29 … 21
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from prep_lib.errors import BadParameter, unknown
from prep_lib.record import Document
from prep_lib.text.presets import RuleSet, parse_limits, read_number
from prep_lib.text.quality import Finding, Quality, health
from widgets.quality.places import excerpt

#: Stops of the slider, each moving past about one document in a hundred; bars of the drawing.
STOPS, BARS = 100, 48

#: Documents shown on each side of a limit.
NEAREST = 5

#: Groups listed by name; the rest are one line.
GROUPS = 12

#: States and signals whose numbers are remembered: what a person moves to and fro.
REMEMBERED = 8

_SIGNS = {"low": ">=", "high": "<="}


class Limit(NamedTuple):
    """One number a person may move.

    Parameters
    ----------
    rules, rule : str
        The rule set and the rule in it.
    side : "low" or "high"
        Whether a value must not be below or not above it.
    preset : float
    """

    rules: str
    rule: str
    side: str
    preset: float

    @property
    def name(self) -> str:
        """``gopher/datatrove:words>=``: what the parameters cell calls it, without the number."""
        return f"{self.rules}:{self.rule}{_SIGNS[self.side]}"

    @property
    def off(self) -> float:
        """The number that lets everything pass."""
        return -math.inf if self.side == "low" else math.inf


class Column(NamedTuple):
    """A rule and what it looks at.

    Parameters
    ----------
    rules, rule : str
    signal : str
    low, high : float
        As the preset has them; infinite where it has none.
    values : (documents of the set,) float64
        NaN: a share of nothing, which breaks the rule.
    fixed : bool
        True: no limit of it can be moved.
    """

    rules: str
    rule: str
    signal: str
    low: float
    high: float
    values: np.ndarray
    fixed: bool = False

    @property
    def name(self) -> str:
        """``gopher/datatrove:words``: the reason of a drop."""
        return f"{self.rules}:{self.rule}"


@dataclass(frozen=True, eq=False)
class Data:
    """Documents, what was measured of them, and the rules that look at it. Nothing in it changes.

    Parameters
    ----------
    documents : sequence of Document
    lengths, left : (n,) int64, characters
        Of each document, and what the line rules of its set leave of it.
    sets : mapping of str to (RuleSet, (documents of the set, signals) float64)
    places : mapping of str to (m,) int64
        The documents of each rule set. One in no set passes.
    columns : tuple of Column
        All rules of all sets, in the order they are asked.
    languages, sources : (names, (n,) int64)
        Groups, the largest first, and which one each document is in.
    memo : dict
        What was worked out already.
    """

    documents: Sequence[Document]
    lengths: np.ndarray
    left: np.ndarray
    sets: Mapping[str, tuple[RuleSet, np.ndarray]]
    places: Mapping[str, np.ndarray]
    columns: tuple[Column, ...]
    languages: tuple[tuple[str, ...], np.ndarray]
    sources: tuple[tuple[str, ...], np.ndarray]
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def limits(self) -> dict[str, Limit]:
        """Every number that can be moved, by name."""
        return {
            limit.name: limit
            for column in self.columns
            for side, preset in (("low", column.low), ("high", column.high))
            if math.isfinite(preset) and not column.fixed
            for limit in [Limit(column.rules, column.rule, side, preset)]
        }


def collect(documents: Iterable[Document], quality: Quality, values: np.ndarray | None = None) -> Data:
    """Put together what is shown.

    Parameters
    ----------
    documents : iterable of Document
        With ``meta["language"]``, by which they are routed.
    quality : Quality
    values : (documents, signals) float64, or None
        What was measured already, a column for each of ``quality.signals``. None: it is measured now.

    Raises
    ------
    BadParameter
        If the table has not a row for each document and a column for each signal, or no rule set fits a language.
    """
    docs = list(documents)
    if values is None:
        values = np.array([quality.measure(doc) for doc in docs])
    shape = (len(docs), len(quality.signals))
    if docs and values.shape != shape:
        raise BadParameter(f"widgets/quality: signals must be (documents, signals) = {shape}, got {values.shape}")
    languages = _groups(str(doc.meta.get("language") or "") for doc in docs)
    routed = [quality.route(name or None) for name in languages[0]]
    which = np.array([rules.name if rules else "" for rules in routed] or [""])[languages[1]]
    lengths = np.array([len(doc.text) for doc in docs], np.int64)
    left, places, sets, columns = lengths.copy(), {}, {}, list[Column]()
    for name, rules in {rules.name: rules for rules in routed if rules}.items():
        place = places[name] = np.flatnonzero(which == name)
        columns_of = np.array([quality.signals.index(signal) for signal in rules.signals], np.int64)
        table = values[np.ix_(place, columns_of)].astype(np.float64)
        sets[name] = rules, table
        columns += _columns(rules, table)
        if rules.lines:
            left[place] = table[:, rules.signals.index("kept_chars")]
    sources = _groups(doc.source for doc in docs)
    return Data(docs, lengths, left, sets, places, tuple(columns), languages, sources)


def _columns(rules: RuleSet, table: np.ndarray) -> list[Column]:
    """Return the rules of a set, and behind them what happens where its line rules leave nothing."""
    by_signal = dict(zip(rules.signals, np.ascontiguousarray(table.T), strict=True))
    columns = [Column(rules.name, rule.name, rule.signal, *rule.limits, by_signal[rule.signal]) for rule in rules.rules]
    if rules.lines:
        kept = np.where(by_signal["chars"] > 0, by_signal["kept_chars"], 1)
        columns.append(Column(rules.name, "lines", "kept_chars", 1, math.inf, kept, fixed=True))
    return columns


def _groups(names: Iterable[str]) -> tuple[tuple[str, ...], np.ndarray]:
    # Not as an array of texts: one long name would make every other as long.
    told = list(names)
    counts = Counter(told)
    order = sorted(counts, key=lambda name: (-counts[name], name))
    rank = {name: at for at, name in enumerate(order)}
    return tuple(order), np.array([rank[name] for name in told], np.int64)


# ---------------------------------------------------------------------------------------------------------------------
# What a person chooses
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """What a person has chosen.

    Parameters
    ----------
    data : Data
    chosen : str
        The limit that is looked at, by its `Limit.name`; empty where there is none.
    moved : tuple of (name, value)
        The limits that are not as the preset has them, sorted; an infinite one lets everything pass.
    lang : str
    saved : str or None
        The parameters cell as it stands; None: not known.
    """

    data: Data = field(repr=False)
    chosen: str = ""
    moved: tuple[tuple[str, float], ...] = ()
    lang: str = "en"
    saved: str | None = None

    @property
    def limit(self) -> Limit | None:
        """The limit that is looked at."""
        return self.data.limits.get(self.chosen)

    @property
    def value(self) -> float:
        """What the chosen limit is now; NaN where there is none."""
        limit = self.limit
        return dict(self.moved).get(self.chosen, limit.preset) if limit else math.nan


def start(data: Data, limits: str = "", lang: str = "en") -> State:
    """Return the state as the parameters cell says.

    Raises
    ------
    BadParameter
        If `limits` names what no rule of these documents is called, or leaves a rule that keeps nothing.
    """
    moved, known = parse_limits(limits), data.limits
    for name in moved:
        if name not in known:
            raise unknown("widgets/quality", "limit", name, known)
    for rules in {limit.rules for limit in map(known.get, moved) if limit}:
        data.sets[rules][0].moved(moved)
    away = {name: value for name, value in moved.items() if value != known[name].preset}
    state = State(data, "", tuple(sorted(away.items())), lang)
    return save(choose(state, next(iter(moved), _loudest(state))))


def _loudest(state: State) -> str:
    """Return a limit of the rule that drops most documents by itself."""
    alone = {row.rule: row.alone for row in rows(state, preset(state))}
    names = state.data.limits
    return max(names, key=lambda name: alone[f"{names[name].rules}:{names[name].rule}"], default="")


def choose(state: State, name: str) -> State:
    """Look at another limit."""
    return replace(state, chosen=name) if name in state.data.limits else state


def with_value(state: State, value: float) -> State:
    """Move the chosen limit, up to the other limit of its rule; to where the preset has it: it is not moved."""
    if state.limit is None or math.isnan(value):
        return state
    value = state.limit.off if math.isinf(value) else _this_side(state, float(value))
    moved = {**dict(state.moved), state.chosen: value}
    if moved[state.chosen] == state.limit.preset:
        del moved[state.chosen]
    return replace(state, moved=tuple(sorted(moved.items())))


def _this_side(state: State, value: float) -> float:
    """Return the value, or the rule's other limit where it would pass it: such a rule keeps nothing."""
    limit = state.limit
    assert limit is not None
    name = limit._replace(side="high" if limit.side == "low" else "low").name
    if name not in state.data.limits:
        return value
    other = dict(state.moved).get(name, state.data.limits[name].preset)
    return min(value, other) if limit.side == "low" else max(value, other)


def with_text(state: State, text: str) -> State:
    """Move the chosen limit to a number as it was typed; what is no number changes nothing."""
    try:
        return with_value(state, read_number(text))
    except ValueError:
        return state


def reset(state: State, *, every: bool = False) -> State:
    """Put the chosen limit, or every one, back to where the preset has it."""
    kept = () if every else tuple(pair for pair in state.moved if pair[0] != state.chosen)
    return replace(state, moved=kept)


def stops(state: State) -> list[float]:
    """Return the stops of the slider: the values the documents have, the preset, and off."""
    limit = state.limit
    if limit is None:
        return [0.0]
    return _remembered(state.data, "stops", state.chosen, lambda: _stops(_finite(state), limit))


def _stops(values: np.ndarray, limit: Limit) -> list[float]:
    found = np.quantile(values, np.linspace(0, 1, STOPS)).tolist() if len(values) else []
    return sorted({*(float(f"{value:.3g}") for value in found), limit.preset, limit.off})


def stop(state: State) -> int:
    """Return the stop nearest to the chosen limit."""
    places = np.array(stops(state))
    if math.isinf(state.value):
        return 0 if state.value < 0 else len(places) - 1
    return int(np.argmin(np.abs(places - state.value))) if state.limit else 0


def with_stop(state: State, at: int) -> State:
    """Move the chosen limit to a stop; the one it is nearest to changes nothing."""
    places = stops(state)
    return state if at == stop(state) or not 0 <= at < len(places) else with_value(state, places[at])


# ---------------------------------------------------------------------------------------------------------------------
# The parameters cell
# ---------------------------------------------------------------------------------------------------------------------


def show_number(value: float) -> str:
    """Write a limit so that it is read back as the same number.

    Examples
    --------
    >>> show_number(0.7), show_number(50.0), show_number(float("-inf"))
    ('0.7', '50', 'off')
    """
    return "off" if math.isinf(value) else repr(value).removesuffix(".0")


def format_limits(state: State) -> str:
    """Return the moved limits as the parameters cell has them: one string.

    Examples
    --------
    >>> format_limits(State(collect([], Quality()), moved=(("c4:a<=", 3.0), ("c4:b>=", -math.inf))))
    'c4:a<=3 c4:b>=off'
    """
    return " ".join(name + show_number(value) for name, value in state.moved)


def parameters(state: State) -> dict[str, Any]:
    """Return the choice by the name the parameters cell and the recipe give it."""
    return {"limits": format_limits(state)}


def save(state: State) -> State:
    """Return the state whose limits are those of the parameters cell."""
    return replace(state, saved=format_limits(state))


def unsaved(state: State) -> str:
    """Return the line to put into the parameters cell; empty when it says the same already."""
    now = format_limits(state)
    return "" if state.saved is None or state.saved == now else f"limits = {now!r}"


# ---------------------------------------------------------------------------------------------------------------------
# What follows
# ---------------------------------------------------------------------------------------------------------------------


class Tally(NamedTuple):
    """What the rules do with these limits.

    Parameters
    ----------
    first : (n,) int32
        The place among `Data.columns` of the first rule that drops a document; -1: it is kept.
    falls : tuple of (documents of the set,) bool
        For each column, whom it drops.
    times : (n,) int16
        How many rules drop a document.
    """

    first: np.ndarray
    falls: tuple[np.ndarray, ...]
    times: np.ndarray

    @property
    def kept(self) -> np.ndarray:
        """Which documents stay, (n,) bool."""
        return self.first < 0


def tally(state: State) -> Tally:
    """Ask every rule about every document, with the limits as they are now."""
    return _remembered(state.data, "tally", state.moved, lambda: _asked(state.data, dict(state.moved)))


def preset(state: State) -> Tally:
    """The same with the limits of the presets."""
    return tally(replace(state, moved=()))


def _asked(data: Data, moved: Mapping[str, float]) -> Tally:
    first, times = np.full(len(data.lengths), -1, np.int32), np.zeros(len(data.lengths), np.int16)
    falls = []
    for at, column in enumerate(data.columns):
        low, high = moved.get(column.name + ">=", column.low), moved.get(column.name + "<=", column.high)
        # A comparison with NaN is never true: a share of nothing falls, unless nothing can.
        fall = ~((column.values >= low) & (column.values <= high)) & (math.isfinite(low) or math.isfinite(high))
        gone = data.places[column.rules][fall]
        first[gone] = np.where(first[gone] < 0, at, first[gone])
        times[gone] += 1
        falls.append(fall)
    return Tally(first, tuple(falls), times)


class Row(NamedTuple):
    """How many documents fall by a rule: at all, by it first, by it alone."""

    rule: str
    falls: int
    first: int
    alone: int


def rows(state: State, told: Tally) -> list[Row]:
    """Count for each rule."""
    firsts = np.bincount(told.first[told.first >= 0], minlength=len(state.data.columns))
    out = []
    for at, (column, falls) in enumerate(zip(state.data.columns, told.falls, strict=True)):
        alone = told.times[state.data.places[column.rules]][falls] == 1
        out.append(Row(column.name, int(falls.sum()), int(firsts[at]), int(alone.sum())))
    return out


class Group(NamedTuple):
    """Documents of one language or source: how many, how many stay now and by the presets, and characters likewise.

    The name is None for all groups that are not listed.
    """

    name: str | None
    documents: int
    kept: int
    before: int
    characters: int
    kept_characters: int
    before_characters: int


def groups(state: State, names: tuple[str, ...], place: np.ndarray) -> list[Group]:
    """Count for each group; behind `GROUPS` of them, one line for the rest."""
    size, cut = len(names), min(len(names), GROUPS)
    now, before = tally(state).kept, preset(state).kept
    # Sums of whole numbers below 2**53 are exact in bincount's float64.
    columns = [np.bincount(place[mask], minlength=size) for mask in (slice(None), now, before)] + [
        np.bincount(place[mask], weights[mask], size)
        for mask, weights in ((slice(None), state.data.lengths), (now, state.data.left), (before, state.data.left))
    ]
    listed = [Group(names[at], *(int(column[at]) for column in columns)) for at in range(cut)]
    return listed + ([Group(None, *(int(column[cut:].sum()) for column in columns))] if size > cut else [])


class Histogram(NamedTuple):
    """How the values of the chosen signal lie.

    Parameters
    ----------
    edges : (bars + 1,) float64
        What a bar spans; the outermost two also hold what lies beyond them.
    kept, others, falls : (bars,) int64, documents
        Kept; dropped by other rules only; dropped by this limit's rule.
    now, preset : float or None
        Where the limit stands and stood, 0 left to 1 right; None: off.
    missing : int
        Documents of the set without a value.
    """

    edges: np.ndarray
    kept: np.ndarray
    others: np.ndarray
    falls: np.ndarray
    now: float | None
    preset: float | None
    missing: int


def histogram(state: State) -> Histogram | None:
    """Count the values of the chosen signal, by what becomes of their documents; None where there is none."""
    limit, values = state.limit, _finite(state)
    if limit is None or not len(values):
        return None
    edges, place, log = _remembered(state.data, "bars", state.chosen, lambda: _bars(values, limit))
    at, column = _chosen(state)
    told = tally(state)
    fate = np.where(told.falls[at], 2, told.first[state.data.places[column.rules]] >= 0)
    measured = np.isfinite(column.values)
    counts = np.bincount(3 * place + fate[measured], minlength=3 * BARS).reshape(BARS, 3)
    now, before = (_spot(value, edges, log) for value in (state.value, limit.preset))
    return Histogram(edges, counts[:, 0], counts[:, 1], counts[:, 2], now, before, int((~measured).sum()))


def _bars(values: np.ndarray, limit: Limit) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return the edges, the bar of each measured document, and whether the scale is logarithmic."""
    low, high = np.quantile(values, [0.005, 0.995])
    low, high = min(low, limit.preset), max(high, limit.preset)
    log = bool(low >= 0 and high >= 1000)
    first, last = np.log1p([low, high]).tolist() if log else (float(low), float(high))
    grid = np.linspace(first, last, BARS + 1) if last > first else np.linspace(first - 0.5, first + 0.5, BARS + 1)
    scaled = np.log1p(np.maximum(values, 0)) if log else values
    place = np.clip(np.searchsorted(grid, scaled, "right") - 1, 0, BARS - 1)
    return (np.expm1(grid) if log else grid), place, log


def _spot(value: float, edges: np.ndarray, log: bool) -> float | None:
    if math.isinf(value):
        return None
    low, high, at = (math.log1p(max(0.0, number)) if log else number for number in (edges[0], edges[-1], value))
    return min(1.0, max(0.0, (at - low) / (high - low)))


def _chosen(state: State) -> tuple[int, Column]:
    """Return the column of the chosen limit and its place."""
    limit = state.limit
    return next(
        (at, column)
        for at, column in enumerate(state.data.columns)
        if limit is not None and (column.rules, column.rule) == (limit.rules, limit.rule)
    )


def _finite(state: State) -> np.ndarray:
    if state.limit is None:
        return np.empty(0)
    values = _chosen(state)[1].values
    return values[np.isfinite(values)]


class Example(NamedTuple):
    """A document near the chosen limit.

    Parameters
    ----------
    document : Document
    value : float
    also : tuple of str
        Other rules that drop it too.
    pieces : tuple of (text, offends)
        An excerpt, where it is known which places the rule counts.
    before, behind : bool
        Whether the text goes on before and behind the excerpt.
    """

    document: Document
    value: float
    also: tuple[str, ...]
    pieces: tuple[tuple[str, bool], ...]
    before: bool
    behind: bool


def borderline(state: State) -> tuple[list[Example], list[Example]]:
    """Return the kept documents nearest to the chosen limit, and the nearest that its rule drops."""
    if state.limit is None:
        return [], []
    at, column = _chosen(state)
    told, places = tally(state), state.data.places[column.rules]
    side = column.values < state.value if state.limit.side == "low" else column.values > state.value
    sides = (told.first[places] < 0) & np.isfinite(column.values), told.falls[at] & side
    return (
        [_example(state, at, place) for place in _nearest(column.values, state.value, sides[0])],
        [_example(state, at, place) for place in _nearest(column.values, state.value, sides[1])],
    )


def _nearest(values: np.ndarray, limit: float, among: np.ndarray) -> list[int]:
    """Return places of `among` by distance to the limit, equals in the order of the documents."""
    found = np.flatnonzero(among)
    if math.isinf(limit):
        # Where everything passes, the outermost are what a limit would meet first.
        away = values[found] if limit < 0 else -values[found]
    else:
        away = np.abs(values[found] - limit)
    if len(found) > NEAREST:
        close = away <= np.partition(away, NEAREST - 1)[NEAREST - 1]
        found, away = found[close], away[close]
    return found[np.argsort(away, kind="stable")[:NEAREST]].tolist()


def _example(state: State, at: int, place: int) -> Example:
    column, told = state.data.columns[at], tally(state)
    doc = state.data.documents[int(state.data.places[column.rules][place])]
    also = tuple(
        other.rule
        for number, (other, falls) in enumerate(zip(state.data.columns, told.falls, strict=True))
        if number != at and other.rules == column.rules and falls[place]
    )
    begin, pieces = excerpt(doc.text, column.signal)
    end = begin + sum(len(text) for text, _ in pieces)
    return Example(doc, float(column.values[place]), also, pieces, begin > 0, end < len(doc.text))


def findings(state: State) -> dict[str, list[Finding]]:
    """Return what is odd about the rules of each set, with the limits as they are now."""
    return _remembered(state.data, "findings", state.moved, lambda: dict(_findings(state)))


def _findings(state: State) -> Iterator[tuple[str, list[Finding]]]:
    names, which = state.data.languages
    for name, (rules, table) in state.data.sets.items():
        here = which[state.data.places[name]]
        # Only where there is a language to complain about: naming 10,000 of them takes a quarter of a step.
        foreign = not all(rules.covers(names[at]) for at in np.unique(here))
        codes = np.array(names, object)[here].tolist() if foreign else None
        if (now := rules.moved(dict(state.moved))) is not None:
            columns = [rules.signals.index(signal) for signal in now.signals]
            yield name, health(now, table[:, columns], codes)


def _remembered(data: Data, what: str, key: Any, make: Callable[[], Any]) -> Any:
    """Work something out once, and forget what was not asked for longest."""
    known = data.memo.setdefault(what, {})
    known[key] = known.pop(key) if key in known else make()
    if len(known) > REMEMBERED:
        del known[next(iter(known))]
    return known[key]
