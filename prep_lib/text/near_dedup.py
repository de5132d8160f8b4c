"""Almost the same text twice: candidates by MinHash and bands, every drop proven against a document that stays.

document ──▶ shingles ──▶ signature (128 minima) ──▶ 16 bands of 6 ──▶ documents that share a band are candidates
                                                         in order of priority, each against those that stay already:
A stays    B: exact J(A, B) = 0.91, drops, twin A    C: exact J(A, C) = 0.62, stays (that J(B, C) = 0.85 is no reason)

found
1 │          ▁▄▇███   1 - (1 - J^rows)^bands: the share of pairs the bands find, 99 % of them at the threshold
0 │▁▁▁▁▁▁▂▃▅▇
  └────────────────
  0               1 J
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, ClassVar

import numpy as np

from prep_lib.documents import id_hash
from prep_lib.errors import BadParameter
from prep_lib.jit import kernel
from prep_lib.record import Document, Drop
from prep_lib.seeds import key, stream
from prep_lib.stage import Sketched
from prep_lib.text.exact_dedup import check_keep, first8, priority
from prep_lib.text.shingles import (
    ascii_table,
    character_table,
    cut_shingles,
    parse_shingle,
    read_shingles,
    shingle_hashes,
    utf8,
)

#: For kernels: to mypy a number of numpy is no int.
i64: Any = np.int64
u64: Any = np.uint64
u32: Any = np.uint32

#: Chance that a pair right at the threshold is taken for less by its signature, and not compared.
MISSED = 1e-4
#: See `settle`.
MANY = 64
#: Bytes of a table, at most. A full one answers less, never wrongly.
ROOM = 1 << 26
_MIX: Any = np.uint64(0xD6E8FEB86659FD93)

Evidence = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class NearDedup:
    """Drop documents that are almost another one that stays; a corpus stage.

    Documents go in order of priority. Each is compared with those that stay already and share a band with it, and goes
    only if the exact Jaccard similarity with one of them reaches the threshold: its twin is the one of highest
    priority among those. So one of each cluster stays, nothing goes for being like a document that itself went, and no
    two documents that stay could still drop each other by a second round.

    Parameters
    ----------
    threshold : float, above 0 to 1
        Jaccard similarity of the shingle sets; 1.0 means equal sets.
    shingle : str
        ``word5``, ``char5``, …: see `shingle_hashes`. A document shorter than a shingle is compared whole.
    num_perm : int, minima in a signature
    recall : float, 0 to 1
        Share of pairs right at the threshold that the bands must find; more is found above it.
    bands, rows : int or None
        None: the pair with the fewest false candidates that reaches `recall`, see `choose_bands`.
    keep : str
        ``best``: the longest document, then the smallest sha256 of its text, then of its id hash. ``first``: the first
        of the input.
    seed : int

    Drops
    -----
    ``near_duplicate`` with the similarity, the threshold and the twin.

    Raises
    ------
    BadParameter
        If a parameter is out of range, or no bands of `num_perm` minima reach `recall` at `threshold`.

    Notes
    -----
    Shingles are compared as 64-bit hashes, see `shingle_hashes`. A pair right at the threshold is not compared with a
    chance of 1 - `recall`, or because its signature says far less (1e-4).

    Source
    ------
    MinHash: Broder 1997. Bands: Indyk & Motwani 1998; Leskovec, Rajaraman & Ullman, Mining of Massive Datasets, 3.4.

    Examples
    --------
    >>> from prep_lib.stage import run
    >>> text = "one two three four five six seven eight nine ten eleven twelve"
    >>> docs = [Document("a", text), Document("b", text + " more"), Document("c", "something else")]
    >>> result = run([NearDedup(shingle="word2")], docs)
    >>> [doc.id for doc in result.kept], result.dropped[0].drop.twin, round(result.dropped[0].drop.value, 3)
    (['b', 'c'], 'b', 0.917)
    """

    name: ClassVar[str] = "near_dedup"
    reasons: ClassVar[tuple[str, ...]] = ("near_duplicate",)
    #: What sketches do not depend on: moved, no text is read again.
    decides: ClassVar[tuple[str, ...]] = ("threshold", "recall", "bands", "rows", "keep")

    threshold: float = 0.8
    shingle: str = "word5"
    num_perm: int = 128
    recall: float = 0.99
    bands: int | None = None
    rows: int | None = None
    keep: str = "best"
    seed: int = 42

    def __post_init__(self) -> None:
        check_threshold(self.threshold)
        parse_shingle(self.shingle)
        check_keep("near_dedup", self.keep)
        _check_whole("num_perm", self.num_perm, 1, 4096)
        _check_whole("seed", self.seed, 0, 2**63)
        if (self.bands is None) != (self.rows is None):
            raise BadParameter("text/near_dedup: give both bands and rows, or neither")
        if self.bands is None:
            bands, rows = choose_bands(self.threshold, self.num_perm, self.recall)
            object.__setattr__(self, "bands", bands)
            object.__setattr__(self, "rows", rows)
        assert self.bands is not None
        assert self.rows is not None
        _check_whole("bands", self.bands, 1, self.num_perm)
        _check_whole("rows", self.rows, 1, self.num_perm // self.bands)

    @property
    def row(self) -> np.dtype[Any]:
        """A row a document: priority, its template, and the signature."""
        return _row(self.num_perm)

    def sketch(self, doc: Document) -> np.ndarray:
        """Return the row of a document, (1,)."""
        return self.sketch_many([doc])[0]

    def sketch_many(self, docs: Sequence[Document]) -> list[np.ndarray]:
        """Return the row of each document, (1,): one call of a kernel for all, because many documents are short."""
        out, (by, size) = np.zeros(len(docs), self.row), parse_shingle(self.shingle)
        raw, permuted = list(map(utf8, docs)), permutations(self.seed, self.num_perm)
        counts, templates = np.empty(len(docs), np.int64), np.empty(len(docs), np.uint64)
        signatures = np.empty((len(docs), self.num_perm), np.uint32)
        room = max(map(len, raw), default=0) // (1 if by == "char" else 2) + 1
        sign_texts(
            np.frombuffer(b"".join(raw), np.uint8), np.cumsum(list(map(len, raw))), size, by == "char", ascii_table(),
            character_table(), np.empty(room, np.uint64), *permuted, counts, templates, signatures,
        )  # fmt: skip
        for at in np.flatnonzero(counts < 0).tolist():
            hashes, templates[at] = read_shingles(docs[at], self.shingle)
            counts[at] = len(hashes)
            sign(hashes, *permuted, signatures[at])
        out["characters"], out["tie"] = [len(doc.text) for doc in docs], list(map(first8, raw))
        out["id"], out["template"] = [id_hash(doc.id) for doc in docs], templates
        out["shingles"], out["signature"] = counts, signatures
        return [out[at : at + 1] for at in range(len(docs))]

    def evidence(self, doc: Document) -> np.ndarray:
        """Return the document's shingle hashes, (m,) uint64, sorted, each once."""
        return shingle_hashes(doc, self.shingle, unique=True)

    def keys(self, rows: np.ndarray) -> np.ndarray:
        """Return (n, bands) uint64: a hash for each band; 0 where a document has no shingle and meets nobody."""
        assert self.bands is not None
        assert self.rows is not None
        out = np.zeros((len(rows), self.bands), np.uint64)
        band_keys(*_signatures(rows), rows["shingles"].copy(), self.rows, out)
        return out

    def decide(self, seen: Sketched) -> Mapping[int, Drop]:
        """Return the verdicts, by place."""
        rows = seen.rows.copy()
        rows["place"] = seen.owner
        starts, members = groups(self.keys(rows), seen.owner)
        shown = collect(members, len(rows), seen.evidence)
        twin, jaccard = settle(rows, starts, members, shown, self.threshold, keep=self.keep)
        return {
            place: Drop("near_duplicate", float(jaccard[place]), self.threshold, seen.ids[twin[place]])
            for place in np.flatnonzero(twin >= 0).tolist()
        }

    def rehearse(
        self,
        rows: np.ndarray,
        sources: np.ndarray | None = None,
        *,
        evidence: Callable[[int], np.ndarray | None] | None = None,
        thresholds: Sequence[float] = (0.6, 0.7, 0.8, 0.9, 1.0),
        largest: int = 20,
    ) -> Rehearsal:
        """Return who would go at other thresholds, from the signatures of all documents.

        Parameters
        ----------
        rows : (n,) of `row`
            Of all documents: duplicates in a sample of them say nothing about the whole.
        sources : (n,) whole numbers >= 0, or None
            The source of each. None: all are of source 0.
        evidence : callable of int, or None
            Index into `rows` -> shingle hashes, as the method `evidence` gives them, asked for documents that share a
            band with another: the figures are those of a real run. None: similarity as the signatures estimate it. Of a
            large family a little below a threshold too many go then: each has many chances of a lucky signature.
        thresholds : sequence of float
            Each with bands chosen for it by `recall`; the stage's own is always among them, with its own bands.
        largest : int
            How many of the largest clusters and families are told.

        Returns
        -------
        Rehearsal
        """
        codes = np.zeros(len(rows), np.int64) if sources is None else np.asarray(sources)
        documents = np.bincount(codes)
        tried = sorted({*thresholds, self.threshold})
        dropped, own = np.zeros((len(tried), len(documents)), np.int64), np.empty(0, np.int64)
        asked = cache(evidence) if evidence else None
        for at, threshold in enumerate(tried):
            stage = self if threshold == self.threshold else self._at(threshold)
            met = groups(stage.keys(rows), np.arange(len(rows)))
            shown = collect(met[1], len(rows), asked) if asked else None
            twin, _ = settle(rows, *met, shown, threshold, keep=self.keep)
            dropped[at] = np.bincount(codes[twin >= 0], minlength=len(documents))
            own = twin if stage is self else own
        found = families(rows)
        return Rehearsal(
            self.threshold, tuple(tried), documents, dropped, clusters(own, largest), found[:largest], len(found),
            sum(map(len, found)),
        )  # fmt: skip

    def _at(self, threshold: float) -> NearDedup:
        return replace(self, threshold=threshold, bands=None, rows=None)

    def truth(
        self,
        rows: np.ndarray,
        evidence: Callable[[int], np.ndarray | None],
        *,
        anchors: int = 100,
        floor: float = 0.4,
    ) -> np.ndarray:
        """Return exact similarities of pairs, found by the bands or not: points to lay on the curve.

        A sample of documents is compared with all others by signature; where that says `floor` or more, exactly.

        Parameters
        ----------
        rows : (n,) of `row`
        evidence : callable of int
            Index into `rows` -> shingle hashes, as `evidence` gives them.
        anchors : int, documents
            Drawn by `seed` and id, whatever the order: those of the smallest hash.
        floor : float
            Pairs whose signatures say less are left out.

        Returns
        -------
        (p,) structured
            ``anchor``, ``other`` (indices into `rows`; a pair of two anchors once), ``estimate``, ``jaccard``,
            ``found``. Ascending by `jaccard`.
        """
        told = np.flatnonzero(rows["shingles"] > 0)
        drawn = [key(self.seed, "truth", int(name).to_bytes(8, "little")) for name in rows["id"][told].tolist()]
        chosen = told[np.lexsort([rows["id"][told], np.array(drawn, np.uint64)])[:anchors]]
        pairs = _similar(rows, told, chosen, math.ceil(floor * self.num_perm))
        out = np.zeros(len(pairs), PAIR)
        asked = cache(evidence)
        for name, column in zip(("anchor", "other", "estimate"), pairs.T, strict=True):
            out[name] = column
        out["estimate"] /= self.num_perm
        for pair in out:
            one, two = map(asked, pair.item()[:2])
            pair["jaccard"] = math.nan if one is None or two is None else exact_jaccard(one, two)
        out["found"] = (self.keys(rows[out["anchor"]]) == self.keys(rows[out["other"]])).any(axis=1)
        out = out[~np.isnan(out["jaccard"])]
        return out[np.argsort(out["jaccard"], kind="stable")]


