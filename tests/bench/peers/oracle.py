"""What shards hold, checked against `transformers` by a reader and a mask rule that share no code with ours.

    python3.11 -m venv /tmp/trl && /tmp/trl/bin/pip install -r tests/bench/peers/trl.txt h5py zstandard
    cd tests/bench/peers
    /tmp/trl/bin/python oracle.py check MODEL KIND SHARDS[:POLICY] [SHARDS[:POLICY] …] -- FILE.jsonl [FILE.jsonl …]
    /tmp/trl/bin/python oracle.py labels SHARDS CONVERTED

Runs in that environment only, never in the product's, and imports nothing of the product: shards are opened by h5py,
rows are read by the few lines below, text and ids are what `apply_chat_template` gives.

`check` takes a model folder (tokenizer, template, generation_config.json), a KIND (``sft``, ``dpo``, ``kto``), folders
of shards built from the same files, each with the policy it was built with (``default``, ``last``, ``noreason``), and
the files in the order of the build. Each message is rendered once more with marks (noncharacters of Unicode, taken out
again) around what it says, so the place of each answer in the text is known; where the text without marks is not the
text, the template looks at its content too closely, and the row counts as ``unmarked``. For each document row:

    ids        equal to `apply_chat_template`; where data spell a control token: the text decodes alike, and there are
               as many control tokens as for the same conversation with a harmless word in their place
    start      of each answer: the length of the ids of the conversation before it with ``add_generation_prompt``, where
               that is a prefix; elsewhere nothing before the header is trained, and headers are listed
    end        the first stop token behind what is said, else the end of what is said
    nothing    else is trained: no user, system or tool text, nothing between answers
    said       what is trained decodes to what the answer says
    every      row of the input is in the shards or among the rejected, once
    same       packed and ragged hold the same documents

Prints one JSON line: counts of what was checked, failures by kind with their first examples, dropped rows by reason,
and the distinct frames: what stands untrained before, and trained around, what answers say.

`labels` compares a folder of `prep convert --to trl` with its shards through TRL's own collator: the same documents,
the same ids, and the labels that the mask asks for.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

NOW = datetime.datetime(2026, 1, 2)

#: Ends of answers that templates write though neither tokenizer nor generation_config names them.
KNOWN_STOPS = (
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|end_of_text|>",
    "</s>",
    "<｜end▁of▁sentence｜>",
    "<seed:eos>",
)
#: A mark is <U+FDD0><letter><message>;
OPENED = r"<(?:seed:)?think>"
CLOSED = r"</(?:seed:)?think>"
THOUGHT = r"</?(?:seed:)?think>"
MARK, MARKED = "\ufdd0", re.compile("\ufdd0([a-z])([0-9]+);")

Message = dict[str, Any]


# ── records, read once more ──────────────────────────────────────────────────────────────────────────────────────────

ROLES = {
    "human": "user", "gpt": "assistant", "function_call": "assistant", "tool_call": "assistant", "observation": "tool",
    "function": "tool", "tool_response": "tool", "developer": "system", "model": "assistant", "bot": "assistant",
}  # fmt: skip


def message(said: Message) -> Message:
    """Return a message as templates read it."""
    role = said.get("role", said.get("from"))
    content = said.get("content", said.get("value"))
    out: Message = {"role": ROLES.get(role, role), "content": ""}
    calls = [plain_call(call) for call in said.get("tool_calls") or ()]
    if isinstance(content, list):
        texts = []
        for part in content:
            text = part.get("value", part.get(part["type"]))
            if part["type"] == "text":
                texts.append(text)
            elif part["type"] == "tool_call":
                calls.append(plain_call(json.loads(text) if isinstance(text, str) else text))
            else:
                out["reasoning_content"] = text
        out["content"] = "".join(texts)
    elif role in ("function_call", "tool_call"):
        made = json.loads(content)
        calls += [plain_call(call) for call in (made if isinstance(made, list) else [made])]
    else:
        out["content"] = content or ""
    for name in ("reasoning_content", "reasoning", "thinking"):
        if said.get(name) is not None:
            out["reasoning_content"] = said[name]
    if calls:
        out["tool_calls"] = calls
    out |= {name: said[name] for name in ("tool_call_id", "name") if said.get(name)}
    weights = [said[name] for name in ("loss_weight", "weight", "train") if said.get(name) is not None]
    return out | ({"_weight": min(map(float, weights))} if weights else {})


def plain_call(call: Any) -> dict[str, Any]:
    """Return a tool call as OpenAI spells it."""
    made = call.get("function", call)
    own = {"type": "function"} | ({"id": call["id"]} if call.get("id") else {})
    return own | {"function": {"name": made["name"], "arguments": made["arguments"]}}


def plain_tools(tools: Any) -> list[Any]:
    """Return tools as the record has them; some data sets leave out `{"type": "function", "function": …}`."""
    return list(json.loads(tools) if isinstance(tools, str) and tools.strip() else tools or [])


def talks(record: dict[str, Any], kind: str) -> list[tuple[list[Message], int]]:
    """Return the conversations of a record, each with the index of the first message that may be trained."""
    if "messages" in record or "conversations" in record:
        before = [message(said) for said in record.get("messages") or record["conversations"]]
    elif "instruction" in record:
        asked = "\n".join(text for text in (record["instruction"], record.get("input")) if text)
        before = [{"role": "user", "content": asked}]
    elif "query" in record or "prompt" in record:
        before = [{"role": "user", "content": record.get("query", record.get("prompt"))}]
    else:
        before = []
    if record.get("system"):
        before.insert(0, {"role": "system", "content": record["system"]})
    if kind != "dpo":
        answer = next((record[name] for name in ("response", "completion", "output") if name in record), None)
        whole = before + ([] if answer is None else [{"role": "assistant", "content": answer}])
        return [(whole, len(whole) - 1 if kind == "kto" else 0)]
    if "chosen_messages" in record:
        both = [[message(said) for said in record[f"{which}_messages"]] for which in ("chosen", "rejected")]
        shared = next((at for at, (a, b) in enumerate(zip(*both, strict=False)) if a != b), min(map(len, both)))
        return [(talk, shared) for talk in both]
    answers = [record[which] for which in ("chosen", "rejected")]
    ends = [[message(one) if isinstance(one, dict) else {"role": "assistant", "content": one}] for one in answers]
    return [(before + end, len(before)) for end in ends]


# ── what transformers makes of a conversation, and where its answers stand ───────────────────────────────────────────


@dataclass
class Answer:
    """One answer in a text; all places are characters.

    `start` is exact where the prompt is a prefix of the text, else the end of what was said before; `first` and `said`
    bound what it says itself; `stop` is the end of its stop token or None; what it thinks ends at `thought` at the
    earliest, at `rest` at the latest (a text may tell of the tags).
    """

    at: int
    start: int
    exact: bool
    prompt_ids: int | None
    first: int
    said: int
    stop: int | None
    thought: int | None
    rest: int | None
    cores: list[tuple[int, int]]

    @property
    def end(self) -> int:
        """The end of what is to be trained."""
        return self.said if self.stop is None else self.stop


@dataclass
class Reference:
    """A conversation as `transformers` has it."""

    text: str
    ids: list[int]
    starts: np.ndarray
    stops: np.ndarray
    literal: bool
    controls: int
    answers: dict[int, Answer]
    foreign: list[tuple[int, int, int]]
    problem: str = ""
    unsaid: list[int] = field(default_factory=list)
    partly: list[int] = field(default_factory=list)


def pin_today() -> None:
    """Let every template see the same date."""
    from transformers.utils import chat_template_utils

    class Pinned(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Pinned:
            return cls(NOW.year, NOW.month, NOW.day)

    chat_template_utils.datetime = Pinned


class Model:
    """A model folder through `transformers`."""

    def __init__(self, folder: Path) -> None:
        from transformers import PreTrainedTokenizerFast

        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        self.template = (folder / "chat_template.jinja").read_bytes().decode()
        config = folder / "generation_config.json"
        named = json.loads(config.read_text()).get("eos_token_id", []) if config.is_file() else []
        named = named if isinstance(named, list) else [named]
        known = self.tokenizer.get_vocab()
        own = [name for name in KNOWN_STOPS if name in known]
        ids = [self.tokenizer.eos_token_id, *named, *(known[name] for name in own)]
        self.stop_ids = {id for id in ids if id is not None}
        self.stops = [self.tokenizer.convert_ids_to_tokens(id) for id in self.stop_ids]
        added = self.tokenizer.added_tokens_decoder
        self.special = {id: token.content for id, token in added.items() if token.special}
        self.literals = re.compile("|".join(re.escape(text) for text in sorted(self.special.values(), key=len)[::-1]))
        self.byte_level = "ByteLevel" in str(json.loads(self.tokenizer.backend_tokenizer.to_str())["decoder"])

    @cached_property
    def bytes_of(self) -> dict[str, int]:
        """GPT-2's letters for bytes."""
        keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = (byte for byte in range(256) if byte not in keep)
        return {chr(byte): byte for byte in keep} | {chr(256 + at): byte for at, byte in enumerate(others)}

    def render(self, messages: Sequence[Message], tools: Any, prompt: bool = False) -> str:
        given = [{key: value for key, value in said.items() if key != "_weight"} for said in messages]
        return str(
            self.tokenizer.apply_chat_template(
                given, tools=tools or None, chat_template=self.template, add_generation_prompt=prompt, tokenize=False
            )
        )

    def ids(self, messages: Sequence[Message], tools: Any, prompt: bool = False) -> Any:
        given = [{key: value for key, value in said.items() if key != "_weight"} for said in messages]
        return self.tokenizer.apply_chat_template(
            given, tools=tools or None, chat_template=self.template, add_generation_prompt=prompt, return_dict=True,
            tokenizer_kwargs={"return_offsets_mapping": True},
        )  # fmt: skip

    def spans(self, ids: Sequence[int], text: str) -> tuple[np.ndarray, np.ndarray] | None:
        """Return first and last characters of each id by its bytes; None if they do not spell the text."""
        pieces = [
            self.special[id].encode() if id in self.special else bytes(self.bytes_of[letter] for letter in token)
            for id, token in zip(ids, self.tokenizer.convert_ids_to_tokens(ids), strict=True)
        ]
        whole = b"".join(pieces)
        if whole != text.encode():
            return None
        ends = np.cumsum([0, *map(len, pieces)])
        begins = np.frombuffer(whole, np.uint8) & 0xC0 != 0x80
        letter = np.concatenate([np.cumsum(begins) - 1, [int(begins.sum())]])
        return letter[ends[:-1]], letter[np.maximum(ends[1:] - 1, 0)] + 1

    def reference(self, messages: list[Message], tools: Any) -> Reference:
        """Render, encode, and find the answers."""
        text = self.render(messages, tools)
        made = self.ids(messages, tools)
        ids, offsets = made["input_ids"], np.array(made["offset_mapping"], np.int64).reshape(-1, 2)
        said = json.dumps([*messages, *tools], ensure_ascii=False)
        literal = any(self.literals.search(one) for one in values([messages, tools]))
        controls = sum(id in self.special for id in ids)
        if literal:
            try:
                harmless = self.ids(replaced(messages, self.literals), replaced(tools, self.literals))["input_ids"]
                controls = sum(id in self.special for id in harmless)
            except Exception:
                controls = -1
        out = Reference(text, ids, offsets[:, 0], offsets[:, 1], literal, controls, {}, [])
        if MARK in said:
            out.problem = "marks in data"
            return out
        for empty in (True, False):
            try:
                with_marks = self.render([marked(one, at, empty) for at, one in enumerate(messages)], tools)
            except Exception as error:
                out.problem = f"marks: {type(error).__name__}"
                continue
            out.problem = "" if MARKED.sub("", with_marks) == text else "unmarked"
            if not out.problem:
                break
        if out.problem:
            return out
        self.place(out, with_marks, messages, tools)
        return out

    def place(self, out: Reference, with_marks: str, messages: list[Message], tools: Any) -> None:
        """Find each answer in the text by its marks."""
        places: dict[tuple[str, int], list[int]] = defaultdict(list)
        shift = 0
        for found in MARKED.finditer(with_marks):
            places[found[1], int(found[2])].append(found.start() - shift)
            shift += len(found[0])
        data = []
        for at, one in enumerate(messages):
            cores = []
            for begin, end in (("c", "d"), ("t", "u")):
                cores += list(zip(places["cdtu"["cdtu".index(begin)], at], places[end, at], strict=False))
            names = places["n", at]
            if one["role"] == "assistant":
                # A result may repeat the name of what was called: it stands behind a stop token.
                own = [name for name in names if not any(stop in out.text[names[0] : name] for stop in self.stops)]
                spans = sorted(cores + [(name, name + 1) for name in own])
                if len(own) < len(one.get("tool_calls", ())) or not (cores or not one["content"].strip()):
                    out.partly.append(at)
                if not spans:
                    out.unsaid.append(at)
                else:
                    data.append((spans, at))
            else:
                out.foreign += [(begin, end, at) for begin, end in cores]
        starts = sorted([spans[0][0] for spans, _ in data] + [begin for begin, _, _ in out.foreign])
        for spans, at in data:
            out.answers[at] = self.answer(out, messages, tools, at, spans, places, starts)

    def answer(
        self, out: Reference, messages: list[Message], tools: Any, at: int, spans: list[tuple[int, int]],
        places: Any, starts: list[int],
    ) -> Answer:  # fmt: skip
        """Return one answer: where its prompt ends, what it says, and its stop token."""
        first, said = spans[0][0], max(end for _, end in spans)
        ends = [end for begin, end, _ in out.foreign if end <= first]
        ends += [one.end for one in out.answers.values() if one.end <= first]
        start, exact, size = max(ends, default=0), False, None
        try:
            prompt = self.render(messages[:at], tools, True)
            if out.text.startswith(prompt):
                start, exact = len(prompt), True
                given = self.ids(messages[:at], tools, True)["input_ids"]
                size = len(given) if out.ids[: len(given)] == given else -1
        except Exception:
            exact = False
        behind = min((begin for begin in starts if begin > said), default=len(out.text))
        found = [(out.text.find(stop, said, behind), stop) for stop in self.stops]
        found = [(place + len(stop), place) for place, stop in found if place >= 0]
        stop = min(found, key=lambda pair: pair[1])[0] if found else None
        if stop is None and messages[at].get("tool_calls"):
            # What the template writes behind a call closes it.
            said += len(out.text[said:behind].rstrip())
        thought = max(places["u", at], default=None)
        answered = min(places["c", at] + places["n", at], default=said)
        closed = [tag.start() for tag in re.finditer(CLOSED, out.text[:said]) if tag.start() >= start]
        rest = max([tag + 1 for tag in closed], default=None)
        if thought is not None:
            rest = max(thought, rest or 0)
        elif closed:
            # A tag that nothing opens may be a thought's or the answer's own word.
            opened = re.search(OPENED + r"\s*\Z", out.text[:start]) or re.match(r"\s*" + OPENED, out.text[start:])
            thought = min(closed) if opened else start
        elif messages[at].get("reasoning_content") and answered > first:
            thought = rest = first
        return Answer(at, start, exact, size, first, said, stop, thought, rest, spans)


