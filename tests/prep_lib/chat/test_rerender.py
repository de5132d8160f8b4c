"""Rules that render again: prefixes, dates, doubled tokens, markers."""

from __future__ import annotations

import pytest

from prep_lib.chat.mask import Policy
from prep_lib.chat.probes import PLAIN, stand_in
from prep_lib.chat.rerender import markers, thorough
from prep_lib.chat.rules import Case, Hit, cheap
from prep_lib.chat.template import ChatTemplate
from prep_lib.record import Conversation, Message
from prep_lib.tokens.tokenizer import AutoTokenizer

CHAT = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture(scope="module")
def tokenizer() -> AutoTokenizer:
    return AutoTokenizer().train(["a"], vocab_size=280, special_tokens=["<user>", "<assistant>", "<end>", "<|x|>"])


def found(source: str, tokenizer: AutoTokenizer | None = None, talk: Conversation = PLAIN) -> dict[str, Hit]:
    case = Case(0, ChatTemplate(source, tokenizer or stand_in(source)), talk, Policy())
    return {hit.rule: hit for hit in thorough(case, list(cheap(case)))}


def test_a_plain_template_has_remarks_only(tokenizer: AutoTokenizer) -> None:
    assert set(found(CHAT, tokenizer)) == {"NO_GENERATION_TAGS"}


def test_where_a_prefix_differs_is_told(tokenizer: AutoTokenizer) -> None:
    hit = found(CHAT.replace("<end>{%", "{{ '<end>' * loop.revindex }}{%"), tokenizer)["NOT_PREFIX_PRESERVING"]
    (start, stop) = hit.spans[0]
    assert stop == start + 1
    assert str(start) in hit.detail


def test_a_date_in_a_default_text_is_not_a_default_text() -> None:
    assert "DEFAULT_SYSTEM_INJECTED" not in found("{{ strftime_now('%d %B %Y') }}" + CHAT)
    assert "DEFAULT_SYSTEM_INJECTED" in found("{{ 'Today: ' + strftime_now('%d %B %Y') }}" + CHAT)


def test_a_header_is_no_default_text() -> None:
    assert "DEFAULT_SYSTEM_INJECTED" not in found("{% for m in messages %}\n### Message:\n{{ m.content }}{% endfor %}")


def test_empty_answers_are_nobodys_difference(tokenizer: AutoTokenizer) -> None:
    tagged = CHAT.replace("{{ m.content }}<end>", "{% generation %}{{ m.content }}<end>{% endgeneration %}")
    tagged = tagged.replace(
        "{% for m in messages %}",
        "{% for m in messages %}{% if m.role == 'user' %}<user>{{ m.content }}<end>{% else %}",
    )
    tagged = tagged.replace("{% endfor %}", "{% endif %}{% endfor %}")
    talk = Conversation("", (*PLAIN.messages[:1], Message("assistant", ""), *PLAIN.messages[:2]))
    assert not set(found(tagged, tokenizer, talk)) & {"PROMPT_IN_TRAINED_SPAN", "TEXT_AFTER_EOT_TRAINED"}


def test_only_markers_of_the_template_are_looked_at(tokenizer: AutoTokenizer) -> None:
    talk = Conversation("", (Message("user", "<|data|>"),))
    case = Case(0, ChatTemplate("<|x|><|own|>{{ messages[0].content }}<|own|>", tokenizer), talk, Policy())
    assert [(marker, len(spans)) for marker, spans in markers(case)] == [("<|own|>", 2)]
