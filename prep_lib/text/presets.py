"""Rule sets over signals, each the version of somebody: Gopher, C4, FineWeb, NeMo, and your own in YAML.

RuleSet "fineweb/code"                              signal           low   high
  gopher_repetition.dup_lines                       dup_lines        -     0.3
  gopher_quality.plain_words                        plain_words      50    100,000      the first rule
  …                                                                                     that does not hold
  (line rules: C4 without end marks)                                                    drops
  c4.sentences                                      sentences        5     -
  fineweb.end_mark_lines                            end_mark_lines   0.12  -
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from prep_lib.errors import BadParameter, unknown
from prep_lib.files import place
from prep_lib.registry import Registry
from prep_lib.text.signals import SIGNALS, Lines, Reading
from prep_lib.text.word import SPLITTERS


@dataclass(frozen=True)
class Rule:
    """Keep a document while ``low <= signal <= high``.

    Parameters
    ----------
    name : str
        What a drop is counted by: ``filter.signal``.
    signal : str
        A key of `SIGNALS`.
    low, high : float or None
        None: no limit on that side.

    Raises
    ------
    BadParameter
        If the signal is unknown, there is no limit, or none can be met.

    Examples
    --------
    >>> Rule("gopher_quality.words", "words", low=50, high=100_000).describe()
    'gopher_quality.words: 50 <= words <= 100,000'
    """

    name: str
    signal: str
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if self.signal not in SIGNALS:
            raise unknown("text/presets", f"signal of rule {self.name!r}", self.signal, SIGNALS)
        for limit in (self.low, self.high):
            if limit is not None and not _is_number(limit):
                raise BadParameter(f"text/presets: a limit of rule {self.name!r} must be a number, got {limit!r:.60}")
        if self.low is None and self.high is None:
            raise BadParameter(f"text/presets: rule {self.name!r} has no limit; give low, high or both")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise BadParameter(f"text/presets: rule {self.name!r} keeps nothing: low {self.low} > high {self.high}")

    def describe(self) -> str:
        """Return the rule as one line."""
        low = "" if self.low is None else f"{self.low:,} <= "
        high = "" if self.high is None else f" <= {self.high:,}"
        return f"{self.name}: {low}{self.signal}{high}"

    @property
    def limits(self) -> tuple[float, float]:
        """Low and high, infinite where there is none."""
        return (
            float("-inf") if self.low is None else float(self.low),
            float("inf") if self.high is None else float(self.high),
        )


def _is_number(limit: object) -> bool:
    if isinstance(limit, bool) or not isinstance(limit, int | float):
        return False
    return abs(limit) < 10**300 if isinstance(limit, int) else math.isfinite(limit)


@dataclass(frozen=True)
class RuleSet:
    """Rules in the order they are tried, and how the text is read for them.

    Parameters
    ----------
    name : str
    languages : tuple of str or None
        Codes the limits were made for, as `Language` writes them. None: any language.
    rules : tuple of Rule
    reading : Reading
        How words are split, the stop words, and the line rules, if lines go too.
    source : str
        Whose version it is.
    off : tuple of str
        What the original has and this one has not, or has otherwise, and why.

    Raises
    ------
    BadParameter
        If there is no rule or two have one name.
    """

    name: str
    languages: tuple[str, ...] | None
    rules: tuple[Rule, ...]
    reading: Reading = field(default_factory=Reading)
    source: str = ""
    off: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [rule.name for rule in self.rules]
        twice = sorted({name for name in names if names.count(name) > 1})
        if not names or twice:
            problem = f"two rules named {twice[0]!r}" if twice else "no rules"
            raise BadParameter(f"text/presets: rule set {self.name!r} has {problem}")

    @property
    def lines(self) -> Lines | None:
        """The line rules; None: lines stay."""
        return self.reading.lines

    @cached_property
    def signals(self) -> tuple[str, ...]:
        """The signals its rules look at, each once, and those a cut needs."""
        wanted = [rule.signal for rule in self.rules] + ["chars", "kept_chars"] * (self.lines is not None)
        return tuple(dict.fromkeys(wanted))

    @cached_property
    def bounds(self) -> np.ndarray:
        """For each rule the column of its signal in `signals`, its low and its high: (rules, 3) float64."""
        at = {name: column for column, name in enumerate(self.signals)}
        return np.array([(at[rule.signal], *rule.limits) for rule in self.rules])

    def covers(self, language: str) -> bool:
        """Tell whether the limits were made for this language."""
        return self.languages is None or language in self.languages

    def moved(self, limits: Mapping[str, float]) -> RuleSet | None:
        """Return the rule set with limits of `parse_limits` in the place of its own; None: no rule is left.

        Those of other rule sets are passed over. A rule whose limits are all off is left out.

        Raises
        ------
        UnknownName
            If a limit names a rule that this set has not.
        """
        mine = {name for name in limits if name.rpartition(":")[0] == self.name}
        known = [f"{self.name}:{rule.name}{sign}" for rule in self.rules for sign in (">=", "<=")]
        if strange := sorted(mine - set(known)):
            raise unknown("text/presets", "limit", strange[0], known)
        kept = []
        for rule in self.rules:
            low, high = rule.limits
            low = limits.get(f"{self.name}:{rule.name}>=", low)
            high = limits.get(f"{self.name}:{rule.name}<=", high)
            if math.isfinite(low) or math.isfinite(high):
                sides = (limit if math.isfinite(limit) else None for limit in (low, high))
                kept.append(Rule(rule.name, rule.signal, *sides))
        return replace(self, rules=tuple(kept)) if kept else None


_LIMIT = re.compile(r"(?P<rule>\S+:[^\s<>=]+)(?P<sign><=|>=)(?P<value>\S+)")


def parse_limits(text: str) -> dict[str, float]:
    """Read the limits of a parameters cell; ``off`` lets everything pass.

    Examples
    --------
    >>> parse_limits("fineweb/code:short_line_ratio<=0.7 gopher/datatrove:words>=off")
    {'fineweb/code:short_line_ratio<=': 0.7, 'gopher/datatrove:words>=': -inf}
    """
    found: dict[str, float] = {}
    for part in text.split():
        match = _LIMIT.fullmatch(part)
        try:
            value = read_number(match["value"]) if match else math.nan
        except ValueError:
            value = math.nan
        if not match or math.isnan(value):
            raise BadParameter(
                f"limits: {part!r} is no limit; write RULES:RULE<=NUMBER or >=, such as gopher:words>=30"
            )
        if (name := match["rule"] + match["sign"]) in found:
            raise BadParameter(f"limits: {name} stands there twice; leave one of them")
        found[name] = -value if math.isinf(value) and match["sign"] == ">=" else value
    return found


def read_number(text: str) -> float:
    """Read one limit as a person writes it: a number, or ``off``, which is infinite."""
    return math.inf if text.strip() == "off" else float(text)


# ── the presets ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _rules(origin: str, limits: Mapping[str, tuple[float | None, float | None]]) -> tuple[Rule, ...]:
    return tuple(Rule(f"{origin}.{signal}", signal, low, high) for signal, (low, high) in limits.items())


def _numbered(pattern: str, start: int, highs: Sequence[float]) -> dict[str, tuple[None, float]]:
    return {pattern.format(n): (None, high) for n, high in enumerate(highs, start)}


_TOP, _DUP = (0.2, 0.18, 0.16), (0.15, 0.14, 0.13, 0.12, 0.11, 0.1)
_STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")

#: Table A1 of the Gopher paper, in datatrove's order.
_REPETITION = _rules("gopher_repetition", {
    "chars": (1, None),
    "dup_paragraphs": (None, 0.3), "dup_paragraph_chars": (None, 0.2),
    "dup_lines": (None, 0.3), "dup_line_chars": (None, 0.2),
    **_numbered("top_{}_gram", 2, _TOP), **_numbered("dup_{}_grams", 5, _DUP),
})  # fmt: skip


def _quality(lengths: tuple[float, float], letters: float) -> dict[str, tuple[float | None, float | None]]:
    return {
        "plain_words": (50, 100_000), "mean_word_length": lengths, "hashes": (None, 0.1), "ellipses": (None, 0.1),
        "bullet_lines": (None, 0.9), "ellipsis_lines": (None, 0.3), "alpha_words": (letters, None),
        "stop_words": (2, None),
    }  # fmt: skip


_QUALITY = _rules("gopher_quality", _quality((3, 10), 0.8))
_C4 = _rules("c4", {"lorem_ipsum": (None, 0), "braces": (None, 0), "sentences": (5, None)})


def _fineweb_rules(end: float, short: float | None, dup: float, newlines: float) -> tuple[Rule, ...]:
    limits: dict[str, tuple[float | None, float | None]] = {"filled_lines": (1, None), "end_mark_lines": (end, None)}
    if short is not None:
        limits["short_lines"] = (None, short)
    return _rules("fineweb", limits | {"dup_kept_line_chars": (None, dup), "newlines": (None, newlines)})


def _gopher_datatrove() -> RuleSet:
    """Gopher repetition, then Gopher quality."""
    source = "datatrove 0.10, gopher_repetition_filter.py and gopher_quality_filter.py"
    return RuleSet("gopher/datatrove", ("en",), _REPETITION + _QUALITY, Reading(stop_words=_STOP_WORDS), source)


def _c4_datatrove() -> RuleSet:
    """Lines without an end mark go; pages of fewer than five sentences, with braces or lorem ipsum go whole."""
    off = ("bad words: the list is not ours to ship; bring yours with url or a rule set of your own",)
    return RuleSet("c4/datatrove", ("en",), _C4, Reading(lines=Lines()), "datatrove 0.10, c4_filters.py", off)


def _fineweb(name: str, dup: float, source: str) -> RuleSet:
    """The whole FineWeb chain behind language identification: Gopher repetition, Gopher quality, C4 with any line end,
    FineWeb's own rules, in that order; FineWeb's own look at what C4 left.
    """
    rules = _REPETITION + _QUALITY + _C4 + _fineweb_rules(0.12, 0.67, dup, 0.3)
    return RuleSet(name, ("en",), rules, Reading(stop_words=_STOP_WORDS, lines=Lines(end_marks=False)), source)


def _gopher_dolma() -> RuleSet:
    """Gopher as dolma v1.5 meant it: median word length, words between white space, every copy of a line counted.

    Its own mixer asks for the top n-grams by a name the tagger never writes, so that those three rules never fired
    there. Here they do.
    """
    limits: dict[str, tuple[float | None, float | None]] = {
        "words": (50, 100_000), "median_word_length": (3, 10), "symbol_words": (None, 0.1), "alpha_words": (0.8, None),
        "stop_word_hits": (2, None), "star_lines": (None, 0.9), "dots_lines": (None, 0.3),
        "copied_lines": (None, 0.3), "copied_line_chars": (None, 0.3),
        **_numbered("most_{}_gram", 2, _TOP), **_numbered("copied_{}_grams", 5, _DUP),
    }  # fmt: skip
    source = "dolma 1.2 @ 669f534, taggers/gopher.py and configs/dolma-v1_5/mixing/cc-head.yaml"
    return RuleSet(
        "gopher/dolma", ("en",), _rules("gopher", limits), Reading(words="blank", stop_words=_STOP_WORDS), source
    )


def _nemo_english() -> RuleSet:
    """The heuristic chain of NeMo Curator for English, in its order.

    Where two n-grams are equally common NeMo takes one at random; here the first counts.
    """
    limits: dict[str, tuple[float | None, float | None]] = {
        "odd_chars": (None, 0.25), "mark_words": (None, 0.1), "digits": (None, 0.15), "url_chars": (None, 0.2),
        "blank_chars": (None, 0.25), "brackets": (None, 0.1), "boilerplate": (None, 0.4), "unique_lines": (0.7, None),
        "unique_paragraphs": (0.7, None), "unique_line_chars": (0.8, None), "unique_paragraph_chars": (0.8, None),
        "words": (50, 100_000), "open_lines": (None, 0.85), "alpha_words": (0.8, None), "stop_word_hits": (2, None),
        "all_word_length": (3, 10), "longest_word": (None, 1000), "more_lines": (None, 0.3),
        **_numbered("replaced_{}_gram", 2, _TOP), **_numbered("repeated_{}_grams", 5, _DUP), "dot_lines": (None, 0.9),
    }  # fmt: skip
    source = "NeMo Curator @ 1e2e427, config/text/heuristic_filter_english_pipeline.yaml"
    return RuleSet(
        "nemo/english", ("en",), _rules("nemo", limits), Reading(words="blank", stop_words=_STOP_WORDS), source
    )


#: FineWeb-2's limits for a language: what its configs/CODE.yml holds, at d0defb2. Lines seen before; the nine n-gram
#: limits; lines with an end mark; line feeds per word; mean word length; words with a letter; stop words.
_FINEWEB2: dict[str, tuple[str, float, str, float, float, tuple[int, int], float, str]] = {
    "arb": ("ar", 0.304, ".197 .172 .146 .165 .153 .142 .131 .12 .109", 0.143, 0.189, (2, 9), 0.787,
            "، في من على إلى عام أن مع أو هو عن التي كان بين ما كانت هي المتحدة بعد"),
    "cmn": ("zh", 0.287, ".256 .201 .171 .198 .182 .167 .154 .14 .127", 0.106, 0.178, (1, 5), 0.735,
            "的 年 在 月 是 和 日 了 於 · 為 有 被 人 中 为 他 與 後 也 而 由"),
    "deu": ("de", 0.263, ".169 .153 .137 .141 .134 .126 .117 .108 .098", 0.0, 0.152, (0, 15), 0.774,
            "der und die in von im den des mit das er dem als wurde für"),
    "fra": ("fr", 0.264, ".161 .149 .134 .15 .141 .131 .121 .111 .1", 0.1, 0.185, (2, 11), 0.812,
            "de la le et à en l' des du les est d' un une il dans par au"),
    "ita": ("it", 0.246, ".198 .156 .133 .144 .136 .127 .118 .109 .1", 0.025, 0.2, (3, 21), 0.807,
            "di e il la in a del che è della un per nel l' con da i una"),
    "jpn": ("ja", 0.328, ".239 .196 .172 .243 .225 .207 .19 .175 .159", 0.096, 0.13, (1, 6), 0.759,
            "の に を は た て が と で 年 し ・ 月 れ さ"),
    "kor": ("ko", 0.374, ".282 .228 .185 .201 .184 .168 .154 .14 .127", 0.062, 0.196, (1, 6), 0.791,
            "의 다 이 는 에 을 한 년 하 은 를 했 고 에서 가 있 으로 인 월 로 되"),
    "por": ("pt", 0.287, ".371 .191 .163 .163 .153 .141 .13 .119 .108", 0.077, 0.186, (3, 13), 0.814,
            "de a e o em do da que um no uma com para na é foi"),
    "rus": ("ru", 0.322, ".184 .164 .146 .168 .156 .145 .133 .121 .109", 0.231, 0.139, (3, 11), 0.713,
            "в и на с года по году из был к не от что за для его как а он также до после"),
    "spa": ("es", 0.252, ".156 .14 .125 .145 .136 .127 .117 .108 .099", 0.182, 0.138, (3, 14), 0.825,
            "de la en el y a que del los se por un con una las su"),
    "tha": ("th", 0.349, ".221 .197 .162 .185 .168 .152 .137 .124 .111", 0.0, 0.153, (2, 10), 0.9,
            "ใน ที่ และ ของ เป็น มี การ ได้"),
    "vie": ("vi", 0.293, ".223 .197 .171 .178 .163 .15 .136 .124 .111", 0.333, 0.103, (3, 11), 0.803,
            "là và của một được trong năm các có loài này đã người"),
}  # fmt: skip

#: Characters a word, where words need a dictionary we do not carry. Chinese: of 1.6 to 2.2 the figure with which most
#: verdicts are those of FineWeb-2 (94 of 100 on 1,452 Chinese documents; 90 with 1.6). The others: characters of a word
#: with a letter in the Declaration of Human Rights, as SudachiPy, Kiwi and PyThaiNLP split it (Thai: without the signs
#: above and below).
_CHARACTERS_A_WORD = {"cmn": 1.9, "jpn": 1.7, "kor": 1.5, "tha": 3.6}


def _fineweb2(code: str) -> RuleSet:
    """FineWeb-2's rules for one language: Gopher repetition without paragraphs, FineWeb's own, Gopher quality.

    Its splitters for Chinese, Japanese, Korean and Thai need dictionaries: here a character is a word, and limits per
    word are converted by the characters a word has on average, n-grams too (5 Chinese words become 8 characters). Mean
    word length says nothing then and is off. For the other languages words follow the rules that all languages share.
    """
    language, dup_lines, grams, end, newlines, lengths, letters, stops = _FINEWEB2[code]
    per_word = _CHARACTERS_A_WORD.get(code)
    highs = [float(high) for high in grams.split()]
    pattern = ["top_{}_gram"] * 3 + ["dup_{}_grams"] * 6
    sizes = [round(n * (per_word or 1)) for n in range(2, 11)]
    repeats = {name.format(n): (None, high) for name, n, high in zip(pattern, sizes, highs, strict=True)}
    repetition = _rules("gopher_repetition", {"chars": (1, None), "dup_lines": (None, dup_lines), **repeats})
    quality = _quality(lengths, letters)
    fineweb = {
        "filled_lines": (1, None),
        "end_mark_lines": (end, None),
        "dup_kept_line_chars": (None, 0.1),
        "newlines": (None, newlines),
    }
    if per_word:
        del quality["mean_word_length"]
        quality["plain_words"] = (50 * per_word, 100_000 * per_word)
        # Marks are words of one character there too, so their share among characters is smaller.
        quality["alpha_words"] = (round(letters * per_word / (letters * per_word + 1 - letters), 4), None)
        for name in ("hashes", "ellipses"):
            quality[name] = (None, round(0.1 / per_word, 4))
        fineweb["newlines"] = (None, round(newlines / per_word, 4))
    rules = repetition + _rules("fineweb", fineweb) + _rules("gopher_quality", quality)
    reading = Reading(words="character" if per_word else "base", stop_words=tuple(stops.split()))
    source = f"FineWeb-2 @ d0defb2, fineweb-2-pipeline.py and the config of {code}"
    return RuleSet(f"fineweb2/{code}", (language,), rules, reading, source, _fineweb2_off(code, per_word, lengths))


def _fineweb2_off(code: str, per_word: float | None, lengths: tuple[int, int]) -> tuple[str, ...]:
    score = "language_score: its limit is one of GlotLID's scores; give Language a limit instead"
    if not per_word:
        elided = [word for word in _FINEWEB2[code][-1].split() if word.endswith("'")]
        apart = f"; so {' '.join(elided)} are never found among the stop words" if elided else ""
        return (score, f"words: by the rules all languages share, without the exceptions of this one{apart}")
    return (
        score,
        f"words: a character is a word, and {per_word} of them count as one of FineWeb-2's in every limit",
        f"mean_word_length: off, a character is always 1 long (there {lengths[0]} to {lengths[1]})",
        "stop_words: looked for anywhere in the text, not among words",
    )


def _paper() -> RuleSet:
    source = "FineWeb's paper (Penedo et al. 2024): characters in lines seen before up to 0.1; the rest as in its code"
    return _fineweb("fineweb/paper", 0.1, source)


PRESETS: Registry[RuleSet] = Registry("text/presets", "rule set")
for _preset in (
    _gopher_datatrove(),
    _gopher_dolma(),
    _c4_datatrove(),
    _fineweb("fineweb/code", 0.01, "datatrove 0.10, examples/fineweb.py and fineweb_quality_filter.py"),
    _paper(),
    _nemo_english(),
    *map(_fineweb2, _FINEWEB2),
):
    PRESETS.add(_preset.name, _preset)


# ── your own ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_KEYS = ("name", "languages", "base", "words", "stop_words", "lines", "rules", "source")
_RULE_KEYS = ("name", "signal", "low", "high", "remove")


def load_rules(path: str | Path) -> RuleSet:
    """Read a rule set from YAML.

    Parameters
    ----------
    path : str or Path
        A mapping with ``name`` and ``rules`` (a list of ``signal`` with ``low``, ``high``, ``name``), and, if they are
        to differ from the defaults, ``languages``, ``words``, ``stop_words``, ``lines``, ``source``. ``base`` names a
        preset to begin with: a rule of the same name replaces its rule, ``remove: true`` takes it away, others follow.

    Raises
    ------
    BadParameter
        If it is no such file, or a limit is no number.
    UnknownName
        If a key, a signal, a base or a way of splitting words is unknown; the message has the nearest one.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "mine.yaml")
    >>> _ = file.write_text("name: mine\\nrules:\\n- {signal: words, low: 20}\\n- {signal: hashes, high: 0.1}\\n")
    >>> [rule.describe() for rule in load_rules(file).rules]
    ['words: 20 <= words', 'hashes: hashes <= 0.1']
    """
    try:
        held = yaml.load(place(path).read_text(encoding="utf-8"), Loader=_Once)
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise BadParameter(f"text/presets: {path} cannot be read as YAML: {error.problem}{line}") from None
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadParameter(f"text/presets: {path} cannot be read as YAML: {reason}") from None
    if not isinstance(held, dict):
        raise BadParameter(f"text/presets: {path} must be a mapping with name and rules, got {type(held).__name__}")
    return _rule_set(held, str(path))


class _Once(yaml.SafeLoader):
    """YAML in which a key stands once: of two, the one that counts is not the one a person looks at."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        if twice := [str(key) for key in keys if keys.count(key) > 1]:
            raise yaml.MarkedYAMLError(problem=f"{twice[0]!r} stands here twice", problem_mark=node.start_mark)
        return super().construct_mapping(node, deep)


