"""A smaller set of rows out of npz files, chosen exactly: counted first, then drawn, train and eval apart.

    count     a.npz 5 rows, b.npz 4 rows                      from the headers, nothing unpacked
    choose    rows 0 1 2 3 4 | 5 6 7 8                        every row has one place in a shuffled range(9)
              place 6 0 8 3 1 | 4 7 2 5                       < 2: eval    < 2 + 4: train    the rest: left out
    pick      a.npz ──▶ rows for train/shard_000000, …        a task a file, one pass, grouped by output
    finish    train/shard_000000.npz  eval/shard_000000.npz   a task a shard, rows in their new order

Which rows are drawn depends on seed and row number alone: not on the files they are in, the workers or the memory.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np

from prep_lib.engine import Crew, Task, run_tasks
from prep_lib.errors import BadParameter, BadShard
from prep_lib.events import emit
from prep_lib.files import digest, harmed, local, place, space_for, stamp, write_whole
from prep_lib.keys import Key, make_key
from prep_lib.locks import HIDDEN, lock
from prep_lib.machine import parse_bytes
from prep_lib.remote import remove, remove_folder
from prep_lib.shards.npz import NpzReader, NpzWriter, npz_files, open_alike
from prep_lib.shuffle.order import Permutation

#: The folders of the output.
PARTS = ("train", "eval")

#: Most values a field may have that rows are stratified by.
STRATA = 10_000

#: Where picked rows wait, and what says that everything is done.
PICKS, DONE = f"{HIDDEN}/picks", f"{HIDDEN}/subsample.json"


def subsample(
    input_dir: str | Path,
    output_dir: str | Path,
    num_samples: int | None = None,
    fraction: float | None = None,
    eval_samples: int = 0,
    stratify_by: str | None = None,
    shard_size: int = 1_000_000,
    shuffle: bool = True,
    seed: int = 42,
    *,
    engine: str | Executor = "processes",
    workers: int | None = None,
    memory_budget: int | str = "2GiB",
) -> tuple[int, int]:
    """Draw rows from a folder of npz files.

    Parameters
    ----------
    input_dir : path
        ``*.npz`` in it, or in its ``train/``, in natural order. It is only read.
    output_dir : path
        Gets ``train/shard_000000.npz`` … with ``metadata.json``, and ``eval/`` alike where rows are asked for it.
    num_samples : int or None, rows
        For train. None, with `fraction` None: all that eval leaves.
    fraction : float or None, above 0 and at most 1
        The share of what eval leaves.
    eval_samples : int, rows
        Never in train too.
    stratify_by : str or None
        A field with one value a row: each value keeps its share, to a row.
    shard_size : int, rows
        In every shard but the last.
    shuffle : bool
        True: rows are mixed over all shards, to be read front to back. False: they keep the order of the input.
    seed : int
    engine, workers
        As for `engine.Crew`.
    memory_budget : int or str, bytes
        Over all workers.

    Returns
    -------
    train rows, eval rows : int

    Raises
    ------
    BadParameter
        If more rows are asked for than there are, or the output is in the input or holds npz files of something else.
    BadShard
        If files differ in their fields, or one is damaged.

    Notes
    -----
    Each row is drawn with the same probability, and each set of so many rows is as likely as any other, as far as
    `seeds.permute` is even. On disk the chosen rows stand twice for a while, once unpacked. Killed and called again it
    goes on; called again when it is done, it does nothing.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with NpzWriter(folder / "in" / "a.npz") as writer:
    ...     writer.array("ids", np.arange(10))
    >>> subsample(folder / "in", folder / "out", num_samples=4, eval_samples=2, engine="inline")
    (4, 2)
    >>> np.load(folder / "out" / "train" / "shard_000000.npz")["ids"].tolist()
    [6, 8, 1, 0]
    """
    source, folder = npz_files(input_dir), place(output_dir)
    _check_apart(source.root, folder)
    readers = open_alike(source.train)
    if shard_size < 1:
        raise BadParameter(f"shuffle/subsample: shard_size must be at least 1 row; got {shard_size}")
    with lock(folder, "subsample"), Crew(engine, workers) as crew:
        crew.check_reach([source.root, folder])
        counts = _count(readers, stratify_by)
        strata = sorted({label for count in counts for label in count})
        if len(strata) > STRATA:
            raise BadParameter(
                f"shuffle/subsample: {stratify_by!r} has {len(strata):,} values; at most {STRATA:,} work"
            )
        totals = [sum(count[label] for count in counts) for label in strata]
        evals, trains = _amounts(totals, num_samples, fraction, eval_samples)
        starts = _starts([[count[label] for label in strata] for count in counts])
        plan = Plan(
            tuple(str(reader.path) for reader in readers), stratify_by, tuple(strata), tuple(totals), tuple(trains),
            tuple(evals), starts, shard_size, shuffle, seed,
        )  # fmt: skip
        return _Run(folder, plan, readers, crew, parse_bytes(memory_budget) // crew.workers).run()


def _check_apart(source: Path, folder: Path) -> None:
    read = source.resolve()
    for output in (folder.resolve(), *(folder.resolve() / part for part in PARTS)):
        if output == read or read in output.parents or (output in read.parents and output != folder.resolve()):
            raise BadParameter(f"shuffle/subsample: {output} meets {read}, which is only read; write somewhere else")
    foreign = [path for part in PARTS for path in (folder / part).glob("*.npz")]
    if foreign and not ((folder / DONE).exists() or (folder / PICKS).is_dir()):
        raise BadParameter(
            f"shuffle/subsample: {folder} holds {foreign[0].name} of something else; name another folder"
        )


# Count: rows by stratum, file by file


def _count(readers: Sequence[NpzReader], field: str | None) -> list[Counter[Any]]:
    """Count the rows of each file: by the values of a field, or under one name."""
    if field is None:
        return [Counter({"": reader.rows}) for reader in readers]
    return [sum((Counter(values.tolist()) for values in _labels(reader, field)), Counter()) for reader in readers]


def _labels(reader: NpzReader, field: str, rows: int = 2**16) -> Iterator[np.ndarray]:
    found = reader.fields.get(field)
    if found is None or found.row_shape or found.dtype.kind not in "iubSU":
        what = f"has {found}" if found else f"is not there; there are {', '.join(reader.fields)}"
        raise BadParameter(f"shuffle/subsample: stratify_by wants a whole number or a text a row; {field!r} {what}")
    for block in reader.blocks(rows, [field]):
        yield block[field]


def _amounts(
    totals: Sequence[int], num_samples: int | None, fraction: float | None, eval_samples: int
) -> tuple[list[int], list[int]]:
    """Return how many rows of each stratum go to eval and to train."""
    rows = sum(totals)
    if num_samples is not None and fraction is not None:
        raise BadParameter("shuffle/subsample: give num_samples or fraction, not both")
    if fraction is not None and not 0 < fraction <= 1:
        raise BadParameter(f"shuffle/subsample: fraction must be above 0 and at most 1; got {fraction}")
    if eval_samples < 0 or (num_samples is not None and num_samples < 0):
        raise BadParameter("shuffle/subsample: a number of rows cannot be below 0")
    left = rows - eval_samples
    train = num_samples if num_samples is not None else left if fraction is None else round(fraction * left)
    if left < 0 or train > left:
        raise BadParameter(
            f"shuffle/subsample: {train + eval_samples if left >= 0 else eval_samples:,} rows are asked for, "
            f"there are {rows:,}; ask for fewer"
        )
    evals = shares(totals, eval_samples)
    return evals, shares([total - used for total, used in zip(totals, evals, strict=True)], train)


def shares(totals: Sequence[int], wanted: int) -> list[int]:
    """Divide a number of rows over strata by their size, by the method of largest remainders.

    Examples
    --------
    >>> shares([5, 3, 2], 5), shares([7, 0, 1], 8)
    ([3, 1, 1], [7, 0, 1])
    """
    rows = max(sum(totals), 1)
    out = [total * wanted // rows for total in totals]
    by_rest = sorted(range(len(totals)), key=lambda at: (-(totals[at] * wanted % rows), at))
    for at in by_rest[: wanted - sum(out)]:
        out[at] += 1
    return out


def _starts(counts: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Return for each file how many rows of each stratum come before it."""
    before = np.cumsum(np.array(counts, np.int64), axis=0) - np.array(counts, np.int64)
    return tuple(tuple(row) for row in before.tolist())


