"""One of each text stays, the same one whatever the order; what is the same text is chosen by name."""

from __future__ import annotations

import itertools
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prep_lib.errors import BadParameter, UnknownName
from prep_lib.keys import function_digest
from prep_lib.record import Cut, Document, Drop
from prep_lib.stage import Result, run
from prep_lib.text.exact_dedup import HASH_TEXTS, ExactDedup, code_safe, collapse, join_spans, lines, paragraphs

TEXTS = st.lists(st.text(st.sampled_from("ab \n\r\té"), max_size=6), max_size=12)
LONG = "a line that is long enough to be looked at, as it has more than forty characters"
OTHER = "another line of the same sort, also with more than forty characters in it, or so"


def documents(texts: Sequence[str]) -> list[Document]:
    return [Document(f"t.jsonl#L{at}", text) for at, text in enumerate(texts)]


def verdicts(stage: ExactDedup, docs: Sequence[Document]) -> dict[str, object]:
    """Id -> what became of it: its text, or the drop."""
    result = run([stage], docs)
    return {doc.id: doc.text for doc in result.kept} | {each.document.id: each.drop for each in result.dropped}


@given(TEXTS, st.sampled_from(["code_safe", "collapse", "raw"]), st.randoms(use_true_random=False))
def test_one_of_each_text_stays_the_best_whatever_the_order(texts: list[str], name: str, rng: random.Random) -> None:
    docs, stage = documents(texts), ExactDedup(hash_text=name)
    result = run([stage], docs)
    normal = HASH_TEXTS[name]
    assert sorted(normal(doc.text) for doc in result.kept) == sorted({normal(text) for text in texts})
    kept = {doc.id: doc for doc in result.kept}
    for each in result.dropped:
        assert isinstance(each.drop, Drop)
        twin = kept[each.drop.twin or ""]
        assert normal(twin.text) == normal(each.document.text)
        assert len(twin.text) >= len(each.document.text)
    shuffled = rng.sample(docs, len(docs))
    assert verdicts(stage, shuffled) == verdicts(stage, docs)


@given(TEXTS)
def test_keep_first_is_the_specification(texts: list[str]) -> None:
    seen: dict[str, str] = {}
    expected = [doc.id for doc in documents(texts) if seen.setdefault(" ".join(doc.text.split()), doc.id) == doc.id]
    result = run([ExactDedup(hash_text="collapse", keep="first")], documents(texts))
    assert [doc.id for doc in result.kept] == expected
    assert all(each.drop.twin == seen[collapse(each.document.text)] for each in result.dropped)  # type: ignore[union-attr]


def test_two_programs_are_one_only_where_white_space_is_collapsed() -> None:
    one, two = "if a:\n    b()\nc()", "if a:\n    b()\n    c()"
    assert len(run([ExactDedup()], documents([one, two])).kept) == 2
    assert len(run([ExactDedup(hash_text="collapse")], documents([one, two])).kept) == 1


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a\r\nb\rc", "a\nb\nc"),
        ("a  \nb\t\n", "a\nb"),
        ("\n \na\n\n", "a"),
        ("cafe\u0301", "caf\u00e9"),
        ("", " \n\t"),
    ],
)
def test_code_safe_forgets(text: str, same: str) -> None:
    assert code_safe(text) == code_safe(same)


@pytest.mark.parametrize(
    ("text", "other"), [("  a", "a"), ("a b", "a  b"), ("a\n\nb", "a\nb"), ("a\tb", "a b"), ("A", "a"), ("①", "1")]
)
def test_code_safe_keeps_apart(text: str, other: str) -> None:
    assert code_safe(text) != code_safe(other)


def test_the_longest_stays_then_the_smallest_hash_then_the_smallest_id() -> None:
    docs = [Document("1", "a"), Document("2", "a \n"), Document("3", "a\t\n"), Document("4", "a \n")]
    result = run([ExactDedup()], docs)
    assert {doc.text for doc in result.kept} <= {"a \n", "a\t\n"}
    (kept,) = result.kept
    assert all(each.drop.twin == kept.id for each in result.dropped)  # type: ignore[union-attr]


