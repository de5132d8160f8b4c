"""What `prep convert` writes, token by token through each trainer's own loader and collator, beside the shards.

    python3.11 -m venv /tmp/trl && /tmp/trl/bin/pip install -r tests/bench/peers/trl.txt
    .venv/bin/python tests/bench/peers/convert_trainers.py trl /tmp/trl/bin/python

    … the same with axolotl and axolotl.txt, llamafactory and llamafactory.txt (each file says how it is installed)

Shards are built here: conversations packed with best_fit, packed with concat (documents are cut), and not packed, and
pairs; the pad id is the EOS id, the pack size no multiple of 8. The trainer's environment then loads the converted
folder its own way, collates all of it, and finds the same documents with the same labels. For packs a small random
model says whether a document is computed as if it stood alone. Nothing is measured in seconds.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

PACK_SIZE, RECORDS = 100, 300
IGNORED = -100
KINDS = ("packed", "cut", "ragged", "dpo")

Document = tuple[tuple[int, ...], tuple[int, ...]]


# ── here: shards, conversions, and what is expected ──────────────────────────────────────────────────────────────────


def build(folder: Path) -> None:
    """Build the shards of all kinds and the tokenizer in a folder."""
    from prep_lib import AutoTokenizer, ProcessorFactory, cache_jsonl

    words = ["when", "rain", "falls", "the", "river", "你好", "rises", "42", "slowly", "and", "then", "sinks"]
    dice = random.Random(0)

    def text(most: int) -> str:
        return " ".join(dice.choices(words, k=dice.randint(1, most)))

    def turns() -> Iterator[dict[str, str]]:
        for _ in range(dice.randint(1, 3)):
            yield {"role": "user", "content": text(8)}
            yield {"role": "assistant", "content": text(12)}

    chats = [{"messages": list(turns())} for _ in range(RECORDS)]
    pairs = [{"query": text(9), "chosen": text(9) + " yes", "rejected": text(9) + " no"} for _ in range(RECORDS)]
    for name, records in (("chats", chats), ("pairs", pairs)):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text(lines, "utf-8")
    tokenizer = AutoTokenizer().train([" ".join(words)] * 3, vocab_size=400)
    tokenizer.save(folder / "tokenizer")
    same = {"engine": "inline", "shard_size": 40, "pad_value": tokenizer.eos_token_id}
    sft, dpo = (ProcessorFactory.create(name, tokenizer) for name in ("sft", "dpo"))
    chats_file = folder / "chats.jsonl"
    cache_jsonl(chats_file, folder / "packed", sft, PACK_SIZE, **same)  # type: ignore[arg-type]
    cache_jsonl(chats_file, folder / "cut", sft, PACK_SIZE, packing="concat", **same)  # type: ignore[arg-type]
    cache_jsonl(chats_file, folder / "ragged", sft, **same)  # type: ignore[arg-type]
    cache_jsonl(folder / "pairs.jsonl", folder / "dpo", dpo, **same)  # type: ignore[arg-type]
    special = {"pad": tokenizer.pad_token, "eos": tokenizer.eos_token, "vocab": tokenizer.max_id + 1}
    (folder / "special.json").write_text(json.dumps(special), "utf-8")


def documents(folder: Path) -> Iterator[tuple[list[int], list[int]]]:
    """Yield (ids, labels) of every piece in a folder of shards, read with nothing but the shard's own arrays."""
    from prep_lib.shards.h5 import H5Shard
    from prep_lib.shards.manifest import read_manifest

    for entry in read_manifest(folder)["shards"]:
        shard = H5Shard(folder / entry["file"])
        keys = ("chosen", "rejected") if "chosen" in shard.keys else ("sequence",)
        for at in range(len(shard)):
            row = shard.row(at)
            for key in keys:
                begin, mask = 0, row[shard.mask_of(key)]
                for length in shard.segments(at)["length"].tolist() if key == "sequence" else [len(mask)]:
                    ids, marks = (each[begin : begin + length].tolist() for each in (row[key], mask))
                    labels = [token if mark else IGNORED for token, mark in zip(ids, marks, strict=True)]
                    yield ids, [IGNORED, *labels[1:]]
                    begin += length


