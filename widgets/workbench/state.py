"""What the workbench shows: a record, a way to make tokens of it, a policy, and what a person changed of each.

    State ──read──▶ the record as edited, in the one form       (form recognised, or the line that says why not)
          ──work──▶ Work: the tokens of each sequence           each with its reason, from mask.explain or a strategy
          ──part──▶ findings, methods, truncation, repairs      slower: kept in the state with what they belong to
          ──scan──▶ Scan: what was found in all rows so far

Every change is a function from a state to a state; nothing here draws.
"""

from __future__ import annotations

import json
import shlex
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from prep_lib.chat import rendered
from prep_lib.chat.conversation import Read, form_of, read
from prep_lib.chat.diagnose import RowReport, diagnose, scan
from prep_lib.chat.mask import ANSWERS, Policy
from prep_lib.chat.methods import Found, side_by_side
from prep_lib.chat.row import TOO_LONG, Loss, Row, fit, simulate
from prep_lib.chat.rules import RULES
from prep_lib.chat.strategy import PromptStrategy, StrategyFactory
from prep_lib.chat.symptoms import SEVERITIES, Finding, Repair, Symptom, symptoms
from prep_lib.chat.template import ChatTemplate
from prep_lib.errors import BadParameter, BadRecord, BadTemplate, PrepError, unknown
from prep_lib.record import Conversation, Document, Drop, Preference, Rated
from prep_lib.source.jsonl import parse
from widgets.workbench.strand import Strand, as_row, by_strategy, by_template, conversations, document

if TYPE_CHECKING:
    from prep_lib.tokens.tokenizer import AutoTokenizer

#: What was worked out and is kept: enough to step back and forth between a few records and choices.
KEPT = 64

#: Rows of one finding that are kept to walk through; all of them are counted.
WALKED = 10_000

#: Rows that may pass a limit of the template: each takes as long as the limits allow, and all may do so.
LIMITED = 3

#: Tokens of scanned rows that are kept to try limits on: about 9 bytes each.
SIMULATED = 4_000_000

#: What a token may be shown as: what the model reads there, or what it has to write next.
SHOWN = ("input", "target")

#: What of an answer may be trained or not.
FLAGS = ("reasoning", "tool_calls", "weights", "train_after_stop")

#: How a line feed stands in a text field of one line.
LINE_FEED = "↵"

#: Policies a person may compare with: the present one with this part turned.
TURNS = ("answers", "reasoning", "tool_calls", "train_after_stop")


@dataclass(frozen=True)
class Way:
    """How a conversation becomes tokens: a chat template, or a prompt strategy.

    Parameters
    ----------
    kind : str
        ``template`` or ``strategy``.
    name : str
        What the parameters cell says: a folder, file or name of a template; the registered name of a strategy.
    source : str
        The Jinja text of a template.
    params : tuple of (name, value)
        A strategy's parameters that are not its defaults, sorted by name.
    options : mapping
        What else `ChatTemplate` is made with (``variables``, ``now``, ``stops`` …).
    """

    kind: str
    name: str
    source: str = field(default="", repr=False)
    params: tuple[tuple[str, Any], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)


