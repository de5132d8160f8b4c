"""Personal data and secrets: found at cheap anchors, proven by check digits and form, masked by what says their kind.

Visa 4539 5787 6362 1486, mail kim@mail.example, 手机13812345678, release 2.0.0.1, 0.4539578763621486
     └──── card ───────┘       └─── email ────┘      └cn_mobile┘          (left)     (left: a float)
Visa <CARD>, mail <EMAIL>, 手机<CN_MOBILE>, release 2.0.0.1, 0.4539578763621486

One pass over the bytes finds anchors (``@``, groups of digits, long tokens, ``-----BEGIN``); the rules of a kind look
only there. Of what overlaps secrets stay, then the longest, of two as long the one with the stronger proof.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import ipaddress
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from prep_lib.errors import BadParameter, unknown
from prep_lib.jit import kernel
from prep_lib.record import Document, Drop
from prep_lib.text.shingles import utf8

#: All kinds, the strongest proof first: of two finds of one length the earlier kind stays. The first two are secrets.
KINDS = ("pem", "key", "email", "iban", "cn_id", "card", "ip", "cn_mobile", "ssn", "phone")

#: How much speaks for a find, most first: a check digit, a form nothing else has, a word before it, its shape alone.
EVIDENCE = ("check", "form", "word", "shape")

#: What may stand at both ends of a placeholder: nothing is found across them, so it joins nothing beside it.
EDGES = "<>[]{}|«»‹›【】〔〕《》〈〉＜＞［］｛｝⟨⟩"

#: The character that stands for what was found while the rest is looked at again; no rule looks at it either.
_NEUTRAL = 0


class Found(NamedTuple):
    """A find.

    Parameters
    ----------
    start, stop : int
        Characters of the text, half open.
    kind : str
        One of `KINDS`.
    rule : str
        What it is exactly: ``visa``, ``github``, ``DE``, ``v6``; empty where the kind says all.
    evidence : str
        One of `EVIDENCE`.
    """

    start: int
    stop: int
    kind: str
    rule: str = ""
    evidence: str = "form"


@dataclass(frozen=True, kw_only=True)
class Pii:
    """Mask personal data and secrets, or drop the document that holds many; a map stage.

    Parameters
    ----------
    kinds : tuple of str, or "all"
        ``email``; ``phone``; ``ip``: IPv4 and IPv6; ``card``: payment cards; ``iban``; ``cn_mobile`` and ``cn_id``:
        Chinese mobile numbers, and resident ids of 18 digits; ``ssn``: like US social security numbers; ``key``: API
        keys and tokens; ``pem``: private key blocks.
    country : str or None
        Two letters, ``"US"``: phone numbers as they are written inside that country are found too, by the package
        phonenumbers. None: only international form (``+49 30 …``), by our own table, whatever is installed.
    action : str
        ``"mask"``: what is found becomes its placeholder. ``"drop"``: texts stay as they are, or go.
    max_found : int or None
        A document with more finds is dropped. None: no limit where masked, 0 where dropped.
    placeholders : mapping of kind -> str, or None
        Those given replace ``<EMAIL>``, ``<PHONE>`` and so on. Letters between `EDGES`, one for each kind.

    Raises
    ------
    BadParameter
        If a parameter is none of these, or `country` is given and phonenumbers is not installed.

    Notes
    -----
    Writes ``meta["pii"]``, finds by kind. A text without a find is the same object. Placeholders that stand in a text
    already are text; masking twice is masking once.

    Not personal, and left:

    - addresses with no public host: private 10/8, 172.16/12, 192.168/16; shared 100.64/10; loopback 127/8; link-local
      169.254/16; documentation 192.0.2/24, 198.51.100/24, 203.0.113/24; benchmark 198.18/15; 0/8, 192.0.0/24,
      192.88.99/24, 224/3; of IPv6 all outside 2000::/3, and in it 2001::/23, 2001:db8::/32, 3fff::/20;
    - four numbers with dots behind a word such as "version", "section" or "Firefox" or in front of "and later", in an
      element such as ``<version>``, between other numbers, or where no word says address and they look like a version:
      all below 20, two zeros, a zero at the end;
    - ``git@`` hosts, and products of matrices, ``x@self.weight``;
    - bare numbers of 13 digits, which are goods and not cards; old resident ids of 15 digits;
    - dates, ISBN, floats, hashes, UUIDs, amounts, operands: nothing begins or ends inside a number, a word or a path.

    Chinese needs no blanks around a number; full-width digits are digits; escapes in strings, ``\\n``, are no letters.
    Fields of a table are numbers, ``Kim,25,13812345678``; what follows a decimal comma, ``3,14159265358979``, is none.

    Drops
    -----
    ``too_much_pii``, with how many were found and how many are allowed.

    Source
    ------
    Luhn (ISO/IEC 7812), IBAN (ISO 13616, mod 97), resident ids (GB 11643-1999), country codes (ITU E.164), address
    ranges (IANA special-purpose registries). Masking few and dropping many: dolma 1.0.

    Examples
    --------
    >>> Pii().map(Document("1", "手机13812345678邮箱a@b.cn")).text
    '手机<CN_MOBILE>邮箱<EMAIL>'
    >>> Pii(max_found=1).map(Document("1", "a@b.cn, c@d.cn"))
    Drop(reason='too_much_pii', value=2, limit=1)
    """

    name: ClassVar[str] = "pii"
    counted: ClassVar[tuple[str, ...]] = ("pii",)

    kinds: Any = "all"
    country: str | None = None
    action: str = "mask"
    max_found: int | None = None
    placeholders: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", _kinds(self.kinds))
        if self.action not in ("mask", "drop"):
            raise BadParameter(f"text/pii: action must be 'mask' or 'drop', got {self.action!r}")
        most = self.max_found
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 0):
            raise BadParameter(f"text/pii: max_found must be a whole number >= 0 or None, got {most!r}")
        _check_country(self.country, self.kinds)
        object.__setattr__(self, "placeholders", _placeholders(self.placeholders))

    @property
    def packages(self) -> tuple[str, ...]:
        """Libraries whose answers it passes on: without a country none."""
        return ("phonenumbers",) if self.country else ()

    @cached_property
    def _wanted(self) -> frozenset[str]:
        return frozenset(self.kinds)

    def map(self, doc: Document) -> Document | Drop:
        """Return the document masked, the same one, or why it goes."""
        found = self.find(doc.text)
        limit = 0 if self.max_found is None and self.action == "drop" else self.max_found
        if limit is not None and len(found) > limit:
            return Drop("too_much_pii", len(found), limit)
        if not found:
            return doc
        counts = Counter(each.kind for each in found)
        told = {kind: counts[kind] for kind in self.kinds if counts[kind]}
        text = self.mask(doc.text, found) if self.action == "mask" else doc.text
        return replace(doc, text=text, meta={**doc.meta, "pii": told})

    def map_many(self, docs: Sequence[Document]) -> list[Document | Drop]:
        """Return what `map` does of each document; one pass over the bytes of all tells which few to look at."""
        if self.country:
            # Numbers as they are written inside a country have no anchors.
            return [self.map(doc) for doc in docs]
        return [self.map(doc) if anchored else doc for doc, anchored in zip(docs, _anchored(docs), strict=True)]

    def find(self, text: str) -> list[Found]:
        """Return what the stage sees in a text, as `find` does."""
        return _found(text, self._wanted, self.country)

    def mask(self, text: str, found: Iterable[Found]) -> str:
        """Return the text with a placeholder for each find."""
        parts, at = [], 0
        for each in found:
            parts += [text[at : each.start], self.placeholder(each.kind)]
            at = each.stop
        return "".join(parts) + text[at:]

    def placeholder(self, kind: str) -> str:
        """Return what a kind becomes."""
        assert self.placeholders is not None  # filled in at birth
        return self.placeholders[kind]


def find(text: str, kinds: Any = "all", country: str | None = None) -> list[Found]:
    """Return personal data and secrets of a text, in order, none overlapping another.

    Parameters
    ----------
    text : str
    kinds, country
        As for `Pii`.

    Examples
    --------
    >>> [(each.kind, each.rule, each.start) for each in find("Card 4539 5787 6362 1486, DNS 9.9.9.9 not 10.0.0.1")]
    [('card', 'visa', 5), ('ip', 'v4', 30)]
    """
    kinds = _kinds(kinds)
    _check_country(country, kinds)
    return _found(text, frozenset(kinds), country)


def _kinds(kinds: Any) -> tuple[str, ...]:
    if kinds == "all":
        return KINDS
    if isinstance(kinds, str) or not isinstance(kinds, Iterable) or not (given := tuple(kinds)):
        raise BadParameter(
            f'text/pii: kinds must be "all" or a tuple of kinds, got {kinds!r}; known: {", ".join(KINDS)}'
        )
    for kind in given:
        if kind not in KINDS:
            raise unknown("text/pii", "kind", str(kind), KINDS)
    return tuple(kind for kind in KINDS if kind in given)


def _check_country(country: str | None, kinds: tuple[str, ...]) -> None:
    if country is None or "phone" not in kinds:
        return
    if not _installed():
        raise BadParameter(
            f"text/pii: country={country!r} needs the package phonenumbers, which is not installed; "
            'pip install "prep-workbench[pii]", or country=None for international form only'
        )
    import phonenumbers

    if country not in phonenumbers.SUPPORTED_REGIONS:
        raise unknown("text/pii", "country", str(country), phonenumbers.SUPPORTED_REGIONS)


def _installed() -> bool:
    try:
        import phonenumbers  # noqa: F401
    except ImportError:
        return False
    return True


def _placeholders(given: Mapping[str, str] | None) -> dict[str, str]:
    made = {kind: f"<{kind.upper()}>" for kind in KINDS}
    for kind, text in dict(given or {}).items():
        if kind not in made:
            raise unknown("text/pii", "kind", str(kind), KINDS)
        # Longer ones could not be told from a key.
        inner = text.strip(EDGES).replace("_", "") if isinstance(text, str) and len(text) <= 32 else ""
        if not (inner.isalpha() and text[0] in EDGES and text[-1] in EDGES):
            raise BadParameter(
                f"text/pii: the placeholder of {kind} must be letters and _ between two of {EDGES}, at most 32 "
                f"characters, got {text!r}; for example <{kind.upper()}>"
            )
        made[kind] = text
    if len(set(made.values())) < len(made):
        twice = next(text for text, n in Counter(made.values()).items() if n > 1)
        raise BadParameter(
            f"text/pii: {twice!r} stands for two kinds; a placeholder says the kind, so give one another"
        )
    return made


# ── finding ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _found(text: str, kinds: frozenset[str], country: str | None) -> list[Found]:
    """Look until nothing more is seen: what stood against a find may be gone with the one beside it.

    Finds can free each other in a row as long as the text, so what a find may have freed is looked for beside it; only
    when nothing is left there, once more everywhere.
    """
    text, found = _unescaped(text), list[Found]()
    while candidates := _candidates(text, kinds, country):
        codes = np.frombuffer(bytearray(text.encode("utf-32-le", "surrogatepass")), np.uint32)
        while more := _longest(candidates, codes):
            found += more
            candidates = [each for spot in _spots(more) for each in _beside(codes, *spot, kinds, country)]
        text = _text(codes)
    return sorted(found)


def _text(codes: np.ndarray) -> str:
    return codes.tobytes().decode("utf-32-le", "surrogatepass")


def _longest(candidates: Iterable[Found], codes: np.ndarray) -> list[Found]:
    """Of candidates that overlap take the secret, then the longest, then the stronger kind, then the first.

    What is taken becomes neutral in `codes`, a number a character.
    """

    def rank(each: Found) -> tuple[int, int, int, int]:
        kind = KINDS.index(each.kind)
        return min(kind, 2), each.start - each.stop, kind, each.start

    taken = []
    for each in sorted(candidates, key=rank):
        span = codes[each.start : each.stop]
        if (span != _NEUTRAL).all():
            span[:] = _NEUTRAL
            taken.append(each)
    return taken


def _spots(found: Iterable[Found]) -> list[tuple[int, int]]:
    """Where something was found: from, to; finds near each other are one spot."""
    spots: list[tuple[int, int]] = []
    for each in sorted(found):
        if spots and each.start - spots[-1][1] <= 2 * (_BEFORE + _BEHIND):
            spots[-1] = spots[-1][0], each.stop
        else:
            spots.append((each.start, each.stop))
    return spots


def _beside(codes: np.ndarray, start: int, stop: int, kinds: frozenset[str], country: str | None) -> Iterator[Found]:
    """What is seen from so near to a spot that the spot is seen from there."""
    left, right = max(0, start - _BEHIND - _BEFORE), stop + _BEFORE + _BEHIND
    part = _text(codes[left:right])
    for each in _candidates(part, kinds, country, start - _BEHIND - left, stop + _BEFORE - left):
        # What reaches the end of the part may go on behind it.
        if each.stop < len(part) or right >= len(codes):
            yield each._replace(start=left + each.start, stop=left + each.stop)


def _candidates(
    text: str, kinds: frozenset[str], country: str | None, first: float = 0, last: float = math.inf
) -> list[Found]:
    """What the rules see, looking from characters `first` to `last`."""
    utf8 = text.encode("utf-8", "surrogatepass")
    plain = len(utf8) == len(text)
    seen = [
        found
        for anchor in _anchors(utf8)
        if first <= anchor >> 3 <= last
        for found in _LOOK[anchor & 7](text, anchor >> 3, plain)
        if found.kind in kinds
    ]
    if country and "phone" in kinds:
        seen += [found for found in _national(text, plain, country) if first <= found.start <= last]
    return seen


#: Escapes in the strings of programs and of JSON: none is part of what stands beside it.
_ESCAPE = re.compile(r"\\(?:[nrt]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})")
#: What stands between texts that are looked through together: further than a rule looks for what joins two numbers.
_APART = "\n" * 8


def _unescaped(text: str) -> str:
    """Return the text with line feeds in the place of escapes, as long as it was."""
    return _ESCAPE.sub(lambda match: "\n" * len(match[0]), text) if "\\" in text else text


def _anchored(docs: Sequence[Document]) -> list[bool]:
    """Tell of each document whether there is anything to look at; a mark at its very beginning may be none."""
    texts = [_unescaped(doc.text) for doc in docs]
    raw = [utf8(doc if text is doc.text else text) for doc, text in zip(docs, texts, strict=True)]
    ends = np.cumsum([len(text) + len(_APART) for text in texts])
    found = np.array(_anchors(_APART.encode().join(raw)), np.int64) >> 3
    return np.isin(np.arange(len(docs)), np.searchsorted(ends, found, "right")).tolist()


def _anchors(utf8: bytes) -> list[int]:
    data, room = np.frombuffer(utf8, np.uint8), 64
    while True:
        out = np.empty(room, np.int64)
        count = find_anchors(data, _CLASSES, _TOKENS, out)
        if count >= 0:
            return out[:count].tolist()
        room *= 8


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Characters of a text around an anchor that a rule may look at: before, behind.
_BEFORE, _BEHIND = 65, 96

#: Full-width forms of what numbers and addresses are made of, and the blanks and dashes that stand between digits.
_FOLD = {
    **{code: code - 0xFEE0 for code in (*range(0xFF10, 0xFF1B), *range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))},
    **{ord(wide): ord(plain) for wide, plain in zip("＠．－＋＿／（）＝", "@.-+_/()=", strict=True)},
    **dict.fromkeys((0xA0, 0x2009, 0x202F, 0x3000), 0x20),
    **dict.fromkeys(range(0x2010, 0x2016), 0x2D),
}


_WIDE = re.compile(f"[{''.join(map(chr, _FOLD))}]")


def _around(text: str, at: int, plain: bool, behind: int = _BEHIND) -> tuple[str, int]:
    """Return what stands around a place, one plain character for each, and where the place is in it."""
    start = max(0, at - _BEFORE)
    window = text[start : at + behind]
    # A line feed before the text: what is looked for in front of a number needs a character to look at.
    return "\n" + (window if plain or not _WIDE.search(window) else window.translate(_FOLD)), at - start + 1


#: Left of a number: no number, word or decimal that goes on into it.
_WHOLE = re.compile(r"(?<![0-9A-Za-z_])(?<![0-9\s(,=\[]\.)(?<![0-9]-)")
#: And no path, amount, operand, attribute, or name of something else.
_LEFT = re.compile(
    r"(?<![0-9A-Za-z_$€£¥%])(?<![$€£¥] )(?<![0-9\s(,=\[]\.)"
    r"(?<![0-9A-Za-z)\s=(,\[]-)(?<![A-Za-z/]/)(?<![A-Za-z\]]=)(?<!&#)(?<![0-9]:)"
    r"(?<![^\s] [+*^=] )(?<!\":)(?<!\": )(?<!=[\"'])"
)
#: Right of it: the same. A comma joins nothing: thousands are cut everywhere, and no part of them is as long.
_RIGHT = re.compile(
    r"(?![0-9A-Za-z_%])(?!\.[0-9a-z])(?!-[0-9A-Za-z])(?!:[0-9](?![0-9]/[0-9]))(?! ?[$€£¥])(?!\s?[万亿元])"
    r"(?! ?[*^] ?[A-Za-z(])(?!\*\*[0-9(])"
)
#: A decimal comma, "3,14159265358979": what is no row of a table, "Kim,25,13812345678" or "25,13812345678,Kim".
_DECIMAL = re.compile(r"(?<![0-9,])[0-9]{1,3},\Z")
_NEXT_FIELD = re.compile(r",\S")


def _before(words: str, inside: str = "", joint: str = "", between: str = "") -> re.Pattern[str]:
    """Return what finds a word in front of a place, in text read backwards: one look, where a search takes forty.

    `words` begin a word, in words of `inside` not; ``_`` is a blank. Behind them may stand a pattern `between`, turned
    round already, and up to seven characters of `joint`.
    """
    begun, anywhere = (
        "|".join(re.escape(word[::-1].replace("_", " ")) for word in each.split()) for each in (words, inside)
    )
    either = f"(?:{begun})(?![a-z])" + (f"|(?:{anywhere})" if anywhere else "")
    return re.compile(rf"[\s:=#(\"'\\{joint}-]{{0,7}}{between}(?:{either})", re.I)


#: "number", "no." and "is" behind a word, turned round.
_NUMBER_IS = r"(?:(?:si|ta|no) )?(?:\.?(?:on|rebmun|mun|rn|码号|碼號|号)[ _-]?)?"
_PHONE_WORD = _before(
    "tel mob cell call call_us fax sms contact hotline",
    "mobile mobiles phone phones telephone cellphone whatsapp "
    "电话 電話 手机 手機 联系方式 联系人 热线 致电 拨打 座机 传真 微信 短信",
    ".是为",
    _NUMBER_IS,
)
_CARD_WORD = _before(
    "card cards visa mastercard master_card amex american_express credit debit",
    "卡号 银行卡 信用卡",
    ".是为",
    _NUMBER_IS,
)
_SSN_WORD = _before("ssn social_security", "", ".", _NUMBER_IS)
_ID_WORD = _before("id idcard id_card", "身份证 公民身份号码", ".是为", _NUMBER_IS)


def _said(words: re.Pattern[str], window: str, at: int) -> bool:
    return words.match(window[max(0, at - _BEFORE) : at][::-1]) is not None


def _bounded(window: str, start: int, stop: int, words: re.Pattern[str], left: re.Pattern[str] = _LEFT) -> str | None:
    """Return the evidence a number has by what stands around it; None: it is part of something else."""
    if not _RIGHT.match(window, stop):
        return None
    if _said(words, window, start):
        return "word"
    return "shape" if left.match(window, start) and not _decimal(window, start, stop) else None


def _decimal(window: str, start: int, stop: int) -> bool:
    """Tell whether digits without a gap are what stands behind a decimal comma."""
    return (
        window[start - 1] == ","
        and window[start:stop].isdigit()
        and _DECIMAL.search(window, 0, start) is not None
        and not _NEXT_FIELD.match(window, stop)
    )


# ── e-mail ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_LETTERS = "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0370-\u03ff\u0400-\u052f"
_LOCAL_PLAIN = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._%+&'~-"
_LOCAL_WIDE = _LOCAL_PLAIN + "".join(
    map(chr, (*range(0xC0, 0xD7), *range(0xD8, 0xF7), *range(0xF8, 0x250), *range(0x370, 0x530)))
)
_DOMAIN = re.compile(
    rf"@((?:[A-Za-z0-9{_LETTERS}-]{{1,63}}\.){{1,8}})(xn--[A-Za-z0-9-]{{1,59}}|[A-Za-z{_LETTERS}]{{2,24}})"
    rf"(?![A-Za-z0-9{_LETTERS}]|_[A-Za-z0-9])"
)
#: Endings of files, which no domain has: icon@2x.png.
_FILES = _words(
    "png jpg jpeg gif svg webp bmp ico css html htm xml json php jsx tsx yaml yml txt pdf exe dll class java "
    "cpp scss woff ttf js ts"
)
#: Endings of three letters and more that are no names in programs.
_COMMON = _words(
    "com org net edu gov mil int info biz name aero asia coop mobi museum travel online website email company agency "
    "studio photography club xyz vip wang ltd group top cloud tech site store shop link example invalid"
)
#: What an array or a module of a network has, and methods of two letters; no domain ends with the former.
_MEMBERS = _words("weight weights bias data grad params parameters transpose values shape dtype")
_METHODS = _words("to at mm mv eq ne lt le gt ge")
_PERCENT = re.compile("(?:%[0-9A-Fa-f]{2})+")
_OPERATION = re.compile(r"[(\[]| ?[*+] ?[A-Za-z0-9(]| ?@")
_RESULT = re.compile(r"(?:= |return |[A-Za-z0-9)] [+*-] )\Z")


def _email(text: str, at: int, plain: bool) -> Iterator[Found]:
    window, here = _around(text, at, plain, 300)
    domain = _DOMAIN.match(window, here)
    if domain is None:
        return
    ahead = window[:here]
    run = ahead[len(ahead.rstrip(_LOCAL_PLAIN if ahead.isascii() else _LOCAL_WIDE)) :]
    local = _PERCENT.sub("", run, 1) if _PERCENT.match(run) else run
    local = local.lstrip(".%+&'~-")
    labels = domain[1].split(".")[:-1]
    if not local or local.endswith(".") or len(run) >= _BEFORE or local == "git" or domain[2].lower() in _FILES:
        return
    if any(label.startswith("-") or label.endswith("-") for label in labels):
        return
    if not _product(window, here - len(local), local, labels[0], domain):
        yield Found(at - len(local), at + domain.end() - here, "email")


def _product(window: str, start: int, local: str, host: str, domain: re.Match[str]) -> bool:
    """Tell whether an @ multiplies two matrices, as in ``y = x@self.weight + b``."""
    ending = domain[2].lower()
    if domain[2] not in (ending, ending.upper(), ending.title()) or ending in _MEMBERS:
        return True
    if ending in _COMMON or ending.startswith("xn--"):
        return False
    called = window.startswith("(", domain.end())
    if host in ("self", "cls") or local.startswith("self.") or (called and (len(ending) > 2 or ending in _METHODS)):
        return True
    # Of a name nobody registers by the thousand: a variable's, or in the middle of a formula.
    between = _OPERATION.match(window, domain.end()) or _RESULT.search(window, 0, start)
    return len(ending) > 2 and (len(local) == 1 or between is not None)


# ── numbers with a check digit, or a form ────────────────────────────────────────────────────────────────────────────

_CARD = re.compile(
    r"[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{1,3}(?![0-9]))?|"
    r"[0-9]{4}([ -])[0-9]{6}\2[0-9]{4,5}|[0-9]{13,19}"
)
#: A row of a table, or an account, goes on: one more group of four.
_GROUP_BEFORE = re.compile(r"(?:(?<![0-9])[0-9]{2}|[A-Z]{2})[0-9]{2}[ -]\Z")
_MORE_GROUPS = re.compile(r"[ -][0-9]{4}(?![0-9])")

#: Issuer, first and last number it begins with, digits of the whole.
_ISSUERS = (
    ("visa", 4, 4, (16, 19)),
    ("mastercard", 51, 55, (16,)),
    ("mastercard", 2221, 2720, (16,)),
    ("amex", 34, 34, (15,)),
    ("amex", 37, 37, (15,)),
    ("unionpay", 62, 62, (16, 17, 18, 19)),
    ("discover", 6011, 6011, (16, 19)),
    ("discover", 644, 659, (16, 19)),
    ("diners", 300, 305, (14, 16, 19)),
    ("diners", 3095, 3095, (14, 16, 19)),
    ("diners", 36, 36, (14, 16, 19)),
    ("diners", 38, 39, (14, 16, 19)),
    ("jcb", 3528, 3589, (16, 19)),
    ("mir", 2200, 2204, (16, 17, 18, 19)),
    ("maestro", 5018, 5018, (16, 18, 19)),
    ("maestro", 5020, 5020, (16, 18, 19)),
    ("maestro", 5038, 5038, (16, 18, 19)),
    ("maestro", 5893, 5893, (16, 18, 19)),
    ("maestro", 6304, 6304, (16, 18, 19)),
    ("maestro", 6759, 6763, (16, 18, 19)),
    ("rupay", 508, 508, (16,)),
    ("rupay", 81, 82, (16,)),
    ("troy", 9792, 9792, (16,)),
)


def luhn(digits: str) -> bool:
    """Tell whether the last digit is the check digit of those before it, as on payment cards.

    Examples
    --------
    >>> luhn("4539578763621486"), luhn("4539578763621487")
    (True, False)
    """
    doubled = [2 * int(digit) for digit in digits[-2::-2]]
    return (sum(map(int, digits[-1::-2])) + sum(n - 9 if n > 9 else n for n in doubled)) % 10 == 0


def issuer(digits: str) -> str | None:
    """Return who issues cards of this beginning and length; None: nobody known.

    Examples
    --------
    >>> issuer("378282246310005"), issuer("9780306406157")
    ('amex', None)
    """
    for name, first, last, lengths in _ISSUERS:
        if first <= int(digits[: len(str(first))]) <= last and len(digits) in lengths:
            return name
    return None


def _card(text: str, window: str, at: int, here: int) -> Iterator[Found]:
    match = _CARD.match(window, here)
    if match is None:
        return
    groups = re.split("[ -]", match[0])
    # A last group of one to three digits may be the card's, or what is printed on its back.
    for size in (len(groups), 4) if len(groups) == 5 else (len(groups),):
        stop = here + sum(map(len, groups[:size])) + size - 1
        digits = "".join(groups[:size])
        name = issuer(digits)
        if name is None and len(digits) == 13 and digits[0] == "4" and _said(_CARD_WORD, window, here):
            name = "visa"  # Of 13 digits once; today they are the numbers of goods.
        row = size > 1 and (_GROUP_BEFORE.search(window, 0, here) or (size == 4 and _MORE_GROUPS.match(window, stop)))
        if name and not row and len(set(digits)) > 1 and luhn(digits) and _bounded(window, here, stop, _CARD_WORD):
            yield Found(at, at + stop - here, "card", name, "check")
            return


_CN_ID = re.compile(r"[0-9]{17}[0-9Xx]|[0-9]{6}([ -])[0-9]{8}\1[0-9]{3}[0-9Xx]")
#: GB/T 2260: the provinces a resident id begins with.
_PROVINCES = _words(
    "11 12 13 14 15 21 22 23 31 32 33 34 35 36 37 41 42 43 44 45 46 50 51 52 53 54 61 62 63 64 65 71 81 82 83"
)
_WEIGHTS = tuple(2 ** (17 - at) % 11 for at in range(17))


def resident_id(digits: str) -> bool:
    """Tell whether 18 characters are a Chinese resident id: province, date of birth, check digit.

    Born in 1880 to 2049: no clock decides.

    Examples
    --------
    >>> resident_id("11010519491231002X"), resident_id("110105194912310021")
    (True, False)
    """
    try:
        born = datetime.date(int(digits[6:10]), int(digits[10:12]), int(digits[12:14]))
    except ValueError:
        return False
    check = sum(weight * int(digit) for weight, digit in zip(_WEIGHTS, digits[:17], strict=True)) % 11
    known = digits[:2] in _PROVINCES and digits[2:4] != "00" and 1880 <= born.year < 2050
    return known and "10X98765432"[check] == digits[17].upper()


def _cn_id(text: str, window: str, at: int, here: int) -> Iterator[Found]:
    match = _CN_ID.match(window, here)
    # Two in a hundred thousand numbers of 18 digits have a province, a day and a check digit.
    if match and resident_id(re.sub("[ -]", "", match[0])) and _bounded(window, here, match.end(), _ID_WORD, _WHOLE):
        yield Found(at, at + match.end() - here, "cn_id", "", "check")


_CN_MOBILE = re.compile(
    r"(?:86)?1(?:3[0-9]|4[0-9]|5[0-35-9]|6[2567]|7[0-8]|8[0-9]|9[0-35-9])(?:[0-9]{8}|([ -])[0-9]{4}\1[0-9]{4})"
)
_CN_CODE = re.compile(r"(?:\((?:\+|00)86\)|\+86|(?<![0-9])0086|(?<![0-9A-Za-z])86)[ -]?\Z|\+\Z")

#: Of a list, "123,13812345678,99": a neighbour that is no mobile number. A field in words makes it a row of a table.
_LISTED_LEFT = re.compile(r"(?<![0-9])(?!1[3-9][0-9]{9},)[0-9]+,\Z")
_LISTED_RIGHT = re.compile(r",(?!1[3-9][0-9]{9}(?![0-9]))[0-9]")
_FIELD = re.compile(r"(?:[\n,]\"?)[^\W\d_][^\n,=()\[\]{}0-9]*(?:\n|,(?!\s)|\Z)")


def _cn_mobile(text: str, window: str, at: int, here: int) -> Iterator[Found]:
    match = _CN_MOBILE.match(window, here)
    if match is None:
        return
    code = _CN_CODE.search(window, here - 7, here)
    if code and code[0] == "+" and not match[0].startswith("86"):
        return  # Of another country.
    start = code.start() if code else here
    evidence = _bounded(window, start, match.end(), _PHONE_WORD)
    # Three groups in a row of more groups are no number by themselves, nor is one of a list of other numbers.
    row = match[1] and (re.match(r"[ -][0-9]", window[match.end() :]) or re.search(r"[0-9][ -]\Z", window[:start]))
    listed = (
        _LISTED_LEFT.search(window, 0, start)
        and _LISTED_RIGHT.match(window, match.end())
        and not _FIELD.search("\n" + window[:start].rpartition("\n")[2] + window[start:].partition("\n")[0])
    )
    if evidence and not ((row or listed) and evidence == "shape"):
        yield Found(at + start - here, at + match.end() - here, "cn_mobile", "", "form" if code else evidence)


_SSN = re.compile(r"(?!000|666|9)[0-9]{3}([ -])(?!00)[0-9]{2}\1(?!0000)[0-9]{4}")


def _ssn(text: str, window: str, at: int, here: int) -> Iterator[Found]:
    match = _SSN.match(window, here)
    if match is None:
        return
    evidence = _bounded(window, here, match.end(), _SSN_WORD)
    if evidence == "word" or (evidence and match[1] == "-"):
        yield Found(at, at + match.end() - here, "ssn", "", evidence)


def _number(text: str, at: int, plain: bool) -> Iterator[Found]:
    window, here = _around(text, at, plain)
    for look in (_cn_id, _card, _cn_mobile, _ssn):
        yield from look(text, window, at, here)


#: ISO 13616: letters and digits of an IBAN, by country.
_IBAN = {
    each[:2]: int(each[2:])
    for each in _words(
        "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 "
        "EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 "
        "KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 "
        "PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 "
        "UA29 VA22 VG24 XK20 YE30"
    )
}


def mod97(iban: str) -> bool:
    """Tell whether the two check digits of an IBAN without blanks are right.

    Examples
    --------
    >>> mod97("DE89370400440532013000"), mod97("DE88370400440532013000")
    (True, False)
    """
    return int("".join(str(int(letter, 36)) for letter in iban[4:] + iban[:4])) % 97 == 1


def _iban(text: str, at: int, plain: bool) -> Iterator[Found]:
    country = text[at : at + 2]
    size = _IBAN.get(country)
    if size is None:
        return
    window, here = _around(text, at, plain)
    # Without blanks, or one behind every four.
    spaced = window[here + 4 : here + 5] in (" ", "-")
    stop = here + size + (size - 1) // 4 * spaced
    groups = [window[first : first + 4] for first in range(here, stop, 5)] if spaced else [window[here:stop]]
    iban = "".join(groups)[:size]
    gaps = {window[first] for first in range(here + 4, min(stop, len(window)), 5)} if spaced else {"-"}
    whole = len(iban) == size and iban.isascii() and iban.isalnum() and iban == iban.upper() and len(gaps) == 1
    if whole and gaps <= {" ", "-"} and mod97(iban) and not re.match(r"[0-9A-Za-z_]", window[stop : stop + 1]):
        yield Found(at, at + stop - here, "iban", country, "check")


# ── telephone ────────────────────────────────────────────────────────────────────────────────────────────────────────

#: ITU E.164: digits behind a country code, least and most.
_CODES = {
    code: (int(least), int(most))
    for code, least, most in re.findall(
        r"(\d+):(\d+)-(\d+)",
        "1:10-10 7:10-10 20:8-10 27:9-9 30:10-10 31:9-9 32:8-9 33:9-9 34:9-9 36:8-9 39:8-11 40:9-9 41:9-9 43:7-12 "
        "44:9-10 45:8-8 46:7-10 47:8-8 48:9-9 49:7-12 51:8-9 52:10-11 53:8-8 54:10-11 55:10-11 56:9-9 57:8-10 "
        "58:10-10 60:8-10 61:9-9 62:8-12 63:8-10 64:8-10 65:8-8 66:8-9 81:9-10 82:8-10 84:9-10 86:9-11 90:10-10 "
        "91:10-10 92:9-10 93:9-9 94:9-9 95:7-10 98:10-10 351:9-9 353:7-9 358:6-11 380:9-9 852:8-8 853:8-8 886:8-9 "
        "966:8-9 971:8-9 972:8-9",
    )
}
#: Other countries, by the code's three digits, first and last.
_RANGES = (
    (211, 213), (216, 216), (218, 218), (220, 258), (260, 269), (290, 291), (297, 299), (350, 359), (370, 378),
    (380, 383), (385, 387), (389, 389), (420, 421), (423, 423), (500, 509), (590, 599), (670, 670), (672, 692),
    (850, 850), (855, 856), (880, 880), (960, 968), (970, 977), (992, 996), (998, 998),
)  # fmt: skip
#: Where a number inside the country may begin with 0 even behind the code.
_ZERO = frozenset(("39", "225", "241", "242"))

#: The digits of the shortest number: most of what follows a plus is settled by this.
_EIGHT = re.compile(r"[+＋](?:[^0-9０-９]{0,4}[0-9０-９]){8}")
_INTERNATIONAL = re.compile(r"\+(?:\(0\)|\)?[ ./-]?\(?[0-9]){7,24}")
#: "+33 111 222 333,50".
_THOUSANDS, _CENTS = re.compile(r"\+[0-9]{1,3}(?:[ .][0-9]{3})+"), re.compile(r",[0-9]{1,2}(?![0-9,])")


def country_code(digits: str) -> tuple[str, int, int] | None:
    """Return the country code digits begin with, and how many digits follow it at least and at most.

    Examples
    --------
    >>> country_code("4930123456"), country_code("999123")
    (('49', 7, 12), None)
    """
    for size in (1, 2, 3):
        if found := _CODES.get(digits[:size]):
            return digits[:size], *found
    known = any(first <= int(digits[:3]) <= last for first, last in _RANGES)
    return (digits[:3], 7, 10) if known and len(digits) > 3 else None


def _plus(text: str, at: int, plain: bool) -> Iterator[Found]:
    if not _EIGHT.match(text, at):
        return
    window, here = _around(text, at, plain)
    match = _INTERNATIONAL.match(window, here)
    if match is None:
        return
    # Up to a date or "24/7" behind it.
    written = re.split(" [0-9]{1,2}/[0-9]{1,2}(?![0-9])", match[0])[0].replace("(0)", "   ")
    code = country_code("".join(re.findall("[0-9]", written))[:4])
    stop = code and _number_end(written, *code)
    if code is None or not stop:
        return
    joints = set(re.sub(r"[0-9+() ]", "", written[:stop]))
    # One dot is a decimal point; dots and dashes together are coordinates.
    dots = "." in joints and (len(joints) > 1 or written[:stop].count(".") < 2)
    opened = window[here - 1] == "(" and written[:stop].count(")") > written[:stop].count("(")
    amount = _THOUSANDS.fullmatch(written, 0, stop) and _CENTS.match(window, here + stop)
    if not dots and not amount and (evidence := _bounded(window, here - opened, here + stop, _PHONE_WORD)):
        yield Found(at - opened, at + stop, "phone", f"+{code[0]}", "word" if evidence == "word" else "form")


def _number_end(written: str, code: str, least: int, most: int) -> int:
    """Return where the last group ends that a number of this country may end with; 0: none does."""
    digits, best = "", 0
    for group in re.finditer("[0-9]+", written):
        digits += group[0]
        rest = digits[len(code) :]
        if code not in _ZERO:
            rest = rest.removeprefix("0")
            if rest.startswith("0"):
                return 0
        if least <= len(rest) <= most and len(set(rest)) > 1:
            best = group.end()
    return best


#: It begins with a digit, which the engine looks for fast; what stands before it is looked at behind that.
_NATIONAL = re.compile(
    r"[0-9０-９](?<![0-9０-９+＋].)(?<![0-9０-９][ \u00a0./\u2010-\u2015－-].)"
    r"(?:[)）]?[ \u00a0./\u2010-\u2015－-]?[(（]?[0-9０-９]){6,14}(?![0-9０-９])"
)
#: Dates, spans of years, and what has one dot only: a decimal number.
_NO_PHONE = re.compile(
    r"(?:[0-9]{4}[-./ ][0-9]{1,2}[-./ ][0-9]{1,2}|[0-9]{1,2}[-./ ][0-9]{1,2}[-./ ][0-9]{4}|"
    r"(?:1[0-9]|20)[0-9]{2}[-/ ](?:1[0-9]|20)[0-9]{2}|[0-9]+\.[0-9]+)(?![0-9]|\.[0-9])"
)


def _national(text: str, plain: bool, country: str) -> Iterator[Found]:
    """Numbers as they are written inside a country: valid there, and grouped as they are there or told by a word."""
    at = 0
    while match := _NATIONAL.search(text, at):
        window, here = _around(text, match.start(), plain)
        written = window[here : here + len(match[0])]
        opened, stop = _dial(window, here, written, country)
        if stop:
            start, at = match.start() - opened, match.start() + stop
            told = _said(_PHONE_WORD, window, here - opened)
            yield Found(start, at, "phone", country, "word" if told else "shape")
        else:
            # What stands in front may be a date: the next bracket begins anew.
            at = match.start() + 1


def _dial(window: str, here: int, written: str, country: str) -> tuple[bool, int]:
    """Return whether a bracket is open before a number, and where it ends: behind a group of it; 0: it is none."""
    ends = [group.end() for group in re.finditer("[0-9]+", written)]
    for stop in reversed(ends):
        part = written[:stop]
        opened = window[here - 1] == "(" and part.count(")") > part.count("(")
        evidence = _bounded(window, here - opened, here + stop, _PHONE_WORD)
        # Only a word says that a number ends where another group follows.
        right = evidence == "word" or (evidence == "shape" and stop == len(written))
        if right and not _NO_PHONE.match(part) and _dialled(part, country, evidence == "word"):
            return opened, stop
    return False, 0


def _dialled(written: str, country: str, told: bool) -> bool:
    """Tell whether phonenumbers reads a number of that country, cut as they are there unless a word says it is one."""
    import phonenumbers

    try:
        number = phonenumbers.parse(written, country)
    except phonenumbers.NumberParseException:
        return False
    if told and phonenumbers.is_possible_number(number):
        return True
    return phonenumbers.is_valid_number(number) and _grouped_alike(written, number)


def _grouped_alike(written: str, number: Any) -> bool:
    """Tell whether a number of two groups or more is cut only where the country cuts it."""
    import phonenumbers

    usual = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.NATIONAL)
    cuts = [_cuts(each) for each in (written, usual)]
    # Counted from the end, because a trunk prefix may be written or not.
    return bool(cuts[0]) and cuts[0] <= cuts[1] | {len(phonenumbers.national_significant_number(number))}


def _cuts(written: str) -> set[int]:
    sizes = [len(group) for group in re.findall("[0-9]+", written)]
    return {sum(sizes[at:]) for at in range(1, len(sizes))}


# ── addresses of computers ───────────────────────────────────────────────────────────────────────────────────────────

_QUAD = r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = re.compile(
    rf"(?<![0-9A-Za-z_.%~^])(?<![A-Za-z]-)(?<![A-Za-z]/)(?<![=~!<>]=)(?<![=~!<>]= )(?<!~>)(?<!~> )({_QUAD})"
    rf"(?![0-9A-Za-z_%])(?!\.[0-9A-Za-z])(?!-[A-Za-z])(?!-(?!{_QUAD}(?![0-9.]))[0-9])(?!\+[0-9A-Za-z])"
)
_PORT, _HOST_PORT = re.compile(":[0-9]"), re.compile("[:/][0-9]")
#: Another number, and not another address.
_NUMBER_NEXT = re.compile(rf" ?-?(?!{_QUAD}(?![0-9.]))\.?[0-9]")
_RANGE_BEFORE, _LIST_BEFORE = re.compile(rf"{_QUAD}-\Z"), re.compile(rf"(?<![0-9.]){_QUAD} \Z")
#: Behind the first field of a web server's log.
_LOGGED = re.compile(r" \S{1,30} \S{1,30} \[")
#: Ranges with no public host behind them, first and last as whole numbers (IANA).
_CLOSED = tuple(
    (int(network[0]), int(network[-1]))
    for network in map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
            "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
            "203.0.113.0/24", "224.0.0.0/3",
        ),
    )
)  # fmt: skip
_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
_CLOSED_V6 = tuple(map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "3fff::/20")))

#: In front of four numbers that are a version or a section; others may stand between ("from version 1.2.3.4 to").
_VERSION_WORD = _before(
    "v ver rel build update patch rev revision section sections sec subsection chapter chapters clause clauses article "
    "articles art paragraph paragraphs para item items rule rules figure figures fig table tables tab appendix annex "
    "step part parts no oid tag released_as upgrade upgraded upgrade_to upgrade_from upgraded_to upgraded_from "
    "upgrading_from downgrade_from downgraded_from bump_from bumped_from firefox chrome chromium safari opera msie "
    "skype python java jdk jre php ffmpeg openssl driver drivers flash acrobat asp.net microsoft.net dotnet",
    "version versions release releases firmware § 第 版 章 节 條 条 款 图 表 版本 升级到 升级至 升级",
    ".>",
    r"(?:(?:(?:ot|dna|ro|与|和|至|到|→|[,、-]) ?)?\)?[0-9.]{3,15}[\s:=#(\"'-]{1,3}){0,3}\.?"
    r"(?:(?:rebmun|eman|gnirts|edoc|ofni)[ _-]?)?",
)
#: And behind it.
_VERSION_BEHIND = re.compile(
    r"</[\w:.-]{0,40}(?:version|release|build|revision)>|\s?(?:版|升级)|"
    r" (?:or|and) (?:later|newer)\b",
    re.I,
)
_HOST_WORD = _before(
    "ip ips ipv4 addr address addresses host hosts hostname server servers ping gateway dns router client remote peer "
    "node proxy nameserver ssh ftp telnet curl traceroute",
    "地址 服务器 主机 来自",
    "[/@为是",
    "(?:(?:si|ta|saw|fo|ot) )?",
)
#: The resolvers everybody names; they look like sections and are none.
_RESOLVERS = frozenset(("8.8.8.8", "8.8.4.4", "9.9.9.9"))


def _ipv4(text: str, at: int, plain: bool) -> Iterator[Found]:
    window, here = _around(text, at, plain)
    match = _IPV4.match(window, here)
    if match is None:
        return
    octets = [int(part) for part in match[1].split(".")]
    number = int.from_bytes(octets, "big")
    if any(first <= number <= last for first, last in _CLOSED):
        return
    if _said(_VERSION_WORD, window, here) or _VERSION_BEHIND.match(window, match.end()):
        return
    if window[here - 1] in " -" and window[here - 2] in "0123456789":
        # Part of a longer number, or between others, as in the path of a drawing; from one address to another is right.
        if window[here - 1] == "-" and not _RANGE_BEFORE.search(window, 0, here):
            return
        listed = _LIST_BEFORE.search(window, here - 17, here)
        if window[here - 1] == " " and not listed and _NUMBER_NEXT.match(window, match.end()):
            return
    # A zero at the end and a slash behind it is a network, not a host.
    port = (_HOST_PORT if octets[3] else _PORT).match(window, match.end())
    told = window[here - 1] in "/@" or port or _LOGGED.match(window, match.end()) or _said(_HOST_WORD, window, here)
    if told or not _like_section(octets, window, here, match.end()) or match[1] in _RESOLVERS:
        yield Found(at, at + match.end() - here, "ip", "v4", "word" if told else "shape")


def _like_section(octets: list[int], window: str, start: int, stop: int) -> bool:
    """Tell whether four numbers look more like a version or a section than like a host."""
    heading = window[start - 1] == "\n" and re.match(r"[ \t]+[A-Za-z]", window[stop:])
    return max(octets) < (50 if heading else 20) or octets.count(0) > 1 or octets[3] == 0


_IPV6 = re.compile(r"(?<![0-9A-Za-z:._])[23][0-9A-Fa-f]{3}(?::[0-9A-Fa-f]{0,4}){2,7}(?![0-9A-Za-z_])")


def _ipv6(text: str, at: int, plain: bool) -> Iterator[Found]:
    match = _IPV6.match(text, at)
    if match is None:
        return
    written = match[0] if match[0].endswith("::") else match[0].removesuffix(":")
    # Three groups at least: 2000::2 is a slice of a list.
    if len([group for group in written.split(":") if group]) < 3:
        return
    try:
        address = ipaddress.IPv6Address(written)
    except ValueError:
        return
    if address in _PUBLIC_V6 and not any(address in network for network in _CLOSED_V6):
        yield Found(at, at + len(written), "ip", "v6", "form")


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

#: What a key always holds, who gives it out, and its whole form.
_KEYS = tuple(
    (first, name, re.compile(rf"(?<![A-Za-z0-9])(?:{form})(?![A-Za-z0-9])"))
    for firsts, name, form in (
        ("AKIA ASIA ABIA ACCA", "aws", r"A(?:KI|SI|BI|CC)A[A-Z0-9]{16}"),
        ("ghp_ gho_ ghu_ ghs_ ghr_", "github", r"gh[pousr]_[A-Za-z0-9]{36,255}"),
        ("github_pat_", "github", r"github_pat_[A-Za-z0-9_]{22,255}"),
        ("glpat-", "gitlab", r"glpat-[A-Za-z0-9_-]{20,}"),
        ("xox", "slack", r"xox[abeoprs]-(?=[A-Za-z-]{0,60}[0-9])[A-Za-z0-9-]{10,}"),
        ("xapp-", "slack", r"xapp-[0-9]-[A-Za-z0-9-]{20,}"),
        ("AIza", "google", r"AIza[A-Za-z0-9_-]{35}"),
        ("ya29.", "google", r"ya29\.[A-Za-z0-9_-]{20,}"),
        ("GOCSPX-", "google", r"GOCSPX-[A-Za-z0-9_-]{28}"),
        ("_live_ _test_", "stripe", r"[rps]k_(?:live|test)_[A-Za-z0-9]{16,}"),
        ("whsec_", "stripe", r"whsec_[A-Za-z0-9+/]{32,}"),
        (
            "sk-",
            "openai",
            r"sk-(?=[A-Za-z_-]{0,60}[0-9])(?:(?:proj|svcacct|admin|ant|or)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{20,})",
        ),
        ("hf_", "huggingface", r"hf_[A-Za-z0-9]{34,}"),
        ("npm_", "npm", r"npm_[A-Za-z0-9]{36}"),
        ("pypi-AgE", "pypi", r"pypi-AgE[A-Za-z0-9_-]{50,}"),
        ("SG.", "sendgrid", r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
        ("dop_v1_", "digitalocean", r"dop_v1_[a-f0-9]{64}"),
        ("shpat_ shpca_ shppa_ shpss_", "shopify", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
        ("eyJ", "jwt", r"(?<![_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    )
    for first in firsts.split()
)
_TOKEN = re.compile(r"[A-Za-z0-9_.+/=~-]+")
_BEARER = re.compile(r"bearer[ :=]{1,3}\Z", re.I)
#: Words with dashes between have none of this length.
_MIXED = re.compile(r"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{10,}")


def _key(text: str, at: int, plain: bool) -> Iterator[Found]:
    match = _TOKEN.match(text, at)
    if match is None:
        return
    token = match[0]
    if _BEARER.search(text, max(0, at - 10), at) and _MIXED.search(token):
        yield Found(at, at + len(token.rstrip("./")), "key", "bearer", "word")
    for first, name, form in _KEYS:
        if first in token:
            for key in form.finditer(token):
                if name != "jwt" or _is_jwt(key[0]):
                    yield Found(at + key.start(), at + key.end(), "key", name)


def _is_jwt(token: str) -> bool:
    """Tell whether the first part is a header: JSON that names an algorithm."""
    header = token.split(".")[0]
    try:
        read = json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return False
    return isinstance(read, dict) and "alg" in read


_PEM_HEAD = re.compile(r"-----BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----")
_PEM_BODY = re.compile(r"[A-Za-z0-9+/=\s:,.\\_()\"'-]*")
_PEM_LINES = re.compile(r"(?:\s{0,8}[A-Za-z0-9+/=]{40,})+")
#: Characters of the longest block.
_PEM_LONGEST = 16_384


def _pem(text: str, at: int, plain: bool) -> Iterator[Found]:
    head = _PEM_HEAD.match(text, at)
    if head is None:
        return
    foot = f"-----END {head[1]}-----"
    end = text.find(foot, head.end(), head.end() + _PEM_LONGEST)
    body = text[head.end() : end] if end >= 0 else ""
    if re.search("[A-Za-z0-9+/]{40}", body) and _PEM_BODY.fullmatch(body):
        yield Found(at, end + len(foot), "pem")
    elif lines := _PEM_LINES.match(text, head.end(), head.end() + _PEM_LONGEST):
        # The end is missing, or something stands in between.
        yield Found(at, lines.end(), "pem")


# ── anchors ──────────────────────────────────────────────────────────────────────────────────────────────────────────

#: What stands at an anchor, its low three bits; the rules in this order.
_LOOK = (_email, _number, _plus, _ipv4, _ipv6, _iban, _key, _pem)
_AT, _NUMBER, _PLUS, _QUADS, _GROUPS, _ACCOUNT, _LONG, _DASHES = range(8)

#: What a byte means to the gate: 0 nothing, then a digit, @, colon, dash, low line, and what is not ASCII.
_DIGIT, _SIGN, _COLON, _DASH, _LINE, _HIGH = 1, 2, 3, 4, 5, 6
_CLASSES = np.zeros(256, np.uint8)
_CLASSES[0x30:0x3A] = _DIGIT
_CLASSES[[0x40, 0x3A, 0x2D, 0x5F]] = _SIGN, _COLON, _DASH, _LINE
_CLASSES[0x80:] = _HIGH
_TOKENS = np.zeros(256, np.bool_)
_TOKENS[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+/=~-")] = True
#: Bytes of the shortest key.
_SHORTEST = 20

#: What joins two groups of digits.
_BLANK, _HYPHEN, _DOT = 1, 2, 3


@kernel
def find_anchors(data: np.ndarray, classes: np.ndarray, tokens: np.ndarray, out: np.ndarray) -> int:
    """Write where a rule has to look, in one pass over UTF-8; return how many, or -1 if `out` is too small.

    Most bytes of most texts are passed by with one look each. What may be a number is decided by how many digits its
    groups have: 11 to 19 in one, or 4-4-4-4, 4-6-5, 3-4-4, 3-2-4, 6-8-4, or four and dots.

    Parameters
    ----------
    data : (n,) uint8
    classes, tokens : (256,) uint8 and bool
        What each byte means, and whether it may stand in a key.
    out : (k,) int64
        Gets ``8 * character + rule``; not quite in order, and one place may be there more than once.
    """
    size, at, beyond, count = data.size, 0, 0, 0
    token_stop, stop = 0, -9
    # The last five groups of digits that one blank, dash or dot joins, newest first: how long, where, joined by what.
    long0, long1, long2, long3, long4 = 0, 0, 0, 0, 0
    from0, from1, from2, from3 = 0, 0, 0, 0
    join1, join2, join3 = 0, 0, 0
    while at < size:
        what = classes[data[at]]
        if what == 0:
            # A loop of its own: one byte is one look.
            while at < size and classes[data[at]] == 0:
                at += 1
            continue
        if count + 4 > out.size:
            return -1
        byte = int(data[at])
        wide = byte == 0xEF and at + 2 < size and data[at + 1] == 0xBC
        if what == _HIGH and not (wide and 0x90 <= data[at + 2] <= 0x99):
            # A full-width @ counts; of all others only how many bytes they have.
            if wide and data[at + 2] == 0xA0 and at:
                out[count] = 8 * (at - beyond) + _AT
                count += 1
            more = 3 if byte >= 0xF0 else 2 if byte >= 0xE0 else 1
            at, beyond = at + more + 1, beyond + more
            continue
        if what == _SIGN:
            # Between two characters of an address; @property is none.
            before, behind = int(data[at - 1]) if at else 0, int(data[at + 1]) if at + 1 < size else 0
            if (before >= 0x80 or tokens[before]) and (behind >= 0x80 or tokens[behind]):
                out[count] = 8 * (at - beyond) + _AT
                count += 1
        elif what == _COLON:
            # A group of an address of IPv6 that may be public begins with 2 or 3.
            if at >= 4 and 0x32 <= data[at - 4] <= 0x33 and (at < 5 or data[at - 5] != 0x3A):
                out[count] = 8 * (at - 4 - beyond) + _GROUPS
                count += 1
        elif what == _DASH:
            if at + 6 < size and data[at + 5] == 0x42 and data[at + 6] == 0x45 and data[at + 1] == 0x2D:
                out[count] = 8 * (at - beyond) + _DASHES
                count += 1
        elif what == _LINE and (at < 2 or data[at - 1] != 0x66 or data[at - 2] != 0x68 or at - 2 < token_stop):
            pass  # Only hf_ begins keys that may be without digits.
        else:
            start, first = at, at - beyond
            if what != _LINE:
                while at < size:
                    if 0x30 <= data[at] <= 0x39:
                        at += 1
                    elif data[at] == 0xEF and at + 2 < size and data[at + 1] == 0xBC and 0x90 <= data[at + 2] <= 0x99:
                        at, beyond = at + 3, beyond + 2
                    else:
                        break
            digits = at - beyond - first
            if start >= token_stop and tokens[data[start]]:
                left, right = start, start
                while left > token_stop and tokens[data[left - 1]]:
                    left -= 1
                while right < size and tokens[data[right]]:
                    right += 1
                token_stop = right
                if right - left >= _SHORTEST:
                    out[count] = 8 * (first - start + left) + _LONG
                    count += 1
            if what == _LINE:
                at += 1
                continue
            gap, join = start - stop, 0
            if gap == 1:
                join = _BLANK * (data[stop] == 0x20) + _HYPHEN * (data[stop] == 0x2D) + _DOT * (data[stop] == 0x2E)
            elif gap == 2:
                join = _BLANK * (data[stop] == 0xC2 and data[stop + 1] == 0xA0)
            elif gap == 3 and data[stop] == 0xE2 and data[stop + 1] == 0x80:
                join = _HYPHEN * (0x90 <= data[stop + 2] <= 0x95) + _BLANK * (
                    data[stop + 2] == 0x89 or data[stop + 2] == 0xAF
                )
            elif gap == 3 and data[stop] == 0xEF and data[stop + 1] == 0xBC:
                join = _HYPHEN * (data[stop + 2] == 0x8D) + _DOT * (data[stop + 2] == 0x8E)
            elif gap == 3:
                join = _BLANK * (data[stop] == 0xE3 and data[stop + 1] == 0x80 and data[stop + 2] == 0x80)
            stop = at
            if join:
                long1, long2, long3, long4 = long0, long1, long2, long3
                from1, from2, from3 = from0, from1, from2
                join1, join2, join3 = join, join1, join2
            else:
                long1, long2, long3, long4 = 0, 0, 0, 0
            long0, from0 = digits, first
            begins = -1
            if 11 <= digits <= 19:
                # Not the digits behind a decimal point, or before one.
                decimal = (join1 == _DOT and long1) or (
                    at + 1 < size and data[at] == 0x2E and classes[data[at + 1]] == _DIGIT
                )
                begins = -1 if decimal else from0
            elif digits == 4 and long1 == 4 and long2 == 4 and long3 == 4 and long4 != 4:
                begins = from3
            elif (
                long2
                and join1 == join2 != _DOT
                and (
                    (digits == 4 and ((long1 == 4 and (long2 == 3 or long2 == 5)) or (long1 == 2 and long2 == 3)))
                    or (4 <= digits <= 5 and long2 == 4 and long1 == 6)
                    or (3 <= digits <= 4 and long2 == 6 and long1 == 8)
                )
            ):
                begins = from2
            if begins >= 0:
                out[count] = 8 * begins + _NUMBER
                count += 1
            if long3 and join1 == join2 == join3 == _DOT and digits <= 3 and long1 <= 3 and long2 <= 3 and long3 <= 3:
                out[count] = 8 * from3 + _QUADS
                count += 1
            if start and data[start - 1] == 0x2B:
                before = int(data[start - 2]) if start > 1 else 0
                if not (classes[before] == _DIGIT or 0x41 <= before & 0xDF <= 0x5A):
                    out[count] = 8 * (first - 1) + _PLUS
                    count += 1
            elif start > 2 and data[start - 1] == 0x8B and data[start - 2] == 0xBC and data[start - 3] == 0xEF:
                out[count] = 8 * (first - 1) + _PLUS
                count += 1
            elif digits >= 2 and start >= 2 and 0x41 <= data[start - 1] <= 0x5A and 0x41 <= data[start - 2] <= 0x5A:
                before = int(data[start - 3]) if start > 2 else 0
                if not (classes[before] == _DIGIT or classes[before] == _LINE or 0x41 <= before & 0xDF <= 0x5A):
                    out[count] = 8 * (first - 2) + _ACCOUNT
                    count += 1
            continue
        at += 1
    return count
