"""What a pretraining program opens holds the same documents, token by token, whatever file and pack they came from."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
import tracemalloc
import weakref
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_shards import DOCUMENTS, GROUPS, flat, megatron_documents, store

from prep_lib.errors import BadInput, BadShard
from prep_lib.shards import interop, pretrain
from prep_lib.shards.formats import FORMATS
from prep_lib.shards.interop import convert
from prep_lib.shards.manifest import read_manifest
from prep_lib.shards.pretrain import READERS

GOLDEN = Path(__file__).parents[2] / "golden"


def bytes_of(folder):
    """Everything a program reads, and what stands beside it, without what names the parents."""
    skip = ("convert.json", "README.md")
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name not in skip}


def datatrove_documents(folder):
    """Documents of every file, in order."""
    found = []
    for path in sorted(folder.glob("*.ds")):
        size = int(path.with_name(f"{path.name}.metadata").read_text().splitlines()[0].split("|")[1])
        ids, ends = np.fromfile(path, f"<u{size}"), np.fromfile(f"{path}.index", "<u8").astype(int)
        assert ends[-1] == len(ids)
        found += [ids[begin:end].tolist() for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
    return found


def parquet_rows(folder):
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def test_datatrove_gets_the_order_of_the_packs_and_where_documents_end(tmp_path):
    told = convert(store(tmp_path / "in", rows=2), "datatrove", tmp_path / "out")
    assert datatrove_documents(tmp_path / "out") == [[1, 2, 3], [4, 5, 6, 7, 8], [9, 2, 1]]
    assert (tmp_path / "out/shard-00000.ds.metadata").read_text() == "toy|2\n11\n11.0 T"
    assert told["totals"] == {"documents": 3, "tokens": 11, "continued": 0}
    # In two files the second begins inside a document: a reader can know nothing of the first.
    told = convert(store(tmp_path / "two"), "datatrove", tmp_path / "out")
    assert datatrove_documents(tmp_path / "out") == [[1, 2, 3], [4, 5, 6], [7, 8], [9, 2, 1]]
    assert told["totals"] == {"documents": 4, "tokens": 11, "continued": 1}


def test_parquet_gets_a_row_a_pack(tmp_path):
    told = convert(store(tmp_path / "in"), "parquet", tmp_path / "out")
    assert parquet_rows(tmp_path / "out") == [
        {"input_ids": [1, 2, 3, 4, 5, 6], "seq_lengths": [3, 3], "source": ["web", "code"]},
        {"input_ids": [7, 8, 9, 2, 1], "seq_lengths": [2, 3], "source": ["code", "web"]},
    ]
    assert told["totals"] == {"rows": 2, "documents": 4, "tokens": 11}
    assert pq.ParquetFile(tmp_path / "out/part-00000.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize("program", sorted(READERS))
def test_the_kind_of_shard_does_not_change_a_byte(tmp_path, program):
    found = []
    for kind in FORMATS:
        convert(store(tmp_path / kind, kind=kind), program, tmp_path / f"{kind}-out")
        found.append(bytes_of(tmp_path / f"{kind}-out"))
    assert all(one == found[0] for one in found)
    # Where documents are whole, it does not matter either in which shard they lie.
    if program == "megatron":
        convert(store(tmp_path / "one", rows=2), program, tmp_path / "one-out")
        assert bytes_of(tmp_path / "one-out") == found[0]


def test_a_document_that_holds_an_eos_is_one_and_two_without_are_two(tmp_path):
    """Boundaries are data: allenai/OLMo-core#594 found them by the id, and lost documents."""
    documents = {0: (0, [1, 9, 1, 9]), 1: (0, [2, 3])}
    store(tmp_path / "in", [[(0, 0, 4), (1, 0, 2)]], documents)
    for program, read in (
        ("megatron", lambda at: megatron_documents(at)["web", "en"]),
        ("datatrove", datatrove_documents),
    ):
        convert(tmp_path / "in", program, tmp_path / program)
        assert read(tmp_path / program) == [[1, 9, 1, 9], [2, 3]]


@st.composite
def worlds(draw):
    """Documents, and their pieces in packs of any order; a document may be cut anywhere."""
    width = draw(st.integers(3, 9))
    count = draw(st.integers(1, 8))
    documents = {
        n: (draw(st.integers(0, 1)), draw(st.lists(st.integers(0, 9), min_size=1, max_size=20))) for n in range(count)
    }
    pieces = []
    for n, (_, ids) in documents.items():
        start = 0
        while start < len(ids):
            length = draw(st.integers(1, min(width, len(ids) - start)))
            pieces.append((n, start, length))
            start += length
    packs = [[]]
    for piece in draw(st.permutations(pieces)):
        if sum(length for _, _, length in packs[-1]) + piece[2] > width:
            packs.append([])
        packs[-1].append(piece)
    return documents, packs, width, draw(st.integers(1, 3)), draw(st.sampled_from(list(FORMATS)))


