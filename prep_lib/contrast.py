"""Two runs compared, drawn: what differs first, what is the same in a line.

verdict     they differ: 2 parameters, 17 documents …
asked       12_dedup    threshold    0.8 │ 0.7
documents   near_duplicate │ kept      17 documents   └ three of them, with value, limit and text
funnel      12_dedup near_dedup        348 ████████ │ 331 ███████   −17
shards      tokens, targets, lengths, packing
files       which bytes are the same
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from prep_lib.comparison import QUANTILES, Changed, Comparison, Lengths, Row, Shards, ends
from prep_lib.disagree import ABSENT, KEPT, Disagreement, Example, Fate
from prep_lib.files import write_whole
from prep_lib.markup import (
    Html,
    Page,
    Part,
    bar,
    card,
    document,
    escape,
    fold,
    join,
    note,
    number,
    percent,
    snippet,
    table,
    tag,
)
from prep_lib.safe import Mask
from prep_lib.words import say

#: Rows of a table at most; how many are left out is said.
ROWS = 60

#: Characters of a value.
VALUE = 200


def write(found: Comparison, lang: str = "en") -> str:
    """Write the page into the reports of the first run, and return its path; the same runs give the same bytes."""
    mask = Mask(found.one.run.root)
    target = found.one.run.folder / "reports" / f"compare-{found.other.name}.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    back = tag("p", tag("a", say("report.run", lang, name=found.one.name), href=quote("index.html")), cls="sub")
    with write_whole(target, "w") as file:
        file.write(document(title(found, lang), Html(mask(join([back, *body(found, lang)]))), lang))
    return str(target)


def view(found: Comparison | None, lang: str = "en", part: str = "") -> Page:
    """Return what a notebook cell shows of a comparison.

    Parameters
    ----------
    found : Comparison or None
        None: one line says that there is nothing to compare with.
    lang : str
    part : str
        One of `PARTS`; empty: the heading, the verdict and the numbers that matter.

    Examples
    --------
    >>> view(None)
    <There is no other run to compare with: run something twice, or name one in `other`.>
    """
    if found is None:
        said = say("compare.nothing", lang)
        return Page(snippet(tag("p", said, cls="dim"), lang), said)
    mask = Mask(found.one.run.root)
    drawn = PARTS[part](found, lang) if part else join(_head(found, lang))
    return Page(mask(snippet(drawn, lang)), verdict(found, "en"))


def title(found: Comparison, lang: str) -> str:
    """Name both runs."""
    return say("compare.title", lang, one=found.one.name, other=found.other.name)


def body(found: Comparison, lang: str) -> list[Html]:
    """Return the whole page, the parts in order."""
    return [drawn for part in parts(found, lang).values() for drawn in part]


def parts(found: Comparison, lang: str) -> dict[str, list[Html]]:
    """Return the heading, the verdict and the numbers under ``""``, then each of `PARTS` that has something to say."""
    return {"": _head(found, lang)} | {name: [drawn] for name, draw in PARTS.items() if (drawn := draw(found, lang))}


def _head(found: Comparison, lang: str) -> list[Html]:
    return [tag("h1", title(found, lang)), *(_alone(found, lang)), _verdict(found, lang), _numbers(found, lang)]


def verdict(found: Comparison, lang: str) -> str:
    """Say in one sentence how two runs differ."""
    if found.identical:
        return say("compare.identical", lang, n=len(found.outputs))
    told = [
        say(f"compare.n_{name}", lang, n=n)
        for name, n in (
            ("asked", len(found.asked)),
            ("inputs", len(found.inputs)),
            ("versions", len(found.versions)),
            ("stages", sum(not row.same for row in found.funnel)),
            ("documents", sum(sum(place.counts.values()) for place in found.documents)),
            ("files", sum(state != "same" for state in found.outputs.values())),
        )
        if n
    ]
    between = "、" if lang == "zh" else ", "
    return say("compare.differ", lang, what=between.join(told)) if told else say("compare.nothing_counted", lang)


def _verdict(found: Comparison, lang: str) -> Html:
    return note("ok" if found.identical else "warn", verdict(found, lang))


def _alone(found: Comparison, lang: str) -> Iterable[Html]:
    for side, names in zip((found.one, found.other), found.apart, strict=True):
        if names:
            yield tag("p", say("compare.only", lang, name=side.name, what=", ".join(names)), cls="sub")


def _delta(one: float | None, other: float | None, show: Callable[[float], str] = number) -> str:
    """Write a difference with its sign; what only one has, has none."""
    if one is None or other is None:
        return number(None)
    return "=" if one == other else f"{'+' if other > one else '−'}{show(abs(other - one))}"


def _sides(found: Comparison) -> tuple[str, str]:
    return found.one.name, found.other.name


def _numbers(found: Comparison, lang: str) -> Html:
    one, other = ends(found)[""]
    rows: list[list[object]] = [
        [say(f"report.{name}", lang), a, b, _delta(a, b)]
        for name, a, b in (
            ("records", one.records, other.records),
            ("kept", one.kept, other.kept),
            ("tokens", one.tokens, other.tokens),
        )
        if not (a is b is None)
    ]
    if one.efficiency is not None or other.efficiency is not None:
        pair = one.efficiency, other.efficiency
        rows.append([say("report.efficiency", lang), *map(percent, pair), _delta(*pair, _points)])
    head = ["", *_sides(found), say("compare.difference", lang)]
    return card("", table(head, [[_dash(cell) for cell in row] for row in rows])) if rows else Html()


def _points(share: float) -> str:
    return percent(share, digits=2)


def _dash(cell: object) -> object:
    return number(None) if cell is None else cell


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _same(title: str, lang: str) -> Html:
    return note("ok", tag("b", title), ": ", say("compare.same", lang))


def _changes(name: str, found: Comparison, changes: Sequence[Changed], lang: str) -> Html:
    """A table of what both say and not alike."""
    title = say(f"compare.{name}", lang)
    if not changes:
        return _same(title, lang)
    where = any(change.where for change in changes)
    head = [*([say("report.notebook", lang)] if where else []), say(f"compare.{name}_name", lang), *_sides(found)]
    rows = [
        [*([change.where] if where else []), change.name, _value(change.one), _value(change.other)]
        for change in changes
    ]
    return card(title, *_cut(head, rows, lang, words=4))


def _cut(head: Sequence[object], rows: Sequence[Sequence[object]], lang: str, words: int = 1) -> list[Html]:
    drawn = [table(head, rows[:ROWS], words=words)]
    left = len(rows) - ROWS
    return [*drawn, tag("p", say("compare.more", lang, n=left), cls="dim small")] if left > 0 else drawn


def _value(value: Any) -> Html:
    text = written(value)
    # On a phone the table scrolls, rather than that a long value stands letter under letter.
    return tag("code", text if len(text) <= VALUE else f"{text[:VALUE]}…", style=_LEAST if len(text) > 16 else None)


_LEAST, _WHOLE = "display:block;min-width:16ch", "white-space:nowrap"


def written(value: Any) -> str:
    """Write a value as a person gives it."""
    if value is None:
        return number(None)
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)) or "''"


def asked(found: Comparison, lang: str) -> Html:
    """Parameters that differ."""
    return _changes("asked", found, found.asked, lang)


def inputs(found: Comparison, lang: str) -> Html:
    """Files read that differ."""
    if not found.inputs and not found.one.inputs:
        return Html()
    return _changes("inputs", found, found.inputs, lang)


def versions(found: Comparison, lang: str) -> Html:
    """Libraries of another version."""
    return _changes("versions", found, found.versions, lang)


def documents(found: Comparison, lang: str) -> Html:
    """Documents on which they disagree, with some of each kind."""
    return join(_place(place, found, lang) for place in found.documents)


def _place(place: Disagreement, found: Comparison, lang: str) -> Html:
    name = say("compare.documents", lang, place=place.place)
    if not place.counts:
        return (
            _same(name, lang)
            if place.same_inputs
            else note("warn", tag("b", name), ": ", say("compare.no_match", lang))
        )
    one, other = _sides(found)
    said = [
        say("compare.documents_n", lang, n=sum(place.counts.values())),
        say("compare.lost_in_other", lang, n=place.total("kept"), one=one, other=other),
        say("compare.lost_in_one", lang, n=place.total(None, "kept"), one=one, other=other),
        say("compare.lost_otherwise", lang, n=place.total()),
    ]
    absent = sum(n for pair, n in place.counts.items() if ABSENT in pair)
    said += [say("compare.absent_n", lang, n=absent)] if absent else []
    head = [*_sides(found), say("documents", lang)]
    pairs = [[_fate(fate, lang) for fate in pair] + [n] for pair, n in place.counts.items()]
    shown = [(pair, example) for pair, examples in place.examples.items() for example in examples]
    drawn = [_example(example, pair, found, lang) for pair, example in shown[:ROWS]]
    examples = fold(say("compare.examples", lang, n=len(drawn)), *drawn) if drawn else Html()
    return card(name, tag("p", " ".join(said)), *_cut(head, pairs, lang, words=2), examples)


def _fate(fate: Fate, lang: str) -> Html:
    if fate == KEPT:
        return tag("span", "✓ ", say("kept", lang))
    if fate == ABSENT:
        return tag("span", "· ", say("compare.absent", lang))
    return tag(
        "span", tag("span", f"✗ {fate.reason}", style=_LEAST), tag("span", f"{fate.folder} {fate.stage}", cls="below")
    )


def _example(example: Example, pair: tuple[Fate, Fate], found: Comparison, lang: str) -> Html:
    told = [
        tag("li", tag("b", name), ": ", _measured(fate, line, lang))
        for name, fate, line in zip(_sides(found), pair, (example.one, example.other), strict=True)
    ]
    text = next((line["text"] for line in (example.one, example.other) if line and line.get("text")), "")
    quoted = tag("div", escape(text, breaks=True), cls="turn") if text else Html()
    return tag("div", tag("b", example.id), tag("ul", *told, cls="plain"), quoted, cls="stage small")


def _measured(fate: Fate, line: Mapping[str, Any] | None, lang: str) -> Html:
    if line is None:
        return _fate(fate, lang)
    said = [fate.reason]
    if line.get("value") is not None:
        said.append(say("compare.measured", lang, value=measured(line["value"]), limit=measured(line.get("limit"))))
    if line.get("twin"):
        said.append(say("compare.twin", lang, twin=line["twin"]))
    if line.get("detail"):
        said.append(str(line["detail"])[:VALUE])
    return escape(" · ".join(said))


def measured(value: Any) -> str:
    """Write a value that was measured, or its limit."""
    return f"{value:,.4g}" if isinstance(value, float) else number(value) if isinstance(value, int) else str(value)


def funnel(found: Comparison, lang: str) -> Html:
    """The funnel of both, stage by stage, and the reasons whose counts differ."""
    if not found.funnel:
        return Html()
    name = say("compare.funnel", lang)
    if all(row.same for row in found.funnel):
        return _same(name, lang)
    widest = max(side["in"] for row in found.funnel for side in (row.one, row.other) if side)
    head = [
        say("report.notebook", lang),
        say("report.stage", lang),
        *(f"{side}: {say('kept', lang)}" for side in _sides(found)),
        say("compare.difference", lang),
        "",
    ]
    rows = [_stage(row, widest, found) for row in found.funnel]
    whys = [
        [row.notebook, row.stage, say(flow, lang), tag("span", reason, style=_LEAST), *pair, _delta(*pair)]
        for row in found.funnel
        if row.one and row.other
        for (flow, reason), pair in row.reasons.items()
    ]
    titles = [say(key, lang) for key in ("report.notebook", "report.stage", "flow", "reason")]
    why = fold(
        say("compare.reasons", lang, n=len(whys)),
        *_cut([*titles, *_sides(found), say("compare.difference", lang)], whys, lang, words=4),
        opened=len(whys) <= 12,
    )
    return card(name, *_cut(head, rows, lang, words=2), why if whys else Html())


def _stage(row: Row, widest: int, found: Comparison) -> list[object]:
    kept = [None if side is None else side["kept"] for side in (row.one, row.other)]
    bars = join(
        bar([Part("kept" if at == 0 else "d4", n, f"{name}: {n:,}")], widest, f"{row.stage}, {name}: {n:,}")
        for at, (name, n) in enumerate(zip(_sides(found), kept, strict=True))
        if n is not None
    )
    mark = "" if row.same else "≠ "
    drawn = tag("div", bars, style="min-width:9em")
    delta = _delta(kept[0], kept[1])
    return [row.notebook, tag("span", mark + row.stage, style=_WHOLE), *map(_dash, kept), delta, drawn]


def shares(found: Comparison, lang: str) -> Html:
    """What each source holds where each way ends."""
    return join(_share(name, told, found, lang) for name, told in found.shares.items())


def _share(notebook: str, told: Mapping[str, tuple[int, int]], found: Comparison, lang: str) -> Html:
    name = say("compare.shares", lang, name=notebook)
    if all(a == b for a, b in told.values()):
        return _same(name, lang)
    wholes = [sum(pair[side] for pair in told.values()) for side in (0, 1)]
    rows = [
        [source, a, b, _delta(a, b), percent(a, wholes[0]), percent(b, wholes[1]),
         _delta(a / max(1, wholes[0]), b / max(1, wholes[1]), _points)]
        for source, (a, b) in sorted(told.items(), key=lambda item: (-abs(item[1][1] - item[1][0]), item[0]))
    ]  # fmt: skip
    one, other = _sides(found)
    head = [
        say("source", lang),
        one,
        other,
        say("compare.difference", lang),
        *(f"{side}: {say('share', lang)}" for side in (one, other)),
        say("compare.difference", lang),
    ]
    return card(name, *_cut(head, rows, lang))


def shards(found: Comparison, lang: str) -> Html:
    """Tokens, targets, lengths and packing of folders of shards both have."""
    return join(_folder(each, found, lang) for each in found.shards)


def _folder(each: Shards, found: Comparison, lang: str) -> Html:
    name = say("compare.shards", lang, name=each.name)
    if each.same and not each.settings:
        return _same(name, lang)
    head = ["", *_sides(found), say("compare.difference", lang)]
    parts = [table(head, _totals(each, lang))]
    if each.settings:
        rows = [[one.name, _value(one.one), _value(one.other)] for one in each.settings]
        parts.append(
            fold(
                say("compare.settings", lang, n=len(rows)),
                *_cut([say("compare.asked_name", lang), *_sides(found)], rows, lang, words=3),
            )
        )
    if all(each.lengths):
        parts.append(_lengths(each.lengths[0], each.lengths[1], found, lang))  # type: ignore[arg-type]
    return card(name, *parts, _masks(each, lang))


def _held(told: Mapping[str, Any]) -> dict[str, tuple[float | int | None, Callable[[Any], str]]]:
    """Return what a manifest counts: key of the word -> number, and how it is written."""
    totals, packing = told["totals"], told.get("packing")
    packing = packing if isinstance(packing, Mapping) else {}
    written, trained = totals.get("written"), totals.get("trained")
    return {
        "documents": (totals.get("documents"), number),
        "report.tokens": (written, number),
        "trained": (trained, number),
        "compare.trained_share": (trained / written if trained and written else None, percent),
        "padding": (totals.get("padding"), number),
        "cut": (totals.get("cut"), number),
        "compare.packs": (packing.get("packs"), number),
        "compare.cut_documents": (packing.get("cut_documents"), number),
        "report.efficiency": (packing.get("efficiency"), percent),
    }


def totals(told: Mapping[str, Any], lang: str) -> list[list[object]]:
    """Return what a manifest counts, as rows of a table."""
    return [[say(key, lang), show(value)] for key, (value, show) in _held(told).items() if value is not None]


def _totals(each: Shards, lang: str) -> list[list[object]]:
    rows: list[list[object]] = []
    other = _held(each.other)
    for key, (value, show) in _held(each.one).items():
        pair = value, other[key][0]
        if any(pair):
            points = _points if show is percent else number
            rows.append([say(key, lang), *map(show, pair), _delta(pair[0], pair[1], points)])
    return rows


def _lengths(one: Lengths, other: Lengths, found: Comparison, lang: str) -> Html:
    """The lengths of documents as quantiles, and as shares by powers of two."""
    name = say("compare.lengths", lang)
    if one == other:
        return _same(name, lang)
    rows: list[list[object]] = [[say("compare.mean", lang), one.mean, other.mean, _delta(one.mean, other.mean)]]
    rows += [
        [_quantile(share, lang), a, b, _delta(a, b)]
        for share, a, b in zip(QUANTILES, one.quantiles, other.quantiles, strict=True)
    ]
    drawn = table(["", *_sides(found), say("compare.difference", lang)], rows, caption=name)
    bins = [
        [
            _bin(at),
            *(percent(part, side.documents) for part, side in zip(pair, (one, other), strict=True)),
            _bars(pair, one, other, found),
        ]
        for at, pair in enumerate(_padded(one.bins, other.bins))
        if any(pair)
    ]
    return join(
        [drawn, fold(say("compare.bins", lang), table([say("compare.length", lang), *_sides(found), ""], bins))]
    )


def spread(one: Lengths, lang: str) -> Html:
    """Return the lengths of the documents of one folder."""
    rows: list[list[object]] = [[say("compare.mean", lang), one.mean]]
    rows += [[_quantile(share, lang), a] for share, a in zip(QUANTILES, one.quantiles, strict=True)]
    bins = [
        [_bin(at), part, bar([Part("kept", n, _bin(at))], max(one.bins), part)]
        for at, n in enumerate(one.bins)
        for part in [percent(n, one.documents)]
        if n
    ]
    drawn = table(["", say("compare.length", lang)], rows, caption=say("compare.lengths", lang))
    shares = table([say("compare.length", lang), say("share", lang), ""], bins)
    return join([drawn, fold(say("compare.bins", lang), shares)])


def _padded(one: Sequence[int], other: Sequence[int]) -> list[tuple[int, int]]:
    size = max(len(one), len(other))
    return list(zip(*([*bins, *[0] * (size - len(bins))] for bins in (one, other)), strict=True))


def _bin(at: int) -> str:
    return f"{2**at:,}–{2 ** (at + 1) - 1:,}" if at else "1"


def _bars(pair: tuple[int, int], one: Lengths, other: Lengths, found: Comparison) -> Html:
    drawn = [
        bar([Part(kind, part, name)], side.documents, f"{name}: {percent(part, side.documents)}")
        for kind, part, side, name in zip(("kept", "d4"), pair, (one, other), _sides(found), strict=True)
    ]
    return tag("div", *drawn, style="min-width:9em")


def _quantile(share: float, lang: str) -> str:
    if share in (0.0, 1.0):
        return say("compare.shortest" if not share else "compare.longest", lang)
    return say("compare.quantile", lang, share=percent(share, digits=0))


def _masks(each: Shards, lang: str) -> Html:
    """Who trains which tokens, where both hold the same documents."""
    if each.why:
        return note("warn", say(each.why, lang))
    if each.masks is None:
        return Html()
    total = each.masks.total
    names = ("both", "trained_one", "trained_other", "neither", "rest_one", "rest_other")
    rows = [[say(f"difference.{name}", lang), getattr(total, name)] for name in names if getattr(total, name)]
    kinds = ("equal", "other_mask", "other_weight", "shorter", "other_ids", "torn", "only_one", "only_other")
    whole = [[say(f"difference.{name}", lang), getattr(total, name)] for name in kinds if getattr(total, name)]
    return join(
        [
            table([say("difference.tokens", lang), ""], rows),
            table([say("difference.documents", lang), ""], whole),
        ]
    )


def files(found: Comparison, lang: str) -> Html:
    """Which files of both are the same, byte by byte."""
    states = list(found.outputs.values())
    if not states:
        return Html()
    name = say("compare.files", lang)
    if found.identical:
        return _same(name, lang)
    said = ", ".join(
        say(f"compare.files_{state}", lang, n=states.count(state), one=found.one.name, other=found.other.name)
        for state in ("same", "differs", "only_one", "only_other")
        if state in states
    )
    rows = [[file, say(f"compare.{state}", lang)] for file, state in found.outputs.items() if state != "same"]
    head = [say("report.file", lang), say("report.state", lang)]
    return card(
        name, tag("p", said), fold(say("compare.files_list", lang, n=len(rows)), *_cut(head, rows, lang, words=2))
    )


#: The parts of a page, in order.
PARTS: dict[str, Callable[[Comparison, str], Html]] = {
    "asked": asked,
    "inputs": inputs,
    "versions": versions,
    "documents": documents,
    "funnel": funnel,
    "shares": shares,
    "shards": shards,
    "files": files,
}
