"""What `prep convert` writes for pretraining, through each program's own reader, beside the documents themselves.

    python3.11 -m venv /tmp/mcore && /tmp/mcore/bin/pip install -r tests/bench/peers/megatron.txt
    /tmp/mcore/bin/pip install --no-deps megatron-core==0.16.1
    .venv/bin/python tests/bench/peers/convert_pretrain.py megatron /tmp/mcore/bin/python

    … the same with datatrove and datatrove.txt; parquet takes the environment of datatrove, which has `datasets`
    .venv/bin/python tests/bench/peers/convert_pretrain.py golden /tmp/mcore/bin/python    (or that of datatrove)

The last writes tests/golden/megatron.json, or datatrove.json: what their own builders make of a few documents.

Shards are built here in every packing and format, with a small tokenizer (16 bits) and one whose ids need 32. What is
expected is made from the records alone, text by text, without looking at any shard. The program's environment then
opens the converted folder its own way. Nothing is measured in seconds.
"""

from __future__ import annotations

import base64
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

SEQ_LEN, RECORDS, SAMPLE = 64, 200, 48
WAYS = {
    "bin": {"format": "bin"}, "h5": {"format": "h5"}, "npz": {"format": "npz"},
    "padded": {"format": "bin", "tail": "pad"}, "best_fit": {"format": "h5", "packing": "best_fit"},
    "split": {"format": "bin", "packing": "best_fit_split"}, "wide": {"format": "bin", "wide": True},
}  # fmt: skip
GOLDEN = Path(__file__).parents[2] / "golden"
#: What the golden files hold: documents of a few ids, the smallest and the largest of each type among them.
SMALL = {"uint16": [[5, 6, 7], [65_535], [0, 1]], "int32": [[70_000, 65_536, 1], [2**31 - 1]]}


# ── here: shards, conversions, and what is expected ──────────────────────────────────────────────────────────────────


def records() -> Iterator[dict[str, Any]]:
    """Yield records of several sources and languages, some of them without, some long."""
    words = ["when", "rain", "falls", "the", "river", "你好", "rises", "42", "slowly", "and", "then", "sinks"]
    dice = random.Random(0)
    for number in range(RECORDS):
        record = {"text": " ".join(dice.choices(words, k=dice.choice([1, 4, 20, 60, 200])))}
        record |= {"source": dice.choice(["web", "code/x y"])} if number % 3 else {}
        record |= {"language": dice.choice(["en", "zh"])} if number % 4 else {}
        yield record


def build(folder: Path, way: dict[str, Any]) -> dict[str, list[list[int]]]:
    """Build shards and return the documents that must be in them, by source and language."""
    from prep_lib import AutoTokenizer, build_shards

    wide = way.get("wide", False)
    rows = list(records())
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    tokenizer = AutoTokenizer().train([row["text"] for row in rows], vocab_size=400)
    if wide:
        tokenizer = _with_many_ids(tokenizer, folder)
    given = {name: value for name, value in way.items() if name != "wide"}
    build_shards(folder / "a.jsonl", folder / "in", tokenizer, SEQ_LEN, shard_size=40, engine="inline", **given)
    documents: dict[str, list[list[int]]] = {}
    for row in rows:
        ids = [*tokenizer.encode(row["text"]), tokenizer.eos_token_id]
        if way.get("packing") != "best_fit" or len(ids) <= SEQ_LEN:
            key = json.dumps([row.get("source", "a"), row.get("language")])
            documents.setdefault(key, []).append(ids)
    return documents


def _with_many_ids(tokenizer: Any, folder: Path) -> Any:
    """Give a tokenizer's tokens ids above 65,535."""
    from prep_lib import AutoTokenizer

    tokenizer.save(folder / "small")
    path = folder / "small" / "tokenizer.json"
    content = json.loads(path.read_text("utf-8"))
    content["model"]["vocab"] = {token: at + 70_000 for token, at in content["model"]["vocab"].items()}
    for token in content["added_tokens"]:
        token["id"] += 70_000
    path.write_text(json.dumps(content, ensure_ascii=False), "utf-8")
    return AutoTokenizer(folder / "small")


