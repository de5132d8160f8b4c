"""The pieces of documents in a shard, whatever file holds it, and their ids block by block.

    shard    A A A B B B │ B B C C C ·      two packs of 6
    pieces   A 0:3   B 0:3   B 3:5   C 0:3      begin 0 3 6 8, length 3 3 2 3, start 0 0 3 0
    joined   no      no      yes     no         B goes on where it left off
    ids      A A A B B B B B C C C              padding left out

A row that is not packed is one piece. Where a document begins is read from the segments: an EOS is never looked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from prep_lib.errors import BadInput, BadShard
from prep_lib.shards.shard import Shard, row_blocks


class Pieces(NamedTuple):
    """The pieces of documents in a shard, in file order.

    Parameters
    ----------
    begin : (pieces,) int64, tokens, place among the shard's ids, rows behind each other
    length : (pieces,) int64, tokens
    start : (pieces,) int64, tokens, place in the document
    document : (pieces,) int64, which of the shard's documents
    row : (pieces,) int64
    """

    begin: np.ndarray
    length: np.ndarray
    start: np.ndarray
    document: np.ndarray
    row: np.ndarray

    def part(self, first: int, last: int) -> Pieces:
        """Return some of them."""
        return Pieces(*(column[first:last] for column in self))


def plain(shard: Shard) -> str:
    """Return the one key of a shard that holds plain ids and knows its documents.

    Raises
    ------
    BadInput
        If there are masks or other arrays, or nobody knows where documents begin.
    """
    if len(shard.keys) != 1 or shard.ids != shard.keys:
        raise BadInput(
            f"shards/pieces: {shard.path} holds {', '.join(shard.keys)}; files for pretraining hold ids alone: "
            "convert --to trl, axolotl or llamafactory keeps masks"
        )
    if not (shard.packed or shard.offsets) or not shard.document_columns:
        raise BadInput(
            f"shards/pieces: {shard.path} has rows without segments: where its documents begin is not known; "
            "build it with build_shards or cache_jsonl"
        )
    return shard.keys[0]


def pieces_of(shard: Shard) -> Pieces:
    """Return the pieces of a shard; a row that is not packed is one.

    Raises
    ------
    BadShard
        If they do not fit the rows, or name documents that are not there.
    """
    key, documents = plain(shard), len(shard.document_columns["line"])
    if shard.packed:
        row, start, length, document = (
            np.asarray(shard.segment_columns[name], np.int64) for name in ("row", "start", "length", "document")
        )
        rows, width = shard.columns[key].shape
        fits = not row.size or (row[0] >= 0 and row[-1] < rows and (row[1:] >= row[:-1]).all())
        fits = fits and bool((np.bincount(row, length, rows) <= width).all()) and not (start < 0).any()
        begin = shard.piece_begins() if fits else row
    else:
        offsets = np.asarray(shard.offsets[key], np.int64)
        begin, length, document, fits = offsets[:-1], np.diff(offsets), np.arange(len(shard)), True
        start, row = np.zeros(len(shard), np.int64), document
    inside = not document.size or (document.min() >= 0 and document.max() < documents)
    if not fits or not inside or (length < 1).any():
        raise BadShard(f"shards/pieces: {shard.path}: its segments do not fit its rows and documents; see prep verify")
    return Pieces(begin, length, start, document, row)


def joined(pieces: Pieces) -> np.ndarray:
    """Return (pieces,) bool: where a piece goes on with what the one before it left off.

    Examples
    --------
    >>> begin, length = np.array([0, 2, 4]), np.array([2, 2, 3])
    >>> joined(Pieces(begin, length, np.array([0, 2, 0]), np.array([0, 0, 1]), np.array([0, 1, 1]))).tolist()
    [False, True, False]
    """
    same = np.zeros(len(pieces.begin), bool)
    same[1:] = (pieces.document[1:] == pieces.document[:-1]) & (
        pieces.start[1:] == pieces.start[:-1] + pieces.length[:-1]
    )
    return same


def largest(shard: Shard, manifest: Mapping[str, Any]) -> int:
    """Return the largest id there can be: the tokenizer's, or what the stored type allows."""
    known = (manifest["tokenizer"] or {}).get("max_id")
    return int(np.iinfo(shard.columns[plain(shard)].dtype).max) if known is None else known


def blocks(shard: Shard, pieces: Pieces, limit: int) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield (first piece, last piece, their ids behind each other), about 4 million ids at a time, padding left out.

    Raises
    ------
    BadShard
        For an id below 0 or above `limit`.
    """
    flat = shard.columns[plain(shard)].reshape(-1)
    ends = np.concatenate(([0], np.cumsum(pieces.length)))
    for first, last in row_blocks(ends):
        begin, length = pieces.begin[first:last], pieces.length[first:last]
        if begin[-1] + length[-1] - begin[0] == ends[last] - ends[first]:
            ids = flat[begin[0] : begin[-1] + length[-1]]
        else:
            ids = flat[places(begin, length)]
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high > limit:
            raise BadShard(
                f"shards/pieces: {shard.path} holds id {low if low < 0 else high}, allowed are 0 to {limit}; "
                "see prep verify"
            )
        yield first, last, ids


def places(begin: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return the places of all tokens of some pieces, one piece behind the other.

    Examples
    --------
    >>> places(np.array([7, 0]), np.array([2, 3])).tolist()
    [7, 8, 0, 1, 2]
    """
    before = np.cumsum(length) - length
    return np.repeat(begin - before, length) + np.arange(int(length.sum()))
