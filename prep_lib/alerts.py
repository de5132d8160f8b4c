"""What the numbers of a run mean: a verdict in one sentence, and warnings, the worst first.

13_mix: benchmarks = ""               ──RULES──▶  ! No benchmark was given: nobody knows whether test questions are in …
near_dedup: web 62 of 100 dropped     ──RULES──▶  ! Source web lost 62.0 % to near_dedup (near_duplicate). …

A rule reads `Facts` and yields what fills in its sentence, ``alert.NAME`` in words.py, which says what is so, what
follows and what to do.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from prep_lib import funnel
from prep_lib.errors import DAMAGE, Unbalanced
from prep_lib.facts import SERVED, Facts
from prep_lib.ledger import FEW, Ledger
from prep_lib.markup import percent, size
from prep_lib.results import numbers, of_way
from prep_lib.words import say

#: A source that loses more than this share of its documents to one stage is named, if it had more than a few.
LOST = 0.5

#: The share of places that may hold padding, and of tokens that may be cut off, before it is said.
WASTED, CUT = 0.1, 0.05

#: A mask that trains less than this share of the tokens is unusual.
TRAINED = 0.05

#: Memory this near to the limit is said.
NEAR = 0.9

#: Sentences of one rule that are told; the rest is counted.
MOST = 5

Found = Iterator[dict[str, Any]]


class Alert(NamedTuple):
    """One warning.

    Parameters
    ----------
    kind : str
        ``bad``: do not use this before it is put right. ``warn``: know it.
    rule : str
    values : dict
        What fills in its sentence.
    """

    kind: str
    rule: str
    values: Mapping[str, Any]

    def text(self, lang: str) -> str:
        """Return the sentence: what is so, what follows, what to do."""
        return say(f"alert.{self.rule}", lang, **self.values)


def alerts(facts: Facts) -> list[Alert]:
    """Return what there is to know of a run before it is used, the worst first."""
    out = []
    for name, kind, rule in RULES:
        found = list(rule(facts))
        for one in found[:MOST]:
            out.append(Alert(kind, name, {k: facts.shown(v) if isinstance(v, str) else v for k, v in one.items()}))
        if len(found) > MOST:
            out.append(Alert(kind, "more", {"n": len(found) - MOST}))
    return out


def verdict(facts: Facts, lang: str) -> str:
    """Return in a sentence how a run ended, and in one for each way through it what it made."""
    states = [state for state, _ in facts.states.values()]
    how = next((one for one in ("failed", "interrupted", "running", "outdated", "open") if one in states), "done")
    # The tour is for looking; beside a way it says nothing.
    digits = {name[0] for name in facts.ledgers}
    ways = sorted(digits - {"0"} or digits) or [""]
    end, colon = ("。", "：") if lang == "zh" else (". ", ": ")
    made = [_made(facts, way, lang) for way in ways]
    if len(ways) > 1:
        ends = [max(name for name in facts.ledgers if name[0] == way).partition("/")[0] for way in ways]
        made = [facts.shown(name) + colon + told for name, told in zip(ends, made, strict=True)]
    return end.join([say(f"verdict.{how}" if states else "verdict.empty", lang), *made]) + end.strip()


def _made(facts: Facts, way: str, lang: str) -> str:
    found = of_way(facts.ledgers, way)
    if found.records is not None and found.tokens is not None:
        rows = _rows(facts, way)
        more = ("" if lang == "zh" else " ") + say("verdict.rows", lang, rows=rows) if rows else ""
        return say("verdict.tokens", lang, records=found.records, kept=found.kept or 0, tokens=found.tokens) + more
    if found.records is not None:
        share = percent(found.kept, found.records)
        return say("verdict.kept", lang, records=found.records, kept=found.kept or 0, share=share)
    if facts.npz:
        rows, shards = (sum(one) for one in zip(*map(_held, facts.npz.values()), strict=True))
        return say("verdict.npz", lang, rows=rows, shards=shards)
    return say("verdict.nothing", lang)


def _rows(facts: Facts, way: str) -> int:
    manifests = [one for name, one in facts.manifests.items() if name[:1] == way]
    return sum(int(shard.get("sequences", 0)) for shard in manifests[-1]["shards"]) if manifests else 0


def _held(metadata: Mapping[str, Any]) -> tuple[int, int]:
    return sum(int(n) for n in metadata["shard_sizes"]), len(metadata["shard_sizes"])


def breaks(facts: Facts) -> dict[str, tuple[str, int, int]]:
    """Return the ledgers that have not in what the one before them kept: name -> before, kept there, in here.

    A notebook that was asked for files of its own, or for a sample, begins anew.
    """
    out = {}
    for before, after in itertools.pairwise(facts.ledgers):
        stages, then = funnel.counted(facts.ledgers[before]), funnel.counted(facts.ledgers[after])
        if before[0] != after[0] or not (stages and then) or _begins_anew(facts, after):
            continue
        kept, into = facts.ledgers[before].total(stages[-1], "kept"), facts.ledgers[after].total(then[0], "in")
        if kept != into:
            out[after] = (before, kept, into)
    return out


def _begins_anew(facts: Facts, name: str) -> bool:
    used = _used(facts, name.split("/")[0])
    return bool(used.get("files") or used.get("sample"))


def _used(facts: Facts, notebook: str) -> Mapping[str, Any]:
    return facts.asked[notebook].used if notebook in facts.asked else {}


# ── the rules ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _failed(facts: Facts) -> Found:
    for notebook, (state, text) in facts.states.items():
        if state == "failed":
            yield {"notebook": notebook, "text": text.removeprefix(f"{notebook}: "), "again": again(facts)}


def _stopped(facts: Facts) -> Found:
    for notebook, (state, _) in facts.states.items():
        if state == "interrupted":
            yield {"notebook": notebook, "again": again(facts)}


def again(facts: Facts) -> str:
    """Return the command that goes on with the run."""
    return facts.again or _everything(facts)


def _everything(facts: Facts) -> str:
    """Return the command that brings all of the run to its end, whatever part of it was asked for last."""
    name = shlex.quote(facts.run.name)
    return f"prep run runs/{name}/recipe.yaml --name {name}"


def _older(facts: Facts) -> Found:
    for notebook, why in facts.outdated.items():
        if why.earlier:
            yield {"notebook": notebook, "names": ", ".join(why.earlier), "again": _everything(facts)}


def _values(facts: Facts) -> Found:
    for notebook, why in facts.outdated.items():
        if why.values:
            yield {"notebook": notebook, "what": "; ".join(why.values), "again": _everything(facts)}


def _running(facts: Facts) -> Found:
    yield from ({"notebook": name} for name, (state, _) in facts.states.items() if state == "running")


def _unbalanced(facts: Facts) -> Found:
    for notebook, ledger in facts.ledgers.items():
        try:
            ledger.check()
        except Unbalanced as error:
            yield {"notebook": notebook, "text": str(error).removeprefix("ledger: ")}


def _gone(facts: Facts) -> Found:
    for notebook, record in facts.records.items():
        lost = [said["file"] for said in record.get("outputs", ()) if _bytes(facts, said["file"]) != said["bytes"]]
        if lost:
            yield {"notebook": notebook, "n": len(lost), "file": lost[0], "again": again(facts)}


def _bytes(facts: Facts, file: str) -> int | None:
    path = facts.run.folder / file
    return path.stat().st_size if path.is_file() else None


def _break(facts: Facts) -> Found:
    for after, (before, kept, into) in breaks(facts).items():
        yield {"before": before, "after": after, "kept": kept, "into": into}


def _lost_all(facts: Facts) -> Found:
    for notebook, ledger in facts.ledgers.items():
        found = numbers(ledger)
        if found.records and not found.kept:
            yield {"notebook": notebook, "n": found.records}


def _tokenizers(facts: Facts) -> Found:
    seen: dict[str, dict[str, str]] = {}
    for name, manifest in facts.manifests.items():
        seen.setdefault(name[:1], {}).setdefault(str((manifest.get("tokenizer") or {}).get("sha256")), name)
    for one, other in (list(each.values())[:2] for each in seen.values() if len(each) > 1):
        yield {"one": one, "other": other}


def _damage(facts: Facts) -> Found:
    for notebook, reasons in _failures(facts):
        for reason in DAMAGE:
            if reason in reasons:
                yield {"notebook": notebook, "reason": reason, "n": reasons[reason]}


def _failures(facts: Facts) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield for each notebook why records failed, over all its stages."""
    for notebook, ledger in facts.ledgers.items():
        found: dict[str, int] = {}
        for (_, flow, _, reason), n in ledger.documents.items():
            if flow == "failed" and n:
                found[reason] = found.get(reason, 0) + n
        yield notebook, dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _reveal(facts: Facts) -> Found:
    yield from ({"notebook": name} for name in _done(facts) if _used(facts, name).get("reveal") is True)