def values(said: Any) -> Iterator[str]:
    """Yield every text in a structure."""
    if isinstance(said, str):
        yield said
    elif isinstance(said, dict):
        yield from values(list(said.items()))
    elif isinstance(said, list | tuple):
        for one in said:
            yield from values(one)


def replaced(said: Any, what: re.Pattern[str], keep: str = "") -> Any:
    """Return a structure with every control token in its texts made a harmless word.

    The tags around a thought are kept in answers: there the model itself writes them.
    """
    if isinstance(said, str):
        return what.sub(lambda found: found[0] if keep and re.fullmatch(keep, found[0]) else "harmless", said)
    if isinstance(said, dict):
        keep = THOUGHT if said.get("role") == "assistant" else keep
        return {key: replaced(value, what, keep) for key, value in said.items()}
    return [replaced(one, what, keep) for one in said] if isinstance(said, list) else said


def around(text: str, begin: str, end: str, at: int, empty: bool = False) -> str:
    """Put marks around a text, inside its blanks; behind blanks alone."""
    core = text.strip()
    if not core:
        return f"{text}{MARK}{begin}{at};{MARK}{end}{at};" if text or empty else text
    lead = text.index(core)
    return f"{text[:lead]}{MARK}{begin}{at};{core}{MARK}{end}{at};{text[lead + len(core) :]}"


