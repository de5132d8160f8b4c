"""A person's way: a model folder opened in JupyterLab, its template repaired and edited, compared, saved, and run."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from conftest import prep

from prep_lib.special import IM_END, IM_START
from prep_lib.tokens.tokenizer import AutoTokenizer
from prep_lib.words import say

from .conftest import PATIENCE, Lab, serving, write_parameters

pytestmark = pytest.mark.browser

#: The tags close before the end marker: a trainer that reads them never trains the stop.
FAULTY = f"""{{%- for message in messages %}}
{{{{- '{IM_START}' + message.role + '\\n' }}}}
{{%- if message.role == 'assistant' %}}
{{%- generation %}}{{{{- message.content }}}}{{%- endgeneration %}}
{{%- else %}}
{{{{- message.content }}}}
{{%- endif %}}
{{{{- '{IM_END}\\n' }}}}
{{%- endfor %}}
{{%- if add_generation_prompt %}}
{{{{- '{IM_START}assistant\\n' }}}}
{{%- endif %}}
"""
TALKS = [
    {"messages": [
        {"role": "user", "content": f"Which file holds mask {n}?"},
        {"role": "assistant", "content": f"Shard {n}."},
        {"role": "user", "content": "And the others?"},
        {"role": "assistant", "content": "Shard 9."},
    ]}
    for n in range(6)
]  # fmt: skip
#: A row without a target: what walking through the findings leads to.
TALKS[4] = {"messages": [{"role": "user", "content": "Only a question?"}]}

ERROR = "[data-mime-type='application/vnd.jupyter.stderr'], [data-mime-type='application/vnd.jupyter.error']"
CHIP = ".prep-body .runs .chip"
#: What the chips say, one behind the other, without the line each brings up when pointed at.
CHIPS = f"() => [...document.querySelectorAll('{CHIP}')].map(chip => chip.firstChild.textContent).join('')"
#: What holds the focus: its class as a control of ours, and the first class of it.
FOCUS = """() => {
  const here = document.activeElement, held = here.closest('[class*="prep-"]');
  const ours = held ? [...held.classList].find(name => name.startsWith('prep-')) : '';
  return [ours, here.className.split(' ')[0]];
}"""
#: The words drawn for each control of ours that can be reached, and whether they are seen.
LABELS = """() => [...document.querySelectorAll('.prep-controls :is(select, textarea, input, button)')]
  .filter(control => control.offsetParent !== null)
  .map(control => {
    const label = control.tagName === 'BUTTON' ? control : control.labels[0];
    return label && label.offsetParent !== null ? label.textContent.trim() : '';
  })"""


def model_folder(folder: Path, template: str, records: list[Any]) -> Path:
    """A model's folder as one downloads it, without the weights."""
    texts = [json.dumps(record, ensure_ascii=False) for record in records]
    AutoTokenizer().train(texts, vocab_size=400).save(folder)
    stop = AutoTokenizer.load(folder).encode(IM_END, parse_special=True)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": stop}))
    (folder / "chat_template.jinja").write_text(template, "utf-8")
    return folder


@pytest.fixture(scope="module")
def opened(browser: Any, lab: Lab) -> Iterator[tuple[Any, list[str]]]:
    """The notebook, run over a model folder and a file of conversations; and every address the page asked for."""
    model_folder(lab.workspace / "model", FAULTY, TALKS)
    (lab.workspace / "talks.jsonl").write_text("".join(json.dumps(talk) + "\n" for talk in TALKS), "utf-8")
    notebook = "notebooks/21_templates.ipynb"
    write_parameters(lab.workspace / notebook, files="talks.jsonl", tokenizer="model", template="model", run="lab")
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.set_default_timeout(PATIENCE)
    page, asked = context.new_page(), list[str]()
    page.on("request", lambda each: asked.append(each.url) if each.url.startswith(("http:", "https:", "ws:")) else None)
    lab.run_all(page, notebook)
    page.locator(f"{CHIP}, {ERROR}").first.wait_for()
    page.locator(".prep-rows").get_by_text("6 of 6 rows").wait_for()
    yield page, asked
    context.close()


def wait_for_chips(page: Any, part: str, there: bool = True) -> None:
    page.wait_for_function(f"part => ({CHIPS})().includes(part) === {json.dumps(there)}", arg=part)


