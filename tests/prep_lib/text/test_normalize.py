"""The table of punctuation: one pass, and what only looks like typography stays. The stage: nothing is lost unseen."""

from __future__ import annotations

import json
import pickle
import re
from collections import Counter

import numpy as np
import pytest
from conftest import shared
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.errors import BadParameter
from prep_lib.record import Document
from prep_lib.special import CONTROL_TOKENS
from prep_lib.stage import Map, run
from prep_lib.text import normalize
from prep_lib.text.normalize import DEFAULT_REPLACEMENTS, Normalize, TextNormalizer

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
    assert stage.name == "punctuation"
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


# ---------------------------------------------------------------------------------------------------------------------
# The stage
# ---------------------------------------------------------------------------------------------------------------------

SCOTLAND = "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"


@pytest.mark.parametrize(
    ("text", "expected", "changes"),
    [
        ("a\r\nb\rc\x0cd\u2028e", "a\nb\nc\nd\ne", {"newlines": 4}),
        ("WidgetProâ„¢ isnâ€™t", "WidgetPro™ isn’t", {"mojibake": 2}),
        ("d\x92une \x85", "d’une …", {"mojibake": 2}),
        ("a\x00b\x7f\ufffe \x1b[1;31mred\x1b[0m", "ab red", {"control": 5}),
        ("\ufeffin\u200bside Donau\xaddampf a\u2060b", "inside Donaudampf ab", {"invisible": 4}),
        ("see\u202e \u2066this", "see this", {"direction": 2}),
        ("Auf\u200clage", "Auflage", {"joiner": 1}),
        ("say\U000e0068\U000e0069", "say", {"invisible": 1}),
        ("1\xa0000\u2009km", "1 000 km", {"blank": 2}),
        ("cafe\u0301 e\u0301te\u0301 \u212b", "café été Å", {"form": 3}),
        ("\ud83d\ude00 \ud83d.", "😀 \ufffd.", {"surrogate": 2}),
        ("a  \nb\t\n\u3000\nc \t", "a\nb\n\nc", {"trailing": 4}),
        ("a\n\n\n\n\n\nb", "a\n\n\nb", {"blank_lines": 1}),
        ("Belgiâš´", "Belgiâš´", {"mojibake_left": 1}),
        ("lineâ€¨next â€©", "line\nnext\n", {"newlines": 2, "mojibake": 2, "trailing": 1}),
        ("a\u200d\u3000", "a", {"joiner": 1, "trailing": 1}),
        ("“A MANHÃ”\r", "“A MANHÃ”\n", {"newlines": 1, "mojibake_left": 1}),
        ("中Ĺ\x98中\x92\x81", "中Ĺ\x98中’", {"mojibake": 1, "control": 1, "mojibake_left": 1}),
        ("a\u200b \n\r\n\n\n\nb", "a\n\n\nb", {"newlines": 1, "invisible": 1, "trailing": 1, "blank_lines": 1}),
        ("", "", {}),
        (" ", "", {"trailing": 1}),
    ],
)
def test_what_is_put_right_is_counted_by_place(text: str, expected: str, changes: dict[str, int]) -> None:
    assert Normalize().normalize(text) == (expected, changes)


@pytest.mark.parametrize(
    "text",
    [
        "می‌روم",  # BUG-013: Persian
        "क्‍ष",  # BUG-013: an Indic conjunct
        "👨‍👩‍👧",  # BUG-013: a family
        f"{SCOTLAND} 🏳️‍🌈 1️⃣",  # BUG-013: Scotland, and sequences with variation selectors
        "def f(a,b):\n\treturn a\tor b",  # BUG-078
        "    if x:  # two blanks\n\n\n\ty =  1",  # BUG-003
        "バスでデパートへ ＡＢＣ　１２３，。（）",  # BUG-047: voicing marks; full-width forms and their blank
        "“It’s…” — she said: «x²» ﬁ",
        "PDF‌ها שלום\u200f! (\u200eabc)",  # direction marks where there is Hebrew
        "ภาษา\u200bไทย ភាសា\u200bខ្មែរ",  # where a word ends in Thai and Khmer
        "ᠮᠣᠩᠭᠣᠯ\u202fᠤᠨ",  # a Mongolian suffix
        "Größe à l’été, Łódź, Việt Nam, İstanbul",
        "\ue000 \ufffd \u1680 \u034f",
    ],
)
def test_what_carries_meaning_is_the_same_object(text: str) -> None:
    found, changes = Normalize().normalize(text)
    assert found is text
    assert changes == {}


