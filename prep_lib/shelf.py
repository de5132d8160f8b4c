"""Whether what a notebook wrote still holds: what all of it depends on, said part by part, and who else has it.

parameters, inputs, code, versions, cells, earlier notebooks  ──▶  key
executed/22_tensorize.json  ──▶  key of then, outputs with their digests  ──same?──▶  skipped, or why it runs
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import prep_lib
from prep_lib.errors import NoSpace, PrepError
from prep_lib.files import as_written, digest, is_remote, link_tree, natural, place, stamp, stamps, write_whole
from prep_lib.keys import Key, changed, imports, make_key
from prep_lib.locks import HIDDEN
from prep_lib.machine import default_workers
from prep_lib.preflight import code_files, inputs
from prep_lib.recipes import Step
from prep_lib.remote import without_secrets
from prep_lib.report import PACKAGES
from prep_lib.results import digest_json, record
from prep_lib.workspace import CHECKOUT, Run, importable

#: Parameters that say where and how fast, and change no byte of what is written.
NEUTRAL = ("run", "workers", "engine", "memory_budget", "keep_old", "rehash")

#: Modules that only stand around a notebook, and that none imports.
_AROUND = (
    "results lab preflight survey draft safe sheets facts alerts report index shelf execute press trial matrix "
    "publish background disguise onepage share cli"
)
AROUND = tuple(f"prep_lib.{name}" for name in _AROUND.split())

#: The packages a notebook of ours uses, and where they lie.
OURS = {"prep_lib": Path(prep_lib.__file__).parent, "widgets": CHECKOUT / "widgets"}

#: Where a folder that the engine wrote keeps what its tasks are done by.
TASKS = f"{HIDDEN}/tasks"

#: What in such a folder says who is at work, and belongs to that folder alone.
ITS_OWN = ("lock", "owner.json", "tmp")

#: How `changed` begins to name the notebooks that came before.
EARLIER = "earlier of "


@dataclass
class Shelf:
    """Where one notebook's record lies, and whether it still holds.

    Parameters
    ----------
    run : Run
        That of this notebook.
    step : Step
    rehash : bool
        True: read raw inputs again, once, even if size and time of change are as remembered.
    """

    run: Run
    step: Step
    rehash: bool = False

    @property
    def path(self) -> Path:
        """The record: written last of all, and taken away first."""
        return self.run.folder / "executed" / f"{self.step.notebook}.json"

    def key(self, earlier: Mapping[str, Key]) -> Key:
        """Return what everything this notebook writes depends on."""
        values = {name: value for name, value in self.step.values.items() if name not in NEUTRAL}
        whole = make_key(modules=[*_our_modules(), *self._their_modules()], packages=PACKAGES)
        # The front door leads everywhere, and so back to what only stands around a notebook.
        whole["code"] = {name: code for name, code in whole["code"].items() if name not in AROUND}
        return whole | {
            "inputs": self._named(),
            "parameters": {name: json.dumps(value) for name, value in values.items()},
            "notebook": _digest_cells(self.step.path),
            "earlier": {n: digest_json(k) for n, k in earlier.items()},
        }

    def _their_modules(self) -> list[str]:
        """Return what the user's own files import, but for what is ours: of that, all is in the key."""
        files = code_files(self.step, self.run)
        for path in files:
            importable(path.parent)
        return [name for path in files for name in imports(path) if name.split(".")[0] not in OURS]

    def _named(self) -> dict[str, str]:
        """Return the digest of each input; files of one name in several places stand together."""
        found: dict[str, str] = {}
        for path, sha in self.inputs():
            name = _short_path(path, self.run.root)
            # What nothing tells is never the same again.
            sha = sha or os.urandom(10).hex()
            found[name] = f"{found[name]} {sha}" if name in found else sha
        return found

    def inputs(self) -> list[tuple[Path, str]]:
        """Return every file that is read, with what tells its content; empty: nothing does."""
        memory = _Digests(self.run.root, self.rehash)
        paths = inputs(self.step, self.run)
        memory.ask([str(path) for path in paths if is_remote(path)])
        # Hashing lets go of the interpreter: threads take as many cores as there are.
        with ThreadPoolExecutor(default_workers()) as threads:
            found = [*zip(paths, threads.map(memory.of, paths), strict=True)]
        memory.save()
        self.rehash = False
        return found

    def why(self, key: Key, keep_old: bool = False) -> str:
        """Say why this notebook runs; empty: what it wrote holds."""
        stored = record(self.run)
        if stored is None:
            begun = (self.run.folder / "executed" / f"{self.step.notebook}.ipynb").is_file()
            return "runs: it did not come to its end" if begun else "runs for the first time"
        differs = changed(stored["key"], key)
        if keep_old:
            differs = [part for part in differs if not part.startswith("code of")]
        if not self.is_whole(stored):
            differs.append("outputs are missing or changed")
        return _reason(differs)

    def since(self) -> str:
        """Say since when nothing has changed: the record was written last of all."""
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.path.stat().st_mtime))
        return f"skipped, nothing changed since {when}"

    def is_whole(self, stored: Mapping[str, Any]) -> bool:
        """Say whether everything that was written then is there, as it was; what has another time is read."""
        return all(
            as_written(self.run.folder / said["file"], [said["bytes"], said.get("changed")], said["sha256"])
            for said in stored["outputs"]
        )

    def differs(self, key: Key) -> str:
        """Say what has changed since a notebook that is left out came to its end."""
        stored = record(self.run)
        found = [part for part in changed(stored["key"], key) if not part.startswith("code of")] if stored else []
        return f", although {_brief(found)} changed since" if found else ""

    def standing(self) -> dict[str, Key]:
        """Return what the notebooks behind this one depend on: the key of what it wrote, if it wrote something."""
        stored = record(self.run)
        if stored is not None and self.is_whole(stored):
            return {self.run.notebook: stored["key"]} if stored["outputs"] else {}
        # Written in a session, or half: nobody knows by what, so the files themselves tell.
        files = [path for path in sorted(self.run.data.rglob("*")) if path.is_file() and HIDDEN not in path.parts]
        told = [[str(path.relative_to(self.run.data)), *stamp(path)] for path in files]
        return {self.run.notebook: {"files": digest_json(told)}} if told else {}

    def adopt(self, key: Key, donors: Sequence[Run]) -> str:
        """Take over what another run has of this notebook, the disk holding it once; return the run it is finished in.

        Where none has finished it with this key, the tasks of one that began with the same inputs are a start.
        """
        found = [(donor, stored) for donor in donors if (stored := record(replace(donor, notebook=self.run.notebook)))]
        same = [(donor, stored) for donor, stored in found if not changed(stored["key"], key)]
        for donor, stored in same:
            other = Shelf(replace(donor, notebook=self.run.notebook), self.step)
            if other.is_whole(stored):
                self._link(other)
                # No link: papermill writes into the file that stands there.
                name = f"executed/{self.run.notebook}.ipynb"
                shutil.copyfile(other.run.folder / name, self.run.folder / name)
                with write_whole(self.path, "w") as file:
                    json.dump(
                        {**stored, "shared": stored.get("shared", donor.name)}, file, ensure_ascii=False, indent=1
                    )
                return str(stored.get("shared", donor.name))
        begun = [donor for donor, stored in found if stored["key"].get("earlier") == key["earlier"]]
        start = next((donor for donor in begun if (donor.folder / "data" / self.run.notebook / TASKS).is_dir()), None)
        if start is not None and not (self.run.data / TASKS).is_dir():
            self._link(Shelf(replace(start, notebook=self.run.notebook), self.step))
        return ""

    def _link(self, other: Shelf) -> None:
        """Stand for what another run wrote: the notebook's folder, and what it left in the run's own."""
        self.forget()
        shutil.rmtree(self.run.data, ignore_errors=True)
        link_tree(other.run.data, self.run.data, skip=ITS_OWN)
        kept = ("data", "executed", "reports", HIDDEN)
        for folder in (path for path in other.run.folder.iterdir() if path.is_dir() and path.name not in kept):
            if not (self.run.folder / folder.name).exists():
                link_tree(folder, self.run.folder / folder.name, skip=ITS_OWN)

    def forget(self) -> None:
        """Take the record away, and what is shared with another run and may be written into."""
        self.path.unlink(missing_ok=True)
        # What another run shares is written by the engine beside it, never into it; other cells may do so.
        if not (self.run.data / TASKS).is_dir():
            for path in [path for path in self.run.data.rglob("*") if path.is_file() and path.stat().st_nlink > 1]:
                path.unlink()

    def commit(self, key: Key, seconds: float, timing: dict[str, float]) -> None:
        """Record the notebook as done; this is the last file written."""
        stored = {
            "key": key, "seconds": seconds, **timing,
            "inputs": [_described(path, self.run.root, sha) for path, sha in self.inputs() if sha],
            "outputs": [
                {**_described(path, self.run.folder, sha), "changed": stamp(path)[1]}
                for path, sha in _outputs(self.run.data)
            ],
        }  # fmt: skip
        with write_whole(self.path, "w") as file:
            json.dump(stored, file, ensure_ascii=False, indent=1)


