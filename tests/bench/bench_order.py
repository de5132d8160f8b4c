"""Orders: nanoseconds an index both ways, how well each is mixed, and what audit and subsample cost."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from prep_lib.shards.npz import NpzWriter
from prep_lib.shuffle.audit import audit, labelled
from prep_lib.shuffle.order import BufferOrder, FullOrder, Order, ShardOrder, WindowOrder

RUNS, ASKED = 5, 1_000_000
#: The table of orders: 10 sources laid out one after another in shards of one size.
SHARDS, EACH, SOURCES = 512, 4096, 10


def seconds(work: Callable[[], Any], runs: int = RUNS) -> float:
    """Median of the runs after one that is not counted, seconds of wall time."""
    work()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def speed() -> list[dict[str, Any]]:
    """Time both directions: a good size, and the worst, which lies just above a power of four."""
    rows = []
    for size in (3_000_000, 4**11, 4**11 + 1):
        order = FullOrder(size, 42)
        places = np.arange(min(size, ASKED))
        found = order.rows(places)
        for name, work, asked in (("place to row", order.rows, places), ("row to place", order.places, found)):
            value = seconds(partial(work, asked)) / len(asked) * 1e9
            rows.append(_row(f"index permutation, {name}, {size:,} rows", value, "ns", "< 100"))
    window = WindowOrder([EACH] * SHARDS, 16, 42)
    places = np.arange(ASKED)
    rows.append(_row("window of 16 shards, place to row", seconds(lambda: window.rows(places)) / ASKED * 1e9, "ns"))
    found = window.rows(places)
    rows.append(_row("window of 16 shards, row to place", seconds(lambda: window.places(found)) / ASKED * 1e9, "ns"))
    few = places[:16]
    rows.append(_row("index permutation, a call for 16", _calls(lambda: order.rows(few)) * 1e6, "us"))
    return rows


def _calls(work: Callable[[], Any], count: int = 2000) -> float:
    return seconds(lambda: [work() for _ in range(count)]) / count


def quality() -> list[dict[str, Any]]:
    """Audit the orders of the table: dispersion, 1 = chance, and whether the audit passes them."""
    sizes, size = [EACH] * SHARDS, SHARDS * EACH
    table = labelled(np.arange(size) * SOURCES // size, sizes)
    orders: dict[str, Order] = {
        "full": FullOrder(size, 1), "window of 64 shards": WindowOrder(sizes, 64, 1),
        "window of 16 shards": WindowOrder(sizes, 16, 1), "shard after shard": ShardOrder(sizes, 1),
        "buffer of 10,000": BufferOrder(sizes, 10_000, 1), "buffer of 1,000": BufferOrder(sizes, 1000, 1),
    }  # fmt: skip
    rows = []
    for name, order in orders.items():
        checks = audit(table, order)
        found = next(check.value for check in checks if check.name == "dispersion")
        rows.append(_row(f"dispersion, {name}", found, "ratio", "<= 1.1" if name == "full" else None, runs=1))
        rows.append(_row(f"audit passes, {name}", all(check.passed for check in checks), "0 or 1",
                         ">= 1" if name == "full" else "< 1", runs=1))  # fmt: skip
    value = seconds(lambda: audit(table, orders["full"]), runs=3)
    return [*rows, _row(f"audit of {size:,} rows", value, "s", runs=3)]


def drawing() -> list[dict[str, Any]]:
    """Draw a tenth of rows as the specification has them, in a process of its own; against unpacking all of them."""
    with tempfile.TemporaryDirectory() as name:
        small, large = Path(name, "small"), Path(name, "large")
        _write(small / "shard_0.npz", 100_000)
        for at in range(4):
            _write(large / f"shard_{at}.npz", 250_000)
        told = [json.loads(_child(folder)) for folder in (small, large)]
    return [
        _row("subsample a tenth of 1,000,000 rows, CPU of unpacking them", told[1]["ratio"], "times", "<= 2", runs=3),
        _row("subsample, memory at 64 MiB budget", told[1]["peak"] / 2**20, "MB", "<= 64", runs=3),
        _row("subsample, memory of 1,000,000 rows to 100,000", told[1]["peak"] / told[0]["peak"], "ratio", "<= 1.5", 3),
    ]


CHILD = """
import json, statistics, sys, threading, time
from pathlib import Path
from prep_lib.events import listen
from prep_lib.shards.npz import NpzReader
from prep_lib.shuffle.order import FullOrder
from prep_lib.shuffle.subsample import subsample

def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))

def watch():
    while not done.wait(0.005):
        seen.append(anonymous())

def cpu(work):
    start = time.process_time()
    work()
    return time.process_time() - start

folder, seen, done = Path(sys.argv[1]), [], threading.Event()
paths = sorted(folder.glob("*.npz"))
asked = {"fraction": 0.1, "eval_samples": 1000, "engine": "inline", "memory_budget": "64MiB"}
with listen(lambda event: None, instead=True):
    FullOrder(5000, 1).rows([0])  # compiles
    before = anonymous()
    threading.Thread(target=watch, daemon=True).start()
    drawn = [cpu(lambda: subsample(folder, folder.with_name(f"{folder.name}-{run}"), **asked)) for run in range(3)]
    done.set()
    read = [cpu(lambda: [[None for _ in NpzReader(path).blocks(2**14)] for path in paths]) for run in range(3)]
print(json.dumps({"ratio": statistics.median(drawn) / statistics.median(read), "peak": max(seen) - before}))
"""


def _child(folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", CHILD, str(folder)], capture_output=True, text=True, check=True)
    return done.stdout


def _write(path: Path, rows: int) -> None:
    drawn = np.random.default_rng(rows)
    length = drawn.integers(10, 129, rows)
    inside = np.arange(128) < length[:, None]
    with NpzWriter(path) as writer:
        writer.array("input_ids", (drawn.zipf(1.3, (rows, 128)) % 30_000 * inside).astype(np.int16))
        writer.array("attention_mask", inside.astype(np.uint8))
        writer.array("label", length.astype(np.int64))


def _row(name: str, value: float, unit: str, goal: str | None = None, runs: int = RUNS) -> dict[str, Any]:
    return {"name": name, "value": float(value), "unit": unit, "goal": goal, "runs": runs}


def run() -> list[dict[str, Any]]:
    """Measure."""
    return [*speed(), *quality(), *drawing()]
