"""One corpus of texts that want to run, ask, break or mislead, and a run in which every place holds all of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prep_lib.index import index
from prep_lib.ledger import Ledger
from prep_lib.report import report
from prep_lib.workspace import MARKER, Run

#: Nobody listens there; whoever asks is seen.
ASK = "http://127.0.0.1:9/x"
#: What a script would do; a page's title is never that.
RUN = "document.title='broken'"

#: Each wants to get out of the place it stands in by another door.
ATTACKS = {
    "script": f"</title></style></textarea></pre></script><script>{RUN}</script>",
    "handler": f"<img src='{ASK}' onerror=\"{RUN}\"><body onload={RUN}><svg onload={RUN}>",
    "attribute": f"\" onfocus={RUN} autofocus x=\"' onmouseover='{RUN}' style='position:fixed;inset:0",
    "address": f"<a href='java\nscript:{RUN}'>a</a><a href='data:text/html,<script>{RUN}</script>'>b</a>",
    "frame": f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe><object data='{ASK}'></object><embed src={ASK}>",
    "unfinished": f"<img src={ASK} onerror={RUN} ",
    "comment": f"<!--><img src={ASK} onerror={RUN}>--><!-- <![CDATA[ <? ",
    "svg": f"<svg><style><img src={ASK} onerror={RUN}></style><script>{RUN}</script>"
    f"<animate attributeName=href values='javascript:{RUN}'/><use href='{ASK}#a'/><image href='{ASK}'/></svg>",
    "mutation": f"<math><mtext><table><mglyph><style><!--</style><img title='--><img src={ASK} onerror={RUN}>'>",
    "css": f"<style>@import '{ASK}';*{{background:url({ASK})}}</style><p style='background:u\\72l({ASK})'>c</p>",
    "cover": "<style>} main,body{display:none!important} @scope (.out){</style>"
    "<style>*{position:fixed;inset:0;background:red}</style><div style='position:fixed;inset:0'>over</div>",
    "closers": "</div></section></main></body></html></table></details>",
    "swallow": "<textarea><select><plaintext><xmp><noscript><template>",
    "meta": f"<meta http-equiv=refresh content='0;url={ASK}'><base href='{ASK}'><link rel=stylesheet href={ASK}>",
    "form": f"<form action={ASK}><input autofocus onfocus={RUN}><button formaction=javascript:{RUN}>go</button></form>",
    "template": "{{ 7 * 7 }} {% for i in range(9**9) %}x{% endfor %} ${7*7} {0.__class__} %s %(a)s",
    "formula": "=HYPERLINK(\"http://127.0.0.1:9/x\";\"a\")",
    "bidi": "a\u202eb\u2066c\u2067d\u061ce\u200f",
    "nul": "a\x00b\x07\x1b[31mc\x7f\u2028d\ufffe",
    "surrogate": "a\ud800b\udfffc",
    "long": "W" * 900,
    "tall": "字\n" * 40,
    "entity": "&lt;script&gt;&#60;script&#62;&amp;lt;&#x202e;&rlm;&nosuch;&#99999999;",
    "path": "/home/mallory/secret.txt C:\\Users\\mallory\\x /Users/mallory/y /root/z",
    "secret": "https://mallory:hunter2@example.org/a dask:tcp://node-17.cluster:8786",
    "traceback": "Traceback (most recent call last):\n  File '/home/mallory/a.py', line 3, in f\n    g()\nValueError",
}  # fmt: skip
EVIL = " ".join(ATTACKS.values())

#: A name a file may really have.
NAME = "=<script>alert(1)<img src=x onerror=alert(1)>&amp;\u202e'\".jsonl"

#: What no page may tell.
SECRET = ("mallory", "hunter2", "node-17", "Traceback (most recent")


def hostile_run(folder: Path, lang: str = "en", more: str = "") -> Run:
    """Make a run in which documents, sources, stages, reasons, parameters, notes, errors and outputs are attacks.

    With `more`, an attack, it is not the same run: it lost other documents, for another reason, with another parameter.
    """
    (folder / MARKER).write_text("{}")
    run = Run(folder, "hostile-1.0", "10_read")
    for part in ("data/10_read", "data/11_clean", "executed", "reports"):
        (run.folder / part).mkdir(parents=True)
    _count(run, more)
    _write_notebook(run, lang, more)
    files = [{"file": f"data/10_read/{NAME}", "bytes": 3, "sha256": "a" * 64}]
    record = {"key": {"versions": {"numpy": EVIL}}, "seconds": 3.5, "memory": 10**9, "inputs": files, "outputs": files}
    (run.folder / "executed/10_read.json").write_text(json.dumps(record))
    manifest = {"shards": [{"file": NAME, "sequences": 3}], "tokenizer": {"name": EVIL, "sha256": EVIL}}
    (run.data / "manifest.json").write_text(json.dumps(manifest))
    # A recipe is written by people, and a comment in it may hold anything that is UTF-8.
    recipe = f"# {EVIL}\nname: {EVIL}\n".encode("utf-8", "replace") + b"\xff\xfe"
    (run.folder / "recipe.yaml").write_bytes(recipe)
    run.note({"event": "notebook", "state": "began"})
    run.note({"event": "note", "text": f"tokenizer: {EVIL}"})
    for text in ATTACKS.values():
        run.note({"event": "note", "text": text})
    run.note({"event": "task", "stage": EVIL, "name": EVIL, "done": 1, "tasks": 1, "seconds": 1.0})
    run.note({"event": "notebook", "state": "failed", "text": f"10_read ({EVIL}): cell 3: {EVIL}"})
    report(run.folder / "executed/10_read.ipynb", run)
    index(run)
    return run


def _count(run: Run, more: str) -> None:
    """Write ledgers whose every name is an attack, and of which the second has not in what the first one kept."""
    for name, n in (("10_read", 100), ("11_clean", 90)):
        ledger = Ledger()
        for stage in ("read", EVIL):
            for source in ("web", *ATTACKS.values()):
                ledger.add(stage, "in", source, documents=n, characters=n)
                ledger.add(stage, "kept", source, documents=n - 60, characters=n)
                for reason in (EVIL, NAME + more):
                    ledger.add(stage, "dropped", source, reason, documents=20)
                ledger.add(stage, "failed", source, EVIL, documents=20)
        ledger.add_tokens(EVIL, "content", 10, EVIL)
        (run.folder / "data" / name / "ledger.json").write_text(json.dumps(json.loads(ledger.to_json())))


def _write_notebook(run: Run, lang: str, more: str) -> None:
    one_line = " ".join(ATTACKS["script"].split())
    cells = [
        cell("markdown", f"# {EVIL}\n\n{EVIL}\n\n![a]({ASK}) [b](javascript:{RUN})"),
        cell("code", f'lang = "en"  # language\nfiles = ""  # {one_line}', "parameters"),
        cell("code", f"lang = {lang!r}\nfiles = {EVIL + more!r}", "injected-parameters"),
        *(cell("code", EVIL, outputs=outputs(attack)) for attack in (*ATTACKS.values(), EVIL)),
    ]
    # As JSON: nbformat refuses a broken surrogate, and takes seconds to be imported.
    notebook = {"cells": cells, "metadata": {"prep": {"failed": EVIL, "version": EVIL}}, "nbformat": 4}
    (run.folder / "executed/10_read.ipynb").write_text(json.dumps(notebook))


def cell(kind: str, source: str, *tags: str, outputs: Sequence[Any] = ()) -> dict[str, Any]:
    """Return a cell as it stands in an executed notebook."""
    return {"cell_type": kind, "source": source, "metadata": {"tags": list(tags)}, "outputs": list(outputs)}


def outputs(attack: str) -> list[dict[str, Any]]:
    """Return what a cell may show, of every kind, each with an attack in it."""
    table = f"<table class='dataframe'><tr><th>{attack}</th><th>n</th></tr><tr><td>{attack}</td><td>3</td></tr></table>"
    datas = [
        {"text/html": attack}, {"text/html": table}, {"text/markdown": attack}, {"text/plain": attack},
        {"image/svg+xml": f"<svg xmlns='http://www.w3.org/2000/svg'>{attack}</svg>", "text/plain": attack},
        {"image/png": attack, "text/plain": attack},
    ]  # fmt: skip
    shown = [{"output_type": "display_data", "data": data} for data in datas]
    error = {"output_type": "error", "ename": attack, "evalue": attack, "traceback": [attack]}
    return [*shown, {"output_type": "stream", "text": attack}, error]
