"""Shingles are what their plain definitions say, in every script, and the hash is even."""

from __future__ import annotations

import gzip
import itertools
import json
import re

import numpy as np
import pytest
from conftest import shared
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prep_lib.errors import BadParameter
from prep_lib.record import Document
from prep_lib.text.shingles import (
    ascii_table,
    character_table,
    cut_shingles,
    parse_shingle,
    read_shingles,
    shingle_hashes,
    shingle_texts,
    units,
    utf8,
)
from prep_lib.text.word import splitter

#: Characters of all kinds that matter: cased beyond ASCII, blanks of all kinds, digits, words by themselves, marks.
LETTERS = "aBz9 0\n\t\x1c\x00\x85\u3000é\u00c9\u03a3\u03c3\u0130ẞ１٣中国𠀀かはไท\u0e49\u0301ᄀ가-_.“”🙂\U0001e900"
TEXTS = st.text(st.sampled_from(LETTERS), max_size=40)
SPACED = st.text(st.sampled_from("abAB12 \n\té\u00c9\u03a3\u0130жЖ“-.\u3000\xa0"), max_size=60)
#: The first call compiles.
slow = settings(deadline=None)
NAMES = st.sampled_from(["word1", "word2", "word5", "char1", "char3", "char5"])


@slow
@given(SPACED)
@example("ΑΣ ΑΣΑ")
def test_words_are_those_python_splits(text: str) -> None:
    assert units(text, "word5") == text.lower().split()
    words = text.lower().split()
    grams = {" ".join(words[at : at + 5]) for at in range(len(words) - 4)} or set(filter(None, [" ".join(words)]))
    assert set(shingle_texts(text, "word5")) == grams


@slow
@given(TEXTS)
def test_characters_are_those_that_are_no_white_space(text: str) -> None:
    bare = "".join(text.split())
    grams = {bare[at : at + 5] for at in range(len(bare) - 4)} or set(filter(None, [bare]))
    assert set(shingle_texts(text, "char5")) == grams


@slow
@given(TEXTS)
def test_a_character_without_blanks_is_a_word_as_for_the_splitter(text: str) -> None:
    """But for languages that have exceptions of their own, and marks: only what is a word by itself is compared."""
    alone = [word for word in units(text, "word1") if character_table()[ord(word[0])] & 128]
    pieces = [word for chunk in text.lower().split() for word in splitter("character").split_chunk(chunk)]
    assert alone == [word for word in pieces if character_table()[ord(word[0])] & 128]


@slow
@given(TEXTS, TEXTS, NAMES)
@example("a b c d e", "a b c d e f", "word5")
@example("a b", "a", "word2")
def test_hashes_are_equal_where_shingles_are(one: str, two: str, name: str) -> None:
    texts = [*shingle_texts(one, name), *shingle_texts(two, name)]
    hashes = [*shingle_hashes(one, name).tolist(), *shingle_hashes(Document("2", two), name).tolist()]
    assert len(texts) == len(hashes)
    # A whole text shorter than a shingle is no shingle of a longer one.
    size = parse_shingle(name).size
    told = [(text, min(size, len(units(whole, name)))) for whole in (one, two) for text in shingle_texts(whole, name)]
    assert len(set(told)) == len(set(hashes)) == len(set(zip(told, hashes, strict=True)))


@slow
@given(TEXTS)
@example("中abc abc a\u0e49b1c b1c")
def test_a_word_has_one_hash_wherever_it_stands(text: str) -> None:
    alone = [shingle_hashes(word, "word1").tolist() for word in units(text, "word1")]
    assert [[found] for found in shingle_hashes(text, "word1").tolist()] == alone


@slow
@given(TEXTS, NAMES)
def test_the_kernel_is_its_python_twin(text: str, name: str) -> None:
    by, size = parse_shingle(name)
    data = np.frombuffer(utf8(text), np.uint8)
    outs = np.zeros((2, len(data) + 1), np.uint64)
    tables = ascii_table(), character_table()
    with np.errstate(over="ignore"):
        twin = cut_shingles.python(data, size, by == "char", *tables, outs[0])
    assert cut_shingles(data, size, by == "char", *tables, outs[1]) == twin
    if twin[0] >= 0:
        assert outs[0].tolist() == outs[1].tolist()


