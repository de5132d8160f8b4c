"""Datasets give what is stored, whichever rows are asked for; shards are opened once, and nothing is believed."""

from __future__ import annotations

import gc
import pickle
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader
from toy_feed import npz_folder, rows_of, token_folder
from toy_shards import MASK, PACKED, SEQUENCE, build

from prep_lib.errors import BadInput, BadParameter, BadShard, UnknownName
from prep_lib.feed.dataset import PreProcessedDataset, TokenDataset, gather, locate
from prep_lib.shards.h5 import IOHandler
from prep_lib.shards.manifest import read_manifest, shard_entry, write_manifest

law = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
ROWS = st.lists(st.integers(0, 8), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Nine rows in three shards, one of them empty, in every kind."""
    root = tmp_path_factory.mktemp("folders")
    return {
        "bin": token_folder(root / "bin", [4, 0, 5]),
        "h5": token_folder(root / "h5", [4, 0, 5], kind="h5", dtype=np.int32),
        "npz": npz_folder(root / "npz", [4, 0, 5]),
    }


# ---------------------------------------------------------------------------------------------------- mapped: bin, h5


@pytest.mark.parametrize("kind", ["bin", "h5"])
@law
@given(rows=ROWS)
def test_a_batch_is_the_rows_that_were_asked_for(folders: dict[str, Path], kind: str, rows: Sequence[int]) -> None:
    dataset = TokenDataset(folders[kind])
    assert len(dataset) == 9
    batch = dataset.fetch(np.array(rows))
    assert batch["input_ids"].dtype == torch.int64
    assert batch["input_ids"].tolist() == rows_of(rows).tolist()
    assert [dataset[row]["input_ids"].tolist() for row in rows] == rows_of(rows).tolist()


@law
@given(rows=ROWS)
def test_what_else_a_batch_holds_follows_from_the_stored_segments(
    folders: dict[str, Path], rows: Sequence[int]
) -> None:
    asked = {"labels": "shifted", "first_token": False, "position_ids": True, "segment_ids": True, "cu_seqlens": True}
    batch = TokenDataset(folders["bin"], **asked, block_mask=True).fetch(np.array(rows))  # type: ignore[arg-type]
    n = len(rows)
    assert batch["position_ids"].tolist() == [[0, 1, 2, 0]] * n
    assert batch["segment_ids"].tolist() == [[0, 0, 0, 1]] * n
    assert batch["labels"].tolist() == [[10 * row + 1, 10 * row + 2, -100, -100] for row in rows]
    assert batch["cu_seqlens"].tolist() == [0, *(end for row in range(n) for end in (4 * row + 3, 4 * row + 4))]
    assert batch["max_seqlen"] == 3
    assert batch["block_mask"][0, 0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1]]


def test_boundaries_are_stored_ones_whatever_the_ids(tmp_path: Path) -> None:
    """An end token inside a document, and one that is the padding's id too, split and hide nothing."""
    sequence = np.array([[7, 2, 7, 7, 2, 2], [2, 2, 2, 2, 2, 2]], np.int32)
    data = {name: column for name, column in PACKED.items() if name != "loss_mask"} | {"sequence": sequence}
    batch = TokenDataset(build(tmp_path, data), labels="aligned", segment_ids=True).fetch(np.array([0, 1]))
    assert batch["segment_ids"].tolist() == [[0, 0, 0, 1, 1, -1], [0, 0, 0, 0, -1, -1]]
    assert batch["labels"].tolist() == [[7, 2, 7, 7, 2, -100], [2, 2, 2, 2, -100, -100]]


def test_labels_follow_the_loss_mask(tmp_path: Path) -> None:
    folder = build(tmp_path)
    labels = TokenDataset(folder, labels="aligned").fetch(np.array([1, 0]))["labels"].numpy()
    assert labels.tolist() == np.where(MASK, SEQUENCE, -100)[::-1].tolist()
    assert TokenDataset(folder).fetch(np.array([1]))["loss_mask"].tolist() == MASK[1:].tolist()


def test_ids_beyond_16_and_31_bits_never_wrap(tmp_path: Path) -> None:
    for dtype, ids in ((np.uint16, [65_535, 32_768]), (np.uint32, [2**32 - 1, 2**31])):
        folder = tmp_path / np.dtype(dtype).name
        folder.mkdir()
        np.array(ids, dtype).tofile(folder / "shard-00000.bin")
        entry = shard_entry(folder / "shard-00000.bin", 1, 2, np.dtype(dtype).name, {})
        write_manifest(folder, shards=[entry], seq_len=2, totals={}, seed=None, format="bin")
        assert TokenDataset(folder)[0]["input_ids"].tolist() == ids


def test_ragged_rows_are_padded_and_say_where(tmp_path: Path) -> None:
    rows = [np.array([7, 8, 9], np.int32), np.array([0], np.int32), np.array([5, 6], np.int32)]
    masks = [np.array([0, 1, 1], bool), np.array([1], bool), np.array([0, 1], bool)]
    path = IOHandler.save_h5(tmp_path, "chunk_0", {"sequence": rows, "loss_mask": masks})
    entry = shard_entry(path, 3, 6, "int32", {})
    write_manifest(tmp_path, shards=[entry], seq_len=None, totals={}, seed=None)
    batch = TokenDataset(tmp_path).fetch(np.array([1, 2]))
    assert batch["input_ids"].tolist() == [[0, 0], [5, 6]]
    assert batch["segment_ids"].tolist() == [[0, -1], [0, 0]]
    assert batch["loss_mask"].tolist() == [[True, False], [False, True]]
    assert TokenDataset(tmp_path, labels="aligned").fetch(np.array([0, 2]))["labels"].tolist() == [
        [-100, 8, 9], [-100, 6, -100],
    ]  # fmt: skip


def test_what_was_handed_out_outlives_the_dataset(folders: dict[str, Path]) -> None:
    """A view into a map that was closed would take the process down."""
    dataset = TokenDataset(folders["bin"], segment_ids=True)
    batch, sample = dataset.fetch(np.array([0, 8])), dataset[3]
    del dataset
    gc.collect()
    batch["input_ids"] += 1
    assert (batch["input_ids"] - 1).tolist() == rows_of([0, 8]).tolist()
    assert sample["input_ids"].tolist() == [30, 31, 32, 33]


def test_passes_over_the_data_do_not_grow(tmp_path: Path) -> None:
    """Pages of a map are the system's; what a process keeps for itself must not grow with what was read."""
    dataset = TokenDataset(token_folder(tmp_path, [4000] * 5), labels="shifted")

    def own() -> int:
        for start in range(0, len(dataset), 100):
            dataset.fetch(np.arange(start, start + 100))
        gc.collect()
        found = psutil.Process().memory_full_info()
        return found.rss - found.shared

    own()
    before = own()
    assert max(own() for _ in range(5)) - before < 4 * 2**20


def test_a_process_that_receives_a_dataset_opens_the_files_itself(folders: dict[str, Path]) -> None:
    for kind in ("bin", "h5"):
        dataset = TokenDataset(folders[kind], labels="aligned")
        dataset.fetch(np.arange(9))
        packed = pickle.dumps(dataset)
        assert len(packed) < 20_000
        assert pickle.loads(packed).fetch(np.array([5]))["labels"].tolist() == rows_of([5]).tolist()


def test_no_more_than_so_many_shards_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prep_lib.feed.dataset.OPEN", 2)
    dataset = TokenDataset(token_folder(tmp_path, [1] * 5))
    for rows in ([0, 1, 2, 3, 4], [4, 0, 2]):
        assert dataset.fetch(np.array(rows))["input_ids"].tolist() == rows_of(rows).tolist()
        assert len(dataset._opened) <= 2


@pytest.mark.parametrize("rows", [[9], [-1], [0, 9], [], [-(2**63)]])
def test_rows_that_are_not_there(folders: dict[str, Path], rows: list[int]) -> None:
    for dataset in (TokenDataset(folders["bin"]), PreProcessedDataset(folders["npz"])):
        with pytest.raises(IndexError, match="not all inside range\\(9\\)"):
            dataset.fetch(np.array(rows, np.int64))
    with pytest.raises(IndexError, match="row 9 of 9"):
        TokenDataset(folders["bin"])[9]
    assert TokenDataset(folders["bin"])[-1]["input_ids"].tolist() == [80, 81, 82, 83]


def test_a_folder_that_is_not_as_its_manifest_says(tmp_path: Path) -> None:
    folder = token_folder(tmp_path / "a", [2, 2])
    with pytest.raises(UnknownName, match="unknown labels 'shift'; did you mean 'shifted'"):
        TokenDataset(folder, labels="shift")
    with pytest.raises(UnknownName, match="unknown key of ids 'chosen'"):
        TokenDataset(folder, key="chosen")
    with open(folder / "shard-00001.bin", "ab") as file:
        file.write(bytes(8))
    with pytest.raises(BadShard, match=r"has 24 bytes, manifest\.json says 16; run prep verify"):
        TokenDataset(folder)
    (folder / "shard-00001.bin").unlink()
    with pytest.raises(BadShard, match=r"shard-00001\.bin is missing, though manifest\.json lists it"):
        TokenDataset(folder)
    with pytest.raises(BadShard, match="no manifest"):
        TokenDataset(tmp_path)


def test_rows_are_counted_in_the_file_not_in_the_manifest(tmp_path: Path) -> None:
    folder = token_folder(tmp_path, [3], seq_len=2)
    with pytest.raises(BadShard, match=r"has 6 rows, manifest\.json says 3"):
        TokenDataset(folder).fetch(np.array([0]))


def test_segments_longer_than_the_row_are_refused_before_they_write(tmp_path: Path) -> None:
    dataset = TokenDataset(token_folder(tmp_path, [2], segments=(3, 2)), position_ids=True)
    with pytest.raises(BadShard, match=r"segments longer than a row of 4 in one of shard-00000\.bin; run prep verify"):
        dataset.fetch(np.array([1]))


@law
@given(rows=ROWS)
def test_compiled_and_plain_read_the_same(rows: Sequence[int]) -> None:
    begins, wanted = np.array([0, 4, 4, 9]), np.array(rows)
    column = np.arange(20, dtype=np.uint16).reshape(5, 4)
    shards, local, inside = locate(begins, wanted)
    assert inside
    assert (begins[shards] + local).tolist() == rows
    assert all(begins[shard] < begins[shard + 1] for shard in shards)
    assert [np.array(part).tolist() for part in locate.python(begins, wanted)] == [
        shards.tolist(),
        local.tolist(),
        True,
    ]
    assert not locate(begins, np.append(wanted, 9))[2]
    assert not locate.python(begins, np.append(wanted, -1))[2]
    ours, plain = np.full((len(rows), 4), -1), np.full((len(rows), 4), -1)
    gather(column, local, shards, 2, ours)
    gather.python(column, local, shards, 2, plain)
    expected = [column[at].tolist() if shard == 2 else [-1] * 4 for at, shard in zip(local, shards, strict=True)]
    assert ours.tolist() == plain.tolist() == expected


def test_shards_of_another_layout_are_refused_before_they_are_copied(tmp_path: Path) -> None:
    with pytest.raises(BadShard, match=r"sequence is \(3, 4\), not rows of 5"):
        TokenDataset(token_folder(tmp_path / "a", [3], kind="h5", dtype=np.int32, seq_len=5))
    for number, (rows, what) in enumerate(
        [(np.zeros((2, 3), np.int32), "is \\(2, 3\\), not rows of 4"), (None, "has no")]
    ):
        folder = token_folder(tmp_path / str(number), [2, 2], kind="h5", dtype=np.int32, seq_len=None)
        if rows is None:
            IOHandler.save_h5(folder, "chunk_1", {"sequence": [np.zeros(1, np.int32)] * 2})
        else:
            IOHandler.save_h5(folder, "chunk_1", {"sequence": list(rows)}, ragged=False)
        manifest = read_manifest(folder)
        manifest["shards"][1]["bytes"] = (folder / "chunk_1.h5").stat().st_size
        write_manifest(folder, **manifest)
        with pytest.raises(BadShard, match=what):
            TokenDataset(folder).fetch(np.array([3]))


def test_packed_shards_are_not_for_mapping(tmp_path: Path) -> None:
    (tmp_path / "shard_000000.npz").write_bytes(b"")
    entry = shard_entry(tmp_path / "shard_000000.npz", 0, 0, "int32", {})
    write_manifest(tmp_path, shards=[entry], seq_len=4, totals={}, seed=None, format="npz")
    with pytest.raises(BadParameter, match="cannot be mapped; read the folder with PreProcessedDataset"):
        TokenDataset(tmp_path)


# --------------------------------------------------------------------------------------------------------- packed: npz


@law
@given(rows=ROWS, cache=st.integers(1, 3))
def test_npz_rows_come_as_stored(folders: dict[str, Path], rows: Sequence[int], cache: int) -> None:
    dataset = PreProcessedDataset(folders["npz"], cache)
    batch = dataset.fetch(np.array(rows))
    assert {name: values.dtype for name, values in batch.items()} == {
        "ids": torch.int16, "far": torch.int64, "row": torch.int64,
    }  # fmt: skip
    assert batch["ids"].tolist() == batch["far"].tolist() == rows_of(rows).tolist()
    assert [dataset[row]["row"].item() for row in rows] == rows
    assert len(dataset._cache) <= cache


def test_reading_front_to_back_unpacks_each_shard_once_and_holds_one(tmp_path: Path) -> None:
    dataset = PreProcessedDataset(npz_folder(tmp_path, [5, 3, 4]))
    for start in range(0, 12, 4):
        dataset.fetch(np.arange(start, start + 4))
        assert len(dataset._cache) == 1
    assert dataset.loads == 3


def test_the_memory_of_reading_is_one_shard_however_many_there_are(tmp_path: Path) -> None:
    peaks = []
    for shards in (2, 8):
        folder = tmp_path / str(shards)
        folder.mkdir()
        for number in range(shards):
            np.savez_compressed(folder / f"shard_{number}.npz", ids=np.zeros((20_000, 50), np.int32))
        dataset = PreProcessedDataset(folder)
        tracemalloc.start()
        for start in range(0, len(dataset), 1000):
            dataset.fetch(np.arange(start, start + 1000))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0] < 1.5 * 20_000 * 50 * 4


