"""The workbench as a page: every token with its reason beside it, what was proven, what differs, what was found where.

    turn 1 (assistant) · opening           ⟦im▁start⟧ assistant ↵
    Not trained. The generation prompt …
    ─────────────────────────────────────────────────────────────
    turn 1 (assistant) · content, stop     **Hello** **!** ⟦**im▁end**⟧
    Trained. The model must learn to …

The reason stands beside its tokens, so it is read without pointing at them, in a report as well. Live, each part is
redrawn by itself: `head` and `tokens` at every key, `more` and `rows` when they are worked out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from prep_lib.chat.mask import Policy, Target, Token
from prep_lib.chat.methods import Found
from prep_lib.chat.row import Loss
from prep_lib.chat.symptoms import Finding, Symptom, TokenAt
from prep_lib.markup import (
    Html,
    card,
    chip,
    code,
    escape,
    fold,
    join,
    note,
    number,
    percent,
    runs,
    snippet,
    table,
    tag,
)
from prep_lib.words import WORDS, say
from widgets.doctor.page import finding_card, sentence, symptom_fold
from widgets.mask.page import MOST, Labels
from widgets.workbench.state import (
    Diagnosed,
    Group,
    Said,
    State,
    Way,
    Work,
    edited,
    has,
    kept,
    label,
    name_of,
    part,
    rival,
    texts,
    unsaved,
    work,
    worked,
)
from widgets.workbench.strand import Change, Strand, changes

#: Bytes of JSON a report's page may take, its style with it, and those its tokens get however much the rest takes: an
#: output of more makes a notebook slow to open.
ROOM, LEAST = 280_000, 60_000

#: Characters drawn of one message beside the tokens, and bytes of all of them.
TALK, TALKS = 1_500, 40_000

#: Answers whose proof is drawn, those that lack something before the others, and turns named in one sentence.
PROOFS, NAMED = 60, 40

#: Differences drawn, and their tokens; more of them say the same again.
PLACES, COMPARED = 60, 600

#: Tokens drawn of one side of a difference, and of what is equal before it.
SIDE, BEFORE = 80, 4

#: Tokens drawn of one method.
TOKENS = 12

#: Reasons that are read as one: what a template writes inside an answer is as much the answer.
_SAME = {"answer_frame": "answer"}

#: Bytes around a run and a chip in JSON, roughly.
FRAME = 120

#: What the tokens of a run are: message, trained, why, and whether they are cut off. None: no token.
_Key = tuple[int | None, bool, str, bool] | None


def page(state: State) -> str:
    """Return the whole workbench as HTML, as it stands in a report: the tokens get the room the rest leaves."""
    top, left, last = head(state), tag("div", talk(state), rows(state)), more(state)
    room = ROOM - sum(map(_weight, (top, left, last, snippet(""))))
    right = tag("div", tokens(state, max(LEAST, room)), last)
    return snippet(join([top, tag("div", left, right, cls="two")]), state.lang)


def _weight(html: str) -> int:
    """Bytes of a text in a notebook's JSON, where some write each character outside ASCII as an escape."""
    return len(json.dumps(html)) - 2


def head(state: State) -> Html:
    """Return what is shown, what is not saved yet, and what is to be said of the row before its tokens."""
    lang, done = state.lang, work(state)
    told = [tag("h1", say("workbench.title", lang)), _sub(state, done), _unsaved(state)]
    if not state.data.records:
        return tag("div", *told, note("warn", say("mask.no_records", lang)))
    return tag("div", *told, *(note(kind, text) for kind, text in _remarks(state, done)))


def tokens(state: State, room: int | None = None) -> Html:
    """Return the tokens of each sequence, every run with its reason.

    Parameters
    ----------
    state : State
    room : int, bytes of JSON, or None
        What all of it may take; tokens behind it are not drawn. None: `MOST` tokens of each sequence.
    """
    strands, drawn = work(state).strands, list[Html]()
    for at, (strand, left) in enumerate(zip(strands, _left(state, strands), strict=True)):
        share = None if room is None else (room - sum(map(_weight, drawn))) // (len(strands) - at)
        drawn.append(_tokens(state, strand, left, at, share))
    return tag("div", *drawn)


