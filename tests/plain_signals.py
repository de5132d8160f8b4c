"""The signals in plain Python: what `prep_lib.text.signals` must give, written to be read, not to be fast."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from prep_lib.text.signals import Reading
from prep_lib.text.word import END_MARKS, Splitter, count_sentences, is_symbol, splitter


def plain_signals(text: str, reading: Reading) -> dict[str, float]:
    """Every signal of the groups text, words, lines, repeats and page, by its definition."""
    split = splitter(reading.words)
    return (
        {"chars": len(text)}
        | words(text, reading, split)
        | lines(text)
        | repeats(text, split)
        | page(text, reading, split)
    )


def share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def words(text: str, reading: Reading, split: Splitter) -> dict[str, float]:
    found = split.split(text)
    plain = [len(word) for word in found if not is_symbol(word)]
    stops = set(reading.stop_words)
    return {
        "words": len(found),
        "plain_words": len(plain),
        "mean_word_length": share(sum(plain), len(plain)),
        "hashes": share(text.count("#"), len(found)),
        "ellipses": share(text.count("...") + text.count("…"), len(found)),
        "alpha_words": share(sum(any(map(str.isalpha, word)) for word in found), len(found)),
        "stop_words": sum(word in text for word in stops) if split.characters else len(stops & set(found)),
        "stop_word_hits": sum(map(text.count, stops)) if split.characters else sum(word in stops for word in found),
    }


def seen_before(pieces: Iterable[str]) -> tuple[int, int]:
    seen: set[str] = set()
    count = chars = 0
    for piece in pieces:
        if piece in seen:
            count, chars = count + 1, chars + len(piece)
        seen.add(piece)
    return count, chars


def lines(text: str) -> dict[str, float]:
    split, blocks, paragraphs = text.splitlines(), re.split("\n+", text), re.split("\n{2,}", text.strip())
    (again, chars), (paragraphs_again, paragraph_chars) = seen_before(blocks), seen_before(paragraphs)
    return {
        "bullet_lines": share(sum(line.lstrip().startswith(("•", "-")) for line in split), len(split)),
        "ellipsis_lines": share(sum(line.rstrip().endswith(("...", "…")) for line in split), len(split)),
        "dup_paragraphs": paragraphs_again / len(paragraphs),
        "dup_paragraph_chars": share(paragraph_chars, len(text)),
        "dup_lines": again / len(blocks),
        "dup_line_chars": share(chars, len(text)),
    }


def repeats(text: str, split: Splitter) -> dict[str, float]:
    found = split.split(text)
    out = {f"top_{n}_gram": share(commonest(found, n), len(text)) for n in (2, 3, 4)}
    return out | {f"dup_{n}_grams": share(glued_before(found, n), len(text)) for n in range(5, 11)}


def commonest(found: Sequence[str], n: int) -> int:
    grams = Counter(" ".join(found[at : at + n]) for at in range(len(found) - n + 1))
    if not grams:
        return 0
    gram, count = grams.most_common(1)[0]
    return len(gram) * count


def glued_before(found: Sequence[str], n: int) -> int:
    seen: set[str] = set()
    chars = at = 0
    while at <= len(found) - n:
        gram = "".join(found[at : at + n])
        if gram in seen:
            chars, at = chars + len(gram), at + n
        else:
            seen.add(gram)
            at += 1
    return chars


def page(text: str, reading: Reading, split: Splitter) -> dict[str, float]:
    cut = reading.lines.cut(text) if reading.lines else None
    left = cut.text if cut else text
    filled = [line for line in left.split("\n") if line.strip()]
    counted = [max(count_sentences(line, split), 1) for line in cut.lines] if cut else []
    if not cut:
        counted = [count_sentences(line.strip(), split) for line in text.splitlines()]
    return {
        "lorem_ipsum": cut.lorem if cut else 0,
        "braces": cut.braces if cut else 0,
        "sentences": sum(counted),
        "kept_chars": sum(stop - start for start, stop in cut.spans) if cut else len(text),
        "filled_lines": len(filled),
        "end_mark_lines": share(sum(line.endswith(tuple(END_MARKS)) for line in filled), len(filled)),
        "short_lines": share(sum(len(line) <= 30 for line in filled), len(filled)),
        "dup_kept_line_chars": share(seen_before(filled)[1], len(left) - left.count("\n")),
        "newlines": share(left.count("\n"), len(split.split(left))),
    }
