"""A shard of two packs that fits in the head, and a folder around it."""

from __future__ import annotations

import numpy as np

from prep_lib.shards.h5 import ShardWriter
from prep_lib.shards.manifest import shard_entry, write_manifest

# Two packs of 6: documents 0 and 1 in the first, 2 in the second; `.` is padding.   0 0 0 1 1 . | 2 2 2 2 . .
SEQUENCE = np.array([[5, 6, 7, 8, 9, 0], [1, 2, 3, 4, 0, 0]], dtype=np.int32)
MASK = np.array([[0, 1, 1, 0, 1, 0], [0, 0, 1, 1, 0, 0]], dtype=bool)
PACKED = {
    "sequence": SEQUENCE,
    "loss_mask": MASK,
    "segments/row": np.array([0, 0, 1]),
    "segments/start": np.array([0, 0, 0]),
    "segments/length": np.array([3, 2, 4], dtype=np.int32),
    "segments/document": np.array([0, 1, 2]),
    "documents/source": np.array([0, 0, 1], dtype=np.int32),
    "documents/line": np.array([12, 13, 4]),
}
FIRST = np.array([[True], [False]])  # keeps the targets of the first pack
SOURCES = ["a.jsonl", "b.parquet"]


def write_shard(path, data=PACKED, sources=SOURCES):
    with ShardWriter(path) as writer:
        for name, values in data.items():
            writer.write(name, values)
        if "documents/line" in data:
            writer.strings("documents/sources", sources)
    return path


def build(folder, data=PACKED, *, seq_len=6, tokens=9, packing=None, tokenizer=None, **changes):
    """A folder with one shard, and a manifest that says what `data` should be."""
    path = write_shard(folder / "chunk_0.h5", data)
    entry = shard_entry(path, 2, tokens, "int32", {"a.jsonl": tokens}) | changes
    write_manifest(
        folder, shards=[entry], seq_len=seq_len, totals={"written": tokens}, seed=42,
        packing=packing or {"algorithm": "best_fit"}, tokenizer=tokenizer or {"max_id": 9},
    )  # fmt: skip
    return folder
