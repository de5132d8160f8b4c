"""Packing 100,000 rows into packs of 2,048 tokens, beside TRL's `pack_dataset(strategy="bfd")`.

    python3.11 -m venv /tmp/trl && /tmp/trl/bin/pip install -r tests/bench/peers/trl.txt
    .venv/bin/python tests/bench/peers/pack_trl.py /tmp/trl/bin/python

The same rows for both: lengths drawn log-normally (median 350, sigma 0.9), none above a pack, ids of int32. TRL gets
them as an Arrow table in memory and returns one; it packs every 1,000 rows apart, its default, and once all together.
Ours counts, plans, assigns and copies the ids into one array of packs, in this process, from memory as well. Medians of
some runs after one that warms up; the padding is what is missing to full packs.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

ROWS, PACK_SIZE, RUNS = 100_000, 2048, 3


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of all rows behind each other, and the lengths."""
    random = np.random.default_rng(0)
    lengths = np.clip(random.lognormal(np.log(350), 0.9, ROWS), 1, PACK_SIZE).astype(np.int64)
    return random.integers(0, 50_000, lengths.sum(), dtype=np.int32), lengths


def figure(name: str, pack: Callable[[], int], tokens: int) -> dict[str, Any]:
    """Time a way of packing that returns the number of packs."""
    packs, times = pack(), []
    for _ in range(RUNS):
        start = time.perf_counter()
        pack()
        times.append(time.perf_counter() - start)
    padding = 1 - tokens / (packs * PACK_SIZE)
    return {"name": name, "seconds": statistics.median(times), "packs": packs, "padding": padding}


def theirs() -> Iterator[dict[str, Any]]:
    """Measure TRL, inside its own environment."""
    import datasets
    import pyarrow
    import trl

    datasets.disable_progress_bars()
    ids, lengths = rows()
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    dataset = datasets.Dataset(pyarrow.table({"input_ids": pyarrow.ListArray.from_arrays(offsets, ids)}))
    for name, batch in (("1,000 rows apart", 1000), ("all rows together", ROWS)):

        def pack(batch: int = batch) -> int:
            return len(trl.pack_dataset(dataset, PACK_SIZE, "bfd", {"batch_size": batch}))

        yield figure(f"trl {trl.__version__} bfd, {name}", pack, int(lengths.sum()))


def ours() -> Iterator[dict[str, Any]]:
    """Measure this project."""
    from prep_lib.shards.write import _copy
    from prep_lib.tokens.pack import LengthIndex, assign, pack_order, plan_packs

    ids, lengths = rows()

    def plan() -> int:
        return plan_packs(np.bincount(lengths), PACK_SIZE).packs

    def pack() -> int:
        index = LengthIndex([np.bincount(lengths)])
        made = plan_packs(index.totals, PACK_SIZE)
        at, _, position, length = assign(made, index, pack_order(made.packs, 42), 42)
        row, ends = np.argsort(lengths, kind="stable")[position], np.cumsum(length)
        before = np.concatenate(([0], ends))[np.searchsorted(at, at)]
        target = np.zeros(made.packs * PACK_SIZE, np.int32)
        _copy(ids, (np.cumsum(lengths) - lengths)[row], length, target, at * PACK_SIZE + ends - length - before)
        return made.packs

    yield figure("prep-workbench best_fit, planned", plan, int(lengths.sum()))
    yield figure("prep-workbench best_fit, planned and packed", pack, int(lengths.sum()))


def main() -> None:
    """Run both, or TRL alone where this is its own environment."""
    if sys.argv[1:] == ["theirs"]:
        print(json.dumps(list(theirs())))
        return
    told = subprocess.check_output([sys.argv[1], __file__, "theirs"], text=True)
    for row in [*json.loads(told.splitlines()[-1]), *ours()]:
        print(f"{row['name']:45} {row['seconds']:8.3f} s {row['packs']:8,} packs {row['padding']:7.2%} padding")


if __name__ == "__main__":
    main()
