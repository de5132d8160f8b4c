"""What a trainer finds is what the shard holds: the same ids, the same targets, and no way across a border."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy_shards import PACKED, PAIRS, SEQUENCE, dpo, ragged, sft, write_shard

from prep_lib.errors import BadInput, BadParameter, BadShard
from prep_lib.files import digest
from prep_lib.shards.h5 import H5Shard
from prep_lib.shards.interop import convert
from prep_lib.shards.manifest import read_manifest, shard_entry, write_manifest
from prep_lib.shards.trainers import TRAINERS


def rows(folder):
    """All rows a trainer would read, in order."""
    told = json.loads((folder / "convert.json").read_bytes())
    tables = []
    for one in told["files"]:
        path = folder / one["file"]
        tables.append(pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_stream(path).read_all())
    return pa.concat_tables(tables).to_pylist()


def test_a_pack_for_trl_keeps_its_documents_and_loses_its_padding(tmp_path):
    told = convert(sft(tmp_path / "in"), "trl", tmp_path / "out")
    assert rows(tmp_path / "out") == [
        {"input_ids": [5, 6, 7, 8, 9], "labels": [-100, 6, 7, -100, 9], "seq_lengths": [3, 2]},
        {"input_ids": [1, 2, 3, 4], "labels": [-100, -100, 3, 4], "seq_lengths": [4]},
    ]
    assert told["totals"] == {
        "rows": 2, "documents": 3, "tokens": 9, "targets": 5, "masked_first": 0, "no_target": 0, "behind_target": 0,
        "longest": 5,
    }  # fmt: skip
    assert told == json.loads((tmp_path / "out/convert.json").read_bytes())
    assert told["parents"] == [digest(tmp_path / "in/manifest.json")]
    assert told["files"][0]["parent_sha256"] == digest(tmp_path / "in/chunk_0.h5")


def test_a_pack_for_axolotl_is_a_row_a_document(tmp_path):
    told = convert(sft(tmp_path / "in"), "axolotl", tmp_path / "out")
    assert told["totals"]["longest"] == 4
    assert rows(tmp_path / "out") == [
        {"input_ids": [5, 6, 7], "attention_mask": [1, 1, 1], "labels": [-100, 6, 7]},
        {"input_ids": [8, 9], "attention_mask": [1, 1], "labels": [-100, 9]},
        {"input_ids": [1, 2, 3, 4], "attention_mask": [1, 1, 1, 1], "labels": [-100, -100, 3, 4]},
    ]


def test_a_pack_for_llamafactory_numbers_its_documents_and_is_filled_to_eight(tmp_path):
    convert(sft(tmp_path / "in"), "llamafactory", tmp_path / "out")
    assert rows(tmp_path / "out") == [
        {
            "input_ids": [5, 6, 7, 8, 9, 0, 0, 0], "attention_mask": [1, 1, 1, 2, 2, 0, 0, 0],
            "position_ids": [0, 1, 2, 0, 1, 0, 1, 2], "labels": [-100, 6, 7, -100, 9, -100, -100, -100],
        },
        {
            "input_ids": [1, 2, 3, 4, 0, 0, 0, 0], "attention_mask": [1, 1, 1, 1, 0, 0, 0, 0],
            "position_ids": [0, 1, 2, 3, 0, 1, 2, 3], "labels": [-100, -100, 3, 4, -100, -100, -100, -100],
        },
    ]  # fmt: skip


def test_rows_that_are_not_packed_stay_rows(tmp_path):
    source = ragged(tmp_path / "in")
    plain = [{"input_ids": [5, 6, 7], "labels": [-100, 6, 7]}, {"input_ids": [1, 2], "labels": [-100, 2]}]
    for name in TRAINERS:
        convert(source, name, tmp_path / name)
        ones = [{} if name == "trl" else {"attention_mask": [1] * len(row["input_ids"])} for row in plain]
        assert rows(tmp_path / name) == [row | more for row, more in zip(plain, ones, strict=True)]


def test_the_first_token_of_a_document_is_no_target_and_that_is_counted(tmp_path):
    data = PACKED | {"loss_mask": PACKED["loss_mask"] | (PACKED["sequence"] == 8)}
    told = convert(sft(tmp_path / "in", data), "trl", tmp_path / "out")
    assert rows(tmp_path / "out")[0]["labels"] == [-100, 6, 7, -100, 9]
    assert (told["totals"]["targets"], told["totals"]["masked_first"]) == (5, 1)


def test_a_row_without_target_is_counted(tmp_path):
    data = PACKED | {"loss_mask": PACKED["loss_mask"] & (PACKED["sequence"] > 4)}
    assert convert(sft(tmp_path / "in", data), "trl", tmp_path / "a")["totals"]["no_target"] == 1
    data = PACKED | {"loss_mask": PACKED["loss_mask"] & (PACKED["sequence"] < 9)}
    assert convert(sft(tmp_path / "in", data), "axolotl", tmp_path / "b")["totals"]["no_target"] == 1


def test_padding_is_known_by_length_where_its_id_is_a_real_one(tmp_path):
    data = PACKED | {"sequence": np.where(SEQUENCE == 0, 9, SEQUENCE).astype(np.int32)}
    convert(sft(tmp_path / "in", data), "trl", tmp_path / "out")
    assert rows(tmp_path / "out")[0]["input_ids"] == [5, 6, 7, 8, 9]


def test_pairs_for_trl_are_a_prompt_and_two_answers_up_to_their_last_target(tmp_path):
    told = convert(dpo(tmp_path / "in"), "trl", tmp_path / "out")
    assert rows(tmp_path / "out") == [
        {"prompt_ids": [1, 2], "chosen_ids": [5, 6], "rejected_ids": [8]},
        {"prompt_ids": [3], "chosen_ids": [7], "rejected_ids": [4, 4]},
    ]
    assert (told["totals"]["tokens"], told["totals"]["targets"], told["totals"]["behind_target"]) == (13, 6, 1)


def test_pairs_for_llamafactory_have_labels(tmp_path):
    convert(dpo(tmp_path / "in"), "llamafactory", tmp_path / "out")
    first, second = rows(tmp_path / "out")
    assert first == {
        "chosen_input_ids": [1, 2, 5, 6], "chosen_attention_mask": [1] * 4, "chosen_labels": [-100, -100, 5, 6],
        "rejected_input_ids": [1, 2, 8], "rejected_attention_mask": [1] * 3, "rejected_labels": [-100, -100, 8],
        "images": None, "videos": None, "audios": None,
    }  # fmt: skip
    assert second["rejected_labels"] == [-100, 4, 4, -100]


def test_axolotl_takes_no_tokenised_pairs_and_that_is_said_in_one_line(tmp_path):
    with pytest.raises(BadParameter, match=r"axolotl 0\.19\.0 takes no tokenised pairs, only texts or messages"):
        convert(dpo(tmp_path / "in"), "axolotl", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_trl_would_train_the_gap_in_an_answer_so_it_is_refused(tmp_path):
    gap = PAIRS | {"rejected_mask": np.array([0, 0, 1, 0, 0, 1, 0], bool)}
    with pytest.raises(BadInput, match=r"chunk_0\.h5: row 1 has tokens that are no targets among its targets"):
        convert(dpo(tmp_path / "in", gap), "trl", tmp_path / "out")
    convert(dpo(tmp_path / "in", gap), "llamafactory", tmp_path / "out")
    assert rows(tmp_path / "out")[1]["rejected_labels"] == [-100, -100, 4, -100]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rejected": np.array([1, 9, 8, 3, 4, 4, 9], np.int32)}, "do not share their prompt"),
        ({"chosen_mask": np.array([0, 1, 1, 1, 0, 1], bool)}, "a prompt is trained, or nothing of an answer"),
        ({"chosen_mask": np.array([0, 0, 1, 1, 0, 0], bool)}, "a prompt is trained, or nothing of an answer"),
        ({"prompt_length": np.array([2, 2], np.int32)}, "do not fit each other"),
        ({"offsets/chosen_mask": np.array([0, 3, 6])}, "do not fit each other"),
    ],
)
def test_pairs_that_are_none_are_refused(tmp_path, change, said):
    with pytest.raises(BadShard, match=said):
        convert(dpo(tmp_path / "in", PAIRS | change), "llamafactory", tmp_path / "out")
    assert not (tmp_path / "out/convert.json").exists()


PACK = 12


@st.composite
def packs(draw):
    """Some packs of PACK tokens: the lengths of their documents, and a mask that is free."""
    lengths = draw(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3), min_size=1, max_size=5))
    lengths = [[length for at, length in enumerate(row) if sum(row[: at + 1]) <= PACK] for row in lengths]
    bits = draw(st.lists(st.booleans(), min_size=PACK * len(lengths), max_size=PACK * len(lengths)))
    mask = np.array(bits, bool).reshape(-1, PACK)
    mask &= np.arange(PACK) < np.array([sum(row) for row in lengths])[:, None]
    ids = draw(st.lists(st.integers(0, 3), min_size=mask.size, max_size=mask.size))
    pieces = [(row, length) for row, each in enumerate(lengths) for length in each]
    return {
        "sequence": np.array(ids, np.int32).reshape(mask.shape),
        "loss_mask": mask,
        "segments/row": np.array([row for row, _ in pieces]),
        "segments/start": np.zeros(len(pieces), np.int64),
        "segments/length": np.array([length for _, length in pieces], np.int32),
        "segments/document": np.arange(len(pieces)),
        "documents/source": np.zeros(len(pieces), np.int32),
        "documents/line": np.arange(len(pieces)),
    }


def documents_of_shard(folder):
    """(ids, labels) of every piece, token by token; the first label of each is none."""
    shard, found = H5Shard(folder / "chunk_0.h5"), []
    for at in range(len(shard)):
        row, begin = shard.row(at), 0
        for length in shard.segments(at)["length"].tolist():
            span = slice(begin, begin + length)
            ids, mask = row["sequence"][span].tolist(), row["loss_mask"][span].tolist()
            found.append((ids, [i if m and at else -100 for at, (i, m) in enumerate(zip(ids, mask, strict=True))]))
            begin += length
    return found


def documents_of_rows(name, found):
    for row in found:
        ids, labels = row["input_ids"], row["labels"]
        if name == "trl":
            ends = np.cumsum(row["seq_lengths"]).tolist()
            assert ends[-1] == len(ids)
        elif name == "llamafactory":
            number = np.array(row["attention_mask"])
            ends = [int(np.flatnonzero(number == each)[-1]) + 1 for each in range(1, number.max() + 1)]
            for begin, end in zip([0, *ends], [*ends, len(ids)], strict=True):
                assert row["position_ids"][begin:end] == list(range(end - begin))
            assert set(labels[ends[-1] :]) <= {-100}
        else:
            ends = [len(ids)]
        for begin, end in zip([0, *ends], ends, strict=False):
            yield ids[begin:end], labels[begin:end]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(packs(), st.sampled_from([1, 20, 2**22]))
def test_every_document_and_every_target_comes_out_as_it_went_in(tmp_path, monkeypatch, data, block):
    monkeypatch.setattr("prep_lib.shards.shard.BLOCK", block)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # hundreds of small files: what is tested is what is in them
    shutil.rmtree(tmp_path)
    folder = tmp_path / "in"
    folder.mkdir(parents=True)
    tokens = int(data["segments/length"].sum())
    entry = shard_entry(write_shard(folder / "chunk_0.h5", data), len(data["sequence"]), tokens, "int32", {})
    write_manifest(folder, shards=[entry], seq_len=PACK, totals={}, seed=1, packing={"algorithm": "concat"})
    expected = documents_of_shard(folder)
    for name in TRAINERS:
        totals = convert(folder, name, tmp_path / name)["totals"]
        assert list(documents_of_rows(name, rows(tmp_path / name))) == expected
        assert totals["targets"] + totals["masked_first"] == int(data["loss_mask"].sum())
        assert totals["documents"] == len(expected)


PT = {"sequence": SEQUENCE, **{name: values for name, values in PACKED.items() if "/" in name}}


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda path: sft(path, PT), BadInput, r"chunk_0\.h5 holds sequence; trainers' files are made of sft \("),
        (lambda path: path.mkdir(), BadShard, r"no manifest\.json in .*the run has not finished"),
        (lambda path: None, BadParameter, "no folder"),
        (lambda path: (sft(path) / "chunk_0.h5").unlink(), BadShard, r"chunk_0\.h5 is missing"),
        (lambda path: sft(path, tokens=8), BadShard, "9 tokens and 5 targets lie inside its documents, the manifest"),
        (
            lambda path: sft(path, PACKED | {"loss_mask": ~PACKED["loss_mask"]}),
            BadShard,
            "9 tokens and 4 targets lie inside its documents, .* and the mask 7",
        ),
        (
            lambda path: sft(path, PACKED | {"segments/length": np.array([3, 4, 4], np.int32)}),
            BadShard,
            "its segments do not fill its rows",
        ),
        (
            lambda path: sft(path, PACKED | {"sequence": SEQUENCE.astype(np.int64)}),
            BadShard,
            "sequence is int64; trainers read ids of int32",
        ),
    ],
)
def test_what_cannot_be_converted_is_one_line(tmp_path, make, error, said):
    make(tmp_path / "in")
    with pytest.raises(error, match=said) as caught:
        convert(tmp_path / "in", "trl", tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out/convert.json").exists()


@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        ("trl", sft, "2 rows; the first: 5 tokens, 3 targets\ndocuments of [3, 2] tokens"),
        ("llamafactory", sft, "2 rows; the first: 8 tokens, 3 targets\n2 documents, 3 tokens of padding"),
        ("axolotl", sft, "3 rows; the first: 3 tokens, 2 targets"),
        ("trl", dpo, "2 rows; chosen 4 tokens, 2 targets\n2 rows; rejected 3 tokens, 1 targets"),
        ("llamafactory", dpo, "2 rows; chosen 4 tokens, 2 targets\n2 rows; rejected 3 tokens, 1 targets"),
    ],
)
def test_the_reading_example_runs_without_this_workbench(tmp_path, name, make, said):
    convert(make(tmp_path / "in"), name, tmp_path / "out")
    example = tmp_path / "out/read_me.py"
    assert "prep_lib" not in example.read_text()
    assert len(example.read_text().strip().splitlines()) <= 11
    assert example.read_text() in (tmp_path / "out/README.md").read_text()
    at = {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    command = [sys.executable, "-I", str(example)]
    done = subprocess.run(command, env={**os.environ, **at}, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == said


def test_every_column_is_explained_where_it_stands(tmp_path):
    for name, trainer in TRAINERS.items():
        for make, kind in ((sft, "packed"), (ragged, "ragged"), (dpo, "dpo")):
            if kind == "dpo" and trainer.dpo is None:
                continue
            out = tmp_path / name / kind
            convert(make(tmp_path / kind), name, out)
            columns = set(rows(out)[0])
            text = (out / "README.md").read_text()
            explained = {part for key in trainer.columns[kind] for part in key.split(", ") if "…" not in part}
            assert explained <= columns
            assert all(f"`{key}`" in text for key in trainer.columns[kind])
            assert trainer.use[kind] in text


def test_real_rows_of_a_build_pass(tmp_path):
    from prep_lib import AutoTokenizer, ProcessorFactory, cache_jsonl

    lines = [{"query": f"what is {n} and {n}?", "response": f"it is {n + n}, " * (n % 7 + 1)} for n in range(60)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    tokenizer = AutoTokenizer().train([line["query"] + line["response"] for line in lines], vocab_size=400)
    processor = ProcessorFactory.create("sft", tokenizer)
    for size in (0, 64):
        cache_jsonl(tmp_path / "a.jsonl", tmp_path / "in", processor, pack_size=size, engine="inline", shard_size=20)
        manifest = read_manifest(tmp_path / "in")
        for name in TRAINERS:
            totals = convert(tmp_path / "in", name, tmp_path / f"{name}{size}")["totals"]
            assert totals["tokens"] == manifest["totals"]["written"]
            assert totals["targets"] == manifest["totals"]["trained"]
            assert totals["masked_first"] == 0
