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
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from prep_lib import engine, locks, remote
from prep_lib import files as fs
from prep_lib.build import build_shards
from prep_lib.decide import decide_files
from prep_lib.documents import Documents
from prep_lib.engine import Task, run_tasks
from prep_lib.errors import BadInput, BadParameter, PrepError, RunLocked, StoreFailed
from prep_lib.events import listen
from prep_lib.locks import lock
from prep_lib.pipeline import run_files
from prep_lib.remote import Remote, place, without_secrets
from prep_lib.shards.h5 import IOHandler
from prep_lib.shards.manifest import read_manifest
from prep_lib.shards.npz import NpzReader, NpzWriter
from prep_lib.shards.verify import verify
from prep_lib.shuffle.audit import read_rows
from prep_lib.shuffle.shuffle_npz import shuffle_npz
from prep_lib.shuffle.subsample import subsample
from prep_lib.source.export import export_dataset
from prep_lib.text.classifier import Classifier
from prep_lib.text.exact_dedup import ExactDedup
from prep_lib.text.near_dedup import NearDedup
from prep_lib.text.normalize import Normalize
from prep_lib.text.presets import load_rules
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


def test_a_copy_that_is_asked_for_is_not_forgotten(far: Remote) -> None:
    (far / "in/a.bin").write_bytes(b"one")
    copy = fs.local(far / "in/a.bin")
    old = time.time() - 2 * remote.FORGOTTEN
    os.utime(copy.parent, (old, old))
    assert fs.local(far / "in/a.bin") == copy
    remote.forget_copies(far / "elsewhere")
    assert copy.exists()
    os.utime(copy.parent, (old, old))
    remote.forget_copies(far / "elsewhere")
    assert not copy.exists()


