"""Rules that need more than one rendering: prefixes, another day, nulls, what other programs add, generation tags.

whole:    <|im_start|>user↵Hi<|im_end|>↵<|im_start|>assistant↵Hello!<|im_end|>↵<|im_start|>user↵…
so far:   <|im_start|>user↵Hi<|im_end|>↵<|im_start|>assistant↵Hello!<|im_end|>↵          must begin the whole alike
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from prep_lib.chat.generation_tags import differences, has_tags
from prep_lib.chat.probes import DATES, PLAIN
from prep_lib.chat.rules import Case, Hit, Span, show
from prep_lib.chat.symptoms import plural
from prep_lib.chat.template import ChatTemplate
from prep_lib.errors import BadTemplate
from prep_lib.special import MARKER

_BRACKETS = re.compile(r"<[^\s<>]+>|\[/?[^\s\[\]]+\]")
_WORD = re.compile(r"[^\W\d_]+")


def thorough(case: Case, hits: Sequence[Hit]) -> Iterator[Hit]:
    """Yield what only more renderings show; `hits` are those of `cheap`, which explain some of it."""
    yield from _as_given(case)
    if case.rendered is None:
        return
    known = {hit.rule for hit in hits}
    yield from _prefixes(case, known)
    yield from _default_system(case)
    yield from _date(case)
    yield from _doubled(case)
    yield from differences(case)
    yield from _remarks(case)


def _as_given(case: Case) -> Iterator[Hit]:
    """What only the data's own form of messages and tools does."""
    if case.said is None and case.tools is None:
        return
    messages = case.said or [message.as_dict() for message in case.conversation.messages]
    tools = (case.tools if case.tools is not None else case.conversation.tools) or None
    empty = [at for at, message in enumerate(messages) if message.get("content") is None]
    if empty and case.rendered is not None:
        try:
            case.template.text(messages, case.conversation.tools or None)
        except BadTemplate as error:
            yield Hit("CONTENT_NULL_FAILS", f"messages[{empty[0]}] has null content: {error}")
            return
    if case.rendered is None or (bare := _without_nulls([messages, tools])) == [messages, tools]:
        return
    try:
        with_nulls = case.template.text([{**one, "content": one.get("content") or ""} for one in messages], tools)
        without = case.template.text([{**one, "content": one.get("content") or ""} for one in bare[0]], bare[1])
    except BadTemplate:
        return
    if with_nulls != without:
        count = len(re.findall(r"\b(?:null|None)\b", with_nulls)) - len(re.findall(r"\b(?:null|None)\b", without))
        nulls = plural(count, "null of tools or arguments is", "nulls of tools or arguments are")
        yield Hit("STRUCT_PADDING_RENDERED", f"{nulls} printed into the text")


