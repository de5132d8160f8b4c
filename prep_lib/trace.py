"""A token in a batch, back to its source line and every decision on the way; and forward, to the step that reads it.

    back      shard 0, row 3, position 17   id 284 " hello"
              └ piece                       token 12 of 130 of web.jsonl#L5 (record d4, source web, language en)
              └ decisions                   20_export  export   kept
                                            15_pack    read     kept
                                            15_pack    process  kept
                                            15_pack    pack     kept   concat, piece 2 of 3 of the row
              └ record                      {"id": "d4", "text": …}   where the input is still there, unchanged

    forward   web.jsonl#L5, or record d4    shard 0, row 3, from 5, tokens 1 to 30 ; shard 0, row 4, …
              └ step                        epoch 0, step 12, rank 1, row 3 of its batch
              web.jsonl#L7                  15_pack    process  dropped   empty

An input is found by name and recognised by the digest that the manifest keeps of it.
"""

from __future__ import annotations

import functools
import glob
import itertools
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import yaml

from prep_lib.documents import NAME as DOCUMENTS
from prep_lib.errors import BadInput, BadParameter, BadRecord
from prep_lib.files import Span, digest, open_bytes, place, read_lines, stamp
from prep_lib.ledger import Ledger
from prep_lib.shards.formats import open_shard
from prep_lib.shards.manifest import NAME, packing_algorithm, read_manifest
from prep_lib.shards.shard import Shard, document_id
from prep_lib.source import jsonl, parquet
from prep_lib.verdicts import first_copy

if TYPE_CHECKING:
    # The loader brings torch; only who asks for a step has one.
    from prep_lib.feed.loader import Loader
    from prep_lib.shuffle.order import Order
    from prep_lib.tokens.tokenizer import AutoTokenizer

#: Inputs above this are not digested to be recognised: their name has to do, bytes.
MAX_DIGESTED = 4 * 2**30

#: Characters of a record that a printed trace shows.
SHOWN = 300


@dataclass(frozen=True)
class Piece:
    """A part of a document in a row.

    Parameters
    ----------
    document : str
        ``web.jsonl#L12``; empty where nobody wrote it down.
    record_id, source, language : str or None
        What the record says of itself; None where it says nothing.
    at : int, tokens
        Where the piece begins in the row.
    start, length : int, tokens
        Where it begins in its document, and how long it is.
    tokens : int or None
        Of the whole document, its EOS counted; None where nobody wrote it down.
    """

    document: str
    record_id: str | None
    source: str | None
    language: str | None
    at: int
    start: int
    length: int
    tokens: int | None

    def __str__(self) -> str:
        whole = "" if self.tokens is None else f" of {self.tokens:,}"
        span = f"{self.start + 1:,} to {self.start + self.length:,}"
        return f"{_plain(self.document) or 'unknown document'}: tokens {span}{whole}"


@dataclass(frozen=True)
class Place:
    """Where a part of a document is stored.

    Parameters
    ----------
    shard : int
        In the order of the manifest.
    file : str
    row : int
        In the shard.
    at, start, length : int, tokens
        As for `Piece`.
    number : int
        Of the row over all shards: what a loader calls it.
    """

    shard: int
    file: str
    row: int
    at: int
    start: int
    length: int
    number: int

    def __str__(self) -> str:
        tokens = f"tokens {self.start + 1:,} to {self.start + self.length:,}"
        return f"{self.file}, row {self.row:,} from {self.at:,}: {tokens}"


@dataclass(frozen=True)
class Decision:
    """What a stage did with a document.

    Parameters
    ----------
    folder : str
        The name of the folder the stage wrote.
    stage : str
    flow : str
        kept, dropped, failed, or remainder.
    reason, detail : str
        Empty where there is none.
    value, limit : float or None
        What was measured, and where the limit stood.
    """

    folder: str
    stage: str
    flow: str
    reason: str = ""
    detail: str = ""
    value: Any = None
    limit: Any = None

    def __str__(self) -> str:
        measured = f"{self.value} against {self.limit}" if self.value is not None else ""
        told = [text for text in (self.reason, measured, _plain(self.detail)) if text]
        return f"{self.folder}  {self.stage}  {self.flow}{'  ' + ', '.join(told) if told else ''}"