def _left(state: State, strands: Sequence[Strand]) -> list[int]:
    """How many tokens of each sequence the limit leaves; none where it drops the row."""
    left = kept(state, strands) if strands else []
    return [0] * len(strands) if isinstance(left, str) else left


def more(state: State) -> Html:
    """Return what may come later: what was asked for first, then findings, methods, limits."""
    return tag("div", _pair(state), _compare(state), findings(state), _methods(state), _truncation(state))


# ---------------------------------------------------------------------------------------------------------------------
# The head
# ---------------------------------------------------------------------------------------------------------------------


def _sub(state: State, done: Work) -> Html:
    lang, n = state.lang, len(state.data.records)
    told = say(
        "workbench.sub", lang, way=shown(state), at=state.index + 1 if n else 0, n=n, form=done.form or "–",
        policy=policy(state.policy, lang), tokenizer=state.data.tokenizer.describe()["name"],
    )  # fmt: skip
    place = name_of(state)
    return tag("p", f"{told} · {place}" if place else told, cls="sub")


def shown(state: State) -> str:
    """Return what the present way is called, edited or not."""
    name = label(state.way)
    return say("workbench.edited", state.lang, name=name) if edited(state) or state.way.params else name


def policy(chosen: Policy, lang: str) -> str:
    """Return a policy in words.

    Examples
    --------
    >>> policy(Policy(answers="last", reasoning=False), "en")
    'answers behind the last question, without reasoning'
    """
    said = [say(f"workbench.policy_{chosen.answers}", lang)]
    said += [say(f"workbench.policy_{name}", lang) for name in ("reasoning", "tool_calls") if not getattr(chosen, name)]
    said += [say("workbench.policy_train_after_stop", lang)] if chosen.train_after_stop else []
    return ", ".join(said)


def _unsaved(state: State) -> Html:
    lines = unsaved(state)
    return join([note("warn", say("workbench.differs", state.lang)), code(lines)]) if lines else Html()


def _remarks(state: State, done: Work) -> list[tuple[str, str]]:
    """Return what is to be said of the row before its tokens: (kind of the remark, sentence)."""
    lang = state.lang
    if done.problem:
        line = say("workbench.stale", lang, problem=done.problem) if done.stale else done.problem
        told = [("bad", line)]
    else:
        told = []
    if done.label is not None:
        told.append(("ok", say("workbench.label", lang, label=done.label)))
    for strand in done.strands:
        if strand.problem is not None:
            told.append(("bad", _dropped(state, *strand.problem)))
    if any(strand.literal for strand in done.strands):
        told.append(("warn", say("workbench.literal", lang, n=max(strand.literal for strand in done.strands))))
    told += _limit(state, done)
    return list(dict.fromkeys(told))


def _dropped(state: State, reason: str, detail: str) -> str:
    known = f"workbench.drop_{reason}" in WORDS
    why = say(f"workbench.drop_{reason}", state.lang, limit=state.max_length) if known else ""
    return say("workbench.drop", state.lang, reason=reason, why=" ".join(filter(None, (why, detail)))).strip()


def _limit(state: State, done: Work) -> Iterator[tuple[str, str]]:
    left = kept(state, done.strands) if done.strands else []
    if isinstance(left, str):
        yield "bad", say("workbench.limit_drop", state.lang, limit=state.max_length, reason=left)
        return
    gone = [strand.tokens[n:] for strand, n in zip(done.strands, left, strict=True)]
    if lost := sum(map(len, gone)):
        targets = sum(token.trained for tokens in gone for token in tokens)
        yield "warn", say("workbench.cut", state.lang, limit=state.max_length, lost=lost, targets=targets)


