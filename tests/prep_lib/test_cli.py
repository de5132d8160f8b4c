"""Every command ends in a code and, when it fails, in one line."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from types import SimpleNamespace

import nbformat
import pytest

from prep_lib import cli, shelf, workspace
from prep_lib.cli import main
from prep_lib.locks import lock
from prep_lib.workspace import MARKER

pytestmark = pytest.mark.filterwarnings("default")  # what other projects deprecate is theirs

PARAMETERS = """run = ""
files = "in.jsonl"  # rows
sample = 0  # rows; 0 = everything
workers = 0  # processes; 0 = this machine's share
"""
COUNT = """from prep_lib.ledger import Ledger
from prep_lib.workspace import open_run
run = open_run(run, notebook="10_a")
rows = [line for path in run.files(files) for line in open(path)][: sample or None]
ledger = Ledger()
ledger.add("read", "in", documents=len(rows))
ledger.add("read", "kept", documents=len(rows) - len(rows) // 4)
ledger.add("read", "dropped", reason="short", documents=len(rows) // 4)
ledger.add_tokens("pack", "content", 90)
ledger.add_tokens("pack", "written", 90)
ledger.add_tokens("pack", "padding", 10)
ledger.add_tokens("pack", "trained", 90)
_ = (run.data / "ledger.json").write_text(ledger.to_json())
_ = (run.data / "rows.bin").write_bytes(bytes(1000 * len(rows)))"""


@pytest.fixture(name="ws")
def _ws(tmp_path, monkeypatch):
    """A workspace with one notebook, one recipe and 10,000 rows, and this process in it."""
    tagged = nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})
    (tmp_path / "notebooks/recipes").mkdir(parents=True)
    cells = [nbformat.v4.new_markdown_cell("# Count"), tagged, nbformat.v4.new_code_cell(COUNT)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "notebooks/10_a.ipynb")
    (tmp_path / "notebooks/recipes/mine.yaml").write_text("notebooks: [10_a]")
    (tmp_path / "in.jsonl").write_text("{}\n" * 10_000)
    (tmp_path / MARKER).write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setattr(shelf, "_our_modules", lambda: ["prep_lib.seeds"])
    return tmp_path


#: What takes a tenth of a second or more to import, each.
HEAVY = (
    "datasets",
    "h5py",
    "jupyter_client",
    "matplotlib",
    "nbconvert",
    "numba",
    "pandas",
    "pyarrow",
    "torch",
    "trafilatura",
)

HELP = f"""
import contextlib, sys
from prep_lib.cli import main
with contextlib.suppress(SystemExit):
    main(["--help"])
print([name for name in {HEAVY} if name in sys.modules])
"""


def test_help_waits_for_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=True)
    assert "prep" in done.stdout
    assert "strip-output" not in done.stdout.split("COMMAND", 1)[1]
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_run_ends_with_the_report_and_the_numbers_and_a_second_one_is_done(ws, capsys):
    assert main(["run", "mine"]) == 0
    out = capsys.readouterr().out
    assert f"report    {ws}/runs/mine/reports/index.html" in out
    assert "records   10,000 in, 7,500 kept; 90 tokens; packing efficiency 90.0 %" in out
    assert (ws / "runs/mine/reports/10_a.html").is_file()

    assert main(["run", "mine"]) == 0
    out = capsys.readouterr().out
    assert "10_a: skipped, nothing changed since 20" in out
    assert "0 notebooks run, 1 already done" in out
    assert "records   10,000 in" in out

    assert main(["status"]) == 0
    assert "10_a             done         records   10,000 in" in capsys.readouterr().out

    assert main(["status", "--line"]) == 0
    line = capsys.readouterr().out
    assert re.fullmatch(r"mine: done in \d+ s · 10,000 records in, 7,500 kept · 90 tokens · packing 90.0 %\n", line)
    assert main(["status", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], told["kept"], told["left"], told["line"]) == ("done", 7500, None, line.strip())
    assert main(["attach"]) == 0
    assert main(["stop"]) == 1
    assert capsys.readouterr().err.startswith("prep stop: background: nothing works in run mine: done 20")
    assert main(["run", "mine", "--why", "-p", "10_a.files=in.jsonl in.jsonl"]) == 0
    assert capsys.readouterr().out == '10_a: runs: files "in.jsonl" -> "in.jsonl in.jsonl"\n'

    (ws / "runs/mine/reports/index.html").unlink()
    assert main(["report", "mine"]) == 0
    assert (ws / "runs/mine/reports/index.html").is_file()

    (ws / "runs/mine/executed/10_a.ipynb").write_text("{")
    assert main(["report", "mine"]) == 1
    assert capsys.readouterr().err == "prep report: report: 10_a.ipynb was not written to its end; run it again\n"


def test_what_is_wrong_is_said_before_anything_runs(ws, capsys):
    assert main(["run", "mine", "-p", "10_a.sampel=3", "-p", "10_a.files=none.jsonl"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("10_a: unknown parameter 'sampel'; did you mean 'sample'?")
    assert said[1].startswith("10_a: workspace: no file matches 'none.jsonl'")
    assert said[2] == "nothing was run: 2 to put right"
    assert not (ws / "runs/mine/executed").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "min"], "prep run: recipes: unknown recipe 'min'; did you mean 'mine'?"),
        (["run", "mine", "--matrix", "--detach"], "prep run: --detach, --on-done and --why are for one run"),
        (["attach", "other"], "prep attach: no run other in "),
        (["stop"], "prep stop: no run yet in "),
        (["run", "mine", "--name", "../x"], "prep run: workspace: a run cannot be named '../x'"),
        (["run", "mine", "--workers", "-1"], "prep run: --workers must be at least 1; got -1"),
        (["status", "other"], "prep status: no run other in "),
        (["report"], "prep report: no run yet in "),
        (["verify", "none"], "prep verify: no folder none"),
        (["doctor", "none"], "prep doctor: chat/folder: nothing at none, and no such model"),
        (["doctor", "a.jinja", "--data", "none.jsonl"], "prep doctor: hub: no file none.jsonl"),
        (["doctor", "a.jinja", "--force"], "prep doctor: chat/doctor: --force is for --write DIR"),
        (["doctor", "a.jinja", "--write", "in.jsonl"], "prep doctor: chat/doctor: in.jsonl is a file"),
        (["convert", "none", "--to", "trl"], "prep convert: shards/interop: no folder none"),
        (["convert", "none", "--to", "nemo"], "prep convert: shards/interop: unknown program 'nemo'; known: axolotl"),
    ],
)
def test_a_wrong_question_is_two_and_one_line(ws, capsys, arguments, message):
    (ws / "a.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith(message)
    assert said.count("\n") == 1


def test_the_doctor_says_writes_and_exits_by_what_it_found(ws, capsys):
    source = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>{% endfor %}"
    (ws / "a.jinja").write_text(source)
    assert main(["doctor", "a.jinja", "--write", "out"]) == 0
    said = capsys.readouterr()
    assert f"written: {os.path.join('out', 'template.jinja')}, the template with its proven repairs" in said.out
    assert "trim" not in (ws / "out/template.jinja").read_text()
    told = json.loads((ws / "out/findings.json").read_text())
    assert main(["doctor", "a.jinja", "--write", "out"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["doctor", "a.jinja", "--write", "out", "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == told
    (ws / "a.jinja").write_text("{% for m in messages %}{{ m.content }}")
    assert main(["doctor", "a.jinja", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["rule"] == "TEMPLATE_FAILS"


def test_a_failing_notebook_is_one_and_one_line(ws, capsys):
    (ws / "in.jsonl").write_bytes(b'{"a": "\xc3\xa4"}\n')
    notebook = json.loads((ws / "notebooks/10_a.ipynb").read_text())
    notebook["cells"][2]["source"] = COUNT.replace("ledger = ", "1 / 0; ledger = ")
    (ws / "notebooks/10_a.ipynb").write_text(json.dumps(notebook))
    assert main(["run", "mine"]) == 1
    assert capsys.readouterr().err == "prep run: 10_a: cell 3: ZeroDivisionError: division by zero\n"
    assert main(["status", "mine"]) == 1
    assert "10_a             failed" in capsys.readouterr().out
    assert "ZeroDivisionError" in (ws / "runs/mine/reports/index.html").read_text()


def test_a_folder_in_use_is_one_line(ws, capsys):
    with lock(ws / "runs/mine"):
        code = main(["run", "mine"])
    assert code == 1
    assert "is in use by process" in capsys.readouterr().err


def test_status_takes_nothing_over_from_a_run_that_was_killed(ws, capsys):
    run = ws / "runs/mine"
    (run / ".prep").mkdir(parents=True)
    for name in ("lock", "owner.json"):
        (run / ".prep" / name).write_text(json.dumps({"process": 1, "host": socket.gethostname()}))
    workspace.append_event(run, {"event": "notebook", "notebook": "10_a", "state": "began"})
    assert main(["status", "mine"]) == 0
    assert "10_a             killed" in capsys.readouterr().out
    assert (run / ".prep/owner.json").is_file()
    with lock(run):
        assert main(["status", "mine"]) == 0
    assert "10_a             running" in capsys.readouterr().out


def test_a_trial_says_what_everything_would_take_and_leaves_nothing(ws, capsys):
    assert main(["run", "mine", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if line.startswith("10_a  ")).split("  ")
    cells = [cell.strip() for cell in row if cell.strip()]
    assert cells[:3] == ["10_a", "2,000", "10,000"]
    assert cells[4] == "10 MB"
    assert cells[6] == "25.0 %"
    assert any("from a sample of about 2,000 rows" in line for line in lines)
    assert [path.name for path in (ws / "runs").iterdir() if path.is_dir()] == []


def test_an_interrupt_is_130(ws, monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_status", interrupted)
    assert main(["status"]) == 130
    assert "the same command goes on where it stopped" in capsys.readouterr().err


def test_init_makes_a_workspace_and_says_what_is_next(tmp_path, capsys):
    assert main(["init", str(tmp_path / "new")]) == 0
    assert "next: prep lab" in capsys.readouterr().out
    assert (tmp_path / "new" / MARKER).is_file()


@pytest.mark.parametrize("inside", [True, False])
def test_lab_opens_a_workspace_with_the_kernel_of_this_interpreter(ws, monkeypatch, capsys, inside):
    started = []
    monkeypatch.setattr(
        cli.subprocess, "run", lambda *of, **given: started.append((of[0], given)) or SimpleNamespace(returncode=0)
    )
    monkeypatch.setattr(workspace, "_strip_outputs_in_git", lambda _: "")
    assert main(["lab", *([] if inside else [str(ws)]), "--no-browser"]) == 0
    ((command, given),) = started
    assert command[:4] == (sys.executable, "-P", "-m", "jupyterlab")
    assert f"--ServerApp.root_dir={ws}" in command
    assert command[-1] == "--no-browser"
    assert str(ws / ".prep/jupyter") == given["env"]["JUPYTER_PATH"]


def test_lab_never_opens_the_originals(ws, monkeypatch, capsys):
    started = []
    monkeypatch.setattr(cli.subprocess, "run", lambda *of, **_: started.append(of[0]) or SimpleNamespace(returncode=0))
    monkeypatch.setattr(workspace, "_strip_outputs_in_git", lambda _: "")
    monkeypatch.setattr(workspace, "CHECKOUT", ws)
    assert main(["lab"]) == 0
    assert f"--ServerApp.root_dir={ws / 'workspace'}" in started[0]
    assert (ws / "workspace/notebooks/10_a.ipynb").is_file()
    monkeypatch.chdir(ws.parent)
    assert main(["lab"]) == 2
    assert "is no workspace; name one" in capsys.readouterr().err


def test_git_gets_a_notebook_without_outputs(ws):
    cell = {"cell_type": "code", "source": "你", "metadata": {}, "outputs": [1], "execution_count": 1}
    text = json.dumps({"cells": [cell], "metadata": {}})
    command = [sys.executable, "-m", "prep_lib.cli", "strip-output"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=True)
    assert json.loads(done.stdout)["cells"][0]["outputs"] == []
    assert "你" in done.stdout.decode()


def test_verify_counts_errors(ws, monkeypatch, capsys):
    from prep_lib.shards import verify
    from prep_lib.shards.manifest import Finding

    (ws / "out").mkdir()
    monkeypatch.setattr(verify, "verify", lambda _: [])
    assert main(["verify", "out"]) == 0
    monkeypatch.setattr(verify, "verify", lambda _: [Finding("chunk_0.h5", "sha256 differs")])
    assert main(["verify", "out"]) == 1
    assert "error: out/chunk_0.h5: sha256 differs" in capsys.readouterr().out


def test_convert_says_what_it_wrote_and_how_it_is_read(ws, capsys):
    from toy_shards import build

    (ws / "packed").mkdir()
    build(ws / "packed")
    assert main(["convert", "packed/", "--to", "trl"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{ws}/packed-trl: 2 rows, 3 documents, 9 tokens, 5 targets"
    assert said[1] == f"next: python {ws}/packed-trl/read_me.py, and README.md for the program's settings"
    assert main(["convert", "packed", "--to", "axolotl", "--out", "elsewhere"]) == 0
    assert (ws / "elsewhere/convert.json").is_file()

    (ws / "packed/chunk_0.h5").write_bytes(b"")
    assert main(["convert", "packed", "--to", "trl"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("prep convert: shards/interop: packed/chunk_0.h5 is not the file its manifest tells of")
    assert said.count("\n") == 1
    (ws / "packed/manifest.json").unlink()
    assert main(["convert", "packed", "--to", "trl"]) == 1
    assert "no manifest.json in packed" in capsys.readouterr().err


def test_convert_for_megatron_prints_the_line_it_is_told(ws, capsys):
    from toy_shards import DOCUMENTS, store

    store(ws / "a b", documents=DOCUMENTS | {2: (0, [9, 2, 1, 4, 4])})
    assert main(["convert", "a b", "--to", "megatron"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{ws}/a b-megatron: 3 documents, 11 tokens",
        "2 tokens were dropped with the last pack: a document ends before its end",
        f"--data-path 5 '{ws}/a b-megatron/code_text_document' 6 '{ws}/a b-megatron/web_en_text_document'",
        f"next: python {ws}/a b-megatron/read_me.py, and README.md for the program's settings",
    ]


# ── init with files; parts, samples and combinations of a recipe ──


@pytest.fixture(name="executed")
def _executed(monkeypatch):
    """Which notebooks are executed, without a kernel: each writes as many bytes as it is asked for rows."""
    from toy_runs import instantly

    done = list[tuple[str, str]]()

    def work(values, run):
        done.append((run.name, run.notebook))
        (run.data / "rows").write_bytes(bytes(values["sample"]))

    instantly(monkeypatch, {"10_a": work, "11_b": work})
    return done


@pytest.fixture(name="way")
def _way(ws):
    from toy_runs import write_cell

    write_cell(ws, "11_b", 'run = ""  # which\nfiles = ""  # rows; empty: what 10_a wrote\nsample = 5  # rows\n')
    (ws / "notebooks/recipes/two.yaml").write_text("notebooks: [10_a, 11_b]")
    return ws


def test_a_part_runs_over_what_stands_and_marks_nothing_as_old(way, executed, capsys):
    assert main(["run", "two", "--only", "b"]) == 1
    said = capsys.readouterr().err
    assert "11_b reads what 10_a writes, which is left out and never came to its end in run 'two'" in said
    assert "prep run two --from 10_a\n" in said
    assert not (way / "runs/two/executed").exists()
    assert main(["run", "two", "--to", "10"]) == 0
    assert main(["run", "two", "--from", "11"]) == 0
    assert "10_a: left as it is\n" in capsys.readouterr().out
    assert main(["run", "two"]) == 0
    assert executed == [("two", "10_a"), ("two", "11_b")]
    # What stands counts, not what the recipe would make of it now.
    assert main(["run", "two", "--only", "11_b", "-p", "10.sample=7"]) == 0
    assert "10_a: left as it is, although sample 0 -> 7 changed since" in capsys.readouterr().out
    assert len(executed) == 2
    assert main(["run", "two", "-p", "10.sample=7"]) == 0
    assert executed[2:] == [("two", "10_a"), ("two", "11_b")]


def test_what_is_kept_of_a_command_goes_on_with_the_run_and_holds_no_secret(way, executed, capsys):
    secret = "curl -H 'Bearer SECRET'; exit 3"
    assert main(["run", "two", "--to", "10", "--keep-old", "--on-done", secret]) == 0
    assert "--on-done: the command ended with 3" in capsys.readouterr().err
    told = [event["again"] for event in workspace.read_events(way / "runs/two")[0] if "again" in event]
    assert told == ["prep run runs/two/recipe.yaml --keep-old --to 10"]
    everything = [path for path in (way / "runs/two").rglob("*") if path.is_file()]
    assert not [path for path in everything if b"SECRET" in path.read_bytes()]


def test_a_sample_never_lies_over_a_run_of_everything(way, executed, capsys):
    assert main(["run", "two"]) == 0
    assert main(["run", "two", "--sample", "3"]) == 0
    assert executed[2:] == [("two-sample-3", "10_a"), ("two-sample-3", "11_b")]
    assert (way / "runs/two-sample-3/data/10_a/rows").stat().st_size == 3
    # The second reads what the first one drew.
    assert (way / "runs/two-sample-3/data/11_b/rows").stat().st_size == 5
    assert main(["run", "two"]) == 0
    assert len(executed) == 4


def test_a_matrix_runs_all_combinations_and_shows_them_beside_each_other(way, executed, capsys):
    asked = ["run", "two", "--matrix", "-p", "11.sample=2,3"]
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert executed == [("two-11.sample-2", "10_a"), ("two-11.sample-2", "11_b"), ("two-11.sample-3", "11_b")]
    assert "10_a: shared with run two-11.sample-2" in said
    assert f"report    {way}/runs/two-matrix.html" in said
    assert (way / "runs/two-matrix.html").is_file()
    assert main(asked) == 0
    assert len(executed) == 3


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["--matrix"], "no -p has several values"),
        (["--matrix", "--dry-run", "-p", "10.sample=1,2"], "--dry-run tries a whole recipe"),
        (["--matrix", "--detach", "-p", "10.sample=1,2"], "leave --matrix out"),
        (["--from", "12"], "unknown notebook of this recipe '12'"),
        (["--from", "11", "--only", "10"], "leave --from and --to out"),
        (["--sample", "-3"], "--sample must be at least 1"),
    ],
)
def test_a_part_or_a_matrix_that_makes_no_sense_runs_nothing(way, executed, capsys, asked, told):
    assert main(["run", "two", *asked]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
    assert executed == []


def test_an_unknown_option_is_refused_with_the_nearest(way, capsys):
    for words, told in (
        (["--samples=3"], "--samples=3; did you mean --sample?"),
        (["--zzz", "a"], "unknown: --zzz a\n"),
    ):
        with pytest.raises(SystemExit) as left:
            main(["run", "two", *words])
        assert left.value.code == 2
        assert told in capsys.readouterr().err


def test_init_with_files_writes_a_recipe_and_says_how_to_run_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(workspace, "_strip_outputs_in_git", lambda _: "")
    (tmp_path / "rows.jsonl").write_text('{"question": "2 + 2?", "answer": "4"}\n' * 3)
    assert main(["init", str(tmp_path / "new"), str(tmp_path / "rows.jsonl")]) == 0
    said = capsys.readouterr().out
    assert "3 rows; conversations, query_response, for sft" in said
    assert "prep run posttrain-rows --sample 200" in said
    assert (tmp_path / "new/notebooks/recipes/posttrain-rows.yaml").is_file()
    assert main(["init", str(tmp_path / "new"), str(tmp_path / "none")]) == 1
