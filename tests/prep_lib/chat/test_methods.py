"""Ways beside each other on templates where some of them err, and the tokens on which they differ."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from conftest import shared

from prep_lib.chat.conversation import read
from prep_lib.chat.mask import Policy, explain
from prep_lib.chat.methods import METHODS, Found, disagreements, side_by_side
from prep_lib.chat.template import ChatTemplate
from prep_lib.errors import BadRecord
from prep_lib.record import Conversation, Message
from prep_lib.tokens.tokenizer import AutoTokenizer

GOLDEN = Path(__file__).parents[2] / "golden" / "chat_transformers.json.gz"

TAGGED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|im_end|>\n{% endgeneration %}"
    "{% else %}{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CHATML = TAGGED.replace("{% generation %}", "").replace("{% endgeneration %}", "")
SPECIALS = ["<|im_start|>", "<|im_end|>", "<think>", "</think>"]


@cache
def tokenizer() -> AutoTokenizer:
    made = AutoTokenizer().train(["Hello: the data assistant user\n"] * 9, 300, special_tokens=SPECIALS)
    made.eos_token = "<|im_end|>"
    return made


def talk(*said: str) -> Conversation:
    """User and assistant in turn."""
    return Conversation("x", tuple(Message(("user", "assistant")[at % 2], text) for at, text in enumerate(said)))


def texts(source: str, conversation: Conversation, policy: Policy | None = None) -> dict[str, str]:
    """What each way trains, as text; or why it cannot tell."""
    template = ChatTemplate(source, tokenizer())
    told = explain(template, conversation, policy or Policy())
    found = side_by_side(template, conversation, policy, told)
    return {
        name: one.problem if one.mask is None else tokenizer().decode(told.encoded.ids[one.mask])
        for name, one in found.items()
    }


def test_names_and_their_order() -> None:
    assert METHODS == ("rule", "generation_tags", "prefix_offsets", "sentinels", "assembled")
    assert tuple(side_by_side(ChatTemplate(CHATML, tokenizer()), talk("a", "b"))) == METHODS


def test_all_ways_on_a_template_that_marks_a_line_feed_too_much() -> None:
    found = texts(TAGGED, talk("Hi", "Hello"))
    assert found.pop("generation_tags") == "Hello<|im_end|>\n"
    assert found.pop("prefix_offsets") == "Hello<|im_end|>\n"
    assert set(found.values()) == {"Hello<|im_end|>"}
    template = ChatTemplate(TAGGED, tokenizer())
    told = explain(template, talk("Hi", "Hello"), Policy())
    ways = side_by_side(template, talk("Hi", "Hello"))
    assert disagreements(ways) == (len(told.encoded.ids) - 1,)


def test_history_that_is_rewritten() -> None:
    """Prefixes refuse; sentinels travel with what is left, unless that is cut off with them."""
    source = CHATML.replace(
        "{% else %}{{ m.content }}", "{% else %}{{ m.content if loop.last else m.content | replace('a', 'b') }}"
    )
    found = texts(source, talk("a", "x", "a", "y"))
    assert found["prefix_offsets"] == "messages[:1] rendered alone is not how the whole begins"
    assert found["sentinels"] == found["rule"] == "x<|im_end|>y<|im_end|>"
    cut = CHATML.replace("{{ m.content }}", "{{ m.content.split('</think>')[-1] }}")
    found = texts(cut, talk("a", "<think>t</think>x"))
    assert found["sentinels"] == "the template loses a sentinel, or moves it"
    assert found["rule"] == found["assembled"] == "x<|im_end|>"


def test_what_stops_sentinels() -> None:
    assert texts(CHATML, talk("a", "\ue0f0\ue0f1"))["sentinels"] == "a message holds a sentinel already"
    assert texts(CHATML, talk("a", " "))["sentinels"] == "messages[1] has no content to put sentinels around"
    changed = CHATML.replace("{{ m.content }}", "{{ m.content }}{{ m.content | length }}")
    assert texts(changed, talk("a", "b"))["sentinels"] == "sentinels change what the template writes"
    trimmed = CHATML.replace("m.content", "m.content | trim")
    assert texts(trimmed, talk("a", "  b\n"))["sentinels"] == "b<|im_end|>"


def test_apart_and_together() -> None:
    """The blank at the end of a prompt part merges with the answer's first word when both are encoded at once."""
    source = "{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}"
    found = texts(source, talk("Hi", "the data"))
    assert found["assembled"] == "token 11 is ' ' apart and ' the' together"
    assert found["rule"].startswith("border_inside_token")
    assert texts(CHATML, talk("Hi", "the data"))["assembled"] == "the data<|im_end|>"


