"""A run that goes on by itself: started, looked at, followed, stopped, and found again.

prep run R --detach ──▶ a process in a session of its own ──▶ runs/NAME/run.jsonl, run.log, .prep/owner.json
                                                                    │
prep status, attach, stop, the cell that runs everything  ◀─────────┘  only files: whoever comes back finds it
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from prep_lib.alerts import alerts
from prep_lib.errors import BadInput, RunLocked
from prep_lib.facts import facts
from prep_lib.locks import HIDDEN, is_held, is_still
from prep_lib.markup import duration, number, percent, size
from prep_lib.results import (
    Journal,
    Notebook,
    Numbers,
    Stages,
    fold,
    journal,
    ledgers,
    numbers,
    of_way,
    outdated,
    summary,
)
from prep_lib.safe import Mask
from prep_lib.workspace import WHOLE, Run, read_events, retell

#: Set for the process that `detach` starts: everything is checked, so it runs at once.
DETACHED = "PREP_DETACHED"

#: What a detached run prints.
LOG = "run.log"

#: Seconds without a sign of life after which a run on another host is taken for dead; its heart beats every 5.
SILENT = 60.0

#: Seconds for a started run to begin, and for one that is stopped to end, before it is no longer waited for.
START, STOP = 120.0, 20.0

#: Share of the memory limit from which on a killed run was most likely killed for want of memory: a look once a second
#: misses the last of a fast growth.
FULL = 0.8

#: How the exit code of a run follows from how it ended; 137 is what a shell says of a killed process.
CODES = {"done": 0, "failed": 1, "interrupted": 130, "killed": 137}

# ── who works ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Owner:
    """The process that works in a run, or did when it was killed.

    Parameters
    ----------
    host : str
    process : int
    sign : float
        Its last sign of life, seconds since 1970.
    alive : bool
        It holds the run's lock, or is on another host and gave a sign not long ago.
    said : mapping
        What it left in ``owner.json``.
    """

    host: str
    process: int
    sign: float
    alive: bool = False
    said: Mapping[str, Any] = field(default_factory=dict)

    @property
    def here(self) -> bool:
        """Say whether it is a process of this host."""
        return self.host == socket.gethostname()

    @property
    def still(self) -> bool:
        """Say whether the process of this number is that one: only then may it be sent a signal."""
        return is_still(self.said)

    def __str__(self) -> str:
        return f"process {self.process} on {'this machine' if self.here else self.host}"


def owner(run: Run) -> Owner | None:
    """Return who works in a run, or was killed there; None if nobody does and whoever did has ended by himself."""
    path = run.folder / HIDDEN / "owner.json"
    try:
        said = json.loads(path.read_bytes())
        found = Owner(str(said["host"]), int(said["process"]), path.stat().st_mtime, said=said)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # Locks of another host are not seen through every shared file system; its heartbeat is.
    fresh = time.time() - found.sign < SILENT
    try:
        return replace(found, alive=(fresh and not found.here) or is_held(path.with_name("lock")))
    except PermissionError:
        return replace(found, alive=fresh)


# ── how it stands ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Left:
    """How long a run will still take.

    Parameters
    ----------
    seconds : float or None
        As far as anybody knows; None: nobody knows anything.
    rest : str
        The notebook at work, if its later stages are not in it.
    unknown : tuple of str
        Notebooks that are not in it.
    """

    seconds: float | None
    rest: str = ""
    unknown: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.seconds is None:
            return "unknown: nothing like this was finished here before"
        open_ = [*([f"the rest of {self.rest}"] if self.rest else []), *self.unknown]
        more = f", and what is not known: {', '.join(open_)}" if open_ else ""
        return f"about {duration(self.seconds)}{more}"


@dataclass(frozen=True)
class Status:
    """How a run stands.

    Parameters
    ----------
    run : Run
    state : str
        new, running, done, failed, interrupted, or killed: nobody works, and nobody said that it ended.
    journal : Journal
    owner : Owner or None
    at : float
        When this was so, seconds since 1970.
    """

    run: Run
    state: str
    journal: Journal
    owner: Owner | None
    at: float

    @property
    def sign(self) -> float:
        """The last sign of life, seconds since 1970."""
        return max(self.journal.last, self.owner.sign if self.owner and self.state == "killed" else 0.0)

    @property
    def until(self) -> float:
        """The moment up to which it has worked."""
        return self.at if self.state == "running" else self.sign

    @property
    def worked(self) -> float:
        """Seconds worked, those of the earlier times that this one continues included."""
        found = self.journal
        return found.before + max(0.0, self.until - found.began) if found.began else 0.0

    @property
    def finished(self) -> int:
        """How many notebooks are done, or found done, this time."""
        return sum(one.now and one.state == "done" for one in self.journal.notebooks.values())

    @cached_property
    def outdated(self) -> tuple[str, ...]:
        """The finished notebooks that stand on what has changed since, once nobody works."""
        return () if self.state in ("new", "running") else tuple(outdated(self.run))

    @property
    def stages(self) -> Stages:
        """The stages of the notebook at work, the last one as long as it has taken until now."""
        found, last = self.journal.stages, self.journal.stage
        if last is None or last != found.stages[-1]:
            return found
        last = replace(last, seconds=max(last.seconds, self.until - self.journal.stage_at))
        return replace(found, stages=(*found.stages[:-1], last))

    @property
    def starved(self) -> bool:
        """Say whether memory came near its limit."""
        return bool(self.journal.limit) and (self.journal.memory or 0) >= FULL * self.journal.limit


def look(run: Run) -> Status:
    """Find out how a run stands, from its files alone."""
    who, at = owner(run), time.time()
    alive = who is not None and who.alive
    found = journal(run)
    if who is not None and alive and found.process not in (0, who.process):
        # It has the lock and has not noted anything yet: what the journal tells is about the one before it.
        found = fold(found, {"event": "run", "state": "began", "process": who.process})
        found = replace(found, began=who.sign, last=who.sign)
    return Status(run, _state(found, alive), found, who, at)


def _state(found: Journal, alive: bool) -> str:
    if found.state:
        return found.state
    if alive:
        return "running"
    return "killed" if found.began else "new"


def left(found: Status) -> Left:
    """Say how long it will take, by the tasks of the stage at work and by what notebooks took when they ran last."""
    known, unknown, rest = list[float](), list[str](), ""
    for name in found.journal.plan or found.journal.notebooks:
        one = found.journal.notebooks.get(name, Notebook(now=False))
        if one.now and one.state == "done":
            continue
        stage = _of_stage(found) if one.now and one.state != "open" else None
        if one.seconds is not None:
            # As long as last time; never less than its tasks say.
            spent = found.until - one.since if one.now else 0.0
            known.append(max(one.seconds - spent, stage or 0.0))
        elif stage is not None:
            known.append(stage)
            rest = name
        else:
            unknown.append(name)
    return Left(sum(known) if known or not (unknown or rest) else None, rest, tuple(unknown))


def _of_stage(found: Status) -> float | None:
    """Return the seconds that the stage at work still needs; None where no task of it was finished."""
    return next((stage.left for stage in reversed(found.stages.stages) if not stage.ended), None)


def clock(at: float) -> str:
    """Write a moment as a person reads it: local time, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def describe(found: Status) -> Iterator[str]:
    """Yield the lines that say how a run stands."""
    yield f"run       {found.run.folder}"
    yield f"state     {_stands(found)}"
    yield from _story(found) if found.state != "new" else ()
    counted = ledgers(found.run)
    for name in dict.fromkeys([*found.journal.plan, *found.journal.notebooks, *(n.split("/")[0] for n in counted)]):
        one = found.journal.notebooks.get(name)
        told = f"  {numbers_line(numbers(counted[name]))}" if name in counted else ""
        yield f"{name:<16} {_notebook_state(found, name, one):<11}{told}{_remark(one)}".rstrip()
    yield numbers_line(of_way(counted))


