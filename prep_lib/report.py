"""An executed notebook -> one HTML file, complete without network and without script.

executed/22_tensorize.ipynb ──report──▶ reports/22_tensorize.html
    cells, in order      markdown as text; code folded; each output by the best of its types, made harmless
    parameters           as used, with a mark where they are not the notebook's own
"""

from __future__ import annotations

import base64
import importlib.metadata
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import prep_lib
from prep_lib import markup
from prep_lib.errors import BadInput
from prep_lib.facts import SERVED, Asked, asked_of, lang_of, read_executed, short
from prep_lib.files import write_whole
from prep_lib.markup import Html, card, document, escape, fold, join, note, table, tag
from prep_lib.results import record
from prep_lib.safe import OWN, Mask, safe_html
from prep_lib.sheets import Sheets, links
from prep_lib.words import say
from prep_lib.workspace import Run, read_events

#: Libraries whose output is written as it is.
PACKAGES = ("numpy", "tokenizers", "h5py", "zstandard")

#: Output types a page can show, the best first. The widget's own type is left out: its text/html twin is the page.
SHOWN = ("text/html", "image/svg+xml", "image/png", "image/jpeg", "text/markdown", "text/plain")

#: How the bytes of a picture begin.
BEGINS = {"image/svg+xml": (b"<", b"\xef\xbb\xbf<"), "image/png": (b"\x89PNG",), "image/jpeg": (b"\xff\xd8\xff",)}

#: Characters of a text, and of HTML, that are shown.
TEXT, HTML = 100_000, 2_000_000

#: Tables of pandas, which bring none of our classes: words to the left, and a wide one scrolls by itself.
TABLES = Html(
    "<style>.prep table.dataframe{border-collapse:collapse;border:0;font-size:13px;overflow-wrap:break-word}"
    ".prep table.dataframe :is(td,th){border:0;border-bottom:1px solid var(--line);padding:4px 8px;text-align:left;"
    "vertical-align:top;max-width:48ch;min-width:4ch}.prep table.dataframe thead th{color:var(--dim)}"
    ".prep img{max-width:100%}.prep .out{contain:paint}</style>"
)


def report(executed: Path, run: Run) -> Path:
    """Make one HTML file of an executed notebook, whole or stopped half way, and its numbers as CSV beside it.

    Notes
    -----
    Its words are those of the notebook's parameter ``lang``, English without one.

    Returns
    -------
    Path
        ``reports/NAME.html``; the same executed notebook gives the same bytes.

    Raises
    ------
    BadInput
        If the executed notebook was torn by a kill or a full disk.
    """
    notebook = read_executed(executed)
    if notebook is None:
        raise BadInput(f"report: {executed.name} was not written to its end; run it again")
    lang = lang_of(asked_of(notebook["cells"]).used)
    target = run.folder / "reports" / f"{executed.stem}.html"
    sheets = Sheets(target.parent, executed.stem, lang, Mask(run.root))
    sheets.forget()
    title, drawn = body(notebook, executed, run, sheets)
    with write_whole(target, "w") as file:
        file.write(document(f"{title} · {run.name}", drawn, lang))
    return target


def body(
    notebook: Mapping[str, Any], executed: Path, run: Run, sheets: Sheets | None = None, *, back: bool = True
) -> tuple[str, Html]:
    """Return the title of an executed notebook, and its page without the file around it.

    Parameters
    ----------
    notebook : mapping
        As `facts.read_executed` returns it.
    executed : Path
        Where it lies.
    run : Run
    sheets : Sheets or None
        Where the numbers go as CSV; None: nowhere.
    back : bool
        False: no link leads back to the page of the run.
    """
    mask, cells, asked = Mask(run.root), notebook["cells"], asked_of(notebook["cells"])
    failure, lang = notebook["metadata"].get("prep", {}).get("failed", ""), lang_of(asked.used)
    home = tag("p", tag("a", say("report.run", lang, name=run.name), href="index.html"), cls="sub")
    head = [
        TABLES,
        home if back else Html(),
        note("bad", tag("b", "FAILED"), " ", mask(short(failure))) if failure else Html(),
        _made_in(run, executed.stem, lang),
        _parameter_table(asked, mask, lang),
        served(run, mask, executed.stem),
    ]
    pen = _Pen(mask, executed.parent, failure, lang, sheets)
    drawn = [shown for at, cell in enumerate(cells) if (shown := pen.cell(cell, at))]
    return _title(cells) or executed.stem, join((*head, *drawn, versions(lang)))


def _made_in(run: Run, notebook: str, lang: str) -> Html:
    """Say that another run made this: its name and folder are what the page shows."""
    donor = (record(replace(run, notebook=notebook)) or {}).get("shared", "")
    return tag("p", say("report.shared", lang, name=donor), cls="sub") if donor else Html()


def _title(cells: Sequence[Mapping[str, Any]]) -> str:
    text = "\n".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
    found = re.search(r"^# +(.+?)\s*$", text, re.MULTILINE)
    return re.sub(r"[*_`]", "", found[1]) if found else ""


