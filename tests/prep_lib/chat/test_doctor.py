"""The doctor: toy model folders, a file of data, the report, and the exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import shared

from prep_lib.chat.doctor import command, examine, records, report
from prep_lib.errors import BadInput, BadRecord
from prep_lib.tokens.tokenizer import AutoTokenizer

CHAT = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SPECIALS = ["</s>", "<|im_start|>", "<|im_end|>", "<|pad|>"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder without fault."""
    return model(tmp_path / "model")


def model(place: Path, template: str | None = CHAT, **configs: Any) -> Path:
    tokenizer = AutoTokenizer().train(["a b"], vocab_size=300, special_tokens=SPECIALS)
    tokenizer.eos_token, tokenizer.pad_token, tokenizer.chat_template = "<|im_end|>", "<|pad|>", template
    tokenizer.save(place)
    files = {"generation_config": {"eos_token_id": [2], "pad_token_id": 3}, "config": {"vocab_size": 300}}
    for name, content in {**files, **configs}.items():
        (place / f"{name}.json").write_text(json.dumps(content))
    return place


def write(place: Path, *rows: Any) -> Path:
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


ROW = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}


def rules(diagnosis: Any, *severities: str) -> list[str]:
    return [one.rule for one in diagnosis.findings if one.severity in (severities or ("error", "warning"))]


def test_a_folder_without_fault_passes(folder: Path) -> None:
    diagnosis = examine(folder)
    assert rules(diagnosis) == []
    assert diagnosis.exit_status == 0
    assert diagnosis.looked == ("template", "tokenizer", "folder")
    assert diagnosis.folder["template"] == "chat_template.jinja"
    assert diagnosis.traits["generation_prompt"] == "<|im_start|>assistant\n"


def test_a_stop_the_server_does_not_know_is_an_error_and_says_what_to_add(tmp_path: Path) -> None:
    diagnosis = examine(model(tmp_path, generation_config={"eos_token_id": [0]}))
    assert "STOP_TOKEN_NOT_IN_GENERATION_CONFIG" in rules(diagnosis, "error")
    assert diagnosis.exit_status == 1
    never = diagnosis.symptoms[0]
    assert never.name == "never_stops"
    assert "also add stop_token_ids=[2] to your server" in never.advice
    found = {cause.rule: cause for cause in never.causes}
    token = found["STOP_TOKEN_NOT_IN_GENERATION_CONFIG"].token
    assert token is not None
    assert (token.id, token.text) == (2, "<|im_end|>")
    assert found["MARKER_NOT_SINGLE_TOKEN"].found is False
    assert found["TOO_LONG"].found is None


def test_every_named_template_is_looked_at(folder: Path) -> None:
    more = folder / "additional_chat_templates"
    more.mkdir()
    (more / "rag.jinja").write_text(CHAT.replace(" + '<|im_end|>\n'", ""))
    found = [(one.rule, one.template) for one in examine(folder).findings if one.severity == "error"]
    assert found == [("EOT_NOT_TRAINED", "rag")]
    assert not examine(folder).symptoms[0].found  # that of the template that serves


def test_a_template_that_does_not_parse_is_a_finding_beside_those_of_the_folder(tmp_path: Path) -> None:
    diagnosis = examine(model(tmp_path, "{{", config={"vocab_size": 3}))
    assert {"TEMPLATE_FAILS", "VOCAB_EXCEEDS_EMBEDDINGS"} <= set(rules(diagnosis, "error"))
    assert diagnosis.traits == {}


def test_a_folder_without_template_says_so(tmp_path: Path) -> None:
    assert rules(examine(model(tmp_path, None))) == ["NO_TEMPLATE"]


def test_all_rows_of_a_file_are_counted_and_few_looked_at_closely(folder: Path, tmp_path: Path) -> None:
    bad = {"messages": [{"role": "human", "content": "q"}, *ROW["messages"]]}
    dropping = CHAT.replace("{% for m in messages %}", "{% for m in messages if m.role != 'human' %}")
    (folder / "chat_template.jinja").write_text(dropping)
    data = write(tmp_path / "a.jsonl", *[ROW] * 30, bad, *[ROW] * 10, bad, [1], {"messages": 1})
    diagnosis = examine(folder, data=data, limit=5)
    found = {one.rule: one for one in diagnosis.findings}
    assert (found["MESSAGE_DROPPED"].rows, found["MESSAGE_DROPPED"].of) == ((30, 41), 44)
    assert found["RECORD_UNREADABLE"].rows == (42, 43)
    assert diagnosis.rows == 44
    assert "2 of 44 rows" in found["MESSAGE_DROPPED"].detail


