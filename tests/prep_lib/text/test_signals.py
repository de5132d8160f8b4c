import gzip
import json
import math

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_signals import plain_signals

from prep_lib.errors import BadParameter, UnknownName
from prep_lib.jit import Kernel
from prep_lib.record import Cut, Document
from prep_lib.text import signals
from prep_lib.text.signals import SIGNALS, Lines, Meter, Reading, cuts, measure, measure_many

GOLDEN = json.loads(gzip.decompress((ROOT / "tests/golden/quality_documents.json.gz").read_bytes()))
STOPS = ("the", "be", "to", "of", "and", "that", "have", "with")
READINGS = [
    Reading(stop_words=STOPS),
    Reading(stop_words=STOPS, lines=Lines()),
    Reading(lines=Lines(end_marks=False)),
    Reading(words="character", stop_words=("的", "中文")),
    Reading(words="base", stop_words=("der",), lines=Lines(min_words=0, citations=False, policy=False)),
    Reading(words="blank"),
]
ATOMS = st.sampled_from(
    [*"abX01.,:!?\"()[]-#…²é中文的。🙂{", "the", "of", "a b c", "Lorem ipsum", "JavaScript", "privacy policy", "[12]",
     "[edit]", " ", " ", "\n", "\n", "\n\n", "\t", "  ", "\u3000", "\u2028", "\r\n", "•", "...", "the cat sat. ",
     "a word. " * 3]
)  # fmt: skip
TEXTS = st.lists(ATOMS, max_size=60).map("".join)


def equal(got, want):
    return got == want or (math.isnan(got) and math.isnan(want))


def measured(text, reading, names):
    return dict(zip(names, measure(Document("1", text), reading, names).tolist(), strict=True))


@settings(max_examples=200, deadline=None)
@given(text=TEXTS, reading=st.sampled_from(READINGS))
def test_kernels_measure_what_plain_python_does(text, reading):
    want = plain_signals(text, reading)
    got = measured(text, reading, list(want))
    assert [name for name in want if not equal(got[name], want[name])] == []


@settings(max_examples=200, deadline=None)
@given(text=TEXTS, rules=st.sampled_from([reading.lines for reading in READINGS if reading.lines]))
def test_a_cut_leaves_what_the_line_rules_keep(text, rules):
    doc = Document("1", text)
    left = Cut(cuts(doc, Reading(lines=rules)), "lines").apply(text)
    assert left == Cut(rules.cut(text).cuts(), "lines").apply(text)
    if "\u2028" not in text:  # where a line ends in another way than by a line feed, that way stays
        assert left == rules.cut(text).text


NUMBERS = {
    "words": "words", "plain_words": "plain_words", "mean_word_length": "mean_word_length", "hashes": "hashes",
    "ellipses": "ellipses", "bullet_lines": "bullet_lines", "ellipsis_lines": "ellipsis_lines",
    "alpha_words": "alpha_words",
    "dup_paragraphs": "dup_paragraphs", "dup_paragraph_chars": "dup_paragraph_chars", "dup_lines": "dup_lines",
    "dup_line_chars": "dup_line_chars", "end_mark_lines": "end_mark_lines", "short_lines": "short_lines",
    "dup_kept_line_chars": "dup_filled_line_chars", "newlines": "newlines",
    **{f"top_{n}_gram": f"top_{n}_gram" for n in (2, 3, 4)},
    **{f"dup_{n}_grams": f"dup_{n}_grams" for n in range(5, 11)},
}  # fmt: skip


def test_golden_documents_measure_as_datatrove_measures_them():
    seen = 0
    for doc in GOLDEN:
        if doc["language"] != "en" or not doc["text"].strip():
            continue
        got = measured(doc["text"], READINGS[0], list(NUMBERS))
        for ours, theirs in NUMBERS.items():
            want = doc["numbers"][theirs]
            if got["plain_words"] or ours != "mean_word_length":
                assert math.isclose(got[ours], want, rel_tol=1e-12), (doc["id"], ours, got[ours], want)
        seen += 1
    assert seen >= 48


@pytest.mark.parametrize(("name", "rules"), [("c4", Lines()), ("c4_any_end", Lines(end_marks=False))])
def test_golden_documents_keep_the_lines_datatrove_keeps(name, rules):
    kept = [(doc, rules.cut(doc["text"])) for doc in GOLDEN if doc.get(name) and doc["verdicts"]["c4/datatrove"] == ""]
    assert len(kept) > 10
    for doc, page in kept:
        assert page.text == doc[name], doc["id"]


def test_a_share_of_nothing_has_no_value():
    got = measured("", READINGS[1], ["chars", "words", "hashes", "mean_word_length", "newlines", "dup_lines"])
    assert (got["chars"], got["words"], got["dup_lines"]) == (0, 0, 0)
    assert all(math.isnan(got[name]) for name in ("hashes", "mean_word_length", "newlines"))


