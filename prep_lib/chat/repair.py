"""Repairs: a changed template, or changed conversations, for each rule that one is known for, proven by running it.

    MARKER_NOT_SINGLE_TOKEN      the near spelling that is one token        every answer then ends in a stop token
    EOT_NOT_TRAINED              that, or a stop token behind every answer  nothing else in any text changes
    CONTENT_TRIMMED              without the trims                          texts without outer blanks stay the same
    RENDER_DEPENDS_ON_DATE       the recorded date written out              the same text on every day
    GENERATION_PROMPT_MISMATCH   a shorter generation prompt                every answer begins where the prompt ends
    the rules about tags         tags placed anew                           see `generation_tags`
    ROLE_REFUSED, SYSTEM_…, …    conversations changed, not the template    the rule is gone, and no message is lost

A repair without proofs was not proven: it is advice, and carries no template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from prep_lib.chat.generation_tags import (
    edited_as,
    has_tags,
    place_tags,
    proven_cases,
    renders,
    renders_same,
    signed,
    unflagged,
)
from prep_lib.chat.mask import Policy
from prep_lib.chat.probes import PROBES, STAND_IN
from prep_lib.chat.rules import Case, as_mappings, as_text, cheap, folded, inlined, merged, with_roles
from prep_lib.chat.source_map import Piece, Segment, Stuck, cut_up, literal, marked_copy, segments, wrote_by
from prep_lib.chat.symptoms import Repair, plural
from prep_lib.chat.template import ChatTemplate
from prep_lib.errors import BadTemplate
from prep_lib.record import Conversation
from prep_lib.special import MARKER

#: Conversations a repair of the template is proven by beside our probes, and those one of the data is tried on.
PROVING, TRIED = 40, 20


def fix_marker(template: ChatTemplate, cases: Sequence[Case]) -> Repair | None:
    """Return the template with markers spelled as the tokenizer has them; None if there are none so alike."""
    tokenizer = template.tokenizer
    if tokenizer is None:
        return None
    known: dict[str, list[str]] = {}
    for token in map(tokenizer.token, sorted(tokenizer.control_ids)):
        known.setdefault(_folded(token), []).append(token)
    wrong = [one for one in dict.fromkeys(MARKER.findall(template.source)) if tokenizer.id(one) is None]
    right = {one: known[_folded(one)][0] for one in wrong if len(known.get(_folded(one), ())) == 1}
    source = template.source
    for one, other in right.items():
        source = source.replace(one, other)
    if not right or not cases or not _renders_as(source, cases, right):
        return None
    spelled = ", ".join(f"{one!r} becomes {other!r} (id {tokenizer.id(other)})" for one, other in right.items())
    again = _edited(template, source, cases)
    bare = sum(not target.stopped for case in again if case.laid is not None for target in case.laid.targets)
    if bare:
        return None
    answers = sum(len(case.laid.targets) for case in again if case.laid is not None)
    proofs = (
        spelled,
        f"{renders(len(cases))} the same but for that",
        f"each of {plural(answers, 'answer')} found in {len(again):,} of them ends in a stop token",
    )
    return Repair("spell the markers as the tokenizer does", source, "use the template written here", proofs)


def _folded(marker: str) -> str:
    return marker.replace("｜", "|").replace("▁", "_").casefold()


def _renders_as(source: str, cases: Sequence[Case], swapped: Mapping[str, str]) -> bool:
    """Tell whether a source renders what the template renders, but for spellings of markers."""
    other = edited_as(cases[0].template, source)
    for case in cases:
        before = case.texts[0]
        for one, new in swapped.items():
            before = before and before.replace(one, new)
        if before != case.text_by(other):
            return False
    return bool(cases)


def _edited(template: ChatTemplate, source: str, cases: Sequence[Case]) -> list[Case]:
    """Return the cases under another source, those that can be laid out."""
    other = edited_as(template, source)
    again = (Case(case.row, other, unflagged(case.conversation), Policy()) for case in cases)
    return [case for case in again if case.laid is not None]


def add_stop(template: ChatTemplate, cases: Sequence[Case]) -> Repair | None:
    """Return the template with a stop token behind every answer that has none; None if that is not proven."""
    proving, token = _spoken_cases(template, cases), _stop_token(template, cases)
    if token is None or not proving:
        return None
    try:
        found = segments(template.source)
        pieces = cut_up(found)
        _note_ends(template, found, pieces, proving)
        return _proven_stops(template, found, proving, token)
    except (Stuck, BadTemplate, IndexError):
        return None


def _spoken_cases(template: ChatTemplate, cases: Sequence[Case]) -> list[Case]:
    """Return the cases whose answers are all in the text: where one is left out, nobody knows where it would end."""
    proving = proven_cases(template, cases)
    return [case for case in proving if case.laid is not None and all(target.spoken for target in case.laid.targets)]


def _stop_token(template: ChatTemplate, cases: Sequence[Case]) -> str | None:
    """Return the token to stop at: the one other answers end with, else the tokenizer's."""
    tokenizer = template.tokenizer
    if tokenizer is None:
        return None
    for case in cases:
        for target in case.laid.targets if case.laid is not None else ():
            if target.stopped and case.laid is not None:
                ends = [(a, b) for a, b, _ in case.laid.rendered.controls if b == target.stop]
                return case.laid.rendered.text[slice(*ends[0])] if ends else None
    if tokenizer.name.startswith(STAND_IN):
        return None  # which token a model stops at is not known
    turns = [id for id in tokenizer.stop_ids if id != tokenizer.eos_token_id] if "im" in template.source else []
    stop = next(iter(turns), tokenizer.eos_token_id)
    return None if stop is None else tokenizer.token(stop)


