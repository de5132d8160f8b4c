"""A page's tree made ready for extraction, and an extracted tree written as plain text.

bytes ──parse──▶ tree ──prepare──▶ tree, in which  x<sup>2</sup>          says  x^2
                                                   <math>…</math>         says  E = m c^2, or its LaTeX
                                                   <td><ul><li>a<li>b     says  <td><p>a<p>b
                                                   <pre>…spans…</pre>     says  <pre><code>its text</code></pre>
what an extractor found ──render──▶ text:   blocks a blank line apart; items, rows and lines of code a line each
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from html import escape, unescape
from typing import Any

import numpy as np

from prep_lib.jit import kernel

#: Bytes no page needs and no tree takes. Tab, line feed and carriage return stay.
_CONTROL = bytes(byte for byte in range(32) if byte not in (9, 10, 13)) + b"\x7f"
#: References to characters no tree takes: controls, surrogates, the two that are none.
_NO_CHARACTER = re.compile(
    rb"&#(?:[xX]0*(?:[0-8bBcCeEfF]|1[0-9a-fA-F]|[dD][89a-fA-F][0-9a-fA-F]{2}|[fF]{3}[eEfF])"
    rb"|0*(?:[0-8]|1[124-9]|2\d|3[01]|6553[45]))(?![0-9a-fA-F]);?"
)
#: A root that closes itself: browsers go on reading, libxml2 stops and the page is empty.
_CLOSED_ROOT = re.compile(rb"(<html\b[^<>]*?)\s*/>", re.IGNORECASE)

# ---------------------------------------------------------------- before reading


def survey(html: str) -> tuple[int, int]:
    """Count the ``<`` of a page, and the attributes of the tag that has most.

    Any ``<`` before a letter is taken for the start of a tag, in a script or a value too: what is a script engines
    settle differently, and none may meet a longer tag than was counted here.

    Examples
    --------
    >>> survey("<p a b=1 c='>' d=x><br>"), survey('<i title="<b x y z>">')
    ((2, 4), (2, 3))
    """
    # Two bytes a character: of all encodings the fastest to make, and only ASCII matters here.
    units = np.frombuffer(html.encode("utf-16-le", "surrogatepass"), np.uint16)
    tags, most = count_attributes(units)
    return int(tags), int(most)


@kernel
def count_attributes(units: Any) -> tuple[int, int]:
    """Follow a page through the states of HTML's tags, from every place where one could start at once.

    Parameters
    ----------
    units : (n,) uint16
        UTF-16.

    Returns
    -------
    tags, most : int
        The ``<``; the most attributes of one tag, closed or not.

    Notes
    -----
    A state holds the most attributes of all tags that are in it; -1: none is. Two tags in one state go on alike, so
    the time is linear however many starts there are.

    Source: HTML Living Standard, 13.2.5.8 and 13.2.5.32 to 39.
    """
    n, i, tags, most = len(units), 0, 0, 0
    name = before = inside = after = equal = double = single = bare = -1
    while i < n:
        c = units[i]
        i += 1
        if c > 62 or (c != 60 and c != 62 and c != 61 and c != 34 and c != 39 and c != 47 and c > 32):
            if max(before, after, equal) >= 0:
                bare, inside = max(bare, equal), max(inside, before + 1 if before >= 0 else -1)
                inside = max(inside, after + 1 if after >= 0 else -1)
                before = after = equal = -1
            while i < n and units[i] > 62:
                i += 1
        elif c == 62:
            most = max(most, name, before, inside, after, equal, bare)
            name = before = inside = after = equal = bare = -1
            if max(double, single) < 0:
                while i < n and units[i] != 60:
                    i += 1
        elif c == 61:
            bare, equal = max(bare, equal), max(inside, after)
            inside, before, after = (before + 1 if before >= 0 else -1), -1, -1
        elif c == 34 or c == 39:
            closed, opened = (double if c == 34 else single), equal
            if c == 34:
                double = opened
            else:
                single = opened
            inside = max(inside, before + 1 if before >= 0 else -1, after + 1 if after >= 0 else -1)
            before, after, equal = closed, -1, -1
            if max(name, before, inside, bare) < 0 and opened >= 0 and (single if c == 34 else double) < 0:
                while i < n and units[i] != c and units[i] != 60:
                    i += 1
        elif c == 47:
            before, bare = max(name, inside, after, before), max(bare, equal)
            name = inside = after = equal = -1
        elif c == 60:
            tags += 1
            inside = max(inside, before + 1 if before >= 0 else -1, after + 1 if after >= 0 else -1)
            bare = max(bare, equal)
            before = after = equal = -1
            if i < n and 97 <= (units[i] | 32) <= 122:
                name = max(name, 0)
        else:
            before, after = max(name, bare, before), max(inside, after)
            name = bare = inside = -1
    return tags, max(most, name, before, inside, after, equal, double, single, bare)


# ---------------------------------------------------------------- reading


def parse(html: bytes) -> Any | None:
    """Read a page.

    Parameters
    ----------
    html : bytes
        UTF-8. What the page says about its encoding is not read: whoever decoded it knew better.

    Returns
    -------
    lxml.html.HtmlElement or None
        The root, without comments; None: nothing in it is markup or text.

    Examples
    --------
    >>> [node.tag for node in parse(b"<p>One<p>Two").iter()]
    ['html', 'body', 'p', 'p']
    >>> parse(b"<!-- nothing -->") is None
    True
    """
    from lxml.etree import ParserError
    from lxml.html import HTMLParser, document_fromstring

    parser = HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True, collect_ids=False)
    html = html.translate(None, _CONTROL).replace(b"\xef\xbf\xbe", b"").replace(b"\xef\xbf\xbf", b"")
    html = _NO_CHARACTER.sub(b"", html)
    head = _CLOSED_ROOT.sub(rb"\1>", html[:4096], count=1)
    try:
        return document_fromstring(head + html[4096:], parser=parser)
    except ParserError:
        return None


def is_deeper(tree: Any, limit: int) -> bool:
    """Tell whether an element has more than `limit` others around it.

    Examples
    --------
    >>> is_deeper(parse(b"<div><div>x</div></div>"), 3), is_deeper(parse(b"<div><div>x</div></div>"), 2)
    (False, True)
    """
    # One level after the other in C: a walk in Python takes three times as long.
    return bool(tree.xpath(f"boolean({'/*' * (limit + 2)})"))


def title_of(tree: Any) -> str:
    """Return the page's title, else its first main heading, in one line; empty: it has neither."""
    for tag in ("title", "h1"):
        for node in tree.iter(tag):
            if text := squeeze("".join(node.itertext())):
                return text
    return ""


