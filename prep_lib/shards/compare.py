"""Two folders of shards made from the same records: which tokens are trained in one and not in the other.

    one     a.jsonl#L1   q q a a ■ ·        documents are matched by where they were read from, however they are packed
                             ━ ━ ━          trained
    other   a.jsonl#L1   q q a a ■ ·
                             ━ ━ ━ ━        trained only in the other: 1, behind what both train

Both folders are read once, front to back: of every document that leaves its length, how many of its tokens are trained,
and 64-bit sums over its ids and over its mask. Where these agree the documents are equal, but for a chance of about
2^-64; the others are read again, a batch at a time, and compared token by token up to the first id that differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from prep_lib import files as fs
from prep_lib.errors import BadParameter, BadShard
from prep_lib.jit import kernel
from prep_lib.seeds import stream
from prep_lib.shards.formats import open_shard
from prep_lib.shards.manifest import read_manifest
from prep_lib.shards.shard import Shard

#: How two documents of the same id differ: a `Counts` field each, the worst last.
KINDS = ("equal", "other_weight", "other_mask", "shorter", "other_ids", "torn")

#: Where a run of changed targets stands, by what both train: nowhere near, right before it, right behind it, both.
PLACES = ("apart", "behind", "before", "between")

#: What of a manifest is a result, or told elsewhere.
_RESULTS = ("shards", "totals", "dropped_remainder_tokens", "parents")
_PACKED_RESULTS = ("packs", "efficiency", "padding", "cut_documents")

#: Tokens compared at once: bounds memory whatever the size of a folder.
_BLOCK = 2**20

#: Shards of a folder kept open while documents are looked up in them.
_OPEN = 4

#: Runs told of one example.
_SPANS = 100

#: A place is source << _LINE | line.
_LINE = 40

#: Odd constants with well mixed bits, from splitmix64 and Murmur3.
_SHIFT = np.uint64(32)
_A, _B, _C = (np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0xFF51AFD7ED558CCD))


@dataclass(frozen=True)
class Setting:
    """One thing the manifests say differently; None: this one does not say it.

    Parameters
    ----------
    name : str
        Its place in the manifest: ``strategy.policy.train_after_stop``; ``parents`` names inputs only one of them has,
        ``arrays`` what is stored.
    one, other : JSON value
    """

    name: str
    one: Any
    other: Any


@dataclass(frozen=True)
class Counts:
    """What is the same and what is not, of everything or of one source.

    ``documents_one == equal + other_weight + other_mask + shorter + other_ids + torn + only_one``, and the tokens of
    one folder are ``both + trained_one + trained_other + neither + rest_one``; so for the other.

    Parameters
    ----------
    documents_one, documents_other : int, documents
        In each folder.
    equal : int, documents
        Same ids, same mask, same weights where both store them.
    other_weight, other_mask : int, documents
        Same ids; other targets, or the same targets with other weights.
    shorter : int, documents
        One is the beginning of the other.
    other_ids : int, documents
    torn : int, documents
        In both folders, but the pieces of one do not join up, so that nobody can compare them.
    only_one, only_other : int, documents
        In one folder only.
    both, trained_one, trained_other, neither : int, tokens
        Trained in both, only in one, only in the other, in neither; up to the first id that differs.
    weighted : int, tokens
        Trained in both, with another weight.
    rest_one, rest_other : int, tokens
        Not compared: behind the first id that differs, torn, or in documents of one folder only.
    """

    documents_one: int = 0
    documents_other: int = 0
    equal: int = 0
    other_weight: int = 0
    other_mask: int = 0
    shorter: int = 0
    other_ids: int = 0
    torn: int = 0
    only_one: int = 0
    only_other: int = 0
    both: int = 0
    trained_one: int = 0
    trained_other: int = 0
    neither: int = 0
    weighted: int = 0
    rest_one: int = 0
    rest_other: int = 0

    @property
    def different(self) -> int:
        """Documents that are not the same in both, those of one folder only among them."""
        return self.documents_one + self.only_other - self.equal


@dataclass(frozen=True)
class Spot:
    """Where a piece of a document lies.

    Parameters
    ----------
    file : str
        The shard.
    row : int
        In that shard.
    at : int, tokens
        Where the piece begins in the row.
    start : int, tokens
        Where it begins in the document.
    length : int, tokens
    """

    file: str
    row: int
    at: int
    start: int
    length: int


@dataclass(frozen=True)
class Example:
    """One document that differs.

    Parameters
    ----------
    document : str
        Where it was read from: ``a.jsonl#L12``.
    kind : str
        One of `KINDS`, ``only_one`` or ``only_other``.
    key : str
        The ids that differ; of a pair the first that do.
    first : int or None, tokens
        The first place where the ids differ, or one of the two has ended. None: they are the same.
    trained_one, trained_other : tuple of (start, stop), tokens
        Runs of the document trained only in one, only in the other, before `first`; a hundred at most.
    one, other : tuple of Spot
        Where its pieces lie, in order; empty in the folder that does not have it.
    """

    document: str
    kind: str
    key: str
    first: int | None = None
    trained_one: tuple[tuple[int, int], ...] = ()
    trained_other: tuple[tuple[int, int], ...] = ()
    one: tuple[Spot, ...] = ()
    other: tuple[Spot, ...] = ()


@dataclass(frozen=True)
class Difference:
    """How two folders of shards differ.

    Parameters
    ----------
    folders : (str, str)
    settings : tuple of Setting
        What the manifests say differently, results apart.
    total : Counts
    sources : dict of str -> Counts
        The same by source, in the order they were met.
    places : dict of str -> (int, int), tokens
        Targets only one has and only the other has, by where they stand: right ``behind`` tokens both train, right
        ``before`` them, ``between`` them, or ``apart`` from them, as whole answers are.
    tokens : tuple of (int, int, int)
        The ids such targets have, with how many times only one and only the other trains them; the commonest first.
    repeated : (int, int), documents
        Those whose id an earlier document of the same folder has. Equal ones are matched with each other first.
    examples : tuple of Example
    """

    folders: tuple[str, str]
    settings: tuple[Setting, ...]
    total: Counts
    sources: dict[str, Counts]
    places: dict[str, tuple[int, int]]
    tokens: tuple[tuple[int, int, int], ...]
    repeated: tuple[int, int]
    examples: tuple[Example, ...]

    @property
    def same(self) -> bool:
        """Whether both hold the same documents with the same ids, masks and weights."""
        return not self.total.different


@dataclass(frozen=True)
class Stored:
    """A document as a folder holds it, its pieces put together: (n,) ids, mask and, where it has them, weights."""

    ids: np.ndarray
    mask: np.ndarray
    weight: np.ndarray | None = None


def compare(one: str | Path, other: str | Path, *, limit: int = 20, seed: int = 42) -> Difference:
    """Compare what two folders of shards train, document by document.

    Parameters
    ----------
    one, other : path
        Folders with a manifest, made from the same records by two configurations; packed or not, in any order.
    limit : int
        Examples at most, and ids of changed targets at most; every kind of difference gets its share.
    seed : int
        Of the draw of examples.

    Returns
    -------
    Difference

    Raises
    ------
    BadShard
        If a folder has no manifest, a shard cannot be read, or its rows do not say which documents they are.
    BadParameter
        If the folders hold ids of different tokenizers, or different arrays of ids; a `limit` below 0.

    Examples
    --------
    >>> import tempfile
    >>> from prep_lib.shards.h5 import ShardWriter
    >>> from prep_lib.shards.manifest import shard_entry, write_manifest
    >>> def folder(mask):
    ...     path = Path(tempfile.mkdtemp())
    ...     rows = {"sequence": [7, 8, 9], "offsets/sequence": [0, 3], "loss_mask": mask, "offsets/loss_mask": [0, 3]}
    ...     with ShardWriter(path / "chunk_0.h5") as writer:
    ...         for name, values in {**rows, "documents/source": [0], "documents/line": [1]}.items():
    ...             writer.write(name, np.array(values))
    ...         writer.strings("documents/sources", ["a.jsonl"])
    ...     entry = shard_entry(path / "chunk_0.h5", 1, 3, "int64", {"a.jsonl": 3})
    ...     write_manifest(path, shards=[entry], seq_len=None, totals={}, seed=None)
    ...     return path
    >>> found = compare(folder([False, True, False]), folder([False, True, True]))
    >>> found.total.both, found.total.trained_other, found.places["behind"], found.tokens
    (1, 1, (0, 1), ((9, 0, 1),))
    >>> found.examples[0].document, found.examples[0].trained_other
    ('a.jsonl#L1', ((2, 3),))
    """
    if limit < 0:
        raise BadParameter(f"shards/compare: limit must be 0 or more examples, got {limit}")
    manifests = read_manifest(one), read_manifest(other)
    _check_tokenizers(*manifests)
    sources: dict[str, int] = {}
    left, right = (_Folder(fs.place(path), told) for path, told in zip((one, other), manifests, strict=True))
    if left.keys != right.keys:
        raise BadParameter(
            f"shards/compare: {left.path} holds ids as {', '.join(left.keys)}, {right.path} as "
            f"{', '.join(right.keys)}; compare folders made by the same processor"
        )
    weighted = left.weighted and right.weighted
    for folder in (left, right):
        folder.read(sources, weighted)
    pairs = _Pairs(left, right, weighted)
    return Difference(
        folders=(str(one), str(other)),
        settings=tuple(_settings(left, right)),
        total=pairs.counts(np.zeros(len(sources) + 1, np.int64), 1)[0],
        sources=dict(zip(sources, pairs.counts(np.arange(len(sources) + 1), len(sources)), strict=True)),
        places={name: (int(a), int(b)) for name, (a, b) in zip(PLACES, pairs.places.T, strict=True)},
        tokens=_commonest(pairs.tokens, limit),
        repeated=(left.repeated, right.repeated),
        examples=tuple(_examples(pairs, list(sources), limit, seed)),
    )


def _check_tokenizers(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    left, right = one["tokenizer"] or {}, other["tokenizer"] or {}
    if left.get("sha256") != right.get("sha256"):
        names = (f"{told.get('name')} ({str(told.get('sha256'))[:12]})" for told in (left, right))
        raise BadParameter(
            f"shards/compare: ids of two tokenizers mean different things: {' and '.join(names)}; "
            "build one of the two again with the other's tokenizer"
        )


def stored(folder: str | Path, spots: Sequence[Spot], key: str) -> Stored:
    """Read a document where an `Example` says it lies.

    Parameters
    ----------
    folder : path
    spots : sequence of Spot
    key : str
        Which ids.

    Raises
    ------
    BadShard
        If a shard cannot be read, or has no such row.
    """
    parts = []
    for spot in spots:
        shard = open_shard(fs.place(folder) / spot.file)
        if not 0 <= spot.row < len(shard):
            raise BadShard(f"shards/compare: {shard.path} has no row {spot.row}; it was built anew since")
        row, piece = shard.row(spot.row), slice(spot.at, spot.at + spot.length)
        mask, weight = shard.mask_of(key), _weight_of(shard, key)
        ids = row[key][piece]
        parts.append(
            (ids, row[mask][piece] if mask else np.ones(len(ids), bool), row[weight][piece] if weight else None)
        )
    if not parts:
        return Stored(np.zeros(0, np.int32), np.zeros(0, bool))
    ids, masks, weights = zip(*parts, strict=True)
    whole = None if any(part is None for part in weights) else np.concatenate(weights)
    return Stored(np.concatenate(ids), np.concatenate(masks), whole)


def _weight_of(shard: Shard, key: str) -> str | None:
    return "loss_weight" if key == "sequence" and "loss_weight" in shard.keys else None


# ---------------------------------------------------------------------------------------------------------------------
# One folder: read once, front to back
# ---------------------------------------------------------------------------------------------------------------------


class _Folder:
    """The documents of a folder as arrays, and none of their tokens: 400 bytes each at the most while they are sorted.

    Attributes
    ----------
    keys : tuple of str
        Of ids, K of them.
    shard, row, start : (pieces,) int64
        Where a piece lies and where it begins in its document; the pieces of a document stand together, in order.
    begin, length : (K, pieces) int64, tokens
        Of the flat data of each key.
    first, last : (documents,) int64
        The pieces of each document; documents are ordered by place.
    place, again : (documents,) int64
        Where it was read from, and how many documents before have the same place.
    tokens, trained : (K, documents) int64
    prints : (K, documents, 3) uint64
        Sums over ids, targets and weights.
    torn : (documents,) bool
        Its pieces do not join up.
    """

    def __init__(self, path: Path, manifest: Mapping[str, Any]) -> None:
        self.path, self.manifest = path, manifest
        self.files = [entry["file"] for entry in manifest["shards"]]
        self.open = lru_cache(_OPEN)(lambda number: open_shard(self.path / self.files[number]))
        if not self.files:
            raise BadShard(f"shards/compare: {path} has no shard")
        first, told = self.open(0), manifest["strategy"]
        named = told.get("id_keys") if isinstance(told, Mapping) else None
        self.keys = tuple(key for key in named if key in first.keys) if named else first.ids
        self.weighted = any(_weight_of(first, key) for key in self.keys)
        self.arrays = {key: str(column.dtype) for key, column in first.columns.items()}

    def read(self, sources: dict[str, int], weighted: bool) -> None:
        """Read every shard, one after another; `sources` numbers the names of inputs for both folders."""
        parts = [self._read_shard(number, sources, weighted) for number in range(len(self.files))]
        place, document, self.shard, self.row, self.start, self.begin, self.length, trained, prints = (
            np.concatenate(column, axis=-1) for column in zip(*parts, strict=True)
        )
        again = self._order(place, document)
        self._join(place, again, trained, prints)
        self.repeated = int(np.count_nonzero(self.again))

    def _read_shard(self, number: int, sources: dict[str, int], weighted: bool) -> tuple[np.ndarray, ...]:
        shard = open_shard(self.path / self.files[number])
        if missing := [key for key in self.keys if key not in shard.keys]:
            raise BadShard(f"shards/compare: {shard.path} lacks {', '.join(missing)}, which other shards have")
        row, start, document, begin, length = self._pieces(shard)
        place = _places(shard, document, sources)
        sums = [self._sum(shard, key, start, begin[at], length[at], weighted) for at, key in enumerate(self.keys)]
        trained, prints = (np.stack(column) for column in zip(*sums, strict=True))
        return place, document, np.full(len(row), number), row, start, begin, length, trained, prints

    def _pieces(self, shard: Shard) -> tuple[np.ndarray, ...]:
        """Return row, start and document of each piece, and (K, pieces) where it begins and how long it is."""
        if not shard.packed:
            if loose := [key for key in self.keys if key not in shard.offsets]:
                raise BadShard(
                    f"shards/compare: rows of {loose[0]} in {shard.path} do not say which documents they are"
                )
            offsets = np.stack([np.asarray(shard.offsets[key]) for key in self.keys])
            rows = np.arange(len(shard))
            return rows, np.zeros_like(rows), rows, offsets[:, :-1], np.diff(offsets)
        columns = shard.segment_columns
        row, start, document, length = (
            np.array(columns[name], np.int64) for name in ("row", "start", "document", "length")
        )
        before = np.cumsum(length) - length
        begin = row * shard.columns[self.keys[0]].shape[1] + before - before[np.searchsorted(row, row)]
        return row, start, document, np.stack([begin] * len(self.keys)), np.stack([length] * len(self.keys))

    def _sum(
        self, shard: Shard, key: str, start: np.ndarray, begin: np.ndarray, length: np.ndarray, weighted: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return of each piece how many tokens are trained, (pieces,), and its (3, pieces) sums."""
        ids, mask, weight = _flat(shard, key)
        trained, prints = np.zeros(len(start), np.int64), np.zeros((3, len(start)), np.uint64)
        on = np.zeros(0, bool) if mask is None else mask
        bits = weight.view(np.uint32) if weighted and weight is not None else np.zeros(0, np.uint32)
        _digest(ids, on, bits, start, begin, length, trained, prints)
        return trained, prints

    def _order(self, place: np.ndarray, document: np.ndarray) -> np.ndarray:
        """Put the pieces of a document together; return which of the documents with its id each piece belongs to."""
        self._together = order = np.lexsort((self.start, place))
        again = np.empty(len(place), np.int64)
        again[order] = _rank(_changes(place[order], self.start[order]))
        if not again.any():
            return again
        repeated = np.intersect1d(place[again > 0], place[self.start > 0])
        mine = order[np.isin(place[order], repeated)]
        # A loop over pieces: ids that repeat are rare, and those of them that are cut are rarer.
        again[mine] = _chained(
            *(column[mine].tolist() for column in (place, self.start, self.length[0], self.shard, document))
        )
        self._together = np.lexsort((self.start, again, place))
        return again

    def _join(self, place: np.ndarray, again: np.ndarray, trained: np.ndarray, prints: np.ndarray) -> None:
        order = self._together
        del self._together
        place, again = place[order], again[order]
        self.shard, self.row, self.start = self.shard[order], self.row[order], self.start[order]
        self.begin, self.length = self.begin[:, order], self.length[:, order]
        new = _changes(place, again)
        self.first = np.flatnonzero(new)
        self.last = np.append(self.first[1:], len(place))
        # Rows that are not packed are whole; where they are, all keys have the same lengths.
        expected = np.where(new, 0, np.roll(self.start + self.length[0], 1)) if len(place) else self.start
        self.torn = _by_document(np.logical_or, self.start != expected, self.first)
        self.tokens = _by_document(np.add, self.length, self.first)
        self.trained = _by_document(np.add, trained[:, order], self.first)
        self.prints = _by_document(np.add, prints[..., order], self.first)
        self.place, self.again = place[self.first], again[self.first]
        if self.again.any():
            self._pair_up()

    def _pair_up(self) -> None:
        """Number the documents of one id by their content, so that equal ones meet whatever the order they lie in."""
        order = np.lexsort((*self.prints[:, 1], *self.prints[:, 0], self.place))
        for name in ("first", "last", "torn", "place"):
            setattr(self, name, getattr(self, name)[order])
        self.tokens, self.trained, self.prints = self.tokens[:, order], self.trained[:, order], self.prints[..., order]
        self.again = _rank(_changes(self.place))

    def gather(self, key: int, documents: np.ndarray, limit: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return ids, mask and weights of the first `limit` tokens of some documents, behind each other."""
        pieces = _spread(self.first[documents], self.last[documents] - self.first[documents])
        most = np.repeat(limit, self.last[documents] - self.first[documents])
        take = np.clip(most - self.start[pieces], 0, self.length[key, pieces])
        into, total = np.cumsum(take) - take, int(take.sum())
        ids, mask, weight = np.zeros(total, np.int64), np.ones(total, bool), np.zeros(total, np.float32)
        for number in np.unique(self.shard[pieces]).tolist():
            mine = np.flatnonzero(self.shard[pieces] == number)
            for out, data in zip((ids, mask, weight), _flat(self.open(number), self.keys[key]), strict=True):
                if data is not None:
                    _copy(data, self.begin[key, pieces[mine]], take[mine], out, into[mine])
        return ids, mask, weight

    def spots(self, document: int, key: int) -> tuple[Spot, ...]:
        """Return where the pieces of a document lie."""
        found = []
        for at in range(int(self.first[document]), int(self.last[document])):
            number, row = int(self.shard[at]), int(self.row[at])
            shard = self.open(number)
            whole = row * shard.columns[self.keys[key]].shape[1] if shard.packed else int(self.begin[key, at])
            place, length = int(self.begin[key, at]) - whole, int(self.length[key, at])
            found.append(Spot(self.files[number], row, place, int(self.start[at]), length))
        return tuple(found)


def _chained(
    places: list[int], starts: list[int], lengths: list[int], shards: list[int], documents: list[int]
) -> list[int]:
    """Return which of the documents with its id each piece belongs to; pieces come ordered by place and start.

    A piece goes on where another ended, in the same document of the same shard if it can.

    Examples
    --------
    >>> _chained([1, 1, 1, 1], [0, 0, 1, 4], [4, 1, 5, 2], [0, 0, 0, 0], [0, 1, 1, 0])
    [0, 1, 1, 0]
    """
    out: list[int] = []
    ends: dict[int, list[tuple[int, int, int]]] = {}
    made, before = 0, None
    for place, start, length, shard, document in zip(places, starts, lengths, shards, documents, strict=True):
        if place != before:
            ends, made, before = {}, 0, place
        waiting = ends.get(start, []) if start else []
        at = next((at for at, (_, *where) in enumerate(waiting) if where == [shard, document]), 0)
        number = waiting.pop(at)[0] if waiting else made
        made += number == made
        ends.setdefault(start + length, []).append((number, shard, document))
        out.append(number)
    return out


def _places(shard: Shard, document: np.ndarray, sources: dict[str, int]) -> np.ndarray:
    """Return where each piece was read from as one number."""
    lines = shard.document_columns.get("line", np.zeros(0, np.int64))
    if len(document) and (document.min() < 0 or document.max() >= len(lines)):
        raise BadShard(
            f"shards/compare: {shard.path} does not say where row or piece {int(np.argmax(document))} was read from; "
            "documents can only be matched by that"
        )
    numbers = np.array([sources.setdefault(name, len(sources)) for name in shard.sources], np.int64)
    if not len(document):
        return np.zeros(0, np.int64)
    source = np.asarray(shard.document_columns["source"])[document]
    line = np.asarray(lines, np.int64)[document]
    if source.min() < 0 or source.max() >= len(numbers) or line.min() < 0 or line.max() >> _LINE:
        raise BadShard(f"shards/compare: a document of {shard.path} names a source or line there cannot be")
    return (numbers[source] << _LINE) | line


def _flat(shard: Shard, key: str) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Return ids, mask and weights of all rows behind each other; None: there is none."""
    ids = shard.columns[key].reshape(-1)
    out: list[np.ndarray | None] = []
    for name, kind in ((shard.mask_of(key), np.bool_), (_weight_of(shard, key), np.float32)):
        data = None if name is None else np.asarray(shard.columns[name].reshape(-1), kind)
        if data is not None and len(data) != len(ids):
            raise BadShard(f"shards/compare: {name} of {shard.path} has {len(data):,} values for {len(ids):,} of {key}")
        out.append(data)
    return ids, out[0], out[1]


# ---------------------------------------------------------------------------------------------------------------------
# Both folders: documents of the same place
# ---------------------------------------------------------------------------------------------------------------------


class _Pairs:
    """The documents both folders have, and how each pair differs.

    Attributes
    ----------
    one, other : (pairs,) int64
        Which documents of each folder.
    kind : (K, pairs) int8
        Index into `KINDS`.
    counted : (pairs, 5) int64, tokens
        Trained in neither, only one, only the other, both; with another weight.
    places : (2, 4) int64, tokens
        Targets of one side only, by `PLACES`.
    tokens : (Counter, Counter)
        The same, by id.
    """

    def __init__(self, left: _Folder, right: _Folder, weighted: bool) -> None:
        self.left, self.right, self.weighted = left, right, weighted
        self.one, self.other = _match(left, right)
        pairs, keys = len(self.one), len(left.keys)
        self.kind = np.zeros((keys, pairs), np.int8)
        self.counted = np.zeros((pairs, 5), np.int64)
        self.places = np.zeros((2, len(PLACES)), np.int64)
        self.tokens: tuple[Counter[int], Counter[int]] = Counter(), Counter()
        self.torn = left.torn[self.one] | right.torn[self.other]
        self.kind[:, self.torn] = KINDS.index("torn")
        for key in range(keys):
            self._compare(key)

    def _compare(self, key: int) -> None:
        left, right, one, other = self.left, self.right, self.one, self.other
        tokens, trained = left.tokens[key, one], left.trained[key, one]
        same = (tokens == right.tokens[key, other]) & (trained == right.trained[key, other]) & ~self.torn
        same &= (left.prints[key][:, one] == right.prints[key][:, other]).all(axis=0)
        self.counted[same, 3] += trained[same]
        self.counted[same, 0] += (tokens - trained)[same]
        rest = np.flatnonzero(~same & ~self.torn)
        # In the order they lie in, so that each shard is opened once for many of them.
        rest = rest[np.argsort(left.begin[key, left.first[one[rest]]], kind="stable")]
        rest = rest[np.argsort(left.shard[left.first[one[rest]]], kind="stable")]
        for low, high in _blocks(np.minimum(tokens, right.tokens[key, other])[rest]):
            self._look(key, rest[low:high])

    def _look(self, key: int, pairs: np.ndarray) -> None:
        """Compare some pairs token by token."""
        one, other = self.one[pairs], self.other[pairs]
        ends = self.left.tokens[key, one], self.right.tokens[key, other]
        size = np.minimum(*ends)
        sides = self.left.gather(key, one, size), self.right.gather(key, other, size)
        first, state, counts = _states(sides, size, self.weighted)
        self.counted[pairs] += counts
        kind = np.select(
            [first < size, ends[0] != ends[1], counts[:, 1] + counts[:, 2] > 0, counts[:, 4] > 0],
            [KINDS.index(name) for name in ("other_ids", "shorter", "other_mask", "other_weight")],
            0,
        )
        self.kind[key, pairs] = kind
        self._tally(sides[0][0], state, size)

    def _tally(self, ids: np.ndarray, state: np.ndarray, size: np.ndarray) -> None:
        """Count changed targets by id, and by what stands beside them."""
        start, stop, side = _changed_runs(state, size)
        owner = np.searchsorted(np.cumsum(size), start, side="right")
        edge = np.cumsum(size)[owner]
        behind = (start > (edge - size[owner])) & (state[start - 1] == 3)
        before = (stop < edge) & (state[np.minimum(stop, len(state) - 1)] == 3)
        where = (behind + 2 * before).astype(np.int64)
        for at in (0, 1):
            mine = side == at + 1
            tokens = np.bincount(where[mine], (stop - start)[mine], minlength=len(PLACES))
            self.places[at] += tokens.astype(np.int64)
            values, times = np.unique(ids[state == at + 1], return_counts=True)
            self.tokens[at].update(dict(zip(values.tolist(), times.tolist(), strict=True)))

    def alone(self, which: int) -> np.ndarray:
        """Return the documents only one folder has."""
        folder, paired = ((self.left, self.one), (self.right, self.other))[which]
        lonely = np.ones(len(folder.place), bool)
        lonely[paired] = False
        return np.flatnonzero(lonely)

    def counts(self, group: np.ndarray, groups: int) -> list[Counts]:
        """Sum by source; `group` says to which of `groups` sums each source belongs."""

        def summed(folder: _Folder, documents: np.ndarray, values: np.ndarray | None = None) -> np.ndarray:
            place = group[folder.place[documents] >> _LINE]
            return np.bincount(place, values, minlength=groups)[:groups].astype(np.int64)

        worst = self.kind.max(axis=0, initial=0)
        columns = {name: summed(self.left, self.one[worst == at]) for at, name in enumerate(KINDS)}
        for at, name in enumerate(("neither", "trained_one", "trained_other", "both", "weighted")):
            columns[name] = summed(self.left, self.one, self.counted[:, at])
        compared = sum(columns[name] for name in ("both", "trained_one", "trained_other", "neither"))
        for which, (folder, side) in enumerate(((self.left, "one"), (self.right, "other"))):
            every = np.arange(len(folder.place))
            columns[f"documents_{side}"] = summed(folder, every)
            columns[f"only_{side}"] = summed(folder, self.alone(which))
            columns[f"rest_{side}"] = summed(folder, every, folder.tokens.sum(axis=0)) - compared
        names = [field.name for field in fields(Counts)]
        return [Counts(**{name: int(columns[name][at]) for name in names}) for at in range(groups)]


def _match(left: _Folder, right: _Folder) -> tuple[np.ndarray, np.ndarray]:
    """Return the documents of each that have the same place and, where ids repeat, the same number in it."""
    _, number = np.unique(np.concatenate([left.place, right.place]), return_inverse=True)
    times = 1 + max(int(folder.again.max(initial=0)) for folder in (left, right))
    number = number.reshape(-1) * times + np.concatenate([left.again, right.again])
    ours, theirs = number[: len(left.place)], number[len(left.place) :]
    _, one, other = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    return one, other


def _states(
    sides: tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]], size: np.ndarray, weighted: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where the ids of each pair first differ, (pairs,); who trains each token; and the counts of that.

    A token's state is 0: nobody, 1: only one, 2: only the other, 3: both, -1: not compared. Counts are (pairs, 5): one
    a state, and tokens both train with another weight.
    """
    first, counts = size.copy(), np.zeros((len(size), 5), np.int64)
    state = np.full(int(size.sum()), -1, np.int8)
    _judge(*sides[0], *sides[1], weighted, size, first, state, counts)
    return first, state, counts


def _changed_runs(state: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the runs of tokens only one side trains: start, stop and which side, 1 or 2; none goes over two documents.

    Examples
    --------
    >>> [column.tolist() for column in _changed_runs(np.array([3, 1, 1, 2, 0, 1, 1]), np.array([6, 1]))]
    [[1, 3, 5, 6], [3, 4, 6, 7], [1, 2, 1, 1]]
    """
    at = np.flatnonzero((state == 1) | (state == 2))
    owner = np.searchsorted(np.cumsum(size), at, side="right")
    new = _changes(at - np.arange(len(at)), state[at], owner)
    start = at[new]
    stop = start + np.diff(np.append(np.flatnonzero(new), len(at)))
    return start, stop, state[start]


