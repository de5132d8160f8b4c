"""The mask widget: change strategy, parameters or text, and see which tokens are trained.

strategy ▾  record ─●─   │
user_start  [ … ↵ ]      │   page
☐ train_after_stop       │
query / response         │
[Back] [Apply]           │
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from prep_lib.chat.strategy import StrategyFactory
from prep_lib.words import say
from widgets.bind import Holder, View
from widgets.mask import state as change
from widgets.mask.page import page
from widgets.mask.state import State

if TYPE_CHECKING:
    from prep_lib.tokens.tokenizer import AutoTokenizer

_WIDE = {"width": "100%"}


class MaskView(View):
    """Controls over a mask state.

    Attributes
    ----------
    holder : Holder
        Its ``state`` is what is shown.
    controls : dict of str to widget
        ``strategy``, ``record``, ``reset``, ``apply``; a parameter by its name, a text as ``text-`` and its place.
    """

    def __init__(self, state: State, apply: Callable[[dict[str, Any]], Any] | None) -> None:
        self._page = widgets.HTML(layout={"flex": "1 1 420px", "min_width": "300px"}).add_class("prep-page-live")
        self._params = widgets.VBox().add_class("prep-params")
        self._texts = widgets.VBox().add_class("prep-texts")
        self._built: tuple[Any, Any] = (None, None)
        self.holder = Holder(state, self._draw)
        self._apply = apply
        self.controls = _fixed(state)
        self._bind_fixed()
        left = [self.controls["strategy"], self._params, self.controls["record"], self._texts, self.controls["reset"]]
        left += [self.controls["apply"]] if apply is not None else []
        column = widgets.VBox(left, layout={"flex": "0 1 280px", "min_width": "240px", "padding": "0 8px 0 0"})
        box = widgets.HBox([column, self._page], layout={"flex_flow": "row wrap"})
        said = f"mask: {len(state.records):,} records, strategy {state.strategy}"
        super().__init__(box, lambda: page(self.holder.state), said)
        self._draw(state)

    def _bind_fixed(self) -> None:
        self.holder.bind(self.controls["strategy"], lambda state: state.strategy, change.with_strategy)
        # A person counts records from 1, as the page does.
        number = self.controls["record"]
        self.holder.bind(number, lambda state: state.index + 1, lambda state, at: change.with_index(state, at - 1))
        self.controls["reset"].on_click(lambda _: self.holder.become(change.reset(self.holder.state)))
        self.controls["apply"].on_click(lambda _: self.apply())

    def _draw(self, state: State) -> None:
        self._rebuild(state)
        self._page.value = page(state)

    def _rebuild(self, state: State) -> None:
        """Make the fields anew where another strategy or record has others; never under a person's cursor."""
        params, texts = state.strategy, state.index
        if params != self._built[0]:
            hints = change.used(state)
            fields = {name: _field(name, value, hints.get(name)) for name, value in change.defaults(state).items()}
            self._fill(self._params, fields)
        if texts != self._built[1]:
            self._fill(self._texts, {f"text-{said.place}": _area(said) for said in change.editable(state)})
        self._built = params, texts

    def _fill(self, box: Any, fields: Mapping[str, tuple[Any, Any, Any]]) -> None:
        self.holder.release(box.children)
        self.controls = {name: control for name, control in self.controls.items() if control not in box.children}
        for name, (control, get, turn) in fields.items():
            self.controls[name] = self.holder.bind(control, get, turn).add_class(f"prep-{name.replace('_', '-')}")
        box.children = [control for control, _, _ in fields.values()]

    def apply(self) -> None:
        """Hand the parameters over, and note that the parameters cell now says the same."""
        if self._apply is not None:
            self._apply(change.parameters(self.holder.state))
        self.holder.become(change.save(self.holder.state))


def _fixed(state: State) -> dict[str, Any]:
    """The controls every strategy and record has."""
    lang = state.lang
    made = {
        "strategy": widgets.Dropdown(
            options=StrategyFactory.names(), value=state.strategy, description=say("mask.strategy", lang), layout=_WIDE
        ),
        "record": widgets.IntSlider(
            min=1, max=max(1, len(state.records)), description=say("mask.record", lang), layout=_WIDE
        ),
        "reset": widgets.Button(description=say("mask.reset", lang), layout=_WIDE),
        "apply": widgets.Button(description=say("apply", lang), button_style="primary", layout=_WIDE),
    }
    return {name: control.add_class(f"prep-{name}") for name, control in made.items()}


def _field(name: str, default: Any, hint: Any) -> tuple[Any, Any, Any]:
    """A control for one parameter, and how it reads and changes the state."""
    if isinstance(default, bool):
        control = widgets.Checkbox(description=name, indent=False, layout=_WIDE)
        return (
            control,
            lambda state: bool(_param(state, name, default)),
            lambda state, on: change.with_param(state, name, on),
        )
    hint = change.shown(hint) if default is None and hint else ""
    control = widgets.Text(description=name, placeholder=hint, layout=_WIDE, style={"description_width": "110px"})
    get = lambda state: change.shown(_param(state, name, default))  # noqa: E731
    return control, get, lambda state, text: change.with_text(state, name, text)


def _param(state: State, name: str, default: Any) -> Any:
    return dict(state.params).get(name, default)


def _area(said: change.Said) -> tuple[Any, Any, Any]:
    """A text area for one text of the record, and how it reads and changes the state."""
    place = said.place
    label = said.role if place.isdecimal() else place
    control = widgets.Textarea(description=label, rows=3, layout=_WIDE)
    return control, lambda state: _text(state, place), lambda state, text: change.rewrite(state, place, text)


def _text(state: State, place: str) -> str:
    return next((said.text for said in change.texts(state) if said.place == place), "")


def view(
    tokenizer: AutoTokenizer,
    records: Sequence[Mapping[str, Any]],
    *,
    strategy: str = "chatml",
    lang: str = "en",
    apply: Callable[[dict[str, Any]], Any] | None = None,
    **params: Any,
) -> MaskView:
    """Show which tokens a strategy trains in these records, and why, with controls to try others.

    Parameters
    ----------
    tokenizer : AutoTokenizer
    records : sequence of mappings
        ``{"query", "response"}``, ``{"messages"}``, ``{"query", "chosen", "rejected"}`` or ``{"text"}``: a sample.
    strategy : str
        A registered name.
    lang : str
    apply : callable of one dict, or None
        Called with ``{"strategy", "strategy_params", "train_after_stop"}`` when Apply is pressed. None: no such button.
    **params : str or bool
        Parameters of the strategy, as the parameters cell has them. A wrong one is told on the page.

    Raises
    ------
    UnknownName
        If nobody registered the strategy.
    """
    return MaskView(change.start(tokenizer, records, strategy, lang, **params), apply)