def _note_ends(
    template: ChatTemplate, found: Sequence[Segment], pieces: Sequence[Piece], proving: Sequence[Case]
) -> None:
    """Note for each piece whether an answer without a stop token ended where it did."""
    marked = edited_as(template, marked_copy(found, pieces))
    for case in proving:
        assert case.laid is not None
        text, wrote = wrote_by(marked.text(case.conversation.messages, case.conversation.tools or None))
        if text != case.laid.rendered.text:
            raise Stuck
        bare = {target.said for target in case.laid.targets if not target.stopped}
        last = {stop: at for at, (_, _, start, stop) in enumerate(wrote) if start < stop}
        for at, (number, bits, start, stop) in enumerate(wrote):
            if start < stop:
                pieces[number].seen.append((stop in bare and last[stop] == at, bits))


def _with_stop(one: Segment, token: str) -> str:
    """Return a segment with the token behind the pieces that call for it."""
    verdicts = [piece.verdict() for piece in one.pieces]
    if all(when is None for when in verdicts):
        return one.source()
    out, codes = [], list[str]()
    stop = "{{ " + literal(token) + " }}"
    for piece, when in zip(one.pieces, verdicts, strict=True):
        codes.append(piece.code)
        if when is not None:
            out += ["{{ " + " + ".join(codes) + " }}", stop if when == "" else f"{{% if {when} %}}{stop}{{% endif %}}"]
            codes.clear()
    out += ["{{ " + " + ".join(codes) + " }}"] if codes else []
    out[0] = signed(out[0], one.left if one.kind == "expr" else "", "")
    out[-1] = signed(out[-1], "", one.right)
    return "".join(out)


#: Written in place of the token to see where it is written: no text holds it.
_MARK = "\ufdd4"


