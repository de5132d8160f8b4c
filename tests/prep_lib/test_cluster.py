"""A cluster writes what one process writes; whatever breaks there is one line, and what was finished is kept."""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import killing
import numpy as np
import pytest
import toy_cluster

from prep_lib import cli, cluster
from prep_lib.build import build_shards, cache_jsonl
from prep_lib.chat.process import ProcessorFactory
from prep_lib.cluster import connect, examine, parse, versions
from prep_lib.decide import decide_files
from prep_lib.engine import Crew, Task, run_tasks
from prep_lib.errors import BadInput, BadParameter, PrepError, TaskFailed
from prep_lib.pipeline import run_files
from prep_lib.shuffle.shuffle_npz import shuffle_npz
from prep_lib.shuffle.subsample import subsample
from prep_lib.text.exact_dedup import ExactDedup
from prep_lib.text.near_dedup import NearDedup
from prep_lib.text.normalize import Normalize
from prep_lib.tokens.tokenizer import AutoTokenizer
from prep_lib.workspace import Run

# Workers cannot import a test file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

WORDS = ["the", "data", "is", "here", "and", "other", "words", "count", "what", "there", "was", "of", "it"]


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[toy_cluster.Cluster]:
    """A scheduler and two workers for all tests, each a process."""
    pytest.importorskip("distributed", reason="dask is not installed: pip install 'prep-workbench[dask]'")
    with toy_cluster.cluster(tmp_path_factory.mktemp("dask")) as made:
        yield made


@pytest.fixture
def crew(dask: toy_cluster.Cluster) -> Iterator[Crew]:
    with Crew(dask.engine) as crew:
        yield crew


