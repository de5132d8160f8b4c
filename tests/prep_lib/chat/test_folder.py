"""What a model folder says: which template and which ids serve; damaged and huge files cost one line."""

from __future__ import annotations

import json
import socket
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from toy_folder import (
    CHATML,
    CLEAN,
    CONFIG,
    END,
    GENERATION,
    IM_END,
    PAD,
    PADDING,
    SPECIALS,
    Toy,
    declared,
    embedding,
    post_processor,
)

from prep_lib.chat import folder as module
from prep_lib.chat.facts import facts
from prep_lib.chat.folder import ModelFolder, Named, load
from prep_lib.errors import BadInput


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path / "toy")


# ---------------------------------------------------------------- the clean folder


def test_what_a_clean_folder_says(toy: Toy) -> None:
    toy.weights({"model.embed_tokens.weight": embedding(512), "model.norm.weight": embedding(8)})
    found = toy.load()
    assert (found.name, found.vocab_size, found.rows, found.limit, found.max_positions) == ("toy", 512, 512, 512, 2048)
    assert found.model_max_length is None
    assert found.template is not None
    assert (found.template.name, found.template.file, found.template.source) == (
        "default", "tokenizer_config.json", CHATML
    )  # fmt: skip
    assert {role: (token.token, token.id) for role, token in found.roles.items()} == {
        "eos": ("<|im_end|>", IM_END), "pad": ("<|pad|>", PAD)
    }  # fmt: skip
    assert found.variables == {"eos_token": "<|im_end|>", "pad_token": "<|pad|>"}
    assert found.stops == {"generation_config.json": (IM_END, END), "config.json": (IM_END,)}
    assert found.pads == {"generation_config.json": (PAD,)}
    assert found.generation_stops == ("generation_config.json", (IM_END, END))
    assert found.stop_ids == (IM_END, END)
    assert [token.content for token in found.added] == SPECIALS
    assert found.tokenizer is not None
    assert (found.tokenizer.eos_token, found.tokenizer.chat_template) == ("<|im_end|>", CHATML)
    assert json.loads(json.dumps(found.describe()))["embedding_rows"] == 512


