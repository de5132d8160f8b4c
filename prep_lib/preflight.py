"""Everything that can be known before the first task: wrong names and values, missing inputs, too little disk.

recipe ──▶ names and values         refused with the nearest name
       ──▶ first and last row       read, renamed, and made into ids as the notebook would
       ──▶ notebooks left out       what the others read of them must stand in the run
       ──▶ this machine             a writable folder, room on the disk; a cluster whose workers are as this one
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import shlex
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq

from prep_lib import cluster, engine, remote
from prep_lib.chat.process import Processor, ProcessorFactory
from prep_lib.chat.strategy import StrategyFactory
from prep_lib.chat.template import ChatTemplate
from prep_lib.errors import DAMAGE, BadParameter, BadRecord, PrepError
from prep_lib.files import Span, compression, is_hidden, is_remote, place, read_lines
from prep_lib.machine import memory_limit, parse_bytes
from prep_lib.recipes import Recipe, Step, needs, pairs
from prep_lib.results import states
from prep_lib.source import jsonl, parquet
from prep_lib.source.export import parse_columns, rename
from prep_lib.tokens.tokenizer import AutoTokenizer
from prep_lib.workspace import YAML, Run, split, turned_down

#: A compressed file up to this size is read to its end, bytes: about a second. Of a longer one only the first row is.
READ_WHOLE = 64 * 2**20

#: What a run writes for one byte of input: the exported copy, ids and masks (5 bytes a token of three or four), and
#: the temporary ids beside them.
WRITTEN_PER_BYTE = 3

#: Text is about four times as long as its gz or zst.
UNPACKED = 4


def preflight(recipe: Recipe, run: Run) -> list[str]:
    """Return everything that would stop this recipe later, one line each.

    Parameters
    ----------
    recipe : Recipe
    run : Run
        Where it will write. Nothing is written but an empty file, which is removed again.

    Notes
    -----
    A parameter of one name means the same in every notebook: ``files`` are JSONL or Parquet files and patterns,
    ``dataset`` a file, a folder or a hub name, ``tokenizer`` a file, a folder or a hub name, ``process_func`` a
    function in a file, ``plugins`` a file, ``processor``, ``strategy`` and ``strategy_params`` how rows become ids,
    ``columns`` the renaming before, ``memory_budget`` a size.
    """
    found = [*recipe.problems, *_never_ran(recipe, run)]
    for step in recipe.steps:
        if step.notebook not in recipe.left:
            found += [f"{step.notebook}: {line}" for line in _check_step(step, run)]
    return list(dict.fromkeys([*found, *_check_machine(recipe, run)]))


def _never_ran(recipe: Recipe, run: Run) -> Iterator[str]:
    """Yield what notebooks read that were left out and never came to their end in this run."""
    state = states(run) if recipe.left else {}
    for step in recipe.steps:
        for wanted in needs(step) if step.notebook not in recipe.left else ():
            source = _source_of(wanted, recipe)
            if source in recipe.left and not _stands(run, source, state.get(source, ("", ""))[0]):
                name = f" --name {run.name}" if run.name != recipe.name else ""
                yield (
                    f"{step.notebook} reads what {source} writes, which is left out and never came to its end in run "
                    f"{run.name!r}; prep run {shlex.quote(recipe.source or recipe.name)} --from {source}{name}"
                )


def _source_of(wanted: str, recipe: Recipe) -> str:
    """Return the notebook that stands for `wanted` in a recipe without it: the one before it on the same way."""
    before = [step.notebook for step in recipe.steps if step.notebook <= wanted and step.notebook[0] == wanted[0]]
    return max(before, default=wanted)


def _stands(run: Run, notebook: str, state: str) -> bool:
    """Say whether there is output of a notebook to read, from `prep run` or from a session in JupyterLab."""
    with contextlib.suppress(PrepError):
        return bool(run.find(notebook)) and state not in ("running", "failed", "interrupted")
    return False


#: Files of a model folder that say how text becomes ids.
_MODEL = (".json", ".jinja")


def inputs(step: Step, run: Run) -> list[Path]:
    """Return every file the parameters of a step name, behind addresses too, see `remote.place`.

    What is missing is left out, `preflight` names it. Where nobody can tell what will be read, a path stands at which
    nothing is: a store that cannot be looked at, a run that is yet to be found.
    """
    named = [look(run, str(step.values[name])) for name, look in READS.items() if step.values.get(name)]
    return sorted({file for paths in named for path in paths for file in _inside(path)}, key=str)


def code_files(step: Step, run: Run) -> list[Path]:
    """Return the user's own files of code that a step's parameters name."""
    named = [(name, look) for name, look in READS.items() if look is _of_code and step.values.get(name)]
    return [path for name, look in named for path in look(run, str(step.values[name]))]


def _of_rules(run: Run, text: str) -> list[Path]:
    names = (word.rpartition("=")[2] for word in _words(text))
    return [path for name in names if name.endswith(YAML) for path in _found(run, name)]


def _of_code(run: Run, text: str) -> list[Path]:
    file, colon, name = text.rpartition(":")
    return _found(run, file if name.isidentifier() else f"{file}{colon}{name}")


def row_files(step: Step, run: Run) -> list[Path]:
    """Return the files of rows on this machine that a step reads, as far as its parameters name them."""
    named = [_found(run, str(step.values[name])) for name in ("files", "dataset") if step.values.get(name)]
    found = [file for paths in named for path in paths if not is_remote(path) for file in _inside(path)]
    return [file for file in found if not turned_down(file)]


def count_rows(path: Path) -> int | None:
    """Count the rows of a file; None where that would take reading all of a long compressed or unknown one.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "a.jsonl")
    >>> _ = path.write_text("{}\\n{}\\n")
    >>> count_rows(path)
    2
    """
    kind = _kind(path)
    if kind == "parquet":
        return int(pq.read_metadata(path).num_rows)
    if kind not in ("jsonl", "ndjson") or (compression(path) and path.stat().st_size > READ_WHOLE):
        return None
    return sum(1 for _ in read_lines(Span(str(path))))


def _kind(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".zst").rsplit(".", 1)[-1].lower()


def _found(run: Run, text: str) -> list[Path]:
    """Return the files and folders that a text names: one, or several apart by blanks."""
    whole = [text] if text and run.path(text).exists() else _words(text)
    return [path for word in whole for path in _meant(run, word)]


def _meant(run: Run, word: str) -> list[Path]:
    if is_remote(word):
        return [place(word)]
    if run.path(word).exists():
        return [run.path(word)]
    with contextlib.suppress(PrepError):
        return run.files(shlex.quote(word))
    return []


def _of_model(run: Run, text: str) -> list[Path]:
    """Return what is read of a model folder: not its weights, which may be larger than all the data."""
    return [file for path in _found(run, text) for file in _inside(path) if file == path or file.suffix in _MODEL]


def _of_run(run: Run, text: str) -> list[Path]:
    """Return what tells a folder of shards, or another run: tables hold the digests of what lies beside them.

    Which run is the one ``before`` changes with every run: that word itself stands for it, and is never the same.
    """
    folder = run.path(text)
    if (folder / "manifest.json").is_file():
        return [folder / "manifest.json"]
    if not ((folder / "run.jsonl").is_file() or (folder / "data").is_dir()):
        folder = run.root / "runs" / text
    if text == "before" and not (folder / "data").is_dir():
        return [run.folder / text]
    # Not of the run itself: what has been done there so far is told by the notebooks that came before.
    asked = [] if folder == run.folder else [*folder.glob("executed/*.json"), *folder.glob("recipe.yaml")]
    return [*asked, *(file for file in _inside(folder / "data") if file.suffix == ".json")]


def _words(text: str) -> list[str]:
    # A text that cannot be split is told by the first check that tries.
    with contextlib.suppress(PrepError):
        return split(text)
    return [text]


def _inside(path: Path) -> list[Path]:
    """Return the files of a folder at any depth; what is hidden there is no data of anybody's."""
    if is_remote(path):
        return _inside_store(path)
    if not path.is_dir():
        return [path]
    found = (file for file in path.rglob("*") if file.is_file())
    return sorted(file for file in found if not is_hidden(file.relative_to(path).as_posix()))


