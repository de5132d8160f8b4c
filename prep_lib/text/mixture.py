"""How often each document comes, so that every source has its share: planned from sizes alone, exact to one document.

sizes    web 1,000   code 100  ── weights 0.7 0.3, budget 500 ──▶  web 350 = 0.35 epochs   code 150 = 1.5 epochs

code     whole epochs for everything:  a b c d     half an epoch more for the smallest keys:  c a
key      a 0.31   b 0.77   c 0.08   d 0.52                      copies:  a 2   b 1   c 2   d 1

files    rows ──totals──▶ units by source and bin of the key ──plan──▶ units a source gives ──cuts──▶ the one bin
         rows of that bin ──limits──▶ the exact key            rows ──copies──▶ 0 1 2 …   no other row is held

A document's key is a hash of its id, so who comes more often does not depend on files, their order, or who counts.
"""

from __future__ import annotations

import functools
import math
import operator
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from prep_lib.errors import BadParameter, BadRecord, unknown
from prep_lib.record import Document, Drop, Repeat
from prep_lib.seeds import key as draw
from prep_lib.stage import Sketched

#: Weights that are worked out from the sizes, by name.
METHODS = ("natural", "unimax")

#: The name in weights of all sources that have none of their own.
REST = "rest"

UNITS = ("chars", "tokens")

#: The one reason a document goes: the share of its source is full without it.
LEFT_OVER = "mixture_left_over"

#: Epochs up to which repeated text is nearly as good as new (Muennighoff et al. 2023, "Scaling data-constrained
#: language models"); and the part of what a source gives that one document may be without a remark.
MANY, ROUGH = 4, 0.1

#: No weight and no budget is as large as this, so that sums and products fit.
_MOST = 2**60

#: Top bits of a key that make its bin. Where the limit falls, one bin of a source is looked at row by row: of a source
#: of 100 million documents 24,000 rows.
BITS = 12

#: A key has 63 bits, so that a limit above all of them is a number too.
_SHIFT = 63 - BITS

#: A sketch: who (52 bits), and how much.
ROW = np.dtype([("source", "<u8"), ("key", "<u8"), ("units", "<i8")])

#: What adds up: documents and units in a cell, which is a source and, in the last `BITS` bits, a bin of the key.
TOTAL = np.dtype([("cell", "<u8"), ("documents", "<i8"), ("units", "<i8")])

#: The cell in which the limit of a source lies, what is wanted of it and of those below it (0: there is no limit), and
#: what those below it hold.
CUT = np.dtype(
    [("source", "<u8"), ("whole", "<i8"), ("cell", "<u8"), ("wanted", "<i8"), ("documents", "<i8"), ("units", "<i8")]
)

#: ``whole`` copies of everything, one more of what has a key below ``below``; what that gives, copies counted.
LIMIT = np.dtype([("source", "<u8"), ("whole", "<i8"), ("below", "<u8"), ("documents", "<i8"), ("units", "<i8")])


# ── what a person writes ─────────────────────────────────────────────────────────────────────────────────────────────


def parse_weights(text: str) -> dict[str, float]:
    """Read weights written as one text; a name with blanks in it stands in double quotes.

    Raises
    ------
    BadParameter
        If a part is not SOURCE=NUMBER, a number is negative, none is above 0, or a source stands there twice.

    Examples
    --------
    >>> parse_weights('web=0.7 "our books"=0.3')
    {'web': 0.7, 'our books': 0.3}
    """
    lexer = shlex.shlex(text, posix=True)
    lexer.whitespace_split, lexer.quotes, lexer.commenters = True, '"', ""
    try:
        parts = list(lexer)
    except ValueError:
        raise BadParameter(f"text/mixture: a quote in weights={text!r} is never closed") from None
    found: dict[str, float] = {}
    for part in parts:
        name, sign, value = part.rpartition("=")
        if not sign:
            raise BadParameter(
                f"text/mixture: {part!r} in weights must be SOURCE=NUMBER, as in web=0.7, or weights one of "
                f"{', '.join(METHODS)}"
            )
        if name in found:
            raise BadParameter(f"text/mixture: weights name {name!r} twice")
        found[name] = _weight(name, value)
    return _some(found)


