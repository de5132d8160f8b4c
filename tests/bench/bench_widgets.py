"""How long a person waits for a widget: from a change of state to the page."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from prep_lib.tokens.tokenizer import AutoTokenizer
from widgets.packing.page import page as draw_packing
from widgets.packing.state import SIZES, SWEPT, Lengths, State, count, sweep
from widgets.workbench import state as workbench
from widgets.workbench.page import head, talk, tokens

RUNS = 7


def run() -> list[dict[str, Any]]:
    """Return one row a measure: name, value (median), unit, goal, runs."""
    return [*_packing(), *_workbench()]


def _row(name: str, seconds: list[float], goal: str) -> dict[str, Any]:
    value = round(1000 * statistics.median(seconds), 1)
    return {"name": name, "value": value, "unit": "ms", "goal": goal, "runs": len(seconds)}


def _timed(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _workbench() -> list[dict[str, Any]]:
    """A person types into a message, into the template, and turns policy and view, over ten turns of 2,000 tokens."""
    words = [f"word{number}" for number in range(400)]
    tokenizer = AutoTokenizer().train([" ".join(words)] * 3, vocab_size=1000)
    source = "".join((
        "{% for m in messages %}<｜im▁start｜>{{ m.role }}\n{{ m.content }}<｜im▁end｜>\n{% endfor %}",
        "{% if add_generation_prompt %}<｜im▁start｜>assistant\n{% endif %}",
    ))  # fmt: skip
    said = tokenizer.decode(tokenizer.encode(" ".join(words))[:193])
    messages = [{"role": role, "content": said} for _ in range(5) for role in ("user", "assistant")]
    first = workbench.start(tokenizer, [{"messages": messages}], templates={"chatml": source})
    shown = len(workbench.work(first).strands[0].tokens)
    assert 1950 <= shown <= 2100, shown
    turns: dict[str, Callable[[int], workbench.State]] = {
        "a message typed": lambda run: workbench.rewrite(first, "messages.0", f"{said} {run}"),
        "the template typed": lambda run: workbench.with_source(first, f"{source}{{# {run} #}}"),
        "another policy": lambda run: workbench.with_policy(first, "train_after_stop", bool(run % 2)),
        "as target": lambda run: replace(first, show=workbench.SHOWN[run % 2]),
    }
    return [
        _row(f"workbench: 2,000 tokens, {name}", [_timed(lambda r=r, t=t: _redrawn(t(r))) for r in range(1, RUNS + 1)],
             "< 100")
        for name, t in turns.items()
    ]  # fmt: skip


def _redrawn(state: workbench.State) -> int:
    """What one key draws; the slower parts come when the person pauses."""
    return len(head(state)) + len(tokens(state)) + len(talk(state))


def _packing() -> list[dict[str, Any]]:
    """A page of a million lengths is drawn, a person moves the pack size, then turns the algorithm."""
    lengths = np.random.default_rng(42).lognormal(5.5, 1.0, 1_000_000).clip(1, 20_000).astype(np.int64)
    data = count(lengths, lengths // 2)
    first = [_timed(lambda: draw_packing(State(_forgotten(data)))) for _ in range(RUNS)]
    sweep(State(data))
    # The sizes that are swept are there already.
    sizes = [size for size in SIZES if 512 <= size <= 32_768 and size not in SWEPT]
    by_size = [[_timed(lambda size=size: _turned(data, size)) for _ in range(RUNS)] for size in sizes]
    turned = [
        _timed(lambda name=name: draw_packing(State(data, name, 4096))) for name in ("concat", "best_fit_split") * 3
    ]
    return [
        _row("packing: 1,000,000 lengths, the first page", first, "< 1000"),
        _row("packing: 1,000,000 lengths, pack size 3,072", by_size[sizes.index(3072)], "< 100"),
        _row("packing: the slowest pack size of 512 to 32,768", max(by_size, key=statistics.median), "< 100"),
        _row("packing: 1,000,000 lengths, another algorithm", turned, "< 100"),
    ]


def _forgotten(data: Lengths) -> Lengths:
    """The same lengths without anything worked out."""
    return replace(data, plans={}, told={})


def _turned(data: Lengths, size: int) -> str:
    """Draw a pack size that nobody asked for yet."""
    return draw_packing(State(replace(data, plans={}, told=dict(data.told)), "best_fit", size))


if __name__ == "__main__":
    for measured in run():
        print(measured)
