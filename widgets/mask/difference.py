"""Two folders of shards: how they were made, what is trained only in one, and one document seen in both masks.

tokens             these shards                  the other shards
= 0–11 context     ⟦im▁start⟧ user ↵ Hi          ⟦im▁start⟧ user ↵ Hi
= 12–14 trained    **yo** ⟦**im▁end**⟧           **yo** ⟦**im▁end**⟧
≠ 15 only there    ↵                             **↵**
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from prep_lib.errors import BadParameter
from prep_lib.markup import Html, Page, attribute, card, join, note, number, percent, snippet, table, tag
from prep_lib.shards.compare import Counts, Difference, Example, Spot, Stored, stored
from prep_lib.words import say
from widgets.mask.page import Labels

if TYPE_CHECKING:
    from prep_lib.tokens.tokenizer import AutoTokenizer

#: Characters drawn of a value of a manifest.
VALUE = 160

#: Tokens drawn of each end of a run that is the same in both, and of a run that is not.
EDGE, SIDE = 8, 60

#: Ids drawn of changed targets.
IDS = 8

#: Runs drawn; what is the same and not beside a difference is one of them.
RUNS = 60

#: Kinds of documents told in the table, and the kinds of tokens.
_DOCUMENTS = ("equal", "other_mask", "other_weight", "shorter", "other_ids", "torn", "only_one", "only_other")
_TOKENS = ("both", "trained_one", "trained_other", "neither", "weighted", "rest_one", "rest_other")

#: Who trains a token: a state, and what is said of it. 4: whoever does, it is the same in both; 5: other ids.
_STATES = ("neither", "trained_one", "trained_other", "both", "same", "other_ids")
_SAME = (0, 3, 4)

_Run = tuple[int, int, int]


def settings(found: Difference | None, lang: str = "en") -> Page:
    """Show what the manifests of two folders say differently of how they were made.

    Parameters
    ----------
    found : Difference or None
        None: one line says that nothing is compared.
    lang : str

    Examples
    --------
    >>> settings(None)
    <Nothing is compared: the parameter `other` is empty.>
    """
    if found is None:
        return _nothing(lang)
    if not found.settings:
        said = say("difference.settings_same", lang)
        return Page(snippet(note("ok", said), lang), said)
    rows = [(one.name, _value(one.one), _value(one.other)) for one in found.settings]
    head = [say(f"difference.{name}", lang) for name in ("setting", "one", "other")]
    title = say("difference.settings", lang)
    said = say("difference.settings_n", lang, n=len(rows))
    return Page(snippet(card(title, table(head, rows, words=3)), lang), said)


def _nothing(lang: str) -> Page:
    said = say("difference.nothing", lang)
    return Page(snippet(tag("p", said, cls="dim"), lang), said)


def _value(value: Any) -> Html:
    if value is None:
        return tag("span", "–")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return tag("code", text if len(text) <= VALUE else f"{text[:VALUE]}…")


def counts(found: Difference | None, tokenizer: AutoTokenizer, lang: str = "en") -> Page:
    """Show how many documents and tokens differ, per source, and which tokens those are.

    Parameters
    ----------
    found : Difference or None
        None: one line says that nothing is compared.
    tokenizer : AutoTokenizer
        Of both folders.
    lang : str
    """
    if found is None:
        return _nothing(lang)
    total = found.total
    said = _verdict(found, lang)
    sources = {say("difference.total", lang): total} | found.sources
    documents = _table(
        say("difference.documents", lang), sources, ("documents_one", "documents_other"), _DOCUMENTS, lang
    )
    tokens = _table(say("difference.tokens", lang), sources, (), _TOKENS, lang)
    parts = [note("ok" if found.same else "warn", said)]
    if any(found.repeated):
        parts.append(note("warn", say("difference.repeated", lang, one=found.repeated[0], other=found.repeated[1])))
    changed = [_by_place(found, lang), _by_id(found, tokenizer, lang)] if found.tokens else []
    return Page(snippet(join([*parts, documents, tokens, *changed]), lang), said)


def _verdict(found: Difference, lang: str) -> str:
    total = found.total
    if found.same:
        return say("difference.same", lang, n=total.documents_one)
    every = total.documents_one + total.only_other
    return say(
        "difference.differs", lang, n=total.different, all=every, share=percent(total.different, every),
        one=total.trained_one, other=total.trained_other,
    )  # fmt: skip


def _table(title: str, sources: dict[str, Counts], always: Sequence[str], names: Sequence[str], lang: str) -> Html:
    """A row a source; a column nobody has is left out, the first one stays."""
    told = {name: asdict(one) for name, one in sources.items()}
    columns = [*always, names[0], *(name for name in names[1:] if any(one[name] for one in told.values()))]
    head = [say("source", lang), *(say(f"difference.{name}", lang) for name in columns)]
    rows = [(name, *(one[column] for column in columns)) for name, one in told.items()]
    return card(title, table(head, rows if len(rows) > 2 else rows[-1:]))


def _by_place(found: Difference, lang: str) -> Html:
    title = say("difference.places", lang)
    head = [say(f"difference.{name}", lang) for name in ("place", "trained_one", "trained_other")]
    rows = [(say(f"difference.{name}", lang), *both) for name, both in found.places.items() if any(both)]
    return card(title, table(head, rows))


def _by_id(found: Difference, tokenizer: AutoTokenizer, lang: str) -> Html:
    title, draw = say("difference.ids", lang), Labels(tokenizer)
    head = [
        say("difference.token", lang),
        "id",
        *(say(f"difference.trained_{side}", lang) for side in ("one", "other")),
    ]
    rows = [(_chip(draw, token, None, False, ""), str(token), one, other) for token, one, other in found.tokens[:IDS]]
    return card(title, table(head, rows, words=2))


def _chip(draw: Labels, token: int, at: int | None, on: bool, lang: str, faint: bool = False) -> Html:
    label, raw, control = draw(token)
    kinds = f"chip {control}{' on' if on else ''}{' faint' if faint else ''}"
    line = "" if at is None else say("mask.detail", lang, id=token, at=at, bytes=raw)
    return Html(f'<b class="{kinds}" title="{attribute(line)}">{label}</b>')


# ---------------------------------------------------------------------------------------------------------------------
# One document
# ---------------------------------------------------------------------------------------------------------------------


def document(found: Difference | None, tokenizer: AutoTokenizer, lang: str = "en", *, at: int = 0) -> Page:
    """Show one document that differs as both folders hold it.

    Parameters
    ----------
    found : Difference or None
        None: one line says that nothing is compared.
    tokenizer : AutoTokenizer
        Of both folders.
    lang : str
    at : int
        Which of its examples.

    Raises
    ------
    BadParameter
        If there is no such example, though there are others.
    """
    if found is None:
        return _nothing(lang)
    if not found.examples:
        said = _verdict(found, lang)
        return Page(snippet(note("ok" if found.same else "warn", said), lang), said)
    if not 0 <= at < len(found.examples):
        raise BadParameter(f"widgets/mask: there are {len(found.examples)} examples, from 0; got {at}")
    example = found.examples[at]
    sides = [
        stored(folder, spots, example.key)
        for folder, spots in zip(found.folders, (example.one, example.other), strict=True)
    ]
    said = say(f"difference.kind_{example.kind}", lang, document=example.document, first=example.first)
    lies = say("difference.lies", lang, one=_lies(example.one, lang), other=_lies(example.other, lang))
    title = say("difference.document", lang, at=at + 1, n=len(found.examples))
    drawn = _drawn(example, sides[0], sides[1], Labels(tokenizer), lang)
    others = _others(found, lang) if len(found.examples) > 1 else ""
    box = card(title, tag("p", said), tag("p", lies, cls="dim small"), drawn)
    return Page(snippet(join([box, others]), lang), said)


def _lies(spots: Sequence[Spot], lang: str) -> str:
    told = [say("difference.spot", lang, file=spot.file, row=spot.row, at=spot.at) for spot in spots[:3]]
    return ", ".join([*told, "…"] if len(spots) > 3 else told) or "–"


def _others(found: Difference, lang: str) -> Html:
    """The drawn examples as a table: where to look next."""
    title = say("difference.examples", lang)
    head = [say(f"difference.{name}", lang) for name in ("at", "a_document", "kind", "trained_one", "trained_other")]
    rows = [
        (str(at), one.document, say(f"difference.{one.kind}", lang), _spans(one.trained_one), _spans(one.trained_other))
        for at, one in enumerate(found.examples)
    ]
    return card(title, table(head, rows, words=5))


def _spans(spans: Sequence[tuple[int, int]]) -> str:
    told = [_span(start, stop) for start, stop in spans[:4]]
    return ", ".join([*told, "…"] if len(spans) > 4 else told) or "–"


def _span(start: int, stop: int) -> str:
    return f"{start:,}" if stop == start + 1 else f"{start:,}–{stop - 1:,}"


def _drawn(example: Example, one: Stored, other: Stored, draw: Labels, lang: str) -> Html:
    runs = _folded(list(_runs(example, one, other)))
    top = [tag("div", say(f"difference.{name}", lang), cls="top") for name in ("place", "one", "other")]
    cells = [cell for run in runs[:RUNS] for cell in _cells(run, one, other, draw, lang)]
    rest = say("difference.more_runs", lang, n=len(runs) - RUNS) if len(runs) > RUNS else ""
    return join([tag("div", *top, *cells, cls="even"), tag("p", rest, cls="dim small") if rest else ""])


def _runs(example: Example, one: Stored, other: Stored) -> Iterator[_Run]:
    """Yield runs of one state; what is not compared comes last, as other ids."""
    first = min(len(one.ids), len(other.ids)) if example.first is None else example.first
    first = 0 if example.kind == "torn" else first
    states = one.mask[:first].astype(int) + 2 * other.mask[:first].astype(int)
    at = 0
    for state, members in groupby(states.tolist()):
        stop = at + sum(1 for _ in members)
        yield state, at, stop
        at = stop
    if (end := max(len(one.ids), len(other.ids))) > first:
        yield _STATES.index("other_ids"), first, end


def _folded(runs: Sequence[_Run]) -> list[_Run]:
    """Put runs that are the same in both and not beside a difference into one.

    Examples
    --------
    >>> _folded([(0, 0, 5), (3, 5, 7), (0, 7, 9), (2, 9, 10)])
    [(4, 0, 7), (0, 7, 9), (2, 9, 10)]
    """
    changed = [state not in _SAME for state, _, _ in runs]
    near = [any(changed[max(0, at - 1) : at + 2]) for at in range(len(runs))]
    out: list[_Run] = []
    for shown, members in groupby(zip(near, runs, strict=True), key=lambda pair: pair[0]):
        part = [run for _, run in members]
        out += part if shown or len(part) == 1 else [(_STATES.index("same"), part[0][1], part[-1][2])]
    return out


def _cells(run: _Run, one: Stored, other: Stored, draw: Labels, lang: str) -> Iterator[Html]:
    """The three cells of a run: where and who trains it, and its tokens on both sides."""
    state, start, stop = run
    same = state in _SAME
    mark = tag("b", "= " if same else "≠ ")
    said = say(f"difference.state_{_STATES[state]}", lang)
    yield tag("div", mark, tag("b", said) if not same else said, tag("span", _span(start, stop), cls="below"))
    for side in (one, other):
        yield tag("div", _some(side, start, min(stop, len(side.ids)), EDGE if same else SIDE // 2, draw, lang))


def _some(side: Stored, start: int, stop: int, edge: int, draw: Labels, lang: str) -> Html:
    """The first and the last tokens of a run, and how many stand between."""
    if stop <= start:
        return tag("i", say("difference.no_token", lang), cls="dim")
    places = np.arange(start, stop).tolist()
    left, right = (places, []) if len(places) <= 2 * edge else (places[:edge], places[-edge:])
    drawn = [[_chip(draw, int(side.ids[at]), at, bool(side.mask[at]), lang) for at in part] for part in (left, right)]
    if not right:
        return join(drawn[0])
    between = say("difference.between_tokens", lang, n=number(len(places) - 2 * edge))
    return join([*drawn[0], tag("span", f" … {between} … ", cls="dim small"), *drawn[1]])
