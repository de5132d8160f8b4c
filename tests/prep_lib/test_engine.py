"""Tasks run once, anywhere, with the same bytes; whatever breaks, what was finished is kept."""

from __future__ import annotations

import functools
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import cloudpickle
import killing
import pytest

from prep_lib.engine import Crew, Task, run_tasks
from prep_lib.errors import BadParameter, BadRecord, TaskFailed, TooManyLost, UnknownName

# Workers of an executor handed in cannot import a test file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def crew():
    """Two worker processes for all tests that need no others."""
    with Crew("processes", 2) as crew:
        yield crew


def notes(events):
    return [event["text"] for event in events if event["event"] == "note"]


def square(n, log, out):
    """Write n squared, and a line in a log that counts calls."""
    with open(log, "a") as file:
        file.write(f"{n}\n")
    (out / f"{n}.txt").write_text(str(n * n))
    return {"n": n, "pair": (n, n), 1: None}


def squares(folder, count=4, version=1, work=square):
    log = folder.parent / f"{folder.name}.log"
    return [
        Task(f"t{n}", work, {"n": n, "log": str(log)}, (f"data/{n}.txt",), {"inputs": n, "code": {"m": version}})
        for n in range(count)
    ]


def calls(folder):
    log = folder.parent / f"{folder.name}.log"
    return sorted(log.read_text().split()) if log.exists() else []


# Engines


def test_every_engine_gives_the_same_bytes_and_results(tmp_path, crew):
    with ThreadPoolExecutor(2) as threads, ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as processes:
        crews = {"inline": Crew("inline"), "own": crew, "threads": Crew(threads), "processes": Crew(processes)}
        folders, results = {}, {}
        for name, who in crews.items():
            results[name] = run_tasks("square", squares(tmp_path / name), tmp_path / name, crew=who)
            folders[name] = killing.tree(tmp_path / name)
    assert results["inline"] == [{"n": n, "pair": [n, n], "1": None} for n in range(4)]
    assert sorted(folders["inline"])[-4:] == [f"data/{n}.txt" for n in range(4)]
    assert all(found == results["inline"] for found in results.values())
    assert all(found == folders["inline"] for found in folders.values())
    assert os.listdir(tmp_path / "own" / ".prep" / "tmp") == []


def test_closures_lambdas_and_notebook_functions_travel(tmp_path, crew):
    space = {"__name__": "__main__"}
    exec("import json\nK = 7\ndef cell(out):\n    return {'k': json.loads(str(K))}", space)
    k = 8

    def closure(out):
        return {"k": k}

    works = [space["cell"], closure, lambda out: {"k": 9}, functools.partial(lambda k, out: {"k": k}, 10)]
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
        for at, who in enumerate([crew, Crew(processes)]):
            tasks = [Task(f"t{n}", work, {}) for n, work in enumerate(works)]
            assert [found["k"] for found in run_tasks("k", tasks, tmp_path / str(at), crew=who)] == [7, 8, 9, 10]


def test_big_arguments_and_results_pass(tmp_path, crew):
    tasks = [Task(f"t{n}", lambda blob, out: {"blob": blob.decode()}, {"blob": b"x" * 5_000_000}) for n in range(3)]
    assert [len(found["blob"]) for found in run_tasks("big", tasks, tmp_path, crew=crew)] == [5_000_000] * 3


def test_workers_run_one_thread_each(tmp_path, crew):
    task = Task("t", lambda out: {"n": os.environ["OMP_NUM_THREADS"], "rayon": os.environ["RAYON_NUM_THREADS"]}, {})
    assert run_tasks("t", [task], tmp_path, crew=crew) == [{"n": "1", "rayon": "1"}]


def test_a_block_leaves_no_worker_behind(tmp_path):
    before = {process.pid for process in killing.own_workers()}
    with Crew("processes", 2) as crew:
        run_tasks("square", squares(tmp_path / "a"), tmp_path / "a", crew=crew)
        assert {process.pid for process in killing.own_workers()} - before
    assert {process.pid for process in killing.own_workers()} == before


def test_nonsense_is_refused_at_birth(tmp_path):
    with pytest.raises(UnknownName, match="unknown engine 'process'; did you mean 'processes'"):
        Crew("process")
    with pytest.raises(BadParameter, match="workers must be at least 1, or None"):
        Crew("inline", 0)
    for name in ("a/b", "", ".."):
        with pytest.raises(BadParameter, match="a task is named like a file, without folders"):
            Task(name, square, {})
    for outputs in (("/a",), ("../a",), ("x/a", "y/a")):
        with pytest.raises(BadParameter, match="outputs of t must be inside the folder and differ in their base names"):
            Task("t", square, {}, outputs)
    with pytest.raises(BadParameter, match="engine: s: two tasks are named t"):
        run_tasks("s", [Task("t", square, {}), Task("t", square, {})], tmp_path)
    with pytest.raises(BadParameter, match="engine: s: two tasks write a"):
        run_tasks("s", [Task("t", square, {}, ("a",)), Task("u", square, {}, ("a",))], tmp_path)


