"""Which tokens of a rendered conversation are targets, by one rule, proven for each answer.

    <|im_start|>user↵Hi<|im_end|>↵<|im_start|>assistant↵Hello!<|im_end|>↵
    └──────── what the model is given ────────────────┘└── trained ─────┘└ after the stop
    = the conversation so far, rendered with add_generation_prompt

The rule (for assembled and rendered conversations alike): trained is from the end of the generation prompt up to and
including the token the model stops at. For each answer two things are proven: a token begins where the target begins,
and the text before it has the same ids alone as inside the whole. A row for which that fails is dropped under a name.

That this text is the prompt a server would render is looked at and told, not asked for. Some templates open at
inference what they never show in training: DeepSeek-V3 and R1 end the prompt with ``<think>``, and take thoughts out of
answers. There the target begins where prompt and training text part; the row is kept, `Target.met` is False, and the
doctor reports GENERATION_PROMPT_MISMATCH. Where both have nothing in common the row is dropped (``prompt_differs``).

What a policy leaves out of an answer is a hole in it. That is a choice inside an answer and nothing a server sees, so
no proof is asked for but two rules are kept: a token that lies across the border of a hole belongs to the hole; and
where no token of what the message says is left, nothing of the answer is trained. The template's text alone is no
target, with holes or without: an answer the template leaves out is dropped as ``message_not_rendered``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from prep_lib.chat.template import REASONING, ChatTemplate, Encoded, Rendered
from prep_lib.errors import BadParameter, BadRecord, BadTemplate
from prep_lib.record import Conversation, Message
from prep_lib.special import THOUGHT_TAG
from prep_lib.tokens.joint import Placed, Row
from prep_lib.traced import Run

#: Which answers are trained: all, or those behind the last question.
ANSWERS = ("all", "last")

#: The parts of a message that are what it says: not its role, its name or an id.
_SAID = frozenset(("content", "reasoning", "tool_calls"))
#: What closes a thought that stands in the text itself, what opens one there, and what ends a prompt that opened one.
_THOUGHT = re.compile(r"</(?:seed:)?think>\s*")
_CLOSED = re.compile(r"\s*</(?:seed:)?think>")
_OPENED = re.compile(r"\s*<(?:seed:)?think>")
_OPENS = ("<think>", "<seed:think>")
#: Which call a field tells of: its name, its arguments, or all of it, rewritten.
_CALL = re.compile(r"tool_calls\[(\d+)\](?:\.function)?(?:$|\.name|\.arguments)")


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Which parts of a conversation are to be trained.

    What is left out of an answer (`reasoning`, `tool_calls`) is a hole in it. A token that lies across the border of a
    hole belongs to the hole and is not trained: of ``.↵`` behind an answer and before a call, the full stop goes with
    the call. An answer of which holes leave nothing but what the template writes is not trained at all, and a row all
    of whose answers go that way is dropped as ``no_target``.

    Parameters
    ----------
    answers : str
        ``all``: every message of the assistant. ``last``: those behind the last question. A message's own `train`
        flag goes before this, and a weight of 0 makes it context.
    reasoning : bool
        False: what the model thinks before an answer, and what closes the thought, is context.
    tool_calls : bool
        False: calls of tools, and the stop behind them, are context.
    train_after_stop : bool
        True: what the template writes behind the stop token in the same turn (a line feed) is trained too.
    weights : bool
        True: rows carry ``loss_weight``, the weight of each token. False: a message with a weight that is neither 0
        nor 1 is refused, because it would be lost.

    Raises
    ------
    BadParameter
        A value that is not allowed.

    Examples
    --------
    >>> Policy(answers="first")
    Traceback (most recent call last):
    prep_lib.errors.BadParameter: chat/mask: answers must be one of all, last, got 'first'
    """

    answers: str = "all"
    reasoning: bool = True
    tool_calls: bool = True
    train_after_stop: bool = False
    weights: bool = False

    def __post_init__(self) -> None:
        if self.answers not in ANSWERS:
            raise BadParameter(f"chat/mask: answers must be one of {', '.join(ANSWERS)}, got {self.answers!r}")
        for name in ("reasoning", "tool_calls", "train_after_stop", "weights"):
            if not isinstance(getattr(self, name), bool):
                raise BadParameter(f"chat/mask: {name} must be True or False, got {getattr(self, name)!r}")

    def wanted(self, messages: Sequence[Message]) -> list[int]:
        """Return the indices of the messages to train.

        Examples
        --------
        >>> Policy(answers="last").wanted([Message("user", "a"), Message("assistant", "b"), Message("user", "c"),
        ...                                Message("assistant", "d")])
        [3]
        """
        every, asked = self.answers == "all", -1
        if not every:
            asked = max((at for at, message in enumerate(messages) if message.role == "user"), default=-1)
        return [
            at
            for at, message in enumerate(messages)
            if message.role == "assistant" and _flagged(message, every or at > asked)
        ]

    def silent(self, messages: Sequence[Message]) -> bool:
        """Tell whether an answer would be wanted, were it not empty."""
        told = [
            replace(message, content="…") if message.role == "assistant" and not _speaks(message) else message
            for message in messages
        ]
        return len(self.wanted(told)) > len(self.wanted(messages))


