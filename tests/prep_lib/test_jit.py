"""A kernel is its Python twin, only faster; its cache goes where it may be written."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import cloudpickle
import numpy as np
import pytest

from prep_lib import jit
from prep_lib.jit import cache_folder, kernel, part


@kernel
def running_sum(values, start):
    """Add up."""
    out = np.empty(len(values), np.int64)
    total = start
    for at in range(len(values)):
        total += values[at]
        out[at] = total
    return out


@part
def squared(x):
    return x * x


@kernel
def squares(values, out):
    for at in range(len(values)):
        out[at] = squared(values[at])


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("values", [[], [1], [3, -1, 2**40]])
def test_a_kernel_equals_its_twin(values):
    array = np.array(values, np.int64)
    assert running_sum(array, 5).tolist() == running_sum.python(array, 5).tolist()


def test_a_kernel_keeps_its_name_and_words():
    assert (running_sum.__name__, running_sum.__doc__) == ("running_sum", "Add up.")


def test_a_kernel_travels_by_name():
    assert pickle.loads(pickle.dumps(running_sum)) is running_sum


def test_a_kernel_made_inside_a_function_travels_whole():
    @kernel
    def twice(x):
        return 2 * x

    assert twice(3) == 6
    assert cloudpickle.loads(cloudpickle.dumps(twice)).python(4) == 8


def test_a_kernel_calls_kernels():
    values, out, twin = np.arange(5), np.zeros(5, np.int64), np.zeros(5, np.int64)
    squares(values, out)
    squares.python(values, twin)
    assert out.tolist() == twin.tolist() == [0, 1, 4, 9, 16]
    assert squared(3) == squared.python(3) == 9


def test_a_kernel_of_another_file_that_changes_is_compiled_again(tmp_path):
    (tmp_path / "above.py").write_text(
        "from prep_lib.jit import kernel\nfrom below import f\n@kernel\ndef g(x):\n    return f(x)\nprint(g(1))\n"
    )
    env = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    said = []
    for more in ("1", "1000"):
        (tmp_path / "below.py").write_text(f"from prep_lib.jit import part\n@part\ndef f(x):\n    return x + {more}\n")
        command = [sys.executable, "-B", "above.py"]
        said.append(subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout)
    assert said == ["2\n", "1001\n"]


def test_numba_is_not_loaded_before_the_first_call_and_the_cache_is_used_by_the_next_process(tmp_path):
    (tmp_path / "toy.py").write_text(
        "import sys\nfrom prep_lib.jit import kernel\n@kernel\ndef f(x):\n    return x + 1\n"
        "assert 'numba' not in sys.modules\nassert f(1) == 2\nprint(*f._compiled.stats.cache_hits.values())\n"
    )
    env = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    runs = [
        subprocess.run([sys.executable, "toy.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert [ran.stdout.strip() for ran in runs] == ["", "1"]
    assert list((tmp_path / "cache" / "prep-workbench" / "numba").rglob("*.nbi"))
    assert not (tmp_path / "__pycache__").exists()


def test_the_cache_is_in_the_users_cache_folder(tmp_path):
    assert cache_folder() == tmp_path / "cache" / "prep-workbench" / "numba"


def test_a_home_that_cannot_be_written_means_the_temporary_folder(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(jit.tempfile, "gettempdir", lambda: str(tmp_path))
    first = cache_folder()
    assert first == cache_folder()
    assert first.is_relative_to(tmp_path)
    assert first.stat().st_mode & 0o777 == 0o700


def test_a_folder_somebody_else_laid_out_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(jit, "_user", lambda: os.stat(tmp_path).st_uid + 1)
    monkeypatch.setattr(jit.tempfile, "tempdir", str(tmp_path))
    found = cache_folder()
    assert found.parent == tmp_path
    assert found.name.startswith("prep-workbench-")
    assert list(found.iterdir()) == []


TOGETHER = """
import sys
from prep_lib.jit import kernel

@kernel
def total(values):
    out = 0
    for value in values:
        out += value
    return out

sys.stdin.readline()
assert total((1, 2, 3)) == 6
print(sum(total.compiled().stats.cache_misses.values()))
"""


def test_of_processes_that_begin_together_one_compiles(tmp_path):
    (tmp_path / "toy.py").write_text(TOGETHER)
    env = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    command = [sys.executable, tmp_path / "toy.py"]
    started = [
        subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert sum(int(process.communicate()[0]) for process in started) == 1
