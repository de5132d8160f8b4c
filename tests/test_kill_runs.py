"""Whole runs, killed at random moments: nobody is left behind, and what was begun ends as if nothing had happened."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import killing
import psutil
import pytest
from toy_runs import write_notebook

from prep_lib.background import describe, look
from prep_lib.tokens.tokenizer import AutoTokenizer
from prep_lib.workspace import MARKER, Run, find_notebook, read_events

pytestmark = pytest.mark.kill

NOTEBOOK = "22_tensorize"
VALUES = {
    "files": "in_*.jsonl", "tokenizer": "tok", "pack_size": 256, "shard_size": 60, "workers": 2, "plugins": "small.py",
}  # fmt: skip

#: Makes twelve tasks of twelve files that would be one.
SMALL = "import prep_lib.files\nprep_lib.files.SPAN = 20_000\n"

#: Kills of each kind of process, and after how many of them the work is let finish and looked at.
KILLS, THEN_FINISH = 12, 4

PREP = [sys.executable, "-m", "prep_lib.cli", "run", "r.yaml"]
PAPERMILL = [
    *(sys.executable, "-m", "papermill", str(find_notebook(NOTEBOOK, Path(__file__))), "out.ipynb", "-p", "run", "r"),
    *(word for name, value in VALUES.items() for word in ("-p", name, str(value))),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of twelve files of sums, a tokenizer for them, and a recipe of one notebook."""
    folder = tmp_path_factory.mktemp("world")
    rows = [
        {"query": f"{a} + {b} = ?", "response": f"It is {a + b}. " * (b % 9)} for a in range(120) for b in range(40)
    ]
    for n in range(12):
        text = "".join(json.dumps(row) + "\n" for row in rows[n::12])
        (folder / f"in_{n}.jsonl").write_text(text)
    AutoTokenizer().train((row["query"] + row["response"] for row in rows), vocab_size=300).save(folder / "tok")
    (folder / "r.yaml").write_text(json.dumps({"notebooks": [{NOTEBOOK: {k: str(v) for k, v in VALUES.items()}}]}))
    (folder / "small.py").write_text(SMALL)
    (folder / MARKER).write_text("{}")
    return folder


@pytest.fixture(name="ws")
def _ws(world: Path, tmp_path: Path) -> Path:
    return shutil.copytree(world, tmp_path / "ws")


