"""The same text twice: a hash of each document, paragraph or line, and the best of those that share one stays.

a.jsonl#L1  "def f():\\n    x\\n"   ──code_safe──▶ sha256 5e88…  ┐ Drop(exact_duplicate, twin=b.jsonl#L7)
b.jsonl#L7  "def f():  \\r\\n    x"  ──code_safe──▶ sha256 5e88…  ┘ the longest; then the smallest sha256: stays
c.jsonl#L2  "def f():\\nx"         ──code_safe──▶ sha256 b133…    another program: stays
"""

from __future__ import annotations

import hashlib
import itertools
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from prep_lib.documents import id_hash
from prep_lib.errors import BadParameter
from prep_lib.record import Cut, Document, Drop
from prep_lib.registry import Registry
from prep_lib.stage import Sketched
from prep_lib.text.shingles import utf8

#: A document as `ExactDedup` sees it. `place` is filled in by the caller, and only keep="first" looks at it.
DOCUMENT = np.dtype(
    [
        ("key", "<u8"),  # the normalised text's sha256, its first 8 bytes
        ("check", "<u8"),  # and the next 8: two texts are the same only if both are
        ("characters", "<i8"),  # of the raw document
        ("tie", "<u8"),  # the raw document's sha256, first 8 bytes
        ("id", "<u8"),  # its id, hashed
        ("place", "<i8"),  # where it stands among all
    ]
)
#: A paragraph or line: also where it stands in the document, in characters, and how many such rows the document has;
#: 0 where other text stands beside them, so that something is always left.
PIECE = np.dtype([*DOCUMENT.descr, ("start", "<i8"), ("stop", "<i8"), ("pieces", "<i8")])

#: Which differences do not matter: str -> str.
HASH_TEXTS: Registry[Callable[[str], str]] = Registry("text/exact_dedup", "hash_text")

_LEVELS = ("document", "paragraph", "line")


