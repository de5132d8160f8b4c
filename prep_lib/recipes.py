"""Reads and checks a recipe (YAML).

name: posttrain
defaults:                        given to every notebook that knows the name
  seed: 7
notebooks:                       in this order; each finds what the ones before wrote
  - 20_export:
      dataset: data/train.jsonl
  - 22_tensorize:                --from 22, --to 22, --only tensorize: the others are left as they stand
      pack_size: 4096

007, 1.10, no, 1e3  ──YAML──▶  "007", "1.10", "no", "1e3"  ──the notebook's own cell──▶  str, int, float or bool
"""

from __future__ import annotations

import ast
import difflib
import io
import json
import math
import re
import shlex
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from prep_lib.errors import BadInput, BadParameter, PrepError, unknown
from prep_lib.workspace import CHECKOUT, find_notebook, split

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
    left : frozenset of str
        Notebooks that are not run: what they wrote stands as it is.
    source : str
        What the recipe was asked for by, for commands that are told.
    """

    name: str
    steps: tuple[Step, ...]
    problems: tuple[str, ...] = ()
    left: frozenset[str] = frozenset()
    source: str = ""

    def give(self, **values: Any) -> Recipe:
        """Return this recipe with values for every notebook that knows the names."""
        return replace(self, steps=tuple(step.give(**values) for step in self.steps))

    def part(self, first: str = "", last: str = "", only: str = "") -> Recipe:
        """Return this recipe with all but a part of its notebooks left out.

        Parameters
        ----------
        first, last : str
            The notebooks it begins and ends with, by name or a part of it that fits one; empty: all before, all behind.
        only : str
            The notebooks that run, apart by commas.

        Raises
        ------
        BadParameter
            If a name fits none or several, or nothing would run.
        """
        if not (first or last or only):
            return self
        names = [step.notebook for step in self.steps]
        if only and (first or last):
            raise BadParameter("--only says which notebooks run, all of them; leave --from and --to out")
        start = names.index(notebook_of(first, names, "--from")) if first else 0
        stop = names.index(notebook_of(last, names, "--to")) + 1 if last else len(names)
        if start >= stop:
            raise BadParameter(f"--from {first} stands behind --to {last} in {self.name}, so nothing would run")
        asked = [word.strip() for word in only.split(",")] if only else []
        chosen = {notebook_of(word, names, "--only") for word in asked} or {*names[start:stop]}
        return replace(self, left=frozenset(names) - chosen)

    def sampled(self, rows: int) -> Recipe:
        """Return this recipe for a sample of `rows` records, drawn where each way begins to read.

        Notes
        -----
        A notebook draws by the hash of a record's id; those behind it read what came through, all of it. What is looked
        at is drawn by the same hash, and no more than that. A run of a sample has a name of its own: it must not lie
        over a run of everything.

        Raises
        ------
        BadParameter
            If `rows` is no number of records, or a notebook reads files of its own and draws none.
        """
        if rows < 1:
            raise BadParameter(f"--sample must be at least 1 record; got {rows}")
        steps, ways = [], set[str]()
        for step in self.steps:
            given = [name for name in OWN_INPUT if step.values.get(name)]
            if given and "sample" not in step.known:
                raise BadParameter(f"--sample: {step.notebook} reads {given[0]} and has no parameter `sample`")
            reads = bool(given) or step.notebook[0] not in ways
            ways.add(step.notebook[0])
            looked_at = min(int(step.values.get("look_at") or rows), rows)
            steps.append(step.give(sample=rows, look_at=looked_at) if reads else step)
        return replace(self, name=f"{self.name}-sample-{rows}", steps=tuple(steps))

    def to_yaml(self) -> str:
        """Return the recipe as it will be run, every value written out."""
        steps = [{step.notebook: step.values} for step in self.steps]
        return yaml.safe_dump({"name": self.name, "notebooks": steps}, sort_keys=False, allow_unicode=True)


def written_values(path: Path) -> dict[str, dict[str, Any]]:
    """Return the values of each notebook of a recipe that `Recipe.to_yaml` wrote; nothing where there is none."""
    try:
        found = yaml.safe_load(path.read_bytes())
        return {name: dict(values) for step in found["notebooks"] for name, values in step.items()}
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError):
        return {}


#: Parameters that name what a notebook reads from outside of its run.
OWN_INPUT = ("inputs", "files", "dataset", "input_dir", "shards")

#: How a parameter's comment says which notebook is read while it is empty.
_EMPTY = re.compile(r"\bempty: (?:what|the one of) (\d\d_\w+)")


def needs(step: Step) -> list[str]:
    """Return the notebooks a step reads from, by the comments of its empty parameters.

    Examples
    --------
    >>> clean = Step("11_clean", Path(), {"files": Parameter("files", "", "JSONL; empty: what 10_read wrote")}, {})
    >>> needs(clean), needs(clean.give(files="a.jsonl"))
    (['10_read'], [])
    """
    empty = [parameter for name, parameter in step.known.items() if not step.values[name]]
    return list(dict.fromkeys(found[1] for parameter in empty if (found := _EMPTY.search(parameter.help))))


def notebook_of(text: str, names: Sequence[str], where: str) -> str:
    """Return the one name out of `names` that a text means: the name, its number, its word, or how one begins.

    Raises
    ------
    BadParameter
        If none or several fit; the message names the nearest, or those.

    Examples
    --------
    >>> names = ["10_read", "11_clean", "12_dedup"]
    >>> [notebook_of(text, names, "--from") for text in ("12", "dedup", "12_dedup", "cl")]
    ['12_dedup', '12_dedup', '12_dedup', '11_clean']
    >>> notebook_of("1", names, "--from")
    Traceback (most recent call last):
    prep_lib.errors.BadParameter: --from 1 may be 10_read, 11_clean, 12_dedup; write more of it
    """
    spelled = {name: (name, *name.split("_", 1)) for name in names}
    whole = [name for name, forms in spelled.items() if text in forms]
    begun = [name for name, forms in spelled.items() if text and any(form.startswith(text) for form in forms)]
    found = [text] if text in names else whole or begun
    if len(found) > 1:
        raise BadParameter(f"{where} {text} may be {', '.join(found)}; write more of it")
    if not found:
        near = difflib.get_close_matches(text, [form for forms in spelled.values() for form in forms], n=1)
        hint = next((f" did you mean {name!r}?" for name, forms in spelled.items() if near and near[0] in forms), "")
        raise BadParameter(
            f"{where}: unknown notebook of this recipe {text!r};{hint} known: {', '.join(names) or 'none'}"
        )
    return found[0]


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
        # A Windows editor writes a byte order mark.
        whole = yaml.load(path.read_text("utf-8-sig"), Loader=_Loader)
    except UnicodeDecodeError as error:
        raise BadParameter(f"{path.name}: byte {error.start} is no UTF-8; save the recipe as UTF-8") from None
    except yaml.YAMLError as error:
        raise BadParameter(f"{path.name}: {_yaml_problem(error)}") from None
    name, defaults, wanted = _shape(path, whole)
    problems: list[str] = []
    over = _overrides(overrides, [notebook for notebook, _ in wanted], problems)
    steps = [_step(notebook, root, [defaults, given, over.get(notebook, {})], problems) for notebook, given in wanted]
    found = [step for step in steps if step is not None]
    known = {name for step in found for name in step.known}
    problems += [_unknown("defaults", key, known) for key in defaults if key not in known]
    return Recipe(name, tuple(found), tuple(problems), source=str(source))


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
    problem = getattr(error, "problem", None) or str(error)
    # The line as the parser has it, to tell a tab from what else it cannot begin with.
    return f"{line}a tab; indent with blanks" if r"'\t'" in problem else f"{line}{problem}"


_KEYS = ("name", "defaults", "notebooks")


def _shape(path: Path, whole: Any) -> tuple[str, dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    if not whole:
        raise BadParameter(f"{path.name}: is empty; {_FORM}")
    if not isinstance(whole, dict):
        got = "a list" if isinstance(whole, list) else repr(whole)[:60]
        raise BadParameter(f"{path.name}: {_FORM}; this is {got}")
    for key in whole:
        if key not in _KEYS:
            where = "notebooks, behind a dash" if re.match(r"\d\d_", str(key)) else "defaults, or below one notebook"
            raise BadParameter(
                _unknown(path.name, key, _KEYS, "key") + f"; a parameter or a notebook stands under {where}"
            )
    if not isinstance(whole.get("notebooks"), list) or not whole["notebooks"]:
        hint = "; write a dash before each notebook" if isinstance(whole.get("notebooks"), dict) else ""
        raise BadParameter(f"{path.name}: {_FORM}{hint}")
    name = whole.get("name") or path.stem
    if not isinstance(name, str):
        raise BadParameter(f"{path.name}: name: one word; got {name!r}")
    wanted = [_named(path, item) for item in whole["notebooks"]]
    names = [name for name, _ in wanted]
    if len(set(names)) < len(names):
        raise BadParameter(f"{path.name}: a notebook stands twice in {', '.join(names)}; its outputs would overwrite")
    return name, _map(path, "defaults", whole.get("defaults")), wanted


#: What a recipe is, for everybody who wrote something else.
_FORM = "a recipe has a list `notebooks:` of notebook names with their parameters"


def _named(path: Path, item: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(item, str):
        return item, {}
    if isinstance(item, dict) and len(item) > 1 and not next(iter(item.values())):
        raise BadParameter(
            f"{path.name}: {next(iter(item))}: its parameters begin four blanks further in than the dash before it"
        )
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
            continue
        try:
            out.setdefault(notebook_of(notebook, notebooks, "-p"), {})[name] = value
        except BadParameter as error:
            problems.append(str(error))
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
