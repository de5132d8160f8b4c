r"""Which language a text is in: shares by characters, "und" where unsure, "zxx" where there is none.

text ──▶ segments: pieces of one script, 32 bytes of letters at least, 400 at most; addresses and tags left out
           │  code and numbers: zxx
           │  a sample, a place at random in each stride (`budget`); more where it is not one language
           ▼
         scores by the tables of py3langid, only for languages written in that script
           │
           ├── the segments of a script together ──▶ its main language
           └── each alone ──▶ its own language where that is sure, or its family is; otherwise the main one

Hello again! 駅まで歩こう Take it slow 雨が止んだら   ──▶  en 0.6, ja 0.4: mixed
(박수) JK : 오늘은 조금 늦었네요 .                      ──▶  ko
d2h5IGRvIHlvdSByZWFkIHRoaXM/IHRoZXJl            ──▶  zxx
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
import shutil
import tempfile
import threading
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from prep_lib.errors import BadParameter, unknown
from prep_lib.jit import cache_folder, kernel
from prep_lib.record import Document, Drop
from prep_lib.seeds import stream

#: No language is sure enough; no language is there at all (both ISO 639-2).
UNSURE, NONE = "und", "zxx"

#: Script: the languages of the model written in it. "any" is every language, as the library itself decides. Where one
#: language stands alone the script is the evidence and the model is not asked. Tibetan is left out of the model's
#: hands: it knows only Dzongkha, and most of what is written in that script is not. So are Wu and Cantonese, which are
#: called Chinese: the model takes 2.5 % of Tang and Song poems for them.
SCRIPTS: dict[str, str] = {
    "any": "", "latin": "", "greek": "el grc zxx", "cyrillic": "be bg crh kk ky mk mn ru sr tg tt ba uk uz zxx",
    "armenian": "hy", "hebrew": "he hbo zxx", "arabic": "ar ary arz fa ps sdh ug ur uzs zxx",
    "devanagari": "hi mr ne sa gom zxx", "bengali": "bn as zxx", "gurmukhi": "pa", "gujarati": "gu", "oriya": "or",
    "tamil": "ta", "telugu": "te", "kannada": "kn", "malayalam": "ml", "sinhala": "si", "thai": "th", "lao": "lo",
    "tibetan": "und", "myanmar": "my", "georgian": "ka", "hangul": "ko", "ethiopic": "am", "khmer": "km",
    "han": "zh ja zxx", "kana": "ja", "other": "und",
    "code": "zxx",
}  # fmt: skip
#: Written in Latin letters besides another script; every other language of a row above is not.
_LATIN_TOO = frozenset({"crh", "sr", "uz", "zxx"})
#: In the model, and never named by `identify`.
_NEVER = frozenset({"dz", "wuu", "yue"})

_NAMES = list(SCRIPTS)
_LATIN, _HAN, _KANA, _CODE = (_NAMES.index(name) for name in ("latin", "han", "kana", "code"))
#: In the place of a script: a letter that is only styled.
_STYLE = 31
#: Where the model decides, in the order its tables stand in.
_BLOCKS = ["latin", *(name for name in _NAMES[2:] if " " in SCRIPTS[name]), "any"]

#: First and last code point of what letters of a script have, in the basic plane.
RANGES: tuple[tuple[int, int, str], ...] = (
    (0x41, 0x5A, "latin"), (0x61, 0x7A, "latin"), (0xAA, 0x2AF, "latin"), (0x370, 0x3FF, "greek"),
    (0x400, 0x52F, "cyrillic"), (0x531, 0x58A, "armenian"), (0x5D0, 0x5F2, "hebrew"), (0x620, 0x64A, "arabic"),
    (0x66E, 0x6D3, "arabic"), (0x6D5, 0x6FF, "arabic"), (0x700, 0x74F, "other"), (0x750, 0x77F, "arabic"),
    (0x780, 0x8FF, "other"), (0x900, 0x97F, "devanagari"), (0x980, 0x9FF, "bengali"), (0xA00, 0xA7F, "gurmukhi"),
    (0xA80, 0xAFF, "gujarati"), (0xB00, 0xB7F, "oriya"), (0xB80, 0xBFF, "tamil"), (0xC00, 0xC7F, "telugu"),
    (0xC80, 0xCFF, "kannada"), (0xD00, 0xD7F, "malayalam"), (0xD80, 0xDFF, "sinhala"), (0xE00, 0xE7F, "thai"),
    (0xE80, 0xEFF, "lao"), (0xF00, 0xFFF, "tibetan"), (0x1000, 0x109F, "myanmar"), (0x10A0, 0x10FF, "georgian"),
    (0x1100, 0x11FF, "hangul"), (0x1200, 0x139F, "ethiopic"), (0x13A0, 0x177F, "other"), (0x1780, 0x17FF, "khmer"),
    (0x1800, 0x1CFF, "other"), (0x1E00, 0x1EFF, "latin"), (0x1F00, 0x1FFF, "greek"), (0x2C00, 0x2DDF, "other"),
    (0x3041, 0x30FF, "kana"), (0x3105, 0x312F, "han"), (0x3131, 0x318E, "hangul"), (0x31F0, 0x31FF, "kana"),
    (0x3400, 0x4DBF, "han"), (0x4E00, 0x9FFF, "han"), (0xA000, 0xA4CF, "other"), (0xAC00, 0xD7A3, "hangul"),
    (0xF900, 0xFAFF, "han"), (0xFB50, 0xFDFF, "arabic"), (0xFE70, 0xFEFC, "arabic"), (0xFF66, 0xFF9F, "kana"),
)  # fmt: skip

#: Bytes of letters a segment has before a line end closes it: shorter lines are read together with their neighbours.
#: Of sentences cut to 32 bytes the model gets 92 % right, to 16 bytes 80 %, to 64 bytes 96 %.
FLOOR = 32
#: Bytes from which a blank closes a segment, and from which anything does.
LONG, LONGEST = 400, 480
#: Bytes of letters in another script that begin a segment of their own: "La la la" goes with what stands before it.
RUN = 8
#: Bytes of a segment that are read where the whole text is not.
GLANCE = 160
#: What a segment needs to keep a language of its own: this probability, and so many times that of the main language.
#: Of pieces of sentences that sure 99.9 % are right; of the Declaration of Human Rights in 77 languages 0.9 % of the
#: characters are in another language paragraph by paragraph, and 0.002 % when each segment is held against the rest.
SURE, ODDS = 0.9, 50.0
#: Languages so near to each other that the model wavers between them: sure of a row, it is sure of no other language.
KIN = ("no nb nn da sv", "bs hr sr", "id ms", "cs sk", "gl pt", "xh zu")
#: How much more is read where the first sample is not all one language.
AGAIN = 8
#: Bytes of Chinese letters and kana on each side that tell whether Chinese letters are Japanese, and how many Chinese
#: ones at a stretch never are: a title or an address, no sentence.
AROUND, PROSE = 1500, 75
#: Share of kana among Chinese characters and kana from which a segment is Japanese: a Chinese one may hold a の.
KANA = 0.1
#: What programs are written in beside letters and digits, and how much of it for each letter makes a segment code: at
#: 0.09 a Chinese textbook full of programs is Chinese in 112 of 122 chapters, at 0.12 in 81; prose is not touched (0 of
#: 500 reviews, 8 plays, 30 articles).
SYMBOLS, CODE = "({}[];=<>_+*/\\|&#$@^~`", 0.09
#: Digits for each byte of letters from which a segment is a table of numbers, whatever heads it and its rows.
FIGURES = 0.5
#: Share of characters in languages from which a text has one, whatever code and tables it holds.
SPOKEN = 0.1
#: Below this share of the characters in languages the main language does not make a document pure.
PURE = 0.8
#: Below this score the language is "und": 1 % of sentences, 18 % of pairs of words, 46 % of single words. Of the rest
#: 96.8, 89.0 and 85.6 % are right; a limit of 0.5 would give 97.6, 95 and 95 %, and lose 3, 35 and 63 %.
MIN_SCORE = 0.3
#: Languages the model falls back on for what is none (makefiles, programs, wrongly decoded text), and how many times
#: the least score they need.
CATCHALLS, WARY = ("ext", "gcf", "pcm", "vo"), 3

#: What is no language though it is made of letters.
_ADDRESS = re.compile(rb"://[^\x00-\x20\"<>\x7f-\xff]+")
#: Full-width Latin letters and digits, and the mathematical alphabets.
_STYLED = re.compile(rb"\xef(?:\xbc[\x90-\x99\xa1-\xba]|\xbd[\x81-\x9a])|\xf0\x9d[\x90-\x9f][\x80-\xbf]")
_TAG = re.compile(rb"<[A-Za-z/!][^<>\n]{0,300}>")


class Line(NamedTuple):
    """A segment: where it stands in the text in NFC, characters, half open; its language and how sure that is."""

    start: int
    stop: int
    code: str
    score: float


@dataclass(frozen=True)
class Identified:
    """What `identify` found.

    Parameters
    ----------
    code : str
        The language with most characters, each counted by how sure it is, as the model names it (mostly ISO 639-1);
        "und" or "zxx" where less than `SPOKEN` of the text is in a language.
    score : float, 0 to 1
        Its share of the characters that are not "zxx", each counted by how sure it is.
    guess : str
        What `code` would be without a least score.
    shares : dict of str to float
        Share of the characters by language, largest first, "und" and "zxx" among them.
    mixed : bool
        The largest language has less than `PURE` of the characters that are in a language.
    touching : int
        Places where Latin, Greek and Cyrillic letters touch inside a word: letters that only look right.
    lines : tuple of Line
        Empty unless asked for.
    """

    code: str
    score: float
    guess: str
    shares: dict[str, float]
    mixed: bool
    touching: int = 0
    lines: tuple[Line, ...] = ()


NOTHING = Identified(UNSURE, 0.0, UNSURE, {}, False)


def identify(text: str, *, budget: int | None = None, min_score: float = MIN_SCORE, lines: bool = False) -> Identified:
    """Tell the language of a text and of its parts.

    Parameters
    ----------
    text : str
    budget : int or None, bytes
        How much the model reads, in segments all over the text; `AGAIN` times as much where those are not all in one
        language. Scripts are counted everywhere; the shares of the languages of one script are those of what was read.
        None: all of it.
    min_score : float, 0 to 1
    lines : bool
        Tell each segment too. A segment that was not read has the main language of its script. Where a segment is
        surely in none of the relatives of that and no other is sure either, it is "und".

    Examples
    --------
    >>> identify("The cat sat on the mat and looked at the dog.").code
    'en'
    >>> identify("(박수) JK : 오늘은 조금 늦었네요 .").code, identify("12345").code, identify("").code
    ('ko', 'und', 'und')
    """
    found, clean, told = _segments([_encoded(text)])
    answers, pairs, work = _read(found, clean, told, budget, min_score)
    (answer,) = _answered(answers, pairs, told)
    return replace(answer, lines=_lines(found, work.labels, work.sure, min_score)) if lines and text else answer


def _encoded(text: str) -> bytes:
    if not text.isascii() and not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    return text.encode("utf-8", "surrogatepass")


@dataclass(frozen=True, kw_only=True)
class Language:
    """Write the language of a document into its meta, and drop what is not wanted; a map stage.

    Writes ``language``, ``language_score``, ``languages`` (shares of at least 0.001) and ``mixed``.

    Parameters
    ----------
    keep : tuple of str or None
        Languages to keep. Nothing is forced into one of them: all languages are looked for. None: keep every document.
    min_score : float, 0 to 1
        Below it a document is "und".
    mixed : bool
        False: drop documents of several languages.
    budget : int or None, bytes
        As for `identify`. 2,048 bytes give the same language and the same `mixed` as the whole for all of
        7,112 documents of twelve sources, and the same `mixed` for 1,500 texts that are two translations of one
        declaration. With half of that, one text in a hundred whose languages take turns would look pure.

    Drops
    -----
    language:de : it is German, which is not in `keep`; so for every language.
    language:und : no language is sure enough; the value is the score of the document, the limit what its best guess
        needed (`min_score`, for `CATCHALLS` more).
    mixed_language : several languages, and `mixed` is False; the value is the share of the largest in
        what is in a language.

    Raises
    ------
    BadParameter
        If a language is none of the model's, or a number lies outside its range.

    Source
    ------
    py3langid 0.4 (model and decision of one text); the rest is ours.

    Examples
    --------
    >>> Language().map(Document("1", "这是一个关于语言的句子。")).meta["language"]
    'zh'
    >>> Language(keep=("en", "zh")).map(Document("2", "Dies ist ein Satz in deutscher Sprache.")).reason
    'language:de'
    """

    name: ClassVar[str] = "language"
    counted: ClassVar[tuple[str, ...]] = ("language", "mixed")
    #: Libraries whose answers are written.
    packages: ClassVar[tuple[str, ...]] = ("py3langid",)

    keep: tuple[str, ...] | None = None
    min_score: float = MIN_SCORE
    mixed: bool = True
    budget: int | None = 2048

    def __post_init__(self) -> None:
        if not _number(self.min_score) or not 0 <= self.min_score <= 1:
            raise BadParameter(
                f"text/language: min_score must be a number in 0 to 1, got {self.min_score!r}; {MIN_SCORE} is usual"
            )
        if self.budget is not None and not (_number(self.budget) and self.budget >= LONGEST):
            raise BadParameter(
                f"text/language: budget must be at least {LONGEST} bytes (one segment), got {self.budget!r}; "
                "use None to read everything"
            )
        if not (self.keep is None or (isinstance(self.keep, tuple) and self.keep)):
            use = f"({self.keep!r},)" if isinstance(self.keep, str) else "None to keep every language"
            raise BadParameter(f"text/language: keep must be a tuple of codes, got {self.keep!r}; use {use}")
        for code in self.keep or ():
            if code not in (known := {UNSURE, *languages()}):
                raise unknown("text/language", "language", str(code), known)

    def map(self, doc: Document) -> Document | Drop:
        """Return the document with its language, or why it goes."""
        return self._settle(doc, self.identify(doc))

    def map_many(self, docs: Sequence[Document]) -> list[Document | Drop]:
        """Return what `map` does of each document, in a fraction of the time where they are short."""
        texts = [doc.utf8 if doc.text.isascii() else _encoded(doc.text) for doc in docs]
        found = _identified(texts, self.budget, self.min_score)
        return [self._settle(doc, one) for doc, one in zip(docs, found, strict=True)]

    def _settle(self, doc: Document, found: Identified) -> Document | Drop:
        if self.keep is not None and found.code not in self.keep:
            # Only "und" is a matter of the score: a sure language is dropped for what it is.
            limit = float(_limits(self.min_score)[_place(found.guess)])
            return Drop(f"language:{found.code}", *((round(found.score, 4), limit) if found.code == UNSURE else ()))
        if found.mixed and not self.mixed:
            return Drop("mixed_language", round(_purity(found.shares), 4), PURE)
        told = {
            "language": found.code,
            "language_score": round(found.score, 4),
            "languages": {code: round(share, 4) for code, share in found.shares.items() if share >= 0.001},
            "mixed": found.mixed,
        }
        # What `replace` does, at a fifth of its price, and the encoded text goes along.
        made = object.__new__(type(doc))
        made.__dict__.update(doc.__dict__, meta={**doc.meta, **told})
        return made

    def identify(self, doc: Document) -> Identified:
        """Return what the stage sees in a document."""
        return _identified([doc.utf8 if doc.text.isascii() else _encoded(doc.text)], self.budget, self.min_score)[0]


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# ── the model ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Model(NamedTuple):
    """The tables of py3langid, laid out for the kernels; C classes, S states, F features, 29 scripts.

    Parameters
    ----------
    labels : tuple of str
        One a class; two classes of one language, one a script, have the same.
    step : uint32 (rows * 256,)
        The automaton, by row and byte: the next row times `RADIX`, and 1 + the feature seen on the way, or 0.
    weights : int16 (n,)
        Logarithms of the probability of a feature in a class, times `scale`: rows of `WIDE` for the classes written
        in Latin letters, behind them rows for each other script that needs the model, and for all classes.
    prior : float32 (C,)
    scale : float
        Largest power of two that fits: the library's half precision is kept to the last bit.
    base, stride, width : int64 (29,)
        Where a script's rows begin, how far apart they are, and how many classes they have; 0: no model.
    columns, fold : int64 (29, C)
        The class of a column, and the column its probability is added to.
    kin : int64 (C + 1,)
        One number for all languages of a row of `KIN`, another for every other language.
    logs : float32 (512,)
        ``log(1 + n)``: what n times the same feature weigh.
    features : int
        How many there are.
    """

    labels: tuple[str, ...]
    step: np.ndarray
    weights: np.ndarray
    prior: np.ndarray
    scale: float
    base: np.ndarray
    stride: np.ndarray
    width: np.ndarray
    columns: np.ndarray
    fold: np.ndarray
    kin: np.ndarray
    logs: np.ndarray
    features: int


@cache
def model() -> Model:
    """Return the model, from the cache where it was laid out before.

    Unpacking and laying out took 3.7 s on a busy machine, mapping the copy 0.03 s; all workers share its pages.
    """
    found = importlib.util.find_spec("py3langid")
    assert found is not None
    assert found.origin is not None
    packed = Path(found.origin).parent / "data" / "model.npz.xz"
    state = packed.stat()
    layout = zlib.crc32(repr((_FILES, SCRIPTS, sorted(_NEVER | _LATIN_TOO))).encode())
    folder = cache_folder().parent / f"language-{layout:08x}-{state.st_size}-{state.st_mtime_ns}"
    return _model(_arrays(folder, packed))


def _arrays(folder: Path, packed: Path) -> dict[str, np.ndarray]:
    try:
        return _mapped(folder)
    except (OSError, ValueError):
        arrays = _laid_out(packed)
        _keep(folder, arrays)
        return arrays


_FILES = ("labels", "step", "weights", "prior", "scale", "features")

#: More than there are features, and so little that the number of a row fits into 32 bits with one of them.
RADIX = 110_000
#: Columns of a row for Latin letters: three lines of the processor's cache, and whole vectors.
WIDE = 96


def _mapped(folder: Path) -> dict[str, np.ndarray]:
    return {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _FILES}


def _keep(folder: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays whole or not at all; without a place to write every process lays them out anew."""
    try:
        made = Path(tempfile.mkdtemp(dir=folder.parent))
        try:
            for name, values in arrays.items():
                np.save(made / f"{name}.npy", values)
            shutil.rmtree(folder, ignore_errors=True)  # there only if it is harmed
            os.rename(made, folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    except OSError:
        pass


def _laid_out(packed: Path) -> dict[str, np.ndarray]:
    from py3langid.langid import LanguageIdentifier

    read = LanguageIdentifier.from_modelpath(packed, norm_probs=True)
    logs = np.asarray(read.nb_ptc, np.float32)
    scale = 2.0 ** math.floor(math.log2(32767 / np.abs(logs).max()))
    whole = np.rint(logs * scale).astype(np.int16)
    labels = list(read.nb_classes)
    parts = [whole[:, _columns(name, labels)] for name in _BLOCKS]
    parts[0] = np.pad(parts[0], ((0, 0), (0, WIDE - parts[0].shape[1])))
    row, seen = np.array(read.tk_row, np.int64), np.array(read.tk_output, np.int64)
    step = np.array(read.tk_nextmove, np.int64).reshape(-1, 256)
    assert len(whole) < RADIX
    assert len(step) < 2**32 // RADIX
    # Every text begins in the first row.
    step = np.concatenate([step[row[0] :], step[: row[0]]])
    row = (row - row[0]) % len(step)
    return {
        "labels": np.array(labels), "step": (row * RADIX + seen + 1)[step].astype(np.uint32).ravel(),
        "weights": np.concatenate([part.ravel() for part in parts]),
        "prior": np.array(read.nb_pc, np.float32), "scale": np.array(scale), "features": np.array(len(whole)),
    }  # fmt: skip


def languages() -> list[str]:
    """Return every language `identify` may name, sorted; "zxx" among them, "und" not."""
    known = model()
    named = {known.labels[at] for columns in known.columns[1:] for at in columns if at < len(known.labels)}
    return sorted(named)


def _columns(name: str, labels: Sequence[str]) -> list[int]:
    """Return the classes of a script in order; of "any" those of Latin letters first."""
    if name not in ("any", "latin"):
        return [at for at, label in enumerate(labels) if label in SCRIPTS[name].split()]
    elsewhere = {code for codes in SCRIPTS.values() for code in codes.split()} - _LATIN_TOO | _NEVER
    latin = [at for at, label in enumerate(labels) if label not in elsewhere]
    return latin if name == "latin" else [*latin, *(at for at, label in enumerate(labels) if label in elsewhere)]


def _model(arrays: dict[str, np.ndarray]) -> Model:
    labels, features = tuple(map(str, arrays["labels"])), int(arrays["features"])
    size = len(labels)
    base, stride, width = (np.zeros(len(_NAMES), np.int64) for _ in range(3))
    columns, fold = np.full((len(_NAMES), size), size), np.zeros((len(_NAMES), size), np.int64)
    for at, name in enumerate(_NAMES):
        group = _columns(name, labels)
        columns[at, : len(group)] = group
        fold[at, : len(group)] = [_first(group, labels, column) for column in range(len(group))]
        width[at] = len(group) if name in _BLOCKS else 0
    behind = 0
    for name in _BLOCKS:
        at = _NAMES.index(name)
        base[at], stride[at] = behind, WIDE if at == _LATIN else width[at]
        behind += features * int(stride[at])
    logs = np.log1p(np.arange(512)).astype(np.float32)
    step, weights, prior = (np.asarray(arrays[name]) for name in ("step", "weights", "prior"))
    for values in (step, weights, prior):
        values.flags.writeable = False  # a mapped file is: the kernels compile for one kind of array
    scale = float(arrays["scale"])
    return Model(labels, step, weights, prior, scale, base, stride, width, columns, fold, _kin(labels), logs, features)


def _kin(labels: Sequence[str]) -> np.ndarray:
    near = {code: row.split()[0] for row in KIN for code in row.split()}
    names = [near.get(label, label) for label in (*labels, UNSURE)]
    return np.array([names.index(name) for name in names], np.int64)


def _first(group: Sequence[int], labels: Sequence[str], column: int) -> int:
    same = [at for at, place in enumerate(group) if labels[place] == labels[group[column]]]
    return min(same, key=lambda at: group[at])


@cache
def _kinds() -> np.ndarray:
    """Return what code points of the basic plane are.

    Returns
    -------
    (65536,) uint8
        The script of a letter, + 32: a capital (no letter: a symbol of programs), + 64: a small letter, + 128: kana;
        `_STYLE`: a full-width letter or digit.
    """
    kinds = np.zeros(65536, np.uint8)
    kinds[[ord(symbol) for symbol in SYMBOLS]] = 32
    for first, last, name in RANGES:
        script = _HAN if name == "kana" else _NAMES.index(name)
        kinds[first : last + 1] = script + (128 if name == "kana" else 0)
        if last - first < 0x400:
            for point in range(first, last + 1):
                letter = chr(point)
                kinds[point] = (kinds[point] + 32 * letter.isupper() + 64 * letter.islower()) * letter.isalpha()
    for styled in ("０９", "ＡＺ", "ａｚ"):
        kinds[ord(styled[0]) : ord(styled[1]) + 1] = _STYLE
    return kinds


class _Scratch(threading.local):
    """What the kernels write between one text and the next."""

    #: Bytes up to which an array is kept for the next text: fresh memory costs more than what is written into it.
    KEPT = 2**23
    #: Segments that are walked at a time.
    LANES = 8

    def __init__(self) -> None:
        self.tallies = np.zeros((3, 7), np.int64)
        self._held: dict[str, np.ndarray] = {}
        self._slots(1024)

    def _slots(self, slots: int) -> None:
        self.keys, self.counts, self.seen = (
            np.full(slots, -1, np.int64),
            np.zeros(slots, np.int64),
            np.empty(slots, np.int64),
        )

    def array(self, name: str, dtype: type, rows: int, columns: int = 1) -> np.ndarray:
        """Return an array to fill, (rows,) or (rows, columns): whatever the last text left is in it.

        It is the one to hand on: who asks for it again may get another, because a large one is not kept.
        """
        size, held = rows * columns, self._held.get(name)
        if held is None or len(held) < size:
            held = np.empty(max(size, 4096), dtype)
            if held.nbytes <= self.KEPT:
                self._held[name] = held
        return held[:size] if columns == 1 else held[:size].reshape(rows, columns)

    def work(self, found: np.ndarray, clean: np.ndarray, told: np.ndarray) -> Work:
        """Return arrays for texts that were cut."""
        known, count, size = model(), len(found), len(model().labels)
        longest = int(np.max(found[:, _CLEAN_STOP] - found[:, _CLEAN], initial=0))
        if 2 * longest > len(self.keys):
            self._slots(2 << longest.bit_length())
        scripts = len(known.width)
        rows = int(np.max(told[:, _TO] - told[:, _FROM], initial=0)) + scripts
        return Work(
            self.array("features", np.int32, len(clean)), self.array("chosen", np.bool_, count),
            self.array("stops", np.int64, count), self.array("scores", np.float32, rows, size),
            self.array("length", np.int64, rows), self.array("best", np.int64, rows),
            self.array("certain", np.float64, count), self.array("near", np.bool_, count),
            self.array("labels", np.int64, count), self.array("sure", np.float64, count),
            self.array("lanes", np.int64, 3, self.LANES), self.array("met", np.bool_, scripts),
            self.keys, self.counts, self.seen, self.array("some", np.int64, size),
            self.array("of_script", np.float64, 2, scripts), self.array("pool", np.float64, size),
            self.array("shares", np.float64, size + 1, 4),
        )  # fmt: skip


@cache
def _places() -> np.ndarray:
    """Return where in a stride a sample is taken, 0 to 1: the same numbers for every text."""
    return stream(0, "language").random(4096)


@cache
def _scratch() -> _Scratch:
    return _Scratch()


# ── the kernels ──────────────────────────────────────────────────────────────────────────────────────────────────────

#: Columns of a segment: where it stands in the text and in the clean copy, bytes; its script; bytes of letters in it;
#: characters; then how many of them are kana, capitals, small letters, letters touching one of another script, symbols,
#: digits.
_START, _STOP, _CLEAN, _CLEAN_STOP, _SCRIPT, _LETTERS, _CHARS = range(7)
_KANAS, _CAPITALS, _SMALL, _TOUCHING, _SYMBOLS, _DIGITS = range(7, 13)
_COLUMNS = 13


@kernel
def cut(
    data: np.ndarray, kinds: np.ndarray, clean: np.ndarray, found: np.ndarray, tallies: np.ndarray
) -> tuple[int, int, int]:
    """Cut UTF-8 into segments, and copy it with every run of blanks as one blank.

    Returns how many segments there are, how many of them are all in capitals, and how many letters touch one of another
    script; (-1, 0, 0) at the first letter that is only styled, wide or bold: `_plain` has to come first.

    A run of letters in another script is held back until it is long enough to be a segment of its own. `tallies`,
    (3, 7) int64, is scratch.
    """
    size, at, written, count, capitals = data.size, 0, 0, 0, 0
    script, letters, other, before = 0, 0, 0, 0
    run, run_letters, run_start, run_clean = 0, 0, 0, 0
    start, clean_start = 0, 0
    tallies[:] = 0
    total, begun, held = tallies[0], tallies[1], tallies[2]
    while at < size:
        byte, blank, at_run, first = int(data[at]), False, False, at
        if byte < 0x80 and script <= _LATIN and written - clean_start < LONG:
            # Most of most texts: plain characters where Latin letters are expected, to the end of a line; no branches.
            end = min(size, at + LONG - (written - clean_start))
            gap = written == clean_start or clean[written - 1] == 32
            last, mine, some, small, symbols, digits = int(data[at - 1]) if at else byte, 0, 0, 0, 0, 0
            total[4] += (kinds[byte] & 1) and 1 < before <= 3
            while at < end:
                byte = int(data[at])
                if byte >= 0x80:
                    break
                kind = int(kinds[byte])
                mine, blank = kind & 1, byte == 32 or 9 <= byte <= 13
                some, small = some + mine, small + (kind >> 6)
                # A line of dashes is one symbol; a bracket behind a blank (as here) is prose.
                symbols += (kind == 32) & (last != byte) & ((byte != 40) | (last > 32))
                digits += (byte >= 48) & (byte <= 57)
                clean[written] = 32 if blank else byte
                written += 1 - (blank & gap)
                gap, last, at = blank, byte, at + 1
                if byte == 10:
                    break
            byte, before = last, mine
            total[0] += at - first
            total[2] += some - small
            total[3] += small
            total[5] += symbols
            total[6] += digits
            if some:
                script, letters, run_letters = _LATIN, letters + some, 0
        while at < size and script > 3 and 0xE0 <= data[at] < 0xF0 and written - clean_start < LONGEST:
            # Characters of three bytes, in the script they are expected in or in none.
            kind = kinds[(int(data[at]) & 15) << 12 | (int(data[at + 1]) & 63) << 6 | int(data[at + 2]) & 63]
            if kind & 31 and kind & 31 != script:
                break  # _STYLE too
            before = int(kind & 31)
            if before:
                letters, run_letters = letters + 3, 0
            total[0] += 1
            total[1] += kind >> 7
            clean[written], clean[written + 1], clean[written + 2] = data[at], data[at + 1], data[at + 2]
            at, written, byte = at + 3, written + 3, 0
        if at == first:
            width, kind = 1, 0
            if byte < 0x80:
                kind = kinds[byte]
            elif byte < 0xE0:
                width, kind = 2, kinds[(byte & 31) << 6 | int(data[at + 1]) & 63]
            elif byte < 0xF0:
                width, kind = 3, kinds[(byte & 15) << 12 | (int(data[at + 1]) & 63) << 6 | int(data[at + 2]) & 63]
            else:
                width, kind = 4, _HAN if byte == 0xF0 and 0xA0 <= data[at + 1] < 0xB4 else 0
                if byte == 0xF0 and data[at + 1] == 0x9D and 0x90 <= data[at + 2] <= 0x9F:
                    kind = _STYLE
            if kind == _STYLE:
                return -1, 0, 0
            mine = int(kind & 31)
            if mine:
                script = mine if script == 0 else script
                if mine == script:
                    letters, run_letters = letters + width, 0
                else:
                    if run_letters == 0 or mine != run:
                        run, run_letters, run_start, run_clean = mine, 0, at, written
                        held[:] = total
                    run_letters += width
                    other += width
                    at_run = run_letters >= RUN and letters >= RUN
                    if run_letters >= RUN and not at_run:
                        script, letters, other, run_letters = run, run_letters, letters, 0
                total[1] += kind >> 7
                total[2] += kind >> 5 & 1
                total[3] += kind >> 6 & 1
                total[4] += before != mine and 0 < before <= 3 and mine <= 3
            else:
                total[5] += kind >> 5 and at > 0 and data[at - 1] != byte and (byte != 40 or data[at - 1] > 32)
                total[6] += 48 <= byte <= 57
            before = mine
            total[0] += 1
            blank = byte == 32 or 9 <= byte <= 13
            if not blank:
                for _ in range(width):
                    clean[written] = data[at]
                    at, written = at + 1, written + 1
            else:
                at += 1
                if written > clean_start and clean[written - 1] != 32:
                    clean[written] = 32
                    written += 1
            # No word is cut, nor from the blank behind it.
            end = min(size, at + LONG) if script == _LATIN and mine and byte < 0x80 else at
            while at < end and (data[at] == 32 or (data[at] < 0x80 and kinds[data[at]] & 1)):
                kind, blank = kinds[data[at]], data[at] == 32
                before = int(kind & 1)
                letters += before
                total[0] += 1
                total[2] += kind >> 5 & 1
                total[3] += kind >> 6
                clean[written] = data[at]
                at, written = at + 1, written + 1
                if blank:
                    break
        length = written - clean_start
        here = at == size or (letters >= FLOOR and (byte == 10 or (blank and length >= LONG))) or length >= LONGEST
        while at_run or here:
            stop, clean_stop = (run_start, run_clean) if at_run else (at, written)
            if at_run:
                other -= run_letters
            else:
                held[:] = total
            line = found[count]
            line[_START], line[_STOP], line[_CLEAN], line[_CLEAN_STOP] = start, stop, clean_start, clean_stop
            line[_SCRIPT], line[_LETTERS] = run if other > letters else script, max(letters, other)
            for column in range(7):
                line[_CHARS + column] = held[column] - begun[column]
            if line[_SCRIPT] == _HAN and line[_KANAS] * 3 >= KANA * line[_LETTERS]:
                line[_SCRIPT] = _KANA
            if line[_SCRIPT] == _LATIN and line[_SYMBOLS] / CODE + line[_DIGITS] / FIGURES >= line[_LETTERS]:
                line[_SCRIPT] = _CODE
            if line[_DIGITS] >= line[_LETTERS]:
                line[_SCRIPT] = 0
            capitals += line[_CAPITALS] > 1 and line[_SMALL] == 0
            count += 1
            start, clean_start = stop, clean_stop
            begun[:] = held
            script, letters = (run, run_letters) if at_run else (0, 0)
            other, run_letters = 0, 0
            here, at_run = at_run and at == size, False
    return count, capitals, total[4]


@kernel
def choose(
    found: np.ndarray, width: np.ndarray, budget: int, places: np.ndarray, met: np.ndarray, chosen: np.ndarray
) -> int:
    """Choose the segments the model reads, in proportion all along the text; return how many bytes they have.

    They have `budget` bytes and a segment or two, but for the first segment of each script, which is always read. The
    text is cut into strides, with a place at random in each: every k-th segment of a text whose languages take turns
    would be one language. Where not all is read, `found` loses all but `GLANCE` bytes of a segment: more places.
    """
    whole, short, segments, passed, taken, strides = 0, 0, 0, 0, 0, 0
    met[:] = False
    for at in range(len(found)):
        if found[at, _SCRIPT] and width[found[at, _SCRIPT]]:
            length = found[at, _CLEAN_STOP] - found[at, _CLEAN]
            whole, short, segments = whole + length, short + min(length, GLANCE), segments + 1
    part = whole > budget
    stride, aim = float(short) * short / (max(1, segments) * max(1, budget)), 0.0
    for at in range(len(found)):
        script, length = found[at, _SCRIPT], found[at, _CLEAN_STOP] - found[at, _CLEAN]
        chosen[at] = script > 0 and width[script] > 0
        if not (chosen[at] and part):
            taken += length * chosen[at]
            continue
        length = min(length, GLANCE)
        passed += length
        chosen[at] = passed > aim or not met[script]
        met[script] = True
        while passed > aim:
            strides += 1
            aim = stride * (strides + places[strides % len(places)])
        if chosen[at]:
            found[at, _CLEAN_STOP] = found[at, _CLEAN] + length
            taken += length
    return taken


@kernel
def walk(
    step: np.ndarray,
    text: np.ndarray,
    found: np.ndarray,
    chosen: np.ndarray,
    features: np.ndarray,
    lines: np.ndarray,
) -> None:
    """Write the feature, or -1, that the automaton sees at every byte of the chosen segments.

    Several are walked at a time: each step waits for the memory, so the others cost next to nothing.
    """
    lanes, coming = 0, 0
    at, stop, row = lines[0], lines[1], lines[2]
    while True:
        lane = 0
        while lane < len(at):
            if lane < lanes and at[lane] < stop[lane]:
                lane += 1
                continue
            while coming < len(found) and not chosen[coming]:
                coming += 1
            if coming < len(found):
                at[lane], stop[lane], row[lane] = found[coming, _CLEAN], found[coming, _CLEAN_STOP], 0
                lanes, coming = max(lanes, lane + 1), coming + 1
            elif lane < lanes:
                lanes -= 1
                at[lane], stop[lane], row[lane] = at[lanes], stop[lanes], row[lanes]
            else:
                break
        if lanes == 0:
            return
        steps = stop[0] - at[0]
        for lane in range(1, lanes):
            steps = min(steps, stop[lane] - at[lane])
        for _ in range(steps):
            for lane in range(lanes):
                place = at[lane]
                entry = np.int64(step[row[lane] << 8 | text[place]])
                row[lane] = entry // RADIX
                features[place], at[lane] = entry - row[lane] * RADIX - 1, place + 1


@kernel
def weigh(
    features: np.ndarray,
    found: np.ndarray,
    chosen: np.ndarray,
    weights: np.ndarray,
    scale: np.float32,
    prior: np.ndarray,
    base: np.ndarray,
    stride: np.ndarray,
    width: np.ndarray,
    columns: np.ndarray,
    logs: np.ndarray,
    keys: np.ndarray,
    counts: np.ndarray,
    seen: np.ndarray,
    scores: np.ndarray,
    length: np.ndarray,
) -> None:
    """Add up for every chosen segment what its features weigh in each language of its script, and the prior.

    Behind the rows of the segments stands a row a script, for all of its segments together. How often each feature is
    seen stands in `keys` (all -1 before and after) and `counts` (all 0), a table of slots, a power of two and twice the
    bytes of a segment, that is small enough to stay beside the processor.
    """
    segments, slots = len(found), len(keys)
    for at in range(segments):
        if not chosen[at]:
            continue
        script, kinds = found[at, _SCRIPT], 0
        for place in range(found[at, _CLEAN], found[at, _CLEAN_STOP]):
            # No branches, which nobody could foresee: where there is no feature (-1) nothing changes.
            feature = np.int64(features[place])
            slot = (feature ^ feature >> 6) & slots - 1
            while (keys[slot] != feature) & (keys[slot] >= 0):
                slot = slot + 1 & slots - 1
            seen[kinds] = slot
            kinds += (counts[slot] == 0) & (feature >= 0)
            keys[slot] = feature
            counts[slot] += feature >= 0
        size, line = width[script], scores[at]
        line[: stride[script]] = 0
        for place in range(kinds):
            feature, times = keys[seen[place]], counts[seen[place]]
            keys[seen[place]], counts[seen[place]] = -1, 0
            often = (logs[times] if times < len(logs) else np.float32(math.log1p(times))) * scale
            first = base[script] + feature * stride[script]
            if script == _LATIN:
                row = weights[first : first + WIDE]
                for column in range(WIDE):
                    line[column] += often * np.float32(row[column])
            else:
                row = weights[first : first + size]
                for column in range(size):
                    line[column] += often * np.float32(row[column])
        for column in range(size if kinds else 0):
            line[column] += prior[columns[script, column]]
        length[at] = max(1, found[at, _CLEAN_STOP] - found[at, _CLEAN])
        together = scores[segments + script]
        if length[segments + script] == 0:
            together[:size] = 0
        length[segments + script] += length[at]
        for column in range(size):
            together[column] += line[column]


@kernel
def spread(
    found: np.ndarray,
    length: np.ndarray,
    width: np.ndarray,
    columns: np.ndarray,
    fold: np.ndarray,
    some: np.ndarray,
    scores: np.ndarray,
    best: np.ndarray,
) -> None:
    """Turn rows of scores into probabilities and name the best column of each; of equals the first class wins."""
    segments = len(found)
    for at in range(segments + len(width)):
        if length[at] == 0:
            continue
        script = found[at, _SCRIPT] if at < segments else at - segments
        line, size, count = scores[at], width[script], 0
        heat, top, total = np.float32(1 / math.sqrt(length[at])), np.float32(-np.inf), np.float32(0)
        for column in range(size):
            top = max(top, line[column])
        for column in range(size):
            # 1e-7 and less is nothing, and most are.
            away = (line[column] - top) * heat
            line[column] = 0
            if away > -16:
                line[column] = math.exp(away)
                total += line[column]
                some[count] = column
                count += 1
        for place in range(count):
            line[some[place]] /= total
        for place in range(count):
            column, some[place] = some[place], fold[script, some[place]]
            if some[place] != column:
                line[some[place]] += line[column]
                line[column] = 0
        leading = some[0]
        for place in range(1, count):
            column = some[place]
            equal = line[column] == line[leading] and columns[script, column] < columns[script, leading]
            if line[column] > line[leading] or equal:
                leading = column
        best[at] = leading


@kernel
def strangers(
    found: np.ndarray,
    chosen: np.ndarray,
    columns: np.ndarray,
    kin: np.ndarray,
    scores: np.ndarray,
    best: np.ndarray,
    certain: np.ndarray,
    pool: np.ndarray,
) -> None:
    """Find the segments that are in no relative of their main language, though perhaps in either of two relatives.

    Writes how sure each is of the relatives its best language belongs to (`certain`, -1: it is no stranger), and adds
    up in `pool`, a place a class, what all of them together say.
    """
    segments = len(found)
    for at in range(segments):
        script, own, certain[at] = found[at, _SCRIPT], best[at], -1.0
        if not chosen[at] or found[at, _LETTERS] < FLOOR:
            continue
        main = best[segments + script]
        mine = kin[columns[script, own]]
        if mine == kin[columns[script, main]] or scores[at, own] < ODDS * scores[at, main]:
            continue
        certain[at] = 0.0
        for column in range(columns.shape[1]):
            if columns[script, column] < len(kin) and kin[columns[script, column]] == mine:
                certain[at] += scores[at, column]
        for column in range(columns.shape[1] if certain[at] >= SURE else 0):
            if columns[script, column] < len(kin) and kin[columns[script, column]] == mine:
                pool[columns[script, column]] += scores[at, column] * found[at, _CHARS]


@kernel
def japanese(found: np.ndarray, near: np.ndarray) -> None:
    """Tell for every segment whether kana make up a third of the Chinese letters and kana around it (`AROUND`)."""
    segments, first, behind, before, after = len(found), 0, 0, 0, 0
    kana, han = 0, 0
    for at in range(segments):
        script, size = found[at, _SCRIPT], found[at, _LETTERS]
        near[at] = False
        if script not in (_HAN, _KANA):
            continue
        while behind < segments and (behind <= at or after < AROUND):
            kind, letters = found[behind, _SCRIPT], found[behind, _LETTERS]
            if kind in (_HAN, _KANA):
                kana, han = kana + letters * (kind == _KANA), han + letters * (kind == _HAN)
                after += letters
            behind += 1
        after -= size
        while before > AROUND:
            kind, letters = found[first, _SCRIPT], found[first, _LETTERS]
            if kind in (_HAN, _KANA):
                kana, han = kana - letters * (kind == _KANA), han - letters * (kind == _HAN)
                before -= letters
            first += 1
        near[at] = 2 * kana >= han
        before += size


@kernel
def label(
    found: np.ndarray,
    chosen: np.ndarray,
    width: np.ndarray,
    columns: np.ndarray,
    kin: np.ndarray,
    scores: np.ndarray,
    best: np.ndarray,
    near: np.ndarray,
    certain: np.ndarray,
    pool: np.ndarray,
    least: np.ndarray,
    none: int,
    japan: int,
    of_script: np.ndarray,
    labels: np.ndarray,
    sure: np.ndarray,
    shares: np.ndarray,
) -> int:
    """Give every segment a class and how sure it is; add up `shares` by class, and return how many classes there are.

    A row of `shares`: class; characters guessed to be in it, those times how sure that is, characters labelled so.
    `of_script`, (2, S) float64, is scratch.
    """
    segments = len(found)
    of_script[:] = 0
    chars, read = of_script[0], of_script[1]
    for at in range(segments):
        script = found[at, _SCRIPT]
        chars[script] += found[at, _CHARS]
        read[script] += found[at, _CHARS] * chosen[at]
    for at in range(segments):
        script, counted = found[at, _SCRIPT], float(found[at, _CHARS])
        if script == 0:
            labels[at], sure[at] = none, 1.0
        elif width[script] == 0:
            labels[at], sure[at] = columns[script, 0], 1.0
        else:
            main, own = best[segments + script], best[at]
            labels[at], sure[at] = columns[script, main], scores[segments + script, main]
            if script == _HAN and near[at] and found[at, _LETTERS] < PROSE:
                labels[at], sure[at] = japan, 1.0
            elif certain[at] >= SURE:
                place, second = own, columns[script, own]
                for column in range(width[script]):
                    other = columns[script, column]
                    if kin[other] == kin[second] and pool[other] > pool[second]:
                        second, place = other, column
                plain = scores[at, own] >= SURE and scores[at, own] >= ODDS * scores[at, place]
                labels[at], sure[at] = columns[script, own] if plain else second, certain[at]
            elif certain[at] >= 0:
                sure[at] = scores[at, main]
            elif chosen[at] and found[at, _LETTERS] >= FLOOR and scores[at, own] >= max(SURE, ODDS * scores[at, main]):
                labels[at], sure[at] = columns[script, own], scores[at, own]
            counted *= chars[script] / read[script] if chosen[at] else 0.0
        shares[labels[at], 1] += counted
        shares[labels[at], 2] += counted * sure[at]
        shares[labels[at] if sure[at] >= least[labels[at]] else len(shares) - 1, 3] += counted
    used = 0
    for at in range(len(shares)):
        if shares[at, 1] or shares[at, 3]:
            shares[used] = shares[at]
            shares[used, 0] = at
            used += 1
    return used


# ── many texts ───────────────────────────────────────────────────────────────────────────────────────────────────────

#: What is known of a text on its way through the kernels: its first segment and the one behind its last, bytes of its
#: clean copy with what was written small, touching letters, what Python has to do first, bytes that were read.
_FROM, _TO, _SIZE, _TOUCH, _STATE, _READ = range(6)
_STYLES, _CAPS = 1, 2
#: What is found out about a text: class, score, best guess, rows of shares, whether it has a language at all.
_CLASS, _SCORE, _GUESS, _ROWS, _SPOKEN = range(5)


class Tables(NamedTuple):
    """What the kernels read, the same for all texts: of `Model`; least scores, by class; see `_places`; numbers.

    Parameters
    ----------
    least : float64 (C + 1,)
    places : float64 (4096,)
    none, japan : int
        The classes of "zxx" and "ja".
    """

    step: np.ndarray
    weights: np.ndarray
    scale: np.float32
    prior: np.ndarray
    base: np.ndarray
    stride: np.ndarray
    width: np.ndarray
    columns: np.ndarray
    fold: np.ndarray
    kin: np.ndarray
    logs: np.ndarray
    least: np.ndarray
    places: np.ndarray
    none: int
    japan: int


class Work(NamedTuple):
    """What the kernels write between one text and the next; see those that name it."""

    features: np.ndarray
    chosen: np.ndarray
    stops: np.ndarray
    scores: np.ndarray
    length: np.ndarray
    best: np.ndarray
    certain: np.ndarray
    near: np.ndarray
    labels: np.ndarray
    sure: np.ndarray
    lanes: np.ndarray
    met: np.ndarray
    keys: np.ndarray
    counts: np.ndarray
    seen: np.ndarray
    some: np.ndarray
    of_script: np.ndarray
    pool: np.ndarray
    shares: np.ndarray


@kernel
def cut_all(
    data: np.ndarray,
    ends: np.ndarray,
    kinds: np.ndarray,
    clean: np.ndarray,
    found: np.ndarray,
    tallies: np.ndarray,
    told: np.ndarray,
) -> int:
    """Cut texts that stand behind each other; return how many segments there are.

    What is all in capitals is made small. `told`, a row a text, says whether Python has to make letters plain or small
    first.
    """
    start, total = 0, 0
    for text in range(len(ends)):
        stop = ends[text]
        count, capitals, touching = cut(data[start:stop], kinds, clean[start:stop], found[total:], tallies)
        state = _STYLES if count < 0 else 0
        size, last = 0, total + max(count, 0)
        for at in range(total, last):
            size = found[at, _CLEAN_STOP]
            found[at, _CLEAN] += start
            found[at, _CLEAN_STOP] += start
        for at in range(total if capitals > 0 else last, last):
            if found[at, _CAPITALS] > 1 and found[at, _SMALL] == 0:
                for place in range(found[at, _CLEAN], found[at, _CLEAN_STOP]):
                    if clean[place] >= 0x80:
                        state = _CAPS
        for at in range(total if capitals > 0 and state == 0 else last, last):
            if found[at, _CAPITALS] > 1 and found[at, _SMALL] == 0:
                size += found[at, _CLEAN_STOP] - found[at, _CLEAN]
                for place in range(found[at, _CLEAN], found[at, _CLEAN_STOP]):
                    clean[place] += 32 * (65 <= clean[place] <= 90)
        told[text, _FROM], told[text, _TO], told[text, _SIZE] = total, last, size
        told[text, _TOUCH], told[text, _STATE], told[text, _READ] = touching, state, 0
        start, total = stop, last
    return total


@kernel
def read_all(
    clean: np.ndarray,
    found: np.ndarray,
    told: np.ndarray,
    budget: int,
    tables: Tables,
    work: Work,
    answers: np.ndarray,
    pairs: np.ndarray,
) -> int:
    """Tell the languages of texts that were cut; `budget` is below 0 where everything is read.

    Writes a row of `answers` a text, and in `pairs` the class and the share of each of its languages; returns how many
    of those there are.
    """
    rows = 0
    for text in range(len(told)):
        first, last = told[text, _FROM], told[text, _TO]
        for at in range(first, last):
            work.stops[at] = found[at, _CLEAN_STOP]
        limit = told[text, _SIZE] if budget < 0 else budget
        told[text, _READ] = choose(
            found[first:last], tables.width, limit, tables.places, work.met, work.chosen[first:last]
        )
    # All texts together: the more lanes, the less each waits for the memory.
    walk(tables.step, clean, found, work.chosen, work.features, work.lanes)
    for text in range(len(told)):
        first, last = told[text, _FROM], told[text, _TO]
        behind = weigh_up(found[first:last], first, told[text], tables, work, answers[text], pairs, rows)
        several = 0
        for row in range(rows, behind):
            several += pairs[row, 0] != tables.none
        if 0 <= budget < told[text, _SIZE] and several > 1:
            for at in range(first, last):
                found[at, _CLEAN_STOP] = work.stops[at]
            mine, chosen = found[first:last], work.chosen[first:last]
            told[text, _READ] = choose(mine, tables.width, AGAIN * budget, tables.places, work.met, chosen)
            walk(tables.step, clean, mine, chosen, work.features, work.lanes)
            behind = weigh_up(mine, first, told[text], tables, work, answers[text], pairs, rows)
        rows = behind
    return rows


@kernel
def weigh_up(
    found: np.ndarray,
    first: int,
    told: np.ndarray,
    tables: Tables,
    work: Work,
    answer: np.ndarray,
    pairs: np.ndarray,
    rows: int,
) -> int:
    """Make an answer of what was read of a text, whose segments begin with number `first`; see `read_all`."""
    last, scripts = first + len(found), len(tables.width)
    if len(found) == 0:
        answer[_CLASS] = answer[_GUESS] = len(tables.least) - 1
        answer[_SCORE] = answer[_ROWS] = answer[_SPOKEN] = 0
        return rows
    chosen, labels, sure = work.chosen[first:last], work.labels[first:last], work.sure[first:last]
    certain, near = work.certain[first:last], work.near[first:last]
    for at in range(len(found) + scripts):
        work.length[at] = work.best[at] = 0
    work.pool[:] = 0
    work.shares[:] = 0
    weigh(
        work.features, found, chosen, tables.weights, tables.scale, tables.prior, tables.base, tables.stride,
        tables.width, tables.columns, tables.logs, work.keys, work.counts, work.seen, work.scores, work.length,
    )  # fmt: skip
    spread(found, work.length, tables.width, tables.columns, tables.fold, work.some, work.scores, work.best)
    strangers(found, chosen, tables.columns, tables.kin, work.scores, work.best, certain, work.pool)
    japanese(found, near)
    used = label(
        found, chosen, tables.width, tables.columns, tables.kin, work.scores, work.best, near, certain, work.pool,
        tables.least, tables.none, tables.japan, work.of_script, labels, sure, work.shares,
    )  # fmt: skip
    return tell(work.shares[:used], tables.none, tables.least, told[_SIZE], answer, pairs, rows)


@kernel
def tell(
    shares: np.ndarray, none: int, least: np.ndarray, size: int, answer: np.ndarray, pairs: np.ndarray, rows: int
) -> int:
    """Make one answer of the rows of `label`; see `read_all`."""
    unknown_class, first = len(least) - 1, rows
    whole, nothing, unsure, most, guess = 0.0, 0.0, 0.0, -1.0, len(least) - 1
    for at in range(len(shares)):
        kind = int(shares[at, 0])
        whole += shares[at, 1]
        if kind == none:
            nothing += shares[at, 1]
        elif kind == unknown_class:
            unsure += shares[at, 1]
        elif shares[at, 2] > most:
            most, guess = shares[at, 2], kind
    for at in range(len(shares)):
        if shares[at, 3] > 0:
            pairs[rows, 0], pairs[rows, 1] = shares[at, 0], shares[at, 3] / whole
            rows += 1
    spoken = whole - (nothing + unsure)
    if spoken >= SPOKEN * whole:
        score = most / (spoken + unsure)
        answer[_CLASS] = guess if score >= least[guess] else unknown_class
    else:
        score, guess = 0.0, unknown_class
        if nothing >= unsure and size >= FLOOR:
            score, guess = nothing / whole, none
        for row in range(first, rows):
            if guess == unknown_class and pairs[row, 0] == none and pairs[row, 1] == 1.0:
                # Too little to say anything about is no table yet.
                pairs[first, 0], pairs[first, 1], rows = unknown_class, 1.0, first + 1
        answer[_CLASS] = guess
    answer[_SCORE], answer[_GUESS], answer[_ROWS] = score, guess, rows - first
    answer[_SPOKEN] = spoken >= SPOKEN * whole
    return rows


def _identified(texts: Sequence[bytes], budget: int | None, least: float) -> list[Identified]:
    found, clean, told = _segments(texts)
    answers, pairs, _ = _read(found, clean, told, budget, least)
    return _answered(answers, pairs, told)


def _answered(answers: np.ndarray, pairs: np.ndarray, told: np.ndarray) -> list[Identified]:
    names, rows, out = _names(), iter(pairs.tolist()), []
    for (code, score, guess, count, spoken), touching in zip(answers.tolist(), told[:, _TOUCH].tolist(), strict=True):
        shares = {names[int(at)]: share for at, share in sorted(islice(rows, int(count)), key=_share)}
        mixed = spoken > 0 and len(shares) > 1 and 0 < _purity(shares) < PURE
        out.append(Identified(names[int(code)], score, names[int(guess)], shares, mixed, touching))
    return out


def _share(row: list[float]) -> float:
    return -row[1]


def _read(
    found: np.ndarray, clean: np.ndarray, told: np.ndarray, budget: int | None, least: float
) -> tuple[np.ndarray, np.ndarray, Work]:
    """Return what `read_all` writes of texts that were cut, and where it wrote what it thinks of each segment."""
    held, tables = _scratch(), _tables(least)
    answers = held.array("answers", np.float64, len(told), 5)
    pairs = held.array("pairs", np.float64, len(told) * len(tables.least), 2)
    work = held.work(found, clean, told)
    rows = read_all(clean, found, told, -1 if budget is None else budget, tables, work, answers, pairs)
    return answers, pairs[:rows], work


@cache
def _tables(least: float) -> Tables:
    known = model()
    return Tables(
        known.step, known.weights, np.float32(1 / known.scale), known.prior, known.base, known.stride, known.width,
        known.columns, known.fold, known.kin, known.logs, _limits(least), _places(), _place(NONE), _place("ja"),
    )  # fmt: skip


def _plain(data: bytes) -> bytes:
    """Return UTF-8 with letters that are only styled, wide or bold, as what they stand for, a character for each."""
    return _STYLED.sub(_letter, data).replace("\u3000".encode(), b" ")


def _letter(match: re.Match[bytes]) -> bytes:
    # A place between two alphabets that is no letter stays none.
    return unicodedata.normalize("NFKC", match[0].decode()).replace(match[0].decode(), "\ufffd").encode()


def _without_markup(data: bytes) -> bytes:
    """Blank out addresses and tags; every byte stays in its place."""
    if b"://" in data:
        # The scheme after what it stands before: a pattern that begins with a plain string is ten times as fast.
        data = _ADDRESS.sub(_blank, data).replace(b"https   ", b" " * 8).replace(b"http   ", b" " * 7)
    return _TAG.sub(_blank, data) if b"<" in data else data


def _blank(match: re.Match[bytes]) -> bytes:
    return b" " * len(match[0])


def _segments(texts: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the segments of texts, their clean copies behind each other, and a row a text (see `_FROM`)."""
    held, plain = _scratch(), [_without_markup(text) for text in texts]
    data, sizes = np.frombuffer(b"".join(plain), np.uint8), [len(text) for text in plain]
    clean, told = held.array("clean", np.uint8, len(data)), held.array("told", np.int64, len(texts), 6)
    # A segment has RUN bytes of letters at least, unless it is the last or without letters and LONGEST.
    found = held.array("found", np.int64, len(data) // RUN + 2 * len(texts), _COLUMNS)
    count = cut_all(data, np.cumsum(sizes), _kinds(), clean, found, held.tallies, told)
    states = told[:, _STATE]
    if not states.any():
        return found[:count], clean, told
    if _STYLES in states:
        states = states.tolist()
        return _segments([_plain(text) if at == _STYLES else text for text, at in zip(texts, states, strict=True)])
    return found[:count], _lowered(found, clean, told), told


def _lowered(found: np.ndarray, clean: np.ndarray, told: np.ndarray) -> np.ndarray:
    """Append to the clean texts, in small letters, what is all in capitals: so does the library."""
    parts, end = [clean], len(clean)
    for text in np.flatnonzero(told[:, _STATE]):
        mine = np.arange(told[text, _FROM], told[text, _TO])
        for at in mine[(found[mine, _CAPITALS] > 1) & (found[mine, _SMALL] == 0)]:
            whole = clean[found[at, _CLEAN] : found[at, _CLEAN_STOP]].tobytes().decode("utf-8", "surrogatepass")
            parts.append(np.frombuffer(whole.lower().encode("utf-8", "surrogatepass"), np.uint8))
            found[at, _CLEAN], found[at, _CLEAN_STOP] = end, end + len(parts[-1])
            end += len(parts[-1])
            told[text, _SIZE] += len(parts[-1])
    return np.concatenate(parts)


@cache
def _place(label: str) -> int:
    """Return the class of a language."""
    return _names().index(label)


@cache
def _names() -> tuple[str, ...]:
    """Return the language of every class, "und" behind the others."""
    return (*model().labels, UNSURE)


def _purity(shares: Mapping[str, float]) -> float:
    """Return the share of the largest language in what is in a language; 0 where nothing is."""
    spoken = [share for code, share in shares.items() if code not in (UNSURE, NONE)]
    return max(spoken) / sum(spoken) if spoken else 0.0


@cache
def _limits(least: float) -> np.ndarray:
    """Return the least score of every class, "und" behind the others."""
    strict = {code: min(1.0, WARY * least) for code in CATCHALLS} | {NONE: 0.0}
    return np.array([strict.get(code, least) for code in _names()])


def _lines(found: np.ndarray, labels: np.ndarray, sure: np.ndarray, least: float) -> tuple[Line, ...]:
    names = _names()
    ends = np.cumsum(found[:, _CHARS]).tolist()
    told = np.where(sure >= _limits(least)[labels], labels, len(names) - 1).tolist()
    places = zip(pairwise([0, *ends]), told, sure.tolist(), strict=True)
    return tuple(Line(start, stop, names[at], score) for (start, stop), at, score in places)


# ── against the library, and against labels ──────────────────────────────────────────────────────────────────────────


def classify(text: str) -> tuple[str, float]:
    """Return what the library says of one text, all languages allowed: the language and its probability.

    The same as ``LanguageIdentifier.classify`` with ``norm_probs=True``.

    Examples
    --------
    >>> classify("Una frase en español.")[0]
    'es'
    """
    small = unicodedata.normalize("NFC", text.lower() if text.isupper() else text)
    clean = np.frombuffer(small.encode("utf-8", "surrogatepass"), np.uint8)
    found = np.zeros((1, _COLUMNS), np.int64)
    found[0, _CLEAN_STOP] = len(clean)
    known, work, tables = model(), _scratch().work(found, clean, np.array([[0, 1]])), _tables(MIN_SCORE)
    work.chosen[:], work.length[:] = True, 0
    walk(tables.step, clean, found, work.chosen, work.features, work.lanes)
    weigh(
        work.features, found, work.chosen, tables.weights, tables.scale, tables.prior, tables.base, tables.stride,
        tables.width, tables.columns, tables.logs, work.keys, work.counts, work.seen, work.scores, work.length,
    )  # fmt: skip
    spread(found, work.length, tables.width, tables.columns, tables.fold, work.some, work.scores, work.best)
    first = int(work.best[0])
    return known.labels[known.columns[0, first]], float(work.scores[0, first])


#: What counts as the same language where a label and the model cut differently: ISO 639-3 calls each a macrolanguage.
MACRO = {"nb": "no", "nn": "no", "bs": "sh", "hr": "sh", "sr": "sh", "wuu": "zh", "yue": "zh", "arz": "ar", "ary": "ar"}
#: Other names for one language.
SAME = {"nb": "no", "nb-NO": "no", "nn-NO": "nn", "fil": "tl", "iw": "he", "in": "id"}


@dataclass(frozen=True)
class Accuracy:
    """How texts of one language and kind were identified.

    Parameters
    ----------
    code, kind : str
    covered : bool
        The model knows the language.
    texts, right, related, unsure : int
        All; called by this very language; called so or by one of the same macrolanguage (`MACRO`); "und".
    taken_for : str
        The commonest wrong answer, and how often; empty where there is none.
    """

    code: str
    kind: str
    covered: bool
    texts: int
    right: int
    related: int
    unsure: int
    taken_for: str


def accuracy(rows: Iterable[tuple[str, str, str]], *, min_score: float = MIN_SCORE) -> list[Accuracy]:
    """Compare with labels.

    Parameters
    ----------
    rows : iterable of (code, kind, text)
        ``nb`` is read as ``no`` (`SAME`); a code the model does not know is counted too, as not covered.
    min_score : float
        0: count the best guess.

    Returns
    -------
    list of Accuracy
        One a language and kind, sorted; ``pandas.DataFrame`` takes it as it is.

    Examples
    --------
    >>> accuracy([("fr", "word", "Voilà une phrase française."), ("fr", "word", "1")])[0].unsure
    1
    """
    known = set(model().labels)
    answers: dict[tuple[str, str], Counter[str]] = {}
    for code, kind, text in rows:
        answers.setdefault((SAME.get(code, code), kind), Counter())[identify(text, min_score=min_score).code] += 1
    return [_compared(code, kind, given, code in known) for (code, kind), given in sorted(answers.items())]


def _compared(code: str, kind: str, given: Counter[str], covered: bool) -> Accuracy:
    wanted = MACRO.get(code, code)
    related = sum(n for answer, n in given.items() if MACRO.get(answer, answer) == wanted)
    wrong = [(n, answer) for answer, n in given.items() if answer not in (code, UNSURE)]
    n, answer = max(wrong, default=(0, ""))
    return Accuracy(
        code, kind, covered, given.total(), given[code], related, given[UNSURE], f"{answer} {n}" if n else ""
    )
