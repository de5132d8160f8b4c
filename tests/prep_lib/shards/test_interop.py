"""A conversion is whole or not there; what stood there before stays, and what is somebody else's too."""

from __future__ import annotations

import json
import os
import time

import killing
import numpy as np
import pytest
from toy_shards import PACKED, SEQUENCE, ragged, sft, store, write_shard

from prep_lib.errors import BadParameter, BadShard, RunLocked, UnknownName
from prep_lib.locks import lock
from prep_lib.shards.interop import convert
from prep_lib.shards.manifest import shard_entry, write_manifest
from prep_lib.shards.pretrain import READERS
from prep_lib.shards.trainers import TRAINERS


def two_shards(folder):
    """The toy packs twice; the second shard is the first one's rows in the other order."""
    folder.mkdir(parents=True)
    other = PACKED | {
        "sequence": SEQUENCE[::-1], "loss_mask": PACKED["loss_mask"][::-1], "segments/row": np.array([0, 1, 1]),
        "segments/length": np.array([4, 3, 2], np.int32),
    }  # fmt: skip
    entries = [
        shard_entry(write_shard(folder / f"chunk_{at}.h5", data), 2, 9, "int32", {"a.jsonl": 9})
        for at, data in enumerate((PACKED, other))
    ]
    write_manifest(folder, shards=entries, seq_len=6, totals={"written": 18}, seed=42)
    return folder


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


@pytest.mark.parametrize("name", sorted(TRAINERS))
def test_the_same_shards_give_the_same_bytes_and_a_file_each(tmp_path, name):
    source = two_shards(tmp_path / "in")
    convert(source, name, tmp_path / "a")
    first = content(tmp_path / "a")
    convert(source, name, tmp_path / "a")
    convert(source, name, tmp_path / "b")
    assert content(tmp_path / "a") == first == content(tmp_path / "b")
    parts = sorted(file for file in first if file.endswith((".parquet", ".arrow")))
    assert len(parts) == 2
    assert parts[1] == ("data-00001-of-00002.arrow" if name == "llamafactory" else "part-00001.parquet")


def test_a_second_run_takes_the_place_of_the_first_and_leaves_nothing_of_it(tmp_path):
    out = tmp_path / "out"
    convert(two_shards(tmp_path / "two"), "trl", out)
    convert(sft(tmp_path / "one"), "llamafactory", out)
    assert sorted(content(out)) == [
        "README.md", "convert.json", "data-00000-of-00001.arrow", "dataset_info.json", "read_me.py", "state.json"
    ]  # fmt: skip


@pytest.mark.parametrize("name", sorted(READERS))
def test_files_for_pretraining_take_the_place_of_what_stood_there_too(tmp_path, name):
    convert(sft(tmp_path / "sft"), "trl", tmp_path / "out")
    told = convert(store(tmp_path / "in"), name, tmp_path / "out")
    first = content(tmp_path / "out")
    assert sorted(first) == sorted([*told["beside"], "convert.json", *(file["file"] for file in told["files"])])
    convert(tmp_path / "in", name, tmp_path / "out")
    convert(tmp_path / "in", name, tmp_path / "other")
    assert content(tmp_path / "out") == first == content(tmp_path / "other")
    (tmp_path / "in/shard-00001.bin").unlink()
    (tmp_path / "in/shard-00001.bin").write_bytes(bytes(12))
    with pytest.raises(BadShard, match=r"shard-00001\.bin is not the file its manifest tells of"):
        convert(tmp_path / "in", name, tmp_path / "out")
    assert content(tmp_path / "out") == first


def test_what_stood_there_stays_when_the_second_run_fails(tmp_path):
    source, out = two_shards(tmp_path / "in"), tmp_path / "out"
    convert(source, "trl", out)
    before = content(out)
    (source / "chunk_1.h5").write_bytes(b"x" * (source / "chunk_1.h5").stat().st_size)
    with pytest.raises(BadShard, match=r"chunk_1\.h5 is not the file its manifest tells of"):
        convert(source, "axolotl", out)
    assert content(out) == before


