import io
import pickle
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from killing import small_disk
from toy_npz import tables

from prep_lib.errors import BadInput, BadParameter, BadShard, NoSpace
from prep_lib.shards import npz
from prep_lib.shards.npz import (
    Field,
    NpzReader,
    NpzShard,
    NpzShardWriter,
    NpzWriter,
    npy_header,
    npz_files,
    open_alike,
)

FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(path, level=1, **arrays):
    with NpzWriter(path, level) as writer:
        for name, values in arrays.items():
            writer.array(name, values)
    return path


def joined(reader, rows, fields=None):
    """All blocks behind each other; `np.concatenate` alone would turn the bytes of a foreign order."""
    blocks = list(reader.blocks(rows, fields))
    return {name: np.concatenate([block[name] for block in blocks], dtype=blocks[0][name].dtype) for name in blocks[0]}


def same(one, two):
    """Equal in type, shape and bytes: what is no number equals itself too."""
    return one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()


# --- what is written is read ------------------------------------------------------------------------------------------


@FEW
@given(table=tables(), rows=st.integers(1, 10), level=st.integers(0, 3))
def test_what_is_written_is_read_by_us_and_by_numpy(tmp_path, table, rows, level):
    path = written(tmp_path / "a.npz", level, **table)
    reader, found = NpzReader(path), joined(NpzReader(path), rows)
    assert list(reader.fields) == list(found) == list(table)
    assert reader.rows == len(next(iter(table.values())))
    with np.load(path) as loaded, zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        for name, values in table.items():
            assert same(loaded[name], values)
            assert same(found[name], values)


@FEW
@given(table=tables(), rows=st.integers(1, 10), packed=st.booleans())
def test_what_numpy_wrote_is_read(tmp_path, table, rows, packed):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        for name, values in table.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, values, allow_pickle=False)
    path = tmp_path / "a.npz"
    path.write_bytes(buffer.getvalue())
    found = joined(NpzReader(path), rows)
    assert all(same(found[name], values) for name, values in table.items())


def test_a_field_says_what_its_rows_are():
    assert str(Field("ids", np.dtype(np.int16), (7, 2))) == "int16 rows of shape (2,)"


