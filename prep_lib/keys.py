"""Everything the bytes of an output depend on, as a key of short digests.

inputs       what is read, by content
parameters   every value that changes the output
code         our modules, one digest each, without comments and docstrings
versions     libraries whose output is written as it is

same key, same bytes; another key, and `changed` names what differs
"""

from __future__ import annotations

import ast
import contextlib
import datetime
import decimal
import dis
import enum
import fractions
import functools
import hashlib
import importlib.metadata
import importlib.util
import inspect
import json
import os
import re
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from prep_lib.errors import BadParameter
from prep_lib.jit import Kernel, cache_folder

#: Parts by name, so that a run can say which of them changed.
Key = dict[str, Any]

#: Nanoseconds after which two changes of a file have different times on any system.
SETTLED = 2 * 10**9

#: The package whose modules are followed from each other; its front door holds no code that makes bytes.
OURS = "prep_lib"


def make_key(
    *, inputs: Any = None, parameters: Any = None, modules: Sequence[str] = (), packages: Sequence[str] = ()
) -> Key:
    """Return the key of a task or a notebook.

    Parameters
    ----------
    inputs, parameters : JSON-able
        Digests of what is read, and every value that changes the output.
    modules : sequence of str
        Modules of `prep_lib` whose code makes the output; those they import are found.
    packages : sequence of str
        Libraries whose output is written as it is.

    Raises
    ------
    BadParameter
        If a value has no exact text: two different ones could look the same.

    Examples
    --------
    >>> sorted(make_key(inputs=["abc"], modules=["prep_lib.special"]))
    ['code', 'inputs', 'parameters', 'versions']
    """
    versions = {name: importlib.metadata.version(name) for name in sorted(packages)}
    return {
        "inputs": _short(inputs), "parameters": _short(parameters), "code": code_digest(*modules), "versions": versions,
    }  # fmt: skip


def changed(old: Key, new: Key) -> list[str]:
    """Name the parts of a key that differ: modules and files by name, parameters with what they were and are.

    Examples
    --------
    >>> changed({"inputs": 1, "code": {"a": 1, "b": 2}}, {"inputs": 1, "code": {"a": 1, "b": 3}})
    ['code of b']
    >>> changed({"parameters": {"threshold": "0.8", "seed": "1"}}, {"parameters": {"threshold": "0.85", "seed": "1"}})
    ['threshold 0.8 -> 0.85']
    """
    out = []
    for part in sorted({*old, *new}):
        before, after = old.get(part), new.get(part)
        if before != after and isinstance(before, dict) and isinstance(after, dict):
            names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
            if part == "parameters":
                out += [f"{name} {_seen(before.get(name))} -> {_seen(after.get(name))}" for name in names]
            else:
                out.append(f"{part} of {', '.join(names)}")
        elif before != after:
            out.append(part)
    return out


def _seen(text: str | None) -> str:
    """Return a parameter's value as a person knows it again; None: there was no such parameter."""
    return "(none)" if text is None else text if len(text) <= 60 else f"{text[:57]}..."


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise BadParameter(
        f"keys: a {type(value).__name__} has no exact text to tell it by; give a digest of it, or text, numbers, lists"
    )


# Modules: by their source


def code_digest(*modules: str) -> dict[str, str]:
    """Digest the code of modules and of all modules they import that are not installed packages.

    Comments, docstrings and layout do not count. Nothing is imported to find out.

    Examples
    --------
    >>> sorted(code_digest("prep_lib.seeds"))
    ['prep_lib.errors', 'prep_lib.seeds']
    """
    found: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name == OURS:
            # Who takes a name from the front door may get it from any room.
            waiting.extend(other for other in _rooms() if other not in found)
        elif name not in found and (path := _source_of(name)) is not None:
            found[name], named = _digest_source(name, path, _stamp(path))
            # A name taken from a module is a module of its own if there is one.
            waiting.extend(sorted({inner if _source_of(inner) else base for inner, base in named} - {name}))
    _remember()
    return found


