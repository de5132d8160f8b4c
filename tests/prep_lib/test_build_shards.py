"""Documents become rows of one length: the specification's mini pipeline, and the laws it does not tell."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import shared
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from killing import moments, spawn, wait_gone

from prep_lib.build import build_shards
from prep_lib.errors import BadParameter, BadShard
from prep_lib.shards.formats import FORMATS, document_counts, open_shard
from prep_lib.shards.manifest import read_manifest
from prep_lib.shards.shard import Shard
from prep_lib.shards.verify import verify
from prep_lib.tokens.tokenizer import AutoTokenizer

# ── the specification's mini pipeline, its own normalise and its own dedup ───────────────────────────────────────────

RAW = [
    "Hello world!\n\nThis is doc A.", "Hello world!\nThis is doc A.", "doc B about 机器学习。",
    "doc C about transformers and attention.", "doc D " * 40,
]  # fmt: skip


def normalize(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = "".join(letter for letter in text if letter == "\n" or letter >= " ")
    lines = [" ".join(line.split()) for line in text.split("\n")]
    return "\n".join(line for line in lines if line)


def exact_dedup(texts: list[str]) -> list[str]:
    first = {hashlib.sha256(text.encode()).hexdigest(): text for text in reversed(texts)}
    return [text for text in texts if first.pop(hashlib.sha256(text.encode()).hexdigest(), None) is not None]


def write(path: Path, texts: list[str], **more: str) -> Path:
    path.write_text("".join(json.dumps({"text": text, **more}, ensure_ascii=False) + "\n" for text in texts))
    return path


def shards(folder: Path) -> list[Shard]:
    return [open_shard(folder / entry["file"]) for entry in read_manifest(folder)["shards"]]


def rows(folder: Path) -> np.ndarray:
    return np.concatenate([np.asarray(shard.columns[shard.ids[0]]).astype(np.int64) for shard in shards(folder)])


def build(files: object, out: Path, tokenizer: AutoTokenizer, seq_len: int = 16, **given: object) -> Path:
    build_shards(files, out, tokenizer, seq_len, **{"engine": "inline", **given})  # type: ignore[arg-type]
    return out


@pytest.fixture(scope="module")
def tokenizer() -> AutoTokenizer:
    return AutoTokenizer().train([normalize(text) for text in RAW], 512, special_tokens=["<|endoftext|>"])


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_the_mini_pipeline_number_by_number(tmp_path: Path, kind: str) -> None:
    docs = exact_dedup(list(map(normalize, RAW)))
    assert len(docs) == 4
    tokenizer = AutoTokenizer().train(docs, vocab_size=512, min_frequency=0, special_tokens=["<|endoftext|>"])
    eos = tokenizer.eos_token_id
    stream = [id for text in docs for id in [*tokenizer.encode(text), eos]]
    assert len(stream) == 105
    assert stream.count(eos) == 4
    assert [eos, eos] not in [stream[at : at + 2] for at in range(len(stream))]
    folder = build(
        write(tmp_path / "docs.jsonl", docs), tmp_path / "data", tokenizer, packing="concat", tail="drop",
        shard_size=8, format=kind,
    )  # fmt: skip
    manifest = read_manifest(folder)
    (entry,) = manifest["shards"]
    assert (entry["sequences"], entry["tokens"], manifest["seq_len"]) == (6, 96, 16)
    assert manifest["dropped_remainder_tokens"] == 105 % 16 == 9
    assert rows(folder).tolist() == np.array(stream[:96]).reshape(6, 16).tolist()
    assert verify(folder) == []
    if kind == "bin":
        assert (entry["file"], entry["dtype"], entry["bytes"]) == ("shard-00000.bin", "uint16", 192)
        assert np.fromfile(folder / entry["file"], np.uint16).tolist() == stream[:96]


def test_the_tokenizer_of_the_mini_pipeline_is_the_libraries_own(tmp_path: Path) -> None:
    """As the specification trains it: only the order of its initial alphabet differs, which is a set there."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    docs = exact_dedup(list(map(normalize, RAW)))
    theirs = Tokenizer(models.BPE(unk_token=None))
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    theirs.train_from_iterator(
        docs, trainers.BpeTrainer(vocab_size=512, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet)
    )
    ours = AutoTokenizer().train(docs, 512, special_tokens=["<|endoftext|>"])
    assert [len(theirs.encode(text).ids) for text in docs] == [len(ours.encode(text)) for text in docs]
    assert theirs.get_vocab_size() == ours.size