def _parameter_table(asked: Asked, mask: Mask, lang: str) -> Html:
    """Show the values as used, with a mark where they are not the notebook's own."""
    rows = [
        [name, mask(short(repr(asked.used[name]))), "✎" if name in asked.changed else "", mask(short(own.help))]
        for name, own in asked.known.items()
    ]
    heads = [say(f"report.{key}", lang) for key in ("parameter", "value", "changed", "meaning")]
    return fold(say("report.parameters", lang, n=len(rows)), table(heads, rows, words=4)) if rows else Html()


@dataclass(frozen=True)
class _Pen:
    """Draws the cells of one notebook."""

    mask: Mask
    folder: Path
    failure: str
    lang: str
    sheets: Sheets | None

    def cell(self, cell: Mapping[str, Any], at: int) -> Html | None:
        tags, source = cell["metadata"].get("tags", []), cell["source"]
        if cell["cell_type"] == "markdown":
            drawn = _markdown(self.mask(cut(source, HTML)), cell.get("attachments", {}), self.folder)
            return card("", drawn, cls=f"text {OWN}")
        named = "parameters" in tags or "injected-parameters" in tags
        if cell["cell_type"] != "code" or named or not source.strip():
            return None
        code = fold(say("report.code", self.lang), tag("pre", lines(self.mask(cut(source)))))
        if not cell["outputs"]:
            return code
        shown = [self.output(each, f"{at}-{number}") for number, each in enumerate(cell["outputs"], 1)]
        return card("", code, *shown)

    def output(self, output: Mapping[str, Any], name: str) -> Html:
        kind = output["output_type"]
        if kind == "stream":
            return tag("pre", lines(self.text(output["text"])))
        if kind == "error":
            line = self.failure or f"{output['ename']}: {first_line(output['evalue'])}"
            return note("bad", self.mask(short(line)))
        data = {name: value for name, value in output["data"].items() if name in SHOWN}
        best = min(data, key=SHOWN.index, default=None)
        return self.shown(best, data[best], data.get("text/plain", ""), name) if best else Html()

    def shown(self, kind: str, value: Any, plain: Any, name: str) -> Html:
        """Show one output by the best of its types."""
        text = "".join(value)
        if kind == "text/html":
            drawn = links(safe_html(self.mask(cut(text, HTML))), self.sheets, name)
            # A wide table of pandas scrolls in here: the keyboard must reach it.
            return tag("div", drawn, cls=f"wide {OWN}", tabindex=0, role="group")
        if kind == "text/markdown":
            return tag("div", _markdown(self.mask(cut(text, HTML)), {}, Path()), cls=OWN)
        if kind.startswith("image/"):
            packed, said = self.picture(kind, text), self.text(plain)
            if packed:
                return Html(f'<img src="data:{kind};base64,{packed}" alt="{markup.attribute(short(said))}">')
            return tag("pre", lines(said))
        return tag("pre", lines(self.text(value)))

    def picture(self, kind: str, text: str) -> str:
        """Return a picture in the letters of an address; nothing where it is none."""
        try:
            # An SVG as a picture cannot run anything, and its text stays text.
            data = self.mask(text).encode("utf-8", "replace") if kind == "image/svg+xml" else base64.b64decode(text)
        except ValueError:
            return ""
        return base64.b64encode(data).decode() if data.startswith(BEGINS[kind]) else ""

    def text(self, value: Any) -> str:
        return self.mask(_plain(cut("".join(value))))


def cut(text: str, most: int = TEXT) -> str:
    """Return `text`, or the beginning that somebody may read."""
    return text if len(text) <= most else f"{text[:most]}\n… ({len(text):,} characters)"


def lines(text: str) -> Html:
    """Escape text that keeps its line breaks; only odd characters become symbols."""
    return join((escape(line) for line in text.expandtabs(4).split("\n")), "\n")


def _markdown(source: str, attachments: dict[str, Any], folder: Path) -> Html:
    # With this module jsonschema builds a grammar of web addresses when it is imported, and nothing here checks any.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    renderer = IPythonRenderer(
        escape=False, attachments=attachments, embed_images=True, path=str(folder), exclude_anchor_links=True
    )
    return safe_html(MarkdownWithMath(renderer=renderer).render(source))


def first_line(text: str) -> str:
    """Return the first line of what an error says."""
    said = text.strip().splitlines()
    return said[0] if said else "no message"


def _plain(text: str) -> str:
    """Return terminal text without colours, without what a carriage return overwrote, without addresses in memory."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    # Line by line: a pattern over a line of megabytes would look at it once a character.
    text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def versions(lang: str) -> Html:
    """Say which versions wrote a run."""
    python = f"Python {platform.python_version()}"
    shown = [f"{name} {importlib.metadata.version(name)}" for name in (*PACKAGES, "torch", "datasets", "pyarrow")]
    return tag(
        "p",
        say("report.versions", lang),
        " ",
        ", ".join((f"prep_lib {prep_lib.__version__}", python, *shown)),
        cls="dim",
    )


def served(run: Run, mask: Mask, notebook: str = "") -> Html:
    """Say which tokenizer served, and why, by the last word of each notebook, or of one of them.

    That may be older than the notebook's last run: one that finds its shards finished tokenises nothing.
    """
    said = {}
    for event in read_events(run.folder)[0]:
        by, text = event.get("notebook", ""), str(event.get("text", ""))
        if event.get("event") == "note" and text.startswith(SERVED) and notebook in ("", by):
            said[by] = mask(text)
    return join(tag("p", text, cls="sub") for text in dict.fromkeys(said.values()))
