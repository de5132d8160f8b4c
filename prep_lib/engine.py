"""Where tasks run and what is already done.

    task = pure function of (a span of input, parameters) + the key of everything its bytes depend on

    worker   out/        the task writes its files into a folder of its own
    parent   rename      every file to its name in the run's folder
             record      .prep/tasks/NAME.json, written last: its presence means the task is complete

    again    same key, same files      not run
             another key               the record goes first, then the files, then it runs

In a store of objects, which has no renames, the worker sends its files under their names, and the record follows.
A worker that dies costs what was in flight: it runs again, then in halves until the culprit flies alone, and a task
that takes its worker down twice alone fails by name. When this process dies its workers see it within a second and end.
Only this process renames and records, so an orphan can never finish anything.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prep_lib import cluster, remote
from prep_lib.cluster import ONE_THREAD, Cluster, Lost, Parcel
from prep_lib.errors import BadParameter, PrepError, TaskFailed, unknown
from prep_lib.events import emit
from prep_lib.files import place, space_for, write_whole
from prep_lib.keys import Key, changed
from prep_lib.locks import HIDDEN
from prep_lib.machine import default_workers

ENGINES = ("processes", "inline")

#: Tasks in flight for each core of a cluster: the next one is there when one ends.
AHEAD = 2

#: No process has this number: the parent of a task whose worker outlives it.
NOBODY = -1

#: Tasks an executor handed in gets at once: enough for a large cluster, few enough to wait for them together.
IN_FLIGHT = 1000

#: So many tasks that take their workers down are not bad luck with the data: the run stops.
LOST = 3


@dataclass(frozen=True)
class Task:
    """A pure function of its arguments, and the files it writes.

    Parameters
    ----------
    name : str
        A file name, unique in its folder; the name of its record.
    work : callable
        Called as ``work(**args, out=folder)``; writes its outputs by their base names into `out` and returns a
        JSON-able dict.
    args : mapping
    outputs : tuple of str
        Paths relative to the run's folder. Exactly these must be there when `work` returns.
    key : Key or None
        None: never reused.
    """

    name: str
    work: Callable[..., dict[str, Any]]
    args: Mapping[str, Any]
    outputs: tuple[str, ...] = ()
    key: Key | None = None

    def __post_init__(self) -> None:
        if Path(self.name).name != self.name or self.name in ("", ".."):
            raise BadParameter(f"engine: a task is named like a file, without folders; got {self.name!r}")
        outside = [name for name in self.outputs if Path(name).is_absolute() or ".." in Path(name).parts]
        if outside or len({Path(name).name for name in self.outputs}) < len(self.outputs):
            raise BadParameter(
                f"engine: outputs of {self.name} must be inside the folder and differ in their base names"
            )


@dataclass
class _Store:
    """The records of finished tasks in a folder."""

    folder: Path
    keep_old: bool = False
    redone: Counter[str] = field(default_factory=Counter)

    def path(self, task: Task) -> Path:
        return self.folder / HIDDEN / "tasks" / f"{task.name}.json"

    def finished(self, tasks: Sequence[Task]) -> dict[str, dict[str, Any]]:
        """Return the results of the tasks that are done and still fit; forget those that do not."""
        size, results, old = remote.sizes(self.folder), dict[str, dict[str, Any]](), list[tuple[Task, Any]]()
        known = [task for task in tasks if size(f"{HIDDEN}/tasks/{task.name}.json") is not None]
        records = dict(zip((task.name for task in known), remote.read_many(map(self.path, known)), strict=True))
        for task in tasks:
            record = _record(records.get(task.name))
            differs = self._differs(task, record, size) if record else []
            if record and not differs:
                results[task.name] = record["result"]
                continue
            if differs:
                self.redone["; ".join(differs)] += 1
            old.append((task, record))
        # All records go before any output does.
        remote.remove(self.path(task) for task, _ in old if task.name in records)
        names = {name: None for task, record in old for name in (*task.outputs, *record.get("outputs", ()))}
        remote.remove(self.folder / name for name in names if size(name) is not None)
        return results

    def _differs(self, task: Task, record: Mapping[str, Any], size: Callable[[str], int | None]) -> list[str]:
        differs = changed(record["key"] or {}, task.key) if task.key else ["a function that cannot be digested"]
        if self.keep_old and all(part.startswith("code of") for part in differs):
            differs = []
        whole = all(size(name) == told for name, told in record["outputs"].items())
        if not whole or set(record["outputs"]) != set(task.outputs):
            differs = [*differs, "missing or cut outputs"]
        return differs

    def commit(self, task: Task, out: Path, result: dict[str, Any]) -> None:
        with space_for(self.folder / task.name):
            # To a store the worker has sent them.
            for name in task.outputs if isinstance(out, Path) else ():
                target = self.folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(out / target.name, target)
            if isinstance(out, Path):
                shutil.rmtree(out, ignore_errors=True)
            outputs = {name: (self.folder / name).stat().st_size for name in task.outputs}
            with write_whole(self.path(task), "w") as file:
                json.dump({"key": task.key, "outputs": outputs, "result": result}, file, indent=1)


def _record(text: bytes | None) -> dict[str, Any]:
    try:
        record = json.loads(text or b"")
        return record if {"key", "outputs", "result"} <= record.keys() else {}
    except (ValueError, AttributeError):
        return {}


def run_tasks(
    stage: str,
    tasks: Sequence[Task],
    folder: str | Path,
    *,
    crew: Crew | None = None,
    keep_old: bool = False,
    watch: Callable[[Task, dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """Run what is not done yet.

    Parameters
    ----------
    stage : str
        For events and errors.
    tasks : sequence of Task
        Independent of each other.
    folder : path
        Where outputs and records go. Hold its `lock`.
    crew : Crew or None
        Who runs them. None: this process, one after the other.
    keep_old : bool
        True: a finished task is used even if the code that made it has changed since.
    watch : callable or None
        Called after each finished task, also for those found done; may raise to stop the run.

    Returns
    -------
    list of dict
        The results in the order of `tasks`, as JSON gives them back: the same from a worker and from a record.

    Raises
    ------
    BadParameter
        If two tasks have one name or write one file.
    TaskFailed
        If a task raised, wrote other files than it named, or kills its worker; the finished ones are kept.
    PrepError
        One of ours passes through as it is.
    """
    _check_apart([task.name for task in tasks], f"{stage}: two tasks are named")
    _check_apart([name for task in tasks for name in task.outputs], f"{stage}: two tasks write")
    store, began = _Store(place(folder), keep_old), time.monotonic()
    results = store.finished(tasks)
    for why, count in store.redone.items():
        emit("note", text=f"{stage}: {count} of {len(tasks)} finished tasks are redone: {why}")
    emit("begin", stage=stage, tasks=len(tasks), done=len(results))
    watch = watch or (lambda task, result: None)
    for task in tasks:
        if task.name in results:
            watch(task, results[task.name])
    open_tasks = [task for task in tasks if task.name not in results]
    # Closed at once when `watch` raises: a generator left to the garbage collector would let its workers go on.
    with contextlib.closing((crew or Crew("inline")).run(stage, open_tasks, store.folder)) as finished:
        for task, out, result, seconds in finished:
            store.commit(task, out, result)
            results[task.name] = result
            emit("task", stage=stage, name=task.name, done=len(results), tasks=len(tasks), seconds=round(seconds, 3))
            watch(task, result)
    emit("end", stage=stage, seconds=round(time.monotonic() - began, 3))
    return [results[task.name] for task in tasks]


def _check_apart(names: Sequence[str], what: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise BadParameter(f"engine: {what} {twice[0]}")


_Done = tuple[Task, Path, dict[str, Any], float]
_Fallen = tuple[Task, BrokenExecutor]


class Crew:
    """Whoever runs tasks: worker processes, this process, a cluster, or an executor handed in.

    Parameters
    ----------
    engine : "processes", "inline", "dask:tcp://host:8786", "ray", "ray:host:6379" or concurrent.futures.Executor
        All give the same bytes. Of a cluster see `cluster.parse`.
    workers : int or None
        None: `default_workers`, or as many as a cluster has cores; an executor handed in gets `IN_FLIGHT` tasks at once
        and uses the workers it has.

    Use it as a context manager: worker processes live as long as the block, and none is left behind it. A cluster, an
    executor handed in, and their workers, are their owner's to end.
    """

    def __init__(self, engine: str | Executor = "processes", workers: int | None = None) -> None:
        self._on_cluster = isinstance(engine, str) and cluster.parse(engine) is not None
        if isinstance(engine, str) and engine not in ENGINES and not self._on_cluster:
            raise unknown("engine", "engine", engine, (*ENGINES, *cluster.KINDS))
        if workers is not None and workers < 1:
            raise BadParameter(f"engine: workers must be at least 1, or None for this machine's share; got {workers}")
        self.engine, self._asked, self._local = engine, workers, workers or default_workers()
        self._pool: Executor | None = None
        self._cluster: Cluster | None = None
        self._seen: set[Path] = set()
        self._laid: dict[tuple[Path, int], tuple[Any, Any]] = {}

    @property
    def workers(self) -> int:
        """How many work at once; a cluster is asked when it is connected to."""
        return self._asked or (self._connected().cores if self._on_cluster else self._local)

    @property
    def _room(self) -> int:
        if self._on_cluster:
            return self._asked or AHEAD * self._connected().cores
        return self._local if self._asked or isinstance(self.engine, str) else IN_FLIGHT

    def limit(self, count: int) -> None:
        """Let at most so many work; one alone is this process, unless it was somebody else's to say."""
        self._asked = self._local = count
        if self.engine == "processes" and count == 1:
            self.engine = "inline"

    def meet(self, folder: Path) -> None:
        """Make sure, once a folder, that every worker of a cluster is as this process and sees this folder."""
        if self._on_cluster and folder not in self._seen:
            self._connected().check(folder)
            self._seen.add(folder)

    def _connected(self) -> Cluster:
        if self._cluster is None:
            self._cluster, self._seen = cluster.connect(str(self.engine)), set()
        return self._cluster

    def __enter__(self) -> Crew:
        if self._on_cluster:
            self._connected()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close(kill=kind is not None)

    def check_reach(self, paths: Iterable[object]) -> None:
        """Refuse what the workers cannot see: a file system that lives in the memory of this process."""
        alone = self.engine == "inline" or isinstance(self.engine, ThreadPoolExecutor)
        if not alone and (path := remote.only_here(paths)):
            raise BadParameter(f"engine: {path} lives in the memory of one process; use engine='inline'")

    def run(self, stage: str, tasks: Sequence[Task], folder: Path) -> Generator[_Done, None, None]:
        """Yield every task with the folder it wrote, its result and the seconds it took, as they finish."""
        self.check_reach([folder])
        scratch = folder / HIDDEN / "tmp"
        with space_for(scratch):
            scratch.mkdir(parents=True, exist_ok=True)
        try:
            self.meet(scratch)
            if self.engine == "inline":
                for task in tasks:
                    yield task, *_collect(_attempt(stage, task, scratch))
            else:
                yield from self._parallel(stage, tasks, scratch)
        except BaseException:
            self._close(kill=True)
            raise

    def _parallel(self, stage: str, tasks: Sequence[Task], scratch: Path) -> Iterator[_Done]:
        chances = 1 if self._on_cluster else 2
        groups, deaths, lost = deque([deque(tasks)]), _Deaths(stage, chances), list[str]()
        while groups and len(lost) < LOST:
            fallen = yield from self._fly(stage, groups[0], scratch)
            if not groups[0]:
                groups.popleft()
            if fallen:
                self._mend(stage, fallen)
                again = deaths.regroup([task for task, _ in fallen])
                groups.extendleft(reversed(again))
                lost += [] if again else [fallen[0][0].name]
        if lost:
            raise TaskFailed(
                f"{stage}: task {', '.join(lost)} took its worker down{' twice' * (chances > 1)} while it ran alone "
                "(killed, or out of memory); use fewer workers or a smaller memory_budget"
            )

    def _mend(self, stage: str, fallen: Sequence[_Fallen]) -> None:
        """Make sure that there is somebody to run tasks that came back."""
        names = _names([task for task, _ in fallen])
        if gone := next((error for _, error in fallen if isinstance(error, Lost)), None):
            raise TaskFailed(f"{stage}: {gone} while it ran {names}; finished tasks are kept, the same command goes on")
        if not isinstance(self.engine, str):
            raise TaskFailed(f"{stage}: the executor broke while it ran {names}; hand in a new one")
        if not self._on_cluster:
            self._close(kill=True)

    def _fly(self, stage: str, waiting: deque[Task], scratch: Path) -> Generator[_Done, None, list[_Fallen]]:
        """Run the waiting tasks; if the pool breaks return those that were in flight, and leave the others waiting."""
        flying: dict[Future[Any], Task] = {}
        fallen, failed = list[_Fallen](), list[PrepError]()
        try:
            while flying or (waiting and not fallen and not failed):
                while waiting and not fallen and not failed and len(flying) < self._room:
                    task = waiting.popleft()
                    try:
                        flying[self._submit(stage, task, scratch)] = task
                    except PrepError as error:
                        failed.append(error)
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    task = flying.pop(future)
                    try:
                        yield task, *_collect(_outcome(stage, task, future))
                    except BrokenExecutor as error:
                        fallen.append((task, error))
                    except PrepError as error:
                        failed.append(error)
                        # Those that have begun may finish, and are kept.
                        flying = {future: task for future, task in flying.items() if not future.cancel()}
        finally:
            # The last first: or what waits would begin in the place of what is stopped.
            for future in reversed(flying):
                future.cancel()
        if failed:
            raise failed[0]
        return fallen

    def _submit(self, stage: str, task: Task, scratch: Path) -> Future[Any]:
        # Packed here and unpacked in the task's own frame: then a function that cannot travel fails by name instead of
        # breaking the pool, and any pool of processes takes closures and notebook functions.
        import cloudpickle

        try:
            args = task.args
            if self._on_cluster:
                args = {name: cluster.lay_down(value, scratch, self._laid) for name, value in args.items()}
            packed = cloudpickle.dumps(replace(task, args=args, key=None))
        except Exception as error:
            raise TaskFailed(f"{stage}: task {task.name} cannot be sent to a worker: {error}") from error
        try:
            if self._on_cluster:
                return self._connected().submit(_work, stage, task.name, packed, scratch, NOBODY)
            if not isinstance(self.engine, str):
                return self.engine.submit(_work, stage, task.name, packed, scratch, os.getpid())
            with _interrupt_waits():
                return self._own_pool().submit(_work, stage, task.name, packed, scratch, os.getpid())
        except BrokenExecutor as error:
            # The pool broke between two calls: the task comes back as fallen, like those in flight.
            future: Future[Any] = Future()
            future.set_exception(error)
            return future
        except RuntimeError as error:
            raise TaskFailed(f"{stage}: the executor takes no work: {error}") from error

    def _own_pool(self) -> Executor:
        if self._pool is None:
            import loky

            # It renews a worker that has grown by 300 MB, which one that holds a tokenizer does: nobody need know.
            warnings.filterwarnings("ignore", "A worker was restarted", UserWarning)
            self._pool = loky.ProcessPoolExecutor(
                self._local, initializer=_begin_worker, initargs=(os.getpid(), list(sys.path)), env=ONE_THREAD
            )
        return self._pool

    def _close(self, kill: bool) -> None:
        if self._pool is not None:
            pool, self._pool = self._pool, None
            pool.shutdown(wait=True, kill_workers=kill)  # type: ignore[call-arg]
        if self._cluster is not None:
            connected, self._cluster = self._cluster, None
            connected.shutdown()


