import contextlib
import io
import itertools
import json
import math
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path
from unittest import mock

import killing
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy_npz import rows_of, sizes_of, split, tables

from prep_lib.cli import main as prep
from prep_lib.errors import BadInput, BadParameter, BadShard, NoSpace, PrepError, RunLocked, Unbalanced
from prep_lib.events import listen
from prep_lib.files import natural
from prep_lib.locks import HIDDEN, lock
from prep_lib.seeds import stream
from prep_lib.shards.npz import Field, NpzWriter, npz_files, open_alike
from prep_lib.shuffle import shuffle_npz as module
from prep_lib.shuffle.shuffle_npz import Plan, RowDigest, contingency, shuffle_npz

FEW = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def notes():
    """What a run says, in place of printing it."""
    said: list[str] = []
    with listen(lambda event: said.append(event.get("text", "")), instead=True):
        yield said


def small(block=64, cell=96):
    """Blocks and cells of a few rows, as if the data were large."""
    return mock.patch.multiple(module, BLOCK=block, CELL=cell)


def shards(folder):
    return sorted(Path(folder).glob("shard_*.npz"), key=lambda path: natural(path.name))


def tree(folder):
    return {name: raw for name, raw in killing.tree(folder).items() if not name.startswith(HIDDEN)}


@pytest.fixture
def numbered(tmp_path):
    """Ten rows in three files: 0..5, none, 6..9; `twice` tells whether a row's fields stayed together."""
    values = np.arange(10)
    split(tmp_path / "in", {"x": values.astype(np.int16), "twice": np.stack([2 * values, values], axis=1)}, [6, 6])
    return tmp_path / "in"


def read(folder):
    return np.concatenate([np.load(path)["x"] for path in shards(folder)]).tolist()


# --- laws -------------------------------------------------------------------------------------------------------------