@settings(max_examples=25, deadline=None)
@given(worlds(), st.sampled_from([1, 5, 2**22]))
def test_every_document_comes_out_as_it_went_in(world, block):
    documents, packs, width, rows, kind = world
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patched:
        patched.setattr("prep_lib.shards.shard.BLOCK", block)
        patched.setattr(os, "fsync", lambda _: None)  # hundreds of small files: what is tested is what is in them
        folder, out = store(Path(place, "in"), packs, documents, kind=kind, width=width, rows=rows), Path(place, "out")
        tokens = sum(len(ids) for _, ids in documents.values())
        assert convert(folder, "megatron", out)["totals"]["tokens"] == tokens
        expected = {GROUPS[g]: [ids for at, ids in documents.values() if at == g] for g, _ in documents.values()}
        assert megatron_documents(out) == expected
        told = convert(folder, "parquet", Path(place, "rows"))
        found = [[documents[n][1][start : start + length] for n, start, length in pack] for pack in packs]
        stored = parquet_rows(Path(place, "rows"))
        assert [row["input_ids"] for row in stored] == [flat(pack) for pack in found]
        assert [row["seq_lengths"] for row in stored] == [list(map(len, pack)) for pack in found]
        assert [row["source"] for row in stored] == [[GROUPS[documents[n][0]][0] for n, _, _ in pack] for pack in packs]
        assert told["totals"]["tokens"] == tokens
        convert(folder, "datatrove", Path(place, "ds"))
        assert flat(datatrove_documents(Path(place, "ds"))) == flat(map(flat, found))


@pytest.mark.parametrize("packing", ["concat", "best_fit", "best_fit_split"])
@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_a_real_build_comes_out_document_by_document(tmp_path, kind, packing):
    from prep_lib import AutoTokenizer, build_shards

    rows = [{"text": f"line {n} " * (n % 40 + 1), "source": ["web", "code"][n % 2]} for n in range(60)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tokenizer = AutoTokenizer().train([row["text"] for row in rows], vocab_size=300)
    more = {"tail": "pad"} if packing == "concat" else {}
    build_shards(
        tmp_path / "a.jsonl", tmp_path / "in", tokenizer, 64, packing=packing, shard_size=10, format=kind,
        engine="inline", **more,
    )  # fmt: skip
    convert(tmp_path / "in", "megatron", tmp_path / "out")
    expected = {("code", None): [], ("web", None): []}
    for row in rows:
        ids = [*tokenizer.encode(row["text"]), tokenizer.eos_token_id]
        if packing != "best_fit" or len(ids) <= 64:
            expected[row["source"], None].append(ids)
    assert megatron_documents(tmp_path / "out") == expected
    for program in ("datatrove", "parquet"):
        totals = convert(tmp_path / "in", program, tmp_path / program)["totals"]
        assert totals["tokens"] == read_manifest(tmp_path / "in")["totals"]["written"]


@pytest.mark.parametrize("size", [0, 32])
def test_rows_of_cache_jsonl_for_pretraining_are_documents_too(tmp_path, size):
    from prep_lib import AutoTokenizer, ProcessorFactory, cache_jsonl

    texts = [f"line {n} " * (n % 5 + 1) for n in range(20)]
    for name, part in (("a", texts[:12]), ("b", texts[12:])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in part))
    tokenizer = AutoTokenizer().train(texts, vocab_size=300)
    files = [tmp_path / "b.jsonl", tmp_path / "a.jsonl"]
    processor = ProcessorFactory.create("pt", tokenizer)
    cache_jsonl(files, tmp_path / "in", processor, size, engine="inline", shard_size=7)
    convert(tmp_path / "in", "megatron", tmp_path / "out")
    documents = [[*tokenizer.encode(text), tokenizer.eos_token_id] for text in texts]
    expected = {("a.jsonl", None): documents[:12], ("b.jsonl", None): documents[12:]}
    assert megatron_documents(tmp_path / "out") == expected
    assert [file["file"] for file in json.loads((tmp_path / "out/convert.json").read_bytes())["files"]][::2] == [
        "a_text_document.bin", "b_text_document.bin"
    ]  # fmt: skip
    convert(tmp_path / "in", "parquet", tmp_path / "rows")
    assert flat(row["input_ids"] for row in parquet_rows(tmp_path / "rows")) == flat(documents[12:] + documents[:12])


@pytest.mark.parametrize("dtype", ["uint16", "int32"])
def test_the_bytes_are_those_of_the_programs_own_writers(tmp_path, dtype):
    for program in ("megatron", "datatrove"):
        golden = json.loads((GOLDEN / f"{program}.json").read_bytes())[dtype]
        documents = {n: (0, ids) for n, ids in enumerate(golden["documents"])}
        largest = 65_535 if dtype == "uint16" else 2**31 - 1
        packs = [[(n, 0, len(ids)) for n, (_, ids) in documents.items()]]
        store(
            tmp_path / program, packs, documents, groups=[("a", None)],
            dtype="uint16" if dtype == "uint16" else "uint32", tokenizer={"name": "toy", "max_id": largest},
        )  # fmt: skip
        out = tmp_path / f"{program}-out"
        convert(tmp_path / program, program, out)
        for ending, content in golden.items():
            if ending != "documents":
                name = f"a_text_document.{ending}" if program == "megatron" else f"shard-00000.{ending}"
                assert (out / name).read_bytes() == base64.b64decode(content), name


