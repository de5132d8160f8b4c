"""The mixture planner as a page: the share asked of each source, what it gives, and what is missing or left over.

code     asked  ██████████████████████████          50.0 %
         given  ██████████▒▒▒▒▒▒▒▒▒▒                33.3 %     2.00 epochs, 500 again, 1,000 missing
"""

from __future__ import annotations

from prep_lib.markup import Html, Page, Part, bar, card, code, join, note, number, percent, snippet, table, tag
from prep_lib.text.mixture import MANY, Finding, Plan, Portion, findings
from prep_lib.words import say
from widgets.mixture.state import State, made, unsaved

#: Sources drawn, rows of the table, and remarks; the largest come first.
BARS, ROWS, REMARKS = 20, 100, 8

#: Remarks that say something is not as it was asked.
_WARN = ("missing", "repeated", "nothing")


def report(plan: Plan, lang: str = "en") -> Page:
    """Return what a notebook cell or a report shows of a plan, or of one that is settled: what was asked, what came.

    Examples
    --------
    >>> from prep_lib.text.mixture import plan
    >>> report(plan({"web": (10, 1000), "code": (2, 100)}, "web=0.7 code=0.3", budget=500))
    <mixture: 2 sources, 500 chars given>
    """
    head = _head(len(plan.portions), sum(one.documents for one in plan.portions), plan, lang)
    html = snippet(join([head, _body(plan, lang)]), lang)
    return Page(html, f"mixture: {len(plan.portions):,} sources, {plan.given:,} {plan.unit} given")


def page(state: State) -> str:
    """Return the whole widget as HTML."""
    lang, plan = state.lang, made(state)
    has = Plan((), state.unit) if isinstance(plan, str) else plan
    head = [_head(len(state.sizes), sum(documents for _, documents, _ in state.sizes), has, lang)]
    if lines := unsaved(state):
        head += [note("warn", say("differs", lang)), code(lines)]
    body = note("bad", plan) if isinstance(plan, str) else _body(plan, lang)
    return snippet(join([*head, body]), lang)


def _head(sources: int, documents: int, plan: Plan, lang: str) -> Html:
    sub = say("mixture.sub", lang, sources=sources, documents=documents)
    if plan.portions:
        sub += say("mixture.sub_units", lang, units=plan.units, unit=_unit(plan, lang))
    return join([tag("h1", say("mixture.title", lang)), tag("p", sub, cls="sub")])


def _unit(plan: Plan, lang: str) -> str:
    return say("characters" if plan.unit == "chars" else "mixture.tokens", lang)


def _body(plan: Plan, lang: str) -> Html:
    if not plan.portions:
        return tag("p", say("mixture.none", lang))
    portions = sorted(plan.portions, key=lambda one: (-max(one.given, one.asked), one.source))
    return join([_sum(plan, lang), _remarks(plan, lang), _bars(portions, plan, lang), _table(portions, plan, lang)])


def _sum(plan: Plan, lang: str) -> Html:
    words = {"given": plan.given, "unit": _unit(plan, lang), "share": percent(plan.given, plan.units)}
    said = say("mixture.gives", lang, **words)
    if plan.budget is not None:
        said += say("mixture.of_budget", lang, budget=plan.budget, part=percent(plan.given, plan.budget))
    if plan.missing:
        said += say("mixture.missing_in_all", lang, missing=plan.missing)
    return tag("p", tag("b", said))


def _remarks(plan: Plan, lang: str) -> Html:
    # What is not as it was asked comes first.
    found = sorted(findings(plan), key=lambda one: one.kind not in _WARN)
    drawn = [note("warn", _remark(one, plan, lang)) for one in found[:REMARKS]]
    if len(found) > REMARKS:
        drawn.append(tag("p", say("mixture.more_remarks", lang, n=len(found) - REMARKS), cls="dim small"))
    return join(drawn)


def _remark(found: Finding, plan: Plan, lang: str) -> str:
    value = f"{found.value:.1f}" if found.kind == "repeated" else number(found.value)
    if found.kind == "rough":
        value = percent(found.value)
    words = {"source": found.source, "value": value, "unit": _unit(plan, lang), "many": MANY}
    return say(f"mixture.remark_{found.kind}", lang, **words)


def _bars(portions: list[Portion], plan: Plan, lang: str) -> Html:
    widest = max(max(one.weight, one.share) for one in portions)
    boxes = (("d3", "mixture.asked"), ("d0", "mixture.new"), ("d-more", "mixture.again"))
    legend = tag(
        "div", *(tag("span", tag("span", cls=f"box {kind}"), say(word, lang)) for kind, word in boxes), cls="legend"
    )
    drawn = [_source(one, widest, plan, lang) for one in portions[:BARS]]
    return card(say("mixture.bars", lang), legend, *drawn, _more(len(portions) - BARS, lang))


def _more(rest: int, lang: str) -> Html:
    return tag("p", say("mixture.more", lang, n=rest), cls="dim small") if rest > 0 else Html()


def _source(one: Portion, widest: float, plan: Plan, lang: str) -> Html:
    said = say(
        "mixture.line", lang, epochs=f"{one.epochs:.2f}", given=one.given, units=one.units, unit=_unit(plan, lang)
    )
    for word, units in (("repeats", one.repeats), ("missing", one.missing), ("left", one.left_over)):
        if units:
            said += " · " + say(f"mixture.line_{word}", lang, n=units)
    again = one.share * one.repeats / one.given if one.given else 0.0
    asked = [Part("d3", one.weight, f"{say('mixture.asked', lang)} {percent(one.weight)}")]
    parts = [
        Part("d0", one.share - again, f"{say('mixture.new', lang)} {one.given - one.repeats:,}"),
        Part("d-more", again, f"{say('mixture.again', lang)} {one.repeats:,}"),
    ]
    line = tag("div", tag("b", one.source), tag("span", said, cls="dim"), cls="say")
    strips = (("mixture.asked", asked, one.weight), ("mixture.given", parts, one.share))
    drawn = (_strip(say(word, lang), bars, share, widest, one.source) for word, bars, share in strips)
    return tag("div", line, *drawn, cls="stage")


def _strip(name: str, parts: list[Part], share: float, widest: float, source: str) -> Html:
    drawn = bar(parts, widest, f"{source}: {name} {percent(share)}")
    return tag("div", tag("span", name, cls="dim"), drawn, tag("span", percent(share)), cls="strip")


def _table(portions: list[Portion], plan: Plan, lang: str) -> Html:
    words = ["source", "documents", "mixture.has", "mixture.share_asked", "mixture.share_given", "mixture.given"]
    words += ["mixture.epochs", "mixture.repeats", "mixture.missing", "mixture.left_over"]
    lines = [
        [one.source, one.documents, one.units, percent(one.weight), percent(one.share), one.given,
         f"{one.epochs:.2f}", one.repeats, one.missing, one.left_over]
        for one in portions[:ROWS]
    ]  # fmt: skip
    settled = any(one.copies is not None for one in portions)
    if settled:
        words.append("mixture.copies")
        lines = [[*line, one.copies] for line, one in zip(lines, portions, strict=False)]
    told = say("mixture.note_counted" if settled else "mixture.note_planned", lang)
    grid = table(
        [say(word, lang) for word in words], lines, caption=say("mixture.in_units", lang, unit=_unit(plan, lang))
    )
    return card(say("mixture.table", lang), grid, _more(len(portions) - ROWS, lang), tag("p", told, cls="dim small"))
