"""What a run counted, and where each of its notebooks stands.

data/*/…ledger.json   ──ledgers──▶  per notebook  ──summary──▶  records in and kept, tokens, how full the packs are
run.jsonl             ──journal──▶  since when, which notebook, which stage, tasks, memory, how it ended
executed/NAME.json    ──record───▶  key, seconds, memory, files read and written
recipe.yaml           ──outdated─▶  which of them stand on what has changed since
                      ──states───▶  open, running, done, outdated, failed, interrupted
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from prep_lib import funnel
from prep_lib.keys import changed
from prep_lib.ledger import Ledger
from prep_lib.recipes import written_values
from prep_lib.workspace import Run, read_events


def record(run: Run) -> dict[str, Any] | None:
    """Return what is known of a finished notebook: key, seconds, inputs and outputs with size and sha256."""
    try:
        stored: dict[str, Any] = json.loads((run.folder / "executed" / f"{run.notebook}.json").read_bytes())
    except (OSError, ValueError):
        return None
    return stored


def digest_json(value: Any) -> str:
    """Return a short digest of what JSON can hold, as keys of notebooks name those before them."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


@dataclass(frozen=True)
class Outdated:
    """Why what a finished notebook wrote is not what its run would write now.

    Parameters
    ----------
    earlier : tuple of str
        Notebooks before it that were made anew, or came in between, since.
    values : tuple of str
        ``seed 1 -> 5``: parameters as they were used, and as the recipe of the run has them now.
    """

    earlier: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


def outdated(run: Run) -> dict[str, Outdated]:
    """Return the finished notebooks of a run that do not go with the rest of it: part of it was made anew since."""
    names = sorted(path.stem for path in (run.folder / "executed").glob("*.json"))
    records = {name: found for name in names if (found := record(replace(run, notebook=name)))}
    asked = written_values(run.folder / "recipe.yaml")
    sums = {name: digest_json(found.get("key")) for name, found in records.items()}
    wrote = [name for name, found in records.items() if found.get("outputs")]
    told = {}
    for name, found in records.items():
        key = found.get("key", {})
        seen, used = key.get("earlier", {}), key.get("parameters", {})
        before = list(asked)[: list(asked).index(name)] if name in asked else []
        new = [one for one in before if one in wrote and one[:1] == name[:1] and one not in seen]
        old = [one for one, digest in seen.items() if one in sums and sums[one] != digest]
        wanted = {key: json.dumps(value) for key, value in asked.get(name, {}).items() if key in used}
        values = changed({"parameters": {key: used[key] for key in wanted}}, {"parameters": wanted})
        if old or new or values:
            told[name] = Outdated(tuple(sorted([*old, *new])), tuple(values))
    return told


@dataclass(frozen=True)
class Numbers:
    """The few numbers that matter of a run or one of its notebooks; None where nothing was counted.

    Parameters
    ----------
    records, kept : int or None
        Into the first stage, and out of the last.
    tokens : int or None
        Written.
    places : int or None
        Written tokens and padding.
    """

    records: int | None = None
    kept: int | None = None
    tokens: int | None = None
    places: int | None = None

    @property
    def efficiency(self) -> float | None:
        """The share of stored places that hold a token."""
        return self.tokens / self.places if self.tokens is not None and self.places else None


def ledgers(run: Run) -> dict[str, Ledger]:
    """Return what each notebook counted, in the order of their names: the sum of its ``…ledger.json`` files.

    What a notebook with a ledger of its own wrote into a folder inside, before it came to its end, stands for itself:
    ``13_mix/texts``, then ``13_mix``.
    """
    data = run.folder / "data"
    paths = [path.relative_to(data) for path in data.rglob("*ledger.json")]
    seen = sorted(path for path in paths if not any(part.startswith(".") for part in path.parts))
    own = {path.parts[0] for path in seen if len(path.parts) == 2}
    found: dict[str, Ledger] = {}
    for path in sorted(seen, key=lambda path: (path.parts[0], len(path.parts) == 2, path)):
        name = path.parent.as_posix() if path.parts[0] in own else path.parts[0]
        found.setdefault(name, Ledger())
        found[name] += Ledger.from_json((data / path).read_bytes())
    return found


