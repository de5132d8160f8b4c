"""Shards become the rows a post-training program opens by itself: ids, labels and where each document ends.

    shard         5 6 7 8 9 ·               mask 0 1 1 1 1 ·         two documents in a pack of 6
    trl           5 6 7 8 9                 -100 6 7 -100 9          seq_lengths 3 2              part-00000.parquet
    axolotl       5 6 7 │ 8 9               -100 6 7 │ -100 9        a row a document             part-00000.parquet
    llamafactory  5 6 7 8 9 · · ·           -100 6 7 -100 9 -100 …   attention_mask 1 1 1 2 2 0 0 0
                                                                     position_ids   0 1 2 0 1 0 1 2    data-…arrow

Labels are aligned with the ids, -100 where a token is no target; the trainer shifts. The first token of every document
is no target, because only the document before it could predict it; how many that takes is counted. Padding is known by
length, never by id.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from prep_lib.errors import BadInput, BadParameter, BadShard
from prep_lib.files import digest, write_whole
from prep_lib.shards.shard import Shard, row_blocks

#: What a trainer's loss leaves out.
IGNORED = -100

#: LLaMA-Factory pads a batch to a multiple of this and pads no position ids, so rows must already have such a length.
MULTIPLE = 8

#: The arrays of the processors that can be converted.
LAYOUTS = {
    "sft": {"sequence", "loss_mask"},
    "dpo": {"chosen", "chosen_mask", "rejected", "rejected_mask", "prompt_length"},
}

_IDS, _FLAGS = pa.list_(pa.int32()), pa.list_(pa.int8())


class Batch(NamedTuple):
    """Some rows of an sft shard, padding cut off.

    Parameters
    ----------
    ids : (tokens,) int32
        Rows behind each other.
    mask : (tokens,) bool
        True where a token is a target.
    lengths : (pieces,) int64, tokens
        Of the documents, or parts of documents, in order.
    rows : (rows,) int64, pieces in each row
    packed : bool
    width : int, tokens
        Of a stored row; 0 where rows are not packed.
    """

    ids: np.ndarray
    mask: np.ndarray
    lengths: np.ndarray
    rows: np.ndarray
    packed: bool
    width: int


class Pairs(NamedTuple):
    """Some rows of a dpo shard.

    Parameters
    ----------
    sides : dict of str to (ids, mask, offsets)
        Of "chosen" and "rejected": (tokens,) int32, (tokens,) bool, (rows + 1,) int64. Both begin with the prompt.
    prompt : (rows,) int64, tokens
    file : str
    first : int, row of the shard
    """

    sides: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
    prompt: np.ndarray
    file: str
    first: int


@dataclass
class Counts:
    """What went through a conversion.

    Parameters
    ----------
    rows : int, written
    documents : int, pieces of them, or pairs
    tokens : int, of the shard, padding apart
    targets : int, written as such
    masked_first : int, targets taken back because they begin a document
    no_target : int, rows written without any target: a trainer leaves them out, or learns nothing from them
    behind_target : int, tokens of a pair left out because they stand behind its last target
    longest : int, tokens, of any row written, padding apart
    """

    rows: int = 0
    documents: int = 0
    tokens: int = 0
    targets: int = 0
    masked_first: int = 0
    no_target: int = 0
    behind_target: int = 0
    longest: int = 0

    def add(self, **other: Any) -> None:
        """Add numbers by name."""
        for name, number in other.items():
            setattr(self, name, getattr(self, name) + int(number))


Columns = dict[str, pa.Array]

#: Opens the shard of a manifest's entry, its bytes proven.
Opened = Callable[[Mapping[str, Any]], Shard]


@dataclass(frozen=True)
class Trainer:
    """What one trainer reads.

    Parameters
    ----------
    name : str
    read_from : str
        The release whose code and collators told the fields.
    sft : callable
        `Batch` and its labels become columns.
    dpo : callable or None
        `Pairs` become columns. None: it takes no tokenised pairs.
    columns : mapping of str to mapping of str to str
        For "packed", "ragged" and "dpo" rows: what each column holds.
    use : mapping of str to str
        For the same: how the trainer is told, in Markdown.
    splits : bool
        Whether every document of a pack is a row of its own.
    arrow : bool
        Whether it opens a folder of Arrow files instead of Parquet.
    refuses : str
        What it takes instead of tokenised pairs.
    """

    name: str
    read_from: str
    sft: Callable[[Batch, np.ndarray], Columns]
    dpo: Callable[[Pairs, Counts], Columns] | None
    columns: Mapping[str, Mapping[str, str]]
    use: Mapping[str, str]
    splits: bool = False
    arrow: bool = False
    refuses: str = ""

    def check(self, shard: Shard, manifest: Mapping[str, Any]) -> None:
        """Refuse, by the first shard, what this trainer takes no rows of."""
        if kind_of(shard) == "dpo" and self.dpo is None:
            raise BadParameter(
                f"shards/trainers: {self.read_from} takes no tokenised pairs, only {self.refuses}; "
                "give it the records, or convert --to trl or llamafactory"
            )

    def write(self, manifest: Mapping[str, Any], opened: Opened, staged: Path) -> dict[str, Any]:
        """Write the files of all shards, and return what `convert.json` says of them."""
        return _write(self, manifest, opened, staged)

    def beside(self, told: Mapping[str, Any]) -> dict[str, str]:
        """Return the texts that stand beside the data, by file name."""
        return _beside(self, told)


# ── columns ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def lists(values: np.ndarray, lengths: np.ndarray, kind: pa.DataType = _IDS) -> pa.Array:
    """Cut flat values into a list a row."""
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(values, kind.value_type), type=kind)


def _ones(lengths: np.ndarray) -> pa.Array:
    return lists(np.ones(int(lengths.sum()), np.int8), lengths, _FLAGS)


def counted_from_zero(lengths: np.ndarray) -> np.ndarray:
    """Return positions that begin anew in every piece, (tokens,) int64.

    Examples
    --------
    >>> counted_from_zero(np.array([3, 2])).tolist()
    [0, 1, 2, 0, 1]
    """
    begins = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) - np.repeat(begins, lengths)


def labels_of(batch: Batch) -> tuple[np.ndarray, int]:
    """Return the labels of a batch, (tokens,) int32, and how many targets began a document and are none now.

    Examples
    --------
    >>> ids, mask = np.array([5, 6, 7, 8, 9], np.int32), np.array([0, 1, 1, 1, 1], bool)
    >>> labels_of(Batch(ids, mask, np.array([3, 2]), np.array([2]), True, 6))
    (array([-100,    6,    7, -100,    9], dtype=int32), 1)
    """
    labels = np.where(batch.mask, batch.ids, np.int32(IGNORED))
    firsts = np.cumsum(batch.lengths) - batch.lengths
    labels[firsts] = IGNORED
    return labels, int(np.count_nonzero(batch.mask[firsts]))


def _sums(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Sum values in groups that follow each other, (groups,) int64."""
    ends = np.cumsum(groups)
    before = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))
    return before[ends] - before[ends - groups]


