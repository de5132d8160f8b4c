"""The workbench: change template, policy, row or text, and see every token follow; all rows are looked at meanwhile.

template ▾ [ text … ]    │  head: what, which row, what is wrong with it
policy  row ◀ ▶ search   │  tokens, each run with its reason
compare ▾  limit [ 0 ]   │  differences, findings, methods, limits    (worked out after the last key)
[Undo] [Save]            │
all rows, worst first    │  (a slice at a time, between two keys)
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from prep_lib.chat.mask import ANSWERS
from prep_lib.chat.row import TOO_LONG
from prep_lib.markup import Html, note, snippet
from prep_lib.words import say
from prep_lib.workspace import HEADLESS
from widgets.bind import Holder, View, part
from widgets.workbench import page as draw
from widgets.workbench import state as change
from widgets.workbench.state import State

if TYPE_CHECKING:
    from prep_lib.tokens.tokenizer import AutoTokenizer

#: As wide as its column: a widget has a margin, so 100 % would be a little more and the column would scroll.
_WIDE = {"width": "auto"}

#: Seconds without a change before the slower parts are worked out.
PAUSE = 0.2

#: Seconds of looking at rows between two looks at what the person does; rows at once; seconds between two drawings.
SLICE, MOST_ROWS, REFRESH = 0.03, 64, 0.5

#: Seconds of one change from which on the page says that it was slow.
SLOW = 0.5

#: Rows a headless run looks at before the page is written.
SCANNED = 2_000

#: Parts of the page, each redrawn by itself.
AREAS = ("head", "body", "more", "rows", "talk", "said")

#: Messages with a field of their own; the others are in the JSON.
FIELDS = 12

#: The longest limit of a row, tokens.
LONGEST = 2**24


class _Holder(Holder[State]):
    """A holder for several threads: JupyterLab may hand over a person's keys in another one than runs the cells."""

    def __init__(self, state: State, draw: Callable[[State], None]) -> None:
        super().__init__(state, draw)
        self.lock, self._deaf = threading.RLock(), False

    def become(self, state: State) -> None:
        """Take a new state, unless it comes from our own hand."""
        with self.lock:
            if not self._deaf:
                super().become(state)

    def swap(self, before: State, after: State) -> None:
        """Take what was worked out for a state, unless a person went on meanwhile."""
        with self.lock:
            if self.state is before:
                self.state = after

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Do not take what we do to a control for a person's choice."""
        with self.lock:
            before, self._deaf = self._deaf, True
            try:
                yield
            finally:
                self._deaf = before


