"""What a run counted, and where each of its notebooks stands.

data/*/…ledger.json   ──ledgers──▶  per notebook  ──summary──▶  records in and kept, tokens, how full the packs are
run.jsonl             ──states───▶  open, running, done, failed, interrupted
executed/NAME.json    ──record───▶  key, seconds, memory, files read and written
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prep_lib.ledger import Ledger
from prep_lib.workspace import Run, read_events


def record(run: Run) -> dict[str, Any] | None:
    """Return what is known of a finished notebook: key, seconds, inputs and outputs with size and sha256."""
    try:
        stored: dict[str, Any] = json.loads((run.folder / "executed" / f"{run.notebook}.json").read_bytes())
    except (OSError, ValueError):
        return None
    return stored


@dataclass(frozen=True)
class Numbers:
    """The few numbers that matter of a run or one of its notebooks; None where nothing was counted.

    Parameters
    ----------
    records, kept : int or None
        Into the first stage, and out of the last.
    tokens : int or None
        Written.
    places : int or None
        Written tokens and padding.
    """

    records: int | None = None
    kept: int | None = None
    tokens: int | None = None
    places: int | None = None

    @property
    def efficiency(self) -> float | None:
        """The share of stored places that hold a token."""
        return self.tokens / self.places if self.tokens is not None and self.places else None


def ledgers(run: Run) -> dict[str, Ledger]:
    """Return what each notebook counted, in the order of their names: the sum of its ``…ledger.json`` files.

    What a notebook with a ledger of its own wrote into a folder inside, before it came to its end, stands for itself:
    ``13_mix/texts``, then ``13_mix``.
    """
    data = run.folder / "data"
    paths = [path.relative_to(data) for path in data.rglob("*ledger.json")]
    seen = sorted(path for path in paths if not any(part.startswith(".") for part in path.parts))
    own = {path.parts[0] for path in seen if len(path.parts) == 2}
    found: dict[str, Ledger] = {}
    for path in sorted(seen, key=lambda path: (path.parts[0], len(path.parts) == 2, path)):
        name = path.parent.as_posix() if path.parts[0] in own else path.parts[0]
        found.setdefault(name, Ledger())
        found[name] += Ledger.from_json((data / path).read_bytes())
    return found


def numbers(ledger: Ledger) -> Numbers:
    """Read the numbers that matter out of a ledger."""
    counted = [stage for stage in ledger.stages if any(key[0] == stage for key in ledger.documents)]
    tokens = [stage for stage in ledger.stages if ledger.total(stage, "written", unit="tokens")]
    written = ledger.total(tokens[-1], "written", unit="tokens") if tokens else None
    padding = ledger.total(tokens[-1], "padding", unit="tokens") if tokens else 0
    return Numbers(
        records=ledger.total(counted[0], "in") if counted else None,
        kept=ledger.total(counted[-1], "kept") if counted else None,
        tokens=written,
        places=None if written is None else written + padding,
    )


def summary(run: Run) -> Numbers:
    """Return the numbers of the way a run ends with: what came into its first notebook, what its last one wrote."""
    counted = ledgers(run)
    # Notebooks of one way share their first digit; a tour counts for itself.
    way = [numbers(ledger) for name, ledger in counted.items() if name[0] == max(counted)[0]]
    records = next((one.records for one in way if one.records is not None), None)
    kept = next((one.kept for one in reversed(way) if one.kept is not None), None)
    last = next((one for one in reversed(way) if one.tokens is not None), Numbers())
    return Numbers(records, kept, last.tokens, last.places)


def states(run: Run, names: Sequence[str] = ()) -> dict[str, tuple[str, str]]:
    """Return for each notebook its state (open, running, done, failed, interrupted) and what there is to say about it.

    Parameters
    ----------
    run : Run
    names : sequence of str
        The notebooks of the recipe; those only found in the run follow.
    """
    found = dict.fromkeys(
        [*names, *(path.stem for path in sorted((run.folder / "executed").glob("*.ipynb")))], ("open", "")
    )
    for event in read_events(run.folder)[0]:
        if event.get("event") == "notebook":
            state = {"began": "running", "kept": "done"}.get(event["state"], event["state"])
            found[event["notebook"]] = (state, event.get("text", ""))
    return found
