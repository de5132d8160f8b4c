import contextlib
import pickle
import shutil
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy_shards import PACKED, SEQUENCE, write_shard

from prep_lib.errors import BadInput, BadParameter, BadShard, NoSpace
from prep_lib.shards.h5 import H5Shard, IOHandler, ShardWriter

# --- IOHandler ------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.lists(st.integers(0, 100), max_size=6), max_size=8),
    dtype=st.sampled_from([torch.int32, torch.int64, torch.int16, torch.uint8, torch.bool, torch.float32]),
    share_memory=st.booleans(),
)
def test_what_is_saved_is_loaded(tmp_path, rows, dtype, share_memory):
    tensors = [torch.tensor(row, dtype=torch.int64).to(dtype) for row in rows]
    path = IOHandler.save_h5(tmp_path, "chunk_0", {"sequence": tensors})
    loaded = IOHandler.load_h5(path, share_memory)
    assert list(loaded) == ["sequence"]
    assert len(loaded["sequence"]) == len(tensors)
    for mine, theirs in zip(tensors, loaded["sequence"], strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.tolist() == theirs.tolist()


@pytest.mark.parametrize("ragged", [True, False])
@pytest.mark.parametrize("share_memory", [True, False])
def test_rows_of_one_length_come_back_the_same_stored_either_way(tmp_path, ragged, share_memory):
    rows = [torch.tensor([1, 2, 3], dtype=torch.int32), torch.tensor([4, 5, 6], dtype=torch.int32)]
    masks = [torch.tensor([True, False, True]), torch.tensor([False, False, True])]
    path = IOHandler.save_h5(tmp_path, "a.h5", {"sequence": rows, "loss_mask": masks}, ragged=ragged)
    loaded = IOHandler.load_h5(path, share_memory)
    assert list(loaded) == ["sequence", "loss_mask"]
    assert [row.tolist() for row in loaded["sequence"]] == [[1, 2, 3], [4, 5, 6]]
    assert [row.tolist() for row in loaded["loss_mask"][::-1]] == [[False, False, True], [True, False, True]]
    assert loaded["sequence"][-1].tolist() == [4, 5, 6]
    assert {row.is_shared() for row in loaded["sequence"]} == {share_memory}
    with pytest.raises(IndexError, match="row 2 of 2"):
        loaded["sequence"][2]


def test_keys_may_differ_in_rows_and_there_may_be_none(tmp_path):
    path = IOHandler.save_h5(tmp_path, "a", {"one": [[1]], "none": [], "flat": []})
    loaded = IOHandler.load_h5(path)
    assert {key: len(rows) for key, rows in loaded.items()} == {"one": 1, "none": 0, "flat": 0}
    assert IOHandler.load_h5(IOHandler.save_h5(tmp_path, "b", {})) == {}
    assert len(IOHandler.load_h5(IOHandler.save_h5(tmp_path, "c", {"a": []}, ragged=False))["a"]) == 0


def test_one_flat_dataset_a_key_whatever_the_number_of_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("prep_lib.shards.shard.BLOCK", 50)
    rows = [np.arange(n % 7 + (n == 30) * 200, dtype=np.int32) for n in range(100)]
    path = IOHandler.save_h5(tmp_path, "a", {"sequence": rows})
    with h5py.File(path) as file:
        assert sorted(file) == ["offsets", "sequence"]
        assert file["sequence"].chunks is None
        assert file["sequence"].shape == (sum(map(len, rows)),)
        assert file["offsets/sequence"].shape == (101,)
    assert [row.tolist() for row in IOHandler.load_h5(path)["sequence"]] == [row.tolist() for row in rows]


def test_views_of_one_memory_not_copies(tmp_path):
    path = IOHandler.save_h5(tmp_path, "a", {"sequence": [[1, 2], [3]]})
    rows = IOHandler.load_h5(path)["sequence"]
    assert rows[0].untyped_storage().data_ptr() == rows[1].untyped_storage().data_ptr()


def test_a_write_to_a_mapped_row_stays_here(tmp_path):
    path = IOHandler.save_h5(tmp_path, "a", {"sequence": [[1, 2], [3]]})
    before = path.read_bytes()
    rows = IOHandler.load_h5(path, share_memory=False)["sequence"]
    rows[0][0] = 9
    del rows
    assert path.read_bytes() == before


@pytest.mark.parametrize("share_memory", [True, False])
def test_loaded_rows_go_to_other_processes(tmp_path, share_memory):
    path = IOHandler.save_h5(tmp_path, "a", {"sequence": [list(range(1000)), [3]]})
    raw = pickle.dumps(IOHandler.load_h5(path, share_memory)["sequence"])
    assert pickle.loads(raw)[1].tolist() == [3]
    # A map is opened again by the other process; nothing is copied into the message.
    assert share_memory or len(raw) < 500


@pytest.mark.parametrize("key", ["a/b", "", ".", "offsets", "segments", "documents"])
def test_keys_the_layout_cannot_hold_are_refused(tmp_path, key):
    with pytest.raises(BadParameter, match="a key cannot be"):
        IOHandler.save_h5(tmp_path, "a", {key: [[1]]})


@pytest.mark.parametrize(
    ("rows", "ragged", "message"),
    [
        ([[1], [[2]]], True, r"x\[1\] is int64 \(1, 1\); a row has one dimension"),
        ([["a"]], True, r"x\[0\] is <U1"),
        ([np.zeros(1, np.int32), np.zeros(1, np.int64)], True, "differ in dtype: int32, int64"),
        ([[1], [2, 3]], False, "have 1 to 2 values; store them with ragged=True"),
    ],
)
def test_rows_that_cannot_be_stored_are_refused_before_a_file_appears(tmp_path, rows, ragged, message):
    with pytest.raises(BadParameter, match=message):
        IOHandler.save_h5(tmp_path, "a", {"x": rows}, ragged=ragged)
    assert list(tmp_path.iterdir()) == []


def test_listings_are_in_natural_order_without_hidden_and_temporary_files(tmp_path):
    for name in ("chunk_10.h5", "chunk_9.h5", ".hidden", ".a.h5.1-0.tmp", "b.tmp", "c.part"):
        (tmp_path / name).touch()
    for name in ("run_10", "run_9", ".prep"):
        (tmp_path / name).mkdir()
    assert IOHandler.fetch_files(tmp_path) == [str(tmp_path / "chunk_9.h5"), str(tmp_path / "chunk_10.h5")]
    assert IOHandler.fetch_folders(tmp_path) == [str(tmp_path / "run_9"), str(tmp_path / "run_10")]
    with pytest.raises(BadInput, match=r"cannot list .*: No such file or directory"):
        IOHandler.fetch_files(tmp_path / "nowhere")


# --- ShardWriter ----------------------------------------------------------------------------------------------------


def test_the_same_calls_give_the_same_bytes_in_another_process_and_second(tmp_path):
    code = (
        "import sys, numpy as np; from prep_lib.shards.h5 import ShardWriter\n"
        "with ShardWriter(sys.argv[1]) as writer:\n"
        "    writer.write('sequence', np.arange(9, dtype=np.int32))\n"
        "    writer.write('offsets/sequence', np.array([0, 4, 9]))\n"
        "    writer.strings('documents/sources', ['a', '目录'])"
    )
    for name in ("one", "two"):
        subprocess.run([sys.executable, "-c", code, str(tmp_path / name)], check=True)
        time.sleep(1.1 * (name == "one"))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_block_that_fails_leaves_what_was_there(tmp_path):
    path = write_shard(tmp_path / "a.h5")
    before = path.read_bytes()
    with pytest.raises(BadParameter, match="does not fit int16"), ShardWriter(path) as writer:
        writer.create("sequence", (1,), np.int16)[0:1] = np.array([2**20])
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.h5"]


def test_a_killed_writer_leaves_no_file_under_the_final_name(tmp_path):
    code = (
        "import sys, os, numpy as np; from prep_lib.shards.h5 import ShardWriter\n"
        "with ShardWriter(sys.argv[1]) as writer:\n"
        "    writer.create('sequence', (10**6,), np.int32)[0:10] = np.arange(10)\n"
        "    os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.h5")], check=False).returncode == -9
    assert IOHandler.fetch_files(tmp_path) == []
    write_shard(tmp_path / "a.h5")
    assert len(H5Shard(tmp_path / "a.h5")) == 2


