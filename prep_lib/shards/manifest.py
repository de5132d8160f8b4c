"""What a folder of shards holds, written last: its presence means that the folder is complete.

    {"format": "h5",
     "shards": [{"file": "chunk_0.h5", "sequences": 8, "tokens": 96, "dtype": "int32",
                 "bytes": 2432, "sha256": "9f…", "sources": {"web": 96},
                 "beside": [{"file": …, "bytes": …, "sha256": …}]}],      only where files stand beside a shard
     "seq_len": 16, "dropped_remainder_tokens": 9, "totals": {…}, "tokenizer": {…}, "strategy": {…}, "seed": 42,
     "packing": {…}, "pre_shuffled": true, "recipe": null, "parents": []}

No clock times and no paths: the same input gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prep_lib.errors import BadParameter, BadShard
from prep_lib.files import digest, write_whole

NAME = "manifest.json"

#: In this order in the file.
KEYS = (
    "format", "shards", "seq_len", "dropped_remainder_tokens", "totals", "tokenizer", "strategy", "seed", "packing",
    "pre_shuffled", "recipe", "parents",
)  # fmt: skip
SHARD_KEYS = ("file", "sequences", "tokens", "dtype", "bytes", "sha256", "sources")
#: The files beside a shard, each with bytes and sha256; only where there are some.
BESIDE = "beside"
FILE_KEYS = ("file", "bytes", "sha256")


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be.

    Parameters
    ----------
    file : str
        Its name in the folder.
    what : str
        One sentence.
    severity : "error" or "warning"
    """

    file: str
    what: str
    severity: str = "error"


def shard_entry(
    path: str | Path,
    sequences: int,
    tokens: int,
    dtype: str,
    sources: Mapping[str, int],
    beside: Sequence[str | Path] = (),
) -> dict[str, Any]:
    """Describe one finished shard: what the writer counted, and what the disk holds.

    Parameters
    ----------
    path : path
    sequences : int, rows
    tokens : int
        Padding apart.
    dtype : str
        Of the ids.
    sources : mapping of str -> int
        How many of the tokens come from each input, by its name.
    beside : sequence of path
        The shard's side files; they get ``file``, ``bytes`` and ``sha256`` of their own under ``beside``.
    """
    numbers = {"sequences": int(sequences), "tokens": int(tokens), "dtype": str(dtype)}
    name, size, sha256 = file_entry(path).values()
    entry = {"file": name, **numbers, "bytes": size, "sha256": sha256, "sources": dict(sorted(sources.items()))}
    return entry | ({BESIDE: [file_entry(each) for each in beside]} if beside else {})


def file_entry(path: str | Path, **told: Any) -> dict[str, Any]:
    """Describe a finished file: its name, what is `told` of it, and what the disk holds."""
    path = Path(path)
    return {"file": path.name, **told, "bytes": path.stat().st_size, "sha256": digest(path)}