class WorkbenchView(View):
    """Controls over a workbench state.

    Attributes
    ----------
    holder : Holder
        Its ``state`` is what is shown.
    controls : dict of str to widget
        By name, as their CSS classes ``prep-NAME``; a strategy's parameter as ``param-`` and its name, a message as
        ``text-`` and its place.
    """

    def __init__(self, state: State, apply: Callable[..., Any] | None, save: Callable[..., Any] | None) -> None:
        self._apply, self._save = apply, save
        self._task: asyncio.Task[None] | None = None
        self._turn = 0
        self._built: dict[str, Any] = {}
        self.holder = _Holder(state, self._draw)
        self._areas = {name: widgets.HTML(layout=_WIDE).add_class(f"prep-{name}") for name in AREAS}
        self._params, self._texts = widgets.VBox(layout=_WIDE), widgets.VBox(layout=_WIDE)
        self.controls = _controls(state)
        self._edits = widgets.VBox([self._texts, self.controls["record"]], layout={"display": "none"})
        self._bind()
        super().__init__(self._box(), self._twin, self._line())
        self._draw(state)

    # ------------------------------------------------------------------------------------------------ controls

    def _box(self) -> Any:
        c = self.controls
        named = {name: _group(name, self.holder.state.lang) for name in ("template", "policy", "row", "view")}
        buttons = [c["reset"]] + ([c["save"]] if self._apply or self._save else [])
        rows, walks = _pair(c["back"], c["next"]), _pair(c["walk_back"], c["walk_next"])
        left = [
            named["template"], c["choose"], c["source"], c["repair"], self._params,
            named["policy"], c["answers"], *(c[name] for name in change.FLAGS),
            named["row"], c["index"], rows, c["search"], _pair(c["search_back"], c["search_next"]),
            c["walk"], walks, c["edit"], self._edits,
            named["view"], c["show"], c["other"], c["max_length"], c["too_long"], c["first"],
            _pair(*buttons), self._areas["said"], self._areas["rows"], self._areas["talk"],
        ]  # fmt: skip
        column = widgets.VBox(left, layout={"flex": "0 1 300px", "min_width": "260px", "padding": "0 10px 0 0"})
        shown = [self._areas[name] for name in ("head", "body", "more")]
        right = widgets.VBox(shown, layout={"flex": "1 1 460px", "min_width": "300px"})
        return widgets.HBox([column.add_class("prep-controls"), right], layout={"flex_flow": "row wrap"})

    def _bind(self) -> None:
        hold, c = self.holder.bind, self.controls
        hold(c["choose"], lambda state: change.label(state.way), change.with_way)
        hold(c["source"], lambda state: state.way.source, change.with_source)
        for name in ("answers", *change.FLAGS):
            hold(c[name], *_policy(name))
        # A person counts rows from 1, as the page does.
        hold(c["index"], lambda state: state.index + 1, lambda state, at: change.with_index(state, at - 1))
        hold(c["record"], change.as_json, lambda state, text: change.rewrite(state, "record", text))
        for name, field in (("show", "show"), ("other", "other"), ("max_length", "max_length"), ("walk", "rule")):
            hold(c[name], *part(field))
        for name in ("too_long", "first"):
            hold(c[name], *part(name))
        self._click("back", lambda state: change.with_index(state, state.index - 1))
        self._click("next", lambda state: change.with_index(state, state.index + 1))
        self._click("search_back", lambda state: change.search(state, c["search"].value, -1))
        self._click("search_next", lambda state: change.search(state, c["search"].value))
        self._click("walk_back", lambda state: change.walk(state, -1))
        self._click("walk_next", change.walk)
        self._click("reset", change.reset)
        self._click("repair", change.repaired)
        c["edit"].observe(lambda _: self._open(), names="value")
        # Told when a person leaves the field or presses Enter.
        c["search"].observe(lambda _: c["search_next"].click(), names="value")
        c["save"].on_click(lambda _: self.save())

    def _click(self, name: str, turn: Callable[[State], State]) -> None:
        self.controls[name].on_click(lambda _: self.holder.become(turn(self.holder.state)))

    def _open(self) -> None:
        """Show or hide the texts of the row; a button and no accordion, whose title the Tab key passes by."""
        opened = self.controls["edit"].value
        self._edits.layout.display = None if opened else "none"
        self.controls["edit"].description = _edit(opened, self.holder.state.lang)

    # ------------------------------------------------------------------------------------------------ drawing

    def _draw(self, state: State) -> None:
        """Draw what a person waits for, and put off the rest until they pause."""
        began = time.perf_counter()
        self._rebuild(state)
        self._show("head", snippet(draw.head(state), state.lang))
        self._show("body", snippet(draw.tokens(state), state.lang))
        self._show("talk", snippet(draw.talk(state), state.lang))
        took = time.perf_counter() - began
        self._tell(say("workbench.slow", state.lang, seconds=f"{took:.1f}") if took > SLOW else "")
        self._later()

    def _show(self, area: str, html: str) -> None:
        if self._areas[area].value != html:
            self._areas[area].value = html

    def _tell(self, line: str, kind: str = "warn") -> None:
        told = note(kind, line) if line else Html()
        self._show("said", f'<div role="status">{snippet(told, self.holder.state.lang)}</div>' if line else "")

    def _draw_later(self) -> None:
        with self.holder.lock:
            state = self.holder.state
            self._show("more", snippet(draw.more(state), state.lang))
            self._show("rows", snippet(draw.rows(state), state.lang))
            self._offer(self.controls["walk"], _walks(state), state.rule)
            fix, button = change.repair(state), self.controls["repair"]
            button.layout.display = "none" if fix is None else None
            button.description = "" if fix is None else say("workbench.use_repair", state.lang, what=fix.what)

    def _rebuild(self, state: State) -> None:
        """Make anew what other choices have other values of; never what is under a person's cursor."""
        lang, c = state.lang, self.controls
        self._offer(c["choose"], [change.label(way) for way in state.ways], change.label(state.way))
        self._offer(c["other"], _others(state), state.other)
        template = state.way.kind == "template"
        c["source"].layout.display = None if template else "none"
        for name in ("reasoning", "tool_calls", "weights"):
            c[name].layout.display = None if template else "none"
        longest = max((len(strand.tokens) for strand in change.work(state).strands), default=0)
        with self.holder.quiet():
            c["first"].max = max(state.first, longest - 1)
        c["first"].layout.display = None if longest > draw.MOST else "none"
        key = ("params", None if template else state.way.name)
        if self._built.get("params") != key:
            self._fill(self._params, {} if template else _params(state))
        texts = ("texts", state.index, dict(state.edits).get("record"))
        if self._built.get("texts") != texts:
            self._fill(self._texts, {f"text-{said.place}": _area(said) for said in change.texts(state)[:FIELDS]})
        self._built = {"params": key, "texts": texts, "lang": lang}

    def _offer(self, control: Any, options: Sequence[Any], value: Any) -> None:
        """Give a dropdown other options without taking the changed value for a person's choice."""
        if list(control.options) != list(options):
            values = [option[1] if isinstance(option, tuple) else option for option in options]
            with self.holder.quiet():
                control.options = options
                control.value = value if value in values else values[0]

    def _fill(self, box: Any, fields: Mapping[str, tuple[Any, Any, Any]]) -> None:
        self.holder.release(box.children)
        self.controls = {name: control for name, control in self.controls.items() if control not in box.children}
        for name, (control, get, turn) in fields.items():
            css = "prep-" + name.replace("_", "-").replace(".", "-")
            self.controls[name] = self.holder.bind(control, get, turn).add_class(css)
        box.children = [control for control, _, _ in fields.values()]

    # ------------------------------------------------------------------------------------------------ later

    def _later(self) -> None:
        """Begin to work out the rest, or begin again: what was begun belonged to other choices."""
        self._turn += 1
        self._draw_later()
        if HEADLESS in os.environ:
            return
        with suppress(RuntimeError):  # no loop runs where nobody could look: in a script, in a test
            self._task = asyncio.get_running_loop().create_task(self._work(self._turn))

    async def _work(self, turn: int) -> None:
        """Work out the slower parts, then look at all rows, a slice at a time, until a person goes on."""
        await asyncio.sleep(PAUSE)
        await self._steps(turn)
        drawn, rows = time.perf_counter(), 1
        while self._turn == turn and not change.scanned(self.holder.state):
            began = time.perf_counter()
            self.look(rows)
            # As many rows as a person does not notice: a heavy template gets one at a time.
            rows = min(2 * rows, MOST_ROWS) if time.perf_counter() - began < SLICE else max(1, rows // 2)
            if time.perf_counter() - drawn > REFRESH:
                self._draw_later()
                drawn = time.perf_counter()
            # Longer than nothing, so that keys are read and other tasks of the kernel have their turn.
            await asyncio.sleep(0.005)
        await self._steps(turn)

    async def _steps(self, turn: int) -> None:
        while self._turn == turn and self.step():
            await asyncio.sleep(0.005)
        if self._turn == turn:
            self._draw_later()

    def step(self) -> bool:
        """Work out one of the slower parts; return whether there was one."""
        before = self.holder.state
        names = change.pending(before)
        if names:
            self.holder.swap(before, change.with_part(before, names[0]))
            self._draw_later()
        return bool(names)

    def look(self, rows: int) -> None:
        """Look at some more rows."""
        before = self.holder.state
        self.holder.swap(before, change.scan_some(before, rows))

    def finish(self, rows: int = SCANNED) -> None:
        """Work out everything at once, over at most this many rows, and draw it."""
        before = self.holder.state
        self.holder.swap(before, change.settle(before, rows))
        self._draw_later()

    def _twin(self) -> str:
        """The page as it stands in a report: in a headless run nobody comes later, so everything is worked out."""
        if HEADLESS in os.environ:
            self.finish()
        return draw.page(self.holder.state)

    def _line(self) -> str:
        state = self.holder.state
        return f"workbench: {len(state.data.records):,} rows, {change.label(state.way)}"

    # ------------------------------------------------------------------------------------------------ save

    def save(self) -> None:
        """Write template and findings where the notebook says, hand the parameters over, and say what was written.

        `save` of `view` is called with file name -> text; what it returns for ``template.jinja`` becomes the
        parameter ``template``.
        """
        state = self.holder.state
        try:
            if self._save is not None:
                places = self._save(change.files(state)) or {}
                if change.edited(state):
                    state = change.stored(state, str(places.get("template.jinja", "template.jinja")))
            if self._apply is not None:
                self._apply(change.parameters(state))
        except Exception as error:  # a full disk, a folder that is gone: the view stays, and says so
            self._tell(f"{type(error).__name__}: {error}", "bad")
            return
        names = ", ".join(change.files(state)) if self._save is not None else "recipe.yaml"
        self.holder.become(change.save(state))
        self._tell(say("workbench.saved", state.lang, names=names), "ok")


# ---------------------------------------------------------------------------------------------------------------------
# Controls
# ---------------------------------------------------------------------------------------------------------------------


def _controls(state: State) -> dict[str, Any]:
    lang = state.lang

    def word(key: str) -> dict[str, Any]:
        return {"description": say(f"workbench.{key}", lang), "layout": dict(_WIDE)}

    def button(key: str) -> Any:
        return widgets.Button(**word(key))

    answers = [(say(f"workbench.policy_{name}", lang), name) for name in ANSWERS]
    shows = [(say(f"workbench.show_{name}", lang), name) for name in change.SHOWN]
    n, longest = max(1, len(state.data.records)), max(LONGEST, state.max_length)
    made = {
        "choose": widgets.Dropdown(options=[change.label(way) for way in state.ways], **word("choose")),
        "source": widgets.Textarea(rows=12, **word("text")),
        "repair": widgets.Button(layout={"display": "none", **_WIDE}),
        "answers": widgets.Dropdown(options=answers, **word("answers")),
        "reasoning": widgets.Checkbox(indent=False, **word("train_reasoning")),
        "tool_calls": widgets.Checkbox(indent=False, **word("train_tool_calls")),
        "weights": widgets.Checkbox(indent=False, **word("weights")),
        "train_after_stop": widgets.Checkbox(indent=False, **word("train_after_stop")),
        # Fields and no sliders: those have no name for a screen reader.
        "index": widgets.BoundedIntText(min=1, max=n, continuous_update=False, **word("row")),
        "back": button("back"),
        "next": button("next"),
        "search": widgets.Text(continuous_update=False, **word("search")),
        "search_back": button("search_back"),
        "search_next": button("search_next"),
        "walk": widgets.Dropdown(options=_walks(state), **word("walk")),
        "walk_back": button("walk_back"),
        "walk_next": button("walk_next"),
        "edit": widgets.ToggleButton(description=_edit(False, lang), layout=dict(_WIDE)),
        "record": widgets.Textarea(rows=8, continuous_update=False, **word("record_json")),
        "show": widgets.Dropdown(options=shows, **word("show")),
        "other": widgets.Dropdown(options=_others(state), **word("with")),
        "max_length": widgets.BoundedIntText(max=longest, step=64, continuous_update=False, **word("limit")),
        "too_long": widgets.Dropdown(options=list(TOO_LONG), **word("too_long")),
        "first": widgets.BoundedIntText(min=0, max=0, step=draw.MOST, **word("from")),
        "reset": button("reset"),
        "save": widgets.Button(button_style="primary", **word("save")),
    }
    return {name: control.add_class(f"prep-{name.replace('_', '-')}") for name, control in made.items()}


def _edit(opened: bool, lang: str) -> str:
    return f"{'▾' if opened else '▸'} {say('workbench.group_texts', lang)}"


def _policy(name: str) -> tuple[Callable[[State], Any], Callable[[State, Any], State]]:
    return lambda state: getattr(state.policy, name), lambda state, value: change.with_policy(state, name, value)


def _group(name: str, lang: str) -> Any:
    return widgets.HTML(f'<h3 class="prep-group">{say(f"workbench.group_{name}", lang)}</h3>', layout=_WIDE)


def _pair(*buttons: Any) -> Any:
    for button in buttons:
        button.layout.flex, button.layout.width = "1 1 0", "auto"
    return widgets.HBox(buttons, layout=_WIDE)


def _others(state: State) -> list[tuple[str, str]]:
    return [(_other(code, state.lang), code) for code in change.rivals(state)]


def _other(code: str, lang: str) -> str:
    kind, _, name = code.partition(": ")
    if not code:
        return say("workbench.with_nothing", lang)
    return say("workbench.turned", lang, name=name) if kind == "policy" else code


def _walks(state: State) -> list[tuple[str, str]]:
    groups = state.scan.groups if state.scan is not None else ()
    lang, rows = state.lang, len({row for group in groups for row in group.first})
    named = [(say("workbench.walk_rule", lang, rule=group.rule, n=group.rows), group.rule) for group in groups]
    rules = {rule: said for said, rule in named}
    # The chosen one stays on offer while rows are looked at anew.
    rules |= {state.rule: state.rule} if state.rule and state.rule not in rules else {}
    return [(say("workbench.walk_any", lang, n=rows), ""), *((said, rule) for rule, said in rules.items())]


def _params(state: State) -> dict[str, tuple[Any, Any, Any]]:
    """A field for each text of the strategy, and how it reads and changes the state."""
    hints = change.used(state)
    known = {name: value for name, value in change.defaults(state).items() if name != "train_after_stop"}
    return {f"param-{name}": _field(name, default, hints.get(name)) for name, default in known.items()}


def _field(name: str, default: Any, hint: Any) -> tuple[Any, Any, Any]:
    def given(state: State) -> Any:
        return dict(state.way.params).get(name, default)

    if isinstance(default, bool):
        box = widgets.Checkbox(description=name, indent=False, layout=_WIDE)
        return box, lambda state: bool(given(state)), lambda state, on: change.with_param(state, name, on, default)
    line = widgets.Text(description=name, placeholder=change.shown(hint) if default is None else "", layout=_WIDE)

    def typed(state: State, text: str) -> State:
        value = change.typed(text) if text or default is not None else None
        return change.with_param(state, name, value, default)

    return line, lambda state: change.shown(given(state)), typed


def _area(said: change.Said) -> tuple[Any, Any, Any]:
    """A text area for one message, and how it reads and changes the state."""
    place = said.place
    area = widgets.Textarea(description=f"{said.role} · {place}", rows=3, layout=_WIDE)

    def read(state: State) -> str:
        return next((one.text for one in change.texts(state) if one.place == place), "")

    return area, read, lambda state, text: change.rewrite(state, place, text)


def view(
    tokenizer: AutoTokenizer,
    records: Sequence[Mapping[str, Any]],
    *,
    apply: Callable[[dict[str, Any]], Any] | None = None,
    save: Callable[[dict[str, str]], Mapping[str, Any] | None] | None = None,
    **choices: Any,
) -> WorkbenchView:
    """Show what a template or strategy makes of these records, token by token, with controls to try others.

    Parameters
    ----------
    tokenizer : AutoTokenizer
    records : sequence of mappings
        In any form `prep_lib.chat.conversation` reads; looked at as they are asked for.
    apply : callable of one dict, or None
        Called with the parameters when Save is pressed.
    save : callable of one dict, or None
        Called with file name -> text when Save is pressed; returns file name -> place. None for both: no such button.
    **choices
        What `widgets.workbench.state.start` takes: what is offered, and what the parameters cell says.
    """
    return WorkbenchView(change.start(tokenizer, records, **choices), apply, save)
