"""A shard of two packs that fits in the head, and a folder around it."""

from __future__ import annotations

import json

import numpy as np
import orjson

from prep_lib.shards.formats import FORMATS
from prep_lib.shards.h5 import ShardWriter
from prep_lib.shards.manifest import shard_entry, write_manifest

# Two packs of 6: documents 0 and 1 in the first, 2 in the second; `.` is padding.   0 0 0 1 1 . | 2 2 2 2 . .
SEQUENCE = np.array([[5, 6, 7, 8, 9, 0], [1, 2, 3, 4, 0, 0]], dtype=np.int32)
MASK = np.array([[0, 1, 1, 0, 1, 0], [0, 0, 1, 1, 0, 0]], dtype=bool)
PACKED = {
    "sequence": SEQUENCE,
    "loss_mask": MASK,
    "segments/row": np.array([0, 0, 1]),
    "segments/start": np.array([0, 0, 0]),
    "segments/length": np.array([3, 2, 4], dtype=np.int32),
    "segments/document": np.array([0, 1, 2]),
    "documents/source": np.array([0, 0, 1], dtype=np.int32),
    "documents/line": np.array([12, 13, 4]),
}
FIRST = np.array([[True], [False]])  # keeps the targets of the first pack
SOURCES = ["a.jsonl", "b.parquet"]


def write_shard(path, data=PACKED, sources=SOURCES):
    with ShardWriter(path) as writer:
        for name, values in data.items():
            writer.write(name, values)
        if "documents/line" in data:
            writer.strings("documents/sources", sources)
    return path


def by_source(data, tokens):
    """Tokens of each source, where the segments tell."""
    if "segments/document" not in data:
        return {"a.jsonl": tokens}
    known = zip(data["segments/document"].tolist(), data["segments/length"].tolist(), strict=False)
    names = [SOURCES[min(at, 1)] for at in data["documents/source"].tolist()] + SOURCES[:1]
    pieces = [(names[min(document, len(names) - 1)], length) for document, length in known]
    return {
        name: sum(length for each, length in pieces if each == name) for name in sorted({each for each, _ in pieces})
    }


def build(folder, data=PACKED, *, seq_len=6, tokens=9, packing=None, tokenizer=None, **changes):
    """A folder with one shard, and a manifest that says what `data` should be."""
    path = write_shard(folder / "chunk_0.h5", data)
    entry = shard_entry(path, 2, tokens, "int32", by_source(data, tokens)) | changes
    write_manifest(
        folder, shards=[entry], seq_len=seq_len, totals={"written": tokens}, seed=42,
        packing=packing or {"algorithm": "best_fit"}, tokenizer=tokenizer or {"max_id": 9},
    )  # fmt: skip
    return folder


RAGGED = {
    "sequence": np.array([5, 6, 7, 1, 2], np.int32),
    "offsets/sequence": np.array([0, 3, 5]),
    "loss_mask": np.array([0, 1, 1, 0, 1], bool),
    "offsets/loss_mask": np.array([0, 3, 5]),
}
# Prompts 1 2 and 3; behind the last answer's target stands a line feed, 9.
PAIRS = {
    "chosen": np.array([1, 2, 5, 6, 3, 7], np.int32),
    "offsets/chosen": np.array([0, 4, 6]),
    "chosen_mask": np.array([0, 0, 1, 1, 0, 1], bool),
    "offsets/chosen_mask": np.array([0, 4, 6]),
    "rejected": np.array([1, 2, 8, 3, 4, 4, 9], np.int32),
    "offsets/rejected": np.array([0, 3, 7]),
    "rejected_mask": np.array([0, 0, 1, 0, 1, 1, 0], bool),
    "offsets/rejected_mask": np.array([0, 3, 7]),
    "prompt_length": np.array([2, 1], np.int32),
}


def sft(folder, data=PACKED, tokens=9, seq_len=6):
    folder.mkdir(parents=True, exist_ok=True)
    return build(folder, data, tokens=tokens, seq_len=seq_len)


def ragged(folder, data=RAGGED):
    return sft(folder, data, tokens=len(data["sequence"]), seq_len=None)


def dpo(folder, data=PAIRS):
    return sft(folder, data, tokens=len(data["chosen"]) + len(data["rejected"]), seq_len=None)


