"""HTML of a notebook made harmless, and texts without what tells of this machine.

    <b onclick="x()">a</b><script>…     ──safe_html──▶   <b>a</b>
    /home/me/work/data/a.jsonl          ──Mask───────▶   data/a.jsonl

The second wall behind a page's own policy: a page that is opened elsewhere must not depend on it.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

from prep_lib import markup
from prep_lib.markup import Html
from prep_lib.workspace import CHECKOUT


class Mask:
    """Takes this machine out of a text: paths, home folders, the host's name."""

    def __init__(self, root: Path) -> None:
        folders = [(root, ""), (CHECKOUT, ""), (Path(sys.prefix), "python/"), (Path.home(), "~/")]
        # A root as short as "/" or "/data" is not told apart from data that happens to say the same.
        rules = [(rf"{re.escape(str(path))}(?![\w.-])/?", name) for path, name in folders if len(path.parts) > 2]
        rules.append((r"(?:/home|/Users)/[^/\s\"'<>:]+|/root(?=/)|[A-Z]:\\Users\\[^\\\s]+", "~"))
        host = platform.node()
        if len(host) > 2 and host != "localhost":
            name = rf"\b{re.escape(host)}\b"
            # A host called "train" must not take a word out of the data.
            rules.append((rf"(?<=@){name}|(?<= on ){name}" if host.isalpha() else name, "host"))
        self.rules = [(re.compile(pattern), name) for pattern, name in rules]

    def __call__(self, text: str) -> str:
        """Return `text` with what tells of this machine replaced."""
        for pattern, name in self.rules:
            text = pattern.sub(name, text)
        return text


class _Safe(HTMLParser):
    """Rewrites HTML without anything that acts or asks: the second wall behind the page's own policy."""

    GONE = frozenset({"script", "iframe", "object", "embed", "applet", "frame", "frameset", "noscript", "template"})
    BARE = frozenset({"link", "meta", "base", "html", "head", "body", "form", "title"})
    ASKING = frozenset({"src", "srcset", "poster", "background", "data", "action", "formaction", "ping", "xlink:href"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.out: list[str] = []
        self.gone: list[str] = []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        """Copy a tag, or leave it out, or write it without the attributes that act."""
        if name in self.GONE:
            self.gone.append(name)
        elif not self.gone and name not in self.BARE:
            kept = [pair for pair in attributes if self._harmless(name, *pair)]
            self.out.append((self.get_starttag_text() or "") if kept == attributes else _open_tag(name, kept))

    def handle_startendtag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        """Treat ``<br/>`` as ``<br>``; an element that must be gone has no content to skip here."""
        if name not in self.GONE:
            self.handle_starttag(name, attributes)

    def _harmless(self, name: str, attribute: str, value: str | None) -> bool:
        value = re.sub(r"[\x00-\x20]+", "", value or "").lower()
        if attribute.startswith("on") or attribute in ("srcdoc", "http-equiv"):
            return False
        if attribute == "style":
            return not _ASKS.search(value)
        if attribute == "href" and name == "a":
            return ":" not in value.split("/")[0] or value.startswith(("https:", "http:", "mailto:"))
        if attribute in self.ASKING or attribute == "href":
            return value.startswith(("data:image/", "#"))
        return True

    def handle_endtag(self, name: str) -> None:
        """Copy an end tag unless its element is left out."""
        if self.gone and name == self.gone[-1]:
            self.gone.pop()
        elif not self.gone and name not in self.BARE | self.GONE:
            self.out.append(f"</{name}>")

    def handle_data(self, data: str) -> None:
        """Copy text; a style sheet that asks for a file is left out, and ours is on the page already."""
        if not self.gone:
            own_style = self.cdata_elem == "style" and (data == markup.STYLE or _ASKS.search(data.lower()))
            self.out.append("" if own_style else data)

    def handle_entityref(self, name: str) -> None:
        """Copy ``&amp;``."""
        if not self.gone:
            self.out.append(f"&{name};")

    def handle_charref(self, name: str) -> None:
        """Copy ``&#38;``."""
        if not self.gone:
            self.out.append(f"&#{name};")


#: What makes a style sheet ask for a file.
_ASKS = re.compile(r"url\((?![\"']?(?:data:image/|#))|@import|expression\(|\\\\")


def _open_tag(name: str, attributes: Sequence[tuple[str, str | None]]) -> str:
    written = "".join(
        f' {key}="{markup.attribute(value)}"' if value is not None else f" {key}" for key, value in attributes
    )
    return f"<{name}{written}>"


def safe_html(html: str) -> Html:
    """Return HTML of a notebook without scripts, handlers, frames and addresses that would be asked by themselves.

    Examples
    --------
    >>> safe_html('<b onclick="x()">a</b><script>1</script><img src="http://a/b.png" alt="c">')
    '<b>a</b><img alt="c">'
    """
    parser = _Safe()
    parser.feed(html)
    parser.close()
    return Html("".join(parser.out))
