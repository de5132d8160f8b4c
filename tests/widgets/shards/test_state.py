"""What is counted from a folder of shards, by shard and by input, is what was written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from toy_shards import build

from prep_lib.build import build_shards
from prep_lib.errors import BadInput, BadParameter, BadShard
from prep_lib.shards.manifest import read_manifest
from prep_lib.tokens.tokenizer import AutoTokenizer
from widgets.shards.state import Held, arrays, evenness, inputs, names_of, stored


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files, three groups, rows of 8, two rows to a shard; the second file is the shorter one."""
    place = tmp_path_factory.mktemp("shards")
    one = [{"text": f"a cat {n}", "source": "web", "language": "en"} for n in range(9)]
    one += [{"text": f"猫 {n}", "source": "web", "language": "zh"} for n in range(3)]
    two = [{"text": f"x = {n}", "source": "code"} for n in range(4)]
    for name, rows in (("one", one), ("two", two)):
        (place / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tokenizer = AutoTokenizer().train(["a cat x = 猫"] * 3, vocab_size=300)
    files = [place / "one.jsonl", place / "two.jsonl"]
    build_shards(files, place / "out", tokenizer, 8, shard_size=2, tail="pad", engine="inline", workers=1)
    return place / "out"


def test_each_shard_holds_what_the_manifest_says_by_group(folder: Path) -> None:
    manifest = read_manifest(folder)
    held = stored(folder)
    assert [(one.name, one.size) for one in held] == [(entry["file"], entry["tokens"]) for entry in manifest["shards"]]
    assert len(held) > 2
    assert all(sum(one.sources.values()) == one.size for one in held)
    totals = {name: sum(one.sources.get(name, 0) for one in held) for name in names_of(held)}
    told = {
        " · ".join(filter(None, (group["source"], group["language"]))): group["tokens"] + group["documents"]
        for group in manifest["totals"]["groups"]
    }
    assert totals == told, "tokens and an EOS a document"


def test_by_input_the_same_tokens_in_the_order_read(folder: Path) -> None:
    before = inputs(folder)
    assert [one.name for one in before] == ["one.jsonl", "two.jsonl"]
    assert [set(one.sources) for one in before] == [{"web · en", "web · zh"}, {"code"}]
    assert sum(one.size for one in before) == sum(one.size for one in stored(folder))


def test_shards_that_know_no_groups_are_told_by_their_inputs(tmp_path: Path) -> None:
    build(tmp_path)
    assert stored(tmp_path) == [Held("chunk_0.h5", 9, {"a.jsonl": 5, "b.parquet": 4})]
    assert inputs(tmp_path) == [Held("a.jsonl", 5, {"a.jsonl": 5}), Held("b.parquet", 4, {"b.parquet": 4})]


def test_an_npz_folder_in_natural_order_by_its_headers_or_a_label(tmp_path: Path) -> None:
    for at, rows in ((10, 2), (9, 5)):
        np.savez(tmp_path / f"shard_{at}.npz", ids=np.zeros((rows, 3), np.int16), kind=np.arange(rows) % 2)
    assert arrays(tmp_path) == [Held("shard_9.npz", 5, {}), Held("shard_10.npz", 2, {})]
    assert [dict(one.sources) for one in arrays(tmp_path, "kind")] == [{"0": 3, "1": 2}, {"0": 1, "1": 1}]
    with pytest.raises(BadParameter, match="has no field 'sort'"):
        arrays(tmp_path, "sort")


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadShard, match=r"no manifest\.json"):
        stored(tmp_path)
    with pytest.raises(BadInput, match="no npz file"):
        arrays(tmp_path)
    assert evenness([Held("a", 0, {}), Held("b", 2, {})]).ratio is None
