"""How fast the stage `Normalize` is, beside one look at each character by `re`, and beside ftfy on everything.

The text is `shared/data/mixture` where it is at hand (English, Chinese, code, law, verse), else the docstrings of this
Python's packages. Processor time is counted on one core, ways take turns. Two texts: as they are (a third of the
documents has something to change), and made clean first, which is what finding nothing costs. ftfy gets every tenth
document, with its options for mojibake and NFC alone.
"""

from __future__ import annotations

import gzip
import json
import re
import statistics
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ftfy
from bench_tokenizer import docstrings

from prep_lib.text.normalize import Normalize

RUNS = 5
MIXTURE = Path(__file__).parents[3] / "shared" / "data" / "mixture"

#: What any cleaner in plain Python must do at least: look for a control character once.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\u200b]")
MOJIBAKE_AND_FORM = ftfy.TextFixerConfig(
    unescape_html=False, remove_terminal_escapes=False, fix_latin_ligatures=False, fix_character_width=False,
    uncurl_quotes=False, fix_line_breaks=False, fix_surrogates=False, remove_control_chars=False, explain=False,
)  # fmt: skip


def texts() -> list[str]:
    """Return real documents, in the order of file names."""
    if not MIXTURE.is_dir():
        return docstrings(8_000_000)
    found = []
    for path in sorted(MIXTURE.iterdir()):
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
            found += [str(json.loads(line).get("text", "")) for line in lines]
    return found


def run() -> list[dict[str, Any]]:
    """Measure; about 20 MB of text."""
    stage = Normalize()
    raw = texts()
    clean = [stage.normalize(text)[0] for text in raw]
    some = raw[::10]
    ways: dict[str, tuple[Callable[[str], object], list[str]]] = {
        "as it is": (stage.normalize, raw),
        "nothing to change": (stage.normalize, clean),
        "one re search for controls": (CONTROL.search, raw),
        "is_normalized NFC": (lambda text: unicodedata.is_normalized("NFC", text), raw),
        "ftfy, mojibake and NFC": (lambda text: ftfy.fix_text(text, MOJIBAKE_AND_FORM), some),
    }
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(RUNS + 1):  # the first one warms up
        for name in list(ways)[number % len(ways) :] + list(ways)[: number % len(ways)]:
            seconds = _time(*ways[name])
            if number:
                spent[name].append(seconds)
    return _rows({name: _size(ways[name][1]) / statistics.median(seconds) for name, seconds in spent.items()})


def _time(way: Callable[[str], object], documents: list[str]) -> float:
    start = time.process_time()
    for text in documents:
        way(text)
    return time.process_time() - start


def _size(documents: list[str]) -> float:
    return sum(len(text.encode("utf-8", "replace")) for text in documents) / 1e6


def _rows(speeds: dict[str, float]) -> list[dict[str, Any]]:
    goals = {"as it is": ">= 60", "nothing to change": ">= 60"}
    rows = [
        {"name": f"normalize: {name}", "value": round(speed, 1), "unit": "MB/s a core", "goal": goals.get(name)}
        for name, speed in speeds.items()
    ]
    for name in ("one re search for controls", "ftfy, mojibake and NFC"):
        ratio = round(speeds["as it is"] / speeds[name], 2)
        rows.append({"name": f"normalize: as it is / {name}", "value": ratio, "unit": "x", "goal": None})
    return [{**row, "runs": RUNS} for row in rows]


if __name__ == "__main__":
    for row in run():
        print(f"{row['name']}: {row['value']:,} {row['unit']} (goal {row['goal'] or 'none'}; {row['runs']} runs)")