@FEW
@given(table=tables(0, 30), cuts=st.lists(st.integers(0, 30), max_size=4), size=st.integers(1, 40), seed=st.integers(0))
def test_every_row_is_there_once_in_shards_of_the_size_asked_for(table, cuts, size, seed):
    rows = len(next(iter(table.values())))
    with tempfile.TemporaryDirectory() as folder, small():
        paths = split(Path(folder, "in"), table, cuts)
        told = shuffle_npz(Path(folder, "in"), Path(folder, "out"), size, seed % 2**128, workers=1)
        written = shards(Path(folder, "out"))
        assert rows_of(written) == rows_of(paths)
        full = [size] * (rows // size)
        assert sizes_of(written) == told["shard_sizes"] == (full + [rows % size] * (rows % size > 0) or [0])
        assert told["digest"]["before"] == told["digest"]["after"]
        with np.load(written[0]) as first:
            assert {name: (first[name].dtype, first[name].shape[1:]) for name in first.files} == {
                name: (values.dtype, values.shape[1:]) for name, values in table.items()
            }


def dealt(plan):
    """Return which row stands where, as the streams say: what files only carry out."""
    first, waiting = 0, [[] for _ in plan.cells]
    for bundle, sources in enumerate(plan.bundles):
        left, number = plan.table[bundle].copy(), itertools.count()
        for source in sources:
            for start in range(0, plan.rows[source], plan.block_rows):
                rows = min(plan.block_rows, plan.rows[source] - start)
                counts, order = plan.deal(bundle, next(number), left, rows)
                left -= counts
                ends = np.concatenate([[0], np.cumsum(counts)])
                for cell in range(len(waiting)):
                    waiting[cell] += (first + start + order[ends[cell] : ends[cell + 1]]).tolist()
            first += plan.rows[source]
        assert not left.any()
    return [rows[at] for cell, rows in enumerate(waiting) for at in plan.order(cell).tolist()]


def toy(rows, seed=42, bundle_rows=9):
    """Shards of three rows, blocks and cells of two."""
    return Plan((Field("x", np.dtype(np.int8), (1,)),), tuple("abc"), rows, 3, seed, 2, 2, bundle_rows)


def test_the_files_are_what_the_streams_say(numbered, tmp_path):
    with small(64, 64):
        shuffle_npz(numbered, tmp_path / "out", 4, workers=1)
        plan = Plan.of(open_alike(npz_files(numbered).train), 4, 42)
    assert (plan.block_rows, plan.cell_rows, len(plan.cells)) == (1, 2, 5)
    assert read(tmp_path / "out") == dealt(plan)


@pytest.mark.parametrize("bundle_rows", [1, 9])
def test_every_order_is_equally_likely(bundle_rows):
    """Five rows in three sources, shards of three, cells of two, blocks of two: 120 orders, each 50 times expected."""
    counts = Counter(tuple(dealt(toy((3, 0, 2), seed, bundle_rows))) for seed in range(6000))
    square = sum((counts[order] - 50) ** 2 / 50 for order in itertools.permutations(range(5)))
    # 119 degrees of freedom: one in 10,000 even deals is above 183. The seeds are fixed, so it is not thrown anew.
    assert square < 183
    assert len(toy((3, 0, 2), 42, bundle_rows).bundles) == (2 if bundle_rows == 1 else 1)


def test_the_table_follows_the_law_of_an_even_deal():
    """Against the exact probabilities of all tables with these sums."""
    sources, cells, draws = np.array([4, 3, 2]), np.array([5, 4]), 4000
    counts = Counter(tuple(contingency(stream(n, "test"), sources, cells)[:, 0].tolist()) for n in range(draws))
    square = 0.0
    for first in itertools.product(*(range(size + 1) for size in sources)):
        if sum(first) == 5:
            share = math.prod(math.comb(size, number) for size, number in zip(sources.tolist(), first, strict=True))
            expected = draws * share / math.comb(9, 5)
            square += (counts.pop(first, 0) - expected) ** 2 / expected
    assert not counts
    assert square < 34  # 11 degrees of freedom, one in 2,500


@FEW
@given(sources=st.lists(st.integers(0, 50), min_size=1, max_size=6), weights=st.lists(st.integers(1, 9), min_size=1))
def test_sums_of_the_table_are_exact(sources, weights):
    cuts = np.cumsum([0, *weights]) * sum(sources) // sum(weights)
    table = contingency(stream(1, "test"), np.array(sources), np.diff(cuts))
    assert table.min() >= 0
    assert (table.sum(axis=1).tolist(), table.sum(axis=0).tolist()) == (sources, np.diff(cuts).tolist())


def test_more_rows_than_numpy_draws_a_table_of():
    table = contingency(stream(1, "test"), np.array([3 * 10**9, 10**9]), np.full(8, 5 * 10**8))
    assert table.sum(axis=0).tolist() == [5 * 10**8] * 8


def test_golden_order():
    """Pinned: who shuffles again with the same seed must get the same shards, and what is half done must go on."""
    assert dealt(toy((4, 3, 2))) == GOLDEN


GOLDEN = [4, 8, 7, 0, 2, 6, 3, 1, 5]


def test_seeds_give_other_orders(numbered, tmp_path):
    orders = set()
    for seed in range(4):
        shuffle_npz(numbered, tmp_path / f"{seed}", 4, seed, workers=1)
        orders.add(tuple(read(tmp_path / f"{seed}")))
    assert len(orders) == 4


# --- the digest -------------------------------------------------------------------------------------------------------


def digest(table, order=None):
    raw = {name: np.ascontiguousarray(values).reshape(len(values), -1).view(np.uint8) for name, values in table.items()}
    found = RowDigest(list(raw), [values.shape[1] for values in raw.values()])
    found.add(sum(found.part(name, values[order] if order is not None else values) for name, values in raw.items()))
    return found.sum, found.xor


def test_the_digest_knows_rows_not_their_order():
    table = {"a": np.arange(6, dtype=np.int16), "b": np.arange(12, dtype=np.int64).reshape(6, 2)}
    before = digest(table)
    assert before == digest(table, np.array([3, 1, 0, 5, 4, 2]))
    assert before == digest(dict(reversed(table.items())))
    for name, values in table.items():
        for at in range(values.size):
            changed = values.copy()
            changed.reshape(-1)[at] ^= 1
            assert digest({**table, name: changed}) != before
    # The same values in other rows: nothing is lost, and it is not the same rows.
    assert digest({**table, "a": table["a"][::-1].copy()}) != before
    assert digest(table, np.array([0, 0, 1, 1, 2, 2])) != digest(table, np.array([3, 3, 4, 4, 5, 5]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint64, np.int16])
def test_the_digest_sees_what_changes_alike_in_several_places(dtype):
    """Numbers with the other sign: a plain sum of words times odd factors would not see an even number of them."""
    values = np.arange(1, 17).reshape(2, 8).astype(dtype)
    bits = values.view(f"u{values.dtype.itemsize}")
    flipped = bits ^ bits.dtype.type(1 << (8 * values.dtype.itemsize - 1))
    assert digest({"a": values}) != digest({"a": flipped})
    for places in itertools.combinations(range(8), 2):
        some = bits.copy()
        some[:, places] = flipped[:, places]
        assert digest({"a": some}) != digest({"a": values})
    assert digest({"a": values[:, ::-1].copy()}) != digest({"a": values})
    assert digest({"a": np.zeros((2, 8))}) != digest({"a": -np.zeros((2, 8))})


def test_the_kernel_sums_what_its_python_twin_sums():
    words, keys = np.arange(12, dtype=np.uint64).reshape(3, 4) ** np.uint64(7), np.arange(4, dtype=np.uint64)
    compiled, plain = np.ones((2, 3), np.uint64)
    module._sum_mixed(words, keys, compiled)
    with np.errstate(over="ignore"):
        module._sum_mixed.python(words, keys, plain)
    assert compiled.tolist() == plain.tolist()
    assert compiled.tolist() == (module._mixed(words ^ keys).sum(axis=1) + np.uint64(1)).tolist()


def test_a_structure_with_gaps_is_refused(tmp_path):
    (tmp_path / "in").mkdir()
    np.savez(tmp_path / "in" / "a.npz", x=np.zeros(3, np.dtype([("p", "<i2"), ("q", "<i4")], align=True)))
    with pytest.raises(BadInput, match=r"shuffle/npz: x of .*a.npz is a structure with gaps"):
        shuffle_npz(tmp_path / "in", tmp_path / "out", 2, workers=1)
    assert not (tmp_path / "out").exists()


def check(folder, *more):
    done = subprocess.run([sys.executable, folder / "check.py", *more], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@FEW
@given(table=tables(1, 9))
def test_check_py_finds_what_the_run_found(table):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        split(folder / "in", table, [3])
        told = shuffle_npz(folder / "in", folder / "out", 4, workers=1)["digest"]
        wanted = f"{told['rows']} {told['before']['sum']} {told['before']['xor']} as read and as written\n"
        for more in ([], [str(folder / "in")]):
            said = io.StringIO()
            with mock.patch.object(sys, "argv", ["check.py", *more]), contextlib.redirect_stdout(said):
                code = compile(module.CHECK_TEXT, "check.py", "exec")
                with pytest.raises(SystemExit) as left:
                    exec(code, {"__file__": str(folder / "out" / "check.py")})
            assert (left.value.code, said.getvalue()) == (False, wanted)


def test_check_py_says_what_is_not_as_it_was(numbered, tmp_path):
    out = tmp_path / "out"
    told = shuffle_npz(numbered, out, 4, workers=1)
    assert check(out) == (
        0,
        f"10 {told['digest']['after']['sum']} {told['digest']['after']['xor']} as read and as written\n",
    )
    assert check(out, numbered)[0] == 0
    changed = dict(np.load(out / "shard_000001.npz"))
    changed["x"] = changed["x"][::-1]
    np.savez(out / "shard_000001.npz", **changed)
    code, said = check(out)
    assert code == 1
    assert "is not what was read or written" in said
    assert len(module.CHECK_TEXT.splitlines()) < 20


# --- what is read and written -----------------------------------------------------------------------------------------


def test_metadata_has_the_specified_keys_and_the_proof(numbered, tmp_path, notes):
    told = shuffle_npz(numbered, tmp_path / "out", 4, workers=1)
    assert told == json.loads((tmp_path / "out" / "metadata.json").read_text())
    specified = "num_samples max_seq_length dtype fields shard_size num_shards shard_sizes pre_shuffled seed"
    assert list(told)[:9] == specified.split()
    assert (told["num_samples"], told["num_shards"], told["shard_sizes"]) == (10, 3, [4, 4, 2])
    assert (told["pre_shuffled"], told["seed"], told["fields"]) == (True, 42, ["x", "twice"])
    assert [(source["file"], source["rows"]) for source in told["sources"]] == [
        ("part_0.npz", 6), ("part_1.npz", 0), ("part_2.npz", 4),
    ]  # fmt: skip
    assert np.sum([source["in_shards"] for source in told["sources"]], axis=0).tolist() == told["shard_sizes"]
    assert told["digest"]["rows"] == 10
    for shard, path in enumerate(shards(tmp_path / "out")):
        with np.load(path) as found:
            assert (found["twice"] == np.stack([2 * found["x"], found["x"]], axis=1)).all()
            assert int((found["x"] < 6).sum()) == told["sources"][0]["in_shards"][shard]
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
    assert any("temporary space" in note and "memory at most" in note for note in notes)


def test_train_and_eval_are_mirrored_and_sources_come_in_natural_order(numbered, tmp_path):
    root = tmp_path / "set"
    (root / "eval" / "deep").mkdir(parents=True)
    (root / "train").mkdir()
    for number, path in enumerate(sorted(numbered.glob("*.npz"))):
        shutil.copy(path, root / "train" / f"shard_{8 + number}.npz")
    (root / "eval" / "a.npz").write_bytes(b"anything")
    (root / "eval" / "deep" / "note.txt").write_text("hi")
    (root / "metadata.json").write_text('{"num_samples": 3, "shard_sizes": [1, 2]}')
    before = tree(root)
    told = shuffle_npz(root, tmp_path / "out", 4, workers=1)
    assert [source["file"] for source in told["sources"]] == ["shard_8.npz", "shard_9.npz", "shard_10.npz"]
    assert sorted(tree(tmp_path / "out")) == [
        "eval/a.npz", "eval/deep/note.txt", "train/check.py", "train/metadata.json",
        *(f"train/shard_00000{n}.npz" for n in range(3)),
    ]  # fmt: skip
    assert (tmp_path / "out" / "eval" / "a.npz").read_bytes() == b"anything"
    assert tree(root) == before
    (root / "eval" / "a.npz").write_bytes(b"other")
    (root / "eval" / "deep" / "note.txt").unlink()
    shuffle_npz(root, tmp_path / "out", 4, workers=1)
    assert {name: raw for name, raw in tree(tmp_path / "out").items() if "eval" in name} == {"eval/a.npz": b"other"}
    (tmp_path / "mine" / "eval").mkdir(parents=True)
    with pytest.raises(BadInput, match="holds eval of something else"):
        shuffle_npz(root, tmp_path / "mine", 4, workers=1)


def test_no_row_at_all_and_one_row(tmp_path):
    for name, values in (("none", np.zeros((0, 3), np.int16)), ("one", np.ones((1, 3), np.int16))):
        split(tmp_path / name, {"x": values}, [0])
        told = shuffle_npz(tmp_path / name, tmp_path / f"{name}-out", 5, workers=1)
        assert told["shard_sizes"] == [len(values)]
        assert np.load(tmp_path / f"{name}-out" / "shard_000000.npz")["x"].tolist() == values.tolist()
        assert check(tmp_path / f"{name}-out")[0] == 0


def test_fields_in_fortran_order_are_shuffled_too(tmp_path):
    (tmp_path / "in").mkdir()
    values = np.asfortranarray(np.arange(30).reshape(10, 3))
    np.savez(tmp_path / "in" / "a.npz", x=values)
    with small():
        shuffle_npz(tmp_path / "in", tmp_path / "out", 4, workers=1)
    assert sorted(row for path in shards(tmp_path / "out") for row in np.load(path)["x"].tolist()) == values.tolist()


def test_bytes_do_not_depend_on_workers_memory_or_where_rows_wait(tmp_path):
    random = np.random.default_rng(1)
    table = {"x": random.integers(0, 9, (5000, 40)).astype(np.int16), "y": np.arange(5000)}
    split(tmp_path / "in", table, [3000, 3500])
    with mock.patch.multiple(module, BLOCK=2**14, CELL=2**14, BUNDLE=2**14):
        ways = {
            "one": {"workers": 1}, "two": {"workers": 2}, "little": {"workers": 1, "memory_budget": "50MiB"},
            "elsewhere": {"workers": 1, "temp_dir": tmp_path / "temp"},
        }  # fmt: skip
        for name, given_ in ways.items():
            shuffle_npz(tmp_path / "in", tmp_path / name, 1500, **given_)
    found = [tree(tmp_path / name) for name in ways]
    assert found[1:] == found[:1] * 3
    assert list((tmp_path / "temp").iterdir()) == []
    assert rows_of(shards(tmp_path / "one")) == rows_of(sorted((tmp_path / "in").glob("*.npz")))


# --- runs -------------------------------------------------------------------------------------------------------------


def test_a_second_run_does_nothing_and_another_question_writes_again(numbered, tmp_path, notes):
    out = tmp_path / "out"
    told = shuffle_npz(numbered, out, 4, workers=1)
    stamps = {path: path.stat().st_mtime_ns for path in out.glob("[!.]*")}
    assert shuffle_npz(numbered, out, 4, workers=1) == told
    assert "shuffle: out was already done" in notes
    assert {path: path.stat().st_mtime_ns for path in out.glob("[!.]*")} == stamps
    assert shuffle_npz(numbered, out, 5, workers=1)["shard_sizes"] == [5, 5]
    assert [path.name for path in shards(out)] == ["shard_000000.npz", "shard_000001.npz"]
    assert "shuffle: out is written again: parameters" in notes
    (out / "shard_000000.npz").unlink()
    assert shuffle_npz(numbered, out, 5, workers=1)["shard_sizes"] == sizes_of(shards(out))


def test_two_runs_at_once_are_one_too_many(numbered, tmp_path):
    with lock(tmp_path / "out"), pytest.raises(RunLocked, match="is in use by process"):
        shuffle_npz(numbered, tmp_path / "out", 4, workers=1)


def test_a_source_that_changes_meanwhile_is_noticed(numbered, tmp_path):
    with small():
        plan = Plan.of(open_alike(npz_files(numbered).train), 4, 42)
    np.savez(numbered / "part_0.npz", x=np.arange(6, dtype=np.int16), twice=np.zeros((6, 2), np.int64))
    with pytest.raises(BadInput, match=r"part_0\.npz has changed since this run began"):
        module.scatter(plan, 0, plan.table[0], 10**6, tmp_path)


def test_a_wrong_checksum_of_a_source_stops_before_any_shard_is_written(numbered, tmp_path):
    path = numbered / "part_0.npz"
    np.savez(path, x=np.arange(6, dtype=np.int16), twice=np.zeros((6, 2), np.int64))
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"\x05\x00PK")] ^= 1
    path.write_bytes(raw)
    with pytest.raises(BadShard, match=r"part_0.npz: member 'x.npy' has CRC-32 \w+, the zip says"):
        shuffle_npz(numbered, tmp_path / "out", 4, workers=1)
    assert shards(tmp_path / "out") == []