def test_blocks_of_three_rows_and_of_some_fields(tmp_path):
    reader = NpzReader(written(tmp_path / "a.npz", ids=np.arange(7), mask=np.arange(14).reshape(7, 2)))
    assert [block["ids"].tolist() for block in reader.blocks(3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [list(block) for block in reader.blocks(7, ["mask"])] == [["mask"]]
    assert (reader.nbytes, reader.fields["mask"].row_bytes, reader.fields["mask"].row_shape) == (168, 16, (2,))
    assert list(reader.read(["ids"])["ids"]) == list(range(7))


@pytest.mark.parametrize(("rows", "fields"), [(0, None), (1, ["other"])])
def test_nonsense_is_refused(tmp_path, rows, fields):
    reader = NpzReader(written(tmp_path / "a.npz", ids=np.arange(7)))
    with pytest.raises(BadParameter, match="at least one row" if fields is None else "no field 'other'; it has ids"):
        next(reader.blocks(rows, fields))


def test_no_rows_and_one_row(tmp_path):
    empty = NpzReader(written(tmp_path / "a.npz", ids=np.zeros((0, 3), np.int16)))
    assert (empty.rows, list(empty.blocks(5)), empty.read()["ids"].shape) == (0, [], (0, 3))
    one = NpzReader(written(tmp_path / "b.npz", ids=np.ones((1, 3), np.int16)))
    assert one.read()["ids"].tolist() == [[1, 1, 1]]


def test_fields_in_fortran_order_are_read_by_rows(tmp_path):
    values = np.asfortranarray(np.arange(24).reshape(6, 2, 2))
    for name, save in (("a.npz", np.savez), ("b.npz", np.savez_compressed)):
        save(tmp_path / name, ids=values, column=np.asfortranarray(np.arange(6)))
        blocks = list(NpzReader(tmp_path / name).blocks(4, temp_dir=tmp_path))
        assert [len(block["ids"]) for block in blocks] == [4, 2]
        assert np.array_equal(np.concatenate([block["ids"] for block in blocks]), values)
        assert blocks[0]["ids"].flags.c_contiguous
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "b.npz"]


def test_the_same_calls_give_the_same_bytes(tmp_path):
    values = np.random.default_rng(1).integers(0, 50, (4000, 64)).astype(np.int16)
    one, two = (written(tmp_path / name, ids=values).read_bytes() for name in ("a.npz", "b.npz"))
    assert one == two
    with np.load(io.BytesIO(one)) as loaded:
        assert np.array_equal(loaded["ids"], values)


def test_the_system_unzip_finds_no_fault(tmp_path):
    if not shutil.which("unzip"):
        pytest.skip("no unzip here")
    path = written(tmp_path / "a.npz", ids=np.arange(10), 词=np.arange(3))
    done = subprocess.run(["unzip", "-t", path], capture_output=True, text=True)
    assert (done.returncode, done.stdout.count(" OK")) == (0, 2), done.stdout


def test_zip64_where_sizes_and_places_ask_for_it(tmp_path, monkeypatch):
    """Beyond 4 GiB; here the limit is moved in place of the size."""
    monkeypatch.setattr(npz, "_MAX32", 3000)
    path = tmp_path / "a.npz"
    with NpzWriter(path, 0) as writer:
        for name in ("first", "second"):
            writer.array(name, np.random.default_rng(1).integers(0, 256, 4000).astype(np.uint8))
    raw = path.read_bytes().replace((3000).to_bytes(4, "little"), b"\xff\xff\xff\xff")
    assert b"PK\x06\x06" in raw
    path.write_bytes(raw)
    with np.load(path) as loaded:
        assert [len(loaded[name]) for name in ("first", "second")] == [4000, 4000]
    assert NpzReader(path).rows == 4000


def test_headers_are_as_numpy_reads_them():
    for shape in ((), (0,), (3,), (10**9, 128)):
        head = io.BytesIO(npy_header(np.dtype("<i2"), shape))
        assert np.lib.format.read_magic(head) == (1, 0)
        assert np.lib.format.read_array_header_1_0(head) == (shape, False, np.dtype("<i2"))
        assert head.read() == b""
        assert head.tell() % 64 == 0
    wide = np.dtype([(f"field {number}", "<i2") for number in range(3000)])
    head = io.BytesIO(npy_header(wide, (1,)))
    assert np.lib.format.read_magic(head) == (2, 0)
    assert np.lib.format.read_array_header_2_0(head, 10**6)[2] == wide


def test_field_names_of_a_structure_in_any_script(tmp_path):
    values = np.zeros(2, [("词", "<i2")])
    path = written(tmp_path / "a.npz", rows=values)
    assert NpzReader(path).fields["rows"].dtype == values.dtype == np.load(path)["rows"].dtype


# --- writing: whole or not at all -------------------------------------------------------------------------------------


def test_a_stream_keeps_its_promise(tmp_path):
    def attempt(*blocks):
        with NpzWriter(tmp_path / "a.npz") as writer:
            column = writer.stream("ids", np.int16, (3, 2))
            for block in blocks:
                column.write(block)

    rows = np.zeros((2, 2), np.int16)
    with pytest.raises(BadParameter, match="was promised 3 rows and got 2"):
        attempt(rows)
    with pytest.raises(BadParameter, match="was promised 3 rows and got more"):
        attempt(rows, rows)
    with pytest.raises(BadParameter, match=r"holds int16 rows of shape \(2,\); got int32"):
        attempt(rows.astype(np.int32))
    assert list(tmp_path.iterdir()) == []
    attempt(rows, rows[:1])
    assert NpzReader(tmp_path / "a.npz").rows == 3


def test_one_field_at_a_time_under_names_of_its_own(tmp_path):
    with NpzWriter(tmp_path / "a.npz") as writer:
        first = writer.stream("a", np.int8, (1,))
        first.write(np.zeros(1, np.int8))
        with pytest.raises(BadParameter, match="already has a field 'a'"):
            writer.array("a", np.arange(3))
        writer.array("b", np.arange(3))
        with pytest.raises(BadParameter, match="'a' ended where the next one began"):
            first.write(np.zeros(1, np.int8))


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 70_000, "/etc/passwd", "../a"])
def test_names_no_zip_has(tmp_path, name):
    with pytest.raises(BadParameter, match="cannot be called"):
        written(tmp_path / "a.npz", **{name: np.arange(3)})
    assert list(tmp_path.iterdir()) == []


def test_level_and_objects(tmp_path):
    with pytest.raises(BadParameter, match="level must be 0 to 3; got 9"):
        NpzWriter(tmp_path / "a.npz", 9)
    with pytest.raises(BadParameter, match="'rows' holds Python objects"):
        written(tmp_path / "a.npz", rows=np.array([[1], [1, 2]], object))