def _story(found: Status) -> Iterator[str]:
    if reached := _reached(found):
        yield f"{'now' if found.state == 'running' else 'reached':<9} {reached}"
    if found.state != "done":
        yield f"memory    {_memory(found)}"
        yield f"time left {left(found)}"
    if found.state not in ("done", "running") and found.journal.again:
        yield f"continue  {continuing(found)}"


def _stands(found: Status) -> str:
    story, times = found.journal, f", continued {found.journal.times} times" if found.journal.times > 1 else ""
    if found.journal.times == 1:
        times = ", continued once"
    if found.state == "running":
        silent = found.at - found.owner.sign if found.owner and not found.owner.here else 0.0
        heard = f"; last heard of {duration(silent)} ago" if silent else ""
        return f"running since {clock(story.began)} ({duration(found.worked)}{times}), {found.owner}{heard}"
    if found.state == "killed":
        where = "" if found.owner is None or found.owner.here else f" (seen from here; it was {found.owner})"
        return f"killed: last sign of life {clock(found.sign)}, after {duration(found.worked)}{times}{where}"
    if found.state == "new":
        return "not run yet by prep run"
    text = f": {_plain(story.text)}" if story.text else ""
    old = f"; not all of it is up to date: {', '.join(found.outdated)}" if found.outdated else ""
    return f"{found.state} {clock(story.ended or story.last)}, after {duration(found.worked)}{times}{text}{old}"


