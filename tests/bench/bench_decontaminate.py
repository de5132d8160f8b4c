"""Decontamination: MB a second over clean text with all benchmarks loaded, beside a plain set of n-grams; and recall.

    PREP_BENCH_BENCHMARKS=folder, as load_benchmarks reads it    else 2,000 questions made of the built-in corpus
    PREP_BENCH_TEXTS=folder of .jsonl, .jsonl.gz                 else the built-in corpus

Told in CPU seconds on one core, so that a busy machine changes less; the best and the median of some passes over the
same documents. Clean is a document in which nothing was found: what is measured is the price everybody pays. Programs
are left out, as those of the mixture are the tasks of a benchmark.

The reference is what many pipelines do: every 13 words of a text, in small letters, looked up in a Python set of those
of the items. It finds no short item and none in Chinese; it is there for the time.

Recall is that of the self-test, items in disguise in the built-in corpus. Where the folder of benchmarks holds
planted_contamination.jsonl.gz, its documents are judged too.
"""

from __future__ import annotations

import gzip
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prep_lib import corpus
from prep_lib.record import Document
from prep_lib.text.benchmarks import Benchmarks, Item, load_benchmarks
from prep_lib.text.decontaminate import Decontaminate, self_test

#: Megabytes of each kind of text that are timed, questions made where none are given, passes, words of an n-gram.
MEGABYTES, QUESTIONS, PASSES, NGRAM = 8, 2_000, 5, 13
PLANTED = "planted_contamination.jsonl.gz"


def benchmarks() -> Benchmarks:
    """Return the benchmarks of the folder, or sentences of the built-in corpus that stand in for them."""
    folder = os.environ.get("PREP_BENCH_BENCHMARKS")
    if folder:
        return load_benchmarks(folder, skip="planted*")
    words = " ".join(doc.text for doc in corpus.documents(QUESTIONS)).split()
    size = min(40, len(words) // QUESTIONS)
    made = (" ".join(words[at * size : (at + 1) * size]) for at in range(QUESTIONS))
    return Benchmarks(tuple(Item("made", str(at), query) for at, query in enumerate(made)))


def texts() -> dict[str, list[Document]]:
    """Return documents by kind: English and Chinese ones of a folder, or those behind the questions."""
    folder = os.environ.get("PREP_BENCH_TEXTS")
    if not folder:
        return {"built-in": [*corpus.documents(3 * QUESTIONS)][QUESTIONS:]}
    kinds: dict[str, list[Document]] = {"en": [], "zh": []}
    for path in sorted(path for path in Path(folder).glob("*.jsonl*") if "code" not in path.name):
        data = path.read_bytes()
        for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines():
            text = json.loads(line).get("text")
            if text:
                kinds["zh" if "zh" in path.name else "en"].append(Document(path.name, text))
    return kinds


def clean(stage: Decontaminate, docs: list[Document]) -> list[Document]:
    """Return documents in which nothing was found, up to `MEGABYTES`, taken evenly."""
    found = [doc for doc in docs if not stage.hits(doc)]
    size = sum(len(doc.utf8) for doc in found)
    return found[:: max(1, round(size / 1e6 / MEGABYTES))]


def timed(judge: Callable[[Document], Any], docs: list[Document]) -> list[float]:
    """Return MB a CPU second of each pass; the encoding is not part of it, as other stages share it."""
    megabytes, speeds = sum(len(doc.utf8) for doc in docs) / 1e6, []
    for _ in range(PASSES):
        start = time.process_time()
        for doc in docs:
            judge(doc)
        speeds.append(megabytes / (time.process_time() - start))
    return speeds


def reference(items: Benchmarks) -> Callable[[Document], bool]:
    """Return a judge by a plain set of n-grams."""

    def ngrams(text: str) -> Iterator[str]:
        words = text.lower().split()
        return (" ".join(words[at : at + NGRAM]) for at in range(len(words) - NGRAM + 1))

    known = {gram for item in items.items for gram in ngrams(item.query)}
    return lambda doc: any(gram in known for gram in ngrams(doc.text))


def planted(stage: Decontaminate) -> list[tuple[str, float, str, str | None]]:
    """Judge the planted documents; nothing where there are none."""
    path = Path(os.environ.get("PREP_BENCH_BENCHMARKS", ""), PLANTED)
    if not path.is_file():
        return []
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    said: dict[str, list[bool]] = {}
    for row in rows:
        doc = Document(row["id"], row["text"])
        dropped, found = stage.judge(doc) is not None, bool(stage.hits(doc))
        right = {"contaminated": dropped, "clean": not found, "report_only": found and not dropped}[row["expected"]]
        said.setdefault(row["expected"], []).append(right)
    return [
        (f"planted, {kind}: judged rightly, of {len(rights)}", statistics.mean(rights), "share", ">= 1")
        for kind, rights in said.items()
    ]


def run() -> list[dict[str, Any]]:
    """Measure."""
    items = benchmarks()
    stage, plain = Decontaminate(benchmarks=items), reference(items)
    figures: list[tuple[str, float, str, str | None]] = []
    for kind, docs in texts().items():
        chosen = clean(stage, docs)
        ours, theirs = timed(stage.judge, chosen), timed(plain, chosen)
        median = statistics.median(ours)
        figures += [
            (f"clean text, {kind}, {len(items):,} items: median", median, "MB/s", ">= 100"),
            (f"clean text, {kind}: best pass", max(ours), "MB/s", None),
            (
                f"clean text, {kind}: beside a Python set of {NGRAM}-grams",
                median / statistics.median(theirs),
                "x",
                None,
            ),
        ]
    rows = self_test(stage)
    for name in dict.fromkeys(row.disguise for row in rows):
        some = [row for row in rows if row.disguise == name]
        number = sum(row.planted for row in some)
        found = sum(row.found for row in some) / number
        # Made questions are pieces of documentation: what markup is, and what is not, they do not say.
        goal = ">= 0.98" if items.declared else None
        figures.append((f"recall, {name}, of {number:,}", found, "share", goal))
    figures += planted(stage)
    return [
        {"name": name, "value": value, "unit": unit, "goal": goal, "runs": PASSES if unit in ("MB/s", "x") else 1}
        for name, value, unit, goal in figures
    ]


def main() -> None:
    """Print one line a figure."""
    for row in run():
        print(f"{row['name']}: {row['value']:.4g} {row['unit']} (goal {row['goal'] or 'none'}; {row['runs']} runs)")


if __name__ == "__main__":
    main()
