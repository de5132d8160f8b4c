"""The planner's state: sizes from whatever counts them, what a person asks, and the plan that follows."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prep_lib.errors import BadParameter, UnknownName
from prep_lib.ledger import Ledger
from prep_lib.record import Document
from prep_lib.stage import run
from prep_lib.text.mixture import Mixture, Plan, parse_budget, plan
from widgets.mixture.state import (
    INPUTS,
    State,
    achieved,
    made,
    parameters,
    save,
    sizes,
    start,
    unsaved,
    with_budget,
    with_max_epochs,
    with_temperature,
    with_weight,
    with_weights,
    write_budget,
    write_number,
)

SIZES = {"web": (40, 4000), "code": (10, 500), "zh": (5, 100)}


def test_sizes_come_from_a_ledger_a_mapping_or_a_data_frame() -> None:
    ledger = Ledger()
    ledger.add("read", "in", "web", documents=3, characters=40)
    ledger.add("read", "kept", "web", documents=2, characters=30)
    ledger.add("read", "dropped", "web", "empty", documents=1, characters=10)
    ledger.add("read", "kept", "code", documents=1, characters=5)
    ledger.add_tokens("stream", "content", 7)
    assert sizes(ledger) == {"web": (2, 30), "code": (1, 5)}
    assert sizes(Ledger()) == {}
    assert sizes(SIZES) == SIZES
    frame = pd.DataFrame({"source": ["a", "b", "a"], "characters": [1, 2, 3], "tokens": [10, 20, 30]})
    assert sizes(frame) == {"a": (2, 4), "b": (1, 2)}
    assert sizes(frame, "tokens") == {"a": (2, 40), "b": (1, 20)}
    assert sizes(pd.DataFrame({"source": ["a"], "documents": [7], "units": [9]})) == {"a": (7, 9)}
    with pytest.raises(BadParameter, match="needs the columns source and units or tokens, got source, characters"):
        sizes(frame[["source", "characters"]], "tokens")
    with pytest.raises(BadParameter, match="a ledger of documents counts no tokens"):
        sizes(ledger, "tokens")


def test_it_starts_as_the_parameters_say() -> None:
    state = start(SIZES, "web=2 rest=1", max_epochs=4, budget="10M")
    assert parameters(state) == {"weights": "web=2 rest=1", "temperature": None, "max_epochs": 4, "budget": "10M"}
    assert unsaved(state) == ""
    assert [source for source, _, _ in state.sizes] == ["web", "code", "zh"]
    assert parameters(start(SIZES, temperature=2))["temperature"] == 2
    assert parameters(start(SIZES, "unimax"))["weights"] == "unimax"
    for wrong in ({"weights": "web"}, {"budget": "ten"}):
        with pytest.raises(BadParameter):
            start(SIZES, **wrong)
    with pytest.raises(UnknownName, match="unknown unit 'token'; did you mean 'tokens'"):
        start(SIZES, unit="token")


def test_weights_to_begin_with_are_those_of_the_sizes() -> None:
    assert start(SIZES).weights == (("web", 0.87), ("code", 0.109), ("zh", 0.022))
    many = start({f"s{n:02}": (1, 10) for n in range(INPUTS + 8)})
    assert len(many.weights) == INPUTS + 1
    assert many.weights[-1] == ("rest", 0.4)
    assert isinstance(made(with_weight(many, "s00", 0.5)), Plan)


def test_the_plan_is_that_of_the_library() -> None:
    state = start(SIZES, "web=1 code=1 zh=1", budget=900, max_epochs=2)
    assert made(state) == plan(SIZES, "web=1 code=1 zh=1", budget=900, max_epochs=2)
    assert made(start(SIZES, "wed=1 rest=1")) == (
        "text/mixture: unknown source in weights 'wed'; did you mean 'web'? known: code, web, zh"
    )
    assert "unimax needs a budget" in str(made(start(SIZES, "unimax")))


def test_what_is_typed_changes_the_state_and_nonsense_does_not() -> None:
    state = start(SIZES)
    assert with_weight(state, "zh", 0.5).way == "weights"
    assert dict(with_weight(state, "zh", 0.5).weights) == {"web": 0.87, "code": 0.109, "zh": 0.5}
    assert with_weights(state, "web=1 rest=2").weights == (("web", 1.0), ("rest", 2.0))
    assert with_budget(state, "2k").budget == 2000
    assert with_budget(with_budget(state, "2k"), " ").budget is None
    assert with_max_epochs(state, "4").max_epochs == 4
    assert with_max_epochs(with_max_epochs(state, "4"), "").max_epochs is None
    assert with_temperature(state, "3.3").temperature == 3.3
    one = start({"web": (1, 5)}, "web=1")
    assert with_weight(one, "web", 0) is one, "nothing would be left"
    for change in (with_weights, with_budget, with_max_epochs, with_temperature):
        for text in ("nonsense", "-1", "nan"):
            assert change(state, text) is state
    assert with_temperature(state, "") is state


@given(
    st.integers(1, 10**14),
    st.one_of(st.none(), st.floats(1e-3, 1e6)),
    st.floats(1e-3, 1e6),
    st.lists(st.floats(0, 100), min_size=3, max_size=3).filter(any),
)
def test_a_control_that_shows_the_state_does_not_change_it(
    budget: int, max_epochs: float | None, temperature: float, weights: list[float]
) -> None:
    told = tuple(zip(SIZES, weights, strict=True))
    state = State(tuple((name, *SIZES[name]) for name in SIZES), "natural", told, temperature, max_epochs, budget)
    assert parse_budget(write_budget(budget)) == budget
    assert with_budget(state, write_budget(budget)) == state
    assert with_max_epochs(state, write_number(max_epochs)) == state
    assert with_temperature(state, write_number(temperature)) == state
    assert all(with_weight(state, name, value) == state for name, value in told)
    assert with_weights(state, str(parameters(start(SIZES, dict(told)))["weights"])) == state


def test_what_differs_is_told_as_lines_to_paste() -> None:
    state = start(SIZES)
    turned = with_budget(with_weight(state, "zh", 1.0), "5k")
    assert unsaved(turned) == (
        "weights = 'web=0.87 code=0.109 zh=1'\ntemperature = None\nmax_epochs = None\nbudget = '5k'"
    )
    assert unsaved(save(turned)) == ""


def test_what_a_run_gave_is_read_from_its_ledger() -> None:
    """BUG-075: what was asked, what came, what came again and what was left over."""
    docs = [Document(f"{name}{n}", "1234567890", name) for name, many in (("a", 3), ("b", 4)) for n in range(many)]
    stage = Mixture(weights="a=0.8 b=0.2", budget=50)
    told = achieved(stage, run([stage], docs).ledger)
    assert [(one.source, one.given, one.copies, one.share, one.repeats, one.left_over) for one in told.portions] == [
        ("a", 40, 4, 0.8, 10, 0), ("b", 10, 1, 0.2, 0, 30),
    ]  # fmt: skip
    with pytest.raises(BadParameter, match="the ledger counts characters by source, not chars by language"):
        achieved(Mixture(by="language"), Ledger())
