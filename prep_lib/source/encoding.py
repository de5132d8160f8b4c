"""Bytes become text: what a page says of its encoding is believed only where it decodes and reads like writing.

    bytes ──▶ byte order mark? ──▶ valid UTF-8? ──▶ declared (HTTP, <meta>)? ──▶ which of all reads best? ──▶ text
                  bom                 detected          http, meta                   detected, default

    says UTF-8, is windows-1252      Größe           some letters are no UTF-8 at all: not believed
    says ISO-8859-1, is windows-1251 Привет          decodes, but "Ïðèâåò" is no word of any language: not believed
    says UTF-8, one byte is broken   Größ�           more of it is UTF-8 than is not: believed, replaced = 1

How text reads is told by counting: letters that occur together in one language, no capital behind a small letter, no
two scripts in one word, no symbol between letters; for Chinese, Japanese and Korean, the commonest characters.
"""

from __future__ import annotations

import codecs
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

#: Bytes of a page that are searched for a declaration; the standard asks for 1,024, pages need more.
PRESCAN = 4096

#: Bytes from which is told how a text reads.
SAMPLE = 2**12

#: From this plausibility on a declared encoding is believed without looking at others.
BELIEVED = 0.95

#: From this on ASCII that may hide Chinese, Japanese or Korean is taken for that, and damaged UTF-8 for what else it
#: may be.
LIKELY = 0.7

#: Of the plausibility of an encoding that a page names, and of the web's commonest one beside UTF-8: ties are theirs.
DECLARED_BONUS, COMMON_BONUS = 0.05, 0.02

#: Below this nothing reads like writing, and the web's commonest encoding serves.
HOPELESS = 0.3


@dataclass(frozen=True)
class Decoded:
    """Text, and how it was read.

    Parameters
    ----------
    text : str
        Without byte order mark.
    encoding : str
        The name the WHATWG standard has for it: ``windows-1252``, ``gb18030``, ``shift_jis``.
    by : str
        ``bom``, ``http``, ``meta``, ``detected`` or ``default``: what the choice rests on.
    replaced : int
        Places that are no character of this encoding; each is a U+FFFD in the text.
    """

    text: str
    encoding: str
    by: str
    replaced: int = 0


def decode(data: bytes, *, http: str | None = None, html: bool = False) -> Decoded:
    """Decode bytes of an unknown or doubtful encoding.

    Parameters
    ----------
    data : bytes
    http : str or None
        The charset of a Content-Type header.
    html : bool
        True: a declaration in the first `PRESCAN` bytes (``<meta charset>``, ``http-equiv``, XML) counts.

    Notes
    -----
    Valid UTF-8 beyond ASCII is UTF-8 whatever is declared: text in another encoding is that by accident only if it is
    a word or two. With bad bytes in it, it still is, as long as there are no more of them than valid characters and
    no other encoding makes better writing of it; one more where UTF-8 is declared.

    Source
    ------
    Names and prescan follow the WHATWG standards of Encoding and HTML; what is believed differs, as drawn above.

    Examples
    --------
    >>> decode(b'<meta charset="utf-8"><p>' + "Größe über alles".encode("cp1252"), html=True).text[-16:]
    'Größe über alles'
    >>> decode("Grüße".encode(), http="iso-8859-1")
    Decoded(text='Grüße', encoding='utf-8', by='detected', replaced=0)
    """
    declared = list(_declared(data, http, html))
    return _marked(data) or _seven_bit(data, declared) or _wide(data) or _utf8(data, declared) or _read(data, declared)


# What is declared