def teasers(tree: Any) -> int:
    """Count the headings of the second to fourth level that hold a link, or stand in one."""
    headings = tree.iter("h2", "h3", "h4")
    return sum(any(True for _ in node.iter("a")) or any(True for _ in node.iterancestors("a")) for node in headings)


def squeeze(text: str) -> str:
    """Make every run of white space one space, as a browser does outside ``pre``."""
    return " ".join(text.split())


# ---------------------------------------------------------------- making ready


def prepare(tree: Any) -> None:
    """Rewrite, in place, what extractors lose: layouts made of tables, lists in cells, the inside of ``pre``."""
    for node in list(tree.iter("pre")):
        _flatten(node)
    tables = list(tree.iter("table"))
    for table in [table for table in tables if _is_layout(table)]:
        # From the inside the marks would change what is a layout: all are found before any is changed.
        _open_layout(table)
    if tables:
        for cell in tree.iter("td", "th"):
            _free_lists(cell)


def _flatten(node: Any) -> None:
    """Make a ``pre`` one ``code`` with its text: spans of a highlighter hide from extractors that it is code."""
    for line_break in node.iter("br"):
        line_break.tail = "\n" + (line_break.tail or "")
    text = "".join(node.itertext())
    for child in list(node):
        node.remove(child)
    node.text = None
    if text.strip():
        code = node.makeelement("code")
        code.text = text
        node.append(code)