def _flagged(message: Message, otherwise: bool) -> bool:
    if message.weight == 0 or message.train is False or not _speaks(message):
        return False
    return otherwise or message.train is True


def _speaks(message: Message) -> bool:
    """Tell whether an answer says anything: the stop token alone would teach silence."""
    return bool(message.content or message.tool_calls or message.reasoning)


class Unproven(Exception):
    """The mask of a row cannot be proven; the row is dropped under this reason."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class Target:
    """One trained answer in a rendered conversation. All places are characters of the text.

    Parameters
    ----------
    message : int
    start : int
        The end of the generation prompt.
    said : int
        The end of what the message itself says.
    stop : int
        The end of the stop token; equal to `said` if the turn has none.
    after : int
        The end of what the template writes behind the stop in this turn; equal to `said` if there is no stop.
    stopped : bool
        Whether there is a stop token.
    parity : bool
        Whether the prompt a server would render is, letter by letter, how the training text begins.
    met : bool
        Whether the generation prompt stands before the target whole. False: it opens something training never shows
        (``<think>`` in DeepSeek-V3 and R1). The target then begins where both part, so a model is asked to go on from
        a place it was never trained at; the row is kept, and it is for the doctor to report.
    spoken : bool
        Whether the target holds what the message says: some of its content, of each of its calls, or of its thought
        where that is all there is. Blanks count for an answer of blanks only. False: the template left it out.
    holes : tuple of (start, stop, why)
        What the policy leaves out: ``reasoning``, ``tool_calls``. A token that holds one character of it is left out.
    begin : int
        Where its turn begins: the header of the answer is ``begin:start``.
    kept : tuple of (start, stop)
        What holes leave of what the message says; empty where there are no holes.
    """

    message: int
    start: int
    said: int
    stop: int
    after: int
    stopped: bool
    parity: bool
    met: bool
    spoken: bool
    holes: tuple[tuple[int, int, str], ...] = ()
    begin: int = 0
    kept: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Laid:
    """A rendered conversation with its targets, before it is encoded."""

    rendered: Rendered
    targets: tuple[Target, ...]
    policy: Policy = field(default_factory=Policy)

    def row(self, edges: Sequence[int] = ()) -> Row:
        """Return the text, its control tokens, the borders to find and prove, and edges only to be found.

        Of the edges those given come first; behind them are the laid-out row's own, which `mask_of` reads.
        """
        return Row(self.rendered.text, self.rendered.controls, self._proofs, [*edges, *self._ends])

    @cached_property
    def _proofs(self) -> list[int]:
        """Where targets begin, and where those end that have no stop token: it is a border by itself."""
        return [border for border, needed in self.borders() if needed]

    @cached_property
    def _ends(self) -> list[int]:
        """Target by target its end, where its holes begin and end, and where what they leave does."""
        ends: list[int] = []
        for target in self.targets:
            ends.append(target.after if self.policy.train_after_stop else target.stop)
            for start, stop, _ in target.holes:
                ends += (start, stop)
            for start, stop in target.kept:
                ends += (start, stop)
        return ends

    def borders(self) -> Iterator[tuple[int, bool]]:
        """Yield each border and whether it has to be proven; the end of a stop token is a border by itself."""
        for target in self.targets:
            yield target.start, True
            yield target.stop, not target.stopped
            for start, stop, _ in target.holes:
                yield start, False
                yield stop, False
            if self.policy.train_after_stop:
                yield target.after, False


# ---------------------------------------------------------------- from a conversation to its targets


def lay(template: ChatTemplate, conversation: Conversation, policy: Policy, *, thorough: bool = True) -> Laid:
    """Render a conversation and find its targets.

    Parameters
    ----------
    thorough : bool
        True: the prompt of every answer is rendered. False: where the template's source shows that all generation
        prompts are one text, one answer is enough for each different opening. The masks are the same; what
        `Target.parity` says is then known of the first of them only.

    Raises
    ------
    BadRecord
        ``template_failed``: the template raises for this conversation.
    Unproven
        ``message_not_rendered``: the template leaves out an answer to train. ``prompt_not_rendered``: it does not
        render the conversation up to an answer. ``prompt_differs``: it opens the answer otherwise than at inference.
        ``answer_in_pieces``: it writes of an answer before its turn. ``turns_overlap``: it writes what another message
        says inside an answer. ``stop_inside_answer``: it writes a token servers stop at before all of it is said.
    """
    try:
        rendered = template.render(conversation.messages, conversation.tools or None)
    except BadTemplate as error:
        raise BadRecord("template_failed", str(error)) from None
    wanted = policy.wanted(conversation.messages)
    header = _header(template) if wanted else ""
    openings: dict[str, int] | None = {} if not thorough and header and template.one_prompt else None
    talk = _Talk(template, conversation, rendered, header, openings, *_places(rendered.runs))
    return Laid(rendered, tuple(_target(talk, at, policy) for at in wanted), policy)


class _Talk(NamedTuple):
    """A rendered conversation, what the template writes before an answer, and the openings already looked at.

    `said` and `framed` are, by message, the indices of the runs of what it says and of those in its turn.
    """

    template: ChatTemplate
    conversation: Conversation
    rendered: Rendered
    header: str
    openings: dict[str, int] | None
    said: dict[int, list[int]]
    framed: dict[int, list[int]]


def _places(runs: Sequence[Run]) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    said: dict[int, list[int]] = {}
    framed: dict[int, list[int]] = {}
    for place, run in enumerate(runs):
        if run.frame is not None:
            framed.setdefault(run.frame, []).append(place)
        if run.origin is not None and run.origin.message is not None and _field_part(run.origin.field) in _SAID:
            said.setdefault(run.origin.message, []).append(place)
    return said, framed


def _target(talk: _Talk, at: int, policy: Policy) -> Target:
    rendered = talk.rendered
    own, turn = _turn(talk, at)
    if not own and not turn:
        raise Unproven("message_not_rendered", f"messages[{at}]: the template writes nothing of this answer")
    first = own[0].start if own else _unsaid(talk, turn)
    start, parity, met = _opened(talk, at, first)
    said = max(start, own[-1].stop if own else start)
    end = turn[-1].stop if turn else _next_data(rendered, said)
    stop = _stop(talk.template, rendered, said, end, framed=bool(turn))
    behind = end if turn else next((begin for begin, _, _ in rendered.controls_in(stop or end)), end)
    if stop is None and own and turn:
        said = _closed(rendered.text, own[-1], said, end)
    message = talk.conversation.messages[at]
    spoken = _spoken(rendered.text, message, own, start)
    begin = min(start, turn[0].start if turn else _data_end(rendered, first))
    target = Target(
        at, start, said, stop or said, max(stop, behind) if stop else said, bool(stop), parity, met, spoken, begin=begin
    )
    _check(talk, target)
    holes = tuple(_holes(talk, target, own, policy))
    return replace(target, holes=holes, kept=_kept(rendered.text, message, target, holes, own)) if holes else target


def _spoken(text: str, message: Message, own: Sequence[Run], start: int) -> bool:
    """Tell whether a target holds what its message says: see `Target`."""
    blank = _blank(message)
    told = [run for run in own if run.stop > start and (blank or not text[max(run.start, start) : run.stop].isspace())]
    if message.tool_calls:
        fields = {run.origin.field for run in told if run.origin is not None}
        calls = {int(found.group(1)) for found in map(_CALL.match, fields) if found}
        return "tool_calls" in fields or len(calls) == len(message.tool_calls)
    if not message.content.strip():
        return bool(told)
    return any(run.origin is not None and run.origin.field.startswith("content") for run in told)


def _blank(message: Message) -> bool:
    return not (message.content.strip() or message.tool_calls or (message.reasoning or "").strip())


def _turn(talk: _Talk, at: int) -> tuple[list[Run], Sequence[Run]]:
    """Return the runs of what a message says, and all runs of its turn; no turn where no loop of the template tells it.

    What a later turn repeats of a message (the name of a tool before its result) is no part of its own.
    """
    runs, said, inside = talk.rendered.runs, talk.said.get(at, []), talk.framed.get(at, [])
    told = [place for place in said if runs[place].frame == at]
    if not inside or (said and not told):
        outside = [runs[place] for place in said]
        return [run for run in outside if run.frame is None] or outside, []
    first = last = (told or inside)[-1]
    while first and runs[first - 1].frame == at:
        first -= 1
    while last + 1 < len(runs) and runs[last + 1].frame == at:
        last += 1
    return [runs[place] for place in told if place >= first], runs[first : last + 1]


def _says(run: Run, message: int) -> bool:
    """Tell whether characters are what a message says: not its role, its name or an id."""
    return run.origin is not None and run.origin.message == message and _field_part(run.origin.field) in _SAID


def _unsaid(talk: _Talk, turn: Sequence[Run]) -> int:
    """Return where a turn that says nothing would say it: before its stop token, else at its end."""
    begin, end, known = turn[0].start, turn[-1].stop, talk.template.stop_ids
    inside = [start for start, stop, id in talk.rendered.controls_in(begin, end) if stop <= end and id in known]
    return inside[-1] if inside else end


# ---------------------------------------------------------------- where a target begins


def _opened(talk: _Talk, at: int, first: int) -> tuple[int, bool, bool]:
    """Do as `_start`; where the same generation prompt stands in the same opening once, its end is known already."""
    if talk.openings is None:
        return _start(talk, at, first)
    here = _data_end(talk.rendered, first)
    opening = talk.rendered.text[here:first]
    if opening in talk.openings:
        return here + talk.openings[opening], True, True
    start, parity, met = _start(talk, at, first)
    once = opening.count(talk.header) == 1 and talk.rendered.text.endswith(talk.header, here, start)
    if parity and once and start <= first:
        talk.openings[opening] = start - here
    return start, parity, met


def _start(talk: _Talk, at: int, first: int) -> tuple[int, bool, bool]:
    """Return where the target begins, whether the whole prompt is how the text begins, and whether its end is met.

    `first` is the place of the first character the message itself says.
    """
    template, rendered = talk.template, talk.rendered
    before, tools = talk.conversation.messages[:at], talk.conversation.tools or None
    here = _data_end(rendered, first)
    try:
        prompt = template.text(before, tools, add_generation_prompt=True)
        if rendered.text.startswith(prompt):
            return _behind_header(talk, len(prompt), first)
        # The template writes the past otherwise, now that there is more behind it: compare from the last message on.
        given = template.render(before, tools, add_generation_prompt=True)
        past = template.text(before, tools)
    except BadTemplate as error:
        # Nobody asks a server to begin with nothing; what opens any other answer opens this one.
        if before or not (found := _aligned(rendered, talk.header, here, first)):
            raise Unproven("prompt_not_rendered", f"messages[:{at}]: {error}") from None
        return found[0], False, found[1]
    opening = prompt[_data_end(given, len(prompt)) :]
    if rendered.text.startswith(opening, here):
        return _behind_header(talk, here + len(opening), first)[0], False, True
    own = prompt[len(past) :] if prompt.startswith(past) else opening
    found = _aligned(rendered, own if own.strip() else talk.header, here, first)
    if not found:
        raise Unproven("prompt_differs", f"messages[{at}]: the generation prompt ends {opening[-40:]!r}")
    return found[0], False, found[1]


def _behind_header(talk: _Talk, start: int, first: int) -> tuple[int, bool, bool]:
    """Go on to the end of a header the prompt lacks, because the template has no generation prompt (here)."""
    there = talk.rendered.text[start:first]
    header, asked = talk.header.lstrip(), talk.template.uses("add_generation_prompt")
    if not header or not there.lstrip().startswith(header) or talk.rendered.text.endswith(header, 0, start):
        return start, True, True
    return start + len(there) - len(there.lstrip()) + len(header), not asked, True


def _aligned(rendered: Rendered, prompt: str, here: int, first: int) -> tuple[int, bool] | None:
    """Return where a generation prompt ends in the text between two messages' words, and whether it stands there whole.

    Blanks before it belong to what is said before. If training shows a part of it only, that part ends at its last
    control token or line; None: no such part.
    """
    text, plain = rendered.text, prompt.lstrip()
    there = text[here:first]
    if not plain:
        return None
    found = text.rfind(plain, here, first + len(plain))
    if found >= 0 and (found < first or not there):
        return found + len(plain), True
    sizes = ((_shared(plain, there[at:]), at) for at in range(len(there)))
    whole, size, at = max(((at + size == len(there), size, at) for size, at in sizes), default=(False, 0, 0))
    if whole and there[at:].strip():
        return first, False
    begin, end = here + at, here + at + size
    lines = [place + 1 for place in range(begin, end) if text[place] == "\n"]
    borders = [*lines, *(stop for _, stop, _ in rendered.controls_in(begin, end) if stop <= end)]
    return (max(borders), False) if borders and there[at : max(borders) - here].strip() else None


def _data_end(rendered: Rendered, before: int) -> int:
    """Return the end of the last thing a message says before a place; 0 if there is none."""
    for place in range(rendered.runs_before(before) - 1, -1, -1):
        run = rendered.runs[place]
        if run.origin is not None and run.origin.message is not None and run.origin.field not in ("role", "name"):
            return min(run.stop, before)
    return 0


def _next_data(rendered: Rendered, behind: int) -> int:
    runs = rendered.runs
    rest = (runs[place] for place in range(rendered.runs_before(behind), len(runs)))
    return next((run.start for run in rest if run.origin), len(rendered.text))


def _shared(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@lru_cache(maxsize=64)
def _header(template: ChatTemplate) -> str:
    """Return what opens a plain answer to a plain question: the generation prompt, or what stands in its place.

    Blanks alone are part of the answer. Empty: nothing, or the template does not take a plain question.
    """
    asked, answer = Message("user", "q"), "a"
    try:
        past, given = template.text([asked]), template.render([asked], add_generation_prompt=True)
        if (shared := _shared(past, given.text)) < len(given.text):
            # Half a control token that both spell is none.
            cut = (start for start, stop, _ in given.controls if start < shared < stop)
            return given.text[next(cut, shared) :]
        probe = template.render([asked, Message("assistant", answer)])
    except BadTemplate:
        return ""
    said = next((run.start for run in probe.runs if _says(run, 1)), 0)
    header = probe.text[len(past) : said] if probe.text.startswith(past) else ""
    return header if header.strip() else ""


# ---------------------------------------------------------------- where it ends, and what is left out


def _stop(template: ChatTemplate, rendered: Rendered, said: int, end: int, framed: bool) -> int | None:
    """Return the end of the stop token of a turn, None if it has none.

    That is the one known to stop (`_last_stop`), in the turn or directly behind it (a template may write it with the
    next turn, or behind the last one); else the last control token of the turn that closes no tag.
    """
    closing = [control for control in rendered.controls_in(said, end) if control[1] <= end]
    known = [control for control in closing if control[2] in template.stop_ids]
    if known:
        return _last_stop(template, rendered, known) if framed else known[0][1]
    if not framed:
        return None
    start, stop, id = next(iter(rendered.controls_in(end)), (0, 0, -1))
    if id in template.stop_ids and not rendered.text[end:start].strip():
        return stop
    control = template.tokenizer.control_ids if template.tokenizer is not None else frozenset[int]()
    names = ((stop, rendered.text[start:stop]) for start, stop, id in reversed(closing) if id in control)
    return next((stop for stop, name in names if name[1:2] != "/" and not THOUGHT_TAG.fullmatch(name)), None)


def _last_stop(template: ChatTemplate, rendered: Rendered, known: Sequence[tuple[int, int, int]]) -> int:
    """Return the end of the stop a turn ends with: the first at which servers stop, or behind which it does not go on.

    gpt-oss closes the channel of a thought with ``<|end|>`` and opens that of the answer, which ends with
    ``<|return|>``, where servers stop. By the same measure an answer may hold the one (`_check`) and not the other.
    """
    found = known[0]
    for control in known[1:]:
        between = rendered.text[found[1] : control[0]]
        if found[2] in template.declared_stops or not between.strip():
            break
        if any(run.origin and _field_part(run.origin.field) in _SAID for run in rendered.between(found[1], control[0])):
            break
        found = control
    return found[1]


def _closed(text: str, last: Run, said: int, end: int) -> int:
    """Return the end of what closes a call or a thought, where that is the last thing said in a turn without a stop."""
    part = _field_part(last.origin.field) if last.origin is not None else ""
    tag = _CLOSED.match(text, said, end)
    if part == "content" or (part == "reasoning" and tag):
        return tag.end() if tag else said
    return said + len(text[said:end].rstrip())


def _check(talk: _Talk, target: Target) -> None:
    """Refuse an answer that is told before, a target that holds what another message says, or a stop before its end."""
    rendered, where = talk.rendered, f"messages[{target.message}]"
    said = talk.said.get(target.message)
    if said and rendered.runs[said[0]].stop <= target.begin:
        raise Unproven("answer_in_pieces", f"{where}: the template writes of this answer before its turn begins")
    for run in rendered.between(target.start, target.said) if target.said > target.start else ():
        if run.origin is not None and run.origin.message not in (None, target.message):
            raise Unproven("turns_overlap", f"{where}: messages[{run.origin.message}] speaks inside this answer")
    for start, stop, id in rendered.controls_in(target.start, target.said):
        if stop <= target.said and id in talk.template.declared_stops and rendered.run_at(start).origin is None:
            raise Unproven("stop_inside_answer", f"{where}: {rendered.text[start:stop]!r} before its end")


def _holes(talk: _Talk, target: Target, own: Sequence[Run], policy: Policy) -> Iterator[tuple[int, int, str]]:
    if policy.reasoning and policy.tool_calls:
        return
    calls = next((run.start for run in own if run.origin and run.origin.field.startswith("tool_calls")), None)
    thought = _thought_end(talk, target, own, calls)
    if not policy.reasoning and thought > target.start:
        yield target.start, thought, "reasoning"
    if not policy.tool_calls and calls is not None:
        plain = [run.stop for run in own if run.stop <= calls]
        stop = target.after if policy.train_after_stop else target.stop
        yield max([target.start, thought, *plain]), stop, "tool_calls"


def _kept(
    text: str, message: Message, target: Target, holes: Sequence[tuple[int, int, str]], own: Sequence[Run]
) -> tuple[tuple[int, int], ...]:
    """Return what holes leave of what a message says, runs that touch as one; blanks only if it says nothing else."""
    blank, out = _blank(message), list[tuple[int, int]]()
    cuts = [target.start, *(place for hole in holes for place in hole[:2]), max(target.said, holes[-1][1])]
    for first, last in zip(cuts[::2], cuts[1::2], strict=True):
        for run in own if first < last else ():
            start, stop = max(run.start, first), min(run.stop, last)
            if start >= stop or (not blank and text[start:stop].isspace()):
                continue
            out.append((out.pop()[0] if out and out[-1][1] == start else start, stop))
    return tuple(out)


def _thought_end(talk: _Talk, target: Target, own: Sequence[Run], calls: int | None) -> int:
    """Return where what is thought ends and the answer begins; the start if nothing is thought.

    Only what is opened is a thought: by a field for it, by the generation prompt, or by a tag before which nothing is
    said. The text between tags may itself tell of tags: the first one closes what was opened. What the message opens
    and never closes is thought to its end. `calls` is where its calls begin; no thought goes on there.
    """
    rendered, text = talk.rendered, talk.rendered.text
    ends = {start: stop for start, stop, _ in rendered.controls_in(target.start, target.stop)}
    limit = next((start for start, end in ends.items() if end == target.stop and target.stopped), target.stop)
    limit = limit if calls is None else min(limit, calls)
    thought = [run for run in own if run.origin and run.origin.field in REASONING]
    end = _field_end(text, thought[-1].stop, own, ends, limit) if thought else target.start
    inside = end if not thought and _asked_to_think(talk, target) else None
    while inside is not None or (inside := _opened_thought(text, own, end, limit)) is not None:
        found = _THOUGHT.search(text, inside, limit)
        if found is None:
            told = rendered.run_at(inside - 1).origin if inside else None
            return max([end, *(run.stop for run in own if run.stop <= limit)]) if told and inside > end else end
        # A control token that closes a thought is its last, and a sure border; closed by text, so are blanks behind it.
        end, inside = ends.get(found.start(), found.end()), None
    return end


def _field_end(text: str, said: int, own: Sequence[Run], ends: dict[int, int], limit: int) -> int:
    """Return where a thought ends that a field of its own tells."""
    then = min([limit, *(run.start for run in own if run.start >= said and run.start < limit)])
    closed = next((end for start, end in ends.items() if said <= start and end <= then), None)
    # What stands between the text that closes a thought and what is said next opens that: a call.
    tag = _THOUGHT.search(text, said, then) if closed is None else None
    return closed or (tag.end() if tag else then)


def _opened_thought(text: str, own: Sequence[Run], at: int, limit: int) -> int | None:
    """Return the end of a tag that opens a thought before anything is said: the template's, or that of the message."""
    first = next((max(run.start, at) for run in own if run.stop > at), limit)
    tag = _OPENED.search(text, at, first) or _OPENED.match(text, first, limit)
    return tag.end() if tag else None