# What is already done


def test_a_rerun_runs_nothing(tmp_path, events):
    folder = tmp_path / "a"
    first = run_tasks("square", squares(folder), folder)
    before = killing.tree(folder)
    assert run_tasks("square", squares(folder), folder) == first
    assert calls(folder) == ["0", "1", "2", "3"]
    assert killing.tree(folder) == before
    assert events[-2:] == [
        {"event": "begin", "stage": "square", "tasks": 4, "done": 4},
        {"event": "end", "stage": "square", "seconds": events[-1]["seconds"]},
    ]


def test_only_what_changed_is_redone_and_the_note_names_what(tmp_path, events):
    folder = tmp_path / "a"
    run_tasks("square", squares(folder), folder)
    tasks = [*squares(folder)[:2], *squares(folder, version=2)[2:]]
    run_tasks("square", tasks, folder)
    assert calls(folder) == ["0", "1", "2", "2", "3", "3"]
    assert notes(events) == ["square: 2 of 4 finished tasks are redone: code of m"]


def test_a_changed_task_loses_its_record_first_then_its_outputs_also_those_of_other_names(
    tmp_path, monkeypatch, events
):
    folder, gone = tmp_path / "a", []
    run_tasks("square", squares(folder, 1), folder)
    unlink = Path.unlink
    monkeypatch.setattr(Path, "unlink", lambda path, **how: (gone.append(path.name), unlink(path, **how)))

    def other(n, log, out):
        assert killing.tree(folder) == {}
        (out / "other.txt").write_text("")
        return {}

    task = Task("t0", other, {"n": 0, "log": ""}, ("other.txt",), {"inputs": 0, "code": {"m": 2}})
    run_tasks("square", [task], folder)
    assert gone[0] == "t0.json"
    assert gone[1] == "0.txt"


def test_keep_old_takes_what_older_code_made_but_not_what_other_inputs_made(tmp_path, events):
    folder = tmp_path / "a"
    run_tasks("square", squares(folder), folder)
    run_tasks("square", squares(folder, version=2), folder, keep_old=True)
    assert len(calls(folder)) == 4
    tasks = [Task("t0", square, {"n": 0, "log": str(tmp_path / "a.log")}, ("data/0.txt",), {"inputs": "new"})]
    run_tasks("square", tasks, folder, keep_old=True)
    assert len(calls(folder)) == 5


@pytest.mark.parametrize("harm", ["delete", "cut", "record", "half a record"])
def test_missing_or_cut_outputs_are_made_again(tmp_path, harm, events):
    folder = tmp_path / "a"
    run_tasks("square", squares(folder), folder)
    output, record = folder / "data" / "3.txt", folder / ".prep" / "tasks" / "t3.json"
    {
        "delete": output.unlink,
        "cut": lambda: output.write_text(""),
        "record": record.unlink,
        "half a record": lambda: record.write_text("{}"),
    }[harm]()
    before = killing.tree(folder)
    run_tasks("square", squares(folder), folder)
    assert calls(folder) == ["0", "1", "2", "3", "3"]
    assert output.read_text() == "9"
    assert killing.tree(folder) != before


def test_a_task_without_key_is_never_reused_and_the_run_says_so(tmp_path, events):
    folder = tmp_path / "a"
    tasks = [Task("t", square, {"n": 1, "log": str(tmp_path / "a.log")}, ("1.txt",))]
    run_tasks("square", tasks, folder)
    run_tasks("square", tasks, folder)
    assert calls(folder) == ["1", "1"]
    assert notes(events) == ["square: 1 of 1 finished tasks are redone: a function that cannot be digested"]


# Errors


def fails(n, log, out):
    if n == 2:
        raise ValueError("no such luck")
    return square(n, log, out)


