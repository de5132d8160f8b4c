"""The rule, drawn: ⟦ and ⟧ stand around what is trained, on toy templates and on real ones."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import shared
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.chat import mask
from prep_lib.chat.mask import WHY, Explained, Policy, Unproven, explain, lay
from prep_lib.chat.rendered import rows
from prep_lib.chat.row import Row
from prep_lib.chat.template import ChatTemplate
from prep_lib.errors import BadParameter, BadRecord
from prep_lib.record import Conversation, Drop, Message
from prep_lib.tokens.tokenizer import AutoTokenizer

ALL = Policy()

#: What a plain loop writes; templates below differ from it in one thing.
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TOOLS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}({{ c.function.arguments | tojson }})</call>"
    "{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<call>", "</call>", "<s>", "</s>")
CALL = {"type": "function", "function": {"name": "get", "arguments": {"city": "Bern"}}}


@cache
def tokenizer(*specials: str) -> AutoTokenizer:
    """Bytes and a few words; the last two merges make a border easy to hide."""
    words = ["the data the answer Hello Hello Hi user assistant\n\n  "] * 3
    made = AutoTokenizer().train(words, 256 + len(specials) + 40, special_tokens=list(specials))
    made.eos_token = next(token for token in ("<|im_end|>", "</s>", *specials) if token in specials)
    return made


def chat(source: str, *specials: str, **options: Any) -> ChatTemplate:
    return ChatTemplate(source, tokenizer(*(specials or SPECIALS)), **options)


def user(text: str, **more: Any) -> Message:
    return Message("user", text, **more)


def bot(text: str = "", **more: Any) -> Message:
    return Message("assistant", text, **more)


def talk(*messages: Message) -> Conversation:
    return Conversation("x", messages)


def drawn(template: ChatTemplate, *messages: Message, policy: Policy = ALL) -> str:
    """The text with what is trained in brackets, or why there is no mask."""
    told = explain(template, talk(*messages), policy)
    return told.problem[0] if told.problem else brackets(told)


def brackets(told: Explained) -> str:
    text, out, last = told.encoded.rendered.text, [], 0
    starts = np.append(told.encoded.starts, len(text))
    for at in np.flatnonzero(np.diff(np.concatenate([[0], told.mask.astype(int), [0]]))):
        out.append(text[last : starts[at]])
        last = starts[at]
    pieces = [*out, text[last:]]
    return "".join(piece + mark for piece, mark in zip(pieces, "⟦⟧" * len(pieces), strict=False))[
        : len(text) + len(pieces) - 1
    ]


QUESTION, ANSWER = user("Hi"), bot("Hello")
FINE = (QUESTION, ANSWER)
ASKED = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
WELCOME = "<|im_start|>assistant\n⟦Welcome<|im_end|>⟧\n"
DONE = ASKED + "⟦Hello<|im_end|>⟧\n"


# ------------------------------------------------------------ the rule


def test_trained_is_from_the_end_of_the_prompt_through_the_stop() -> None:
    assert drawn(chat(CHATML), QUESTION, ANSWER) == DONE
    assert drawn(chat(CHATML), QUESTION, ANSWER, QUESTION, bot("So.")) == DONE + ASKED + "⟦So.<|im_end|>⟧\n"


def test_the_right_masks_of_the_fixtures() -> None:
    special = {"tiny_bytelevel_chatml": ("", "<|endoftext|>"), "tiny_metaspace_inst": ("<s>", "</s>")}
    for case in json.loads(shared("doctor_fixtures/fixtures.json").read_text("utf-8")):
        model = AutoTokenizer.load(shared(f"tokenizers/{case['tokenizer']}.json"))
        bos, model.eos_token = special[case["tokenizer"]]
        model.bos_token = bos or None
        said = [Message(m["role"], m["content"], tool_calls=tuple(m.get("tool_calls", ()))) for m in case["messages"]]
        told = explain(ChatTemplate(case["template"], model), talk(*said), ALL)
        assert told.mask.astype(int).tolist() == case["right_mask"], case["id"]


@pytest.mark.parametrize(
    ("messages", "want"),
    [
        pytest.param((QUESTION, ANSWER, bot("Again")), DONE + "<|im_start|>assistant\n⟦Again<|im_end|>⟧\n", id="twice"),
        pytest.param((bot("Welcome"), QUESTION), WELCOME + "<|im_start|>user\nHi<|im_end|>\n", id="first"),
        pytest.param((QUESTION, bot("")), ASKED + "<|im_end|>\n", id="empty: silence is not taught"),
        pytest.param((QUESTION, bot("  \n")), ASKED + "⟦  \n<|im_end|>⟧\n", id="blanks kept"),
        pytest.param((QUESTION, bot("assistant\n")), ASKED + "⟦assistant\n<|im_end|>⟧\n", id="like the header"),
        pytest.param((user("Hello"), bot("Hello")), DONE.replace("Hi", "Hello"), id="like the question"),
        pytest.param((QUESTION, bot("a <|im_end|> b")), ASKED + "⟦a <|im_end|> b<|im_end|>⟧\n", id="spells the stop"),
    ],
)
def test_shapes_of_a_conversation(messages: tuple[Message, ...], want: str) -> None:
    assert drawn(chat(CHATML), *messages) == want


# ------------------------------------------------------------ templates that do it otherwise


MACRO = (
    "{% macro turn(m) %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endmacro %}"
    "{% for m in messages %}{{ turn(m) }}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NAMESPACE = (
    "{% set ns = namespace(text='') %}{% for m in messages %}"
    "{% set ns.text = ns.text + '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' %}{% endfor %}"
    "{{ ns.text }}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
RANGE = (
    "{% for i in range(messages | length) %}<|im_start|>{{ messages[i].role }}\n{{ messages[i].content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PAIRS = (
    "{% for i in range(0, messages | length, 2) %}<|im_start|>user\n{{ messages[i].content }}<|im_end|>\n"
    "{% if i + 1 < messages | length %}<|im_start|>assistant\n{{ messages[i + 1].content }}<|im_end|>\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
COUNTED = "{% for m in messages %}{{ loop.index if false }}{% endfor %}" + CHATML


@pytest.mark.parametrize("source", [MACRO, NAMESPACE, RANGE, PAIRS, COUNTED])
def test_with_and_without_a_loop_over_messages(source: str) -> None:
    assert drawn(chat(source), QUESTION, ANSWER, QUESTION, ANSWER) == DONE * 2
    first = DONE.replace("⟦", "").replace("⟧", "")
    assert drawn(chat(source), QUESTION, bot("Hello", train=False), QUESTION, ANSWER) == first + DONE


def test_a_header_no_generation_prompt_supplies_is_never_trained() -> None:
    plain = chat(CHATML.partition("{% if")[0])
    assert drawn(plain, QUESTION, ANSWER) == DONE
    assert drawn(plain, bot("Welcome"), QUESTION, ANSWER).startswith("<|im_start|>assistant\n⟦Welcome<|im_end|>⟧\n")


def test_a_prompt_written_by_the_last_turn_alone() -> None:
    """No server asks with nothing, where this template writes no generation prompt."""
    source = CHATML.replace("{% endfor %}", "").replace("{% if", "{% if loop.last and") + "{% endfor %}"
    assert (
        drawn(chat(source), bot("Welcome"), QUESTION, ANSWER) == "<|im_start|>assistant\n⟦Welcome<|im_end|>⟧\n" + DONE
    )


def test_a_template_that_cannot_begin_with_nothing() -> None:
    source = "{% if messages[0].role == 'critic' %}!{% endif %}" + CHATML
    assert drawn(chat(source), bot("Welcome")) == "<|im_start|>assistant\n⟦Welcome<|im_end|>⟧\n"


def test_what_only_calls_have_before_them_is_no_header() -> None:
    source = (
        "{% for m in messages %}{% if m.role == 'user' %}<s>[INST] {{ m.content }} [/INST]{% elif m.tool_calls %}"
        "[CALLS] [{{ m.tool_calls[0].function.name }}]</s>{% else %} {{ m.content }}</s>{% endif %}{% endfor %}"
    )
    assert drawn(chat(source), QUESTION, bot(tool_calls=(CALL,))) == "<s>[INST] Hi [/INST]⟦[CALLS] [get]</s>⟧"
    assert drawn(chat(source), QUESTION, ANSWER) == "<s>[INST] Hi [/INST]⟦ Hello</s>⟧"


def test_separators_before_the_header_belong_to_what_is_said_before() -> None:
    source = (
        "{% for m in messages %}{{ '### ' + m.role + ':\n' + m.content }}{% if m.role == 'assistant' %}</s>{% endif %}"
        "{% if not loop.last %}{{ '\n\n' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '\n\n### assistant:\n' }}{% endif %}"
    )
    want = "### assistant:\n⟦Welcome</s>⟧\n\n### user:\nHi\n\n### assistant:\n⟦Hello</s>⟧"
    assert drawn(chat(source), bot("Welcome"), QUESTION, ANSWER) == want


def test_what_a_later_turn_repeats_of_an_answer_is_not_trained() -> None:
    source = (
        "{% set ns = namespace(name='') %}{% for m in messages %}<|im_start|>"
        "{% if m.role == 'tool' %}{{ ns.name }} says {{ m.content }}{% elif m.tool_calls %}assistant\n"
        "{{ m.tool_calls[0].function.name }}{% set ns.name = m.tool_calls[0].function.name %}"
        "{% else %}{{ m.role }}\n{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    text = drawn(chat(source), QUESTION, bot(tool_calls=(CALL,)), Message("tool", "sun"), ANSWER)
    assert text == ASKED + "⟦get<|im_end|>⟧\n<|im_start|>get says sun<|im_end|>\n" + DONE[len(ASKED) - 22 :]


def test_another_message_inside_an_answer_is_refused() -> None:
    source = CHATML.replace("{{ m.content }}", "{{ m.content }}{{ messages[0].content }}{{ m.content }}")
    assert drawn(chat(source), QUESTION, ANSWER) == "turns_overlap"


def test_a_stop_inside_an_answer_is_refused() -> None:
    source = CHATML.replace("{{ m.content }}", "{{ m.content }}<|im_end|>{{ m.content }}")
    assert drawn(chat(source), QUESTION, ANSWER) == "stop_inside_answer"


def test_an_answer_or_call_the_template_leaves_out() -> None:
    deaf = chat(CHATML.replace("{{ m.content }}", "{{ m.content if m.role == 'user' }}"))
    assert drawn(deaf, QUESTION, ANSWER) == "message_not_rendered"
    gone = chat(CHATML.replace("messages %}", "messages if m.role == 'user' %}"))
    assert drawn(gone, QUESTION, ANSWER) == "message_not_rendered"
    assert drawn(chat(CHATML), QUESTION, bot("I look.", tool_calls=(CALL,))) == "message_not_rendered"
    assert rows(chat(CHATML), ALL, [talk(QUESTION, bot(tool_calls=(CALL,)))]) == [Drop("message_not_rendered")]


LOST = [Drop("message_not_rendered")]


def test_an_answer_that_is_only_a_thought() -> None:
    """Where the template does not write it, silence would be taught."""
    only = bot("", reasoning="hm")
    assert drawn(chat(CHATML), QUESTION, only) == drawn(chat(CHATML), QUESTION, only, *FINE) == LOST[0].reason
    assert rows(chat(CHATML), ALL, [talk(QUESTION, only)]) == LOST
    assert drawn(chat(TOOLS), QUESTION, only) == ASKED + "⟦<think>\nhm\n</think>\n\n<|im_end|>⟧\n"
    past = chat(TOOLS.replace("if m.reasoning_content", "if m.reasoning_content and loop.last"))
    assert drawn(past, QUESTION, only, *FINE) == LOST[0].reason
    assert drawn(chat(CHATML), QUESTION, bot("Hello", reasoning="hm")) == DONE


def test_an_answer_of_blanks_a_template_takes_off() -> None:
    trimmed = chat(CHATML.replace("m.content", "m.content | trim"))
    assert rows(trimmed, ALL, [talk(QUESTION, bot("  "))]) == LOST
    assert rows(trimmed, ALL, [talk(QUESTION, bot(" \n "), *FINE)]) == LOST
    thinks = "{{ '<think>\n\n</think>\n\n' if m.role == 'assistant' }}{{ m.content | trim }}"
    assert rows(chat(CHATML.replace("{{ m.content }}", thinks)), ALL, [talk(QUESTION, bot("\n\n"))]) == LOST
    unstopped = chat(CHATML.replace("m.content", "m.content | trim").replace("<|im_end|>\n", ""))
    assert rows(unstopped, ALL, [talk(QUESTION, bot("  "))]) == LOST


def test_blanks_alone_do_not_stand_for_words() -> None:
    cut = chat(CHATML.replace("{{ m.content }}", "{{ m.content.split('</think>')[-1] }}"))
    assert drawn(cut, QUESTION, bot("<think>a</think>\n\n")) == LOST[0].reason
    assert drawn(chat(THINKS), QUESTION, bot("<think>\n")) == LOST[0].reason


def test_every_call_has_to_be_told() -> None:
    two = bot(tool_calls=(CALL, {"type": "function", "function": {"name": "put", "arguments": {}}}))
    first = chat(TOOLS.replace("m.tool_calls or []", "(m.tool_calls or [])[:1]"))
    assert drawn(first, QUESTION, two) == LOST[0].reason
    assert drawn(first, QUESTION, bot("So.", tool_calls=two.tool_calls)) == LOST[0].reason
    assert rows(first, Policy(tool_calls=False), [talk(QUESTION, two)]) == LOST
    assert drawn(chat(TOOLS), QUESTION, two).endswith("</call><call>put({})</call><|im_end|>⟧\n")
    for how in ("{{ m.tool_calls | tojson }}", "{{ m.tool_calls | map(attribute='function.name') | join(' ') }}"):
        whole = chat(CHATML.replace("{{ m.content }}", "{{ m.content }}{% if m.tool_calls %}" + how + "{% endif %}"))
        assert drawn(whole, QUESTION, two).endswith("<|im_end|>⟧\n")


def test_a_template_that_raises() -> None:
    source = CHATML.replace("{{ m.content }}", "{{ raise_exception('no') if 'x' in m.content }}{{ m.content }}")
    with pytest.raises(BadRecord, match=r"template_failed.*no"):
        explain(chat(source), talk(QUESTION, bot("x")), ALL)
    (verdict,) = rows(chat(source), ALL, [talk(QUESTION, bot("x"))])
    assert isinstance(verdict, BadRecord)


def test_a_conversation_the_template_refuses_half_way() -> None:
    source = "{% if messages[-1].role == 'assistant' and add_generation_prompt %}{{ raise_exception('no') }}{% endif %}"
    assert drawn(chat(source + CHATML), QUESTION, ANSWER, bot("Again")) == "prompt_not_rendered"


# ------------------------------------------------------------ generation prompts that differ


THINKS = CHATML.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")


def test_a_prompt_that_opens_a_thought() -> None:
    """Training shows the header only; content that begins with the thought goes on behind it."""
    assert drawn(chat(THINKS), QUESTION, ANSWER) == DONE
    inline = "<think>\nhm</think>So"
    assert drawn(chat(THINKS), QUESTION, bot(inline)) == ASKED + "<think>\n⟦hm</think>So<|im_end|>⟧\n"
    (target,) = lay(chat(THINKS), talk(QUESTION, bot(inline)), ALL).targets
    assert (target.parity, target.met) == (True, True)
    (target,) = lay(chat(THINKS), talk(QUESTION, ANSWER), ALL).targets
    assert (target.parity, target.met) == (False, False)


def test_a_prompt_that_training_never_shows_ends_at_what_it_shares() -> None:
    source = CHATML.replace("{{ m.content }}", "{{ '</think>' if m.role == 'assistant' }}{{ m.content }}")
    both = chat(source.replace("assistant\n{% endif %}", "assistant\n<think>{% endif %}"))
    assert drawn(both, QUESTION, ANSWER) == ASKED + "⟦</think>Hello<|im_end|>⟧\n"


def test_a_prompt_with_nothing_in_common() -> None:
    source = CHATML.replace("<|im_start|>assistant\n{% endif %}", "A: {% endif %}")
    assert drawn(chat(source), QUESTION, ANSWER) == "prompt_differs"


BY_CONTENT = CHATML.replace(
    "{{ m.content }}", "{{ '<think></think>' if m.role == 'assistant' }}{{ m.content }}"
).replace(
    "assistant\n{% endif %}",
    "assistant\n{% if '/no' in messages[-1].content %}<think></think>{% endif %}{% endif %}",
)


def test_a_prompt_that_differs_by_turn() -> None:
    """The same letters open both answers; only of the second one the server writes the empty thought."""
    text = drawn(chat(BY_CONTENT), QUESTION, ANSWER, user("/no"), ANSWER)
    thought = "<think></think>"
    assert text.count(f"assistant\n⟦{thought}Hello") == text.count(f"assistant\n{thought}⟦Hello") == 1
    assert not chat(BY_CONTENT).one_prompt


def test_variables_of_the_template() -> None:
    switch = (
        "assistant\n{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}{% endif %}"
    )
    source = CHATML.replace("assistant\n{% endif %}", switch).replace(
        "{{ m.content }}", "{{ '<think></think>' if m.role == 'assistant' }}{{ m.content }}"
    )
    assert chat(source).one_prompt
    assert drawn(chat(source), QUESTION, ANSWER) == ASKED + "⟦<think></think>Hello<|im_end|>⟧\n"
    off = chat(source, variables={"enable_thinking": False})
    assert drawn(off, QUESTION, ANSWER) == ASKED + "<think></think>⟦Hello<|im_end|>⟧\n"


def test_history_rewritten_by_what_follows() -> None:
    source = CHATML.replace("{{ m.content }}", "{{ m.content if loop.last else m.content.split('</think>')[-1] }}")
    first, second = bot("<think>a</think>b"), bot("<think>c</think>d")
    want = ASKED + "⟦b<|im_end|>⟧\n" + ASKED + "⟦<think>c</think>d<|im_end|>⟧\n"
    assert drawn(chat(source), QUESTION, first, QUESTION, second) == want


# ------------------------------------------------------------ where it stops


def test_the_stop_behind_the_loop() -> None:
    source = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% else %}</s>{% endif %}"
    )
    template = chat(source, "<user>", "<assistant>", "</s>")
    assert (
        drawn(template, QUESTION, ANSWER, QUESTION, ANSWER)
        == "<user>Hi<assistant>⟦Hello⟧<user>Hi<assistant>⟦Hello</s>⟧"
    )
    laid = lay(template, talk(QUESTION, ANSWER, QUESTION, ANSWER), ALL)
    assert [target.stopped for target in laid.targets] == [False, True]


def test_the_stop_is_what_opens_the_next_turn() -> None:
    """GLM stops at the token that begins the user's turn, which only ``generation_config.json`` tells."""
    loop = "{% for m in messages %}<{{ m.role }}>\n{{ m.content }}{% endfor %}"
    source = loop + "{% if add_generation_prompt %}<assistant>{% endif %}"
    specials = ("<user>", "<assistant>", "</s>")
    stops = [tokenizer(*specials).id("<user>")]
    first = drawn(chat(source, *specials, stops=stops), QUESTION, ANSWER, QUESTION, ANSWER)
    assert first == "<user>\nHi<assistant>⟦\nHello<user>⟧\nHi<assistant>⟦\nHello⟧"
    assert drawn(chat(source, *specials), QUESTION, ANSWER) == "<user>\nHi<assistant>⟦\nHello⟧"


