"""Peak memory of the stages of a pretraining set, with one and with ten times the input: it must not grow.

A process of its own does the work inline, so what is measured is the stage and nothing beside it: the anonymous memory
of the process at its highest, less what it holds before it begins. Pages of mapped files can be given back at any time
and do not count.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from prep_lib import corpus
from prep_lib.tokens.tokenizer import AutoTokenizer

#: Watches the own anonymous memory in a thread while a stage runs, and prints the highest value in MiB.
WATCH = """
import re, sys, threading, time
from pathlib import Path
def held():
    return int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1)) / 1024
peak, stop = 0.0, threading.Event()
def watch():
    global peak
    while not stop.wait(0.002):
        peak = max(peak, held())
folder, size = Path(sys.argv[1]), sys.argv[2]
%s
before = held()
thread = threading.Thread(target=watch); thread.start()
work()
stop.set(); thread.join()
print(max(peak - before, 0.0))
"""

BUILD = """
from prep_lib.build import build_shards
from prep_lib.tokens.tokenizer import AutoTokenizer
tokenizer = AutoTokenizer(folder / "tokenizer")
build_shards(folder / "warm.jsonl", folder / "warm", tokenizer, 2048, engine="inline")
def work():
    build_shards(folder / f"{size}.jsonl", folder / f"out-%(packing)s-{size}", tokenizer, 2048, packing="%(packing)s",
                 engine="inline", memory_budget="256MiB")
"""

SHUFFLE = """
from prep_lib.shuffle.shuffle_npz import shuffle_npz
shuffle_npz(folder / "npz-warm", folder / "npz-warm-out", 1000, workers=1, memory_budget="64MiB")
def work():
    shuffle_npz(folder / f"npz-{size}", folder / f"npz-out-{size}", 20_000, workers=1, memory_budget="64MiB")
"""

SUBSAMPLE = """
from prep_lib.shuffle.subsample import subsample
subsample(folder / "npz-warm", folder / "npz-warm-sub", num_samples=10)
def work():
    subsample(folder / f"npz-{size}", folder / f"npz-sub-{size}", fraction=0.1)
"""

VERIFY = """
from prep_lib.shards.verify import verify
verify(folder / "warm")
def work():
    assert verify(folder / f"out-concat-{size}") == []
"""

FEED = """
from prep_lib.feed.dataset import TokenDataset
from prep_lib.feed.loader import create_dataloader
next(iter(create_dataloader(TokenDataset(folder / "warm"), 2)))
def work():
    for batch in create_dataloader(TokenDataset(folder / f"out-concat-{size}"), 16, shuffle=True):
        pass
"""


def write_texts(path: Path, texts: list[str], megabytes: float) -> None:
    """Write documents until the file has about so many MB."""
    with path.open("w") as file:
        at, left = 0, int(megabytes * 1e6)
        while left > 0:
            line = json.dumps({"text": texts[at % len(texts)], "id": f"{at}"}) + "\n"
            file.write(line)
            at, left = at + 1, left - len(line)


def write_npz(folder: Path, rows: int) -> None:
    """Write uneven npz files with that many rows of 300 bytes."""
    folder.mkdir()
    numbers = np.random.default_rng(rows)
    for at, share in enumerate((0.6, 0.3, 0.1)):
        many = int(rows * share)
        ids = numbers.zipf(1.3, (many, 128)).clip(0, 30_000).astype(np.int16)
        np.savez_compressed(folder / f"{at}.npz", input_ids=ids, label=np.arange(many), kind=np.zeros(many, np.int8))


def peak(stage: str, folder: Path, size: str) -> float:
    """Return MiB held at most by a stage on one input."""
    done = subprocess.run([sys.executable, "-c", WATCH % stage, folder, size], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout.split()[-1])


def run() -> list[dict[str, Any]]:
    """Measure every stage at 1x and 10x: 20 and 200 MB of text, 200,000 and 2,000,000 rows."""
    figures: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = [doc.text for doc in corpus.documents(2000)]
        AutoTokenizer().train(texts, 8000).save(folder / "tokenizer")
        for size, megabytes in (("warm", 0.2), ("1x", 20.0), ("10x", 200.0)):
            write_texts(folder / f"{size}.jsonl", texts, megabytes)
        for size, rows in (("warm", 2000), ("1x", 200_000), ("10x", 2_000_000)):
            write_npz(folder / f"npz-{size}", rows)
        stages = {f"build {packing}": BUILD % {"packing": packing} for packing in ("concat", "best_fit_split")}
        stages |= {"verify": VERIFY, "feed": FEED, "shuffle_npz": SHUFFLE, "subsample": SUBSAMPLE}
        for stage, code in stages.items():
            one, ten = (peak(code, folder, size) for size in ("1x", "10x"))
            # What is below 8 MiB is the allocator's own to and fro.
            grown = max(ten, 8.0) / max(one, 8.0)
            figures.append({"name": f"{stage}: memory at 10x", "value": ten, "unit": "MiB", "goal": None, "runs": 1})
            figures.append({"name": f"{stage}: 10x / 1x", "value": grown, "unit": "ratio", "goal": "< 1.5", "runs": 1})
    return figures


if __name__ == "__main__":
    for row in run():
        print(f"{row['name']}: {row['value']:.4g} {row['unit']} (goal {row['goal'] or 'none'})")
