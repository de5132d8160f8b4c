"""An executed notebook -> one HTML file, complete without network and without script.

executed/22_tensorize.ipynb ──report──▶ reports/22_tensorize.html
    cells, in order      markdown as text; code folded; each output by the best of its types, made harmless
    parameters           as used, with a mark where they are not the notebook's own
"""

from __future__ import annotations

import base64
import importlib.metadata
import json
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import prep_lib
from prep_lib import markup
from prep_lib.errors import BadInput
from prep_lib.files import write_whole
from prep_lib.markup import Html, card, document, escape, fold, join, note, table, tag
from prep_lib.recipes import Parameter, read_cell
from prep_lib.safe import Mask, safe_html
from prep_lib.words import LANGS, say
from prep_lib.workspace import Run, read_events

#: Libraries whose output is written as it is.
PACKAGES = ("numpy", "tokenizers", "h5py", "zstandard")

#: Output types a page can show, the best first. The widget's own type is left out: its text/html twin is the page.
SHOWN = ("text/html", "image/svg+xml", "image/png", "image/jpeg", "text/markdown", "text/plain")

#: How a note begins that says which tokenizer served.
SERVED = "tokenizer: "

#: Tables of pandas, which bring none of our classes: words to the left, and a wide one scrolls by itself.
TABLES = Html(
    "<style>.prep table.dataframe{border-collapse:collapse;border:0;font-size:13px;overflow-wrap:break-word}"
    ".prep table.dataframe :is(td,th){border:0;border-bottom:1px solid var(--line);padding:4px 8px;text-align:left;"
    "vertical-align:top;max-width:48ch;min-width:4ch}.prep table.dataframe thead th{color:var(--dim)}"
    ".prep img{max-width:100%}</style>"
)


def report(executed: Path, run: Run) -> Path:
    """Make one HTML file of an executed notebook, whole or stopped half way.

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
    try:
        notebook = json.loads(executed.read_bytes())
    except ValueError:
        raise BadInput(f"report: {executed.name} was not written to its end; run it again") from None
    mask = Mask(run.root)
    cells = [_joined(cell) for cell in notebook["cells"]]
    failure = notebook["metadata"].get("prep", {}).get("failed", "")
    title = _title(cells) or executed.stem
    known, used = _values(cells)
    lang = lang_of(used)
    head = [
        TABLES,
        tag("p", tag("a", say("report.run", lang, name=run.name), href="index.html"), cls="sub"),
        note("bad", tag("b", "FAILED"), " ", mask(failure)) if failure else Html(),
        _parameter_table(known, used, mask, lang),
        served(run, mask, executed.stem),
    ]
    body = [drawn for cell in cells if (drawn := _cell(cell, mask, executed.parent, failure, lang))]
    target = run.folder / "reports" / f"{executed.stem}.html"
    with write_whole(target, "w") as file:
        file.write(document(f"{title} · {run.name}", join((*head, *body, versions(lang))), lang))
    return target


def _joined(cell: dict[str, Any]) -> dict[str, Any]:
    return {**cell, "source": "".join(cell["source"])}


def _title(cells: Sequence[Mapping[str, Any]]) -> str:
    text = "\n".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
    found = re.search(r"^# +(.+?)\s*$", text, re.MULTILINE)
    return re.sub(r"[*_`]", "", found[1]) if found else ""


def _tagged(cells: Sequence[Mapping[str, Any]], name: str) -> str:
    return "\n".join(cell["source"] for cell in cells if name in cell["metadata"].get("tags", []))


def _values(cells: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Parameter], dict[str, Any]]:
    """Return what the notebook can be asked for, and every value as it was used."""
    known = {each.name: each for each in read_cell("report", _tagged(cells, "parameters"))}
    asked = {each.name: each.default for each in read_cell("report", _tagged(cells, "injected-parameters"))}
    return known, {name: asked.get(name, own.default) for name, own in known.items()}


def lang_of(values: Mapping[str, Any]) -> str:
    """Return the language the parameters ask for, English without one."""
    return str(values.get("lang")) if values.get("lang") in LANGS else LANGS[0]


def _parameter_table(known: Mapping[str, Parameter], used: Mapping[str, Any], mask: Mask, lang: str) -> Html:
    """Show the values as used, with a mark where they are not the notebook's own."""
    rows = [
        [name, mask(repr(used[name])), "✎" if used[name] != own.default else "", own.help]
        for name, own in known.items()
    ]
    heads = [say(f"report.{key}", lang) for key in ("parameter", "value", "changed", "meaning")]
    return fold(say("report.parameters", lang, n=len(rows)), table(heads, rows, words=4)) if rows else Html()


def _cell(cell: Mapping[str, Any], mask: Mask, folder: Path, failure: str, lang: str) -> Html | None:
    tags = cell["metadata"].get("tags", [])
    if cell["cell_type"] == "markdown":
        return card("", _markdown(mask(cell["source"]), cell.get("attachments", {}), folder), cls="text")
    if (
        cell["cell_type"] != "code"
        or "parameters" in tags
        or "injected-parameters" in tags
        or not cell["source"].strip()
    ):
        return None
    code = fold(say("report.code", lang), tag("pre", lines(mask(cell["source"]))))
    if not cell["outputs"]:
        return code
    return card("", code, *(_output(each, mask, failure) for each in cell["outputs"]))


def lines(text: str) -> Html:
    """Escape text that keeps its line breaks; only odd characters become symbols."""
    return join((escape(line) for line in text.expandtabs(4).split("\n")), "\n")


def _markdown(source: str, attachments: dict[str, Any], folder: Path) -> Html:
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    renderer = IPythonRenderer(
        escape=False, attachments=attachments, embed_images=True, path=str(folder), exclude_anchor_links=True
    )
    return safe_html(MarkdownWithMath(renderer=renderer).render(source))


def _output(output: Mapping[str, Any], mask: Mask, failure: str) -> Html:
    kind = output["output_type"]
    if kind == "stream":
        return tag("pre", lines(mask(_plain("".join(output["text"])))))
    if kind == "error":
        line = failure or f"{output['ename']}: {first_line(output['evalue'])}"
        return note("bad", mask(line))
    data = {name: value for name, value in output["data"].items() if name in SHOWN}
    best = min(data, key=SHOWN.index, default=None)
    return _shown(best, data[best], data.get("text/plain", ""), mask) if best else Html()


def _shown(kind: str, value: Any, plain: Any, mask: Mask) -> Html:
    """Show one output by the best of its types."""
    text = "".join(value)
    if kind == "text/html":
        return tag("div", safe_html(mask(text)), cls="wide")
    if kind == "text/markdown":
        return _markdown(mask(text), {}, Path())
    if kind.startswith("image/"):
        # An SVG as a picture cannot run anything, and its text stays text.
        packed = base64.b64encode(mask(text).encode()).decode() if kind == "image/svg+xml" else re.sub(r"\s", "", text)
        said = markup.attribute(mask(_plain("".join(plain))))
        return Html(f'<img src="data:{kind};base64,{packed}" alt="{said}">')
    return tag("pre", lines(mask(_plain(text))))


def first_line(text: str) -> str:
    """Return the first line of what an error says."""
    said = text.strip().splitlines()
    return said[0] if said else "no message"


def _plain(text: str) -> str:
    """Return terminal text without colours, without what a carriage return overwrote, without addresses in memory."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    text = re.sub(r"[^\n]*\r(?!\n)", "", text)
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