def test_a_stop_that_is_text() -> None:
    source = CHATML.replace("<|im_end|>", "<|end of turn|>")
    template = chat(source, "<|endoftext|>", "<|im_start|>")
    told = explain(template, talk(QUESTION, ANSWER), ALL)
    assert brackets(told).endswith("assistant\n⟦Hello⟧<|end of turn|>\n")
    assert {token.why for token in told.tokens[-3:]} == {"no_stop"}


def test_the_last_control_token_of_the_turn_where_no_stop_is_known() -> None:
    source = CHATML.replace("{{ m.content }}", "{{ m.content }}{{ '</call>' if m.content == 'tagged' }}")
    template = chat(source, "<|endoftext|>", "<|im_start|>", "<|im_end|>", "</call>")
    template.tokenizer.eos_token = "<|endoftext|>"  # type: ignore[union-attr]
    assert drawn(template, QUESTION, ANSWER) == DONE
    closes = "{% for m in messages %}<|im_start|>{{ m.content }}{{ '</call>' if m.content == 'Hello' }}{% endfor %}"
    assert not lay(chat(closes), talk(QUESTION, ANSWER), ALL).targets[0].stopped
    opens = closes.replace("</call>", "<call>")
    assert lay(chat(opens), talk(QUESTION, ANSWER), ALL).targets[0].stopped


