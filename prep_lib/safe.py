"""HTML of a notebook made harmless, and texts without what tells of this machine.

    <b onclick="x()">a</b><script>…     ──safe_html──▶   <b>a</b>
    /home/me/work/data/a.jsonl          ──Mask───────▶   data/a.jsonl

The second wall behind a page's own policy: a page that is opened elsewhere must not depend on it.
"""

from __future__ import annotations

import getpass
import itertools
import platform
import re
import sys
from html import unescape as html_of
from html.parser import HTMLParser
from pathlib import Path

from prep_lib import markup
from prep_lib.markup import Html, escape
from prep_lib.workspace import CHECKOUT

#: The class of the box a page puts an output into: its style sheets end there.
OWN = "out"


class Mask:
    """Takes this machine out of a text: paths, home folders, the host's name."""

    def __init__(self, root: Path) -> None:
        folders = [(root, ""), (CHECKOUT, ""), (Path(sys.prefix), "python/"), (Path.home(), "~/")]
        # A root as short as "/" or "/data" is not told apart from data that happens to say the same.
        rules = [(rf"{re.escape(str(path))}(?![\w.-])/?", name) for path, name in folders if len(path.parts) > 2]
        rules.append((r"(?:/home|/Users)/[^/\s\"'<>:&]+|/root(?=/)|[A-Z]:\\{1,2}Users\\{1,2}[^\\\s<&]+", "~"))
        host = platform.node()
        if len(host) > 2 and host != "localhost":
            name = rf"\b{re.escape(host)}\b"
            # A host called "train" must not take a word out of the data.
            rules.append((rf"(?<=@){name}|(?<= on ){name}" if host.isalpha() else name, "host"))
        rules += _PRIVATE
        if len(user := _user()) > 2 and user != "root":
            # Only where a name can be nothing else: it may be a word of the data, too.
            rules.append((rf"(?<=[/\\]){re.escape(user)}(?![\w.-])|\b{re.escape(user)}(?=@)", "user"))
        self.rules = [(re.compile(pattern), name) for pattern, name in rules]

    def __call__(self, text: str) -> str:
        """Return `text` with what tells of this machine replaced."""
        for pattern, name in self.rules:
            text = pattern.sub(name, text)
        return text


#: The end of a line: as it is, in Python's spelling, and as a page shows it.
_LINE = r"(?:\n|\\n|<i class=\"s\">↵</i>\n?|↵)"

#: Where an address ends.
_TO_END = r"[^\s\"'<>,;&]"

#: What is nobody's business wherever the run was made: who asks an address, where a cluster's machines listen (each
#: form of `cluster.parse`, and as errors name them), on which machine a store is, and the lines of a traceback, of
#: which the last says what is wrong. A bucket is no machine, and pages on the web are data: both stay.
_PRIVATE = [
    (r"(://)[^/\s@\"'<>]+@", r"\1"),
    (rf"\b((?:tcp|tls|ucx|ray)://){_TO_END}+", r"\1host"),
    (rf"\b((?:dask|ray):)(?!\w+://){_TO_END}+:\d+", r"\1host"),
    (rf"\b((?:dask|ray|scheduler|answers) at )(?!\w+://){_TO_END}+:\d+", r"\1host"),
    (rf"(--address[ =]|\baddress=)(?!\w+://){_TO_END}+:\d+", r"\1host"),
    (r"(engine: worker )(?!\w+://)[^\s:]+", r"\1host"),
    (r"\b((?:sftp|ssh|scp|ftps?|hdfs|webhdfs|smb)://)[^/\s\"'<>,;&]+", r"\1host"),
    (r"\b[\w.+-]+@[\w.-]+(?=:[/~])", "user@host"),
    (rf"Traceback \(most recent call last\):{_LINE}(?:[ \t]+.*?{_LINE}|{_LINE})*", ""),
]


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no name for this number, and none in the environment
        return ""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