def _proven_stops(
    template: ChatTemplate, found: Sequence[Segment], proving: Sequence[Case], token: str
) -> Repair | None:
    source = "".join(_with_stop(one, token) for one in found)
    marked = edited_as(template, "".join(_with_stop(one, _MARK) for one in found))
    for case in proving:
        text = case.text_by(marked)
        if case.laid is None or text is None or text.replace(_MARK, "") != case.laid.rendered.text:
            return None
    targets = [target for case in _edited(template, source, proving) if case.laid for target in case.laid.targets]
    if len(targets) < sum(len(case.laid.targets) for case in proving if case.laid):
        return None
    if not all(target.stopped for target in targets):
        return None
    proofs = (
        f"each of {plural(len(targets), 'answer')} in {plural(len(proving), 'conversation')} now ends in a stop token",
        f"without the added {token!r} every text is as before",
    )
    advice = "use the template written here for training and serving, and train again"
    return Repair(f"write {token!r} behind every answer", source, advice, proofs)


_TRIM = re.compile(r"\s*\|\s*trim\b(?:\(\s*\))?|\.(?:l|r)?strip\(\s*\)")


def keep_blanks(template: ChatTemplate, cases: Sequence[Case]) -> Repair | None:
    """Return the template without the trims that take blanks of messages; None if that is not proven."""
    plain = [case for case in cases if not _blank_ended(case)]
    places = [found.span() for found in _TRIM.finditer(template.source)]
    gone = [place for place in places if renders_same(_without(template.source, [place]), plain)]
    if not gone or not _keeps(template, _without(template.source, gone), cases, plain):
        return None
    for place in list(gone):  # a trim that takes nothing of a message stays
        fewer = [one for one in gone if one != place]
        if _keeps(template, _without(template.source, fewer), cases, plain):
            gone = fewer
    proofs = (
        f"messages with blanks at their ends keep them in {plural(len(cases) - len(plain), 'conversation')}",
        f"{renders(len(plain))} the same text, those without such blanks",
    )
    source = _without(template.source, gone)
    return Repair("take out the trims", source, "use the template written here, in training and serving", proofs)


def _without(source: str, places: Sequence[tuple[int, int]]) -> str:
    for start, stop in sorted(places, reverse=True):
        source = source[:start] + source[stop:]
    return source


def _keeps(template: ChatTemplate, source: str, cases: Sequence[Case], plain: Sequence[Case]) -> bool:
    """Tell whether a source keeps all blanks, and renders the same where there are none."""
    if not renders_same(source, plain):
        return False
    other = edited_as(template, source)
    ended = [Case(case.row, other, case.conversation, case.policy) for case in cases if _blank_ended(case)]
    lost = ("CONTENT_TRIMMED", "CONTENT_CUT", "TEMPLATE_FAILS")
    return not any(hit.rule in lost for case in ended for hit in cheap(case))


def _blank_ended(case: Case) -> bool:
    return any(
        text != text.strip() or "</think>" in text
        for message in case.conversation.messages
        for text in (message.content, message.reasoning or "")
    )


def fix_date(template: ChatTemplate, cases: Sequence[Case]) -> Repair:
    """Return the template with the recorded date written out; with advice alone if that is not proven."""
    what = f"the date is fixed to {template.date} and recorded"
    advice = "nothing is to be done here; elsewhere use the template written here, or another date for all runs"
    calls = re.compile(r"strftime_now\(\s*('[^']*'|\"[^\"]*\")\s*\)")

    def written(found: re.Match[str]) -> str:
        return literal(ChatTemplate("{{ strftime_now(" + found[1] + ") }}", now=template.now).text([]))

    source = calls.sub(written, template.source)
    good = [case for case in cases if case.rendered is not None]
    if source == template.source or not renders_same(source, good):
        return Repair(what, None, advice)
    if ChatTemplate(source, template.tokenizer).uses("strftime_now") and not _undated(template, source, good):
        return Repair(what, None, advice)
    proofs = (f"{renders(len(good))} the same text as on {template.date}, whatever the day",)
    return Repair(what, source, advice, proofs)