def _done(facts: Facts) -> Iterable[str]:
    return [name for name, (state, _) in facts.states.items() if state in ("done", "outdated")]


def _benchmarks(facts: Facts) -> Found:
    looked = {stage for ledger in facts.ledgers.values() for stage in ledger.stages}
    for name in _done(facts):
        if "benchmarks" in _used(facts, name) and "decontaminate" not in looked:
            yield {"notebook": name}


def _pii(facts: Facts) -> Found:
    yield from ({"notebook": name} for name in _done(facts) if _used(facts, name).get("pii_kinds") == "none")


def _records(facts: Facts) -> Found:
    for notebook, reasons in _failures(facts):
        if reasons:
            told = ", ".join(f"{reason} {n:,}" for reason, n in itertools.islice(reasons.items(), MOST))
            yield {"notebook": notebook, "n": sum(reasons.values()), "reasons": told}


def _source(facts: Facts) -> Found:
    """A source that lost much to one stage, the largest first."""
    found: list[dict[str, Any]] = []
    for notebook, ledger in facts.ledgers.items():
        for stage in funnel.counted(ledger):
            why = _commonest(ledger, stage)
            for source, n in funnel.fared(ledger, stage).items():
                if n["in"] > FEW and n["dropped"] / n["in"] > LOST:
                    share = percent(n["dropped"], n["in"])
                    one = {"source": source, "stage": stage, "notebook": notebook, "n": n["in"], "share": share}
                    found.append(one | {"reason": why[source]})
    yield from sorted(found, key=lambda one: -one["n"])


