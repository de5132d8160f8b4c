"""The threshold rehearsal as a page: what stays and goes, where the limit cuts, and the documents nearest to it.

preset   ██████████████████▨▨▨▨    81.2 %        ▁▃▆█▇▅┊▃▂▁           kept  0.68  │  dropped  0.70
now      ████████████████████▨▨    90.4 %              ┊ limit        an excerpt  │  an excerpt
                                                 rules: falls, first, alone      languages, sources, health
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import compress
from operator import not_

import numpy as np

from prep_lib.markup import Html, Part, bar, card, code, escape, fold, join, note, number, percent, snippet, table, tag
from prep_lib.text.quality import Finding
from prep_lib.words import say
from widgets.quality.state import (
    Column,
    Example,
    Group,
    Histogram,
    Row,
    State,
    Tally,
    borderline,
    findings,
    groups,
    histogram,
    preset,
    rows,
    show_number,
    tally,
    unsaved,
)

#: Height of the drawing, pixels; from where on its label stands left of the limit.
HIGH, TURN = 130, 0.7

#: Columns of languages and sources.
_GROUP = ("documents", "kept", "before", "lost", "lost_before")

_PLACED = "position:absolute;top:0;bottom:0;pointer-events:none"
#: Stripes on the card's own colour need an edge to be seen.
_EDGED = {"hatch": ";box-shadow:inset 0 0 0 1px var(--pad)"}
_BELOW = "display:block;color:var(--dim);font-weight:400;font-size:12px;white-space:normal"
_MARK = "background:var(--ctl-bg);color:var(--ctl);text-decoration:underline;text-underline-offset:3px"


def page(state: State) -> str:
    """Return the whole widget as HTML."""
    lang, data = state.lang, state.data
    characters = int(data.lengths.sum())
    sets = ", ".join(data.places) or "–"
    sub = say("quality.sub", lang, n=len(data.lengths), characters=characters, rules=sets)
    if passing := len(data.lengths) - sum(map(len, data.places.values())):
        sub += say("quality.passing", lang, n=passing)
    head = join([tag("h1", say("quality.title", lang)), tag("p", sub, cls="sub")])
    if not len(data.lengths) or not data.columns:
        return snippet(join([head, tag("p", say("quality.none", lang))]), lang)
    body = [head, _unsaved(state), _totals(state), _limit(state), _borderline(state), _rules(state)]
    body += [_groups(state, "quality.languages", *data.languages), _groups(state, "quality.sources", *data.sources)]
    return snippet(join([*body, _health(state)]), lang)


def _unsaved(state: State) -> Html:
    lines = unsaved(state)
    return join([note("warn", say("differs", state.lang)), code(lines)]) if lines else Html()


# ---------------------------------------------------------------------------------------------------------------------
# What stays and goes
# ---------------------------------------------------------------------------------------------------------------------


def _totals(state: State) -> Html:
    lang = state.lang
    before, now = preset(state), tally(state)
    bars = [_total(state, say("quality.preset", lang), before), _total(state, say("quality.now", lang), now)]
    came, went = now.kept & ~before.kept, before.kept & ~now.kept
    lengths = state.data.left
    values = {
        "came": int(came.sum()), "came_characters": int(lengths[came].sum()),
        "went": int(went.sum()), "went_characters": int(lengths[went].sum()),
    }  # fmt: skip
    said = say("quality.moved" if state.moved else "quality.unmoved", lang, **values)
    legend = (tag("span", tag("span", cls=f"box {flow}"), say(flow, lang)) for flow in ("kept", "dropped"))
    return card(say("quality.totals", lang), tag("div", *legend, cls="legend"), *bars, tag("p", said))


def _total(state: State, name: str, told: Tally) -> Html:
    lang, lengths, n = state.lang, state.data.lengths, len(state.data.lengths)
    kept, characters = int(told.kept.sum()), int(lengths.sum())
    stay = int(state.data.left[told.kept].sum())
    said = say(
        "quality.total", lang, kept=kept, dropped=n - kept, share=percent(kept, n),
        lost=characters - stay, lost_share=percent(characters - stay, characters),
    )  # fmt: skip
    parts = [Part("kept", kept, f"{say('kept', lang)} {kept:,}"), Part("dropped", n - kept, f"{n - kept:,}")]
    line = tag("div", tag("b", name), tag("span", said, cls="dim"), cls="say")
    return tag("div", line, bar(parts, n, f"{name}: {said}"), cls="stage")


# ---------------------------------------------------------------------------------------------------------------------
# The chosen limit
# ---------------------------------------------------------------------------------------------------------------------


def _limit(state: State) -> Html:
    limit, lang = state.limit, state.lang
    if limit is None:
        return Html()
    title = say("quality.limit", lang, rule=f"{limit.rules}:{limit.rule}")
    column = next(column for column in state.data.columns if column.name == f"{limit.rules}:{limit.rule}")
    sign = "≥" if limit.side == "low" else "≤"
    said = say(
        "quality.condition", lang, signal=column.signal, sign=sign, now=_off(state.value, lang),
        preset=_off(limit.preset, lang),
    )  # fmt: skip
    told = histogram(state)
    drawn = _histogram(told, state) if told else tag("p", say("quality.no_values", lang))
    return card(title, tag("p", tag("b", said)), drawn)


def _off(value: float, lang: str) -> str:
    return say("quality.off", lang) if math.isinf(value) else show_number(value)


def _histogram(told: Histogram, state: State) -> Html:
    """Draw bars as boxes, so that each part wears the colour and pattern it has everywhere."""
    lang = state.lang
    counts = (("kept", told.kept), ("hatch", told.others), ("dropped", told.falls))
    top = max(1, int((told.kept + told.others + told.falls).max()))
    columns = join(_bar(at, counts, top, told) for at in range(len(told.kept)))
    names = {"kept": say("kept", lang)}
    names |= {"hatch": say("quality.by_others", lang), "dropped": say("quality.by_this", lang)}
    totals = {kind: int(part.sum()) for kind, part in counts}
    legend = join(
        tag("span", tag("span", cls=f"box {kind}", style=_EDGED.get(kind)), f"{names[kind]} {totals[kind]:,}")
        for kind in names
    )
    lines = join([_line(told.preset, say("quality.preset", lang), "dashed", 0) if state.moved else "",
                  _line(told.now, say("quality.now", lang), "solid", 1)])  # fmt: skip
    label = ", ".join(f"{names[kind]} {totals[kind]:,}" for kind in names)
    box = tag("div", columns, lines, role="img", aria_label=f"{say('quality.histogram', lang)}. {label}",
              style=f"position:relative;display:flex;align-items:flex-end;height:{HIGH}px;padding-top:34px;"
                    "box-sizing:content-box;border-bottom:1px solid var(--line)")  # fmt: skip
    ends = [say("quality.missing", lang, n=told.missing)] if told.missing else []
    below = tag("p", " ".join([say("quality.histogram_note", lang, top=top), *ends]), cls="dim small")
    return join([tag("div", legend, cls="legend"), box, _axis(told), below, _numbers(told, names, lang)])


def _bar(at: int, counts: Iterable[tuple[str, np.ndarray]], top: int, told: Histogram) -> Html:
    parts = [(kind, int(part[at])) for kind, part in counts if part[at]]
    span = f"{_short(told.edges[at])} – {_short(told.edges[at + 1])}: "
    drawn = join(
        tag("div", cls=kind, style=f"height:{max(1.0, HIGH * n / top):.1f}px{_EDGED.get(kind, '')}")
        for kind, n in parts[::-1]
    )
    title = span + number(sum(n for _, n in parts))
    return tag("div", drawn, title=title, style="flex:1 1 0;min-width:0;border-right:1px solid var(--card)")


def _line(at: float | None, word: str, kind: str, row: int) -> Html:
    if at is None:
        return Html()
    right = f"right:{100 * (1 - at):.3g}%;text-align:right;border-right"
    side = right if at > TURN else f"left:{100 * at:.3g}%;border-left"
    label = tag("span", word, style=f"position:relative;top:{16 * row}px;padding:0 4px;font-size:12px;color:var(--ink)")
    return tag("div", label, style=f"{_PLACED};{side}:2px {kind} var(--ink)")


def _axis(told: Histogram) -> Html:
    bars = len(told.kept)
    spots = [0, bars // 4, bars // 2, 3 * bars // 4, bars]
    return tag(
        "div", *(tag("span", _short(told.edges[at])) for at in spots), cls="dim",
        style="display:flex;justify-content:space-between;font-size:12px;margin:2px 0 6px;"
              "font-variant-numeric:tabular-nums",
    )  # fmt: skip


def _short(value: float) -> str:
    """Write a value of a signal: three digits that count.

    Examples
    --------
    >>> _short(0.6789), _short(12.3456), _short(98765.4), _short(3.0)
    ('0.679', '12.3', '98,765', '3')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _numbers(told: Histogram, names: dict[str, str], lang: str) -> Html:
    """The drawing as a table, four bars a row."""
    step = 4
    lines = [
        [f"{_short(told.edges[at])} – {_short(told.edges[min(at + step, len(told.kept))])}",
         *(int(part[at : at + step].sum()) for part in (told.kept, told.others, told.falls))]
        for at in range(0, len(told.kept), step)
    ]  # fmt: skip
    return fold(say("quality.numbers", lang), table([say("quality.value", lang), *names.values()], lines))