# ── documents in packs, in every kind of file ────────────────────────────────────────────────────────────────────────

GROUPS = [("web", "en"), ("code", None)]
#: Two packs of 6, each a shard: A and C are web, B is code and cut between the packs.   A A A B B B | B B C C C ·
DOCUMENTS = {0: (0, [1, 2, 3]), 1: (1, [4, 5, 6, 7, 8]), 2: (0, [9, 2, 1])}
PACKS = [[(0, 0, 3), (1, 0, 3)], [(1, 3, 2), (2, 0, 3)]]


def store(folder, packs=PACKS, documents=DOCUMENTS, *, kind="bin", width=6, rows=1, groups=GROUPS, change=None, **told):
    """Shards of `rows` packs; a pack is (document, start, length) …, a document (group, ids); line = its number + 1."""
    entries = []
    for first in range(0, len(packs), rows):
        mine = packs[first : first + rows]
        names = sorted({document for pack in mine for document, _, _ in pack})
        pieces = [(row, start, length, names.index(n)) for row, pack in enumerate(mine) for n, start, length in pack]
        ids = np.zeros((len(mine), width), np.int64)
        for row, pack in enumerate(mine):
            filled = [token for n, start, length in pack for token in documents[n][1][start : start + length]]
            ids[row, : len(filled)] = filled
        columns = dict(zip(("row", "start", "length", "document"), np.array(pieces, np.int64).T, strict=True))
        columns = {f"segments/{name}": values for name, values in columns.items()} | {
            "documents/source": np.zeros(len(names), np.int64),
            "documents/line": np.array([n + 1 for n in names]),
            "documents/group": np.array([documents[n][0] for n in names]),
            "documents/tokens": np.array([len(documents[n][1]) for n in names]),
            "documents/id": np.zeros(0, np.uint8),
            "documents/id_end": np.zeros(len(names), np.int64),
        }
        if change:
            ids, columns = change(ids, columns)
        form = FORMATS[kind]
        path, *beside = (folder / name for name in form.outputs(len(entries)))
        dtype = "uint16" if kind == "bin" else "int32"
        with form.writer(path) as file:
            file.create("sequence", ids.shape, told.get("dtype", dtype))[0 : len(ids)] = ids
            for name, values in columns.items():
                file.write(name, values)
            file.strings("documents/sources", ["a.jsonl"])
            file.strings("documents/groups", [orjson.dumps(group).decode() for group in groups])
        tokens = told.get("tokens", int(columns["segments/length"].sum()))
        entries.append(shard_entry(path, len(mine), tokens, told.get("dtype", dtype), {"a.jsonl": tokens}, beside))
    write_manifest(
        folder, shards=entries, seq_len=width, totals=told.get("totals", {}), seed=1, format=kind,
        packing={"algorithm": "concat"}, dropped_remainder_tokens=told.get("dropped", 0),
        tokenizer=told.get("tokenizer", {"name": "toy", "max_id": 9}), recipe={"inputs": ["a.jsonl"]},
    )  # fmt: skip
    return folder


def flat(lists):
    return [each for one in lists for each in one]


def megatron_documents(folder):
    """Documents of every pair of files, read by the layout alone."""
    told = json.loads((folder / "convert.json").read_bytes())
    found = {}
    for file in (file for file in told["files"] if file["file"].endswith(".bin")):
        raw = (folder / file["file"]).with_suffix(".idx").read_bytes()
        assert raw[:9] == b"MMIDIDX\0\0"
        dtype = {8: "<u2", 4: "<i4"}[raw[17]]
        ids = np.fromfile(folder / file["file"], dtype)
        count, bounds = np.frombuffer(raw, "<u8", 2, 18).tolist()
        lengths = np.frombuffer(raw, "<i4", count, 34)
        pointers = np.frombuffer(raw, "<i8", count, 34 + 4 * count)
        assert np.frombuffer(raw, "<i8", bounds, 34 + 12 * count).tolist() == list(range(count + 1))
        begins = (pointers // np.dtype(dtype).itemsize).tolist()
        documents = [ids[begin : begin + length].tolist() for begin, length in zip(begins, lengths, strict=True)]
        assert sum(map(len, documents)) == len(ids) == file["tokens"]
        found[file["source"], file["language"]] = documents
    return found
