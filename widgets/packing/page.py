"""Packs drawn as strips, one colour a document, and all algorithms in one table.

pack 0   ████████▓▓▓▓▓▓░░░░░░░░┆   100.0 %      ┆ a document is cut
pack 1   ┆░░░▒▒▒▒▒▒▒▒▒▒▒▒╱╱╱╱╱╱╱    74.1 %      ╱ padding
"""

from __future__ import annotations

from itertools import groupby

from prep_lib.markup import Html, Part, bar, card, code, join, note, percent, snippet, table, tag
from prep_lib.words import say
from widgets.packing.state import Piece, State, pieces, plan, rows, unsaved

#: Colours of the stylesheet: ``d0`` to ``d5``.
COLOURS = 6

#: Pieces drawn one by one in a strip; below half a percent of its width nobody sees them apart.
MOST = 120

#: Share of the width from which a piece has room for its number.
ROOM = 0.08


def page(state: State) -> str:
    """Return the whole widget as HTML."""
    lang, data = state.lang, state.data
    sub = say("packing.sub", lang, n=len(data.lengths), tokens=data.tokens, size=state.pack_size)
    head = join([tag("h1", say("packing.title", lang)), tag("p", sub, cls="sub")])
    if not len(data.lengths):
        return snippet(join([head, tag("p", say("packing.none", lang))]), lang)
    return snippet(join([head, _unsaved(state), _strips(state), _table(state)]), lang)


def _unsaved(state: State) -> Html:
    lines = unsaved(state)
    return join([note("warn", say("differs", state.lang)), code(lines)]) if lines else Html()


def _strips(state: State) -> Html:
    lang = state.lang
    drawn = pieces(state)
    packs = plan(state.data, state.pack_size, state.algorithm).packs
    title = say("packing.strips", lang, n=len(drawn), packs=packs, algorithm=state.algorithm)
    order = say("packing.first" if state.algorithm == "concat" else "packing.spread", lang)
    strips = join(_strip(number, members, state) for number, members in drawn)
    return card(title, tag("p", order, cls="dim small"), _legend(lang), strips)


def _legend(lang: str) -> Html:
    boxes = [
        ("d0", "packing.legend_document"),
        ("cut-mark", "packing.legend_cut"),
        ("hatch", "padding"),
    ]
    return tag(
        "div", *(tag("span", tag("span", cls=f"box {kind}"), say(word, lang)) for kind, word in boxes), cls="legend"
    )


def _strip(number: int, members: list[Piece], state: State) -> Html:
    lang, size = state.lang, state.pack_size
    used = sum(piece.tokens for piece in members)
    parts = [_part(piece, size, lang) for piece in members[:MOST]]
    if rest := members[MOST:]:
        tokens = sum(piece.tokens for piece in rest)
        parts.append(Part("d-more", tokens, say("packing.more", lang, n=len(rest), tokens=tokens)))
    parts.append(Part("hatch", size - used, f"{say('padding', lang)} {size - used:,}"))
    documents = sum(1 for _ in groupby(members, key=lambda piece: piece.document))
    name = say("packing.pack", lang, at=number)
    said = say("packing.strip", lang, documents=documents, filled=percent(used, size))
    drawn = bar(parts, size, f"{name}: {said}")
    return tag("div", tag("span", name, cls="dim"), drawn, tag("span", percent(used, size)), cls="strip", title=said)


def _part(piece: Piece, size: int, lang: str) -> Part:
    kind = f"d{piece.document % COLOURS}" + " came" * piece.came + " goes" * piece.goes
    word = "packing.piece_cut" if piece.came or piece.goes else "packing.piece"
    label = f"{piece.tokens:,}" if piece.tokens >= ROOM * size else ""
    return Part(kind, piece.tokens, say(word, lang, n=piece.tokens), label)


def _table(state: State) -> Html:
    lang = state.lang
    compared = rows(state)
    words = ("algorithm", "packing.packs", "padding", "packing.documents_cut", "packing.tokens_lost", "trained")
    lines = [
        (row.algorithm, row.packs, percent(row.padding), row.cut_documents, row.lost_tokens, percent(row.trained))
        for row in compared
    ]
    chosen = next(at for at, row in enumerate(compared) if row.algorithm == state.algorithm)
    grid = table([say(word, lang) for word in words], lines, best=chosen)
    return card(say("packing.compare", lang), grid, tag("p", say("packing.note", lang), cls="dim small"))