def marked(said: Message, at: int, empty: bool) -> Message:
    """Return a message with marks around what it says."""
    out = dict(said)
    thought, tag, rest = said["content"].rpartition("</think>")
    if said["role"] == "assistant" and tag and (thought + rest).strip():
        before, opening, inner = thought.rpartition("<think>")
        begin, end = "cd" if said.get("reasoning_content") else "tu"
        out["content"] = f"{before}{opening}{around(inner, begin, end, at)}{tag}{around(rest, 'c', 'd', at)}"
    else:
        out["content"] = around(said["content"], "c", "d", at, empty)
    if said.get("reasoning_content"):
        out["reasoning_content"] = around(said["reasoning_content"], "t", "u", at)
    if said.get("tool_calls"):
        out["tool_calls"] = [
            call | {"function": call["function"] | {"name": f"{MARK}n{at};{call['function']['name']}"}}
            for call in said["tool_calls"]
        ]
    return out


# ── what the shards hold ─────────────────────────────────────────────────────────────────────────────────────────────

Key = tuple[str, int]


def documents(folder: Path) -> Iterator[tuple[Key, dict[str, np.ndarray]]]:
    """Yield each document row of a folder: where it was read from, and its arrays."""
    for path in sorted(folder.glob("chunk_*.h5")):
        with h5py.File(path) as file:
            names = [name.decode() for name in file["documents/sources"][:]]
            origin = [
                (names[source], int(line))
                for source, line in zip(file["documents/source"][:], file["documents/line"][:], strict=True)
            ]
            keys = [key for key in file if key not in ("segments", "documents", "offsets")]
            arrays = {key: file[key][:] for key in keys}
            if "segments" in file:
                # `segments/start` is a place in the document; pieces stand in their row one behind the other.
                told = [file[f"segments/{name}"][:].tolist() for name in ("row", "start", "length", "document")]
                filled: Counter[int] = Counter()
                for row, start, length, document in zip(*told, strict=True):
                    assert start == 0, "a document is cut"
                    begin = filled[row]
                    filled[row] += length
                    yield origin[document], {key: arrays[key][row, begin : begin + length] for key in keys}
                if "loss_mask" in arrays:
                    padding = [arrays["loss_mask"][row, filled[row] :].any() for row in range(len(arrays["loss_mask"]))]
                    assert not any(padding), "padding is trained"
                continue
            offsets = {key: file[f"offsets/{key}"][:] for key in keys if f"offsets/{key}" in file}
            for at, where in enumerate(origin):
                yield (
                    where,
                    {
                        key: arrays[key][offsets[key][at] : offsets[key][at + 1]] if key in offsets else arrays[key][at]
                        for key in keys
                    },
                )


