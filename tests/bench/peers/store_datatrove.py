"""Tokenise a folder of JSONL as datatrove's users do; called by bench_tokenize_store in an environment of its own.

    python3.11 -m venv /tmp/datatrove && /tmp/datatrove/bin/pip install -r tests/bench/peers/datatrove.txt
    /tmp/datatrove/bin/python tests/bench/peers/store_datatrove.py FOLDER OUT tokenizer.json EOS WORKERS

`JsonlReader` and `DocumentTokenizer` with their defaults (batches of 10,000, documents shuffled inside a file), a task
a file, WORKERS processes at once. Prints the tokens written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.tokens import DocumentTokenizer


def main() -> None:
    """Read the arguments, run, and print the tokens."""
    folder, out, tokenizer, eos, workers = sys.argv[1:]
    files = len(list(Path(folder).glob("*.jsonl")))
    LocalPipelineExecutor(
        [JsonlReader(folder, glob_pattern="*.jsonl"), DocumentTokenizer(out, tokenizer, eos_token=eos)],
        tasks=files, workers=int(workers), logging_dir=f"{out}/logs",
    ).run()  # fmt: skip
    print(sum(int(path.read_text().splitlines()[1]) for path in Path(out).rglob("*.metadata")))


if __name__ == "__main__":
    main()
