"""The page of a whole run: what came in, what was kept, where everything is."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace

import pytest
from attacks import SECRET, hostile_run
from toy_runs import page, pressed, write_notebook

from prep_lib.facts import facts
from prep_lib.index import body, index
from prep_lib.ledger import Ledger
from prep_lib.results import Numbers, summary
from prep_lib.workspace import Run

pytestmark = pytest.mark.filterwarnings("default")  # what other projects deprecate is theirs


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
        from prep_lib import events
        events.emit("note", text="count: two files are empty")
        events.emit("note", text="tokenizer: fastokens, same ids as tokenizers on 9 documents")
        _ = shutil.copy("ledger.json", run.data)
        """,
    )  # fmt: skip
    _, _, run = pressed(ws, "10_a")
    html = page(run, "index")
    for part in (
        "Finished. 10 documents came in, 7 of them became 90 tokens.",
        'href="10_a.html"',
        "too_&lt;b&gt;",
        "<li>count: two files are empty</li>",
        '<p class="sub">tokenizer: fastokens, same ids as tokenizers on 9 documents</p>',
        "90.0 %",
        "data/10_a/ledger.json",
        "numpy",
        f"{sys.version_info.major}.{sys.version_info.minor}.",
    ):
        assert part in html
    assert summary(run) == Numbers(10, 7, 90, 100)
    assert '<p class="sub">tokenizer: fastokens, same ids' in page(run)
    assert "two files" not in re.sub(r"<details.*?</details>", "", page(run), flags=re.DOTALL)
    names = {path.name for path in (run.folder / "reports/csv").glob("index-*.csv")}
    assert names >= {"index-funnel-1.csv", "index-notebooks.csv", "index-made.csv", "index-times.csv"}
    (line,) = (run.folder / "reports/csv/index-reasons-1.csv").read_text().splitlines()[1:]
    assert line == "10_a,read,dropped,too_<b>,web,3,0"


# ── runs written by hand: no kernel starts ───────────────────────────────────────────────────────────────────────────


@pytest.fixture(name="run")
def _run(tmp_path):
    made = Run(tmp_path, "r")
    (made.folder / "data").mkdir(parents=True)
    return made


def count(run: Run, name: str, stage: str = "read", sources: int = 1, **flows: int) -> None:
    ledger = Ledger()
    for at in range(sources):
        for flow, n in flows.items():
            ledger.add(stage, flow, f"s{at}", "short" if flow == "dropped" else "", documents=n, characters=n)
    (run.folder / "data" / name).mkdir(parents=True)
    (run.folder / "data" / name / "ledger.json").write_text(ledger.to_json())


def text(run: Run) -> str:
    index(run)
    return re.sub(r"\s+", " ", re.sub(r"<style.*?</style>|<[^>]*>", " ", page(run, "index"), flags=re.DOTALL))


def test_a_run_of_nothing_says_so(run):
    assert "Nothing has been run yet. Nothing was counted." in text(run)


def test_a_run_without_a_ledger_shows_its_rows(run):
    (run.folder / "data/30_preshuffle/shuffled").mkdir(parents=True)
    told = {"shard_sizes": [4, 4, 1], "digest": {"after": {"sum": "abc123"}}}
    (run.folder / "data/30_preshuffle/shuffled/metadata.json").write_text(json.dumps(told))
    Run(run.root, "r", "30_preshuffle").note({"event": "notebook", "state": "done"})
    found = text(run)
    assert "Finished. 9 rows lie in 3 even shards." in found
    assert "abc123" in found


def test_a_run_half_way_says_what_stands_and_how_to_go_on(run):
    count(run, "10_read", **{"in": 9}, kept=9)
    for name, state in (("10_read", "done"), ("11_clean", "failed")):
        words = {"text": "11_clean: cell 3: OSError: no space"} if state == "failed" else {}
        Run(run.root, "r", name).note({"event": "notebook", "state": state, **words})
    found = text(run)
    assert "Stopped by an error. 9 documents came in, 9 were kept (100.0 %)." in found
    assert "11_clean failed: cell 3: OSError: no space" in found
    assert "prep run runs/r/recipe.yaml --name r" in found
    assert found.index("11_clean failed") < found.index("From 10_read")


def test_a_break_in_the_chain_is_marked_where_it_is(run):
    count(run, "10_read", **{"in": 9}, kept=9)
    count(run, "11_clean", **{"in": 7}, kept=7)
    count(run, "20_export", **{"in": 5}, kept=5)
    html = text(run)
    assert html.count("The chain breaks here") == 1
    assert "10_read kept 9, 11_clean has 7 in" in html
    assert "From 20_export to 20_export" in html


def test_very_many_sources_make_no_long_page(run, monkeypatch):
    monkeypatch.setattr("prep_lib.index.ROWS", 1000)
    count(run, "10_read", sources=3000, **{"in": 30}, kept=10, dropped=20)
    found = text(run)
    assert len(found) < 20_000
    assert "and 2,950 more" in found
    assert "And 2,995 more of the same kind." in found
    assert len((run.folder / "reports/csv/index-reasons-1.csv").read_text().splitlines()) == 1001


def test_it_speaks_chinese_and_leaves_links_out_where_asked(run):
    count(run, "10_read", **{"in": 9}, kept=9)
    html = "".join(body(replace(facts(run), lang="zh"), links=False))
    assert "输入 9 篇文档" in html
    assert "<a " not in html
    assert not (run.folder / "reports").exists()


def test_attacks_stay_text_and_nothing_of_the_machine_is_told(tmp_path):
    run = hostile_run(tmp_path)
    for name in ("index", "10_read"):
        html = page(run, name)
        assert not re.search(r"<(?:script|iframe|object|embed|form|textarea|base|link)\b", html)
        assert not [word for word in (*SECRET, str(tmp_path)) if word in html]