def _cells(table: Any) -> Iterator[Any]:
    """Yield the cells of a table, without those of a table in it."""
    for row in table.iterchildren("tr", "tbody", "thead", "tfoot"):
        if row.tag == "tr":
            yield from row.iterchildren("td", "th")
        else:
            yield from _cells(row)


def _is_layout(table: Any) -> bool:
    """Tell a table that places parts of a page: there is a table in it, or a cell holds paragraphs."""
    if table.find(".//table") is not None:
        return True
    return any(len(list(cell.iter("p"))) > 2 and len("".join(cell.itertext())) > 500 for cell in _cells(table))


def _open_layout(table: Any) -> None:
    for cell in _cells(table):
        cell.getparent().tag = cell.tag = "div"
    for group in table.iterchildren("tbody", "thead", "tfoot", "caption"):
        group.tag = "div"
    table.tag = "div"


def _free_lists(cell: Any) -> None:
    """Make the items of a list in a cell paragraphs of the cell, unless it is a list of links: a menu in a layout."""
    for block in list(cell.iter("ul", "ol", "dl")):
        linked = sum(len("".join(link.itertext())) for link in block.iter("a"))
        if 2 * linked < len("".join(block.itertext())):
            for item in block.iter("li", "dt", "dd"):
                item.tag = "p"
            block.drop_tag()


# ---------------------------------------------------------------- what is raised, lowered or a formula

#: Between these the text before a raised digit goes on: ``<i>x</i><sup>2</sup>``.
_INLINE = re.compile(
    r"</?(?:a|abbr|b|bdi|bdo|cite|code|em|font|i|kbd|mark|q|s|samp|small|span|strong|tt|u|var)\b[^<>]*>", re.IGNORECASE
)
_TAG = re.compile(r"<[^<>]*>")


def spell_out(html: str) -> str:
    """Write ``sup``, ``sub`` and MathML as text, so that no extractor makes 103 of a power of ten.

    Examples
    --------
    >>> spell_out("<p>10<sup>3</sup> H<sub>2</sub>O, the 1<sup>st</sup> <i>x</i><sup>2</sup>")
    '<p>10^3 H<sub>2</sub>O, the 1<sup>st</sup> <i>x</i>^2'
    >>> spell_out("<math><msup><mi>c</mi><mn>2</mn></msup></math>")
    'c^2'
    """
    html = _rewrite(html, "math", lambda before, element: escape(formula(element), quote=False))
    return _rewrite(_rewrite(html, "sup", partial(_raise, "sup")), "sub", partial(_raise, "sub"))


def _rewrite(html: str, tag: str, write: Callable[[str, str], str | None]) -> str:
    """Replace each element of a kind by what `write` says; None: it stays. In one pass, however many are not closed."""
    opening, closings = (f"<{tag}", f"<{tag.upper()}"), (f"</{tag}", f"</{tag.upper()}")
    if not any(one in html for one in closings):
        return html
    # Without a flag for case: with it, every character of the page is looked at one by one.
    parts = re.split(f"((?:{'|'.join(closings)})>)", html)
    done: list[str] = []
    for text, closing in zip(parts[::2], [*parts[1::2], ""], strict=True):
        start = max(map(text.rfind, opening)) if closing else -1
        new = None if start < 0 else write("".join(done[-2:])[-80:] + text[:start], text[start:] + closing)
        done += (text + closing,) if new is None else (text[:start], new)
    return "".join(done)


def _raise(tag: str, before: str, element: str) -> str | None:
    if len(element) > 400:
        return None
    before = before[-200:]
    if 0 <= before.find(">") < before.find("<") or (">" in before and "<" not in before):
        before = before.partition(">")[2]
    before = unescape(_TAG.sub(" ", _INLINE.sub("", before)))
    return raised(tag, before, unescape(_TAG.sub("", element)), linked="<a" in element.lower()) or None


