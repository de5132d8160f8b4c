"""What is measured of a text before anybody decides: words, lines, repetition, what line rules leave, each once.

                 ┌─ words ───── words, plain_words, mean_word_length, alpha_words, stop_words …
text ─┬─ chunks ─┤
      │          └─ repeats ─── top_2_gram … dup_10_grams
      ├─ lines ──────────────── bullet_lines, dup_lines, dup_paragraphs …
      └─ line rules ──▶ what is left ──▶ sentences, end_mark_lines, short_lines, newlines …
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from prep_lib.errors import BadParameter, unknown
from prep_lib.jit import kernel
from prep_lib.record import Document
from prep_lib.text.word import END_MARKS, SENTENCES, Cutter, count_sentences, i64, splitter


@dataclass(frozen=True)
class Signal:
    """One number of a document.

    Parameters
    ----------
    name : str
    group : str
        Signals of one group are measured together.
    what : str
        What it is, with its unit.
    low, high : float
        What it can be at all; a limit outside is no rule. A share of characters in n-grams can pass 1: its n-grams
        overlap and are joined by blanks.
    """

    name: str
    group: str
    what: str
    low: float = 0.0
    high: float = float("inf")


def _catalogue(group: str, rows: Mapping[str, str], high: float = float("inf")) -> dict[str, Signal]:
    return {name: Signal(name, group, what, 0.0, high) for name, what in rows.items()}


#: How many words in a row `top_N_gram` and `dup_N_grams` know: 2 to 4 and 5 to 10 words, and what those are in
#: characters (at most 3.6 of them a word).
TOP, DUP = range(2, 15), range(5, 37)

SIGNALS: dict[str, Signal] = {
    **_catalogue("text", {"chars": "characters"}),
    **_catalogue("words", {
        "words": "words, marks counted",
        "plain_words": "words that are more than marks",
        "mean_word_length": "characters a word, over words that are more than marks",
        "hashes": "# characters per word",
        "ellipses": "… and ... per word",
        "stop_words": "different stop words found",
        "stop_word_hits": "words that are stop words",
    }),
    **_catalogue("spelling", {
        "median_word_length": "characters",
        "all_word_length": "characters a word, marks counted",
        "longest_word": "characters",
    }),
    **_catalogue("words", {
        "alpha_words": "share of words with a letter",
    }, 1.0),
    **_catalogue("spelling", {
        "symbol_words": "share of words with # or …",
        "mark_words": "share of words that are an ellipsis or half # signs",
    }, 1.0),
    **_catalogue("lines", {
        "bullet_lines": "share of lines that begin with • or -",
        "ellipsis_lines": "share of lines that end with … or ...",
        "dup_paragraphs": "share of paragraphs seen before",
        "dup_paragraph_chars": "share of characters in paragraphs seen before",
        "dup_lines": "share of lines seen before, runs of line feeds as one",
        "dup_line_chars": "share of characters in lines seen before",
    }, 1.0),
    **_catalogue("repeats", {
        f"top_{n}_gram": f"commonest {n} words in a row, with blanks: characters x times, per character" for n in TOP
    }),
    **_catalogue(
        "repeats", {f"dup_{n}_grams": f"share of characters in {n} words in a row seen before" for n in DUP}, 1.0
    ),
    **_catalogue("page", {
        "lorem_ipsum": "1: a line says lorem ipsum, and none before it has a brace",
        "braces": "lines with an opening brace, of those the line rules keep so far",
        "sentences": "sentences in the lines kept",
        "kept_chars": "characters the line rules leave",
        "filled_lines": "lines kept that are not blank",
        "newlines": "line feeds per word, of what is left",
    }),
    **_catalogue("page", {
        "end_mark_lines": "share of lines kept that end in a sentence's mark",
        "short_lines": "share of lines kept of 30 characters or less",
        "dup_kept_line_chars": "share of characters in lines kept that were seen before",
    }, 1.0),
    **_catalogue("dolma", {
        "star_lines": "share of lines that begin with * or -",
        "dots_lines": "share of lines that end with …",
        "copied_lines": "share of lines that occur more than once, blank ones too",
    }, 1.0),
    **_catalogue("dolma", {
        "copied_line_chars": "characters of lines that occur more than once, per character of a word",
        **{f"most_{n}_gram": f"commonest {n} words in a row: characters x times, per character of a word"
           for n in (2, 3, 4)},
    }),
    **_catalogue("dolma", {
        f"copied_{n}_grams": f"share of characters in {n} words in a row that occur again, among all {n} in a row"
        for n in range(5, 11)
    }, 1.0),
    **_catalogue("nemo", {
        "odd_chars": "share of characters other than A-Z a-z 0-9 ? ! , . and line feeds",
        "digits": "share of digits",
        "url_chars": "share of characters in links",
        "blank_chars": "share of blanks, tabs, line feeds",
        "brackets": "share of ( ) [ ] { } ⟨ ⟩",
        "boilerplate": "share of paragraphs that speak of cookies and terms; 1 where one says lorem ipsum",
        "unique_lines": "different lines per line",
        "unique_paragraphs": "different paragraphs per paragraph",
        "unique_line_chars": "characters of different lines per character of lines",
        "unique_paragraph_chars": "characters of different paragraphs per character of paragraphs",
        "open_lines": "share of lines without a mark at the end",
        "more_lines": "share of lines that end in an ellipsis or read more",
        "dot_lines": "share of lines that begin with a round bullet",
        **{f"replaced_{n}_gram": f"share of characters that go with the commonest {n} words in a row"
           for n in (2, 3, 4)},
        **{f"repeated_{n}_grams": f"share of characters in {n} words in a row seen before, each counted once"
           for n in range(5, 11)},
    }, 1.0),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Rules that take lines out of a text (C4), in the order they are tried.

    Parameters
    ----------
    max_word_chars : int
        A line with a word longer than this goes.
    end_marks : bool
        True: a line goes that does not end in one of ``. ? ! " '``, or ends in three dots.
    min_words : int
        A line with fewer words goes; words between white space.
    javascript, policy : bool
        Lines that say javascript, or speak of cookies or terms of use, go.
    citations : bool
        ``[12]``, ``[]``, ``[edit]`` and ``[citation needed]`` are taken out of lines.

    Source
    ------
    C4 (Raffel et al. 2020, section 2.2), as in datatrove 0.10, ``c4_filters.py``. A line is one of ``str.splitlines``.

    Examples
    --------
    >>> Lines().cut("One line that stays.[1]\\nToo short.\\nAnother line that stays, too.").text
    'One line that stays.\\nAnother line that stays, too.'
    """

    max_word_chars: int = 1000
    end_marks: bool = True
    min_words: int = 3
    javascript: bool = True
    policy: bool = True
    citations: bool = True

    def __post_init__(self) -> None:
        for name in ("max_word_chars", "min_words"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise BadParameter(f"text/signals: {name} is a count of 0 or more, got {value!r}")

    def cut(self, text: str) -> Page:
        """Apply the rules to a text."""
        page = Page(text)
        at = 0
        for line in text.splitlines(keepends=True):
            page.add(self, line, at)
            at += len(line)
        page.strip()
        return page

    def keeps(self, line: str, clean: str) -> bool:
        """Tell whether a line stays; `clean` is the line without citations."""
        words = line.split()
        if any(len(word) > self.max_word_chars for word in words):
            return False
        if self.end_marks and (not clean.endswith((".", "?", "!", '"', "'")) or clean.endswith("...")):
            return False
        return len(words) >= self.min_words


CITATION = re.compile(r"\[\d*]|\[edit]|\[citation needed]")
POLICY = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")


class Page:
    """What line rules leave of a text.

    Parameters
    ----------
    source : str
        The text.

    Attributes
    ----------
    lines : list of str
        The lines kept, without citations and without white space at their ends.
    spans : list of (int, int)
        Where in `source` what is kept stands: pieces of lines, and the last character of the line end between two.
    lorem, braces : int
        See `SIGNALS`.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines: list[str] = []
        self.spans: list[tuple[int, int]] = []
        self.lorem = self.braces = 0
        self._line_end: int | None = None

    @property
    def text(self) -> str:
        """What is left, one line feed between two lines."""
        return "\n".join(self.lines).strip()

    def add(self, rules: Lines, line: str, at: int) -> None:
        """Look at one line, with its line end, that begins at character `at`."""
        body = line.strip()
        clean = CITATION.sub("", body) if rules.citations else body
        if not rules.keeps(body, clean):
            return
        lower = clean.lower()
        if "lorem ipsum" in lower and not self.braces:
            self.lorem = 1
        if rules.javascript and "javascript" in lower:
            return
        self.braces += "{" in clean
        if rules.policy and any(phrase in lower for phrase in POLICY):
            return
        self._keep(rules, line, body, clean, at)

    def _keep(self, rules: Lines, line: str, body: str, clean: str, at: int) -> None:
        if self._line_end is not None:
            self.spans.append((self._line_end, self._line_end + 1))
        self._line_end = at + len(line) - 1
        start = here = at + len(line) - len(line.lstrip())
        for match in CITATION.finditer(body) if rules.citations else ():
            self.spans.append((here, start + match.start()))
            here = start + match.end()
        self.spans.append((here, start + len(body)))
        self.lines.append(clean)

    def strip(self) -> None:
        """Take white space off both ends of what is kept."""
        while self.spans and not self.source[slice(*self.spans[-1])].strip():
            self.spans.pop()
        while self.spans and not self.source[slice(*self.spans[0])].strip():
            self.spans.pop(0)
        if self.spans:
            start, stop = self.spans[0]
            self.spans[0] = (stop - len(self.source[start:stop].lstrip()), stop)
            start, stop = self.spans[-1]
            self.spans[-1] = (start, start + len(self.source[start:stop].rstrip()))

    def cuts(self) -> tuple[tuple[int, int], ...]:
        """Return what is not kept, as the spans of a `Cut`."""
        return complement(self.spans, len(self.source))


def complement(spans: Any, size: int) -> tuple[tuple[int, int], ...]:
    """Return what lies between spans in order, which may touch or be empty.

    Parameters
    ----------
    spans : (n, 2) int64, or a sequence of pairs
    size : int

    Examples
    --------
    >>> complement([(1, 3), (3, 4), (6, 6)], 8)
    ((0, 1), (4, 8))
    """
    held = np.asarray(spans, np.int64).reshape(-1, 2)
    held = held[held[:, 0] < held[:, 1]]
    starts, stops = np.append(0, held[:, 1]), np.append(held[:, 0], size)
    between = starts < stops
    return tuple(zip(starts[between].tolist(), stops[between].tolist(), strict=True))


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a rule set reads a text.

    Parameters
    ----------
    words : str
        One of ``english``, ``base``, ``character``, ``blank`` (`prep_lib.text.word.SPLITTERS`).
    stop_words : tuple of str
        With ``character`` they are looked for anywhere in the text, otherwise among the words; case counts.
    lines : Lines or None
        Rules for lines; the signals of group "page" are of what they leave. None: the text as it is.
    """

    words: str = "english"
    stop_words: tuple[str, ...] = ()
    lines: Lines | None = None

    def __post_init__(self) -> None:
        splitter(self.words)


def measure(doc: Document, reading: Reading, names: Sequence[str]) -> np.ndarray:
    """Measure one document.

    Parameters
    ----------
    doc : Document
    reading : Reading
    names : sequence of str
        Keys of `SIGNALS`.

    Returns
    -------
    (len(names),) float64
        NaN where a signal has no value: a share of nothing.

    Raises
    ------
    UnknownName
        If a name is no signal.

    Examples
    --------
    >>> doc = Document("1", "To be, or not to be: that is the question.")
    >>> measure(doc, Reading(stop_words=("be", "the")), ["words", "plain_words", "stop_words"]).tolist()
    [13.0, 10.0, 2.0]
    """
    return _meter(reading).measure(doc, names)


def cuts(doc: Document, reading: Reading) -> tuple[tuple[int, int], ...]:
    """Return what the line rules take from a document, as the spans of a `Cut`; free right after `measure`."""
    return _meter(reading).cuts(doc)


_held = threading.local()


def _meter(reading: Reading) -> Meter:
    """The meter of this thread for this reading: its arrays are used again for each document."""
    meters = _held.__dict__.setdefault("meters", {})
    meter = meters.get(reading)
    if meter is None:
        meter = meters[reading] = Meter(reading)
    return meter


@dataclass(frozen=True)
class _Plan:
    """Which groups to measure, and which n-grams: ``top`` tells the two kinds apart."""

    groups: tuple[str, ...]
    sizes: np.ndarray
    top: np.ndarray
    repeats: tuple[str, ...]


@lru_cache(maxsize=256)
def _plan(names: tuple[str, ...]) -> _Plan:
    for name in names:
        if name not in SIGNALS:
            raise unknown("text/signals", "signal", name, SIGNALS)
    groups = dict.fromkeys(SIGNALS[name].group for name in names)
    repeats = tuple(name for name in names if SIGNALS[name].group == "repeats")
    sizes = np.array([int(name.split("_")[1]) for name in repeats], np.int64)
    top = np.array([name.startswith("top") for name in repeats], np.bool_)
    # The page comes last: what is left of the text is cut into words with the same arrays.
    order = tuple(group for group in _ORDER if group in groups)
    return _Plan(order, sizes, top, repeats)


_ORDER = ("text", "words", "spelling", "lines", "repeats", "page", "dolma", "nemo")


class Meter:
    """Measures documents one after the other, for one way of reading.

    Parameters
    ----------
    reading : Reading
    """

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.cutter = Cutter(splitter(reading.words), reading.stop_words)
        self.state = np.zeros(1, np.int64)
        self.told = np.zeros(8, np.int64)
        self.running = np.zeros(1 << 16, np.uint64)
        self._kept: tuple[Document, np.ndarray | None] | None = None
        self._make_room(1 << 14)

    def _make_room(self, size: int) -> None:
        """Make room for `size` words or lines."""
        self.slots = np.zeros(2 << size.bit_length(), np.int64)
        self.ranges = np.zeros((size + 2, 3), np.int64)
        self.sums = np.zeros((size + 2, 3), np.uint64)
        self.places = np.zeros((size + 2, 2), np.int64)
        self.cells = np.zeros(8 * len(self.slots), np.uint8)

    def measure(self, doc: Document, names: Sequence[str]) -> np.ndarray:
        """Measure one document; see the function of this name."""
        plan = _plan(tuple(names))
        if len(plan.groups) > 1 or plan.groups != ("text",):
            self.cutter.cut(doc.utf8)
            size = max(self.cutter.word_count, self.cutter.line_count, doc.text.count("\n")) + 2
            if size > len(self.ranges) - 2:
                self._make_room(2 * size)
        found: dict[str, float] = {}
        for group in plan.groups:
            found |= _GROUPS[group](self, doc, plan)
        return np.array([found[name] for name in names], np.float64)

    def words(self, doc: Document, plan: _Plan) -> dict[str, float]:
        """Words and what kind they are."""
        cutter, text = self.cutter, doc.text
        count = cutter.word_count
        stops = self.reading.stop_words
        if cutter.seen.split.characters:
            hits = [text.count(word) for word in stops]
            found, total = sum(map(bool, hits)), sum(hits)
        else:
            found, total = cutter.different_stops, cutter.stops
        return {
            "words": count,
            "plain_words": cutter.plain,
            "mean_word_length": _share(cutter.plain_chars, cutter.plain),
            "hashes": _share(text.count("#"), count),
            "ellipses": _share(text.count("...") + text.count("…"), count),
            "alpha_words": _share(cutter.lettered, count),
            "stop_words": found,
            "stop_word_hits": total,
        }

    def spelling(self, doc: Document, plan: _Plan) -> dict[str, float]:
        """Lengths of all words, and odd ones."""
        lengths = self.cutter.words[: self.cutter.word_count, 1]
        words = self.cutter.seen.split.split(doc.text)
        return {
            "median_word_length": float(np.median(lengths)) if len(lengths) else float("nan"),
            "all_word_length": _share(int(lengths.sum()), len(lengths)),
            "longest_word": int(lengths.max(initial=0)),
            "symbol_words": _share(sum("#" in word or "…" in word for word in words), len(words)),
            "mark_words": _share(sum(map(_is_mark, words)), len(words)),
        }

    def lines(self, doc: Document, plan: _Plan) -> dict[str, float]:
        """Lines and paragraphs seen before, bullets, ellipses."""
        cutter, size = self.cutter, len(doc.text)
        blocks, again, chars = self._pieces(doc.utf8, 1)[:3]
        paragraphs, repeated, repeated_chars = 1, 0, 0
        if "\n\n" in doc.text:
            paragraphs, repeated, repeated_chars = self._pieces(doc.text.strip().encode(), 2)[:3]
        return {
            "bullet_lines": _share(cutter.bullet_lines, cutter.line_count),
            "ellipsis_lines": _share(cutter.ellipsis_lines, cutter.line_count),
            "dup_paragraphs": repeated / paragraphs,
            "dup_paragraph_chars": _share(repeated_chars, size),
            "dup_lines": again / blocks,
            "dup_line_chars": _share(chars, size),
        }

    def _pieces(self, utf8: bytes, feeds: int) -> list[int]:
        data = np.frombuffer(utf8, np.uint8)
        split_pieces(data, feeds, _END_POINTS, self.slots, self.state, self.ranges, self.sums, self.told)
        return self.told.tolist()

    def repeats(self, doc: Document, plan: _Plan) -> dict[str, float]:
        """N-grams seen before, and the commonest."""
        cutter, out = self.cutter, np.zeros(len(plan.sizes), np.int64)
        if len(doc.utf8) >= len(self.running):
            self.running = np.zeros(2 * len(doc.utf8), np.uint64)
        scratch = (self.slots, self.state, self.ranges, self.sums, self.places, self.running, self.cells)
        count_ngrams(cutter.glued, cutter.words, cutter.word_count, plan.sizes, plan.top, *scratch, out)
        size = len(doc.text)
        return {name: _share(chars, size) for name, chars in zip(plan.repeats, out.tolist(), strict=True)}

    def page(self, doc: Document, plan: _Plan) -> dict[str, float]:
        """What the line rules leave, and how it looks."""
        rules = self.reading.lines
        if rules is None:
            sentences = int(self.cutter.lines[: self.cutter.line_count, SENTENCES].sum())
            return self._look(doc.utf8, self.cutter.word_count, len(doc.text)) | {
                "sentences": sentences,
                "lorem_ipsum": 0,
                "braces": 0,
            }
        if _says_phrase(doc.utf8, rules) or (not doc.text.isascii() and "\u212a" in doc.text):
            return self._odd_page(doc, rules)
        kept, spans = np.empty(len(doc.utf8) + 1, np.uint8), np.empty((2 * self.cutter.line_count + 2, 2), np.int64)
        data = np.frombuffer(doc.utf8, np.uint8)
        limits = (rules.max_word_chars, rules.min_words, rules.end_marks, rules.citations)
        keep_lines(
            data, self.cutter.lines, self.cutter.line_count, self.cutter.word_count, *limits, kept, spans, self.told
        )
        size, chars, sentences, words, braces, pieces, lines, cited = self.told.tolist()
        left = kept[:size].tobytes()
        if cited < 0 or (cited and _says_phrase(left, rules)):
            return self._odd_page(doc, rules)
        self._kept = (doc, None if cited else spans[:pieces])
        if cited:
            left, chars, sentences, words = self._cited(left, lines)
        return self._look(left, words, chars) | {"sentences": sentences, "lorem_ipsum": 0, "braces": braces}

    def _cited(self, left: bytes, lines: int) -> tuple[bytes, int, int, int]:
        """What is left of lines of which some held citations: the text, its characters, sentences and words."""
        text = left.decode().strip()
        left = text.encode()
        self.cutter.cut(left)
        counts = self.cutter.lines[: self.cutter.line_count, SENTENCES]
        # A blank line counts as a sentence; at the ends of the text it is gone already.
        sentences = int(np.maximum(counts, 1).sum()) + lines - len(counts)
        return left, len(text), sentences, self.cutter.word_count

    def _odd_page(self, doc: Document, rules: Lines) -> dict[str, float]:
        """The same where lines may hold phrases: rare, and looked at line by line."""
        page = rules.cut(doc.text)
        self._kept = (doc, np.array(page.spans, np.int64))
        self.cutter.cut("\n".join(page.lines).encode())
        words, split = self.cutter.word_count, self.cutter.seen.split
        counts = self.cutter.lines[: self.cutter.line_count, SENTENCES].tolist()
        # White space where a citation stood can be a word for the sentences, which the cutter looks for between words.
        sentences = sum(
            (count_sentences(line, split) or 1) if line[-1:].isspace() or not line else count
            for line, count in zip(page.lines, [*counts, *(1,) * len(page.lines)], strict=False)
        )
        chars = sum(stop - start for start, stop in page.spans)
        found = self._look(page.text.encode(), words, chars)
        return found | {"sentences": sentences, "lorem_ipsum": page.lorem, "braces": page.braces}

    def _look(self, utf8: bytes, words: int, chars: int) -> dict[str, float]:
        lines, _, again, ended, short, total, feeds, _ = self._pieces(utf8, 0)
        return {
            "kept_chars": chars,
            "filled_lines": lines,
            "end_mark_lines": _share(ended, lines),
            "short_lines": _share(short, lines),
            "dup_kept_line_chars": _share(again, total - feeds),
            "newlines": _share(feeds, words),
        }

    def cuts(self, doc: Document) -> tuple[tuple[int, int], ...]:
        """What the line rules take; measured again only if another document came between."""
        if self._kept is None or self._kept[0] is not doc:
            self.measure(doc, ("kept_chars",))
        assert self._kept is not None
        if self._kept[1] is None:
            assert self.reading.lines is not None
            return self.reading.lines.cut(doc.text).cuts()
        return complement(self._kept[1], len(doc.text))


_END_POINTS = np.array(sorted(map(ord, END_MARKS)), np.int64)


def _says_phrase(utf8: bytes, rules: Lines) -> bool:
    """Tell whether a text may hold one of the phrases that `keep_lines` does not look for."""
    # Of bytes only A to Z become small, which is quick; the Kelvin sign is the one other character that becomes a k.
    lower = utf8.lower()
    return (
        b"lorem ipsum" in lower
        or (rules.javascript and b"javascript" in lower)
        or (rules.policy and any(phrase in lower for phrase in _POLICY_BYTES))
    )


_POLICY_BYTES = (b"terms of use", b"privacy policy", b"cookie")


@kernel
def split_pieces(data: Any, feeds: int, ends: Any, slots: Any, state: Any, starts: Any, hashes: Any, told: Any) -> None:
    """Cut a text at line feeds and count the pieces seen before.

    Parameters
    ----------
    data : (n,) uint8
        UTF-8.
    feeds : int
        1, 2: cut at runs of as many line feeds or more. 0: cut at each, and leave out blank pieces.
    ends : (marks,) int64
        Code points of `END_MARKS`, rising.
    slots : (power of two,) int64
        Scratch; twice the pieces at least.
    state : (1,) int64
        Scratch: what marks the slots in use, so that they need not be emptied.
    starts : (pieces, 3) int64
        Scratch: first byte, last byte, characters of each piece that is new.
    hashes : (pieces, 3) uint64
        Scratch.
    told : (8,) int64
        Written: pieces; those seen before and their characters; pieces that end in a mark; pieces of 30 characters or
        less; characters and line feeds of the text.
    """
    n, mask = len(data), len(slots) - 1
    state[0] += 1
    turn = state[0] << 32
    pieces = again = again_chars = ended = short = total = all_feeds = new = 0
    i = 0
    while True:
        start, chars, filled = i, 0, False
        h = np.uint64(0xCBF29CE484222325)
        run = 0
        while i < n:
            byte = data[i]
            if byte == 10:
                run = 1
                while run < feeds and i + run < n and data[i + run] == 10:
                    run += 1
                if run >= feeds:
                    break
                run = 0
            if byte < 128 or byte >= 0xC0:
                chars += 1
            if not filled and byte > 32:
                filled = True
                if byte >= 0xC2:
                    second = data[i + 1]
                    if byte == 0xC2:
                        filled = second != 0xA0 and second != 0x85
                    elif byte <= 0xE3 and byte >= 0xE1:
                        third = data[i + 2]
                        filled = not (
                            (byte == 0xE3 and second == 0x80 and third == 0x80)
                            or (
                                byte == 0xE2
                                and second == 0x80
                                and (third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF)
                            )
                            or (byte == 0xE2 and second == 0x81 and third == 0x9F)
                            or (byte == 0xE1 and second == 0x9A and third == 0x80)
                        )
                elif byte >= 128:
                    filled = False
            elif not filled and not (9 <= byte <= 13 or 28 <= byte <= 32):
                filled = True
            h = (h ^ np.uint64(byte)) * np.uint64(0x100000001B3)
            i += 1
        stop = i
        total += chars
        if filled or feeds > 0:
            pieces += 1
            short += chars <= 30
            if stop > start:
                at = stop - 1
                while at > start and data[at] >= 128 and data[at] < 0xC0:
                    at -= 1
                byte = i64(data[at])
                if byte < 128:
                    ended += byte == 33 or byte == 46 or byte == 63
                else:
                    point = byte & (0x1F if byte < 0xE0 else (0x0F if byte < 0xF0 else 0x07))
                    for k in range(at + 1, stop):
                        point = (point << 6) | (i64(data[k]) & 63)
                    place = np.searchsorted(ends, point)
                    ended += place < len(ends) and ends[place] == point
            slot = i64((h ^ (h >> np.uint64(32))) & np.uint64(0x7FFFFFFF)) & mask
            fresh = True
            while slots[slot] >= turn:
                held = slots[slot] - turn
                if hashes[held, 0] == h and starts[held, 1] - starts[held, 0] == stop - start:
                    same = True
                    for k in range(stop - start):
                        if data[starts[held, 0] + k] != data[start + k]:
                            same = False
                            break
                    if same:
                        fresh = False
                        break
                slot = (slot + 1) & mask
            if fresh:
                slots[slot] = turn + new
                starts[new, 0], starts[new, 1], hashes[new, 0] = start, stop, h
                new += 1
            else:
                again, again_chars = again + 1, again_chars + chars
        if i >= n:
            break
        if feeds == 0:
            i += 1
            total, all_feeds = total + 1, all_feeds + 1
        while feeds > 0 and i < n and data[i] == 10:
            i += 1
            total, all_feeds = total + 1, all_feeds + 1
    told[0], told[1], told[2], told[3], told[4] = pieces, again, again_chars, ended, short
    told[5], told[6], told[7] = total, all_feeds, new


# What a citation may hold other than a number.
_EDIT = np.frombuffer(b"edit", np.uint8)
_NEEDED = np.frombuffer(b"citation needed", np.uint8)


@kernel
def keep_lines(
    data: Any, lines: Any, count: int, words: int, max_chars: int, min_words: int, end_marks: bool, citations: bool,
    kept: Any, spans: Any, told: Any,
) -> None:  # fmt: skip
    """Apply line rules to lines without the phrases of `Lines`.

    Parameters
    ----------
    data : (n,) uint8
    lines : (room, 11) int64
        What `cut_words` wrote.
    count, words : int
        How many lines and words it wrote.
    max_chars, min_words : int
    end_marks, citations : bool
        See `Lines`.
    kept : (n + 1,) uint8
        Written: the lines kept, one line feed between two.
    spans : (2 * lines, 2) int64
        Written: what is kept, in characters, citations with it.
    told : (8,) int64
        Written: bytes and characters kept, sentences, words, lines with a brace, spans, lines kept, citations taken
        out. Where there are citations, characters, sentences and words are those of the lines as they stood; -1: what
        is left of a line is to be looked at by `Lines`.
    """
    size = chars = sentences = kept_words = braces = pieces = rows = cited = 0
    line_end = -1
    for row in range(count):
        start, stop = lines[row, 0], lines[row, 1]
        if lines[row, 6] > max_chars or lines[row, 5] < min_words:
            continue
        # Copied before anybody knows whether it is kept: its end is known when the citations are out.
        begin = size + (line_end >= 0)
        end, k, held = begin, start, cited
        while k < stop:
            byte = data[k]
            if byte == 91 and citations:
                after = k + 1
                while after < stop and 48 <= data[after] <= 57:
                    after += 1
                for phrase in (_EDIT, _NEEDED):
                    same = after == k + 1 and stop - after >= len(phrase)
                    for place in range(len(phrase)):
                        same = same and data[after + place] == phrase[place]
                    after += len(phrase) if same else 0
                if after < stop and data[after] >= 128:
                    # A number may have digits of another script.
                    told[7] = -1
                    return
                if after < stop and data[after] == 93:
                    cited += 1
                    k = after + 1
                    continue
            kept[end] = byte
            end, k = end + 1, k + 1
        if end_marks:
            if end == begin:
                cited = held
                continue
            last = kept[end - 1]
            three = end - begin >= 3 and last == 46 and kept[end - 2] == 46 and kept[end - 3] == 46
            if three or not (last == 46 or last == 63 or last == 33 or last == 34 or last == 39):
                cited = held
                continue
        # White space where a citation stood can be a word for the sentences; one blank is none.
        place = end - 1 - (end > begin and kept[end - 1] == 32)
        if cited > held and place >= begin and (kept[place] < 33 or kept[place] >= 128):
            told[7] = -1
            return
        rows += 1
        braces += lines[row, 9] > 0
        sentences += max(lines[row, 7], 1)
        kept_words += (lines[row + 1, 8] if row + 1 < count else words) - lines[row, 8]
        # A blank line is kept only by rules that keep lines without words, and never as the first of what is left.
        if stop == start and pieces == 0:
            continue
        if line_end >= 0:
            kept[size] = 10
            spans[pieces, 0], spans[pieces, 1] = line_end, line_end + 1
            chars, pieces = chars + 1, pieces + 1
        line_end, size = lines[row, 4], end
        spans[pieces, 0], spans[pieces, 1] = lines[row, 2], lines[row, 3]
        chars, pieces = chars + lines[row, 3] - lines[row, 2], pieces + 1
    while cited == 0 and pieces > 0 and (spans[pieces - 1, 0] == spans[pieces - 1, 1] or kept[size - 1] == 10):
        chars -= spans[pieces - 1, 1] - spans[pieces - 1, 0]
        size -= spans[pieces - 1, 1] > spans[pieces - 1, 0]
        pieces -= 1
    told[0], told[1], told[2], told[3], told[4], told[5] = size, chars, sentences, kept_words, braces, pieces
    told[6], told[7] = rows, cited


_BASE = np.uint64(0x9E3779B97F4A7C15)
_POWERS = np.multiply.accumulate(np.append(np.uint64(1), np.full(1023, _BASE)))


@kernel
def count_ngrams(
    glued: Any, words: Any, count: int, sizes: Any, top: Any,
    slots: Any, state: Any, starts: Any, sums: Any, places: Any, running: Any, cells: Any, out: Any,
) -> None:  # fmt: skip
    """Count characters in n-grams seen before, and in the commonest n-gram.

    Parameters
    ----------
    glued : (n,) uint8
        The words without anything between them.
    words : (count, 3) int32
        Bytes and characters of each.
    count : int
    sizes : (k,) int64
        The n of each figure wanted.
    top : (k,) bool
        True: characters of the commonest n-gram with n - 1 blanks, times how often it occurs; of several as common the
        first counts. False: characters of n-grams whose letters were seen before, each read once.
    slots, state, starts, sums : arrays
        Scratch, as in `split_pieces`.
    places : (count, 2) int64
        Scratch: how often the n-gram that begins here occurs, 0 where it was seen before; words whose letters may be
        repeated.
    running : (n + 1,) uint64
        Scratch: hashes of the text up to each byte.
    cells : (32 * count,) uint8
        Scratch.
    out : (k,) int64
        Written: characters.

    Notes
    -----
    The hash of an n-gram comes from the hashes of the text up to its begin and up to its end, each a number with the
    bytes as digits; so it is that of its letters, wherever the words in it begin. Equal hashes are compared byte by
    byte.

    Most n-grams of most texts occur once, and two tests, both quicker than a look-up, tell that of most of them: n
    words are not repeated where the first or the last n - 1 of them are not; letters are not repeated where the first
    15 of their bytes (five Han characters, three English words) are not.
    """
    at = chars = 0
    for word in range(count):
        starts[word, 0], starts[word, 1] = at, chars
        at, chars = at + words[word, 0], chars + words[word, 1]
    starts[count, 0], starts[count, 1] = at, chars
    total = np.uint64(0)
    for k in range(at):
        running[k] = total
        total = total * _BASE + np.uint64(glued[k] + 1)
    running[at] = total
    bits = 4
    while (1 << bits) < 2 * count:
        bits += 1
    mask = (1 << bits) - 1
    # Words whose head may stand somewhere else: where two heads fall into one cell, or the n-gram is shorter.
    head, cell_mask, some = 15, 8 * (mask + 1) - 1, 0
    shortest = count + 1
    for figure in range(len(sizes)):
        if not top[figure]:
            shortest = min(shortest, sizes[figure])
    if shortest <= count:
        for cell in range(cell_mask + 1):
            cells[cell] = 0
        for word in range(count - shortest + 1):
            stop = min(starts[word, 0] + head, at)
            h = running[stop] - running[starts[word, 0]] * _POWERS[stop - starts[word, 0]]
            cell = i64(((h ^ (h >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)) >> np.uint64(33)) & cell_mask
            places[word, 1] = cell
            cells[cell] = min(cells[cell] + 1, 2)
        for word in range(count - shortest + 1):
            cell = places[word, 1]
            places[some, 1] = word
            some += cells[cell] > 1 or starts[word + shortest, 0] - starts[word, 0] < head
    known = 0
    for figure in range(len(sizes)):
        size, most = sizes[figure], top[figure]
        known = known if known < size else 0
        state[0] += 1
        turn = state[0] << 32
        word = found = next_word = row = 0
        largest = 1
        while True:
            if most:
                word = next_word
                if word + size > count:
                    break
                if known > 0 and (places[word, 0] == 1 or places[word + size - known, 0] == 1):
                    places[word, 0] = 1
                    next_word += 1
                    continue
            else:
                while row < some and places[row, 1] < next_word:
                    row += 1
                if row == some or places[row, 1] + size > count:
                    break
                word = places[row, 1]
            start, length = starts[word, 0], starts[word + size, 0] - starts[word, 0]
            power, rest = np.uint64(1), length
            while rest >= len(_POWERS):
                power, rest = power * _POWERS[-1], rest - len(_POWERS) + 1
            h = running[start + length] - running[start] * (power * _POWERS[rest])
            slot = i64(((h ^ (h >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)) >> np.uint64(33)) & mask
            first = -1
            while slots[slot] >= turn:
                held = slots[slot] - turn
                if sums[held, 0] == h and starts[held + size, 0] - starts[held, 0] == length:
                    other, same = starts[held, 0], True
                    for k in range(length):
                        if glued[other + k] != glued[start + k]:
                            same = False
                            break
                    if same and most:
                        for k in range(size):
                            if words[held + k, 0] != words[word + k, 0]:
                                same = False
                                break
                    if same:
                        first = held
                        break
                slot = (slot + 1) & mask
            if first < 0:
                slots[slot] = turn + word
                sums[word, 0] = h
                next_word = word + 1
                if most:
                    places[word, 0] = 1
            elif most:
                places[word, 0] = 0
                places[first, 0] += 1
                largest = max(largest, places[first, 0])
                next_word = word + 1
            else:
                found += starts[word + size, 1] - starts[word, 1]
                next_word = word + size
        if most:
            known = size
            for word in range(count - size + 1):
                if places[word, 0] == largest:
                    found = (starts[word + size, 1] - starts[word, 1] + size - 1) * largest
                    break
        out[figure] = found


_ELLIPSES = {"...", "[...]", "…", "(...)", "[…]", "-»", "read more..", "read more"}


def _share(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")


def _is_mark(word: str) -> bool:
    # NeMo counts runs of #, not the signs: ## is one of two characters, no more than half.
    return word in _ELLIPSES or len(re.findall("#+", word)) / len(word) > 0.5


def _dolma(meter: Meter, doc: Document, plan: _Plan) -> dict[str, float]:
    words, lines = doc.text.split(), doc.text.split("\n")
    size = sum(map(len, words))
    copies = [(line, count) for line, count in Counter(lines).items() if count > 1]
    out = {
        "star_lines": sum(line.startswith(("*", "-")) for line in lines) / len(lines),
        "dots_lines": sum(line.endswith("…") for line in lines) / len(lines),
        "copied_lines": sum(count for _, count in copies) / len(lines),
        "copied_line_chars": sum(len(line) * count for line, count in copies) / max(size, 1),
    }
    for n in range(2, 11):
        grams = Counter(zip(*(words[at:] for at in range(n)), strict=False))
        chars = {gram: count * sum(map(len, gram)) for gram, count in grams.items()}
        if n < 5:
            out[f"most_{n}_gram"] = chars[grams.most_common(1)[0][0]] / max(size, 1) if grams else 0.0
        else:
            again = sum(chars[gram] for gram, count in grams.items() if count > 1)
            out[f"copied_{n}_grams"] = again / max(sum(chars.values()), 1)
    return out


_LINK = re.compile(r"https?://(?:[A-Za-z0-9$\-_@.&+/:=?#~]|[!*(),]|%[0-9A-Fa-f]{2})+")
#: Phrases of consent banners, as NeMo Curator looks for them; its whole paragraphs contain one of these already.
_BANNER = (*POLICY[:4], "privacy overview", *POLICY[4:], "privacy & cookies policy", "privacy and cookies policy")
_BANNER_BEGINS = ("necessary cookies are absolutely essential", "any cookies that may not be particularly necessary")


def _nemo(meter: Meter, doc: Document, plan: _Plan) -> dict[str, float]:
    text, size = doc.text, len(doc.text)
    lines = [line for line in text.split("\n") if line.strip()]
    paragraphs = text.split("\n\n")
    bodies = [line.strip() for line in lines]

    def of_text(count: int) -> float:
        return count / size if size else 1.0

    return {
        "odd_chars": of_text(size - len(re.findall("[a-zA-Z0-9\n?!,.]", text))),
        "digits": of_text(sum(map(str.isdecimal, text))),
        "url_chars": of_text(sum(map(len, _LINK.findall(text)))),
        "blank_chars": of_text(sum(map(text.count, "\t\n\r\b "))),
        "brackets": of_text(sum(map(text.count, "{}⟨⟩[]()"))),
        "boilerplate": _boilerplate(paragraphs),
        "unique_lines": _share(len(set(lines)), len(lines)),
        "unique_paragraphs": len(set(paragraphs)) / len(paragraphs),
        "unique_line_chars": _share(sum(map(len, set(lines))), sum(map(len, lines))),
        "unique_paragraph_chars": _share(sum(map(len, set(paragraphs))), sum(map(len, paragraphs))),
        "open_lines": _share(sum(not body.endswith((".", "?", "!", '"', "'")) for body in bodies), len(lines)),
        "more_lines": _share(sum(body.lower().endswith(tuple(_ELLIPSES)) for body in bodies), len(lines)),
        "dot_lines": _share(sum(body.startswith(tuple("•‣⁃⁌⁍∙○●◘◦⦾⦿")) for body in bodies), len(lines)),
        **{f"replaced_{n}_gram": _replaced(text, n) for n in (2, 3, 4)},
        **{f"repeated_{n}_grams": _repeated(text, n) for n in range(5, 11)},
    }


def _boilerplate(paragraphs: Sequence[str]) -> float:
    lowered = [paragraph.strip().lower() for paragraph in paragraphs]
    if any("lorem ipsum" in paragraph for paragraph in lowered):
        return 1.0
    return sum(any(phrase in paragraph for phrase in _BANNER + _BANNER_BEGINS) for paragraph in lowered) / len(lowered)


def _replaced(text: str, n: int) -> float:
    words = text.split()
    if len(words) < n:
        return 1.0
    gram = " ".join(Counter(zip(*(words[at:] for at in range(n)), strict=False)).most_common(1)[0][0])
    return (len(text) - len(text.replace(gram, ""))) / len(text)


def _repeated(text: str, n: int) -> float:
    words = text.split()
    if len(words) < n:
        return 1.0
    seen: set[tuple[str, ...]] = set()
    chars = counted = 0
    for gram in zip(*(words[at:] for at in range(n)), strict=False):
        if gram in seen:
            chars += sum(map(len, gram[counted:])) + min(n - counted, n - 1)
            counted = n
        seen.add(gram)
        counted = max(counted - 1, 0)
    return chars / len(text)


def _text(meter: Meter, doc: Document, plan: _Plan) -> dict[str, float]:
    return {"chars": len(doc.text)}


_GROUPS: dict[str, Callable[[Meter, Document, _Plan], dict[str, float]]] = {
    "text": _text, "words": Meter.words, "spelling": Meter.spelling, "lines": Meter.lines, "repeats": Meter.repeats,
    "page": Meter.page, "dolma": _dolma, "nemo": _nemo,
}  # fmt: skip