def talk(state: State) -> Html:
    """Return the messages of the row, those with targets marked."""
    said = texts(state)
    if not said:
        return Html()
    trained, lang, room = _trained(state, said), state.lang, TALKS
    turns: list[Html] = []
    for one in said:
        turns.append(_turn(one.role, one.text, one.place in trained, lang))
        room -= len(turns[-1])
        if room < 0:
            break
    rest = len(said) - len(turns)
    turns += [tag("p", say("workbench.more_turns", lang, n=rest), cls="dim small")] if rest else []
    return card(
        say("mask.conversation", lang),
        tag("div", *turns, cls="talk", tabindex="0", role="group", aria_label=say("mask.conversation", lang)),
    )


def _trained(state: State, said: Sequence[Said]) -> set[str]:
    """The places of the messages that hold targets; those of an answer are numbered behind the shared prompt."""
    places: set[str] = set()
    strands = work(state).strands
    for strand, left in zip(strands, _left(state, strands), strict=True):
        mine = [one.place for one in said if one.place.partition(".")[0] in ("messages", "text", "prompt", strand.key)]
        places |= {mine[token.message] for token in strand.tokens[:left] if token.trained and token.message is not None}
    return places


def _turn(role: str, text: str, on: bool, lang: str) -> Html:
    name = say("mask.is_trained", lang, role=role) if on else role
    rest = len(text) - TALK
    cut = tag("small", say("workbench.more_characters", lang, n=rest)) if rest > 0 else ""
    return tag("div", tag("small", name), escape(text[:TALK], breaks=True), cut, cls="turn on" if on else "turn")


# ---------------------------------------------------------------------------------------------------------------------
# Tokens
# ---------------------------------------------------------------------------------------------------------------------


def name_at(state: State, position: int | str, strand: int = 0) -> str:
    """Return what a link jumps to: ``t-ROW-POS`` of the record shown, ``t-ROW-b-POS`` in a second sequence."""
    return f"t-{state.index}-{'b-' * strand}{position}"


def _tokens(state: State, strand: Strand, left: int, which: int, room: int | None) -> Html:
    lang, n = state.lang, len(strand.tokens)
    title = say("mask.tokens", lang) if strand.key == "sequence" else f"{say('mask.tokens', lang)} · {strand.key}"
    counts = say(
        "workbench.counts", lang, n=n, trained=strand.trained, share=percent(strand.trained, n),
        characters=strand.characters,
    )  # fmt: skip
    draw, proof = _Draw(state, strand, which), _proof(state, strand)
    listed = runs(
        draw.runs(left, None if room is None else room - _weight(proof)), say("workbench.every", lang),
        say("workbench.hint", lang), say("workbench.runs_label", lang),
    )  # fmt: skip
    window = say("workbench.window", lang, start=draw.span.start, stop=draw.span.stop - 1, all=n)
    after = f"after-{state.index}-{which}"
    return card(
        title, tag("p", counts, cls="dim small"), _legend(state, n, left),
        tag("p", say("workbench.as_target", lang), cls="dim small") if state.show == "target" else "",
        tag("a", say("workbench.skip", lang), href=f"#{after}", cls="skip"), listed,
        tag("span", id=after, tabindex="-1"),
        tag("p", window, cls="dim small") if len(draw.span) < n else "", proof,
    )  # fmt: skip


def _first_drawn(state: State, n: int) -> int:
    """Where drawing begins: a row that is drawn whole has no other place."""
    return min(state.first, n - 1) if n > MOST else 0


def _legend(state: State, n: int, left: int) -> Html:
    lang, word = state.lang, say("mask.legend_word", state.lang)
    kinds = {"on": "mask.legend_trained", "": "mask.legend_context", "ctl": "mask.legend_control"}
    kinds |= {"pad": "workbench.legend_cut"} if left != n else {}
    parts = [join([tag("b", word, cls=f"chip {kind}".strip()), " ", say(key, lang)]) for kind, key in kinds.items()]
    return tag("div", *(tag("span", part) for part in [*parts, say("mask.legend_symbols", lang)]), cls="legend")