def test_nothing_is_fetched(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    toy.load()
    with pytest.raises(BadInput, match="no such model in the local hub cache"):
        load("some/model-nobody-cached")


def test_a_cached_hub_name(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "hub" / "models--some--toy"
    commit = "0" * 40
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text(commit)
    (cache / "snapshots").mkdir()
    (cache / "snapshots" / commit).symlink_to(toy.place)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    found = load("some/toy")
    assert (found.name, found.generation_stops is not None, facts(found)) == ("some/toy", True, [])


# ---------------------------------------------------------------- which template serves


def test_files_win_over_the_configuration(toy: Toy) -> None:
    toy.write("chat_template.jinja", CHATML + "\n")  # Jinja drops the last line feed: no difference
    found = toy.load()
    assert found.template is not None
    assert found.template.file == "chat_template.jinja"
    assert found.why == "chat_template.jinja serves: template files win over the one in tokenizer_config.json"
    assert len(found.templates) == 2
    assert facts(found) == []


def test_additional_templates_hide_the_configuration(toy: Toy) -> None:
    toy.write("additional_chat_templates/rag.jinja", "rag")
    found = toy.load()
    assert list(found.served) == ["rag"]
    assert found.template == found.template_for(tools=True) == found.served["rag"]
    assert found.tokenizer is not None
    assert found.tokenizer.chat_template == "rag"
    assert [fact.rule for fact in facts(found)] == ["NO_DEFAULT_TEMPLATE"]


def test_conversations_with_tools_have_their_own(toy: Toy) -> None:
    toy.write("chat_template.jinja", "plain")
    toy.write("additional_chat_templates/tool_use.jinja", "tools")
    found = toy.load()
    assert [found.template_for(tools).source for tools in (False, True)] == ["plain", "tools"]  # type: ignore[union-attr]


def test_a_template_that_does_not_parse_is_kept(toy: Toy) -> None:
    toy.change(CONFIG, chat_template="{% if %}")
    found = toy.load()
    assert found.template is not None
    assert found.template.source == "{% if %}"
    assert found.tokenizer is not None
    assert (found.tokenizer.chat_template, found.tokenizer.eos_token, found.tokenizer.pad_token) == (
        None, "<|im_end|>", "<|pad|>"
    )  # fmt: skip
    assert found.tokenizer.notes == ()


# ---------------------------------------------------------------- roles and ids


def test_the_map_wins_only_without_declared_tokens(toy: Toy) -> None:
    toy.write("special_tokens_map.json", {"eos_token": {"content": "<|endoftext|>"}})
    assert toy.load().roles["eos"].token == "<|endoftext|>"
    toy.change(CONFIG, added_tokens_decoder=declared(IM_END))
    assert toy.load().roles["eos"].token == "<|im_end|>"


def test_padding_settings_name_a_pad_token(toy: Toy) -> None:
    toy.change("tokenizer.json", padding=PADDING)
    toy.change(CONFIG, pad_token=None)  # a null is a word, too
    assert "pad" not in toy.load().roles
    toy.write(CONFIG, {key: value for key, value in toy.read(CONFIG).items() if key != "pad_token"})
    pad = toy.load().roles["pad"]
    assert (pad.token, pad.id, pad.file) == ("<|pad|>", PAD, "tokenizer.json")


def test_a_models_own_tokens_have_names(toy: Toy) -> None:
    toy.change(CONFIG, extra_special_tokens={"image_token": "<|im_start|>"}, audio_token={"content": "<|pad|>"})
    assert toy.load().variables | {"eos_token": ""} == {
        "eos_token": "", "pad_token": "<|pad|>", "image_token": "<|im_start|>", "audio_token": "<|pad|>"
    }  # fmt: skip


def test_the_language_model_of_a_multimodal_one(toy: Toy) -> None:
    inner = {"vocab_size": 512, "max_position_embeddings": 128, "eos_token_id": [IM_END]}
    toy.write(
        "config.json", {"vocab_size": 7, "eos_token_id": None, "text_config": inner, "vision_config": {"vocab_size": 1}}
    )
    found = toy.load()
    assert (found.vocab_size, found.max_positions, found.stops["config.json"]) == (512, 128, (IM_END,))


def test_a_chain_of_post_processors(toy: Toy) -> None:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    chain = {"type": "Sequence", "processors": [byte_level, post_processor(["<|endoftext|>", "A"])]}
    toy.change("tokenizer.json", post_processor=chain)
    assert toy.load().before == (Named(END, "<|endoftext|>"),)


def test_a_stop_that_is_no_token_stops_nothing(toy: Toy) -> None:
    toy.change(GENERATION, eos_token_id=[IM_END, 400, -1])
    assert ModelFolder.load(toy.place).stop_ids == (IM_END,)


# ---------------------------------------------------------------- weights


def test_rows_by_an_index(toy: Toy) -> None:
    names = {"model.embed_tokens.weight": "a.safetensors", "lm_head.weight": "b.safetensors"}
    toy.write("model.safetensors.index.json", {"weight_map": names})
    toy.weights({"model.embed_tokens.weight": embedding(512)}, "a.safetensors")
    found = toy.load()
    assert [(row.tensor, row.file, row.rows) for row in found.embeddings] == [
        ("model.embed_tokens.weight", "a.safetensors", 512)
    ]
    assert facts(found) == []
    (toy.place / "a.safetensors").unlink()
    assert [fact.rule for fact in toy.facts()] == ["WEIGHTS_NOT_READ"]


def test_an_index_does_not_lead_outside(toy: Toy, tmp_path: Path) -> None:
    toy.weights({"model.embed_tokens.weight": embedding(3)}, "../outside.safetensors")
    toy.write("model.safetensors.index.json", {"weight_map": {"model.embed_tokens.weight": "../outside.safetensors"}})
    assert toy.load().embeddings == ()


def test_packed_weights_have_other_rows(toy: Toy) -> None:
    toy.weights({"model.embed_tokens.weight": embedding(64, "U8")})
    assert toy.load().rows is None


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 16, b"\xff\xff\xff\xff\0\0\0\0{}", b"\2" + b"\0" * 7 + b"[]", b"\2" + b"\0" * 7 + b"{x"]
)
def test_a_damaged_header_is_a_note(toy: Toy, content: bytes) -> None:
    (toy.place / "model.safetensors").write_bytes(content)
    assert [fact.rule for fact in toy.facts(IM_END)] == ["FILE_UNREADABLE"]


def test_a_large_file_is_never_read_whole(toy: Toy) -> None:
    size = 200 * 2**20
    toy.weights({"model.embed_tokens.weight": embedding(512)}, size=size)
    for file in ("config.json", "chat_template.jinja", "special_tokens_map.json"):
        with (toy.place / file).open("ab") as stream:
            stream.truncate(size)
    tracemalloc.start()
    found = toy.load()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**24
    assert found.rows == 512
    assert [note.file for note in found.unread] == ["special_tokens_map.json", "config.json", "chat_template.jinja"]
    assert "209,715,200 bytes" in found.unread[0].cause
    assert found.roles["eos"].id == IM_END
    assert found.tokenizer is not None
    assert found.tokenizer.eos_token == "<|im_end|>"