def test_blank_lines_between_paragraphs_repeat_nothing():
    # datatrove#273 (BUG-020)
    text = "\n\n\n".join(f"Paragraph number {n} has a sentence of its own." for n in range(8))
    got = measured(text, READINGS[0], ["dup_lines", "dup_line_chars", "dup_paragraphs", "dup_kept_line_chars"])
    assert set(got.values()) == {0}


def test_ngrams_are_joined_by_blanks_and_overlap():
    # The only pair has three characters with its blank and occurs 19 times; five are read at the places 1, 6 and 11.
    got = measured("谢" * 20, Reading(words="character"), ["top_2_gram", "dup_5_grams"])
    assert got == {"top_2_gram": 3 * 19 / 20, "dup_5_grams": 15 / 20}


def test_ngrams_by_hand():
    # a b c d e | x | a b c d e | y: five letters of twelve words seen before, read once; the text has 23 characters.
    got = measured("a b c d e x a b c d e y", Reading(), ["dup_5_grams", "dup_6_grams", "top_2_gram", "top_3_gram"])
    assert got == {"dup_5_grams": 5 / 23, "dup_6_grams": 0, "top_2_gram": 3 * 2 / 23, "top_3_gram": 5 * 2 / 23}


def test_ngrams_with_the_same_letters_and_other_words():
    # "ab c" and "a bc" are one to the count of repeated letters, two to the commonest.
    text = "ab c d e f . a bc d e f ."
    want = plain_signals(text, Reading(words="blank"))
    got = measured(text, Reading(words="blank"), ["dup_5_grams", "top_2_gram"])
    assert got["dup_5_grams"] == want["dup_5_grams"] == 6 / len(text)
    assert got["top_2_gram"] == want["top_2_gram"]


@pytest.mark.parametrize("size", [200, 1023, 3000])
def test_ngrams_of_long_words(size):
    text = " ".join(letter * size for letter in "abcdeXabcdeY")
    want = plain_signals(text, Reading())
    names = ["top_2_gram", "dup_5_grams", "top_3_gram", "dup_6_grams", "top_2_gram"]
    assert measure(Document("1", text), Reading(), names).tolist() == [want[name] for name in names]


@pytest.mark.parametrize(
    "line", ["He x [1]", "He x.  [1]", "He x.\u3000[1]", "é b c[edit]", "[][] a b", "[a] b [1", "a [\u0663] b",
             "x [[2]] y", "a b java[1]script", "a b [citation needed].", "[1] [2] [3]"]
)  # fmt: skip
@pytest.mark.parametrize("reading", [READINGS[1], READINGS[2], Reading(lines=Lines(end_marks=False, min_words=0))])
def test_citations_by_hand(line, reading):
    for text in (line, f"One. Two. [3]\n{line}\nThree {{ words here.", f"{line}\n[1] [2] [3]\n"):
        want = plain_signals(text, reading)
        got = measured(text, reading, list(want))
        assert [name for name in want if not equal(got[name], want[name])] == []
        assert cuts(Document("1", text), reading) == reading.lines.cut(text).cuts()


@pytest.mark.parametrize("reading", [READINGS[0], READINGS[2]])
def test_the_kernels_are_what_python_makes_of_them(monkeypatch, reading):
    text = "The cat sat.\n\n• The cat sat.\u3000\nThe cat sat on the mat of the cat…\r\n中文。\n \nshort vavk\n" * 2
    names = [name for name, signal in SIGNALS.items() if signal.group in ("words", "lines", "page")]
    names += [f"top_{n}_gram" for n in (2, 3, 4)] + [f"dup_{n}_grams" for n in range(5, 11)]
    docs = [Document("1", text), Document("2", "{ One. [1] Two words here.\n[2]\nThe end of it.\n" + text)]
    compiled = [measure(doc, reading, names) for doc in docs]
    for name, each in vars(signals).items():
        if isinstance(each, Kernel):
            monkeypatch.setattr(signals, name, each.python)
    with np.errstate(over="ignore"):
        plain = [Meter(reading).measure(doc, names) for doc in docs]
    np.testing.assert_array_equal(plain, compiled)


