"""Three contracts, one ledger that balances, and errors that name the stage and the document."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prep_lib.errors import BadParameter, BadRecord, Unbalanced
from prep_lib.record import Cut, Document, Drop, Repeat
from prep_lib.stage import Line, Measuring, Rejected, contract, journey, run


def docs(*texts, source="web"):
    return [Document(f"t#{n}", text, source) for n, text in enumerate(texts)]


def texts(result):
    return [doc.text for doc in result.kept]


@dataclass(frozen=True, kw_only=True)
class Upper:
    """A map that shouts, drops what is empty and cannot read a question mark."""

    name: str = "upper"

    def map(self, doc):
        if doc.text == "?":
            raise BadRecord("unreadable")
        return replace(doc, text=doc.text.upper() * 2) if doc.text else Drop("empty")


@dataclass(frozen=True, kw_only=True)
class Short:
    """A judge that drops what is short and cuts off what is long."""

    name: str = "short"
    least: int = 2
    most: int = 4

    def judge(self, doc):
        if len(doc.text) < self.least:
            return Drop("short", len(doc.text), self.least)
        return Cut(((self.most, len(doc.text)),), "long") if len(doc.text) > self.most else None


@dataclass(frozen=True, kw_only=True)
class Exact:
    """A corpus stage of numbers alone: the first of equal texts stays."""

    name: str = "exact"
    row: ClassVar = np.dtype([("key", "<i8")])

    def sketch(self, doc):
        if doc.text == "?":
            raise BadRecord("unreadable")
        return np.array([(hash(doc.text),)], self.row)

    def decide(self, seen):
        keys = seen.rows["key"].tolist()
        return {at: Drop("exact_duplicate") for at, row in enumerate(keys) if row in keys[:at]}


@dataclass(frozen=True, kw_only=True)
class Near:
    """A corpus stage that looks at a row a letter, and again at texts that share their first."""

    name: str = "near"
    row: ClassVar = np.dtype([("letter", "<i8")])
    asked: ClassVar[list] = []

    def sketch(self, doc):
        return np.array([(ord(letter),) for letter in doc.text], self.row)

    def evidence(self, doc):
        self.asked.append(doc.text)
        if "?" in doc.text:
            raise BadRecord("unreadable")
        return set(doc.text)

    def decide(self, seen):
        firsts = defaultdict(list)
        for at, row in zip(*np.unique(seen.owner, return_index=True), strict=True):
            firsts[seen.rows["letter"][row]].append(int(at))
        verdicts = {}
        for group in (group for group in firsts.values() if len(group) > 1):
            told = [(at, seen.evidence(at)) for at in group]
            for place, (two, letters) in enumerate(told):
                twin = next((one for one, other in told[:place] if letters is not None and other == letters), None)
                if twin is not None:
                    verdicts[two] = Drop("near_duplicate", twin=seen.ids[twin])
        return verdicts


@dataclass(frozen=True, kw_only=True)
class Mix:
    """A corpus stage that repeats the first document."""

    name: str = "mix"
    n: int = 3
    row: ClassVar = np.dtype([("nothing", "<i8")])

    def sketch(self, doc):
        return np.zeros(1, self.row)

    def decide(self, seen):
        return {0: Repeat(self.n)} if seen.ids else {}


def test_a_map_changes_drops_and_fails_one_at_a_time():
    result = run([Upper()], docs("ab", "", "?", "c"))
    assert texts(result) == ["ABAB", "CC"]
    assert [(bad.document.id, bad.stage, bad.drop.reason) for bad in result.dropped] == [
        ("t#1", "upper", "empty"),
        ("t#2", "upper", "unreadable"),
    ]
    ledger = result.ledger
    assert ledger.reasons("upper", "dropped") == {"empty": 1}
    assert ledger.reasons("upper", "failed") == {"unreadable": 1}
    assert ledger.total("upper", "in", unit="characters") == 4
    assert ledger.total("upper", "kept", unit="characters") == 6


def test_a_judge_keeps_drops_and_cuts():
    result = run([Short()], docs("a", "bc", "defghi"))
    assert texts(result) == ["bc", "defg"]
    assert result.dropped[0].drop == Drop("short", 1, 2)
    assert result.ledger.total("short", "kept", unit="characters") == 6


def test_a_corpus_stage_decides_from_numbers_alone():
    result = run([Exact()], docs("a", "b", "a", "?", "a"))
    assert texts(result) == ["a", "b"]
    assert result.ledger.reasons("exact", "dropped") == {"exact_duplicate": 2}
    assert result.ledger.reasons("exact", "failed") == {"unreadable": 1}


def test_a_corpus_stage_asks_evidence_only_of_those_it_compares():
    Near.asked.clear()
    result = run([Near()], docs("ab", "x", "abb", "ac", "a?"))
    assert texts(result) == ["ab", "x", "ac"]
    assert Near.asked == ["ab", "abb", "ac", "a?"]
    assert {bad.document.id: bad.drop.twin for bad in result.dropped if bad.drop.reason == "near_duplicate"} == {
        "t#2": "t#0"
    }
    assert result.ledger.reasons("near", "failed") == {"unreadable": 1}


def test_a_repeat_puts_copies_side_by_side_and_balances():
    result = run([Mix(), Upper()], docs("a", "b"))
    assert texts(result) == ["AA", "AA", "AA", "BB"]
    assert result.ledger.total("mix", "repeated") == 2
    assert result.ledger.total("mix", "kept", unit="characters") == 4


@given(st.lists(st.tuples(st.text("a?", max_size=5), st.sampled_from(["web", "book"])), max_size=8))
def test_the_ledger_balances_and_nothing_is_lost(rows):
    given = [Document(f"t#{n}", text, source) for n, (text, source) in enumerate(rows)]
    result = run([Short(), Exact(), Near(), Mix(), Upper()], given)
    seen = {bad.document.id for bad in result.dropped} | {doc.id for doc in result.kept}
    assert seen == {doc.id for doc in given}
    assert result.ledger.total("upper", "kept") == len(result.kept)


def test_no_documents_and_no_stages():
    assert run([Short()], []).kept == []
    assert texts(run([], docs("a"))) == ["a"]


# Errors


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A stage of any contract that answers what it is told."""

    kind: str
    answer: object = None
    name: str = "odd"

    def __getattr__(self, name):
        if self.kind == "decide" and name in ("sketch", "row"):
            row = np.dtype([("nothing", "<i8")])
            return row if name == "row" else lambda doc: self.answer() if callable(self.answer) else np.zeros(1, row)
        if name == self.kind:
            return lambda *args: self.answer() if callable(self.answer) else self.answer
        raise AttributeError(name)