@pytest.mark.parametrize("name", ["word5", "char5"])
def test_short_texts_are_compared_whole_and_none_has_no_shingle(name: str) -> None:
    assert len(shingle_hashes("", name)) == len(shingle_hashes(" \n\u3000", name)) == 0
    assert len(shingle_hashes("abc", name)) == len(shingle_hashes("a b", name)) == 1
    assert shingle_hashes("a b", name).tolist() != shingle_hashes("a c", name).tolist()
    assert shingle_texts("", name) == []


def test_unique_is_sorted_and_each_once() -> None:
    text = "to be or not to be or not to be"
    assert shingle_hashes(text, "word2", unique=True).tolist() == sorted(set(shingle_hashes(text, "word2").tolist()))


@slow
@given(st.text(st.sampled_from("a1２٣ -中"), max_size=12), NAMES)
def test_the_template_is_the_text_without_its_digits(text: str, name: str) -> None:
    """Runs of digits of any script are one zero; case and white space as shingles see them."""
    other = re.sub(r"\d+", "007", text).upper()
    if not name.startswith("char"):
        assert read_shingles(other.replace(" ", "\n "), name)[1] == read_shingles(text, name)[1]
    assert read_shingles(re.sub(r"\d+", "5", text), name)[1] == read_shingles(text, name)[1]
    assert read_shingles(text + "b", name)[1] != read_shingles(text, name)[1]


def test_words_are_apart_in_the_template_too() -> None:
    assert read_shingles("ab c", "word5")[1] != read_shingles("a bc", "word5")[1]


def test_half_a_surrogate_pair_is_a_character_like_any_other() -> None:
    assert len(shingle_hashes("a \ud800 b", "word2")) == 2
    assert shingle_hashes(Document("1", "\udfff"), "char1").tolist() != shingle_hashes("\ud800", "char1").tolist()


@pytest.mark.parametrize("name", ["word", "word0", "5word", "line5", "word-1", "word1000", "", None, 5])
def test_a_name_that_is_none_is_refused(name: object) -> None:
    with pytest.raises(BadParameter, match="word or char and a number from 1 to 999"):
        shingle_hashes("text", name)  # type: ignore[arg-type]


def test_hashes_do_not_change() -> None:
    """They are in the sketches of runs that may be resumed by a later version: a change must change the stage's key."""
    assert [hex(value) for value in shingle_hashes("The cat sat on 世界", "word3").tolist()] == GOLDEN


def test_every_bit_of_a_hash_is_even() -> None:
    """200,000 shingles of small numbers: no two alike, and each bit set in half of them, within five deviations."""
    found = shingle_hashes(" ".join(map(str, range(200_000))), "word2")
    assert len(np.unique(found)) == len(found)
    share = np.unpackbits(found.view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)
    assert np.abs(share - 0.5).max() < 5 * 0.5 / 200_000**0.5
    swapped = shingle_hashes(" ".join(f"{at} {at + 1} {at}" for at in range(50_000)), "word2")
    assert len(np.unique(swapped)) == len(set(pairs(50_000)))


def pairs(count: int) -> list[tuple[int, int]]:
    words = [number for at in range(count) for number in (at, at + 1, at)]
    return list(itertools.pairwise(words))


@pytest.mark.parametrize(("name", "shingle"), [("legal_en_spdx", "word5"), ("legal_zh_versions", "char5")])
def test_the_gold_definitions(name: str, shingle: str) -> None:
    with gzip.open(shared(f"mixture/{name}.jsonl.gz"), "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines][:40]
    for text in texts:
        words = text.lower().split() if shingle == "word5" else "".join(text.split())
        plain = {tuple(words[at : at + 5]) for at in range(max(len(words) - 4, 1))}
        assert len(shingle_hashes(text, shingle, unique=True)) == len(plain)


GOLDEN = ["0x54bc20e6b8cb5e53", "0x7c7e4e900226d286", "0xcf51ca97b12a5c64", "0xa24c6c26b936f65"]