def _reason(differs: Sequence[str]) -> str:
    """Say in a few words why a notebook runs, given what differs; empty where nothing does.

    Examples
    --------
    >>> _reason(["earlier of 12_dedup"]), _reason(["threshold 0.8 -> 0.85"]), _reason([])
    ('runs, because 12_dedup is new', 'runs: threshold 0.8 -> 0.85', '')
    """
    own = [part for part in differs if not part.startswith(EARLIER)]
    names = [name for part in differs if part.startswith(EARLIER) for name in part.removeprefix(EARLIER).split(", ")]
    because = f"because {_listed(names)} {'is' if len(names) == 1 else 'are'} new" if names else ""
    if own:
        return f"runs: {_brief(own)}{_offer(differs)}" + (f", and {because}" if because else "")
    return f"runs, {because}" if because else ""


def _listed(names: Sequence[str]) -> str:
    shown = [*names] if len(names) <= 3 else [*names[:2], f"{len(names) - 2} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _brief(differs: Sequence[str]) -> str:
    # A part that names every changed module or file is cut: three are enough to know what it is about.
    return "; ".join(
        re.sub(r"^((?:code|inputs|versions) of (?:[^,]+, ){2}[^,]+), .*", r"\1, …", one) for one in differs
    )


def _offer(differs: Sequence[str]) -> str:
    return " (--keep-old uses what is there)" if all(part.startswith("code of") for part in differs) else ""


def _our_modules() -> list[str]:
    """Return every module a notebook may have used: all of ours, without those around it."""
    names = [
        ".".join((name, *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
        for name, root in OURS.items()
        for path in sorted(root.rglob("*.py"))
    ]
    return [name for name in names if name not in AROUND]


def _digest_cells(path: Path) -> str:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return digest_json([[cell["cell_type"], "".join(cell["source"])] for cell in cells])


def _size(path: Path) -> int | None:
    with contextlib.suppress(PrepError, OSError):
        return path.stat().st_size
    return None


def _short_path(path: Path, root: Path) -> str:
    # A file from elsewhere goes by its name: where it lies is nobody's business.
    if is_remote(path):
        return place(without_secrets(str(path))).name
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


class _Digests:
    """Digests of raw inputs, remembered by path, size and time of change."""

    def __init__(self, root: Path, rehash: bool) -> None:
        self.path, self.known = root / "runs" / ".digests.json", dict[str, Any]()
        with contextlib.suppress(OSError, ValueError):
            self.known = json.loads(self.path.read_bytes())
        self.rehash, self.stamps = rehash, dict[str, list[int]]()

    def ask(self, addresses: Sequence[str]) -> None:
        """Ask stores for the versions of objects, folder by folder."""
        with contextlib.suppress(PrepError, OSError):  # not of one that is gone: each is asked for by itself then
            self.stamps = stamps(addresses)

    def of(self, path: Path) -> str:
        """Return what tells the content of an input; empty: nothing does."""
        with contextlib.suppress(PrepError, OSError):
            return self._of_object(path) if is_remote(path) else self._of_file(path)
        return ""

    def _of_object(self, path: Path) -> str:
        """Return the version of an object, as its store tells; where it tells none, the object is read."""
        told = self.stamps.get(str(path), [0, 0])
        size, version = told if told[1] else stamp(path)
        return f"version {version:x} of {size:,} bytes" if version else digest(path)

    def _of_file(self, path: Path) -> str:
        seen = path.stat()
        stamp = [seen.st_size, seen.st_mtime_ns]
        stored = self.known.get(str(path))
        if stored is None or self.rehash or stored[:2] != stamp:
            stored = self.known[str(path)] = [*stamp, digest(path)]
        return str(stored[2])

    def save(self) -> None:
        # Only a memory: without it files are read once more.
        with contextlib.suppress(NoSpace, OSError), write_whole(self.path, "w") as file:
            json.dump(self.known, file, indent=1)


def _described(path: Path, root: Path, sha256: str) -> dict[str, Any]:
    return {"file": _short_path(path, root), "bytes": _size(path), "sha256": sha256}


def _outputs(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield what a notebook wrote, each with its sha256.

    The word of a manifest for its shards, and of documents for their parts, is taken: whoever wrote them has just
    digested them.
    """
    told: dict[Path, str] = {}
    for table, parts in (("manifest.json", "shards"), ("documents.json", "parts")):
        for contents in folder.rglob(table):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                files = json.loads(contents.read_bytes())[parts]
                named = (one for file in files for one in (file, *file.get("beside", ())))
                told |= {contents.parent / one["file"]: one["sha256"] for one in named}
    for path in sorted(folder.rglob("*"), key=lambda path: natural(str(path))):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden:
            yield path, told.get(path) or digest(path)
