"""A span of input becomes ragged rows of ids on disk: the count task.

    .prep/rows/00000.sequence.bin    the ids of all rows behind each other, one file an array
                     offsets.bin     (rows + 1, arrays) int64: where each row begins; one column when rows are packed
                     documents.bin   (rows,) which source and line each row was read from
                     labels.bin      (rows,) group and end of the record's own id, of documents that are asked for them
                     record_ids.bin  those ids behind each other
                     pieces.bin      what best_fit packs, ordered by length
                     counts.npy      how many pieces have each length
                     rejected.jsonl.zst

Small files and row groups share a task, up to the size of a span. Every record ends as a row or as a named loss, and
the ledger of the task balances. All is written as it comes: memory holds a batch, however many rows there are.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from prep_lib import files as fs
from prep_lib import rejected
from prep_lib.chat.process import Processor
from prep_lib.chat.row import Row, fit
from prep_lib.errors import BadParameter, BadRecord
from prep_lib.inputs import Input
from prep_lib.ledger import Ledger
from prep_lib.locks import HIDDEN
from prep_lib.record import Drop
from prep_lib.rejected import EXCERPT, RejectedWriter, valid
from prep_lib.seeds import key as draw
from prep_lib.shards.shard import document_id
from prep_lib.source.hub import parsed
from prep_lib.source.read import rows
from prep_lib.tokens.pack import pieces
from prep_lib.tokens.stream import Cost, Costs, group_of, measure, stem
from prep_lib.verdicts import called

#: Where the ragged rows wait for the plan.
ROWS = f"{HIDDEN}/rows"

#: Bytes of input handed to the processor at once: many records for a tokenizer, little beside a worker's memory.
BATCH = 2**22

#: Rows whose pieces are ordered at once.
BLOCK = 2**20

#: Where a row was read from: which of the inputs, and the number of its line or row.
DOCUMENT = np.dtype([("source", "<i4"), ("line", "<i8")])

#: What a document says of itself: its group, and where its own id ends among all.
LABEL = np.dtype([("group", "<i4"), ("id_end", "<i8")])

#: Different sources and languages a task may meet: more of them are no sources, but titles or addresses.
GROUPS = 1000

#: A piece of a row, as it is stored: where it begins in the row and in the id file.
PIECE = np.dtype([("row", "<i8"), ("start", "<i8"), ("begin", "<i8"), ("length", "<i4")])


@dataclass(frozen=True)
class Documents:
    """How records that are documents say where they belong, and what is stored of them.

    Parameters
    ----------
    source_field : str
        Whose text is the document's source. Empty, or not in the record: the name of its file.
    language_fields : tuple of str
        The first that a record has is its language.
    eos_id : int
        Every document ends in exactly one.
    max_id : int
        The largest id that can occur.
    """

    source_field: str
    language_fields: tuple[str, ...]
    eos_id: int
    max_id: int


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What changes the bytes of a build, besides input, processor and code; the meaning is `build.cache_jsonl`'s."""

    pack_size: int
    packing: str
    tail: str
    pad_value: int
    max_length: int | None
    too_long: str
    shard_size: int | None
    seed: int
    sample: int
    format: str = "h5"
    documents: Documents | None = None

    @property
    def packed(self) -> bool:
        """Whether rows become packs."""
        return self.pack_size > 0

    @property
    def sorted(self) -> bool:
        """Whether packs are planned from lengths, not cut from the stream."""
        return self.packed and self.packing != "concat"

    @property
    def counted(self) -> list[Any]:
        """What changes the files of a count task; the other settings change only what is made of them."""
        ordered = (self.packing, self.pack_size) if self.sorted else None
        asked = self.documents and [self.documents.source_field, list(self.documents.language_fields)]
        return [self.packed, ordered, self.max_length, self.too_long, self.seed, asked]


