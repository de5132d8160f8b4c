"""A sample says what everything would take."""

from __future__ import annotations

import pytest
from toy_runs import pressed, workspace, write_notebook

from prep_lib import shelf
from prep_lib.recipes import read
from prep_lib.trial import estimate

pytestmark = pytest.mark.filterwarnings("default")  # what other projects deprecate is theirs


def test_what_was_not_counted_is_a_dash(tmp_path, monkeypatch):
    monkeypatch.setattr(shelf, "_our_modules", lambda: ["prep_lib.seeds"])
    ws = workspace(tmp_path)
    write_notebook(ws, "10_a", "_ = (run.data / 'a.bin').write_bytes(bytes(2_000_000))")
    run = pressed(ws, "10_a")[2]
    head, row, *notes = estimate(read(ws / "r.yaml", ws), run)
    cells = [cell.strip() for cell in row.split("  ") if cell.strip()]
    assert cells[:3] == ["10_a", "–", "–"]
    assert cells[4] == "2 MB"
    assert cells[6] == "–"
    assert head.startswith("notebook")
    assert notes[0].startswith("estimated from a sample of about 2,000 rows")
