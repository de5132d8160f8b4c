"""A run, or two of them compared, as one file to send, and a page of PDF: nothing leaves that was not meant to.

    samples    none     numbers alone: no text of a document, a template or a token
               masked   texts as shapes: "Call Ann, 42!" is "Xxxx Xxx, 00!"; names are #1, #2.jsonl
               full     the pages of the run as they are

    Side ──Disguise──▶ Section, Section, … ──fit──▶ share-masked.html   one file under 2 MB, no neighbours, no script
                                           └──────▶ share-masked.pdf    one page

With none and masked no page of a notebook is opened: what is drawn comes from counts, manifests and what was rejected,
each through `disguise`. So what a notebook printed, a plugin raised or a template wrote has no way into the file.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import orjson

from prep_lib import contrast, funnel, onepage, rejected
from prep_lib import index as index_page
from prep_lib.alerts import Alert, alerts, verdict
from prep_lib.comparison import Comparison, Side
from prep_lib.disagree import levels
from prep_lib.disguise import Disguise
from prep_lib.documents import Documents
from prep_lib.errors import BadParameter, PrepError
from prep_lib.facts import read_executed
from prep_lib.files import Span, natural, read_lines, write_whole
from prep_lib.markup import (
    Html,
    card,
    document,
    duration,
    escape,
    fold,
    join,
    note,
    number,
    percent,
    size,
    table,
    tag,
)
from prep_lib.report import body as report_body
from prep_lib.results import numbers
from prep_lib.safe import Mask
from prep_lib.seeds import key as draw
from prep_lib.shards.formats import open_shard
from prep_lib.trace import own_tokenizer
from prep_lib.words import say
from prep_lib.workspace import Run

#: What may be shown of texts.
SAMPLES = ("none", "masked", "full")

#: The file stays below this, bytes.
LIMIT = 2_000_000

#: What is left out first when it does not: samples, then long tables, then pages of notebooks.
ORDER = ("sample", "table", "page")

#: Texts of one reason, documents that were kept, and reasons; characters of a text; tokens of a row.
EACH, KEPT, REASONS, CHARACTERS, TOKENS = 2, 5, 40, 600, 400

#: Documents looked at for a sample of those that were kept.
LOOKED_AT = 2000

#: Rows of a table.
ROWS = 200

#: Warnings on the page of PDF: so many of the worst, and the first of each that says that this is not all of the data,
#: or no result yet.
WARNINGS, PARTIAL = 6, ("older", "values", "running", "open", "sample", "built_in")


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Parameters
    ----------
    name : str
        What a link jumps to.
    title : str
    html : str
    kind : str
        ``head`` is always there; the others go in the `ORDER` of their kinds, the largest first.
    """

    name: str
    title: str
    html: Html
    kind: str = "head"


def share(
    run: Run,
    found: Comparison | None = None,
    *,
    samples: str = "masked",
    names: bool = False,
    lang: str = "",
    out: str | Path | None = None,
    limit: int = LIMIT,
) -> tuple[Path, Path]:
    """Write a run into one HTML file and a PDF of one page.

    Parameters
    ----------
    run : Run
    found : Comparison or None
        With another run, of which `run` is the first; None: the run alone.
    samples : str
        One of `SAMPLES`.
    names : bool
        True: files, sources, runs and ids by their own names; with ``full`` they always are.
    lang : str
        Empty: that of the run.
    out : path or None
        The HTML file; the PDF goes beside it. None: ``reports/share-SAMPLES.html``.
    limit : int, bytes
        The HTML file stays below it.

    Returns
    -------
    (Path, Path)
        HTML and PDF; the same run gives the same bytes.

    Raises
    ------
    BadParameter
        If `samples` is no such word.
    """
    if samples not in SAMPLES:
        raise BadParameter(f"share: samples is one of {', '.join(SAMPLES)}; got {samples!r}")
    target = Path(out) if out else run.folder / "reports" / f"share-{samples}.html"
    if target.suffix != ".html":
        raise BadParameter(f"share: the file must end in .html, got {target.name!r}; the PDF goes beside it")
    side = found.one if found else Side(run)
    lang = lang or side.facts.lang
    disguise = Disguise(texts=samples == "masked", names=Mask(run.root) if names else None)
    story = (_Open if samples == "full" else _Hidden)(side, found, disguise, lang)
    title = say("share.title", lang, name=story.name)
    page = fit(title, story.sections(samples), lang, limit)
    target.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(target, "w") as file:
        file.write(page)
    pdf = target.with_suffix(".pdf")
    onepage.write(pdf, title, list(story.blocks()), lang)
    return target, pdf


