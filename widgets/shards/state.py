"""What each file of a folder holds, counted: how much, and from which sources.

    shard-00000.bin   5,000 tokens   web · en 3,000   code 2,000
    shard-00001.bin   5,000 tokens   web · en 2,900   code 2,100

Counted from what is stored beside the ids, never from the ids themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prep_lib.shards.formats import open_shard
from prep_lib.shards.manifest import read_manifest
from prep_lib.shards.npz import NpzReader, npz_files
from prep_lib.shards.shard import Shard

#: Rows of a label looked at once.
_BLOCK = 2**18


@dataclass(frozen=True)
class Held:
    """What one file holds.

    Parameters
    ----------
    name : str
    size : int
        Tokens, padding apart; or rows.
    sources : mapping of str -> int
        How much of it is from each source; empty where nobody knows.
    """

    name: str
    size: int
    sources: Mapping[str, int]


@dataclass(frozen=True)
class Evenness:
    """How even the sizes of some files are.

    Parameters
    ----------
    smallest, largest : int
    middle : float
        The median.
    """

    smallest: int
    middle: float
    largest: int

    @property
    def ratio(self) -> float | None:
        """The largest over the smallest; None where the smallest is empty."""
        return self.largest / self.smallest if self.smallest else None


def evenness(files: Sequence[Held]) -> Evenness:
    """Measure sizes.

    Examples
    --------
    >>> told = evenness([Held("a", 2, {}), Held("b", 4, {}), Held("c", 10, {})])
    >>> told.smallest, told.middle, told.largest, told.ratio
    (2, 4.0, 10, 5.0)
    """
    sizes = [held.size for held in files]
    return Evenness(min(sizes), float(np.median(sizes)), max(sizes))


def names_of(files: Sequence[Held]) -> list[str]:
    """Return the sources of some files, the largest first.

    Examples
    --------
    >>> names_of([Held("a", 5, {"web": 2, "code": 3}), Held("b", 4, {"web": 4})])
    ['web', 'code']
    """
    totals: Counter[str] = Counter()
    for held in files:
        totals.update(held.sources)
    return sorted(totals, key=lambda name: (-totals[name], name))


def stored(folder: str | Path) -> list[Held]:
    """Return what each shard of a folder with a manifest holds, in tokens, by source and language.

    Raises
    ------
    BadShard
        If there is no manifest, or a shard cannot be read.
    """
    return [Held(name, sum(found.values()), found) for name, found in _each(folder, lambda shard: ("",))]


def inputs(folder: str | Path) -> list[Held]:
    """Return the same tokens by the input files they came from, in the order these were read.

    Raises
    ------
    BadShard
        As for `stored`.
    """
    files: dict[str, Counter[str]] = {
        name: Counter() for name in (read_manifest(folder)["recipe"] or {}).get("inputs", ())
    }
    for key, found in _each(folder, lambda shard: shard.sources):
        files.setdefault(key, Counter()).update(found)
    return [Held(name, found.total(), found) for name, found in files.items()]


def _each(folder: str | Path, parts: Callable[[Shard], Sequence[str]]) -> Iterator[tuple[str, Counter[str]]]:
    """Yield tokens by group: of each shard, or of each input that one knows."""
    for entry in read_manifest(folder)["shards"]:
        shard = open_shard(Path(folder, entry["file"]))
        groups = [" · ".join(filter(None, group)) for group in shard.groups] or shard.sources
        names = parts(shard)
        table = _tokens(shard, len(names), len(groups))
        for name, counts in zip(names, table.tolist(), strict=True):
            yield name or entry["file"], Counter({group: n for group, n in zip(groups, counts, strict=True) if n})


def _tokens(shard: Shard, inputs: int, groups: int) -> np.ndarray:
    """Return (inputs, groups) int64: the tokens of each pair; one row for all where `inputs` is 1."""
    document, tokens, _ = shard.document_counts()
    columns = shard.document_columns
    group = np.asarray(columns.get("group", columns["source"]), np.int64)[document]
    source = np.asarray(columns["source"], np.int64)[document] if inputs > 1 else 0
    return np.bincount(source * groups + group, tokens, inputs * groups).astype(np.int64).reshape(inputs, groups)


def arrays(folder: str | Path, label: str = "") -> list[Held]:
    """Return what each npz file of a folder holds, in rows.

    Parameters
    ----------
    folder : path
        Its files, or those in ``train/`` where that folder exists.
    label : str
        A field of one value a row that says where it belongs. Empty: only the headers are read.

    Raises
    ------
    BadInput, BadShard
        If there is no file, or one cannot be read.
    BadParameter
        If a file has no such field.
    """
    return [_array(path, label) for path in npz_files(folder).train]


def _array(path: Path, label: str) -> Held:
    reader, found = NpzReader(path), Counter[str]()
    for block in reader.blocks(_BLOCK, [label]) if label else ():
        values, counts = np.unique(block[label], return_counts=True)
        found.update({str(value): int(n) for value, n in zip(values.tolist(), counts, strict=True)})
    return Held(path.name, reader.rows, found)
