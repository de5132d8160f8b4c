"""Languages: the kernels against the bare library on the same texts, and the whole stage by bytes.

The texts are the built-in corpus. `classify` gives the library's own answer for a whole text, and its answers are
compared here; `Language` looks at the scripts of all of a document and reads at most 2,048 bytes of it by the model.
Seconds of processor time in rounds that take turns.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from prep_lib.corpus import chinese, code, english
from prep_lib.record import Document
from prep_lib.text.language import Language, classify

RUNS, TEXTS, STARTS = 5, 200, 3

START = """
import time
start = time.process_time()
from prep_lib.text.language import identify
identify("The first text of a worker.")
print(time.process_time() - start)
"""


def seconds(work: Callable[[], Any]) -> float:
    """Processor time of one round."""
    start = time.process_time()
    work()
    return time.process_time() - start


def run() -> list[dict[str, Any]]:
    """Measure."""
    texts = [row["text"] for rows in (english, chinese, code) for row in rows(TEXTS)]
    size = sum(len(text.encode()) for text in texts)
    library = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    differing = sum(classify(text)[0] != library.classify(text)[0] for text in texts)
    ways: dict[str, Callable[[], Any]] = {
        "library": lambda: [library.classify(text) for text in texts],
        "kernels": lambda: [classify(text) for text in texts],
        "sample": lambda: Language().map_many(docs),
        "whole": lambda: Language(budget=None).map_many(docs),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(RUNS + 1):
        # New documents each round: a stage of a pipeline has to encode them.
        docs = [Document(str(at), text) for at, text in enumerate(texts)]
        for name, work in ways.items():
            times[name].append(seconds(work))
    took = {name: statistics.median(values[1:]) for name, values in times.items()}
    starts = [float(subprocess.check_output([sys.executable, "-c", START])) for _ in range(STARTS)]
    return [
        _row(f"language, answers unlike the library's, {len(texts)} texts", differing, "texts", "<= 0", 1),
        _row("language, same answer: library / ours", took["library"] / took["kernels"], "times", ">= 1"),
        _row("language of document and parts: library for the document alone / ours",
             took["library"] / took["sample"], "times", ">= 1"),
        _row("language of document and parts", size / took["sample"] / 1e6, "MB/s", ">= 40"),
        _row("language of document and parts, all of it read", size / took["whole"] / 1e6, "MB/s"),
        _row("language, first text of a new worker", statistics.median(starts), "s", None, STARTS),
    ]  # fmt: skip


def _row(name: str, value: float, unit: str, goal: str | None = None, runs: int = RUNS) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "goal": goal, "runs": runs}
