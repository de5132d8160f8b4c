"""What the mask widget shows: a record, a strategy, and what a person changed of both.

    State ──record──▶ the record as edited
          ──work────▶ Result: the pieces of each sequence, or the one line that says why there is none

Every change is a function from a state to a state; nothing here draws.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from prep_lib.chat.process import Processor, ProcessorFactory
from prep_lib.chat.strategy import Piece, PromptStrategy, StrategyFactory
from prep_lib.errors import BadRecord, PrepError, unknown

if TYPE_CHECKING:
    from prep_lib.tokens.tokenizer import AutoTokenizer

#: The texts of a record that has no messages, in the order a person reads them, and who says them.
ROLES = {"text": "document", "query": "user", "response": "assistant", "chosen": "assistant", "rejected": "assistant"}

#: How a line feed stands in a text field of one line.
LINE_FEED = "↵"


@dataclass(frozen=True)
class State:
    """What is shown and what was changed.

    Parameters
    ----------
    tokenizer : AutoTokenizer
    records : tuple of mappings
        ``{"query", "response"}``, ``{"messages"}``, ``{"query", "chosen", "rejected"}`` or ``{"text"}``.
    strategy : str
        A registered name.
    params : tuple of (name, value)
        The strategy's parameters that are not its defaults, sorted by name.
    index : int
        Which record, from 0.
    edits : tuple of (place, text)
        Texts of that record a person rewrote; a place is a field's name, or a message's number.
    lang : str
    saved : tuple of (name, value)
        The parameters cell as it stands; empty: not known.
    """

    tokenizer: AutoTokenizer = field(repr=False)
    records: tuple[Mapping[str, Any], ...] = field(repr=False)
    strategy: str = "chatml"
    params: tuple[tuple[str, Any], ...] = ()
    index: int = 0
    edits: tuple[tuple[str, str], ...] = ()
    lang: str = "en"
    saved: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Said:
    """One text of a record: where it is, who says it, what, and whether an answer was marked as context."""

    place: str
    role: str
    text: str
    context: bool = False


@dataclass(frozen=True)
class Result:
    """What a strategy makes of a record.

    Parameters
    ----------
    sequences : tuple of (key, pieces)
        One for each array of ids: ``sequence``, or ``chosen`` and ``rejected``.
    problem : str
        One line that says why there are none; empty when all is well.
    dropped : str
        The reason, if the record is dropped.
    warned : tuple of str
        What the strategy remarked.
    """

    sequences: tuple[tuple[str, tuple[Piece, ...]], ...] = ()
    problem: str = ""
    dropped: str = ""
    warned: tuple[str, ...] = ()


# ---------------------------------------------------------------------------------------------------------------------
# Reading a state
# ---------------------------------------------------------------------------------------------------------------------


def record(state: State) -> dict[str, Any] | None:
    """Return the record shown, with what was rewritten; None if there is none.

    Examples
    --------
    >>> state = State(None, ({"query": "hi", "response": "hello"},))
    >>> record(rewrite(state, "query", "hey"))
    {'query': 'hey', 'response': 'hello'}
    """
    if not state.records:
        return None
    # A table of both shapes gives every record all fields; null means that the record does not have it.
    shown = {name: value for name, value in state.records[state.index].items() if value is not None}
    edits = dict(state.edits)
    if "messages" not in shown:
        return shown | edits
    messages = shown["messages"]
    if isinstance(messages, list | tuple):
        shown["messages"] = [
            {**message, "content": edits[str(at)]} if str(at) in edits else message
            for at, message in enumerate(messages)
        ]
    return shown


def texts(state: State) -> list[Said]:
    """Return the texts of the record shown, in order; what is no text is left out, the processor complains about it."""
    shown = record(state) or {}
    messages = shown.get("messages")
    if isinstance(messages, list | tuple):
        return [
            Said(str(at), str(message.get("role", "")), message["content"], message.get("train") is False)
            for at, message in enumerate(messages)
            if isinstance(message, Mapping) and isinstance(message.get("content"), str)
        ]
    return [Said(place, role, shown[place]) for place, role in ROLES.items() if isinstance(shown.get(place), str)]


def editable(state: State) -> list[Said]:
    """Return the texts a person may rewrite: all of a plain record, the last question and answer of a conversation."""
    said = texts(state)
    if "messages" not in (record(state) or {}):
        return said
    last = {one.role: one.place for one in said if one.role in ("user", "assistant")}
    return [one for one in said if one.place in last.values()]


def processor_type(shown: Mapping[str, Any]) -> str:
    """Return the processor a record of this shape is for.

    Examples
    --------
    >>> processor_type({"query": "", "chosen": "", "rejected": ""}), processor_type({"text": ""})
    ('dpo', 'pt')
    """
    if "messages" in shown or "response" in shown:
        return "sft"
    if "chosen" in shown or "rejected" in shown:
        return "dpo"
    return "pt" if "text" in shown else "sft"


def work(state: State) -> Result:
    """Run the strategy over the record; what goes wrong is told in the result, never raised."""
    shown = record(state)
    if shown is None:
        return Result()
    with warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always")
        result = _attempt(state, shown)
    return replace(result, warned=tuple(dict.fromkeys(str(remark.message) for remark in remarks)))


def _attempt(state: State, shown: dict[str, Any]) -> Result:
    try:
        processor = _processor(state, processor_type(shown))
        keys = processor.id_keys or ("sequence",)
        return Result(tuple((key, tuple(processor.pieces(shown, key))) for key in keys))
    except BadRecord as error:
        return Result(dropped=error.reason) if error.detail == "dropped" else Result(problem=str(error))
    except PrepError as error:
        return Result(problem=str(error))
    except Exception as error:  # a person's own strategy, half typed: the page says what it raised
        return Result(problem=f"{type(error).__name__}: {error}")


def _processor(state: State, kind: str) -> Processor:
    if kind == "pt":
        return ProcessorFactory.create("pt", state.tokenizer)
    return ProcessorFactory.create_with_strategy_name(kind, state.tokenizer, state.strategy, **dict(state.params))


def defaults(state: State) -> dict[str, Any]:
    """Return the parameters of the strategy as they are when nothing is changed; None for one derived from others.

    A tokenizer without the strategy's markers still gets its list: then they are texts of several ids.
    """
    made, extra = _made(state, {}), {}
    if made is None:
        made, extra = _made(state, {"allow_multi_token": True}), {"allow_multi_token": False}
    if made is None:
        return {}
    return {name: None if made.defaults.get(name, "") is None else value for name, value in made.params.items()} | extra


def used(state: State) -> dict[str, Any]:
    """Return all parameters as the strategy uses them, derived ones too; as they were given if it refuses them."""
    made = _made(state, dict(state.params))
    return dict(made.params) if made is not None else defaults(state) | dict(state.params)


def _made(state: State, params: dict[str, Any]) -> PromptStrategy | None:
    """The strategy, or None if it cannot be made; why not is said by `work`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return StrategyFactory.create(state.strategy, state.tokenizer, **params)
        except Exception:
            return None