def test_the_template_is_repaired_edited_compared_saved_and_runs(
    opened: tuple[Any, list[str]], lab: Lab, tmp_path: Path
) -> None:
    from playwright.sync_api import expect

    page, asked = opened
    assert page.locator(ERROR).all_text_contents() == []
    chips, more, source = page.evaluate(CHIPS), page.locator(".prep-more"), page.locator(".prep-source textarea")
    assert "im▁start" in chips
    assert "Shard 0." in chips
    expect(more).to_contain_text("EOT_NOT_TRAINED")

    # A finding leads to its token.
    more.locator("a[href^='#t-0-']").first.click()
    expect(page.locator(f"{CHIP}:target")).to_be_in_viewport()

    # The repair, one press away.
    page.locator(".prep-repair").click()
    expect(more).not_to_contain_text("EOT_NOT_TRAINED")
    expect(more).to_contain_text("Nothing was found wrong with this template.")
    expect(page.locator(".prep-repair")).to_be_hidden()
    assert "endgeneration" in source.input_value()
    assert page.evaluate(CHIPS) == chips

    # Typed, key by key: nothing is lost and the picture follows.
    source.focus()
    page.keyboard.press("Control+Home")
    page.keyboard.type("Zebra")
    wait_for_chips(page, "Zebra")
    assert source.input_value().startswith("Zebra{%")
    assert source.evaluate("box => box.selectionStart") == len("Zebra")

    # Broken, half typed: the last good tokens stay under one line; mended, the line goes.
    page.keyboard.type("{% if")
    expect(page.locator(".prep-head [role=alert]")).to_contain_text("This template does not work")
    assert "Zebra" in page.evaluate(CHIPS)
    for _ in "{% if":
        page.keyboard.press("Backspace")
    expect(page.locator(".prep-head [role=alert]")).to_have_count(0)

    # Worse than before: another finding.
    whole = source.input_value()
    source.fill(whole.replace(IM_END, ""))
    wait_for_chips(page, "im▁end", there=False)
    expect(more).to_contain_text("NO_TERMINATOR")
    source.fill(whole)
    wait_for_chips(page, "im▁end")

    # Beside another way.
    page.locator(".prep-other select").select_option(label="strategy: chatml")
    expect(more.locator(".even")).to_contain_text("nothing here")

    # Another policy, and the same compared with it turned back.
    page.locator(".prep-answers select").select_option(label="answers behind the last question")
    expect(page.locator(f"{CHIP}.on").first).to_have_text(re.compile("Shard"))
    page.locator(".prep-other select").select_option(label="the same with answers switched")
    expect(more.locator(".even")).to_contain_text("turn 1 (assistant)")

    # The content of the row itself.
    page.locator(".prep-edit").click()
    page.locator(".prep-text-messages-3 textarea").fill("Quagga")
    wait_for_chips(page, "Quagga")
    page.locator(".prep-edit").click()

    # The next finding is in another row.
    page.locator(".prep-walk-next").click()
    expect(page.locator(".prep-head")).to_contain_text("row 5 of 6")
    expect(page.locator(".prep-head")).to_contain_text("no_target")

    page.locator(".prep-save").click()
    expect(page.locator(".prep-said")).to_contain_text("Saved: template.jinja, findings.json")
    saved = lab.workspace / "runs/lab/data/21_templates"
    assert (saved / "template.jinja").read_text("utf-8").rstrip("\n") == whole.rstrip("\n")
    told = json.loads((saved / "findings.json").read_text("utf-8"))
    assert told["rows"]["looked_at"] == 6
    assert told["choices"]["answers"] == "last"
    assert not (lab.workspace / "notebooks/runs").exists()
    assert lab.outside(asked) == []

    # What was saved is what a headless run takes.
    steps = yaml.safe_load((lab.workspace / "runs/lab/recipe.yaml").read_text("utf-8"))["notebooks"]
    (step,) = (given for step in steps for name, given in step.items() if name == "21_templates")
    assert step["template"] == "runs/lab/data/21_templates/template.jinja"
    assert (step["answers"], step["train_after_stop"]) == ("last", False)
    recipe = tmp_path / "saved.yaml"
    recipe.write_text(yaml.safe_dump({"name": "again", "notebooks": [{"21_templates": {**step, "run": ""}}]}))
    done = prep("run", str(recipe), cwd=lab.workspace)
    assert done.returncode == 0, done.stderr
    report = (lab.workspace / "runs/again/reports/21_templates.html").read_text("utf-8")
    assert "Zebra" in report
    assert "answers behind the last question" in report
    assert "<b>error </b><code>EOT_NOT_TRAINED</code>" not in report


def test_a_key_is_answered_before_it_is_felt(opened: tuple[Any, list[str]]) -> None:
    page, _ = opened
    page.locator(".prep-source textarea").focus()
    page.keyboard.press("Control+Home")
    began = time.perf_counter()
    page.keyboard.type("q")
    wait_for_chips(page, "q")
    # Kernel, socket and drawing together; 0.1 s where nothing else runs.
    assert time.perf_counter() - began < 2


