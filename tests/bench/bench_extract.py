"""Extraction: what our stage costs beside the bare library, and how good and how fast each engine is.

Nothing is measured without the real pages beside the checkout (`shared/data/html`). Processor time on the same decoded
pages, in rounds that take turns. The bare call is what a user would write: `trafilatura.extract` in its fast mode,
without comments, `extract_plain_text` with the main content, both with the settings of our stage.
"""

from __future__ import annotations

import gzip
import logging
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prep_lib.record import Document
from prep_lib.text.extract import Extract

RUNS = 3
PAGES = Path(__file__).parents[2] / ".." / "shared" / "data" / "html"


def pages() -> list[str]:
    """Decode the real pages; those that are not UTF-8 with a replacement, which costs the engines nothing."""
    return [gzip.decompress(path.read_bytes()).decode("utf-8", "replace") for path in sorted(PAGES.glob("*/*.gz"))]


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
    return list(_rows(htmls)) if htmls else []


if __name__ == "__main__":
    for row in run():
        print(f"{row['name']}: {row['value']} {row['unit']} (goal {row['goal'] or 'none'}; {row['runs']} runs)")