def _weight(name: str, value: object) -> float:
    try:
        weight = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        weight = math.nan
    if not 0 <= weight < _MOST:
        raise BadParameter(f"text/mixture: the weight of {name!r} must be a number of 0 or more, got {value!r}")
    return weight


def _some(weights: dict[str, float]) -> dict[str, float]:
    if not any(weights.values()):
        raise BadParameter("text/mixture: no weight is above 0; give one to a source, as in web=0.7 code=0.3")
    return weights


def write_weights(weights: Mapping[str, float]) -> str:
    """Write weights as `parse_weights` reads them.

    Examples
    --------
    >>> write_weights({"web": 0.7, "our books": 0.3})
    'web=0.7 "our books"=0.3'
    """
    return " ".join(f"{_quoted(name)}={_shortest(weight)}" for name, weight in weights.items())


def _shortest(weight: float) -> str:
    return f"{weight:g}" if float(f"{weight:g}") == weight else repr(float(weight))


def _quoted(name: str) -> str:
    if not re.search(r'[\s"\\]', name):
        return name
    return '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'


_POWERS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}


def parse_budget(value: int | float | str) -> int:
    """Read a number of units: ``10_000``, ``"500M"``, ``"10B"``, ``"1.5T"``.

    Raises
    ------
    BadParameter
        If it is no whole number of 1 or more.

    Examples
    --------
    >>> parse_budget("1.5B"), parse_budget(1e6)
    (1500000000, 1000000)
    """
    found = re.fullmatch(r"(\d[\d_,]*(?:\.\d+)?)\s*([kmbgt]?)", str(value).strip().lower())
    if isinstance(value, float) and value.is_integer():
        return parse_budget(int(value))
    if not isinstance(value, bool) and found:
        whole, _, part = found[1].replace("_", "").replace(",", "").partition(".")
        # In whole numbers: 0.3 of a billion in floating point is not three hundred million everywhere.
        units, rest = divmod(int(whole + part) * _POWERS[found[2]], 10 ** len(part))
        if 0 < units < _MOST and not rest:
            return units
    raise BadParameter(
        f"text/mixture: budget must be a whole number of units such as 500000, '500M' or '10B', got {value!r}"
    )


@dataclass(frozen=True)
class _Wish:
    """What was asked for, read and checked; `weights` is the name of a method or a weight a source."""

    weights: str | dict[str, float]
    temperature: float | None
    max_epochs: float | None
    budget: int | None

    @property
    def written(self) -> str:
        """The weights in one form, however they were given: sources sorted."""
        return self.weights if isinstance(self.weights, str) else write_weights(dict(sorted(self.weights.items())))


def _wish(weights: Any, temperature: Any, max_epochs: Any, budget: Any) -> _Wish:
    if isinstance(weights, str):
        read: str | dict[str, float] = weights if weights in METHODS else parse_weights(weights)
    elif isinstance(weights, Mapping):
        read = _some({str(name): _weight(str(name), value) for name, value in weights.items()})
    else:
        raise BadParameter(f"text/mixture: weights must be one text such as 'web=0.7 code=0.3', got {weights!r:.60}")
    for name, value in (("temperature", temperature), ("max_epochs", max_epochs)):
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf
        ):
            raise BadParameter(f"text/mixture: {name} must be a number above 0, or None, got {value!r}")
    if temperature is not None and read != "natural":
        raise BadParameter(
            f"text/mixture: temperature={temperature} changes natural weights only, and weights={weights!r:.60}; leave "
            "one of them out"
        )
    wish = _Wish(read, temperature, max_epochs, None if budget is None else parse_budget(budget))
    if read == "unimax" and (wish.budget is None or max_epochs is None):
        raise BadParameter("text/mixture: unimax needs a budget to share out and max_epochs, the most a source repeats")
    return wish


