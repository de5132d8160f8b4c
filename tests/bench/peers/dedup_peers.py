"""Near duplicates by other libraries: CPU seconds of their signatures, and of all they do, and the pairs they find.

    python dedup_peers.py datasketch word5 FILE.jsonl       the specification's call, update() for each shingle
    python dedup_peers.py datasketch_batch word5 FILE.jsonl update_batch() for each document
    python dedup_peers.py rensa word5 FILE.jsonl            RMinHash, 16 bands of 8
    python dedup_peers.py text_dedup word5 FILE.jsonl       its own words and bands for 0.8
    python dedup_peers.py datatrove en FILE.jsonl           its own words, 14 bands of 8

Writes one line of JSON: {"documents", "signatures", "whole", "pairs": [[i, j], …]}. 128 hash functions (datatrove: 112)
and a threshold of 0.8 where one is asked. Environments: `minhash.txt`; for datatrove `datatrove.txt`.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any


def shingles(text: str, name: str) -> list[str]:
    """Return runs of 5 words or characters."""
    pieces = text.lower().split() if name == "word5" else list("".join(text.split()))
    glue = " " if name == "word5" else ""
    return [glue.join(pieces[at : at + 5]) for at in range(len(pieces) - 4)]


def buckets(keys: Iterable[tuple[int, Hashable]]) -> set[tuple[int, int]]:
    """Return the pairs of documents that share a key."""
    held = defaultdict(list)
    for document, key in keys:
        held[key].append(document)
    return {pair for met in held.values() for pair in itertools.combinations(sorted(set(met)), 2)}


class Datasketch:
    """MinHash and MinHashLSH of datasketch."""

    def __init__(self, name: str, batch: bool) -> None:
        self.name, self.batch = name, batch

    def sign(self, text: str) -> Any:
        from datasketch import MinHash

        out = MinHash(num_perm=128)
        encoded = [each.encode("utf-8") for each in shingles(text, self.name)]
        if self.batch and encoded:
            out.update_batch(encoded)
        elif not self.batch:
            for each in encoded:
                out.update(each)
        return out

    def pairs(self, signatures: list[Any]) -> set[tuple[int, int]]:
        from datasketch import MinHashLSH

        index, found = MinHashLSH(threshold=0.8, num_perm=128), set()
        for at, each in enumerate(signatures):
            found |= {(other, at) for other in index.query(each)}
            index.insert(at, each)
        return found


class Rensa:
    """RMinHash and RMinHashLSH of rensa."""

    def __init__(self, name: str) -> None:
        self.name = name

    def sign(self, text: str) -> Any:
        from rensa import RMinHash

        out = RMinHash(num_perm=128, seed=42)
        out.update(shingles(text, self.name))
        return out

    def pairs(self, signatures: list[Any]) -> set[tuple[int, int]]:
        from rensa import RMinHashLSH

        index, found = RMinHashLSH(threshold=0.8, num_perm=128, num_bands=16), set()
        for at, each in enumerate(signatures):
            found |= {(other, at) for other in index.query(each)}
            index.insert(at, each)
        return found


class TextDedup:
    """The two halves of text-dedup's MinHash script."""

    def __init__(self) -> None:
        import numpy as np
        from text_dedup.minhash import embed_func
        from text_dedup.utils import optimal_param, sha1_hash

        bands, rows = optimal_param(0.8, 128)
        prime, draw = np.uint64((1 << 61) - 1), np.random.RandomState(42)
        self.embed = embed_func
        self.parameters = {
            "num_perm": 128, "ngram_size": 5, "min_length": 5, "hash_func": sha1_hash, "dtype": np.uint64,
            "hashranges": [(at * rows, (at + 1) * rows) for at in range(bands)],
            "permutations": (
                draw.randint(1, prime, size=128, dtype=np.uint64), draw.randint(0, prime, size=128, dtype=np.uint64)
            ),
            "max_hash": np.uint32((1 << 32) - 1), "modulo_prime": prime,
        }  # fmt: skip

    def sign(self, text: str) -> Any:
        return self.embed(text, 0, **self.parameters)["__signatures__"]

    def pairs(self, signatures: list[Any]) -> set[tuple[int, int]]:
        return buckets((at, key) for at, each in enumerate(signatures) for key in enumerate(each))


class Datatrove:
    """The signatures of datatrove's first MinHash step, and who meets in its second."""

    def __init__(self, language: str, folder: str) -> None:
        from datatrove.pipeline.dedup import MinhashDedupSignature
        from datatrove.pipeline.dedup.minhash import MinhashConfig
        from datatrove.utils.hashing import HashConfig

        # Its default, xxhash, stops with xxhash 4, which takes no str; FineWeb was made with sha1 as well.
        config = MinhashConfig(hash_config=HashConfig(precision=64, hash_fc="sha1"))
        self.step = MinhashDedupSignature(folder, config, {"en": "en", "zh": "cmn_Hani"}[language])

    def sign(self, text: str) -> Any:
        found = self.step.get_shingles(text)
        return self.step.get_signature(found) if found.size else []

    def pairs(self, signatures: list[Any]) -> set[tuple[int, int]]:
        return buckets((at, (k, tuple(key))) for at, each in enumerate(signatures) for k, key in enumerate(each))


def peer(name: str, shingle: str) -> Any:
    """Return the peer of that name."""
    if name == "datatrove":
        return Datatrove(shingle, tempfile.mkdtemp())
    if name == "text_dedup":
        return TextDedup()
    return Rensa(shingle) if name == "rensa" else Datasketch(shingle, name == "datasketch_batch")


def main(name: str, shingle: str, path: str) -> None:
    """Measure."""
    texts = [json.loads(line)["text"] for line in Path(path).read_text("utf-8").splitlines()]
    used = peer(name, shingle)
    used.pairs([used.sign("one two three four five six seven"), used.sign("eight nine ten eleven twelve one two")])
    start = time.process_time()
    signatures = [used.sign(text) for text in texts]
    middle = time.process_time()
    pairs = used.pairs(signatures)
    stop = time.process_time()
    told = {"documents": len(texts), "signatures": middle - start, "whole": stop - start, "pairs": sorted(pairs)}
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