def code_safe(text: str) -> str:
    """Forget line ends, blanks at the ends of lines, blank lines at both ends, and the Unicode form.

    What a program means stays: indentation, and white space inside a line.

    Examples
    --------
    >>> code_safe("\\r\\n  if a:  \\r\\n\\tb\\n\\n")
    '  if a:\\n\\tb'
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join(map(str.rstrip, text.split("\n"))).strip("\n")


def collapse(text: str) -> str:
    """Make one blank of all white space; two different Python programs may become the same text.

    Examples
    --------
    >>> collapse(" if a:\\n  b ")
    'if a: b'
    """
    return " ".join(text.split())


def raw(text: str) -> str:
    """Leave a text as it is."""
    return text


HASH_TEXTS.add("code_safe", code_safe)
HASH_TEXTS.add("collapse", collapse)
HASH_TEXTS.add("raw", raw)


@dataclass(frozen=True, kw_only=True)
class ExactDedup:
    """Drop documents, or cut paragraphs or lines, that stand elsewhere already; a corpus stage.

    Parameters
    ----------
    hash_text : str
        A name of `HASH_TEXTS`: ``code_safe``, ``collapse`` (as the specification hashes) or ``raw``.
    keep : str
        ``best``: the longest document stays, then the one with the smallest sha256 of the raw text, then the smallest
        hash of its id; whatever the order of the input. ``first``: the first of the input.
    level : str
        ``document``, ``paragraph`` (lines up to a blank one) or ``line``. The first of its kind in the best (or first)
        document stays.
    min_chars : int, characters
        A shorter paragraph or line, white space at its ends apart, is left alone: ``}`` stands everywhere.

    Drops
    -----
    ``exact_duplicate`` with the twin that stays; or a Cut, ``duplicate_paragraph`` or ``duplicate_line``, and a Drop of
    that name where nothing but white space would be left.

    Raises
    ------
    UnknownName, BadParameter

    Source
    ------
    sha256 of ``" ".join(text.split())``, the first one stays: the specification, 18.6; here ``hash_text="collapse",
    keep="first"``. Two texts count as the same when 128 bits of sha256 are.

    Examples
    --------
    >>> from prep_lib.stage import run
    >>> docs = [Document("1", "if a:\\n  b"), Document("2", "if a:\\r\\n  b\\r\\n"), Document("3", "if a:\\nb")]
    >>> result = run([ExactDedup()], docs)
    >>> [doc.id for doc in result.kept], result.dropped[0].drop
    (['2', '3'], Drop(reason='exact_duplicate', twin='2'))
    """

    name: ClassVar[str] = "exact_dedup"
    #: What sketches do not depend on: moved, no text is read again.
    decides: ClassVar[tuple[str, ...]] = ("keep",)

    hash_text: str = "code_safe"
    keep: str = "best"
    level: str = "document"
    min_chars: int = 40
    normal: Callable[[str], str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # The function itself, so that it travels with the stage and its source is part of the stage's digest.
        object.__setattr__(self, "normal", HASH_TEXTS[self.hash_text])
        check_keep("exact_dedup", self.keep)
        if self.level not in _LEVELS:
            raise BadParameter(f"text/exact_dedup: level must be one of {', '.join(_LEVELS)}; got {self.level!r}")
        if isinstance(self.min_chars, bool) or not isinstance(self.min_chars, int) or self.min_chars < 1:
            raise BadParameter(f"text/exact_dedup: min_chars must be a whole number >= 1, got {self.min_chars!r}")

    @property
    def row(self) -> np.dtype[Any]:
        """`DOCUMENT` or `PIECE`."""
        return DOCUMENT if self.level == "document" else PIECE

    @property
    def reasons(self) -> tuple[str, ...]:
        """The one reason of this level."""
        return ("exact_duplicate" if self.level == "document" else f"duplicate_{self.level}",)

    def sketch(self, doc: Document) -> np.ndarray:
        """Return a row for the document, or one for each piece that is long enough."""
        return self.sketch_many([doc])[0]

    def sketch_many(self, docs: Sequence[Document]) -> list[np.ndarray]:
        """Return what `sketch` does of each document."""
        found = [self._spans(doc.text) for doc in docs]
        sizes = [len(spans) for spans, _ in found]
        ends = [0, *itertools.accumulate(sizes)]
        out = np.zeros(ends[-1], self.row)
        whole, digests = [sha256(utf8(doc)) for doc in docs], list[bytes]()
        for doc, digest, (spans, _) in zip(docs, whole, found, strict=True):
            for start, stop in spans:
                text = self.normal(doc.text[start:stop])
                # Half of all clean documents and more are in normal form already: hashed once.
                digests.append(digest if text == doc.text else sha256(utf8(text)))
        # Column by column: to make a row of a tuple takes as long as its sha256.
        halves = np.frombuffer(b"".join(digests), ">u8").reshape(-1, 4)
        out["key"], out["check"] = halves[:, 0], halves[:, 1]
        told: dict[str, Any] = {
            "characters": [len(doc.text) for doc in docs],
            "tie": np.frombuffer(b"".join(whole), ">u8")[::4],
            "id": [id_hash(doc.id) for doc in docs],
        }
        if self.level != "document":
            told["pieces"] = [pieces for _, pieces in found]
            places = np.array([span for spans, _ in found for span in spans], np.int64).reshape(-1, 2)
            out["start"], out["stop"] = places.T
        for name, values in told.items():
            out[name] = np.repeat(np.array(values, self.row[name]), sizes)
        return [out[begin:end] for begin, end in itertools.pairwise(ends)]

    def _spans(self, text: str) -> tuple[list[tuple[int, int]], int]:
        """Return what of a text is compared, and how many pieces that is, if nothing but blanks stands beside them."""
        if self.level == "document":
            return [(0, len(text))], 0
        cut = [*(lines(text) if self.level == "line" else paragraphs(text))]
        sizes = [len(text[start:stop].strip()) for start, stop in cut]
        spans = [span for span, size in zip(cut, sizes, strict=True) if size >= self.min_chars]
        return spans, len(spans) if len(spans) == sum(map(bool, sizes)) else 0

    def losers(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows go, and the row that stays in the stead of each.

        Parameters
        ----------
        rows : (n,) of `row`
            All rows of the keys that are among them, in any order.

        Returns
        -------
        gone, stead : (l,) int64
            Indices into `rows`; `gone` ascends.
        """
        by_rank = ["start"] if self.level != "document" else []
        rank = [*priority(rows, self.keep), *(rows[name] for name in by_rank)]
        order = np.lexsort([*reversed(rank), rows["check"], rows["key"]])
        key, check, same = rows["key"][order], rows["check"][order], np.zeros(len(rows), bool)
        same[1:] = (key[1:] == key[:-1]) & (check[1:] == check[:-1])
        first = np.maximum.accumulate(np.where(same, 0, np.arange(len(rows))))
        gone, stead = order[same], order[first[same]]
        back = np.argsort(gone)
        return gone[back].astype(np.int64), stead[back].astype(np.int64)

    def verdict(self, rows: np.ndarray, twin: str) -> Drop | Cut:
        """Return what becomes of one document.

        Parameters
        ----------
        rows : (k,) of `row`
            Those of the document's rows that go, in any order.
        twin : str
            The id of a document that holds what goes: of the first of them.
        """
        reason = self.reasons[0]
        if self.level == "document" or len(rows) == rows["pieces"][0]:
            return Drop(reason, twin=twin)
        return Cut(join_spans(rows["start"], rows["stop"]), reason)

    def decide(self, seen: Sketched) -> Mapping[int, Drop | Cut]:
        """Return the verdicts, by place."""
        rows = seen.rows.copy()
        rows["place"] = seen.owner
        gone, stead = self.losers(rows)
        of_place: dict[int, list[int]] = {}
        for at, place in enumerate(seen.owner[gone].tolist()):
            of_place.setdefault(place, []).append(at)
        return {
            place: self.verdict(rows[gone[found]], seen.ids[seen.owner[stead[found[0]]]])
            for place, found in of_place.items()
        }