def _rule_set(held: Mapping[str, Any], where: str) -> RuleSet:
    _known(held, _KEYS, where)
    base = PRESETS[str(held["base"])] if "base" in held else None
    reading = _reading(held, base.reading if base else Reading(), where)
    rules = _merge(base.rules if base else (), _listed(held, "rules", where), where)
    name = held.get("name")
    if not isinstance(name, str) or not re.fullmatch(r"[\w./-]+", name) or name in PRESETS or name == "pass":
        raise BadParameter(
            f"text/presets: {where} needs a name of letters, digits and ./-_ that no preset has, got {name!r}"
        )
    languages = _texts(held, "languages", where, base.languages if base else None)
    return RuleSet(name, languages, rules, reading, str(held.get("source", Path(where).name)), base.off if base else ())


def _reading(held: Mapping[str, Any], base: Reading, where: str) -> Reading:
    words = held.get("words", base.words)
    if not isinstance(words, str) or words not in SPLITTERS:
        raise unknown("text/presets", f"words of {where}", str(words), SPLITTERS)
    stop_words = _texts(held, "stop_words", where, base.stop_words) or ()
    lines = base.lines
    if "lines" in held:
        told = held["lines"]
        if told is not None and not isinstance(told, dict):
            raise BadParameter(f"text/presets: lines of {where} must be a mapping or empty, got {told!r}")
        _known(told or {}, [each.name for each in fields(Lines)], f"lines of {where}")
        for name, value in (told or {}).items():
            kind = type(getattr(Lines(), name))
            if type(value) is not kind:
                raise BadParameter(f"text/presets: {name} in lines of {where} must be a {kind.__name__}, got {value!r}")
        lines = None if told is None else Lines(**told)
    return Reading(words=words, stop_words=stop_words, lines=lines)


