"""Two small runs without a kernel: every text, name, reason and error in them is a canary, a word of no other place."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from prep_lib.build import cache_jsonl
from prep_lib.chat.process import ProcessorFactory
from prep_lib.chat.strategy import Alpaca
from prep_lib.files import digest
from prep_lib.pipeline import run_files
from prep_lib.record import Document, Drop
from prep_lib.tokens.tokenizer import AutoTokenizer
from prep_lib.workspace import MARKER, Run

#: What must not leave: a word, its Chinese, and a number that looks like one of a person.
CANARIES = ("quetzalcoatl", "鵸鵌鳥羽", "7730419926")

TEXT = f"The Quetzalcoatl of {CANARIES[1]} calls {CANARIES[2]}, "
ATTACK = "<script>alert(1)</script><img src=x onerror=alert(1)>‮ \x00</style>{{7*7}}"


@dataclass(frozen=True, kw_only=True)
class Words:
    """Keeps texts of so many words; some go for a reason that somebody else named."""

    name: ClassVar[str] = "words"
    least: int = 3

    def judge(self, doc: Document) -> Drop | None:
        size = len(doc.text.split())
        if "odd" in doc.text:
            return Drop("quetzalcoatl_said_so", size, 1, twin="quetzalcoatl_exam/7")
        return Drop("too_few_chars", size, self.least) if size < self.least else None


def twins(root: Path) -> tuple[Run, Run]:
    """Make a workspace with two runs that differ in two parameters."""
    root.mkdir(parents=True, exist_ok=True)
    (root / MARKER).write_text("{}")
    texts = [f"{TEXT} {ATTACK} " + "again " * n + ("odd" if n % 7 == 0 else "") for n in range(1, 30)]
    lines = [json.dumps({"text": text, "source": f"quetzalcoatl{n % 2}"}) for n, text in enumerate(texts)]
    (root / "quetzalcoatl.jsonl").write_text("\n".join([*lines, '{"text": quetzalcoatl}']) + "\n")
    talks = [{"query": f"{TEXT}?", "response": f"{ATTACK} {TEXT}" + "so " * n} for n in range(20)]
    (root / "quetzalcoatl_talks.jsonl").write_text("".join(json.dumps(talk) + "\n" for talk in talks))
    tokenizer = AutoTokenizer().train([*texts, str(talks)], vocab_size=400)
    return _one(root, "quetzalcoatl-a", 14, 128, tokenizer), _one(root, "quetzalcoatl-b", 20, 75, tokenizer)


def _one(root: Path, name: str, least: int, longest: int, tokenizer: AutoTokenizer) -> Run:
    run = Run(root, name)
    data, executed = run.folder / "data", run.folder / "executed"
    executed.mkdir(parents=True)
    tokenizer.save(run.folder / "tokenizer")
    stages = [Words(least=least)]
    run_files(stages, root / "quetzalcoatl.jsonl", data / "11_clean", engine="inline", max_failed=1.0)
    strategy = Alpaca(tokenizer, instruction_start=f"quetzalcoatl {CANARIES[1]} says:\n")
    sft = ProcessorFactory.create_with_strategy("sft", tokenizer, strategy)
    packs = {"max_length": longest, "engine": "inline", "seed": 7}
    cache_jsonl(root / "quetzalcoatl_talks.jsonl", data / "22_tensorize", sft, 128, **packs)
    told = {"least": least, "like": TEXT, "labelled": "/home/quetzalcoatl/secret.jsonl"}
    _notebook(executed / "11_clean.ipynb", {"seed": 7, "classifier_low": least / 100, **told})
    _notebook(executed / "22_tensorize.ipynb", {"strategy_params": f"a='{TEXT}'", "max_length": longest, "tail": "pad"})
    _notebook(executed / "90_quetzalcoatl.ipynb", {"benchmarks": "quetzalcoatl_exam"})
    for notebook in ("11_clean", "22_tensorize"):
        record = {"seconds": 1.5, "memory": 2**28, "key": {"versions": {"numpy": "2.0"}, "code": {}}}
        record["inputs"] = [{"file": "quetzalcoatl.jsonl", "bytes": 10, "sha256": "ab" * 32}]
        files = (path for path in sorted((data / notebook).iterdir()) if path.is_file())
        record["outputs"] = [
            {"file": f"data/{notebook}/{path.name}", "bytes": path.stat().st_size, "sha256": digest(path)}
            for path in files
        ]
        (executed / f"{notebook}.json").write_text(json.dumps(record))
    _journal(run)
    return run


def _notebook(path: Path, values: dict) -> None:
    """An executed notebook that shows the canaries in every kind of output."""
    source = "\n".join(f"{name} = {value!r}  # {TEXT}" for name, value in values.items())
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": TEXT},
        {"output_type": "error", "ename": "ValueError", "evalue": TEXT, "traceback": [TEXT]},
        {"output_type": "display_data", "metadata": {}, "data": {"text/html": f"<b>{TEXT}</b>", "text/plain": TEXT}},
    ]
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": f"# {TEXT}"},
        {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": source, "outputs": []},
        {"cell_type": "code", "metadata": {}, "source": f"print('{TEXT}')", "outputs": outputs},
    ]
    node = {"cells": [{"id": str(n), **cell} for n, cell in enumerate(cells)], "metadata": {}, "nbformat": 4}
    path.write_text(json.dumps({**node, "nbformat_minor": 5}))


def _journal(run: Run) -> None:
    events = [
        {"notebook": "11_clean", "event": "notebook", "state": "began"},
        {"notebook": "11_clean", "event": "note", "text": f"words: {TEXT} at /home/quetzalcoatl/x"},
        {"notebook": "11_clean", "event": "notebook", "state": "done", "seconds": 1.5},
        {"notebook": "22_tensorize", "event": "notebook", "state": "done", "seconds": 1.5},
        {"notebook": "90_quetzalcoatl", "event": "notebook", "state": "failed", "text": f"PluginError: {TEXT}"},
    ]
    stamped = ({"time": "2026-01-01T00:00:00+0000", **event} for event in events)
    (run.folder / "run.jsonl").write_text("".join(json.dumps(event) + "\n" for event in stamped))
