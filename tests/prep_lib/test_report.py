"""A page is complete by itself, asks nobody, and tells nothing of this machine."""

from __future__ import annotations

import json
import os
import re

import pytest
from attacks import cell
from toy_runs import page, pressed, write_notebook

from prep_lib.errors import BadInput
from prep_lib.report import report
from prep_lib.workspace import Run

pytestmark = pytest.mark.filterwarnings("default")  # what other projects deprecate is theirs


def test_a_page_holds_no_script_asks_nobody_and_tells_nothing_of_this_machine(ws):
    write_notebook(
        ws, "10_a",
        """
        from IPython.display import HTML, SVG, Image, display
        display(HTML("<b id=kept>kept</b><script>alert(1)</script>"
                     "<img src=http://x.invalid/a.png onerror=alert(2) alt=pic>"))
        display(HTML("<a href='javascript:alert(3)'>a</a><style>@import 'http://x.invalid/b.css';</style>"))
        display(HTML("<div style='background:url(http://x.invalid/c.png)'>d</div><iframe src=http://x.invalid></iframe>"))
        display(SVG("<svg xmlns='http://www.w3.org/2000/svg'><text>svg text</text></svg>"))
        print("</script><img src=x>", run.folder)
        print("at", __import__("os").path.expanduser("~") + "/secret", __import__("sys").executable)
        """,
        """
        class Both:
            def _repr_mimebundle_(self, **_):
                view = {"application/vnd.jupyter.widget-view+json": {"model_id": "1", "version_major": 2}}
                return view | {"text/html": "<p>the twin</p>", "text/plain": "Both"}
        Both()
        """,
        "object()",
        title="A *title* with <b>tags</b>",
    )  # fmt: skip
    html = page(pressed(ws, "10_a")[2])
    assert "script-src 'none'" in html
    assert "<script" not in html.lower()
    live = re.sub(r"<pre>.*?</pre>", "", html, flags=re.DOTALL)  # what stands there is text
    assert not re.search(r"\son\w+=", live)
    assert "x.invalid" not in live
    assert not re.search(r"(?:src|srcset|poster)=(?!\"data:)", live)
    assert str(ws) not in html
    assert os.path.expanduser("~") + "/secret" not in html
    assert "&lt;/script&gt;" in html
    assert "the twin" in html
    assert '<b id="kept">kept</b>' in html
    assert "data:image/svg+xml;base64," in html
    assert "<pre>&lt;object&gt;</pre>" in html  # without its address
    assert "<details" in html
    assert "A title with" in html


def test_the_values_as_used_are_shown_and_marked(ws):
    write_notebook(ws, "10_a")
    html = page(pressed(ws, "10_a", given=["10_a.n=7"])[2])
    assert re.sub(r"<[^>]+>+", "|", html).count("|n||7||✎||rows|") == 1


def test_the_same_notebook_gives_the_same_bytes(ws):
    widget = "import ipywidgets\nipywidgets.IntSlider()"
    write_notebook(ws, "10_a", "import pandas as pd\npd.DataFrame({'a': [1, 2000]})", widget)
    run = pressed(ws, "10_a")[2]
    sheets = [*(run.folder / "reports/csv").glob("10_a*.csv")]
    assert [path.read_text() for path in sheets] == [",a\n0,1\n1,2000\n"]
    pages = [run.folder / "reports/10_a.html", run.folder / "executed/10_a.ipynb", *sheets]
    first = [path.read_bytes() for path in pages]
    (run.folder / "executed/10_a.json").unlink()
    assert pressed(ws, "10_a")[0] == ["10_a"]
    assert [path.read_bytes() for path in pages] == first

    # What a run took is a part of it: the index is the same for the same run, however often it is pressed.
    index_page = run.folder / "reports/index.html"
    before = index_page.read_bytes()
    assert pressed(ws, "10_a")[0] == []
    assert index_page.read_bytes() == before


def test_an_executed_notebook_that_was_torn_is_named(tmp_path):
    run = Run(tmp_path, "r", "10_a")
    path = run.folder / "executed/10_a.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text('{"cells": [')
    with pytest.raises(BadInput, match=r"^report: 10_a.ipynb was not written to its end; run it again$"):
        report(path, run)


def test_ten_million_characters_are_cut_and_counted(tmp_path):
    run = Run(tmp_path, "r", "10_a")
    (run.folder / "executed").mkdir(parents=True)
    long = "W" * 10_000_000  # a string nobody reads
    shown = [
        {"output_type": "stream", "text": long},
        {"output_type": "display_data", "data": {"text/html": f"<p>{long}"}},
        {"output_type": "error", "ename": "E", "evalue": long},
    ]
    cells = [cell("code", f"a = '{long}'", "parameters"), cell("code", long, outputs=shown)]
    (run.folder / "executed/10_a.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}}))
    report(run.folder / "executed/10_a.ipynb", run)
    html = page(run)
    assert len(html) < 4_000_000
    assert html.count("… (10,000,000 characters)") == 2
    assert html.rstrip().endswith("</p></main></body></html>")
