"""Tokenise, pack and store for pretraining: `build_shards` beside bare `tokenizers`, datatrove and Megatron.

    PREP_BENCH_TEXTS=folder of .jsonl, .jsonl.gz                      else the built-in corpus
    PREP_BENCH_DATATROVE=/tmp/datatrove/bin/python                     else without it; see peers/datatrove.txt
    PREP_BENCH_MEGATRON="/tmp/mcore/bin/python /tmp/Megatron-LM"       else without it; see peers/megatron.txt

Everything gets the same texts, the same tokenizer file (32,000 ids, trained on every fourth text) and two cores:

bare       `encode_batch_fast` over every fourth batch of texts in memory, two threads of its own, nothing kept
ours       `build_shards` from the first byte to the manifest: two processes, rows of 2,048, flat files; by the
           accelerator and by the reference
datatrove  `JsonlReader` and `DocumentTokenizer` with its defaults, a task a file, two processes: documents shuffled in
           a file, ids and document ends, no packs
Megatron   its own `tools/preprocess_data.py --workers 2 --append-eod`, tokenizer of type HuggingFaceTokenizer: ids and
           documents, no packs; of one file, because it reads one

All that store must have written the same number of tokens.

Ways take turns; every round gives a ratio and the median counts; peers run once. Start-up is what a hundredth of the
text takes, told for each. The text is as often repeated as it takes, in copies made strange as in `bench_build`.
"""

from __future__ import annotations

import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from typing import Any

from bench_build import _megabytes, _spend, _tell, bare, batches, copies, stored

from prep_lib import corpus
from prep_lib.build import build_shards
from prep_lib.events import listen
from prep_lib.shards.manifest import read_manifest
from prep_lib.tokens.tokenizer import AutoTokenizer

ROUNDS, PROCESSES, SEQ_LEN = 3, 2, 2048

#: Megabytes of text.
MEGABYTES = int(os.environ.get("PREP_BENCH_MEGABYTES", "200"))

Spent = tuple[float, float]


def run() -> list[dict[str, Any]]:
    """Measure in a process of its own, because a library reads its number of threads once."""
    environment = {**os.environ, "RAYON_NUM_THREADS": str(PROCESSES), "TOKENIZERS_PARALLELISM": "true"}
    done = subprocess.run([sys.executable, __file__], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return rows


def texts() -> list[dict[str, str]]:
    """Return the records to repeat: text, and source and language where they are known."""
    folder = os.environ.get("PREP_BENCH_TEXTS")
    if not folder:
        return [{"text": document.text} for document in corpus.documents(10**6, characters=10**9)]
    rows = []
    for path in sorted(Path(folder).glob("*.jsonl*")):
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8") as file:
            found = [json.loads(line) for line in file]
        rows += [{"text": row["text"], "source": path.name.split(".")[0], "lang": row.get("lang", "")} for row in found]
    return rows


def repeated(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return enough copies, each with other words in another order; source and language stay."""
    told = [{name: value for name, value in row.items() if name != "text"} for row in rows]
    plain = [{"text": row["text"]} for row in rows]
    return [row | other for each in copies(plain, MEGABYTES) for row, other in zip(each, told, strict=True)]


def ours(paths: list[Path], tokenizer: AutoTokenizer, counts: dict[str, int]) -> Callable[[], None]:
    """Return our way: everything from the files to the manifest, into a new folder."""

    def work() -> None:
        with tempfile.TemporaryDirectory() as folder, listen(lambda _: None, instead=True):
            build_shards(paths, folder, tokenizer, SEQ_LEN, tail="pad", workers=PROCESSES)
            counts["ours"] = read_manifest(folder)["totals"]["written"]

    return work


def datatrove(python: str, folder: Path, model: Path, eos: str, counts: dict[str, int]) -> Callable[[], None]:
    """Return datatrove's way."""
    script = Path(__file__).parent / "peers" / "store_datatrove.py"

    def work() -> None:
        with tempfile.TemporaryDirectory() as out:
            command = [python, str(script), str(folder), out, str(model / "tokenizer.json"), eos, str(PROCESSES)]
            counts["datatrove"] = int(_peer(command).splitlines()[-1])

    return work


def megatron(python: str, checkout: str, path: Path, model: Path, counts: dict[str, int]) -> Callable[[], None]:
    """Return Megatron's way."""

    def work() -> None:
        with tempfile.TemporaryDirectory() as out:
            command = [
                python, f"{checkout}/tools/preprocess_data.py", "--input", str(path), "--output-prefix", f"{out}/peer",
                "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", str(model), "--append-eod",
                "--workers", str(PROCESSES),
            ]  # fmt: skip
            _peer(command, PYTHONPATH=checkout)
            counts["megatron"] = Path(out, "peer_text_document.bin").stat().st_size // 2

    return work


def _peer(command: list[str], **environment: str) -> str:
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:2])} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def _measure() -> Iterator[dict[str, Any]]:
    rows = texts()
    tokenizer = AutoTokenizer().train((row["text"] for row in rows[::4]), vocab_size=32_000)
    many = repeated(rows)
    with tempfile.TemporaryDirectory() as place:
        yield from _compare(many, tokenizer, Path(place))