def numbers(ledger: Ledger) -> Numbers:
    """Read the numbers that matter out of a ledger."""
    stages = funnel.counted(ledger)
    tokens = [stage for stage in ledger.stages if ledger.total(stage, "written", unit="tokens")]
    written = ledger.total(tokens[-1], "written", unit="tokens") if tokens else None
    padding = ledger.total(tokens[-1], "padding", unit="tokens") if tokens else 0
    return Numbers(
        records=ledger.total(stages[0], "in") if stages else None,
        kept=ledger.total(stages[-1], "kept") if stages else None,
        tokens=written,
        places=None if written is None else written + padding,
    )


def summary(run: Run) -> Numbers:
    """Return the numbers of the way a run ends with: what came into its first notebook, what its last one wrote."""
    return of_way(ledgers(run))


def of_way(counted: Mapping[str, Ledger], digit: str = "") -> Numbers:
    """Return the same of what each notebook counted, for the way whose notebooks begin with a digit; the last if empty.

    Notebooks of one way share their first digit; a tour counts for itself.
    """
    wanted = digit or max(counted, default=" ")[0]
    way = [numbers(ledger) for name, ledger in counted.items() if name[0] == wanted]
    records = next((one.records for one in way if one.records is not None), None)
    kept = next((one.kept for one in reversed(way) if one.kept is not None), None)
    last = next((one for one in reversed(way) if one.tokens is not None), Numbers())
    return Numbers(records, kept, last.tokens, last.places)


# ── run.jsonl: what happened ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Stage:
    """How far one stage is.

    Parameters
    ----------
    name : str
    tasks, done : int
    before : int
        How many were already done when it began.
    seconds : float
        Since it began.
    ended : bool
    """

    name: str
    tasks: int
    done: int
    before: int = 0
    seconds: float = 0.0
    ended: bool = False

    @property
    def left(self) -> float | None:
        """Seconds to go, guessed from the tasks finished so far; None while there is nothing to guess from."""
        finished = self.done - self.before
        return self.seconds * (self.tasks - self.done) / finished if finished and not self.ended else None


@dataclass(frozen=True)
class Stages:
    """The stages in the order they began, and the notes told meanwhile."""

    stages: tuple[Stage, ...] = ()
    notes: tuple[str, ...] = ()


def advance(state: Stages, event: Mapping[str, Any], seconds: float = 0.0) -> Stages:
    """Return the stages after one event of the engine; `seconds` is how long its stage has been running.

    Examples
    --------
    >>> state = advance(Stages(), {"event": "begin", "stage": "count", "tasks": 3, "done": 1})
    >>> advance(state, {"event": "task", "stage": "count", "done": 2, "tasks": 3}, 4.0).stages[0].left
    4.0
    """
    kind = event["event"]
    if kind == "note":
        return replace(state, notes=(*state.notes, event["text"]))
    if kind == "begin":
        fresh = Stage(event["stage"], event["tasks"], event["done"], event["done"])
        return replace(state, stages=(*state.stages, fresh))
    if kind == "task":
        return _change(state, event["stage"], done=event["done"], tasks=event["tasks"], seconds=seconds)
    if kind == "end":
        return _change(state, event["stage"], seconds=event["seconds"], ended=True)
    return state


def _change(state: Stages, name: str, **fields: Any) -> Stages:
    """Change the newest stage of that name; one that began before we listened is left alone."""
    at = max((at for at, stage in enumerate(state.stages) if stage.name == name), default=None)
    if at is None:
        return state
    stages = list(state.stages)
    stages[at] = replace(stages[at], **fields)
    return replace(state, stages=tuple(stages))