#: The standard's name of an encoding: the codecs that read it, the best first; then other labels for it.
ENCODINGS: dict[str, tuple[tuple[str, ...], str]] = {
    "utf-8": (("utf-8",), "utf8 unicode-1-1-utf-8 unicode11utf8 x-unicode20utf8 utf-8-sig utf8mb4 utf"),
    "utf-16le": (("utf-16-le",), "utf-16 ucs-2 unicode unicodefeff iso-10646-ucs-2 csunicode"),
    "utf-16be": (("utf-16-be",), "unicodefffe"),
    "windows-1252": (
        ("cp1252",),
        "iso-8859-1 iso8859-1 iso88591 iso_8859-1 latin1 latin-1 l1 ascii us-ascii ansi_x3.4-1968 cp1252 cp819 ibm819 "
        "x-cp1252 iso-ir-100 csisolatin1 iso_8859-1:1987 iso8859_1 ansi",
    ),
    "windows-1250": (("cp1250",), "cp1250 x-cp1250 win-1250"),
    "windows-1251": (("cp1251",), "cp1251 x-cp1251 win-1251"),
    "windows-1253": (("cp1253",), "cp1253 x-cp1253"),
    "windows-1254": (
        ("cp1254",),
        "cp1254 x-cp1254 iso-8859-9 iso8859-9 iso88599 iso_8859-9 latin5 l5 csisolatin5 iso-ir-148",
    ),
    "windows-1255": (("cp1255",), "cp1255 x-cp1255"),
    "windows-1256": (("cp1256",), "cp1256 x-cp1256"),
    "windows-1257": (("cp1257",), "cp1257 x-cp1257"),
    "windows-1258": (("cp1258",), "cp1258 x-cp1258"),
    "windows-874": (("cp874",), "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 tis620 cp874"),
    "iso-8859-2": (("iso8859-2",), "iso8859-2 iso88592 iso_8859-2 latin2 l2 csisolatin2 iso-ir-101"),
    "iso-8859-3": (("iso8859-3",), "iso8859-3 iso88593 latin3 l3"),
    "iso-8859-4": (("iso8859-4",), "iso8859-4 iso88594 latin4 l4"),
    "iso-8859-5": (("iso8859-5",), "iso8859-5 iso88595 cyrillic csisolatincyrillic"),
    "iso-8859-6": (("iso8859-6",), "iso8859-6 iso88596 arabic asmo-708 ecma-114 iso-8859-6-e iso-8859-6-i"),
    "iso-8859-7": (("iso8859-7",), "iso8859-7 iso88597 greek greek8 ecma-118 elot_928 sun_eu_greek"),
    "iso-8859-8": (("iso8859-8",), "iso8859-8 iso88598 hebrew visual iso-8859-8-e iso-8859-8-i logical"),
    "iso-8859-10": (("iso8859-10",), "iso8859-10 iso885910 latin6 l6"),
    "iso-8859-13": (("iso8859-13",), "iso8859-13 iso885913"),
    "iso-8859-14": (("iso8859-14",), "iso8859-14 iso885914"),
    "iso-8859-15": (("iso8859-15",), "iso8859-15 iso885915 iso_8859-15 latin9 latin-9 l9"),
    "iso-8859-16": (("iso8859-16",), "iso8859-16"),
    "koi8-r": (("koi8-r",), "koi koi8 koi8_r cskoi8r"),
    "koi8-u": (("koi8-u",), "koi8-ru"),
    "ibm866": (("cp866",), "866 cp866 csibm866"),
    "macintosh": (("mac-roman",), "mac x-mac-roman csmacintosh"),
    "x-mac-cyrillic": (("mac-cyrillic",), "x-mac-ukrainian"),
    "gb18030": (("gb18030",), "gbk gb2312 gb_2312-80 gb_2312 chinese csgb2312 x-gbk iso-ir-58 cp936 gb-2312 euc-cn"),
    "big5": (("big5hkscs", "cp950"), "big5-hkscs cn-big5 csbig5 x-x-big5 big-5 cp950"),
    "euc-jp": (("euc-jp", "euc-jisx0213"), "x-euc-jp cseucpkdfmtjapanese eucjp euc_jp"),
    "shift_jis": (("cp932",), "shift-jis sjis x-sjis ms_kanji ms932 windows-31j csshiftjis cp932 shiftjis"),
    "iso-2022-jp": (("iso2022-jp", "iso2022-jp-ext"), "csiso2022jp iso2022-jp jis"),
    "euc-kr": (("cp949",), "korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 cseuckr windows-949 cp949 euckr uhc"),
    "iso-2022-kr": (("iso2022-kr",), "csiso2022kr"),
    "hz-gb-2312": (("hz",), "hz"),
}

