"""Reports in a real browser, network off: they ask nobody, run nothing, and can be read on a phone and in the dark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from prep_lib.index import index
from prep_lib.ledger import Ledger
from prep_lib.report import report
from prep_lib.workspace import Run

pytestmark = pytest.mark.browser

EVIL = """<script>document.title = 'broken'</script><p onclick="document.title = 'broken'">row</p>
<img src="http://127.0.0.1:9/x.png" onerror="document.title = 'broken'" alt="picture"><iframe src="http://127.0.0.1:9"></iframe>
<style>@import 'http://127.0.0.1:9/x.css'; p { background: url(http://127.0.0.1:9/y.png) }</style>
<svg><image href="http://127.0.0.1:9/z.png"/></svg>"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of one notebook that shows what no report should pass on, and its pages."""
    made = Run(tmp_path, "r", "10_a")
    data = {"text/html": EVIL, "text/plain": "row"}
    wide = {"text/html": "<table><tr>" + "<td>a cell with words</td>" * 40 + "</tr></table>", "text/plain": "wide"}
    cells = [
        nbformat.v4.new_markdown_cell("# What goes in?\n\nMany rows. ![drawn](http://127.0.0.1:9/m.png)"),
        nbformat.v4.new_code_cell("n = 3  # rows", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(
            "show()", outputs=[nbformat.v4.new_output("display_data", each) for each in (data, wide)]
        ),
        nbformat.v4.new_code_cell("x" * 300, outputs=[nbformat.v4.new_output("stream", text="y" * 400 + "\n</pre>z")]),
    ]
    (made.folder / "executed").mkdir(parents=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), made.folder / "executed/10_a.ipynb")
    ledger = Ledger()
    for flow, n in {"in": 10, "kept": 7, "dropped": 3}.items():
        ledger.add("read", flow, "web", "short" if flow == "dropped" else "", documents=n)
    made.data.mkdir(parents=True)
    (made.data / "ledger.json").write_text(ledger.to_json(), "utf-8")
    report(made.folder / "executed/10_a.ipynb", made)
    index(made)
    return made


@pytest.mark.parametrize("name", ["10_a", "index"])
@pytest.mark.parametrize(("dark", "width"), [(False, 1180), (True, 390)])
def test_a_report_asks_nobody_and_fits(
    open_file: Callable[..., Any], run: Run, name: str, dark: bool, width: int
) -> None:
    opened = open_file(run.folder / "reports" / f"{name}.html", dark=dark, width=width)
    assert [url for url in opened.requests if not url.startswith("data:")] == []
    assert opened.errors == []
    assert opened.page.title() != "broken"
    assert opened.page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    assert {"10_a": "Many rows.", "index": "read: 7 of 10"}[name] in opened.page.content()


def test_the_index_leads_to_the_notebook_and_back(open_file: Callable[..., Any], run: Run) -> None:
    opened = open_file(run.folder / "reports" / "index.html")
    opened.page.click("text=10_a")
    opened.page.click("text=Run r")
    assert opened.page.url.endswith("index.html")


def test_every_report_of_the_demo_asks_nobody(open_file: Callable[..., Any], demo: Path) -> None:
    pages = sorted((demo / "reports").glob("*.html"))
    assert len(pages) > 5
    for path in pages:
        for dark, width in ((False, 1180), (True, 390)):
            opened = open_file(path, dark=dark, width=width)
            assert [url for url in opened.requests if not url.startswith("data:")] == [], path.name
            assert opened.errors == [], path.name
            assert opened.page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth"), path.name
