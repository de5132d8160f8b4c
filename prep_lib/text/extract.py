"""A web page becomes its main text, by one of two engines, with limits that are counted and no clock.

Document, meta format "html" ──▶ Drop: not_html │ too_large │ too_many_… │ too_deep │ not_extractable │ no_content
                             ──▶ trafilatura   the more exact one      ──▶ Document: text; meta title, page_kind
                             ──▶ resiliparse   eight times as fast     ──▶
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from typing import Any, ClassVar

from prep_lib.errors import BadParameter
from prep_lib.record import Document, Drop
from prep_lib.registry import Registry
from prep_lib.text import page


@dataclass(frozen=True)
class Extract:
    """Take the main text out of a web page; a map stage.

    Parameters
    ----------
    engine : str
        ``"trafilatura"``: the more exact one. ``"resiliparse"``: the fast one; it keeps more of what stands around an
        article, and its cells are a tab apart where the other's are ``" | "`` apart.
    max_bytes : int
        Longer pages, as UTF-8, are dropped as ``too_large``.
    max_depth : int
        Pages with an element in more than this many others are dropped as ``too_deep``: the fast engine is quadratic
        in depth, and both call themselves once a level. Real articles reach 50. At most 300.
    max_tags : int
        Pages with more ``<`` are dropped as ``too_many_tags``. The 201 pages this was measured on reach 5,161.
    max_attributes : int
        Pages with more attributes in one tag are dropped as ``too_many_attributes``: both engines compare each with
        all before it. The 201 pages reach 663, if a script is read as a tag.
    comments : bool
        Whether what readers wrote under an article is kept.

    Returns
    -------
    Document or Drop
        From `map`. A document whose meta has no ``format: "html"`` comes back as it is. Otherwise `text` is plain
        text as a reader sees it, no Markdown: blocks a blank line apart, a heading a line of its own, ``- `` before an
        item, a table a line a row, code as it was with its tabs and indentation. Meta loses ``format`` and gains
        ``title`` (empty: none) and ``page_kind`` (see `kind_of`).

    Drops
    -----
    too_large, too_many_tags, too_many_attributes, too_deep : with the limit
    not_html : no tag in it, or a feed, a site map, a picture
    no_content : nothing was found that is no frame
    not_extractable : the engine failed on it

    Raises
    ------
    BadParameter
        If a limit is below 1 or not whole, or `max_depth` is over 300.
    UnknownName
        If there is no such engine.

    Notes
    -----
    Nothing depends on a clock, on the machine, or on the pages before: the engines' memory of duplicates is off.
    ``x<sup>2</sup>`` and MathML become ``x^2`` (`page.spell_out`). A block that the page says once is written once.
    Links alone at the end of an article go. If both the paragraphs of a page and the fast engine hold about twice what
    trafilatura found, it found one part of the page only, and the fast engine's text is taken.
    The fast engine leaves out lists of which more than a fifth is links.

    Source: trafilatura 2.3 (Barbaresi 2021, doi:10.18653/v1/2021.acl-demo.15), its fast mode, comments off;
    resiliparse 2.0 (Bevendorff et al. 2018, doi:10.1007/978-3-319-76941-7_83), main content.

    Examples
    --------
    >>> html = "<title>Cats</title><body><h1>Cats</h1><p>Cats sleep for most of the day, and hunt at dusk and dawn.</p>"
    >>> doc = Extract().map(Document("a.html", html, meta={"format": "html"}))
    >>> doc.text, dict(doc.meta)
    ('Cats\\n\\nCats sleep for most of the day, and hunt at dusk and dawn.', {'title': 'Cats', 'page_kind': 'other'})
    >>> Extract(max_bytes=100).map(Document("b.html", html, meta={"format": "html"}))
    Drop(reason='too_large', value=103, limit=100)
    """

    _: KW_ONLY
    engine: str = "trafilatura"
    max_bytes: int = 3_000_000
    max_depth: int = 250
    max_tags: int = 50_000
    max_attributes: int = 2_000
    comments: bool = False
    name: str = "extract"

    counted: ClassVar[tuple[str, ...]] = ("page_kind",)
    #: Libraries whose answers are written.
    packages: ClassVar[tuple[str, ...]] = ("trafilatura", "lxml", "resiliparse")

    def __post_init__(self) -> None:
        for limit in ("max_bytes", "max_depth", "max_tags", "max_attributes"):
            value = getattr(self, limit)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadParameter(f"text/extract: {limit} must be a whole number of 1 or more, got {value!r}")
        if self.max_depth > _DEEPEST:
            raise BadParameter(
                f"text/extract: max_depth may be {_DEEPEST} at most, got {self.max_depth}; "
                "deeper pages would exhaust the stack of the engines"
            )
        ENGINES[self.engine]

    def map(self, doc: Document) -> Document | Drop:
        """Return the document with its main text, or why there is none."""
        if doc.meta.get("format") != "html":
            return doc
        tags = self._accept(doc.text)
        if isinstance(tags, Drop):
            return tags
        try:
            found = ENGINES[self.engine](self, doc.text, tags)
        except RecursionError:
            return Drop("too_deep", limit=self.max_depth)
        except Exception:  # Libraries of others, on bytes of others: what goes wrong in them is a property of the page.
            return Drop("not_extractable")
        if isinstance(found, Drop):
            return found
        if not found.text:
            return Drop("no_content")
        meta = {key: value for key, value in doc.meta.items() if key != "format"}
        kind = kind_of(found.text, found.count)
        text = found.text
        if found.links is not None and kind == "article":
            text = page.without_last_links(text, found.links)
        return replace(doc, text=text, meta={**meta, "title": found.title, "page_kind": kind})

    def _accept(self, html: str) -> Drop | int:
        """Return how many ``<`` there are, or why the page is not read at all."""
        # A character is a byte at least and three or four at most: most pages need not be encoded to be measured.
        if 4 * len(html) > self.max_bytes and (size := len(html.encode("utf-8", "replace"))) > self.max_bytes:
            return Drop("too_large", size, self.max_bytes)
        if not html or html.isspace():
            return Drop("no_content")
        tags, attributes = page.survey(html)
        if tags > self.max_tags:
            return Drop("too_many_tags", tags, self.max_tags)
        if attributes > self.max_attributes:
            return Drop("too_many_attributes", attributes, self.max_attributes)
        return tags if _is_html(html) else Drop("not_html")


_DEEPEST = 300
_TAG = re.compile(r"<[a-zA-Z!]")
_NO_PAGE = ("<rss", "<feed", "<rdf:rdf", "<urlset", "<sitemapindex", "<svg", "<opml")


def _is_html(html: str) -> bool:
    head = html[:2000].lstrip("\ufeff \t\r\n\0").lower()
    if head.startswith(_NO_PAGE) or (head.startswith("<?xml") and "<html" not in head):
        return False
    return _TAG.search(html) is not None


# ---------------------------------------------------------------- the engines


@dataclass(frozen=True)
class Found:
    """What an engine found.

    Parameters
    ----------
    text, title : str
    count : callable
        How many elements of the page fit a CSS selector of those in `SELECTORS`, given by its name.
    links : callable or None
        Returns the text of each link. None: this engine cannot say so in reasonable time.
    """

    text: str
    title: str
    count: Callable[[str], int]
    links: Callable[[], Iterable[str]] | None = None


#: What is counted to tell the kind of a page: headings that are links, and links.
SELECTORS = {"teasers": "h2 a,h3 a,h4 a,a h2,a h3,a h4", "links": "a"}
#: Under this many characters of paragraphs nothing is worth a second look.
_LOOK_AGAIN = 1_000

ENGINES: Registry[Callable[[Extract, str, int], Found | Drop]] = Registry("text/extract", "engine")


def _trafilatura(stage: Extract, html: str, tags: int) -> Found | Drop:
    options, extraction = _options(stage.comments)
    tree = page.parse(html.encode("utf-8", "replace"))
    if tree is not None and next(tree.iter("sup", "sub", "math"), None) is not None:
        html = page.spell_out(html)
        tree = page.parse(html.encode("utf-8", "replace"))
    if tree is None:
        return Drop("no_content")
    if page.is_deeper(tree, stage.max_depth):
        return Drop("too_deep", limit=stage.max_depth)
    title = page.title_of(tree)
    page.prepare(tree)
    document = extraction(tree, options=options)
    text = "" if document is None else page.render(document.body)
    if text and page.is_run_together(document.body):
        text = page.apart(text, tree)
    if stage.comments and document is not None:
        text = "\n\n".join(filter(None, (text, page.render(document.commentsbody))))
    paragraphs = page.prose(tree)
    if paragraphs >= _LOOK_AGAIN and len(text) < 0.6 * paragraphs:
        other = _resiliparse(stage, html, tags)
        if isinstance(other, Found) and len(text) < 0.5 * len(other.text):
            text = other.text
    text = page.once(text, tree.text_content)
    return Found(
        text,
        title,
        lambda what: page.teasers(tree) if what == "teasers" else sum(1 for _ in tree.iter("a")),
        lambda: ("".join(link.itertext()) for link in tree.iter("a")),
    )


@cache
def _options(comments: bool) -> tuple[Any, Callable[..., Any]]:
    # Here and not at the top: a process that extracts nothing need not wait half a second for it.
    from trafilatura.core import bare_extraction
    from trafilatura.settings import Extractor

    # It says into the log what it discards; we return that.
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL + 1)
    return Extractor(output_format="txt", fast=True, comments=comments), bare_extraction


def _resiliparse(stage: Extract, html: str, tags: int) -> Found | Drop:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    if tags > 4 * _UNCLOSED and unclosed(html) > _UNCLOSED:
        return Drop("too_deep", limit=stage.max_depth)
    html = _LONE.sub(rf"\1{_KEPT}", html)
    try:
        tree = HTMLTree.parse(html)
    except UnicodeEncodeError:  # Half a surrogate pair: as the other engine, a question mark.
        html = html.encode("utf-8", "replace").decode("utf-8")
        tree = HTMLTree.parse(html)
    tree = _make_ready(tree, html, stage.max_depth)
    if isinstance(tree, Drop):
        return tree
    body = tree.body
    text = extract_plain_text(
        tree, main_content=True, alt_texts=False, comments=stage.comments, post_meta=False, list_bullets=True
    )
    text = text.replace(_KEPT, "").strip("\n")
    return Found(
        _BULLET.sub(r"\1- ", text) if "•" in text else text,
        page.squeeze((tree.title or "").replace(_KEPT, "")),
        lambda what: len(body.query_selector_all(SELECTORS[what])),
    )


ENGINES.add("trafilatura", _trafilatura)
ENGINES.add("resiliparse", _resiliparse)

#: The fast engine loses a text between two tags that is one character of three bytes: a Chinese full stop behind a bold
#: word, a dash, a euro sign. So it gets a second one, a noncharacter, which is taken out again.
_LONE = re.compile(r"(>\s*(?:[\u0800-\uffff]|&(?!nbsp)#?\w{2,12};))(?=\s*<)")
_KEPT = "\ufdd0"

_BULLET = re.compile(r"^(?:  )?( *)• ", re.MULTILINE)


def _make_ready(tree: Any, html: str, max_depth: int) -> Any:
    """Return the fast engine's tree, without what it would lose or take too long for, or a Drop."""
    from resiliparse.parse.html import HTMLTree

    if tree.body is None:
        return Drop("no_content")
    # One walk over the page asks for all: each costs as much as counting its elements.
    deep = "*>" * (max_depth + 1) + "*"
    asked = tree.body.query_selector_all(f"sup,sub,math,{_HIGH_LISTS},{deep}").values()
    if not all(node.matches(_HIGH_LISTS) for node in asked):
        if tree.body.query_selector(deep) is not None:
            return Drop("too_deep", limit=max_depth)
        if tree.body.query_selector("sup,sub,math") is not None:
            tree = HTMLTree.parse(page.spell_out(html))
        asked = tree.body.query_selector_all(_HIGH_LISTS).values()
    _lower(tree, asked)
    return tree