def test_a_damaged_temporary_file_is_named(numbered, tmp_path):
    plan = Plan.of(open_alike(npz_files(numbered).train), 4, 42)
    module.scatter(plan, 0, plan.table[0], 10**6, tmp_path)
    path = tmp_path / "00000.rows"
    path.write_bytes(b"\0" * path.stat().st_size)
    with pytest.raises(BadShard, match=r"00000.rows is damaged; remove .* and run it again"):
        module.finish(plan, 0, tmp_path, tmp_path)


def test_rows_that_are_not_those_read_are_never_called_done(numbered, tmp_path):
    with (
        mock.patch.object(module, "_joined", side_effect=[{"sum": "0"}, {"sum": "1"}]),
        pytest.raises(Unbalanced, match="the rows written are not the rows read"),
    ):
        shuffle_npz(numbered, tmp_path / "out", 4, workers=1)
    assert not (tmp_path / "out" / "metadata.json").exists()


def test_what_a_kill_left_half_written_is_swept(numbered, tmp_path):
    shutil.copytree(numbered, tmp_path / "set" / "train")
    (tmp_path / "out" / HIDDEN).mkdir(parents=True)
    for name in ("train/.check.py.77-3.tmp", "eval/deep/.a.npz.77-4.tmp"):
        (tmp_path / "out" / name).parent.mkdir(parents=True)
        (tmp_path / "out" / name).touch()
    shuffle_npz(tmp_path / "set", tmp_path / "out", 4, workers=1)
    assert not [name for name in tree(tmp_path / "out") if name.endswith(".tmp")]


