"""Documents become one stream of ids: one EOS behind each, and what they cost is counted.

    documents   "The cat" · "猫"
    stream      The ␣cat EOS 猫 EOS              one EOS a document, never two, never one inside
    census      2 documents, 2 EOS, 0 inside
    fertility   en: 7 bytes, 2 words, 2 tokens: 3.5 bytes a token, 1.0 token a word

A word is what stands between blanks; in scripts without blanks (Chinese, Japanese, Thai, Khmer, Lao, Burmese, Tibetan)
every character counts as one, because nobody could say otherwise without a dictionary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from prep_lib.jit import kernel
from prep_lib.tokens.tokenizer import AutoTokenizer

#: Characters encoded at once by `fertility`.
_BATCH = 2**22


@kernel
def _words(raw, ends, out):  # type: ignore[no-untyped-def]
    """Count characters and words of texts that stand behind each other as UTF-8."""
    begin = 0
    for text in range(len(ends)):
        characters = words = 0
        inside = False
        at = begin
        while at < ends[text]:
            first = raw[at]
            if first < 0x80:  # most of most texts
                at += 1
                characters += 1
                if first == 0x20 or 0x09 <= first <= 0x0D or 0x1C <= first <= 0x1F:
                    inside = False
                elif not inside:
                    words += 1
                    inside = True
                continue
            if first < 0xE0:
                code, size = (first & 0x1F) << 6 | (raw[at + 1] & 0x3F), 2
            elif first < 0xF0:
                code, size = (first & 0x0F) << 12 | (raw[at + 1] & 0x3F) << 6 | (raw[at + 2] & 0x3F), 3
            else:
                code = (
                    (first & 0x07) << 18 | (raw[at + 1] & 0x3F) << 12 | (raw[at + 2] & 0x3F) << 6 | (raw[at + 3] & 0x3F)
                )
                size = 4
            at += size
            characters += 1
            if (
                code == 0x85
                or code == 0xA0
                or code == 0x1680
                or 0x2000 <= code <= 0x200A
                or code == 0x2028
                or code == 0x2029
                or code == 0x202F
                or code == 0x205F
                or code == 0x3000
            ):
                inside = False
            elif (
                0x0E00 <= code <= 0x0EFF  # Thai, Lao
                or 0x0F00 <= code <= 0x109F  # Tibetan, Burmese
                or 0x1780 <= code <= 0x17FF  # Khmer
                or 0x3040 <= code <= 0x30FF  # kana
                or 0x31F0 <= code <= 0x31FF
                or 0x3400 <= code <= 0x4DBF  # Han
                or 0x4E00 <= code <= 0x9FFF
                or 0xF900 <= code <= 0xFAFF
                or 0x20000 <= code <= 0x323AF
            ):
                words += 1
                inside = False
            elif not inside:
                words += 1
                inside = True
        out[text, 0], out[text, 1] = characters, words
        begin = ends[text]


def measure(texts: Sequence[str]) -> np.ndarray:
    """Return (n, 3) int64: bytes of UTF-8, characters and words of each text.

    Examples
    --------
    >>> measure(["The cat sat.", "猫坐下了 ok", ""]).tolist()
    [[12, 12, 3], [15, 7, 5], [0, 0, 0]]
    """
    raw = [text.encode("utf-8") for text in texts]
    out = np.zeros((len(raw), 3), np.int64)
    out[:, 0] = [len(one) for one in raw]
    _words(np.frombuffer(b"".join(raw), np.uint8), np.cumsum(out[:, 0]), out[:, 1:])
    return out


def group_of(
    record: Mapping[str, Any],
    name: str,
    source_field: str = "source",
    language_fields: Sequence[str] = ("language", "lang"),
) -> tuple[str, str | None]:
    """Return source and language of a document, as its record says them.

    Parameters
    ----------
    record : mapping
    name : str
        Its source if the record names none: see `stem`.
    source_field : str
        Whose text is the source. Empty: always `name`.
    language_fields : sequence of str
        The first that holds a text is the language, in the record or in its ``meta``.

    Returns
    -------
    (str, str or None)
        None: the record does not say a language.

    Examples
    --------
    >>> group_of({"text": "…", "lang": "zh"}, "news_en"), group_of({"source": "web"}, "news_en")
    (('news_en', 'zh'), ('web', None))
    """
    source = record.get(source_field) if source_field else None
    source = source if isinstance(source, str) and source else name
    # The documents of a run carry it in their meta.
    meta = record.get("meta")
    places = (record, meta) if isinstance(meta, Mapping) else (record,)
    spoken = (place.get(name) for place in places for name in language_fields)
    return source, next((language for language in spoken if isinstance(language, str) and language), None)


def stem(name: str) -> str:
    """Return the name of a data file without folders and endings.

    Examples
    --------
    >>> stem("news/web_en.jsonl.gz"), stem("v1.5.parquet")
    ('web_en', 'v1.5')
    """
    base = name.rpartition("/")[2]
    return re.sub(r"\.(jsonl|ndjson|json|parquet)(\.(gz|zst))?$", "", base) or base


@dataclass
class Cost:
    """What the documents of one source and language are, and how many tokens they take.

    Parameters
    ----------
    source : str
    language : str or None
        None: nobody knows.
    documents, bytes, characters, words : int
    tokens : int
        Without EOS.
    literal_specials : int
        Control tokens spelled in the texts: they stayed text.
    """

    source: str
    language: str | None
    documents: int = 0
    bytes: int = 0
    characters: int = 0
    words: int = 0
    tokens: int = 0
    literal_specials: int = 0

    @property
    def bytes_per_token(self) -> float:
        """Bytes of UTF-8 in a token; NaN without tokens. Higher is cheaper."""
        return self.bytes / self.tokens if self.tokens else float("nan")

    @property
    def tokens_per_word(self) -> float:
        """Tokens a word takes, its fertility; NaN without words. Lower is cheaper."""
        return self.tokens / self.words if self.words else float("nan")

    def as_dict(self) -> dict[str, Any]:
        """Return what the manifest keeps."""
        return asdict(self)


@dataclass
class Costs:
    """The costs of all groups, summed as documents come."""

    groups: dict[tuple[str, str | None], Cost] = field(default_factory=dict)

    def of(self, source: str, language: str | None) -> Cost:
        """Return the sum of one group, a new one if there is none yet."""
        return self.groups.setdefault((source, language), Cost(source, language))

    def add(self, cost: Cost) -> None:
        """Add the sums of a group."""
        mine = self.of(cost.source, cost.language)
        for name in ("documents", "bytes", "characters", "words", "tokens", "literal_specials"):
            setattr(mine, name, getattr(mine, name) + getattr(cost, name))

    def sorted(self) -> list[Cost]:
        """Return them by source and language: the same for any order of documents."""
        return [self.groups[at] for at in sorted(self.groups, key=lambda at: (at[0], at[1] or ""))]


def fertility(documents: Iterable[tuple[str, str | None, str]], tokenizer: AutoTokenizer) -> list[Cost]:
    """Return what documents cost by source and language.

    Parameters
    ----------
    documents : iterable of (source, language, text)
        Read once, in bounded memory.
    tokenizer : AutoTokenizer

    Returns
    -------
    list of Cost
        By source and language. Tokens are counted without EOS.

    Examples
    --------
    >>> tokenizer = AutoTokenizer().train(["the cat the cat"], vocab_size=300)
    >>> [(one.source, one.words, one.bytes_per_token) for one in fertility([("web", "en", "the cat")], tokenizer)]
    [('web', 2, 3.5)]
    """
    costs = Costs()
    for batch in _batches(documents):
        texts = [text for _, _, text in batch]
        _, offsets = tokenizer.encode_many(texts)
        sizes, tokens = measure(texts).tolist(), np.diff(offsets).tolist()
        for (source, language, text), (size, characters, words), count in zip(batch, sizes, tokens, strict=True):
            spelled = len(tokenizer.literal_specials(text))
            costs.add(Cost(source, language, 1, size, characters, words, count, spelled))
    return costs.sorted()


def _batches(documents: Iterable[tuple[str, str | None, str]]) -> Iterator[list[tuple[str, str | None, str]]]:
    batch, size = [], 0
    for document in documents:
        batch.append(document)
        size += len(document[2])
        if size > _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


@dataclass(frozen=True)
class Census:
    """How many EOS there are, and where.

    Parameters
    ----------
    documents : int
        That end inside what was looked at.
    eos : int
        EOS ids in all.
    misplaced : int
        Documents that end without one, and EOS that stand anywhere else.
    """

    documents: int
    eos: int
    misplaced: int

    def __add__(self, other: Census) -> Census:
        return Census(self.documents + other.documents, self.eos + other.eos, self.misplaced + other.misplaced)


def census(ids: np.ndarray, ends: np.ndarray, eos_id: int) -> Census:
    """Count the EOS of a stream, and compare their places with the ends of its documents.

    Parameters
    ----------
    ids : (n,) integers
    ends : (d,) integers
        Place behind the last id of each document that ends in the stream.
    eos_id : int

    Examples
    --------
    >>> census(np.array([7, 8, 1, 9, 1, 5]), np.array([3, 5]), 1)
    Census(documents=2, eos=2, misplaced=0)
    >>> census(np.array([7, 1, 1, 9, 4]), np.array([3, 5]), 1)
    Census(documents=2, eos=2, misplaced=2)
    """
    found = np.flatnonzero(ids == eos_id)
    wrong = len(np.setxor1d(found, np.asarray(ends, np.int64) - 1, assume_unique=True))
    return Census(len(ends), len(found), wrong)