@dataclass(frozen=True)
class Trace:
    """What is known of one token, or of one row.

    Parameters
    ----------
    file : str
        The shard.
    row : int
    position : int or None
        None: the row as a whole.
    token : int or None
        The id at that position.
    text : str or None
        What it stands for; None without a tokenizer.
    piece : Piece or None
        Which the position lies in; None for padding, or without a position.
    pieces : tuple of Piece
        All of the row.
    decisions : tuple of Decision
        On the document of `piece`, the earliest first.
    record : dict or None
        As it was read; None where the input was not found.
    record_file : str or None
        Where it was found.
    """

    file: str
    row: int
    position: int | None
    token: int | None
    text: str | None
    piece: Piece | None
    pieces: tuple[Piece, ...]
    decisions: tuple[Decision, ...]
    record: dict[str, Any] | None
    record_file: str | None

    @property
    def nth(self) -> int | None:
        """Which token of its document it is, from 1."""
        return (
            None
            if self.piece is None or self.position is None
            else self.piece.start + self.position - self.piece.at + 1
        )

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        where = f"{self.file}, row {self.row:,}"
        if self.position is None:
            yield f"{where}: {len(self.pieces):,} pieces"
            yield from (f"  from {piece.at:,}  {piece}" for piece in self.pieces)
            return
        text = "" if self.text is None else f" {_plain(repr(self.text))}"
        yield f"{where}, position {self.position:,}: id {self.token}{text}"
        if self.piece is None:
            yield "padding: it belongs to no document"
            return
        whole = "" if self.piece.tokens is None else f" of {self.piece.tokens:,}"
        told = {"record": self.piece.record_id, "source": self.piece.source, "language": self.piece.language}
        said = ", ".join(f"{name} {_plain(value)}" for name, value in told.items() if value)
        document = _plain(self.piece.document) or "an unknown document"
        yield f"token {self.nth:,}{whole} of {document}{f' ({said})' if said else ''}"
        yield from (f"  {decision}" for decision in self.decisions)
        if self.record is not None:
            spelled = _plain(json.dumps(self.record, ensure_ascii=False))
            yield f"{self.record_file}: {spelled[:SHOWN]}{'…' * (len(spelled) > SHOWN)}"


