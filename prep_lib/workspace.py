"""A workspace and its runs: where things are.

workspace/
├── .prep-workspace             made by `prep init`: which files were copied here, and their digests
├── notebooks/*.ipynb           copies; notebooks/recipes/*.yaml, my_funcs.py
└── runs/NAME/                  "" means the latest one, or a new "default"
    ├── data/20_export/…        what a notebook wrote: run.data; another finds it with run.find("20_export")
    ├── executed/  reports/     executed notebooks; one HTML page each, and index.html
    └── recipe.yaml  run.jsonl  what was asked for; what happened
"""

from __future__ import annotations

import ast
import contextlib
import glob
import hashlib
import importlib.util
import itertools
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import prep_lib
from prep_lib.errors import BadInput, BadParameter, unknown
from prep_lib.events import emit, listen
from prep_lib.files import natural, space_for, write_whole

if TYPE_CHECKING:
    # Imported when a tokenizer is asked for: opening a run must not wait for it.
    from prep_lib.tokens.tokenizer import AutoTokenizer

#: The file that makes a folder a workspace.
MARKER = ".prep-workspace"

#: Where the originals are: the folder that holds prep_lib.
CHECKOUT = Path(prep_lib.__file__).resolve().parents[1]

#: Set in the kernels of `prep run`, which prints progress itself: an executed notebook must not depend on the clock.
HEADLESS = "PREP_HEADLESS"

#: A run's name is one folder name, on every file system.
RUN_NAME = re.compile(r"\.?\w[\w.-]{0,99}")

#: What was explored in run NAME runs on everything in run NAME-all.
WHOLE = "-all"

#: Bytes of a socket's path that every system takes: 104 on macOS, 108 on Linux.
SOCKET_PATH = 104

#: What a notebook of ours cannot do without; a kernel that lacks one is the wrong kernel.
NEEDED = ("numpy", "torch", "tokenizers", "datasets", "h5py", "ipywidgets")

#: How the files of a folder of rows end.
ROWS = tuple(f"{ending}{packed}" for ending in (".jsonl", ".ndjson", ".parquet") for packed in ("", ".gz", ".zst"))

#: The built-in tokenizer: ids, and characters it is trained on; a few seconds, once a run.
TRAINED_IDS, TRAINED_ON = 8192, 4_000_000

GITIGNORE = "runs/\n.prep/\n.ipynb_checkpoints/\n__pycache__/\n"
GITATTRIBUTES = "*.ipynb filter=prep-strip\n"

MY_FUNCS = '''"""Functions and strategies of yours, which notebooks and recipes name.

    process_func = "my_funcs.py:to_sft"      in 20_export: one row of the data set in, one or more records out
    plugins = "my_funcs.py"                  in 21_templates and 22_tensorize: registers the strategy below

Edit freely: `prep init` never overwrites a file you changed.
"""

from prep_lib import PromptStrategy, StrategyFactory


def to_sft(row):
    """Make a record of `row`: a dict, or a list of dicts (an empty list skips the row)."""
    question, answer = row.get("question", "").strip(), row.get("answer", "").strip()
    return {"query": question, "response": answer} if question and answer else []


class Plain(PromptStrategy):
    """``Q: question``, a line feed, ``A: answer``, then the tokenizer's end-of-text token."""

    name = "plain"

    def assemble_prompt(self, ids):
        """Return the ids up to the place where the answer begins; none of them is trained."""
        return [*self.tokenizer.encode("Q: "), *ids, *self.tokenizer.encode("\\nA: ")]

    def assemble_response(self, ids):
        """Return the answer with what ends it; all of it is trained."""
        return [*ids, self.tokenizer.eos_token_id]


StrategyFactory.register("plain", Plain)
'''


def find_root(start: str | Path | None = None) -> Path:
    """Return the workspace a folder lies in: the nearest parent made by `init`, or the checkout, or the folder itself.

    Parameters
    ----------
    start : path or None
        None: the current folder.
    """
    here = Path(start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / MARKER).is_file() or folder == CHECKOUT:
            return folder
    return here


