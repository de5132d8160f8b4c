"""One shard as a reader sees it, whatever file holds it.

    columns     sequence   (rows, pack_size)           packed: segments say which piece stands where
                           (tokens,) + offsets         ragged: a row is what lies between two offsets
    segments    row, start, length, document           one a piece, in file order; start: its place in its text
    documents   source, line, group, tokens            where each document was read from, how long it is

Boundaries are read from here and never guessed from an id: an EOS may be padding, or stand in the middle of a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from prep_lib.errors import BadParameter, BadShard

#: Groups of the layout; no key may be called so.
RESERVED = ("offsets", "segments", "documents")

#: Integer keys that count something and are no ids.
NOT_IDS = ("prompt_length",)

#: Values looked at or written at once: bounds memory whatever the size of a shard.
BLOCK = 4 * 2**20


class Shard:
    """What every kind of shard has; rows are views of the file where it can be mapped.

    Attributes
    ----------
    path : Path
    keys : tuple of str
        In the order they were written.
    columns : dict of str -> ndarray
        The whole data of each key, read-only: (rows, pack_size), (tokens,) or (rows,).
    offsets : dict of str -> (rows + 1,) int64
        Of the ragged keys.
    rows : dict of str -> int
        How many each key has. `len` is the one number of them all.
    segment_columns : mapping of str -> (pieces,) integers
        ``row, start, length, document``, in file order; empty where rows are not packed.
    document_columns : mapping of str -> (documents,) integers
        ``source, line``, and ``group, tokens`` where `build.build_shards` wrote them; empty where nothing is known.
    sources : list of str
        Names of the inputs, as ``source`` refers to them.
    groups : list of (source, language)
        What a record says of itself, as ``group`` refers to them; language is None where nobody knows. Empty where
        records were not asked.
    record_ids : list of (str or None)
        The own id of each document's record; empty where records were not asked.
    """

    #: Who speaks in an error.
    where: ClassVar[str] = "shards/shard"

    path: Path
    keys: tuple[str, ...]
    columns: Mapping[str, np.ndarray]
    offsets: Mapping[str, np.ndarray]
    rows: Mapping[str, int]
    segment_columns: Mapping[str, np.ndarray]
    document_columns: Mapping[str, np.ndarray]
    sources: list[str]
    groups: list[tuple[str, str | None]]
    record_ids: list[str | None]

    def _bad(self, what: str) -> BadShard:
        return BadShard(f"{self.where}: {self.path}: {what}")

    def __len__(self) -> int:
        counts = set(self.rows.values())
        if len(counts) > 1:
            raise self._bad(f"keys differ in rows: {self.rows}")
        return counts.pop() if counts else 0

    def row(self, i: int) -> dict[str, np.ndarray]:
        """Return row `i` of every key; a number of a ragged shard comes without dimension."""
        self._check_row(i)
        return {key: self._value(key, i) for key in self.keys}

    def _check_row(self, i: int) -> None:
        if not 0 <= i < len(self):
            raise IndexError(f"{self.where}: {self.path.name} has no row {i}; it has {len(self):,}")

    def _value(self, key: str, i: int) -> np.ndarray:
        offsets, values = self.offsets.get(key), self.columns[key]
        return np.asarray(values[i]) if offsets is None else values[offsets[i] : offsets[i + 1]]

    def segments(self, i: int) -> dict[str, np.ndarray]:
        """Return the pieces row `i` is made of, in order; what is left of a packed row is padding.

        Returns
        -------
        dict of (n,) integers
            ``length`` in tokens; ``document``, see `document`; ``start``, where the piece begins in its document's row,
            in tokens. A row that is not packed is one piece, and its document has the row's number.
        """
        self._check_row(i)
        if not self.packed:
            whole = {"start": 0, "length": len(self._value(self.ids[0], i)), "document": i}
            return {name: np.array([value]) for name, value in whole.items()}
        pieces = slice(*np.searchsorted(self.segment_columns["row"], (i, i + 1)))
        return {name: column[pieces] for name, column in self.segment_columns.items() if name != "row"}

    def document(self, i: int) -> str:
        """Return where document `i` was read from: ``file.jsonl#L12``, ``file.parquet[11]``.

        Raises
        ------
        IndexError
            If the shard knows no such document.
        """
        if not self.document_columns or not 0 <= i < len(self.document_columns["line"]):
            raise IndexError(f"{self.where}: {self.path.name} has no document {i}")
        source, line = self.sources[self.document_columns["source"][i]], int(self.document_columns["line"][i])
        return document_id(source, line)

    def document_counts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (n,) documents, and the (n,) tokens and (n,) targets each has here: a piece of a pack, or a whole row.

        Of the first ids; where they have no mask, every token is a target.
        """
        key = self.ids[0]
        if self.packed:
            length, document = self.segment_columns["length"].astype(np.int64), self.segment_columns["document"]
            begin = self.piece_begins()
        else:
            offsets = self.offsets[key]
            document, begin, length = np.arange(len(self)), offsets[:-1], np.diff(offsets)
        mask = self.mask_of(key)
        if mask is None or not len(length):
            return document, length, length
        # Behind a piece stands the next one, or padding, which no mask trains: its targets reach to the next piece.
        targets = np.add.reduceat(self.columns[mask].reshape(-1).view(np.uint8), begin, dtype=np.int64)
        return document, length, np.where(length > 0, targets, 0)

    def piece_begins(self) -> np.ndarray:
        """Return where each piece of a packed shard begins in its tokens, rows behind each other, (pieces,) int64."""
        row, length = self.segment_columns["row"], self.segment_columns["length"].astype(np.int64)
        before = np.cumsum(length) - length
        return row * self.columns[self.ids[0]].shape[1] + before - before[np.searchsorted(row, row)]

    @property
    def packed(self) -> bool:
        """Whether rows are packs with segments."""
        return bool(self.segment_columns)

    @property
    def ids(self) -> tuple[str, ...]:
        """The keys that hold token ids."""
        return tuple(key for key in self.keys if self.columns[key].dtype.kind in "iu" and key not in NOT_IDS)

    @property
    def tokens(self) -> int:
        """Tokens in all rows, padding apart; of every key of ids where rows are not packed."""
        if self.packed:
            return int(self.segment_columns["length"].sum())
        return sum(self.columns[key].size for key in self.ids)

    def mask_of(self, key: str) -> str | None:
        """Return the key of the mask that belongs to a key of ids, None if there is none."""
        names = (f"{key}_mask", "loss_mask") if key == "sequence" else (f"{key}_mask",)
        return next((name for name in names if name in self.keys), None)


