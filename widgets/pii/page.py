"""Personal data in its place: what was found, what speaks for it, and what it would become, the doubtful first.

kind     finds  check  form  word  shape  becomes        a.jsonl#L7 · web
card         3      3     0     0      0  <CARD>         …paid with ⟦card·check 4539 5787 6362 1486⟧ → <CARD> in May…
cn_mobile    9      0     1     5      3  <CN_MOBILE>    …id ⟦cn_mobile·shape 13812345678⟧ → <CN_MOBILE>…
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from prep_lib.markup import Html, Page, card, fold, join, note, percent, snippet, table, tag
from prep_lib.record import Document
from prep_lib.text.pii import EVIDENCE, KINDS, Found, Pii
from prep_lib.words import say

#: Documents on the page, finds of one document, sources in the table; what is left out is said.
MOST, EACH, SOURCES = 12, 20, 20
#: Characters beside a find, and of one: a private key is long.
BESIDE, LONGEST = 60, 80

#: Documents, or documents with what was found in them.
Looked: TypeAlias = Iterable[Document | tuple[Document, Sequence[Found]]]


class _Seen(NamedTuple):
    document: Document
    found: Sequence[Found]


def view(documents: Looked, *, stage: Pii | None = None, reveal: bool = True, lang: str = "en") -> Page:
    """Show the personal data of documents, before anything is masked.

    Parameters
    ----------
    documents : iterable of Document, or of (Document, list of Found)
        A document without its finds is searched by `stage`.
    stage : Pii or None
        Whose kinds, country and placeholders count. None: `Pii()`.
    reveal : bool
        False: letters and digits of what was found become dots, for a page that is handed on.
    lang : str

    Examples
    --------
    >>> view([Document("1", "mail kim@mail.example"), Document("2", "nothing")])
    <personal data: 1 finds in 1 of 2 documents>
    """
    stage = stage or Pii()
    seen = [_Seen(*each) if isinstance(each, tuple) else _Seen(each, stage.find(each.text)) for each in documents]
    having = [each for each in seen if each.found]
    told = {"finds": sum(len(each.found) for each in having), "n": len(having), "all": len(seen)}
    head = [tag("h1", say("pii.title", lang)), tag("p", say("pii.sum", lang, **told), cls="sub")]
    if having:
        head.append(note("warn", say("pii.reveal" if reveal else "pii.hidden", lang)))
    cards = [_kinds(having, stage, lang), _sources(seen, lang), *_documents(having, stage, reveal, lang)]
    body = join([*head, *cards]) if having else join([*head, tag("p", say("pii.none", lang))])
    said = f"personal data: {told['finds']:,} finds in {told['n']:,} of {told['all']:,} documents"
    return Page(snippet(body, lang), said)


def _kinds(seen: Sequence[_Seen], stage: Pii, lang: str) -> Html:
    """A row a kind: finds, documents, what speaks for the finds, and what they become."""
    finds = Counter((found.kind, found.evidence) for each in seen for found in each.found)
    holding = Counter(kind for each in seen for kind in {found.kind for found in each.found})
    rows = [
        (
            kind, _wide(say(f"pii.kind_{kind}", lang)), _wide(stage.placeholder(kind)), finds_of.total(), holding[kind],
            *(finds_of[evidence] for evidence in EVIDENCE),
        )
        for kind in KINDS
        if (finds_of := Counter({evidence: finds[kind, evidence] for evidence in EVIDENCE})).total()
    ]  # fmt: skip
    head = [say(f"pii.{word}", lang) for word in ("kind", "meaning", "becomes", "finds", "documents")]
    head += [say(f"pii.evidence_{evidence}", lang) for evidence in EVIDENCE]
    grid = table(head, rows, words=3)
    return card(say("pii.kinds", lang), grid, tag("p", say("pii.evidence_note", lang), cls="dim small"))


def _wide(content: str) -> Html:
    # On a phone a table would rather make this column one character wide than scroll.
    return tag("div", content, style="min-width:120px")


def _sources(seen: Sequence[_Seen], lang: str) -> Html:
    """A row a source: its documents, those with finds, and finds by kind."""
    documents, holding, finds = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for each in seen:
        source = each.document.source
        documents[source] += 1
        holding[source] += bool(each.found)
        finds.update((source, found.kind) for found in each.found)
    kinds = [kind for kind in KINDS if any(finds[source, kind] for source in documents)]
    ranked = sorted(documents, key=lambda source: (-sum(finds[source, kind] for kind in kinds), source))
    rows = [
        (source or "–", documents[source], holding[source], percent(holding[source], documents[source]),
         *(finds[source, kind] for kind in kinds))
        for source in ranked[:SOURCES]
    ]  # fmt: skip
    head = [say(f"pii.{word}", lang) for word in ("source", "documents", "holding", "share")]
    left = len(ranked) - SOURCES
    more = tag("p", say("pii.more_sources", lang, n=left), cls="dim small") if left > 0 else Html()
    return card(say("pii.sources", lang), table([*head, *kinds], rows), more)


def _doubt(found: Found) -> int:
    return -EVIDENCE.index(found.evidence)


def _documents(seen: Sequence[_Seen], stage: Pii, reveal: bool, lang: str) -> Iterator[Html]:
    """The documents with the most doubtful finds first, each kind once before any comes again."""
    chosen, rest, met = list[_Seen](), list[_Seen](), set[tuple[str, str]]()
    for each in sorted(seen, key=lambda each: (min(map(_doubt, each.found)), -len(each.found), each.document.id)):
        kinds = {(found.kind, found.evidence) for found in each.found}
        (rest if kinds <= met else chosen).append(each)
        met |= kinds
    yield tag("h2", say("pii.doubtful", lang))
    shown = [*chosen, *rest][:MOST]
    for each in shown:
        yield _document(each, stage, reveal, lang)
    if left := len(seen) - len(shown):
        yield tag("p", say("pii.more_documents", lang, n=left), cls="dim small")


def _document(seen: _Seen, stage: Pii, reveal: bool, lang: str) -> Html:
    doc, found = seen.document, seen.found
    title = f"{doc.id} · {doc.source}" if doc.source else doc.id
    counts = Counter(each.kind for each in found)
    said = " · ".join(f"{kind} {counts[kind]:,}" for kind in KINDS if counts[kind])
    shown = sorted(found, key=_doubt)[:EACH]
    pieces = list(_pieces(doc.text, found, set(shown), stage))
    marked = join(part for between, each in pieces for part in (between, _chip(doc.text, each, stage, reveal, lang)))
    masked = "".join(between + (stage.placeholder(each.kind) if each else "") for between, each in pieces)
    label = say("pii.label", lang, n=len(shown), document=doc.id)
    drawn = tag("div", marked, cls="talk cut-text", tabindex="0", role="group", aria_label=label)
    left = len(found) - len(shown)
    more = tag("p", say("pii.more_finds", lang, n=left), cls="dim small") if left else Html()
    return card(title, tag("p", said, cls="dim small"), drawn, more, fold(say("pii.masked", lang), tag("p", masked)))


def _pieces(
    text: str, found: Sequence[Found], shown: Container[Found], stage: Pii
) -> Iterator[tuple[str, Found | None]]:
    """What stands before each find that is shown, other finds masked in it, and the find; at the end None."""
    between, at, first = "", 0, True
    for each in found:
        between += text[at : each.start]
        at = each.stop
        if each in shown:
            yield _beside(between, first=first), each
            between, first = "", False
        else:
            between += stage.placeholder(each.kind)
    yield _beside(between + text[at:], last=True), None


def _chip(text: str, found: Found | None, stage: Pii, reveal: bool, lang: str) -> Html:
    if found is None:
        return Html()
    parts = [found.kind, say(f"pii.evidence_{found.evidence}", lang), found.rule]
    value = text[found.start : found.stop] if reveal else _hidden(text[found.start : found.stop])
    kinds = "chip ctl" if found.evidence == "shape" else "chip on"
    shown = tag("b", tag("small", " · ".join(filter(None, parts))), _short(value), cls=kinds)
    return join([shown, tag("span", f" → {stage.placeholder(found.kind)} ", cls="dim")])


def _beside(text: str, *, first: bool = False, last: bool = False) -> str:
    """What stands between two finds, cut where it is far from both."""
    if len(text) <= BESIDE * (1 if first or last else 2):
        return text
    return ("" if first else text[:BESIDE]) + " … " + ("" if last else text[-BESIDE:])


def _short(value: str) -> str:
    return value if len(value) <= LONGEST else f"{value[: LONGEST // 2]} … {value[-LONGEST // 2 :]}"


def _hidden(value: str) -> str:
    return "".join("•" if character.isalnum() else character for character in value)