class Stubborn(Exception):
    """An exception that does not survive pickling."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


@pytest.mark.parametrize("engine", ["inline", "own"])
def test_a_task_that_raises_is_named_with_its_cause_and_the_finished_are_kept(tmp_path, engine, crew, events):
    folder = tmp_path / "a"
    who = crew if engine == "own" else None
    with pytest.raises(TaskFailed, match=r"^square: task t2: ValueError: no such luck$") as caught:
        run_tasks("square", squares(folder, 3, work=fails), folder, crew=who)
    assert caught.value.__cause__ is not None
    assert os.listdir(folder / ".prep" / "tmp") == []
    run_tasks("square", squares(folder, 3), folder, crew=who)
    assert calls(folder) == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("work", "sentence"),
    [
        (lambda out: (_ for _ in ()).throw(Stubborn(1, 2)), "s: task t: Stubborn: 1 2"),
        (lambda out: sys.exit(3), "s: task t: SystemExit: 3"),
        (
            lambda out: (_ for _ in ()).throw(MemoryError()),
            "s: task t ran out of memory; use fewer workers or a smaller",
        ),
        (lambda out: {}, "s: task t did not write a.txt"),
        (lambda out: [(out / n).write_text("") for n in ("a.txt", "b")] and {}, "s: task t wrote b, which it does not"),
        (lambda out: (out / "a.txt").write_text("") and {}, "s: task t returned a int, not a dict"),
        (
            lambda out: {"a": (out / "a.txt").write_text(""), "s": {1}},
            "task t: TypeError: Object of type set is not JSON",
        ),
    ],
)
@pytest.mark.parametrize("engine", ["inline", "own"])
def test_what_a_task_may_do_wrong(tmp_path, work, sentence, engine, crew):
    with pytest.raises(TaskFailed, match=sentence):
        run_tasks("s", [Task("t", work, {}, ("a.txt",))], tmp_path, crew=crew if engine == "own" else None)
    assert killing.tree(tmp_path) == {}


@pytest.mark.parametrize("error", [TooManyLost("s: too many lost"), BadRecord("bad_json", "line 3")])
def test_our_own_errors_pass_through(tmp_path, crew, error):
    def work(out):
        raise error

    with pytest.raises(type(error), match=f"^{error}$"):
        run_tasks("s", [Task("t", work, {})], tmp_path, crew=crew)


def test_a_function_that_cannot_travel_fails_by_name(tmp_path, crew):
    held = threading.Lock()
    with pytest.raises(TaskFailed, match=r"s: task t cannot be sent to a worker: cannot pickle '_thread\.lock'"):
        run_tasks("s", [Task("t", lambda out: {"x": held}, {})], tmp_path, crew=crew)

    class Trap:
        def __reduce__(self):
            return int, ("not a number",)

    with pytest.raises(TaskFailed, match="s: task t cannot be loaded by a worker: invalid literal"):
        run_tasks("s", [Task("t", lambda trap, out: {}, {"trap": Trap()})], tmp_path, crew=crew)


def test_an_executor_that_takes_no_work(tmp_path):
    closed = ThreadPoolExecutor(1)
    closed.shutdown()
    with pytest.raises(TaskFailed, match="s: the executor takes no work: cannot schedule new futures after shutdown"):
        run_tasks("s", squares(tmp_path), tmp_path, crew=Crew(closed))


def test_the_first_error_cancels_what_an_executor_has_not_begun(tmp_path):
    def slow(n, log, out):
        time.sleep(0.02)
        return fails(n, log, out)

    with ThreadPoolExecutor(1) as threads, pytest.raises(TaskFailed, match="task t2"):
        run_tasks("square", squares(tmp_path / "a", 50, work=slow), tmp_path / "a", crew=Crew(threads))
    assert len(calls(tmp_path / "a")) < 6


def test_a_watcher_that_raises_stops_the_run_at_once_and_its_workers_with_it(tmp_path, events):
    folder = tmp_path / "a"

    def slow(n, log, out):
        if n:
            time.sleep(60)
        return square(n, log, out)

    def watch(task, result):
        raise TooManyLost("enough")

    with Crew("processes", 2) as crew:
        before = {process.pid for process in killing.own_workers()}
        began = time.monotonic()
        with pytest.raises(TooManyLost, match="enough") as caught:
            run_tasks("square", squares(folder, work=slow), folder, crew=crew, watch=watch)
        assert {process.pid for process in killing.own_workers()} <= before
        assert time.monotonic() - began < 20
    assert caught.value is not None
    seen = []
    with pytest.raises(TaskFailed):
        run_tasks("square", squares(folder, 3, work=fails), folder, watch=lambda task, result: seen.append(task.name))
    assert seen == ["t0", "t1"]
    assert calls(folder) == ["0", "1"]


# Workers that die


def dies_once(n, log, out):
    flag = Path(f"{log}.{n}")
    if n == 2 and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL) if "kill" in log else os._exit(1)
    return square(n, log, out)


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_a_worker_that_dies_once_costs_nothing_but_time(tmp_path, how, events):
    folder, clean = tmp_path / how, tmp_path / "clean"
    with Crew("processes", 2) as crew:
        run_tasks("square", squares(folder, 6, work=dies_once), folder, crew=crew)
    run_tasks("square", squares(clean, 6), clean)
    assert killing.tree(folder) == killing.tree(clean)
    assert len(notes(events)) == 1
    assert "square: a worker died (killed, or out of memory); t" in notes(events)[0]


def always_dies(n, log, out):
    if n == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return square(n, log, out)


@pytest.mark.parametrize("workers", [1, 3])
def test_one_that_always_takes_its_worker_down_fails_by_name_and_the_others_finish(tmp_path, workers, events):
    folder = tmp_path / "a"
    with Crew("processes", workers) as crew:
        with pytest.raises(
            TaskFailed, match=r"^square: task t2 took its worker down twice while it ran alone \(killed"
        ):
            run_tasks("square", squares(folder, 7, work=always_dies), folder, crew=crew)
        assert sorted(os.listdir(folder / "data")) == [f"{n}.txt" for n in range(7) if n != 2]
        before = calls(folder)
        run_tasks("square", squares(folder, 7), folder, crew=crew)
    assert calls(folder) == sorted([*before, "2"])


def test_many_that_always_die_stop_the_run(tmp_path, events):
    folder = tmp_path / "a"
    work = lambda n, log, out: os._exit(1)  # noqa: E731
    with Crew("processes", 1) as crew, pytest.raises(TaskFailed, match=r"task t0, t1, t2 took its worker down twice"):
        run_tasks("square", squares(folder, 20, work=work), folder, crew=crew)


def test_an_executor_handed_in_that_breaks_is_named(tmp_path):
    folder = tmp_path / "a"
    tasks = squares(folder, 9, work=lambda n, log, out: os._exit(1))
    sentence = r"square: the executor broke while it ran t\d, t\d, t\d and 6 more; hand in a new one"
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
        with pytest.raises(TaskFailed, match=sentence):
            run_tasks("square", tasks, folder, crew=Crew(processes))


def test_a_worker_out_of_memory_says_so(tmp_path):
    def greedy(out):
        resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
        return {"n": len(bytearray(2**32))}

    with Crew("processes", 1) as crew:
        with pytest.raises(
            TaskFailed, match="s: task t ran out of memory; use fewer workers or a smaller memory_budget"
        ):
            run_tasks("s", [Task("t", greedy, {})], tmp_path, crew=crew)


# Events


def test_events_come_in_order(tmp_path, events):
    folder = tmp_path / "a"
    run_tasks("square", squares(folder, 2), folder)
    run_tasks("square", squares(folder, 3), folder)
    assert [{name: value for name, value in event.items() if name != "seconds"} for event in events] == [
        {"event": "begin", "stage": "square", "tasks": 2, "done": 0},
        {"event": "task", "stage": "square", "name": "t0", "done": 1, "tasks": 2},
        {"event": "task", "stage": "square", "name": "t1", "done": 2, "tasks": 2},
        {"event": "end", "stage": "square"},
        {"event": "begin", "stage": "square", "tasks": 3, "done": 2},
        {"event": "task", "stage": "square", "name": "t2", "done": 3, "tasks": 3},
        {"event": "end", "stage": "square"},
    ]


# Interrupt

INTERRUPT = """
import sys, time
from pathlib import Path
from prep_lib.engine import *
from prep_lib.events import listen
from prep_lib.locks import lock
def work(n, out):
    time.sleep(0.1 if n < 2 else 60)
    (out / f"{n}.txt").write_text(str(n))
    return {}
