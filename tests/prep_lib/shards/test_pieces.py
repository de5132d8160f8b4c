"""The pieces of a shard are its tokens, each once, padding apart; what does not fit is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_shards import RAGGED, SEQUENCE, build, ragged, store

from prep_lib.errors import BadInput, BadShard
from prep_lib.shards.formats import FORMATS, open_shard
from prep_lib.shards.h5 import H5Shard
from prep_lib.shards.pieces import blocks, joined, pieces_of, places, plain


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_pieces_say_where_each_document_lies(tmp_path, kind):
    store(tmp_path, kind=kind, rows=2)
    found = pieces_of(open_shard(tmp_path / FORMATS[kind].file(0)))
    assert {name: column.tolist() for name, column in found._asdict().items()} == {
        "begin": [0, 3, 6, 8], "length": [3, 3, 2, 3], "start": [0, 0, 3, 0], "document": [0, 1, 1, 2],
        "row": [0, 0, 1, 1],
    }  # fmt: skip
    assert joined(found).tolist() == [False, False, True, False]


def test_a_row_that_is_not_packed_is_a_piece(tmp_path):
    data = {name: values for name, values in RAGGED.items() if "mask" not in name}
    data |= {"documents/source": np.array([0, 0]), "documents/line": np.array([1, 2])}
    found = pieces_of(H5Shard(ragged(tmp_path, data) / "chunk_0.h5"))
    assert (found.begin.tolist(), found.length.tolist(), found.document.tolist()) == ([0, 3], [3, 2], [0, 1])
    assert joined(found).tolist() == [False, False]


@pytest.mark.parametrize("block", [1, 4, 2**22])
@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_blocks_are_the_ids_without_padding(tmp_path, monkeypatch, kind, block):
    monkeypatch.setattr("prep_lib.shards.shard.BLOCK", block)
    store(tmp_path, kind=kind, rows=2)
    shard = open_shard(tmp_path / FORMATS[kind].file(0))
    found = list(blocks(shard, pieces_of(shard), 9))
    assert np.concatenate([ids for _, _, ids in found]).tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 1]
    assert [first for first, _, _ in found] == [0, *(last for _, last, _ in found[:-1])]
    with pytest.raises(BadShard, match="holds id 9, allowed are 0 to 8; see prep verify"):
        list(blocks(shard, pieces_of(shard), 8))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), max_size=8))
def test_places_are_those_of_a_loop(pairs):
    begin, length = (np.array([pair[at] for pair in pairs], np.int64) for at in (0, 1))
    assert places(begin, length).tolist() == [place for a, n in pairs for place in range(a, a + n)]


def test_ids_below_zero_are_refused(tmp_path):
    documents = {0: (0, [1, -2, 3])}
    store(tmp_path, [[(0, 0, 3)]], documents, kind="h5")
    shard = open_shard(tmp_path / "chunk_0.h5")
    with pytest.raises(BadShard, match="holds id -2, allowed are 0 to 9"):
        list(blocks(shard, pieces_of(shard), 9))


def test_masks_and_unknown_borders_are_refused(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with pytest.raises(BadInput, match="holds sequence, loss_mask; files for pretraining hold ids alone"):
        plain(H5Shard(build(tmp_path / "a") / "chunk_0.h5"))
    with pytest.raises(BadInput, match="rows without segments"):
        plain(H5Shard(build(tmp_path / "b", {"sequence": SEQUENCE}) / "chunk_0.h5"))