def test_sizes_are_counted_never_believed(tmp_path: Path) -> None:
    """The specification's floor slices are uneven, while its metadata says they are even."""
    folder = npz_folder(tmp_path, [3, 2, 4], num_samples=9, shard_size=3, shard_sizes=[3, 3, 3], pre_shuffled=True)
    dataset = PreProcessedDataset(folder)
    assert dataset.sizes == (3, 2, 4)
    assert [dataset[row]["row"].item() for row in range(9)] == [*range(9)]
    assert dataset.metadata["pre_shuffled"] is True


def test_train_is_found_in_its_folder_and_its_metadata_beside_it(tmp_path: Path) -> None:
    npz_folder(tmp_path, [], pre_shuffled=True)
    npz_folder(tmp_path / "train", [2, 2])
    for path in (tmp_path, tmp_path / "train"):
        assert len(PreProcessedDataset(path)) == 4
    assert PreProcessedDataset(tmp_path).metadata == {"pre_shuffled": True}
    write_manifest(tmp_path / "train", shards=[], seq_len=4, totals={}, seed=1, pre_shuffled=True, format="npz")
    assert PreProcessedDataset(tmp_path / "train").metadata["seq_len"] == 4
    (tmp_path / "train" / "manifest.json").unlink()
    assert PreProcessedDataset(tmp_path / "train").metadata == {}