def _commonest(tokens: tuple[Counter[int], Counter[int]], limit: int) -> tuple[tuple[int, int, int], ...]:
    both = tokens[0] + tokens[1]
    ordered = sorted(both, key=lambda token: (-both[token], token))[:limit]
    return tuple((token, tokens[0][token], tokens[1][token]) for token in ordered)


# ---------------------------------------------------------------------------------------------------------------------
# Examples
# ---------------------------------------------------------------------------------------------------------------------


def _examples(pairs: _Pairs, names: list[str], limit: int, seed: int) -> Iterator[Example]:
    """Yield drawn examples, each kind in its turn: masks first, then weights, lengths, ids, and what is alone."""
    worst = pairs.kind.max(axis=0, initial=0)
    kinds = ("other_mask", "other_weight", "shorter", "other_ids", "torn", "only_one", "only_other")
    found = [np.flatnonzero(worst == KINDS.index(name)) for name in kinds[:5]] + [pairs.alone(0), pairs.alone(1)]
    drawn = [stream(seed, "compare", at).permutation(documents)[:limit].tolist() for at, documents in enumerate(found)]
    turns = ((rank, at) for at, documents in enumerate(drawn) for rank in range(len(documents)))
    for rank, at in sorted(turns)[:limit]:
        yield _example(pairs, names, kinds[at], drawn[at][rank])