def _commonest(ledger: Ledger, stage: str) -> dict[str, str]:
    """Return for each source what most of its documents were dropped for."""
    rows = [(n, at[2], at[3]) for at, n in ledger.documents.items() if at[:2] == (stage, "dropped")]
    return {source: reason for _, source, reason in sorted(rows)}


def _cut(facts: Facts) -> Found:
    for notebook, made, n in _tokens(facts):
        lost = n("cut") + n("dropped")
        if made and lost / made > CUT:
            yield {"notebook": notebook, "n": lost, "share": percent(lost, made)}


def _tokens(facts: Facts) -> Iterator[tuple[str, int, Callable[[str], int]]]:
    """Yield for each stage that counts tokens its notebook, how many were made, and what gives the count of a flow."""
    for notebook, ledger in facts.ledgers.items():
        for stage in funnel.counted(ledger, "tokens"):

            def n(flow: str, ledger: Ledger = ledger, stage: str = stage) -> int:
                return ledger.total(stage, flow, unit="tokens")

            yield notebook, sum(n(flow) for flow in funnel.SOURCES), n


def _waste(facts: Facts) -> Found:
    for notebook, _, n in _tokens(facts):
        places = n("written") + n("padding")
        if places and n("padding") / places > WASTED:
            yield {"notebook": notebook, "share": percent(n("padding"), places)}


