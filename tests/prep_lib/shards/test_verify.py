"""Whatever is wrong with a folder of shards is named, and nothing else is."""

import contextlib
import itertools
import json
import shutil
import tracemalloc

import numpy as np
import pytest
from toy_shards import FIRST, MASK, PACKED, PACKS, SEQUENCE, build, store, write_shard

from prep_lib.errors import BadShard, PrepError
from prep_lib.shards.formats import FORMATS
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


# ── documents, in every kind of file ─────────────────────────────────────────────────────────────────────────────────

EOS = 9
#: A and C are web, B is code and cut between two packs; each ends in an EOS.   A A E B B B │ B E C C E ·
ENDING = {0: (0, [1, 2, EOS]), 1: (1, [4, 5, 6, 7, EOS]), 2: (0, [8, 2, EOS])}
TOTALS = {
    "documents": 3, "content": 8, "control": 0, "eos": 3, "written": 11, "cut": 0, "remainder": 0, "padding": 1,
    "written_eos": 3, "groups": [
        {"source": source, "language": None, "documents": count, "bytes": 9, "characters": 9, "words": 3, "tokens": 4,
         "literal_specials": 0} for source, count in (("web", 2), ("code", 1))
    ],
}  # fmt: skip


def documents(folder, packs=PACKS, ending=ENDING, **told):
    told = {"totals": TOTALS, "tokenizer": {"name": "toy", "max_id": 9, "eos_id": EOS}} | told
    return store(folder, packs, ending, **told)


def errors(folder):
    return [(file, what) for file, what, severity in found(folder) if severity == "error"]


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_a_good_folder_of_documents_has_no_findings(tmp_path, kind):
    assert verify(documents(tmp_path / "a", kind=kind)) == []
    assert verify(documents(tmp_path / "b", kind=kind, rows=2)) == []


def files():
    for kind, form in sorted(FORMATS.items()):
        for name in form.outputs(1):
            yield pytest.param(kind, name, id=name)


@pytest.mark.parametrize(("kind", "name"), list(files()))
def test_a_flipped_byte_a_cut_and_a_missing_file_are_named_whatever_file_it_is(tmp_path, kind, name):
    """mosaicml/streaming#759: a broken shard stops a training hours later."""
    path = documents(tmp_path, kind=kind) / name
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert errors(tmp_path)[0] == (name, "its content has changed: sha256 differs from the manifest")
    path.write_bytes(whole[:-1])
    assert errors(tmp_path) == [(name, f"has {len(whole) - 1:,} bytes, the manifest says {len(whole):,}")]
    path.unlink()
    assert errors(tmp_path) == [(name, "is missing")]
    path.write_bytes(whole)
    assert verify(tmp_path) == []


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_any_damage_is_found_and_never_raises(tmp_path, kind):
    documents(tmp_path, kind=kind)
    random = np.random.default_rng(0)
    for name in FORMATS[kind].outputs(0):
        path = tmp_path / name
        whole = path.read_bytes()
        for at in random.choice(len(whole), min(40, len(whole)), replace=False):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << random.integers(8)]) + whole[at + 1 :])
            assert any(file == name for file, _ in errors(tmp_path)), (name, at)
        path.write_bytes(whole)
    assert verify(tmp_path) == []


def test_a_shard_or_side_file_that_the_manifest_does_not_name_is_an_error_and_a_note_is_not(tmp_path):
    documents(tmp_path)
    for name in ("shard-00002.bin", "shard-00002.segments.npy", "x.npz", "notes.txt"):
        (tmp_path / name).touch()
    what = "is in the folder but not in the manifest"
    assert sorted(found(tmp_path)) == [
        ("notes.txt", what, "warning"),
        *((name, what, "error") for name in ("shard-00002.bin", "shard-00002.segments.npy", "x.npz")),
    ]


def at(column, place, value):
    """A change of one entry in a column of segments or documents."""

    def change(ids, columns):
        values = columns[column].copy()
        values[place] = value
        return ids, columns | {column: values}

    return change