def imports(path: str | Path) -> list[str]:
    """Name the modules that a file of Python may import, installed ones too; none where it is no Python.

    Examples
    --------
    >>> imports(__file__)[:3]
    ['__future__', '__future__.annotations', 'ast']
    """
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    return sorted({name for node in ast.walk(tree) for pair in _imports(node, "") for name in pair if name})


def _rooms() -> list[str]:
    root = Path(__file__).parent
    paths = (path.relative_to(root).with_suffix("") for path in root.rglob("*.py"))
    names = (".".join((OURS, *path.parts)).removesuffix(".__init__") for path in paths)
    return sorted(name for name in names if name != OURS)


def _source_of(name: str) -> str | None:
    """Return the file of a module that is ours or the user's; None for Python's own and installed ones."""
    top, *rest = name.split(".")
    if not top or top in sys.stdlib_module_names:
        return None
    loaded = getattr(sys.modules.get(name), "__file__", None)
    found = [loaded] if loaded else [place for folder in _folders(top, bool(rest)) for place in _places(folder, rest)]
    path = next((path for path in found if path and path.endswith(".py") and os.path.isfile(path)), None)
    return None if path is None or {"site-packages", "dist-packages"} & set(Path(path).parts) else path


def _folders(top: str, inside: bool) -> list[str]:
    """Return where the modules of a package lie, or the file of one that is no package."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return []
    if spec is None or not inside:
        return [spec.origin] if spec is not None and spec.origin else []
    return list(spec.submodule_search_locations or ())


def _places(folder: str, rest: Sequence[str]) -> list[str]:
    base = os.path.join(folder, *rest)
    return [f"{base}.py", os.path.join(base, "__init__.py")] if rest else [folder]


def _stamp(path: str) -> str:
    """Return what tells, without reading it, that a file is still the same; the last time only the system can set."""
    about = os.stat(path)
    return f"{about.st_size} {about.st_mtime_ns} {about.st_ctime_ns}"


@functools.lru_cache(maxsize=512)
def _digest_source(name: str, path: str, stamp: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the digest of a module and what it imports, from memory or from the cache where the file is as it was."""
    known, at = _known(), f"{name}={path}"
    if at in known.modules and known.modules[at][0] == stamp:
        _, digest, named = known.modules[at]
    else:
        digest, named = _digest_text(name, path)
        # What was written just now can be written again without its times showing it.
        if time.time_ns() - os.stat(path).st_ctime_ns > SETTLED:
            known.modules[at], known.changed = [stamp, digest, named], True
    return digest, tuple((inner, base) for inner, base in named)


def _digest_text(name: str, path: str) -> tuple[str, list[tuple[str, str]]]:
    tree = ast.parse(Path(path).read_bytes())
    package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
    imports: set[tuple[str, str]] = set()
    for node in ast.walk(tree):
        imports.update(_imports(node, package))
        _take_docstring(node)
    code = compile(tree, name, "exec", dont_inherit=True)
    return _short(_describe_code(_Describer(), code)), sorted(imports)


class _Known:
    """What is known of modules: "name=path" -> stamp, digest, imports; kept in a file between processes."""

    def __init__(self) -> None:
        # What a digest is made by: this file, and the compiler.
        told = Path(__file__).read_bytes() + sys.version.encode()
        self.file = cache_folder().parent / f"code-{hashlib.sha256(told).hexdigest()[:16]}.json"
        self.changed, self.modules = False, self._read()

    def _read(self) -> dict[str, list[Any]]:
        try:
            modules = json.loads(self.file.read_bytes())
            return {at: [stamp, digest, named] for at, (stamp, digest, named) in modules.items()}
        except (OSError, ValueError, AttributeError):
            return {}


@functools.cache
def _known() -> _Known:
    return _Known()


def _remember() -> None:
    """Write what was found out; without a place to write every process finds it out anew."""
    known = _known()
    if not known.changed:
        return
    known.changed = False
    there = {at: told for at, told in known.modules.items() if os.path.exists(at.partition("=")[2])}
    with contextlib.suppress(OSError):
        written, name = tempfile.mkstemp(dir=known.file.parent)
        with open(written, "w", encoding="utf-8") as file:
            json.dump(there, file)
        os.replace(name, known.file)


