"""JSONL or Documents become shards: count, plan, write.

    count   a task per span of input    lines → records → rows of ids    .prep/rows/00000.*  (ragged, temporary)
    plan    once, from length counts    how many packs, which lengths in each
    write   a task per output shard     finds its rows in the ragged files → chunk_0.h5
    then    rejected.jsonl.zst, ledger.json, and manifest.json last: its presence means the build is complete

Packs are planned over all files together, in memory bounded by the pack size; the bytes do not depend on workers.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import zstandard

from prep_lib import files as fs
from prep_lib.chat.process import Processor, Row, check_fit
from prep_lib.engine import HIDDEN, Crew, Task, emit, lock, parse_bytes, run_tasks
from prep_lib.errors import AcceleratorMismatch, BadInput, BadParameter, BadRecord, PrepError
from prep_lib.files import Span, Survey
from prep_lib.keys import Key, changed, function_digest, make_key
from prep_lib.ledger import TOKEN_FLOWS, Ledger, LossLimit
from prep_lib.shards.count import ROWS, Counted, Settings, among_smallest, count, lot, reader
from prep_lib.shards.manifest import read_manifest, write_manifest
from prep_lib.shards.write import Rows, write
from prep_lib.source import parquet
from prep_lib.tokens.pack import LengthIndex, Plan, check_choice, plan_packs


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
    engine : "processes", "inline" or Executor
    workers : int or None
        None: this machine's share of cores.
    memory_budget : int or str, bytes
        For the whole run. The result never depends on it.
    sample : int, records
        0: everything. Otherwise about this many, chosen by a hash of their ids over all files.
    max_failed : float
        Share of records that may fail before the run stops; it never stops for `ledger.FEW` or fewer.
    keep_old : bool
        True: finished tasks are used even if the code has changed since.
    rehash : bool
        True: digest inputs again even if size and time of change are as remembered.

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
    paths = input_files(files)
    _find_keys(processor, paths)
    settings = _settings(
        processor, pack_size=pack_size, packing=packing, tail=tail, pad_value=pad_value, max_length=max_length,
        too_long=too_long, shard_size=shard_size, seed=seed, sample=sample,
    )  # fmt: skip
    memory, folder, names = parse_bytes(memory_budget), Path(output_dir), source_names(paths)
    with lock(folder), Crew(engine, workers) as crew:
        surveys = _survey(paths, folder, crew, rehash, count=sample > 0)
        build = _Build(folder, crew, processor, settings, surveys, names, max_failed, keep_old, memory)
        try:
            return build.run()
        except AcceleratorMismatch as mismatch:
            emit("note", text=f"build: {mismatch}; everything is tokenised again by the reference")
            assert processor.tokenizer is not None
            processor.tokenizer.use_reference(str(mismatch))
            # Finished tasks have the same key, but nobody knows which of them the accelerator spoiled.
            shutil.rmtree(folder / HIDDEN / "tasks", ignore_errors=True)
            return build.run()


def input_files(files: Sequence[str | Path] | str | Path) -> list[Path]:
    """Return the data files that `files` stands for: a folder becomes its data files in natural order.

    Raises
    ------
    BadInput
        If there is none, one is missing, or one is named twice.
    """
    given = [files] if isinstance(files, str | Path) else list(files)
    paths = [found for path in map(Path, given) for found in (_data_files(path) if path.is_dir() else [path])]
    missing = [str(path) for path in paths if not path.is_file()]
    if missing or not paths:
        raise BadInput(f"build: no such input: {', '.join(missing[:3]) or ', '.join(map(str, given)) or 'none given'}")
    twice = [str(path) for path, count in Counter(path.resolve() for path in paths).items() if count > 1]
    if twice:
        raise BadInput(f"build: {twice[0]} is given twice; every row in it would be trained twice")
    return paths


def _data_files(folder: Path) -> list[Path]:
    endings = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
    found = [path for path in folder.iterdir() if path.name.endswith(endings) and not path.name.startswith(".")]
    return sorted(found, key=lambda path: fs.natural(path.name))


def _find_keys(processor: Processor, paths: Sequence[Path]) -> None:
    """Ask the first usable record which arrays a user's processor makes, if it does not say so itself."""
    if processor.keys:
        return
    for path in paths:
        spans = parquet.survey(path).spans if path.suffix == ".parquet" else (Span(str(path)),)
        for span in spans[:1]:
            for _, record in itertools.islice(reader(span.path).read_records(span), 1000):
                row = None if isinstance(record, BadRecord) else processor.rows([record])[0]
                if isinstance(row, Row):
                    processor.keys, processor.id_keys = tuple(row.arrays), tuple(row.ids)  # type: ignore[misc]
                    return
    raise BadInput(f"build: no record among the first of each file gives a row of {type(processor).__name__}")


