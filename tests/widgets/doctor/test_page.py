"""Findings drawn: every severity has a sign and a word, tokens link to their chips, nothing of the data is trusted."""

from __future__ import annotations

import re

import pytest

from prep_lib.chat.rules import RULES
from prep_lib.chat.symptoms import CAUSES, Finding, Repair, TokenAt, symptoms
from prep_lib.words import LANGS, WORDS
from widgets.doctor.page import SYMPTOMS, page, sentence, view

EVIL = "<script>alert(1)</script>\u202e"
CHANGED = Repair(
    "move it", "{{ 1 }}\n{% generation %}b{% endgeneration %}", "use it", ("14 conversations are the same",)
)
FOUND = Finding(
    "EOT_NOT_TRAINED", "error", "2 are outside", (TokenAt(7, 22, 3, "<|im_end|>"),), (7, 8), CHANGED, of=1200
)


def test_nothing_found_is_said() -> None:
    assert "✓" in page([])
    assert "Nothing was found." in page([])
    assert "没有发现问题" in page([], lang="zh")


def test_a_finding_shows_sign_word_rule_rows_token_and_repair() -> None:
    html = page([FOUND], source="{{ 1 }}\nb")
    assert 'class="note bad"' in html
    assert "✗" in html
    assert "error" in html
    assert "EOT_NOT_TRAINED" in html
    assert "2 of 1,200 rows: 7, 8" in html
    assert '<a href="#t-7-22"' in html
    assert "14 conversations are the same" in html
    assert "+{% generation %}b{% endgeneration %}" in html
    assert "-b" in html
    assert " {{ 1 }}" in html


@pytest.mark.parametrize(
    ("severity", "look", "sign"), [("error", "bad", "✗"), ("warning", "warn", "!"), ("note", "ok", "i")]
)
def test_each_severity_looks_and_reads_differently(severity: str, look: str, sign: str) -> None:
    html = page([Finding("NO_TARGET", severity, "x")])
    assert f'class="note {look}"' in html
    assert f"<b>{sign}</b>" in html
    assert severity in html


def test_advice_is_not_told_as_proven() -> None:
    html = page([Finding("NO_TARGET", "warning", "x", repair=Repair("drop", None, "drop them"))])
    assert "advice, not proven" in html
    assert "✓ " not in html


def test_a_changed_template_without_the_old_one_is_shown_whole() -> None:
    assert "{{ 1 }}" in page([FOUND])


def test_tokens_of_probes_and_of_no_row_do_not_link() -> None:
    tokens = (TokenAt(-1, 3, 5, " "), TokenAt(-1, -1, -1, ""))
    html = page([Finding("DOUBLE_BOS", "warning", "x", tokens)])
    assert "href" not in html
    assert "␣" in html
    assert "no id" in html


def test_many_tokens_and_rows_are_counted_not_drawn() -> None:
    tokens = tuple(TokenAt(0, at, at, "a") for at in range(20))
    html = page([Finding("NO_TARGET", "warning", "x", tokens, tuple(range(100)), of=100)])
    assert html.count("href=") == 12
    assert "and 8 more" in html
    assert "and 88 more" in html


def test_symptoms_are_ticked_three_ways() -> None:
    html = page([FOUND], symptoms([FOUND], ("template", "tokenizer")))
    assert "✗ The model never stops: causes found: 1" in html
    assert "✗ found" in html
    assert "✓ ruled out" in html
    assert "? not known" in html
    assert "no model folder was given" in html
    assert "→ retrain: 2 of 1,200 rows lack the stop token" in html


def test_a_symptom_without_causes_is_cleared() -> None:
    told = symptoms([], ("template", "tokenizer", "folder", "data"))
    assert page([], told).count("every cause is ruled out") == len(told)


def test_nothing_from_data_is_trusted() -> None:
    repair = Repair(EVIL, EVIL, EVIL, (EVIL,))
    evil = Finding("NO_TARGET", "error", EVIL, (TokenAt(0, 0, 0, EVIL),), (0,), repair, of=1, template=EVIL)
    html = page([evil, Finding(EVIL, "note", EVIL)], symptoms([evil]), source=EVIL + "x")
    assert "<script" not in html
    assert "\u202e" not in html


@pytest.mark.parametrize("lang", LANGS)
def test_every_rule_has_a_sentence(lang: str) -> None:
    for rule in {*RULES, *(cause for causes in CAUSES.values() for cause in causes)}:
        assert sentence(rule, lang), rule
    assert sentence("NO_SUCH_RULE", lang) == ""


def test_every_rule_of_a_folder_has_a_sentence() -> None:
    """Read in the source: a rule that is missing here would be shown without its sentence."""
    import inspect

    from prep_lib.chat import facts

    named = set(re.findall(r'(?:_fact|Fact)\(\s*"([A-Z_]+)"', inspect.getsource(facts)))
    named |= {f"{role}_{rest}" for role in ("EOS", "PAD", "BOS") for rest in ("NOT_A_TOKEN", "DISAGREES")}
    named |= {"BOS_ADDED_BY_TOKENIZER", "EOS_ADDED_BY_TOKENIZER", "BOS_FLAG_DISAGREES", "EOS_FLAG_DISAGREES"}
    named |= {rule for rule, _, _ in facts._FLAG_RULES} | {"TRUNCATION_STORED", "PADDING_STORED"}
    assert not {rule for rule in named if f"doctor.{rule}" not in WORDS}


def test_one_repair_of_two_findings_is_shown_once() -> None:
    html = page([FOUND, Finding("NO_TERMINATOR_MID_TURN", "error", "x", repair=CHANGED)])
    assert html.count("14 conversations are the same") == 1
    assert "the same as for EOT_NOT_TRAINED" in html
    assert "与 EOT_NOT_TRAINED 的修复相同" in page([FOUND, FOUND], lang="zh")


def test_causes_stand_in_two_columns_with_their_evidence_below() -> None:
    html = page([], symptoms([FOUND], ("template", "tokenizer")))
    row = next(line for line in html.split("<tr>") if "EOT_NOT_TRAINED" in line)
    assert row.count("<td") == 2
    assert "2 are outside" in row
    assert 'href="#t-7-22"' in row


def test_every_symptom_has_its_words() -> None:
    assert set(SYMPTOMS) == set(CAUSES)
    assert "模型停不下来" in page([], symptoms([]), lang="zh")


def test_a_cell_says_it_in_one_line() -> None:
    assert repr(view([FOUND])) == "<doctor: errors 1 · warnings 0 · notes 0>"
    assert view([FOUND])._repr_html_() == page([FOUND])
