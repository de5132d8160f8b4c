"""Documents are put together from their pieces again, as Megatron's .bin and .idx: a pair a source and language.

    shards   A A A B B B │ B B C C C ·        A and C are web, B is code, cut between two packs
    look     web 3 3   code 5                 documents of all shards, ordered by group, input and line; no id is read
    fill     web_text_document.bin   A A A C C C      every piece goes to its place, wherever it lay
             code_text_document.bin  B B B B B
    index    web_text_document.idx   3 3              code_text_document.idx  5

So the files do not depend on packing, shards or their format. A document whose end was dropped with the last pack ends
where it ends, and is counted. Ids go through in blocks; beside them memory holds some 60 bytes a document, and 24 a
piece of one that was cut.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prep_lib.errors import BadInput, BadShard
from prep_lib.files import space_for, write_whole
from prep_lib.markup import escape
from prep_lib.shards.bin import id_dtype
from prep_lib.shards.manifest import file_entry
from prep_lib.shards.pieces import blocks, largest, pieces_of, places
from prep_lib.shards.trainers import Opened

#: What Megatron calls the types of a payload.
CODES = {"uint16": 8, "int32": 4}

#: The largest id an int32 holds, and the longest document.
INT32 = 2**31 - 1

#: The most data sets Megatron blends.
BLENDED = 32_766

#: Endings of inputs that say nothing of what is in them.
_ENDINGS = re.compile(r"\.(jsonl|ndjson|parquet)(\.(gz|zst))?$")


def files(manifest: Mapping[str, Any], opened: Opened, staged: Path) -> dict[str, Any]:
    """Write whole documents: a pair of files a group."""
    found = _documents(manifest, opened)
    if len(found.groups) > BLENDED:
        raise BadInput(
            f"shards/megatron: {len(found.groups):,} sources and languages; Megatron blends at most {BLENDED:,}: "
            "give the records a coarser source"
        )
    limit = min(INT32, largest(opened(manifest["shards"][0]), manifest))
    dtype = "uint16" if id_dtype(limit).itemsize == 2 else "int32"
    first = np.concatenate(([0], np.cumsum(found.length)))
    edges = np.searchsorted(found.group, np.arange(len(found.groups) + 1))
    prefixes = [f"{name}_text_document" for name in file_names(found.groups)]
    payload = _Payload([staged / f"{prefix}.bin" for prefix in prefixes], first[edges], np.dtype(dtype))
    payload.fill(manifest, opened, found, first, limit)
    written: list[dict[str, Any]] = []
    for at, (prefix, (source, language)) in enumerate(zip(prefixes, found.groups, strict=True)):
        mine = slice(edges[at], edges[at + 1])
        length, tokens = found.length[mine], found.tokens[mine]
        with write_whole(staged / f"{prefix}.idx") as file:
            file.write(index_bytes(length, dtype))
        short = tokens > length
        told = {
            "source": source, "language": language, "documents": len(length), "tokens": int(length.sum()),
            "dtype": dtype, "cut_short": int(np.count_nonzero(short)), "lost": int((tokens - length)[short].sum()),
        }  # fmt: skip
        written += [file_entry(staged / f"{prefix}.bin", **told), file_entry(staged / f"{prefix}.idx")]
    totals = {
        name: sum(file[name] for file in written if name in file)
        for name in ("documents", "tokens", "cut_short", "lost")
    }
    blend = [[file["tokens"], file["file"].removesuffix(".bin")] for file in written if "tokens" in file]
    return {"totals": totals, "blend": blend, "files": written}


@dataclass(frozen=True)
class _Documents:
    """The documents of all shards, each once, ordered by group, input and line.

    Parameters
    ----------
    groups : list of (source, language)
    group : (documents,) int64
    length : (documents,) int64, tokens that are stored of each
    tokens : (documents,) int64, tokens each has as a whole; -1 where nobody knows
    number : list of (documents of the shard,) int64
        For each shard: which of these its documents are.
    """

    groups: list[tuple[str, str | None]]
    group: np.ndarray
    length: np.ndarray
    tokens: np.ndarray
    number: list[np.ndarray]


def _documents(manifest: Mapping[str, Any], opened: Opened) -> _Documents:
    """Look through all shards for their documents; no id is read."""
    recipe = manifest["recipe"] if isinstance(manifest["recipe"], Mapping) else {}
    inputs = {name: at for at, name in enumerate(recipe.get("inputs", ()))}
    groups: dict[tuple[str, str | None], int] = {}
    tables, sizes = [np.zeros((5, 0), np.int64)], []
    for entry in manifest["shards"]:
        shard = opened(entry)
        pieces, known = pieces_of(shard), shard.document_columns
        # Each shard numbers the inputs and groups it knows of by itself.
        place = np.array([inputs.setdefault(name, len(inputs)) for name in shard.sources], np.int64)
        source, line = place[np.asarray(known["source"])], np.asarray(known["line"], np.int64)
        named = shard.groups or [(name, None) for name in shard.sources]
        which = np.array([groups.setdefault(group, len(groups)) for group in named], np.int64)
        group = which[np.asarray(known["group" if shard.groups else "source"])]
        stored = np.bincount(pieces.document, pieces.length, len(line)).astype(np.int64)
        tokens = np.asarray(known.get("tokens", np.full(len(line), -1)), np.int64)
        if stored.sum() != entry["tokens"] or not (stored > 0).all():
            raise BadShard(
                f"shards/megatron: {shard.path}: its documents hold {int(stored.sum()):,} tokens, the manifest says "
                f"{entry['tokens']:,}; see prep verify"
            )
        tables.append(np.stack([group, source, line, stored, tokens]))
        sizes.append(len(line))
    return _merged(np.concatenate(tables, axis=1), sizes, groups)


def _merged(table: np.ndarray, sizes: Sequence[int], groups: Mapping[tuple[str, str | None], int]) -> _Documents:
    """Make one document of those that several shards hold parts of."""
    # By name, so that the files do not depend on which shard came first; a group may have lost all its documents.
    held = set(table[0].tolist())
    ordered = sorted((at for at in groups if groups[at] in held), key=lambda at: (at[0], at[1] or ""))
    rank = np.zeros(len(groups), np.int64)
    rank[[groups[at] for at in ordered]] = np.arange(len(ordered))
    group, source, line, stored, tokens = table
    group = rank[group]
    order = np.lexsort((line, source, group))
    keys = np.stack([group, source, line])[:, order]
    new = np.concatenate(([True], (keys[:, 1:] != keys[:, :-1]).any(axis=0)))
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(new) - 1
    firsts = np.flatnonzero(new)
    length = np.add.reduceat(stored[order], firsts)
    whole = np.maximum.reduceat(tokens[order], firsts)
    if (wrong := (whole >= 0) & (length > whole)).any():
        raise BadShard(
            f"shards/megatron: {int(length[wrong][0]):,} tokens are stored of a document that has "
            f"{int(whole[wrong][0]):,}; see prep verify"
        )
    return _Documents(ordered, keys[0][firsts], length, whole, np.split(number, np.cumsum(sizes)[:-1]))


def index_bytes(lengths: np.ndarray, dtype: str) -> bytes:
    """Return a Megatron ``.idx``: one sequence a document.

    Parameters
    ----------
    lengths : (documents,) integers, tokens
    dtype : "uint16" or "int32"

    Raises
    ------
    BadInput
        If a document is longer than an int32 can say.

    Source
    ------
    Layout of megatron-core 0.16.1, ``indexed_dataset.py``.

    Examples
    --------
    >>> len(index_bytes(np.array([3, 3]), "uint16"))
    82
    """
    lengths = np.asarray(lengths, np.int64)
    if lengths.size and lengths.max() > INT32:
        raise BadInput(
            f"shards/megatron: a document of {int(lengths.max()):,} tokens; Megatron's index holds {INT32:,}"
        )
    count, size = len(lengths), np.dtype(dtype).itemsize
    head = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, CODES[dtype], count, count + 1)
    pointers = (np.cumsum(lengths) - lengths) * size
    return b"".join([head, lengths.astype("<i4").tobytes(), pointers.astype("<i8").tobytes(), _bounds(count)])


def _bounds(count: int) -> bytes:
    return np.arange(count + 1, dtype="<i8").tobytes()


def file_names(groups: Sequence[tuple[str, str | None]]) -> list[str]:
    """Return a name for the files of each group: safe on every system, and different where only case differs.

    Examples
    --------
    >>> file_names([("web/cc.jsonl", "en"), ("web cc", "en"), ("代码", None), ("..", None)])
    ['web_cc_en', 'web_cc_en-2', '__', 'x..']
    """
    names, taken = list[str](), set[str]()
    for source, language in groups:
        source = _ENDINGS.sub("", source)
        plain_name = re.sub(r"[^A-Za-z0-9._-]", "_", source if language is None else f"{source}_{language}")[:100]
        # A hidden file is listed by nobody, and a leading dash is an option to every command.
        plain_name = f"x{plain_name}" if plain_name[:1] in ("", ".", "-") else plain_name
        name, number = plain_name, 1
        while name.lower() in taken:
            number += 1
            name = f"{plain_name}-{number}"
        taken.add(name.lower())
        names.append(name)
    return names


@dataclass(frozen=True)
class _Payload:
    """The ids of all groups as one stream, which lies in a file a group.

    Parameters
    ----------
    paths : list of Path
    edges : (groups + 1,) int64, tokens
        Where each file begins in the stream.
    dtype : dtype
    """

    paths: list[Path]
    edges: np.ndarray
    dtype: np.dtype[Any]

    def fill(
        self, manifest: Mapping[str, Any], opened: Opened, found: _Documents, first: np.ndarray, limit: int
    ) -> None:
        """Bring every piece to its place; `first` is where each document begins in the stream."""
        for path in self.paths:
            with space_for(path), open(path, "wb"):
                pass
        cut: list[np.ndarray] = [np.zeros((3, 0), np.int64)]
        for entry, number in zip(manifest["shards"], found.number, strict=True):
            shard = opened(entry)
            pieces = pieces_of(shard)
            document = number[pieces.document]
            whole = found.length[document]
            if (pieces.start + pieces.length > whole).any():
                raise BadShard(
                    f"shards/megatron: {shard.path}: a document lacks tokens before a piece; see prep verify"
                )
            cut.append(np.stack([document, pieces.start, pieces.length])[:, pieces.length < whole])
            target = first[document] + pieces.start
            for low, high, ids in blocks(shard, pieces, limit):
                self._write(target[low:high], pieces.length[low:high], ids)
        _check_whole(np.concatenate(cut, axis=1))
        for path in self.paths:
            with space_for(path), open(path, "rb+") as file:
                os.fsync(file.fileno())

    def _write(self, target: np.ndarray, length: np.ndarray, ids: np.ndarray) -> None:
        """Write some pieces, `target` (n,) their places in the stream; neighbours go together."""
        if not (target[1:] > target[:-1]).all():
            order = np.argsort(target, kind="stable")
            before = np.cumsum(length) - length
            ids = ids[places(before[order], length[order])]
            target, length = target[order], length[order]
        raw = np.ascontiguousarray(ids, self.dtype.newbyteorder("<")).data.cast("B")
        group = np.searchsorted(self.edges, target, side="right") - 1
        apart = (target[1:] != target[:-1] + length[:-1]) | (group[1:] != group[:-1])
        runs = np.flatnonzero(np.concatenate(([True], apart, [True])))
        ends = np.concatenate(([0], np.cumsum(length)))[runs] * self.dtype.itemsize
        at = (target[runs[:-1]] - self.edges[group[runs[:-1]]]) * self.dtype.itemsize
        self._put(group[runs[:-1]].tolist(), at.tolist(), ends.tolist(), raw)

    def _put(self, group: list[int], at: list[int], ends: list[int], raw: memoryview) -> None:
        """Write runs of bytes: which file, where in it, and their bounds in `raw`; runs of a file follow each other."""
        for which, mine in itertools.groupby(range(len(group)), key=group.__getitem__):
            with space_for(self.paths[which]), open(self.paths[which], "rb+") as file:
                for run in mine:
                    file.seek(at[run])
                    file.write(raw[ends[run] : ends[run + 1]])


def _check_whole(cut: np.ndarray) -> None:
    """Check that the pieces of documents that were cut, (3, pieces) document, start, length, lie side by side."""
    document, start, size = cut[:, np.lexsort((cut[1], cut[0]))]
    begins = np.concatenate(([True], document[1:] != document[:-1]))[: len(document)]
    expected = np.where(begins, 0, np.concatenate(([0], start + size))[: len(start)])
    if (start != expected).any():
        raise BadShard("shards/megatron: tokens of a document are stored twice, or missing in it; see prep verify")


def blend_line(told: Mapping[str, Any], folder: str | Path) -> str:
    """Return what Megatron is told: every data set with its tokens as weight.

    Examples
    --------
    >>> blend_line({"blend": [[600, "web_text_document"], [500, "code_text_document"]]}, "data")
    '--data-path 600 data/web_text_document 500 data/code_text_document'
    """
    words = (f"{tokens} {shlex.quote(Path(folder, prefix).as_posix())}" for tokens, prefix in told["blend"])
    return " ".join(["--data-path", *words])


# ── what a reader is told ────────────────────────────────────────────────────────────────────────────────────────────


def texts(told: Mapping[str, Any]) -> tuple[str, str]:
    """Return a reading example, and what a README says of the files and their use."""
    example = '''"""Reads this folder; needs only `pip install numpy`."""
import json
from pathlib import Path

import numpy as np

here = Path(__file__).resolve().parent
told = json.loads((here / "convert.json").read_text("utf-8"))
print("--data-path", *(f"{tokens} {here / prefix}" for tokens, prefix in told["blend"]))
for file in (file for file in told["files"] if file["file"].endswith(".bin")):
    index, ids = (here / file["file"]).with_suffix(".idx").read_bytes(), np.fromfile(here / file["file"], file["dtype"])
    lengths = np.frombuffer(index, "<i4", int.from_bytes(index[18:26], "little"), 34)
    print(file["file"], len(lengths), "documents,", len(ids), "tokens; the first:", ids[: lengths[0]][:8].tolist(), "…")
'''
    totals, rows = told["totals"], ""
    for file in (file for file in told["files"] if "documents" in file):
        language = file["language"] or ""
        rows += f"| `{file['file']}` | {_cell(file['source'])} | {_cell(language)} | {file['documents']:,} | "
        rows += f"{file['tokens']:,} |\n"
    words = (
        f"| file | source | language | documents | tokens |\n|---|---|---|---|---|\n{rows}\nEach document is one "
        f"sequence and one document of the index, put together from all its pieces. {totals['cut_short']:,} documents "
        f"end before their end, {totals['lost']:,} tokens less, because the last pack was not full and was dropped.\n\n"
        f"## Train\n\n```\n{blend_line(told, 'THIS_FOLDER')}\n```\n\nWeights are tokens, so every document is read "
        "equally often; change them to mix otherwise. Sample k holds the tokens kS to kS + S of the documents, in an "
        "order that Megatron draws: packs and their order are not kept, nor where documents were cut. Give a pad "
        "id that no document holds: Megatron replaces ids equal to it by 0 and leaves them out of the loss. It keeps "
        "indexes in a folder beside a file, known by its name and not by its content: convert again into a new folder."
    )
    return example, words


def _cell(text: str) -> str:
    """Return text out of the data for a cell of a Markdown table: no markup of its own, and no end of the cell.

    Examples
    --------
    >>> _cell("a|b <i> [c](d)")
    'a&#124;b &lt;i&gt; &#91;c](d)'
    """
    return re.sub(r"[|`\[*]", lambda found: f"&#{ord(found[0])};", escape(text))
