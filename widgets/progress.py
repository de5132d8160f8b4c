"""Progress drawn in place: one output a cell, still there when the run is over.

    with show():                     or once, at the top of a notebook:   show()
        cache_jsonl(...)

    count   ████████████████  12 of 12 tasks · 3.1 s
    write   ███████░░░░░░░░░   5 of 12 tasks · 4.0 s · about 6 s left

Outside a notebook nothing is drawn and the engine prints its own lines.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from prep_lib.events import listen
from prep_lib.markup import Html, Part, bar, join, number, snippet, tag
from prep_lib.results import Stage, Stages, advance
from prep_lib.words import say
from prep_lib.workspace import HEADLESS

#: Seconds between two drawings: faster than this the eye sees no difference, and the browser does the work.
PAUSE = 0.2


def line(stage: Stage, lang: str = "en") -> str:
    """Say in one line how far a stage is."""
    parts = [say("progress.tasks", lang, done=stage.done, tasks=stage.tasks)]
    if stage.before:
        parts.append(say("progress.before", lang, done=stage.before))
    parts.append(say("progress.seconds", lang, seconds=number(float(stage.seconds))))
    if stage.left is not None:
        parts.append(say("progress.left", lang, seconds=number(stage.left, 0)))
    return " · ".join(parts)


def page(state: Stages, lang: str = "en") -> str:
    """Return the drawing: a bar and a line for each stage, notes below."""
    return snippet(join([rows(state, lang), *(tag("p", text, cls="dim") for text in state.notes)]), lang)


def rows(state: Stages, lang: str = "en") -> Html:
    """Return a bar and a line for each stage."""
    return join(_row(stage, lang) for stage in state.stages)


def _row(stage: Stage, lang: str) -> Html:
    said = line(stage, lang)
    kind = "kept" if stage.ended else "kept going"
    drawn = bar([Part(kind, stage.done, said)], stage.tasks, f"{stage.name}: {said}")
    return tag("div", tag("b", stage.name), drawn, tag("span", said, cls="dim"), cls="stage")


class Progress:
    """Listens to the engine while it is open; see `show`."""

    def __init__(self, lang: str, display: Callable[..., Any], cell: Callable[[], Any]) -> None:
        self.lang, self.state = lang, Stages()
        self._display, self._cell = display, cell
        self._handle: Any = None
        self._where: Any = None
        self._began, self._drawn = time.monotonic(), 0.0
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(listen(self, instead=True))

    def __call__(self, event: dict[str, Any]) -> None:
        """Take an event of the engine; draw unless the last drawing is too fresh."""
        now = time.monotonic()
        if event["event"] == "begin":
            self._begin(now)
        self.state = advance(self.state, event, now - self._began)
        if event["event"] != "task" or now - self._drawn >= PAUSE:
            self._draw(now)

    def _begin(self, now: float) -> None:
        """Start afresh in a cell that has no drawing yet: a run belongs under the call that made it."""
        self._began = now
        if self._cell() != self._where:
            self.state, self._handle, self._where = Stages(), None, self._cell()

    def _draw(self, now: float) -> None:
        self._drawn = now
        plain = "\n".join(f"{stage.name}: {line(stage, self.lang)}" for stage in self.state.stages)
        bundle = {"text/html": page(self.state, self.lang), "text/plain": plain}
        if self._handle is None:
            self._handle = self._display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def close(self) -> None:
        """Stop listening; what was drawn stays."""
        self._stack.close()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ipython_display_(self) -> None:
        """Show nothing when a cell ends in `show()`: the drawing is the one output."""


class _Nothing:
    def _ipython_display_(self) -> None:
        """Show nothing, where a cell ends in `show`."""

    def close(self) -> None:
        pass

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        pass


_open: list[Progress] = []


def show(lang: str = "en") -> Progress | _Nothing:
    """Draw the progress of every run from now on, or only of those inside a ``with`` block.

    Parameters
    ----------
    lang : str
        ``en`` or ``zh``.

    Notes
    -----
    Called again (a cell run twice), the earlier one stops. Outside a notebook it does nothing, nor in a notebook that
    ``prep run`` executes: how long something took must not change the bytes of a report.
    """
    say("progress.left", lang, seconds="0")
    while _open:
        _open.pop().close()
    shell = _notebook()
    if shell is None or HEADLESS in os.environ:
        return _Nothing()
    from IPython.display import display

    _open.append(Progress(lang, display, lambda: shell.execution_count))
    return _open[-1]


def _notebook() -> Any:
    """The running IPython shell if it has a kernel, and so somewhere to draw; None otherwise."""
    if "IPython" not in sys.modules:
        return None
    shell = sys.modules["IPython"].get_ipython()
    return shell if hasattr(shell, "kernel") else None
