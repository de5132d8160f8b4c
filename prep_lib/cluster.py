"""Many machines as one executor: dask or ray, looked over before the first task.

"dask:tcp://host:8786" ──▶ its scheduler ┐
"ray", "ray:host:6379" ──▶ its head      ┘──▶ check(folder)  every worker has our Python, code and libraries, and sees
                                              │              the folder: or one line says which differs, and how
                                              ▼
                                              submit(work)   one task a core, twice as many in flight

a worker dies         the cluster runs its task elsewhere; a task that takes every worker down comes back as broken
all workers are gone  Lost, in one line; as when the scheduler is
an interrupt          what waits is forgotten, what runs is stopped where it is
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib.metadata
import logging
import os
import pickle
import platform
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, InvalidStateError
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prep_lib import remote
from prep_lib.errors import BadInput, BadParameter, PrepError
from prep_lib.files import write_whole

KINDS = ("dask", "ray")

#: Parallelism is ours, one process a core; a library that starts its own threads inside would fight it.
ONE_THREAD = {
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "NUMBA", "RAYON")},
    "TOKENIZERS_PARALLELISM": "false",
}

#: Libraries that decide about bytes: all machines must have one version of each, or all must have none.
PACKAGES = (
    "cloudpickle", "datasets", "fastokens", "fastwarc", "ftfy", "h5py", "isal", "jinja2", "lxml", "numba", "numpy",
    "orjson", "pandas", "phonenumbers", "py3langid", "pyarrow", "resiliparse", "tokenizers", "trafilatura", "xxhash",
    "zstandard",
)  # fmt: skip

#: An argument of this size is laid down once where every worker finds it, and not sent with every task, bytes.
LARGE = 2**16

#: Seconds for a connection, and for every worker to say what it has.
PATIENCE = 15.0

#: Seconds without any worker until the run stops: a scheduler of jobs may be about to start new ones.
ALONE = 60.0

#: Seconds between two looks at how many cores there are.
LOOK = 2.0

#: How often a task of ray is tried again when its worker died, before it comes back as broken; dask's scheduler has a
#: setting for it, `allowed-failures`, which is as large.
RETRIES = 3


class Lost(BrokenExecutor):
    """The scheduler or all workers are gone; the message is one line."""


def parse(engine: str) -> tuple[str, str] | None:
    """Split the name of a cluster into its kind and its address; None if it names none.

    Parameters
    ----------
    engine : str
        ``"dask:tcp://host:8786"``, ``"dask"`` with ``DASK_SCHEDULER_ADDRESS``, ``"ray:host:6379"``, or ``"ray"`` for
        the cluster this machine is part of.

    Raises
    ------
    BadParameter
        If there is no address, or it is none.

    Examples
    --------
    >>> parse("dask:tcp://10.0.0.1:8786"), parse("ray"), parse("processes")
    (('dask', 'tcp://10.0.0.1:8786'), ('ray', ''), None)
    """
    kind, _, address = engine.partition(":")
    if kind not in KINDS:
        return None
    if kind == "dask" and not (address or (address := os.environ.get("DASK_SCHEDULER_ADDRESS", ""))):
        raise BadParameter(
            "engine: where is dask's scheduler? Write dask:tcp://HOST:8786 or set DASK_SCHEDULER_ADDRESS"
        )
    form = r"((tcp|tls)://)?[^\s/]+:\d+" if kind == "dask" else r"([^\s/]+:\d+)?"
    if not re.fullmatch(form, address):
        example = "dask:tcp://HOST:8786" if kind == "dask" else "ray:HOST:6379"
        raise BadParameter(f"engine: {address!r} is no address of {kind}; write {example}")
    return kind, address


def connect(engine: str) -> Cluster:
    """Connect to a cluster by its name.

    Raises
    ------
    BadParameter
        If the name is none, or the package is not installed.
    BadInput
        If nobody answers there.
    """
    kind, address = parse(engine) or ("", "")
    try:
        return Dask(address) if kind == "dask" else Ray(address)
    except ImportError as error:
        raise BadParameter(f"engine: {kind} is not installed ({error}); pip install 'prep-workbench[{kind}]'") from None


class Cluster(Executor):
    """What dask and ray have in common.

    Parameters
    ----------
    name : str
        For errors.
    """

    def __init__(self, name: str) -> None:
        self.name, self.told, self._lost = name, versions(), ""
        self._waiting: dict[Future[Any], Callable[[], Any]] = {}
        self._end = threading.Event()
        self.cores = self.count()
        threading.Thread(target=self._watch, daemon=True).start()

    # What each of them does its own way

    def count(self) -> int:
        """Return how many cores there are now."""
        raise NotImplementedError

    def everywhere(self, work: Callable[..., Any], *args: Any) -> dict[str, Any]:
        """Call `work` on every worker; return by worker what it returned, or raised."""
        raise NotImplementedError

    def send(self, work: Callable[..., Any], *args: Any) -> tuple[Future[Any], Callable[[], Any]]:
        """Have `work` called by some worker; return its future, and what takes it back."""
        raise NotImplementedError

    def why(self, error: BaseException) -> BaseException:
        """Return what an error of this cluster means."""
        raise NotImplementedError

    # The same for both

    def check(self, place: Path) -> None:
        """Make sure that every worker would write the bytes this process would, into a folder that both see.

        Parameters
        ----------
        place : Path
            An existing folder.

        Raises
        ------
        BadInput
            Naming one worker that differs, and how.
        """
        mark = place / f"seen-{os.urandom(8).hex()}"
        mark.write_text(socket.gethostname(), "utf-8")
        try:
            found = self.everywhere(examine, self.told, mark)
        except OSError as error:
            raise BadInput(f"engine: {self.name} does not answer: {error}") from None
        finally:
            mark.unlink()
        if not found:
            raise BadInput(f"engine: {self.name} has no workers; start some")
        wrong = {name: line for name, told in found.items() if (line := _wrong(told))}
        if wrong:
            worker = min(wrong)
            more = f" (and {len(wrong) - 1} more of {len(found)} workers)" if len(wrong) > 1 else ""
            raise BadInput(f"engine: worker {worker} of {self.name}{more}: {wrong[worker]}")

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have a worker call `fn`, after it has made sure that it is as this process."""
        future: Future[Any] = Future()
        if self._lost:
            future.set_exception(Lost(self._lost))
            return future
        inner, cancel = self.send(answer, self.told, functools.partial(fn, *args, **kwargs))
        self._waiting[future] = cancel
        future.add_done_callback(self._forget)
        inner.add_done_callback(lambda done: self._settle(future, done))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take back what is not done and end the connection; the cluster stays."""
        self._end.set()
        for future in list(self._waiting):
            future.cancel()

    def _forget(self, future: Future[Any]) -> None:
        cancel = self._waiting.pop(future, None)
        if future.cancelled() and cancel is not None:
            cancel()

    def _settle(self, future: Future[Any], done: Future[Any]) -> None:
        if done.cancelled():
            _finish(future, None, Lost(f"{self.name} is gone"))
        elif (error := done.exception()) is not None:
            _finish(future, None, self.why(error))
        else:
            _finish(future, *done.result())

    def _watch(self) -> None:
        """Count the cores now and then, and give up when there have been none for long."""
        since = time.monotonic()
        while not self._end.wait(LOOK):
            # The futures tell by themselves when the connection breaks.
            with contextlib.suppress(Exception):
                if now := self.count():
                    self.cores, since = now, time.monotonic()
            if time.monotonic() - since > ALONE:
                self._lost = f"{self.name} has had no worker for {ALONE:.0f} s"
                for future in list(self._waiting):
                    _finish(future, None, Lost(self._lost))


def _finish(future: Future[Any], value: Any, error: BaseException | None) -> None:
    # Whoever comes first has the say: the cluster, the watch or an interrupt.
    with contextlib.suppress(InvalidStateError):
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)


def _wrong(told: Any) -> str:
    """Return what is wrong with a worker in one line, by what it told, and take away what it left."""
    if isinstance(told, BaseException):
        return f"{type(told).__name__}: {told}; install this project there as it is here"
    complaint, left = told
    if left is not None:
        try:
            (left / "said").read_text("utf-8")
        except OSError as error:
            return f"what it writes to {left.parent} cannot be read here: {error.strerror}"
        remote.remove_folder(left)
    return str(complaint)


class Dask(Cluster):
    """The workers of a scheduler of dask.

    Parameters
    ----------
    address : str
        ``tcp://host:8786``.
    """

    def __init__(self, address: str) -> None:
        import distributed

        # What it has to say about workers that are gone is ours to say, in one line.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        try:
            self._client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            raise BadInput(f"engine: no scheduler of dask answers at {address}: {error}") from None
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            self._client.close()
            raise BadInput(f"engine: the scheduler at {address} has no workers; start some") from None
        self._client.register_plugin(_stopper())
        self._executor = self._client.get_executor(pure=False)
        super().__init__(f"dask at {address}")

    def count(self) -> int:
        """See `Cluster`."""
        return sum(self._client.nthreads().values())

    def everywhere(self, work: Callable[..., Any], *args: Any) -> dict[str, Any]:
        """See `Cluster`."""
        return dict(self._client.run(work, *args, on_error="return"))

    def send(self, work: Callable[..., Any], *args: Any) -> tuple[Future[Any], Callable[[], Any]]:
        """See `Cluster`."""
        future = self._executor.submit(_interruptible, work, *args)
        return future, future.cancel

    def why(self, error: BaseException) -> BaseException:
        """See `Cluster`."""
        import distributed

        return BrokenExecutor(str(error)) if isinstance(error, distributed.KilledWorker) else error

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """See `Cluster`."""
        super().shutdown()
        self._client.close(timeout=LOOK)


class Ray(Cluster):
    """The nodes of a cluster of ray, of which this machine is one.

    Parameters
    ----------
    address : str
        ``host:6379``. Empty: the cluster this machine is part of.
    """

    def __init__(self, address: str) -> None:
        import ray

        self._ray = ray
        if not ray.is_initialized():
            try:
                ray.init(address=address or "auto", logging_level=logging.ERROR, log_to_driver=False)
            except (ConnectionError, ValueError, RuntimeError) as error:
                told = str(error).partition("\n")[0]
                raise BadInput(f"engine: no cluster of ray answers at {address or 'this machine'}: {told}") from None
        self._remote = ray.remote(num_cpus=1, max_retries=RETRIES)(_call)
        super().__init__(f"ray at {address or ray.get_runtime_context().gcs_address}")

    def count(self) -> int:
        """See `Cluster`."""
        return int(self._ray.cluster_resources().get("CPU", 0))

    def everywhere(self, work: Callable[..., Any], *args: Any) -> dict[str, Any]:
        """See `Cluster`; a node is looked at once, whatever works there."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        asked = {}
        for node in self._ray.nodes():
            if node["Alive"] and node["Resources"].get("CPU"):
                there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                call = self._remote.options(num_cpus=0, scheduling_strategy=there)
                asked[f"{node['NodeManagerAddress']} ({node['NodeID'][:8]})"] = call.remote(work, *args)
        return {name: self._answer_of(ref) for name, ref in asked.items()}

    def _answer_of(self, ref: Any) -> Any:
        try:
            return self._ray.get(ref, timeout=4 * PATIENCE)
        except Exception as error:
            return error.cause if isinstance(error, self._ray.exceptions.RayTaskError) else error

    def send(self, work: Callable[..., Any], *args: Any) -> tuple[Future[Any], Callable[[], Any]]:
        """See `Cluster`."""
        ref = self._remote.remote(work, *args)
        return ref.future(), functools.partial(self._ray.cancel, ref)

    def why(self, error: BaseException) -> BaseException:
        """See `Cluster`."""
        known = self._ray.exceptions
        died = (known.WorkerCrashedError, known.NodeDiedError, known.OutOfMemoryError, known.ObjectLostError)
        return BrokenExecutor(str(error)) if isinstance(error, died) else error


