"""Files are sorted by what is in them, and what cannot be read is named while the rest goes on."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import shared

from prep_lib import survey
from prep_lib.survey import look

PROSE = "The quick brown fox jumps over the lazy dog, and then it sleeps in the sun for a while."
TALK = {
    "messages": [{"role": "user", "content": "Hi, how are you?"}, {"role": "assistant", "content": "Well, thanks."}]
}


def write(path, rows):
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def groups(folder, *named):
    found = look([str(folder / name) for name in named] or [str(folder)])
    return {group.kind: group for group in found.groups}, found


def test_pages_and_whole_texts_are_read_from_their_bytes_on(tmp_path):
    (tmp_path / "a.html").write_text(f"<html><script>var x = 1</script><p>{PROSE}</p></html>")
    (tmp_path / "b.txt").write_text(PROSE)
    found, _ = groups(tmp_path)
    assert [*found] == ["pages"]
    assert (found["pages"].rows, len(found["pages"].paths)) == (2, 2)
    assert next(iter(found["pages"].languages)) == "en"
    assert found["pages"].about().startswith("1 .html, 1 .txt (0 kB); pages and whole texts; languages en")


def test_a_field_is_the_text_by_its_name_or_because_it_holds_most(tmp_path):
    write(
        tmp_path / "a.jsonl.gz",
        [{"id": str(n), "url": "x" * 200, "content": PROSE, "subset": "ab"[n % 2]} for n in range(9)],
    )
    found, _ = groups(tmp_path)
    assert (found["texts"].text, found["texts"].source, found["texts"].rows) == ("content", "subset", 9)
    pq.write_table(pa.table({"nr": [1, 2], "beschreibung": [PROSE, PROSE]}), tmp_path / "b.parquet")
    found, _ = groups(tmp_path, "b.parquet")
    assert (found["texts"].text, found["texts"].source, found["texts"].columns) == (
        "beschreibung",
        "",
        ("nr", "beschreibung"),
    )


@pytest.mark.parametrize(
    ("row", "form", "processor", "renames"),
    [
        (TALK, "messages", "sft", {}),
        ({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yes"}]}, "sharegpt", "sft", {}),
        ({"instruction": "Say it", "input": "", "output": "It"}, "alpaca", "sft", {}),
        ({"prompt": "Say it", "chosen": "It", "rejected": "That"}, "preference_prompt", "dpo", {}),
        ({"prompt": "Say it", "completion": "It", "label": True}, "kto", "kto", {}),
        ({"Question": "2 + 2?", "Answer": "4"}, "query_response", "sft", {"Question": "query", "Answer": "response"}),
    ],
)
def test_rows_that_are_conversations_are_known_by_their_form(tmp_path, row, form, processor, renames):
    write(tmp_path / "a.jsonl", [row] * 3)
    found, _ = groups(tmp_path)
    talks = found["talks"]
    assert (talks.form, talks.processor, talks.renames, talks.bad) == (form, processor, renames, 0)


def test_a_table_of_questions_and_answers_is_read_whatever_its_ending(tmp_path):
    (tmp_path / "a.csv").write_text("question,answer\n2 + 2?,4\n")
    (tmp_path / "b.json").write_text(json.dumps([{"question": "2 + 2?", "answer": "4"}]))
    found, _ = groups(tmp_path)
    assert len(found["talks"].paths) == 2
    assert [part.paths for part in found["talks"].parts] == [(str(tmp_path / name),) for name in ("a.csv", "b.json")]


def test_rows_that_cannot_be_read_are_counted_and_named(tmp_path):
    write(tmp_path / "a.jsonl", [TALK] * 9 + [{"messages": [{"role": "nobody", "content": "?"}]}])
    found, _ = groups(tmp_path)
    assert (found["talks"].bad, found["talks"].why, found["talks"].looked) == (0.1, "unknown_role", 10)


def test_files_of_one_kind_stand_together_and_the_kinds_apart(tmp_path):
    write(tmp_path / "a.jsonl", [{"text": PROSE}] * 2)
    write(tmp_path / "b.jsonl", [{"text": PROSE, "source": "web"}] * 3)
    write(tmp_path / "c.jsonl", [TALK] * 4)
    np.savez(tmp_path / "shard.npz", input_ids=np.zeros((5, 3), np.uint16), source=np.zeros(5, np.int64))
    found, _ = groups(tmp_path)
    assert {kind: group.rows for kind, group in found.items()} == {"texts": 5, "talks": 4, "arrays": 5}
    assert found["arrays"].source == "source"
    assert [part.rows for part in found["texts"].parts] == [2, 3]


def test_what_cannot_be_read_is_one_line_each_and_the_rest_goes_on(tmp_path):
    write(tmp_path / "good.jsonl", [{"text": PROSE}])
    (tmp_path / "bad.parquet").write_text("no")
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "a.xyz").touch()
    write(tmp_path / "numbers.jsonl", [{"a": 1, "b": [2]}])
    (tmp_path / "nothing").mkdir()
    found = look([str(tmp_path), str(tmp_path / "nothing"), str(tmp_path / "*.none"), "org/name"])
    assert [group.kind for group in found.groups] == ["texts"]
    told = "\n".join(found.unread)
    for part in (
        "bad.parquet: ", "empty.jsonl: is empty", "a.xyz: no file of a known kind", "nothing: holds nothing",
        "*.none: no file matches", "10_read.dataset=org/name", "no field of 'a', 'b' is a text",
    ):  # fmt: skip
        assert part in told
    assert len(found.unread) == 7


def test_a_long_file_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(survey, "READ_WHOLE", 1000)
    write(tmp_path / "a.jsonl", [{"text": PROSE}] * 1000)
    found, _ = groups(tmp_path)
    assert not found["texts"].exact
    assert 900 <= found["texts"].rows <= 1100
    assert "about 1," in found["texts"].about() or "about 9" in found["texts"].about()


def test_some_of_many_files_that_are_alike_speak_for_all(tmp_path, monkeypatch):
    monkeypatch.setattr(survey, "FILES", 3)
    for number in range(9):
        write(tmp_path / f"{number}.jsonl", [{"text": PROSE}] * 4)
    found, _ = groups(tmp_path)
    texts = found["texts"]
    assert (len(texts.paths), texts.rows, texts.exact, texts.looked) == (9, 36, False, 12)
    write(tmp_path / "3.jsonl", [TALK])
    found, _ = groups(tmp_path)
    assert {kind: len(group.paths) for kind, group in found.items()} == {"texts": 8, "talks": 1}


def test_a_model_is_known_by_its_files(tmp_path):
    (tmp_path / "model").mkdir()
    tokenizer = shared("tokenizers/tiny_bytelevel_chatml.json").read_bytes()
    (tmp_path / "model/tokenizer.json").write_bytes(tokenizer)
    (tmp_path / "model/chat_template.jinja").write_text("{{ messages[0].content }}")
    (tmp_path / "tok.json").write_bytes(tokenizer)
    found = look([str(tmp_path)])
    assert [(model.tokenizer, model.template, model.chatml) for model in found.models] == [
        (True, True, True), (True, False, True),
    ]  # fmt: skip
    assert found.groups == []
