"""Reports in a real browser, network off: they ask nobody, run nothing, and everybody can read them, on a phone too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attacks import ATTACKS, SECRET, cell, hostile_run

from prep_lib.comparison import compare_runs
from prep_lib.contrast import write
from prep_lib.index import index
from prep_lib.ledger import Ledger
from prep_lib.markup import POLICY, attribute
from prep_lib.report import report
from prep_lib.share import SAMPLES, share
from prep_lib.workspace import MARKER, Run

pytestmark = pytest.mark.browser

#: The widths at which a page must not scroll sideways.
WIDTHS = (1180, 360)

FITS = "() => document.documentElement.scrollWidth <= window.innerWidth"

#: What would stand in a page if a text had become part of it.
HARM = """() => [...document.querySelectorAll(
  "script, iframe, object, embed, form, input, textarea, select, button, base, link, animate, math, [autofocus]")]
  .map(one => one.outerHTML.slice(0, 99))
  .concat([...document.querySelectorAll('*')].filter(one => [...one.attributes].some(({name, value}) =>
    name.startsWith('on') || /^\\s*j\\s*a\\s*v\\s*a\\s*script:/i.test(value) ||
    (['src', 'href'].includes(name) && one.tagName !== 'A' && !/^(data:image|#)/.test(value))))
    .map(one => one.outerHTML.slice(0, 99)))"""

#: The page's own structure: one body, one main, in which everything stands, and nothing over it.
STANDS = """() => [document.body.children.length, document.querySelectorAll('main').length,
  document.querySelector('body > main').lastElementChild.textContent.trim().slice(0, 9),
  [...document.querySelectorAll('main *')].filter(one => {
    const box = one.getBoundingClientRect();
    return getComputedStyle(one).position === 'fixed' && box.width * box.height > 0;
  }).length, getComputedStyle(document.querySelector('main')).display]"""

AXE = """async () => (await axe.run(document, {resultTypes: ['violations']})).violations
  .filter(one => ['serious', 'critical'].includes(one.impact))
  .map(one => `${one.id}: ${one.nodes.length}: ${one.nodes.slice(0, 3).map(n => n.html.slice(0, 120)).join(' | ')}`)"""


def folds(page: Any) -> None:
    page.evaluate("() => document.querySelectorAll('details').forEach(fold => fold.open = true)")


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe, which looks for what keeps somebody from reading a page."""
    import axe_playwright_python

    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")


def findings(page: Any, axe: str) -> list[str]:
    """Return what axe calls serious or critical; a page's own policy lets no script in, so it is run from outside."""
    folds(page)
    page.evaluate(f"() => {{ {axe}\n }}")
    return page.evaluate(AXE)


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of attacks, compared with another one, and made into files to send."""
    one = hostile_run(tmp_path_factory.mktemp("evil"), "zh")
    found = compare_runs(one, hostile_run(tmp_path_factory.mktemp("other"), more=ATTACKS["script"]))
    write(found)
    for samples in SAMPLES:
        share(one, found, samples=samples, names=True)
    return one


#: Pages of the demo that axe looks at, which takes its time: one of every kind there is.
LOOKED_AT = ("index", "12_dedup", "21_templates", "22_tensorize")


@pytest.mark.parametrize(
    "name", ["10_read", "index", "compare-hostile-1.0", *(f"share-{samples}" for samples in SAMPLES)]
)
def test_no_attack_runs_asks_or_breaks_a_page(
    open_file: Callable[..., Any], evil: Run, name: str, axe: str, tmp_path: Path
) -> None:
    """With the page's policy and without it: what is escaped must hold by itself."""
    text = (evil.folder / f"reports/{name}.html").read_text("utf-8")
    bare = tmp_path / f"{name}.html"
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
    assert policy in text
    bare.write_text(text.replace(policy, ""), "utf-8")
    for path, width in ((evil.folder / f"reports/{name}.html", WIDTHS[0]), (bare, WIDTHS[1])):
        opened = open_file(path, width=width)
        page = opened.page
        folds(page)
        assert page.evaluate(FITS), f"{path.name} scrolls sideways at {width}"
        assert [url for url in opened.requests if not url.startswith("data:")] == []
        assert opened.errors == []
        assert page.title() != "broken"
        assert page.evaluate(HARM) == []
        bodies, mains, last, over, display = page.evaluate(STANDS)
        assert (bodies, mains, over, display) == (1, 1, 0, "block")
        assert last
        told = page.inner_text("body")
        assert not [word for word in SECRET if word in told + text]
    page.locator("a, summary").first.focus()
    if name != "share-full":  # which is the other pages behind each other, and takes axe half a minute
        assert findings(page, axe) == []


def test_each_attack_is_shown_as_text(evil: Run) -> None:
    text = (evil.folder / "reports/index.html").read_text("utf-8")
    for name in ("script", "formula", "template", "closers", "swallow"):
        assert attribute(ATTACKS[name][:40]) in text, name


def test_no_cell_of_a_csv_file_is_a_formula(evil: Run) -> None:
    import csv

    paths = sorted((evil.folder / "reports/csv").glob("*.csv"))
    assert len(paths) > 20
    for path in paths:
        text = path.read_text("utf-8")
        assert not [word for word in SECRET if word in text], path.name
        for row in csv.reader(text.splitlines(keepends=True)):
            for value in row:
                assert not re.match(r"\s*[=+@＝＋＠\t\r]|-(?!\d+(\.\d+)?$)", value), (path.name, value[:60])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of one notebook with a figure and a wide table."""
    folder = tmp_path_factory.mktemp("run")
    (folder / MARKER).write_text("{}")
    made = Run(folder, "r", "10_a")
    rows = ("<th>a head</th>" * 40, "<td>1,234</td>" * 40)
    wide = f"<table class=dataframe>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
    output = {"output_type": "display_data", "data": {"text/html": wide, "text/plain": "wide"}}
    cells = [
        cell("markdown", "# What goes in?\n\nMany rows."),
        cell("code", "n = 3  # rows", "parameters"),
        cell("code", "x" * 300, outputs=[output, {"output_type": "stream", "text": "y" * 400 + "\n</pre>z"}]),
    ]
    (made.folder / "executed").mkdir(parents=True)
    (made.folder / "executed/10_a.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}}))
    ledger = Ledger()
    for flow, n in {"in": 10, "kept": 7, "dropped": 3}.items():
        ledger.add("read", flow, "web", "short" if flow == "dropped" else "", documents=n)
    made.data.mkdir(parents=True)
    (made.data / "ledger.json").write_text(ledger.to_json(), "utf-8")
    report(made.folder / "executed/10_a.ipynb", made)
    index(made)
    return made


def test_the_index_leads_to_the_notebook_and_back_and_to_the_numbers(open_file: Callable[..., Any], run: Run) -> None:
    opened = open_file(run.folder / "reports" / "index.html")
    opened.page.click("h3 >> text=10_a")
    assert "Many rows." in opened.page.inner_text("body")
    (link,) = {one.get_attribute("href") for one in opened.page.locator("p.csv a").all()}
    # Not a table of ours: nobody knows whether this was a number, so it stays as it is written.
    assert (run.folder / "reports" / link).read_text("utf-8").splitlines()[1].startswith('"1,234","1,234",')
    opened.page.click("text=Run r")
    assert opened.page.url.endswith("index.html")


def test_every_report_of_the_demo_asks_nobody_and_can_be_read_by_everybody(
    open_file: Callable[..., Any], demo: Path, axe: str
) -> None:
    pages = sorted((demo / "reports").glob("*.html"))
    assert len(pages) > 5
    for path in pages:
        for dark, width in ((False, WIDTHS[0]), (True, WIDTHS[1])):
            opened = open_file(path, dark=dark, width=width)
            assert [url for url in opened.requests if not url.startswith("data:")] == [], path.name
            assert opened.errors == [], path.name
            assert opened.page.evaluate(FITS), path.name
            folds(opened.page)
            assert opened.page.evaluate(FITS), f"{path.name}, its folds open"
            if path.stem in LOOKED_AT and dark == (path.stem != "index"):
                assert findings(opened.page, axe) == [], path.name
