"""Reads and checks a recipe (YAML).

name: posttrain
defaults:                        given to every notebook that knows the name
  seed: 7
notebooks:                       in this order; each finds what the ones before wrote
  - 20_export:
      dataset: data/train.jsonl
  - 22_tensorize:
      pack_size: 4096

007, 1.10, no, 1e3  ──YAML──▶  "007", "1.10", "no", "1e3"  ──the notebook's own cell──▶  str, int, float or bool
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import io
import itertools
import json
import math
import re
import shlex
import shutil
import tokenize
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from prep_lib import engine
from prep_lib.chat.process import Processor, ProcessorFactory
from prep_lib.chat.strategy import StrategyFactory
from prep_lib.chat.template import ChatTemplate
from prep_lib.errors import DAMAGE, BadInput, BadParameter, BadRecord, PrepError, unknown
from prep_lib.files import Span, compression, read_lines
from prep_lib.source import jsonl, parquet
from prep_lib.source.export import parse_columns, rename
from prep_lib.tokens.tokenizer import AutoTokenizer
from prep_lib.workspace import CHECKOUT, YAML, Run, find_notebook, split

# ── the parameters cell ──────────────────────────────────────────────────────────────────────────────────────────────

_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True)
class Parameter:
    """One line of a notebook's parameters cell: ``pack_size = 2048  # tokens a row; 0 = no packing``.

    Parameters
    ----------
    name : str
    default : str, int, float or bool
        Its type is the type of every value.
    help : str
        The comment behind it: unit, and what 0 or "" means.
    """

    name: str
    default: str | int | float | bool
    help: str = ""

    def typed(self, text: str) -> str | int | float | bool:
        """Read `text` as the type of the default; text parameters keep it as written.

        Raises
        ------
        BadParameter
            If it is no such value.

        Examples
        --------
        >>> Parameter("id", "").typed("007"), Parameter("seed", 42).typed("007"), Parameter("flag", True).typed("no")
        ('007', 7, False)
        """
        if isinstance(self.default, str):
            return text
        reader: Callable[[str], int | float | bool] = _READERS[type(self.default)]
        try:
            return reader(text.strip())
        except ValueError:
            about = f"; {self.help}" if self.help else ""
            kind = _KINDS[type(self.default)]
            raise BadParameter(f"{self.name}: {text!r} is not {kind} (default {self.default}{about})") from None


def _bool(text: str) -> bool:
    if text.lower() not in _YES + _NO:
        raise ValueError
    return text.lower() in _YES


def _int(text: str) -> int:
    if re.fullmatch(r"[+-]?\d[\d_]*", text):
        return int(text)
    value = _float(text)
    if "e" not in text.lower() or not value.is_integer():
        raise ValueError
    return int(value)


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


_READERS: dict[type, Callable[[str], int | float | bool]] = {bool: _bool, int: _int, float: _float}
_KINDS: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def parameters(notebook: Path) -> dict[str, Parameter]:
    """Read what a notebook can be asked for, from its cell tagged ``parameters``.

    Raises
    ------
    BadInput
        If the file is no notebook.
    BadParameter
        If it has not exactly one such cell, or a line of it is not ``name = plain value``.
    """
    try:
        cells = json.loads(notebook.read_text("utf-8"))["cells"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{notebook.name}: cannot be read as a notebook: {error}") from None
    tagged = [cell for cell in cells if "parameters" in cell.get("metadata", {}).get("tags", [])]
    if len(tagged) != 1:
        raise BadParameter(f"{notebook.name}: needs one cell tagged 'parameters', has {len(tagged)}")
    return {found.name: found for found in read_cell(notebook.name, "".join(tagged[0]["source"]))}


def read_cell(where: str, source: str) -> Iterator[Parameter]:
    """Yield the parameters of a cell's source in order; `where` names the notebook in errors."""
    try:
        body = ast.parse(source).body
    except SyntaxError as error:
        raise BadParameter(f"{where}: parameters cell, line {error.lineno}: {error.msg}") from None
    comments = dict(_comments(source))
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = _literal(getattr(node, "value", None))
        if len(targets) != 1 or not isinstance(targets[0], ast.Name) or type(value) not in _KINDS:
            raise BadParameter(f"{where}: parameters cell, line {node.lineno}: not `name = plain value`")
        yield Parameter(targets[0].id, value, comments.get(node.end_lineno or node.lineno, ""))