class _Safe(HTMLParser):
    """Writes HTML anew out of what is known to be harmless, each element closed: the second wall behind the policy.

    Nothing is copied: a browser and this parser may read the same text differently, but what is written here both
    read the same.
    """

    #: Left out with everything inside.
    GONE = _names("script iframe object embed applet frame frameset noscript template math")
    #: Written; of any other element only what is inside.
    KNOWN = _names(
        "a abbr article aside b bdi blockquote br caption center cite code col colgroup dd del details dfn div dl dt "
        "em figcaption figure font footer h1 h2 h3 h4 h5 h6 header hr i img ins kbd label li mark nav ol p pre q s "
        "samp section small span strike strong sub summary sup table tbody td tfoot th thead time tr tt u ul var wbr"
    )
    #: Written inside a drawing; any other element ends it, as in a browser.
    DRAWN = _names(
        "svg g path rect circle ellipse line polyline polygon text tspan title desc defs lineargradient "
        "radialgradient stop pattern clippath mask marker symbol use image a"
    )
    EMPTY = _names("br col hr img wbr")
    #: Attributes that are written if their value asks for nothing; ``aria-`` and ``data-`` too.
    PLAIN = re.compile(
        "(?:aria|data)-[a-z0-9_-]+|class|id|style|title|lang|dir|role|tabindex|alt|colspan|rowspan|scope|headers|span|"
        "align|valign|border|bgcolor|color|size|width|height|open|start|reversed|type|value|datetime|"
        "viewbox|preserveaspectratio|version|xmlns|d|points|pathlength|transform|x|y|x[12]|y[12]|dx|dy|c[xy]|f[xy]|r|"
        "r[xy]|offset|orient|ref[xy]|marker(?:width|height|units)|(?:gradient|pattern|clippath|mask|patterncontent)units|"
        "(?:gradient|pattern)transform|spreadmethod|textlength|lengthadjust|rotate|overflow|opacity|visibility|display|"
        "(?:fill|stroke|stop|font|text|marker|clip|color|letter|word|dominant|alignment|baseline|paint|shape|vector)"
        "(?:-[a-z]+)*"
    )

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.out: list[str] = []
        self.gone: list[str] = []
        self.opened: list[str] = []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        """Write a tag with the attributes that are harmless, or leave it out."""
        if name in self.GONE:
            self.gone.append(name)
        elif not self.gone and name == "style":
            self.opened.append(name)  # written with what it says, if at all
        elif not self.gone and (name in self.KNOWN or name == "svg" or (name in self.DRAWN and "svg" in self.opened)):
            while "svg" in self.opened and name not in self.DRAWN:
                self._end(self.opened.pop())
            kept = {key: value for key, value in attributes if self._harmless(name, key, value)}
            if name == "img":
                kept.setdefault("alt", "")
                if "src" not in kept:
                    self.handle_data(kept["alt"] or "")
                    return
            written = "".join(f" {key}" + _value(value) for key, value in kept.items())
            self.out.append(f"<{name}{written}>")
            if name not in self.EMPTY:
                self.opened.append(name)

    def handle_startendtag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        """Write ``<path/>`` as ``<path></path>``; an element that must be gone has no content to skip here."""
        if name not in self.GONE:
            before = len(self.opened)
            self.handle_starttag(name, attributes)
            # Only in a drawing does the stroke end an element; elsewhere a browser takes no notice of it.
            if len(self.opened) > before and "svg" in self.opened:
                self.handle_endtag(name)

    def _harmless(self, name: str, attribute: str, value: str | None) -> bool:
        tight = re.sub(r"[\x00-\x20]+", "", value or "").lower()
        if attribute == "href" and name == "a":
            return ":" not in tight.split("/")[0] or tight.startswith(("https:", "http:", "mailto:"))
        if attribute in ("src", "href", "xlink:href"):
            return tight.startswith(("data:image/", "#"))
        return bool(self.PLAIN.fullmatch(attribute)) and not (attribute in _DRAWS and _ASKS.search(tight))

    def handle_endtag(self, name: str) -> None:
        """Close an element that is open, and what was left open inside it."""
        if self.gone:
            if name == self.gone[-1]:
                self.gone.pop()
        elif name in self.opened:
            while (last := self.opened.pop()) != name:
                self._end(last)
            self._end(name)

    def _end(self, name: str) -> None:
        if name != "style":
            self.out.append(f"</{name}>")

    def close(self) -> None:
        """Close what is still open: what comes after this HTML is ours."""
        super().close()
        for name in reversed(self.opened):
            self._end(name)

    def handle_data(self, data: str) -> None:
        """Write text; of a style sheet the rules that are about their own output."""
        if self.gone:
            return
        if self.opened[-1:] == ["style"]:
            kept = "" if data == markup.STYLE else _own_rules(data)
            self.out.append(f"<style>{kept}</style>" if kept else "")
        else:
            self.out.append(_UNSEEN.sub(lambda match: self._seen(match[0]), data))

    def handle_entityref(self, name: str) -> None:
        """Write ``&amp;``; a character nobody sees is shown."""
        self._reference(f"&{name};")

    def handle_charref(self, name: str) -> None:
        """Write ``&#38;``; a character nobody sees is shown."""
        self._reference(f"&#{name};")

    def _reference(self, written: str) -> None:
        meant = html_of(written)
        if not self.gone and self.opened[-1:] != ["style"]:
            self.out.append(self._seen(meant) if len(meant) == 1 and _UNSEEN.fullmatch(meant) else written)

    def _seen(self, character: str) -> str:
        # An element that is no drawing would end one.
        return markup.attribute(character) if "svg" in self.opened else escape(character)


