"""Helpers importable by name from every folder of tests, and one real run that several files look at."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# At the end: the folders here are named like the packages they test. Benches share helpers with each other.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parent / "bench")]

# A shell that starts tests in the background has them ignore Ctrl-C, and every process they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parents[1]


#: Files whose tests start browsers or look at the demo: two browsers at once starve each other, and a second demo costs
#: two minutes.
HEAVY = "heavy"


def group_of(path: str) -> str:
    """Return which tests go to one worker: those of a file, as their fixtures are; the heavy ones together."""
    return HEAVY if "tests/browser/" in path or path.endswith("tests/test_notebooks.py") else path


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Share tests out to workers by group. xdist's own marks for that are not heeded with pytest 9.2."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid.split("::")[0])

    return ByGroup(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest begin first, or one worker ends alone with them."""
    for item in items:
        heavy = group_of(item.path.as_posix()) == HEAVY
        if heavy:
            item.add_marker(pytest.mark.timeout(900))
        item.stash[RANK] = 0 if heavy else 1 if "kill" in item.path.name else 2
    items.sort(key=lambda item: item.stash[RANK])


#: When a test begins among the others.
RANK = pytest.StashKey[int]()


def shared(name: str) -> Path:
    """A file of the real data beside the checkout; without it the test is skipped."""
    path = ROOT / ".." / "shared" / "data" / name
    if not path.exists():
        pytest.skip(f"shared data not here: {name}")
    return path


def prep(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does, in a process of its own."""
    command = [sys.executable, "-m", "prep_lib.cli", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture
def events() -> Iterator[list[dict[str, Any]]]:
    """Whatever is told of work while the test runs."""
    from prep_lib.events import listen

    seen: list[dict[str, Any]] = []
    with listen(seen.append, instead=True):
        yield seen


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toy workspace, and our own code does not change while a test runs, even if somebody is editing it."""
    from toy_runs import workspace

    from prep_lib import shelf

    monkeypatch.setattr(shelf, "_our_modules", lambda: ["prep_lib.seeds"])
    return workspace(tmp_path)


@pytest.fixture(scope="session")
def demo_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace made by ``prep init``."""
    folder = tmp_path_factory.mktemp("workspace")
    done = prep("init", str(folder), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def demo(demo_workspace: Path) -> Path:
    """The folder of a finished ``prep run demo``: look, do not change."""
    done = prep("run", "demo", cwd=demo_workspace)
    assert done.returncode == 0, done.stdout + done.stderr
    return demo_workspace / "runs" / "demo"
