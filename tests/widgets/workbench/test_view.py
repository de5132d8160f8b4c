"""The workbench: every control changes the page, slower parts follow, Save hands everything over, nothing is raised."""

from __future__ import annotations

import asyncio
import re
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from prep_lib.tokens.tokenizer import AutoTokenizer
from prep_lib.workspace import HEADLESS
from tests.widgets.workbench.conftest import CHATML, ENDLESS, LOOPS, PAIR, PREFER, RECORDS
from widgets.workbench import state as change
from widgets.workbench import view as room
from widgets.workbench.page import page
from widgets.workbench.state import State
from widgets.workbench.view import WorkbenchView, view


@pytest.fixture
def shown(known: AutoTokenizer) -> WorkbenchView:
    return made(known)


def made(known: AutoTokenizer, records: Any = RECORDS, **given: Any) -> WorkbenchView:
    return view(known, records, templates={"mine": CHATML, "endless": ENDLESS}, **given)


def area(shown: WorkbenchView, name: str) -> str:
    return str(shown._areas[name].value)


def trained(shown: WorkbenchView) -> str:
    return "".join(re.findall(r'<b class="chip on" tabindex[^>]*>([^<]*)<', area(shown, "body")))


def test_the_bundle_holds_the_widget_and_the_page(shown: WorkbenchView) -> None:
    bundle = shown._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["text/html"] == page(shown.holder.state)
    assert repr(shown) == "<workbench: 5 rows, template: mine>"


def test_a_headless_run_gets_everything_at_once(known: AutoTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HEADLESS, "1")
    html = made(known, [PAIR, {}])._repr_mimebundle_()["text/html"]
    assert "2 of 2 rows looked at" in html
    assert "Being worked out" not in html


def test_every_control_has_a_description(shown: WorkbenchView) -> None:
    for name, control in shown.controls.items():
        assert control.description or name == "repair", name
        assert f"prep-{name}".replace("_", "-").replace(".", "-") in control._dom_classes


def test_another_template_and_an_edited_one(shown: WorkbenchView) -> None:
    assert shown.controls["source"].value == CHATML
    shown.controls["choose"].value = "template: endless"
    assert shown.controls["source"].value == ENDLESS
    shown.controls["source"].value = ENDLESS + "{% for"
    assert "does not work" in area(shown, "head")
    assert trained(shown) == "so it is"
    shown.controls["source"].value = CHATML.replace("m.content", "m.content | upper")
    assert trained(shown) == "SOITIS"  # blanks of their own are drawn as dots
    assert "endless (edited)" in area(shown, "head")
    shown.controls["reset"].click()
    assert shown.controls["source"].value == ENDLESS


def test_a_strategy_has_fields_and_no_text(shown: WorkbenchView) -> None:
    shown.controls["choose"].value = "strategy: alpaca"
    assert shown.controls["source"].layout.display == "none"
    shown.controls["param-response_start"].value = "Answer:↵"
    assert dict(shown.holder.state.way.params) == {"response_start": "Answer:\n"}
    shown.controls["choose"].value = "template: mine"
    assert not [name for name in shown.controls if name.startswith("param-")]
    assert shown.controls["source"].layout.display is None


def test_rows_by_number_button_and_search(shown: WorkbenchView) -> None:
    shown.controls["next"].click()
    assert (shown.controls["index"].value, shown.holder.state.index) == (2, 1)
    assert [name for name in shown.controls if name.startswith("text-")] == ["text-messages.0", "text-messages.1"]
    shown.controls["back"].click()
    shown.controls["index"].value = 5
    assert "a page" in area(shown, "talk")
    shown.controls["search"].value = "so it was"
    assert shown.holder.state.index == 2
    shown.controls["search"].value = "hi"
    assert shown.holder.state.index == 3
    shown.controls["search_back"].click()
    assert shown.holder.state.index == 2


def test_a_message_and_the_whole_record_can_be_rewritten(shown: WorkbenchView) -> None:
    shown.controls["text-messages.3"].value = "now"
    assert trained(shown) == "now"
    shown.controls["record"].value = '{"query": "hi", "response": "yo"}'
    assert trained(shown) == "yo"
    assert shown.controls["text-messages.1"].value == "yo"
    shown.controls["record"].value = '{"query": '
    assert 'class="note bad"' in area(shown, "head")
    shown.controls["reset"].click()
    assert trained(shown) == "so it is"


def test_policy_show_compare_and_limit(shown: WorkbenchView) -> None:
    shown.controls["train_after_stop"].value = True
    assert "with what stands behind the stop" in area(shown, "head")
    shown.controls["show"].value = "target"
    assert "above what is read" in area(shown, "body")
    shown.controls["other"].value = "policy: train_after_stop"
    assert "places that differ: 1" in area(shown, "more")
    shown.controls["too_long"].value = "cut"
    shown.controls["max_length"].value = 64
    assert "max_length = 64" in area(shown, "head")
    shown.controls["answers"].value = "last"
    assert shown.holder.state.policy.answers == "last"