def _inside_store(path: Path) -> list[Path]:
    with contextlib.suppress(Exception):  # whatever a store that is not reached says: the notebook will tell it
        if "*" in path.name:
            return [*path.parent.glob(path.name)]
        if path.is_dir():
            names = cast(remote.Remote, path).listing()
            return [path / name for name in names if not is_hidden(name)]
    return [path]


#: How what a parameter names is found, of every parameter of our notebooks that names something to read.
READS: dict[str, Callable[[Run, str], list[Path]]] = {
    "inputs": _found, "files": _found, "dataset": _found, "input_dir": _found, "benchmarks": _found,
    "block_hosts": _found, "block_words": _found, "labelled": _found, "language_lines": _found,
    "tokenizer": _of_model, "template": _of_model, "rules": _of_rules, "process_func": _of_code, "plugins": _of_code,
    "shards": _of_run, "other": _of_run,
}  # fmt: skip


def _check_step(step: Step, run: Run) -> Iterator[str]:
    """Yield what is wrong with one notebook's inputs."""
    values = step.values
    if text := str(values.get("plugins", "")):
        yield from _caught(run.plugins, text)
    yield from _check_named(step, run)
    judge, problems = _judge(values, run)
    yield from problems
    for path in row_files(step, run):
        yield from _check_rows(path, judge)