# ── one file ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def fit(title: str, sections: Sequence[Section], lang: str, limit: int = LIMIT) -> str:
    """Put sections into one page, and leave out what makes it too large: by kind, the largest first; it is said.

    Examples
    --------
    >>> small, large = Section("a", "A", Html("<p>a</p>")), Section("b", "B", Html("<p>b</p>" * 9000), "sample")
    >>> page = fit("T", [small, large], "en", limit=60_000)
    >>> "<p>a</p>" in page, "<p>b</p>" in page, len(page) < 60_000
    (True, False, True)
    """
    left: list[Section] = []
    while True:
        shown = [section for section in sections if section not in left]
        page = document(title, join(_assembled(title, shown, left, lang)), lang)
        over = len(page.encode()) >= limit
        droppable = [section for section in shown if section.kind in ORDER]
        if not over or not droppable:
            return page
        left.append(min(droppable, key=lambda each: (ORDER.index(each.kind), -len(each.html), each.name)))


def _assembled(title: str, shown: Sequence[Section], left: Sequence[Section], lang: str) -> Iterator[Html]:
    yield tag("h1", title, id="top")
    if left:
        names = ", ".join(f"{section.title} ({size(len(section.html))})" for section in left)
        yield note("warn", say("share.left_out", lang, what=names))
    links = [tag("a", section.title, href=f"#{section.name}") for section in shown if section.title]
    yield tag("nav", join(links, " · "), cls="sub", aria_label=say("share.contents", lang))
    known = {section.name for section in shown}
    for section in shown:
        drawn = Html(f"<style>{_TABLES}</style>") if section is shown[0] else Html()
        yield join([drawn, tag("section", Html(_alone(section, known)), id=section.name)])


#: Tables of notebooks bring none of our classes; nothing may be wider than the page.
_TABLES = (
    ".prep table.dataframe{border-collapse:collapse;border:0;font-size:13px}"
    ".prep img,.prep svg{max-width:100%}.prep section{max-width:100%;min-width:0}"
    ".prep nav{overflow-wrap:normal}"
)


def _alone(section: Section, known: set[str]) -> str:
    """Return a section whose marks and links do not meet those of others, and that leads nowhere outside the file."""
    reader = _Links(section.name, known)
    reader.feed(section.html)
    reader.close()
    return "".join(reader.out)