def _asked_to_think(talk: _Talk, target: Target) -> bool:
    """Tell whether the generation prompt opens a thought, shown in training or not."""
    text, head = talk.rendered.text, target.start
    while head and text[head - 1].isspace():
        head -= 1
    return text.endswith(_OPENS, 0, head) or (not target.met and talk.header.rstrip().endswith(_OPENS))


# ---------------------------------------------------------------- from targets to masks


def mask_of(laid: Laid, placed: Placed) -> np.ndarray:
    """Return the mask of an encoded row, (n,) bool: True where a token is a target.

    Raises
    ------
    Unproven
        ``border_inside_token``: at a border no token begins, or the prompt alone has other ids than inside the whole.
    """
    text, proofs = laid.rendered.text, laid._proofs
    for border, proven in zip(proofs, placed.proven, strict=True):
        if not proven:
            detail = f"{text[max(0, border - 20) : border]!r} and {text[border : border + 20]!r} share a token"
            raise Unproven("border_inside_token", detail)
    place = dict(zip(proofs, placed.places, strict=True))
    given = len(placed.edges) - len(laid._ends)
    ends = iter(zip(placed.across[given:], placed.edges[given:], strict=True))
    mask = np.zeros(len(placed.ids), bool)
    for target in laid.targets:
        whole = slice(place[target.start], next(ends)[1])
        mask[whole] = True
        for _ in target.holes:
            mask[next(ends)[0] : next(ends)[1]] = False
        left = not target.holes
        for _ in target.kept:
            first, last = next(ends)[0], next(ends)[1]
            left = left or bool(mask[first:last].any())
        if not left:
            mask[whole] = False
    return mask