def test_a_call_without_a_stop_is_trained_whole() -> None:
    template = chat(
        TOOLS.replace("<|im_end|>\n", "").replace("{{ m.role }}\n", "{{ m.role }} ").replace("tant\n{%", "tant {%")
    )
    text = drawn(template, QUESTION, bot(tool_calls=(CALL,)), Message("tool", "sun"))
    assert '⟦<call>get({"city": "Bern"})</call>⟧<|im_start|>tool sun' in text


def test_a_thought_without_a_stop_is_trained_with_what_closes_it() -> None:
    unstopped = TOOLS.replace("<|im_end|>\n", "").replace("{{ m.role }}\n", "{{ m.role }} ").replace("nt\n{%", "nt {%")
    want = "assistant ⟦<think>\nhm\n</think>⟧\n\n"
    assert drawn(chat(unstopped), QUESTION, bot("", reasoning="hm")).endswith(want)
    inline = unstopped.replace(
        "{{ m.content }}",
        "{% if '</think>' in m.content %}<think>{{ m.content.split('</think>')[0].split('<think>')[-1] }}</think>\n"
        "{{ m.content.split('</think>')[-1] }}{% else %}{{ m.content }}{% endif %}",
    )
    told = bot("<think>hm</think>")
    assert drawn(chat(inline), QUESTION, told).endswith("assistant ⟦<think>hm</think>⟧\n")
    assert trained(QUESTION, told, source=inline, reasoning=False) == []
    assert trained(QUESTION, bot("<think>hm</think>So."), source=inline, reasoning=False) == ["\nSo."]


