"""A build accounts for every record and token, and its bytes depend on the input alone."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prep_lib import files
from prep_lib.build import cache_jsonl
from prep_lib.chat.mask import Policy
from prep_lib.chat.process import Processor, ProcessorFactory
from prep_lib.chat.strategy import ChatML
from prep_lib.chat.template import BUILT_IN, ChatTemplate
from prep_lib.errors import BadInput, BadParameter, BadRecord, TooManyLost
from prep_lib.events import listen
from prep_lib.ledger import Ledger
from prep_lib.record import Drop
from prep_lib.shards.h5 import H5Shard
from prep_lib.shards.manifest import read_manifest
from prep_lib.shards.verify import verify
from prep_lib.tokens.tokenizer import AutoTokenizer

#: The toy alphabet: a letter is a token, upper case is trained.
LETTERS = {
    letter: at + 1 for at, letter in enumerate("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789#")
}


class Letters(Processor):
    keys = ("sequence", "loss_mask")
    id_keys = ("sequence",)

    def arrays(self, record):
        text = record.get("text")
        if not isinstance(text, str):
            raise BadRecord("missing_field", "text")
        if text.islower() and text.startswith("drop"):
            return Drop("told_to")
        ids = np.array([LETTERS[letter] for letter in text], np.int32)
        return {"sequence": ids, "loss_mask": np.array([letter.isupper() for letter in text])}


def write(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def build(source, out, **given):
    return cache_jsonl(source, out, Letters(None), engine=given.pop("engine", "inline"), **given)


def shards(folder: Path) -> list[H5Shard]:
    return [H5Shard(folder / entry["file"]) for entry in read_manifest(folder)["shards"]]


def spell(ids: np.ndarray) -> str:
    return "".join(" " if number == 0 else list(LETTERS)[number - 1] for number in ids)


def pieces(folder: Path) -> list[tuple[str, int, str]]:
    """Every piece of every pack: (document, place in it, text)."""
    out = []
    for shard in shards(folder):
        at = 0
        for row in range(len(shard)):
            place, stored = 0, shard.row(row)["sequence"]
            segments = shard.segments(row)
            for length, document, start in zip(
                segments["length"], segments["document"], segments["start"], strict=True
            ):
                out.append((shard.document(int(document)), int(start), spell(stored[place : place + length])))
                place += length
                at += 1
            assert (stored[place:] == 0).all()
    return out


def tree(folder: Path) -> dict[str, bytes]:
    """All that a reader sees; our own corner apart."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_build_a_reader_can_hold_in_the_head(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", ["aaA", "bbB", "cccC", "D"])
    ledger = build(source, tmp_path / "out", pack_size=4)
    (shard,) = shards(tmp_path / "out")
    assert sorted(spell(shard.row(at)["sequence"]) for at in range(3)) == ["aaAD", "bbB ", "cccC"] or sorted(
        spell(shard.row(at)["sequence"]) for at in range(3)
    ) == ["aaA ", "bbBD", "cccC"]
    assert sorted(pieces(tmp_path / "out")) == [
        ("in.jsonl#L1", 0, "aaA"), ("in.jsonl#L2", 0, "bbB"), ("in.jsonl#L3", 0, "cccC"), ("in.jsonl#L4", 0, "D"),
    ]  # fmt: skip
    assert ledger.total("tokens", "written", unit="tokens") == 11
    assert ledger.total("tokens", "padding", unit="tokens") == 1
    assert ledger.total("tokens", "trained", unit="tokens") == 4
    assert not verify(tmp_path / "out")


TEXTS = st.lists(st.text(alphabet="abcXYZ", min_size=1, max_size=12), min_size=0, max_size=25)


@given(texts=TEXTS, size=st.integers(1, 8), packing=st.sampled_from(["concat", "best_fit", "best_fit_split"]),
       tail=st.sampled_from(["pad", "drop"]), shard=st.integers(1, 5), files_=st.integers(1, 3))  # fmt: skip
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_is_lost_and_nothing_comes_twice(tmp_path_factory, texts, size, packing, tail, shard, files_) -> None:
    folder = tmp_path_factory.mktemp("build")
    parts = [texts[at::files_] for at in range(files_)]
    sources = [write(folder / f"in_{at}.jsonl", part) for at, part in enumerate(parts)]
    ledger = build(sources, folder / "out", pack_size=size, packing=packing, tail=tail, shard_size=shard)
    whole = {f"in_{at}.jsonl#L{n + 1}": text for at, part in enumerate(parts) for n, text in enumerate(part)}
    # A row without a target is dropped, and under best_fit one that is longer than the pack.
    usable = {name: text for name, text in whole.items() if not text.islower()}
    expected = {name: text for name, text in usable.items() if packing != "best_fit" or len(text) <= size}
    joined: dict[str, str] = {}
    for name, start, text in sorted(pieces(folder / "out")):
        assert start == len(joined.get(name, ""))
        joined[name] = joined.get(name, "") + text
    lost = ledger.total("tokens", "remainder", unit="tokens")
    if lost:
        stream, kept = "".join(usable.values()), "".join(joined[name] for name in whole if name in joined)
        assert (packing, tail) == ("concat", "drop")
        assert kept == stream[: len(stream) - lost]
        assert lost < size
    else:
        assert joined == expected
    assert ledger.total("process", "dropped") == len(whole) - len(expected)
    upper = sum(letter.isupper() for shard_ in shards(folder / "out") for row in range(len(shard_))
                for letter in spell(shard_.row(row)["sequence"]))  # fmt: skip
    assert ledger.total("tokens", "trained", unit="tokens") == upper
    assert [finding for finding in verify(folder / "out") if "trains nothing" not in finding.what] == []


