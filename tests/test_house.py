"""The house keeps its laws: the tree in README is true, imports point up only, each heavy package has one address."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import prep_lib

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")

#: The only files that may import a heavy package, at the top or inside a function.
ADDRESSES = {
    "h5py": {"prep_lib/shards/h5.py"},
    "datasets": {"prep_lib/source/hub.py"},
    "tokenizers": {"prep_lib/tokens/tokenizer.py"},
    "fastokens": {"prep_lib/tokens/tokenizer.py"},
    "jinja2": {"prep_lib/jinja.py"},
    "papermill": {"prep_lib/execute.py"},
    "nbconvert": {"prep_lib/report.py"},
    "numba": {"prep_lib/jit.py"},
    "torch": {"prep_lib/tensors.py", "prep_lib/feed/dataset.py", "prep_lib/feed/loader.py"},
    "loky": {"prep_lib/engine.py", "prep_lib/machine.py"},
    "dask": {"prep_lib/cluster.py"},
    "distributed": {"prep_lib/cluster.py"},
    "ray": {"prep_lib/cluster.py"},
    "trafilatura": {"prep_lib/text/extract.py"},
    "resiliparse": {"prep_lib/text/extract.py"},
    "fastwarc": {"prep_lib/source/warc.py"},
    "ftfy": {"prep_lib/text/mojibake.py"},
    "py3langid": {"prep_lib/text/language.py"},
    "phonenumbers": {"prep_lib/text/pii.py"},
    "reportlab": {"prep_lib/onepage.py"},
    "ipywidgets": None,  # every view.py
}


def tree(block: str) -> list[tuple[str, str]]:
    """Read a drawn tree: (path, line) in order."""
    out, folders = [], []
    for line in block.splitlines():
        found = re.match(r"^([│ ├└─]*)([\w./]+)\s*(.*)$", line)
        if not found:
            continue
        depth, name, text = len(found[1]) // 4, found[2], found[3].strip()
        folders = [*folders[:depth], name]
        if name.endswith(".py"):
            out.append(("".join(folders[:-1]) + name, text))
    return out


TREES = [tree(block) for block in re.findall(r"```\n((?:prep_lib|widgets)/\n.*?)```", README, re.S)]
LISTED = [entry for entries in TREES for entry in entries]
ORDER = {path: at for at, (path, _) in enumerate(LISTED)}


def sources() -> list[Path]:
    return sorted(path for room in ("prep_lib", "widgets") for path in (ROOT / room).rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported(path: Path) -> set[str]:
    """The modules a file imports, those inside functions too; what only type checkers see apart."""
    module = ast.parse(path.read_text("utf-8"))
    hidden = {
        id(inner)
        for node in ast.walk(module)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    names: set[str] = set()
    for node in ast.walk(module):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def test_two_trees_are_drawn() -> None:
    assert len(TREES) == 2
    assert len(LISTED) > 30


def test_every_file_is_in_the_tree_and_on_disk() -> None:
    files = set(map(relative, sources()))
    rooms = {path for path in files if path.endswith("/__init__.py")} - {"prep_lib/__init__.py"}
    assert sorted(ORDER) == sorted(files - rooms)


@pytest.mark.parametrize(("path", "text"), LISTED)
def test_the_line_is_the_first_line_of_the_docstring(path: str, text: str) -> None:
    docstring = ast.get_docstring(ast.parse((ROOT / path).read_text("utf-8")))
    assert docstring, f"{path} has no docstring"
    assert docstring.splitlines()[0] == text


@pytest.mark.parametrize("path", [path for path, _ in LISTED if path != "prep_lib/__init__.py"])
def test_imports_point_up_only(path: str) -> None:
    for name in imported(ROOT / path):
        target = name.replace(".", "/") + ".py"
        if target in ORDER:
            assert ORDER[target] < ORDER[path], f"{path} imports {target}, which stands below it"
        assert not (path.startswith("prep_lib/") and name.split(".")[0] in ("widgets", "IPython")), f"{path}: {name}"


@pytest.mark.parametrize("package", sorted(ADDRESSES))
def test_a_heavy_package_has_one_address(package: str) -> None:
    users = {relative(path) for path in sources() if package in {name.split(".")[0] for name in imported(path)}}
    if package == "ipywidgets":
        assert all(path.endswith("/view.py") for path in users), users
    else:
        assert users <= (ADDRESSES[package] or set()), users


def test_each_module_has_a_test() -> None:
    """A page is tested with its state where it has one; the front door is tested here."""
    missing = []
    for path, _ in LISTED:
        folder, name = (ROOT / "tests" / path).parent, Path(path).name
        if path != "prep_lib/__init__.py" and not (folder / f"test_{name}").exists():
            missing.append(path)
    assert not missing, f"no test file for {missing}"


def test_public_names_are_sorted_and_real() -> None:
    assert list(prep_lib.__all__) == sorted(prep_lib.__all__)
    for name in prep_lib.__all__:
        assert getattr(prep_lib, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        prep_lib.nothing  # noqa: B018


def test_version_equals_changelog() -> None:
    assert f"## {prep_lib.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_importing_the_library_loads_nothing_heavy() -> None:
    code = "import sys, prep_lib; print(sorted({m.split('.')[0] for m in sys.modules} & set(sys.argv[1:])))"
    heavy = [*ADDRESSES, "numpy", "pandas", "pyarrow"]
    found = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_what_is_imported_is_declared() -> None:
    """A package that only comes along with another one may go with it."""
    import tomllib
    from importlib.metadata import packages_distributions

    def plain(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *extras["fast"], *extras["pii"], *extras["dask"], *extras["ray"]]
    declared = {plain(re.split(r"[<>=;\[ ]", line)[0]) for line in asked}
    homes = packages_distributions()
    for path in sources():
        for name in {name.split(".")[0] for name in imported(path)} - sys.stdlib_module_names - {"prep_lib", "widgets"}:
            # IPython is only imported where a notebook already runs.
            found = {plain(home) for home in homes.get(name, [name])}
            assert found & declared or name == "IPython", f"{relative(path)} imports {name}"


def test_the_top_level_holds_what_the_design_says() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    allowed = {
        "notebooks", "prep_lib", "widgets", "tests", "assets", ".ci", "environment.yml", "README.md", "pyproject.toml",
        "requirements.lock", "Makefile", ".gitignore", "CHANGELOG.md", "LICENSE",
    }  # fmt: skip
    assert {line.split("/")[0] for line in tracked.stdout.splitlines()} <= allowed


def test_environment_yml_has_the_form_conda_reads() -> None:
    import yaml

    found = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    assert set(found) == {"name", "channels", "dependencies"}
    plain = [entry for entry in found["dependencies"] if isinstance(entry, str)]
    assert all(re.fullmatch(r"[a-z0-9-]+(=[\d.*]+)?", entry) for entry in plain)
    assert [entry for entry in found["dependencies"] if isinstance(entry, dict)] == [{"pip": ["-e .[dev]"]}]
    assert "python=3.11" in plain