@dataclass(frozen=True, eq=False, repr=False)
class Data:
    """What stays the same while a person looks: tokenizer, records, their names, and what was worked out already."""

    tokenizer: AutoTokenizer
    records: Sequence[Mapping[str, Any]]
    names: Sequence[str] = ()
    known: OrderedDict[Any, Any] = field(default_factory=OrderedDict)
    lock: Any = field(default_factory=threading.Lock)

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what was made under this key, or make it; the oldest of more than `KEPT` is forgotten.

        Two threads may both make it: neither waits for the other.
        """
        with self.lock:
            if key in self.known:
                self.known.move_to_end(key)
                return self.known[key]
        value = make()
        with self.lock:
            self.known[key] = value
            while len(self.known) > KEPT:
                self.known.popitem(last=False)
        return value


@dataclass(frozen=True)
class Part:
    """Something slower than a key press: its name, what it was worked out for, and the value or its problem."""

    name: str
    of: Any
    value: Any = field(compare=False, default=None)
    problem: str = ""


@dataclass(frozen=True)
class Diagnosed:
    """What the doctor says of the template and the row shown."""

    findings: tuple[Finding, ...]
    symptoms: tuple[Symptom, ...]


@dataclass(frozen=True)
class Group:
    """One finding over all rows: its rule, how bad, how many rows, and the first of them."""

    rule: str
    severity: str
    rows: int
    first: tuple[int, ...]


@dataclass(frozen=True)
class Scan:
    """What was found in rows ``0:done``.

    Parameters
    ----------
    of : object
        The choices it was made for.
    done : int, rows
    tokens, trained : int, tokens
    groups : tuple of Group
        The worst first, then the most rows first.
    clean : int, rows
        Those with nothing to report.
    limited : int, rows
        Those for which the template passed a limit; after `LIMITED` of them nobody looks further.
    rows : tuple of Row
        The first ones that are trained, up to `SIMULATED` tokens: what truncation is tried on.
    """

    of: Any
    done: int = 0
    tokens: int = 0
    trained: int = 0
    groups: tuple[Group, ...] = ()
    clean: int = 0
    limited: int = 0
    rows: tuple[Row, ...] = field(compare=False, repr=False, default=())

    @property
    def stopped(self) -> bool:
        """Whether looking at further rows was given up."""
        return self.limited >= LIMITED


@dataclass(frozen=True)
class State:
    """What is shown and what was changed.

    Parameters
    ----------
    data : Data
    ways : tuple of Way
        Those offered, as the notebook gave them and as they were saved.
    way : Way
        The present one; its source or parameters may be edited.
    policy : Policy
    index : int
        Which record, from 0.
    edits : tuple of (place, text)
        What was rewritten in that record: ``record`` is its JSON, ``messages.3`` the content of a message.
    show : str
        One of `SHOWN`.
    other : str
        What to compare with: a code of `rivals`; empty: nothing.
    max_length : int, tokens
        0: no limit.
    too_long : str
        One of `prep_lib.chat.process.TOO_LONG`.
    first : int
        The first token drawn of a long row.
    rule : str
        The finding to walk through; empty: any.
    lang : str
    saved : tuple of (name, value)
        The parameters cell as it stands; empty: not known.
    good : Way or None
        The last template that worked, shown while the present one does not.
    parts : tuple of Part
    scan : Scan or None
    """

    data: Data = field(repr=False)
    ways: tuple[Way, ...]
    way: Way
    policy: Policy = field(default_factory=Policy)
    index: int = 0
    edits: tuple[tuple[str, str], ...] = ()
    show: str = "input"
    other: str = ""
    max_length: int = 0
    too_long: str = "drop"
    first: int = 0
    rule: str = ""
    lang: str = "en"
    saved: tuple[tuple[str, Any], ...] = ()
    good: Way | None = None
    parts: tuple[Part, ...] = ()
    scan: Scan | None = None


@dataclass(frozen=True)
class Said:
    """One message of the record shown: its place for an edit, who speaks, and its content."""

    place: str
    role: str
    text: str


@dataclass(frozen=True)
class Work:
    """What becomes of a record.

    Parameters
    ----------
    form : str
        The form it was recognised as; empty: none.
    strands : tuple of Strand
    problem : str
        One line that says why there are none, or why those of the last good template are shown.
    stale : bool
        Whether the tokens are those of `State.good`.
    label : bool or None
        What a rated record is labelled.
    """

    form: str = ""
    strands: tuple[Strand, ...] = ()
    problem: str = ""
    stale: bool = False
    label: bool | None = None


# ---------------------------------------------------------------------------------------------------------------------
# Reading a state
# ---------------------------------------------------------------------------------------------------------------------


def record(state: State) -> Mapping[str, Any] | None:
    """Return the raw record shown, with its JSON as rewritten; None if there is none.

    Raises
    ------
    BadRecord
        If what was typed is no JSON object.
    """
    if not state.data.records:
        return None
    typed = dict(state.edits).get("record")
    return state.data.records[state.index] if typed is None else parse(typed.encode("utf-8", "surrogatepass"))


def reading(state: State) -> tuple[str, Read | None, str]:
    """Return the form, the record in the one form, and the line that says why there is none."""
    return state.data.once(("read", state.index, state.edits), lambda: _reading(state))


def _reading(state: State) -> tuple[str, Read | None, str]:
    form = ""
    try:
        raw = record(state)
        if raw is None:
            return "", None, ""
        form = form_of(raw)
        return form, _edited(read(raw, id=name_of(state)), dict(state.edits)), ""
    except (PrepError, ValueError) as error:
        return form, None, str(error)


def name_of(state: State) -> str:
    """Return where the record shown comes from, ``a.jsonl#L12``; empty where nobody said."""
    return state.data.names[state.index] if state.index < len(state.data.names) else ""


