"""Quality: the signals of four English filters in one pass beside datatrove's filters, and how often verdicts agree.

    PREP_BENCH_TEXTS=folder of .jsonl, .jsonl.gz                      else the built-in corpus
    PREP_BENCH_DATATROVE=/tmp/datatrove/bin/python                     else without it; see peers/datatrove.txt
    PREP_BENCH_DOCUMENTS=2000                                          documents timed

Both see the same documents once, in processes of their own, on one core, and are told in CPU seconds, so that a busy
machine changes little. datatrove runs Gopher repetition, Gopher quality, C4 and FineWeb, each whatever the others say,
and shares words between them by its own cache; we measure all of `fineweb/code`. The few chunks that the compiled rules
cannot split are split in Python and remembered: the second pass is without them.

The agreement is with the golden verdicts in tests/golden, where the texts are the ones they were made of.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from prep_lib import corpus
from prep_lib.record import Document
from prep_lib.text.presets import PRESETS
from prep_lib.text.quality import Quality
from prep_lib.text.signals import measure

GOLDEN = Path(__file__).parents[1] / "golden" / "quality_mixture.json.gz"
PEER = Path(__file__).parent / "peers" / "quality_datatrove.py"
DOCUMENTS = int(os.environ.get("PREP_BENCH_DOCUMENTS", "2000"))


def files() -> dict[str, list[str]]:
    """Return texts by file name; one nameless file of the built-in corpus where no folder is given."""
    folder = os.environ.get("PREP_BENCH_TEXTS")
    if not folder:
        return {"": [document.text for document in corpus.documents(DOCUMENTS)]}
    out = {}
    for path in sorted(Path(folder).glob("*.jsonl*")):
        data = path.read_bytes()
        lines = (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()
        out[path.name] = [json.loads(line)["text"] for line in lines if line.strip()]
    return out


def english(texts: dict[str, list[str]]) -> list[str]:
    """Return up to `DOCUMENTS` texts, taken evenly from all files but the Chinese ones."""
    wanted = [text for name, of_file in texts.items() if "zh" not in name for text in of_file]
    return wanted[:: max(1, len(wanted) // DOCUMENTS)]


def ours(texts: list[str]) -> tuple[float, float]:
    """Return the CPU seconds of the first and of the second pass."""
    rules, took = PRESETS["fineweb/code"], []
    measure(Document("warm", "Load the kernels."), rules.reading, rules.signals)
    for _ in range(2):
        start = time.process_time()
        for text in texts:
            measure(Document("x", text), rules.reading, rules.signals)
        took.append(time.process_time() - start)
    return took[0], took[1]


def theirs(texts: list[str]) -> dict[str, float] | None:
    """Return the CPU seconds of datatrove's filters; None without its environment."""
    python = os.environ.get("PREP_BENCH_DATATROVE")
    if not python:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "texts.jsonl")
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        done = subprocess.run([python, str(PEER), "time", str(path)], stdout=subprocess.PIPE, text=True, check=True)
    took: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return took


def agreement(texts: dict[str, list[str]], preset: str) -> float | None:
    """Return the share of documents with datatrove's verdict; None where the texts are other ones."""
    golden = json.loads(gzip.decompress(GOLDEN.read_bytes()))
    if not golden["files"].keys() <= texts.keys():
        return None
    quality, kept = Quality(rules=preset, force=True), golden["codes"][""]
    same = total = 0
    for name, codes in golden["files"].items():
        for text, code in zip(texts[name], codes.get(preset, ""), strict=preset in codes):
            verdict = quality.judge(Document("x", text))
            same += (code == kept) == (not hasattr(verdict, "limit"))
            total += 1
    return same / total


def run() -> list[dict[str, Any]]:
    """Measure."""
    texts = files()
    sample = english(texts)
    megabytes = sum(len(text.encode()) for text in sample) / 1e6
    first, again = ours(sample)
    figures: list[tuple[str, float | None, str, str | None]] = [
        ("all signals of fineweb/code, first pass", megabytes / first, "MB/s", None),
        ("all signals of fineweb/code, second pass", megabytes / again, "MB/s", None),
    ]
    peer = theirs(sample)
    if peer:
        four = peer["all four, whatever they say"]
        figures += [
            ("four filters, documents a second beside datatrove", four / first, "x", ">= 20"),
            ("the same, second pass", four / again, "x", ">= 20"),
        ]
    for preset in ("gopher/datatrove", "c4/datatrove", "fineweb/code", "fineweb2/cmn"):
        goal = None if preset == "fineweb2/cmn" else ">= 0.999"
        figures.append((f"verdicts as datatrove's, {preset}", agreement(texts, preset), "share", goal))
    return [
        {"name": name, "value": value, "unit": unit, "goal": goal, "runs": 1}
        for name, value, unit, goal in figures
        if value is not None
    ]


def main() -> None:
    """Print one line a figure."""
    for row in run():
        print(f"{row['name']}: {row['value']:.4g} {row['unit']} (goal {row['goal'] or 'none'}; {row['runs']} runs)")


if __name__ == "__main__":
    main()
