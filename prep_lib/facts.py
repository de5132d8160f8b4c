"""What a run's folder tells of it, read once: for the page of a run, its warnings, and comparisons.

data/*/…ledger.json, manifest.json   counted, written   ─┐
executed/NAME.json, NAME.ipynb       key, files, values  ├─▶  Facts
run.jsonl                            states, notes, time ─┘
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from prep_lib.errors import PrepError
from prep_lib.ledger import Ledger
from prep_lib.recipes import Parameter, Recipe, read_cell
from prep_lib.results import Outdated, journal, ledgers, outdated, record, states
from prep_lib.safe import Mask
from prep_lib.words import LANGS
from prep_lib.workspace import Run, read_events

#: How a note begins that says which tokenizer served.
SERVED = "tokenizer: "

#: A parameter, a note or an error is shown up to so many characters.
LONGEST = 600


class Asked(NamedTuple):
    """What a notebook can be asked for, and every value as it was used."""

    known: Mapping[str, Parameter]
    used: Mapping[str, Any]

    @property
    def changed(self) -> list[str]:
        """The names whose values are not the notebook's own."""
        return [name for name, own in self.known.items() if self.used[name] != own.default]


class Took(NamedTuple):
    """How long one stage of a notebook took."""

    notebook: str
    stage: str
    tasks: int
    #: Seconds by the clock on the wall, and of all workers together.
    wall: float
    work: float


@dataclass(frozen=True)
class Facts:
    """A run as its folder tells of it.

    Parameters
    ----------
    run : Run
    states : dict
        Notebook -> state and text, in order.
    ledgers : dict
        Notebook, or a folder inside its own -> what was counted.
    records : dict
        Notebook -> seconds, memory, files with digests; only of those that came to their end.
    asked : dict
        Notebook -> its parameters.
    manifests : dict
        Folder below ``data`` -> ``manifest.json`` of its shards.
    npz : dict
        Folder -> ``metadata.json`` of its even shards.
    said : dict
        Notebook -> notes of the engine while it ran last, and "tokenizer: …", which may be older.
    outputs : dict
        Notebook -> the lines in which its results say what they are.
    versions : dict
        Notebook -> versions of what wrote it.
    times : tuple of Took
    again : str
        The command that goes on with the run.
    limit : int, bytes
        Of memory; 0: unknown.
    lang : str
    outdated : dict
        Notebook -> why what it wrote does not go with the rest of the run.
    """

    run: Run
    states: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    ledgers: Mapping[str, Ledger] = field(default_factory=dict)
    records: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    asked: Mapping[str, Asked] = field(default_factory=dict)
    manifests: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    npz: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    said: Mapping[str, Sequence[str]] = field(default_factory=dict)
    outputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    versions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    times: Sequence[Took] = ()
    again: str = ""
    limit: int = 0
    lang: str = LANGS[0]
    outdated: Mapping[str, Outdated] = field(default_factory=dict)

    def way(self) -> list[str]:
        """Return the ledgers of the way the run ends with: its notebooks share their first digit."""
        return [name for name in self.ledgers if name[0] == max(self.ledgers)[0]]

    def shown(self, text: object) -> str:
        """Return `text` without what tells of this machine, and not longer than anybody reads."""
        return self._mask(short(str(text)))

    @cached_property
    def _mask(self) -> Mask:
        return Mask(self.run.root)


def short(text: str, most: int = LONGEST) -> str:
    """Return `text`, or its beginning and how long it is.

    Examples
    --------
    >>> short("abcdef", 3)
    'abc… (6 characters)'
    """
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def facts(run: Run, recipe: Recipe | None = None) -> Facts:
    """Read what there is of a run: all of it, half of it, or nothing yet."""
    state = states(run, [step.notebook for step in recipe.steps] if recipe else [])
    executed = {name: read_executed(run.folder / "executed" / f"{name}.ipynb") for name in state}
    records = {name: found for name in state if (found := record(Run(run.root, run.name, name)))}
    asked = {step.notebook: Asked(step.known, step.values) for step in recipe.steps} if recipe else {}
    asked |= {name: asked_of(found["cells"]) for name, found in executed.items() if found}
    events, told = read_events(run.folder)[0], journal(run)
    folders = _folders(run, asked)
    return Facts(
        run, state, ledgers(run), records, asked, dict(_read(run, folders, "manifest.json", "shards")),
        dict(_read(run, folders, "metadata.json", "shard_sizes")), _said(events),
        {name: list(_says(found["cells"])) for name, found in executed.items() if found},
        {name: _versions(found, records.get(name, {})) for name, found in executed.items() if found},
        tuple(took(events)), told.again, told.limit, lang_of(*(found.used for found in asked.values())),
        outdated(run),
    )  # fmt: skip


def lang_of(*values: Mapping[str, Any]) -> str:
    """Return the language the first of these parameters ask for, English without one."""
    return next((str(one["lang"]) for one in values if one.get("lang") in LANGS), LANGS[0])


