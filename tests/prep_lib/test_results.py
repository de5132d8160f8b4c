"""What a run counted is read from its ledgers, and what happened to it from its journal."""

from __future__ import annotations

import functools
import json

from toy_runs import instantly, pressed, workspace, write_notebook

from prep_lib import press
from prep_lib.alerts import alerts, verdict
from prep_lib.background import describe, line, look
from prep_lib.facts import facts
from prep_lib.ledger import Ledger
from prep_lib.recipes import read
from prep_lib.results import Journal, Outdated, Stages, fold, journal, ledgers, outdated, states
from prep_lib.workspace import Run, read_events


def test_what_a_notebook_wrote_on_its_way_stands_for_itself(tmp_path):
    """One without a ledger of its own is the sum of what lies in it."""

    def write(place, documents):
        ledger = Ledger()
        ledger.add("read", "in", "web", documents=documents)
        ledger.add("read", "kept", "web", documents=documents)
        path = tmp_path / "runs/one/data" / place / "ledger.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(ledger.to_json())

    for place, documents in (("00_t/a", 1), ("00_t/b", 2), ("13_m", 4), ("13_m/texts", 8), ("13_m/.prep/x", 16)):
        write(place, documents)
    found = ledgers(Run(tmp_path, "one"))
    assert {name: ledger.total("read", "in") for name, ledger in found.items()} == {
        "00_t": 3, "13_m/texts": 8, "13_m": 4,
    }  # fmt: skip
    assert list(found) == ["00_t", "13_m/texts", "13_m"]


def test_whoever_was_at_work_when_it_began_anew_was_killed_and_who_waited_is_told_from_now(tmp_path):
    run = Run(tmp_path, "one")
    run.folder.mkdir(parents=True)

    def note(notebook="", **event):
        Run(tmp_path, "one", notebook).note(event)

    note(event="run", state="began", process=7, notebooks=["10_a", "11_b"])
    note("10_a", event="notebook", state="began", why="runs for the first time")
    note("10_a", event="memory", bytes=5)
    note("10_a", event="memory", bytes=3)
    found = journal(run)
    assert (found.now, found.memory, found.notebooks["10_a"].why) == ("10_a", 5, "runs for the first time")
    note(event="run", state="began", process=8, notebooks=["10_a", "11_b"])
    found = journal(run)
    assert (found.process, found.now, found.memory, found.times) == (8, "", None, 1)
    assert (found.notebooks["10_a"].state, found.notebooks["10_a"].now) == ("interrupted", False)
    assert states(run, ["10_a", "11_b"]) == {"10_a": ("interrupted", ""), "11_b": ("open", "")}
    note("11_b", event="notebook", state="began")
    note("10_a", event="task", stage="s", done=1, tasks=2)
    assert journal(run).stages == Stages()  # of a notebook that is not at work


def test_what_stands_on_an_older_state_or_other_parameters_is_outdated_until_it_is_made_anew(tmp_path, monkeypatch):
    ws = workspace(tmp_path)
    for name in ("10_a", "11_b", "12_c"):
        write_notebook(ws, name)

    def work(values, run):
        (run.data / "x").write_text(str(values["n"]))

    instantly(monkeypatch, dict.fromkeys(("10_a", "11_b", "12_c"), work))

    def ran(*given, **part):
        recipe = read(ws / "r.yaml", ws, given).part(**part)
        return press.run_recipe(recipe, run, tell=lambda _: None)

    _, _, run = pressed(ws, "10_a", "11_b", "12_c")
    assert outdated(run) == {}
    assert verdict(facts(run), "en").startswith("Finished. ")
    assert ran("10_a.n=5", only="10") == ["10_a"]
    older = Outdated(earlier=("10_a",))
    assert outdated(run) == {"11_b": older, "12_c": older}
    assert [state for state, _ in states(run).values()] == ["done", "outdated", "outdated"]
    page = (run.folder / "reports/index.html").read_text("utf-8")
    assert "Not finished: some notebooks stand on what has changed since" in page
    assert "11_b stands on an older state of 10_a" in page
    assert "Nothing stands out" not in page
    assert [one.rule for one in alerts(facts(run))] == ["older", "older"]
    assert "not all of it is up to date: 11_b, 12_c" in "\n".join(describe(look(run)))
    assert "outdated: 11_b, 12_c" in line(look(run))
    assert ran("12_c.n=9", only="11") == ["11_b"]  # its own n is what it was; 10_a was made with another one
    assert outdated(run) == {
        "10_a": Outdated(values=("n 5 -> 3",)), "12_c": Outdated(("10_a", "11_b"), ("n 3 -> 9",))
    }  # fmt: skip
    assert ran() == ["10_a", "11_b"]  # 12_c goes with these again, as it was made
    assert outdated(run) == {}
    assert verdict(facts(run), "en").startswith("Finished. ")


def test_what_came_in_between_makes_what_is_behind_it_outdated(tmp_path, monkeypatch):
    ws = workspace(tmp_path)
    for name in ("10_a", "11_b", "12_c", "20_d"):
        write_notebook(ws, name)
    instantly(monkeypatch, {n: lambda _, run: (run.data / "x").touch() for n in ("10_a", "11_b", "12_c", "20_d")})
    _, _, run = pressed(ws, "10_a", "12_c", "20_d")
    (ws / "r.yaml").write_text("notebooks: [10_a, 11_b, 12_c, 20_d]")
    press.run_recipe(read(ws / "r.yaml", ws).part(only="11"), run, tell=lambda _: None)
    assert outdated(run) == {"12_c": Outdated(earlier=("11_b",))}  # 20_d goes another way


def test_a_recipe_or_record_of_no_use_makes_nothing_outdated(tmp_path):
    run = Run(tmp_path, "one")
    (run.folder / "executed").mkdir(parents=True)
    for text in ("{", "[]", "notebooks: 3", "notebooks: [x]", "notebooks: [{10_a: 3}]", "\x00"):
        (run.folder / "recipe.yaml").write_text(text)
        (run.folder / "executed/10_a.json").write_text(json.dumps({"seconds": 1}))
        assert outdated(run) == {}


def test_an_event_that_a_full_disk_swallowed_leaves_no_contradiction(tmp_path):
    run = Run(tmp_path, "one")
    run.folder.mkdir(parents=True)
    run.note({"event": "run", "state": "began", "again": "prep run x", "notebooks": ["10_a"]})
    run.note({"event": "run", "state": "done"})
    Run(tmp_path, "one", "10_a").note({"event": "notebook", "state": "began"})
    found = journal(run)
    assert (found.state, found.now, found.again, found.plan) == ("", "10_a", "prep run x", ("10_a",))


def test_read_step_by_step_it_says_what_it_says_at_once_and_another_journal_is_another_story(tmp_path):
    run = Run(tmp_path, "one")
    run.folder.mkdir(parents=True)
    events = [
        {"event": "run", "state": "began", "process": 7, "notebooks": ["10_a"]},
        {"event": "notebook", "notebook": "10_a", "state": "began"},
        {"event": "begin", "notebook": "10_a", "stage": "s", "tasks": 2, "done": 0},
        {"event": "task", "notebook": "10_a", "stage": "s", "tasks": 2, "done": 1},
        {"event": "run", "state": "done"},
    ]
    for event in events:
        run.note(event)
        assert journal(run) == functools.reduce(fold, read_events(run.folder)[0], Journal())
    (run.folder / "run.jsonl").unlink()
    assert journal(run) == Journal()
    run.note({"event": "run", "state": "began", "process": 8})
    assert (journal(run).process, journal(run).times) == (8, 0)
