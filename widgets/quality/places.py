"""The places of a text that a signal counts, and an excerpt that begins near the first of them.

short_lines    The cat sat on the mat and looked out.        hashes   one # two ## three
               Home                                                       ‾     ‾‾
               ‾‾‾‾
               About us
               ‾‾‾‾‾‾‾‾
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TypeAlias

from prep_lib.text.word import END_MARKS

#: Characters of an excerpt, of those before the first place, and of those among which places are looked for.
SHOWN, AHEAD, LOOKED = 420, 60, 20_000

#: Finds the places of a text that a signal counts.
_Marks: TypeAlias = Callable[[str], Iterator[tuple[int, int]]]


@lru_cache(maxsize=256)
def excerpt(text: str, signal: str) -> tuple[int, tuple[tuple[str, bool], ...]]:
    """Return where an excerpt begins, and its pieces: each with whether the signal counts it.

    Examples
    --------
    >>> excerpt("one # two", "hashes")
    (0, (('one ', False), ('#', True), (' two', False)))
    """
    spans = list(itertools.islice(_marks(signal)(text[:LOOKED]), SHOWN))
    begin = max(0, spans[0][0] - AHEAD) if spans else 0
    end, at, pieces = begin + SHOWN, begin, []
    for start, stop in spans:
        if start >= end:
            break
        pieces += [(text[at:start], False), (text[start : min(stop, end)], True)]
        at = min(stop, end)
    pieces.append((text[at:end], False))
    return begin, tuple(piece for piece in pieces if piece[0])


def _marks(signal: str) -> _Marks:
    """Return what finds the places a signal counts; for one that counts no places, nothing does."""
    if ngram := _NGRAM.fullmatch(signal):
        size = int(ngram["size"])
        return (lambda text: _commonest(text, size)) if ngram["top"] else (lambda text: _again(text, size))
    return _MARKS.get(signal, lambda text: iter(()))


def _found(pattern: str) -> _Marks:
    compiled = re.compile(pattern)
    return lambda text: (match.span() for match in compiled.finditer(text))


def _lines(counts: Callable[[str], bool]) -> _Marks:
    """Find the lines of which `counts` is true, without the white space around them."""

    def find(text: str) -> Iterator[tuple[int, int]]:
        for line in re.finditer(r"[^\s\n](?:[^\n]*[^\s\n])?", text):
            if counts(line[0]):
                yield line.span()

    return find


def _seen(text: str) -> Iterator[tuple[int, int]]:
    """Find lines that stood there before."""
    seen: set[str] = set()
    for line in re.finditer(r"[^\s\n](?:[^\n]*[^\s\n])?", text):
        if line[0] in seen:
            yield line.span()
        seen.add(line[0])


def _grams(text: str, size: int) -> list[tuple[str, int, int]]:
    words = [(match[0], *match.span()) for match in re.finditer(r"\S+", text)]
    slices = (words[at : at + size] for at in range(len(words) - size + 1))
    return [(" ".join(word for word, _, _ in part), part[0][1], part[-1][2]) for part in slices]


def _commonest(text: str, size: int) -> Iterator[tuple[int, int]]:
    grams = _grams(text, size)
    top = max(Counter(gram for gram, _, _ in grams).items(), key=lambda pair: pair[1], default=("", 0))
    end = 0
    for gram, start, stop in grams:
        if gram == top[0] and top[1] > 1 and start >= end:
            yield start, stop
            end = stop


def _again(text: str, size: int) -> Iterator[tuple[int, int]]:
    """Find words in a row that stood there before, neighbours joined."""
    seen, begin, end = set[str](), 0, -1
    for gram, start, stop in _grams(text, size):
        if gram in seen:
            if start > end >= 0:
                yield begin, end
            begin, end = (start, stop) if start > end else (begin, stop)
        seen.add(gram)
    if end >= 0:
        yield begin, end


#: Signals that count runs of words: the commonest one, or those that come again.
_NGRAM = re.compile(r"(?:(?P<top>top|most|replaced)|dup|copied|repeated)_(?P<size>\d+)_grams?")

_ENDS = tuple(END_MARKS)
_MARKS: dict[str, _Marks] = {
    **dict.fromkeys(("dup_lines", "dup_line_chars", "dup_kept_line_chars", "copied_lines", "copied_line_chars",
                     "unique_lines", "unique_line_chars", "dup_paragraphs", "dup_paragraph_chars",
                     "unique_paragraphs", "unique_paragraph_chars"), _seen),
    "short_lines": _lines(lambda line: len(line) <= 30),
    **dict.fromkeys(("end_mark_lines", "open_lines"), _lines(lambda line: not line.endswith(_ENDS))),
    "bullet_lines": _lines(lambda line: line.startswith(("•", "-"))),
    "star_lines": _lines(lambda line: line.startswith(("*", "-"))),
    "dot_lines": _lines(lambda line: line.startswith(tuple("•‣⁃∙●◦○"))),
    **dict.fromkeys(("ellipsis_lines", "dots_lines", "more_lines"), _lines(lambda line: line.endswith(("...", "…")))),
    "hashes": _found("#"), "ellipses": _found(r"…|\.\.\."), "symbol_words": _found(r"\S*[#…]\S*"),
    "mark_words": _found(r"#+|…|\.\.\."), "braces": _found(r"\{"), "brackets": _found(r"[(){}\[\]⟨⟩]"),
    "digits": _found(r"\d+"), "url_chars": _found(r"https?://\S+"), "lorem_ipsum": _found(r"(?i)lorem ipsum"),
    "boilerplate": _found(r"(?i)lorem ipsum|(?:privacy|cookies?) policy|terms of use|cookies"),
    "odd_chars": _found(r"[^a-zA-Z0-9\s?!,.]+"), "longest_word": _found(r"\S{40,}"), "newlines": _found(r"\n"),
    "alpha_words": _found(r"(?<!\S)(?:(?!\s)[\W\d_])+(?!\S)"),
}  # fmt: skip
