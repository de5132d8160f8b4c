"""What each stage saw, kept, dropped and failed, by reason and source.

    normalize   in 5                     kept 5
    judge       in 5     dropped 2       kept 3        in + repeated + expanded == kept + dropped + failed
                         └ empty 1                     and what one stage keeps the next one has in
                         └ short 1
    tokens      content 90  control 8  eos 3  ==  written 96  cut 0  dropped 3  remainder 2      (padding apart)

A ledger is a bag of counts that adds: every task makes its own, and the sum does not depend on who added first.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prep_lib.errors import DAMAGE, BadParameter, TooManyLost, Unbalanced

#: What may happen to a document.
FLOWS = ("in", "repeated", "expanded", "kept", "dropped", "failed")
#: Where tokens come from, and where they go; "padding" and "trained" stand apart from the balance.
TOKEN_FLOWS = ("content", "control", "eos", "written", "cut", "dropped", "remainder", "padding", "trained")

#: A run stops early only above this many failures, so that one bad line of ten does not stop it.
FEW = 20


@dataclass
class Ledger:
    """Counts of documents, characters and tokens.

    Parameters
    ----------
    stages : list of str
        In the order the documents pass them.
    documents, characters : Counter of (stage, flow, source, reason) -> int
        `flow` is one of `FLOWS`; `reason` is empty but for dropped and failed.
    tokens : Counter of (stage, flow, source, reason) -> int
        `flow` is one of `TOKEN_FLOWS`.

    Examples
    --------
    >>> ledger = Ledger()
    >>> ledger.add("judge", "in", "web", documents=2, characters=30)
    >>> ledger.add("judge", "kept", "web", documents=1, characters=20)
    >>> ledger.add("judge", "dropped", "web", "empty", documents=1, characters=10)
    >>> ledger.check()
    >>> ledger.total("judge", "dropped"), ledger.reasons("judge", "dropped")
    (1, {'empty': 1})
    """

    stages: list[str] = field(default_factory=list)
    documents: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    characters: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    tokens: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)

    def add(
        self, stage: str, flow: str, source: str = "", reason: str = "", *, documents: int = 1, characters: int = 0
    ) -> None:
        """Count documents (and their characters) under one flow."""
        if flow not in FLOWS:
            raise BadParameter(f"ledger: unknown flow {flow!r}; known: {', '.join(FLOWS)}")
        self._know(stage)
        # int(): NumPy's integers add well and are refused by JSON.
        self.documents[stage, flow, source, reason] += int(documents)
        self.characters[stage, flow, source, reason] += int(characters)

    def add_tokens(self, stage: str, flow: str, count: int, source: str = "", reason: str = "") -> None:
        """Count tokens under one flow."""
        if flow not in TOKEN_FLOWS:
            raise BadParameter(f"ledger: unknown token flow {flow!r}; known: {', '.join(TOKEN_FLOWS)}")
        self._know(stage)
        self.tokens[stage, flow, source, reason] += int(count)

    def _know(self, stage: str) -> None:
        if stage not in self.stages:
            self.stages.append(stage)

    def __iadd__(self, other: Ledger) -> Ledger:
        for stage in other.stages:
            self._know(stage)
        for mine, theirs in zip(self._counters(), other._counters(), strict=True):
            for at, count in theirs.items():
                mine[at] += count
        return self

    def _counters(self) -> tuple[Counter[tuple[str, str, str, str]], ...]:
        return self.documents, self.characters, self.tokens

    def under(self, names: Mapping[str, str]) -> Ledger:
        """Return the same counts with some sources under other names, those of one name added up.

        Examples
        --------
        >>> ledger = Ledger()
        >>> ledger.add("read", "in", "web", documents=2)
        >>> ledger.add("read", "in", "web~2", documents=1)
        >>> ledger.under({"web~2": "web"}).total("read", "in", "web")
        3
        """
        out = Ledger(stages=list(self.stages))
        for mine, theirs in zip(out._counters(), self._counters(), strict=True):
            for (stage, flow, source, reason), count in theirs.items():
                mine[stage, flow, names.get(source, source), reason] += count
        return out

    def total(self, stage: str, flow: str, source: str | None = None, *, unit: str = "documents") -> int:
        """Return one number: `unit` is documents, characters or tokens; `source` None sums over all sources."""
        counter: Counter[tuple[str, str, str, str]] = getattr(self, unit)
        return sum(n for (st, fl, so, _), n in counter.items() if (st, fl) == (stage, flow) and source in (None, so))

    def reasons(self, stage: str, flow: str, *, unit: str = "documents") -> dict[str, int]:
        """Return the counts by reason, the commonest first."""
        out: Counter[str] = Counter()
        for (st, fl, _, reason), n in getattr(self, unit).items():
            if (st, fl) == (stage, flow):
                out[reason] += n
        return dict(sorted(out.items(), key=lambda item: (-item[1], item[0])))

    def sources(self, stage: str | None = None) -> list[str]:
        """Return the source names a stage (None: any stage) has seen, sorted."""
        return sorted({source for st, _, source, _ in self._counted() if stage in (None, st)})

    def _counted(self) -> set[tuple[str, str, str, str]]:
        # A zero says nothing, but for "in 0": this stage passes documents, and none came.
        counted = {at for counter in self._counters() for at, count in counter.items() if count}
        return counted | {at for at in self.documents if at[1] == "in"}

    def check(self) -> None:
        """Raise `Unbalanced` unless every equation of the module's drawing holds, per stage and source."""
        for stage, source, n in _sums(self.documents, FLOWS):
            if n["in"] + n["repeated"] + n["expanded"] != n["kept"] + n["dropped"] + n["failed"]:
                raise Unbalanced(f"ledger: {stage}, source {source!r}: documents do not balance: {n}")
        for stage, source, n in _sums(self.tokens, TOKEN_FLOWS):
            if n["content"] + n["control"] + n["eos"] != n["written"] + n["cut"] + n["dropped"] + n["remainder"]:
                raise Unbalanced(f"ledger: {stage}, source {source!r}: tokens do not balance: {n}")
        passing = {at[0] for at in self._counted() if at in self.documents}
        with_documents = [stage for stage in self.stages if stage in passing]
        for before, after in itertools.pairwise(with_documents):
            for unit in ("documents", "characters"):
                out, into = self.total(before, "kept", unit=unit), self.total(after, "in", unit=unit)
                if out != into:
                    raise Unbalanced(f"ledger: {before} kept {out:,} {unit}, but {after} has {into:,} in")

    def rows(self) -> Iterator[dict[str, str | int]]:
        """Yield one flat row per stage, flow, source and reason, sorted: for a table, a data frame, a report."""
        order = {stage: at for at, stage in enumerate(self.stages)}
        flows = {flow: at for at, flow in enumerate(dict.fromkeys(FLOWS + TOKEN_FLOWS))}
        keys = sorted(self._counted(), key=lambda k: (order[k[0]], flows[k[1]], k[2], k[3]))
        for key in keys:
            stage, flow, source, reason = key
            yield {
                "stage": stage, "flow": flow, "source": source, "reason": reason, "documents": self.documents[key],
                "characters": self.characters[key], "tokens": self.tokens[key],
            }  # fmt: skip

    def to_json(self) -> str:
        """Return the ledger as JSON, the same text for the same counts."""
        return json.dumps({"stages": self.stages, "rows": list(self.rows())}, ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> Ledger:
        """Read what `to_json` wrote."""
        stored = json.loads(text)
        ledger = cls(stages=list(stored["stages"]))
        for row in stored["rows"]:
            at = (row["stage"], row["flow"], row["source"], row["reason"])
            for unit in ("documents", "characters", "tokens"):
                if row[unit] or (unit == "documents" and row["flow"] == "in"):
                    getattr(ledger, unit)[at] = row[unit]
        return ledger


def _sums(
    counts: Counter[tuple[str, str, str, str]], flows: Sequence[str]
) -> Iterator[tuple[str, str, dict[str, int]]]:
    """Yield (stage, source, count by flow), in one pass: a run may have thousands of sources."""
    sums: dict[tuple[str, str], dict[str, int]] = {}
    for (stage, flow, source, _), n in counts.items():
        sums.setdefault((stage, source), dict.fromkeys(flows, 0))[flow] += n
    for (stage, source), by_flow in sorted(sums.items()):
        yield stage, source, by_flow


class LossLimit:
    """Stops a run in which more records fail than it allows.

    Parameters
    ----------
    where : str
        Who stops: the beginning of the message.
    max_failed : float, share of the records seen
        Up to `FEW` may fail whatever the share. A damaged stream always stops the run, unless the share is 1: behind
        the damage an unknown number of records is missing.

    Raises
    ------
    BadParameter
        If the share is not from 0 to 1.

    Examples
    --------
    >>> limit = LossLimit("build", max_failed=0.01)
    >>> limit.add(seen=10, failed={"bad_json": 1}, examples={"bad_json": ["a.jsonl#L3"]})
    >>> limit.add(seen=90, failed={"bad_json": 20})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    prep_lib.errors.TooManyLost: build: 21 of 100 records failed (allowed: 1.00%); the commonest reason is bad_json ...
    """

    def __init__(self, where: str, max_failed: float) -> None:
        if not 0 <= max_failed <= 1:
            raise BadParameter(f"{where}: max_failed={max_failed}; give a share from 0 to 1")
        self.where, self.max_failed, self.seen = where, max_failed, 0
        self.failed: Counter[str] = Counter()
        self._examples: dict[str, list[str]] = {}

    def add(
        self, *, seen: int, failed: Mapping[str, int] | None = None, examples: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        """Count records seen and, by reason, those that failed; the first examples of a reason are shown.

        Raises
        ------
        TooManyLost
            If more failed than the limit allows so far. More good records only make room, so no check is left for the
            end of a run.
        """
        self.seen += seen
        self.failed.update(failed or {})
        for reason, places in (examples or {}).items():
            shown = self._examples.setdefault(reason, [])
            shown += places[: 3 - len(shown)]
        if failed and self.failed.total() > max(FEW, self.max_failed * self.seen):
            raise TooManyLost(self._sentence())
        if self.max_failed < 1 and (damage := next((reason for reason in DAMAGE if self.failed[reason]), "")):
            where = ", ".join(self._examples.get(damage, ())) or "an input"
            raise TooManyLost(
                f"{self.where}: {damage} at {where}: an unknown number of records behind it is missing; repair the "
                "file, or use what could be read with max_failed=1.0"
            )

    def _sentence(self) -> str:
        reason, number = self.failed.most_common(1)[0]
        shown = self._examples.get(reason)
        return (
            f"{self.where}: {self.failed.total():,} of {self.seen:,} records failed (allowed: {self.max_failed:.2%}); "
            f"the commonest reason is {reason} ({number:,})" + (f", for example {', '.join(shown)}" if shown else "")
        )
