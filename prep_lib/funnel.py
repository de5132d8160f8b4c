"""The funnel drawn: a bar a stage, why documents went, how each source fared, and where each token is.

judge    ███████████████▨▨▨▒   in 100 · kept 80 · dropped 15 · failed 5 · characters 9,000 → 7,600
         ├ why 20 went: reason, source, documents, characters
         └ by source

content 90 + control 8 + EOS 3  =  101  =  written 96 + cut 0 + dropped 3 + remainder 2
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prep_lib.ledger import FLOWS, Ledger
from prep_lib.markup import Html, Part, bar, fold, join, number, percent, table, tag
from prep_lib.words import say

#: The two sides of the token balance, and the word for each flow.
SOURCES = {"content": "ledger.content", "control": "ledger.control", "eos": "ledger.eos"}
TARGETS = {"written": "ledger.written", "cut": "cut", "dropped": "dropped", "remainder": "ledger.rest"}

#: What may become of a document that came in.
ENDS = ("kept", "dropped", "failed")

#: Up to so many reasons a list stands open.
OPEN = 4

#: Rows of a table at most, the largest first: a folder of pages may have as many sources as pages.
ROWS = 50

#: How each side of the equation is drawn.
_KINDS = {"written": "kept", "cut": "failed", "dropped": "dropped", "remainder": "hatch"}


def counted(ledger: Ledger, unit: str = "documents") -> list[str]:
    """Return the stages that counted something in `unit`, in order."""
    seen = {at[0] for at in getattr(ledger, unit)}
    return [stage for stage in ledger.stages if stage in seen]


def sums(ledger: Ledger, name: str, unit: str = "documents") -> dict[str, int]:
    """Return the count of each flow of a stage, in one pass: there may be a million sources."""
    found = dict.fromkeys(FLOWS, 0)
    for (stage, flow, _, _), n in getattr(ledger, unit).items():
        if stage == name:
            found[flow] = found.get(flow, 0) + n
    return found


def entered(ledger: Ledger, name: str) -> int:
    """Return how many documents a stage had to decide about: those that came in, and their copies and parts."""
    found = sums(ledger, name)
    return found["in"] + found["repeated"] + found["expanded"]


def legend(lang: str) -> Html:
    """Return what the parts of a bar mean."""
    marks = join(tag("span", tag("span", cls=f"box {flow}"), say(flow, lang)) for flow in ENDS)
    return tag("div", marks, cls="legend")


def stage(ledger: Ledger, name: str, widest: int, lang: str) -> Html:
    """Draw one stage.

    Parameters
    ----------
    ledger : Ledger
    name : str
    widest : int, documents
        What fills the whole width of the bar.
    lang : str
    """
    n, characters = sums(ledger, name), sums(ledger, name, "characters")
    said = say("ledger.row", lang, into=n["in"], kept=n["kept"], dropped=n["dropped"], failed=n["failed"])
    for flow in ("repeated", "expanded"):
        if n[flow]:
            said += " · " + say(f"ledger.{flow}", lang, n=n[flow])
    if characters["in"] or characters["kept"]:
        said += " · " + say("ledger.characters", lang, into=characters["in"], kept=characters["kept"])
    parts = [Part(flow, n[flow], f"{say(flow, lang)} {n[flow]:,}") for flow in ENDS]
    head = tag("div", tag("b", name), tag("span", said, cls="dim"), cls="say")
    drawn = bar(parts, widest, f"{name}: {said}")
    return tag("div", head, drawn, reasons(ledger, name, lang), sources(ledger, name, lang), cls="stage")


def reasons(ledger: Ledger, name: str, lang: str) -> Html:
    """Say who went, why and from where, the commonest first; nothing where nobody went."""
    lost = [
        (n, ledger.characters[at], *at[1:])
        for at, n in ledger.documents.items()
        if at[0] == name and at[1] in ("dropped", "failed") and n
    ]
    if not lost:
        return Html()
    head = [say(word, lang) for word in ("flow", "reason", "source", "documents", "share", "characters")]
    whole = entered(ledger, name)
    rows = [
        (say(flow, lang), reason, source, n, percent(n, whole), characters)
        for n, characters, flow, source, reason in sorted(lost, key=lambda row: (-row[0], row[2:]))
    ]
    title = say("ledger.why", lang, n=sum(row[0] for row in lost))
    return fold(title, table(head, rows[:ROWS], words=3), more(rows, lang), opened=len(rows) <= OPEN)


def more(rows: Sequence[object], lang: str) -> Html:
    """Say how many rows of a long list are not shown."""
    return tag("p", say("ledger.more", lang, n=len(rows) - ROWS), cls="dim small") if len(rows) > ROWS else Html()


def fared(ledger: Ledger, name: str) -> dict[str, dict[str, int]]:
    """Return how each source fared in a stage, the largest first: documents by flow, and characters that were kept."""
    counts: dict[str, dict[str, int]] = {}
    for (at, flow, source, _), n in ledger.documents.items():
        if at == name:
            found = counts.setdefault(source, dict.fromkeys(("in", *ENDS, "characters"), 0))
            found[flow] = found.get(flow, 0) + n
    for (at, flow, source, _), n in ledger.characters.items():
        if (at, flow) == (name, "kept"):
            counts[source]["characters"] += n
    return dict(sorted(counts.items(), key=lambda item: (-item[1]["in"], item[0])))


def sources(ledger: Ledger, name: str, lang: str) -> Html:
    """Say how each source fared, if there are several."""
    counts = fared(ledger, name)
    if len(counts) < 2:
        return Html()
    rows = [
        (source, *(n[flow] for flow in ("in", *ENDS)), percent(n["kept"], n["in"]), n["characters"])
        for source, n in counts.items()
    ]
    head = [say(word, lang) for word in ("source", "in", *ENDS, "share", "ledger.kept_characters")]
    return fold(say("ledger.sources", lang), table(head, rows[:ROWS]), more(rows, lang))


def balances(ledger: Ledger, lang: str) -> Html:
    """Spell out the token equation of each stage that counts tokens, and what stands apart from it."""
    return join(_balance(ledger, name, lang) for name in counted(ledger, "tokens"))


def _balance(ledger: Ledger, name: str, lang: str) -> Html:
    def n(flow: str) -> int:
        return ledger.total(name, flow, unit="tokens")

    made, went = sum(n(flow) for flow in SOURCES), sum(n(flow) for flow in TARGETS)
    apart = say(
        "ledger.apart", lang, padding=n("padding"), padding_share=percent(n("padding"), n("padding") + n("written")),
        trained=n("trained"), trained_share=percent(n("trained"), n("written")),
    )  # fmt: skip
    drawn = bar(
        [Part(kind, n(flow), f"{say(TARGETS[flow], lang)} {n(flow):,}") for flow, kind in _KINDS.items()],
        max(made, went), f"{name}: {say('ledger.written', lang)} {n('written'):,} / {made:,}",
    )  # fmt: skip
    left = _terms((say(word, lang), n(flow)) for flow, word in SOURCES.items())
    right = _terms((say(word, lang), n(flow)) for flow, word in TARGETS.items())
    equal = Html(" = ") if made == went else Html(" ≠ ")
    equation = join([left, Html(" = "), _terms([("", made)]), equal, right])
    return tag(
        "div",
        tag("div", tag("b", name), cls="say"), drawn, tag("p", equation, cls="sum"), tag("p", apart, cls="dim small"),
        cls="stage",
    )  # fmt: skip


def _terms(terms: Iterable[tuple[str, int]]) -> Html:
    return join(
        (tag("span", tag("b", number(n)), tag("small", word or Html("&nbsp;")), cls="term") for word, n in terms), " + "
    )
