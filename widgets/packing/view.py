"""The packing widget: turn algorithm and pack size, and see the packs.

algorithm ▾   pack size ▾   [Apply]
page
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets
import numpy as np

from prep_lib.tokens.pack import ALGORITHMS
from prep_lib.words import say
from widgets.bind import Holder, View, part
from widgets.packing.page import page
from widgets.packing.state import State, count, parameters, save, sizes


class PackingView(View):
    """Controls over a packing state.

    Attributes
    ----------
    holder : Holder
        Its ``state`` is what is shown.
    controls : dict of str to widget
        ``algorithm``, ``pack_size``, ``apply``.
    """

    def __init__(self, state: State, apply: Callable[[dict[str, Any]], Any] | None) -> None:
        self._page = widgets.HTML(layout={"width": "auto"}).add_class("prep-page-live")
        self.holder = Holder(state, self._draw)
        self._apply = apply
        self.controls = _controls(state)
        self.holder.bind(self.controls["algorithm"], *part("algorithm"))
        self.holder.bind(self.controls["pack_size"], *part("pack_size"))
        self.controls["apply"].on_click(lambda _: self.apply())
        row = [control for name, control in self.controls.items() if name != "apply" or apply is not None]
        bar = widgets.HBox(row, layout={"flex_flow": "row wrap", "align_items": "center"})
        said = f"packing: {len(state.data.lengths):,} documents, {state.pack_size} tokens a pack, {state.algorithm}"
        super().__init__(widgets.VBox([bar, self._page]), lambda: page(self.holder.state), said)
        self._draw(state)

    def _draw(self, state: State) -> None:
        self._page.value = page(state)

    def apply(self) -> None:
        """Hand the parameters over, and note that the parameters cell now says the same."""
        if self._apply is not None:
            self._apply(parameters(self.holder.state))
        self.holder.become(save(self.holder.state))


def _controls(state: State) -> dict[str, Any]:
    lang = state.lang
    algorithm = widgets.Dropdown(options=list(ALGORITHMS), description=say("algorithm", lang))
    # A list and no slider: that has no name for a screen reader.
    stops = [(f"{stop:,}", stop) for stop in sizes(state)]
    size = widgets.Dropdown(options=stops, value=state.pack_size, description=say("packing.size", lang))
    apply = widgets.Button(description=say("apply", lang), button_style="primary")
    named = {"algorithm": algorithm, "pack_size": size, "apply": apply}
    return {name: control.add_class(f"prep-{name.replace('_', '-')}") for name, control in named.items()}


def view(
    lengths: Sequence[int] | np.ndarray,
    trained: Sequence[int] | np.ndarray | None = None,
    *,
    algorithm: str = "best_fit",
    pack_size: int = 4096,
    tail: str = "pad",
    size_name: str = "pack_size",
    lang: str = "en",
    apply: Callable[[dict[str, Any]], Any] | None = None,
) -> PackingView:
    """Show how rows of these lengths pack, with controls to try others.

    Parameters
    ----------
    lengths : (n,) integers, tokens
        Of all rows, in the order of the stream.
    trained : (n,) integers, tokens, or None
        Targets of each row. None: the rows are documents, each with one EOS at its end.
    algorithm : str
    pack_size : int, tokens
        What the parameters cell says.
    tail : str
        What concat does with the last pack: pad or drop.
    size_name : str
        What the parameters cell calls the pack size.
    lang : str
    apply : callable of one dict, or None
        Called with ``{"pack_size", "packing"}`` when Apply is pressed. None: no such button.
    """
    made = State(count(lengths, trained), algorithm, pack_size, lang, tail=tail, size_name=size_name)
    return PackingView(save(made), apply)