@dataclass(frozen=True)
class Layout:
    """The arrays of every row.

    Parameters
    ----------
    keys : tuple of str
    ids : tuple of str
        Those that hold token ids.
    dtypes : tuple of str
        One a key, as NumPy spells them.
    """

    keys: tuple[str, ...]
    ids: tuple[str, ...]
    dtypes: tuple[str, ...]

    @classmethod
    def specified(cls, keys: Sequence[str], ids: Sequence[str]) -> Layout:
        """Return what the specification says: bool masks, int32 for everything else; float32 for weights.

        Examples
        --------
        >>> Layout.specified(("sequence", "loss_mask"), ("sequence",)).dtypes
        ('<i4', '|b1')
        """
        kinds = {"mask": "|b1", "weight": "<f4"}
        return cls(tuple(keys), tuple(ids), tuple(kinds.get(key.rpartition("_")[2], "<i4") for key in keys))

    @classmethod
    def of(cls, row: Row) -> Layout:
        """Return the layout of a row."""
        return cls(tuple(row.arrays), tuple(row.ids), tuple(array.dtype.str for array in row.arrays.values()))

    @property
    def masks(self) -> tuple[str, ...]:
        """The keys of masks."""
        return tuple(key for key in self.keys if key.endswith("mask"))

    def dtype(self, key: str) -> np.dtype[Any]:
        """Return the type of an array."""
        return np.dtype(self.dtypes[self.keys.index(key)])

    def mismatch(self, row: Row, packed: bool) -> str:
        """Say what a row has that others do not; empty when it is like them."""
        if row.arrays.keys() != set(self.keys):
            return f"arrays {', '.join(row.arrays)}; other rows have {', '.join(self.keys)}"
        for key, dtype in zip(self.keys, self.dtypes, strict=True):
            if row.arrays[key].ndim != 1 or row.arrays[key].dtype != np.dtype(dtype):
                shape = f"{row.arrays[key].dtype} of {row.arrays[key].ndim} dimensions"
                return f"{key!r} is {shape}; other rows have {np.dtype(dtype)} of 1"
        if packed and len({len(array) for array in row.arrays.values()}) > 1:
            return "arrays that differ in length cannot be packed"
        return ""