def test_an_id_that_does_not_fit_raises_and_never_wraps(tmp_path):
    with pytest.raises(BadParameter, match=r"sequence: value 70000 does not fit uint16 \(max 65535\)"):
        with ShardWriter(tmp_path / "a.h5") as writer:
            writer.create("sequence", (2,), np.uint16)[0:2] = np.array([1, 70000])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("rows", "values"), [(slice(1, 3), [1, 2]), (slice(0, 2), [1]), (slice(0, 2), [[1], [2]])])
def test_slices_are_filled_exactly(tmp_path, rows, values):
    with pytest.raises(BadParameter, match=r"does not fill rows \d to 2 of sequence"):
        with ShardWriter(tmp_path / "a.h5") as writer:
            writer.create("sequence", (2,), np.int32)[rows] = np.array(values)


def test_many_long_names_meet_no_limit(tmp_path):
    # HDF5 refuses attributes over 64 kB; these are data.
    names = [f"目录/{'x' * 50}/{n}.jsonl" for n in range(20_000)] + ["caf\udce9.jsonl"]
    path = write_shard(tmp_path / "a.h5", sources=names)
    assert H5Shard(path).sources == names


def test_a_full_disk_says_so_and_leaves_nothing(tmp_path, monkeypatch):
    def full(self, rows, values):
        raise OSError("Can't write data (file write failed: errno = 28, error message = 'No space left on device')")

    monkeypatch.setattr(h5py.Dataset, "__setitem__", full)
    with pytest.raises(NoSpace, match=r"no space left for a.h5 in .*run the same command again"):
        write_shard(tmp_path / "a.h5")
    assert list(tmp_path.iterdir()) == []