CHANNELS = (
    "{% for m in messages %}<start>{{ m.role }}{% if m.role == 'assistant' %}"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}<end><start>assistant{% endif %}"
    "|say|{{ m.content }}{{ '</s>' if loop.last else '<end>' }}{% else %}|{{ m.content }}<end>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<start>assistant{% endif %}"
)


def test_a_turn_that_goes_on_behind_a_token_nobody_stops_at() -> None:
    """gpt-oss: the thought's channel is closed, the answer's is opened, and there is the stop."""
    model = AutoTokenizer().train(["a"], 300, special_tokens=["<start>", "<end>", "</s>", "<think>"])
    model.eos_token = "</s>"
    template = ChatTemplate(CHANNELS, model)
    head = "<start>user|Hi<end><start>assistant"
    assert drawn(template, QUESTION, ANSWER) == head + "⟦|say|Hello</s>⟧"
    only = bot("", reasoning="hm")
    assert drawn(template, QUESTION, only) == head + "⟦<think>hm<end><start>assistant|say|</s>⟧"
    assert drawn(template, QUESTION, only, *FINE).startswith(
        head + "⟦<think>hm<end><start>assistant|say|<end>⟧<start>user"
    )
    without = explain(template, talk(QUESTION, only), Policy(reasoning=False))
    assert (without.problem, bool(without.mask.any())) == (None, False)


def test_where_servers_stop_an_answer_ends_though_its_turn_goes_on() -> None:
    source = CHATML.replace("<|im_end|>\n{% endfor", "<|im_end|> more<|im_end|>\n{% endfor")
    assert drawn(chat(source), QUESTION, ANSWER).endswith("⟦Hello<|im_end|>⟧ more<|im_end|>\n")


def test_content_specials_parsed_as_transformers_does() -> None:
    parsed = chat(CHATML, content_specials="parse")
    text = drawn(parsed, user("a<|im_end|>b"), bot("c<|im_end|>d"))
    assert text.endswith("⟦c<|im_end|>d<|im_end|>⟧\n")


def test_added_tokens_that_take_blanks_with_them(tmp_path: Path) -> None:
    """Phi's markers swallow the line feed behind them, and any blank the answer begins with."""
    source = (
        "{% for m in messages %}<{{ m.role }}>\n{{ m.content }}<end>\n{% endfor %}"
        "{% if add_generation_prompt %}<assistant>\n{% endif %}"
    )
    folder = AutoTokenizer().train(["a"], 300, special_tokens=["<user>", "<assistant>", "<end>"]).save(tmp_path / "m")
    path = folder / "tokenizer.json"
    spec = json.loads(path.read_text("utf-8"))
    for token in spec["added_tokens"]:
        token["rstrip"] = True
    path.write_text(json.dumps(spec), "utf-8")
    template = ChatTemplate(source, AutoTokenizer.load(path))
    assert drawn(template, QUESTION, ANSWER) == "<user>\nHi<end>\n<assistant>\n⟦Hello<end>\n⟧"
    assert drawn(template, QUESTION, bot("  x")) == "border_inside_token"
    assert rows(template, ALL, [talk(QUESTION, bot("  x"))]) == [Drop("border_inside_token")]


def test_a_prompt_that_ends_inside_a_token() -> None:
    template = chat("{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}"
                    "{% if add_generation_prompt %}<|im_start|>assistant: {% endif %}")  # fmt: skip
    assert drawn(template, QUESTION, bot("the data")) == "border_inside_token"
    assert drawn(template, QUESTION, bot("⁂")).endswith("assistant: ⟦⁂<|im_end|>⟧")


# ------------------------------------------------------------ policies


THOUGHT = bot("So.", reasoning="hm")
BOTH = (QUESTION, THOUGHT, QUESTION, bot("Look.", tool_calls=(CALL,)), Message("tool", "sun"), ANSWER)


def trained(*messages: Message, source: str = TOOLS, **policy: Any) -> list[str]:
    told = explain(chat(source), talk(*messages), Policy(**policy))
    assert told.problem is None
    return re.findall("⟦(.*?)⟧", brackets(told), re.DOTALL)


FIRST = "<think>\nhm\n</think>\n\n"
CALLED = '<call>get({"city": "Bern"})</call><|im_end|>'


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        ({}, [FIRST + "So.<|im_end|>", "Look." + CALLED, "Hello<|im_end|>"]),
        ({"reasoning": False}, ["\n\nSo.<|im_end|>", "Look." + CALLED, "Hello<|im_end|>"]),
        ({"tool_calls": False}, [FIRST + "So.<|im_end|>", "Look.", "Hello<|im_end|>"]),
        ({"answers": "last"}, ["Look." + CALLED, "Hello<|im_end|>"]),
        ({"train_after_stop": True}, [FIRST + "So.<|im_end|>\n", "Look." + CALLED + "\n", "Hello<|im_end|>\n"]),
        ({"train_after_stop": True, "tool_calls": False, "answers": "last"}, ["Look.", "Hello<|im_end|>\n"]),
        ({"answers": "last", "tool_calls": False, "reasoning": False}, ["Look.", "Hello<|im_end|>"]),
    ],
)
def test_policies(policy: dict[str, Any], want: list[str]) -> None:
    assert trained(*BOTH, **policy) == want


def test_flags_and_weights_of_messages_go_before_the_policy() -> None:
    first, last = bot("one", train=True), bot("two", train=False)
    assert trained(QUESTION, first, QUESTION, last, answers="last") == ["one<|im_end|>"]
    assert trained(QUESTION, bot("one", weight=0.0, train=True), QUESTION, bot("two")) == ["two<|im_end|>"]
    assert trained(QUESTION, bot("one", weight=0.5)) == ["one<|im_end|>"]
    assert trained(QUESTION, bot("one", train=False)) == []


@pytest.mark.parametrize(
    ("message", "want"),
    [
        (bot("So.", reasoning="hm"), ["\n\nSo.<|im_end|>"]),
        (bot("<think>\nhm\n</think>\n\nSo."), ["\n\nSo.<|im_end|>"]),
        (bot("hm\n</think>\n\nSo."), ["hm\n</think>\n\nSo.<|im_end|>"]),
        (bot("So.\n</think>\n\nx", reasoning="hm"), ["\n\nSo.\n</think>\n\nx<|im_end|>"]),
        (bot("<think>a</think>So.", reasoning="hm"), ["So.<|im_end|>"]),
        (bot(" <think>a</think><think>b</think>So."), ["So.<|im_end|>"]),
        (bot("<think>a"), []),
        (bot("<think>a</think>"), []),
        (bot("<think>a</think> \n"), []),
        (bot("<think>a</think>", tool_calls=(CALL,)), [CALLED]),
        (bot("<think>a", tool_calls=(CALL,)), [CALLED]),
        (bot("<think>hm</think>So."), ["So.<|im_end|>"]),
        (bot("`</think>` closes it."), ["`</think>` closes it.<|im_end|>"]),
        (bot("", reasoning="hm"), []),
        (bot("", reasoning="hm", tool_calls=(CALL,)), ["\n\n" + CALLED]),
        (bot("<think>a</think> b </think> c"), [" b </think> c<|im_end|>"]),
    ],
)
def test_thoughts_as_context(message: Message, want: list[str]) -> None:
    assert trained(QUESTION, message, reasoning=False) == want


