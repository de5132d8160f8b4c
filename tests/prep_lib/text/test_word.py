import gzip
import json

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.errors import UnknownName
from prep_lib.jit import Kernel
from prep_lib.text import word
from prep_lib.text.word import Cutter, chunk_hash, count_sentences, splitter

GOLDEN = json.loads(gzip.decompress((ROOT / "tests/golden/quality_documents.json.gz").read_bytes()))
ENGLISH = [doc for doc in GOLDEN if doc["language"] == "en"]
ATOMS = st.sampled_from(
    [*"abXY019.,:;!?'\"()[]-/#…—’“”²é中の。，🙂ß{}กำ𠀀Ǆ@$%_", "the", "of", "Mr.", "e.g.",
     "n't", "I'm", "x:)", "10km", "a.m.", "state-of-the-art", "non-Dr.", "dog's", "1,000.5", "6-10", "J.", "http://a.b/",
     " ", " ", "  ", "\n", "\r\n", "\t", "\u3000", "\u2028", "\x85", "•", "..."]
)  # fmt: skip
TEXTS = st.lists(ATOMS, max_size=30).map("".join)


def test_golden_documents_split_as_spacy_splits_them():
    assert len(ENGLISH) >= 50
    for doc in ENGLISH:
        assert splitter("english").split(doc["text"]) == doc["words"], doc["id"]


def test_golden_documents_have_as_many_sentences_as_spacy_finds():
    for doc in ENGLISH:
        text = doc["text"]
        if text.strip() == text and text:
            assert count_sentences(text, splitter("english")) == doc["numbers"]["sentences"], doc["id"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("He can't; she'd've.", "He|ca|n't|;|she|'d|'ve|."),
        ("(Mr. X) J. USA. end.", "(|Mr.|X|)|J.|USA|.|end|."),
        ("well-known 10-12 a,b 1,000 foo.Bar", "well|-|known|10|-|12|a|,|b|1,000|foo|.|Bar"),
        ("x:) [:] :-(", "x|:)|[|:]|:-("),
        ("http://a.com/b?x=1, www.a.org me@a.org 10.0.0.1", "http://a.com/b?x=1|,|www.a.org|me@a.org|10.0.0.1"),
        ("5km 5% $5 C++ and/or …..", "5|km|5|%|$|5|C++|and/or|…|.."),
        ("its were ill it's", "its|were|ill|it|'s"),
    ],
)
def test_english_by_hand(text, words):
    assert splitter("english").split(text) == words.split("|")


def test_other_ways_of_splitting():
    assert splitter("base").split("can't „nein“.") == ["can't", "„", "nein", "“", "."]
    assert splitter("character").split("说OK。가나 กำ") == ["说", "OK", "。", "가", "나", "ก", "ำ"]
    assert splitter("blank").split("(no) marks.") == ["(no)", "marks."]
    with pytest.raises(UnknownName, match="did you mean 'english'"):
        splitter("englisch")


def test_a_mark_on_top_of_a_character_stays_with_it():
    assert splitter("character").split("ที่นี่") == ["ที่", "นี่"]


@given(TEXTS)
def test_words_are_the_text_without_white_space(text):
    for name in word.SPLITTERS:
        assert "".join(splitter(name).split(text)) == "".join(text.split())


def test_what_is_told_of_a_mark_without_the_rules_is_what_the_rules_tell():
    for char in (*word._ALONE, *word._LETTERS):
        for rest in (f"{char}a", f"a{char}", f"3{char}", f"'{char}", f".{char}", f"3k{char}", char * 3):
            found = word._PREFIX.match(rest)
            assert word._prefix(rest) == (found.end() if found else 0)
            found = word._SUFFIX.search(rest)
            assert word._suffix(rest) == (found.end() - found.start() if found else 0)


def cut_is_right(cutter, text):
    split = cutter.seen.split
    cutter.cut(text.encode())
    words = split.split(text)
    bits = [word.word_bits(each) | cutter.seen.stops.get(each, 0) for each in words]
    if split.characters:  # single characters are counted as stop words in the text, not here
        assert cutter.words[: cutter.told[word.WORDS], 0].tolist() == [len(each.encode()) for each in words]
        bits = cutter.words[: cutter.told[word.WORDS], 2].tolist()
    rows = [[len(each.encode()), len(each), bit] for each, bit in zip(words, bits, strict=True)]
    assert cutter.words[: cutter.told[word.WORDS]].tolist() == rows
    assert cutter.glued[: sum(row[0] for row in rows)].tobytes() == "".join(words).encode()
    lines = text.splitlines()
    assert cutter.told[word.LINES] == len(lines)
    for line, row in zip(lines, cutter.lines[: len(lines)].tolist(), strict=True):
        body = line.strip()
        assert text.encode()[row[word.LEAD] : row[word.TRAIL]].decode() == body
        assert text[row[word.LEAD_CHAR] : row[word.TRAIL_CHAR]] == body
        assert row[word.CHUNKS] == len(body.split())
        assert row[word.LONGEST] == max(map(len, body.split()), default=0)
        assert row[word.SENTENCES] == count_sentences(body, split)
        assert row[word.BRACES] == body.count("{")
        assert row[word.SHAPE] == body.startswith(("•", "-")) + 2 * body.endswith(("...", "…"))