def _reached(found: Status) -> str:
    """Say which notebook and stage is at work, or was last."""
    story = found.journal
    name = story.now or next((n for n, one in story.notebooks.items() if one.now and one.state == "interrupted"), "")
    if not name or found.state in ("done", "failed"):
        return "" if found.state != "running" else f"{found.finished} of {len(story.plan)} notebooks done"
    where = f"{name} ({found.finished} of {len(story.plan)} notebooks done)" if story.plan else name
    stage = story.stage
    return f"{where}: {stage.name}, {stage.done} of {stage.tasks} tasks" if stage else where


def _memory(found: Status) -> str:
    story, peak = found.journal, found.journal.memory
    if peak is None or not story.limit:
        return "not known"
    share = percent(peak, story.limit, digits=0)
    told = f"at most {size(peak)} of {size(story.limit)} ({share}), looked at every second"
    if found.state != "killed":
        return told
    if found.starved:
        return f"{told}: most likely it was killed for want of it; --workers 1 or a smaller memory_budget needs less"
    return f"{told}: by this not the cause"


def _notebook_state(found: Status, name: str, one: Notebook | None) -> str:
    if one is None or (found.state == "running" and not one.now):
        return "open" if one is not None or name in found.journal.plan else "by hand"
    if name in found.outdated and one.state == "done":
        return "outdated"
    return "killed" if found.state == "killed" and one.now and one.state in ("running", "interrupted") else one.state


def _remark(one: Notebook | None) -> str:
    if one is None:
        return ""
    earlier = "" if one.now or one.state == "open" else f"  ({one.state} {clock(one.at)})"
    return earlier + (f"  {_plain(one.text)}" if one.text else "")


