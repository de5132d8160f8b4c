"""Benchmark items as a decontamination reads them: which fields ask, which stand beside them, and from where they come.

    gsm8k_test.jsonl    {"question", "answer"}               gsm8k     question ──▶ query   answer ──▶ support
    agieval_lsat.jsonl  {"passage", "question", "options"}   agieval   question ──▶ query   passage, options ──▶ support
    mine.parquet        {"ask", "choices"}                   own       fields="ask->query choices->support"

The query is what must be found in a document. The support (options, answers, a passage, a solution) is looked at only
where the query is too short or too common to prove anything; alone it proves nothing.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from prep_lib.errors import BadInput, BadParameter, BadRecord
from prep_lib.files import compression, natural
from prep_lib.source import hub
from prep_lib.source.read import ENDINGS, kind_of

#: Fields that name an item, the first that is there; without one an item is named by its row, counted from 0.
IDS = ("task_id", "question_id", "id")


class FieldMap(NamedTuple):
    """Which fields of a record ask, and which stand beside; ``mc1_targets.choices`` is a field inside a field."""

    query: tuple[str, ...]
    support: tuple[str, ...] = ()


#: The forms in which known benchmarks are handed on, by name; of a form all query fields must be there, and of the
#: forms that fit the one with most of its support fields is taken. The order counts: ``cmmlu`` is no ``mmlu``, and a
#: question with choices and an answer is no ``gsm8k``.
FIELD_MAPS: dict[str, tuple[FieldMap, ...]] = {
    "cmmlu": (FieldMap(("Question",), ("A", "B", "C", "D")), FieldMap(("question",), ("A", "B", "C", "D"))),
    "ceval": (FieldMap(("question",), ("A", "B", "C", "D")),),
    "agieval": (FieldMap(("question",), ("passage", "options")), FieldMap(("query",), ("choices",))),
    "truthfulqa": (
        FieldMap(("question",), ("best_answer", "correct_answers")), FieldMap(("question",), ("mc1_targets.choices",)),
    ),
    "humaneval": (FieldMap(("prompt",), ("canonical_solution",)),),
    "mbpp": (FieldMap(("text",), ("code",)), FieldMap(("prompt",), ("canonical_solution", "code"))),
    "mmlu": (FieldMap(("question",), ("choices",)), FieldMap(("question",), ("A", "B", "C", "D"))),
    "arc": (FieldMap(("question",), ("choices",)),),
    "gsm8k": (FieldMap(("question",), ("answer",)),),
}  # fmt: skip

_NAMES = {
    "cmmlu": "cmmlu", "ceval": "c[-_]?eval", "agieval": "agi[-_]?eval", "truthfulqa": "truthful[-_]?qa", "gsm8k": "gsm",
    "humaneval": "human[-_]?eval", "mbpp": "mb[px]p", "arc": r"(?<![a-z])arc(?![a-z])", "mmlu": "mmlu",
}  # fmt: skip


class Item(NamedTuple):
    """One question of a benchmark.

    Parameters
    ----------
    benchmark, id : str
    query : str
        What must be found.
    support : tuple of str
        What stands beside it: options, answers, a passage, each by itself.
    """

    benchmark: str
    id: str
    query: str
    support: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What a verdict calls it: ``gsm8k/12``, and ``HumanEval/3`` where the id says so already."""
        return self.id if self.id.startswith(f"{self.benchmark}/") else f"{self.benchmark}/{self.id}"


class Declared(NamedTuple):
    """What was read as one benchmark, and how.

    Parameters
    ----------
    name : str
    known_as : str
        The name in `FIELD_MAPS`; ``own`` where the fields were given.
    query, support : tuple of str
        The fields used, those that are there.
    items : int
    empty : int
        Records without any query; they are no items.
    """

    name: str
    known_as: str
    query: tuple[str, ...]
    support: tuple[str, ...]
    items: int
    empty: int = 0


@dataclass(frozen=True)
class Benchmarks:
    """Items of benchmarks, and how each benchmark was read.

    Raises
    ------
    BadParameter
        If there is no item, or a benchmark stands there twice: nothing found in nothing would look like a clean result.

    Examples
    --------
    >>> Benchmarks((Item("toy", "0", "How many eggs do three ducks lay in a week?"),)).names
    ('toy',)
    """

    items: tuple[Item, ...]
    declared: tuple[Declared, ...] = ()

    def __post_init__(self) -> None:
        if not self.items:
            raise BadParameter(
                "text/benchmarks: no benchmark given; name a folder, files or data sets with their items"
            )
        names = [one.name for one in self.declared]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise BadParameter(f"text/benchmarks: two benchmarks are named {twice[0]!r}; name them: {{name: file}}")

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"<{len(self):,} items of {', '.join(self.names)}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The benchmarks, in order."""
        return tuple(dict.fromkeys(item.benchmark for item in self.items))