def _fitting(members: Sequence[Html], room: int) -> Iterator[Html]:
    """Yield those that fit into some bytes of JSON."""
    for member in members:
        room -= _weight(member)
        if room < 0:
            return
        yield member


class _Draw:
    """Draws the tokens of one sequence, as they are read or as they have to be written; `span` is what `runs` drew."""

    def __init__(self, state: State, strand: Strand, which: int = 0) -> None:
        self._state, self._strand, self._which = state, strand, which
        self._labels, self._left = Labels(state.data.tokenizer), len(strand.tokens)
        self._ahead = int(state.show == "target")
        self._name, self._fields, self.span = name_at(state, "", which), dict[str | None, Html](), range(0)
        self._form = WORDS["workbench.detail_next" if self._ahead else "workbench.detail"][state.lang == "zh"]

    def runs(self, left: int, room: int | None = None) -> Iterator[tuple[object, str, list[Html], str]]:
        """Yield runs of neighbours that share a reason: heading, sentence, chips, kind; behind `left` they are cut."""
        self._left = left
        tokens = self._strand.tokens
        first = _first_drawn(self._state, len(tokens))
        span = range(first, min(first + MOST, len(tokens)))
        for key, places in groupby(span, key=lambda at: self._key(at + self._ahead, left)):
            at = list(places)
            told, members = self._told(key, at), [self._chip(place, bool(key and key[3])) for place in at]
            if room is not None:
                room -= _weight("".join(told)) + FRAME
                members = list(_fitting(members, room))
                room -= sum(map(_weight, members))
            if members:
                self.span = range(first, at[len(members) - 1] + 1)
                yield (*told, members, "pad" if key and key[3] else "on" if key and key[1] else "")
            if len(members) < len(at):
                return

    def _key(self, at: int, left: int) -> _Key:
        if at >= len(self._strand.tokens):
            return None
        token = self._strand.tokens[at]
        if at >= left:  # the reason is the limit, whatever they would have been
            return token.message, False, "cut", True
        return token.message, token.trained, _SAME.get(token.why, token.why), False

    def _told(self, key: _Key, places: list[int]) -> tuple[str, str]:
        lang = self._state.lang
        if key is None:
            return say("workbench.the_end", lang), say("workbench.why_nothing", lang)
        message, trained, why, cut = key
        parts = dict.fromkeys(self._strand.tokens[at + self._ahead].part for at in places)
        role = "" if message is None else self._strand.conversation.messages[message].role
        heading = say("workbench.turn", lang, turn=message, role=role) if role else say("workbench.no_turn", lang)
        if role and why not in ("prompt", "document", "eos", "cut"):
            heading += " · " + ", ".join(say(f"workbench.part_{name}", lang) for name in parts if name != "role")
        if cut:
            limit = self._state.max_length
            sentence = say("workbench.why_cut" if self._left else "workbench.why_limit", lang, limit=limit)
        else:
            sentence = say(f"workbench.why_{why}", lang, role=role)
        verdict = say("mask.yes" if trained and not cut else "mask.no", lang)
        return heading, f"{verdict} {sentence}"

    def _chip(self, at: int, cut: bool) -> Html:
        tokens = self._strand.tokens
        here = tokens[at]
        next_ = tokens[at + 1] if self._ahead and at + 1 < len(tokens) else None
        token = next_ or here
        text, raw, control = self._labels(token.id)
        if self._ahead:
            text = join([tag("small", self._labels(here.id)[0]), text if next_ else "–"])
        on = token.trained and not cut and not (self._ahead and next_ is None)
        kinds = f"{control}{' on' if on else ''}{' pad' if cut else ''}".strip()
        return chip(text, kinds, self._line(at, here, token, raw), f"{self._name}{at}")

    def _line(self, at: int, here: Token, token: Token, raw: str) -> Html:
        """The line of a token; a field is data, and escaped once."""
        if token.field not in self._fields:
            self._fields[token.field] = escape(token.field or say("workbench.template", self._state.lang))
        origin = self._fields[token.field]
        if token.field is not None and token.at >= 0:
            origin = Html(f"{origin}[{token.at}]")
        span = f"{token.start}–{token.stop}"
        return Html(self._form.format(at=at, was=here.id, id=token.id, bytes=raw, span=span, origin=origin))

    def some(self, start: int, stop: int, faint: bool = False) -> Html:
        """Return a few chips without a name, at most `SIDE` of them, with their lines as titles."""
        tokens = self._strand.tokens[start : min(stop, start + SIDE)]
        drawn = [self._plain(token, at, faint) for at, token in enumerate(tokens, start)]
        rest = stop - start - len(tokens)
        return join([*drawn, f" {say('workbench.more_tokens', self._state.lang, n=rest)}" if rest > 0 else ""])

    def _plain(self, token: Token, at: int, faint: bool) -> Html:
        text, raw, control = self._labels(token.id)
        kinds = f"chip {control}{' on' if token.trained else ''}{' faint' if faint else ''}".strip()
        return Html(f'<b class="{kinds}" title="{at} · id {token.id} · {raw}">{text}</b>')