def _imports(node: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    """Yield what an import statement may load: of ``from a import b`` module ``a.b``, or if there is none ``a``."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package.split(".")[: 1 - node.level or None] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        yield from ((f"{base}.{alias.name}", base) for alias in node.names)


def _take_docstring(node: ast.AST) -> None:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str):
            node.body = node.body[1:] or [ast.copy_location(ast.Pass(), first)]


@functools.cache
def _owners() -> dict[str, list[str]]:
    return {name: sorted(set(owners)) for name, owners in importlib.metadata.packages_distributions().items()}


def _identity(name: str) -> list[Any]:
    """Return what tells the state of a module: Python's version, the package's version, or the code."""
    top = name.split(".")[0]
    if top in sys.stdlib_module_names:
        return ["python", *sys.version_info[:2]]
    if code := code_digest(name):
        return ["code", sorted(code.items())]
    owners = _owners().get(top)
    if not owners:
        raise _CannotDigest(f"module {name}")
    return ["package", [[owner, importlib.metadata.version(owner)] for owner in owners]]


# Functions: by their compiled code, which is what runs, and all it uses


def function_digest(function: Any) -> str | None:
    """Digest a user's function by code, defaults, closure values and the globals it names.

    Comments, docstrings and layout do not count. What comes from an installed package counts by its version.

    Returns
    -------
    str or None
        None if something it uses cannot be digested (an open file, a lock, a running generator): what it makes is then
        never reused, and the caller says so.

    Examples
    --------
    >>> function_digest(len) is not None
    True
    >>> function_digest((letter for letter in "a").__next__) is None
    True
    """
    try:
        return _short(_Describer()(function))
    except (_CannotDigest, RecursionError):
        return None


class _CannotDigest(Exception):
    pass


_TIMES = datetime.date | datetime.time | datetime.timedelta | datetime.timezone
#: Values whose repr is exact.
_EXACT = (
    str | int | float | complex | bytes | None | types.EllipsisType | range | slice | PurePath
    | decimal.Decimal | fractions.Fraction | _TIMES | np.dtype | np.generic
)  # fmt: skip

#: What a class carries that nothing runs by, or that its functions carry too.
_CLASS_NOISE = {
    "__doc__", "__module__", "__qualname__", "__dict__", "__weakref__", "__firstlineno__", "__static_attributes__",
    "__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__dataclass_fields__",
    "__dataclass_params__", "__match_args__", "__abstractmethods__", "_abc_impl", "__slotnames__",
}  # fmt: skip


class _Describer:
    """Makes something JSON-able that is equal for equal values, and follows functions into what they use."""

    def __init__(self) -> None:
        # Functions and classes met already, kept alive so that no id is given twice.
        self._met: dict[int, tuple[int, Any]] = {}
        self._above: set[int] = set()

    def __call__(self, value: Any) -> Any:
        if isinstance(value, _EXACT):
            return [type(value).__name__, repr(value)]
        if (reference := _reference(value)) is not None:
            return reference
        if id(value) in self._met:
            return ["met", self._met[id(value)][0]]
        if isinstance(value, types.FunctionType | type):
            self._met[id(value)] = len(self._met), value
        return self._inside(value, _how(value))

    def _inside(self, value: Any, how: Callable[[_Describer, Any], Any]) -> Any:
        if id(value) in self._above:
            return "recursive"
        self._above.add(id(value))
        try:
            return [type(value).__name__, how(self, value)]
        finally:
            self._above.discard(id(value))


def _reference(value: Any) -> Any:
    """Name what anybody can import from Python, an installed package or our modules; None for anything else."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", getattr(value, "__name__", None))
    if not (callable(value) and isinstance(module, str) and isinstance(name, str)) or _is_users(module):
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return [name, _identity(module)] if found is value else None


def _is_users(module: str) -> bool:
    return module == "__main__" or (module.split(".")[0] != OURS and _source_of(module) is not None)


def _how(value: Any) -> Callable[[_Describer, Any], Any]:
    return next((how for kind, how in _KINDS.items() if isinstance(value, kind)), _describe_object)