def test_masks_travel_with_their_ids(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", ["aB", "CCdd", "eFg", "hhhhhhhI", "J"] * 7)
    for packing in ("concat", "best_fit", "best_fit_split"):
        build(source, tmp_path / packing, pack_size=4, packing=packing, shard_size=3)
        for shard in shards(tmp_path / packing):
            for at in range(len(shard)):
                row = shard.row(at)
                assert [letter.isupper() for letter in spell(row["sequence"])] == row["loss_mask"].tolist()


def test_ragged_rows_stay_in_order(tmp_path: Path) -> None:
    texts = ["a" * n + "B" for n in range(9)]
    build(write(tmp_path / "in.jsonl", texts), tmp_path / "out", shard_size=4)
    found = [spell(shard.row(at)["sequence"]) for shard in shards(tmp_path / "out") for at in range(len(shard))]
    assert found == texts
    assert [shard.document(0) for shard in shards(tmp_path / "out")] == ["in.jsonl#L1", "in.jsonl#L5", "in.jsonl#L9"]


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_empty_input_gives_an_empty_shard(tmp_path: Path, content: str) -> None:
    (tmp_path / "in.jsonl").write_text(content)
    for pack_size in (0, 8):
        ledger = build(tmp_path / "in.jsonl", tmp_path / f"out{pack_size}", pack_size=pack_size)
        (shard,) = shards(tmp_path / f"out{pack_size}")
        assert len(shard) == 0
        assert shard.keys == ("sequence", "loss_mask")
        assert ledger.total("read", "in") == 0


@pytest.mark.parametrize("span", [1, 37, 10**9])
def test_the_bytes_do_not_depend_on_engine_or_memory(tmp_path: Path, monkeypatch, span: int) -> None:
    source = write(tmp_path / "in.jsonl", [f"{'ab' * (n % 7)}C" for n in range(60)])
    reference = tmp_path / "reference"
    monkeypatch.setattr(files, "SPAN", 64)
    build(source, reference, pack_size=16, shard_size=5)
    with ThreadPoolExecutor(3) as pool:
        build(source, tmp_path / "threads", pack_size=16, shard_size=5, engine=pool, memory_budget=span)
    assert tree(tmp_path / "threads") == tree(reference)


def test_worker_processes_give_the_same_bytes(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer().train(["how are you? fine, thanks"] * 3, vocab_size=300)
    source = tmp_path / "in.jsonl"
    rows = [{"query": f"how {'are ' * (n % 9)}you?", "response": f"fine {n}"} for n in range(200)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, ways in {"a": {"engine": "inline"}, "b": {"workers": 2}}.items():
        processor = ProcessorFactory.create("sft", tokenizer)
        cache_jsonl(source, tmp_path / name, processor, pack_size=64, shard_size=8, **ways)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    assert not verify(tmp_path / "a")


def test_a_second_run_does_nothing_and_a_changed_one_leaves_no_strays(tmp_path: Path, capsys) -> None:
    source, out = write(tmp_path / "in.jsonl", ["aB"] * 40), tmp_path / "out"
    first = build(source, out, pack_size=4, shard_size=2)
    before = {path: path.stat().st_mtime_ns for path in out.iterdir() if path.is_file()}
    assert build(source, out, pack_size=4, shard_size=2) == first
    assert {path: path.stat().st_mtime_ns for path in out.iterdir() if path.is_file()} == before
    assert "out was already done" in capsys.readouterr().out
    build(source, out, pack_size=4, shard_size=100)
    assert sorted(path.name for path in out.glob("chunk_*")) == ["chunk_0.h5"]
    assert "built again: parameters" in capsys.readouterr().out
    assert not verify(out)


def test_a_changed_input_is_noticed(tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.jsonl", ["aB", "cD"]), tmp_path / "out"
    build(source, out, pack_size=4)
    write(source, ["aB", "cE"])
    build(source, out, pack_size=4)
    assert {text for _, _, text in pieces(out)} == {"aB", "cE"}


def test_a_lost_shard_is_made_again(tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.jsonl", ["aB"] * 8), tmp_path / "out"
    build(source, out, pack_size=4, shard_size=2)
    before = tree(out)
    (out / "chunk_1.h5").unlink()
    build(source, out, pack_size=4, shard_size=2)
    assert tree(out) == before


def test_one_bad_line_is_one_failed_record(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes(
        b'{"text": "aB"}\n{"text": \n[1]\n{"text": "\xff"}\n{"no": 1}\n{"text": "dropme"}\n{"text": "cD"}'
    )
    ledger = build(source, tmp_path / "out", pack_size=4)
    assert sorted(text for _, _, text in pieces(tmp_path / "out")) == ["aB", "cD"]
    assert ledger.reasons("read", "failed") == {"bad_json": 1, "invalid_utf8": 1, "not_an_object": 1}
    assert ledger.reasons("process", "failed") == {"missing_field": 1}
    assert ledger.reasons("process", "dropped") == {"told_to": 1}
    with files.open_bytes(tmp_path / "out" / "rejected.jsonl.zst") as file:
        rejected = {line["id"]: line for line in map(json.loads, file)}
    assert sorted(rejected) == [f"in.jsonl#L{n}" for n in (2, 3, 4, 5, 6)]
    assert rejected["in.jsonl#L6"]["text"] == '{"text": "dropme"}'
    assert rejected["in.jsonl#L5"]["reason"] == "missing_field"


def test_too_many_failures_stop_the_run_with_reason_and_examples(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "aB"}\n' * 100 + "{\n" * 21)
    message = (
        r"21 of 121 records failed \(allowed: 0.10%\); the commonest reason is bad_json \(21\), "
        "for example in.jsonl#L101"
    )
    with pytest.raises(TooManyLost, match=message):
        build(source, tmp_path / "out", pack_size=4)
    assert not (tmp_path / "out" / "manifest.json").exists()
    build(source, tmp_path / "out", pack_size=4, max_failed=0.5)


def test_too_long_is_named(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", ["aaaB", "aBBB", "aB"])
    counts = {
        name: build(source, tmp_path / name, pack_size=4, max_length=3, too_long=name) for name in ("drop", "cut")
    }
    assert counts["drop"].reasons("process", "dropped") == {"too_long": 2}
    assert counts["cut"].reasons("process", "dropped") == {"no_target": 1}
    assert sorted(text for _, _, text in pieces(tmp_path / "cut")) == ["aB", "aBB"]
    assert counts["cut"].total("tokens", "cut", unit="tokens") == 1


def test_a_sample_is_drawn_over_all_files_and_the_same_each_time(tmp_path: Path) -> None:
    sources = [write(tmp_path / f"in_{at}.jsonl", ["aB"] * 500) for at in range(2)]
    build(sources, tmp_path / "one", sample=100)
    build(sources, tmp_path / "two", sample=100, engine="inline", shard_size=7)
    drawn = [
        {shard.document(at) for shard in shards(tmp_path / name) for at in range(len(shard))} for name in ("one", "two")
    ]
    assert drawn[0] == drawn[1]
    assert 70 < len(drawn[0]) < 130
    assert {name.split("#")[0] for name in drawn[0]} == {"in_0.jsonl", "in_1.jsonl"}


def test_parquet_and_compressed_files_are_read_too(tmp_path: Path) -> None:
    texts = ["aB", "cD", "eF"]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=2)
    raw = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    (tmp_path / "b.jsonl.zst").write_bytes(zstandard.compress(raw))
    ledger = build([tmp_path / "a.parquet", tmp_path / "b.jsonl.zst"], tmp_path / "out")
    assert ledger.total("process", "kept") == 6
    (shard,) = shards(tmp_path / "out")
    assert [shard.document(at) for at in (0, 2, 3)] == ["a.parquet[0]", "a.parquet[2]", "b.jsonl.zst#L1"]


def test_a_processor_that_does_not_name_its_arrays_is_asked(tmp_path: Path) -> None:
    class Free(Processor):
        def arrays(self, record):
            return {"ids": np.array([1, 2, len(record["text"])])}

    cache_jsonl(write(tmp_path / "in.jsonl", ["abc"]), tmp_path / "out", Free(None), engine="inline")
    assert shards(tmp_path / "out")[0].row(0)["ids"].tolist() == [1, 2, 3]


def test_nonsense_is_refused_before_any_work(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", ["aB"])
    for wrong, sentence in (
        ({"pack_size": 4, "packing": "best"}, "unknown algorithm 'best'; did you mean 'best_fit'"),
        ({"too_long": "truncate"}, "too_long must be one of drop, cut_turns, cut"),
        ({"shard_size": 0}, "shard_size must be a whole number at least 1; got 0"),
        ({"memory_budget": "lots"}, "'lots' is not a size"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"engine": "process"}, "unknown engine 'process'; did you mean 'processes'"),
    ):
        with pytest.raises(BadParameter, match=sentence):
            build(source, tmp_path / "out", **wrong)
    with pytest.raises(BadInput, match="no such input"):
        build(tmp_path / "nothing.jsonl", tmp_path / "out")
    with pytest.raises(BadInput, match="given twice"):
        build([source, source], tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match=r"no data file in .*empty; looked for .jsonl"):
        build([source, tmp_path / "empty"], tmp_path / "out")
    with pytest.raises(BadParameter, match=r"output_dir .*in.jsonl is a file; give a folder"):
        build(source, source)
    with pytest.raises(BadParameter, match="processor must be a Processor, got AutoTokenizer"):
        cache_jsonl(source, tmp_path / "out", AutoTokenizer())


def test_preference_pairs_are_never_packed(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer().train(["which one?"], vocab_size=300)
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps({"query": "which one?", "chosen": "this", "rejected": "that"}) + "\n")
    processor = ProcessorFactory.create("dpo", tokenizer)
    with pytest.raises(BadParameter, match="dpo rows hold several sequences and are never packed; use pack_size=0"):
        cache_jsonl(source, tmp_path / "out", processor, pack_size=64)
    cache_jsonl(source, tmp_path / "out", processor, engine="inline")
    (shard,) = shards(tmp_path / "out")
    assert shard.keys == ("chosen", "chosen_mask", "rejected", "rejected_mask", "prompt_length")
    row = shard.row(0)
    length = int(row["prompt_length"])
    assert row["chosen"][:length].tolist() == row["rejected"][:length].tolist()
    assert not verify(tmp_path / "out")


def chats(path: Path) -> Path:
    told = [
        [{"role": "user", "content": f"q {n}"}, {"role": "assistant", "content": "a" * (n + 1), "weight": n % 2 or 0.5}]
        for n in range(6)
    ]
    path.write_text("".join(json.dumps({"messages": messages}) + "\n" for messages in told))
    return path


def test_a_chat_template_serves_and_another_one_is_another_build(tmp_path: Path) -> None:
    source, tokenizer = chats(tmp_path / "in.jsonl"), AutoTokenizer().train(["q a"], vocab_size=300)

    def run(folder: str, source_text: str = BUILT_IN["chatml"], **options) -> Ledger:
        template = ChatTemplate(source_text, tokenizer, **options)
        made = ProcessorFactory.create_with_strategy("sft", tokenizer, template, Policy(weights=True))
        return cache_jsonl(source, tmp_path / folder, made, 64, engine="inline")

    plain = ProcessorFactory.create_with_strategy("sft", tokenizer, ChatML(tokenizer), Policy(weights=True))
    cache_jsonl(source, tmp_path / "strategy", plain, 64, engine="inline")
    ledger = run("template")
    assert ledger.total("tokens", "trained", unit="tokens") == sum(n + 2 for n in range(6))
    assert not verify(tmp_path / "template")
    told = read_manifest(tmp_path / "template")["strategy"]
    assert (told["strategy"], told["template"]["date"], told["policy"]["weights"]) == (None, None, True)
    for one, other in zip(shards(tmp_path / "template"), shards(tmp_path / "strategy"), strict=True):
        for at in range(len(one)):
            ours, theirs = one.row(at), other.row(at)
            assert all(np.array_equal(ours[name], theirs[name]) for name in ("sequence", "loss_mask", "loss_weight"))
            assert (ours["loss_weight"][ours["loss_mask"]] > 0).all()
            assert not ours["loss_weight"][~ours["loss_mask"]].any()
    before = tree(tmp_path / "template")
    run("template")
    assert tree(tmp_path / "template") == before
    run("template", BUILT_IN["chatml"] + "{# another one #}")
    assert tree(tmp_path / "template")["manifest.json"] != before["manifest.json"]
    run("template", variables={"enable_thinking": False})
    assert read_manifest(tmp_path / "template")["strategy"]["template"]["variables"] == {"enable_thinking": False}


def test_rated_answers_are_never_packed(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps({"query": "q", "response": "a", "label": True}) + "\n")
    processor = ProcessorFactory.create("kto", AutoTokenizer().train(["q a"], vocab_size=300))
    with pytest.raises(BadParameter, match="kto rows hold what belongs to the whole row and are never packed"):
        cache_jsonl(tmp_path / "in.jsonl", tmp_path / "out", processor, 16, engine="inline")
    cache_jsonl(tmp_path / "in.jsonl", tmp_path / "out", processor, engine="inline")
    assert int(shards(tmp_path / "out")[0].row(0)["label"]) == 1
    assert not verify(tmp_path / "out")


def test_the_ledger_is_stored_and_balances(tmp_path: Path) -> None:
    ledger = build(write(tmp_path / "in.jsonl", ["aB", "dropx", "abcdefgH"]), tmp_path / "out", pack_size=4)
    stored = Ledger.from_json((tmp_path / "out" / "ledger.json").read_bytes())
    assert stored == ledger
    stored.check()


def test_events_tell_what_happens(tmp_path: Path) -> None:
    told = []
    with listen(told.append, instead=True):
        build(write(tmp_path / "in.jsonl", ["aB"]), tmp_path / "out", pack_size=4)
    assert [event["stage"] for event in told if event["event"] == "begin"] == ["count", "write"]


# What is read


def documents(folder: Path) -> dict[str, str]:
    """Document id -> text, of a build in which nothing is cut."""
    found = pieces(folder)
    assert len({name for name, _, _ in found}) == len(found)
    return {name: text for name, _, text in found}


def test_files_of_one_name_and_files_of_strange_names(tmp_path: Path) -> None:
    names = ["one/in.jsonl", "two/in.jsonl", "with blank.jsonl", "数据.jsonl", "line\nfeed.jsonl"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
    sources = [write(tmp_path / name, ["aB" * (at + 1)]) for at, name in enumerate(names)]
    ledger = build(sources, tmp_path / "out", pack_size=16)
    here = tmp_path.name
    whole = ["one/in.jsonl", "two/in.jsonl", *(f"{here}/{name}" for name in names[2:])]
    assert documents(tmp_path / "out") == {f"{name}#L1": "aB" * (at + 1) for at, name in enumerate(whole)}
    assert ledger.sources("read") == sorted(whole)
    assert not verify(tmp_path / "out")


def test_a_name_that_is_no_utf8_is_spelled_out(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.jsonl")
    try:
        write(path, ["aB", "dropped"])
    except OSError:
        pytest.skip("this file system takes no such name")
    build(path, tmp_path / "out", pack_size=4)
    assert documents(tmp_path / "out") == {"caf\\udce9.jsonl#L1": "aB"}
    assert not verify(tmp_path / "out")


def test_a_link_is_called_as_it_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["aB"]}), tmp_path / "0a1b2c")
    (tmp_path / "train.parquet").symlink_to(tmp_path / "0a1b2c")
    build(tmp_path / "train.parquet", tmp_path / "out", pack_size=4)
    assert documents(tmp_path / "out") == {"train.parquet[0]": "aB"}
    (tmp_path / "again.parquet").symlink_to(tmp_path / "0a1b2c")
    with pytest.raises(BadInput, match="is given twice"):
        build([tmp_path / "train.parquet", tmp_path / "again.parquet"], tmp_path / "out")


def test_a_file_that_may_not_be_read_is_named_before_any_work(tmp_path: Path, monkeypatch) -> None:
    source = write(tmp_path / "in.jsonl", ["aB"])
    monkeypatch.setattr("prep_lib.build.os.access", lambda path, mode: False)
    with pytest.raises(BadInput, match=r"no permission to read .*in.jsonl"):
        build(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_output_beside_the_input(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", ["aB", "dropped"])
    write(tmp_path / "sft_rejected.jsonl", ["xY"])
    before = source.read_bytes()
    told: list[dict] = []
    with listen(told.append, instead=True):
        build(tmp_path, tmp_path, pack_size=4)
        assert build(tmp_path, tmp_path, pack_size=4).total("read", "in") == 2
    assert documents(tmp_path) == {"in.jsonl#L1": "aB"}
    assert source.read_bytes() == before
    notes = [event["text"] for event in told if event["event"] == "note"]
    assert notes[0] == "build: left out sft_rejected.jsonl; name a file to use it"
    assert notes[1:] == [
        "build: left out rejected.jsonl.zst, sft_rejected.jsonl; name a file to use it",
        f"build: {tmp_path.name} was already done",
    ]
    with pytest.raises(BadInput, match=r"the input rejected.jsonl.zst lies where the output is written"):
        build(tmp_path / "rejected.jsonl.zst", tmp_path)


def test_shards_of_somebody_else_are_not_written_over(tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.jsonl", ["aB"]), tmp_path / "out"
    out.mkdir()
    (out / "chunk_7.h5").write_bytes(b"precious")
    with pytest.raises(BadInput, match=r"holds chunk_7.h5, which no build left there; use another output folder"):
        build(source, out)
    assert [path.name for path in out.iterdir()] == ["chunk_7.h5"]


class Meddling(Letters):
    """Changes a file while it is read."""

    def __init__(self, path: Path) -> None:
        super().__init__(None)
        self.path = path

    def arrays(self, record):
        if record["text"] == "meddleX":
            with self.path.open("a") as file:
                file.write('{"text": "aB"}\n')
        return super().arrays(record)


def test_a_file_that_changes_meanwhile_stops_the_run(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("prep_lib.shards.count.BATCH", 1)
    source = write(tmp_path / "in.jsonl", ["aB", "meddleX", "cD"])
    with pytest.raises(BadInput, match=r"in.jsonl was changed while it was read; run again when nothing writes to it"):
        cache_jsonl(source, tmp_path / "out", Meddling(source), engine="inline")
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_small_files_share_a_task(tmp_path: Path) -> None:
    sources = [write(tmp_path / f"in_{at}.jsonl", [f"a{'B' * (at % 5)}C", "dropped"]) for at in range(60)]
    told: list[dict] = []
    with listen(told.append, instead=True):
        ledger = build(sources, tmp_path / "out", pack_size=8, shard_size=3)
    assert next(event["tasks"] for event in told if event["event"] == "begin") == 1
    assert documents(tmp_path / "out") == {f"in_{at}.jsonl#L1": f"a{'B' * (at % 5)}C" for at in range(60)}
    assert all(ledger.total("process", "kept", f"in_{at}.jsonl") == 1 for at in range(60))
    assert not verify(tmp_path / "out")


def test_row_groups_that_are_small_share_a_task(tmp_path: Path) -> None:
    texts = [f"a{'B' * (n % 3)}C" for n in range(20)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=3)
    told: list[dict] = []
    with listen(told.append, instead=True):
        build(tmp_path / "a.parquet", tmp_path / "out", pack_size=np.int64(8), seed=np.int32(1))
    assert next(event["tasks"] for event in told if event["event"] == "begin") == 1
    assert documents(tmp_path / "out") == {f"a.parquet[{n}]": text for n, text in enumerate(texts)}


def test_copies_are_told(tmp_path: Path, capsys) -> None:
    sources = [write(tmp_path / f"{name}.jsonl", ["aB"]) for name in "ab"]
    assert build(sources, tmp_path / "out").total("process", "kept") == 2
    assert "build: 1 of the inputs are copies, b.jsonl of a.jsonl for one: used as given" in capsys.readouterr().out


# What becomes of records


def rejected(folder: Path) -> dict[str, dict]:
    with files.open_bytes(folder / "rejected.jsonl.zst") as file:
        return {line["id"]: line for line in map(json.loads, file)}


def test_a_line_that_is_no_record_is_kept_as_it_stood(tmp_path: Path) -> None:
    lines = [b'{"text": "cut', b'{"text": "\xff"}', '{"x": "你好"}'.encode(), b"[" + b"9," * 5000 + b"0]"]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join([*lines, b'{"text": "aB"}\n']))
    build(tmp_path / "in.jsonl", tmp_path / "out", max_failed=1.0)
    found = rejected(tmp_path / "out")
    texts = [found[f"in.jsonl#L{at}"]["text"] for at in range(1, 5)]
    assert texts[:3] == ['{"text": "cut', '{"text": "\\xff"}', '{"x": "你好"}']
    assert texts[3] == lines[3].decode()[:4000]


def test_a_reason_that_quotes_half_a_surrogate_pair(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(b'{"\\ud800": 1, "\\ud800": 2}\n{"text": "aB"}\n')
    build(tmp_path / "in.jsonl", tmp_path / "out")
    assert rejected(tmp_path / "out")["in.jsonl#L1"]["detail"] == "\\ud800"


class Weighted(Processor):
    """Ids and a weight for each; some records come out differently."""

    id_keys = ("sequence",)

    def arrays(self, record):
        ids = np.arange(record["n"])
        odd = {
            "other_keys": {"sequence": ids},
            "other_type": {"sequence": ids.astype(float), "weight": ids * 0.5},
            "two_dimensions": {"sequence": ids, "weight": np.ones((len(ids), 2))},
            "a_number": {"sequence": ids, "weight": np.float64(1)},
            "other_length": {"sequence": ids, "weight": np.ones(len(ids) + 1)},
        }
        return odd.get(record.get("odd"), {"sequence": ids, "weight": ids * 0.5})


def test_an_odd_row_of_a_users_processor_takes_no_other_with_it(tmp_path: Path) -> None:
    odds = [None, "other_keys", "other_type", "two_dimensions", "a_number", "other_length", None]
    rows = [{"n": 3, "odd": odd} if odd else {"n": 2} for odd in odds]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ledger = cache_jsonl(
        tmp_path / "in.jsonl", tmp_path / "out", Weighted(None), pack_size=5, pad_value=9, engine="inline"
    )
    assert ledger.reasons("process", "failed") == {"other_arrays": 5}
    assert rejected(tmp_path / "out")["in.jsonl#L3"]["detail"] == (
        "'sequence' is float64 of 1 dimensions; other rows have int32 of 1"
    )
    (shard,) = shards(tmp_path / "out")
    row = shard.row(0)
    assert row["sequence"].tolist() == [0, 1, 0, 1, 9]
    assert row["weight"].tolist() == [0, 0.5, 0, 0.5, 0]  # the pad value is an id, not a weight


def test_arrays_that_no_build_could_use_are_refused_before_any_work(tmp_path: Path) -> None:
    class Uneven(Processor):
        def arrays(self, record):
            return {"sequence": np.arange(3), "mask": np.ones(2, bool)}

    class Named(Processor):
        def arrays(self, record):
            return {"segments": np.arange(3)}

    class NoIds(Processor):
        def arrays(self, record):
            return {"weight": np.ones(3)}

    source = write(tmp_path / "in.jsonl", ["aB"])
    for processor, sentence in (
        (Uneven(None), "arrays that differ in length cannot be packed; use pack_size=0"),
        (Named(None), "an array cannot be called 'segments'"),
        (NoIds(None), "NoIds makes no array of ids; name one in id_keys"),
    ):
        with pytest.raises(BadParameter, match=sentence):
            cache_jsonl(source, tmp_path / "out", processor, pack_size=4, engine="inline")
    cache_jsonl(source, tmp_path / "out", Uneven(None), engine="inline")
    assert shards(tmp_path / "out")[0].row(0)["mask"].tolist() == [True, True]


def test_the_smallest_packs_and_shards(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", ["aB", "C", "dEf"])
    build(source, tmp_path / "one", pack_size=1, packing="best_fit_split", shard_size=1)
    assert sorted(spell(shard.row(0)["sequence"]) for shard in shards(tmp_path / "one")) == sorted("aBCdEf")
    assert sum(len(shard) for shard in shards(tmp_path / "one")) == 6
    assert documents_joined(tmp_path / "one") == {"in.jsonl#L1": "aB", "in.jsonl#L2": "C", "in.jsonl#L3": "dEf"}


def documents_joined(folder: Path) -> dict[str, str]:
    out: dict[str, str] = {}
    for name, _, text in sorted(pieces(folder)):
        out[name] = out.get(name, "") + text
    return out


def test_a_sample_larger_than_the_input_is_the_input(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", ["aB"] * 5)
    assert build(source, tmp_path / "out", sample=100).total("process", "kept") == 5


def test_what_concat_leaves_over_is_counted_by_source_and_target(tmp_path: Path) -> None:
    sources = [write(tmp_path / f"{name}.jsonl", [text]) for name, text in {"a": "aaB", "b": "Bc", "c": "dE"}.items()]
    ledger = build(sources, tmp_path / "out", pack_size=4, packing="concat", tail="drop")
    left = {name: ledger.total("tokens", "remainder", f"{name}.jsonl", unit="tokens") for name in "abc"}
    assert left == {"a": 0, "b": 1, "c": 2}
    trained = {name: ledger.total("tokens", "trained", f"{name}.jsonl", unit="tokens") for name in "abc"}
    assert trained == {"a": 1, "b": 1, "c": 0}
    assert read_manifest(tmp_path / "out")["dropped_remainder_tokens"] == 3
    assert read_manifest(tmp_path / "out")["packing"]["cut_documents"] == 1


# What was done before


class Interrupted(BaseException):
    pass


def interrupt_at(stage: str):
    def callback(event):
        if event["event"] == "begin" and event["stage"] == stage:
            raise Interrupted

    return callback


def test_a_run_that_ended_before_the_shards_goes_on_from_there(tmp_path: Path) -> None:
    sources = [write(tmp_path / f"in_{at}.jsonl", [f"a{'B' * at}C"] * 20) for at in range(3)]
    build(sources, tmp_path / "clean", pack_size=8, shard_size=2)
    out, told = tmp_path / "out", []
    with pytest.raises(Interrupted), listen(interrupt_at("write"), instead=True):
        build(sources, out, pack_size=8, shard_size=2)
    assert not (out / "manifest.json").exists()
    with listen(told.append, instead=True):
        build(sources, out, pack_size=8, shard_size=2)
    assert [(event["stage"], event["done"]) for event in told if event["event"] == "begin"] == [
        ("count", 1), ("write", 0),
    ]  # fmt: skip
    assert tree(out) == tree(tmp_path / "clean")
    assert sorted(path.name for path in (out / ".prep").iterdir()) == ["build.json", "inputs.json", "kind", "lock"]


def test_what_is_not_in_the_rows_does_not_count_them_again(tmp_path: Path) -> None:
    source, out, told = write(tmp_path / "in.jsonl", ["aB", "ccD"] * 20), tmp_path / "out", []
    with pytest.raises(Interrupted), listen(interrupt_at("write"), instead=True):
        build(source, out, pack_size=8, packing="concat")
    with listen(told.append, instead=True):
        build(source, out, pack_size=4, packing="concat", tail="drop", pad_value=7, shard_size=3)
    assert next(event["done"] for event in told if event["event"] == "begin") == 1
    build(source, tmp_path / "clean", pack_size=4, packing="concat", tail="drop", pad_value=7, shard_size=3)
    assert tree(out) == tree(tmp_path / "clean")


def test_another_file_leaves_the_rows_of_a_big_one(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(files, "SPAN", 64)
    sources = [write(tmp_path / f"in_{at}.jsonl", ["aB"] * 5) for at in range(4)]
    with pytest.raises(Interrupted), listen(interrupt_at("write"), instead=True):
        build(sources[:3], tmp_path / "out", pack_size=4)
    write(sources[1], ["cD"] * 5)
    told: list[dict] = []
    with listen(told.append, instead=True):
        build(sources, tmp_path / "out", pack_size=4)
    begun = next(event for event in told if event["event"] == "begin" and event["stage"] == "count")
    assert (begun["tasks"], begun["done"]) == (4, 2)
    assert {text for _, _, text in pieces(tmp_path / "out")} == {"aB", "cD"}


def test_a_build_without_a_key_is_never_taken_for_the_one_before_it(tmp_path: Path) -> None:
    class Stateful(Letters):
        def __init__(self, state) -> None:
            super().__init__(None)
            self.state = state

    source, out = write(tmp_path / "in.jsonl", ["aB"] * 4), tmp_path / "out"
    for state in (1, iter([1]), 1):  # an iterator has no digest
        cache_jsonl(source, out, Stateful(state), pack_size=4 + 2 * (state == 1), engine="inline")
    assert read_manifest(out)["seq_len"] == 6
    assert not verify(out)


# The accelerator


class Erring:
    """An accelerator that agrees with the reference but for texts that hold a "z"."""

    def __init__(self, reference) -> None:
        self.reference = reference

    def encode_batch_flat(self, texts):
        lists = [self.reference.encode(text, add_special_tokens=False).ids for text in texts]
        lists = [[0] * len(ids) if "z" in text else ids for text, ids in zip(texts, lists, strict=True)]
        offsets = np.cumsum([0, *map(len, lists)])
        return np.array([id for ids in lists for id in ids], np.int32).tobytes(), offsets.astype(np.uint64).tobytes()


@pytest.fixture
def erring(monkeypatch) -> AutoTokenizer:
    tokenizer = AutoTokenizer().train(["how are you? fine, thanks, zzz"] * 3, vocab_size=301)
    model = tokenizer._model
    monkeypatch.setitem(vars(model), "accelerator", (Erring(model.content), "made to err"))
    monkeypatch.setattr("prep_lib.tokens.tokenizer.PROOF_DOCUMENTS", 0)
    monkeypatch.setattr("prep_lib.tokens.tokenizer.RECHECK", 1)
    return tokenizer


def test_a_mismatch_of_the_accelerator_does_everything_again(tmp_path: Path, monkeypatch, erring) -> None:
    monkeypatch.setattr(files, "SPAN", 64)
    source = tmp_path / "in.jsonl"
    texts = ["how are you?", "fine", "thanks"] * 4 + ["zzz", "fine, zzz", "fine"]
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    reference = AutoTokenizer().train(["how are you? fine, thanks, zzz"] * 3, vocab_size=301)
    reference.use_reference()
    cache_jsonl(source, tmp_path / "clean", ProcessorFactory.create("pt", reference), pack_size=16, engine="inline")
    told: list[dict] = []
    with listen(told.append, instead=True):
        cache_jsonl(source, tmp_path / "out", ProcessorFactory.create("pt", erring), pack_size=16, engine="inline")
    begun = [(event["stage"], event["done"]) for event in told if event["event"] == "begin"]
    # Some tasks were finished when one erred; nothing of them is used.
    assert begun == [("count", 0), ("count", 0), ("write", 0)]
    done = [event["name"] for event in told if event["event"] == "task" and event["stage"] == "count"]
    assert done.count("count-00000") == 2
    note, served = [event["text"] for event in told if event["event"] == "note"]
    assert served == "tokenizer: tokenizers, the reference"
    assert "fastokens gives other ids than tokenizers for a document that begins 'zzz'" in note
    assert tree(tmp_path / "out") == tree(tmp_path / "clean")
    assert erring.engine_used == "tokenizers"
    assert erring.raise_on_mismatch is False