def files_of(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the files of one shard, each with ``file, bytes, sha256``: the shard itself, then those beside it.

    Examples
    --------
    >>> [one["file"] for one in files_of({"file": "a.bin", "beside": [{"file": "a.segments.npy"}]})]
    ['a.bin', 'a.segments.npy']
    """
    return [entry, *entry.get(BESIDE, ())]


def write_manifest(
    folder: str | Path,
    *,
    shards: Sequence[Mapping[str, Any]],
    seq_len: int | None,
    totals: Mapping[str, Any],
    seed: int | None,
    dropped_remainder_tokens: int = 0,
    tokenizer: Mapping[str, Any] | None = None,
    strategy: Any = None,
    packing: Any = None,
    pre_shuffled: bool = False,
    recipe: Any = None,
    parents: Sequence[str] = (),
    format: str = "h5",
) -> Path:
    """Write ``manifest.json``, whole or not at all.

    Parameters
    ----------
    folder : path
    shards : sequence of mapping
        As `shard_entry` makes them, in reading order.
    seq_len : int or None, tokens
        Length of every row; None when rows differ.
    totals : mapping
        Whatever the builder summed; `verify` checks ``written, padding`` (tokens), ``documents, written_eos, groups``.
    seed : int or None
        None when nothing was drawn.
    dropped_remainder_tokens : int
    tokenizer : mapping or None
        ``name, size, max_id, eos_id, sha256``.
    strategy, packing, recipe : JSON values
        None when there was none. ``packing["algorithm"]`` is read by `packing_algorithm`.
    pre_shuffled : bool
        Whether rows are to be read front to back.
    parents : sequence of str
        sha256 of the manifests or files this one was made from.
    format : str

    Returns
    -------
    Path
        Of the manifest.

    Raises
    ------
    BadParameter
        If a shard lacks a key, is named twice or by more than its file name, or a value is no JSON.
    """
    values = {
        "format": format, "shards": [_checked(entry) for entry in shards], "seq_len": seq_len,
        "dropped_remainder_tokens": dropped_remainder_tokens, "totals": totals, "tokenizer": tokenizer,
        "strategy": strategy, "seed": seed, "packing": packing, "pre_shuffled": pre_shuffled, "recipe": recipe,
        "parents": list(parents),
    }  # fmt: skip
    names = [file["file"] for entry in values["shards"] for file in files_of(entry)]
    if len(set(names)) < len(names):
        raise BadParameter(f"shards/manifest: a file is named twice: {', '.join(names)}")
    path = Path(folder, NAME)
    with write_whole(path) as file:
        file.write(_encode(values))
    return path


def _checked(entry: Mapping[str, Any]) -> dict[str, Any]:
    if missing := [key for key in SHARD_KEYS if key not in entry]:
        raise BadParameter(f"shards/manifest: a shard lacks {', '.join(missing)}; make it with shard_entry")
    for name in (file["file"] for file in files_of(entry)):
        if _is_path(name):
            raise BadParameter(f"shards/manifest: {name!r} is a path; a shard is named by its file name alone")
    return {key: entry[key] for key in (*SHARD_KEYS, BESIDE) if key in entry}


def _is_path(name: Any) -> bool:
    """Say whether a name leads anywhere but to a file of the folder."""
    return not isinstance(name, str) or name in ("", ".", "..") or bool(set(name) & set("/\\\0"))


def _encode(values: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(values, ensure_ascii=False, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise BadParameter(f"shards/manifest: a value cannot be written as JSON: {error}") from None
    # A name that is no valid Unicode keeps its lone surrogates as JSON escapes, which is what backslashreplace spells.
    return (text + "\n").encode("utf-8", "backslashreplace")


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """Read ``manifest.json``.

    Raises
    ------
    BadShard
        If it is not there (the folder is not complete), no JSON, or lacks a key.
    """
    path = Path(folder, NAME)
    try:
        stored = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise BadShard(
            f"shards/manifest: no {NAME} in {folder}; it is written last, so the run has not finished: run it again"
        ) from None
    except (OSError, ValueError) as error:
        raise BadShard(f"shards/manifest: cannot read {path}: {error}") from None
    missing = [key for key in KEYS if key not in stored] if isinstance(stored, dict) else list(KEYS)
    if missing:
        raise BadShard(f"shards/manifest: {path} lacks {', '.join(missing)}; it was not written by this workbench")
    if not isinstance(stored["shards"], list):
        raise BadShard(f"shards/manifest: the shards of {path} are no list; it was not written by this workbench")
    for entry in stored["shards"]:
        if not isinstance(entry, dict) or any(key not in entry for key in SHARD_KEYS):
            raise BadShard(f"shards/manifest: a shard of {path} lacks one of {', '.join(SHARD_KEYS)}")
        for beside in entry.get(BESIDE, ()):
            if not isinstance(beside, dict) or any(key not in beside for key in FILE_KEYS):
                raise BadShard(f"shards/manifest: a file beside {entry['file']} of {path} lacks {', '.join(FILE_KEYS)}")
        # Somebody else's manifest must not have us read, or link, what lies outside its folder.
        if outside := [file["file"] for file in files_of(entry) if _is_path(file["file"])]:
            raise BadShard(f"shards/manifest: {path} names {outside[0]!r}, which is no file name")
    return stored


def packing_algorithm(manifest: Mapping[str, Any]) -> str | None:
    """Return the packing algorithm a manifest names, None when rows were not packed.

    Examples
    --------
    >>> packing_algorithm({"packing": {"algorithm": "concat", "tail": "pad"}})
    'concat'
    """
    packing = manifest["packing"]
    return packing.get("algorithm") if isinstance(packing, Mapping) else packing