def document_id(source: str, number: int) -> str:
    """Return the id of a record: line numbers for JSONL, row numbers for Parquet.

    Examples
    --------
    >>> document_id("a.jsonl", 12), document_id("b.parquet", 3)
    ('a.jsonl#L12', 'b.parquet[3]')
    """
    return f"{source}[{number}]" if source.endswith(".parquet") else f"{source}#L{number}"


def row_blocks(offsets: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield row ranges of about `BLOCK` values: a write a row costs a hundred times more."""
    first, rows = 0, len(offsets) - 1
    while first < rows:
        last = int(np.searchsorted(offsets, offsets[first] + BLOCK, side="right")) - 1
        last = min(max(last, first + 1), rows)
        yield first, last
        first = last


def split_groups(stored: Any) -> list[tuple[str, str | None]]:
    """Return groups as JSON gives them as pairs.

    Examples
    --------
    >>> split_groups([["web", "en"], ["code", None]])
    [('web', 'en'), ('code', None)]
    """
    return [(str(source), None if language is None else str(language)) for source, language in stored]


def exact(values: np.ndarray, dtype: np.dtype[Any], name: str) -> np.ndarray:
    """Convert to the stored type, or refuse: an id that does not fit must never wrap.

    Parameters
    ----------
    values : array of numbers
    dtype : dtype
    name : str
        What the error calls them.

    Raises
    ------
    BadParameter
        Naming the first value that does not fit.

    Examples
    --------
    >>> exact(np.array([1, 65_535]), np.dtype("uint16"), "ids")
    array([    1, 65535], dtype=uint16)
    """
    values = np.asarray(values)
    if values.dtype == dtype or not values.size:
        return values.astype(dtype, copy=False)
    if values.dtype.kind in "iu" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if limits.min <= int(values.min()) and int(values.max()) <= limits.max:
            return values.astype(dtype)
        wrong = values[(values < limits.min) | (values > limits.max)][0]
    else:
        with np.errstate(all="ignore"):
            stored = values.astype(dtype)
        if np.array_equal(stored, values):
            return stored
        wrong = values[stored != values][0]
    raise BadParameter(f"{name}: value {wrong} does not fit {dtype}{_largest(dtype)}; store a wider type")


def _largest(dtype: np.dtype[Any]) -> str:
    return f" (max {np.iinfo(dtype).max})" if dtype.kind in "iu" else ""