def _example(pairs: _Pairs, names: list[str], kind: str, at: int) -> Example:
    left, right = pairs.left, pairs.right
    if kind in ("only_one", "only_other"):
        folder, side = (left, "one") if kind == "only_one" else (right, "other")
        told: dict[str, Any] = {side: folder.spots(at, 0)}
        return Example(_document(names, int(folder.place[at])), kind, left.keys[0], **told)
    key = int(np.argmax(pairs.kind[:, at]))
    one, other = int(pairs.one[at]), int(pairs.other[at])
    found = Example(
        _document(names, int(left.place[one])), kind, left.keys[key], one=left.spots(one, key),
        other=right.spots(other, key),
    )  # fmt: skip
    return found if kind == "torn" else _located(pairs, key, one, other, found)


def _located(pairs: _Pairs, key: int, one: int, other: int, found: Example) -> Example:
    """Add the places where a document differs."""
    left, right = pairs.left, pairs.right
    size = np.minimum(left.tokens[key, [one]], right.tokens[key, [other]])
    sides = left.gather(key, np.array([one]), size), right.gather(key, np.array([other]), size)
    first, state, _ = _states(sides, size, pairs.weighted)
    start, stop, side = _changed_runs(state, size)
    runs = [tuple(zip(start[side == at].tolist(), stop[side == at].tolist(), strict=True)) for at in (1, 2)]
    differs = int(first[0]) if found.kind in ("shorter", "other_ids") else None
    return replace(found, first=differs, trained_one=runs[0][:_SPANS], trained_other=runs[1][:_SPANS])


