"""Shards become the files a pretraining program opens by itself: plain ids, and where each document ends.

    shard      A A A B B B │ B B C C C ·                       two packs of 6; A and C are web, B is code
    megatron   web_text_document.bin   A A A C C C   .idx 3 3      whole documents again, a pair of files a group
               code_text_document.bin  B B B B B     .idx 5
    datatrove  shard-00000.ds  A A A B B B B B C C C   .ds.index 3 8 11       the order of the packs, padding left out
    parquet    part-00000.parquet  input_ids A A A B B B │ B B C C C   seq_lengths 3 3 │ 2 3       a row a pack

What belongs to a document is known from its pieces, and ids are read and written in blocks.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from prep_lib.errors import BadInput, BadShard
from prep_lib.files import write_whole
from prep_lib.shards import megatron
from prep_lib.shards.bin import id_dtype
from prep_lib.shards.manifest import file_entry
from prep_lib.shards.megatron import INT32
from prep_lib.shards.pieces import Pieces, blocks, joined, largest, pieces_of, plain
from prep_lib.shards.shard import Shard, row_blocks
from prep_lib.shards.trainers import Opened, lists, table_writer


@dataclass(frozen=True)
class Reader:
    """What one program reads.

    Parameters
    ----------
    name : str
    read_from : str
        The release whose readers told the format.
    files : callable
        Writes the files of all shards and returns what `convert.json` says of them.
    texts : callable
        Returns a reading example, and the README's words on the files and their use.
    """

    name: str
    read_from: str
    files: Callable[[Mapping[str, Any], Opened, Path], dict[str, Any]]
    texts: Callable[[Mapping[str, Any]], tuple[str, str]]

    def check(self, shard: Shard, manifest: Mapping[str, Any]) -> None:
        """Refuse what holds nothing, or by its first shard no plain ids with known documents, or too large ones."""
        plain(shard)
        if not sum(entry["tokens"] for entry in manifest["shards"]):
            raise BadInput(f"shards/pretrain: {shard.path.parent} holds no token; nothing to convert")
        most = largest(shard, manifest)
        if self.name != "datatrove" and most > INT32 and manifest["tokenizer"]:
            raise BadInput(f"shards/pretrain: ids go up to {most}; {self.name} files hold at most {INT32}")

    def write(self, manifest: Mapping[str, Any], opened: Opened, staged: Path) -> dict[str, Any]:
        """Write the files of all shards, and return what `convert.json` says of them."""
        told = self.files(manifest, opened, staged)
        tokens, kept = sum(entry["tokens"] for entry in manifest["shards"]), told["totals"]["tokens"]
        if kept != tokens:
            raise BadShard(
                f"shards/pretrain: {kept:,} tokens lie in documents, the manifest says {tokens:,}; see prep verify"
            )
        return {"processor": "pt", "packed": bool(manifest["seq_len"]), **told}

    def beside(self, told: Mapping[str, Any]) -> dict[str, str]:
        """Return the texts that stand beside the data, by file name."""
        example, words = self.texts(told)
        totals, head = told["totals"], ""
        if self.name == "parquet":
            # Says which files are the data set to whoever opens the folder by its name.
            head = "---\nconfigs:\n- config_name: default\n  data_files: part-*.parquet\n---\n"
        readme = (
            f"{head}# Shards as {self.name} reads them\n\nMade with `prep convert --to {self.name}`; format as in "
            f"{self.read_from}. {totals['documents']:,} documents, {totals['tokens']:,} tokens. `convert.json` holds "
            f"the numbers of every file.\n\n{words}\n\n## Read\n\n```python\n{example}```\n"
        )
        return {"README.md": readme, "read_me.py": example}


# ── datatrove: the shard itself, and where its documents end ─────────────────────────────────────────────────────────


def _datatrove(manifest: Mapping[str, Any], opened: Opened, staged: Path) -> dict[str, Any]:
    """Write a file a shard; where the shard holds nothing else, it is the same bytes on the disk."""
    files: list[dict[str, Any]] = []
    for at, entry in enumerate(manifest["shards"]):
        shard, path = opened(entry), staged / f"shard-{at:05d}.ds"
        pieces, limit = pieces_of(shard), largest(shard, manifest)
        dtype = id_dtype(limit)
        _payload(shard, pieces, dtype, limit, path)
        follows = joined(pieces)
        ends = np.cumsum(pieces.length)[np.append(~follows[1:], True)[: len(follows)]]
        name = (manifest["tokenizer"] or {}).get("name") or "Unknown Tokenizer"
        tokens = int(pieces.length.sum())
        for ending, content in (
            (".index", ends.astype("<u8").tobytes()),
            (".metadata", f"{name}|{dtype.itemsize}\n{tokens}\n{metric(tokens)}".encode("utf-8", "backslashreplace")),
        ):
            with write_whole(f"{path}{ending}") as file:
                file.write(content)
        told = {
            "parent": entry["file"], "parent_sha256": entry["sha256"], "documents": len(ends), "tokens": tokens,
            "token_size": dtype.itemsize, "continued": int(np.count_nonzero((pieces.start > 0) & ~follows)),
        }  # fmt: skip
        files += [file_entry(path, **told), file_entry(Path(f"{path}.index")), file_entry(Path(f"{path}.metadata"))]
    totals = {name: sum(file.get(name, 0) for file in files) for name in ("documents", "tokens", "continued")}
    return {"totals": totals, "files": files}


def _payload(shard: Shard, pieces: Pieces, dtype: np.dtype[Any], limit: int, path: Path) -> None:
    values = shard.columns[plain(shard)]
    if shard.path.suffix == ".bin" and values.dtype == dtype and values.size == pieces.length.sum():
        for _ in blocks(shard, pieces, limit):
            pass
        with contextlib.suppress(OSError):  # another disk, or a file system without links: then it is a copy
            os.link(shard.path, path)
            return
    with write_whole(path) as file:
        for _, _, ids in blocks(shard, pieces, limit):
            file.write(np.ascontiguousarray(ids, dtype).data)


def metric(tokens: int) -> str:
    """Return a number of tokens as datatrove's metadata spell it: three digits and T.

    Examples
    --------
    >>> metric(310), metric(1234), metric(25_600_000)
    ('310 T', '1.23 kT', '25.6 MT')
    """
    power = min((len(str(tokens)) - 1) // 3, 8)
    digits = 2 - (len(str(tokens)) - 1) % 3
    return f"{tokens / 1000**power:.{digits}f} {['', 'k', 'M', 'G', 'T', 'P', 'E', 'Z', 'Y'][power]}T"


# ── Parquet: a row a pack ────────────────────────────────────────────────────────────────────────────────────────────


def _parquet(manifest: Mapping[str, Any], opened: Opened, staged: Path) -> dict[str, Any]:
    """Write a file a shard."""
    files: list[dict[str, Any]] = []
    for at, entry in enumerate(manifest["shards"]):
        shard, path = opened(entry), staged / f"part-{at:05d}.parquet"
        pieces, limit = pieces_of(shard), min(INT32, largest(shard, manifest))
        rows = 0
        with write_whole(path) as file, table_writer(file, _SCHEMA) as write:
            for table in _tables(shard, pieces, limit):
                write(table)
                rows += len(table)
        told = {
            "parent": entry["file"], "parent_sha256": entry["sha256"], "rows": rows,
            "documents": int(np.count_nonzero(~joined(pieces))), "tokens": int(pieces.length.sum()),
        }  # fmt: skip
        files.append(file_entry(path, **told))
    return {
        "totals": {name: sum(file[name] for file in files) for name in ("rows", "documents", "tokens")},
        "files": files,
    }


_SCHEMA = pa.schema(
    {"input_ids": pa.list_(pa.int32()), "seq_lengths": pa.list_(pa.int32()), "source": pa.list_(pa.string())}
)


def _tables(shard: Shard, pieces: Pieces, limit: int) -> Iterator[pa.Table]:
    """Yield whole rows, about 4 million ids at a time."""
    names = [source for source, _ in shard.groups] or shard.sources
    which = np.asarray(shard.document_columns["group" if shard.groups else "source"])[pieces.document]
    count = np.bincount(pieces.row, minlength=len(shard))
    filled = np.bincount(pieces.row, pieces.length, len(shard)).astype(np.int64)
    bounds = np.concatenate(([0], np.cumsum(count)))
    for first, last in row_blocks(np.concatenate(([0], np.cumsum(filled)))):
        mine = slice(int(bounds[first]), int(bounds[last]))
        ids = [ids for _, _, ids in blocks(shard, pieces.part(mine.start, mine.stop), limit)]
        source = pa.array(names, pa.string()).take(pa.array(which[mine]))
        ends = pa.array(np.concatenate(([0], np.cumsum(count[first:last]))), pa.int32())
        columns = {
            "input_ids": lists(np.concatenate(ids).astype(np.int32), filled[first:last]),
            "seq_lengths": lists(pieces.length[mine].astype(np.int32), count[first:last]),
            "source": pa.ListArray.from_arrays(ends, source),
        }
        yield pa.table(columns, _SCHEMA)


# ── what a reader is told ────────────────────────────────────────────────────────────────────────────────────────────


def _datatrove_texts(told: Mapping[str, Any]) -> tuple[str, str]:
    example = '''"""Reads this folder; needs only `pip install numpy`."""
import json
from pathlib import Path

import numpy as np

here = Path(__file__).resolve().parent
for file in json.loads((here / "convert.json").read_text("utf-8"))["files"][::3]:
    ids = np.memmap(here / file["file"], f"<u{file['token_size']}", "r")
    ends = np.fromfile(here / f"{file['file']}.index", "<u8")
    print(file["file"], len(ends), "documents,", len(ids), "tokens; the first:", ids[: ends[0]][:8].tolist(), "…")
'''
    size, width = told["files"][0]["token_size"], told["seq_len"]
    window = (
        f"Where packs are full, windows of seq_len {width - 1:,} are the packs themselves, because a window holds "
        f"one token more. "
        if width
        else ""
    )
    words = (
        "A `.ds` is the ids of a shard in order, padding left out; `.ds.index` is where documents end, in tokens. "
        f"{told['totals']['continued']:,} pieces go on with a document whose beginning lies elsewhere and count as "
        "documents. Where a shard of bin files holds nothing else, a `.ds` is the same file on the disk under a second "
        f"name.\n\n## Train\n\n```python\nDatatroveFolderDataset('THIS_FOLDER', seq_len, '*.ds', token_size={size}, "
        f"return_positions=True)\n```\n\n{window}What is left of a file at its end is not read. Positions come from "
        "`.ds.index`, so an EOS inside a text begins no document. nanotron reads such folders with a datatrove of its "
        "age: it calls the reader by argument names that 0.10.1 does not have. OLMo-core opens a `.ds` as a raw array "
        "of its type."
    )
    return example, words


def _parquet_texts(told: Mapping[str, Any]) -> tuple[str, str]:
    example = '''"""Reads this folder; needs only `pip install datasets`."""
from pathlib import Path

from datasets import load_dataset

here = Path(__file__).resolve().parent
data = load_dataset("parquet", data_files=str(here / "part-*.parquet"), split="train")
row = data[0]
print(len(data), "rows; the first:", len(row["input_ids"]), "tokens of", len(row["seq_lengths"]), "documents")
positions = [place for length in row["seq_lengths"] for place in range(length)]
'''
    words = (
        "| column | holds |\n|---|---|\n| `input_ids` | token ids of a row, padding cut off |\n"
        "| `seq_lengths` | tokens of each document, or piece of one, in the row |\n"
        "| `source` | the source of each of them |\n\n## Train\n\nPositions, `cu_seqlens` and block masks follow from "
        "`seq_lengths`. TRL's `SFTTrainer` takes the rows with `padding_free=True, max_length=None, packing=False`; "
        "every token is a target."
    )
    return example, words


READERS = {
    "megatron": Reader("megatron", "megatron-core 0.16.1", megatron.files, megatron.texts),
    "datatrove": Reader("datatrove", "datatrove 0.10.1", _datatrove, _datatrove_texts),
    "parquet": Reader("parquet", "Parquet 2.6, zstd", _parquet, _parquet_texts),
}