def test_losers_depend_on_the_rows_alone_in_any_order() -> None:
    stage = ExactDedup(level="line", min_chars=1)
    rows = np.concatenate([stage.sketch(doc) for doc in documents(["a\nb\nb", "b\nc", "a\nlonger"])])
    order = np.random.default_rng(0).permutation(len(rows))

    def told(rows: np.ndarray) -> set[tuple[bytes, bytes]]:
        gone, stead = stage.losers(rows)
        return {(rows[one].tobytes(), rows[two].tobytes()) for one, two in zip(gone, stead, strict=True)}

    assert told(rows) == told(rows[order])
    assert len(told(rows)) == 3
    assert [len(part) for part in stage.losers(rows[:0])] == [0, 0]


@pytest.mark.parametrize("level", ["document", "paragraph", "line"])
def test_a_text_among_others_is_sketched_as_it_is_alone(level: str) -> None:
    stage, docs = ExactDedup(level=level, min_chars=2), documents(["ab\n\ncd", "", "\n", "é\r\nab \nx", "\ud800ab"])
    found = stage.sketch_many(docs)
    assert [rows.tobytes() for rows in found] == [stage.sketch(doc).tobytes() for doc in docs]
    assert [len(rows) for rows in found] == ([1] * 5 if level == "document" else [2, 0, 0, 1, 1])
    assert stage.sketch_many([]) == []


def test_keys_that_share_half_are_two_texts() -> None:
    stage = ExactDedup()
    rows = np.concatenate([stage.sketch(Document("1", "a")), stage.sketch(Document("2", "b"))])
    rows["key"] = 7
    assert len(stage.losers(rows)[0]) == 0
    rows["check"] = 7
    assert len(stage.losers(rows)[0]) == 1


def test_lines_are_cut_but_for_the_first_in_the_best_document() -> None:
    docs = documents(
        [
            f"{LONG}\nshort\n{OTHER}\n",
            f"{LONG}\nshort\n",
            f"{LONG}\n{LONG} and more, so it is the best\n{LONG}\n{OTHER[:50]}",
        ]
    )
    result = run([ExactDedup(level="line")], docs)
    assert [doc.text for doc in result.kept] == [
        f"short\n{OTHER}\n",
        "short\n",
        docs[2].text.replace(f"\n{LONG}\n", "\n"),
    ]
    assert result.ledger.reasons("exact_dedup", "dropped") == {}


def test_a_document_of_which_nothing_is_left_goes_with_its_twin() -> None:
    docs = documents([f"{LONG}\n\n {OTHER}", f"{LONG}\n{OTHER}\nand more"])
    result = run([ExactDedup(level="line", hash_text="collapse")], docs)
    assert [each.drop for each in result.dropped] == [Drop("duplicate_line", twin=docs[1].id)]
    assert [doc.id for doc in result.kept] == [docs[1].id]


def test_paragraphs_are_cut_with_the_blank_lines_behind_them() -> None:
    first, second = f"{LONG}\n{OTHER}", f"{OTHER}\n{LONG}"
    docs = documents([f"{first}\n\n{second}\n\n\nend", f"x {LONG} {LONG}\n\n{first}\n \n{LONG}\n{OTHER}."])
    stage = ExactDedup(level="paragraph")
    result = run([stage], docs)
    assert [doc.text for doc in result.kept] == [f"{second}\n\n\nend", docs[1].text]
    rows = stage.sketch(docs[0])
    assert stage.verdict(rows[:1], "x") == Cut(((0, len(first) + 2),), "duplicate_paragraph")
    assert stage.reasons == ("duplicate_paragraph",)


def test_short_lines_stay_and_the_limit_counts_no_blanks_at_the_ends() -> None:
    docs = documents(["}\n" * 5 + " " * 50 + "}\n", "}\n"])
    assert run([ExactDedup(level="line")], docs).kept == docs
    assert run([ExactDedup(level="line", min_chars=1)], docs).kept[0].text == "}\n" + " " * 50 + "}\n"


