"""Take the pictures of README from the real thing: `python -m tests.browser.pictures`, after `make run`.

assets/workbench.png    21_templates in JupyterLab, on its built-in questions
assets/report.png       the top of runs/demo/reports/index.html
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from .conftest import FLAGS, IDLE, PATIENCE, serving

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "assets"
REPORT = ROOT / "runs" / "demo" / "reports" / "index.html"

#: Pixels; at twice the density, so that letters stay sharp on a good screen.
WIDTH, HEIGHT = 1280, 800


def main() -> int:
    """Take both; 1 if there is no report to take one of."""
    from playwright.sync_api import sync_playwright

    if not REPORT.is_file():
        print(f"no {REPORT.relative_to(ROOT)} yet: make run", file=sys.stderr)
        return 1
    ASSETS.mkdir(exist_ok=True)
    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=1.5)
        context.set_default_timeout(PATIENCE)
        report(context.new_page())
        with serving(Path(folder, "jupyter"), Path(folder, "workspace")) as lab:
            workbench(context.new_page(), lab)
        browser.close()
    return 0


def report(page: Any) -> None:
    """Take the top of the report."""
    page.goto(REPORT.as_uri(), wait_until="load")
    page.screenshot(path=ASSETS / "report.png")


def workbench(page: Any, lab: Any) -> None:
    """Take the workbench as it stands when the notebook has run, with the file browser put away."""
    # First the notebook that writes the records; it is done when its last table is there.
    lab.run_all(page, "notebooks/20_export.ipynb")
    page.locator(".jp-OutputArea-output .prep").first.wait_for()
    page.wait_for_function(IDLE)
    lab.run_all(page, "notebooks/21_templates.ipynb")
    page.locator(".prep-body .runs .chip").first.wait_for()
    page.evaluate("() => window.jupyterapp.commands.execute('application:toggle-left-area')")
    page.locator(".prep-body").first.evaluate("element => element.scrollIntoView({block: 'start'})")
    page.wait_for_timeout(1500)
    page.screenshot(path=ASSETS / "workbench.png")


if __name__ == "__main__":
    sys.exit(main())
