"""Whatever is wrong with a folder of shards is named, and nothing else is."""

import json
import shutil

import numpy as np
import pytest
from toy_shards import FIRST, MASK, PACKED, SEQUENCE, build, write_shard

from prep_lib.shards.h5 import IOHandler
from prep_lib.shards.manifest import Finding
from prep_lib.shards.verify import verify


def found(folder):
    return [(finding.file, finding.what, finding.severity) for finding in verify(folder)]


def test_a_good_folder_has_no_findings(tmp_path):
    assert verify(build(tmp_path)) == []
    (tmp_path / "ledger.json").touch()
    (tmp_path / ".prep").mkdir()
    assert verify(tmp_path) == []


def test_a_flipped_byte_of_data_is_named(tmp_path):
    build(tmp_path)
    path = tmp_path / "chunk_0.h5"
    raw = bytearray(path.read_bytes())
    raw[raw.index(SEQUENCE.tobytes())] ^= 1
    path.write_bytes(raw)
    assert found(tmp_path) == [("chunk_0.h5", "its content has changed: sha256 differs from the manifest", "error")]


def test_cut_missing_and_foreign_files_are_named(tmp_path):
    build(tmp_path)
    path = tmp_path / "chunk_0.h5"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-1])
    assert found(tmp_path) == [("chunk_0.h5", f"has {size - 1:,} bytes, the manifest says {size:,}", "error")]
    shutil.copy(path, tmp_path / "chunk_1.h5")
    path.unlink()
    (tmp_path / "notes.txt").touch()
    assert found(tmp_path) == [
        ("chunk_0.h5", "is missing", "error"),
        ("chunk_1.h5", "is in the folder but not in the manifest", "error"),
        ("notes.txt", "is in the folder but not in the manifest", "warning"),
    ]


def test_a_folder_without_manifest_is_not_complete(tmp_path):
    write_shard(tmp_path / "chunk_0.h5")
    [finding] = verify(tmp_path)
    assert finding.file == "manifest.json"
    assert "the run has not finished" in finding.what


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"sequence": SEQUENCE + 1}, "sequence holds id 10, allowed are 0 to 9"),
        ({"sequence": -SEQUENCE}, "sequence holds id -9, allowed are 0 to 9"),
        ({"sequence": SEQUENCE.astype(np.int64)}, "holds ids as int64, the manifest says int32"),
        ({"segments/length": np.array([3, 2, 3])}, "holds 8 tokens, the manifest says 9"),
        ({"segments/length": np.array([1, 0, 8])}, "segment 1 has no token"),
        ({"segments/length": np.array([1, 1, 7])}, "segments of row 1 are longer than its 6 places"),
        ({"segments/row": np.array([0, 1, 0])}, "segments do not go through the rows in order"),
        ({"segments/row": np.array([0, 0, 0])}, "segments do not go through the rows in order"),
        ({"segments/document": np.array([0, 1, 3])}, "a segment names a document that is not among the 3 listed"),
        ({"segments/document": np.array([0, 1])}, "the columns of segments differ in size"),
        ({"documents/source": np.array([0, 0, 2])}, "a document names a source that is not listed"),
        ({"loss_mask": ~MASK}, "loss_mask trains padding in row 0"),
        ({"loss_mask": MASK & FIRST}, "loss_mask trains nothing in row 1 (1 such rows)"),
        ({"loss_mask": MASK[:, :5]}, "loss_mask (2, 5) does not have the shape of sequence (2, 6)"),
        ({"loss_mask": MASK[:1]}, "keys differ in rows"),
    ],
)
def test_every_broken_invariant_is_named(tmp_path, change, what):
    assert any(what in line for _, line, severity in found(build(tmp_path, PACKED | change)) if severity == "error")


@pytest.mark.parametrize("algorithm", ["concat", "best_fit_split"])
def test_a_pack_without_target_may_happen_where_a_long_question_is_cut(tmp_path, algorithm):
    data = PACKED | {"loss_mask": MASK & FIRST}
    [finding] = verify(build(tmp_path, data, packing={"algorithm": algorithm}))
    assert finding == Finding("chunk_0.h5", "loss_mask trains nothing in row 1 (1 such rows)", "warning")


@pytest.mark.parametrize(
    ("path", "value", "what"),
    [
        (("shards", 0, "sequences"), 3, "holds 2 sequences, the manifest says 3"),
        (("seq_len",), 5, "rows of sequence are not of the manifest's seq_len 5"),
        (("totals", "written"), 10, "says 10 tokens written, its shards sum to 9"),
        (("totals", "padding"), 4, "says 4 tokens of padding, its shards sum to 3"),
        (("packing", "packs"), 4, "says 4 packs, its shards sum to 2"),
        (("shards", 0, "sources"), {"a": 8}, "the sources of chunk_0.h5 do not sum to its 9 tokens"),
    ],
)
def test_a_manifest_that_says_something_else_is_named(tmp_path, path, value, what):
    file = build(tmp_path) / "manifest.json"
    stored = json.loads(file.read_bytes())
    *way, last = path
    at = stored
    for step in way:
        at = at[step]
    at[last] = value
    file.write_text(json.dumps(stored))
    assert what in [line for _, line, _ in found(tmp_path)]


def test_ragged_shards_are_verified_too(tmp_path):
    data = {
        "sequence": np.arange(5, dtype=np.int32), "offsets/sequence": np.array([0, 2, 5]),
        "loss_mask": np.array([0, 1, 0, 0, 1], bool), "offsets/loss_mask": np.array([0, 2, 5]),
    }  # fmt: skip
    assert verify(build(tmp_path, data, seq_len=None, tokens=5)) == []
    data["loss_mask"] = np.array([0, 1, 0, 0, 0], bool)
    assert found(build(tmp_path, data, seq_len=None, tokens=5)) == [
        ("chunk_0.h5", "loss_mask trains nothing in row 1 (1 such rows)", "error")
    ]
    data |= {"documents/source": np.array([0]), "documents/line": np.array([1])}
    assert ("chunk_0.h5", "lists 1 documents for 2 rows", "error") in found(
        build(tmp_path, data, seq_len=None, tokens=5)
    )
    data["offsets/loss_mask"] = np.array([0, 3, 5])
    assert any("does not have the shape" in what for _, what, _ in found(build(tmp_path, data, seq_len=None, tokens=5)))


def test_an_empty_shard_is_whole(tmp_path):
    none = {name: values[:0] for name, values in PACKED.items()}
    folder = build(tmp_path, none, tokens=0, sequences=0)
    assert verify(folder) == []
    assert len(IOHandler.load_h5(folder / "chunk_0.h5")["sequence"]) == 0
