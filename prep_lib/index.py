"""The page of a whole run that a team reads first: what came in, what was kept, where everything is.

verdict      Finished. 9,043 documents came in, …     and each warning with what follows from it, the worst first
funnel       10_read ─▶ 11_clean ─▶ … ─▶ 15_pack      what one keeps the next has in, or a mark where not
notebooks    numbers, time, memory, what their results say
parameters   those that were changed                  all, folded
made with    versions, seeds, digests, files
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from prep_lib import funnel
from prep_lib.alerts import alerts, breaks, verdict
from prep_lib.facts import SERVED, Asked, Facts, facts
from prep_lib.files import write_whole
from prep_lib.ledger import Ledger
from prep_lib.markup import Html, card, document, duration, escape, fold, join, note, number, percent, size, table, tag
from prep_lib.recipes import Recipe
from prep_lib.report import cut, lines
from prep_lib.results import Numbers, numbers, of_way
from prep_lib.safe import Mask
from prep_lib.sheets import Sheets
from prep_lib.words import say
from prep_lib.workspace import Run

#: Rows of a CSV file at most, the largest counts first.
ROWS = 10_000

#: Characters of the recipe, and notes and results of a notebook, that are shown.
RECIPE, NOTES = 60_000, 12


def index(run: Run, recipe: Recipe | None = None) -> Path:
    """Make the page a team reads first.

    Returns
    -------
    Path
        ``reports/index.html``; the same run gives the same bytes.
    """
    found = facts(run, recipe)
    target = run.folder / "reports" / "index.html"
    sheets = Sheets(target.parent, "index", found.lang, Mask(run.root))
    sheets.forget()
    drawn = join(body(found, sheets))
    with write_whole(target, "w") as file:
        file.write(document(say("report.run", found.lang, name=run.name), drawn, found.lang))
    return target


def body(found: Facts, sheets: Sheets | None = None, *, links: bool = True) -> list[Html]:
    """Return the page in its parts, without the file around it.

    Parameters
    ----------
    found : Facts
    sheets : Sheets or None
        Where the numbers go as CSV; None: nowhere.
    links : bool
        False: no link leads to another page.
    """
    drawn, mask = _Index(found, sheets, links), Mask(found.run.root)
    parts = [
        tag("h1", say("report.run", found.lang, name=found.run.name)),
        drawn.verdict(),
        *drawn.ways(),
        drawn.notebooks(),
        drawn.changed(),
        drawn.made(),
        drawn.times(),
        drawn.notes(),
        drawn.recipe(),
    ]
    # Names of sources and reasons come from data and files: the pages are masked as they are drawn.
    return [Html(mask(part)) for part in parts]


class _Index:
    """The parts of the page, in their order."""

    def __init__(self, found: Facts, sheets: Sheets | None, links: bool) -> None:
        self.found, self.sheets, self.links, self.lang = found, sheets, links, found.lang

    def say(self, key: str, **values: Any) -> str:
        return say(f"index.{key}", self.lang, **values)

    def heads(self, *words: str) -> list[str]:
        return [say(word, self.lang) for word in words]

    def table(self, name: str, head: Sequence[object], rows: Iterable[Sequence[object]], words: int = 1) -> Html:
        """Return a table, the rows nobody would read left out, and the link to all of them."""
        rows = list(rows)
        link = self.sheets.link(name, head, rows[:ROWS]) if self.sheets and rows else Html()
        return join((table(head, rows[: funnel.ROWS], words=words), funnel.more(rows, self.lang), link))

    def link(self, name: str) -> Html:
        there = self.links and (self.found.run.folder / "reports" / f"{name}.html").is_file()
        return tag("a", name, href=f"{quote(name)}.html") if there else escape(name)

    # ── what to know first ───────────────────────────────────────────────────────────────────────────────────────────

    def verdict(self) -> Html:
        found = of_way(self.found.ledgers)
        shown = {
            "records": number(found.records), "kept": number(found.kept), "tokens": number(found.tokens),
            "efficiency": percent(found.efficiency),
        }  # fmt: skip
        told = [note(one.kind, one.text(self.lang)) for one in alerts(self.found)]
        whole = tag("p", tag("b", verdict(self.found, self.lang)))
        grid = table(self.heads(*(f"report.{key}" for key in shown)), [list(shown.values())], words=0)
        served = [text for texts in self.found.said.values() for text in texts if text.startswith(SERVED)]
        lines = join(tag("p", self.found.shown(text), cls="sub") for text in dict.fromkeys(served))
        calm = [] if told or not self.found.states else [note("ok", self.say("calm"))]
        return card("", whole, *calm, *told, grid if self.found.ledgers else Html(), lines)

    # ── the funnel ───────────────────────────────────────────────────────────────────────────────────────────────────

    def ways(self) -> Iterable[Html]:
        """Draw each way from its first notebook to its last; notebooks of one way share their first digit."""
        for first in dict.fromkeys(name[0] for name in self.found.ledgers):
            ledgers = {name: one for name, one in self.found.ledgers.items() if name[0] == first}
            yield self.way(first, ledgers)

    def way(self, first: str, ledgers: Mapping[str, Ledger]) -> Html:
        totals = {name: _added(ledger) for name, ledger in ledgers.items()}
        widest = max((funnel.entered(one, stage) for one in totals.values() for stage in one.stages), default=0)
        broken, drawn = breaks(self.found), []
        for name, ledger in ledgers.items():
            if name in broken:
                before, kept, into = broken[name]
                drawn.append(note("bad", self.say("break", before=before, after=name, kept=kept, into=into)))
            drawn.append(tag("h3", self.link(name) if "/" not in name else escape(name)))
            drawn.append(self.stages(ledger, totals[name], widest))
            drawn.append(funnel.balances(totals[name], self.lang))
        head = self.heads(
            "report.notebook", "report.stage", "in", "kept", "dropped", "failed", "share", "characters", "report.tokens"
        )
        rows = [(name, stage, *_counts(one, stage)) for name, one in totals.items() for stage in one.stages]
        all_of_it = fold(self.say("as_table"), self.table(f"funnel-{first}", head, rows, 2))
        why = fold(self.say("why"), self.table(f"reasons-{first}", self.heads(
            "report.notebook", "report.stage", "flow", "reason", "source", "documents", "characters"
        ), _lost(ledgers), 5))  # fmt: skip
        title = self.say("way", first=next(iter(ledgers)), last=list(ledgers)[-1])
        return card(title, funnel.legend(self.lang), *drawn, all_of_it, why)

    def stages(self, ledger: Ledger, totals: Ledger, widest: int) -> Html:
        """Draw the stages of a notebook in which something happened; those that passed everything on are named."""
        every = funnel.counted(totals)
        passed = [stage for stage in every if _passed(totals, stage)]
        drawn = [stage for stage in every if stage not in passed] or every[-1:]
        calm = tag("p", self.say("passed", names=", ".join(passed)), cls="dim small") if passed else Html()
        return join((calm, *(funnel.stage(ledger, stage, widest, self.lang) for stage in drawn)))

    # ── notebooks ────────────────────────────────────────────────────────────────────────────────────────────────────

    def notebooks(self) -> Html:
        """List each notebook with its state and its figures, and what its results say of themselves."""
        marks = {"done": "✓", "failed": "✗", "running": "…", "open": "·"}
        rows = []
        for name, (state, _) in self.found.states.items():
            mark = f"{marks.get(state, '!')} {say(f'report.state_{state}', self.lang)}"
            rows.append([self.link(name), mark, *self._figures(name)])
        head = self.heads(
            "report.notebook", "report.state", "report.records", "report.kept", "report.tokens", "index.rows",
            "index.shards", "index.seconds", "index.memory",
        )  # fmt: skip
        if not rows:
            return Html()
        said = [
            fold(self.say("says", name=name), tag("ul", *(tag("li", self.found.shown(line)) for line in told[:NOTES])))
            for name, told in self.found.outputs.items()
            if told
        ]
        return card(say("report.notebooks", self.lang), self.table("notebooks", head, rows, 2), *said)

    def _figures(self, name: str) -> list[object]:
        record = self.found.records.get(name, {})
        mine = [one for at, one in self.found.ledgers.items() if at.split("/")[0] == name]
        counted = numbers(mine[-1]) if mine else Numbers()
        shards = [
            shard for at, one in self.found.manifests.items() if at.split("/")[0] == name for shard in one["shards"]
        ]
        rows = sum(int(shard.get("sequences", 0)) for shard in shards)
        return [
            number(numbers(mine[0]).records) if mine else "–", number(counted.kept), number(counted.tokens),
            number(rows) if shards else "–", number(len(shards)) if shards else "–",
            duration(record["seconds"]) if "seconds" in record else "–",
            size(record["memory"]) if record.get("memory") else "–",
        ]  # fmt: skip

    # ── how it was made ──────────────────────────────────────────────────────────────────────────────────────────────

    def changed(self) -> Html:
        """List the parameters that are not the notebooks' own; all of them behind a click."""
        asked = self.found.asked
        if not any(one.known for one in asked.values()):
            return Html()
        head = self.heads("report.notebook", "report.parameter", "report.value", "index.default", "report.meaning")
        rows = [row for name, one in asked.items() for row in self._parameters(name, one, one.changed)]
        every = [row for name, one in asked.items() for row in self._parameters(name, one, list(one.known))]
        shown = self.table("changed", head, rows, 5) if rows else tag("p", self.say("unchanged"))
        more = fold(say("report.parameters", self.lang, n=len(every)), self.table("parameters", head, every, 5))
        return card(self.say("changed"), shown, more)

    def _parameters(self, notebook: str, one: Asked, names: Iterable[str]) -> Iterable[list[object]]:
        for name in names:
            if name != "run":
                own = one.known[name]
                shown = self.found.shown
                yield [notebook, name, shown(repr(one.used[name])), shown(repr(own.default)), shown(own.help)]

    def made(self) -> Html:
        """Say what wrote the run, what decided about chance, and the digests of what went in and came out."""
        told = [*self._versions(), *self._seeds(), *self._digests()]
        head = self.heads("index.what", "report.notebook", "report.value")
        shown = self.table("made", head, told, 3) if told else Html()
        files = [self._files(part, word) for part, word in (("inputs", "report.inputs"), ("outputs", "report.outputs"))]
        return card(self.say("made"), shown, *files) if told or any(files) else Html()

    def _versions(self) -> Iterable[list[object]]:
        found: dict[tuple[str, str], list[str]] = {}
        for notebook, versions in self.found.versions.items():
            for name, version in versions.items():
                found.setdefault((name, version), []).append(notebook)
        for (name, version), notebooks in found.items():
            everywhere = len(notebooks) == sum(name in one for one in self.found.versions.values())
            yield [name, self.say("all") if everywhere else ", ".join(notebooks), version]

    def _seeds(self) -> Iterable[list[object]]:
        found: dict[object, list[str]] = {}
        for name, one in self.found.asked.items():
            if "seed" in one.used:
                found.setdefault(one.used["seed"], []).append(name)
        for seed, names in found.items():
            yield ["seed", ", ".join(names), str(seed)]

    def _digests(self) -> Iterable[list[object]]:
        sums = {
            said["file"]: said["sha256"] for record in self.found.records.values() for said in record.get("outputs", ())
        }
        for name, manifest in self.found.manifests.items():
            tokenizer = manifest.get("tokenizer") or {}
            if tokenizer.get("sha256"):
                yield [
                    self.say("tokenizer", name=self.found.shown(tokenizer.get("name", ""))),
                    name,
                    tokenizer["sha256"],
                ]
            if file := sums.get(f"data/{name}/manifest.json"):
                yield ["manifest.json", name, file]
        for name, metadata in self.found.npz.items():
            if isinstance(metadata.get("digest"), dict):
                yield [self.say("digest"), name, str(metadata["digest"].get("after", {}).get("sum", ""))]

    def _files(self, part: str, word: str) -> Html:
        found = [said for record in self.found.records.values() for said in record.get(part, ())]
        rows = [[self.found.shown(said["file"]), said["bytes"], said["sha256"]] for said in found]
        head = [*self.heads("report.file", "report.bytes"), "sha256"]
        return fold(f"{say(word, self.lang)} ({len(rows):,})", self.table(part, head, rows)) if rows else Html()

    def times(self) -> Html:
        """Say what each notebook and each of its stages took."""
        records = self.found.records
        if not records and not self.found.times:
            return Html()
        rows = [
            [name, one.get("seconds"), one.get("start"), size(one["memory"]) if one.get("memory") else "–"]
            for name, one in records.items()
        ]
        head = self.heads("report.notebook", "index.wall", "index.start", "index.memory")
        total = sum(one.get("seconds", 0.0) for one in records.values())
        stages = [[one.notebook, one.stage, one.tasks, one.wall, one.work] for one in self.found.times]
        what = self.heads("report.notebook", "report.stage", "index.tasks", "index.wall", "index.work")
        return card(
            self.say("times"),
            tag("p", self.say("total", time=duration(total), n=len(records))) if records else Html(),
            self.table("times", head, rows) if rows else Html(),
            fold(self.say("stages", n=len(stages)), self.table("stages", what, stages, 2)) if stages else Html(),
        )

    def notes(self) -> Html:
        """List what the engine had to say while the notebooks ran last, each sentence once."""
        texts = [text for texts in self.found.said.values() for text in texts if not text.startswith(SERVED)]
        shown = list(dict.fromkeys(map(self.found.shown, texts)))
        items = tag("ul", *(tag("li", text) for text in shown[: funnel.ROWS]))
        return card(say("report.notes", self.lang), items, funnel.more(shown, self.lang)) if shown else Html()

    def recipe(self) -> Html:
        path = self.found.run.folder / "recipe.yaml"
        if not path.is_file():
            return Html()
        text = cut(path.read_text("utf-8", "replace"), RECIPE)
        return fold(say("report.recipe", self.lang), tag("pre", lines(Mask(self.found.run.root)(text))))