# ── prep init ────────────────────────────────────────────────────────────────────────────────────────────────────────


def init(folder: str | Path) -> list[str]:
    """Make `folder` a workspace, or bring an older one up to date, and return one line per file.

    A file that was changed here is kept, whatever it is; a copy nobody touched is replaced by a newer original.

    Raises
    ------
    BadParameter
        If `folder` is the checkout itself: its notebooks are the originals.
    """
    folder = Path(folder).expanduser().resolve()
    if folder == CHECKOUT:
        raise BadParameter("workspace: this is the checkout, and its notebooks are the originals; name another folder")
    marker = folder / MARKER
    known: dict[str, str] = json.loads(marker.read_text("utf-8")).get("files", {}) if marker.is_file() else {}
    lines = []
    for name, content in _originals().items():
        done = _place(folder / name, content, known.get(name))
        if done != "kept":
            known[name] = _sha256(content)
        lines += [f"{done:<8} {name}" + ("  (changed here)" if done == "kept" else "")] if done else []
    _write(marker, json.dumps({"prep_lib": prep_lib.__version__, "files": known}, indent=1, sort_keys=True) + "\n")
    _write(folder / ".prep" / "python", f"{sys.executable}\n")
    return [*lines, _strip_outputs_in_git(folder)]


def place_recipe(root: Path, name: str, text: Callable[[str], str], reads: str) -> str:
    """Write a recipe into a workspace and return its name: another one where that recipe was changed, or reads others.

    Parameters
    ----------
    root : Path
    name : str
    text : callable
        Gets the name, and gives the text.
    reads : str
        What stands in the text of every recipe for the same files.
    """
    marker = root / MARKER
    told = json.loads(marker.read_text("utf-8"))
    for word in itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2))):
        file, content = f"notebooks/recipes/{word}.yaml", text(word).encode()
        there = (root / file).read_bytes() if (root / file).is_file() else reads.encode()
        if reads.encode() in there and _place(root / file, content, told["files"].get(file)) != "kept":
            told["files"][file] = _sha256(content)
            _write(marker, json.dumps(told, indent=1, sort_keys=True) + "\n")
            return word
    raise AssertionError


def _originals() -> dict[str, bytes]:
    """Return what a workspace holds, by relative path."""
    notebooks = CHECKOUT / "notebooks"
    found = {f"notebooks/{path.name}": _with_origin(path) for path in sorted(notebooks.glob("*.ipynb"))}
    found |= {f"notebooks/recipes/{path.name}": path.read_bytes() for path in sorted(notebooks.glob("recipes/*.yaml"))}
    own = {"my_funcs.py": MY_FUNCS, ".gitignore": GITIGNORE, ".gitattributes": GITATTRIBUTES}
    return found | {name: text.encode() for name, text in own.items()}


def _with_origin(path: Path) -> bytes:
    notebook = json.loads(path.read_text("utf-8"))
    notebook["metadata"]["prep"] = {"origin": path.name, "version": prep_lib.__version__}
    return _notebook_text(notebook).encode()


def _place(path: Path, content: bytes, copied: str | None) -> str:
    """Write one file unless it was changed; return what was done, empty where nothing was to do."""
    if not path.exists():
        _write(path, content.decode())
        return "made"
    here = path.read_bytes()
    if here == content:
        return ""
    if _sha256(here) != copied:
        return "kept"
    _write(path, content.decode())
    return "updated"


def _strip_outputs_in_git(folder: Path) -> str:
    """Tell git how to leave outputs out of commits, if `folder` is under git; return what a person should know."""
    command = f"{shlex.quote(sys.executable)} -P -m prep_lib.cli strip-output"
    git = shutil.which("git")
    if git is None or not _inside_git(git, folder):
        return "note     no git here; after `git init`, run `prep init` again and commits leave outputs out"
    subprocess.run([git, "-C", str(folder), "config", "filter.prep-strip.clean", command], check=True)
    return "git      commits leave notebook outputs out (filter prep-strip)"


