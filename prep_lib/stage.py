"""The contracts a stage keeps, and run() in memory.

    map      map(doc)   -> Document | Drop                        change one
    judge    judge(doc) -> None | Drop | Cut                      decide about one
    corpus   sketch(doc) -> rows of numbers                       per document, parallel
             decide(seen) -> {document: Drop | Cut | Repeat}      of all sketches; a text is asked for only where needed

A stage is a frozen, keyword-only dataclass that refuses nonsense at birth. It never logs, counts, prints or writes:
`run` and `Line` count, and name the stage and the document in an error.

A judge may measure first: ``signals`` names numbers, ``measure(doc)`` computes them once, ``verdict(doc, numbers)``
decides, so that a moved limit decides again without reading a text. A map may name in ``counted`` the keys of `meta` it
writes that are worth adding up: a label ("language": "en"), a flag, or counts ("changes": {"newlines": 3}). A stage
names in ``packages`` the libraries whose answers it passes on: their versions are part of what an output depends on.

A map may have ``map_many(docs)`` too, a judge that measures ``measure_many(docs)``, and a corpus stage
``sketch_many(docs)``: what one document gets at a time, of many in a fraction of the time. Where that raises, each
document is asked about alone.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from prep_lib.errors import BadParameter, BadRecord
from prep_lib.ledger import Ledger
from prep_lib.record import Cut, Document, Drop, Repeat

Verdict: TypeAlias = Drop | Cut | Repeat | None


@runtime_checkable
class Map(Protocol):
    """Changes one document at a time."""

    @property
    def name(self) -> str:
        """What the ledger counts it under."""

    def map(self, doc: Document) -> Document | Drop:
        """Return the changed document, or why there is none."""


@runtime_checkable
class Judge(Protocol):
    """Decides about one document at a time."""

    @property
    def name(self) -> str:
        """What the ledger counts it under."""

    def judge(self, doc: Document) -> Drop | Cut | None:
        """Return None to keep the document."""


@runtime_checkable
class Measuring(Protocol):
    """A judge that measures first."""

    @property
    def name(self) -> str:
        """What the ledger counts it under."""

    @property
    def reasons(self) -> Sequence[str]:
        """Every reason a verdict may give, in a fixed order."""

    @property
    def signals(self) -> Sequence[str]:
        """What `measure` measures, in order."""

    def measure(self, doc: Document) -> np.ndarray:
        """Return a float64 for each signal; NaN for one that this document has not."""

    def verdict(self, doc: Document, values: np.ndarray) -> Drop | Cut | None:
        """Return what `judge` returns, without reading the text for it again."""


@dataclass(frozen=True)
class Sketched:
    """What a corpus stage decides from: the sketches of all documents.

    Parameters
    ----------
    ids : sequence of str
        The documents, by place.
    rows : (n,) structured
        Their sketches behind each other, in the order of the documents.
    owner : (n,) int64
        Row -> place of its document.
    evidence : callable of int
        Place -> what the stage's ``evidence(doc)`` gives: for the few documents whose text is needed again. None if it
        cannot be had: the document fails, and no other goes because of it.
    """

    ids: Sequence[str]
    rows: np.ndarray
    owner: np.ndarray
    evidence: Callable[[int], Any]


@runtime_checkable
class Corpus(Protocol):
    """Decides about documents by looking at all of them."""

    @property
    def name(self) -> str:
        """What the ledger counts it under."""

    @property
    def row(self) -> np.dtype[Any]:
        """What a sketch is made of."""

    def sketch(self, doc: Document) -> np.ndarray:
        """Return what the decision needs of one document, (k,) of `row`: numbers of fixed size."""

    def decide(self, seen: Sketched) -> Mapping[int, Verdict]:
        """Return verdicts by the document's place; a place that is missing is kept."""


Stage: TypeAlias = Map | Judge | Corpus

#: (stage, key of meta, source, label) -> how many.
Tallies: TypeAlias = Counter[tuple[str, str, str, str]]


