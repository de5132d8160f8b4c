"""Conversations rendered by a chat template become rows: one encoding a batch, masks proven, every token counted.

conversations ──lay──▶ texts with borders ──encode_rows──▶ ids and places ──mask_of──▶ Row │ Drop │ BadRecord
                       edges: where data and turns begin and end             counts: content, control, EOS
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from prep_lib.chat.mask import Laid, Policy, Unproven, lay, mask_of
from prep_lib.chat.row import Row
from prep_lib.chat.template import ChatTemplate
from prep_lib.errors import BadRecord
from prep_lib.record import Conversation, Drop, Message, Preference, Rated
from prep_lib.tokens.joint import Placed

Talk = Conversation | Rated


def rows(
    template: ChatTemplate, policy: Policy, talks: Sequence[Talk | Drop | BadRecord]
) -> list[Row | Drop | BadRecord]:
    """Return one verdict a conversation, in order; what could not be read passes through.

    Notes
    -----
    *Drops* ``empty``, ``empty_response``, ``no_target``, ``no_context``, and the reasons of `mask.Unproven`.
    *Fails* ``template_failed``.
    """
    return [made.row if isinstance(made, _Made) else made for made in _made(template, policy, talks)]


class _Made(NamedTuple):
    """A row, and how many of its tokens are the prompt of its first target."""

    row: Row
    prompt: int


def _made(
    template: ChatTemplate, policy: Policy, talks: Sequence[Talk | Drop | BadRecord]
) -> list[_Made | Drop | BadRecord]:
    drafts = [talk if isinstance(talk, Drop | BadRecord) else _draft(template, policy, talk) for talk in talks]
    rows = [draft.laid.row([*draft.starts, *draft.data]) for draft in drafts if isinstance(draft, _Draft)]
    placed = iter(template.encode_rows(rows))
    end = None if template.tokenizer is None else template.tokenizer.eos_token_id
    return [_row(draft, next(placed), end) if isinstance(draft, _Draft) else draft for draft in drafts]


def pairs(
    template: ChatTemplate, policy: Policy, preferences: Sequence[Preference | Drop | BadRecord]
) -> list[Row | Drop | BadRecord]:
    """Return one verdict a pair: two sequences that begin with the same ``prompt_length`` ids.

    Notes
    -----
    *Drops* as `rows`, and ``chosen_equals_rejected``. *Fails* ``prompt_differs``: the template writes the prompt
    otherwise before one answer than before the other.
    """
    good = [pair for pair in preferences if isinstance(pair, Preference)]
    made = iter(_made(template, policy, [_answered(pair, which) for pair in good for which in (0, 1)]))
    return [_pair(next(made), next(made)) if isinstance(pair, Preference) else pair for pair in preferences]


def context(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages none of which is a target."""
    return tuple(replace(message, train=False) if message.role == "assistant" else message for message in messages)


def _answered(pair: Preference, which: int) -> Conversation:
    answer = pair.rejected if which else pair.chosen
    return Conversation(pair.id, (*context(pair.prompt), *answer), pair.tools)


def _pair(chosen: _Made | Drop | BadRecord, rejected: _Made | Drop | BadRecord) -> Row | Drop | BadRecord:
    for made in (chosen, rejected):
        if isinstance(made, BadRecord):
            return made
    if not isinstance(chosen, _Made) or not isinstance(rejected, _Made):
        return chosen if isinstance(chosen, Drop) else rejected  # type: ignore[return-value]
    (first, size), (second, other_size) = chosen, rejected
    one, other = first.arrays, second.arrays
    if np.array_equal(one["sequence"], other["sequence"]):
        return Drop("chosen_equals_rejected")
    # The prompt ends where the answers begin, whatever a policy leaves out of them.
    if size != other_size or not np.array_equal(one["sequence"][:size], other["sequence"][:size]):
        return BadRecord("prompt_differs", "both answers need one shared prompt")
    arrays = {
        "chosen": one["sequence"], "chosen_mask": one["loss_mask"],
        "rejected": other["sequence"], "rejected_mask": other["loss_mask"],
        "prompt_length": np.array([size], np.int32),
    }  # fmt: skip
    content, control, eos = (getattr(first, name) + getattr(second, name) for name in ("content", "control", "eos"))
    literal = first.literal_specials + second.literal_specials
    return Row(arrays, content, control, eos, literal_specials=literal, ids=("chosen", "rejected"))