def main() -> None:
    """Build, convert, and let the program's own environment compare."""
    program, *rest = sys.argv[1:]
    if rest[0] == "theirs":
        for line in PEERS[program](Path(rest[1])):
            print(line, flush=True)
        return
    if program == "golden":
        subprocess.run([rest[0], __file__, program, "theirs", str(GOLDEN)], check=True)
        return
    from prep_lib.shards.interop import convert

    for name, way in WAYS.items():
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            expected = build(folder, way)
            told = convert(folder / "in", program, folder / "out")
            (folder / "expected.json").write_text(json.dumps({"documents": expected, "told": told}), "utf-8")
            (folder / "rows.json").write_text(json.dumps(list(_rows(folder / "in"))), "utf-8")
            print(f"── {name}", flush=True)
            subprocess.run([rest[0], __file__, program, "theirs", place], check=True)


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield every row with its pieces, read with nothing but the shard's own arrays."""
    from prep_lib.shards.formats import open_shard
    from prep_lib.shards.manifest import read_manifest

    for number, entry in enumerate(read_manifest(folder)["shards"]):
        shard = open_shard(folder / entry["file"])
        for at in range(len(shard)):
            pieces = {name: values.tolist() for name, values in shard.segments(at).items()}
            filled = sum(pieces["length"])
            yield {"shard": number, "ids": shard.row(at)[shard.keys[0]][:filled].tolist(), **pieces}


# ── there: Megatron ──────────────────────────────────────────────────────────────────────────────────────────────────


def megatron(place: Path) -> Iterator[str]:
    """Compare documents and bounds, samples of one data set, and the blend."""
    import numpy as np
    from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder

    stored = json.loads((place / "expected.json").read_text("utf-8"))
    expected, told = stored["documents"], stored["told"]
    files = [file for file in told["files"] if file["file"].endswith(".bin")]
    lost = sum(file["lost"] for file in files)
    count = 0
    for file in files:
        prefix = str(place / "out" / file["file"].removesuffix(".bin"))
        dataset = IndexedDataset(prefix)
        wanted = expected[json.dumps([file["source"], file["language"]])]
        wanted = [ids[: len(dataset[at])] for at, ids in enumerate(wanted[: len(dataset)])] if lost else wanted
        found = [dataset[at].tolist() for at in range(len(dataset))]
        assert found == wanted, prefix
        assert dataset.document_indices.tolist() == list(range(len(wanted) + 1))
        assert dataset.sequence_lengths.tolist() == [len(ids) for ids in wanted]
        # Their builder, given the same documents, writes the same bytes.
        builder = IndexedDatasetBuilder(f"{place}/theirs.bin", getattr(np, file["dtype"]))
        for ids in wanted:
            builder.add_document(ids, [len(ids)])
        builder.finalize(f"{place}/theirs.idx")
        for ending in (".bin", ".idx"):
            assert (place / f"theirs{ending}").read_bytes() == Path(prefix + ending).read_bytes(), ending
        count += len(found)
        _check_samples(prefix, dataset, place)
    missing = sum(len(ids) for each in expected.values() for ids in each) - sum(file["tokens"] for file in files)
    assert 0 <= missing < SEQ_LEN
    yield f"IndexedDataset: {len(files)} pairs ({files[0]['dtype']}), {count} documents equal, bytes as their builder's"
    yield f"{missing} tokens of the stream were left over when its tail was dropped; told: {lost} in documents begun"
    yield f"GPTDataset: every sample k is tokens kS to kS + S of the document stream, S = {SAMPLE}"
    yield _blend(place, told)


class _Tokenizer:
    """What GPTDataset asks of a tokenizer."""

    vocab_size, eod, pad, eos, bos = 400, 0, 2**31 - 2, 0, 0
    unique_identifiers: ClassVar[dict[str, str]] = {"class": "toy"}
    special_tokens_dict: ClassVar[dict[str, int]] = {}


def _config(place: Path, **more: Any) -> Any:
    from megatron.core.datasets.gpt_dataset import GPTDatasetConfig

    return GPTDatasetConfig(
        random_seed=1, sequence_length=SAMPLE, split="1,0,0", path_to_cache=str(place / "cache"),
        tokenizer=_Tokenizer(), reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False, **more,
    )  # fmt: skip


