"""Reading batches: rows of bin and h5 shards against a raw memory map, and the loader against the bare loop."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from prep_lib.events import listen
from prep_lib.feed.dataset import PreProcessedDataset, TokenDataset
from prep_lib.feed.loader import create_dataloader
from prep_lib.shards.bin import SEGMENT
from prep_lib.shards.h5 import ShardWriter
from prep_lib.shards.manifest import shard_entry, write_manifest

RUNS, ROWS, WIDTH, BATCH, SHARDS = 7, 16_000, 2048, 16, 4


def folder(kind: str, path: Path, ids: np.ndarray) -> Path:
    """Write rows as a folder of four packed shards, three pieces a row."""
    path.mkdir()
    entries, most = [], len(ids) // SHARDS
    for number in range(SHARDS):
        part = ids[number * most : (number + 1) * most]
        lengths = np.tile(np.array([1000, 1000, WIDTH - 2000], np.int32), most)
        pieces = {"row": np.repeat(np.arange(most), 3), "length": lengths}
        pieces |= {"start": np.zeros(3 * most, np.int64), "document": np.arange(3 * most)}
        file = path / (f"shard-{number:05d}.bin" if kind == "bin" else f"chunk_{number}.h5")
        write(file, part, pieces)
        entries.append(shard_entry(file, most, part.size, str(part.dtype), {}))
    write_manifest(path, shards=entries, seq_len=WIDTH, totals={}, seed=None, format=kind)
    return path


def write(file: Path, ids: np.ndarray, pieces: dict[str, np.ndarray]) -> None:
    """Write one shard."""
    if file.suffix == ".h5":
        with ShardWriter(file) as writer:
            writer.write("sequence", ids)
            for name, column in pieces.items():
                writer.write(f"segments/{name}", column)
        return
    ids.tofile(file)
    table = np.zeros(len(pieces["row"]), SEGMENT)
    for name, column in pieces.items():
        table[name] = column
    np.save(file.with_suffix(".segments.npy"), table)


def raw_map(path: Path, ids: np.ndarray) -> np.ndarray:
    """Map the bytes alone; a plain array, because rows of the memmap class itself come slower."""
    ids.tofile(path)
    return np.asarray(np.memmap(path, ids.dtype, "r").reshape(ids.shape))


def ratio(ours: Callable[[], Any], theirs: Callable[[], Any]) -> float:
    """Median over pairs of runs of how fast ours is, theirs being 1, by processor time; who goes first alternates."""
    ours(), theirs()
    ratios = []
    for at in range(RUNS):
        times = {}
        for work in (ours, theirs) if at % 2 else (theirs, ours):
            start = time.process_time()
            work()
            times[work] = time.process_time() - start
        ratios.append(times[theirs] / times[ours])
    return statistics.median(ratios)


def each(work: Callable[[Any], Any], inputs: Any) -> Callable[[], None]:
    """Make a loop that keeps nothing: kept results would be timed as memory that is new."""

    def loop() -> None:
        for one in inputs:
            work(one)

    return loop


def passing(batches: Callable[[], Any]) -> Callable[[], None]:
    """Make a loop that does nothing with the batches."""

    def loop() -> None:
        for _ in batches():
            pass

    return loop


def run() -> list[dict[str, Any]]:
    """Measure, on 65 MB of uint16 ids, all of it in memory."""
    ids = np.random.default_rng(0).integers(0, 50_000, (ROWS, WIDTH), dtype=np.uint16)
    order = np.random.default_rng(1).permutation(ROWS).reshape(-1, BATCH)
    with tempfile.TemporaryDirectory() as temporary, listen(lambda event: None, instead=True):
        root = Path(temporary)
        raw = raw_map(root / "raw.bin", ids)
        data = {kind: TokenDataset(folder(kind, root / kind, ids)) for kind in ("bin", "h5")}
        asked = TokenDataset(root / "bin", labels="shifted", position_ids=True, cu_seqlens=True)

        def widened() -> None:
            for rows in order.tolist():
                out = np.empty((BATCH, WIDTH), np.int64)
                for at, row in enumerate(rows):
                    out[at] = raw[row]
                torch.from_numpy(out)

        def bare() -> None:
            for rows in order:
                torch.from_numpy(raw[rows].astype(np.int64))

        def loader(dataset: Any, **options: Any) -> Callable[[], None]:
            return passing(lambda: create_dataloader(dataset, BATCH, shuffle=True, **options))

        plain = DataLoader(data["bin"], batch_size=BATCH, shuffle=True)
        in_order = passing(lambda: create_dataloader(data["bin"], BATCH, shuffle=False))
        fetched = {kind: each(data[kind].fetch, order) for kind in data}
        figures = [
            ("random rows of 2,048 tokens from bin, against a raw memmap", ratio(fetched["bin"], widened), ">= 0.9"),
            ("random rows of 2,048 tokens from h5, against a raw memmap", ratio(fetched["h5"], widened), ">= 0.9"),
            ("loader without workers, shuffled, against the bare loop", ratio(loader(data["bin"]), bare), ">= 0.5"),
            ("loader without workers, in order, against the bare loop", ratio(in_order, bare), ">= 0.5"),
            ("loader with labels, positions, cu_seqlens, against the bare loop", ratio(loader(asked), bare), None),
            ("torch's own DataLoader over the same dataset", ratio(passing(lambda: plain), bare), None),
        ]  # fmt: skip
        names = ("name", "value", "goal")
        rows = [{**dict(zip(names, row, strict=True)), "unit": "ratio", "runs": RUNS} for row in figures]
        return rows + packed(root / "npz", ids)


def packed(path: Path, ids: np.ndarray) -> list[dict[str, Any]]:
    """Measure npz read front to back against nothing but unpacking the same files."""
    path.mkdir()
    for number, part in enumerate(np.split(ids[: ROWS // 4], SHARDS)):
        np.savez_compressed(path / f"shard_{number}.npz", input_ids=part.astype(np.int16))

    def read() -> None:
        for _ in create_dataloader(PreProcessedDataset(path), BATCH, shuffle=False):
            pass

    def unpacked() -> None:
        for reader in PreProcessedDataset(path)._readers:
            reader.read()

    name = "npz front to back by the loader, against unpacking alone"
    return [{"name": name, "value": ratio(read, unpacked), "unit": "ratio", "goal": None, "runs": RUNS}]


def main() -> None:
    """Print one line a figure."""
    for row in run():
        print(f"{row['name']}: {row['value']:.3g} {row['unit']} (goal {row['goal'] or 'none'}; {row['runs']} runs)")


if __name__ == "__main__":
    main()