def _proof(state: State, strand: Strand) -> Html:
    """What was proven of each answer, and the remarks where something was not."""
    lang, targets = state.lang, strand.targets
    if strand.problem is not None or strand.conversation.messages[0].role == "document":
        return Html()
    if not targets:
        return note("ok", say("workbench.assembled", lang))
    said = [
        _turns(state, key, [one.message for one in targets if not getattr(one, name)])
        for name, key in (("parity", "no_parity"), ("met", "not_met"), ("stopped", "not_stopped"))
    ]
    good = [note("ok", say("workbench.proven", lang, n=len(targets)))] if not any(said) else []
    head = [say(f"workbench.proof_{name}", lang) for name in ("turn", "targets", "parity", "met", "stopped")]
    rest = len(targets) - PROOFS
    left_out = tag("p", say("workbench.more_turns", lang, n=rest), cls="dim small") if rest > 0 else ""
    counted = {one.message: 0 for one in targets}
    for token in strand.tokens:
        if token.trained and token.message in counted:
            counted[token.message] += 1
    lines = [
        (one.message, counted[one.message], *(_tick(getattr(one, name), lang) for name in ("parity", "met", "stopped")))
        for one in _first_those_that_lack(targets)
    ]
    return join([*good, *said, fold(say("workbench.proof", lang), table(head, lines), left_out)])


def _first_those_that_lack(targets: Sequence[Target]) -> list[Target]:
    """At most `PROOFS` answers in their order; of more, those first whose proof lacks something."""
    whole = sorted(targets, key=lambda one: one.parity and one.met and one.stopped)
    return sorted(whole[:PROOFS], key=lambda one: one.message)


def _turns(state: State, key: str, messages: list[int]) -> Html:
    turns = ", ".join([*map(str, messages[:NAMED]), *(["…"] if len(messages) > NAMED else [])])
    return note("warn", say(f"workbench.{key}", state.lang, turns=turns)) if messages else Html()


def _tick(good: bool, lang: str) -> str:
    return say("workbench.yes" if good else "workbench.no", lang)


# ---------------------------------------------------------------------------------------------------------------------
# Parts that may come later
# ---------------------------------------------------------------------------------------------------------------------


