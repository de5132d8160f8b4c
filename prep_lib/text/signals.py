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
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from prep_lib.errors import BadParameter, unknown
from prep_lib.jit import kernel, part
from prep_lib.record import Document
from prep_lib.text.word import (
    ALL_SENTENCES,
    BRACES,
    BULLETS,
    CHUNKS,
    DIFFERENT_STOPS,
    ELLIPSES,
    END_MARKS,
    FEEDS,
    FIRST_WORD,
    GLUED,
    LEAD,
    LEAD_CHAR,
    LETTERED,
    LINE_END,
    LINES,
    LONGEST,
    MISSING,
    NO_ROOM,
    PLAIN_CHARS,
    PLAIN_WORDS,
    SENTENCES,
    STOPS,
    TRAIL,
    TRAIL_CHAR,
    WORDS,
    Cutter,
    back_from,
    count_sentences,
    cut_words,
    i64,
    point_at,
    splitter,
    spread,
    text_hash,
    u64,
)  # fmt: skip


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
    return tuple(map(tuple, _gaps(np.asarray(spans, np.int64).reshape(-1, 2), size).tolist()))


def _gaps(spans: np.ndarray, size: int) -> np.ndarray:
    gaps = np.empty((len(spans) + 1, 2), np.int64)
    return gaps[: find_gaps(spans, size, gaps)]


@kernel
def find_gaps(spans: Any, size: int, gaps: Any) -> int:
    """Write what `complement` returns, one row more than there are spans at most; return how many rows that are."""
    rows = behind = 0
    for piece in range(len(spans)):
        if spans[piece, 0] < spans[piece, 1]:
            if behind < spans[piece, 0]:
                gaps[rows, 0], gaps[rows, 1] = behind, spans[piece, 0]
                rows += 1
            behind = spans[piece, 1]
    if behind < size:
        gaps[rows, 0], gaps[rows, 1] = behind, size
        rows += 1
    return rows


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


def measure_many(docs: Sequence[Document], reading: Reading, names: Sequence[str]) -> np.ndarray:
    """Measure documents.

    Returns
    -------
    (len(docs), len(names)) float64
        What `measure` gives of each, in a fraction of the time where they are short.
    """
    return _meter(reading).measure_many(docs, names)


def cuts(doc: Document, reading: Reading) -> tuple[tuple[int, int], ...]:
    """Return what the line rules take from a document, as the spans of a `Cut`; free right after measuring it."""
    return _meter(reading).cuts(doc)


_held = threading.local()


def _meter(reading: Reading) -> Meter:
    """The meter of this thread for this reading: its arrays are used again for each document."""
    meters = _held.__dict__.setdefault("meters", {})
    meter = meters.get(reading)
    if meter is None:
        meter = meters[reading] = Meter(reading)
    return meter


#: What is counted, behind what `cut_words` tells: 1, characters, # signs, ellipses; pieces between line feeds, those
#: seen before and their characters; the same of paragraphs; lorem ipsum, lines with a brace, sentences and characters
#: of what the line rules leave; lines of that which are not blank, those seen before and their characters, those that
#: end in a mark, those of 30 characters or less; characters but for line feeds, line feeds, words; n-grams.
(
    ONE, CHARS, HASHES, DOTS, BLOCKS, BLOCKS_AGAIN, BLOCK_CHARS, PARAGRAPHS, PARAGRAPHS_AGAIN, PARAGRAPH_CHARS,
    LOREM, BRACED, KEPT_SENTENCES, KEPT_CHARS, FILLED, FILLED_AGAIN, FILLED_CHARS, FILLED_ENDED, FILLED_SHORT,
    LINE_CHARS, KEPT_FEEDS, KEPT_WORDS, GRAMS,
) = range(ALL_SENTENCES + 1, ALL_SENTENCES + 24)  # fmt: skip

#: Signals that are one count in another.
FRACTIONS: dict[str, tuple[int, int]] = {
    "chars": (CHARS, ONE),
    "words": (WORDS, ONE),
    "plain_words": (PLAIN_WORDS, ONE),
    "mean_word_length": (PLAIN_CHARS, PLAIN_WORDS),
    "hashes": (HASHES, WORDS),
    "ellipses": (DOTS, WORDS),
    "alpha_words": (LETTERED, WORDS),
    "stop_words": (DIFFERENT_STOPS, ONE),
    "stop_word_hits": (STOPS, ONE),
    "bullet_lines": (BULLETS, LINES),
    "ellipsis_lines": (ELLIPSES, LINES),
    "dup_paragraphs": (PARAGRAPHS_AGAIN, PARAGRAPHS),
    "dup_paragraph_chars": (PARAGRAPH_CHARS, CHARS),
    "dup_lines": (BLOCKS_AGAIN, BLOCKS),
    "dup_line_chars": (BLOCK_CHARS, CHARS),
    "lorem_ipsum": (LOREM, ONE),
    "braces": (BRACED, ONE),
    "sentences": (KEPT_SENTENCES, ONE),
    "kept_chars": (KEPT_CHARS, ONE),
    "filled_lines": (FILLED, ONE),
    "newlines": (KEPT_FEEDS, KEPT_WORDS),
    "end_mark_lines": (FILLED_ENDED, FILLED),
    "short_lines": (FILLED_SHORT, FILLED),
    "dup_kept_line_chars": (FILLED_CHARS, LINE_CHARS),
}


@dataclass(frozen=True)
class _Plan:
    """What to measure: n-grams (``top`` tells the two kinds apart), counts and what to divide them by, other groups."""

    groups: frozenset[str]
    sizes: np.ndarray
    top: np.ndarray
    fractions: np.ndarray
    other: tuple[str, ...]
    columns: dict[str, int]


