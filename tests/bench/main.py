"""Run the benches and print one table: `make bench`, or `python tests/bench/main.py pack h5` for some of them.

    room  name                                 value  unit  goal    met  against  runs
    pack  planned, 1,000,000 lengths at 4,096  0.009  s     < 0.1   yes               5

Nothing is read from outside the checkout and the environment, and nothing from the network. What was measured is also
written to `results/` beside this file, as JSON; `results/index.html` shows the newest figure of every row that was ever
measured there. Git does not see them.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from figures import against, number, page

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # as a script: the helpers of the tests
RESULTS = HERE / "results"
PACKAGES = ("numpy", "h5py", "numba", "tokenizers", "fastokens", "torch")

Row = dict[str, Any]


def met(value: float, goal: str | None) -> bool | None:
    """Tell whether a value meets its goal; None where there is none.

    Examples
    --------
    >>> met(99, "< 100"), met(0.85, ">= 0.85"), met(1.2, "<= 1"), met(3, None)
    (True, True, False, None)
    """
    if goal is None:
        return None
    sign, limit = goal.split()
    # bool(): what NumPy compares is no bool of JSON.
    return bool({"<": value < float(limit), "<=": value <= float(limit), ">=": value >= float(limit)}[sign])


def table(rows: Sequence[Row]) -> str:
    """Draw the rows; texts to the left, numbers to the right.

    Examples
    --------
    >>> print(table([{"room": "pack", "name": "planned", "value": 0.00912, "unit": "s", "goal": "< 0.1", "runs": 5}]))
    room  name       value  unit  goal   met  against  runs
    pack  planned  0.00912  s     < 0.1  yes              5
    """
    said = {True: "yes", False: "NO", None: ""}
    lines = [("room", "name", "value", "unit", "goal", "met", "against", "runs")]
    for row in rows:
        value, goal, kind = row["value"], row["goal"], against(row["name"], row["unit"])
        told = (row["room"], row["name"], number(value), row["unit"], goal or "", said[met(value, goal)], kind)
        lines.append((*told, str(row["runs"])))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) if at in (2, 7) else cell.ljust(width) for at, (cell, width) in enumerate(cells))
        for cells in ([*zip(line, widths, strict=True)] for line in lines)
    )


def machine() -> dict[str, Any]:
    """Say what the figures were measured on, and how busy it was."""
    versions = {name: _version(name) for name in PACKAGES}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    return {"cores": cores, "load": load, "python": platform.python_version(), "versions": versions}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def introduce(found: dict[str, Any]) -> str:
    """Say the machine in two lines, the tokenizer accelerator among it."""
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items() if version)
    fast = found["versions"]["fastokens"]
    accelerator = f"fastokens {fast}" if fast else 'none; pip install "prep-workbench[fast]"'
    busy = f"load {found['load']} before it began" if found["load"] is not None else "load unknown"
    return f"{found['cores']} cores, {busy}; python {found['python']}, {versions}\ntokenizer accelerator: {accelerator}"


def save(found: dict[str, Any], rows: Sequence[Row], path: Path | None = None) -> Path:
    """Write what was measured, under the time it was measured at or over `path`, and the page of all that ever was."""
    RESULTS.mkdir(exist_ok=True)
    path = path or RESULTS / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    judged = [
        {**row, "met": met(row["value"], row["goal"]), "against": against(row["name"], row["unit"])} for row in rows
    ]
    path.write_text(json.dumps({"machine": found, "rows": judged}, indent=1) + "\n", "utf-8")
    (RESULTS / "index.html").write_text(page(RESULTS, HERE / "peers"), "utf-8")
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is named, or everything; 1 when a bench could not run, a goal missed is only told."""
    known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    parser = argparse.ArgumentParser(description="Measure speed and waste.")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(known))
    names = parser.parse_args(arguments).names or known
    if strange := sorted(set(names) - set(known)):
        parser.error(f"no bench is called {strange[0]!r}; known: {', '.join(known)}")
    found, rows, broken, path = machine(), list[Row](), list[str](), None
    print(introduce(found), flush=True)
    for name in names:
        print(f"{name} …", file=sys.stderr, flush=True)
        try:
            rows += [{"room": name, **row} for row in importlib.import_module(f"bench_{name}").run()]
        except Exception:
            traceback.print_exc()
            broken.append(name)
        # All of them take half an hour: what one has measured is kept when the next is stopped.
        path = save(found, rows, path)
    written = [os.path.relpath(at) for at in (path, RESULTS / "index.html") if at]
    print(f"\n{table(rows)}\n\nwritten to {' and '.join(written)}")
    if broken:
        print(f"could not run: {', '.join(broken)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
