"""The contracts a stage keeps, and run() in memory.

    map      map(doc)   -> Document | Drop                        change one
    judge    judge(doc) -> None | Drop | Cut                      decide about one
    corpus   sketch(doc) -> rows                                  per document, parallel
             pairs(rows) -> pairs of documents                    only stages that compare documents
             evidence(doc) -> anything                            only for documents a pair names
             decide(rows, pairs, evidence) -> {document: Drop | Cut | Repeat}

A stage is a frozen, keyword-only dataclass that refuses nonsense at birth. It never logs, counts, prints or writes:
`run` counts, and names the stage and the document in an error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

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
class Corpus(Protocol):
    """Decides about documents by looking at all of them.

    A stage that compares documents also has ``pairs(rows) -> iterable of (int, int)``, where `rows` is one sketch a
    document and the numbers are places in it, and ``evidence(doc)``, which `decide` gets as a dict by place.
    """

    @property
    def name(self) -> str:
        """What the ledger counts it under."""

    def sketch(self, doc: Document) -> Any:
        """Return what the decision needs of one document: numbers of fixed size."""

    def decide(
        self, rows: Sequence[Any], pairs: Sequence[tuple[int, int]], evidence: Mapping[int, Any]
    ) -> Mapping[int, Verdict]:
        """Return verdicts by the document's place; a place that is missing is kept."""


Stage: TypeAlias = Map | Judge | Corpus


@dataclass(frozen=True)
class Rejected:
    """A document that did not come through, and why.

    Parameters
    ----------
    document : Document
        As the stage saw it.
    stage : str
    drop : Drop
    """

    document: Document
    stage: str
    drop: Drop


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
    """

    kept: list[Document] = field(default_factory=list)
    dropped: list[Rejected] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)


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
    _check_stages(stages)
    result = Result(kept=list(docs))
    for stage in stages:
        _run_stage(stage, result)
    result.ledger.check()
    return result


def _check_stages(stages: Sequence[Stage]) -> None:
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
    if hasattr(stage, "pairs") != hasattr(stage, "evidence"):
        raise BadParameter(f"stage: {type(stage).__name__} must have both pairs and evidence, or neither")
    return found[0]


def _run_stage(stage: Any, result: Result) -> None:
    docs, result.kept = result.kept, []
    kind = contract(stage)
    verdicts = _decide(stage, docs) if kind == "corpus" else (_ask(stage, getattr(stage, kind), doc) for doc in docs)
    for doc, verdict in zip(docs, verdicts, strict=True):
        if not isinstance(verdict, _VERDICTS[kind]):
            raise BadParameter(f"stage: {stage.name} gave {verdict!r} for document {doc.id}; {_ALLOWED[kind]}")
        result.ledger.add(stage.name, "in", doc.source, characters=len(doc.text))
        _settle(stage.name, doc, verdict, result)


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
        with _noting(f"while {stage.name} handled document {doc.id}"):
            return call(doc)
    except BadRecord as error:
        return error


@contextlib.contextmanager
def _noting(text: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(text)
        raise


def _decide(stage: Any, docs: Sequence[Document]) -> list[Any]:
    """Return one verdict a document. One that cannot be sketched fails alone: the others do not see it."""
    verdicts: list[Any] = [_ask(stage, stage.sketch, doc) for doc in docs]
    places = [at for at, row in enumerate(verdicts) if not isinstance(row, BadRecord)]
    rows = [verdicts[at] for at in places]
    for at in places:
        verdicts[at] = None
    compared = f"while {stage.name} compared {len(rows)} documents"
    with _noting(compared):
        pairs = list(stage.pairs(rows)) if hasattr(stage, "pairs") else []
    named = sorted({at for pair in pairs for at in pair})
    evidence = {at: _ask(stage, stage.evidence, docs[places[at]]) for at in named}
    failed = {at: found for at, found in evidence.items() if isinstance(found, BadRecord)}
    pairs = [pair for pair in pairs if not failed.keys() & set(pair)]
    with _noting(compared):
        decided = stage.decide(rows, pairs, {at: found for at, found in evidence.items() if at not in failed})
    for at, verdict in {**decided, **failed}.items():
        if not 0 <= at < len(rows):
            raise BadParameter(f"stage: {stage.name} decided about place {at}; there are {len(rows)} documents")
        verdicts[places[at]] = verdict
    return verdicts


def _settle(name: str, doc: Document, verdict: Any, result: Result) -> None:
    # A map may change the source; the balance is kept under the one the document came in with.
    ledger, size, source = result.ledger, len(doc.text), doc.source
    if isinstance(verdict, Drop | BadRecord):
        flow = "dropped" if isinstance(verdict, Drop) else "failed"
        ledger.add(name, flow, source, verdict.reason, characters=size)
        drop = verdict if isinstance(verdict, Drop) else Drop(verdict.reason)
        result.dropped.append(Rejected(doc, name, drop))
        return
    if isinstance(verdict, Cut):
        doc = replace(doc, text=verdict.apply(doc.text))
    elif isinstance(verdict, Document):
        doc = verdict
    copies = verdict.n if isinstance(verdict, Repeat) else 1
    if copies > 1:
        ledger.add(name, "repeated", source, documents=copies - 1, characters=size * (copies - 1))
    ledger.add(name, "kept", source, documents=copies, characters=len(doc.text) * copies)
    result.kept.extend([doc] * copies)