def _check_named(step: Step, run: Run) -> Iterator[str]:
    values = step.values
    for pattern in _words(str(values.get("files", ""))):
        yield from _caught(run.files, shlex.quote(pattern))
    yield from _caught(run.inputs, str(values.get("inputs", "")))
    # A bare name may live on the hub; one that looks like a place on this disk must be there.
    for name in ("dataset", "tokenizer"):
        text = str(values.get(name, ""))
        if _is_place(text) and not _found(run, text):
            yield f"{name}: nothing at {text!r} in {run.root}"
    text, who = str(values.get("memory_budget", "")), str(values.get("engine", ""))
    if text and who.partition(":")[0] not in cluster.KINDS:
        yield from _caught(_check_budget, text)


def _is_place(text: str) -> bool:
    endings = (".json", ".jsonl", ".parquet", ".gz", ".zst", ".csv")
    return text.startswith((".", "/", "~")) or text.endswith(endings) or "*" in text or text.count("/") > 1


def _check_budget(text: str) -> None:
    wanted, limit = parse_bytes(text), memory_limit()
    if wanted > limit:
        raise BadParameter(f"memory_budget {text} is more than this machine gives ({limit / 2**30:.1f} GiB)")


def _caught(call: Callable[[str], Any], text: str) -> list[str]:
    try:
        call(text)
    except PrepError as error:
        return [str(error)]
    return []


_Judge = Callable[[dict[str, Any]], str]


def _judge(values: Mapping[str, Any], run: Run) -> tuple[_Judge, list[str]]:
    """Build what a notebook makes of a row, so that wrong names and markers show.

    Returns
    -------
    callable
        Says what is wrong with one row; empty if nothing is.
    list of str
        What could not be built.
    """
    problems: list[str] = []

    def built(make: Callable[[], Any]) -> Any:
        try:
            return make()
        except PrepError as error:
            problems.append(str(error))
            return None

    renames = built(lambda: parse_columns(str(values.get("columns", "")))) or {}
    named = str(values.get("process_func", ""))
    function = built(lambda: run.function(named)) if named else None
    processor = built(lambda: _processor(values, run)) if "tokenizer" in values else None

    def judge(record: dict[str, Any]) -> str:
        try:
            made = rename(record, renames)
            made = function(made) if function else made
            rows = processor.rows(made if isinstance(made, list) else [made]) if processor else []
        except Exception as error:
            return f"{named or 'row'}: {type(error).__name__}: {error}" if function else str(error)
        return next((str(row) for row in rows if isinstance(row, BadRecord)), "")

    return judge, problems


def _processor(values: Mapping[str, Any], run: Run) -> Processor | None:
    """Build the processor or strategy the parameters name; a strategy alone is only tried."""
    strategy, template = str(values.get("strategy", "")), run.place(str(values.get("template", "")))
    if not strategy and not template and "processor" not in values:
        return None
    tokenizer = _tokenizer(str(values["tokenizer"]), run)
    params: dict[str, Any] = dict(pairs(str(values.get("strategy_params", ""))))
    params |= {name: values[name] for name in ("train_after_stop", "allow_multi_token") if name in values}
    if "processor" not in values:
        ChatTemplate.load(template, tokenizer) if template else StrategyFactory.create(strategy, tokenizer, **params)
        return None
    params |= {name: values[name] for name in ("answers", "reasoning", "tool_calls", "weights") if name in values}
    return ProcessorFactory.create_named(str(values["processor"]), tokenizer, strategy, template=template, **params)


