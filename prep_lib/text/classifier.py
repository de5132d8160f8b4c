"""A small classifier, trained in seconds from labelled documents: more like these, less like those.

"The cat sat 你好"    words  the  cat  sat  你  好           a character where a script has no spaces
                     pairs  the cat  cat sat  sat 你  你 好
feature              32-bit hash of its letters; its first `bits` bits are the place of its weight
score                1 / (1 + exp(-(bias + sum of weights / sqrt(features))))

rows ──hash of the words──▶ held out (a fifth; equal words on one side)     accuracy, AUC, calibration
                        └─▶ trained on, in seeded orders                    weights
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import orjson
import xxhash

from prep_lib import files
from prep_lib.errors import BadInput, BadParameter, unknown
from prep_lib.jit import kernel
from prep_lib.record import Document, Drop
from prep_lib.seeds import key, permute

#: A text, and what it is called: two different labels in all.
Row: TypeAlias = tuple[str | Document, str | bool | int]

#: How far one step goes, and how much a weight counts as moved before it ever was. Of the pairs tried on speeches
#: against other prose, and on encyclopedia against web pages (1,200 characters each), these gave the best held-out
#: order: area .999 and .990; with 0.1 in place of 0.01, .999 and .987.
RATE, MOVED = 1.0, 0.01

#: Below so many rows of a label the figures say little: one row more or less moves a share of 20 by 5 points.
FEW_TRAINED, FEW_HELD = 100, 20

#: Strongest features kept by name, for each of the two labels.
NAMED = 500

#: Bars of the calibration table.
BINS = 10

#: The first line of a file; the sha256 of all that follows stands behind it.
MAGIC = b"prep-classifier 1 "

# Kinds of characters: between words, inside words, a word by itself, not there at all (soft hyphens, joiners).
_BETWEEN, _INSIDE, _ALONE, _NOTHING = 0, 1, 2, 3

#: Scripts written without spaces: Thai to Tibetan, Myanmar, Khmer, kana, bopomofo, Han.
_UNSPACED = (
    (0x0E00, 0x0FFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x3007), (0x3021, 0x30FA), (0x30FC, 0x318F),
    (0x31A0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0xFF66, 0xFF9F),
)  # fmt: skip


class Word(NamedTuple):
    """A word or pair of words, and how much it says.

    Parameters
    ----------
    text : str
        Lower case.
    weight : float
        Above 0: for the label; in a document, its share of the sum.
    times : int
        How often it stands in the document; in the rows trained on.
    """

    text: str
    weight: float
    times: int


class Finding(NamedTuple):
    """Why a held-out score may say less than it seems to.

    Parameters
    ----------
    name : str
        ``few_rows``: a label has few rows to train on or to be tried on; ``repeated``: rows with the words of another
        row, which count as one text less; ``two_labels``: texts under both labels; ``not_held_out``: too few rows to
        hold any out.
    value, limit : int, rows
    label : str
        Empty where it is about all rows.
    """

    name: str
    value: int
    limit: int
    label: str = ""


class Bin(NamedTuple):
    """Held-out rows whose score lies in ``[low, high)``: what the scores say, and how many bear the label.

    `said` and `true` are None where there is no row.
    """

    low: float
    high: float
    rows: int
    said: float | None
    true: float | None


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """How well a classifier tells rows it never saw.

    Parameters
    ----------
    trained, held : tuple of int, rows
        Of each label, the one that is scored last.
    accuracy : float or None
        Share of held-out rows on the right side of 0.5. None: nothing was held out.
    auc : float or None
        How likely a row with the label scores above one without; ties count half.
    calibration : tuple of Bin
    findings : tuple of Finding
    """

    trained: tuple[int, int]
    held: tuple[int, int]
    accuracy: float | None = None
    auc: float | None = None
    calibration: tuple[Bin, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Classifier:
    """Logistic regression over hashed words and pairs of words.

    Made by `train` or `load`.

    Parameters
    ----------
    labels : (other, label)
        `score` is the probability of the last one.
    bits : int
        There are ``2**bits`` weights.
    bias : float
    weights : bytes
        (2**bits,) float32, little endian.
    words : tuple of Word
        The strongest features by name, the strongest for the label first.
    held_out : HeldOut
    settings : tuple of (name, value)
        What it was trained with.

    Source
    ------
    Hashed bags of words and pairs under a linear model, as fastText's classifier has them (Joulin et al. 2016) without
    its hidden layer; steps by AdaGrad (Duchi et al. 2011).

    Examples
    --------
    >>> rows = [(f"the cat sat on mat {n}", "prose") for n in range(9)] + [(f"x = {n} + y", "code") for n in range(9)]
    >>> made = Classifier.train(rows, label="prose", bits=10)
    >>> made.score("a cat on a mat") > 0.5 > made.score("y = x")
    True
    """

    labels: tuple[str, str]
    bits: int
    bias: float
    weights: bytes = field(repr=False)
    words: tuple[Word, ...] = field(repr=False)
    held_out: HeldOut
    settings: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def train(
        cls,
        rows: Iterable[Row],
        *,
        label: str | bool | int | None = None,
        bits: int = 18,
        epochs: int = 5,
        held_out: float = 0.2,
        seed: int = 42,
    ) -> Classifier:
        """Learn from labelled texts.

        Parameters
        ----------
        rows : iterable of (text or Document, label)
            Two labels in all, in any order: the same rows give the same bytes. The words of all rows are held in
            memory, 4 bytes for each word and each pair. Give whole documents: pieces of one have their subject in
            common, and a piece held out is then told by its neighbours that were trained on.
        label : str, bool, int, or None
            The one whose probability `score` is. None: True or 1, if these are the labels.
        bits : int, 8 to 24
        epochs : int, >= 1
            How often each row is looked at.
        held_out : float, 0 to 0.9
            Share of the rows kept for the score and never trained on. 0: none.
        seed : int

        Raises
        ------
        BadParameter
            If there are not exactly two labels, or a value is outside its range.
        """
        _check("bits", bits, 8, 24, int)
        _check("epochs", epochs, 1, 10_000, int)
        _check("held_out", held_out, 0, 0.9, (int, float))
        bags = _read(rows, seed)
        labels = _labels({bag.label for bag in bags}, label)
        trained, held = _split(bags, held_out, seed)
        weights, bias = _fit(trained, labels[1], bits, epochs, seed)
        scores = np.array([_probability(bag.features, weights, bias) for bag in held])
        return cls(
            labels=labels, bits=bits, bias=bias, weights=weights.tobytes(), words=tuple(_name(weights, trained)),
            held_out=_judge(labels, trained, held, scores, wanted=held_out > 0),
            settings=(("epochs", epochs), ("held_out", held_out), ("seed", seed)),
        )  # fmt: skip

    def score(self, text: str | Document, label: str | None = None) -> float:
        """Return how likely the label is, 0 to 1; a text without words gives what the bias says.

        Parameters
        ----------
        text : str or Document
        label : str or None
            None: the classifier's own, ``labels[1]``.
        """
        score = _probability(features(_bytes(text)), self._weights(), self.bias)
        return score if label is None or self._place(label) else 1 - score

    def _weights(self) -> np.ndarray:
        return np.frombuffer(self.weights, "<f4")

    def _place(self, label: str) -> int:
        if label not in self.labels:
            raise unknown("text/classifier", "label", str(label), self.labels)
        return self.labels.index(label)

    def why(self, text: str | Document, most: int = 10) -> list[Word]:
        """Return the words of a text that moved its score most, each with its share of the sum.

        Examples
        --------
        >>> rows = [("good cat", True), ("bad cat", False)] * 9
        >>> [word.text for word in Classifier.train(rows, held_out=0, bits=10).why("A GOOD dog!", 1)]
        ['good']
        """
        data, weights = _bytes(text), self._weights()
        found, places = _places(data)
        each, first, times = np.unique(found, return_index=True, return_counts=True)
        shares = weights[each >> _shift(weights)] * times / math.sqrt(max(1, len(found)))
        strongest = np.lexsort((first, -np.abs(shares)))[:most]
        return [
            Word(_text(data, int(first[at]), places), float(shares[at]), int(times[at]))
            for at in strongest
            if shares[at]
        ]

    def strongest(self, most: int = 20) -> tuple[list[Word], list[Word]]:
        """Return the features that speak loudest for the label, and those that speak loudest against it."""
        return (
            [word for word in self.words if word.weight > 0][:most],
            [word for word in self.words[::-1] if word.weight < 0][:most],
        )

    def save(self, path: str | Path) -> None:
        """Write everything into one file, whole or not at all."""
        body = self._body()
        with files.write_whole(path) as file:
            file.write(MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)

    def _body(self) -> bytes:
        head = {
            "labels": self.labels, "bits": self.bits, "bias": self.bias, "words": self.words,
            "held_out": asdict(self.held_out), "settings": self.settings,
        }  # fmt: skip
        return json.dumps(head, ensure_ascii=False).encode() + b"\n" + self.weights

    @classmethod
    def load(cls, path: str | Path) -> Classifier:
        """Read what `save` wrote.

        Raises
        ------
        BadInput
            If the file is missing, is something else, or was cut or changed.
        """
        try:
            data = files.place(path).read_bytes()
        except OSError as error:
            raise BadInput(f"text/classifier: cannot read {path}: {error.strerror or error}") from error
        first, _, body = data.partition(b"\n")
        if not first.startswith(MAGIC):
            raise BadInput(f"text/classifier: {path} is no classifier of ours; train one and save() it")
        if first != MAGIC + hashlib.sha256(body).hexdigest().encode():
            raise BadInput(f"text/classifier: {path} was cut or changed since it was saved; save it again")
        head, _, weights = body.partition(b"\n")
        return cls(**_from_json(orjson.loads(head)), weights=weights)


@dataclass(frozen=True, kw_only=True)
class Classify:
    """Drop documents by a classifier's score; a judge stage.

    Parameters
    ----------
    model : path or Classifier
        Read when the stage is made; the stage holds it.
    low, high : float or None, 0 to 1
        A score below `low` or above `high` is dropped. At least one of them.
    label : str or None
        The label whose probability is judged. None: the classifier's own.
    name : str
        What the ledger counts it under, and the reason: another name for a second classifier in one run.

    Raises
    ------
    BadParameter
        If there is no limit, a limit is outside 0 to 1, or no document could lie between them.
    BadInput
        If the file is no classifier.

    Drops
    -----
    ``classifier``, or what `name` says, with the score and the limit it passed.

    Examples
    --------
    >>> model = Classifier.train([("good cat", True), ("bad cat", False)] * 9, held_out=0, bits=10)
    >>> stage = Classify(model=model, low=0.5)
    >>> stage.judge(Document("1", "good")) is None, stage.judge(Document("2", "bad")).reason
    (True, 'classifier')
    """

    model: Any
    low: float | None = None
    high: float | None = None
    label: str | None = None
    name: str = "classifier"

    def __post_init__(self) -> None:
        if isinstance(self.model, str | Path):
            object.__setattr__(self, "model", Classifier.load(self.model))
        if not isinstance(self.model, Classifier):
            raise BadParameter(f"text/classifier: model must be a file's path or a Classifier, got {self.model!r}")
        if self.label is not None:
            self.model._place(self.label)
        limits = [limit for limit in (self.low, self.high) if limit is not None]
        for limit in limits:
            _check("low and high", limit, 0, 1, (int, float))
        if not limits or limits != sorted(limits):
            raise BadParameter(f"text/classifier: give low, high or both, low <= high; got {self.low} and {self.high}")

    def judge(self, doc: Document) -> Drop | None:
        """Return None to keep the document."""
        score = self.model.score(doc, self.label)
        if self.low is not None and score < self.low:
            return Drop(self.name, score, self.low)
        if self.high is not None and score > self.high:
            return Drop(self.name, score, self.high)
        return None


# Reading rows


class _Bag(NamedTuple):
    """A row as it is learned from: its bytes, its label and its features."""

    data: bytes
    label: str
    features: np.ndarray


def _check(name: str, value: Any, low: float, high: float, kind: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, kind) or not low <= value <= high:
        raise BadParameter(f"text/classifier: {name} must be a number from {low} to {high:,}, got {value!r}")


def _bytes(text: str | Document) -> bytes:
    return text.utf8 if isinstance(text, Document) else text.encode("utf-8", "surrogatepass")


def _read(rows: Iterable[Row], seed: int) -> list[_Bag]:
    """Return the rows in an order that does not depend on the one they came in."""
    bags = [_Bag(data := _bytes(text), str(label), features(data)) for text, label in rows]
    return sorted(bags, key=lambda bag: (key(seed, "classifier", bag.data), bag.data, bag.label))


def _labels(found: set[str], label: str | bool | int | None) -> tuple[str, str]:
    if len(found) != 2:
        shown = ", ".join(map(repr, sorted(found)[:5])) or "none"
        raise BadParameter(f"text/classifier: rows must have two labels in all, got {len(found)}: {shown}")
    wanted = next((name for name in ("True", "1") if name in found), None) if label is None else str(label)
    if wanted not in found:
        first, second = sorted(found)
        raise BadParameter(
            f"text/classifier: label must be {first!r} or {second!r}, got {label!r}; name the one to score"
        )
    return (found - {wanted}).pop(), wanted


def _split(bags: Sequence[_Bag], share: float, seed: int) -> tuple[list[_Bag], list[_Bag]]:
    """Part the rows by a hash of their words: equal words come to one side, whatever stands between them."""
    trained, held = list[_Bag](), list[_Bag]()
    for bag in bags:
        drawn = key(seed, "held_out", bag.features.tobytes())
        (held if drawn < share * 2**64 else trained).append(bag)
    if any(len({bag.label for bag in side}) < 2 for side in (trained, held)):
        return list(bags), []
    return trained, held


def _from_json(told: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a classifier from what `save` wrote of them, lists as the tuples they were."""
    held = told["held_out"]
    held = held | {
        "trained": tuple(held["trained"]), "held": tuple(held["held"]),
        "calibration": tuple(Bin(*row) for row in held["calibration"]),
        "findings": tuple(Finding(*row) for row in held["findings"]),
    }  # fmt: skip
    return told | {
        "labels": tuple(told["labels"]), "words": tuple(Word(*row) for row in told["words"]),
        "held_out": HeldOut(**held), "settings": tuple(map(tuple, told["settings"])),
    }  # fmt: skip


