"""What this machine gives a process: cores, and bytes of memory."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from prep_lib.errors import BadParameter


def default_workers() -> int:
    """Return the cores this process may use: affinity, cgroup and ``PREP_WORKERS`` respected."""
    import loky

    asked = os.environ.get("PREP_WORKERS", "")
    if asked and not (asked.isdecimal() and int(asked)):
        raise BadParameter(f"machine: PREP_WORKERS must be a whole number of at least 1; got {asked!r}")
    return int(asked) if asked else loky.cpu_count()


def memory_limit() -> int:
    """Return the bytes this process may use: the cgroup's limit, or the machine's memory."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else [2**33]
    for path in _limit_files():
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(path.read_text()))
    return min(limits)


def _limit_files() -> Iterator[Path]:
    """Yield where the limits of this process's control group and of those around it stand (cgroup v2 and v1)."""
    own: list[str] = []
    with contextlib.suppress(OSError):
        own = Path("/proc/self/cgroup").read_text().splitlines()
    for line in own:
        kinds, place = line.split(":", 2)[1:]
        root = Path("/sys/fs/cgroup", "memory" if kinds else "")
        if not kinds or "memory" in kinds.split(","):
            group = root / place.lstrip("/")
            for folder in (group, *group.parents[: len(group.parts) - len(root.parts)]):
                yield folder / ("memory.limit_in_bytes" if kinds else "memory.max")


def parse_bytes(value: int | str) -> int:
    """Read a size: a number of bytes, or text such as "2GiB", "500 MB".

    Examples
    --------
    >>> parse_bytes("2GiB"), parse_bytes(1000)
    (2147483648, 1000)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?))?B?\s*", str(value), re.IGNORECASE)
    if not match:
        raise BadParameter(f"machine: {value!r} is not a size; write bytes or text such as '2GiB', '500MB'")
    number, unit, binary = match.groups()
    power = " KMGT".index(unit.upper()) if unit else 0
    return int(float(number) * (1024 if binary else 1000) ** power)
