"""What the mixture planner shows: sizes of sources, what a person asks of them, and the plan that follows.

ledger, data frame ──sizes──▶ web 40 documents, 4,000    ┐
method, weights, temperature, budget, max_epochs ────────┴──▶ plan, or the sentence why there is none
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from prep_lib.errors import BadParameter, unknown
from prep_lib.ledger import Ledger
from prep_lib.text.mixture import (
    METHODS,
    REST,
    UNITS,
    Mixture,
    Plan,
    parse_budget,
    parse_weights,
    plan,
    write_weights,
)

#: How shares are found: by a method of `prep_lib.text.mixture`, or by weights that a person gives.
WAYS = (*METHODS, "weights")

#: Sources that have an input of their own, the largest; weights of the others are typed.
INPUTS = 12

#: What a column of units may be called in a data frame.
_COLUMNS = {"chars": ("units", "characters"), "tokens": ("units", "tokens")}


@dataclass(frozen=True)
class State:
    """What a person has chosen.

    Parameters
    ----------
    sizes : tuple of (source, documents, units)
        The largest first.
    way : str
        One of `WAYS`.
    weights : tuple of (source, float)
        Used when the way is ``weights``, remembered otherwise.
    temperature : float
        Of natural weights.
    max_epochs : float or None, epochs
    budget : int or None, units
    unit : str
    lang : str
    saved : tuple of (name, value)
        The parameters cell as it stands; empty: not known.
    """

    sizes: tuple[tuple[str, int, int], ...]
    way: str = "natural"
    weights: tuple[tuple[str, float], ...] = ()
    temperature: float = 1.0
    max_epochs: float | None = None
    budget: int | None = None
    unit: str = "chars"
    lang: str = "en"
    saved: tuple[tuple[str, Any], ...] = ()


def start(
    data: Any,
    weights: str | Mapping[str, float] = "natural",
    *,
    temperature: float | None = None,
    max_epochs: float | None = None,
    budget: int | str | None = None,
    unit: str = "chars",
    lang: str = "en",
) -> State:
    """Return the state as the parameters cell has it.

    Parameters
    ----------
    data : Ledger, mapping of source to (documents, units), or data frame
        See `sizes`.
    weights, temperature, max_epochs, budget, unit
        As for `prep_lib.text.mixture.Mixture`; what nobody can read is refused.

    Examples
    --------
    >>> made = start({"web": (4, 400), "code": (1, 100)}, "web=1 code=1", budget="1k")
    >>> parameters(made)
    {'weights': 'web=1 code=1', 'temperature': None, 'max_epochs': None, 'budget': '1k'}
    """
    if unit not in UNITS:
        raise unknown("widgets/mixture", "unit", unit, UNITS)
    counted = sizes(data, unit)
    told = tuple((name, *counted[name]) for name in sorted(counted, key=lambda name: (-counted[name][1], name)))
    read = parse_weights(weights) if isinstance(weights, str) and weights not in METHODS else weights
    way, given = (read, _natural(told)) if isinstance(read, str) else ("weights", tuple(read.items()))
    units = None if budget is None else parse_budget(budget)
    state = State(told, way, given, temperature or 1.0, max_epochs, units, unit, lang)
    return save(state)


def _natural(told: tuple[tuple[str, int, int], ...]) -> tuple[tuple[str, float], ...]:
    """Weights to begin with: by size, of those that have an input; the rest together."""
    whole = sum(units for _, _, units in told) or 1
    weights = [(name, round(units / whole, 3)) for name, _, units in told[:INPUTS]]
    rest = sum(units for _, _, units in told[INPUTS:])
    return (*weights, (REST, round(rest / whole, 3))) if told[INPUTS:] else tuple(weights)


def sizes(data: Any, unit: str = "chars") -> dict[str, tuple[int, int]]:
    """Return documents and units of each source.

    Parameters
    ----------
    data : Ledger, mapping of source to (documents, units), or data frame
        Of a ledger: what its last stage kept; it counts characters only. A data frame has the columns ``source``,
        ``documents`` (without it a row is one document), and ``units``, ``characters`` or ``tokens``; rows of one
        source are added.
    unit : str

    Raises
    ------
    BadParameter
        If it says nothing of that unit.
    """
    if isinstance(data, Ledger):
        if unit != "chars":
            raise BadParameter(f"widgets/mixture: a ledger of documents counts no {unit}; give sizes by source")
        return flow(data, None, "kept")
    if isinstance(data, Mapping):
        return {str(name): (int(documents), int(units)) for name, (documents, units) in data.items()}
    names = [str(name) for name in data.columns]
    column = next((name for name in _COLUMNS[unit] if name in names), None)
    if column is None or "source" not in names:
        raise BadParameter(
            f"widgets/mixture: a data frame of sizes needs the columns source and {' or '.join(_COLUMNS[unit])}, got "
            f"{', '.join(names)}"
        )
    out: dict[str, tuple[int, int]] = {}
    for row in data.to_dict("records"):
        documents, units = out.get(row["source"], (0, 0))
        out[row["source"]] = documents + int(row.get("documents", 1)), units + int(row[column])
    return out


def flow(ledger: Ledger, stage: str | None, name: str) -> dict[str, tuple[int, int]]:
    """Return documents and characters of each source in one flow of a stage; None: of the last stage with documents."""
    if stage is None:
        passed = {at[0] for at in ledger.documents}
        stage = next((stage for stage in reversed(ledger.stages) if stage in passed), "")
    out: dict[str, tuple[int, int]] = {}
    for at, number in ledger.documents.items():
        if at[:2] == (stage, name):
            documents, characters = out.get(at[2], (0, 0))
            out[at[2]] = documents + number, characters + ledger.characters[at]
    return out


def achieved(stage: Mixture, ledger: Ledger) -> Plan:
    """Return what a mixture of characters by source was asked for, and what it gave.

    Parameters
    ----------
    stage : Mixture
    ledger : Ledger
        Of the run it was part of.

    Raises
    ------
    BadParameter
        If the ledger did not count what was mixed.
    """
    if (stage.unit, stage.by) != ("chars", "source"):
        raise BadParameter(f"widgets/mixture: the ledger counts characters by source, not {stage.unit} by {stage.by}")
    return stage.plan(flow(ledger, stage.name, "in")).settled(flow(ledger, stage.name, "kept"))


def made(state: State) -> Plan | str:
    """Return the plan, or why there is none."""
    values = parameters(state)
    counted = {name: (documents, units) for name, documents, units in state.sizes}
    try:
        return plan(counted, values.pop("weights"), **values, unit=state.unit)
    except BadParameter as error:
        return str(error)


# ---------------------------------------------------------------------------------------------------------------------
# What a person chooses
# ---------------------------------------------------------------------------------------------------------------------


def weight(state: State, source: str) -> float:
    """Return the weight a person gave to a source; 0 where it has none of its own."""
    return dict(state.weights).get(source, 0.0)


def with_weight(state: State, source: str, value: float) -> State:
    """Return the state with another weight, by hand from now on; a number that is none changes nothing."""
    weights = {**dict(state.weights), source: value}
    if value == weight(state, source) or not value >= 0 or not any(weights.values()):
        return state
    return replace(state, way="weights", weights=tuple(weights.items()))


def with_weights(state: State, text: str) -> State:
    """Return the state with weights as typed; what nobody can read changes nothing."""
    try:
        weights = tuple(parse_weights(text).items())
    except BadParameter:
        return state
    return state if weights == state.weights else replace(state, way="weights", weights=weights)


def with_budget(state: State, text: str) -> State:
    """Return the state with another budget; empty: none, and what is no number changes nothing."""
    try:
        return replace(state, budget=parse_budget(text) if text.strip() else None)
    except BadParameter:
        return state


def with_max_epochs(state: State, text: str) -> State:
    """Return the state with another cap; empty: none, and what is no number above 0 changes nothing."""
    value = _above_zero(text)
    return replace(state, max_epochs=value) if value or not text.strip() else state


def with_temperature(state: State, text: str) -> State:
    """Return the state with another temperature; what is no number above 0 changes nothing."""
    value = _above_zero(text)
    return replace(state, temperature=value) if value else state


def _above_zero(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None


def write_budget(units: int | None) -> str:
    """Write a budget as `parse_budget` reads it, short where that is exact; empty: none.

    Examples
    --------
    >>> write_budget(1_500_000_000), write_budget(1_234_567), write_budget(None)
    ('1.5B', '1234567', '')
    """
    if units is None:
        return ""
    for power, letter in ((12, "T"), (9, "B"), (6, "M"), (3, "k")):
        if units >= 10**power and units % 10 ** (power - 2) == 0:
            return f"{units / 10**power:.2f}".rstrip("0").rstrip(".") + letter
    return str(units)


def write_number(value: float | None) -> str:
    """Write a number for an input; empty: none."""
    return "" if value is None else f"{value:g}" if float(f"{value:g}") == value else repr(value)


def parameters(state: State) -> dict[str, Any]:
    """Return the choices by the names the parameters cell and `Mixture` give them."""
    natural = state.way == "natural"
    return {
        "weights": write_weights(dict(state.weights)) if state.way == "weights" else state.way,
        "temperature": state.temperature if natural and state.temperature != 1 else None,
        "max_epochs": state.max_epochs,
        "budget": write_budget(state.budget) or None,
    }


def save(state: State) -> State:
    """Return the state whose choices are those of the parameters cell."""
    return replace(state, saved=tuple(parameters(state).items()))


def unsaved(state: State) -> str:
    """Return the lines to put into the parameters cell; empty when it says the same already."""
    if not state.saved or dict(state.saved) == parameters(state):
        return ""
    return "\n".join(f"{name} = {value!r}" for name, value in parameters(state).items())
