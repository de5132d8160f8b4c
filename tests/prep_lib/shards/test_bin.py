"""Flat ids and the two files beside them."""

from __future__ import annotations

import errno
import pickle
from pathlib import Path

import numpy as np
import orjson
import pytest
import zstandard

from prep_lib.errors import BadParameter, BadShard, NoSpace
from prep_lib.remote import place
from prep_lib.shards.bin import BinShard, BinWriter, beside, id_dtype
from prep_lib.shards.manifest import shard_entry, write_manifest

# Two rows of 4: document 0 lies across both.   0 0 0 0 | 0 1 1 ·
IDS = np.array([[5, 6, 7, 8], [9, 2, 3, 0]], np.int32)
COLUMNS = {
    "segments/row": np.array([0, 1, 1]), "segments/start": np.array([0, 4, 0]),
    "segments/length": np.array([4, 1, 2], np.int32), "segments/document": np.array([0, 0, 1]),
    "documents/source": np.array([1, 0]), "documents/line": np.array([7, 3]), "documents/group": np.array([0, 1]),
    "documents/tokens": np.array([5, 2]), "documents/id": np.frombuffer("网页".encode(), np.uint8),
    "documents/id_end": np.array([6, 6]),
}  # fmt: skip


def write(path: Path, ids: np.ndarray = IDS, dtype: str = "<u2") -> Path:
    with BinWriter(path) as writer:
        column = writer.create("sequence", ids.shape, dtype)
        for row in range(len(ids)):
            column[row : row + 1] = ids[row : row + 1]
        for name, values in COLUMNS.items():
            writer.write(name, values)
        writer.strings("documents/sources", ["b.parquet", "a.jsonl"])
        writer.strings("documents/groups", ['["web","zh"]', '["code",null]'])
    return path


def test_the_bytes_are_the_ids_and_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path / "shard-00000.bin")
    assert path.read_bytes() == IDS.astype("<u2").tobytes()
    assert np.fromfile(path, "<u2").reshape(-1, 4).tolist() == IDS.tolist()


