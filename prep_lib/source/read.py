"""Which reader a file gets, by its ending; and rows of a data set as documents.

    .html .htm .xhtml            html      a page is a document
    .txt .text .md .rst          text      a file is a document
    .warc .arc .wet .wat         warc      a record is a document                       each also .gz or .zst
    .jsonl .ndjson               jsonl     a line is a document
    .json .csv .tsv              table     a member, a row is a document
    .parquet                     parquet   a row is a document

Every reader is ``documents(span, name=…, …)`` and yields ``(id, Document | Drop | BadRecord)``: what it reads, what it
read and is none, what is damaged. A damaged record costs itself.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from prep_lib import files
from prep_lib.errors import BadInput, BadParameter, BadRecord, unknown
from prep_lib.files import Span, Survey, compression
from prep_lib.record import Document, Drop
from prep_lib.registry import Registry
from prep_lib.remote import without_secrets
from prep_lib.source import html, hub, jsonl, parquet, plain, warc
from prep_lib.verdicts import Column

#: What a reader yields: the id, and the document, or why there is none.
Found = tuple[str, Document | Drop | BadRecord]


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Parameters
    ----------
    documents : callable
        ``documents(span, *, name, …) -> Iterator[Found]``.
    endings : tuple of str
        Of file names, small letters.
    survey : callable
        ``survey(path) -> Survey``, which says into what spans a file may be cut.
    packed : bool
        Whether the endings may be followed by ``.gz`` or ``.zst``.
    """

    documents: Callable[..., Iterator[Found]]
    endings: tuple[str, ...]
    survey: Callable[[str], Survey]
    packed: bool = True

    @functools.cached_property
    def options(self) -> frozenset[str]:
        """What its reader can be told beside the span."""
        return frozenset(inspect.signature(self.documents).parameters) - {"span"}


def _whole(path: str) -> Survey:
    """Digest a file that cannot be entered in its middle."""
    try:
        size = files.stamp(path)[0]
        return Survey(files.digest(path), size, None, (Span(path),))
    except OSError as error:
        raise BadInput(f"read: cannot read {path}: {error.strerror or error}") from None


def _rows(span: Span, *, name: str | None = None, text: str = "text") -> Iterator[Found]:
    """Yield the rows of a table, or the members of a JSON array, as `jsonl.documents` does lines."""
    name = os.path.basename(span.path) if name is None else name
    try:
        yield from dataset_documents(span.path, name=name, text=text)
    except BadInput as error:
        yield name, BadRecord("unreadable_file", str(error))


def dataset_documents(dataset: Any, *, name: str | None = None, text: str = "text") -> Iterator[Found]:
    """Yield (id, document) of the rows of a data set.

    Parameters
    ----------
    dataset
        As for `hub.open_source`: a data set, a folder saved by datasets, a name on the hub, files.
    name : str or None
        What the ids begin with; None: the data set's or each file's own name.
    text : str
        The column that holds the text; the others become the meta.

    Examples
    --------
    >>> import datasets
    >>> rows = datasets.Dataset.from_dict({"text": ["a"], "stars": [5]})
    >>> list(dataset_documents(rows, name="toy"))
    [('toy[0]', Document(id='toy[0]', text='a', source='toy', meta={'stars': 5}))]
    """
    for source, place, raw in hub.open_source(dataset).read(0):
        record = hub.parsed(raw)
        if not isinstance(record, BadRecord):
            try:
                record = jsonl.plain(record)
            except BadRecord as error:
                record = error.with_traceback(None)
        named = source if name is None else name
        yield jsonl.document(named + place.removeprefix(source), named, record, text)


def _table(span: Span, *, name: str | None = None, text: str = "text", column: Column | None = None) -> Iterator[Found]:
    """Yield what `parquet.documents` does; a file that is no Parquet file is one record that failed."""
    try:
        yield from parquet.documents(span, name=name, text=text, column=column)
    except BadInput as error:
        yield os.path.basename(span.path) if name is None else name, BadRecord("unreadable_file", str(error))


def _row_groups(path: str) -> Survey:
    try:
        return parquet.survey(path)
    except BadInput:
        return _whole(path)