# ── laws ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def documents_of(folder: Path) -> dict[str, list[int]]:
    """Every document put together again from its pieces, wherever they lie."""
    found: dict[str, dict[int, list[int]]] = {}
    for shard in shards(folder):
        for row in range(len(shard)):
            ids, at = shard.row(row)[shard.ids[0]].tolist(), 0
            segments = shard.segments(row)
            for start, length, document in zip(
                segments["start"].tolist(), segments["length"].tolist(), segments["document"].tolist(), strict=True
            ):
                found.setdefault(shard.document(document), {})[start] = ids[at : at + length]
                at += length
    return {name: [id for start in sorted(parts) for id in parts[start]] for name, parts in found.items()}


texts = st.lists(st.text(st.sampled_from("ab 猫\n<|>"), max_size=30), min_size=1, max_size=8)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts, st.integers(1, 20), st.sampled_from([("concat", "pad"), ("concat", "drop"), ("best_fit_split", "drop")]),
    st.integers(1, 4), st.sampled_from(sorted(FORMATS)),
)  # fmt: skip
def test_every_document_is_stored_whole_with_one_eos(
    tmp_path_factory: pytest.TempPathFactory, tokenizer: AutoTokenizer, found: list[str], seq_len: int,
    packing: tuple[str, str], shard_size: int, kind: str,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("law")
    write(folder / "a.jsonl", found)
    out = build(
        folder / "a.jsonl", folder / "out", tokenizer, seq_len, packing=packing[0], tail=packing[1],
        shard_size=shard_size, format=kind, max_failed=1.0,
    )  # fmt: skip
    eos = tokenizer.eos_token_id
    expected = {f"a.jsonl#L{at}": [*tokenizer.encode(text), eos] for at, text in enumerate(found, 1) if text}
    stored = documents_of(out)
    if packing == ("concat", "drop"):
        stream = [id for ids in expected.values() for id in ids]
        assert [id for ids in stored.values() for id in ids] == stream[: len(stream) // seq_len * seq_len]
    else:
        assert stored == expected
        assert read_manifest(out)["totals"]["written_eos"] == len(expected)
    assert verify(out) == []
    assert all(entry["sequences"] == shard_size for entry in read_manifest(out)["shards"][:-1])


def test_all_kinds_hold_the_same(tmp_path: Path, tokenizer: AutoTokenizer) -> None:
    write(tmp_path / "a.jsonl", [*RAW, *RAW], source="web", lang="en", id="x")
    write(tmp_path / "b.jsonl", RAW, language="zh")
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    made = {
        kind: build(files, tmp_path / kind, tokenizer, packing="best_fit_split", shard_size=7, format=kind)
        for kind in FORMATS
    }
    assert len({rows(folder).tobytes() for folder in made.values()}) == 1
    told = []
    for folder in made.values():
        assert verify(folder) == []
        one = []
        for shard in shards(folder):
            columns, groups, own = shard.document_columns, shard.groups, shard.record_ids
            one += [
                (shard.document(at), groups[columns["group"][at]], own[at], int(columns["tokens"][at]))
                for at in range(len(own))
            ]
        told.append(one)
        assert [column.tolist() for column in document_counts(folder)] == [
            column.tolist() for column in document_counts(made["h5"])
        ]
    assert told[0] == told[1] == told[-1]
    assert ("a.jsonl#L1", ("web", "en"), "x", len(tokenizer.encode(RAW[0])) + 1) in told[0]
    assert ("b.jsonl#L5", ("b", "zh"), None, len(tokenizer.encode(RAW[4])) + 1) in told[0]


def test_what_documents_cost_is_counted_by_source_and_language(tmp_path: Path, tokenizer: AutoTokenizer) -> None:
    write(tmp_path / "web_en.jsonl", ["the cat", "sat <|endoftext|> down"], lang="en")
    write(tmp_path / "b.jsonl", ["机器学习"], source="books")
    out = build([tmp_path / "web_en.jsonl", tmp_path / "b.jsonl"], tmp_path / "out", tokenizer, tail="pad")
    totals = read_manifest(out)["totals"]
    assert [(one["source"], one["language"], one["words"], one["characters"]) for one in totals["groups"]] == [
        ("books", None, 4, 4), ("web_en", "en", 5, 29),
    ]  # fmt: skip
    assert [one["literal_specials"] for one in totals["groups"]] == [0, 1]
    assert sum(one["tokens"] for one in totals["groups"]) + totals["documents"] == totals["written"]


def test_a_special_token_inside_a_document_stays_text(tmp_path: Path, tokenizer: AutoTokenizer) -> None:
    """A page that quotes the end token must not end a document, nor hide one: the census would tell."""
    out = build(write(tmp_path / "a.jsonl", ["a<|endoftext|>b"] * 5), tmp_path / "out", tokenizer, tail="pad")
    manifest = read_manifest(out)
    assert (manifest["totals"]["written_eos"], manifest["totals"]["literal_specials"]) == (5, 5)


def test_an_eos_inside_a_document_stops_the_build(
    tmp_path: Path, tokenizer: AutoTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no tokenizer of ours does, the census still looks for."""
    whole = AutoTokenizer.encode_many

    def spoiled(self: AutoTokenizer, found: list[str]) -> tuple[np.ndarray, np.ndarray]:
        ids, offsets = whole(self, found)
        ids[0] = 0
        return ids, offsets

    monkeypatch.setattr(AutoTokenizer, "encode_many", spoiled)
    with pytest.raises(BadShard, match="shards/write: 1 ends of documents and EOS do not stand together"):
        build(write(tmp_path / "a.jsonl", RAW), tmp_path / "out", tokenizer)
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize("packing", ["concat", "best_fit", "best_fit_split"])
@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_bytes_do_not_depend_on_workers(tmp_path: Path, tokenizer: AutoTokenizer, packing: str, kind: str) -> None:
    files = [write(tmp_path / f"{n}.jsonl", [f"{text} {n}" for text in RAW for _ in range(9)]) for n in range(3)]
    folders = [
        build(files, tmp_path / str(workers), tokenizer, packing=packing, shard_size=5, format=kind, engine=engine,
              workers=workers)
        for workers, engine in ((1, "inline"), (2, "processes"))
    ]  # fmt: skip
    one, other = ({path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} for folder in folders)
    assert one == other
    assert len(one) > 4


def test_a_smaller_build_of_another_kind_leaves_nothing_behind(tmp_path: Path, tokenizer: AutoTokenizer) -> None:
    write(tmp_path / "a.jsonl", RAW)
    out = tmp_path / "out"
    for kind, shard_size in (("bin", 1), ("bin", 99), ("h5", 2), ("npz", 2), ("bin", 2)):
        build(tmp_path / "a.jsonl", out, tokenizer, shard_size=shard_size, format=kind)
        told = {name for number in range(len(read_manifest(out)["shards"])) for name in FORMATS[kind].outputs(number)}
        beside = {"manifest.json", "ledger.json", "rejected.jsonl.zst"}
        assert {path.name for path in out.iterdir() if path.name != ".prep"} == told | beside
        assert verify(out) == []


def test_a_second_run_does_nothing(tmp_path: Path, tokenizer: AutoTokenizer, capsys: pytest.CaptureFixture) -> None:
    write(tmp_path / "a.jsonl", RAW)
    build(tmp_path / "a.jsonl", tmp_path / "out", tokenizer)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("shard*")}
    build(tmp_path / "a.jsonl", tmp_path / "out", tokenizer)
    assert "out was already done" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("shard*")} == before
    next((tmp_path / "out").glob("*.segments.npy")).unlink()
    build(tmp_path / "a.jsonl", tmp_path / "out", tokenizer)
    assert verify(tmp_path / "out") == []


@pytest.mark.parametrize("name", ["shard-00000.bin", "shard-00000.segments.npy", "rejected.jsonl.zst", "ledger.json"])
@pytest.mark.parametrize("harm", ["gone", "flipped", "flipped long ago"])
def test_what_verify_says_to_build_again_is_built_again(
    tmp_path: Path, tokenizer: AutoTokenizer, name: str, harm: str
) -> None:
    write(tmp_path / "a.jsonl", RAW)
    path = build(tmp_path / "a.jsonl", tmp_path / "out", tokenizer) / name
    before, times = path.read_bytes(), path.stat()
    path.unlink()
    if harm != "gone":
        path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    if harm == "flipped long ago":
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # only reading it tells
    build(tmp_path / "a.jsonl", tmp_path / "out", tokenizer, rehash=harm == "flipped long ago")
    assert path.read_bytes() == before
    assert verify(tmp_path / "out") == []


@pytest.mark.parametrize("content", ["", '{"text": ""}\n', '{"text": "ab"}\n'])
def test_next_to_nothing(tmp_path: Path, tokenizer: AutoTokenizer, content: str) -> None:
    (tmp_path / "a.jsonl").write_text(content)
    for kind in FORMATS:
        out = build(tmp_path / "a.jsonl", tmp_path / kind, tokenizer, format=kind)
        assert (rows(out).shape, verify(out)) == ((0, 16), [])
        padded = build(tmp_path / "a.jsonl", tmp_path / f"{kind}_pad", tokenizer, format=kind, tail="pad")
        assert (rows(padded).shape, verify(padded)) == ((1 if "ab" in content else 0, 16), [])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"format": "tar"}, "build: unknown format 'tar'; known: bin, h5"),
        ({"packing": "best"}, "unknown algorithm 'best'"),
        ({"seq_len": 0}, "build: seq_len must be a whole number from 1"),
        ({"shard_size": 0}, "build: shard_size must be a whole number at least 1"),
        ({"tail": "cut"}, "unknown tail 'cut'"),
    ],
)
def test_nonsense_is_refused_before_any_work(
    tmp_path: Path, tokenizer: AutoTokenizer, given: dict[str, object], message: str
) -> None:
    write(tmp_path / "a.jsonl", RAW)
    with pytest.raises(BadParameter, match=message):
        build(tmp_path / "a.jsonl", tmp_path / "out", tokenizer, **given)
    assert not (tmp_path / "out").exists()


def test_titles_are_no_sources(tmp_path: Path, tokenizer: AutoTokenizer) -> None:
    lines = [json.dumps({"text": "ab", "source": f"page {n}"}) for n in range(1001)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    with pytest.raises(BadParameter, match="records name more than 1,000 sources and languages under 'source'"):
        build(tmp_path / "a.jsonl", tmp_path / "out", tokenizer)
    out = build(tmp_path / "a.jsonl", tmp_path / "out", tokenizer, source_field="")
    assert [one["source"] for one in read_manifest(out)["totals"]["groups"]] == ["a"]


def test_bad_records_take_no_neighbour_with_them(tmp_path: Path, tokenizer: AutoTokenizer) -> None:
    lines = ['{"text": "ab"}', "{", '{"text": 3}', '{"text": "\\ud800"}', '{"no": 1}', '{"text": "ba"}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    ledger = build_shards(tmp_path / "a.jsonl", tmp_path / "out", tokenizer, 4, tail="pad", max_failed=1.0)
    assert ledger.total("process", "kept") == 2
    assert sorted(documents_of(tmp_path / "out")) == ["a.jsonl#L1", "a.jsonl#L6"]


def test_what_is_no_unicode_beside_the_text_fails_by_name(tmp_path: Path, tokenizer: AutoTokenizer) -> None:
    """Ids and sources are stored as UTF-8: half a surrogate pair in one of them must not stop the others."""
    lines = [f'{{"text": "ab", "{field}": "\\ud800"}}' for field in ("id", "source", "lang")]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, '{"text": "ab", "id": 17}']))
    ledger = build_shards(tmp_path / "a.jsonl", tmp_path / "out", tokenizer, 4, tail="pad", engine="inline")
    assert ledger.reasons("read", "failed") == {"lone_surrogate": 3}
    assert [shard.record_ids for shard in shards(tmp_path / "out")] == [["17"]]


def test_a_wide_vocabulary_is_stored_in_four_bytes(tmp_path: Path) -> None:
    """Decided by the largest id there is, not by the size: 65,536 ids are 0 to 65,535 and fit two bytes."""
    spec = json.loads((AutoTokenizer().train(["ab"], 300).save(tmp_path / "t") / "tokenizer.json").read_text())
    for id, dtype in ((65_535, "uint16"), (65_536, "uint32")):
        spec["added_tokens"] = [token for token in spec["added_tokens"] if token["content"] != "<far>"]
        spec["added_tokens"].append({**spec["added_tokens"][0], "id": id, "content": "<far>"})
        spec["model"]["vocab"] = {k: v for k, v in spec["model"]["vocab"].items() if k != "<far>"} | {"<far>": id}
        (tmp_path / "t" / "tokenizer.json").write_text(json.dumps(spec))
        out = build(write(tmp_path / "a.jsonl", RAW), tmp_path / dtype, AutoTokenizer(tmp_path / "t"))
        assert {entry["dtype"] for entry in read_manifest(out)["shards"]} == {dtype}


KILLED = """
import sys
from prep_lib.build import build_shards
from prep_lib.tokens.tokenizer import AutoTokenizer
folder, out, tokenizer = sys.argv[1:]
build_shards(folder, out, AutoTokenizer(tokenizer), 16, shard_size=40, packing="best_fit_split", workers=2)
"""


def test_killed_anywhere_and_run_again_equals_one_clean_run(tmp_path: Path, tokenizer: AutoTokenizer) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for n in range(4):
        write(folder / f"{n}.jsonl", [f"{text} {n} {at}" for at in range(60) for text in RAW])
    saved, out = tokenizer.save(tmp_path / "t"), tmp_path / "out"
    for pause in moments(3, seed=4, low=0.8, high=2.5):
        process, mark = spawn(KILLED, folder, out, saved)
        time.sleep(pause)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert wait_gone(mark) == []
    process, _ = spawn(KILLED, folder, out, saved)
    _, said = process.communicate()
    assert process.returncode == 0, said
    clean = build(folder, tmp_path / "clean", AutoTokenizer(saved), shard_size=40, packing="best_fit_split")
    one, other = ({path.name: path.read_bytes() for path in done.iterdir() if path.is_file()} for done in (out, clean))
    assert one == other


def test_the_mixture_of_twelve_sources(tmp_path: Path) -> None:
    """English, Chinese and code, from text to rows: the ledger balances, nothing is lost but the tail."""
    files = sorted(shared("mixture").iterdir())
    tokenizer = AutoTokenizer(shared("tokenizers") / "tiny_bytelevel_chatml.json")
    ledger = build_shards(files, tmp_path / "out", tokenizer, 2048, shard_size=512)
    manifest = read_manifest(tmp_path / "out")
    assert ledger.total("process", "kept") == manifest["totals"]["documents"] > 6000
    assert manifest["totals"]["written"] + manifest["dropped_remainder_tokens"] == (
        manifest["totals"]["content"] + manifest["totals"]["eos"]
    )
    assert verify(tmp_path / "out") == []
    assert len(manifest["totals"]["groups"]) >= 12


@pytest.mark.parametrize("name", ["ledger.json", "rejected.jsonl.zst"])
def test_what_tells_of_the_build_is_verified_too(tmp_path: Path, tokenizer: AutoTokenizer, name: str) -> None:
    path = build(write(tmp_path / "a.jsonl", RAW), tmp_path / "out", tokenizer) / name
    content = path.read_bytes()
    for harmed, what in ((content[:-1] + b"?", "its content has changed"), (content[:-1], "has"), (None, "is missing")):
        path.unlink()
        if harmed is not None:
            path.write_bytes(harmed)
        (finding,) = verify(tmp_path / "out")
        assert (finding.file, finding.what.startswith(what)) == (name, True)
        path.write_bytes(content)
    assert verify(tmp_path / "out") == []