_LABELS = {label: name for name, (_, labels) in ENCODINGS.items() for label in (name, *labels.split())}

_HIDDEN = re.compile(rb"<!--.*?-->|<script\b.*?</script", re.DOTALL | re.IGNORECASE)
_META = re.compile(
    rb"""<\?xml\s[^>]*?encoding\s*=\s*["']([\w.:-]+)|<meta\s[^>]*?\bcharset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE
)


def named(label: str) -> str | None:
    """Return the standard's name for a label, or None if nobody knows it.

    Examples
    --------
    >>> named(" GB2312"), named("Latin1"), named("x-user-defined")
    ('gb18030', 'windows-1252', None)
    """
    return _LABELS.get(label.strip(" \t\r\n\f\"'").lower())


def _declared(data: bytes, http: str | None, html: bool) -> Iterator[tuple[str, str]]:
    if http and (name := named(http)):
        yield name, "http"
    if html:
        for found in _META.finditer(_HIDDEN.sub(b"", data[:PRESCAN])):
            if name := named((found[1] or found[2]).decode("ascii")):
                # Whoever could read the declaration byte by byte has no UTF-16 before him.
                yield "utf-8" if name.startswith("utf-16") else name, "meta"


# What decides alone


def _marked(data: bytes) -> Decoded | None:
    """Decode by a byte order mark; None if there is none, or what follows does not bear it out."""
    for mark, name, codec in _MARKS:
        if data.startswith(mark):
            text, replaced = _replaced(data[len(mark) :], codec)
            return Decoded(text, name, "bom", replaced) if replaced * 20 <= len(text) + 20 else None
    return None


_MARKS = (
    (codecs.BOM_UTF8, "utf-8", "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32le", "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32be", "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16le", "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16be", "utf-16-be"),
)


def _seven_bit(data: bytes, declared: list[tuple[str, str]]) -> Decoded | None:
    """Decode ASCII, and the encodings that hide other characters in it."""
    if not data.isascii() or b"\0" in data:
        return None
    for name, sign in _ESCAPED.items():
        if sign.search(data) and (found := _strictly(data, name)) and plausibility(found[0]) >= LIKELY:
            return Decoded(found[0], name, dict(declared).get(name, "detected"), found[1])
    name, by = next(((name, by) for name, by in declared if name not in _ESCAPED), ("utf-8", "default"))
    return Decoded(data.decode("ascii"), "utf-8" if name.startswith("utf-16") else name, by)


#: Encodings of seven bits, and how other characters begin in them.
_ESCAPED = {
    "iso-2022-jp": re.compile(rb"\x1b(?:\$[@B]|\([IJ])"),
    "iso-2022-kr": re.compile(rb"\x1b\$\)C"),
    "hz-gb-2312": re.compile(rb"~\{(?:[!-}][!-~]){2,}"),
}


def _utf8(data: bytes, declared: list[tuple[str, str]]) -> Decoded | None:
    """Decode UTF-8, if need be with what is broken in it."""
    said = dict(reversed(declared)).get("utf-8")
    try:
        text, replaced = data.decode("utf-8"), 0
    except UnicodeDecodeError:
        text, replaced = _replaced(data, "utf-8")
        if not _is_damaged_utf8(data, text, replaced, bool(said)):
            return None
    return Decoded(text, "utf-8", said or "detected", replaced)


def _is_damaged_utf8(data: bytes, text: str, replaced: int, said: bool) -> bool:
    """Tell UTF-8 with bad bytes in it from another encoding, some bytes of which are valid UTF-8 by chance.

    In windows-1252 they hardly ever are; where a character has two bytes, one in five may be.
    """
    valid = sum(map(len, _NOT_ASCII.findall(text))) - replaced
    if replaced * 4 <= valid:
        return True
    # One bad byte spoils the others of its character; but in another encoding are more than two such places.
    spoilt = len(_SPOILT.findall(text))
    if (spoilt if spoilt <= 2 else replaced) > valid + said:
        return False
    sample = _sample(data)
    # Not every script's letters are known to `plausibility`: the share of valid characters speaks for those.
    own = max(plausibility(sample.decode("utf-8", "ignore")), valid / (valid + replaced), LIKELY) if valid else HOPELESS
    # One byte beyond ASCII is hardly a character of two.
    tried = _TRIED if len(_HIGH.findall(sample)) > 1 else _ONE_BYTE
    return max(_reads(sample, name) for name in tried) <= own


_SPOILT = re.compile("\ufffd{1,5}")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def _wide(data: bytes) -> Decoded | None:
    """Decode UTF-16 without a mark: a byte of each pair is zero in Latin letters, spaces and line feeds."""
    head = data[:SAMPLE]
    even, odd = head[::2].count(0), head[1::2].count(0)
    few, many, name = (even, odd, "utf-16le") if even < odd else (odd, even, "utf-16be")
    if not many or many * 40 < len(head) or few * 10 > many or not (found := _strictly(data, name)):
        return None
    return Decoded(found[0], name, "detected", found[1])


# What is weighed


def _read(data: bytes, declared: list[tuple[str, str]]) -> Decoded:
    """Decode by the first declared encoding that reads like writing, or else by the one that reads best of all."""
    sample, said = _sample(data), dict(reversed(declared))
    scores: dict[str, float] = {}
    for name, by in declared:
        if found := _strictly(data, name):
            scores[name] = _reads(sample, name)
            if scores[name] >= BELIEVED:
                return Decoded(found[0], name, by, found[1])
            # A few letters prove little against what is said.
            scores[name] += DECLARED_BONUS + 0.3 / len(_HIGH.findall(sample))
    for name in _TRIED:
        scores.setdefault(name, _reads(sample, name) + (COMMON_BONUS if name == "windows-1252" else 0.0))
    best = max(scores, key=scores.__getitem__)
    by = said.get(best, "detected")
    if scores[best] < HOPELESS:
        best, by = "windows-1252", "default"
    text, replaced = _strictly(data, best) or _replaced(data, ENCODINGS[best][0][0])
    return Decoded(text, best, by, replaced)


def _sample(data: bytes) -> bytes:
    """Return pieces between tags and line feeds that hold more than ASCII, up to `SAMPLE` bytes.

    The bytes of these are no part of another character in any encoding that is weighed.
    """
    pieces, at, left = [], 0, SAMPLE
    while left > 0 and (first := _HIGH.search(data, at)):
        start = max(at, *(data.rfind(edge, at, first.start()) + 1 for edge in (b"<", b">", b"\n")))
        end = _EDGE.search(data, first.start())
        at = end.start() if end else len(data)
        pieces.append(data[start : min(at, start + left)])
        left -= len(pieces[-1])
    return b"\n".join(pieces)


_HIGH, _EDGE = re.compile(rb"[\x80-\xff]"), re.compile(rb"[<>\n]")


def _reads(sample: bytes, name: str) -> float:
    return plausibility(sample.decode(ENCODINGS[name][0][0], "replace"))


def _strictly(data: bytes, name: str) -> tuple[str, int] | None:
    """Return (text, 0 or 1) if all bytes are characters of the encoding; only the last character may be cut."""
    for codec in ENCODINGS[name][0]:
        decoder = codecs.getincrementaldecoder(codec)()
        try:
            text = decoder.decode(data)
        except UnicodeDecodeError:
            continue
        cut = bool(decoder.getstate()[0])
        return text + "\ufffd" * cut, int(cut)
    return None


def _replaced(data: bytes, codec: str) -> tuple[str, int]:
    text = data.decode(codec, "replace")
    # A U+FFFD may also be what the bytes say.
    return text, text.count("\ufffd") - data.decode(codec, "ignore").count("\ufffd")


#: Encodings that are tried when what is declared does not fit. Where two read equally well, the earlier one serves.
_TRIED = (
    "windows-1252", "gb18030", "big5", "shift_jis", "euc-jp", "euc-kr", "windows-1251", "windows-1250", "iso-8859-2",
    "koi8-r", "koi8-u", "iso-8859-5", "ibm866", "windows-1253", "iso-8859-7", "windows-1254", "windows-1255",
    "iso-8859-8", "windows-1256", "iso-8859-6", "windows-1257", "windows-874", "windows-1258",
)  # fmt: skip

_ONE_BYTE = tuple(name for name in _TRIED if name not in ("gb18030", "big5", "shift_jis", "euc-jp", "euc-kr"))


# How text reads

#: Letters beyond ASCII that occur together in one language (German, French, Spanish, Portuguese, Italian, Catalan,
#: Dutch, Danish and Norwegian, Swedish and Finnish, Icelandic, Polish, Czech and Slovak, Hungarian, Romanian, Croatian
#: and Slovene, Turkish, Estonian, Latvian, Lithuanian, Vietnamese, Albanian, Welsh).
_ALPHABETS = tuple(
    map(
        frozenset,
        (
            "äöüß", "àâæçéèêëîïôœùûüÿ", "áéíñóúü", "áâãàçéêíóôõúü", "àèéìíîòóùú", "àçèéíïòóúü", "áéèëïóöü",
            "æøåéäöôó", "åäöéà", "áæéðíóöþúý", "ąćęłńóśźż", "áäčďéěíĺľňóôŕřšťúůýž", "áéíóöőúüű", "ăâîșțşţ",
            "čćđšž", "âçğıîöşüû\u0307", "äõöüšž", "āčēģīķļņšūž", "ąčęėįšųūž",
            "ăâđêôơưàáãèéìíòóõùúýảạẳắằẵặẩấầẫậẻẽẹểếềễệỉĩịỏọổốồỗộởớờỡợủũụửứừữựỷỹỵỳ\u0300\u0301\u0303\u0309\u0323",
            "çë", "âêîôûŵŷ",
        ),
    )
)  # fmt: skip

#: The commoner half of the letters of other alphabets: they make four fifths of a text in it, half of a garbled one.
_COMMON = {
    "CYRILLIC": frozenset("оеаинтсрвлкмдпуіяј"),
    "GREEK": frozenset("αοιετσνηρυςάίόπκ"),
    "HEBREW": frozenset("יוהלארתבמש"),
    "ARABIC": frozenset("اليمنوترعدبةحیک"),
    "THAI": frozenset("านรอกเงคมลยสวดทตะ่้ัีิ"),
    "HAN": frozenset(
        "的一是不了在人有我他这个上们来到时大地为子中你说生国年着就那和要她出也得里后自以会家可下而过天去能对小多然于心"
        "学之都好看起发当没成只如事把还用第样道想作种开权利法公民文各所及与或应其任何由本日月"
        "這個們來時為說國著會過後對學發當沒還樣種開權與應"
        "者見行前同方分間女何今私気思手言本社会日本人出生入力高校長者東京"
    ),
    "HANGUL": frozenset("이다는에의을를가고하한지로도기사은리인자어서나대시있아라그스정해수일들부여전과제으할것보"),
}

#: Signs in any language, and those of them that stand inside words. Dashes, quotes and dots part words.
_SIGNS = frozenset("‹›•·©®°™§€£¥×½¼¾²³¹¡¿№†ªºµ’‘\u00a0\u00ad")
_JOINTS = frozenset("’‘·\u00ad")

_WORDS = re.compile(r"[^\x00-@\[-`{-\x7f\u2013-\u2016\u201a-\u2026«»\u00a0\u3000-\u303f\uff00-\uff5e]+")
_PARTS = re.compile(r"[\u2013-\u2016\u201a-\u2026«»\u00a0\u3000-\u303f\uff00-\uff5e]")

#: What counts twice against an encoding: broken places, and controls that no page has had since teletypes.
_BROKEN = frozenset(map(chr, range(0x80, 0xA0))) | {"\ufffd"}

#: Scripts of letters, of which a word has one.
_LETTERS = frozenset(("LATIN", "CYRILLIC", "GREEK", "HEBREW", "ARABIC", "THAI"))


def plausibility(text: str) -> float:
    """Tell how far the characters beyond ASCII read like writing, 0 to 1; 1 where there are none.

    Examples
    --------
    >>> plausibility("Größe über alles"), plausibility("GrцЯe ьber")
    (1.0, 0.0)
    """
    signs = total = len(_PARTS.findall(text))
    letters: dict[str, Counter[str]] = {}
    for word, times in Counter(_WORDS.findall(text)).items():
        if word.isascii():
            continue
        scripts = [_SCRIPTS[char] for char in word]
        total += times * sum(1 + (char in _BROKEN) for char in word if char > "\x7f")
        if _is_garbled(word, scripts):
            continue
        for char, script in zip(word, scripts, strict=True):
            if char > "\x7f" and script:
                letters.setdefault(script, Counter())[char] += times
    signs += sum(letters.pop("SIGN", Counter()).values())
    return (signs + sum(_fit(script, seen) for script, seen in letters.items())) / total if total else 1.0


class _Scripts(dict[str, str]):
    """The script of a letter, "SIGN", or "" for what no text of people holds in numbers; looked up once a character."""

    def __missing__(self, char: str) -> str:
        word = re.split(r"[ -]", unicodedata.name(char, ""), maxsplit=1)[0]
        script = {"CJK": "HAN", "HIRAGANA": "KANA", "KATAKANA": "KANA", "COMBINING": "LATIN"}.get(word, word)
        self[char] = script if script in _LETTERS or script in ("HAN", "KANA", "HANGUL") else ""
        return self[char]


_SCRIPTS = _Scripts(dict.fromkeys(_SIGNS, "SIGN"))


#: A character or two between small letters, as Latin text has them that is read two bytes at a time.
_AMIDST = re.compile(r"[a-z][^\x00-\x7f]{1,2}[a-z]")

#: Latin letters that are typed for Cyrillic ones.
_ALIKE = frozenset("aceijopsxyABCEHIJKMOPSTXY")


def _is_garbled(word: str, scripts: list[str]) -> bool:
    """Tell a word nobody wrote: two scripts in it, a capital behind a small letter, a sign between letters."""
    found = _LETTERS.intersection(scripts)
    if "CYRILLIC" in found and _ALIKE.issuperset(char for char in word if char < "\x80"):
        found -= {"LATIN"}
    if {"HAN", "KANA", "HANGUL"}.intersection(scripts):
        return _AMIDST.search(word) is not None
    if not found:
        return False
    inside = zip(scripts[1:-1], word[1:-1], strict=True)
    return (
        len(found) > 1
        or any(script in ("", "SIGN") and char not in _JOINTS for script, char in inside)
        or any(one.islower() and other.isupper() for one, other in itertools.pairwise(word))
    )


def _fit(script: str, seen: Counter[str]) -> float:
    """Return how many of the letters fit a language that is written in the script."""
    count, small = sum(seen.values()), Counter[str]()
    for char, times in seen.items():
        small[char.lower()] += times
    if script == "LATIN":
        return max(sum(small[char] for char in alphabet) for alphabet in _ALPHABETS)
    if script == "KANA":
        return count
    common = sum(times for char, times in small.items() if char in _COMMON[script])
    if script in ("HAN", "HANGUL"):
        # Of thousands, those listed make nearly half of a text, and next to nothing of a garbled one.
        return min(count, 5 * common + 1)
    # Hebrew or small letters of one Cyrillic encoding are capitals of another; few texts are all capitals.
    shouted = sum(times for char, times in seen.items() if char.isupper()) * 2 > count
    return (count + common) / 2 - shouted * count / 5
