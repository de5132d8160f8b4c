"""What workers do for `decide_files`: read a span into numbers, let rows meet, settle batches, apply verdicts.

    sketch    a span            NNNNN.heads .ids .failed, and NNNNN.STAGE: rows, by key where they meet by key
    meet      a range of keys   STAGE.NNNNN.gone: who goes, in whose stead
    band      a span            STAGE.NNNNN.keys                    group   a range of keys   .starts .members
    prove     a span            STAGE.NNNNN.evidence: shingles      settle  a batch           .gone
    collect   a span            STAGE.NNNNN.verdicts .cuts
    apply     a span            NNNNN.copies .spans, the ledger, who was turned down

A document is called by one number, span << 32 | place in it, so that tables of any task sort and join.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from prep_lib import files as fs
from prep_lib import rejected, verdicts
from prep_lib.documents import from_field
from prep_lib.errors import BadInput, BadParameter, BadRecord
from prep_lib.inputs import Input, source_field
from prep_lib.ledger import Ledger
from prep_lib.locks import HIDDEN
from prep_lib.pipeline import in_sample
from prep_lib.record import Cut, Document, Drop
from prep_lib.rejected import RejectedWriter
from prep_lib.source import jsonl, parquet
from prep_lib.source.hub import parsed
from prep_lib.source.read import rows
from prep_lib.stage import ask_many, together
from prep_lib.text import mixture, near_dedup

SKETCH, DECIDED, WAITING = f"{HIDDEN}/sketch", f"{HIDDEN}/decided", f"{HIDDEN}/rejected"

#: The names of the sources of each span, for whoever looks at sketches.
LABELS = f"{SKETCH}/labels.json"

#: What is known of each document of a span: where it stands, whose it is, where its id ends among the ids.
HEAD = np.dtype([("number", "<i8"), ("input", "<u4"), ("source", "<u4"), ("characters", "<i8"), ("id_end", "<i8")])

#: A document that goes, and the one in whose stead it does; a document is span << 32 | place in it.
GONE = np.dtype([("document", "<i8"), ("twin", "<i8"), ("value", "<f8")])

#: What a stage decided about a document: `copies` 1 with cuts.
VERDICT = np.dtype(
    [("document", "<i8"), ("copies", "<u2"), ("reason", "<u2"), ("value", "<f8"), ("limit", "<f8"), ("twin", "<i8")]
)
CUT = np.dtype([("document", "<i8"), ("start", "<i4"), ("stop", "<i4")])
PLACE = np.int64(2**32)


@dataclass(frozen=True)
class Settings:
    """What changes the verdicts, beside the stages."""

    text: str
    source_field: str
    seed: int
    everything: bool
    share: float = 1.0


def way(stage: Any) -> str | None:
    """Return how a stage decides over files."""
    ways = {"losers": "grouped", "keys": "banded", "plan": "counted"}
    return next((way for name, way in ways.items() if hasattr(stage, name)), None)


def stored_row(stage: Any) -> np.dtype[Any]:
    """A row of a sketch as it lies on disk: with the number of its document, in a span or among all."""
    return np.dtype([("document", "<i8"), *stage.row.descr])


def sketch(number: int, each: Sequence[Input], stages: Sequence[Any], settings: Settings, out: Path) -> dict[str, Any]:
    """Read the documents of some spans, and write what the stages need of them."""
    read, notes = _Read(settings), _Notes(stages)
    for at, one in enumerate(each):
        for some in together(read.documents(one), lambda found: len(found[1].text)):
            notes.add(at, some)
    notes.write(out / f"{number:05d}")
    return {**read.result(), **notes.result()}


class _Notes:
    """What is noted of the documents of a span: heads, ids, and the rows of each stage."""

    def __init__(self, stages: Sequence[Any]) -> None:
        self.stages = stages
        self.heads, self.ids, self.id_end = list[tuple[int, ...]](), list[bytes](), 0
        # As bytes: a hundred thousand small arrays take NumPy as many microseconds each to join.
        self.rows: dict[str, list[bytes]] = {stage.name: [] for stage in stages}
        self.sizes: dict[str, list[int]] = {stage.name: [] for stage in stages}
        self.labels: dict[str, set[str]] = {stage.name: set() for stage in stages if way(stage) == "counted"}
        self.failed, self.why = list[tuple[int, int]](), dict[str, list[str]]()
        self.sources: dict[str, int] = {}

    def add(self, at: int, some: Sequence[tuple[int, Document]]) -> None:
        """Note documents of the input with this number."""
        first, docs = len(self.heads), [doc for _, doc in some]
        for record, doc in some:
            spelled = doc.id.encode("utf-8", "surrogatepass")
            self.ids.append(spelled)
            self.id_end += len(spelled)
            source = self.sources.setdefault(doc.source, len(self.sources))
            self.heads.append((record, at, source, len(doc.text), self.id_end))
        for place, stage in enumerate(self.stages):
            found = self._sketched(place, stage, first, docs)
            self.rows[stage.name] += found
            self.sizes[stage.name] += [len(rows) // stage.row.itemsize for rows in found]

    def _sketched(self, place: int, stage: Any, first: int, docs: Sequence[Document]) -> list[bytes]:
        # Whom one stage cannot read, the later ones do not see.
        seen = {at: doc for at, doc in enumerate(docs, first) if str(at) not in self.why}
        # A stage whose labels are noted has them of each document.
        rows = None if stage.name in self.labels else ask_many(stage, "sketch", [*seen.values()])
        if rows is not None:
            found = dict(zip(seen, map(np.ndarray.tobytes, rows), strict=True))
        else:
            found = {at: self._sketched_alone(place, stage, at, doc) for at, doc in seen.items()}
        return [found.get(at, b"") for at in range(first, first + len(docs))]

    def _sketched_alone(self, place: int, stage: Any, document: int, doc: Document) -> bytes:
        try:
            found: bytes = stage.sketch(doc).tobytes()
            if stage.name in self.labels:
                self.labels[stage.name].add(stage.evidence(doc))
            return found
        except BadRecord as error:
            self.failed.append((document, place))
            self.why[str(document)] = [error.reason, error.detail]
            return b""

    def write(self, begin: Path) -> None:
        save(f"{begin}.heads.npy", np.array(self.heads, HEAD))
        save(f"{begin}.ids.npy", np.frombuffer(b"".join(self.ids), np.uint8))
        save(f"{begin}.failed.npy", np.array(sorted(self.failed), np.int64).reshape(-1, 2))
        for stage in self.stages:
            save(f"{begin}.{stage.name}.npy", _by_key(stage, self.rows[stage.name], self.sizes[stage.name]))

    def result(self) -> dict[str, Any]:
        return {
            "rows": {name: sum(sizes) for name, sizes in self.sizes.items()},
            "labels": {name: sorted(found) for name, found in self.labels.items()},
            "lost": self.why, "names": [*self.sources],
        }  # fmt: skip


def _by_key(stage: Any, rows: Sequence[bytes], sizes: Sequence[int]) -> np.ndarray:
    """Put the rows of a span behind each other; those that meet by key in its order."""
    whole = np.frombuffer(b"".join(rows), stage.row)
    table = np.empty(len(whole), stored_row(stage))
    for name in stage.row.names:
        table[name] = whole[name]
    table["document"] = np.repeat(np.arange(len(sizes)), sizes)
    return table[np.argsort(table["key"], kind="stable")] if way(stage) == "grouped" else table


class _Read:
    """Reads the documents of spans, and counts."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.seen, self.records = 0, list[int]()
        self.failed: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = {}
        self.rejected: list[tuple[str, str, BadRecord]] = []
        self.ledger = Ledger(stages=["read"])

    def documents(self, one: Input) -> Iterator[tuple[int, Document]]:
        """Yield (place of the record in the span, document)."""
        one.check()
        last, field = one.span.first - 1, source_field(one.span.path, self.settings.source_field)
        for number, (place, found) in _numbered(one, self.settings.text):
            last = number
            if not in_sample(place, self.settings.share, self.settings.seed):
                continue
            self.seen += 1
            if isinstance(found, Document):
                yield number - one.span.first, from_field(found, field)
            else:
                self._lose(one, place, found)
        one.check()
        self.records.append(last - one.span.first + 1)

    def _lose(self, one: Input, place: str, why: BadRecord) -> None:
        self.failed[why.reason] += 1
        shown = self.examples.setdefault(why.reason, [])
        if len(shown) < 3:
            shown.append(place)
        self.rejected.append((place, one.name, why.with_traceback(None)))
        self.ledger.add("read", "in", one.name)
        self.ledger.add("read", "failed", one.name, why.reason)

    def result(self) -> dict[str, Any]:
        return {
            "seen": self.seen, "failed": dict(self.failed), "examples": self.examples, "records": self.records,
            "ledger": json.loads(self.ledger.to_json()),
            "unread": [[place, source, why.reason, why.detail] for place, source, why in self.rejected],
        }  # fmt: skip


