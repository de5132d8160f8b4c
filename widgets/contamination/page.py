"""Benchmark items found in documents: counts by benchmark and kind, each item beside its place, and the recall test.

gsm8k_test    600 items   question (answer)      3 documents     verbatim 2   renumbered 1
arc            30 items   question (choices)     none

gsm8k_test/548 · page-7 · verbatim · 1.00 of the item, limit 0.64
Mark was unwell for 3 months, during …   │   <p>MARK was unwell for 3 months,</p> during …     shared parts underlined
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from prep_lib.markup import Html, Page, card, escape, join, note, number, percent, snippet, table, tag
from prep_lib.record import Document
from prep_lib.text.benchmarks import Benchmarks, Declared
from prep_lib.text.decontaminate import DISGUISES, KINDS, Decontaminate, Hit, Recall, alignment
from prep_lib.words import say

#: Characters around a hit, and of an item or a place shown at most; examples of one benchmark and kind.
AROUND, SHOWN, EACH = 80, 1_500, 2
#: Names of files shown at most.
SOME = 8

_STYLE = Html(
    "<style>.prep .pair{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:6px 14px;margin:0 0 14px}"
    ".prep .pair>div{white-space:pre-wrap;max-height:340px;overflow-y:auto}.prep .pair small{display:block;"
    "color:var(--dim);font-weight:600}.prep .pair mark{background:var(--ctl-bg);color:var(--ctl);"
    "text-decoration:underline;text-underline-offset:3px}"
    "@container(max-width:560px){.prep .pair{grid-template-columns:minmax(0,1fr)}}</style>"
)


class _Found(NamedTuple):
    document: Document
    hit: Hit


def view(
    stage: Decontaminate | None,
    documents: Iterable[Document],
    *,
    recall: Sequence[Recall] = (),
    show: int = 12,
    lang: str = "en",
) -> Page:
    """Show which benchmark items documents hold.

    Parameters
    ----------
    stage : Decontaminate or None
        None: no benchmark was given; the page says in red that nothing was looked for.
    documents : iterable of Document
        Before the stage: what it drops is shown.
    recall : sequence of Recall
        What `self_test` found; empty: no table.
    show : int
        Hits shown beside their items, a few of each benchmark and kind.
    lang : str

    Examples
    --------
    >>> view(None, [Document("1", "text")])
    <contamination: no benchmark given>
    """
    documents = list(documents)
    if stage is None:
        return Page(snippet(join([tag("h1", say("contamination.title", lang)), none_given(lang)]), lang),
                    "contamination: no benchmark given")  # fmt: skip
    found = [_Found(doc, hit) for doc in documents for hit in stage.hits(doc)]
    held = len({pair.document.id for pair in found})
    going = sum(stage.judge(doc) is not None for doc in dict.fromkeys(pair.document for pair in found))
    sub = say("contamination.sum", lang, n=len(documents), held=held, going=going, items=len(stage.benchmarks))
    head = [_STYLE, tag("h1", say("contamination.title", lang)), tag("p", sub, cls="sub")]
    body = [_counts(stage, found, lang), _pairs(stage, found, show, lang), _recall(stage, recall, lang)]
    return Page(snippet(join([*head, *body]), lang), f"contamination: {held:,} of {len(documents):,} documents")


def none_given(lang: str = "en") -> Html:
    """Return the red line for a report whose run had no benchmark: nothing found in nothing is no clean result.

    Examples
    --------
    >>> "no benchmark was given" in none_given()
    True
    """
    return note("bad", say("contamination.none_given", lang))


def _counts(stage: Decontaminate, found: Sequence[_Found], lang: str) -> Html:
    """A row a benchmark: how it was read, and what was found of it."""
    kinds = Counter((pair.hit.benchmark, pair.hit.kind) for pair in found)
    held: dict[str, set[str]] = {}
    for pair in found:
        held.setdefault(pair.hit.benchmark, set()).add(pair.document.id)
    untold, leaning = (
        Counter(stage.benchmarks.items[at].benchmark for at in places) for places in (stage.untold, stage.leaning)
    )
    declared = {one.name: one for one in stage.benchmarks.declared}
    items = Counter(item.benchmark for item in stage.benchmarks.items)
    rows = [
        (_named(name, declared.get(name), lang), items[name], untold[name], leaning[name], len(held.get(name, ())),
         *(kinds[name, kind] for kind in KINDS))
        for name in stage.benchmarks.names
    ]  # fmt: skip
    keys = ("benchmark", "items", "untold", "leaning")
    head = [*(say(f"contamination.{key}", lang) for key in keys), say("documents", lang)]
    head += [say(f"contamination.kind_{kind}", lang) for kind in KINDS]
    said = say(
        "contamination.rule", lang, threshold=percent(stage.threshold, digits=0), fragment=stage.fragment,
        words=stage.min_words, common=stage.index.common,
    )  # fmt: skip
    policy = say(f"contamination.{stage.renumbered}", lang)
    goes = say(f"contamination.unit_{stage.unit}", lang)
    notes = tag("p", f"{goes} {policy} {said}", cls="dim small")
    return card(say("contamination.counts", lang), table(head, rows), notes, _left_out(stage.benchmarks, lang))


def _left_out(benchmarks: Benchmarks, lang: str) -> Html:
    """What lay there and is not looked for: files of no known ending, records that ask nothing."""
    said = []
    if benchmarks.unread:
        names = ", ".join(benchmarks.unread[:SOME]) + (" …" if len(benchmarks.unread) > SOME else "")
        said.append(say("contamination.unread", lang, n=len(benchmarks.unread), names=names))
    if empty := sum(one.empty for one in benchmarks.declared):
        said.append(say("contamination.empty", lang, n=empty))
    return note("warn", " ".join(said)) if said else Html()


def _named(name: str, declared: Declared | None, lang: str) -> Html:
    """A benchmark, and below it the fields looked at."""
    if declared is None:
        return join([name])
    fields = ", ".join(declared.query)
    if declared.support:
        fields = say("contamination.with", lang, query=fields, support=", ".join(declared.support))
    return join([name, tag("span", fields, cls="below")])


def _pairs(stage: Decontaminate, found: Sequence[_Found], show: int, lang: str) -> Html:
    if not found:
        return card(say("contamination.pairs", lang), tag("p", say("contamination.nothing", lang)))
    chosen: list[_Found] = []
    taken = Counter[tuple[str, str]]()
    for pair in sorted(found, key=lambda pair: -pair.hit.score):
        at = pair.hit.benchmark, pair.hit.kind
        if len(chosen) < show and taken[at] < EACH:
            taken[at] += 1
            chosen.append(pair)
    left = len(found) - len(chosen)
    more = tag("p", say("contamination.more", lang, n=left), cls="dim small") if left else Html()
    return card(say("contamination.pairs", lang), *(_pair(stage, pair, lang) for pair in chosen), more)


def _pair(stage: Decontaminate, pair: _Found, lang: str) -> Html:
    hit, item = pair.hit, stage.benchmarks.items[pair.hit.number]
    whole = "\n".join((item.query, *item.support)) if stage.index.weak[hit.number] else item.query
    place = pair.document.text[hit.start : min(hit.stop, hit.start + SHOWN)]
    parts = alignment(whole[:SHOWN], place, stage.chinese)
    before = pair.document.text[max(0, hit.start - AROUND) : hit.start]
    after = pair.document.text[hit.start + len(place) : hit.start + len(place) + AROUND]
    title = say(
        "contamination.found", lang, item=hit.item, document=pair.document.id, start=hit.start, stop=hit.stop,
        kind=say(f"contamination.kind_{hit.kind}", lang), score=number(hit.score, 2), limit=number(hit.limit, 2),
    )  # fmt: skip
    left = _marked(whole[:SHOWN], [(a, b) for a, b, _, _ in parts])
    right = join([escape(before, breaks=True), _marked(place, [(a, b) for _, _, a, b in parts])])
    sides = ("contamination.item", left), ("contamination.place", join([right, escape(after, breaks=True)]))
    drawn = [tag("div", tag("small", say(key, lang)), text, tabindex="0") for key, text in sides]
    return join([tag("p", title), tag("div", *drawn, cls="pair", role="group", aria_label=title)])


def _marked(text: str, spans: Sequence[tuple[int, int]]) -> Html:
    """A text with spans marked; they are in order and do not overlap."""
    parts, at = [], 0
    for start, stop in spans:
        parts += [escape(text[at:start], breaks=True), tag("mark", escape(text[start:stop], breaks=True))]
        at = stop
    return join([*parts, escape(text[at:], breaks=True)])


def _recall(stage: Decontaminate, recall: Sequence[Recall], lang: str) -> Html:
    """How many planted items were found, a row a benchmark, a column a disguise."""
    if not recall:
        return Html()
    shares = {(row.benchmark, row.disguise): f"{row.found} / {row.planted}" for row in recall}
    columns = [name for name in DISGUISES if any(row.disguise == name for row in recall)]
    rows = [
        (name, *(shares.get((name, column), "–") for column in columns))
        for name in stage.benchmarks.names
        if any(row.benchmark == name for row in recall)
    ]
    planted, found = sum(row.planted for row in recall), sum(row.found for row in recall)
    said = say("contamination.recalled", lang, found=found, planted=planted, share=percent(found, planted))
    head = [say("contamination.benchmark", lang), *(say(f"contamination.as_{column}", lang) for column in columns)]
    notes = {"untold_note": len(stage.untold), "leaning_note": len(stage.leaning)}
    told = " ".join(say(f"contamination.{key}", lang, n=n) for key, n in notes.items() if n)
    return card(say("contamination.recall", lang), tag("p", said), table(head, rows), tag("p", told, cls="dim small"))