def _inside_git(git: str, folder: Path) -> bool:
    asked = [git, "-C", str(folder), "rev-parse", "--show-toplevel"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    # A workspace inside the checkout is ignored by the checkout's git, whose settings are not ours to change.
    return answer.returncode == 0 and Path(answer.stdout.strip()) != CHECKOUT


def strip_output(text: str) -> str:
    """Return a notebook's JSON without outputs, counts and widget state; sources and tags stay.

    Examples
    --------
    >>> cell = {"cell_type": "code", "source": "1", "metadata": {"tags": ["parameters"]}, "outputs": [1]}
    >>> stripped = json.loads(strip_output(json.dumps({"cells": [cell], "metadata": {"widgets": {}}})))
    >>> stripped["cells"][0]["outputs"], stripped["cells"][0]["metadata"], stripped["metadata"]
    ([], {'tags': ['parameters']}, {})
    """
    notebook = json.loads(text)
    for noise in ("widgets", "papermill"):
        notebook["metadata"].pop(noise, None)
    for cell in notebook["cells"]:
        for noise in ("papermill", "execution", "collapsed", "scrolled"):
            cell["metadata"].pop(noise, None)
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return _notebook_text(notebook)


def _notebook_text(notebook: dict[str, Any]) -> str:
    # The form nbformat and JupyterLab write, so that a save without changes is no change for git.
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def _write(path: Path, content: str) -> None:
    with write_whole(path, "w") as file:
        file.write(content)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write_kernel(folder: str | Path, name: str = "python3") -> Path:
    """Write a kernel that is this interpreter, and return the folder to put into JUPYTER_PATH.

    A "python3" of the user's or the system's may be another Python, which fails on the first import.
    """
    start = "from prep_lib.workspace import run_kernel; run_kernel()"
    spec = {
        # -P: while a kernel loads, files of the workspace must not stand in for modules they share a name with.
        "argv": [sys.executable, "-P", "-c", start, "-f", "{connection_file}"],
        "display_name": "Python 3 (Prep Workbench)",
        "language": "python",
        # Bars fill a log or a report with one line a refresh; what happens is told by lines.
        "env": {"TQDM_DISABLE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"},
    }
    _write(Path(folder) / "kernels" / name / "kernel.json", json.dumps(spec, indent=1))
    return Path(folder)


def transport(folder: str | Path) -> str:
    """Return how to speak with a kernel whose connection file lies in a folder: ``ipc`` or ``tcp``.

    A socket file in a folder only this user can enter is safer than open ports, but the system allows its path about a
    hundred characters; behind a longer one a kernel starts and is never heard of.

    Examples
    --------
    >>> transport("/run/user/1000/jupyter"), transport("/gpfs/" + "a" * 80)
    ('ipc', 'tcp')
    """
    fits = len(os.fsencode(Path(folder) / f"kernel-{uuid.UUID(int=0)}-ipc-5")) < SOCKET_PATH
    return "ipc" if os.name == "posix" and fits else "tcp"


def run_kernel() -> None:
    """Be a kernel, and end with the process that started it.

    A kernel looks after its parent only once it is up, and then takes whatever parent it has, other than process 1,
    for the right one: killed a moment earlier, `prep run` would leave a kernel behind that nobody ends.
    """
    parent = int(os.environ.get("JPY_PARENT_PID", 0)) if os.name == "posix" else 0
    if parent:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    runpy.run_module("ipykernel_launcher", run_name="__main__")


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


# ── a run ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Run:
    """One run of one workspace, as one notebook sees it.

    Parameters
    ----------
    root : Path
        The workspace, absolute: what relative paths mean.
    name : str
        The run.
    notebook : str
        ``22_tensorize``; empty for a look from outside.
    """

    root: Path
    name: str
    notebook: str = ""

    @property
    def folder(self) -> Path:
        """The run's own folder."""
        return self.root / "runs" / self.name

    @property
    def data(self) -> Path:
        """Where this notebook writes."""
        return self.folder / "data" / self.notebook

    def find(self, notebook: str) -> Path:
        """Return the folder of what an earlier notebook wrote in this run.

        Raises
        ------
        BadInput
            If it wrote nothing yet; the message says which notebook to run.
        """
        folder = self.folder / "data" / notebook
        if folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir()):
            return folder
        raise BadInput(
            f"workspace: run {self.name!r} has nothing from {notebook} yet; run notebooks/{notebook}.ipynb first"
        )

    def shards(self, text: str = "", notebook: str = "22_tensorize") -> Path:
        """Return a folder of shards.

        Parameters
        ----------
        text : str
            A folder of the workspace, or the name of a run: what its `notebook` wrote. Empty: of this run.
        notebook : str
            The notebook whose output is meant.

        Raises
        ------
        BadInput
            If there is none.
        """
        if text and self.path(text).is_dir():
            return self.path(text)
        return replace(self, name=text or self.name).find(notebook)

    def path(self, text: str | Path) -> Path:
        """Return the absolute path of `text`; a relative one means the workspace, wherever the kernel was started."""
        return self.root / Path(text).expanduser()

    def files(self, text: str) -> list[Path]:
        """Return the files that `text` names, in natural order for each pattern.

        Parameters
        ----------
        text : str
            Paths, folders and patterns with ``*``, apart by blanks: ``"a.jsonl data/*.jsonl.gz"``. Quote one that holds
            a blank. What an export or a build turned down is read only where it is named itself.

        Raises
        ------
        BadInput
            If a pattern or path names no file.
        """
        return [path for pattern in split(text) for path in self._matching(pattern)]

    def _matching(self, pattern: str) -> list[Path]:
        whole = self.path(pattern)
        if whole.is_file():
            return [whole]
        if whole.is_dir():
            found = [path for path in whole.iterdir() if path.name.endswith(ROWS) and not path.name.startswith(".")]
        else:
            found = [Path(name) for name in glob.glob(str(whole), recursive=True)]
        wanted = (path for path in found if path.is_file() and not turned_down(path))
        files = sorted(wanted, key=lambda path: natural(str(path)))
        if not files:
            raise BadInput(f"workspace: no file matches {pattern!r} in {self.root}")
        return files

    def records(self, files: str = "") -> list[Path]:
        """Return the files `files` names; empty: the chunks that 20_export wrote in this run."""
        if files:
            return self.files(files)
        return sorted(self.find("20_export").glob("*_chunk_*.jsonl"), key=lambda path: natural(path.name))

    def inputs(self, text: str) -> list[str]:
        """Return what `pipeline.run_files` reads: files, folders and fsspec addresses that `text` names.

        Parameters
        ----------
        text : str
            As for `files`; a folder stays a folder, whatever is in it, and an address (``s3://…``) is taken as it is.

        Raises
        ------
        BadInput
            If a pattern or path names nothing.
        """
        found: list[str] = []
        for pattern in split(text):
            whole = self.path(pattern)
            taken = "://" in pattern or whole.is_dir()
            found += [pattern if "://" in pattern else str(whole)] if taken else map(str, self._matching(pattern))
        return found

    def texts(self, files: str = "") -> list[str]:
        """Return the documents of this run: those `files` names, or the folder of the last notebook that wrote some.

        Returns
        -------
        list of str
            Empty: nobody wrote documents in this run yet.
        """
        if files:
            return self.inputs(files)
        mine = self.notebook[:2] or "99"
        written = [path for path in sorted((self.folder / "data").glob("1[0-3]_*")) if path.name[:2] < mine]
        return [str(path) for path in written if (path / "documents.json").is_file()][-1:]

    def rules(self, text: str) -> str:
        """Return rule sets by language as `Quality` takes them: a YAML file means the workspace, wherever we run."""
        found = []
        for code, sign, name in (part.rpartition("=") for part in split(text)):
            # From here, because such a text is cut at blanks, and the way to the workspace may hold some.
            found.append(f"{code}{sign}{os.path.relpath(self.path(name)) if name.endswith(YAML) else name}")
        return " ".join(found)

    def dataset(self, text: str) -> str:
        """Return what `export_dataset` is to open: a path or pattern of the workspace, absolute, or a hub name."""
        return self.place(text)

    def tokenizer(self, text: str = "") -> AutoTokenizer:
        """Return the tokenizer `text` names.

        Parameters
        ----------
        text : str
            A file or folder of the workspace, or a hub name. Empty: one trained on this machine's documentation, once
            in a run and kept there, so that all its notebooks use the same.
        """
        from prep_lib import corpus
        from prep_lib.tokens.tokenizer import AutoTokenizer

        if text:
            return AutoTokenizer.load(self.place(text))
        kept = self.folder / "tokenizer"
        if not (kept / "tokenizer.json").is_file():
            texts = (doc.text for doc in corpus.documents(characters=TRAINED_ON))
            # The questions are what the built-in way tokenises; a third of them is Chinese, which no document is.
            asked = (row["query"] + row["response"] for row in corpus.questions())
            AutoTokenizer().train(itertools.chain(texts, asked), vocab_size=TRAINED_IDS).save(kept)
        return AutoTokenizer.load(kept)

    def apply(self, values: Mapping[str, Any]) -> Path:
        """Write choices into ``recipe.yaml`` of this run, for every notebook of this way that knows the names.

        Parameters
        ----------
        values : mapping
            ``{"pack_size": 4096}``, as an Apply button hands it over.

        Returns
        -------
        Path
            What ``prep run`` takes.
        """
        import yaml

        path = self.folder / "recipe.yaml"
        old = yaml.safe_load(path.read_text("utf-8"))["notebooks"] if path.is_file() else self._way()
        steps = [{name: (given or {}) | self._known(name, values) for name, given in step.items()} for step in old]
        text = yaml.safe_dump({"name": self.name, "notebooks": steps}, sort_keys=False, allow_unicode=True)
        _write(path, text)
        return path

    def write(self, files: Mapping[str, str]) -> dict[str, str]:
        """Write texts beside the output of this notebook, as a Save button hands them over.

        Parameters
        ----------
        files : mapping
            Name -> text: ``{"template.jinja": "…"}``.

        Returns
        -------
        dict
            Name -> place, relative to the workspace, as parameters take it.
        """
        for name, text in files.items():
            _write(self.data / Path(name).name, text)
        return {name: (self.data / Path(name).name).relative_to(self.root).as_posix() for name in files}

    def _way(self) -> list[dict[str, dict[str, Any]]]:
        """Return the notebooks of the way this one belongs to: those that share its first digit."""
        found = find_notebook(self.notebook, self.root).parent.glob(f"{self.notebook[:1]}*.ipynb")
        return [{path.stem: {}} for path in sorted(found)]

    def _known(self, notebook: str, values: Mapping[str, Any]) -> dict[str, Any]:
        cells = json.loads(find_notebook(notebook, self.root).read_text("utf-8"))["cells"]
        tagged = ["".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
        found: dict[str, Any] = {}
        for name, value in values.items():
            written = [re.search(rf"^{name} *= *(.+)", source, re.MULTILINE) for source in tagged]
            for default in (match[1] for match in written if match):
                # What is open has the empty value of its kind in a parameters cell: 0, 0.0 or nothing between quotes.
                found[name] = value if value is not None else type(ast.literal_eval(default))()
        return found

    def place(self, text: str) -> str:
        """Return `text` as an absolute path if it names something in the workspace; otherwise as it is, a hub name."""
        found = text and ("*" in text or self.path(text).exists())
        return str(self.path(text)) if found else text

    def function(self, named: str) -> Any:
        """Return what ``"my_funcs.py:to_sft"`` names: a function or class in a file of the workspace.

        Raises
        ------
        BadInput
            If there is no such file, or it cannot be run.
        BadParameter
            If the text has no colon, or the file defines no such name.
        """
        file, _, name = named.rpartition(":")
        if not file or not name.isidentifier():
            raise BadParameter(f"workspace: {named!r} names no function; write my_funcs.py:to_sft")
        module = self.plugins(file)
        if not hasattr(module, name):
            known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
            raise BadParameter(f"workspace: {file} defines no {name!r}; it has {', '.join(known) or 'no function'}")
        return getattr(module, name)

    def plugins(self, file: str) -> ModuleType:
        """Run a Python file of the workspace, so that the strategies in it register themselves."""
        return _load(self.path(file))

    def note(self, event: Mapping[str, Any]) -> None:
        """Append one event to ``run.jsonl``, with the time and the notebook."""
        append_event(self.folder, {"notebook": self.notebook, **event} if self.notebook else event)


#: Endings of a rule set in a file.
YAML = (".yaml", ".yml")


def turned_down(path: Path) -> bool:
    """Say whether a file holds what was rejected when its neighbours were written: their ledger stands beside it."""
    name = path.name.split(".")[0]
    return name.endswith("rejected") and path.with_name(name.removesuffix("rejected") + "ledger.json").is_file()


def find_notebook(name: str, root: Path) -> Path:
    """Return the workspace's own copy of a notebook, or the original where it has none."""
    folders = dict.fromkeys((root / "notebooks", root, CHECKOUT / "notebooks"))
    for folder in folders:
        if (folder / f"{name}.ipynb").is_file():
            return folder / f"{name}.ipynb"
    raise unknown("recipes", "notebook", name, {path.stem for folder in folders for path in folder.glob("*.ipynb")})


def split(text: str) -> list[str]:
    """Return the words of a list written as one string.

    Examples
    --------
    >>> split("a.jsonl 'my data/*.jsonl'")
    ['a.jsonl', 'my data/*.jsonl']
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BadParameter(f"workspace: {text!r} is no list of words: {error}") from None


def importable(folder: Path) -> None:
    """Let a user's file import what lies beside it, as a script can; what is installed goes before."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _load(path: Path) -> ModuleType:
    """Run a user's file as a module whose functions travel to workers by value: they cannot import it."""
    import cloudpickle

    if not path.is_file():
        raise BadInput(f"workspace: no file {path}; `prep init` makes an example my_funcs.py")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"workspace: {path.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(path.stem)
    if before is not None and getattr(before, "__file__", None) != str(path):
        raise BadParameter(f"workspace: {path.name} has the name of a module that is already loaded; rename the file")
    sys.modules[path.stem] = module
    importable(path.parent)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        sys.modules.pop(path.stem)
        raise BadInput(f"workspace: {path.name} cannot be run: {type(error).__name__}: {error}") from error
    cloudpickle.register_pickle_by_value(module)
    return module


#: The listener of the notebook open in this process; opening again replaces it.
_listening = contextlib.ExitStack()


def open_run(run: str = "", notebook: str = "") -> Run:
    """Find or make a run of this workspace, say where things are, and note from now on what the engine does.

    Parameters
    ----------
    run : str
        Its name; empty: the latest run of this workspace, or a new one named ``default``.
    notebook : str
        The name of the notebook that asks, without its ending.

    Examples
    --------
    In a notebook: ``run = open_run(run, notebook="22_tensorize")``.
    """
    root = find_root()
    opened = Run(root, check_name(run) if run else latest(root, explored=True) or "default", notebook)
    for folder in (opened.data, opened.folder / "executed", opened.folder / "reports"):
        with space_for(folder):
            folder.mkdir(parents=True, exist_ok=True)
    _listening.close()
    _listening.enter_context(listen(opened.note, instead=HEADLESS in os.environ))
    opened.note({"event": "open"})
    python = f"{sys.executable}, prep_lib {prep_lib.__version__}"
    print(f"run       {opened.folder}\nwrites to {opened.data}\npython    {python}")
    if trouble := wrong_kernel(root):
        print(trouble)
    return opened


def check_name(name: str) -> str:
    """Return `name` if a run may have it.

    Raises
    ------
    BadParameter
        If it is not one plain folder name.

    Examples
    --------
    >>> check_name("demo-2")
    'demo-2'
    """
    if not RUN_NAME.fullmatch(name):
        raise BadParameter(f"workspace: a run cannot be named {name!r}; use letters, digits, '-', '_' and '.'")
    return name


def latest(root: Path, explored: bool = False) -> str | None:
    """Return the name of the run something happened in last; None if there is none.

    Parameters
    ----------
    root : Path
    explored : bool
        True: not one of everything, beside the run that it was explored in; nobody goes on exploring there.
    """
    runs = [path for path in (root / "runs").glob("*") if path.is_dir() and not path.name.startswith(".")]
    if explored:
        of = {path: path.with_name(path.name.removesuffix(WHOLE)) for path in runs}
        runs = [path for path in runs if of[path] == path or of[path] not in runs]
    return max(runs, key=lambda path: (_last_touched(path), path.name)).name if runs else None


def _last_touched(folder: Path) -> float:
    journal = folder / "run.jsonl"
    return (journal if journal.is_file() else folder).stat().st_mtime


def wrong_kernel(root: Path) -> str:
    """Say in one line what is wrong with the interpreter that runs this; empty if it is the right one."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        return f"wrong kernel: it lacks {', '.join(missing)}; open this workspace with `prep lab`"
    made = root / ".prep" / "python"
    wanted = made.read_text("utf-8").strip() if made.is_file() else sys.executable
    if wanted != sys.executable and Path(wanted).exists():
        return f"wrong kernel? this workspace was made with {wanted}; `prep lab` picks it, `prep init` changes it"
    return ""


# ── run.jsonl ────────────────────────────────────────────────────────────────────────────────────────────────────────


def append_event(folder: Path, event: Mapping[str, Any]) -> None:
    """Append one event to ``run.jsonl`` of a run; a journal that cannot be written never stops the work."""
    stamped = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **event}
    line = json.dumps(stamped, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace") + b"\n"
    with contextlib.suppress(OSError), open(folder / "run.jsonl", "ab+") as journal:
        if journal.tell():
            journal.seek(-1, os.SEEK_END)
            # A line torn by a kill or a full disk must not take this one with it.
            line = line if journal.read() == b"\n" else b"\n" + line
        journal.write(line)


def retell(event: Mapping[str, Any]) -> None:
    """Let the engine tell an event of the journal, in its own rhythm, as if the work were done in this process."""
    fields = {name: value for name, value in event.items() if name not in ("time", "notebook", "event")}
    emit(event["event"], **fields)


def read_events(folder: Path, start: int = 0) -> tuple[list[dict[str, Any]], int]:
    """Return the events of a run in order, and where to go on reading.

    Parameters
    ----------
    folder : Path
    start : int, bytes
        Where in the journal to begin. A line that is still being written is left for the next time, one torn by a
        kill is passed over.
    """
    try:
        with open(folder / "run.jsonl", "rb") as file:
            file.seek(start)
            lines = file.read()
    except OSError:
        return [], start
    whole = lines[: lines.rfind(b"\n") + 1]
    events = []
    for line in whole.splitlines():
        with contextlib.suppress(ValueError):
            events.append(json.loads(line))
    return events, start + len(whole)
