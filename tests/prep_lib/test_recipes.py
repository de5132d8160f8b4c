"""What is written is what arrives: values keep their type, and everything wrong is said before anything starts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prep_lib import recipes
from prep_lib.errors import BadInput, BadParameter, UnknownName
from prep_lib.recipes import Parameter, pairs, parameters, preflight, read
from prep_lib.workspace import MARKER, Run

CELL = """# what can be asked for
text = "a"          # any text
seed = 42           # of every draw
ratio = 0.5         # share, 0 to 1
flag = False        # yes or no
run = ""            # "" = the latest
"""


def write_notebook(folder: Path, name: str, source: str | None = CELL) -> None:
    cells = [{"cell_type": "markdown", "source": ["# Title"], "metadata": {}}]
    if source is not None:
        tagged = {"tags": ["parameters"]}
        cells.append(
            {"cell_type": "code", "source": source.splitlines(keepends=True), "metadata": tagged, "outputs": []}
        )
    (folder / "notebooks").mkdir(parents=True, exist_ok=True)
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    (folder / "notebooks" / f"{name}.ipynb").write_text(json.dumps(notebook))


@pytest.fixture(name="ws")
def _ws(tmp_path):
    (tmp_path / MARKER).write_text("{}")
    write_notebook(tmp_path, "10_a")
    return tmp_path


def recipe(ws, text, *overrides):
    (ws / "r.yaml").write_text(text, "utf-8")
    return read(ws / "r.yaml", ws, overrides)


# ── the parameters cell ──


def test_the_cell_tells_names_types_defaults_and_meaning(ws):
    known = parameters(ws / "notebooks/10_a.ipynb")
    assert list(known) == ["text", "seed", "ratio", "flag", "run"]
    assert known["seed"] == Parameter("seed", 42, "of every draw")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "needs one cell tagged 'parameters', has 0"),
        ("a = 1\nb = f()", "line 2: not `name = plain value`"),
        ("a = None", "line 1: not `name = plain value`"),
        ("a = [1]", "line 1: not `name = plain value`"),
        ("a = ", "line 1: invalid syntax"),
    ],
)
def test_a_cell_that_cannot_be_typed_is_refused(ws, source, message):
    write_notebook(ws, "10_a", source)
    with pytest.raises(BadParameter, match=message):
        parameters(ws / "notebooks/10_a.ipynb")


def test_a_file_that_is_no_notebook_is_named(ws):
    (ws / "notebooks/10_a.ipynb").write_text("[]")
    with pytest.raises(BadInput, match=r"10_a.ipynb: cannot be read as a notebook"):
        parameters(ws / "notebooks/10_a.ipynb")


# ── values: the table of what YAML and papermill change on their own ──

KEPT = ["007", "1.10", "no", "1e3", "010", "0510210600", "true", "null", "~", "2026-11-29", "12:30:00", "0x10", "1_000"]


@pytest.mark.parametrize("written", KEPT)
def test_text_stays_as_written_by_both_ways(ws, written):
    given = recipe(ws, f"notebooks:\n- 10_a:\n    text: {written}\n").steps[0].given
    assert given == {"text": written}
    assert recipe(ws, "notebooks: [10_a]", f"10_a.text={written}").steps[0].given == {"text": written}


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("seed", "007", 7), ("seed", "1e3", 1000), ("seed", "1_000", 1000), ("seed", "-1", -1),
        ("ratio", "1.10", 1.1), ("ratio", "1", 1.0), ("ratio", "1e-3", 0.001),
        ("flag", "no", False), ("flag", "Yes", True), ("flag", "1", True), ("flag", "off", False),
    ],
)  # fmt: skip
def test_other_values_get_the_type_of_the_default(ws, name, written, value):
    given = recipe(ws, f"notebooks:\n- 10_a:\n    {name}: {written}\n").steps[0].given
    assert given == {name: value}
    assert type(given[name]) is type(value)


@pytest.mark.parametrize(
    ("name", "written", "message"),
    [
        ("seed", "1.10", r"10_a.seed: '1.10' is not a whole number \(default 42; of every draw\)"),
        ("seed", "many", "'many' is not a whole number"),
        ("seed", "", "'' is not a whole number"),
        ("ratio", "nan", "'nan' is not a number"),
        ("flag", "maybe", "'maybe' is not true or false"),
    ],
)
def test_an_ill_typed_value_is_named_with_what_was_expected(ws, name, written, message):
    with pytest.raises(AssertionError, match=message):
        assert not recipe(ws, "notebooks: [10_a]", f"10_a.{name}={written}").problems


def test_an_unknown_name_lists_the_known_ones_and_the_nearest(ws):
    found = recipe(ws, "notebooks:\n- 10_a: {sed: 1}\ndefaults: {colour: red}", "10_b.seed=1", "seed=1", "10_a.x=1")
    assert sorted(found.problems) == [
        "-p seed=1: write notebook.name=value",
        "-p: unknown notebook of this recipe '10_b'; did you mean '10_a'? known: 10_a",
        "10_a: unknown parameter 'sed'; did you mean 'seed'? known: flag, ratio, run, seed, text",
        "10_a: unknown parameter 'x'; known: flag, ratio, run, seed, text",
        "defaults: unknown parameter 'colour'; known: flag, ratio, run, seed, text",
    ]


def test_the_command_line_stands_over_the_recipe_over_its_defaults(ws):
    text = "defaults: {seed: 1, ratio: 0.1}\nnotebooks:\n- 10_a: {seed: 2, flag: yes}\n"
    assert recipe(ws, text, "10_a.flag=no").steps[0].values == {
        "text": "a", "seed": 2, "ratio": 0.1, "flag": False, "run": "",
    }  # fmt: skip


def test_a_written_out_recipe_reads_back_the_same(ws):
    first = recipe(ws, "name: x\nnotebooks:\n- 10_a: {text: '007', ratio: 1e-5, seed: 1e3, flag: on}\n")
    assert [step.values for step in recipe(ws, first.to_yaml()).steps] == [step.values for step in first.steps]


def test_a_list_becomes_one_string_that_splits_again(ws):
    found = recipe(ws, "notebooks:\n- 10_a:\n    text: [a.jsonl, my b.jsonl]\n")
    assert recipes.split(found.steps[0].values["text"]) == ["a.jsonl", "my b.jsonl"]
    assert recipe(ws, "notebooks:\n- 10_a:\n    text: {a: b}\n").problems[0].startswith("10_a.text: a map or a list")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("notebooks: 10_a", "a recipe has a list `notebooks:`"),
        ("notebooks: [10_a]\nextra: 1", "unknown parameter 'extra'"),
        ("notebooks: [10_a, 10_a]", "a notebook stands twice"),
        ("notebooks:\n- 10_a: {seed: 1, seed: 2}", "line 2: 'seed' stands here twice"),
        ("notebooks: [", "line 1: "),
        ("notebooks:\n- [10_a]", "one name with its parameters"),
    ],
)
def test_a_recipe_of_another_shape_is_refused(ws, text, message):
    with pytest.raises(BadParameter, match=message):
        recipe(ws, text)


def test_recipes_are_found_by_name(ws):
    (ws / "notebooks/recipes").mkdir()
    (ws / "notebooks/recipes/mine.yaml").write_text("notebooks: [10_a]")
    assert read("mine", ws).name == "mine"
    with pytest.raises(UnknownName, match="unknown recipe 'min'; did you mean 'mine'"):
        read("min", ws)


@pytest.mark.parametrize("text", ["a", "a=1 a=2", "=1", "a='"])
def test_a_map_in_one_string_must_be_a_map(text):
    with pytest.raises(BadParameter, match=r"is not one name=value|is no list of words"):
        pairs(text)


# ── preflight ──

INPUTS = """files = ""            # JSONL or Parquet
tokenizer = ""        # "" = the built-in one
processor = "sft"
strategy = "chatml"
strategy_params = ""
template = ""         # a chat template
answers = "all"
columns = ""          # old->new
process_func = ""
memory_budget = "1GiB"
dataset = ""
"""


def problems(ws, **given):
    write_notebook(ws, "20_b", INPUTS)
    (ws / "r.yaml").write_text(json.dumps({"notebooks": [{"20_b": given}]}))
    return preflight(read(ws / "r.yaml", ws), Run(ws, "r"))


ROW = '{"query": "a", "response": "b"}\n'


def test_good_input_has_no_problem_and_leaves_nothing_behind(ws):
    (ws / "a.jsonl").write_text(ROW * 3)
    (ws / "a.jsonl.gz").write_bytes(gzip.compress((ROW * 3).encode()))
    pq.write_table(pa.table({"query": ["a", "b"], "response": ["c", "d"]}), ws / "a.parquet", row_group_size=1)
    assert problems(ws, files="a.jsonl a.jsonl.gz a.parquet") == []
    assert not (ws / "runs/r").exists()


def test_all_problems_come_in_one_list(ws):
    (ws / "other.jsonl").write_text('{"prompt": "a"}\n' * 2)
    (ws / "last.jsonl").write_text(ROW + '{"query": \n\n')
    (ws / "empty.jsonl").touch()
    (ws / "cut.jsonl.gz").write_bytes(gzip.compress((ROW * 999).encode())[:-20])
    (ws / "not.parquet").write_text("x")
    found = problems(
        ws, files="other.jsonl last.jsonl empty.jsonl cut.jsonl.gz not.parquet none*.jsonl",
        process_func="nothing.py:f", memory_budget="999TiB", tokenizer="",
    )  # fmt: skip
    whole = "\n".join(found)
    for part in (
        "20_b: other.jsonl, line 1: ",
        "20_b: other.jsonl, last line: ",
        "20_b: cut.jsonl.gz, last line: cut_stream",
        "not.parquet",
        "no file matches 'none*.jsonl'",
        "no file",
        "memory_budget 999TiB is more than this machine gives",
    ):
        assert part in whole
    assert all("\n" not in line for line in found)
    assert "last.jsonl: " not in whole
    assert "empty.jsonl" not in whole


def test_a_renamed_column_and_a_marker_of_several_ids_are_seen(ws):
    (ws / "a.jsonl").write_text('{"prompt": "a", "answer": "b"}\n')
    assert problems(ws, files="a.jsonl", columns="prompt->query answer->response") == []
    found = problems(ws, files="a.jsonl", strategy_params="user_start='<｜im_start｜>user\\n'")
    assert "marker '<｜im_start｜>'" in found[0]
    assert "did you mean '<｜im▁start｜>'" in found[0]
    assert "did you mean 'chatml'" in problems(ws, files="a.jsonl", strategy="chatlm")[0]


def test_a_place_must_exist_but_a_hub_name_may_be_anywhere(ws):
    assert problems(ws, dataset="squad") == []
    assert problems(ws, dataset="org/name") == []
    assert "nothing at './data'" in problems(ws, dataset="./data")[0]
    assert "nothing at 'data.parquet'" in problems(ws, dataset="data.parquet")[0]


def test_a_chat_template_is_tried_before_anything_starts(ws):
    (ws / "a.jsonl").write_text(ROW)
    assert problems(ws, files="a.jsonl", template="chatml", tokenizer="") == []
    (ws / "broken.jinja").write_text("{% for %}")
    assert "jinja: broken, line 1" in problems(ws, files="a.jsonl", template="broken.jinja", tokenizer="")[0]
    assert "answers must be one of all, last" in problems(ws, files="a.jsonl", template="chatml", answers="some")[0]


def test_a_notebook_depends_on_what_is_read_of_a_model_and_on_other_runs(ws):
    (ws / "model").mkdir()
    for name in ("tokenizer.json", "chat_template.jinja", "model.safetensors"):
        (ws / "model" / name).touch()
    shards = Run(ws, "before", "22_tensorize").data
    shards.mkdir(parents=True)
    (shards / "manifest.json").touch()
    write_notebook(ws, "20_b", 'tokenizer = ""  # a\ntemplate = ""  # b\nother = ""  # c\nrun = ""  # d\n')
    (ws / "r.yaml").write_text(json.dumps({"notebooks": [{"20_b": {"template": "model", "other": "before"}}]}))
    (step,) = read(ws / "r.yaml", ws).steps
    assert [path.name for path in recipes.inputs(step, Run(ws, "r"))] == [
        "chat_template.jinja", "tokenizer.json", "manifest.json",
    ]  # fmt: skip


def test_a_file_name_with_a_blank_is_one_name(ws):
    (ws / "two words.jsonl").write_text(ROW)
    assert problems(ws, files="'two words.jsonl'") == []
    write_notebook(ws, "20_b", INPUTS)
    (ws / "r.yaml").write_text(json.dumps({"notebooks": [{"20_b": {"files": "'two words.jsonl'"}}]}))
    (step,) = read(ws / "r.yaml", ws).steps
    assert [path.name for path in recipes.inputs(step, Run(ws, "r"))] == ["two words.jsonl"]


def test_a_full_disk_is_said_before(ws, monkeypatch):
    (ws / "a.jsonl").write_text(ROW)
    monkeypatch.setattr(recipes.shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
    assert problems(ws, files="a.jsonl")[-1].startswith("disk: about 0 MiB will be written, 0 MiB are free")


def test_rows_are_counted_where_that_is_cheap(ws):
    (ws / "a.jsonl.gz").write_bytes(gzip.compress((ROW * 5).encode()))
    pq.write_table(pa.table({"a": [1, 2]}), ws / "a.parquet")
    (ws / "a.json").write_text("[]")
    assert [recipes.count_rows(ws / name) for name in ("a.jsonl.gz", "a.parquet", "a.json")] == [5, 2, None]


def test_a_rule_file_is_an_input_of_the_notebook_that_names_it(ws):
    (ws / "mine.yaml").write_text("name: mine\n")
    write_notebook(ws, "20_b", 'rules = ""  # a\nrun = ""  # b\nlang = "en"  # c\n')
    given = {"rules": "en=mine.yaml zh=fineweb2/cmn other=pass"}
    (ws / "r.yaml").write_text(json.dumps({"notebooks": [{"20_b": given}]}))
    (step,) = read(ws / "r.yaml", ws).steps
    assert [path.name for path in recipes.inputs(step, Run(ws, "r"))] == ["mine.yaml"]
