"""HDF5 shards: sequential reading against a raw memory map of the same bytes."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from prep_lib.shards.h5 import H5Shard, IOHandler, ShardWriter
from prep_lib.tensors import to_tensor

RUNS, ROWS, PACK, BATCH = 9, 20_000, 2048, 16


def packed(array: np.ndarray) -> int:
    """Read batches of packed rows front to back, as a trainer does."""
    return sum(int(array[at : at + BATCH].sum()) for at in range(0, len(array), BATCH))


def touched(rows: Iterable[Any]) -> int:
    """Touch every row."""
    return sum(len(row) for row in rows)


def bare(path: Path, array: np.ndarray) -> np.ndarray:
    """Store the bytes alone and map them; a plain array, because slices of the memmap class itself are slower."""
    array.tofile(path)
    return np.asarray(np.memmap(path, array.dtype, "c", 0, array.shape))


def ratio(ours: Callable[[], int], raw: Callable[[], int]) -> float:
    """Median over pairs of runs of how fast ours is, the raw map being 1; the pairs alternate who goes first."""
    assert ours() == raw()
    ratios = []
    for at in range(RUNS):
        times = {}
        for work in (ours, raw) if at % 2 else (raw, ours):
            start = time.perf_counter()
            work()
            times[work] = time.perf_counter() - start
        ratios.append(times[raw] / times[ours])
    return statistics.median(ratios)


def run() -> list[dict[str, Any]]:
    """Measure; 160 MB of packed rows and 20,000 ragged ones."""
    random = np.random.default_rng(0)
    ids = random.integers(0, 50_000, (ROWS, PACK), dtype=np.int32)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        with ShardWriter(Path(folder, "packed.h5")) as writer:
            writer.write("sequence", ids)
        written = ids.nbytes / 1e6 / (time.perf_counter() - start)
        shard, raw = H5Shard(Path(folder, "packed.h5")), bare(Path(folder, "packed.bin"), ids)
        sequential = ratio(lambda: packed(shard.columns["sequence"]), lambda: packed(raw))

        lengths = np.clip(random.lognormal(6, 0.9, ROWS), 8, 4096).astype(np.int64)
        spans = list(itertools.pairwise([0, *np.cumsum(lengths).tolist()]))
        flat = random.integers(0, 50_000, lengths.sum(), dtype=np.int32)
        path = IOHandler.save_h5(folder, "ragged", {"sequence": [flat[a:b] for a, b in spans]})
        rows, raw_rows = IOHandler.load_h5(path, share_memory=False)["sequence"], bare(Path(folder, "ragged.bin"), flat)
        by_row = ratio(lambda: touched(rows), lambda: touched(to_tensor(raw_rows[a:b]) for a, b in spans))
    figures = [
        ("HDF5 read in order, against a raw memmap", sequential, "ratio", ">= 0.9", RUNS),
        ("ragged rows as tensors, against slices of a raw memmap", by_row, "ratio", None, RUNS),
        ("HDF5 written", written, "MB/s", None, 1),
    ]
    return [dict(zip(("name", "value", "unit", "goal", "runs"), figure, strict=True)) for figure in figures]


def main() -> None:
    """Print one line a figure."""
    for row in run():
        print(f"{row['name']}: {row['value']:.4g} {row['unit']} (goal {row['goal'] or 'none'}; {row['runs']} runs)")


if __name__ == "__main__":
    main()
