"""What `import prep_lib` costs, in new processes."""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Any

RUNS = 7

CODE = "import time; start = time.perf_counter(); import prep_lib; print(time.perf_counter() - start)"


def run() -> list[dict[str, Any]]:
    """Measure; the start of Python itself is not in it."""
    seconds = [float(subprocess.check_output([sys.executable, "-c", CODE])) for _ in range(RUNS)]
    value = round(statistics.median(seconds), 4)
    return [{"name": "import prep_lib", "value": value, "unit": "s", "goal": "< 0.3", "runs": RUNS}]
