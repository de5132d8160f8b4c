"""Two texts as spans that are the same, went, came, or were replaced; in bounded time, however long they are.

    before  d o n ’ t ␣ ␣ ↵          =  "don"   ~ "’" → "'"   =  "t"   − "␣␣"   =  "↵"
    after   d o n ' t ↵

Lines first, matched by their letters and digits alone, so that a line with other blanks or quotes still is that line.
Then words inside lines that belong together, in a window that moves on from change to change: a line may be a whole
article. What is too much to compare is one span, replaced as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from operator import eq
from typing import NamedTuple

#: Lines a side that are matched with one another; words a side that are, where two texts part; and how many pairs of
#: words are looked at in one text.
LINES, WINDOW, PAIRS = 2_000, 100, 500_000
#: So many words in common and both texts are together again; most often no farther on than so many words.
AGAIN, NEAR = 4, 8

_WORD = re.compile(r"\w+|\W")


class Span(NamedTuple):
    """A stretch of the one text, and what stands in its place in the other.

    Parameters
    ----------
    before, after : str
        The same where nothing changed.
    """

    before: str
    after: str

    @property
    def kind(self) -> str:
        """Return ``equal``, ``insert``, ``delete`` or ``replace``."""
        if self.before == self.after:
            return "equal"
        return "replace" if self.before and self.after else "delete" if self.before else "insert"


def compare(before: str, after: str) -> list[Span]:
    r"""Return what became of `before`, in order.

    Parameters
    ----------
    before, after : str

    Returns
    -------
    list of Span
        The `before` of all spans in a row is `before`, and the same for `after`; no two neighbours are both equal.

    Examples
    --------
    >>> [(span.kind, span.before, span.after) for span in compare("don’t  \n", "don't\n")]
    [('equal', 'don', 'don'), ('replace', '’', "'"), ('equal', 't', 't'), ('delete', '  ', ''), ('equal', '\n', '\n')]
    """
    left, out = PAIRS, list[Span]()
    for old, new in _blocks(before.splitlines(keepends=True), after.splitlines(keepends=True)):
        spans, left = _detail(old, new, left)
        for span in spans:
            if out and out[-1].kind == span.kind == "equal":
                out[-1] = Span(out[-1].before + span.before, out[-1].after + span.after)
            elif span.before or span.after:
                out.append(span)
    return out


def same(spans: list[Span]) -> float:
    """Return which share of the longer text is in both; 1 for two empty ones."""
    kept = sum(len(span.before) for span in spans if span.kind == "equal")
    longer = max(sum(len(span.before) for span in spans), sum(len(span.after) for span in spans))
    return kept / longer if longer else 1.0


def _blocks(old: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    """Lines that belong together: one and one where possible."""
    a, b = ([re.sub(r"\W+", "", line) for line in lines] for lines in (old, new))
    if len(a) == len(b) and 2 * sum(map(eq, a, b)) >= len(a):
        yield from zip(old, new, strict=True)
        return
    if max(len(old), len(new)) > LINES:
        yield from _blocks(old[:LINES], new[:LINES])
        yield "".join(old[LINES:]), "".join(new[LINES:])
        return
    for _, i, j, k, m in SequenceMatcher(None, a, b).get_opcodes():
        if j - i == m - k:
            yield from zip(old[i:j], new[k:m], strict=True)
        else:
            yield "".join(old[i:j]), "".join(new[k:m])


def _detail(old: str, new: str, left: int) -> tuple[list[Span], int]:
    """The spans of one block, and how many pairs of words may still be looked at."""
    if old == new:
        return [Span(old, new)], left
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    a, b = (_WORD.findall(text[head : len(text) - tail]) for text in (old, new))
    middle, left = _words(a, b, left)
    start, end = old[:head], old[len(old) - tail :]
    return [Span(start, start), *middle, Span(end, end)], left


def _words(a: list[str], b: list[str], left: int) -> tuple[list[Span], int]:
    """Where two rows of words part, what became of a window full, and on from where they are together again."""
    spans, i, j = list[Span](), 0, 0
    while i < len(a) and j < len(b) and left > 0:
        if near := _near(a[i : i + NEAR + AGAIN], b[j : j + NEAR + AGAIN]):
            steps: Iterable[tuple[int, int]] = [near]
        else:
            here, there = a[i : i + WINDOW], b[j : j + WINDOW]
            left -= len(here) * len(there)
            steps = _window(here, there, whole=i + WINDOW >= len(a) and j + WINDOW >= len(b))
        for end, to in steps:
            spans.append(Span("".join(a[i : i + end]), "".join(b[j : j + to])))
            i, j = i + end, j + to
        start = i
        while i < len(a) and j < len(b) and a[i] == b[j]:
            i, j = i + 1, j + 1
        spans.append(Span("".join(a[start:i]), "".join(a[start:i])))
    return [*spans, Span("".join(a[i:]), "".join(b[j:]))], left


def _near(here: list[str], there: list[str]) -> tuple[int, int] | None:
    """How many words each side has to go on until both are together again; None: farther than is looked."""
    if here[1:2] == there[1:2] and here[1:2] and here[1].isalnum():
        return 1, 1
    for far in range(1, NEAR + 1):
        for end in range(far + 1):
            again = here[end : end + AGAIN]
            if len(again) == AGAIN and again == there[far - end : far - end + AGAIN]:
                return end, far - end
    return None


def _window(here: list[str], there: list[str], *, whole: bool) -> Iterator[tuple[int, int]]:
    """Steps through both sides up to where they are together again, or to the end of the window."""
    for kind, at, end, k, m in SequenceMatcher(None, here, there, autojunk=False).get_opcodes():
        yield end - at, m - k
        if kind == "equal" and end - at >= AGAIN and not whole:
            return


def _common(a: str, b: str) -> int:
    """How many characters two texts begin with in common."""
    low, high = 0, min(len(a), len(b))
    while low < high:  # halving, because slices compare at the speed of memory
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[:middle] == b[:middle] else (low, middle - 1)
    return low