def _plain(text: str) -> str:
    """Spell what a terminal would obey, or a reader not see."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


# Back


def trace(
    folder: str | Path,
    shard: int,
    row: int,
    position: int | None = None,
    *,
    tokenizer: AutoTokenizer | None = None,
    inputs: Sequence[str | Path] | str | Path = (),
) -> Trace:
    """Say where a token, or the pieces of a row, come from.

    Parameters
    ----------
    folder : path
        Of shards, with their manifest.
    shard : int
        In the order of the manifest.
    row : int
        In the shard.
    position : int or None
        In the row, from 0. None: the row as a whole.
    tokenizer : AutoTokenizer or None
        For the text of the token.
    inputs : path or sequence of paths
        Where the input files may be, besides the run the folder belongs to.

    Returns
    -------
    Trace
        Printed, it is what the command says.

    Raises
    ------
    BadParameter
        If there is no such shard, row or position.
    BadShard
        If the folder is not complete or a shard cannot be read.
    """
    stored = _Stored(folder, inputs)
    opened, entry = stored.open(shard), stored.entries[shard]
    if not 0 <= row < len(opened):
        raise BadParameter(f"trace: {entry['file']} has no row {row}; it has {len(opened):,}")
    pieces = tuple(_pieces(opened, row))
    if position is None:
        return Trace(entry["file"], row, None, None, None, None, pieces, (), None, None)
    values = np.atleast_1d(opened.row(row)[opened.ids[0]])
    if not 0 <= position < len(values):
        raise BadParameter(f"trace: row {row} of {entry['file']} has {len(values):,} tokens; there is no {position}")
    token = int(values[position])
    text = None if tokenizer is None else tokenizer.decode([token])
    piece = next((one for one in pieces if one.at <= position < one.at + one.length), None)
    decisions = () if piece is None else tuple(stored.kept(piece, pieces))
    found = stored.record(piece.document) if piece is not None else None
    return Trace(entry["file"], row, position, token, text, piece, pieces, decisions, *(found or (None, None)))


def _pieces(shard: Shard, row: int) -> Iterator[Piece]:
    found, at = shard.segments(row), 0
    for start, length, document in zip(
        *(found[name].tolist() for name in ("start", "length", "document")), strict=True
    ):
        yield _piece(shard, document, at, start, length)
        at += length


def _piece(shard: Shard, document: int, at: int, start: int, length: int) -> Piece:
    columns = shard.document_columns
    if not columns:
        return Piece("", None, None, None, at, start, length, None)
    source, language = shard.groups[columns["group"][document]] if shard.groups else (None, None)
    own = shard.record_ids[document] if shard.record_ids else None
    tokens = int(columns["tokens"][document]) if "tokens" in columns else None
    return Piece(shard.document(document), own, source, language, at, start, length, tokens)


# Forward


def where(folder: str | Path, document: str) -> list[Place]:
    """Return where the parts of a document are stored, in the order of its text; none if it is not.

    Parameters
    ----------
    folder : path
        Of shards, with their manifest.
    document : str
        ``web.jsonl#L12``, ``web.parquet[11]``, or the record's own id.

    Raises
    ------
    BadShard
        If the folder is not complete or a shard cannot be read.
    """
    return _Stored(folder).places(document)


def decisions(folder: str | Path, document: str, *, inputs: Sequence[str | Path] | str | Path = ()) -> list[Decision]:
    """Return what the stages of a run did with a document, the earliest first.

    Raises
    ------
    BadInput
        If nobody knows it: it is neither in the shards nor among what was rejected.
    """
    stored = _Stored(folder, inputs)
    places = stored.places(document)
    if not places:
        return list(stored.lost(document))
    pieces = tuple(_pieces(stored.open(places[0].shard), places[0].row))
    piece = next(one for one in pieces if one.at == places[0].at)
    told = list(stored.kept(piece, pieces))
    if missing := (piece.tokens or 0) - sum(place.length for place in places):
        told += [stored.unwritten(missing)] if missing > 0 else []
    return told


@dataclass(frozen=True)
class Step:
    """When a row is read: in `epoch`, at `step`, by `rank`, as row `number` of its batch; all from 0."""

    row: int
    epoch: int
    step: int
    rank: int
    number: int

    def __str__(self) -> str:
        return f"epoch {self.epoch}, step {self.step:,}, rank {self.rank}, row {self.number:,} of its batch"


def step_of(loader: Loader, rows: Sequence[int], epoch: int = 0, *, order: Order | None = None) -> list[Step | None]:
    """Return the training step at which each row is read; None for a row that is dropped at the end of the epoch.

    Parameters
    ----------
    loader : Loader
        Of `create_dataloader`, of any rank: batch size, ranks, seed and shuffling are taken from it.
    rows : sequence of int
        Numbers over all shards, as `Place.number` says them.
    epoch : int, from 0
    order : Order or None
        None: the loader's of that epoch. Where `PreProcessedDataset.set_epoch` numbers the rows anew:
        ``ShardOrder(dataset.sizes, seed, epoch)``.

    Raises
    ------
    BadParameter
        If there is no such row.
    """
    dataset: Any = loader.dataset
    found = (order or dataset.order(loader.shuffle, loader.seed, epoch)).places(np.asarray(rows, np.int64))
    return [_step(loader, row, epoch, place) for row, place in zip(rows, found.tolist(), strict=True)]


def _step(loader: Loader, row: int, epoch: int, place: int) -> Step | None:
    steps = loader.steps
    if place // steps.width >= steps.count():
        return None
    return Step(int(row), epoch, *steps.find(place))


def own_tokenizer(folder: str | Path) -> AutoTokenizer | None:
    """Return the tokenizer that is kept in the run a folder belongs to, if it is the one its ids were made with."""
    from prep_lib.tokens.tokenizer import AutoTokenizer

    stored = _Stored(folder)
    kept = None if stored.run is None else stored.run / "tokenizer"
    if kept is None or not (kept / "tokenizer.json").is_file():
        return None
    tokenizer = AutoTokenizer.load(kept)
    return tokenizer if tokenizer.describe()["sha256"] == (stored.manifest["tokenizer"] or {}).get("sha256") else None


# A folder of shards, and the run it belongs to


class _Stored:
    """A folder of shards, with what can be found of its inputs."""

    def __init__(self, folder: str | Path, inputs: Sequence[str | Path] | str | Path = ()) -> None:
        self.folder = place(folder).resolve()
        self.manifest = read_manifest(self.folder)
        self.entries: list[dict[str, Any]] = self.manifest["shards"]
        self._given = [place(path) for path in ([inputs] if isinstance(inputs, str | Path) else inputs)]
        self._known: dict[str, Path | None] = {}

    def open(self, shard: int) -> Shard:
        if not 0 <= shard < len(self.entries):
            raise BadParameter(f"trace: {self.folder} has no shard {shard}; it has {len(self.entries):,}, from 0")
        return open_shard(self.folder / self.entries[shard]["file"])

    @cached_property
    def names(self) -> list[str]:
        """The inputs by name, as the manifest lists their digests."""
        return list((self.manifest["recipe"] or {}).get("inputs", ()))

    # Places

    def places(self, document: str) -> list[Place]:
        first, found = 0, list[Place]()
        file = split_id(document)
        # An id of an earlier run names a file too, but none of these inputs.
        here = file is not None and any(file[0] in entry["sources"] for entry in self.entries)
        for number, entry in enumerate(self.entries):
            if file is None or not here or file[0] in entry["sources"] or not entry["sources"]:
                found += self._in_shard(number, entry["file"], document, first)
            first += entry["sequences"]
        return sorted(found, key=lambda place: (place.start, place.number))

    def _in_shard(self, number: int, name: str, document: str, first: int) -> Iterator[Place]:
        shard = self.open(number)
        for one in _documents(shard, document):
            rows = shard.segment_columns["row"][shard.segment_columns["document"] == one] if shard.packed else [one]
            for row in dict.fromkeys(np.asarray(rows).tolist()):
                found, at = shard.segments(row), 0
                lists = (found[part].tolist() for part in ("start", "length", "document"))
                for start, length, held in zip(*lists, strict=True):
                    if held == one:
                        yield Place(number, name, row, at, start, length, first + row)
                    at += length

    # Decisions

    def kept(self, piece: Piece, pieces: Sequence[Piece]) -> Iterator[Decision]:
        """Yield what was decided on a document that is stored."""
        yield from self._before(piece.document)
        for stage in _stages(self.folder / "ledger.json"):
            yield Decision(self.folder.name, stage, "kept")
        yield Decision(self.folder.name, "pack", "kept", detail=self._packed(piece, pieces))

    def _packed(self, piece: Piece, pieces: Sequence[Piece]) -> str:
        algorithm = packing_algorithm(self.manifest)
        if algorithm is None:
            return "not packed: a row of its own"
        cut = piece.tokens is not None and piece.length < piece.tokens
        said = f"{algorithm}, piece {pieces.index(piece) + 1} of {len(pieces)} of the row"
        return f"{said}, cut: {piece.length:,} of its {piece.tokens:,} tokens stand here" if cut else said

    def lost(self, document: str) -> Iterator[Decision]:
        """Yield what was decided on a document that is not stored."""
        yield from self._before(document)
        # Other shards of the run turned it down for themselves only.
        others = (folder for folder in self._run_folders() if not (folder / NAME).is_file())
        told = next((found for folder in (self.folder, *others) if (found := list(_rejections(folder, document)))), [])
        if told:
            yield from told
        elif self.record(document) is None:
            raise BadInput(
                f"trace: nobody knows {document!r}: it is neither in {self.folder} nor among what was rejected; an id "
                f"looks like {document_id(self.names[0] if self.names else 'web.jsonl', 12)}, or is the record's own"
            )
        elif (self.manifest["recipe"] or {}).get("sample"):
            yield Decision(self.folder.name, "read", "dropped", "not_in_the_sample")
        elif (self.manifest["recipe"] or {}).get("through_verdicts"):
            yield Decision(self.folder.name, "read", "dropped", "not_let_through", "by the verdicts it was read with")
        else:
            yield self.unwritten(None)

    def unwritten(self, tokens: int | None) -> Decision:
        """Say what became of the end of the stream, where it does not fill a row."""
        which = "its tokens are" if tokens is None else f"{tokens:,} of its tokens are"
        left = self.manifest["dropped_remainder_tokens"]
        return Decision(
            self.folder.name, "pack", "remainder", "", f"{which} among the {left:,} of the last, unfilled row"
        )

    def _before(self, document: str) -> Iterator[Decision]:
        """Yield the decisions of the folder that wrote the document's file, and of those before it."""
        file = split_id(document)
        path = self.input(file[0]) if file else None
        if path is None or path.parent == self.folder:
            return
        if chain := self._chain(path.parent):
            for folder in chain:
                yield from (Decision(folder.name, stage, "kept") for stage in _stages(folder / "ledger.json"))
            return
        if (path.parent / NAME).is_file():
            yield from _Stored(path.parent, self._given)._before(document)
        for ledger in sorted(path.parent.glob("*ledger.json")):
            if path.name.startswith(ledger.name.removesuffix("ledger.json")):
                yield from (Decision(path.parent.name, stage, "kept") for stage in _stages(ledger))

    def _chain(self, last: Path) -> list[Path]:
        """Return the folders of documents of this run, in the order of its notebooks, that a stored document passed."""
        if self.run is None or not (last / DOCUMENTS).is_file():
            return []
        mine = self.folder.relative_to(self.run / "data").parts[0]
        found = [path for path in self._run_folders() if (path / DOCUMENTS).is_file()]
        named = ((path.relative_to(self.run / "data").parts, path) for path in found)
        # What a notebook wrote into a folder inside came before what it ended with.
        ordered = sorted(named, key=lambda item: (item[0][0], len(item[0]) == 1, item[0]))
        return [path for parts, path in ordered if parts[0] < mine]

    # Inputs

    def record(self, document: str) -> tuple[dict[str, Any], str] | None:
        """Return a record as it was read, and the path of its file; None if it is not to be found."""
        file = split_id(document)
        path = self.input(file[0]) if file else None
        if file is None or path is None:
            return None
        found = _read_record(path, file[1])
        return None if found is None else (found, str(path))

    def input(self, name: str) -> Path | None:
        """Return where an input is, None if nowhere as it was."""
        if name not in self._known:
            self._known[name] = next((path for path in self._candidates(name) if self._is(path, name)), None)
        return self._known[name]

    def _is(self, path: Path, name: str) -> bool:
        parents = self.manifest["parents"]
        wanted = [parents[self.names.index(name)]] if name in self.names[: len(parents)] else parents
        size, modified = stamp(path)
        return size > MAX_DIGESTED or _digest(path, size, modified) in wanted

    def _candidates(self, name: str) -> Iterator[Path]:
        base = first_copy(Path(name).name)
        named = itertools.chain(self._given, self._of_recipe(), self._run_folders(), [self.folder.parent])
        tried = (path / base if path.is_dir() else path for path in named)
        for path in dict.fromkeys(path.resolve() for path in tried if path.name == base):
            if path.is_file():
                yield path

    @cached_property
    def run(self) -> Path | None:
        """The run this folder belongs to: ``runs/NAME`` above ``data``."""
        above = (path.parent for path in self.folder.parents if path.name == "data")
        return next(
            (path for path in above if (path / "run.jsonl").is_file() or (path / "recipe.yaml").is_file()), None
        )

    def _run_folders(self) -> list[Path]:
        if self.run is None:
            return [self.folder]
        inside = sorted(path for path in (self.run / "data").rglob("*") if path.is_dir())
        return [path for path in inside if not any(part.startswith(".") for part in path.parts[len(self.run.parts) :])]

    def _of_recipe(self) -> Iterator[Path]:
        """Yield files and folders that the run's parameters name, relative to its workspace."""
        if self.run is None:
            return
        try:
            recipe = yaml.safe_load((self.run / "recipe.yaml").read_text("utf-8"))
        except (OSError, yaml.YAMLError):
            return
        for text in _texts(recipe):
            for word in _words(text):
                whole = self.run.parents[1] / Path(word).expanduser()
                yield from map(Path, glob.glob(str(whole), recursive=True))


