"""A notebook runs once, stops in one line, and leaves a page that is complete by itself."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from toy_runs import instantly, page, pressed, write_cell, write_notebook

from prep_lib import press, remote
from prep_lib.errors import NotebookFailed
from prep_lib.files import digest
from prep_lib.pipeline import run_files
from prep_lib.press import explain
from prep_lib.recipes import read
from prep_lib.results import journal, states
from prep_lib.workspace import Run, read_events

pytestmark = pytest.mark.filterwarnings("default")  # what other projects deprecate is theirs


# ── running ──


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


def test_a_second_run_executes_nothing_and_a_change_only_what_it_touches(ws):
    write_notebook(ws, "10_a", "_ = (run.data / 'a').write_text('a' * n)")
    write_notebook(ws, "11_b", "_ = (run.data / 'b').write_text((run.find('10_a') / 'a').read_text() + 'b')")
    assert pressed(ws, "10_a", "11_b")[0] == ["10_a", "11_b"]
    executed, told, run = pressed(ws, "10_a", "11_b")
    assert executed == []
    assert re.fullmatch(r"10_a: skipped, nothing changed since \d{4}-\d\d-\d\d \d\d:\d\d", told[0])
    index = (run.folder / "reports/index.html").read_bytes()

    executed, told, _ = pressed(ws, "10_a", "11_b", given=["11_b.n=4"])
    assert executed == ["11_b"]
    assert told[1] == "11_b: runs: n 3 -> 4"

    (run.folder / "data/10_a/a").unlink()
    executed, told, _ = pressed(ws, "10_a", "11_b", given=["10_a.n=5", "11_b.n=4"])
    assert executed == ["10_a", "11_b"]
    assert told[0] == "10_a: runs: n 3 -> 5; outputs are missing or changed"
    assert told[2] == "11_b: runs, because 10_a is new"  # what is built on it runs too
    assert (run.folder / "reports/index.html").read_bytes() != index


def test_what_a_file_of_the_user_imports_is_code_too(ws, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (ws / "notebooks").mkdir()
    write_cell(ws, "10_a", 'run = ""  # the latest\nplugins = "mine.py"  # a file')
    (ws / "mine.py").write_text("import prep_lib\nfrom its_helper import join\n")
    (ws / "its_helper.py").write_text("import its_other\ndef join(a): return its_other.glue + a\n")
    (ws / "its_other.py").write_text("glue = ' '\n")
    instantly(monkeypatch, {"10_a": lambda values, run: None})
    assert pressed(ws, "10_a")[0] == ["10_a"]
    (ws / "its_other.py").write_text("glue = ' '  # said\n\n")
    assert pressed(ws, "10_a")[0] == []
    (ws / "its_other.py").write_text("glue = '+'\n")
    executed, told, _ = pressed(ws, "10_a")
    assert executed == ["10_a"]
    assert told[0].startswith("10_a: runs: code of its_other")


def test_changed_code_is_named_and_can_be_passed_over(ws, monkeypatch):
    write_notebook(ws, "10_a")
    pressed(ws, "10_a")
    real = press.make_key
    monkeypatch.setattr(press, "make_key", lambda **of: {**real(**of), "code": {f"prep_lib.{x}": x for x in "abcd"}})
    assert pressed(ws, "10_a", keep_old=True)[0] == []
    executed, told, _ = pressed(ws, "10_a")
    assert executed == ["10_a"]
    assert told[0].startswith("10_a: runs: code of ")
    assert told[0].endswith(", … (--keep-old uses what is there)")


def test_why_each_would_run_is_told_without_running_any(ws):
    write_notebook(ws, "10_a")
    write_notebook(ws, "11_b")
    (ws / "r.yaml").write_text("notebooks: [10_a, 11_b]")
    run = Run(ws, "r")
    said = [f"{name}: runs for the first time" for name in ("10_a", "11_b")]
    assert list(explain(read(ws / "r.yaml", ws), run)) == said
    pressed(ws, "10_a", "11_b")
    before = (run.folder / "run.jsonl").read_bytes()
    first, second = explain(read(ws / "r.yaml", ws, ["10_a.n=4"]), run)
    assert (first, second) == ("10_a: runs: n 3 -> 4", "11_b: runs, because 10_a is new")
    (run.folder / "executed/11_b.json").unlink()
    first, second = explain(read(ws / "r.yaml", ws), run)
    assert first.startswith("10_a: skipped, nothing changed since 20")
    assert second == "11_b: runs: it did not come to its end"
    assert (run.folder / "run.jsonl").read_bytes() == before


def test_a_run_says_when_it_begins_what_it_holds_and_how_it_ended(ws, monkeypatch):
    monkeypatch.setattr(press.engine, "memory_limit", lambda: 8_000)
    write_notebook(ws, "10_a")
    run = pressed(ws, "10_a", like=["--to", "a b"])[2]
    story = journal(run)
    assert (story.state, story.process, story.limit, story.plan) == ("done", os.getpid(), 8_000, ("10_a",))
    assert story.again == "prep run runs/r/recipe.yaml --to 'a b'"
    # Written when it has grown by a twentieth, so that many hours take no more lines than one.
    grown = [event["bytes"] for event in read_events(run.folder)[0] if event.get("event") == "memory"]
    assert story.memory == max(grown, default=None)
    assert all(after > press.GROWN * before for before, after in itertools.pairwise(grown))
    write_notebook(ws, "10_a", "1 / 0")
    with pytest.raises(NotebookFailed):
        pressed(ws, "10_a")
    assert journal(run).state == "failed"
    assert "ZeroDivisionError" in journal(run).text


def test_an_input_that_changed_is_seen(ws):
    cell = nbformat.v4.new_code_cell('files = "in.jsonl"  # rows\nrun = ""', metadata={"tags": ["parameters"]})
    (ws / "notebooks").mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), ws / "notebooks/10_a.ipynb")
    (ws / "in.jsonl").write_text("{}\n")
    pressed(ws, "10_a")
    assert pressed(ws, "10_a")[0] == []
    (ws / "in.jsonl").write_text('{"a": 1}\n')
    _, told, run = pressed(ws, "10_a")
    assert told[0] == "10_a: runs: inputs of in.jsonl"
    assert "in.jsonl" in page(run, "index")


def test_what_lies_behind_an_address_is_told_by_its_version_or_read(ws, monkeypatch):
    instantly(monkeypatch, {"10_a": lambda values, run: None})
    write_cell(ws, "10_a", 'inputs = ""  # addresses\nrun = ""  # the latest')
    store = f"file://{ws.parent}"
    (ws.parent / "in.jsonl").write_text("{}\n")
    (ws.parent / "web").mkdir()
    (ws.parent / "web/a.html").write_text("one")
    given = [f"10_a.inputs={store}/in.jsonl {store}/web"]

    def told():
        return pressed(ws, "10_a", given=given)[1][0]

    assert told() == "10_a: runs for the first time"
    assert told().startswith("10_a: skipped")
    (ws.parent / "in.jsonl").write_text("[]\n")
    assert told() == "10_a: runs: inputs of in.jsonl"
    (ws.parent / "web/b.html").write_text("two")
    assert told() == "10_a: runs: inputs of b.html"
    assert told().startswith("10_a: skipped")
    # A store that tells no version: what is there is read.
    monkeypatch.setattr(remote, "_stamp", lambda about: [about["size"], 0])
    assert told().startswith("10_a: runs: inputs of ")
    assert told().startswith("10_a: skipped")
    (ws.parent / "web/b.html").write_text("owt")
    assert told() == "10_a: runs: inputs of b.html"
    # What cannot be looked at is not known to be the same.
    (ws.parent / "in.jsonl").unlink()
    assert told() == told() == "10_a: runs: inputs of in.jsonl"


def test_what_was_written_over_by_hand_is_seen_whatever_its_size(ws, monkeypatch):
    instantly(monkeypatch, dict.fromkeys(("10_a", "11_b"), lambda values, run: (run.data / "rows").write_text("ab")))
    for name in ("10_a", "11_b"):
        write_notebook(ws, name)
    written = pressed(ws, "10_a", "11_b")[2].folder / "data/10_a/rows"
    os.utime(written)  # touched, and read: it is the same
    assert pressed(ws, "10_a", "11_b")[0] == []
    written.write_text("ba")
    os.utime(written, (1, 1))
    executed, told, _ = pressed(ws, "10_a", "11_b")
    assert (executed, told[0]) == (["10_a"], "10_a: runs: outputs are missing or changed")


# ── failing ──


def test_a_failing_notebook_stops_the_run_in_one_line_and_leaves_a_marked_report(ws):
    write_notebook(
        ws, "10_a", "_ = (run.data / 'done.bin').write_bytes(b'x')",
        """
        from prep_lib import engine
        engine.emit("begin", stage="tokenize", tasks=2, done=0)
        {}["/root/secret"]
        """,
    )  # fmt: skip
    write_notebook(ws, "11_b")
    with pytest.raises(NotebookFailed, match=r"^10_a \(tokenize\): cell 5: KeyError: '/root/secret'$"):
        pressed(ws, "10_a", "11_b")
    run = Run(ws, "r")
    assert "FAILED" in page(run)
    assert "KeyError" in page(run)
    assert "Traceback" not in page(run)
    assert "~/secret" in page(run)
    assert "KeyError" in page(run, "index")
    assert states(run, ["10_a", "11_b"])["11_b"] == ("open", "")
    assert states(run)["10_a"][0] == "failed"
    assert not (run.folder / "executed/10_a.json").exists()
    executed = json.loads((run.folder / "executed/10_a.ipynb").read_text())
    assert executed["metadata"]["prep"]["failed"].startswith("10_a")
    assert not any("papermill-error" in str(cell["metadata"].get("tags")) for cell in executed["cells"])


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
    monkeypatch.setattr(press, "write_kernel", broken_kernel)
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


def test_what_a_killed_run_left_half_written_is_swept(ws):
    write_notebook(ws, "10_a")
    half = ws / "runs/r/executed/.10_a.json.4711-0.tmp"
    half.parent.mkdir(parents=True)
    half.touch()
    pressed(ws, "10_a")
    assert not half.exists()


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


def test_what_has_just_been_digested_is_not_digested_again(tmp_path, monkeypatch):
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n')
    run_files([], tmp_path / "a.jsonl", tmp_path / "data" / "texts", engine="inline")
    right = {path.name: digest(path) for path in (tmp_path / "data" / "texts").iterdir() if path.is_file()}
    read = []
    monkeypatch.setattr(press, "digest", lambda path: read.append(path.name) or digest(path))
    assert {path.name: sha for path, sha in press._outputs(tmp_path / "data")} == right
    assert sorted(read) == ["documents.json", "ledger.json", "rejected.jsonl.zst"]


# ── a part of a recipe ──


def test_notebooks_behind_what_was_left_out_depend_on_what_it_really_wrote(ws, monkeypatch):
    """By a run, by nobody, or by a session in JupyterLab, of which no record tells."""

    def work(values, run):
        if run.notebook != "11_b":
            (run.data / "rows").write_text(str(values["n"]))

    instantly(monkeypatch, dict.fromkeys(("10_a", "11_b", "12_c"), work))
    for name in ("10_a", "11_b", "12_c"):
        write_notebook(ws, name)
    (ws / "r.yaml").write_text("notebooks: [10_a, 11_b, 12_c]")
    run, recipe = Run(ws, "r"), read(ws / "r.yaml", ws)

    def executed(**part):
        return press.run_recipe(recipe.part(**part), run, tell=lambda _: None)

    (run.folder / "data/10_a").mkdir(parents=True)
    (run.folder / "data/10_a/rows").write_text("by hand")
    assert executed(first="12") == ["12_c"]
    assert executed(first="12") == []
    # 11_b writes nothing, so 12_c has not changed by its coming.
    assert executed(only="11") == ["11_b"]
    assert executed(first="12") == []
    (run.folder / "data/10_a/rows").write_text("by another hand")
    assert executed(first="12") == ["12_c"]
    assert executed() == ["10_a", "11_b", "12_c"]
    assert executed(only="12,10") == []
