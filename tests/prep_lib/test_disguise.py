"""A shape tells length and structure and nothing else; a name is an alias, unless it is one of ours."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prep_lib.alerts import Alert
from prep_lib.comparison import Changed
from prep_lib.disguise import LETTERS, MARKS, Disguise, _is_version, our_words, shape
from prep_lib.ledger import Ledger

#: Everything a shape may be made of.
LEFT = set(MARKS) | set(LETTERS.values()) | set("xX0# ЖΛ")


@given(st.text(max_size=60))
def test_a_shape_holds_no_character_that_says_anything(text: str) -> None:
    assert set(shape(text)) <= LEFT
    assert shape(shape(text)) == shape(text)


@given(st.text(st.sampled_from("abzAZ09 .,\n某明"), max_size=40), st.text(st.sampled_from("cdyCY18"), max_size=9))
def test_texts_of_one_shape_are_not_told_apart(text: str, other: str) -> None:
    moved = str.maketrans("abzAZ09明", "qrsQR58水")
    assert shape(text) == shape(text.translate(moved))
    assert len(shape(text)) == len(text)
    assert not set(shape(text + other)) & set("abcdyzABCYZ123456789明")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Hi, Ann! 42", "Xx, Xxx! 00"), ("你好，World", "某某，Xxxxx"), ("Привет", "Жжжжжж"), ("かなカナ", "ああアア"),
        ("e\u0301\u200b\ue000", "x"), ("🙂½", "#0"), ("\u202eabc\u00a0d", "xxx x"), ("한글", "가가"),
    ],
)  # fmt: skip
def test_shapes(text: str, said: str) -> None:
    assert shape(unicodedata.normalize("NFD", text) if text == "e" else text) == said


def test_a_name_has_one_alias_and_an_alias_one_name() -> None:
    disguise = Disguise()
    told = [disguise.alias("source", name) for name in ("web", "code", "web", "talk")]
    assert told == ["#1", "#2", "#1", "#3"]
    assert disguise.file("my data.jsonl.gz") == "#1.jsonl.gz"
    assert disguise.file("secret.about.ann") == "#2"
    assert Disguise(names=str).alias("source", "web") == "web"


def test_reasons_of_ours_are_told_and_others_are_not() -> None:
    disguise = Disguise(names=str)
    for ours in (
        "near_duplicate",
        "fineweb2/cmn:fineweb.end_mark_lines",
        "gopher/datatrove:gopher_repetition.top_2_gram",
    ):
        assert disguise.ours(ours, "reason") == ours
    assert disguise.ours("ann_is_fired", "reason") == "reason 1"
    assert disguise.ours("near_duplicate of ann", "reason") == "reason 2"


def test_our_words_are_names_and_no_texts() -> None:
    assert {"near_dedup", "too_long", "alpha_words"} <= our_words()
    assert not {"ann", "quetzalcoatl"} & our_words()


@pytest.mark.parametrize(
    ("notebook", "name", "value", "said"),
    [
        ("12_dedup", "threshold", 0.7, 0.7),
        ("22_tensorize", "packing", "best_fit", "best_fit"),
        ("22_tensorize", "memory_budget", "8GiB", "8GiB"),
        ("22_tensorize", "strategy_params", "a='<s>ann'", "text 1 (10)"),
        ("10_read", "inputs", "/data/ann.jsonl", "text 1 (15)"),
        ("11_clean", "limits", "fineweb/code:c4.braces<=off ann:x>=3", "fineweb/code:c4.braces<=off rule 1"),
        ("13_mix", "weights", "ann=0.7 rest=0.3", "#1=0.7 rest=0.3"),
        ("99_own", "threshold", "ann", "text 1 (3)"),
        ("99_own", "secret", "4155559999", "text 1 (10)"),
        ("10_read", "inputs", "13800138000", "text 1 (11)"),
        ("13_mix", "budget", "500M", "500M"),
        ("11_clean", "limits", "13800138000>=3 fineweb/code:13800138000<=1", "rule 1 rule 2"),
        ("11_clean", "rules", "13800138000", "rule 1"),
        ("13_mix", "weights", "13800138000=0.7 13800138000", "#1=0.7 text 1"),
    ],
)
def test_values_of_parameters(notebook: str, name: str, value: object, said: object) -> None:
    assert Disguise().value(notebook, name, value) == said


@pytest.mark.parametrize("name", ["13800138000", "near_dedup.13800138000", "too_long:1", "2024-01-01", "４２"])
def test_a_name_of_digits_is_nobodys_but_its_owners(name: str) -> None:
    disguise = Disguise(names=str)
    assert disguise.ours(name, "reason") == "reason 1"
    assert Disguise().notebook(f"11_clean/{name}") == "11_clean/#1"
    assert name not in Disguise()._output(f"data/15_pack/{name}.bin")
    assert Disguise()._output("data/15_pack/shard-00012.bin") == "15_pack/shard-00012.bin"
    told = Disguise().alert(
        Alert("bad", "source", dict.fromkeys(("source", "reason", "stage", "notebook", "what"), name))
    )
    assert name not in told.values.values()
    ledger = Ledger()
    ledger.add("read", "dropped", name, name, documents=1)
    assert name not in Disguise().ledger(ledger).to_json()


def test_a_number_is_no_digest_and_no_version() -> None:
    disguise = Disguise()
    setting = [Changed("", "sha256", one, other) for one, other in [("13800138000" * 3, "1" * 20), ("ab" * 32, 7)]]
    assert [(found.one, found.other) for found in map(disguise._setting, setting)] == [
        ("text 1", "text 2"), ("ab" * 6, 7),
    ]  # fmt: skip
    told = {"numpy": "2.4.6", "torch": "2.9.0+cu128", "pandas": "13800138000", "datasets": "4.1 by ann"}
    assert [name for name in told.items() if _is_version(name)] == [("numpy", "2.4.6"), ("torch", "2.9.0+cu128")]


def test_a_ledger_keeps_its_numbers_and_balance() -> None:
    ledger = Ledger()
    ledger.add("read", "in", "ann", documents=3, characters=9)
    ledger.add("read", "kept", "ann", documents=2, characters=5)
    ledger.add("read", "dropped", "ann", "ann_said_so", documents=1, characters=4)
    told = Disguise().ledger(ledger)
    told.check()
    assert "ann" not in told.to_json()
    assert told.total("read", "kept", unit="characters") == 5
    assert told.reasons("read", "dropped") == {"reason 1": 1}


def test_a_warning_quotes_numbers_and_aliases_only() -> None:
    values = {"notebook": "ann", "text": "ann went", "n": 3, "share": "62.0 %", "source": "ann", "reason": "too_long"}
    told = Disguise().alert(Alert("bad", "failed", {**values, "again": "prep run ann", "names": "12_dedup, ann …"}))
    assert told.values == {
        "notebook": "notebook 1", "text": "…", "n": 3, "share": "62.0 %", "source": "#1", "reason": "too_long",
        "again": "…", "names": "12_dedup, notebook 1",
    }  # fmt: skip