def _part(state: State, name: str, title: str, draw: Callable[[Any], Html]) -> Html:
    """A card of a part: what it says, that it is of the choices before, or that it is being worked out."""
    found, current = part(state, name)
    if found is None:
        return card(title, tag("p", say("workbench.working", state.lang), cls="dim", role="status"))
    if found.problem:
        body = note("bad", say("workbench.could_not", state.lang, problem=found.problem))
    else:
        body = draw(found.value)
    if current:
        return card(title, body)
    wait = tag("p", say("workbench.previous", state.lang), cls="dim", role="status")
    return card(title, wait, tag("div", body, cls="behind"))


def findings(state: State) -> Html:
    """Return what is wrong with the template, each with its tokens and its repair."""
    if not has(state, "findings"):
        return Html()
    return _part(state, "findings", say("workbench.findings", state.lang), lambda value: _found(state, value))


def _found(state: State, value: Diagnosed) -> Html:
    """Findings and symptoms as the doctor draws them."""
    told = [finding_card(_here(state, one), state.lang, state.way.source) for one in value.findings]
    told = told or [note("ok", say("workbench.no_findings", state.lang))]
    causes = [symptom_fold(_caused(state, one), state.lang) for one in value.symptoms if one.found]
    return join([*told, fold(say("doctor.symptoms", state.lang), *causes) if causes else ""])


def _here(state: State, one: Finding) -> Finding:
    """A finding with the places its tokens have on this page; the row is the one shown, so none is named."""
    return replace(one, tokens=tuple(_place_of(state, token) for token in one.tokens), rows=())


def _place_of(state: State, token: TokenAt) -> TokenAt:
    """A token of the first sequence as one of the row shown; that of another sequence has no link."""
    return replace(token, row=state.index if token.row == 0 else -1)


def _caused(state: State, one: Symptom) -> Symptom:
    causes = (replace(cause, token=cause.token and _place_of(state, cause.token)) for cause in one.causes)
    return replace(one, causes=tuple(causes))


def rows(state: State) -> Html:
    """Return what was found in all rows, the worst first."""
    lang, scan, n = state.lang, state.scan, len(state.data.records)
    title = say("workbench.rows", lang)
    if scan is None or not scan.done:
        return card(title, tag("p", say("workbench.rows_none", lang), cls="dim", role="status"))
    stopped = note("bad", say("workbench.rows_stopped", lang, n=scan.limited)) if scan.stopped else ""
    said = say(
        "workbench.rows_done", lang, done=scan.done, n=n, clean=scan.clean, share=percent(scan.trained, scan.tokens)
    )
    titles = [say("workbench.finding", lang), say("workbench.n_rows", lang)]
    lines: list[tuple[object, int]] = [(_group(state, group), group.rows) for group in scan.groups]
    lines.append((join([tag("b", "✓"), " ", say("workbench.clean", lang)]), scan.clean))
    return card(title, tag("p", said, cls="dim small", role="status"), stopped, table(titles, lines))


def _group(state: State, group: Group) -> Html:
    mark = {"error": "✗", "warning": "!", "note": "·"}[group.severity]
    first = say("workbench.first_rows", state.lang, rows=_first(state, group))
    severity = say(f"doctor.{group.severity}", state.lang)
    drop = f"workbench.drop_{group.rule}"
    said = sentence(group.rule, state.lang) or (say(drop, state.lang) if drop in WORDS else "")
    told = [tag("b", mark), " ", said or group.rule]
    told.append(tag("small", " · ".join([severity, *([group.rule] if said else []), first]), cls="below"))
    return tag("span", *told, cls="soft")


def _first(state: State, group: Group) -> str:
    names = state.data.names
    return ", ".join(_short(names[row]) if row < len(names) else number(row + 1) for row in group.first[:3])


def _short(name: str) -> str:
    """The line of a name, ``a.jsonl#L12`` -> ``L12``, where it has one: the file is said above."""
    found = re.search(r"#(L\d+)$", name)
    return found[1] if found else name


# ---------------------------------------------------------------------------------------------------------------------
# Two at once
# ---------------------------------------------------------------------------------------------------------------------


