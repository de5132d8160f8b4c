"""numba: compile, cache in a writable folder, keep the plain Python twin.

    @kernel
    def total(values): ...

    total(values)           compiled at the first call, from the cache in later processes
    total.python(values)    the same function, not compiled: what the tests compare with

numba is imported at the first call, not with the library: it costs a third of a second.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Kernel:
    """A function that numba compiles when it is first called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.python = function
        self._compiled: Callable[..., Any] | None = None
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        """Run the compiled function."""
        if self._compiled is None:
            self._compiled = _compile(self.python)
        return self._compiled(*args)

    def __reduce__(self) -> str | tuple[Any, ...]:
        # By name where it can be imported: what is compiled in a worker stays there between tasks.
        name, module = self.python.__qualname__, self.python.__module__
        return (Kernel, (self.python,)) if "<locals>" in name or module == "__main__" else name


def kernel(function: Callable[..., Any]) -> Kernel:
    """Mark a function of arrays and numbers to be compiled.

    Examples
    --------
    >>> @kernel
    ... def total(values):
    ...     out = 0
    ...     for value in values:
    ...         out += value
    ...     return out
    >>> total.python([1, 2, 3])
    6
    """
    return Kernel(function)


def cache_folder() -> Path:
    """Return a folder of the user's that can be written, or one in the temporary folder."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    for base in (home, os.path.join(tempfile.gettempdir(), f"prep-workbench-{_user()}")):
        folder = Path(base, "prep-workbench", "numba")
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        # numba runs what it finds in its cache, so a folder that somebody else laid out for us will not do.
        if folder.stat().st_uid == Path(base).stat().st_uid == _user():
            return folder
    return Path(tempfile.mkdtemp(prefix="prep-workbench-"))


def _user() -> int:
    # Windows has no numbers for users, and gives 0 as the owner of every file.
    return os.getuid() if hasattr(os, "getuid") else 0


def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
    import numba

    # numba puts its cache beside the source, which an installed copy or a shared checkout may not allow.
    config: Any = numba.config
    if not config.CACHE_DIR:
        config.CACHE_DIR = str(cache_folder())
    return numba.njit(cache=True, nogil=True)(function)
