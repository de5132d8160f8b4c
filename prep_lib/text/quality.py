"""Measures a document once and lets rules decide; by its language, where several rule sets are given.

meta["language"]   en ──▶ fineweb/code ──▶ signals ──▶ first rule that does not hold ──▶ Drop(rule, value, limit)
                   zh ──▶ fineweb2/cmn ──▶ signals ──▶ all hold ──▶ None, or a Cut of the lines the line rules take
                   fr ──▶ pass
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from prep_lib.errors import BadParameter, BadRecord, unknown
from prep_lib.record import Cut, Document, Drop
from prep_lib.text.language import languages
from prep_lib.text.presets import PRESETS, Rule, RuleSet, load_rules, parse_limits
from prep_lib.text.signals import SIGNALS, cuts, measure, measure_many

_UNTOLD = "text/quality: the document has no meta['language']; run the language stage first, or give force=True"


@dataclass(frozen=True)
class Quality:
    """Drop documents that break a rule; a judge that measures first.

    Parameters
    ----------
    rules : str
        A preset or the path of a YAML file (it ends in .yaml or .yml) for every document, or one for each language:
        ``"en=fineweb/code zh=fineweb2/cmn other=pass"``. ``pass`` keeps what it meets without measuring. Languages are
        the codes in ``meta["language"]``, ``und`` (not sure) and ``zxx`` (no language) among them; ``other`` is every
        code not named.
    limits : str
        Limits of single rules in the place of their own, as the rehearsal writes them:
        ``"fineweb/code:fineweb.short_lines<=0.5 gopher/datatrove:gopher_quality.words>=off"``.
    force : bool
        True: a rule set may meet a language it was not made for, and a document whose language nobody told; codes need
        not be those of `Language`.

    Raises
    ------
    BadParameter
        If the rules cannot be read; while judging, if a rule set meets a language outside its design.
    UnknownName
        If no preset has that name.

    Drops
    -----
    ``RULESET:RULE`` with the value and the limit it passed.

    Examples
    --------
    >>> quality = Quality(rules="en=gopher/datatrove other=pass")
    >>> quality.judge(Document("1", "Far too short.", meta={"language": "en"}))
    Drop(reason='gopher/datatrove:gopher_repetition.top_2_gram', value=0.5, limit=0.2)
    >>> quality.judge(Document("2", "Trop court.", meta={"language": "fr"})) is None
    True
    """

    name: ClassVar[str] = "quality"

    _: KW_ONLY
    rules: str = "gopher/datatrove"
    limits: str = ""
    force: bool = False
    routes: Mapping[str, RuleSet | None] = field(init=False, repr=False, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.limits, str):
            raise BadParameter(f"text/quality: limits must be one text such as 'mine:words>=30', got {self.limits!r}")
        # Read at birth: the stage carries the rules, not the name of a file that may change.
        routes = _routes(self.rules)
        if not self.force:
            _check_codes(routes)
        object.__setattr__(self, "routes", _moved(routes, parse_limits(self.limits)))
        # A file is told by its name: where it lies is nothing an output should depend on.
        object.__setattr__(self, "rules", re.sub(r"[^\s=]*/(?=[^\s=/]+\.ya?ml(\s|$))", "", self.rules))

    @cached_property
    def signals(self) -> tuple[str, ...]:
        """The signals any of the rule sets looks at: the columns of a table of measurements."""
        return tuple(dict.fromkeys(name for rules in self.routes.values() if rules for name in rules.signals))

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """Every reason a document may be dropped for: of each rule set its rules in order, then its line rules."""
        named = [rules for rules in self.routes.values() if rules]
        told = [f"{rules.name}:{name}" for rules in named for name in (*(rule.name for rule in rules.rules), "lines")]
        return tuple(dict.fromkeys(told))

    def route(self, language: str | None) -> RuleSet | None:
        """Return the rule set for a language; None: its documents pass.

        Raises
        ------
        BadParameter
            If no route fits, or the rule set was not made for the language and `force` is not set.
        """
        rules = self._find(language)
        if rules is None or self.force or (rules.covers(language) if language else rules.languages is None):
            return rules
        if language is None:
            raise BadParameter(_UNTOLD)
        raise BadParameter(
            f"text/quality: rule set {rules.name!r} was made for {', '.join(rules.languages or ())}, not for "
            f"{language!r}; give {language}=pass or a rule set of that language, or force=True"
        )

    def _find(self, language: str | None) -> RuleSet | None:
        if language is None and not self.force and not self._any_language:
            raise BadParameter(_UNTOLD)
        for code in (language or "other", "other"):
            if code in self.routes:
                return self.routes[code]
        if language is None and len(self.routes) == 1:
            return next(iter(self.routes.values()))
        if language is None:
            raise BadParameter(_UNTOLD)
        raise BadParameter(
            f"text/quality: rules={self.rules!r} say nothing about language {language!r}; add {language}=pass, "
            f"{language}=RULESET or other=pass"
        )

    @property
    def _any_language(self) -> bool:
        """Whether one rule set, made for any language, serves all documents: then nobody need have told theirs."""
        rules = self.routes.get("other")
        return len(self.routes) == 1 and rules is not None and rules.languages is None

    def measure(self, doc: Document) -> np.ndarray:
        """Measure one document.

        Returns
        -------
        (len(self.signals),) float64
            NaN: not measured for this document's rule set, or a share of nothing.
        """
        out = np.full(len(self.signals), np.nan)
        rules = self._route(doc)
        if rules is not None:
            out[self._columns[rules.name]] = measure(doc, rules.reading, rules.signals)
        return out

    def measure_many(self, docs: Sequence[Document]) -> np.ndarray:
        """Measure documents: what `measure` gives of each, in a fraction of the time where they are short."""
        out = np.full((len(docs), len(self.signals)), np.nan)
        places: dict[str, list[int]] = {}
        routes = [self._route(doc) for doc in docs]
        for at, rules in enumerate(routes):
            if rules is not None:
                places.setdefault(rules.name, []).append(at)
        for name, rows in places.items():
            rules = routes[rows[0]]
            assert rules is not None
            found = measure_many([docs[at] for at in rows], rules.reading, rules.signals)
            out[np.array(rows)[:, None], self._columns[name]] = found
        return out

    def verdict(self, doc: Document, values: np.ndarray) -> Drop | Cut | None:
        """Decide by what was measured.

        Parameters
        ----------
        doc : Document
        values : (len(self.signals),) float64
            What `measure` gave.
        """
        rules = self._route(doc)
        if rules is None:
            return None
        return self._decide(doc, rules, values[self._columns[rules.name]].tolist())

    def judge(self, doc: Document) -> Drop | Cut | None:
        """Measure and decide."""
        rules = self._route(doc)
        return None if rules is None else self._decide(doc, rules, measure(doc, rules.reading, rules.signals).tolist())

    def _decide(self, doc: Document, rules: RuleSet, row: Sequence[float]) -> Drop | Cut | None:
        # A row is short: a loop over numbers takes less time than one call of numpy.
        for place, (column, low, high) in enumerate(self._bounds[rules.name]):
            value = row[column]
            if not low <= value <= high:
                rule = rules.rules[place]
                return Drop(f"{rules.name}:{rule.name}", value, high if value > high or rule.low is None else low)
        return _cut(doc, rules, row)

    def _route(self, doc: Document) -> RuleSet | None:
        language = doc.meta.get("language")
        if language is not None and (not isinstance(language, str) or not language):
            raise BadRecord("no_language_code", f"meta['language'] is {language!r:.60}")
        try:
            return self.route(language)
        except BadParameter as error:
            raise BadParameter(f"{error} (document {doc.id})") from None

    @cached_property
    def _columns(self) -> dict[str, np.ndarray]:
        at = {name: column for column, name in enumerate(self.signals)}
        return {rules.name: np.array([at[name] for name in rules.signals]) for rules in self.routes.values() if rules}

    @cached_property
    def _bounds(self) -> dict[str, list[tuple[int, float, float]]]:
        return {
            rules.name: [(int(column), low, high) for column, low, high in rules.bounds.tolist()]
            for rules in self.routes.values()
            if rules
        }


def _cut(doc: Document, rules: RuleSet, row: Sequence[float]) -> Drop | Cut | None:
    if rules.lines is None:
        return None
    chars, kept = (row[rules.signals.index(name)] for name in ("chars", "kept_chars"))
    if kept == chars:
        return None
    if not kept:
        return Drop(f"{rules.name}:lines", 0.0, 1.0)
    return Cut(cuts(doc, rules.reading), f"{rules.name}:lines")


def _routes(rules: str) -> dict[str, RuleSet | None]:
    if not isinstance(rules, str) or not rules.strip():
        raise BadParameter(f"text/quality: rules must name a rule set, got {rules!r}")
    if "=" not in rules:
        return {"other": _named(rules.strip())}
    routes: dict[str, RuleSet | None] = {}
    for part in rules.split():
        language, _, name = part.partition("=")
        if not language or not name:
            raise BadParameter(f"text/quality: {part!r} in rules must be LANGUAGE=RULESET, as in en=fineweb/code")
        if language in routes:
            raise BadParameter(f"text/quality: rules name {language!r} twice")
        routes[language] = _named(name)
    _check_apart([rules for rules in routes.values() if rules])
    return routes


def _check_apart(used: Sequence[RuleSet]) -> None:
    """Refuse two rule sets of one name: their reasons and columns could not be told apart."""
    for at, rules in enumerate(used):
        if any(rules.name == other.name and rules != other for other in used[:at]):
            raise BadParameter(f"text/quality: two rule sets are named {rules.name!r}; give one of them another name")


def _check_codes(codes: Collection[str]) -> None:
    """Refuse a code that no document will ever have: its rules would never be asked."""
    special = {"und", "zxx", "other"}
    known = special if special.issuperset(codes) else {*languages(), *special}
    for code in codes:
        if code not in known:
            raise unknown("text/quality", "language in rules", code, known)


def _moved(routes: dict[str, RuleSet | None], limits: Mapping[str, float]) -> dict[str, RuleSet | None]:
    known = {rules.name for rules in routes.values() if rules}
    if strange := sorted({name.rpartition(":")[0] for name in limits} - known):
        raise unknown("text/quality", "rule set in limits", strange[0], known)
    return {language: rules and rules.moved(limits) for language, rules in routes.items()}


def _named(name: str) -> RuleSet | None:
    if name == "pass":
        return None
    if name.endswith((".yaml", ".yml")):
        return load_rules(name)
    if name not in PRESETS:
        raise unknown("text/quality", "rule set", name, [*PRESETS, "pass"])
    return PRESETS[name]


# ── many documents at once ───────────────────────────────────────────────────────────────────────────────────────────


def decide(rules: RuleSet, values: np.ndarray) -> np.ndarray:
    """Decide about a table of measurements.

    Parameters
    ----------
    rules : RuleSet
    values : (documents, signals) float
        Columns as in ``rules.signals``.

    Returns
    -------
    (documents,) int32
        The place in ``rules.rules`` of the first rule that does not hold; -1: all hold. What could not be measured
        (NaN) breaks its rule: it is never taken for clean.

    Examples
    --------
    >>> rules = RuleSet("mine", None, (Rule("short", "words", low=3), Rule("signs", "hashes", high=0.1)))
    >>> decide(rules, np.array([[2, 0.0], [5, 0.2], [5, 0.0], [5, np.nan]]))
    array([ 0,  1, -1,  1], dtype=int32)
    """
    table = _checked(rules, values)
    out = np.full(len(table), -1, np.int32)
    for place in range(len(rules.rules) - 1, -1, -1):
        out[_breaks(rules, place, table)] = place
    return out


def _checked(rules: RuleSet, values: np.ndarray) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 2 or values.shape[1] != len(rules.signals):
        raise BadParameter(
            f"text/quality: {rules.name!r} needs a table (documents, {len(rules.signals)}), got shape {values.shape}"
        )
    return values


def _breaks(rules: RuleSet, place: int, values: np.ndarray) -> np.ndarray:
    column, low, high = rules.bounds[place].tolist()
    measured = values[:, int(column)]
    return ~((measured >= low) & (measured <= high))


@dataclass(frozen=True)
class Finding:
    """Something odd about a rule on these documents.

    Parameters
    ----------
    kind : str
        ``never_fired``, ``fired_often``, ``out_of_range``, ``not_measured``, ``limit_out_of_range``, ``other_language``
        or ``off``.
    rule : str
        The rule's name; for ``other_language`` the code, for ``off`` what is off and why.
    share : float
        Share of the documents it is about.
    signal : str
    value : float
        Of ``out_of_range`` the value furthest out, of ``limit_out_of_range`` the limit; otherwise NaN.
    """

    kind: str
    rule: str
    share: float = 0.0
    signal: str = ""
    value: float = math.nan


def health(
    rules: RuleSet, values: np.ndarray, languages: Sequence[str] | None = None, *, often: float = 0.3
) -> list[Finding]:
    """Look for rules that do nothing, nearly everything, or something else than they say.

    Parameters
    ----------
    rules : RuleSet
    values : (documents, signals) float
        Columns as in ``rules.signals``.
    languages : sequence of str or None
        The language of each document. None: not looked at.
    often : float
        Share of the documents a single rule may break, whatever other rules say.

    Returns
    -------
    list of Finding
        Rules in their order, then languages, then what the rule set itself leaves out.

    Examples
    --------
    >>> rules = RuleSet("mine", ("en",), (Rule("short", "words", low=3), Rule("signs", "hashes", high=0.1)))
    >>> [(found.kind, found.rule) for found in health(rules, np.array([[2, 0.0], [5, 0.0]]), ["en", "zh"])]
    [('fired_often', 'short'), ('never_fired', 'signs'), ('other_language', 'zh')]
    """
    values = _checked(rules, values)
    found = [one for place in range(len(rules.rules)) for one in _rule_health(rules, place, values, often)]
    foreign = [code for code in languages or () if not rules.covers(code)]
    found += [
        Finding("other_language", code, foreign.count(code) / len(languages or ())) for code in sorted(set(foreign))
    ]
    return found + [Finding("off", why) for why in rules.off]


def _rule_health(rules: RuleSet, place: int, values: np.ndarray, often: float) -> list[Finding]:
    rule, found = rules.rules[place], _limit_health(rules.rules[place])
    if not len(values):
        return found
    column, breaks = values[:, rules.signals.index(rule.signal)], _breaks(rules, place, values)
    missing = np.isnan(column)
    if missing.any():
        found.append(Finding("not_measured", rule.name, float(missing.mean()), rule.signal))
    share = float((breaks & ~missing).mean())
    if share > often:
        found.append(Finding("fired_often", rule.name, share, rule.signal))
    if not breaks.any():
        found.append(Finding("never_fired", rule.name, 0.0, rule.signal))
    return found + _range_health(rule, column[~missing], len(values))


def _limit_health(rule: Rule) -> list[Finding]:
    signal = SIGNALS[rule.signal]
    limits = [limit for limit in (rule.low, rule.high) if limit is not None and not signal.low <= limit <= signal.high]
    return [Finding("limit_out_of_range", rule.name, 0.0, rule.signal, float(limit)) for limit in limits]


def _range_health(rule: Rule, column: np.ndarray, documents: int) -> list[Finding]:
    signal = SIGNALS[rule.signal]
    outside = column[(column < signal.low) | (column > signal.high)]
    if not len(outside):
        return []
    return [Finding("out_of_range", rule.name, len(outside) / documents, rule.signal, float(outside.max()))]
