"""Texts before and after a step: what changed, by kind, and the documents that changed most, each change marked.

mojibake   3 places in 2 documents     3 characters that were one, read in a wrong encoding

a.jsonl#L7 · web      trailing 2   mojibake 1
  4   isn[−â€™][+’] true[−··]↵          − went, struck through; + came, underlined
      U+2019 RIGHT SINGLE QUOTATION MARK  −0 +1
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prep_lib.markup import Html, Page, card, code, escape, fold, join, percent, snippet, table, tag
from prep_lib.record import Document
from prep_lib.words import WORDS, say
from widgets.text_diff.spans import Span, compare, same

#: Documents on the page, documents for each kind of change; of a document the changed lines, of a line the stretches
#: (what changed and what is beside it), and the characters in the table.
MOST, EACH, SHOWN, STRETCHES, NAMED = 8, 2, 12, 40, 8
#: Characters of one changed stretch, and of what is the same beside it; of a text that is shown as a whole.
STRETCH, BESIDE, WHOLE = 160, 60, 1_500
#: Where less than this share of a text is still there, it is another text, and both are shown side by side.
ALIKE = 0.4

_STYLE = Html(
    "<style>.prep .diff{display:grid;grid-template-columns:auto minmax(0,1fr);gap:2px 12px;margin:8px 0;"
    "font:14px/1.6 var(--mono)}.prep .diff>span{color:var(--dim);text-align:right;font-size:12px}"
    ".prep .diff>div{white-space:pre-wrap}.prep :is(.diff,.marks) :is(del,ins){border-radius:3px;padding:0 2px}"
    ".prep :is(.diff,.marks) del{color:var(--bad);background:var(--bad-bg);text-decoration:line-through}"
    ".prep :is(.diff,.marks) ins{color:var(--ok);background:var(--ok-bg);text-decoration:underline}"
    '.prep :is(.diff,.marks) del::before{content:"−"}.prep :is(.diff,.marks) ins::before{content:"+"}'
    ".prep :is(.diff,.marks) :is(del,ins) i,.prep :is(.diff,.marks) :is(del,ins)::before{display:inline-block}"
    ".prep .marks{margin:10px 0 0}.prep .beside{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:14px}"
    ".prep .beside pre{white-space:pre-wrap;max-height:360px;overflow-y:auto}"
    "@container(max-width:560px){.prep .beside{grid-template-columns:minmax(0,1fr)}}</style>"
)


class _Pair(NamedTuple):
    before: Document
    after: Document
    counts: Mapping[str, int]


class _Line(NamedTuple):
    number: int
    spans: tuple[Span, ...]


def view(before: Iterable[Document], after: Iterable[Document], lang: str = "en") -> Page:
    """Show what a step did to documents: counted by kind, and a handful of those with the most of each kind.

    Parameters
    ----------
    before, after : iterable of Document
        Matched by id; the kinds and numbers are what the step wrote into ``meta["changes"]``. Without that there is
        one kind, and the size of the difference decides what is shown.
    lang : str

    Examples
    --------
    >>> view([Document("1", "a  ")], [Document("1", "a", meta={"changes": {"trailing": 1}})])
    <text_diff: 1 of 1 documents changed>
    """
    old = {doc.id: doc for doc in before}
    pairs = [_Pair(old[doc.id], doc, _counts(old[doc.id], doc)) for doc in after if doc.id in old]
    counted = {"n": sum(pair.before.text != pair.after.text for pair in pairs), "all": len(pairs)}
    said = say("text_diff.sum", lang, **counted)
    head = [_STYLE, tag("h1", say("text_diff.title", lang)), tag("p", said, cls="sub")]
    if len(pairs) < len(old):
        head.append(tag("p", say("text_diff.gone", lang, n=len(old) - len(pairs)), cls="dim small"))
    body = [*head, _kinds(pairs, lang), *(_document(pair, lang) for pair in _chosen(pairs))]
    return Page(snippet(join(body), lang), f"text_diff: {say('text_diff.sum', 'en', **counted)}")


def _counts(before: Document, after: Document) -> Mapping[str, int]:
    counts = after.meta.get("changes")
    if isinstance(counts, Mapping) and counts:
        return {str(kind): n for kind, n in counts.items() if isinstance(n, int)}
    # How much shorter or longer is known without comparing thousands of texts.
    return {"other": max(1, abs(len(before.text) - len(after.text)))} if before.text != after.text else {}


def _totals(pairs: Iterable[_Pair]) -> dict[str, tuple[int, int]]:
    """Places and documents by kind, most places first."""
    places, documents = Counter[str](), Counter[str]()
    for pair in pairs:
        places.update(pair.counts)
        documents.update(pair.counts.keys())
    return {kind: (places[kind], documents[kind]) for kind in sorted(places, key=lambda kind: (-places[kind], kind))}


def _chosen(pairs: Sequence[_Pair]) -> list[_Pair]:
    """The documents with the most changes of each kind, the rarest kind first, in the order they came."""
    chosen: dict[str, int] = {}
    for kind in reversed(_totals(pairs)):
        having = [at for at, pair in enumerate(pairs) if kind in pair.counts and pair.before.id not in chosen]
        for at in sorted(having, key=lambda at: (-pairs[at].counts[kind], at))[:EACH]:
            if len(chosen) < MOST:
                chosen[pairs[at].before.id] = at
    return [pairs[at] for at in sorted(chosen.values())]


def _kinds(pairs: Sequence[_Pair], lang: str) -> Html:
    totals = _totals(pairs)
    if not totals:
        return tag("p", say("text_diff.nothing", lang))
    head = [say(f"text_diff.{word}", lang) for word in ("kind", "meaning", "places", "documents")]
    rows = [
        (kind, say(f"text_diff.kind_{kind}", lang) if f"text_diff.kind_{kind}" in WORDS else "", *totals[kind])
        for kind in totals
    ]
    marks = [tag(name, say(f"text_diff.{word}", lang)) for name, word in (("del", "went"), ("ins", "came"))]
    legend = tag("div", *marks, tag("span", say("text_diff.blanks", lang)), cls="legend marks")
    return card(say("text_diff.kinds", lang), table(head, rows, words=2), legend)


def _document(pair: _Pair, lang: str) -> Html:
    title = f"{pair.before.id} · {pair.before.source}" if pair.before.source else pair.before.id
    counts = " · ".join(f"{kind} {n:,}" for kind, n in pair.counts.items())
    spans = compare(pair.before.text, pair.after.text)
    if same(spans) < ALIKE:
        return card(title, tag("p", counts, cls="dim small"), _beside(pair, same(spans), lang))
    lines = [line for line in _lines(spans) if any(span.kind != "equal" for span in line.spans)]
    drawn = [
        part for line in lines[:SHOWN] for part in (tag("span", f"{line.number:,}"), tag("div", *_marked(line, lang)))
    ]
    rest = tag("p", say("text_diff.more", lang, n=len(lines) - SHOWN), cls="dim small") if lines[SHOWN:] else Html()
    label = say("text_diff.label", lang, n=len(lines), document=pair.before.id)
    grid = tag("div", *drawn, cls="diff", role="group", aria_label=label)
    return card(title, tag("p", counts, cls="dim small"), grid, rest, _characters(spans, lang))


def _lines(spans: Iterable[Span]) -> Iterator[_Line]:
    """Spans by the lines of the text before; what is the same ends a line at its line feed."""
    number, line = 1, list[Span]()
    for span in spans:
        pieces = span.before.splitlines(keepends=True) if span.kind == "equal" else [span.before]
        for piece in pieces:
            line.append(Span(piece, piece) if span.kind == "equal" else span)
            if span.kind == "equal" and piece.endswith("\n"):
                yield _Line(number, tuple(line))
                line = []
                number += 1
        if span.kind != "equal":
            number += span.before.count("\n")
    if line:
        yield _Line(number, tuple(line))


def _marked(line: _Line, lang: str) -> Iterator[Html]:
    last = len(line.spans) - 1
    for at, span in enumerate(line.spans[:STRETCHES]):
        if span.kind == "equal":
            yield escape(_around(span.before, first=at == 0, last=at == last))
            continue
        for name, text in (("del", span.before), ("ins", span.after)):
            if text:
                yield tag(name, escape(_short(text), blanks=True), title=_names(text))
    if rest := sum(span.kind != "equal" for span in line.spans[STRETCHES:]):
        yield tag("span", " " + say("text_diff.more_here", lang, n=rest), cls="dim small")


def _around(text: str, *, first: bool, last: bool) -> str:
    """What is the same beside a change, cut where it is far from one."""
    text = text.rstrip("\n")
    if first and last:
        return text[:BESIDE]
    if len(text) <= (1 + (not first and not last)) * BESIDE:
        return text
    return ("" if first else text[:BESIDE]) + " … " + ("" if last else text[-BESIDE:])


def _short(text: str) -> str:
    return text if len(text) <= STRETCH else f"{text[: STRETCH // 2]} … {text[-STRETCH // 2 :]}"


def _names(text: str) -> str:
    """What pointing at a stretch says: its first characters by name."""
    few = list(dict.fromkeys(text))[:4]
    return ", ".join(_name(character) for character in few) + (", …" if len(set(text)) > len(few) else "")


def _name(character: str) -> str:
    return f"U+{ord(character):04X} {unicodedata.name(character, _CONTROLS.get(character, ''))}".rstrip()


#: Unicode gives controls no names of their own.
_CONTROLS = {
    "\t": "TAB", "\n": "LINE FEED", "\r": "CARRIAGE RETURN", "\x00": "NULL", "\x0b": "LINE TABULATION",
    "\x0c": "FORM FEED", "\x1b": "ESCAPE", "\x7f": "DELETE", "\x85": "NEXT LINE",
}  # fmt: skip


def _characters(spans: Iterable[Span], lang: str) -> Html:
    """Which characters went and came, by name: most of them nobody can see."""
    went, came = Counter[str](), Counter[str]()
    for span in spans:
        if span.kind != "equal":
            went.update(span.before)
            came.update(span.after)
    odd = sorted(went.keys() | came.keys(), key=lambda character: (-went[character] - came[character], character))
    rows = [(escape(one, blanks=True), _name(one), went[one], came[one]) for one in odd[:NAMED]]
    head = [say(f"text_diff.{word}", lang) for word in ("character", "name", "went", "came")]
    title = say("text_diff.characters", lang, n=len(odd), went=went.total(), came=came.total())
    return fold(title, table(head, rows, words=2))


def _beside(pair: _Pair, share: float, lang: str) -> Html:
    sides = [
        tag("div", tag("b", say(f"text_diff.{word}", lang, n=len(text))), code(text[:WHOLE]))
        for word, text in (("before", pair.before.text), ("after", pair.after.text))
    ]
    told = say("text_diff.beside", lang, share=percent(share), shown=WHOLE)
    return join([tag("p", told, cls="dim small"), tag("div", *sides, cls="beside")])