@lru_cache(maxsize=256)
def _plan(names: tuple[str, ...]) -> _Plan:
    for name in names:
        if name not in SIGNALS:
            raise unknown("text/signals", "signal", name, SIGNALS)
    repeats = [name for name in names if SIGNALS[name].group == "repeats"]
    known = FRACTIONS | {name: (GRAMS + at, CHARS) for at, name in enumerate(repeats)}
    groups = {SIGNALS[name].group for name in names}
    return _Plan(
        frozenset(groups),
        np.array([int(name.split("_")[1]) for name in repeats], np.int64),
        np.array([name.startswith("top") for name in repeats], np.bool_),
        # What is measured otherwise is filled in behind.
        np.array([known.get(name, (ONE, ONE)) for name in names], np.int64).reshape(-1, 2),
        tuple(sorted(groups & _OTHERS.keys())),
        {name: column for column, name in enumerate(names) if name not in known},
    )


class Scratch(NamedTuple):
    """Arrays the kernels write in and nobody reads behind them.

    Parameters
    ----------
    slots : (power of two,) int64
        Twice the words, lines and line feeds of a text at least.
    state : (1,) int64
        What marks the slots in use, so that they need not be emptied.
    edges : (2, 3) int64
        Byte, character and place in `glued` of the begin and the end of what is cut into pieces.
    pieces : (room, 5) int64
        First and last byte of each piece, its characters, and where it begins and ends in `glued`.
    starts : (room, 3) int64
    sums : (room, 1) uint64
    places : (room, 2) int64
    cells : (8 * slots,) uint8
    told : (8,) int64
    """

    slots: np.ndarray
    state: np.ndarray
    edges: np.ndarray
    pieces: np.ndarray
    starts: np.ndarray
    sums: np.ndarray
    places: np.ndarray
    cells: np.ndarray
    told: np.ndarray


def _scratch(size: int) -> Scratch:
    slots = np.zeros(2 << size.bit_length(), np.int64)
    room, number = size + 2, np.int64
    return Scratch(
        slots, np.zeros(1, number), np.zeros((2, 3), number), np.zeros((room, 5), number), np.zeros((room, 3), number),
        np.zeros((room, 1), np.uint64), np.zeros((room, 2), number), np.zeros(8 * len(slots), np.uint8),
        np.zeros(8, number),
    )  # fmt: skip


