"""For the widgets: a tokenizer a reader can hold in the head, and text that wants to break out of a page."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from prep_lib.special import CONTROL_TOKENS

_SPECIAL = re.compile("|".join(map(re.escape, CONTROL_TOKENS)))


class ToyTokenizer:
    """Ids 0 to 4 are the control tokens in the order of `special.py`, id 5 + b is the byte b."""

    max_id = 260
    size = 261
    eos_token_id = 1
    bos_token_id = 0
    control_ids = frozenset(range(5))

    def encode(self, text: str, parse_special: bool = False) -> list[int]:
        if not parse_special:
            return [5 + byte for byte in text.encode()]
        ids: list[int] = []
        for part in re.split(f"({_SPECIAL.pattern})", text):
            ids += [CONTROL_TOKENS.index(part)] if part in CONTROL_TOKENS else self.encode(part)
        return ids

    def encode_many(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        parts = [self.encode(text) for text in texts]
        offsets = np.cumsum([0, *map(len, parts)])
        return np.array([token for part in parts for token in part], np.int32), offsets

    def token_bytes(self, token: int) -> bytes:
        return CONTROL_TOKENS[token].encode() if token < 5 else bytes([token - 5])

    def token(self, token: int) -> str:
        return CONTROL_TOKENS[token] if token < 5 else chr(token - 5)

    def id(self, token: str) -> int | None:
        return CONTROL_TOKENS.index(token) if token in CONTROL_TOKENS else None

    def literal_specials(self, text: str) -> list[str]:
        return _SPECIAL.findall(text)

    def describe(self) -> dict[str, object]:
        return {"name": "toy", "size": self.size, "max_id": self.max_id, "sha256": "toy"}


@pytest.fixture
def tokenizer() -> ToyTokenizer:
    return ToyTokenizer()


@pytest.fixture
def nasty() -> str:
    return '</script><script>alert(1)</script><img src=x onerror="alert(1)">\u202e\x00\x07\u2028"\' &amp; <b>'
