"""A recipe runs each notebook once, stops in one line, and leaves pages that are complete by themselves."""

from __future__ import annotations

import itertools
import json
import os
import re

import pytest
from toy_runs import instantly, page, pressed, write_notebook

from prep_lib import execute, press
from prep_lib.errors import NotebookFailed
from prep_lib.press import explain
from prep_lib.recipes import read
from prep_lib.results import journal, states
from prep_lib.workspace import Run, read_events

pytestmark = pytest.mark.filterwarnings("default")  # what other projects deprecate is theirs


# ── running ──


def test_a_second_run_executes_nothing_and_a_change_only_what_it_touches(ws):
    write_notebook(ws, "10_a", "_ = (run.data / 'a').write_text('a' * n)")
    write_notebook(ws, "11_b", "_ = (run.data / 'b').write_text((run.find('10_a') / 'a').read_text() + 'b')")
    assert pressed(ws, "10_a", "11_b")[0] == ["10_a", "11_b"]
    executed, told, run = pressed(ws, "10_a", "11_b")
    assert executed == []
    assert re.fullmatch(r"10_a: skipped, nothing changed since \d{4}-\d\d-\d\d \d\d:\d\d", told[0])
    index = (run.folder / "reports/index.html").read_bytes()

    executed, told, _ = pressed(ws, "10_a", "11_b", given=["11_b.n=4"])
    assert executed == ["11_b"]
    assert told[1] == "11_b: runs: n 3 -> 4"

    (run.folder / "data/10_a/a").unlink()
    executed, told, _ = pressed(ws, "10_a", "11_b", given=["10_a.n=5", "11_b.n=4"])
    assert executed == ["10_a", "11_b"]
    assert told[0] == "10_a: runs: n 3 -> 5; outputs are missing or changed"
    assert told[2] == "11_b: runs, because 10_a is new"  # what is built on it runs too
    assert (run.folder / "reports/index.html").read_bytes() != index


def test_why_each_would_run_is_told_without_running_any(ws):
    write_notebook(ws, "10_a")
    write_notebook(ws, "11_b")
    (ws / "r.yaml").write_text("notebooks: [10_a, 11_b]")
    run = Run(ws, "r")
    said = [f"{name}: runs for the first time" for name in ("10_a", "11_b")]
    assert list(explain(read(ws / "r.yaml", ws), run)) == said
    pressed(ws, "10_a", "11_b")
    before = (run.folder / "run.jsonl").read_bytes()
    first, second = explain(read(ws / "r.yaml", ws, ["10_a.n=4"]), run)
    assert (first, second) == ("10_a: runs: n 3 -> 4", "11_b: runs, because 10_a is new")
    (run.folder / "executed/11_b.json").unlink()
    first, second = explain(read(ws / "r.yaml", ws), run)
    assert first.startswith("10_a: skipped, nothing changed since 20")
    assert second == "11_b: runs: it did not come to its end"
    assert (run.folder / "run.jsonl").read_bytes() == before


def test_a_run_says_when_it_begins_what_it_holds_and_how_it_ended(ws, monkeypatch):
    monkeypatch.setattr(press, "memory_limit", lambda: 8_000)
    write_notebook(ws, "10_a")
    run = pressed(ws, "10_a", like=["--to", "a b"])[2]
    story = journal(run)
    assert (story.state, story.process, story.limit, story.plan) == ("done", os.getpid(), 8_000, ("10_a",))
    assert story.again == "prep run runs/r/recipe.yaml --to 'a b'"
    # Written when it has grown by a twentieth, so that many hours take no more lines than one.
    grown = [event["bytes"] for event in read_events(run.folder)[0] if event.get("event") == "memory"]
    assert story.memory == max(grown, default=None)
    assert all(after > execute.GROWN * before for before, after in itertools.pairwise(grown))
    write_notebook(ws, "10_a", "1 / 0")
    with pytest.raises(NotebookFailed):
        pressed(ws, "10_a")
    assert journal(run).state == "failed"
    assert "ZeroDivisionError" in journal(run).text


# ── failing ──


def test_a_failing_notebook_stops_the_run_in_one_line_and_leaves_a_marked_report(ws):
    write_notebook(
        ws, "10_a", "_ = (run.data / 'done.bin').write_bytes(b'x')",
        """
        from prep_lib import events
        events.emit("begin", stage="tokenize", tasks=2, done=0)
        {}["/root/secret"]
        """,
    )  # fmt: skip
    write_notebook(ws, "11_b")
    with pytest.raises(NotebookFailed, match=r"^10_a \(tokenize\): cell 5: KeyError: '/root/secret'$"):
        pressed(ws, "10_a", "11_b")
    run = Run(ws, "r")
    assert "FAILED" in page(run)
    assert "KeyError" in page(run)
    assert "Traceback" not in page(run)
    assert "~/secret" in page(run)
    assert "KeyError" in page(run, "index")
    assert states(run, ["10_a", "11_b"])["11_b"] == ("open", "")
    assert states(run)["10_a"][0] == "failed"
    assert not (run.folder / "executed/10_a.json").exists()
    executed = json.loads((run.folder / "executed/10_a.ipynb").read_text())
    assert executed["metadata"]["prep"]["failed"].startswith("10_a")
    assert not any("papermill-error" in str(cell["metadata"].get("tags")) for cell in executed["cells"])


def test_what_a_killed_run_left_half_written_is_swept(ws):
    write_notebook(ws, "10_a")
    half = ws / "runs/r/executed/.10_a.json.4711-0.tmp"
    half.parent.mkdir(parents=True)
    half.touch()
    pressed(ws, "10_a")
    assert not half.exists()


# ── a part of a recipe ──


def test_notebooks_behind_what_was_left_out_depend_on_what_it_really_wrote(ws, monkeypatch):
    """By a run, by nobody, or by a session in JupyterLab, of which no record tells."""

    def work(values, run):
        if run.notebook != "11_b":
            (run.data / "rows").write_text(str(values["n"]))

    instantly(monkeypatch, dict.fromkeys(("10_a", "11_b", "12_c"), work))
    for name in ("10_a", "11_b", "12_c"):
        write_notebook(ws, name)
    (ws / "r.yaml").write_text("notebooks: [10_a, 11_b, 12_c]")
    run, recipe = Run(ws, "r"), read(ws / "r.yaml", ws)

    def executed(**part):
        return press.run_recipe(recipe.part(**part), run, tell=lambda _: None)

    (run.folder / "data/10_a").mkdir(parents=True)
    (run.folder / "data/10_a/rows").write_text("by hand")
    assert executed(first="12") == ["12_c"]
    assert executed(first="12") == []
    # 11_b writes nothing, so 12_c has not changed by its coming.
    assert executed(only="11") == ["11_b"]
    assert executed(first="12") == []
    (run.folder / "data/10_a/rows").write_text("by another hand")
    assert executed(first="12") == ["12_c"]
    assert executed() == ["10_a", "11_b", "12_c"]
    assert executed(only="12,10") == []
