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
    write(tmp_path, recipe={"inputs": ["caf\udce9"]})
    assert read_manifest(tmp_path)["recipe"] == {"inputs": ["caf\udce9"]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shards": [{"file": "a.h5"}]}, r"cannot write manifest.json: shards\[0\].sequences is missing"),
        ({"totals": {"share": float("nan")}}, "cannot be written as JSON"),
        ({"recipe": object()}, "cannot be written as JSON"),
        ({"seq_len": 0}, r"seq_len is 0, must be a whole number \(1 to 2\*\*31\) or null"),
        ({"recipe": "r"}, "recipe is 'r', must be an object or null"),
    ],
)
def test_what_cannot_be_written_is_refused_and_nothing_is_left(tmp_path, changes, message):
    with pytest.raises(BadParameter, match=message):
        write(tmp_path, **changes)
    assert [found.name for found in tmp_path.iterdir()] == ["chunk_0.h5"]


def test_shards_are_named_once_and_without_a_folder(tmp_path):
    with pytest.raises(BadParameter, match=r"the file 'chunk_0\.h5' is named twice"):
        write(tmp_path, shards=[entry(tmp_path)] * 2)
    with pytest.raises(BadParameter, match=r"'data/chunk_0.h5', must be the name of a file in"):
        write(tmp_path, shards=[entry(tmp_path) | {"file": "data/chunk_0.h5"}])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "the run has not finished: run it again"),
        (b"{", "cannot read"),
        (b"\xff\xfe", "cannot read"),
        (b"[]", r"manifest.json: it is \[\], must be an object; it was damaged"),
        (b'{"format": "h5"}', "manifest.json: shards is missing; it was damaged, or not written by this workbench"),
        (b"[" * 100_000, "cannot read"),
    ],
)
def test_what_is_no_manifest_is_refused(tmp_path, content, message):
    if content is not None:
        (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(BadShard, match=message):
        read_manifest(tmp_path)


def test_a_folder_that_is_not_there_is_told_from_one_that_is_not_complete(tmp_path):
    (tmp_path / "file").touch()
    for name in ("nope", "file"):
        with pytest.raises(BadShard, match=rf"^shards/manifest: there is no folder .*{name}$"):
            read_manifest(tmp_path / name)


def test_the_files_beside_a_shard_are_part_of_it(tmp_path):
    for name in ("a.bin", "a.segments.npy"):
        (tmp_path / name).write_bytes(name.encode())
    told = shard_entry(tmp_path / "a.bin", 1, 2, "uint16", {}, [tmp_path / "a.segments.npy"])
    assert told["beside"] == [{"file": "a.segments.npy", "bytes": 14, "sha256": digest(tmp_path / "a.segments.npy")}]
    write(tmp_path, shards=[told])
    [stored] = read_manifest(tmp_path)["shards"]
    assert [one["file"] for one in files_of(stored)] == ["a.bin", "a.segments.npy"]
    with pytest.raises(BadParameter, match=r"the file 'a\.bin' is named twice"):
        write(tmp_path, shards=[told | {"beside": [told["beside"][0] | {"file": "a.bin"}]}])


GROUP = {"source": "web", "language": None} | dict.fromkeys(
    ("documents", "bytes", "characters", "words", "tokens", "literal_specials"), 1
)
WHOLE = {
    "totals": {"written": 96, "groups": [GROUP]}, "tokenizer": {"name": "small", "max_id": 9, "eos_id": None},
    "strategy": {"type": "own", "id_keys": ["sequence"], "more": [3.5]}, "recipe": {"inputs": ["web"], "sample": 0},
    "packing": {"algorithm": "concat", "packs": 8, "efficiency": 1.0, "pad_value": None}, "parents": ["ab"],
}  # fmt: skip
GONE = object()
COUNT = r"must be a whole number \(0 to 2\*\*53\)"


def damaged(folder, place, value):
    """Write a good manifest, and then one that says something else at a place."""
    shard = entry(folder)
    beside = [{name: shard[name] for name in ("bytes", "sha256")} | {"file": "side"}]
    stored = json.loads(write(folder, shards=[shard | {"beside": beside}], **WHOLE).read_bytes())
    *way, last = place
    at = stored
    for step in way:
        at = at[step]
    if value is GONE:
        del at[last]
    else:
        at[last] = value
    (folder / "manifest.json").write_text(json.dumps(stored))
    return folder


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (["format"], None, "format is None, must be text"),
        (["shards"], 3, "shards is 3, must be a list"),
        (["shards", 0], [], r"shards\[0\] is \[\], must be an object"),
        (["shards", 0, "sha256"], GONE, r"shards\[0\].sha256 is missing"),
        (["shards", 0, "sequences"], True, rf"shards\[0\].sequences is True, {COUNT}"),
        (["shards", 0, "tokens"], 10**30, rf"shards\[0\].tokens is 1000000000000000000000000000000, {COUNT}"),
        (["shards", 0, "bytes"], -1, rf"shards\[0\].bytes is -1, {COUNT}"),
        (
            ["shards", 0, "dtype"],
            "float32",
            r"shards\[0\].dtype is 'float32', must be int8 to int64 or uint8 to uint64",
        ),
        (["shards", 0, "sources"], ["web"], r"shards\[0\].sources is \['web'\], must be an object"),
        (["shards", 0, "sources", "web"], "x", rf"shards\[0\].sources\['web'\] is 'x', {COUNT}"),
        (
            ["shards", 0, "file"],
            "../secret",
            r"shards\[0\].file is '../secret', must be the name of a file in the folder",
        ),
        (["shards", 0, "file"], "..", r"shards\[0\].file is '..', must be the name of a file"),
        (["shards", 0, "file"], 7, r"shards\[0\].file is 7, must be the name of a file"),
        (["shards", 0, "file"], "a" * 300, r"shards\[0\].file is 'a+\.\.\.a+', must be the name of a file"),
        (["shards", 0, "file"], "\ud800", r"shards\[0\].file is '\\ud800', must be the name of a file"),
        (["shards", 0, "file"], "side", "the file 'side' is named twice"),
        (["shards", 0, "beside"], {}, r"shards\[0\].beside is {}, must be a list"),
        (["shards", 0, "beside", 0, "file"], "/etc/passwd", r"shards\[0\].beside\[0\].file is '/etc/passwd', must be"),
        (["shards", 0, "beside", 0, "bytes"], GONE, r"shards\[0\].beside\[0\].bytes is missing"),
        (["seq_len"], 0, r"seq_len is 0, must be a whole number \(1 to 2\*\*31\) or null"),
        (["dropped_remainder_tokens"], None, f"dropped_remainder_tokens is None, {COUNT}"),
        (["totals"], None, "totals is None, must be an object"),
        (["totals", "written"], 3.5, rf"totals.written is 3.5, {COUNT}"),
        (["totals", "groups"], 1, "totals.groups is 1, must be a list"),
        (["totals", "groups", 0, "documents"], "x", rf"totals.groups\[0\].documents is 'x', {COUNT}"),
        (["totals", "groups", 0, "documents"], GONE, r"totals.groups\[0\].documents is missing"),
        (["totals", "groups", 0, "source"], None, r"totals.groups\[0\].source is None, must be text"),
        (["totals", "groups", 0, "language"], 1, r"totals.groups\[0\].language is 1, must be text or null"),
        (["tokenizer"], "small", "tokenizer is 'small', must be an object or null"),
        (["tokenizer", "eos_id"], "x", rf"tokenizer.eos_id is 'x', {COUNT} or null"),
        (["strategy", "id_keys"], 3.5, "strategy.id_keys is 3.5, must be a list"),
        (["seed"], -1, r"seed is -1, must be a whole number \(0 to 2\*\*128\) or null"),
        (["packing"], [], r"packing is \[\], must be an object or text or null"),
        (["packing", "packs"], "8", f"packing.packs is '8', {COUNT}"),
        (["packing", "efficiency"], "1", "packing.efficiency is '1', must be a number"),
        (["pre_shuffled"], 1, "pre_shuffled is 1, must be true or false"),
        (["recipe", "inputs"], "web", "recipe.inputs is 'web', must be a list"),
        (["recipe", "inputs", 0], 3, r"recipe.inputs\[0\] is 3, must be text"),
        (["parents"], GONE, "parents is missing"),
        (["parents", 0], None, r"parents\[0\] is None, must be text"),
    ],
)
def test_a_value_that_is_none_is_named_by_its_place(tmp_path, place, value, said):
    with pytest.raises(
        BadShard, match=f"^shards/manifest: .*manifest.json: {said}.*; it was damaged, or not written"
    ) as caught:
        read_manifest(damaged(tmp_path, place, value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (["note"], [1]),
        (["shards", 0, "note"], None),
        (["shards", 0, "beside"], GONE),
        (["shards", 0, "sources"], {}),
        (["seq_len"], None),
        (["totals"], {"tokens": "many"}),
        (["totals", "groups"], GONE),
        (["totals", "groups", 0, "note"], "x"),
        (["tokenizer"], None),
        (["tokenizer"], {}),
        (["strategy"], 3),
        (["strategy"], {"any": [None]}),
        (["seed"], 2**100),
        (["seed"], None),
        (["packing"], "concat"),
        (["packing"], None),
        (["recipe"], None),
        (["recipe"], {"note": 1}),
    ],
)
def test_what_older_manifests_lack_and_others_add_is_read(tmp_path, place, value):
    damaged(tmp_path, place, value)
    assert read_manifest(tmp_path) == json.loads((tmp_path / "manifest.json").read_bytes())


@pytest.mark.parametrize(
    ("packing", "name"), [(None, None), ("concat", "concat"), ({"algorithm": "best_fit"}, "best_fit"), ({}, None)]
)
def test_packing_algorithm(packing, name):
    assert packing_algorithm({"packing": packing}) == name
