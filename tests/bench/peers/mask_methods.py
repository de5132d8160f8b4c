"""Which tokens three other methods train, beside each other, for a bench that counts the wrong ones.

    /tmp/transformers/bin/python tests/bench/peers/mask_methods.py < rows.jsonl > masks.jsonl

Runs in the environment of transformers.txt only, never in the product's, and imports nothing of the product. The
methods are written anew from what they do, none of their code is used.

One JSON object a line comes in:

    template     path of a Jinja file
    tokenizer    path of a `tokenizer.json`; its special tokens are those in chat_transformers.py
    messages     the conversation, and, if wanted, tools (a list) and variables (further ones for the template)
    stop         end-of-turn texts for the dummy difference; without it the tokenizer's EOS, as is that tool's default
    instruction, response
                 the markers; without them they are read off the template with a probe conversation

and one goes out, in the same order:

    ids          of the whole conversation, encoded once; the same for all methods
    generation   what TRL's `assistant_only_loss` trains: tokens that overlap a `{% generation %}` block
    dummy        the dummy difference, as Axolotl does it: for each assistant turn the conversation up to it is encoded
                 with its content and with "[[dummy_message]]" instead; from the first to the last token that differs is
                 the turn, at the same place of the whole conversation. An end-of-turn token that begins at most two
                 tokens behind it is trained as well
    markers      string markers, as Unsloth does it: the ids of the response marker are looked for in the ids; trained
                 is what follows, up to and with EOS, or up to BOS, the next marker or the special tokens both markers
                 begin with. Where a marker holds an added token, ids at its edges that change with the text beside it
                 may be missing

each a text of one digit a token ("0110"), or {"error": [class, first line of the message]}, for example where a
template has no `{% generation %}`. If the whole conversation does not render, the line has only error. Today is
2026-01-02.
"""

from __future__ import annotations

import json
import string
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from chat_transformers import failure, has_generation, load_tokenizer, pin_today

DUMMY = "[[dummy_message]]"
NEIGHBOURS = string.punctuation + "xX7"
PROBES = ("QUERYPROBE7q", "REPLYPROBE4z")

Span = tuple[int, int]


class Model:
    """A template with a tokenizer."""

    def __init__(self, template: str, tokenizer: str) -> None:
        self.template = Path(template).read_bytes().decode()
        self.tokenizer = load_tokenizer(Path(tokenizer))

    def render(self, messages: Sequence[Any], **more: Any) -> str:
        return self.tokenizer.apply_chat_template(messages, chat_template=self.template, tokenize=False, **more)

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)

    @cached_property
    def markers(self) -> tuple[str, str]:
        """Read the markers off two turns: the header that opens an answer, and what follows the end of an answer."""
        query, reply = PROBES
        turns = [{"role": "user", "content": query}, {"role": "assistant", "content": reply}]
        whole, once = self.render(turns * 2), self.render(turns)
        first = whole.index(query) + len(query)
        between = whole[first : whole.index(reply)]
        after = whole[whole.index(reply) + len(reply) : whole.index(query, first)]
        asked, open_ = self.render(turns[:1]), self.render(turns[:1], add_generation_prompt=True)
        header = open_[agreeing(asked, open_) :]
        kept = max((size for size in range(len(header) + 1) if header[:size] in between), default=0)
        end = once[once.index(reply) + len(reply) :]
        # What ends a turn is no part of a marker: it stands at the very end, and mostly behind the user's turn too.
        asked_end = between[: between.index(header[:kept])]
        cut = max(agreeing(end, after), len(asked_end) if after.startswith(asked_end) else 0)
        return after[cut:].rstrip(" "), header[:kept] or between.rstrip(" ")


