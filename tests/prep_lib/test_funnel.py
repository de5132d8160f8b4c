"""The funnel says each number as text, for one source or very many, and what is from data stays data."""

from __future__ import annotations

import re

from prep_lib import funnel
from prep_lib.ledger import Ledger


def toy(sources: int = 2) -> Ledger:
    made = Ledger()
    for at in range(sources):
        for flow, n in {"in": 10, "kept": 7, "dropped": 3}.items():
            made.add("read", flow, f"<b>{at}", "too_<i>" if flow == "dropped" else "", documents=n, characters=n)
    return made


def test_a_stage_says_its_numbers_in_text_too():
    html = funnel.stage(toy(), "read", 20, "en")
    assert 'aria-label="read: in 20 · kept 14 · dropped 6 · failed 0 · characters 20 → 14"' in html
    assert "<b>0" not in html
    assert "too_&lt;i&gt;" in html
    assert html.count("<details") == 2


def test_a_stage_with_one_source_and_no_loss_says_no_more():
    made = Ledger()
    made.add("read", "in", "web")
    made.add("read", "kept", "web")
    assert "<details" not in funnel.stage(made, "read", 1, "en")


def test_a_long_list_is_cut_and_says_so():
    html = funnel.sources(toy(20_000), "read", "en")
    assert html.count("<tr>") == funnel.ROWS + 1
    assert "and 19,950 more" in html


def test_sums_are_those_of_the_ledger():
    made = toy(30)
    assert {flow: made.total("read", flow) for flow in ("in", "kept", "dropped")} == {
        flow: n for flow, n in funnel.sums(made, "read").items() if n
    }
    assert funnel.entered(made, "read") == 300


def test_the_token_equation_is_spelled_out():
    made = toy()
    for flow, n in {"content": 90, "written": 80, "remainder": 10, "padding": 20}.items():
        made.add_tokens("pack", flow, n)
    said = re.sub(r"<[^>]*>", " ", funnel.balances(made, "en"))
    assert "20 padding (20.0 % of the stored places)" in said
    assert " ≠ " not in said
    made.add_tokens("pack", "cut", 1)
    assert " ≠ " in funnel.balances(made, "en")
