"""A notebook runs once, stops in one line, and leaves a page that is complete by itself."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import nbformat
import pytest

from prep_lib import press
from prep_lib.errors import BadInput, NotebookFailed
from prep_lib.ledger import Ledger
from prep_lib.press import run_recipe, safe_html
from prep_lib.recipes import read
from prep_lib.workspace import MARKER, Run, read_events

pytestmark = pytest.mark.filterwarnings("default")  # what other projects deprecate is theirs

OPEN = 'from prep_lib.workspace import open_run\nrun = open_run(run, notebook="{name}")'


def write_notebook(folder: Path, name: str, *cells: str, title: str = "What goes in?") -> None:
    """Write a notebook that opens its run, then runs `cells`."""
    parameters = nbformat.v4.new_code_cell('run = ""  # the latest\nn = 3  # rows', metadata={"tags": ["parameters"]})
    code = [nbformat.v4.new_code_cell(textwrap.dedent(cell).strip()) for cell in (OPEN.format(name=name), *cells)]
    node = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(f"# {title}\n\nHow many?"), parameters, *code])
    (folder / "notebooks").mkdir(exist_ok=True)
    nbformat.write(node, folder / "notebooks" / f"{name}.ipynb")


@pytest.fixture(autouse=True)
def _still(monkeypatch):
    """Our own code does not change while a test runs, even if somebody is editing it."""
    monkeypatch.setattr(press, "_our_modules", lambda: ["prep_lib.seeds"])


@pytest.fixture(name="ws")
def _ws(tmp_path):
    (tmp_path / "my {ws}").mkdir()
    (tmp_path / "my {ws}" / MARKER).write_text("{}")
    return tmp_path / "my {ws}"


def pressed(ws, *names, **options):
    """Run notebooks as a recipe; return the executed ones, what was told, and the run."""
    (ws / "r.yaml").write_text("notebooks: [" + ", ".join(names) + "]")
    run, told = Run(ws, "r"), []
    executed = run_recipe(read(ws / "r.yaml", ws, options.pop("given", ())), run, tell=told.append, **options)
    return executed, told, run


def page(run, name="10_a"):
    return (run.folder / "reports" / f"{name}.html").read_text("utf-8")


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
    assert told == ["10_a: already done", "11_b: already done"]
    index = (run.folder / "reports/index.html").read_bytes()

    executed, told, _ = pressed(ws, "10_a", "11_b", given=["11_b.n=4"])
    assert executed == ["11_b"]
    assert told[1] == "11_b: runs again: parameters changed"

    (run.folder / "data/10_a/a").unlink()
    executed, told, _ = pressed(ws, "10_a", "11_b", given=["10_a.n=5", "11_b.n=4"])
    assert executed == ["10_a", "11_b"]
    assert told[0] == "10_a: runs again: parameters; outputs that are missing or cut changed"
    assert told[3] == "11_b: runs again: earlier of 10_a changed"  # what is built on it runs too
    assert (run.folder / "reports/index.html").read_bytes() != index


def test_changed_code_is_named_and_can_be_passed_over(ws, monkeypatch):
    write_notebook(ws, "10_a")
    pressed(ws, "10_a")
    real = press.make_key
    monkeypatch.setattr(press, "make_key", lambda **of: {**real(**of), "code": {f"prep_lib.{x}": x for x in "abcd"}})
    assert pressed(ws, "10_a", keep_old=True)[0] == []
    executed, told, _ = pressed(ws, "10_a")
    assert executed == ["10_a"]
    assert told[0].startswith("10_a: runs again: code of ")
    assert told[0].endswith(", … changed (--keep-old uses what is there)")


def test_an_input_that_changed_is_seen(ws):
    cell = nbformat.v4.new_code_cell('files = "in.jsonl"  # rows\nrun = ""', metadata={"tags": ["parameters"]})
    (ws / "notebooks").mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), ws / "notebooks/10_a.ipynb")
    (ws / "in.jsonl").write_text("{}\n")
    pressed(ws, "10_a")
    assert pressed(ws, "10_a")[0] == []
    (ws / "in.jsonl").write_text('{"a": 1}\n')
    _, told, run = pressed(ws, "10_a")
    assert told[0] == "10_a: runs again: inputs changed"
    assert "in.jsonl" in page(run, "index")


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
    assert "FAILED" in page(run, "index")
    assert press.states(run, ["10_a", "11_b"])["11_b"] == ("open", "")
    assert press.states(run)["10_a"][0] == "failed"
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


def test_an_executed_notebook_that_was_torn_is_named(ws):
    write_notebook(ws, "10_a")
    run = Run(ws, "r", "10_a")
    pressed(ws, "10_a")
    path = run.folder / "executed/10_a.ipynb"
    path.write_text(path.read_text()[:100])
    with pytest.raises(BadInput, match=r"^press: 10_a.ipynb was not written to its end; run it again$"):
        press.report(path, run)


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


# ── the page ──


def test_a_page_holds_no_script_asks_nobody_and_tells_nothing_of_this_machine(ws):
    write_notebook(
        ws, "10_a",
        """
        from IPython.display import HTML, SVG, Image, display
        display(HTML("<b id=kept>kept</b><script>alert(1)</script>"
                     "<img src=http://x.invalid/a.png onerror=alert(2) alt=pic>"))
        display(HTML("<a href='javascript:alert(3)'>a</a><style>@import 'http://x.invalid/b.css';</style>"))
        display(HTML("<div style='background:url(http://x.invalid/c.png)'>d</div><iframe src=http://x.invalid></iframe>"))
        display(SVG("<svg xmlns='http://www.w3.org/2000/svg'><text>svg text</text></svg>"))
        print("</script><img src=x>", run.folder)
        print("at", __import__("os").path.expanduser("~") + "/secret", __import__("sys").executable)
        """,
        """
        class Both:
            def _repr_mimebundle_(self, **_):
                view = {"application/vnd.jupyter.widget-view+json": {"model_id": "1", "version_major": 2}}
                return view | {"text/html": "<p>the twin</p>", "text/plain": "Both"}
        Both()
        """,
        "object()",
        title="A *title* with <b>tags</b>",
    )  # fmt: skip
    html = page(pressed(ws, "10_a")[2])
    assert "script-src 'none'" in html
    assert "<script" not in html.lower()
    live = re.sub(r"<pre>.*?</pre>", "", html, flags=re.DOTALL)  # what stands there is text
    assert not re.search(r"\son\w+=", live)
    assert "x.invalid" not in live
    assert not re.search(r"(?:src|srcset|poster)=(?!\"data:)", live)
    assert str(ws) not in html
    assert os.path.expanduser("~") + "/secret" not in html
    assert "&lt;/script&gt;" in html
    assert "the twin" in html
    assert "<b id=kept>kept</b>" in html
    assert "data:image/svg+xml;base64," in html
    assert "<pre>&lt;object&gt;</pre>" in html  # without its address
    assert "<details" in html
    assert "A title with" in html


def test_the_values_as_used_are_shown_and_marked(ws):
    write_notebook(ws, "10_a")
    html = page(pressed(ws, "10_a", given=["10_a.n=7"])[2])
    assert re.sub(r"<[^>]+>+", "|", html).count("|n||7||✎||rows|") == 1


def test_the_same_notebook_gives_the_same_bytes(ws):
    widget = "import ipywidgets\nipywidgets.IntSlider()"
    write_notebook(ws, "10_a", "import pandas as pd\npd.DataFrame({'a': [1, 2]})", widget)
    folder = pressed(ws, "10_a")[2].folder
    pages = [*(folder / "reports").iterdir(), folder / "executed/10_a.ipynb"]
    first = [path.read_bytes() for path in pages]
    (folder / "executed/10_a.json").unlink()
    assert pressed(ws, "10_a")[0] == ["10_a"]
    assert [path.read_bytes() for path in pages] == first


def test_the_index_holds_funnel_files_notes_and_links(ws):
    ledger = Ledger()
    ledger.add("read", "in", "web", documents=10)
    ledger.add("read", "kept", "web", documents=7)
    ledger.add("read", "dropped", "web", "too_<b>", documents=3)
    ledger.add_tokens("pack", "content", 90, "web")
    ledger.add_tokens("pack", "written", 90, "web")
    ledger.add_tokens("pack", "padding", 10, "web")
    (ws / "ledger.json").write_text(ledger.to_json())
    write_notebook(
        ws, "10_a",
        """
        import shutil
        from prep_lib import engine
        engine.emit("note", text="count: two files are empty")
        engine.emit("note", text="tokenizer: fastokens, same ids as tokenizers on 9 documents")
        _ = shutil.copy("ledger.json", run.data)
        """,
    )  # fmt: skip
    _, _, run = pressed(ws, "10_a")
    html = page(run, "index")
    for part in (
        'href="10_a.html"',
        "too_&lt;b&gt;",
        "<li>count: two files are empty</li>",
        '<p class="sub">tokenizer: fastokens, same ids as tokenizers on 9 documents</p>',
        "90.0 %",
        "data/10_a/ledger.json",
        "numpy",
    ):
        assert part in html
    assert press.summary(run) == press.Numbers(10, 7, 90, 100)
    assert '<p class="sub">tokenizer: fastokens, same ids' in page(run)
    assert "two files" not in re.sub(r"<details.*?</details>", "", page(run), flags=re.DOTALL)


def test_what_a_notebook_wrote_on_its_way_stands_for_itself(tmp_path):
    """One without a ledger of its own is the sum of what lies in it."""

    def write(place, documents):
        ledger = Ledger()
        ledger.add("read", "in", "web", documents=documents)
        ledger.add("read", "kept", "web", documents=documents)
        path = tmp_path / "runs/one/data" / place / "ledger.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(ledger.to_json())

    for place, documents in (("00_t/a", 1), ("00_t/b", 2), ("13_m", 4), ("13_m/texts", 8), ("13_m/.prep/x", 16)):
        write(place, documents)
    found = press.ledgers(press.Run(tmp_path, "one"))
    assert {name: ledger.total("read", "in") for name, ledger in found.items()} == {
        "00_t": 3, "13_m/texts": 8, "13_m": 4,
    }  # fmt: skip
    assert list(found) == ["00_t", "13_m/texts", "13_m"]


@pytest.mark.parametrize(
    ("html", "safe"),
    [
        ("<p>a<br/>b &amp; &#20320;</p>", "<p>a<br/>b &amp; &#20320;</p>"),
        ("<SCRIPT>x</SCRIPT>y", "y"),
        ("<iframe><p>in</p></iframe>out", "out"),
        ("<!-- c --><p>d</p>", "<p>d</p>"),
        ('<a href="https://a.b/c">d</a>', '<a href="https://a.b/c">d</a>'),
        ('<a href=" java\nscript:x">d</a>', "<a>d</a>"),
        ("<svg><use href='http://a/b'></use></svg>", "<svg><use></use></svg>"),
        ('<p style="width:50%" ONCLICK=x>d</p>', '<p style="width:50%">d</p>'),
        ("<style>p{color:red}</style>", "<style>p{color:red}</style>"),
        ('<meta http-equiv="refresh" content="0;url=http://a"><form action=http://a>d</form>', "d"),
        ('<img src="data:image/png;base64,AA" alt="x">', '<img src="data:image/png;base64,AA" alt="x">'),
    ],
)
def test_html_of_a_notebook_loses_what_acts_and_keeps_the_rest(html, safe):
    assert safe_html(html) == safe


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/ann/x", "~/x"), ("/root/x", "~/x"), ("C:\\Users\\ann\\x", "~\\x"), ("/ws/dir/runs/a", "runs/a"),
        ("/ws/dir", ""), ("/ws/dir2/a", "/ws/dir2/a"), ("ab-1x", "ab-1x"), ("at ab-1.", "at host."),
    ],
)  # fmt: skip
def test_a_machine_is_not_told(monkeypatch, text, shown):
    monkeypatch.setattr(press.platform, "node", lambda: "ab-1")
    assert press._Mask(Path("/ws/dir"))(text) == shown