@pytest.fixture(scope="module", params=["english", "base", "character", "blank"])
def cutter(request):
    return Cutter(splitter(request.param), ("the", "of", "中"))


@settings(max_examples=150, deadline=None)
@given(text=TEXTS)
def test_the_kernel_cuts_as_the_splitter_does(cutter, text):
    cut_is_right(cutter, text)


@pytest.mark.parametrize(
    "text",
    ["", " ", "\n", "a", "a\r\nb\x85c\u2028d", "é" * 5000, "中" * 4001 + "a", "(((" * 900, "中{", "a" * 4000 + "{"],
)
def test_the_kernel_at_the_edges(cutter, text):
    cut_is_right(cutter, text)


def test_the_kernels_are_what_python_makes_of_them(monkeypatch):
    text = (
        "The (cat's) end. Mr. X\r\n\u3000- 1,000 中文 U.S.A.\u2028{… wed. f(x): 5km a--b www.a.org/x …a.B' co-op $5\n"
    )
    split = splitter("english")
    compiled, plain = Cutter(split, ("the",)), Cutter(split, ("the",))
    compiled.cut(text.encode())
    for name, each in vars(word).items():
        if isinstance(each, Kernel):
            monkeypatch.setattr(word, name, each.python)
    with np.errstate(over="ignore"):
        plain.cut(text.encode())
    count, lines = plain.told[word.WORDS], plain.told[word.LINES] + 1
    assert plain.told.tolist() == compiled.told.tolist()
    assert plain.words[:count].tolist() == compiled.words[:count].tolist()
    assert plain.lines[:lines].tolist() == compiled.lines[:lines].tolist()
    assert plain.feeds[:1].tolist() == compiled.feeds[:1].tolist()


ODD = """
wed. °F. x°F. +5 +a 5+ US$5 5US$ 5C$ x5km/h 5m² ……… …. a… .. a.. ' '' x's x’S 's AB. aB. (B. a---b a----b a——b a–b a~b
1-a 1--2 1^-2 a,b a.B a.' …a.b ..a..b a=b 1=b a=1 a.b_c _a.bc a_.bc a.bc:80 a.bc:8 a.bc:80x a.bc:80/x a.bc?x a.b a.bc.
ab://c.de a://c.de ab://c x@y.zz 1.2.3.4 1.2.3.4.com é.com é://a.com a.bc:8\u0660 \x80a.com a.com# a.Com
"""


def test_the_kernel_splits_odd_chunks_as_the_splitter_does(cutter):
    for chunk in [*ODD.split(), "a" * 64 + ".com", "a" * 65 + ".com"]:
        cut_is_right(cutter, f'{chunk} ({chunk}) x{chunk}, "{chunk}é')


@settings(max_examples=150, deadline=None)
@given(chunk=st.text("aB1.,:;-/@(')’…—é中%$+_=km°", min_size=1, max_size=12))
def test_the_kernel_splits_any_chunk_as_the_splitter_does(cutter, chunk):
    cut_is_right(cutter, chunk)


def test_few_chunks_need_python():
    cutter = Cutter(splitter("english"))
    known = cutter.seen.count
    cutter.cut(b"def f(x, y=3): # it's (well-known), isn't it? see https://a.org/b?c=1#d, 10km, a/b, foo.bar(1,000)[2]")
    assert cutter.seen.count == known + 1


def test_chunks_with_one_hash_are_told_apart():
    cutter = Cutter(splitter("base"))
    hashed = chunk_hash(b"f(x):")
    cutter.seen.add({b"((((x": hashed, b"f(x):": hashed})
    cutter.cut(b"f(x):")
    assert cutter.words[: cutter.told[word.WORDS], 0].tolist() == [3, 2]
    assert chunk_hash(b"x-y") != chunk_hash(b"y-x")


def test_what_was_seen_is_forgotten_when_it_is_too_much(monkeypatch):
    monkeypatch.setattr(word, "MANY", 0)
    cutter = Cutter(splitter("english"), ("the",))
    for at in range(3):
        cutter.cut(f"the a{at}):".encode())
        assert (cutter.told[word.WORDS], cutter.told[word.STOPS]) == (3, 1)
    assert cutter.seen.count == len(cutter.seen.facts) + 1


def test_ten_megabytes_without_a_blank_take_as_long_as_ten_times_one():
    # Not timed: a quadratic case would not come back within the time limit of the tests.
    cutter = Cutter(splitter("english"))
    for text in ("a" * 10_000_000, "a\n" * 1_000_000, "(" * 1_000_000, "a." * 500_000):
        cutter.cut(text.encode())
        assert cutter.told[word.WORDS] > 0
