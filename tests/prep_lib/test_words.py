"""Words: every sentence in both languages, the same braces in both, and nobody asks for one that is not there."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from prep_lib.errors import UnknownName
from prep_lib.words import LANGS, WORDS, say

ROOT = Path(__file__).parents[2]
#: Where words are shown.
SHOWN = [*(ROOT / "widgets").rglob("*.py"), *(ROOT / "prep_lib").rglob("*.py")]


def braces(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def asked(path: Path) -> Iterator[tuple[str, int]]:
    """Every key a file hands to `say`, as a pattern: what an f-string fills in is any text."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "say":
            for pattern in patterns(node.args[0]):
                yield pattern, node.lineno


def patterns(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        yield from patterns(node.body)
        yield from patterns(node.orelse)
    elif isinstance(node, ast.JoinedStr):
        yield "".join(re.escape(str(v.value)) if isinstance(v, ast.Constant) else ".+" for v in node.values)
    elif isinstance(node, ast.Constant):
        yield re.escape(str(node.value))


@pytest.mark.parametrize("key", WORDS)
def test_a_sentence_is_written_in_every_language_with_the_same_braces(key: str) -> None:
    sentences = WORDS[key]
    assert len(sentences) == len(LANGS)
    assert all(sentence.strip() == sentence and sentence for sentence in sentences)
    assert len({frozenset(braces(sentence)) for sentence in sentences}) == 1


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nobody_asks_for_a_sentence_nobody_wrote(path: Path) -> None:
    missing = [
        f"{path.name}:{line}: {pattern}"
        for pattern, line in asked(path)
        if not any(re.fullmatch(pattern, key) for key in WORDS)
    ]
    assert not missing


def test_nothing_is_written_that_nobody_says() -> None:
    """A key may also be told as a plain string, in a table of words."""
    texts = [path.read_text("utf-8") for path in SHOWN if path.name != "words.py"]
    known = [pattern for path in SHOWN for pattern, _ in asked(path)]
    unsaid = [
        key
        for key in WORDS
        if not any(re.fullmatch(pattern, key) for pattern in known) and not any(f'"{key}"' in text for text in texts)
    ]
    assert not unsaid


def test_values_are_put_in() -> None:
    assert say("progress.tasks", done=3, tasks=1200) == "3 of 1,200 tasks"
    assert say("progress.tasks", "zh", done=3, tasks=1200) == "已完成 3 / 1,200 个任务"


def test_an_unknown_key_names_those_of_its_page() -> None:
    with pytest.raises(
        UnknownName, match=r"words: unknown key 'packing.titel'; did you mean 'packing.title'\? known: packing\."
    ):
        say("packing.titel")


def test_an_unknown_language_names_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="words: unknown language 'de'; known: en, zh"):
        say("kept", "de")
