"""Shards side by side: how many tokens each holds and from which sources, before and after; and the audit of an order.

before   a.jsonl          ██████████████████████   web        900,000
         b.jsonl          ▓▓▓                      code        80,000
after    shard-00000.bin  ██████████▓              web code    65,536
         shard-00001.bin  ██████████▓              web code    65,536

✓ passed   dispersion   1.02   ideal 1   within 0.85 to 1.15   …
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from prep_lib.errors import BadParameter
from prep_lib.markup import Html, Page, Part, bar, card, join, note, number, percent, snippet, table, tag
from prep_lib.words import say
from widgets.shards.state import Held, evenness, names_of

if TYPE_CHECKING:
    from prep_lib.shuffle.audit import Check

#: Sources with a colour of their own, `d0` to `d5` of the stylesheet; the others share one pattern.
COLOURS = 6

#: Files drawn one by one; of more, a histogram is drawn, and so many spread over all.
MOST, SOME = 24, 12

#: Bars of a histogram.
BINS = 12

#: Share of the width from which a part has room for its name.
ROOM = 0.09

#: Sources in a table.
ROWS = 40


def view(
    after: Sequence[Held], before: Sequence[Held] | None = None, *, unit: str = "tokens", lang: str = "en"
) -> Page:
    """Show how even some files are, and what they were before.

    Parameters
    ----------
    after : sequence of Held
        As `widgets.shards.state` counts them.
    before : sequence of Held or None
        None: nothing to compare with.
    unit : "tokens" or "rows"
    lang : str

    Raises
    ------
    BadParameter
        For another unit.

    Examples
    --------
    >>> view([Held("a", 3, {}), Held("b", 4, {})])
    <2 files, 3 to 4 tokens each>
    """
    if unit not in ("tokens", "rows"):
        raise BadParameter(f"widgets/shards: unit must be tokens or rows, got {unit!r}")
    names = names_of([*after, *(before or ())])
    sides = [("before", before)] if before is not None else []
    sides += [("after" if before is not None else "now", after)]
    cards = [_side(title, files or [], names, unit, lang) for title, files in sides]
    head = tag("h1", say("shards.title", lang))
    said = say("shards.nothing", lang) if not after else _said(after, unit, lang)
    return Page(
        snippet(join([head, tag("p", said, cls="sub"), *cards, _sources(after, before, names, unit, lang)]), lang), said
    )


def _said(files: Sequence[Held], unit: str, lang: str) -> str:
    told = evenness(files)
    if told.smallest == told.largest:
        return say("shards.sum_even", lang, n=len(files), size=told.largest, unit=say(f"shards.{unit}", lang))
    return say("shards.sum", lang, n=len(files), low=told.smallest, high=told.largest, unit=say(f"shards.{unit}", lang))


def _side(title: str, files: Sequence[Held], names: Sequence[str], unit: str, lang: str) -> Html:
    head = say(f"shards.{title}", lang, n=len(files))
    if not files:
        return card(head, tag("p", say("shards.nothing", lang), cls="dim"))
    told = evenness(files)
    sizes = say(
        "shards.sizes", lang, unit=say(f"shards.{unit}", lang), low=told.smallest, middle=round(told.middle),
        high=told.largest, ratio=number(told.ratio, 2),
    )  # fmt: skip
    drawn = files if len(files) <= MOST else [files[at] for at in np.linspace(0, len(files) - 1, SOME).astype(int)]
    strips = join(_strip(held, told.largest, names, unit, lang) for held in drawn)
    parts = [tag("p", sizes, cls="dim small"), _legend(names, lang)]
    if len(drawn) < len(files):
        some = tag("p", say("shards.some", lang, n=len(drawn), of=len(files)), cls="dim small")
        parts = [tag("p", sizes, cls="dim small"), _histogram(files, unit, lang), some, _legend(names, lang)]
    return card(head, *parts, strips)


def _kind(at: int) -> str:
    return f"d{at}" if at < COLOURS else "d-more"


def _legend(names: Sequence[str], lang: str) -> Html:
    shown = [(_kind(at), name) for at, name in enumerate(names[:COLOURS])]
    if rest := len(names) - COLOURS:
        shown += [("d-more", say("shards.others", lang, n=rest))] if rest > 0 else []
    return tag("div", *(tag("span", tag("span", cls=f"box {kind}"), name) for kind, name in shown), cls="legend")


def _strip(held: Held, whole: int, names: Sequence[str], unit: str, lang: str) -> Html:
    """One file: a bar as long as it is large, a part a source."""
    word, size = say(f"shards.{unit}", lang), number(held.size)
    shares = [(name, held.sources[name]) for name in names if name in held.sources]
    told = [f"{name} {percent(n, held.size)}" for name, n in shares]
    colours = {name: _kind(at) for at, name in enumerate(names)}
    own = [Part(colours[name], n, f"{name} {n:,}", name if n >= ROOM * whole else "") for name, n in shares]
    parts = [part for part in own if part.kind != "d-more"]
    if rest := [part for part in own if part.kind == "d-more"]:
        parts.append(Part("d-more", sum(part.size for part in rest), ", ".join(part.text for part in rest[:ROWS])))
    parts = parts or [Part("kept", held.size, f"{size} {word}")]
    label = f"{held.name}: {size} {word}" + (f"; {', '.join(told[:ROWS])}" if told else "")
    name = tag("span", held.name, cls="dim", title=held.name)
    return tag("div", name, bar(parts, whole, label), tag("span", size), cls="strip file")


def _histogram(files: Sequence[Held], unit: str, lang: str) -> Html:
    """How many files have which size."""
    sizes = np.array([held.size for held in files])
    width = max(1, -(-int(sizes.max() - sizes.min() + 1) // BINS))
    counts = np.bincount((sizes - sizes.min()) // width)
    rows = []
    for at, n in enumerate(counts.tolist()):
        low = int(sizes.min()) + at * width
        span = f"{low:,}–{low + width - 1:,}" if width > 1 else f"{low:,}"
        label = say("shards.bin", lang, span=span, unit=say(f"shards.{unit}", lang), n=n)
        drawn = bar([Part("kept", n, label)], int(counts.max()), label)
        rows.append(tag("div", tag("span", span, cls="dim"), drawn, tag("span", number(n)), cls="strip file"))
    return join([tag("p", say("shards.histogram", lang), cls="dim small"), *rows])


def _sources(after: Sequence[Held], before: Sequence[Held] | None, names: Sequence[str], unit: str, lang: str) -> Html:
    """A row a source: how much, and between which shares it lies in the files."""
    if not names or not after:
        return Html()
    total = sum(held.size for held in after)
    head = [say("source", lang), say(f"shards.{unit}", lang), say("share", lang)]
    head += [say("shards.range_before", lang)] if before else []
    head += [say("shards.range_after" if before else "shards.range", lang)]
    rows = []
    for name in names[:ROWS]:
        mine = sum(held.sources.get(name, 0) for held in after)
        spans = [_span(files, name) for files in (before, after) if files]
        rows.append([name, mine, percent(mine, total), *spans])
    rest = (
        [tag("p", say("shards.more_sources", lang, n=len(names) - ROWS), cls="dim small")] if len(names) > ROWS else []
    )
    return card(say("shards.sources", lang), table(head, rows), *rest)


def _span(files: Sequence[Held], name: str) -> str:
    shares = [held.sources.get(name, 0) / held.size for held in files if held.size]
    return f"{percent(min(shares))} – {percent(max(shares))}" if shares else "–"


# ---------------------------------------------------------------------------------------------------------------------
# The audit
# ---------------------------------------------------------------------------------------------------------------------


def audit(checks: Iterable[Check], lang: str = "en") -> Page:
    """Show the checks of an order, failed ones first: is it one to train on?

    Parameters
    ----------
    checks : iterable of Check
        As `prep_lib.shuffle.audit` makes them.
    lang : str
    """
    told = sorted(checks, key=lambda check: check.passed)
    failed = sum(not check.passed for check in told)
    said = say("shards.audit_failed" if failed else "shards.audit_passed", lang, n=len(told), failed=failed)
    if not told:
        said = say("shards.audit_none", lang)
    head = [say(f"shards.audit_{name}", lang) for name in ("verdict", "check", "value", "ideal", "limit")]
    rows = [_check(check, lang) for check in told]
    kind = "bad" if failed else "ok" if told else "warn"
    grid = table(head, rows, words=2) if rows else ""
    return Page(snippet(card(say("shards.audit", lang), note(kind, said), grid), lang), said)


def _check(check: Check, lang: str) -> list[object]:
    verdict = tag("b", say("shards.passed" if check.passed else "shards.failed", lang))
    name = join([tag("code", check.name), tag("span", check.what, cls="below")])
    # Which side of the limit passes.
    limit = f"{'≤' if check.limit >= check.ideal else '≥'} {_value(check.limit)}"
    return [verdict, name, _value(check.value), _value(check.ideal), limit]


def _value(value: float) -> str:
    """A measure as a person reads it: four digits."""
    return f"{value:,.4g}"
