"""Shuffle npz shards: 3,000,000 rows in 19 uneven files become 30 even ones, beside the specification's own algorithm.

The rows are of the specification's shape: int16 ids (128,), two masks (128,), and three numbers; ids follow Zipf's law,
rows are padded. The specification's way is written here as it stands there: every field of every file is loaded,
shuffled and saved unpacked; then each output gathers its share of each source from memory maps. The floor is what
nobody can go below who reads and writes npz: ISA-L unpacking every file once and packing it once, and nothing else.

Every way runs in a process of its own. What counts is processor time over that process and its workers, their peak of
anonymous memory together, and the most bytes that stood on the disk beside input and output. Ways take turns, every
round gives a ratio, and the median counts. The wall time of two workers against one says how well the work divides;
both write to a disk in memory where there is one, because two workers share one disk.
"""

from __future__ import annotations

import gc
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROWS, FILES, SHARD, ROUNDS = 3_000_000, 19, 100_000, 3

#: Rows made at once.
BLOCK = 50_000

Told = dict[str, float]


# The data


def sizes(rows: int = ROWS, files: int = FILES) -> list[int]:
    """Return uneven sizes: the first file holds a third."""
    weights = np.array([0.5 * (files - 1), *np.linspace(0.2, 1.8, files - 1)])
    cuts = np.floor(np.cumsum(weights) / weights.sum() * rows).astype(int)
    return np.diff([0, *cuts[:-1], rows]).tolist()


def blocks(source: int, rows: int) -> Iterator[dict[str, np.ndarray]]:
    """Yield rows of one source, about two thirds full."""
    from prep_lib.seeds import stream

    random = stream(42, "bench_shuffle", source)
    # Quantiles of Zipf's law with exponent 1.3 over 20,000 ids.
    weights = np.cumsum(np.arange(1, 20_001) ** -1.3)
    zipf = (1 + np.searchsorted(weights / weights[-1], (np.arange(2**16) + 0.5) / 2**16)).astype(np.int16)
    for first in range(0, rows, BLOCK):
        count = min(BLOCK, rows - first)
        filled = np.arange(128) < random.integers(40, 129, count)[:, None]
        ids = zipf.take(random.integers(0, 2**16, (count, 128), np.uint16)) * filled
        answer = filled & (np.arange(128) >= random.integers(5, 40, count)[:, None])
        yield {
            "input_ids": ids, "attention_mask": filled.view(np.uint8), "loss_mask": answer.view(np.uint8),
            "length": filled.sum(axis=1).astype(np.int16), "source": np.full(count, source, np.uint8),
            "row": np.arange(first, first + count, dtype=np.int64),
        }  # fmt: skip


def make(folder: Path) -> None:
    """Write the input."""
    from prep_lib.shards.npz import NpzWriter

    for source, rows in enumerate(sizes()):
        whole = list(blocks(source, rows))
        with NpzWriter(folder / f"part_{source}.npz") as writer:
            for name, values in whole[0].items():
                column = writer.stream(name, values.dtype, (rows, *values.shape[1:]))
                for block in whole:
                    column.write(block[name])


# The ways


