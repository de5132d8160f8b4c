"""Shingles: a text as the set of its runs of words or characters, each a 64-bit number.

word3   The cat sat on ──▶ the│cat│sat│on ──▶ "the cat sat" "cat sat on"        ──▶ 0x51…, 0x0c…
word3   我有 a cat      ──▶ 我│有│a│cat     ──▶ "我 有 a" "有 a cat"               a character without blanks is a word
char3   我有 a cat      ──▶ 我有acat        ──▶ 我有a 有ac aca cat                 white space is not there
word3   The cat        ──▶ the│cat        ──▶ "the cat"                         shorter than a shingle: the whole
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from prep_lib.errors import BadParameter
from prep_lib.jit import kernel
from prep_lib.record import Document
from prep_lib.text.word import script_table

#: For kernels: to mypy a number of numpy is no int.
i64: Any = np.int64
u64: Any = np.uint64

#: What a character is to `cut_shingles`.
BLANK, CASED, DIGIT, ON_TOP, UNSPACED = 1, 2, 4, 64, 128
#: Characters the table tells apart; above it there are none that matter.
POINTS = 0x323B0
#: Where a hash begins, and three odd numbers without a pattern to multiply by.
SEED, WORD, MIX, NEXT = (
    u64(0x243F6A8885A308D3),
    u64(0x9E3779B97F4A7C15),
    u64(0xD6E8FEB86659FD93),
    u64(0xA24BAED4963EE40B),
)
#: Marks a character that is hashed by itself: no eight letters look like it.
ALONE = u64(1 << 63)
_NAME = re.compile(r"(word|char)([1-9]\d{0,2})")


class Shingle(NamedTuple):
    """What a shingle is made of, "word" or "char", and of how many of them."""

    by: str
    size: int


@cache
def parse_shingle(name: str) -> Shingle:
    """Return what a name such as ``word5`` or ``char5`` means.

    Raises
    ------
    BadParameter
        If it is no such name.

    Examples
    --------
    >>> parse_shingle("word5")
    Shingle(by='word', size=5)
    """
    found = _NAME.fullmatch(name) if isinstance(name, str) else None
    if not found:
        raise BadParameter(
            "text/shingles: shingle must be word or char and a number from 1 to 999, such as 'word5' or 'char5'; "
            f"got {name!r}"
        )
    return Shingle(found[1], int(found[2]))


def units(text: str, shingle: str) -> list[str]:
    """Return the words, or the characters, that shingles are made of.

    Words: the text in lower case, cut at white space; a character of a script written without blanks is a word by
    itself, with the marks on top of it. Characters: as they are, without white space.

    Examples
    --------
    >>> units("Hello 世界 OK", "word5"), units("a b", "char5")
    (['hello', '世', '界', 'ok'], ['a', 'b'])
    """
    if parse_shingle(shingle).by == "char":
        return list("".join(text.split()))
    return [piece for chunk in text.lower().split() for piece in _pieces(chunk)]


def _pieces(chunk: str) -> Iterator[str]:
    kinds, start, alone = character_table(), 0, False
    for at, char in enumerate(chunk):
        kind = int(kinds[ord(char)]) if ord(char) < POINTS else 0
        if alone and kind & ON_TOP:
            continue
        if at > start and (alone or kind & UNSPACED):
            yield chunk[start:at]
            start = at
        alone = bool(kind & UNSPACED)
    yield chunk[start:]


def shingle_texts(text: str, shingle: str) -> list[str]:
    """Return the shingles as they read, in order: what `shingle_hashes` hashes.

    Examples
    --------
    >>> shingle_texts("the cat sat on", "word3"), shingle_texts("a cat", "char3"), shingle_texts("Hi", "word3")
    (['the cat sat', 'cat sat on'], ['aca', 'cat'], ['hi'])
    """
    by, size = parse_shingle(shingle)
    pieces, glue = units(text, shingle), " " if by == "word" else ""
    count = max(len(pieces) - size + 1, min(len(pieces), 1))
    return [glue.join(pieces[at : at + size]) for at in range(count)]


def shingle_hashes(text: str | Document, shingle: str, unique: bool = False) -> np.ndarray:
    """Return the 64-bit hashes of a text's shingles.

    Parameters
    ----------
    text : str or Document
    shingle : str
        ``word5``, ``char5`` or any other number. A text of fewer words (or characters) is one shingle, the whole; one
        of none has no shingle, and is like nothing.
    unique : bool
        True: sorted, each once. False: in order, with repeats.

    Returns
    -------
    (m,) uint64

    Notes
    -----
    Two different shingles have one hash with a chance of about 2**-64: among all pairs of two texts of 10,000 shingles
    each, once in 10**11 pairs of texts. A Jaccard similarity of two such sets is called exact here.

    Examples
    --------
    >>> shingle_hashes("The cat sat", "word2").tolist() == shingle_hashes("the  CAT\\nsat", "word2").tolist()
    True
    >>> [len(shingle_hashes(text, "word2", unique=True)) for text in ("a b a b", "a", " ")]
    [2, 1, 0]
    """
    found = read_shingles(text, shingle)[0]
    if not unique:
        return found
    found.sort()  # np.unique takes six times as long
    new = np.ones(len(found), bool)
    np.not_equal(found[1:], found[:-1], out=new[1:])
    return found[new]


def read_shingles(text: str | Document, shingle: str) -> tuple[np.ndarray, int]:
    """Return the hashes in order, and a hash of the text without its digits.

    The second is of the text as shingles see it, every run of digits being one zero: texts made from one template that
    differ only in numbers share it.

    Examples
    --------
    >>> read_shingles("Route 12 (R 12)", "word5")[1] == read_shingles("route 7 (R 105)", "word5")[1]
    True
    """
    by, size = parse_shingle(shingle)
    plain = text.text if isinstance(text, Document) else text
    data = np.frombuffer(utf8(text), np.uint8)
    room = len(plain) if by == "char" else len(data) // 2 + 1
    out = np.empty(room, np.uint64)
    count, template = cut_shingles(data, size, by == "char", ascii_table(), character_table(), out)
    if count < 0:
        # Lower case is the work of a whole text where it has letters beyond ASCII, and dear: only if there is one.
        data = np.frombuffer(utf8(plain.lower()), np.uint8)
        out = np.empty(len(data) // 2 + 1, np.uint64)
        count, template = cut_shingles(data, size, False, ascii_table(), character_table(), out)
    return out[:count], int(template)


def utf8(text: str | Document) -> bytes:
    """Return the text as UTF-8; half a surrogate pair as the three bytes it would be."""
    if isinstance(text, Document):
        try:
            return text.utf8
        except UnicodeEncodeError:
            text = text.text
    return text.encode("utf-8", "surrogatepass")


@cache
def character_table() -> np.ndarray:
    """Return what each character below `POINTS` is, (POINTS,) uint8 of bits: white space, changed by lower case, a
    digit, a word by itself, and what may sit on top of one.
    """
    out = np.zeros(POINTS, np.uint8)
    out[:65536] = script_table() & (ON_TOP | UNSPACED)
    out[0x20000:POINTS] = UNSPACED
    for point, char in enumerate(map(chr, range(0x1F000))):
        if not 0x3400 <= point < 0xA000:  # Han alone, which is none of these
            cased = point >= 128 and char.lower() != char
            out[point] |= BLANK * char.isspace() | DIGIT * char.isdecimal() | CASED * cased
    return out


@cache
def ascii_table() -> np.ndarray:
    """Return what most of a text is made of, (256,) uint8: ASCII that is no white space and no digit, in lower case.

    0 stands for everything else.
    """
    plain = [point for point in range(1, 128) if not chr(point).isspace() and not chr(point).isdigit()]
    out = np.zeros(256, np.uint8)
    out[plain] = [ord(chr(point).lower()) for point in plain]
    return out


@kernel
def cut_shingles(data: Any, size: Any, by_char: Any, plain: Any, kinds: Any, out: Any) -> tuple[Any, Any]:
    """Write the hashes of a text's shingles, and return how many there are and the hash without digits.

    Parameters
    ----------
    data : (n,) uint8
        UTF-8; by words, in lower case, but for ASCII letters.
    size : int, words or characters of a shingle
    by_char : bool
    plain : (256,) uint8
        See `ascii_table`.
    kinds : (POINTS,) uint8
        See `character_table`.
    out : (room,) uint64
        At least as long as there are words or characters.

    Returns
    -------
    count, template
        A count of -1: a letter beyond ASCII is not in lower case.
    """
    n, i, count = len(data), i64(0), i64(0)
    size_of = u64(n)
    # `bare` is the word's hash with a zero for each run of digits; it is `hashed` until there is a digit.
    hashed = bare = template = SEED
    inside = alone = number = numbered = False
    while i <= n:
        if i < n and not by_char and not alone:
            # Eight letters go in at once: a product takes as long as three shifts. Unsigned places spare a look whether
            # they are negative.
            begin = at = u64(i)
            letter = plain[data[at]]
            if numbered:
                while letter != 0:
                    hashed, bare = (hashed ^ u64(letter)) * WORD, (bare ^ u64(letter)) * WORD
                    at += u64(1)
                    letter = plain[data[at]] if at < size_of else plain[0]
            else:
                eight, room = u64(0), u64(0)
                while letter != 0:
                    eight = (eight << u64(8)) | u64(letter)
                    room += u64(1)
                    if room == u64(8):
                        hashed = (hashed ^ eight) * WORD
                        eight = room = u64(0)
                    at += u64(1)
                    letter = plain[data[at]] if at < size_of else plain[0]
                if room > u64(0):
                    hashed = (hashed ^ eight) * WORD
            if at > begin:
                inside, number, i = True, False, i64(at)
        point, width = i64(32), 1
        if i < n:
            point = i64(data[i])
            if point >= 128:
                if point < 0xE0:
                    point, width = ((point & 31) << 6) | (i64(data[i + 1]) & 63), 2
                elif point < 0xF0:
                    point = ((point & 15) << 12) | ((i64(data[i + 1]) & 63) << 6) | (i64(data[i + 2]) & 63)
                    width = 3
                else:
                    point = ((point & 7) << 18) | ((i64(data[i + 1]) & 63) << 12) | ((i64(data[i + 2]) & 63) << 6)
                    point |= i64(data[i + 3]) & 63
                    width = 4
        i += width
        kind = i64(kinds[point]) if point < POINTS else 0
        if by_char:
            if kind & BLANK:
                continue
            hashed = (SEED ^ u64(point)) * WORD
            hashed ^= hashed >> u64(32)
            out[count] = hashed * MIX
            count += 1
            if not (number and kind & DIGIT):
                template = (template ^ (u64(48) if kind & DIGIT else u64(point))) * WORD
                template ^= template >> u64(32)
            number = kind & DIGIT != 0
            continue
        if kind & CASED:
            return i64(-1), template
        # A word ends at a blank, before a character that is one, and behind it and the marks on top of it.
        if inside and (kind & BLANK or ((alone or kind & UNSPACED) and not (alone and kind & ON_TOP))):
            if not numbered:
                bare = hashed
            hashed ^= hashed >> u64(32)
            out[count] = hashed * MIX
            count += 1
            template = (template ^ bare) * WORD
            template ^= template >> u64(32)
            hashed = bare = SEED
            inside = alone = number = numbered = False
            if point < 128 and not kind & BLANK:
                i -= 1  # the letters that begin the next word are read as those of any other
                continue
        if kind & BLANK:
            continue
        inside = True
        alone |= kind & UNSPACED != 0
        if kind & DIGIT and not numbered:
            numbered, bare = True, hashed
        if numbered and not (number and kind & DIGIT):
            bare = (bare ^ (u64(48) if kind & DIGIT else u64(point))) * WORD
        number = kind & DIGIT != 0
        hashed = (hashed ^ u64(point) ^ ALONE) * WORD
    if count == 0:
        return count, template
    # A rolling sum of powers. Its length goes in: a whole short text is like no shingle of another.
    size = min(i64(size), count)
    total, power = u64(0), u64(1)
    for k in range(size):
        total = total * NEXT + out[k]
        power *= NEXT
    salt = u64(size) * WORD
    for k in range(count - size + 1):
        leaving = out[k]
        mixed = total + salt
        mixed ^= mixed >> u64(32)
        mixed *= MIX
        mixed ^= mixed >> u64(32)
        mixed *= MIX
        out[k] = mixed ^ (mixed >> u64(32))
        if k + size < count:
            total = total * NEXT - leaving * power + out[k + size]
    return count - size + 1, template