def test_slower_parts_follow_and_findings_can_be_walked(known: AutoTokenizer) -> None:
    shown = made(known, [PAIR, {}, PREFER, {}], way="endless")
    assert "Being worked out" in area(shown, "more")
    shown.finish()
    assert "EOT_NOT_TRAINED" in area(shown, "more")
    assert "4 of 4 rows looked at" in area(shown, "rows")
    shown.controls["walk"].value = "RECORD_UNREADABLE"
    shown.controls["walk_next"].click()
    assert shown.holder.state.index == 1
    shown.controls["walk_next"].click()
    assert shown.holder.state.index == 3
    # Other choices: nobody was found out yet, and the chosen one stays on offer.
    shown.controls["answers"].value = "last"
    shown.look(1)
    shown._draw_later()
    assert shown.controls["walk"].value == "RECORD_UNREADABLE"


def test_in_a_running_loop_the_rest_is_done_between_keys(known: AutoTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "PAUSE", 0.01)

    async def person() -> WorkbenchView:
        shown = made(known, [PAIR, {}] * 20)
        ticks = 0
        while not ("40 of 40 rows" in area(shown, "rows") and shown._task is not None and shown._task.done()):
            await asyncio.sleep(0.005)
            ticks += 1
            if ticks == 3:
                shown.controls["text-messages.1"].value = "so"
            assert ticks < 2000
        return shown

    # In a thread: the browser of other tests has a loop of its own running in this one.
    with ThreadPoolExecutor(1) as pool:
        shown = pool.submit(lambda: asyncio.run(person())).result()
    assert trained(shown) == "so"
    assert "Being worked out" not in area(shown, "more")


def test_what_was_worked_out_for_the_choices_before_is_thrown_away(
    shown: WorkbenchView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JupyterLab hands over a key in another thread while a part is being worked out."""
    real = change.with_part

    def meanwhile(state: State, name: str) -> State:
        typing = threading.Thread(target=lambda: setattr(shown.controls["source"], "value", ENDLESS))
        typing.start()
        typing.join()
        return real(state, name)

    monkeypatch.setattr(change, "with_part", meanwhile)
    assert shown.step()
    assert shown.holder.state.way.source == ENDLESS
    assert shown.holder.state.parts == ()


def test_an_endless_template_is_a_line(shown: WorkbenchView) -> None:
    shown.controls["source"].value = LOOPS
    assert "loop steps" in area(shown, "head")


def test_save_writes_applies_and_says_so(known: AutoTokenizer) -> None:
    written: dict[str, str] = {}
    applied: list[dict[str, Any]] = []

    def save(files: dict[str, str]) -> dict[str, str]:
        written.update(files)
        return {name: f"runs/a/{name}" for name in files}

    shown = made(known, save=save, apply=applied.append)
    shown.controls["source"].value = ENDLESS + "{# mine #}"
    shown.controls["save"].click()
    assert written["template.jinja"] == ENDLESS + "{# mine #}"
    assert set(written) == {"template.jinja", "findings.json"}
    assert applied[0]["template"] == "runs/a/template.jinja"
    assert shown.controls["choose"].value == "template: runs/a/template.jinja"
    assert "differ from the parameters cell" not in area(shown, "head")
    assert "Saved: template.jinja, findings.json." in area(shown, "said")


def test_a_save_that_fails_is_said(known: AutoTokenizer) -> None:
    def full(_: Any) -> Any:
        raise OSError("no space left on device")

    shown = made(known, save=full)
    shown.controls["save"].click()
    assert "OSError: no space left on device" in area(shown, "said")


def test_apply_alone(known: AutoTokenizer) -> None:
    applied: list[dict[str, Any]] = []
    shown = made(known, apply=applied.append)
    shown.controls["choose"].value = "strategy: alpaca"
    shown.controls["save"].click()
    assert applied[0]["strategy"] == "alpaca"
    assert "Saved: recipe.yaml." in area(shown, "said")


def test_a_slow_change_is_told(known: AutoTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SLOW", 0.0)
    assert "This change took" in area(made(known), "said")


def test_a_long_row_has_a_window(known: AutoTokenizer) -> None:
    shown = made(known, [{"query": "x" * 5000, "response": "yo"}, PAIR])
    assert shown.controls["first"].layout.display is None
    shown.controls["first"].value = 4990
    assert "id=t-0-4990>" in area(shown, "body")
    shown.controls["next"].click()
    assert shown.controls["first"].layout.display == "none"
    assert shown.controls["first"].value == 0


@pytest.mark.parametrize("records", [[], [{}], [PAIR]])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_no_record_a_broken_one_and_one(known: AutoTokenizer, records: Any, lang: str) -> None:
    shown = made(known, records, lang=lang)
    for name in ("next", "back", "walk_next", "search_next", "reset", "repair"):
        shown.controls[name].click()
    shown.finish()
    assert shown.controls["index"].max == 1


def test_a_repair_is_one_press_away(known: AutoTokenizer) -> None:
    shown = made(known, [{"query": " hi ", "response": "yo"}])
    shown.controls["source"].value = CHATML.replace("{{ m.content }}", "{{ m.content | trim }}")
    shown.finish()
    if shown.controls["repair"].layout.display == "none":
        pytest.skip("the doctor proposes no text for this")
    shown.controls["repair"].click()
    assert "trim" not in shown.controls["source"].value


def test_nothing_is_warned_about(known: AutoTokenizer, make: Callable[..., Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(known).finish()


def test_the_texts_of_the_row_open_at_a_button(shown: WorkbenchView) -> None:
    assert shown._edits.layout.display == "none"
    shown.controls["edit"].value = True
    assert shown._edits.layout.display is None
    assert shown.controls["edit"].description == "▾ Edit this row"
