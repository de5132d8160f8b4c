"""Packing: planning from counts, assigning rows, and as few packs as best-fit-decreasing row by row."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from prep_lib.tokens.pack import LengthIndex, assign, compare, pack_order, plan_packs

ROWS, RUNS, FILES = 1_000_000, 5, 100


def lognormal(pack_size: int, median: float, sigma: float = 0.9) -> np.ndarray:
    """Chat-like lengths, none longer than a pack."""
    drawn = np.random.default_rng(0).lognormal(np.log(median), sigma, ROWS)
    return np.clip(drawn, 1, pack_size).astype(np.int64)


def seconds(work: Callable[[], Any]) -> float:
    """Median of the runs, seconds of wall time."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def row_wise(lengths: np.ndarray, pack_size: int) -> int:
    """Best-fit-decreasing a row at a time, the reference: how many packs it opens."""
    waiting, free, packs = [0] * (pack_size + 1), 0, 0
    for length in np.sort(lengths)[::-1].tolist():
        fitting = free >> length
        if fitting:
            space = length + (fitting & -fitting).bit_length() - 1
            waiting[space] -= 1
            if not waiting[space]:
                free ^= 1 << space
        else:
            space, packs = pack_size, packs + 1
        if space > length:
            waiting[space - length] += 1
            free |= 1 << (space - length)
    return packs


def plan_and_assign(lengths: np.ndarray, pack_size: int) -> None:
    """Everything a build does after the rows of all files are counted."""
    index = LengthIndex([np.bincount(part) for part in np.array_split(lengths, FILES)])
    plan = plan_packs(index.totals, pack_size)
    assign(plan, index, pack_order(plan.packs, 42), 42)


def run() -> list[dict[str, Any]]:
    """Measure."""
    rows = []
    for pack_size, median, goals in ((4096, 350, ("< 0.1", "< 2", "< 0.1")), (32_768, 1500, (None, None, None))):
        lengths = lognormal(pack_size, median)
        counts = np.bincount(lengths)
        plan = plan_packs(counts, pack_size)
        per = f"1,000,000 lengths at {pack_size:,}"
        planned = seconds(lambda counts=counts, size=pack_size: plan_packs(counts, size))
        assigned = seconds(lambda lengths=lengths, size=pack_size: plan_and_assign(lengths, size))
        compared = seconds(lambda lengths=lengths, size=pack_size: compare(lengths, size))
        rows += [
            {"name": f"planned, {per}", "value": planned, "unit": "s", "goal": goals[0], "runs": RUNS},
            {"name": f"planned and assigned, {per}", "value": assigned, "unit": "s", "goal": goals[1], "runs": RUNS},
            {"name": f"all algorithms compared, {per}", "value": compared, "unit": "s", "goal": goals[2], "runs": RUNS},
            {
                "name": f"packs against row-wise best-fit-decreasing, {per}",
                "value": plan.packs / row_wise(lengths, pack_size), "unit": "ratio", "goal": "<= 1", "runs": 1,
            },
        ]  # fmt: skip
    return rows


def main() -> None:
    """Print one line a figure."""
    for row in run():
        print(f"{row['name']}: {row['value']:.4g} {row['unit']} (goal {row['goal'] or 'none'}; {row['runs']} runs)")


if __name__ == "__main__":
    main()
