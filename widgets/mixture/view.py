"""The mixture planner, live: turn weights, temperature, budget and cap, and see what each source gives.

shares ▾   temperature [ 1 ]   budget [ 10B ]   most epochs [ 4 ]   [Apply]
weights [ web=0.7 code=0.3 ]      web [ 0.7 ]   code [ 0.3 ]
page
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets as widgets

from prep_lib.text.mixture import write_weights
from prep_lib.words import say
from widgets.bind import Holder, View, part
from widgets.mixture.page import page
from widgets.mixture.state import (
    INPUTS,
    WAYS,
    State,
    parameters,
    save,
    start,
    weight,
    with_budget,
    with_max_epochs,
    with_temperature,
    with_weight,
    with_weights,
    write_budget,
    write_number,
)

#: Typed controls: what each shows of a state, and the state with what was typed; nonsense is taken back.
_TYPED: Mapping[str, tuple[Callable[[State], str], Callable[[State, str], State]]] = {
    "temperature": (lambda state: write_number(state.temperature), with_temperature),
    "budget": (lambda state: write_budget(state.budget), with_budget),
    "max_epochs": (lambda state: write_number(state.max_epochs), with_max_epochs),
    "weights": (lambda state: write_weights(dict(state.weights)), with_weights),
}


class MixtureView(View):
    """Controls over a plan.

    Attributes
    ----------
    holder : Holder
        Its ``state`` is what is shown.
    controls : dict of str to widget
        ``way``, ``temperature``, ``budget``, ``max_epochs``, ``apply``, ``weights``.
    inputs : dict of str to widget
        The weight of each of the largest sources.
    """

    def __init__(self, state: State, apply: Callable[[dict[str, Any]], Any] | None) -> None:
        self._page = widgets.HTML(layout={"width": "auto"}).add_class("prep-page-live")
        self.holder = Holder(state, self._draw)
        self._apply = apply
        self.controls, self.inputs = _controls(state), _inputs(state)
        self.holder.bind(self.controls["way"], *part("way"))
        for name, (get, change) in _TYPED.items():
            self._bind(self.controls[name], get, change)
        for source, control in self.inputs.items():
            self._bind(control, *_weight_of(source))
        self.controls["apply"].on_click(lambda _: self.apply())
        said = f"mixture: {len(state.sizes):,} sources, planned before anything is read"
        super().__init__(self._box(), lambda: page(self.holder.state), said)
        self._draw(state)

    def _box(self) -> Any:
        c, layout = self.controls, {"flex_flow": "row wrap", "align_items": "center"}
        top = [c["way"], c["temperature"], c["budget"], c["max_epochs"]]
        top += [c["apply"]] if self._apply is not None else []
        rows = (top, [c["weights"], *self.inputs.values()])
        return widgets.VBox([*(widgets.HBox(row, layout=layout) for row in rows), self._page])

    def _draw(self, state: State) -> None:
        self._page.value = page(state)

    def _bind(self, control: Any, get: Callable[[State], Any], change: Callable[[State, Any], State]) -> None:
        """Tie a control to the state, and take back what was typed and changes nothing."""
        self.holder.bind(control, get, change)
        control.observe(lambda _: setattr(control, "value", get(self.holder.state)), names="value")

    def apply(self) -> None:
        """Hand the parameters over, and note that the parameters cell now says the same."""
        if self._apply is not None:
            self._apply(parameters(self.holder.state))
        self.holder.become(save(self.holder.state))


def _weight_of(source: str) -> tuple[Callable[[State], float], Callable[[State, float], State]]:
    return lambda state: weight(state, source), lambda state, value: with_weight(state, source, value)


def _controls(state: State) -> dict[str, Any]:
    lang, own = state.lang, {"description_width": "initial"}
    ways = [(say(f"mixture.way_{way}", lang), way) for way in WAYS]
    typed = {
        name: widgets.Text(
            description=say(f"mixture.type_{name}", lang), continuous_update=False, style=own,
            layout={"width": "420px" if name == "weights" else "190px"},
        )
        for name in _TYPED
    }  # fmt: skip
    named = {
        "way": widgets.Dropdown(options=ways, description=say("mixture.way", lang), style=own),
        **typed,
        "apply": widgets.Button(description=say("apply", lang), button_style="primary"),
    }
    return {name: control.add_class(f"prep-{name.replace('_', '-')}") for name, control in named.items()}


def _inputs(state: State) -> dict[str, Any]:
    """One number a source: a slider would have no name for a screen reader."""
    return {
        source: widgets.BoundedFloatText(
            min=0, max=2.0**60, step=0.05, description=source or '""', style={"description_width": "initial"},
            layout={"width": "200px"},
        ).add_class("prep-weight")
        for source, _, _ in state.sizes[:INPUTS]
    }  # fmt: skip


def view(
    data: Any,
    *,
    weights: str | Mapping[str, float] = "natural",
    temperature: float | None = None,
    max_epochs: float | None = None,
    budget: int | str | None = None,
    unit: str = "chars",
    lang: str = "en",
    apply: Callable[[dict[str, Any]], Any] | None = None,
) -> MixtureView:
    """Plan a mixture before anything is read.

    Parameters
    ----------
    data : Ledger, mapping of source to (documents, units), or data frame
        What the sources have; of a ledger: what its last stage kept, in characters.
    weights, temperature, max_epochs, budget, unit
        What the parameters cell says, as for `prep_lib.text.mixture.Mixture`.
    lang : str
    apply : callable of one dict, or None
        Called with ``{"weights", "temperature", "max_epochs", "budget"}`` when Apply is pressed. None: no such button.
    """
    state = start(
        data, weights, temperature=temperature, max_epochs=max_epochs, budget=budget, unit=unit, lang=lang
    )  # fmt: skip
    return MixtureView(state, apply)
