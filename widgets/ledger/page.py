"""The funnel: a bar a stage, why documents went, and the token equation with its numbers."""

from __future__ import annotations

from prep_lib import funnel
from prep_lib.errors import Unbalanced
from prep_lib.ledger import Ledger
from prep_lib.markup import Html, Page, card, join, note, percent, snippet, tag
from prep_lib.words import say


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
    return snippet(join([head, _verdict(ledger, lang), _documents(ledger, lang), _tokens(ledger, lang)]), lang)


def _sum(ledger: Ledger, lang: str) -> str:
    stages = funnel.counted(ledger)
    into = ledger.total(stages[0], "in") if stages else 0
    kept = ledger.total(stages[-1], "kept") if stages else 0
    return say("ledger.sum", lang, into=into, kept=kept, share=percent(kept, into))


def _verdict(ledger: Ledger, lang: str) -> Html:
    try:
        ledger.check()
    except Unbalanced as error:
        return note("bad", str(error))
    return note("ok", say("ledger.balanced", lang))


def _documents(ledger: Ledger, lang: str) -> Html:
    stages = funnel.counted(ledger)
    widest = max((funnel.entered(ledger, stage) for stage in stages), default=0)
    rows = join(funnel.stage(ledger, stage, widest, lang) for stage in stages)
    return card(say("ledger.documents", lang), funnel.legend(lang), rows) if stages else Html()


def _tokens(ledger: Ledger, lang: str) -> Html:
    drawn = funnel.balances(ledger, lang)
    return card(say("ledger.tokens", lang), drawn) if drawn else Html()