@functools.lru_cache(maxsize=256)
def _digest(path: Path, size: int, mtime_ns: int) -> str:
    """Digest a file once, as long as it looks the same."""
    return digest(path)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)


def _words(text: str) -> list[str]:
    try:
        return [word for word in shlex.split(text) if 0 < len(word) < 4096]
    except ValueError:
        return []


def split_id(document: str) -> tuple[str, int] | None:
    """Return file and number of a document's id; None for a record's own id.

    Examples
    --------
    >>> split_id("a.jsonl#L12"), split_id("b.parquet[3]"), split_id("d4")
    (('a.jsonl', 12), ('b.parquet', 3), None)
    """
    found = re.fullmatch(r"(.+)#L(\d+)|(.+\.parquet)\[(\d+)\]", document, re.DOTALL)
    return None if found is None else (found[1] or found[3], int(found[2] or found[4]))


def _documents(shard: Shard, document: str) -> list[int]:
    """Return the numbers a shard gives to a document."""
    columns, file = shard.document_columns, split_id(document)
    if not columns:
        return []
    if file is not None and file[0] in shard.sources:
        source = shard.sources.index(file[0])
        return np.flatnonzero((columns["source"] == source) & (columns["line"] == file[1])).tolist()
    return [at for at, own in enumerate(shard.record_ids) if own == document]


