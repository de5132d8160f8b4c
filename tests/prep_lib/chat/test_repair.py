"""Repairs: each is proven by running it, and where the proof fails only advice is given."""

from __future__ import annotations

import pytest

from prep_lib.chat.mask import Policy
from prep_lib.chat.probes import PROBES
from prep_lib.chat.repair import (
    _KINDS,
    add_stop,
    advice,
    fix_date,
    fix_marker,
    keep_blanks,
    repair_of,
    shorten_prompt,
)
from prep_lib.chat.rules import RULES, Case
from prep_lib.chat.symptoms import Repair
from prep_lib.chat.template import ChatTemplate
from prep_lib.tokens.tokenizer import AutoTokenizer

CHAT = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@pytest.fixture(scope="module")
def tokenizer() -> AutoTokenizer:
    return AutoTokenizer().train(["a"], vocab_size=270, special_tokens=["<|im_start|>", "<|im_end|>", "</s>"])


def cases(template: ChatTemplate) -> list[Case]:
    return [Case(-1, template, probe, Policy()) for probe in PROBES]


def made(source: str, tokenizer: AutoTokenizer) -> tuple[ChatTemplate, list[Case]]:
    template = ChatTemplate(source, tokenizer)
    return template, cases(template)


def test_a_marker_is_spelled_as_the_tokenizer_has_it(tokenizer: AutoTokenizer) -> None:
    repair = fix_marker(*made(CHAT.replace("<|im_end|>", "<｜im▁end｜>"), tokenizer))
    assert repair is not None
    assert repair.template == CHAT
    assert "becomes '<|im_end|>' (id 1)" in repair.proofs[0]


def test_a_marker_nothing_is_like_is_left(tokenizer: AutoTokenizer) -> None:
    assert fix_marker(*made(CHAT.replace("<|im_end|>", "<|stop|>"), tokenizer)) is None
    assert fix_marker(*made(CHAT, tokenizer)) is None


def test_a_stop_token_is_added_where_it_is_missing_and_nowhere_else(tokenizer: AutoTokenizer) -> None:
    middle = CHAT.replace("+ '<|im_end|>\n' }}", "}}{% if loop.last %}{{ '<|im_end|>' }}{% endif %}")
    repair = add_stop(*made(middle, tokenizer))
    assert repair is not None
    assert repair.template is not None
    assert "{% if m.role == 'assistant' and not loop.last %}{{ '<|im_end|>' }}{% endif %}" in repair.template
    assert add_stop(*made(CHAT.replace(" + '<|im_end|>\n'", ""), tokenizer)) is not None


def test_without_any_stop_token_there_is_none_to_add() -> None:
    bare = AutoTokenizer().train(["a"], vocab_size=270, special_tokens=["<|im_start|>"])
    assert add_stop(*made(CHAT.replace(" + '<|im_end|>\n'", ""), bare)) is None


def test_only_the_trim_that_takes_something_is_taken_out(tokenizer: AutoTokenizer) -> None:
    source = CHAT.replace("m.role", "(m.role | trim)").replace("m.content", "m.content|trim")
    repair = keep_blanks(*made(source, tokenizer))
    assert repair is not None
    assert repair.template == CHAT.replace("m.role", "(m.role | trim)")
    assert "keep them in 2 conversations" in repair.proofs[0]


def test_a_trim_written_otherwise_is_not_repaired(tokenizer: AutoTokenizer) -> None:
    source = CHAT.replace("m.content", "m.content.split() | join(' ')")
    assert keep_blanks(*made(source, tokenizer)) is None


def test_the_date_is_written_out_as_it_is_recorded(tokenizer: AutoTokenizer) -> None:
    repair = fix_date(*made("{{ 'on ' + strftime_now('%Y-%m-%d') }}" + CHAT, tokenizer))
    assert repair.template == "{{ 'on ' + '2026-01-02' }}" + CHAT
    assert repair.what == "the date is fixed to 2026-01-02 and recorded"


def test_a_date_whose_form_is_computed_is_advice(tokenizer: AutoTokenizer) -> None:
    repair = fix_date(*made("{% set f = '%Y' %}{{ strftime_now(f) }}" + CHAT, tokenizer))
    assert repair.template is None
    assert not repair.proofs


def test_a_prompt_is_cut_where_training_begins(tokenizer: AutoTokenizer) -> None:
    template, probes = made(CHAT.replace("assistant\n'", "assistant\n<think>\n'"), tokenizer)
    repair = shorten_prompt(template, probes[:1], probes)
    assert repair is not None
    assert repair.template == CHAT


def test_a_prompt_that_is_right_is_not_cut(tokenizer: AutoTokenizer) -> None:
    template, probes = made(CHAT, tokenizer)
    assert shorten_prompt(template, probes[:1], probes) is None


def test_advice_stands_where_nothing_is_proven(tokenizer: AutoTokenizer) -> None:
    _template, probes = made(CHAT.replace("m.content", "m.content.split() | join(' ')"), tokenizer)
    repair = repair_of("CONTENT_TRIMMED", probes, [])
    assert repair is not None
    assert repair == advice("CONTENT_TRIMMED")
    assert (repair.template, repair.proofs) == (None, ())
    assert repair_of("TEMPLATE_FAILS", probes, []) is None


def test_no_template_is_handed_out_without_proof(tokenizer: AutoTokenizer) -> None:
    for source in (CHAT, CHAT.replace("<|im_end|>", "<｜im_end｜>"), CHAT.replace("m.content", "m.content | trim")):
        _template, probes = made(source, tokenizer)
        for rule in RULES:
            repair = repair_of(rule, probes[:1], [])
            assert repair is None or repair.template is None or repair.proofs, rule


def test_one_repair_is_looked_for_once(tokenizer: AutoTokenizer) -> None:
    _, probes = made(CHAT.replace("+ '<|im_end|>", "+ '"), tokenizer)
    known: dict[str, Repair | None] = {}
    first = repair_of("EOT_NOT_TRAINED", probes, [], known)
    assert first is not None
    assert repair_of("NO_TERMINATOR_MID_TURN", probes, [], known) is first
    assert set(_KINDS) <= set(RULES)
