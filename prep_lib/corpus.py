"""The built-in corpus: real text from the machine, planted cases with known answers.

    Python sources ──parse──▶ Entry(name, signature, docstring) ──▶ questions, conversations, preferences
                                └──▶ documents: stdlib, packages
    package metadata ──────────────▶ documents: readme, licence
    pydoc ─────────────────────────▶ documents: pydoc_html
    translations, Python sources ──▶ records for pretraining: chinese, code; and english, from the documents
    written by hand ───────────────▶ planted

The same installation gives the same texts in the same order; other versions of Python or of the packages give others.
Sources are parsed, never imported; only the modules of `PYDOC` are imported, all from the standard library.
"""

from __future__ import annotations

import ast
import gzip
import html
import importlib
import importlib.metadata
import importlib.util
import itertools
import json
import os
import pydoc
import re
import sys
import sysconfig
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from prep_lib import seeds
from prep_lib.errors import BadParameter, unknown
from prep_lib.files import write_whole
from prep_lib.record import Document
from prep_lib.words import LANGS, WORDS

T = TypeVar("T")
#: What could not be used, by reason; every gathering function adds to the one it is given.
Skipped: TypeAlias = Counter[str]

PROJECT = "prep-workbench"

#: Import names of direct and indirect dependencies with much documentation in their sources; a missing one is counted.
PACKAGES = (
    "IPython", "click", "datasets", "dateutil", "fsspec", "huggingface_hub", "ipywidgets", "jinja2", "jsonschema",
    "jupyter_client", "nbconvert", "nbformat", "networkx", "numba", "numpy", "packaging", "pandas", "pyarrow",
    "requests", "tokenizers", "torch", "tornado", "traitlets",
)  # fmt: skip

#: Modules pydoc shows the same way on every machine: nothing in them names a user, a folder, a host or a clock.
PYDOC = (
    "abc", "argparse", "base64", "bisect", "calendar", "cmath", "collections", "colorsys", "contextlib", "copy", "csv",
    "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions", "functools", "graphlib", "hashlib", "heapq",
    "html", "itertools", "json", "keyword", "math", "numbers", "operator", "pprint", "random", "re", "shlex",
    "statistics", "string", "struct", "textwrap", "types", "typing", "unicodedata", "zlib",
)  # fmt: skip

#: Folders that hold tests, programs, other people's code, or what newer Pythons no longer have.
PRUNED = {
    "distutils", "extern", "idlelib", "lib2to3", "node_modules", "test", "testing", "tests", "turtledemo", "vendor",
}  # fmt: skip

#: Larger sources and longer texts are tables more often than prose.
MAX_BYTES, MAX_CHARACTERS = 400_000, 200_000

#: Names taken from one source file, so that one long file does not fill the sample.
PER_FILE = 10


@dataclass(frozen=True)
class Entry:
    """A documented module, class, function or method, as its source says it.

    Parameters
    ----------
    module : str
        Dotted name of the module.
    name : str
        Dotted name inside the module; empty for the module itself.
    kind : str
        ``module``, ``class`` or ``function``.
    signature : str
        As written, defaults and annotations included; empty where there is none (a module, a property).
    doc : str
        The docstring, without its indentation.
    members : tuple of str
        Names inside the module of the public, documented things it holds.
    """

    module: str
    name: str
    kind: str
    signature: str
    doc: str
    members: tuple[str, ...] = ()

    @property
    def full(self) -> str:
        """The dotted name a reader would import."""
        return f"{self.module}.{self.name}".rstrip(".")


# ---------------------------------------------------------------------------------------------- reading the sources


def _entry(node: ast.AST, module: str, name: str) -> Iterator[Entry]:
    inside = [] if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else _public(node)
    doc = _docstring(node)
    if doc:
        members = tuple(f"{name}.{child.name}".lstrip(".") for child in inside if _docstring(child))
        yield Entry(module, name, _kind(node), _signature(node), doc, members)
    for child in inside:
        yield from _entry(child, module, f"{name}.{child.name}".lstrip("."))


def _docstring(node: Any) -> str:
    return (ast.get_docstring(node) or "").strip()


def _kind(node: ast.AST) -> str:
    return "module" if isinstance(node, ast.Module) else "class" if isinstance(node, ast.ClassDef) else "function"


def _public(node: Any) -> list[Any]:
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [child for child in node.body if isinstance(child, definitions) and not child.name.startswith("_")]
    # A name defined twice (overloads, a property and its setter) is the one that has the docstring, or the first.
    by_name = {child.name: child for child in reversed(found)}
    by_name |= {child.name: child for child in reversed(found) if _docstring(child)}
    return list(reversed(by_name.values()))


def _signature(node: Any) -> str:
    if isinstance(node, ast.ClassDef):
        makers = [child for child in node.body if isinstance(child, ast.FunctionDef) and child.name == "__init__"]
        if not makers:
            return ""
        arguments = makers[0].args
        arguments.args = arguments.args[1:]
        return f"{node.name}({ast.unparse(arguments)})"
    if isinstance(node, ast.Module) or any("property" in ast.unparse(mark) for mark in node.decorator_list):
        return ""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(node.args)}){returns}"


@cache
def _read(path: Path, module: str) -> tuple[Entry, ...] | str:
    """Return what a source file documents, or in one word why it cannot be read."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return "source_too_large"
        with warnings.catch_warnings():
            # Other people's invalid escapes are theirs to mend.
            warnings.simplefilter("ignore")
            entries = tuple(_entry(ast.parse(path.read_bytes()), module, ""))
        "".join(entry.doc + entry.signature for entry in entries).encode("utf-8")
    except UnicodeEncodeError:
        return "lone_surrogate"
    except (SyntaxError, ValueError, RecursionError):
        return "source_does_not_parse"
    except OSError:
        return "source_unreadable"
    return entries


@cache
def _sources(root: Path, package: str) -> tuple[tuple[Path, str], ...]:
    """Return the public source files under `root` with their module names, in an order that mixes the folders."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name.isidentifier() and name[0] != "_" and name not in PRUNED]
        inside = Path(folder).relative_to(root).parts
        for name in names:
            stem = name.removesuffix(".py")
            if stem != name and stem.isidentifier() and (stem == "__init__" or stem[0] != "_"):
                parts = (package, *inside, stem) if stem != "__init__" else (package, *inside)
                found.append((Path(folder, name), ".".join(filter(None, parts))))
    return tuple(sorted(found, key=lambda item: (seeds.key(0, "corpus/sources", item[1]), item[1])))


def _library() -> list[tuple[Path, str]]:
    """Return the files of the standard library, without what a distribution or a user put beside it."""
    found = _sources(Path(sysconfig.get_path("stdlib")), "")
    return [(path, module) for path, module in found if module.partition(".")[0] in sys.stdlib_module_names]


def _package(name: str, skipped: Skipped) -> list[tuple[Path, str]]:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None or not spec.submodule_search_locations:
        skipped["package_not_installed"] += 1
        return []
    return list(_sources(Path(spec.submodule_search_locations[0]), name))


