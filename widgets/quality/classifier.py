"""A classifier as a page: how well it tells what it never saw, which words it goes by, and why a document scores.

held out   accuracy 0.987   area 0.998            score 0.2 – 0.3   12 rows   said 0.25   true 0.17
for        our 12.96  we 10.54  congress 8.21     against   film -9.37  movie -7.63
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prep_lib.markup import Html, Page, card, join, note, number, percent, snippet, table, tag
from prep_lib.record import Document
from prep_lib.text.classifier import Classifier, HeldOut, Word
from prep_lib.words import say

#: Features listed on each side; words told of a document.
LISTED, TOLD = 15, 5


def view(model: Classifier, documents: Iterable[Document] = (), lang: str = "en") -> Page:
    """Return what a notebook cell shows of a classifier.

    Parameters
    ----------
    model : Classifier
    documents : iterable of Document
        Each is listed with its score and the words that made it.
    lang : str

    Examples
    --------
    >>> view(Classifier.train([("good cat", True), ("bad cat", False)] * 9, bits=8))
    <classifier: True against False, held-out accuracy –>
    """
    accuracy = number(model.held_out.accuracy, 3)
    said = f"classifier: {model.labels[1]} against {model.labels[0]}, held-out accuracy {accuracy}"
    return Page(page(model, list(documents), lang), said)


def page(model: Classifier, documents: Sequence[Document] = (), lang: str = "en") -> str:
    """Return the page as HTML."""
    other, label = model.labels
    held = model.held_out
    said = say("quality.model_score", lang, accuracy=number(held.accuracy, 3), area=number(held.auc, 3))
    head = [tag("h1", say("quality.model_title", lang, label=label, other=other)), tag("p", said, cls="sub")]
    parts = [*head, *_findings(held, lang), _held_out(model, lang), _words(model, lang)]
    return snippet(join([*parts, _documents(model, documents, lang)]), lang)


def _findings(held: HeldOut, lang: str) -> list[Html]:
    return [
        note("warn", say(f"quality.model_{one.name}", lang, value=one.value, limit=one.limit, label=one.label))
        for one in held.findings
    ]


def _held_out(model: Classifier, lang: str) -> Html:
    held = model.held_out
    head = [say(f"quality.model_{word}", lang) for word in ("label", "trained", "held")]
    counts = table(head, list(zip(model.labels, held.trained, held.held, strict=True)))
    head = [say(f"quality.model_{word}", lang) for word in ("bin", "rows", "said", "true")]
    bins = [
        [f"{row.low:.1f} – {row.high:.1f}", row.rows, number(row.said, 2), percent(row.true)]
        for row in held.calibration
    ]
    caption = say("quality.model_calibration", lang, label=model.labels[1])
    grid = table(head, bins, caption=caption) if bins else Html()
    return card(say("quality.model_held_out", lang), counts, grid)


def _words(model: Classifier, lang: str) -> Html:
    sides = zip(model.labels[::-1], model.strongest(LISTED), strict=True)
    head = [say(f"quality.model_{word}", lang) for word in ("word", "weight", "times")]
    grids = [
        table(head, [[word.text, f"{word.weight:+.2f}", word.times] for word in words],
              caption=say("quality.model_speaks", lang, label=label))
        for label, words in sides
    ]  # fmt: skip
    style = "display:grid;grid-template-columns:repeat(auto-fit,minmax(min(260px,100%),1fr));gap:14px 22px"
    return card(say("quality.model_words", lang), tag("div", *grids, style=style))


def _documents(model: Classifier, documents: Sequence[Document], lang: str) -> Html:
    if not documents:
        return Html()
    scored = sorted(((model.score(doc), at) for at, doc in enumerate(documents)), key=lambda pair: (-pair[0], pair[1]))
    head = [say(f"quality.model_{word}", lang) for word in ("document", "why", "document_score")]
    lines = [[documents[at].id, _why(model.why(documents[at], TOLD)), f"{score:.3f}"] for score, at in scored]
    return card(say("quality.model_documents", lang, label=model.labels[1]), table(head, lines, words=2))


def _why(words: Sequence[Word]) -> Html:
    return join((tag("span", f"{word.text} {word.weight:+.2f}") for word in words), " · ") if words else Html("–")
