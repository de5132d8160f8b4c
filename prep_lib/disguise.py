"""What of a run may be shown to strangers: numbers as they are, names under other names, texts as shapes or not at all.

    Side, Comparison  ──Disguise──▶  the same facts, safe to draw

    numbers, yes and no        as they are
    reasons, stages, settings  as they are where our own source spells them: fineweb/code:gopher_quality.alpha_words
    every other name           #1, #2.jsonl: the same name under the same alias, all over a page; one of digits, too
    texts                      "Call Ann, 42!"  ──▶  "Xxxx Xxx, 00!"     or nothing

Nothing is taken out of a finished page: what is drawn has never held more. What nobody foresaw is not passed on, for a
new fact is made of named parts of the old one.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import prep_lib
from prep_lib.alerts import Alert
from prep_lib.comparison import Changed, Comparison, Row, Shards, Side
from prep_lib.disagree import Disagreement, Example, Fate
from prep_lib.facts import Facts
from prep_lib.ledger import Ledger
from prep_lib.recipes import parameters
from prep_lib.text.presets import PRESETS
from prep_lib.workspace import CHECKOUT, Run

#: What stands for a letter of a script; of one that is not named here, x. Digits become 0.
LETTERS = {
    "CJK": "某", "HIRAGANA": "あ", "KATAKANA": "ア", "HANGUL": "가", "CYRILLIC": "ж", "GREEK": "λ", "ARABIC": "س",
    "HEBREW": "א", "DEVANAGARI": "क", "THAI": "ก",
}  # fmt: skip
CAPITALS = {"CYRILLIC": "Ж", "GREEK": "Λ"}

#: Marks that stay, so that sentences, lists and code keep their shape.
MARKS = frozenset(" \n\t!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~。，、；：？！…“”‘’（）《》【】「」『』·—–")

#: Parameters whose values are lists of names of ours, with limits; and those of sources with weights.
RULES, WEIGHTS = ("rules", "limits"), ("weights",)

#: Parameters whose texts are amounts, such as 8GiB; in any other a text of digits is as good a name as one of letters.
AMOUNTS = ("memory_budget", "budget")

#: What a warning quotes that is a number written out.
WRITTEN = ("share", "memory", "limit")

#: Endings of file names, which say no more than the kind.
_ENDING = re.compile(r"(?:\.(?:jsonl|json|parquet|html|warc|wet|txt|npz|npy|h5|bin|csv|md|gz|zst))*$")
_VALUE = re.compile(r"[+-]?[\d_]*\.?\d+(?:e[+-]?\d+)?(?:[kKMGTB]i?B?)?")
_LITERAL = re.compile(r"""["']([A-Za-z][\w/.:+-]*)["']""")
_PIECE = re.compile(r"[A-Za-z_]\w*")
_LIMIT = re.compile(r"[<>]=?-?[\d.]+(?:e[+-]?\d+)?$")
# A digest has letters and is of a length that ours have: a number of twenty digits may be anybody's.
_DIGEST = re.compile(r"(?=\d*[a-f])(?:[0-9a-f]{20}|[0-9a-f]{40}|[0-9a-f]{64})")
_VERSION = re.compile(r"(?!.*\d{9})\d+(?:\.\d+){0,4}(?:[.+-]?[a-z]{1,4}\d*){0,3}")
# The number an output of ours has among its like.
_COUNTER = re.compile(r"[_-]\d{1,6}(?=\.|$)")


@cache
def our_words() -> frozenset[str]:
    """Return every name that a piece of our source spells between quotes: stages, reasons, signals, presets."""
    found: set[str] = set()
    for path in sorted(Path(prep_lib.__file__).parent.rglob("*.py")):
        # What an example says is nobody's name.
        source = re.sub(r"(?m)^ *(>>>|\.\.\.) .*$", "", path.read_text("utf-8"))
        for literal in _LITERAL.findall(source):
            found.update(_PIECE.findall(literal))
    # Names that our source puts together.
    for rules in (PRESETS[name] for name in PRESETS):
        for name in (rules.name, *(rule.name for rule in rules.rules)):
            found.update(_PIECE.findall(name))
    return frozenset(found)


@cache
def our_parameters(notebook: str) -> dict[str, tuple[Any, frozenset[str]]]:
    """Return what a notebook of ours can be asked for: each default, and the words its comment is made of."""
    path = CHECKOUT / "notebooks" / f"{notebook}.ipynb"
    if not path.is_file():
        return {}
    return {name: (own.default, frozenset(_PIECE.findall(own.help))) for name, own in parameters(path).items()}


def shape(text: str) -> str:
    """Return a text of the same length and structure that nobody can read.

    Examples
    --------
    >>> shape("Call Ann, 42! 明天见。")
    'Xxxx Xxx, 00! 某某某。'
    """
    return "".join(map(_shape, text))


@cache
def _shape(char: str) -> str:
    if char in MARKS:
        return char
    kind = unicodedata.category(char)
    if kind[0] == "L":
        script = unicodedata.name(char, "").split(" ")[0].split("-")[0]
        upper = kind in ("Lu", "Lt")
        return CAPITALS.get(script, LETTERS.get(script, "X")) if upper else LETTERS.get(script, "x")
    # Marks above and below letters, and what is invisible, could spell a text of their own.
    return "0" if kind[0] == "N" else "" if kind[0] in "MC" else " " if kind[0] == "Z" else "#"


class Disguise:
    """Gives facts of runs other names, the same ones all over a page.

    Parameters
    ----------
    texts : bool
        True: texts of data become shapes. False: they are left out.
    names : callable of str, or None
        How files, sources, runs and ids are told, such as `safe.Mask`: a name may hold a home folder or an address.
        None: under aliases.
    """

    def __init__(self, *, texts: bool = True, names: Callable[[str], str] | None = None) -> None:
        self.texts, self.names = texts, names
        self._aliases: dict[str, dict[str, str]] = {}

    # Words

    def alias(self, kind: str, name: str) -> str:
        """Return the name under which something is told: ``#3``, a run ``A``.

        Examples
        --------
        >>> disguise = Disguise()
        >>> [disguise.alias("source", name) for name in ("web", "code", "web")], disguise.alias("run", "acme")
        (['#1', '#2', '#1'], 'A')
        """
        if self.names:
            return self.names(name)
        known = self._aliases.setdefault(kind, {})
        return known.setdefault(name, chr(65 + len(known)) if kind == "run" else f"#{len(known) + 1}")

    def hidden(self, kind: str, text: str) -> str:
        """Return an alias whether names are told or not: what is written into a parameter may be a text."""
        known = self._aliases.setdefault(kind, {})
        return known.setdefault(text, f"{kind} {len(known) + 1}")

    def ours(self, text: str, kind: str) -> str:
        """Return a name if all of it is spelled in our source, an alias if not.

        Examples
        --------
        >>> Disguise().ours("near_duplicate", "reason"), Disguise().ours("because Ann said so", "reason")
        ('near_duplicate', 'reason 1')
        """
        return text if _is_ours(text) else self.hidden(kind, text)

    def file(self, name: str) -> str:
        """Return the alias of a file, its ending kept."""
        return self.names(name) if self.names else f"{self.alias('file', name)}{_ending(name)}"

    def notebook(self, name: str) -> str:
        """Return the name of a notebook of ours, or the alias of another one; what it wrote into a folder follows."""
        first, *rest = name.split("/")
        known = first if our_parameters(first) else self.hidden("notebook", first)
        return "/".join([known, *(part if _is_ours(part) else self.alias("folder", part) for part in rest)])

    def text(self, text: str | None) -> str:
        """Return the shape of a text of data, or nothing."""
        return shape(text) if text and self.texts else ""

    def value(self, notebook: str, name: str, value: Any) -> Any:
        """Return the value of a parameter: a number as it is, a word if it is one of ours, an alias otherwise."""
        default, words = our_parameters(notebook).get(name, (None, frozenset()))
        if isinstance(value, bool | int | float) or value is None:
            return value
        text = str(value)
        if text in ("", default) or text in words or (name in AMOUNTS and _VALUE.fullmatch(text)):
            return text
        if name in RULES:
            return " ".join(piece if _is_rule(piece) else self.hidden("rule", piece) for piece in text.split())
        if name in WEIGHTS:
            return " ".join(self._weight(piece) for piece in text.split())
        return f"{self.hidden('text', text)} ({len(text):,})"

    def _weight(self, piece: str) -> str:
        source, found, weight = piece.rpartition("=")
        if not found or not _VALUE.fullmatch(weight):
            return piece if _is_ours(piece) else self.hidden("text", piece)
        return f"{source if source == 'rest' else self.alias('source', source)}={weight}"

    # A run

    def side(self, side: Side) -> Side:
        """Return what a run says of itself, in disguise; what is not named here it does not say."""
        run = Run(Path("/"), self.alias("run", side.name))
        return side.given(
            run=run,
            states={self.notebook(name): state for name, state in side.states.items()},
            facts=Facts(run),
            asked={self.notebook(name): self._values(name, told) for name, told in side.asked.items()},
            changed=tuple(self._changed(change) for change in side.changed),
            costs={self.notebook(name): cost for name, cost in side.costs.items()},
            ledgers={self.notebook(name): self.ledger(ledger) for name, ledger in side.ledgers.items()},
            summary=side.summary,
            inputs={self.file(name): _digest(sha) for name, sha in side.inputs.items()},
            versions=dict(filter(_is_version, side.versions.items())),
            outputs={self._output(name): _digest(sha) for name, sha in side.outputs.items()},
            shards={self.notebook(name): self._manifest(told) for name, told in side.shards.items()},
            lengths={self.notebook(name): found for name, found in side.lengths.items()},
        )

    def _values(self, notebook: str, told: Mapping[str, Any]) -> dict[str, Any]:
        own = our_parameters(notebook)
        return {name: self.value(notebook, name, value) for name, value in told.items() if name in own}

    def _changed(self, change: Changed) -> Changed:
        name = change.name if change.name in our_parameters(change.where) else self.hidden("parameter", change.name)
        values = (self.value(change.where, change.name, value) for value in (change.one, change.other))
        return Changed(self.notebook(change.where), name, *values)

    def _output(self, name: str) -> str:
        # data/22_tensorize/chunk_0.h5: which notebook wrote it says where to look.
        first, *rest = PurePosixPath(name).parts
        if first != "data" or len(rest) < 2:
            return self.file(name)
        inside = "/".join(rest[1:])
        ours = _is_ours(_COUNTER.sub("", inside))
        return f"{self.notebook(rest[0])}/{inside if ours else self.file(inside)}"

    def ledger(self, ledger: Ledger) -> Ledger:
        """Return the same counts, sources, stages and reasons of others under aliases."""
        out = Ledger(stages=[self.ours(stage, "stage") for stage in ledger.stages])
        for mine, theirs in (
            (out.documents, ledger.documents), (out.characters, ledger.characters), (out.tokens, ledger.tokens),
        ):  # fmt: skip
            for (stage, flow, source, reason), count in theirs.items():
                told = self.ours(reason, "reason") if reason else ""
                mine[self.ours(stage, "stage"), flow, self.alias("source", source), told] += count
        return out

    def _manifest(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Return the numbers of a manifest."""
        packing = told.get("packing")
        groups = told["totals"].get("groups") or []
        return {
            "format": self.ours(str(told.get("format")), "text"),
            "seq_len": _number(told.get("seq_len")),
            "seed": _number(told.get("seed")),
            "totals": _numbers(told["totals"])
            | {"groups": [{**_numbers(group), "source": self.alias("source", group["source"])} for group in groups]},
            "packing": {**_numbers(packing), "algorithm": self.ours(str(packing.get("algorithm")), "text")}
            if isinstance(packing, Mapping)
            else None,
            "tokenizer": _numbers(told.get("tokenizer") or {}),
            "shards": [
                {**_numbers(entry), "file": self.file(entry["file"]), "sha256": _digest(entry["sha256"])}
                for entry in told["shards"]
            ],
        }

    def alert(self, alert: Alert) -> Alert:
        """Return a warning whose sentence quotes numbers and names of ours; what stopped a notebook is not said."""
        return alert._replace(values={name: self._quoted(name, value) for name, value in alert.values.items()})

    def _quoted(self, name: str, value: Any) -> Any:
        if isinstance(value, bool | int | float):
            return value
        text = str(value)
        if name in WRITTEN and re.fullmatch(r"[\d.,]+ ?(%|[kMG]B)?", text):
            return text
        if name in ("notebook", "before", "after", "one", "other", "names"):
            return ", ".join(self.notebook(one) for one in text.removesuffix(" …").split(", "))
        if name in ("source", "file"):
            return self.alias(name, text)
        if name in ("reason", "stage"):
            return self.ours(text, name)
        return "…"

    # Two runs

    def comparison(self, found: Comparison) -> Comparison:
        """Return a comparison in disguise."""
        return Comparison(
            self.side(found.one),
            self.side(found.other),
            asked=tuple(self._changed(change) for change in found.asked),
            inputs=tuple(
                Changed("", self.file(change.name), *(sha and _digest(sha) for sha in (change.one, change.other)))
                for change in found.inputs
            ),
            versions=tuple(
                change for change in found.versions if _is_version((change.name, change.one or change.other))
            ),
            funnel=tuple(self._row(row) for row in found.funnel),
            shares={
                self.notebook(name): {self.alias("source", source): pair for source, pair in told.items()}
                for name, told in found.shares.items()
            },
            shards=tuple(self._shards(each) for each in found.shards),
            documents=tuple(self._disagreement(each) for each in found.documents),
            outputs={self._output(name): state for name, state in found.outputs.items()},
        )

    def _row(self, row: Row) -> Row:
        reasons = {(flow, self.ours(reason, "reason")): pair for (flow, reason), pair in row.reasons.items()}
        return Row(self.notebook(row.notebook), self.ours(row.stage, "stage"), row.one, row.other, reasons)

    def _shards(self, each: Shards) -> Shards:
        counts = each.masks and dataclasses.replace(
            each.masks, folders=("", ""), settings=(), sources={}, tokens=(), examples=()
        )
        settings = tuple(self._setting(change) for change in each.settings)
        one, other = self._manifest(each.one), self._manifest(each.other)
        return Shards(self.notebook(each.name), one, other, settings, each.lengths, counts, each.why)

    def _setting(self, change: Changed) -> Changed:
        """Tell that a manifest differs; a strategy's parameters are pieces of its template."""
        name = self.ours(change.name, "setting")
        return Changed("", name, *(self._plain(change.name, value) for value in (change.one, change.other)))

    def _plain(self, name: str, value: Any) -> Any:
        if isinstance(value, bool | int | float) or value is None:
            return value
        text = str(value)
        if _DIGEST.fullmatch(text):
            return _digest(text)
        return self.hidden("text", text) if "params" in name or not _is_ours(text) else text

    def _disagreement(self, each: Disagreement) -> Disagreement:
        place = " – ".join(self.notebook(name) for name in each.place.split(" – "))
        counts = {(self._fate(one), self._fate(other)): n for (one, other), n in each.counts.items()}
        examples = {
            (self._fate(one), self._fate(other)): tuple(self._example(example) for example in found)
            for (one, other), found in each.examples.items()
        }
        return Disagreement(place, counts, examples, each.same_inputs)

    def _fate(self, fate: Fate) -> Fate:
        if not fate.folder:
            return fate
        return Fate(
            self.notebook(fate.folder), self.ours(fate.stage, "stage"), fate.flow, self.ours(fate.reason, "reason")
        )

    def _example(self, example: Example) -> Example:
        lines = (None if line is None else self.line(line) for line in (example.one, example.other))
        return Example(self.alias("document", example.id), *lines)

    def line(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Return a line of what was rejected: who, why, the numbers, and the shape of its text."""
        twin = line.get("twin")
        return {
            "id": self.alias("document", str(line["id"])),
            "source": self.alias("source", str(line.get("source", ""))),
            "stage": self.ours(str(line.get("stage", "")), "stage"),
            "reason": self.ours(str(line["reason"]), "reason"),
            "value": _number(line.get("value")),
            "limit": _number(line.get("limit")),
            "twin": twin and self.alias("document", str(twin)),
            "text": self.text(line.get("text")),
        }


def _is_ours(text: str) -> bool:
    """Tell whether a name is made of words of ours, codes of languages and marks; digits may be anybody's number.

    Examples
    --------
    >>> _is_ours("fineweb/code:gopher_quality.alpha_words"), _is_ours("merger_with_acme"), _is_ours("13800138000")
    (True, False, False)
    """
    pieces = re.findall(r"\w+", text)
    return text.isascii() and len(text) < 200 and bool(pieces) and our_words().issuperset(pieces)


def _is_rule(text: str) -> bool:
    """Tell whether a rule, or a limit of one, is named by words of ours.

    Examples
    --------
    >>> _is_rule("fineweb/code:gopher_quality.alpha_words>=0.5"), _is_rule("acme:x>=0.5")
    (True, False)
    """
    return _is_ours(_LIMIT.sub("", text))


def _ending(name: str) -> str:
    found = _ENDING.search(name)
    return found[0] if found else ""


def _digest(sha: str) -> str:
    """Return the beginning of a digest: enough to tell files apart."""
    return sha[:12] if _DIGEST.fullmatch(sha.split("+")[0]) else "–"


def _number(value: Any) -> float | int | None:
    return value if isinstance(value, int | float) else None


def _numbers(told: Mapping[str, Any]) -> dict[str, Any]:
    words = our_words()
    return {name: value for name, value in told.items() if isinstance(value, int | float) and name in words}


def _is_version(pair: tuple[str, Any]) -> bool:
    return _is_ours(pair[0]) and bool(_VERSION.fullmatch(str(pair[1])))