def test_what_stood_there_stays_when_writing_fails(tmp_path):
    path = written(tmp_path / "a.npz", ids=np.arange(3))
    before = path.read_bytes()

    def fail():
        with NpzWriter(path) as writer:
            writer.array("ids", np.arange(9))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["a.npz"]


def test_a_full_disk_is_said_in_one_line(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        with pytest.raises(NoSpace, match=r"no space left for a\.npz"):
            written(disk / "a.npz", ids=np.random.default_rng(1).integers(0, 2**62, 10**6))
        assert list(disk.iterdir()) == []


# --- files nobody should trust ----------------------------------------------------------------------------------------


def test_every_cut_is_noticed(tmp_path):
    raw = written(tmp_path / "a.npz", ids=np.arange(40), mask=np.ones((40, 3), bool)).read_bytes()
    path = tmp_path / "cut.npz"
    for size in range(len(raw)):
        path.write_bytes(raw[:size])
        with pytest.raises(BadShard, match=r"cut\.npz: it is (cut|empty|no npz)"):
            NpzReader(path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_every_flipped_byte_is_noticed_or_changes_nothing(tmp_path, save):
    arrays = {"ids": np.arange(40), "mask": np.ones((40, 3), bool)}
    save(tmp_path / "a.npz", **arrays)
    raw, path, noticed = (tmp_path / "a.npz").read_bytes(), tmp_path / "b.npz", 0
    for at in range(len(raw)):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 0x41]) + raw[at + 1 :])
        try:
            found = NpzReader(path).read()
        except BadShard:
            noticed += 1
            continue
        # A renamed field, a date: the rows themselves are never other ones.
        assert sorted(values.tobytes() for values in found.values()) == sorted(v.tobytes() for v in arrays.values())
    assert noticed > len(raw) // 2


def test_files_that_are_no_npz(tmp_path):
    path = tmp_path / "a.npz"
    for raw, said in (
        (pickle.dumps([1]), "it is a pickle, which can run any code and is never opened"),
        (npy_header(np.dtype(np.int8), (1,)) + b"\1", r"it is a single \.npy array"),
        (b"hello", "it is no npz file"),
        (b"", "it is empty"),
    ):
        path.write_bytes(raw)
        with pytest.raises(BadShard, match=f"a.npz: {said}"):
            NpzReader(path)
    with pytest.raises(BadShard, match="there is no such file"):
        NpzReader(tmp_path / "none.npz")
    with pytest.raises(BadShard, match=r"Is a directory|Permission"):
        NpzReader(tmp_path)


def zipped(path, *members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, raw in members:
            archive.writestr(name, raw)
    return path


def npy(values, **options):
    buffer = io.BytesIO()
    np.save(buffer, values, **options)
    return buffer.getvalue()


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([("a.npy", npy(np.arange(3))), ("a.npy", npy(np.arange(4)))], "two members are named 'a.npy'"),
        ([("a.npy", npy(np.arange(3))), ("b.npy", npy(np.arange(4)))], r"fields differ in rows \(a 3, b 4\)"),
        ([("a.npy", npy(np.float32(1)))], r"field 'a' has shape \(\) and so no rows"),
        ([("a.txt", b"hello")], r"member 'a.txt' is no .npy array"),
        ([("a.npy", b"hello, hello")], "member 'a.npy' is no .npy array"),
        ([("a.npy", pickle.dumps(list("abcdefgh")))], "member 'a.npy' is a pickle, which is never opened"),
        ([("a.npy", b"\x93NUMPY\x09\0" + b" " * 99)], "has .npy version 9"),
        ([("a.npy", b"\x93NUMPY\x02\0\xff\xff\xff\xff")], "a header of 4,294,967,295 bytes; at most 10,000"),
        ([("a.npy", b"\x93NUMPY\x01\0\x08\0__import")], "a header that cannot be read"),
        ([("a.npy", npy(np.arange(9))[:-8])], "holds 64 bytes, its header says 72"),
        ([("a.npy", npy(np.arange(9)) + b"!")], "holds 73 bytes, its header says 72"),
        ([("a.npy", npy_header(np.dtype("<i8"), (-3,)))], r"shape \(-3,\) and so no rows"),
        ([], "it holds no array"),
    ],
)
def test_members_that_are_no_rows_of_numbers(tmp_path, members, said):
    with pytest.raises(BadShard, match=said):
        NpzReader(zipped(tmp_path / "a.npz", *members))