@pytest.mark.parametrize("kind", sorted(FORMATS))
@pytest.mark.parametrize(
    ("change", "what"),
    [
        (at("segments/start", 0, -1), "segment 0 does not lie in its document a.jsonl#L1"),
        (at("segments/start", 0, 2), "segment 0 does not lie in its document a.jsonl#L1"),
        (at("documents/tokens", 0, 2), "segment 0 does not lie in its document a.jsonl#L1"),
        (at("segments/length", 1, 0), "segment 1 has no token"),
        (at("segments/length", 1, 9), "segments of row 0 are longer than its 6 places"),
        (at("segments/document", 0, 5), "a segment names a document that is not among the 3 listed"),
        (at("segments/row", 3, 0), "segments do not go through the rows in order"),
        (at("documents/line", 0, 2), "a.jsonl#L2 is stored 2 times"),
        (at("documents/tokens", 0, 4), "row 0: an EOS stands inside a.jsonl#L1, id 9 (1 such places)"),
    ],
)
def test_segments_and_documents_that_do_not_fit_are_named(tmp_path, kind, change, what):
    documents(tmp_path, kind=kind, rows=2, change=change)
    assert what in [line for _, line in errors(tmp_path)]


@pytest.mark.parametrize("kind", sorted(FORMATS))
@pytest.mark.parametrize(
    ("place", "value", "what"),
    [
        ((0, 1), EOS, "row 0: an EOS stands inside a.jsonl#L1, id 9 (1 such places)"),
        ((0, 2), 3, "row 0: a.jsonl#L1 ends without EOS, id 9 (1 such places)"),
        ((1, 0), EOS, "row 1: an EOS stands inside a.jsonl#L2, id 9 (1 such places)"),
        ((1, 1), 3, "row 1: a.jsonl#L2 ends without EOS, id 9 (1 such places)"),
        ((0, 1), 10, "sequence holds id 10, allowed are 0 to 9"),
    ],
)
def test_an_eos_out_of_place_and_an_id_too_large_are_named(tmp_path, kind, place, value, what):
    def change(ids, columns):
        ids[place] = value
        return ids, columns

    documents(tmp_path, kind=kind, rows=2, change=change)
    assert what in [line for _, line in errors(tmp_path)]


def test_padding_with_the_id_of_the_eos_is_no_eos(tmp_path):
    def change(ids, columns):
        ids[1, 5] = EOS
        return ids, columns

    assert verify(documents(tmp_path, rows=2, change=change)) == []


@pytest.mark.parametrize(
    ("packs", "what"),
    [
        ([PACKS[0], PACKS[1], [(0, 0, 3)]], "a.jsonl#L1 is stored 2 times"),
        (
            [PACKS[0], [(1, 2, 3), (2, 0, 3)]],
            "the pieces of a.jsonl#L2 do not lie side by side: one begins at its token 2",
        ),
        (
            [PACKS[0], [(1, 4, 1), (2, 0, 3)]],
            "the pieces of a.jsonl#L2 do not lie side by side: one begins at its token 4",
        ),
        ([PACKS[0], [(2, 0, 3)]], "says 0 tokens were left over, but 2 are missing in its documents"),
        ([[(0, 0, 3)], [(2, 0, 3)]], "says 3 documents were written, its shards hold 2"),
    ],
)
def test_documents_are_there_once_and_whole_over_all_shards(tmp_path, packs, what):
    documents(tmp_path, packs)
    assert ("manifest.json", what) in errors(tmp_path)


def test_what_was_dropped_with_the_last_pack_may_be_missing(tmp_path):
    totals = TOTALS | {"written": 8, "written_eos": 2, "remainder": 3, "padding": 4}
    documents(tmp_path / "a", [PACKS[0], [(1, 3, 2)]], totals=totals, dropped=3)
    assert verify(tmp_path / "a") == []
    totals = TOTALS | {"written": 10, "written_eos": 2, "remainder": 1, "padding": 2}
    documents(tmp_path / "b", [PACKS[0], [(1, 3, 2), (2, 0, 2)]], totals=totals, dropped=1)
    assert verify(tmp_path / "b") == []


@pytest.mark.parametrize(
    ("totals", "what"),
    [
        ({"written": 12}, "says 12 tokens written, its shards sum to 11"),
        ({"padding": 2}, "says 2 tokens of padding, its shards sum to 1"),
        ({"written_eos": 4}, "says 4 EOS were written, its shards hold 3"),
        ({"documents": 4}, "says 4 documents were kept, its groups sum to 3"),
        ({"remainder": 1}, "says 9 tokens of text were kept, its groups sum to 8"),
    ],
)
def test_totals_that_say_something_else_are_named(tmp_path, totals, what):
    documents(tmp_path, totals=TOTALS | totals)
    assert ("manifest.json", what) in errors(tmp_path)