def _parsed(files: Iterable[tuple[Path, str]], skipped: Skipped) -> Iterator[tuple[Path, tuple[Entry, ...]]]:
    for path, module in files:
        entries = _read(path, module)
        if isinstance(entries, str):
            skipped[entries] += 1
        elif entries:
            yield path, entries


def _alternate(iterators: Iterable[Iterator[T]]) -> Iterator[T]:
    """Take one of each in turn; those that end drop out."""
    waiting = list(iterators)
    while waiting:
        for iterator in list(waiting):
            try:
                yield next(iterator)
            except StopIteration:
                waiting.remove(iterator)


def _first(rows: Iterator[T], limit: int) -> Iterator[T]:
    if limit < 0:
        raise BadParameter(f"corpus: limit must be >= 0, got {limit}")
    return itertools.islice(rows, limit)


# ------------------------------------------------------------------------------------------------------- documents


def documents(limit: int = 2000, *, characters: int = 20_000_000, skipped: Skipped | None = None) -> Iterator[Document]:
    """Return real documents of this installation, the sources in turn.

    Parameters
    ----------
    limit : int, documents
    characters : int
        It ends before the first document that would carry the total above it.
    skipped : Counter or None
        Gets what could not be used, by reason: sources that do not parse, texts too long, packages not installed.

    Returns
    -------
    iterator of Document
        Source ``stdlib`` and ``packages`` (the docstrings of one file each), ``readme`` and ``licence`` (from the
        metadata of every dependency), ``pydoc_html`` (a page of HTML). ``meta["format"]`` says how the text is marked.

    Examples
    --------
    >>> sorted({doc.source for doc in documents(5)})
    ['licence', 'packages', 'pydoc_html', 'readme', 'stdlib']
    """
    return _first(_documents(characters, Counter() if skipped is None else skipped), limit)


def _documents(characters: int, skipped: Skipped) -> Iterator[Document]:
    packages = (_pages("packages", _package(name, skipped), skipped) for name in PACKAGES)
    sources = [
        _pages("stdlib", _library(), skipped), _alternate(packages), _readmes(skipped), _licences(skipped), _html(),
    ]  # fmt: skip
    total = 0
    for doc in _alternate(sources):
        if len(doc.text) > MAX_CHARACTERS:
            skipped["text_too_long"] += 1
            continue
        total += len(doc.text)
        if total > characters:
            return
        yield doc


def _pages(source: str, files: Iterable[tuple[Path, str]], skipped: Skipped) -> Iterator[Document]:
    for path, entries in _parsed(files, skipped):
        module = entries[0].module
        pieces = [piece for entry in entries for piece in (entry.signature or entry.full, entry.doc)]
        where = module.replace(".", "/") + ("/__init__.py" if path.name == "__init__.py" else ".py")
        yield Document(where, "\n\n".join(pieces) + "\n", source, {"format": "text"})


@cache
def _dependencies() -> tuple[importlib.metadata.Distribution, ...]:
    """Return the installed distributions this project needs, directly or not, by name."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = [PROJECT]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system or Python
        needs = [need for need in found[name].requires or () if "extra ==" not in need]
        waiting += [need for line in needs for need in re.findall(r"^[\w.-]+", line)]
    # Our own README changes with every commit; the corpus should not.
    found.pop(PROJECT, None)
    return tuple(found[name] for name in sorted(found))


def _readmes(skipped: Skipped) -> Iterator[Document]:
    if not _dependencies():
        skipped["project_not_installed"] += 1
    for package in _dependencies():
        about = package.metadata.json
        text = str(about.get("description") or "").strip()
        if not text:
            skipped["no_readme"] += 1
            continue
        form = "markdown" if "markdown" in str(about.get("description_content_type", "")) else "rst"
        yield Document(f"{package.name}-{package.version}/README", text + "\n", "readme", {"format": form})


def _licences(skipped: Skipped) -> Iterator[Document]:
    for package in _dependencies():
        named = package.metadata.get_all("License-File") or []
        for name in [*named] or ["LICENSE", "LICENSE.txt", "LICENSE.md", "COPYING"]:
            # Metadata 2.4 keeps them in a folder of their own, older ones beside the metadata.
            text = _metadata_file(package, f"licenses/{name}") or _metadata_file(package, name)
            if text:
                yield Document(f"{package.name}-{package.version}/{name}", text, "licence", {"format": "text"})
            elif named:
                skipped["no_licence"] += 1


def _metadata_file(package: importlib.metadata.Distribution, name: str) -> str | None:
    try:
        return package.read_text(name)
    except UnicodeDecodeError:
        return None


class _Pages(pydoc.HTMLDoc):
    """pydoc's pages without what differs between two machines."""

    def docother(self, object: object, name: str | None = None, mod: Any = None, *ignored: Any) -> str:
        # The value's repr may hold a set, whose order changes with every process, or an address.
        return f"<strong>{self.escape(name or '')}</strong>"

    def getdocloc(self, object: object, basedir: str = "") -> None:
        # The link follows an environment variable.
        return None


def _html() -> Iterator[Document]:
    pages = _Pages()
    for name in PYDOC:
        module = importlib.import_module(name)
        text = pages.page(pydoc.describe(module), pages.document(module, name))
        text = re.sub(r'<a href="file:[^"]*">.*?</a>', "", text)
        text = re.sub(r"(?: |&nbsp;)at(?: |&nbsp;)0x[0-9A-Fa-f]+", "", text)
        yield Document(f"pydoc/{name}.html", text, "pydoc_html", {"format": "html"})


# ---------------------------------------------------------------------------------- answers, taken from a docstring

#: Where the running text of a docstring ends: a section, a field list, a directive, an example.
_SECTION = re.compile(
    r"^[ \t]*(?:>>> |\.\. |[:@]\w+|(?:Args?|Arguments|Parameters?|Returns?|Yields|Raises|Examples?|Notes?|Usage"
    r"|See Also|Attributes|Methods)\b[^\n]{0,30}(?::[ \t]*$|\n[ \t]*[-=~]{3,}))",
    re.MULTILINE,
)


def _prose(entry: Entry) -> str:
    """Return the running text at the head of the docstring, at most about 700 characters of whole paragraphs."""
    found = _SECTION.search(entry.doc)
    head = entry.doc[: found.start()] if found else entry.doc
    kept: list[str] = []
    for paragraph in re.split(r"\n[ \t]*\n", head.strip()):
        if kept and len(paragraph) + sum(map(len, kept)) > 700:
            break
        kept.append(paragraph)
    text = "\n\n".join(kept)
    return text if len(text) >= 30 and len(text.split()) >= 5 else ""


def _call(entry: Entry) -> str:
    owner = entry.full.rpartition(".")[0]
    return _code(f"{owner}.{entry.signature}") + f"\n\n{_prose(entry)}".rstrip() if entry.signature else ""


def _whole(entry: Entry) -> str:
    return entry.doc if max(200, len(_prose(entry)) * 1.5) < len(entry.doc) < 8000 else ""