def _merge(base: Sequence[Rule], told: Iterable[Any], where: str) -> tuple[Rule, ...]:
    rules, seen = {rule.name: rule for rule in base}, set[str]()
    for entry in told:
        if not isinstance(entry, dict):
            raise BadParameter(f"text/presets: a rule of {where} must be a mapping, got {entry!r}")
        _known(entry, _RULE_KEYS, f"a rule of {where}")
        name = entry.get("name", entry.get("signal"))
        if not isinstance(name, str):
            raise BadParameter(f"text/presets: a rule of {where} needs a signal, got {entry!r}")
        if name in seen:
            raise BadParameter(f"text/presets: two rules of {where} are called {name!r}; give one of them a name")
        seen.add(name)
        if not isinstance(entry.get("remove", False), bool):
            raise BadParameter(f"text/presets: remove of rule {name!r} in {where} must be true or false")
        if entry.get("remove"):
            if name not in rules:
                raise unknown("text/presets", f"rule to remove in {where}", name, rules)
            del rules[name]
            continue
        signal = entry.get("signal", rules[name].signal if name in rules else name)
        rules[name] = Rule(name, str(signal), entry.get("low"), entry.get("high"))
    return tuple(rules.values())


def _known(held: Mapping[str, Any], keys: Iterable[str], where: str) -> None:
    for key in held:
        if key not in keys:
            raise unknown("text/presets", f"key in {where}", str(key), keys)


def _listed(held: Mapping[str, Any], key: str, where: str) -> list[Any]:
    told = held.get(key, [])
    if not isinstance(told, list):
        raise BadParameter(f"text/presets: {key} of {where} must be a list, got {told!r}")
    return told


def _texts(held: Mapping[str, Any], key: str, where: str, default: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if held.get(key, default) is None or key not in held:
        return None if key in held else default
    told = _listed(held, key, where)
    if not all(isinstance(each, str) for each in told):
        raise BadParameter(f"text/presets: {key} of {where} must be texts (quote no, on, 1), got {told!r}")
    return tuple(told)