JOB = """
import sys
from prep_lib.events import listen
from prep_lib.shuffle import shuffle_npz as module
module.BLOCK, module.CELL, module.BUNDLE = 2**14, 2**14, 2**14
module.shuffle_npz(sys.argv[1], sys.argv[2], 700, workers=2)
"""


@pytest.mark.kill
def test_killed_at_random_moments_and_run_again_equals_one_clean_run(tmp_path):
    random = np.random.default_rng(1)
    table = {"x": random.integers(0, 9, (9000, 40)).astype(np.int16), "y": np.arange(9000)}
    split(tmp_path / "set" / "train", table, [3000, 3500])
    (tmp_path / "set" / "eval").mkdir()
    (tmp_path / "set" / "eval" / "a.txt").write_text("hello")
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", JOB, tmp_path / "set", tmp_path / "clean"], check=True, capture_output=True)
    took = time.monotonic() - began
    before = tree(tmp_path / "set")
    for moment in killing.moments(6, 7, 0.4 * took, took):
        process, mark = killing.spawn(JOB, tmp_path / "set", tmp_path / "out")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moment)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert killing.wait_gone(mark) == []
        if not (tmp_path / "out" / "train" / "metadata.json").exists():
            continue
        assert tree(tmp_path / "out") == tree(tmp_path / "clean")
        shutil.rmtree(tmp_path / "out")
    subprocess.run([sys.executable, "-c", JOB, tmp_path / "set", tmp_path / "out"], check=True, capture_output=True)
    assert tree(tmp_path / "out") == tree(tmp_path / "clean")
    assert sorted(path.name for path in (tmp_path / "out" / HIDDEN).iterdir()) == ["kind", "lock", "shuffle.json"]
    assert tree(tmp_path / "set") == before


