"""Generation tags: placed in every published template, proven; and not claimed where nothing was proven."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import shared

from prep_lib.chat.generation_tags import (
    edited_as,
    has_tags,
    place_tags,
    proven_cases,
    renders_same,
    tag_mask,
    unflagged,
)
from prep_lib.chat.mask import Policy
from prep_lib.chat.probes import PROBES, stand_in
from prep_lib.chat.rules import Case
from prep_lib.chat.source_map import segments
from prep_lib.chat.template import ChatTemplate
from prep_lib.record import Conversation, Message

SIMPLE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def cases(template: ChatTemplate) -> list[Case]:
    return [Case(-1, template, probe, Policy()) for probe in PROBES]


def chat(source: str) -> ChatTemplate:
    return ChatTemplate(source, stand_in(source))


def test_the_tags_are_placed_and_every_text_stays() -> None:
    template = chat(SIMPLE)
    repair = place_tags(template, cases(template))
    assert repair is not None
    assert repair.template == SIMPLE.replace(
        " + m.content + '<|im_end|>\\n' }}",
        " }}{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}"
        "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}",
    ).replace("'\\n' }}{% if m", '"\\n" }}{% if m').replace('"\\n"', "'\\n'")
    assert repair.what == "place generation tags"
    assert len(repair.proofs) == 2


def test_real_templates_all_get_proven_tags() -> None:
    """The proof is repeated here by other means: the text of each probe, and the tokens inside the tags."""
    names = [one["file"] for one in json.loads(shared("chat_templates/index.json").read_text("utf-8"))["templates"]]
    for name in names:
        template = chat(shared(f"chat_templates/{name}").read_text("utf-8"))
        repair = place_tags(template, cases(template))
        assert repair is not None, name
        assert repair.template is not None, name
        edited = edited_as(template, repair.template)
        for case in proven_cases(template, cases(template)):
            talk = case.conversation
            assert edited.text(talk.messages, talk.tools or None) == template.text(talk.messages, talk.tools or None)
            tagged = tag_mask(edited.encode(edited.render(talk.messages, talk.tools or None)))
            silent = any(one.role == "assistant" and not one.content and not one.tool_calls for one in talk.messages)
            assert silent or tagged.tolist() == case.mask.tolist(), (name, talk.id)  # type: ignore[union-attr]


def test_comments_and_untouched_lines_stay_as_they_are() -> None:
    source = shared("chat_templates/qwen2_5_training.jinja").read_text("utf-8")
    template = chat(source)
    repair = place_tags(template, cases(template))
    assert repair is not None
    assert repair.what == "move the generation tags"
    assert repair.template is not None
    assert [one.body for one in segments(repair.template) if one.kind == "comment"] == [
        one.body for one in segments(source) if one.kind == "comment"
    ]
    kept = set(source.splitlines()) & set(repair.template.splitlines())
    assert len(kept) > 40


@pytest.mark.parametrize(
    "source",
    [
        "{% raw %}{{ a }}{% endraw %}" + SIMPLE,
        "{% macro turn(m) %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endmacro %}"
        "{% for m in messages %}{{ turn(m) }}{% endfor %}",
        SIMPLE.replace("'<|im_start|>' +", "(").replace(" }}{% endfor", ") }}{% endfor"),
    ],
    ids=["raw", "macro", "brackets"],
)  # fmt: skip
def test_what_cannot_be_edited_is_not_claimed(source: str) -> None:
    template = chat(source)
    assert place_tags(template, cases(template)) is None


def test_nothing_is_proven_by_nothing() -> None:
    assert place_tags(chat(SIMPLE), []) is None


def test_rendering_the_same_means_every_text_and_every_failure() -> None:
    template = chat(SIMPLE)
    talk = [Case(-1, template, Conversation("", (Message("user", "q"),)), Policy())]
    assert renders_same(SIMPLE, talk)
    assert not renders_same(SIMPLE + "x", talk)
    assert not renders_same(SIMPLE.replace("assistant\\n", "assistant"), talk)  # the prompt only
    assert not renders_same("{{", talk)
    failing = chat("{{ raise_exception('no') }}")
    assert renders_same("{{ raise_exception('never') }}", [Case(-1, failing, talk[0].conversation, Policy())])


def test_tags_that_are_right_stay_where_they_are() -> None:
    template = chat(SIMPLE)
    repair = place_tags(template, cases(template))
    assert repair is not None
    assert repair.template is not None
    again = edited_as(template, repair.template)
    assert has_tags(again)
    twice = place_tags(again, cases(again))
    assert twice is not None
    assert twice.template == repair.template


def test_tags_give_the_tokens_inside_them() -> None:
    template = chat("{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}<end>{% endfor %}")
    encoded = template.encode(template.render([{"role": "user", "content": "éa"}]))
    assert tag_mask(encoded).tolist() == [True, True, True, False]


def test_a_tag_in_a_comment_is_none() -> None:
    assert not has_tags(ChatTemplate("{# {% generation %} #}{{ 1 }}"))
    assert has_tags(ChatTemplate("{%- generation -%}a{%- endgeneration -%}"))


def test_flags_of_messages_do_not_matter_to_tags() -> None:
    talk = Conversation("", (Message("assistant", "a", train=False, weight=0),))
    assert unflagged(talk).messages == (Message("assistant", "a"),)


def test_a_mask_has_one_place_a_token() -> None:
    template = chat(SIMPLE)
    encoded = template.encode(template.render(PROBES[0].messages))
    assert tag_mask(encoded).shape == encoded.ids.shape
    assert not np.any(tag_mask(encoded))