class _Draft(NamedTuple):
    """A laid-out conversation; where its turns begin, whose they are; and where data begins, ends, begins, … in it."""

    talk: Talk
    laid: Laid
    starts: list[int]
    owners: list[int]
    data: list[int]


def _draft(template: ChatTemplate, policy: Policy, talk: Talk) -> _Draft | Drop | BadRecord:
    if not talk.messages:
        return Drop("empty")
    try:
        laid = lay(template, Conversation(talk.id, talk.messages, talk.tools), policy, thorough=False)
    except Unproven as error:
        return Drop(error.reason)
    except BadRecord as error:
        return error
    if not laid.targets:
        return Drop("empty_response" if policy.silent(talk.messages) else "no_target")
    if not all(target.spoken for target in laid.targets):
        return Drop("message_not_rendered")
    return _Draft(talk, laid, *_turn_starts(laid), _data(laid))


def _row(draft: _Draft, placed: Placed, end: int | None) -> _Made | Drop:
    laid, turns, bounds = draft.laid, len(draft.starts), len(draft.starts) + len(draft.data)
    try:
        mask = mask_of(laid, placed)
    except Unproven as error:
        return Drop(error.reason)
    size, targets = len(placed.ids), int(np.count_nonzero(mask))
    if targets in (0, size):
        return Drop("no_context" if targets else "no_target")
    content = sum(placed.edges[turns + 1 : bounds : 2]) - sum(placed.edges[turns:bounds:2])
    eos = 0 if end is None else int(np.count_nonzero(placed.ids == end))
    turn = _turns(draft.owners, placed.edges[:turns], size)
    arrays = {"sequence": placed.ids, "loss_mask": mask}
    if laid.policy.weights:
        arrays["loss_weight"] = weights(draft.talk.messages, turn, mask)
    row = Row(arrays, content, size - content - eos, eos, turn, laid.rendered.literal)
    return _Made(row, placed.places[0])


def weights(messages: Sequence[Message], turn: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the weight of each token, (n,) float32: that of its message where it is a target, else 0.

    Examples
    --------
    >>> told = [Message("user", "a"), Message("assistant", "b", weight=0.5)]
    >>> weights(told, np.array([0, 1, 1]), np.array([False, False, True])).tolist()
    [0.0, 0.0, 0.5]
    """
    own = np.array([1.0 if message.weight is None else message.weight for message in messages], np.float32)
    told: np.ndarray = own[turn] * mask
    return told


def _turn_starts(laid: Laid) -> tuple[list[int], list[int]]:
    """Return where each turn begins and its message, in order; a turn never ends before the one behind it begins."""
    starts, owners, last = [], [], -1
    begun = {target.message: target.start for target in laid.targets}
    for run in laid.rendered.runs:
        owner = run.frame if run.frame is not None else run.origin and run.origin.message
        if owner is not None and owner > last:
            starts.append(min(run.start, begun.get(owner, run.start)))
            owners.append(owner)
            last = owner
    return starts, owners


def _turns(owners: Sequence[int], places: Sequence[int], size: int) -> np.ndarray:
    """Return the message each token belongs to, (n,) int32; what stands before the first belongs to it."""
    turn, start = np.zeros(size, np.int32), 0
    for owner, end in zip(owners, [*places[1:], size], strict=True) if owners else ():
        # A turn may begin inside the token another one begins with.
        turn[start:end] = owner
        start = max(start, end)
    return turn


def _data(laid: Laid) -> list[int]:
    """Return first and last characters of what the record says, run by run; roles are the template's frame."""
    out: list[int] = []
    for run in laid.rendered.runs:
        if run.origin is None or run.origin.field == "role":
            continue
        if out and out[-1] == run.start:
            out[-1] = run.stop
        else:
            out += [run.start, run.stop]
    return out