def _undated(template: ChatTemplate, source: str, cases: Sequence[Case]) -> bool:
    other = edited_as(template, source)
    other.now = "2001-02-03"
    return all(case.text_by(other) == case.texts[0] for case in cases)


def shorten_prompt(template: ChatTemplate, met: Sequence[Case], cases: Sequence[Case]) -> Repair | None:
    """Return the template whose generation prompt ends where answers begin in training; None if not proven."""
    case = met[0]
    if case.laid is None or not case.laid.targets or not template.uses("add_generation_prompt"):
        return None
    target = case.laid.targets[0]
    talk = case.conversation
    before = Case(-1, template, replace(talk, messages=talk.messages[: target.message]), case.policy)
    prompt = before.texts[1]
    text = case.laid.rendered.text
    if prompt is None or not prompt.startswith(text[: target.start]):
        return None
    # As a string spells it, or as text between tags does.
    spellings = (literal(prompt[target.start :])[1:-1], prompt[target.start :])
    extra = next((one for one in spellings if one and one in template.source), "")
    if not extra:
        return None
    at = template.source.rfind(extra)
    source = template.source[:at] + template.source[at + len(extra) :]
    good = [one for one in cases if one.rendered is not None]
    try:
        again = _edited(template, source, good)
        same = all(one.text_by(again[0].template) == one.texts[0] for one in good) if again else False
    except BadTemplate:
        return None
    targets = [one for other in again if other.laid is not None for one in other.laid.targets]
    if not same or not all(one.met for one in targets):
        return None
    proofs = (
        f"{renders(len(good))} the same text without the prompt",
        f"each of {plural(len(targets), 'answer')} found in {len(again):,} of them begins where the prompt ends",
    )
    what = f"take {prompt[target.start :]!r} out of the generation prompt"
    advice = "serve with the template written here; or train with answers that begin so"
    return Repair(what, source, advice, proofs)


# ---------------------------------------------------------------- changed conversations, changed encoding


#: Rule -> what is done to the conversations, and what to tell a person.
_DATA: Mapping[str, tuple[Callable[[Conversation], Conversation | None], str, str]] = {
    "MESSAGE_DROPPED": (with_roles, "map the roles", "map the roles to system, user, assistant and tool"),
    "ROLE_REFUSED": (with_roles, "map the roles", "map the roles to system, user, assistant and tool"),
    "SYSTEM_REFUSED": (folded, "fold the system text", "put the system text before the next question"),
    "SYSTEM_DROPPED": (folded, "fold the system text", "put the system text before the next question"),
    "SYSTEM_DROPPED_IN_TRAINING": (
        folded, "fold the system text", "put the system text before the first question, in training and serving",
    ),
    "MID_SYSTEM_DROPPED": (folded, "fold the system text", "put the system text before the next question"),
    "TOOL_ARGUMENTS_DICT_FAIL": (as_text, "write arguments as JSON text", "give arguments of calls as JSON text"),
    "TOOL_ARGUMENTS_STRING_FAIL": (as_mappings, "parse the arguments", "give arguments of calls as mappings"),
    "ROLES_NOT_ALTERNATING": (merged, "join neighbours of one role", "join messages of one role that follow"),
    "REASONING_DROPPED": (
        inlined, "write thoughts into the content", "put the thought before the content, in <think> tags",
    ),
    "CONTENT_NULL_FAILS": (lambda talk: talk, 'write "" for null content', 'give "" where content is null'),
}  # fmt: skip


def _of_data(rule: str, met: Sequence[Case]) -> Repair:
    """Change the conversations and look again; nothing is claimed unless it went well with all of them."""
    change, what, advice = _DATA[rule]
    tried = met[:TRIED]
    for case in tried:
        changed = change(case.conversation)
        if changed is None or not _is_well(rule, Case(case.row, case.template, changed, case.policy)):
            return Repair(what, None, advice)
    proof = f"{plural(len(tried), 'conversation')} changed so and rendered: {rule} is gone, and no message is lost"
    return Repair(what, None, advice, (proof,))


