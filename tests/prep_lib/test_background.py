"""How a run stands is read from its files alone, and every word of it is true in all orders of events."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import filelock
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prep_lib import background, locks
from prep_lib.background import (
    CODES,
    Left,
    as_json,
    attach,
    describe,
    end,
    left,
    line,
    look,
    on_done,
    owner,
    told,
    whole,
    whole_command,
)  # fmt: skip
from prep_lib.errors import BadInput, RunLocked
from prep_lib.ledger import Ledger
from prep_lib.workspace import Run

#: A moment the toy journals count from, and a process nobody has.
NOON, NOBODY = 1_796_040_000, 2**22 + 1

BEGAN = {
    "event": "run", "state": "began", "process": NOBODY, "limit": 8_000_000_000, "notebooks": ["10_a", "12_d", "13_m"],
    "again": "prep run runs/r/recipe.yaml --detach",
}  # fmt: skip


def stamp(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+0000", time.gmtime(NOON + at))


def write(run: Run, *events: tuple[float, dict[str, Any]]) -> None:
    run.folder.mkdir(parents=True, exist_ok=True)
    with open(run.folder / "run.jsonl", "a", encoding="utf-8") as file:
        file.writelines(json.dumps({"time": stamp(at), **event}) + "\n" for at, event in events)


def owned(run: Run, host: str = "", sign: float = 0.0, process: int = NOBODY) -> Path:
    """Leave what a process that works here, or was killed, leaves; return its lock."""
    hidden = run.folder / ".prep"
    hidden.mkdir(parents=True, exist_ok=True)
    (hidden / "owner.json").write_text(json.dumps({"host": host or socket.gethostname(), "process": process}))
    os.utime(hidden / "owner.json", (sign, sign))
    (hidden / "lock").touch()
    return hidden / "lock"


def notebook(name: str, state: str, **more: Any) -> dict[str, Any]:
    return {"event": "notebook", "notebook": name, "state": state, **more}


def run_event(state: str, **more: Any) -> dict[str, Any]:
    return {"event": "run", "state": state, **more}


def task(name: str, stage: str, done: int, tasks: int, event: str = "task") -> dict[str, Any]:
    return {"event": event, "notebook": name, "stage": stage, "done": done, "tasks": tasks}


#: Ten minutes in, two of eight tasks of the second notebook are done.
KILLED = [
    (0, BEGAN), (0, notebook("10_a", "began")), (100, notebook("10_a", "done", seconds=100.0)),
    (100, notebook("12_d", "began", why="runs: threshold 0.8 -> 0.85")), (200, task("12_d", "sketch", 0, 8, "begin")),
    (400, task("12_d", "sketch", 1, 8)), (600, task("12_d", "sketch", 2, 8)),
    (605, {"event": "memory", "notebook": "12_d", "bytes": 7_600_000_000}),
]  # fmt: skip


@pytest.fixture(name="run")
def _run(tmp_path: Path) -> Run:
    return Run(tmp_path / "工作 区", "r")


def said(run: Run) -> str:
    return "\n".join(describe(look(run)))


# ── after a kill ──


def test_after_a_kill_it_says_when_how_far_why_what_continues_and_how_long(run: Run) -> None:
    write(run, *KILLED)
    owned(run, sign=NOON + 610)
    found, text = look(run), said(run)
    assert found.state == "killed"
    assert f"killed: last sign of life {background.clock(NOON + 610)}, after 10 min" in text
    assert "reached   12_d (1 of 3 notebooks done): sketch, 2 of 8 tasks" in text
    assert "at most 7.6 GB of 8.0 GB (95 %), looked at every second: most likely it was killed for want of it" in text
    assert f"continue  cd '{run.root}' && prep run runs/r/recipe.yaml --detach" in text
    # Two tasks took 410 s, so six take 1230; nobody knows what comes after them.
    assert left(found) == Left(pytest.approx(1230), "12_d", ("13_m",))
    assert "time left about 20 min, and what is not known: the rest of 12_d, 13_m" in text
    assert "12_d             killed" in text
    assert line(found) == "r: killed after 10 min"


def test_memory_that_was_left_is_not_the_cause_and_unknown_memory_is_not_made_up(run: Run) -> None:
    write(run, *KILLED[:-1], (605, {"event": "memory", "notebook": "12_d", "bytes": 800_000_000}))
    owned(run)
    assert "at most 800 MB of 8.0 GB (10 %), looked at every second: by this not the cause" in said(run)
    write(run, (700, BEGAN))
    assert "memory    not known" in said(run)
    assert "time left about 100 s, and what is not known: 12_d, 13_m" in said(run)  # 10_a as long as last time


def test_what_a_person_does_there_afterwards_is_no_part_of_it(run: Run) -> None:
    write(run, *KILLED)
    owned(run, sign=NOON + 610)
    before = said(run)
    by_hand = [{"event": "open", "notebook": "12_d"}, task("12_d", "sketch", 7, 8), task("14_x", "count", 1, 2)]
    write(run, (620, {"event": "open", "notebook": "13_m"}))
    assert said(run) == before
    write(run, *((9000, event) for event in [by_hand[0], *by_hand]))
    assert "2 of 8 tasks" in said(run)


def test_the_next_time_is_told_from_the_one_before(run: Run) -> None:
    write(run, *KILLED)
    with filelock.FileLock(owned(run, sign=NOON + 2000, process=NOBODY + 1)):
        # It has the lock and has said nothing yet: nothing of the old story is told as its own.
        assert look(run).state == "running"
        assert "12_d             open" in said(run)
        assert "2 of 8" not in said(run)
        write(run, (2000, BEGAN | {"process": NOBODY + 1}), (2001, notebook("10_a", "kept", why="skipped")))
        write(run, (2002, notebook("12_d", "began")))
        assert "now       12_d (1 of 3 notebooks done)" in said(run)
        assert "continued once" in said(run)
    broke = "12_d: it broke"
    write(run, (2100, notebook("12_d", "failed", text=broke)), (2101, run_event("failed", text=broke)))
    (run.folder / ".prep/owner.json").unlink()
    assert look(run).state == "failed"
    # 605 s until the kill, and 101 now: the time in between nobody worked.
    assert line(look(run)) == "r: failed after 12 min · error: 12_d: it broke"
    assert "continue  " in said(run)
    write(run, (3000, BEGAN), (3001, run_event("done")), (4000, BEGAN), (4007, run_event("done")))
    assert line(look(run)).startswith("r: done in 7 s ")  # what was done before is not continued


def test_another_host_is_named_and_not_stopped_from_here(run: Run) -> None:
    write(run, *KILLED)
    owned(run, "far", sign=time.time() - 20)
    assert look(run).state == "running"
    assert f"process {NOBODY} on far; last heard of 20 s ago" in said(run)
    with pytest.raises(BadInput, match=r"is worked on by process \d+ on far; run `prep stop r` there"):
        end(run)
    with pytest.raises(RunLocked, match="run r is in use by process"):
        background.detach([], run)
    owned(run, "far", sign=time.time() - 600)
    assert look(run).state == "killed"
    assert f"(seen from here; it was process {NOBODY} on far)" in said(run)


def test_where_nothing_runs_there_is_nothing_to_stop(run: Run) -> None:
    run.folder.mkdir(parents=True)
    assert said(run).splitlines()[1] == "state     not run yet by prep run"
    with pytest.raises(BadInput, match="nothing works in run r: not run yet by prep run"):
        end(run)
    assert owner(run) is None


def test_to_look_does_not_keep_anybody_out(run: Run) -> None:
    lock = owned(run)
    assert not look(run).owner.alive  # type: ignore[union-attr]
    with filelock.FileLock(lock).acquire(timeout=0):
        assert look(run).owner.alive  # type: ignore[union-attr]


def test_to_look_writes_nothing_so_that_others_may(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    write(run, *KILLED)
    owned(run, sign=time.time() - 20)
    monkeypatch.setattr(filelock.FileLock, "acquire", refused)
    assert look(run).state == "killed"
    # Where not even the lock is to be seen, the heartbeat is.
    monkeypatch.setattr(background, "is_held", refused)
    assert look(run).state == "running"
    owned(run, sign=time.time() - 600)
    assert look(run).state == "killed"


def test_many_may_look_at_once_and_see_the_same(run: Run) -> None:
    lock = owned(run)
    with open(lock, "rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH)  # as another one that looks has it
        assert not locks.is_held(lock)
        threading.Timer(locks.LOOKED / 5, fcntl.flock, (other, fcntl.LOCK_UN)).start()
        with locks.lock(run.folder):
            assert locks.is_held(lock)
            assert owner(run).still  # type: ignore[union-attr]


@pytest.mark.parametrize("said", [{}, {"born": ""}, {"born": "1"}, {"machine": "another"}])
def test_only_the_process_that_took_the_run_is_sent_a_signal(run: Run, said: dict[str, str]) -> None:
    """Its number may be somebody else's by the time another one takes over."""
    write(run, *KILLED)
    with subprocess.Popen(["sleep", "60"]) as bystander:
        lock = owned(run, process=bystander.pid)
        who = {"machine": locks._machine(), "born": locks.born(bystander.pid)} if said else {}
        path = lock.with_name("owner.json")
        path.write_text(json.dumps({**json.loads(path.read_text()), **who, **said}))
        with filelock.FileLock(lock).acquire(timeout=0):
            with pytest.raises(BadInput, match="is not known to be who holds it"):
                end(run)
            background._signal(owner(run), signal.SIGKILL)  # type: ignore[arg-type]
        assert bystander.poll() is None
        bystander.kill()


