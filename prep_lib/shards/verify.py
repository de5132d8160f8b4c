"""A folder of shards against its manifest, byte by byte and row by row.

    files      there? foreign?     bytes   size, sha256, those beside a shard too     rows   sequences, tokens, dtype
    segments   fill their rows, name documents that exist, and lie in them
    documents  each once, its pieces side by side over all shards; as many tokens as its source is said to have
    ids        none above the tokenizer's largest; an EOS where a document ends, and nowhere else
    masks      fit their ids, train nothing in the padding, something in each row
    sums       of shards, sources and groups, against what the build counted

Shards are looked at side by side, each in blocks: memory holds some blocks, and 8 bytes a document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from prep_lib.errors import BadShard
from prep_lib.files import digest, local, place
from prep_lib.machine import default_workers
from prep_lib.remote import forget_copy, sizes
from prep_lib.shards.formats import FORMATS, open_shard
from prep_lib.shards.h5 import IOHandler
from prep_lib.shards.manifest import BESIDE, NAME, Finding, files_of, packing_algorithm, read_manifest
from prep_lib.shards.shard import Shard, document_id, row_blocks

#: From a file's name to its size; None: it is not there.
Sizes = Callable[[str], int | None]

#: Values looked at at once: bounds memory whatever the size of a shard.
_BLOCK = 4 * 2**20

#: Shards looked at at once: digests and arithmetic run side by side, and an npz shard lies in memory as a whole.
_THREADS = 4

#: Bits of a line number beside the number of its input.
_LINE_BITS = 40

#: Files beside the shards that a build writes.
_BESIDE = (NAME, "ledger.json", "rejected.jsonl.zst")


def verify(folder: str | Path) -> list[Finding]:
    """Check a folder of shards against its manifest, byte by byte and row by row.

    Parameters
    ----------
    folder : path
        Of h5, bin or npz shards.

    Returns
    -------
    list of Finding
        Empty when everything is as the manifest says: names, sizes, sha256, rows, tokens, dtype, sources; that segments
        fill their rows and lie in documents that exist; that the pieces of a document lie side by side over all shards;
        that no id is above the tokenizer's largest, and an EOS stands where a document ends and nowhere else; that
        masks fit their ids, train nothing in the padding and something in each row.
    """
    folder = place(folder)
    try:
        manifest = read_manifest(folder)
    except BadShard as error:
        return [Finding(NAME, str(error))]
    try:
        return _verify(folder, manifest)
    except Exception as error:  # a manifest, too, may say anything that nobody thought of
        return [Finding(NAME, f"cannot be compared with its shards ({type(error).__name__}: {error}); build it again")]


def _verify(folder: Path, manifest: Mapping[str, Any]) -> list[Finding]:
    with ThreadPoolExecutor(min(_THREADS, default_workers())) as pool:
        size_of = sizes(folder)
        seen = list(pool.map(partial(_look, folder, manifest, size_of=size_of), manifest["shards"]))
    found = [finding for one in seen for finding in one.found]
    found += [*_check_files(folder, manifest.get(BESIDE, ()), size_of), *_verify_totals(manifest)]
    if all(one.opened for one in seen):
        found += [Finding(NAME, what) for what in (*_check_eos_total(seen, manifest), *_check_apart(seen, manifest))]
    return found + list(_foreign(folder, manifest))


@dataclass
class _Seen:
    """What was found in one shard, and what only all shards together can tell.

    Parameters
    ----------
    found : list of Finding
    opened : bool
        Whether it could be read.
    eos : int or None
        EOS ids in it, padding apart; None where nobody knows the id, or where documents end.
    names : list of str
        Inputs, as `whole` and `parts` refer to them.
    whole : (2, n) int64
        Input and line of every document that lies in one piece.
    parts : (5, n) int64
        Input, line, start, length, and tokens of the document, of every other piece.
    """

    found: list[Finding] = field(default_factory=list)
    opened: bool = False
    eos: int | None = None
    names: list[str] = field(default_factory=list)
    whole: np.ndarray = field(default_factory=lambda: np.zeros((2, 0), np.int64))
    parts: np.ndarray = field(default_factory=lambda: np.zeros((5, 0), np.int64))


def _foreign(folder: Path, manifest: Mapping[str, Any]) -> Iterator[Finding]:
    names = {file["file"] for entry in manifest["shards"] for file in files_of(entry)}
    for path in map(place, IOHandler.fetch_files(folder)):
        if path.name not in names and path.name not in _BESIDE:
            # What a reader of the folder would take for a part of it.
            shard = path.suffix[1:] in FORMATS or any(kind.number(path.name) is not None for kind in FORMATS.values())
            yield Finding(path.name, "is in the folder but not in the manifest", "error" if shard else "warning")


def _verify_totals(manifest: Mapping[str, Any]) -> Iterator[Finding]:
    """Compare what the builder summed with what the shards say."""
    rows, tokens = (sum(entry[what] for entry in manifest["shards"]) for what in ("sequences", "tokens"))
    packing = manifest["packing"] if isinstance(manifest["packing"], Mapping) else {}
    totals = manifest["totals"]
    sums = [("tokens written", totals.get("written"), tokens), ("packs", packing.get("packs"), rows)]
    if manifest["seq_len"]:
        sums.append(("tokens of padding", totals.get("padding"), rows * manifest["seq_len"] - tokens))
    for what, told, summed in sums:
        if told not in (None, summed):
            yield Finding(NAME, f"says {told:,} {what}, its shards sum to {summed:,}")
    for entry in manifest["shards"]:
        if sum(entry["sources"].values()) != entry["tokens"]:
            yield Finding(NAME, f"the sources of {entry['file']} do not sum to its {entry['tokens']:,} tokens")
    # What a group cost is counted without EOS, one of which stands behind every document.
    stored = sum(totals.get(flow, 0) for flow in ("written", "remainder", "cut")) - totals.get("documents", 0)
    for what, told in (("documents", totals.get("documents")), ("tokens of text", stored)):
        summed = sum(group[what.split()[0]] for group in totals.get("groups", ()))
        if "groups" in totals and told not in (None, summed):
            yield Finding(NAME, f"says {told:,} {what} were kept, its groups sum to {summed:,}")


def _look(folder: Path, manifest: Mapping[str, Any], entry: Mapping[str, Any], size_of: Sizes) -> _Seen:
    """Check everything that one shard can tell; what was copied from a store for it goes again."""
    try:
        return _looked(folder, manifest, entry, size_of)
    finally:
        for file in files_of(entry):
            forget_copy(folder / file["file"])


def _looked(folder: Path, manifest: Mapping[str, Any], entry: Mapping[str, Any], size_of: Sizes) -> _Seen:
    seen, name = _Seen(), entry["file"]
    seen.found += _check_files(folder, files_of(entry), size_of)
    if any(finding.what != _CHANGED for finding in seen.found):
        return seen
    try:
        shard = open_shard(folder / name)
        checks = (_check_counts(shard, entry, manifest), _check_segments(shard), _check_ids(shard, manifest))
        seen.found += [Finding(name, what) for check in checks for what in check]
        if not seen.found:
            seen.found += [Finding(name, what) for what in _check_documents(shard, entry, manifest, seen)]
        # Where rows are cut, a pack may hold nothing but a long question; nowhere else.
        severity = "error" if packing_algorithm(manifest) in (None, "best_fit") else "warning"
        for key in _ids(shard, manifest):
            mask = shard.mask_of(key)
            for what, fatal in _check_mask(shard, key, mask) if mask else ():
                seen.found.append(Finding(name, what, "error" if fatal else severity))
    except BadShard as error:
        seen.found.append(Finding(name, str(error)))
        return seen
    except Exception as error:  # damaged bytes make any value of anything, and a library raise what it likes
        seen.found.append(Finding(name, f"cannot be read ({type(error).__name__}); build it again"))
        return seen
    seen.opened = True
    return seen


_CHANGED = "its content has changed: sha256 differs from the manifest"


def _check_files(folder: Path, files: Iterable[Mapping[str, Any]], size_of: Sizes) -> Iterator[Finding]:
    for file in files:
        path, size = folder / file["file"], size_of(file["file"])
        if size is None:
            yield Finding(file["file"], "is missing")
        elif size != file["bytes"]:
            yield Finding(file["file"], f"has {size:,} bytes, the manifest says {file['bytes']:,}")
        elif digest(local(path)) != file["sha256"]:
            yield Finding(file["file"], _CHANGED)


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
    elif len(shard.segment_columns["document"]) == len(length):
        yield from _check_places(shard)


def _check_places(shard: Shard) -> Iterator[str]:
    """Check that every piece lies in its document, where that says how long it is."""
    start, length = (shard.segment_columns[name].astype(np.int64) for name in ("start", "length"))
    tokens = shard.document_columns.get("tokens")
    wrong = start < 0
    if tokens is not None:
        wrong |= start + length > np.asarray(tokens)[shard.segment_columns["document"]]
    if wrong.any():
        at = int(np.argmax(wrong))
        document = shard.document(int(shard.segment_columns["document"][at]))
        yield f"segment {at} does not lie in its document {document}"


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


def _check_documents(shard: Shard, entry: Mapping[str, Any], manifest: Mapping[str, Any], seen: _Seen) -> Iterator[str]:
    """Compare what is counted of documents, and keep what only all shards can tell."""
    if not shard.packed:
        return
    document = np.asarray(shard.segment_columns["document"])
    source, line = (np.asarray(shard.document_columns[name], np.int64)[document] for name in ("source", "line"))
    start, length = (shard.segment_columns[name].astype(np.int64) for name in ("start", "length"))
    summed = np.bincount(source, length, len(shard.sources)).astype(np.int64).tolist()
    counted = {name: tokens for name, tokens in zip(shard.sources, summed, strict=True) if tokens}
    if counted != entry["sources"]:
        name = min(set(counted.items()) ^ set(entry["sources"].items()))[0]
        told = entry["sources"].get(name, 0)
        yield f"holds {counted.get(name, 0):,} tokens of {name}, the manifest says {told:,}"
    if "tokens" not in shard.document_columns:
        return
    tokens = np.asarray(shard.document_columns["tokens"], np.int64)[document]
    whole = length == tokens
    seen.names = shard.sources
    seen.whole = np.stack([source, line])[:, whole]
    seen.parts = np.stack([source, line, start, length, tokens])[:, ~whole]
    if (eos := (manifest["tokenizer"] or {}).get("eos_id")) is not None:
        yield from _check_eos(shard, _ids(shard, manifest)[0], eos, start + length == tokens, seen)


def _check_eos(shard: Shard, key: str, eos: int, ending: np.ndarray, seen: _Seen) -> Iterator[str]:
    """Check that an EOS stands where a document ends, and nowhere else; `ending`: which pieces end one."""
    values, begin = shard.columns[key], shard.piece_begins()
    length, filled = shard.segment_columns["length"].astype(np.int64), _filled(shard)
    width = values.shape[1]
    ends, place, step = (begin + length - 1)[ending], np.arange(width), max(1, _BLOCK // width)
    seen.eos, wrong = 0, [np.zeros(0, np.int64)]
    for first in range(0, len(values), step):
        # Padding is known by length: it may be the same id.
        found = (values[first : first + step] == eos) & (place < filled[first : first + step, None])
        at = np.flatnonzero(found) + first * width
        expected = ends[slice(*np.searchsorted(ends, (first * width, (first + len(found)) * width)))]
        seen.eos += len(at)
        wrong.append(np.setxor1d(at, expected, assume_unique=True))
    places = np.concatenate(wrong)
    if places.size:
        piece = int(np.searchsorted(begin, places[0], side="right")) - 1
        document = shard.document(int(shard.segment_columns["document"][piece]))
        what = f"{document} ends without EOS" if places[0] in ends else f"an EOS stands inside {document}"
        yield f"row {int(places[0]) // width}: {what}, id {eos} ({places.size:,} such places)"


def _check_eos_total(seen: Sequence[_Seen], manifest: Mapping[str, Any]) -> Iterator[str]:
    told, summed = manifest["totals"].get("written_eos"), sum(one.eos or 0 for one in seen)
    if told is not None and all(one.eos is not None for one in seen) and told != summed:
        yield f"says {told:,} EOS were written, its shards hold {summed:,}"


def _check_apart(seen: Sequence[_Seen], manifest: Mapping[str, Any]) -> Iterator[str]:
    """Check over all shards that each document is there once, and that its pieces lie side by side."""
    names: dict[str, int] = {}
    whole, parts = [np.zeros((2, 0), np.int64)], [np.zeros((5, 0), np.int64)]
    for one in seen:
        # Each shard numbers the inputs it knows of by itself.
        place = np.array([names.setdefault(name, len(names)) for name in one.names], np.int64)
        for table, found in ((whole, one.whole), (parts, one.parts)):
            table.append(np.concatenate([place[found[:1]], found[1:]]) if found.size else found)
    cut = np.concatenate(parts, axis=1)
    source, line, start, length, tokens = cut[:, np.lexsort((cut[2], cut[1], cut[0]))]
    first = np.ones(len(line), bool)
    first[1:] = (source[1:] != source[:-1]) | (line[1:] != line[:-1])
    follows = np.where(first, 0, np.concatenate(([0], start + length))[: len(start)]) == start
    labels = {at: name for name, at in names.items()}
    if not follows.all():
        at = int(np.argmin(follows))
        where = document_id(labels[int(source[at])], int(line[at]))
        yield f"the pieces of {where} do not lie side by side: one begins at its token {int(start[at]):,}"
        return
    every = np.concatenate([*whole, np.stack([source, line])[:, first]], axis=1)
    # Input and line in one number: sorting pairs takes ten times as long.
    distinct, copies = np.unique(every[0] << _LINE_BITS | every[1], return_counts=True)
    if (copies > 1).any():
        at = int(np.argmax(copies > 1))
        where = document_id(labels[int(distinct[at]) >> _LINE_BITS], int(distinct[at]) % 2**_LINE_BITS)
        yield f"{where} is stored {int(copies[at])} times"
        return
    yield from _check_lost(len(copies), int(tokens[first].sum() - length.sum()), manifest)


def _check_lost(documents: int, missing: int, manifest: Mapping[str, Any]) -> Iterator[str]:
    """Check that only what was left over at the end is missing; `missing`: tokens of documents that are there."""
    left, told = manifest["dropped_remainder_tokens"] or 0, manifest["totals"].get("documents")
    if missing > left:
        yield f"says {left:,} tokens were left over, but {missing:,} are missing in its documents"
    elif told is not None and documents and documents != told and (documents > told or missing == left):
        yield f"says {told:,} documents were written, its shards hold {documents:,}"


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
