"""The threshold rehearsal: choose a limit, move it, and see at once who stays and who goes.

limit ▾   ──────●──────   [ 0.7 ]   [Back to the preset] [All back]   [Apply]
page
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import ipywidgets as widgets
import numpy as np

from prep_lib.record import Document
from prep_lib.words import say
from widgets.bind import Holder, View
from widgets.quality.page import page
from widgets.quality.state import (
    State,
    choose,
    collect,
    parameters,
    reset,
    save,
    show_number,
    start,
    stop,
    stops,
    with_stop,
    with_text,
)


class QualityView(View):
    """Controls over a rehearsal.

    Attributes
    ----------
    holder : Holder
        Its ``state`` is what is shown.
    controls : dict of str to widget
        ``choose``, ``move``, ``type``, ``reset``, ``reset_all``, ``apply``; ``move`` is another one for each limit.
    """

    def __init__(self, state: State, apply: Callable[[dict[str, Any]], Any] | None) -> None:
        self._page = widgets.HTML(layout={"width": "auto"}).add_class("prep-page-live")
        self._place = widgets.HBox([], layout={"flex": "1 1 260px"})
        self.holder = Holder(state, self._draw)
        self._apply = apply
        self.controls = _controls(state)
        self.holder.bind(self.controls["choose"], lambda state: state.chosen, choose)
        self.holder.bind(self.controls["type"], lambda state: show_number(state.value), with_text)
        self.controls["type"].observe(lambda _: self._retype(), names="value")
        self.controls["reset"].on_click(lambda _: self.holder.become(reset(self.holder.state)))
        self.controls["reset_all"].on_click(lambda _: self.holder.become(reset(self.holder.state, every=True)))
        self.controls["apply"].on_click(lambda _: self.apply())
        self._shown = ""
        documents, sets = len(state.data.documents), ", ".join(state.data.places)
        super().__init__(self._box(), lambda: page(self.holder.state), f"quality: {documents:,} documents, {sets}")
        self._draw(state)

    def _box(self) -> Any:
        c = self.controls
        row = [c["choose"], self._place, c["type"], c["reset"], c["reset_all"]]
        bar = row + ([c["apply"]] if self._apply is not None else [])
        layout = {"flex_flow": "row wrap", "align_items": "center"}
        return widgets.VBox([widgets.HBox(bar, layout=layout), self._page])

    def _draw(self, state: State) -> None:
        self._page.value = page(state)
        if state.chosen != self._shown:
            self._turn_to(state)

    def _turn_to(self, state: State) -> None:
        """Give the limit a slider of its own: its stops are its own."""
        self._shown = state.chosen
        if "move" in self.controls:
            self.holder.release([self.controls["move"]])
        slider = widgets.IntSlider(
            min=0, max=max(1, len(stops(state)) - 1), value=stop(state), readout=False,
            description=say("quality.move", state.lang), layout={"width": "auto", "flex": "1 1 auto"},
        )  # fmt: skip
        self.controls["move"] = slider.add_class("prep-move")
        self.holder.bind(slider, stop, with_stop)
        self._place.children = (slider,)

    def _retype(self) -> None:
        """Take back what was typed and is no number."""
        self.controls["type"].value = show_number(self.holder.state.value)

    def apply(self) -> None:
        """Hand the parameters over, and note that the parameters cell now says the same."""
        if self._apply is not None:
            self._apply(parameters(self.holder.state))
        self.holder.become(save(self.holder.state))


def _controls(state: State) -> dict[str, Any]:
    lang = state.lang
    names = list(state.data.limits) or [""]
    named = {
        "choose": widgets.Dropdown(options=names, description=say("quality.choose", lang), layout={"width": "420px"}),
        # The slider has no name for a screen reader: this field says the same, and has.
        "type": widgets.Text(
            description=say("quality.type", lang), continuous_update=False, layout={"width": "230px"},
            style={"description_width": "initial"},
        ),
        "reset": widgets.Button(description=say("quality.reset", lang)),
        "reset_all": widgets.Button(description=say("quality.reset_all", lang)),
        "apply": widgets.Button(description=say("apply", lang), button_style="primary"),
    }  # fmt: skip
    return {name: control.add_class(f"prep-{name.replace('_', '-')}") for name, control in named.items()}


def view(
    documents: Iterable[Document],
    quality: Any,
    values: np.ndarray | None = None,
    *,
    limits: str = "",
    lang: str = "en",
    apply: Callable[[dict[str, Any]], Any] | None = None,
) -> QualityView:
    """Rehearse limits over documents whose signals are there already.

    Parameters
    ----------
    documents : iterable of Document
        With ``meta["language"]``, by which they are routed.
    quality : Quality
        Its rule sets are the presets that limits are moved against.
    values : (documents, signals) float64, or None
        What was measured, a column for each of ``quality.signals``. None: it is measured now.
    limits : str
        What the parameters cell says: ``fineweb/code:fineweb.short_lines<=0.7 …``; empty: as the presets have them.
    lang : str
    apply : callable of one dict, or None
        Called with ``{"limits"}`` when Apply is pressed. None: no such button.
    """
    return QualityView(start(collect(documents, quality, values), limits, lang), apply)