def specified(source: Path, out: Path) -> None:
    """Shuffle as the specification writes it."""
    paths = sorted(source.glob("*.npz"), key=lambda path: int(path.stem.split("_")[1]))
    with np.load(paths[0]) as data:
        fields = data.files
    random, temp, lengths = np.random.RandomState(42), out / "temp", []
    for at, path in enumerate(paths):
        data = np.load(path)
        lengths.append(len(data[fields[-1]]))
        order = random.permutation(lengths[-1])
        for name in fields:
            (temp / name).mkdir(parents=True, exist_ok=True)
            array = data[name].copy()
            shuffled = array[order]
            np.save(temp / name / f"shard_{at:06d}.npy", shuffled)
            del array, shuffled
            gc.collect()
        data.close()
    maps = [
        {name: np.load(temp / name / f"shard_{at:06d}.npy", mmap_mode="r") for name in fields}
        for at in range(len(paths))
    ]
    count = -(-sum(lengths) // SHARD)
    for shard in range(count):
        buffers: dict[str, list[np.ndarray]] = {name: [] for name in fields}
        for at, length in enumerate(lengths):
            start, end = shard * length // count, (shard + 1) * length // count
            for name in fields if start < end else ():
                buffers[name].append(maps[at][name][start:end].copy())
        output = {name: np.concatenate(buffers[name]) for name in fields}
        order = random.permutation(len(output[fields[0]]))
        for name in fields:
            output[name] = output[name][order]
        np.savez_compressed(out / f"shard_{shard:06d}.npz", **output)
        del output, buffers, order
        gc.collect()


def ours(source: Path, out: Path, workers: int) -> None:
    """Shuffle as `prep_lib` does."""
    from prep_lib.events import listen
    from prep_lib.shuffle.shuffle_npz import shuffle_npz

    with listen(lambda _: None, instead=True):
        shuffle_npz(source, out, SHARD, workers=workers, temp_dir=out / "temp")


def floor(source: Path, out: Path) -> None:
    """Unpack every file once and pack it once."""
    from prep_lib.shards.npz import NpzReader, NpzWriter

    for path in source.glob("*.npz"):
        reader = NpzReader(path)
        with NpzWriter(out / path.name) as writer:
            for one in reader.fields.values():
                column = writer.stream(*one)
                for block in reader.blocks(2**18 // max(one.row_bytes, 1), [one.name]):
                    column.write(block[one.name])


# The measure


def family(root: int) -> list[int]:
    """Return a process and all below it; the kernel knows children at once, where psutil reads every process."""
    try:
        text = "".join(path.read_text() for path in Path(f"/proc/{root}/task").glob("*/children"))
    except OSError:
        return [root]
    return [root, *(below for child in text.split() for below in family(int(child)))]


def anonymous(root: int) -> int:
    """Return the anonymous memory of a process and all below it, bytes."""
    total = 0
    for process in family(root):
        try:
            text = Path(f"/proc/{process}/status").read_text()
        except OSError:
            continue
        total += int(text.split("RssAnon:")[1].split()[0]) * 1024 if "RssAnon:" in text else 0
    return total


def on_disk(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(place, name)).st_size
            except OSError:
                continue
    return total


def measured(way: str, source: Path, out: Path) -> Told:
    """Run one way in a process of its own, and return what it took."""
    out.mkdir()
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen([sys.executable, __file__, way, str(source), str(out)])
    peak = {"memory": 0, "temporary": 0}
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            peak["memory"] = max(peak["memory"], anonymous(process.pid))
            peak["temporary"] = max(peak["temporary"], on_disk(out / "temp"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    seconds = time.monotonic() - began
    ended.set()
    watcher.join()
    if code:
        raise RuntimeError(f"{way} failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    size = sum(path.stat().st_size for path in out.glob("*.npz"))
    return {"processor": spent, "seconds": seconds, "output": size, **peak}


def rounds(folder: Path) -> list[dict[str, Told]]:
    """Return what every way took, round by round."""
    source = folder / "in"
    make(source)
    ways = ("floor", "specified", "ours-1", "ours-2")
    out: list[dict[str, Told]] = []
    for _ in range(ROUNDS):
        told = {}
        for way in ways:
            told[way] = measured(way, source, folder / "out")
            print(way, told[way], file=sys.stderr)
            subprocess.run(["rm", "-r", folder / "out"], check=True)
        out.append(told)
    return out


def run() -> list[dict[str, Any]]:
    """Measure, and give the rows of the table."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and os.statvfs(memory).f_bavail * os.statvfs(memory).f_frsize > 6 * 10**9
    with tempfile.TemporaryDirectory(dir=memory if roomy else None) as folder:
        found = rounds(Path(folder))

    def ratio(what: str, one: str, other: str) -> float:
        return statistics.median(told[one][what] / told[other][what] for told in found)

    def row(name: str, value: float, unit: str, goal: str | None = None) -> dict[str, Any]:
        return {"name": f"shuffle_npz, {name}", "value": value, "unit": unit, "goal": goal, "runs": ROUNDS}

    return [
        row("CPU of the specification against ours", ratio("processor", "specified", "ours-1"), "x", ">= 4"),
        row("memory against the specification's", ratio("memory", "ours-1", "specified"), "x", "< 0.5"),
        row("memory of 2 workers against the specification's", ratio("memory", "ours-2", "specified"), "x"),
        row("temporary space against the specification's", ratio("temporary", "ours-1", "specified"), "x", "<= 0.25"),
        row("CPU against unpacking and packing", ratio("processor", "ours-1", "floor"), "x", "<= 2.2"),
        row("2 workers against 1", ratio("seconds", "ours-1", "ours-2"), "x faster", ">= 1.7"),
        row("1 worker", statistics.median(told["ours-1"]["seconds"] for told in found), "s"),
        row("memory, 1 worker", statistics.median(told["ours-1"]["memory"] for told in found) / 1e6, "MB"),
        row("output against the specification's", ratio("output", "ours-1", "specified"), "x"),
    ]


if __name__ == "__main__":
    way, source, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if way.startswith("ours-"):
        ours(source, out, int(way.removeprefix("ours-")))
    else:
        {"specified": specified, "floor": floor}[way](source, out)
