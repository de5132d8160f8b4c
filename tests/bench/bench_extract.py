"""Extraction: what our stage costs beside the bare library, and how good and how fast each engine is.

Nothing is measured without the real pages beside the checkout (`shared/data/html`). Processor time on the same decoded
pages, in rounds that take turns. The bare call is what a user would write: `trafilatura.extract` in its fast mode,
without comments, `extract_plain_text` with the main content, both with the settings of our stage.
"""

from __future__ import annotations

import gzip
import json
import logging
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from prep_lib.record import Document
from prep_lib.text.extract import ENGINES, Extract

RUNS = 3
PAGES = Path(__file__).parents[2] / ".." / "shared" / "data" / "html"


def pages() -> list[str]:
    """Decode the real pages; those that are not UTF-8 with a replacement, which costs the engines nothing."""
    return [gzip.decompress(path.read_bytes()).decode("utf-8", "replace") for path in sorted(PAGES.glob("*/*.gz"))]


# ---------------------------------------------------------------- the yardsticks


def grams(told: str) -> Counter[tuple[str, ...]]:
    words = re.findall(r"\w+", told)
    return Counter(tuple(words[at : at + 4]) for at in range(max(1, len(words) - 3))) if words else Counter()


def f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@cache
def english() -> list[tuple[str, str]]:
    gold = json.loads((PAGES / "aeb_gold.json").read_text())
    pages = ((PAGES / "aeb" / f"{name}.html.gz", body["articleBody"]) for name, body in sorted(gold.items()))
    return [(gzip.decompress(path.read_bytes()).decode("utf-8", "replace"), body) for path, body in pages]


@cache
def multilingual() -> list[tuple[str, dict[str, Any]]]:
    gold = json.loads((PAGES / "traf_gold.json").read_text())
    found = []
    for name, told in sorted(gold.items()):
        data = gzip.decompress((PAGES / "traf" / f"{name}.html.gz").read_bytes())
        declared = (told["declared_charset"] or "cp1252").lower().replace("iso-8859-1", "cp1252")
        try:
            found.append((data.decode("utf-8"), told))
        except UnicodeDecodeError:
            found.append((data.decode(declared, "replace"), told))
    return found


def halves(rows: list[Any]) -> list[list[Any]]:
    return [rows, rows[::2], rows[1::2]]


def on_english(extract: Callable[[str], str]) -> list[float]:
    """F1 over all pages and over each half: 4-gram precision and recall a page, averaged."""
    rows = []
    for html, gold in english():
        wanted, got = grams(gold), grams(extract(html))
        hits = (wanted & got).total()
        rows.append((hits / got.total() if got else 0.0, hits / wanted.total()))
    return [f1(sum(p for p, _ in part) / len(part), sum(r for _, r in part) / len(part)) for part in halves(rows)]


def on_multilingual(extract: Callable[[str], str]) -> list[float]:
    """F1 over all snippets and over those of each half: a snippet in the text is a hit."""
    rows = []
    for html, told in multilingual():
        got = extract(html)
        hits, false = sum(s in got for s in told["with"]), sum(s in got for s in told["without"])
        rows.append((hits, false, len(told["with"])))
    sums = [[sum(column) for column in zip(*part, strict=True)] for part in halves(rows)]
    return [f1(hits / (hits + false), hits / wanted) for hits, false, wanted in sums]


def extracted(engine: str) -> Callable[[str], str]:
    """Return the text of our whole map; empty where it drops the page."""
    way = staged(engine)
    return lambda html: getattr(way(html), "text", "")


def _quality() -> Iterator[dict[str, Any]]:
    """Tell F1 on both sets, of the stage with each engine and of the library's own default."""
    from trafilatura import extract

    ways: dict[str, Callable[[str], str]] = {
        **{engine: extracted(engine) for engine in ENGINES},
        "plain trafilatura": lambda html: extract(html) or "",
    }
    for name, way in ways.items():
        for pages_, score in (("English", on_english(way)), ("many languages", on_multilingual(way))):
            row = {"name": f"extract: {name}, F1, {pages_}", "value": round(score[0], 4), "unit": "", "goal": None}
            yield {**row, "runs": 1}


# ---------------------------------------------------------------- the costs


def bare(engine: str) -> Callable[[str], Any]:
    """Return the library's own call."""
    if engine == "trafilatura":
        from trafilatura import extract

        logging.getLogger("trafilatura").setLevel(logging.CRITICAL + 1)
        return lambda html: extract(html, fast=True, include_comments=False)
    from resiliparse.extract.html2text import extract_plain_text

    return lambda html: extract_plain_text(
        html, main_content=True, alt_texts=False, comments=False, post_meta=False, list_bullets=True
    )


def staged(engine: str) -> Callable[[str], Any]:
    """Return our whole map."""
    stage = Extract(engine=engine)
    return lambda html: stage.map(Document("page.html", html, meta={"format": "html"}))


def seconds(call: Callable[[str], Any], htmls: list[str]) -> float:
    """Return the processor time over all pages, each a fresh text: a text remembers its UTF-8 once somebody asked."""
    fresh = [html.encode("utf-8").decode("utf-8") for html in htmls]
    start = time.process_time()
    for html in fresh:
        call(html)
    return time.process_time() - start


def _rows(htmls: list[str]) -> Iterator[dict[str, Any]]:
    size = sum(len(html.encode("utf-8")) for html in htmls) / 1e6
    for engine in ("trafilatura", "resiliparse"):
        ways = [staged(engine), bare(engine)]
        rounds = [[seconds(way, htmls) for way in ways] for _ in range(RUNS + 1)][1:]
        ratio = statistics.median(ours / theirs for ours, theirs in rounds)
        told = {"name": f"extract: {engine}, stage / library", "value": round(ratio, 3), "unit": "x", "goal": "< 1.15"}
        yield {**told, "runs": RUNS}
        speed = statistics.median(size / ours for ours, _ in rounds)
        yield {"name": f"extract: {engine}", "value": round(speed, 1), "unit": "MB/s", "goal": None, "runs": RUNS}


def run() -> list[dict[str, Any]]:
    """Measure; 200 pages, 25 MB."""
    htmls = pages()
    return [*_rows(htmls), *_quality()] if htmls else []


if __name__ == "__main__":
    for row in run():
        print(f"{row['name']}: {row['value']} {row['unit']} (goal {row['goal'] or 'none'}; {row['runs']} runs)")
