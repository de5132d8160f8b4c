"""formats.py: every kind of shard is opened by its name alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prep_lib.errors import BadShard
from prep_lib.shards.formats import FORMATS, document_counts, open_shard
from prep_lib.shards.h5 import ShardWriter
from prep_lib.shards.manifest import shard_entry, write_manifest


def test_document_counts_join_the_pieces_of_a_cut_document(tmp_path: Path) -> None:
    """Two shards of one pack each; document on line 2 lies across both."""
    entries = []
    for at, (lines, lengths, starts) in enumerate([((1, 2), (3, 1), (0, 0)), ((2, 3), (2, 2), (1, 0))]):
        with ShardWriter(tmp_path / f"chunk_{at}.h5") as writer:
            writer.write("sequence", np.arange(4, dtype=np.int32)[None])
            for name, values in {"row": [0, 0], "start": starts, "document": [0, 1]}.items():
                writer.write(f"segments/{name}", np.array(values, np.int64))
            writer.write("segments/length", np.array(lengths, np.int32))
            writer.strings("documents/sources", ["a.jsonl"])
            writer.write("documents/source", np.zeros(2, np.int32))
            writer.write("documents/line", np.array(lines, np.int64))
        entries.append(shard_entry(tmp_path / f"chunk_{at}.h5", 1, 4, "int32", {"a.jsonl": 4}))
    write_manifest(tmp_path, shards=entries, seq_len=4, totals={}, seed=None)
    tokens, targets = document_counts(tmp_path)
    assert tokens.tolist() == [3, 3, 2]
    assert targets.tolist() == [3, 3, 2]


def test_a_name_says_which_shard_a_file_is_or_belongs_to() -> None:
    for kind in FORMATS.values():
        for number in (0, 7, 123_456_789):
            assert {kind.number(name) for name in kind.outputs(number)} == {number}
        for strange in ("manifest.json", "chunk_.h5", "shard-7.bin", "shard-00007.txt", "chunk_07.h5"):
            assert kind.number(strange) is None


def test_what_is_no_shard_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadShard, match=r"shards/formats: .*notes.txt is no shard; known are .h5, .bin"):
        open_shard(tmp_path / "notes.txt")