class _Deaths:
    """Who was in flight when a worker died, and who flies with whom next.

    Parameters
    ----------
    stage : str
    chances : int
        How often a task may fall while it flies alone.
    """

    def __init__(self, stage: str, chances: int) -> None:
        self.stage, self.chances = stage, chances
        self.seen, self.alone = Counter[str](), Counter[str]()

    def regroup(self, fallen: Sequence[Task]) -> list[deque[Task]]:
        """Return the groups in which the fallen run again; none for one that fell twice alone."""
        again = any(self.seen[task.name] for task in fallen)
        self.seen.update(task.name for task in fallen)
        if len(fallen) == 1:
            self.alone[fallen[0].name] += 1
            if self.alone[fallen[0].name] >= self.chances:
                return []
        emit("note", text=f"{self.stage}: a worker died (killed, or out of memory); {_names(fallen)} run again")
        # Once is chance, so all fly together and little time is lost; from the second time on the culprit is sought.
        half = (len(fallen) + 1) // 2 if again else len(fallen)
        return [deque(part) for part in (fallen[:half], fallen[half:]) if part]


def _names(tasks: Sequence[Task]) -> str:
    shown = ", ".join(task.name for task in tasks[:3])
    return shown if len(tasks) <= 3 else f"{shown} and {len(tasks) - 3} more"