def test_other_packings_are_refused(tmp_path):
    path = zipped(tmp_path / "a.npz", ("a.npy", npy(np.arange(3))), method=zipfile.ZIP_BZIP2)
    with pytest.raises(BadShard, match="packed with method 12 or encrypted; only deflate and stored work"):
        NpzReader(path)


def test_a_size_no_deflate_reaches_is_a_lie(tmp_path):
    path = written(tmp_path / "a.npz", ids=np.zeros(1000, np.int64))
    claimed = 2**31 - 1
    raw = path.read_bytes().replace((8128).to_bytes(4, "little"), claimed.to_bytes(4, "little"))
    path.write_bytes(raw)
    with pytest.raises(BadShard, match="cannot hold the 2,147,483,647 bytes it claims"):
        NpzReader(path)


def test_what_a_file_holds_tells_it_apart(tmp_path):
    one = NpzReader(written(tmp_path / "a.npz", ids=np.arange(3)))
    two = NpzReader(written(tmp_path / "b.npz", 2, ids=np.arange(3)))
    other = NpzReader(written(tmp_path / "c.npz", ids=np.arange(3) + 1))
    assert one.fingerprint == two.fingerprint != other.fingerprint


# --- bug-log ----------------------------------------------------------------------------------------------------------

PEAK = """
import sys, numpy
from prep_lib.shards.npz import NpzReader
def peak():
    text = open("/proc/self/status").read()
    return int(text.split("RssAnon:")[1].split()[0])
reader = NpzReader(sys.argv[1])
before, most, rows = peak(), 0, 0
for block in reader.blocks(4096):
    rows, most = rows + len(block["ids"]), max(most, peak())
print(reader.rows == rows, reader.nbytes, (most - before) * 1024)
"""


def test_bug_063_and_080_memory_is_a_block_whatever_the_file_swells_to(tmp_path):
    """200 MB of zeros in 200 kB: `np.load` with ``mmap_mode`` takes all of it."""
    path = tmp_path / "a.npz"
    with NpzWriter(path) as writer:
        column, block = writer.stream("ids", np.int16, (800_000, 128)), np.zeros((8000, 128), np.int16)
        for _ in range(100):
            column.write(block)
    assert path.stat().st_size < 10**6
    if not sys.platform.startswith("linux"):
        pytest.skip("memory is read from /proc")
    done = subprocess.run([sys.executable, "-c", PEAK, path], capture_output=True, text=True, check=True)
    whole, size, grown = done.stdout.split()
    assert (whole, int(size)) == ("True", 204_800_000)
    assert int(grown) < 2**24
    with pytest.raises(BadShard, match="take 204,800,000 bytes of memory, more than 1,000,000"):
        NpzShard(path, most=10**6)


@pytest.mark.parametrize("name", ["file", "allow_pickle", "like", "self", "args", "", "a/b"])
def test_bug_064_fields_of_any_name(tmp_path, name):
    path = written(tmp_path / "a.npz", **{name: np.arange(3), "other": np.arange(3)})
    assert list(NpzReader(path).fields) == [name, "other"]
    assert np.load(path)[name].tolist() == [0, 1, 2]


def test_bug_065_objects_are_refused_by_field_and_file(tmp_path):
    np.savez(tmp_path / "a.npz", ids=np.arange(2), rows=np.array([[1], [1, 2]], object))
    with pytest.raises(BadShard, match=r"a\.npz: member 'rows\.npy': field 'rows' holds Python objects"):
        NpzReader(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", rows=np.zeros(2, [("a", "O")]))
    with pytest.raises(BadShard, match="'rows' holds Python objects"):
        NpzReader(tmp_path / "b.npz")


# --- several files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": np.zeros((2, 3))}, "lacks field 'y'; a.npz has x, y"),
        ({"x": np.zeros((2, 3)), "y": np.zeros(2), "z": np.zeros(2)}, "has a field of its own, 'z'"),
        ({"x": np.zeros((2, 3)), "y": np.zeros(2, np.int8)}, r"'y' holds int8 rows of shape \(\), in a.npz .* float64"),
        ({"x": np.zeros((2, 4)), "y": np.zeros(2)}, r"'x' holds float64 rows of shape \(4,\), in a.npz"),
    ],
)
def test_files_that_differ_are_told_apart(tmp_path, arrays, said):
    one = written(tmp_path / "a.npz", x=np.zeros((5, 3)), y=np.zeros(5))
    two = written(tmp_path / "b.npz", **arrays)
    with pytest.raises(BadShard, match=f"b.npz:? .*{said}"):
        open_alike([one, two])
    assert [reader.rows for reader in open_alike([one, one])] == [5, 5]


