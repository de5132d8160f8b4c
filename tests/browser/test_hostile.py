"""Hostile records, templates and file names: nothing of them runs or asks, in JupyterLab or in a report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import prep

from prep_lib.special import IM_END, IM_START
from prep_lib.tokens.tokenizer import AutoTokenizer

from .conftest import PATIENCE, Lab, write_parameters

pytestmark = pytest.mark.browser

ASK = "http://127.0.0.1:9/x"
EVIL = (
    f"</textarea></pre></style></title><script>document.title = 'broken'</script><img src='{ASK}' onerror=alert(1)>"
    f"<iframe src={ASK}></iframe><a href=javascript:alert(1)>a</a>\" onfocus=alert(1) autofocus x='{{{{ 7 * 7 }}}}"
    "\u202e\u2066\x00\x07\u2028"
)
TALKS = [
    {"messages": [{"role": "user", "content": EVIL}, {"role": "assistant", "content": f"{EVIL} {EVIL}"}]},
    {"messages": [{"role": "user", "content": "W" * 20_000}, {"role": "assistant", "content": "字" * 500}]},
    {"messages": [
        {"role": "user", "content": "call"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"type": "function", "function": {"name": EVIL, "arguments": {EVIL: EVIL}}}
        ]},
    ], "tools": [{"type": "function", "function": {"name": EVIL, "description": EVIL, "parameters": {}}}]},
    {EVIL: EVIL},
    {"query": f"{IM_END}{EVIL}", "response": IM_START},
    {"prompt": EVIL, "chosen": EVIL, "rejected": "no"},
]  # fmt: skip
#: A name a file may really have.
NAME = "<script>alert(1)<img>&amp;\u202e.jsonl"
TEMPLATE = (
    "</textarea><script>document.title = 'broken'</script>"
    f"{{% for m in messages %}}{IM_START}{{{{ m.role }}}}\n"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"
    "{% else %}{{ m.content }}{% endif %}"
    f"{IM_END}\n{{% endfor %}}{{% if add_generation_prompt %}}{IM_START}assistant\n{{% endif %}}"
    f"{{# <img src='{ASK}' onerror=alert(1)> #}}"
)
ENDLESS = "{% for i in range(999999) %}{% for j in range(999999) %}x{{ messages[0].content }}{% endfor %}{% endfor %}"

#: What would stand in a page if a text had become part of it.
HARM = "script:not([src]), img[src^='http://127.0.0.1:9'], iframe, a[href^='javascript'], [onfocus], [onerror]"
CHIPS = "() => [...document.querySelectorAll('.prep-body .runs .chip')].map(chip => chip.textContent).join('')"
#: Parts of ours that are wider than the place they have.
WIDE = """() => [...document.querySelectorAll('.prep')]
  .filter(part => part.scrollWidth > part.clientWidth + 1).map(part => part.className)"""


@pytest.fixture(scope="module")
def place(lab: Lab) -> Path:
    """A folder of the workspace with a hostile model and a hostile file."""
    folder = lab.workspace / "hostile"
    # Not of the long word: its repeats would become tokens, which the accelerator takes seconds to load.
    AutoTokenizer().train([EVIL, "user assistant call no", "字"] * 3, vocab_size=500).save(folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE, "utf-8")
    (folder / NAME).write_text("".join(json.dumps(talk) + "\n" for talk in TALKS), "utf-8")
    return folder


@pytest.fixture
def told(browser: Any) -> Iterator[tuple[Any, dict[str, list[str]]]]:
    """A page, and what it asked for and said in dialogs."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.set_default_timeout(PATIENCE)
    page, seen = context.new_page(), {"asked": list[str](), "dialogs": list[str]()}
    page.on("request", lambda each: seen["asked"].append(each.url) if each.url.startswith(("http:", "ws:")) else None)
    page.on("dialog", lambda dialog: (seen["dialogs"].append(dialog.message), dialog.dismiss()))
    yield page, seen
    context.close()


def test_lab_shows_them_and_an_endless_template_is_one_line(
    told: tuple[Any, dict[str, list[str]]], lab: Lab, place: Path
) -> None:
    from playwright.sync_api import expect

    page, seen = told
    notebook = "notebooks/21_templates.ipynb"
    files = f"'hostile/{NAME}'"
    write_parameters(lab.workspace / notebook, files=files, tokenizer="hostile", template="hostile", run="hostile")
    lab.run_all(page, notebook)
    page.locator(".prep-rows").get_by_text("6 of 6 rows").wait_for()
    for row in range(1, 7):
        expect(page.locator(".prep-head")).to_contain_text(f"row {row} of 6")
        assert page.evaluate(WIDE) == []
        assert page.locator(".jp-OutputArea").locator(HARM).count() == 0
        page.locator(".prep-next").click()
    assert page.locator(".prep-source textarea").input_value() == TEMPLATE

    page.locator(".prep-edit").click()
    page.locator(".prep-record textarea").fill(json.dumps(TALKS[0]))
    page.locator(".prep-record textarea").blur()
    page.locator(".prep-text-messages-1 textarea").fill(EVIL.replace("\x00", ""))
    page.wait_for_function(f"() => ({CHIPS})().includes('broken')")

    page.locator(".prep-source textarea").fill(ENDLESS)
    alert = page.locator(".prep-head [role=alert]")
    expect(alert).to_contain_text("This template does not work")
    assert alert.inner_text().count("\n") <= 1
    page.locator(".prep-source textarea").fill(TEMPLATE + "Zebra")
    page.wait_for_function(f"() => ({CHIPS})().includes('Z')")
    expect(alert).to_have_count(0)

    assert page.locator(".jp-OutputArea").locator(HARM).count() == 0
    assert "broken" not in page.title()
    assert (seen["dialogs"], lab.outside(seen["asked"])) == ([], [])


def test_a_report_shows_them_and_fits_a_phone(open_file: Callable[..., Any], lab: Lab, place: Path) -> None:
    recipe = lab.workspace / "hostile.yaml"
    given = {"files": f"'hostile/{NAME}'", "tokenizer": "hostile", "template": "hostile", "run": ""}
    recipe.write_text(json.dumps({"name": "pressed", "notebooks": [{"21_templates": given}]}), "utf-8")
    done = prep("run", str(recipe), cwd=lab.workspace)
    assert done.returncode == 0, done.stderr
    for name in ("21_templates", "index"):
        for dark, width in ((False, 1180), (True, 360)):
            opened = open_file(lab.workspace / f"runs/pressed/reports/{name}.html", dark=dark, width=width)
            assert [url for url in opened.requests if not url.startswith("data:")] == []
            assert opened.errors == []
            assert "broken" not in opened.page.title()
            assert opened.page.locator(HARM).count() == 0
            assert opened.page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")


def test_an_endless_template_ends_a_headless_run_in_one_line(lab: Lab, place: Path) -> None:
    recipe = lab.workspace / "endless.yaml"
    (lab.workspace / "endless.jinja").write_text(ENDLESS)
    given = {"files": f"'hostile/{NAME}'", "tokenizer": "hostile", "template": "endless.jinja", "run": ""}
    recipe.write_text(json.dumps({"name": "endless", "notebooks": [{"21_templates": given}]}), "utf-8")
    done = prep("run", str(recipe), cwd=lab.workspace)
    assert done.returncode == 1
    # Told before anything runs; the last row is a pair, which is nothing for sft.
    (line,) = (line for line in done.stderr.splitlines() if "endless" in line)
    assert "template_failed" in line
    assert "Traceback" not in done.stderr