def _plain(text: str) -> str:
    """Return text of the journal in one line, without what a terminal would obey."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def continuing(found: Status) -> str:
    """Return the exact command that goes on with a run, from where we stand."""
    inside = Path.cwd() == found.run.root or found.run.root in Path.cwd().parents
    return found.journal.again if inside else f"cd {shlex.quote(str(found.run.root))} && {found.journal.again}"


def numbers_line(found: Numbers) -> str:
    """Return the numbers that matter in one line."""
    return (
        f"records   {number(found.records)} in, {number(found.kept)} kept; {number(found.tokens)} tokens; "
        f"packing efficiency {percent(found.efficiency)}"
    )


def line(found: Status) -> str:
    """Return one line to be pasted into a chat: state, time and numbers, the worst warning; no path, no host."""
    counts, joined = summary(found.run), {"running": "for", "done": "in"}.get(found.state, "after")
    name = found.run.name
    parts = [f"{name}: {found.state} {joined} {duration(found.worked)}" if found.state != "new" else f"{name}: new"]
    if counts.records is not None:
        parts.append(f"{number(counts.records)} records in, {number(counts.kept)} kept")
    if counts.tokens is not None:
        parts.append(f"{number(counts.tokens)} tokens")
    if counts.efficiency is not None:
        parts.append(f"packing {percent(counts.efficiency)}")
    if found.outdated:
        parts.append(f"outdated: {', '.join(found.outdated)}")
    mask = Mask(found.run.root)
    if warning := found.journal.text if found.state == "failed" else _worst(found):
        parts.append(f"{'error' if found.state == 'failed' else 'warning'}: {_for_a_chat(mask(warning))}")
    return " · ".join(parts)


def _worst(found: Status) -> str:
    """Return the worst warning of a run that is done; of any other the page of the run tells."""
    known = alerts(facts(found.run)) if found.state == "done" else []
    return known[0].text("en") if known else ""


def _for_a_chat(text: str) -> str:
    bare = re.sub(r"(?<![\w.])(?:~|[A-Za-z]:)?(?:[/\\][^\s/\\'\",:;]+)+[/\\]([^\s/\\'\",:;]+)", r"\1", _plain(text))
    return bare if len(bare) <= 160 else f"{bare[:157]}..."


def as_json(found: Status) -> dict[str, Any]:
    """Return how a run stands, for programs: times in seconds since 1970, sizes in bytes, null where unknown."""
    story, stage, rest, counts = found.journal, found.journal.stage, left(found), summary(found.run)
    who = found.owner
    return {
        "run": found.run.name, "folder": str(found.run.folder), "state": found.state, "text": story.text,
        "began": story.began or None, "ended": story.ended or None, "seconds": round(found.worked, 1),
        "continued": story.times, "last_sign": found.sign or None,
        "owner": who and {"host": who.host, "process": who.process, "alive": who.alive},
        "notebook": story.now or None, "notebooks_done": found.finished, "notebooks": len(story.plan),
        "stage": stage and {"name": stage.name, "done": stage.done, "tasks": stage.tasks},
        "left": {"seconds": rest.seconds, "rest_of": rest.rest or None, "unknown": list(rest.unknown)}
        if found.state != "done" else None,
        "memory": {
            "peak": story.memory, "limit": story.limit or None,
            "likely_cause": found.state == "killed" and found.starved,
        },
        "continue": story.again or None,
        "states": {
            name: {"state": one.state, "text": one.text, "why": one.why, "this_time": one.now, "seconds": one.seconds,
                   "outdated": name in found.outdated}
            for name, one in story.notebooks.items()
        },
        "records": counts.records, "kept": counts.kept, "tokens": counts.tokens, "efficiency": counts.efficiency,
        "line": line(found),
    }  # fmt: skip


# ── start, follow, stop ──────────────────────────────────────────────────────────────────────────────────────────────


def detach(arguments: Sequence[str], run: Run) -> int:
    """Start ``prep`` with these arguments in a session of its own, and return once it holds the run, its process.

    Raises
    ------
    RunLocked
        If somebody works in this run.
    BadInput
        If it ended before it began; the message is its own.
    """
    if (who := owner(run)) is not None and who.alive:
        raise RunLocked(f"background: run {run.name} is in use by {who}; `prep attach {run.name}` shows it")
    run.folder.mkdir(parents=True, exist_ok=True)
    log, seen = run.folder / LOG, read_events(run.folder)[1]
    with open(log, "ab") as said:
        start = said.tell()
        child = subprocess.Popen(
            # -P: files of the workspace must not stand in for modules they share a name with.
            [sys.executable, "-P", "-m", "prep_lib.cli", *arguments], env={**os.environ, DETACHED: "1"},
            stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
        )  # fmt: skip
    until = time.monotonic() + START
    while time.monotonic() < until:
        ended = child.poll()
        if _began(run, seen, child.pid):
            return child.pid
        if ended is not None:
            last = log.read_bytes()[start:].decode("utf-8", "replace").strip().splitlines()
            raise BadInput(f"background: it did not start: {last[-1] if last else f'exit code {ended}'}")
        time.sleep(0.05)
    raise BadInput(f"background: process {child.pid} has not begun within {START:.0f} s; {log} may say why")


def _began(run: Run, seen: int, process: int) -> bool:
    events = read_events(run.folder, seen)[0]
    return any(event.get("event") == "run" and event.get("process") == process for event in events)


def quiet() -> None:
    """Make this process, a detached one, outlive its terminal, and a log that cannot be written."""
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.stdout = sys.stderr = _Log()


class _Log:
    """Writes to standard output, and leaves out what a full disk has no room for: work must not end for its log."""

    encoding, closed = "utf-8", False

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            os.write(1, text.encode("utf-8", "replace"))
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return 1


def end(run: Run) -> Owner:
    """Ask the process that works in a run to end, as Ctrl-C would, and return it.

    Raises
    ------
    BadInput
        If nothing runs, not on this machine, or for somebody else.
    """
    found = look(run)
    who = found.owner
    if found.state != "running" or who is None:
        raise BadInput(f"background: nothing works in run {run.name}: {_stands(found)}")
    if not who.here:
        raise BadInput(f"background: run {run.name} is worked on by {who}; run `prep stop {run.name}` there")
    if not who.still:
        raise BadInput(
            f"background: run {run.name} is held, but {who} is not known to be who holds it: another one may be taking "
            f"it over; ask again in a moment, or end that process yourself"
        )
    _signal(who, signal.SIGINT)
    return who


def stop(run: Run) -> Iterator[str]:
    """End a run of this machine, see `end`, wait until it has, and yield what there is to say."""
    who = end(run)
    if not _wait_until_free(run, who, STOP):
        yield f"process {who.process} did not end within {STOP:.0f} s and is killed"
        _signal(who, getattr(signal, "SIGKILL", signal.SIGTERM))
        _wait_until_free(run, who, STOP)
    found = look(run)
    yield f"{run.name}: {_stands(found)}"
    if found.state != "done":
        yield f"finished tasks are kept; continue with\n{continuing(found)}"


def _signal(who: Owner, number: int) -> None:
    if not who.still:  # it has ended, and its number may be somebody else's by now
        return
    try:
        os.kill(who.process, number)
        if hasattr(signal, "SIGCONT"):
            os.kill(who.process, signal.SIGCONT)  # one that is suspended would not notice
    except ProcessLookupError:
        pass
    except PermissionError:
        raise BadInput(f"background: {who} belongs to another user, who must stop it") from None


def _wait_until_free(run: Run, who: Owner, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while (now := owner(run)) is not None and now.alive and now.said == who.said:
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def attach(run: Run, tell: Callable[[str], None], pause: float = 0.3) -> int:
    """Tell what happens in a run until it ends, and return its exit code; begin with the last lines."""
    events, seen = read_events(run.folder)
    begins = (at for at, event in enumerate(events) if event.get("event") == "run" and event["state"] == "began")
    began = max(begins, default=0)
    for text in [text for event in events[began:] if (text := told(event))][-10:]:
        tell(text)
    found = look(run)
    if found.state == "running" and (reached := _reached(found)):
        tell(f"now: {reached}")
    while found.state == "running":
        time.sleep(pause)
        events, seen = read_events(run.folder, seen)
        for event in events:
            if text := told(event):
                tell(text)
            elif event.get("event") in ("begin", "task", "end"):
                retell(event)
        found = look(run)
    for text in describe(found) if found.state == "killed" else [line(found)]:
        tell(text)
    return CODES.get(found.state, 1)


def told(event: dict[str, Any]) -> str:
    """Return what a run says of an event in a line of its own; empty for what is only counted."""
    kind, name = event.get("event"), event.get("notebook", "")
    if kind == "note":
        return _plain(str(event["text"]))
    if kind == "notebook":
        state, why = event["state"], event.get("why") or event["state"]
        took = f", {event['seconds']:.1f} s" if "seconds" in event else ""
        text = f": {_plain(event['text'])}" if event.get("text") else ""
        return f"{name}: {why if state in ('began', 'kept') else state + took}{text}"
    if kind == "run" and event["state"] == "began":
        return f"begins: process {event.get('process')}"
    return ""


def on_done(command: str, found: Status) -> str:
    """Hand a run that ended to a command of the user's, by environment; return what went wrong with it, or nothing."""
    state = found.state if found.state in ("done", "failed", "interrupted") else "failed"
    given = {
        "PREP_RUN": found.run.name, "PREP_STATE": state, "PREP_SUMMARY": line(found),
        "PREP_REPORT": str(found.run.folder / "reports" / "index.html"),
    }  # fmt: skip
    done = subprocess.run(
        command, shell=True, cwd=found.run.root, env={**os.environ, **given}, stdin=subprocess.DEVNULL, check=False
    )
    # Not which command: it may hold what is nobody's business, and this is kept in the log.
    return f"--on-done: the command ended with {done.returncode}" if done.returncode else ""


# ── everything ───────────────────────────────────────────────────────────────────────────────────────────────────────


def whole(run: Run) -> Run:
    """Return the run of everything that belongs to what was explored in a run: NAME-all."""
    return Run(run.root, run.name if run.name.endswith(WHOLE) else run.name + WHOLE)


def whole_command(run: Run) -> list[str]:
    """Return the arguments of ``prep`` that run everything: the recipe as Apply left it, without samples."""
    from prep_lib.recipes import read

    path = run.folder / "recipe.yaml"
    asked = ["run", path.relative_to(run.root).as_posix(), "--name", whole(run).name]
    if path.is_file():
        recipe = read(path, run.root)
        for step in recipe.steps:
            asked += ["-p", f"{step.notebook}.sample=0"] if step.values.get("sample") else []
    return asked
