"""Other ways to find a mask, side by side with the rule.

    rule              ▁ ▁ ▁ ▁ ▁ ▁ ▁ ▁ ■ ■ ■ ▁      from the end of the generation prompt through the stop token
    generation_tags   ▁ ▁ ▁ ▁ ▁ ▁ ▁ ■ ■ ■ ■ ▁      what the template marks: here it marks a line feed too much
    prefix_offsets    no mask: messages[:2] rendered alone is not how the whole begins
    sentinels         ▁ ▁ ▁ ▁ ▁ ▁ ▁ ▁ ■ ■ ■ ▁      marks put around what is said, and taken out after rendering
    assembled         no mask: token 9 is 'T' apart and 'Th' together

Every mask is aligned to the tokens of the whole conversation encoded once, which is what a model sees. A way that
cannot tell says why; none of them decides anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from prep_lib.chat.mask import Explained, Policy, explain
from prep_lib.chat.template import ChatTemplate, Rendered
from prep_lib.errors import BadTemplate
from prep_lib.record import Conversation, Message
from prep_lib.traced import Run

#: Put around what a message says: characters for private use, which no template looks for.
OPEN, CLOSE = "\ue0f0\ue0f1", "\ue0f2\ue0f3"


class Found(NamedTuple):
    """What one way gives.

    Parameters
    ----------
    mask : (n,) bool or None
        None: it cannot tell.
    problem : str
        Why not; empty where there is a mask.
    """

    mask: np.ndarray | None
    problem: str = ""


class _CannotTell(Exception):
    """A way refuses; the message says why."""


def side_by_side(
    template: ChatTemplate, conversation: Conversation, policy: Policy | None = None, told: Explained | None = None
) -> dict[str, Found]:
    """Return what each way makes of one conversation, by its name, the rule first.

    Parameters
    ----------
    policy : Policy or None
        Which messages are trained. None: all answers. Tags know of no policy: they mark what they mark.
    told : Explained or None
        What `mask.explain` gave for the same three, where it is there already.

    Raises
    ------
    BadRecord
        ``template_failed``: there is no text at all.

    Examples
    --------
    >>> from prep_lib.tokens.tokenizer import AutoTokenizer
    >>> source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}"
    >>> tokenizer = AutoTokenizer().train(["a"], 300, special_tokens=["<user>", "<assistant>", "<end>"])
    >>> chat = ChatTemplate(source, tokenizer)
    >>> talk = Conversation("", (Message("user", "q"), Message("assistant", "a")))
    >>> for name, found in side_by_side(chat, talk).items():
    ...     print(name, found.problem if found.mask is None else found.mask.astype(int).tolist())
    rule [0, 0, 0, 0, 1, 1]
    generation_tags the template marks nothing
    prefix_offsets [0, 0, 0, 1, 1, 1]
    sentinels [0, 0, 0, 0, 1, 1]
    assembled [0, 0, 0, 0, 1, 1]
    """
    policy = policy or Policy()
    told = told or explain(template, conversation, policy)
    asked = _Asked(template, conversation, told, tuple(policy.wanted(conversation.messages)))
    return {name: _attempt(way, asked) for name, way in _WAYS.items()}


def disagreements(found: Mapping[str, Found]) -> tuple[int, ...]:
    """Return the positions of the tokens on which the masks there are differ, in order.

    Examples
    --------
    >>> one, other = np.array([False, True, True]), np.array([False, False, True])
    >>> disagreements({"rule": Found(one), "generation_tags": Found(other), "assembled": Found(None, "lost")})
    (1,)
    """
    masks = [way.mask for way in found.values() if way.mask is not None]
    if len(masks) < 2:
        return ()
    differs: list[int] = np.flatnonzero(np.any(np.stack(masks) != masks[0], axis=0)).tolist()
    return tuple(differs)


class _Asked(NamedTuple):
    template: ChatTemplate
    conversation: Conversation
    told: Explained
    wanted: tuple[int, ...]

    @property
    def rendered(self) -> Rendered:
        return self.told.encoded.rendered


def _attempt(way: Callable[[_Asked], np.ndarray], asked: _Asked) -> Found:
    try:
        return Found(way(asked))
    except _CannotTell as error:
        return Found(None, str(error))
    except BadTemplate as error:
        return Found(None, f"the template fails on a part of the conversation: {error}")


def _overlapping(asked: _Asked, spans: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return a mask of the tokens that hold a character of one of the spans."""
    starts, stops = asked.told.encoded.starts, asked.told.encoded.stops
    mask = np.zeros(len(starts), bool)
    for start, stop in spans:
        mask |= (starts < stop) & (stops > start)
    return mask


# ---------------------------------------------------------------- the ways


def _rule(asked: _Asked) -> np.ndarray:
    """The rule of `mask`."""
    if asked.told.problem is not None:
        raise _CannotTell(": ".join(filter(None, asked.told.problem)))
    return asked.told.mask


def _generation_tags(asked: _Asked) -> np.ndarray:
    """Tokens that overlap a ``{% generation %}`` block.

    Source: ``transformers`` 5.24, ``apply_chat_template(return_assistant_tokens_mask=True)``.
    """
    spans = [(run.start, run.stop) for run in asked.rendered.runs if run.generated]
    if not spans:
        raise _CannotTell("the template marks nothing")
    return _overlapping(asked, spans)