def _check_samples(prefix: str, dataset: Any, place: Path) -> None:
    import numpy as np
    from megatron.core.datasets.gpt_dataset import GPTDataset
    from megatron.core.datasets.utils import Split

    indices = np.arange(len(dataset), dtype=np.int32)
    found = GPTDataset(dataset, prefix, indices, None, Split.train, _config(place, blend=([prefix], None)))
    assert sorted(found.document_index.tolist()) == indices.tolist()
    stream = np.concatenate([dataset[at] for at in found.document_index]).astype(np.int64)
    assert len(found) == (len(stream) - 1) // SAMPLE
    for at, k in enumerate(found.shuffle_index.tolist()):
        sample = found[at]
        assert sample["tokens"].tolist() == stream[k * SAMPLE : (k + 1) * SAMPLE].tolist()
        assert sample["labels"].tolist() == stream[k * SAMPLE + 1 : (k + 1) * SAMPLE + 1].tolist()


def _blend(place: Path, told: dict[str, Any]) -> str:
    """Give the printed line to Megatron's own parser and builder; every token weighs the same."""
    from collections import Counter

    import torch
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset
    from megatron.core.datasets.utils import get_blend_from_list

    words = [str(word) for tokens, prefix in told["blend"] for word in (tokens, place / "out" / prefix)]
    blend = get_blend_from_list(words)
    size = sum(tokens for tokens, _ in told["blend"]) // SAMPLE // 2
    # The builder asks a process group for its rank; one process is one.
    torch.distributed.init_process_group("gloo", init_method=f"file://{place}/store", rank=0, world_size=1)
    config = _config(place, blend=blend)
    [train, *_] = BlendedMegatronDatasetBuilder(GPTDataset, [size, 0, 0], lambda: True, config).build()
    drawn = Counter(int(train[at]["dataset_id"]) for at in range(size))
    total = sum(tokens for tokens, _ in told["blend"])
    off = max(abs(drawn[at] - tokens * size / total) for at, (tokens, _) in enumerate(told["blend"]))
    assert off < 2, (drawn, told["blend"])
    return (
        f"BlendedDataset: the printed line, {len(told['blend'])} data sets; shares of {size} samples within {off:.1f}"
    )


def golden(place: Path) -> Iterator[str]:
    """Write what the builder of this environment makes of a few documents."""
    name, told = _golden_megatron() if find_spec("megatron") else _golden_datatrove()
    (place / f"{name}.json").write_text(json.dumps(told) + "\n", "utf-8")
    yield f"written: {name}.json"


def _golden_megatron() -> tuple[str, dict[str, Any]]:
    import megatron.core
    import numpy as np
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

    told: dict[str, Any] = {"made by": f"megatron-core {megatron.core.__version__}"}
    with tempfile.TemporaryDirectory() as place:
        for dtype, documents in SMALL.items():
            builder = IndexedDatasetBuilder(f"{place}/a.bin", getattr(np, dtype))
            for ids in documents:
                builder.add_document(ids, [len(ids)])
            builder.finalize(f"{place}/a.idx")
            told[dtype] = {"documents": documents, **_raw(Path(place, "a.bin"), Path(place, "a.idx"))}
    return "megatron", told


def _golden_datatrove() -> tuple[str, dict[str, Any]]:
    import importlib.metadata

    from datatrove.pipeline.tokens.tokenizer import TokenizedFile

    told: dict[str, Any] = {"made by": f"datatrove {importlib.metadata.version('datatrove')}"}
    with tempfile.TemporaryDirectory() as place:
        for dtype, documents in SMALL.items():
            theirs = TokenizedFile(place, "a.ds", save_final_metadata=True, token_size=2 if dtype == "uint16" else 4)
            theirs.tokenizer_name_or_path = "toy"
            for ids in documents:
                theirs.write(ids, None)
            theirs.close()
            names = ("a.ds", "a.ds.index", "a.ds.metadata")
            told[dtype] = {"documents": documents, **_raw(*(Path(place, name) for name in names))}
    return "datatrove", told


def _raw(*paths: Path) -> dict[str, str]:
    return {path.name.partition(".")[2]: base64.b64encode(path.read_bytes()).decode() for path in paths}


# ── there: datatrove, Parquet ────────────────────────────────────────────────────────────────────────────────────────


