"""What the cell that runs everything shows: how the run of everything stands, and what a person may do about it.

here ──command──▶ prep run runs/NAME/recipe.yaml --name NAME-all      what starts it, as a shell would
files of NAME-all ──look──▶ Status ──seen──▶ new, running, done, failed, interrupted, killed
a person ──starting, refused, stopping──▶ what is said until the files say more
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace

from prep_lib.background import Left, Status, left, line
from prep_lib.results import Stages


@dataclass(frozen=True)
class State:
    """What is shown.

    Parameters
    ----------
    name : str
        Of the run of everything.
    command : str
        What starts it, or goes on with it, in a shell.
    state : str
        new, starting, running, stopping, done, failed, interrupted or killed.
    problems : tuple of str
        Why it did not start, as the command said.
    notebook : str
        At work, or when it ended.
    finished, plan : int
        Notebooks done, and of the recipe.
    stages : Stages
        Of that notebook.
    seconds : float
        Worked.
    left : Left or None
    memory, limit : int, bytes; 0 if unknown
    starved : bool
        Memory came near its limit.
    elsewhere : str
        The host it runs on if it is another one.
    said : str
        Its one line.
    lang : str
    """

    name: str
    command: str
    state: str = "new"
    problems: tuple[str, ...] = ()
    notebook: str = ""
    finished: int = 0
    plan: int = 0
    stages: Stages = field(default_factory=Stages)
    seconds: float = 0.0
    left: Left | None = None
    memory: int = 0
    limit: int = 0
    starved: bool = False
    elsewhere: str = ""
    said: str = ""
    lang: str = "en"


def begin(name: str, words: list[str], lang: str = "en") -> State:
    """Return the state before anything is known: the command and nothing else.

    Examples
    --------
    >>> begin("a-all", ["run", "runs/a/recipe.yaml", "--name", "a-all"]).command
    'prep run runs/a/recipe.yaml --name a-all'
    """
    return State(name, shlex.join(["prep", *words]), lang=lang)


def seen(state: State, status: Status) -> State:
    """Return the state after a look at the run's files; what a person asked for is said until they answer."""
    if state.state == "starting" and status.state != "running":
        return state
    running, story, who = status.state == "running", status.journal, status.owner
    return replace(
        state, state="stopping" if running and state.state == "stopping" else status.state,
        problems=() if running else state.problems, notebook=story.now, finished=status.finished, plan=len(story.plan),
        stages=status.stages if story.now else Stages(), seconds=status.worked, left=left(status) if running else None,
        memory=story.memory or 0, limit=story.limit, starved=status.starved,
        elsewhere=who.host if running and who and not who.here else "",
        said="" if running or status.state == "new" else line(status),
    )  # fmt: skip


def starting(state: State) -> State:
    """Return the state when a person has pressed the button."""
    return replace(state, state="starting", problems=(), said="")


def settled(state: State) -> State:
    """Return the state when the command has said what it had to say: the files tell the rest."""
    return replace(state, state="new") if state.state == "starting" else state


def refused(state: State, problems: tuple[str, ...]) -> State:
    """Return the state when the command would not start."""
    return replace(state, state="new", problems=problems)


def stopping(state: State) -> State:
    """Return the state when a person wants it to end."""
    return replace(state, state="stopping") if may_stop(state) else state


def may_start(state: State) -> bool:
    """Say whether the button that starts it makes sense."""
    return state.state not in ("starting", "running", "stopping")


def may_stop(state: State) -> bool:
    """Say whether the button that ends it does."""
    return state.state == "running" and not state.elsewhere
