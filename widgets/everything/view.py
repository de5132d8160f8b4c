"""Run on everything: a button that starts the run in the background, and a page that follows it, also when reopened.

[Run on everything]  [Stop]
page
report ↗
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import ipywidgets as widgets

from prep_lib.background import end, look, whole, whole_command
from prep_lib.errors import PrepError
from prep_lib.markup import snippet, tag
from prep_lib.words import say
from prep_lib.workspace import HEADLESS, Run
from widgets.bind import Holder, View
from widgets.everything import state as change
from widgets.everything.page import command_page, page
from widgets.everything.state import State

#: Seconds between two looks at the run's files: while it works, and while nothing does.
PAUSE, IDLE = 1.0, 3.0


class EverythingView(View):
    """Two buttons over what the files of the run say.

    Attributes
    ----------
    holder : Holder
        Its ``state`` is what is shown.
    start, stop : Button
    """

    def __init__(self, run: Run, state: State) -> None:
        self.run, self.whole = run, whole(run)
        self._page = widgets.HTML(layout={"width": "auto"}).add_class("prep-page-live")
        self._link = widgets.Output()
        self.start = widgets.Button(description=say("everything.start", state.lang), button_style="primary")
        self.stop = widgets.Button(description=say("everything.stop", state.lang))
        self.start.add_class("prep-start").on_click(lambda _: self.begin())
        self.stop.add_class("prep-stop").on_click(lambda _: self.end())
        self.holder = Holder(state, self._draw)
        self._starting: Future[subprocess.CompletedProcess[bytes]] | None = None
        self._task: asyncio.Task[None] | None = None
        box = widgets.VBox([widgets.HBox([self.start, self.stop]), self._page, self._link])
        super().__init__(box, self._twin, f"run on everything: {self.whole.name}")
        self._draw(state)

    def _twin(self) -> str:
        return command_page(self.holder.state) if HEADLESS in os.environ else page(self.holder.state)

    def _draw(self, state: State) -> None:
        self._page.value = page(state)
        self.start.disabled, self.stop.disabled = not change.may_start(state), not change.may_stop(state)
        self._link.outputs = self._linked(state)

    def _linked(self, state: State) -> tuple[dict[str, Any], ...]:
        """Link the report from here: an output's address is read from the notebook's folder, a widget's is not."""
        report = self.whole.folder / "reports" / "index.html"
        if not change.may_start(state) or not report.is_file():
            return ()
        link = tag("a", say("everything.report", state.lang), href=os.path.relpath(report), target="_blank")
        html = snippet(tag("p", link), state.lang)
        return ({"output_type": "display_data", "data": {"text/html": str(html)}, "metadata": {}},)

    # ------------------------------------------------------------------------------------------------ what happens

    def begin(self) -> None:
        """Start the run as a shell would, without waiting for it: it is checked first, and that takes a while."""
        if not change.may_start(self.holder.state):
            return
        command = [sys.executable, "-P", "-m", "prep_lib.cli", *whole_command(self.run), "--detach"]
        pool = ThreadPoolExecutor(1)
        self._starting = pool.submit(
            subprocess.run, command, cwd=self.run.root, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        pool.shutdown(wait=False)
        self.holder.become(change.starting(self.holder.state))

    def end(self) -> None:
        """Ask the run to end as Ctrl-C would."""
        try:
            end(self.whole)
            self.holder.become(change.stopping(self.holder.state))
        except PrepError:
            self.refresh()  # it has ended by itself

    def refresh(self) -> None:
        """Look at the files again."""
        state = self.holder.state
        if self._starting is not None and self._starting.done():
            done, self._starting = self._starting.result(), None
            lines = done.stderr.decode("utf-8", "replace").splitlines()
            state = change.refused(state, tuple(lines[-20:])) if done.returncode else change.settled(state)
        self.holder.become(change.seen(state, look(self.whole)))

    def follow(self) -> None:
        """Look again and again, as long as this is the cell that does."""
        while _open:
            _open.pop().close()
        _open.append(self)
        with suppress(RuntimeError):  # no loop runs where nobody could look: in a script, in a test
            self._task = asyncio.get_running_loop().create_task(self._follow())

    async def _follow(self) -> None:
        while True:
            with suppress(PrepError, OSError):  # a folder that is being removed is no reason to stop looking
                self.refresh()
            await asyncio.sleep(IDLE if change.may_start(self.holder.state) else PAUSE)

    def close(self) -> None:
        """Look no more; the run goes on."""
        if self._task is not None:
            self._task.cancel()


_open: list[EverythingView] = []


def view(run: Run, *, lang: str = "en") -> EverythingView:
    """Run what was explored here on everything, in the background, in a run of its own, and follow it.

    Parameters
    ----------
    run : Run
        As `prep_lib.workspace.open_run` gives it; its recipe is what Apply left, or the notebooks of this way.
    lang : str

    Notes
    -----
    The run goes on when the notebook, JupyterLab or the terminal is closed. Opened again, this finds it by its files.
    In a notebook that ``prep run`` executes, and in its report, the command is shown as text.
    """
    live = HEADLESS not in os.environ
    if live and not (run.folder / "recipe.yaml").is_file():
        run.apply({})  # so that the command that is shown works
    shown = EverythingView(run, change.begin(whole(run).name, whole_command(run), lang))
    if live:
        shown.refresh()
        shown.follow()
    return shown