def test_control_tokens_are_never_touched_and_what_is_around_them_is() -> None:
    odd = "<｜e\u0301\u200bâ€™｜>"
    for token in (*CONTROL_TOKENS, "<|endoftext|>", odd):
        assert Normalize(punctuation=True).normalize(f"â€™{token}\x00“x”")[0] == f'\'{token}"x"'


def test_repair_comes_before_punctuation_and_what_could_not_be_repaired_keeps_its_bytes() -> None:
    """BUG-012."""
    stage = Normalize(punctuation=True)
    assert stage.normalize("WidgetProâ„¢ isnâ€™t “new”")[0] == 'WidgetPro™ isn\'t "new"'
    assert stage.normalize("Ä–hm “so”\n“a” – b") == (
        'Ä–hm “so”\n"a" - b',
        {"mojibake_left": 1, "punctuation": 3},
    )
    assert stage.normalize("他说：“你好。”\n“a”")[0] == '他说：“你好。”\n"a"'
    assert Normalize(punctuation=True, rules={"。": "."}).normalize("“。”…") == ('"."...', {"punctuation": 4})


def test_what_is_switched_off_stays() -> None:
    text = "\ufeffcafe\u0301\xa0â€™\r\n x\x85 "
    off = {"mojibake": False, "newlines": False, "form": None, "control": False, "spaces": False}
    assert Normalize(**off).normalize(text)[0] is text  # type: ignore[arg-type]
    assert Normalize(**off | {"newlines": True}).normalize("a\x85b\r\n") == ("a\nb\n", {"newlines": 2})  # type: ignore[arg-type]
    one = {"mojibake": "mojibake", "newlines": "newlines", "form": "form", "control": "invisible", "spaces": "blank"}
    for name, kind in one.items():
        changes = Normalize(**off | {name: "NFC" if name == "form" else True}).normalize(text)[1]  # type: ignore[arg-type]
        assert kind in changes
        assert not set(changes) & set(one.values()) - {kind}


