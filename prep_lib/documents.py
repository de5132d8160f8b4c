"""Documents on disk: what a run of stages wrote, opened and searched.

folder/
├── part-00000.jsonl.zst       {"id", "text", "source", "meta"}, a line a document that came through, as read
├── part-00000.quality.npy     what a judge measured of every document it saw, kept or dropped
├── rejected.jsonl.zst         who did not come through, where and why
├── documents.json             the parts with their digests, the stages, the tallies
└── ledger.json                written last: its presence means the folder is complete

A folder of verdicts (`decide.decide_files`) is opened alike: it has no texts, and gives the documents it lets through.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import xxhash

from prep_lib import files as fs
from prep_lib import inputs, rejected, remote, verdicts
from prep_lib.errors import BadInput, BadRecord
from prep_lib.ledger import Ledger
from prep_lib.locks import kind_of
from prep_lib.record import Document
from prep_lib.source import jsonl, read
from prep_lib.stage import Tallies

#: What the folder's table of contents is called.
NAME = "documents.json"
LEDGER = "ledger.json"
PARTS = "part-*.jsonl.zst"

#: What stands before the signals in a table of numbers: who was measured, and what came of it.
MEASURED = [
    ("id", "<u8"),  # the document's id, hashed: `id_hash`
    ("source", "<u8"),  # the source's name, hashed: "sources" of documents.json says which
    ("language", "S24"),
    ("characters", "<i4"),
    ("verdict", "<i2"),  # place in the judge's reasons; -1: kept, -2: kept without some lines
]
KEPT, CUT = -1, -2


def numbers_dtype(signals: Sequence[str]) -> np.dtype[Any]:
    """Return the type of a row of measured numbers."""
    return np.dtype([*MEASURED, *((name, "<f8") for name in signals)])


def id_hash(name: str) -> int:
    """Return the number an id, or a source, is found by in a table.

    Examples
    --------
    >>> id_hash("a.jsonl#L1") == id_hash("a.jsonl#L1") != id_hash("a.jsonl#L2")
    True
    """
    return xxhash.xxh3_64_intdigest(name.encode("utf-8", "surrogatepass"))


def sampled(files: Sequence[str | Path] | str | Path) -> float:
    """Return the share of all records that is in some folders of documents, where a sample was drawn; 1.0: everything.

    Parameters
    ----------
    files : path or sequence of paths
        Folders, or parts of them; whatever else counts as everything.
    """
    shares = [1.0]
    for one in [files] if isinstance(files, str | Path) else files:
        place = fs.place(one)
        folder = place if place.is_dir() else place.parent
        # What lies beside a file says nothing about it, unless it is a part.
        if folder is place or kind_of(folder) == inputs.DOCUMENTS:
            with contextlib.suppress(OSError, ValueError):
                shares.append(json.loads((folder / NAME).read_bytes()).get("sample") or 1.0)
    return min(shares)


@dataclass(frozen=True)
class Found:
    """What became of one document in a folder.

    Parameters
    ----------
    document : Document or None
        As it came through. None: it did not.
    rejected : dict or None
        Its line in ``rejected.jsonl.zst``.
    measured : dict
        Judge -> signal -> value; empty where nothing was measured.
    """

    document: Document | None
    rejected: dict[str, Any] | None
    measured: dict[str, dict[str, float]]


class Documents:
    """A folder that `pipeline.run_files` or `decide.decide_files` wrote.

    Parameters
    ----------
    folder : path

    Raises
    ------
    BadInput
        If the folder is not complete, or a part of it is not what its table of contents says.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = fs.place(folder)
        try:
            self.ledger = Ledger.from_json((self.folder / LEDGER).read_bytes())
            self.contents: dict[str, Any] = json.loads((self.folder / NAME).read_bytes())
            parts = [] if self.decided else self.contents["parts"]
            self.parts = [self.folder / part["file"] for part in parts]
            self.size = self.contents["documents"] if self.decided else sum(part["documents"] for part in parts)
            size = remote.sizes(self.folder)
            missing = [part["file"] for part in parts if size(part["file"]) != part["bytes"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInput(
                f"documents: {self.folder} is no complete folder of documents ({type(error).__name__}); run the "
                "notebook that writes it to its end"
            ) from None
        if missing:
            raise BadInput(f"documents: {self.folder.name}: {missing[0]} is missing or cut; write the folder again")

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Document]:
        return self._let_through() if self.decided else map(_document, self._lines())

    @property
    def decided(self) -> bool:
        """Whether the texts lie in other files, and this folder says which of them come through."""
        return self.contents.get("format") == "verdicts"

    def _let_through(self) -> Iterator[Document]:
        under = list(verdicts.under(self.folder, "documents").items())
        names = [name for name, _ in self.contents["inputs"]]
        rounds = sorted(
            (copy, at) for at, (_, column) in enumerate(under) for copy in range(max(1, len(column.records)))
        )
        for copy, at in rounds:
            path, column = under[at][0], replace(under[at][1], copy=copy)
            span, name = fs.Span(path, first=column.first), verdicts.called(names[at], copy)
            field = inputs.source_field(path, self.contents["source_field"])
            for _, found in read.documents(span, name=name, text=column.text, column=column):
                if isinstance(found, Document):
                    yield from_field(found, field)

    @property
    def tallies(self) -> Tallies:
        """What maps found out: (stage, key, source, label) -> how many."""
        return Tallies({(stage, key, source, label): n for stage, key, source, label, n in self.contents["tallies"]})

    def rejected(self) -> Iterator[dict[str, Any]]:
        """Yield who did not come through, see `prep_lib.rejected`."""
        return rejected.read(self.folder / rejected.NAME)

    def numbers(self, judge: str = "quality") -> np.ndarray:
        """Return everything a judge measured.

        Returns
        -------
        (documents the judge saw,) structured
            See `numbers_dtype`; in the order of the parts.
        """
        whole = [*self._tables(judge)]
        empty = np.empty(0, numbers_dtype(self.contents["measured"][judge]["signals"]))
        return np.concatenate([empty, *whole])

    def _tables(self, judge: str) -> Iterator[np.ndarray]:
        """Yield what a judge measured, part by part, mapped: of millions of documents a few columns are wanted."""
        if judge not in self.contents["measured"]:
            raise BadInput(f"documents: nothing in {self.folder.name} was measured by {judge!r}")
        for path in self.parts:
            yield fs.load_array(self.folder / f"{path.name.split('.')[0]}.{judge}.npy", "r")

    def funnel(self, judge: str = "quality") -> list[dict[str, Any]]:
        """Return what a judge decided, by language.

        Returns
        -------
        list of dict
            ``language``, ``reason`` (``kept``, ``kept, lines cut``, or why they went, in the order of the rules),
            ``documents``, ``characters`` (as the judge got them).
        """
        found: dict[bytes, np.ndarray] = {}  # documents and characters by verdict, from -2 on
        for table in self._tables(judge):
            codes, characters = table["verdict"].astype(np.int64) - CUT, table["characters"]
            languages, which = np.unique(table["language"], return_inverse=True)
            for at, language in enumerate(languages):
                mine, size = which == at, len(self.reasons[judge]) + 2
                counts = [np.bincount(codes[mine], weights, size) for weights in (None, characters[mine])]
                found[language] = found.get(language, np.zeros((2, size), np.int64)) + np.array(counts, np.int64)
        reasons = [*self.reasons[judge], "kept, lines cut", "kept"]
        return [
            {"language": language.decode("utf-8", "ignore"), "reason": reason, "documents": n, "characters": size}
            for language in sorted(found)
            # The last two have the codes -2 and -1.
            for reason, n, size in zip(reasons, *np.roll(found[language], CUT, axis=1).tolist(), strict=True)
            if n
        ]

    def _lines(self) -> Iterator[bytes]:
        for path in self.parts:
            for number, line in fs.read_lines(fs.Span(str(path))):
                if isinstance(line, BadRecord):
                    raise BadInput(f"documents: {path.name} is damaged at line {number}: {line}; write it again")
                yield line

    def find(self, name: str) -> Found | None:
        """Return what became of the document with this id; None: nobody here has seen it."""
        doc = self._find(name)
        lost = None if doc else next((line for line in self.rejected() if line["id"] == name), None)
        return None if doc is lost is None else Found(doc, lost, self._measured(name))

    def _find(self, name: str) -> Document | None:
        if self.decided:
            return next((doc for doc in self if doc.id == name), None)
        opening = b'{"id":' + orjson.dumps(name) + b","
        return next((_document(line) for line in self._lines() if line.startswith(opening)), None)

    def _measured(self, name: str) -> dict[str, dict[str, float]]:
        out: dict[str, dict[str, float]] = {}
        for judge, told in self.contents["measured"].items():
            rows = (table[table["id"] == id_hash(name)][:1] for table in self._tables(judge))
            for row in itertools.chain.from_iterable(rows):
                out[judge] = {signal: float(row[signal]) for signal in told["signals"] if not np.isnan(row[signal])}
                break
        return out

    @cached_property
    def reasons(self) -> dict[str, list[str]]:
        """The reasons of every measuring judge, in the order the verdict column counts them."""
        return {judge: list(told["reasons"]) for judge, told in self.contents["measured"].items()}


def input_names(folder: str | Path) -> list[str]:
    """Return what the ids in a folder of documents begin with."""
    return [name for name, _ in Documents(folder).contents["inputs"]]


def _document(line: bytes) -> Document:
    record = jsonl.loads(line)
    return Document(record["id"], record["text"], record["source"], record["meta"])


def from_field(doc: Document, field: str) -> Document:
    """Return a document under the source that a field of its record names, if it does."""
    source = doc.meta.get(field) if field else None
    if not isinstance(source, str) or not source:
        return doc
    return Document(doc.id, doc.text, source, {key: value for key, value in doc.meta.items() if key != field})