# Before anything is decided

#: A pair of documents as `NearDedup.truth` tells it.
PAIR = np.dtype([("anchor", "<i8"), ("other", "<i8"), ("estimate", "<f8"), ("jaccard", "<f8"), ("found", "?")])


@dataclass(frozen=True)
class Rehearsal:
    """Who would go at which threshold.

    Parameters
    ----------
    threshold : float
        The stage's own.
    thresholds : tuple of float
        Ascending.
    documents : (s,) int64
        How many there are, by source.
    dropped : (t, s) int64
        How many would go, by threshold and source.
    clusters : tuple of (int, int)
        The largest at the stage's own threshold: the row that stays, and how many go in its favour.
    families : tuple of (k,) int64 arrays
        The largest: rows whose texts differ only in numbers. Whether they go is decided by their similarity alone.
    family_count, family_documents : int
        How many families there are, and documents in them.
    """

    threshold: float
    thresholds: tuple[float, ...]
    documents: np.ndarray
    dropped: np.ndarray
    clusters: tuple[tuple[int, int], ...]
    families: tuple[np.ndarray, ...]
    family_count: int
    family_documents: int

    def shares(self, threshold: float | None = None) -> np.ndarray:
        """Return the share of each source that would go, (s,) float64; None: at the stage's own threshold."""
        at = self.thresholds.index(self.threshold if threshold is None else threshold)
        return self.dropped[at] / np.maximum(self.documents, 1)

    def alarms(self, limit: float = 0.5, threshold: float | None = None) -> np.ndarray:
        """Return the sources that would lose more than `limit` of their documents, the hardest hit first."""
        shares = self.shares(threshold)
        hit = np.flatnonzero(shares > limit)
        return hit[np.argsort(-shares[hit], kind="stable")]