def test_files_in_natural_order_and_both_layouts(tmp_path):
    for name in ("s10.npz", "s9.npz", ".s1.npz.7-0.tmp", ".hidden.npz", "note.txt"):
        (tmp_path / name).touch()
    flat = npz_files(tmp_path)
    assert ([path.name for path in flat.train], flat.eval, flat.nested) == (["s9.npz", "s10.npz"], None, False)
    (tmp_path / "eval").mkdir()
    (tmp_path / "train").mkdir()
    with pytest.raises(BadInput, match=r"no npz file in .*train"):
        npz_files(tmp_path)
    (tmp_path / "train" / "a.npz").touch()
    nested = npz_files(tmp_path)
    assert (nested.train, nested.eval, nested.nested) == ([tmp_path / "train" / "a.npz"], tmp_path / "eval", True)
    with pytest.raises(BadInput, match=r"cannot list .*: No such file"):
        npz_files(tmp_path / "none")


# --- shards of a build ------------------------------------------------------------------------------------------------


def build_shard(path):
    with NpzShardWriter(path) as writer:
        column = writer.create("sequence", (2, 3), np.int32)
        column[0:1] = np.array([[1, 2, 3]])
        column[1:2] = np.array([[4, 5, 0]])
        for name, values in (("row", [0, 1]), ("start", [0, 3]), ("length", [3, 2]), ("document", [0, 0])):
            writer.write(f"segments/{name}", np.array(values))
        for name, values in (("source", [0]), ("line", [7]), ("group", [0]), ("tokens", [5]), ("id_end", [0])):
            writer.write(f"documents/{name}", np.array(values))
        writer.write("documents/id", np.zeros(0, np.uint8))
        writer.strings("documents/sources", ["a.jsonl"])
        writer.strings("documents/groups", ['["web", null]'])
    return path


def test_a_shard_of_a_build_knows_its_documents(tmp_path):
    path = build_shard(tmp_path / "shard_000000.npz")
    assert sorted(found.name for found in tmp_path.iterdir()) == [
        "shard_000000.documents.jsonl.zst", "shard_000000.npz", "shard_000000.segments.npy",
    ]  # fmt: skip
    assert np.load(path)["input_ids"].tolist() == [[1, 2, 3], [4, 5, 0]]
    for shard in (NpzShard(path), pickle.loads(pickle.dumps(NpzShard(path)))):
        assert (shard.keys, len(shard), shard.packed, shard.tokens) == (("sequence",), 2, True, 5)
        assert shard.row(1)["sequence"].tolist() == [4, 5, 0]
        assert {name: values.tolist() for name, values in shard.segments(1).items()} == {
            "start": [3], "length": [2], "document": [0],
        }  # fmt: skip
        assert shard.document(0) == "a.jsonl#L7"
    with pytest.raises(ValueError, match="read-only"):
        shard.columns["sequence"][0] = 1


def test_a_shard_column_is_filled_front_to_back_with_what_fits(tmp_path):
    with pytest.raises(BadParameter, match="does not fill rows 1 to 2"), NpzShardWriter(tmp_path / "a.npz") as writer:
        writer.create("sequence", (2, 3), np.int32)[1:2] = np.zeros((1, 3))
    with pytest.raises(BadParameter, match="does not fit int16"), NpzShardWriter(tmp_path / "a.npz") as writer:
        writer.create("sequence", (1, 1), np.int16)[0:1] = np.array([[70_000]])
    with pytest.raises(KeyError), NpzShardWriter(tmp_path / "a.npz") as writer:
        writer.create("sequence", (0, 1), np.int16)
    assert list(tmp_path.iterdir()) == []


def test_any_small_file_is_a_shard_of_whole_rows(tmp_path):
    shard = NpzShard(written(tmp_path / "a.npz", input_ids=np.arange(6).reshape(2, 3)))
    assert (shard.keys, shard.packed, len(shard)) == (("input_ids",), False, 2)
    assert shard.segments(1)["length"].tolist() == [3]
    with pytest.raises(IndexError, match="no document 0"):
        shard.document(0)