# ── the plan ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Portion:
    """What one source gives.

    Parameters
    ----------
    source : str
    weight : float
        The share asked for; all of them sum to 1.
    documents, units : int
        What it has.
    asked : int, units
        What its share of the whole would be.
    planned : int, units
        As much of that as `max_epochs` allows.
    given : int, units
        `planned`; once documents are chosen, what they hold: within half a document of it.
    share : float
        Of what all sources give.
    copies : int or None
        Documents given, copies counted. None: they are not chosen yet.
    """

    source: str
    weight: float
    documents: int
    units: int
    asked: int
    planned: int
    given: int
    share: float
    copies: int | None = None

    @property
    def epochs(self) -> float:
        """How often the source comes, on average."""
        return self.given / self.units if self.units else 0.0

    @property
    def repeats(self) -> int:
        """Units that come again."""
        return max(0, self.given - self.units)

    @property
    def left_over(self) -> int:
        """Units that never come."""
        return max(0, self.units - self.given)

    @property
    def missing(self) -> int:
        """Units asked for that `max_epochs` does not allow."""
        return max(0, self.asked - self.planned)


@dataclass(frozen=True)
class Plan:
    """What each source gives.

    Parameters
    ----------
    portions : tuple of Portion
        Sorted by source.
    unit : str
    budget : int or None, units
        What was asked for. None: as much as the shares allow.
    scarcest : str
        The source that ends first and so decides how much that is; empty where a budget was given, or where all end
        together.
    """

    portions: tuple[Portion, ...]
    unit: str = "chars"
    budget: int | None = None
    scarcest: str = ""

    @property
    def given(self) -> int:
        """Units of all sources together."""
        return sum(portion.given for portion in self.portions)

    @property
    def units(self) -> int:
        """What all sources have."""
        return sum(portion.units for portion in self.portions)

    @property
    def missing(self) -> int:
        """Units of the budget that nobody gives."""
        return max(0, (self.budget or 0) - sum(portion.planned for portion in self.portions))

    def settled(self, given: Mapping[str, tuple[int, int]]) -> Plan:
        """Return the plan with what was really given in the place of what was planned.

        Parameters
        ----------
        given : mapping of source to (documents, units)
            Copies counted; a source that is missing gave nothing.
        """
        total = sum(units for _, units in given.values())
        pairs = ((portion, *given.get(portion.source, (0, 0))) for portion in self.portions)
        return replace(
            self,
            portions=tuple(
                replace(portion, given=units, copies=documents, share=units / total if total else 0.0)
                for portion, documents, units in pairs
            ),
        )

    def table(self) -> list[dict[str, Any]]:
        """Return a row a source: for a data frame, for JSON."""
        names = ("epochs", "repeats", "left_over", "missing")
        return [{**vars(portion), **{name: getattr(portion, name) for name in names}} for portion in self.portions]


