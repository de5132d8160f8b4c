"""Failures other people met with stored ids and HDF5, each as a case; the numbers are those of the list of reports.

BUG-049, 050          ids that wrap, limits that forget added tokens
BUG-055, 056          truncated documents, EOS that is not counted
BUG-059 to 062        HDF5: open elsewhere, killed, attributes too large, no locks
stream 41, 46         too many maps, handles shared by workers
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from toy_shards import store

from prep_lib.errors import BadParameter, BadShard
from prep_lib.shards.bin import id_dtype
from prep_lib.shards.formats import FORMATS, open_shard
from prep_lib.shards.h5 import H5Shard, ShardWriter
from prep_lib.shards.interop import convert
from prep_lib.shards.manifest import read_manifest
from prep_lib.shards.verify import verify

WIDTHS = {"uint16": 65_535, "int32": 2**31 - 1, "uint32": 2**32 - 1}


@pytest.mark.parametrize("number", ["BUG-049"])
@pytest.mark.parametrize("kind", sorted(FORMATS))
@pytest.mark.parametrize("dtype", sorted(WIDTHS))
@pytest.mark.parametrize("largest", [1, 65_535, 65_536, 151_643, 2**31])
def test_an_id_is_stored_as_it_is_or_refused(tmp_path, number, kind, dtype, largest):
    documents = {0: (0, [0, largest, 1])}
    told = {"kind": kind, "dtype": dtype, "tokenizer": {"name": "t", "max_id": largest}}
    if largest > WIDTHS[dtype]:
        with pytest.raises(BadParameter, match=f"value {largest} does not fit {dtype}"):
            store(tmp_path, [[(0, 0, 3)]], documents, **told)
        assert not list(tmp_path.glob("*.bin")) + list(tmp_path.glob("*.h5")) + list(tmp_path.glob("*.npz"))
        return
    store(tmp_path, [[(0, 0, 3)]], documents, **told)
    shard = open_shard(tmp_path / FORMATS[kind].file(0))
    assert shard.columns["sequence"][0, :3].tolist() == [0, largest, 1]


@pytest.mark.parametrize("number", ["BUG-050"])
def test_the_type_counts_added_tokens(tmp_path, number):
    """A vocabulary of 65,536 with one token more no longer fits two bytes."""
    assert (id_dtype(65_535), id_dtype(65_536)) == (np.dtype("<u2"), np.dtype("<u4"))
    from prep_lib import AutoTokenizer, build_shards

    tokenizer = AutoTokenizer().train(["a b c"] * 3, vocab_size=300, special_tokens=["<|endoftext|>", "<|pad|>"])
    tokenizer.save(tmp_path / "toy")
    path = tmp_path / "toy/tokenizer.json"
    content = json.loads(path.read_text("utf-8"))
    content["added_tokens"].append(content["added_tokens"][-1] | {"id": 70_000, "content": "<|far|>"})
    content["model"]["vocab"]["<|far|>"] = 70_000
    path.write_text(json.dumps(content), "utf-8")
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "a b c"}) + "\n")
    build_shards(
        tmp_path / "a.jsonl", tmp_path / "out", AutoTokenizer(tmp_path / "toy"), 4, tail="pad", engine="inline"
    )
    [entry] = read_manifest(tmp_path / "out")["shards"]
    assert entry["dtype"] == "uint32"


@pytest.mark.parametrize("number", ["BUG-055", "BUG-056"])
@pytest.mark.parametrize("packing", ["concat", "best_fit_split"])
def test_cut_documents_keep_their_borders_and_every_token_is_counted(tmp_path, number, packing):
    from prep_lib import AutoTokenizer, build_shards

    texts = ["a b c d e f g h i j k", "l m n o", "p q r"]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    tokenizer = AutoTokenizer().train(texts, vocab_size=300)
    more = {"tail": "pad"} if packing == "concat" else {}
    build_shards(tmp_path / "a.jsonl", tmp_path / "out", tokenizer, 8, packing=packing, engine="inline", **more)
    manifest = read_manifest(tmp_path / "out")
    lengths = [len(tokenizer.encode(text)) + 1 for text in texts]
    assert sum(entry["tokens"] for entry in manifest["shards"]) == sum(lengths) == manifest["totals"]["written"]
    assert verify(tmp_path / "out") == []
    told = convert(tmp_path / "out", "megatron", tmp_path / "theirs")
    raw = (tmp_path / "theirs" / told["files"][1]["file"]).read_bytes()
    assert np.frombuffer(raw, "<i4", 3, 34).tolist() == lengths


@pytest.mark.parametrize("number", ["BUG-059"])
def test_while_a_shard_is_written_no_reader_sees_it(tmp_path, number):
    path = tmp_path / "chunk_0.h5"
    with ShardWriter(path) as writer:
        column = writer.create("sequence", (2, 2), np.int32)
        column[0:1] = np.ones((1, 2), np.int32)
        with pytest.raises(BadShard, match="there is no such file"):
            H5Shard(path)
    assert len(H5Shard(path)) == 2


@pytest.mark.parametrize("number", ["BUG-060"])
@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_a_writer_killed_in_the_second_of_four_leaves_one_shard_and_no_broken_one(tmp_path, number, kind):
    code = (
        "import os, sys\nimport numpy as np\nfrom pathlib import Path\nsys.path.insert(0, sys.argv[3])\n"
        "from toy_shards import PACKS, store\nfrom prep_lib.shards.formats import FORMATS\nmade = []\n"
        "def change(ids, columns):\n"
        "    made.append(1)\n"
        "    if len(made) == 2:\n"
        "        form = FORMATS[sys.argv[2]]\n"
        "        writer = form.writer(Path(sys.argv[1], form.file(1)))\n"
        "        column = writer.__enter__().create('sequence', (4, 6), np.int32)\n"
        "        column[0:1] = np.ones((1, 6), np.int32)\n"
        "        os.kill(os.getpid(), 9)\n"
        "    return ids, columns\n"
        "store(Path(sys.argv[1]), PACKS * 2, kind=sys.argv[2], change=change)\n"
    )
    tests = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path), kind, tests], capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    shown = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert shown == set(FORMATS[kind].outputs(0))
    store(tmp_path, kind=kind)
    assert len(open_shard(tmp_path / FORMATS[kind].file(1))) == 1


@pytest.mark.parametrize("number", ["BUG-061"])
def test_ids_of_twenty_thousand_documents_are_no_attribute(tmp_path, number):
    names = [f"{'x' * 40}-{n}.jsonl" for n in range(20_000)]
    with ShardWriter(tmp_path / "a.h5") as writer:
        writer.write("sequence", np.zeros((1, 1), np.int32))
        writer.strings("documents/sources", names)
        for name in ("source", "line"):
            writer.write(f"documents/{name}", np.arange(20_000))
    assert H5Shard(tmp_path / "a.h5").sources == names


@pytest.mark.parametrize("number", ["BUG-062"])
@pytest.mark.parametrize("locking", ["FALSE", "TRUE", None])
def test_reading_works_whatever_locks_there_are(tmp_path, number, locking):
    store(tmp_path, kind="h5")
    code = "import sys; from prep_lib.shards.formats import open_shard; print(len(open_shard(sys.argv[1])))"
    env = {name: value for name, value in os.environ.items() if name != "HDF5_USE_FILE_LOCKING"}
    env |= {"HDF5_USE_FILE_LOCKING": locking} if locking else {}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "chunk_0.h5")], env=env, capture_output=True, text=True
    )
    assert done.stdout == "1\n", done.stderr


@pytest.mark.parametrize("number", ["stream 41", "stream 46"])
@pytest.mark.parametrize(("kind", "most"), [("h5", 1), ("bin", 2), ("npz", 1)])
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="only Linux tells which files are open")
def test_an_open_shard_holds_one_map_a_file_and_lets_go_of_it(tmp_path, number, kind, most):
    """NVIDIA-NeMo/Megatron-Bridge#3968: every map holds a handle; pytorch/pytorch#11928: one that workers share."""
    store(tmp_path, kind=kind)

    def held():
        names = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
        return [name for name in names if name.startswith(str(tmp_path))]

    shard = open_shard(tmp_path / FORMATS[kind].file(0))
    assert shard.row(0)["sequence"].tolist() == [1, 2, 3, 4, 5, 6]
    assert shard.segments(0)["length"].tolist() == [3, 3]
    assert len(held()) <= most
    del shard
    gc.collect()
    assert not held()


@pytest.mark.parametrize("number", ["stream 42"])
@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_a_row_outlives_its_shard(tmp_path, number, kind):
    """Megatron's and litdata's readers crash the process when a row is used after its file was let go."""
    store(tmp_path, kind=kind)
    row = open_shard(tmp_path / FORMATS[kind].file(0)).row(0)["sequence"]
    for path in tmp_path.iterdir():
        path.unlink()
    assert row.tolist() == [1, 2, 3, 4, 5, 6]
