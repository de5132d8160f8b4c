"""Six documents, two signals, two rule sets: a world of limits a reader can hold in the head."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from prep_lib.record import Document
from prep_lib.text.presets import Rule, RuleSet

EN = RuleSet("toy/en", ("en",), (Rule("words", "words", low=3, high=100), Rule("signs", "hashes", high=0.1)))
ZH = RuleSet("toy/zh", ("zh",), (Rule("few", "words", low=2),))


@dataclass(frozen=True)
class Toy:
    """As much of `Quality` as the rehearsal asks for."""

    routes: dict[str | None, RuleSet | None] = field(default_factory=lambda: {"en": EN, "zh": ZH})
    signals: tuple[str, ...] = ("words", "hashes")

    def route(self, language: str | None) -> RuleSet | None:
        return self.routes.get(language)


#: (language, source, words, hashes)
WORLD = [
    ("en", "web", 2, 0.0), ("en", "web", 3, 0.0), ("en", "book", 9, 0.2), ("en", "web", 1, 0.5),
    ("zh", "web", 1, np.nan), ("fr", "web", 0, np.nan),
]  # fmt: skip
DOCS = [
    Document(f"d{at}", "#" * 10 * (at + 1), source, {"language": code}) for at, (code, source, *_) in enumerate(WORLD)
]
VALUES = np.array([row[2:] for row in WORLD], np.float64)
