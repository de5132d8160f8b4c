"""What a run counted is read from its ledgers, and what happened to it from its journal."""

from __future__ import annotations

import functools

from prep_lib.ledger import Ledger
from prep_lib.results import Journal, Stages, fold, journal, ledgers, states
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
