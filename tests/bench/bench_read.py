"""Random reads of 2,048 tokens: our flat files and HDF5, a raw memory map, and the readers of Megatron and datatrove.

    PREP_BENCH_DATATROVE=/tmp/datatrove/bin/python       else without it; see peers/datatrove.txt
    PREP_BENCH_MEGATRON="/tmp/mcore/bin/python …"        else without it; see peers/megatron.txt

Every reader gets the same 20,000 rows of ids in two bytes, one shard, through what `prep convert` made of it, and reads
10,000 of them in one random order, each until it is 2,048 ids of int64, as a model takes them: views of our `Shard`, of
the raw map and of Megatron's `IndexedDataset.get` are converted, datatrove's `DatatroveFileDataset` does so by itself.
Seconds of processor time, in rounds that take turns, page cache warm. The first ids are summed, and the sums compared.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from prep_lib.shards.formats import FORMATS, open_shard
from prep_lib.shards.interop import convert
from prep_lib.shards.manifest import shard_entry, write_manifest

RUNS, ROWS, WIDTH, READS = 9, 20_000, 2048, 10_000


def store(folder: Path, kind: str, ids: np.ndarray) -> Path:
    """Write one shard in which every row is a document."""
    form, rows = FORMATS[kind], len(ids)
    path, *beside = (folder / name for name in form.outputs(0))
    numbers = np.arange(rows)
    columns = {
        "segments/row": numbers, "segments/start": numbers * 0, "segments/length": np.full(rows, WIDTH, np.int32),
        "segments/document": numbers, "documents/source": numbers * 0, "documents/line": numbers + 1,
        "documents/group": numbers * 0, "documents/tokens": np.full(rows, WIDTH), "documents/id": np.zeros(0, np.uint8),
        "documents/id_end": numbers * 0,
    }  # fmt: skip
    with form.writer(path) as file:
        file.create("sequence", ids.shape, ids.dtype)[0:rows] = ids
        for name, values in columns.items():
            file.write(name, values)
        file.strings("documents/sources", ["a.jsonl"])
        file.strings("documents/groups", [json.dumps(["a", None])])
    entry = shard_entry(path, rows, ids.size, str(ids.dtype), {"a.jsonl": ids.size}, beside)
    write_manifest(
        folder,
        shards=[entry],
        seq_len=WIDTH,
        totals={},
        seed=None,
        format=kind,
        tokenizer={"name": "t", "max_id": 65_535},
    )
    return path


def ours(array: np.ndarray, order: list[int]) -> Callable[[], tuple[float, int]]:
    """Return a round of reads in this process."""

    def work() -> tuple[float, int]:
        start, total = time.process_time(), 0
        for at in order:
            total += int(array[at].astype(np.int64)[0])
        return time.process_time() - start, total

    return work


def theirs(program: str, python: str, path: Path, places: Path) -> Callable[[], tuple[float, int]]:
    """Start another reader, and return how to ask it for a round."""
    script = str(Path(__file__).parent / "peers" / "read_peers.py")
    asked = subprocess.Popen(
        [python, script, program, str(path), str(places)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert asked.stdin is not None
    assert asked.stdout is not None
    into, out = asked.stdin, asked.stdout

    def work() -> tuple[float, int]:
        into.write("round\n")
        into.flush()
        seconds, total = out.readline().split()
        return float(seconds), int(total)

    return work


def _ways(place: Path, ids: np.ndarray) -> Iterator[tuple[str, Callable[[], tuple[float, int]]]]:
    order = np.random.default_rng(1).permutation(ROWS)[:READS]
    np.save(places := place / "places.npy", np.append(order, WIDTH))
    wanted = order.tolist()
    flat = store(place / "bin", "bin", ids)
    yield "raw memmap", ours(np.asarray(np.memmap(flat, "<u2", "r", shape=ids.shape)), wanted)
    for kind in ("bin", "h5"):
        path = flat if kind == "bin" else store(place / kind, kind, ids)
        yield kind, ours(open_shard(path).columns["sequence"], wanted)
    for program in ("megatron", "datatrove"):
        if python := os.environ.get(f"PREP_BENCH_{program.upper()}"):
            told = convert(place / "bin", program)
            name = told["files"][0]["file"].removesuffix(".bin")
            yield program, theirs(program, python.split()[0], place / f"bin-{program}" / name, places)


def run() -> list[dict[str, Any]]:
    """Measure; 80 MB of ids."""
    ids = np.random.default_rng(0).integers(0, 50_000, (ROWS, WIDTH), dtype=np.uint16)
    with tempfile.TemporaryDirectory() as place:
        ways = dict(_ways(Path(place), ids))
        spent: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(RUNS + 1):
            # Who is first in a round changes; the first round warms up.
            names = list(ways)[number % len(ways) :] + list(ways)[: number % len(ways)]
            rounds = {name: ways[name]() for name in names}
            if len({total for _, total in rounds.values()}) > 1:
                raise RuntimeError(f"the readers did not read the same: {rounds}")
            for name, (seconds, _) in rounds.items() if number else ():
                spent[name].append(seconds)
    rows = []
    for name, seconds in spent.items():
        speed = READS / statistics.median(seconds)
        rows.append({"name": f"read: {name}", "value": round(speed), "unit": "rows/s", "goal": None, "runs": RUNS})
        if name != "raw memmap":
            ratio = statistics.median(raw / one for raw, one in zip(spent["raw memmap"], seconds, strict=True))
            goal = ">= 0.9" if name in ("bin", "h5") else None
            told = {"name": f"read: {name} / raw memmap", "value": round(ratio, 3), "unit": "x"}
            rows.append({**told, "goal": goal, "runs": RUNS})
    return rows


if __name__ == "__main__":
    for row in run():
        print(f"{row['name']}: {row['value']:,} {row['unit']} (goal {row['goal'] or 'none'}; {row['runs']} runs)")