def _is_well(rule: str, case: Case) -> bool:
    if case.rendered is None:
        return False
    lost = {"MESSAGE_DROPPED", "SYSTEM_DROPPED", "MID_SYSTEM_DROPPED", "SYSTEM_DROPPED_IN_TRAINING", "CONTENT_CUT"}
    return not {hit.rule for hit in cheap(case)} & {rule, *lost}


def _split(met: Sequence[Case]) -> Repair:
    """Make each answer a sample of its own, ending with it, and look whether training then is what a server sees."""
    what = "split into one sample an answer"
    advice = "make each answer a sample of its own that ends with it, and train only that one"
    samples = 0
    for case in met[:TRIED]:
        for at, message in enumerate(case.conversation.messages):
            if message.role == "assistant" and message.content:
                talk = replace(case.conversation, messages=case.conversation.messages[: at + 1])
                sample = Case(case.row, case.template, talk, Policy(answers="last"))
                lost = {hit.rule for hit in cheap(sample)} & {"REASONING_DROPPED", "MESSAGE_DROPPED"}
                if lost or sample.laid is None or not all(target.parity for target in sample.laid.targets):
                    return Repair(what, None, advice)
                samples += 1
    return Repair(what, None, advice, (f"{plural(samples, 'such sample')}: the server's prompt is how each begins",))


def _single_bos(case: Case) -> Repair:
    advice = "encode the rendered text with add_special_tokens=False"
    what = "let only the template write the BOS"
    tokenizer = case.template.tokenizer
    if tokenizer is None or case.rendered is None or case.rendered.literal:
        return Repair(what, None, advice)
    ids = tokenizer.encode(case.rendered.text, parse_special=True)
    if not np.array_equal(ids, case.encoded.ids) or ids[1:2] == [tokenizer.bos_token_id]:
        return Repair(what, None, advice)
    return Repair(what, None, advice, (f"{plural(len(ids), 'id')} so encoded, with one {tokenizer.bos_token!r} first",))


# ---------------------------------------------------------------- which repair for which rule

_TAGS = frozenset({
    "HEADER_IN_TRAINED_SPAN", "TEXT_AFTER_EOT_TRAINED", "PROMPT_IN_TRAINED_SPAN", "ANSWER_NOT_IN_TAGS",
    "NO_GENERATION_TAGS",
})  # fmt: skip

#: What a person does where no edit is proven.
_ADVICE = {
    "MARKER_NOT_SINGLE_TOKEN": ("spell the marker as a token", "use a marker the tokenizer holds as one token"),
    "EOT_NOT_TRAINED": ("add the stop token", "let the template write a stop token behind each answer; train again"),
    "NO_TERMINATOR_MID_TURN": ("add the stop token", "let the template write the stop token behind every answer"),
    "CONTENT_TRIMMED": ("take out the trims", "take the trim out of the template, or leave no blanks at the ends"),
    "GENERATION_PROMPT_MISMATCH": (
        "make prompt and training agree", "train with answers that begin as the prompt ends, or shorten the prompt",
    ),
    "LITERAL_SPECIAL_IN_CONTENT": (
        "keep them text", "encode messages with special parsing off (content_specials='text' does)",
    ),
    "EMPTY_THINK_TRAINED": ("decide what is thought", "add thoughts, or leave the empty block out of the loss"),
    "BORDER_TOKEN_MERGES": (
        "end the prompt in a token of its own", "let headers end in a control token, or no answer begin with a blank",
    ),
    "TOOL_CALLS_DROPPED": ("use a template with tools", "use a template that writes tool_calls; this one loses them"),
    "TOOL_RESULT_DROPPED": ("use a template with tools", "use a template that writes the results of tools"),
    "TOOLS_NOT_RENDERED": ("use a template with tools", "use one that writes tools, or name them in a system text"),
    "TOOLS_REFUSED": ("use a template with tools", "use a template that takes calls and results of tools"),
    "CONTENT_CUT": ("look at the template", "the template rewrites what is said; look at what it cuts and why"),
    "NO_TARGET": ("drop these rows", "drop these rows: a batch of them alone has no loss"),
    "PAD_IS_EOS": ("name another pad token", "mask padding by length, or name a pad token of its own"),
    "STRUCT_PADDING_RENDERED": ("take out the nulls", "take the nulls out of tools and arguments before rendering"),
    "DOUBLE_EOS": ("let only the template write the EOS", "encode the rendered text with add_special_tokens=False"),
    "DEFAULT_SYSTEM_INJECTED": ("give a system text", "give every conversation a system message of its own"),
}  # fmt: skip