def _prefix_offsets(asked: _Asked) -> np.ndarray:
    """From the length of the prompt to the length of the conversation up to the answer, both rendered apart."""
    spans = []
    for at in asked.wanted:
        start = _prefix(asked, at, prompt=True)
        spans.append((start, _prefix(asked, at + 1, prompt=False)))
    return _overlapping(asked, spans)


def _prefix(asked: _Asked, size: int, prompt: bool) -> int:
    messages, tools = asked.conversation.messages[:size], asked.conversation.tools or None
    alone = asked.template.text(messages, tools, add_generation_prompt=prompt)
    if not asked.rendered.text.startswith(alone):
        raise _CannotTell(f"messages[:{size}] rendered alone is not how the whole begins")
    return len(alone)


def _sentinels(asked: _Asked) -> np.ndarray:
    """Marks around what a message says travel with it through the template; the stop token behind them is trained."""
    messages = asked.conversation.messages
    if any(mark in message.content for message in messages for mark in (OPEN, CLOSE)):
        raise _CannotTell("a message holds a sentinel already")
    marked = [_marked(message, at) if at in asked.wanted else message for at, message in enumerate(messages)]
    text, marks = _taken_out(asked.template.text(marked, asked.conversation.tools or None))
    if [mark for mark, _ in marks] != [OPEN, CLOSE] * len(asked.wanted):
        raise _CannotTell("the template loses a sentinel, or moves it")
    if text != asked.rendered.text:
        raise _CannotTell("sentinels change what the template writes")
    places = [place for _, place in marks]
    ends = (_closed(asked, stop) for stop in places[1::2])
    return _overlapping(asked, list(zip(places[::2], ends, strict=True)))


def _marked(message: Message, at: int) -> Message:
    """Put sentinels around what is said, inside the blanks that a template may take off."""
    said = message.content.strip()
    if not said:
        raise _CannotTell(f"messages[{at}] has no content to put sentinels around")
    return replace(message, content=message.content.replace(said, OPEN + said + CLOSE, 1))


def _taken_out(text: str) -> tuple[str, list[tuple[str, int]]]:
    """Return a text without its sentinels, and each sentinel with its place in what is left."""
    marks, size, at = [], len(OPEN), 0
    while (at := min((found for mark in (OPEN, CLOSE) if (found := text.find(mark, at)) >= 0), default=-1)) >= 0:
        marks.append((text[at : at + size], at))
        text = text[:at] + text[at + size :]
    return text, marks


def _closed(asked: _Asked, said: int) -> int:
    """Return the end of the first control token behind what is said, if it is one that stops; else its own end."""
    behind = next((control for control in asked.rendered.controls if control[0] >= said), None)
    if behind is None or behind[2] not in asked.template.stop_ids:
        return said
    data = any(run.origin is not None for run in asked.rendered.between(said, behind[0])) if behind[0] > said else False
    return said if data else behind[1]


def _assembled(asked: _Asked) -> np.ndarray:
    """The template's text and each text of the data encoded apart and joined, as a prompt strategy does."""
    tokenizer = asked.template.tokenizer
    ids: list[int] = []
    for piece in _pieces(asked.rendered):
        ids += [piece] if isinstance(piece, int) else tokenizer.encode(piece) if tokenizer is not None else []
    together = asked.told.encoded.ids.tolist()
    if ids != together:
        short = min(len(ids), len(together))
        at = next((at for at in range(short) if ids[at] != together[at]), short)
        apart, joint = (tokenizer.decode(row[at : at + 1]) if tokenizer else "" for row in (ids, together))
        raise _CannotTell(f"token {at} is {apart!r} apart and {joint!r} together")
    return _overlapping(asked, list(_said(asked)))


def _pieces(rendered: Rendered) -> Iterator[str | int]:
    """Yield texts to encode apart, and the ids of control tokens between them."""
    cuts = {0, len(rendered.text)}
    for one, other in pairwise(rendered.runs):
        if _writer(one) != _writer(other):
            cuts.add(one.stop)
    inside = {start: (stop, id) for start, stop, id in rendered.controls}
    for start, stop, _ in rendered.controls:
        cuts -= set(range(start + 1, stop))
        cuts |= {start, stop}
    borders = sorted(cuts)
    for start, stop in pairwise(borders):
        yield inside[start][1] if start in inside else rendered.text[start:stop]


def _writer(run: Run) -> tuple[int | None, str] | None:
    """Return whose text a run is: a field of the data, or (None) the template's, roles among it."""
    if run.origin is None or run.origin.field == "role":
        return None
    return run.origin.message, run.origin.field.partition("[")[0].partition(".")[0]


def _said(asked: _Asked) -> Iterator[tuple[int, int]]:
    """Yield from where each answer's own text begins to the end of its stop token."""
    for at in asked.wanted:
        own = [run for run in asked.rendered.runs if (_writer(run) or (None, ""))[0] == at and run.frame in (None, at)]
        if not own:
            raise _CannotTell(f"messages[{at}] is not in the text")
        yield own[0].start, _closed(asked, own[-1].stop)


_WAYS: dict[str, Callable[[_Asked], np.ndarray]] = {
    "rule": _rule,
    "generation_tags": _generation_tags,
    "prefix_offsets": _prefix_offsets,
    "sentinels": _sentinels,
    "assembled": _assembled,
}

#: The names of the ways.
METHODS = tuple(_WAYS)
