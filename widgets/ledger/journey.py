"""One document's way: what every stage did to it, and why it stayed or went.

a.html   ① extract     24,310 → 1,842 characters        title "Tea in spring"
         ② normalize    1,842 → 1,840                   changes: newlines 2
         ③ language     unchanged                       language zh
         ④ quality      ✗ dropped: fineweb2/cmn:words   12 against 50
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prep_lib.errors import BadRecord
from prep_lib.markup import Html, Page, card, fold, join, note, snippet, table, tag
from prep_lib.record import Drop
from prep_lib.stage import Step
from prep_lib.words import say

#: Characters of a text shown at each step.
SHOWN = 600


def view(steps: Sequence[Step], lang: str = "en") -> Page:
    """Return what a notebook cell shows of a journey.

    Examples
    --------
    >>> from prep_lib.record import Document
    >>> view([Step("short", Document("a#L1", "hi"), None, Drop("short", 2, 3))])
    <journey of a#L1: dropped by short: short>
    """
    return Page(page(steps, lang), f"journey of {_name(steps)}: {_end(steps, 'en')}")


def page(steps: Sequence[Step], lang: str = "en") -> str:
    """Return the whole way as HTML.

    Parameters
    ----------
    steps : sequence of Step
        Of `stage.journey`.
    lang : str
    """
    head = join([tag("h1", say("journey.title", lang)), tag("p", tag("code", _name(steps)), " · ", _end(steps, lang))])
    return snippet(join([head, *(_step(at, step, lang) for at, step in enumerate(steps, 1))]), lang)


def _name(steps: Sequence[Step]) -> str:
    return steps[0].before.id if steps else "—"


def _end(steps: Sequence[Step], lang: str) -> str:
    if steps and steps[-1].after is None:
        why = steps[-1].why
        word = "journey.dropped" if isinstance(why, Drop) else "journey.failed"
        return say(word, lang, stage=steps[-1].stage, reason=getattr(why, "reason", ""))
    return say("journey.kept", lang)


def _step(at: int, step: Step, lang: str) -> Html:
    before, after = step.before, step.after
    title = f"{at} · {step.stage}"
    parts = [tag("p", _sizes(step, lang), cls="dim small"), _verdict(step, lang), _meta(step, lang)]
    if step.measured:
        head = (say("journey.signal", lang), say("journey.value", lang))
        rows = [(name, f"{value:.6g}") for name, value in step.measured.items() if value == value]
        parts.append(fold(say("journey.measured", lang, n=len(rows)), table(head, rows)))
    shown = after or before
    if at == 1 or shown.text != before.text:
        parts += [tag("pre", shown.text[:SHOWN] + ("…" if len(shown.text) > SHOWN else ""))]
    return card(title, *parts)


def _sizes(step: Step, lang: str) -> str:
    into, out = len(step.before.text), len(step.after.text) if step.after else 0
    if step.after is not None and step.after.text == step.before.text:
        return say("journey.unchanged", lang, n=into)
    return say("journey.sizes", lang, into=into, out=out)


def _verdict(step: Step, lang: str) -> Html:
    why: Any = step.why
    if why is None:
        return Html()
    if step.after is not None:
        return note("warn", say("journey.cut", lang, reason=why.reason))
    told = f"{step.stage}: {why.reason}"
    if isinstance(why, Drop) and why.value is not None and why.limit is not None:
        told += " · " + say("journey.against", lang, value=f"{why.value:.6g}", limit=f"{why.limit:.6g}")
    if isinstance(why, BadRecord) and why.detail:
        told += f" · {why.detail}"
    return note("bad", told)


def _meta(step: Step, lang: str) -> Html:
    """What the stage wrote about the document."""
    if step.after is None:
        return Html()
    old, new = step.before.meta, step.after.meta
    rows = [(key, _short(value)) for key, value in new.items() if key not in old or old[key] != value]
    return table((say("journey.key", lang), say("journey.value", lang)), rows, words=2) if rows else Html()


def _short(value: object) -> str:
    text = ", ".join(f"{key} {item}" for key, item in value.items()) if isinstance(value, dict) else str(value)
    return text if len(text) <= 200 else text[:200] + "…"
