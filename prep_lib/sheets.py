"""The numbers of a page as CSV, a file a table, with a link beside what it holds.

| share  | documents |
| 12.5 % | 1,200     |   ──links──▶   reports/csv/15_pack-2-1.csv     share,documents
  data-v=0.125002                                                       0.125002,1200

A number is a cell that was one before it was drawn. A text stays as it is, also one like a number: 007, 1.10, 1e5.
A spreadsheet runs what begins with = + - @, so a text that does, and is no number, gets a ' in front.
"""

from __future__ import annotations

import contextlib
import csv
import html
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

from prep_lib.files import write_whole
from prep_lib.markup import ODD, Html, attribute, plain, tag
from prep_lib.words import say

#: What a spreadsheet takes for the beginning of a formula, the forms of full width too.
_FORMULA = re.compile(r"(?![+-][\d.,]+(?:[eE][+-]?\d+)?(?: ?%)?$)\s*[=+\-@＝＋－＠]")
_LAST = re.compile(r"\s(-?[\d.,]+(?: ?%)?)$")
_ODD = re.compile(f"[{ODD}]")


class Sheets:
    """Where the CSV files of one page go.

    Parameters
    ----------
    folder : Path or None
        The folder the page lies in; files go into ``csv`` inside it. None: each file stands in its link, as a
        ``data:`` address, for a page that has no neighbours.
    stem : str
        The page; its files are ``STEM-NAME.csv``.
    lang : str
    mask : callable
        Takes out of a file what tells of this machine, as `safe.Mask` does.
    """

    def __init__(
        self, folder: Path | None, stem: str, lang: str = "en", mask: Callable[[str], str] = lambda text: text
    ) -> None:
        self.folder, self.stem, self.lang, self.mask = folder, stem, lang, mask

    def forget(self) -> None:
        """Remove what an earlier page of this name left."""
        for path in (self.folder / "csv").glob("*.csv") if self.folder else ():
            if path.name.startswith(f"{self.stem}-"):
                path.unlink(missing_ok=True)

    def link(self, name: str, head: Sequence[object], rows: Iterable[Sequence[object]]) -> Html:
        """Write one table and return the link to it."""
        text, file = self.mask(csv_text(head, rows)), f"{self.stem}-{name}.csv"
        if self.folder:
            path = self.folder / "csv" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            with write_whole(path, "w") as out:
                out.write(text)
            where = f"csv/{quote(file)}"
        else:
            where = f"data:text/csv;charset=utf-8,{quote(text)}"
        return tag("p", tag("a", say("sheets.link", self.lang), href=where, download=file), cls="small csv")


