"""A template a reader can hold in the head, a tokenizer that has its markers, and records of every form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from prep_lib.special import IM_END, IM_START
from prep_lib.tokens.tokenizer import AutoTokenizer
from widgets.workbench.state import State, start

CHATML = (
    "{% for m in messages %}" + IM_START + "{{ m.role }}\n{{ m.content }}" + IM_END + "\n{% endfor %}"
    "{% if add_generation_prompt %}" + IM_START + "assistant\n{% endif %}"
)
#: The same, without the stop token of an answer (and the line feed behind a block, which Jinja takes away).
ENDLESS = CHATML.replace(IM_END, "{% if m.role != 'assistant' %}" + IM_END + "{% endif %}")
LOOPS = "{% for a in range(1000) %}{% for b in range(2000) %}x{% endfor %}{% endfor %}"

TALK = {"messages": [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "yo", "train": False},
    {"role": "user", "content": "and now?"},
    {"role": "assistant", "content": "so it is"},
]}  # fmt: skip
PAIR = {"query": "hi", "response": "yo"}
PREFER = {"prompt": "hi", "chosen": "so it is", "rejected": "so it was"}
RATED = {"prompt": "hi", "completion": "yo", "label": False}
TEXT = {"text": "a page"}
RECORDS = [TALK, PAIR, PREFER, RATED, TEXT]


@pytest.fixture(scope="session")
def known() -> AutoTokenizer:
    words = ["hi yo and now so it is was a page user assistant system files"] * 3
    return AutoTokenizer().train(words, vocab_size=300)


@pytest.fixture
def make(known: AutoTokenizer) -> Callable[..., State]:
    """Make a state: ``make(records, way=…)``."""

    def made(records: Any = RECORDS, **given: Any) -> State:
        templates = {"mine": CHATML, "endless": ENDLESS}
        return start(known, records, templates=templates, strategies=["chatml", "alpaca"], **given)

    return made