@dataclass(frozen=True)
class Notebook:
    """Where one notebook of a run stands.

    Parameters
    ----------
    state : str
        open, running, done, failed or interrupted.
    text : str
        What stopped it.
    why : str
        Why it ran, or was skipped, when it was last looked at.
    at, since : float, seconds since 1970
        When it came into this state, and when it was last begun; 0: never.
    now : bool
        False: this is from an earlier time the run was worked on.
    seconds : float or None
        What it took when it was last executed to its end; None: never.
    memory : int or None, bytes
        The most that its kernel and workers were seen to hold together, this time.
    """

    state: str = "open"
    text: str = ""
    why: str = ""
    at: float = 0.0
    since: float = 0.0
    now: bool = True
    seconds: float | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Journal:
    """What ``run.jsonl`` tells of the last time a run was worked on by `prep run`.

    Parameters
    ----------
    began, last, ended : float, seconds since 1970
        When it began, was last heard of, and ended; 0: never.
    process : int
        Which process worked; 0: unknown.
    state : str
        How it ended: done, failed, interrupted. Empty: it has not said so.
    text : str
        What made it fail.
    again : str
        The command that goes on with it.
    limit : int, bytes
        Of memory; 0: unknown.
    plan : tuple of str
        The notebooks of its recipe.
    notebooks : mapping of str to Notebook
        Those something is known of.
    now : str
        The notebook that has begun and not ended.
    stages : Stages
        Of that notebook.
    before, times : float and int
        Seconds of the earlier times this one continues, and how many they were.
    """

    began: float = 0.0
    last: float = 0.0
    ended: float = 0.0
    process: int = 0
    state: str = ""
    text: str = ""
    again: str = ""
    limit: int = 0
    plan: tuple[str, ...] = ()
    notebooks: Mapping[str, Notebook] = field(default_factory=dict)
    now: str = ""
    stages: Stages = Stages()
    before: float = 0.0
    times: int = 0
    # When the newest stage began, and how often a kernel opened the notebook that is at work.
    stage_at: float = 0.0
    opened: int = 0

    @property
    def stage(self) -> Stage | None:
        """The stage that is at work, or was when nothing more was heard."""
        return next((stage for stage in reversed(self.stages.stages) if not stage.ended), None)

    @property
    def memory(self) -> int | None:
        """The most bytes a notebook held this time; None where nobody looked."""
        return max((found.memory for found in self.notebooks.values() if found.now and found.memory), default=None)

    @property
    def worked(self) -> float:
        """Seconds worked, those of the earlier times that it continues included."""
        return self.before + max(0.0, (self.ended or self.last) - self.began)


def moment(event: Mapping[str, Any]) -> float:
    """Return when an event was noted, seconds since 1970; 0 where it does not say."""
    with contextlib.suppress(KeyError, TypeError, ValueError):
        return datetime.fromisoformat(event["time"]).timestamp()
    return 0.0


def journal(run: Run) -> Journal:
    """Read what happened when a run was worked on last.

    Asked again, it reads on from where it was: whoever looks every second at a run of many days reads each line once.
    """
    head = _head(run)
    known, seen, found = _read.get(run.folder, (b"", 0, Journal()))
    if head != known or _length(run) < seen:  # another journal of this name
        seen, found = 0, Journal()
    events, seen = read_events(run.folder, seen)
    found = functools.reduce(fold, events, found)
    _read[run.folder] = head, seen, found
    return found


#: Of each journal: its first bytes, how far it was read, and what it said until there.
_read: dict[Path, tuple[bytes, int, Journal]] = {}


def _head(run: Run) -> bytes:
    with contextlib.suppress(OSError), open(run.folder / "run.jsonl", "rb") as file:
        return file.readline(300)
    return b""


def _length(run: Run) -> int:
    with contextlib.suppress(OSError):
        return (run.folder / "run.jsonl").stat().st_size
    return 0