def _tokenizer(text: str, run: Run) -> AutoTokenizer:
    # The built-in tokenizer is trained in the run; its control tokens, all that is looked at here, are always these.
    if not text:
        return AutoTokenizer().train(["preflight"], vocab_size=300)
    return AutoTokenizer.load(run.place(text))


def _check_rows(path: Path, judge: _Judge) -> Iterator[str]:
    """Yield what is wrong with a file's first and last row."""
    try:
        rows = list(_ends(path))
    except (PrepError, OSError, EOFError) as error:
        yield f"{path.name}: cannot be read: {error}"
        return
    told = [(where, record, str(record) if isinstance(record, BadRecord) else judge(record)) for where, record in rows]
    # One bad line costs its record alone and stops no run; both ends bad say that the file is of another kind. Where a
    # stream is cut nobody knows how much is missing.
    stops = all(problem for _, _, problem in told)
    for where, record, problem in told:
        if problem and (stops or getattr(record, "reason", "") in DAMAGE):
            yield f"{path.name}, {where}: {problem}"


def _ends(path: Path) -> Iterator[tuple[str, dict[str, Any] | BadRecord]]:
    """Yield the first and the last row of a JSONL or Parquet file; other files are left to the notebook."""
    kind = _kind(path)
    if kind == "parquet":
        parquet.columns(path)  # says what is wrong with the file
        groups = pq.read_metadata(path).num_row_groups
        for where, group in {"first": 0, "last": groups - 1}.items() if groups else ():
            rows = parquet.read_records(Span(str(path), group, group + 1, 0))
            yield f"{where} row", (next(rows) if where == "first" else deque(rows, maxlen=1)[0])[1]
    elif kind in ("jsonl", "ndjson"):
        for number, record in itertools.islice(jsonl.read_records(Span(str(path))), 1):
            yield f"line {number}", record
        yield from _last_line(path)


def _last_line(path: Path) -> Iterator[tuple[str, dict[str, Any] | BadRecord]]:
    start = 0 if compression(path) else _start_of_last_line(path)
    # A file of one line has shown it already, and of a long compressed one the end is too far away.
    if start or (compression(path) and path.stat().st_size <= READ_WHOLE):
        lines = deque(read_lines(Span(str(path), start, None, 2 if start else 1)), maxlen=1)
        for _, last in lines:
            yield "last line", last if isinstance(last, BadRecord) else jsonl.load_or_reason(last)


def _start_of_last_line(path: Path) -> int:
    """Return where the last line that is not blank begins, bytes."""
    end = path.stat().st_size
    with open(path, "rb") as file:
        tail, at = b"", end
        while at > 0 and b"\n" not in tail.rstrip():
            at = max(0, at - 2**16)
            file.seek(at)
            tail = file.read(end - at)
    return at + tail.rstrip().rfind(b"\n") + 1


def _check_machine(recipe: Recipe, run: Run) -> Iterator[str]:
    """Yield what this machine lacks: a writable folder, disk."""
    # The run's own folder may not be there yet, and stays away if nothing is run.
    there = next(folder for folder in (run.folder, *run.folder.parents) if folder.exists())
    try:
        probe = there / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        yield f"run {run.name}: cannot write in {there}: {error.strerror}"
        return
    for name in sorted({str(step.values["engine"]) for step in recipe.steps if "engine" in step.known}):
        yield from _caught(functools.partial(_check_engine, folder=there), name)
    need = WRITTEN_PER_BYTE * sum(_bytes_of(step, run) for step in recipe.steps if step.notebook not in recipe.left)
    free = shutil.disk_usage(there).free
    if need > free:
        yield f"disk: about {need / 2**20:,.0f} MiB will be written, {free / 2**20:,.0f} MiB are free in {run.root}"


def _check_engine(name: str, folder: Path) -> None:
    with engine.Crew(name) as crew:
        crew.meet(folder)


def _bytes_of(step: Step, run: Run) -> int:
    return sum(path.stat().st_size * (UNPACKED if compression(path) else 1) for path in row_files(step, run))