#: Lists that the fast engine takes for menus, whatever they hold, because they stand so high in the page.
_HIGH_LISTS = "body>ul,body>*>ul,body>*>*>ul"
_TEASERS = ",".join(f"h{level} a,a h{level}" for level in range(2, 7))


def _lower(tree: Any, lists: Iterable[Any]) -> None:
    """Put lists so deep into the page that the engine looks at what they hold: at most a fifth of links, no teasers."""
    for node in lists:
        if node.query_selector(_TEASERS) is None:
            for _ in range(3):
                around = tree.create_element("div")
                node.parent.replace_child(around, node)
                around.append_child(node)


#: So many bold, italic … elements may be open at once: HTML asks for a copy of each in every paragraph that follows.
_UNCLOSED = 1_000
_FORMATTING = re.compile(r"<(/?)(a|b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)(?=[\s/>])", re.IGNORECASE)


def unclosed(html: str) -> int:
    """Return how many formatting elements are open at the end of a page.

    Examples
    --------
    >>> unclosed("<p><b>x</b></i>"), unclosed("<b><p>" * 3000)
    (0, 3000)
    """
    opened: dict[str, int] = {}
    for closing, tag in _FORMATTING.findall(html):
        tag = tag.lower()
        opened[tag] = max(0, opened.get(tag, 0) + (-1 if closing else 1))
    return sum(opened.values())