def test_every_epoch_is_another_order_of_all_rows_one_shard_at_a_time(tmp_path: Path) -> None:
    dataset = PreProcessedDataset(npz_folder(tmp_path, [20, 30, 25]))
    seen = []
    for epoch in range(4):
        dataset.set_epoch(epoch)
        dataset.loads = 0
        dataset._cache.clear()
        seen.append([dataset[place]["row"].item() for place in range(75)])
        assert dataset.loads == 3
        assert [batch["row"] for batch in dataset.__getitems__([0, 74])] == [seen[-1][0], seen[-1][74]]
    assert seen[0] == [*range(75)]
    assert all(sorted(order) == [*range(75)] for order in seen)
    for one in range(4):
        for other in range(one):
            assert sum(a == b for a, b in zip(seen[one], seen[other], strict=True)) < 15
    with pytest.raises(BadParameter, match="an epoch must be >= 0, got -1"):
        dataset.set_epoch(-1)


def test_a_plain_torch_loader_reads_them_and_its_workers_follow_the_epoch(folders: dict[str, Path]) -> None:
    dataset = PreProcessedDataset(folders["npz"])
    loader = DataLoader(dataset, batch_size=4, num_workers=1, persistent_workers=True)
    first = [batch["row"].tolist() for batch in loader]
    assert first == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    dataset.set_epoch(1)
    second = [row for batch in loader for row in batch["row"].tolist()]
    assert second != [*range(9)]
    assert sorted(second) == [*range(9)]