def _compare(rows: list[dict[str, str]], tokenizer: AutoTokenizer, place: Path) -> Iterator[dict[str, Any]]:
    tokenizer.save(model := place / "model")
    parts = list(batches([row["text"] for row in rows]))[::4]
    paths, few = stored(rows, place / "all"), stored(rows[::100], place / "few")
    for name, each in (("all", paths), ("few", few)):
        (place / f"{name}.jsonl").write_bytes(b"".join(path.read_bytes() for path in each))
    reference = copy(tokenizer)
    reference.use_reference()
    sizes = {"bare": _megabytes([text for part in parts for text in part])}
    whole = _megabytes([row["text"] for row in rows])
    counts: dict[str, int] = {}
    ways = {"bare": bare(tokenizer._model.parsing, parts)}
    if tokenizer.engine_used == "fastokens":
        ways["fastokens"] = ours(paths, tokenizer, counts)
    ways["reference"] = ours(paths, reference, counts)
    starts = {"ours": ours(few, tokenizer, {})}
    peers: dict[str, Callable[[], None]] = {}
    if python := os.environ.get("PREP_BENCH_DATATROVE"):
        eos = str(tokenizer.eos_token)
        peers["datatrove"] = datatrove(python, place / "all", model, eos, counts)
        starts["datatrove"] = datatrove(python, place / "few", model, eos, {})
    if found := os.environ.get("PREP_BENCH_MEGATRON"):
        peers["megatron"] = megatron(*found.split(), place / "all.jsonl", model, counts)
        starts["megatron"] = megatron(*found.split(), place / "few.jsonl", model, {})
    spent: dict[str, list[Spent]] = {name: [] for name in (*ways, *peers)}
    for number in range(ROUNDS):
        for name, way in ways.items():
            spent[name].append(_spend(way))
        _tell(f"  round {number + 1} of {ROUNDS}: ", {name: times[-1] for name, times in spent.items() if times})
    for name, way in peers.items():
        spent[name].append(_spend(way))
    begun = {name: _spend(way) for name, way in starts.items()}
    _tell(
        "  peers and start-up: ", {name: spent[name][0] for name in peers} | {f"{n}, 1 %": t for n, t in begun.items()}
    )
    print(f"  tokens with EOS, all of the text: {counts}", file=sys.stderr)
    if len(set(counts.values())) > 1:
        raise RuntimeError(f"the ways did not write the same number of tokens: {counts}")
    yield from _figures({name: sizes.get(name, whole) for name in spent}, spent, begun)


def _figures(
    sizes: dict[str, float], spent: dict[str, list[Spent]], begun: dict[str, Spent]
) -> Iterator[dict[str, Any]]:
    def row(name: str, values: list[float], unit: str, goal: str | None = None) -> dict[str, Any]:
        value = round(statistics.median(values), 2)
        return {"name": f"store: {name}", "value": value, "unit": unit, "goal": goal, "runs": len(values)}

    def speed(name: str, clock: int = 0) -> list[float]:
        return [sizes[name] / times[clock] for times in spent[name]]

    def ratio(name: str, other: str, clock: int = 0) -> list[float]:
        # A peer runs once: it stands beside each round.
        theirs = speed(other, clock) * (len(spent[name]) // len(spent[other]))
        return [one / two for one, two in zip(speed(name, clock), theirs, strict=True)]

    yield row(f"bare encode_batch_fast, {PROCESSES} threads", speed("bare"), "MB/s")
    best = "fastokens" if "fastokens" in spent else "reference"
    for name, goal in (("fastokens", ">= 10"), ("reference", ">= 0.85")):
        if name in spent:
            yield row(f"build_shards, {name}, {PROCESSES} processes", speed(name), "MB/s")
            yield row(f"build_shards, {name} / bare", ratio(name, "bare"), "x", goal)
            yield row(f"build_shards, {name} / bare, processor time", ratio(name, "bare", 1), "x")
    for peer in ("datatrove", "megatron"):
        if peer in spent:
            yield row(f"{peer}, {PROCESSES} processes", speed(peer), "MB/s")
            for name in dict.fromkeys((best, "reference")):
                yield row(f"build_shards, {name} / {peer}", ratio(name, peer), "x")
    for name, (wall, _) in begun.items():
        yield row(f"a hundredth of the text: {name}", [wall], "s")


if __name__ == "__main__":
    print(json.dumps(list(_measure())))
