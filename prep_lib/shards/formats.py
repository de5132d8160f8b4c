"""The kinds of shard files: what each is called, who writes it, who reads it.

h5     chunk_0.h5            one file, packed or ragged, several keys
bin    shard-00000.bin       flat ids, and two small files beside them
npz    shard_000000.npz      what plain `np.load` opens, and the same two files
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prep_lib.errors import BadShard
from prep_lib.files import is_remote, local, place
from prep_lib.shards.bin import BESIDE, BinShard, BinWriter
from prep_lib.shards.h5 import H5Shard, ShardWriter
from prep_lib.shards.manifest import NAME, read_manifest
from prep_lib.shards.npz import NpzShard, NpzShardWriter
from prep_lib.shards.shard import Shard


@dataclass(frozen=True)
class Format:
    """One kind of shard file.

    Parameters
    ----------
    name : str
    pattern : str
        The name of shard n is ``pattern.format(n)``.
    beside : tuple of str
        Endings of the files that belong to a shard, in place of its own.
    writer, reader : callable of a path
    """

    name: str
    pattern: str
    beside: tuple[str, ...]
    writer: Callable[[Path], Any]
    reader: Callable[[Path], Shard]

    def file(self, number: int) -> str:
        """Return the name of a shard."""
        return self.pattern.format(number)

    def outputs(self, number: int) -> tuple[str, ...]:
        """Return the names of a shard and of the files beside it."""
        name = Path(self.file(number))
        return (name.name, *(name.with_suffix(ending).name for ending in self.beside))

    def number(self, name: str) -> int | None:
        """Return which shard a file is, or belongs to; None if it is none.

        Examples
        --------
        >>> FORMATS["bin"].number("shard-00012.segments.npy"), FORMATS["h5"].number("chunk_x.h5")
        (12, None)
        """
        found = re.match(r"[a-z]+[-_](\d+)\.", name)
        return int(found.group(1)) if found and name in self.outputs(int(found.group(1))) else None


#: By name, which is also the ending.
FORMATS = {
    "h5": Format("h5", "chunk_{}.h5", (), ShardWriter, H5Shard),
    "bin": Format("bin", "shard-{:05d}.bin", BESIDE, BinWriter, BinShard),
    "npz": Format("npz", "shard_{:06d}.npz", BESIDE, NpzShardWriter, NpzShard),
}


def open_shard(path: str | Path) -> Shard:
    """Open a shard of any kind.

    Raises
    ------
    BadShard
        If nobody knows the kind, or the file is not there, cut or foreign.
    """
    kind = FORMATS.get(place(path).suffix[1:])
    if kind is None:
        known = ", ".join(f".{name}" for name in FORMATS)
        raise BadShard(f"shards/formats: {path} is no shard; known are {known}")
    return kind.reader(_here(place(path), kind))


def _here(path: Path, kind: Format) -> Path:
    """Return a file that can be mapped: a shard in a store is copied, with what it needs beside it."""
    if not is_remote(path):
        return path
    for beside in (path.with_suffix(ending) for ending in kind.beside):
        with contextlib.suppress(FileNotFoundError):
            local(beside)
    if kind.name == "bin":
        # Its manifest says how to read it.
        with contextlib.suppress(FileNotFoundError):
            local(path.with_name(NAME))
    try:
        return local(path)
    except FileNotFoundError:
        raise BadShard(f"shards/{kind.name}: {path}: there is no such file") from None


def document_counts(folder: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """Return how many tokens and how many targets each stored document has, both (n,) int64, as they were read.

    A document that is cut into several packs, or shards, is one document here.

    Raises
    ------
    BadShard
        If the folder has no manifest, or a shard cannot be read.
    """
    whole: list[np.ndarray] = [np.zeros((4, 0), np.int64)]
    manifest, home = read_manifest(folder), place(folder)
    names = {name: at for at, name in enumerate((manifest["recipe"] or {}).get("inputs", ()))}
    for entry in manifest["shards"]:
        shard = open_shard(home / entry["file"])
        document, *counts = shard.document_counts()
        # Each shard numbers the inputs it knows of by itself.
        known = np.array([names.setdefault(name, len(names)) for name in shard.sources], np.int64)
        source, line = (np.asarray(shard.document_columns[name])[document] for name in ("source", "line"))
        whole.append(np.stack([known[source], line, *counts]))
    source, line, tokens, targets = np.concatenate(whole, axis=1)
    found, at = np.unique(np.stack([source, line]), axis=1, return_inverse=True)
    summed = (np.bincount(at.ravel(), counts, minlength=found.shape[1]) for counts in (tokens, targets))
    return tuple(total.astype(np.int64) for total in summed)  # type: ignore[return-value]