def _numbered(one: Input, text: str) -> Iterator[tuple[int, tuple[str, Document | BadRecord]]]:
    reader = parquet if one.span.path.endswith(".parquet") else jsonl
    return reader.numbered(one.span, name=one.name, text=text, column=one.column)


def save(path: str | Path, values: np.ndarray) -> None:
    """Write an array; a full disk is one clear error."""
    with fs.space_for(path):
        if fs.is_remote(path):
            with fs.write_whole(path) as file:
                np.save(file, values)
            return
        # A file of this name may be shared with another run, and is not written into.
        Path(path).unlink(missing_ok=True)
        np.save(path, values)


def by_piece(documents: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield (span, low, high) of sorted numbers of documents."""
    spans, low = np.unique(documents // PLACE, return_index=True)
    ends = np.append(low, len(documents))
    yield from zip(spans.tolist(), ends[:-1].tolist(), ends[1:].tolist(), strict=True)


def _dead(folder: Path, stages: Sequence[Any], at: int, number: int) -> np.ndarray:
    """Return the documents of a span that the stages before did not let through, or that this one could not read."""
    failed = fs.load_array(folder / SKETCH / f"{number:05d}.failed.npy")
    before = gone_before(folder, [stage.name for stage in stages[:at]], number)
    return np.concatenate([failed[failed[:, 1] <= at, 0], before])


def gone_before(folder: Path, names: Sequence[str], number: int) -> np.ndarray:
    """Return the documents of a span that the stages with these names did not let through."""
    gone = [np.empty(0, np.int64)]
    for name in names:
        found = fs.load_array(folder / DECIDED / f"{name}.{number:05d}.verdicts.npy")
        gone.append(found["document"][found["copies"] == 0])
    return np.concatenate(gone)


def alive(folder: Path, stages: Sequence[Any], at: int, number: int, low: int = 0, high: int = 2**64) -> np.ndarray:
    """Return the rows of a span that a stage still sees, of a range of keys if asked; documents numbered among all."""
    stage = stages[at]
    rows = fs.load_array(folder / SKETCH / f"{number:05d}.{stage.name}.npy", mmap_mode="r")
    if (low, high) != (0, 2**64):
        rows = rows[slice(*_ends(rows["key"], low, high))]
    rows = rows[~np.isin(rows["document"], _dead(folder, stages, at, number))]
    rows["document"] += number * PLACE
    if "place" in stage.row.names:
        rows["place"] = rows["document"]
    return rows


def _ends(keys: np.ndarray, low: int, high: int) -> tuple[int, int]:
    start = int(np.searchsorted(keys, np.uint64(low)))
    return start, len(keys) if high >= 2**64 else int(np.searchsorted(keys, np.uint64(high)))


def _range(number: int, ranges: int) -> tuple[int, int]:
    return 2**64 * number // ranges, 2**64 * (number + 1) // ranges


def bare(stage: Any, rows: np.ndarray) -> np.ndarray:
    """Return rows as the stage made them."""
    out = np.empty(len(rows), stage.row)
    for name in stage.row.names:
        out[name] = rows[name]
    return out


def meet(
    folder: Path, at: int, stages: Sequence[Any], pieces: int, ranges: int, number: int, out: Path
) -> dict[str, Any]:
    """Let the rows of a range of keys meet, from all spans."""
    stage, ends = stages[at], _range(number, ranges)
    rows = np.concatenate(
        [np.empty(0, stored_row(stage)), *(alive(folder, stages, at, n, *ends) for n in range(pieces))]
    )
    gone, stead = stage.losers(bare(stage, rows))
    table = np.empty(len(gone), [*GONE.descr, *(("row." + name, kind) for name, kind, *_ in stage.row.descr)])
    table["document"], table["twin"], table["value"] = rows["document"][gone], rows["document"][stead], np.nan
    for name in stage.row.names:
        table[f"row.{name}"] = rows[name][gone]
    save(out / f"{stage.name}.{number:05d}.gone.npy", table[np.argsort(table["document"], kind="stable")])
    return {"gone": len(gone)}


def band(folder: Path, at: int, stages: Sequence[Any], number: int, out: Path) -> dict[str, Any]:
    """Write the band keys of a span, in order."""
    stage, rows = stages[at], alive(folder, stages, at, number)
    keys = stage.keys(bare(stage, rows))
    table = np.empty(keys.size, [("key", "<u8"), ("document", "<i8")])
    table["key"], table["document"] = keys.reshape(-1), np.repeat(rows["document"], keys.shape[1])
    table = table[table["key"] != 0]
    save(out / f"{stage.name}.{number:05d}.keys.npy", table[np.argsort(table["key"], kind="stable")])
    return {"keys": len(table)}


def group(
    folder: Path, at: int, stages: Sequence[Any], pieces: int, ranges: int, number: int, out: Path
) -> dict[str, Any]:
    """Write which documents share a key of a range."""
    name, found = stages[at].name, [np.empty(0, [("key", "<u8"), ("document", "<i8")])]
    for piece in range(pieces):
        table = fs.load_array(folder / DECIDED / f"{name}.{piece:05d}.keys.npy", mmap_mode="r")
        found.append(table[slice(*_ends(table["key"], *_range(number, ranges)))])
    whole = np.concatenate(found)
    starts, members = near_dedup.groups(whole["key"], whole["document"])
    save(out / f"{name}.{number:05d}.starts.npy", starts)
    save(out / f"{name}.{number:05d}.members.npy", members)
    return {"groups": len(starts) - 1}


def all_groups(folder: Path, name: str, ranges: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the groups of all ranges of keys: starts and members."""
    starts, members, before = [np.zeros(1, np.int64)], [np.empty(0, np.int64)], 0
    for number in range(ranges):
        starts.append(fs.load_array(folder / DECIDED / f"{name}.{number:05d}.starts.npy")[1:] + before)
        members.append(fs.load_array(folder / DECIDED / f"{name}.{number:05d}.members.npy"))
        before += len(members[-1])
    return np.concatenate(starts), np.concatenate(members)


def prove(
    folder: Path, at: int, stages: Sequence[Any], number: int, each: Sequence[Input], settings: Settings,
    wanted: np.ndarray, batch: np.ndarray, out: Path,
) -> dict[str, Any]:  # fmt: skip
    """Read the documents of a span that meet others once more, and write what proves them alike."""
    stage, found = stages[at], list[np.ndarray]()
    heads = fs.load_array(folder / SKETCH / f"{number:05d}.heads.npy")
    for doc in _again(each, settings.text, heads[wanted]):
        found.append(stage.evidence(doc))
    if len(found) != len(wanted):
        raise BadInput(
            f"decide: {each[0].span.path} was changed while it was read; run again when nothing writes to it"
        )
    table = np.empty(len(wanted), [("document", "<i8"), ("batch", "<i8"), ("end", "<i8")])
    table["document"], table["batch"] = wanted + number * PLACE, batch
    table["end"] = np.cumsum([len(values) for values in found])
    save(out / f"{stage.name}.{number:05d}.evidence.table.npy", table)
    save(out / f"{stage.name}.{number:05d}.evidence.values.npy", np.concatenate([np.empty(0, np.uint64), *found]))
    return {"values": int(table["end"][-1])}


def _again(each: Sequence[Input], text: str, heads: np.ndarray) -> Iterator[Document]:
    """Yield the documents of a span that these heads name, which come in order; others are not parsed."""
    for at, one in enumerate(each):
        numbers = heads["number"][heads["input"] == at] + one.span.first
        if len(numbers):
            one.check()
            yield from _picked(one, text, iter(numbers.tolist()))
            one.check()


def _picked(one: Input, text: str, numbers: Iterator[int]) -> Iterator[Document]:
    wanted = next(numbers)
    for number, found in rows(one.span):
        if number == wanted:
            doc = jsonl.document("", "", parsed(found), text)
            if one.column:
                doc = jsonl.decided(doc, "", number, one.column)
            if isinstance(doc[1], Document):
                yield doc[1]
            if (wanted := next(numbers, -1)) < 0:
                return


def settle(folder: Path, at: int, stages: Sequence[Any], number: int, out: Path) -> dict[str, Any]:
    """Decide about the documents of a batch."""
    stage, place = stages[at], folder / DECIDED / f"{stages[at].name}.{number:05d}"
    starts, members = fs.load_array(f"{place}.batch-starts.npy"), fs.load_array(f"{place}.batch-members.npy")
    named = np.unique(members)
    rows, offsets = np.empty(len(named), stage.row), np.zeros(len(named) + 1, np.int64)
    parts = []
    for piece, low, high in by_piece(named):
        sketch = fs.load_array(folder / SKETCH / f"{piece:05d}.{stage.name}.npy", mmap_mode="r")
        found = sketch[np.searchsorted(sketch["document"], named[low:high] % PLACE)]
        for field in stage.row.names:
            rows[field][low:high] = found[field]
        table = fs.load_array(folder / DECIDED / f"{stage.name}.{piece:05d}.evidence.table.npy")
        mine = table["batch"] == number
        begin = np.concatenate([[0], table["end"][:-1]])[mine]
        offsets[low + 1 : high + 1] = table["end"][mine] - begin
        parts.append((piece, begin, table["end"][mine]))
    rows["place"] = named
    offsets = np.cumsum(offsets)
    # In a file, because what belongs together may be more than fits in memory.
    with _lent(out / "hashes.npy", int(offsets[-1])) as hashes:
        _fill(hashes, parts, folder / DECIDED, stage.name)
        twin, value = near_dedup.settle(
            rows, starts, np.searchsorted(named, members), (offsets, hashes), stage.threshold, keep=stage.keep
        )
    gone = np.flatnonzero(twin >= 0)
    table = np.empty(len(gone), GONE)
    table["document"], table["twin"], table["value"] = named[gone], named[twin[gone]], value[gone]
    save(out / f"{stage.name}.{number:05d}.gone.npy", table)
    return {"gone": len(gone)}


@contextlib.contextmanager
def _lent(path: Path, size: int) -> Iterator[np.ndarray]:
    """Lend an array in a file that is gone afterwards."""
    with fs.space_for(path):
        lent = np.lib.format.open_memmap(path, "w+", np.uint64, (max(1, size),))
        if hasattr(os, "posix_fallocate"):
            # A full disk is noticed here: a mapped page that finds no room kills the process.
            with open(path, "rb+") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    try:
        yield lent
    finally:
        del lent
        path.unlink()


def _fill(out: np.ndarray, parts: Sequence[tuple[int, np.ndarray, np.ndarray]], folder: Path, name: str) -> None:
    """Put the shingles of some documents of some spans behind each other."""
    at = 0
    for piece, begins, ends in parts:
        values = fs.load_array(folder / f"{name}.{piece:05d}.evidence.values.npy", mmap_mode="r")
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            out[at : at + end - begin] = values[begin:end]
            at += end - begin


def collect(
    folder: Path, at: int, stages: Sequence[Any], number: int, gone: Sequence[str], limit: np.ndarray | None, out: Path
) -> dict[str, Any]:
    """Bring together what a stage decided about the documents of a span."""
    stage = stages[at]
    if limit is not None:
        found, cuts = _copies(stage, alive(folder, stages, at, number), limit)
    else:
        parts = [fs.load_array(folder / name, mmap_mode="r") for name in gone]
        ends = [number * PLACE, (number + 1) * PLACE]
        mine = [part[slice(*np.searchsorted(part["document"], ends))] for part in parts]
        # Without any part: nobody met anybody.
        table = np.concatenate(mine) if mine else np.empty(0, GONE)
        table = table[np.argsort(table["document"], kind="stable")]
        found, cuts = _pieces(stage, table) if "row.start" in (table.dtype.names or ()) else _dropped(stage, table)
    found["document"] %= PLACE
    cuts["document"] %= PLACE
    save(out / f"{stage.name}.{number:05d}.verdicts.npy", found)
    save(out / f"{stage.name}.{number:05d}.cuts.npy", cuts)
    return {"verdicts": len(found)}


def _copies(stage: Any, rows: np.ndarray, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Documents that come not at all, or more than once."""
    copies = mixture.copies(rows, limit)
    if len(copies) and copies.max() > verdicts.MOST:
        raise BadParameter(
            f"decide: {stage.name} wants a document {copies.max():,} times; {verdicts.MOST:,} are possible"
        )
    told = np.flatnonzero(copies != 1)
    found = np.zeros(len(told), VERDICT)
    found["document"], found["copies"] = rows["document"][told], copies[told]
    found["value"] = found["limit"] = np.nan
    found["twin"] = -1
    return found, np.empty(0, CUT)


def _dropped(stage: Any, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Documents that go for the one reason of a stage, each with its twin."""
    found = np.zeros(len(table), VERDICT)
    for name in ("document", "twin", "value"):
        found[name] = table[name]
    found["limit"] = getattr(stage, "threshold", np.nan)
    return found, np.empty(0, CUT)


def _pieces(stage: Any, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Documents that lose parts, which a stage joins; whoever would lose all goes."""
    table = table[np.lexsort([table["row.start"], table["document"]])]
    rows = np.empty(len(table), stage.row)
    for name in stage.row.names:
        rows[name] = table[f"row.{name}"]
    documents, first = np.unique(table["document"], return_index=True)
    found, cuts = np.zeros(len(documents), VERDICT), list[tuple[int, int, int]]()
    found["document"], found["twin"] = documents, table["twin"][first]
    found["value"] = found["limit"] = np.nan
    ends = np.append(first, len(table))
    for at, (begin, end) in enumerate(itertools.pairwise(ends)):
        verdict = stage.verdict(rows[begin:end], "")
        if isinstance(verdict, Cut):
            found["copies"][at] = 1
            cuts += [(int(documents[at]), *span) for span in verdict.spans]
    return found, np.array(cuts, CUT)


def apply(
    folder: Path, number: int, each: Sequence[Input], stages: Sequence[Any], settings: Settings,
    told: Mapping[str, Any], out: Path,
) -> dict[str, Any]:  # fmt: skip
    """Settle what becomes of the documents of a span: count, write columns, and put aside who goes."""
    span = _Span(folder, number, told)
    for stage in stages:
        span.pass_through(stage)
    ends = np.concatenate([[0], np.cumsum(told["records"])])
    copies, cuts = np.zeros(ends[-1], np.uint16), list[tuple[int, int, int]]()
    place = ends[span.heads["input"]] + span.heads["number"]
    copies[place] = span.copies
    for at, one in enumerate(each):
        mine = np.flatnonzero((span.heads["input"] == at) & (span.copies > 0))
        cuts += _whole_cuts(one, mine, place, span)
    save(out / f"{number:05d}.copies.npy", copies)
    save(out / f"{number:05d}.spans.npy", np.array(sorted(cuts), verdicts.CUTS))
    writer = RejectedWriter(out / f"{number:05d}.{rejected.NAME}", settings.seed, everything=settings.everything)
    with writer:
        for name, source, reason, detail in told["unread"]:
            writer.add(name, source, "read", BadRecord(reason, detail), lambda: None)
        order = sorted(span.lost)
        texts = _again(each, settings.text, span.heads[order]) if order else iter(())
        for document, doc in zip(order, texts, strict=True):
            stage_name, why = span.lost[document]
            writer.add(span.id(number, document), span.source(document), stage_name, why, partial(getattr, doc, "text"))
    return span.result()


def _whole_cuts(one: Input, mine: np.ndarray, place: np.ndarray, span: _Span) -> Iterator[tuple[int, int, int]]:
    """Yield what is cut from the texts as they lie in the file: by an earlier decision, and by this one."""
    known = bool(one.column and len(one.column.cuts))
    for document in mine if known else mine[np.isin(mine, list(span.cuts))]:
        before = one.column.cut(int(span.heads["number"][document]) + one.span.first) if one.column else None
        for start, stop in verdicts.joined(before.spans if before else (), span.cuts.get(document, ())):
            yield int(place[document]), start, stop


class _Span:
    """The documents of one span on their way through the stages."""

    def __init__(self, folder: Path, number: int, told: Mapping[str, Any]) -> None:
        self.folder, self.number, self.told = folder, number, told
        self._loaded = {number: self._load(number)}
        self.heads = self._loaded[number][0]
        self.copies = np.ones(len(self.heads), np.int64)
        self.characters = self.heads["characters"].copy()
        self.failed = fs.load_array(folder / SKETCH / f"{number:05d}.failed.npy")
        self.cuts: dict[int, list[tuple[int, int]]] = {}
        self.lost: dict[int, tuple[str, Drop | BadRecord]] = {}
        self.ledger, self.tallies = Ledger.from_json(json.dumps(told["ledger"])), Counter[tuple[str, ...]]()
        self.examples: dict[str, list[str]] = {}
        self.passed = 0
        everyone = np.arange(len(self.heads))
        self._count("read", "in", everyone)
        self._count("read", "kept", everyone)

    def _load(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        place = self.folder / SKETCH / f"{number:05d}"
        return fs.load_array(f"{place}.heads.npy", mmap_mode="r"), fs.load_array(f"{place}.ids.npy", mmap_mode="r")

    def id(self, number: int, document: int) -> str:
        """Return the id of a document of any span."""
        if number not in self._loaded:
            self._loaded[number] = self._load(number)
        heads, ids = self._loaded[number]
        begin = heads["id_end"][document - 1] if document else 0
        return bytes(ids[begin : heads["id_end"][document]]).decode("utf-8", "surrogatepass")

    def source(self, document: int) -> str:
        return str(self.told["names"][self.heads["source"][document]])

    def _count(
        self, stage: str, flow: str, documents: np.ndarray, reason: str = "", times: np.ndarray | None = None
    ) -> None:
        """Count documents, each as often as told, by source."""
        often = np.ones(len(documents), np.int64) if times is None else times
        source, names = self.heads["source"][documents], self.told["names"]
        numbers = np.bincount(source, often, len(names)).astype(np.int64)
        characters = np.bincount(source, often * self.characters[documents], len(names)).astype(np.int64)
        for at in np.flatnonzero(np.bincount(source, minlength=len(names))):
            self.ledger.add(stage, flow, names[at], reason, documents=numbers[at], characters=characters[at])

    def pass_through(self, stage: Any) -> None:
        """Apply what one stage decided."""
        here = np.flatnonzero(self.copies)
        self._count(stage.name, "in", here)
        for document in self.failed[self.failed[:, 1] == self.passed, 0].tolist():
            if self.copies[document]:
                reason, detail = self.told["lost"][str(document)]
                self._lose(stage, document, BadRecord(reason, detail))
        self.passed += 1
        place = self.folder / DECIDED / f"{stage.name}.{self.number:05d}"
        found, cuts = fs.load_array(f"{place}.verdicts.npy"), fs.load_array(f"{place}.cuts.npy")
        for verdict in found[found["copies"] == 0]:
            self._lose(stage, int(verdict["document"]), self._drop(stage, verdict))
        self._cut(stage, cuts)
        again = found[found["copies"] > 1]
        self._count(stage.name, "repeated", again["document"], times=again["copies"].astype(np.int64) - 1)
        self.copies[again["document"]] = again["copies"]
        kept = np.flatnonzero(self.copies)
        self._count(stage.name, "kept", kept, times=self.copies[kept])

    def _drop(self, stage: Any, verdict: np.void) -> Drop:
        value, limit = (None if np.isnan(verdict[name]) else float(verdict[name]) for name in ("value", "limit"))
        twin = int(verdict["twin"])
        named = self.id(*divmod(twin, int(PLACE))) if twin >= 0 else None
        return Drop(stage.reasons[verdict["reason"]], value, limit, named)

    def _lose(self, stage: Any, document: int, why: Drop | BadRecord) -> None:
        self.copies[document] = 0
        self.lost[document] = stage.name, why
        flow = "dropped" if isinstance(why, Drop) else "failed"
        self._count(stage.name, flow, np.array([document]), why.reason)
        shown = self.examples.setdefault(why.reason, [])
        if len(shown) < 3:
            shown.append(self.id(self.number, document))

    def _cut(self, stage: Any, cuts: np.ndarray) -> None:
        for document, start, stop in cuts.tolist():
            self.cuts.setdefault(document, []).append((start, stop))
            self.characters[document] -= stop - start
        for document in np.unique(cuts["document"]).tolist():
            self.tallies[stage.name, "cut", self.source(document), stage.reasons[0]] += 1

    def result(self) -> dict[str, Any]:
        return {
            "ledger": json.loads(self.ledger.to_json()), "examples": self.examples,
            "documents": int(self.copies.sum()), "characters": int((self.copies * self.characters).sum()),
            "tallies": [[*at, number] for at, number in sorted(self.tallies.items())],
        }  # fmt: skip
