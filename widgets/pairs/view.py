"""Near duplicates, live: move the threshold, and see at once who would go, from which source, and which pairs decide.

threshold ──────●──────  [ 0.8 ]   bands x rows [ auto: 16 x 6 ]   [Apply]
page
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from prep_lib.text.near_dedup import NearDedup
from prep_lib.words import say
from widgets.bind import Holder, View
from widgets.pairs.page import page
from widgets.pairs.state import (
    State,
    collect,
    parameters,
    save,
    show_bands,
    start,
    stop,
    with_bands,
    with_stop,
    with_text,
)


class PairsView(View):
    """Controls over a rehearsal.

    Attributes
    ----------
    holder : Holder
        Its ``state`` is what is shown.
    controls : dict of str to widget
        ``move``, ``type``, ``bands``, ``apply``.
    """

    def __init__(self, state: State, apply: Callable[[dict[str, Any]], Any] | None) -> None:
        self._page = widgets.HTML(layout={"width": "auto"}).add_class("prep-page-live")
        self.holder = Holder(state, self._draw)
        self._apply = apply
        self.controls = _controls(state)
        self.holder.bind(self.controls["move"], stop, with_stop)
        self._typed("type", lambda state: repr(state.threshold), with_text)
        self._typed("bands", show_bands, with_bands)
        self.controls["apply"].on_click(lambda _: self.apply())
        row = [control for name, control in self.controls.items() if name != "apply" or apply is not None]
        bar = widgets.HBox(row, layout={"flex_flow": "row wrap", "align_items": "center"})
        said = f"pairs: {len(state.data.ids):,} documents, {int(state.data.went.sum()):,} near duplicates went"
        super().__init__(widgets.VBox([bar, self._page]), lambda: page(self.holder.state), said)
        self._draw(state)

    def _draw(self, state: State) -> None:
        self._page.value = page(state)

    def _typed(self, name: str, get: Callable[[State], str], change: Callable[[State, str], State]) -> None:
        """Tie a control to the state, and take back what was typed and changes nothing."""
        control = self.holder.bind(self.controls[name], get, change)
        control.observe(lambda _: setattr(control, "value", get(self.holder.state)), names="value")

    def apply(self) -> None:
        """Hand the parameters over, and note that the parameters cell now says the same."""
        if self._apply is not None:
            self._apply(parameters(self.holder.state))
        self.holder.become(save(self.holder.state))


def _controls(state: State) -> dict[str, Any]:
    lang, own = state.lang, {"description_width": "initial"}
    named = {
        "move": widgets.IntSlider(
            min=0, max=max(1, len(state.data.stops) - 1), readout=False, style=own,
            description=say("pairs.threshold", lang), layout={"width": "auto", "flex": "1 1 260px"},
        ),
        # The slider has no name for a screen reader: this field says the same, and has.
        "type": widgets.Text(
            description=say("pairs.threshold", lang), continuous_update=False, style=own, layout={"width": "180px"}
        ),
        "bands": widgets.Text(
            description=say("pairs.bands", lang), continuous_update=False, style=own, layout={"width": "260px"}
        ),
        "apply": widgets.Button(description=say("apply", lang), button_style="primary"),
    }  # fmt: skip
    return {name: control.add_class(f"prep-{name.replace('_', '-')}") for name, control in named.items()}


def view(
    folder: Any,
    files: Any,
    stage: NearDedup,
    *,
    lang: str = "en",
    pairs: int = 3,
    apply: Callable[[dict[str, Any]], Any] | None = None,
) -> PairsView:
    """Show which documents are almost the same, and rehearse other thresholds.

    Parameters
    ----------
    folder : path
        That `decide.decide_files` wrote.
    files : path, address or sequence of them
        That it was given: the texts that are shown are read there.
    stage : NearDedup
        With the threshold, and the bands, of the parameters cell.
    lang : str
    pairs : int
        How many are shown on each side of the threshold.
    apply : callable of one dict, or None
        Called with ``{"threshold"}``, and ``{"bands", "rows"}`` where they are chosen, when Apply is pressed. None: no
        such button.
    """
    return PairsView(start(collect(folder, files, stage), stage, lang, pairs), apply)
