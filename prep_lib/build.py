"""JSONL or Documents become shards: count, plan, write.

    survey  digest and cut every input    small files together    .prep/inputs.json    remembered by size and time
    count   a task per span of input      lines → records → rows of ids    .prep/rows/00000.*  (ragged, temporary)
    plan    once, from length counts      how many packs, which lengths in each
    write   a task per output shard       finds its rows in the ragged files → chunk_0.h5, shard-00000.bin, …
    then    rejected.jsonl.zst, ledger.json, and manifest.json last: its presence means the build is complete

Packs are planned over all files together, in memory bounded by the pack size; the bytes do not depend on workers.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from prep_lib import files as fs
from prep_lib import inputs, rejected, remote, verdicts
from prep_lib.chat.process import PreTrainProcessor, Processor
from prep_lib.chat.row import Row, check_fit
from prep_lib.engine import Crew, Task, run_tasks
from prep_lib.errors import AcceleratorMismatch, BadInput, BadParameter, BadRecord, PrepError, unknown
from prep_lib.events import emit
from prep_lib.files import Span
from prep_lib.inputs import Input, Source, find, pieces
from prep_lib.keys import Key, changed, function_digest, make_key
from prep_lib.ledger import TOKEN_FLOWS, Ledger, LossLimit
from prep_lib.locks import HIDDEN, kind_of, lock
from prep_lib.machine import parse_bytes
from prep_lib.shards.count import (
    ROWS,
    Counted,
    Documents,
    Layout,
    Settings,
    count,
    is_foreign,
    outputs,
)
from prep_lib.shards.formats import FORMATS
from prep_lib.shards.manifest import NAME, all_files, read_manifest, write_manifest
from prep_lib.shards.shard import RESERVED, split_groups
from prep_lib.shards.write import Rows, remainder, write
from prep_lib.source.hub import parsed
from prep_lib.source.read import rows, survey_rows
from prep_lib.tokens.pack import LengthIndex, Plan, check_choice, plan_packs
from prep_lib.tokens.stream import Cost, Costs
from prep_lib.tokens.tokenizer import AutoTokenizer
from prep_lib.verdicts import Column

#: What a build writes beside its shards.
BESIDE = (NAME, "ledger.json", rejected.NAME)

#: Libraries whose output is written.
PACKAGES = ("h5py", "isal", "numpy", "orjson", "pyarrow", "tokenizers", "zstandard")

#: What the report says of the engine that tokenised.
ENGINES = {
    "fastokens": "fastokens, its ids checked against tokenizers in every process",
    "tokenizers": "tokenizers, the reference",
}

#: Records looked at in each file for a first row of a user's processor.
LOOKED_AT = 1000


def cache_jsonl(
    files: Sequence[str | Path] | str | Path,
    output_dir: str | Path,
    processor: Processor,
    pack_size: int = 0,
    *,
    packing: str | None = None,
    tail: str = "pad",
    pad_value: int | None = None,
    max_length: int | None = None,
    too_long: str = "drop",
    shard_size: int | None = None,
    seed: int = 42,
    engine: str | Executor = "processes",
    workers: int | None = None,
    memory_budget: int | str = "2GiB",
    sample: int = 0,
    max_failed: float = 0.001,
    keep_old: bool = False,
    rehash: bool = False,
) -> Ledger:
    """Turn JSONL or Parquet files into packed or ragged HDF5 shards.

    Parameters
    ----------
    files : path or sequence of paths
        JSONL (plain, gz, zst) or Parquet, read in this order. A folder stands for the data files in it.
    output_dir : path
        Gets ``chunk_0.h5`` …, ``rejected.jsonl.zst``, ``ledger.json`` and, last, ``manifest.json``.
    processor : Processor
        Turns a record into arrays.
    pack_size : int, tokens
        0 or less: rows stay ragged.
    packing : str or None
        "concat", "best_fit" or "best_fit_split". None: "concat" for a processor without a mask, "best_fit" with one.
    tail : "pad" or "drop"
        What concat does with its last, incomplete pack.
    pad_value : int or None
        None: the tokenizer's pad id. Padding is known by length, so it may equal a real id.
    max_length : int or None, tokens
        Longer rows are `too_long`. None: the pack size under best_fit, otherwise no limit.
    too_long : "drop", "cut_turns" or "cut"
        Drop the row, remove whole turns from its end, or cut it (after masking, and without adding an EOS).
    shard_size : int or None, rows
        Packs, or ragged rows, in a shard. None: about 2**26 tokens.
    seed : int
        Order of packs, choice of a sample.
    engine, workers
        As for `engine.Crew`: processes of this machine, a cluster, or an executor. No byte depends on them.
    memory_budget : int or str, bytes
        For the whole run. The result never depends on it.
    sample : int, records
        0: everything. Otherwise about this many, chosen by a hash of their ids over all files.
    max_failed : float
        Share of records that may fail before the run stops; it never stops for `ledger.FEW` or fewer.
    keep_old : bool
        True: finished tasks are used even if the code has changed since.
    rehash : bool
        True: digest inputs, and what a finished build wrote, again even if size and time of change are as remembered.

    Returns
    -------
    Ledger
        Checked: it balances to the last record and token.

    Drops
    -----
    too_long, no_target, and whatever the processor names.

    Raises
    ------
    BadParameter, BadInput, TooManyLost, RunLocked, NoSpace, TaskFailed
    """
    paths, columns, folder = _opened(files, output_dir)
    _check_processor(processor)
    layout = _layout(processor, paths, pack_size > 0)
    settings = _settings(
        processor, layout, pack_size=pack_size, packing=packing, tail=tail, pad_value=pad_value,
        max_length=max_length, too_long=too_long, shard_size=shard_size, seed=seed, sample=sample,
    )  # fmt: skip
    return _built(
        paths, columns, folder, processor, layout, settings, engine=engine, workers=workers,
        memory_budget=memory_budget, max_failed=max_failed, keep_old=keep_old, rehash=rehash,
    )  # fmt: skip


def build_shards(
    files: Sequence[str | Path] | str | Path,
    output_dir: str | Path,
    tokenizer: AutoTokenizer | str | Path,
    seq_len: int,
    *,
    packing: str = "concat",
    tail: str = "drop",
    shard_size: int = 8192,
    format: str = "bin",
    source_field: str = "source",
    language_fields: Sequence[str] = ("language", "lang"),
    seed: int = 42,
    engine: str | Executor = "processes",
    workers: int | None = None,
    memory_budget: int | str = "2GiB",
    sample: int = 0,
    max_failed: float = 0.001,
    keep_old: bool = False,
    rehash: bool = False,
) -> Ledger:
    """Turn documents into packed shards for pretraining: one EOS behind each, rows of one length.

    Parameters
    ----------
    files : path or sequence of paths
        JSONL (plain, gz, zst) or Parquet with a column ``text``, read in this order. A folder: the data files in it.
    output_dir : path
        Gets the shards, ``rejected.jsonl.zst``, ``ledger.json`` and, last, ``manifest.json``.
    tokenizer : AutoTokenizer or path
        With an EOS token.
    seq_len : int, tokens
        Length of every row.
    packing : "concat", "best_fit" or "best_fit_split"
        concat: the stream of documents cut into rows, in the order given. best_fit: no document is cut, longer ones are
        dropped as `too_long`. best_fit_split: only those are cut.
    tail : "drop" or "pad"
        What concat does with its last, incomplete row.
    shard_size : int, rows
        In every shard but the last.
    format : "bin", "h5" or "npz"
    source_field : str
        Which column says where a document belongs; empty, or where it is missing: the name of its file.
    language_fields : sequence of str
        Columns that may say its language; the first one found counts.
    seed, engine, workers, memory_budget, sample, max_failed, keep_old, rehash
        As for `cache_jsonl`.

    Returns
    -------
    Ledger
        Checked: it balances to the last document and token.

    Drops
    -----
    empty, too_long.

    Raises
    ------
    BadParameter, BadInput, TooManyLost, RunLocked, NoSpace, TaskFailed
    BadShard
        If a document does not end in exactly one EOS.
    """
    paths, columns, folder = _opened(files, output_dir)
    if format not in FORMATS:
        raise unknown("build", "format", format, FORMATS)
    _whole("seq_len", seq_len, 1, 2**31 - 1)
    fields = [language_fields] if isinstance(language_fields, str) else language_fields
    known = tokenizer if isinstance(tokenizer, AutoTokenizer) else AutoTokenizer(tokenizer)
    processor = PreTrainProcessor(known)
    layout = Layout.specified(processor.keys, processor.id_keys)
    settings = _settings(
        processor, layout, pack_size=seq_len, packing=packing, tail=tail, pad_value=None, max_length=None,
        too_long="drop", shard_size=shard_size, seed=seed, sample=sample, format=format,
        documents=Documents(source_field, tuple(fields), int(known.eos_token_id or 0), known.max_id),
    )  # fmt: skip
    return _built(
        paths, columns, folder, processor, layout, settings, engine=engine, workers=workers,
        memory_budget=memory_budget, max_failed=max_failed, keep_old=keep_old, rehash=rehash,
    )  # fmt: skip


def _built(
    paths: Sequence[str],
    columns: Mapping[str, Column],
    folder: Path,
    processor: Processor,
    layout: Layout,
    settings: Settings,
    *,
    engine: str | Executor,
    workers: int | None,
    memory_budget: int | str,
    max_failed: float,
    keep_old: bool,
    rehash: bool,
) -> Ledger:
    """Run one build; if the accelerator erred anywhere, all of it again by the reference."""
    memory, limit = parse_bytes(memory_budget), LossLimit("build", max_failed)
    with lock(folder, "a build"), Crew(engine, workers) as crew, _mismatch_raised(processor.tokenizer):
        sources = inputs.survey(
            paths, folder, crew, where="build", surveyor=survey_rows, columns=columns, rehash=rehash,
            count=settings.sample > 0,
        )  # fmt: skip
        build = _Build(folder, crew, processor, layout, settings, sources, limit, keep_old, memory, rehash)
        try:
            return build.run()
        except AcceleratorMismatch as mismatch:
            emit("note", text=f"build: {mismatch}")
            assert processor.tokenizer is not None
            processor.tokenizer.use_reference(str(mismatch))
            # Finished tasks have the same key, but nobody knows which of them the accelerator spoiled.
            build.forget()
            build.limit = LossLimit("build", max_failed)
            return build.run()


@contextlib.contextmanager
def _mismatch_raised(tokenizer: AutoTokenizer | None) -> Iterator[None]:
    """Let a mismatch of the accelerator stop the tasks: by itself a tokenizer repairs only what it encodes itself."""
    if tokenizer is None:
        yield
        return
    before, tokenizer.raise_on_mismatch = tokenizer.raise_on_mismatch, True
    try:
        yield
    finally:
        tokenizer.raise_on_mismatch = before


# Before the first task: what is read, where it goes, and whether the parameters fit


def _opened(
    files: Sequence[str | Path] | str | Path, output_dir: str | Path
) -> tuple[list[str], dict[str, Column], Path]:
    """Return the files to read, what was decided about their records, and a folder that may be written."""
    through, columns = verdicts.through(files, "build")
    for column in columns.values():
        column.check("text")
    paths, folder = find(through, inputs.NUMBERED, where="build"), fs.absolute(output_dir)
    _check_folder(folder, paths)
    return paths, columns, folder


def _check_folder(folder: Path, paths: Sequence[str]) -> None:
    """Refuse an output folder in which something of somebody else's would be overwritten."""
    if folder.exists() and not folder.is_dir():
        raise BadParameter(f"build: output_dir {folder} is a file; give a folder")
    ours = {(folder / name).resolve() for name in BESIDE}
    if taken := [os.path.basename(path) for path in paths if fs.place(path).resolve() in ours]:
        raise BadInput(f"build: the input {taken[0]} lies where the output is written; use another output folder")
    strange = [] if kind_of(folder) or (folder / NAME).is_file() else _shards(folder)
    if strange:
        raise BadInput(f"build: {folder} holds {strange[0].name}, which no build left there; use another output folder")