def _literal(node: ast.expr | None) -> Any:
    try:
        return ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def pairs(text: str) -> dict[str, str]:
    r"""Read a map written as one string.

    Parameters
    ----------
    text : str
        ``name=value``, apart by blanks; quote a piece that holds one. A value spells a line feed as ``\\n``.

    Raises
    ------
    BadParameter
        If a piece has no ``=``, or a name comes twice.

    Examples
    --------
    >>> pairs("web=0.7 code=0.3")
    {'web': '0.7', 'code': '0.3'}
    >>> pairs(r"'user_start=<s>the user\n'")
    {'user_start': '<s>the user\n'}
    """
    out: dict[str, str] = {}
    for piece in split(text):
        left, found, right = piece.partition("=")
        if not (left and found) or left in out:
            raise BadParameter(f"recipes: {piece!r} in {text!r} is not one name=value")
        out[left] = right.replace("\\n", "\n")
    return out


# ── the recipe ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Step:
    """One notebook of a recipe.

    Parameters
    ----------
    notebook : str
        ``22_tensorize``.
    path : Path
        The file that will be executed.
    known : dict of Parameter
        What it can be asked for.
    given : dict
        What recipe and command line ask for, typed.
    """

    notebook: str
    path: Path
    known: Mapping[str, Parameter]
    given: Mapping[str, Any]

    @property
    def values(self) -> dict[str, Any]:
        """Every parameter as the notebook will see it."""
        return {name: self.given.get(name, parameter.default) for name, parameter in self.known.items()}

    def give(self, **values: Any) -> Step:
        """Return this step with values for those names it knows."""
        mine = {name: value for name, value in values.items() if name in self.known}
        return Step(self.notebook, self.path, self.known, {**self.given, **mine})


@dataclass(frozen=True)
class Recipe:
    """Notebooks in order, with their parameters.

    Parameters
    ----------
    name : str
    steps : tuple of Step
    problems : tuple of str
        What is wrong with the parameters, one line each; nothing may run unless it is empty.
    """

    name: str
    steps: tuple[Step, ...]
    problems: tuple[str, ...] = ()

    def give(self, **values: Any) -> Recipe:
        """Return this recipe with values for every notebook that knows the names."""
        return Recipe(self.name, tuple(step.give(**values) for step in self.steps), self.problems)

    def to_yaml(self) -> str:
        """Return the recipe as it will be run, every value written out."""
        steps = [{step.notebook: step.values} for step in self.steps]
        return yaml.safe_dump({"name": self.name, "notebooks": steps}, sort_keys=False, allow_unicode=True)


