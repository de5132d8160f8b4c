"""datatrove's PIIFormatter (e-mail and public IPv4) over documents; called by bench_pii in an environment of its own.

    python pii_datatrove.py FILE.jsonl          its CPU seconds for all texts, the median of rounds, as one line of JSON
    python pii_datatrove.py FILE.jsonl texts    the texts it makes, a JSON string a line

See `datatrove.txt`.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

from datatrove.pipeline.formatters import PIIFormatter

ROUNDS = 5


def main() -> None:
    """Time it, or write what it makes."""
    lines = Path(sys.argv[1]).read_text("utf-8").split("\n")
    texts, formatter = [json.loads(line)["text"] for line in lines if line], PIIFormatter()
    if sys.argv[2:] == ["texts"]:
        for text in texts:
            print(json.dumps(formatter.format(text)))
        return
    took = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for text in texts:
            formatter.format(text)
        took.append(time.process_time() - start)
    print(json.dumps(statistics.median(took)))


if __name__ == "__main__":
    main()