def _settings(processor: Processor, *, packing: str | None, pad_value: int | None, **given: Any) -> Settings:
    """Fill in what was left open, and refuse nonsense before any work starts."""
    masked = any(key.endswith("mask") for key in processor.keys)
    packing = packing or ("best_fit" if masked else "concat")
    pack_size, max_length = max(0, given.pop("pack_size")), given.pop("max_length")
    if pack_size and len(processor.id_keys) != 1:
        raise BadParameter(f"build: {processor.type} rows hold several sequences and are never packed; use pack_size=0")
    check_choice(pack_size or 1, packing, given["tail"])
    check_fit(max_length, given["too_long"])
    if pack_size and packing == "best_fit":
        max_length = min(pack_size, max_length or pack_size)
    if given["shard_size"] is not None and given["shard_size"] < 1:
        raise BadParameter(
            f"build: shard_size must be at least 1 row, or None for the default; got {given['shard_size']}"
        )
    if pad_value is None:
        pad_value = processor.tokenizer.pad_id if processor.tokenizer is not None else 0
    return Settings(pack_size=pack_size, packing=packing, pad_value=pad_value, max_length=max_length, **given)


def _survey(paths: Sequence[Path], folder: Path, crew: Crew, rehash: bool, count: bool) -> list[Survey]:
    """Digest and cut every input, remembering by path, size and time of change what was read before.

    `count`: the rows of compressed files are wanted too, so those are read through.
    """
    memory = folder / HIDDEN / "inputs.json"
    known: dict[str, Any] = {}
    if not rehash:
        with contextlib.suppress(OSError, ValueError):
            known = json.loads(memory.read_bytes())
    keys = [str(path.resolve()) for path in paths]
    stamps = [[path.stat().st_size, path.stat().st_mtime_ns, count] for path in paths]
    fresh = [at for at, key in enumerate(keys) if known.get(key, {}).get("stamp") != stamps[at]]
    tasks = [Task(f"survey-{at:05d}", _survey_task, {"path": str(paths[at]), "count": count}) for at in fresh]
    for task, out, result, _ in crew.run("survey", tasks, folder):
        shutil.rmtree(out)
        at = int(task.name.removeprefix("survey-"))
        known[keys[at]] = {"stamp": stamps[at], **result}
    with fs.write_whole(memory, "w") as file:
        json.dump({key: known[key] for key in keys}, file)
    return [_survey_from(known[key], path) for key, path in zip(keys, paths, strict=True)]


def _survey_task(path: str, count: bool, out: Path) -> dict[str, Any]:
    found = asdict(parquet.survey(path) if path.endswith(".parquet") else fs.survey(path))
    if count and found["rows"] is None:
        found["rows"] = sum(1 for _ in fs.read_lines(Span(path)))
    return found


def _survey_from(stored: dict[str, Any], path: Path) -> Survey:
    spans = tuple(Span(**{**span, "path": str(path)}) for span in stored["spans"])
    return Survey(stored["digest"], stored["size"], stored["rows"], spans)


