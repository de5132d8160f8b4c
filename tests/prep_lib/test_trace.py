"""Every stored token leads back to its record, every document forward to where it is read, every loss to its reason."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prep_lib.build import build_shards, cache_jsonl
from prep_lib.chat.process import ProcessorFactory
from prep_lib.cli import main
from prep_lib.errors import BadInput, BadParameter, BadShard
from prep_lib.feed.dataset import PreProcessedDataset, TokenDataset
from prep_lib.feed.loader import create_dataloader
from prep_lib.shards.formats import open_shard
from prep_lib.shards.manifest import read_manifest
from prep_lib.shards.verify import verify
from prep_lib.shuffle.order import ShardOrder
from prep_lib.source.export import export_dataset
from prep_lib.tokens.tokenizer import AutoTokenizer
from prep_lib.trace import Place, decisions, own_tokenizer, split_id, step_of, trace, where

KINDS = [("bin", "concat"), ("h5", "best_fit"), ("npz", "best_fit_split"), ("h5", "concat"), ("bin", "best_fit")]
#: Longer than a row; empty; with a control token spelled in it.
TEXTS = [
    "你好，世界。" * 14,
    "",
    "a <|endoftext|> inside",
    *(f"Document {n} says hello. " * (1 + n % 4) for n in range(20)),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """runs/one of a workspace: exported rows, then packed with two more files, by every kind of shard."""
    root = tmp_path_factory.mktemp("workspace")
    docs = [
        {"id": f"d{n}", "text": text, "source": ["web", "code"][n % 2], "lang": "en"} for n, text in enumerate(TEXTS)
    ]
    raw = root / "raw.jsonl"
    raw.write_text("".join(json.dumps(doc) + "\n" for doc in docs) + "{cut\n", "utf-8")
    (root / "more").mkdir()
    (root / "more" / "b.jsonl").write_text('{"text": "one more"}\n{"text": "and \\u202e another"}\n' * 3, "utf-8")
    table = pa.table({"text": [f"row {n} of a table" for n in range(7)], "id": [f"p{n}" for n in range(7)]})
    pq.write_table(table, root / "more" / "c.parquet", row_group_size=3)
    folder = root / "runs" / "one"
    export_dataset(str(raw), folder / "data" / "20_export", "pt", max_failed=0.5)
    tokenizer = AutoTokenizer().train(TEXTS, vocab_size=400)
    tokenizer.save(folder / "tokenizer")
    files = [folder / "data" / "20_export" / "pt_chunk_0.jsonl", root / "more" / "b.jsonl", root / "more" / "c.parquet"]
    for kind, packing in KINDS:
        build_shards(
            files, folder / "data" / f"15_{kind}_{packing}", tokenizer, 40, format=kind, packing=packing, shard_size=4,
            engine="inline", max_failed=0.5,
        )  # fmt: skip
    (folder / "recipe.yaml").write_text("notebooks:\n- 15_pack:\n    files: 'more/*.jsonl more'\n    seq_len: 40\n")
    return folder


@pytest.fixture(scope="module")
def tokenizer(run: Path) -> AutoTokenizer:
    return AutoTokenizer.load(run / "tokenizer")


@pytest.fixture(params=KINDS, ids="-".join)
def folder(request: pytest.FixtureRequest, run: Path) -> Path:
    return run / "data" / "15_{}_{}".format(*request.param)


def shards(folder: Path) -> list[tuple[int, str]]:
    return list(enumerate(entry["file"] for entry in read_manifest(folder)["shards"]))


# --------------------------------------------------------------------------------------------------------------- back


def test_every_token_is_the_nth_of_its_record(folder: Path, tokenizer: AutoTokenizer) -> None:
    padding = 0
    for number, name in shards(folder):
        shard = open_shard(folder / name)
        for row in range(len(shard)):
            ids = shard.row(row)[shard.ids[0]]
            # A few of each row: all of them take a minute.
            for position in {0, 7, 18, 29, len(ids) - 1}:
                found = trace(folder, number, row, position, tokenizer=tokenizer)
                assert (found.file, found.row, found.position, found.token) == (name, row, position, int(ids[position]))
                assert found.text == tokenizer.decode([ids[position]])
                if found.piece is None:
                    padding += 1
                    continue
                assert found.record is not None
                whole = [*tokenizer.encode(found.record["text"]), tokenizer.eos_token_id]
                assert found.nth is not None
                assert whole[found.nth - 1] == found.token
                assert len(whole) == found.piece.tokens
                assert found.piece.record_id == found.record.get("id")
    assert (padding > 0) == ("best_fit" in folder.name)


def test_the_pieces_of_a_row_fill_it(folder: Path) -> None:
    for number, name in shards(folder):
        for row in range(len(open_shard(folder / name))):
            pieces = trace(folder, number, row).pieces
            assert [piece.at for piece in pieces] == np.cumsum([0, *(piece.length for piece in pieces[:-1])]).tolist()
            assert sum(piece.length for piece in pieces) <= 40


def test_each_stage_is_named_with_what_it_did(run: Path) -> None:
    found = trace(run / "data" / "15_bin_concat", 0, 0, 5)
    told = [(one.folder, one.stage, one.flow) for one in found.decisions]
    assert told == [
        ("20_export", "export", "kept"), ("15_bin_concat", "read", "kept"), ("15_bin_concat", "process", "kept"),
        ("15_bin_concat", "pack", "kept"),
    ]  # fmt: skip
    assert found.decisions[-1].detail == "concat, piece 1 of 1 of the row, cut: 40 of its 57 tokens stand here"
    assert found.piece is not None
    assert (found.piece.source, found.piece.language, found.piece.record_id) == ("web", "en", "d0")
    # A file that the recipe names comes from no folder of the run.
    place = where(run / "data" / "15_bin_concat", "b.jsonl#L2")[0]
    found = trace(run / "data" / "15_bin_concat", place.shard, place.row, place.at)
    assert [one.stage for one in found.decisions] == ["read", "process", "pack"]
    assert found.record == {"text": "and \u202e another"}


def test_it_prints_what_a_terminal_may_show(run: Path, tokenizer: AutoTokenizer) -> None:
    folder = run / "data" / "15_bin_concat"
    place = where(folder, "b.jsonl#L2")[0]
    spelled = str(trace(folder, place.shard, place.row, place.at, tokenizer=tokenizer))
    assert "\u202e" not in spelled
    assert r"and \u202e another" in spelled
    assert "token 1 of" in spelled
    assert "b.jsonl#L2 (source b)" in spelled
    assert str(trace(folder, 0, 0)).splitlines() == [
        "shard-00000.bin, row 0: 1 pieces",
        "  from 0  pt_chunk_0.jsonl#L1: tokens 1 to 40 of 57",
    ]


def test_padding_belongs_to_no_document(run: Path) -> None:
    folder = run / "data" / "15_bin_best_fit"
    row = next(row for row in range(4) if sum(piece.length for piece in trace(folder, 0, row).pieces) < 40)
    found = trace(folder, 0, row, 39)
    assert (found.piece, found.nth, found.decisions, found.record) == (None, None, (), None)
    assert "padding: it belongs to no document" in str(found)


def test_an_input_that_changed_is_not_taken_for_the_old_one(tmp_path: Path, tokenizer: AutoTokenizer) -> None:
    source = tmp_path / "in" / "a.jsonl"
    source.parent.mkdir()
    source.write_text('{"text": "hello hello hello"}\n' * 9)
    build_shards(source, tmp_path / "out", tokenizer, 8, engine="inline")
    assert trace(tmp_path / "out", 0, 0, 0).record is None  # nobody says where it is
    assert trace(tmp_path / "out", 0, 0, 0, inputs=source.parent).record == {"text": "hello hello hello"}
    assert trace(tmp_path / "out", 0, 0, 0, inputs=[source]).record_file == str(source.resolve())
    source.write_text('{"text": "goodbye goodbye"}\n' * 9)
    assert trace(tmp_path / "out", 0, 0, 0, inputs=source).record is None


def test_rows_of_chats_packed_or_not(tmp_path: Path, tokenizer: AutoTokenizer) -> None:
    source = tmp_path / "chat.jsonl"
    source.write_text("".join(json.dumps({"query": f"q{n}", "response": f"answer {n}"}) + "\n" for n in range(9)))
    processor = ProcessorFactory.create_with_strategy_name("sft", tokenizer, "chatml", allow_multi_token=True)
    for size in (0, 200):
        out = tmp_path / str(size)
        cache_jsonl([source], out, processor, pack_size=size, engine="inline")
        places = where(out, "chat.jsonl#L4")
        assert len(places) == 1
        found = trace(out, 0, places[0].row, places[0].at, inputs=source)
        assert found.record == {"query": "q3", "response": "answer 3"}
        assert found.decisions[-1].detail.startswith("best_fit, piece" if size else "not packed: a row of its own")


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ((99, 0), "has no shard 99; it has"),
        ((-1, 0), "has no shard -1"),
        ((0, 4), "shard-00000.bin has no row 4; it has 4"),
        ((0, -1), "has no row -1"),
        ((0, 0, 40), "row 0 of shard-00000.bin has 40 tokens; there is no 40"),
        ((0, 0, -1), "there is no -1"),
    ],
)
def test_what_is_not_there_is_told(asked: tuple[int, ...], sentence: str, run: Path) -> None:
    with pytest.raises(BadParameter, match=sentence):
        trace(run / "data" / "15_bin_concat", *asked)


def test_a_folder_without_manifest_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadShard, match=r"no manifest.json"):
        trace(tmp_path, 0, 0)


# ------------------------------------------------------------------------------------------------------------ forward


def test_where_is_the_inverse_of_trace(folder: Path) -> None:
    places: dict[str, set[tuple[int, int, int, int, int]]] = {}
    for number, name in shards(folder):
        for row in range(len(open_shard(folder / name))):
            for piece in trace(folder, number, row).pieces:
                told = (number, row, piece.at, piece.start, piece.length)
                places.setdefault(piece.document, set()).add(told)
                places.setdefault(piece.record_id or piece.document, set()).add(told)
    assert len(places) > 40
    for document, expected in places.items():
        found = where(folder, document)
        assert {(one.shard, one.row, one.at, one.start, one.length) for one in found} == expected
        assert [one.start for one in found] == sorted(one.start for one in found)
        assert all(one.number == one.shard * 4 + one.row for one in found)
        assert all(one.file == dict(shards(folder))[one.shard] for one in found)


def test_a_cut_document_is_whole_over_its_places(run: Path) -> None:
    for name in ("15_bin_concat", "15_npz_best_fit_split"):
        places = where(run / "data" / name, "d0")
        assert [(place.start, place.length) for place in places] == [(0, 40), (40, 17)]


def test_what_was_rejected_says_by_which_stage_and_why(run: Path) -> None:
    folder = run / "data" / "15_bin_concat"
    for document in ("pt_chunk_0.jsonl#L2", "d1"):
        assert where(folder, document) == []
        told = [(one.folder, one.stage, one.flow, one.reason) for one in decisions(folder, document)][-2:]
        assert told == [("15_bin_concat", "read", "kept", ""), ("15_bin_concat", "process", "dropped", "empty")]
    # The first stage of the run turned this line down, so it never came here.
    told = [(one.folder, one.stage, one.flow, one.reason) for one in decisions(folder, f"raw.jsonl#L{len(TEXTS) + 1}")]
    assert told == [("20_export", "export", "failed", "bad_json")]
    told = [(one.stage, one.flow, one.reason) for one in decisions(run / "data" / "15_bin_best_fit", "d0")]
    assert told[-1][1:] == ("dropped", "too_long")


def test_the_end_of_a_stream_that_fills_no_row_is_accounted_for(run: Path, tokenizer: AutoTokenizer) -> None:
    folder = run / "data" / "15_bin_concat"
    left, lost = read_manifest(folder)["dropped_remainder_tokens"], 0
    for number in range(7):
        stored = sum(place.length for place in where(folder, f"p{number}"))
        missing = len(tokenizer.encode(f"row {number} of a table")) + 1 - stored
        told = decisions(folder, f"c.parquet[{number}]")[-1]
        assert (told.flow == "remainder") == (missing > 0)
        if missing:
            which = f"{missing} of its tokens are" if stored else "its tokens are"
            assert told.detail == f"{which} among the {left} of the last, unfilled row"
        lost += missing
    assert 0 < lost == left


def test_a_sample_says_that_it_is_one(tmp_path: Path, tokenizer: AutoTokenizer) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text('{"text": "hello"}\n' * 200)
    build_shards(source, tmp_path / "out", tokenizer, 8, engine="inline", sample=20)
    left_out = next(n for n in range(1, 200) if not where(tmp_path / "out", f"a.jsonl#L{n}"))
    assert decisions(tmp_path / "out", f"a.jsonl#L{left_out}")[-1].reason == "not_in_the_sample"


@pytest.mark.parametrize(
    "document", ["nobody", "pt_chunk_0.jsonl#L999", "other.jsonl#L1", "c.parquet[7]", "b.jsonl#L0"]
)
def test_a_document_nobody_knows_is_told(document: str, run: Path) -> None:
    with pytest.raises(BadInput, match=r"nobody knows .*an id looks like pt_chunk_0.jsonl#L12"):
        decisions(run / "data" / "15_h5_concat", document)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("a/b.jsonl#L3", ("a/b.jsonl", 3)), ("x#L1#L2", ("x#L1", 2)), ("b.parquet[0]", ("b.parquet", 0)),
        ("b.jsonl[0]", None), ("d4", None), ("", None),
    ],
)  # fmt: skip
def test_ids_are_split(document: str, expected: tuple[str, int] | None) -> None:
    assert split_id(document) == expected


# -------------------------------------------------------------------------------------------------------------- steps


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("kind", ["15_bin_concat", "15_npz_best_fit_split"])
def test_the_step_is_the_one_that_reads_the_row(kind: str, drop_last: bool, world_size: int, run: Path) -> None:
    folder = run / "data" / kind
    dataset = PreProcessedDataset(folder) if "npz" in kind else TokenDataset(folder)
    every = np.concatenate([open_shard(folder / name).columns["sequence"] for _, name in shards(folder)])
    for epoch in (0, 1):
        read: dict[tuple[int, int, int], list[int]] = {}
        for rank in range(world_size):
            loader = create_dataloader(
                dataset, 2, seed=7, rank=rank, world_size=world_size, drop_last=drop_last, shuffle=True,
                start=epoch * len(dataset),
            )  # fmt: skip
            for step, batch in enumerate(loader):
                for number, ids in enumerate(batch["input_ids"].tolist()):
                    read[step, rank, number] = ids
        told = step_of(loader, range(len(dataset)), epoch)
        kept = [step for step in told if step is not None]
        assert len(kept) == len(dataset) - (len(dataset) % (2 * world_size) if drop_last else 0)
        assert len({(step.step, step.rank, step.number) for step in kept}) == len(kept)
        for step in kept:
            assert step.epoch == epoch
            assert read[step.step, step.rank, step.number] == every[step.row].tolist()


def test_rows_that_an_epoch_numbers_anew_need_its_order(run: Path) -> None:
    dataset = PreProcessedDataset(run / "data" / "15_npz_best_fit_split")
    dataset.set_epoch(2)
    loader = create_dataloader(dataset, 3, shuffle=False)
    batches = [batch["input_ids"].tolist() for batch in loader]
    stored = np.concatenate([open_shard(dataset_file).columns["sequence"] for dataset_file in files(run)])
    for step in step_of(loader, range(len(dataset)), order=ShardOrder(dataset.sizes, 42, 2)):
        assert step is not None
        assert batches[step.step][step.number] == stored[step.row].tolist()


def files(run: Path) -> list[Path]:
    folder = run / "data" / "15_npz_best_fit_split"
    return [folder / name for _, name in shards(folder)]


# ------------------------------------------------------------------------------------------------------------ command


def test_the_command_goes_back(run: Path, capsys: pytest.CaptureFixture[str], tokenizer: AutoTokenizer) -> None:
    folder = str(run / "data" / "15_bin_concat")
    assert main(["trace", folder, "--shard", "0", "--row", "0", "--position", "3"]) == 0
    said = capsys.readouterr().out
    expected = tokenizer.encode(TEXTS[0])[3]
    assert f"shard-00000.bin, row 0, position 3: id {expected} {tokenizer.decode([expected])!r}" in said
    assert "token 4 of 57 of pt_chunk_0.jsonl#L1 (record d0, source web, language en)" in said
    assert "20_export  export  kept" in said
    assert '{"id": "d0", "text": "你好，世界。' in said
    assert main(["trace", folder, "--shard", "0", "--row", "1"]) == 0
    assert "from 0  pt_chunk_0.jsonl#L1: tokens 41 to 57 of 57" in capsys.readouterr().out
    assert main(["trace", folder, "--shard", "0", "--row", "99"]) == 2
    assert main(["trace", folder, "--row", "1"]) == 2
    assert "say --shard and --row, or --document" in capsys.readouterr().err


def test_the_command_goes_forward(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run / "data" / "15_bin_concat"
    asked = ["trace", "--document", "d0", "--batch-size", "2", "--world-size", "2", "--epoch", "1", "--seed", "5"]
    assert main([*asked, str(folder)]) == 0
    said = capsys.readouterr().out.splitlines()
    loader = create_dataloader(TokenDataset(folder), 2, seed=5, world_size=2)
    first, second = step_of(loader, [0, 1], epoch=1)
    assert said[-2:] == [
        f"shard-00000.bin, row 0 from 0: tokens 1 to 40; {first}",
        f"shard-00000.bin, row 1 from 0: tokens 41 to 57; {second}",
    ]
    assert main(["trace", str(folder), "--document", "d1", "--batch-size", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "15_bin_concat  process  dropped  empty"
    assert main(["trace", str(folder), "--document", "nobody"]) == 1


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--batch-size", "0"], "--batch-size must be 1 or more, got 0"),
        (["--batch-size", "2", "--epoch", "-1"], "--epoch must be 0 or more, got -1"),
        (["--batch-size", "2", "--seed", "-1"], "--seed must be 0 or more, got -1"),
        (["--batch-size", "2", "--world-size", "0"], "--world-size must be 1 or more, got 0"),
    ],
)
def test_a_loader_that_cannot_be_is_refused_before_anything_is_said(
    option: list[str], said: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", str(run / "data" / "15_bin_concat"), "--document", "d0", *option]) == 2
    assert capsys.readouterr() == ("", f"prep trace: {said}\n")


def test_the_command_names_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(tmp_path / "nope"), "--document", "d0"]) == 1
    assert capsys.readouterr() == ("", f"prep trace: shards/manifest: there is no folder {tmp_path / 'nope'}\n")


def test_the_tokenizer_of_a_run_is_used_if_it_is_the_same(run: Path, tmp_path: Path, tokenizer: AutoTokenizer) -> None:
    assert own_tokenizer(run / "data" / "15_bin_concat") is not None
    source = tmp_path / "a.jsonl"
    source.write_text('{"text": "hello"}\n' * 20)
    other = AutoTokenizer().train(["hello hello"], vocab_size=280)
    build_shards(source, run / "data" / "15_other", other, 8, engine="inline")
    assert own_tokenizer(run / "data" / "15_other") is None
    build_shards(source, tmp_path / "out", tokenizer, 8, engine="inline")
    assert own_tokenizer(tmp_path / "out") is None


def test_a_place_is_told_in_words() -> None:
    assert str(Place(1, "shard-00001.bin", 2, 5, 10, 30, 9)) == "shard-00001.bin, row 2 from 5: tokens 11 to 40"


# ── through verdicts ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def whole_way(tmp_path_factory):
    """A run as the notebooks lay it out: cleaned, different, masked and mixed, packed; every document comes twice."""
    from prep_lib.decide import decide_files
    from prep_lib.pipeline import run_files
    from prep_lib.text.exact_dedup import ExactDedup
    from prep_lib.text.mixture import Mixture
    from prep_lib.text.normalize import Normalize

    root = tmp_path_factory.mktemp("way")
    data = root / "runs/one/data"
    data.mkdir(parents=True)
    (data.parent / "run.jsonl").write_text("")
    texts = ["the first text", "another one", "the first text", "a third of them"]
    (root / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    told = {"engine": "inline"}
    run_files([Normalize()], root / "a.jsonl", data / "11_clean", **told)
    decide_files([ExactDedup(keep="first")], data / "11_clean", data / "12_dedup", **told)
    run_files([], data / "12_dedup", data / "13_mix/texts", **told)
    total = sum(len(text) for text in {*texts})
    decide_files([Mixture(budget=2 * total)], data / "13_mix/texts", data / "13_mix", **told)
    tokenizer = AutoTokenizer()
    tokenizer.train(texts, vocab_size=300)
    build_shards(data / "13_mix", data / "15_pack", tokenizer, 8, tail="pad", **told)
    return data / "15_pack"


def test_a_document_is_found_by_the_id_an_earlier_run_gave_it(whole_way):
    first, second = where(whole_way, "a.jsonl#L1"), where(whole_way, "a.jsonl#L1~2")
    assert first
    assert second
    assert {place.row for place in first}.isdisjoint({place.row for place in second})
    assert where(whole_way, "a.jsonl#L3") == []


def test_every_folder_it_passed_tells_what_was_decided(whole_way):
    told = [(decision.folder, decision.stage, decision.flow) for decision in decisions(whole_way, "a.jsonl#L2")]
    passed = [
        ("11_clean", "normalize", "kept"), ("12_dedup", "exact_dedup", "kept"), ("13_mix", "mixture", "kept"),
        ("15_pack", "pack", "kept"),
    ]  # fmt: skip
    assert [each for each in told if each in passed] == passed
    lost = decisions(whole_way, "a.jsonl#L3")[-1]
    assert (lost.folder, lost.stage, lost.flow, lost.reason, lost.detail) == (
        "12_dedup", "exact_dedup", "dropped", "exact_duplicate", "for a.jsonl#L1",
    )  # fmt: skip


def test_copies_are_of_the_source_of_the_first_and_verified(whole_way):
    assert verify(whole_way) == []
    shard = open_shard(whole_way / read_manifest(whole_way)["shards"][0]["file"])
    assert {source for source, _ in shard.groups} == {"a.jsonl"}
