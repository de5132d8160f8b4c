import json
import os

import pytest

from prep_lib.errors import BadParameter, BadShard
from prep_lib.files import digest
from prep_lib.shards.manifest import KEYS, files_of, packing_algorithm, read_manifest, shard_entry, write_manifest


def entry(folder, name="chunk_0.h5", content=b"shard"):
    (folder / name).write_bytes(content)
    return shard_entry(folder / name, 8, 96, "int32", {"web": 90, "code": 6})


def write(folder, **changes):
    values = {"shards": [entry(folder)], "seq_len": 16, "totals": {"tokens": 96}, "seed": 42}
    return write_manifest(folder, **(values | changes))


def test_a_shard_entry_says_what_the_disk_holds(tmp_path):
    found = entry(tmp_path)
    assert found == {
        "file": "chunk_0.h5", "sequences": 8, "tokens": 96, "dtype": "int32", "bytes": 5,
        "sha256": digest(tmp_path / "chunk_0.h5"), "sources": {"code": 6, "web": 90},
    }  # fmt: skip


def test_what_is_written_is_read_with_its_keys_in_order(tmp_path):
    path = write(tmp_path, tokenizer={"name": "小", "max_id": 9}, packing={"algorithm": "concat"}, parents=["ab"])
    stored = read_manifest(tmp_path)
    assert tuple(stored) == KEYS
    assert stored["shards"] == [entry(tmp_path)]
    assert (stored["seq_len"], stored["seed"], stored["parents"]) == (16, 42, ["ab"])
    text = path.read_text("utf-8")
    assert '"小"' in text
    assert text.startswith('{\n "format": "h5",\n')
    assert text.endswith("}\n")


def test_the_same_content_in_another_folder_is_the_same_bytes(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    assert write(one).read_bytes() == write(two).read_bytes()
    assert os.fsencode(tmp_path) not in (one / "manifest.json").read_bytes()


def test_a_name_that_is_no_unicode_survives(tmp_path):
    write(tmp_path, recipe="caf\udce9")
    assert read_manifest(tmp_path)["recipe"] == "caf\udce9"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shards": [{"file": "a.h5"}]}, "a shard lacks sequences, tokens, dtype, bytes, sha256, sources"),
        ({"totals": {"share": float("nan")}}, "cannot be written as JSON"),
        ({"recipe": object()}, "cannot be written as JSON"),
    ],
)
def test_what_cannot_be_written_is_refused_and_nothing_is_left(tmp_path, changes, message):
    with pytest.raises(BadParameter, match=message):
        write(tmp_path, **changes)
    assert [found.name for found in tmp_path.iterdir()] == ["chunk_0.h5"]


def test_shards_are_named_once_and_without_a_folder(tmp_path):
    with pytest.raises(BadParameter, match=r"is named twice: chunk_0.h5, chunk_0.h5"):
        write(tmp_path, shards=[entry(tmp_path)] * 2)
    with pytest.raises(BadParameter, match="is a path; a shard is named by its file name alone"):
        write(tmp_path, shards=[entry(tmp_path) | {"file": "data/chunk_0.h5"}])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "the run has not finished: run it again"),
        (b"{", "cannot read"),
        (b"\xff\xfe", "cannot read"),
        (b"[]", "lacks format, shards"),
        (b'{"format": "h5"}', "lacks shards, seq_len"),
    ],
)
def test_what_is_no_manifest_is_refused(tmp_path, content, message):
    if content is not None:
        (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(BadShard, match=message):
        read_manifest(tmp_path)


def test_a_shard_without_its_keys_is_refused(tmp_path):
    stored = json.loads(write(tmp_path).read_bytes())
    del stored["shards"][0]["sha256"]
    (tmp_path / "manifest.json").write_text(json.dumps(stored))
    with pytest.raises(BadShard, match=r"a shard of .* lacks one of file"):
        read_manifest(tmp_path)


def test_the_files_beside_a_shard_are_part_of_it(tmp_path):
    for name in ("a.bin", "a.segments.npy"):
        (tmp_path / name).write_bytes(name.encode())
    told = shard_entry(tmp_path / "a.bin", 1, 2, "uint16", {}, [tmp_path / "a.segments.npy"])
    assert told["beside"] == [{"file": "a.segments.npy", "bytes": 14, "sha256": digest(tmp_path / "a.segments.npy")}]
    write(tmp_path, shards=[told])
    [stored] = read_manifest(tmp_path)["shards"]
    assert [one["file"] for one in files_of(stored)] == ["a.bin", "a.segments.npy"]
    with pytest.raises(BadParameter, match=r"is named twice: a.bin, a.bin"):
        write(tmp_path, shards=[told | {"beside": [told["beside"][0] | {"file": "a.bin"}]}])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"file": "../secret"}, r"names '\.\./secret', which is no file name"),
        ({"file": ".."}, r"names '\.\.', which is no file name"),
        ({"file": 7}, "names 7, which is no file name"),
        ({"beside": [{"file": "/etc/passwd", "bytes": 1, "sha256": ""}]}, "names '/etc/passwd'"),
        ({"beside": [{"file": "a"}]}, "a file beside chunk_0.h5 of .* lacks file, bytes, sha256"),
    ],
)
def test_a_manifest_leads_nowhere_but_into_its_folder(tmp_path, change, message):
    stored = json.loads(write(tmp_path).read_bytes())
    stored["shards"][0] |= change
    (tmp_path / "manifest.json").write_text(json.dumps(stored))
    with pytest.raises(BadShard, match=message):
        read_manifest(tmp_path)


def test_shards_that_are_no_list_are_refused(tmp_path):
    stored = json.loads(write(tmp_path).read_bytes())
    (tmp_path / "manifest.json").write_text(json.dumps(stored | {"shards": 3}))
    with pytest.raises(BadShard, match="are no list"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("packing", "name"), [(None, None), ("concat", "concat"), ({"algorithm": "best_fit"}, "best_fit"), ({}, None)]
)
def test_packing_algorithm(packing, name):
    assert packing_algorithm({"packing": packing}) == name