# ---------------------------------------------------------------- the kind of a page


def _bytes(line: str) -> int:
    return len(line) if line.isascii() else len(line.encode("utf-8", "replace"))


def kind_of(text: str, count: Callable[[str], int]) -> str:
    """Tell an article from a page that leads to articles.

    Parameters
    ----------
    text : str
        What was extracted.
    count : callable
        Number of ``"teasers"`` (headings that are links) and of ``"links"`` on the page; asked only where it matters.

    Returns
    -------
    str
        ``article``: lines of prose, at least 250 bytes of them. ``listing``: five teasers or more, as many short lines
        as teasers, and less than 200 bytes of prose for each. ``navigation``: 20 links or more, less than 40
        characters of text for each, and no line of prose. ``other``: too little to tell.

    Examples
    --------
    >>> kind_of("Story 1\\n\\nA short teaser." * 6, lambda what: 6)
    'listing'
    """
    lines = [line for line in text.split("\n") if line]
    # In bytes: a sentence of Chinese is a third as long in characters.
    sizes = [_bytes(line) for line in lines if len(line) >= 34 and _bytes(line) >= 100]
    prose, short = sum(sizes), len(lines) - len(sizes)
    if prose >= 1000 and 2 * short < len(sizes):
        return "article"
    # Asked only where the answer can matter: it costs a walk over the page.
    if short >= 5 and prose < 200 * short and 5 <= (teasers := count("teasers")) <= short and prose < 200 * teasers:
        return "listing"
    if prose >= 250:
        return "article"
    links = 0 if sizes else count("links")
    return "navigation" if links >= 20 and len(text) < 40 * links else "other"