# What many tasks are sent with


@dataclass(frozen=True)
class Parcel:
    """A large argument, packed, in a folder that every worker sees: a tokenizer would go with each task otherwise."""

    path: Path

    def unpacked(self) -> Any:
        """Return a new one, as if it had come with the task."""
        return pickle.loads(_packed(self.path))


@functools.lru_cache(maxsize=8)
def _packed(path: Path) -> bytes:
    return path.read_bytes()


def lay_down(value: Any, folder: Path, known: dict[tuple[Path, int], tuple[Any, Any]]) -> Any:
    """Return an argument as it is sent: itself, or a `Parcel` if it is large.

    Parameters
    ----------
    value : any
    folder : Path
    known : dict
        What was decided so far, by folder and identity; it keeps the values alive.
    """
    at = folder, id(value)
    if value is not None and not isinstance(value, int | float | str | Path) and at not in known:
        import cloudpickle

        packed = cloudpickle.dumps(value)
        known[at] = value, _put(packed, folder) if len(packed) >= LARGE else value
    return known[at][1] if at in known else value


def _put(packed: bytes, folder: Path) -> Parcel:
    path = folder / f"parcel-{hashlib.sha256(packed).hexdigest()[:20]}"
    with write_whole(path) as file:
        file.write(packed)
    return Parcel(path)