#: Attributes that are read as CSS, and so may ask for a file.
_DRAWS = _names("style fill stroke mask filter clip-path marker-start marker-mid marker-end color cursor")

#: What makes a style ask for a file, or cover the page. With a backslash all of it can be written otherwise.
_ASKS = re.compile(
    r"url\((?![\"']?(?:data:image/|#))|@import|image-set|image\(|src\(|expression\(|\\|position:(?:fixed|sticky)"
)

#: What text may not hold as it stands: what begins an element, and characters nobody sees but line feeds and tabs.
_UNSEEN = re.compile(f"(?![\n\r\t])[&<>{markup.ODD}]")


def _value(value: str | None) -> str:
    return "" if value is None else f'="{markup.attribute(_BREAKS.sub(" ", value))}"'


_BREAKS = re.compile(r"[\t\n\r\f]+")


def _own_rules(sheet: str) -> str:
    """Return a style sheet that reaches no further than its own output; nothing where that cannot be seen.

    Notes
    -----
    Without braces in quotes, comments and backslashes a browser sees no more closing braces than are counted here.
    """
    bare = re.sub(r"/\*.*?\*/", "", sheet, flags=re.DOTALL).strip()
    unquoted = re.sub("\"[^\"'{}\n]*\"|'[^\"'{}\n]*'", "", bare)
    depths = list(itertools.accumulate((one == "{") - (one == "}") for one in unquoted if one in "{}"))
    closed = bool(depths) and min(depths) >= 0 and depths[-1] == 0
    harmless = (
        not re.search(r"[\"']|/\*", unquoted) and "<" not in bare and not _ASKS.search(re.sub(r"\s+", "", bare.lower()))
    )
    return f"@scope (.{OWN}){{{bare}}}" if closed and harmless else ""


def safe_html(html: str) -> Html:
    """Return HTML of a notebook without scripts, handlers, frames and addresses that would be asked by themselves.

    Notes
    -----
    Every element is closed, so that what is written behind it stays what it is.

    Examples
    --------
    >>> safe_html('<b onclick="x()">a</b><script>1</script><img src="http://a/b.png" alt="c">')
    '<b>a</b>c'
    >>> safe_html('</div><p>a<b')
    '<p>a&lt;b</p>'
    """
    parser = _Safe()
    parser.feed(html)
    parser.close()
    return Html("".join(parser.out))