def _without_nulls(value: Any) -> Any:
    """Return a value without the nulls a table pads its maps with."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None or key == "content"}
    return [_without_nulls(item) for item in value] if isinstance(value, list | tuple) else value


def _prefixes(case: Case, known: set[str]) -> Iterator[Hit]:
    """The text so far must be how the whole text begins, unless a rule already says why it is not."""
    assert case.rendered is not None
    text, messages, tools = case.rendered.text, case.conversation.messages, case.conversation.tools or None
    for at, message in enumerate(messages[:-1], 1):
        if message.role != "assistant":
            continue
        try:
            prefix = case.template.render(messages[:at], tools)
        except BadTemplate:
            continue
        said = max((run.stop for run in prefix.runs if run.origin is not None), default=0)
        same = shared_length(prefix.text, text)
        if same == len(prefix.text) or ("NO_TERMINATOR_MID_TURN" in known and same >= said):
            continue
        alone = "the first message alone renders" if at == 1 else f"the first {at} messages alone render"
        yield _prefix_hit(alone, prefix.text, text, same)
        return
    targets = case.laid.targets if case.laid is not None else ()
    explained = known & {"SYSTEM_DROPPED_IN_TRAINING", "NO_TERMINATOR_MID_TURN", "GENERATION_PROMPT_MISMATCH"}
    for target in targets if not explained else ():
        if not target.parity and target.met:
            prompt = case.template.text(messages[: target.message], tools, True)
            yield _prefix_hit(
                f"the prompt of messages[{target.message}] renders", prompt, text, shared_length(prompt, text)
            )
            return


def _prefix_hit(what: str, prefix: str, text: str, same: int) -> Hit:
    detail = f"{what} {prefix[same : same + 25]!r} at character {same}, the whole has {text[same : same + 25]!r}"
    return Hit("NOT_PREFIX_PRESERVING", detail, ((same, same + 1),))


def shared_length(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    if other.startswith(one):
        return len(one)
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _default_system(case: Case) -> Iterator[Hit]:
    """Words before the first message that are in no message, no header and no date."""
    assert case.rendered is not None
    if any(message.role == "system" for message in case.conversation.messages) or case.conversation.tools:
        return
    data = [run for run in case.rendered.runs if run.origin is not None and run.origin.message is not None]
    first = next((run.start for run in data if run.origin is not None and run.origin.field != "role"), 0)
    before = case.rendered.text[:first]
    words = {word.casefold() for word in _WORD.findall(_BRACKETS.sub(" ", before))} - _header_words(case)
    if _every_day(case, words):
        count = plural(first, "character stands", "characters stand")
        no_data = plural(len(before.split()), "word of them is", "words of them are")
        detail = f"{count} before the first message; {no_data} no data"
        yield Hit("DEFAULT_SYSTEM_INJECTED", f"{detail}: {show(before)}", ((0, min(first, 200)),))


def _header_words(case: Case) -> set[str]:
    """Return the words of turn headers: what the template writes between the messages of a plain chat."""
    words = {"system", "user", "assistant", "developer", "human", "model", "bot"}
    try:
        plain = case.template.render(PLAIN.messages)
    except BadTemplate:
        return words
    contents = [run for run in plain.runs if run.origin is not None and run.origin.field == "content"]
    for one, other in pairwise(contents):
        words |= {word.casefold() for word in _WORD.findall(plain.text[one.stop : other.start])}
    return words


def _every_day(case: Case, words: set[str]) -> set[str]:
    """Return the words that stand in the text on other days too."""
    if not case.template.uses("strftime_now"):
        return words
    others = [_dated(case, date) for date in DATES]
    return words.intersection(*({word.casefold() for word in _WORD.findall(text)} for text in others if text))


def _dated(case: Case, date: str) -> str | None:
    template = case.template
    other = ChatTemplate(template.source, template.tokenizer, variables=template.variables, now=date)
    try:
        return other.text(case.conversation.messages, case.conversation.tools or None)
    except BadTemplate:
        return None


def _date(case: Case) -> Iterator[Hit]:
    assert case.rendered is not None
    if not case.template.uses("strftime_now"):
        return
    texts = [_dated(case, date) for date in DATES]
    if texts[0] is not None and texts[1] is not None and texts[0] != texts[1]:
        at = shared_length(texts[0], texts[1])
        text = case.rendered.text
        at = min(at, len(text))
        detail = f"today's date stands in the text from character {at} on; here it is always {case.template.date}"
        yield Hit("RENDER_DEPENDS_ON_DATE", detail, ((at, at + 1),))


def _doubled(case: Case) -> Iterator[Hit]:
    """A BOS or EOS that stands there twice, or will, once a program adds its own."""
    tokenizer = case.template.tokenizer
    if tokenizer is None:
        return
    before, behind = tokenizer.added_around()
    ids, bos, eos = case.encoded.ids.tolist(), tokenizer.bos_token_id, tokenizer.eos_token_id
    if bos is not None and ids[:1] == [bos] and (before[-1:] == [bos] or ids[1:2] == [bos]):
        detail = f"the template begins with {tokenizer.bos_token!r} (id {bos}), {_twice(before[-1:] != [bos])}"
        yield Hit("DOUBLE_BOS", detail, (case.span(0),))
    last = next((at for at in reversed(range(len(ids))) if ids[at] == eos), None) if eos is not None else None
    twice = [at for at in range(len(ids) - 1) if eos is not None and ids[at] == ids[at + 1] == eos]
    if twice or (behind[:1] == [eos] and last == len(ids) - 1 and last is not None):
        at = twice[0] if twice else len(ids) - 1
        detail = f"the text ends with {tokenizer.eos_token!r} (id {eos}), {_twice(bool(twice))}"
        yield Hit("DOUBLE_EOS", detail, (case.span(at),))


def _twice(written: bool) -> str:
    return "written twice" if written else "and the tokenizer adds another one when special tokens are on"


# ---------------------------------------------------------------- remarks, and what a plain chat alone shows


def _remarks(case: Case) -> Iterator[Hit]:
    laid, template = case.laid, case.template
    if not template.uses("add_generation_prompt"):
        yield Hit("NO_GENERATION_PROMPT", "add_generation_prompt is not read; a server has to write the header")
    if not has_tags(template):
        yield Hit("NO_GENERATION_TAGS", "no generation tags: trainers that read them mask every token, or refuse")
    for target in laid.targets if laid is not None else ():
        opening = laid.rendered.text[target.start : target.start + 1] if laid is not None else ""
        if opening.isspace() and laid is not None and laid.rendered.run_at(target.start).origin is None:
            detail = f"messages[{target.message}]: the template writes {opening!r} as the first character to learn"
            yield Hit("ANSWER_STARTS_WITH_BLANK", detail, ((target.start, target.start + 1),))
            return


def markers(case: Case) -> Iterator[tuple[str, tuple[Span, ...]]]:
    """Yield each marker the template spells that is not one token, and where."""
    rendered, tokenizer = case.rendered, case.template.tokenizer
    if rendered is None or tokenizer is None:
        return
    found: dict[str, list[Span]] = {}
    for match in MARKER.finditer(rendered.text):
        runs = rendered.between(*match.span())
        own = all(run.origin is None or run.origin.field == "role" for run in runs) and any(
            run.origin is None for run in runs
        )
        if own and tokenizer.id(match[0]) is None:
            found.setdefault(match[0], []).append(match.span())
    yield from ((marker, tuple(spans)) for marker, spans in found.items())