@dataclass(frozen=True)
class Counted:
    """What a count task left: how much it is, and its files by name.

    Parameters
    ----------
    folder : path
        Of the build.
    number : int
        Of the task.
    layout : Layout
    packed : bool
    rows, tokens : int
    singles : tuple of str
        Arrays that have one value in every row.
    groups : tuple of (source, language)
        What `labels` refer to.
    """

    folder: Path
    number: int
    layout: Layout
    packed: bool
    rows: int
    tokens: int
    singles: tuple[str, ...] = ()
    groups: tuple[tuple[str, str | None], ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        # Without the copies of this machine.
        return {name: value for name, value in self.__dict__.items() if name in self.__dataclass_fields__}

    @cached_property
    def _files(self) -> dict[str, Path]:
        """The files on this machine that have been asked for, by part: what lies in a store is asked for once."""
        return {}

    def path(self, part: str) -> Path:
        """Return one of the files."""
        return self.folder / ROWS / f"{self.number:05d}.{part}"

    @property
    def offsets(self) -> np.ndarray:
        """(rows + 1, keys) int64, where each row begins in each array; (rows + 1, 1), the same in all, when packed."""
        return self._map("offsets.bin", np.dtype("<i8")).reshape(-1, 1 if self.packed else len(self.layout.keys))

    @property
    def documents(self) -> np.ndarray:
        """(rows,) of DOCUMENT."""
        return self._map("documents.bin", DOCUMENT)

    @property
    def labels(self) -> np.ndarray:
        """(rows,) of LABEL."""
        return self._map("labels.bin", LABEL)

    @property
    def record_ids(self) -> np.ndarray:
        """(bytes,) uint8, the own ids of all records behind each other."""
        return self._map("record_ids.bin", np.dtype(np.uint8))

    @property
    def pieces(self) -> np.ndarray:
        """(pieces,) of PIECE, ordered by length, stable."""
        return self._map("pieces.bin", PIECE)

    @property
    def counts(self) -> np.ndarray:
        """(c,) int64, how many pieces have each length."""
        return fs.load_array(self.path("counts.npy"))

    def array(self, key: str) -> np.ndarray:
        """Return one array of all rows behind each other."""
        return self._map(f"{key}.bin", self.layout.dtype(key))

    def _map(self, part: str, dtype: np.dtype[Any]) -> np.ndarray:
        path = self._files.get(part)
        if path is None or not path.is_file():
            # A copy that was not asked for in a day may be gone.
            path = self._files[part] = fs.local(self.path(part))
        # A plain view: numba knows no memmap, and an empty file cannot be mapped.
        return np.asarray(np.memmap(path, dtype, "r")) if path.stat().st_size else np.zeros(0, dtype)


def outputs(number: int, layout: Layout, settings: Settings) -> tuple[str, ...]:
    """Return the files a count task writes, relative to the build's folder."""
    parts = [*(f"{key}.bin" for key in layout.keys), "offsets.bin", "documents.bin", "rejected.jsonl.zst"]
    parts += ["labels.bin", "record_ids.bin"] if settings.documents else []
    parts += ["pieces.bin", "counts.npy"] if settings.sorted else []
    return tuple(f"{ROWS}/{number:05d}.{part}" for part in parts)


#: A record on its way: where it is from, its number, what it says, and the line it was (a record of Parquet: itself).
_Record = tuple[Input, int, dict[str, Any], "bytes | dict[str, Any]"]


def count(
    number: int,
    inputs: Sequence[Input],
    processor: Processor,
    layout: Layout,
    settings: Settings,
    share: float,
    out: Path,
) -> dict[str, Any]:
    """Turn spans into rows; `share` is the part of their records that a sample takes."""
    foreign = is_foreign(processor)
    with _Tally(number, settings, layout, out) as tally:
        for batch in _batches(_records(inputs, settings.seed, share, tally)):
            verdicts = processor.rows([record for _, _, record, _ in batch])
            if foreign:
                _check_verdicts(processor, len(verdicts), len(batch))
                verdicts = [_alike(verdict, layout, settings.packed) for verdict in verdicts]
            tally.judge(batch, verdicts)
            # The next batch is read while these names still stand.
            batch.clear()
            verdicts.clear()
    return {**tally.result(), "engine": processor.tokenizer.engine_used if processor.tokenizer is not None else ""}


def is_foreign(part: object) -> bool:
    """Say whether an object is of a user's class, of which nothing is known."""
    return not type(part).__module__.startswith("prep_lib.")


def _check_verdicts(processor: Processor, verdicts: int, records: int) -> None:
    if verdicts != records:
        raise BadParameter(
            f"build: {type(processor).__name__} gave {verdicts} verdicts for {records} records; rows() gives one each"
        )


def _alike(verdict: Row | Drop | BadRecord, layout: Layout, packed: bool) -> Row | Drop | BadRecord:
    """Fail a user's row that is not like the others: it takes none of them with it."""
    if isinstance(verdict, Row) and (detail := layout.mismatch(verdict, packed)):
        return BadRecord("other_arrays", detail)
    return verdict


def _records(inputs: Sequence[Input], seed: int, share: float, tally: _Tally) -> Iterator[_Record]:
    limit = int(share * 2**64)
    for one in inputs:
        one.check()
        seen = 0
        for at, found in rows(one.span):
            if one.column and not one.column.takes(at):
                continue
            if share < 1 and draw(seed, "sample", document_id(one.name, at)) >= limit:
                continue
            seen += 1
            record = parsed(found)
            if one.column and (cut := one.column.cut(at)) and not isinstance(record, BadRecord):
                record = {**record, one.column.text: cut.apply(record[one.column.text])}
            if isinstance(record, BadRecord):
                tally.lose("read", one, at, record, None if isinstance(found, BadRecord) else found)
            else:
                # What is no bad record was none before it was parsed.
                yield one, at, record, found  # type: ignore[misc]
        tally.seen[one.name] += seen
        one.check()


def _batches(records: Iterator[_Record]) -> Iterator[list[_Record]]:
    batch, size = [], 0
    for item in records:
        batch.append(item)
        size += 100 + (len(item[3]) if isinstance(item[3], bytes) else _size(item[3]))
        if size > BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _size(raw: dict[str, Any]) -> int:
    return sum(len(value) if isinstance(value, str) else 500 for value in raw.values())


def _runs(batch: Sequence[_Record]) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of neighbours from one input; inputs come one after the other, so most batches are one."""
    if batch[0][0] is batch[-1][0]:
        yield 0, len(batch)
        return
    starts = [0, *(at for at in range(1, len(batch)) if batch[at][0] is not batch[at - 1][0]), len(batch)]
    yield from itertools.pairwise(starts)


class _Tally:
    """Writes the rows of one task, and counts what happened to every record."""

    def __init__(self, number: int, settings: Settings, layout: Layout, out: Path) -> None:
        self.number, self.settings, self.layout, self.out = number, settings, layout, out
        self.literal_specials = self.rows = self.stored = 0
        self.seen: Counter[str] = Counter()  # source
        self.kept: Counter[str] = Counter()
        self.lost: Counter[tuple[str, str, str, str]] = Counter()  # source, stage, flow, reason
        self.tokens: Counter[tuple[str, str, str]] = Counter()  # source, flow, reason
        self.examples: dict[str, list[str]] = {}
        self.ends = np.zeros(1 if settings.packed else len(layout.keys), np.int64)
        self.singles = np.ones(len(layout.keys), bool)
        self.ids = [key in layout.ids for key in layout.keys]
        self.costs, self.groups, self.id_end = Costs(), dict[tuple[str, str | None], int](), 0

    def __enter__(self) -> _Tally:
        self.stack = contextlib.ExitStack()
        parts = [*(f"{key}.bin" for key in self.layout.keys), "offsets.bin", "documents.bin"]
        parts += ["labels.bin", "record_ids.bin"] if self.settings.documents else []
        self.sinks = {part: self.stack.enter_context(self._path(part).open("wb")) for part in parts}
        self.sinks["offsets.bin"].write(self.ends.tobytes())
        self.rejected = self.stack.enter_context(RejectedWriter(self._path(rejected.NAME), self.settings.seed))
        return self

    def __exit__(self, *error: Any) -> None:
        with fs.space_for(self.out):
            self.stack.close()

    def _path(self, part: str) -> Path:
        return self.out / f"{self.number:05d}.{part}"

    def lose(
        self, stage: str, one: Input, at: int, why: Drop | BadRecord, raw: bytes | dict[str, Any] | None = None
    ) -> None:
        """Count a record that goes, and put it aside with its reason."""
        flow, reason = "dropped" if isinstance(why, Drop) else "failed", valid(why.reason)
        self.lost[one.name, stage, flow, reason] += 1
        place = document_id(one.name, at)
        if flow == "failed" and len(self.examples.setdefault(reason, [])) < 3:
            self.examples[reason].append(place)
        self.rejected.add(place, one.name, stage, why, lambda: _excerpt(raw))

    def judge(self, batch: Sequence[_Record], verdicts: Sequence[Row | Drop | BadRecord]) -> None:
        """Keep the rows of a batch, lose the other records."""
        for first, last in _runs(batch):
            self._judge_run(batch[first][0], batch[first:last], verdicts[first:last])

    def _judge_run(self, one: Input, run: Sequence[_Record], verdicts: Sequence[Row | Drop | BadRecord]) -> None:
        """Judge records of one input; what is done for every row is done for all of them at once."""
        rows = [verdict for verdict in verdicts if isinstance(verdict, Row)]
        if len(rows) < len(run):
            for (_, at, _, raw), verdict in zip(run, verdicts, strict=True):
                if not isinstance(verdict, Row):
                    self.lose("process", one, at, verdict, raw)
            run = [item for item, verdict in zip(run, verdicts, strict=True) if isinstance(verdict, Row)]
        for flow in ("content", "control", "eos"):
            self.tokens[one.name, flow, ""] += sum(map(attrgetter(flow), rows))
        self.literal_specials += sum(map(attrgetter("literal_specials"), rows))
        fits = self._fitting(one, run, rows)
        if not all(fits):
            run, rows = list(itertools.compress(run, fits)), list(itertools.compress(rows, fits))
        if rows:
            self._write(one, [at for _, at, _, _ in run], rows)
            if self.settings.documents:
                self._label(self.settings.documents, one, [record for _, _, record, _ in run], rows)

    def _label(self, asked: Documents, one: Input, records: Sequence[dict[str, Any]], rows: Sequence[Row]) -> None:
        """Write what documents say of themselves, and sum what they cost."""
        first = one.column.original(one.name) if one.column else one.name
        labels, name = np.empty(len(rows), LABEL), stem(first)
        fields = (asked.source_field, asked.language_fields)
        groups = [group_of(record, name, *fields) for record in records]
        labels["group"] = [self.groups.setdefault(group, len(self.groups)) for group in groups]
        if len(self.groups) > GROUPS:
            raise BadParameter(
                f"build: records name more than {GROUPS:,} sources and languages under {asked.source_field!r}, such as "
                f"{groups[-1][0]!r}; give source_field='' to count by file, or the field that names the source"
            )
        copy = one.column.copy if one.column else 0
        own = [record.get("id") for record in records]
        spelled = [called(str(found), copy).encode() if isinstance(found, str | int) else b"" for found in own]
        labels["id_end"] = self.id_end + np.cumsum(list(map(len, spelled)))
        self.id_end = int(labels["id_end"][-1])
        with fs.space_for(self.out):
            self.sinks["labels.bin"].write(labels.data)
            self.sinks["record_ids.bin"].write(b"".join(spelled))
        self._sum_costs(labels["group"], measure([record["text"] for record in records]), rows)

    def _sum_costs(self, group: np.ndarray, sizes: np.ndarray, rows: Sequence[Row]) -> None:
        counts = np.array([(row.content, row.literal_specials) for row in rows], np.int64)
        sums = np.zeros((len(self.groups), 6), np.int64)
        np.add.at(sums, group, np.hstack([np.ones((len(rows), 1), np.int64), sizes, counts]))
        for (source, language), mine in zip(self.groups, sums.tolist(), strict=True):
            self.costs.add(Cost(source, language, *mine))

    def _fitting(self, one: Input, run: Sequence[_Record], rows: Sequence[Row]) -> list[bool]:
        """Bring rows under the limit, in place; False stands for those that go."""
        tokens = self._lengths(rows)[:, self.ids]
        wrong = (tokens.sum(axis=1) == 0) | (tokens > (self.settings.max_length or np.inf)).any(axis=1)
        fits = [True] * len(rows)
        for at in np.flatnonzero(wrong).tolist():
            fits[at] = self._fits(one, run[at], rows[at])
        return fits

    def _fits(self, one: Input, item: _Record, row: Row) -> bool:
        before = row.tokens
        fitted, cut = fit(row, self.settings.max_length, self.settings.too_long) if before else (Drop("empty"), 0)
        self.tokens[one.name, "cut", ""] += cut
        if isinstance(fitted, Drop):
            self.tokens[one.name, "dropped", fitted.reason] += before
            self.lose("process", one, item[1], fitted, item[3])
            return False
        row.arrays = fitted.arrays
        return True

    def _lengths(self, rows: Sequence[Row]) -> np.ndarray:
        """Return the length of every array, (rows, keys) int64."""
        columns = ([len(row.arrays[key]) for row in rows] for key in self.layout.keys)
        return np.stack([np.array(column, np.int64) for column in columns], axis=1)

    def _write(self, one: Input, numbers: list[int], rows: Sequence[Row]) -> None:
        lengths = self._lengths(rows)
        offsets = self.ends + np.cumsum(lengths[:, : len(self.ends)], axis=0)
        documents = np.empty(len(rows), DOCUMENT)
        documents["source"], documents["line"] = one.source, numbers
        columns = {"offsets.bin": offsets, "documents.bin": documents}
        for key in self.layout.keys:
            # A type that is not the layout's stops the run: it must never be converted without a word.
            arrays = [row.arrays[key] for row in rows]
            columns[f"{key}.bin"] = np.concatenate(arrays, dtype=self.layout.dtype(key), casting="no")
        with fs.space_for(self.out):
            for part, values in columns.items():
                self.sinks[part].write(values.data)
        tokens = int(lengths[:, self.ids].sum())
        trained = sum(int(np.count_nonzero(columns[f"{mask}.bin"])) for mask in self.layout.masks)
        self.tokens[one.name, "trained", ""] += trained if self.layout.masks else tokens
        self.kept[one.name] += len(rows)
        self.ends, self.rows, self.stored = offsets[-1], self.rows + len(rows), self.stored + tokens
        self.singles &= (lengths == 1).all(axis=0)

    def result(self) -> dict[str, Any]:
        """Order the pieces, and return what the task tells."""
        if self.settings.sorted:
            begins = np.memmap(self._path("offsets.bin"), np.int64, "r")
            with fs.space_for(self.out):
                np.save(self._path("counts.npy"), order_pieces(begins, self.settings, self._path("pieces.bin")))
        failed: Counter[str] = Counter()
        for (_, _, flow, reason), lost in self.lost.items():
            failed[reason] += lost if flow == "failed" else 0
        singles = [key for key, single in zip(self.layout.keys, self.singles.tolist(), strict=True) if single]
        return {
            "rows": self.rows, "seen": self.seen.total(), "tokens": self.stored, "singles": singles,
            "literal_specials": self.literal_specials, "ledger": json.loads(self.ledger().to_json()),
            "failed": +failed, "examples": self.examples, "groups": list(self.groups),
            "costs": [cost.as_dict() for cost in self.costs.sorted()],
        }  # fmt: skip

    def ledger(self) -> Ledger:
        """Return what happened to every record and token."""
        ledger, unread = Ledger(), Counter[str]()
        for (source, stage, _, _), lost in self.lost.items():
            unread[source] += lost if stage == "read" else 0
        for source, seen in sorted(self.seen.items()):
            read = seen - unread[source]
            flows = {("read", "in"): seen, ("read", "kept"): read, ("process", "in"): read}
            for (stage, flow), number in {**flows, ("process", "kept"): self.kept[source]}.items():
                ledger.add(stage, flow, source, documents=number)
        for (source, stage, flow, reason), lost in sorted(self.lost.items()):
            ledger.add(stage, flow, source, reason, documents=lost)
        for (source, flow, reason), number in sorted(self.tokens.items()):
            ledger.add_tokens("tokens", flow, number, source, reason)
        return ledger


def _excerpt(raw: bytes | dict[str, Any] | None) -> str | None:
    """Return the beginning of a record: of its line as it stands, of a row of Parquet as JSON."""
    if raw is None:
        return None
    if isinstance(raw, bytes):
        # Four bytes a character at most; what is no UTF-8 is spelled out.
        return raw[: 4 * EXCERPT].decode("utf-8", "backslashreplace")[:EXCERPT]
    return valid(json.dumps(raw, ensure_ascii=False, default=repr)[:EXCERPT])


def order_pieces(begins: np.ndarray, settings: Settings, path: Path) -> np.ndarray:
    """Write the pieces of rows ordered by length, in memory of a block of them.

    Parameters
    ----------
    begins : (rows + 1,) int64, tokens
        Where each row begins in the id file.

    Returns
    -------
    (c,) int64
        How many pieces have each length.
    """
    counts = np.zeros(settings.pack_size + 1, np.int64)
    for block in _piece_blocks(begins, settings):
        counts += np.bincount(block["length"], minlength=len(counts))
    total = int(counts.sum())
    with path.open("wb") as file:
        # Zeros first: a full disk is an error here, and would end the process in what is mapped below.
        for left in range(total, 0, -BLOCK):
            file.write(bytes(min(left, BLOCK) * PIECE.itemsize))
    place, ordered = np.cumsum(counts) - counts, np.memmap(path, PIECE, "r+") if total else None
    for block in _piece_blocks(begins, settings):
        # The narrowest type sorts fastest: NumPy counts 16 bits instead of comparing.
        block = block[np.argsort(block["length"].astype(np.min_scalar_type(settings.pack_size)), kind="stable")]
        mine = np.bincount(block["length"], minlength=len(counts))
        within = np.arange(len(block)) - (np.cumsum(mine) - mine)[block["length"]]
        ordered[place[block["length"]] + within] = block  # type: ignore[index]  # no block without a piece
        place += mine
    return np.trim_zeros(counts, "b")


def _piece_blocks(begins: np.ndarray, settings: Settings) -> Iterator[np.ndarray]:
    for first in range(0, len(begins) - 1, BLOCK):
        edges = begins[first : first + BLOCK + 1]
        row, start, length = pieces(np.diff(edges), settings.pack_size, settings.packing)
        table = np.empty(len(row), PIECE)
        for name, column in (("row", row + first), ("start", start), ("begin", edges[row] + start), ("length", length)):
            table[name] = column
        yield table