@pytest.mark.parametrize("reading", READINGS)
def test_many_documents_are_measured_as_each_alone(reading):
    """Words only Python splits, citations, phrases, a text for which more room is made, nothing at all."""
    line = "The cat sat on the mat of the cat, and looked at the dog for a while. "
    texts = [
        "", line * 2, "我说 OK。看一看。\n" * 3, f"{line}\n[1] [2] three words here.\nSee [3] the end of it.\n",
        f"{line}\nThis site uses cookies.\n", f"see http://user@a.example.org/b?c#d :-) x:) … ... {line}",
        "Short\n{\n" * 4, line * 1500, "\n" * 40_000, f"{line}\nLorem ipsum dolor sit.\n{line}",
    ]  # fmt: skip
    names = [name for name, signal in SIGNALS.items() if signal.group in ("text", "words", "lines", "page")]
    names += [f"top_{n}_gram" for n in (2, 3, 4)] + [f"dup_{n}_grams" for n in range(5, 11)]
    docs = [Document(str(at), text) for at, text in enumerate(texts + texts[::-1])]
    np.testing.assert_array_equal(measure_many(docs, reading, names), [measure(doc, reading, names) for doc in docs])
    if reading.lines:
        measure_many(docs, reading, names)
        assert [cuts(doc, reading) for doc in docs] == [reading.lines.cut(doc.text).cuts() for doc in docs]
    assert measure_many(docs, reading, ["chars"]).ravel().tolist() == [len(doc.text) for doc in docs]


@pytest.mark.parametrize(
    ("text", "found"),
    [("", 0), ("Terms of use", 1), ("terms of us", 0), ("LOREM IPSUM", 1), ("Lorem ips\u212am", 1), ("jaVascript", 2),
     ("a [b]", 4), ("cookie", 1), ("cook\u212ae", 1), ("privacy policy", 1), ("PRIVACY\x00POLICY", 0), ("ª", 0)],
)  # fmt: skip
def test_phrases_are_found(text, found):
    data = np.frombuffer(text.encode(), np.uint8)
    assert signals.find_phrases(data, 0b11101) == (0, 1, 0, 0, 2)[found]
    assert signals.find_phrases(data, 0b11111) & 1 == (found in (1, 2))


def test_spelling_dolma_and_nemo_by_hand():
    text = "# one two\n* three four…\n\nSee https://a.org/b now [x]\nSee https://a.org/b now [x]"
    names = [name for name, signal in SIGNALS.items() if signal.group in ("spelling", "dolma", "nemo")]
    got = measured(text, Reading(words="blank", stop_words=("one",)), [*names, "words", "stop_word_hits"])
    assert (got["words"], got["stop_word_hits"], got["median_word_length"], got["longest_word"]) == (14, 1, 3.0, 15)
    assert got["symbol_words"] == 2 / 14
    assert got["mark_words"] == 1 / 14
    assert (got["star_lines"], got["dots_lines"], got["copied_lines"]) == (1 / 5, 1 / 5, 2 / 5)
    size = sum(map(len, text.split()))
    assert got["copied_line_chars"] == 2 * 27 / size
    assert got["most_2_gram"] == 2 * 18 / size
    assert got["url_chars"] == 2 * 15 / len(text)
    assert (got["unique_lines"], got["unique_paragraphs"], got["open_lines"], got["more_lines"]) == (3 / 4, 1, 1, 1 / 4)
    assert got["brackets"] == 4 / len(text)
    assert got["replaced_2_gram"] == 2 * len("See https://a.org/b") / len(text)


def test_nemo_boilerplate_and_empty_texts():
    paragraphs = "A word.\n\nWe value it: this site uses cookies.\n\nAnother word.\n\nThe end."
    assert measured(paragraphs, Reading(), ["boilerplate"])["boilerplate"] == 1 / 4
    assert measured("Lorem ipsum dolor.\n\nx", Reading(), ["boilerplate"])["boilerplate"] == 1
    assert measured("", Reading(words="blank"), ["odd_chars", "replaced_2_gram", "repeated_5_grams"]) == dict.fromkeys(
        ["odd_chars", "replaced_2_gram", "repeated_5_grams"], 1.0
    )


def test_every_signal_can_be_measured_and_says_what_it_is():
    names = list(SIGNALS)
    row = measure(Document("1", "A plain sentence with a few words in it.\nAnd one more."), READINGS[1], names)
    assert not np.isnan(row).any()
    assert all(SIGNALS[name].name == name and SIGNALS[name].what for name in names)


def test_unknown_signals_and_nonsense_are_refused():
    with pytest.raises(UnknownName, match="did you mean 'words'"):
        measure(Document("1", "x"), Reading(), ["word"])
    with pytest.raises(UnknownName, match="unknown way of splitting words"):
        Reading(words="german")
    with pytest.raises(BadParameter, match="min_words is a count of 0 or more, got -1"):
        Lines(min_words=-1)


def test_long_texts_stay_linear():
    # Not timed: a quadratic case would not come back within the time limit of the tests.
    names = [*(f"dup_{n}_grams" for n in range(5, 11)), "top_2_gram", "dup_lines", "dup_paragraphs", "sentences"]
    for text in ("a " * 500_000, "a\n" * 500_000, "word" * 500_000, "\n" * 500_000):
        assert measure(Document("1", text), READINGS[2], names).shape == (10,)
