"""One process at a time works in a folder, and its place is free once it is dead."""

from __future__ import annotations

import json
import os
import threading

import killing
import pytest

from prep_lib import locks
from prep_lib.errors import BadInput, NoSpace, RunLocked
from prep_lib.locks import _heartbeat, _owner, lock


def notes(events):
    return [event["text"] for event in events if event["event"] == "note"]


HOLD = """
import sys, time
from prep_lib.locks import lock
with lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_meets_the_lock_and_a_dead_owners_is_taken_over(tmp_path, events):
    first, mark = killing.spawn(HOLD, tmp_path)
    with first:
        assert first.stdout.readline() == "held\n"
        owner = json.loads((tmp_path / ".prep" / "owner.json").read_text())
        assert owner["process"] == first.pid
        with pytest.raises(
            RunLocked, match=rf"is in use by process {first.pid} on {owner['host']} \(last sign of life"
        ):
            with lock(tmp_path):
                pass
        assert killing.family(mark)
        first.kill()
    with lock(tmp_path):
        pass
    assert len(notes(events)) == 1
    assert f"took over the lock of process {first.pid} on {owner['host']}" in notes(events)[0]
    with lock(tmp_path):
        assert len(notes(events)) == 1
    assert os.listdir(tmp_path / ".prep") == ["lock"]


def test_two_threads_meet_the_lock(tmp_path):
    found = []

    def second():
        try:
            with lock(tmp_path):
                found.append("held")
        except RunLocked as error:
            found.append(str(error))

    with lock(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    second()
    assert f"process {os.getpid()} on" in found[0]
    assert found[1:] == ["held"]


def test_the_heart_beats(tmp_path, monkeypatch):
    beats = []
    monkeypatch.setattr(locks.os, "utime", lambda path: beats.append(path))
    stop = threading.Event()
    monkeypatch.setattr(stop, "wait", lambda seconds: len(beats) >= 2)
    _heartbeat(lambda: locks.os.utime(tmp_path / "owner.json"), stop)
    assert beats == [tmp_path / "owner.json"] * 2


def test_an_owner_without_a_name(tmp_path):
    assert _owner(tmp_path / "owner.json") == "a process that has not said its name yet"


def test_taking_the_lock_sweeps_away_what_a_killed_process_left(tmp_path):
    for name in (".prep/tmp/t-x/half", ".prep/tasks/.t.json.1-2.tmp", ".a.h5.12-0.tmp", ".prep/.b.1-1.tmp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("half")
    for name in (".mine.tmp", "a.1-2.tmp", ".prep/tasks/t.json"):
        (tmp_path / name).write_text("whole")
    with lock(tmp_path):
        assert sorted(killing.tree(tmp_path)) == [
            ".mine.tmp", ".prep/lock", ".prep/owner.json", ".prep/tasks/t.json", "a.1-2.tmp",
        ]  # fmt: skip
        (tmp_path / ".prep" / "tmp").mkdir()
    assert not (tmp_path / ".prep" / "tmp").exists()


def test_a_lock_on_a_full_disk_is_one_clear_line(tmp_path):
    with killing.small_disk(tmp_path / "disk") as disk:
        with pytest.raises(OSError, match="No space"):
            (disk / "ballast").write_bytes(bytes(2_000_000))
        with pytest.raises(NoSpace, match=r"no space left for owner\.json"), lock(disk):
            pass
        (disk / "ballast").unlink()
        with lock(disk):
            pass


def test_a_folder_belongs_to_the_first_kind_of_work_that_comes(tmp_path):
    """A build clears away old shards: it must not take those of a shuffle for its own."""
    for kind in ("shuffle-npz", "", "shuffle-npz"):
        with lock(tmp_path, kind):
            pass
    with pytest.raises(BadInput, match="holds what shuffle-npz wrote; use another output folder"):
        with lock(tmp_path, "a build"):
            raise AssertionError("never held")
    with lock(tmp_path, "shuffle-npz"):
        pass