# --- memory and disk --------------------------------------------------------------------------------------------------

PEAK = """
import sys, threading, time
from pathlib import Path
from prep_lib.shuffle.shuffle_npz import shuffle_npz
most, done = 0, threading.Event()
def watch():
    global most
    while not done.wait(0.005):
        most = max(most, int(open("/proc/self/status").read().split("RssAnon:")[1].split()[0]) * 1024)
watcher = threading.Thread(target=watch)
watcher.start()
told = shuffle_npz(sys.argv[1], sys.argv[2], int(sys.argv[3]), workers=1, memory_budget="80MiB")
done.set()
watcher.join()
print(most, told["num_samples"])
"""


@pytest.mark.parametrize("size", [40_000, 10**9])
def test_memory_is_bounded_however_large_a_source_and_a_shard_is(tmp_path, size):
    """128 MB in one file, into many shards and into one."""
    if not sys.platform.startswith("linux"):
        pytest.skip("memory is read from /proc")
    block = np.random.default_rng(1).integers(0, 3, (10_000, 128)).astype(np.int16)
    with NpzWriter(tmp_path / "in" / "a.npz") as writer:
        column = writer.stream("x", np.int16, (500_000, 128))
        for _ in range(50):
            column.write(block)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, tmp_path / "in", tmp_path / "out", str(size)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    most, rows = done.stdout.splitlines()[-1].split()
    assert rows == "500000"
    # 84 MB were seen where the kernels were compiled on the way.
    assert int(most) < 96 * 2**20