class Meter:
    """Measures documents one after the other, for one way of reading.

    Parameters
    ----------
    reading : Reading
    """

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.cutter = Cutter(splitter(reading.words), reading.stop_words)
        self.counts = np.zeros(GRAMS + len(TOP) + len(DUP), np.int64)
        self.limits = _limits(reading.lines)
        #: By the identity of documents measured last: what line rules take from them; None: they have to look again.
        self._kept: dict[int, tuple[Document, np.ndarray | None]] = {}
        self._make_room(1 << 14, 1 << 16)

    def _make_room(self, size: int, size_bytes: int) -> None:
        """Make room for `size` words or lines, and a text of as many bytes."""
        self.scratch = _scratch(size)
        self.kept, self.spans = np.zeros(size_bytes + 1, np.uint8), np.zeros((2 * size + 4, 2), np.int64)

    def measure(self, doc: Document, names: Sequence[str]) -> np.ndarray:
        """Measure one document; see the function of this name."""
        self._kept = {}
        return self._measure(doc, names)

    def measure_many(self, docs: Sequence[Document], names: Sequence[str]) -> np.ndarray:
        """Measure documents; see the function of this name. Those that need Python are measured each alone."""
        self._kept, plan, out = {}, _plan(tuple(names)), np.empty((len(docs), len(names)), np.float64)
        states = np.ones(len(docs), np.bool_)
        if plan.groups != {"text"} and not plan.other:
            self._measure_all(docs, plan, out, states)
        for at in np.flatnonzero(states).tolist():
            out[at] = self._measure(docs[at], names)
        return out

    def _measure_all(self, docs: Sequence[Document], plan: _Plan, out: np.ndarray, states: np.ndarray) -> None:
        """Measure what needs no Python, which loses its mark in `states`."""
        cutter, texts = self.cutter, [doc.utf8 for doc in docs]
        counted = np.array([self._counted(doc.text) for doc in docs], np.int64)
        data, ends = np.frombuffer(b"".join(texts), np.uint8), np.cumsum([len(text) for text in texts])
        held, held_ends = np.empty((len(data) // 16 + 64, 2), np.int64), np.zeros(len(docs) + 1, np.int64)
        cut = (cutter.words, cutter.glued, cutter.running, cutter.lines, cutter.feeds)
        measure_all(
            data, ends, counted, cutter.scripts, cutter.seen.tables, *cut, *cutter.scratch, plan.sizes, plan.top,
            "lines" in plan.groups, self._page(plan), self.limits, _END_POINTS, self.kept, self.spans, self.scratch,
            self.counts, plan.fractions, out, states, held, held_ends,
        )  # fmt: skip
        if self._page(plan) == 2:
            for doc, state, (start, stop) in zip(docs, states.tolist(), pairwise(held_ends.tolist()), strict=True):
                if not state:
                    self._kept[id(doc)] = (doc, held[start:stop])

    def _counted(self, text: str) -> tuple[int, int, int, int, int]:
        """Return characters, # signs, ellipses, and stop words where they are looked for anywhere (else -1)."""
        hits = [-1]
        if self.cutter.seen.split.characters:
            hits = [text.count(word) for word in self.reading.stop_words]
        return len(text), text.count("#"), text.count("...") + text.count("…"), sum(hits), sum(map(bool, hits))

    def _page(self, plan: _Plan) -> int:
        return 0 if "page" not in plan.groups else 1 if self.reading.lines is None else 2

    def _measure(self, doc: Document, names: Sequence[str]) -> np.ndarray:
        plan, out = _plan(tuple(names)), np.empty(len(names), np.float64)
        self.counts[ONE], self.counts[CHARS] = 1, len(doc.text)
        other: dict[str, float] = {}
        if plan.groups != {"text"}:
            self._cut(doc)
            for group in plan.other:
                other |= _OTHERS[group](self, doc)
            self._read(doc, plan)
        divide(self.counts, plan.fractions, out)
        for name, column in plan.columns.items():
            out[column] = other[name]
        return out

    def _cut(self, doc: Document) -> None:
        """Cut the text into words and count what Python counts as quickly."""
        cutter, counts = self.cutter, self.counts
        cutter.cut(doc.utf8)
        counts[: ALL_SENTENCES + 1] = cutter.told
        counts[CHARS], counts[HASHES], counts[DOTS], *stops = self._counted(doc.text)
        if stops[0] >= 0:
            counts[STOPS], counts[DIFFERENT_STOPS] = stops
        # A list of three takes less time than a call of numpy.
        size = max(cutter.told.tolist()[: FEEDS + 1]) + 2
        if size > len(self.scratch.places) - 2 or len(doc.utf8) >= len(self.kept):
            self._make_room(2 * size, 2 * len(doc.utf8))

    def _read(self, doc: Document, plan: _Plan) -> None:
        """Count lines, n-grams, and what the line rules leave."""
        data, cutter, rules = np.frombuffer(doc.utf8, np.uint8), self.cutter, self.reading.lines
        page = self._page(plan)
        cut = (cutter.words, cutter.glued, cutter.running, cutter.lines, cutter.feeds)
        wanted = (plan.sizes, plan.top, "lines" in plan.groups, page)
        cited = read_text(
            data, *cut, *wanted, self.limits, _END_POINTS, self.kept, self.spans, self.scratch, self.counts
        )
        if page < 2 or rules is None:
            return
        size, _, _, _, _, pieces, lines, _ = self.scratch.told.tolist()
        left = self.kept[:size]
        if cited < 0 or (cited and find_phrases(left, self.limits[PHRASES]) & 1):
            self._odd_page(doc, rules)
            return
        self._kept[id(doc)] = (doc, None if cited else _gaps(self.spans[:pieces], len(doc.text)))
        if cited:
            self._cited(left.tobytes().decode().strip(), lines)

    def _cited(self, left: str, lines: int) -> None:
        """Count what is left of lines of which some held citations."""
        self.cutter.cut(left.encode())
        counts = self.cutter.lines[: self.cutter.told[LINES], SENTENCES]
        # A blank line counts as a sentence; at the ends of the text it is gone already.
        self.counts[KEPT_SENTENCES] = np.maximum(counts, 1).sum() + lines - len(counts)
        self.counts[KEPT_WORDS], self.counts[KEPT_CHARS] = self.cutter.told[WORDS], len(left)
        self._look(left)

    def _odd_page(self, doc: Document, rules: Lines) -> None:
        """The same where lines may hold phrases: rare, and looked at line by line."""
        page, counts = rules.cut(doc.text), self.counts
        self._kept[id(doc)] = (doc, np.array(page.cuts(), np.int64).reshape(-1, 2))
        self.cutter.cut("\n".join(page.lines).encode())
        split = self.cutter.seen.split
        of_lines = self.cutter.lines[: self.cutter.told[LINES], SENTENCES].tolist()
        # White space where a citation stood can be a word for the sentences, which the cutter looks for between words.
        counts[KEPT_SENTENCES] = sum(
            (count_sentences(line, split) or 1) if line[-1:].isspace() or not line else count
            for line, count in zip(page.lines, [*of_lines, *(1,) * len(page.lines)], strict=False)
        )
        counts[KEPT_WORDS], counts[KEPT_CHARS] = (
            self.cutter.told[WORDS],
            sum(stop - start for start, stop in page.spans),
        )
        counts[LOREM], counts[BRACED] = page.lorem, page.braces
        self.cutter.cut(page.text.encode())
        self._look(page.text)

    def _look(self, text: str) -> None:
        """Count the lines of a text that was cut last."""
        cutter, data = self.cutter, np.frombuffer(text.encode(), np.uint8)
        cut = (cutter.running, cutter.lines, cutter.feeds, cutter.told)
        look(data, *cut, len(text), _END_POINTS, self.scratch, self.counts)

    def spelling(self, doc: Document) -> dict[str, float]:
        """Lengths of all words, and odd ones."""
        lengths = self.cutter.words[: self.cutter.told[WORDS], 1]
        words = self.cutter.seen.split.split(doc.text)
        return {
            "median_word_length": float(np.median(lengths)) if len(lengths) else float("nan"),
            "all_word_length": _share(int(lengths.sum()), len(lengths)),
            "longest_word": int(lengths.max(initial=0)),
            "symbol_words": _share(sum("#" in word or "…" in word for word in words), len(words)),
            "mark_words": _share(sum(map(_is_mark, words)), len(words)),
        }

    def cuts(self, doc: Document) -> tuple[tuple[int, int], ...]:
        """What the line rules take; measured again only if others came between."""
        if id(doc) not in self._kept:
            self.measure(doc, ("kept_chars",))
        gaps = self._kept[id(doc)][1]
        if gaps is None:
            assert self.reading.lines is not None
            return self.reading.lines.cut(doc.text).cuts()
        return tuple(map(tuple, gaps.tolist()))


_END_POINTS = np.array(sorted(map(ord, END_MARKS)), np.int64)

#: Limits of line rules as the kernels read them.
MAX_WORD_CHARS, MIN_WORDS, END_MARK, CITATIONS, PHRASES = range(5)


def _limits(rules: Lines | None) -> np.ndarray:
    if rules is None:
        return np.zeros(5, np.int64)
    phrases = 1 | 2 * rules.javascript | 0b11100 * rules.policy
    return np.array([rules.max_word_chars, rules.min_words, rules.end_marks, rules.citations, phrases], np.int64)


# Phrases that lines are looked at one by one for, each with two letters of it that are rare in a row.
_PHRASES = (
    (b"lorem ipsum", b"ip"), (b"javascript", b"ja"), (b"terms of use", b"rm"), (b"privacy policy", b"cy"),
    (b"cookie", b"ok"),
)  # fmt: skip
_PHRASE_BYTES = np.array([list(phrase.ljust(16, b"\0")) for phrase, _ in _PHRASES], np.uint8)
_PHRASE_SIZES = np.array([len(phrase) for phrase, _ in _PHRASES])
_PAIR_AT = np.array([phrase.index(pair) for phrase, pair in _PHRASES])
#: Bits, behind those of the phrases: the end of the Kelvin sign, the one other character that becomes a k; a bracket.
_KELVIN, _BRACKET = 32, 64


def _pairs() -> tuple[np.ndarray, np.ndarray]:
    """Return what a byte may be the first and the second of, as bits."""
    first, second = np.full(256, _BRACKET, np.uint8), np.zeros(256, np.uint8)
    first[0x84] |= _KELVIN
    second[0xAA], second[ord("[")] = _KELVIN, _BRACKET
    for bit, (_, pair) in enumerate(_PHRASES):
        first[[pair[0], pair[0] - 32]] |= 1 << bit
        second[[pair[1], pair[1] - 32]] |= 1 << bit
    return first, second


_FIRST, _SECOND = _pairs()


@kernel
def find_phrases(data: Any, phrases: int) -> int:
    """Tell whether a text may hold a phrase of `Lines` (1), and whether it holds a bracket (2).

    Parameters
    ----------
    data : (n,) uint8
    phrases : int
        Bits of those of `_PHRASES` that are looked for.
    """
    found = before = 0
    for i in range(len(data)):
        byte = i64(data[u64(i)])
        both = _FIRST[u64(before)] & _SECOND[u64(byte)]
        before = byte
        if both == 0:
            continue
        if both & _BRACKET:
            found |= 2
        elif both & _KELVIN:
            found |= i64(i > 1 and data[i - 2] == 0xE2)
        else:
            for phrase in range(len(_PAIR_AT)):
                if both & phrases & (1 << phrase) and says(data, i - 1 - _PAIR_AT[phrase], phrase):
                    found |= 1
        if found & 1:
            break
    return found


@part
def says(data: Any, start: int, phrase: int) -> bool:
    """Tell whether a phrase stands at byte `start`, in capitals or not."""
    size = _PHRASE_SIZES[phrase]
    if start < 0 or start + size > len(data):
        return False
    for k in range(size):
        byte = i64(data[start + k])
        if (byte | 32 if 65 <= byte <= 90 else byte) != _PHRASE_BYTES[phrase, k]:
            return False
    return True


@kernel
def divide(counts: Any, fractions: Any, out: Any) -> None:
    """Divide counts by counts.

    Parameters
    ----------
    counts : (room,) int64
    fractions : (n, 2) int64
        Places in `counts`.
    out : (n,) float64
        Written; NaN: a share of nothing.
    """
    for k in range(len(out)):
        whole = counts[fractions[k, 1]]
        out[k] = counts[fractions[k, 0]] / whole if whole != 0 else np.nan


@kernel
def measure_all(
    data: Any, stops: Any, counted: Any, scripts: Any, tables: Any, words: Any, glued: Any, running: Any, lines: Any,
    feeds: Any, missing: Any, behind: Any, seen: Any, told: Any, sizes: Any, top: Any, of_lines: bool, of_page: int,
    limits: Any, ends: Any, kept: Any, spans: Any, scratch: Any, counts: Any, fractions: Any, out: Any, states: Any,
    held: Any, held_ends: Any,
) -> None:  # fmt: skip
    """Measure texts that stand behind each other.

    Parameters
    ----------
    data : (n,) uint8
        UTF-8.
    stops : (texts,) int64
        Where each ends.
    counted : (texts, 5) int64
        What `Meter._counted` tells of each.
    scripts, tables, words, glued, running, lines, feeds, missing, behind, seen, told
        See `cut_words`.
    sizes, top, of_lines, of_page, limits, ends, kept, spans, scratch, counts
        See `read_text`.
    fractions : (signals, 2) int64
        See `divide`.
    out : (texts, signals) float64
        Written.
    states : (texts,) bool
        Written: whether a text is left to Python, which has to split a word, make room, or look at lines.
    held : (room, 2) int64
    held_ends : (texts + 1,) int64
        Written: the spans the line rules take from each text.
    """
    start = pieces = 0
    for text in range(len(stops)):
        part, start = data[start : stops[text]], stops[text]
        held_ends[text + 1] = pieces
        if len(part) > len(glued) or len(part) >= len(kept):
            continue
        cut_words(part, scripts, tables, words, glued, running, lines, feeds, missing, behind, seen, told)
        size = max(told[WORDS], told[LINES], told[FEEDS]) + 2
        if told[NO_ROOM] or told[MISSING] or size > len(scratch.places) - 2:
            continue
        for place in range(ALL_SENTENCES + 1):
            counts[place] = told[place]
        counts[ONE], counts[CHARS], counts[HASHES], counts[DOTS] = (
            1,
            counted[text, 0],
            counted[text, 1],
            counted[text, 2],
        )
        if counted[text, 3] >= 0:
            counts[STOPS], counts[DIFFERENT_STOPS] = counted[text, 3], counted[text, 4]
        cited = read_text(
            part, words, glued, running, lines, feeds, sizes, top, of_lines, of_page, limits, ends, kept, spans,
            scratch, counts,
        )  # fmt: skip
        number = scratch.told[5] if of_page == 2 else -1
        if cited != 0 or pieces + number + 1 > len(held):
            continue
        if of_page == 2:
            pieces += find_gaps(spans[:number], counts[CHARS], held[pieces:])
        held_ends[text + 1] = pieces
        divide(counts, fractions, out[text])
        states[text] = False


@kernel
def read_text(
    data: Any, words: Any, glued: Any, running: Any, lines: Any, feeds: Any, sizes: Any, top: Any,
    of_lines: bool, of_page: int, limits: Any, ends: Any, kept: Any, spans: Any, scratch: Any, counts: Any,
) -> int:  # fmt: skip
    """Count lines, n-grams, and what the line rules leave.

    Parameters
    ----------
    data : (n,) uint8
        UTF-8.
    words, glued, running, lines, feeds : arrays
        What `cut_words` wrote.
    sizes, top : (k,) int64, (k,) bool
        See `count_ngrams`.
    of_lines : bool
        Whether to count lines and paragraphs.
    of_page : int
        0: nothing. 1: the lines of the text as it is. 2: those the line rules leave.
    limits : (5,) int64
        See `MAX_WORD_CHARS`.
    ends : (marks,) int64
        Code points of `END_MARKS`, rising.
    kept, spans : arrays
        Written: see `keep_lines`.
    scratch : Scratch
    counts : (room,) int64
        Written: from `BLOCKS` on; see `ONE`.

    Returns
    -------
    int
        How many citations there are in lines kept, which are then to be looked at without them; -1: `Lines` must look.
    """
    if len(sizes) > 0:
        count_ngrams(glued, running, words, counts[WORDS], sizes, top, scratch, counts)
    if of_lines:
        count_blocks(data, running, lines, feeds, ends, scratch, counts)
    counts[LOREM] = counts[BRACED] = 0
    if of_page == 1:
        counts[KEPT_SENTENCES], counts[KEPT_CHARS] = counts[ALL_SENTENCES], counts[CHARS]
        counts[KEPT_WORDS] = counts[WORDS]
        look(data, running, lines, feeds, counts, counts[CHARS], ends, scratch, counts)
    if of_page < 2:
        return 0
    found = find_phrases(data, limits[PHRASES])
    if found & 1:
        return -1
    brackets = found & 2 > 0 and limits[CITATIONS] > 0
    keep_lines(data, lines, counts[LINES], limits, brackets, kept, spans, scratch, counts)
    if scratch.told[7] == 0:
        count_pieces(data, running, counts[FILLED], ends, scratch, counts, FILLED)
    return scratch.told[7]


@part
def count_blocks(data: Any, running: Any, lines: Any, feeds: Any, ends: Any, scratch: Any, counts: Any) -> None:
    """Count what stands between line feeds, and between two or more in the text without white space at its ends."""
    edges, line_count = scratch.edges, counts[LINES]
    edges[0, 0] = edges[0, 1] = edges[0, 2] = 0
    edges[1, 0], edges[1, 1], edges[1, 2] = len(data), counts[CHARS], lines[line_count, GLUED]
    blocks = feed_pieces(feeds, counts[FEEDS], 1, edges, scratch.pieces)
    count_pieces(data, running, blocks, ends, scratch, counts, BLOCKS)
    first, last = 0, line_count - 1
    while first < last and lines[first, CHUNKS] == 0:
        first += 1
    while last > first and lines[last, CHUNKS] == 0:
        last -= 1
    if line_count > 0:
        edges[0, 0], edges[0, 1] = lines[first, LEAD], lines[first, LEAD_CHAR]
        edges[1, 0], edges[1, 1] = lines[last, TRAIL], lines[last, TRAIL_CHAR]
    paragraphs = feed_pieces(feeds, counts[FEEDS], 2, edges, scratch.pieces)
    count_pieces(data, running, paragraphs, ends, scratch, counts, PARAGRAPHS)


@kernel
def look(
    data: Any, running: Any, lines: Any, feeds: Any, told: Any, chars: int, ends: Any, scratch: Any, counts: Any
) -> None:  # fmt: skip
    """Count the lines of a text that are not blank.

    Parameters
    ----------
    data, running, lines, feeds, ends, scratch : arrays
        See `read_text`.
    told : (13 or more,) int64
        What `cut_words` told of the text.
    chars : int
        Its characters.
    counts : (room,) int64
        Written: `FILLED` to `KEPT_FEEDS`.
    """
    edges = scratch.edges
    edges[0, 0] = edges[0, 1] = edges[0, 2] = 0
    edges[1, 0], edges[1, 1], edges[1, 2] = len(data), chars, lines[told[LINES], GLUED]
    number = feed_pieces(feeds, told[FEEDS], 0, edges, scratch.pieces)
    counts[KEPT_FEEDS], counts[LINE_CHARS] = told[FEEDS], chars - told[FEEDS]
    count_pieces(data, running, number, ends, scratch, counts, FILLED)


@part
def feed_pieces(feeds: Any, number: int, least: int, edges: Any, pieces: Any) -> int:
    """Cut at line feeds.

    Parameters
    ----------
    feeds : (room, 3) int64
        What `cut_words` wrote.
    number : int
        How many.
    least : int
        1, 2: cut at runs of as many line feeds or more. 0: at each, and leave out blank pieces.
    edges, pieces : arrays
        Read and written: see `Scratch`.

    Returns
    -------
    int
        How many pieces there are.
    """
    count = 0
    byte, char, glued = edges[0, 0], edges[0, 1], edges[0, 2]
    for k in range(number + 1):
        run, stop, stop_char, stop_glued = 1, edges[1, 0], edges[1, 1], edges[1, 2]
        if k < number and feeds[k, 0] < stop:
            if feeds[k, 0] < edges[0, 0] or (least > 0 and feeds[k, 0] < byte):
                continue
            stop, stop_char, stop_glued = feeds[k, 0], feeds[k, 1], feeds[k, 2]
            while least > 0 and k + run < number and feeds[k + run, 0] == stop + run and stop + run < edges[1, 0]:
                run += 1
            if run < least:
                continue
        if least > 0 or stop_glued > glued:
            pieces[count, 0], pieces[count, 1], pieces[count, 2] = byte, stop, stop_char - char
            pieces[count, 3], pieces[count, 4] = glued, stop_glued
            count += 1
        if stop == edges[1, 0]:
            break
        byte, char, glued = stop + run, stop_char + run, stop_glued
    return count


@part
def is_one_of(ends: Any, point: int) -> bool:
    """Tell whether a code point is among rising ones."""
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high) >> 1
        if ends[middle] < point:
            low = middle + 1
        else:
            high = middle
    return low < len(ends) and ends[low] == point


@kernel
def count_pieces(data: Any, running: Any, number: int, ends: Any, scratch: Any, counts: Any, at: int) -> None:
    """Count pieces of a text, those seen before and their characters; pieces that end in a mark, and short ones.

    Parameters
    ----------
    data : (n,) uint8
    running : (n + 1,) uint64
        What `cut_words` wrote.
    number : int
        How many pieces there are in `scratch`.
    ends : (marks,) int64
        Code points of `END_MARKS`, rising.
    scratch : Scratch
    counts : (room,) int64
        Written: three numbers from `at` on, five at `FILLED`.
    at : int

    Notes
    -----
    The hash of a piece is that of its text without white space, so that no byte is read for it; equal hashes are
    compared byte by byte.
    """
    pieces, slots, sums, mask = scratch.pieces, scratch.slots, scratch.sums, len(scratch.slots) - 1
    scratch.state[0] += 1
    turn = scratch.state[0] << 32
    again = again_chars = ended = short = 0
    for piece in range(number):
        start, stop, chars = pieces[piece, 0], pieces[piece, 1], pieces[piece, 2]
        if at == FILLED:
            short += chars <= 30
            last = i64(data[stop - 1])
            ended += is_one_of(ends, last if last < 128 else point_at(data, back_from(data, stop)))
        h = text_hash(running, pieces[piece, 3], pieces[piece, 4]) + np.uint64(stop - start)
        sums[piece, 0] = h
        slot = spread(h) & mask
        fresh = True
        while fresh and slots[slot] >= turn:
            held = slots[slot] - turn
            if sums[held, 0] == h and pieces[held, 1] - pieces[held, 0] == stop - start:
                other, k = pieces[held, 0], 0
                while k < stop - start and data[other + k] == data[start + k]:
                    k += 1
                fresh = k < stop - start
            slot = (slot + fresh) & mask
        if fresh:
            slots[slot] = turn + piece
        else:
            again, again_chars = again + 1, again_chars + chars
    counts[at], counts[at + 1], counts[at + 2] = number, again, again_chars
    if at == FILLED:
        counts[at + 3], counts[at + 4] = ended, short


# What a citation may hold other than a number.
_EDIT = np.frombuffer(b"edit", np.uint8)
_NEEDED = np.frombuffer(b"citation needed", np.uint8)


@kernel
def keep_lines(
    data: Any, lines: Any, count: int, limits: Any, brackets: bool, kept: Any, spans: Any, scratch: Any, counts: Any,
) -> None:  # fmt: skip
    """Apply line rules to lines without the phrases of `Lines`.

    Parameters
    ----------
    data : (n,) uint8
    lines : (room, 12) int64
        What `cut_words` wrote.
    count : int
        How many lines it wrote.
    limits : (5,) int64
        See `MAX_WORD_CHARS`.
    brackets : bool
        Whether to look for citations.
    kept : (n + 1,) uint8
        Written: the lines kept, one line feed between two.
    spans : (2 * lines, 2) int64
        Written: what is kept, in characters, citations with it.
    scratch : Scratch
        Written: in `told` bytes and characters kept, sentences, words, lines with a brace, spans, lines kept, citations
        taken out. Where there are citations, characters, sentences and words are those of the lines as they stood; -1:
        what is left of a line is to be looked at by `Lines`. In `pieces` the lines kept that are not blank.
    counts : (room,) int64
        Written: `BRACED` to `KEPT_WORDS`, but for what `count_pieces` counts.
    """
    told, pieces = scratch.told, scratch.pieces
    size = chars = sentences = kept_words = braces = span = rows = cited = filled = feeds = 0
    line_end = -1
    for row in range(count):
        start, stop = lines[row, LEAD], lines[row, TRAIL]
        if lines[row, LONGEST] > limits[MAX_WORD_CHARS] or lines[row, CHUNKS] < limits[MIN_WORDS]:
            continue
        # Copied before anybody knows whether it is kept: its end is known when the citations are out.
        begin = size + (line_end >= 0)
        end, k, held = begin, start, cited
        while k < stop:
            byte = data[k]
            if brackets and byte == 91:
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
        if limits[END_MARK]:
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
        braces += lines[row, BRACES] > 0
        sentences += max(lines[row, SENTENCES], 1)
        kept_words += lines[row + 1, FIRST_WORD] - lines[row, FIRST_WORD]
        # A blank line is kept only by rules that keep lines without words, and never as the first of what is left.
        if stop == start and span == 0:
            continue
        if line_end >= 0:
            kept[size] = 10
            spans[span, 0], spans[span, 1] = line_end, line_end + 1
            chars, span, feeds = chars + 1, span + 1, feeds + 1
        line_end, size = lines[row, LINE_END], end
        spans[span, 0], spans[span, 1] = lines[row, LEAD_CHAR], lines[row, TRAIL_CHAR]
        chars, span = chars + lines[row, TRAIL_CHAR] - lines[row, LEAD_CHAR], span + 1
        if stop > start:
            pieces[filled, 0], pieces[filled, 1] = start, stop
            pieces[filled, 2] = lines[row, TRAIL_CHAR] - lines[row, LEAD_CHAR]
            pieces[filled, 3], pieces[filled, 4] = lines[row, GLUED], lines[row + 1, GLUED]
            filled += 1
    while cited == 0 and span > 0 and (spans[span - 1, 0] == spans[span - 1, 1] or kept[size - 1] == 10):
        wide = spans[span - 1, 1] - spans[span - 1, 0]
        chars, size, feeds, span = chars - wide, size - wide, feeds - wide, span - 1
    told[0], told[1], told[2], told[3], told[4], told[5] = size, chars, sentences, kept_words, braces, span
    told[6], told[7] = rows, cited
    counts[BRACED], counts[KEPT_SENTENCES], counts[KEPT_CHARS], counts[KEPT_WORDS] = (
        braces,
        sentences,
        chars,
        kept_words,
    )
    counts[FILLED], counts[KEPT_FEEDS], counts[LINE_CHARS] = filled, feeds, chars - feeds


@kernel
def count_ngrams(
    glued: Any, running: Any, words: Any, count: int, sizes: Any, top: Any, scratch: Any, counts: Any
) -> None:
    """Count characters in n-grams seen before, and in the commonest n-gram.

    Parameters
    ----------
    glued : (n,) uint8
        The words without anything between them.
    running : (n + 1,) uint64
        Hashes of that up to each byte.
    words : (count, 3) int32
        Bytes and characters of each.
    count : int
    sizes : (k,) int64
        The n of each figure wanted.
    top : (k,) bool
        True: characters of the commonest n-gram with n - 1 blanks, times how often it occurs; of several as common the
        first counts. False: characters of n-grams whose letters were seen before, each read once.
    scratch : Scratch
        `starts` holds where each word begins, in bytes and in characters, and where the n-gram that begins with it
        occurs first; `places` how often that occurs, 0 where it was seen before, and words whose letters may be
        repeated.
    counts : (room,) int64
        Written: characters, from `GRAMS` on.

    Notes
    -----
    The hash of an n-gram comes from the hashes of the text up to its begin and up to its end, each a number with the
    bytes as digits; so it is that of its letters, wherever the words in it begin. Equal hashes are compared byte by
    byte.

    Most n-grams of most texts occur once, and a test quicker than a look-up tells that of most of them: their hash, or
    that of their first letters, falls into a cell of its own; or a part of them occurs once.
    """
    starts = scratch.starts
    at = chars = 0
    for word in range(count):
        starts[word, 0], starts[word, 1] = at, chars
        at, chars = at + words[word, 0], chars + words[word, 1]
    starts[count, 0], starts[count, 1] = at, chars
    shortest = count + 1
    for figure in range(len(sizes)):
        if not top[figure]:
            shortest = min(shortest, sizes[figure])
    some = find_candidates(running, count, shortest, scratch)
    known = 0
    for figure in range(len(sizes)):
        scratch.state[0] += 1
        if top[figure]:
            known = known if known < sizes[figure] <= 2 * known else 0
            counts[GRAMS + figure] = commonest(glued, running, words, count, sizes[figure], known, scratch)
            known = sizes[figure]
        else:
            counts[GRAMS + figure] = repeated(glued, running, count, sizes[figure], some, scratch)


@part
def mask_of(count: int, cells: int) -> int:
    """Return the mask of a table with room for twice as many n-grams, times `cells`."""
    bits = 4
    while (1 << bits) < 2 * count:
        bits += 1
    return (cells << bits) - 1


@part
def find_candidates(running: Any, count: int, shortest: int, scratch: Any) -> int:
    """Write the words whose first letters may stand somewhere else, or are few in the n-gram; return how many."""
    starts, places, cells, mask = scratch.starts, scratch.places, scratch.cells, mask_of(count, 8)
    # Bytes, fewer than most n-grams have: 15 for five words, which are three English ones or five Han characters.
    head, some = 2 * shortest + 5, 0
    if shortest > count:
        return 0
    for cell in range(mask + 1):
        cells[u64(cell)] = 0
    for word in range(count - shortest + 1):
        stop = min(starts[u64(word), 0] + head, starts[u64(count), 0])
        cell = spread(text_hash(running, starts[u64(word), 0], stop)) & mask
        places[u64(word), 1] = cell
        cells[u64(cell)] = min(cells[u64(cell)] + 1, 2)
    for word in range(count - shortest + 1):
        cell = places[u64(word), 1]
        places[u64(some), 1] = word
        some += cells[u64(cell)] > 1 or starts[u64(word + shortest), 0] - starts[u64(word), 0] < head
    return some


@part
def same_letters(glued: Any, start: int, other: int, length: int) -> bool:
    """Tell whether the same bytes stand in two places."""
    k = 0
    while k < length and glued[u64(other + k)] == glued[u64(start + k)]:
        k += 1
    return k == length


@part
def same_words(glued: Any, words: Any, starts: Any, word: int, other: int, size: int) -> bool:
    """Tell whether two n-grams are one."""
    for k in range(size):
        if words[other + k, 0] != words[word + k, 0]:
            return False
    return same_letters(glued, starts[word, 0], starts[other, 0], starts[word + size, 0] - starts[word, 0])


@kernel
def commonest(glued: Any, running: Any, words: Any, count: int, size: int, known: int, scratch: Any) -> int:
    """Return the characters of the commonest n-gram with n - 1 blanks, times how often it occurs.

    Where the n-grams of `known` words, half as many at least, were counted last, two of them tell an n-gram: the first
    places of its begin and its end, in one number. Otherwise its letters do.
    """
    starts, places, sums, slots = scratch.starts, scratch.places, scratch.sums, scratch.slots
    turn, mask, largest = scratch.state[0] << 32, mask_of(count, 1), 1
    if known == 0:
        count_hashes(running, count, size, scratch)
    cell_mask = mask_of(count, 8)
    for word in range(count - size + 1):
        if known > 0:
            end = word + size - known
            once = places[u64(word), 0] == 1 or places[u64(end), 0] == 1
            h = np.uint64(starts[u64(word), 2] << 32 | starts[u64(end), 2])
            sums[u64(word), 0] = h
        else:
            h = sums[u64(word), 0]
            once = scratch.cells[u64(spread(h) & cell_mask)] == 1
        places[u64(word), 0], starts[u64(word), 2] = 1, word
        if once:
            continue
        slot = spread(h) & mask
        while slots[u64(slot)] >= turn:
            held = slots[u64(slot)] - turn
            if sums[u64(held), 0] == h and (known > 0 or same_words(glued, words, starts, word, held, size)):
                places[u64(word), 0], starts[u64(word), 2] = 0, held
                places[u64(held), 0] += 1
                largest = max(largest, places[u64(held), 0])
                break
            slot = (slot + 1) & mask
        if places[u64(word), 0] == 1:
            slots[u64(slot)] = turn + word
    for word in range(count - size + 1):
        if places[u64(word), 0] == largest:
            return (starts[u64(word + size), 1] - starts[u64(word), 1] + size - 1) * largest
    return 0


@part
def count_hashes(running: Any, count: int, size: int, scratch: Any) -> None:
    """Write the hash of each n-gram, and in cells how many fall into each: 2 stands for more, too."""
    starts, cells, mask = scratch.starts, scratch.cells, mask_of(count, 8)
    for cell in range(mask + 1):
        cells[u64(cell)] = 0
    for word in range(count - size + 1):
        h = text_hash(running, starts[u64(word), 0], starts[u64(word + size), 0])
        scratch.sums[u64(word), 0] = h
        cell = spread(h) & mask
        cells[u64(cell)] = min(cells[u64(cell)] + 1, 2)


@kernel
def repeated(glued: Any, running: Any, count: int, size: int, some: int, scratch: Any) -> int:
    """Return the characters of n-grams whose letters were seen before, each read once."""
    starts, places, sums, slots = scratch.starts, scratch.places, scratch.sums, scratch.slots
    turn, mask = scratch.state[0] << 32, mask_of(count, 1)
    found = next_word = 0
    for row in range(some):
        word = places[u64(row), 1]
        if word < next_word:
            continue
        if word + size > count:
            break
        start, length = starts[u64(word), 0], starts[u64(word + size), 0] - starts[u64(word), 0]
        h = text_hash(running, start, start + length)
        slot, fresh = spread(h) & mask, True
        while fresh and slots[u64(slot)] >= turn:
            held = slots[u64(slot)] - turn
            if sums[u64(held), 0] == h and starts[u64(held + size), 0] - starts[u64(held), 0] == length:
                fresh = not same_letters(glued, start, starts[u64(held), 0], length)
            slot = (slot + fresh) & mask
        if fresh:
            slots[u64(slot)], sums[u64(word), 0] = turn + word, h
        else:
            found += starts[u64(word + size), 1] - starts[u64(word), 1]
            next_word = word + size
    return found


_ELLIPSES = {"...", "[...]", "…", "(...)", "[…]", "-»", "read more..", "read more"}


def _share(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")


def _is_mark(word: str) -> bool:
    # NeMo counts runs of #, not the signs: ## is one of two characters, no more than half.
    return word in _ELLIPSES or len(re.findall("#+", word)) / len(word) > 0.5


def _dolma(meter: Meter, doc: Document) -> dict[str, float]:
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


def _nemo(meter: Meter, doc: Document) -> dict[str, float]:
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


_OTHERS: dict[str, Callable[[Meter, Document], dict[str, float]]] = {
    "spelling": Meter.spelling, "dolma": _dolma, "nemo": _nemo,
}  # fmt: skip