def test_the_process_that_took_the_run_is_stopped(run: Run) -> None:
    write(run, (0, {**BEGAN, "process": 0}))
    holds = f"from prep_lib.locks import lock\nwith lock({str(run.folder)!r}): print(flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", holds], **pipes) as working:  # type: ignore[call-overload]
        working.stdout.readline()
        assert end(run).process == working.pid
        assert working.wait(60) != 0


EVENTS = st.one_of(
    st.sampled_from([BEGAN, *(run_event(state) for state in ("done", "failed", "interrupted"))]),
    st.builds(notebook, st.sampled_from(["10_a", "12_d"]),
              st.sampled_from(["began", "done", "kept", "failed", "interrupted"])),
    st.builds(task, st.sampled_from(["10_a", "12_d"]), st.sampled_from("ab"), st.integers(0, 3), st.just(3),
              st.sampled_from(["begin", "task"])),
    st.builds(lambda name: {"event": "open", "notebook": name}, st.sampled_from(["10_a", "12_d"])),
)  # fmt: skip


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=st.lists(EVENTS, max_size=12), lives=st.booleans())
def test_in_any_order_of_events_nothing_is_said_to_run_that_does_not(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]], lives: bool
) -> None:
    run = Run(tmp_path_factory.mktemp("ws"), "r")
    write(run, *enumerate(events))
    lock = owned(run)
    with filelock.FileLock(lock) if lives else open(os.devnull):
        found, text = look(run), said(run)
        told = as_json(found)
    running = [name for name, one in found.journal.notebooks.items() if one.state == "running"]
    assert len(running) <= 1
    assert running == [found.journal.now] * len(running)
    assert ("running" in text) == (found.state == "running")
    assert found.worked >= 0
    assert (left(found).seconds or 0) >= 0
    assert told["state"] == found.state
    assert "\n" not in told["line"]
    if not lives:
        assert found.state != "running"
    if events and events[-1] == {"event": "run", "state": "done"}:
        assert found.state == "done"


