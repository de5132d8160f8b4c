"""A name for a strategy, processor or preset, and an error that lists the names.

STRATEGIES = Registry("chat/strategy", "strategy")
STRATEGIES.add("chatml", ChatML)
STRATEGIES["chatml"]  ->  ChatML
STRATEGIES["chatlm"]  ->  UnknownName: chat/strategy: unknown strategy 'chatlm'; did you mean 'chatml'? known: …
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from prep_lib.errors import BadParameter, unknown

T = TypeVar("T")


class Registry(Generic[T]):
    """A dict that refuses to overwrite and whose error for a missing name helps.

    Parameters
    ----------
    where : str
        The module, for the error line.
    what : str
        What is registered, in the singular.

    Examples
    --------
    >>> colours = Registry("example", "colour")
    >>> colours.add("red", 0xFF0000)
    >>> colours["red"] == 0xFF0000, list(colours)
    (True, ['red'])
    """

    def __init__(self, where: str, what: str) -> None:
        self.where, self.what = where, what
        self._items: dict[str, T] = {}

    def add(self, name: str, item: T) -> None:
        """Register `item`; the same item under its own name again is fine (a notebook cell run twice).

        Raises
        ------
        BadParameter
            If `name` is taken by something else, or is no name. A class of the same module and name counts as the
            same: it is the cell run again, and the newer one serves.
        """
        if not isinstance(name, str) or not name:
            raise BadParameter(f"{self.where}: the name of a {self.what} must be text, got {name!r}")
        if name in self._items and not _same(self._items[name], item):
            taken = self._items[name]
            raise BadParameter(f"{self.where}: {self.what} {name!r} is taken by {taken!r}; choose another name")
        self._items[name] = item

    def __getitem__(self, name: str) -> T:
        if name not in self._items:
            raise unknown(self.where, self.what, str(name), self._items)
        return self._items[name]

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._items))


def _same(old: object, new: object) -> bool:
    def name(item: object) -> tuple[str | None, str | None]:
        return getattr(item, "__module__", None), getattr(item, "__qualname__", None)

    # Every lambda of a module has the same name: two of them are two things.
    named = None not in name(old) and "<lambda>" not in str(name(old)[1])
    return old is new or (named and name(old) == name(new))
