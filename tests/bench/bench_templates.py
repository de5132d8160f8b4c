"""Chat templates: how fast conversations become ids and masks, and which tokens each way to find a mask gets wrong.

Templates and conversations are those of the data folder beside the checkout; without it nothing is measured. What
`transformers` and the peers' ways give comes from an environment of its own (`tests/bench/peers/transformers.txt`),
which PREP_BENCH_TRANSFORMERS names:

    PREP_BENCH_TRANSFORMERS=/tmp/transformers/bin/python .venv/bin/python tests/bench/main.py templates

Every template meets a small tokenizer that has all its markers, and the conversations of the golden file as they are
read here, where they render. A token is wrong where a mask differs from the rule's on the same ids. Ours is the rule,
so that the tests and not this bench say whether it is right. Left out are rows the rule drops, and those whose ids
differ on purpose because content spells control tokens. Where a way gives no mask no token is wrong, and the row counts
as without one.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prep_lib.chat import rendered
from prep_lib.chat.conversation import read
from prep_lib.chat.mask import Policy, explain
from prep_lib.chat.methods import METHODS, side_by_side
from prep_lib.chat.template import ChatTemplate
from prep_lib.errors import BadRecord
from prep_lib.record import Conversation
from prep_lib.tokens.tokenizer import AutoTokenizer

HERE = Path(__file__).parent
DATA = HERE.parents[1] / ".." / "shared" / "data"
GOLDEN = HERE.parent / "golden" / "chat_transformers.json.gz"
PEER = os.environ.get("PREP_BENCH_TRANSFORMERS", "")
CONVERSATIONS, RUNS = 3000, 3
TEMPLATE, TOKENIZER, CHATS = "qwen2_5_training", "tiny_bytelevel_chatml", "openai_messages_en"

#: What `mask_methods.py` calls the ways of the peers, and how the table does.
PEERS = {
    "generation": "generation tags, as TRL",
    "dummy": "dummy difference, as Axolotl",
    "markers": "string markers, as Unsloth",
}

#: bos and eos, by how a template's name begins; the others have <s> and </s>.
NAMED = {
    "qwen": ("", "<|im_end|>"), "deepseek": ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    "gptoss": ("", "<|return|>"), "phi3": ("", "<|endoftext|>"), "glm": ("", "<|endoftext|>"),
    "seed": ("<seed:bos>", "<seed:eos>"), "granite": ("<|end_of_text|>", "<|end_of_text|>"),
    "smollm": ("<|im_start|>", "<|im_end|>"), "phi4": ("", "<|im_end|>"), "axolotl_chatml": ("", "<|im_end|>"),
    "openinstruct": ("", "<|endoftext|>"),
}  # fmt: skip
MARKER = re.compile(r"<[|｜][^<>|｜\s]+[|｜]>|</?(?:seed:)?think>|</?seed:\w+>|\[/?[A-Z_]+\]|<sop>|</?tool_call>|</?s>")
TEXTS = ["The data is in the table. Where is the answer? assistant\nuser\nsystem\n"] * 9


class Case(NamedTuple):
    """One conversation through one template, the variables of the conversation among its own."""

    template: ChatTemplate
    talk: Conversation


def run() -> list[dict[str, Any]]:
    """Measure."""
    if not (DATA / "chat_templates").is_dir():
        print("templates: the data folder beside the checkout is not here; nothing is measured")
        return []
    return [*speed(), *wrong()]


# ------------------------------------------------------------ speed


def speed() -> Iterator[dict[str, Any]]:
    """Rendering, encoding and masking 3,000 conversations, beside the same by `transformers`."""
    source = (DATA / "chat_templates" / f"{TEMPLATE}.jinja").read_text("utf-8")
    model = AutoTokenizer.load(DATA / "tokenizers" / f"{TOKENIZER}.json")
    template = ChatTemplate(source, model, name=TEMPLATE)
    path = DATA / "sft" / f"{CHATS}.jsonl"
    talks = [made for line in path.open("rb") if isinstance(made := read(json.loads(line)), Conversation)]
    talks = list(itertools.islice(itertools.cycle(talks), CONVERSATIONS))
    rendered.rows(template, Policy(), talks[:100])
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        rendered.rows(template, Policy(), talks)
        times.append(time.perf_counter() - start)
    ours = CONVERSATIONS / statistics.median(times)
    name = f"conversations to ids and masks, {CONVERSATIONS:,} of {CHATS}"
    yield {"name": name, "value": ours, "unit": "1/s", "goal": None, "runs": RUNS}
    if PEER:
        files = [path, DATA / "chat_templates" / f"{TEMPLATE}.jinja", DATA / "tokenizers" / f"{TOKENIZER}.json"]
        told = json.loads(_peer("chat_transformers.py", "time", *map(str, files)).splitlines()[-1])
        yield {
            "name": f"the same, against {told['name']}", "value": ours / told["conversations_per_second"],
            "unit": "times", "goal": ">= 5", "runs": RUNS,
        }  # fmt: skip


# ------------------------------------------------------------ wrong tokens


def wrong() -> Iterator[dict[str, Any]]:
    """Tokens that differ from the rule where a way gives a mask, in percent of what the rule trains there."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        found = [(case, made) for case in _cases(folder) if (made := _ours(case)) is not None]
        peers = _theirs([case for case, _ in found], folder) if PEER else [None] * len(found)
    tallies: dict[str, Tally] = {}
    for (_, (ids, masks)), peer in zip(found, peers, strict=True):
        if peer is not None:
            # Ids differ where a template is rendered otherwise there; then positions mean nothing.
            same = peer.get("ids") == ids
            masks = masks | {PEERS[key]: _digits(peer[key]) if same else None for key in PEERS}
        for name, other in masks.items():
            tallies.setdefault(name, Tally()).add(masks["rule"], other)
    for name, tally in tallies.items():
        told = f"{tally.differing} of {tally.rows} masks differ, {len(found) - tally.rows} rows without one"
        yield {
            "name": f"wrong tokens, {name}: {told}", "value": 100 * tally.wrong / max(tally.targets, 1),
            "unit": "%", "goal": "<= 0" if name == "rule" else None, "runs": 1,
        }  # fmt: skip


