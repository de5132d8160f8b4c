"""Cores and memory are what this process may use, not what the machine has."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from prep_lib import machine
from prep_lib.engine import Crew
from prep_lib.errors import BadParameter
from prep_lib.machine import _limit_files, default_workers, memory_limit, parse_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GiB", 2**31), ("2 gib", 2**31), ("1.5KiB", 1536), ("500MB", 500_000_000), ("500 M", 500_000_000),
        ("7", 7), ("7B", 7), (7, 7), ("1T", 10**12), ("3ki", 3072), ("0.5k", 500),
    ],
)  # fmt: skip
def test_sizes(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "2 XB", "2iB", "1,5G", "two", "1e9", None])
def test_what_is_no_size(text):
    with pytest.raises(BadParameter, match=r"machine: .* is not a size; write bytes or text such as '2GiB'"):
        parse_bytes(text)


def test_workers_default_to_this_machines_share(monkeypatch):
    monkeypatch.setenv("PREP_WORKERS", "3")
    assert default_workers() == 3 == Crew("inline").workers
    monkeypatch.delenv("PREP_WORKERS")
    assert 1 <= default_workers() <= os.cpu_count()
    for nonsense in ("0", "-1", "many"):
        monkeypatch.setenv("PREP_WORKERS", nonsense)
        with pytest.raises(BadParameter, match="PREP_WORKERS must be a whole number of at least 1"):
            default_workers()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_workers_respect_affinity():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from prep_lib.machine import default_workers; print(default_workers())"
    )
    env = {name: value for name, value in os.environ.items() if name != "PREP_WORKERS"}
    assert subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True).stdout == "1\n"


def test_memory_is_the_machines_or_the_groups(tmp_path, monkeypatch):
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < memory_limit() <= whole
    for name, text in (("none", "max"), ("small", "1048576"), ("odd", "")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(machine, "_limit_files", lambda: [tmp_path / name for name in ("none", "small", "odd", "no")])
    assert memory_limit() == 2**20


def test_the_groups_around_this_process_are_asked(monkeypatch):
    text = "4:memory:/a/b\n3:cpu:/c\n0::/d\n"
    monkeypatch.setattr(machine.Path, "read_text", lambda path: text)
    root = "/sys/fs/cgroup"
    assert [str(path) for path in _limit_files()] == [
        *(f"{root}/memory{part}/memory.limit_in_bytes" for part in ("/a/b", "/a", "")),
        f"{root}/d/memory.max",
        f"{root}/memory.max",
    ]
