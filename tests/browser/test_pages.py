"""Pages in a real browser, network off: they ask for nothing, work without a script, and can be read by everybody."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_quality import DOCS, VALUES, Toy
from toy_shards import MASK, PACKED, build, write_shard

from prep_lib.chat.diagnose import diagnose
from prep_lib.chat.symptoms import symptoms
from prep_lib.chat.template import ChatTemplate
from prep_lib.ledger import Ledger
from prep_lib.markup import Html, document
from prep_lib.record import Document
from prep_lib.shards.compare import compare
from prep_lib.shuffle.audit import Check
from prep_lib.special import IM_END, IM_START
from prep_lib.stage import journey, run
from prep_lib.text.classifier import Classifier
from prep_lib.text.language import Language
from prep_lib.text.normalize import Normalize
from prep_lib.text.quality import Quality
from prep_lib.tokens.tokenizer import AutoTokenizer
from widgets.doctor.page import page as draw_doctor
from widgets.language.page import view as draw_language
from widgets.ledger.journey import page as draw_journey
from widgets.ledger.page import page as draw_ledger
from widgets.mask import difference
from widgets.mask.page import row
from widgets.packing.page import page as draw_packing
from widgets.packing.state import State, count
from widgets.quality import state as rehearsal
from widgets.quality.classifier import view as draw_classifier
from widgets.quality.page import page as draw_rehearsal
from widgets.shards.page import audit
from widgets.shards.page import view as draw_shards
from widgets.shards.state import Held
from widgets.text_diff.page import view as draw_diff
from widgets.tokens.page import texts, vocabulary
from widgets.workbench import state as workbench
from widgets.workbench.page import page as draw_workbench

pytestmark = pytest.mark.browser

NASTY = '</script><script>document.title="broken"</script><img src="http://127.0.0.1:9/x" onerror="alert(1)">\u202e\x07'
TALK = {"messages": [
    {"role": "user", "content": f"你好! Which files hold the masks?\n{NASTY}"},
    {"role": "assistant", "content": "The HDF5 shards."},
]}  # fmt: skip
#: Generation tags that close too early, an answer that depends on the day, and words nobody should trust.
FAULTY = (
    "{% for m in messages %}" + IM_START + "{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{% endgeneration %}{% else %}{{ m.content | trim }}{% endif %}" + IM_END + "\n{% endfor %}"
    "{% if add_generation_prompt %}" + IM_START + "assistant\n{% endif %}{# " + NASTY + " #}"
)
PREFER = {"prompt": f"Which? {NASTY}", "chosen": "The HDF5 shards.", "rejected": f"None. {NASTY}" * 30}
PAGES = [
    "ledger", "packing", "row", "stream", "shards", "tokens", "workbench", "preference", "target", "doctor",
    "difference", "journey", "text_diff", "language", "quality", "classifier",
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer() -> AutoTokenizer:
    return AutoTokenizer().train(
        ["你好! Which files hold the masks? The HDF5 shards. user assistant"] * 3, vocab_size=400
    )


def toy_ledger() -> Ledger:
    ledger = Ledger()
    for flow, n in {"in": 10, "kept": 7, "dropped": 3}.items():
        ledger.add("fit", flow, NASTY, "too_long" if flow == "dropped" else "", documents=n)
    for flow, n in {"content": 90, "control": 10, "written": 96, "remainder": 4, "trained": 40}.items():
        ledger.add_tokens("pack", flow, n)
    return ledger


def toy_workbench(tokenizer: AutoTokenizer, lang: str, record: Any = TALK, **given: Any) -> str:
    """Everything a workbench can show: findings, a comparison, methods, limits, all rows."""
    given = {"other": "strategy: chatml", "max_length": 40, "too_long": "cut", "lang": lang, **given}
    made = workbench.start(tokenizer, [record, TALK, {}, PREFER], templates={NASTY: FAULTY}, names=[NASTY], **given)
    return draw_workbench(workbench.settle(made, 10))


def toy_doctor(tokenizer: AutoTokenizer, lang: str) -> str:
    found = diagnose(ChatTemplate(FAULTY, tokenizer), tokenizer, [TALK, TALK, PREFER])
    return draw_doctor(found, symptoms(found), lang, FAULTY)


def toy_difference(tokenizer: AutoTokenizer, folder: Path, lang: str) -> str:
    """Two folders of three documents, one of which trains one token more in the second."""
    more = MASK | np.array([[False] * 6, [False, True] + [False] * 4])
    for name, changes in (("one", {}), ("other", {"loss_mask": more})):
        (folder / name).mkdir(exist_ok=True)
        build(folder / name, PACKED | changes, packing={"algorithm": f"{name} {NASTY}"})
        write_shard(folder / name / "chunk_0.h5", PACKED | changes, [NASTY, "b.parquet"])
    found = compare(folder / "one", folder / "other")
    pages = difference.settings(found, lang), difference.counts(found, tokenizer, lang)
    return "".join(each.html for each in (*pages, difference.document(found, tokenizer, lang)))


def toy_shards(lang: str) -> str:
    """More sources than there are colours, few files before and many after, and an audit that fails."""
    names = [NASTY, *(f"source {at} · en" for at in range(9))]
    before = [Held(f"{name}.jsonl", 100 * at + 1, {name: 100 * at + 1}) for at, name in enumerate(names)]
    after = [Held(f"shard-{at:05d}.bin", 40 * len(names) + at, dict.fromkeys(names, 40)) for at in range(30)]
    checks = [
        Check("lag", 0.2, 0.0, 0.05, False, f"{NASTY} A sentence that says what was measured, and how."),
        Check("batch_sources", 5.9, 6.0, 5.4, True, "Different sources in a batch of 512 rows, on average."),
    ]
    return "".join(each.html for each in (draw_shards(after, before, lang=lang), audit(checks, lang)))


def toy_tokens(tokenizer: AutoTokenizer, lang: str) -> str:
    documents = [
        (NASTY, "en", f"Which files hold the masks? {NASTY}"),
        ("tea", "zh", "你好! 茶" * 90),
        ("x", None, "W" * 999),
    ]
    ids, _ = tokenizer.encode_many([text for *_, text in documents])
    return vocabulary(tokenizer, ids, lang).html + texts(tokenizer, documents, lang=lang).html


def toy_documents() -> list[Document]:
    """Texts in two languages, broken, and with what nobody should trust everywhere."""
    broken = f"A cafÃ© by the sea \r\n{NASTY}\u200b it\u2019s open. "
    told = (
        broken * 9,
        f"海边的咖啡馆今天开门。{NASTY}" * 9,
        f"One line of English here. 还有一行中文在这里。\n{NASTY}" * 5,
    )
    return [Document(f"{NASTY}#L{at}", text, NASTY, {"title": NASTY}) for at, text in enumerate(told)]


def toy_cleaned() -> list[Document]:
    return run([Normalize(), Language()], toy_documents()).kept


def toy_rehearsal(lang: str) -> str:
    """A moved limit over the toy world, a text nobody should trust beside it."""
    documents = [*DOCS, Document(NASTY, NASTY * 20, NASTY, {"language": "en"})]
    data = rehearsal.collect(documents, Toy(), np.vstack([VALUES, [4, 0.05]]))
    return draw_rehearsal(rehearsal.with_value(rehearsal.start(data, lang=lang), 5.0))


def toy_classifier(lang: str) -> str:
    rows = [(f"good cat {at} {NASTY}", True) for at in range(9)] + [(f"bad dog {at}", False) for at in range(9)]
    return draw_classifier(Classifier.train(rows, bits=8), toy_documents(), lang).html


@pytest.fixture
def write(tokenizer: AutoTokenizer, tmp_path: Path) -> Callable[[str, str], Path]:
    """Write one of the pages as a whole document and return its path."""

    def writer(name: str, lang: str = "en") -> Path:
        ids = [*tokenizer.encode("Which files?"), 1, *tokenizer.encode("The shards."), 1, 2, 2]
        first = len(tokenizer.encode("Which files?")) + 1
        rest = len(ids) - first - 2
        mask = [at >= first and at < first + rest for at in range(len(ids))]
        html = {
            "ledger": lambda: draw_ledger(toy_ledger(), lang),
            "packing": lambda: draw_packing(State(count(np.arange(1, 900)), "concat", 1024, lang)),
            "row": lambda: (
                row(ids, mask, tokenizer=tokenizer, lengths=[first, rest], names=[NASTY, "b"], lang=lang).html
            ),
            "stream": lambda: row(ids, tokenizer=tokenizer, lengths=[first, rest], names=[NASTY, "b"], lang=lang).html,
            "shards": lambda: toy_shards(lang),
            "tokens": lambda: toy_tokens(tokenizer, lang),
            "workbench": lambda: toy_workbench(tokenizer, lang),
            "preference": lambda: toy_workbench(tokenizer, lang, PREFER, max_length=0),
            "target": lambda: toy_workbench(tokenizer, lang, show="target", other="policy: answers"),
            "doctor": lambda: toy_doctor(tokenizer, lang),
            "journey": lambda: draw_journey(
                journey([Normalize(), Language(), Quality(rules="en=gopher/datatrove other=pass")], toy_documents()[0]),
                lang,
            ),
            "text_diff": lambda: draw_diff(toy_documents(), toy_cleaned(), lang).html,
            "language": lambda: draw_language(toy_cleaned(), lang=lang).html,
            "quality": lambda: toy_rehearsal(lang),
            "classifier": lambda: toy_classifier(lang),
            "difference": lambda: toy_difference(tokenizer, tmp_path, lang),
        }[name]()
        path = tmp_path / f"{name}-{lang}.html"
        path.write_text(document(NASTY, Html(html), lang), "utf-8")
        return path

    return writer


#: Texts that are seen, and cannot be told from what is behind them by 4.5 to 1, as WCAG AA asks.
PALE = """() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const over = (top, under) => {
    const a = top[3] ?? 1;
    return [0, 1, 2].map(at => a * top[at] + (1 - a) * under[at]);
  };
  const lightness = colour => {
    const [r, g, b] = colour.map(x => x / 255).map(x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ground = element => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility({opacityProperty: true})) continue;
    if (element.closest('style, .skip')) continue;
    let opacity = 1;
    for (let at = element; at; at = at.parentElement) opacity *= getComputedStyle(at).opacity;
    const behind = ground(element), ink = parse(getComputedStyle(element).color);
    const [high, low] = [over([...ink.slice(0, 3), opacity * (ink[3] ?? 1)], behind), behind]
      .map(lightness).sort((a, b) => b - a);
    const ratio = (high + .05) / (low + .05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(2)} ${element.className} ${walker.currentNode.data.slice(0, 30)}`);
  }
  return [...new Set(found)];
}"""


def colours(png: bytes) -> int:
    """How many different bytes a picture holds; a blank one holds a handful."""
    data, at = b"", 8
    while at < len(png):
        size = int.from_bytes(png[at : at + 4], "big")
        data += png[at + 8 : at + 8 + size] if png[at + 4 : at + 8] == b"IDAT" else b""
        at += size + 12
    return len(set(zlib.decompress(data)))


def picture(page: Any) -> bytes:
    """Take a picture; a busy machine may fail to, once."""
    from playwright.sync_api import Error

    try:
        return page.screenshot(full_page=True)
    except Error:
        return page.screenshot(full_page=True)


def visible(page: Any, selector: str) -> list[str]:
    return [element.inner_text() for element in page.locator(selector).all() if element.is_visible()]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_asks_for_nothing_and_runs_nothing(
    write: Callable[..., Path], open_file: Callable[..., Any], name: str, lang: str
) -> None:
    opened = open_file(write(name, lang))
    assert (opened.requests, opened.errors) == ([], [])
    assert opened.page.locator("script, img, iframe, link").count() == 0
    assert opened.page.title() != "broken"


@pytest.mark.parametrize("name", PAGES)
def test_light_dark_and_phone_are_drawn(write: Callable[..., Path], open_file: Callable[..., Any], name: str) -> None:
    grounds = []
    for dark, width in ((False, 1180), (True, 1180), (False, 390), (True, 390)):
        page = open_file(write(name), dark=dark, width=width).page
        assert colours(picture(page)) > 60
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "the page scrolls sideways"
        grounds.append(page.evaluate("getComputedStyle(document.querySelector('.prep')).backgroundColor"))
    assert grounds == ["rgb(255, 255, 255)", "rgb(20, 24, 31)"] * 2


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", PAGES)
def test_every_text_can_be_read(
    write: Callable[..., Path], open_file: Callable[..., Any], name: str, dark: bool
) -> None:
    page = open_file(write(name), dark=dark).page
    page.evaluate("() => document.querySelectorAll('details').forEach(fold => fold.open = true)")
    assert page.evaluate(PALE) == []
    page.add_style_tag(content=".prep p{opacity:.4}")
    assert page.evaluate(PALE) != [], "what is pale is found"


def test_a_notebooks_own_theme_wins_over_the_system(write: Callable[..., Path], open_file: Callable[..., Any]) -> None:
    page = open_file(write("row"), dark=True).page
    page.evaluate("document.body.dataset.jpThemeLight = 'true'")
    assert page.evaluate("getComputedStyle(document.querySelector('.prep')).backgroundColor") == "rgb(255, 255, 255)"


@pytest.mark.parametrize("width", [1180, 390])
def test_the_keyboard_brings_up_why(write: Callable[..., Path], open_file: Callable[..., Any], width: int) -> None:
    page = open_file(write("row"), width=width).page
    assert visible(page, ".why") == []
    page.locator(".chips .chip.ctl.on").focus()
    (why,) = visible(page, ".why")
    assert re.fullmatch(r"document 1 of the row · b\s+Trained\. The stored loss mask is True here\.", why)
    (detail,) = visible(page, ".chips .chip > i:last-child")
    assert re.fullmatch(r"id 1 · position \d+ · bytes 3C EF BD 9C .*", detail)
    page.keyboard.press("Tab")
    assert "Not trained." in visible(page, ".why")[0]


def test_the_pointer_brings_up_why_and_takes_it_away(write: Callable[..., Path], open_file: Callable[..., Any]) -> None:
    page = open_file(write("row")).page
    page.locator(".chips .chip.pad").last.hover()
    assert "The stored lengths say so, never the id." in visible(page, ".why")[0]
    page.locator("h2").hover()
    assert visible(page, ".why") == []


def test_the_panel_stays_in_view_inside_its_box(write: Callable[..., Path], open_file: Callable[..., Any]) -> None:
    """It lies under the row of tokens, whichever token is chosen, and hides none of them."""
    page = open_file(write("row"), width=390).page
    page.locator(".chips .chip").last.focus()
    row_box, panel = page.locator(".chips").bounding_box(), page.locator(".why:visible").bounding_box()
    assert panel["y"] >= row_box["y"] + row_box["height"]
    assert panel["x"] >= 0
    assert panel["x"] + panel["width"] <= 390


def test_trained_and_control_differ_in_more_than_colour(
    write: Callable[..., Path], open_file: Callable[..., Any]
) -> None:
    page = open_file(write("row")).page

    def style(selector: str, name: str) -> str:
        return page.locator(f".legend .chip{selector}").first.evaluate(f"e => getComputedStyle(e).{name}")

    assert style(".on", "fontWeight") == "700"
    assert style(".eos", "borderLeftStyle") == "solid"
    assert style(".on", "borderBottomStyle") == "solid"
    assert style(".ctl", "borderLeftStyle") == "solid"
    assert "repeating-linear-gradient" in style(".pad", "backgroundImage")


def test_bars_say_their_numbers_to_a_screen_reader(write: Callable[..., Path], open_file: Callable[..., Any]) -> None:
    page = open_file(write("ledger")).page
    labels = [bar.get_attribute("aria-label") for bar in page.locator("[role=img]").all()]
    assert labels[0] == "fit: in 10 · kept 7 · dropped 3 · failed 0"


def test_curves_differ_in_more_than_colour_and_say_their_numbers(
    write: Callable[..., Path], open_file: Callable[..., Any]
) -> None:
    page = open_file(write("packing")).page
    plots = page.locator("svg.plot[role=img]")
    assert plots.count() == 4
    assert plots.nth(1).get_attribute("aria-label").startswith("documents cut. concat: 512 ")
    dashes = page.evaluate(
        "() => [...document.querySelectorAll('.swatch .line')].map(e => getComputedStyle(e).strokeDasharray)"
    )
    marks = page.evaluate("() => [...document.querySelectorAll('.swatch .mark')].map(e => e.getAttribute('d'))")
    assert len(set(dashes)) == len(set(marks)) == 4


def test_ends_and_cuts_of_documents_differ_in_more_than_colour(
    write: Callable[..., Path], open_file: Callable[..., Any]
) -> None:
    page = open_file(write("packing")).page

    def right(selector: str) -> str:
        return page.locator(f".strip .bar > {selector}").first.evaluate("e => getComputedStyle(e).borderRightStyle")

    assert (right(".ends"), right(".goes")) == ("solid", "dashed")
    assert "EOS" in page.locator(".strip .bar").first.get_attribute("aria-label")


def test_what_failed_is_said_in_words(write: Callable[..., Path], open_file: Callable[..., Any]) -> None:
    page = open_file(write("shards")).page
    assert page.locator("section:has(.note) tbody tr td:first-child").all_inner_texts() == ["✗ failed", "✓ passed"]
    assert page.locator("[role=alert]").inner_text().split() == ["✗", "1", "of", "2", "checks", "failed."]
