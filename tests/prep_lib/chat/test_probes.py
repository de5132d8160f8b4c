"""Traits: what was measured elsewhere on 26 real templates is measured here alike; a template that fails says so."""

from __future__ import annotations

import json

import pytest
from conftest import shared

from prep_lib.chat.probes import NULL_CONTENT, PROBES, date_dependent, traits
from prep_lib.chat.template import ChatTemplate


def _cause(trait: str) -> str:
    """An error without the names of the libraries that raised it."""
    return trait.split(": ")[-1].split(":")[-1].strip()


def test_the_traits_of_all_real_templates_are_reproduced() -> None:
    folder = shared("chat_templates/index.json").parent
    templates = json.loads((folder / "index.json").read_text("utf-8"))["templates"]
    assert len(templates) == 26
    wrong = []
    for entry in templates:
        found = traits((folder / entry["file"]).read_text("utf-8"))
        for name, measured in entry["measured_traits"].items():
            got = found.get(name)
            if str(measured).startswith("ERR:"):
                assert str(got).startswith("ERR:"), (entry["name"], name)
                got, measured = _cause(got), _cause(measured)
            if got != measured:
                wrong.append((entry["name"], name, measured, got))
    assert not wrong


def test_a_template_that_fails_has_one_trait() -> None:
    assert traits("{{ raise_exception('no') }}") == {"renders_multiturn": False}


def test_a_template_keeps_its_variables() -> None:
    chat = ChatTemplate("{{ mood }}{% for m in messages %}{{ m.content }}{% endfor %}", variables={"mood": "calm"})
    assert traits(chat)["text_before_first_user"] == "calm"


@pytest.mark.parametrize(
    ("source", "depends"), [("{{ strftime_now('%Y') }}", True), ("{{ messages[0].content }}", False)]
)
def test_a_date_in_the_text_is_seen(source: str, depends: bool) -> None:
    assert date_dependent(ChatTemplate(source)) is depends


def test_probes_have_names_of_their_own_and_cover_the_forms() -> None:
    assert len({probe.id for probe in PROBES}) == len(PROBES)
    assert any(probe.tools for probe in PROBES)
    assert any(message.reasoning for probe in PROBES for message in probe.messages)
    assert NULL_CONTENT[1]["content"] is None
