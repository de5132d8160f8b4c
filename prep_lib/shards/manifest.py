"""What a folder of shards holds, written last: its presence means that the folder is complete.

    {"format": "h5",
     "shards": [{"file": "chunk_0.h5", "sequences": 8, "tokens": 96, "dtype": "int32",
                 "bytes": 2432, "sha256": "9f…", "sources": {"web": 96},
                 "beside": [{"file": …, "bytes": …, "sha256": …}]}],      only where files stand beside a shard
     "seq_len": 16, "dropped_remainder_tokens": 9, "totals": {…}, "tokenizer": {…}, "strategy": {…}, "seed": 42,
     "packing": {…}, "pre_shuffled": true, "recipe": null, "parents": []}

No clock times and no paths: the same input gives the same bytes. What is written and what is read has this shape, or
one line says which value has not: whoever holds a manifest need not ask again what its values are.
"""

from __future__ import annotations

import json
import os
import re
import reprlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prep_lib.errors import BadParameter, BadShard
from prep_lib.files import digest, place, write_whole
from prep_lib.ledger import TOKEN_FLOWS

NAME = "manifest.json"

#: The files beside a shard, each with bytes and sha256; only where there are some.
BESIDE = "beside"


def _is_path(name: Any) -> bool:
    """Say whether a name leads anywhere but to a file of the folder, or can be the name of none."""
    if not isinstance(name, str) or name in ("", ".", "..") or set(name) & set("/\\\0"):
        return True
    try:
        return len(os.fsencode(name)) > _LONGEST
    except UnicodeEncodeError:
        return True


#: Bytes in the name of a file: no usual file system takes more.
_LONGEST = 255


@dataclass(frozen=True)
class _Kind:
    """A single value: what it is called, and whether a value is one."""

    words: str
    fits: Callable[[Any], bool]


def _whole(words: str, least: int, most: int) -> _Kind:
    # True and 1.0 are whole numbers to Python, but nothing that anybody wrote here.
    return _Kind(words, lambda value: type(value) is int and least <= value <= most)


_NULL = _Kind("null", lambda value: value is None)
_ANYTHING = _Kind("anything", lambda value: True)
_TEXT = _Kind("text", lambda value: isinstance(value, str))
_TRUTH = _Kind("true or false", lambda value: isinstance(value, bool))
_NUMBER = _Kind("a number", lambda value: type(value) in (int, float))
_FILE_NAME = _Kind("the name of a file in the folder", lambda name: not _is_path(name))
_DTYPE = _Kind("int8 to int64 or uint8 to uint64", lambda value: bool(re.fullmatch("u?int(8|16|32|64)", str(value))))
# Every JSON reader holds these exactly, and the sum of a thousand of them fits 64 bits.
_COUNT = _whole("a whole number (0 to 2**53)", 0, 2**53)
_LENGTH = _whole("a whole number (1 to 2**31)", 1, 2**31)
_SEED = _whole("a whole number (0 to 2**128)", 0, 2**128)

#: Of a value: a kind; ``{…}`` an object with these names and maybe others, of which those with ``?`` may be missing and
#: ``*`` is every name; ``[…]`` a list; ``(…)`` one of these.
_Shape = Any

_FILE = {"file": _FILE_NAME, "bytes": _COUNT, "sha256": _TEXT}
_SHARD = {
    "file": _FILE_NAME, "sequences": _COUNT, "tokens": _COUNT, "dtype": _DTYPE, "bytes": _COUNT, "sha256": _TEXT,
    "sources": {"*": _COUNT},
}  # fmt: skip
_GROUP = {
    "source": _TEXT, "language": (_TEXT, _NULL), "documents": _COUNT, "bytes": _COUNT, "characters": _COUNT,
    "words": _COUNT, "tokens": _COUNT, "literal_specials": _COUNT,
}  # fmt: skip
#: Of the whole file, in its order.
_SHAPE = {
    "format": _TEXT,
    "shards": [_SHARD | {f"{BESIDE}?": [_FILE]}],
    "seq_len": (_LENGTH, _NULL),
    "dropped_remainder_tokens": _COUNT,
    "totals": {
        **{f"{name}?": _COUNT for name in ("documents", *TOKEN_FLOWS, "literal_specials", "written_eos")},
        "groups?": [_GROUP],
    },
    "tokenizer": ({
        "name?": (_TEXT, _NULL), "size?": (_COUNT, _NULL), "max_id?": (_COUNT, _NULL), "eos_id?": (_COUNT, _NULL),
        "sha256?": (_TEXT, _NULL),
    }, _NULL),
    # Whatever a processor tells of itself; the keys of ids are the build's.
    "strategy": ({"id_keys?": [_TEXT]}, _ANYTHING),
    "seed": (_SEED, _NULL),
    "packing": ({
        "algorithm?": _TEXT, "packs?": _COUNT, "efficiency?": _NUMBER, "padding?": _COUNT,
        "pad_value?": (_NUMBER, _NULL), "cut_documents?": _COUNT,
    }, _TEXT, _NULL),
    "pre_shuffled": _TRUTH,
    "recipe": ({"inputs?": [_TEXT], "sample?": _COUNT}, _NULL),
    "parents": [_TEXT],
    f"{BESIDE}?": [_FILE],
}  # fmt: skip