def test_a_run_killed_while_it_put_files_in_place_is_not_whole_and_can_be_done_again(tmp_path, monkeypatch):
    source, out = two_shards(tmp_path / "in"), tmp_path / "out"
    convert(source, "trl", out)
    whole, done = content(out), []

    def killed(old, new, *, replace=os.replace):
        if old.parent.name == "convert" and new.parent == out:
            done.append(new)
            if len(done) == 3:
                raise KeyboardInterrupt
        replace(old, new)

    with monkeypatch.context() as patched:
        patched.setattr("os.replace", killed)
        with pytest.raises(KeyboardInterrupt):
            convert(source, "trl", out)
    assert "convert.json" not in content(out)
    convert(source, "trl", out)
    assert content(out) == whole


def test_somebody_elses_folder_is_left_alone(tmp_path):
    source, out = sft(tmp_path / "in"), tmp_path / "out"
    out.mkdir()
    (out / "README.md").write_text("mine")
    with pytest.raises(BadParameter, match=r"holds README\.md, which no conversion left there"):
        convert(source, "trl", out)
    assert (out / "README.md").read_text() == "mine"
    with pytest.raises(BadParameter, match="the output is the folder of the shards"):
        convert(source, "trl", source)
    with pytest.raises(BadParameter, match="is a file"):
        convert(source, "trl", source / "manifest.json")


def test_the_caches_of_a_trainer_do_not_stand_in_the_way(tmp_path):
    source, out = sft(tmp_path / "in"), tmp_path / "out"
    convert(source, "llamafactory", out)
    (out / "cache-0123.arrow").touch()
    convert(source, "llamafactory", out)
    assert (out / "cache-0123.arrow").is_file()


def test_other_content_has_other_caches(tmp_path):
    found = set()
    for at, make in enumerate((sft, two_shards, ragged)):
        convert(make(tmp_path / f"in{at}"), "llamafactory", tmp_path / "out")
        found.add(json.loads((tmp_path / "out/state.json").read_bytes())["_fingerprint"])
    assert len(found) == 3


def test_a_folder_in_use_is_refused(tmp_path):
    source = sft(tmp_path / "in")
    with lock(tmp_path / "out"), pytest.raises(RunLocked):
        convert(source, "trl", tmp_path / "out")


def test_without_a_name_the_output_stands_beside_the_shards(tmp_path):
    convert(sft(tmp_path / "in"), "trl")
    assert (tmp_path / "in-trl/convert.json").is_file()


def test_an_unknown_program_lists_the_known_ones(tmp_path):
    with pytest.raises(UnknownName, match=r"unknown program 'axolotol'; did you mean 'axolotl'\?"):
        convert(tmp_path, "axolotol")


KILLED = """
import sys
from prep_lib.shards.interop import convert
print("ready", flush=True)
convert(sys.argv[1], "megatron", sys.argv[2])
"""


@pytest.mark.kill
def test_a_conversion_killed_at_any_moment_is_done_again_and_equals_a_clean_one(tmp_path):
    """Whatever stands there is the old conversion, or none that says it is whole."""
    documents = {n: (n % 2, [n % 9] * 64) for n in range(400)}
    source = store(tmp_path / "in", [[(n, 0, 64)] for n in range(400)], documents, width=64, rows=4)
    convert(source, "megatron", tmp_path / "clean")
    clean, out, killed = content(tmp_path / "clean"), tmp_path / "out", 0
    for moment in killing.moments(5, 7, 0.02, 0.6):
        process, mark = killing.spawn(KILLED, source, out)
        assert process.stdout.readline() == "ready\n"
        time.sleep(moment)
        killed += process.poll() is None
        process.kill()
        process.communicate()
        assert not killing.wait_gone(mark)
        found = content(out) if out.is_dir() else {}
        assert "convert.json" not in found or found == clean
    assert killed
    convert(source, "megatron", out)
    assert content(out) == clean
