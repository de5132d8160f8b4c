"""Stores: the same bytes as here, the record last, no request a file, no secret told; a server where there is one."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from prep_lib import engine, remote
from prep_lib import files as fs
from prep_lib.build import build_shards
from prep_lib.decide import decide_files
from prep_lib.documents import Documents
from prep_lib.engine import Task, listen, lock, run_tasks
from prep_lib.errors import BadInput, BadParameter, PrepError, RunLocked, StoreFailed
from prep_lib.pipeline import run_files
from prep_lib.remote import Remote, place, without_secrets
from prep_lib.shards.npz import NpzWriter
from prep_lib.shards.verify import verify
from prep_lib.shuffle.shuffle_npz import shuffle_npz
from prep_lib.shuffle.subsample import subsample
from prep_lib.source.export import export_dataset
from prep_lib.text.exact_dedup import ExactDedup
from prep_lib.text.near_dedup import NearDedup
from prep_lib.text.normalize import Normalize
from prep_lib.tokens.tokenizer import AutoTokenizer
from prep_lib.trace import trace

#: What no file name should hold, and some do.
AWKWARD = "web 一#%41?[x].jsonl"

SILENT = {"engine": "inline"}


@pytest.fixture
def far() -> Iterator[Remote]:
    """A folder in the memory of this process."""
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    with listen(lambda event: None, instead=True):
        yield Remote("memory://store/a b")
    MemoryFileSystem.store.clear()


@pytest.fixture
def events() -> Iterator[list[dict[str, Any]]]:
    """What is told while a test runs; nothing is printed."""
    told: list[dict[str, Any]] = []
    with listen(told.append, instead=True):
        yield told


def texts(count: int = 60) -> list[str]:
    return [f"page {at % 50} tells of cats, dogs, rain and the long way home" for at in range(count)]


def documents(path: Any) -> None:
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts())
    place(path).parent.mkdir(parents=True, exist_ok=True)
    place(path).write_bytes(lines.encode())


def npz(folder: Path) -> None:
    for at in range(3):
        with NpzWriter(folder / f"n{at}.npz") as writer:
            writer.array("ids", np.arange(40).reshape(20, 2) + 100 * at)


def tree(folder: Any) -> dict[str, str]:
    """Every file that is not hidden, by name and content."""
    folder = place(folder)
    names = folder.listing() if isinstance(folder, Remote) else [
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    ]  # fmt: skip
    shown = [name for name in names if not any(part.startswith(".") for part in name.split("/"))]
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in shown}


# Paths


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1), min_size=1, max_size=4))
def test_names_are_those_of_pathlib(parts: list[str]) -> None:
    inside = PurePosixPath(*parts)
    path = Remote("s3://bucket") / inside
    assert (path.name, path.stem, path.suffix) == (
        (inside.name, inside.stem, inside.suffix) if inside.name else ("bucket", "bucket", "")
    )
    assert path.relative_to(Remote("s3://bucket")) == inside
    assert pickle.loads(pickle.dumps(path)) == path == Remote(str(path))


@pytest.mark.parametrize(
    ("url", "parent", "inside"),
    [
        ("s3://bucket/a/", "s3://bucket", "s3://bucket/a/x"),
        ("hdfs:///data", "hdfs:///", "hdfs:///data/x"),
        ("file:///", "file:///", "file:///x"),
        ("s3://bucket", "s3://", "s3://bucket/x"),
    ],
)
def test_an_address_keeps_its_root(url: str, parent: str, inside: str) -> None:
    assert (str(Remote(url).parent), str(Remote(url) / "x")) == (parent, inside)
    assert Remote(url) / "." == Remote(url)


def test_a_folder_lists_searches_and_forgets(far: Remote) -> None:
    for name in ("b.txt", "a.txt", "in/c.txt", ".hidden/d.txt"):
        (far / name).write_text(name)
    assert [path.name for path in far.iterdir()] == [".hidden", "a.txt", "b.txt", "in"]
    assert [str(path.relative_to(far)) for path in far.rglob("*.txt")] == [
        ".hidden/d.txt",
        "a.txt",
        "b.txt",
        "in/c.txt",
    ]
    assert [path.name for path in far.glob("in/*.txt")] == ["c.txt"]
    assert list(far.glob("nowhere/*")) == []
    assert (far.is_dir(), far.is_file(), (far / "a.txt").is_file(), (far / "z").exists()) == (True, False, True, False)
    remote.remove([far / "a.txt", far / "never.txt"])
    remote.remove_folder(far / "in")
    assert sorted(far.listing()) == [".hidden/d.txt", "b.txt"]
    with pytest.raises(FileNotFoundError):
        (far / "a.txt").read_bytes()


def test_a_file_appears_whole_or_not_at_all(far: Remote) -> None:
    with fs.write_whole(far / AWKWARD) as file:
        file.write(b"old")
        assert far.listing() == {}
    with pytest.raises(ZeroDivisionError), fs.write_whole(far / AWKWARD, "w") as file:
        file.write(str(1 / 0))
    assert (far / AWKWARD).read_bytes() == b"old"
    assert list(remote.own_corner().iterdir()) == []


def test_a_copy_follows_its_object_and_goes_with_its_folder(far: Remote) -> None:
    (far / "in/a.bin").write_bytes(b"one")
    copy = fs.local(far / "in/a.bin")
    assert (copy.name, copy.read_bytes()) == ("a.bin", b"one")
    (far / "in/a.bin").write_bytes(b"other")
    assert fs.local(far / "in/a.bin").read_bytes() == b"other"
    remote.forget_copies(far)
    assert not copy.exists()
    assert fs.local("here.bin") == Path("here.bin")


# The same bytes


def test_every_function_writes_the_bytes_it_writes_here_and_once(tmp_path: Path, far: Remote) -> None:
    for home in (place(tmp_path), far):
        documents(home / "in" / AWKWARD)
    npz(tmp_path / "npz")
    for path in (tmp_path / "npz").iterdir():
        (far / "npz" / path.name).send(path)
    model = AutoTokenizer()
    model.train(texts(), vocab_size=300)

    def everything(home: Any) -> None:
        out = f"{home}/out"
        run_files([Normalize()], f"{home}/in", f"{out}/clean", **SILENT)
        decide_files([ExactDedup(), NearDedup()], f"{out}/clean", f"{out}/dedup", **SILENT)
        build_shards(f"{out}/dedup", f"{out}/concat", model, 16, shard_size=20, **SILENT)
        build_shards(f"{out}/dedup", f"{out}/fit", model, 64, packing="best_fit", format="npz", **SILENT)
        build_shards(f"{out}/dedup", f"{out}/h5", model, 64, format="h5", **SILENT)
        export_dataset(f"{home}/in/{AWKWARD}", f"{out}/export", "p", chunk_size=25, columns="text->query")
        shuffle_npz(f"{home}/npz", f"{out}/shuffled", shard_size=16, **SILENT)
        subsample(f"{home}/npz", f"{out}/drawn", num_samples=9, eval_samples=3, **SILENT)

    everything(tmp_path)
    everything(far)
    assert tree(far / "out") == tree(tmp_path / "out")
    assert [doc.id for doc in Documents(far / "out/dedup")] == [doc.id for doc in Documents(tmp_path / "out/dedup")]
    assert [verify(far / "out" / name) for name in ("concat", "fit", "h5")] == [[], [], []]
    found = trace(str(far / "out/concat"), 0, 0, inputs=[str(far / "out/clean")])
    assert str(found) == str(trace(tmp_path / "out/concat", 0, 0, inputs=[tmp_path / "out/clean"]))
    written = {name: about["created"] for name, about in far.listing().items() if "/owners/" not in name}
    everything(far)
    again = {name for name, about in far.listing().items() if about["created"] != written.get(name)}
    # What tells of an earlier run's end is taken away and laid down again; nothing is read or made anew.
    assert not [name for name in again if name.endswith((".zst", ".bin", ".npz", ".h5")) and "rejected" not in name]
    assert not [name for name in far.listing() if "/tmp/" in name or "/owners/" in name]


def test_a_run_asks_for_listings_not_for_every_file(far: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(40):
        (far / f"in/{at}.jsonl").write_text('{"text": "a"}\n')
    asked: Counter[str] = Counter()
    for name in ("info", "find", "ls"):
        whole = getattr(MemoryFileSystem, name)
        monkeypatch.setattr(
            MemoryFileSystem, name, lambda self, *a, _n=name, _w=whole, **k: (asked.update([_n]), _w(self, *a, **k))[1]
        )
    assert len(remote.stamps(str(path) for path in (far / "in").rglob("*.jsonl"))) == 40
    assert asked["info"] == 0
    assert asked["find"] <= 2
    run_tasks("square", [square(far, at) for at in range(40)], far)
    asked.clear()
    run_tasks("square", [square(far, at) for at in range(40)], far)
    assert asked["info"] + asked["find"] + asked["ls"] <= 4


# Tasks


def write_square(number: int, out: Path) -> dict[str, Any]:
    (out / f"{number} %.txt").write_text(str(number**2))
    return {"square": number**2}


def square(folder: Any, number: int, version: int = 1) -> Task:
    return Task(f"t{number}", write_square, {"number": number}, (f"parts/{number} %.txt",), {"code": {"m": version}})


KILLED = """
import os, signal, sys
from prep_lib import engine
commit = engine._Store.commit
def write_square(number, out):
    (out / f"{number} %.txt").write_text(str(number**2))
    return {"square": number**2}
