"""The funnel: a bar a stage, why documents went, and the token equation with its numbers.

judge    ███████████████▨▨▨▒   in 100 · kept 80 · dropped 15 · failed 5 · characters 9,000 → 7,600
         ├ why 20 went: reason, source, documents, characters
         └ by source

content 90 + control 8 + EOS 3  =  101  =  written 96 + cut 0 + dropped 3 + remainder 2
"""

from __future__ import annotations

from collections.abc import Sequence

from prep_lib.errors import Unbalanced
from prep_lib.ledger import Ledger
from prep_lib.markup import Html, Page, Part, bar, card, fold, join, note, number, percent, snippet, table, tag
from prep_lib.words import say

#: The two sides of the token balance, and the word for each flow.
SOURCES = {"content": "ledger.content", "control": "ledger.control", "eos": "ledger.eos"}
TARGETS = {"written": "ledger.written", "cut": "cut", "dropped": "dropped", "remainder": "ledger.rest"}

#: Up to so many reasons a list stands open.
OPEN = 4

#: Rows of a table at most, the largest first: a folder of pages may have as many sources as pages.
ROWS = 50


def view(ledger: Ledger, lang: str = "en") -> Page:
    """Return what a notebook cell shows of a ledger.

    Examples
    --------
    >>> ledger = Ledger()
    >>> ledger.add("read", "in", "web")
    >>> ledger.add("read", "kept", "web")
    >>> view(ledger)
    <ledger: 1 documents in, 1 kept (100.0 %)>
    """
    return Page(page(ledger, lang), f"ledger: {_sum(ledger, 'en')}")


def page(ledger: Ledger, lang: str = "en") -> str:
    """Return the whole funnel as HTML.

    Parameters
    ----------
    ledger : Ledger
        One that does not balance is drawn too, with a line that says where it does not.
    lang : str
    """
    head = join([tag("h1", say("ledger.title", lang)), tag("p", _sum(ledger, lang), cls="sub")])
    if not ledger.stages:
        return snippet(join([head, tag("p", say("ledger.empty", lang))]), lang)
    return snippet(join([head, _verdict(ledger, lang), _funnel(ledger, lang), _tokens(ledger, lang)]), lang)


def _counted(ledger: Ledger, unit: str) -> list[str]:
    """The stages that counted something in `unit`, in order."""
    seen = {at[0] for at in getattr(ledger, unit)}
    return [stage for stage in ledger.stages if stage in seen]


def _sum(ledger: Ledger, lang: str) -> str:
    stages = _counted(ledger, "documents")
    into = ledger.total(stages[0], "in") if stages else 0
    kept = ledger.total(stages[-1], "kept") if stages else 0
    return say("ledger.sum", lang, into=into, kept=kept, share=percent(kept, into))


def _verdict(ledger: Ledger, lang: str) -> Html:
    try:
        ledger.check()
    except Unbalanced as error:
        return note("bad", str(error))
    return note("ok", say("ledger.balanced", lang))


def _funnel(ledger: Ledger, lang: str) -> Html:
    stages = _counted(ledger, "documents")
    widest = max((_into(ledger, stage) for stage in stages), default=0)
    rows = join(_stage(ledger, stage, widest, lang) for stage in stages)
    legend = join(
        tag("span", tag("span", cls=f"box {flow}"), say(flow, lang)) for flow in ("kept", "dropped", "failed")
    )
    return card(say("ledger.documents", lang), tag("div", legend, cls="legend"), rows) if stages else Html()


def _into(ledger: Ledger, stage: str) -> int:
    return sum(ledger.total(stage, flow) for flow in ("in", "repeated", "expanded"))


def _stage(ledger: Ledger, stage: str, widest: int, lang: str) -> Html:
    kept, dropped, failed = (ledger.total(stage, flow) for flow in ("kept", "dropped", "failed"))
    said = say("ledger.row", lang, into=ledger.total(stage, "in"), kept=kept, dropped=dropped, failed=failed)
    for flow in ("repeated", "expanded"):
        if extra := ledger.total(stage, flow):
            said += " · " + say(f"ledger.{flow}", lang, n=extra)
    into, out = (ledger.total(stage, flow, unit="characters") for flow in ("in", "kept"))
    if into or out:
        said += " · " + say("ledger.characters", lang, into=into, kept=out)
    parts = [
        Part(flow, n, f"{say(flow, lang)} {n:,}")
        for flow, n in (("kept", kept), ("dropped", dropped), ("failed", failed))
    ]
    head = tag("div", tag("b", stage), tag("span", said, cls="dim"), cls="say")
    drawn = bar(parts, widest, f"{stage}: {said}")
    return tag("div", head, drawn, _reasons(ledger, stage, lang), _sources(ledger, stage, lang), cls="stage")


