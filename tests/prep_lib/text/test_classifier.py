"""Words become places of weights, rows become weights, and what was held out is never trained on."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.errors import BadInput, BadParameter, UnknownName
from prep_lib.keys import function_digest
from prep_lib.record import Document, Drop
from prep_lib.seeds import stream
from prep_lib.stage import run
from prep_lib.text import classifier
from prep_lib.text.classifier import Classifier, Classify, Finding, features

#: Ten words of cats and ten of code: a text draws eight of one side.
CATS = ["the", "cat", "sat", "on", "a", "mat", "and", "purred", "very", "softly"]
CODE = ["def", "return", "import", "class", "self", "none", "int", "str", "list", "tuple"]


def rows(each: int = 150) -> list[tuple[str, str]]:
    draw = stream(7, "rows")
    return [(" ".join(draw.choice(words, 8)), label) for words, label in ((CATS, "prose"), (CODE, "code"))
            for _ in range(each)]  # fmt: skip


MADE = Classifier.train(rows(), label="prose", bits=12)
TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("aB é中あไ한\u0301\u200d😀, \n"), max_size=30)


# Features


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat sat.", ["the", "cat", "sat"]),
        ("don't 3.5 a_b", ["don", "t", "3", "5", "a", "b"]),
        ("你好 world", ["你", "好", "world"]),
        ("日本のコード", ["日", "本", "の", "コ", "ー", "ド"]),
        ("ไทย", ["ไ", "ท", "ย"]),
        ("한국어 텍스트", ["한국어", "텍스트"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("ÉCOLE Straße", ["école", "straße"]),
        ("😀😀a", ["😀", "😀", "a"]),
        ("𠀀b", ["𠀀", "b"]),
        ("\u200d, !", []),
        ("", []),
    ],
)
def test_words_and_pairs(text: str, words: list[str]) -> None:
    found, places = classifier._places(text.encode())
    said = [classifier._text(text.encode(), at, places) for at in range(len(found))]
    pairs = [f"{one} {two}" for one, two in itertools.pairwise(words)]
    assert [said[at] for at in range(len(said)) if at == 0 or at % 2] == words
    assert said[2::2] == pairs


def test_what_is_not_there_does_not_part_a_word() -> None:
    assert (features("hy\u00adphen".encode()) == features(b"Hyphen")).all()
    assert (features("می\u200cخواهم".encode()) == features("میخواهم".encode())).all()


@given(TEXTS)
def test_law_the_kernel_says_what_its_plain_twin_says(text: str) -> None:
    data = np.frombuffer(text.encode(), np.uint8)
    fast, slow = (np.zeros(len(data) + 1, np.uint32) for _ in range(2))
    spans, twins = (np.zeros((len(data) + 1, 2), np.int64) for _ in range(2))
    tables = classifier._characters()
    assert classifier._features(data, *tables, fast, spans) == classifier._features.python(data, *tables, slow, twins)
    assert (fast == slow).all()
    assert (spans == twins).all()


@given(st.binary(max_size=40))
def test_law_bytes_that_are_no_text_do_no_harm(data: bytes) -> None:
    assert len(features(data)) <= len(data) + 1
    classifier._places(data)


def test_features_never_change() -> None:
    """Stored models would mean other words."""
    assert features("The cat 你好".encode()).tolist() == PINNED


PINNED = [2389332817, 3722888691, 212580207, 2571810890, 684740956, 4110734493, 4285705600]


# Training


def test_the_twin_of_an_epoch() -> None:
    bags = classifier._read(rows(9), 42)
    found, offsets = np.concatenate([bag.features for bag in bags]), np.cumsum([0, *(len(b.features) for b in bags)])
    targets = np.array([bag.label == "prose" for bag in bags], np.float64)
    ends = []
    for call in (classifier._epoch, classifier._epoch.python):
        weights, moved, bias = np.zeros(256), np.full(256, 0.01), np.array([0.0, 0.01])
        call(found, offsets, targets, np.arange(len(bags))[::-1], weights, moved, bias, 24, 1.0)
        ends.append(np.concatenate([weights, moved, bias]))
    np.testing.assert_allclose(*ends, rtol=1e-12)
    total = classifier._total(found, ends[0].astype(np.float32)[:256], np.uint32(24))
    assert total == pytest.approx(classifier._total.python(found, ends[0].astype(np.float32)[:256], np.uint32(24)))


def test_it_learns_and_says_how_well() -> None:
    held = MADE.held_out
    assert sum(held.trained) + sum(held.held) == 300
    assert 30 <= sum(held.held) <= 90
    assert held.accuracy == held.auc == 1
    assert sum(row.rows for row in held.calibration) == sum(held.held)
    assert MADE.score("a cat on the mat") > 0.9
    assert MADE.score("import list; return none") < 0.1
    assert MADE.score("import list", "code") == 1 - MADE.score("import list")
    assert MADE.score("") == MADE.score("…") == pytest.approx(0.5, abs=0.3)
    with pytest.raises(UnknownName, match=r"unknown label 'poem'; .*known: code, prose"):
        MADE.score("", "poem")


@settings(max_examples=10, deadline=None)
@given(st.randoms())
def test_law_the_order_of_the_rows_changes_no_byte(random: Any) -> None:
    some = rows(20)
    first = Classifier.train(some, label="code", bits=8)
    random.shuffle(some)
    assert Classifier.train(some, label="code", bits=8) == first


def test_another_seed_is_another_split() -> None:
    other = Classifier.train(rows(), label="prose", bits=12, seed=43)
    assert other.held_out.held != MADE.held_out.held


def test_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    code = (
        "import sys; from prep_lib.text.classifier import Classifier;"
        "Classifier.train([(f'{w} {n}', w) for w in ('cat', 'dog') for n in range(40)], label='cat', bits=8)"
        ".save(sys.argv[1])"
    )
    path, here = tmp_path / "there", tmp_path / "here"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, env={**os.environ, "PYTHONHASHSEED": "1"})
    Classifier.train([(f"{w} {n}", w) for n in range(40) for w in ("dog", "cat")], label="cat", bits=8).save(here)
    assert path.read_bytes() == here.read_bytes()


def test_equal_words_stand_on_one_side() -> None:
    some = [(f"text {n}", n % 2) for n in range(60)]
    again = [(f"  TEXT, {n}!", label) for n, (_, label) in enumerate(some)]
    trained, held = classifier._split(classifier._read(some + again, 1), 0.3, 1)
    words = [{bag.features.tobytes() for bag in side} for side in (trained, held)]
    assert held
    assert not words[0] & words[1]
    made = Classifier.train(some + again, bits=8)
    assert Finding("repeated", 60, 0) in made.held_out.findings


def test_findings_say_why_a_score_may_say_little() -> None:
    made = Classifier.train([("good", True), ("bad", False)], bits=8)
    assert made.held_out.accuracy is made.held_out.auc is None
    assert made.held_out.findings == (
        Finding("not_held_out", 0, 20), Finding("few_rows", 1, 100, "False"), Finding("few_rows", 1, 100, "True"),
    )  # fmt: skip
    assert Classifier.train(rows(), label="code", bits=8, held_out=0).held_out.findings == ()
    both = Classifier.train([*rows(), ("the same", "code"), ("the same", "prose")], label="code", bits=8)
    assert Finding("two_labels", 1, 0) in both.held_out.findings
    assert Finding("repeated", 1, 0) in both.held_out.findings
    tiny = Classifier.train([*rows(), *[(f"cat {n}", "rare") for n in range(5)]][150:], label="rare", bits=8)
    assert {finding.label for finding in tiny.held_out.findings if finding.name == "few_rows"} >= {"rare"}
    assert MADE.held_out.findings == ()


def test_area_and_calibration() -> None:
    scores, true = np.array([0.1, 0.4, 0.4, 0.95, 1.0]), np.array([False, True, False, True, True])
    assert classifier._auc(scores, true) == pytest.approx((1 + 0.5 + 2 + 2) / 6)
    found = {row.low: row for row in classifier._calibration(scores, true)}
    assert found[0.4] == (0.4, 0.5, 2, 0.4, 0.5)
    assert found[0.9] == (0.9, 1.0, 2, pytest.approx(0.975), 1.0)
    assert found[0.0] == (0.0, 0.1, 0, None, None)


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        ([], {}, "must have two labels in all, got 0: none"),
        ([("a", 1)], {}, "got 1: '1'"),
        ([("a", 1), ("b", 0), ("c", 2)], {}, "got 3: '0', '1', '2'"),
        ([("a", "x"), ("b", "y")], {}, "label must be 'x' or 'y', got None; name the one to score"),
        ([("a", 1), ("b", 0)], {"label": "good"}, "label must be '0' or '1', got 'good'"),
        ([("a", 1), ("b", 0)], {"bits": 7}, "bits must be a number from 8 to 24, got 7"),
        ([("a", 1), ("b", 0)], {"bits": 18.0}, "bits must be"),
        ([("a", 1), ("b", 0)], {"epochs": 0}, "epochs must be"),
        ([("a", 1), ("b", 0)], {"held_out": 1}, "held_out must be"),
    ],
)
def test_nonsense_is_refused(given: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadParameter, match=said):
        Classifier.train(given, **options)


# Why


def test_why_names_the_words_of_a_document() -> None:
    told = MADE.why(Document("1", "The CAT, the cat def"), most=6)
    assert [abs(word.weight) for word in told] == sorted((abs(word.weight) for word in told), reverse=True)
    assert {word.text: word.times for word in told}["the cat"] == 2
    assert MADE.why("zzz") == MADE.why("") == []
    assert [word.text for word in MADE.why("zzz def")] == ["def"]


def test_the_shares_of_all_words_make_the_score() -> None:
    text = "the cat def self a mat"
    total = MADE.bias + sum(word.weight for word in MADE.why(text, most=99))
    assert 1 / (1 + np.exp(-total)) == pytest.approx(MADE.score(text), rel=1e-6)


def test_the_strongest_features_of_the_model_by_name() -> None:
    prose, code = MADE.strongest(5)
    assert all(set(word.text.split()) <= set(CATS) and word.weight > 0 for word in prose)
    assert all(set(word.text.split()) <= set(CODE) and word.weight < 0 for word in code)
    assert prose == sorted(prose, key=lambda word: -word.weight)
    assert code == sorted(code, key=lambda word: word.weight)
    big = Classifier.train([(f"{label} {n} {n + 1}", label) for label in ("a", "b") for n in range(3000)], label="a")
    assert len(big.words) == 2 * classifier.NAMED


# Files


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "model.classifier"
    MADE.save(path)
    assert Classifier.load(path) == MADE
    assert pickle.loads(pickle.dumps(MADE)) == MADE
    assert [found.name for found in tmp_path.iterdir()] == ["model.classifier"]


@pytest.mark.parametrize("cut", [0, 10, 90, 1000, -1])
def test_a_cut_file_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "model.classifier"
    MADE.save(path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(BadInput, match=r"^text/classifier: .*(is no classifier of ours|was cut or changed)"):
        Classifier.load(path)


def test_a_foreign_or_changed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.classifier"
    MADE.save(path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(BadInput, match="was cut or changed since it was saved"):
        Classifier.load(path)
    np.save(path.with_suffix(".npy"), np.arange(3))
    with pytest.raises(BadInput, match="is no classifier of ours"):
        Classifier.load(path.with_suffix(".npy"))
    with pytest.raises(BadInput, match=r"cannot read .*: No such file"):
        Classifier.load(tmp_path / "none")


# The stage


def test_the_stage_drops_below_or_above(tmp_path: Path) -> None:
    docs = [Document("1", "the cat sat"), Document("2", "import self")]
    low, high = MADE.score(docs[1]), MADE.score(docs[0])
    assert Classify(model=MADE, low=0.5).judge(docs[1]) == Drop("classifier", low, 0.5)
    assert Classify(model=MADE, high=0.5).judge(docs[0]) == Drop("classifier", high, 0.5)
    assert Classify(model=MADE, low=0.5, label="code").judge(docs[0]) == Drop("classifier", 1 - high, 0.5)
    assert Classify(model=MADE, low=low, high=high, name="cats").judge(docs[1]) is None
    MADE.save(tmp_path / "m")
    result = run([Classify(model=str(tmp_path / "m"), low=0.5, name="cats")], docs)
    assert ([doc.id for doc in result.kept], result.ledger.reasons("cats", "dropped")) == (["1"], {"cats": 1})


def test_the_stage_holds_its_model(tmp_path: Path) -> None:
    MADE.save(tmp_path / "m")
    stage = Classify(model=tmp_path / "m", low=0.5)
    (tmp_path / "m").unlink()
    assert pickle.loads(pickle.dumps(stage)) == stage
    before = function_digest(stage)
    stage.judge(Document("1", "cat"))
    assert function_digest(stage) == before == function_digest(Classify(model=MADE, low=0.5))
    other = Classifier.train(rows(), label="prose", bits=12, epochs=1)
    assert function_digest(Classify(model=other, low=0.5)) != before


@pytest.mark.parametrize(
    "options",
    [{}, {"low": 1.5}, {"low": 0.6, "high": 0.5}, {"high": "1"}, {"low": True}, {"low": 0.5, "label": "poem"},
     {"low": float("nan")}, {"low": 0.5, "model": 3}],
)  # fmt: skip
def test_a_stage_without_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadParameter, match="text/classifier"):
        Classify(**{"model": MADE, **options})
