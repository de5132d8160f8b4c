"""The page of a whole run: what came in, what was kept, where everything is."""

from __future__ import annotations

import re

import pytest
from toy_runs import page, pressed, workspace, write_notebook

from prep_lib import press
from prep_lib.ledger import Ledger
from prep_lib.results import Numbers, summary

pytestmark = pytest.mark.filterwarnings("default")  # what other projects deprecate is theirs


@pytest.fixture(autouse=True)
def _still(monkeypatch):
    """Our own code does not change while a test runs, even if somebody is editing it."""
    monkeypatch.setattr(press, "_our_modules", lambda: ["prep_lib.seeds"])


@pytest.fixture(name="ws")
def _ws(tmp_path):
    return workspace(tmp_path)


def test_the_index_holds_funnel_files_notes_and_links(ws):
    ledger = Ledger()
    ledger.add("read", "in", "web", documents=10)
    ledger.add("read", "kept", "web", documents=7)
    ledger.add("read", "dropped", "web", "too_<b>", documents=3)
    ledger.add_tokens("pack", "content", 90, "web")
    ledger.add_tokens("pack", "written", 90, "web")
    ledger.add_tokens("pack", "padding", 10, "web")
    (ws / "ledger.json").write_text(ledger.to_json())
    write_notebook(
        ws, "10_a",
        """
        import shutil
        from prep_lib import engine
        engine.emit("note", text="count: two files are empty")
        engine.emit("note", text="tokenizer: fastokens, same ids as tokenizers on 9 documents")
        _ = shutil.copy("ledger.json", run.data)
        """,
    )  # fmt: skip
    _, _, run = pressed(ws, "10_a")
    html = page(run, "index")
    for part in (
        'href="10_a.html"',
        "too_&lt;b&gt;",
        "<li>count: two files are empty</li>",
        '<p class="sub">tokenizer: fastokens, same ids as tokenizers on 9 documents</p>',
        "90.0 %",
        "data/10_a/ledger.json",
        "numpy",
    ):
        assert part in html
    assert summary(run) == Numbers(10, 7, 90, 100)
    assert '<p class="sub">tokenizer: fastokens, same ids' in page(run)
    assert "two files" not in re.sub(r"<details.*?</details>", "", page(run), flags=re.DOTALL)