@pytest.mark.parametrize("kind", ["map", "judge", "decide"])
def test_an_error_names_the_stage_and_the_document(kind):
    stage = Answer(kind=kind, answer=lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError) as caught:
        run([stage], docs("a"))
    assert caught.value.__notes__ == ["while odd handled document t#0"]


def test_an_error_while_documents_are_compared_names_the_stage():
    class Broken(Exact):
        def decide(self, seen):
            raise KeyError("x")

    with pytest.raises(KeyError) as caught:
        run([Broken()], docs("a", "b"))
    assert caught.value.__notes__ == ["while exact compared 2 documents"]


@pytest.mark.parametrize(
    ("kind", "answer", "sentence"),
    [
        ("map", None, "stage: odd gave None for document t#0; a map gives a Document or a Drop"),
        ("map", Repeat(2), "a map gives a Document or a Drop"),
        ("judge", False, "stage: odd gave False for document t#0; a judge gives None, a Drop or a Cut"),
        ("judge", Document("x", ""), "a judge gives None"),
        ("decide", {0: True}, "odd gave True for document t#0; decide gives a Drop, a Cut or a Repeat"),
        ("decide", {7: Drop("a")}, "stage: odd decided about place 7; there are 1 documents"),
    ],
)
def test_a_verdict_that_is_none_is_refused(kind, answer, sentence):
    with pytest.raises(BadParameter, match=sentence):
        run([Answer(kind=kind, answer=answer)], docs("a"))


class Both(Short):
    def map(self, doc):
        return doc


@pytest.mark.parametrize(
    ("stage", "sentence"),
    [
        (print, "must have a name and exactly one of map, judge, sketch \\+ decide; it has none"),
        (Both(), "it has map, judge"),
        (Short, r"stage: Short is a class; make a stage of it: Short\(\.\.\.\)"),
    ],
)
def test_what_is_no_stage_is_refused_before_any_document_is_touched(stage, sentence):
    touched = Answer(kind="judge", answer=lambda: pytest.fail("touched"))
    with pytest.raises(BadParameter, match=sentence):
        run([touched, stage], docs("a"))


def test_two_stages_of_one_name_are_refused():
    with pytest.raises(BadParameter, match="two stages are named 'short'; the ledger counts by name"):
        run([Short(), Short(least=3)], docs("abc"))


def test_the_contract_of_each():
    assert [contract(stage) for stage in (Upper(), Short(), Exact(), Near())] == ["map", "judge", "corpus", "corpus"]


def test_the_ledger_is_checked(monkeypatch):
    monkeypatch.setattr("prep_lib.ledger.Ledger.check", lambda self: (_ for _ in ()).throw(Unbalanced("ledger: no")))
    with pytest.raises(Unbalanced, match="ledger: no"):
        run([Short()], docs("a"))


@dataclass(frozen=True, kw_only=True)
class Vowels:
    """Measures, then decides; cuts off a leading star."""

    name: str = "vowels"
    least: int = 1
    reasons: ClassVar = ("no_vowel",)
    signals: ClassVar = ("vowels",)

    def measure(self, doc):
        return np.array([sum(letter in "aeiouAEIOU" for letter in doc.text)], float)

    def verdict(self, doc, values):
        if values[0] < self.least:
            return Drop("no_vowel", values[0], self.least)
        return Cut(((0, 1),), "star") if doc.text.startswith("*") else None

    def judge(self, doc):
        return self.verdict(doc, self.measure(doc))


