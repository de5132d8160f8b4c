"""What a run's folder tells is read as it stands: whole, half, torn, or not there at all."""

from __future__ import annotations

import json

import pytest
from attacks import cell

from prep_lib.facts import Facts, Took, asked_of, facts, lang_of, read_executed, short, took
from prep_lib.workspace import Run


@pytest.fixture(name="run")
def _run(tmp_path):
    made = Run(tmp_path, "r", "15_pack")
    (made.folder / "executed").mkdir(parents=True)
    made.data.mkdir(parents=True)
    return made


def write(run: Run, *cells: dict, **metadata: object) -> None:
    path = run.folder / "executed" / f"{run.notebook}.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": metadata}))


def note(notebook: str, event: str, **more: object) -> dict[str, object]:
    return {"notebook": notebook, "event": event, **more}


def test_a_run_of_nothing_has_no_facts(tmp_path):
    run = Run(tmp_path, "none")
    assert facts(run) == Facts(run)


def test_everything_is_read(run):
    said = {"output_type": "execute_result", "data": {"text/html": "<p>", "text/plain": "<ledger: 9 in, 7 kept>"}}
    plain = {"output_type": "execute_result", "data": {"text/plain": "<object>"}}
    write(
        run,
        cell("code", 'seq_len = 8  # tokens\nlang = "en"', "parameters"),
        cell("code", "seq_len = 4\nlang = 'zh'", "injected-parameters"),
        cell("code", "x", outputs=[said, plain]),
        language_info={"version": "3.11.7"},
        prep={"version": "0.5.0"},
    )
    (run.folder / "executed/15_pack.json").write_text(json.dumps({"seconds": 3, "key": {"versions": {"numpy": "2"}}}))
    (run.data / "manifest.json").write_text('{"shards": []}')
    (run.data / ".prep").mkdir()
    (run.data / ".prep/manifest.json").write_text('{"shards": []}')
    (run.data / "torn").mkdir()
    (run.data / "torn/manifest.json").write_text('{"shards"')
    (run.data / "metadata.json").write_text('{"shard_sizes": [3]}')
    found = facts(run)
    assert found.states == {"15_pack": ("open", "")}
    assert (found.asked["15_pack"].used, found.asked["15_pack"].changed) == (
        {"seq_len": 4, "lang": "zh"},
        ["seq_len", "lang"],
    )
    assert found.outputs == {"15_pack": ["ledger: 9 in, 7 kept"]}
    assert found.versions == {"15_pack": {"Python": "3.11.7", "prep_lib": "0.5.0", "numpy": "2"}}
    assert (list(found.manifests), list(found.npz), found.lang) == (["15_pack"], ["15_pack"], "zh")


def test_a_torn_notebook_and_a_strange_cell_tell_nothing(run):
    assert read_executed(run.folder / "executed/15_pack.ipynb") is None
    path = run.folder / "executed/15_pack.ipynb"
    for text in ("{", "[]", '{"cells": [3]}', '{"cells": {}}'):
        path.write_text(text)
        found = read_executed(path)
        assert found is None or found["cells"] == []
    assert asked_of([cell("code", "import os", "parameters")]) == ({}, {})


def test_notes_are_those_of_the_last_time_and_the_tokenizer_may_be_older(run):
    for event in (
        note("a", "note", text="tokenizer: tokenizers, the reference"),
        note("a", "note", text="old"),
        note("a", "notebook", state="began"),
        note("a", "note", text="new"),
        note("a", "note", text="new"),
    ):
        run.note(event)
    assert facts(run).said == {"a": ["tokenizer: tokenizers, the reference", "new"]}
    run.note(note("a", "note", text="tokenizer: fastokens"))
    assert facts(run).said == {"a": ["new", "tokenizer: fastokens"]}


def test_attempts_add_up_until_a_notebook_is_begun_anew():
    began, done = note("a", "notebook", state="began"), note("a", "notebook", state="done")
    stopped = note("a", "notebook", state="interrupted")
    task, end = note("a", "task", stage="s", seconds=2.0), note("a", "end", stage="s", seconds=1.5)
    assert list(took([began, task, stopped, began, task, end, done])) == [Took("a", "s", 2, 1.5, 4.0)]
    kept = note("a", "notebook", state="kept")
    assert list(took([began, task, end, done, kept])) == [Took("a", "s", 1, 1.5, 2.0)]
    assert list(took([began, task, done, began, task, task, end, done])) == [Took("a", "s", 2, 1.5, 4.0)]


def test_language_and_length():
    assert [lang_of(), lang_of({"lang": "xx"}, {"lang": "zh"}), lang_of({})] == ["en", "zh", "en"]
    assert len(short("W" * 10_000_000)) < 700
