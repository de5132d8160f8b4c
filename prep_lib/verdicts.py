"""Verdict columns: how often each record of a file is read, and without which parts; the text stays where it is.

    web.jsonl     #L1   #L2   #L3   #L4
    copies         1     0     2     1        part-00000.copies.npy   (records,) uint16
    cuts                       5:9            part-00000.cuts.npy     (record, start, stop)

    read as       #L1   #L3   #L4   and, as an input web.jsonl~2 behind all others, #L3

A folder of verdicts stands for the documents it lets through: whatever reads documents takes it as it takes files.
Second copies are read after all first ones, so that no two copies lie side by side.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from prep_lib import files as fs
from prep_lib import remote
from prep_lib.errors import BadInput, BadParameter
from prep_lib.locks import HIDDEN, kind_of
from prep_lib.record import Cut

#: The kind of a folder that holds verdicts, see `locks.lock`.
VERDICTS = "verdicts about documents"

#: Of what `documents.json` says of a folder of verdicts.
VERSION = 1

#: When the files under a folder of verdicts were last changed, as they were decided about.
STAMPS = f"{HIDDEN}/bases.json"

#: A document is not read more often than this.
MOST = 2**16 - 1

#: A row of a column of cuts: `record` is a place in the column of copies; characters.
CUTS = np.dtype([("record", "<i8"), ("start", "<i4"), ("stop", "<i4")])


@dataclass(frozen=True)
class Column:
    """What was decided about the records of one file.

    Parameters
    ----------
    place : str
        The files of the column begin with it: ``folder/part-00000``.
    digest : str
        Of both files: an output that read through the column depends on it.
    records : tuple of int
        How many records are read at least once, at least twice, and so on.
    first : int
        The number of the file's first record: lines count from 1, Parquet rows from 0.
    text : str
        The key that holds the text of a record, for the cuts.
    copy : int
        Which copies are read through it: 0 the first ones.
    """

    place: str
    digest: str
    records: tuple[int, ...]
    first: int = 1
    text: str = "text"
    copy: int = 0

    def __getstate__(self) -> dict[str, Any]:
        # Without the open files.
        return {name: value for name, value in self.__dict__.items() if name in self.__dataclass_fields__}

    @cached_property
    def copies(self) -> np.ndarray:
        """How often each record is read, (records,) uint16, not loaded before it is looked at."""
        return fs.load_array(f"{self.place}.copies.npy", mmap_mode="r")

    @cached_property
    def cuts(self) -> np.ndarray:
        """Which parts are left out, (cuts,) of `CUTS`, in order."""
        return fs.load_array(f"{self.place}.cuts.npy")

    def original(self, name: str) -> str:
        """Return what an input is called when its records are read for the first time."""
        return name.removesuffix(called("", self.copy))

    def check(self, text: str) -> None:
        """Refuse to do to one text what was decided about another."""
        if text != self.text:
            raise BadParameter(f"verdicts: these are about the field {self.text!r}; {text!r} is another text")

    def takes(self, number: int) -> bool:
        """Tell whether the record with this number is read."""
        at = number - self.first
        # The column ends with the last record that anybody saw.
        return at < len(self.copies) and bool(self.copies[at] > self.copy)

    def cut(self, number: int) -> Cut | None:
        """Return what is cut from a record; None: nothing."""
        if not len(self.cuts):
            return None
        low, high = np.searchsorted(self.cuts["record"], number - self.first + np.arange(2))
        spans = zip(self.cuts["start"][low:high].tolist(), self.cuts["stop"][low:high].tolist(), strict=True)
        return Cut(tuple(spans), "cut") if high > low else None


def called(name: str, copy: int) -> str:
    """Name a copy of an input, or of a document with an id of its own: the first keeps its name.

    Examples
    --------
    >>> called("a.jsonl", 0), called("a.jsonl", 1)
    ('a.jsonl', 'a.jsonl~2')
    """
    return f"{name}~{copy + 1}" if copy else name


def first_copy(name: str) -> str:
    """Return what the first copy of an input, or of a document, is called.

    Examples
    --------
    >>> first_copy("a.jsonl~2"), first_copy("a.jsonl~2#L3"), first_copy("a.parquet~3[5]"), first_copy("doc1~2")
    ('a.jsonl', 'a.jsonl#L3', 'a.parquet[5]', 'doc1')
    """
    return re.sub(r"~\d+(?=$|#L\d+$|\[\d+\]$)", "", name)


def through(files: Sequence[str | Path] | str | Path, where: str) -> tuple[list[str], dict[str, Column]]:
    """Return the files that hold the documents, and the columns they are read through.

    Parameters
    ----------
    files : path, address or sequence of them
        Folders of verdicts become the files under them; others stay what they are.
    where : str
        Who asks, for the error line.

    Returns
    -------
    list of str, dict of str to Column
        By absolute path.

    Raises
    ------
    BadInput
        If a folder of verdicts is not complete, or a file under it is not the one that was decided about.
    """
    given = [files] if isinstance(files, str | Path) else list(files)
    paths: list[str] = []
    columns: dict[str, Column] = {}
    for one in map(str, given):
        if is_verdicts(one):
            found = under(one, where)
            paths += found
            columns |= found
        else:
            paths.append(one)
    return paths, columns


def is_verdicts(folder: str | Path) -> bool:
    """Tell whether a folder holds verdicts."""
    return (fs.is_remote(folder) or os.path.isdir(folder)) and kind_of(folder) == VERDICTS


def under(folder: str | Path, where: str) -> dict[str, Column]:
    """Return the files that a folder of verdicts is about, with their columns; see `through`."""
    home = fs.absolute(folder)
    size = remote.sizes(home)
    if size("ledger.json") is None:
        raise BadInput(f"{where}: {folder} is not complete: the run that writes it did not end; run it again")
    contents = json.loads((home / "documents.json").read_bytes())
    if contents.get("version") != VERSION:
        raise BadInput(f"{where}: another version of prep_lib wrote {folder}; write it again")
    stamps: dict[str, list[int]] = {}
    with contextlib.suppress(OSError, ValueError):
        stamps = json.loads((home / STAMPS).read_bytes())
    out: dict[str, Column] = {}
    for part in contents["parts"]:
        path = based(home, part["base"])
        if not _is_the_one(path, stamps.get(part["file"]), part["base_sha256"]):
            raise BadInput(f"{where}: {path} is missing or not what was decided about; write {folder} again")
        out[path] = _column(home, size, part, contents["text"], where)
    return out


def base_of(path: str, folder: Path) -> str:
    """Return how a folder of verdicts names a file it is about: from the folder on, where both can be moved together.

    Raises
    ------
    BadParameter
        If the address says who asks: it would be written down.
    """
    if fs.is_remote(folder) and path.startswith(f"{folder.parent}/"):
        return posixpath.relpath(path.split("://")[1], str(folder).split("://")[1])
    if remote.without_secrets(path) != path:
        raise BadParameter(
            f"decide: {remote.without_secrets(path)} is written down in the output, so its address must not hold a "
            "user, password or signature; leave those to fsspec's configuration"
        )
    return path if fs.is_remote(path) or fs.is_remote(folder) else os.path.relpath(path, folder)


def based(folder: Path, base: str) -> str:
    """Return the file that `base_of` named."""
    if fs.is_remote(base):
        return base
    if not fs.is_remote(folder) or os.path.isabs(base):
        return os.path.abspath(os.path.join(folder, base))
    head, _, rest = str(folder).partition("://")
    return f"{head}://{posixpath.normpath(posixpath.join(rest, base))}"


def _is_the_one(path: str, before: list[int] | None, sha256: str) -> bool:
    """Tell whether a file is the one that was decided about; it is read only if it was touched since."""
    try:
        return fs.as_written(path, before or fs.stamp(path), sha256, rehash=before is None)
    except (OSError, BadInput):
        return False


def _column(folder: Path, size: Callable[[str], int | None], part: dict[str, Any], text: str, where: str) -> Column:
    place = str(folder / part["file"])
    for name, told in part["bytes"].items():
        if size(f"{part['file']}.{name}.npy") != told:
            raise BadInput(f"{where}: {place}.{name}.npy is missing or cut; write {folder} again")
    if "+".join(fs.digest(f"{place}.{name}.npy") for name in part["bytes"]) != part["sha256"]:
        raise BadInput(f"{where}: {place}.copies.npy or .cuts.npy is not as it was written; write {folder} again")
    return Column(place, part["sha256"], tuple(part["records"]), part["first"], text)


def joined(old: Sequence[tuple[int, int]], new: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans to cut from a text in one go that cut `old` from it and then `new` from what is left.

    Examples
    --------
    >>> joined([(2, 4)], [(1, 3)]), joined([(2, 4)], [(5, 6)])
    ([(1, 5)], [(2, 4), (7, 8)])
    """
    if not new:
        return [*old]
    kept = np.ones(max((stop for _, stop in old), default=0) + max(stop for _, stop in new), bool)
    for start, stop in old:
        kept[start:stop] = False
    left = np.flatnonzero(kept)
    for start, stop in new:
        kept[left[start:stop]] = False
    edges = np.flatnonzero(np.diff(kept.astype(np.int8), prepend=1, append=1))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]
