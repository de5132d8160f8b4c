"""The figures of all benches as one page: goals missed first, then room by room, then how the peers are set up."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from prep_lib.markup import Html, card, document, fold, join, note, table, tag

#: What a figure is held against, by its name or unit; the first that fits.
AGAINST = {
    "growth": r"growth exponent|four times as many|of 1,000,000 rows to",
    "memory": r"memory|largest process|temporary space",
    "peer": r"datasketch|rensa|text_dedup|datatrove|transformers|megatron|specification|TRL|Axolotl|Unsloth|spaCy"
    r"|torch's own|row-wise|Python set|pack_dataset|langid|trafilatura",
    "limit": r"raw memmap|bare|unpacking|time outside|without a stage",
    "truth": r"recall|precision|judged rightly|wrong tokens|agreement|same verdict|audit passes|accuracy|F1",
}


def against(name: str, unit: str) -> str:
    """Return what a figure is held against; empty: it stands for itself.

    Examples
    --------
    >>> against("word5: all of it, datasketch's time", "x ours"), against("random rows, against a raw memmap", "ratio")
    ('peer', 'limit')
    >>> against("planned, 1,000,000 lengths", "s"), against("the same: peak memory", "MiB")
    ('', 'memory')
    """
    return next((kind for kind, pattern in AGAINST.items() if re.search(pattern, name)), "")


def newest(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the last figure of every row, in the order of rooms, each with its day and how busy the machine was."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for path in sorted(folder.glob("*.json")):
        stored = json.loads(path.read_text("utf-8"))
        for row in stored["rows"]:
            if "room" in row:
                measured = {
                    "day": path.stem[:8],
                    "load": stored["machine"]["load"],
                    "cores": stored["machine"]["cores"],
                }
                found[row["room"], row["name"]] = {**row, **measured}
    yield from sorted(found.values(), key=lambda row: row["room"])


def peers(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield each peer's environment: its name, the comment that says how it is set up, and the versions."""
    for path in sorted(folder.glob("*.txt")):
        lines = path.read_text("utf-8").splitlines()
        said = " ".join(line.lstrip("# ").strip() for line in lines if line.startswith("#"))
        yield path.stem, said, ", ".join(line for line in lines if line and not line.startswith("#"))


def page(results: Path, peer_folder: Path) -> str:
    """Return the page as HTML; it says of every figure when it was measured, so an old one is not taken for a new."""
    rows = list(newest(results))
    missed = [row for row in rows if row["met"] is False]
    goals = sum(row["goal"] is not None for row in rows)
    rooms = {room: [row for row in rows if row["room"] == room] for room in dict.fromkeys(row["room"] for row in rows)}
    body = [
        tag("h1", "Benchmarks"),
        tag("p", f"{len(rows)} figures, {goals} with a goal, {len(missed)} of them missed", cls="sub"),
        note("bad", tag("b", "Missed"), _table(missed)) if missed else note("ok", "every goal was met"),
        *(card(room, _table(found)) for room, found in rooms.items()),
        card("Peers", table(["environment", "how it is set up", "versions"], list(peers(peer_folder)), words=3)),
        fold("What “against” means", tag("p", MEANING)),
    ]
    return document("Benchmarks", join(body))


MEANING = (
    "peer: another program on the same documents in the same run. limit: what no program here can go below. "
    "growth: how time or memory grows with the input. memory: of the largest process. truth: answers that are known. "
    "Every figure says the load of the machine before it began; one taken on a busy machine is a lower bound."
)


def _table(rows: Sequence[dict[str, Any]]) -> Html:
    marks = {True: "✓", False: "✗", None: ""}
    shown = ("name", "against", "unit", "goal", "met", "value", "runs", "day", "load")
    told = [{**row, "value": number(row["value"]), "goal": row["goal"] or "", "met": marks[row["met"]]} for row in rows]
    return table(["figure", *shown[1:]], [[row[key] for key in shown] for row in told], words=4)


def number(value: float) -> str:
    """Three digits that count, or the whole number; what is nearly one is not said to be.

    Examples
    --------
    >>> [number(value) for value in (0.00912, 12.345, 1234.5, 0.99978, 1)]
    ['0.00912', '12.3', '1,234', '0.99978', '1']
    """
    if 0.9995 <= value < 1:
        return f"{value:.5f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
