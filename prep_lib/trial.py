"""What a recipe would take: a sample is run in a folder that goes again, and everything is estimated from it."""

from __future__ import annotations

from collections.abc import Iterator

from prep_lib.files import SPAN
from prep_lib.machine import default_workers
from prep_lib.markup import duration, size
from prep_lib.preflight import count_rows, row_files
from prep_lib.recipes import Recipe, Step
from prep_lib.results import ledgers, numbers, record
from prep_lib.workspace import Run, read_events

#: Rows of a trial.
ROWS = 2000


def estimate(trial: Recipe, run: Run) -> Iterator[str]:
    """Yield the lines that say what was measured on the sample and what follows for everything."""
    factors = dict(_factors(trial, run))
    lines = [_estimate(step, run, factors[step.notebook]) for step in trial.steps]
    head = ("notebook", "sample rows", "all rows", "at most", "disk", "memory", "lost")
    rows = [head, *lines]
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    for row in rows:
        yield ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    stages = {stage for ledger in ledgers(run).values() for stage in ledger.stages}
    if stages & {"exact_dedup", "near_dedup"}:
        yield "duplicates are those inside the sample: everything holds more, and how many is not estimated"
    if any(factor is None for factor in factors.values()):
        yield "? : the number of all rows is not known before they are read; these figures are the sample's own"
    yield f"estimated from a sample of about {ROWS:,} rows; time and disk grow with the rows, memory does not"
    yield "the time is an upper bound: a worker's first rows take longer than those that follow"


def _factors(trial: Recipe, run: Run) -> Iterator[tuple[str, float | None]]:
    """Yield for each notebook how many times the sample everything is; None where nobody knows."""

    known: float | None = 1.0
    for step in trial.steps:
        built_in = run.folder / "data" / step.notebook / "built_in"
        files = row_files(step, run) or sorted(built_in.glob("*.jsonl"))
        if files:
            rows = [count_rows(path) for path in files]
            known = None if None in rows else max(1.0, sum(n or 0 for n in rows) / ROWS)
        elif "dataset" in step.values:
            known = None
        # A notebook that names no input reads what the one before it wrote, so it grows as that one does.
        yield step.notebook, known


def _estimate(step: Step, run: Run, factor: float | None) -> tuple[str, ...]:
    said = record(Run(run.root, run.name, step.notebook)) or {}
    times = factor or 1.0
    tasks = [event for event in read_events(run.folder)[0] if event.get("event") == "task"]
    staged = sum(event["seconds"] for event in tasks if event.get("notebook") == step.notebook)
    disk = sum(output["bytes"] for output in said["outputs"]) * times
    # What the engine did grows with the rows; where it did nothing, all that came behind the parameters does.
    growing = staged or said["seconds"] - said["start"]
    seconds = said["seconds"] + growing * (times / _at_once(step, disk) - 1)
    found = numbers(ledgers(run)[step.notebook]) if step.notebook in ledgers(run) else None
    rows = found.records if found and found.records is not None else None
    lost = 1 - found.kept / found.records if found and found.records and found.kept is not None else None
    everything = "–" if rows is None else "?" if factor is None else f"{rows * times:,.0f}"
    return (
        step.notebook, "–" if rows is None else f"{rows:,}", everything, duration(seconds), size(disk),
        size(said["memory"]), "–" if lost is None else f"{100 * lost:.1f} %",
    )  # fmt: skip


def _at_once(step: Step, size: float) -> float:
    """Return how many workers of a notebook have something to do at once when it writes `size` bytes."""

    workers = (step.values["workers"] or default_workers()) if "workers" in step.known else 1
    return max(1.0, min(workers, size / SPAN))
