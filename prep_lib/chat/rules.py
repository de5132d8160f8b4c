"""One rule for each way a template, a tokenizer and data go wrong together, over one rendered conversation at a time.

    Case ─┬─ cheap:    from the one rendering         who is said whole, which answers stop, what is a target
          └─ thorough: rendered again, otherwise      prefixes, another day, the generation tags, without nulls
          ──▶ Hit(rule, detail, spans)              characters of the text as evidence; all hits of a rule: one finding

Whether something is lost is never guessed from the source: each rendered character knows the field it came from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from prep_lib.chat.conversation import ROLES
from prep_lib.chat.mask import Laid, Policy, Target, Unproven, lay, mask_of
from prep_lib.chat.symptoms import plural
from prep_lib.chat.template import REASONING, ChatTemplate, Encoded, Rendered
from prep_lib.errors import BadRecord, BadTemplate
from prep_lib.record import Conversation, Message
from prep_lib.tokens.joint import Placed
from prep_lib.traced import Run

#: Rule -> its severity where data or a plain chat show it, and where only one of our special probes does.
RULES: Mapping[str, tuple[str, str]] = {
    "TEMPLATE_FAILS": ("error", "error"),
    "PROMPT_NOT_RENDERED": ("error", "warning"),
    "DOUBLE_BOS": ("warning", "warning"),
    "DOUBLE_EOS": ("warning", "warning"),
    "PAD_IS_EOS": ("warning", "warning"),
    "MARKER_NOT_SINGLE_TOKEN": ("error", "warning"),
    "EOT_NOT_TRAINED": ("error", "error"),
    "NO_TERMINATOR_MID_TURN": ("error", "error"),
    "HEADER_IN_TRAINED_SPAN": ("warning", "warning"),
    "TEXT_AFTER_EOT_TRAINED": ("warning", "warning"),
    "PROMPT_IN_TRAINED_SPAN": ("error", "error"),
    "ANSWER_NOT_IN_TAGS": ("error", "warning"),
    "GENERATION_PROMPT_MISMATCH": ("error", "error"),
    "NOT_PREFIX_PRESERVING": ("warning", "warning"),
    "BORDER_TOKEN_MERGES": ("error", "note"),
    "EMPTY_THINK_TRAINED": ("warning", "warning"),
    "REASONING_DROPPED_FROM_HISTORY": ("warning", "warning"),
    "REASONING_DROPPED": ("error", "note"),
    "SYSTEM_DROPPED_IN_TRAINING": ("error", "error"),
    "SYSTEM_DROPPED": ("error", "warning"),
    "MID_SYSTEM_DROPPED": ("error", "note"),
    "SYSTEM_REFUSED": ("error", "note"),
    "DEFAULT_SYSTEM_INJECTED": ("warning", "warning"),
    "RENDER_DEPENDS_ON_DATE": ("warning", "warning"),
    "CONTENT_TRIMMED": ("warning", "warning"),
    "CONTENT_CUT": ("error", "warning"),
    "CONTENT_NULL_FAILS": ("error", "note"),
    "MESSAGE_DROPPED": ("error", "warning"),
    "ROLE_REFUSED": ("error", "note"),
    "ROLES_NOT_ALTERNATING": ("error", "note"),
    "TOOLS_NOT_RENDERED": ("warning", "note"),
    "TOOLS_REFUSED": ("error", "note"),
    "TOOL_CALLS_DROPPED": ("error", "note"),
    "TOOL_RESULT_DROPPED": ("error", "note"),
    "TOOL_ARGUMENTS_DICT_FAIL": ("error", "warning"),
    "TOOL_ARGUMENTS_STRING_FAIL": ("error", "note"),
    "STRUCT_PADDING_RENDERED": ("warning", "note"),
    "LITERAL_SPECIAL_IN_CONTENT": ("warning", "note"),
    "NO_TARGET": ("warning", "note"),
    "TOO_LONG": ("warning", "note"),
    "NO_GENERATION_PROMPT": ("note", "note"),
    "NO_GENERATION_TAGS": ("note", "note"),
    "ANSWER_STARTS_WITH_BLANK": ("note", "note"),
    "PREFERENCE_PROMPT_DIFFERS": ("error", "error"),
    "RECORD_UNREADABLE": ("error", "error"),
}

#: What `prep_lib.jinja` says when a template passes a limit: whoever does so once may do so each time.
_LIMIT = re.compile(
    r"more than [\d,]+ (?:loop steps|characters|numbers|deep|bits)|more memory|field width|at most [\d,]+"
)
_THINK_TAG = re.compile(r"</?(?:seed:)?think>")
_THOUGHT = re.compile(r"<((?:seed:)?think)>(.*?)</\1>", re.DOTALL)
_EMPTY_THOUGHT = re.compile(r"<((?:seed:)?think)>\s*</\1>")
_CALL = re.compile(r"tool_calls\[(\d+)\]\.(?:function\.)?(name|arguments)")

_PAST = "REASONING_DROPPED_FROM_HISTORY"

Span = tuple[int, int]


class Hit(NamedTuple):
    """A rule that was met in one conversation.

    Parameters
    ----------
    rule : str
    detail : str
        What, in words and numbers.
    spans : tuple of (start, stop)
        Characters of the rendered text; the tokens there are the evidence.
    """

    rule: str
    detail: str
    spans: tuple[Span, ...] = ()


class Said(NamedTuple):
    """What of a message is in the text.

    Parameters
    ----------
    content : list of (start, stop)
        Of its content, as it was written there.
    rewritten : bool
        Some of the content is there otherwise (escaped), so that nothing can be said of what is missing.
    reasoning : bool
    calls : set of (call, part)
        ``(0, "name")``, ``(0, "arguments")``.
    framed : bool
        The template wrote anything in its turn.
    """

    content: list[Span]
    rewritten: bool
    reasoning: bool
    calls: set[tuple[int, str]]
    framed: bool


@dataclass(frozen=True)
class Case:
    """A conversation, rendered and laid out, with what failed on the way.

    Parameters
    ----------
    row : int
        Index of the conversation as given; -1: one of our probes.
    template : ChatTemplate
    conversation : Conversation
    policy : Policy
    said : tuple of mapping or None
        The messages as the data have them, before they took our form; None: not known.
    tools : tuple of mapping or None
        The same for tools.
    """

    row: int
    template: ChatTemplate
    conversation: Conversation
    policy: Policy
    said: tuple[Mapping[str, Any], ...] | None = None
    tools: tuple[Mapping[str, Any], ...] | None = None
    quick: bool = False

    @cached_property
    def _laid(self) -> tuple[Rendered | None, Laid | None, tuple[str, str]]:
        try:
            laid = lay(self.template, self.conversation, self.policy, thorough=not self.quick)
            return laid.rendered, laid, ("", "")
        except BadRecord as error:
            return None, None, (error.reason, error.detail)
        except Unproven as error:
            return self._render(), None, (error.reason, error.detail)

    def _render(self) -> Rendered | None:
        try:
            return self.template.render(self.conversation.messages, self.conversation.tools or None)
        except BadTemplate:
            return None

    @property
    def rendered(self) -> Rendered | None:
        """The text; None if there is none."""
        return self._laid[0]

    @property
    def laid(self) -> Laid | None:
        """The targets; None if they cannot be proven, and `problem` says why."""
        return self._laid[1]

    @property
    def problem(self) -> tuple[str, str]:
        """Reason and detail of what failed; two empty texts if nothing did."""
        return self._laid[2]

    @property
    def limited(self) -> bool:
        """Whether the template passed a limit."""
        return self.rendered is None and bool(_LIMIT.search(self.problem[1]))

    @cached_property
    def texts(self) -> tuple[str | None, str | None]:
        """The text without and with the generation prompt; None where it fails."""
        return self.text_by(self.template, False), self.text_by(self.template, True)

    def text_by(self, template: ChatTemplate, prompt: bool = False) -> str | None:
        """Return the text another template gives; None where it fails."""
        try:
            return template.text(self.conversation.messages, self.conversation.tools or None, prompt)
        except BadTemplate:
            return None

    @cached_property
    def encoded(self) -> Encoded:
        """The ids; only where there is a text."""
        assert self.rendered is not None
        return self.template.encode(self.rendered)

    @cached_property
    def placed(self) -> Placed:
        """The ids and where the borders are; only where there are targets."""
        assert self.laid is not None
        return self.template.encode_rows([self.laid.row()])[0]

    def place(self, placed: Placed) -> None:
        """Take ids that were made together with those of other rows."""
        vars(self)["placed"] = placed

    @property
    def size(self) -> int:
        """How many tokens; 0 where there is no text."""
        if self.laid is not None:
            return len(self.placed.ids)
        return 0 if self.rendered is None else len(self.encoded.ids)

    @cached_property
    def mask(self) -> np.ndarray | Unproven | None:
        """The mask of the rule, (n,) bool; why it cannot be proven; None where there are no targets to prove."""
        if self.laid is None:
            return None
        try:
            return mask_of(self.laid, self.placed)
        except Unproven as error:
            return error

    @cached_property
    def spoken(self) -> list[Said]:
        """What of each message is in the text."""
        assert self.rendered is not None
        return _spoken(self.rendered, len(self.conversation.messages))

    def span(self, at: int) -> Span:
        """Return the characters of a token."""
        return int(self.encoded.starts[at]), int(self.encoded.stops[at])

    def positions(self, spans: Sequence[Span]) -> list[int]:
        """Return the tokens that hold characters of the spans; an empty span stands for the token before it."""
        starts, stops = self.encoded.starts, self.encoded.stops
        found: list[int] = []
        for start, stop in spans:
            if start == stop:
                found += [int(np.searchsorted(starts, start)) - 1] if start else [0]
            else:
                found += np.flatnonzero((starts < stop) & (np.maximum(stops, starts + 1) > start)).tolist()
        return [at for at in dict.fromkeys(found) if 0 <= at < len(starts)]


def _spoken(rendered: Rendered, count: int) -> list[Said]:
    out = [Said([], False, False, set(), False) for _ in range(count)]
    framed, rewritten, thought = set(), set(), set()
    for run in rendered.runs:
        if run.frame is not None:
            framed.add(run.frame)
        if run.origin is None or run.origin.message is None:
            continue
        at, field = run.origin.message, run.origin.field
        if field == "content" or field.startswith("content["):
            if run.at < 0:
                rewritten.add(at)
            else:
                out[at].content.append((run.at, run.at + run.stop - run.start))
        elif field in REASONING:
            thought.add(at)
        elif found := _CALL.match(field):
            out[at].calls.add((int(found[1]), found[2]))
    return [
        said._replace(rewritten=at in rewritten, reasoning=at in thought, framed=at in framed)
        for at, said in enumerate(out)
    ]


# ---------------------------------------------------------------- from one rendering


def cheap(case: Case) -> Iterator[Hit]:
    """Yield what the one rendering of a conversation shows."""
    if case.rendered is None:
        yield why_failed(case)
        return
    lost = list(_messages(case))
    if any(hit.rule == "REASONING_DROPPED" for hit in lost):
        # The last thought goes as well: nothing is special about the history.
        lost = [hit._replace(rule="REASONING_DROPPED") if hit.rule == _PAST else hit for hit in lost]
    yield from lost
    yield from _tools(case)
    yield from _problem(case)
    if case.laid is not None:
        yield from _stops(case, case.laid)
        yield from _openings(case, case.laid)
        yield from _empty_thoughts(case, case.laid)
    yield from _literal(case)


def _messages(case: Case) -> Iterator[Hit]:
    """What messages say that is not in the text."""
    dropped = []
    for at, (message, said) in enumerate(zip(case.conversation.messages, case.spoken, strict=True)):
        yield from _calls_lost(at, message, said)
        if message.reasoning and message.reasoning.strip() and not said.reasoning:
            yield _thought_lost(case, at, message.reasoning)
        if not message.content or said.rewritten:
            continue
        if said.content:
            yield from _content_lost(case, at, message, said)
        elif not message.content.strip():
            blanks = plural(len(message.content), "blank is", "blanks are")
            yield Hit("CONTENT_TRIMMED", f"messages[{at}]: {blanks} all it says, and not in the text")
        elif message.role == "system":
            yield _system_lost(case, at)
        elif said.calls:
            yield Hit("CONTENT_CUT", f"messages[{at}]: its text {show(message.content)} is lost, its calls are not")
        elif message.role == "tool":
            yield Hit("TOOL_RESULT_DROPPED", f"messages[{at}]: the tool's result {show(message.content)} is not there")
        else:
            dropped.append(at)
    if dropped:
        roles = ", ".join(dict.fromkeys(repr(case.conversation.messages[at].role) for at in dropped))
        of = f"of {len(case.spoken)} messages"
        count = plural(len(dropped), f"{of} is", f"{of} are")
        detail = f"messages {dropped} (role {roles}): {count} not in the text"
        yield Hit("MESSAGE_DROPPED", detail)


def show(text: str) -> str:
    """Quote a text, at most 40 characters of it."""
    return repr(text if len(text) <= 40 else text[:39] + "…")


def _calls_lost(at: int, message: Message, said: Said) -> Iterator[Hit]:
    lost = []
    for number, call in enumerate(message.tool_calls):
        function = call.get("function", call)
        parts = [part for part in ("name", "arguments") if isinstance(function, Mapping) and function.get(part)]
        lost += [f"{part} of call {number}" for part in parts if (number, part) not in said.calls]
    if lost:
        count = plural(len(message.tool_calls), "tool call")
        whole = "none of it is in the text" if not said.calls else f"{', '.join(lost[:4])} not in the text"
        yield Hit("TOOL_CALLS_DROPPED", f"messages[{at}]: {count}, {whole}")


def _content_lost(case: Case, at: int, message: Message, said: Said) -> Iterator[Hit]:
    content = message.content
    gaps = _gaps(said.content, len(content))
    lost = [content[start:stop] for start, stop in gaps]
    if not lost:
        return
    thoughts = [found.span(2) for found in _THOUGHT.finditer(content)]
    thoughts += [(0, content.find("</think>"))] if not thoughts and "</think>" in content else []
    real = [gap for gap, text in zip(gaps, lost, strict=True) if _THINK_TAG.sub("", text).strip()]
    if real and all(_in_thought(gap, thoughts, content) for gap in real):
        yield _thought_lost(case, at, content[thoughts[0][0] : thoughts[0][1]])
    elif real:
        start, stop = real[0]
        yield Hit("CONTENT_CUT", f"messages[{at}]: characters {start} to {stop} {show(content[start:stop])} are lost")
    elif outer := [
        text for (start, stop), text in zip(gaps, lost, strict=True)
        if (start == 0 or stop == len(content)) and not text.strip()
    ]:  # fmt: skip
        blanks = plural(sum(map(len, outer)), "blank at its ends is", "blanks at its ends are")
        where = list(_runs_of(case, at))[:1]
        detail = f"messages[{at}] ({message.role}): {blanks} lost"
        yield Hit("CONTENT_TRIMMED", detail, tuple((run.start, run.stop) for run in where))


def _gaps(covered: Sequence[Span], size: int) -> list[Span]:
    gaps, at = [], 0
    for start, stop in sorted(covered):
        if start > at:
            gaps.append((at, start))
        at = max(at, stop)
    return [*gaps, (at, size)] if at < size else gaps


def _in_thought(gap: Span, thoughts: Sequence[Span], content: str) -> bool:
    """Tell whether a gap holds nothing but thought, its tags and the blanks behind them."""
    start, stop = gap
    for first, last in thoughts:
        behind = content[last:stop]
        if start <= first < last and not _THINK_TAG.sub("", content[start:first]).strip() and stop >= first:
            return not _THINK_TAG.sub("", behind).strip()
        if first <= start <= last:
            return not _THINK_TAG.sub("", behind).strip()
    return False


def _runs_of(case: Case, at: int) -> Iterator[Run]:
    assert case.rendered is not None
    for run in case.rendered.runs:
        if run.origin is not None and run.origin.message == at and run.origin.field == "content":
            yield run


def _thought_lost(case: Case, at: int, thought: str) -> Hit:
    messages = case.conversation.messages
    later = any(message.role == "user" for message in messages[at + 1 :])
    rule = _PAST if later else "REASONING_DROPPED"
    what = "an earlier answer" if later else "the last answer"
    return Hit(rule, f"messages[{at}]: the thought {show(thought.strip())} of {what} is not in the text")


def _system_lost(case: Case, at: int) -> Hit:
    text = show(case.conversation.messages[at].content)
    if any(message.role != "system" for message in case.conversation.messages[:at]):
        return Hit("MID_SYSTEM_DROPPED", f"messages[{at}]: the system text {text} behind the first turn is not there")
    if _said_at_inference(case, at):
        detail = f"messages[{at}]: the system text {text} is in the prompt a server renders, and not in what is trained"
        return Hit("SYSTEM_DROPPED_IN_TRAINING", detail)
    return Hit("SYSTEM_DROPPED", f"messages[{at}]: the system text {text} is in no rendering")


def _said_at_inference(case: Case, at: int) -> bool:
    messages = case.conversation.messages
    asked = max((number for number, message in enumerate(messages) if message.role == "user"), default=-1)
    try:
        prompt = case.template.render(messages[: asked + 1], case.conversation.tools or None, True)
    except BadTemplate:
        return False
    return any(run.origin is not None and run.origin[:2] == (at, "content") for run in prompt.runs)


def _tools(case: Case) -> Iterator[Hit]:
    assert case.rendered is not None
    tools = case.conversation.tools
    told = any(run.origin is not None and run.origin.field.startswith("tools") for run in case.rendered.runs)
    if tools and not told:
        yield Hit("TOOLS_NOT_RENDERED", f"{plural(len(tools), 'tool is', 'tools are')} given, and the text names none")


def _problem(case: Case) -> Iterator[Hit]:
    """Why there are no targets to prove, or no token begins at their borders."""
    reason, detail = case.problem
    if reason == "prompt_differs":
        yield Hit("GENERATION_PROMPT_MISMATCH", f"{detail}, and no answer in training stands behind that")
    elif reason == "prompt_not_rendered":
        yield Hit("PROMPT_NOT_RENDERED", f"the conversation renders, its beginning alone does not: {detail}")
    elif reason == "message_not_rendered" and all(not _lost(case, at) for at in range(len(case.spoken))):
        yield Hit("MESSAGE_DROPPED", detail)
    if case.laid is None or case.template.tokenizer is None:
        return
    if isinstance(case.mask, Unproven):
        yield Hit("BORDER_TOKEN_MERGES", f"at a border of an answer {case.mask.detail}", _borders(case))
    elif not (case.mask is not None and case.mask.any()) and all(target.spoken for target in case.laid.targets):
        answers = sum(message.role == "assistant" for message in case.conversation.messages)
        count = plural(answers, "answer, and it is not", "answers, and none is")
        what = f"{count} to be trained" if answers else "no message of the assistant"
        yield Hit("NO_TARGET", what)


def _lost(case: Case, at: int) -> bool:
    message, said = case.conversation.messages[at], case.spoken[at]
    return bool((message.content.strip() and not said.content and not said.rewritten) or _any_call_lost(message, said))


def _any_call_lost(message: Message, said: Said) -> bool:
    return bool(message.tool_calls) and not said.calls


def _borders(case: Case) -> tuple[Span, ...]:
    """Return where no token begins although an answer does, or ends."""
    assert case.laid is not None
    out = []
    for border, needed in case.laid.borders():
        if needed and not case.encoded.place(border)[1]:
            out.append((border - 1, border + 1))
    return tuple(out)


def _stops(case: Case, laid: Laid) -> Iterator[Hit]:
    """Answers without a token to stop at."""
    spoken = [target for target in laid.targets if target.spoken]
    bare = [target for target in spoken if not target.stopped]
    if not bare or case.template.tokenizer is None:
        return
    last = len(case.conversation.messages) - 1
    spans = tuple((target.stop, target.stop) for target in bare)
    if len(bare) < len(spoken) and all(target.message != last for target in bare):
        ends = plural(len(bare), f"of {len(spoken)} answers ends", f"of {len(spoken)} answers end")
        yield Hit("NO_TERMINATOR_MID_TURN", f"{ends} without a stop token; the last one has it", spans)
    else:
        count = f"{len(bare)} of {len(spoken)} answers"
        yield Hit("EOT_NOT_TRAINED", f"no token that stops generation stands behind {count}", spans)


def _openings(case: Case, laid: Laid) -> Iterator[Hit]:
    """Answers that do not stand behind what a server renders as prompt."""
    wrong = [target for target in laid.targets if not target.met]
    if wrong:
        at = wrong[0]
        detail = f"messages[{at.message}]: the prompt ends {_prompt_end(case, at)!r}, training never shows that"
        yield Hit("GENERATION_PROMPT_MISMATCH", detail, tuple((target.start, target.start + 1) for target in wrong))


def _prompt_end(case: Case, target: Target) -> str:
    try:
        before = case.conversation.messages[: target.message]
        return case.template.text(before, case.conversation.tools or None, True)[-30:]
    except BadTemplate:
        return ""


def _empty_thoughts(case: Case, laid: Laid) -> Iterator[Hit]:
    text = laid.rendered.text
    spans = []
    for target in laid.targets:
        for found in _EMPTY_THOUGHT.finditer(text, target.start, target.stop):
            if laid.rendered.run_at(found.start()).origin is None:
                spans.append(found.span())
    if spans:
        count = plural(len(spans), "answer without a thought is", "answers without a thought are")
        detail = f"{count} trained with an empty one, {text[slice(*spans[0])]!r}"
        yield Hit("EMPTY_THINK_TRAINED", detail, tuple(spans))


def _literal(case: Case) -> Iterator[Hit]:
    rendered, tokenizer = case.rendered, case.template.tokenizer
    if rendered is None or not rendered.literal or tokenizer is None:
        return
    meant = {start for start, _, _ in rendered.controls}
    names = dict.fromkeys(tokenizer.literal_specials(rendered.text))
    spans = [
        found.span() for name in names for found in re.finditer(re.escape(name), rendered.text)
        if found.start() not in meant
    ]  # fmt: skip
    said = ", ".join(repr(name) for name in names if any(rendered.text[a:b] == name for a, b in spans))
    detail = f"the data spell {plural(rendered.literal, 'control token')} ({said}): text here, control elsewhere"
    yield Hit("LITERAL_SPECIAL_IN_CONTENT", detail, tuple(spans[:5]))


# ---------------------------------------------------------------- a conversation that does not render


def why_failed(case: Case) -> Hit:
    """Return why a conversation does not render: what makes it render when it is changed."""
    cause = case.problem[1]
    if case.limited:
        return Hit("TEMPLATE_FAILS", cause)
    try:  # without origins the cause is told in the plain names of types
        case.template.text(case.conversation.messages, case.conversation.tools or None)
    except BadTemplate as error:
        cause = str(error)
    for rule, change in CHANGES.items():
        changed = change(case.conversation)
        if changed is not None and renders(case.template, changed):
            return Hit(rule, cause)
    return Hit("TEMPLATE_FAILS", cause)


def renders(template: ChatTemplate, conversation: Conversation) -> bool:
    """Tell whether a conversation renders."""
    try:
        template.text(conversation.messages, conversation.tools or None)
    except BadTemplate:
        return False
    return True


def with_roles(conversation: Conversation) -> Conversation | None:
    """Return the conversation with the four usual roles; None if it has no others."""
    messages = tuple(replace(one, role=ROLES.get(one.role.casefold(), one.role)) for one in conversation.messages)
    return None if messages == conversation.messages else replace(conversation, messages=messages)


def folded(conversation: Conversation) -> Conversation | None:
    """Return the conversation with each system text put before the next question; None if there is none."""
    kept: list[Message] = []
    held: list[str] = []
    for message in conversation.messages:
        if message.role == "system":
            held.append(message.content)
        elif message.role == "user" and held:
            kept.append(replace(message, content="\n\n".join([*held, message.content])))
            held = []
        else:
            kept.append(message)
    if held or len(kept) == len(conversation.messages):
        return None
    return replace(conversation, messages=tuple(kept))


def merged(conversation: Conversation) -> Conversation | None:
    """Return the conversation with neighbours of one role joined; None if there are none, or it opens otherwise."""
    out: list[Message] = []
    for message in conversation.messages:
        if out and out[-1].role == message.role and not message.tool_calls and message.role in ("user", "assistant"):
            out[-1] = replace(out[-1], content=f"{out[-1].content}\n\n{message.content}")
        else:
            out.append(message)
    return None if len(out) == len(conversation.messages) else replace(conversation, messages=tuple(out))


def _arguments(conversation: Conversation, kind: type, change: Callable[[Any], Any]) -> Conversation | None:
    found = False
    messages = []
    for message in conversation.messages:
        calls = []
        for call in message.tool_calls:
            function = call.get("function")
            if isinstance(function, Mapping) and isinstance(function.get("arguments"), kind):
                found, call = True, {**call, "function": {**function, "arguments": change(function["arguments"])}}
            calls.append(call)
        messages.append(replace(message, tool_calls=tuple(calls)))
    return replace(conversation, messages=tuple(messages)) if found else None


def as_text(conversation: Conversation) -> Conversation | None:
    """Return the conversation with arguments of calls as JSON text; None if there are none as mappings."""
    return _arguments(conversation, dict, lambda value: json.dumps(value, ensure_ascii=False))


def as_mappings(conversation: Conversation) -> Conversation | None:
    """Return the conversation with arguments of calls parsed; None if there are none as text."""

    def parsed(value: str) -> Any:
        try:
            return json.loads(value)
        except ValueError:
            return value

    return _arguments(conversation, str, parsed)


def inlined(conversation: Conversation) -> Conversation | None:
    """Return the conversation with thoughts written into the content, in tags; None if it has none as a field."""
    messages = tuple(
        replace(one, content=f"<think>\n{one.reasoning}\n</think>\n\n{one.content}", reasoning=None)
        if one.reasoning else one
        for one in conversation.messages
    )  # fmt: skip
    return None if messages == conversation.messages else replace(conversation, messages=messages)


def without_tools(conversation: Conversation) -> Conversation | None:
    """Return what is left of a conversation without calls and results; None if it has none."""
    kept = tuple(one for one in conversation.messages if one.role != "tool" and not one.tool_calls)
    return None if len(kept) == len(conversation.messages) else replace(conversation, messages=kept, tools=())


#: Rule -> the change after which a conversation renders, tried in this order.
CHANGES: Mapping[str, Callable[[Conversation], Conversation | None]] = {
    "ROLE_REFUSED": with_roles,
    "SYSTEM_REFUSED": folded,
    "TOOL_ARGUMENTS_DICT_FAIL": as_text,
    "TOOL_ARGUMENTS_STRING_FAIL": as_mappings,
    "ROLES_NOT_ALTERNATING": merged,
    "TOOLS_REFUSED": without_tools,
}