@pytest.fixture(scope="module")
def clean(world: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What one run leaves that nobody disturbs."""
    ws = shutil.copytree(world, tmp_path_factory.mktemp("clean") / "ws")
    done = run(ws)
    assert done.returncode == 0, done.stderr
    found = left(ws)
    assert len(found) > 10
    return found


def run(ws: Path, command: list[str] = PREP) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ws, capture_output=True, text=True, check=False)


def left(ws: Path) -> dict[str, bytes]:
    """Return what a run leaves for people: shards and what belongs to them, the executed notebook, its report."""
    found = killing.tree(ws / "runs/r/data")
    shown = {name: content for name, content in found.items() if "/." not in name}
    for name in (f"executed/{NOTEBOOK}.ipynb", f"reports/{NOTEBOOK}.html"):
        with contextlib.suppress(FileNotFoundError):
            # Where it lay is no part of it.
            shown[name] = (ws / "runs/r" / name).read_bytes().replace(str(ws).encode(), b"WS")
    return shown


def opened(ws: Path, event: str = "open") -> int:
    """Return how often the notebook has begun its work here."""
    return sum(found["event"] == event for found in read_events(ws / "runs/r")[0])


@contextlib.contextmanager
def working(ws: Path, event: str = "open") -> Iterator[tuple[subprocess.Popen, str]]:
    """Start `prep run` and wait until its notebook works."""
    before = opened(ws, event)
    process, mark = killing.start(PREP, cwd=ws)
    with process:
        while opened(ws, event) == before and process.poll() is None:
            time.sleep(0.02)
        yield process, mark


# ── in company, interrupted, out of space ────────────────────────────────────────────────────────────────────────────


def test_a_second_run_in_one_folder_is_told_who_is_there_and_harms_nothing(ws, clean):
    with working(ws) as (first, _):
        second = run(ws)
        assert second.returncode == 1
        assert second.stderr.startswith(f"prep run: locks: {ws}/runs/r is in use by process {first.pid} on ")
        assert second.stderr.count("\n") == 1
        assert first.wait(timeout=120) == 0
    assert left(ws) == clean


def test_an_interrupt_ends_in_130_within_three_seconds_and_keeps_what_was_finished(ws, clean):
    with working(ws, "begin") as (process, mark):
        time.sleep(0.4)
        finished = {event["name"] for event in read_events(ws / "runs/r")[0] if event["event"] == "task"}
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[1]
        assert time.monotonic() - began < 3
    assert (process.returncode, said) == (130, "interrupted; the same command goes on where it stopped\n")
    assert killing.wait_gone(mark, 0.5) == []
    hidden = ws / "runs/r/data" / NOTEBOOK / ".prep"
    assert finished <= {path.stem for path in (hidden / "tasks").glob("*.json")}
    assert not (hidden / "tmp").exists()
    assert not (hidden / "owner.json").exists()
    assert run(ws).returncode == 0
    assert left(ws) == clean


def test_a_full_disk_is_one_clear_line_and_the_same_command_continues(world, clean, tmp_path):
    with killing.small_disk(tmp_path / "disk", "12m") as disk:
        ws = shutil.copytree(world, disk / "ws")
        # Room for all that stays, but not for all that is beside it meanwhile.
        room = sum(map(len, clean.values())) * 3 // 2
        (disk / "ballast").write_bytes(bytes(shutil.disk_usage(disk).free - room))
        full = run(ws)
        assert full.returncode == 1
        assert re.fullmatch(
            rf"prep run: {NOTEBOOK} \(\w+\): cell 6: NoSpace: files: no space left for .*\n", full.stderr
        )
        assert "free some and run the same command again: what was finished is kept" in full.stderr
        kept = {name: content for name, content in left(ws).items() if name.endswith(".h5")}
        assert kept == {name: clean[name] for name in kept}
        (disk / "ballast").unlink()
        done = run(ws)
        assert done.returncode == 0, done.stderr
        assert left(ws) == clean


# ── in the background ────────────────────────────────────────────────────────────────────────────────────────────────

#: One task that is done, and one that waits until somebody lets it go on: nothing here depends on how fast it is.
WAITS = """
    import time
    from prep_lib.engine import Crew, Task, run_tasks
    from prep_lib.locks import lock
    def work(out, waits):
        while waits and not (run.folder / 'go').is_file():
            time.sleep(0.05)
        return {}
    tasks = [Task(f't{waits}', work, {'waits': waits}, key={'inputs': waits}) for waits in (0, 1)]
    with lock(run.data), Crew('inline') as crew:
        run_tasks('wait', tasks, run.data, crew=crew)
    """
TOLD = """printf '%s' "$PREP_RUN $PREP_STATE $PREP_SUMMARY" > "told by $PREP_RUN" """


@pytest.fixture(name="toy")
def _toy(tmp_path: Path) -> Path:
    """A workspace with a name that is hard on paths, and a notebook of a task that is done and one that waits."""
    folder = tmp_path / "工作 {区}"
    folder.mkdir()
    (folder / MARKER).write_text("{}")
    write_notebook(folder, "10_a", WAITS)
    (folder / "r.yaml").write_text("notebooks: [10_a]")
    return folder


def prep_command(toy: Path, *arguments: str, mark: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command as somebody without a home."""
    environment = {name: value for name, value in os.environ.items() if name != "HOME"}
    return subprocess.run(
        [sys.executable, "-m", "prep_lib.cli", *arguments], cwd=toy, capture_output=True, text=True, check=False,
        env=environment | {killing.MARK: mark},
    )  # fmt: skip


def waiting(toy: Path, name: str = "r") -> Run:
    """Return a run once its first task is done and the other one waits."""
    run, until = Run(toy, name), time.monotonic() + 120
    while (stage := look(run).journal.stage) is None or not stage.done:
        assert look(run).state == "running", (run.folder / "run.log").read_text()
        assert time.monotonic() < until
        time.sleep(0.05)
    return run


def test_a_detached_run_outlives_who_started_it_and_after_a_kill_says_how_to_go_on(toy):
    started = prep_command(toy, "run", "r.yaml", "--detach", "--on-done", TOLD, mark="first")
    assert started.returncode == 0, started.stderr
    run = waiting(toy)
    second = prep_command(toy, "run", "r.yaml", "--detach")
    process = look(run).owner.process
    assert (second.returncode, second.stdout) == (1, "")
    assert second.stderr.startswith(f"prep run: background: run r is in use by process {process} on this machine")

    # Beside it another run of the same workspace comes to its end.
    (toy / "runs/other").mkdir()
    (toy / "runs/other/go").touch()
    other = prep_command(toy, "run", "r.yaml", "--name", "other")
    assert other.returncode == 0, other.stderr
    assert other.stdout.splitlines()[-1].startswith("other: done in ")

    psutil.Process(process).kill()
    assert killing.wait_gone("first") == []
    text = "\n".join(describe(look(run)))
    assert "state     killed: last sign of life 20" in text
    assert "reached   10_a (0 of 1 notebooks done): wait, 1 of 2 tasks" in text
    assert "looked at every second: by this not the cause" in text
    assert not (toy / "told by r").exists()

    again = look(run).journal.again
    # A command may hold what is nobody's business, so the journal, which reports show, does not tell it.
    assert again == "prep run runs/r/recipe.yaml --detach"
    continued = prep_command(toy, *shlex.split(again)[1:], "--on-done", TOLD, mark="second")
    assert continued.returncode == 0, continued.stderr
    command = [sys.executable, "-m", "prep_lib.cli", "attach"]
    with subprocess.Popen([*command, "r"], cwd=toy, stdout=subprocess.PIPE, text=True) as attached:
        assert attached.stdout.readline().startswith("begins: process")
        waiting(toy)
        (toy / "runs/r/go").touch()
        shown = attached.stdout.read().splitlines()
    assert attached.returncode == 0
    assert "10_a: runs: it did not come to its end" in shown
    assert killing.wait_gone("second") == []
    summary = shown[-1]
    assert re.fullmatch(r"r: done in \d+ (s|min)", summary)
    assert (toy / "told by r").read_text() == f"r done {summary}"


def test_a_run_is_stopped_as_ctrl_c_stops_it_and_who_watched_gets_its_code(toy):
    ignoring = ["sh", "-c", 'trap "" INT HUP; exec "$@"', "sh"]  # as a shell starts what stands before an &
    command = [sys.executable, "-m", "prep_lib.cli", "run", "r.yaml", "--on-done", TOLD]
    process, mark = killing.start([*ignoring, *command], cwd=toy, stdout=subprocess.DEVNULL)
    with process:
        while process.poll() is None and not (toy / "runs/r/run.jsonl").is_file():
            time.sleep(0.05)
        waiting(toy)
        watching = [sys.executable, "-m", "prep_lib.cli", "attach"]
        with subprocess.Popen(watching, cwd=toy, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as leaving:
            leaving.stdout.readline()
            leaving.send_signal(signal.SIGINT)
            assert leaving.wait(30) == 130
            assert leaving.stderr.read() == "left alone: the run goes on; `prep attach r` shows it again\n"
        with subprocess.Popen(watching, cwd=toy, stdout=subprocess.PIPE, text=True) as staying:
            staying.stdout.readline()
            stopped = prep_command(toy, "stop")
            assert stopped.returncode == 0, stopped.stderr
            assert stopped.stdout.endswith("\nfinished tasks are kept; continue with\nprep run runs/r/recipe.yaml\n")
            assert staying.stdout.read().splitlines()[-1].startswith("r: interrupted after ")
        assert staying.returncode == 130
        assert process.wait(30) == 130
    assert killing.wait_gone(mark, 0.5) == []
    assert (toy / "told by r").read_text().startswith("r interrupted r: interrupted after ")
    again = prep_command(toy, "stop")
    assert again.returncode == 1
    assert again.stderr.startswith("prep stop: background: nothing works in run r: interrupted 20")


# ── killed ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def the_parent(process: subprocess.Popen, mark: str) -> psutil.Process | None:
    return psutil.Process(process.pid)


def the_kernel(process: subprocess.Popen, mark: str) -> psutil.Process | None:
    while process.poll() is None:
        for found in killing.family(mark):
            with contextlib.suppress(psutil.Error):
                if any("run_kernel" in word for word in found.cmdline()):
                    return found
        time.sleep(0.02)
    return None


Victim = Callable[[subprocess.Popen, str], psutil.Process | None]


def kill_once(ws: Path, command: list[str], victim: Victim, chance: random.Random) -> bool:
    """Start the command, kill one of its processes at a random moment; return False if it was done before that."""
    # Most of them while everything still starts, for that is most of the time.
    starting, moment = chance.random() < 0.6, chance.uniform(0, 2.5)
    before = opened(ws)
    process, mark = killing.start(command, cwd=ws, stdout=subprocess.DEVNULL)
    with process:
        while not starting and opened(ws) == before and process.poll() is None:
            time.sleep(0.02)
        time.sleep(moment)
        doomed = victim(process, mark)
        hit = process.poll() is None and doomed is not None
        if doomed is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                doomed.kill()
        said = process.communicate(timeout=60)[1]
    assert killing.wait_gone(mark, 5) == []
    if hit and victim is the_kernel:
        assert process.returncode == 1
        assert said.startswith(f"prep run: {NOTEBOOK}")
        assert "the kernel died" in said
        assert said.count("\n") == 1
    return hit


def killed_again_and_again(ws: Path, command: list[str], victim: Victim, seed: int) -> list[dict[str, bytes]]:
    """Kill `KILLS` runs, each going on where the last one fell; return what was left whenever one could finish."""
    chance, found = random.Random(seed), []
    for number in range(1, KILLS + 1):
        while not kill_once(ws, command, victim, chance):
            shutil.rmtree(ws / "runs")
        if number % THEN_FINISH == 0:
            done = run(ws, command)
            assert done.returncode == 0, done.stderr
            found.append(left(ws))
            shutil.rmtree(ws / "runs")
    return found


@pytest.fixture(scope="module", autouse=True)
def fates(
    world: Path, clean: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future]]:
    """Start all three at once, beside the tests above: each of them waits much of the time."""
    folder = tmp_path_factory.mktemp("killed")
    lots = {"prep": (PREP, the_parent), "kernel": (PREP, the_kernel), "papermill": (PAPERMILL, the_parent)}
    with ThreadPoolExecutor(len(lots)) as pool:
        yield {
            name: pool.submit(killed_again_and_again, shutil.copytree(world, folder / name), *lot, seed)
            for seed, (name, lot) in enumerate(lots.items())
        }


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["prep", "kernel"])
def test_a_killed_run_leaves_no_orphan_and_the_same_command_ends_as_if_nothing_had_happened(fates, clean, name):
    for found in fates[name].result():
        assert found == clean


@pytest.mark.timeout(900)
def test_a_killed_papermill_leaves_no_orphan_and_the_same_command_ends_as_if_nothing_had_happened(fates, clean):
    shards = {name: content for name, content in clean.items() if name.startswith(NOTEBOOK)}
    for found in fates["papermill"].result():
        assert found == shards
