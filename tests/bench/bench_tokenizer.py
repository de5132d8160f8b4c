"""How fast `encode_many` is beside bare `tokenizers`, on real text and one thread.

The text is the docstrings of this Python's standard library and installed packages. Processor time is counted, and the
ways take turns, so that a busy machine slows none of them. Loading and the proof on the first documents are not in it;
the checks while it runs are.
"""

from __future__ import annotations

import ast
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MEGABYTES, RUNS = 4, 5


def run() -> list[dict[str, Any]]:
    """Measure in a process of its own, because a library reads its number of threads once."""
    environment = {**os.environ, "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return rows


def docstrings(limit: int) -> list[str]:
    """Return docstrings in the order of file names, `limit` bytes of them."""
    texts, size = [], 0
    folders = [sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")]
    for path in (path for folder in folders for path in sorted(Path(folder).rglob("*.py"))):
        for text in _of(path):
            texts.append(text)
            size += len(text.encode())
            if size > limit:
                return texts
    return texts


def _of(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (OSError, ValueError, SyntaxError):
        return
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds))
    yield from (text for text in found if text and len(text) > 200 and text.isprintable() | ("\n" in text))


def _measure() -> list[dict[str, Any]]:
    from prep_lib.tokens.tokenizer import AutoTokenizer

    texts = docstrings(MEGABYTES * 10**6)
    size = sum(len(text.encode()) for text in texts) / 1e6
    tokenizer = AutoTokenizer().train(texts[::4], vocab_size=32_000)
    reference = AutoTokenizer().train(texts[::4], vocab_size=32_000)
    reference.use_reference()
    bare = reference._model.parsing
    ways: dict[str, Callable[[], object]] = {
        "bare encode_batch_fast": lambda: bare.encode_batch_fast(texts, add_special_tokens=False),
        "bare encode_batch_fast and its ids": lambda: [
            encoding.ids for encoding in bare.encode_batch_fast(texts, add_special_tokens=False)
        ],
        "encode_many, reference": lambda: reference.encode_many(texts),
        f"encode_many, {tokenizer.engine_used}": lambda: tokenizer.encode_many(texts),
    }
    tokenizer.encode_many(texts[:300])  # the proof on the first documents is paid once per process
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(RUNS + 1):  # the first one warms the caches of every engine
        for name, way in ways.items():
            seconds[name].append(_time(way))
    speeds = {name: size / statistics.median(times[1:]) for name, times in seconds.items()}
    return list(_rows(speeds, tokenizer.engine_used))


def _time(way: Callable[[], object]) -> float:
    start = time.process_time()
    way()
    return time.process_time() - start


def _rows(speeds: dict[str, float], engine: str) -> Iterator[dict[str, Any]]:
    for name, speed in speeds.items():
        yield {
            "name": f"tokenizer: {name}",
            "value": round(speed, 1),
            "unit": "MB/s a core",
            "goal": None,
            "runs": RUNS,
        }
    bare = speeds["bare encode_batch_fast"]
    goals = {"encode_many, reference": ">= 0.85"} | (
        {"encode_many, fastokens": ">= 5"} if engine == "fastokens" else {}
    )
    for name, goal in goals.items():
        ratio = round(speeds[name] / bare, 2)
        yield {"name": f"tokenizer: {name} / bare", "value": ratio, "unit": "x", "goal": goal, "runs": RUNS}


if __name__ == "__main__":
    print(json.dumps(_measure()))
