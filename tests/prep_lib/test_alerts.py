"""Each rule speaks where it should and is silent where it should; the worst stands first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from prep_lib.alerts import MOST, RULES, alerts, breaks, verdict
from prep_lib.facts import Asked, Facts
from prep_lib.ledger import Ledger
from prep_lib.recipes import Parameter
from prep_lib.results import Outdated
from prep_lib.words import LANGS
from prep_lib.workspace import Run


def ledger(stage: str = "quality", source: str = "web", reason: str = "short", **flows: int) -> Ledger:
    """One stage, one source; what went has a reason."""
    made = Ledger()
    for flow, n in flows.items():
        made.add(stage, flow, source, reason if flow in ("dropped", "failed") else "", documents=n)
    return made


def tokens(**flows: int) -> Ledger:
    made = ledger("read", **{"in": 9}, kept=9)
    for flow, n in flows.items():
        made.add_tokens("tokens", flow, n)
    return made


def asked(**values: Any) -> Asked:
    """Parameters whose own values are empty."""
    return Asked({name: Parameter(name, type(value)()) for name, value in values.items()}, values)


GB = 2**30
NB = "13_mix"
DONE = {NB: ("done", "")}
#: rule: what it speaks of, a little less, and a part of what it says.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "failed": (
        {"states": {NB: ("failed", f"{NB}: cell 3: KeyError")}, "again": "prep run my.yaml"},
        {"states": DONE},
        f"{NB} failed: cell 3: KeyError · What the notebooks before it wrote stands",
    ),
    "interrupted": ({"states": {NB: ("interrupted", "")}}, {"states": DONE}, "prep run runs/r/recipe.yaml --name r"),
    "unbalanced": (
        {"ledgers": {NB: ledger(**{"in": 5}, kept=4)}},
        {"ledgers": {NB: ledger(**{"in": 5}, kept=5)}},
        "quality, source 'web': documents do not balance",
    ),
    "gone": (
        {"records": {NB: {"outputs": [{"file": "data/a.h5", "bytes": 9}]}}},
        {"records": {NB: {"outputs": [{"file": "data/there", "bytes": 2}]}}},
        "data/a.h5 among them",
    ),
    "damage": (
        {"ledgers": {NB: ledger(reason="cut_stream", **{"in": 5}, kept=4, failed=1)}},
        {"ledgers": {NB: ledger(reason="bad_json", **{"in": 5}, kept=4, failed=1)}},
        "1 inputs are damaged (cut_stream)",
    ),
    "break": (
        {"ledgers": {"12_dedup": ledger(**{"in": 5}, kept=5), NB: ledger(**{"in": 4}, kept=4)}},
        {"ledgers": {"12_dedup": ledger(**{"in": 5}, kept=5), NB: ledger(**{"in": 5}, kept=4, dropped=1)}},
        "13_mix has 4 documents in, but 12_dedup kept 5",
    ),
    "older": (
        {"outdated": {NB: Outdated(earlier=("10_read", "12_dedup"))}, "again": "prep run my.yaml --only 10"},
        {"outdated": {NB: Outdated(values=("seed 1 -> 5",))}},
        "13_mix stands on an older state of 10_read, 12_dedup: what it wrote is not what this run would write now. "
        "Make it anew with: prep run runs/r/recipe.yaml --name r",
    ),
    "values": (
        {"outdated": {NB: Outdated(values=("seed 1 -> 5",))}},
        {"outdated": {NB: Outdated(earlier=("10_read",))}},
        "13_mix was made with other parameters than the recipe of this run has now: seed 1 -> 5",
    ),
    "lost_all": (
        {"ledgers": {NB: ledger(**{"in": 5}, dropped=5, kept=0)}},
        {"ledgers": {NB: ledger(**{"in": 5}, dropped=4, kept=1)}},
        "None of the 5 documents came through 13_mix",
    ),
    "tokenizers": (
        {"manifests": {"14_a": {"tokenizer": {"sha256": "a"}}, "15_b": {"tokenizer": {"sha256": "b"}}}},
        {"manifests": {"14_a": {"tokenizer": {"sha256": "a"}}, "22_b": {"tokenizer": {"sha256": "b"}}}},
        "14_a and 15_b were written with different tokenizers",
    ),
    "reveal": ({"asked": {NB: asked(reveal=True)}}, {"asked": {NB: asked(reveal=False)}}, "must not be passed on"),
    "running": ({"states": {NB: ("running", "")}}, {"states": DONE}, "13_mix has begun and not ended"),
    "open": ({"states": {**DONE, "15_pack": ("open", "")}}, {"states": DONE}, "1 of 2 notebooks have not run"),
    "benchmarks": (
        {"asked": {NB: asked(benchmarks="")}},
        {"asked": {NB: asked(benchmarks="exam")}, "ledgers": {NB: ledger("decontaminate", **{"in": 5}, kept=5)}},
        "nobody knows whether test questions are in this data",
    ),
    "pii": ({"asked": {NB: asked(pii_kinds="none")}}, {"asked": {NB: asked(pii_kinds="all")}}, "no personal data"),
    "records": (
        {"ledgers": {NB: ledger(reason="bad_json", **{"in": 5}, kept=2, failed=3)}},
        {"ledgers": {NB: ledger(**{"in": 5}, kept=5)}},
        "13_mix: 3 (bad_json 3)",
    ),
    "source": (
        {"ledgers": {NB: ledger("near_dedup", reason="near_duplicate", **{"in": 100}, kept=38, dropped=62)}},
        {"ledgers": {NB: ledger("near_dedup", reason="near_duplicate", **{"in": 100}, kept=50, dropped=50)}},
        "Source web lost 62.0 % of its 100 documents to near_dedup in 13_mix, most of them to near_duplicate",
    ),
    "cut": (
        {"ledgers": {NB: tokens(content=100, written=60, cut=40)}},
        {"ledgers": {NB: tokens(content=100, written=95, cut=5, trained=95)}},
        "40.0 % of the tokens of 13_mix (40) are not in the rows",
    ),
    "untrained": (
        {"ledgers": {NB: tokens(content=100, written=100, trained=4)}},
        {"ledgers": {NB: tokens(content=100, written=100, trained=5)}},
        "Only 4.0 % of the tokens",
    ),
    "waste": (
        {"ledgers": {NB: tokens(content=82, written=82, padding=18, trained=82)}},
        {"ledgers": {NB: tokens(content=90, written=90, padding=10, trained=90)}},
        "18.0 % of the places in the rows of 13_mix are padding",
    ),
    "force": ({"asked": {NB: asked(force=True)}}, {"asked": {NB: asked(force=False)}}, "not made for (force)"),
    "old": (
        {"records": {"a": {"key": {"code": {"m": "1"}}}, "b": {"key": {"code": {"m": "2"}}}}},
        {"records": {"a": {"key": {"code": {"m": "1"}}}, "b": {"key": {"code": {"m": "1", "n": "3"}}}}},
        "same code (m)",
    ),
    "sample": (
        {"asked": {NB: asked(sample=2000)}},
        {"asked": {NB: Asked({"sample": Parameter("sample", 20_000)}, {"sample": 20_000})}},
        "read only a sample of 2,000",
    ),
    "memory": (
        {"records": {NB: {"memory": 95 * GB // 10}}, "limit": 10 * GB},
        {"records": {NB: {"memory": 9 * GB}}, "limit": 10 * GB},
        "13_mix held 10.2 GB of the 10.7 GB",
    ),
    "died": ({"said": {NB: ["count: a worker died (killed)"]}}, {"said": {NB: ["count: all is well"]}}, "1 times"),
    "reference": (
        {"said": {NB: ["tokenizer: tokenizers, the reference"]}},
        {"said": {NB: ["tokenizer: fastokens, its ids checked"]}},
        "fastokens did not serve in 13_mix",
    ),
    "built_in": ({"states": {"10_read": ("done", "")}}, {"states": DONE}, "text from this machine"),
}  # fmt: skip


@pytest.fixture(name="run")
def _run(tmp_path):
    made = Run(tmp_path, "r")
    (made.folder / "data/10_read/built_in").mkdir(parents=True)
    (made.folder / "data/there").write_text("ab")
    return made


def found(run: Run, **given: Any) -> Facts:
    return Facts(run, **{"states": DONE, **given})


def told(facts: Facts) -> dict[str, str]:
    return {one.rule: one.text("en") for one in alerts(facts)}


@pytest.mark.parametrize("rule", [name for name, *_ in RULES])
def test_a_rule_speaks_and_is_silent(run, rule):
    speaks, silent, part = CASES[rule]
    assert part in told(found(run, **speaks))[rule]
    assert rule not in told(found(run, **silent))


def test_a_calm_run_has_nothing_to_say(run):
    assert alerts(found(run, ledgers={NB: ledger(**{"in": 5}, kept=5)})) == []
    assert alerts(Facts(run)) == []


@pytest.mark.parametrize("lang", LANGS)
def test_the_worst_stands_first_in_the_order_of_the_table(run, lang):
    parts = [CASES[rule][0] for rule in ("waste", "failed", "benchmarks", "damage")]
    facts = found(run, **{key: value for one in parts for key, value in one.items()})
    kinds = [one.kind for one in alerts(facts)]
    assert kinds == sorted(kinds)
    assert [one.rule for one in alerts(facts)][:2] == ["failed", "damage"]
    assert all(one.text(lang) for one in alerts(facts))


def test_one_rule_never_fills_the_page(run):
    many = Ledger()
    for at in range(1000):
        for flow, n in {"in": 100 + at, "kept": 10, "dropped": 90 + at}.items():
            many.add("quality", flow, f"source {at}", "short" if flow == "dropped" else "", documents=n)
    texts = [one.text("en") for one in alerts(found(run, ledgers={NB: many}))]
    assert len(texts) == MOST + 1
    assert texts[0].startswith("Source source 999 lost")
    assert texts[-1] == "And 995 more of the same kind."


def test_what_is_outdated_is_judged_as_what_is_done(run):
    facts = found(run, states={NB: ("outdated", "")}, asked={NB: asked(reveal=True, sample=7)})
    assert {"reveal", "sample"} <= set(told(facts))


def test_what_is_shown_tells_nothing_of_the_machine(run):
    text = f"{NB}: cell 1: OSError: {run.root}/data/x and /home/ann/y " + "W" * 10_000
    said = told(found(run, states={NB: ("failed", text)}))["failed"]
    assert str(run.root) not in said
    assert "/home/ann" not in said
    assert len(said) < 1000


def test_a_notebook_with_files_of_its_own_begins_anew(run):
    two = CASES["break"][0]
    assert list(breaks(found(run, **two))) == [NB]
    assert breaks(found(run, asked={NB: asked(files="own.jsonl")}, **two)) == {}
    assert breaks(found(run, asked={NB: asked(sample=3)}, **two)) == {}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"states": {}}, "Nothing has been run yet. Nothing was counted."),
        ({}, "Finished. Nothing was counted."),
        ({"states": {NB: ("failed", "x")}}, "Stopped by an error. Nothing was counted."),
        (
            {"states": {"10_a": ("done", ""), "11_b": ("outdated", ""), NB: ("open", "")}},
            "Not finished: some notebooks stand on what has changed since. Nothing was counted.",
        ),
        ({"npz": {"30": {"shard_sizes": [4, 4, 1]}}}, "Finished. 9 rows lie in 3 even shards."),
    ],
)
def test_the_verdict_without_a_ledger(run, given, sentence):
    assert verdict(found(run, **given), "en") == sentence


def test_the_verdict_says_what_became_of_the_documents(run):
    whole = tokens(content=100, written=100, trained=100)
    facts = found(run, ledgers={"15_pack": whole})
    assert verdict(facts, "en") == "Finished. 9 documents came in, 9 of them became 100 tokens."
    packed = replace(facts, manifests={"15_pack": {"shards": [{"sequences": 3}, {"sequences": 1}]}})
    assert verdict(packed, "en") == "Finished. 9 documents came in, 9 of them became 100 tokens in 4 rows."
    assert verdict(packed, "zh") == "已完成。输入 9 篇文档，其中 9 篇成为 100 个 token，共 4 行。"


def test_a_run_of_several_ways_says_what_became_of_each(run):
    ledgers = {
        "00_tour": tokens(content=7, written=7),
        "11_clean": ledger(**{"in": 8}, kept=6, dropped=2),
        "15_pack": tokens(content=100, written=100),
        "22_tensorize": tokens(content=50, written=50),
    }
    assert verdict(found(run, states=DONE, ledgers=ledgers), "en") == (
        "Finished. 15_pack: 8 documents came in, 9 of them became 100 tokens. "
        "22_tensorize: 9 documents came in, 9 of them became 50 tokens."
    )
