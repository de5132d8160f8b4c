"""Tokenise and store: JSONL in, packed HDF5 out by two processes, beside bare `tokenizers` on the same text.

Bare: `encode_batch_fast` over texts already in memory, with two threads of its own, nothing kept. It takes a minute
for all of the text and has no start-up, so every fourth batch is enough to tell its speed. Ours is, over all of it,
`cache_jsonl` from the first byte to the manifest: starting the processes, loading and proving the accelerator in each,
digests, counts, plan, HDF5, sync. One figure says how long a hundredth of the text takes, which is start-up nearly
alone. The ways take turns, every round gives a ratio, and the median counts; the ratio of processor times is what a
busy machine leaves alone. All of it takes some six minutes.

The text is the built-in corpus, 15 MB of documents or 7 MB of questions, as often as it takes. A tokenizer remembers
words it has met, so copies are made strange to it: in each one the words of every text are shuffled, and those that
occur once in the whole corpus get halves of each other, other ones in every copy. So 75 MB have 3.5 times the different
words of 15 MB. Real text would have about 3.2 times as many: the whole corpus has 1.65 times those of its half.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from typing import Any

from prep_lib import corpus
from prep_lib.build import cache_jsonl
from prep_lib.chat.process import Processor, ProcessorFactory
from prep_lib.events import listen
from prep_lib.seeds import stream
from prep_lib.source.jsonl import dumps
from prep_lib.tokens.tokenizer import AutoTokenizer

ROUNDS, PROCESSES, PACK_SIZE = 3, 2, 4096

#: Megabytes of text of each kind, in so many files: below 128 MiB all files together are one task, for one process.
MEGABYTES, FILES = 140, 2

#: Characters bare `tokenizers` gets at once: fewer make it slower, and more no faster.
BARE_BATCH = 2**22

Rows = list[dict[str, str]]
Spent = tuple[float, float]


def run() -> list[dict[str, Any]]:
    """Measure in a process of its own, because a library reads its number of threads once."""
    environment = {**os.environ, "RAYON_NUM_THREADS": str(PROCESSES), "TOKENIZERS_PARALLELISM": "true"}
    done = subprocess.run([sys.executable, __file__], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return rows


def copies(rows: Rows, megabytes: int = MEGABYTES) -> Iterator[Rows]:
    """Yield the rows again and again, each time with other words in another order, until there is enough text."""
    counts = Counter(word for row in rows for text in row.values() for word in text.split())
    rare = [word for word, number in counts.items() if number == 1]
    size = sum(len(text.encode()) for row in rows for text in row.values())
    for number in range(-(-megabytes * 10**6 // size)):
        random = stream(42, "bench_copy", number)
        others = [rare[at] for at in random.permutation(len(rare))]
        respelled = {word: _crossed(word, other) for word, other in zip(rare, others, strict=True)}
        yield [{name: _shuffled(text, respelled, random) for name, text in row.items()} for row in rows]


def _crossed(word: str, other: str) -> str:
    return word[: len(word) // 2] + other[len(other) // 2 :]


def _shuffled(text: str, respelled: dict[str, str], random: Any) -> str:
    """Shuffle the words; what stands between them, line ends and indents, stays."""
    parts = re.split(r"(\s+)", text)
    words = parts[::2]
    parts[::2] = [respelled.get(words[at], words[at]) for at in random.permutation(len(words)).tolist()]
    return "".join(parts)


def stored(rows: Rows, folder: Path) -> list[Path]:
    """Write the rows as JSONL, spread evenly over some files."""
    folder.mkdir(exist_ok=True)
    paths = [folder / f"text-{number}.jsonl" for number in range(FILES)]
    for number, path in enumerate(paths):
        path.write_bytes(b"".join(map(dumps, rows[number::FILES])))
    return paths


def batches(texts: list[str]) -> Iterator[list[str]]:
    """Yield texts in batches for bare `tokenizers`."""
    batch, size = list[str](), 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size > BARE_BATCH:
            yield batch
            batch, size = [], 0
    yield batch


def bare(engine: Any, parts: list[list[str]]) -> Callable[[], None]:
    """Return the peer: batches through `encode_batch_fast`, the results thrown away."""

    def work() -> None:
        for part in parts:
            engine.encode_batch_fast(part, add_special_tokens=False)

    return work


def built(paths: list[Path], processor: Processor) -> Callable[[], None]:
    """Return our way: everything from the files to the manifest, into a new folder."""

    def work() -> None:
        with tempfile.TemporaryDirectory() as folder, listen(lambda _: None, instead=True):
            cache_jsonl(paths, folder, processor, PACK_SIZE, workers=PROCESSES)

    return work


def _kinds() -> Iterator[tuple[str, Rows]]:
    yield "pt", [{"text": document.text} for document in corpus.documents(10**6, characters=10**9)]
    yield "sft", list(corpus.questions(10**6))


def _measure() -> Iterator[dict[str, Any]]:
    for kind, rows in _kinds():
        tokenizer = AutoTokenizer().train((text for row in rows[::4] for text in row.values()), vocab_size=32_000)
        many = [row for each in copies(rows) for row in each]
        with tempfile.TemporaryDirectory() as folder:
            yield from _compare(kind, many, tokenizer, Path(folder))


def _compare(kind: str, rows: Rows, tokenizer: AutoTokenizer, folder: Path) -> Iterator[dict[str, Any]]:
    texts = [text for row in rows for text in row.values()]
    parts = list(batches(texts))[::4]
    paths, few = stored(rows, folder), stored(rows[::100], folder / "few")
    reference = copy(tokenizer)
    reference.use_reference()
    ours, slow = (ProcessorFactory.create(kind, each) for each in (tokenizer, reference))
    ways = {
        "bare": bare(tokenizer._model.parsing, parts),
        "fastokens": built(paths, ours),
        "reference": built(paths, slow),
        "start": built(few, ours),
    }
    if tokenizer.engine_used != "fastokens":
        del ways["fastokens"]
    whole, some = _megabytes(texts), _megabytes([text for part in parts for text in part])
    sizes = {"bare": some, "fastokens": whole, "reference": whole, "start": whole / 100}
    spent: dict[str, list[Spent]] = {name: [] for name in ways}
    for number in range(ROUNDS):
        for name, way in ways.items():
            spent[name].append(_spend(way))
        _tell(f"  {kind}, round {number + 1} of {ROUNDS}: ", {name: times[-1] for name, times in spent.items()})
    yield from _figures(kind, sizes, spent)


def _megabytes(texts: list[str]) -> float:
    return sum(len(text.encode()) for text in texts) / 1e6


def _tell(head: str, spent: dict[str, Spent]) -> None:
    told = (f"{name} {wall:.1f} s ({processor:.1f} s of processor)" for name, (wall, processor) in spent.items())
    print(head + ", ".join(told), file=sys.stderr, flush=True)


def _spend(way: Callable[[], None]) -> Spent:
    """Return seconds of wall time, and of processor time of this process and the workers that have ended."""
    wall, processor = time.perf_counter(), _processor()
    way()
    return time.perf_counter() - wall, _processor() - processor


def _processor() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _figures(kind: str, sizes: dict[str, float], spent: dict[str, list[Spent]]) -> Iterator[dict[str, Any]]:
    def row(name: str, values: list[float], unit: str, goal: str | None = None) -> dict[str, Any]:
        value = round(statistics.median(values), 2)
        return {"name": f"build {kind}: {name}", "value": value, "unit": unit, "goal": goal, "runs": len(values)}

    def speed(name: str, clock: int = 0) -> list[float]:
        return [sizes[name] / times[clock] for times in spent[name]]

    def ratio(name: str, clock: int = 0) -> list[float]:
        return [ours / bare for ours, bare in zip(speed(name, clock), speed("bare", clock), strict=True)]

    yield row(f"bare encode_batch_fast, {PROCESSES} threads", speed("bare"), "MB/s")
    for name, goal in (("fastokens", ">= 5"), ("reference", ">= 0.85")):
        if name in spent:
            yield row(f"cache_jsonl, {name}, {PROCESSES} processes", speed(name), "MB/s")
            yield row(f"cache_jsonl, {name} / bare", ratio(name), "x", goal)
            yield row(f"cache_jsonl, {name} / bare, processor time", ratio(name, 1), "x")
    yield row(f"start-up: cache_jsonl of {sizes['start']:.1f} MB", [wall for wall, _ in spent["start"]], "s")


if __name__ == "__main__":
    print(json.dumps(list(_measure())))