def _edited(found: Read, edits: Mapping[str, str]) -> Read:
    if not edits.keys() - {"record"}:
        return found
    if isinstance(found, Document):
        return replace(found, text=edits.get("text", found.text))
    names = ("prompt", "chosen", "rejected") if isinstance(found, Preference) else ("messages",)
    changed: dict[str, Any] = {
        name: tuple(
            replace(message, content=edits.get(f"{name}.{at}", message.content))
            for at, message in enumerate(getattr(found, name))
        )
        for name in names
    }
    return replace(found, **changed)


def texts(state: State) -> list[Said]:
    """Return the messages of the record shown, in order; what cannot be read has none."""
    found = reading(state)[1]
    if found is None:
        return []
    if isinstance(found, Document):
        return [Said("text", "document", found.text)]
    names = ("prompt", "chosen", "rejected") if isinstance(found, Preference) else ("messages",)
    return [
        Said(f"{name}.{at}", message.role, message.content)
        for name in names
        for at, message in enumerate(getattr(found, name))
    ]


def work(state: State) -> Work:
    """Return the tokens of the record shown; what goes wrong is told in the result, never raised."""
    done = worked(state, state.way, state.policy)
    if done.strands or state.good is None or state.good == state.way:
        return done
    before = worked(state, state.good, state.policy)
    return replace(before, problem=done.problem, stale=True) if before.strands else done


def worked(state: State, way: Way, policy: Policy) -> Work:
    """Return what another way or policy makes of the record shown; worked out once."""
    key = ("work", way, policy, state.index, state.edits)
    return state.data.once(key, lambda: _worked(state, way, policy))


def _worked(state: State, way: Way, policy: Policy) -> Work:
    form, found, problem = reading(state)
    if found is None:
        return Work(form, problem=problem)
    label = found.label if isinstance(found, Rated) else None
    try:
        if isinstance(found, Document):
            return Work(form, (document(state.data.tokenizer, found),))
        make = _maker(state, way, policy)
        return Work(form, tuple(make(key, talk) for key, talk in conversations(found)), label=label)
    except PrepError as error:
        return Work(form, problem=str(error), label=label)
    except Exception as error:  # a strategy of a person's own, half typed: the page says what it raised
        return Work(form, problem=f"{type(error).__name__}: {error}", label=label)


def _maker(state: State, way: Way, policy: Policy) -> Callable[[str, Conversation], Strand]:
    if way.kind == "template":
        chat = template(state, way)
        return lambda key, talk: by_template(chat, key, talk, policy)
    made = strategy(state, way, policy)
    return lambda key, talk: by_strategy(made, state.data.tokenizer, key, talk, policy)


def template(state: State, way: Way) -> ChatTemplate:
    """Return the template of a way, compiled once.

    Raises
    ------
    BadTemplate
        If it does not parse.
    """
    key = ("template", way)
    made = state.data.once(key, lambda: _compiled(state, way))
    if isinstance(made, BadTemplate):
        raise made
    return made


def _compiled(state: State, way: Way) -> ChatTemplate | BadTemplate:
    try:
        return ChatTemplate(way.source, state.data.tokenizer, **{"name": way.name, **way.options})
    except BadTemplate as error:
        return error


def strategy(state: State, way: Way, policy: Policy) -> PromptStrategy:
    """Return the strategy of a way, made once."""
    params = {**dict(way.params), "train_after_stop": policy.train_after_stop}
    key = ("strategy", way, policy.train_after_stop)
    made = state.data.once(key, lambda: StrategyFactory.create(way.name, state.data.tokenizer, **params))
    return made


def defaults(state: State) -> dict[str, Any]:
    """Return the present strategy's parameters as they are when nothing is changed; None for one derived from others.

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
    made = _made(state, dict(state.way.params))
    return dict(made.params) if made is not None else defaults(state) | dict(state.way.params)


def _made(state: State, params: dict[str, Any]) -> PromptStrategy | None:
    """The strategy, or None if it cannot be made; why not is said by `work`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return StrategyFactory.create(state.way.name, state.data.tokenizer, **params)
        except Exception:  # of a person's own strategy, half typed
            return None


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


# ---------------------------------------------------------------------------------------------------------------------
# What is left of a row that is too long
# ---------------------------------------------------------------------------------------------------------------------


