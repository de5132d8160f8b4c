"""Files, data sets and the hub, opened as rows in a fixed order, each with an id.

"a.jsonl"  "in/*.csv"  [paths]    ──▶  a.jsonl#L7     lines are bytes, not parsed yet
"b.parquet"                       ──▶  b.parquet[6]   the other rows are dicts,
Dataset, folder, "name[train]"    ──▶  name[6]        or a BadRecord with its reason
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import functools
import glob
import heapq
import io
import itertools
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prep_lib import seeds
from prep_lib.errors import BadInput, BadParameter, BadRecord, DamagedStream, unknown
from prep_lib.files import Span, compression, digest, is_remote, natural, open_bytes, read_lines, stamp
from prep_lib.source import jsonl, parquet

#: A row on its way: the name the ledger counts it under, its id, and the row or what is not parsed yet.
Row = tuple[str, str, Any]

#: Bytes of a Dataset turned into Python objects at once.
BATCH = 4 * 2**20


@dataclass(frozen=True)
class Source:
    """Rows in a fixed order, wherever they come from.

    Parameters
    ----------
    name : str
        For messages and ids.
    read : callable
        ``read(start)`` yields `Row` from row number `start` on. Rows that are bytes are not parsed yet.
    identity : JSON-able or None
        Equal for equal rows; None: cannot be known beforehand.
    size : int or None
        Rows, if known.
    columns : tuple of str or None
        If every row has the same.
    binary : dict of str
        Columns that hold bytes, and what of: "bytes", "Image data".
    """

    name: str
    read: Callable[[int], Iterator[Row]]
    identity: Any = None
    size: int | None = None
    columns: tuple[str, ...] | None = None
    binary: dict[str, str] = field(default_factory=dict)


def open_source(dataset: Any, prefix: str = "data", sample: int = 0, seed: int = 42, *, whole: bool = False) -> Source:
    """Find out what `dataset` is and how its rows are read.

    Parameters
    ----------
    dataset : Dataset, IterableDataset, DatasetDict of one split, path, list of paths, or str
        A path is a file (``.jsonl``, ``.json``, ``.csv``, ``.parquet``; all but Parquet also ``.gz`` or ``.zst``), a
        pattern of files (``data/*.jsonl``), or a folder (saved by ``save_to_disk``, or anything ``load_dataset``
        opens). Another str is a name on the Hugging Face hub: ``name``, ``name:config``, ``name[split]``,
        ``name:config[split]``; its cache, ``HF_HOME``, ``HF_HUB_OFFLINE`` and ``HF_DATASETS_OFFLINE`` are respected.
    prefix : str
        Names the rows of a data set that has no name.
    sample : int, rows
        Draw that many by a hash of each row's id; 0: all.
    seed : int
        Of the sample.
    whole : bool
        True: images and audio are decoded, for a function that wants them.

    Raises
    ------
    BadInput
        If the data set cannot be loaded.
    BadParameter
        If it has several splits, is given twice, or is nothing that could be opened.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "a.jsonl")
    >>> _ = path.write_text('{"text": "a"}\\n')
    >>> [*open_source(path).read(0)]
    [('a.jsonl', 'a.jsonl#L1', b'{"text": "a"}')]
    """
    name = prefix
    if isinstance(dataset, str | os.PathLike | list | tuple):
        paths = _find_files(dataset)
        if paths is not None:
            source = _files_source(paths)
            return _sampled(source, sample, seed) if sample else source
        name, dataset = _load(os.fspath(dataset))  # type: ignore[arg-type]
    return _object_source(dataset, name, sample, seed, whole)


def sample(dataset: Any, rows: int = 20, seed: int = 42) -> list[tuple[str, dict[str, Any]]]:
    """Draw records to look at, over all rows and the same each time.

    Parameters
    ----------
    dataset
        As for `open_source`.
    rows : int
        How many to draw; 0: all of them. Those that cannot be parsed are drawn and left out.
    seed : int

    Returns
    -------
    list of (str, dict)
        Ids and records in the order of the rows. An export with that `sample` and seed draws the same, as long as the
        ids are: those of an unnamed data set begin with its prefix, here "data".

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "a.jsonl")
    >>> _ = path.write_text('{"text": "a"}\\nnot json\\n{"text": "c"}\\n')
    >>> sample(path)
    [('a.jsonl#L1', {'text': 'a'}), ('a.jsonl#L3', {'text': 'c'})]
    """
    if rows < 0:
        raise BadParameter(f"hub: rows={rows}; give at least 1, or 0 for all")
    drawn = ((place, parsed(raw)) for _, place, raw in open_source(dataset, sample=rows, seed=seed).read(0))
    return [(place, record) for place, record in drawn if not isinstance(record, BadRecord)]


def parsed(raw: Any) -> dict[str, Any] | BadRecord:
    """Return the record of a row as `Source.read` yields it.

    Examples
    --------
    >>> parsed(b'{"text": "a"}'), parsed({"text": "b"}), parsed(b"[]")
    ({'text': 'a'}, {'text': 'b'}, BadRecord('not_an_object', 'a JSON array'))
    """
    return jsonl.load_or_reason(raw) if isinstance(raw, bytes) else raw


def told(error: BaseException) -> str:
    """Return the type and the message of somebody else's error in one line.

    Examples
    --------
    >>> told(ValueError("no\\nsuch thing"))
    'ValueError: no such thing'
    """
    return f"{type(error).__name__}: {parquet.one_line(error)}"


def _sampled(source: Source, sample: int, seed: int) -> Source:
    """Draw rows by their ids in one pass, holding no more than the drawn ones."""
    numbered = ((seeds.key(seed, "sample", row[1]), number, row) for number, row in enumerate(source.read(0)))
    drawn = heapq.nsmallest(sample, numbered, key=lambda item: item[:2])
    rows = [row for _, _, row in sorted(drawn, key=lambda item: item[1])]
    return dataclasses.replace(source, read=lambda start: iter(rows[start:]), size=len(rows))


# ---------------------------------------------------------------------------------------------------------------- files

_LINES = (".jsonl", ".ndjson", ".json")
_ENDINGS = (*_LINES, ".csv", ".tsv", ".parquet")


def _ending(path: str) -> str:
    packed = compression(path)
    return Path(path.removesuffix(f".{packed}") if packed else path).suffix.lower()


def _find_files(given: Any) -> list[str] | None:
    """Return the files that are meant, or None if a folder saved by datasets or a hub name is."""
    if isinstance(given, list | tuple):
        return [path for one in given for path in _find_files(one) or _no_file(one)]
    text = os.fspath(given)
    if "://" in text or os.path.isfile(text):
        if _ending(text) not in _ENDINGS:
            raise BadInput(
                f"hub: cannot read {text} by its ending; known: {', '.join(_ENDINGS)}, and .gz, .zst of them"
            )
        return [text]
    if os.path.isdir(_split_off(text)[0]):
        return None
    if any(sign in text for sign in "*?"):
        found = sorted(glob.glob(text, recursive=True), key=natural)
        return [path for path in found if _ending(path) in _ENDINGS] or _no_file(text)
    if _ending(text) in _ENDINGS or text.startswith(("/", ".", "~")) or isinstance(given, os.PathLike):
        return _no_file(text)
    return None


def _no_file(given: Any) -> Any:
    raise BadInput(f"hub: no file {os.fspath(given)} (looked in {os.getcwd()})")


def _files_source(paths: list[str]) -> Source:
    try:
        parts = [_file_source(path, name) for path, name in zip(paths, _names(paths), strict=True)]
    except OSError as error:
        raise BadInput(f"hub: cannot read {error.filename}: {error.strerror}") from None
    if len(parts) == 1:
        return parts[0]

    def read(start: int) -> Iterator[Row]:
        return itertools.islice(itertools.chain.from_iterable(part.read(0) for part in parts), start, None)

    same = {part.columns for part in parts}
    return Source(
        name=f"{len(parts)} files",
        read=read,
        identity=[part.identity for part in parts] if all(part.identity for part in parts) else None,
        columns=same.pop() if len(same) == 1 else None,
    )


def _names(paths: list[str]) -> list[str]:
    """Name files by their base names, or, where these are not unique, by the path from the folder they share."""
    names = [os.path.basename(path) for path in paths]
    if len({*names}) == len(names):
        return names
    if len({*paths}) < len(paths):
        raise BadParameter("hub: a file is given twice")
    return [Path(os.path.relpath(path, os.path.commonpath(paths))).as_posix() for path in paths]


def _version(path: str, name: str) -> list[Any] | None:
    """Return what tells an object behind an address, without reading it; None if its store does not say."""
    size, version = stamp(path)
    return [name, size, version] if version else None


def _file_source(path: str, name: str) -> Source:
    ending, content = _ending(path), ""
    known: dict[str, Any] = {}
    reader: Callable[[str], Iterator[tuple[str, Any]]]
    if ending == ".parquet":
        survey, reader = parquet.survey(path), _read_parquet
        content, known = survey.digest, {"size": survey.rows, "columns": tuple(parquet.columns(path))}
    elif ending in (".csv", ".tsv"):
        reader = _read_csv
        known = {"columns": tuple(_csv_names(_csv_rows(path), path))}
    else:
        reader = _read_json if ending == ".json" and _begins_array(path) else _read_jsonl
    identity = _version(path, name) if is_remote(path) else [name, content or digest(path)]

    def read(start: int) -> Iterator[Row]:
        for place, raw in itertools.islice(reader(path), start, None):
            yield name, f"{name}{place}", raw

    return Source(name, read, identity, **known)


def _read_jsonl(path: str) -> Iterator[tuple[str, Any]]:
    for number, line in read_lines(Span(path)):
        yield f"#L{number}", line


def _read_parquet(path: str) -> Iterator[tuple[str, Any]]:
    for number, row in parquet.read_rows(Span(path, first=0)):
        yield f"[{number}]", row


def _begins_array(path: str) -> bool:
    with contextlib.closing(open_bytes(path)) as file:
        return file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["


def _read_json(path: str) -> Iterator[tuple[str, Any]]:
    for number, member in jsonl.read_array(path):
        yield f"[{number}]", member


def _read_csv(path: str) -> Iterator[tuple[str, Any]]:
    """Yield rows as dicts of strings as written: a reader that guesses would turn 007 into 7 and NA into null."""
    rows = _csv_rows(path)
    names = _csv_names(rows, path)
    for number, row in rows:
        yield f"#L{number}", row if isinstance(row, BadRecord) else _csv_record(names, row)


def _csv_names(rows: Iterator[tuple[int, Any]], path: str) -> list[str]:
    _, names = next(rows, (0, None))
    if not isinstance(names, list) or len({*names}) < len(names):
        raise BadInput(f"hub: the first line of {path} must name the columns, each differently; got {names}")
    return names


def _csv_record(names: list[str], fields: list[str]) -> dict[str, str] | BadRecord:
    if len(fields) != len(names):
        return BadRecord("wrong_number_of_fields", f"{len(fields)}, the first line has {len(names)}")
    try:
        "".join(fields).encode("utf-8")
    except UnicodeEncodeError:
        return BadRecord("invalid_utf8")
    return dict(zip(names, fields, strict=True))


def _csv_rows(path: str) -> Iterator[tuple[int, Any]]:
    csv.field_size_limit(2**31 - 1)  # the default of 131,072 characters is less than one long document
    with contextlib.closing(open_bytes(path)) as file:
        # Bytes that are no UTF-8 pass as lone surrogates, so that they cost their own row only.
        text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")  # type: ignore[type-var]
        reader = csv.reader(text, delimiter="\t" if _ending(path) == ".tsv" else ",", strict=True)
        while True:
            number, row = reader.line_num + 1, _csv_row(reader)
            if row is None:
                return
            if row:
                yield number, row
            if isinstance(row, BadRecord) and row.reason != "bad_csv":
                return


def _csv_row(reader: Iterator[list[str]]) -> list[str] | BadRecord | None:
    try:
        return next(reader, None)
    except csv.Error as error:
        return BadRecord("bad_csv", str(error))
    except DamagedStream as damage:
        return BadRecord(damage.reason, damage.detail)


# ------------------------------------------------------------------------------------------------------------- datasets


def _load(text: str) -> tuple[str, Any]:
    """Load a folder or a hub name through datasets; return its name and one split of it."""
    place, split = _split_off(text)
    with _quiet():
        import datasets

        try:
            if os.path.isdir(place):
                loaded = _load_folder(place, split)
            else:
                name, _, config = place.partition(":")
                loaded = datasets.load_dataset(name, config or None, split=split)
        except BadParameter:
            raise
        except Exception as error:
            raise BadInput(f"hub: cannot load {text!r}: {told(error)}") from None
    name = os.path.basename(os.path.normpath(place))
    return name, _one_split(loaded, text)


def _split_off(text: str) -> tuple[str, str | None]:
    """Separate the split.

    Examples
    --------
    >>> _split_off("squad:plain[train[:10%]]"), _split_off("squad")
    (('squad:plain', 'train[:10%]'), ('squad', None))
    """
    match = re.fullmatch(r"([^\[\]]+)\[(.+)\]", text)
    return (match[1], match[2]) if match else (text, None)


def _load_folder(place: str, split: str | None) -> Any:
    import datasets

    saved = [name for name in ("dataset_dict.json", "state.json") if os.path.isfile(os.path.join(place, name))]
    if not saved:
        return datasets.load_dataset(place, split=split)
    loaded = datasets.load_from_disk(place)
    if split is None:
        return loaded
    if not isinstance(loaded, dict) or split not in loaded:
        raise unknown("hub", f"split of {place}:", split, loaded if isinstance(loaded, dict) else ())
    return loaded[split]


def _one_split(loaded: Any, text: str) -> Any:
    if not isinstance(loaded, dict):
        return loaded
    if len(loaded) == 1:
        return next(iter(loaded.values()))
    names = ", ".join(loaded)
    raise BadParameter(f"hub: {text} has the splits {names}; name one: 'name[{next(iter(loaded), 'train')}]'")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the bars, warnings and log lines of datasets while it loads, and leave its settings as they were."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import datasets
        from huggingface_hub import utils as hub

        level, bars = datasets.logging.get_verbosity(), datasets.are_progress_bars_disabled()
        hub_bars = hub.are_progress_bars_disabled()
        datasets.logging.set_verbosity_error()
        datasets.disable_progress_bars()
        hub.disable_progress_bars()
        try:
            yield
        finally:
            datasets.logging.set_verbosity(level)
            if not bars:
                datasets.enable_progress_bars()
            if not hub_bars:
                hub.enable_progress_bars()


def _object_source(dataset: Any, name: str, sample: int, seed: int, whole: bool) -> Source:
    with _quiet():
        import datasets

    dataset = _one_split(dataset, "the DatasetDict")
    if not isinstance(dataset, datasets.Dataset | datasets.IterableDataset):
        raise BadParameter(
            f"hub: cannot open a {type(dataset).__name__}; give a Dataset, an IterableDataset, a path or a hub name"
        )
    features = dataset.features or {}
    binary = {column: kind for column, feature in features.items() if (kind := _binary_kind(feature))}
    if isinstance(dataset, datasets.IterableDataset):
        columns = tuple(features) or None
        source = Source(name, functools.partial(_read_stream, dataset, name), None, None, columns, binary)
        return _sampled(source, sample, seed) if sample else source
    ready = _as_python(dataset) if whole else _undecoded(_as_python(dataset))
    numbers: Sequence[int] = range(len(dataset))
    if sample:
        numbers = sorted(heapq.nsmallest(sample, numbers, key=lambda at: seeds.key(seed, "sample", f"{name}[{at}]")))
        ready = ready.select(numbers)
    identity = [name, dataset._fingerprint, len(dataset)] if dataset._fingerprint else None
    shown = tuple(ready.format["columns"] or ready.column_names)
    binary = {column: kind for column, kind in binary.items() if column in shown}
    if ready.format["type"] == "custom":
        shown, binary = (), {}
    read = functools.partial(_read_table, ready, name, numbers)
    return Source(name, read, identity, len(numbers), shown or None, binary)


def _as_python(dataset: Any) -> Any:
    """Return the data set giving Python values; a transform of the user's stays, and so do the columns chosen."""
    shape = dataset.format
    return dataset if shape["type"] in (None, "custom") else dataset.with_format(None, columns=shape["columns"])


def _undecoded(dataset: Any) -> Any:
    """Give images and audio as the bytes stored, which needs no decoder."""
    with _quiet():
        for column, feature in dataset.features.items():
            if getattr(feature, "decode", None) and _binary_kind(feature):
                dataset = dataset.cast_column(column, dataclasses.replace(feature, decode=False))
    return dataset


def _binary_kind(feature: Any) -> str | None:
    """Name what a feature holds that JSON cannot, at any depth."""
    kind = type(feature).__name__
    if kind in ("Image", "Audio", "Video", "Pdf", "Nifti"):
        return f"{kind} data"
    if getattr(feature, "dtype", None) in ("binary", "large_binary"):
        return "bytes"
    inner = feature.values() if isinstance(feature, dict) else feature if isinstance(feature, list) else ()
    below = [*inner, *([feature.feature] if hasattr(feature, "feature") else [])]
    return next((found for child in below if (found := _binary_kind(child))), None)


def _read_table(dataset: Any, name: str, numbers: Sequence[int], start: int) -> Iterator[Row]:
    step = _batch_rows(dataset)
    for begin in range(start, len(numbers), step):
        stop = min(begin + step, len(numbers))
        for number, row in zip(numbers[begin:stop], _table_rows(dataset, begin, stop), strict=True):
            yield name, f"{name}[{number}]", row


def _batch_rows(dataset: Any) -> int:
    table = dataset.data
    return max(1, min(1000, BATCH * max(table.num_rows, 1) // max(table.nbytes, 1)))


def _table_rows(dataset: Any, begin: int, stop: int) -> Iterable[Any]:
    """Return rows begin … stop; where the batch fails, each on its own."""
    try:
        batch = dataset[begin:stop]
        return [dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)]
    except Exception:
        return [_table_row(dataset, at) for at in range(begin, stop)]


def _table_row(dataset: Any, at: int) -> Any:
    try:
        return dataset[at]
    except Exception as error:
        return BadRecord("unreadable_row", told(error))


def _read_stream(dataset: Any, name: str, start: int) -> Iterator[Row]:
    shape = dataset._formatting
    plain = dataset.with_format(None) if shape is not None and shape.format_type != "custom" else dataset
    number = 0
    try:
        for row in plain:
            if number >= start:
                yield name, f"{name}[{number}]", row
            number += 1
    except Exception as error:
        raise BadInput(f"hub: {name} broke off after {number:,} rows: {told(error)}") from error
