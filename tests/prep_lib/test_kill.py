"""Real processes, killed at random moments: a job ends as if nothing had happened, byte for byte."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import killing
import pytest

from prep_lib.engine import Crew
from prep_lib.errors import NoSpace, RunLocked, TaskFailed
from prep_lib.events import listen
from prep_lib.machine import memory_limit

pytestmark = pytest.mark.kill

#: Twelve tasks of a twentieth of a second, written in small pieces so that a kill finds them half done. `trap` runs in
#: one of them, once.
JOB = """
import os, sys, time
from pathlib import Path
from prep_lib.engine import Crew, Task, run_tasks
from prep_lib.events import listen
from prep_lib.locks import lock

def work(n, size, trap, out):
    if n == 5 and trap and not os.path.exists(trap[0]):
        Path(trap[0]).touch()
        exec(trap[1])
    with open(out / f"{n}.bin", "wb") as one, open(out / f"{n}.txt", "w") as two:
        for step in range(10):
            one.write(bytes([n, step]) * (size // 20))
            two.write(f"{n} {step}\\n")
            one.flush()
            time.sleep(0.005)
    return {"n": n, "bytes": size // 20 * 20}

def tasks(size=2000, trap=()):
    outputs = [(f"data/{n}.bin", f"text/{n}.txt") for n in range(12)]
    args = [{"n": n, "size": size, "trap": trap} for n in range(12)]
    return [Task(f"job-{n:02d}", work, args[n], outputs[n], {"inputs": n}) for n in range(12)]

def job(folder, crew, **more):
    with lock(folder):
        return run_tasks("job", tasks(**more), folder, crew=crew)
"""

DRIVER = (
    JOB
    + """
def tell(event):
    print(event["event"], flush=True)

with listen(tell, instead=True), Crew("processes", 2) as crew:
    job(sys.argv[1], crew)
"""
)


@pytest.fixture(scope="module")
def space():
    """The job as a notebook would define it."""
    names = {"__name__": "__main__"}
    exec(compile(JOB, "<job>", "exec", dont_inherit=True), names)
    return names


@pytest.fixture(scope="module")
def crew():
    with Crew("processes", 2) as crew:
        yield crew


@pytest.fixture(scope="module")
def many():
    """Enough workers that the tasks, which sleep most of the time, are quickly done again."""
    with Crew("processes", 6) as crew:
        yield crew


@pytest.fixture(scope="module")
def clean(space, tmp_path_factory):
    """The folder of one run that nobody disturbed, by another engine at that."""
    folder = tmp_path_factory.mktemp("clean")
    with listen(lambda event: None, instead=True):
        space["job"](folder, None)
    found = killing.tree(folder)
    assert len(found) == 12 * 3 + 1
    return found


@pytest.fixture(autouse=True)
def notes():
    """What the engine said."""
    said: list[str] = []
    with listen(lambda event: said.append(event["text"]) if event["event"] == "note" else None, instead=True):
        yield said


@contextlib.contextmanager
def a_worker_killed_after(seconds, seed):
    """Kill one worker of this process, if there is one by then."""

    def kill():
        time.sleep(seconds)
        if found := killing.own_workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(random.Random(seed).choice(found).pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    yield
    thread.join()


@pytest.mark.parametrize(("seed", "moment"), list(enumerate(killing.moments(20, 1, 0, 0.45))))
def test_a_killed_worker_costs_nothing_but_time(space, crew, clean, tmp_path, seed, moment):
    with a_worker_killed_after(moment, seed):
        space["job"](tmp_path, crew)
    assert killing.tree(tmp_path) == clean


def kill_the_parent(folder, moment):
    """Kill a driver at a moment of its job; return who is left of its family."""
    driver, mark = killing.spawn(DRIVER, folder)
    with driver:
        assert driver.stdout.readline() == "begin\n"
        time.sleep(moment)
        driver.kill()
    return killing.wait_gone(mark, 5)


@pytest.fixture(scope="module")
def fallen(tmp_path_factory):
    """Twenty folders whose jobs were killed; four at a time, because a driver mostly waits."""
    folders = [tmp_path_factory.mktemp("fallen") for _ in range(20)]
    with ThreadPoolExecutor(4) as pool:
        left = list(pool.map(kill_the_parent, folders, killing.moments(20, 2, 0, 0.8)))
    return list(zip(folders, left, strict=True))


@pytest.mark.parametrize("number", range(20))
def test_a_killed_parent_leaves_no_orphan_and_a_rerun_equals_a_clean_run(space, many, clean, fallen, number):
    folder, orphans = fallen[number]
    assert orphans == []
    space["job"](folder, many)
    assert killing.tree(folder) == clean
    assert sorted(os.listdir(folder / ".prep")) == ["lock", "tasks"]


@pytest.mark.parametrize("moment", killing.moments(6, 4, 0, 0.8))
def test_an_interrupt_at_any_moment_ends_within_two_seconds_and_a_rerun_continues(space, many, clean, tmp_path, moment):
    driver, mark = killing.spawn(DRIVER, tmp_path)
    with driver:
        assert driver.stdout.readline() == "begin\n"
        time.sleep(moment)
        began = time.monotonic()
        driver.send_signal(signal.SIGINT)
        driver.communicate(timeout=30)
        assert time.monotonic() - began < 2
    assert killing.wait_gone(mark, 1) == []
    space["job"](tmp_path, many)
    assert killing.tree(tmp_path) == clean


@pytest.fixture(scope="module")
def small_group():
    """A control group of 60 MB: who is put in and asks for more is killed."""
    memory = Path("/sys/fs/cgroup/memory")
    group = memory / f"prep-test-{uuid.uuid4().hex[:8]}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text("60000000")
    except OSError:
        pytest.skip("no control group (v1) of this user's to set a memory limit in")
    yield group
    with contextlib.suppress(OSError):
        group.rmdir()


@pytest.mark.parametrize("moment", killing.moments(20, 3, 0, 0.05))
def test_a_worker_killed_for_memory_costs_nothing_but_time(space, crew, clean, tmp_path, small_group, moment, notes):
    greed = f"time.sleep({moment}); open('{small_group}/cgroup.procs', 'w').write(str(os.getpid())); b'x' * 10**9"
    folder = tmp_path / "a"
    space["job"](folder, crew, trap=(str(tmp_path / "trap"), greed))
    assert killing.tree(folder) == clean
    assert [note.split(";")[0] for note in notes] == ["job: a worker died (killed, or out of memory)"]


def test_the_limit_of_the_group_is_known_inside_it(small_group):
    code = f"""
import os
from prep_lib.machine import memory_limit
open("{small_group}/cgroup.procs", "w").write(str(os.getpid()))
print(memory_limit())"""
    inside, _ = killing.spawn(code)
    assert 59_000_000 < int(inside.communicate(timeout=60)[0]) <= 60_000_000 < memory_limit()


def test_a_worker_that_is_refused_memory_says_so_and_a_rerun_continues(space, clean, tmp_path):
    greed = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31)); b'x' * 2**32"
    folder = tmp_path / "a"
    with Crew("processes", 2) as crew:
        with pytest.raises(TaskFailed, match="job: task job-05 ran out of memory; use fewer workers or a smaller"):
            space["job"](folder, crew, trap=(str(tmp_path / "trap"), greed))
        kept = {name for name in killing.tree(folder) if name.startswith("data/")}
        assert len(kept) >= 4
        space["job"](folder, crew)
    assert killing.tree(folder) == clean


def test_a_second_job_in_one_folder_meets_the_lock_and_harms_nothing(space, clean, tmp_path):
    driver, _ = killing.spawn(DRIVER, tmp_path)
    with driver:
        assert driver.stdout.readline() == "begin\n"
        with pytest.raises(RunLocked, match=rf"is in use by process {driver.pid} on .*; wait for it, or use another"):
            space["job"](tmp_path, None)
        assert driver.wait(timeout=60) == 0
    assert killing.tree(tmp_path) == clean


def test_a_full_disk_is_one_clear_line_and_the_run_continues(space, crew, tmp_path):
    size = 200_000
    space["job"](tmp_path / "clean", None, size=size)
    with killing.small_disk(tmp_path / "disk", "6m") as disk:
        folder = disk / "out"
        (disk / "ballast").write_bytes(bytes(5_000_000))
        with pytest.raises(NoSpace, match=r"files: no space left for job-\d\d in .*out; free some and run the same"):
            space["job"](folder, crew, size=size)
        kept = killing.tree(folder)
        assert any(name.startswith("data/") for name in kept)
        assert not (folder / ".prep" / "tmp").exists()
        (disk / "ballast").unlink()
        space["job"](folder, crew, size=size)
        assert killing.tree(folder) == killing.tree(tmp_path / "clean")
        assert all(killing.tree(folder)[name] == kept[name] for name in kept)