def plan(
    sizes: Mapping[str, tuple[int, int]],
    weights: str | Mapping[str, float] = "natural",
    *,
    temperature: float | None = None,
    max_epochs: float | None = None,
    budget: int | str | None = None,
    unit: str = "chars",
) -> Plan:
    """Say what each source gives, before anything is read.

    Parameters
    ----------
    sizes : mapping of source to (documents, units)
    weights, temperature, max_epochs, budget, unit
        As for `Mixture`.

    Raises
    ------
    BadParameter
        If a source has no weight, or the weights hold the mixture at nothing.
    UnknownName
        If a weight names a source that is not there.

    Examples
    --------
    >>> made = plan({"web": (10, 1000), "code": (2, 100)}, "web=0.7 code=0.3", budget=500)
    >>> [(one.source, one.given, one.epochs, one.repeats, one.left_over) for one in made.portions]
    [('code', 150, 1.5, 50, 0), ('web', 350, 0.35, 0, 650)]
    >>> [(one.source, one.given) for one in plan({"web": (10, 1000), "code": (2, 100)}, "web=1 code=1").portions]
    [('code', 100), ('web', 100)]
    """
    wish = _wish(weights, temperature, max_epochs, budget)
    units = {name: int(sizes[name][1]) for name in sorted(sizes)}
    shares = _shares(units, wish)
    total, scarcest = (wish.budget, "") if wish.budget is not None else _most(units, shares, wish.max_epochs or 1)
    asked = {name: share * total for name, share in shares.items()}
    wanted = _unimax(units, total, wish.max_epochs or 1) if wish.weights == "unimax" else asked
    planned = {name: _capped(wanted[name], size, wish.max_epochs) for name, size in units.items()}
    whole = sum(planned.values())
    portions = [
        Portion(name, shares[name], int(sizes[name][0]), size, round(asked[name]), planned[name], planned[name],
                planned[name] / whole if whole else 0.0)
        for name, size in units.items()
    ]  # fmt: skip
    return Plan(tuple(portions), unit, wish.budget, scarcest)


def _capped(wanted: float, units: int, max_epochs: float | None) -> int:
    """Whole units, as many as the source may give."""
    return min(round(wanted), math.floor(units * min(max_epochs or math.inf, 2**40))) if units else 0


def _shares(units: Mapping[str, int], wish: _Wish) -> dict[str, float]:
    """Return the share each source is asked for."""
    if isinstance(wish.weights, dict):
        return _normal(_named(units, wish.weights))
    # UniMax begins with equal shares, which is what a temperature without bounds comes to.
    power = 0.0 if wish.weights == "unimax" else 1 / (wish.temperature or 1)
    largest = max(units.values(), default=0)
    return _normal({name: (size / largest) ** power if size else 0.0 for name, size in units.items()})


def _named(units: Mapping[str, int], weights: Mapping[str, float]) -> dict[str, float]:
    if REST in weights and REST in units:
        raise BadParameter(
            f"text/mixture: a source is called {REST!r}, which in weights means all without one; rename it"
        )
    for name in weights:
        if name not in units and name != REST:
            raise unknown("text/mixture", "source in weights", name, units)
    others = {name: size for name, size in units.items() if name not in weights}
    if others and REST not in weights:
        raise BadParameter(
            f"text/mixture: source {next(iter(others))!r} has no weight ({len(others):,} in all have none); give it "
            f"one, or all of them one together: {REST}=0.1, or {REST}=0 to leave them out"
        )
    rest, size = weights.get(REST, 0.0), sum(others.values())
    if rest and not size:
        raise BadParameter(
            f"text/mixture: {REST}={rest:g} has nobody to go to: no other source has anything; leave it out"
        )
    return {name: weights[name] if name in weights else rest * units[name] / (size or 1) for name in units}


def _normal(weights: Mapping[str, float]) -> dict[str, float]:
    total = math.fsum(weights.values())
    return {name: weight / total if total else 0.0 for name, weight in weights.items()}


def _most(units: Mapping[str, int], shares: Mapping[str, float], max_epochs: float) -> tuple[float, str]:
    """Return the largest total at which every share holds and nobody comes too often; and who ends first."""
    reach = {name: max_epochs * units[name] / share for name, share in shares.items() if share}
    if not reach:
        return 0.0, ""
    scarcest = min(reach, key=lambda name: (reach[name], name))
    if not reach[scarcest]:
        raise BadParameter(
            f"text/mixture: source {scarcest!r} has nothing to give and without a budget holds all others at nothing; "
            "leave it out (weight 0), or give a budget"
        )
    together = math.isclose(reach[scarcest], max(reach.values()), rel_tol=1e-9)
    return reach[scarcest], "" if together else scarcest