# ---------------------------------------------------------------- one conversation, token by token


@dataclass(frozen=True)
class Token:
    """One token of a rendered conversation, and why it is or is not a target.

    Parameters
    ----------
    id : int
    start, stop : int, characters
        Of the rendered text.
    message : int or None
        The message it belongs to. None: the template wrote it outside all turns.
    field : str or None
        The field its first character came from. None: the template wrote it.
    at : int
        Place of that character in the field; -1 if the template rewrote it.
    part : str
        ``start`` (what opens a turn; of an answer, up to the end of the generation prompt), ``content``, ``reasoning``,
        ``tool_calls``, ``frame`` (the template's other text inside a turn), ``stop``, ``after`` (behind the stop, or
        behind an answer that has none), ``role`` (also names and ids), ``tools`` or ``outside``.
    trained : bool
    why : str
        One of `WHY`.
    """

    id: int
    start: int
    stop: int
    message: int | None
    field: str | None
    at: int
    part: str
    trained: bool
    why: str


#: Why a token is a target (the first four), or is not. ``no_stop``: behind an answer whose turn has no stop token;
#: ``unproven``: in an answer that was to be trained, had its mask been proven.
WHY = (
    "answer", "answer_frame", "stop", "after_stop_asked", "prompt", "generation_prompt", "after_stop", "no_stop",
    "not_wanted", "reasoning_off", "tool_calls_off", "outside", "unproven",
)  # fmt: skip


