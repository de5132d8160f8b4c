"""A folder of shards against its manifest, byte by byte and row by row.

name   there? foreign?     bytes   size, sha256     rows   sequences, tokens, dtype
segments   fill their rows, name documents that exist
masks      fit their ids, train nothing in the padding, something in each row
ids        none above the tokenizer's largest
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from prep_lib.errors import BadShard
from prep_lib.files import digest
from prep_lib.shards.h5 import IOHandler, Shard, row_blocks
from prep_lib.shards.manifest import NAME, Finding, packing_algorithm, read_manifest

#: Values looked at at once: bounds memory whatever the size of a shard.
_BLOCK = 4 * 2**20

#: Files beside the shards that a build writes.
_BESIDE = (NAME, "ledger.json", "rejected.jsonl.zst")


def verify(folder: str | Path) -> list[Finding]:
    """Check a folder of shards against its manifest, byte by byte and row by row.

    Parameters
    ----------
    folder : path

    Returns
    -------
    list of Finding
        Empty when everything is as the manifest says: names, sizes, sha256, rows, tokens, dtype, that segments fill
        their rows and name documents that exist, that masks fit their ids, train nothing in the padding and something
        in each row, and that no id is above the tokenizer's largest.
    """
    folder = Path(folder)
    try:
        manifest = read_manifest(folder)
    except BadShard as error:
        return [Finding(NAME, str(error))]
    names = {entry["file"] for entry in manifest["shards"]}
    found = [finding for entry in manifest["shards"] for finding in _verify_shard(folder, entry, manifest)]
    found += _verify_totals(manifest)
    for path in map(Path, IOHandler.fetch_files(folder)):
        if path.name not in names and path.name not in _BESIDE:
            severity = "error" if path.suffix == ".h5" else "warning"
            found.append(Finding(path.name, "is in the folder but not in the manifest", severity))
    return found


def _verify_totals(manifest: Mapping[str, Any]) -> Iterator[Finding]:
    """Compare what the builder summed with what the shards say."""
    rows, tokens = (sum(entry[what] for entry in manifest["shards"]) for what in ("sequences", "tokens"))
    packing = manifest["packing"] if isinstance(manifest["packing"], Mapping) else {}
    sums = [("tokens written", manifest["totals"].get("written"), tokens), ("packs", packing.get("packs"), rows)]
    if manifest["seq_len"]:
        sums.append(("tokens of padding", manifest["totals"].get("padding"), rows * manifest["seq_len"] - tokens))
    for what, told, summed in sums:
        if told not in (None, summed):
            yield Finding(NAME, f"says {told:,} {what}, its shards sum to {summed:,}")
    for entry in manifest["shards"]:
        if isinstance(entry["sources"], Mapping) and sum(entry["sources"].values()) != entry["tokens"]:
            yield Finding(NAME, f"the sources of {entry['file']} do not sum to its {entry['tokens']:,} tokens")


def _verify_shard(folder: Path, entry: Mapping[str, Any], manifest: Mapping[str, Any]) -> Iterator[Finding]:
    name, path = entry["file"], folder / entry["file"]
    if not path.is_file():
        yield Finding(name, "is missing")
        return
    size = path.stat().st_size
    if size != entry["bytes"]:
        yield Finding(name, f"has {size:,} bytes, the manifest says {entry['bytes']:,}")
        return
    if digest(path) != entry["sha256"]:
        yield Finding(name, "its content has changed: sha256 differs from the manifest")
    try:
        shard = Shard(path)
        for what in (*_check_counts(shard, entry, manifest), *_check_segments(shard), *_check_ids(shard, manifest)):
            yield Finding(name, what)
        # Where rows are cut, a pack may hold nothing but a long question; nowhere else.
        severity = "error" if packing_algorithm(manifest) in (None, "best_fit") else "warning"
        for key in _ids(shard, manifest):
            mask = shard.mask_of(key)
            for what, fatal in _check_mask(shard, key, mask) if mask else ():
                yield Finding(name, what, "error" if fatal else severity)
    except BadShard as error:
        yield Finding(name, str(error))


def _ids(shard: Shard, manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys of ids: those the processor named if the manifest has them, else as the shard sees it."""
    told = manifest["strategy"].get("id_keys") if isinstance(manifest["strategy"], Mapping) else None
    return tuple(key for key in told if key in shard.keys) if told else shard.ids


def _check_counts(shard: Shard, entry: Mapping[str, Any], manifest: Mapping[str, Any]) -> Iterator[str]:
    ids = _ids(shard, manifest)
    tokens = shard.tokens if shard.packed else sum(shard.columns[key].size for key in ids)
    for what, got in (("sequences", len(shard)), ("tokens", tokens)):
        if got != entry[what]:
            yield f"holds {got:,} {what}, the manifest says {entry[what]:,}"
    if others := sorted({str(shard.columns[key].dtype) for key in ids} - {entry["dtype"]}):
        yield f"holds ids as {', '.join(others)}, the manifest says {entry['dtype']}"
    for key in shard.keys if manifest["seq_len"] else ():
        if shard.columns[key].shape[1:] != (manifest["seq_len"],):
            yield f"rows of {key} are not of the manifest's seq_len {manifest['seq_len']:,}"