def _untrained(facts: Facts) -> Found:
    for notebook, _, n in _tokens(facts):
        if n("written") and n("trained") / n("written") < TRAINED:
            yield {"notebook": notebook, "share": percent(n("trained"), n("written"))}


def _force(facts: Facts) -> Found:
    yield from ({"notebook": name} for name in _done(facts) if _used(facts, name).get("force") is True)


def _old(facts: Facts) -> Found:
    """Notebooks of which some were written by other code than the rest of the run."""
    asked = [name for name in _done(facts) if _used(facts, name).get("keep_old") is True]
    codes: dict[str, set[str]] = {}
    for record in facts.records.values():
        for module, code in record.get("key", {}).get("code", {}).items():
            codes.setdefault(module, set()).add(code)
    differ = sorted(module for module, seen in codes.items() if len(seen) > 1)
    if asked or differ:
        yield {"what": ", ".join(asked[:MOST] or differ[:MOST])}


def _sample(facts: Facts) -> Found:
    for name in _done(facts):
        asked = facts.asked.get(name)
        # Where a sample is the notebook's own habit, such as for training a tokenizer, it says so itself.
        if asked and asked.used.get("sample") and not asked.known["sample"].default:
            yield {"notebook": name, "n": asked.used["sample"]}


def _memory(facts: Facts) -> Found:
    for name, record in facts.records.items():
        if facts.limit and record.get("memory", 0) > NEAR * facts.limit:
            yield {"notebook": name, "memory": size(record["memory"]), "limit": size(facts.limit)}


def _reference(facts: Facts) -> Found:
    for name, texts in facts.said.items():
        for text in texts:
            if text.startswith(SERVED) and not text.startswith(f"{SERVED}fastokens"):
                yield {"notebook": name}


def _died(facts: Facts) -> Found:
    for name, texts in facts.said.items():
        if dead := [text for text in texts if ": a worker died" in text]:
            yield {"notebook": name, "n": len(dead)}


def _open(facts: Facts) -> Found:
    left = [name for name, (state, _) in facts.states.items() if state == "open"]
    if left:
        names = ", ".join(left[:MOST]) + (" …" if len(left) > MOST else "")
        yield {"n": len(left), "all": len(facts.states), "names": names, "again": _everything(facts)}


def _built_in(facts: Facts) -> Found:
    places = [facts.run.folder / "built_in", *(facts.run.folder / "data" / name / "built_in" for name in facts.states)]
    if any(place.is_dir() for place in places):
        yield {}


#: The name of a sentence, how bad it is, and when it is said. The order is that of the page.
RULES: tuple[tuple[str, str, Callable[[Facts], Found]], ...] = (
    ("failed", "bad", _failed),
    ("interrupted", "bad", _stopped),
    ("unbalanced", "bad", _unbalanced),
    ("gone", "bad", _gone),
    ("damage", "bad", _damage),
    ("older", "bad", _older),
    ("values", "bad", _values),
    ("break", "bad", _break),
    ("lost_all", "bad", _lost_all),
    ("tokenizers", "bad", _tokenizers),
    ("reveal", "bad", _reveal),
    ("running", "warn", _running),
    ("open", "warn", _open),
    ("benchmarks", "warn", _benchmarks),
    ("pii", "warn", _pii),
    ("records", "warn", _records),
    ("source", "warn", _source),
    ("cut", "warn", _cut),
    ("untrained", "warn", _untrained),
    ("waste", "warn", _waste),
    ("force", "warn", _force),
    ("old", "warn", _old),
    ("sample", "warn", _sample),
    ("memory", "warn", _memory),
    ("died", "warn", _died),
    ("reference", "warn", _reference),
    ("built_in", "warn", _built_in),
)