def test_a_way_that_needs_what_the_template_refuses() -> None:
    source = "{% if add_generation_prompt %}{{ raise_exception('no') }}{% endif %}" + CHATML
    found = texts(source, talk("a", "b"))
    assert found["prefix_offsets"].startswith("the template fails on a part of the conversation: jinja")
    assert found["sentinels"] == "b<|im_end|>"


def test_policies_choose_messages_and_tags_know_none() -> None:
    found = texts(TAGGED, talk("a", "b", "c", "d"), Policy(answers="last"))
    assert found["generation_tags"] == "b<|im_end|>\nd<|im_end|>\n"
    assert {found[name] for name in ("rule", "sentinels", "assembled")} == {"d<|im_end|>"}


def test_an_answer_that_is_not_in_the_text() -> None:
    source = CHATML.replace("messages %}", "messages if m.role == 'user' %}")
    found = texts(source, talk("a", "b"))
    assert found["assembled"] == "messages[1] is not in the text"
    assert found["sentinels"] == "the template loses a sentinel, or moves it"
    assert found["rule"].startswith("message_not_rendered: messages[1]")


def test_disagreements_of_one_or_no_mask() -> None:
    mask = Found(np.array([True]))
    assert disagreements({"rule": mask}) == disagreements({"rule": mask, "sentinels": Found(None, "x")}) == ()


def test_generation_tags_equal_those_of_transformers() -> None:
    """Where content spells control tokens, ids differ on purpose; those shapes are left out."""
    golden = json.loads(gzip.decompress(GOLDEN.read_bytes()))
    compared = 0
    for name, told in golden["templates"].items():
        if not told["generation"]:
            continue
        for key, spec in golden["tokenizers"].items():
            model = AutoTokenizer.load(shared(f"tokenizers/{spec['file']}"))
            model.bos_token, model.eos_token, model.pad_token = (
                spec["special_tokens"].get(f"{role}_token") for role in ("bos", "eos", "pad")
            )
            source = shared(f"chat_templates/{name}.jinja").read_text("utf-8")
            for shape in ("single_turn", "multi_turn", "system", "cjk", "emoji", "trailing_blanks", "reasoning_field"):
                case, want = golden["shapes"][shape], golden["results"][name][shape][key]
                if "error" in want:
                    continue
                conversation = read({"messages": case["messages"]}, id=shape)
                assert isinstance(conversation, Conversation)
                try:
                    found = side_by_side(ChatTemplate(source, model), conversation)["generation_tags"]
                except BadRecord:
                    continue
                assert found.mask is not None
                assert "".join(map(str, found.mask.astype(int))) == want["assistant_mask"], (name, shape, key)
                compared += 1
    assert compared > 40


@pytest.mark.parametrize("name", ["qwen2_5_training", "deepseekv3_training", "gptoss_training"])
def test_shipped_training_templates_that_mark_part_of_the_header(name: str) -> None:
    """Three real catches of the comparison: role or channel header is marked although the prompt supplies it."""
    source = shared(f"chat_templates/{name}.jinja").read_text("utf-8")
    specials = [
        "<|im_start|>", "<|im_end|>", "<｜Assistant｜>", "<｜User｜>", "<｜begin▁of▁sentence｜>",
        "<｜end▁of▁sentence｜>",
        "<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|return|>",
    ]  # fmt: skip
    model = AutoTokenizer().train(["Hello assistant\n"], 300, special_tokens=specials)
    model.eos_token = {"q": "<|im_end|>", "d": "<｜end▁of▁sentence｜>", "g": "<|return|>"}[name[0]]
    template = ChatTemplate(source, model)
    found = side_by_side(template, talk("Hi", "Hello"))
    rule, tags = found["rule"].mask, found["generation_tags"].mask
    assert rule is not None
    assert tags is not None
    assert tags.argmax() < rule.argmax()