def kept(state: State, strands: Sequence[Strand]) -> list[int] | str:
    """Return how many tokens of each sequence are left under the limit, or the reason for which the row is dropped."""
    limit = state.max_length
    if not limit or all(len(strand.tokens) <= limit for strand in strands):
        return [len(strand.tokens) for strand in strands]
    left, _ = fit(as_row(strands), limit, state.too_long)
    return left.reason if isinstance(left, Drop) else [len(left.arrays[strand.key]) for strand in strands]


# ---------------------------------------------------------------------------------------------------------------------
# Changing a state
# ---------------------------------------------------------------------------------------------------------------------


def start(
    tokenizer: AutoTokenizer,
    records: Sequence[Mapping[str, Any]],
    *,
    templates: Mapping[str, str | ChatTemplate] | None = None,
    strategies: Sequence[str] | None = None,
    way: str = "",
    params: Mapping[str, Any] | None = None,
    names: Sequence[str] = (),
    policy: Policy | None = None,
    **shown: Any,
) -> State:
    """Return the first state; its choices are those of the parameters cell.

    Parameters
    ----------
    templates : mapping of str to str or ChatTemplate, or None
        By the name the parameters cell gives them.
    strategies : sequence of str or None
        None: all that are registered.
    way : str
        The name of a template or strategy to begin with; empty: the first template, else the first strategy.
    params : mapping or None
        Parameters of that strategy.
    names : sequence of str
        Where each record comes from.
    **shown
        Other fields of `State`: ``lang``, ``max_length``, ``too_long``, ``show``, ``other``.

    Raises
    ------
    UnknownName
        If nothing offered has that name.
    BadParameter
        If there is nothing to choose from, or a field has a value it cannot have.
    """
    offered = [_offered(name, given) for name, given in (templates or {}).items()]
    offered += [Way("strategy", name) for name in (StrategyFactory.names() if strategies is None else strategies)]
    if not offered:
        raise BadParameter("workbench: neither a template nor a strategy was given")
    chosen = next((one for one in offered if one.name == way), None) if way else offered[0]
    if chosen is None:
        raise unknown("workbench", "template or strategy", way, (one.name for one in offered))
    if chosen.kind == "strategy" and params:
        chosen = replace(chosen, params=tuple(sorted(params.items())))
    made = State(
        Data(tokenizer, records, names), tuple(offered), chosen, policy or Policy(), good=_good(chosen), **shown
    )
    _check(made)
    return save(made)


def _offered(name: str, given: str | ChatTemplate) -> Way:
    if isinstance(given, str):
        return Way("template", name, given)
    options = {
        "variables": given.variables, "now": given.now, "content_specials": given.content_specials,
        "stops": given.stops,
    }  # fmt: skip
    return Way("template", name, given.source, options=options)


def _good(way: Way) -> Way | None:
    return way if way.kind == "template" else None


def _check(state: State) -> None:
    for name, allowed in (("show", SHOWN), ("too_long", TOO_LONG)):
        if getattr(state, name) not in allowed:
            raise BadParameter(f"workbench: {name} must be one of {', '.join(allowed)}, got {getattr(state, name)!r}")
    if state.max_length < 0:
        raise BadParameter(f"workbench: max_length must be 0 (no limit) or more tokens, got {state.max_length}")


def with_way(state: State, name: str) -> State:
    """Take another of the ways offered, as it was offered; the present one again keeps what was edited."""
    chosen = next((way for way in state.ways if label(way) == name), None)
    if chosen is None or name == label(state.way):
        return state
    return replace(state, way=chosen, good=_good(chosen))


def label(way: Way) -> str:
    """Return what a way is called where several are offered.

    Examples
    --------
    >>> label(Way("strategy", "chatml"))
    'strategy: chatml'
    """
    return f"{way.kind}: {way.name}"


def original(state: State) -> Way | None:
    """Return the present way as it was offered."""
    return next((way for way in state.ways if label(way) == label(state.way)), None)


def edited(state: State) -> bool:
    """Tell whether the template's text differs from the one offered."""
    first = original(state)
    return state.way.kind == "template" and (first is None or first.source != state.way.source)


def with_source(state: State, text: str) -> State:
    """Take the text of a template as typed; while it does not work, the last one that did is remembered."""
    if state.way.kind != "template" or text == state.way.source:
        return state
    turned = replace(state, way=replace(state.way, source=text))
    works = bool(worked(turned, turned.way, turned.policy).strands)
    return replace(turned, good=turned.way) if works else turned