@dataclass(frozen=True, kw_only=True)
class Label:
    """Finds out three things about a document."""

    name: str = "label"
    counted: ClassVar = ("case", "long", "letters")

    def map(self, doc):
        letters = {letter: doc.text.count(letter) for letter in "ab"}
        found = {"case": "upper" if doc.text.isupper() else "lower", "long": len(doc.text) > 3, "letters": letters}
        return replace(doc, meta={**doc.meta, **found})


def test_a_line_passes_one_document_at_a_time_and_counts_as_run_does() -> None:
    found, seen = docs("ab", "?", "", "*eabcd", "xyz"), []
    line = Line([Upper(), Vowels()], lambda *told: seen.append(told))
    through = [line(doc) for doc in found]
    result = run([Upper(), Vowels()], found)
    assert [doc for doc in through if not isinstance(doc, Rejected)] == result.kept
    assert [(one.document.id, one.stage, one.drop.reason) for one in through if isinstance(one, Rejected)] == [
        ("t#1", "upper", "unreadable"), ("t#2", "upper", "empty"), ("t#4", "vowels", "no_vowel"),
    ]  # fmt: skip
    assert line.counts.ledger() == result.ledger
    assert [(name, doc.id, values.tolist()) for name, (doc,), (values,), _ in seen] == [
        ("vowels", "t#0", [2]), ("vowels", "t#3", [4]), ("vowels", "t#4", [0]),
    ]  # fmt: skip
    assert isinstance(Vowels(), Measuring)


class Together:
    """The same at once, and not at all where one of the documents cannot be read."""

    def map_many(self, docs):
        if any(doc.text == "?" for doc in docs):
            raise BadRecord("unreadable")
        self.asked.append(len(docs))
        return [self.map(doc) for doc in docs]

    def measure_many(self, docs):
        self.asked.append(len(docs))
        return [self.measure(doc) for doc in docs]


@dataclass(frozen=True, kw_only=True)
class UpperTogether(Together, Upper):
    asked: list = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class VowelsTogether(Together, Vowels):
    asked: list = field(default_factory=list)


@pytest.mark.parametrize(
    ("words", "asked"), [(["ab", "?", "", "*eabcd", "xyz"], ([], [3])), (["ab", "", "x"], ([3], [2]))]
)
def test_many_documents_pass_a_line_together_as_each_alone(words, asked) -> None:
    alone, together = Line([Upper(), Vowels()], lambda *told: one.append(told)), [UpperTogether(), VowelsTogether()]
    one, all_seen = [], []
    line = Line(together, lambda *told: all_seen.append(told))
    through, apart = line.many(docs(*words)), [alone(doc) for doc in docs(*words)]
    # Of two errors with one reason Python says that they differ.
    assert [str(settled) for settled in through] == [str(settled) for settled in apart]
    assert line.counts.ledger() == alone.counts.ledger()
    ((name, judged, values, verdicts),) = all_seen
    assert [(name, [doc], [row], [verdict]) for doc, row, verdict in zip(judged, values, verdicts, strict=True)] == [
        (told[0], *map(list, told[1:])) for told in one
    ]
    assert tuple(stage.asked for stage in together) == asked
    assert Line([]).many([]) == []


def test_a_corpus_stage_cannot_stand_in_a_line() -> None:
    with pytest.raises(BadParameter, match="exact compares documents and cannot stand in a line"):
        Line([Exact()])


def test_what_maps_find_out_is_added_up_by_source() -> None:
    result = run([Label()], [*docs("aab", "AB"), *docs("abba", source="chat")])
    assert result.tallies == {
        ("label", "case", "web", "lower"): 1, ("label", "case", "web", "upper"): 1,
        ("label", "case", "chat", "lower"): 1,
        ("label", "long", "chat", "long"): 1, ("label", "letters", "web", "a"): 2, ("label", "letters", "web", "b"): 1,
        ("label", "letters", "chat", "a"): 2, ("label", "letters", "chat", "b"): 2,
    }  # fmt: skip


def test_a_journey_ends_where_the_document_does() -> None:
    first, second = journey([Upper(), Vowels()], Document("1", "*ea"))
    assert (first.stage, first.before.text, first.after.text, first.why) == ("upper", "*ea", "*EA*EA", None)
    assert (second.after.text, second.why, second.measured) == ("EA*EA", Cut(((0, 1),), "star"), {"vowels": 4.0})
    (gone,) = journey([Upper(), Vowels()], Document("2", "?"))
    assert (gone.after, gone.why.reason) == (None, "unreadable")
    assert journey([Vowels()], Document("3", "xyz"))[0].why == Drop("no_vowel", 0, 1)