def _compare(state: State) -> Html:
    other = rival(state)
    if other is None or not state.data.records:
        return Html()
    left, right = work(state), worked(state, *other)
    names = _names(state, *other)
    if not left.strands or not right.strands:
        which = 0 if not left.strands else 1
        problem = (left, right)[which].problem
        body = note("warn", say("workbench.compare_cannot", state.lang, name=names[which], problem=problem))
        return card(say("workbench.compare", state.lang), body)
    pairs = zip(left.strands, right.strands, strict=False)
    return card(say("workbench.compare", state.lang), *(_side_by_side(state, one, two, names) for one, two in pairs))


def _names(state: State, way: Way, chosen: Policy) -> tuple[str, str]:
    mine = shown(state)
    if way != state.way:
        return mine, label(way)
    return f"{mine}: {policy(state.policy, state.lang)}", f"{label(way)}: {policy(chosen, state.lang)}"


def _side_by_side(state: State, one: Strand, two: Strand, names: tuple[str, str]) -> Html:
    lang, found = state.lang, changes(one.tokens, two.tokens)
    if not found:
        return note("ok", say("workbench.compare_same", lang, n=len(one.tokens)))
    head = [say(f"workbench.{name}", lang) for name in ("side", "n_tokens")] + [say("trained", lang)]
    sides = zip(("workbench.left", "workbench.right"), names, (one, two), strict=True)
    lines = [(say(key, lang, name=name), len(side.tokens), side.trained) for key, name, side in sides]
    key = "" if one.key == "sequence" else f"{one.key} · "
    caption = key + say("workbench.compare_places", lang, n=len(found))
    draw = _Draw(state, one), _Draw(state, two)
    top = [tag("div", title, cls="top") for title in (say("workbench.where", lang), *names)]
    places = list(_few(found))
    cells = [cell for place in places for cell in _place(state, one, place, draw)]
    rest = len(found) - len(places)
    more_ = tag("p", say("workbench.compare_more", lang, n=rest), cls="dim small") if rest > 0 else ""
    return join([table(head, lines, caption=caption), tag("div", *top, *cells, cls="even"), more_])


def _few(found: Sequence[Change]) -> Iterator[Change]:
    """Yield the first differences, until `COMPARED` tokens would be drawn."""
    drawn = 0
    for place in found[:PLACES]:
        if drawn > COMPARED:
            return
        drawn += sum(min(SIDE, stop - start) + BEFORE for start, stop in (place.a, place.b))
        yield place


def _place(state: State, one: Strand, at: Change, draw: tuple[_Draw, _Draw]) -> Iterator[Html]:
    """The three cells of one difference: where, and the tokens of both sides behind the few that are equal."""
    lang, said = state.lang, one.conversation.messages
    turn = say("workbench.no_turn", lang)
    if at.message is not None and at.message < len(said):
        turn = say("workbench.turn", lang, turn=at.message, role=said[at.message].role)
    yield tag("div", turn, " · ", tag("a", f"@{at.a[0]}", href=f"#{name_at(state, at.a[0])}"))
    for side, (start, stop) in zip(draw, (at.a, at.b), strict=True):
        before = side.some(max(0, start - BEFORE), start, faint=True)
        here = side.some(start, stop) if stop > start else tag("i", say("workbench.nothing_here", lang), cls="dim")
        yield tag("div", before, here)