class _Loader(yaml.BaseLoader):
    """Every scalar stays the text that was written; a key that comes twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.MarkedYAMLError(problem=f"{key!r} stands here twice", problem_mark=node.start_mark)
        return super().construct_mapping(node, deep)


def read(source: str | Path, root: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe, put the command line's values over it and type them all by the notebooks' own cells.

    Parameters
    ----------
    source : str or path
        A file, or the name of one in ``notebooks/recipes`` of the workspace or of the checkout.
    root : Path
        The workspace.
    overrides : sequence of str
        ``22_tensorize.pack_size=4096`` each.

    Raises
    ------
    BadParameter
        If there is no such recipe, or it has not the shape of the drawing above. What is wrong with single
        parameters is collected in `Recipe.problems`.
    """
    path = find_recipe(source, root)
    try:
        whole = yaml.load(path.read_text("utf-8"), Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadParameter(f"{path.name}: {_yaml_problem(error)}") from None
    name, defaults, wanted = _shape(path, whole)
    problems: list[str] = []
    over = _overrides(overrides, [notebook for notebook, _ in wanted], problems)
    steps = [_step(notebook, root, [defaults, given, over.get(notebook, {})], problems) for notebook, given in wanted]
    found = [step for step in steps if step is not None]
    known = {name for step in found for name in step.known}
    problems += [_unknown("defaults", key, known) for key in defaults if key not in known]
    return Recipe(name, tuple(found), tuple(problems))


def find_recipe(source: str | Path, root: Path) -> Path:
    """Return the file a recipe is read from."""
    here = [Path(source), root / source]
    folders = dict.fromkeys((root / "notebooks" / "recipes", CHECKOUT / "notebooks" / "recipes"))
    for path in [*here, *(folder / f"{source}.yaml" for folder in folders)]:
        if path.is_file():
            return path
    known = {path.stem for folder in folders for path in folder.glob("*.yaml")}
    raise unknown("recipes", "recipe", str(source), known)


def _yaml_problem(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    line = f"line {mark.line + 1}: " if mark else ""
    return f"{line}{getattr(error, 'problem', None) or error}"


def _shape(path: Path, whole: Any) -> tuple[str, dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    if not isinstance(whole, dict) or not isinstance(whole.get("notebooks"), list):
        raise BadParameter(f"{path.name}: a recipe has a list `notebooks:` of notebook names with their parameters")
    for key in whole:
        if key not in ("name", "defaults", "notebooks"):
            raise BadParameter(_unknown(path.name, key, ("name", "defaults", "notebooks")))
    wanted = [_named(path, item) for item in whole["notebooks"]]
    names = [name for name, _ in wanted]
    if len(set(names)) < len(names):
        raise BadParameter(f"{path.name}: a notebook stands twice in {', '.join(names)}; its outputs would overwrite")
    return str(whole.get("name") or path.stem), _map(path, "defaults", whole.get("defaults")), wanted


def _named(path: Path, item: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(item, str):
        return item, {}
    if not isinstance(item, dict) or len(item) != 1:
        raise BadParameter(
            f"{path.name}: each item of `notebooks:` is a name, or one name with its parameters; got {item}"
        )
    ((name, given),) = item.items()
    return name, _map(path, name, given)


def _map(path: Path, where: str, given: Any) -> dict[str, Any]:
    if given in (None, ""):
        return {}
    if not isinstance(given, dict):
        raise BadParameter(f"{path.name}: {where}: write one `name: value` a line; got {given!r}")
    return given


def _overrides(texts: Sequence[str], notebooks: list[str], problems: list[str]) -> dict[str, dict[str, str]]:
    out: dict[str, dict[str, str]] = {}
    for text in texts:
        target, found, value = text.partition("=")
        notebook, dot, name = target.partition(".")
        if not (found and dot and name):
            problems.append(f"-p {text}: write notebook.name=value")
        elif notebook not in notebooks:
            problems.append(_unknown("-p", notebook, notebooks, "notebook of this recipe"))
        else:
            out.setdefault(notebook, {})[name] = value
    return out


def _step(notebook: str, root: Path, layers: list[dict[str, Any]], problems: list[str]) -> Step | None:
    """Lay recipe defaults, recipe and command line over each other, and type them."""
    try:
        path = find_notebook(notebook, root)
        known = parameters(path)
    except PrepError as error:
        problems.append(str(error))
        return None
    asked = {name: value for name, value in layers[0].items() if name in known} | layers[1] | layers[2]
    given = {}
    for name, value in asked.items():
        if name not in known:
            problems.append(_unknown(notebook, name, known))
            continue
        try:
            given[name] = known[name].typed(_one_string(name, value))
        except BadParameter as error:
            problems.append(f"{notebook}.{error}")
    return Step(notebook, path, known, given)


def _one_string(name: str, value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return shlex.join(value)
    if not isinstance(value, str):
        raise BadParameter(f'{name}: a map or a list in a list; write it as one string, such as "web=0.7 code=0.3"')
    return value


def _unknown(where: str, name: str, known: Iterable[str], what: str = "parameter") -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f" did you mean {near[0]!r}?" if near else ""
    return f"{where}: unknown {what} {name!r};{hint} known: {', '.join(sorted(known)) or 'none'}"


# ── preflight: everything that can be known before the first task ────────────────────────────────────────────────────

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
    found = [*recipe.problems]
    for step in recipe.steps:
        found += [f"{step.notebook}: {line}" for line in _check_step(step, run)]
    return list(dict.fromkeys([*found, *_check_machine(recipe, run)]))


#: Parameters that name files or folders which are read whole.
_READ = ("inputs", "files", "dataset", "block_hosts", "block_words", "labelled", "language_lines", "benchmarks")

#: Files of a model folder that say how text becomes ids.
_MODEL = (".json", ".jinja")


def inputs(step: Step, run: Run) -> list[Path]:
    """Return every local file the parameters of a step name; what is missing is left out, `preflight` names it."""
    named = [_found(run, str(step.values[name])) for name in _READ if step.values.get(name)]
    named += [_found(run, name) for name in _rule_files(str(step.values.get("rules", "")))]
    named += [_of_model(run, str(step.values[name])) for name in ("tokenizer", "template") if step.values.get(name)]
    named += [_manifest(run, str(step.values[name])) for name in ("shards", "other") if step.values.get(name)]
    code = [str(step.values.get(name, "")).rpartition(":") for name in ("process_func", "plugins")]
    named += [_found(run, file if name.isidentifier() else f"{file}{colon}{name}") for file, colon, name in code]
    return sorted({file for paths in named for path in paths for file in _inside(path)})


def _rule_files(text: str) -> list[str]:
    names = (word.rpartition("=")[2] for word in _words(text))
    return [name for name in names if name.endswith(YAML)]


def row_files(step: Step, run: Run) -> list[Path]:
    """Return the files of rows that a step reads, as far as its parameters name them."""
    named = [_found(run, str(step.values[name])) for name in ("files", "dataset") if step.values.get(name)]
    return [file for paths in named for path in paths for file in _inside(path)]


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
    whole = run.path(text)
    if text and whole.exists():
        return [whole]
    found: list[Path] = []
    for pattern in _words(text):
        with contextlib.suppress(PrepError):
            found += run.files(shlex.quote(pattern))
    return found


def _of_model(run: Run, text: str) -> list[Path]:
    """Return what is read of a model folder: not its weights, which may be larger than all the data."""
    return [file for path in _found(run, text) for file in _inside(path) if path.is_file() or file.suffix in _MODEL]


def _manifest(run: Run, text: str) -> list[Path]:
    """Return what tells a folder of shards: its manifest holds the digest of each."""
    with contextlib.suppress(PrepError):
        return [path for path in [run.shards(text) / "manifest.json"] if path.is_file()]
    return []


def _words(text: str) -> list[str]:
    # A text that cannot be split is told by the first check that tries.
    with contextlib.suppress(PrepError):
        return split(text)
    return [text]


def _inside(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


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
    if text := str(values.get("memory_budget", "")):
        yield from _caught(_check_budget, text)


def _is_place(text: str) -> bool:
    endings = (".json", ".jsonl", ".parquet", ".gz", ".zst", ".csv")
    return text.startswith((".", "/", "~")) or text.endswith(endings) or "*" in text or text.count("/") > 1


def _check_budget(text: str) -> None:
    wanted, limit = engine.parse_bytes(text), engine.memory_limit()
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
    need = WRITTEN_PER_BYTE * sum(_bytes_of(step, run) for step in recipe.steps)
    free = shutil.disk_usage(there).free
    if need > free:
        yield f"disk: about {need / 2**20:,.0f} MiB will be written, {free / 2**20:,.0f} MiB are free in {run.root}"


def _bytes_of(step: Step, run: Run) -> int:
    return sum(path.stat().st_size * (UNPACKED if compression(path) else 1) for path in row_files(step, run))
