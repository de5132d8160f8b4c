"""A notebook is not executed again unless something it depends on has changed; what that is, is said."""

from __future__ import annotations

import os
import sys

import nbformat
import pytest
from toy_runs import instantly, page, pressed, write_cell, write_notebook

from prep_lib import remote, shelf
from prep_lib.files import digest
from prep_lib.pipeline import run_files

pytestmark = pytest.mark.filterwarnings("default")  # what other projects deprecate is theirs


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
    real = shelf.make_key
    monkeypatch.setattr(shelf, "make_key", lambda **of: {**real(**of), "code": {f"prep_lib.{x}": x for x in "abcd"}})
    assert pressed(ws, "10_a", keep_old=True)[0] == []
    executed, told, _ = pressed(ws, "10_a")
    assert executed == ["10_a"]
    assert told[0].startswith("10_a: runs: code of ")
    assert told[0].endswith(", … (--keep-old uses what is there)")


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


def test_what_has_just_been_digested_is_not_digested_again(tmp_path, monkeypatch):
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n')
    run_files([], tmp_path / "a.jsonl", tmp_path / "data" / "texts", engine="inline")
    right = {path.name: digest(path) for path in (tmp_path / "data" / "texts").iterdir() if path.is_file()}
    read = []
    monkeypatch.setattr(shelf, "digest", lambda path: read.append(path.name) or digest(path))
    assert {path.name: sha for path, sha in shelf._outputs(tmp_path / "data")} == right
    assert sorted(read) == ["documents.json", "ledger.json", "rejected.jsonl.zst"]
