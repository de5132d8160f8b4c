"""Is an order well mixed? Each question as a number beside what an even shuffle gives, passed or not.

    as read    A B A A C B | A C A B A B | B A C A A B | …        sources of rows, in windows
               3 2 1         3 2 1         3 2 1                  counts: more even than chance, passes
               A A A A A A | A A A B B B | B B B C C C | …        varies 9 times as much as chance: fails

    check          asks                                                              fails for
    dispersion     does the mix of sources vary from window to window?               shards in order, small buffers
    drift          … over whole parts of an epoch?                                   sorted input, a curriculum
    neighbours     do rows of one source, or one document, follow each other?        packs of a stream as written
    batch_sources  how many sources has a batch?                                     few shards open at a time
    shard_…        is every shard like the whole, as it is stored?                   one shard a source
    lag, parity    does the place in the input show in the order?                    weak index permutations

A row stands for the source that most of its tokens come from. Limits follow from the number of rows: at most `ALARM`
of all even shuffles miss one, and nothing `HARMLESS` is called bad. An order more even than chance passes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from prep_lib.errors import BadParameter
from prep_lib.files import place
from prep_lib.seeds import permute
from prep_lib.shards.formats import open_shard
from prep_lib.shards.manifest import NAME, read_manifest
from prep_lib.shards.npz import NpzReader, npz_files, open_alike
from prep_lib.shards.shard import Shard
from prep_lib.shuffle.order import Order
from prep_lib.words import say

#: The share of even shuffles that a check calls bad, for each check by itself.
ALARM = 1e-4

#: What does no harm however many rows prove it: with millions of rows chance allows next to nothing.
HARMLESS = {
    "dispersion": 1.1, "drift": 1.1, "shard_balance": 1.1, "neighbours": 1.1, "document_neighbours": 1.1, "lag": 0.05,
    "parity": 0.05,
}  # fmt: skip

#: Steps apart at which rows are compared. Not further: 64 readers that take turns show at 64, which does no harm.
LAGS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)

#: Low bits of the row that are compared with all bits of its place.
BITS = 4

#: Numbers counted at once: windows times sources.
COUNTED = 2**22

#: Rows of an npz file read at once.
READ = 2**16


@dataclass(frozen=True)
class Check:
    """One question to an order.

    Parameters
    ----------
    name : str
    value : float
        What was found.
    ideal : float
        What an even shuffle gives on average.
    limit : float
        The last value that passes: an upper limit where it stands above `ideal`, a lower one where it stands below.
    passed : bool
    what : str
        One sentence.
    """

    name: str
    value: float
    ideal: float
    limit: float
    passed: bool
    what: str


@dataclass(frozen=True)
class Rows:
    """What is known of the rows of a folder, in the order they are stored.

    Parameters
    ----------
    shards : sequence of int, rows of each
    sources : (rows,) integers or None
        The source of each row, from 0.
    documents : pair of (n,) integers or None
        Row and document of each piece; a document lies in one row or more.
    positions : (rows,) integers or None
        The place of each row in the input; None: not known, or of no interest because the folder is shuffled.
    """

    shards: Sequence[int]
    sources: np.ndarray | None = None
    documents: tuple[np.ndarray, np.ndarray] | None = None
    positions: np.ndarray | None = None

    @property
    def size(self) -> int:
        """Return the number of rows."""
        return int(sum(self.shards))


def labelled(sources: npt.ArrayLike, shards: Sequence[int] | None = None) -> Rows:
    """Return rows of known sources, stored in the order of the input.

    Parameters
    ----------
    sources : (rows,) integers or strings
    shards : sequence of int or None, rows of each
        None: one shard.

    Examples
    --------
    >>> rows = labelled(["web", "web", "code"])
    >>> rows.sources.tolist(), rows.positions.tolist()
    ([1, 1, 0], [0, 1, 2])
    """
    codes = np.unique(np.asarray(sources), return_inverse=True)[1].reshape(-1)
    shards = [len(codes)] if shards is None else list(shards)
    if sum(shards) != len(codes):
        raise BadParameter(f"shuffle/audit: {len(codes):,} labels for shards of {sum(shards):,} rows")
    return Rows(shards, codes, positions=np.arange(len(codes)))


def audit(
    rows: Rows | str | Path,
    order: Order | None = None,
    *,
    batch: int = 512,
    window: int = 1024,
    field: str | None = None,
    before: str | Path | None = None,
    alarm: float = ALARM,
    lang: str = "en",
) -> list[Check]:
    """Judge the order in which rows are read.

    Parameters
    ----------
    rows : Rows or path
        Or a folder: of shards with their manifest, or of npz files.
    order : Order or None
        None: front to back, as stored; then the shards are judged, too.
    batch : int, rows of a training step over all ranks
    window : int, rows
        Both are made smaller where there are fewer than twenty of them.
    field : str or None
        Of npz files: the field that names each row's source.
    before : path or None
        Of npz files: the folder they were made from. Rows are found again by a digest; their source is the file they
        were in, their position the place there.
    alarm : float
        The share of even shuffles that a check may call bad.
    lang : str
        Of the sentences.

    Returns
    -------
    list of Check
        Only what can be asked: nothing about sources where there is one.

    Raises
    ------
    BadParameter
        If nothing is known of the rows, or the order is of another number of rows.

    Notes
    -----
    What an even shuffle gives is not simulated: mean and variance over all orders of the same rows are computed, and
    the tail is that of a gamma distribution with these two (sums of squares), a Poisson (rare neighbours) or a normal
    one (correlations). Memory: about 60 bytes a row.

    Examples
    --------
    >>> from prep_lib.shuffle.order import FullOrder
    >>> rows = labelled(np.repeat(np.arange(4), 1000))
    >>> [(check.name, check.passed) for check in audit(rows)][:3]
    [('dispersion', False), ('neighbours', False), ('batch_sources', False)]
    >>> all(check.passed for check in audit(rows, FullOrder(4000, seed=42)))
    True
    """
    if not isinstance(rows, Rows):
        rows = read_rows(rows, field=field, before=before)
    if order is not None and order.size != rows.size:
        raise BadParameter(f"shuffle/audit: an order of {order.size:,} rows for {rows.size:,}")
    if rows.sources is None and rows.documents is None and rows.positions is None:
        raise BadParameter(
            "shuffle/audit: nothing is known of the rows; name the field that holds their source, or the folder they "
            "were made from (before=)"
        )
    read = None if order is None else order.rows(np.arange(order.size))
    return list(_Audit(rows, read, batch, window, alarm, lang).checks()) if rows.size > 2 else []


class _Audit:
    """The questions, over rows as they are read."""

    def __init__(self, rows: Rows, read: np.ndarray | None, batch: int, window: int, alarm: float, lang: str) -> None:
        self.rows, self.read, self.size, self.lang, self.alarm = rows, read, rows.size, lang, alarm
        fewest = max(2, self.size // 20)
        self.batch, self.window = min(batch, fewest), min(window, fewest)

    def checks(self) -> Iterator[Check]:
        if self.rows.sources is not None and len(np.unique(self.rows.sources)) > 1:
            yield from self._of_sources(np.asarray(self.rows.sources))
        if self.rows.documents is not None:
            yield from self._of_documents(*self.rows.documents)
        if self.rows.positions is not None:
            yield from self._of_positions(self._as_read(np.asarray(self.rows.positions)))

    def _as_read(self, stored: np.ndarray) -> np.ndarray:
        return stored if self.read is None else stored[self.read]

    def _check(self, name: str, value: float, ideal: float, limit: float, **told: Any) -> Check:
        limit = max(limit, HARMLESS.get(name, limit))
        passed = value <= limit if limit >= ideal else value >= limit
        return Check(name, value, ideal, limit, bool(passed), say(f"audit.{name}", self.lang, **told))

    # Sources

    def _of_sources(self, sources: np.ndarray) -> Iterator[Check]:
        read = self._as_read(sources)
        share = np.bincount(sources) / self.size
        yield self._dispersion("dispersion", read, share, self._cuts(self.window))
        if self.size // 32 >= 4 * self.window:
            yield self._dispersion("drift", read, share, self._cuts(self.size // 32))
        yield from self._neighbours(read)
        yield self._distinct("batch_sources", read, share, self._cuts(self.batch))
        if self.read is None and len(self.rows.shards) > 1:
            shards = np.concatenate([[0], np.cumsum([size for size in self.rows.shards if size])]).astype(np.int64)
            yield self._dispersion("shard_balance", sources, share, shards)
            yield self._distinct("shard_sources", sources, share, shards)

    def _cuts(self, rows: int) -> np.ndarray:
        """Where windows of about so many rows begin, and the end."""
        count = max(2, round(self.size / rows))
        return np.arange(count + 1) * self.size // count

    def _dispersion(self, name: str, read: np.ndarray, share: np.ndarray, cuts: np.ndarray) -> Check:
        """Sum over windows of (counts - expected)^2 / rows, against its mean over all orders."""
        rows = np.diff(cuts)
        squared = np.concatenate(
            [((counts - size[:, None] * share) ** 2).sum(1) for size, counts in _count(read, cuts, len(share))]
        )
        left_over = ((self.size - rows) / (self.size - 1)).sum()
        spread = 1 - (share**2).sum()
        value = float((squared / rows).sum() / (left_over * spread))
        # Of a window's |counts - expected|^2 under the multinomial; one window is fixed by all others.
        two, three = (share**2).sum(), (share**3).sum()
        pairs = two - 2 * three + two**2
        typical = 1 / np.mean(1 / rows)
        variance = (2 * pairs * (1 - 1 / typical) + 4 * (three - two**2) / typical) / ((len(rows) - 1) * spread**2)
        return self._check(name, value, 1.0, gamma_limit(variance, self.alarm), rows=round(float(rows.mean())))

    def _distinct(self, name: str, read: np.ndarray, share: np.ndarray, cuts: np.ndarray) -> Check:
        rows = np.diff(cuts)
        value = float(np.concatenate([(counts > 0).sum(1) for _, counts in _count(read, cuts, len(share))]).mean())
        amounts, often = np.unique(np.rint(share * self.size).astype(np.int64), return_counts=True)
        sizes, windows = np.unique(rows, return_counts=True)
        there = 1 - absent(self.size, amounts[:, None], sizes[None, :])
        ideal = float((there * often[:, None] * windows).sum() / len(rows))
        # Sources crowd each other out, so the sum of their variances is too large, if anything.
        deviation = math.sqrt(float((there * (1 - there) * often[:, None] * windows).sum())) / len(rows)
        limit = ideal - max(NormalDist().inv_cdf(1 - self.alarm) * deviation, 0.01 * ideal)
        return self._check(name, value, ideal, limit, rows=round(float(rows.mean())))

    def _neighbours(self, read: np.ndarray) -> Iterator[Check]:
        amounts = np.bincount(read).astype(np.float64)
        found = int((read[1:] == read[:-1]).sum())
        if pairs := float((amounts * (amounts - 1)).sum()):
            yield self._against("neighbours", found, pairs, (amounts * (amounts - 1) ** 2).sum())

    def _of_documents(self, row: np.ndarray, document: np.ndarray) -> Iterator[Check]:
        """Ask how often two rows that follow each other share a document."""
        place = np.empty(self.size, np.int64)
        place[self.read if self.read is not None else slice(None)] = np.arange(self.size)
        document, at = np.unique(np.stack([document, place[row]]), axis=1)
        _, codes, amounts = np.unique(document, return_inverse=True, return_counts=True)
        others = amounts[codes] - 1.0
        if others.any():
            found = int(((np.diff(document) == 0) & (np.diff(at) == 1)).sum())
            of_row = np.bincount(at, others, self.size)
            yield self._against("document_neighbours", found, float(others.sum()), float((of_row**2).sum()))

    def _against(self, name: str, found: int, pairs: float, squares: float) -> Check:
        """Compare how many rows share something with the next one, given how many ordered pairs of rows share it.

        `squares`: the sum over rows of (others it shares something with)^2.
        """
        size = float(self.size)
        two, three, four = (
            size * (size - 1),
            size * (size - 1) * (size - 2),
            size * (size - 1) * (size - 2) * (size - 3),
        )
        mean = (size - 1) * pairs / two
        apart = (pairs**2 - 4 * squares + 2 * pairs) / four if four else 0.0
        chained = 2 * (size - 2) * (squares - pairs) / three
        variance = (size - 1) * pairs / two + chained + (size - 2) * (size - 3) * apart - mean**2
        most = count_limit(mean, max(variance, 0.0), self.alarm)
        return self._check(name, float(found / mean), 1.0, float(most / mean), found=found, mean=mean)

    # Positions

    def _of_positions(self, read: np.ndarray) -> Iterator[Check]:
        lags = [lag for lag in LAGS if lag < self.size / 2]
        found = [abs(correlation(read[:-lag], read[lag:])) for lag in lags]
        # The smallest series is the least certain.
        yield self._correlated("lag", found, self.size - lags[-1], lags=", ".join(map(str, lags)))
        yield self._correlated("parity", _bit_correlations(read), self.size)

    def _correlated(self, name: str, found: list[float], size: int, **told: Any) -> Check:
        limit = NormalDist().inv_cdf(1 - self.alarm / 2 / len(found)) / math.sqrt(size)
        return self._check(name, max(found), 0.0, limit, **told)


# Statistics


def _count(labels: np.ndarray, cuts: np.ndarray, kinds: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (w,) rows and (w, kinds) counts of windows, some windows at a time."""
    step = max(1, COUNTED // kinds)
    for first in range(0, len(cuts) - 1, step):
        ends = cuts[first : first + step + 1]
        inside = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        flat = np.bincount(inside * kinds + labels[ends[0] : ends[-1]], minlength=(len(ends) - 1) * kinds)
        yield np.diff(ends), flat.reshape(-1, kinds)


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Return Pearson's correlation; 0 where one of them does not vary.

    Examples
    --------
    >>> correlation(np.array([1, 2, 3]), np.array([3, 2, 1])), correlation(np.array([1, 1]), np.array([1, 2]))
    (-1.0, 0.0)
    """
    one, other = one - one.mean(), other - other.mean()
    size = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / size if size else 0.0


def _bit_correlations(read: np.ndarray) -> list[float]:
    """Return how strongly each low bit of the row goes with each bit of its place.

    Examples
    --------
    >>> _bit_correlations(np.array([0, 1, 0, 1]))[:2]
    [1.0, 0.0]
    """
    places = np.arange(len(read))
    of_places = [(places >> bit & 1).astype(np.float32) for bit in range(max(1, (len(read) - 1).bit_length()))]
    of_rows = [(read >> bit & 1).astype(np.float32) for bit in range(BITS)]
    return [abs(correlation(row, place)) for row in of_rows for place in of_places]


def gamma_limit(variance: float, alarm: float) -> float:
    """Return what a gamma variable of mean 1 passes with probability `alarm`.

    Source: Wilson & Hilferty 1931, the cube root of a chi-square variable is nearly normal.

    Examples
    --------
    >>> round(gamma_limit(2 / 100, 0.01), 2)  # chi-square, 100 degrees of freedom: 135.8
    1.36
    """
    ninth = variance / 9
    return float((1 - ninth + NormalDist().inv_cdf(1 - alarm) * math.sqrt(ninth)) ** 3)


def count_limit(mean: float, variance: float, alarm: float) -> float:
    """Return what a count passes with a probability of at most `alarm`: Poisson while small, else normal.

    Examples
    --------
    >>> count_limit(0.01, 0.01, 1e-4), round(count_limit(10_000, 10_000, 1e-4))
    (1, 10372)
    """
    clump = max(1.0, variance / mean)
    rate = mean / clump
    if rate > 500:
        return mean + NormalDist().inv_cdf(1 - alarm) * math.sqrt(variance)
    chance = math.exp(-rate)
    below, most = chance, 0
    while 1 - below > alarm:
        most += 1
        chance *= rate / most
        below += chance
    return math.ceil(most * clump)


def absent(size: int, amount: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the chance that none of `amount` out of `size` things is among `rows` drawn ones.

    Examples
    --------
    >>> absent(10, np.array([1, 5]), np.array([4, 6])).round(3).tolist()
    [0.6, 0.0]
    """
    few, many = np.minimum(amount, rows), np.maximum(amount, rows)
    # Of the product over few factors (size - many - i) / (size - i), the middle one to the power of all.
    middle = 1 - many / np.maximum(size - (few - 1) / 2, 1)
    return np.where(few + many > size, 0.0, np.maximum(middle, 0) ** few)


# Folders


def read_rows(folder: str | Path, *, field: str | None = None, before: str | Path | None = None) -> Rows:
    """Return what is known of the rows of a folder of shards, or of npz files; parameters as for `audit`."""
    if field is None and before is None and (place(folder) / NAME).exists():
        return _of_shards(place(folder))
    readers = open_alike(npz_files(folder).train)
    shards = [reader.rows for reader in readers]
    if before is not None:
        files, positions = _found_again(readers, open_alike(npz_files(before).train))
        return Rows(shards, files if field is None else _labels(readers, field), positions=positions)
    return Rows(shards, None if field is None else _labels(readers, field))


#: A piece of a document in a row of a folder; `file` and `group` by number.
_PIECE = np.dtype([(name, np.int64) for name in ("row", "file", "line", "start", "length", "group")])


def _of_shards(folder: Path) -> Rows:
    """Read sources, documents and positions from the segments of every shard."""
    manifest = read_manifest(folder)
    sizes: list[int] = []
    tables = [np.empty(0, _PIECE)]
    # Files of the input in the order they were given, as far as the manifest knows it.
    files: dict[str, int] = {name: at for at, name in enumerate((manifest["recipe"] or {}).get("inputs", ()))}
    groups: dict[Any, int] = {}
    for entry in manifest["shards"]:
        shard = open_shard(folder / entry["file"])
        tables.append(_pieces(shard, sum(sizes), files, groups))
        sizes.append(len(shard))
    pieces = np.concatenate(tables)
    label = "group" if len(groups) > 1 else "file"
    document = np.unique(pieces[["file", "line"]], return_inverse=True)[1].reshape(-1)
    sources = _largest(pieces["row"], pieces[label], pieces["length"], sum(sizes))
    return Rows(sizes, sources, (pieces["row"], document), _position(pieces, sum(sizes)))


def _pieces(shard: Shard, first: int, files: dict[str, int], groups: dict[Any, int]) -> np.ndarray:
    """Return the pieces of a shard whose rows are numbered from `first`; new names get the next numbers."""
    if shard.packed:
        found = {name: np.asarray(shard.segment_columns[name]) for name in ("row", "start", "length", "document")}
    else:
        document, length, _ = shard.document_counts()
        found = {"row": document, "start": np.zeros_like(document), "length": length, "document": document}
    columns, document = shard.document_columns, found["document"]
    out = np.zeros(len(document), _PIECE)
    out["row"], out["start"], out["length"] = found["row"] + first, found["start"], found["length"]
    if columns:
        numbers = np.array([files.setdefault(name, len(files)) for name in shard.sources], np.int64)
        out["file"], out["line"] = numbers[columns["source"][document]], columns["line"][document]
        if shard.groups:
            codes = np.array([groups.setdefault(group, len(groups)) for group in shard.groups], np.int64)
            out["group"] = codes[columns["group"][document]]
    return out


def _largest(row: np.ndarray, label: np.ndarray, tokens: np.ndarray, rows: int) -> np.ndarray:
    """Return the label that most tokens of each row have, (rows,) int64.

    Examples
    --------
    >>> _largest(np.array([0, 0, 0, 1]), np.array([2, 1, 2, 1]), np.array([3, 5, 4, 9]), 2).tolist()
    [2, 1]
    """
    kinds = int(label.max(initial=0)) + 1
    keys, at = np.unique(row * kinds + label, return_inverse=True)
    order = np.lexsort([np.bincount(at.reshape(-1), tokens), keys // kinds])
    out = np.zeros(rows, np.int64)
    # Of each row the last one stays: the largest.
    out[keys[order] // kinds] = keys[order] % kinds
    return out


def _position(pieces: np.ndarray, rows: int) -> np.ndarray:
    """Return where each row's first piece stood in the input, (rows,) int64, by rank."""
    row, first = np.unique(pieces["row"], return_index=True)
    rank = np.empty(len(row), np.int64)
    rank[np.lexsort([pieces[name][first] for name in ("start", "line", "file")])] = np.arange(len(row))
    out = np.zeros(rows, np.int64)
    out[row] = rank
    return out


def _labels(readers: Sequence[NpzReader], field: str) -> np.ndarray:
    found = []
    for reader in readers:
        if field in reader.fields and reader.fields[field].row_shape:
            raise BadParameter(f"shuffle/audit: field {field!r} has {reader.fields[field]}; a label is one value a row")
        found += [block[field] for block in reader.blocks(READ, [field])]
    return np.unique(np.concatenate(found), return_inverse=True)[1].reshape(-1)


def _found_again(after: Sequence[NpzReader], before: Sequence[NpzReader]) -> tuple[np.ndarray, np.ndarray]:
    """Return for each row the file it was in before, and its place over all of them; copies in an even order."""
    known, wanted = _digests(before), _digests(after)
    stored = np.argsort(known, kind="stable")
    # Copies of a row cannot be told apart: which is which is drawn, or their order would look like that of the input.
    drawn = permute(0, "audit_copies", len(wanted), np.arange(len(wanted)))
    turn = drawn[np.argsort(wanted[drawn], kind="stable")]
    ordered = wanted[turn]
    at = np.searchsorted(known[stored], ordered) + np.arange(len(turn)) - np.searchsorted(ordered, ordered)
    inside = np.minimum(at, max(len(known) - 1, 0))
    if not len(known) or ((at >= len(known)) | (known[stored[inside]] != ordered)).any():
        raise BadParameter("shuffle/audit: rows of the folder are not in the one it is said to be made from")
    positions = np.empty(len(turn), np.int64)
    positions[turn] = stored[at]
    ends = np.cumsum([reader.rows for reader in before])
    return np.searchsorted(ends, positions, side="right"), positions


def _digests(readers: Sequence[NpzReader]) -> np.ndarray:
    """Return a 64-bit digest of each row, all its fields in the order of their names, (rows,) uint64."""
    found: list[int] = []
    for reader in readers:
        names = sorted(reader.fields)
        for block in reader.blocks(READ):
            flat = [np.ascontiguousarray(block[name]).reshape(len(block[name]), -1).view(np.uint8) for name in names]
            found += map(xxhash.xxh3_64_intdigest, map(memoryview, np.concatenate(flat, axis=1)))  # type: ignore[arg-type]
    return np.array(found, np.uint64)
