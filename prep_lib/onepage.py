"""One page of PDF: a verdict, figures, bars and lists, cut to fit; text stays text, in English and Chinese.

    ┌ title ─────────────────────────────┐
    │ verdict, in as many lines as it is │
    │ 3,600 records   3,563 kept   …     │      figures
    │ near_dedup  ████████████▒▒  346    │      bars
    │ 12_dedup.threshold   0.7           │      pairs
    │ … and 4 more                       │      what did not fit is counted
    └────────────────────────────────────┘

Made by reportlab: pure Python under a BSD licence, with the metrics of Adobe's Song typeface built in, so that Chinese
is set without a font file here; the reader's program brings the shapes. The same blocks give the same bytes: no clock,
no random id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from prep_lib.files import write_whole
from prep_lib.words import say

#: A4 upright, its margin, and sizes of type: points.
WIDTH, HEIGHT, MARGIN = 595.0, 842.0, 42.0
TITLE, HEAD, BODY, SMALL = 15.0, 9.5, 8.5, 7.5

#: Typefaces: what Windows' Latin alphabet holds, its bold, and Chinese.
LATIN, BOLD, CHINESE = "Helvetica", "Helvetica-Bold", "STSong-Light"

#: Colours of the stylesheet.
INK, DIM, LINE = "#1b2330", "#566173", "#d5dbe5"
COLOURS = {"kept": "#2f6fb7", "dropped": "#e8a33d", "failed": "#b3372b", "bad": "#9c1c16", "warn": "#7a4a00"}

#: Characters of one cell, and what stands for those no typeface here has.
CELL, MISSING = 400, "□"


@dataclass(frozen=True)
class Said:
    """Sentences; `kind` is ``bad`` or ``warn`` for one that begins with a mark, or empty."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Figures:
    """Numbers with what they are, beside each other."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Bars:
    """Stages: what each is called, what is written behind it, and its parts by kind; up to `most` are drawn."""

    title: str
    rows: Sequence[tuple[str, str, dict[str, int]]]
    most: int = 20


@dataclass(frozen=True)
class Pairs:
    """A table of short texts, the first column the name; up to `most` rows are set."""

    title: str
    rows: Sequence[Sequence[str]]
    most: int = 12


Block = Said | Figures | Bars | Pairs


def write(path: str | Path, title: str, blocks: Sequence[Block], lang: str = "en") -> None:
    """Write one page.

    Parameters
    ----------
    path : path
    title : str
    blocks : sequence
        Set in order; what does not fit at the foot of the page is counted there.
    lang : str
    """
    canvas = _canvas(title)
    page = _Sheet(canvas, lang)
    page.title(title)
    for block in blocks:
        page.put(block)
    page.foot()
    canvas.showPage()
    with write_whole(path) as file:
        file.write(canvas.getpdfdata())


def _canvas(title: str) -> Any:
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont
    from reportlab.pdfgen.canvas import Canvas

    pdfmetrics.registerFont(UnicodeCIDFont(CHINESE))
    # invariant: neither the clock nor a random id is written.
    canvas = Canvas("", pagesize=(WIDTH, HEIGHT), invariant=1, pageCompression=0)
    canvas.setTitle(plain(title))
    canvas.setCreator("prep_lib")
    return canvas


def plain(text: str) -> str:
    """Return text in characters that can be set, on one line."""
    return "".join(char if _face(char) else MISSING for char in " ".join(text.split()))


@cache
def _face(char: str) -> str:
    """Return the typeface that has a character; empty: none here."""
    if char.isprintable():
        try:
            char.encode("cp1252")
            return LATIN
        except UnicodeEncodeError:
            pass
        try:
            return CHINESE if len(char.encode("gbk")) == 2 else ""
        except UnicodeEncodeError:
            pass
    return ""


def _runs(text: str, bold: bool) -> Iterator[tuple[str, str]]:
    """Cut text into pieces of one typeface."""
    piece, face = "", ""
    for char in text:
        wanted = _face(char) or CHINESE
        if wanted != face and piece:
            yield piece, BOLD if bold and face == LATIN else face
            piece = ""
        piece, face = piece + char, wanted
    if piece:
        yield piece, BOLD if bold and face == LATIN else face


def _width(text: str, size: float, bold: bool = False) -> float:
    from reportlab.pdfbase.pdfmetrics import stringWidth

    return sum(stringWidth(piece, face, size) for piece, face in _runs(text, bold))


def _wrapped(text: str, size: float, room: float, most: int) -> list[str]:
    """Break text into lines, between words where there are blanks, anywhere where a word is too long."""
    lines, line = [], ""
    for word in _words(plain(text)):
        if _width(line + word, size) > room and line:
            lines.append(line.rstrip())
            line = ""
        line = line + word if line or word != " " else line
    lines += [line.rstrip()] if line.strip() else []
    return lines if len(lines) <= most else [*lines[: most - 1], _fitted(lines[most - 1] + "…" * 2, size, room)]


def _words(text: str) -> Iterator[str]:
    word = ""
    for char in text:
        if char == " " or _face(char) == CHINESE or len(word) > 60:
            yield from (piece for piece in (word,) if piece)
            yield char
            word = ""
        else:
            word += char
    if word:
        yield word


def _fitted(text: str, size: float, room: float, bold: bool = False) -> str:
    """Cut text so that it fits, with a mark."""
    text = plain(text[:CELL])
    if _width(text, size, bold) <= room:
        return text
    while text and _width(text + "…", size, bold) > room:
        text = text[:-1]
    return text + "…"


class _Sheet:
    """The page being set: where the next line goes, and what found no place."""

    def __init__(self, canvas: Any, lang: str) -> None:
        self.canvas, self.lang = canvas, lang
        self.y, self.left = HEIGHT - MARGIN, 0

    def _draw(self, x: float, text: str, size: float, colour: str = INK, *, bold: bool = False) -> None:
        from reportlab.lib.colors import HexColor

        self.canvas.setFillColor(HexColor(colour))
        line = self.canvas.beginText(x, self.y)
        for piece, face in _runs(text, bold):
            line.setFont(face, size)
            line.textOut(piece)
        self.canvas.drawText(line)

    def _box(self, x: float, width: float, height: float, colour: str) -> None:
        from reportlab.lib.colors import HexColor

        self.canvas.setFillColor(HexColor(colour))
        self.canvas.rect(x, self.y - 1, width, height, stroke=0, fill=1)

    def _room(self, lines: float = 1.0) -> bool:
        return self.y - lines * (BODY + 3) > MARGIN + 14

    def _down(self, by: float = BODY + 3) -> None:
        self.y -= by

    def title(self, text: str) -> None:
        self._down(TITLE)
        self._draw(MARGIN, _fitted(text, TITLE, WIDTH - 2 * MARGIN, bold=True), TITLE, bold=True)
        self._down(TITLE)

    def put(self, block: Block) -> None:
        put = {Said: self._said, Figures: self._figures, Bars: self._bars, Pairs: self._pairs}
        put[type(block)](block)  # type: ignore[operator]

    def _said(self, block: Said) -> None:
        mark = {"bad": "× ", "warn": "! "}.get(block.kind, "")
        for line in _wrapped(mark + block.text, BODY, WIDTH - 2 * MARGIN, most=5):
            if not self._room():
                self.left += 1
                return
            self._draw(MARGIN, line, BODY, COLOURS.get(block.kind, INK))
            self._down()
        self._down(2)

    def _figures(self, block: Figures) -> None:
        if not self._room(3):
            self.left += 1
            return
        step = (WIDTH - 2 * MARGIN) / max(1, len(block.pairs))
        self._down(6)
        for at, (name, value) in enumerate(block.pairs):
            self._draw(MARGIN + at * step, _fitted(value, TITLE - 2, step - 6, bold=True), TITLE - 2, bold=True)
            self.y -= 11
            self._draw(MARGIN + at * step, _fitted(name, SMALL, step - 6), SMALL, DIM)
            self.y += 11
        self._down(24)

    def _heading(self, text: str) -> None:
        self._down(4)
        self._draw(MARGIN, _fitted(text, HEAD, WIDTH - 2 * MARGIN, bold=True), HEAD, DIM, bold=True)
        self._down(HEAD + 3)

    def _bars(self, block: Bars) -> None:
        shown = self._shown(block.title, block.rows, block.most)
        whole = max((sum(parts.values()) for _, _, parts in shown), default=0)
        name, room = 150.0, 190.0
        for label, told, parts in shown:
            self._draw(MARGIN, _fitted(label, BODY, name - 8), BODY)
            x = MARGIN + name
            for kind, count in filter(itemgetter(1), parts.items()):
                width = room * count / whole if whole else 0
                self._box(x, width, BODY - 1, COLOURS[kind])
                x += width
            start = MARGIN + name + room + 8
            self._draw(start, _fitted(told, SMALL, WIDTH - MARGIN - start), SMALL, DIM)
            self._down()
        self._rest(len(block.rows) - len(shown))

    def _pairs(self, block: Pairs) -> None:
        shown = self._shown(block.title, block.rows, block.most)
        for row in shown:
            rest = (WIDTH - 2 * MARGIN - 170) / max(1, len(row) - 1)
            for at, cell in enumerate(row):
                x, room = (MARGIN, 164.0) if at == 0 else (MARGIN + 170 + (at - 1) * rest, rest - 6)
                room = WIDTH - 2 * MARGIN if len(row) == 1 else room
                self._draw(x, _fitted(cell, BODY, room), BODY, INK if at else DIM)
            self._down()
        self._rest(len(block.rows) - len(shown))

    def _shown(self, title: str, rows: Sequence[Any], most: int) -> list[Any]:
        """Return the rows there is room for, their heading set."""
        lines = int((self.y - MARGIN - 14) // (BODY + 3)) - 3
        shown = list(rows[: max(0, min(most, lines))])
        if shown:
            self._heading(title)
        return shown

    def _rest(self, count: int) -> None:
        if count > 0 and self._room():
            self._draw(MARGIN, say("onepage.more", self.lang, n=count), SMALL, DIM)
            self._down()
        elif count > 0:
            self.left += count

    def foot(self) -> None:
        self.y = MARGIN
        said = [say("onepage.foot", self.lang)]
        said += [say("onepage.left", self.lang, n=self.left)] if self.left else []
        self._draw(MARGIN, _fitted(" ".join(said), SMALL, WIDTH - 2 * MARGIN), SMALL, DIM)
