"""Near duplicates as a page: pairs side by side around the limit, who would go, what the bands find, clusters.

0.7992 below the limit    stays │ stays     shared text underlined, what only one has in bold
0.8054 reaches it         stays │ goes
who goes                  a line over thresholds      sources: documents, gone before, now, lost ▲ most of itself
1 - (1 - J^rows)^bands    ○ found   × not found       largest clusters, families that differ only in digits
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from prep_lib.markup import Html, Part, bar, card, code, escape, join, note, number, percent, snippet, table, tag
from prep_lib.record import Document
from prep_lib.text.near_dedup import curve
from prep_lib.words import say
from widgets.pairs.state import (
    ALARM,
    ANCHORS,
    Group,
    Loss,
    Pair,
    Pieces,
    State,
    Stop,
    banded,
    bins,
    borderline,
    dropped,
    found,
    largest,
    losses,
    templates,
    thresholds,
    together,
    unsaved,
)

#: Sources in the table, and those an alarm names; points drawn; stretches of a pair.
SOURCES, NAMED, POINTS, STRETCHES = 20, 8, 300, 40

#: Characters of a stretch that is in both, on each side of what is left out; of one that is not; of a beginning.
BESIDE, ALONE, BEGIN = 60, 400, 180

#: Similarities the truth is counted between.
EDGES = tuple(at / 20 for at in range(8, 21))

#: Of a drawing, in units of its own: width, height, where the axes stand, and the strips of points above and below.
_WIDE, _HIGH, _LEFT, _RIGHT, _TOP, _BOTTOM = 340, 236, 40, 330, 42, 172
_FOUND, _MISSED, _LOWER = 14, 182, 228

_STYLE = Html(
    "<style>.prep .sides{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:6px 14px;margin:0 0 18px}"
    ".prep .sides>div{white-space:pre-wrap;max-height:320px;overflow-y:auto;font-size:14px;border-left:3px solid "
    "var(--line);padding-left:10px}.prep .sides small{display:block;color:var(--dim);font-weight:600;"
    "white-space:normal}.prep .sides .goes{border-left:6px double var(--dropped)}"
    ".prep mark.both{background:none;color:inherit;text-decoration:underline;text-decoration-color:var(--kept);"
    "text-decoration-thickness:2px;text-underline-offset:3px}"
    ".prep .only,.prep mark.digits{font-weight:700;background:var(--ctl-bg);color:var(--ctl);border-radius:3px}"
    ".prep .beside-plot{display:grid;grid-template-columns:minmax(0,440px) minmax(0,1fr);gap:10px 26px;"
    "align-items:start}.prep .beside-plot svg.plot{max-width:440px}.prep .plot .dot{stroke-width:1.2}"
    ".prep .near th{word-break:keep-all}.prep .lot{margin:0 0 16px}.prep .hue-curve{--hue:var(--on)}"
    ".prep .hue-found{--hue:var(--kept)}.prep .hue-missed{--hue:var(--bad)}.prep .hue-share{--hue:var(--ctl)}"
    "@container(max-width:820px){.prep .beside-plot{grid-template-columns:minmax(0,1fr)}}"
    "@container(max-width:560px){.prep .sides{grid-template-columns:minmax(0,1fr)}}"
    "@media print{.prep .sides>div{max-height:none}}</style>"
)


def page(state: State) -> str:
    """Return the whole widget as HTML."""
    lang, data = state.lang, state.data
    bands, rows = banded(state)
    sub = say(
        "pairs.sub", lang, n=len(data.ids), shingle=data.stage.shingle, num_perm=data.stage.num_perm, bands=bands,
        rows=rows,
    )  # fmt: skip
    head = [_STYLE, tag("h1", say("pairs.title", lang)), tag("p", sub, cls="sub")]
    if not data.ids:
        return snippet(join([*head, tag("p", say("pairs.none", lang))]), lang)
    head = [*head, _sampled(state)]
    body = [_unsaved(state), _now(state), _borderline(state), _thresholds(state), _sources(state), _curve(state)]
    return snippet(tag("div", *head, *body, _clusters(state), _families(state), cls="near"), lang)


def _unsaved(state: State) -> Html:
    lines = unsaved(state)
    return join([note("warn", say("differs", state.lang)), code(lines)]) if lines else Html()


def _sampled(state: State) -> Html:
    share = state.data.share
    return note("warn", say("pairs.sampled", state.lang, share=percent(share))) if share < 1 else Html()


# ---------------------------------------------------------------------------------------------------------------------
# Who goes
# ---------------------------------------------------------------------------------------------------------------------


def _now(state: State) -> Html:
    lang, data = state.lang, state.data
    would, went, whole = int(dropped(state).sum()), int(data.went.sum()), len(data.ids)
    ran = say("pairs.ran", lang, limit=_limit(data.stage.threshold), bands=data.stage.bands, rows=data.stage.rows)
    bands, rows = banded(state)
    now = say("pairs.now", lang, limit=_limit(state.threshold), bands=bands, rows=rows)
    alarms = _alarms([one for one in losses(state) if one.alarm], lang)
    legend = (tag("span", tag("span", cls=f"box {flow}"), say(flow, lang)) for flow in ("kept", "dropped"))
    told = tag("p", say("pairs.now_note", lang), cls="dim small")
    bars = [_total(ran, went, whole, lang), _total(now, would, whole, lang)]
    return card(say("pairs.who", lang), alarms, tag("div", *legend, cls="legend"), *bars, told)


def _total(name: str, gone: int, whole: int, lang: str) -> Html:
    said = say("pairs.total", lang, gone=gone, share=percent(gone, whole), kept=whole - gone)
    parts = [Part("kept", whole - gone, f"{say('kept', lang)} {whole - gone:,}")]
    parts += [Part("dropped", gone, f"{say('dropped', lang)} {gone:,}")]
    line = tag("div", tag("b", name), tag("span", said, cls="dim"), cls="say")
    return tag("div", line, bar(parts, whole, f"{name}: {said}"), cls="stage")


def _alarms(told: Sequence[Loss], lang: str) -> Html:
    drawn = [note("bad", _alarm(one, lang)) for one in told[:NAMED]]
    if told[NAMED:]:
        drawn.append(tag("p", say("pairs.more_alarms", lang, n=len(told) - NAMED), cls="dim small"))
    return join(drawn)


def _alarm(one: Loss, lang: str) -> str:
    return say(
        "pairs.alarm", lang, source=one.source, share=percent(one.share), gone=one.before + one.now,
        documents=one.documents, limit=percent(ALARM, digits=0),
    )  # fmt: skip


def _limit(threshold: float) -> str:
    """Write a threshold so that nothing of it is lost.

    Examples
    --------
    >>> _limit(0.8), _limit(1), _limit(0.8125)
    ('0.8', '1', '0.8125')
    """
    return f"{threshold:g}" if float(f"{threshold:g}") == threshold else repr(threshold)


def _thresholds(state: State) -> Html:
    lang, whole, told = state.lang, len(state.data.ids), thresholds(state)
    words = ("pairs.threshold", "pairs.bands", "pairs.would_go", "share", "pairs.against_run")
    ran = int(state.data.went.sum())
    lines = [
        [_limit(one.threshold), f"{one.bands} × {one.rows}", one.dropped, percent(one.dropped, whole),
         f"{one.dropped - ran:+,}".replace("-", "−")]
        for one in told
    ]  # fmt: skip
    here = next(at for at, one in enumerate(told) if one.threshold == state.threshold)
    grid = table([say(word, lang) for word in words], lines, best=here)
    drawn = tag("div", tag("div", _plot_thresholds(state, told)), grid, cls="beside-plot")
    return card(say("pairs.thresholds", lang), drawn, tag("p", say("pairs.thresholds_note", lang), cls="dim small"))


def _plot_thresholds(state: State, told: Sequence[Stop]) -> Html:
    """Draw the share that goes over the thresholds; the exact share of the run as a mark of its own."""
    lang, data, whole = state.lang, state.data, len(state.data.ids)
    shares = (data.dropped.sum(axis=1) / whole).tolist()
    ran = float(data.went.sum()) / whole
    top = _round_up(max(*shares, ran, *(one.dropped / whole for one in told)))
    low = min(data.stops[0], state.threshold, data.stage.threshold)

    def x(threshold: float) -> float:
        return _between((threshold - low) / max(1 - low, 1e-9))

    def y(share: float) -> float:
        return _height(share / top)

    line = "L".join(f"{x(stop)} {y(share)}" for stop, share in zip(data.stops, shares, strict=True))
    spots = {one.threshold: (x(one.threshold), y(one.dropped / whole)) for one in told}
    now = _mark(*spots.pop(state.threshold), _TRIANGLE)
    marks = [_mark(*spot, _CIRCLE) for spot in spots.values()]
    drawn = [*_axis(x, np.linspace(low, 1, 6).tolist(), _BOTTOM + 18), *(_level(y, at * top / 2) for at in range(3))]
    drawn += [
        _here(x(state.threshold), _TOP - 10, _BOTTOM),
        Html(f'<g class="hue-curve"><path d="M{line}"/>{join(marks)}</g>'),
    ]
    drawn.append(tag("g", _mark(x(data.stage.threshold), y(ran), _DIAMOND), cls="hue-share"))
    drawn.append(tag("g", now, cls="hue-missed"))
    drawn.append(_text((_LEFT + _RIGHT) / 2, _BOTTOM + 34, say("pairs.axis_threshold", lang), "middle"))
    said = ", ".join(f"{_limit(one.threshold)} {percent(one.dropped, whole)}" for one in told)
    label = f"{say('pairs.thresholds', lang)}. {said}. {say('pairs.run_exact', lang)} {percent(ran)}"
    kinds = [("hue-curve", _CIRCLE, "pairs.estimated"), ("hue-missed", _TRIANGLE, "pairs.legend_now")]
    legend = _legend([*kinds, ("hue-share", _DIAMOND, "pairs.run_exact")], lang)
    return join([_svg(drawn, label, _BOTTOM + 42), legend])


def _round_up(share: float) -> float:
    """Return the top of an axis.

    Examples
    --------
    >>> _round_up(0.33), _round_up(0.004), _round_up(0)
    (0.4, 0.01, 0.01)
    """
    return next((top for top in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8) if top >= share), 1.0)


def _sources(state: State) -> Html:
    lang, told = state.lang, losses(state)
    keys = ("documents", "pairs.before", "pairs.by_run", "pairs.by_now", "pairs.lost")
    shown = told[:SOURCES] + ([together(told[SOURCES:])] if told[SOURCES:] else [])
    lines = [_source(one, lang) for one in shown]
    if len(told) > 1:
        lines.append(_source(together(told)._replace(source=say("pairs.all", lang)), lang, alarm=False))
    head = [say("source", lang), *(say(key, lang) for key in keys)]
    told_how = say("pairs.sources_note", lang, limit=percent(ALARM, digits=0))
    return card(say("pairs.sources", lang), table(head, lines), tag("p", told_how, cls="dim small"))


def _source(one: Loss, lang: str, alarm: bool = True) -> list[object]:
    name = say("pairs.others", lang) if one.source is None else one.source or "–"
    mark = "▲ " if one.alarm and alarm and one.source is not None else ""
    return [name, one.documents, one.before, one.went, one.now, f"{mark}{percent(one.share)}"]


# ---------------------------------------------------------------------------------------------------------------------
# Pairs next to the limit
# ---------------------------------------------------------------------------------------------------------------------


def _borderline(state: State) -> Html:
    lang = state.lang
    below, above = borderline(state)
    legend = tag(
        "div", tag("span", tag("mark", say("pairs.shared", lang), cls="both")),
        tag("span", tag("span", say("pairs.only", lang), cls="only")), cls="legend",
    )  # fmt: skip
    limit = _limit(state.threshold)
    drawn: list[object] = []
    for word, found_here in (("pairs.above", above), ("pairs.below", below)):
        drawn.append(tag("p", tag("b", say(word, lang, limit=limit, n=len(found_here)))))
        drawn += [_pair(pair, state) for pair in found_here] or [tag("p", say("pairs.nobody", lang), cls="dim")]
    return card(say("pairs.borderline", lang), legend, *drawn)


def _pair(pair: Pair, state: State) -> Html:
    lang, reaches = state.lang, pair.jaccard >= state.threshold
    goes = reaches and pair.met
    title = say(
        "pairs.pair", lang, value=f"{pair.jaccard:.4f}", sign="≥" if reaches else "<", limit=_limit(state.threshold)
    )
    ran = say("pairs.run_dropped" if pair.went else "pairs.run_kept", lang)
    kinds = ("kept", pair.two, 1, None), (("dropped", pair.one, 0, "goes") if goes else ("kept", pair.one, 0, None))
    sides = (
        tag("div", _who(doc, say(flow, lang), lang), *_marked(pair.marked[side], lang), cls=cls, tabindex="0")
        for flow, doc, side, cls in kinds
    )
    told = [title, *([say("pairs.not_met", lang)] if reaches and not pair.met else [])]
    said = tag("p", tag("b", " · ".join(told)), " · ", ran, cls="small")
    return join([said, tag("div", *sides, cls="sides", role="group", aria_label=title)])


def _who(doc: Document, flow: str, lang: str) -> Html:
    told = [flow, doc.id, doc.source, f"{len(doc.text):,} {say('characters', lang)}"]
    return tag("small", join([part for part in told if part], " · "))


def _marked(pieces: Pieces, lang: str) -> Iterable[Html]:
    """One side of a pair: what is in both underlined, the middle of long stretches left out."""
    last = len(pieces) - 1
    for at, (text, both) in enumerate(pieces[:STRETCHES]):
        words = text.rstrip()
        shown = _inner(words, at == 0, at == last) if both else _cut(words)
        yield tag("mark" if both else "span", escape(shown, breaks=True), cls="both" if both else "only")
        yield escape(text[len(words) :], breaks=True)
    if last >= STRETCHES:
        yield tag("span", "… " + say("pairs.more_here", lang, n=last + 1 - STRETCHES), cls="dim small")


def _inner(text: str, first: bool, last: bool) -> str:
    """What is in both, without the middle of a long stretch.

    Examples
    --------
    >>> _inner("a" * 70 + "b" * 70, False, False) == "a" * 60 + " … " + "b" * 60
    True
    """
    head, tail = (2 * BESIDE, BESIDE) if first else (BESIDE, 0 if last else BESIDE)
    if len(text) <= head + tail:
        return text
    return f"{text[:head]} … {text[len(text) - tail :]}"


def _cut(text: str) -> str:
    return text if len(text) <= ALONE else f"{text[: ALONE // 2]} … {text[-ALONE // 2 :]}"


# ---------------------------------------------------------------------------------------------------------------------
# What the bands find
# ---------------------------------------------------------------------------------------------------------------------


def _curve(state: State) -> Html:
    lang, points = state.lang, state.data.points
    bands, rows = banded(state)
    title = say("pairs.curve", lang, bands=bands, rows=rows)
    reach = points["jaccard"] >= state.threshold
    hit = int(found(state)[reach].sum())
    anchors = min(ANCHORS, int((state.data.rows["shingles"] > 0).sum()))
    said = say(
        "pairs.truth", lang, anchors=anchors, pairs=len(points), reach=int(reach.sum()), hit=hit,
        share=percent(hit, int(reach.sum())), expected=percent(float(curve(bands, rows, state.threshold))),
        limit=_limit(state.threshold),
    )  # fmt: skip
    told = bins(state, EDGES)
    words = ("pairs.similarity", "pairs.pairs", "pairs.found", "pairs.missed", "pairs.found_share", "pairs.by_curve")
    lines = [
        [f"{one.low:.2f} – {one.high:.2f}", one.pairs, one.found, one.pairs - one.found,
         percent(one.found, one.pairs), percent(one.expected, one.pairs)]
        for one in told
    ]  # fmt: skip
    grid = table([say(word, lang) for word in words], lines)
    drawn = tag("div", tag("div", _plot_curve(state)), grid, cls="beside-plot")
    return card(title, tag("p", said), drawn, tag("p", say("pairs.curve_note", lang), cls="dim small"))


def _plot_curve(state: State) -> Html:
    """Draw the curve, the limit, sampled pairs above and below it, and the share found between `EDGES`."""
    lang, (bands, rows) = state.lang, banded(state)
    grid = np.linspace(0, 1, 101)
    line = "L".join(f"{_between(s)} {_height(v)}" for s, v in zip(grid, curve(bands, rows, grid), strict=True))
    told = [one for one in bins(state, EDGES) if one.pairs]
    squares = [_mark(_between((one.low + one.high) / 2), _height(one.found / one.pairs), _SQUARE) for one in told]
    hit = found(state)
    drawn = [*_axis(_between, [0, 0.2, 0.4, 0.6, 0.8, 1], _MISSED + 34), *(_level(_height, at / 2) for at in range(3))]
    drawn.append(_here(_between(state.threshold), _FOUND - 8, _MISSED + 22))
    drawn.append(Html(f'<g class="hue-curve"><path d="M{line}"/></g>'))
    drawn.append(tag("g", *squares, cls="hue-share"))
    for kind, chosen, high, mark in (("found", hit, _FOUND, _CIRCLE), ("missed", ~hit, _MISSED, _CROSS)):
        drawn.append(tag("g", *_dots(state.data.points["jaccard"][chosen], high, mark), cls=f"hue-{kind}"))
        drawn.append(_text(_LEFT + 4, high + 11, f"{say(f'pairs.{kind}', lang)} {int(chosen.sum()):,}", "start"))
    drawn.append(_text((_LEFT + _RIGHT) / 2, _LOWER + 4, say("pairs.axis_similarity", lang), "middle"))
    said = ", ".join(f"{one.low:.2f}–{one.high:.2f}: {one.found}/{one.pairs}" for one in told)
    at_limit = percent(float(curve(bands, rows, state.threshold)))
    label = say(
        "pairs.curve_label", lang, bands=bands, rows=rows, limit=_limit(state.threshold), share=at_limit, said=said
    )
    marks = [("hue-curve", _DASH, "pairs.legend_curve"), ("hue-share", _SQUARE, "pairs.legend_share")]
    marks += [("hue-found", _CIRCLE, "pairs.legend_found"), ("hue-missed", _CROSS, "pairs.legend_missed")]
    return join([_svg(drawn, label, _HIGH), _legend(marks, lang)])


def _dots(alike: np.ndarray, high: int, mark: str) -> Iterable[Html]:
    """Points in a strip, spread over its height so that neighbours do not cover each other."""
    few = alike[:: -(-len(alike) // POINTS)] if len(alike) > POINTS else alike
    return (_mark(_between(value), high + at * 3 % 5 * 4, mark, "dot") for at, value in enumerate(few.tolist()))


# ---------------------------------------------------------------------------------------------------------------------
# Drawings
# ---------------------------------------------------------------------------------------------------------------------

_CIRCLE, _CROSS, _SQUARE = "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0", "M-3-3L3 3M3-3L-3 3", "M-3-3h6v6h-6z"
_DIAMOND, _DASH, _TRIANGLE = "M0-4.5L4.5 0L0 4.5L-4.5 0z", "M-9 0H9", "M0-5L5 4h-10z"


def _svg(drawn: Iterable[object], label: str, high: int) -> Html:
    return tag("svg", *drawn, cls="plot", viewBox=f"0 0 {_WIDE} {high}", role="img", aria_label=label)


def _between(share: float) -> float:
    return round(_LEFT + (_RIGHT - _LEFT) * float(share), 1)


def _height(share: float) -> float:
    return round(_BOTTOM - (_BOTTOM - _TOP) * float(share), 1)


def _mark(x: float, y: float, path: str, kind: str = "") -> Html:
    return Html(f'<path class="mark {kind}" transform="translate({x} {y})" d="{path}"/>')


def _text(x: float, y: float, words: str, anchor: str) -> Html:
    return tag("text", words, x=x, y=y, text_anchor=anchor)


def _axis(x: Callable[[float], float], stops: Sequence[float], y: float) -> list[Html]:
    return [_text(x(stop), y, f"{stop:.2f}".rstrip("0").rstrip("."), "middle") for stop in stops]


def _level(y: Callable[[float], float], share: float) -> Html:
    at = y(share)
    rule = Html(f'<path class="rule" d="M{_LEFT} {at}H{_RIGHT}"/>')
    digits = 0 if share in (0, 1) or share >= 0.1 else 1
    return join([rule, _text(_LEFT - 5, at + 4, percent(share, digits=digits), "end")])


def _here(x: float, top: float, bottom: float) -> Html:
    return Html(f'<path class="here" d="M{x} {top}V{bottom}"/>')


def _legend(marks: Sequence[tuple[str, str, str]], lang: str) -> Html:
    drawn = (
        tag("span", tag("svg", Html(f'<path class="mark" transform="translate(10 7)" d="{path}"/>'), cls=f"plot swatch "
            f"{hue}", viewBox="0 0 20 14", style="width:20px", aria_hidden="true"), say(word, lang))
        for hue, path, word in marks
    )  # fmt: skip
    return tag("div", *drawn, cls="legend")


# ---------------------------------------------------------------------------------------------------------------------
# Clusters and families
# ---------------------------------------------------------------------------------------------------------------------


def _clusters(state: State) -> Html:
    lang, told = state.lang, largest(state)
    if not told:
        return card(say("pairs.clusters", lang), tag("p", say("pairs.no_clusters", lang), cls="dim"))
    drawn = (_group(say("pairs.cluster", lang, n=one.members, went=one.went), one, lang, _begin) for one in told)
    return card(say("pairs.clusters", lang), tag("p", say("pairs.clusters_note", lang), cls="dim small"), *drawn)


def _families(state: State) -> Html:
    lang, told, every = state.lang, templates(state), state.data.families
    if not told:
        return card(say("pairs.families", lang), tag("p", say("pairs.no_families", lang), cls="dim"))
    said = say("pairs.families_note", lang, n=len(every), documents=sum(map(len, every)))
    drawn = (_group(say("pairs.family", lang, n=one.members, went=one.went), one, lang, _digits) for one in told)
    return card(say("pairs.families", lang), tag("p", said, cls="dim small"), *drawn)


def _group(title: str, group: Group, lang: str, show: Callable[[str], Html]) -> Html:
    drawn = [tag("div", _member(doc, alike, lang), show(doc.text), cls="turn") for doc, alike in group.texts]
    return tag("div", tag("p", tag("b", title)), *drawn, cls="lot")


def _member(doc: Document, alike: float | None, lang: str) -> Html:
    told = [number(alike, 4)] if alike is not None else []
    told += [doc.id, doc.source, f"{len(doc.text):,} {say('characters', lang)}"]
    return tag("small", join([part for part in told if part], " · "))


def _begin(text: str) -> Html:
    return join([escape(text[:BEGIN]), "" if len(text) <= BEGIN else " …"])


def _digits(text: str) -> Html:
    """A text around its first digits, those marked."""
    at = re.search(r"\d", text)
    start = max(0, (at.start() if at else 0) - BEGIN // 3)
    pieces = re.split(r"(\d+)", text[start : start + BEGIN])
    drawn = (tag("mark", piece, cls="digits") if place % 2 else piece for place, piece in enumerate(pieces))
    return join(["… " if start else "", *drawn, "" if start + BEGIN >= len(text) else " …"])