@dataclass(frozen=True)
class Explained:
    """A conversation, token by token.

    Parameters
    ----------
    encoded : Encoded
    laid : Laid or None
        None: the targets could not be found; `problem` says why.
    mask : (n,) bool
        What the rule gives; all False where it gives nothing. A row with a problem is dropped whatever its mask says.
    tokens : tuple of Token
    problem : tuple of (reason, detail) or None
    """

    encoded: Encoded
    laid: Laid | None
    mask: np.ndarray
    tokens: tuple[Token, ...]
    problem: tuple[str, str] | None = None


def explain(template: ChatTemplate, conversation: Conversation, policy: Policy) -> Explained:
    """Return every token of a conversation with its reason; what cannot be proven is told, not raised.

    Raises
    ------
    BadRecord
        ``template_failed``: there is no text at all.
    """
    problem, laid = None, None
    try:
        laid = lay(template, conversation, policy)
        rendered = laid.rendered
        lost = next((target for target in laid.targets if not target.spoken), None)
        if lost is not None:
            problem = "message_not_rendered", f"messages[{lost.message}]: the template leaves out what it says"
    except Unproven as error:
        problem = error.reason, error.detail
        rendered = template.render(conversation.messages, conversation.tools or None)
    encoded = template.encode(rendered)
    mask, proven = np.zeros(len(encoded.ids), bool), False
    if laid is not None:
        (placed,) = template.encode_rows([laid.row()])
        try:
            mask, proven = mask_of(laid, placed), True
        except Unproven as error:
            problem = problem or (error.reason, error.detail)
    story = _Story(rendered, laid.targets if laid is not None else (), conversation, policy, proven)
    spans = zip(encoded.ids.tolist(), encoded.starts.tolist(), encoded.stops.tolist(), mask.tolist(), strict=True)
    return Explained(encoded, laid, mask, tuple(story.token(*span) for span in spans), problem)


