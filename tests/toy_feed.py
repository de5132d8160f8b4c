"""Folders of shards whose every id says where it stands: row 3 of a folder is 30 31 32 33."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from prep_lib.shards.bin import SEGMENT
from prep_lib.shards.h5 import ShardWriter
from prep_lib.shards.manifest import shard_entry, write_manifest

WIDTH = 4


def rows_of(numbers: Sequence[int]) -> np.ndarray:
    """The ids of some rows."""
    return 10 * np.array(numbers, np.int64)[:, None] + np.arange(WIDTH)


def token_folder(
    folder: Path,
    sizes: Sequence[int],
    *,
    kind: str = "bin",
    dtype: Any = np.uint16,
    segments: Sequence[int] = (3, 1),
    first: int = 0,
    **manifest: Any,
) -> Path:
    """A folder of packed shards of these sizes; every row has the same segments."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for number, size in enumerate(sizes):
        start = first + sum(sizes[:number])
        ids = rows_of(range(start, start + size)).astype(dtype)
        pieces = {
            "row": np.repeat(np.arange(size), len(segments)), "start": np.zeros(size * len(segments), np.int64),
            "length": np.tile(np.array(segments, np.int32), size), "document": np.arange(size * len(segments)),
        }  # fmt: skip
        path = _write(folder, kind, number, ids, pieces)
        entries.append(shard_entry(path, size, size * sum(segments), np.dtype(dtype).name, {}))
    told = {"seq_len": WIDTH, "totals": {}, "seed": 42, "format": kind, **manifest}
    write_manifest(folder, shards=entries, **told)
    return folder


def _write(folder: Path, kind: str, number: int, ids: np.ndarray, pieces: dict[str, np.ndarray]) -> Path:
    if kind == "h5":
        path = folder / f"chunk_{number}.h5"
        with ShardWriter(path) as writer:
            writer.write("sequence", ids)
            for name, column in pieces.items():
                writer.write(f"segments/{name}", column)
        return path
    path, table = folder / f"shard-{number:05d}.bin", np.zeros(len(pieces["row"]), SEGMENT)
    ids.tofile(path)
    for name, column in pieces.items():
        table[name] = column
    np.save(path.with_suffix(".segments.npy"), table)
    return path


def npz_folder(folder: Path, sizes: Sequence[int], first: int = 0, **metadata: Any) -> Path:
    """A folder of npz shards of these sizes, of three fields; metadata.json says what is given."""
    import json

    folder.mkdir(parents=True, exist_ok=True)
    for number, size in enumerate(sizes):
        start = first + sum(sizes[:number])
        ids = rows_of(range(start, start + size))
        kinds = {"ids": ids.astype(np.int16), "far": ids.astype(np.uint32), "row": np.arange(start, start + size)}
        np.savez_compressed(folder / f"shard_{number:06d}.npz", **kinds)
    if metadata:
        (folder / "metadata.json").write_text(json.dumps(metadata))
    return folder