def test_a_small_disk_is_really_full(tmp_path):
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", tmp_path]
    if not shutil.which("mount") or subprocess.run(mount, check=False, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no right to mount a small file system")
    try:
        with pytest.raises(NoSpace, match=r"no space left for a.h5"):
            write_shard(tmp_path / "a.h5", {"sequence": np.ones(10**6, np.int32)})
        assert list(tmp_path.iterdir()) == []
        write_shard(tmp_path / "a.h5")
    finally:
        subprocess.run(["umount", tmp_path], check=True)


# --- H5Shard ----------------------------------------------------------------------------------------------------------


def test_a_packed_shard_tells_its_rows_pieces_and_documents(tmp_path):
    shard = H5Shard(write_shard(tmp_path / "a.h5"))
    assert shard.keys == ("sequence", "loss_mask")
    assert (len(shard), shard.packed, shard.ids, shard.tokens) == (2, True, ("sequence",), 9)
    assert shard.mask_of("sequence") == "loss_mask"
    assert shard.row(1)["sequence"].tolist() == [1, 2, 3, 4, 0, 0]
    assert shard.row(1)["loss_mask"].dtype == bool
    assert {name: column.tolist() for name, column in shard.segments(0).items()} == {
        "start": [0, 0], "length": [3, 2], "document": [0, 1],
    }  # fmt: skip
    assert [shard.document(n) for n in range(3)] == ["a.jsonl#L12", "a.jsonl#L13", "b.parquet[4]"]
    for ask in (shard.row, shard.segments, shard.document):
        with pytest.raises(IndexError, match=r"has no (row|document) 3"):
            ask(3)
        with pytest.raises(IndexError, match=r"has no (row|document) -1"):
            ask(-1)


def test_a_ragged_shard_with_numbers(tmp_path):
    data = {
        "chosen": np.arange(5, dtype=np.int32), "offsets/chosen": np.array([0, 2, 5]),
        "chosen_mask": np.ones(5, bool), "offsets/chosen_mask": np.array([0, 2, 5]),
        "prompt_length": np.array([1, 2], dtype=np.int32),
        "documents/source": np.array([0, 1]), "documents/line": np.array([7, 8]),
    }  # fmt: skip
    shard = H5Shard(write_shard(tmp_path / "a.h5", data))
    assert (shard.packed, shard.ids, shard.tokens) == (False, ("chosen",), 5)
    row = shard.row(1)
    assert (row["chosen"].tolist(), row["prompt_length"].tolist()) == ([2, 3, 4], 2)
    assert {name: column.tolist() for name, column in shard.segments(1).items()} == {
        "start": [0], "length": [3], "document": [1],
    }  # fmt: skip
    assert shard.document(1) == "b.parquet[8]"
    assert (shard.mask_of("chosen"), shard.mask_of("prompt_length")) == ("chosen_mask", None)


def test_rows_are_maps_of_the_file_that_cannot_be_written(tmp_path):
    shard = H5Shard(write_shard(tmp_path / "a.h5"))
    with pytest.raises(ValueError, match="read-only"):
        shard.row(0)["sequence"][0] = 1
    raw = (tmp_path / "a.h5").read_bytes()
    assert SEQUENCE.tobytes() in raw


def test_a_shard_holds_no_open_file_and_pickles_by_name(tmp_path):
    path = write_shard(tmp_path / "a.h5")
    shard = H5Shard(path)
    raw = pickle.dumps(shard)
    assert pickle.loads(raw).row(0)["sequence"].tolist() == shard.row(0)["sequence"].tolist()
    assert len(raw) < 500
    write_shard(path, PACKED | {"sequence": SEQUENCE + 1})  # replaced while the old one is mapped
    assert shard.row(0)["sequence"].tolist() == SEQUENCE[0].tolist()


def test_a_compressed_file_of_another_writer_is_read_all_the_same(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("sequence", data=SEQUENCE, chunks=(1, 6), compression="gzip")
    assert H5Shard(tmp_path / "a.h5").row(1)["sequence"].tolist() == SEQUENCE[1].tolist()


def test_a_dataset_a_sequence_is_named_as_foreign(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["sequence/0"] = [1, 2]
    with pytest.raises(BadShard, match="'sequence' is not laid out as this workbench writes it"):
        H5Shard(tmp_path / "a.h5")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"x": np.array([b"a"])}, "'x' holds .*, no rows of numbers"),
        ({"x": np.zeros((2, 2, 2))}, "no rows of numbers"),
        ({"offsets": np.zeros(2)}, "'offsets' is not laid out"),
        ({"x": np.zeros(3), "offsets/x": np.array([0, 2])}, "offsets/x does not divide the 3 values of x"),
        ({"x": np.zeros(3), "offsets/x": np.array([0, 2, 1, 3])}, "offsets/x does not divide"),
        ({"x": np.zeros(3), "offsets/x": np.zeros(0, np.int64)}, "offsets/x does not divide"),
        ({"offsets/x": np.array([0])}, "offsets/x belongs to no key"),
        ({"segments/row": np.array([0])}, "segments lacks document, length, start"),
        ({"documents/line": np.array([0])}, "documents lacks source, sources"),
    ],
)
def test_other_layouts_are_named(tmp_path, data, message):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, values in data.items():
            file[name] = values
    with pytest.raises(BadShard, match=message):
        H5Shard(tmp_path / "a.h5")