# ---------------------------------------------------------------------------------------------------------------------
# Documents nearest to it
# ---------------------------------------------------------------------------------------------------------------------


def _borderline(state: State) -> Html:
    lang = state.lang
    if state.limit is None:
        return Html()
    kept, dropped = borderline(state)
    sides = (
        _side(say("quality.nearest_kept", lang, n=len(kept)), "kept", kept, lang),
        _side(say("quality.nearest_dropped", lang, n=len(dropped)), "dropped", dropped, lang),
    )
    style = "display:grid;grid-template-columns:repeat(auto-fit,minmax(min(320px,100%),1fr));gap:0 22px"
    return card(say("quality.borderline", lang), tag("div", *sides, style=style))


def _side(title: str, kind: str, examples: list[Example], lang: str) -> Html:
    drawn = [_example(example, lang) for example in examples] or [tag("p", say("quality.nobody", lang), cls="dim")]
    return tag("div", tag("p", tag("span", cls=f"box {kind}"), tag("b", title)), *drawn)


def _example(example: Example, lang: str) -> Html:
    doc = example.document
    told = [_short(example.value), doc.id, doc.source, f"{len(doc.text):,} {say('characters', lang)}"]
    line = tag("small", tag("b", told[0]), " · ", join((part for part in told[1:] if part), " · "))
    also = tag("small", say("quality.also", lang, rules=", ".join(example.also))) if example.also else ""
    pieces = join(
        tag("mark", escape(text, breaks=True), style=_MARK) if offends else escape(text, breaks=True)
        for text, offends in example.pieces
    )
    return tag("div", line, also, "… " if example.before else "", pieces, " …" if example.behind else "", cls="turn")