class _Story:
    """What is known of a rendered conversation when its tokens are told one by one."""

    def __init__(
        self,
        rendered: Rendered,
        targets: Sequence[Target],
        conversation: Conversation,
        policy: Policy,
        proven: bool,
    ) -> None:
        self.rendered, self.targets, self.messages = rendered, targets, conversation.messages
        self.proven = proven
        self.wanted = frozenset(policy.wanted(conversation.messages))
        #: Where a stop token begins, by its end; where a message begins to speak in its turn.
        self.closing = {stop: start for start, stop, _ in rendered.controls}
        self.speaks: dict[int, int] = {}
        for run in rendered.runs:
            if run.frame is not None and _says(run, run.frame):
                self.speaks.setdefault(run.frame, run.start)

    def token(self, id: int, start: int, stop: int, trained: bool) -> Token:
        """Return a token with the first field it holds characters of, and its reason."""
        runs = self.rendered.between(start, max(stop, start + 1))
        run = next((run for run in runs if run.origin is not None), runs[0])
        target = next((target for target in self.targets if _holds(target, run, start)), None)
        owner = run.frame if run.origin is None or run.origin.message is None else run.origin.message
        owner = owner if target is None else target.message
        # A turn may repeat what an earlier message says; why it is there is told by the turn.
        why_of = owner if target is not None or run.frame is None else run.frame
        part, field = self._part(run, target, start), run.origin and run.origin.field
        at = -1 if run.origin is None or run.at < 0 else run.at + max(start - run.start, 0)
        why = self._why(part, trained, target, (start, stop), why_of)
        return Token(id, start, stop, owner, field, at, part, trained, why)

    def _part(self, run: Run, target: Target | None, start: int) -> str:
        if target is not None and start >= target.stop:
            return "after"
        if target is not None and target.stopped and start >= self.closing[target.stop]:
            return "stop"
        if run.origin is not None:
            return _field_part(run.origin.field)
        if target is not None:
            return "frame" if start >= target.start else "start"
        if run.frame is None:
            return "outside"
        return "start" if start < self.speaks.get(run.frame, run.stop) else "frame"

    def _why(self, part: str, trained: bool, target: Target | None, token: tuple[int, int], owner: int | None) -> str:
        if trained:
            return {"stop": "stop", "after": "after_stop_asked", "frame": "answer_frame"}.get(part, "answer")
        if target is not None:
            start, stop = token[0], max(token[1], token[0] + 1)
            if start < target.start:
                return "generation_prompt"
            hole = next((why for first, last, why in target.holes if start < last and first < stop), None)
            if not hole and self.proven and target.holes and part != "after":
                hole = target.holes[0][2]  # which left nothing to train but the template's text
            if hole:
                return f"{hole}_off"
            return "unproven" if part != "after" else "after_stop" if target.stopped else "no_stop"
        if owner is None:
            return "outside"
        if owner in self.wanted:
            return "unproven"
        return "not_wanted" if self.messages[owner].role == "assistant" else "prompt"


def _holds(target: Target, run: Run, start: int) -> bool:
    """Tell whether a character belongs to an answer's turn: its header, what it says, and what stands behind it."""
    return target.begin <= start < target.after or (run.frame == target.message and start >= target.begin)


@lru_cache(maxsize=4096)
def _field_part(field: str) -> str:
    first = field.partition("[")[0].partition(".")[0]
    return "reasoning" if first in REASONING else first if first in ("content", "tool_calls", "tools") else "role"