def main() -> None:
    """Build, convert, and let the trainer's own environment compare."""
    trainer, *rest = sys.argv[1:]
    if rest[0] == "theirs":
        for line in PEERS[trainer](Path(rest[1])):
            print(line, flush=True)
        return
    from prep_lib.errors import BadParameter
    from prep_lib.shards.interop import convert

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        for kind in KINDS:
            try:
                convert(folder / kind, trainer, folder / f"to-{kind}")
            except BadParameter as error:
                print(f"{kind:8} {error}")
                continue
            (folder / f"{kind}.json").write_text(json.dumps(list(documents(folder / kind))), "utf-8")
        subprocess.run([rest[0], __file__, trainer, "theirs", name], check=True)


# ── there: helpers ───────────────────────────────────────────────────────────────────────────────────────────────────


def expected(folder: Path, kind: str) -> Counter[Document]:
    """Return the documents of the shards."""
    found = json.loads((folder / f"{kind}.json").read_text("utf-8"))
    return Counter((tuple(ids), tuple(labels)) for ids, labels in found)


def firsts(labels: Any) -> str:
    """Say what a collator made of [1, 2] [3, 4] in one row, every token a target."""
    return f"it takes the first label of a document back by itself: {'yes' if int(labels[0][2]) == IGNORED else 'no'}"


def compared(kind: str, how: str, found: Iterable[Document], wanted: Counter[Document]) -> str:
    """Fail where the documents differ, and say what was compared."""
    got = Counter(found)
    lost, strange = wanted - got, got - wanted
    assert not lost + strange, f"{kind}, {how}: lost {list(lost)[:2]}, strange {list(strange)[:2]}"
    tokens = sum(len(ids) * times for (ids, _), times in got.items())
    targets = sum(sum(label != IGNORED for label in labels) * times for (_, labels), times in got.items())
    return f"{kind:8} {how}: {sum(got.values()):,} documents, {tokens:,} tokens, {targets:,} targets, all equal"


def cut(ids: Any, labels: Any, starts: Iterable[int]) -> Iterator[Document]:
    """Cut a row at the places where documents begin."""
    starts = [*starts, len(ids)]
    for begin, end in pairwise(starts):
        yield tuple(ids[begin:end].tolist()), tuple(labels[begin:end].tolist())


def numbered(ids: Any, labels: Any, number: Any) -> Iterator[Document]:
    """Cut a row where its attention mask counts 1, 2, 3 …; 0 is padding."""
    for each in sorted(set(number.tolist()) - {0}):
        yield tuple(ids[number == each].tolist()), tuple(labels[number == each].tolist())


def size(batch: tuple[Any, list[Document]]) -> int:
    """Return how many documents a batch holds."""
    return len(batch[1])


