"""Normalise, identify and judge: stations 2 to 4 over JSONL files, from the first byte to the ledger.

    PREP_BENCH_TEXTS=folder of .jsonl, .jsonl.gz    else the built-in corpus
    PREP_BENCH_MEGABYTES=1000                       of text, repeated until it is enough

`run_files` with `Normalize`, `Language` and `Quality`: read, cleaned, judged, packed with zstd, what was measured and
what was turned down beside it. The speed is megabytes of text a second and core, start-up of the workers among it. The
floor is the same pass without a stage: reading, checking, counting and packing alone.

The growth exponent is the slope of log(processor time) over log(documents), from 10,000 documents of 400 characters to
1,000,000: 1 means that the millionth document costs what the first did.
"""

from __future__ import annotations

import json
import math
import os
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

from bench_tokenize_store import texts

from prep_lib.events import listen
from prep_lib.machine import default_workers
from prep_lib.pipeline import run_files
from prep_lib.text.language import Language
from prep_lib.text.normalize import Normalize
from prep_lib.text.quality import Quality

ROUNDS = 3
MEGABYTES = int(os.environ.get("PREP_BENCH_MEGABYTES", "200"))

#: Files the text is spread over.
FILES = 8

#: Documents of the growth measurement.
FEW, MANY = 10_000, int(os.environ.get("PREP_BENCH_DOCUMENTS", "1000000"))

STAGES = (Normalize(), Language(), Quality(rules="en=fineweb/code zh=fineweb2/cmn other=pass"))


def run() -> list[dict[str, Any]]:
    """Return the rows of the table."""
    with tempfile.TemporaryDirectory() as folder, listen(lambda event: None, instead=True):
        root, rows = Path(folder), texts()
        size = _write(root / "in", rows, MEGABYTES)
        clean = [_spent(lambda: _clean(root / "in", root / "out"), root / "out") for _ in range(ROUNDS)]
        floor = [_spent(lambda: _read(root / "in", root / "out"), root / "out") for _ in range(ROUNDS)]
        exponent = _growth(root, rows)
    cores, speed = default_workers(), [size / wall for wall, _ in clean]
    per_core = statistics.median(speed) / cores
    return [
        {"name": f"stations 2 to 4, {MEGABYTES} MB, MB/s a core", "value": per_core, "unit": "MB/s", "goal": ">= 15",
         "runs": ROUNDS},
        {"name": "the same, MB a second of processor time", "value": size / statistics.median(c for _, c in clean),
         "unit": "MB/s", "goal": None, "runs": ROUNDS},
        {"name": "without a stage / with all", "unit": "x", "goal": None, "runs": ROUNDS,
         "value": statistics.median(w for w, _ in clean) / statistics.median(w for w, _ in floor)},
        {"name": f"growth exponent, {FEW:,} to {MANY:,} documents", "value": exponent, "unit": "", "goal": "<= 1.05",
         "runs": 1},
    ]  # fmt: skip


def _write(folder: Path, rows: list[dict[str, str]], megabytes: int) -> float:
    """Spread repeated rows over files; return the megabytes of text."""
    folder.mkdir()
    wanted, size, rows = megabytes * 10**6 // FILES, 0, rows or [{"text": ""}]
    endless = cycle(rows)
    for number in range(FILES):
        with open(folder / f"{number}.jsonl", "w", encoding="utf-8") as file:
            written = 0
            while written < wanted:
                row = next(endless)
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                written += len(row["text"].encode())
        size += written
    return size / 10**6


def _clean(source: Path, out: Path) -> None:
    run_files(STAGES, source, out)


def _read(source: Path, out: Path) -> None:
    run_files([], source, out)


def _spent(work: Callable[[], None], out: Path) -> tuple[float, float]:
    """Return seconds by the clock, and of processor time with all workers."""
    shutil.rmtree(out, ignore_errors=True)
    wall, cpu = time.perf_counter(), _processor()
    work()
    return time.perf_counter() - wall, _processor() - cpu


def _processor() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _growth(root: Path, rows: list[dict[str, str]]) -> float:
    times = []
    for count in (FEW, MANY):
        source = root / f"grow-{count}.jsonl"
        with open(source, "w", encoding="utf-8") as file:
            file.writelines(_short(rows, count))
        # In this process: the start of a worker is a constant, and would flatter the slope.
        began = time.process_time()
        run_files(STAGES, source, root / f"grown-{count}", engine="inline")
        times.append(time.process_time() - began)
        source.unlink()
    return math.log(times[1] / times[0]) / math.log(MANY / FEW)


def _short(rows: list[dict[str, str]], count: int) -> Iterator[str]:
    for number, row in zip(range(count), cycle(rows), strict=False):
        yield json.dumps({"text": f"{number} {row['text'][:400]}"}, ensure_ascii=False) + "\n"