def _unimax(units: Mapping[str, int], budget: float, max_epochs: float) -> dict[str, float]:
    """Share a budget out as evenly as `max_epochs` allows.

    Source
    ------
    Chung et al. 2023, "UniMax: Fairer and more effective language sampling for large-scale multilingual pretraining",
    algorithm 1: from the smallest source on, each gets an equal part of what is left, but never more than so many
    epochs of itself.
    """
    order = sorted((size, name) for name, size in units.items() if size)
    out, left = dict.fromkeys(units, 0.0), float(budget)
    for at, (size, name) in enumerate(order):
        out[name] = min(left / (len(order) - at), max_epochs * size)
        left -= out[name]
    return out


@dataclass(frozen=True)
class Finding:
    """What a person should know of a plan.

    Parameters
    ----------
    kind : str
        ``missing``: units asked for that `max_epochs` does not allow. ``repeated``: more than `MANY` epochs.
        ``nothing``: it gives nothing of the share it has. ``rough``: a document is a large part of what it gives, so
        its share is met less exactly. ``scarcest``: it ends first, and what others have left is not used.
        ``left_out``: its weight is 0.
    source : str
    value : float
        Units missing, epochs, units asked for, share of one document, units left over, units it has.
    """

    kind: str
    source: str
    value: float


def findings(made: Plan) -> list[Finding]:
    """Return what a person should know of a plan, by source.

    Examples
    --------
    >>> findings(plan({"web": (99, 1000), "code": (20, 100)}, "web=0.5 code=0.5", budget=1200, max_epochs=5))
    [Finding(kind='missing', source='code', value=100), Finding(kind='repeated', source='code', value=5.0)]
    """
    found = [finding for portion in made.portions for finding in _about(portion)]
    left = sum(portion.left_over for portion in made.portions if portion.weight)
    return found + ([Finding("scarcest", made.scarcest, left)] if made.scarcest and left else [])


def _about(portion: Portion) -> list[Finding]:
    if not portion.weight:
        return [Finding("left_out", portion.source, portion.units)] if portion.units else []
    mean = portion.units / max(1, portion.documents)
    if not portion.given:
        return [Finding("nothing", portion.source, portion.asked)]
    told = [
        (portion.missing > 0, "missing", portion.missing),
        (portion.epochs > MANY, "repeated", portion.epochs),
        (_is_cut(portion) and mean > ROUGH * portion.planned, "rough", mean / max(1, portion.planned)),
    ]
    return [Finding(kind, portion.source, value) for holds, kind, value in told if holds]


def _is_cut(portion: Portion) -> bool:
    return portion.planned % max(1, portion.units) != 0


# ── many rows ────────────────────────────────────────────────────────────────────────────────────────────────────────


@functools.lru_cache(maxsize=4096)
def source_key(name: str) -> int:
    """Return the number a source has in rows."""
    return draw(0, "mixture source", name) >> BITS


def totals(rows: np.ndarray) -> np.ndarray:
    """Add rows up by source and bin of the key.

    Parameters
    ----------
    rows : (n,) ROW
        In any order.

    Returns
    -------
    (m,) TOTAL
        Sorted, no cell empty: at most ``2**BITS`` a source. Those of several files add: `add`.
    """
    out = np.empty(len(rows), TOTAL)
    out["cell"], out["documents"], out["units"] = _cells(rows), 1, rows["units"]
    return add([out])


def _cells(rows: np.ndarray) -> np.ndarray:
    return rows["source"] << np.uint64(BITS) | rows["key"] >> np.uint64(_SHIFT)


