"""The classifier and the URL lists: how long training takes, how much text a core scores, and what a verdict costs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from prep_lib.record import Document
from prep_lib.text.classifier import Classifier, _characters, _features
from prep_lib.text.url import Url

RUNS, PASSAGES, WORDS = 5, 6_000, 30_000


def passages() -> list[tuple[str, int]]:
    """Passages of about 1.2 kB: words by Zipf's law, one in twenty from a list of the label's own."""
    draw = np.random.default_rng(42)
    lengths = draw.integers(2, 11, WORDS)
    words = np.array(["".join(draw.choice(list("etaoinshrdlucmfw"), size)) for size in lengths])
    rows = []
    for at in range(PASSAGES):
        places = np.minimum(draw.zipf(1.2, 178), WORDS) - 1
        own = draw.random(178) < 0.05
        places[own] = WORDS // 2 + 2 * (places[own] // 4) + at % 2
        rows.append((" ".join(words[np.minimum(places, WORDS - 1)]), at % 2))
    return rows


def seconds(work: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Median of the runs."""
    times = []
    for _ in range(RUNS):
        start = clock()
        work()
        times.append(clock() - start)
    return statistics.median(times)


def run() -> list[dict[str, Any]]:
    """Measure."""
    rows = passages()
    docs = [Document(str(at), text) for at, (text, _) in enumerate(rows)]
    size = sum(len(doc.utf8) for doc in docs) / 1e6
    model = Classifier.train(rows)  # compiled from here on
    train = seconds(lambda: Classifier.train(rows), time.process_time)
    score = seconds(lambda: [model.score(doc) for doc in docs], time.process_time)
    return [
        _row(f"classifier: {PASSAGES:,} passages, {size:.1f} MB, trained and tried", train, "s of a core", "< 1"),
        _row("classifier: scored", size / score, "MB/s a core", ">= 50"),
        _row("classifier: held-out accuracy there", model.held_out.accuracy or 0, "share", None, 1),
        _row("classifier: features, the kernel against plain Python", _twin(docs[0].utf8), "times", ">= 100"),
        _row("url: 100,000 hosts, words and parts, a verdict", 1e6 * _url(), "µs of a core", "< 50"),
    ]


def _row(name: str, value: float, unit: str, goal: str | None, runs: int = RUNS) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "goal": goal, "runs": runs}


def _twin(data: bytes) -> float:
    raw, out, places = np.frombuffer(data, np.uint8), np.empty(len(data) + 1, np.uint32), np.empty((0, 2), np.int64)
    tables = _characters()
    plain = seconds(lambda: _features.python(raw, *tables, out, places))
    return plain / (seconds(lambda: [_features(raw, *tables, out, places) for _ in range(100)]) / 100)


def _url() -> float:
    hosts = [f"host{at}.example" for at in range(100_000)]
    stage = Url(block_hosts=hosts, block_words=["adult"], soft_words=["free", "live"], block_parts=["casino", "xxx"])
    url = "https://www.some-site.example.org/2024/05/an-article-about-things?id=17"
    doc = Document("1", "", "web", {"url": url})
    return seconds(lambda: [stage.judge(doc) for _ in range(2_000)], time.process_time) / 2_000


def main() -> None:
    """Print one line a figure."""
    for row in run():
        print(f"{row['name']}: {row['value']:.4g} {row['unit']} (goal {row['goal'] or 'none'}; {row['runs']} runs)")


if __name__ == "__main__":
    main()