def priority(rows: np.ndarray, keep: str) -> list[np.ndarray]:
    """Return the columns documents are ordered by, the most important first; the smaller stays."""
    return [rows["place"]] if keep == "first" else [-rows["characters"].astype(np.int64), rows["tie"], rows["id"]]


def check_keep(where: str, keep: object) -> None:
    """Refuse what is neither "best" nor "first"."""
    if keep not in ("best", "first"):
        raise BadParameter(f"text/{where}: keep must be 'best' or 'first', got {keep!r}")


def join_spans(starts: np.ndarray, stops: np.ndarray) -> tuple[tuple[int, int], ...]:
    """Return spans in order, those that touch as one.

    Examples
    --------
    >>> join_spans(np.array([5, 0, 9]), np.array([9, 2, 12]))
    ((0, 2), (5, 12))
    """
    out: list[list[int]] = []
    for start, stop in sorted(zip(starts.tolist(), stops.tolist(), strict=True)):
        if out and start <= out[-1][1]:
            out[-1][1] = max(stop, out[-1][1])
        else:
            out.append([start, stop])
    return tuple((start, stop) for start, stop in out)


def lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each line begins and where the next one does.

    Examples
    --------
    >>> list(lines("ab\\r\\n\\nc"))
    [(0, 4), (4, 5), (5, 6)]
    """
    at = 0
    for line in text.splitlines(keepends=True):
        yield at, at + len(line)
        at += len(line)


def paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each paragraph begins and where the next one does: lines, and the blank lines behind them.

    Examples
    --------
    >>> list(paragraphs("\\na\\nb\\n\\n \\nc"))
    [(1, 8), (8, 9)]
    """
    begin, blank, stop = -1, False, 0
    for start, stop in lines(text):
        empty = text[start:stop].isspace()
        if begin >= 0 and blank and not empty:
            yield begin, start
            begin = -1
        if begin < 0 and not empty:
            begin = start
        blank = empty
    if begin >= 0:
        yield begin, stop


def sha256(data: bytes) -> bytes:
    """Return the digest, 32 bytes."""
    return hashlib.sha256(data).digest()


def first8(data: bytes) -> int:
    """Return the first 8 bytes of the sha256 as a number."""
    return int.from_bytes(sha256(data)[:8], "big")
