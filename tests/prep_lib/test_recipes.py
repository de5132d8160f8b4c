"""What is written is what arrives: values keep their type, and everything wrong is said before anything starts."""

from __future__ import annotations

import re

import pytest
from toy_runs import write_cell

from prep_lib import recipes
from prep_lib.errors import BadInput, BadParameter, UnknownName
from prep_lib.recipes import Parameter, pairs, parameters, read
from prep_lib.workspace import CHECKOUT, MARKER


@pytest.fixture(name="ws")
def _ws(tmp_path):
    (tmp_path / MARKER).write_text("{}")
    write_cell(tmp_path, "10_a")
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
    write_cell(ws, "10_a", source)
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
        ("notebooks: [10_a]\nextra: 1", "unknown key 'extra'; known: .*stands under defaults"),
        ("notebooks: [10_a, 10_a]", "a notebook stands twice"),
        ("notebooks:\n- 10_a: {seed: 1, seed: 2}", "line 2: 'seed' stands here twice"),
        ("notebooks: [", "line 1: "),
        ("", r"r.yaml: is empty; a recipe has a list `notebooks:`"),
        ("\n  \n# nothing", "is empty"),
        ("- 10_a\n- 11_b", "this is a list"),
        ("10_a", "this is '10_a'"),
        ("notebooks:\n  10_a:\n    seed: 1", "write a dash before each notebook"),
        ("notebooks: []", "a recipe has a list"),
        ("notebooks:\n  - 10_a:\n    seed: 1", "10_a: its parameters begin four blanks further in"),
        ("notebooks:\n\t- 10_a", "line 2: a tab; indent with blanks"),
        ("notebooks: [10_a]\n10_a: {seed: 1}", "unknown key '10_a'.*stands under notebooks, behind a dash"),
        ("notebooks: [10_a]\ndefaults: [seed]", "defaults: write one `name: value` a line"),
        ("notebooks:\n- 10_a: seed", "10_a: write one `name: value` a line"),
        ("name: [a]\nnotebooks: [10_a]", "name: one word"),
        ("notebook: [10_a]", "unknown key 'notebook'; did you mean 'notebooks'"),
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


def test_what_a_windows_editor_writes_is_read(ws):
    (ws / "r.yaml").write_bytes("\ufeffname: w\r\nnotebooks:\r\n  - 10_a:\r\n      text: über\r\n".encode())
    found = read(ws / "r.yaml", ws)
    assert (found.name, found.problems, found.steps[0].given) == ("w", (), {"text": "über"})
    (ws / "r.yaml").write_bytes(b"name: \xfc\nnotebooks: [10_a]")
    with pytest.raises(BadParameter, match="byte 6 is no UTF-8"):
        read(ws / "r.yaml", ws)


# ── a part, a sample ──

READS = 'run = ""  # the latest\nfiles = ""  # rows; empty: what {} wrote\nsample = 0  # rows\nlook_at = 2000  # rows\n'


@pytest.fixture(name="way")
def _way(ws):
    """Three notebooks, each of which reads what the one before it wrote."""
    for name, before in (("11_clean", "10_a"), ("12_dedup", "11_clean"), ("13_mix", "12_dedup")):
        write_cell(ws, name, READS.format(before))
    return recipe(ws, "name: way\nnotebooks: [11_clean, 12_dedup, 13_mix]")


@pytest.mark.parametrize(
    ("asked", "runs"),
    [
        ({"first": "12"}, ["12_dedup", "13_mix"]),
        ({"last": "dedup"}, ["11_clean", "12_dedup"]),
        ({"first": "12_dedup", "last": "12"}, ["12_dedup"]),
        ({"only": "mix, 11"}, ["11_clean", "13_mix"]),
        ({}, ["11_clean", "12_dedup", "13_mix"]),
    ],
)
def test_a_part_is_named_shortly(way, asked, runs):
    part = way.part(**asked)
    assert [step.notebook for step in part.steps if step.notebook not in part.left] == runs
    assert len(part.steps) == 3


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"first": "14"}, "--from: unknown notebook of this recipe '14'"),
        ({"only": "dedupp"}, "--only: .*did you mean '12_dedup'"),
        ({"first": "1"}, "--from 1 may be 11_clean, 12_dedup, 13_mix"),
        ({"first": "13", "last": "12"}, "nothing would run"),
        ({"first": "12", "only": "13"}, "leave --from and --to out"),
        ({"only": "12,"}, "unknown notebook of this recipe ''"),
    ],
)
def test_a_part_that_is_none_is_refused(way, asked, message):
    with pytest.raises(BadParameter, match=message):
        way.part(**asked)


def test_a_notebook_of_the_command_line_may_be_named_shortly(ws, way):
    (ws / "r.yaml").write_text("notebooks: [11_clean, 12_dedup]")
    assert read(ws / "r.yaml", ws, ["dedup.sample=3"]).steps[1].given == {"sample": 3}


def test_a_sample_is_drawn_where_a_way_begins_to_read_and_nowhere_else(ws, way):
    sampled = way.sampled(100)
    assert sampled.name == "way-sample-100"
    assert [step.values["sample"] for step in sampled.steps] == [100, 0, 0]
    assert [step.values["look_at"] for step in sampled.steps] == [100, 2000, 2000]
    own = recipe(ws, "notebooks:\n- 11_clean\n- 13_mix: {files: a.jsonl}").sampled(5000)
    assert [step.values["sample"] for step in own.steps] == [5000, 5000]
    assert own.steps[0].values["look_at"] == 2000


def test_a_sample_nobody_can_draw_is_refused(ws, way):
    with pytest.raises(BadParameter, match="--sample must be at least 1"):
        way.sampled(0)
    write_cell(ws, "14_c", 'files = ""  # rows\n')
    with pytest.raises(BadParameter, match="14_c reads files and has no parameter `sample`"):
        recipe(ws, "notebooks:\n- 14_c: {files: a.jsonl}").sampled(5)


def test_the_recipes_of_the_house_know_every_parameter_they_name_commented_out_or_not():
    folder = CHECKOUT / "notebooks" / "recipes"
    for path in sorted(folder.glob("*.yaml")):
        found = read(path, CHECKOUT)
        assert found.problems == ()
        known = {name for step in found.steps for name in step.known}
        offered = re.findall(r"^ +# (\w+): ", path.read_text("utf-8"), re.MULTILINE)
        assert {*offered} <= known, path.name