KEYS = tuple(key for key in _SHAPE if not key.endswith("?"))


def _wrong(value: Any, shape: _Shape = _SHAPE, at: str = "") -> Iterator[str]:
    """Yield what in `value` is not of its shape, each named by its place in the file."""
    shapes = shape if isinstance(shape, tuple) else (shape,)
    found = next((one for one in shapes if _fits(value, one)), None)
    if found is None:
        yield f"{at or 'it'} is {reprlib.repr(value)}, must be {' or '.join(map(_words, shapes))}"
    elif isinstance(found, list):
        for number, each in enumerate(value):
            yield from _wrong(each, found[0], f"{at}[{number}]")
    elif isinstance(found, dict):
        for name, inner in found.items():
            yield from _wrong_at(value, name, inner, at)


def _wrong_at(values: Mapping[str, Any], name: str, shape: _Shape, at: str) -> Iterator[str]:
    key = name.removesuffix("?")
    if name == "*":
        for each, value in values.items():
            yield from _wrong(value, shape, f"{at}[{each!r}]")
    elif key in values:
        yield from _wrong(values[key], shape, f"{at}.{key}".removeprefix("."))
    elif key == name:
        yield f"{at}.{key} is missing".removeprefix(".")


def _fits(value: Any, shape: _Shape) -> bool:
    return shape.fits(value) if isinstance(shape, _Kind) else isinstance(value, type(shape))


def _words(shape: _Shape) -> str:
    return shape.words if isinstance(shape, _Kind) else "a list" if isinstance(shape, list) else "an object"


def all_files(manifest: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the entries of all files a manifest tells of: shards, what lies beside each, and beside them all."""
    for entry in manifest["shards"]:
        yield from files_of(entry)
    yield from manifest.get(BESIDE, ())


def _first_wrong(stored: Any) -> str | None:
    """Return in words what is wrong first with what a manifest says, None if nothing is."""
    if (wrong := next(_wrong(stored), None)) is not None:
        return wrong
    named = Counter(file["file"] for file in all_files(stored))
    twice = [name for name, count in named.items() if count > 1]
    return f"the file {twice[0]!r} is named twice" if twice else None


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
    path = place(path)
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
    beside: Sequence[str | Path] = (),
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
    strategy : JSON value
        None when there was none.
    packing, recipe : mapping or None
        None when there was none. ``packing["algorithm"]`` is read by `packing_algorithm`, ``recipe["inputs"]`` (the
        names of files) by whoever traces a document.
    pre_shuffled : bool
        Whether rows are to be read front to back.
    parents : sequence of str
        sha256 of the manifests or files this one was made from.
    format : str
    beside : sequence of path
        Files in the folder that belong to all shards: what was lost, and the ledger.

    Returns
    -------
    Path
        Of the manifest.

    Raises
    ------
    BadParameter
        If a value is no JSON, or not what `read_manifest` takes; a shard lacks a key, is named twice or by more than
        its file name.
    """
    values = {
        "format": format, "shards": [_in_order(entry) for entry in shards], "seq_len": seq_len,
        "dropped_remainder_tokens": dropped_remainder_tokens, "totals": totals, "tokenizer": tokenizer,
        "strategy": strategy, "seed": seed, "packing": packing, "pre_shuffled": pre_shuffled, "recipe": recipe,
        "parents": list(parents),
    }  # fmt: skip
    values |= {BESIDE: [file_entry(other) for other in beside]} if beside else {}
    text = _encode(values)
    if wrong := _first_wrong(json.loads(text)):
        raise BadParameter(f"shards/manifest: cannot write {NAME}: {wrong}")
    path = place(folder) / NAME
    with write_whole(path) as file:
        file.write(text)
    return path


def _in_order(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in (*_SHARD, BESIDE) if key in entry}


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
        If it is not there (the folder is not complete), no JSON, or one of its values is missing or not what it has to
        be. No name in it leads out of its folder: somebody else's must not have us read, or link, what lies elsewhere.
    """
    path = place(folder) / NAME
    try:
        stored = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        if not place(folder).is_dir():
            raise BadShard(f"shards/manifest: there is no folder {folder}") from None
        raise BadShard(
            f"shards/manifest: no {NAME} in {folder}; it is written last, so the run has not finished: run it again"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise BadShard(f"shards/manifest: cannot read {path}: {error}") from None
    if wrong := _first_wrong(stored):
        raise BadShard(f"shards/manifest: {path}: {wrong}; it was damaged, or not written by this workbench")
    found: dict[str, Any] = stored
    return found


def packing_algorithm(manifest: Mapping[str, Any]) -> str | None:
    """Return the packing algorithm a manifest names, None when rows were not packed.

    Examples
    --------
    >>> packing_algorithm({"packing": {"algorithm": "concat", "tail": "pad"}})
    'concat'
    """
    packing = manifest["packing"]
    return packing.get("algorithm") if isinstance(packing, Mapping) else packing