tasks = [Task(f"t{n}", work, {"n": n}, (f"{n}.txt",), {"inputs": n}) for n in range(6)]
with listen(lambda event: print(event["event"], event.get("name"), flush=True), instead=True), lock(sys.argv[1]):
    with Crew("processes", 2) as crew:
        run_tasks("s", tasks, sys.argv[1], crew=crew)
"""


@pytest.mark.parametrize("whole_group", [False, True])
def test_an_interrupt_ends_within_two_seconds_leaves_no_process_and_keeps_what_is_finished(tmp_path, whole_group):
    job, mark = killing.spawn(INTERRUPT, tmp_path)
    with job:
        assert sorted(job.stdout.readline() for _ in range(3)) == ["begin None\n", "task t0\n", "task t1\n"]
        began = time.monotonic()
        os.killpg(job.pid, signal.SIGINT) if whole_group else job.send_signal(signal.SIGINT)
        _, told = job.communicate(timeout=10)
        took = time.monotonic() - began
    assert killing.wait_gone(mark, 1) == []
    assert took < 2
    assert told.rstrip().endswith("KeyboardInterrupt")
    assert told.count("Traceback") == 1
    assert {"0.txt", "1.txt", ".prep/tasks/t0.json", ".prep/tasks/t1.json"} <= killing.tree(tmp_path).keys()
    assert sorted(os.listdir(tmp_path / ".prep")) == ["lock", "tasks"]