def test_too_little_memory_is_said_and_fewer_workers_are_taken(numbered, tmp_path, notes):
    with pytest.raises(
        BadParameter, match=r"memory_budget of 1,000 bytes is too small; these rows need [\d,]+ a worker"
    ):
        shuffle_npz(numbered, tmp_path / "out", 4, memory_budget=1000)
    split(tmp_path / "many", {"x": np.arange(40)}, range(40))
    assert module._shares(Plan.of(open_alike(npz_files(tmp_path / "many").train), 4, 42), 8, 190 * 2**20)[0] == 2
    assert "shuffle: the memory budget is enough for 2 of 8 workers" in notes


def test_the_sample_is_of_all_sources_and_shuffled(tmp_path):
    split(tmp_path, {"x": np.repeat(np.arange(4), [4000, 2000, 1000, 1000])}, [4000, 6000, 7000])
    plan = Plan.of(open_alike(npz_files(tmp_path).train), 1000, 42)
    with mock.patch.object(module, "SAMPLE", 8 * 800):
        rows = module._sample(plan)[0][0].view(np.int64)[:, 0]
    assert np.bincount(rows).tolist() == [400, 200, 100, 100]
    assert (np.diff(rows) != 0).sum() > 300


def test_the_estimate_tells_what_is_needed(tmp_path, notes):
    random = np.random.default_rng(1)
    split(tmp_path / "in", {"x": random.integers(0, 30, (40_000, 64)).astype(np.int16)}, [30_000])
    plan = Plan.of(open_alike(npz_files(tmp_path / "in").train), 10_000, 42)
    said = module.estimate(plan, 1, 10**8)
    with mock.patch.object(module._Run, "_forget"):
        shuffle_npz(tmp_path / "in", tmp_path / "out", 10_000, workers=1)
    written = sum(path.stat().st_size for path in shards(tmp_path / "out"))
    waited = sum(path.stat().st_size for path in (tmp_path / "out" / HIDDEN / "scatter").glob("*.rows"))
    assert 0.9 < said.output / written < 1.1
    assert 0.9 < said.temporary / waited < 1.1
    assert said.seconds > 0


