"""The whole pretraining way: from JSONL to packed shards, by step, in megabytes of text a second and core.

    PREP_BENCH_TEXTS=folder of .jsonl, .jsonl.gz    else the built-in corpus
    PREP_BENCH_WAY_MB=1000                          of text; 100 if not told
    PREP_BENCH_BENCHMARKS=folder                    of benchmarks; else the built-in one

Documents are recombined, so that the later steps have as much to do as the first: half the lines of one text and half
of another of its source. One in twenty is a copy, one in twenty a copy with a word more. Everything is counted: the
start of workers, keys and digests, what is turned down. A megabyte is one of the text that came in, at every step.
"""

from __future__ import annotations

import json
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from bench_tokenize_store import texts

from prep_lib import AutoTokenizer, build_shards, corpus, decide_files, seeds
from prep_lib.events import listen
from prep_lib.ledger import Ledger
from prep_lib.machine import default_workers
from prep_lib.pipeline import draw, run_files
from prep_lib.text.benchmarks import load_benchmarks
from prep_lib.text.decontaminate import Decontaminate
from prep_lib.text.exact_dedup import ExactDedup
from prep_lib.text.language import Language
from prep_lib.text.mixture import Mixture
from prep_lib.text.near_dedup import NearDedup
from prep_lib.text.normalize import Normalize
from prep_lib.text.pii import Pii
from prep_lib.text.quality import Quality

MEGABYTES = int(os.environ.get("PREP_BENCH_WAY_MB", "100"))
FILES = 8


def run() -> list[dict[str, Any]]:
    """Return the rows of the table."""
    with tempfile.TemporaryDirectory() as folder, listen(lambda event: None, instead=True):
        root = Path(folder)
        size = _write(root / "in")
        told = _steps(root)
    told = {f"all steps, {MEGABYTES} MB": _sum(told.values()), **told}
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
    rows = [_row("largest process", peak, "MiB")]
    for at, (name, (wall, cpu)) in enumerate(told.items()):
        rows.append(_row(f"{name}, MB/s a core", size / wall / default_workers(), "MB/s", None if at else ">= 10"))
        rows.append(_row(f"{name}, MB a second of processor time", size / cpu, "MB/s"))
    return rows


def _sum(spent: Iterable[tuple[float, float]]) -> tuple[float, float]:
    walls, cpus = zip(*spent, strict=True)
    return sum(walls), sum(cpus)


def _row(name: str, value: float, unit: str, goal: str | None = None) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "goal": goal, "runs": 1}


def _steps(root: Path) -> dict[str, tuple[float, float]]:
    """Go the way; return the seconds of each step, by the clock and of all processors."""
    benchmarks = os.environ.get("PREP_BENCH_BENCHMARKS") or str(corpus.write_benchmark(root / "exam"))
    rules = Quality(rules="en=fineweb/code zh=fineweb2/cmn other=pass")
    clean = Decontaminate(benchmarks=load_benchmarks(benchmarks, skip="planted*"))
    told = {
        "normalise, language, quality": _spent(
            lambda: run_files([Normalize(), Language(), rules], root / "in", root / "clean")
        ),
        "exact and near duplicates": _spent(
            lambda: decide_files([ExactDedup(), NearDedup()], root / "clean", root / "different", max_dropped=1.0)
        ),
        "personal data, benchmarks": _spent(lambda: run_files([Pii(), clean], root / "different", root / "texts")),
        "mixture": _spent(lambda: decide_files([Mixture()], root / "texts", root / "mixed")),
    }
    tokenizer = AutoTokenizer()
    tokenizer.train([doc.text for doc in draw(root / "mixed", 500)], 8192)
    told["tokens, packs, shards"] = _spent(lambda: build_shards([root / "mixed"], root / "shards", tokenizer, 2048))
    return told


def _write(folder: Path) -> float:
    """Write recombined documents; return the megabytes of their text."""
    folder.mkdir()
    size, made = 0, _documents([row for row in texts() if row["text"].strip()])
    for number in range(FILES):
        with open(folder / f"{number}.jsonl", "w", encoding="utf-8") as file:
            written = 0
            while written < MEGABYTES * 10**6 // FILES:
                row = next(made)
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                written += len(row["text"].encode())
        size += written
    return size / 10**6


def _documents(rows: list[dict[str, str]]) -> Iterator[dict[str, str]]:
    by_source: dict[str, list[list[str]]] = {}
    for row in rows:
        by_source.setdefault(row.get("source", "texts"), []).append(row["text"].splitlines(keepends=True))
    sources = [source for source, found in by_source.items() for _ in found]
    chance, last = seeds.stream(1, "bench pretrain"), ""
    while True:
        source = sources[chance.integers(len(sources))]
        one, other = (_half(by_source[source][at], chance) for at in chance.integers(len(by_source[source]), size=2))
        kind = chance.random()
        text = last if kind < 0.05 else f"{last} more" if kind < 0.1 else f"{one}\n{other}"
        yield {"text": text, "source": source}
        last = text


def _half(lines: list[str], chance: Any) -> str:
    if len(lines) < 2:
        # A text of one line, as Chinese ones are: half of its characters.
        text = "".join(lines)
        at = int(chance.integers(len(text) // 2 + 1))
        return text[at : at + len(text) // 2 + 1]
    at = int(chance.integers(len(lines) // 2 + 1))
    return "".join(lines[at : at + len(lines) // 2 + 1])


def _spent(work: Callable[[], Ledger]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), _processor()
    work()
    return time.perf_counter() - wall, _processor() - cpu


def _processor() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