def with_param(state: State, name: str, value: Any, default: Any = None) -> State:
    """Change one parameter of the strategy; back at its default it is forgotten."""
    old = {key: was for key, was in state.way.params if key != name}
    if value != default:
        old[name] = value
    return replace(state, way=replace(state.way, params=tuple(sorted(old.items()))))


def with_policy(state: State, name: str, value: Any) -> State:
    """Change one part of the policy."""
    return replace(state, policy=replace(state.policy, **{name: value}))


def with_index(state: State, index: int) -> State:
    """Show another record; what was rewritten belonged to the one before."""
    index = max(0, min(index, len(state.data.records) - 1))
    return state if index == state.index else replace(state, index=index, edits=(), first=0)


def rewrite(state: State, place: str, text: str) -> State:
    """Rewrite the content of a message, or with ``record`` the JSON of the whole record."""
    before = dict(state.edits)
    if place == "record":
        turned = replace(state, edits=() if text == as_json(replace(state, edits=())) else (("record", text),))
        return turned
    whole = before.get("record")
    plain = replace(state, edits=() if whole is None else (("record", whole),))
    known = {said.place: said.text for said in texts(plain)}
    after = {key: value for key, value in before.items() if key != place}
    if place in known and text != known[place]:
        after[place] = text
    return replace(state, edits=tuple(sorted(after.items())))


def as_json(state: State) -> str:
    """Return the record shown as a person may rewrite it."""
    typed = dict(state.edits).get("record")
    if typed is not None or not state.data.records:
        return typed or ""
    return json.dumps(state.data.records[state.index], ensure_ascii=False, indent=1, default=str)


def reset(state: State) -> State:
    """Forget what was rewritten: record, template and parameters."""
    first = original(state) or state.way
    return replace(state, edits=(), way=first, good=_good(first))


# ---------------------------------------------------------------------------------------------------------------------
# Finding one's way
# ---------------------------------------------------------------------------------------------------------------------


def search(state: State, text: str, step: int = 1) -> State:
    """Show the next (or with -1 the previous) record that holds a text, whatever its case, round the end."""
    wanted, n = text.casefold(), len(state.data.records)
    if not wanted:
        return state
    for away in range(1, n + 1):
        index = (state.index + step * away) % n
        raw = json.dumps(state.data.records[index], ensure_ascii=False, default=str)
        if wanted in raw.casefold():
            return with_index(state, index)
    return state


def walk(state: State, step: int = 1) -> State:
    """Show the next (or with -1 the previous) row in which the chosen finding was made, round the end."""
    groups = state.scan.groups if state.scan is not None else ()
    rows = sorted({row for group in groups if state.rule in ("", group.rule) for row in group.first})
    if not rows:
        return state
    if step > 0:
        return with_index(state, next((row for row in rows if row > state.index), rows[0]))
    return with_index(state, next((row for row in reversed(rows) if row < state.index), rows[-1]))


# ---------------------------------------------------------------------------------------------------------------------
# What to compare with
# ---------------------------------------------------------------------------------------------------------------------


def rivals(state: State) -> list[str]:
    """Return the codes of what may be compared with: nothing, the other ways, the policy with one part turned.

    Examples
    --------
    >>> rivals(start(None, [], strategies=["alpaca", "chatml"]))[:2]
    ['', 'strategy: chatml']
    """
    others = [label(way) for way in state.ways if way != state.way or label(way) == state.other]
    return ["", *others, *(f"policy: {name}" for name in TURNS)]


def rival(state: State) -> tuple[Way, Policy] | None:
    """Return the way and policy to compare with, None for nothing."""
    kind, _, name = state.other.partition(": ")
    if kind == "policy":
        return state.way, replace(state.policy, **{name: _turned(state.policy, name)})
    way = next((way for way in state.ways if label(way) == state.other), None)
    return None if way is None else (way, state.policy)


def _turned(policy: Policy, name: str) -> Any:
    value = getattr(policy, name)
    return ANSWERS[1 - ANSWERS.index(value)] if isinstance(value, str) else not value


# ---------------------------------------------------------------------------------------------------------------------
# Slower parts
# ---------------------------------------------------------------------------------------------------------------------


def _findings(state: State, repair: bool = False) -> Diagnosed:
    """Look at the row shown as the data have it, or at its sequences as rewritten: `TokenAt.row` then counts them."""
    chat = template(state, state.way)
    talks: Sequence[Any] = [talk for _, talk in _talks(state)]
    if len(talks) == 1 and not state.edits:
        talks = [state.data.records[state.index]]
    longest = state.max_length or None
    found = tuple(diagnose(chat, conversations=talks or None, policy=state.policy, max_length=longest, repair=repair))
    looked = ("template", "tokenizer", "data") if talks else ("template", "tokenizer")
    return Diagnosed(found, tuple(symptoms(found, looked)))


