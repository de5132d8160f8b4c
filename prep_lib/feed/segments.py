"""What its stored segments say about a batch: position ids, cu_seqlens, block masks and labels.

ids            a b c d | e f | 0 0       segments [4, 2]; what is left is padding, known by length, whatever its id
position_ids   0 1 2 3 | 0 1 | 0 1       padding counts as one more segment, so that no row of a mask is empty
segment_ids    0 0 0 0 | 1 1 |-1-1
cu_seqlens     0 4 6 8                   all rows of the batch behind each other; a segment of no token is left out
aligned        a b c d | e f | - -       the target of its own place, the model shifts; - is -100
shifted        b c d e | f - | - -       the target of the place before it
no first       - b c d | - f | - -       asked for: the first token of a document is nobody's target

The end token of a document is an id like others here: boundaries are what the shard stored, never guessed from ids.
"""

from __future__ import annotations

import numpy as np

from prep_lib.jit import kernel

#: What the losses of torch leave out.
IGNORED = -100


@kernel
def find_segments(
    rows: np.ndarray, local: np.ndarray, shards: np.ndarray, shard: int, first: np.ndarray, counts: np.ndarray
) -> None:
    """Look up which stored segments make the rows of one shard.

    Parameters
    ----------
    rows : (m,) integers, ascending
        Which row of the shard each stored segment is in.
    local, shards : (n,) int64
        The wanted rows, and the shard of each; those of other shards are left alone.
    shard : int
    first, counts : (n,) int64
        Get the number of the first segment of each row, and how many it has.

    Notes
    -----
    A binary search here, because NumPy's would first copy the whole column, which lies in a mapped table.
    """
    for at in range(len(local)):
        if shards[at] == shard:
            low, high = 0, len(rows)
            while low < high:
                middle = (low + high) // 2
                if rows[middle] < local[at]:
                    low = middle + 1
                else:
                    high = middle
            first[at] = low
            while low < len(rows) and rows[low] == local[at]:
                low += 1
            counts[at] = low - first[at]


@kernel
def fill_segments(
    lengths: np.ndarray, first: np.ndarray, counts: np.ndarray, shards: np.ndarray, shard: int, out: np.ndarray
) -> None:
    """Copy the lengths of what `find_segments` found into the rows of `out`, (n, s)."""
    for at in range(len(first)):
        if shards[at] == shard:
            for place in range(counts[at]):
                out[at, place] = lengths[first[at] + place]


@kernel
def fit(segments: np.ndarray, width: int) -> bool:
    """Tell whether no segment is negative and no row longer than `width`: what follows writes by these numbers."""
    for row in range(len(segments)):
        left = width
        for place in range(segments.shape[1]):
            left -= segments[row, place]
            if segments[row, place] < 0 or left < 0:
                return False
    return True


@kernel
def position_ids(segments: np.ndarray, width: int) -> np.ndarray:
    """Number the tokens of each segment, and of the padding, from 0: (n, width) int64.

    Parameters
    ----------
    segments : (n, s) integers, tokens
    width : int, tokens
        Of a row; what the segments leave is padding.
    """
    # Slices are copied as blocks; number by number takes twice as long.
    out, count = np.empty((len(segments), width), np.int64), np.arange(width)
    for row in range(len(segments)):
        at = 0
        for place in range(segments.shape[1] + 1):
            length = segments[row, place] if place < segments.shape[1] else width - at
            out[row, at : at + length] = count[:length]
            at += length
    return out


@kernel
def segment_ids(segments: np.ndarray, width: int) -> np.ndarray:
    """Number the segments of each row from 0, empty ones left out; -1 for padding: (n, width) int64."""
    out = np.empty((len(segments), width), np.int64)
    for row in range(len(segments)):
        at, number = 0, 0
        for place in range(segments.shape[1]):
            length = segments[row, place]
            out[row, at : at + length] = number
            at += length
            number += length > 0
        out[row, at:] = -1
    return out


@kernel
def cu_seqlens(segments: np.ndarray, width: int) -> np.ndarray:
    """Return where each segment begins when all rows stand behind each other, and the end.

    Returns
    -------
    (k + 1,) int32
        From 0 to n * width; padding is a segment. Strictly ascending: there is no empty one.

    Examples
    --------
    >>> cu_seqlens(np.array([[4, 2, 0], [8, 0, 0]]), 8).tolist()
    [0, 4, 6, 8, 16]
    """
    out, count = np.zeros(len(segments) * (segments.shape[1] + 1) + 1, np.int32), 0
    for row in range(len(segments)):
        left = width
        for place in range(segments.shape[1] + 1):
            length = segments[row, place] if place < segments.shape[1] else left
            left -= length
            if length > 0:
                out[count + 1] = out[count] + length
                count += 1
    return out[: count + 1].copy()


def block_mask(numbers: np.ndarray) -> np.ndarray:
    """Return who may look at whom: tokens before it, and itself, of the same segment.

    Parameters
    ----------
    numbers : (n, width) integers
        As `segment_ids` gives them.

    Returns
    -------
    (n, 1, width, width) bool
        True: place (row, 0, i, j) lets i attend to j, as ``scaled_dot_product_attention`` reads it. It grows with the
        square of the width; kernels that take `cu_seqlens` or segment ids need no such thing.

    Examples
    --------
    >>> block_mask(np.array([[0, 0, 1]]))[0, 0].astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [0, 0, 1]]
    """
    same = numbers[:, None, :, None] == numbers[:, None, None, :]
    same &= np.tri(numbers.shape[1], dtype=bool)
    return same


@kernel
def targets(
    ids: np.ndarray, segments: np.ndarray, trained: np.ndarray, masked: bool, shift: bool, first: bool
) -> np.ndarray:
    """Return the labels of a batch.

    Parameters
    ----------
    ids : (n, width) integers
    segments : (n, s) integers, tokens
    trained : (n, width) bool
        Which tokens are targets; looked at only if `masked`.
    masked : bool
    shift : bool
        True: a label stands at the place before its token. False: at its token, for models that shift themselves.
    first : bool
        False: the first token of each segment is no target, since nothing before it belongs to it.

    Returns
    -------
    (n, width) int64
        -100 where nothing is to be learned, on padding always.
    """
    out, back = np.full(ids.shape, np.int64(-100)), 1 if shift else 0
    for row in range(len(ids)):
        at = 0
        for place in range(segments.shape[1]):
            end = at + segments[row, place]
            # Before the first place of a row there is none for its label.
            begin = max(at if first else at + 1, back)
            if not masked and begin < end:
                out[row, begin - back : end - back] = ids[row, begin:end]
            elif masked:
                for token in range(begin, end):
                    if trained[row, token]:
                        out[row, token - back] = ids[row, token]
            at = end
    return out