def datatrove(place: Path) -> Iterator[str]:
    """Compare windows and positions with the rows, and metadata with what their writer makes."""
    from datatrove.pipeline.tokens.tokenizer import TokenizedFile
    from datatrove.utils.dataset import DatatroveFolderDataset

    told = json.loads((place / "expected.json").read_text("utf-8"))["told"]
    rows = json.loads((place / "rows.json").read_text("utf-8"))
    heads = told["files"][::3]
    size = heads[0]["token_size"]
    windows = 0
    for seq_len in (SEQ_LEN - 1, 30):
        data = DatatroveFolderDataset(str(place / "out"), seq_len, "*.ds", token_size=size, return_positions=True)
        expected = list(_windows(rows, seq_len + 1))
        assert len(data) == len(expected), (len(data), len(expected))
        for at, (ids, positions) in enumerate(expected):
            item = data[at]
            assert item["input_ids"].tolist() == ids, at
            assert item["positions"].tolist() == positions, at
        windows += len(expected)
        if seq_len == SEQ_LEN - 1 and all(len(row["ids"]) == SEQ_LEN for row in rows):
            assert [ids for ids, _ in expected] == [row["ids"] for row in rows]
            yield f"windows of seq_len {seq_len} are the packs"
    for head in heads:
        ends = [len(ids) for ids in _joined([row for row in rows if row["shard"] == heads.index(head)])]
        theirs = TokenizedFile(str(place), "theirs.ds", save_final_metadata=True, token_size=size)
        theirs.tokenizer_name_or_path = told["tokenizer"]["name"]
        for ids in _joined([row for row in rows if row["shard"] == heads.index(head)]):
            theirs.write(ids, None)
        theirs.close()
        for ending in ("", ".index", ".metadata"):
            ours = (place / "out" / f"{head['file']}{ending}").read_bytes()
            assert ours == (place / f"theirs.ds{ending}").read_bytes(), (ending, ours[:80])
        assert head["documents"] == len(ends)
    yield f"DatatroveFolderDataset: {len(heads)} files ({size} bytes a token), {windows} windows with positions equal"
    yield "TokenizedFile: the same documents give the same .ds, .index and .metadata"


def _joined(rows: list[dict[str, Any]]) -> Iterator[list[int]]:
    """Yield the documents of a shard, or what it has of them: pieces that follow each other are one."""
    ids: list[int] = []
    last: tuple[int, int] | None = None
    for row in rows:
        at = 0
        for document, start, length in zip(row["document"], row["start"], row["length"], strict=True):
            if last != (document, start) and ids:
                yield ids
                ids = []
            ids = ids + row["ids"][at : at + length]
            at, last = at + length, (document, start + length)
    if ids:
        yield ids


def _windows(rows: list[dict[str, Any]], width: int) -> Iterator[tuple[list[int], list[int]]]:
    for shard in sorted({row["shard"] for row in rows}):
        documents = list(_joined([row for row in rows if row["shard"] == shard]))
        ids = [token for document in documents for token in document]
        place = [at for document in documents for at in range(len(document))]
        for first in range(0, len(ids) - width + 1, width):
            window = place[first : first + width]
            begun = next((at for at, value in enumerate(window) if value == 0), width)
            # A document that was begun in the window before is counted anew.
            yield ids[first : first + width], [*range(begun), *window[begun:]]


def parquet(place: Path) -> Iterator[str]:
    """Compare the rows `datasets` loads with those of the shards."""
    from datasets import disable_progress_bars, load_dataset

    disable_progress_bars()
    rows = json.loads((place / "rows.json").read_text("utf-8"))
    data = load_dataset(
        "parquet", data_files=str(place / "out" / "part-*.parquet"), split="train", cache_dir=str(place)
    )
    assert len(data) == len(rows)
    for ours, theirs in zip(rows, data, strict=True):
        assert theirs["input_ids"] == ours["ids"]
        assert theirs["seq_lengths"] == ours["length"]
        assert len(theirs["source"]) == len(ours["length"])
    same = load_dataset(str(place / "out"), split="train", cache_dir=str(place / "again"))
    assert len(same) == len(rows)
    yield f"datasets: {len(rows)} rows equal, by files and by folder; columns {data.column_names}"


PEERS = {"megatron": megatron, "golden": golden, "datatrove": datatrove, "parquet": parquet}

if __name__ == "__main__":
    main()