def test_the_keyboard_goes_from_the_template_to_the_policy_to_the_record(opened: tuple[Any, list[str]]) -> None:
    page, _ = opened
    page.locator(".prep-choose select").focus()
    passed = [page.evaluate(FOCUS)[0]]
    while passed[-1] != "prep-record" and len(passed) < 60:
        if passed[-1] == "prep-edit" and page.locator(".prep-record").is_hidden():
            page.keyboard.press("Space")
            page.locator(".prep-record").wait_for()
        page.keyboard.press("Tab")
        passed.append(page.evaluate(FOCUS)[0])
    wanted = ["source", "answers", "reasoning", "tool-calls", "index", "next", "search", "walk-next", "edit", "record"]
    assert [name for name in dict.fromkeys(passed) if name.removeprefix("prep-") in wanted] == [
        f"prep-{name}" for name in wanted
    ]
    while page.evaluate(FOCUS) != ["prep-body", "chip"] and len(passed) < 60:
        page.keyboard.press("Tab")
        passed.append(page.evaluate(FOCUS)[0])
    assert {"prep-show", "prep-other", "prep-max-length", "prep-save"} <= set(passed)
    assert page.evaluate("() => getComputedStyle(document.activeElement.lastChild).display") == "block"


def test_every_control_has_a_name_that_is_seen_and_read_aloud(opened: tuple[Any, list[str]]) -> None:
    page, _ = opened
    labels = page.evaluate(LABELS)
    assert len(labels) > 20
    assert "" not in labels
    assert names_without(page, ".prep-controls") == []


#: Two cells of a person's own, and nothing read from disk.
PACKS = ["from widgets.packing.view import view", "view([600, 900, 300, 2000, 40], pack_size=1024, apply=print)"]


def test_packs_follow_controls_that_have_names(browser: Any, lab: Lab) -> None:
    from playwright.sync_api import expect

    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    cells = [nbformat.v4.new_code_cell(source) for source in PACKS]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), lab.workspace / "packs.ipynb")
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    lab.run_all(page, "packs.ipynb")
    live = page.locator(".prep-page-live")
    expect(live.locator(".best td").first).to_have_text("★ best_fit")
    page.get_by_label("algorithm").select_option("concat")
    expect(live.locator("section:has(.strip)")).to_contain_text("4 of 4 packs by concat")
    page.get_by_label("pack size").select_option("64")
    expect(live).to_contain_text("packs of 64 tokens")
    expect(live.get_by_role("img", name="documents cut. concat: 512 80.0 %")).to_have_count(1)
    page.get_by_role("button", name="Apply").click()
    expect(live).not_to_contain_text("differ from the parameters cell")
    context.close()


def names_without(page: Any, selector: str) -> list[str]:
    """The roles of the controls inside an element that have no name for a screen reader."""
    session = page.context.new_cdp_session(page)
    root = session.send("DOM.getDocument", {"depth": 0})["root"]["nodeId"]
    here = session.send("DOM.querySelector", {"nodeId": root, "selector": selector})["nodeId"]
    roles = {"combobox", "textbox", "checkbox", "button", "slider", "spinbutton", "searchbox"}
    found = [
        node
        for role in roles
        for node in session.send("Accessibility.queryAXTree", {"nodeId": here, "role": role})["nodes"]
    ]
    assert len(found) > 20
    return [node["role"]["value"] for node in found if not node.get("ignored") and not node["name"].get("value")]


#: The first limit of the rehearsal that is moved here.
WORDS = "gopher/datatrove:gopher_quality.plain_words>="
WHO = ["the", "that", "with", "and", "of", "to", "be", "have"]


def sentences(count: int) -> str:
    """So many words of plain English, none of its sentences twice."""
    text = [f"{WHO[at % 8]} {chr(97 + at % 26)}{chr(97 + at // 26)}ll of the road" for at in range(count)]
    return " ".join(f"The {line} was there." if at % 2 else f"{line}," for at, line in enumerate(text))


