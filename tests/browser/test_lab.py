"""A person's way: a workspace, JupyterLab in a browser, a notebook run, another strategy, and the picture follows."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from prep_lib.tokens.tokenizer import AutoTokenizer
from prep_lib.workspace import init

pytestmark = pytest.mark.browser

ROWS = [{"query": f"Which file holds mask {n}?", "response": f"Shard {n}."} for n in range(5)]

#: Without these a news pop-up covers the page, and a notebook asks which kernel to start.
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "notebook-extension/tracker": {"autoStartDefaultKernel": True, "windowingMode": "none"},
}

IDLE = """() => {
  const kernel = window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel;
  return kernel && kernel.connectionStatus === 'connected' && kernel.status === 'idle';
}"""
READY = """async () => {
  const widget = window.jupyterapp.shell.currentWidget;
  await widget.context.ready;
  await widget.sessionContext.ready;
}"""
ERROR = "[data-mime-type='application/vnd.jupyter.stderr']"
#: What the chips say, one behind the other, without the line each brings up when pointed at.
CHIPS = """() => {
  const chips = document.querySelectorAll('.prep-page-live .chips .chip');
  return [...chips].map(chip => chip.firstChild.textContent).join('');
}"""


class Server(NamedTuple):
    base: str
    token: str


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace as `prep init` makes it, with what 20_export and a tokenizer would have left there."""
    folder = tmp_path_factory.mktemp("lab") / "workspace"
    init(folder)
    exported = folder / "runs/default/data/20_export"
    exported.mkdir(parents=True)
    (exported / "sft_chunk_0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    AutoTokenizer().train([json.dumps(row) for row in ROWS], vocab_size=400).save(folder / "runs/default/tokenizer")
    return folder


@pytest.fixture(scope="module")
def server(workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`prep lab` with settings, data and sessions of its own, so that nothing of this user leaks in or out."""
    home = tmp_path_factory.mktemp("jupyter")
    for name, values in SETTINGS.items():
        path = home / "lab-settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    places = {
        "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "lab-settings", "JUPYTERLAB_WORKSPACES_DIR": "lab-workspaces",
        "IPYTHONDIR": "ipython",
    }  # fmt: skip
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    options = [
        "--no-browser", "--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0", "--allow-root",
        f"--IdentityProvider.token={token}", "--LabApp.expose_app_in_browser=True",
        "--LabApp.extension_manager=readonly",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--ServerApp.terminals_enabled=False",
    ]  # fmt: skip
    with open(home / "server.log", "w") as log:
        running = subprocess.Popen(
            [sys.executable, "-m", "prep_lib.cli", "lab", str(workspace), *options],
            env={**os.environ, **{name: str(home / place) for name, place in places.items()}},
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            found = Server(f"http://127.0.0.1:{port}", token)
            wait_until_up(found, running, home / "server.log")
            yield found
        finally:
            os.killpg(running.pid, signal.SIGTERM)
            try:
                running.wait(10)
            finally:
                if running.poll() is None:
                    os.killpg(running.pid, signal.SIGKILL)


def wait_until_up(server: Server, running: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(240):
        try:
            with urllib.request.urlopen(f"{server.base}/api?token={server.token}", timeout=2):
                return
        except (urllib.error.URLError, TimeoutError):
            assert running.poll() is None, log.read_text()
            time.sleep(0.25)
    pytest.fail(log.read_text())


def run_all(page: Any, server: Server, notebook: str) -> None:
    """Open a notebook and run its cells, as Run All does, once its kernel is really there."""
    page.goto(f"{server.base}/lab/tree/{notebook}?token={server.token}&reset", wait_until="domcontentloaded")
    page.wait_for_function("() => window.jupyterapp !== undefined")
    page.evaluate("async () => { await window.jupyterapp.restored; }")
    page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell").first.wait_for()
    page.evaluate(READY)
    # Before the session is attached the command would open a dialog and wait for ever.
    page.wait_for_function(IDLE)
    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")


def test_another_strategy_and_another_query_change_the_chips(browser: Any, server: Server, workspace: Path) -> None:
    from playwright.sync_api import expect

    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.set_default_timeout(90_000)
    page = context.new_page()
    outside: list[str] = []
    page.on(
        "request", lambda asked: outside.append(asked.url) if asked.url.startswith(("http:", "https:", "ws:")) else None
    )
    try:
        run_all(page, server, "notebooks/21_templates.ipynb")
        page.locator(f".prep-page-live .chip, {ERROR}").first.wait_for()
        assert page.locator(ERROR).all_text_contents() == []
        assert "im▁start" in page.evaluate(CHIPS)

        page.locator(".prep-strategy select").select_option("alpaca")
        page.wait_for_function(f"() => ({CHIPS})().includes('Instruction')")
        assert "im▁start" not in page.evaluate(CHIPS)

        page.locator(".prep-texts textarea").first.fill("Zebra")
        page.wait_for_function(f"() => ({CHIPS})().includes('Zebra')")
        expect(page.locator(".prep-page-live .chip.on").first).to_be_visible()

        # The kernel works where the notebook lies, and the run is found from there.
        assert (workspace / "runs/default/data/21_templates").is_dir()
        assert not (workspace / "notebooks/runs").exists()
        here = server.base.removeprefix("http")
        assert [url for url in outside if not url.removeprefix("http").removeprefix("ws").startswith(here)] == []
    finally:
        context.close()
