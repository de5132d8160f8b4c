"""Extraction on real pages by their yardsticks, on small pages with known answers, and on pages made to break it."""

from __future__ import annotations

import gzip
import json
import logging
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from conftest import ROOT, shared

from prep_lib.errors import BadParameter, UnknownName
from prep_lib.record import Document, Drop
from prep_lib.text.extract import ENGINES, Extract, kind_of

BOTH = pytest.mark.parametrize("engine", ["trafilatura", "resiliparse"])
SENTENCE = "This sentence is long enough to be read as the prose of an article by any extractor, and it says nothing. "


def doc(html: str, **meta: Any) -> Document:
    return Document("a.html", html, "here", {"format": "html", **meta})


def text(html: str, engine: str = "trafilatura", **options: Any) -> str:
    found = Extract(engine=engine, **options).map(doc(html))
    assert isinstance(found, Document), found
    return found.text


def article(*blocks: str) -> str:
    inner = f"<p>{SENTENCE * 2}</p>".join(blocks)
    return (
        f"<html><body><article><h1>Head</h1><p>{SENTENCE * 2}</p>{inner}<p>{SENTENCE * 2}</p></article></body></html>"
    )


# ---------------------------------------------------------------- the yardsticks


def grams(told: str) -> Counter[tuple[str, ...]]:
    words = re.findall(r"\w+", told)
    return Counter(tuple(words[at : at + 4]) for at in range(max(1, len(words) - 3))) if words else Counter()


def f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@cache
def english() -> list[tuple[str, str]]:
    gold = json.loads(shared("html/aeb_gold.json").read_text())
    pages = ((shared(f"html/aeb/{name}.html.gz"), body["articleBody"]) for name, body in sorted(gold.items()))
    return [(gzip.decompress(path.read_bytes()).decode("utf-8", "replace"), body) for path, body in pages]


@cache
def multilingual() -> list[tuple[str, dict[str, Any]]]:
    gold = json.loads(shared("html/traf_gold.json").read_text())
    found = []
    for name, told in sorted(gold.items()):
        data = gzip.decompress(shared(f"html/traf/{name}.html.gz").read_bytes())
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


@cache
def mapped(engine: str, html: str) -> Document | Drop:
    return Extract(engine=engine).map(doc(html))


def ours(engine: str) -> Callable[[str], str]:
    return lambda html: getattr(mapped(engine, html), "text", "")


def test_the_yardsticks_are_those_of_the_sources() -> None:
    # The library's own default; bench_extract.py measures more ways.
    from trafilatura import extract

    assert on_english(lambda html: extract(html) or "")[0] == pytest.approx(0.954, abs=0.002)
    assert on_multilingual(lambda html: extract(html) or "")[0] == pytest.approx(0.878, abs=0.005)


@pytest.mark.parametrize(
    ("engine", "of_english", "of_multilingual"), [("trafilatura", 0.96, 0.88), ("resiliparse", 0.93, 0.855)]
)
def test_f1_on_real_pages_and_on_each_half(engine: str, of_english: float, of_multilingual: float) -> None:
    assert min(on_english(ours(engine))) >= of_english
    assert min(on_multilingual(ours(engine))) >= of_multilingual


@BOTH
def test_real_articles_are_called_articles(engine: str) -> None:
    kinds = Counter(getattr(mapped(engine, html), "meta", {}).get("page_kind") for html, _ in english())
    assert kinds["article"] >= 0.94 * kinds.total()


# ---------------------------------------------------------------- structure


@BOTH
def test_a_list_in_a_cell_stands_beside_its_neighbour(engine: str) -> None:
    items = "<ul><li>10:00 - 20:00</li><li>closed at noon</li></ul>"
    cells = f"<tr><td>Mon</td><td>{items}</td></tr><tr><td>Tue</td><td>x</td></tr>"
    told = text(article(f"<table>{cells}</table>"), engine)
    assert told.index("Mon") < told.index("10:00 - 20:00") < told.index("closed at noon") < told.index("Tue")
    if engine == "trafilatura":
        assert "\n\nMon | 10:00 - 20:00 / closed at noon\nTue | x\n\n" in told


