"""Generation tags against the rule: where a template's own tags differ from it, and tags placed anew, with the proof.

    rule:                                                        ░░░░░░░░░░░░░░░░
    tags:    <|im_start|>user↵Hi<|im_end|>↵<|im_start|>assistant↵Hello!<|im_end|>↵
                                           ░░░░░░░░░░░░░░░░░░░░░░░░░░░░     header inside, stop outside

    {{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}      one expression, six pieces
       ──────────────   ──────   ────   ═════════   ════════════┆──        ┆ cut where a target ends
       prompt                           trained, but only if m.role == 'assistant'
                                        ──▶ {% if … %}{% generation %} … {% endgeneration %}{% else %} … {% endif %}

No branch is judged by its looks. A copy with marks around every piece is rendered for all conversations at hand; so
each piece is known by what it wrote, and by which simple conditions held while it did. The edited source is rendered
again: the text must be the same to the letter, and the tags must mark the tokens of the rule.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prep_lib.chat.mask import Laid, Policy
from prep_lib.chat.rules import Case, Hit
from prep_lib.chat.source_map import (
    Piece,
    Segment,
    Stuck,
    cut_up,
    effective,
    literal,
    marked_copy,
    segments,
    track,
    wrote_by,
)
from prep_lib.chat.symptoms import Repair, plural
from prep_lib.chat.template import REASONING, ChatTemplate, Encoded
from prep_lib.errors import BadTemplate
from prep_lib.record import Conversation
from prep_lib.tokens.tokenizer import AutoTokenizer

# ---------------------------------------------------------------- a template's own tags against the rule


def unflagged(conversation: Conversation) -> Conversation:
    """Return the conversation without flags: tags mark every answer."""
    messages = tuple(replace(message, train=None, weight=None) for message in conversation.messages)
    return replace(conversation, messages=messages)


def differences(case: Case) -> Iterator[Hit]:
    """Yield where the tokens inside ``{% generation %}`` are not those of the rule."""
    rendered, policy = case.rendered, Policy(train_after_stop=case.policy.train_after_stop)
    assert rendered is not None
    if not has_tags(case.template) or case.template.tokenizer is None:
        return
    plain = Case(-1, case.template, unflagged(case.conversation), policy)
    if plain.laid is None or not isinstance(plain.mask, np.ndarray):
        return
    tagged = tag_mask(plain.encoded)
    found: dict[str, list[int]] = {}
    for at in np.flatnonzero(tagged != plain.mask).tolist():
        if not _unwanted(plain, plain.laid, at):
            found.setdefault(_difference(plain, plain.laid, at, bool(tagged[at])), []).append(at)
    for rule, positions in found.items():
        tokens = " ".join(repr(rendered.text[slice(*plain.span(at))]) for at in positions[:4])
        yield Hit(
            rule,
            f"{plural(len(positions), *_TAGGED[rule])} the generation tags: {tokens}",
            tuple(plain.span(p) for p in positions),
        )


_TAGGED = {
    "HEADER_IN_TRAINED_SPAN": (
        "token the generation prompt supplies is inside", "tokens the generation prompt supplies are inside",
    ),
    "TEXT_AFTER_EOT_TRAINED": ("token behind a stop token is inside", "tokens behind a stop token are inside"),
    "PROMPT_IN_TRAINED_SPAN": ("token of prompts is inside", "tokens of prompts are inside"),
    "EOT_NOT_TRAINED": ("token that stops is outside", "tokens that stop are outside"),
    "ANSWER_NOT_IN_TAGS": ("token of answers is outside", "tokens of answers are outside"),
}  # fmt: skip


def has_tags(template: ChatTemplate) -> bool:
    """Tell whether a template marks answers with ``{% generation %}``."""
    source = re.sub(r"\{#.*?#\}", "", template.source, flags=re.DOTALL)
    return re.search(r"\{%[-+]?\s*generation\s*[-+]?%\}", source) is not None


def tag_mask(encoded: Encoded) -> np.ndarray:
    """Return the tokens that hold characters inside generation tags, (n,) bool."""
    inside = np.zeros(len(encoded.rendered.text) + 1, np.int64)
    for run in encoded.rendered.runs:
        if run.generated:
            inside[run.start + 1 : run.stop + 1] = 1
    total = np.cumsum(inside)
    stops = np.maximum(encoded.stops, encoded.starts + 1).clip(max=len(encoded.rendered.text))
    mask: np.ndarray = total[stops] > total[np.minimum(encoded.starts, stops)]
    return mask


def _unwanted(case: Case, laid: Laid, at: int) -> bool:
    """Tell whether a token says nothing about the tags.

    So it is in an answer nobody wants to train, because it is empty, and behind one that has no token to stop at.
    """
    start = case.span(at)[0]
    run = laid.rendered.run_at(start)
    if any(not target.stopped and run.frame == target.message and start >= target.stop for target in laid.targets):
        return True
    targets = {target.message for target in laid.targets}
    return (
        run.frame is not None and case.conversation.messages[run.frame].role == "assistant" and run.frame not in targets
    )


def _difference(case: Case, laid: Laid, at: int, tagged: bool) -> str:
    """Name what a token is on which tags and rule differ."""
    start, stop = case.span(at)
    if not tagged:
        ends = any(target.said <= start and stop <= target.stop and target.stopped for target in laid.targets)
        return "EOT_NOT_TRAINED" if ends else "ANSWER_NOT_IN_TAGS"
    run = laid.rendered.run_at(start)
    if any(target.stop <= start < target.after for target in laid.targets):
        return "TEXT_AFTER_EOT_TRAINED"
    if any(target.stopped and target.stop <= start and run.origin is None for target in laid.targets):
        behind = max(target.stop for target in laid.targets if target.stop <= start)
        if not any(one.origin is not None for one in laid.rendered.between(behind, stop)):
            nxt = min((target.start for target in laid.targets if target.start > start), default=None)
            if nxt is None or any(one.origin is not None for one in laid.rendered.between(stop, nxt)):
                return "TEXT_AFTER_EOT_TRAINED"
    ahead = [target.start for target in laid.targets if target.start > start]
    data = ("content", "tool_calls", *REASONING)
    if ahead and not any(
        one.origin is not None and one.origin.field.startswith(data) for one in laid.rendered.between(start, min(ahead))
    ):
        return "HEADER_IN_TRAINED_SPAN"
    return "PROMPT_IN_TRAINED_SPAN"


# ---------------------------------------------------------------- placing the tags


def place_tags(template: ChatTemplate, cases: Sequence[Case]) -> Repair | None:
    """Return the template with its generation tags around exactly what the rule trains; None if that is not proven.

    Parameters
    ----------
    template : ChatTemplate
        With a tokenizer.
    cases : sequence of Case
        The conversations to prove it by; those that do not render, or have no proven mask, are left out.
    """
    proving = proven_cases(template, cases)
    try:
        source = _placed(template, proving) if proving else None
        return None if source is None else _proven(template, source, proving)
    except (Stuck, BadTemplate, IndexError):
        return None


def proven_cases(template: ChatTemplate, cases: Sequence[Case]) -> list[Case]:
    """Return the cases with every answer wanted, whose mask is proven."""
    again = (Case(case.row, template, unflagged(case.conversation), Policy()) for case in cases if not case.limited)
    return [case for case in again if case.laid is not None and isinstance(case.mask, np.ndarray)]


def _placed(template: ChatTemplate, proving: Sequence[Case]) -> str:
    found = segments(_untagged(template, proving))
    for _ in range(6):
        pieces = cut_up(found)
        for piece in pieces:
            piece.asked = False
        _try(template, found, pieces, proving)
        if not any(piece.cuts for piece in pieces):
            return _decided(template, found, pieces, proving)
        for one in found:
            one.pieces = [part for piece in one.pieces for part in _split(piece)]
    raise Stuck


def _decided(template: ChatTemplate, found: Sequence[Segment], pieces: Sequence[Piece], proving: Sequence[Case]) -> str:
    """Ask for conditions where a piece writes now what is trained and now what is not."""
    for piece in pieces:
        piece.asked = len({label for label, _ in piece.seen}) > 1
    if any(piece.asked for piece in pieces):
        _try(template, found, pieces, proving)
    return _written(found)


def _untagged(template: ChatTemplate, proving: Sequence[Case]) -> str:
    """Return the source without generation tags, by the tidiest way that renders the same."""
    if not has_tags(template):
        return template.source
    ways = [_without_tags(template.source, way) for way in ("line", "blanks", "bare", "comment")]
    return next((source for source in ways if renders_same(source, proving)), ways[-1])


def _without_tags(source: str, way: str) -> str:
    out, eat = "", ""
    for one in segments(source):
        if one.word not in ("generation", "endgeneration"):
            out, eat = out + one.source().removeprefix(eat), ""
        elif way == "comment":
            out += f"{{#{one.left} {one.right}#}}"
        elif way != "bare":
            # With the line its tag stands in, or with all blanks before it.
            out = out.rstrip(" \t") if way == "line" else out.rstrip()
            eat = "\n" if way == "line" else ""
    return out


def edited_as(template: ChatTemplate, source: str, tokenizer: AutoTokenizer | None = None) -> ChatTemplate:
    """Return the template with another source, and another tokenizer if one is given."""
    return ChatTemplate(
        source, tokenizer or template.tokenizer, name=template.name, variables=template.variables, now=template.now,
        content_specials=template.content_specials, stops=template.stops,
    )  # fmt: skip


def renders(n: int) -> str:
    """Return how many conversations render, as a proof says it."""
    return plural(n, "conversation renders", "conversations render")


def renders_same(source: str, cases: Sequence[Case]) -> bool:
    """Tell whether a source renders what the template of the cases does, with the generation prompt and without."""
    if not cases:
        return True
    try:
        other = edited_as(cases[0].template, source)
    except BadTemplate:
        return False
    return all(case.text_by(other, prompt) == case.texts[prompt] for case in cases for prompt in (False, True))


def _try(template: ChatTemplate, found: Sequence[Segment], pieces: Sequence[Piece], proving: Sequence[Case]) -> None:
    """Render the marked copy and note for each piece what it wrote."""
    marked = edited_as(template, marked_copy(found, pieces))
    for piece in pieces:
        piece.seen, piece.cuts = [], set()
    for case in proving:
        assert case.laid is not None
        text, wrote = wrote_by(marked.text(case.conversation.messages, case.conversation.tools or None))
        rendered = case.laid.rendered
        if text != rendered.text:
            raise Stuck
        spans = [(target.start, target.stop) for target in case.laid.targets]
        answers = {target.message for target in case.laid.targets}
        for number, bits, start, stop in wrote:
            frame = rendered.run_at(start).frame if start < stop else None
            said = frame is not None and case.conversation.messages[frame].role == "assistant"
            if start < stop and not (said and frame not in answers):
                _note(pieces[number], bits, start, stop, spans)


def _note(piece: Piece, bits: tuple[bool, ...], start: int, stop: int, spans: Iterable[tuple[int, int]]) -> None:
    """Note whether what a piece wrote lies in a target; where a target begins or ends inside it, it is to be cut."""
    inside = [(max(start, first), min(stop, last)) for first, last in spans if first < stop and last > start]
    cuts = {at - start for span in inside for at in span} - {0, stop - start}
    if not cuts:
        piece.seen.append((bool(inside), bits))
    elif piece.text is None:
        raise Stuck
    piece.cuts |= cuts


def _split(piece: Piece) -> list[Piece]:
    if not piece.cuts or piece.text is None:
        return [piece]
    places = [0, *sorted(piece.cuts), len(piece.text)]
    texts = [piece.text[first:last] for first, last in itertools.pairwise(places)]
    return [Piece(literal(text), text, piece.conditions) for text in texts]


# ---------------------------------------------------------------- the edited source


@dataclass
class _Unit:
    """A stretch of source that is wrapped as one: its text without outer signs, those signs, when it is trained."""

    inner: str
    left: str
    right: str
    when: str | None
    expr: bool = True
    fixed: bool = False
    silent: bool = False


def _written(found: Sequence[Segment]) -> str:
    """Return the source with tags around what is trained; neighbours of one verdict share a pair."""
    units, at, texts = [], 0, effective(found)
    while at < len(found):
        stop = _whole(found, at)
        if stop is not None:
            units.append(_joined(found[at:stop]))
        elif found[at].kind == "comment" or (found[at].kind == "data" and not texts[at]):
            units.append(_Unit(found[at].source(), "", "", None, fixed=True, silent=True))
        else:
            units += _units(found[at])
        at = at + 1 if stop is None else stop
    return "".join(_wrapped(group[0].when, group) for group in _groups(units))


def _groups(units: Sequence[_Unit]) -> Iterator[list[_Unit]]:
    """Put neighbours of one verdict together, with what writes nothing between them."""
    group: list[_Unit] = []
    held: list[_Unit] = []
    for unit in units:
        if unit.silent:
            held.append(unit)
        elif group and not unit.fixed and not group[0].fixed and unit.when == group[0].when:
            group += [*held, unit]
            held = []
        else:
            yield from (one for one in (group, held) if one)
            group, held = [unit], []
    yield from (one for one in (group, held) if one)


def _whole(found: Sequence[Segment], at: int) -> int | None:
    """Return the end of a block that can be wrapped whole: all it writes is trained, and it sets nothing."""
    if found[at].word not in ("if", "for"):
        return None
    stack: list[tuple[str, str]] = []
    always = False
    for stop in range(at, len(found)):
        one = found[stop]
        verdicts = [piece.verdict() for piece in one.pieces if piece.seen]
        if one.word in ("set", "break", "continue", "macro", "generation") or any(when != "" for when in verdicts):
            return None
        always |= bool(verdicts)
        if one.kind == "block":
            track(stack, one)
        if not stack:
            return stop + 1 if always else None
    return None


def _joined(found: Sequence[Segment]) -> _Unit:
    first, last = found[0], found[-1]
    middle = "".join(one.source() for one in found[1:-1])
    inner = first.source(left="") + middle + last.source(right="")
    return _Unit(inner, first.left, last.right, "", expr=False)


def _units(one: Segment) -> list[_Unit]:
    """Return a segment as units: its pieces, where their verdicts differ or call for tags."""
    verdicts = [piece.verdict() for piece in one.pieces]
    if not verdicts or all(when is None for when in verdicts):
        return [_Unit(one.source(), "", "", None, fixed=True)]
    units = []
    for when, group in itertools.groupby(zip(verdicts, one.pieces, strict=True), key=lambda pair: pair[0]):
        codes = " + ".join(piece.code for _, piece in group)
        units.append(_Unit("{{ " + codes + " }}", "", "", when))
    units[0].left, units[-1].right = one.left, one.right
    if one.kind == "data":  # its text is spelled out now, so tags around it have nothing to trim
        units[0].left = units[-1].right = ""
    return units


def _plain(unit: _Unit) -> str:
    return unit.inner if unit.fixed else signed(unit.inner, unit.left, unit.right)


def signed(inner: str, left: str, right: str) -> str:
    """Return a tag with signs that trim around it."""
    return inner[:2] + left + inner[2:-2] + right + inner[-2:]


def _wrapped(when: str | None, units: Sequence[_Unit]) -> str:
    if when is None or units[0].fixed:
        return "".join(map(_plain, units))
    first, last = units[0], units[-1]
    body = "".join(
        _plain(unit) if unit.fixed else
        signed(unit.inner, "" if unit is first else unit.left, "" if unit is last else unit.right)
        for unit in units
    )  # fmt: skip
    # An expression trims nothing around it; a tag would, unless it is told not to.
    left = first.left or ("+" if first.expr else "")
    right = last.right or ("+" if last.expr else "")
    if when == "":
        return f"{{%{left} generation %}}{body}{{% endgeneration {right}%}}"
    tagged = f"{{% generation %}}{body}{{% endgeneration %}}"
    return f"{{%{left} if {when} %}}{tagged}{{% else %}}{body}{{% endif {right}%}}"


def _proven(template: ChatTemplate, source: str, proving: Sequence[Case]) -> Repair | None:
    source = _tidied(template, source, proving)
    if not renders_same(source, proving):
        return None
    edited, tokens = edited_as(template, source), 0
    for case in proving:
        other = Case(case.row, edited, case.conversation, Policy())
        if not isinstance(other.mask, np.ndarray) or not isinstance(case.mask, np.ndarray):
            return None
        mask, wanted = tag_mask(other.encoded), case.mask
        differing = [at for at in np.flatnonzero(mask != wanted).tolist() if not _of_unwanted(other, at)]
        if differing:
            return None
        tokens += int(wanted.sum())
    proofs = (
        f"{renders(len(proving))} the same text, with the generation prompt and without",
        f"the tags mark the {plural(tokens, 'token')} the rule trains in them, and no other",
    )
    what = "move the generation tags" if has_tags(template) else "place generation tags"
    return Repair(what, source, "use the template written here for training", proofs)


def _of_unwanted(case: Case, at: int) -> bool:
    assert case.laid is not None
    frame = case.laid.rendered.run_at(int(case.encoded.starts[at])).frame
    targets = {target.message for target in case.laid.targets}
    return frame is not None and case.conversation.messages[frame].role == "assistant" and frame not in targets


def _tidied(template: ChatTemplate, source: str, proving: Sequence[Case]) -> str:
    """Leave out the plus signs of tags where there is nothing to trim."""
    tidy = re.sub(r"(?<![\n \t])\{%\+ (?=generation|if)|(?<=[^\s])([ \t]+)\{%\+ (?=generation|if)", r"\1{% ", source)
    tidy = re.sub(r"(endgeneration|endif) \+%\}(?!\n)", r"\1 %}", tidy)
    return tidy if renders_same(tidy, proving) else source