# In a worker


@functools.cache
def versions() -> dict[str, str]:
    """Return what decides about bytes in this process, by name.

    Examples
    --------
    >>> versions()["numpy"] == importlib.metadata.version("numpy")
    True
    """
    code = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        code.update(f"{path.relative_to(root).as_posix()}\n".encode() + path.read_bytes())
    found = {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "processor": f"{platform.machine()} {sys.byteorder}-endian",
        "code of prep_lib": code.hexdigest()[:8],
    }
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def differing(told: Mapping[str, str]) -> str:
    """Say in what this process differs from one that told its `versions`; empty if in nothing.

    Examples
    --------
    >>> differing({**versions(), "nothing": "2.0"})
    'it has nothing: none (here 2.0); install the same on every machine and start its workers again'
    """
    mine = versions()
    names = sorted(name for name in {*mine, *told} if mine.get(name) != told.get(name))
    shown = [f"{name}: {mine.get(name, 'none')} (here {told.get(name, 'none')})" for name in names]
    return f"it has {', '.join(shown)}; install the same on every machine and start its workers again" if shown else ""


def examine(told: Mapping[str, str], mark: Path) -> tuple[str, Path | None]:
    """Say what is wrong with this worker, and leave a folder beside a file.

    Parameters
    ----------
    told : mapping
        `versions` where the run was started.
    mark : Path
        A file that stands where both should look.

    Returns
    -------
    complaint : str
        Empty if nothing is wrong.
    left : Path or None
        The folder it made; whoever asked should read what is in it, and remove it.
    """
    if wrong := differing(told):
        return wrong, None
    if not mark.is_file():
        where = mark.parent
        return f"it does not see {where}; use a folder that all machines have under this path, or an object store", None
    left = mark.with_name(f"{mark.name}-{os.urandom(8).hex()}")
    try:
        left.mkdir(mode=0o700)
        (left / "said").write_text(socket.gethostname(), "utf-8")
    except (OSError, PrepError) as error:
        return f"it cannot write to {mark.parent}: {error}", None
    return "", left