def fold(found: Journal, event: Mapping[str, Any]) -> Journal:
    """Return the journal after one more event.

    Examples
    --------
    >>> began = fold(Journal(), {"event": "run", "state": "began", "time": "2026-11-30T10:00:00+0000"})
    >>> later = fold(began, {"event": "run", "state": "done", "time": "2026-11-30T10:00:09+0000"})
    >>> later.state, later.worked
    ('done', 9.0)
    """
    kind, at = event.get("event"), moment(event)
    if kind == "run":
        if event["state"] == "began":
            return _next(found, event, at)
        ended = replace(found, state=event["state"], text=event.get("text", ""), last=at, ended=at, now="")
        return replace(ended, notebooks=_stopped(found.notebooks))
    if kind == "notebook":
        return replace(_notebook(found, event, at), last=at)
    if not found.now or event.get("notebook") != found.now:
        return found
    if kind == "open":
        return replace(found, opened=found.opened + 1, last=at)
    if found.opened > 1:  # somebody has opened the same notebook by hand: that is another story
        return found
    if kind == "memory":
        mine = found.notebooks[found.now]
        most = replace(mine, memory=max(mine.memory or 0, event["bytes"]))
        return replace(found, last=at, notebooks={**found.notebooks, found.now: most})
    since = at if kind == "begin" else found.stage_at
    return replace(found, last=at, stage_at=since, stages=advance(found.stages, event, max(0.0, at - since)))


def _next(found: Journal, event: Mapping[str, Any], at: float) -> Journal:
    """Begin anew; what did not come to its end is continued."""
    earlier = {name: replace(one, now=False) for name, one in _stopped(found.notebooks).items()}
    goes_on = bool(found.began) and found.state != "done"
    return Journal(
        began=at, last=at, process=event.get("process", 0), again=event.get("again", ""), limit=event.get("limit", 0),
        plan=tuple(event.get("notebooks", ())), notebooks=earlier, before=found.worked if goes_on else 0.0,
        times=found.times + 1 if goes_on else 0,
    )  # fmt: skip


def _stopped(notebooks: Mapping[str, Notebook]) -> dict[str, Notebook]:
    """Return them with none at work: whoever was has been killed."""
    return {n: replace(one, state="interrupted") if one.state == "running" else one for n, one in notebooks.items()}


def _notebook(found: Journal, event: Mapping[str, Any], at: float) -> Journal:
    if found.state:  # a full disk had no room for the event that says it begins anew
        found = _next(found, {"again": found.again, "limit": found.limit, "notebooks": found.plan}, at)
    name = event["notebook"]
    state = {"began": "running", "kept": "done"}.get(event["state"], event["state"])
    old = found.notebooks.get(name, Notebook())
    one = Notebook(
        state, event.get("text", ""), event.get("why", old.why), at, at if state == "running" else old.since,
        seconds=event.get("seconds", old.seconds), memory=None if state == "running" else old.memory,
    )  # fmt: skip
    others = _stopped({other: one for other, one in found.notebooks.items() if other != name})
    whole = replace(
        found, began=found.began or at, notebooks={**others, name: one}, now=name if state == "running" else ""
    )
    return replace(whole, stages=Stages(), opened=0) if state == "running" else whole


def states(run: Run, names: Sequence[str] = ()) -> dict[str, tuple[str, str]]:
    """Return for each notebook its state and what there is to say about it.

    The states: open, running, done, outdated (done, see `outdated`), failed, interrupted.

    Parameters
    ----------
    run : Run
    names : sequence of str
        The notebooks of the recipe; those only found in the run follow.
    """
    known, old = journal(run).notebooks, outdated(run)
    found = [*names, *(path.stem for path in sorted((run.folder / "executed").glob("*.ipynb"))), *known]
    told = {name: known.get(name, Notebook()) for name in found}
    return {
        name: ("outdated" if one.state == "done" and name in old else one.state, one.text) for name, one in told.items()
    }