# ── the line, and who gets it ──


def test_the_line_has_what_a_team_asks_and_no_path_host_or_escape(run: Run) -> None:
    ledger = Ledger()
    ledger.add("read", "in", "/data/secret/web", documents=10_000)
    ledger.add("read", "kept", "/data/secret/web", documents=2_500)
    ledger.add("read", "dropped", "/data/secret/web", "too\x1b[31mshort", documents=7_500)
    ledger.add_tokens("pack", "content", 90)
    ledger.add_tokens("pack", "written", 90)
    ledger.add_tokens("pack", "padding", 10)
    run_data = Run(run.root, run.name, "10_a").data
    run_data.mkdir(parents=True)
    (run_data / "ledger.json").write_text(ledger.to_json())
    write(run, (0, BEGAN), (0, notebook("10_a", "began")))
    write(run, (200, notebook("10_a", "done", seconds=200.0)), (250, run_event("done")))
    found = line(look(run))
    counts = "10,000 records in, 2,500 kept · 90 tokens · packing 90.0 %"
    assert found.startswith(f"r: done in 4 min · {counts} · warning: ")
    assert "web lost 75.0 %" in found
    assert str(run.root) not in found
    assert "/data" not in found
    assert found.isprintable()


def test_the_users_command_gets_everything_by_environment_and_its_failure_is_told(run: Run) -> None:
    write(run, (0, BEGAN), (0, notebook("10_a", "began")), (9, notebook("10_a", "failed")))
    write(run, (9, run_event("failed", text="a '; touch owned; echo \" $(touch owned)")))
    assert on_done('printf "%s" "$PREP_RUN|$PREP_STATE|$PREP_SUMMARY|$PREP_REPORT" > said', look(run)) == ""
    name, state, summary, report = (run.root / "said").read_text().split("|")
    assert (name, state, summary) == ("r", "failed", line(look(run)))
    assert report == str(run.folder / "reports/index.html")
    assert not (run.root / "owned").exists()
    assert on_done("exit 3 # KEY=secret", look(run)) == "--on-done: the command ended with 3"