def test_full_packs_are_shared_with_datatrove_and_not_copied(tmp_path, monkeypatch):
    full = [[(0, 0, 3), (1, 0, 3)], [(1, 3, 2), (2, 0, 4)]]
    documents = DOCUMENTS | {2: (0, [9, 2, 1, 4])}
    store(tmp_path / "in", full, documents)
    convert(tmp_path / "in", "datatrove", tmp_path / "out")
    for number in range(2):
        theirs, ours = tmp_path / f"out/shard-{number:05d}.ds", tmp_path / f"in/shard-{number:05d}.bin"
        assert theirs.samefile(ours)
    shared = bytes_of(tmp_path / "out")

    def no_links(*_):
        raise OSError(95, "not supported")

    monkeypatch.setattr(pretrain.os, "link", no_links)
    convert(tmp_path / "in", "datatrove", tmp_path / "copy")
    assert bytes_of(tmp_path / "copy") == shared
    assert not (tmp_path / "copy/shard-00000.ds").samefile(tmp_path / "in/shard-00000.bin")


def test_a_changed_file_beside_a_shard_is_refused(tmp_path):
    store(tmp_path / "in")
    path = tmp_path / "in/shard-00001.segments.npy"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    with pytest.raises(BadShard, match=r"shard-00001\.segments\.npy is not the file its manifest tells of"):
        convert(tmp_path / "in", "megatron", tmp_path / "out")


@pytest.mark.parametrize("program", sorted(READERS))
def test_an_empty_build_is_refused(tmp_path, program):
    from prep_lib import AutoTokenizer, build_shards

    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "a b"}) + "\n")
    tokenizer = AutoTokenizer().train(["a b c d"], vocab_size=270)
    build_shards(tmp_path / "a.jsonl", tmp_path / "in", tokenizer, 64, engine="inline")
    with pytest.raises(BadInput, match="holds no token; nothing to convert"):
        convert(tmp_path / "in", program, tmp_path / "out")


@pytest.mark.parametrize("program", sorted(READERS))
def test_masks_and_rows_without_segments_are_refused(tmp_path, program):
    from toy_shards import SEQUENCE, dpo, ragged, sft

    for make in (sft, ragged, dpo):
        with pytest.raises(BadInput, match=r"files for pretraining hold ids alone: convert --to trl"):
            convert(make(tmp_path / make.__name__), program, tmp_path / "out")
    source = sft(tmp_path / "plain", {"sequence": SEQUENCE}, tokens=12)
    with pytest.raises(BadInput, match=r"rows without segments: where its documents begin is not known"):
        convert(source, program, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("program", sorted(READERS))
def test_memory_stays_the_same_for_four_times_the_ids_and_few_shards_are_open(tmp_path, monkeypatch, program):
    """NVIDIA-NeMo/Megatron-Bridge#3968: a map for every file, until the system refused."""
    width, real = 2048, interop.open_shard
    monkeypatch.setattr("prep_lib.shards.shard.BLOCK", 2**14)
    alive, most = weakref.WeakSet(), [0]

    def opened(path):
        shard = real(path)
        alive.add(shard)
        most[0] = max(most[0], len(alive))
        return shard

    monkeypatch.setattr(interop, "open_shard", opened)
    peaks = []
    for count in (20, 100, 400):  # the first warms up
        documents = {n: (0, [n % 9] * width) for n in range(count)}
        store(tmp_path / f"{count}", [[(n, 0, width)] for n in range(count)], documents, width=width, rows=20)
        tracemalloc.start()
        try:
            convert(tmp_path / f"{count}", program, tmp_path / f"{count}-out")
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert most[0] <= 3
    # 1.2 MB of ids more; what is known of 300 documents and 15 files may be more.
    assert peaks[2] < peaks[1] + 300_000, peaks


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (
            "megatron",
            "--data-path 5 {out}/code_text_document 6 {out}/web_en_text_document\n"
            "code_text_document.bin 1 documents, 5 tokens; the first: [4, 5, 6, 7, 8] …\n"
            "web_en_text_document.bin 2 documents, 6 tokens; the first: [1, 2, 3] …",
        ),
        (
            "datatrove",
            "shard-00000.ds 2 documents, 6 tokens; the first: [1, 2, 3] …\n"
            "shard-00001.ds 2 documents, 5 tokens; the first: [7, 8] …",
        ),
        ("parquet", "2 rows; the first: 6 tokens of 2 documents"),
    ],
)
def test_the_reading_example_runs_without_this_workbench(tmp_path, program, said):
    out = tmp_path / "out"
    convert(store(tmp_path / "in"), program, out)
    example = out / "read_me.py"
    assert "prep_lib" not in example.read_text("utf-8")
    assert example.read_text("utf-8") in (out / "README.md").read_text("utf-8")
    at = {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    command = [sys.executable, "-I", str(example)]
    done = subprocess.run(command, env={**os.environ, **at}, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == said.format(out=out)