def test_bullets_in_spans_are_kept_one_a_line() -> None:
    items = '<li><span tabindex="0">You may ask what we store</span></li><li id="b2">You may ask us to delete it</li>'
    told = text(article(f"<ul>{items}</ul>"))
    assert "- You may ask what we store\n- You may ask us to delete it" in told


@BOTH
def test_code_keeps_its_indentation_and_stays_in_its_sentence(engine: str) -> None:
    code = "def f(x):\n    if x:\n\t\treturn 1"
    told = text(article(f"<pre><code>{code}\n</code></pre>", "<p>Call <code>fit()</code>, then stop.</p>"), engine)
    assert f"\n\n{code}\n\n" in told
    assert "Call fit(), then stop." in told


def test_highlighted_code_is_code() -> None:
    spans = '<span class="k">if</span> x:\n    <span class="n">y</span> = <span>1</span>'
    assert "\n\nif x:\n    y = 1\n\n" in text(article(f'<div class="highlight"><pre>{spans}</pre></div>'))


@BOTH
def test_terms_and_definitions_are_lines(engine: str) -> None:
    told = text(article("<dl><dt>Term</dt><dd>Its definition.</dd><dt>Other</dt><dd>Another one.</dd></dl>"), engine)
    assert "Term\nIts definition.\nOther\nAnother one." in told


@BOTH
def test_raised_digits_and_formulas_are_spelled_out(engine: str) -> None:
    formula = "<math><mi>E</mi><mo>=</mo><mi>m</mi><msup><mi>c</mi><mn>2</mn></msup></math>"
    told = text(
        article(f"<p>Energy {formula} holds, x<sup>2</sup> and 10<sup>3</sup>, the 1<sup>st</sup>.</p>"), engine
    )
    assert "Energy E = mc^2 holds, x^2 and 10^3, the 1st." in told


@BOTH
@pytest.mark.parametrize(
    "page", ["<main><article><div><br>{}</div></article></main>", "<main><article><p>{}</article></main>"]
)
def test_a_sentence_is_written_once(engine: str, page: str) -> None:
    sentence = "The sentence of this test " + "goes on and on " * 8 + "until it is long enough, as it now is."
    assert text(page.format(sentence), engine).count(sentence) == 1


@BOTH
def test_teasers_are_apart_and_the_page_is_a_listing(engine: str) -> None:
    cards = "".join(
        f"<div class=card><a href=/{n}><h3>Story number {n}</h3></a><p>Short teaser {n}.</p></div>" for n in range(12)
    )
    found = Extract(engine=engine).map(doc(f"<html><head><title>News</title></head><body>{cards}</body></html>"))
    assert isinstance(found, Document)
    assert found.meta["page_kind"] == "listing"
    assert all(line.count("teaser") <= 1 for line in found.text.split("\n"))
    assert found.text.count("Short teaser") == 12


def test_kinds() -> None:
    def nothing(what: str) -> int:
        return 0

    assert kind_of(f"{SENTENCE * 2}\n\n{SENTENCE}", nothing) == "article"
    assert kind_of("Home", lambda what: {"teasers": 0, "links": 40}[what]) == "navigation"
    assert kind_of("Home", nothing) == "other"


def test_links_at_the_end_go_and_links_in_the_text_stay() -> None:
    links = "<ul><li><a href=/1>Another story of the day</a></li><li><a href=/2>One more story</a></li></ul>"
    told = text(article("<p>See <a href=/3>this page</a> too.</p>").replace("</article>", f"{links}</article>"))
    assert "See this page too." in told
    assert not re.search("Another story|One more", told)


# ---------------------------------------------------------------- documents


def test_meta_gains_title_and_kind_and_loses_its_format() -> None:
    found = Extract().map(doc(f"<title> A\n title</title><p>{SENTENCE * 4}</p>", encoding="utf-8", url="http://a"))
    assert isinstance(found, Document)
    assert found.meta == {"encoding": "utf-8", "url": "http://a", "title": "A title", "page_kind": "article"}
    assert (found.id, found.source) == ("a.html", "here")


def test_what_is_no_page_passes_as_the_same_object() -> None:
    plain = Document("a", "<p>text", meta={})
    assert Extract().map(plain) is plain


