"""A folder of shards becomes a folder that another program opens by itself: converted whole, or not at all.

    shards + manifest ──prove──▶ trainers.py  ids, labels     trl, axolotl, llamafactory
                                 pretrain.py  ids, documents  megatron, datatrove, parquet
                      ──▶ .prep/tmp/convert ──▶ in place of what stood there, convert.json last

Every output is written beside the old one and put in its place at the end; ``convert.json`` tells what was written.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prep_lib.errors import BadInput, BadParameter, BadShard, unknown
from prep_lib.files import absolute, digest, is_remote, local, place, replace, write_whole
from prep_lib.locks import HIDDEN, lock
from prep_lib.remote import scratch
from prep_lib.shards.formats import open_shard
from prep_lib.shards.manifest import NAME as MANIFEST
from prep_lib.shards.manifest import files_of, read_manifest
from prep_lib.shards.pretrain import READERS, Reader
from prep_lib.shards.shard import Shard
from prep_lib.shards.trainers import TRAINERS, Trainer

#: Written last: its presence means that the conversion is complete.
NAME = "convert.json"

#: What the rows look like; another number means other rows from the same shards.
RULE = 1

#: Who can be converted for.
TARGETS: dict[str, Trainer | Reader] = {**TRAINERS, **READERS}


def convert(folder: str | Path, to: str, out: str | Path | None = None) -> dict[str, Any]:
    """Write a folder of shards as the files another program opens by itself.

    Parameters
    ----------
    folder : path
        Of `cache_jsonl` or `build_shards`, with its manifest.
    to : "trl", "axolotl", "llamafactory", "megatron", "datatrove" or "parquet"
        The first three take sft and dpo rows, the others plain ids.
    out : path or None
        Where an earlier conversion stands, it is replaced once the new one is whole. None: beside `folder`, with the
        program's name at its end.

    Returns
    -------
    dict
        What ``convert.json`` holds: the program, the parents' sha256, and rows and tokens of every file.

    Raises
    ------
    UnknownName
        If nobody knows the program.
    BadParameter
        If the program takes no such rows, or `out` is of somebody else.
    BadInput
        If the shards are of another kind, or what they hold cannot be told to the program.
    BadShard
        If there is no manifest, or a shard is not what it says.
    RunLocked, NoSpace
    """
    if to not in TARGETS:
        raise unknown("shards/interop", "program", to, TARGETS)
    program, source = TARGETS[to], place(folder)
    if not source.is_dir():
        raise BadParameter(f"shards/interop: no folder {source}")
    manifest = read_manifest(source)
    if not manifest["shards"]:
        raise BadInput(f"shards/interop: {source} holds no shard; nothing to convert")
    target = absolute(out if out is not None else f"{absolute(source)}-{to}")
    shards = _Proven(source)
    program.check(shards(manifest["shards"][0]), manifest)
    _check_target(target, source)
    with lock(target):
        # What goes to a store is made here whole, and sent.
        staged = scratch("convert") if is_remote(target) else target / HIDDEN / "tmp" / "convert"
        staged.mkdir(parents=True, exist_ok=True)
        try:
            told = _convert(program, source, manifest, shards, staged)
            _publish(staged, target, told)
        finally:
            shutil.rmtree(staged, ignore_errors=True)
    return told


class _Proven:
    """Opens shards whose bytes, and those beside them, are the manifest's; each is digested once."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._known = folder, set[str]()

    def __call__(self, entry: Mapping[str, Any]) -> Shard:
        """Open the shard of an entry."""
        for file in files_of(entry) if entry["file"] not in self._known else ():
            path = local(self._folder / file["file"])
            if not path.is_file():
                raise BadShard(f"shards/interop: {path} is missing; build it again")
            if path.stat().st_size != file["bytes"] or digest(path) != file["sha256"]:
                raise BadShard(f"shards/interop: {path} is not the file its manifest tells of (sha256); build it again")
        self._known.add(entry["file"])
        return open_shard(self._folder / entry["file"])


def _convert(
    program: Trainer | Reader, source: Path, manifest: Mapping[str, Any], shards: _Proven, staged: Path
) -> dict[str, Any]:
    told = {
        "format": "prep-convert", "rule": RULE, "trainer": program.name, "fields_of": program.read_from,
        "seq_len": manifest["seq_len"], "tokenizer": manifest["tokenizer"], "strategy": manifest["strategy"],
        "parents": [digest(source / MANIFEST)], **program.write(manifest, shards, staged),
    }  # fmt: skip
    beside = program.beside(told)
    told["beside"] = list(beside)
    for name, text in {**beside, NAME: json.dumps(told, ensure_ascii=False, indent=1) + "\n"}.items():
        with write_whole(staged / name) as file:
            file.write(text.encode("utf-8", "backslashreplace"))
    return told


# ── the folder ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _listed(folder: Path) -> set[str]:
    """Return the files an earlier conversion, finished or killed while it put them in place, says are its own."""
    names: set[str] = set()
    for path in (folder / NAME, folder / HIDDEN / NAME):
        with contextlib.suppress(OSError, ValueError):
            told = json.loads(path.read_bytes())
            if isinstance(told, dict) and told.get("format") == "prep-convert":
                names |= {NAME, *told["beside"], *(file["file"] for file in told["files"])}
    return names


def _check_target(target: Path, source: Path) -> None:
    """Refuse a folder in which something of somebody else's would be overwritten."""
    if target == absolute(source):
        raise BadParameter("shards/interop: the output is the folder of the shards; give another one")
    if target.exists() and not target.is_dir():
        raise BadParameter(f"shards/interop: {target} is a file; give a folder")
    ours = _listed(target)
    for path in sorted(target.iterdir()) if target.is_dir() else ():
        # A trainer that opens the folder leaves its caches there.
        cache = path.name.startswith(("cache-", "tmp")) and not path.is_dir()
        if path.name not in ours and not path.name.startswith(".") and not cache:
            raise BadParameter(
                f"shards/interop: {target} holds {path.name}, which no conversion left there; give another folder"
            )


def _publish(staged: Path, target: Path, told: Mapping[str, Any]) -> None:
    """Put the new files in the place of the old ones; without `convert.json` the folder is not whole."""
    new, old = [*told["beside"], *(file["file"] for file in told["files"])], _listed(target)
    marker = target / HIDDEN / NAME
    both = {"format": "prep-convert", "beside": sorted(old | set(new)), "files": []}
    with write_whole(marker) as file:
        file.write(json.dumps(both).encode())
    (target / NAME).unlink(missing_ok=True)
    for name in new:
        replace(staged / name, target / name)
    for name in old - {*new, NAME}:
        (target / name).unlink(missing_ok=True)
    replace(staged / NAME, target / NAME)
    marker.unlink()