@dataclass(frozen=True)
class Rejected:
    """A document that did not come through, and why.

    Parameters
    ----------
    document : Document
        As the stage saw it.
    stage : str
    drop : Drop or BadRecord
        A BadRecord: it failed.
    """

    document: Document
    stage: str
    drop: Drop | BadRecord


#: Documents, and characters, that pass a stage together.
TOGETHER, TOGETHER_CHARS = 256, 2**18

T = TypeVar("T")


def together(items: Iterable[T], characters: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield items some at a time, because a stage may read many short documents in the time of a few."""
    some, size = list[T](), 0
    for item in items:
        some.append(item)
        size += characters(item)
        if len(some) == TOGETHER or size >= TOGETHER_CHARS:
            yield some
            some, size = [], 0
    if some:
        yield some


@dataclass
class Result:
    """What `run` gives back.

    Parameters
    ----------
    kept : list of Document
        In the order of the input; copies of a repeated document stand together.
    dropped : list of Rejected
    ledger : Ledger
        Checked: it balances.
    tallies : Counter of (stage, key, source, label) -> int
        What maps found out about the documents, see `Line`.
    """

    kept: list[Document] = field(default_factory=list)
    dropped: list[Rejected] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    tallies: Tallies = field(default_factory=Counter)


def run(stages: Iterable[Stage], docs: Iterable[Document]) -> Result:
    """Pass documents through stages, in memory.

    Parameters
    ----------
    stages : iterable of Stage
        Each with exactly one of the three contracts.
    docs : iterable of Document

    Returns
    -------
    Result

    Raises
    ------
    BadParameter
        If something is not a stage, two have one name, or a verdict is none: False is not a `Drop`.
    Exception
        Whatever a stage raised, with a note that names the stage and the document. A `BadRecord` is no such error:
        the document is counted as failed.

    Examples
    --------
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Short:
    ...     name: str = "short"
    ...     limit: int = 3
    ...
    ...     def judge(self, doc):
    ...         return Drop("short", len(doc.text), self.limit) if len(doc.text) < self.limit else None
    >>> result = run([Short()], [Document("1", "hello"), Document("2", "hi")])
    >>> [doc.id for doc in result.kept], result.ledger.reasons("short", "dropped")
    (['1'], {'short': 1})
    """
    stages = list(stages)
    check_stages(stages)
    result, counts = Result(kept=list(docs)), Counts()
    for stage in stages:
        _run_stage(stage, result, counts)
    result.ledger, result.tallies = counts.ledger(), counts.tallies
    result.ledger.check()
    return result


def check_stages(stages: Sequence[Stage]) -> None:
    """Refuse what is no stage, and two stages of one name."""
    for stage in stages:
        contract(stage)
    names = [stage.name for stage in stages]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadParameter(f"stage: two stages are named {twice[0]!r}; the ledger counts by name, so give one another")


def contract(stage: object) -> str:
    """Return "map", "judge" or "corpus", or refuse what is none or more than one of them."""
    if isinstance(stage, type):
        raise BadParameter(f"stage: {stage.__name__} is a class; make a stage of it: {stage.__name__}(...)")
    found = [name for name, kind in (("map", Map), ("judge", Judge), ("corpus", Corpus)) if isinstance(stage, kind)]
    if len(found) != 1:
        raise BadParameter(
            f"stage: {type(stage).__name__} must have a name and exactly one of map, judge, sketch + decide; "
            f"it has {', '.join(found) or 'none'}"
        )
    return found[0]


def _run_stage(stage: Any, result: Result, counts: Counts) -> None:
    docs, result.kept = result.kept, []
    kind = contract(stage)
    verdicts = _decide(stage, docs) if kind == "corpus" else (_ask(stage, getattr(stage, kind), doc) for doc in docs)
    for doc, verdict in zip(docs, verdicts, strict=True):
        settled = counts.settle(stage, kind, doc, verdict)
        if isinstance(settled, Rejected):
            result.dropped.append(settled)
        else:
            result.kept.extend([settled] * (verdict.n if isinstance(verdict, Repeat) else 1))


#: What a stage of each contract may answer; a `BadRecord` it raised is counted as failed.
_VERDICTS: dict[str, tuple[type, ...]] = {
    "map": (Document, Drop, BadRecord),
    "judge": (type(None), Drop, Cut, BadRecord),
    "corpus": (type(None), Drop, Cut, Repeat, BadRecord),
}
_ALLOWED = {
    "map": "a map gives a Document or a Drop",
    "judge": "a judge gives None, a Drop or a Cut",
    "corpus": "decide gives a Drop, a Cut or a Repeat, or leaves the place out",
}


def _ask(stage: Any, call: Callable[[Document], Any], doc: Document) -> Any:
    try:
        return call(doc)
    except BadRecord as error:
        return error.with_traceback(None)
    except Exception as error:
        error.add_note(f"while {stage.name} handled document {doc.id}")
        raise


@contextlib.contextmanager
def _noting(text: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(text)
        raise


def _decide(stage: Any, docs: Sequence[Document]) -> list[Any]:
    """Return one verdict a document. One that cannot be sketched fails alone: the others do not see it."""
    asked = (_ask_all(stage, "sketch", some) for some in together(docs, lambda doc: len(doc.text)))
    verdicts = [rows for some in asked for rows in some]
    places = [at for at, rows in enumerate(verdicts) if not isinstance(rows, BadRecord)]
    sketches = [verdicts[at] for at in places]
    for at in places:
        verdicts[at] = None
    failed: dict[int, BadRecord] = {}

    def evidence(at: int) -> Any:
        found = _ask(stage, stage.evidence, docs[places[at]])
        if isinstance(found, BadRecord):
            failed[at] = found
            return None
        return found

    rows = np.concatenate([np.empty(0, stage.row), *sketches])
    owner = np.repeat(np.arange(len(places)), [len(each) for each in sketches])
    with _noting(f"while {stage.name} compared {len(places)} documents"):
        decided = stage.decide(Sketched([docs[at].id for at in places], rows, owner, evidence))
    for at, verdict in {**decided, **failed}.items():
        if not 0 <= at < len(places):
            raise BadParameter(f"stage: {stage.name} decided about place {at}; there are {len(places)} documents")
        verdicts[places[at]] = verdict
    return verdicts


def _check_map(name: str, doc: Document, made: Document) -> None:
    if made.id != doc.id:
        raise BadParameter(f"stage: {name} made {made.id!r} of document {doc.id}; a map keeps the id")
    if not isinstance(made.text, str) or not isinstance(made.source, str):
        raise BadParameter(f"stage: {name} gave document {doc.id} a text or a source that is no text")


class Counts:
    """What happened to documents, counted as it happens; a ledger at the end."""

    def __init__(self) -> None:
        self._flows: dict[tuple[str, str, str, str], list[int]] = {}
        self.tallies: Tallies = Counter()

    def add(
        self, stage: str, flow: str, source: str, reason: str = "", documents: int = 1, characters: int = 0
    ) -> None:
        """Count documents and their characters, as `Ledger.add` does, at a tenth of its price."""
        found = self._flows.setdefault((stage, flow, source, reason), [0, 0])
        found[0] += documents
        found[1] += characters

    def ledger(self) -> Ledger:
        """Return what was counted."""
        ledger = Ledger()
        for (stage, flow, source, reason), (documents, characters) in self._flows.items():
            ledger.add(stage, flow, source, reason, documents=documents, characters=characters)
        return ledger

    def settle_all(
        self, stage: Any, kind: str, docs: Sequence[Document], verdicts: Sequence[Any]
    ) -> list[Document | Rejected]:
        """Do what `settle` does of each document; those nothing happens to, nearly all, are counted together."""
        name, keys, out = stage.name, getattr(stage, "counted", ()), list[Document | Rejected]()
        flows: dict[str, list[int]] = {}
        for doc, verdict in zip(docs, verdicts, strict=True):
            if not isinstance(verdict, Document if kind == "map" else type(None)) or kind == "corpus":
                out.append(self.settle(stage, kind, doc, verdict))
                continue
            after, source = verdict or doc, doc.source
            if after is not doc:
                _check_map(name, doc, after)
            if keys and kind == "map":
                self.tally(name, keys, after, source)
            count = flows.get(source) or flows.setdefault(source, [0, 0, 0])
            count[0] += 1
            count[1] += len(doc.text)
            count[2] += len(after.text)
            out.append(after)
        for source, (number, before, size) in flows.items():
            self.add(name, "in", source, documents=number, characters=before)
            self.add(name, "kept", source, documents=number, characters=size)
        return out

    def settle(self, stage: Any, kind: str, doc: Document, verdict: Any) -> Document | Rejected:
        """Count what a stage of this contract decided about a document, and apply it."""
        if not isinstance(verdict, _VERDICTS[kind]):
            raise BadParameter(f"stage: {stage.name} gave {verdict!r} for document {doc.id}; {_ALLOWED[kind]}")
        if isinstance(verdict, Document) and verdict is not doc:
            _check_map(stage.name, doc, verdict)
        # A map may change the source; the balance is kept under the one the document came in with.
        name, size, source = stage.name, len(doc.text), doc.source
        self.add(name, "in", source, characters=size)
        if isinstance(verdict, Drop | BadRecord):
            flow = "dropped" if isinstance(verdict, Drop) else "failed"
            self.add(name, flow, source, verdict.reason, characters=size)
            return Rejected(doc, name, verdict)
        copies = verdict.n if isinstance(verdict, Repeat) else 1
        if isinstance(verdict, Cut):
            doc = replace(doc, text=verdict.apply(doc.text))
            self.tallies[name, "cut", source, verdict.reason] += 1
        elif isinstance(verdict, Document):
            doc = verdict
            self.tally(name, getattr(stage, "counted", ()), doc, source)
        if copies > 1:
            self.add(name, "repeated", source, documents=copies - 1, characters=size * (copies - 1))
        self.add(name, "kept", source, documents=copies, characters=len(doc.text) * copies)
        return doc

    def tally(self, stage: str, keys: Iterable[str], doc: Document, source: str) -> None:
        """Add up what the meta of a document says under some keys: a label, a flag, or counts."""
        for key in keys:
            value = doc.meta.get(key)
            if isinstance(value, Mapping):
                for label, number in value.items():
                    self.tallies[stage, key, source, label] += number
            elif value:
                # A flag is counted where it is set, and called by the name of its key.
                self.tallies[stage, key, source, key if value is True else str(value)] += 1


class Line:
    """Passes documents through maps and judges, one at a time, and counts.

    Parameters
    ----------
    stages : sequence of Map or Judge
        A corpus stage cannot stand in a line: it needs all documents.
    measured : callable of (name, documents, values, verdicts), or None
        Gets what a judge measured of some documents, a row of values for each. None: nobody wants it.

    Examples
    --------
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Upper:
    ...     name: str = "upper"
    ...     counted = ("shouted",)
    ...
    ...     def map(self, doc):
    ...         return replace(doc, text=doc.text.upper(), meta={**doc.meta, "shouted": True})
    >>> line = Line([Upper()])
    >>> line(Document("1", "hello", "web")).text, dict(line.counts.tallies)
    ('HELLO', {('upper', 'shouted', 'web', 'shouted'): 1})
    """

    def __init__(self, stages: Sequence[Map | Judge], measured: Measured | None = None) -> None:
        check_stages(stages)
        self.counts, self.names = Counts(), [stage.name for stage in stages]
        self._steps = [(stage, _call(stage, measured), contract(stage)) for stage in stages]

    def __call__(self, doc: Document) -> Document | Rejected:
        """Return the document as it comes out, or where and why it went."""
        return self.many([doc])[0]

    def many(self, docs: Sequence[Document]) -> list[Document | Rejected]:
        """Return of each document how it comes out, or where and why it went."""
        out, left = list[Document | Rejected](docs), list(range(len(docs)))
        here = list(docs)
        for stage, call, kind in self._steps:
            settled = self.counts.settle_all(stage, kind, here, call(here))
            for at, one in zip(left, settled, strict=True):
                out[at] = one
            left = [at for at, one in zip(left, settled, strict=True) if isinstance(one, Document)]
            here = [one for one in settled if isinstance(one, Document)]
        return out


@dataclass(frozen=True)
class Step:
    """What one stage did to one document.

    Parameters
    ----------
    stage : str
    before : Document
    after : Document or None
        The same object as `before`: nothing changed. None: it did not come through.
    why : Drop, Cut, BadRecord or None
        The verdict, where there was one.
    measured : mapping
        Signal -> value, of a judge that measures.
    """

    stage: str
    before: Document
    after: Document | None
    why: Drop | Cut | BadRecord | None = None
    measured: Mapping[str, float] = field(default_factory=dict)


def journey(stages: Iterable[Map | Judge], doc: Document) -> list[Step]:
    """Follow one document through the stages that a run passed it through; they decide the same again.

    Examples
    --------
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Short:
    ...     name: str = "short"
    ...
    ...     def judge(self, doc):
    ...         return Drop("short", len(doc.text), 3)
    >>> [(step.stage, step.after, step.why.reason) for step in journey([Short()], Document("1", "hi"))]
    [('short', None, 'short')]
    """
    steps: list[Step] = []
    for stage in stages:
        kind = contract(stage)
        verdict = _ask(stage, getattr(stage, kind), doc)
        settled = Counts().settle(stage, kind, doc, verdict)
        why = None if isinstance(verdict, Document) else verdict
        after = None if isinstance(settled, Rejected) else settled
        steps.append(Step(stage.name, doc, after, why, _signals(stage, doc, verdict)))
        if after is None:
            break
        doc = after
    return steps


def _signals(stage: Any, doc: Document, verdict: Any) -> dict[str, float]:
    if isinstance(verdict, BadRecord) or not isinstance(stage, Measuring):
        return {}
    return dict(zip(stage.signals, stage.measure(doc).tolist(), strict=True))


Measured: TypeAlias = Callable[[str, Sequence[Document], Sequence[np.ndarray], Sequence[Drop | Cut | None]], None]


def _call(stage: Any, measured: Measured | None) -> Callable[[Sequence[Document]], list[Any]]:
    """Return what gives the verdict of a stage about each of some documents."""
    kind = contract(stage)
    if kind == "corpus":
        raise BadParameter(f"stage: {stage.name} compares documents and cannot stand in a line")
    if measured is None or not isinstance(stage, Measuring):
        return lambda docs: _ask_all(stage, kind, docs)

    def measuring(doc: Document, found: np.ndarray | None) -> tuple[np.ndarray, Drop | Cut | None]:
        values = stage.measure(doc) if found is None else found
        # A copy: a judge may fill the same array for every document.
        return np.array(values, np.float64), stage.verdict(doc, values)

    def measuring_all(docs: Sequence[Document]) -> list[Any]:
        values = ask_many(stage, "measure", docs) or [None] * len(docs)
        told = [_ask(stage, partial(measuring, found=found), doc) for doc, found in zip(docs, values, strict=True)]
        judged = [(doc, *one) for doc, one in zip(docs, told, strict=True) if not isinstance(one, BadRecord)]
        if judged:
            measured(stage.name, *zip(*judged, strict=True))
        return [one if isinstance(one, BadRecord) else one[1] for one in told]

    return measuring_all


def _ask_all(stage: Any, kind: str, docs: Sequence[Document]) -> list[Any]:
    one = getattr(stage, kind)
    return ask_many(stage, kind, docs) or [_ask(stage, one, doc) for doc in docs]


def ask_many(stage: Any, call: str, docs: Sequence[Document]) -> list[Any] | None:
    """Ask about all documents at once; None where the stage cannot do that, or one of them cannot be answered."""
    many = getattr(stage, f"{call}_many", None)
    if many is not None and len(docs) > 1:
        with contextlib.suppress(Exception):
            return list(many(docs))
    return None