def test_a_thought_the_template_writes_itself() -> None:
    source = CHATML.replace("{{ m.content }}", "{{ '<think>\n\n</think>\n\n' if m.role != 'user' }}{{ m.content }}")
    assert trained(QUESTION, ANSWER, source=source) == ["<think>\n\n</think>\n\nHello<|im_end|>"]
    assert trained(QUESTION, ANSWER, source=source, reasoning=False) == ["\n\nHello<|im_end|>"]


def test_thoughts_behind_a_prompt_that_opens_one() -> None:
    """There the first tag that closes is the end of a thought, whether training shows the opening or not."""
    assert trained(QUESTION, bot("hm\n</think>\n\nSo."), source=THINKS, reasoning=False) == ["\n\nSo.<|im_end|>"]
    assert trained(QUESTION, bot("<think>\nhm</think>So."), source=THINKS, reasoning=False) == ["So.<|im_end|>"]
    assert trained(QUESTION, bot("<think>\nhm</think>"), source=THINKS, reasoning=False) == []
    assert trained(QUESTION, ANSWER, source=THINKS, reasoning=False) == ["Hello<|im_end|>"]


def test_a_thought_behind_what_the_template_writes_before_it() -> None:
    source = CHATML.replace("{{ m.content }}", "{{ '<s>final</s>' if m.role == 'assistant' }}{{ m.content }}")
    told = chat(source.replace("</s>", "|"))
    policy = Policy(reasoning=False)
    text = drawn(told, QUESTION, bot("<think>hm</think>So."), policy=policy)
    assert text == ASKED + "<s>final|<think>hm</think>⟦So.<|im_end|>⟧\n"


def test_frames_alone_are_no_target() -> None:
    """An empty thought the template writes before a call that is left out."""
    thinks = "{{ '<think>\n\n</think>\n\n' if m.role == 'assistant' }}{{ m.content }}{% for"
    source = TOOLS.replace("{{ m.content }}{% for", thinks)
    called = bot(tool_calls=(CALL,))
    assert trained(QUESTION, called, source=source, tool_calls=False) == []
    assert trained(QUESTION, called, *FINE, source=source, tool_calls=False) == [
        "<think>\n\n</think>\n\nHello<|im_end|>"
    ]
    told = explain(chat(source), talk(QUESTION, called, *FINE), Policy(tool_calls=False))
    assert {token.why for token in told.tokens if token.message == 1} == {
        "generation_prompt", "tool_calls_off", "after_stop"
    }  # fmt: skip
    check(chat(source), talk(QUESTION, called, *FINE), Policy(tool_calls=False), told)


def test_a_frame_whose_only_word_goes_with_a_hole() -> None:
    """Of ``.<`` nothing is left of what was said."""
    template = merging()
    source = TOOLS.replace("{{ m.content }}{% for", "{{ 'a: ' if m.role == 'assistant' }}{{ m.content }}{% for")
    framed = ChatTemplate(source, template.tokenizer)
    policy = Policy(tool_calls=False)
    told = explain(framed, talk(QUESTION, bot(".", tool_calls=(CALL,))), policy)
    assert not told.mask.any()
    check(framed, talk(QUESTION, bot(".", tool_calls=(CALL,))), policy, told)
    assert "⟦a: So⟧" in drawn(framed, QUESTION, bot("So.", tool_calls=(CALL,)), policy=policy)


def test_calls_as_context_keep_the_thought_before_them() -> None:
    only = bot("", reasoning="hm", tool_calls=(CALL,))
    assert trained(QUESTION, only, tool_calls=False) == ["<think>\nhm\n</think>"]
    assert trained(QUESTION, only, tool_calls=False, reasoning=False) == []


