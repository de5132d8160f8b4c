"""A real browser with the network off, what it asked for and complained about, and a JupyterLab for it to open."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from prep_lib.workspace import init

#: Nothing may leave this machine: no name resolves but the loopback address.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
]

#: Milliseconds to wait for what must come. A kernel answers a widget only when it has run the cells that were asked for
#: before, and a machine that runs other tests at the same time takes minutes for what takes seconds at home.
PATIENCE = 600_000


@dataclass
class Opened:
    """A page, the requests it made beside itself, and the errors on its console."""

    page: Any
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the browser; without one the test is skipped, and where tests must be complete that is an error."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        reason = "no Chromium here: install it (Debian: apt-get install chromium) to run the browser tests"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Any]:
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def open_file(browser: Any) -> Iterator[Callable[..., Opened]]:
    """Open a file with the network off: ``open_file(path, dark=True, width=390)``."""
    contexts = []

    def opener(path: Path, *, dark: bool = False, width: int = 1180) -> Opened:
        scheme = "dark" if dark else "light"
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        context.set_offline(True)
        opened = Opened(context.new_page())
        here = path.resolve().as_uri()
        opened.page.on("request", lambda asked: opened.requests.append(asked.url) if asked.url != here else None)
        opened.page.on(
            "console", lambda said: opened.errors.append(said.text) if said.type in ("error", "warning") else None
        )
        opened.page.on("pageerror", lambda error: opened.errors.append(str(error)))
        opened.page.goto(here, wait_until="load")
        return opened

    yield opener
    for context in contexts:
        context.close()


# ── JupyterLab ───────────────────────────────────────────────────────────────────────────────────────────────────────

#: Without these a news pop-up covers the page, a notebook asks for a kernel, and cells out of view are not drawn.
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "notebook-extension/tracker": {"autoStartDefaultKernel": True, "windowingMode": "none"},
}
#: Folders of Jupyter that must be this test's own, so that nothing of this user leaks in or out.
PLACES = {
    "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime",
    "JUPYTERLAB_SETTINGS_DIR": "lab-settings", "JUPYTERLAB_WORKSPACES_DIR": "lab-workspaces",
    "IPYTHONDIR": "ipython",
}  # fmt: skip
OPTIONS = (
    "--no-browser", "--ip=127.0.0.1", "--ServerApp.port_retries=0", "--allow-root",
    "--LabApp.expose_app_in_browser=True", "--LabApp.extension_manager=readonly",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--ServerApp.terminals_enabled=False",
)  # fmt: skip

IDLE = """() => {
  const kernel = window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel;
  return kernel && kernel.connectionStatus === 'connected' && kernel.status === 'idle';
}"""
READY = """async () => {
  const widget = window.jupyterapp.shell.currentWidget;
  await widget.context.ready;
  await widget.sessionContext.ready;
}"""


@dataclass(frozen=True)
class Lab:
    """A running `prep lab` over a workspace as `prep init` makes it."""

    base: str
    token: str
    workspace: Path

    def run_all(self, page: Any, notebook: str) -> None:
        """Open a notebook and run its cells, as Run All does, once its kernel is really there."""
        page.goto(f"{self.base}/lab/tree/{notebook}?token={self.token}&reset", wait_until="domcontentloaded")
        page.wait_for_function("() => window.jupyterapp !== undefined")
        page.evaluate("async () => { await window.jupyterapp.restored; }")
        page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell").first.wait_for()
        page.evaluate(READY)
        # Before the session is attached the command would open a dialog and wait for ever.
        page.wait_for_function(IDLE)
        page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")

    def outside(self, urls: list[str]) -> list[str]:
        """The addresses that are not this server's."""
        here = self.base.removeprefix("http")
        return [url for url in urls if not url.removeprefix("http").removeprefix("ws").startswith(here)]


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab with settings, data and sessions of its own."""
    with serving(tmp_path_factory.mktemp("jupyter"), tmp_path_factory.mktemp("lab") / "workspace") as made:
        yield made


@contextlib.contextmanager
def serving(home: Path, workspace: Path) -> Iterator[Lab]:
    """Run `prep lab` over a new workspace while the block runs; `home` holds all that is Jupyter's own."""
    init(workspace)
    for name, values in SETTINGS.items():
        path = home / "lab-settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = Lab(f"http://127.0.0.1:{port}", secrets.token_hex(16), workspace)
    own = [f"--port={port}", f"--IdentityProvider.token={made.token}"]
    with open(home / "server.log", "w") as log:
        running = subprocess.Popen(
            [sys.executable, "-m", "prep_lib.cli", "lab", str(workspace), *OPTIONS, *own],
            env={**os.environ, **{name: str(home / place) for name, place in PLACES.items()}},
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            _wait_until_up(made, running, home / "server.log")
            yield made
        finally:
            os.killpg(running.pid, signal.SIGTERM)
            try:
                running.wait(10)
            finally:
                if running.poll() is None:
                    os.killpg(running.pid, signal.SIGKILL)


def _wait_until_up(lab: Lab, running: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(240):
        try:
            with urllib.request.urlopen(f"{lab.base}/api?token={lab.token}", timeout=2):
                return
        except (urllib.error.URLError, TimeoutError):
            assert running.poll() is None, log.read_text()
            time.sleep(0.25)
    pytest.fail(log.read_text())


def write_parameters(notebook: Path, **values: object) -> None:
    """Write values into the parameters cell of a notebook, as a person types them."""
    read = json.loads(notebook.read_text("utf-8"))
    (cell,) = (cell for cell in read["cells"] if "parameters" in cell["metadata"].get("tags", []))
    lines = "".join(cell["source"]).split("\n")
    for name, value in values.items():
        (at,) = (at for at, line in enumerate(lines) if line.startswith(f"{name} = "))
        lines[at] = f"{name} = {value!r}"
    cell["source"] = "\n".join(lines)
    notebook.write_text(json.dumps(read), "utf-8")
