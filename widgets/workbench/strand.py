"""Sequences of a record: tokens with reasons, from a template or a strategy; their arrays; and where two differ.

Conversation ──by_template, by_strategy──▶ Strand ──as_row──▶ Row
Preference ──▶ chosen, rejected             └──changes──▶ the places where two strands differ
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

import numpy as np

from prep_lib.chat.conversation import Read
from prep_lib.chat.mask import Policy, Target, Token, explain
from prep_lib.chat.row import Row
from prep_lib.chat.strategy import Piece, PromptStrategy, Turn
from prep_lib.chat.template import ChatTemplate
from prep_lib.errors import BadRecord, BadTemplate
from prep_lib.record import Conversation, Document, Message, Preference, Rated

if TYPE_CHECKING:
    from prep_lib.tokens.tokenizer import AutoTokenizer

#: Longer texts are rendered but not tokenised here: nobody reads them, and the next key must not wait for them.
CHARACTERS = 400_000

#: Tokens ``first:last``.
Span = tuple[int, int]

#: Pairs of tokens compared one by one; beyond this the exact alignment costs more than a person waits for.
ALIGNED = 250_000


@dataclass(frozen=True)
class Strand:
    """One sequence of a record.

    Parameters
    ----------
    key : str
        ``sequence``, ``chosen`` or ``rejected``.
    conversation : Conversation
    tokens : tuple of Token
    characters : int
        Of the text they stand for.
    targets : tuple of Target
        What was proven of each answer; empty for a strategy, whose answers are proven by how it puts them together.
    problem : tuple of (reason, detail) or None
        Why the row would be dropped.
    literal : int
        Control tokens spelled by the data.
    """

    key: str
    conversation: Conversation
    tokens: tuple[Token, ...] = ()
    characters: int = 0
    targets: tuple[Target, ...] = ()
    problem: tuple[str, str] | None = None
    literal: int = 0

    @property
    def trained(self) -> int:
        """How many tokens are targets."""
        return sum(token.trained for token in self.tokens)


def conversations(found: Read) -> list[tuple[str, Conversation]]:
    """Return the sequences of a record: one, or both of a preference, whose prompt is context."""
    if isinstance(found, Preference):
        prompt = tuple(replace(said, train=False) if said.role == "assistant" else said for said in found.prompt)
        pairs = (("chosen", found.chosen), ("rejected", found.rejected))
        return [(key, Conversation(found.id, prompt + answer, found.tools)) for key, answer in pairs]
    if isinstance(found, Rated):
        return [("sequence", Conversation(found.id, found.messages, found.tools))]
    if isinstance(found, Document):
        return [("sequence", Conversation(found.id, (Message("document", found.text),)))]
    return [("sequence", found)]


# ---------------------------------------------------------------------------------------------------------------------
# A template
# ---------------------------------------------------------------------------------------------------------------------


def by_template(chat: ChatTemplate, key: str, talk: Conversation, policy: Policy) -> Strand:
    """Return a sequence as a template writes it, every token with its reason.

    Raises
    ------
    BadTemplate
        If the template fails, or the text is longer than `CHARACTERS`.
    BadRecord
        ``template_failed``.
    """
    size = len(chat.text(talk.messages, talk.tools or None))
    if size > CHARACTERS:
        raise BadTemplate(
            f"workbench: the text has {size:,} characters; more than {CHARACTERS:,} are not tokenised while you look"
        )
    made = explain(chat, talk, policy)
    targets = made.laid.targets if made.laid is not None else ()
    problem = made.problem
    if problem is None and not any(token.trained for token in made.tokens):
        problem = "no_target", ""
    return Strand(key, talk, made.tokens, size, targets, problem, made.encoded.rendered.literal)


# ---------------------------------------------------------------------------------------------------------------------
# A strategy, and a plain document, in the same form
# ---------------------------------------------------------------------------------------------------------------------


def by_strategy(made: PromptStrategy, tokenizer: AutoTokenizer, key: str, talk: Conversation, policy: Policy) -> Strand:
    """Return a sequence as a strategy puts it together, every token with its reason.

    Raises
    ------
    BadRecord
        ``unwritten_field``: the message holds what no strategy writes.
    """
    for at, said in enumerate(talk.messages):
        lost = "tool_calls" if said.tool_calls else "reasoning" if said.reasoning else ""
        if lost:
            raise BadRecord("unwritten_field", f"messages[{at}].{lost}: no strategy writes it; choose a template")
    wanted = set(policy.wanted(talk.messages))
    contents = [said.content for said in talk.messages]
    flat, offsets = tokenizer.encode_many(contents)
    turns = [
        Turn(said.role, flat[offsets[at] : offsets[at + 1]].tolist(), at in wanted)
        for at, said in enumerate(talk.messages)
    ]
    tokens = tuple(_spoken(made.pieces(turns), talk, tokenizer))
    literal = sum(len(tokenizer.literal_specials(text)) for text in contents)
    problem = None if any(token.trained for token in tokens) else ("no_target", "")
    return Strand(key, talk, tokens, max((token.stop for token in tokens), default=0), problem=problem, literal=literal)


def _spoken(pieces: Iterable[Piece], talk: Conversation, tokenizer: AutoTokenizer) -> Iterator[Token]:
    """Yield the tokens of a strategy with places in the text they spell together."""
    at = 0
    for piece in pieces:
        said = talk.messages[piece.turn]
        field_of = "content" if piece.part == "content" else None
        begin = at
        for id, start, stop in _places(piece.ids, tokenizer, begin):
            inside = start - begin if field_of else -1
            part = "content" if field_of else piece.part
            yield Token(id, start, stop, piece.turn, field_of, inside, part, piece.trained, _reason(piece, said))
            at = stop


def _places(ids: Sequence[int], tokenizer: AutoTokenizer, begin: int) -> Iterator[tuple[int, int, int]]:
    """Yield id, first and last character of each token; those that share a character share its place."""
    done = 0
    for id in ids:
        raw = tokenizer.token_bytes(id)
        leads = sum(byte & 0xC0 != 0x80 for byte in raw)
        inside = bool(raw) and raw[0] & 0xC0 == 0x80 and done > 0
        yield id, begin + done - inside, begin + done + leads
        done += leads


def _reason(piece: Piece, said: Message) -> str:
    if piece.trained:
        return {"start": "answer_frame", "content": "answer", "stop": "stop", "after": "after_stop_asked"}[piece.part]
    if said.role != "assistant":
        return "prompt"
    return {"start": "generation_prompt", "after": "after_stop"}.get(piece.part, "not_wanted")


def document(tokenizer: AutoTokenizer, found: Document) -> Strand:
    """A text without turns: every token is a target, and so is the EOS behind it."""
    talk = Conversation(found.id, (Message("document", found.text),))
    places = list(_places(tokenizer.encode(found.text), tokenizer, 0))
    tokens = [Token(id, start, stop, 0, "text", start, "content", True, "document") for id, start, stop in places]
    end = tokens[-1].stop if tokens else 0
    if tokenizer.eos_token_id is not None:
        tokens.append(Token(tokenizer.eos_token_id, end, end, 0, None, -1, "stop", True, "eos"))
    return Strand("sequence", talk, tuple(tokens), len(found.text))


# ---------------------------------------------------------------------------------------------------------------------
# As arrays
# ---------------------------------------------------------------------------------------------------------------------


def as_row(strands: Sequence[Strand]) -> Row:
    """Return the arrays of a record, as a processor would give them; nothing is counted in them."""
    names = tuple(strand.key for strand in strands)
    arrays: dict[str, np.ndarray] = {}
    for strand in strands:
        arrays[strand.key] = np.array([token.id for token in strand.tokens], np.int32)
        mask = "loss_mask" if strand.key == "sequence" else f"{strand.key}_mask"
        arrays[mask] = np.array([token.trained for token in strand.tokens], bool)
    return Row(arrays, 0, 0, 0, turn=_turns(strands[0]) if names == ("sequence",) else None, ids=names)


def _turns(strand: Strand) -> np.ndarray:
    """The message of each token; what stands outside all turns goes with the turn before."""
    out, now = [], 0
    for token in strand.tokens:
        now = now if token.message is None else max(now, token.message)
        out.append(now)
    return np.array(out, np.int32)


# ---------------------------------------------------------------------------------------------------------------------
# Where two differ
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """Where two sequences differ: the message, and tokens ``a`` of the first against tokens ``b`` of the second."""

    message: int | None
    a: Span
    b: Span


def changes(one: Sequence[Token], other: Sequence[Token]) -> list[Change]:
    """Return where two sequences have another token or another target; long ones are aligned message by message."""
    a, b = _trimmed(one, other, (0, len(one)), (0, len(other)))
    if (a[1] - a[0]) * (b[1] - b[0]) <= ALIGNED:
        return [_change(one, other, *span) for span in _aligned(one, other, a, b)]
    left, right = _by_message(one, a), _by_message(other, b)
    out, at_a, at_b = [], a[0], b[0]
    for message in dict.fromkeys((*left, *right)):
        mine, theirs = left.get(message, (at_a, at_a)), right.get(message, (at_b, at_b))
        at_a, at_b = mine[1], theirs[1]
        out += [_change(one, other, *span) for span in _aligned(one, other, *_trimmed(one, other, mine, theirs))]
    return out


def _change(one: Sequence[Token], other: Sequence[Token], a: Span, b: Span) -> Change:
    first = one[a[0]] if a[1] > a[0] else other[b[0]]
    return Change(first.message, a, b)


def _by_message(tokens: Sequence[Token], span: Span) -> dict[int | None, Span]:
    """Where each message begins and ends; what stands outside all turns goes with the turn before."""
    spans: dict[int | None, Span] = {}
    now: int | None = None
    for at in range(*span):
        message = tokens[at].message
        now = now if message is None else message if now is None else max(now, message)
        spans[now] = (spans.get(now, (at, at))[0], at + 1)
    return spans


def _same(one: Token, other: Token) -> bool:
    return one.id == other.id and one.trained == other.trained


def _trimmed(one: Sequence[Token], other: Sequence[Token], a: Span, b: Span) -> tuple[Span, Span]:
    """Leave out what is equal at both ends."""
    most = min(a[1] - a[0], b[1] - b[0])
    head = next((at for at in range(most) if not _same(one[a[0] + at], other[b[0] + at])), most)
    rest = most - head
    tail = next((at for at in range(rest) if not _same(one[a[1] - 1 - at], other[b[1] - 1 - at])), rest)
    return (a[0] + head, a[1] - tail), (b[0] + head, b[1] - tail)


def _aligned(one: Sequence[Token], other: Sequence[Token], a: Span, b: Span) -> Iterator[tuple[Span, Span]]:
    """Yield what differs between two trimmed spans; as one change where an alignment would take too long."""
    left = [(token.id, token.trained) for token in one[slice(*a)]]
    right = [(token.id, token.trained) for token in other[slice(*b)]]
    if len(left) * len(right) > ALIGNED:
        yield a, b
        return
    for kind, p, q, r, s in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if kind != "equal":
            yield (a[0] + p, a[0] + q), (b[0] + r, b[0] + s)