def _pair(state: State) -> Html:
    """A preference: how much is shared, how long each answer is, and where they part."""
    strands = work(state).strands
    if len(strands) != 2:
        return Html()
    lang, (chosen, rejected) = state.lang, strands
    both = list(zip(chosen.tokens, rejected.tokens, strict=False))
    same = next((at for at, (x, y) in enumerate(both) if x.id != y.id), len(both))
    head = [say(f"workbench.{name}", lang) for name in ("sequence", "n_tokens", "n_prompt", "n_own")]
    head.append(say("trained", lang))
    lines = [(one.key, len(one.tokens), same, len(one.tokens) - same, one.trained) for one in strands]
    if same == len(chosen.tokens) == len(rejected.tokens):
        line = note("bad", say("workbench.no_difference", lang))
    else:
        shown_ = [_at(state, one, same, which) for which, one in enumerate(strands)]
        words = (
            WORDS["workbench.first_difference"][lang == "zh"].format(at=same, chosen="\0", rejected="\0").split("\0")
        )
        line = tag("p", words[0], shown_[0], words[1], shown_[1], words[2])
    return card(say("workbench.pair", lang), table(head, lines), line)


def _at(state: State, strand: Strand, position: int, which: int) -> Html:
    if position >= len(strand.tokens):
        return tag("i", say("workbench.the_end", state.lang))
    link = tag("a", f"@{position}", href=f"#{name_at(state, position, which)}")
    return join([_Draw(state, strand).some(position, position + 1), " ", link])


def _methods(state: State) -> Html:
    if not has(state, "methods"):
        return Html()
    return _part(state, "methods", say("workbench.methods", state.lang), lambda value: _table(state, value))


def _table(state: State, found: Mapping[str, Found]) -> Html:
    """The methods, how many targets each finds, and the tokens on which it differs from the rule."""
    lang, strand = state.lang, work(state).strands[0] if work(state).strands else None
    rule = next((one.mask for one in found.values() if one.mask is not None), None)
    head = [say("workbench.method", lang), say("workbench.method_differs", lang), say("trained", lang)]
    lines: list[tuple[object, ...]] = []
    for name, one in found.items():
        trained = None if one.mask is None else int(one.mask.sum())
        lines.append((name, one.problem or _disagree(state, strand, rule, one.mask), number(trained)))
    return table(head, lines, words=2)


def _disagree(state: State, strand: Strand | None, rule: Any, mask: Any) -> Html:
    if rule is None or mask is None or strand is None or len(rule) != len(mask):
        return Html("–")
    places = [at for at in range(len(rule)) if bool(rule[at]) != bool(mask[at])]
    if not places:
        return join([tag("b", "✓"), " ", say("workbench.method_same", state.lang)])
    draw = _Draw(state, strand)
    spans = [_link_chip(state, draw, at) for at in places[:TOKENS]]
    rest = len(places) - TOKENS
    return join([*spans, say("workbench.more_tokens", state.lang, n=rest) if rest > 0 else ""], " ")


def _link_chip(state: State, draw: _Draw, at: int) -> Html:
    return tag("a", draw.some(at, at + 1), f"@{at}", href=f"#{name_at(state, at)}")


def _truncation(state: State) -> Html:
    if not has(state, "truncation"):
        return Html()
    title = say("workbench.truncation", state.lang, limit=state.max_length)
    return _part(state, "truncation", title, lambda value: _losses(state, value))


def _losses(state: State, losses: Sequence[Loss]) -> Html:
    """What each way of shortening loses, the chosen one marked."""
    lang, names = state.lang, ("rows_dropped", "answers_cut", "answers_lost", "tokens_lost", "targets_lost")
    wholes = {"rows_dropped": "rows", "answers_cut": "answers", "answers_lost": "answers", "tokens_lost": "tokens"}
    head = [say("workbench.too_long", lang), *(say(f"workbench.{name}", lang) for name in names)]
    lines = [
        (one.too_long, *(_of(getattr(one, name), getattr(one, wholes.get(name, "targets"))) for name in names))
        for one in losses
    ]
    chosen = next((at for at, one in enumerate(losses) if one.too_long == state.too_long), None)
    over = say("workbench.truncation_over", lang, rows=losses[0].rows if losses else 0)
    return join([table(head, lines, best=chosen), tag("p", over, cls="dim small")])


def _of(lost: int, whole: int) -> str:
    return f"{number(lost)} ({percent(lost, whole)})" if lost else number(0)