@cache
def merging() -> ChatTemplate:
    """Tags are text here, and merge with what stands before them: ``.<``, and line feeds with line feeds."""
    words = ["So.<call", "a\n\n\n\nb"] * 9
    model = AutoTokenizer().train(words, 256 + 3 + 20, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    model.eos_token = "<|im_end|>"
    return ChatTemplate(TOOLS, model)


@pytest.mark.parametrize(
    ("message", "policy", "want"),
    [
        (bot("So.", tool_calls=(CALL,)), {}, ["So." + CALLED]),
        (bot("So.", tool_calls=(CALL,)), {"tool_calls": False}, ["So"]),
        (bot(".", tool_calls=(CALL,)), {"tool_calls": False}, []),
        (bot("So.", reasoning="hm", tool_calls=(CALL,)), {"tool_calls": False}, [FIRST + "So"]),
        (bot("So.", reasoning="hm", tool_calls=(CALL,)), {"tool_calls": False, "reasoning": False}, ["So"]),
        (bot("", reasoning="hm", tool_calls=(CALL,)), {"reasoning": False}, [CALLED]),
        (bot("", reasoning="hm", tool_calls=(CALL,)), {"tool_calls": False}, [FIRST]),
        (bot("", reasoning="hm", tool_calls=(CALL,)), {"tool_calls": False, "reasoning": False}, []),
        (bot("So.", reasoning="hm"), {"reasoning": False}, ["So.<|im_end|>"]),
        (bot("\n\nSo.", reasoning="hm"), {"reasoning": False}, ["\nSo.<|im_end|>"]),
    ],
)
def test_a_token_across_the_border_of_a_hole_belongs_to_the_hole(
    message: Message, policy: dict[str, Any], want: list[str]
) -> None:
    told = explain(merging(), talk(QUESTION, message), Policy(**policy))
    assert told.problem is None
    assert re.findall("⟦(.*?)⟧", brackets(told), re.DOTALL) == want
    check(merging(), talk(QUESTION, message), Policy(**policy), told)
    (row,) = rows(merging(), Policy(**policy), [talk(QUESTION, message)])
    if want:
        assert isinstance(row, Row)
        assert row.arrays["loss_mask"].tolist() == told.mask.tolist()
    else:
        assert (row, told.mask.any()) == (Drop("no_target"), False)


def test_a_token_across_a_hole_is_told_by_the_hole() -> None:
    told = explain(merging(), talk(QUESTION, bot("So.", tool_calls=(CALL,))), Policy(tool_calls=False))
    text = told.encoded.rendered.text
    assert told.laid is not None
    ((start, _, _),) = told.laid.targets[0].holes
    (token,) = [token for token in told.tokens if token.start < start < token.stop]
    assert (text[token.start : token.stop][0], token.why, token.trained) == (".", "tool_calls_off", False)


def test_the_start_of_an_answer_stays_proven_where_a_hole_begins_there() -> None:
    source = TOOLS.replace("<think>\n", "<think> ").replace("assistant\n{% endif", "assistant\n<think> {% endif")
    model = AutoTokenizer().train(["a hm"] * 9, 300, special_tokens=["<|im_start|>", "<|im_end|>"])
    model.eos_token = "<|im_end|>"
    template = ChatTemplate(source, model)
    for policy in (ALL, Policy(reasoning=False)):
        assert drawn(template, QUESTION, bot("So.", reasoning="hm"), policy=policy) == "border_inside_token"


def test_what_a_policy_refuses() -> None:
    with pytest.raises(BadParameter, match="answers must be one of all, last, got 'none'"):
        Policy(answers="none")
    with pytest.raises(BadParameter, match="reasoning must be True or False, got 1"):
        Policy(reasoning=1)  # type: ignore[arg-type]


# ------------------------------------------------------------ every token has a true reason


def parts(*messages: Message, source: str = TOOLS, **policy: Any) -> list[tuple[str, str, int | None, str]]:
    """(part, why, message, text) of neighbours that are alike."""
    told = explain(chat(source), talk(*messages), Policy(**policy))
    out: list[tuple[str, str, int | None, str]] = []
    for token in told.tokens:
        text = told.encoded.rendered.text[token.start : token.stop]
        if out and out[-1][:3] == (token.part, token.why, token.message):
            text = out.pop()[3] + text
        out.append((token.part, token.why, token.message, text))
    return out


def test_reasons_of_a_plain_conversation() -> None:
    assert parts(QUESTION, ANSWER) == [
        ("start", "prompt", 0, "<|im_start|>"),
        ("role", "prompt", 0, "user"),
        ("start", "prompt", 0, "\n"),
        ("content", "prompt", 0, "Hi"),
        ("frame", "prompt", 0, "<|im_end|>\n"),
        ("start", "generation_prompt", 1, "<|im_start|>"),
        ("role", "generation_prompt", 1, "assistant"),
        ("start", "generation_prompt", 1, "\n"),
        ("content", "answer", 1, "Hello"),
        ("stop", "stop", 1, "<|im_end|>"),
        ("after", "after_stop", 1, "\n"),
    ]


def test_reasons_of_an_answer_in_parts() -> None:
    called = bot("So.", reasoning="hm", tool_calls=(CALL,))
    told = parts(QUESTION, called, reasoning=False, tool_calls=False, train_after_stop=True)[8:]
    assert [row[:2] for row in told] == [
        ("frame", "reasoning_off"), ("reasoning", "reasoning_off"), ("frame", "reasoning_off"),
        ("frame", "answer_frame"), ("content", "answer"),
        ("frame", "tool_calls_off"), ("tool_calls", "tool_calls_off"), ("frame", "tool_calls_off"),
        ("tool_calls", "tool_calls_off"), ("frame", "tool_calls_off"), ("stop", "tool_calls_off"),
        ("after", "tool_calls_off"),
    ]  # fmt: skip
    assert parts(QUESTION, ANSWER, train_after_stop=True)[-1] == ("after", "after_stop_asked", 1, "\n")


def test_reasons_of_answers_that_are_not_trained() -> None:
    assert {row[1] for row in parts(QUESTION, bot("Hello", train=False))} == {"prompt", "not_wanted"}
    unproven = CHATML.replace("{{ m.content }}", "{{ m.content }}<|im_end|>{{ m.content }}")
    assert {row[1] for row in parts(QUESTION, ANSWER, source=unproven)} == {"prompt", "unproven"}


def test_a_template_without_a_loop_over_messages_tells_less() -> None:
    assert [row[:3] for row in parts(QUESTION, ANSWER, source=NAMESPACE)][-6:] == [
        ("start", "generation_prompt", 1), ("role", "generation_prompt", 1), ("start", "generation_prompt", 1),
        ("content", "answer", 1), ("stop", "stop", 1), ("after", "after_stop", 1),
    ]  # fmt: skip


def test_a_token_knows_its_place_in_the_field() -> None:
    told = explain(chat(CHATML.replace("m.content", "m.content | trim")), talk(QUESTION, bot("  Hello  ")), ALL)
    (token,) = [token for token in told.tokens if token.part == "content" and token.message == 1][:1]
    assert (token.field, token.at) == ("content", 2)


# ------------------------------------------------------------ laws

PIECES = (
    "Hi", " ", "\n", "\n\n", "the data", "é", "中", "<|im_end|>", "<|im_start|>assistant\n", "<think>\n", "</think>",
    "</s>", "assistant\n", "/no", "user", "[", "<", "\ue000",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=5).map("".join)
FLAGS = st.sampled_from([None, None, None, True, False])
ANSWERS_DRAWN = st.builds(
    Message, st.just("assistant"), TEXTS, st.sampled_from([None, None, "hm"]),
    st.sampled_from([(), (), (CALL,)]), train=FLAGS,
)  # fmt: skip
QUESTIONS = st.builds(Message, st.sampled_from(["user", "user", "system", "tool"]), TEXTS)
TALKS = st.lists(st.one_of(QUESTIONS, ANSWERS_DRAWN), min_size=1, max_size=7).map(lambda said: talk(*said))
POLICIES = st.builds(
    Policy, answers=st.sampled_from(mask.ANSWERS), reasoning=st.booleans(), tool_calls=st.booleans(),
    train_after_stop=st.booleans(),
)  # fmt: skip
TOYS = (
    CHATML, TOOLS, MACRO, NAMESPACE, RANGE, THINKS, BY_CONTENT, CHATML.partition("{% if")[0],
    CHATML.replace("m.content", "m.content | trim"),
    CHATML.replace("{{ m.content }}", "{{ m.content if loop.last else m.content.split('</think>')[-1] }}"),
    CHATML.replace("{% endfor %}", "").replace("{% if", "{% if loop.last and") + "{% endfor %}",
)  # fmt: skip


def targets(template: ChatTemplate, conversation: Conversation, policy: Policy, thorough: bool) -> Any:
    try:
        laid = lay(template, conversation, policy, thorough=thorough)
    except (Unproven, BadRecord) as error:
        return error.args[0] if isinstance(error, Unproven) else error.reason
    return [(one.start, one.said, one.stop, one.after, one.holes) for one in laid.targets]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(TOYS), TALKS, POLICIES)
def test_looking_at_each_opening_once_gives_the_same_masks(
    source: str, conversation: Conversation, policy: Policy
) -> None:
    template = chat(source)
    assert targets(template, conversation, policy, True) == targets(template, conversation, policy, False)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(TOYS), TALKS, POLICIES)
def test_a_mask_is_a_union_of_trained_turns(source: str, conversation: Conversation, policy: Policy) -> None:
    """Trained tokens lie in wanted answers, decode to the trained text, and each reason says so."""
    template = chat(source)
    told = explain(template, conversation, policy)
    check(template, conversation, policy, told)


def check(template: ChatTemplate, conversation: Conversation, policy: Policy, told: Explained) -> None:
    assert {token.why for token in told.tokens} <= set(WHY)
    for token, on in zip(told.tokens, told.mask.tolist(), strict=True):
        assert token.trained == on == (token.why in WHY[:4])
    if told.laid is None or told.problem:
        return
    check_reasons(told)
    check_said(conversation, told)
    model, text = template.tokenizer, told.encoded.rendered.text
    assert model is not None
    covered = np.zeros(len(told.mask), bool)
    for target in told.laid.targets:
        last = target.after if policy.train_after_stop else target.stop
        inside = (told.encoded.starts >= target.start) & (told.encoded.starts < last)
        covered |= inside
        if not target.holes:
            assert told.mask[inside].all()
            assert model.decode(told.encoded.ids[inside]) == text[target.start : last]
        if target.parity and template.uses("add_generation_prompt"):
            prompt = template.render(conversation.messages[: target.message], conversation.tools or None, True)
            size = len(template.encode(prompt).ids)
            assert inside.argmax() == size or not inside.any()
            assert template.encode(prompt).ids.tolist() == told.encoded.ids[:size].tolist()
    assert not (told.mask & ~covered).any()
    wanted = set(policy.wanted(conversation.messages))
    assert {token.message for token in told.tokens if token.trained} <= wanted


def check_said(conversation: Conversation, told: Explained) -> None:
    """The trained tokens of an answer hold something the answer says, not the template's text alone."""
    starts, stops, text = told.encoded.starts, told.encoded.stops, told.encoded.rendered.text
    for at in {token.message for token in told.tokens if token.trained}:
        assert at is not None
        message = conversation.messages[at]
        blank = not (message.content.strip() or message.tool_calls or (message.reasoning or "").strip())
        own = [
            run for run in told.encoded.rendered.runs
            if run.origin is not None and run.origin.message == at and run.frame in (None, at)
            and run.origin.field.startswith(("content", "reasoning", "thinking", "tool_calls["))
            and (blank or text[run.start : run.stop].strip())
        ]  # fmt: skip
        assert any((told.mask & (starts < run.stop) & (stops > run.start)).any() for run in own), at


