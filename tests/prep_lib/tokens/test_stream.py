"""One EOS behind each document, and what documents cost."""

import math
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.tokens.stream import Census, Cost, Costs, _words, census, fertility, measure
from prep_lib.tokens.tokenizer import AutoTokenizer

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@settings(deadline=None)  # the first call compiles
@given(st.lists(texts, max_size=8))
def test_bytes_and_characters_are_pythons(found: list[str]) -> None:
    assert measure(found)[:, :2].tolist() == [[len(text.encode()), len(text)] for text in found]


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.text(st.sampled_from("ab é\u3000\n\t\u00a0\u2028\x1f\x85ßЖ🙂"), max_size=30), max_size=6))
def test_words_of_scripts_with_blanks_are_pythons(found: list[str]) -> None:
    assert measure(found)[:, 2].tolist() == [len(text.split()) for text in found]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("猫坐下了", 4), ("バスで行く。", 6), ("ไทย", 3), ("GPT模型 ok", 4), ("한국어 하나", 2), ("𠀀𠀁", 2),
        ("שלום עולם", 2), ("हिन्दी क्षत्रिय", 2), ("a\u200bb", 1), ("🙂🙂 🙂", 2), ("", 0), (" \n ", 0),
    ],
)  # fmt: skip
def test_a_character_is_a_word_where_nothing_stands_between_words(text: str, words: int) -> None:
    assert measure([text])[0, 2] == words


def test_every_blank_of_python_ends_a_word() -> None:
    blanks = [chr(code) for code in range(0x110000) if chr(code).isspace()]
    assert measure([f"a{blank}b" for blank in blanks])[:, 2].tolist() == [2] * len(blanks)
    assert all(unicodedata.category(blank) in ("Zs", "Zl", "Zp", "Cc") for blank in blanks)


@settings(deadline=None)  # the first call compiles
@given(st.lists(texts, max_size=4))
def test_the_kernel_counts_what_its_python_twin_counts(found: list[str]) -> None:
    raw = [text.encode() for text in found]
    ends = np.cumsum([len(each) for each in raw], dtype=np.int64)
    out = np.zeros((2, len(raw), 2), np.int64)
    whole = np.frombuffer(b"".join(raw), np.uint8)
    _words(whole, ends, out[0])
    _words.python(whole.astype(np.int64), ends, out[1])
    assert out[0].tolist() == out[1].tolist()


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.integers(0, 3), max_size=12), st.integers(0, 3))
def test_the_census_is_right_only_where_ends_and_eos_stand_together(lengths: list[int], eos: int) -> None:
    """Documents of 7 and one EOS each: nothing is misplaced; one more EOS anywhere is."""
    stream = np.array([id for length in lengths for id in [7] * length + [eos]], np.int64)
    ends = np.cumsum([length + 1 for length in lengths], dtype=np.int64)
    assert census(stream, ends, eos) == Census(len(lengths), len(lengths), 0)
    for at in np.flatnonzero(stream == 7):
        spoiled = stream.copy()
        spoiled[at] = eos
        assert census(spoiled, ends, eos).misplaced == 1
    for at in ends - 1:
        spoiled = stream.copy()
        spoiled[at] = 7
        assert census(spoiled, ends, eos).misplaced == 1


def test_censuses_add_up() -> None:
    assert Census(1, 2, 3) + Census(10, 20, 30) == Census(11, 22, 33)


def test_fertility_counts_every_group_by_itself_in_any_order() -> None:
    tokenizer = AutoTokenizer().train(["the cat the cat 猫"], vocab_size=300)
    documents = [("web", "en", "the cat"), ("web", "zh", "猫猫"), ("web", "en", "<｜im▁end｜> the"), ("code", None, "")]
    found = fertility(documents, tokenizer)
    assert found == fertility(documents[::-1], tokenizer)
    assert [(one.source, one.language, one.documents) for one in found] == [
        ("code", None, 1), ("web", "en", 2), ("web", "zh", 1),
    ]  # fmt: skip
    empty, english, chinese = found
    assert english.tokens == len(tokenizer.encode("the cat")) + len(tokenizer.encode("<｜im▁end｜> the"))
    assert (english.literal_specials, chinese.literal_specials) == (1, 0)
    assert (chinese.bytes, chinese.characters, chinese.words) == (6, 2, 2)
    assert chinese.bytes_per_token == 6 / chinese.tokens
    assert math.isnan(empty.bytes_per_token)
    assert math.isnan(empty.tokens_per_word)


def test_costs_add_up() -> None:
    costs = Costs()
    for number in (1, 10):
        costs.add(Cost("web", "en", number, number, number, number, number, number))
    assert costs.sorted() == [Cost("web", "en", 11, 11, 11, 11, 11, 11)]
    assert costs.sorted()[0].tokens_per_word == 1.0


def test_many_documents_go_through_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = AutoTokenizer().train(["the cat"], vocab_size=300)
    documents = [("web", "en", "the cat " * n) for n in range(20)]
    whole = fertility(documents, tokenizer)
    monkeypatch.setattr("prep_lib.tokens.stream._BATCH", 50)
    assert fertility(iter(documents), tokenizer) == whole