# Choose: a row's stratum and number say where it goes


@dataclass(frozen=True)
class Plan:
    """What is drawn: everything a task needs besides its file.

    Parameters
    ----------
    files : tuple of str
    field : str or None
        Whose values are the strata; None: there is one.
    strata : tuple
        The values.
    totals, train, evals : tuple of int, rows of each stratum
    starts : tuple of tuple of int
        For each file the rows of each stratum before it.
    shard_size : int, rows
    shuffle : bool
    seed : int
    """

    files: tuple[str, ...]
    field: str | None
    strata: tuple[Any, ...]
    totals: tuple[int, ...]
    train: tuple[int, ...]
    evals: tuple[int, ...]
    starts: tuple[tuple[int, ...], ...]
    shard_size: int
    shuffle: bool
    seed: int

    @property
    def sizes(self) -> tuple[int, int]:
        """Return the rows of train and of eval."""
        return sum(self.train), sum(self.evals)

    @cached_property
    def shards(self) -> list[tuple[int, int, int]]:
        """Return part, first and last row of every output shard."""
        return [
            (part, first, min(first + self.shard_size, size))
            for part, size in enumerate(self.sizes)
            for first in range(0, size, self.shard_size)
        ]

    def name(self, shard: int) -> str:
        """Return where a shard stands in the output."""
        part, first, _ = self.shards[shard]
        return f"{PARTS[part]}/shard_{first // self.shard_size:06d}.npz"

    def described(self) -> dict[str, Any]:
        """Return what a key must know: no paths."""
        return {**asdict(self), "files": len(self.files), "strata": [repr(label) for label in self.strata]}

    @cached_property
    def _codes(self) -> dict[Any, int]:
        return {label: at for at, label in enumerate(self.strata)}

    @cached_property
    def _orders(self) -> list[Permutation | None]:
        return [
            Permutation(self.seed, "subsample_order", size, part) if self.shuffle else None
            for part, size in enumerate(self.sizes)
        ]

    def draw(self, file: int, labels: Iterator[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield which rows of each block of a file are chosen, (k,) each: row in the block, part, number in the part.

        The number is the row's place where rows are shuffled, else it says nothing.
        """
        before = np.array(self.starts[file], np.int64)
        for values in labels:
            found = []
            for stratum, rows in self._strata(values):
                found.append(self._drawn(stratum, rows, int(before[stratum])))
                before[stratum] += len(rows)
            row, part, number = (np.concatenate(columns) for columns in zip(*found, strict=True))
            turn = np.argsort(row) if len(found) > 1 else slice(None)
            yield row[turn], part[turn], number[turn]

    def _strata(self, values: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Yield each stratum of a block with its rows."""
        if self.field is None:
            yield 0, np.arange(len(values))
            return
        labels, codes = np.unique(values, return_inverse=True)
        for at, label in enumerate(labels.tolist()):
            yield self._codes[label], np.flatnonzero(codes.reshape(-1) == at)

    def _drawn(self, stratum: int, rows: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the chosen ones of rows that are a stratum's, from number `first` on."""
        evals, train = self.evals[stratum], self.train[stratum]
        places = Permutation(self.seed, "subsample", self.totals[stratum], stratum).places(
            np.arange(first, first + len(rows))
        )
        chosen = np.flatnonzero(places < evals + train)
        places = places[chosen]
        part = (places < evals).astype(np.int8)
        number = places + np.where(part, sum(self.evals[:stratum]), sum(self.train[:stratum]) - evals)
        for at, order in enumerate(self._orders):
            if order is not None:
                number[part == at] = order.places(number[part == at])
        return rows[chosen], part, number

    def places(self, file: int, rows: int, base: Sequence[int]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield for blocks of `rows` rows which are chosen, (k,) each: row in the block, output shard, row in it."""
        after = list(base)
        firsts = np.cumsum([0, -(-self.sizes[0] // self.shard_size)])
        for row, part, number in self.draw(file, self._blocks(NpzReader(self.files[file]), rows)):
            if not self.shuffle:
                for at in range(len(PARTS)):
                    chosen = np.flatnonzero(part == at)
                    number[chosen] = after[at] + np.arange(len(chosen))
                    after[at] += len(chosen)
            yield row, firsts[part] + number // self.shard_size, number % self.shard_size

    def _blocks(self, reader: NpzReader, rows: int) -> Iterator[np.ndarray]:
        if self.field is not None:
            yield from _labels(reader, self.field, rows)
        else:
            for first in range(0, reader.rows, rows):
                yield np.empty(min(rows, reader.rows - first), np.void)


# Pick: the chosen rows of one file, grouped by output shard


def pick(plan: Plan, file: int, base: Sequence[int], memory: int, out: Path) -> dict[str, Any]:
    """Write the chosen rows of a file, unpacked, a file a field; those of one output shard stand together.

    Returns
    -------
    dict
        ``begins``: the first picked row of each output shard, and the end.
    """
    reader = NpzReader(plan.files[file])
    step = _step(reader, memory)
    counts = np.zeros(len(plan.shards), np.int64)
    for _, shard, _ in plan.places(file, step, base):
        counts += np.bincount(shard, minlength=len(counts))
    begins = np.concatenate([[0], np.cumsum(counts)])
    free = begins[:-1].copy()
    with contextlib.ExitStack() as stack:
        files = {
            name: stack.enter_context(open(out / f"{file:05d}.{at}", "wb"))
            for at, name in enumerate((*reader.fields, "where"))
        }
        for block, (row, shard, place) in zip(reader.blocks(step), plan.places(file, step, base), strict=True):
            turn = np.argsort(shard, kind="stable")
            row, shard, place = row[turn], shard[turn], place[turn]
            cuts = np.flatnonzero(np.diff(shard, prepend=-1, append=-1)).tolist()
            for name, values in {**block, "where": place}.items():
                _write_runs(files[name], values if name == "where" else values[row], shard, cuts, free)
            free += np.bincount(shard, minlength=len(free))
    return {"begins": begins.tolist()}


def _step(reader: NpzReader, memory: int) -> int:
    """Return rows of a block: it is there as read, as chosen, and as bytes of one field."""
    width = sum(field.row_bytes for field in reader.fields.values())
    return max(1, min(2**16, memory // (4 * max(width, 1) + 100)))


def _write_runs(file: IO[bytes], values: np.ndarray, shard: np.ndarray, cuts: Sequence[int], free: np.ndarray) -> None:
    """Write rows behind those that their output shard already has in this file."""
    width = values.dtype.itemsize * math.prod(values.shape[1:])
    if not width:
        return
    raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(len(values), width)
    for start, stop in itertools.pairwise(cuts):
        file.seek(int(free[shard[start]]) * width)
        file.write(raw[start:stop].data)


# Finish: one output shard


def finish(
    plan: Plan, shard: int, begins: Sequence[Sequence[int]], picks: Path, memory: int, out: Path
) -> dict[str, Any]:
    """Write one output shard: its rows out of the picks of all files, in their order, field by field."""
    _, first, last = plan.shards[shard]
    runs = [
        (file, begin[shard], begin[shard + 1]) for file, begin in enumerate(begins) if begin[shard + 1] > begin[shard]
    ]
    fields = NpzReader(plan.files[0]).fields
    where = np.concatenate([_picked(picks, file, len(fields), np.dtype(np.int64), ())[a:b] for file, a, b in runs])
    turn = np.argsort(where)
    if len(where) != last - first or (where[turn] != np.arange(last - first)).any():
        raise BadShard(f"shuffle/subsample: {len(where):,} rows were picked for {plan.name(shard)}; run it again")
    ends = np.cumsum([0, *(b - a for _, a, b in runs)])
    with NpzWriter(out / Path(plan.name(shard)).name) as writer:
        for at, field in enumerate(fields.values()):
            sources = [_picked(picks, file, at, field.dtype, field.row_shape)[a:b] for file, a, b in runs]
            column = writer.stream(field.name, field.dtype, (last - first, *field.row_shape))
            step = max(1, min(2**16, memory // (3 * field.row_bytes + 100)))
            for begin in range(0, last - first, step):
                column.write(_gathered(sources, ends, turn[begin : begin + step]))
    return {"rows": last - first}


def _picked(picks: Path, file: int, at: int, dtype: np.dtype, row_shape: tuple[int, ...]) -> np.ndarray:
    """Map the picked rows of a file's field."""
    path, width = local(picks / f"{file:05d}.{at}"), dtype.itemsize * math.prod(row_shape)
    size = path.stat().st_size
    rows = size // width if width else np.iinfo(np.int64).max // 2
    if not size:
        return (
            np.broadcast_to(np.zeros((), dtype), (rows, *row_shape)) if not width else np.zeros((0, *row_shape), dtype)
        )
    raw = np.memmap(path, np.uint8, "r")
    return raw.view(dtype).reshape(rows, *row_shape)


def _gathered(sources: Sequence[np.ndarray], ends: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """Take rows out of several arrays that are numbered through."""
    out = np.empty((len(turn), *sources[0].shape[1:]), sources[0].dtype)
    of = np.searchsorted(ends, turn, side="right") - 1
    for at, source in enumerate(sources):
        mine = np.flatnonzero(of == at)
        out[mine] = source[turn[mine] - ends[at]]
    return out


# The run


@dataclass
class _Run:
    """One subsample: what is read, where it goes, who works."""

    folder: Path
    plan: Plan
    readers: Sequence[NpzReader]
    crew: Crew
    memory: int

    def run(self) -> tuple[int, int]:
        key = self._key(["whole"])
        if self._finished(key):
            emit("note", text=f"subsample: {self.folder.name} was already done")
            self._forget()
            return self.plan.sizes
        self._clear()
        base = self._base()
        tasks = [
            Task(f"pick-{file:05d}", pick, {"plan": self.plan, "file": file, "base": base[file], "memory": self.memory},
                 tuple(f"{PICKS}/{file:05d}.{at}" for at in range(len(self.readers[0].fields) + 1)),
                 self._key(["pick", file]))
            for file in range(len(self.readers))
        ]  # fmt: skip
        begins = [result["begins"] for result in run_tasks("pick", tasks, self.folder, crew=self.crew)]
        run_tasks(
            "finish",
            [self._finish_task(shard, begins) for shard in range(len(self.plan.shards))],
            self.folder,
            crew=self.crew,
        )
        self._write_metadata()
        with write_whole(self.folder / DONE, "w") as file:
            json.dump({"key": key, "outputs": self._outputs()}, file)
        self._forget()
        return self.plan.sizes

    def _finish_task(self, shard: int, begins: Sequence[Sequence[int]]) -> Task:
        args = {
            "plan": self.plan, "shard": shard, "begins": begins, "picks": self.folder / PICKS, "memory": self.memory
        }  # fmt: skip
        return Task(f"finish-{shard:05d}", finish, args, (self.plan.name(shard),), self._key(["finish", shard]))

    def _key(self, what: Sequence[Any]) -> Key:
        inputs = [[reader.path.name, reader.fingerprint] for reader in self.readers]
        return make_key(
            inputs=inputs, parameters=[self.plan.described(), *what], modules=["prep_lib.shuffle.subsample"],
            packages=["numpy", "isal"],
        )  # fmt: skip

    def _base(self) -> list[list[int]]:
        """Return the chosen rows before each file; only rows that keep their order ask for them."""
        if self.plan.shuffle:
            return [[0, 0]] * len(self.readers)
        told = [[0, 0]]
        for file, reader in enumerate(self.readers):
            labels = self.plan._blocks(reader, 2**16)
            counts = np.zeros(len(PARTS), np.int64)
            for _, part, _ in self.plan.draw(file, labels):
                counts += np.bincount(part, minlength=len(PARTS))
            told.append([before + int(count) for before, count in zip(told[-1], counts, strict=True)])
        return told[:-1]

    def _outputs(self) -> dict[str, list[Any]]:
        paths = {name: self.folder / name for name in map(self.plan.name, range(len(self.plan.shards)))}
        return {name: [*stamp(path), digest(path)] for name, path in paths.items()}

    def _finished(self, key: Key) -> bool:
        try:
            record = json.loads((self.folder / DONE).read_bytes())
            return record["key"] == key and not harmed(self.folder, record["outputs"])
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def _clear(self) -> None:
        """Take away what says that an older run is complete, and shards it had beyond ours."""
        with space_for(self.folder):
            (self.folder / PICKS).mkdir(parents=True, exist_ok=True)
        (self.folder / DONE).unlink(missing_ok=True)
        ours = {self.folder / self.plan.name(shard) for shard in range(len(self.plan.shards))}
        for part in PARTS:
            (self.folder / part / "metadata.json").unlink(missing_ok=True)
            remove(set((self.folder / part).glob("shard_*.npz")) - ours)

    def _write_metadata(self) -> None:
        for part in range(len(PARTS)):
            sizes = [last - first for at, first, last in self.plan.shards if at == part]
            if sizes or part == 0:
                told = metadata(self.readers[0], sizes, self.plan.shard_size, self.plan.shuffle, self.plan.seed)
                with space_for(self.folder), write_whole(self.folder / PARTS[part] / "metadata.json", "w") as file:
                    file.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")

    def _forget(self) -> None:
        """Take away picked rows and the records of tasks: the output says by itself that it is complete."""
        remove_folder(self.folder / PICKS)
        remove_folder(self.folder / HIDDEN / "tasks")


def metadata(reader: NpzReader, sizes: Sequence[int], shard_size: int, pre_shuffled: bool, seed: int) -> dict[str, Any]:
    """Return what ``metadata.json`` says of a folder of npz shards.

    Parameters
    ----------
    reader : NpzReader
        Any of the files: all have the same fields.
    sizes : sequence of int, rows of each shard
        As they were written.
    shard_size : int, rows
    pre_shuffled : bool
        Whether rows are to be read front to back.
    seed : int
    """
    fields = sorted(reader.fields.values(), key=lambda field: field.name != "input_ids")
    wide = next((field for field in fields if field.row_shape), None)
    first = wide or next(iter(reader.fields.values()))
    return {
        "num_samples": sum(sizes), "max_seq_length": wide.row_shape[0] if wide else 1, "dtype": str(first.dtype),
        "fields": list(reader.fields), "shard_size": shard_size, "num_shards": len(sizes), "shard_sizes": list(sizes),
        "pre_shuffled": pre_shuffled, "seed": seed,
    }  # fmt: skip
