"""A notebook is executed by this interpreter in its workspace; what stops it is one line, and nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toy_runs import pressed, write_notebook

from prep_lib import execute
from prep_lib.errors import NotebookFailed
from prep_lib.workspace import read_events

pytestmark = pytest.mark.filterwarnings("default")  # what other projects deprecate is theirs


def test_values_arrive_the_kernel_is_this_one_and_works_in_the_workspace(ws):
    write_notebook(
        ws,
        "10_a",
        "import os, sys, pathlib",
        "(run.data / 'out.txt').write_text(f'{n} {os.getcwd()} {sys.executable}')",
    )
    _, _, run = pressed(ws, "10_a", given=["10_a.n=7"])
    assert (run.folder / "data/10_a/out.txt").read_text() == f"7 {ws} {sys.executable}"
    assert not list((run.folder / "executed").glob("*.tmp"))


def test_our_own_error_is_its_one_line(ws):
    write_notebook(ws, "10_a", "run.find('99_none')")
    with pytest.raises(NotebookFailed, match=r"^10_a: cell 4: BadInput: workspace: run 'r' has nothing from 99_none"):
        pressed(ws, "10_a")


def test_a_kernel_that_dies_is_said_with_what_to_do(ws):
    write_notebook(ws, "10_a", "import os, signal", "os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(NotebookFailed, match=r"^10_a: cell 5: the kernel died, most often for want of memory"):
        pressed(ws, "10_a")


def test_a_kernel_that_does_not_come_up_is_said_with_why(ws, monkeypatch):
    write_notebook(ws, "10_a")
    monkeypatch.setattr(execute, "write_kernel", broken_kernel)
    with pytest.raises(
        NotebookFailed, match=r"^10_a: cell 0: the kernel died: ModuleNotFoundError: No module named 'nix'$"
    ):
        pressed(ws, "10_a")


def broken_kernel(folder):
    spec = Path(folder, "kernels/python3/kernel.json")
    spec.parent.mkdir(parents=True)
    spec.write_text(
        json.dumps({"argv": [sys.executable, "-c", "import nix"], "display_name": "", "language": "python"})
    )
    return Path(folder)


def test_a_kernel_that_crashes_is_said_with_its_signal_and_nothing_else_is_printed(ws, capfd):
    write_notebook(ws, "10_a", "import ctypes, os", "_ = os.write(2, b'noise') + ctypes.string_at(0)")
    with pytest.raises(NotebookFailed, match=r"^10_a: cell 5: the kernel died of SIGSEGV$"):
        pressed(ws, "10_a")
    assert capfd.readouterr() == ("", "")


SLEEPER = """
import sys
from pathlib import Path
from prep_lib.press import run_recipe
from prep_lib.recipes import read
from prep_lib.workspace import Run
ws = Path(sys.argv[1])
try:
    run_recipe(read(ws / "r.yaml", ws), Run(ws, "r"))
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_kernel_and_workers_within_two_seconds(ws, number):
    write_notebook(
        ws, "10_a",
        """
        import subprocess, sys, os
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        _ = (run.data / "pids").write_text(f"{os.getpid()} {child.pid}")
        import time; time.sleep(60)
        """,
    )  # fmt: skip
    (ws / "r.yaml").write_text("notebooks: [10_a]")
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, str(ws)], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    pids = ws / "runs/r/data/10_a/pids"
    while not pids.is_file() or not pids.read_text():
        assert process.poll() is None
        time.sleep(0.05)
    began = time.monotonic()
    process.send_signal(number)
    assert process.wait(timeout=20) == 130
    assert time.monotonic() - began < 2 + 1  # one more for a loaded machine, and for leaving Python
    assert not [pid for pid in pids.read_text().split() if alive(int(pid))]
    assert [event["state"] for event in read_events(ws / "runs/r")[0] if event["event"] == "notebook"] == [
        "began",
        "interrupted",
    ]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
