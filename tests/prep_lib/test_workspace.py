"""A workspace keeps what a person changed, and every notebook finds its run and what came before."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from prep_lib import workspace
from prep_lib.errors import BadInput, BadParameter
from prep_lib.events import emit
from prep_lib.workspace import MARKER, Run, find_root, init, latest, open_run, read_events, strip_output


@pytest.fixture(name="originals")
def _originals(tmp_path, monkeypatch):
    """A checkout of one notebook and one recipe."""
    checkout = tmp_path / "checkout"
    (checkout / "notebooks" / "recipes").mkdir(parents=True)
    cell = {"cell_type": "code", "source": "a = 1", "metadata": {"tags": ["parameters"]}, "outputs": [], "id": "a"}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (checkout / "notebooks" / "00_tour.ipynb").write_text(json.dumps(notebook))
    (checkout / "notebooks" / "recipes" / "demo.yaml").write_text("notebooks: [00_tour]\n")
    monkeypatch.setattr(workspace, "CHECKOUT", checkout)
    return checkout


@pytest.fixture(name="ws")
def _ws(tmp_path, monkeypatch):
    """A workspace of nothing, and this process in its notebooks folder, as a kernel of JupyterLab is."""
    (tmp_path / "ws" / "notebooks").mkdir(parents=True)
    (tmp_path / "ws" / MARKER).write_text("{}")
    monkeypatch.chdir(tmp_path / "ws" / "notebooks")
    yield tmp_path / "ws"
    workspace._listening.close()


def test_init_copies_and_says_where_from(originals, tmp_path):
    lines = init(tmp_path / "ws")
    assert "made     notebooks/00_tour.ipynb" in lines
    assert (
        json.loads((tmp_path / "ws/notebooks/00_tour.ipynb").read_text())["metadata"]["prep"]["origin"]
        == "00_tour.ipynb"
    )
    for name in ("notebooks/recipes/demo.yaml", "my_funcs.py", ".gitignore", ".gitattributes"):
        assert (tmp_path / "ws" / name).is_file()
    assert str(tmp_path) not in (tmp_path / "ws" / MARKER).read_text()


def test_init_again_keeps_what_was_changed_and_updates_the_rest(originals, tmp_path):
    init(tmp_path / "ws")
    assert len(init(tmp_path / "ws")) == 1  # nothing but the line about git
    (tmp_path / "ws/my_funcs.py").write_text("mine = 1\n")
    (originals / "notebooks/recipes/demo.yaml").write_text("name: newer\nnotebooks: [00_tour]\n")
    lines = init(tmp_path / "ws")
    assert "kept     my_funcs.py  (changed here)" in lines
    assert "updated  notebooks/recipes/demo.yaml" in lines
    assert (tmp_path / "ws/my_funcs.py").read_text() == "mine = 1\n"


def test_the_checkout_is_no_workspace(originals):
    with pytest.raises(BadParameter, match="its notebooks are the originals"):
        init(originals)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not here")
def test_git_commits_no_outputs_but_keeps_the_parameters_tag(originals, tmp_path):
    ws = tmp_path / "ws"
    ws.mkdir()
    subprocess.run(["git", "init", "-q", str(ws)], check=True)
    assert "git      commits leave notebook outputs out (filter prep-strip)" in init(ws)
    path = ws / "notebooks/00_tour.ipynb"
    notebook = json.loads(path.read_text())
    notebook["cells"][0]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "secret"}]
    path.write_text(json.dumps(notebook))
    subprocess.run(["git", "-C", str(ws), "add", "notebooks"], check=True)
    stored = subprocess.run(
        ["git", "-C", str(ws), "show", ":notebooks/00_tour.ipynb"], check=True, capture_output=True, text=True
    ).stdout
    assert "secret" not in stored
    assert "parameters" in stored


def test_stripping_twice_changes_nothing_and_keeps_sources():
    cells = [
        {"cell_type": "markdown", "source": ["你好\n"], "metadata": {}},
        {"cell_type": "code", "source": ["x"], "metadata": {"papermill": 1}, "outputs": [1], "execution_count": 3},
    ]
    once = strip_output(json.dumps({"cells": cells, "metadata": {"papermill": 1, "widgets": 2, "kernelspec": 3}}))
    assert strip_output(once) == once
    assert "你好" in once
    assert json.loads(once)["metadata"] == {"kernelspec": 3}


def test_the_root_is_the_nearest_workspace_from_any_depth(ws, tmp_path):
    (ws / "a" / "b").mkdir(parents=True)
    assert find_root(ws / "a" / "b") == ws
    assert find_root() == ws
    assert find_root(tmp_path) == tmp_path


def test_a_notebook_finds_its_folders_and_prints_them_absolute(ws, capsys):
    run = open_run(notebook="22_tensorize")
    assert run.data == ws / "runs/default/data/22_tensorize"
    assert run.data.is_dir()
    assert f"run       {ws / 'runs/default'}\n" in capsys.readouterr().out
    assert run.path("my.jsonl") == ws / "my.jsonl"
    assert run.path("/other/my.jsonl") == Path("/other/my.jsonl")


def test_a_run_of_everything_is_not_where_exploring_goes_on(ws):
    for name in ("one", "one-all", "two-all"):
        Run(ws, name).folder.mkdir(parents=True)
        Run(ws, name).note({"event": "open"})
    for at, name in enumerate(("one", "two-all", "one-all")):
        os.utime(ws / "runs" / name / "run.jsonl", (at, at))
    assert latest(ws) == "one-all"
    assert latest(ws, explored=True) == "two-all"  # somebody's own name: there is no run "two"


def test_an_empty_name_is_the_latest_run(ws):
    open_run("one", "a")
    open_run("two", "a")
    os.utime(ws / "runs/two/run.jsonl", (1, 1))
    assert latest(ws) == "one"
    assert open_run().name == "one"


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "a b", ""])
def test_a_run_is_one_plain_folder_name(name):
    with pytest.raises(BadParameter, match="a run cannot be named"):
        workspace.check_name(name)


def test_what_an_earlier_notebook_wrote_is_found_or_named(ws):
    run = open_run("r", "22_tensorize")
    with pytest.raises(BadInput, match=r"nothing from 20_export yet; run notebooks/20_export.ipynb first"):
        run.find("20_export")
    earlier = open_run("r", "20_export")
    (earlier.data / ".prep").mkdir()  # only our own corner: still nothing
    with pytest.raises(BadInput, match="nothing from 20_export"):
        run.find("20_export")
    (earlier.data / "a.jsonl").touch()
    assert run.find("20_export") == earlier.data


def test_shards_are_a_folder_or_what_a_run_wrote(ws):
    run = open_run("r", "23_inspect")
    with pytest.raises(BadInput, match="run 'r' has nothing from 22_tensorize yet"):
        run.shards()
    with pytest.raises(BadInput, match="run 'before' has nothing from 22_tensorize yet"):
        run.shards("before")
    for name in ("r", "before"):
        (open_run(name, "22_tensorize").data / "manifest.json").touch()
        assert run.shards("" if name == "r" else name) == ws / "runs" / name / "data" / "22_tensorize"
    (open_run("r", "15_pack").data / "manifest.json").touch()
    assert run.shards("", "15_pack") == ws / "runs" / "r" / "data" / "15_pack"
    (ws / "elsewhere").mkdir()
    assert run.shards("elsewhere") == ws / "elsewhere"


def test_what_a_button_saves_lies_beside_the_notebooks_output(ws):
    run = open_run("r", "21_templates")
    places = run.write({"template.jinja": "{{ 1 }}", "../x/findings.json": "{}"})
    assert places["template.jinja"] == "runs/r/data/21_templates/template.jinja"
    assert (ws / places["template.jinja"]).read_text() == "{{ 1 }}"
    assert (run.data / "findings.json").read_text() == "{}"


def test_files_come_in_natural_order_and_a_pattern_without_files_is_an_error(ws):
    for name in ("c_10.jsonl", "c_9.jsonl", "with blank.jsonl"):
        (ws / name).touch()
    run = Run(ws, "r")
    assert [path.name for path in run.files("c_*.jsonl 'with blank.jsonl'")] == [
        "c_9.jsonl", "c_10.jsonl", "with blank.jsonl",
    ]  # fmt: skip
    with pytest.raises(BadInput, match=r"no file matches 'd_\*.jsonl'"):
        run.files("d_*.jsonl")


def test_what_was_rejected_is_read_only_where_it_is_named(ws):
    (ws / "out").mkdir()
    for name in ("a_chunk_0.jsonl", "a_rejected.jsonl", "a_ledger.json", "b_rejected.jsonl", "rejected.jsonl.zst"):
        (ws / "out" / name).touch()
    run = Run(ws, "r")
    kept = ["a_chunk_0.jsonl", "b_rejected.jsonl", "rejected.jsonl.zst"]
    assert [path.name for path in run.files("out")] == kept
    assert [path.name for path in run.files("out/*.jsonl*")] == kept
    (ws / "out/ledger.json").touch()
    assert [path.name for path in run.files("out")] == kept[:2]
    assert run.files("out/a_rejected.jsonl") == [ws / "out/a_rejected.jsonl"]


def test_engine_events_reach_the_journal_once_though_the_cell_runs_twice(ws, capsys):
    open_run("r", "20_export")
    run = open_run("r", "22_tensorize")
    emit("note", text="hello")
    events, end = read_events(run.folder)
    assert [event["notebook"] for event in events if event["event"] == "note"] == ["22_tensorize"]
    with open(run.folder / "run.jsonl", "a") as journal:
        journal.write('{"event": "to')
    assert read_events(run.folder, end) == ([], end)


def test_a_function_of_a_file_is_found_and_works_in_a_worker(ws):
    (ws / "my_funcs.py").write_text("def double(row):\n    return {'n': 2 * row['n']}\n")
    double = Run(ws, "r").function("my_funcs.py:double")
    import loky

    with loky.ProcessPoolExecutor(1) as pool:
        assert pool.submit(double, {"n": 4}).result() == {"n": 8}
    with pytest.raises(BadParameter, match="defines no 'triple'; it has double"):
        Run(ws, "r").function("my_funcs.py:triple")
    with pytest.raises(BadParameter, match=r"write my_funcs.py:to_sft"):
        Run(ws, "r").function("my_funcs.py")
    (ws / "my_funcs.py").write_text("1 / 0\n")
    with pytest.raises(BadInput, match="cannot be run: ZeroDivisionError"):
        Run(ws, "r").function("my_funcs.py:double")
    sys.modules.pop("my_funcs", None)


def test_the_example_of_a_new_workspace_runs(originals, tmp_path):
    from prep_lib.chat.strategy import StrategyFactory

    init(tmp_path / "ws")
    to_sft = Run(tmp_path / "ws", "r").function("my_funcs.py:to_sft")
    assert to_sft({"question": " a ", "answer": "b"}) == {"query": "a", "response": "b"}
    assert to_sft({"question": "", "answer": "b"}) == []
    assert "plain" in StrategyFactory.names()
    sys.modules.pop("my_funcs", None)


def test_a_kernel_that_is_not_the_workspaces_own_is_named(ws):
    assert workspace.wrong_kernel(ws) == ""
    (ws / ".prep").mkdir()
    (ws / ".prep/python").write_text("/bin/sh\n")
    assert workspace.wrong_kernel(ws).startswith("wrong kernel? this workspace was made with /bin/sh")


def test_an_event_behind_a_torn_line_is_read(ws):
    run = open_run("r", "22_tensorize")
    with open(run.folder / "run.jsonl", "a") as journal:
        journal.write('{"event": "to')
    emit("note", text="hello")
    assert [event["event"] for event in read_events(run.folder)[0]] == ["open", "note"]


def test_the_kernel_named_python3_is_this_interpreter(tmp_path):
    folder = workspace.write_kernel(tmp_path)
    assert json.loads((folder / "kernels/python3/kernel.json").read_text())["argv"][0] == sys.executable


#: Orphans come to this process, as on a desktop they come to the user's own systemd; it waits until the one is gone.
ADOPTER = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1)
start = "import json, os, subprocess, sys; os.environ['JPY_PARENT_PID'] = str(os.getpid())"
start += "; subprocess.Popen(json.loads(sys.argv[1]))"
subprocess.run([sys.executable, "-c", start, sys.argv[1]], check=True)
os.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt orphans")
def test_a_kernel_ends_with_its_parent_even_if_that_dies_before_it_is_up(tmp_path):
    argv = json.loads((workspace.write_kernel(tmp_path) / "kernels/python3/kernel.json").read_text())["argv"]
    argv[-1] = str(tmp_path / "connection.json")
    subprocess.run([sys.executable, "-c", ADOPTER, json.dumps(argv)], check=True, timeout=20, capture_output=True)


def test_a_folder_stands_for_its_rows_and_nothing_for_what_20_export_wrote(ws):
    (ws / "rows").mkdir()
    for name in ("b.parquet", "a.jsonl.gz", ".hidden.jsonl", "readme.txt"):
        (ws / "rows" / name).touch()
    run = open_run("r", "20_export")
    for name in ("sft_chunk_10.jsonl", "sft_chunk_2.jsonl", "sft_rejected.jsonl"):
        (run.data / name).touch()
    assert [path.name for path in run.records("rows")] == ["a.jsonl.gz", "b.parquet"]
    assert [path.name for path in run.records()] == ["sft_chunk_2.jsonl", "sft_chunk_10.jsonl"]


def test_a_data_set_is_a_place_of_the_workspace_or_a_hub_name(ws):
    (ws / "a.jsonl").touch()
    run = Run(ws, "r")
    assert [run.dataset(text) for text in ("a.jsonl", "b/*.jsonl", "squad", "")] == [
        str(ws / "a.jsonl"), str(ws / "b/*.jsonl"), "squad", "",
    ]  # fmt: skip


def test_the_built_in_tokenizer_is_trained_once_a_run(ws, monkeypatch):
    monkeypatch.setattr(workspace, "TRAINED_ON", 20_000)
    monkeypatch.setattr(workspace, "TRAINED_IDS", 400)
    run = open_run("r", "22_tensorize")
    first = run.tokenizer("")
    monkeypatch.setattr(workspace, "TRAINED_IDS", 300)
    assert run.tokenizer("").describe() == first.describe()
    assert run.tokenizer(str(run.folder / "tokenizer")).size == first.size == 400


def test_apply_writes_into_the_recipe_of_the_run_what_each_notebook_knows(originals, ws):
    cell = {"cell_type": "code", "metadata": {"tags": ["parameters"]}}
    for name, source in (("20_a", "seed = 1"), ("22_b", "seed = 1\nsize = 2  # tokens"), ("30_c", "seed = 1")):
        text = json.dumps({"cells": [{**cell, "source": source}]})
        (ws / "notebooks" / f"{name}.ipynb").write_text(text)
    run = open_run("r", "22_b")
    run.apply({"seed": 7})
    path = run.apply({"size": 4, "unheard": 0})
    assert path.read_text() == "name: r\nnotebooks:\n- 20_a:\n    seed: 7\n- 22_b:\n    seed: 7\n    size: 4\n"


def test_inputs_are_files_folders_and_addresses(tmp_path):
    (tmp_path / "web").mkdir()
    for name in ("web/a.html", "b.jsonl", "c10.jsonl", "c9.jsonl"):
        (tmp_path / name).write_text("")
    run = Run(tmp_path, "one", "10_read")
    found = run.inputs("web c*.jsonl memory://there/x.warc.gz")
    assert found == [*(str(tmp_path / name) for name in ("web", "c9.jsonl", "c10.jsonl")), "memory://there/x.warc.gz"]
    assert run.inputs("") == []
    with pytest.raises(BadInput, match=r"no file matches 'nothing\*'"):
        run.inputs("nothing*")


def test_texts_are_those_of_the_notebook_before(tmp_path):
    run = Run(tmp_path, "one", "14_tokenize")
    assert run.texts() == []
    for notebook in ("10_read", "11_clean", "12_dedup"):
        (run.folder / "data" / notebook).mkdir(parents=True)
    for notebook in ("10_read", "11_clean"):
        (run.folder / "data" / notebook / "documents.json").write_text("{}")
    assert run.texts() == [str(run.folder / "data" / "11_clean")], "12_dedup has not come to its end"
    assert Run(tmp_path, "one", "11_clean").texts() == [str(run.folder / "data" / "10_read")]
    (tmp_path / "own.jsonl").write_text("")
    assert run.texts("own.jsonl") == [str(tmp_path / "own.jsonl")]


def test_a_rule_file_means_the_workspace_wherever_we_run(tmp_path, monkeypatch):
    from prep_lib import Quality

    root = tmp_path / "my work"
    (root / "notebooks").mkdir(parents=True)
    (root / "mine.yaml").write_text("name: mine\nrules: [{signal: words, low: 3}]\n")
    made = []
    for place in (root, root / "notebooks"):
        monkeypatch.chdir(place)
        text = Run(root, "one", "11_clean").rules("en=mine.yaml zh=fineweb2/cmn other=pass")
        made.append(Quality(rules=text))
    assert made[0] == made[1]
    assert made[0].rules == "en=mine.yaml zh=fineweb2/cmn other=pass", "no path of this machine in an output"
    assert made[0].route("en").name == "mine"