def test_a_shard_is_written_behind_an_address_as_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here, far = write(tmp_path / "shard-00000.bin"), write(place("memory://bin/shard-00000.bin"))
    for one, other in zip([here, *beside(here)], [far, *beside(far)], strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert len([*tmp_path.iterdir()]) == 3, "and nothing is called memory:"


def test_a_shard_says_what_was_written(tmp_path: Path) -> None:
    shard = BinShard(write(tmp_path / "shard-00000.bin"), 4, "uint16")
    assert (len(shard), shard.ids, shard.packed, shard.tokens) == (2, ("sequence",), True, 7)
    assert shard.row(1)["sequence"].tolist() == [9, 2, 3, 0]
    assert {name: column.tolist() for name, column in shard.segments(1).items()} == {
        "start": [4, 0], "length": [1, 2], "document": [0, 1],
    }  # fmt: skip
    assert [shard.document(at) for at in (0, 1)] == ["a.jsonl#L7", "b.parquet[3]"]
    assert shard.record_ids == ["网页", None]
    groups = [shard.groups[at] for at in shard.document_columns["group"]]
    assert groups == [("web", "zh"), ("code", None)]
    assert shard.document_columns["tokens"].tolist() == [5, 2]
    assert [column.tolist() for column in shard.document_counts()] == [[0, 0, 1], [4, 1, 2], [4, 1, 2]]
    with pytest.raises(IndexError):
        shard.document(2)


def test_the_documents_can_be_read_without_us(tmp_path: Path) -> None:
    path = write(tmp_path / "shard-00000.bin")
    segments, documents = beside(path)
    assert np.load(segments)["document"].tolist() == [0, 0, 1]
    lines = zstandard.ZstdDecompressor().stream_reader(documents.read_bytes()).read().splitlines()
    assert orjson.loads(lines[0]) == {
        "file": "a.jsonl", "line": 7, "id": "网页", "source": "web", "language": "zh", "tokens": 5,
    }  # fmt: skip


def test_the_same_calls_give_the_same_bytes(tmp_path: Path) -> None:
    one, other = write(tmp_path / "shard-00000.bin"), write(tmp_path / "shard-00001.bin")
    for mine, yours in zip([one, *beside(one)], [other, *beside(other)], strict=True):
        assert mine.read_bytes() == yours.read_bytes()


def test_the_manifest_says_how_to_read(tmp_path: Path) -> None:
    path = write(tmp_path / "shard-00000.bin")
    with pytest.raises(BadShard, match="it is written last"):
        BinShard(path)
    entry = shard_entry(path, 2, 7, "uint16", {"a.jsonl": 7}, beside(path))
    assert [other["file"] for other in entry["beside"]] == [other.name for other in beside(path)]
    write_manifest(tmp_path, shards=[entry], seq_len=4, totals={}, seed=1, format="bin")
    assert BinShard(path).columns["sequence"].tolist() == IDS.tolist()
    again = pickle.loads(pickle.dumps(BinShard(path)))
    assert again.columns["sequence"].tolist() == IDS.tolist()
    assert not again.columns["sequence"].flags.writeable
    with pytest.raises(BadShard, match="is not in the manifest beside it"):
        BinShard(write(tmp_path / "shard-00009.bin"))


def test_ids_never_wrap(tmp_path: Path) -> None:
    """A tokenizer of 70,000 ids in uint16: 65,536 would be stored as 0 without a word."""
    assert (id_dtype(65_535), id_dtype(65_536), id_dtype(0)) == (np.uint16, np.uint32, np.uint16)
    for wrong in (-1, 2**32):
        with pytest.raises(BadParameter, match="shards/bin: the largest id is"):
            id_dtype(wrong)
    with pytest.raises(BadParameter, match=r"shards/bin: sequence: value 65536 does not fit uint16"):
        write(tmp_path / "shard-00000.bin", np.array([[1, 2, 3, 65_536]]))
    assert list(tmp_path.iterdir()) == []


def test_rows_are_written_front_to_back(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match=r"does not fill rows 1 to 2 of sequence \(2, 4\), of which 0 are written"):
        with BinWriter(tmp_path / "a.bin") as writer:
            writer.create("sequence", (2, 4), "<u2")[1:2] = IDS[1:2]
    with pytest.raises(BadParameter, match="does not fill rows 0 to 2"):
        with BinWriter(tmp_path / "a.bin") as writer:
            writer.create("sequence", (2, 4), "<u2")[0:2] = IDS[:, :3]


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "shard-00000.bin")
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("prep_lib.shards.bin.os.fsync", full)
    with pytest.raises(NoSpace):
        write(path, IDS + 1)
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir() if "tmp" in found.name] == []


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "it is cut: 15 bytes are no whole rows of 4 uint16"),
        (lambda path: path.unlink(), "there is no such file"),
        (lambda path: beside(path)[0].unlink(), "segments.npy is missing, so nobody knows where its documents begin"),
        (lambda path: beside(path)[0].write_bytes(b"\x93NUMPY\x01"), "segments.npy cannot be read"),
        (lambda path: np.save(beside(path)[0], np.arange(3)), "segments.npy holds int64, no segments"),
        (lambda path: beside(path)[1].unlink(), "documents.jsonl.zst is missing"),
        (lambda path: beside(path)[1].write_bytes(beside(path)[1].read_bytes()[:-4]), "cannot be read"),
        (lambda path: beside(path)[1].write_bytes(zstandard.compress(b"[1]\n")), "cannot be read"),
    ],
)
def test_damage_is_said_in_one_line(tmp_path: Path, harm: object, message: str) -> None:
    path = write(tmp_path / "shard-00000.bin")
    harm(path)  # type: ignore[operator]
    with pytest.raises(BadShard, match=message):
        look_at_all(path)


def look_at_all(path: Path) -> None:
    shard = BinShard(path, 4, "uint16")
    assert shard.segment_columns
    assert shard.document_columns


def test_an_empty_shard_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "shard-00000.bin"
    path.write_bytes(b"")
    assert len(BinShard(path, 4, "uint16")) == 0