#: What may stand raised without being a power: ordinals (1st, 2e, n°), marks. One letter is a power unless it is here.
_ORDINAL = frozenset("eoardªº°*†‡§")
_NUMBER = re.compile(r"[-+\u2212\u2013]?\d[\d.,]*")
#: Letters with a number or a sign among them; words and ordinals have none.
_RECKONED = re.compile(r"(?=.*[-\d+*/^=\u2212])[-\w\s.,()*/^+=\u2212\u2013]{2,}")
_CHEMICAL = re.compile(r"(?:^|[^a-zA-Z])(?:[A-Z][a-z]?\d*|[()\[\]])+$")


def raised(tag: str, before: str, inside: str, *, linked: bool = False) -> str:
    """Say how a ``sup`` or ``sub`` is written in a line of text.

    Parameters
    ----------
    tag : str
        ``sup`` or ``sub``.
    before, inside : str
        The text straight before it, and its own.
    linked : bool
        Whether it is a link: then a bare number is a note, ``[3]``.

    Returns
    -------
    str
        Empty: as it stands, because nothing is lost when the tag goes (``1st``, ``H2O``, ``™``).

    Examples
    --------
    >>> raised("sup", "x", "2"), raised("sup", "10", "-3"), raised("sup", "2", "n+1"), raised("sup", "1", "st")
    ('^2', '^-3', '^(n+1)', '')
    >>> raised("sub", "H", "2"), raised("sub", "x", "1"), raised("sup", "word", "3", linked=True)
    ('', '_1', '[3]')
    """
    inside = squeeze(inside)
    if not inside or not before or before[-1].isspace():
        return ""
    if linked:
        return f"[{inside}]" if inside.isdecimal() else ""
    if tag == "sub" and _CHEMICAL.search(before):
        return ""
    mark = "^" if tag == "sup" else "_"
    if _NUMBER.fullmatch(inside) or (len(inside) == 1 and inside.isalpha() and inside not in _ORDINAL):
        return mark + inside
    return f"{mark}({inside})" if _RECKONED.fullmatch(inside) else ""


def formula(math: str) -> str:
    """Write MathML in a line: its LaTeX where it carries it, else powers, indices, fractions and roots spelled out.

    Examples
    --------
    >>> index = "<msub><mi>x</mi><mi>n</mi></msub>"
    >>> formula(f"<math><mfrac><mn>1</mn>{index}</mfrac><mo>+</mo><msqrt><mn>2</mn></msqrt></math>")
    '1/(x_n) + sqrt(2)'
    """
    tree = parse(math.encode("utf-8", "replace"))
    if tree is None or is_deeper(tree, 100):
        return ""
    for node in tree.iter():
        if _name(node) == "annotation" and "tex" in (node.get("encoding") or ""):
            return f"${squeeze(node.text or '')}$"
        if _name(node) == "math" and node.get("alttext"):
            return f"${squeeze(node.get('alttext'))}$"
    return squeeze(_math(tree))


def _name(node: Any) -> str:
    tag = node.tag
    return tag.rpartition("}")[2].rpartition(":")[2] if isinstance(tag, str) else ""


def _group(text: str) -> str:
    text = squeeze(text)
    return text if len(text) < 2 or text.isalnum() else f"({text})"


def _math(node: Any) -> str:
    name = _name(node)
    if name in ("annotation", "annotation-xml"):
        return ""
    parts = [_math(child) for child in node]
    if name in ("msup", "mover") and len(parts) == 2:
        return f"{_group(parts[0])}^{_group(parts[1])}"
    if name in ("msub", "munder") and len(parts) == 2:
        return f"{_group(parts[0])}_{_group(parts[1])}"
    if name in ("msubsup", "munderover") and len(parts) == 3:
        return f"{_group(parts[0])}_{_group(parts[1])}^{_group(parts[2])}"
    if name == "mfrac" and len(parts) == 2:
        return f"{_group(parts[0])}/{_group(parts[1])}"
    if name == "mroot" and len(parts) == 2:
        return f"root({squeeze(parts[0])}, {squeeze(parts[1])})"
    if name == "msqrt":
        return f"sqrt({squeeze(''.join(parts))})"
    if name == "mo":
        sign = (node.text or "").strip()
        return sign if sign in ("(", ")", "[", "]", "\u2061", "\u2062", "") else f" {sign} "
    return (node.text or "") + "".join(part + (child.tail or "") for part, child in zip(parts, node, strict=True))