def _stages(path: Path) -> list[str]:
    """Return the stages that documents passed, as a ledger lists them."""
    try:
        ledger = Ledger.from_json(path.read_bytes())
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [stage for stage in ledger.stages if ledger.total(stage, "in")]


def _rejections(folder: Path, document: str) -> Iterator[Decision]:
    """Yield what the files of rejected records in a folder say of a document: which stages kept it, and which not."""
    for path in sorted(folder.glob("*rejected.jsonl*")):
        with open_bytes(path) as file:
            for line in map(orjson.loads, file):
                if line["id"] == document or _own_id(line) == document:
                    stages = _stages(path.with_name(f"{path.name.split('rejected.')[0]}ledger.json"))
                    before = stages[: stages.index(line["stage"])] if line["stage"] in stages else []
                    yield from (Decision(folder.name, stage, "kept") for stage in before)
                    measured = (line.get(name) for name in ("value", "limit"))
                    twin = f"for {line['twin']}" if line.get("twin") else ""
                    flow, detail = line.get("flow", "failed"), line.get("detail") or twin
                    yield Decision(folder.name, line["stage"], flow, line["reason"], detail, *measured)


def _own_id(line: Mapping[str, Any]) -> str | None:
    try:
        record = orjson.loads(line.get("text") or "null")
    except ValueError:
        return None
    own = record.get("id") if isinstance(record, dict) else None
    return own if isinstance(own, str) else None


def _read_record(path: Path, number: int) -> dict[str, Any] | None:
    """Return a record by its number in its file; None if there is none, or it cannot be read."""
    try:
        if path.name.endswith(".parquet"):
            span = next((span for span in reversed(parquet.survey(path).spans) if span.first <= number), None)
            rows: Iterator[tuple[int, Any]] = iter(()) if span is None else parquet.read_records(span)
        else:
            rows = iter(read_lines(Span(str(path))))
        found = next((value for at, value in rows if at == number), None)
        return jsonl.loads(found) if isinstance(found, bytes) else found if isinstance(found, dict) else None
    except (BadRecord, BadInput):
        return None