def small(folder: Path) -> tuple[Any, Any]:
    """Return a tokenizer and a random model of the smallest kind."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    special = json.loads((folder / "special.json").read_text("utf-8"))
    file = str(folder / "tokenizer" / "tokenizer.json")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=file, pad_token=special["eos"], eos_token=special["eos"])
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=special["vocab"], hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        initializer_range=0.5, attn_implementation="sdpa",
    )  # fmt: skip
    return tokenizer, LlamaForCausalLM(config).eval()


def alone(kind: str, how: str, model: Any, batch: dict[str, Any], found: list[Document]) -> str:
    """Compare the logits of the documents a one-row batch begins with, each with itself alone."""
    import torch

    with torch.no_grad():
        inside, worst, begin = model.eval()(**batch, use_cache=False).logits[0], 0.0, 0
        plain = model(input_ids=batch["input_ids"], use_cache=False).logits[0]
        for ids, _ in found:
            single = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
            worst = max(worst, float((single - inside[begin : begin + len(ids)]).abs().max()))
            begin += len(ids)
    assert worst < 1e-3, f"{kind}, {how}: documents see each other, logits differ by {worst}"
    without = float((plain[begin - len(ids) : begin] - single).abs().max())
    assert without > 1e-1 or len(found) == 1, f"{kind}: the proof proves nothing"
    return (
        f"{kind:8} {how}: {len(found)} documents as if alone (logits {worst:.0e} apart, without borders {without:.0e})"
    )


# ── there: TRL ───────────────────────────────────────────────────────────────────────────────────────────────────────


def trl(folder: Path) -> Iterator[str]:
    """Read with SFTTrainer and DPOTrainer, one training step each."""
    import datasets
    import transformers
    import trl

    datasets.disable_progress_bars()
    yield f"trl {trl.__version__}, transformers {transformers.__version__}, datasets {datasets.__version__}"
    pack = {"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4], "seq_lengths": [2, 2]}
    collator = trl.trainer.sft_trainer.DataCollatorForLanguageModeling(pad_token_id=0, padding_free=True)
    yield firsts(collator([pack])["labels"])
    for kind in ("packed", "cut", "ragged"):
        yield from _trl_sft(folder, kind)
    yield from _trl_dpo(folder)


def _opened(folder: Path, kind: str) -> Any:
    import datasets

    files = str(folder / f"to-{kind}" / "part-*.parquet")
    return datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(folder / "cache"))


def _arguments(folder: Path) -> dict[str, Any]:
    return {"output_dir": str(folder / "run"), "use_cpu": True, "report_to": "none", "max_steps": 1, "bf16": False}


def _trl_sft(folder: Path, kind: str) -> Iterator[str]:
    from trl import SFTConfig, SFTTrainer

    tokenizer, model = small(folder)
    free = {"padding_free": True, "max_length": None, "packing": False} if kind != "ragged" else {}
    args = SFTConfig(per_device_train_batch_size=3, dataloader_num_workers=0, **free, **_arguments(folder))
    trainer = SFTTrainer(model=model, args=args, train_dataset=_opened(folder, kind), processing_class=tokenizer)
    found: list[Document] = []
    most: tuple[dict[str, Any], list[Document]] = {}, []
    for batch in trainer.get_train_dataloader():
        ids, labels = batch["input_ids"], batch["labels"]
        if kind == "ragged":
            for row, label, mask in zip(ids, labels, batch["attention_mask"].bool(), strict=True):
                found.append((tuple(row[mask].tolist()), tuple(label[mask].tolist())))
            continue
        found += (one := list(cut(ids[0], labels[0], batch["cu_seq_lens_q"].tolist()[:-1])))
        most = max(most, ({name: batch[name] for name in ("input_ids", "position_ids")}, one), key=size)
    yield compared(kind, "SFTTrainer's batches", found, expected(folder, kind))
    if kind != "ragged":
        yield alone(kind, "its position ids", model, *most)
    trainer.train()
    loss = trainer.state.log_history[-1]["train_loss"]
    assert loss < float("inf")
    yield f"{kind:8} a step of training: loss {loss:.3f}"


def _trl_dpo(folder: Path) -> Iterator[str]:
    from trl import DPOConfig, DPOTrainer

    class Ready(DPOTrainer):  # type: ignore[misc]
        def _prepare_dataset(self, dataset: Any, *others: Any) -> Any:
            return dataset

    tokenizer, model = small(folder)
    args = DPOConfig(per_device_train_batch_size=4, **_arguments(folder))
    data = _opened(folder, "dpo")
    reference = small(folder)[1]
    trainer = Ready(model=model, ref_model=reference, args=args, train_dataset=data, processing_class=tokenizer)
    found: list[Document] = []
    for batch in trainer.get_train_dataloader():
        labels = batch["input_ids"].where(batch["completion_mask"].bool(), -100)
        for ids, label, mask in zip(batch["input_ids"], labels, batch["attention_mask"].bool(), strict=True):
            found.append((tuple(ids[mask].tolist()), tuple(label[mask].tolist())))
    # What stands behind the last target is not written.
    wanted: Counter[Document] = Counter()
    for (ids, marks), times in expected(folder, "dpo").items():
        last = max(at for at, label in enumerate(marks) if label != IGNORED) + 1
        wanted[ids[:last], marks[:last]] += times
    yield compared("dpo", "DPOTrainer's batches", found, wanted)
    trainer.train()
    yield f"dpo      a step of training: loss {trainer.state.log_history[-1]['train_loss']:.3f}"


# ── there: axolotl ───────────────────────────────────────────────────────────────────────────────────────────────────


def axolotl(folder: Path) -> Iterator[str]:
    """Read with its loader, pack with its sampler, collate with its collators."""
    from importlib.metadata import version

    import datasets

    datasets.disable_progress_bars()
    yield f"axolotl {version('axolotl')}, transformers {version('transformers')}, datasets {datasets.__version__}"
    from axolotl.utils.collators.batching import V2BatchSamplerDataCollatorForSeq2Seq

    pack = [{"input_ids": ids, "labels": ids, "attention_mask": [1, 1]} for ids in ([1, 2], [3, 4])]
    yield firsts(V2BatchSamplerDataCollatorForSeq2Seq(small(folder)[0])([pack])["labels"])
    for kind in ("packed", "cut", "ragged"):
        for packing in (True, False):
            yield from _axolotl_sft(folder, kind, packing)


def _axolotl_data(folder: Path, kind: str, packing: bool, tokenizer: Any) -> Any:
    from axolotl.utils.data.sft import _load_raw_datasets
    from axolotl.utils.dict import DictDefault

    settings = DictDefault(
        datasets=[{"path": str(folder / f"to-{kind}"), "split": "train", "type": None}],
        sample_packing=packing, sequence_len=256, model_config_type="llama", val_set_size=0, seed=42,
        dataset_prepared_path=str(folder / f"prepared-{kind}-{packing}"), is_preprocess=True,
        excess_length_strategy="raise",
    )  # fmt: skip
    data, _ = _load_raw_datasets(settings, settings.datasets, tokenizer, "train")
    return data


def _axolotl_sft(folder: Path, kind: str, packing: bool) -> Iterator[str]:
    from axolotl.utils.collators.batching import DataCollatorForSeq2Seq, V2BatchSamplerDataCollatorForSeq2Seq
    from axolotl.utils.samplers import MultipackBatchSampler, get_dataset_lengths
    from torch.utils.data import SequentialSampler

    tokenizer, model = small(folder)
    # It leaves out rows of one token, and with sample_packing those without target, and says how many.
    wanted = expected(folder, kind)
    kept = {one for one in wanted if len(one[0]) > 1 and (not packing or set(one[1]) != {IGNORED})}
    wanted = Counter({one: wanted[one] for one in kept})
    data, found = _axolotl_data(folder, kind, packing, tokenizer), []
    if not packing:
        collator = DataCollatorForSeq2Seq(tokenizer, pad_to_multiple_of=64)
        for begin in range(0, len(data), 4):
            batch = collator([data[at] for at in range(begin, min(begin + 4, len(data)))])
            for ids, labels, mask in zip(batch["input_ids"], batch["labels"], batch["attention_mask"], strict=True):
                found += numbered(ids, labels, mask)
        yield compared(kind, "rows, DataCollatorForSeq2Seq", found, wanted)
        return
    collator = V2BatchSamplerDataCollatorForSeq2Seq(tokenizer, pad_to_multiple_of=64)
    sampler = MultipackBatchSampler(
        sampler=SequentialSampler(data), lengths=get_dataset_lengths(data), batch_size=1, batch_max_len=256,
        group_size=100_000, bin_size=200, drop_last=False, num_processes=1,
    )  # fmt: skip
    data = data.remove_columns(["length"])
    most: tuple[dict[str, Any], list[Document]] = {}, []
    for bins in sampler:
        batch = collator([[data[at] for at in each] for each in bins])
        for ids, labels, number in zip(batch["input_ids"], batch["labels"], batch["attention_mask"], strict=True):
            found += (one := list(numbered(ids, labels, number)))
        most = max(most, ({name: batch[name] for name in ("input_ids", "position_ids")}, one), key=size)
    yield compared(kind, "its packs, V2BatchSamplerDataCollatorForSeq2Seq", found, wanted)
    # Where the attention reads position ids, its trainer leaves the mask out.
    yield alone(kind, "its position ids", model, *most)


# ── there: LLaMA-Factory ─────────────────────────────────────────────────────────────────────────────────────────────


def llamafactory(folder: Path) -> Iterator[str]:
    """Read through tokenized_path, collate with its collators."""
    from importlib.metadata import version

    yield f"llamafactory {version('llamafactory')}, transformers {version('transformers')}"
    for kind in ("packed", "cut", "ragged"):
        for attention in ("sdpa", "flash_attention_2"):
            yield from _llamafactory_sft(folder, kind, attention)
    yield from _llamafactory_dpo(folder)


def _llamafactory_data(folder: Path, kind: str, stage: str) -> tuple[Any, Any, Any, Any]:
    from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
    from llamafactory.hparams import DataArguments, ModelArguments
    from transformers import Seq2SeqTrainingArguments

    tokenizer, model = small(folder)
    told = DataArguments(template="empty", tokenized_path=str(folder / f"to-{kind}"), dataset="none")
    template = get_template_and_fix_tokenizer(tokenizer, told)
    run = Seq2SeqTrainingArguments(output_dir=str(folder / "run"), use_cpu=True, report_to="none")
    names = ModelArguments(model_name_or_path="none")
    data = get_dataset(template, names, told, run, stage=stage, tokenizer=tokenizer)["train_dataset"]
    return data, tokenizer, template, model


def _llamafactory_sft(folder: Path, kind: str, attention: str) -> Iterator[str]:
    import torch
    from llamafactory.data import SFTDataCollatorWith4DAttentionMask

    data, tokenizer, template, model = _llamafactory_data(folder, kind, "sft")
    neat, flash = kind != "ragged", attention == "flash_attention_2"
    collator = SFTDataCollatorWith4DAttentionMask(
        template=template, model=None, pad_to_multiple_of=8, label_pad_token_id=IGNORED, block_diag_attn=neat,
        neat_packing=neat, attn_implementation=attention, compute_dtype=torch.float32, tokenizer=tokenizer,
    )  # fmt: skip
    pack = {"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4], "attention_mask": [1, 1, 2, 2]}
    if kind == "packed" and not flash:
        yield firsts(collator([pack])["labels"])
    found, at_once = [], 1 if flash and neat else 3
    most: tuple[dict[str, Any], list[Document]] = {}, []
    for begin in range(0, len(data), at_once):
        rows = [data[at] for at in range(begin, min(begin + at_once, len(data)))]
        numbers = [row["attention_mask"] for row in rows]
        batch = collator(rows)
        for at, (ids, labels) in enumerate(zip(batch["input_ids"], batch["labels"], strict=True)):
            if not neat:
                one = list(numbered(ids, labels, batch["attention_mask"][at]))
            elif flash:
                one = list(cut(ids, labels, (batch["position_ids"][at] == 0).nonzero().flatten().tolist()))
            else:
                # The block of a token is what its row of the 4D mask lets it see, from itself back.
                sees = batch["attention_mask"][at, 0] == 0
                first = [int(row.nonzero()[0]) if row.any() else -1 for row in sees]
                assert all(int(row.sum()) == place - first[place] + 1 for place, row in enumerate(sees) if row.any())
                one = list(numbered(ids, labels, torch.tensor(first) + 1))
                assert len(one) == max(numbers[at])
            found += one
            if neat:
                each = {name: batch[name] for name in ("input_ids", "position_ids", "attention_mask")}
                row = {name: None if value is None else value[at : at + 1] for name, value in each.items()}
                most = max(most, (row, one), key=size)
    yield compared(kind, f"tokenized_path, its collator for {attention}", found, expected(folder, kind))
    if neat:
        yield alone(kind, "its mask and position ids", model, *most)


def _llamafactory_dpo(folder: Path) -> Iterator[str]:
    from llamafactory.data import PairwiseDataCollatorWithPadding

    data, tokenizer, template, _ = _llamafactory_data(folder, "dpo", "rm")
    collator = PairwiseDataCollatorWithPadding(
        template=template, model=None, pad_to_multiple_of=8, label_pad_token_id=IGNORED, tokenizer=tokenizer
    )
    found: list[Document] = []
    for begin in range(0, len(data), 4):
        batch = collator([data[at] for at in range(begin, min(begin + 4, len(data)))])
        for ids, labels, mask in zip(batch["input_ids"], batch["labels"], batch["attention_mask"], strict=True):
            found += numbered(ids, labels, mask)
    yield compared("dpo", "tokenized_path, PairwiseDataCollatorWithPadding", found, expected(folder, "dpo"))


PEERS = {"trl": trl, "axolotl": axolotl, "llamafactory": llamafactory}

if __name__ == "__main__":
    main()
