"""Two folders differ in what somebody changed and in nothing else, however documents are packed, cut and ordered."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.errors import BadParameter, BadShard
from prep_lib.shards import compare as module
from prep_lib.shards.compare import Counts, Setting, Spot, compare, stored
from prep_lib.shards.h5 import H5Shard, ShardWriter
from prep_lib.shards.manifest import shard_entry, write_manifest

SOURCES = ["a.jsonl", "b.parquet"]

# A document: (source, line), ids, mask.
HI = ((0, 1), [7, 8, 9, 4], [0, 0, 1, 1])
HO = ((0, 2), [7, 7, 5, 4, 3], [0, 0, 1, 1, 0])
LO = ((1, 4), [1, 2, 4], [0, 1, 1])


def write(path: Path, columns: dict, places: list[tuple[int, int]], sources: list[str]) -> None:
    with ShardWriter(path) as writer:
        for name, values in columns.items():
            writer.write(name, np.asarray(values))
        writer.write("documents/source", np.array([source for source, _ in places], np.int32))
        writer.write("documents/line", np.array([line for _, line in places], np.int64))
        writer.strings("documents/sources", sources)


def finish(folder: Path, shards: list[str], **manifest) -> Path:
    entries = [shard_entry(folder / name, 1, 1, "int32", {}) for name in shards]
    told = {"tokenizer": {"name": "toy", "sha256": "5"}, "strategy": {"id_keys": ["sequence"]}} | manifest
    write_manifest(folder, shards=entries, **{"seq_len": None, "totals": {}, "seed": 42} | told)
    return folder


def new() -> Path:
    return Path(tempfile.mkdtemp())


def flat(rows: list, dtype: type) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype), *(np.array(row, dtype) for row in rows)])


def ragged(documents: list, *, weights: list | None = None, sources=SOURCES, per_shard: int = 99, **manifest) -> Path:
    folder, names = new(), []
    for at in range(0, max(len(documents), 1), per_shard):
        part = documents[at : at + per_shard]
        offsets = np.cumsum([0, *(len(ids) for _, ids, _ in part)])
        columns = {
            "sequence": flat([ids for _, ids, _ in part], np.int32), "offsets/sequence": offsets,
            "loss_mask": flat([mask for _, _, mask in part], bool), "offsets/loss_mask": offsets,
        }  # fmt: skip
        if weights:
            weight = flat(weights[at : at + per_shard], np.float32)
            columns |= {"loss_weight": weight, "offsets/loss_weight": offsets}
        names.append(f"chunk_{len(names)}.h5")
        write(folder / names[-1], columns, [place for place, _, _ in part], sources)
    return finish(folder, names, **manifest)


def packed(documents: list, width: int = 8, *, per_shard: int = 2, order=None, sources=SOURCES, **manifest) -> Path:
    """As concat packs: one stream, cut where a pack is full; packs in `order`."""
    pieces: list[list] = [[]]
    for number, (_, ids, _) in enumerate(documents):
        start = 0
        while start < len(ids):
            room = width - sum(length for _, _, length in pieces[-1])
            if not room:
                pieces.append([])
                continue
            length = min(room, len(ids) - start)
            pieces[-1].append((number, start, length))
            start += length
    pieces = [pieces[at] for at in order(len(pieces))] if order else pieces
    folder, names = new(), []
    for first in range(0, len(pieces), per_shard):
        part = pieces[first : first + per_shard]
        ids, mask = np.full((len(part), width), 3, np.int32), np.zeros((len(part), width), bool)
        known = list(dict.fromkeys(number for row in part for number, _, _ in row))
        segments: dict[str, list[int]] = {"row": [], "start": [], "length": [], "document": []}
        for row, members in enumerate(part):
            at = 0
            for number, start, length in members:
                ids[row, at : at + length] = documents[number][1][start : start + length]
                mask[row, at : at + length] = documents[number][2][start : start + length]
                for name, value in zip(
                    ("row", "start", "length", "document"), (row, start, length, known.index(number)), strict=True
                ):
                    segments[name].append(value)
                at += length
        columns = {"sequence": ids, "loss_mask": mask} | {
            f"segments/{name}": np.array(values, np.int64) for name, values in segments.items()
        }
        names.append(f"chunk_{len(names)}.h5")
        write(folder / names[-1], columns, [documents[number][0] for number in known], sources)
    return finish(folder, names, seq_len=width, packing={"algorithm": "concat", "packs": len(pieces)}, **manifest)


def train(document, *places):
    place, ids, mask = document
    return place, ids, [int(value or at in places) for at, value in enumerate(mask)]


def checked(one: Path, other: Path, **choices):
    """Compare, and check what always holds: the sums, and that examples say where their documents lie."""
    found = compare(one, other, **choices)
    told = found.total
    pairs = told.equal + told.other_weight + told.other_mask + told.shorter + told.other_ids + told.torn
    assert (told.documents_one, told.documents_other) == (pairs + told.only_one, pairs + told.only_other)
    for name, value in asdict(told).items():
        assert sum(getattr(counts, name) for counts in found.sources.values()) == value, name
    assert [sum(column) for column in zip(*found.places.values(), strict=True)] == [
        told.trained_one, told.trained_other
    ]  # fmt: skip
    for example in found.examples:
        for folder, spots in ((one, example.one), (other, example.other)):
            for spot in spots:
                shard = H5Shard(folder / spot.file)
                segments = shard.segments(spot.row)
                names = [shard.document(int(number)) for number in segments["document"]]
                assert example.document in names
    return found


def test_the_same_documents_packed_cut_and_shuffled_are_equal():
    documents = [HI, HO, LO]
    folders = [
        ragged(documents), ragged(documents[::-1], per_shard=1), packed(documents), packed(documents, 3),
        packed(documents[::-1], 4, per_shard=1, order=lambda n: list(range(n))[::-1]),
    ]  # fmt: skip
    for folder in folders:
        found = checked(folders[0], folder)
        assert found.same, found
        assert found.total == Counts(3, 3, equal=3, both=6, neither=6)
        assert found.sources == {
            "a.jsonl": Counts(2, 2, equal=2, both=4, neither=5), "b.parquet": Counts(1, 1, equal=1, both=2, neither=1),
        }  # fmt: skip
        assert found.examples == found.tokens == ()
        assert found.repeated == (0, 0)


def test_more_trained_tokens_are_found_by_source_by_place_and_by_id():
    found = checked(ragged([HI, HO, LO]), packed([HI, train(HO, 4), LO], 4))
    assert not found.same
    assert found.total == Counts(3, 3, equal=2, other_mask=1, both=6, trained_other=1, neither=5)
    assert found.sources["a.jsonl"].other_mask == 1
    assert found.sources["b.parquet"].different == 0
    assert found.places == {"apart": (0, 0), "behind": (0, 1), "before": (0, 0), "between": (0, 0)}
    assert found.tokens == ((3, 0, 1),)
    [example] = found.examples
    assert (example.document, example.kind, example.key, example.first) == (
        "a.jsonl#L2",
        "other_mask",
        "sequence",
        None,
    )
    assert (example.trained_one, example.trained_other) == ((), ((4, 5),))
    assert example.one == (Spot("chunk_0.h5", 1, 0, 0, 5),)
    # Packs of 4: the second holds the first four tokens, the third the last, before b.parquet[4].
    assert example.other == (Spot("chunk_0.h5", 1, 0, 0, 4), Spot("chunk_1.h5", 0, 0, 4, 1))


def test_a_document_is_read_back_whole():
    one, other = ragged([HO]), packed([HI, train(HO, 4)], 3)
    [alone, example] = sorted(compare(one, other).examples, key=lambda found: found.kind == "other_mask")
    assert (alone.kind, alone.document, alone.one, len(alone.other)) == ("only_other", "a.jsonl#L1", (), 2)
    for folder, spots, mask in ((one, example.one, HO[2]), (other, example.other, train(HO, 4)[2])):
        whole = stored(folder, spots, example.key)
        assert whole.ids.tolist() == HO[1]
        assert whole.mask.tolist() == [bool(value) for value in mask]
        assert whole.weight is None
    assert stored(one, (), "sequence").ids.tolist() == []
    with pytest.raises(BadShard, match=r"has no row 7; it was built anew since"):
        stored(one, [replace(example.one[0], row=7)], "sequence")


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [
        ([0, 1, 1, 0], [0, 1, 1, 1], "behind"),
        ([0, 0, 1, 1], [1, 1, 1, 1], "before"),
        ([0, 1, 0, 1], [0, 1, 1, 1], "between"),
        ([1, 0, 0, 0], [1, 0, 1, 1], "apart"),
    ],
)
def test_where_changed_targets_stand(one, other, place):
    documents = [((0, 1), [7, 8, 9, 4], mask) for mask in (one, other)]
    # A neighbour that trains its first and last token must not be taken for part of the document.
    around = [((0, 0), [1, 1], [1, 1]), ((0, 2), [1, 1], [1, 1])]
    found = checked(ragged([around[0], documents[0], around[1]]), packed([around[0], documents[1], around[1]], 3))
    n = sum(other) - sum(one)
    assert {name: counts for name, counts in found.places.items() if counts != (0, 0)} == {place: (0, n)}


def test_other_ids_are_compared_up_to_where_they_differ():
    changed = (HO[0], [7, 7, 5, 9, 3], [1, 0, 1, 1, 0])
    found = checked(ragged([HI, HO]), ragged([HI, changed]))
    assert found.total == Counts(
        2, 2, equal=1, other_ids=1, both=3, trained_other=1, neither=3, rest_one=2, rest_other=2
    )
    [example] = found.examples
    assert (example.kind, example.first, example.trained_other) == ("other_ids", 3, ((0, 1),))


def test_the_beginning_of_a_document_is_not_other_ids():
    found = checked(ragged([HO]), ragged([(HO[0], HO[1][:3], HO[2][:3])]))
    assert found.total == Counts(1, 1, shorter=1, both=1, neither=2, rest_one=2)
    assert (found.examples[0].kind, found.examples[0].first) == ("shorter", 3)


def test_documents_of_one_folder_only():
    found = checked(ragged([HI, HO]), ragged([LO, HO]))
    assert found.total == Counts(
        2, 2, equal=1, only_one=1, only_other=1, both=2, neither=3, rest_one=4, rest_other=3
    )  # fmt: skip
    assert [(example.kind, example.document) for example in found.examples] == [
        ("only_one", "a.jsonl#L1"), ("only_other", "b.parquet[4]")
    ]  # fmt: skip
    nothing = checked(ragged([]), ragged([HI]))
    assert (nothing.total.documents_one, nothing.total.only_other, nothing.total.rest_other) == (0, 1, 4)
    assert checked(ragged([]), ragged([])).same


def test_sources_are_matched_by_name():
    swapped = [((1 - source, line), ids, mask) for (source, line), ids, mask in (HI, HO, LO)]
    assert checked(ragged([HI, HO, LO]), ragged(swapped, sources=SOURCES[::-1])).same


def test_repeated_ids_are_matched_by_content_and_told():
    twin = (HI[0], [7, 1, 1, 1], [0, 0, 0, 1])
    found = checked(ragged([HI, twin, HO]), packed([twin, HO, HI], 5))
    assert found.same
    assert found.repeated == (1, 1)
    found = checked(ragged([HI, twin, HI]), ragged([HI]))
    assert found.repeated == (2, 0)
    assert (found.total.documents_one, found.total.documents_other, found.total.only_one) == (3, 1, 2)


def test_pieces_that_do_not_join_up_are_told_and_not_compared(tmp_path):
    folder = packed([HI, HO], 4)
    path = folder / "chunk_0.h5"
    with ShardWriter(tmp_path / "cut.h5") as writer:
        shard = H5Shard(path)
        for key, values in shard.columns.items():
            writer.write(key, values)
        for name, values in shard.segment_columns.items():
            writer.write(f"segments/{name}", values + (name == "start"))
        for name in ("source", "line"):
            writer.write(f"documents/{name}", shard.document_columns[name])
        writer.strings("documents/sources", shard.sources)
    path.write_bytes((tmp_path / "cut.h5").read_bytes())
    found = checked(folder, ragged([HI, HO]))
    assert found.total == Counts(2, 2, torn=2, rest_one=9, rest_other=9)
    assert {example.kind for example in found.examples} == {"torn"}


def test_weights_are_compared_where_both_have_them():
    one, other = [[0, 0, 1, 0.5]], [[0, 0, 1, 0.25]]
    found = checked(ragged([HI], weights=one), ragged([HI], weights=other))
    assert found.total == Counts(1, 1, other_weight=1, both=2, neither=2, weighted=1)
    assert found.examples[0].kind == "other_weight"
    assert stored(found.folders[1], found.examples[0].other, "sequence").weight.tolist() == [0, 0, 1, 0.25]
    assert checked(ragged([HI], weights=one), ragged([HI], weights=one)).same
    # What stands where nothing is trained weighs nothing.
    assert checked(ragged([HI], weights=one), ragged([HI], weights=[[9, 9, 1, 0.5]])).same
    found = checked(ragged([HI], weights=one), ragged([HI]))
    assert found.same
    assert [setting.name for setting in found.settings] == ["arrays"]


def pair(mask: list[int], rejected: list[int]) -> Path:
    folder = new()
    columns = {
        "chosen": np.array([1, 2, 3], np.int32), "offsets/chosen": [0, 3],
        "chosen_mask": np.array(mask, bool), "offsets/chosen_mask": [0, 3],
        "rejected": np.array(rejected, np.int32), "offsets/rejected": [0, len(rejected)],
        "rejected_mask": np.ones(len(rejected), bool), "offsets/rejected_mask": [0, len(rejected)],
        "prompt_length": np.array([1], np.int32),
    }  # fmt: skip
    write(folder / "chunk_0.h5", columns, [(0, 1)], SOURCES)
    return finish(folder, ["chunk_0.h5"], strategy={"type": "dpo", "id_keys": ["chosen", "rejected"]})


def test_both_answers_of_a_pair_are_compared():
    base = pair([0, 1, 1], [1, 5])
    assert checked(base, pair([0, 1, 1], [1, 5])).total == Counts(1, 1, equal=1, both=4, neither=1)
    found = checked(base, pair([0, 0, 1], [1, 5]))
    assert (found.total.other_mask, found.total.trained_one, found.examples[0].key) == (1, 1, "chosen")
    found = checked(base, pair([0, 0, 1], [1, 5, 6]))
    assert (found.total.shorter, found.total.other_mask) == (1, 0)  # the worse of the two
    assert (found.examples[0].key, found.examples[0].first) == ("rejected", 2)
    with pytest.raises(BadParameter, match=r"holds ids as chosen, rejected, .* as sequence; compare folders made by"):
        compare(base, ragged([HI]))


def test_without_a_mask_every_token_is_trained():
    folder = new()
    write(folder / "chunk_0.h5", {"sequence": np.array(HI[1], np.int32), "offsets/sequence": [0, 4]}, [HI[0]], SOURCES)
    found = checked(finish(folder, ["chunk_0.h5"]), ragged([HI]))
    assert found.total == Counts(1, 1, other_mask=1, both=2, trained_one=2)
    assert found.places["before"] == (2, 0)


def test_what_the_manifests_say_differently():
    told = {"id_keys": ["sequence"], "policy": {"answers": "all", "train_after_stop": False}}
    other = {**told, "policy": {"answers": "last", "train_after_stop": False}}
    found = compare(
        ragged([HI], strategy=told, seed=1, totals={"written": 4}, parents=["x", "y"], recipe={"max_length": None}),
        packed([HI], strategy=other, parents=["y"], recipe={"max_length": 9}),
    )
    assert {setting.name for setting in found.settings} == {
        "seq_len", "strategy.policy.answers", "seed", "recipe.max_length", "packing.algorithm", "parents"
    }  # fmt: skip
    assert Setting("strategy.policy.answers", "all", "last") in found.settings
    assert Setting("recipe.max_length", None, 9) in found.settings
    assert found.settings[-1] == Setting("parents", ["x"], [])
    json.dumps(asdict(found))


def test_another_tokenizer_is_refused():
    message = (
        r"^shards/compare: ids of two tokenizers mean different things: toy \(5\) and big \(77\); "
        r"build one of the two again with the other's tokenizer$"
    )
    with pytest.raises(BadParameter, match=message):
        compare(ragged([HI]), ragged([HI], tokenizer={"name": "big", "sha256": "77"}))


def test_what_cannot_be_compared_is_one_line(tmp_path):
    with pytest.raises(BadShard, match=r"no manifest\.json in .*; it is written last"):
        compare(ragged([HI]), tmp_path)
    with pytest.raises(BadParameter, match=r"limit must be 0 or more examples, got -1"):
        compare(tmp_path, tmp_path, limit=-1)
    with pytest.raises(BadShard, match=r"has no shard"):
        compare(finish(new(), []), ragged([HI]))
    folder = new()
    with ShardWriter(folder / "chunk_0.h5") as writer:
        writer.write("sequence", np.array([1], np.int32))
        writer.write("offsets/sequence", np.array([0, 1]))
    with pytest.raises(BadShard, match=r"does not say where row or piece 0 was read from"):
        compare(finish(folder, ["chunk_0.h5"]), ragged([HI]))
    folder = new()
    write(folder / "chunk_0.h5", {"sequence": np.array([1], np.int32), "offsets/sequence": [0, 1]}, [(9, 1)], SOURCES)
    with pytest.raises(BadShard, match=r"names a source or line there cannot be"):
        compare(finish(folder, ["chunk_0.h5"]), ragged([HI]))
    folder = new()
    columns = {"sequence": np.array([1], np.int32), "offsets/sequence": [0, 1], "loss_mask": [True, True]}
    write(folder / "chunk_0.h5", {**columns, "offsets/loss_mask": [0, 2]}, [(0, 1)], SOURCES)
    with pytest.raises(BadShard, match=r"loss_mask of .* has 2 values for 1 of sequence"):
        compare(finish(folder, ["chunk_0.h5"]), ragged([HI]))


def test_examples_are_drawn_and_every_kind_has_its_share():
    many = [((0, line), [line, 8, 9], [0, 0, 1]) for line in range(50)]
    changed = [train(document, 1) for document in many[:40]] + [(place, [0, 0], [0, 1]) for place, _, _ in many[40:49]]
    one, other = ragged(many), ragged(changed)
    found = checked(one, other, limit=5)
    assert [example.kind for example in found.examples] == [
        "other_mask", "other_ids", "only_one", "other_mask", "other_ids"
    ]  # fmt: skip
    assert checked(one, other, limit=5) == found
    assert checked(one, other, limit=5, seed=1).examples != found.examples
    assert len(checked(one, other, limit=100).examples) == 50
    nothing = checked(one, other, limit=0)
    assert (nothing.examples, nothing.tokens, nothing.total) == ((), (), found.total)


documents = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=9), st.sampled_from("=m-ic+"),
        st.integers(0, 8),
    ),
    max_size=12,
)  # fmt: skip


@given(documents, st.integers(1, 7), st.integers(1, 3), st.integers(1, 7), st.randoms())
@settings(max_examples=60, deadline=None)
def test_it_finds_what_plain_python_finds(rows, width, per_shard, block, random):
    one, other = [], []
    told = defaultdict(int)
    for line, (tokens, change, at) in enumerate(rows):
        ids, mask = [token for token, _ in tokens], [int(on) for _, on in tokens]
        at %= len(ids)
        theirs, on = list(ids), list(mask)
        if change == "m":
            on[at] = 1 - on[at]
        elif change == "i":
            theirs[at] += 1
        elif change == "c" and at:
            theirs, on = theirs[:at], on[:at]
        if change != "+":
            one.append(((0, line), ids, mask))
        if change != "-":
            other.append(((0, line), theirs, on))
        if change in "+-":
            told["only_one" if change == "-" else "only_other"] += 1
            continue
        same = next(
            (k for k, (a, b) in enumerate(zip(ids, theirs, strict=False)) if a != b), min(len(ids), len(theirs))
        )
        for a, b in zip(mask[:same], on[:same], strict=True):
            told["both" if a and b else "trained_one" if a else "trained_other" if b else "neither"] += 1
        kind = {"m": "other_mask", "i": "other_ids"}.get(change, "shorter" if len(theirs) < len(ids) else "equal")
        told[kind] += 1
    random.shuffle(other)
    before, module._BLOCK = module._BLOCK, block
    try:
        found = checked(ragged(one, per_shard=per_shard), packed(other, width, per_shard=per_shard))
    finally:
        module._BLOCK = before
    for name, value in asdict(Counts()).items():
        if name not in ("documents_one", "documents_other", "rest_one", "rest_other"):
            assert getattr(found.total, name) == told.get(name, value), name


def test_the_compiled_kernels_do_what_plain_python_does():
    ids, on = np.array([5, 6, 7, 8, 9], np.int32), np.array([0, 1, 1, 0, 1], bool)
    weight, pieces = np.array([0, 1, 2, 3, 0], np.float32), (np.array([1, 0]), np.array([0, 4]), np.array([3, 1]))
    sums = []
    for digest in (module._digest, module._digest.python):
        trained, prints = np.zeros(2, np.int64), np.zeros((3, 2), np.uint64)
        with np.errstate(over="ignore"):
            digest(ids, on, weight.view(np.uint32), *pieces, trained, prints)
        sums.append((trained.tolist(), prints.tolist()))
    assert sums[0] == sums[1]
    assert sums[0][0] == [2, 1]
    judged = []
    for judge in (module._judge, module._judge.python):
        first, counts, state = np.array([3, 2]), np.zeros((2, 5), np.int64), np.full(5, -1, np.int8)
        judge(ids, on, weight, np.array([5, 6, 0, 8, 9]), ~on, weight, True, np.array([3, 2]), first, state, counts)
        judged.append((first.tolist(), counts.tolist(), state.tolist()))
    assert judged[0] == judged[1] == ([2, 2], [[0, 1, 1, 0, 0], [0, 1, 1, 0, 0]], [2, 1, -1, 2, 1])
    copied = []
    for copy in (module._copy, module._copy.python):
        target = np.zeros(4, np.int64)
        copy(ids, np.array([3, 0]), np.array([2, 1]), target, np.array([1, 0]))
        copied.append(target.tolist())
    assert copied[0] == copied[1] == [5, 8, 9, 0]
