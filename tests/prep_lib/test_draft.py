"""What is written down runs, says why, and never stands over what a person changed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from prep_lib.draft import draft, write_recipes
from prep_lib.recipes import read
from prep_lib.survey import Group, Model, look
from prep_lib.workspace import MARKER

PROSE = "The quick brown fox jumps over the lazy dog, and then it sleeps in the sun for a while."
TALK = {
    "messages": [{"role": "user", "content": "Hi, how are you?"}, {"role": "assistant", "content": "Well, thanks."}]
}


@pytest.fixture(name="ws")
def _ws(tmp_path):
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / MARKER).write_text('{"files": {}}')
    return tmp_path / "ws"


def rows(path, row, times=3):
    path.write_text("".join(json.dumps(row) + "\n" for _ in range(times)))
    return str(path)


def made(ws, name):
    found = read(name, ws)
    assert found.problems == ()
    return {step.notebook: dict(step.given) for step in found.steps}


def test_every_kind_of_data_gets_its_way(ws, tmp_path, capsys):
    (tmp_path / "web").mkdir()
    (tmp_path / "web/a.html").write_text(f"<p>{PROSE}</p>")
    named = [str(tmp_path / "web"), rows(tmp_path / "t.jsonl", {"body": PROSE}), rows(tmp_path / "c.jsonl", TALK)]
    np.savez(tmp_path / "s.npz", ids=np.zeros((5, 3), np.uint16))
    assert write_recipes(ws, [*named, str(tmp_path / "s.npz"), str(tmp_path / "none")]) == 0
    told = capsys.readouterr().out
    assert next(iter(made(ws, "pretrain-a"))) == "10_read"
    assert [*made(ws, "pretrain-t")][:2] == ["11_clean", "12_dedup"]
    assert made(ws, "pretrain-t")["11_clean"]["text_field"] == "body"
    assert made(ws, "posttrain-c")["22_tensorize"]["processor"] == "sft"
    assert made(ws, "preshuffle-s")["30_preshuffle"]["input_dir"] == str(tmp_path)
    assert "to put right" not in told
    assert told.count("prep run ") >= 4
    assert f"left out  {tmp_path}/none: no such file" in told


def test_nothing_that_can_be_read_is_said_and_writes_nothing(ws, tmp_path, capsys):
    assert write_recipes(ws, [str(tmp_path / "none")]) == 1
    assert "nothing to write a recipe for" in capsys.readouterr().out
    assert not (ws / "notebooks").exists()


def test_every_value_says_why(ws, tmp_path):
    (group,) = look([rows(tmp_path / "c.jsonl", {"question": "2 + 2?", "answer": "4"})]).groups
    text = draft(group, [], ws, "x")
    for line, before in zip(text.splitlines()[1:], text.splitlines(), strict=False):
        value = line.startswith(("      ", "  w", "  m")) and not line.strip().startswith("#")
        assert not value or "#" in line or before.strip().startswith("#"), line
    assert "columns: question->query answer->response" in text


def test_a_changed_recipe_and_one_for_other_files_are_never_written_over(ws, tmp_path, capsys):
    first, recipes = rows(tmp_path / "t.jsonl", {"text": PROSE}), ws / "notebooks/recipes"
    write_recipes(ws, [first])
    rows(tmp_path / "t.jsonl", {"text": PROSE}, times=9)
    write_recipes(ws, [first])
    assert [path.name for path in recipes.iterdir()] == ["pretrain-t.yaml"]
    assert "9 documents" in (recipes / "pretrain-t.yaml").read_text("utf-8")
    (recipes / "pretrain-t.yaml").write_text("# mine\n")
    (tmp_path / "other").mkdir()
    write_recipes(ws, [first])
    write_recipes(ws, [rows(tmp_path / "other/t.jsonl", {"text": PROSE})])
    assert (recipes / "pretrain-t.yaml").read_text() == "# mine\n"
    assert sorted(path.name for path in recipes.iterdir()) == [
        "pretrain-t-2.yaml", "pretrain-t-3.yaml", "pretrain-t.yaml",
    ]  # fmt: skip
    assert read("pretrain-t-2", ws).name == "pretrain-t-2"
    assert "wrote     notebooks/recipes/pretrain-t-3.yaml" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["two words.jsonl", "a#b: 'c'.jsonl", "数据.jsonl", "[x].jsonl", "line\nfeed.jsonl"])
def test_a_file_may_be_called_anything(ws, tmp_path, name):
    write_recipes(ws, [rows(tmp_path / name, {"text": PROSE})])
    (path,) = (ws / "notebooks/recipes").iterdir()
    given = made(ws, path.stem)["11_clean"]
    from prep_lib.workspace import Run

    assert Run(ws, "r").inputs(given["files"]) == [str(tmp_path / name)]


def test_files_that_share_a_pattern_are_one_place(ws, tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(3):
        rows(tmp_path / f"in/{number}.jsonl", TALK)
    write_recipes(ws, [str(tmp_path / "in")])
    assert made(ws, "posttrain-in")["20_export"]["dataset"] == f"{tmp_path}/in/*.jsonl"
    rows(tmp_path / "in/other.jsonl", {"a": 1})
    write_recipes(ws, [str(tmp_path / "in")])
    assert sorted(path.stem for path in (ws / "notebooks/recipes").iterdir()) == [
        "posttrain-0", "posttrain-1", "posttrain-2", "posttrain-in",
    ]  # fmt: skip


def test_lengths_and_models_decide_about_packs_and_rows(ws):
    talks = Group("talks", ("/a.jsonl",), 1, 100, form="messages", processor="sft", lengths=(100,) * 99 + (9000,))
    model = Model("/m", tokenizer=True, template=True, chatml=True, limit=8192)
    given = draft(talks, [model], ws, "x")
    assert "tokenizer: /m" in given
    assert "pack_size: 8192 " in given
    assert "pack_size: 512 " in draft(Group(**{**vars(talks), "lengths": (100,) * 100}), [], ws, "x")
    assert "pack_size: 0 " in draft(Group(**{**vars(talks), "processor": "dpo"}), [model], ws, "x")
    plain = Model("/m", tokenizer=True, template=False)
    assert 'template: "" ' in draft(talks, [plain], ws, "x")
    texts = Group("texts", ("/a.jsonl",), 1, 10**6, text="text", lengths=(500,), languages={"zh": 0.9})
    assert "seq_len: 2048 " in draft(texts, [], ws, "x")
    assert "shingle: char5 " in draft(texts, [], ws, "x")
    assert "seq_len: 256 " in draft(Group(**{**vars(texts), "rows": 10}), [], ws, "x")
