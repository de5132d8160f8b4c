"""Extraction on real pages by their yardsticks, on small pages with known answers, and on pages made to break it."""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from bench_extract import english, on_english, on_multilingual
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


@pytest.fixture(scope="module")
def pages() -> None:
    """Skip where the real pages are not here."""
    shared("html/aeb_gold.json")


@cache
def mapped(engine: str, html: str) -> Document | Drop:
    return Extract(engine=engine).map(doc(html))


def ours(engine: str) -> Callable[[str], str]:
    return lambda html: getattr(mapped(engine, html), "text", "")


@pytest.mark.parametrize(
    ("engine", "of_english", "of_multilingual"), [("trafilatura", 0.96, 0.88), ("resiliparse", 0.93, 0.858)]
)
@pytest.mark.usefixtures("pages")
def test_f1_on_real_pages_and_on_each_half(engine: str, of_english: float, of_multilingual: float) -> None:
    assert min(on_english(ours(engine))) >= of_english
    assert min(on_multilingual(ours(engine))) >= of_multilingual


@BOTH
@pytest.mark.usefixtures("pages")
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


@pytest.mark.parametrize("around", ["{}", "<div>{}</div>", "<main><article>{}</article></main>"])
def test_the_fast_engine_keeps_a_list_however_high_it_stands(around: str) -> None:
    inner = "<ol><li>beans, for lunch<ul><li>red beans</li></ul></li></ol>"
    items = f"<ul><li>bread of rye<ul><li>a whole loaf</li></ul></li><li>10<sup>3</sup> eggs of hens</li></ul>{inner}"
    told = text(
        "<body>" + around.format(f"<h1>Head</h1><p>{SENTENCE * 2}</p>{items}<p>{SENTENCE * 2}</p>"), "resiliparse"
    )
    assert "- bread of rye\n  - a whole loaf\n- 10^3 eggs of hens\n" in told
    assert told.index("beans, for lunch") < told.index("red beans")


def test_the_fast_engine_takes_no_list_of_links_or_teasers_for_text() -> None:
    menu = "<ul><li><a href=/1>Home of the site</a></li><li><a href=/2>All our shops</a></li></ul>"
    teasers = f"<ul><li><h3><a href=/3>A story</a></h3>{SENTENCE}</li></ul>"
    told = text(f"<body>{menu}<h1>Head</h1><p>{SENTENCE * 2}</p><p>{SENTENCE * 2}</p>{teasers}", "resiliparse")
    assert told == "\n\n".join(("Head", SENTENCE * 2, SENTENCE * 2)).replace(" \n", "\n").strip()


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


@pytest.mark.parametrize(
    "wrong", [{"max_bytes": 0}, {"max_depth": 1.5}, {"max_tags": True}, {"max_attributes": -1}, {"max_depth": 301}]
)
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
        (f"<p {' '.join(f'a{n}=1' for n in range(100_000))}>{SENTENCE}", "too_many_attributes"),
        (f"<p {' '.join(f'a{n}' for n in range(2_001))}>{SENTENCE}", "too_many_attributes"),
        (f"""<p {" ".join(f"a{n}='<b>'" for n in range(2_001))}>{SENTENCE}""", "too_many_attributes"),
        (f"<script>if(a<b c='</script><p {' '.join(f'a{n}' for n in range(2_001))}>'", "too_many_attributes"),
    ],
)
def test_what_cannot_be_used_is_a_named_drop(html: str, reason: str, engine: str) -> None:
    drop = Extract(engine=engine).map(doc(html))
    assert isinstance(drop, Drop)
    assert drop.reason == reason
    if reason.startswith("too_many"):
        assert drop.value > drop.limit


def test_teasers_are_counted_only_where_they_matter() -> None:
    assert kind_of(f"A\n\nB\n\n{SENTENCE * 3}", lambda what: pytest.fail(what)) == "article"


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
        f"<p {' '.join(f'a{n}=1' for n in range(2_000))}>{SENTENCE * 3}",
        f"<style>{'a > b { c: d }' * 2_001}</style><p>{SENTENCE * 3}",
    ],
    ids=range(13),
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


def digest(path: str, engine: str) -> str:
    found = mapped(engine, gzip.decompress(Path(path).read_bytes()).decode("utf-8", "replace"))
    assert isinstance(found, Document)
    return hashlib.sha256(repr((found.text, sorted(found.meta.items()))).encode()).hexdigest()


def test_same_bytes_in_any_order_process_and_hash_seed() -> None:
    # The same page twice in a row: an engine that remembers what it saw would drop it.
    paths = [str(path) for path in sorted(shared("html/aeb").glob("*.gz"))[:4]]
    order = [*paths[::-1], *paths, *paths[:1] * 4]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, *order],
        env={**os.environ, "PYTHONHASHSEED": "2"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    here = {(path, engine): digest(path, engine) for path in paths for engine in ("trafilatura", "resiliparse")}
    assert done.stdout == f"{sorted(here.items())}\n"


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_a_single_character_between_two_tags_stays(engine: str) -> None:
    told = "这是<b>重要</b>的<a href=x>链接</a>文字，还有很多别的内容可以在这里读到<em>强调</em>。"
    price = (
        "It costs <b>a mere 5</b> <span>€</span> <i>a week</i>&mdash;<i>paid in advance</i> and nothing on top of that."
    )
    found = Extract(engine=engine).map(
        Document("a", f"<body><article>{f'<p>{told}</p><p>{price}</p>' * 4}</article></body>", meta={"format": "html"})
    )
    assert isinstance(found, Document)
    assert "重要的链接文字" in found.text
    assert "强调。" in found.text
    assert "5 € a week" in found.text
    assert "—" in found.text
    assert "\ufdd0" not in found.text