@dataclass
class Tally:
    """What a way gave: rows with a mask, those that differ from the rule, tokens that do, and the rule's targets."""

    rows: int = 0
    differing: int = 0
    wrong: int = 0
    targets: int = 0

    def add(self, right: np.ndarray, other: np.ndarray | None) -> None:
        """Count one row."""
        if other is not None:
            self.rows += 1
            self.differing += int((right != other).any())
            self.wrong += int((right != other).sum())
            self.targets += int(right.sum())


def _cases(folder: Path) -> Iterator[Case]:
    golden = json.loads(gzip.decompress(GOLDEN.read_bytes()))
    shapes = [shape for shape in golden["shapes"].values() if not shape["add_generation_prompt"]]
    for name in golden["templates"]:
        source, model = _load(name, folder)
        for shape in shapes:
            try:
                talk = read({"messages": shape["messages"], "tools": shape["tools"] or []})
            except BadRecord:
                continue
            assert isinstance(talk, Conversation)
            yield Case(ChatTemplate(source, model, name=name, variables=shape["variables"]), talk)


def _load(name: str, folder: Path) -> tuple[str, AutoTokenizer]:
    """Return a template with a tokenizer that has all its markers."""
    source = (DATA / "chat_templates" / f"{name}.jinja").read_text("utf-8")
    bos, eos = next((pair for start, pair in NAMED.items() if name.startswith(start)), ("<s>", "</s>"))
    markers = {*MARKER.findall(source), eos, *([bos] if bos else []), *("[INST]", "[/INST]")}
    model = AutoTokenizer().train(TEXTS, 256 + len(markers) + 200, special_tokens=sorted(markers))
    model.bos_token, model.eos_token = bos or None, eos
    model.save(folder / name)
    return source, model


def _ours(case: Case) -> tuple[list[int], dict[str, Any]] | None:
    """Return ids and the mask of each way; None where the rule gives none."""
    try:
        told = explain(case.template, case.talk, Policy())
    except BadRecord:
        return None
    found = side_by_side(case.template, case.talk, told=told)
    if found["rule"].mask is None or told.encoded.rendered.literal or not told.mask.any():
        return None
    return told.encoded.ids.tolist(), {name: found[name].mask for name in METHODS}


def _theirs(cases: Sequence[Case], folder: Path) -> list[dict[str, Any]]:
    """Return what the peers' ways give; they are told the special tokens, and which tokens end a turn."""
    lines = []
    for template, talk in cases:
        model, name = template.tokenizer, template.name
        assert model is not None
        row = {
            "template": str(DATA / "chat_templates" / f"{name}.jinja"),
            "tokenizer": str(folder / name / "tokenizer.json"),
            "messages": [message.as_dict() for message in talk.messages],
            "tools": list(talk.tools) or None,
            "variables": {**model.special_variables, **template.variables},
            "stop": [model.token(id) for id in template.stop_ids],
        }
        lines.append(json.dumps(row) + "\n")
    return [json.loads(line) for line in _peer("mask_methods.py", given="".join(lines)).splitlines()]


def _peer(script: str, *arguments: str, given: str = "") -> str:
    command = [PEER, script, *arguments]
    return subprocess.run(command, cwd=HERE / "peers", input=given, capture_output=True, text=True, check=True).stdout


def _digits(told: Any) -> np.ndarray | None:
    return np.array([digit == "1" for digit in told]) if isinstance(told, str) else None


def main() -> None:
    """Print one line a figure."""
    for row in run():
        print(f"{row['name']}: {row['value']:.4g} {row['unit']} (goal {row['goal'] or 'none'}; {row['runs']} runs)")


if __name__ == "__main__":
    main()