# ── an executed notebook ─────────────────────────────────────────────────────────────────────────────────────────────


def read_executed(path: Path) -> dict[str, Any] | None:
    """Return an executed notebook, each source as one text; None if there is none, or it was not written to its end."""
    try:
        notebook: dict[str, Any] = json.loads(path.read_bytes())
        cells = [{"outputs": [], **cell, "source": "".join(cell["source"])} for cell in notebook["cells"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return notebook | {"cells": cells}


def asked_of(cells: Sequence[Mapping[str, Any]]) -> Asked:
    """Return what a notebook can be asked for, and every value as it was used; nothing where it has no such cell."""
    try:
        known = {each.name: each for each in read_cell("report", _tagged(cells, "parameters"))}
        given = {each.name: each.default for each in read_cell("report", _tagged(cells, "injected-parameters"))}
    except PrepError:
        return Asked({}, {})
    return Asked(known, {name: given.get(name, own.default) for name, own in known.items()})


def _tagged(cells: Sequence[Mapping[str, Any]], name: str) -> str:
    return "\n".join(cell["source"] for cell in cells if name in cell["metadata"].get("tags", []))


def _says(cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what the pages in a notebook say in one line: ``ledger: 10 documents in, 7 kept (70.0 %)``."""
    for output in (output for cell in cells for output in cell["outputs"]):
        data = output.get("data", {})
        text = "".join(data.get("text/plain", ""))
        if "text/html" in data and (said := re.fullmatch(r"<([a-z]+: [^\n]{1,300})>", text)):
            yield said[1]


def _versions(notebook: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, str]:
    metadata = notebook["metadata"]
    found = {
        "Python": metadata.get("language_info", {}).get("version"),
        "prep_lib": metadata.get("prep", {}).get("version"),
    }
    return {name: str(value) for name, value in (found | record.get("key", {}).get("versions", {})).items() if value}


# ── folders and events ───────────────────────────────────────────────────────────────────────────────────────────────


def _folders(run: Run, asked: Mapping[str, Asked]) -> list[Path]:
    """Return where shards may lie: what the notebooks wrote, and where they were asked to write."""
    named = [str(one.used["output_dir"]) for one in asked.values() if one.used.get("output_dir")]
    return [run.folder / "data", *(run.path(name) for name in dict.fromkeys(named))]


def _read(run: Run, folders: Iterable[Path], name: str, part: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for folder in folders:
        for path in sorted(folder.rglob(name)) if folder.is_dir() else ():
            inside = path.parent.relative_to(folder)
            if any(step.startswith(".") for step in inside.parts):
                continue
            try:
                stored = json.loads(path.read_bytes())
            except (OSError, ValueError):
                continue
            if isinstance(stored, dict) and isinstance(stored.get(part), list):
                yield (inside if folder == run.folder / "data" else folder.name / inside).as_posix(), stored


def _said(events: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return what the engine had to say while each notebook ran last, each sentence once.

    Which tokenizer served may be older: a notebook that finds its shards finished tokenises nothing.
    """
    said: dict[str, dict[str, None]] = {}
    for event in events:
        mine = said.setdefault(str(event.get("notebook", "")), {})
        if event.get("event") == "note":
            text = str(event.get("text", ""))
            if text.startswith(SERVED):
                _forget(mine, lambda old: old.startswith(SERVED))
            mine[text] = None
        elif event.get("event") == "notebook" and event["state"] == "began":
            _forget(mine, lambda old: not old.startswith(SERVED))  # it belongs to what this one replaces
    return {name: list(texts) for name, texts in said.items() if texts}


def _forget(texts: dict[str, None], which: Any) -> None:
    for text in [text for text in texts if which(text)]:
        del texts[text]


def took(events: Iterable[Mapping[str, Any]]) -> Iterator[Took]:
    """Yield how long each stage took, all attempts since a notebook was last begun anew added up.

    Examples
    --------
    >>> task = {"notebook": "15_pack", "event": "task", "stage": "count", "seconds": 2.0}
    >>> next(took([task, {**task, "event": "end", "seconds": 1.5}, task]))
    Took(notebook='15_pack', stage='count', tasks=2, wall=1.5, work=4.0)
    """
    sums: dict[tuple[str, str], tuple[int, float, float]] = {}
    done: set[str] = set()
    for event in events:
        name, kind = str(event.get("notebook", "")), event.get("event")
        if kind == "notebook" and event["state"] != "kept":
            if event["state"] == "began" and name in done:
                sums = {at: found for at, found in sums.items() if at[0] != name}
            done = done | {name} if event["state"] == "done" else done - {name}
        elif kind in ("task", "end"):
            at = (name, str(event.get("stage", "")))
            tasks, wall, work = sums.get(at, (0, 0.0, 0.0))
            seconds = float(event.get("seconds", 0.0))
            sums[at] = (tasks + 1, wall, work + seconds) if kind == "task" else (tasks, wall + seconds, work)
    for (name, stage), (tasks, wall, work) in sums.items():
        yield Took(name, stage, tasks, wall, work)