def answer(told: Mapping[str, str], call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Call what was sent, unless this worker differs; return what it returned, or raised.

    A worker that came later was not there when the others were looked over.
    """
    os.environ.update(ONE_THREAD)
    if wrong := differing(told):
        return None, BadInput(f"engine: worker {socket.gethostname()}: {wrong}")
    try:
        return call(), None
    except BaseException as error:
        return None, error


def _call(work: Callable[..., Any], *args: Any) -> Any:
    return work(*args)


#: The thread of each task of dask that runs in this process.
_running: dict[str, int] = {}
_guard = threading.Lock()


def _interruptible(work: Callable[..., Any], *args: Any) -> Any:
    """Call `work` so that `stop` reaches it: dask itself only forgets a task that runs."""
    import distributed

    key, thread = str(distributed.get_worker().get_current_task()), threading.get_ident()
    _running[key] = thread
    try:
        try:
            return work(*args)
        finally:
            with _guard:
                del _running[key]
    except KeyboardInterrupt:
        return None
    finally:
        _raise_in(thread, None)


def stop(key: str) -> None:
    """Interrupt a task where it is: at its next step of Python."""
    with _guard:
        if key in _running:
            _raise_in(_running[key], KeyboardInterrupt)


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error and ctypes.py_object(error))


def _stopper() -> Any:
    """Return what tells `stop` that a task was cancelled, or that whoever sent it is gone."""
    import distributed

    class Stopper(distributed.WorkerPlugin):
        name = "prep_lib"

        def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
            # By its name: a worker without this project must be able to load the plugin; what it lacks is told later.
            ours = sys.modules.get("prep_lib.cluster")
            if ours is not None and start == "executing" and finish == "released":
                ours.stop(key)

    return Stopper()