def load_benchmarks(benchmarks: Any, *, fields: str = "", skip: str = "") -> Benchmarks:
    """Read benchmarks.

    Parameters
    ----------
    benchmarks : path, str, data set, a list of these, or {name: one of these}
        A folder of files (JSONL, JSON, CSV, Parquet; packed or not), a file, a pattern (``bench/*.jsonl``), or what
        `hub.open_source` opens: ``"cais/mmlu:all[test]"``. A benchmark is named by its file or data set.
    fields : str
        ``"ask->query options->support"``: the fields of these benchmarks, instead of the ready maps; ``->id`` names
        the item. Empty: by name, then by the fields of the first record (`FIELD_MAPS`).
    skip : str
        Patterns of file names in a folder that hold no benchmark, blanks between: ``"planted* *_notes.jsonl"``.

    Raises
    ------
    BadInput
        If a record cannot be read: an item that is missing would pass for clean.
    BadParameter
        If no map fits a benchmark, or there is no item at all.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "gsm8k_mini.jsonl")
    >>> _ = path.write_text('{"question": "How many eggs are in three dozen?", "answer": "36"}\\n')
    >>> load_benchmarks(path).items
    (Item(benchmark='gsm8k_mini', id='0', query='How many eggs are in three dozen?', support=('36',)),)
    """
    own = parse_fields(fields) if fields else None
    items: list[Item] = []
    declared: list[Declared] = []
    for name, dataset in _named(benchmarks, skip.split()):
        found, told = _read(name, dataset, own)
        items += found
        declared.append(told)
    return Benchmarks(tuple(items), tuple(declared))


def parse_fields(text: str) -> tuple[FieldMap, str]:
    """Read ``"ask->query options->support number->id"``: the map, and the field of the id or nothing.

    Examples
    --------
    >>> parse_fields("ask->query a->support b->support")
    (FieldMap(query=('ask',), support=('a', 'b')), '')
    """
    roles: dict[str, list[str]] = {"query": [], "support": [], "id": []}
    for word in text.split():
        field, _, role = word.partition("->")
        if not field or role not in roles:
            raise BadParameter(f"text/benchmarks: {word!r} in fields must be FIELD->query, FIELD->support or FIELD->id")
        roles[role].append(field)
    if not roles["query"] or len(roles["id"]) > 1:
        raise BadParameter(f"text/benchmarks: fields={text!r} must name at least one query and at most one id")
    return FieldMap(tuple(roles["query"]), tuple(roles["support"])), next(iter(roles["id"]), "")


# ── which files, under which names ───────────────────────────────────────────────────────────────────────────────────