def _example(entry: Entry) -> str:
    found = re.search(r"^[ \t]*>>> .*(?:\n[ \t]*\S.*)*", entry.doc, re.MULTILINE)
    return _code(textwrap.dedent(found[0])) if found else ""


def _members(entry: Entry) -> str:
    names = [f"`{name.rpartition('.')[2]}`" for name in entry.members]
    return ", ".join(names) if len(names) > 1 else ""


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


#: A question, how the answer is worded, and what it is made of. An answer that comes out empty is not asked for.
_Question: TypeAlias = tuple[str, str, Callable[[Entry], str]]
QUESTIONS: tuple[_Question, ...] = (
    ("What does `{name}` do?", "{answer}", _prose),
    ("Show the signature of `{name}`.", "{answer}", _call),
    ("`{name}` 有什么用？", "文档对 `{name}` 的说明是：\n\n{answer}", _prose),
    ("Give an example of `{name}`.", "{answer}", _example),
    ("Explain `{name}` in full.", "{answer}", _whole),
    ("请写出 `{name}` 的签名。", "`{name}` 的签名如下：\n\n{answer}", _call),
    ("Which documented names are in `{name}`?", "`{name}` has {answer}.", _members),
    ("请举例说明 `{name}` 的用法。", "例如：\n\n{answer}", _example),
)


def _ask(entry: Entry, question: _Question) -> tuple[str, str]:
    ask, wording, answer = question
    text = answer(entry)
    return ask.format(name=entry.full), wording.format(name=entry.full, answer=text) if text else ""


def _draw(purpose: str, entry: Entry) -> int:
    return seeds.key(0, f"corpus/{purpose}", entry.full)


def _picked(
    purpose: str, skipped: Skipped, fits: Callable[[Entry], object]
) -> Iterator[tuple[Entry, dict[str, Entry]]]:
    """Yield up to `PER_FILE` fitting entries a source file, in a mixed order, each with all entries of its file."""
    packages = (_parsed(_package(name, skipped), skipped) for name in PACKAGES)
    for _, entries in _alternate([_parsed(_library(), skipped), _alternate(packages)]):
        by_name = {entry.name: entry for entry in entries}
        mixed = sorted(filter(fits, entries), key=lambda entry: (_draw(purpose, entry), entry.name))
        yield from ((entry, by_name) for entry in mixed[:PER_FILE])


# ---------------------------------------------------------------------------------------------- post-training rows


def questions(limit: int = 3000, *, skipped: Skipped | None = None) -> Iterator[dict[str, str]]:
    """Return question and answer rows drawn from docstrings, in English and Chinese.

    Parameters
    ----------
    limit : int, rows
    skipped : Counter or None
        As for `documents`.

    Returns
    -------
    iterator of {"query": str, "response": str}
        At most two questions about one name, and never twice the same query.

    Examples
    --------
    >>> sorted(next(questions(1)))
    ['query', 'response']
    """
    return _first(_questions(Counter() if skipped is None else skipped), limit)


def _questions(skipped: Skipped) -> Iterator[dict[str, str]]:
    for entry, _ in _picked("questions", skipped, lambda entry: True):
        start = _draw("question", entry) % len(QUESTIONS)
        asked: list[Callable[[Entry], str]] = []
        for question in (*QUESTIONS[start:], *QUESTIONS[:start]):
            query, response = _ask(entry, question)
            if response and question[2] not in asked and len(asked) < 2:
                asked.append(question[2])
                yield {"query": query, "response": response}


#: System turn, first question, later questions; by language.
TALK = {
    "en": (
        "You answer questions about Python libraries from their own documentation.",
        "What is `{name}` for?",
        ("How do I use its `{name}`?", "And `{name}`?"),
    ),
    "zh": (
        "你根据官方文档回答有关 Python 库的问题。",
        "`{name}` 是用来做什么的？",
        ("它的 `{name}` 怎么用？", "那么 `{name}` 呢？"),
    ),
}


def conversations(limit: int = 600, *, skipped: Skipped | None = None) -> Iterator[dict[str, list[dict[str, str]]]]:
    """Return conversations of two or three exchanges about one class or module and what it holds.

    Parameters
    ----------
    limit : int, rows
    skipped : Counter or None
        As for `documents`.

    Returns
    -------
    iterator of {"messages": [{"role": str, "content": str}, ...]}
        About one in three opens with a system turn, one in four is asked in Chinese.

    Examples
    --------
    >>> [message["role"] for message in next(conversations(1))["messages"]][-2:]
    ['user', 'assistant']
    """
    return _first(_conversations(Counter() if skipped is None else skipped), limit)


def _conversations(skipped: Skipped) -> Iterator[dict[str, list[dict[str, str]]]]:
    for entry, by_name in _picked("conversations", skipped, lambda entry: entry.members and _prose(entry)):
        inside = [by_name[name] for name in entry.members if _prose(by_name[name])]
        if inside:
            yield {"messages": _talk(entry, inside, _draw("conversation", entry))}