@pytest.mark.parametrize("answer", [None, "n", "y"])
def test_too_little_disk_asks_on_a_terminal_and_fails_without_one(numbered, tmp_path, monkeypatch, answer):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(0, 0, 0))
    monkeypatch.setattr(sys, "stdin", mock.Mock(isatty=lambda: answer is not None))
    asked = mock.Mock(return_value=answer)
    monkeypatch.setattr("builtins.input", asked)
    if answer == "y":
        assert shuffle_npz(numbered, tmp_path / "out", 4, workers=1)["num_samples"] == 10
        assert "needs about 0 MB and has 0 MB free; go on all the same?" in asked.call_args.args[0]
    else:
        with pytest.raises(NoSpace, match="has 0 MB free; free some, or name another temp_dir"):
            shuffle_npz(numbered, tmp_path / "out", 4, workers=1)
        assert shards(tmp_path / "out") == []


def test_a_full_disk_is_said_and_the_run_goes_on_later(tmp_path):
    split(tmp_path / "in", {"x": np.random.default_rng(1).integers(0, 2**62, 200_000)}, [])
    with killing.small_disk(tmp_path / "disk") as disk, mock.patch.object(module._Run, "_check_space"):
        with pytest.raises(NoSpace, match="no space left"):
            shuffle_npz(tmp_path / "in", disk / "out", 50_000, workers=1)
        assert shards(disk / "out") == []


# --- what is refused, before anything is touched ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"output_dir": "in"}, "is in the input .*, which is only read"),
        ({"output_dir": "in/deep/out"}, "is in the input .*, which is only read"),
        ({"output_dir": "link"}, "is in the input .*, which is only read"),
        ({"output_dir": "."}, "the input .* is inside"),
        ({"temp_dir": "in"}, "is in the input"),
        ({"shard_size": 0}, "shard_size must be a whole number of at least 1; got 0"),
        ({"shard_size": 2.5}, "shard_size must be a whole number of at least 1; got 2.5"),
        ({"seed": -1}, "seed must be a whole number of at least 0; got -1"),
        ({"workers": 0}, "workers must be a whole number of at least 1; got 0"),
        ({"memory_budget": "much"}, "'much' is not a size"),
        ({"output_dir": "file"}, "file is a file; give a folder"),
        ({"output_dir": "foreign"}, "foreign holds a.npz of something else"),
        ({"input_dir": "none"}, "cannot list .*none"),
    ],
)
def test_wrong_questions_are_one_line_and_nothing_is_touched(numbered, tmp_path, monkeypatch, given_, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(numbered)
    (tmp_path / "file").touch()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "a.npz").touch()
    before = killing.tree(tmp_path)
    with pytest.raises(PrepError, match=said) as error:
        shuffle_npz(**{"input_dir": "in", "output_dir": "out", "shard_size": 4, **given_})
    assert "\n" not in str(error.value)
    assert killing.tree(tmp_path) == before


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_bad_files_are_one_line_and_the_input_stays_as_it_was(numbered, tmp_path):
    def objects(path):
        np.savez(path, x=np.array([[1], [1, 2]], object), twice=np.zeros((2, 2), np.int64))

    def other_type(path):
        np.savez(path, x=np.zeros(3, np.int32), twice=np.zeros((3, 2), np.int64))

    def other_fields(path):
        np.savez(path, x=np.zeros(3, np.int16))

    def cut(path):
        path.write_bytes((numbered / "part_0.npz").read_bytes()[:-50])

    def twice(path):
        shutil.copy(numbered / "part_0.npz", path)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("x.npy", b"")

    for make, said in (
        (objects, "field 'x' holds Python objects"), (other_type, "'x' holds int32 rows"),
        (other_fields, "lacks field 'twice'"), (cut, "it is cut or damaged"), (twice, "two members are named 'x.npy'"),
    ):  # fmt: skip
        make(numbered / "part_9.npz")
        before = tree(numbered)
        with pytest.raises(BadShard, match=f"part_9.npz.*{said}") as error:
            shuffle_npz(numbered, tmp_path / "out", 4, workers=1)
        assert "\n" not in str(error.value)
        assert tree(numbered) == before
        assert not (tmp_path / "out").exists()