def _trl_sft(batch: Batch, labels: np.ndarray) -> Columns:
    lengths = _sums(batch.lengths, batch.rows)
    columns = {"input_ids": lists(batch.ids, lengths), "labels": lists(labels, lengths)}
    return columns | ({"seq_lengths": lists(batch.lengths, batch.rows)} if batch.packed else {})


def _axolotl_sft(batch: Batch, labels: np.ndarray) -> Columns:
    """Make every document a row: axolotl packs by itself, and would take a pack for one document."""
    lengths = batch.lengths
    return {
        "input_ids": lists(batch.ids, lengths),
        "attention_mask": _ones(lengths),
        "labels": lists(labels, lengths),
    }


def _llamafactory_sft(batch: Batch, labels: np.ndarray) -> Columns:
    lengths = _sums(batch.lengths, batch.rows)
    if not batch.packed:
        return {
            "input_ids": lists(batch.ids, lengths), "attention_mask": _ones(lengths), "labels": lists(labels, lengths)
        }  # fmt: skip
    width = -(-batch.width // MULTIPLE) * MULTIPLE
    number = 1 + counted_from_zero(batch.rows)
    inside = np.arange(width) < lengths[:, None]

    def filled(values: np.ndarray, padding: np.ndarray | int) -> pa.Array:
        wide = np.empty(inside.shape, np.int32)
        wide[...] = padding
        wide[inside] = values
        return lists(wide.reshape(-1), np.full(len(wide), width))

    return {
        "input_ids": filled(batch.ids, 0),
        "attention_mask": filled(np.repeat(number, batch.lengths), 0),
        "position_ids": filled(counted_from_zero(batch.lengths), np.arange(width) - lengths[:, None]),
        "labels": filled(labels, IGNORED),
    }


def _trl_dpo(pairs: Pairs, counts: Counts) -> Columns:
    columns: Columns = {}
    for side, (ids, mask, offsets) in pairs.sides.items():
        prompt, answer, behind = _cut(pairs, mask, offsets)
        columns.setdefault("prompt_ids", lists(ids[prompt], pairs.prompt))
        columns[f"{side}_ids"] = lists(ids[answer], _sums(answer, np.diff(offsets)))
        counts.add(targets=np.count_nonzero(answer), behind_target=behind)
    return columns


def _cut(pairs: Pairs, mask: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Return which tokens are prompt and which answer, (tokens,) bool, and how many stand behind the last target.

    TRL trains every token of an answer, so an answer must be one run of targets.
    """
    lengths = np.diff(offsets)
    place, prompt = counted_from_zero(lengths), np.repeat(pairs.prompt, lengths)
    last = np.maximum.reduceat(np.where(mask, place, -1), offsets[:-1])
    answer = (place >= prompt) & (place <= np.repeat(last, lengths))
    if (wrong := answer != mask).any():
        row = pairs.first + int(np.searchsorted(offsets, np.argmax(wrong), side="right")) - 1
        raise BadInput(
            f"shards/trainers: {pairs.file}: row {row} has tokens that are no targets among its targets; "
            "TRL trains every token of an answer: convert it --to llamafactory"
        )
    return place < prompt, answer, int(np.count_nonzero((place >= prompt) & ~answer))


def _llamafactory_dpo(pairs: Pairs, counts: Counts) -> Columns:
    columns: Columns = {}
    for side, (ids, mask, offsets) in pairs.sides.items():
        lengths, labels = np.diff(offsets), np.where(mask, ids, np.int32(IGNORED))
        columns |= {
            f"{side}_input_ids": lists(ids, lengths),
            f"{side}_attention_mask": _ones(lengths),
            f"{side}_labels": lists(labels, lengths),
        }
        counts.add(targets=np.count_nonzero(mask))
    # Its collator asks every pair for pictures, films and sounds.
    return columns | {name: pa.nulls(len(pairs.prompt)) for name in ("images", "videos", "audios")}


# ── trainers ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_INPUT = "token ids"
_LABELS = "the id where a token is a target, -100 elsewhere; aligned with the ids, the trainer shifts"

TRAINERS = {
    "trl": Trainer(
        "trl", "trl 1.16.0", _trl_sft, _trl_dpo,
        columns={
            "packed": {
                "input_ids": _INPUT + " of a pack, padding cut off", "labels": _LABELS,
                "seq_lengths": "tokens of each document in the pack",
            },
            "ragged": {"input_ids": _INPUT, "labels": _LABELS},
            "dpo": {
                "prompt_ids": _INPUT + " of the shared prompt", "chosen_ids": "of the answer, up to its last target",
                "rejected_ids": "the same",
            },
        },
        use={
            "packed": "`SFTTrainer(args=SFTConfig(padding_free=True, max_length=None, packing=False), "
            "train_dataset=data, …)`. Without `padding_free` the documents of a pack would see each other. Use an "
            "attention that reads position ids, such as flash attention.",
            "ragged": "`SFTTrainer(args=SFTConfig(max_length=None), train_dataset=data, …)`; it takes rows with "
            "`input_ids` and `labels` as they are, and cuts those above `max_length`. `packing=True` is possible: a "
            "row is a document.",
            "dpo": "`DPOTrainer` tokenises every data set again, so it needs to be told that this one is ready:\n\n"
            "```python\nclass Ready(DPOTrainer):\n    def _prepare_dataset(self, dataset, *others):\n"
            "        return dataset\n```\n\n`Ready(args=DPOConfig(max_length=None), train_dataset=data, …)` then reads "
            "these columns; answers above a `max_length` would be cut.",
        },
    ),
    "axolotl": Trainer(
        "axolotl", "axolotl 0.19.0", _axolotl_sft, None,
        columns={
            name: {"input_ids": _INPUT + " of a document", "attention_mask": "ones", "labels": _LABELS}
            for name in ("packed", "ragged")
        },
        use=dict.fromkeys(
            ("packed", "ragged"),
            "```yaml\ndatasets:\n  - path: THIS FOLDER\n    split: train\n    type:\nsample_packing: true\n```\n\n"
            "An empty `type` means: tokenised already. Rows longer than `sequence_len`, of one token, or without a "
            "target are left out. A row is a document; with `sample_packing` axolotl packs the rows and makes position "
            "ids and the numbers 1, 2, 3 … of `attention_mask` itself. It remembers what it prepared by the path "
            "alone: after a new conversion remove its `dataset_prepared_path`.",
        ),
        splits=True,
        refuses="texts or messages with prompt, chosen and rejected",
    ),
    "llamafactory": Trainer(
        "llamafactory", "llamafactory 0.9.5", _llamafactory_sft, _llamafactory_dpo,
        columns={
            "packed": {
                "input_ids": _INPUT + " of a pack, filled to a multiple of 8 with 0",
                "attention_mask": "1, 2, 3 … for the documents of the pack, 0 for padding",
                "position_ids": "counted from 0 in each document, and in the padding", "labels": _LABELS,
            },
            "ragged": {"input_ids": _INPUT, "attention_mask": "ones", "labels": _LABELS},
            "dpo": {
                "chosen_input_ids": _INPUT + " of prompt and answer", "chosen_attention_mask": "ones",
                "chosen_labels": _LABELS, "rejected_…": "the same three", "images, videos, audios": "null",
            },
        },
        use={
            "packed": "```yaml\nstage: sft\ntokenized_path: THIS FOLDER\nneat_packing: true\n```\n\nWithout "
            "`neat_packing` the documents of a pack would see each other. For models of text; those with rotary "
            "positions of several dimensions (Qwen-VL) need packs of the trainer's own.",
            "ragged": "```yaml\nstage: sft\ntokenized_path: THIS FOLDER\n```",
            "dpo": "```yaml\nstage: dpo\ntokenized_path: THIS FOLDER\n```",
        },
        arrow=True,
    ),
}  # fmt: skip


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def kind_of(shard: Shard) -> str:
    """Return which layout a shard has."""
    for name, keys in LAYOUTS.items():
        if set(shard.keys) == keys and (
            set(shard.offsets) >= keys - {"prompt_length"} or (shard.packed and name == "sft")
        ):
            return name
    known = "; ".join(f"{name} ({', '.join(sorted(keys))})" for name, keys in LAYOUTS.items())
    raise BadInput(
        f"shards/trainers: {shard.path} holds {', '.join(shard.keys)}; trainers' files are made of {known}; "
        "plain ids are for --to megatron, datatrove or parquet"
    )


def _int32(shard: Shard, key: str, span: slice) -> np.ndarray:
    values = shard.columns[key]
    if not np.can_cast(values.dtype, np.int32):
        raise BadShard(f"shards/trainers: {shard.path}: {key} is {values.dtype}; trainers read ids of int32")
    return np.asarray(values[span], np.int32)


def batches(shard: Shard) -> Iterator[Batch]:
    """Yield the rows of an sft shard, about 4 million tokens at a time."""
    if shard.packed:
        yield from _packs(shard)
        return
    offsets = shard.offsets["sequence"]
    if not np.array_equal(offsets, shard.offsets["loss_mask"]) or (np.diff(offsets) < 1).any():
        raise BadShard(f"shards/trainers: {shard.path}: rows without a token, or ids and mask of other lengths")
    for first, last in row_blocks(offsets):
        span = slice(int(offsets[first]), int(offsets[last]))
        lengths = np.diff(offsets[first : last + 1]).astype(np.int64)
        ids, mask = _int32(shard, "sequence", span), shard.columns["loss_mask"][span].astype(bool)
        yield Batch(ids, mask, lengths, np.ones(len(lengths), np.int64), False, 0)


def _packs(shard: Shard) -> Iterator[Batch]:
    row, length = shard.segment_columns["row"], shard.segment_columns["length"].astype(np.int64)
    rows, width = shard.columns["sequence"].shape
    pieces = np.bincount(row, minlength=rows)
    bounds = np.concatenate(([0], np.cumsum(pieces)))
    fits = len(pieces) == rows and (row[1:] >= row[:-1]).all() and (length >= 1).all() and (pieces >= 1).all()
    filled = _sums(length, pieces) if fits else np.zeros(0, np.int64)
    if not fits or (filled > width).any() or shard.columns["loss_mask"].shape != (rows, width):
        raise BadShard(f"shards/trainers: {shard.path}: its segments do not fill its rows; see prep verify")
    for first, last in row_blocks(np.arange(rows + 1) * width):
        inside = np.arange(width) < filled[first:last, None]
        ids = _int32(shard, "sequence", slice(first, last))[inside]
        mask = shard.columns["loss_mask"][first:last].astype(bool)[inside]
        yield Batch(ids, mask, length[bounds[first] : bounds[last]], pieces[first:last], True, width)


def pairs(shard: Shard) -> Iterator[Pairs]:
    """Yield the rows of a dpo shard, about 4 million tokens at a time.

    Raises
    ------
    BadShard
        If the two answers of a row do not begin with one prompt, or a prompt is trained.
    """
    prompt = shard.columns["prompt_length"].reshape(-1).astype(np.int64)
    offsets = {name: shard.offsets[name].astype(np.int64) for name in ("chosen", "rejected")}
    fits = all(
        np.array_equal(offsets[name], shard.offsets[f"{name}_mask"]) and (prompt < np.diff(offsets[name])).all()
        for name in offsets
    )
    if not fits or len(prompt) != len(shard) or (prompt < 1).any():
        raise BadShard(f"shards/trainers: {shard.path}: prompts, ids and masks do not fit each other; see prep verify")
    for first, last in row_blocks(sum(offsets.values(), np.zeros(1, np.int64))):
        sides = {}
        for name, ends in offsets.items():
            span = slice(int(ends[first]), int(ends[last]))
            mask = shard.columns[f"{name}_mask"][span].astype(bool)
            sides[name] = (_int32(shard, name, span), mask, ends[first : last + 1] - ends[first])
        block = Pairs(sides, prompt[first:last], shard.path.name, first)
        _check_pairs(block)
        yield block


def _check_pairs(block: Pairs) -> None:
    prompts, where = [], f"shards/trainers: {block.file}, from row {block.first} on"
    for ids, mask, offsets in block.sides.values():
        lengths = np.diff(offsets)
        inside = counted_from_zero(lengths) < np.repeat(block.prompt, lengths)
        prompts.append(ids[inside])
        if mask[inside].any() or not np.logical_or.reduceat(mask, offsets[:-1]).all():
            raise BadShard(f"{where}: a prompt is trained, or nothing of an answer; see prep verify")
    if not np.array_equal(prompts[0], prompts[1]):
        raise BadShard(f"{where}: the answers do not share their prompt; build it again")


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _tables(trainer: Trainer, kind: str, shard: Shard, counts: Counts) -> Iterator[pa.Table]:
    """Yield the columns of one shard block by block, counting what they hold."""
    if kind == "sft":
        for batch in batches(shard):
            labels, firsts = labels_of(batch)
            table = pa.table(trainer.sft(batch, labels))
            column = table.column("labels").chunk(0)
            trained = np.logical_or.reduceat(column.values.to_numpy() != IGNORED, column.offsets.to_numpy()[:-1])
            counts.add(rows=len(table), documents=len(batch.lengths), tokens=len(batch.ids))
            counts.add(targets=np.count_nonzero(labels != IGNORED), masked_first=firsts)
            counts.add(no_target=len(table) - np.count_nonzero(trained))
            row = batch.lengths if trainer.splits else _sums(batch.lengths, batch.rows)
            counts.longest = max(counts.longest, int(row.max()))
            yield table
        return
    assert trainer.dpo is not None
    for block in pairs(shard):
        table = pa.table(trainer.dpo(block, counts))
        tokens = sum(len(ids) for ids, _, _ in block.sides.values())
        counts.add(rows=len(table), documents=len(table), tokens=tokens)
        counts.longest = max(counts.longest, *(int(np.diff(ends).max()) for _, _, ends in block.sides.values()))
        yield table


@contextlib.contextmanager
def table_writer(file: IO[bytes], schema: pa.Schema, arrow: bool = False) -> Iterator[Callable[[pa.Table], None]]:
    """Open a Parquet file, or an Arrow stream, that takes tables; each becomes a row group."""
    if arrow:
        with pa.ipc.new_stream(file, schema) as stream:
            yield stream.write_table
        return
    with pq.ParquetWriter(file, schema, compression="zstd", write_statistics=False) as writer:
        yield lambda table: writer.write_table(table, row_group_size=max(1, len(table)))


def _write_part(trainer: Trainer, kind: str, shard: Shard, entry: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Write one shard's rows, and return what `convert.json` says of them."""
    counts = Counts()
    tables = _tables(trainer, kind, shard, counts)
    with write_whole(path) as file:
        first = next(tables, None)
        if first is None:
            raise BadShard(f"shards/trainers: {shard.path} holds no row; build it again")
        with table_writer(file, first.schema, trainer.arrow) as write:
            write(first)
            for table in tables:
                write(table)
    trained = sum(int(np.count_nonzero(shard.columns[key])) for key in shard.keys if key.endswith("mask"))
    found = (counts.tokens, counts.targets + counts.masked_first)
    if found != (entry["tokens"], trained):
        raise BadShard(
            f"shards/trainers: {shard.path}: {found[0]:,} tokens and {found[1]:,} targets lie inside its documents, "
            f"the manifest says {entry['tokens']:,} and the mask {trained:,}; see prep verify"
        )
    told = {"file": path.name, "parent": entry["file"], "parent_sha256": entry["sha256"], **vars(counts)}
    return {**told, "bytes": path.stat().st_size, "sha256": digest(path)}


def _write(trainer: Trainer, manifest: Mapping[str, Any], opened: Opened, staged: Path) -> dict[str, Any]:
    entries, files, packed, kind = manifest["shards"], list[dict[str, Any]](), False, ""
    for number, entry in enumerate(entries):
        shard = opened(entry)
        if number and (kind_of(shard), shard.packed) != (kind, packed):
            raise BadShard(f"shards/trainers: {shard.path} is laid out otherwise than the first shard; build it again")
        packed, kind = shard.packed, kind_of(shard)
        name = f"data-{number:05d}-of-{len(entries):05d}.arrow" if trainer.arrow else f"part-{number:05d}.parquet"
        files.append(_write_part(trainer, kind, shard, entry, staged / name))
    totals = {name: (max if name == "longest" else sum)(told[name] for told in files) for name in vars(Counts())}
    return {"processor": kind, "packed": packed, "totals": totals, "files": files}


def _beside(trainer: Trainer, told: Mapping[str, Any]) -> dict[str, str]:
    kind = told["processor"]
    rows = "dpo" if kind == "dpo" else "packed" if told["packed"] else "ragged"
    example = _example(trainer, rows)
    beside = {"README.md": _readme(trainer, kind, rows, told, example), "read_me.py": example}
    if trainer.arrow:
        # The names are those of `datasets.load_from_disk`; an empty info lets it take the types from the files.
        state: dict[str, Any] = {
            "_data_files": [{"filename": one["file"]} for one in told["files"]],
            "_fingerprint": _fingerprint(told["files"]), "_format_columns": None, "_format_kwargs": {},
            "_format_type": None, "_output_all_columns": False, "_split": "train",
        }  # fmt: skip
        beside |= {"dataset_info.json": "{}\n", "state.json": json.dumps(state, indent=1) + "\n"}
    return beside


_SPLIT = 'sum(x != -100 for x in row["labels"]), "targets")'
_ROW = 'print(len(data), "rows; the first:", len(row["input_ids"]), "tokens,", ' + _SPLIT
#: The last lines of a reading example, by trainer and rows.
_SHOWN = {
    "trl packed": (_ROW, 'print("documents of", row["seq_lengths"], "tokens")'),
    "llamafactory packed": (
        _ROW, 'print(max(row["attention_mask"]), "documents,", row["attention_mask"].count(0), "tokens of padding")'
    ),
    "trl dpo": (
        'for side in ("chosen", "rejected"):', '    prompt, answer = row["prompt_ids"], row[f"{side}_ids"]',
        '    print(len(data), "rows;", side, len(prompt) + len(answer), "tokens,", len(answer), "targets")',
    ),
    "llamafactory dpo": (
        'for side in ("chosen", "rejected"):', '    ids, labels = row[f"{side}_input_ids"], row[f"{side}_labels"]',
        '    print(len(data), "rows;", side, len(ids), "tokens,", sum(x != -100 for x in labels), "targets")',
    ),
}  # fmt: skip


def _fingerprint(files: Iterable[Mapping[str, Any]]) -> str:
    """Return what the caches of `datasets` are known by: other content, other caches."""
    return hashlib.sha256("".join(one["sha256"] for one in files).encode()).hexdigest()[:16]


def _example(trainer: Trainer, rows: str) -> str:
    """Return a program of ten lines that reads the folder without this workbench."""
    name, opened = "load_dataset", 'load_dataset("parquet", data_files=str(here / "part-*.parquet"), split="train")'
    if trainer.arrow:
        name, opened = "load_from_disk", "load_from_disk(str(here))"
    lines = [
        '"""Reads this folder; needs only `pip install datasets`."""', "from pathlib import Path", "",
        f"from datasets import {name}", "", "here = Path(__file__).resolve().parent", f"data = {opened}",
        "row = data[0]", *_SHOWN.get(f"{trainer.name} {rows}", (_ROW,)),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _readme(trainer: Trainer, kind: str, rows: str, told: Mapping[str, Any], example: str) -> str:
    totals, head = told["totals"], ""
    if not trainer.arrow:
        # Says which files are the data set to whoever opens the folder by its name.
        head = "---\nconfigs:\n- config_name: default\n  data_files: part-*.parquet\n---\n"
    table = "".join(f"| `{name}` | {text} |\n" for name, text in trainer.columns[rows].items())
    shape = "pairs" if kind == "dpo" else "packs" if rows == "packed" else "rows"
    return (
        f"{head}# {kind} shards as {trainer.name} reads them\n\n"
        f"Made of {shape} with `prep convert --to {trainer.name}`; columns as in {trainer.read_from}. "
        f"{totals['rows']:,} rows, {totals['tokens']:,} tokens, {totals['targets']:,} targets"
        f" ({totals['masked_first']:,} more begin a document and are no targets: nothing inside it predicts them; "
        f"{totals['behind_target']:,} tokens behind the last target of an answer are left out; "
        f"{totals['no_target']:,} rows have no target). The longest row has {totals['longest']:,} tokens. "
        f"`convert.json` holds the numbers of every file.\n\n"
        f"| column | holds |\n|---|---|\n{table}\n## Train\n\n{trainer.use[rows]}\n\n## Read\n\n"
        f"```python\n{example}```\n"
    )