def _shards(folder: Path) -> list[Path]:
    """Return the files of shards in a folder, of any kind."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in found if any(kind.number(path.name) is not None for kind in FORMATS.values())]


def _check_processor(processor: object) -> None:
    if not isinstance(processor, Processor):
        raise BadParameter(
            f"build: processor must be a Processor, got {type(processor).__name__}; make one with ProcessorFactory"
        )


def _layout(processor: Processor, paths: Sequence[str], packed: bool) -> Layout:
    """Return which arrays a row has; of a user's processor the first usable record tells."""
    if not is_foreign(processor):
        return Layout.specified(processor.keys, processor.id_keys)
    if (row := _first_row(processor, paths)) is None:
        if processor.keys and processor.id_keys:
            return Layout.specified(processor.keys, processor.id_keys)
        raise BadInput(f"build: no record among the first of each file gives a row of {type(processor).__name__}")
    layout = Layout.of(row)
    if bad := [key for key in layout.keys if not key or set(key) & set("/\\\0") or key in (".", "..", *RESERVED)]:
        raise BadParameter(f"build: an array cannot be called {bad[0]!r}: no '/', and none of {', '.join(RESERVED)}")
    if not layout.ids:
        raise BadParameter(f"build: {type(processor).__name__} makes no array of ids; name one in id_keys")
    if wrong := layout.mismatch(row, packed and len(layout.ids) == 1):
        raise BadParameter(f"build: {type(processor).__name__}: {wrong}{'; use pack_size=0' if packed else ''}")
    return layout