def _repairs(state: State) -> Diagnosed:
    """Return the findings with their repairs: these are proven by rendering, the slower half, so they come last."""
    found, current = part(state, "findings")
    nothing = found is not None and current and found.value is not None and not found.value.findings
    return found.value if found is not None and nothing else _findings(state, repair=True)


def _methods(state: State) -> Mapping[str, Found]:
    return side_by_side(template(state, state.way), _talks(state)[0][1], state.policy)


def _talks(state: State) -> list[tuple[str, Conversation]]:
    found = reading(state)[1]
    return [] if found is None or isinstance(found, Document) else conversations(found)


def _losses(state: State) -> Sequence[Loss]:
    return tuple(simulate(state.scan.rows if state.scan is not None else (), [state.max_length]))


def _judged(state: State) -> bool:
    return state.way.kind == "template" and bool(state.data.records)


#: name -> (whether a state has it, what works it out)
PARTS: Mapping[str, tuple[Callable[[State], bool], Callable[[State], Any]]] = {
    "findings": (_judged, _findings),
    "methods": (lambda state: _judged(state) and bool(_talks(state)), _methods),
    "truncation": (lambda state: bool(state.max_length and state.scan is not None and state.scan.rows), _losses),
    "repairs": (_judged, _repairs),
}


def has(state: State, name: str) -> bool:
    """Tell whether a state can have a part at all: a strategy has no template to be judged."""
    return PARTS[name][0](state)


def of(state: State, name: str) -> Any:
    """Return what a part is worked out for: where this is the same, the part is the same."""
    here = (state.way, state.policy, state.index, state.edits)
    limited = {"findings": (*here, state.max_length), "repairs": (*here, state.max_length)}
    return {**limited, "truncation": (state.max_length, state.scan)}.get(name, here)


def pending(state: State) -> list[str]:
    """Return the parts that are missing or belong to other choices."""
    now = {part.name: part.of for part in state.parts}
    return [name for name in PARTS if has(state, name) and (name not in now or now[name] != of(state, name))]


def part(state: State, name: str) -> tuple[Part | None, bool]:
    """Return a part and whether it belongs to the present choices; None where this state can have none.

    The findings are those with their repairs once these are there.
    """
    found = _kept(state, name) if has(state, name) else None
    repaired = _kept(state, "repairs") if name == "findings" else None
    if found is not None and repaired is not None and repaired.of == found.of and not repaired.problem:
        found = repaired
    return found, found is not None and found.of == of(state, name)


def _kept(state: State, name: str) -> Part | None:
    return next((one for one in state.parts if one.name == name), None)


def with_part(state: State, name: str) -> State:
    """Work out one part; what goes wrong is kept as its problem."""
    value, problem = None, ""
    try:
        value = PARTS[name][1](state)
    except Exception as error:  # judged by code that reads whatever a person typed: the page says what it raised
        problem = str(error) if isinstance(error, PrepError) else f"{type(error).__name__}: {error}"
    made = Part(name, of(state, name), value, problem)
    return replace(state, parts=(*(one for one in state.parts if one.name != name), made))


def repair(state: State) -> Repair | None:
    """Return the first proven repair of the present template's text, None if there is none."""
    found, current = part(state, "findings")
    if found is None or not current or found.value is None:
        return None
    fixes = (one.repair for one in found.value.findings if one.repair is not None)
    return next((fix for fix in fixes if fix.template and fix.template != state.way.source), None)


def repaired(state: State) -> State:
    """Take the repaired text of the template."""
    fix = repair(state)
    return state if fix is None or fix.template is None else with_source(state, fix.template)


def settle(state: State, rows: int = 0) -> State:
    """Work out every part, and look at up to this many rows: what a report shows."""
    fresh = state.scan is None or state.scan.of != scan_of(state)
    if rows and (fresh or not scanned(state)):
        state = scan_some(state, rows if fresh or state.scan is None else max(0, rows - state.scan.done))
    for name in pending(state):
        state = with_part(state, name)
    return state


# ---------------------------------------------------------------------------------------------------------------------
# All rows
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """One row: what was found in it as (rule, severity), its arrays if trained, and whether a limit was met."""

    found: tuple[tuple[str, str], ...]
    row: Row | None = None
    limited: bool = False


