"""What a run counted is read from its ledgers."""

from __future__ import annotations

from prep_lib.ledger import Ledger
from prep_lib.results import ledgers
from prep_lib.workspace import Run


def test_what_a_notebook_wrote_on_its_way_stands_for_itself(tmp_path):
    """One without a ledger of its own is the sum of what lies in it."""

    def write(place, documents):
        ledger = Ledger()
        ledger.add("read", "in", "web", documents=documents)
        ledger.add("read", "kept", "web", documents=documents)
        path = tmp_path / "runs/one/data" / place / "ledger.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(ledger.to_json())

    for place, documents in (("00_t/a", 1), ("00_t/b", 2), ("13_m", 4), ("13_m/texts", 8), ("13_m/.prep/x", 16)):
        write(place, documents)
    found = ledgers(Run(tmp_path, "one"))
    assert {name: ledger.total("read", "in") for name, ledger in found.items()} == {
        "00_t": 3, "13_m/texts": 8, "13_m": 4,
    }  # fmt: skip
    assert list(found) == ["00_t", "13_m/texts", "13_m"]