# ---------------------------------------------------------------- writing


def runs(tree: Any) -> Iterator[str]:
    """Yield what a page says, one text a block element; scripts and styles left out."""
    from lxml.etree import iterwalk

    loose: list[str] = []
    walk = iterwalk(tree, events=("start", "end"))
    for event, node in walk:
        starts, unseen = event == "start", node.tag in _UNSEEN
        if starts and unseen:
            walk.skip_subtree()
        elif node.tag not in _INSIDE:
            yield from _lines(loose)
            loose = []
        loose.append((("" if unseen else node.text) if starts else node.tail) or "")
    yield from _lines(loose)


_UNSEEN = frozenset(("head", "noscript", "rp", "rt", "rtc", "script", "style", "template"))
#: Elements that are part of a line.
_INSIDE = _UNSEEN.union(
    (
        "a",
        "abbr",
        "b",
        "bdi",
        "bdo",
        "big",
        "cite",
        "code",
        "data",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "img",
        "ins",
        "kbd",
    ),
    (
        "label",
        "mark",
        "nobr",
        "q",
        "rb",
        "ruby",
        "s",
        "samp",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "time",
    ),
    ("tt", "u", "var", "wbr"),
)


def apart(text: str, tree: Any) -> str:
    """Put the blocks of a page apart again that were run together to one text; other texts come back as they are."""
    whole, at, blocks = squeeze(text), 0, []
    for run in runs(tree):
        run = squeeze(run)
        if (found := whole.find(run, at)) in (at, at + 1):
            blocks.append(run)
            at = found + len(run)
    return "\n\n".join(blocks) if at == len(whole) else text


def is_run_together(body: Any) -> bool:
    """Tell what an extractor gives that found no structure: one to three paragraphs without any markup."""
    return len(body) <= 3 and all(node.tag == "p" and len(node) == 0 for node in body)


def render(body: Any) -> str:
    """Write an extracted tree as text.

    Parameters
    ----------
    body : lxml element
        In trafilatura's vocabulary: ``p head quote list item table row cell code lb``.

    Returns
    -------
    str
        Blocks are a blank line apart. A list has a line an item, ``- `` before it and two spaces a level; a table a
        line a row, its cells ``" | "`` apart; code is as it was, nothing around it. A heading is a line of its own.
    """
    return "\n\n".join(_blocks(body))


#: Stands for a line end that was meant until white space is squeezed; no tree can hold it.
_BREAK = "\0"


def _blocks(node: Any) -> Iterator[str]:
    """Yield the blocks in a node: its children that are blocks, and the text between them."""
    loose = [node.text or ""]
    for child in node:
        writer = _writer(child)
        if writer is None:
            loose += (_inline(child), child.tail or "")
            continue
        yield from _lines(loose)
        yield from writer(child)
        loose = [child.tail or ""]
    yield from _lines(loose)


def _writer(node: Any) -> Callable[[Any], Iterator[str]] | None:
    """Return what writes a block; None: the node is part of a line. Code is a block if it stands alone or has lines."""
    if node.tag == "code" and node.getparent().tag != "body" and "\n" not in "".join(node.itertext()).strip("\n"):
        return None
    return _WRITERS.get(node.tag)


def _inline(node: Any) -> str:
    own = _BREAK if node.tag == "lb" else node.text or ""
    return own + "".join(_inline(child) + (child.tail or "") for child in node)


def _lines(loose: list[str]) -> Iterator[str]:
    """Yield one block, its white space squeezed line by line, or nothing."""
    text = "\n".join(line for part in "".join(loose).split(_BREAK) if (line := squeeze(part)))
    if text:
        yield text


