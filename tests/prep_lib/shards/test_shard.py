"""What every kind of shard does alike; the kinds are tested in test_h5, test_bin and test_npz."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prep_lib.errors import BadParameter
from prep_lib.shards import shard as module
from prep_lib.shards.shard import exact, row_blocks, split_groups


@given(st.lists(st.integers(-(2**40), 2**40), max_size=6), st.sampled_from(["u1", "u2", "u4", "i4", "i8", "f4", "?"]))
def test_a_value_is_stored_as_it_is_or_refused(values: list[int], kind: str) -> None:
    dtype, given_values = np.dtype(kind), np.array(values, np.int64)
    with np.errstate(all="ignore"):
        same = given_values.astype(dtype)
    if np.array_equal(same, given_values):
        stored = exact(given_values, dtype, "ids")
        assert stored.dtype == dtype
        assert stored.tolist() == same.tolist()
    else:
        with pytest.raises(BadParameter, match=r"ids: value \S+ does not fit"):
            exact(given_values, dtype, "ids")


def test_the_largest_ids_of_each_type() -> None:
    """65,535 fits uint16; 65,536 would have become 0."""
    assert exact(np.array([0, 65_535]), np.dtype("uint16"), "ids").tolist() == [0, 65_535]
    with pytest.raises(BadParameter, match=r"ids: value 65536 does not fit uint16 \(max 65535\); store a wider type"):
        exact(np.array([1, 65_536]), np.dtype("uint16"), "ids")
    with pytest.raises(BadParameter, match="value -1 does not fit"):
        exact(np.array([-1]), np.dtype("uint32"), "ids")


@given(st.lists(st.integers(0, 9), max_size=20), st.integers(1, 12))
def test_row_blocks_cover_all_rows_in_order(lengths: list[int], size: int) -> None:
    before, module.BLOCK = module.BLOCK, size
    try:
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        found = list(row_blocks(offsets))
    finally:
        module.BLOCK = before
    assert [row for first, last in found for row in range(first, last)] == list(range(len(lengths)))
    assert all(offsets[last] - offsets[first] <= size or last == first + 1 for first, last in found)


def test_groups_come_back_as_pairs() -> None:
    assert split_groups([["web", "en"], ["code", None]]) == [("web", "en"), ("code", None)]