@given(st.text(st.sampled_from("a \n\r\u2028"), max_size=20))
def test_lines_and_paragraphs_lie_in_order_and_lose_only_blanks(text: str) -> None:
    assert "".join(text[start:stop] for start, stop in lines(text)) == text
    spans = list(paragraphs(text))
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
    left = text
    for start, stop in reversed(spans):
        assert not text[start:stop].splitlines()[0].isspace()
        left = left[:start] + left[stop:]
    assert not left.strip()


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 5)), max_size=8))
def test_joined_spans_cover_the_same_and_do_not_touch(pairs: list[tuple[int, int]]) -> None:
    starts = np.array([start for start, _ in pairs], np.int64)
    stops = starts + np.array([size for _, size in pairs], np.int64)
    spans = join_spans(starts, stops)
    Cut(spans, "example")
    assert {at for start, stop in spans for at in range(start, stop)} == {
        at for start, stop in zip(starts.tolist(), stops.tolist(), strict=True) for at in range(start, stop)
    }


def test_a_thousand_short_texts_do_not_shrink_to_a_few() -> None:
    """Unrelated documents all stay, however many there are (a filter of bits would lose some)."""
    docs = documents([f"Hello, this is note {at}" for at in range(1000)])
    assert len(run([ExactDedup()], [*docs, Document("copy", docs[3].text)]).kept) == 1000


def test_another_process_keeps_the_same() -> None:
    code = (
        "from prep_lib.record import Document\nfrom prep_lib.stage import run\n"
        "from prep_lib.text.exact_dedup import ExactDedup\n"
        "docs = [Document(str(at), 'same' + ' ' * (at % 3)) for at in range(9)]\n"
        "print([doc.id for doc in run([ExactDedup()], docs).kept])"
    )
    said = {_printed(code, seed) for seed in ("1", "2")}
    docs = [Document(str(at), "same" + " " * (at % 3)) for at in range(9)]
    assert said == {str([doc.id for doc in run([ExactDedup()], docs).kept])}


def _printed(code: str, seed: str) -> str:
    env = {**os.environ, "PYTHONHASHSEED": seed}
    root = Path(__file__).parents[3]
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env, cwd=root
    ).stdout.strip()


def test_a_stage_travels_and_a_half_surrogate_is_text() -> None:
    stage = pickle.loads(pickle.dumps(ExactDedup(level="line", min_chars=3)))
    assert stage == ExactDedup(level="line", min_chars=3)
    result: Result = run([ExactDedup()], [Document("1", "\ud800"), Document("2", "\ud800 ")])
    assert [doc.id for doc in result.kept] == ["2"]


def test_a_normalisation_of_ones_own_is_part_of_the_stage() -> None:
    """A worker that never registered it has it, and another function of the same name is another stage."""

    def lower(text: str) -> str:
        return text.lower()

    def upper(text: str) -> str:
        return text.upper()

    digests = set()
    for function in (lower, upper):
        HASH_TEXTS._items["test_case"] = function
        digests.add(function_digest(ExactDedup(hash_text="test_case")))
    stage = ExactDedup(hash_text="test_case")
    del HASH_TEXTS._items["test_case"]
    assert len(digests) == 2
    assert len(run([stage], documents(["A", "a"])).kept) == 1
    assert len({function_digest(ExactDedup(hash_text=name)) for name in HASH_TEXTS}) == 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"keep": "last"}, "keep must be 'best' or 'first', got 'last'"),
        ({"level": "word"}, "level must be one of document, paragraph, line; got 'word'"),
        ({"min_chars": 0}, "min_chars must be a whole number >= 1, got 0"),
        ({"min_chars": True}, "min_chars must be a whole number >= 1, got True"),
    ],
)
def test_nonsense_is_refused_at_birth(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        ExactDedup(**wrong)  # type: ignore[arg-type]


def test_an_unknown_normalisation_lists_the_known() -> None:
    with pytest.raises(UnknownName, match="did you mean 'collapse'"):
        ExactDedup(hash_text="colapse")
