"""A classifier's page says what was measured, which words it goes by, and why it may say little."""

from __future__ import annotations

import pytest

from prep_lib.record import Document
from prep_lib.seeds import stream
from prep_lib.text.classifier import Classifier
from widgets.quality.classifier import page, view

WORDS = {"prose": ["the", "cat", "sat", "on", "a", "mat"], "code": ["def", "class", "import", "self", "none", "int"]}


def model() -> Classifier:
    draw = stream(7, "page")
    rows = [(" ".join(draw.choice(words, 6)), label) for label, words in WORDS.items() for _ in range(40)]
    return Classifier.train(rows, label="prose", bits=10)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_same_bytes_in_both_languages(lang: str) -> None:
    docs = [Document("d1", "import self"), Document("d2", "the cat")]
    assert page(model(), docs, lang) == page(model(), docs, lang)


def test_the_score_the_words_and_the_documents() -> None:
    made = model()
    docs = [Document("d1", "import self"), Document("d2", "the cat"), Document("d3", "…")]
    html = page(made, docs).split("</style>")[1]
    assert f"accuracy {made.held_out.accuracy:.3f}, area under the curve {made.held_out.auc:.3f}" in html
    assert f'<td class="word">{made.strongest(1)[0][0].text}</td>' in html
    assert html.index("d2") < html.index("d3") < html.index("d1"), "the most prose first"
    assert f"{made.score(docs[1]):.3f}" in html
    assert "rows on one side of the split" in html
    assert repr(view(made)).startswith("<classifier: prose against code, held-out accuracy ")


def test_what_makes_a_score_worth_little_is_said() -> None:
    html = page(Classifier.train([("a b", True), ("a b", False), ("a b", False)], bits=8))
    assert "Too few rows to hold any out" in html
    assert "2 rows have the words of another row" in html
    assert "1 texts stand under both labels." in html
    assert "accuracy –" in html


def test_nothing_from_data_is_trusted(nasty: str) -> None:
    made = Classifier.train([(nasty, nasty), ("fine", "ok")], label=nasty, bits=8)
    html = page(made, [Document(nasty, nasty)]).split("</style>")[1]
    assert "<script" not in html
    assert "<img" not in html
    assert "\u202e" not in html
