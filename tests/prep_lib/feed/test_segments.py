"""Positions, boundaries, masks and labels from segments: a row that fits in the head, then laws over all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.feed.segments import (
    IGNORED,
    block_mask,
    cu_seqlens,
    fill_segments,
    find_segments,
    fit,
    position_ids,
    segment_ids,
    targets,
)

#: One row of eight: documents of four and two tokens, two places of padding whose id is that of a token.
IDS = np.array([[10, 11, 12, 13, 20, 21, 10, 10]], np.uint16)
SEGMENTS = np.array([[4, 2]], np.int32)
ALL = np.ones(IDS.shape, bool)
NO = IGNORED

#: The first call compiles.
law = settings(deadline=None, max_examples=60)


@st.composite
def batches(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    """Segments of some rows, empty ones among them, and a width that holds them."""
    width = draw(st.integers(1, 12))
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        lengths, left = [], width
        while left and draw(st.booleans()):
            lengths.append(draw(st.integers(0, left)))
            left -= lengths[-1]
        rows.append(lengths)
    most = max(1, *map(len, rows))
    return np.array([row + [0] * (most - len(row)) for row in rows], np.int32), width


def test_a_row_that_fits_in_the_head() -> None:
    assert position_ids(SEGMENTS, 8).tolist() == [[0, 1, 2, 3, 0, 1, 0, 1]]
    assert segment_ids(SEGMENTS, 8).tolist() == [[0, 0, 0, 0, 1, 1, -1, -1]]
    assert cu_seqlens(SEGMENTS, 8).tolist() == [0, 4, 6, 8]


@pytest.mark.parametrize(
    ("shift", "first", "wanted"),
    [
        (False, True, [10, 11, 12, 13, 20, 21, NO, NO]),
        (False, False, [NO, 11, 12, 13, NO, 21, NO, NO]),
        (True, True, [11, 12, 13, 20, 21, NO, NO, NO]),
        (True, False, [11, 12, 13, NO, 21, NO, NO, NO]),
    ],
)
def test_labels_at_document_starts_as_asked(shift: bool, first: bool, wanted: list[int]) -> None:
    assert targets(IDS, SEGMENTS, ALL, False, shift, first).tolist() == [wanted]


def test_a_loss_mask_takes_tokens_away_and_never_adds_padding() -> None:
    trained = np.array([[0, 1, 0, 1, 1, 0, 1, 1]], bool)
    assert targets(IDS, SEGMENTS, trained, True, False, True).tolist() == [[NO, 11, NO, 13, 20, NO, NO, NO]]


def test_an_id_above_32_bits_signed_is_a_label_and_not_negative() -> None:
    ids = np.array([[2**32 - 1, 70_000]], np.uint32)
    assert targets(ids, np.array([[2]], np.int32), ids > 0, False, False, True).tolist() == [[2**32 - 1, 70_000]]


def test_a_document_longer_than_16_bits_is_one_segment() -> None:
    segments = np.array([[70_000, 5]], np.int32)
    assert position_ids(segments, 70_005)[0, [65_536, 69_999, 70_000]].tolist() == [65_536, 69_999, 0]
    assert cu_seqlens(segments, 70_005).tolist() == [0, 70_000, 70_005]


@law
@given(batches())
def test_no_segment_is_empty_and_none_is_lost(batch: tuple[np.ndarray, int]) -> None:
    """Segments of no token give kernels of flash attention nothing to divide by."""
    segments, width = batch
    ends = cu_seqlens(segments, width)
    assert ends[0] == 0
    assert ends[-1] == len(segments) * width
    assert (np.diff(ends) > 0).all()
    position, segment = position_ids(segments, width), segment_ids(segments, width)
    starts = np.flatnonzero((position == 0).ravel())
    assert starts.tolist() == ends[:-1].tolist()
    assert (segment >= 0).sum() == segments.sum()


@law
@given(batches(), st.booleans(), st.booleans())
def test_shifted_labels_are_aligned_ones_one_place_to_the_left(
    batch: tuple[np.ndarray, int], first: bool, masked: bool
) -> None:
    segments, width = batch
    ids = np.arange(len(segments) * width).reshape(-1, width)
    trained = ids % 3 > 0
    aligned = targets(ids, segments, trained, masked, False, first)
    shifted = targets(ids, segments, trained, masked, True, first)
    assert (shifted[:, :-1] == aligned[:, 1:]).all()
    assert (shifted[:, -1] == IGNORED).all()


@law
@given(batches())
def test_a_token_sees_its_own_document_up_to_itself(batch: tuple[np.ndarray, int]) -> None:
    segments, width = batch
    position, mask = position_ids(segments, width), block_mask(segment_ids(segments, width))
    assert mask.shape == (len(segments), 1, width, width)
    assert mask.sum(axis=3)[:, 0].tolist() == (position + 1).tolist()  # itself, so no row of a softmax is empty


@law
@given(st.lists(st.lists(st.integers(1, 5), max_size=3), min_size=1, max_size=8), st.data())
def test_segments_of_any_rows_are_looked_up(stored: list[list[int]], data: st.DataObject) -> None:
    table = np.zeros(sum(map(len, stored)), np.dtype([("row", "<i8"), ("length", "<i4")]))
    table["row"] = [row for row, lengths in enumerate(stored) for _ in lengths]
    table["length"] = [length for lengths in stored for length in lengths]
    wanted = np.array(data.draw(st.lists(st.integers(0, len(stored) - 1), min_size=1, max_size=5)))
    shards = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(wanted), max_size=len(wanted))))
    for find, fill in ((find_segments, fill_segments), (find_segments.python, fill_segments.python)):
        first, counts = np.full(len(wanted), -1), np.zeros(len(wanted), np.int64)
        find(table["row"], wanted, shards, 1, first, counts)
        out = np.zeros((len(wanted), 3), np.int32)
        fill(table["length"], first, counts, shards, 1, out)
        mine = [stored[row] if shard else [] for row, shard in zip(wanted, shards, strict=True)]
        assert [[n for n in row if n] for row in out.tolist()] == mine
        assert [at for at in first.tolist() if at < 0] == [-1] * int((shards == 0).sum())


@law
@given(batches(), st.booleans(), st.booleans(), st.booleans())
def test_compiled_and_plain_are_the_same(batch: tuple[np.ndarray, int], masked: bool, shift: bool, first: bool) -> None:
    segments, width = batch
    ids = np.arange(len(segments) * width).reshape(-1, width).astype(np.uint16)
    call = (ids, segments, ids % 2 > 0, masked, shift, first)
    assert targets(*call).tolist() == targets.python(*call).tolist()
    for kernel in (position_ids, segment_ids, cu_seqlens):
        assert kernel(segments, width).tolist() == kernel.python(segments, width).tolist()
    assert fit(segments, width) is fit.python(segments, width) is True


@pytest.mark.parametrize("lengths", [[4, 5], [-1, 3], [3, -1], [9], [2**31 - 1, 2**31 - 1]])
def test_segments_that_do_not_fit_are_told(lengths: list[int]) -> None:
    segments = np.array([[1, 2], [*lengths, 0][:2]], np.int32)
    assert not fit(segments, 8)
    assert not fit.python(segments.astype(np.int64), 8)
