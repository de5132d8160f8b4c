"""A real browser with the network off, and what it asked for and complained about."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

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
    from playwright.sync_api import sync_playwright

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