def dies(self, task, out, result):
    if task.name == "t2":
        os.kill(os.getpid(), signal.SIGKILL)
    commit(self, task, out, result)
engine._Store.commit = dies
tasks = [
    engine.Task(f"t{n}", write_square, {"number": n}, (f"parts/{n} %.txt",), {"code": {"m": 1}}) for n in range(4)
]
with engine.lock(sys.argv[1], "squares"), engine.Crew("processes", 1) as crew:
    engine.run_tasks("square", tasks, sys.argv[1], crew=crew)
"""


def test_a_kill_between_files_and_record_costs_that_task(tmp_path: Path, events: list[dict[str, Any]]) -> None:
    far = Remote(f"file://{tmp_path}/store")
    done = subprocess.run([sys.executable, "-c", KILLED, str(far)], cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (far / "parts/2 %.txt").read_text() == "4"
    assert not (far / ".prep/tasks/t2.json").exists()
    before = (far / ".prep/tasks/t1.json").read_bytes()
    with lock(far, "squares"), engine.Crew("processes", 2) as crew:
        results = run_tasks("square", [square(far, n) for n in range(4)], far, crew=crew)
    assert [result["square"] for result in results] == [0, 1, 4, 9]
    assert (far / ".prep/tasks/t1.json").read_bytes() == before
    notes = [event["text"] for event in events if event["event"] == "note"]
    assert len(notes) == 1
    assert "took over the lock of process" in notes[0]
    assert notes[0].endswith("which is gone")
    assert [event["done"] for event in events if event["event"] == "begin"] == [2]
    assert sorted(far.listing()) == [
        ".prep/kind", *(f".prep/tasks/t{n}.json" for n in range(4)), *(f"parts/{n} %.txt" for n in range(4))
    ]  # fmt: skip


def test_a_changed_task_loses_its_record_before_its_files(far: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    run_tasks("square", [square(far, 1)], far)
    gone: list[str] = []
    removed = MemoryFileSystem.rm_file
    monkeypatch.setattr(MemoryFileSystem, "rm_file", lambda self, path: (gone.append(path), removed(self, path)))
    run_tasks("square", [square(far, 1, version=2)], far)
    assert [path.rsplit("/", 1)[1] for path in gone[:2]] == ["t1.json", "1 %.txt"]
    assert json.loads((far / ".prep/tasks/t1.json").read_bytes())["key"] == {"code": {"m": 2}}


def test_memory_is_refused_where_workers_would_not_see_it(tmp_path: Path, far: Remote) -> None:
    documents(far / "in.jsonl")
    told = "lives in the memory of one process; use engine='inline'"
    with pytest.raises(BadParameter, match=told):
        run_files([], str(far / "in.jsonl"), tmp_path / "out", engine="processes")
    documents(tmp_path / "in.jsonl")
    with pytest.raises(BadParameter, match=told):
        run_files([], tmp_path / "in.jsonl", str(far / "out"), engine="processes")
    with ThreadPoolExecutor(2) as threads:
        assert run_files([], str(far / "in.jsonl"), str(far / "out"), engine=threads).total("read", "kept") == 60


# Locks


def other(far: Remote, **told: Any) -> None:
    who = {"host": "other", "process": 1, "machine": "other", **told}
    (far / ".prep/owners/ff.json").write_text(json.dumps(who))


def test_a_living_owner_is_respected_and_a_silent_one_is_not(far: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    other(far)
    with pytest.raises(RunLocked, match="in use by process 1 on other"), lock(far):
        pass
    assert [path.name for path in (far / ".prep/owners").iterdir()] == ["ff.json"]
    told: list[dict[str, Any]] = []
    written = remote.written
    late = {"ff.json": -engine.SILENT - 1.0}
    monkeypatch.setattr(remote, "written", lambda folder: {n: at + late.get(n, 0) for n, at in written(folder).items()})
    with listen(told.append, instead=True), lock(far):
        assert len(list((far / ".prep/owners").iterdir())) == 1
    assert "took over the lock of process 1 on other (last sign of life 61 s ago)" in told[0]["text"]
    assert far.listing() == {}


def test_an_owner_of_this_machine_that_is_gone_is_known_at_once(far: Remote) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    other(far, process=int(ended.stdout), machine=engine._machine())
    with lock(far):
        assert "ff.json" not in [path.name for path in (far / ".prep/owners").iterdir()]


def test_of_two_who_come_together_nobody_thinks_to_be_alone(far: Remote) -> None:
    with lock(far), pytest.raises(RunLocked), lock(far):
        pass
    assert far.listing() == {}


# What goes wrong


class Refusing:
    """A store that says no, in words that nobody should read."""

    def __getattr__(self, name: str) -> Any:
        def refuse(*_: object, **__: object) -> None:
            raise self.error

        return refuse

    def __init__(self, error: Exception) -> None:
        self.error = error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            PermissionError("Forbidden for https://k:verysecret@store.example:9000/b?X=1"),
            "no permission (Forbidden for …)",
        ),
        (
            ConnectionError('Could not connect to "http://10.0.0.7:9000/b/a"'),
            "ConnectionError (Could not connect to …)",
        ),
        (RuntimeError("XMinioStorageFull: no\nroom"), "RuntimeError (XMinioStorageFull: no room)"),
    ],
)
def test_a_store_that_says_no_is_one_clear_line(tmp_path: Path, error: Exception, told: str) -> None:
    for call in (Remote.read_bytes, Remote.info, Remote.listing, lambda path: path.write_text("a"), Remote.unlink):
        path = Remote("s3://bucket/a")
        path._system = (Refusing(error), "bucket/a")  # type: ignore[misc]
        with pytest.raises(StoreFailed) as caught:
            call(path)
        assert told in str(caught.value)
        assert "\n" not in str(caught.value)
        assert "secret" not in str(caught.value)
        assert "9000" not in str(caught.value)
        assert str(caught.value).endswith("what was finished is kept: set it right and run the same command again")


def test_what_is_not_installed_or_not_known_is_said() -> None:
    with pytest.raises(StoreFailed, match="Protocol not known: nowhere"):
        Remote("nowhere://a").exists()


def test_no_secret_is_told_or_written_down(tmp_path: Path, far: Remote) -> None:
    assert without_secrets("ftp://me:secret@host/a") == "ftp://host/a"
    assert "secret" not in str(BadInput("files: cannot read ftp://me:secret@host/a.jsonl: no"))
    assert "abc" not in str(PrepError("cannot read https://host/a.jsonl?X-Amz-Signature=abc: no"))
    documents(tmp_path / "a.jsonl")
    # The file system in memory does not look at who asks.
    (Remote("memory://me:secret@host/a.jsonl")).send(tmp_path / "a.jsonl")
    run_files([], "memory://me:secret@host/a.jsonl", str(far / "out"), **SILENT)
    assert not [name for name in (far / "out").listing() if b"secret" in (far / "out" / name).read_bytes()]
    with pytest.raises(BadParameter, match="must not hold a user, password or signature"):
        decide_files([ExactDedup()], "memory://me:secret@host/a.jsonl", str(far / "dedup"), **SILENT)


# A server


@pytest.fixture(scope="module")
def bucket() -> Iterator[Remote]:
    """A bucket of an object store on this machine, on loopback."""
    missing = [name for name in ("s3fs", "moto", "flask") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"no object store to test on: {', '.join(missing)} not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "verysecret", "AWS_DEFAULT_REGION": "us-east-1"}
    told["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
    before = {name: os.environ.get(name) for name in told}
    os.environ |= told
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(300):
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        import s3fs

        s3fs.S3FileSystem().mkdir("bucket")
        yield Remote("s3://bucket")
    finally:
        server.terminate()
        server.wait()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def test_an_object_store_gets_the_same_bytes_from_worker_processes(tmp_path: Path, bucket: Remote) -> None:
    for home in (place(tmp_path), bucket):
        documents(home / "in" / AWKWARD)
    model = AutoTokenizer()
    model.train(texts(), vocab_size=300)
    for home in (tmp_path, bucket):
        run_files([Normalize()], f"{home}/in", f"{home}/out/clean", workers=2)
        build_shards(f"{home}/out/clean", f"{home}/out/packs", model, 32, workers=2)
    assert tree(bucket / "out") == tree(tmp_path / "out")
    assert verify(bucket / "out/packs") == []
    kept = b"".join((bucket / name).read_bytes() for name in bucket.listing())
    assert b"verysecret" not in kept
    assert os.environ["AWS_ENDPOINT_URL"].encode() not in kept
    with pytest.raises(StoreFailed, match="there is no 'nobucket'"):
        run_files([], f"{tmp_path}/in", "s3://nobucket/out", **SILENT)
