"""A clean model folder with the tokenizer of a toy, and the changes a test makes to it."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

from prep_lib.chat.facts import Fact, facts
from prep_lib.chat.folder import ModelFolder, load
from prep_lib.tokens.tokenizer import AutoTokenizer

CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]
TEXTS = ["the data is here, and the other words count the data that is there", "你好，世界"] * 2
END, START, IM_END, PAD = range(4)
#: Ids of the toy tokenizer.
SIZE = 280
CONFIG, GENERATION = "tokenizer_config.json", "generation_config.json"
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
PADDING = {
    "strategy": {"Fixed": 512}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": PAD, "pad_type_id": 0,
    "pad_token": "<|pad|>",
}  # fmt: skip


@functools.cache
def spec() -> str:
    """The ``tokenizer.json``, trained once."""
    tokenizer = AutoTokenizer().train(TEXTS, vocab_size=SIZE, special_tokens=SPECIALS)
    with tempfile.TemporaryDirectory() as place:
        return (tokenizer.save(place) / "tokenizer.json").read_text("utf-8")


class Toy:
    """A clean model folder and the changes a test makes."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        (place / "tokenizer.json").write_text(spec(), "utf-8")
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


def embedding(rows: int, dtype: str = "BF16") -> dict[str, Any]:
    return {"dtype": dtype, "shape": [rows, 8], "data_offsets": [0, rows * 16]}


def post_processor(single: list[str]) -> dict[str, Any]:
    pieces = [
        {"Sequence": {"id": "A", "type_id": 0}} if n == "A" else {"SpecialToken": {"id": n, "type_id": 0}}
        for n in single
    ]
    specials = {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [END], "tokens": ["<|endoftext|>"]}}
    pair = [*pieces, {"Sequence": {"id": "B", "type_id": 1}}]
    return {"type": "TemplateProcessing", "single": pieces, "pair": pair, "special_tokens": specials}


def declared(id: int, **flags: Any) -> dict[str, Any]:
    """The end token as ``added_tokens_decoder`` declares it."""
    token = {"content": "<|im_end|>", "special": True, "normalized": False, "lstrip": False, "rstrip": False}
    return {str(id): token | {"single_word": False} | flags}