def _document(names: list[str], place: int) -> str:
    """Return the id of a document as `Shard.document` does."""
    name, line = names[place >> _LINE], place & ((1 << _LINE) - 1)
    return f"{name}[{line}]" if name.endswith(".parquet") else f"{name}#L{line}"


# ---------------------------------------------------------------------------------------------------------------------
# Manifests
# ---------------------------------------------------------------------------------------------------------------------


def _settings(left: _Folder, right: _Folder) -> Iterator[Setting]:
    one, other = _told(left), _told(right)
    for name in dict.fromkeys([*one, *other]):
        if one.get(name) != other.get(name):
            yield Setting(name, one.get(name), other.get(name))
    inputs = [list(dict.fromkeys(folder.manifest["parents"])) for folder in (left, right)]
    if set(inputs[0]) != set(inputs[1]):
        yield Setting("parents", *([name for name in a if name not in b] for a, b in (inputs, inputs[::-1])))
    if left.arrays != right.arrays:
        yield Setting("arrays", left.arrays, right.arrays)


def _told(folder: _Folder) -> dict[str, Any]:
    """Return what a manifest says of how the shards were made, one name a value."""
    kept = {name: value for name, value in folder.manifest.items() if name not in _RESULTS}
    if isinstance(kept["packing"], Mapping):
        kept["packing"] = {name: value for name, value in kept["packing"].items() if name not in _PACKED_RESULTS}
    return dict(_flattened("", kept))


