"""numba: compile, cache in a writable folder, keep the plain Python twin.

    @kernel
    def total(values): ...

    total(values)           compiled at the first call, from the cache in later processes
    total.python(values)    the same function, not compiled: what the tests compare with

A kernel may call kernels, so that a long loop can be written as short functions: `part` marks one that becomes part of
its callers. Neither they nor their callers can make arrays; they get them. Of processes that need a kernel at the same
moment one compiles, and the others wait. numba is imported at the first call, not with the library: it costs a third of
a second.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: How long another process may take to compile a kernel before this one does so itself, seconds.
PATIENCE = 300


class Kernel:
    """A function that numba compiles when it is first called."""

    def __init__(self, function: Callable[..., Any], inline: bool = False) -> None:
        self.python, self._inline = function, inline
        self._compiled: Callable[..., Any] | None = None
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        """Run the compiled function."""
        return (self._compiled or self.compiled())(*args)

    def compiled(self) -> Callable[..., Any]:
        """Return what numba makes of the function."""
        if self._compiled is None:
            called = self._called()
            # Counting who holds an array costs more than a short function does, and only what makes arrays needs it.
            options: dict[str, Any] = {"forceinline": self._inline, "_nrt": not (called or self._inline)}
            self._compiled = _compile(_calling(self.python, called, self.files()), options)
        return self._compiled

    def _called(self) -> dict[str, Kernel]:
        """Return the kernels this one calls, by the name it has for them."""
        scope = self.python.__globals__
        return {name: scope[name] for name in self.python.__code__.co_names if isinstance(scope.get(name), Kernel)}

    def files(self) -> set[str]:
        """Return the files this kernel and those it calls stand in."""
        return {self.python.__code__.co_filename}.union(*(other.files() for other in self._called().values()))

    def __reduce__(self) -> str | tuple[Any, ...]:
        # By name where it can be imported: what is compiled in a worker stays there between tasks.
        name, module = self.python.__qualname__, self.python.__module__
        return (Kernel, (self.python, self._inline)) if "<locals>" in name or module == "__main__" else name


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


def part(function: Callable[..., Any]) -> Kernel:
    """Mark a kernel that is copied into each kernel that calls it: small, or called in one place."""
    return Kernel(function, inline=True)


def _calling(function: Callable[..., Any], called: dict[str, Kernel], files: set[str]) -> Callable[..., Any]:
    """Return the function with the kernels it calls in the form that numba can call."""
    if not called:
        return function
    scope = {**function.__globals__, **{name: other.compiled() for name, other in called.items()}}
    out = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)
    functools.update_wrapper(out, function)
    # numba's cache looks at the file of the function alone; a change in another one must tell, too.
    stats = [os.stat(file) for file in sorted(files - {function.__code__.co_filename})]
    out.__qualname__ += "".join(f"_{stat.st_mtime_ns:x}_{stat.st_size:x}" for stat in stats)
    return out


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


def _compile(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    import numba

    # numba puts its cache beside the source, which an installed copy or a shared checkout may not allow.
    config: Any = numba.config
    if not config.CACHE_DIR:
        config.CACHE_DIR = str(cache_folder())
    made = numba.njit(cache=True, nogil=True, **options)(function)
    made.compile = functools.partial(_one_at_a_time, function, made.compile)
    return made


def _one_at_a_time(function: Callable[..., Any], compile_it: Callable[..., Any], signature: Any) -> Any:
    """Compile, or wait for another process that does, and take what it left in the cache.

    Workers that begin together need the same kernels at the same moment, and numba would compile each in each of them.
    """
    import filelock
    import numba
    from numba.core.compiler_lock import global_compiler_lock

    seen = os.stat(function.__code__.co_filename) if os.path.exists(function.__code__.co_filename) else None
    told = (function.__code__.co_filename, seen and seen.st_mtime_ns, function.__qualname__, signature)
    name = hashlib.sha256(repr((told, numba.__version__)).encode()).hexdigest()[:20]
    place = Path(numba.config.CACHE_DIR, "once")  # type: ignore[attr-defined]
    if (place / name).exists():
        return compile_it(signature)
    # This process's own lock first, which numba takes too: two threads with both in another order would wait for ever.
    with global_compiler_lock, contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            place.mkdir(exist_ok=True)
            held.enter_context(filelock.FileLock(place / f"{name}.lock", timeout=PATIENCE))
        out = compile_it(signature)
        with contextlib.suppress(OSError):
            (place / name).touch()
        return out
