"""The languages of a set of documents: their mix, how sure each is, and one document piece by piece.

en    ██████████████████████   412 documents   1,203,000 characters
zh    ▓▓▓▓▓▓▓▓▓                187 documents     402,000 characters
und   ░                          9 documents       1,200 characters

        en                                ja               en
        Hello again my friend!            駅まで歩こう      Take it slow tonight
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence

from prep_lib.errors import BadParameter
from prep_lib.markup import Html, Page, Part, bar, card, escape, join, note, number, percent, snippet, table, tag
from prep_lib.record import Document
from prep_lib.text.language import PURE, identify
from prep_lib.words import say

#: Languages with a colour of their own, `d0` to `d5` and `o0` to `o5` of the stylesheet.
COLOURS = 6

#: Languages, documents and pieces shown; what is left out is said.
LANGUAGES, LEAST, PIECES = 20, 8, 200

#: Characters of a document in the table, and of the one shown whole.
EXCERPT, WHOLE = 120, 20_000

#: Bars of the histogram.
BINS = 10


def view(documents: Sequence[Document], *, show: str | None = None, lang: str = "en") -> Page:
    """Show the languages of documents that went through `Language`.

    Parameters
    ----------
    documents : sequence of Document
        Those without a language in their meta are not counted, and the page says how many.
    show : str or None
        The id of the document shown piece by piece. None: the least sure of those with several languages, or of all.
    lang : str

    Raises
    ------
    BadParameter
        If no document has that id.

    Examples
    --------
    >>> view([Document("1", "text", meta={"language": "en", "language_score": 0.99})])
    <languages of 1 documents: en 1>
    """
    told = [doc for doc in documents if "language" in doc.meta]
    shown = _chosen(told, show)
    counts = Counter(doc.meta["language"] for doc in told)
    said = ", ".join(f"{code} {n:,}" for code, n in counts.most_common(LANGUAGES))
    head = [tag("h1", say("language.title", lang)), tag("p", _sum(told, lang), cls="sub")]
    if missing := len(documents) - len(told):
        head.append(note("warn", say("language.missing", lang, n=missing)))
    cards = [_mix(told, lang), _histogram(told, lang), _least(told, lang)] if told else []
    if shown is not None:
        cards.append(_pieces(shown, lang))
    return Page(snippet(join([*head, *cards]), lang), f"languages of {len(told):,} documents: {said or 'none'}")


def _chosen(documents: Sequence[Document], show: str | None) -> Document | None:
    if show is None:
        return min(documents, key=lambda doc: (not doc.meta.get("mixed"), _score(doc), doc.id), default=None)
    for doc in documents:
        if doc.id == show:
            return doc
    raise BadParameter(f"widgets/language: no document with a language has the id {show!r}; use the id of one of these")


def _score(doc: Document) -> float:
    return float(doc.meta.get("language_score", 0.0))


def _sum(documents: Sequence[Document], lang: str) -> str:
    if not documents:
        return say("language.none", lang)
    mixed = sum(bool(doc.meta.get("mixed")) for doc in documents)
    languages = len({doc.meta["language"] for doc in documents} - {"und", "zxx"})
    return say(
        "language.sum", lang, n=len(documents), languages=languages, mixed=mixed, share=percent(mixed, len(documents)),
        pure=percent(PURE, digits=0),
    )  # fmt: skip


def _mix(documents: Sequence[Document], lang: str) -> Html:
    """A row a language: documents, those of several languages among them, and characters."""
    counts, mixed, characters = Counter[str](), Counter[str](), Counter[str]()
    for doc in documents:
        code = doc.meta["language"]
        counts[code] += 1
        mixed[code] += bool(doc.meta.get("mixed"))
        characters[code] += len(doc.text)
    codes = sorted(counts, key=lambda code: (-characters[code], code))
    whole, most = characters.total(), max(characters.values())
    rows = [
        (
            _name(code, lang), _bar(at, code, characters[code], most, lang), counts[code], mixed[code],
            characters[code], percent(characters[code], whole),
        )
        for at, code in enumerate(codes[:LANGUAGES])
    ]  # fmt: skip
    head = ["language.language", "characters", "documents", "language.mixed", "characters", "share"]
    titles = [say(key, lang) for key in head]
    titles[1] = ""
    left = len(codes) - LANGUAGES
    more = tag("p", say("language.more", lang, n=left), cls="dim small") if left > 0 else Html()
    return card(say("language.mix", lang), table(titles, rows, words=2), more)


def _name(code: str, lang: str) -> str:
    return f"{code} · {say(f'language.{code}', lang)}" if code in ("und", "zxx") else code


def _kind(at: int, code: str) -> str:
    return "hatch" if code in ("und", "zxx") else f"d{at}" if at < COLOURS else "d-more"


def _bar(at: int, code: str, size: int, most: int, lang: str) -> Html:
    label = f"{code}: {size:,} {say('characters', lang)}"
    return _wide(bar([Part(_kind(at, code), size, label)], most, label), 140)


def _wide(content: object, pixels: int) -> Html:
    # On a phone a table would rather make this column one character wide than scroll.
    return tag("div", content, style=f"min-width:{pixels}px")


def _histogram(documents: Sequence[Document], lang: str) -> Html:
    """How many documents are how sure."""
    counts = Counter(min(int(_score(doc) * BINS), BINS - 1) for doc in documents)
    rows = []
    for at in range(BINS):
        span, n = f"{at / BINS:.1f}–{(at + 1) / BINS:.1f}", counts[at]
        label = say("language.bin", lang, span=span, n=n)
        drawn = bar([Part("kept", n, label)], max(counts.values()), label)
        rows.append(tag("div", tag("span", span, cls="dim"), drawn, tag("span", number(n)), cls="strip file"))
    return card(say("language.sure", lang), tag("p", say("language.sure_note", lang), cls="dim small"), *rows)


def _least(documents: Sequence[Document], lang: str) -> Html:
    least = sorted(documents, key=lambda doc: (_score(doc), doc.id))[:LEAST]
    rows = [(doc.id, _wide(_shares(doc), 130), _wide(_excerpt(doc.text), 230), number(_score(doc), 2)) for doc in least]
    head = [say(f"language.{key}", lang) for key in ("document", "shares", "begins", "score")]
    return card(say("language.least", lang), table(head, rows, words=3))


def _shares(doc: Document) -> str:
    shares = doc.meta.get("languages") or {doc.meta["language"]: 1.0}
    told = ", ".join(f"{code} {percent(share, digits=0)}" for code, share in list(shares.items())[:4])
    return f"{doc.meta['language']}: {told}"


def _excerpt(text: str) -> str:
    return text if len(text) <= EXCERPT else text[:EXCERPT] + "…"


def _pieces(doc: Document, lang: str) -> Html:
    """The document, every piece with its language above it; neighbours in one language are one piece."""
    found = identify(doc.text[:WHOLE], lines=True)
    colours = {code: at for at, code in enumerate(code for code in found.shares if code not in ("und", "zxx"))}
    # Where a piece stands is told in the text as it was read.
    text = unicodedata.normalize("NFC", doc.text[:WHOLE])
    pieces: list[tuple[str, float, int, int]] = []
    for line in found.lines:
        if pieces and pieces[-1][0] == line.code:
            code, score, start, _ = pieces[-1]
            pieces[-1] = (code, min(score, line.score), start, line.stop)
        else:
            pieces.append((line.code, line.score, line.start, line.stop))
    drawn = [_piece(text[start:stop], code, score, colours.get(code)) for code, score, start, stop in pieces[:PIECES]]
    told = "; ".join(f"{code} {percent(share)}" for code, share in found.shares.items())
    said = say("language.shown", lang, id=doc.id, shares=told or "–", score=number(found.score, 2))
    cut = len(pieces) > PIECES or len(doc.text) > WHOLE
    rest = tag("p", say("language.cut", lang, pieces=len(drawn), n=WHOLE), cls="dim small") if cut else Html()
    chips = tag("div", *drawn, cls="talk", tabindex="0", role="group", aria_label=say("language.pieces", lang))
    return card(say("language.pieces", lang), tag("p", said), chips, rest)


def _piece(text: str, code: str, score: float, at: int | None) -> Html:
    label = tag("small", f"{code} {number(score, 2)}")
    chip = tag("b", label, escape(text, breaks=True), cls="chip" if at is not None else "chip pad")
    return tag("span", chip, cls="doc" if at is None or at >= COLOURS else f"doc o{at}")