def _reasons(ledger: Ledger, stage: str, lang: str) -> Html:
    """Who went, why and from where, the commonest first."""
    lost = [
        (n, ledger.characters[at], *at[1:])
        for at, n in ledger.documents.items()
        if at[0] == stage and at[1] in ("dropped", "failed") and n
    ]
    if not lost:
        return Html()
    head = [say(word, lang) for word in ("flow", "reason", "source", "documents", "share", "characters")]
    whole = _into(ledger, stage)
    rows = [
        (say(flow, lang), reason, source, n, percent(n, whole), characters)
        for n, characters, flow, source, reason in sorted(lost, key=lambda row: (-row[0], row[2:]))
    ]
    title = say("ledger.why", lang, n=sum(row[0] for row in lost))
    return fold(title, table(head, rows[:ROWS], words=3), _more(rows, lang), opened=len(rows) <= OPEN)


def _more(rows: Sequence[object], lang: str) -> Html:
    return tag("p", say("ledger.more", lang, n=len(rows) - ROWS), cls="dim small") if len(rows) > ROWS else Html()


def _sources(ledger: Ledger, stage: str, lang: str) -> Html:
    """How each source fared, if there are several."""
    counts: dict[str, dict[str, int]] = {}
    for (at, flow, source, _), n in ledger.documents.items():
        if at == stage:
            found = counts.setdefault(source, dict.fromkeys((*_FLOWS, "characters"), 0))
            found[flow] = found.get(flow, 0) + n
    if len(counts) < 2:
        return Html()
    for (at, flow, source, _), n in ledger.characters.items():
        if (at, flow) == (stage, "kept"):
            counts[source]["characters"] += n
    rows = [
        (source, *(n[flow] for flow in _FLOWS), percent(n["kept"], n["in"]), n["characters"])
        for source, n in sorted(counts.items(), key=lambda item: (-item[1]["in"], item[0]))
    ]
    head = [say(word, lang) for word in ("source", *_FLOWS, "share", "ledger.kept_characters")]
    return fold(say("ledger.sources", lang), table(head, rows[:ROWS]), _more(rows, lang))


_FLOWS = ("in", "kept", "dropped", "failed")


def _tokens(ledger: Ledger, lang: str) -> Html:
    stages = _counted(ledger, "tokens")
    blocks = join(_balance(ledger, stage, lang) for stage in stages)
    return card(say("ledger.tokens", lang), blocks) if stages else Html()


def _balance(ledger: Ledger, stage: str, lang: str) -> Html:
    """One stage's equation, spelled out, and what stands apart from it."""

    def n(flow: str) -> int:
        return ledger.total(stage, flow, unit="tokens")

    made, went = sum(n(flow) for flow in SOURCES), sum(n(flow) for flow in TARGETS)
    left = [_term(say(word, lang), n(flow)) for flow, word in SOURCES.items()]
    right = [_term(say(word, lang), n(flow)) for flow, word in TARGETS.items()]
    equal = Html(" = ") if made == went else Html(" ≠ ")
    plus = Html(" + ")
    equation = join([join(left, plus), Html(" = "), _term("", made), equal, join(right, plus)])
    apart = say(
        "ledger.apart", lang, padding=n("padding"), padding_share=percent(n("padding"), n("padding") + n("written")),
        trained=n("trained"), trained_share=percent(n("trained"), n("written")),
    )  # fmt: skip
    drawn = bar(
        [Part(kind, n(flow), f"{say(TARGETS[flow], lang)} {n(flow):,}") for flow, kind in _KINDS.items()],
        max(made, went), f"{stage}: {say('ledger.written', lang)} {n('written'):,} / {made:,}",
    )  # fmt: skip
    return tag(
        "div",
        tag("div", tag("b", stage), cls="say"), drawn, tag("p", equation, cls="sum"), tag("p", apart, cls="dim small"),
        cls="stage",
    )  # fmt: skip


#: How each side of the equation is drawn.
_KINDS = {"written": "kept", "cut": "failed", "dropped": "dropped", "remainder": "hatch"}


def _term(word: str, count: int) -> Html:
    return tag("span", tag("b", number(count)), tag("small", word or Html("&nbsp;")), cls="term")
