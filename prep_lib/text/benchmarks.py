"""Benchmark items as a decontamination reads them: which fields ask, which stand beside them, and from where they come.

    gsm8k_test.jsonl    {"question", "answer"}               gsm8k     question ──▶ query   answer ──▶ support
    agieval_lsat.jsonl  {"passage", "question", "options"}   agieval   question ──▶ query   passage, options ──▶ support
    mine.parquet        {"ask", "choices"}                   own       fields="ask->query choices->support"

The query is what must be found in a document. The support (options, answers, a solution) is looked at only where the
query is too short or too common to prove anything; alone it proves nothing. A passage is support too, and a query about
one always needs support: "What does the author think of it?" stands in many a text.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from prep_lib.errors import BadInput, BadParameter, BadRecord
from prep_lib.files import compression, natural
from prep_lib.source import hub
from prep_lib.source.read import ENDINGS, kind_of

#: Fields that name an item, the first that is there; without one an item is named by its row, counted from 0.
IDS = ("task_id", "question_id", "id")


class FieldMap(NamedTuple):
    """Which fields of a record ask, which stand beside, and which hold what is asked about, as ``outer.inner`` too."""

    query: tuple[str, ...]
    support: tuple[str, ...] = ()
    passage: tuple[str, ...] = ()

    @property
    def beside(self) -> tuple[str, ...]:
        """All fields but those of the query."""
        return self.passage + self.support


#: The forms in which known benchmarks are handed on, by name; of a form all query fields must be there, and of the
#: forms that fit the one with most of its support fields is taken. The order counts: ``cmmlu`` is no ``mmlu``, and a
#: question with choices and an answer is no ``gsm8k``.
FIELD_MAPS: dict[str, tuple[FieldMap, ...]] = {
    "cmmlu": (FieldMap(("Question",), ("A", "B", "C", "D")), FieldMap(("question",), ("A", "B", "C", "D"))),
    "ceval": (FieldMap(("question",), ("A", "B", "C", "D")),),
    "agieval": (FieldMap(("question",), ("options",), ("passage",)), FieldMap(("query",), ("choices",))),
    "truthfulqa": (
        FieldMap(("question",), ("best_answer", "correct_answers")), FieldMap(("question",), ("mc1_targets.choices",)),
    ),
    "humaneval": (FieldMap(("prompt",), ("canonical_solution",)),),
    "mbpp": (FieldMap(("text",), ("code",)), FieldMap(("prompt",), ("canonical_solution", "code"))),
    "mmlu": (FieldMap(("question",), ("choices",)), FieldMap(("question",), ("A", "B", "C", "D"))),
    "arc": (FieldMap(("question.stem",), ("question.choices",)), FieldMap(("question",), ("choices",))),
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
    about_passage : bool
        Whether the query asks about a passage in the support. "What does the author think of it?" is no item.
    """

    benchmark: str
    id: str
    query: str
    support: tuple[str, ...] = ()
    about_passage: bool = False

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
        Records whose query is null or blank; they are no items.
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

    Parameters
    ----------
    items : tuple of Item
    declared : tuple of Declared
    unread : tuple of str
        Files that lay in the folders given and were not read: of no known ending.

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
    unread: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if not self.items:
            raise BadParameter(
                "text/benchmarks: no benchmark given; name a folder, files or data sets with their items"
            )
        names = [one.name for one in self.declared]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise BadParameter(
                f"text/benchmarks: two benchmarks are named {twice[0]!r}; leave one out, or name them: {{name: file}}"
            )

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
        A folder of files (JSONL, JSON, CSV, Parquet; packed or not) and of folders of such, a file, a pattern
        (``bench/*.jsonl``), or what `hub.open_source` opens: ``"cais/mmlu:all[test]"``. A benchmark is named by its
        file or data set, below a folder with the way there (``mmlu/test``), and where two would be named alike by as
        much of the way as tells them apart.
    fields : str
        ``"ask->query options->support"``: the fields of these benchmarks, instead of the ready maps; ``->passage`` is
        support that is asked about, ``->id`` names the item. Empty: by name, then by the fields of the first record
        (`FIELD_MAPS`).
    skip : str
        Patterns of file names in a folder that hold no benchmark, blanks between: ``"planted* *_notes.jsonl"``.

    Raises
    ------
    BadInput
        If a record cannot be read, or has no field of the query: an item that is missing would pass for clean.
    BadParameter
        If no map fits a benchmark, a field given is in none of its records, or there is no item at all.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "gsm8k_mini.jsonl")
    >>> _ = path.write_text('{"question": "How many eggs are in three dozen?", "answer": "36"}\\n')
    >>> load_benchmarks(path).items[0].query
    'How many eggs are in three dozen?'
    """
    own = parse_fields(fields) if fields else None
    items: list[Item] = []
    declared: list[Declared] = []
    unread: list[str] = []
    for name, dataset in _told_apart([*_named(benchmarks, skip.split(), unread)]):
        found, told = _read(name, dataset, own)
        items += found
        declared.append(told)
    return Benchmarks(tuple(items), tuple(declared), tuple(unread))


def parse_fields(text: str) -> tuple[FieldMap, str]:
    """Read ``"ask->query options->support number->id"``: the map, and the field of the id or nothing.

    Examples
    --------
    >>> parse_fields("ask->query a->support b->support")
    (FieldMap(query=('ask',), support=('a', 'b'), passage=()), '')
    """
    roles: dict[str, list[str]] = {"query": [], "support": [], "passage": [], "id": []}
    for word in text.split():
        name, _, role = word.partition("->")
        if not name or role not in roles:
            raise BadParameter(
                f"text/benchmarks: {word!r} in fields must be FIELD->query, FIELD->support, FIELD->passage or FIELD->id"
            )
        roles[role].append(name)
    if not roles["query"] or len(roles["id"]) > 1:
        raise BadParameter(f"text/benchmarks: fields={text!r} must name at least one query and at most one id")
    id_field = next(iter(roles.pop("id")), "")
    return FieldMap(**{role: tuple(names) for role, names in roles.items()}), id_field


# ── which files, under which names ───────────────────────────────────────────────────────────────────────────────────


class _Source(NamedTuple):
    """A benchmark before it is read: its name, what to open, and the way there, which may become its name."""

    name: str
    dataset: Any
    path: str = ""


def _named(benchmarks: Any, skip: Sequence[str], unread: list[str]) -> Iterator[_Source]:
    """Yield each benchmark with its name; a folder is its files, and those of no known ending are told."""
    if isinstance(benchmarks, Mapping) and not hasattr(benchmarks, "num_rows"):
        for name, one in benchmarks.items():
            yield _Source(str(name), one)
    elif isinstance(benchmarks, list | tuple):
        for one in benchmarks:
            yield from _named(one, skip, unread)
    elif isinstance(benchmarks, str | os.PathLike):
        text = os.fspath(benchmarks)
        if os.path.isdir(text) and not _saved(os.listdir(text)):
            yield from _some(text, _in_folder(text, skip, unread))
        elif any(sign in text for sign in "*?") and "://" not in text and not os.path.exists(text):
            found = sorted(glob.glob(text, recursive=True), key=natural)
            yield from _some(text, (one for path in found for one in _at(path, skip, unread)))
        elif text.strip():
            yield _Source(_stem(text), text, text)
    else:
        yield _Source(str(getattr(getattr(benchmarks, "info", None), "dataset_name", None) or "benchmark"), benchmarks)


def _some(text: str, found: Iterable[_Source]) -> list[_Source]:
    some = [*found]
    if not some:
        raise BadParameter(f"text/benchmarks: no benchmark given: {text} holds no file of items")
    return some


def _in_folder(folder: str, skip: Sequence[str], unread: list[str]) -> Iterator[_Source]:
    """Yield the benchmarks of a folder, of which hidden files are none."""
    for name in sorted(os.listdir(folder), key=natural):
        if not name.startswith((".", "__")):
            yield from _at(os.path.join(folder, name), skip, unread)


def _at(path: str, skip: Sequence[str], unread: list[str]) -> Iterator[_Source]:
    """Yield a file, or the benchmarks of a folder; a folder that datasets saved is one."""
    name, inside = os.path.basename(os.path.normpath(path)), list[str]()
    if any(fnmatch.fnmatch(name, one) for one in skip):
        return
    if os.path.isdir(path) and not _saved(os.listdir(path)):
        yield from (one._replace(name=f"{name}/{one.name}") for one in _in_folder(path, skip, inside))
        unread += [f"{name}/{one}" for one in inside]
    elif os.path.isdir(path) or (name.lower().endswith(ENDINGS) and kind_of(path) in ("jsonl", "table", "parquet")):
        yield _Source(_stem(path), path, path)
    else:
        unread.append(name)


def _saved(names: Sequence[str]) -> bool:
    return bool({"dataset_dict.json", "state.json"} & {*names})


def _told_apart(found: Sequence[_Source]) -> list[tuple[str, Any]]:
    """Return benchmarks with their names, those that would be named alike by more of the way to them."""
    names = [one.name for one in found]
    for depth in range(1, 1 + max((len(_way(one)) for one in found), default=0)):
        counts = Counter(names)
        names = [
            "/".join(_way(one)[-depth:]) if counts[name] > 1 and one.path else name
            for name, one in zip(names, found, strict=True)
        ]
    return [(name, one.dataset) for name, one in zip(names, found, strict=True)]


def _way(source: _Source) -> list[str]:
    return [part for part in os.path.normpath(source.path).split(os.sep) if part]


def _stem(text: str) -> str:
    """Name a benchmark by its file, or by the name on the hub without its owner and split."""
    name = os.path.basename(os.path.normpath(re.sub(r"\[.*\]$", "", text)))
    packed = compression(name)
    name = name[: -len(packed) - 1] if packed else name
    return os.path.splitext(name)[0] if name.lower().endswith(ENDINGS) else name


# ── one benchmark ────────────────────────────────────────────────────────────────────────────────────────────────────


def _read(name: str, dataset: Any, own: tuple[FieldMap, str] | None) -> tuple[list[Item], Declared]:
    known_as, fields, id_field = ("own", *own) if own else ("", FieldMap(()), "")
    items, empty, used, there = [], 0, set[str](), set[str]()
    for number, (place, record) in enumerate(_records(dataset)):
        if not known_as:
            known_as, fields = _map_of(name, record)
        there |= {one for one in (*fields.query, *fields.beside, id_field) if _has(record, (one,))}
        query = "\n".join(_query(place, record, fields.query))
        beside = {one: _texts(_get(record, one)) for one in fields.beside}
        used |= {one for one, texts in beside.items() if texts}
        if query.strip():
            support = tuple(text for texts in beside.values() for text in texts)
            about = any(beside[one] for one in fields.passage)
            items.append(Item(name, _id(record, id_field, number), query, support, about))
        else:
            empty += 1
    if not items:
        raise BadParameter(
            f"text/benchmarks: {name} has no item with a query in {', '.join(fields.query) or 'any field'}; "
            "give fields='FIELD->query FIELD->support'"
        )
    given = (*fields.query, *fields.beside, id_field) if own else ()
    if missing := [one for one in given if one and one not in there]:
        raise BadParameter(f"text/benchmarks: no record of {name} has the field {missing[0]}, which fields= names")
    declared = tuple(one for one in fields.beside if one in used)
    return items, Declared(name, known_as, fields.query, declared, len(items), empty)


def _records(dataset: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for _, place, raw in hub.open_source(dataset).read(0):
        record = hub.parsed(raw)
        if isinstance(record, BadRecord):
            raise BadInput(
                f"text/benchmarks: {place} cannot be read ({record}); an item that is missing passes for clean"
            )
        yield place, record


def _query(place: str, record: Mapping[str, Any], fields: Sequence[str]) -> list[str]:
    """Return the texts that ask; a record that has none of the fields is no empty item, but is named otherwise."""
    if not any(_has(record, (one,)) for one in fields):
        raise BadInput(
            f"text/benchmarks: {place} has no field {' or '.join(fields)}, but {', '.join(record) or 'none'}; "
            "an item that is missing passes for clean"
        )
    for one in fields:
        value = _get(record, one)
        if isinstance(value, Mapping) and "text" not in value:
            # All of it would be the query, options and labels too, and hardly any document holds all of it.
            raise BadInput(
                f"text/benchmarks: {one} of {place} holds the fields {', '.join(value)}; "
                f"give fields='{one}.{next(iter(value), 'FIELD')}->query'"
            )
    return [text for one in fields for text in _texts(_get(record, one))]


def _map_of(name: str, record: Mapping[str, Any]) -> tuple[str, FieldMap]:
    """Return the map a benchmark is known by: that of its name if its fields fit, else one whose fields all fit."""
    # The file's own name before that of its folder.
    said = [*dict.fromkeys((name.rpartition("/")[2].lower(), name.lower()))]
    for known in (known for text in said for known, pattern in _NAMES.items() if re.search(pattern, text)):
        if fitting := [one for one in FIELD_MAPS[known] if _has(record, one.query)]:
            return known, max(fitting, key=lambda one: sum(_has(record, (beside,)) for beside in one.beside))
    for known in FIELD_MAPS:
        for one in FIELD_MAPS[known]:
            if _has(record, (*one.query, *one.beside)):
                return known, one
    raise BadParameter(
        f"text/benchmarks: no ready map fits {name}, whose fields are {', '.join(record) or 'none'}; "
        "give fields='FIELD->query FIELD->support'"
    )


def _has(record: Mapping[str, Any], fields: Sequence[str]) -> bool:
    return all(_get(record, one, _MISSING) is not _MISSING for one in fields)


_MISSING = object()


def _get(record: Any, name: str, default: Any = None) -> Any:
    """Return a field, or one inside a field."""
    if isinstance(record, Mapping) and name in record:
        return record[name]
    outer, _, inner = name.partition(".")
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
    told = (_get(record, one) for one in ((id_field,) if id_field else IDS))
    return str(next((one for one in told if one is not None), number))