def _check_segments(shard: Shard) -> Iterator[str]:
    """Check that the pieces go through the rows in order, fill them at most, and name documents that exist."""
    documents = len(shard.document_columns.get("line", ()))
    sources = shard.document_columns.get("source", np.zeros(0, np.int64))
    if _outside(sources, len(shard.sources)):
        yield "a document names a source that is not listed"
    if not shard.packed:
        if documents not in (0, len(shard)):
            yield f"lists {documents:,} documents for {len(shard):,} rows"
        return
    row, length = shard.segment_columns["row"], shard.segment_columns["length"]
    if len({len(column) for column in shard.segment_columns.values()}) > 1:
        yield "the columns of segments differ in size"
    elif (row[1:] < row[:-1]).any() or not np.array_equal(np.unique(row), np.arange(len(shard))):
        yield "segments do not go through the rows in order"
    elif (length < 1).any():
        yield f"segment {int(np.argmax(length < 1))} has no token"
    elif (over := _filled(shard) > (width := shard.columns[shard.keys[0]].shape[-1])).any():
        yield f"segments of row {int(np.argmax(over))} are longer than its {width:,} places"
    if _outside(shard.segment_columns["document"], documents):
        yield f"a segment names a document that is not among the {documents:,} listed"


def _outside(index: np.ndarray, size: int) -> bool:
    return bool(index.size) and not (index.min() >= 0 and index.max() < size)


def _filled(shard: Shard) -> np.ndarray:
    """Return the tokens of each packed row, padding apart."""
    row, length = shard.segment_columns["row"], shard.segment_columns["length"]
    inside = (row >= 0) & (row < len(shard))
    filled = np.zeros(len(shard), np.int64)
    np.add.at(filled, row[inside], length[inside])
    return filled


def _check_ids(shard: Shard, manifest: Mapping[str, Any]) -> Iterator[str]:
    limit = (manifest["tokenizer"] or {}).get("max_id")
    for key in _ids(shard, manifest):
        flat = shard.columns[key].reshape(-1)
        for start in range(0, len(flat), _BLOCK):
            block = flat[start : start + _BLOCK]
            low, high = int(block.min()), int(block.max())
            if low < 0 or (limit is not None and high > limit):
                bad = low if low < 0 else high
                yield f"{key} holds id {bad}, allowed are 0 to {limit if limit is not None else 'any'}"
                break


def _check_mask(shard: Shard, key: str, mask: str) -> Iterator[tuple[str, bool]]:
    """Yield (what is wrong, whether it is wrong under every packing)."""
    ids, values = shard.columns[key], shard.columns[mask]
    offsets, ours = shard.offsets.get(key), shard.offsets.get(mask)
    same = (ours is None) if offsets is None else (ours is not None and np.array_equal(offsets, ours))
    if ids.shape != values.shape or not same:
        yield f"{mask} {values.shape} does not have the shape of {key} {ids.shape}", True
        return
    if ids.ndim == 2:
        yield from _check_packed_mask(shard, mask)
        return
    empty: list[int] = []
    for first, last in row_blocks(offsets if offsets is not None else np.arange(len(values) + 1)):
        ends = offsets[first : last + 1] if offsets is not None else np.arange(first, last + 1)
        counts = np.concatenate([[0], np.cumsum(values[ends[0] : ends[-1]], dtype=np.int64)])[ends - ends[0]]
        empty += (first + np.flatnonzero(counts[1:] == counts[:-1])).tolist()
    if empty:
        yield f"{mask} trains nothing in row {empty[0]} ({len(empty):,} such rows)", False


def _check_packed_mask(shard: Shard, mask: str) -> Iterator[tuple[str, bool]]:
    values = shard.columns[mask]
    filled = _filled(shard) if shard.packed else np.full(len(values), values.shape[1])
    place, step = np.arange(values.shape[1]), max(1, _BLOCK // max(1, values.shape[1]))
    empty: list[int] = []
    for start in range(0, len(values), step):
        block = values[start : start + step].astype(bool)
        outside = (block & (place >= filled[start : start + step, None])).any(axis=1)
        if outside.any():
            yield f"{mask} trains padding in row {start + int(np.argmax(outside))}", True
            return
        empty += (start + np.flatnonzero(~block.any(axis=1))).tolist()
    if empty:
        yield f"{mask} trains nothing in row {empty[0]} ({len(empty):,} such rows)", False