def test_a_limit_is_rehearsed_and_applied(browser: Any, lab: Lab) -> None:
    from playwright.sync_api import expect

    lines = (json.dumps({"text": sentences(3 + at), "source": "toy"}) + "\n" for at in range(12))
    (lab.workspace / "short.jsonl").write_text("".join(lines), "utf-8")
    notebook = "notebooks/11_clean.ipynb"
    write_parameters(
        lab.workspace / notebook, files="short.jsonl", rules="en=gopher/datatrove other=pass", run="limits"
    )
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    lab.run_all(page, notebook)
    page.locator(f".prep-choose select, {ERROR}").first.wait_for()
    assert page.locator(ERROR).all_text_contents() == []
    page.locator(".prep-choose select").select_option(WORDS)
    live, typed = page.locator(".prep-page-live").first, page.locator(".prep-type input")
    expect(typed).to_have_value("50")
    before = live.inner_text()
    typed.fill("10")
    typed.press("Enter")
    expect(live).to_contain_text("limits = ")
    assert live.inner_text() != before
    # The slider moves by the keyboard, and number and page follow.
    page.locator(".prep-move [role=slider], .prep-move .noUi-handle").first.focus()
    page.keyboard.press("ArrowRight")
    expect(typed).not_to_have_value("10")
    moved = f"{WORDS}{typed.input_value()}"
    page.locator("button.prep-apply").click()
    expect(live).not_to_contain_text("limits = ")
    steps = yaml.safe_load((lab.workspace / "runs/limits/recipe.yaml").read_text("utf-8"))["notebooks"]
    (step,) = (given for each in steps for name, given in each.items() if name == "11_clean")
    assert step["limits"] == moved
    context.close()


def test_a_threshold_and_a_mixture_are_rehearsed_and_applied(browser: Any, lab: Lab) -> None:
    from playwright.sync_api import expect

    def step(name: str) -> dict[str, Any]:
        steps = yaml.safe_load((lab.workspace / "runs/whole/recipe.yaml").read_text("utf-8"))["notebooks"]
        return next(given for each in steps for one, given in each.items() if one == name)

    words = [f"word{at}" for at in range(60)]
    texts = [" ".join([*words[:at], f"other{at}", *words[at + 1 :]]) for at in range(0, 60, 3)]
    rows = [{"text": text, "source": ("web", "book")[at % 2]} for at, text in enumerate(texts)]
    rows += [{"text": " ".join(f"{source}{n}{at}" for at in range(30)), "source": source}
             for source in ("web", "book") for n in range(5)]  # fmt: skip
    (lab.workspace / "whole.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    given = {"12_dedup": {"files": "whole.jsonl", "max_dropped": 1.0}, "13_mix": {"files": "whole.jsonl"}}
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    for notebook, parameters in given.items():
        write_parameters(lab.workspace / f"notebooks/{notebook}.ipynb", run="whole", **parameters)
        lab.run_all(page, f"notebooks/{notebook}.ipynb")
        page.locator(f"button.prep-apply, {ERROR}").first.wait_for()
        assert page.locator(ERROR).all_text_contents() == []
        live = page.locator(".prep-page-live").first
        if notebook == "12_dedup":
            typed = page.locator(".prep-type input")
            expect(typed).to_have_value("0.8")
            before = live.inner_text()
            typed.fill("0.6")
            typed.press("Enter")
            expect(live).to_contain_text("threshold = 0.6")
            assert live.inner_text() != before
        else:
            page.locator(".prep-way select").select_option(say("mixture.way_weights", "en"))
            typed = page.locator(".prep-weights input")
            typed.fill("web=0.75 book=0.25")
            typed.press("Enter")
            expect(live).to_contain_text("75.0 %")
        page.locator("button.prep-apply").click()
        expect(live).not_to_contain_text("threshold = " if notebook == "12_dedup" else "weights = ")
    assert step("12_dedup")["threshold"] == 0.6
    assert step("13_mix")["weights"] == "web=0.75 book=0.25"
    assert step("13_mix")["temperature"] == 0.0
    context.close()


def test_without_the_widget_extension_the_page_stands_in_the_widgets_place(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "home/config/labconfig").mkdir(parents=True)
    off = {"disabledExtensions": {"@jupyter-widgets/jupyterlab-manager": True}}
    (tmp_path / "home/config/labconfig/page_config.json").write_text(json.dumps(off))
    cell = "from widgets.packing.view import view\nview([5, 9, 3, 12], None, pack_size=16)"
    with serving(tmp_path / "home", tmp_path / "my work") as lab:
        nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)]), lab.workspace / "toy.ipynb")
        context = browser.new_context()
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        lab.run_all(page, "toy.ipynb")
        page.locator(f".jp-OutputArea-output .prep, {ERROR}").first.wait_for()
        assert page.locator(ERROR).all_text_contents() == []
        assert page.locator(".jp-OutputArea-output .prep").count() == 1
        assert page.locator(".jupyter-widgets").count() == 0
        context.close()
