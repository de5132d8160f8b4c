"""A control's value and a part of the frozen state, kept equal.

    person ──▶ control.value ──observe──▶ change(state, value) ──▶ draw(state)
               control.value ◀──────get(state)─────┘

Nothing is decided here: `change` is a pure function of the widget's state.py, and any object with a ``value`` and
``observe(callback, names=...)`` is a control.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Generic, TypeVar

S = TypeVar("S")
Get = Callable[[S], Any]
Change = Callable[[S, Any], S]


class Holder(Generic[S]):
    """The present state, the controls that show it, and whoever draws it.

    Parameters
    ----------
    state : S
        Frozen and comparable.
    draw : callable of one state
        Called once for every new state, never for an equal one.
    """

    def __init__(self, state: S, draw: Callable[[S], None]) -> None:
        self.state, self._draw = state, draw
        self._bound: list[tuple[Any, Get[S]]] = []

    def bind(self, control: Any, get: Get[S], change: Change[S]) -> Any:
        """Tie a control to a part of the state and return it.

        Parameters
        ----------
        control : object with value and observe
        get : callable
            The part of the state the control shows.
        change : callable
            The state with that part exchanged; ``change(state, get(state)) == state`` must hold, or two controls
            would answer each other for ever.
        """
        control.value = get(self.state)
        control.observe(lambda event: self.become(change(self.state, event["new"])), names="value")
        self._bound.append((control, get))
        return control

    def release(self, controls: Iterable[Any]) -> None:
        """Forget controls that are no longer shown."""
        gone = {id(control) for control in controls}
        for control, _ in self._bound:
            if id(control) in gone:
                control.unobserve_all()
        self._bound = [(control, get) for control, get in self._bound if id(control) not in gone]

    def become(self, state: S) -> None:
        """Take a new state: it is drawn, then the controls follow.

        In this order, because drawing may release controls that mean nothing in the new state.
        """
        if state == self.state:
            return
        self.state = state
        self._draw(state)
        for control, get in list(self._bound):
            if control.value != get(state):
                control.value = get(state)


def part(name: str) -> tuple[Get[Any], Change[Any]]:
    """Return `get` and `change` for one field of a dataclass.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Light:
    ...     on: bool
    >>> get, change = part("on")
    >>> change(Light(False), True)
    Light(on=True)
    """
    return lambda state: getattr(state, name), lambda state, value: replace(state, **{name: value})


class View:
    """What a notebook shows: live controls where there is a kernel, the same page as HTML everywhere else.

    Parameters
    ----------
    box : widget
        Controls and page.
    html : callable
        Returns the page of the present state.
    said : str
        The one line it says as text.
    """

    def __init__(self, box: Any, html: Callable[[], str], said: str) -> None:
        self.box, self._html, self._said = box, html, said

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """The widget and its HTML twin; a report keeps the twin."""
        return {**self.box._repr_mimebundle_(), "text/html": self._html(), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"<{self._said}>"
