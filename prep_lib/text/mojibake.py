"""Text that was read in a wrong encoding is read again in the right one, run by run, or left alone and counted.

    donâ€™t  NicolÃ¡s  РџСЂРёРІРµС‚       ──▶   don’t  Nicolás  Привет
      └─┬┘        └┬                            the bytes of a run are UTF-8, it looks wrong, and what it says fits in
    Track 3 – DrÃ¥ber                  ──▶   Track 3 – Dråber        what stands outside a run is never touched
    Belgiâš´                           ──▶   Belgiâš´   left: 1      a symbol inside a word fits nowhere
    Spaß…   „Größe“                    ──▶   the same                these are bytes of UTF-8, but nothing looks wrong
    “A MANHÃ”                          ──▶   “A MANHÃ” left: 1      a capital letter and a quote, or else an Ô:
                                                                     clean text is never risked

What decides is a run and one character on each side of it, a blank where the word ends: so a word is treated the same
alone and in a book. ftfy (its `badness`) says whether a run looks wrong; it is asked only about runs.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect, insort
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

#: What UTF-8 is mistaken for, and the first bytes looked for; where a first byte is a common letter or mark of the
#: encoding's own languages (Russian ``а`` to ``я``, a dash, a box), a run says nothing and is not looked for.
#: Windows-1252 stands for Latin-1 too: both agree but for C1 controls, and those keep their number.
ENCODINGS: dict[str, bytes] = {
    "mac_roman": b"\xc3\xc4\xc5\xe2\xf0",
    "cp437": b"\xc3\xe2\xf0",
    "cp1251": b"\xc2\xc3\xd0\xd1\xe2\xf0",
    "cp1252": bytes(range(0xC2, 0xF5)),
    "cp1250": b"\xc2\xc3\xc4\xc5\xe2\xf0",
}

#: Marks that stand at a word: ``WidgetPro™``, ``20°``; any other symbol at a letter is refused.
_AT_WORDS = frozenset("™©®°\ufffd")

#: Two Cyrillic letters or more in two bytes each: the second of one of them is no capital, nor what may end a word.
_SEESAW = re.compile("(?=[РС].[РС])(?:[РС].)*?[РС][ѓђљњќћџўёєјѕїіґ°±µ¶§©®¬¤¦№†‡€‰]")

#: Three times a capital and a mark: letters of another alphabet, each in two bytes.
_TEETH = re.compile("(?:[\xc2-\xde][^A-Za-z\xc0-\xff]){3}")

#: What may stand behind the first letter of a word that is broken off.
_PAUSES = frozenset("…–—‘’“”«»‹›·")

#: What stands behind a word, with nothing of the word after it.
_ENDS = frozenset("”’“‘»›«‹´™®…–—•†‡¹²³¶")

#: The same, but only behind two capital letters or in a pair of quotes: ``Ã©`` is a word, ``Â·`` a dot in a list.
_ENDS_OF_CAPITALS = frozenset("©¨·")

#: What stands between two words without a blank.
_BETWEEN = frozenset("…–—’´·•")

#: Small letters a capital in a small word may stand for; the rest of Latin is for phonetics, and chance.
_SMALL = frozenset(filter(str.islower, map(chr, range(0xDF, 0x180)))) | set("ơưșț")

#: What stands behind a sign in mathematics.
_SUMS = {"√": "±µ∂∑∏π∫∞", "≈": "±µ∂∑∏π∫∞≤≥≠£¢¥"}

#: No word of today: letters out of use, a capital or a sign where none belongs. ДӘРІС® and СІЛАС•ВІ would say them.
_ODD_CYRILLIC = re.compile("[\u0460-\u0481]|[а-џ][Ѐ-Я]|ѕ[\xa0-\xff]")

#: Scripts that are written together.
_TOGETHER = {
    "CJK": "HAN", "HIRAGANA": "HAN", "KATAKANA": "HAN", "KATAKANA-HIRAGANA": "HAN", "BOPOMOFO": "HAN",
    "HANGUL": "HAN", "IDEOGRAPHIC": "HAN", "FULLWIDTH": "HAN", "HALFWIDTH": "HAN",
}  # fmt: skip


#: Where a run that looks wrong begins and stops, and what it says; None where that does not fit.
_Run = tuple[int, int, str | None]


@dataclass(frozen=True)
class Repaired:
    """What `repair` gives back.

    Parameters
    ----------
    text : str
    runs : int
        How many runs were read again.
    left : tuple of (start, stop)
        Runs of `text`, in characters, that look wrong and were left: nobody can say what they should be.
    """

    text: str
    runs: int = 0
    left: tuple[tuple[int, int], ...] = ()


class _Table(NamedTuple):
    """How one encoding is turned back: the byte of each character, and what a run of UTF-8 looks like in it."""

    bytes: dict[int, int]
    leads: str
    tails: str
    unit: re.Pattern[str]
    run: re.Pattern[str]


@cache
def _table(encoding: str) -> _Table:
    # A byte the encoding leaves undefined keeps its number, as every browser reads it.
    shown = [bytes([byte]).decode(encoding, "ignore") or chr(byte) for byte in range(256)]
    back = {ord(character): byte for byte, character in enumerate(shown) if byte >= 0x80}
    if encoding == "cp1252":
        back |= {byte: byte for byte in range(0x80, 0xA0)}
    rest = "".join(re.escape(chr(code)) for code, byte in back.items() if byte < 0xC0)

    def group(low: int, high: int) -> str:
        leads = "".join(re.escape(shown[byte]) for byte in ENCODINGS[encoding] if low <= byte < high)
        return f"[{leads}]" if leads else "(?!)"

    # Both patterns begin with the set of all leads: `re` jumps to those, which a choice or a repeat would prevent.
    leads = group(0xC2, 0xF5)
    tails = (
        f"(?<={group(0xC2, 0xE0)})[{rest}]|(?<={group(0xE0, 0xF0)})[{rest}]{{2}}|(?<={group(0xF0, 0xF5)})[{rest}]{{3}}"
    )
    unit = f"{leads}(?:{tails})"
    return _Table(back, leads[1:-1], tails, re.compile(unit), re.compile(f"{unit}(?:{unit})*"))


@cache
def leads_and_rest() -> tuple[str, str]:
    """Return the characters a run may begin with, and those it may go on with, in any of the encodings.

    A text without one of both holds no run, whatever else it is.
    """
    tables = {encoding: _table(encoding).bytes.items() for encoding in ENCODINGS}
    leads = {chr(code) for encoding, pairs in tables.items() for code, byte in pairs if byte in ENCODINGS[encoding]}
    rest = {chr(code) for pairs in tables.values() for code, byte in pairs if byte < 0xC0}
    return "".join(sorted(leads)), "".join(sorted(rest))


@cache
def _any_unit() -> re.Pattern[str]:
    tables = [_table(encoding) for encoding in ENCODINGS]
    return re.compile(f"[{''.join(table.leads for table in tables)}](?:{'|'.join(table.tails for table in tables)})")


def may_hold_runs(text: str) -> bool:
    """Whether anything in `text` has the shape of UTF-8 in any of the encodings; most has not.

    Examples
    --------
    >>> may_hold_runs("Größe: 5 m²"), may_hold_runs("GrÃ¶ÃŸe")
    (False, True)
    """
    return _any_unit().search(text) is not None


def repair(text: str) -> Repaired:
    """Read runs of wrongly read UTF-8 again.

    Parameters
    ----------
    text : str

    Returns
    -------
    Repaired
        With the same `text` where no run was read again. Characters outside the runs are the same in any case.

    Notes
    -----
    A run is read again when it decodes as UTF-8 (as often as it was misread), looks wrong, and what it says fits in:
    letters of the script beside it, no symbol between letters, no control or unassigned character. A capital letter
    and a mark that may stand behind it (``Ã”``, ``É…``, ``Å²``) are left where no letter beside them says that they
    are one word: they may be right. A C1 control becomes the character Windows-1252 has in its place, as browsers
    read it (`\\x92` is an apostrophe), unless it is a byte of a run of another encoding that is left.

    Source: ftfy 6.3 (the rules that tell what looks wrong); the WHATWG encoding standard (C1 controls).

    Examples
    --------
    >>> repair("WidgetProâ„¢ isnâ€™t in Ã…lesund")
    Repaired(text='WidgetPro™ isn’t in Ålesund', runs=3, left=())
    >>> repair("Belgiâš´ en coâš´rdinatie")
    Repaired(text='Belgiâš´ en coâš´rdinatie', runs=0, left=((5, 8), (14, 17)))
    """
    runs, changed = 0, 1
    left: tuple[tuple[int, int], ...] = ()
    while changed:  # each round that changes something leaves fewer characters, or fewer C1 controls
        found = list(_everywhere(text))
        text, changed = _mend(text, found)
        if not changed:
            left = _joined(sorted((start, stop) for start, stop, said in found if said is None))
            text, changed = _restore(text, found)
        runs += changed
    return Repaired(text, runs, left)


def _restore(text: str, left: list[_Run]) -> tuple[str, int]:
    """C1 controls as Windows-1252; not in a run of another encoding, where that is another byte, or none."""
    if not _C1.search(text):
        return text, 0
    windows = _table("cp1252").run
    kept = _joined(sorted((start, stop) for start, stop, _ in left if not windows.fullmatch(text, start, stop)))
    parts, runs, at = [], 0, 0
    for start, stop in (*kept, (len(text), len(text))):
        part, restored = _C1.subn(lambda found: _FROM_C1[found[0]], text[at:start])
        parts += [part, text[start:stop]]
        runs, at = runs + restored, stop
    return ("".join(parts), runs) if runs else (text, 0)


def _mend(text: str, found: list[_Run]) -> tuple[str, int]:
    """Read the longest runs again; of two that overlap the shorter may be chance."""
    chosen: list[tuple[int, int, str]] = []
    for start, stop, said in sorted(found, key=lambda run: (run[0] - run[1], run[0])):
        if said is not None and all(stop <= other[0] or other[1] <= start for other in _around(chosen, start)):
            insort(chosen, (start, stop, said))
    parts, at = [], 0
    for start, stop, said in chosen:
        parts += [text[at:start], said]
        at = stop
    return ("".join([*parts, text[at:]]), len(chosen)) if chosen else (text, 0)


def _around(chosen: list[tuple[int, int, str]], start: int) -> list[tuple[int, int, str]]:
    """The two runs in order that one beginning at `start` would stand between."""
    at = bisect(chosen, (start,))
    return chosen[max(at - 1, 0) : at + 1]


def _everywhere(text: str) -> Iterator[_Run]:
    return (run for encoding in ENCODINGS for run in _judged(text, encoding))


def _judged(text: str, encoding: str) -> Iterator[_Run]:
    """Every run that looks wrong, and what it says; None where that does not fit. A whole run, or else its parts."""
    table = _table(encoding)
    for found in table.run.finditer(text):
        start, stop = found.span()
        whole = _judge(text, start, stop, encoding)
        parts = [(start, stop)] if whole else [part.span() for part in table.unit.finditer(text, start, stop)]
        for part in parts:
            judged = whole or _judge(text, *part, encoding)
            if judged:
                yield *part, judged.said


class _Judgement(NamedTuple):
    """A run that looks wrong.

    Parameters
    ----------
    said : str or None
        What it should have been; None: nobody can say.
    """

    said: str | None


def _judge(text: str, start: int, stop: int, encoding: str) -> _Judgement | None:
    """None: this is no mojibake, or only a part of it may be."""
    judge = _verdict if stop - start <= 16 else _verdict.__wrapped__
    return judge(text[start:stop], _beside(text[start - 1 : start]), _beside(text[stop : stop + 1]), encoding)


@lru_cache(1 << 14)  # in a text of one language the same few shapes come again and again
def _verdict(run: str, left: str, right: str, encoding: str) -> _Judgement | None:
    said = _decode(run, _table(encoding))
    if said is None:
        return None
    fits = _fits(said, left, right)
    if _looks_bad(left + run + right) or _is_no_word(run, said, left, right):
        return _Judgement(said if fits and not _may_be_right(run, said, left, right) else None)
    return _Judgement(None) if _may_be_broken(run, said, right, fits) else None


def _beside(character: str) -> str:
    """What stands beside a run: a blank at an end, and a C1 control as what it will be."""
    character = _FROM_C1.get(character, character)
    return " " if character.isspace() or not character else character


def _decode(run: str, table: _Table) -> str | None:
    """What a run says as UTF-8, misread once or several times; None if it says nothing."""
    try:
        said = bytes(table.bytes[ord(character)] for character in run).decode("utf-8")
    except UnicodeDecodeError:
        return None
    deeper = _table("cp1252").run.fullmatch(said) and _decode(said, _table("cp1252"))
    return deeper or said


def _looks_bad(window: str) -> bool:
    from ftfy.badness import is_bad  # 30 ms: only who meets a run pays them

    return is_bad(window)


def _is_no_word(run: str, said: str, left: str, right: str) -> bool:
    """Tell what ftfy leaves, because it asks for less than a whole run: shapes no language is written in."""
    if run[0] == "√":  # d√∏de; but n√π
        return left.islower() and right.islower()
    if run[0] == "├":  # f├╝r, ├╝ber; but ├║
        return left.islower() or right.islower()
    if len(said) > 1:  # РјРёСЂ: a small letter or a sign behind a capital, where СІРІ is a word; Õ©Õ¡Õ²
        return (_SEESAW if run[0] in "РС" else _TEETH).match(run) is not None
    if len(run) > 2:  # â€”, вЂ”, ΓÇö, ðŸ™‚: typography and emoji
        return "\u2010" <= said <= "\u2122" or said >= "\U0001f000"
    if not said.isalpha() or not "À" <= run[0] <= "Ź" or (right.isalpha() and not right.islower()):
        return False
    if left.islower():  # mÄ…ka, BrnÄ›: a capital inside a word, which the word that is said has not
        return said.islower()
    # Ã…lesund, Ãœber: no word begins so; but Ä…hm and Ä–hm are how somebody stammers
    return not left.isalpha() and right.islower() and (run[0] == "Ã" or run[1] not in _PAUSES)


def _may_be_right(run: str, said: str, left: str, right: str) -> bool:
    """Tell letters and marks as people write them: “A MANHÃ”, NESTLÉ’S, Ä–Ö, 5 Å²; the word beside decides."""
    letter, mark = run[0], _FROM_C1.get(run[-1], run[-1])
    if len(said) > 1:
        odd = left.isalpha() or _ODD_CYRILLIC.search(said) is not None  # ДӘРІС† in a word
        return (odd and run[0] in "РС" and len(said) <= 3) or _is_stammer(run, mark, said, right)
    if len(run) > 2:  # modernità¹”, touché†…; but â†’
        word = letter.islower() and (letter != "â" or left.isalpha())
        return word and (run[1] in _ENDS or run[1].islower()) and mark in _ENDS
    if not letter.isalpha():
        return _is_drawn(letter, mark, left, right)
    if mark.isalpha():  # TUDÍŽ, OPÄŤ
        return mark.isupper() and left.isupper() and not (right.islower() or (said.isupper() and said < "\u0180"))
    return _is_mark_behind(letter, mark, said, left, right)


def _is_stammer(run: str, mark: str, said: str, right: str) -> bool:
    """Capitals with pauses between them: Ö…Ö…Ö”, A–Ã–Õ–."""
    paused = all(letter.isupper() for letter in run[::2]) and all(pause in "…–—’" for pause in run[1:-1:2])
    return paused and len(run) % 2 == 0 and _is_mark_behind(run[-2], mark, said[-1], run[-3], right)


def _is_drawn(sign: str, mark: str, left: str, right: str) -> bool:
    """Mathematics and a tree of files: √µ, ≈£5, ├édition; but Espa√±a and M├ñrz."""
    if sign == "├":
        return mark.isalpha() and not left.isalpha()
    return mark in _SUMS.get(sign, "") and not (left.isalpha() and right.islower())


def _is_mark_behind(letter: str, mark: str, said: str, left: str, right: str) -> bool:
    """Whether a capital letter ends a word here and the mark stands behind it."""
    if letter.isupper() and left.islower() and (said in _SMALL or not said.isalpha()):
        return False  # BrnÄ›, mÂ²: no capital ends a small word
    if not said.isalpha() and (left.isdigit() or left in ".,;:!?%)"):  # 20Â°, so.Â», 3Ã—4
        return False
    if right.islower():  # É’s; but Ã…lesund, Ã´ter, CÃ´te: no word begins with Ã, and an acute behind it is none
        return mark in _BETWEEN and not (letter == "Ã" and (mark == "´" or (mark != "’" and not left.isupper())))
    if right.isupper():  # NESTLÉ‘S would have a small letter between capitals
        return mark in _BETWEEN or (said.islower() and said != "ß")
    return mark in _ENDS or (mark in _ENDS_OF_CAPITALS and (left.isupper() or left == mark)) or letter + mark == "Å±"


def _may_be_broken(run: str, said: str, right: str, fits: bool) -> bool:
    """Tell what is counted and left: three characters that say one symbol (Belgiâš´), one more Latin letter (Ä…hm)."""
    if len(run) > 2:
        return len(said) == 1 and unicodedata.category(said)[0] == "S"
    return fits and "\xc0" <= said <= "\u024f" and right.islower()


def _fits(said: str, left: str, right: str) -> bool:
    """Whether what a run says can stand between its neighbours."""
    kinds = {unicodedata.category(character) for character in said}
    scripts = {_script(character) for character in said if character.isalpha()}
    if kinds & {"Cc", "Cn", "Co", "Cs"} or len(scripts) > 1:
        return False
    beside = {_script(character) for character in (left, right) if character.isalpha()}
    if kinds & {"Sc", "Sk", "Sm", "So"} and beside:
        inside = left.isalpha() and right.isalpha()
        return not inside and all(character in _AT_WORDS or character > "\U0001f000" for character in said)
    if len(said) > 1:  # two characters of one script are no accident: Pythonç¼–ç¨‹
        return True
    return beside <= scripts if said.isalpha() else not kinds & {"Mn", "Mc", "Me"} or left.isalpha()


def _script(letter: str) -> str:
    """The script of a letter, as its name begins.

    Examples
    --------
    >>> _script("é"), _script("Й"), _script("中"), _script("ª")
    ('LATIN', 'CYRILLIC', 'HAN', 'LATIN')
    """
    first = unicodedata.name(letter, "").split(" ")[0]
    return "LATIN" if letter < "\u02b0" else _TOGETHER.get(first, first)


def _joined(spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Spans in order, those that overlap as one."""
    out: list[tuple[int, int]] = []
    for start, stop in spans:
        if out and start < out[-1][1]:
            out[-1] = (out[-1][0], max(stop, out[-1][1]))
        else:
            out.append((start, stop))
    return tuple(out)


#: What a C1 control was meant to be: the 27 that Windows-1252 defines.
_FROM_C1 = {
    chr(byte): bytes([byte]).decode("cp1252") for byte in range(0x80, 0xA0) if byte not in b"\x81\x8d\x8f\x90\x9d"
}
_C1 = re.compile(f"[{''.join(_FROM_C1)}]")