# ---------------------------------------------------------------------------------------------------------------------
# Changing a state
# ---------------------------------------------------------------------------------------------------------------------


def start(
    tokenizer: AutoTokenizer,
    records: Sequence[Mapping[str, Any]],
    strategy: str = "chatml",
    lang: str = "en",
    **params: Any,
) -> State:
    """Return the first state, which is what the parameters cell says.

    Raises
    ------
    UnknownName
        If nobody registered the strategy. Parameters are not checked: the page shows what is wrong with them.
    """
    state = with_strategy(State(tokenizer, tuple(records), lang=lang), strategy)
    for name, value in params.items():
        state = with_param(state, name, value)
    return save(state)


def with_strategy(state: State, name: str) -> State:
    """Change the strategy; the parameters of another one mean nothing to it.

    Raises
    ------
    UnknownName
        If nobody registered it.
    """
    if name not in StrategyFactory.names():
        raise unknown("widgets/mask", "strategy", name, StrategyFactory.names())
    return state if name == state.strategy else replace(state, strategy=name, params=())


def with_param(state: State, name: str, value: Any) -> State:
    """Change one parameter; back at its default it is forgotten."""
    kept = {key: old for key, old in state.params if key != name}
    if value != defaults(state).get(name):
        kept[name] = value
    return replace(state, params=tuple(sorted(kept.items())))


def with_text(state: State, name: str, text: str) -> State:
    """Change a parameter by what was typed; an empty field of a derived text means derived again."""
    return with_param(state, name, typed(text) if text or defaults(state).get(name) is not None else None)


def with_index(state: State, index: int) -> State:
    """Show another record; what was rewritten belonged to the one before.

    Examples
    --------
    >>> with_index(State(None, ({}, {})), 7).index
    1
    """
    index = max(0, min(index, len(state.records) - 1))
    return state if index == state.index else replace(state, index=index, edits=())


def rewrite(state: State, place: str, text: str) -> State:
    """Rewrite one text of the record; back at what it was it is forgotten."""
    kept = dict(state.edits)
    kept.pop(place, None)
    plain = {said.place: said.text for said in texts(replace(state, edits=()))}
    if place in plain and text != plain[place]:
        kept[place] = text
    return replace(state, edits=tuple(sorted(kept.items())))


def reset(state: State) -> State:
    """Forget what was rewritten."""
    return replace(state, edits=())


# ---------------------------------------------------------------------------------------------------------------------
# Parameters, as the cell and the recipe hold them
# ---------------------------------------------------------------------------------------------------------------------


def parameters(state: State) -> dict[str, Any]:
    """Return the choices as the plain scalars of a parameters cell.

    ``strategy_params`` holds the texts that are not defaults as one string, the way `prep_lib.recipes.pairs` reads it;
    a flag is a parameter of its own, ``allow_multi_token`` only when it is on.

    Examples
    --------
    >>> told = parameters(State(None, (), params=(("train_after_stop", True), ("user_end", "</s>"))))
    >>> told["strategy_params"], told["train_after_stop"]
    ("'user_end=</s>'", True)
    """
    own = dict(state.params)
    flags = {name: value for name, value in own.items() if isinstance(value, bool)}
    pieces = [f"{name}={value}".replace("\n", "\\n") for name, value in own.items() if name not in flags]
    written = " ".join(shlex.quote(piece) for piece in pieces)
    return {"strategy": state.strategy, "strategy_params": written, "train_after_stop": False} | flags


def save(state: State) -> State:
    """Return the state whose choices are those of the parameters cell."""
    return replace(state, saved=tuple(parameters(state).items()))


def unsaved(state: State) -> str:
    """Return the lines to put into the parameters cell; empty when it says the same already."""
    if not state.saved or dict(state.saved) == parameters(state):
        return ""
    return "\n".join(f"{name} = {value!r}" for name, value in parameters(state).items())


def shown(value: str | None) -> str:
    """Return a parameter as it stands in a text field of one line.

    Examples
    --------
    >>> shown("user\\n"), typed("user↵"), typed("user\\\\n")
    ('user↵', 'user\\n', 'user\\n')
    """
    return (value or "").replace("\n", LINE_FEED)


def typed(text: str) -> str:
    """Return what a person means who typed this: ``↵``, or a backslash and an n, is a line feed."""
    return text.replace(LINE_FEED, "\n").replace("\\n", "\n")
