"""The doctor: toy model folders, a file of data, the report, and the exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import shared

from prep_lib.chat.doctor import command, examine, report
from prep_lib.errors import BadInput, BadParameter
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
def test_files_of_all_kinds_are_read(folder: Path, tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    if name.endswith("parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"messages": [ROW["messages"]] * 2}), place)
    elif name.endswith("json"):
        place.write_text(json.dumps([ROW, ROW]))
    else:
        place.write_text(json.dumps(ROW) + "\nnot json\n")
    counted = examine(folder, data=place).counted
    bad = name.endswith("jsonl")
    assert (counted["of"], counted["looked_at"], counted["clean"]) == (2, 2, 2 - bad)
    assert [(one["rule"], one["first"]) for one in counted["found"]] == [("RECORD_UNREADABLE", ["a.jsonl#L2"])] * bad


#: One record of each form `conversation.read` knows that holds a conversation.
FORMS: list[dict[str, Any]] = [
    ROW,
    {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
    {"instruction": "q", "input": "", "output": "a"},
    {"query": "q", "response": "a"},
    {"prompt": "q", "completion": "a"},
    {"prompt": "q", "chosen": "a", "rejected": "b"},
    {"prompt": "q", "completion": "a", "label": True},
]


@pytest.mark.parametrize("record", FORMS, ids=["+".join(one) for one in FORMS])
def test_records_of_every_form_are_read(folder: Path, tmp_path: Path, record: dict[str, Any]) -> None:
    diagnosis = examine(folder, data=write(tmp_path / "a.jsonl", record))
    assert (rules(diagnosis), diagnosis.counted["clean"]) == ([], 1)
    assert diagnosis.counted["trained"] > 0


def test_a_missing_file_is_one_line(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no file"):
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
    assert said[1].endswith("\n--write DIR writes the template with its proven repairs, and the findings")


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
    assert (plain["rows"]["of"], plain["rows"]["looked_at"], plain["rows"]["clean"]) == (1, 1, 1)
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


TRIMMED = CHAT.replace("m.content +", "m.content | trim +")


def test_what_was_looked_at_closely_is_said(folder: Path, tmp_path: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ '<|pad|>' * 40 + 'Be very kind.' }}" + CHAT)
    odd = {"messages": [{"role": "system", "content": "s"}, *ROW["messages"]]}
    data = write(tmp_path / "a.jsonl", *[ROW] * 3, odd, *[ROW] * 6)
    found = {one.rule: one for one in examine(folder, data=data, limit=4).findings}["DEFAULT_SYSTEM_INJECTED"]
    assert "(3 of 4 rows looked at closely, of 10)" in found.detail
    assert (len(found.rows), found.of) == (3, 4)
    found = {one.rule: one for one in examine(folder, data=data, limit=3).findings}["DEFAULT_SYSTEM_INJECTED"]
    assert "(all 3 rows looked at closely, of 10)" in found.detail
    found = {one.rule: one for one in examine(folder, data=data).findings}["DEFAULT_SYSTEM_INJECTED"]
    assert "(9 of 10 rows)" in found.detail


def test_one_repair_of_two_findings_is_told_once(tmp_path: Path) -> None:
    source = CHAT.replace("{{ '<|im_start|>' + m.role", "{% generation %}{{ '<|im_start|>' + m.role")
    text = report(examine(model(tmp_path, source.replace("\n' }}{% endfor", "\n' }}{% endgeneration %}{% endfor"))))
    assert text.count("repair: move the generation tags; ") == 1
    assert "repair: move the generation tags, as for " in text


def test_template_and_findings_are_written(tmp_path: Path) -> None:
    place, out = model(tmp_path / "model", TRIMMED), tmp_path / "out"
    said: list[str] = []
    blank = {"messages": [ROW["messages"][0], {"role": "assistant", "content": " a "}]}
    assert command(place, data=write(tmp_path / "a.jsonl", ROW, blank), write=out, out=said.append) == 0
    assert sorted(path.name for path in out.iterdir()) == ["findings.json", "template.jinja"]
    assert "trim" not in (out / "template.jinja").read_text()
    assert f"written: {out / 'template.jinja'}, the template with its proven repairs" in said[0].splitlines()
    told = json.loads((out / "findings.json").read_text("utf-8"))
    assert told["repaired"]["changed"]
    assert told["repaired"]["proofs"][0].startswith("take out the trims: ")
    assert examine(out / "template.jinja", place).exit_status == 0
    assert "CONTENT_TRIMMED" not in rules(examine(out / "template.jinja", place))


def test_nothing_is_overwritten_unless_asked_for(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "findings.json").write_text("mine")
    with pytest.raises(BadParameter, match=r"findings\.json is there already; give another folder, or --force"):
        command(folder, write=tmp_path, out=list)
    assert not (tmp_path / "template.jinja").exists()
    assert (tmp_path / "findings.json").read_text() == "mine"
    assert command(folder, write=tmp_path, force=True, out=lambda _: None) == 0
    assert json.loads((tmp_path / "findings.json").read_text())["exit_status"] == 0
    with pytest.raises(BadParameter, match="is a file"):
        command(folder, write=tmp_path / "findings.json")
    with pytest.raises(BadParameter, match="--force is for --write"):
        command(folder, force=True)


def test_a_template_without_proven_repair_is_written_as_it_is(tmp_path: Path) -> None:
    turn = "{{ '<|im_start|>' + m.role + '\n' }}{{ m.content + '<|im_end|>' }}{{ '\n' }}"
    answer = turn.replace("{{ m.", "{% generation %}{{ m.").replace("|>' }}{{ '\n", "|>' }}{% endgeneration %}{{ '\n")
    body = "{% if m.role == 'assistant' %}" + answer + "{% else %}" + turn + "{% endif %}"
    tagged = "{% for m in messages %}" + body + CHAT[CHAT.index("{% endfor") :]
    said: list[str] = []
    assert command(model(tmp_path / "model", tagged), write=tmp_path / "out", out=said.append) == 0
    assert (tmp_path / "out" / "template.jinja").read_text() == tagged
    assert "as it is: no repair of it is proven" in said[0]


def test_a_template_that_does_not_parse_leaves_findings_alone(tmp_path: Path) -> None:
    assert command(model(tmp_path / "model", "{{"), write=tmp_path / "out", out=lambda _: None) == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["findings.json"]


def test_json_is_all_that_is_printed(folder: Path, tmp_path: Path) -> None:
    said: list[str] = []
    beside: list[str] = []
    assert command(folder, write=tmp_path / "out", as_json=True, out=said.append, say=beside.append) == 0
    assert json.loads("".join(said)) == json.loads((tmp_path / "out" / "findings.json").read_text())
    assert [line.partition(" ")[0] for line in beside[0].splitlines() if line[:1] != " "] == ["written:"] * 2


def test_what_the_workbench_saves_has_the_same_keys(folder: Path, tmp_path: Path) -> None:
    from widgets.workbench.state import files, scan_some, start

    tokenizer = AutoTokenizer(folder)
    blank = {"messages": [ROW["messages"][0], {"role": "assistant", "content": " a "}]}
    state = scan_some(start(tokenizer, [blank], templates={"mine": TRIMMED}), 1)
    saved = json.loads(files(state)["findings.json"])
    (folder / "chat_template.jinja").write_text(TRIMMED)
    told = json.loads(json.dumps(examine(folder, data=write(tmp_path / "a.jsonl", blank)).as_dict()))
    assert set(saved) <= set(told)
    assert set(saved["choices"]) - {"too_long"} == set(told["choices"])
    assert saved["template_sha256"] == told["template_sha256"]
    assert list(saved["rows"]) == list(told["rows"])
    assert list(saved["rows"]["found"][0]) == list(told["rows"]["found"][0])
    assert list(saved["findings"][0]) == list(told["findings"][0])


def test_what_cannot_be_looked_at_was_asked_wrongly(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="nothing at"):
        command(tmp_path / "nothing")
    with pytest.raises(BadParameter, match="no file"):
        command(folder, data=tmp_path / "none.jsonl")
