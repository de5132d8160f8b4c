"""Random reads through another program's own reader; called by bench_read in an environment of its own.

    /tmp/mcore/bin/python tests/bench/peers/read_peers.py megatron PREFIX places.npy        see megatron.txt
    /tmp/datatrove/bin/python tests/bench/peers/read_peers.py datatrove FILE.ds places.npy  see datatrove.txt

`places.npy` holds the numbers of the samples to read, and the last is the tokens of one. A line on standard input is a
round; the answer is its seconds of processor time, and the sum of the first id of every sample.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def megatron(prefix: str, width: int) -> Callable[[int], Any]:
    """Read `width` tokens out of documents of that length, as GPTDataset does."""
    from megatron.core.datasets.indexed_dataset import IndexedDataset

    dataset = IndexedDataset(prefix)
    assert (dataset.sequence_lengths == width).all()
    return lambda at: dataset.get(at, offset=0, length=width).astype(np.int64)


def datatrove(path: str, width: int) -> Callable[[int], Any]:
    """Read windows of `width` tokens; a window holds one more than seq_len."""
    from datatrove.utils.dataset import DatatroveFileDataset

    dataset = DatatroveFileDataset(path, width - 1, token_size=2)
    return lambda at: dataset[at]["input_ids"]


def main() -> None:
    """Answer every line with a round."""
    program, path, places = sys.argv[1:]
    *order, width = np.load(places).tolist()
    read = {"megatron": megatron, "datatrove": datatrove}[program](path, width)
    for _ in sys.stdin:
        start, total = time.process_time(), 0
        for at in order:
            total += int(read(at)[0])
        print(time.process_time() - start, total, flush=True)


if __name__ == "__main__":
    main()