def _talk(entry: Entry, inside: list[Entry], draw: int) -> list[dict[str, str]]:
    system, first, later = TALK["zh" if draw % 4 == 0 else "en"]
    said = [("system", system)] if draw // 4 % 3 == 0 else []
    said += [("user", first.format(name=entry.full)), ("assistant", _prose(entry))]
    members = sorted(inside, key=lambda member: (_draw("member", member), member.name))
    for member, ask in zip(members, later[: 1 + draw // 12 % 2], strict=False):
        said += [
            ("user", ask.format(name=member.name.rpartition(".")[2])),
            ("assistant", _call(member) or _prose(member)),
        ]
    return [{"role": role, "content": content} for role, content in said]


def preferences(limit: int = 600, *, skipped: Skipped | None = None) -> Iterator[dict[str, str]]:
    """Return preference rows: the right docstring, and the one of a neighbour or a part of the right one.

    Parameters
    ----------
    limit : int, rows
    skipped : Counter or None
        As for `documents`.

    Returns
    -------
    iterator of {"query": str, "chosen": str, "rejected": str}
        Rejected is what the same file says about the most similarly named thing (a word or the first three
        letters in common); where there is none, the first half of the chosen words.

    Examples
    --------
    >>> row = next(preferences(1))
    >>> row["chosen"] != row["rejected"]
    True
    """
    return _first(_preferences(Counter() if skipped is None else skipped), limit)


def _preferences(skipped: Skipped) -> Iterator[dict[str, str]]:
    about = [question for question in QUESTIONS if question[2] is _prose]
    for entry, by_name in _picked("preferences", skipped, _prose):
        question = about[_draw("preference", entry) % len(about)]
        query, chosen = _ask(entry, question)
        rejected = _worse(entry, by_name.values())
        if rejected:
            yield {"query": query, "chosen": chosen, "rejected": question[1].format(name=entry.full, answer=rejected)}


def _worse(entry: Entry, others: Iterable[Entry]) -> str:
    right = _prose(entry)
    rivals = [other for other in others if _alike(entry, other) and _prose(other) not in ("", right)]
    if rivals:
        return _prose(max(rivals, key=lambda other: _alike(entry, other)))
    words = re.findall(r"\S+\s*", right)
    return "".join(words[: len(words) // 2]).strip() if len(words) >= 10 else ""


def _alike(one: Entry, other: Entry) -> int:
    """Return how many letters two names have in common: those of shared words, or of the same beginning."""
    left, right = one.name.rpartition(".")[2], other.name.rpartition(".")[2]
    shared = sum(map(len, set(left.split("_")) & set(right.split("_"))))
    start = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))
    return max(shared, start if start >= 3 else 0)


# ------------------------------------------------------------------------------------------------ pretraining records

#: A text longer than this would be half of a small corpus by itself.
MAX_RECORD = 30_000

#: Messages of a translation in one document.
MESSAGES = 20


def english(limit: int = 600, *, skipped: Skipped | None = None) -> Iterator[dict[str, str]]:
    """Return records of English text: the documents that are no HTML.

    Parameters
    ----------
    limit : int, rows
    skipped : Counter or None
        As for `documents`.

    Returns
    -------
    iterator of {"id": str, "text": str, "source": str, "language": str}

    Examples
    --------
    >>> sorted({row["source"] for row in english(8)})
    ['licence', 'packages', 'readme', 'stdlib']
    """
    counted = Counter() if skipped is None else skipped
    plain = (doc for doc in documents(sys.maxsize, skipped=counted) if doc.meta["format"] != "html")
    return _first(_records(plain, "en", counted), limit)


def chinese(limit: int = 200, *, skipped: Skipped | None = None) -> Iterator[dict[str, str]]:
    """Return records of Chinese text: messages of programs, a few to a document, and the planted one.

    There are a few dozen: more Chinese is not on a machine of its own accord.

    Parameters
    ----------
    limit : int, rows
    skipped : Counter or None
        As for `documents`.

    Returns
    -------
    iterator of {"id": str, "text": str, "source": str, "language": str}

    Examples
    --------
    >>> {row["language"] for row in chinese(8)}
    {'zh'}
    """
    counted = Counter() if skipped is None else skipped
    return _first(_records(_alternate([_tea(), _own_words(), _translated(counted)]), "zh", counted), limit)


def code(limit: int = 200, *, skipped: Skipped | None = None) -> Iterator[dict[str, str]]:
    """Return records of source code: files of the standard library and of packages in turn.

    Parameters
    ----------
    limit : int, rows
    skipped : Counter or None
        As for `documents`.

    Returns
    -------
    iterator of {"id": str, "text": str, "source": str, "language": str}

    Examples
    --------
    >>> [(row["source"], row["language"]) for row in code(2)]
    [('stdlib_code', 'python'), ('packages_code', 'python')]
    """
    counted = Counter() if skipped is None else skipped
    packages = (_files("packages_code", _package(name, counted), counted) for name in PACKAGES)
    found = _alternate([_files("stdlib_code", _library(), counted), _alternate(packages)])
    return _first(_records(found, "python", counted), limit)


def _records(docs: Iterable[Document], language: str, skipped: Skipped) -> Iterator[dict[str, str]]:
    for doc in docs:
        if len(doc.text) > MAX_RECORD:
            skipped["text_too_long"] += 1
        else:
            yield {"id": doc.id, "text": doc.text, "source": doc.source, "language": language}


def _files(source: str, files: Iterable[tuple[Path, str]], skipped: Skipped) -> Iterator[Document]:
    for path, module in files:
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            skipped["source_unreadable"] += 1
            continue
        if text.strip():
            yield Document(f"{module}.py", text, source, {"format": "text"})


def _own_words() -> Iterator[Document]:
    """Yield the Chinese sentences of this workbench, those of one page together."""
    for page, keys in itertools.groupby(WORDS, lambda key: key.partition(".")[0] if "." in key else "words"):
        said = [re.sub(r"{[^}]*}", "…", WORDS[key][LANGS.index("zh")]) for key in keys]
        for at in range(0, len(said), MESSAGES):
            text = "\n".join(said[at : at + MESSAGES]) + "\n"
            yield Document(f"words/{page}/{at}", text, "workbench", {"format": "text"})


def _translated(skipped: Skipped) -> Iterator[Document]:
    """Yield the Chinese messages of Jupyter's server."""
    spec = importlib.util.find_spec("jupyter_server")
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    found = sorted(path for place in places for path in Path(place, "i18n", "zh_CN").rglob("*.po"))
    if not found:
        skipped["package_not_installed"] += 1
    for path in found:
        said = [text for text in _messages(path.read_text("utf-8")) if not text.isascii()]
        for at in range(0, len(said), MESSAGES):
            text = "\n".join(said[at : at + MESSAGES]) + "\n"
            yield Document(f"jupyter_server/{path.name}/{at}", text, "jupyter", {"format": "text"})


def _messages(catalogue: str) -> Iterator[str]:
    r"""Yield the translations of a gettext catalogue.

    Examples
    --------
    >>> list(_messages('msgid "a"\nmsgstr "甲"\n"\\n乙"\n\nmsgid "b"\nmsgstr ""\n'))
    ['甲\n乙', '']
    """
    for found in re.finditer(r'^msgstr(?:\[\d+\])? ((?:".*"\s*)+)$', catalogue, re.MULTILINE):
        yield "".join(ast.literal_eval(line.strip()) for line in found[1].strip().splitlines())


def _tea() -> Iterator[Document]:
    yield from (case.document for case in planted() if case.kind == "chinese")


# ---------------------------------------------------------------------------------------------------------- files

KINDS: dict[str, Callable[..., Iterator[Any]]] = {
    "documents": documents,
    "questions": questions,
    "conversations": conversations,
    "preferences": preferences,
    "english": english,
    "chinese": chinese,
    "code": code,
}


def write(folder: str | Path, *, skipped: Skipped | None = None, **limits: int) -> list[Path]:
    """Write JSONL files of the kinds named, so that a notebook can start from files.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    skipped : Counter or None
        As for `documents`.
    **limits : int, rows
        One for each kind wanted: ``questions=3000, conversations=600``; the file is ``questions.jsonl``.

    Returns
    -------
    list of Path
        In the order of the keywords. One installation always writes the same bytes.

    Raises
    ------
    UnknownName
        If a kind is none of `KINDS`.

    Examples
    --------
    >>> import tempfile
    >>> [path.name for path in write(tempfile.mkdtemp(), questions=2, preferences=1)]
    ['questions.jsonl', 'preferences.jsonl']
    """
    for kind in limits:
        if kind not in KINDS:
            raise unknown("corpus", "kind of rows", kind, KINDS)
    return [
        _write(Path(folder, f"{kind}.jsonl"), KINDS[kind](limit, skipped=skipped)) for kind, limit in limits.items()
    ]


#: Bytes of text in a row of an npz file.
WIDTH = 128


def write_npz(folder: str | Path, limit: int = 300, *, skipped: Skipped | None = None) -> list[Path]:
    """Write npz files as a preprocessing leaves them: one a source, uneven, each in the order it was read.

    The ids are bytes of text, so that no tokenizer is needed.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    limit : int, texts
        In English; a sixth as many are code, and Chinese as far as there is.
    skipped : Counter or None
        As for `documents`.

    Returns
    -------
    list of Path
        ``part_0.npz`` …, each with ``input_ids`` (rows, 128) int16, ``attention_mask`` and ``loss_mask`` (rows, 128)
        uint8, ``length`` (rows,) int16, ``source`` (rows,) uint8, the number of the file, and ``row`` (rows,) int64.

    Examples
    --------
    >>> import tempfile
    >>> [path.name for path in write_npz(tempfile.mkdtemp(), limit=4)][:2]
    ['part_0.npz', 'part_1.npz']
    """
    import numpy as np

    texts: dict[str, bytes] = {}
    for row in itertools.chain(
        english(limit, skipped=skipped), code(limit // 6, skipped=skipped), chinese(skipped=skipped)
    ):
        texts[row["source"]] = texts.get(row["source"], b"") + row["text"].encode("utf-8") + b"\n"
    Path(folder).mkdir(parents=True, exist_ok=True)
    paths = [Path(folder, f"part_{source}.npz") for source in range(len(texts))]
    for source, (path, text) in enumerate(zip(paths, texts.values(), strict=True)):
        with write_whole(path) as file:
            np.savez_compressed(file, **_text_rows(text, source))
    return paths


def _text_rows(text: bytes, source: int) -> dict[str, Any]:
    import numpy as np

    count = -(-len(text) // WIDTH)
    length = np.minimum(len(text) - WIDTH * np.arange(count), WIDTH)
    filled = (np.arange(WIDTH) < length[:, None]).view(np.uint8)
    return {
        "input_ids": np.frombuffer(text.ljust(count * WIDTH, b"\0"), np.uint8).reshape(count, WIDTH).astype(np.int16),
        "attention_mask": filled, "loss_mask": filled, "length": length.astype(np.int16),
        "source": np.full(count, source, np.uint8), "row": np.arange(count),
    }  # fmt: skip


def _write(path: Path, rows: Iterator[Any]) -> Path:
    with write_whole(path, "w") as file:
        for row in rows:
            row = asdict(row) if isinstance(row, Document) else row
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return path


# -------------------------------------------------------------------------------------------------- the planted world


@dataclass(frozen=True)
class Planted:
    """A document and what a stage must find in it.

    Parameters
    ----------
    document : Document
    kind : str
        ``plain`` (nothing to find), ``exact_twin``, ``near_twin``, ``personal_data``, ``benchmark_item``, ``mojibake``,
        ``chinese``, ``navigation`` or ``empty``.
    answer : tuple of str
        What is known: each piece of personal data as it stands in the text; the benchmark item as the benchmark has it;
        the broken line as it should read; the language. Empty where the kind says it all.
    twin : str or None
        The id of the document this one repeats; the twin comes earlier.
    """

    document: Document
    kind: str
    answer: tuple[str, ...] = ()
    twin: str | None = None


_LIGHTHOUSE = """The keeper of the northern lighthouse wrote one line in his book every evening. Most of the lines \
are about the wind, because the wind decided whether the supply boat could land. In forty years he missed only three \
evenings: two for the fever of 1911, and one for the night his daughter was born. When the lamp was made electric, \
nobody needed a keeper any more, but he stayed another winter and kept writing. The book is in the town museum now, \
open at the last page, where it says that the sea was calm, that the lamp had burned without fault, and that he had \
polished the glass one more time although there was no reason to.
"""

_BREAD = """Bread needs flour, water, salt and time, and the last of these does most of the work. While the dough \
rests, the flour drinks the water, and long strands form that later hold the gas the yeast gives off. A dough that \
rested overnight in a cool room can be shaped in a minute; a dough that was hurried has to be kneaded for a quarter \
of an hour and still tastes of little. Bake it hot, on a stone if there is one, and put a cup of water on the floor \
of the oven, so that the crust stays soft until the loaf has risen. It is done when it sounds hollow. Let it cool \
before you cut it.
"""

_RETOLD = _BREAD.replace("a quarter of an hour", "twenty minutes").replace("Let it cool before you cut it.", "Cool it.")

_BEES = """A swarm that looks for a new home sends out a few hundred scouts. A scout that found a hollow tree comes \
back and dances; the better the tree, the longer she dances, and the more of the others fly out to see for \
themselves. Nobody compares two trees, and nobody counts all the votes. Still, after a day or two nearly every \
dancer points to the same place, and once enough of them meet there at the same time, the swarm warms up and leaves. \
Most often it has chosen the best tree within reach.
"""

_CONTACT = """Notes of the allotment society, spring meeting. The water will be turned on in the second week of \
April if the nights stay free of frost. Whoever wants one of the two free plots should write to Ilse Marwood, \
ilse.marwood@allotment.example, or call her on +1 202 555 0147 in the evening. The shed key hangs in the usual \
place. The new weather station reports to 192.0.43.8 every ten minutes; its readings can be seen on the notice \
board. The compost is ready, two barrows for each plot. The summer party is on the last Saturday of June.
"""

_ITEM = """A tram driver makes six round trips before lunch and four after it. Every round trip takes 35 minutes, \
and between two trips she waits 5 minutes at the depot. How many minutes does she drive in one day?"""

_EXERCISES = f"""Here are the exercises our group worked on last Thursday. The first was easy once we drew the line \
on the board. The second took us longer, because half of us counted the breaks as driving.

{_ITEM}

The answer we agreed on is 350. The third exercise was about filling a pool with two pipes, and everybody had seen \
it before.
"""

_CAFE = "The café by the bridge serves crème brûlée until midnight — a naïve plan for a town of early risers."

_CHINESE = """山里的茶园在清明以前最忙。天刚亮，采茶的人就背着竹篓上山，只摘枝头最嫩的一芽一叶。\
一个熟手忙一整天，摘下的鲜叶不过四五斤，炒干以后只剩一斤左右。炒茶全凭手上的感觉：锅太热，叶子会焦；锅不够热，茶就发青。\
老师傅说，温度计告诉你锅有多热，手告诉你茶有多热，两件事并不一样。\
傍晚收工，大家围坐在院子里，先喝的总是去年的陈茶，因为新茶要放上几天，等火气退了才好入口。
"""

_MENU = """Home
Products
Prices
About us
Log in
Register
Home > Shop > Garden > Tools
Sort by: price | name | newest
1 2 3 4 5 … Next »
Follow us
Cookie settings
Terms · Privacy · Imprint
"""


def planted() -> tuple[Planted, ...]:
    """Return the small world with known answers, always the same.

    Examples
    --------
    >>> [case.kind for case in planted()][:4]
    ['plain', 'exact_twin', 'plain', 'near_twin']
    """
    broken = _BEES + _CAFE.encode("utf-8").decode("cp1252") + "\n"
    return (
        _case("lighthouse", _LIGHTHOUSE, "plain"),
        _case("lighthouse_again", _LIGHTHOUSE, "exact_twin", twin="planted#lighthouse"),
        _case("bread", _BREAD, "plain"),
        _case("bread_retold", _RETOLD, "near_twin", twin="planted#bread"),
        _case(
            "contact", _CONTACT, "personal_data", ("ilse.marwood@allotment.example", "+1 202 555 0147", "192.0.43.8")
        ),
        _case("exercises", _EXERCISES, "benchmark_item", (_ITEM,)),
        _case("cafe", broken, "mojibake", (_CAFE,)),
        _case("tea", _CHINESE, "chinese", ("zh",)),
        _case("menu", _MENU, "navigation"),
        _case("empty", "", "empty"),
    )


def _case(name: str, text: str, kind: str, answer: tuple[str, ...] = (), twin: str | None = None) -> Planted:
    return Planted(Document(f"planted#{name}", text, "planted"), kind, answer, twin)


_EXAM = (
    (_ITEM, "350"),
    ("A bakery fills 14 trays with 24 rolls each and sells five sixths of them before noon. How many are left?", "56"),
    (
        "A ferry carries 18 cars on each crossing and crosses 11 times a day. How many cars are that in a week?",
        "1386",
    ),
    (
        "Nora reads 28 pages on each weekday and 45 on each day of the weekend. How many are that in two weeks?",
        "460",
    ),
    ("Which of the three lighthouses was the first to be made electric, and in which decade?", "the northern one"),
    ("一个茶农每天采鲜叶四斤半，五斤鲜叶炒成一斤干茶。他采了二十天，一共得到多少斤干茶？", "十八斤"),
)


def write_benchmark(folder: str | Path) -> Path:
    """Write ``harbour_exam.jsonl``, questions with answers; one of them stands in a page of `write_pages`.

    Examples
    --------
    >>> import tempfile
    >>> path = write_benchmark(tempfile.mkdtemp())
    >>> json.loads(path.read_text("utf-8").splitlines()[0])["answer"]
    '350'
    """
    rows = ({"question": question, "answer": answer} for question, answer in _EXAM)
    return _write(Path(folder, "harbour_exam.jsonl"), rows)


# ------------------------------------------------------------------------------------------------------- web pages


@dataclass(frozen=True)
class Page:
    """A web page as a server sent it, and what reading and cleaning it must find.

    Parameters
    ----------
    path : str
        Below the folder that `write_pages` fills: ``harbour/lighthouse.html``.
    data : bytes
    kind : str
        ``article``, ``listing`` or ``navigation``.
    language : str
        ISO 639-1.
    encoding : str
        The true one, by the name the WHATWG standard has for it, whatever the page says.
    keep : tuple of str
        Lines of the main text as they stand, in order, blanks at their beginning included. `FURNITURE` is none of it.
    planted : str
        What is special: ``code`` (inline too), ``table_with_list``, ``definition_list``, ``mojibake``,
        ``wrong_charset``, ``repeated_block``, ``near_twin``, ``listing``, ``navigation``; empty: nothing is.
    repaired : str
        How the last line of a page with mojibake should read; empty for the others.
    """

    path: str
    data: bytes
    kind: str
    language: str
    encoding: str
    keep: tuple[str, ...]
    planted: str = ""
    repaired: str = ""


#: What stands around the text of every page, by language, and must not be taken for it.
FURNITURE = {
    "en": ("Accept all cookies", "Subscribe to our newsletter", "Most read this week", "All rights reserved"),
    "zh": ("接受全部 Cookie", "订阅每周邮件", "本周热门", "版权所有"),
    "de": ("Alle Cookies annehmen", "Newsletter bestellen", "Meistgelesen", "Alle Rechte vorbehalten"),
    "ja": ("クッキーをすべて許可", "メールマガジン登録", "今週の人気記事", "無断転載を禁じます"),
}

_MENUS = {
    "en": ("Home", "Stories", "Recipes", "Garden", "Archive", "Contact", "Log in"),
    "zh": ("首页", "茶山", "节气", "食谱", "往期", "联系我们", "登录"),
    "de": ("Start", "Geschichten", "Rezepte", "Garten", "Archiv", "Kontakt", "Anmelden"),
    "ja": ("ホーム", "読み物", "台所", "庭", "過去の記事", "問い合わせ", "ログイン"),
}

_GERMAN = """Die Fähre über den Fluss fährt seit dem Frühjahr nur noch an Werktagen. Für die Schüler am anderen Ufer \
heißt das, dass sie samstags außen herum müssen, über die große Brücke, und das dauert fast eine Stunde länger.
Der Fährmann hört im Herbst auf. Größere Schiffe hätten hier nie angelegt, sagt er, und für die kleinen reiche das \
Geld nicht mehr. Trotzdem streicht er das Geländer noch einmal grün, wie in jedem Jahr.
Übrig bleiben wird die Glocke am Steg, mit der man ihn früher gerufen hat. Die Gemeinde möchte sie ins Rathaus \
hängen. Er fände es schöner, wenn sie draußen bliebe."""

_JAPANESE = """町の図書館には、貸し出し用の傘が百本ある。雨の日に借りて、晴れた日に返せばよい。名前も書かなくてよい。
はじめの年は半分しか戻らなかった。それでも館長は新しい傘を買い足した。傘を持って出た人は、いつかまたここへ来ると考えたからである。
十年たった今、棚の傘は百二十本になった。だれかが自分の傘も置いていくのである。"""

_TRADITIONAL = """巷口的修鞋攤擺了三十年。師傅不識幾個字，可是附近每一家人的鞋，他看一眼就知道是誰的。
他說，走路的樣子都寫在鞋底上：有人外側先磨平，有人後跟總是斷。修得好的鞋，不是看起來新，而是穿上以後忘了它修過。
去年冬天他想收攤，街坊們湊錢給他換了一臺新的縫紉機。他沒有再提收攤的事。"""

_SEASONS = """谷雨前后，雨水多起来，茶树一天一个样。这时候采的茶叫雨前茶，比明前茶便宜，味道却更足，经得起多泡几次。
老人喝茶喜欢雨前茶，说明前的好看，雨前的好喝。
采完这一季，茶园要施一次肥，把剪下的枝条埋在行间，等它慢慢烂在土里。到了夏天，茶树休息，人也休息。"""


def _paragraphs(text: str) -> tuple[str, ...]:
    return tuple(line for line in text.strip().split("\n") if line)


def _html_page(title: str, body: str, language: str = "en", charset: str = "utf-8") -> str:
    """Return a page with everything around its text that pages have."""
    cookies, letter, popular, rights = FURNITURE[language]
    menu = "".join(f'<li><a href="/{at}.html">{name}</a></li>' for at, name in enumerate(_MENUS[language]))
    return f"""<!DOCTYPE html>
<html lang="{language}">
<head>
<meta charset="{charset}">
<title>{title}</title>
<style>body {{ font-family: serif }} .cookie-banner {{ position: fixed }}</style>
<script>window.dataLayer = [{{"page": 1}}];</script>
</head>
<body>
<header><nav class="menu"><ul>{menu}</ul></nav></header>
<div class="cookie-banner" role="dialog"><p>{cookies}</p><button>OK</button></div>
<main>
{body}
</main>
<aside class="sidebar"><h2>{popular}</h2><ol>{menu}</ol><form><label>{letter}</label><input name="mail"></form></aside>
<footer class="footer"><p>© 2026 · {rights}</p><ul>{menu}</ul></footer>
</body>
</html>
"""


def _article(title: str, lines: Iterable[str]) -> str:
    return f"<article>\n<h1>{title}</h1>\n" + "\n".join(f"<p>{line}</p>" for line in lines) + "\n</article>"


def _story(
    path: str, title: str, text: str, language: str = "en", encoding: str = "utf-8", says: str = "", planted: str = ""
) -> Page:
    lines = _paragraphs(text)
    page = _html_page(title, _article(title, lines), language, says or encoding)
    return Page(path, page.encode(encoding, "xmlcharrefreplace"), "article", language, encoding, lines, planted)


def _special(path: str, title: str, body: str, keep: tuple[str, ...], planted: str, kind: str = "article") -> Page:
    return Page(path, _html_page(title, body).encode(), kind, "en", "utf-8", keep, planted)


_FUNCTION = """def settle(accounts, limit=10):
    for name, balance in accounts.items():
        if balance < limit:
            print(name, "is low")
        else:
\t\t\tpass  # a tab, as editors leave it
    return sorted(accounts)"""

_SHELL = """for file in *.jsonl; do
    wc -l "$file"
done | sort -n"""

_CODE = f"""<article>
<h1>A first look at loops</h1>
<p>A loop does one thing for every item of a collection. The indentation says what belongs to it, so it is part of \
the program and not of its looks. Type the following lines exactly as they stand.</p>
<pre><code class="language-python">{_FUNCTION.replace("<", "&lt;")}</code></pre>
<p>Call <code>settle(accounts)</code>, then look at what <code>print</code> wrote; nothing else has changed.</p>
<p>The same idea exists in the shell, where the end of a loop has a word of its own.</p>
<pre>{_SHELL}</pre>
<p>Both loops stop when there is nothing left to do, and that is the whole secret.</p>
</article>"""

_HOURS = """<article>
<h1>When the museum is open</h1>
<p>The town museum is run by volunteers, so its hours follow the school year more than the season. Groups are welcome \
at any time if they write a week before, and children under twelve do not pay.</p>
<table>
<tr><th>Day</th><th>Hours</th></tr>
<tr><td>Monday</td><td><ul><li>10:00 to 12:00</li><li>closed in the afternoon</li></ul></td></tr>
<tr><td>Saturday</td><td><ul><li>09:00 to 17:00</li><li>guided tour at three</li></ul></td></tr>
</table>
<p>The museum is closed in January, when the rooms are painted and the lamp of the old lighthouse is cleaned.</p>
</article>"""

_TERMS = """<article>
<h1>Words of the bakery</h1>
<p>Bakers use a few words in a sense of their own. Whoever reads an old recipe without knowing them will wonder why \
the bread did not turn out, so here are the three that matter most.</p>
<dl>
<dt>Proof</dt><dd>The last rest of a dough in its final shape, before it goes into the oven.</dd>
<dt>Crumb</dt><dd>The inside of a loaf, and the way its holes are spread.</dd>
<dt>Score</dt><dd>To cut the skin of the dough so that it opens where the baker wants it to.</dd>
</dl>
<p>Everything else in a recipe can be found out by doing it twice.</p>
</article>"""

_MARKET = """The stall in the market opens at six, and by eight the good mushrooms are gone; the old man who picks \
them sells only what he can carry, and he says that this is why there are always some left in the wood."""

_WRAPPED = f"<article><div><br>{_MARKET}</div></article>"

_TEASERS = (
    ("The keeper's last winter", "He stayed although the lamp was electric."),
    ("Bread without hurry", "What time does that kneading cannot."),
    ("How bees vote", "Nobody counts, and still they agree."),
    ("A ferry stops", "Saturdays now lead over the bridge."),
    ("Umbrellas to lend", "A library trusts its readers with rain."),
    ("Three words bakers use", "Proof, crumb and score, told shortly."),
    ("Plots to give away", "Two are free; the water comes in April."),
    ("The cobbler's machine", "A street buys a present."),
    ("After the rain", "Tea that is better than it looks."),
    ("Loops, gently", "For those who never programmed."),
    ("Museum hours", "Open when somebody has the key."),
    ("Letters", "You write, we print the short ones."),
)


@cache
def pages() -> tuple[Page, ...]:
    """Return the web pages with known answers, always the same.

    Examples
    --------
    >>> sorted({page.encoding for page in pages()})
    ['big5', 'gb18030', 'shift_jis', 'utf-8', 'windows-1252']
    """
    cards = "\n".join(
        f'<div class="card"><a href="/story/{at}"><h3>{title}</h3></a><p>{teaser}</p></div>'
        for at, (title, teaser) in enumerate(_TEASERS)
    )
    links = "\n".join(f'<li><a href="/{at}">{line}</a></li>' for at, line in enumerate(_paragraphs(_MENU)))
    broken = _CAFE.encode("utf-8").decode("cp1252")
    code = (*_FUNCTION.split("\n"), "Call settle(accounts), then look at what print wrote; nothing else has changed.")
    hours = ("10:00 to 12:00", "closed in the afternoon", "09:00 to 17:00", "guided tour at three")
    terms = ("Proof", "The last rest of a dough in its final shape, before it goes into the oven.", "Crumb", "Score")
    return (
        _story("harbour/lighthouse.html", "The keeper's last winter", _LIGHTHOUSE),
        _story("harbour/bread.html", "Bread without hurry", _BREAD),
        _story("harbour/oven.html", "Bread, told again", _RETOLD, planted="near_twin"),
        _story("harbour/bees.html", "How bees vote", _BEES),
        _story("harbour/contact.html", "Plots to give away", _CONTACT),
        _story("harbour/exercises.html", "Exercises of the week", _EXERCISES),
        _special("harbour/hours.html", "When the museum is open", _HOURS, hours, "table_with_list"),
        _special("harbour/words.html", "Words of the bakery", _TERMS, terms, "definition_list"),
        _special("harbour/index.html", "Harbour stories", cards, _TEASERS[0], "listing", "listing"),
        _special("harbour/sitemap.html", "Where is what", f"<ul>{links}</ul>", (), "navigation", "navigation"),
        _special("harbour/market.html", "Mushrooms", _WRAPPED, (_MARKET,), "repeated_block"),
        _special("school/loops.html", "A first look at loops", _CODE, code, "code"),
        _story("teahouse/spring.html", "清明以前", _CHINESE, "zh"),
        _story("teahouse/rain.html", "雨前茶", _SEASONS, "zh", "gb18030", "gb2312"),
        _story("teahouse/cobbler.html", "修鞋攤", _TRADITIONAL, "zh", "big5"),
        _story("abroad/ferry.html", "Die Fähre hört auf", _GERMAN, "de", "windows-1252", "utf-8", "wrong_charset"),
        _story("abroad/umbrellas.html", "傘のある図書館", _JAPANESE, "ja", "shift_jis"),
        replace(
            _story("abroad/cafe.html", "The café by the bridge", f"{_BEES}{broken}", planted="mojibake"),
            repaired=_CAFE,
        ),
    )


def _real_pages(limit: int, skipped: Skipped) -> Iterator[Page]:
    """Yield documentation of this installation as pages: paragraphs, and code where the text is indented."""
    for row in english(sys.maxsize, skipped=skipped) if limit else ():
        pieces = [piece.strip("\n") for piece in re.split(r"\n\s*\n", row["text"]) if piece.strip()]
        prose = [" ".join(piece.split()) for piece in pieces if _is_prose(piece)]
        if row["source"] not in ("stdlib", "packages") or len(prose) < 5:
            continue
        body = "\n".join(
            f"<p>{html.escape(' '.join(piece.split()))}</p>" if _is_prose(piece) else f"<pre>{html.escape(piece)}</pre>"
            for piece in pieces
        )
        data = _html_page(row["id"], f"<article><h1>{row['id']}</h1>\n{body}\n</article>").encode()
        yield Page(f"library/{row['id'].replace('/', '.')}.html", data, "article", "en", "utf-8", tuple(prose))
        limit -= 1
        if not limit:
            return


def _is_prose(piece: str) -> bool:
    return len(piece) > 80 and not re.search(r"^(\s|>>>|\.\. |[-=~]{3})", piece, re.MULTILINE)


@dataclass(frozen=True)
class Capture:
    """A record of the archive ``pages.warc.gz``, and what a reader must make of it.

    Parameters
    ----------
    name : str
        What is special about it.
    data : bytes
        The record as stored, one gzip member.
    answer : str
        ``document``, or why it is none: ``http_status``, ``content_type``, ``warc_request``, ``damaged_member`` …
    keep : tuple of str
        Lines of the text, of a document.
    """

    name: str
    data: bytes
    answer: str
    keep: tuple[str, ...] = ()


@cache
def captures() -> tuple[Capture, ...]:
    """Return the records of the archive in order, always the same.

    Examples
    --------
    >>> [capture.answer for capture in captures()][:3]
    ['warc_warcinfo', 'warc_request', 'document']
    """
    lines, bread, tea = _paragraphs(_LIGHTHOUSE), _paragraphs(_BREAD), _paragraphs(_CHINESE)
    page = _html_page("The keeper's last winter", _article("The keeper's last winter", lines)).encode()
    packed = gzip.compress(_html_page("Bread without hurry", _article("Bread", bread)).encode(), 6, mtime=0)
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (page[:700], page[700:])) + b"0\r\n\r\n"
    spring = _html_page("清明以前", _article("清明以前", tea), "zh", "gbk").encode("gb18030")
    pixel = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
    torn = bytearray(_member("response", "http://harbour.example/torn", _http("text/html", page)))
    torn[len(torn) // 2] ^= 0xFF
    return (
        Capture("warcinfo", _member("warcinfo", "", b"software: prep workbench\r\n"), "warc_warcinfo"),
        Capture("request", _member("request", "http://harbour.example/", b"GET / HTTP/1.1\r\n\r\n"), "warc_request"),
        _captured("plain", "lighthouse", _http("text/html; charset=utf-8", page), lines),
        _captured("chunked", "keeper", _http("text/html", chunks, "Transfer-Encoding: chunked"), lines),
        _captured("gzip", "bread", _http("text/html", packed, "Content-Encoding: gzip"), bread),
        _captured("charset_in_header", "tea", _http("text/html; charset=GBK", spring), tea),
        Capture("torn", bytes(torn), "damaged_member"),
        _captured("missing", "gone", _http("text/html", b"<p>Not here", status="404 Not Found"), (), "http_status"),
        _captured("image", "pixel.png", _http("image/png", pixel), (), "content_type"),
        Capture("revisit", _member("revisit", "http://harbour.example/", _http("text/html", b"")), "warc_revisit"),
        _captured("text", "notes.txt", _http("text/plain", _BEES.encode()), _paragraphs(_BEES)),
    )


def _http(kind: str, body: bytes, *more: str, status: str = "200 OK") -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", *more, f"Content-Length: {len(body)}"]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def _captured(name: str, page: str, block: bytes, keep: tuple[str, ...], answer: str = "document") -> Capture:
    return Capture(name, _member("response", f"http://harbour.example/{page}", block), answer, keep)


def _member(kind: str, url: str, block: bytes, content_type: str = "application/http") -> bytes:
    fields = {
        "WARC-Type": kind, "WARC-Target-URI": url, "WARC-Date": "2026-03-01T12:00:00Z", "Content-Type": content_type,
        "Content-Length": str(len(block)),
    }  # fmt: skip
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return gzip.compress(b"WARC/1.0\r\n" + head.encode() + b"\r\n" + block + b"\r\n\r\n", 6, mtime=0)


def write_pages(folder: str | Path, limit: int = 12, *, skipped: Skipped | None = None) -> list[Path]:
    """Write a small web: folders of pages, an archive, its texts, and a text file.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    limit : int, pages
        Of documentation of this installation, beside those of `pages`.
    skipped : Counter or None
        As for `documents`.

    Returns
    -------
    list of Path
        The pages of `pages` and of the documentation by their `Page.path`, ``pages.warc.gz`` (the `captures`),
        ``pages.warc.wet.gz`` (two texts) and ``notes/field_book.txt``. One installation always writes the same bytes.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> [path.relative_to(folder).as_posix() for path in write_pages(folder, limit=0)][-4:]
    ['abroad/cafe.html', 'pages.warc.gz', 'pages.warc.wet.gz', 'notes/field_book.txt']
    """
    if limit < 0:
        raise BadParameter(f"corpus: limit must be >= 0, got {limit}")
    real = _real_pages(limit, Counter() if skipped is None else skipped)
    files = {page.path: page.data for page in itertools.chain(pages(), real)}
    texts = [("http://harbour.example/bees", _BEES), ("http://teahouse.example/spring", _CHINESE)]
    files["pages.warc.gz"] = b"".join(capture.data for capture in captures())
    files["pages.warc.wet.gz"] = _member("warcinfo", "", b"software: prep workbench\r\n") + b"".join(
        _member("conversion", url, text.encode(), "text/plain") for url, text in texts
    )
    files["notes/field_book.txt"] = f"{_LIGHTHOUSE}\n{_CAFE}\n".encode("cp1252")
    for name, data in files.items():
        with write_whole(Path(folder, name)) as file:
            file.write(data)
    return [Path(folder, name) for name in files]