def test_a_plain_torch_loader_reads_tokens(folders: dict[str, Path]) -> None:
    dataset = TokenDataset(folders["h5"], labels="shifted")
    (batch,) = DataLoader(dataset, batch_size=9)
    assert batch["input_ids"].tolist() == rows_of(range(9)).tolist()
    sample = TokenDataset(folders["h5"], cu_seqlens=True).__getitems__([1, 2])
    assert [one["cu_seqlens"].tolist() for one in sample] == [[0, 3, 4], [0, 3, 4]]


def test_npz_folders_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="no npz file"):
        PreProcessedDataset(tmp_path)
    folder = npz_folder(tmp_path / "a", [2])
    with pytest.raises(BadParameter, match="max_cache_shards must be at least 1, got 0"):
        PreProcessedDataset(folder, 0)
    np.savez(folder / "shard_000001.npz", ids=np.zeros((2, 5)))
    with pytest.raises(BadShard, match="shard_000001"):
        PreProcessedDataset(folder)
    (folder / "shard_000001.npz").unlink()
    (folder / "metadata.json").write_text("[1]")
    with pytest.raises(BadInput, match=r"metadata\.json holds no object"):
        PreProcessedDataset(folder)
    (folder / "metadata.json").write_text("{")
    with pytest.raises(BadInput, match=r"cannot read .*metadata\.json"):
        PreProcessedDataset(folder)


def test_shards_too_large_for_the_machine_are_refused_before_they_are_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few kB of npz may hold hundreds of MB of zeros: the headers say so."""
    np.savez_compressed(tmp_path / "shard_0.npz", zeros=np.zeros(10**6, np.int64))
    monkeypatch.setattr("prep_lib.feed.dataset.memory_limit", lambda: 10**6)
    with pytest.raises(BadParameter, match="1 unpacked shards take 8,000,000 bytes, this machine has 1,000,000"):
        PreProcessedDataset(tmp_path)