def _named(benchmarks: Any, skip: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield each benchmark with its name; a folder is its files."""
    if isinstance(benchmarks, Mapping) and not hasattr(benchmarks, "num_rows"):
        for name, one in benchmarks.items():
            yield str(name), one
    elif isinstance(benchmarks, list | tuple):
        for one in benchmarks:
            yield from _named(one, skip)
    elif isinstance(benchmarks, str | os.PathLike):
        text = os.fspath(benchmarks)
        if not text.strip():
            return
        paths = _files(text, skip)
        yield from [(_stem(text), text)] if paths is None else [(_stem(path), path) for path in paths]
    else:
        yield str(getattr(getattr(benchmarks, "info", None), "dataset_name", None) or "benchmark"), benchmarks


def _files(text: str, skip: Sequence[str]) -> list[str] | None:
    """Return the files of a folder or a pattern; None for anything else."""
    if os.path.isdir(text):
        if {"dataset_dict.json", "state.json"} & {*os.listdir(text)}:
            return None
        paths = [os.path.join(text, name) for name in sorted(os.listdir(text), key=natural)]
        found = [path for path in paths if path.endswith(ENDINGS) and kind_of(path) in ("jsonl", "table", "parquet")]
    elif any(sign in text for sign in "*?") and "://" not in text:
        folder, pattern = os.path.split(text)
        found = [os.path.join(folder, name) for name in sorted(os.listdir(folder or "."), key=natural)]
        found = [path for path in found if fnmatch.fnmatch(os.path.basename(path), pattern)]
    else:
        return None
    found = [path for path in found if not any(fnmatch.fnmatch(os.path.basename(path), one) for one in skip)]
    if not found:
        raise BadParameter(f"text/benchmarks: no benchmark given: {text} holds no file of items")
    return found


def _stem(text: str) -> str:
    """Name a benchmark by its file, or by the name on the hub without its owner and split."""
    name = os.path.basename(os.path.normpath(re.sub(r"\[.*\]$", "", text)))
    packed = compression(name)
    name = name.removesuffix(f".{packed}") if packed else name
    return os.path.splitext(name)[0] if name.lower().endswith(ENDINGS) else name


# ── one benchmark ────────────────────────────────────────────────────────────────────────────────────────────────────


def _read(name: str, dataset: Any, own: tuple[FieldMap, str] | None) -> tuple[list[Item], Declared]:
    known_as, fields, id_field = ("own", *own) if own else ("", FieldMap(()), "")
    items, empty, used = [], 0, set[str]()
    for number, record in enumerate(_records(dataset)):
        if not known_as:
            known_as, fields = _map_of(name, record)
        query = "\n".join(text for field in fields.query for text in _texts(_get(record, field)))
        support = {field: _texts(_get(record, field)) for field in fields.support}
        used |= {field for field, texts in support.items() if texts}
        item_id = _id(record, id_field, number)
        if query.strip():
            items.append(Item(name, item_id, query, tuple(text for texts in support.values() for text in texts)))
        else:
            empty += 1
    if not items:
        raise BadParameter(
            f"text/benchmarks: {name} has no item with a query in {', '.join(fields.query) or 'any field'}; "
            "give fields='FIELD->query FIELD->support'"
        )
    used_support = tuple(field for field in fields.support if field in used)
    return items, Declared(name, known_as, fields.query, used_support, len(items), empty)


def _records(dataset: Any) -> Iterator[dict[str, Any]]:
    for _, place, raw in hub.open_source(dataset).read(0):
        record = hub.parsed(raw)
        if isinstance(record, BadRecord):
            raise BadInput(
                f"text/benchmarks: {place} cannot be read ({record}); an item that is missing passes for clean"
            )
        yield record


def _map_of(name: str, record: Mapping[str, Any]) -> tuple[str, FieldMap]:
    """Return the map a benchmark is known by: that of its name if its fields fit, else one whose fields all fit."""
    by_name = [known for known, pattern in _NAMES.items() if re.search(pattern, name.lower())]
    for known in by_name:
        if fitting := [one for one in FIELD_MAPS[known] if _has(record, one.query)]:
            return known, max(fitting, key=lambda one: sum(_has(record, (field,)) for field in one.support))
    for known in FIELD_MAPS:
        for one in FIELD_MAPS[known]:
            if _has(record, (*one.query, *one.support)):
                return known, one
    raise BadParameter(
        f"text/benchmarks: no ready map fits {name}, whose fields are {', '.join(record) or 'none'}; "
        "give fields='FIELD->query FIELD->support'"
    )


def _has(record: Mapping[str, Any], fields: Sequence[str]) -> bool:
    return all(_get(record, field, _MISSING) is not _MISSING for field in fields)


_MISSING = object()


def _get(record: Any, field: str, default: Any = None) -> Any:
    """Return a field, or one inside a field."""
    if isinstance(record, Mapping) and field in record:
        return record[field]
    outer, _, inner = field.partition(".")
    return _get(record[outer], inner, default) if inner and isinstance(record, Mapping) and outer in record else default


def _texts(value: Any) -> list[str]:
    """Return the texts in a field, whatever it is made of."""
    if value is None:
        return []
    if isinstance(value, Mapping) and "text" in value:
        return _texts(value["text"])  # beside it stand labels: A, B, C
    if isinstance(value, Mapping):
        return [text for one in value.values() for text in _texts(one)]
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        text = str(value)
        return [text] if text.strip() else []
    return [text for one in value for text in _texts(one)]


def _id(record: Mapping[str, Any], id_field: str, number: int) -> str:
    found = next((record[field] for field in ((id_field,) if id_field else IDS) if field in record), number)
    return str(found)
