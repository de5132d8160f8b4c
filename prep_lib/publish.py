"""What a run wrote, sent to a store: the files first, and what says that they are complete last.

    runs/NAME/data/15_pack/shard-00000.bin …   ──▶   s3://bucket/NAME/15_pack/shard-00000.bin …
                          /manifest.json       ──▶   … /manifest.json, when all others have arrived

What has arrived, and is still as it was sent, is not sent again: a kill costs the last ten seconds. While an older
state is replaced, what would call it complete is not there.
"""

from __future__ import annotations

import contextlib
import json
import posixpath
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prep_lib import files as fs
from prep_lib import remote
from prep_lib.errors import BadInput, BadParameter, StoreFailed
from prep_lib.events import emit
from prep_lib.locks import HIDDEN, lock

#: Each says that what lies beside it is complete; in this order they are sent, and removed the other way round.
LAST = ("documents.json", "ledger.json", "metadata.json", "manifest.json", "convert.json")

#: What was sent is noted this often, seconds.
SAVED = 10

#: What was sent, and as which version the store has it.
SENT = f"{HIDDEN}/published.json"


@dataclass(frozen=True)
class Published:
    """What came of it.

    Parameters
    ----------
    files, bytes : int
        That are in the store now.
    sent : int, files
        Of them, how many were sent this time.
    """

    files: int
    bytes: int
    sent: int


def publish(folder: str | Path, url: str) -> Published:
    """Send the files of a folder, and of those in it, to a store.

    Parameters
    ----------
    folder : path
        The ``data`` of a run, or any output folder. Hidden files stay, but for what tells the kind of a folder.
    url : str
        An fsspec address. Files of an earlier state that are no longer in `folder` are removed there; files that this
        did not send are not touched.

    Returns
    -------
    Published

    Raises
    ------
    BadParameter
        If `url` is no address.
    BadInput
        If there is nothing to send, or a file was changed on the way.
    StoreFailed, RunLocked

    Examples
    --------
    >>> import tempfile
    >>> home = Path(tempfile.mkdtemp())
    >>> _ = [(home / name).write_text(name) for name in ("shard-00000.bin", "manifest.json")]
    >>> publish(home, "memory://doctest/out").sent, publish(home, "memory://doctest/out").sent
    (2, 0)
    """
    if not fs.is_remote(url):
        raise BadParameter(f"publish: {url!r} is no address such as s3://bucket/folder")
    home, target = Path(folder), fs.place(url)
    here = _files(home)
    if not here:
        raise BadInput(f"publish: {home} holds no file to send")
    with lock(target):
        there, known = remote.stamps_in(target), _known(target)
        wanted = {name: fs.digest(home / name) for name in here}
        arrived = {name for name in here if name in known and _is_there(known[name], wanted[name], there(name))}
        changed = {posixpath.dirname(name) for name in {*known, *here} - arrived}
        # A folder in which anything changes is not called complete meanwhile.
        arrived -= {name for name in arrived if _is_last(name) and posixpath.dirname(name) in changed}
        old = sorted({*known, *here} - arrived, key=_turn, reverse=True)
        for name in old:
            if _is_last(name) and there(name):
                (target / name).unlink(missing_ok=True)
        remote.remove(target / name for name in known.keys() - here.keys() if there(name))
        sent = {name: known[name] for name in arrived}
        _send(home, target, [name for name in here if name not in arrived], wanted, sent)
    return Published(len(here), sum(here.values()), len(here) - len(arrived))


def _is_there(sent: Sequence[Any], sha256: str, now: Sequence[int] | None) -> bool:
    """Tell whether what was sent is what is wanted, and the store surely has it still."""
    return now is not None and sent[0] == sha256 and remote.unmoved(now, sent[1])


def _files(home: Path) -> dict[str, int]:
    """Return the size of every file, by its name from here on, in the order in which they are sent."""
    found = {path.relative_to(home).as_posix(): path for path in home.rglob("*") if path.is_file()}
    shown = [name for name in found if name.endswith(f"{HIDDEN}/kind") or not fs.is_hidden(name)]
    return {name: found[name].stat().st_size for name in sorted(shown, key=_turn)}


def _is_last(name: str) -> bool:
    return name.rsplit("/", 1)[-1] in LAST


def _turn(name: str) -> tuple[Any, ...]:
    base = name.rsplit("/", 1)[-1]
    return LAST.index(base) + 1 if base in LAST else 0, fs.natural(name)


def _known(target: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads((target / SENT).read_bytes()))
    return {}


def _send(home: Path, target: Path, names: list[str], wanted: Mapping[str, str], sent: dict[str, Any]) -> None:
    began = saved = time.monotonic()
    emit("begin", stage="publish", tasks=len(names), done=0)
    try:
        for at, name in enumerate(names, 1):
            tick = time.monotonic()
            (target / name).send(home / name)  # type: ignore[attr-defined]
            sent[name] = [wanted[name], _checked(home / name, target / name, wanted[name])]
            if tick - saved > SAVED:
                _remember(target, sent)
                saved = tick
            seconds = round(time.monotonic() - tick, 3)
            emit("task", stage="publish", name=name, done=at, tasks=len(names), seconds=seconds)
    finally:
        with contextlib.suppress(StoreFailed):
            _remember(target, sent)
    emit("end", stage="publish", seconds=round(time.monotonic() - began, 3))


def _remember(target: Path, sent: Mapping[str, Any]) -> None:
    with fs.write_whole(target / SENT, "w") as file:
        json.dump(sent, file)


def _checked(path: Path, arrived: Path, sha256: str) -> list[int]:
    """Return the stamp of what has arrived, all of it, and as it was when it was digested."""
    found = fs.stamp(arrived)
    if found[0] != path.stat().st_size or fs.digest(arrived) != sha256:
        arrived.unlink(missing_ok=True)
        raise BadInput(f"publish: {path.name} did not arrive as it is, or was changed meanwhile; run it again")
    return found