def _code(node: Any) -> Iterator[str]:
    text = "\n".join(line.rstrip() for line in _inline(node).replace(_BREAK, "\n").split("\n")).strip("\n")
    if text:
        yield text


def _list(node: Any) -> Iterator[str]:
    text = "\n".join(_items(node))
    if text:
        yield text


def _items(node: Any) -> Iterator[str]:
    """Yield the lines of a list. What stands in a list and is no item is read as one."""
    for item in node:
        nested, term = item.tag == "list", (item.get("rend") or "")[:2] in ("dt", "dd")
        # Terms and their definitions are lines as a reader sees them, without a mark.
        first, other = ("  ", "  ") if nested else ("", "") if term else ("- ", "  ")
        for block in _list(item) if nested else _blocks(item):
            for line in block.split("\n"):
                yield first + line if line else ""
                first = other
        if item.tail and not item.tail.isspace():
            yield other + squeeze(item.tail)


def _table(node: Any) -> Iterator[str]:
    rows = [[list(_blocks(cell)) for cell in row.iterchildren("cell")] for row in node.iterchildren("row")]
    if all(sum(map(bool, row)) < 2 for row in rows):
        # One cell a row: a layout, and what is in it is no table.
        yield from (block for row in rows for cell in row for block in cell)
        return
    yield "\n".join(line for row in rows if (line := _row(row)))


def _row(cells: Iterable[list[str]]) -> str:
    texts = [" / ".join(" ".join(line.split()) for block in cell for line in block.split("\n")) for cell in cells]
    while texts and not texts[-1]:
        texts.pop()
    return " | ".join(texts)


_WRITERS: dict[str, Callable[[Any], Iterator[str]]] = {
    **dict.fromkeys(("p", "head", "quote", "div", "body"), _blocks), "code": _code, "list": _list, "table": _table,
}  # fmt: skip


# ---------------------------------------------------------------- looking over


def prose(tree: Any) -> int:
    """Count the characters in the page's paragraphs of a line or more, those of its frame left out."""
    found = 0
    for node in tree.iter("p"):
        size = len("".join(node.itertext()))
        if size >= 80 and next(node.iterancestors("footer", "aside", "nav", "form"), None) is None:
            found += size
    return found


def once(text: str, page: Callable[[], str], least: int = 80) -> str:
    """Leave out each block that was there before although the page says it once only.

    Parameters
    ----------
    text : str
    page : callable
        Returns all text of the page; asked only if a block comes twice.
    least : int
        Characters a block has to have: a short one may well be meant twice.
    """
    blocks = text.split("\n\n")
    long = [block for block in blocks if len(block) >= least]
    if len(set(long)) == len(long):
        return text
    there, seen, kept = squeeze(page()), dict.fromkeys(long, 0), []
    for block in blocks:
        if block in seen:
            seen[block] += 1
            if seen[block] > max(1, there.count(squeeze(block))):
                continue
        kept.append(block)
    return "\n\n".join(kept)


def without_last_links(text: str, links: Callable[[], Iterable[str]]) -> str:
    """Leave out the blocks at the end that are links and nothing else, and the short line that announced them.

    Parameters
    ----------
    text : str
    links : callable
        Returns the text of each link of the page; asked only if the last line is no sentence.
    """
    blocks = text.split("\n\n")
    if len(blocks) < 2 or blocks[-1][-1:] in _STOPS:
        return text
    linked, end = {squeeze(link) for link in links()}, len(blocks)
    while end > 1 and all(line.removeprefix("- ").strip() in linked for line in blocks[end - 1].split("\n")):
        end -= 1
    while 1 < end < len(blocks) and len(blocks[end - 1]) <= 40 and blocks[end - 1][-1] not in _STOPS:
        end -= 1
    return "\n\n".join(blocks[:end])


_STOPS = frozenset(".!?\"'”’»)。！？」』؟।")