def _flattened(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Spell a nested mapping as one.

    Examples
    --------
    >>> dict(_flattened("", {"seed": 1, "packing": {"tail": "pad"}}))
    {'seed': 1, 'packing.tail': 'pad'}
    """
    if not isinstance(value, Mapping) or not value:
        yield name, value
        return
    for part, inner in value.items():
        yield from _flattened(f"{name}.{part}" if name else str(part), inner)


# ---------------------------------------------------------------------------------------------------------------------
# Arrays
# ---------------------------------------------------------------------------------------------------------------------


@kernel
def _digest(ids, mask, weight, starts, begins, lengths, trained, prints):  # type: ignore[no-untyped-def]
    """Sum 64 well mixed bits of every token and its place in the document: the same sum whatever the cuts."""
    for at in range(len(begins)):
        for offset in range(lengths[at]):
            place = begins[at] + offset
            mixed = np.uint64(ids[place]) * _A + np.uint64(starts[at] + offset + 1) * _B
            mixed = (mixed ^ (mixed >> _SHIFT)) * _C
            mixed ^= mixed >> _SHIFT
            prints[0, at] += mixed
            if len(mask) == 0 or mask[place]:
                trained[at] += 1
                prints[1, at] += mixed
                if len(weight):
                    weighed = (mixed + np.uint64(weight[place])) * _A
                    prints[2, at] += weighed ^ (weighed >> _SHIFT)


@kernel
def _copy(source, begins, lengths, target, places):  # type: ignore[no-untyped-def]
    for at in range(len(begins)):
        for offset in range(lengths[at]):
            target[places[at] + offset] = source[begins[at] + offset]


@kernel
def _judge(  # type: ignore[no-untyped-def]
    ids, mask, weight, other_ids, other_mask, other_weight, weighted, size, first, state, counts
):
    """Fill what `_states` returns."""
    at = 0
    for pair in range(len(size)):
        for place in range(at, at + size[pair]):
            if ids[place] != other_ids[place]:
                first[pair] = place - at
                break
            now = 1 * mask[place] + 2 * other_mask[place]
            state[place] = now
            counts[pair, now] += 1
            if now == 3 and weighted and weight[place] != other_weight[place]:
                counts[pair, 4] += 1
        at += size[pair]


def _spread(begin: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return every number of some ranges.

    Examples
    --------
    >>> _spread(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    return np.repeat(begin - (np.cumsum(length) - length), length) + np.arange(int(length.sum()))


def _by_document(how: np.ufunc, values: np.ndarray, first: np.ndarray) -> np.ndarray:
    return how.reduceat(values, first, axis=-1) if len(first) else values[..., :0]


def _changes(*columns: np.ndarray) -> np.ndarray:
    """Return where any column has another value than before, the first place among them."""
    new = np.ones(len(columns[0]), bool)
    new[1:] = False
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return new


def _rank(new: np.ndarray) -> np.ndarray:
    """Return how many places each one is behind the last True.

    Examples
    --------
    >>> _rank(np.array([True, False, True, False, False])).tolist()
    [0, 1, 0, 1, 2]
    """
    starts = np.flatnonzero(new)
    return np.arange(len(new)) - np.repeat(starts, np.diff(np.append(starts, len(new))))


def _blocks(length: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield ranges that hold about `_BLOCK` tokens, one document at least."""
    ends, low = np.cumsum(length), 0
    while low < len(length):
        before = int(ends[low - 1]) if low else 0
        high = max(int(np.searchsorted(ends, before + _BLOCK, side="right")), low + 1)
        yield low, high
        low = high