def test_what_is_shown_of_an_event() -> None:
    assert told(notebook("12_d", "began", why="runs: n 3 -> 4")) == "12_d: runs: n 3 -> 4"
    assert told(notebook("12_d", "done", seconds=3.14)) == "12_d: done, 3.1 s"
    assert told(notebook("12_d", "failed", text="a\nb")) == "12_d: failed: a b"
    assert told(task("12_d", "count", 1, 2)) == ""


def test_who_attaches_to_what_has_ended_gets_its_last_lines_and_its_code(run: Run) -> None:
    lines: list[str] = []
    write(run, *KILLED)
    owned(run, sign=NOON + 610)
    assert attach(run, lines.append) == CODES["killed"]
    assert lines[:4] == [
        f"begins: process {NOBODY}",
        "10_a: began",
        "10_a: done, 100.0 s",
        "12_d: runs: threshold 0.8 -> 0.85",
    ]
    write(run, (700, BEGAN), (701, run_event("interrupted")))
    lines.clear()
    assert attach(run, lines.append) == 130
    assert lines == [f"begins: process {NOBODY}", "r: interrupted after 10 min"]


# ── detached ──

QUIET = "from prep_lib.background import quiet; quiet(); print('x', flush=True)"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_log_on_a_full_disk_ends_no_work() -> None:
    with open("/dev/full", "wb") as full:
        assert subprocess.run([sys.executable, "-c", QUIET], stdout=full, check=False).returncode == 0


def test_one_that_does_not_start_says_why(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.root.mkdir()
    monkeypatch.chdir(run.root)
    with pytest.raises(BadInput, match="it did not start: prep run: recipes: unknown recipe 'nothing'"):
        background.detach(["run", "nothing"], run)


def test_a_file_of_the_workspace_does_not_stand_in_for_a_module(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.root.mkdir()
    (run.root / "random.py").write_text("raise SystemExit('mine was run')")
    monkeypatch.chdir(run.root)
    with pytest.raises(BadInput, match="it did not start: prep run: recipes: unknown recipe 'nothing'"):
        background.detach(["run", "nothing"], run)


# ── everything ──


def test_everything_is_the_recipe_without_its_samples_under_a_name_of_its_own(run: Run) -> None:
    from toy_runs import write_cell

    (run.root / "notebooks").mkdir(parents=True)
    write_cell(run.root, "11_a", 'run = ""  # the latest\nsample = 0  # rows')
    write_cell(run.root, "12_b", 'run = ""  # the latest\nsample = 500  # rows, as it was edited here')
    run.folder.mkdir(parents=True)
    assert whole_command(run) == ["run", "runs/r/recipe.yaml", "--name", "r-all"]
    (run.folder / "recipe.yaml").write_text("notebooks: [11_a, 12_b]")
    assert whole_command(run)[4:] == ["-p", "12_b.sample=0"]
    assert whole(whole(run)) == whole(run)
