"""Rules over one rendering: what of a message is in the text, how conversations are changed, where tokens are."""

from __future__ import annotations

from typing import Any

import pytest

from prep_lib.chat.mask import Policy
from prep_lib.chat.probes import stand_in
from prep_lib.chat.rules import (
    CHANGES,
    RULES,
    Case,
    as_mappings,
    as_text,
    cheap,
    folded,
    inlined,
    merged,
    show,
    with_roles,
    without_tools,
)
from prep_lib.chat.symptoms import SEVERITIES
from prep_lib.chat.template import ChatTemplate
from prep_lib.record import Conversation, Message
from prep_lib.tokens.tokenizer import AutoTokenizer

PLAIN = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<|end|>{% endfor %}"


def talk(*said: tuple[str, str], **more: Any) -> Conversation:
    return Conversation("", tuple(Message(role, content) for role, content in said), **more)


def case(source: str, conversation: Conversation, tokenizer: AutoTokenizer | None = None) -> Case:
    return Case(0, ChatTemplate(source, tokenizer or stand_in(source)), conversation, Policy())


def met(source: str, conversation: Conversation) -> set[str]:
    return {hit.rule for hit in cheap(case(source, conversation))}


THOUGHT = talk(
    ("user", "q"), ("assistant", "<think>\nr\n</think>\n\na"), ("user", "q"), ("assistant", "<think>t</think>b")
)


def test_a_thought_that_is_written_anew_is_not_lost() -> None:
    source = PLAIN.replace(
        "{{ m.content }}",
        "{% if '</think>' in m.content %}{% set r = m.content.split('</think>')[0].split('<think>')[-1].strip() %}"
        "{{ '<think>' + r + '</think>' + m.content.split('</think>')[-1].lstrip() }}"
        "{% else %}{{ m.content }}{% endif %}",
    )
    assert met(source, THOUGHT) == set()


def test_a_thought_lost_in_the_history_and_one_lost_everywhere_are_told_apart() -> None:
    late = PLAIN.replace(
        "{{ m.content }}", "{{ m.content if loop.last else m.content.split('</think>')[-1].lstrip() }}"
    )
    never = PLAIN.replace("{{ m.content }}", "{{ m.content.split('</think>')[-1].lstrip() }}")
    assert met(late, THOUGHT) == {"REASONING_DROPPED_FROM_HISTORY"}
    assert met(never, THOUGHT) == {"REASONING_DROPPED"}


def test_an_answer_cut_behind_its_thought_is_cut_not_thoughtless() -> None:
    source = PLAIN.replace("{{ m.content }}", "{{ m.content[:12] }}")
    assert "CONTENT_CUT" in met(source, talk(("user", "q"), ("assistant", "<think>r</think>a long answer")))


def test_rewritten_content_is_not_judged() -> None:
    assert met(PLAIN.replace("m.content", "m.content | tojson"), talk(("user", ' "q" '), ("assistant", "a\n"))) == set()


def test_inner_blanks_are_no_trim() -> None:
    source = PLAIN.replace("m.content", "m.content.replace('  ', ' ')")
    assert "CONTENT_TRIMMED" not in met(source, talk(("user", "a  b"), ("assistant", "c")))


def test_arguments_left_out_are_told() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": {"n": 1}}}
    said = Conversation("", (Message("user", "q"), Message("assistant", "", tool_calls=(call, call))))
    source = PLAIN.replace(
        "{% endfor %}", "{% if m.tool_calls %}{{ m.tool_calls[0].function.name }}{% endif %}{% endfor %}"
    )
    (hit,) = [hit for hit in cheap(case(source, said)) if hit.rule == "TOOL_CALLS_DROPPED"]
    assert "arguments of call 0, name of call 1, arguments of call 1" in hit.detail


def test_a_text_lost_beside_its_calls_is_no_lost_message() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    said = Conversation("", (Message("user", "q"), Message("assistant", "let me see", tool_calls=(call,))))
    source = PLAIN.replace(
        "{{ m.content }}",
        "{% if m.tool_calls %}{{ m.tool_calls[0].function.name + m.tool_calls[0].function.arguments }}"
        "{% else %}{{ m.content }}{% endif %}",
    )
    assert met(source, said) == {"CONTENT_CUT"}


# ---------------------------------------------------------------- changed conversations


def test_roles_are_mapped_and_none_means_nothing_to_do() -> None:
    changed = with_roles(talk(("human", "q"), ("gpt", "a")))
    assert changed is not None
    assert [one.role for one in changed.messages] == ["user", "assistant"]
    assert with_roles(talk(("user", "q"))) is None


def test_system_texts_are_put_before_the_next_question() -> None:
    changed = folded(talk(("system", "s"), ("user", "q"), ("assistant", "a"), ("system", "t"), ("user", "r")))
    assert changed is not None
    assert [one.content for one in changed.messages] == ["s\n\nq", "a", "t\n\nr"]
    assert folded(talk(("user", "q"), ("system", "s"))) is None  # nobody asks behind it


def test_neighbours_are_joined() -> None:
    changed = merged(talk(("user", "q"), ("user", "r"), ("assistant", "a")))
    assert changed is not None
    assert [one.content for one in changed.messages] == ["q\n\nr", "a"]
    assert merged(talk(("user", "q"))) is None


def test_arguments_change_their_form_and_back() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": {"n": "é"}}}
    said = Conversation("", (Message("assistant", "", tool_calls=(call,)),))
    text = as_text(said)
    assert text is not None
    assert text.messages[0].tool_calls[0]["function"]["arguments"] == '{"n": "é"}'
    assert as_mappings(text) == said
    assert as_mappings(said) is None
    assert without_tools(said) == Conversation("", ())


def test_thoughts_are_written_into_the_content() -> None:
    changed = inlined(Conversation("", (Message("assistant", "a", "r"),)))
    assert changed is not None
    assert changed.messages[0] == Message("assistant", "<think>\nr\n</think>\n\na")
    assert inlined(talk(("user", "q"))) is None


# ---------------------------------------------------------------- the case itself


@pytest.fixture(scope="module")
def tokenizer() -> AutoTokenizer:
    return AutoTokenizer().train(["a"], vocab_size=270, special_tokens=["<user>", "<assistant>", "<end>"])


def test_positions_hold_the_characters_and_an_empty_span_is_the_token_before(tokenizer: AutoTokenizer) -> None:
    one = case(PLAIN, talk(("user", "é"), ("assistant", "ab")), tokenizer)
    assert one.rendered is not None
    text = one.rendered.text
    assert one.positions([(0, 6)]) == [0]
    assert one.positions([(6, 7)]) == [1, 2]  # two bytes of one letter
    assert one.positions([(len(text), len(text))]) == [len(one.encoded.ids) - 1]
    assert one.size == len(one.encoded.ids)


def test_a_template_that_raises_leaves_a_reason_and_no_text() -> None:
    one = case("{{ raise_exception('no') }}", talk(("user", "q")))
    assert one.rendered is None
    assert one.laid is None
    assert one.size == 0
    assert not one.limited
    assert "no" in one.problem[1]
    assert case("{% for a in range(9999999) %}{% endfor %}", talk(("user", "q"))).limited


def test_a_long_text_is_quoted_short() -> None:
    assert show("a" * 100) == repr("a" * 39 + "…")


def test_every_severity_is_known_and_every_change_has_its_rule() -> None:
    assert {severity for pair in RULES.values() for severity in pair} <= set(SEVERITIES)
    assert set(CHANGES) <= set(RULES)