def alike(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return how many items two sequences begin with alike."""
    short = min(len(one), len(other))
    return next((at for at in range(short) if one[at] != other[at]), short)


def agreeing(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike, without half a token in angle brackets."""
    common = one[: alike(one, other)]
    opened = common.rfind("<")
    return opened if opened > common.rfind(">") else len(common)


@cache
def model(template: str, tokenizer: str) -> Model:
    """Load a template with a tokenizer, once."""
    return Model(template, tokenizer)


def digits(size: int, spans: Sequence[Span]) -> str:
    """Write a mask that is 1 inside the spans."""
    mask = [0] * size
    for start, stop in spans:
        mask[start:stop] = [1] * len(mask[start:stop])
    return "".join(map(str, mask))


# TRL ------------------------------------------------------------------------------------------------------------------


def generation(given: Model, row: dict[str, Any], ids: list[int]) -> str:
    """Train what stands in the template's generation blocks."""
    if not has_generation(given.template):
        raise ValueError("the template has no {% generation %}")
    out = given.tokenizer.apply_chat_template(
        row["messages"],
        chat_template=given.template,
        return_dict=True,
        return_assistant_tokens_mask=True,
        **variables(row),
    )
    return "".join(map(str, out["assistant_masks"]))


# Axolotl --------------------------------------------------------------------------------------------------------------


def difference(real: list[int], dummy: list[int]) -> Span | None:
    """Return the part of the real ids that differs from the dummy's, seen from both ends."""
    short = min(len(real), len(dummy))
    start = next((at for at in range(short) if real[at] != dummy[at]), None)
    behind = next((at for at in range(short) if real[-1 - at] != dummy[-1 - at]), None)
    if start is None or behind is None or len(real) - behind < start:
        return None
    return start, len(real) - behind


def dummy(given: Model, row: dict[str, Any], ids: list[int]) -> str:
    """Find each assistant turn by exchanging its content."""
    messages, spans = row["messages"], []
    stops = {tuple(given.encode(text)) for text in row.get("stop", [given.tokenizer.eos_token])}
    single = {stop[0] for stop in stops if len(stop) == 1}
    for at, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        pair = (messages[: at + 1], [*messages[:at], {"role": "assistant", "content": DUMMY}])
        real, other = (given.encode(given.render(turns, **variables(row))) for turns in pair)
        if (span := difference(real, other)) is None:
            continue
        near = range(span[1], min(span[1] + 3, len(ids)))
        ends = [place for place in near if ids[place] in single]
        spans += [span, *((place, place + 1) for place in ends[:1])]
    return digits(len(ids), spans)


# Unsloth --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Marker:
    """The ids of a marker: those that must be there, and those beside them that may."""

    left: list[int]
    core: list[int]
    right: list[int]

    def find(self, ids: list[int], at: int) -> Span | None:
        """Return the span of the marker whose core begins at a place."""
        start, stop = at, at + len(self.core)
        if ids[start:stop] != self.core:
            return None
        stop += alike(self.right, ids[stop : stop + len(self.right)])
        start -= alike(self.left[::-1], ids[max(0, start - len(self.left)) : start][::-1])
        return start, stop


@cache
def marker(given: Model, text: str) -> Marker:
    """Encode a marker, and try which of its ids stay the same whatever stands beside it."""
    ids = given.encode(text)
    right = min(alike(ids, given.encode(text + near)) for near in NEIGHBOURS)
    left = min(alike(ids[::-1], given.encode(near + text)[::-1]) for near in NEIGHBOURS)
    start = len(ids) - left
    # Without a token of its own, what is left of a marker could be anywhere in a text.
    if not any(token in given.tokenizer.added_tokens_decoder for token in ids[start:right]):
        start, right = 0, len(ids)
    return Marker(ids[:start], ids[start:right], ids[right:])


def longer(one: Marker, other: Marker) -> Marker:
    """Return the first marker, with all its ids where the second begins with it."""
    if alike(one.core, other.core) < len(one.core):
        return one
    return Marker(one.left, one.core + one.right, [])


def opener(given: Model, one: Marker, other: Marker) -> list[Marker]:
    """Return the special tokens that both markers begin with, which open a turn of any role."""
    shared = one.core[: alike(one.core, other.core)]
    added = given.tokenizer.added_tokens_decoder
    special = shared and all(token in added and added[token].special for token in shared)
    return [Marker([], shared, [])] if special else []


def answers(given: Model, ids: list[int], instruction: Marker, response: Marker) -> Iterator[Span]:
    """Yield what stands between each response marker and the next thing that ends an answer."""
    eos, bos = given.tokenizer.eos_token_id, given.tokenizer.bos_token_id
    borders = [instruction, response, *opener(given, instruction, response)]
    at = 0
    while at < len(ids):
        if not (here := response.find(ids, at)):
            at += 1
            continue
        start = at = here[1]
        border = None
        while at < len(ids) and ids[at] not in (eos, bos):
            if border := next(filter(None, (one.find(ids, at) for one in borders)), None):
                break
            at += 1
        at += at < len(ids) and ids[at] == eos
        yield start, max(start, border[0]) if border else at


def markers(given: Model, row: dict[str, Any], ids: list[int]) -> str:
    """Train what follows the response marker."""
    texts = given.markers if "response" not in row else (row["instruction"], row["response"])
    if not all(text.strip() for text in texts):
        raise ValueError(f"no markers: {texts}")
    instruction, response = (marker(given, text) for text in texts)
    both = longer(instruction, response), longer(response, instruction)
    return digits(len(ids), list(answers(given, ids, *both)))


# All ------------------------------------------------------------------------------------------------------------------

METHODS: dict[str, Callable[[Model, dict[str, Any], list[int]], str]] = {
    "generation": generation,
    "dummy": dummy,
    "markers": markers,
}


def variables(row: dict[str, Any]) -> dict[str, Any]:
    return {"tools": row.get("tools"), **row.get("variables", {})}


def attempt(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except Exception as error:
        return {"error": failure(error)}


def answer(row: dict[str, Any]) -> dict[str, Any]:
    """Run all methods on one row."""
    given = model(row["template"], row["tokenizer"])
    ids = attempt(lambda: given.encode(given.render(row["messages"], **variables(row))))
    if isinstance(ids, dict):
        return ids
    return {"ids": ids, **{name: attempt(partial(method, given, row, ids)) for name, method in METHODS.items()}}


def main() -> None:
    """Answer every line of stdin."""
    pin_today()
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