def _first_row(processor: Processor, paths: Sequence[str]) -> Row | None:
    for path in paths:
        span = Span(path, first=0 if path.endswith(".parquet") else 1)
        with contextlib.closing(rows(span)) as found:  # type: ignore[type-var]
            for record in map(parsed, (record for _, record in itertools.islice(found, LOOKED_AT))):
                if not isinstance(record, BadRecord) and isinstance(row := processor.rows([record])[0], Row):
                    return row
    return None


def _settings(
    processor: Processor, layout: Layout, *, packing: str | None, pad_value: int | None, **given: Any
) -> Settings:
    """Fill in what was left open, and refuse nonsense before any work starts."""
    pack_size = max(0, _whole("pack_size", given.pop("pack_size"), -(2**31), 2**31 - 1))
    sample, seed = _whole("sample", given.pop("sample"), 0), _whole("seed", given.pop("seed"), 0, 2**128 - 1)
    max_length, shard_size = (
        None if (value := given.pop(name)) is None else _whole(name, value, 1) for name in ("max_length", "shard_size")
    )
    packing = packing or ("best_fit" if layout.masks else "concat")
    if pack_size and (len(layout.ids) != 1 or not processor.packs):
        name = processor.type or type(processor).__name__
        held = "several sequences" if len(layout.ids) != 1 else "what belongs to the whole row"
        raise BadParameter(f"build: {name} rows hold {held} and are never packed; use pack_size=0")
    check_choice(pack_size or 1, packing, given["tail"])
    check_fit(max_length, given["too_long"])
    if pack_size and packing == "best_fit":
        max_length = min(pack_size, max_length or pack_size)
    if pad_value is None:
        pad_value = processor.tokenizer.pad_id if processor.tokenizer is not None else 0
    return Settings(
        pack_size=pack_size, packing=packing, pad_value=_whole("pad_value", pad_value, -(2**31), 2**31 - 1),
        max_length=max_length, shard_size=shard_size, seed=seed, sample=sample, **given,
    )  # fmt: skip


