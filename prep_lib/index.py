"""The page of a whole run that a team reads first: what came in, what was kept, where everything is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from prep_lib import markup
from prep_lib.files import write_whole
from prep_lib.ledger import Ledger
from prep_lib.markup import Html, Part, card, document, escape, fold, join, note, percent, table, tag
from prep_lib.recipes import Recipe
from prep_lib.report import SERVED, lang_of, lines, served, versions
from prep_lib.results import Numbers, ledgers, record, states, summary
from prep_lib.safe import Mask
from prep_lib.words import say
from prep_lib.workspace import Run, read_events


def index(run: Run, recipe: Recipe | None = None) -> Path:
    """Make the page a team reads first: what came in, what was kept, where everything is.

    Returns
    -------
    Path
        ``reports/index.html``; the same run gives the same bytes.
    """
    lang = lang_of(
        {"lang": next((step.values["lang"] for step in recipe.steps if "lang" in step.values), "")} if recipe else {}
    )
    mask = Mask(run.root)
    names = [step.notebook for step in recipe.steps] if recipe else []
    state = states(run, names)
    records = {name: record(Run(run.root, run.name, name)) or {} for name in state}
    failed = [text for kind, text in state.values() if kind == "failed"]
    body = [
        tag("h1", say("report.title", lang, name=run.name)),
        *(note("bad", tag("b", "FAILED"), " ", mask(text)) for text in failed),
        _cards(summary(run), lang),
        served(run, mask),
        _notebook_table(run, state, lang),
        *(_funnel(name, ledger, lang) for name, ledger in ledgers(run).items()),
        _file_table(say("report.inputs", lang), _united(records, "inputs"), lang),
        _file_table(say("report.outputs", lang), _united(records, "outputs"), lang),
        _notes(run, mask, lang),
        _recipe_text(run, mask, lang),
        versions(lang),
    ]
    target = run.folder / "reports" / "index.html"
    with write_whole(target, "w") as file:
        file.write(document(say("report.title", lang, name=run.name), join(body), lang))
    return target


def _cards(found: Numbers, lang: str) -> Html:
    shown = {
        "records": markup.number(found.records), "kept": markup.number(found.kept),
        "tokens": markup.number(found.tokens), "efficiency": percent(found.efficiency),
    }  # fmt: skip
    return card(
        "", table([say(f"report.{key}", lang) for key in shown], [[tag("b", value) for value in shown.values()]])
    )


def _notebook_table(run: Run, state: Mapping[str, tuple[str, str]], lang: str) -> Html:
    marks = {"done": "✓", "failed": "✗", "running": "…", "open": "·"}
    rows = [
        [_link(run, name), f"{marks.get(kind, '!')} {say(f'report.state_{kind}', lang)}"]
        for name, (kind, _) in state.items()
    ]
    return card(
        say("report.notebooks", lang), table([say("report.notebook", lang), say("report.state", lang)], rows, words=2)
    )


def _link(run: Run, name: str) -> Html:
    there = (run.folder / "reports" / f"{name}.html").is_file()
    return tag("a", name, href=f"{quote(name)}.html") if there else escape(name)


def _funnel(name: str, ledger: Ledger, lang: str) -> Html:
    """Draw what each stage of a notebook kept, dropped and failed, and why."""
    flows = ("kept", "dropped", "failed")
    rows, whys = [], []
    for stage in ledger.stages:
        into, *n = (ledger.total(stage, flow) for flow in ("in", *flows))
        if into or any(n):
            parts = [Part(flow, count, f"{flow} {count:,}") for flow, count in zip(flows, n, strict=True)]
            drawn = tag("div", markup.bar(parts, sum(n), f"{stage}: {n[0]:,} of {into:,}"), style="min-width:14em")
            rows.append([stage, into, *n, percent(n[0], into), drawn])
        for flow in flows[1:]:
            whys += [[stage, say(flow, lang), why, count] for why, count in ledger.reasons(stage, flow).items()]
    heads = [say("report.stage", lang), *(say(flow, lang) for flow in ("in", *flows)), say("share", lang), ""]
    reasons = table([say(key, lang) for key in ("report.stage", "flow", "reason", "documents")], whys, words=3)
    why = fold(say("report.why", lang), reasons) if whys else Html()
    return card(say("report.counted", lang, name=name), table(heads, rows), why)


def _united(records: Mapping[str, dict[str, Any]], part: str) -> list[dict[str, Any]]:
    return [said for record in records.values() for said in record.get(part, [])]


def _file_table(title: str, found: Sequence[Mapping[str, Any]], lang: str) -> Html:
    rows = [[said["file"], said["bytes"], tag("code", said["sha256"])] for said in found]
    heads = [say("report.file", lang), say("report.bytes", lang), "sha256"]
    return fold(f"{title} ({len(rows)})", table(heads, rows)) if rows else Html()


def _notes(run: Run, mask: Mask, lang: str) -> Html:
    """List what the engine had to say while the notebooks ran last, each sentence once."""
    said: dict[str, list[str]] = {}
    for event in read_events(run.folder)[0]:
        if event.get("event") == "note" and not str(event["text"]).startswith(SERVED):
            said.setdefault(event.get("notebook", ""), []).append(mask(event["text"]))
        elif event.get("event") == "notebook" and event["state"] == "began":
            said[event["notebook"]] = []  # what was said before belongs to what this one replaces
    texts = dict.fromkeys(text for each in said.values() for text in each)
    return card(say("report.notes", lang), tag("ul", *(tag("li", text) for text in texts))) if texts else Html()


def _recipe_text(run: Run, mask: Mask, lang: str) -> Html:
    path = run.folder / "recipe.yaml"
    return (
        fold(say("report.recipe", lang), tag("pre", lines(mask(path.read_text("utf-8"))))) if path.is_file() else Html()
    )