def scan_of(state: State) -> Any:
    """Return the choices a scan belongs to."""
    return state.way, state.policy


def scanned(state: State) -> bool:
    """Tell whether the present choices need no further look at any row."""
    scan = state.scan
    return scan is not None and scan.of == scan_of(state) and (scan.stopped or scan.done >= len(state.data.records))


def scan_some(state: State, rows: int) -> State:
    """Look at the next rows, at most this many; other choices begin again."""
    before = state.scan if state.scan is not None and state.scan.of == scan_of(state) else Scan(scan_of(state))
    span = range(before.done, min(before.done + rows, len(state.data.records)))
    return replace(state, scan=_grown(before, zip(span, reports(state, span), strict=True), span.stop))


def reports(state: State, span: range) -> list[Report]:
    """Look at rows as they are, without what was rewritten."""
    reads = [_raw(state, index) for index in span]
    try:
        if state.way.kind == "template":
            return _by_doctor(state, template(state, state.way), span, reads)
        make = _maker(state, state.way, state.policy)
    except PrepError as error:  # one line says above what is wrong; here it is why no row is trained
        return [Report(((type(error).__name__, "error"),)) for _ in reads]
    return [_report(state, found, make) for found in reads]


def _raw(state: State, index: int) -> Read | BadRecord:
    try:
        return read(state.data.records[index])
    except BadRecord as error:
        return error


def _by_doctor(state: State, chat: ChatTemplate, span: range, reads: Sequence[Read | BadRecord]) -> list[Report]:
    raw = [
        found if isinstance(found, BadRecord) else state.data.records[at] for at, found in zip(span, reads, strict=True)
    ]
    told = scan(chat, raw, state.policy, start=span.start)
    return [
        Report((), as_row([document(state.data.tokenizer, found)]))
        if isinstance(found, Document)
        else _told_of(one, row)
        for one, found, row in zip(told, reads, _arrays(chat, state.policy, reads), strict=True)
    ]


def _told_of(one: RowReport, row: Row | Drop | BadRecord | None) -> Report:
    found = [(rule, RULES[rule][0] if rule in RULES else "error") for rule in one.rules]
    # What the doctor calls by its own name is not said twice.
    reason = row.reason if isinstance(row, Drop | BadRecord) else ""
    said = reason.upper() in one.rules or any(severity == "error" for _, severity in found)
    found += [(reason, "error")] if reason and not said else []
    return Report(tuple(found), row if isinstance(row, Row) else None, one.limited)


def _arrays(
    chat: ChatTemplate, policy: Policy, reads: Sequence[Read | BadRecord]
) -> list[Row | Drop | BadRecord | None]:
    """The arrays a processor would write, or why there are none; None: not a conversation."""
    pairs = [found for found in reads if isinstance(found, Preference)]
    talks = [found for found in reads if isinstance(found, Conversation | Rated)]
    two, one = iter(rendered.pairs(chat, policy, pairs)), iter(rendered.rows(chat, policy, talks))
    return [
        next(two) if isinstance(found, Preference) else next(one) if isinstance(found, Conversation | Rated) else None
        for found in reads
    ]


def _report(state: State, found: Read | BadRecord, make: Callable[[str, Conversation], Strand]) -> Report:
    """Look at a row a strategy writes."""
    if isinstance(found, BadRecord):
        return Report(((found.reason, "error"),))
    try:
        if isinstance(found, Document):
            return Report((), as_row([document(state.data.tokenizer, found)]))
        strands = [make(key, talk) for key, talk in conversations(found)]
    except Exception as error:  # of a person's own strategy
        return Report(((getattr(error, "reason", type(error).__name__), "error"),))
    told = [(strand.problem[0], "error") for strand in strands if strand.problem]
    told += [("LITERAL_SPECIAL_IN_CONTENT", "warning") for strand in strands if strand.literal]
    whole = all(strand.problem is None for strand in strands)
    return Report(tuple(dict.fromkeys(told)), as_row(strands) if whole else None)