def _added(ledger: Ledger) -> Ledger:
    """Return the sums over all sources: there may be a million of them, and each number asks for all."""
    return ledger.under(dict.fromkeys(ledger.sources(), ""))


def _counts(ledger: Ledger, stage: str) -> list[object]:
    into, kept, dropped, failed = (ledger.total(stage, flow) for flow in ("in", "kept", "dropped", "failed"))
    written = ledger.total(stage, "written", unit="tokens")
    characters = ledger.total(stage, "kept", unit="characters")
    share = percent(kept, into)
    return [into, kept, dropped, failed, share, number(characters or None), number(written or None)]


def _passed(totals: Ledger, stage: str) -> bool:
    """Say whether a stage kept all that came in, as it was."""
    return all(
        found["in"] == found["kept"] and not any(n for flow, n in found.items() if flow not in ("in", "kept"))
        for found in (funnel.sums(totals, stage, unit) for unit in ("documents", "characters"))
    )


def _lost(ledgers: Mapping[str, Ledger]) -> Iterable[Sequence[object]]:
    rows = [
        (name, stage, flow, reason, source, n, ledger.characters[stage, flow, source, reason])
        for name, ledger in ledgers.items()
        for (stage, flow, source, reason), n in ledger.documents.items()
        if flow in ("dropped", "failed") and n
    ]
    return sorted(rows, key=lambda row: (-row[5], *map(str, row[:5])))