def _by(*names: str) -> Callable[[_Describer, Any], Any]:
    return lambda say, value: [say(getattr(value, name)) for name in names]


def _describe_object(say: _Describer, value: Any) -> Any:
    """Describe an object by what pickle would send of it to a worker: its class, arguments, state and items."""
    try:
        parts = value.__reduce_ex__(2)
    except Exception as error:
        raise _CannotDigest(str(error)) from error
    if isinstance(parts, str):
        return [parts, _identity(type(value).__module__)]
    maker, arguments, state, *items = (*parts, None, None, None)[:5]
    return [say(maker), say(arguments), say(state), [say(list(part)) for part in items if part is not None]]


def _describe_array(say: _Describer, value: Any) -> Any:
    if value.dtype.hasobject or type(value) is not np.ndarray:
        raise _CannotDigest("an array of objects")
    return [repr(value.dtype), value.shape, hashlib.sha256(value.tobytes()).hexdigest()]


def _describe_class(say: _Describer, value: Any) -> Any:
    held = dict(vars(value))
    if issubclass(value, enum.Enum):
        members = {member.name: member.value for member in value}
        held = {name: item for name, item in held.items() if isinstance(item, types.FunctionType)} | members
    slots = types.MemberDescriptorType | types.GetSetDescriptorType
    names = sorted(name for name, item in held.items() if name not in _CLASS_NOISE and not isinstance(item, slots))
    return [value.__qualname__, say(value.__bases__), [[name, say(held[name])] for name in names]]


def _describe_function(say: _Describer, value: Any) -> Any:
    names, modules = _used(value.__code__)
    found = {name: value.__globals__[name] for name in sorted(names) if name in value.__globals__}
    cells = [_content(cell) for cell in value.__closure__ or ()]
    parts = [value.__defaults__, value.__kwdefaults__, cells, found]
    return [_describe_code(say, value.__code__), say(parts), [_identity(name) for name in sorted(modules)]]


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _describe_code(say: _Describer, code: types.CodeType) -> Any:
    """Describe compiled code without its place, its line numbers and its docstring."""
    consts = list(code.co_consts)
    if _has_docstring(code):
        consts[0] = None
    return [
        code.co_code.hex(), code.co_exceptiontable.hex(), code.co_flags, code.co_names, code.co_varnames,
        code.co_freevars, code.co_cellvars, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount,
        [_describe_code(say, item) if isinstance(item, types.CodeType) else say(item) for item in consts],
    ]  # fmt: skip


def _has_docstring(code: types.CodeType) -> bool:
    if sys.version_info >= (3, 13):
        return bool(code.co_flags & inspect.CO_HAS_DOCSTRING)
    # Until then the first constant of a function with a name was its docstring or None.
    named = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
    return bool(named and code.co_consts and isinstance(code.co_consts[0], str))


def _used(code: types.CodeType) -> tuple[set[str], set[str]]:
    """Return the global names and the modules that code uses, inner functions and comprehensions included."""
    names, modules = set(), set()
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            modules.add(step.argval)
        elif step.opname.startswith("LOAD_") and ("GLOBAL" in step.opname or "NAME" in step.opname):
            names.add(step.argval)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            more_names, more_modules = _used(inner)
            names, modules = names | more_names, modules | more_modules
    return names, modules


#: How to describe what is neither exact text nor importable by anybody; the first that fits, or as an object.
_KINDS: dict[Any, Callable[[_Describer, Any], Any]] = {
    list | tuple: lambda say, value: [say(item) for item in value],
    set | frozenset: lambda say, value: sorted(json.dumps(say(item)) for item in value),
    dict | types.MappingProxyType: lambda say, value: [[say(key), say(item)] for key, item in value.items()],
    np.ndarray: _describe_array,
    re.Pattern: _by("pattern", "flags"),
    types.ModuleType: lambda say, value: _identity(value.__name__),
    types.FunctionType: _describe_function,
    type: _describe_class,
    staticmethod | classmethod: _by("__func__"),
    property: _by("fget", "fset", "fdel"),
    functools.cached_property: _by("func"),
    functools._lru_cache_wrapper: _by("__wrapped__"),
    Kernel: _by("python"),
}