def test_the_sources_of_a_shard_are_counted_again(tmp_path):
    file = documents(tmp_path) / "manifest.json"
    stored = json.loads(file.read_bytes())
    stored["shards"][1]["sources"] = {"a.jsonl": 4, "b.jsonl": 1}
    file.write_text(json.dumps(stored))
    assert errors(tmp_path) == [("shard-00001.bin", "holds 5 tokens of a.jsonl, the manifest says 4")]


@pytest.mark.parametrize("packing", ["concat", "best_fit", "best_fit_split"])
@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_a_real_build_is_as_its_manifest_says(tmp_path, kind, packing):
    from prep_lib import AutoTokenizer, build_shards

    texts = [f"line {n} " * (n % 40 + 1) for n in range(60)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    tokenizer = AutoTokenizer().train(texts, vocab_size=300)
    build_shards(
        tmp_path / "a.jsonl",
        tmp_path / "out",
        tokenizer,
        64,
        packing=packing,
        shard_size=10,
        format=kind,
        engine="inline",
    )
    assert verify(tmp_path / "out") == []
    assert json.loads((tmp_path / "out/manifest.json").read_bytes())["tokenizer"]["eos_id"] == tokenizer.eos_token_id


def places(value, at=()):
    """The way to every value inside a JSON value."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*at, key)
        yield from places(value[key], (*at, key))


#: In the place of any value of a manifest; GONE takes it out.
GONE = "gone"
OTHERS = (None, True, -1, 0, 1, 3.5, float("nan"), 10**30, 2**53 - 1, "", "x", "../x", "\ud800", [], [[]], {}, GONE)


@pytest.mark.parametrize(("kind", "others"), [("bin", OTHERS), ("h5", OTHERS[::4]), ("npz", OTHERS[1::4])])
def test_a_manifest_may_say_anything_in_any_one_place_without_a_traceback(tmp_path, kind, others):
    from prep_lib import TokenDataset
    from prep_lib.trace import decisions, trace

    folder = documents(tmp_path / kind, kind=kind, rows=2)
    file = folder / "manifest.json"
    good = file.read_text()
    refused = 0
    for (*way, last), other in itertools.product(places(json.loads(good)), others):
        stored = at = json.loads(good)
        for step in way:
            at = at[step]
        if other == GONE:
            del at[last]
        else:
            at[last] = other
        file.write_text(json.dumps(stored))
        told = verify(folder)
        unread = [one for one in told if one.what.startswith("shards/manifest: ")]
        refused += bool(unread)
        assert not any("Error" in one.what for one in told), (way, last, other, told)
        for use in (
            lambda: trace(folder, 0, 0, 1),
            lambda: decisions(folder, "a.jsonl#L2"),
            lambda: TokenDataset(folder),
        ):
            # Where verify can read the manifest, so can the others; what they find may not fit it.
            with contextlib.suppress(PrepError) if not unread else pytest.raises(BadShard, match="shards/manifest: "):
                use()
    assert refused > 30 * len(others)


def test_what_nobody_thought_of_is_a_finding(tmp_path, monkeypatch):
    def fail(*_):
        raise KeyError("x")

    folder = documents(tmp_path)
    monkeypatch.setattr("prep_lib.shards.verify._check_apart", fail)
    assert errors(folder) == [("manifest.json", "cannot be compared with its shards (KeyError: 'x'); build it again")]


def test_totals_may_lack_a_number(tmp_path):
    documents(tmp_path, totals={name: value for name, value in TOTALS.items() if name != "documents"})
    assert errors(tmp_path) == [("manifest.json", "says 11 tokens of text were kept, its groups sum to 8")]


def test_ids_are_looked_at_in_blocks(tmp_path, monkeypatch):
    """The peak does not grow with the rows."""
    width, peaks = 4096, []
    monkeypatch.setattr("prep_lib.shards.verify._BLOCK", 2**12)
    # Two shards looked at at once hold two buffers, or one, as chance has it.
    monkeypatch.setattr("prep_lib.shards.verify._THREADS", 1)
    for count in (20, 100, 500):  # the first warms up
        ending = {n: (0, [n % 9] * (width - 1) + [EOS]) for n in range(count)}
        totals = {"documents": count, "written": count * width, "padding": 0, "written_eos": count}
        documents(
            tmp_path / f"{count}", [[(n, 0, width)] for n in range(count)], ending, width=width, rows=20, totals=totals
        )
        tracemalloc.start()
        try:
            assert verify(tmp_path / f"{count}") == []
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    # 3.2 MB of ids more; what is known of 400 documents and 20 shards may be more.
    assert peaks[2] < peaks[1] + 500_000, peaks