def _grown(scan: Scan, found: Iterable[tuple[int, Report]], done: int) -> Scan:
    groups: dict[tuple[str, str], list[int]] = {(one.rule, one.severity): list(one.first) for one in scan.groups}
    counts = {(one.rule, one.severity): one.rows for one in scan.groups}
    clean, rows, room = scan.clean, list(scan.rows), SIMULATED - sum(row.tokens for row in scan.rows)
    tokens, trained = scan.tokens, scan.trained
    limited = scan.limited
    for index, report in found:
        limited += report.limited
        clean += not report.found
        for key in report.found:
            held = groups.setdefault(key, [])
            counts[key] = counts.get(key, 0) + 1
            if len(held) < WALKED:
                held.append(index)
        if report.row is not None:
            tokens += report.row.tokens
            trained += sum(int(array.sum()) for name, array in report.row.arrays.items() if name.endswith("mask"))
            if report.row.tokens <= room:
                rows.append(report.row)
                room -= report.row.tokens
    made = [Group(*key, counts[key], tuple(first)) for key, first in groups.items()]
    made.sort(key=lambda group: (SEVERITIES.index(group.severity), -group.rows, group.rule))
    return Scan(scan.of, done, tokens, trained, tuple(made), clean, limited, tuple(rows))


# ---------------------------------------------------------------------------------------------------------------------
# Parameters, and what is saved
# ---------------------------------------------------------------------------------------------------------------------


def parameters(state: State) -> dict[str, Any]:
    """Return the choices as the plain scalars of a parameters cell.

    ``template`` is empty where a strategy was chosen, and only then is anything said of it: ``strategy_params`` is one
    string, as `prep_lib.recipes.pairs` reads it, a flag a parameter of its own.

    Examples
    --------
    >>> told = parameters(start(None, [], strategies=["chatml"], params={"user_end": "</s>"}))
    >>> told["template"], told["strategy"], told["strategy_params"]
    ('', 'chatml', "'user_end=</s>'")
    """
    told: dict[str, Any] = {"template": state.way.name if state.way.kind == "template" else ""}
    if state.way.kind == "strategy":
        own = dict(state.way.params)
        flags = {name: value for name, value in own.items() if isinstance(value, bool)}
        pieces = [f"{name}={value}".replace("\n", "\\n") for name, value in own.items() if name not in flags]
        told |= {"strategy": state.way.name, "strategy_params": " ".join(map(shlex.quote, pieces)), **flags}
    policy = {name: getattr(state.policy, name) for name in ("answers", *FLAGS)}
    return {**told, **policy, "max_length": state.max_length, "too_long": state.too_long}


def save(state: State) -> State:
    """Return the state whose choices are those of the parameters cell."""
    return replace(state, saved=tuple(parameters(state).items()))


def unsaved(state: State) -> str:
    """Return the lines to put into the parameters cell; empty when it says the same already."""
    told, before = parameters(state), dict(state.saved)
    if not before:
        return ""
    return "\n".join(f"{name} = {value!r}" for name, value in told.items() if before.get(name) != value)


def stored(state: State, place: str) -> State:
    """Take the edited template for one that lies at a place, after it was written there."""
    made = replace(state.way, name=place)
    others = tuple(way for way in state.ways if label(way) != label(made))
    return replace(state, ways=(made, *others), way=made, good=made)


def files(state: State) -> dict[str, str]:
    """Return what Save writes, by file name: the template, and the findings as JSON.

    The recipe entry is `parameters`. Missing parts are worked out.
    """
    told = {"findings.json": json.dumps(_told(settle(state)), ensure_ascii=False, indent=1, default=_plain) + "\n"}
    return {"template.jinja": state.way.source, **told} if state.way.kind == "template" else told


def _told(state: State) -> dict[str, Any]:
    scan = state.scan
    findings, current = part(state, "findings")
    chat = worked(state, state.way, state.policy)
    return {
        "choices": parameters(state),
        "template_sha256": template(state, state.way).sha256 if state.way.kind == "template" and chat.strands else None,
        "findings": findings.value.findings if findings is not None and current and findings.value is not None else (),
        "rows": None if scan is None else {
            "of": len(state.data.records), "looked_at": scan.done, "clean": scan.clean, "tokens": scan.tokens,
            "trained": scan.trained, "found": [_group(state, group) for group in scan.groups],
        },
    }  # fmt: skip


def _group(state: State, group: Group) -> dict[str, Any]:
    names = state.data.names
    first = [names[row] if row < len(names) else row for row in group.first[:100]]
    return {"rule": group.rule, "severity": group.severity, "rows": group.rows, "first": first}


def _plain(value: Any) -> Any:
    """What JSON does not know, as plain values."""
    if isinstance(value, Mapping):
        return dict(value)
    return {one.name: getattr(value, one.name) for one in fields(value)} if is_dataclass(value) else str(value)