@pytest.mark.parametrize("wrong", [{"max_bytes": 0}, {"max_depth": 1.5}, {"max_tags": True}, {"max_depth": 301}])
def test_nonsense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadParameter, match=next(iter(wrong))):
        Extract(**wrong)


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(UnknownName, match="trafilatura"):
        Extract(engine="trafilature")
    assert list(ENGINES) == ["resiliparse", "trafilatura"]


# ---------------------------------------------------------------- pages made to break it


@BOTH
@pytest.mark.parametrize(
    ("html", "reason"),
    [
        ("", "no_content"),
        (" \n\t", "no_content"),
        ("<!-- only a remark -->", "no_content"),
        ("<html><frameset cols='1,2'><frame src=a><frame src=b></frameset></html>", "no_content"),
        (f"<script>{SENTENCE}</script>", "no_content"),
        (SENTENCE * 3, "not_html"),
        ('{"a": 1}', "not_html"),
        ('<?xml version="1.0"?><rss><item><title>x</title></item></rss>', "not_html"),
        ("<div>" * 40_000 + SENTENCE, "too_deep"),
        ("<div>" * 400 + SENTENCE + "</div>" * 400, "too_deep"),
        (f"<p>{'x' * 3_000_001}", "too_large"),
        ("<br>" * 50_001, "too_many_tags"),
    ],
)
def test_what_cannot_be_used_is_a_named_drop(html: str, reason: str, engine: str) -> None:
    drop = Extract(engine=engine).map(doc(html))
    assert isinstance(drop, Drop)
    assert drop.reason == reason


def test_a_page_of_open_formatting_is_dropped_before_it_grows() -> None:
    drop = Extract(engine="resiliparse").map(doc("".join(f"<b id={n}><p>x" for n in range(20_000))))
    assert isinstance(drop, Drop)
    assert drop.reason == "too_deep"


@BOTH
@pytest.mark.parametrize(
    "html",
    [
        f'<?xml version="1.0" encoding="utf-16"?><html><body><p>{SENTENCE * 3}</p>',
        f"<meta charset=utf-16><p>{SENTENCE * 3}",
        f"<html lang=en/><body><p>{SENTENCE * 3}",
        f"\ufeff<p>{SENTENCE * 3}",
        f"\0<html>\0\x01<p>{SENTENCE * 3}\x02",
        f"<p>{SENTENCE * 3}&#1;&#0;&#xD800;",
        f"<p>{SENTENCE * 3}\ud800",
        f"<p>{SENTENCE * 3}<!-- never closed",
        f'<p title="{"x" * 1_000_000}">{SENTENCE * 3}',
        f"<table><tr><td><b><p>{SENTENCE * 3}",
        "<div>" * 200 + SENTENCE * 3,
    ],
    ids=range(11),
)
def test_damaged_pages_give_their_text(html: str, engine: str) -> None:
    assert SENTENCE.strip() in text(html, engine)


def test_nothing_is_said_to_the_user(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        for html in ("<p>", "<frameset><frame></frameset>", "<p>x\ufffe&#xFFFE;", f"<p>{SENTENCE}"):
            for engine in ENGINES:
                Extract(engine=engine).map(doc(html))
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


SCRIPT = """
import gzip, hashlib, sys
from prep_lib.record import Document
from prep_lib.text.extract import Extract
out = {}
for path in sys.argv[1:]:
    html = gzip.open(path).read().decode("utf-8", "replace")
    for engine in ("trafilatura", "resiliparse"):
        found = Extract(engine=engine).map(Document(path, html, meta={"format": "html"}))
        out[path, engine] = hashlib.sha256(repr((found.text, sorted(found.meta.items()))).encode()).hexdigest()
print(sorted(out.items()))
"""


def test_same_bytes_in_any_order_process_and_hash_seed() -> None:
    # The same page twice in a row: an engine that remembers what it saw would drop it.
    paths = [str(path) for path in sorted(shared("html/aeb").glob("*.gz"))[:8]]

    def digests(order: list[str], seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", SCRIPT, *order],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    assert digests(paths, "1") == digests([*paths[::-1], *paths, *paths[:3] * 4], "2")