# ---------------------------------------------------------------- damaged files


DAMAGED = ["{", "[]", "nul", '{"a": "\\ud800"}', "[" * 100_000, "1" * 5000, "﻿{}", "\0"]


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
@pytest.mark.parametrize("file", [*CLEAN, "special_tokens_map.json", "added_tokens.json", "chat_template.json"])
def test_a_damaged_file_is_one_note(toy: Toy, file: str, text: str) -> None:
    toy.write(file, text)
    found = toy.load()
    assert [note.file for note in found.unread] == [file]
    assert "\n" not in found.unread[0].cause
    assert {fact.values["file"] for fact in facts(found) if fact.rule == "FILE_UNREADABLE"} == {file}


def test_a_file_that_is_no_text(toy: Toy) -> None:
    (toy.place / "chat_template.jinja").write_bytes(b"a\xffb")
    assert [fact.rule for fact in toy.facts()] == ["FILE_UNREADABLE"]


def test_a_link_to_nothing_is_a_note(toy: Toy) -> None:
    (toy.place / "added_tokens.json").symlink_to("nowhere")
    assert toy.fact("FILE_UNREADABLE").detail == "added_tokens.json cannot be read: it is a link to nothing"


@pytest.mark.parametrize("text", ["", "{", "{}", '{"model": {"type": "BPE"}, "added_tokens": []}'])
def test_a_damaged_tokenizer_is_an_error(toy: Toy, text: str) -> None:
    toy.write("tokenizer.json", text)
    with pytest.raises(BadInput) as error:
        toy.load()
    assert "\n" not in str(error.value)


def test_no_tokenizer_is_an_error(toy: Toy, tmp_path: Path) -> None:
    (toy.place / "tokenizer.json").unlink()
    with pytest.raises(BadInput, match=r"holds no tokenizer\.json"):
        toy.load()
    with pytest.raises(BadInput, match="nothing at"):
        load(tmp_path / "nowhere")


def test_a_tokenizer_of_200_mb_is_refused(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGE", 1000)
    with pytest.raises(BadInput, match="may have 1,000"):
        toy.load()


# ---------------------------------------------------------------- single files


def test_a_single_tokenizer_says_nothing_of_roles(toy: Toy) -> None:
    found = load(toy.place / "tokenizer.json")
    assert (found.roles, found.templates, found.whole, facts(found, [IM_END])) == ({}, (), False, [])


def test_a_single_configuration_is_read_with_its_tokenizer(toy: Toy) -> None:
    toy.write("chat_template.jinja", "other")
    found = load(toy.place / CONFIG)
    assert found.template is not None
    assert (found.template.source, found.roles["eos"].id, found.generation_stops is not None) == (CHATML, IM_END, True)
    assert found.why == "tokenizer_config.json serves, because it was given"
    assert facts(found) == []


def test_a_lone_configuration_knows_the_ids_it_declares(toy: Toy, tmp_path: Path) -> None:
    toy.change(CONFIG, added_tokens_decoder=declared(IM_END))
    lone = tmp_path / CONFIG
    lone.write_text((toy.place / CONFIG).read_text("utf-8"), "utf-8")
    found = load(lone)
    assert found.tokenizer is None
    assert (found.roles["eos"].id, found.roles["pad"].id, found.spell(IM_END)) == (IM_END, None, "<|im_end|>")
    assert found.template is not None
    assert facts(found) == []


def test_a_single_template(toy: Toy, tmp_path: Path) -> None:
    lone = tmp_path / "mine.jinja"
    lone.write_text("{{ messages }}", "utf-8")
    found = load(lone)
    assert (found.tokenizer, found.name, found.template and found.template.source) == (None, "mine", "{{ messages }}")
    assert facts(found) == []


@pytest.mark.parametrize("file", ["mine.jinja", "additional_chat_templates/mine.jinja"])
def test_a_template_of_a_folder_serves_with_its_tokenizer(toy: Toy, file: str) -> None:
    toy.write(file, "{{ eos_token }}")
    found = load(toy.place / file)
    assert found.tokenizer is not None
    assert (found.tokenizer.chat_template, found.template and found.template.file) == ("{{ eos_token }}", file)
    assert facts(found) == []


@pytest.mark.parametrize("text", ["{", "{}", '{"a": 1}'])
def test_a_single_file_of_another_kind(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(BadInput, match="chat/folder"):
        load(tmp_path / "x.json")
