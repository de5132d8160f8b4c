"""The run at scale, on half a megabyte: what is planted is what is said, is found, and everything adds up."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import at_scale
import pytest

from prep_lib import AutoTokenizer, build_shards, corpus, decide_files, rejected
from prep_lib.pipeline import run_files
from prep_lib.text.exact_dedup import ExactDedup
from prep_lib.text.mixture import Mixture
from prep_lib.text.near_dedup import NearDedup
from prep_lib.text.normalize import Normalize
from prep_lib.text.shingles import shingle_texts

SIZE = 500_000


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with texts, and the corpus made of them."""
    folder = tmp_path_factory.mktemp("scale")
    (folder / "texts").mkdir()
    docs = [*corpus.documents(300)]
    for name in ("stdlib", "readme"):
        lines = (json.dumps({"text": doc.text}, ensure_ascii=False) + "\n" for doc in docs if doc.source == name)
        (folder / "texts" / f"{name}.jsonl").write_text("".join(lines), "utf-8")
    at_scale.write_corpus(folder / "texts", folder / "corpus", SIZE, 1)
    return folder


@pytest.fixture(scope="module")
def run(work: Path) -> Path:
    """What the notebooks of the way write, by the calls in their cells."""
    data, inline = work / "run" / "data", {"engine": "inline"}
    run_files([Normalize()], work / "corpus", data / "11_clean", **inline)
    decide_files([ExactDedup(), NearDedup()], data / "11_clean", data / "12_dedup", max_dropped=1.0, **inline)
    run_files([], data / "12_dedup", data / "13_mix" / "texts", **inline)
    decide_files([Mixture()], data / "13_mix" / "texts", data / "13_mix", source_field="", **inline)
    tokenizer = AutoTokenizer()
    tokenizer.train(["a few words"], 300)
    build_shards(data / "13_mix", data / "15_pack", tokenizer, 512, **inline)
    return work / "run"


def documents(work: Path) -> dict[str, str]:
    return {
        f"{path.name}#L{number}": json.loads(line)["text"]
        for path in sorted((work / "corpus").iterdir())
        for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1)
    }


def pairs(work: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (work / "planted.jsonl").read_bytes().splitlines()]


def test_the_corpus_holds_what_is_said_of_it(work: Path) -> None:
    told, texts = json.loads((work / "corpus.json").read_bytes()), documents(work)
    assert told["documents"] == len(texts)
    assert told["text"] >= SIZE
    assert all(text.strip() for text in texts.values())
    before = (work / "corpus" / "part-00.jsonl").stat().st_mtime_ns
    at_scale.write_corpus(work / "texts", work / "corpus", SIZE, 1)
    assert (work / "corpus" / "part-00.jsonl").stat().st_mtime_ns == before, "the same one is not written again"


def test_a_corpus_of_other_texts_is_written_anew(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        lines = (json.dumps({"text": f"{name} word {at} here. " * 60}) + "\n" for at in range(20))
        (tmp_path / name / "a.jsonl").write_text("".join(lines))
        at_scale.write_corpus(tmp_path / name, tmp_path / "corpus", 20_000, 1)
        assert all(f"{name} word" in text for text in documents(tmp_path).values())


def test_a_run_that_ended_before_its_kill_is_no_killed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = at_scale.Watched(tmp_path / "run.jsonl")
    monkeypatch.setattr(at_scale, "prep", lambda: [sys.executable, "-c", "pass"])
    assert at_scale.go(tmp_path, 1, watched, until=60)[1] is False
    monkeypatch.setattr(at_scale, "prep", lambda: [sys.executable, "-c", "import time; time.sleep(60)"])
    assert at_scale.go(tmp_path, 1, watched, until=0.1)[1] is True


def test_planted_pairs_are_as_alike_as_is_said(work: Path) -> None:
    texts, normalize = documents(work), Normalize()
    planted = pairs(work)
    kinds = Counter(pair["kind"] for pair in planted)
    assert min(kinds["exact"], kinds["near"]) >= 3
    assert len({pair[which] for pair in planted for which in ("first", "second")}) == 2 * len(planted), "none twice"
    for pair in planted:
        one, two = (texts[pair[which]] for which in ("first", "second"))
        assert (one == two) == (pair["kind"] == "exact")
        sets = [{*shingle_texts(normalize.normalize(text)[0], "word5")} for text in (one, two)]
        assert pair["jaccard"] == pytest.approx(len(sets[0] & sets[1]) / len(sets[0] | sets[1]), abs=1e-5)


def test_everything_planted_is_found_and_adds_up(work: Path, run: Path) -> None:
    found = at_scale.planted(run, work / "planted.jsonl")
    wanted = Counter(pair["kind"] for pair in pairs(work) if pair["jaccard"] >= 0.8)
    assert found.pairs == {"exact": wanted["exact"], "near": wanted["near"]}
    assert found.found == found.pairs
    assert found.one == sum(found.found.values())
    assert found.wrong == []
    assert at_scale.unbalanced(run, len(documents(work))) == []
    assert at_scale.unbalanced(run, 1) == [f"1 documents were written, {len(documents(work)):,} came"]


def test_what_is_not_found_and_what_is_decided_wrongly_is_told() -> None:
    pair = {"kind": "near", "first": "a#L1", "second": "b#L1", "jaccard": 0.9}
    gone = {"id": "a#L1", "twin": "b#L1"}
    found = at_scale.Found()
    at_scale._judge(found, pair, [None, None], 0.8)
    assert (found.pairs["near"], found.found["near"]) == (1, 0)
    at_scale._judge(found, pair, [gone, {"id": "b#L1", "twin": "a#L1"}], 0.8)
    at_scale._judge(found, {**pair, "jaccard": 0.7}, [gone, None], 0.8)
    assert len(found.wrong) == 2
    at_scale._judge(found, pair, [{**gone, "twin": "c#L1"}, None], 0.8)
    assert found.one == 1


def test_bytes_that_differ_are_seen(run: Path) -> None:
    told = at_scale.bytes_of(run)
    assert {Path(name).name for name in told} == {"manifest.json", "documents.json", "ledger.json"}
    ledger = run / "data" / "13_mix" / "ledger.json"
    before = ledger.read_text("utf-8")
    ledger.write_text(before.replace("kept", "kepT"), "utf-8")
    changed = at_scale.bytes_of(run)
    ledger.write_text(before, "utf-8")
    assert [name for name in told if told[name] != changed[name]] == ["data/13_mix/ledger.json"]


def test_places_on_disk(run: Path) -> None:
    told = at_scale.on_disk(run)
    assert told["11_clean"] > (run / "data" / "11_clean" / rejected.NAME).stat().st_size
    assert told["12_dedup/.prep"] > 0


def test_a_workspace_gets_the_recipe_of_the_way(work: Path) -> None:
    at_scale.workspace(work / "whole", work / "corpus", work / "exam")
    from prep_lib.recipes import read

    steps = read(at_scale.RECIPE, work / "whole", []).steps
    assert [step.notebook for step in steps] == ["11_clean", "12_dedup", "13_mix", "14_tokenize", "15_pack"]
    assert steps[0].values["files"] == str(work / "corpus")


def test_moments_of_kills_are_the_same_for_the_same_seed() -> None:
    assert at_scale.shares(2, 1) == at_scale.shares(2, 1) != at_scale.shares(2, 2)
    assert all(0 < share < 1 for share in at_scale.shares(5, 1))