def test_a_copy_that_began_before_a_change_does_not_stay(far: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older download that ends while a newer one is marked: the newer one has to wait for it."""
    path, get, began, go_on = far / "in/x.bin", Remote.get, threading.Event(), threading.Event()
    path.write_bytes(b"OLD!")

    def slow(self: Remote, file: Path) -> None:
        get(self, file)
        began.set()
        assert go_on.wait(60)

    monkeypatch.setattr(Remote, "get", slow)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(fs.local, path)
        assert began.wait(60)
        began.clear()
        path.write_bytes(b"NEW!")
        second = threads.submit(fs.local, path)
        # It has not begun to copy: the first one holds the lock until its own copy is marked.
        assert not began.wait(0.2)
        go_on.set()
        assert first.result() == second.result()
    assert fs.local(path).read_bytes() == b"NEW!"


# Versions


@pytest.mark.parametrize("word", ["ETag", "etag", "Last-Modified", "Content-MD5", "mtime", "modify", "updated"])
def test_a_version_is_told_in_many_words(word: str) -> None:
    stamps = [remote._stamp({"name": "a", "size": 3, word: told}) for told in ("one", "two", "one")]
    assert stamps[0] == stamps[2] != stamps[1]
    assert stamps[0][0] == stamps[1][0] == 3
    assert 0 not in (stamps[0][1], stamps[1][1])


def test_when_an_object_was_written_is_read_from_what_the_store_says(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {
        "a": {"Last-Modified": "Mon, 30 Nov 2026 12:00:01 GMT"}, "b": {"mtime": 5}, "c": {"etag": "x"},
        "d": {"LastModified": datetime(2026, 11, 30, 12, tzinfo=UTC)}, "e": {"updated": "what"},
    }  # fmt: skip
    monkeypatch.setattr(Remote, "listing", lambda self: there)
    told = remote.written(place("s3://bucket"))
    assert (told["a"] - told["d"], told["b"], told["c"], told["e"]) == (1.0, 5.0, 0.0, 0.0)


def test_what_a_listing_does_not_tell_is_asked_for(far: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing of web pages holds names alone."""
    for name in ("a", "b"):
        (far / name).write_text(name)
    stamps, find = {name: remote.stamp(place(far / name)) for name in ("a", "b")}, MemoryFileSystem.find

    def bare(self: Any, *args: Any, **options: Any) -> Any:
        return {name: {"name": name, "size": None, "type": "file"} for name in find(self, *args, **options)}

    monkeypatch.setattr(MemoryFileSystem, "find", bare)
    assert remote.stamps([f"{far}/a", f"{far}/b"]) == {f"{far}/{name}": found for name, found in stamps.items()}
    there, size = remote.stamps_in(place(far)), remote.sizes(place(far))
    assert (there("a"), there("z"), size("a"), size("z")) == (stamps["a"], None, 1, None)


def test_of_a_store_that_tells_no_version_everything_is_read_again(
    tmp_path: Path, far: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_TOLD", ())
    source, out = far / "in/a.jsonl", far / "out"
    for text in ("AAAA", "BBBB"):
        source.write_text(json.dumps({"text": text}) + "\n")
        assert fs.stamp(source)[1] == 0
        for _ in range(2):
            run_files([], str(source), str(out), **SILENT)
            assert [doc.text for doc in Documents(out)] == [text]
    source.write_bytes(b"one")
    assert fs.local(source).read_bytes() == b"one"
    source.write_bytes(b"two")
    assert fs.local(source).read_bytes() == b"two"
    assert fs.as_written(source, fs.stamp(source), hashlib.sha256(b"two").hexdigest())
    assert not fs.as_written(source, fs.stamp(source), hashlib.sha256(b"one").hexdigest())
    assert fs.harmed(place(far / "in"), {"a.jsonl": [*fs.stamp(source), hashlib.sha256(b"one").hexdigest()]}) == {
        "a.jsonl"
    }


def test_shards_in_a_store_that_tells_no_version_are_looked_at(
    tmp_path: Path, far: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_TOLD", ())
    npz(tmp_path / "npz")
    for work in (lambda: shuffle_npz(tmp_path / "npz", f"{far}/out", shard_size=16, **SILENT),
                 lambda: subsample(tmp_path / "npz", f"{far}/drawn", num_samples=9, **SILENT)):  # fmt: skip
        work()
        whole = tree(far)
        name = next(name for name in whole if name.endswith(".npz"))
        data = bytearray((far / name).read_bytes())
        data[len(data) // 3] ^= 255
        (far / name).write_bytes(bytes(data))
        assert tree(far) != whole
        work()
        assert tree(far) == whole
        remote.remove_folder(place(far))


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


def test_what_is_written_behind_an_address_lies_there_and_is_read_there(
    tmp_path: Path, far: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing takes an address for a path of this machine, where it would be a folder called memory:."""
    monkeypatch.chdir(tmp_path)
    saved = IOHandler.save_h5(str(far), "rows", {"ids": [np.arange(3), np.arange(2)]})
    assert saved == far / "rows.h5"
    assert [row.tolist() for row in IOHandler.load_h5(str(saved), share_memory=False)["ids"]] == [[0, 1, 2], [0, 1]]
    with NpzWriter(f"{far}/n.npz") as writer:
        writer.array("ids", np.arange(4))
    assert NpzReader(f"{far}/n.npz").rows == 4
    trained = Classifier.train([(f"{word} {at}", word) for at in range(40) for word in ("dog", "cat")], label="cat")
    trained.save(f"{far}/cats")
    assert Classifier.load(f"{far}/cats") == trained
    (far / "mine.yaml").write_text("name: mine\nrules:\n- {signal: words, low: 20}\n")
    assert load_rules(f"{far}/mine.yaml").name == "mine"
    documents(far / "in.jsonl")
    model = AutoTokenizer()
    model.train(texts(), vocab_size=300)
    for packing, form in (("concat", "bin"), ("best_fit", "npz")):
        build_shards(str(far / "in.jsonl"), f"{far}/{form}", model, 64, packing=packing, format=form, **SILENT)
        assert read_rows(f"{far}/{form}").shards == [one["sequences"] for one in read_manifest(far / form)["shards"]]
    assert [*tmp_path.iterdir()] == [*remote.own_corner().iterdir()] == []


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
from prep_lib.locks import lock
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
with lock(sys.argv[1], "squares"), engine.Crew("processes", 1) as crew:
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
    late = {"ff.json": -locks.SILENT - 1.0}
    monkeypatch.setattr(remote, "written", lambda folder: {n: at + late.get(n, 0) for n, at in written(folder).items()})
    with listen(told.append, instead=True), lock(far):
        assert len(list((far / ".prep/owners").iterdir())) == 1
    assert "took over the lock of process 1 on other (last sign of life 61 s ago)" in told[0]["text"]
    assert far.listing() == {}


def test_an_owner_of_this_machine_that_is_gone_is_known_at_once(far: Remote) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    other(far, process=int(ended.stdout), machine=locks._machine())
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


def test_an_error_in_the_middle_of_an_object_is_told_like_one_at_its_beginning(
    tmp_path: Path, far: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    (far / "a.jsonl").write_bytes(b'{"text": "one of many lines"}\n' * 100_000)
    read = MemoryFile.readinto

    def break_off(self: Any, buffer: Any) -> int:
        if self.tell() > 2**20:
            raise RuntimeError("403, message='Forbidden', url='https://k:verysecret@inside.example/b?X=1'")
        return int(read(self, buffer))

    monkeypatch.setattr(MemoryFile, "readinto", break_off, raising=False)
    with pytest.raises(StoreFailed, match=r"cannot read memory://store/a b/a.jsonl: RuntimeError .403") as caught:
        run_files([], str(far / "a.jsonl"), tmp_path / "out", **SILENT)
    assert "inside.example" not in str(caught.value)
    assert str(caught.value).endswith(remote.WHAT_TO_DO)


class HandingOn(AbstractFileSystem):
    """Hands every option on to something that does not know ours, as SFTP does."""

    protocol, cachable = "handing", False

    def __init__(self, **options: Any) -> None:
        super().__init__()
        (lambda host="": host)(**options)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        return b"what is there"


def test_a_file_system_that_hands_its_options_on_is_opened() -> None:
    fsspec.register_implementation("handing", HandingOn, clobber=True)
    assert Remote("handing://store/a").read_bytes() == b"what is there"


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