#: The kinds of files, by name.
KINDS: Registry[Kind] = Registry("read", "kind of file")
KINDS.add("html", Kind(html.documents, (".html", ".htm", ".xhtml"), _whole))
KINDS.add("text", Kind(plain.documents, (".txt", ".text", ".md", ".rst"), _whole))
KINDS.add("warc", Kind(warc.documents, (".warc", ".arc", ".wet", ".wat"), _whole))
KINDS.add("jsonl", Kind(jsonl.documents, (".jsonl", ".ndjson"), files.survey))
KINDS.add("table", Kind(_rows, (".json", ".csv", ".tsv"), _whole))
KINDS.add("parquet", Kind(_table, (".parquet",), _row_groups, packed=False))

#: Kinds of which a file is one document, and its folder the source.
WHOLE = ("html", "text")

#: Every ending a file of a known kind has.
ENDINGS = tuple(
    ending + packed
    for kind in KINDS
    for ending in KINDS[kind].endings
    for packed in (("", ".gz", ".zst") if KINDS[kind].packed else ("",))
)


def kind_of(path: str) -> str:
    """Return the kind of a file, by its ending.

    Raises
    ------
    UnknownName
        If the ending is none of `ENDINGS`; the caller may name the kind instead.

    Examples
    --------
    >>> kind_of("web/A.HTML"), kind_of("CC-MAIN.warc.wet.gz"), kind_of("s3://bucket/a.jsonl.zst")
    ('html', 'warc', 'jsonl')
    """
    name = without_secrets(path)
    packed = compression(name)
    ending = os.path.splitext(name[: -len(packed) - 1] if packed else name)[1].lower()
    for kind in KINDS:
        if ending in KINDS[kind].endings and (KINDS[kind].packed or not packed):
            return kind
    raise unknown("read", f"ending of {os.path.basename(path)}:", f"{ending}.{packed}" if packed else ending, ENDINGS)


def documents(span: Span, kind: str | None = None, **options: Any) -> Iterator[Found]:
    """Yield (id, document) of a span by the reader of its kind.

    Parameters
    ----------
    kind : str or None
        One of `KINDS`; None: by the file's ending.
    **options
        ``name``, and what readers take (``text``, ``max_bytes``): each gets those it knows, so that one set serves
        files of several kinds.

    Raises
    ------
    BadParameter
        If no reader knows an option.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.txt")
    >>> _ = path.write_text("hello")
    >>> [found.text for _, found in documents(Span(str(path)), text="body")]
    ['hello']
    """
    known = frozenset[str]().union(*(KINDS[name].options for name in KINDS))
    if strange := sorted(options.keys() - known):
        raise BadParameter(f"read: no reader has an option {strange[0]!r}; known: {', '.join(sorted(known))}")
    reader = KINDS[kind_of(span.path) if kind is None else kind]
    return reader.documents(span, **{name: value for name, value in options.items() if name in reader.options})


def source_of(path: str, name: str) -> str:
    """Return the source of what a file holds, if its records say nothing else: its folder, or its name.

    Parameters
    ----------
    path : str
    name : str
        What the ids of its records begin with.

    Examples
    --------
    >>> source_of("/data/web/a.html", "web/a.html"), source_of("/data/web/a.jsonl", "web/a.jsonl")
    ('web', 'web/a.jsonl')
    """
    return plain.source_of(name) if kind_of(path) in WHOLE else name


def survey(path: str, kind: str | None = None) -> Survey:
    """Digest a file and cut it into spans as its kind allows: lines, row groups, or the file as a whole.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.html")
    >>> _ = path.write_text("<p>one</p>")
    >>> found = survey(str(path))
    >>> found.size, found.rows, len(found.spans)
    (10, None, 1)
    """
    return KINDS[kind_of(path) if kind is None else kind].survey(path)


def rows(span: Span) -> Iterator[tuple[int, bytes | dict[str, Any] | BadRecord]]:
    """Yield (number, line) of JSONL, not parsed yet, or (number, record) of Parquet; `hub.parsed` reads both."""
    return parquet.read_records(span) if span.path.endswith(".parquet") else files.read_lines(span)


def survey_rows(path: str, count: bool = False) -> Survey:
    """Digest a JSONL or Parquet file and cut it; `count`: the rows of a compressed one are wanted too."""
    if path.endswith(".parquet"):
        return parquet.survey(path)
    found = files.survey(path, files.SPAN)
    if found.rows is None and count:
        found = replace(found, rows=sum(1 for _ in files.read_lines(Span(path))))
    return found
