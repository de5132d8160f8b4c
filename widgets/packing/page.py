"""Packs drawn as strips, one colour a document, and all algorithms compared, at one pack size and over many.

pack 0   ████████▌▓▓▓▓▓▌░░░░░░░┆   100.0 %      ┆ a document is cut      ▌ its EOS
pack 1   ┆░░░▌▒▒▒▒▒▒▒▒▒▒▌╱╱╱╱╱╱    74.1 %      ╱ padding

         filled            documents cut      tokens lost       attention outside documents
100 % ○──○──○──○                ○                                     ○
        ◇ ◇                         ○──○                          ○
50 %         ◇ ◇                        ○      □──□──□──□      ○
      512      32k
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from math import floor, log2

from prep_lib.markup import Html, Part, bar, card, code, fold, join, note, percent, snippet, table, tag
from prep_lib.words import say
from widgets.packing.state import SWEPT, Piece, Row, State, pieces, plan, rows, sweep, unsaved

#: Colours of the stylesheet: ``d0`` to ``d5``.
COLOURS = 6

#: Pieces drawn one by one in a strip; below half a percent of its width nobody sees them apart.
MOST = 120

#: Share of the width from which a piece has room for its number, and for the mark of its EOS.
ROOM, MARK = 0.08, 0.01

#: The table and the curves: a measure, and its share at one size of all documents, tokens or places.
_MEASURES: Mapping[str, Callable[[Row, State], float]] = {
    "packing.filled": lambda row, state: 1 - row.padding,
    "packing.documents_cut": lambda row, state: row.cut_documents / len(state.data.lengths),
    "packing.tokens_lost": lambda row, state: row.lost_tokens / state.data.tokens,
    "packing.outside": lambda row, state: row.outside,
}

#: Of a drawing of curves, in units of its own: width, height, and the margins left, top, right and bottom.
_WIDE, _HIGH, _LEFT, _TOP, _RIGHT, _BOTTOM = 280, 158, 46, 10, 12, 24

#: The mark of each algorithm on its curve, round the point 0, 0; line and colour are in the stylesheet.
_MARKS = {
    "concat": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
    "best_fit": "M-3-3h6v6h-6z",
    "best_fit_split": "M0-3.5L3.5 2.5h-7z",
    "one_row": "M0-4L4 0L0 4L-4 0z",
}


def page(state: State) -> str:
    """Return the whole widget as HTML."""
    lang, data = state.lang, state.data
    sub = say("packing.sub", lang, n=len(data.lengths), tokens=data.tokens, size=state.pack_size)
    head = join([tag("h1", say("packing.title", lang)), tag("p", sub, cls="sub")])
    if not len(data.lengths):
        return snippet(join([head, tag("p", say("packing.none", lang))]), lang)
    return snippet(join([head, _unsaved(state), _strips(state), _table(state), _curves(state)]), lang)


def _unsaved(state: State) -> Html:
    lines = unsaved(state)
    return join([note("warn", say("differs", state.lang)), code(lines)]) if lines else Html()


def _strips(state: State) -> Html:
    lang = state.lang
    drawn = pieces(state)
    packs = plan(state.data, state.pack_size, state.algorithm, state.tail).packs
    title = say("packing.strips", lang, n=len(drawn), packs=packs, algorithm=state.algorithm)
    order = say("packing.first" if state.algorithm == "concat" else "packing.spread", lang)
    strips = join(_strip(number, members, state) for number, members in drawn)
    return card(title, tag("p", order, cls="dim small"), _legend(state), strips)


def _legend(state: State) -> Html:
    lang = state.lang
    boxes = [("d0", "packing.legend_document"), ("cut-mark", "packing.legend_cut")]
    boxes += [("d0 ends", "packing.legend_eos")] if state.documents else []
    boxes += [("hatch", "padding")]
    return tag(
        "div", *(tag("span", tag("span", cls=f"box {kind}"), say(word, lang)) for kind, word in boxes), cls="legend"
    )


def _strip(number: int, members: list[Piece], state: State) -> Html:
    lang, size = state.lang, state.pack_size
    used = sum(piece.tokens for piece in members)
    parts = [_part(piece, state) for piece in members[:MOST]]
    if rest := members[MOST:]:
        tokens = sum(piece.tokens for piece in rest)
        parts.append(Part("d-more", tokens, say("packing.more", lang, n=len(rest), tokens=tokens)))
    parts.append(Part("hatch", size - used, f"{say('padding', lang)} {size - used:,}"))
    documents = sum(1 for _ in groupby(members, key=lambda piece: piece.document))
    name = say("packing.pack", lang, at=number)
    said = say("packing.strip", lang, documents=documents, filled=percent(used, size))
    if state.documents:
        said += say("packing.strip_eos", lang, n=sum(not piece.goes for piece in members))
    drawn = bar(parts, size, f"{name}: {said}")
    return tag("div", tag("span", name, cls="dim"), drawn, tag("span", percent(used, size)), cls="strip", title=said)


def _part(piece: Piece, state: State) -> Part:
    size, lang = state.pack_size, state.lang
    kind = f"d{piece.document % COLOURS}" + " came" * piece.came + " goes" * piece.goes
    kind += " ends" * (state.documents and not piece.goes and piece.tokens >= MARK * size)
    word = "packing.piece_cut" if piece.came or piece.goes else "packing.piece"
    label = f"{piece.tokens:,}" if piece.tokens >= ROOM * size else ""
    return Part(kind, piece.tokens, say(word, lang, n=piece.tokens), label)


def _table(state: State) -> Html:
    lang = state.lang
    compared = rows(state)
    words = ["algorithm", "packing.packs", "padding", "packing.documents_cut", "packing.tokens_lost", "packing.outside"]
    lines = [
        [row.algorithm, row.packs, percent(row.padding), row.cut_documents, row.lost_tokens, percent(row.outside)]
        for row in compared
    ]
    told = [say("packing.note_lost", lang), say("packing.note_outside", lang)]
    if not state.documents:
        words, told = [*words, "trained"], [*told, say("packing.note_trained", lang)]
        lines = [[*line, percent(row.trained)] for line, row in zip(lines, compared, strict=True)]
    chosen = next(at for at, row in enumerate(compared) if row.algorithm == state.algorithm)
    grid = table([say(word, lang) for word in words], lines, best=chosen)
    return card(say("packing.compare", lang), grid, tag("p", " ".join(told), cls="dim small"))


# ---------------------------------------------------------------------------------------------------------------------
# Over many pack sizes
# ---------------------------------------------------------------------------------------------------------------------


def _curves(state: State) -> Html:
    lang, swept = state.lang, sweep(state)
    legend = tag("div", *(tag("span", _swatch(name), name) for name in _MARKS), cls="legend")
    told = {
        word: {name: [share(_row(swept[size], name), state) for size in SWEPT] for name in _MARKS}
        for word, share in _MEASURES.items()
    }
    drawn = [
        tag("figure", tag("figcaption", say(word, lang)), _plot(say(word, lang), lines, state.pack_size))
        for word, lines in told.items()
    ]
    grids = [_numbers(word, lines, state) for word, lines in told.items()]
    every = fold(say("packing.numbers", lang), *grids)
    note = tag("p", say("packing.sweep_note", lang), cls="dim small")
    return card(say("packing.sweep", lang), note, legend, tag("div", *drawn, cls="plots"), every)


def _row(compared: list[Row], algorithm: str) -> Row:
    return next(row for row in compared if row.algorithm == algorithm)


def _numbers(word: str, lines: Mapping[str, list[float]], state: State) -> Html:
    """The numbers of one drawing as a table."""
    head = [say("algorithm", state.lang), *(f"{size:,}" for size in SWEPT)]
    cells = [(name, *(percent(share) for share in shares)) for name, shares in lines.items()]
    return table(head, cells, caption=say(word, state.lang), best=list(lines).index(state.algorithm))


def _swatch(name: str) -> Html:
    mark = f'<path class="mark" transform="translate(17 7)" d="{_MARKS[name]}"/>'
    return tag(
        "svg", Html(f'<path class="line" d="M0 7H34"/>{mark}'), cls=f"plot swatch a-{name}", viewBox="0 0 34 14",
        aria_hidden="true",
    )  # fmt: skip


def _plot(title: str, lines: Mapping[str, list[float]], pack_size: int) -> Html:
    """Draw shares over pack sizes; text is text, and the numbers are said."""
    every = [share for shares in lines.values() for share in shares]
    low, high = _range(every)
    said = "; ".join(
        f"{name}: " + ", ".join(f"{size:,} {percent(share)}" for size, share in zip(SWEPT, shares, strict=True))
        for name, shares in lines.items()
    )
    grid = [_rule(low + at * (high - low) / 2, low, high) for at in range(3)]
    stops = [_text(_x(size), _HIGH - 6, _short(size), "middle") for size in SWEPT]
    here = _here(pack_size) if SWEPT[0] <= pack_size <= SWEPT[-1] else Html()
    drawn = [_line(name, shares, low, high) for name, shares in lines.items()]
    box = join([*grid, *stops, here, *drawn])
    return tag("svg", box, cls="plot", viewBox=f"0 0 {_WIDE} {_HIGH}", role="img", aria_label=f"{title}. {said}")


def _range(shares: list[float]) -> tuple[float, float]:
    """The axis: tenths round all shares, and at least one of them.

    Examples
    --------
    >>> _range([0.5, 0.97]), _range([0.0])
    ((0.5, 1.0), (0.0, 0.1))
    """
    low = min(0.9, floor(10 * min(shares) + 1e-9) / 10)
    high = next((at / 10 for at in range(11) if at / 10 > low and at / 10 >= max(shares)), 1.0)
    return low, high


def _x(size: float) -> float:
    first, last = log2(SWEPT[0]), log2(SWEPT[-1])
    return round(_LEFT + (_WIDE - _LEFT - _RIGHT) * (log2(size) - first) / (last - first), 1)


def _y(share: float, low: float, high: float) -> float:
    return round(_TOP + (_HIGH - _TOP - _BOTTOM) * (high - share) / (high - low), 1)


def _text(x: float, y: float, words: str, anchor: str) -> Html:
    return Html(f'<text x="{x}" y="{y}" text-anchor="{anchor}">{words}</text>')


def _short(size: int) -> str:
    return f"{size // 1024}k" if size >= 1024 else str(size)


def _rule(share: float, low: float, high: float) -> Html:
    y = _y(share, low, high)
    words = _text(_LEFT - 6, y + 4, percent(share, digits=0), "end")
    return Html(f'<path class="rule" d="M{_LEFT} {y}H{_WIDE - _RIGHT}"/>{words}')


def _here(size: int) -> Html:
    return Html(f'<path class="here" d="M{_x(size)} {_TOP - 6}V{_HIGH - _BOTTOM + 4}"/>')


def _line(name: str, shares: list[float], low: float, high: float) -> Html:
    spots = [(_x(size), _y(share, low, high)) for size, share in zip(SWEPT, shares, strict=True)]
    path = "L".join(f"{x} {y}" for x, y in spots)
    marks = "".join(f'<path class="mark" transform="translate({x} {y})" d="{_MARKS[name]}"/>' for x, y in spots)
    return Html(f'<g class="a-{name}"><title>{name}</title><path class="line" d="M{path}"/>{marks}</g>')