def _outcome(stage: str, task: Task, future: Future[Any]) -> tuple[Path, float]:
    try:
        return future.result()
    except (PrepError, BrokenExecutor):
        raise
    except Exception as error:
        raise _failure(stage, task.name, error) from error


def _failure(stage: str, name: str, error: BaseException) -> TaskFailed:
    if isinstance(error, MemoryError):
        return TaskFailed(f"{stage}: task {name} ran out of memory; use fewer workers or a smaller memory_budget")
    # Notes say what was in hand: a stage and a document, a file.
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return TaskFailed(f"{stage}: task {name}: {type(error).__name__}: {error}{notes}")


# In a worker


@contextlib.contextmanager
def _interrupt_waits() -> Iterator[None]:
    """Hold Ctrl-C back while worker processes start.

    In this process, or one that is half started would belong to nobody and live on; in the new ones, which the signal
    reaches as well, for it goes to the whole terminal group: they begin with it blocked.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda *what: came.append(what))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if hasattr(signal, "pthread_sigmask") else None
    try:
        yield
    finally:
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)
        if came and callable(before):
            before(*came[0])


def _begin_worker(parent: int, path: list[str]) -> None:
    # The parent decides what an interrupt means, and ends the workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[:] = path
    _end_with(parent)


@functools.cache
def _end_with(parent: int) -> None:
    """End this worker when its parent is gone: an orphan would hold memory and cores for nobody."""
    threading.Thread(target=_wait_for_end, args=(parent,), daemon=True).start()


def _wait_for_end(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _work(stage: str, name: str, packed: bytes, scratch: Path, parent: int) -> tuple[Path, float]:
    """Unpack and run a task, in whatever process or thread an executor chose."""
    if os.getppid() == parent:
        _end_with(parent)
    try:
        task = pickle.loads(packed)
        args = {name: each.unpacked() if isinstance(each, Parcel) else each for name, each in task.args.items()}
        task = replace(task, args=args)
    except Exception as error:
        raise TaskFailed(f"{stage}: task {name} cannot be loaded by a worker: {error}") from error
    return _attempt(stage, task, scratch)


def _attempt(stage: str, task: Task, scratch: Path) -> tuple[Path, float]:
    """Run a task in a new folder; return it and the seconds. The result lies beside it, see `_collect`."""
    began, out = time.monotonic(), None
    try:
        with space_for(scratch.parent.parent / task.name):
            if isinstance(scratch, Path):
                out = Path(tempfile.mkdtemp(prefix=f"{task.name}-", dir=scratch))
            else:
                out = remote.scratch(task.name)
            result = task.work(**task.args, out=out)
            _check_outputs(stage, task, out, result)
            told = out if isinstance(scratch, Path) else scratch / out.name
            if isinstance(scratch, Path):
                _flush(out)
            else:
                _send(task, out, scratch.parent.parent)
            _result_path(told).write_text(json.dumps(result), "utf-8")
            return told, time.monotonic() - began
    except BaseException as error:
        if out is not None:
            shutil.rmtree(out, ignore_errors=True)
            _result_path(out).unlink(missing_ok=True)
        if isinstance(error, PrepError | KeyboardInterrupt | GeneratorExit):
            raise
        # As ours, because an exception of somebody else's may not survive the way back to the parent.
        raise _failure(stage, task.name, error) from error


def _check_outputs(stage: str, task: Task, out: Path, result: Any) -> None:
    if not isinstance(result, dict):
        raise TaskFailed(f"{stage}: task {task.name} returned a {type(result).__name__}, not a dict")
    named, written = {Path(name).name for name in task.outputs}, {path.name for path in out.iterdir()}
    if missing := sorted(named - written):
        raise TaskFailed(f"{stage}: task {task.name} did not write {', '.join(missing)}")
    if strange := sorted(written - named):
        raise TaskFailed(f"{stage}: task {task.name} wrote {', '.join(strange)}, which it does not name as output")


def _flush(out: Path) -> None:
    for path in out.iterdir():
        with open(path, "rb+") as file:
            os.fsync(file.fileno())


def _send(task: Task, out: Path, folder: Path) -> None:
    """Put the files of a task under their names in a store: each appears whole, and the record comes after all."""
    remote.many(lambda name: (folder / name).send(out / Path(name).name), task.outputs)
    shutil.rmtree(out, ignore_errors=True)


def _result_path(out: Path) -> Path:
    # Not sent through the pool's pipe: a worker killed in the middle of a long message would leave its reader waiting.
    return out.with_name(f"{out.name}.json")


def _collect(finished: tuple[Path, float]) -> tuple[Path, dict[str, Any], float]:
    out, seconds = finished
    result = json.loads(_result_path(out).read_bytes())
    _result_path(out).unlink()
    return out, result, seconds
