"""Text as it was meant: encodings misread, line ends, form, control characters and blanks put right, each counted.

    newlines   CR LF, CR, form feed, U+2028     ──▶  line feed
    mojibake   donâ€™t                          ──▶  don’t                 before anything else changes its bytes
    control    NUL, ESC[0m, U+FEFF, U+FFFE      ──▶  gone                  tab and line feed stay
    form       e + U+0301                       ──▶  é                     NFC; full-width forms stay
    joiners    ZWNJ between Latin letters       ──▶  gone                  می‌روم, क्‍ष, 👨‍👩‍👧 stay
    spaces     NBSP, trailing blanks            ──▶  blank, gone           tabs, indentation, inner blanks stay
    punctuation  “It’s…” — she said             ──▶  "It's..." -- she said   only when asked; 他说：“你好。” stays

Most texts need none of it, and finding that out is the cheap part. Control tokens (<｜im▁start｜>) are never touched.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, cached_property
from operator import ne
from typing import ClassVar

import numpy as np

from prep_lib.errors import BadParameter
from prep_lib.record import Document
from prep_lib.special import MARKER
from prep_lib.text.mojibake import leads_and_rest, may_hold_runs, repair

#: What stands for what. The long dash is two hyphens, so that "well—known" does not become a compound; the doubled
#: Chinese dash and ellipsis are one mark each. Not here, because they are other characters and no typography: the
#: minus sign (U+2212), primes (feet, minutes), full-width punctuation, the apostrophe letter (U+02BC), guillemets.
DEFAULT_REPLACEMENTS: dict[str, str] = {
    "‘": "'", "’": "'", "‚": "'", "‛": "'",
    "“": '"', "”": '"', "„": '"', "‟": '"',
    "‐": "-", "‑": "-", "‒": "-", "–": "-",
    "—": "--", "―": "--", "——": "--",
    "…": "...", "……": "...",
}  # fmt: skip

#: Han, kana, bopomofo and their punctuation, full-width forms: a line that holds one is a line of CJK text.
#: Hangul is absent on purpose: Korean is written with the same quotes and spaces as English. So is the full-width bar,
#: because control tokens hold it.
CJK = re.compile(
    "[\u2e80-\u312f\u31a0-\u33ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff5b\uff5d-\uff9f\U00020000-\U0003ffff]"
)


@dataclass(frozen=True)
class TextNormalizer:
    r"""Replace punctuation by a table; a map stage.

    Parameters
    ----------
    custom_rules : mapping of str to str, or None
        Added to `DEFAULT_REPLACEMENTS`; a rule for the same text wins over the default. The empty string deletes, a
        text mapped to itself is left as it is. None: the defaults alone.
    keep_cjk : bool
        True: in a line that holds a Chinese or Japanese character only `custom_rules` apply, because ``“”``, ``——``
        and ``……`` are that script's own marks. A whole line, so that a pair of quotes is never half straightened.

    Raises
    ------
    BadParameter
        If a rule is not text for text, replaces nothing, or reaches over a line end while `keep_cjk` is set.

    Notes
    -----
    All rules are tried at each place, the longest first, and what was written is not read again:
    ``{"a": "b", "b": "c"}`` turns ``"ab"`` into ``"bc"``. A control token (``<｜…｜>``, ``<|…|>``) is passed over
    whole, unless a rule spells it out. With the default rules a second pass changes nothing.

    Examples
    --------
    >>> TextNormalizer().normalize("“It’s…” — she said")
    '"It\'s..." -- she said'
    >>> TextNormalizer({"•": "*", "®": "", "—": "—"}).normalize("• Prep® — “new”")
    '* Prep — "new"'
    >>> TextNormalizer(keep_cjk=True).normalize("他说：“你好。”\nHe said “hello”.")
    '他说：“你好。”\nHe said "hello".'
    """

    name: ClassVar[str] = "punctuation"

    custom_rules: Mapping[str, str] | None = None
    _: KW_ONLY
    keep_cjk: bool = False

    def __post_init__(self) -> None:
        # A copy: the table is compiled once, and a caller's later change to the mapping must not be half seen.
        rules = _checked(self.custom_rules, one_line=self.keep_cjk)
        object.__setattr__(self, "custom_rules", rules)

    @cached_property
    def table(self) -> dict[str, str]:
        """All rules in force: the defaults and what `custom_rules` says."""
        return DEFAULT_REPLACEMENTS | dict(self.custom_rules or {})

    def normalize(self, text: str) -> str:
        """Return `text` with every rule applied once."""
        if not self.keep_cjk or CJK.search(text) is None:
            return self._apply(text)
        lines = text.split("\n")
        return "\n".join(self._apply_custom(line) if CJK.search(line) else self._apply(line) for line in lines)

    def map(self, doc: Document) -> Document:
        """Return the document with its text normalised; the same object where nothing changes."""
        text = self.normalize(doc.text)
        return doc if text == doc.text else replace(doc, text=text)

    def places(self, line: str) -> int:
        """Return how many places of one line `normalize` changes."""
        rules = (self.custom_rules or {}) if self.keep_cjk and CJK.search(line) else self.table
        pattern = self._custom_pattern if rules is not self.table else self._pattern
        return sum(rules.get(match[0], match[0]) != match[0] for match in pattern.finditer(line))

    def _apply(self, text: str) -> str:
        # One regular expression with a dict looks dear and is ten times faster than str.translate (measured: 350
        # against 40 MB/s), because most of a text matches nothing. Literals only, so that `re` can skip to their
        # first characters.
        table = self.table
        return self._pattern.sub(lambda match: table.get(match[0], match[0]), text)

    def _apply_custom(self, text: str) -> str:
        rules = self.custom_rules
        return self._custom_pattern.sub(lambda match: rules.get(match[0], match[0]), text) if rules else text

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return _compile(self.table)

    @cached_property
    def _custom_pattern(self) -> re.Pattern[str]:
        return _compile(self.custom_rules or {})


def _checked(rules: Mapping[str, str] | None, one_line: bool) -> dict[str, str] | None:
    if rules is None:
        return None
    if not isinstance(rules, Mapping):
        raise BadParameter(f"text/normalize: custom_rules must map text to text, got {type(rules).__name__}")
    for old, new in rules.items():
        if not isinstance(old, str) or not isinstance(new, str):
            raise BadParameter(f"text/normalize: a rule must map text to text, got {old!r}: {new!r}; '' deletes")
        if not old:
            raise BadParameter(f"text/normalize: the rule '' -> {new!r} replaces nothing; name the text to replace")
        if one_line and "\n" in old:
            raise BadParameter(f"text/normalize: keep_cjk works by line, so the rule {old!r} cannot hold a line feed")
    return dict(rules)


def _compile(rules: Mapping[str, str]) -> re.Pattern[str]:
    named = [rule for rule in rules if MARKER.search(rule)]
    plain = [rule for rule in rules if not MARKER.search(rule)]
    literal = [[re.escape(rule) for rule in sorted(group, key=len, reverse=True)] for group in (named, plain)]
    return re.compile("|".join([*literal[0], MARKER.pattern, *literal[1]]))


# ---------------------------------------------------------------------------------------------------------------------
# The stage
# ---------------------------------------------------------------------------------------------------------------------

# Characters by what is done about them, as the inside of a set of a regular expression.

#: Line ends beside the line feed, as `str.splitlines` knows them, but for U+0085: in a text from the web that is an
#: ellipsis of Windows-1252. A form feed deleted would glue the last word of a page to the first of the next.
_LINE_ENDS = "\r\x0b\x0c\x1c-\x1e\u2028\u2029"
_C1 = "\x80-\x9f"
#: Where each plane ends are two noncharacters.
_LAST = (0xFFFE, 0xFFFF)
#: C0 without tab and line feed, DEL, C1, noncharacters.
_CONTROLS = f"\x00-\x08\x0b-\x1f\x7f{_C1}\ufdd0-\ufdef" + "".join(
    chr(plane << 16 | low) for plane in range(17) for low in _LAST
)
#: Order for a line with Hebrew or Arabic in it; elsewhere nothing, or a way to deceive a reader.
_DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"
#: Byte order mark, word joiner, soft hyphen; a space of no width; what flags are spelled with.
_UNSEEN = "\ufeff\u2060\xad\u200b\U000e0000-\U000e007f"
_JOINERS = "\u200c\u200d"
#: Not the ideographic space, which is a full-width form, nor Ogham's, which is drawn.
_BLANKS = "\xa0\u2000-\u200a\u202f\u205f"

#: Letters of scripts written without blanks, where U+200B says where a word ends: Thai, Lao, Tibetan, Burmese, Khmer …
_UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf"
_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdcf\ufdf0-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)

# What is replaced: each match is one place.

_SURROGATE = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")
_NEWLINE = re.compile(f"[{_LINE_ENDS}]")
_NEL = re.compile("\x85")
#: A terminal's colour code goes as a whole.
_CONTROL = re.compile(f"[{_CONTROLS}](?:(?<=\x1b)\\[[0-9;?]*[A-Za-z])?")
_INVISIBLE = re.compile(
    f"[\ufeff\u2060\xad]+|(?<![{_UNSPACED}\u200b])\u200b+(?![{_UNSPACED}\u200b])"
    "|(?P<flag>\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f)|[\U000e0000-\U000e007f]+"
)
_DIRECTION = re.compile(f"[{_DIRECTIONS}]+")
#: Where nothing is ever joined. Persian, Indic scripts and emoji have a joiner with one of theirs on one side at least.
_JOINER = re.compile(f"(?<![^\0-\u024f])[{_JOINERS}]+(?![^\0-\u024f])")
#: The narrow blank before a Mongolian suffix belongs to the word.
_BLANK = re.compile(f"[{_BLANKS}](?!(?<=\u202f)[\u1800-\u18af])")
_BLANK_LINES = re.compile("\n{4,}")

#: What stands before a line end and goes.
_TRAILING = " \t\u3000"
_TRAILING_ONE = tuple(_TRAILING)
#: Looked for from the line feed back: there are far fewer of them than blanks.
_RAGGED = re.compile(f"\n(?:(?<=[{_TRAILING}]\n)|\n\n\n)")

#: A change can make room for another: a character deleted brings two together. Texts that need more rounds are left.
ROUNDS = 8


@dataclass(frozen=True, kw_only=True)
class Normalize:
    r"""Put right what reading, copying and converting did to a text; a map stage.

    Parameters
    ----------
    mojibake : bool
        Read runs of wrongly read UTF-8 again, and C1 controls as Windows-1252 (see `mojibake.repair`).
    newlines : bool
        CR LF, CR, vertical tab, form feed, U+001C to U+001E, U+2028 and U+2029 become line feeds; U+0085 too where
        `mojibake` is off, which otherwise reads it as ``…``.
    form : "NFC" or None
        None: the form stays. Compatibility forms are not offered: they turn ``x²`` into ``x2``. A word with more than
        `PILE` marks on one letter stays.
    control : bool
        Delete control characters, noncharacters, and characters that are invisible and say nothing where they stand.
        Private use characters stay: they mean something to whoever wrote them, and a quality rule can see them.
    spaces : bool
        Unicode blanks become blanks, blanks before a line end go, more than two empty lines become two.
    punctuation : bool
        Apply `TextNormalizer`; lines with Chinese or Japanese keep their own marks, and so do lines with a run of
        mojibake nobody could repair, because a quote in it is a byte.
    rules : mapping of str to str, or None
        Its `custom_rules`. None: the defaults alone.

    Raises
    ------
    BadParameter
        If `form` is another one, or `rules` are given without `punctuation`.

    Notes
    -----
    ``meta["changes"]`` counts by kind, in **places**, a place being one stretch that one rule replaced: ``surrogate``
    (a pair becomes its character, a lone one, which no file can hold, U+FFFD), ``newlines``, ``mojibake``,
    ``control``, ``invisible``, ``direction``, ``joiner``, ``blank``, ``form`` (words), ``punctuation``, ``trailing``
    (lines), ``blank_lines``. ``mojibake_left`` is no change: runs that look wrong and were left. ``unstable``: the text
    needed more than `ROUNDS` rounds and was left.

    A second pass changes nothing (with `rules` of your own: if they do not feed each other), and a text in which
    there is nothing to do is given back as the same object.

    Examples
    --------
    >>> Normalize().normalize("\ufeffdef f():\r\n\treturn 'donâ€™t'  ")
    ("def f():\n\treturn 'don’t'", {'newlines': 1, 'mojibake': 1, 'invisible': 1, 'trailing': 1})
    """

    name: ClassVar[str] = "normalize"
    counted: ClassVar[tuple[str, ...]] = ("changes",)
    #: Libraries whose answers are written.
    packages: ClassVar[tuple[str, ...]] = ("ftfy",)

    mojibake: bool = True
    newlines: bool = True
    form: str | None = "NFC"
    control: bool = True
    spaces: bool = True
    punctuation: bool = False
    rules: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.form not in ("NFC", None):
            raise BadParameter(f'text/normalize: form must be "NFC" or None, got {self.form!r}')
        if self.rules is not None and not self.punctuation:
            raise BadParameter("text/normalize: rules are for punctuation=True; set it, or leave the rules out")
        object.__setattr__(self, "rules", self._plain.custom_rules)

    def map(self, doc: Document) -> Document:
        """Return the document with its text normalised; the same object where nothing changes."""
        text, changes = self.normalize(doc.text)
        if text is doc.text and (not changes or "changes" in doc.meta):
            return doc
        return replace(doc, text=text, meta={**doc.meta, "changes": changes})

    def normalize(self, text: str) -> tuple[str, dict[str, int]]:
        """Return the text, the same object where nothing changes, and how many places changed, by kind."""
        found = _flags(text)
        broken = _is_broken(text, found)
        counts: Counter[str] = Counter()
        if not (broken or found & ANY or self.punctuation) and _is_composed(text, found):
            # Most texts: all that may be to do is blanks and empty lines, and that brings nothing new together.
            now = _layout(text, counts) if self.spaces and _is_ragged(text) else text
            return now, {kind: n for kind, n in counts.items() if n}
        now = text
        for _ in range(ROUNDS):
            before = now
            now = self._round(now, found, broken, counts)
            if now == before:
                return (text if now == text else now), {kind: n for kind, n in counts.items() if n}
            found = _flags(now)
            broken = _is_broken(now, found)
        return text, {"unstable": 1}

    @cached_property
    def _plain(self) -> TextNormalizer:
        return TextNormalizer(self.rules, keep_cjk=True)

    def _lines(self, text: str, found: int, counts: Counter[str]) -> str:
        if found & SURROGATE:
            text = _count(counts, "surrogate", *_SURROGATE.subn(_whole, text))
        if self.newlines and found & LINE:
            text = _count(counts, "newlines", text.replace("\r\n", "\n"), text.count("\r\n"))
            text = _count(counts, "newlines", *_NEWLINE.subn("\n", text))
        return text

    def _round(self, text: str, found: int, broken: bool, counts: Counter[str]) -> str:
        counts["mojibake_left"] = 0
        lines = self._lines(text, found, counts)
        if lines is not text:
            text, found = lines, _flags(lines)
            broken = _is_broken(text, found)
        if broken or found & CHARACTERS or not _is_composed(text, found):
            spared = (token.span() for token in MARKER.finditer(text))
            text = _outside(text, spared, lambda part: self._characters(part, found, broken, counts))
        if self.spaces and _is_ragged(text):
            text = _layout(text, counts)
        return self._punctuate(text, counts) if self.punctuation else text

    def _characters(self, text: str, found: int, broken: bool, counts: Counter[str]) -> str:
        left: tuple[tuple[int, int], ...] = ()
        if broken and self.mojibake:
            repaired = repair(text)
            text, left = _count(counts, "mojibake", repaired.text, repaired.runs), repaired.left
            counts["mojibake_left"] += len(left)
            found |= _flags(text)
        elif broken and self.newlines:
            text = _count(counts, "newlines", *_NEL.subn("\n", text))
        return _outside(text, left, lambda part: self._tidy(part, found, counts))

    def _tidy(self, text: str, found: int, counts: Counter[str]) -> str:
        """What remains when bytes are characters: nothing in here looks wrong."""
        if self.control:
            text = _delete(text, found, counts)
        if self.spaces and found & BLANK:
            text = _count(counts, "blank", *_BLANK.subn(" ", text))
        if self.form:
            text = _compose(text, found, counts)
        if self.control and found & JOIN:
            text = _count(counts, "joiner", *_JOINER.subn("", text))
        return text

    def _punctuate(self, text: str, counts: Counter[str]) -> str:
        plain = self._plain.normalize(text)
        if plain == text:
            return text
        lines = text.split("\n")
        for at, (before, after) in enumerate(zip(lines, plain.split("\n"), strict=True)):
            if before != after and not (self.mojibake and repair(before).left):
                lines[at] = _count(counts, "punctuation", after, self._plain.places(before))
        return "\n".join(lines)


# ---------------------------------------------------------------------------------------------------------------------
# What there is to do, in one look at each character
# ---------------------------------------------------------------------------------------------------------------------

LINE, CONTROL, C1, UNSEEN, DIRECTION, JOIN, BLANK, SURROGATE, MARK, LEAD, REST = (1 << bit for bit in range(11))
#: What `_characters` is needed for in any case. A lead and a rest together cost a look at what stands behind each lead.
CHARACTERS = CONTROL | UNSEEN | DIRECTION | JOIN | BLANK
#: What is work in any case.
ANY = CHARACTERS | LINE | SURROGATE

#: Marks on one letter; a word with more keeps its form. Unicode's own limit for streams is 30.
PILE = 256

#: What nearly all of English is made of.
_PLAIN = bytes(range(0x20, 0x7F)) + b"\t\n"
#: Characters looked up at once: they take six bytes each, so that a giant document costs no memory.
_PIECE = 1 << 18


def _flags(text: str) -> int:
    """What of a text may have to change: the flags of its characters together."""
    if text.isascii() and not text.encode("ascii").translate(None, _PLAIN):
        return 0
    table, found = _table(), 0
    for at in range(0, len(text), _PIECE):
        codes = np.frombuffer(text[at : at + _PIECE].encode("utf-32-le", "surrogatepass"), "<u4")
        found |= int(np.bitwise_or.reduce(table[codes]))
    return found


@cache
def _table() -> np.ndarray:
    """Return the flags of every character there is: (0x110000,) uint16."""
    leads, rest = (re.escape(letters) for letters in leads_and_rest())
    kinds = {
        LINE: _LINE_ENDS, CONTROL: _CONTROLS, C1: _C1, UNSEEN: _UNSEEN, DIRECTION: _DIRECTIONS, JOIN: _JOINERS,
        BLANK: _BLANKS, SURROGATE: "\ud800-\udfff", MARK: f"{_marks()}\U00010000-\U0010ffff", LEAD: leads, REST: rest,
    }  # fmt: skip
    # The lowest plane, and the few above it that are named one by one: a worker waits for this.
    codes = [*range(0x10000), *range(0xE0000, 0xE0080), *(plane << 16 | low for plane in range(1, 17) for low in _LAST)]
    everything = "".join(map(chr, codes))
    flags = np.zeros(len(codes), np.uint16)
    for flag, kind in kinds.items():
        for found in re.finditer(f"[{kind}]+", everything):
            flags[found.start() : found.end()] |= flag
    table = np.full(0x110000, MARK, np.uint16)
    table[codes] = flags
    return table


def _is_ragged(text: str) -> bool:
    """Whether a line ends in a blank, or more than two are empty."""
    return _RAGGED.search(text) is not None or text.endswith(_TRAILING_ONE)


def _is_broken(text: str, found: int) -> bool:
    return found & C1 != 0 or (found & LEAD != 0 and found & REST != 0 and may_hold_runs(text))


def _is_composed(text: str, found: int) -> bool:
    if not found & MARK or not _pile().search(text):
        return text.isascii() or unicodedata.is_normalized("NFC", text)
    return all(_pile().search(word) or unicodedata.is_normalized("NFC", word) for word in re.split("[ \n]", text))


@cache
def _pile() -> re.Pattern[str]:
    """So many marks on one letter that putting them in order takes the square of their number: no word has them.

    Characters of the higher planes count as marks: naming the few that are costs every search a hundred comparisons.
    """
    return re.compile(f"[{_marks()}\U00010000-\U0010ffff]{{{PILE}}}")


@cache
def _marks() -> str:
    """Return the characters of the lowest plane that are put in order behind a letter."""
    return "".join(character for character in map(chr, range(0x10000)) if unicodedata.combining(character))


def _count(counts: Counter[str], kind: str, text: str, places: int) -> str:
    counts[kind] += places
    return text


def _outside(text: str, spans: Iterable[tuple[int, int]], change: Callable[[str], str]) -> str:
    """Change what lies between spans, and not the spans."""
    parts, at = [], 0
    for start, stop in spans:
        parts += [change(text[at:start]), text[start:stop]]
        at = stop
    return "".join([*parts, change(text[at:])]) if parts else change(text)


def _whole(found: re.Match[str]) -> str:
    """A pair of surrogates is the character it stands for; one alone is none."""
    return found[0].encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _delete(text: str, found: int, counts: Counter[str]) -> str:
    if found & CONTROL:
        text = _count(counts, "control", *_CONTROL.subn("", text))
    if found & DIRECTION:
        lines = text.split("\n")
        for at, line in enumerate(lines):
            if _DIRECTION.search(line) and not _RIGHT_TO_LEFT.search(line):
                lines[at] = _count(counts, "direction", *_DIRECTION.subn("", line))
        text = "\n".join(lines)
    if found & UNSEEN:
        places = sum(not match["flag"] for match in _INVISIBLE.finditer(text))
        text = _count(counts, "invisible", _INVISIBLE.sub(lambda match: match["flag"] or "", text), places)
    return text


def _layout(text: str, counts: Counter[str]) -> str:
    lines = text.split("\n")
    bare = [line.rstrip(_TRAILING) for line in lines]
    text = _count(counts, "trailing", "\n".join(bare), sum(map(ne, lines, bare)))
    return _count(counts, "blank_lines", *_BLANK_LINES.subn("\n\n\n", text)) if "\n\n\n\n" in text else text


def _compose(text: str, found: int, counts: Counter[str]) -> str:
    if _is_composed(text, found):
        return text
    words = re.split("([ \n])", text)
    piled = found & MARK and _pile().search(text)
    composed = [word if piled and _pile().search(word) else unicodedata.normalize("NFC", word) for word in words]
    return _count(counts, "form", "".join(composed), sum(map(ne, words, composed)))