def source_names(paths: Sequence[str | Path]) -> list[str]:
    """Name every input by its file name, with as many parent folders as it takes to tell them apart.

    Examples
    --------
    >>> source_names(["a/x.jsonl", "a/y.jsonl"]), source_names(["a/x.jsonl", "b/x.jsonl"])
    (['x.jsonl', 'y.jsonl'], ['a/x.jsonl', 'b/x.jsonl'])
    """
    parts = [Path(path).resolve().parts for path in paths]
    depth = 1
    while len({part[-depth:] for part in parts}) < len(parts):
        depth += 1
    return ["/".join(part[-depth:]) for part in parts]


@dataclass
class _Build:
    """One build: what is read, where it goes, who works."""

    folder: Path
    crew: Crew
    processor: Processor
    settings: Settings
    surveys: list[Survey]
    names: list[str]
    max_failed: float
    keep_old: bool
    memory: int

    def run(self) -> Ledger:
        key = self._key(["prep_lib.build"])
        if (ledger := self._finished(key)) is not None:
            emit("note", text=f"build: {self.folder.name} was already done")
            return ledger
        self._clear()
        counted = self._count()
        plan, index = self._plan(counted)
        written = self._write(counted, plan, index)
        ledger = self._settle(counted, written, plan)
        self._finish(key, ledger, counted, written, plan)
        return ledger

    def _key(self, modules: Sequence[str], **more: Any) -> Key | None:
        """Return the key of the build, or of a part of it; None if the user's own code cannot be digested."""
        own = _own_code(self.processor)
        if own is None:
            return None
        tokenizer = self.processor.tokenizer
        inputs = [[name, survey.digest] for name, survey in zip(self.names, self.surveys, strict=True)]
        parameters = [asdict(self.settings), self.processor.describe(), own, tokenizer and tokenizer.describe(), more]
        return make_key(inputs=inputs, parameters=parameters, modules=modules, packages=["tokenizers", "h5py", "numpy"])

    def _finished(self, key: Key | None) -> Ledger | None:
        """Return the ledger of a build that is complete and made from the same key."""
        try:
            record = json.loads((self.folder / HIDDEN / "build.json").read_bytes())
            shards = read_manifest(self.folder)["shards"]
            whole = all((self.folder / shard["file"]).stat().st_size == shard["bytes"] for shard in shards)
            ledger = Ledger.from_json((self.folder / "ledger.json").read_bytes())
        except (OSError, ValueError, KeyError, PrepError):
            return None
        differs = changed(record, key) if key else ["own code that cannot be digested"]
        if self.keep_old and all(part.startswith("code of") for part in differs):
            differs = []
        if differs:
            emit("note", text=f"build: {self.folder.name} is built again: {'; '.join(differs)}")
        return ledger if whole and not differs else None

    def _clear(self) -> None:
        """Take away what says that an older build is complete, before any of its files changes."""
        for name in ("manifest.json", "ledger.json", "rejected.jsonl.zst"):
            (self.folder / name).unlink(missing_ok=True)

    # Count: spans of input become rows of ids

    def _count(self) -> list[Counted]:
        spans = [(at, span) for at, survey in enumerate(self.surveys) for span in survey.spans]
        tasks = [self._count_task(number, at, span) for number, (at, span) in enumerate(spans)]
        limit = LossLimit("build", self.max_failed)
        results = run_tasks(
            "count",
            tasks,
            self.folder,
            crew=self.crew,
            keep_old=self.keep_old,
            watch=lambda _, done: limit.add(seen=done["seen"], failed=done["failed"], examples=done["examples"]),
        )
        return [Counted(self.folder, number, at, results[number]) for number, (at, _) in enumerate(spans)]

    def _count_task(self, number: int, at: int, span: Span) -> Task:
        args = {
            "number": number, "span": span, "source": self.names[at], "processor": self.processor,
            "settings": self.settings, "share": self._share(),
        }  # fmt: skip
        parts = [*(f"{name}.bin" for name in self.processor.keys), "lengths.npy", "documents.npy", "rejected.jsonl.zst"]
        parts += ["pieces.npy"] if self.settings.sorted else []
        outputs = tuple(f"{ROWS}/{number:05d}.{part}" for part in parts)
        place = [self.names[at], span.start, span.stop, span.first, args["share"]]
        return Task(f"count-{number:05d}", count, args, outputs, self._key(["prep_lib.build"], span=place))

    def _share(self) -> float:
        """Return the share of records a sample takes; 1.0 for everything."""
        total = sum(survey.rows or 0 for survey in self.surveys)
        return min(1.0, self.settings.sample / max(total, 1)) if self.settings.sample else 1.0

    # Plan: once, from the counts of lengths

    def _plan(self, counted: list[Counted]) -> tuple[Plan | None, LengthIndex | None]:
        settings = self.settings
        if not settings.packed:
            return None, None
        if settings.sorted:
            index = LengthIndex([np.bincount(part.pieces["length"]) for part in counted])
            return plan_packs(index.totals, settings.pack_size, settings.packing), index
        counts: Counter[int] = Counter()
        for part in counted:
            counts.update(dict(enumerate(np.bincount(part.lengths[:, 0]).tolist())))
        del counts[0]
        return plan_packs(counts, settings.pack_size, settings.packing, settings.tail), None

    # Write: packs or rows become shards

    def _write(self, counted: list[Counted], plan: Plan | None, index: LengthIndex | None) -> list[dict[str, Any]]:
        rows = Rows(counted, self.names, self.processor.keys, self.settings, plan, index, self.processor.id_keys)
        size = self.settings.shard_size or rows.default_shard_size
        # An empty build still gets one shard: whoever opens it finds the arrays, and no rows.
        tasks = [
            self._write_task(rows, shard, first, size) for shard, first in enumerate(range(0, max(len(rows), 1), size))
        ]
        _remove_strays(self.folder, {task.outputs[0] for task in tasks})
        return run_tasks("write", tasks, self.folder, crew=self.crew, keep_old=self.keep_old)

    def _write_task(self, rows: Rows, shard: int, first: int, size: int) -> Task:
        args = {
            "rows": rows, "shard": shard, "first": first, "last": min(first + size, len(rows)),
            "memory": self.memory // self.crew.workers,
        }  # fmt: skip
        key = self._key(["prep_lib.build"], shard=[first, size])
        return Task(f"write-{shard:05d}", write, args, (f"chunk_{shard}.h5",), key)

    # Settle: the ledger, and the files that say the build is complete

    def _settle(self, counted: list[Counted], written: list[dict[str, Any]], plan: Plan | None) -> Ledger:
        ledger = Ledger()
        for part in counted:
            ledger += Ledger.from_json(json.dumps(part.result["ledger"]))
        for result in written:
            for source, tokens in result["tokens"].items():
                ledger.add_tokens("tokens", "written", tokens, source)
        for at, tokens, trained in _remainder(counted, plan):
            ledger.add_tokens("tokens", "remainder", tokens, self.names[at])
            ledger.add_tokens("tokens", "trained", -trained, self.names[at])
        if plan is not None:
            ledger.add_tokens("tokens", "padding", plan.padding)
        ledger.check()
        return ledger

    def _finish(
        self, key: Key | None, ledger: Ledger, counted: list[Counted], written: list[dict[str, Any]], plan: Plan | None
    ) -> None:
        _write_rejected(counted, self.folder / "rejected.jsonl.zst", self.settings.seed)
        with fs.write_whole(self.folder / "ledger.json", "w") as file:
            file.write(ledger.to_json())
        if key is not None:
            with fs.write_whole(self.folder / HIDDEN / "build.json", "w") as file:
                json.dump(key, file)
        write_manifest(self.folder, **self._manifest(ledger, counted, written, plan))
        # The manifest stands: the ragged rows and the records of the tasks have done their work.
        for name in (ROWS, f"{HIDDEN}/tasks", f"{HIDDEN}/tmp"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def _manifest(
        self, ledger: Ledger, counted: list[Counted], written: list[dict[str, Any]], plan: Plan | None
    ) -> dict[str, Any]:
        settings, processor = self.settings, self.processor
        totals = {flow: ledger.total("tokens", flow, unit="tokens") for flow in TOKEN_FLOWS}
        packing = {
            "algorithm": settings.packing, "packs": plan.packs, "efficiency": round(plan.efficiency, 6),
            "padding": plan.padding, "pad_value": settings.pad_value, "tail": settings.tail,
            "cut_documents": sum(result["cut"] for result in written),
        } if plan is not None else None  # fmt: skip
        return {
            "shards": [result["entry"] for result in written],
            "seq_len": settings.pack_size or None,
            "dropped_remainder_tokens": totals["remainder"],
            "totals": {
                "documents": ledger.total("process", "kept"), **totals,
                "literal_specials": sum(part.result["literal_specials"] for part in counted),
            },
            "tokenizer": processor.tokenizer and processor.tokenizer.describe(),
            "strategy": processor.describe(),
            "seed": settings.seed,
            "packing": packing,
            "pre_shuffled": settings.sorted,
            "recipe": {"max_length": settings.max_length, "too_long": settings.too_long, "sample": settings.sample},
            "parents": [survey.digest for survey in self.surveys],
        }  # fmt: skip


def _own_code(processor: Processor) -> str | None:
    """Digest the user's own classes and their settings; ours are in the key as modules. None: not possible."""
    parts = [part for part in (processor, processor.strategy) if part is not None]
    foreign = [part for part in parts if not type(part).__module__.startswith("prep_lib.")]
    told = [
        [type(part), {n: v for n, v in vars(part).items() if n not in ("tokenizer", "strategy")}] for part in foreign
    ]
    return function_digest(told) if told else ""


def _remove_strays(folder: Path, wanted: set[str]) -> None:
    """Remove shards of an older, larger build: a reader would take them for part of this one."""
    for path in folder.glob("chunk_*.h5"):
        if path.name not in wanted and path.stem.removeprefix("chunk_").isdecimal():
            path.unlink()


def _remainder(counted: list[Counted], plan: Plan | None) -> Iterator[tuple[int, int, int]]:
    """Yield (source, tokens, trained tokens) of what concat left over: the last tokens of the stream."""
    left = plan.lost_tokens if plan is not None else 0
    for part in reversed(counted):
        taken = min(left, part.result["tokens"])
        if taken:
            masks = [part.array(key)[-taken:] for key in part.result["dtypes"] if key.endswith("mask")]
            yield part.source, taken, sum(int(np.count_nonzero(mask)) for mask in masks) if masks else taken
        left -= taken


def _write_rejected(counted: list[Counted], path: Path, seed: int) -> None:
    """Join the rejected records of all spans; over all of them the same number of texts stays."""
    heaps: dict[tuple[str, str], list[int]] = {}
    for line in _rejected_lines(counted):
        among_smallest(heaps.setdefault((line["source"], line["reason"]), []), lot(seed, line["id"]))
    limits = {at: max(-lot for lot in heap) for at, heap in heaps.items()}
    with fs.write_whole(path) as raw, zstandard.ZstdCompressor(3).stream_writer(raw, closefd=False) as file:
        for line in _rejected_lines(counted):
            if lot(seed, line["id"]) > limits[line["source"], line["reason"]]:
                line["text"] = None
            file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


def _rejected_lines(counted: list[Counted]) -> Iterator[dict[str, Any]]:
    for part in counted:
        with fs.open_bytes(part.path("rejected.jsonl.zst")) as file:
            yield from map(orjson.loads, file)