def check_reasons(told: Explained) -> None:
    """A reason says where a token stands, whichever message it came from."""
    assert told.laid is not None
    whys = [token.why for token in told.tokens]
    assert "unproven" not in whys
    assert ("no_stop" in whys) <= any(not target.stopped for target in told.laid.targets)
    for token in told.tokens:
        if token.why == "outside":
            assert token.message is None or token.field is not None
        if token.why == "generation_prompt":
            assert any(target.begin <= token.start < target.start for target in told.laid.targets)
        if token.part == "stop":
            assert token.stop in {target.stop for target in told.laid.targets}


@settings(max_examples=150, deadline=None)
@given(TALKS, POLICIES)
def test_holes_cost_no_row_and_are_told_truly(conversation: Conversation, policy: Policy) -> None:
    told = explain(merging(), conversation, policy)
    check(merging(), conversation, policy, told)
    whole = explain(merging(), conversation, replace(policy, reasoning=True, tool_calls=True))
    assert told.problem == whole.problem
    assert not (told.mask & ~whole.mask).any()


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(TOYS), st.lists(TALKS, min_size=1, max_size=4), POLICIES)
def test_a_mask_does_not_depend_on_the_batch(source: str, talks: list[Conversation], policy: Policy) -> None:
    template = chat(source)
    together = rows(template, policy, talks)
    for conversation, verdict in zip(talks, together, strict=True):
        (alone,) = rows(template, policy, [conversation])
        told = None if isinstance(verdict, BadRecord) else explain(template, conversation, policy)
        if isinstance(verdict, Row):
            assert isinstance(alone, Row)
            assert told is not None
            one, other = verdict.arrays, alone.arrays
            assert one["sequence"].tolist() == other["sequence"].tolist() == told.encoded.ids.tolist()
            assert one["loss_mask"].tolist() == other["loss_mask"].tolist() == told.mask.tolist()
        elif isinstance(verdict, Drop):
            assert alone == verdict
            assert told is not None
            if told.problem is None:  # the mask itself is the reason: it trains nothing, or everything
                assert told.mask.all() if verdict.reason == "no_context" else not told.mask.any()
            else:
                assert told.problem[0] == verdict.reason


@settings(max_examples=100, deadline=None)
@given(st.sampled_from((CHATML, MACRO, RANGE)), st.lists(TEXTS, min_size=2, max_size=5))
def test_content_never_makes_a_control_token_nor_moves_a_border(source: str, texts: list[str]) -> None:
    said = [Message("user" if at % 2 == 0 else "assistant", text + "x") for at, text in enumerate(texts)]
    plain = [Message(one.role, "x") for one in said]
    template = chat(source)
    model = template.tokenizer
    assert model is not None
    tags = {model.id("<think>"), model.id("</think>")}
    told, bare = explain(template, talk(*said), ALL), explain(template, talk(*plain), ALL)
    control = [[id for id in one.encoded.ids if id in model.control_ids - tags] for one in (told, bare)]
    assert control[0] == control[1]
    if told.problem:
        assert told.problem[0] == "border_inside_token"
        return
    assert [model.decode(told.encoded.ids[told.mask])] == [
        "".join(one.content + "<|im_end|>" for one in said if one.role == "assistant")
    ]


# ------------------------------------------------------------ real templates

#: bos and eos, by how a template's name begins.
NAMED = {
    "qwen": ("", "<|im_end|>"), "deepseek": ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    "gptoss": ("", "<|return|>"), "phi3": ("", "<|endoftext|>"), "glm": ("", "<|endoftext|>"),
    "seed": ("<seed:bos>", "<seed:eos>"), "granite": ("<|end_of_text|>", "<|end_of_text|>"),
    "smollm": ("<|im_start|>", "<|im_end|>"), "phi4": ("", "<|im_end|>"), "axolotl_chatml": ("", "<|im_end|>"),
    "openinstruct": ("", "<|endoftext|>"),
}  # fmt: skip
PIECE = re.compile(r"<[|｜][^<>|｜\s]+[|｜]>|</?(?:seed:)?think>|</?seed:\w+>|\[/?[A-Z_]+\]|<sop>|</?tool_call>|</?s>")


@cache
def real(name: str) -> ChatTemplate:
    """A real template with a tokenizer that has all its markers."""
    source = shared(f"chat_templates/{name}.jinja").read_text("utf-8")
    bos, eos = next((pair for start, pair in NAMED.items() if name.startswith(start)), ("<s>", "</s>"))
    found = {
        *PIECE.findall(source),
        eos,
        *([bos] if bos else []),
        *(["[INST]", "[/INST]"] if "mistral" in name else []),
    }
    model = AutoTokenizer().train(["the data "], 256 + len(found) + 4, special_tokens=sorted(found))
    model.bos_token, model.eos_token = bos or None, eos
    return ChatTemplate(source, model, name=name)


def names() -> list[str]:
    return sorted(path.stem for path in shared("chat_templates").glob("*.jinja"))


CALL_NINE = {"id": "call00001", **CALL}
REAL_TALKS = {
    "two": talk(QUESTION, ANSWER, user("More"), bot("Sure")),
    "system": talk(Message("system", "Be brief."), QUESTION, ANSWER),
    "reasoning": talk(QUESTION, THOUGHT, QUESTION, bot("Sure", reasoning="two")),
    "inline": talk(QUESTION, bot("<think>\nhm\n</think>\n\nSo."), QUESTION, bot("<think>\ntwo\n</think>\n\nSure")),
    "twice": talk(QUESTION, ANSWER, bot("Again")),
    "first": talk(bot("Welcome"), QUESTION, ANSWER),
    "blanks": talk(user("Hi "), bot("  code\n\n")),
    "special": talk(user("say <|im_end|></s>"), bot("<|im_end|> x </s> <|end|><｜end▁of▁sentence｜>")),
    "call": talk(QUESTION, bot(tool_calls=(CALL_NINE,)), Message("tool", "sun", tool_call_id="call00001"), ANSWER),
}  # fmt: skip


def test_real_templates_keep_the_laws() -> None:
    for name in names():
        template = real(name)
        for conversation in REAL_TALKS.values():
            for policy in (
                ALL,
                Policy(reasoning=False, tool_calls=False, train_after_stop=True),
                Policy(answers="last"),
            ):
                try:
                    told = explain(template, conversation, policy)
                except BadRecord:
                    continue
                check(template, conversation, policy, told)
                assert targets(template, conversation, policy, True) == targets(template, conversation, policy, False)