def clusters(twin: np.ndarray, largest: int) -> tuple[tuple[int, int], ...]:
    """Return the rows in whose favour most go, and how many, the largest first.

    Examples
    --------
    >>> clusters(np.array([-1, 0, 0, -1, 3, -1]), 2)
    ((0, 2), (3, 1))
    """
    rows, counts = np.unique(twin[twin >= 0], return_counts=True)
    order = np.lexsort([rows, -counts])[:largest]
    return tuple(zip(rows[order].tolist(), counts[order].tolist(), strict=True))


def sampled(rows: np.ndarray, share: float) -> np.ndarray:
    """Choose a share of documents so that those that are alike are chosen together: a band of one row, sampled.

    The first hash of a signature is the same in two documents with the probability of their similarity, so a pair with
    a similarity of 0.8 is chosen whole in four of five cases in which one of them is.

    Parameters
    ----------
    rows : (n,) of `NearDedup.row`
    share : float
        From 0 to 1.

    Returns
    -------
    (n,) bool
    """
    # Spread over all numbers, because the least of many hashes is small: long documents would come more often.
    spread = rows["signature"][:, 0].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray((spread >> np.uint64(11)).astype(np.float64) < share * 2.0**53)


def families(rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return rows whose texts differ only in their digits, as families of two different texts or more, largest first.

    Examples
    --------
    >>> stage = NearDedup()
    >>> texts = ["Route 12 (R 12)", "Route 7 (R 7)", "Route 12 (R 12)", "Street"]
    >>> rows = np.concatenate([stage.sketch(Document(str(at), text)) for at, text in enumerate(texts)])
    >>> [family.tolist() for family in families(rows)]
    [[0, 1, 2]]
    """
    told = np.flatnonzero(rows["shingles"] > 0)
    order = told[np.lexsort([told, rows["tie"][told], rows["template"][told]])]
    template, tie = rows["template"][order], rows["tie"][order]
    starts = np.flatnonzero(np.r_[len(order) > 0, template[1:] != template[:-1]])
    stops = np.r_[starts[1:], len(order)]
    # Sorted by text inside a family: it has two of them if the first and the last differ.
    many = tie[starts] != tie[stops - 1] if len(order) else np.zeros(0, bool)
    found = [np.sort(order[start:stop]) for start, stop in zip(starts[many], stops[many], strict=True)]
    return tuple(sorted(found, key=lambda family: (-len(family), family[0])))


def exact_jaccard(one: np.ndarray, two: np.ndarray) -> float:
    """Return the Jaccard similarity of two sets of hashes, sorted, each once; 0 where both are empty.

    Examples
    --------
    >>> exact_jaccard(np.array([1, 2, 3], np.uint64), np.array([2, 3, 4], np.uint64))
    0.5
    """
    both = len(np.intersect1d(one, two, assume_unique=True))
    return both / max(len(one) + len(two) - both, 1)


def _similar(rows: np.ndarray, told: np.ndarray, chosen: np.ndarray, least: int) -> np.ndarray:
    """Return (anchor, other, equal minima) of pairs with `least` equal minima or more, (p, 3) int64."""
    plain, begin, end = _signatures(rows)
    counts, out = np.empty(len(told), np.int64), [np.empty((0, 3), np.int64)]
    for at, anchor in enumerate(chosen.tolist()):
        count_matches(plain, begin, end, anchor, told, counts)
        others = np.flatnonzero(counts >= least)
        others = others[~np.isin(told[others], chosen[: at + 1])]
        out.append(np.stack([np.full(len(others), anchor), told[others], counts[others]], axis=1))
    return np.concatenate(out)


@kernel
def count_matches(plain: Any, begin: Any, end: Any, anchor: Any, others: Any, out: Any) -> None:
    """Write how many minima the signature of one row shares with those of others."""
    for k in range(len(others)):
        same, y = u32(0), others[k]
        for j in range(begin, end):
            same += u32(plain[anchor, j] == plain[y, j])
        out[k] = same


# Bands


def curve(bands: int, rows: int, similarity: Any) -> Any:
    """Return the share of pairs of a similarity that share at least one band.

    Examples
    --------
    >>> round(curve(9, 13, 0.8), 2), round(curve(16, 6, 0.8), 3)
    (0.4, 0.992)
    """
    return 1 - (1 - similarity**rows) ** bands


@lru_cache
def choose_bands(threshold: float, num_perm: int = 128, recall: float = 0.99) -> tuple[int, int]:
    """Return the bands and rows that find `recall` of the pairs at the threshold with the fewest false candidates.

    False candidates are counted as the area under the curve below the threshold.

    Raises
    ------
    BadParameter
        If no bands of so few minima find so many.

    Examples
    --------
    >>> choose_bands(0.8), choose_bands(0.5), choose_bands(1.0)
    ((16, 6), (35, 3), (1, 128))
    """
    check_threshold(threshold)
    if not isinstance(recall, int | float) or isinstance(recall, bool) or not 0 < recall < 1:
        raise BadParameter(f"text/near_dedup: recall must lie above 0 and below 1, got {recall!r}")
    grid = np.linspace(0, threshold, 513)
    best: tuple[float, int, int] | None = None
    for rows in range(1, num_perm + 1):
        hit = threshold**rows
        bands = 1 if hit >= recall else math.ceil(math.log1p(-recall) / math.log1p(-hit) - 1e-9)
        if bands * rows > num_perm:
            # Longer rows need more bands yet.
            break
        found = (float(curve(bands, rows, grid).sum()), bands, rows)
        best = min(best, found) if best else found
    if best is None:
        raise BadParameter(
            f"text/near_dedup: no bands of {num_perm} minima find {recall:.4g} of the pairs at {threshold:.4g}; "
            "use a larger num_perm, a lower recall or a higher threshold"
        )
    return best[1], best[2]


def check_threshold(threshold: object) -> None:
    """Refuse what is no similarity a document could be dropped by."""
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold <= 1:
        raise BadParameter(
            f"text/near_dedup: threshold must lie above 0 and not above 1 (1: equal shingle sets), got {threshold!r}"
        )


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BadParameter(f"text/near_dedup: {name} must be a whole number from {low} to {high}, got {value!r}")


# Signatures


@lru_cache
def _row(num_perm: int) -> np.dtype[Any]:
    return np.dtype(
        [
            ("characters", "<i8"),  # of the raw document
            ("tie", "<u8"),  # its sha256, first 8 bytes
            ("id", "<u8"),  # its id, hashed
            ("place", "<i8"),  # where it stands among all; filled in by the caller, and read by keep="first"
            ("template", "<u8"),  # the text without its digits, hashed
            ("shingles", "<i8"),  # with repeats; 0: none, it is like nothing
            ("signature", "<u4", (num_perm,)),
        ]
    )


@lru_cache
def permutations(seed: int, num_perm: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the factors (odd) and the terms of the hash functions, (num_perm,) uint32 each."""
    raw = stream(seed, "near_dedup").bit_generator.random_raw(2 * num_perm)
    drawn = (raw >> u64(32)).astype(np.uint32)
    return drawn[:num_perm] | u32(1), drawn[num_perm:]


@kernel
def sign_texts(
    data: Any, ends: Any, size: Any, by_char: Any, plain: Any, kinds: Any, hashes: Any, factors: Any, terms: Any,
    counts: Any, templates: Any, signatures: Any,
) -> None:  # fmt: skip
    """Cut texts that stand behind each other as UTF-8, and sign what `cut_shingles` makes of each.

    Parameters
    ----------
    data, size, by_char, plain, kinds
        See `cut_shingles`.
    ends : (n,) int64, bytes
    hashes : (room,) uint64
        Room for the shingles of the longest text.
    factors, terms : (num_perm,) uint32
    counts, templates : (n,) int64 and uint64
        Written: what `cut_shingles` returns.
    signatures : (n, num_perm) uint32
        Written, but for texts with a count of -1.
    """
    begin = i64(0)
    for k in range(len(ends)):
        counts[k], templates[k] = cut_shingles(data[begin : ends[k]], size, by_char, plain, kinds, hashes)
        if counts[k] >= 0:
            sign(hashes[: counts[k]], factors, terms, signatures[k])
        begin = ends[k]


@kernel
def sign(hashes: Any, factors: Any, terms: Any, out: Any) -> None:
    """Write the minima of ``factor * hash + term mod 2**32`` over the upper halves of the hashes.

    The product of two uint32 is a uint64 to numba: it is cut back at once, or the minima would be no minima of 32 bits.

    Parameters
    ----------
    hashes : (m,) uint64
    factors, terms, out : (n,) uint32
    """
    for j in range(len(out)):
        out[j] = u32(0xFFFFFFFF)
    m = len(hashes)
    k = 0
    # Four at a time: half of the cost of one is to load and store the minima.
    while k + 4 <= m:
        a, b = u32(hashes[k] >> u64(32)), u32(hashes[k + 1] >> u64(32))
        c, d = u32(hashes[k + 2] >> u64(32)), u32(hashes[k + 3] >> u64(32))
        for j in range(len(out)):
            factor, term = factors[j], terms[j]
            first = min(u32(factor * a + term), u32(factor * b + term))
            second = min(u32(factor * c + term), u32(factor * d + term))
            out[j] = min(out[j], min(first, second))
        k += 4
    while k < m:
        a = u32(hashes[k] >> u64(32))
        for j in range(len(out)):
            out[j] = min(out[j], u32(factors[j] * a + terms[j]))
        k += 1


def _signatures(rows: np.ndarray) -> tuple[np.ndarray, int, int]:
    """Return rows as (n, words) uint32, and where in them the signature begins and ends."""
    assert rows.dtype.fields is not None
    plain = np.ascontiguousarray(rows).view(np.uint32).reshape(len(rows), rows.dtype.itemsize // 4)
    return np.asarray(plain), rows.dtype.fields["signature"][1] // 4, plain.shape[1]


@kernel
def band_keys(plain: Any, begin: Any, end: Any, shingles: Any, per_band: Any, out: Any) -> None:
    """Write a hash for each band of each signature; never 0, and leave those of documents without shingles alone."""
    for i in range(len(out)):
        if shingles[i] == 0:
            continue
        for band in range(out.shape[1]):
            hashed = (u64(band) + u64(1)) * _MIX
            for k in range(per_band):
                hashed = (hashed ^ u64(plain[i, begin + band * per_band + k])) * _MIX
                hashed ^= hashed >> u64(32)
            hashed *= _MIX
            out[i, band] = max(hashed ^ (hashed >> u64(29)), u64(1))


# Groups


def groups(keys: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the documents that share a band.

    Parameters
    ----------
    keys : (n, bands) or (m,) uint64
        Of all documents, or all keys of one part of the range of keys. 0 is no key.
    places : (n,) or (m,) int64
        The document of each row, or of each key.

    Returns
    -------
    starts : (g + 1,) int64
        Group ``k`` is ``members[starts[k]:starts[k + 1]]``, in order of the keys.
    members : (m,) int64
        Two places or more a group, ascending, each once.

    Examples
    --------
    >>> starts, members = groups(np.array([[7, 5], [8, 5], [7, 0]], np.uint64), np.array([10, 11, 12]))
    >>> starts.tolist(), members.tolist()
    ([0, 2, 4], [10, 11, 10, 12])
    """
    flat = np.ascontiguousarray(keys).reshape(-1)
    # Most keys stand alone: they are left out before anything is sorted.
    again = np.zeros(len(flat), bool)
    mark(flat, np.zeros(min(ROOM, 1 << (4 * len(flat)).bit_length()), np.uint8), again)
    at = np.flatnonzero(again)
    flat, places = flat[at], places[at // (keys.shape[1] if keys.ndim == 2 else 1)].astype(np.int64)
    order = np.lexsort([places, flat])
    starts, members = np.empty((2, len(flat) + 1), np.int64)
    found, used = gather(flat[order], places[order], starts, members)
    return starts[: found + 1].copy(), members[:used].copy()


@kernel
def mark(keys: Any, counts: Any, out: Any) -> None:
    """Write which keys there may be two of: all there are, and a few that share a slot of `counts` with another."""
    mask = u64(len(counts) - 1)
    for k in range(len(keys)):
        slot = i64(keys[k] & mask)
        if counts[slot] < 2:
            counts[slot] += 1
    for k in range(len(keys)):
        out[k] = counts[i64(keys[k] & mask)] > 1 and keys[k] != u64(0)


@kernel
def gather(keys: Any, places: Any, starts: Any, members: Any) -> tuple[Any, Any]:
    """Write the places of equal keys, each once, where there are two or more; return how many groups and places.

    Parameters
    ----------
    keys, places : (m,)
        In order of the keys, and of the places inside one key.
    starts, members : (m,) int64
    """
    found, used, i = i64(0), i64(0), i64(0)
    starts[0] = 0
    while i < len(keys):
        begin, first = used, i
        while i < len(keys) and keys[i] == keys[first]:
            if i == first or places[i] != places[i - 1]:
                members[used] = places[i]
                used += 1
            i += 1
        if used - begin > 1:
            found += 1
            starts[found] = used
        else:
            used = begin
    return found, used


def components(starts: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which documents hang together by groups, however far apart: parts that can be settled by themselves.

    Returns
    -------
    places : (k,) int64
        The documents in any group, ascending.
    labels : (k,) int64
        The smallest place of the part each belongs to.

    Examples
    --------
    >>> places, labels = components(np.array([0, 2, 4, 6]), np.array([1, 4, 2, 3, 4, 9]))
    >>> places.tolist(), labels.tolist()
    ([1, 2, 3, 4, 9], [1, 2, 2, 1, 1])
    """
    places = np.unique(members)
    parents = np.arange(len(places))
    unite(starts, np.searchsorted(places, members), parents)
    return places, places[parents]


@kernel
def unite(starts: Any, members: Any, parents: Any) -> None:
    """Write for each member the smallest one it hangs together with."""
    for group in range(len(starts) - 1):
        first = members[starts[group]]
        while parents[first] != first:
            parents[first] = parents[parents[first]]
            first = parents[first]
        for k in range(starts[group] + 1, starts[group + 1]):
            other = members[k]
            while parents[other] != other:
                parents[other] = parents[parents[other]]
                other = parents[other]
            if other < first:
                parents[first] = other
                first = other
            else:
                parents[other] = first
    # A parent is never larger than its child, so one pass in order leads each to the smallest.
    for k in range(len(parents)):
        parents[k] = parents[parents[k]]


# Who stays


def collect(members: np.ndarray, count: int, evidence: Callable[[int], np.ndarray | None]) -> Evidence:
    """Return the evidence of the members of groups as `settle` takes it: of ``count`` rows, offsets and hashes."""
    named = np.unique(members)
    found = [each if (each := evidence(at)) is not None else np.empty(0, np.uint64) for at in named.tolist()]
    offsets = np.zeros(count + 1, np.int64)
    offsets[named + 1] = list(map(len, found))
    return np.cumsum(offsets), np.concatenate([np.empty(0, np.uint64), *found])


def settle(
    rows: np.ndarray,
    starts: np.ndarray,
    members: np.ndarray,
    evidence: Evidence | None,
    threshold: float,
    *,
    keep: str = "best",
    many: int = MANY,
    told: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Decide who goes, in order of priority, each against those that stay and share a group with it.

    Parameters
    ----------
    rows : (n,) of `NearDedup.row`
        With keep="first" their places filled in.
    starts, members : arrays
        Groups of indices into `rows`, see `groups`. All that share a key must be here.
    evidence : (n + 1,) int64 and (m,) uint64, or None
        Shingle hashes of row ``k`` are ``hashes[offsets[k]:offsets[k + 1]]``, sorted, each once; those of rows in no
        group are not looked at. May be mapped from a file. A row in a group without any stays, and nothing goes because
        of it. None: similarity as the signatures estimate it, for a rehearsal.
    threshold : float
    keep : str
    many : int
        A document with more candidates is first asked which of them hold its rarer shingles; no verdict depends on it.
    told : (3,) int64, or None
        Gets added how many pairs were looked at, how many signatures and how many shingle sets were compared.

    Returns
    -------
    twin : (n,) int64
        The row that stays in its stead; -1: it stays.
    jaccard : (n,) float64
        Similarity with the twin; 0 where there is none.
    """
    inside = np.zeros(len(rows), bool)
    inside[members] = True
    named = np.flatnonzero(inside)
    local = np.cumsum(inside)[members] - 1
    part = np.arange(len(named))
    unite(starts, local, part)
    rank = np.lexsort(list(reversed(priority(rows[named], keep))))
    position = np.empty(len(rows), np.int64)
    position[named[rank]] = np.arange(len(named))
    rank = rank[np.argsort(part[rank], kind="stable")]
    first = np.cumsum(np.bincount(local + 1, minlength=len(named) + 1))
    of_member = spread(starts, local, first[:-1].copy(), np.empty(len(members), np.int64))
    order, part = named[rank], part[rank]
    offsets, hashes = evidence if evidence is not None else (np.zeros(len(rows) + 1, np.int64), np.empty(0, np.uint64))
    twin, jaccard = np.full(len(rows), -1, np.int64), np.zeros(len(rows))
    plain, begin, end = _signatures(rows)
    greedy(
        order, part, position, first[rank], first[rank + 1], of_member, starts, plain, begin, end, np.asarray(offsets),
        np.asarray(hashes), evidence is not None, float(threshold), least_matches(threshold, end - begin), many,
        _table(part, (offsets[1:] - offsets[:-1])[order], many), twin, jaccard,
        np.zeros(3, np.int64) if told is None else told,
    )  # fmt: skip
    return twin, jaccard


@kernel
def spread(starts: Any, members: Any, at: Any, out: Any) -> Any:
    """Write the groups of each member behind each other, from ``at[member]`` on, and return them."""
    for group in range(len(starts) - 1):
        for k in range(starts[group], starts[group + 1]):
            out[at[members[k]]] = group
            at[members[k]] += 1
    return out


def _table(part: np.ndarray, sizes: np.ndarray, many: int) -> np.ndarray:
    """Return an empty table large enough for the part with the most shingles that has many documents."""
    cuts = np.flatnonzero(np.diff(part, prepend=-1))
    counts = np.diff(np.append(cuts, len(part)))
    most = int(np.add.reduceat(sizes, cuts)[counts > many].max(initial=0)) if len(cuts) else 0
    return np.full(min(ROOM // 4, 1 << (2 * most).bit_length()), -1, np.int32)


@lru_cache
def least_matches(threshold: float, num_perm: int) -> int:
    """Return how many minima a pair right at the threshold shares at least, but for a chance of `MISSED`.

    Examples
    --------
    >>> least_matches(0.8, 128), least_matches(1.0, 128)
    (84, 128)
    """
    if threshold == 1:
        return num_perm
    # In logarithms: the ways to choose 512 of 1,024 are more than a float holds.
    below, yes, no = 0.0, math.log(threshold), math.log1p(-threshold)
    for matches in range(num_perm + 1):
        ways = math.lgamma(num_perm + 1) - math.lgamma(matches + 1) - math.lgamma(num_perm - matches + 1)
        below += math.exp(ways + matches * yes + (num_perm - matches) * no)
        if below > MISSED:
            return matches
    return num_perm


@kernel
def greedy(
    order: Any, part: Any, position: Any, first: Any, last: Any, groups_of: Any, starts: Any, plain: Any, begin: Any,
    end: Any, offsets: Any, hashes: Any, exact: Any, threshold: Any, least: Any, many: Any, table: Any, twin: Any,
    jaccard: Any, told: Any,
) -> None:  # fmt: skip
    """Go through the documents of `order` and write who goes.

    Parameters
    ----------
    order, part : (d,) int64
        Rows, one part behind the other, by priority inside; and the part of each.
    position : (n,) int64
        Row -> how many come before it by priority.
    first, last : (d,) int64
        ``groups_of[first[k]:last[k]]`` are the groups of ``order[k]``.
    starts : (g + 1,) int64
    plain, begin, end
        See `_signatures`.
    offsets, hashes, exact
        Evidence, and whether there is any.
    least : int
        Signatures that share fewer minima are not looked at further.
    many : int
        See `settle`.
    table : (2**k,) int32 of -1
        Which document that stays holds a shingle: -1 none, -2 several, by the shingle's lower bits. Two shingles in one
        slot only make it look as if more were shared.
    twin, jaccard : (n,)
    told : (3,) int64
    """
    n, mask = len(position), u64(len(table) - 1)
    stays = np.empty(starts[-1], np.int64)
    filled = np.zeros(len(starts), np.int64)
    seen = np.full(n, -1, np.int64)
    owned = np.zeros(n, np.int32)
    keepers = np.empty(len(order), np.int64)
    kept = entered = i64(0)
    for k in range(len(order)):
        x = order[k]
        if k == 0 or part[k] != part[k - 1]:
            for e in range(entered):
                for s in range(offsets[keepers[e]], offsets[keepers[e] + 1]):
                    table[i64(hashes[s] & mask)] = -1
            kept = entered = 0
        x_begin, x_size = offsets[x], offsets[x + 1] - offsets[x]
        if exact and x_size == 0:
            continue
        best, looked, shared = i64(-1), i64(0), i64(-1)
        for g in range(first[k], last[k]):
            group = groups_of[g]
            for m in range(starts[group], starts[group] + filled[group]):
                y = stays[m]
                if best >= 0 and position[y] >= position[best]:
                    break
                if seen[y] == x:
                    continue
                seen[y] = x
                told[0] += 1
                y_begin, y_size = offsets[y], offsets[y + 1] - offsets[y]
                wanted = i64(0)
                if exact:
                    # As many shingles must be in both.
                    wanted = i64(math.ceil(threshold * (x_size + y_size) / (1 + threshold) - 1e-6))
                    if wanted > min(x_size, y_size):
                        continue
                    looked += 1
                    if looked > many:
                        if shared < 0:
                            while entered < kept:
                                owner = keepers[entered]
                                for s in range(offsets[owner], offsets[owner + 1]):
                                    slot = i64(hashes[s] & mask)
                                    if table[slot] == -1:
                                        table[slot] = owner
                                    elif table[slot] != owner:
                                        table[slot] = -2
                                entered += 1
                            shared = 0
                            for s in range(x_begin, x_begin + x_size):
                                owner = i64(table[i64(hashes[s] & mask)])
                                if owner == -2:
                                    shared += 1
                                elif owner >= 0:
                                    owned[owner] += 1
                        if shared + owned[y] < wanted:
                            continue
                told[1] += 1
                same = u32(0)
                for j in range(begin, end):
                    same += u32(plain[x, j] == plain[y, j])
                if exact:
                    if same < least:
                        continue
                    told[2] += 1
                    i, j, both = i64(0), i64(0), i64(0)
                    x_spare, y_spare = x_size - wanted, y_size - wanted
                    while i < x_size and j < y_size and i - both <= x_spare and j - both <= y_spare:
                        a, b = hashes[x_begin + i], hashes[y_begin + j]
                        both += a == b
                        i += a <= b
                        j += b <= a
                    value = both / (x_size + y_size - both)
                else:
                    value = same / (end - begin)
                if value >= threshold:
                    best = y
                    jaccard[x] = value
        if shared >= 0:
            for s in range(x_begin, x_begin + x_size):
                owner = i64(table[i64(hashes[s] & mask)])
                if owner >= 0:
                    owned[owner] = 0
        if best >= 0:
            twin[x] = best
            continue
        keepers[kept] = x
        kept += 1
        for g in range(first[k], last[k]):
            group = groups_of[g]
            stays[starts[group] + filled[group]] = x
            filled[group] += 1