def _whole(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return a whole number as Python's own: one of NumPy's is no JSON."""
    whole = operator.index(value) if hasattr(value, "__index__") and not isinstance(value, bool) else None
    if whole is None or whole < low or (high is not None and whole > high):
        allowed = f"at least {low}" if high is None else f"from {low} to {high}"
        raise BadParameter(f"build: {name} must be a whole number {allowed}; got {value!r}")
    return whole


@dataclass
class _Build:
    """One build: what is read, where it goes, who works."""

    folder: Path
    crew: Crew
    processor: Processor
    layout: Layout
    settings: Settings
    sources: list[Source]
    limit: LossLimit
    keep_old: bool
    memory: int
    rehash: bool

    def run(self) -> Ledger:
        key = self._key(self._inputs, asdict(self.settings))
        if (ledger := self._finished(key)) is not None:
            emit("note", text=f"build: {self.folder.name} was already done")
            self.forget()
            return ledger
        self._clear()
        parts, counted = self._count()
        rows = self._plan(parts)
        written = self._write(rows)
        ledger = self._settle(rows, counted, written)
        self._finish(key, ledger, rows, counted, written)
        return ledger

    # Keys: what the bytes depend on

    @cached_property
    def _code(self) -> Key:
        return make_key(modules=["prep_lib.build"], packages=PACKAGES)

    @cached_property
    def _own(self) -> str | None:
        return _own_code(self.processor)

    @cached_property
    def _inputs(self) -> str:
        """All inputs in one word: with many files it stands in the key of many tasks."""
        return make_key(inputs=[[source.name, source.digest] for source in self.sources])["inputs"]

    def _key(self, inputs: Any, parameters: Any) -> Key | None:
        """Return the key of the build, or of a part of it; None if the user's own code cannot be digested."""
        if self._own is None:
            return None
        tokenizer = self.processor.tokenizer
        told = [self.processor.describe(), asdict(self.layout), self._own, tokenizer and tokenizer.describe()]
        part = make_key(inputs=inputs, parameters=[told, parameters])
        return {**self._code, "inputs": part["inputs"], "parameters": part["parameters"]}

    def _finished(self, key: Key | None) -> Ledger | None:
        """Return the ledger of a build that is complete and made from the same key."""
        try:
            record = json.loads((self.folder / HIDDEN / "build.json").read_bytes())
            known, manifest = record["files"], read_manifest(self.folder)
            told = {file["file"]: file["sha256"] for file in all_files(manifest)}
            harmed = sorted(name for name, sha256 in told.items() if known[name][2] != sha256)
            harmed += sorted(fs.harmed(self.folder, known, rehash=self.rehash))
            ledger = Ledger.from_json((self.folder / "ledger.json").read_bytes())
        except (OSError, ValueError, KeyError, TypeError, PrepError):
            return None
        differs = changed(record["key"], key) if key else ["own code that cannot be digested"]
        if self.keep_old and all(part.startswith("code of") for part in differs):
            differs = []
        if differs := [*differs, *(f"{harmed[0]} is not as it was written" for _ in harmed[:1])]:
            emit("note", text=f"build: {self.folder.name} is built again: {'; '.join(differs)}")
        return None if differs else ledger

    def _clear(self) -> None:
        """Take away what says that an older build is complete, before any of its files changes."""
        # The key too: a build whose own code has none leaves none, and must not be taken for the one before it.
        remote.remove(self.folder / name for name in (*BESIDE, f"{HIDDEN}/build.json"))

    def forget(self) -> None:
        """Take away the ragged rows and what is known of finished tasks."""
        remote.remove_folder(self.folder / ROWS)
        records = self.folder / HIDDEN / "tasks"
        remote.remove([*records.glob("count-*.json"), *records.glob("write-*.json")])
        with contextlib.suppress(OSError):
            records.rmdir()

    # Count: spans of input become rows of ids

    def _count(self) -> tuple[list[Counted], list[dict[str, Any]]]:
        tasks = [self._count_task(number, inputs) for number, inputs in enumerate(pieces(self.sources))]
        results = run_tasks(
            "count",
            tasks,
            self.folder,
            crew=self.crew,
            keep_old=self.keep_old,
            watch=lambda _, done: self.limit.add(seen=done["seen"], failed=done["failed"], examples=done["examples"]),
        )
        for engine in sorted({result["engine"] for result in results} - {""}):
            emit("note", text=f"tokenizer: {ENGINES[engine]}")
        told = [
            (result["rows"], result["tokens"], tuple(result["singles"]), tuple(split_groups(result["groups"])))
            for result in results
        ]
        packed = self.settings.packed
        return [Counted(self.folder, n, self.layout, packed, *each) for n, each in enumerate(told)], results

    def _count_task(self, number: int, inputs: Sequence[Input]) -> Task:
        args = {
            "number": number, "inputs": inputs, "processor": self.processor, "layout": self.layout,
            "settings": self.settings, "share": self._share,
        }  # fmt: skip
        digests = [[self.sources[one.source].digest, one.source, one.name] for one in inputs]
        places = [[one.span.start, one.span.stop, one.span.first] for one in inputs]
        key = self._key([digests, places], ["count", self.settings.counted, self._share])
        return Task(f"count-{number:05d}", count, args, outputs(number, self.layout, self.settings), key)

    @cached_property
    def _share(self) -> float:
        """The share of records a sample takes; 1.0 for everything."""
        total = sum(source.rows or 0 for source in self.sources)
        return min(1.0, self.settings.sample / max(total, 1)) if self.settings.sample else 1.0

    # Plan: once, from the counts of lengths

    def _plan(self, parts: list[Counted]) -> Rows:
        settings, names = self.settings, [source.name for source in self.sources]
        plan: Plan | None = None
        index: LengthIndex | None = None
        if settings.sorted:
            index = LengthIndex([part.counts for part in parts])
            plan = plan_packs(index.totals, settings.pack_size, settings.packing)
        elif settings.packed:
            # What concat makes depends on the sum alone: as many rows of one token give the same packs.
            tokens = sum(part.tokens for part in parts)
            plan = plan_packs({1: tokens} if tokens else {}, settings.pack_size, settings.packing, settings.tail)
        return Rows(parts, names, self.layout, settings, plan, index)

    # Write: packs or rows become shards

    def _write(self, rows: Rows) -> list[dict[str, Any]]:
        size = self.settings.shard_size or rows.default_shard_size
        # An empty build still gets one shard: whoever opens it finds the arrays, and no rows.
        starts = range(0, max(len(rows), 1), size)
        tasks = [self._write_task(rows, shard, first, size) for shard, first in enumerate(starts)]
        # Shards of an older, larger build, or of another kind: a reader would take them for part of this one.
        ours = {name for task in tasks for name in task.outputs}
        remote.remove(path for path in _shards(self.folder) if path.name not in ours)
        return run_tasks("write", tasks, self.folder, crew=self.crew, keep_old=self.keep_old)

    def _write_task(self, rows: Rows, shard: int, first: int, size: int) -> Task:
        args = {
            "rows": rows, "shard": shard, "first": first, "last": min(first + size, len(rows)),
            "memory": self.memory // self.crew.workers,
        }  # fmt: skip
        key = self._key(self._inputs, ["write", asdict(self.settings), shard, first, size])
        return Task(f"write-{shard:05d}", write, args, FORMATS[self.settings.format].outputs(shard), key)

    # Settle: the ledger, and the files that say the build is complete

    def _settle(self, rows: Rows, counted: list[dict[str, Any]], written: list[dict[str, Any]]) -> Ledger:
        ledger = Ledger()
        for result in counted:
            ledger += Ledger.from_json(json.dumps(result["ledger"]))
        for result in written:
            for source, tokens in result["tokens"].items():
                ledger.add_tokens("tokens", "written", tokens, source)
        for source, tokens, trained in remainder(rows):
            ledger.add_tokens("tokens", "remainder", tokens, source)
            ledger.add_tokens("tokens", "trained", -trained, source)
        if rows.plan is not None:
            ledger.add_tokens("tokens", "padding", rows.plan.padding)
        ledger.check()
        # Second copies are inputs of their own, and count where the first ones do.
        return ledger.under({one.name: one.column.original(one.name) for one in self.sources if one.column})

    def _finish(
        self, key: Key | None, ledger: Ledger, rows: Rows, counted: list[dict[str, Any]], written: list[dict[str, Any]]
    ) -> None:
        parts = [part.path(rejected.NAME) for part in rows.parts]
        rejected.join(parts, self.folder / rejected.NAME, self.settings.seed)
        with fs.write_whole(self.folder / "ledger.json", "w") as file:
            file.write(ledger.to_json())
        write_manifest(self.folder, **self._manifest(ledger, rows.plan, counted, written))
        if key is not None:
            told = list(all_files(read_manifest(self.folder)))
            stamps = fs.stamps([str(self.folder / file["file"]) for file in told])
            files = {file["file"]: [*stamps[str(self.folder / file["file"])], file["sha256"]] for file in told}
            with fs.write_whole(self.folder / HIDDEN / "build.json", "w") as record:
                json.dump({"key": key, "files": files}, record)
        # The manifest stands: the ragged rows and the records of the tasks have done their work.
        self.forget()

    def _manifest(
        self, ledger: Ledger, plan: Plan | None, counted: list[dict[str, Any]], written: list[dict[str, Any]]
    ) -> dict[str, Any]:
        settings, processor = self.settings, self.processor
        flows = {flow: ledger.total("tokens", flow, unit="tokens") for flow in TOKEN_FLOWS}
        totals: dict[str, Any] = {"documents": ledger.total("process", "kept"), **flows}
        totals["literal_specials"] = sum(result["literal_specials"] for result in counted)
        if settings.documents is not None:
            totals |= {"written_eos": sum(result["eos"] for result in written), "groups": _costs(counted)}
        packing = {
            "algorithm": settings.packing, "packs": plan.packs, "efficiency": round(plan.efficiency, 6),
            "padding": plan.padding, "pad_value": settings.pad_value, "tail": settings.tail,
            "cut_documents": sum(result["cut"] for result in written),
        } if plan is not None else None  # fmt: skip
        return {
            "format": settings.format,
            "shards": [result["entry"] for result in written],
            "seq_len": settings.pack_size or None,
            "dropped_remainder_tokens": flows["remainder"],
            "totals": totals,
            "tokenizer": processor.tokenizer and processor.tokenizer.describe(),
            "strategy": {**processor.describe(), "id_keys": list(self.layout.ids)},
            "seed": settings.seed,
            "packing": packing,
            "pre_shuffled": settings.sorted,
            "recipe": {
                "max_length": settings.max_length, "too_long": settings.too_long, "sample": settings.sample,
                "inputs": [source.name for source in self.sources],
                # Whether all of their records were read, or those that verdicts let through.
                "through_verdicts": any(source.column for source in self.sources),
            },
            "parents": [source.survey.digest for source in self.sources],
            "beside": [self.folder / name for name in BESIDE if name != NAME],
        }  # fmt: skip


def _costs(counted: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sum what the documents of all tasks cost, by source and language."""
    costs = Costs()
    for cost in (cost for result in counted for cost in result["costs"]):
        costs.add(Cost(**cost))
    return [cost.as_dict() for cost in costs.sorted()]


def _own_code(processor: Processor) -> str | None:
    """Digest the user's own classes and their settings; ours are in the key as modules. None: not possible."""
    foreign = [part for part in (processor, processor.strategy) if part is not None and is_foreign(part)]
    told = [
        [type(part), {n: v for n, v in vars(part).items() if n not in ("tokenizer", "strategy")}] for part in foreign
    ]
    return function_digest(told) if told else ""