# ---------------------------------------------------------------------------------------------------------------------
# Rules, groups, health
# ---------------------------------------------------------------------------------------------------------------------


def _rules(state: State) -> Html:
    """A table a rule set; rules that drop nobody, now or by the preset, are folded away."""
    lang = state.lang
    now, before = rows(state, tally(state)), rows(state, preset(state))
    every = list(zip(state.data.columns, now, before, strict=True))
    limit = state.limit
    told = tag("p", say("quality.rules_note", lang), cls="dim small")
    parts = []
    for name in state.data.sets:
        inside = [entry for entry in every if entry[0].rules == name]
        chosen = limit.rule if limit and limit.rules == name else ""
        heard = [bool(row.falls or old.falls or column.rule == chosen) for column, row, old in inside]
        loud, quiet = list(compress(inside, heard)), list(compress(inside, map(not_, heard)))
        parts.append(_rule_table(state, name, loud, chosen))
        if quiet:
            title = say("quality.silent", lang, n=len(quiet), rules=name)
            parts.append(fold(title, _rule_table(state, name, quiet, chosen)))
    return card(say("quality.rules", lang), *parts, told)


def _rule_table(state: State, name: str, entries: list[tuple[Column, Row, Row]], chosen: str) -> Html:
    lang, head = state.lang, ("rule", "falls", "first", "alone", "first_before")
    lines = [
        [
            join([column.rule, tag("span", _keeps(state, column), style=_BELOW)]),
            row.falls,
            row.first,
            row.alone,
            old.first,
        ]
        for column, row, old in entries
    ]
    best = next((at for at, (column, _, _) in enumerate(entries) if column.rule == chosen), None)
    return table([say(f"quality.{word}", lang) for word in head], lines, best=best, caption=name)


def _keeps(state: State, column: Column) -> str:
    """Say what a rule keeps, a moved limit with a star."""
    moved = dict(state.moved)
    low, high = moved.get(f"{column.name}>=", column.low), moved.get(f"{column.name}<=", column.high)
    limits = [f"≥ {_short(low)}"] * math.isfinite(low) + [f"≤ {_short(high)}"] * math.isfinite(high)
    mark = " *" if (low, high) != (column.low, column.high) else ""
    return f"{column.signal} {' '.join(limits) or say('quality.off', state.lang)}{mark}"


def _groups(state: State, word: str, names: tuple[str, ...], place: np.ndarray) -> Html:
    lang = state.lang
    head = [say(word, lang), *(say(f"quality.group_{name}", lang) for name in _GROUP)]
    lines = [_group(group, lang) for group in groups(state, names, place)]
    return card(say(f"{word}_title", lang), table(head, lines))


def _group(group: Group, lang: str) -> list[object]:
    name = say("quality.others", lang) if group.name is None else group.name
    return [
        name or "–", group.documents, percent(group.kept, group.documents), percent(group.before, group.documents),
        percent(group.characters - group.kept_characters, group.characters),
        percent(group.characters - group.before_characters, group.characters),
    ]  # fmt: skip


def _health(state: State) -> Html:
    """What is odd about the rules, one line a kind."""
    lang, parts = state.lang, []
    for name, found in findings(state).items():
        kinds = dict.fromkeys(finding.kind for finding in found)
        lines = [
            tag("li", say(f"quality.health_{kind}", lang), " ", _odd([one for one in found if one.kind == kind]))
            for kind in kinds
        ]
        told = tag("ul", *lines, cls="plain") if lines else tag("p", say("quality.healthy", lang), cls="dim")
        parts.append(join([tag("p", tag("b", name)), told]))
    return card(say("quality.health", lang), *parts)


def _odd(found: list[Finding]) -> Html:
    shown = [
        join(
            [
                one.rule,
                f" ({percent(one.share)})" if one.share else "",
                f" ({_short(one.value)})" if one.value == one.value else "",
            ]
        )
        for one in found
    ]
    return join(shown, " · ")