# Features


def features(data: bytes) -> np.ndarray:
    """Return the features of a text: a hash for each word, and for each pair of neighbours behind its second word.

    Parameters
    ----------
    data : bytes
        UTF-8.

    Returns
    -------
    (2 * words - 1,) uint32

    Examples
    --------
    >>> len(features(b"The cat sat")), (features(b"The cat!") == features(b"the  CAT")).all()
    (5, np.True_)
    """
    out = np.empty(len(data) + 1, np.uint32)
    return out[: _features(np.frombuffer(data, np.uint8), *_characters(), out, np.empty((0, 2), np.int64))]


def _places(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return the features of a text, and the bytes from which to which each word among them goes."""
    out, places = np.empty(len(data) + 1, np.uint32), np.empty((len(data) + 1, 2), np.int64)
    n = _features(np.frombuffer(data, np.uint8), *_characters(), out, places)
    return out[:n], places[:n]


def _text(data: bytes, at: int, places: np.ndarray) -> str:
    """Return the word or pair that feature `at` is made from: word, word, pair, word, pair, …"""
    words = (max(0, at - 3), at - 1) if at and at % 2 == 0 else (at,)
    slices = (data[places[word, 0] : places[word, 1]] for word in words)
    return " ".join(part.decode("utf-8", "replace").lower() for part in slices)


@functools.cache
def _characters() -> tuple[np.ndarray, np.ndarray]:
    """Return the kind and the lower case of each character of the basic plane: (65536,) uint8, (65536,) uint16."""
    kinds, lower = np.zeros(0x10000, np.uint8), np.arange(0x10000, dtype=np.uint16)
    for code in range(0x10000):
        category = unicodedata.category(chr(code))
        if category[0] in "LMN":
            kinds[code] = _INSIDE
            small = chr(code).lower()
            lower[code] = ord(small) if len(small) == 1 else code
        elif category == "Cf":
            kinds[code] = _NOTHING
    for first, last in _UNSPACED:
        kinds[first : last + 1][kinds[first : last + 1] == _INSIDE] = _ALONE
    kinds[0xFE00:0xFE10] = _NOTHING  # variation selectors
    return kinds, lower


@kernel
def _features(data, kinds, lower, out, places):  # type: ignore[no-untyped-def]
    # Every product stays below 2**63, so that plain Python and 64 bits agree.
    size, at, n, last = len(data), 0, 0, -1
    word: Any = 0
    begin, stop, alone = -1, 0, False
    while at <= size:
        code: Any = 0
        step: Any = 1
        if at < size:
            code = np.int64(data[at])
            if code >= 0xC0:
                step = 2 + (code >= 0xE0) + (code >= 0xF0)
                code &= 0x3F >> (step - 1)
                for more in range(at + 1, min(at + step, size)):
                    code = (code << 6) | np.int64(data[more] & 0x3F)
        # Above the basic plane: Han and emoji, each a word by itself.
        kind: Any = 2 if code >= 0x10000 else np.int64(kinds[code])
        if begin >= 0 and (alone or kind == 0 or kind == 2):
            word = ((word ^ (word >> 15)) * 0x45D9F3B) & 0xFFFFFFFF
            word ^= word >> 16
            out[n] = word
            if len(places):
                places[n, 0], places[n, 1] = begin, stop
            n += 1
            if last >= 0:
                pair = (last * 0x2C1B3C6D + word) & 0xFFFFFFFF
                pair = ((pair ^ (pair >> 15)) * 0x45D9F3B) & 0xFFFFFFFF
                out[n] = pair ^ (pair >> 16)
                n += 1
            last, begin = word, -1
        if kind == 1 or kind == 2:
            if begin < 0:
                begin, word, alone = at, 0x811C9DC5, kind == 2
            small: Any = code if code >= 0x10000 else np.int64(lower[code])
            word = ((word ^ small) * 0x01000193) & 0xFFFFFFFF  # FNV-1a, a character at a time
            stop = at + step
        at += step
        if kind == 1:
            # Most letters are ASCII and follow another one: the same as above, without what they cannot be.
            while at < size and data[at] < 0x80 and kinds[data[at]] == 1:
                word = ((word ^ np.int64(lower[data[at]])) * 0x01000193) & 0xFFFFFFFF
                at += 1
                stop = at
    return n


# Weights


def _shift(weights: np.ndarray) -> np.uint32:
    """How far a feature is shifted to the right to be a place among the weights."""
    return np.uint32(33 - len(weights).bit_length())


def _probability(found: np.ndarray, weights: np.ndarray, bias: float) -> float:
    value = bias + float(_total(found, weights, _shift(weights))) / math.sqrt(max(1, len(found)))
    return 1 / (1 + math.exp(-value)) if value > 0 else 1 - 1 / (1 + math.exp(value))


@kernel
def _total(found, weights, shift):  # type: ignore[no-untyped-def]
    total = 0.0
    for feature in found:
        total += np.float64(weights[feature >> shift])
    return total


def _fit(bags: Sequence[_Bag], label: str, bits: int, epochs: int, seed: int) -> tuple[np.ndarray, float]:
    """Return the weights, (2**bits,) float32, and the bias."""
    found = np.concatenate([bag.features for bag in bags])
    offsets = np.cumsum([0, *(len(bag.features) for bag in bags)])
    targets = np.array([bag.label == label for bag in bags], np.float64)
    weights, moved, bias = np.zeros(2**bits), np.full(2**bits, MOVED), np.array([0.0, MOVED])
    for epoch in range(epochs):
        order = permute(seed, "classifier", len(bags), np.arange(len(bags)), epoch)
        _epoch(found, offsets, targets, order, weights, moved, bias, 32 - bits, RATE)
    return weights.astype("<f4"), float(bias[0])


@kernel
def _epoch(found, offsets, targets, order, weights, moved, bias, shift, rate):  # type: ignore[no-untyped-def]
    for at in order:
        begin, end = offsets[at], offsets[at + 1]
        scale = 1.0 / math.sqrt(max(1, end - begin))
        total = 0.0
        for place in range(begin, end):
            total += weights[found[place] >> shift]
        total = bias[0] + total * scale
        error = 1.0 / (1.0 + math.exp(-abs(total)))
        error = (error if total > 0 else 1.0 - error) - targets[at]
        bias[1] += error * error
        bias[0] -= rate * error / math.sqrt(bias[1])
        step = error * scale
        for place in range(begin, end):
            weight = found[place] >> shift
            moved[weight] += step * step
            weights[weight] -= rate * step / math.sqrt(moved[weight])


def _name(weights: np.ndarray, bags: Sequence[_Bag]) -> Iterator[Word]:
    """Yield the strongest features by the words that stand for them most often, for the label first."""
    order = np.argsort(-weights, kind="stable")
    strong = np.concatenate([order[:NAMED][weights[order[:NAMED]] > 0], order[-NAMED:][weights[order[-NAMED:]] < 0]])
    found, shift = np.concatenate([bag.features for bag in bags]), _shift(weights)
    wanted = np.zeros(len(weights), bool)
    wanted[strong] = True
    where = np.flatnonzero(wanted[found >> shift])
    each, first, times = np.unique(found[where], return_index=True, return_counts=True)
    # Of words that share a weight the commonest names it; of equals the one that came first.
    best: dict[int, int] = {}
    for at in np.lexsort((first, -times)).tolist():
        best.setdefault(int(each[at] >> shift), at)
    begins = np.cumsum([0, *(len(bag.features) for bag in bags)])
    for weight in strong.tolist():
        place = int(where[first[best[weight]]])
        at = int(np.searchsorted(begins, place, "right")) - 1
        text = _text(bags[at].data, place - int(begins[at]), _places(bags[at].data)[1])
        yield Word(text, float(weights[weight]), int(times[best[weight]]))


def _judge(
    labels: tuple[str, str], trained: Sequence[_Bag], held: Sequence[_Bag], scores: np.ndarray, *, wanted: bool
) -> HeldOut:
    sides = [[bag.label for bag in side] for side in (trained, held)]
    counts = [(side.count(labels[0]), side.count(labels[1])) for side in sides]
    findings = tuple(_doubts(labels, counts, [*trained, *held], wanted))
    if not held:
        return HeldOut(trained=counts[0], held=counts[1], findings=findings)
    true = np.array(sides[1]) == labels[1]
    return HeldOut(
        trained=counts[0], held=counts[1], accuracy=float(((scores > 0.5) == true).mean()), auc=_auc(scores, true),
        calibration=tuple(_calibration(scores, true)), findings=findings,
    )  # fmt: skip


def _doubts(
    labels: tuple[str, str], counts: Sequence[tuple[int, int]], bags: Sequence[_Bag], wanted: bool
) -> Iterator[Finding]:
    """Yield why the figures may say less than they seem to."""
    held = sum(counts[1]) > 0
    if wanted and not held:
        yield Finding("not_held_out", 0, FEW_HELD)
    for at, label in enumerate(labels):
        for number, limit in ((counts[0][at], FEW_TRAINED), (counts[1][at], FEW_HELD))[: 1 + held]:
            if number < limit:
                yield Finding("few_rows", number, limit, label)
    texts: dict[bytes, set[str]] = {}
    for bag in bags:
        texts.setdefault(xxhash.xxh3_128_digest(bag.features.tobytes()), set()).add(bag.label)
    if len(texts) < len(bags):
        yield Finding("repeated", len(bags) - len(texts), 0)
    if both := sum(len(found) > 1 for found in texts.values()):
        yield Finding("two_labels", both, 0)


def _auc(scores: np.ndarray, true: np.ndarray) -> float:
    """Return how often a true row stands above another one, ties as half, from the ranks (Mann and Whitney 1947)."""
    _, place, times = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(times) - (times - 1) / 2)[place]
    positive = int(true.sum())
    above = ranks[true].sum() - positive * (positive + 1) / 2
    return float(above / (positive * (len(true) - positive)))


def _calibration(scores: np.ndarray, true: np.ndarray) -> Iterator[Bin]:
    places = np.minimum((scores * BINS).astype(int), BINS - 1)
    for at in range(BINS):
        inside = places == at
        rows = int(inside.sum())
        said, share = (float(scores[inside].mean()), float(true[inside].mean())) if rows else (None, None)
        yield Bin(at / BINS, (at + 1) / BINS, rows, said, share)
