"""What happens while work goes on, told to whoever listens, and printed now and then where nobody draws it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

Event = dict[str, Any]
_listeners: list[Callable[[Event], None]] = []
_silent = 0


@contextlib.contextmanager
def listen(callback: Callable[[Event], None], *, instead: bool = False) -> Iterator[None]:
    """Call `callback` with every event while the block runs.

    Parameters
    ----------
    callback : callable of one dict
        ``{"event": "begin", "stage", "tasks", "done"}``, ``{"event": "task", "stage", "name", "done", "tasks",
        "seconds"}``, ``{"event": "end", "stage", "seconds"}``, ``{"event": "note", "text"}``.
    instead : bool
        True: the printed lines are not wanted meanwhile.
    """
    global _silent
    _listeners.append(callback)
    _silent += instead
    try:
        yield
    finally:
        _listeners.remove(callback)
        _silent -= instead


def emit(event: str, **fields: Any) -> None:
    """Tell every listener, and print unless one of them draws instead."""
    whole = {"event": event, **fields}
    for callback in list(_listeners):
        callback(whole)
    if not _silent:
        _printer(whole)


class _Printer:
    """A line every 10 s, every minute once a stage has taken ten."""

    def __init__(self) -> None:
        self.began = self.last = 0.0

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        kind = event["event"]
        if kind == "begin":
            self.began = self.last = now
            if event["done"]:
                self._say(f"{event['stage']}: {event['done']} of {event['tasks']} tasks were already done")
        elif kind == "note":
            self._say(event["text"])
        elif kind == "task" and now - self.last >= (10 if now - self.began < 600 else 60):
            self.last = now
            self._say(f"{event['stage']}: {event['done']} of {event['tasks']} tasks, {now - self.began:.0f} s")
        elif kind == "end" and self.last > self.began:
            self._say(f"{event['stage']}: done, {event['seconds']:.0f} s")

    def _say(self, text: str) -> None:
        print(text, flush=True)


_printer = _Printer()
