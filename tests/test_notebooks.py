"""Every notebook has the shape of the house, and runs: in a recipe, by plain papermill, a second time in no time."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import prep
from IPython.core.interactiveshell import InteractiveShell

from prep_lib import verify
from prep_lib.recipes import parameters

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
#: What a notebook is asked for in the place of its defaults: choices that its parameters name.
CHOICES: list[tuple[str, dict[str, Any]]] = [
    ("11_clean", {"punctuation": True, "keep_languages": "en", "classifier_low": 0.5}),
    ("11_clean", {"rules": "gopher/datatrove", "force": True, "look_at": 1}),
    ("12_dedup", {"lines": True, "hash_text": "collapse", "keep": "first"}),
    ("12_dedup", {"shingle": "char5", "threshold": 1.0, "pairs": 0}),
    ("13_mix", {"pii_action": "drop", "unit": "paragraph", "renumbered": "drop"}),
    ("13_mix", {"pii_kinds": "none", "weights": "unimax", "max_epochs": 2.0, "budget": "100000"}),
    ("14_tokenize", {"byte_fallback": True, "special_tokens": "<a> <b>", "vocab_size": 2000}),
    ("15_pack", {"packing": "best_fit", "seq_len": 64, "format": "h5"}),
    ("15_pack", {"packing": "best_fit_split", "seq_len": 64, "format": "npz"}),
    ("15_pack", {"tail": "pad", "seq_len": 100_000, "format": "npz"}),
    ("20_export", {"chunk_size": 7, "nan": "null", "binary": "base64"}),
    ("21_templates", {"template": "", "strategy": "alpaca", "answers": "last"}),
    ("21_templates", {"max_length": 64, "too_long": "cut_turns", "weights": True}),
    ("22_tensorize", {"pack_size": 64, "too_long": "cut_turns"}),
    ("22_tensorize", {"pack_size": 0, "shard_size": 700}),
    ("22_tensorize", {"packing": "best_fit_split", "max_length": 64, "too_long": "cut"}),
    ("22_tensorize", {"template": "chatml", "weights": True, "packing": "concat", "tail": "drop"}),
    ("30_preshuffle", {"shard_size": 7, "audit_rows": 1, "sample": 100}),
]

#: Bytes of one output; a notebook of more is slow to open and to share.
LARGEST = 300_000


def cells(path: Path, kind: str) -> list[dict]:
    return [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == kind]


def source(cell: dict) -> str:
    return "".join(cell["source"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_shape(path: Path) -> None:
    code = cells(path, "code")
    assert source(json.loads(path.read_text("utf-8"))["cells"][0]).startswith("# " + path.name[:2])
    assert [at for at, cell in enumerate(code) if "parameters" in cell["metadata"].get("tags", [])] == [1]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)
    assert "widgets" not in json.loads(path.read_text("utf-8"))["metadata"]
    for cell in code:
        tree = ast.parse(source(cell))
        assert not any(isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda) for node in ast.walk(tree))
        assert len(source(cell).splitlines()) <= 32, f"a cell of {path.name} is too long"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_parameters_are_plain_and_explained(path: Path) -> None:
    found = parameters(path)
    assert {"run", "lang"} <= set(found)
    for name, parameter in found.items():
        assert isinstance(parameter.default, str | int | float | bool), name
        assert parameter.help, f"{path.name}: {name} has no comment"


def test_one_name_means_the_same_on_the_whole_way() -> None:
    """Notebooks of one way share their first digit, and what Apply writes goes to all of them."""
    kinds: dict[tuple[str, str], type] = {}
    for path in NOTEBOOKS:
        for name, parameter in parameters(path).items():
            kind = kinds.setdefault((path.name[0], name), type(parameter.default))
            assert kind is type(parameter.default), f"{path.name}: {name}"


def test_the_demo_leaves_a_report_for_every_notebook(demo: Path) -> None:
    pages = {path.stem for path in (demo / "reports").glob("*.html")}
    assert pages == {"index", *(path.stem for path in NOTEBOOKS)}
    for page in (demo / "reports").glob("*.html"):
        text = page.read_text("utf-8")
        assert "<script" not in text
        assert str(Path.home()) not in text
        assert str(demo.parents[1]) not in text
        assert "Content-Security-Policy" in text
    assert not verify(demo / "data" / "22_tensorize")


def test_no_output_is_large_and_none_is_an_error(demo: Path) -> None:
    for path in (demo / "executed").glob("*.ipynb"):
        for cell in cells(path, "code"):
            for output in cell["outputs"]:
                assert output["output_type"] != "error"
                assert len(json.dumps(output)) < LARGEST, f"{path.name}: {source(cell)[:60]}"


def test_a_second_run_executes_nothing(demo: Path, demo_workspace: Path) -> None:
    before = {path: path.read_bytes() for path in (demo / "reports").rglob("*.*") if path.is_file()}
    done = prep("run", "demo", cwd=demo_workspace)
    assert done.returncode == 0, done.stderr
    assert re.search(rf"0 notebooks? run, {len(NOTEBOOKS)} already done", done.stdout), done.stdout
    assert {path: path.read_bytes() for path in (demo / "reports").rglob("*.*") if path.is_file()} == before


def test_plain_papermill_does_the_same(demo: Path, demo_workspace: Path, tmp_path: Path) -> None:
    shutil.copytree(demo, demo_workspace / "runs" / "plain")
    shutil.rmtree(demo_workspace / "runs" / "plain" / "data" / "22_tensorize")
    notebook = demo_workspace / "notebooks" / "22_tensorize.ipynb"
    command = [sys.executable, "-m", "papermill", str(notebook), str(tmp_path / "out.ipynb"), "-p", "run", "plain"]
    environment = {**os.environ, "JUPYTER_PREFER_ENV_PATH": "1"}
    done = subprocess.run(command, cwd=demo_workspace, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    ours, theirs = (demo_workspace / "runs" / run / "data" / "22_tensorize" for run in ("demo", "plain"))
    for path in ours.iterdir():
        if path.is_file():
            assert path.read_bytes() == (theirs / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    ("name", "values"), CHOICES, ids=[f"{name} {' '.join(map(str, values.values()))}" for name, values in CHOICES]
)
def test_what_holds_is_not_true_of_the_defaults_only(
    demo: Path, demo_workspace: Path, monkeypatch: pytest.MonkeyPatch, name: str, values: dict[str, Any]
) -> None:
    monkeypatch.chdir(demo_workspace)
    run = demo_workspace / "runs" / "choices"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(demo, run, ignore=shutil.ignore_patterns(name))
    given = {"run": "choices", "workers": 1, "engine": "inline", **values}
    known = parameters(ROOT / "notebooks" / f"{name}.ipynb")
    assert values.keys() <= known.keys()
    shell = InteractiveShell()
    for cell in cells(ROOT / "notebooks" / f"{name}.ipynb", "code"):
        put_in = given if "parameters" in cell["metadata"].get("tags", []) else {}
        lines = [f"{key} = {value!r}" for key, value in put_in.items() if key in known]
        done = shell.run_cell("\n".join([source(cell), *lines]))
        assert done.success, f"{source(cell)[:200]}\n{done.error_before_exec or done.error_in_exec!r}"
