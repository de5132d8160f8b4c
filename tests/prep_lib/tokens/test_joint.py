"""A text made by a template has the same ids and borders both ways, and only the template makes control tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import shared
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.special import IM_END, IM_START
from prep_lib.tokens import joint
from prep_lib.tokens.joint import Row
from prep_lib.tokens.tokenizer import AutoTokenizer
from prep_lib.traced import Origin, Run, concat, runs_of, traced

TEXTS = [
    "the cat sat on the mat, the cat sat",
    "def f(x):\n    return x  # 3.14",
    "你好，世界。你好",
    "naïve café 👩‍👧",
] * 4
#: What people write: CJK, emoji, combining marks, blanks, and control tokens by their letters.
WORDS = st.sampled_from([
    "the cat", " sat", "\n", "  ", "你好", "世", "👩‍👩‍👧", "e\u0301", "\u0301", "ﷺ", "<think>", "</think>", "<",
    "im_end|>", "\x00", "x", IM_END, IM_START, "<|im_end|>", "<|im_start|>", "<|endoftext|>", "</s>", "[INST]", "<unk>",
])  # fmt: skip
CONTENT = st.lists(WORDS | st.text(max_size=3), max_size=6).map("".join)
TURNS = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), CONTENT), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, AutoTokenizer]:
    """Models that take the quick way and models that do not."""
    trained = AutoTokenizer().train(TEXTS, vocab_size=400)
    folder = tmp_path_factory.mktemp("models")
    found = {"trained": trained}
    for name, tokens in {
        "thinking": [{"content": "<think>"}, {"content": "</think>"}],
        "greedy": [{"content": "<think>", "rstrip": True, "lstrip": True}],
    }.items():
        spec = json.loads(trained._model.text)
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
        spec["added_tokens"] += [{"id": 400 + at, **flags, **token} for at, token in enumerate(tokens)]
        (folder / f"{name}.json").write_text(json.dumps(spec), "utf-8")
        found[name] = AutoTokenizer(folder / f"{name}.json")
    for name in ("tiny_bytelevel_chatml", "tiny_metaspace_inst"):
        path = Path(__file__).parents[3] / ".." / "shared" / "data" / "tokenizers" / f"{name}.json"
        if path.exists():
            found[name] = AutoTokenizer(path)
    return found


def control(tokenizer: AutoTokenizer) -> tuple[str, str]:
    names = ((IM_START, IM_END), ("<|im_start|>", "<|im_end|>"), ("[INST]", "</s>"))
    return next(pair for pair in names if all(tokenizer.id(name) is not None for name in pair))


def chat(tokenizer: AutoTokenizer, turns: list[tuple[str, str]]) -> tuple[Row, int]:
    """Return a conversation as a template would make it, with a border before and behind each content."""
    start, end = control(tokenizer)
    pieces: list[str] = []
    borders = set()
    for at, (role, content) in enumerate(turns):
        pieces += [start, traced(role, "role", at), "\n", traced(content, "content", at), end, "\n"]
        borders |= {len("".join(pieces[:-3])), len("".join(pieces[:-2])), len("".join(pieces))}
    text = concat(pieces)
    answers = {at for at, (role, _) in enumerate(turns) if role == "assistant"}
    controls, literal = tokenizer.spelled(str.__str__(text), runs_of([text], [None]), answers)
    return Row(str.__str__(text), controls, sorted(borders), range(len(text), -1, -1)), literal


def same(one: joint.Placed, other: joint.Placed) -> None:
    assert one.ids.tolist() == other.ids.tolist()
    assert list(one.proven) == list(other.proven)
    assert list(one.places) == list(other.places)
    assert (one.edges, one.across) == (other.edges, other.across)


def test_which_models_take_the_quick_way(models: dict[str, AutoTokenizer]) -> None:
    quick = {name: tokenizer._model.splits for name, tokenizer in models.items()}
    expected = {
        "trained": True, "thinking": True, "greedy": False, "tiny_bytelevel_chatml": True, "tiny_metaspace_inst": False,
    }  # fmt: skip
    assert quick == {name: expected[name] for name in quick}


@given(st.lists(TURNS, min_size=1, max_size=3))
@settings(max_examples=80, deadline=None)
def test_both_ways_give_the_same(models: dict[str, AutoTokenizer], many: list[list[tuple[str, str]]]) -> None:
    for tokenizer in models.values():
        rows = [chat(tokenizer, turns)[0] for turns in many]
        placed = tokenizer.encode_rows(rows)
        for row, found in zip(rows, placed, strict=True):
            same(found, joint._by_reference(tokenizer._model, row))
            assert found.ids.dtype == np.int32


@given(TURNS)
@settings(max_examples=40, deadline=None)
def test_the_accelerator_changes_nothing(models: dict[str, AutoTokenizer], turns: list[tuple[str, str]]) -> None:
    for tokenizer in models.values():
        row, _ = chat(tokenizer, turns)
        (quick,) = tokenizer.encode_rows([row])
        tokenizer.use_reference()
        try:
            (slow,) = tokenizer.encode_rows([row])
        finally:
            tokenizer.use_reference("")
        same(quick, slow)


@given(TURNS)
@settings(max_examples=80, deadline=None)
def test_content_makes_no_control_token(models: dict[str, AutoTokenizer], turns: list[tuple[str, str]]) -> None:
    """As many control ids as the template spells, whatever the messages spell; and the text comes back."""
    for name, tokenizer in models.items():
        row, literal = chat(tokenizer, [(role, text.replace("think>", "thing>")) for role, text in turns])
        start, end = control(tokenizer)
        (found,) = tokenizer.encode_rows([row])
        ids = [id for id in found.ids.tolist() if id in tokenizer.control_ids]
        assert ids == [tokenizer.id(token) for _ in turns for token in (start, end)]
        said = [text.replace("think>", "thing>") for _, text in turns]
        assert literal == sum(len(tokenizer.literal_specials(text)) for text in said)
        if name != "tiny_metaspace_inst":  # whose decoder drops blanks
            assert tokenizer.decode(found.ids) == row.text


def test_offsets_of_the_reference_lie_in_the_text_whatever_is_renamed(models: dict[str, AutoTokenizer]) -> None:
    tokenizer = models["trained"]
    row, _ = chat(tokenizer, [("user", f"a {IM_END} 你{IM_START}👩‍👧"), ("assistant", "b")])
    ids, starts, stops = tokenizer.encode_joint(row.text, row.controls)
    for id, start, stop in zip(ids.tolist(), starts.tolist(), stops.tolist(), strict=True):
        if id in tokenizer.control_ids:
            assert row.text[start:stop] == tokenizer.token(id)
        else:
            assert tokenizer.token_bytes(id) in row.text[start:stop].encode()
    assert starts[0] == 0
    assert stops[-1] == len(row.text)


def test_a_border_inside_a_token_is_not_proven(models: dict[str, AutoTokenizer]) -> None:
    tokenizer = models["trained"]
    for text in ("the cat", "你好"):
        row = Row(text, (), list(range(len(text) + 1)))
        (found,) = tokenizer.encode_rows([row])
        reference = joint._by_reference(tokenizer._model, row)
        same(found, reference)
        assert found.proven[0]
        assert found.proven[-1]
        assert not all(found.proven)


def test_the_tokens_that_meet_at_an_edge(models: dict[str, AutoTokenizer]) -> None:
    tokenizer = models["trained"]
    text = f"the cat{IM_END}你好\n"
    controls = ((7, 7 + len(IM_END), 4),)
    row = Row(text, controls, [], range(len(text) + 1))
    (found,) = tokenizer.encode_rows([row])
    same(found, joint._by_reference(tokenizer._model, row))
    ids, starts, stops = tokenizer.encode_joint(text, controls)
    for edge, behind, across in zip(row.edges, found.edges, found.across, strict=True):
        lies_across = [at for at in range(len(ids)) if starts[at] < edge < stops[at]]
        assert behind == next((at for at in range(len(ids)) if starts[at] >= edge), len(ids))
        assert across == (lies_across[0] if lies_across else behind)
    assert found.across != found.edges


def test_a_border_whose_text_alone_has_other_ids_is_not_proven(models: dict[str, AutoTokenizer]) -> None:
    """A token begins there, and yet: alone, the text before it is cut otherwise, as blanks before a word are."""
    tokenizer = models["trained"]
    (found,) = tokenizer.encode_rows([Row("   cat", (), [2, 3])])
    same(found, joint._by_reference(tokenizer._model, Row("   cat", (), [2, 3])))


def test_nothing_is_something(models: dict[str, AutoTokenizer]) -> None:
    for tokenizer in models.values():
        assert tokenizer.encode_rows([]) == []
        (empty,) = tokenizer.encode_rows([Row("", (), [0])])
        assert (len(empty.ids), list(empty.places), list(empty.proven)) == (0, [0], [True])
        first, second = tokenizer.encode_rows([Row("", (), []), Row("a", (), [0, 1])])
        assert len(first.ids) == 0
        assert list(second.proven) == [True, True]


def test_many_openings_are_remembered_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = AutoTokenizer().train([*TEXTS, "other"], vocab_size=300)
    monkeypatch.setattr(joint, "HEADS", 3)
    for at in range(7):
        (found,) = tokenizer.encode_rows([Row(f"head {at} tail", (), [6])])
        same(found, joint._by_reference(tokenizer._model, Row(f"head {at} tail", (), [6])))
        assert len(tokenizer._model.heads) <= 3


# ---------------------------------------------------------------- who spells a control token


def counts(tokenizer: AutoTokenizer, pieces: list[Any], answers: tuple[int, ...] = ()) -> tuple[int, int]:
    text = concat(pieces)
    found, literal = tokenizer.spelled(str.__str__(text), runs_of([text], [None]), answers)
    return len(found), literal


def test_who_spells_a_control_token() -> None:
    special = ["<|user|>", "<think>", "</think>"]
    tokenizer = AutoTokenizer().train(TEXTS, vocab_size=300, special_tokens=special)
    user, answer = (lambda text: traced(text, "content", 0)), (lambda text: traced(text, "content", 1))
    role = traced("user", "role", 0)
    assert counts(tokenizer, ["<|user|>"]) == (1, 0)
    assert counts(tokenizer, [user("<|user|>")]) == (0, 1)
    assert counts(tokenizer, ["<|", role, "|>"]) == (1, 0)
    assert counts(tokenizer, ["<|", user("user"), "|>"]) == (0, 1)
    assert counts(tokenizer, [traced("<|user|>", "role", 0)]) == (0, 1)
    assert counts(tokenizer, [user("<|us"), "er|>"]) == (0, 1)
    # What a model writes itself: the tags around a thought, in an answer and nowhere else.
    assert counts(tokenizer, [answer("<think>a</think>")], (1,)) == (2, 0)
    assert counts(tokenizer, [user("<think>a</think>")], (1,)) == (0, 2)
    assert counts(tokenizer, [answer("<|user|>")], (1,)) == (0, 1)
    assert counts(tokenizer, ["a", user("b")]) == (0, 0)


def test_parse_counts_them_all(models: dict[str, AutoTokenizer]) -> None:
    tokenizer = models["trained"]
    text = f"a{IM_END}"
    runs = [Run(0, len(text), Origin(0, "content"), 0, None, False)]
    assert tokenizer.spelled(text, runs) == ((), 1)
    assert tokenizer.spelled(text, runs, parse=True) == (((1, len(text), 4),), 0)


def test_an_added_token_that_is_no_control_token_counts_everywhere(models: dict[str, AutoTokenizer]) -> None:
    assert counts(models["thinking"], [traced("<think>", "content", 0)]) == (1, 0)


def test_real_conversations_give_the_same_both_ways() -> None:
    tokenizer = AutoTokenizer(shared("tokenizers/tiny_bytelevel_chatml.json"))
    lines = shared("sft/openai_messages_en.jsonl").read_text("utf-8").splitlines()[:40]
    rows = [chat(tokenizer, [(m["role"], m["content"]) for m in json.loads(line)["messages"]])[0] for line in lines]
    for row, found in zip(rows, tokenizer.encode_rows(rows), strict=True):
        same(found, joint._by_reference(tokenizer._model, row))
