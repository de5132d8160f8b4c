"""What a task costs beside its work: in worker processes, and on a cluster of dask on this machine."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import toy_cluster

from prep_lib.engine import Crew, Task, run_tasks
from prep_lib.events import listen

RUNS, TASKS = 5, 200

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def write(n: int, out: Path) -> dict[str, Any]:
    """Write a small file, as the smallest task does."""
    (out / f"{n}.txt").write_text(str(n))
    return {"n": n}


def a_task(crew: Crew, folder: Path) -> float:
    """Return the milliseconds a task takes of the run, at the median."""
    tasks = [Task(f"t{n}", write, {"n": n}, (f"{n}.txt",)) for n in range(TASKS)]
    seconds = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        run_tasks("s", tasks, folder, crew=crew)
        seconds.append(time.perf_counter() - began)
    return 1000 * statistics.median(seconds[1:]) / TASKS  # the first starts the workers


def run() -> Iterator[dict[str, Any]]:
    """Measure both with two workers, one after the other."""
    with tempfile.TemporaryDirectory() as place, listen(lambda event: None, instead=True):
        folder = Path(place)
        with Crew("processes", 2) as crew:
            own = a_task(crew, folder / "processes")
        with toy_cluster.cluster(folder) as made:
            began = time.perf_counter()
            with Crew(made.engine) as crew:
                crew.meet(folder)
                met = time.perf_counter() - began
                cluster = a_task(crew, folder / "dask")
    yield {"name": "a task, processes", "value": own, "unit": "ms", "goal": None, "runs": RUNS}
    yield {"name": "a task, dask", "value": cluster, "unit": "ms", "goal": None, "runs": RUNS}
    yield {"name": "a task, dask / processes", "value": cluster / own, "unit": "x", "goal": "< 5", "runs": RUNS}
    yield {"name": "workers up, connected and looked over", "value": met, "unit": "s", "goal": None, "runs": 1}