#: Rules that one and the same repair is for.
_KINDS: Mapping[str, str] = {
    **dict.fromkeys(_TAGS, "tags"), "EOT_NOT_TRAINED": "stop", "NO_TERMINATOR_MID_TURN": "stop",
}  # fmt: skip


def repair_of(
    rule: str, met: Sequence[Case], cases: Sequence[Case], known: dict[str, Repair | None] | None = None
) -> Repair | None:
    """Return a repair for a rule; None where none is known.

    Parameters
    ----------
    rule : str
    met : sequence of Case
        Where the rule was met, at least one.
    cases : sequence of Case
        All that were looked at: a changed template is proven by the first `PROVING` of the data, and by our probes.
    known : dict or None
        What was tried for this template already; what is tried here is added.
    """
    if rule in _DATA:
        return _of_data(rule, met)
    if rule == "DOUBLE_BOS":
        return _single_bos(met[0])
    if rule in ("NOT_PREFIX_PRESERVING", "REASONING_DROPPED_FROM_HISTORY"):
        return _split(met)
    known, kind = {} if known is None else known, _KINDS.get(rule, rule)
    if kind not in known:
        known[kind] = _of_template(rule, met, cases)
    return known[kind]


def _of_template(rule: str, met: Sequence[Case], cases: Sequence[Case]) -> Repair | None:
    template = met[0].template
    good = [case for case in proving_of(met[0], cases) if case.rendered is not None]
    return _tried(rule, template, met, good) or advice(rule)


def proving_of(met: Case, cases: Sequence[Case]) -> list[Case]:
    """Return what a changed template is proven by: conversations as given, and our probes."""
    given = [case for case in cases if case.row >= 0][:PROVING]
    return [*given, *(Case(-1, met.template, probe, met.policy) for probe in PROBES)]


def advice(rule: str) -> Repair | None:
    """Return what to do about a rule where nothing was proven; None where nothing general can be said."""
    return Repair(_ADVICE[rule][0], None, _ADVICE[rule][1]) if rule in _ADVICE else None


def _tried(rule: str, template: ChatTemplate, met: Sequence[Case], good: Sequence[Case]) -> Repair | None:
    if rule in _TAGS or (rule == "EOT_NOT_TRAINED" and has_tags(template)):
        return place_tags(template, good) or Repair("place the generation tags", None, _TAG_ADVICE)
    if rule == "RENDER_DEPENDS_ON_DATE":
        return fix_date(template, good)
    if rule == "CONTENT_TRIMMED":
        return keep_blanks(template, good)
    if rule == "GENERATION_PROMPT_MISMATCH":
        return shorten_prompt(template, met, good)
    found = fix_marker(template, good) if rule in ("MARKER_NOT_SINGLE_TOKEN", *_STOPS) else None
    return found or (add_stop(template, good) if rule in _STOPS else None)


_STOPS = ("EOT_NOT_TRAINED", "NO_TERMINATOR_MID_TURN")
_TAG_ADVICE = "open the tags where the generation prompt ends, and close them behind the stop token"