def test_rows_without_a_stop_token_are_counted_for_retraining(tmp_path: Path) -> None:
    source = CHAT.replace(" + '<|im_end|>\n'", "").replace(
        "{% endfor %}", "{% if 'z' not in m.content %}{{ '<|im_end|>' }}{% endif %}{% endfor %}"
    )
    lacking = {"messages": [ROW["messages"][0], {"role": "assistant", "content": "z"}]}
    data = write(tmp_path / "a.jsonl", *[ROW] * 7, *[lacking] * 3)
    diagnosis = examine(model(tmp_path / "model", source), data=data, limit=2)
    assert "retrain: 3 of 10 rows lack the stop token" in diagnosis.symptoms[0].advice


def test_rows_longer_than_the_model_takes(tmp_path: Path) -> None:
    place = model(tmp_path / "model", config={"vocab_size": 300, "max_position_embeddings": 60})
    long = {"messages": ROW["messages"] * 4}
    found = {one.rule: one for one in examine(place, data=write(tmp_path / "a.jsonl", ROW, long, long)).findings}
    assert found["TOO_LONG"].rows == (1, 2)


def test_a_hostile_template_ends_with_data_too(tmp_path: Path) -> None:
    place = model(tmp_path / "model", "{% for a in range(99999999) %}{% endfor %}")
    diagnosis = examine(place, data=write(tmp_path / "a.jsonl", *[ROW] * 1000))
    assert rules(diagnosis, "error") == ["TEMPLATE_FAILS"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.parquet"])
def test_files_of_all_kinds_are_read(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    if name.endswith("parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"messages": [ROW["messages"]] * 2}), place)
    elif name.endswith("json"):
        place.write_text(json.dumps([ROW, ROW]))
    else:
        place.write_text(json.dumps(ROW) + "\nnot json\n")
    found = list(records(place))
    assert [number for number, _ in found] == [0, 1]
    assert found[0][1] == ROW
    assert isinstance(found[1][1], BadRecord) == name.endswith("jsonl")


def test_a_missing_file_is_one_line(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no file at"):
        examine(folder, data=tmp_path / "none.jsonl")
    with pytest.raises(BadInput):
        examine(tmp_path / "nothing")


def test_the_command_prints_and_returns_the_status(folder: Path, tmp_path: Path) -> None:
    said: list[str] = []
    assert command(folder, out=said.append) == 0
    broken = model(tmp_path / "broken", generation_config={"eos_token_id": [0]})
    assert command(broken, out=said.append) == 1
    assert said[0].startswith("model: ")
    assert "✗ error   STOP_TOKEN_NOT_IN_GENERATION_CONFIG" in said[1]
    assert "never stops:" in said[1]
    assert "-> also add stop_token_ids=[2] to your server" in said[1]


def test_a_template_file_with_a_tokenizer(tmp_path: Path, folder: Path) -> None:
    place = tmp_path / "own.jinja"
    place.write_text(CHAT.replace("<|im_end|>", "<｜im_end｜>"))
    alone = examine(place)
    assert alone.looked == ("template",)
    given = examine(place, folder / "tokenizer.json")
    assert given.looked == ("template", "tokenizer")
    assert "MARKER_NOT_SINGLE_TOKEN" in rules(given, "error")


def test_a_diagnosis_is_plain_values(folder: Path, tmp_path: Path) -> None:
    diagnosis = examine(folder, data=write(tmp_path / "a.jsonl", ROW))
    plain = json.loads(json.dumps(diagnosis.as_dict()))
    assert plain["exit_status"] == 0
    assert plain["rows"] == 1
    assert {symptom["name"] for symptom in plain["symptoms"]} >= {"never_stops"}


def test_the_report_is_one_line_a_finding_whatever_the_data_say(tmp_path: Path) -> None:
    place = model(tmp_path / "model", CHAT.replace("m.content", "m.content[:2]"))
    evil = {"messages": [{"role": "user", "content": "a\n✗ error   FAKE: b"}, ROW["messages"][1]]}
    text = report(examine(place, data=write(tmp_path / "a.jsonl", evil)))
    assert not any(line.startswith("✗ error   FAKE") for line in text.splitlines())


def test_real_data_are_read_to_the_end() -> None:
    tokenizer = shared("tokenizers/tiny_bytelevel_chatml.json")
    template = shared("chat_templates/qwen3.jinja")
    for name in ("sft/toolcall_sharegpt_en.json", "pref/dpo_messages_en.jsonl", "pref/kto_en.json"):
        diagnosis = examine(template, tokenizer, shared(name), limit=5)
        assert diagnosis.rows
        assert "RECORD_UNREADABLE" not in rules(diagnosis), name