def add(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Add totals of several files, in any order: (m,) TOTAL."""
    every = np.concatenate([np.empty(0, TOTAL), *parts])
    order = np.argsort(np.ascontiguousarray(every["cell"]))
    cells, first = np.unique(every["cell"][order], return_index=True)
    out = np.empty(len(cells), TOTAL)
    out["cell"] = cells
    for name in ("documents", "units"):
        out[name] = np.add.reduceat(every[name][order], first)
    return out


def _of(counted: np.ndarray, source: int) -> np.ndarray:
    """The cells of one source."""
    begin = np.searchsorted(counted["cell"], np.uint64(source << BITS), "left")
    return counted[begin : np.searchsorted(counted["cell"], np.uint64((source + 1 << BITS) - 1), "right")]


def sizes(counted: np.ndarray, names: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return what `plan` takes.

    Parameters
    ----------
    counted : (m,) TOTAL
    names : iterable of str
        At least those of all sources counted, as `Mixture.evidence` tells them.
    """
    known = {source_key(name): name for name in names}
    sources, first = np.unique(counted["cell"] >> np.uint64(BITS), return_index=True)
    sums = [np.add.reduceat(counted[name], first).tolist() for name in ("documents", "units")]
    return {known[source]: (many, size) for source, many, size in zip(sources.tolist(), *sums, strict=True)}


def cuts(made: Plan, counted: np.ndarray) -> np.ndarray:
    """Find the bin in which each source's limit lies.

    Parameters
    ----------
    made : Plan
        Of the sizes counted.
    counted : (m,) TOTAL

    Returns
    -------
    (sources,) CUT
        Sorted by source.
    """
    rows = [_cut(portion, source_key(portion.source), counted) for portion in made.portions]
    return np.sort(np.array(rows, CUT), order="source")


def _cut(portion: Portion, source: int, counted: np.ndarray) -> tuple[int, ...]:
    whole, wanted = divmod(portion.planned, portion.units) if portion.units else (0, 0)
    if not wanted:
        return source, whole, 0, 0, 0, 0
    cells = _of(counted, source)
    at = int(np.searchsorted(np.cumsum(cells["units"]), wanted))
    below = (int(cells[name][:at].sum()) for name in ("documents", "units"))
    return source, whole, int(cells["cell"][at]), wanted, *below


def inside(rows: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """Tell which rows lie in the bin that holds the limit of their source: (n,) bool."""
    at = _places(rows, cut)
    return (_cells(rows) == cut["cell"][at]) & (cut["wanted"][at] > 0)


def _places(rows: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The place of each row's source in a table sorted by source."""
    at = np.searchsorted(known["source"], rows["source"])
    if len(rows) and not (len(known) and np.array_equal(known["source"][at.clip(max=len(known) - 1)], rows["source"])):
        raise BadParameter("text/mixture: rows of a source that was not counted; count all rows before choosing any")
    return at


def limits(made: Plan, counted: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Find the key below which a document comes once more than the others of its source.

    Parameters
    ----------
    made : Plan
    counted : (m,) TOTAL
    rows : (n,) ROW
        In any order; at least those that are `inside` of ``cuts(made, counted)``, others do not matter.

    Returns
    -------
    (sources,) LIMIT
        Sorted by source. What the smallest keys hold comes as near to what was planned as a whole document allows,
        rather below it than above; documents of one key stay together.
    """
    cut = cuts(made, counted)
    held = rows[inside(rows, cut)]
    held = held[np.lexsort((held["key"], held["source"]))]
    ends = (np.searchsorted(held["source"], cut["source"], side) for side in ("left", "right"))
    out = np.empty(len(cut), LIMIT)
    all_of = {source_key(portion.source): portion for portion in made.portions}
    for at, (one, begin, end) in enumerate(zip(cut, *ends, strict=True)):
        below, documents, units = _limit(one, held["key"][begin:end], held["units"][begin:end])
        source, whole, portion = int(one["source"]), int(one["whole"]), all_of[int(one["source"])]
        documents, units = documents + whole * portion.documents, units + whole * portion.units
        out[at] = source, whole, below, documents, units
    return out


def _limit(cut: np.void, keys: np.ndarray, units: np.ndarray) -> tuple[int, int, int]:
    """Return the limit in a bin, and the documents and units below it; `keys` ascending."""
    if not cut["wanted"]:
        return 0, 0, 0
    different = np.unique(keys, return_index=True)[1]
    until = int(cut["units"]) + np.concatenate([[0], np.cumsum(np.add.reduceat(units, different))])
    wanted = int(cut["wanted"])
    if until[-1] < wanted:
        raise BadParameter(
            "text/mixture: rows of the bin that holds a limit are missing; hand over all that are inside"
        )
    over = int(np.searchsorted(until, wanted))
    taken = over if until[over] - wanted < wanted - until[over - 1] else over - 1
    below = int(keys[different[taken - 1]]) + 1 if taken else int(cut["cell"]) % 2**BITS << _SHIFT
    count = int(np.searchsorted(keys, np.uint64(below)))
    return below, int(cut["documents"]) + count, int(until[taken])


def copies(rows: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Return how often each document comes: (n,) int64.

    Parameters
    ----------
    rows : (n,) ROW
    limit : (sources,) LIMIT
    """
    at = _places(rows, limit)
    return limit["whole"][at] + (rows["key"] < limit["below"][at])


def settle(made: Plan, limit: np.ndarray) -> Plan:
    """Return the plan with what the documents chosen really hold."""
    by_source = {int(one["source"]): (int(one["documents"]), int(one["units"])) for one in limit}
    return made.settled({portion.source: by_source[source_key(portion.source)] for portion in made.portions})


def verdict(count: int) -> Repeat | Drop | None:
    """Return what `count` copies are as a verdict; None: the document comes once.

    Examples
    --------
    >>> verdict(2), verdict(1), verdict(0)
    (Repeat(n=2), None, Drop(reason='mixture_left_over'))
    """
    return Drop(LEFT_OVER) if not count else Repeat(int(count)) if count > 1 else None


# ── the stage ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Mixture:
    """Leave documents out and repeat others until every source has its share; a corpus stage.

    Whole epochs come whole: copies of the documents of a source differ by one at most. Who comes once more is drawn by
    a hash of the document's id, so it is the same in any order, and a larger budget only adds to a smaller one.

    Parameters
    ----------
    weights : str or mapping
        ``"web=0.7 code=0.3"``: the share of each source; only their proportion counts, 0 leaves a source out.
        ``rest=0.1`` is for all sources not named, by their size. ``"natural"``: by size. ``"unimax"``: as even as
        `max_epochs` allows.
    temperature : float or None
        Of natural weights: a share is as ``size ** (1 / temperature)``; 1 is natural, a large one makes all equal.
        None: 1.
    max_epochs : float or None, epochs
        A source never comes more often, but for half a document where this is no whole number. What it cannot give for
        that is missing, and others do not give more in its place, but with ``"unimax"``. None: without a budget 1, with
        one no limit.
    budget : int, str or None, units
        ``500_000``, ``"500M"``, ``"10B"``. None: as much as there is with every share exact and no source more often
        than `max_epochs`, so the scarcest source decides; natural weights then keep everything once.
    unit : str
        ``chars``, or ``tokens`` by `count`; without the EOS of each document.
    count : callable of str, object with ``encode``, or None
        The number of tokens of a text: a whole number, or their list. It travels to workers, and its digest is part of
        what an output depends on; an `AutoTokenizer` does. None: with characters.
    by : str
        ``source``, or the key of meta that says what a document counts as, such as ``language``.
    seed : int

    Raises
    ------
    BadParameter
        If something cannot be read or does not go together; in `decide`, if a source has no weight.
    UnknownName
        In `decide`, if a weight names a source that no document has.

    Drops
    -----
    ``mixture_left_over``: the share of the document's source is full without it.

    Source
    ------
    UniMax: Chung et al. 2023. Temperature: Conneau et al. 2020, Xue et al. 2021 (as its inverse, alpha).

    Examples
    --------
    >>> from prep_lib.stage import run
    >>> docs = [Document(id, "1234567890", id[0]) for id in ("a1", "a2", "b1", "b2")]
    >>> result = run([Mixture(weights="a=0.75 b=0.25", budget=40)], docs)
    >>> [doc.id for doc in result.kept], [lost.document.id for lost in result.dropped]
    (['a1', 'a1', 'a2', 'b2'], ['b1'])
    """

    name: ClassVar[str] = "mixture"
    row: ClassVar[np.dtype[Any]] = ROW
    reasons: ClassVar[tuple[str, ...]] = (LEFT_OVER,)
    #: What sketches do not depend on: moved, no text is read again.
    decides: ClassVar[tuple[str, ...]] = ("weights", "temperature", "max_epochs", "budget")

    _: KW_ONLY
    weights: str | Mapping[str, float] = "natural"
    temperature: float | None = None
    max_epochs: float | None = None
    budget: int | str | None = None
    unit: str = "chars"
    count: Any = None
    by: str = "source"
    seed: int = 42

    def __post_init__(self) -> None:
        wish = _wish(self.weights, self.temperature, self.max_epochs, self.budget)
        # One form for one wish: the same digest, however it was written.
        object.__setattr__(self, "weights", wish.written)
        object.__setattr__(self, "budget", wish.budget)
        if self.unit not in UNITS:
            raise unknown("text/mixture", "unit", str(self.unit), UNITS)
        _check_count(self.unit, self.count)
        if not isinstance(self.by, str) or not self.by:
            raise BadParameter(f"text/mixture: by must be 'source' or a key of meta, got {self.by!r}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise BadParameter(f"text/mixture: seed must be a whole number of 0 or more, got {self.seed!r}")

    def evidence(self, doc: Document) -> str:
        """Return what the document counts as: the name its row holds as a number.

        Raises
        ------
        BadRecord
            If its meta does not say.
        """
        if self.by == "source":
            return doc.source
        told = doc.meta.get(self.by)
        if told is None:
            raise BadRecord(f"no_{self.by}", f"meta[{self.by!r}] is not there")
        return str(told)

    def sketch(self, doc: Document) -> np.ndarray:
        """Return what the decision needs of one document: (1,) ROW."""
        key = draw(self.seed, self.name, doc.id) >> 1
        return np.array([(source_key(self.evidence(doc)), key, self._units(doc))], ROW)

    def _units(self, doc: Document) -> int:
        if self.unit == "chars":
            return len(doc.text)
        told = self.count.encode(doc.text) if hasattr(self.count, "encode") else self.count(doc.text)
        units = len(told) if hasattr(told, "__len__") else operator.index(told)
        if units < 0:
            raise BadParameter(f"text/mixture: count gave {units} tokens for document {doc.id}; 0 or more are possible")
        return units

    def plan(self, sizes: Mapping[str, tuple[int, int]]) -> Plan:
        """Say what each source gives: see `plan`."""
        return plan(
            sizes, self.weights, temperature=self.temperature, max_epochs=self.max_epochs, budget=self.budget,
            unit=self.unit,
        )  # fmt: skip

    def decide(self, seen: Sketched) -> dict[int, Repeat | Drop]:
        """Return verdicts by the document's place; a place that is missing comes once."""
        rows, counted = seen.rows, totals(seen.rows)
        _, first = np.unique(rows["source"], return_index=True)
        names = [seen.evidence(int(place)) for place in seen.owner[first]]
        limit = limits(self.plan(sizes(counted, names)), counted, rows)
        told = zip(seen.owner.tolist(), map(verdict, copies(rows, limit).tolist()), strict=True)
        return {place: answer for place, answer in told if answer is not None}


def _check_count(unit: str, count: Any) -> None:
    if unit == "chars" and count is not None:
        raise BadParameter("text/mixture: count is for unit='tokens'; give that, or leave count out")
    if unit == "tokens" and (isinstance(count, str) or not (hasattr(count, "encode") or callable(count))):
        raise BadParameter(
            "text/mixture: unit='tokens' needs count, a tokenizer or a function from a text to a number, got "
            f"{count!r:.60}"
        )