NASTY = [
    *"Ã©…â€™ÂÅžÐ¸ÑРС°ёГ√‚Ä├ΓÇö aAéßxe<|>你。“”—\t\n\r", "\xa0", "\x92", "\x85", "\x81", "\xad", "\x0b", "\x0c", "\x1b",
    "\x1b[0m", "\x00", "\x7f", "\u200b", "\u200c", "\u200d", "\ufeff", "\u2060", "\u200e", "\u202e", "\u2028", "\u202f",
    "\u3000", "\u2003", "\u2000", "\u0301", "\u0303", "\u0338", "\u0315", "\u0344", "\u1100", "\u1161", "\u11a8", "가",
    "\u0e01", "\u0e33", "م", "ی", "क", "्", "ष", "👨", "👩", "🏴", "\U000e0067", "\U000e007f", "\ufe0f", "\ufffe",
    "\ud83d", "\ude00", "\ue000", "\u212b", "\u0958", "\u1820", "\u1025", "\u102e", "\u2029",
    "â€¨", "â€©", "â€‹", "Â\xad", "Â\xa0", "ã€€", "ï»¿", "â€\x8d", "\x94", "\x98", "Ĺ\x98", "Ă\x83",
    "“A MANHÃ”", "СССР»",
    "<|a|>", *CONTROL_TOKENS, SCOTLAND,
    "donâ€™t", "Ã…lesund", "Belgiâš´", "Spaß…", "Ä–hm", "РџСЂРёРІРµС‚", "ÃƒÂ©", "‚Äô", "caf√©",
]  # fmt: skip
ANY_TEXT = st.lists(st.sampled_from(NASTY) | st.characters(), max_size=14).map("".join)
STAGES = st.sampled_from(
    [
        Normalize(), Normalize(punctuation=True), Normalize(mojibake=False), Normalize(form=None, spaces=False),
        Normalize(control=False), Normalize(newlines=False),
    ]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(ANY_TEXT, STAGES)
def test_a_second_pass_changes_nothing_and_is_the_same_object(text: str, stage: Normalize) -> None:
    once, changes = stage.normalize(text)
    again, left = stage.normalize(once)
    assert again is once
    assert left == {kind: n for kind, n in changes.items() if kind == "mojibake_left"}


@settings(max_examples=150, deadline=None)
@given(ANY_TEXT, STAGES)
def test_something_is_counted_exactly_if_something_changed(text: str, stage: Normalize) -> None:
    found, changes = stage.normalize(text)
    assert (found is text) == (found == text) == (not set(changes) - {"mojibake_left"})
    assert all(n > 0 for n in changes.values())
    found.encode("utf-8")


LINES = ANY_TEXT.map(lambda text: " ".join((text + "x").replace("\x85", "").split("\n")).splitlines()[-1])


@settings(max_examples=100, deadline=None)
@given(st.lists(LINES, max_size=4), STAGES)
def test_a_line_is_treated_the_same_alone_and_in_a_text(lines: list[str], stage: Normalize) -> None:
    alone = [stage.normalize(line) for line in lines]
    text, changes = stage.normalize("\n".join(lines))
    assert text == "\n".join(found for found, _ in alone)
    assert changes == sum((Counter(counted) for _, counted in alone), Counter())


def test_a_text_that_needs_too_many_rounds_is_left_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Ã\u200b©"  # what is deleted brings the two halves of a run together
    assert Normalize().normalize(text) == ("é", {"invisible": 1, "mojibake": 1})
    monkeypatch.setattr(normalize, "ROUNDS", 1)
    assert Normalize().normalize(text) == (text, {"unstable": 1})


def test_a_pile_of_marks_costs_no_time_and_keeps_its_form() -> None:
    """To put n marks in order takes n * n steps: without a limit this would take minutes."""
    pile = "e" + "\u0301\u0315" * 200_000
    assert Normalize().normalize(f"e\u0301 {pile}") == (f"é {pile}", {"form": 1})
    assert Normalize().normalize(pile)[0] is pile
    broken = pile.replace("\u0315", "\u0315\x00")
    assert Normalize().normalize(broken) == (pile, {"control": 200_000})


def test_the_cheap_look_knows_every_character_a_rule_looks_for() -> None:
    table = normalize._table()
    classes = {
        normalize.CONTROL: normalize._CONTROLS, normalize.LINE: normalize._LINE_ENDS,
        normalize.UNSEEN: normalize._UNSEEN, normalize.BLANK: normalize._BLANKS,
        normalize.DIRECTION: normalize._DIRECTIONS,
    }  # fmt: skip
    everything = "".join(map(chr, range(0x110000)))
    for flag, inside in classes.items():
        found = [ord(character) for character in re.findall(f"[{inside}]", everything)]
        assert np.flatnonzero(table & flag).tolist() == found


def test_the_stage_writes_what_changed_and_keeps_the_rest_of_the_meta() -> None:
    stage = Normalize()
    assert isinstance(stage, Map)
    changed = stage.map(Document("a#L1", "x\r\n", "web", {"url": "u"}))
    assert changed == Document("a#L1", "x\n", "web", {"url": "u", "changes": {"newlines": 1}})
    assert stage.map(changed) is changed
    suspect = stage.map(Document("a#L2", "Belgiâš´"))
    assert suspect.meta == {"changes": {"mojibake_left": 1}}
    assert stage.map(suspect) is suspect
    plain = Document("a#L3", "x")
    assert stage.map(plain) is plain
    json.dumps(changed.meta)


def test_both_stages_can_stand_in_one_run() -> None:
    result = run([Normalize(), TextNormalizer()], [Document("1", "“itâ€™s”")])
    assert result.kept[0].text == '"it\'s"'
    assert result.ledger.stages == ["normalize", "punctuation"]


def test_a_normalize_stage_travels_to_a_worker() -> None:
    stage = Normalize(punctuation=True, rules={"•": "*"})
    assert pickle.loads(pickle.dumps(stage)) == stage
    assert pickle.loads(pickle.dumps(stage)).normalize("• “â€™”")[0] == '* "\'"'


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"form": "NFKC"}, "form must be \"NFC\" or None, got 'NFKC'"),
        ({"rules": {"a": "b"}}, "rules are for punctuation=True"),
        ({"punctuation": True, "rules": {"": "b"}}, "replaces nothing"),
    ],
)
def test_nonsense_for_the_stage_is_refused_at_birth(parameters: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadParameter, match=sentence):
        Normalize(**parameters)  # type: ignore[arg-type]


def test_real_texts_that_are_right_stay_letter_by_letter() -> None:
    """79 languages; what changes are a joiner, blanks and forms, and nothing is taken for mojibake."""
    import gzip

    with gzip.open(shared("langid/udhr.jsonl.gz"), "rt", encoding="utf-8") as lines:
        texts = [json.dumps(json.loads(line), ensure_ascii=False) for line in lines]
    counted = sum((Counter(Normalize().normalize(text)[1]) for text in texts), Counter())
    assert len(texts) > 50
    assert not counted["mojibake"]
    assert not counted["mojibake_left"]