def test_a_file_of_more_rows_than_can_be_dealt(tmp_path):
    split(tmp_path, {"x": np.zeros((3, 0))}, [])
    with mock.patch.object(module, "MOST_ROWS", 2), pytest.raises(BadInput, match="has 3 rows; at most 2 in one file"):
        shuffle_npz(tmp_path, tmp_path.parent / "out", 4)


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_specified_command_line(numbered, tmp_path):
    command = [
        sys.executable,
        "-m",
        "prep_lib.shuffle.shuffle_npz",
        "--input-dir",
        numbered,
        "--output-dir",
        tmp_path / "out",
    ]
    done = subprocess.run([*command, "--shard-size", "4", "--seed", "7"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "10 rows in 3 shards; digest before == after" in done.stdout
    assert json.loads((tmp_path / "out" / "metadata.json").read_text())["seed"] == 7
    done = subprocess.run([*command, "--shard-size", "0"], capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "shard_size must be a whole number of at least 1; got 0" in done.stderr


def test_prep_shuffle_npz_is_the_same(numbered, tmp_path, capsys):
    asked = ["shuffle-npz", "--input-dir", str(numbered), "--output-dir", str(tmp_path / "out"), "--shard-size", "4"]
    assert prep([*asked, "--workers", "1", "--memory-budget", "1GiB", "--temp-dir", str(tmp_path / "temp")]) == 0
    assert "10 rows in 3 shards" in capsys.readouterr().out
    assert prep(["shuffle-npz", "--input-dir", str(tmp_path / "none"), "--output-dir", str(tmp_path / "other")]) == 1
    assert capsys.readouterr().err.startswith("prep shuffle-npz: shards/npz: cannot list")
    with pytest.raises(SystemExit) as left:
        prep(["shuffle-npz", "--help"])
    assert left.value.code == 0
    assert "--memory-budget" in capsys.readouterr().out


def test_another_layout_over_an_older_output_leaves_nothing_of_it(numbered, tmp_path):
    """Readers take ``train/`` where there is one: an older one would be read in place of the new shards."""
    nested = tmp_path / "nested" / "train"
    shutil.copytree(numbered, nested)
    for source, place in ((nested.parent, "train"), (numbered, "."), (nested.parent, "train")):
        shuffle_npz(source, tmp_path / "out", 4, workers=1)
        found = {path.relative_to(tmp_path / "out" / place).as_posix() for path in (tmp_path / "out").rglob("*.npz")}
        assert found == {f"shard_{at:06d}.npz" for at in range(3)}
        assert check(tmp_path / "out" / place)[0] == 0


def test_a_shard_that_was_harmed_is_written_again(numbered, tmp_path):
    shuffle_npz(numbered, tmp_path / "out", 4, workers=1)
    path = tmp_path / "out" / "shard_000001.npz"
    before = path.read_bytes()
    path.write_bytes(before[:60] + bytes([before[60] ^ 1]) + before[61:])
    shuffle_npz(numbered, tmp_path / "out", 4, workers=1)
    assert path.read_bytes() == before
    path.touch()
    shuffle_npz(numbered, tmp_path / "out", 4, workers=1)
    assert path.read_bytes() == before


def test_what_a_build_wrote_is_left_alone(numbered, tmp_path):
    with lock(tmp_path / "out", "a build"):
        np.savez(tmp_path / "out" / "shard_000000.npz", x=np.arange(3))
    with pytest.raises(BadInput, match="holds what a build wrote; use another output folder"):
        shuffle_npz(numbered, tmp_path / "out", 4, workers=1)
    assert np.load(tmp_path / "out" / "shard_000000.npz")["x"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("place", [".", "train"])
def test_shards_of_somebody_else_are_left_alone_in_both_layouts(numbered, tmp_path, place):
    theirs = tmp_path / "out" / place / "shard_000000.npz"
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(b"theirs")
    with pytest.raises(BadInput, match=r"holds \S*shard_000000.npz of something else"):
        shuffle_npz(numbered, tmp_path / "out", 4, workers=1)
    assert theirs.read_bytes() == b"theirs"