def wait_until(true: Callable[[], bool], seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


# Names


def test_names() -> None:
    assert parse("dask:tcp://10.0.0.1:8786") == ("dask", "tcp://10.0.0.1:8786")
    assert parse("dask:tls://host:1") == ("dask", "tls://host:1")
    assert parse("ray") == ("ray", "")
    assert parse("ray:10.0.0.1:6379") == ("ray", "10.0.0.1:6379")
    assert parse("processes") is None


def test_dask_asks_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", "tcp://there:8786")
    assert parse("dask") == ("dask", "tcp://there:8786")
    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS")
    with pytest.raises(BadParameter, match="where is dask's scheduler\\? Write dask:tcp://HOST:8786 or set DASK_SCHED"):
        parse("dask")


@pytest.mark.parametrize("name", ["dask:tcp://host", "dask:http://host:1", "dask:host:port", "ray:host", "ray:a/b:1"])
def test_nonsense_is_refused_before_anything_starts(name: str) -> None:
    kind, _, address = name.partition(":")
    with pytest.raises(BadParameter, match=f"^engine: {address!r} is no address of {kind}; write {kind}:"):
        Crew(name)


@pytest.mark.parametrize("name", ["dask:tcp://host:1", "ray"])
def test_without_the_package_one_line_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("distributed", "ray"):
        monkeypatch.setitem(sys.modules, package, None)
    kind = name.partition(":")[0]
    with pytest.raises(
        BadParameter, match=rf"engine: {kind} is not installed .*pip install 'prep-workbench\[{kind}\]'"
    ):
        connect(name)


def test_the_options_of_the_command_become_the_word_that_notebooks_take() -> None:
    def word(**given: str) -> str:
        return cli._engine(argparse.Namespace(**{"engine": "", "address": "", **given}))

    assert word() == ""
    assert word(engine="inline") == "inline"
    assert word(engine="dask", address="tcp://h:8786") == "dask:tcp://h:8786"
    assert word(engine="ray") == "ray"
    for engine in ("", "processes", "dask:tcp://h:1"):
        with pytest.raises(BadParameter, match="--address is of a cluster: give --engine dask or ray with it"):
            word(engine=engine, address="tcp://h:8786")


# Three ways

#: What a user's file brings: workers have no such module.
MINE = """
from dataclasses import dataclass
from prep_lib.record import Drop

LEAST = 3

@dataclass(frozen=True, kw_only=True)
class Few:
    name: str = "few"

    def judge(self, doc):
        return Drop("few") if len(doc.text.split()) < LEAST else None

def few():
    return Few()
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Path], AutoTokenizer, Any]]:
    yield make_world(tmp_path_factory.mktemp("world"))
    # Its functions stay loaded under a name that other tests want for files of their own.
    sys.modules.pop("my_funcs", None)


def make_world(folder: Path) -> tuple[list[Path], AutoTokenizer, Any]:
    """Three files with copies in them, a tokenizer, and a stage out of ``my_funcs.py``."""
    draw = np.random.default_rng(7)
    for name in "abc":
        rows = [" ".join(draw.choice(WORDS, 30)) for _ in range(20)]
        rows[3:6] = [rows[0], rows[1] + " now", "too few"]
        lines = [json.dumps({"text": row, "query": row[:20], "response": row[20:]}) for row in rows]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    tokenizer = AutoTokenizer().train(WORDS * 4, vocab_size=300)
    (folder / "my_funcs.py").write_text(MINE)
    return sorted(folder.glob("*.jsonl")), tokenizer, Run(folder, "r").function("my_funcs.py:few")()


def pretrain(files: list[Path], out: Path, tokenizer: AutoTokenizer, mine: Any, engine: str) -> None:
    run_files([Normalize(), mine], files, out / "clean", engine=engine, max_dropped=1.0)
    decide_files([ExactDedup(), NearDedup()], out / "clean", out / "kept", engine=engine, max_dropped=1.0)
    build_shards(out / "kept", out / "shards", tokenizer, 16, shard_size=9, tail="pad", engine=engine)


def posttrain(files: list[Path], out: Path, tokenizer: AutoTokenizer, mine: Any, engine: str) -> None:
    processor = ProcessorFactory.create("sft", tokenizer)
    cache_jsonl(files, out / "packed", processor, 64, shard_size=9, pad_value=300, engine=engine)


def preshuffle(files: list[Path], out: Path, tokenizer: AutoTokenizer, mine: Any, engine: str) -> None:
    given = files[0].parent / "npz"
    given.mkdir(exist_ok=True)
    for at, path in enumerate(files):
        np.savez(given / f"{path.stem}.npz", ids=np.arange(40 * at, 40 * at + 40).reshape(-1, 2))
    shuffle_npz(given, out / "even", shard_size=16, engine=engine)
    subsample(given, out / "few", num_samples=20, eval_samples=5, shard_size=9, engine=engine)


@pytest.mark.parametrize("way", [pretrain, posttrain, preshuffle])
def test_every_file_of_a_way_is_as_one_process_writes_it(
    way: Callable[..., None], dask: toy_cluster.Cluster, world: tuple[Any, ...], tmp_path: Path
) -> None:
    files, *given = world
    found = []
    for engine in ("inline", dask.engine):
        way(files, tmp_path / "out", *given, engine)
        found.append(killing.tree(tmp_path / "out"))
        shutil.rmtree(tmp_path / "out")
    one, other = found
    assert one.keys() == other.keys()
    differ = [name for name in one if one[name] != other[name]]
    # Only what remembers when an input was last changed.
    assert [name for name in differ if ".prep/" not in name or "/tasks/" in name] == []
    assert len(one) > 5


def test_a_module_that_workers_lack_is_named(crew: Crew, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_here.py").write_text("def work(out): return {}")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    with pytest.raises(TaskFailed, match="s: task t cannot be loaded by a worker: No module named 'only_here'"):
        run_tasks("s", [Task("t", only_here.work, {})], tmp_path / "out", crew=crew)
    sys.modules.pop("only_here")


def test_workers_run_one_thread_and_so_many_tasks_are_in_flight(crew: Crew, tmp_path: Path) -> None:
    task = Task("t", lambda out: {"n": os.environ["RAYON_NUM_THREADS"]}, {})
    assert run_tasks("t", [task], tmp_path, crew=crew) == [{"n": "1"}]
    assert (crew.workers, crew._room) == (2, 4)
    assert Crew(crew.engine, 3)._room == 3


def test_what_is_large_is_laid_down_once_and_not_sent_with_every_task(
    crew: Crew, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, sent = [b"x" * 2**17], list[int]()
    submit = cluster.Dask.submit
    monkeypatch.setattr(cluster.Dask, "submit", lambda self, *args: sent.append(len(args[3])) or submit(self, *args))

    def work(large: list[bytes], small: list[int], n: int, out: Path) -> dict[str, int]:
        large.append(b"mine alone")
        return {"n": len(large) + len(large[0]) + small[0] + n}

    tasks = [Task(f"t{n}", work, {"large": large, "small": [n], "n": n}) for n in range(4)]
    found = run_tasks("s", tasks, tmp_path, crew=crew)
    assert found == [{"n": 2 + 2**17 + 2 * n} for n in range(4)]
    assert max(sent) < 4000
    assert len(list((tmp_path / ".prep" / "tmp").glob("parcel-*"))) == 1


# Whatever breaks


def square(n: int, log: str, out: Path, work: Callable[[int], Any] = lambda n: None) -> dict[str, int]:
    """Note that a task has begun and in which process, do something, and write n squared."""
    with open(log, "a") as file:
        file.write(f"{n} {os.getpid()}\n")
    work(n)
    (out / f"{n}.txt").write_text(str(n * n))
    return {"n": n}


def squares(folder: Path, count: int, **more: Any) -> list[Task]:
    log = folder.parent / f"{folder.name}.log"
    log.touch()
    args = {"log": str(log), **more}
    return [Task(f"t{n}", square, {"n": n, **args}, (f"data/{n}.txt",), {"inputs": n}) for n in range(count)]


def kill_once(folder: Path, n: int) -> None:
    if n == 3 and len([line for line in begun(folder) if line[0] == 3]) == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def kill_always(n: int) -> None:
    if n == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def beat(log: str, out: Path) -> dict[str, Any]:
    """Show life in a file, for ever."""
    while True:
        with open(log, "a") as file:
            file.write("x")
        time.sleep(0.05)


def quiet(log: Path) -> bool:
    """Say whether nobody writes to a file any more."""
    before = log.stat().st_size
    time.sleep(0.2)
    return log.stat().st_size == before


def begun(folder: Path) -> list[list[int]]:
    lines = (folder.parent / f"{folder.name}.log").read_text().splitlines()
    return [[int(word) for word in line.split()] for line in lines]


def test_a_worker_killed_in_the_middle_costs_its_span(crew: Crew, tmp_path: Path) -> None:
    out, clean = tmp_path / "out", tmp_path / "clean"
    run_tasks("s", squares(out, 8, work=functools.partial(kill_once, out)), out, crew=crew)
    run_tasks("s", squares(clean, 8), clean)
    assert killing.tree(out) == killing.tree(clean)
    assert [line[0] for line in begun(out)].count(3) == 2


def test_a_task_that_takes_every_worker_down_fails_by_name_and_the_others_finish(crew: Crew, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(
        TaskFailed, match=r"^s: task t1 took its worker down while it ran alone \(killed, or out of mem"
    ):
        run_tasks("s", squares(out, 4, work=kill_always), out, crew=crew)
    assert sorted(os.listdir(out / "data")) == ["0.txt", "2.txt", "3.txt"]


LONG = """
import sys, time
from pathlib import Path
from prep_lib.engine import Crew, Task, run_tasks
from prep_lib.events import listen
from prep_lib.locks import lock
def work(n, out):
    with open(f"{sys.argv[2]}", "a") as file:
        while True:
            print(n, file=file, flush=True)
            time.sleep(0.05)
tasks = [Task(f"t{n}", work, {"n": n}) for n in range(6)]
with lock(sys.argv[1]), Crew(sys.argv[3]) as crew:
    run_tasks("s", tasks, sys.argv[1], crew=crew)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_whoever_is_interrupted_or_killed_leaves_no_task_on_the_cluster(
    how: signal.Signals, dask: toy_cluster.Cluster, tmp_path: Path
) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    job, _ = killing.spawn(LONG.replace("sys.argv[2]", repr(str(log))), out, "", dask.engine)
    with job:
        wait_until(lambda: log.exists() and set(log.read_text().split()) == {"0", "1"})
        job.send_signal(how)
        _, told = job.communicate(timeout=10)
    assert how == signal.SIGKILL or told.rstrip().endswith("KeyboardInterrupt"), told
    wait_until(functools.partial(quiet, log), 5)
    with Crew(dask.engine) as crew:
        assert run_tasks("s", [Task("t", lambda out: {"n": 1}, {})], tmp_path / "next", crew=crew) == [{"n": 1}]
    assert how == signal.SIGKILL or not (out / ".prep" / "tmp").exists()


# Before the first task


def test_nobody_at_the_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    with pytest.raises(BadInput, match=r"^engine: no scheduler of dask answers at "):
        Crew("dask:tcp://127.0.0.1:9").meet(tmp_path)


def test_a_worker_that_differs_or_lacks_this_project_is_named(dask: toy_cluster.Cluster, tmp_path: Path) -> None:
    other, empty = tmp_path / "other.py", tmp_path / "empty.py"
    other.write_text(
        "from prep_lib import cluster\nold = {**cluster.versions(), 'numpy': '1.0'}\ncluster.versions = lambda: old"
    )
    empty.write_text("import sys\nsys.modules['prep_lib'] = None")
    strangers = [dask.add("--preload", str(path), "--no-nanny") for path in (other, empty)]
    mark, out = tmp_path / "mark", tmp_path / "out"
    mark.touch()
    with Crew(dask.engine) as crew:
        connected = crew._connected()
        wait_until(lambda: connected.count() == 4)
        found = connected.everywhere(examine, versions(), mark).values()
        with pytest.raises(BadInput, match=r"^engine: worker tcp://127.0.0.1:\d+ of dask at .* \(and 1 more of 4 "):
            crew.meet(tmp_path)
    wrong = sorted(line for told in found if (line := cluster._wrong(told)))
    assert len(wrong) == 2
    assert wrong[0].endswith("; install this project there as it is here")
    assert re.fullmatch(r"it has numpy: 1\.0 \(here .*\); install the same on every machine and start its .*", wrong[1])
    # One that comes later, when the others have been looked over, is asked by its first task.
    with Crew(dask.engine) as crew:
        crew._seen.add(out / ".prep" / "tmp")
        with pytest.raises(PrepError, match=r"numpy: 1.0 \(here|prep_lib"):
            run_tasks("s", [Task(f"t{n}", lambda out: {"n": 1}, {}) for n in range(8)], out, crew=crew)
    toy_cluster.kill(*strangers)


def test_a_worker_that_sees_another_folder(tmp_path: Path) -> None:
    complaint, left = examine(versions(), tmp_path / "mark")
    assert (complaint, left) == (
        f"it does not see {tmp_path}; use a folder that all machines have under this path, or an object store",
        None,
    )
    (tmp_path / "mark").touch()
    assert examine(versions(), tmp_path / "mark")[0] == ""
    assert "numpy: 2" in examine({**versions(), "numpy": "1.0"}, tmp_path / "mark")[0]


# Ray: in a network of its own, where it finds no other machine, and with processes of its own, which end with it

RAY = """
import functools, os, shutil, signal, subprocess, sys, threading
from pathlib import Path
tests, folder, short = map(Path, sys.argv[1:])
sys.path[:0] = [str(tests), str(tests / "prep_lib")]
head = ["--head", "--port", "6390", "--num-cpus", "2", "--node-ip-address", "127.0.0.1", "--include-dashboard", "false"]
head += ["--temp-dir", str(short), "--object-store-memory", "80000000"]
# Given ports are not waited for: on a busy machine its agents take longer to come up than it would wait.
for at, port in enumerate(("dashboard-agent-grpc", "dashboard-agent-listen", "runtime-env-agent", "metrics-export")):
    head += [f"--{port}-port", str(6391 + at)]
started = subprocess.run([sys.executable, "-m", "ray.scripts.scripts", "start", *head], capture_output=True, text=True)
if started.returncode:
    sys.exit(started.stderr)
print("reached: up", flush=True)

import killing, test_cluster as t
from prep_lib import cluster
from prep_lib.engine import Crew, Task, run_tasks
from prep_lib.errors import BadInput, TaskFailed

files, *given = t.make_world(folder)
trees = []
for engine in ("inline", "ray:127.0.0.1:6390"):
    for way in (t.pretrain, t.posttrain, t.preshuffle):
        way(files, folder / "out", *given, engine)
    found = killing.tree(folder / "out")
    trees.append({name: data for name, data in found.items() if ".prep/" not in name or "/tasks/" in name})
    shutil.rmtree(folder / "out")
assert trees[0] == trees[1] and len(trees[0]) > 15
print("reached: same bytes", flush=True)

with Crew("ray") as crew:
    out = folder / "killed"
    run_tasks("s", t.squares(out, 6, work=functools.partial(t.kill_once, out)), out, crew=crew)
    assert sorted(os.listdir(out / "data")) == [f"{n}.txt" for n in range(6)]
print("reached: one killed", flush=True)

cluster.RETRIES = 0
with Crew("ray") as crew:
    out = folder / "always"
    try:
        run_tasks("s", t.squares(out, 4, work=t.kill_always), out, crew=crew)
    except TaskFailed as error:
        assert str(error).startswith("s: task t1 took its worker down while it ran alone"), error
    assert sorted(os.listdir(out / "data")) == ["0.txt", "2.txt", "3.txt"]
print("reached: named", flush=True)

log = folder / "log"
with Crew("ray") as crew:
    # A real signal: what Python only pretends does not wake a thread that waits.
    main, number = threading.main_thread().ident, signal.SIGINT
    ctrl_c = lambda: (t.wait_until(log.exists, 60), signal.pthread_kill(main, number))
    threading.Thread(target=ctrl_c, daemon=True).start()
    try:
        run_tasks("s", [Task("t", t.beat, {"log": str(log)})], folder / "long", crew=crew)
    except KeyboardInterrupt:
        t.wait_until(functools.partial(t.quiet, log), 10)
        print("reached: stopped", flush=True)
connected = cluster.connect("ray")
connected.told = {**connected.told, "numpy": "1.0"}
try:
    connected.check(folder)
except BadInput as error:
    assert "it has numpy: 2" in str(error), error
    print("reached: differs", flush=True)
"""


def test_ray_writes_the_same_bytes_and_what_breaks_there_is_named(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not installed: pip install 'prep-workbench[ray]'")
    room = ["unshare", "--net", "--pid", "--fork", "--mount-proc"]
    if not shutil.which("unshare") or subprocess.run([*room, "true"], capture_output=True).returncode:
        pytest.skip("a network and processes of its own need unshare, and the right to use it")
    ours = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_agent_register_timeout_ms": "100000"}
    command = [*room, "sh", "-c", 'ip link set lo up; exec "$@"', "sh", sys.executable, "-c", RAY]
    command += [str(Path(toy_cluster.__file__).parent), str(tmp_path)]
    # Its sockets have names of at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as short:
        done = subprocess.run(
            [*command, short], capture_output=True, text=True, env={**os.environ, **ours}, cwd=tmp_path
        )
    if not done.stdout:
        pytest.skip(f"ray does not come up on this machine: {done.stderr[-300:]}")
    # Between them stand notes of ours, and what ray has to say of workers that died.
    told = [line.removeprefix("reached: ") for line in done.stdout.splitlines() if line.startswith("reached: ")]
    assert told == ["up", "same bytes", "one killed", "named", "stopped", "differs"], done.stdout + done.stderr


# The end: what is killed here is not there for another test


def test_without_workers_or_scheduler_one_line_says_so_and_the_same_command_goes_on(
    dask: toy_cluster.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "ALONE", 1.0)
    monkeypatch.setattr(cluster, "LOOK", 0.2)
    out, name = tmp_path / "out", dask.engine.partition(":")[2]

    def run(until: str, *victims: subprocess.Popen) -> None:
        def wait(n: int) -> None:
            if n > int(until[1:]):
                time.sleep(60)

        def watch(task: Task, result: Any) -> None:
            if task.name == until:
                toy_cluster.kill(*victims)

        with Crew(dask.engine) as crew:
            run_tasks("s", squares(out, 6, work=wait), out, crew=crew, watch=watch)

    kept = r"while it ran t\d, t\d.*; finished tasks are kept, the same command goes on$"
    with pytest.raises(TaskFailed, match=f"^s: dask at {name} has had no worker for 1 s {kept}"):
        run("t1", *dask.workers)
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    with pytest.raises(BadInput, match=f"^engine: the scheduler at {name} has no workers; start some$"):
        Crew(dask.engine).meet(tmp_path)
    monkeypatch.setattr(cluster, "PATIENCE", 15.0)
    monkeypatch.setattr(cluster, "ALONE", 60.0)  # whoever lost the scheduler sees no workers either
    dask.add()
    with pytest.raises(TaskFailed, match=f"^s: dask at {name} is gone {kept}"):
        run("t3", dask.scheduler)
    finished = sorted(os.listdir(out / "data"))
    assert finished == [f"{n}.txt" for n in range(4)]
    before = begun(out)
    run_tasks("s", squares(out, 6), out)
    assert [line[0] for line in begun(out)[len(before) :]] == [4, 5]
