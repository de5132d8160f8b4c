"""One table, one pass; and everything that only looks like typography stays."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.errors import BadParameter
from prep_lib.record import Document
from prep_lib.special import CONTROL_TOKENS
from prep_lib.text.normalize import DEFAULT_REPLACEMENTS, TextNormalizer

MARKS = st.sampled_from(
    [*DEFAULT_REPLACEMENTS, *CONTROL_TOKENS, "你", "，", "a", " ", "\n", "\t", "-", ".", "'", "<", "|"]
)
TEXTS = st.lists(MARKS | st.characters(codec="utf-8"), max_size=40).map("".join)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("“curly” ‘single’ it’s „low“ ‚low‘", "\"curly\" 'single' it's \"low\" 'low'"),
        ("pages 3–5, well‐known, a‑b, ‒", "pages 3-5, well-known, a-b, -"),
        ("one—two ― three", "one--two -- three"),
        ("wait… what", "wait... what"),
        ("他说：“你好……”——完", '他说："你好..."--完'),
        ("", ""),
    ],
)
def test_the_default_table(text: str, expected: str) -> None:
    assert TextNormalizer().normalize(text) == expected


@pytest.mark.parametrize("keep_cjk", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "你好，世界。！？；：（）《》【】「」『』、～＂＇－",  # full-width punctuation is Chinese, not typography
        "می‌روم",  # Persian with a zero-width non-joiner
        "क्‍ष",  # an Indic conjunct with a zero-width joiner
        "👨‍👩‍👧 🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",  # a family, the flag of Scotland
        "def f(a,b):\n\treturn a\tor b\n    # four  spaces \r\n",
        *CONTROL_TOKENS,
        "5 − 3, 6′ 2″, «non», ‹non›, ʼ, · •, e\u0301",
        "\x00\x1b[0m\u2028\ufeff",
    ],
)
def test_what_is_never_touched(text: str, keep_cjk: bool) -> None:
    assert TextNormalizer(keep_cjk=keep_cjk).normalize(text) == text


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.booleans())
def test_a_second_pass_changes_nothing(text: str, keep_cjk: bool) -> None:
    stage = TextNormalizer(keep_cjk=keep_cjk)
    once = stage.normalize(text)
    assert stage.normalize(once) == once


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_characters_outside_the_table_stay_in_their_order(text: str) -> None:
    keys, written = set("".join(DEFAULT_REPLACEMENTS)), set("'\"-.")
    rest = [character for character in text if character not in keys | written]
    assert [character for character in TextNormalizer().normalize(text) if character not in written] == rest


def test_a_custom_rule_wins_over_the_default_and_the_others_stay() -> None:
    stage = TextNormalizer({"…": " etc.", "™": "(tm)"})
    assert stage.normalize("a… “b”™") == 'a etc. "b"(tm)'


def test_the_empty_string_deletes_and_a_text_mapped_to_itself_stays() -> None:
    assert TextNormalizer({"®": "", "“": "“", "”": "”"}).normalize("“A®” it’s") == "“A” it's"


def test_the_longest_rule_wins_in_any_order_and_nothing_cascades() -> None:
    for rules in ({"a": "b", "aa": "x", "b": "c"}, {"b": "c", "aa": "x", "a": "b"}):
        assert TextNormalizer(rules).normalize("aaab") == "xbc"


def test_a_rule_is_text_not_a_pattern() -> None:
    assert TextNormalizer({".*": r"\1", "(": ""}).normalize("a.*(b") == r"a\1b"


def test_a_control_token_is_passed_over_unless_a_rule_names_it() -> None:
    text = "<｜im▁start｜>a|b▁c<|endoftext|>"
    assert TextNormalizer({"|": "/", "▁": "_", "｜": "|"}).normalize(text) == "<｜im▁start｜>a/b_c<|endoftext|>"
    assert TextNormalizer({"<|endoftext|>": "", "|": "/"}).normalize(text) == "<｜im▁start｜>a/b▁c"


def test_keep_cjk_spares_whole_lines_and_custom_rules_still_apply_there() -> None:
    stage = TextNormalizer({"，": ","}, keep_cjk=True)
    assert (
        stage.normalize("“Hello，” 世界…\n“Hello，”…\nかな—\n한국 “어”")
        == '“Hello,” 世界…\n“Hello,”…\nかな—\n한국 "어"'
    )
    assert stage.normalize("“Hello”…\nかな—") == '"Hello"...\nかな—'
    assert TextNormalizer({"\n": " "}).normalize("“a”\n你") == '"a" 你'


@pytest.mark.parametrize(
    ("rules", "keep_cjk", "sentence"),
    [
        ({"": "x"}, False, "the rule '' -> 'x' replaces nothing"),
        ({"a": None}, False, "must map text to text, got 'a': None; '' deletes"),
        ({1: "x"}, False, "must map text to text, got 1: 'x'"),
        ([("a", "b")], False, "custom_rules must map text to text, got list"),
        ({"a\nb": ""}, True, "keep_cjk works by line"),
    ],
)
def test_nonsense_is_refused_at_birth(rules: dict[str, str], keep_cjk: bool, sentence: str) -> None:
    with pytest.raises(BadParameter, match=sentence):
        TextNormalizer(rules, keep_cjk=keep_cjk)


def test_it_is_a_map_stage_that_leaves_an_unchanged_document_alone() -> None:
    stage, doc = TextNormalizer(), Document("a#L1", "“x”", "web", {"k": 1})
    assert stage.name == "normalize"
    assert stage.map(doc) == Document("a#L1", '"x"', "web", {"k": 1})
    plain = Document("a#L2", "x")
    assert stage.map(plain) is plain


def test_a_stage_travels_to_a_worker_and_later_changes_to_the_mapping_do_not_reach_it() -> None:
    rules = {"a": "b"}
    stage = TextNormalizer(rules)
    rules["a"] = "c"
    again = pickle.loads(pickle.dumps(stage))
    assert again == stage
    assert again.normalize("a…") == stage.normalize("a…") == "b..."