def test_keys_that_differ_in_rows_have_no_length(tmp_path):
    shard = H5Shard(IOHandler.save_h5(tmp_path, "a", {"x": [[1]], "y": []}))
    with pytest.raises(BadShard, match="keys differ in rows"):
        len(shard)


def test_a_cut_file_says_how_much_is_left(tmp_path):
    path = write_shard(tmp_path / "a.h5")
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(BadShard, match=f"it is cut: {len(whole) - 100:,} bytes are left; build it again"):
        H5Shard(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "there is no such file"), (b"", "it is no HDF5 file"), (b'{"text": 1}\n' * 99, "it is no HDF5 file")],
)
def test_what_is_no_shard_says_so(tmp_path, content, message):
    if content is not None:
        (tmp_path / "a.h5").write_bytes(content)
    for ask in (H5Shard, IOHandler.load_h5):
        with pytest.raises(BadShard, match=message):
            ask(tmp_path / "a.h5")


def test_damaged_bytes_never_end_in_an_error_of_another_kind(tmp_path):
    path = write_shard(tmp_path / "a.h5")
    whole = bytearray(path.read_bytes())
    for at in range(0, 400, 7):
        path.write_bytes(bytes(whole[:at]) + bytes([whole[at] ^ 0xFF]) + bytes(whole[at + 1 :]))
        with contextlib.suppress(BadShard):
            H5Shard(path)


def test_a_file_that_is_being_written_is_noticed(tmp_path):
    path = tmp_path / "a.h5"
    code = (
        "import h5py, sys; f = h5py.File(sys.argv[1], 'w', locking=True); f['x'] = [1]; print(1, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        writer.stdout.readline()
        with pytest.raises(BadShard, match="another process has it open for writing; wait until it has finished"):
            H5Shard(path)
        writer.communicate(b"\n")
    assert H5Shard(path).keys == ("x",)


def test_a_file_system_without_locks_says_what_to_set(tmp_path, monkeypatch):
    path = write_shard(tmp_path / "a.h5")

    def refuse(*args, **kwargs):
        raise OSError(37, "unable to lock file, errno = 37, error message = 'No locks available'")

    monkeypatch.setattr(h5py, "File", refuse)
    with pytest.raises(BadShard, match="set HDF5_USE_FILE_LOCKING=FALSE and start again"):
        H5Shard(path)