@pytest.mark.parametrize(
    ("name", "shape", "want"),
    [
        ("qwen3", "two", "⟦Hello<|im_end|>⟧\n…⟦<think>\n\n</think>\n\nSure<|im_end|>⟧\n"),
        ("qwen2_5_training", "first", "⟦Welcome<|im_end|>⟧\n…⟦Hello<|im_end|>⟧\n"),
        (
            "gptoss", "call",
            '⟦ to=functions.get<|channel|>commentary json<|message|>{"city": "Bern"}<|call|>⟧'
            "…⟦<|channel|>final<|message|>Hello<|return|>⟧",
        ),
        ("glm4moe", "two", "⟦\n<think></think>\nHello⟧…⟦\n<think></think>\nSure⟧"),
        (
            "glm4moe", "call",
            "⟦\n<think></think>\n<tool_call>get\n<arg_key>city</arg_key>\n<arg_value>Bern</arg_value>\n</tool_call>⟧"
            "…⟦\n<think></think>\nHello⟧",
        ),
        ("axolotl_metharme", "two", "⟦Hello⟧…⟦Sure</s>⟧"),
        (
            "axolotl_mistral_v2v3", "call",
            '⟦[TOOL_CALLS] [{"name": "get", "arguments": {"city": "Bern"}, "id": "call00001"}]</s>⟧…⟦ Hello</s>⟧',
        ),
        ("openinstruct_tulu_thinker_r1_style", "twice", "⟦Hello<|endoftext|>⟧\n…⟦Again<|endoftext|>⟧"),
        ("openinstruct_zephyr", "first", "⟦Welcome<|endoftext|>⟧\n…⟦Hello<|endoftext|>⟧\n"),
        ("axolotl_alpaca", "first", "⟦Welcome</s>⟧\n…⟦Hello</s>⟧"),
        ("deepseek_r1_distill_qwen", "inline", "⟦\n\nSo.<｜end▁of▁sentence｜>⟧…⟦\n\nSure<｜end▁of▁sentence｜>⟧"),
        ("phi3_5_training", "two", "⟦Hello<|end|>⟧\n…⟦Sure<|end|>⟧\n<|endoftext|>"),
        (
            "seed_oss", "reasoning",
            "⟦<seed:think>hm</seed:think>\nSo.<seed:eos>⟧…⟦<seed:think>two</seed:think>\nSure<seed:eos>⟧",
        ),
    ],
)  # fmt: skip
def test_real_templates_drawn(name: str, shape: str, want: str) -> None:
    told = explain(real(name), REAL_TALKS[shape], ALL)
    assert told.problem is None
    spans, ends = re.findall("⟦.*?⟧", brackets(told), re.DOTALL), want.split("…")
    assert len(spans) == len(ends) == 2
    assert spans[0] == ends[0].rstrip("\n")
    assert brackets(told).endswith(ends[1])


def test_reasoning_of_gpt_oss_as_context_keeps_the_final_channel() -> None:
    told = explain(real("gptoss"), talk(QUESTION, THOUGHT), Policy(reasoning=False))
    assert brackets(told).endswith("hm<|end|>⟦<|start|>assistant<|channel|>final<|message|>So.<|return|>⟧")


IN_FRONT = bot("<think>HIDE</think>")


@pytest.mark.parametrize(
    ("name", "message", "policy", "want"),
    [
        ("qwen2_5", bot("", reasoning="hm"), {}, "message_not_rendered"),
        ("deepseekv3", bot("", reasoning="hm"), {}, "message_not_rendered"),
        ("axolotl_metharme", bot("  "), {}, "message_not_rendered"),
        ("axolotl_mistral_v2v3", bot("  "), {}, "message_not_rendered"),
        ("glm4moe", bot("  "), {}, "message_not_rendered"),
        ("seed_oss", bot("  "), {}, "message_not_rendered"),
        ("qwen3", bot("\n\n"), {"reasoning": False}, "message_not_rendered"),
        ("gptoss", bot("So.", tool_calls=(CALL_NINE, CALL_NINE)), {}, "message_not_rendered"),
        ("qwen3", IN_FRONT, {"reasoning": False}, ""),
        ("qwen3_training", IN_FRONT, {"reasoning": False}, ""),
        ("glm4moe", IN_FRONT, {"reasoning": False}, ""),
        ("gptoss", IN_FRONT, {"reasoning": False}, ""),
        ("gptoss", bot("", reasoning="hm"), {"reasoning": False}, ""),
        ("qwen3", bot(tool_calls=(CALL_NINE,)), {"tool_calls": False}, ""),
        ("gptoss", bot("<think>HIDE</think>say"), {"reasoning": False}, "say<|return|>"),
        ("gptoss_training", bot("<think>HIDE</think>say"), {"reasoning": False}, "say<|return|>"),
        ("glm4moe", IN_FRONT, {}, "\n<think>HIDE</think>"),
        ("glm4moe", bot("", reasoning="hm"), {}, "\n<think>hm</think>"),
        (
            "gptoss", bot("", reasoning="hm"), {},
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|><|return|>",
        ),
    ],
)  # fmt: skip
def test_real_answers_of_one_part(name: str, message: Message, policy: dict[str, Any], want: str) -> None:
    told = explain(real(name), talk(QUESTION, message), Policy(**policy))
    spans = re.findall("⟦(.*?)⟧", brackets(told), re.DOTALL)
    assert (told.problem[0] if told.problem else "".join(spans)) == want


SAID = st.lists(
    st.sampled_from(["say", " ", "\n\n", "<think>", "</think>", "`</think>`", "<|im_end|>", "é"]), max_size=4
).map("".join)
LEADING = st.sampled_from(["", "", "<think>HIDE</think>", "<think>\nHIDE\n</think>\n\n", "\n<think>HIDE</think>"])
OTHER_CALL = {"id": "call00002", "type": "function", "function": {"name": "put", "arguments": {"x": "é"}}}
PARTS = st.builds(
    lambda lead, text, thought, calls: bot(lead + text, reasoning=thought, tool_calls=calls),
    LEADING, SAID, st.sampled_from([None, None, "", " ", "HIDE"]),
    st.sampled_from([(), (), (CALL_NINE,), (CALL_NINE, OTHER_CALL)]),
)  # fmt: skip
ROUNDS = st.lists(PARTS, min_size=1, max_size=3).map(
    lambda answers: talk(*(message for answer in answers for message in (QUESTION, answer)))
)


@settings(max_examples=400, deadline=None)
@given(st.data(), ROUNDS, POLICIES)
def test_no_answer_is_trained_for_the_templates_text_alone(
    data: st.DataObject, conversation: Conversation, policy: Policy
) -> None:
    """Over all templates; and without thoughts none is trained."""
    template = real(data.draw(st.sampled_from(names())))
    (row,) = rows(template, policy, [conversation])
    if not isinstance(row, Row):
        return
    told = explain(template, conversation, policy)
    assert told.problem is None
    assert told.mask.tolist() == row.arrays["loss_mask"].tolist()
    check(template, conversation, policy, told)
    if not policy.reasoning:
        assert template.tokenizer is not None
        assert "HIDE" not in template.tokenizer.decode(told.encoded.ids[told.mask])


def test_which_templates_have_one_generation_prompt() -> None:
    assert {name for name in names() if real(name).one_prompt} == {
        "axolotl_alpaca", "axolotl_chatml", "axolotl_metharme", "glm4moe", "phi3_5", "phi3_5_training", "phi4",
        "qwen2_5", "qwen2_5_training", "qwen3", "qwen3_instruct_2507", "qwen3_training", "seed_oss", "smollm2",
    }  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.data(), TALKS, POLICIES)
def test_real_templates_by_each_opening_once(data: st.DataObject, conversation: Conversation, policy: Policy) -> None:
    template = real(data.draw(st.sampled_from([name for name in names() if real(name).one_prompt])))
    assert targets(template, conversation, policy, True) == targets(template, conversation, policy, False)


def test_a_long_conversation_renders_one_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    template, asked = chat(CHATML), []
    text = ChatTemplate.text
    monkeypatch.setattr(
        ChatTemplate, "text", lambda self, *given, **more: asked.append(1) or text(self, *given, **more)
    )
    long = talk(*(QUESTION, ANSWER) * 100)
    lay(template, long, ALL, thorough=False)
    asked.clear()
    assert len(lay(template, long, ALL, thorough=False).targets) == 100
    assert len(asked) == 1
