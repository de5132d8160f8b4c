"""Findings with their tokens and repairs, and symptoms with every cause ticked.

✗ error  EOT_NOT_TRAINED  The token that ends an answer is not trained.   2 tokens that stop … row 7 · position 22
   └ repair  move the generation tags   ✓ proven: 14 conversations render the same text …   └ the template, changed
By symptom:  The model never stops ─ ✗ found · ✓ ruled out · ? not known ─ what to do
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence

from prep_lib.chat.symptoms import Cause, Finding, Repair, Symptom, TokenAt
from prep_lib.markup import Html, Page, card, code, fold, join, note, snippet, table, tag
from prep_lib.words import WORDS, say

#: Severity -> how a note looks, and its sign.
LOOKS = {"error": ("bad", "✗"), "warning": ("warn", "!"), "note": ("ok", "i")}
#: Whether a cause was found -> its sign and its word.
TICKS = {True: ("✗", "doctor.found"), False: ("✓", "doctor.ruled_out"), None: ("?", "doctor.not_known")}
#: Tokens and rows drawn of one finding, and lines of a changed template.
TOKENS, ROWS, LINES = 12, 12, 80


def view(findings: Sequence[Finding], symptoms: Sequence[Symptom] = (), lang: str = "en", source: str = "") -> Page:
    """Return what a notebook cell shows of a diagnosis.

    Examples
    --------
    >>> view([Finding("NO_TARGET", "warning", "nothing to train")])
    <doctor: errors 0 · warnings 1 · notes 0>
    """
    return Page(page(findings, symptoms, lang, source), f"doctor: {_sum(findings, 'en')}")


def page(findings: Sequence[Finding], symptoms: Sequence[Symptom] = (), lang: str = "en", source: str = "") -> str:
    """Return findings and symptoms as HTML.

    Parameters
    ----------
    findings : sequence of Finding
        Drawn in this order.
    symptoms : sequence of Symptom
    lang : str
    source : str
        The template as it is, to show a repair as the difference; empty: the changed one is shown whole.
    """
    head = [tag("h1", say("doctor.title", lang)), tag("p", _sum(findings, lang), cls="sub")]
    body = list(finding_cards(findings, lang, source)) or [note("ok", say("doctor.none", lang))]
    told = [symptom_fold(symptom, lang) for symptom in symptoms]
    return snippet(join([*head, *body, card(say("doctor.symptoms", lang), *told) if told else Html()]), lang)


def _sum(findings: Sequence[Finding], lang: str) -> str:
    counts = {name: sum(one.severity == name for one in findings) for name in LOOKS}
    return say("doctor.sum", lang, errors=counts["error"], warnings=counts["warning"], notes=counts["note"])


def sentence(rule: str, lang: str = "en") -> str:
    """Return a rule as a person says it; empty for one nobody wrote a sentence for."""
    return say(f"doctor.{rule}", lang) if f"doctor.{rule}" in WORDS else ""


# ---------------------------------------------------------------- one finding


def finding_cards(findings: Sequence[Finding], lang: str = "en", source: str = "") -> Iterator[Html]:
    """Yield the findings, each with its repair; one that repairs several is shown once and then referred to."""
    shown: dict[Repair, str] = {}
    for finding in findings:
        repair = finding.repair
        yield finding_card(finding, lang, source, shown.get(repair, "") if repair is not None else "")
        if repair is not None:
            shown.setdefault(repair, finding.rule)


def finding_card(finding: Finding, lang: str = "en", source: str = "", shown_in: str = "") -> Html:
    """Return one finding: what, where, its tokens as links to the chips ``#t-ROW-POSITION``, its repair.

    `shown_in` is the rule of a finding that shows the same repair already.
    """
    look, sign = LOOKS[finding.severity]
    word = say(f"doctor.{finding.severity}", lang)
    named = [tag("b", f"{word} "), tag("code", finding.rule), " ", sentence(finding.rule, lang)]
    if finding.template:
        named.append(tag("small", " · ", say("doctor.template", lang, name=finding.template)))
    role = "alert" if finding.severity == "error" else None
    head = tag("p", tag("b", sign), tag("span", *named), cls=f"note {look}", role=role)
    parts = [tag("p", finding.detail, cls="dim"), _rows(finding, lang), _tokens(finding.tokens, lang)]
    if finding.repair is not None:
        parts.append(_repair(finding.repair, lang, source, shown_in))
    return card("", head, *parts, cls="finding")


def _rows(finding: Finding, lang: str) -> Html:
    if not finding.rows:
        return Html()
    shown = ", ".join(f"{row:,}" for row in finding.rows[:ROWS])
    if len(finding.rows) > ROWS:
        shown += " " + say("doctor.more", lang, n=len(finding.rows) - ROWS)
    return tag("p", say("doctor.rows", lang, n=len(finding.rows), of=finding.of, rows=shown), cls="dim small")


def _tokens(tokens: Sequence[TokenAt], lang: str) -> Html:
    if not tokens:
        return Html()
    drawn = [token_link(token, lang) for token in tokens[:TOKENS]]
    if len(tokens) > TOKENS:
        drawn.append(tag("span", say("doctor.more", lang, n=len(tokens) - TOKENS), cls="dim"))
    return tag("p", tag("span", say("doctor.tokens", lang), ": ", cls="dim"), join(drawn, " "))


def token_link(token: TokenAt, lang: str = "en") -> Html:
    """Return a token with its place; one of a row links to its chip.

    Examples
    --------
    >>> token_link(TokenAt(7, 22, 3, "<|im_end|>"))
    '<a href="#t-7-22" title="row 7 · position 22 · id 3"><code>&lt;|im_end|&gt;</code></a>'
    """
    text = tag("code", _visible(token.text))
    if token.row >= 0 and token.position >= 0:
        where = say("doctor.token_at", lang, row=token.row, position=token.position, id=token.id)
        return tag("a", text, href=f"#t-{token.row}-{token.position}", title=where)
    if token.position >= 0:
        return tag("span", text, title=say("doctor.token_probe", lang, position=token.position, id=token.id))
    known = say("doctor.token_alone", lang, id=token.id) if token.id >= 0 else say("doctor.token_none", lang)
    return tag("span", text, title=known)


def _visible(text: str) -> str:
    """Return a token of blanks so that it can be seen."""
    return text if text.strip() else text.replace(" ", "␣") or "∅"


# ---------------------------------------------------------------- its repair


def _repair(repair: Repair, lang: str, source: str, shown_in: str) -> Html:
    if shown_in:
        same = say("doctor.same_repair", lang, rule=shown_in)
        return tag("p", tag("b", say("doctor.repair", lang), ": "), f"{repair.what} ", tag("small", same), cls="repair")
    state = say("doctor.proven" if repair.proofs else "doctor.not_proven", lang)
    head = tag(
        "p", tag("b", say("doctor.repair", lang), ": "), f"{repair.what}; {repair.advice} ", _state(repair, state)
    )
    proofs = (
        tag("ul", join(tag("li", "✓ ", proof) for proof in repair.proofs), cls="plain") if repair.proofs else Html()
    )
    changed = Html()
    if repair.template is not None:
        changed = fold(say("doctor.diff", lang), code("\n".join(_difference(source, repair.template))))
    return tag("div", head, proofs, changed, cls="repair")


def _state(repair: Repair, state: str) -> Html:
    return tag("small", "✓ " if repair.proofs else "? ", state)


def _difference(source: str, changed: str) -> Iterator[str]:
    """Yield the lines that changed, with one around them; all of the new ones where the old source is not known."""
    if not source:
        lines = changed.splitlines()
    else:
        told = difflib.unified_diff(source.splitlines(), changed.splitlines(), lineterm="", n=1)
        lines = [line for line in told if not line.startswith(("---", "+++"))]
    yield from lines[:LINES]
    if len(lines) > LINES:
        yield f"… {len(lines) - LINES:,}"


# ---------------------------------------------------------------- one symptom


def symptom_fold(symptom: Symptom, lang: str = "en") -> Html:
    """Return a symptom: its causes in a table, what to do below; open if a cause was found."""
    found = sum(cause.found is True for cause in symptom.causes)
    unknown = sum(cause.found is None for cause in symptom.causes)
    state = say("doctor.causes", lang, n=found)
    if not found:
        state = say("doctor.open", lang, n=unknown) if unknown else say("doctor.clear", lang)
    name = SYMPTOMS.get(symptom.name)
    title = f"{'✗' if found else '✓' if not unknown else '?'} {say(name, lang) if name else symptom.name}: {state}"
    causes = table(["", say("doctor.cause", lang)], [_cause(cause, lang) for cause in symptom.causes], words=2)
    advice = (
        tag("ul", join(tag("li", "→ ", line) for line in symptom.advice), cls="plain") if symptom.advice else Html()
    )
    return fold(title, causes, advice, opened=bool(found))


#: Symptom -> its words.
SYMPTOMS: Mapping[str, str] = {
    "never_stops": "doctor.never_stops", "repeats_prompt": "doctor.repeats_prompt",
    "ignores_system": "doctor.ignores_system", "starts_with_blank": "doctor.starts_with_blank",
    "loss_zero_or_nan": "doctor.loss_zero_or_nan",
}  # fmt: skip


def _cause(cause: Cause, lang: str) -> tuple[object, ...]:
    """Return a line of the table: two columns, so that a telephone shows it too; what proves it stands below."""
    sign, word = TICKS[cause.found]
    parts = [tag("code", cause.rule), " ", sentence(cause.rule, lang)]
    if cause.evidence:
        parts.append(tag("div", cause.evidence, cls="dim small"))
    if cause.token is not None:
        parts.append(tag("div", say("doctor.tokens", lang), ": ", token_link(cause.token, lang), cls="dim small"))
    return f"{sign} {say(word, lang)}", join(parts)