def csv_text(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as CSV, its first row the titles of the columns.

    Examples
    --------
    >>> csv_text(["source", "share"], [("web", 0.125), ("=1+1", 1200), ("007", "12.5 %")])
    "source,share\\nweb,0.125\\n'=1+1,1200\\n007,12.5 %\\n"
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_cell(str(title)) for title in head])
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> str:
    """Return a number without what makes it easy to read, and a text that no program takes for more."""
    if value is None or value == "–":
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    exact = getattr(value, "value", None)
    if exact is None and isinstance(value, Html):
        value = html.unescape(re.sub(r"<[^>]*>", "", value))
    exact = value if isinstance(value, int | float) else exact
    if exact is not None:
        return repr(int(exact) if exact == exact // 1 else float(exact))
    text = _ODD.sub(lambda match: html.unescape(attribute(match[0])), str(value))
    return f"'{text}" if _FORMULA.match(text) else text


def links(page: str, sheets: Sheets | None, name: str) -> Html:
    """Put a link to its numbers under each table that has some, and one under all that is drawn as bars.

    Parameters
    ----------
    page : str
        HTML whose elements are all closed, as `safe_html` writes it.
    sheets : Sheets or None
        None: the page stays as it is.
    name : str
        What the files are called: ``NAME-1`` and so on.
    """
    if sheets is None or ("<table" not in page and 'class="bar"' not in page):
        return Html(page)
    reader = _Tables(sheets, name)
    reader.feed(page)
    reader.close()
    return Html("".join(reader.out) + reader.bars())


class _Tables(HTMLParser):
    """Copies a page and writes the tables it comes across."""

    def __init__(self, sheets: Sheets, name: str) -> None:
        super().__init__(convert_charrefs=False)
        self.sheets, self.name, self.number = sheets, name, 0
        self.out: list[str] = []
        self.rows: list[list[Any]] = []
        self.depth, self.inside, self.ours = 0, False, False
        self.drawn: list[tuple[str, str, Any]] = []
        self.bar = ""

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.out.append(self.get_starttag_text() or "")
        given = dict(attributes)
        if name == "table":
            self.depth += 1
            self.ours = given.get("class") == "grid" if self.depth == 1 else self.ours
        if self.depth == 1 and name == "tr":
            self.rows.append([])
        if self.depth == 1 and name in ("td", "th") and self.rows:
            self.inside = True
            # Of tables that are not ours nobody knows which texts were numbers: each stays as it is written.
            number = self.ours and name == "td" and given.get("class") != "word"
            span = _span(given, "rowspan"), _span(given, "colspan")
            self.rows[-1].append(_Read(given.get("data-v"), number, *span))
        elif self.inside:
            self.rows[-1][-1].text += " "
        if given.get("class") == "bar":
            self.bar = given.get("aria-label") or ""
        elif self.bar and name == "span" and given.get("title"):
            self.drawn.append((self.bar, *_told(given["title"] or "")))

    def handle_endtag(self, name: str) -> None:
        if name == "table":
            self.depth -= 1
        self.inside = self.inside and not (self.depth <= 1 and name in ("td", "th", "tr", "table"))
        self.bar = "" if name == "div" else self.bar
        self.out.append(f"</{name}>")
        if name == "table" and not self.depth:
            self.out.append(self._written())
            self.rows = []

    def _written(self) -> str:
        rows = list(_grid(row for row in self.rows if row))
        if not any(not isinstance(value, str) or plain(value) is not None for row in rows[1:] for value in row):
            return ""
        self.number += 1
        return self.sheets.link(f"{self.name}-{self.number}", rows[0], rows[1:])

    def bars(self) -> str:
        """Return the link to what all bars of the page say."""
        if not self.drawn:
            return ""
        head = [say(f"sheets.{word}", self.sheets.lang) for word in ("bar", "part", "value")]
        return self.sheets.link(f"{self.name}-bars", head, self.drawn)

    def handle_data(self, data: str) -> None:
        self._copy(data, data)

    def handle_entityref(self, name: str) -> None:
        self._copy(f"&{name};", html.unescape(f"&{name};"))

    def handle_charref(self, name: str) -> None:
        self._copy(f"&#{name};", html.unescape(f"&#{name};"))

    def _copy(self, written: str, read: str) -> None:
        self.out.append(written)
        if self.inside:
            self.rows[-1][-1].text += read


class _Read:
    """A cell as it is read: its text, or the number it stands for.

    Parameters
    ----------
    exact : str or None
        The number to the last digit; empty: it is a text whatever it looks like.
    number : bool
        True: a text that looks like a number is one.
    high, wide : int
        Rows and columns it stands in.
    """

    def __init__(self, exact: str | None, number: bool, high: int, wide: int) -> None:
        self.exact, self.number, self.text, self.high, self.wide = exact, number, "", high, wide

    def read(self) -> float | str:
        with contextlib.suppress(ValueError):
            if math.isfinite(found := float(self.exact or "")):
                return int(self.exact or "") if found == found // 1 and "." not in str(self.exact) else found
        known = plain(self.text) if self.number and self.exact != "" else None
        return " ".join(self.text.split()) if known is None else known


def _span(given: dict[str, str | None], name: str) -> int:
    # pandas writes a label once for all its rows; a number nobody means is no reason to fill a disk.
    told = given.get(name) or ""
    return min(int(told), 1000) if re.fullmatch(r"[1-9]\d{0,5}", told) else 1


def _grid(rows: Iterable[Sequence[_Read]]) -> Iterator[list[float | str]]:
    """Yield the rows with what stands in several of them, or over several columns, in each."""
    carried: dict[int, tuple[int, float | str]] = {}
    for row in rows:
        out: list[float | str] = []

        def carry(out: list[float | str] = out) -> None:
            while carried.get(len(out), (0, ""))[0]:
                left, value = carried[len(out)]
                carried[len(out)] = left - 1, value
                out.append(value)

        for cell in row:
            carry()
            value = cell.read()
            carried.update((len(out) + at, (cell.high - 1, value)) for at in range(cell.wide))
            out += [value] * cell.wide
        carry()
        yield out


def _told(title: str) -> Iterator[Any]:
    """Split ``kept 1,200`` into what it is and how much: the number at its end, or else the first."""
    if (last := _LAST.search(title)) and (value := plain(last[1])) is not None:
        yield title[: last.start()].strip()
        yield value
        return
    words = title.split()
    yield " ".join(word for word in words if plain(word) is None) or title
    yield next((found for word in words if (found := plain(word)) is not None), "")