def rejected(folder: Path) -> dict[Key, str]:
    """Return the reason of each rejected row."""
    import zstandard

    path = folder / "rejected.jsonl.zst"
    with path.open("rb") as raw:
        lines = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True).read().splitlines()
    out: dict[Key, str] = {}
    for line in map(json.loads, lines):
        name, _, number = line["id"].rpartition("#L")
        assert (name, int(number)) not in out, f"rejected twice: {line['id']}"
        out[name, int(number)] = line["reason"]
    return out


# ── the check ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Report:
    """What was counted and what failed."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.examples: dict[str, list[Any]] = defaultdict(list)
        self.dropped: dict[str, Counter[str]] = {}
        self.overdropped: Counter[str] = Counter()
        self.frames: Counter[tuple[str, str, str, str]] = Counter()

    def fail(self, kind: str, where: Any, **more: Any) -> None:
        self.failures[kind] += 1
        if len(self.examples[kind]) < 3:
            self.examples[kind].append({"where": where, **more})


def wanted(messages: list[Message], first: int, policy: str) -> list[int]:
    """Return the answers to train."""
    asked = max((at for at, said in enumerate(messages) if said["role"] == "user"), default=-1)
    return [
        at
        for at, said in enumerate(messages)
        if said["role"] == "assistant"
        and at >= first
        and said.get("_weight", 1) > 0
        and (said["content"] or said.get("tool_calls") or said.get("reasoning_content"))
        and (policy != "last" or at > asked)
    ]


def check_row(
    model: Model, reference: Reference, ids: np.ndarray, mask: np.ndarray, aims: list[int], policy: str,
    where: Any, report: Report,
) -> None:  # fmt: skip
    """Check one sequence and its mask."""
    report.counts["sequences"] += 1
    got = ids.tolist()
    starts, stops = reference.starts, reference.stops
    if reference.literal:
        report.counts["with literal control tokens"] += 1
        if model.byte_level:
            spans = model.spans(got, reference.text)
            if spans is None:
                report.fail("text of ids", where, got=model.tokenizer.decode(got)[:300], right=reference.text[:300])
                return
            starts, stops = spans
            if reference.controls >= 0 and sum(id in model.special for id in got) != reference.controls:
                report.fail(
                    "count of control tokens", where, got=sum(id in model.special for id in got),
                    right=reference.controls,
                )  # fmt: skip
        elif got != reference.ids:
            report.counts["literal, not compared"] += 1
            return
    elif got != reference.ids:
        at = next(
            (at for at, (a, b) in enumerate(zip(got, reference.ids, strict=False)) if a != b),
            min(len(got), len(reference.ids)),
        )
        around_it = slice(max(0, at - 5), at + 8)
        report.fail(
            "ids", where, at=at, got=model.tokenizer.decode(got[around_it]),
            right=model.tokenizer.decode(reference.ids[around_it]),
        )  # fmt: skip
        return
    else:
        report.counts["ids equal"] += 1
    if reference.problem:
        report.counts[reference.problem] += 1
        return
    may, must = np.zeros(len(got), bool), np.zeros(len(got), bool)
    for at in aims:
        answer = reference.answers.get(at)
        if answer is None:
            report.fail("answer not in the text", where, message=at)
            continue
        report.counts["answers"] += 1
        report.counts["answers of which the template leaves out a part"] += at in reference.partly
        begin = answer.start if answer.exact else answer.first
        free = policy == "noreason" and answer.thought is not None
        inside = (starts >= begin) & (stops <= answer.end)
        if free:
            rest = min((core for core, _ in answer.cores if core >= answer.rest), default=answer.end)
            must |= inside & (starts >= rest)
            may |= (starts >= max(answer.start, answer.thought)) & (stops <= answer.end)
        else:
            must |= inside
            may |= (starts >= answer.start) & (stops <= answer.end)
        inner = np.flatnonzero(mask & (starts >= answer.start) & (stops <= answer.end))
        if answer.end == answer.start:
            report.counts["answers of nothing"] += 1
            continue
        if not len(inner):
            report.fail("answer not trained", where, message=at, text=reference.text[answer.start : answer.end][:200])
            continue
        one, last = int(inner[0]), int(inner[-1])
        if answer.exact and not free:
            report.counts["starts exact"] += 1
            if not reference.literal and answer.prompt_ids != one:
                right = answer.prompt_ids
                report.fail("start is not the length of the prompt", where, message=at, got=one, right=right)
        elif not answer.exact:
            report.counts["starts by bounds"] += 1
        if answer.stop is not None:
            report.counts["stops"] += 1
            if got[last] not in model.stop_ids:
                report.fail("last is no stop token", where, message=at, got=model.tokenizer.decode([got[last]]))
        else:
            report.counts["no stop token in the template"] += 1
        cores = [(begin, end) for begin, end in answer.cores if not (free and begin < answer.rest)]
        told = model.tokenizer.decode(got[one : last + 1], skip_special_tokens=False)
        if model.byte_level and any(reference.text[begin:end] not in told for begin, end in cores):
            report.fail("decoded text", where, message=at, got=told[:300])
        if answer.stop is not None and last == one and not free:
            report.fail("the stop token alone is trained", where, message=at, text=told)
        frame = (
            reference.text[max(0, int(starts[one]) - 40) : int(starts[one])] if at else "",
            reference.text[int(starts[one]) : answer.first] if not free else "(reasoning off)",
            reference.text[answer.said : int(stops[last])],
            reference.text[int(stops[last]) : int(stops[last]) + 15],
        )
        frame = (tail(frame[0]), head(frame[1]), head(frame[2]), frame[3].split("\n")[0][:15])
        report.frames[frame] += 1
    wrong = np.flatnonzero((mask & ~may) | (~mask & must))
    if len(wrong):
        at = int(wrong[0])
        hit = next((who for begin, end, who in reference.foreign if begin < stops[at] and end > starts[at]), None)
        kind = "not trained" if must[at] else "trained" if hit is None else "words of another message trained"
        low, high = max(0, int(starts[at]) - 60), int(stops[at]) + 60
        report.fail(
            f"mask: {kind}", where, token=at, wrong=len(wrong), text=reference.text[int(starts[at]) : int(stops[at])],
            around=reference.text[low:high], message=hit,
        )  # fmt: skip
    report.counts["masks"] += 1
    for begin, end, who in reference.foreign:
        if (mask & (starts < end) & (stops > begin) & (stops > starts)).any():
            report.fail("another's words trained", where, message=who, text=reference.text[begin:end][:100])


def tail(text: str) -> str:
    """Return the end of a text from its last control token or line on."""
    found = [place.start() for place in re.finditer(r"<[|｜]|\[/?[A-Z_]+\]|\n#|</?s", text)]
    return text[found[-1] if found else max(0, len(text) - 20) :]


def head(text: str) -> str:
    return text if len(text) < 50 else text[:25] + "…" + text[-20:]


def check(folder: Path, kind: str, shards: list[tuple[Path, str]], files: list[Path]) -> dict[str, Any]:
    """Check folders of shards built from the same files."""
    pin_today()
    model, report = Model(folder), Report()
    held = [dict(pairs_once(documents(path))) for path, _ in shards]
    lost = [rejected(path) for path, _ in shards]
    for (path, _), losses in zip(shards, lost, strict=True):
        report.dropped[path.name] = Counter(losses.values())
    names = source_names(files, [*(key for one in held for key in one), *(key for one in lost for key in one)])
    for file in files:
        lines = file.read_bytes().split(b"\n")
        for number, line in enumerate(lines, 1):
            if line.strip():
                key = names[file], number
                check_record(model, kind, key, line, shards, held, lost, report)
    for (path, _), rows, losses in zip(shards, held, lost, strict=True):
        if rows.keys() & losses.keys():
            report.fail("both stored and rejected", path.name, rows=sorted(rows.keys() & losses.keys())[:3])
    same(shards, held, report)
    return {
        "model": folder.name,
        "kind": kind,
        "counts": dict(report.counts),
        "failures": dict(report.failures),
        "examples": dict(report.examples),
        "dropped": {name: dict(reasons) for name, reasons in report.dropped.items()},
        "overdropped": dict(report.overdropped),
        "frames": [[*frame, count] for frame, count in report.frames.most_common(12)],
    }


def pairs_once(found: Iterator[tuple[Key, Any]]) -> Iterator[tuple[Key, Any]]:
    seen: set[Key] = set()
    for key, arrays in found:
        assert key not in seen, f"stored twice: {key}"
        seen.add(key)
        yield key, arrays


def source_names(files: list[Path], keys: list[Key]) -> dict[Path, str]:
    known = {name for name, _ in keys}
    return {file: next((name for name in known if str(file).endswith(f"/{name}")), file.name) for file in files}


def same(shards: list[tuple[Path, str]], held: list[dict[Key, Any]], report: Report) -> None:
    """Compare folders of one policy, row by row."""
    for at, (_, policy) in enumerate(shards):
        for other in range(at + 1, len(shards)):
            if shards[other][1] != policy:
                continue
            one, two = held[at], held[other]
            for key in one.keys() | two.keys():
                report.counts["compared packed and ragged"] += 1
                if key not in one or key not in two:
                    report.counts["in one of packed and ragged only"] += 1
                elif any(not np.array_equal(one[key][name], two[key][name]) for name in one[key]):
                    report.fail("packed and ragged differ", key)


def check_record(
    model: Model, kind: str, key: Key, line: bytes, shards: list[tuple[Path, str]],
    held: list[dict[Key, Any]], lost: list[dict[Key, str]], report: Report,
) -> None:  # fmt: skip
    """Check what each folder made of one record."""
    report.counts["records"] += 1
    for (path, _), rows, losses in zip(shards, held, lost, strict=True):
        if key not in rows and key not in losses:
            report.fail("neither stored nor rejected", [*key], folder=path.name)
    stored = [rows.get(key) for rows in held]
    try:
        record = json.loads(line)
        made, tools = talks(record, kind), plain_tools(record.get("tools"))
        references = [model.reference(messages, tools) for messages, _ in made]
    except Exception as error:
        report.counts["not rendered by transformers"] += 1
        if any(row is not None for row in stored):
            report.fail("stored, but transformers refuses", [*key], error=f"{type(error).__name__}: {error}"[:200])
        return
    for (_, policy), row, losses in zip(shards, stored, lost, strict=True):
        aims = [wanted(messages, first, policy) for messages, first in made]
        if row is None:
            provable = not any(one.problem or one.unsaid for one in references) and all(
                at in one.answers and one.answers[at].exact and one.answers[at].prompt_ids != -1
                for one, some in zip(references, aims, strict=True)
                for at in some
            )
            if provable and all(aims):
                report.overdropped[losses.get(key, "?")] += 1
            continue
        report.counts["rows"] += 1
        if kind == "dpo":
            size = int(row["prompt_length"])
            if row["chosen"][:size].tolist() != row["rejected"][:size].tolist():
                report.fail("prompts differ", [*key])
            for reference, aim, name in zip(references, aims, ("chosen", "rejected"), strict=True):
                mask = row[f"{name}_mask"]
                check_row(model, reference, row[name], mask, aim, policy, [*key, name], report)
                if mask[:size].any() or not mask[size]:
                    report.fail("prompt_length is not the first target", [*key, name])
        else:
            check_row(model, references[0], row["sequence"], row["loss_mask"], aims[0], policy, [*key, policy], report)
            if kind == "kto":
                right = json.loads(line).get("label", json.loads(line).get("kto_tag"))
                if int(row["label"]) != int(right):
                    report.fail("label", [*key], got=int(row["label"]), right=right)


# ── through TRL's collator ───────────────────────────────────────────────────────────────────────────────────────────


def labels(shards: Path, converted: Path) -> dict[str, Any]:
    """Compare a converted folder with its shards through TRL's collator."""
    from datasets import load_dataset
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    wanted_rows: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
    for _, arrays in documents(shards):
        ids, mask = arrays["sequence"], arrays["loss_mask"]
        wanted_rows[tuple(ids.tolist()), tuple(np.where(mask, ids, -100).tolist())] += 1
    files = [str(path) for path in sorted(converted.rglob("*.parquet"))]
    data = load_dataset("parquet", data_files=files, split="train")
    out: dict[str, Any] = {"columns": data.column_names, "rows": len(data), "documents": sum(wanted_rows.values())}
    packed = "seq_lengths" in data.column_names
    collator = DataCollatorForLanguageModeling(pad_token_id=0, padding_free=packed)
    found: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
    first = 0
    for at in range(0, len(data), 4):
        rows = [data[one] for one in range(at, min(at + 4, len(data)))]
        batch = collator(rows)
        for ids, aims in unbatched(batch, rows, packed):
            # In a padding-free batch the first token of a sequence has no target: nothing stands before it.
            found[ids, aims] += 1
            first += aims[0] != -100
    out |= {"missing": sum((wanted_rows - found).values()), "unexpected": sum((found - wanted_rows).values())}
    return out | {"first_token_trained": first, "collator": "padding_free" if packed else "padded"}


def unbatched(batch: Any, rows: list[Any], packed: bool) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    if packed:
        ids, aims = batch["input_ids"][0].tolist(), batch["labels"][0].tolist()
        begins = [at for at, place in enumerate(batch["position_ids"][0].tolist()) if place == 0]
        for begin, end in zip(begins, [*begins[1:], len(ids)], strict=True):
            yield tuple(ids[begin:end]), tuple(aims[begin:end])
        return
    for at, row in enumerate(rows):
        size = len(row["input_ids"])
        assert not (batch["labels"][at][size:] != -100).any()
        yield tuple(batch["input_ids"][at][:size].tolist()), tuple(batch["labels"][at][:size].tolist())


def main() -> None:
    """Run the subcommand and print what came of it as one JSON line."""
    match sys.argv[1:]:
        case ["check", model, kind, *more] if "--" in more:
            at = more.index("--")
            told = [(Path(path), policy or "default") for path, _, policy in (one.partition(":") for one in more[:at])]
            found = check(Path(model), kind, told, [Path(path) for path in more[at + 1 :]])
            print(json.dumps(found, ensure_ascii=False))
        case ["labels", shards, converted]:
            print(json.dumps(labels(Path(shards), Path(converted))))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