class _Links(HTMLParser):
    """Copies HTML; what is jumped to gets the name of its section in front, and pages of the run become sections."""

    def __init__(self, name: str, known: set[str]) -> None:
        super().__init__(convert_charrefs=False)
        self.name, self.known = name, known
        self.out: list[str] = []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        written = self.get_starttag_text() or ""
        for key, value in attributes:
            new = self._changed(name, key, value or "")
            if new != value:
                old = re.escape(value or "")
                form = rf"(\s){key}=(\"{old}\"|'{old}'|{old}(?=[\s>]))"
                written = re.sub(form, rf'\1{key}="{new}"' if new else r"\1", written)
        self.out.append(written)

    def _changed(self, name: str, key: str, value: str) -> str:
        if key in ("id", "for", "aria-labelledby", "aria-describedby"):
            return f"{self.name}-{value}"
        if key != "href" or name != "a" or value.startswith(("https:", "http:", "mailto:")):
            return value
        if value.startswith("#"):
            return f"#{self.name}-{value[1:]}"
        page = value.removesuffix(".html")
        return f"#{page}" if page in self.known else ""

    def handle_endtag(self, name: str) -> None:
        self.out.append(f"</{name}>")

    def handle_data(self, data: str) -> None:
        self.out.append(data)

    def handle_entityref(self, name: str) -> None:
        self.out.append(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.out.append(f"&#{name};")


# ── what is told ─────────────────────────────────────────────────────────────────────────────────────────────────────


class _Story:
    """What a run tells, in sections and in blocks of one page."""

    def __init__(self, side: Side, found: Comparison | None, disguise: Disguise, lang: str) -> None:
        self.real, self.disguise, self.lang, self.mask = side, disguise, lang, Mask(side.run.root)
        self.found = self._compared(found) if found else None
        self.side = self.found.one if self.found else self._told(side)
        self.name = self.side.name

    def _told(self, side: Side) -> Side:
        return side

    def _compared(self, found: Comparison) -> Comparison:
        return found

    def warnings(self) -> list[Alert]:
        """What there is to know before the run is used."""
        return alerts(self.real.facts)

    def verdict(self) -> str:
        """One sentence, made of words and numbers."""
        return verdict(self.real.facts, self.lang)

    def sections(self, samples: str) -> list[Section]:
        raise NotImplementedError

    def comparison(self) -> Iterator[Section]:
        """The comparison, if there is one."""
        if self.found:
            title = contrast.title(self.found, self.lang)
            parts = contrast.parts(self.found, self.lang)
            yield Section("compare", title, Html(self.mask(join(parts[""]))))
            for name, part in parts.items():
                if part and name:
                    drawn = Html(self.mask(join(part)))
                    yield Section(f"compare-{name}", "", drawn, "table" if len(drawn) > 20_000 else "head")

    # The page of PDF

    def blocks(self) -> Iterator[onepage.Block]:
        """The same run on one page."""
        lang = self.lang
        yield onepage.Said(self.verdict())
        yield onepage.Figures(self.figures())
        yield from self.told()
        if self.found:
            yield onepage.Said(contrast.verdict(self.found, lang))
            yield onepage.Pairs(contrast.title(self.found, lang), list(self.changes(self.found)), 14)
        yield onepage.Bars(say("share.funnel", lang), list(self.bars()), 16 if self.found else 24)
        rows = [
            (f"{one.where}.{one.name}", self.written(one.other), self.written(one.one)) for one in self.side.changed
        ]
        yield onepage.Pairs(say("share.parameters", lang), rows, 10)
        versions = ", ".join(f"{name} {version}" for name, version in self.side.versions.items())
        yield onepage.Pairs(say("report.versions", lang), [(versions,)] if versions else [])

    def told(self) -> Iterator[onepage.Said]:
        """The warnings there is room for, the worst first, and how many more there are."""
        found = self.warnings()
        first = {alert.rule: at for at, alert in reversed([*enumerate(found)])}
        shown = sorted({*range(min(WARNINGS, len(found))), *(first[rule] for rule in PARTIAL if rule in first)})
        for at in shown:
            yield onepage.Said(found[at].text(self.lang), found[at].kind)
        # A sentence that counts others of its kind stands for so many.
        left = sum(int(one.values["n"]) if one.rule == "more" else 1 for at, one in enumerate(found) if at not in shown)
        if left:
            yield onepage.Said(say("share.warnings_left", self.lang, n=left), "warn")

    def changes(self, found: Comparison) -> Iterator[tuple[str, str, str]]:
        """What two runs were asked, and what they counted, differently."""
        yield "", found.one.name, found.other.name
        for one in (*found.asked, *found.versions):
            yield f"{one.where}.{one.name}".strip("."), self.written(one.one), self.written(one.other)
        for row in found.funnel:
            if row.reasons and row.one and row.other:
                yield f"{row.notebook} {row.stage}", number(row.one["kept"]), number(row.other["kept"])

    def figures(self) -> list[tuple[str, str]]:
        """The numbers that matter."""
        told = self.side.summary
        shown = {
            "records": number(told.records), "kept": number(told.kept), "tokens": number(told.tokens),
            "efficiency": percent(told.efficiency),
        }  # fmt: skip
        return [(say(f"report.{key}", self.lang), str(value)) for key, value in shown.items()]

    def bars(self) -> Iterator[tuple[str, str, dict[str, int]]]:
        """The stages at which something was lost, and the first and the last of all; the tour's apart."""
        stages = [
            (name, stage, ledger)
            for name, ledger in self.side.ledgers.items()
            if not name.startswith("00")
            for stage in funnel.counted(ledger)
        ]
        for at, (name, stage, ledger) in enumerate(stages):
            parts = {flow: ledger.total(stage, flow) for flow in funnel.ENDS}
            if at in (0, len(stages) - 1) or parts["dropped"] or parts["failed"]:
                why, n = next(iter(ledger.reasons(stage, "dropped").items()), ("", 0))
                lost = f"; {why} {n:,}" if n else ""
                told = f"{parts['kept']:,} {say('kept', self.lang)}{self.mask(lost)}"
                yield self.mask(f"{name} {stage}"), told, parts

    def written(self, value: Any) -> str:
        """A value as a person gives it, without what tells of this machine."""
        return self.mask(contrast.written(value))


class _Open(_Story):
    """Everything, as the pages of the run show it."""

    def sections(self, samples: str) -> list[Section]:
        lang, run, facts = self.lang, self.real.run, self.real.facts
        out = [Section("share", "", note("warn", say("share.rule_full", lang)))]
        out.append(Section("index", say("share.summary", lang), join(index_page.body(facts, None, links=False))))
        out += self.comparison()
        for path in sorted((run.folder / "executed").glob("*.ipynb")):
            notebook = read_executed(path)
            if notebook is not None:
                title, drawn = report_body(notebook, path, run, back=False)
                out.append(Section(path.stem, path.stem, join([tag("h2", title), drawn]), "page"))
        return out


class _Hidden(_Story):
    """Numbers, and texts as shapes."""

    def _told(self, side: Side) -> Side:
        return self.disguise.side(side)

    def _compared(self, found: Comparison) -> Comparison:
        return self.disguise.comparison(found)

    def warnings(self) -> list[Alert]:
        """What there is to know, names in it under aliases."""
        return [self.disguise.alert(alert) for alert in super().warnings()]

    def sections(self, samples: str) -> list[Section]:
        lang = self.lang
        names, values = zip(*self.figures(), strict=True)
        told = [self.verdict_card(), table(names, [[tag("b", value) for value in values]])]
        rule = say(f"share.rule_{samples}", lang)
        named = say("share.rule_named" if self.disguise.names else "share.rule_aliases", lang)
        return [
            Section("share", "", note("ok", f"{rule} {named}")),
            Section("summary", say("share.summary", lang), card("", *told)),
            *self.comparison(),
            Section("notebooks", say("report.notebooks", lang), self.notebooks()),
            Section("funnel", say("share.funnel", lang), self.funnel()),
            *self.shards(),
            Section("parameters", say("share.parameters", lang), self.parameters(), "table"),
            *self.samples(),
            Section("files", say("share.files", lang), self.files(), "table"),
            *self.versions(),
        ]

    def verdict_card(self) -> Html:
        """The verdict, and each warning."""
        found = self.warnings()
        bad = any(alert.kind == "bad" for alert in found)
        notes = [note(alert.kind, alert.text(self.lang)) for alert in found]
        return join([note("bad" if bad else "ok", self.verdict()), *notes])

    def notebooks(self) -> Html:
        """Where each notebook stands, and what it took."""
        head = [say(f"report.{word}", self.lang) for word in ("notebook", "state", "records", "kept", "tokens")]
        head += [say("share.time", self.lang), say("share.memory", self.lang)]
        rows = []
        for name, state in self.side.states.items():
            told = numbers(self.side.ledgers[name]) if name in self.side.ledgers else None
            seconds, memory = self.side.costs.get(name, (0.0, 0))
            counts = [told.records, told.kept, told.tokens] if told else [None] * 3
            costs = [duration(seconds) if seconds else number(None), size(memory) if memory else number(None)]
            rows.append([name, say(f"report.state_{state}", self.lang), *map(_or_dash, counts), *costs])
        return card(say("report.notebooks", self.lang), table(head, rows, words=2))

    def funnel(self) -> Html:
        """The funnel of each notebook."""
        drawn = []
        for name, ledger in self.side.ledgers.items():
            stages = funnel.counted(ledger)
            widest = max((funnel.entered(ledger, stage) for stage in stages), default=0)
            rows = [funnel.stage(ledger, stage, widest, self.lang) for stage in stages]
            drawn.append(card(name, *rows, funnel.balances(ledger, self.lang)))
        return join([funnel.legend(self.lang), *drawn])

    def shards(self) -> Iterator[Section]:
        """What the shards hold, and how long documents are."""
        for name, told in self.side.shards.items():
            title = say("compare.shards", self.lang, name=name)
            parts = [table(["", ""], contrast.totals(told, self.lang))]
            if found := self.side.lengths.get(name):
                parts.append(contrast.spread(found, self.lang))
            head = [say(f"report.{word}", self.lang) for word in ("file", "bytes")] + [say("shards.rows", self.lang)]
            rows = [[each["file"], each.get("bytes"), each.get("sequences"), each["sha256"]] for each in told["shards"]]
            listed = table([*head, "sha256"], [list(map(_or_dash, row)) for row in rows[:ROWS]])
            drawn = card(title, *parts, fold(say("share.files", self.lang), listed))
            yield Section(f"shards-{_mark(name)}", title, drawn)

    def parameters(self) -> Html:
        """The parameters that are not the notebooks' own."""
        head = [say(f"report.{word}", self.lang) for word in ("notebook", "parameter", "value")]
        head.append(say("share.default", self.lang))
        rows = [
            [one.where, one.name, tag("code", contrast.written(one.other)), tag("code", contrast.written(one.one))]
            for one in self.side.changed[:ROWS]
        ]
        none = tag("p", say("share.no_parameters", self.lang))
        return card(say("share.parameters", self.lang), table(head, rows, words=4) if rows else none)

    def files(self) -> Html:
        """The files read and written, by the beginnings of their digests."""
        drawn = []
        for word, told in (("inputs", self.side.inputs), ("outputs", self.side.outputs)):
            rows = [[name, tag("code", sha[:12])] for name, sha in told.items()]
            listed = table([say("report.file", self.lang), "sha256"], rows[:ROWS], words=2)
            drawn.append(fold(f"{say(f'report.{word}', self.lang)} ({len(rows)})", listed))
        return join(drawn)

    def versions(self) -> Iterator[Section]:
        """The libraries that wrote it, where they are known."""
        if told := ", ".join(f"{name} {version}" for name, version in self.side.versions.items()):
            yield Section("versions", say("report.versions", self.lang), tag("p", told, cls="dim"))

    # Texts

    def samples(self) -> Iterator[Section]:
        """Shapes of texts: of what was turned down, of what was kept, of rows with their targets."""
        if not self.disguise.texts:
            return
        for name, drawn in (("lost", self.lost()), ("kept", self.kept()), ("rows", self.rows())):
            if drawn:
                title = say(f"share.sample_{name}", self.lang)
                yield Section(f"sample-{name}", title, card(title, *drawn), "sample")

    def lost(self) -> list[Html]:
        """Some of what was turned down, by reason."""
        found: dict[tuple[str, str], list[tuple[int, int, dict[str, Any]]]] = {}
        for level in levels(self.real.run).values():
            for folder, path in level.folders:
                for at, line in enumerate(rejected.read(path)):
                    if line.get("text"):
                        heap = found.setdefault((folder, line["reason"]), [])
                        lot = -draw(42, "share", str(line["id"]))
                        (heapq.heappush if len(heap) < EACH else heapq.heappushpop)(heap, (lot, -at, line))
        return [
            self._lost(folder, line)
            for (folder, _), heap in itertools.islice(found.items(), REASONS)
            for _, _, line in sorted(heap, reverse=True)
        ]

    def _lost(self, folder: str, line: Mapping[str, Any]) -> Html:
        told = self.disguise.line({**line, "text": line["text"][:CHARACTERS]})
        why = [f"{self.disguise.notebook(folder)} {told['stage']}", told["reason"]]
        if told["value"] is not None:
            limit = contrast.measured(told["limit"])
            why.append(say("compare.measured", self.lang, value=contrast.measured(told["value"]), limit=limit))
        return self._text(f"{told['id']} · {' · '.join(why)}", told["text"])

    def _text(self, heading: str, text: str) -> Html:
        return fold(heading, tag("div", escape(text, breaks=True), cls="turn"))

    def kept(self) -> list[Html]:
        """Some of what came through: documents, or records of the first chunk of an export."""
        drawn, last = [], [level.last for level in levels(self.real.run).values() if level.last]
        for told in (*map(_documents, last), _records(self.real.run)):
            with contextlib.suppress(PrepError):
                drawn += [
                    self._text(self.disguise.alias("document", id), self.disguise.text(text[:CHARACTERS]))
                    for id, text in _drawn(told)
                ]
        return drawn

    def rows(self) -> list[Html]:
        """The beginning of a row of each folder of shards: what is trained, and what is not."""
        drawn = []
        for name, told in self.real.shards.items():
            folder = self.real.run.folder / "data" / name
            try:
                pieces = list(_pieces(folder, told)) if told["shards"] and folder.is_dir() else []
            except (PrepError, OSError):
                continue
            if pieces:
                chips = join(
                    tag("span", escape(self.disguise.text(text), breaks=True), cls="chip on" if on else "chip")
                    for on, text in pieces
                )
                legend = say("share.row", self.lang, name=self.disguise.notebook(name))
                drawn.append(tag("div", tag("b", legend), tag("div", chips, cls="chips"), cls="stage small"))
        return drawn


def _or_dash(value: Any) -> Any:
    return number(None) if value is None else value


def _mark(name: str) -> str:
    return re.sub(r"[^\w-]", "-", name)


def _drawn(found: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return some of the first documents, drawn by their ids."""
    looked = itertools.islice(found, LOOKED_AT)
    return heapq.nsmallest(KEPT, looked, key=lambda pair: draw(42, "share", pair[0].encode("utf-8", "replace")))


def _documents(folder: Path) -> Iterator[tuple[str, str]]:
    for doc in Documents(folder):
        yield doc.id, doc.text


def _records(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the records of an export, a line a field."""
    for path in sorted((run.folder / "data").glob("2*/*_chunk_*.jsonl"), key=lambda path: natural(str(path))):
        for at, line in read_lines(Span(str(path))):
            if isinstance(line, bytes):
                yield f"{path.name}#L{at}", "\n".join(_fields(orjson.loads(line)))


def _fields(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _fields(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _fields(inner)
    else:
        yield str(value)


def _pieces(folder: Path, told: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """Yield the beginning of the first row as (trained, text), neighbours of one kind together."""
    shard, tokenizer = open_shard(folder / told["shards"][0]["file"]), own_tokenizer(folder)
    mask = shard.mask_of(shard.ids[0])
    if tokenizer is None or not len(shard) or mask is None:
        return
    key = shard.ids[0]
    row = shard.row(0)
    ids = row[key][:TOKENS].tolist()
    trained = row[mask][:TOKENS].tolist()
    for on, pairs in itertools.groupby(zip(trained, ids, strict=True), key=lambda pair: pair[0]):
        yield bool(on), tokenizer.decode([token for _, token in pairs])
