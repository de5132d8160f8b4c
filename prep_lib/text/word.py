"""Where one word ends and the next begins: as spaCy splits English, by the marks all languages share, or by character.

english     He said: "don't" (U.S.A.)      ──▶  He│said│:│"│do│n't│"│(│U.S.A.│)
base        Er sagte: „nein“.              ──▶  Er│sagte│:│„│nein│“│.        the same rules without English contractions
character   我说 OK。                        ──▶  我│说│OK│。         Han, kana, hangul, Thai …: a word each
blank       He said: "don't"               ──▶  He│said:│"don't"

text ──cut at white space──▶ chunks ──▶ words                            the rules compiled, nearly all of a text
                                    ──links, faces──▶ `Splitter`        Python, once each, remembered
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from prep_lib.jit import kernel, part
from prep_lib.registry import Registry

#: For kernels: to mypy a number of numpy is no int.
i64: Any = np.int64
#: For kernels: an index that is not looked at whether it counts from the end.
u64: Any = np.uint64

# ── what characters are ──────────────────────────────────────────────────────────────────────────────────────────────


def _runs(text: str) -> frozenset[str]:
    """Read "21 2e 3f-41" as the characters with these numbers."""
    ends = [run.split("-") for run in text.split()]
    return frozenset(chr(point) for run in ends for point in range(int(run[0], 16), int(run[-1], 16) + 1))


#: Marks that may end a sentence, in all scripts datatrove lists (its TERMINAL_PUNCTUATION).
END_MARKS = _runs(
    "21 2e 3f 589 61d-61f 6d4 700-702 7f9 837 839 83d-83e 964-965 104a-104b 1362 1367-1368 166e 1735-1736 17d4-17d6 "
    "17d9-17da 1803 1809 1944-1945 1aa8-1aab 1b5a-1b5b 1b5e-1b5f 1b7d-1b7e 1c3b-1c3c 1c7e-1c7f 203c-203d 2047-2049 "
    "2e2e 2e3c 2e53-2e54 3002 a4ff a60e-a60f a6f3 a6f7 a876-a877 a8ce-a8cf a92f a9c8-a9c9 aa5d-aa5f aaf0-aaf1 abeb "
    "fe52 fe56-fe57 ff01 ff0e ff1f ff61 10a56-10a57 10f55-10f59 10f86-10f89 11047-11048 110be-110c1 11141-11143 "
    "111c5-111c6 111cd 111de-111df 11238-11239 1123b-1123c 112a9 1144b-1144c 115c2-115c3 115c9-115d7 11641-11642 "
    "1173c-1173e 11944 11946 11a42-11a43 11a9b-11a9c 11c41-11c42 11ef7-11ef8 11f43-11f44 16a6e-16a6f 16af5 "
    "16b37-16b38 16b44 16e98 1bc9f 1da88"
)
#: Those of them that end a sentence by spaCy's rule, when they stand alone as a word.
SENTENCE_MARKS = END_MARKS - _runs(
    "61d-61e 837 839 83d-83e 17d4-17d6 17d9-17da 1b7d-1b7e 2e53-2e54 10f55-10f59 10f86-10f89 11944 11946 11ef7-11ef8 "
    "11f43-11f44 16e98"
)
#: A word of these alone is no word for Gopher's counts (datatrove's PUNCTUATION_SET).
SYMBOLS = END_MARKS | _runs(
    "0-8 b-1f 22-2d 2f 3a-3e 40 5b-60 7b-9f ab b4 bb 2013-2014 2019 201c-201e 2026 2236 2501 25ba 3001 3008-300d "
    "3010-3011 ff05 ff08-ff09 ff0c ff11 ff1a-ff1b ff5e"
)

# Letters as spaCy 3.8 counts them: scripts without case, and the cased ones, whose case Unicode tells.
_UNCASED = (
    "591-5f4 620-64a 66e-6d5 6e5-6ff 750-77f 8a0-8bd 900-9ff b80-cff d80-dff 1100-137f 2e80-2fdf 2ff0-30ff 31c0-31ef "
    "3200-4dbf 4e00-9fff ac00-d7af f900-faff fb1d-fbb1 fbd3-fd3d fd50-fdc7 fdf0-fdfb fe30-fe4f fe70-fefc 1ee00-1eebb "
    "1f200-1f2ff 20000-2a6df 2a700-2ebef 2f800-2fa1f"
)
_CASED = (
    "41-5a 61-7a c0-d6 d8-f6 f8-1bf 1c4-2af 386 388-38a 38c 38e-3a9 3ac-3af 3b1-3c9 3cc-3ce 400-401 403-40a 40c-40d "
    "410-451 453-45a 45c-45d 490-491 496-497 4a2-4a3 4ae-4af 4ba-4bb 4d8-4d9 4e8-4e9 1d00-1d25 1d6b-1d77 1d79-1d9a "
    "1e00-1eff 2c60-2c7b 2c7e-2c7f a722-a76f a771-a787 a78b-a78e a790-a7b9 a7fa ab30-ab5a ab60-ab64 ff21-ff3a "
    "ff41-ff5a"
)
#: Other symbols (category So) up to Unicode 11, so that a newer Python splits as an older one.
_ICONS = (
    "a6 a9 ae b0 482 58d-58e 60e-60f 6de 6e9 6fd-6fe 7f6 9fa b70 bf3-bf8 bfa c7f d4f d79 f01-f03 f13 f15-f17 f1a-f1f "
    "f34 f36 f38 fbe-fc5 fc7-fcc fce-fcf fd5-fd8 109e-109f 1390-1399 1940 19de-19ff 1b61-1b6a 1b74-1b7c 2100-2101 "
    "2103-2106 2108-2109 2114 2116-2117 211e-2123 2125 2127 2129 212e 213a-213b 214a 214c-214d 214f 218a-218b "
    "2195-2199 219c-219f 21a1-21a2 21a4-21a5 21a7-21ad 21af-21cd 21d0-21d1 21d3 21d5-21f3 2300-2307 230c-231f "
    "2322-2328 232b-237b 237d-239a 23b4-23db 23e2-2426 2440-244a 249c-24e9 2500-25b6 25b8-25c0 25c2-25f7 2600-266e "
    "2670-2767 2794-27bf 2800-28ff 2b00-2b2f 2b45-2b46 2b4d-2b73 2b76-2b95 2b98-2bc8 2bca-2bfe 2ce5-2cea 2e80-2e99 "
    "2e9b-2ef3 2f00-2fd5 2ff0-2ffb 3004 3012-3013 3020 3036-3037 303e-303f 3190-3191 3196-319f 31c0-31e3 3200-321e "
    "322a-3247 3250 3260-327f 328a-32b0 32c0-32fe 3300-33ff 4dc0-4dff a490-a4c6 a828-a82b a836-a837 a839 aa77-aa79 "
    "fdfd ffe4 ffe8 ffed-ffee fffc-fffd 10137-1013f 10179-10189 1018c-1018e 10190-1019b 101a0 101d0-101fc "
    "10877-10878 10ac8 1173f 16b3c-16b3f 16b45 1bc9c 1d000-1d0f5 1d100-1d126 1d129-1d164 1d16a-1d16c 1d183-1d184 "
    "1d18c-1d1a9 1d1ae-1d1e8 1d200-1d241 1d245 1d300-1d356 1d800-1d9ff 1da37-1da3a 1da6d-1da74 1da76-1da83 "
    "1da85-1da86 1ecac 1f000-1f02b 1f030-1f093 1f0a0-1f0ae 1f0b1-1f0bf 1f0c1-1f0cf 1f0d1-1f0f5 1f110-1f16b "
    "1f170-1f1ac 1f1e6-1f202 1f210-1f23b 1f240-1f248 1f250-1f251 1f260-1f265 1f300-1f3fa 1f400-1f6d4 1f6e0-1f6ec "
    "1f6f0-1f6f9 1f700-1f773 1f780-1f7d8 1f800-1f80b 1f810-1f847 1f850-1f859 1f860-1f887 1f890-1f8ad 1f900-1f90b "
    "1f910-1f93e 1f940-1f970 1f973-1f976 1f97a 1f97c-1f9a2 1f9b0-1f9b9 1f9c0-1f9c2 1f9d0-1f9ff 1fa60-1fa6d"
)
_QUOTES = "'\"”“`‘´’‚,„»«「」『』（）〔〕【】《》〈〉〈〉⟦⟧"
_MARKS = ["…", "……", *",:;!?¿؟¡()[]{}<>_#*&。？！，、；：～·।،۔؛٪"]
_CURRENCY = ["US$", "C$", "A$", *"$£€¥฿₽﷼₴₠₡₢₣₤₥₦₧₨₩₪₫₭₮₯₰₱₲₳₵₶₷₸₹₺₻₼₾₿"]
_UNITS = (
    "km km² km³ m m² m³ dm dm² dm³ cm cm² cm³ mm mm² mm³ ha µm nm yd in ft kg g mg µg t lb oz m/s km/h kmh mph hPa Pa "
    "mbar mb MB kb KB gb GB tb TB T G M K % км км² км³ м м² м³ дм дм² дм³ см см² см³ мм мм² мм³ нм кг г мг м/с км/ч "
    "кПа Па мбар Кб КБ кб Мб МБ мб Гб ГБ гб Тб ТБ тбكم كم² كم³ م م² م³ سم سم² سم³ مم مم² مم³ كم غرام جرام جم كغ ملغ "
    "كوب اكواب"
)
_HYPHENS = ["-", "–", "—", "--", "---", "——", "~"]

#: Characters; a longer chunk (data in a link, base64) is read in pieces, so that no text costs more than linear time.
LONG = 4000

#: Scripts written without blanks between words: Thai, Lao, Burmese, Khmer, Tibetan; Han, kana, bopomofo, hangul.
_UNSPACED = (
    "e00-eff f00-fff 1000-109f 1100-11ff 1780-17ff 2e80-2fdf 3005-3007 3021-3029 3031-3035 3038-303b 3040-30ff "
    "3100-318f 31a0-31bf 31f0-31ff 3400-4dbf 4e00-9fff a960-a97f ac00-d7ff f900-faff ff66-ff9f 20000-323af"
)


def _class(runs: str) -> str:
    """Write runs of numbers as the inside of a character class."""
    parts = [run.split("-") for run in runs.split()]
    return "".join("-".join(re.escape(chr(int(end, 16))) for end in part) for part in parts)


def _case(category: str) -> str:
    return "".join(sorted(char for char in _runs(_CASED) if unicodedata.category(char) == category))


def _any(pieces: Iterable[str]) -> str:
    return "|".join(map(re.escape, pieces))


# ── the rules for the ends and the inside of a chunk ─────────────────────────────────────────────────────────────────

_A = _class(_CASED) + _class(_UNCASED)
_LOWER = _case("Ll") + "\u0294" + _class(_UNCASED)
_UPPER = _case("Lu") + "\u03a2" + _class(_UNCASED)
_Q = re.escape(_QUOTES)
_ENDS = [*_MARKS, r"\.\.+", *_QUOTES]


def _either(pieces: Iterable[str]) -> str:
    """Join alternatives: the piece with dots is a rule, the others stand for themselves."""
    return "|".join(piece if piece == r"\.\.+" else re.escape(piece) for piece in pieces)


_PREFIX = re.compile(rf"(?:[§%=—–]|\+(?![0-9])|{_either(_ENDS)}|{_any(_CURRENCY)}|[{_class(_ICONS)}])")
# Read from the left, so the longest ending wins; what stands before is looked at, never taken.
_BEFORE_STOP = rf"[0-9{_LOWER}%²\-\+|(?:){re.escape(''.join(_MARKS))}{_Q}]"
_SUFFIX = re.compile(
    rf"(?:{_either(_ENDS)}|[{_class(_ICONS)}]|'s|'S|’s|’S|—|–|(?<=[0-9])(?:\+|{_any(_CURRENCY)}|{_any(_UNITS.split())})"
    rf"|(?<=°[FfCcKk])\.|(?<={_BEFORE_STOP})\.|(?<=[{_UPPER}][{_UPPER}])\.)$"
)


def _infix(before_hyphen: str) -> re.Pattern[str]:
    # The look ahead tells of most characters at once that nothing is cut there.
    return re.compile(
        rf"(?=[.…+\-*^,–—~:<>=/{_class(_ICONS)}])(?:\.\.+|…|[{_class(_ICONS)}]|(?<=[0-9])[+\-*^](?=[0-9-])|(?<=[{_LOWER}{_Q}])\.(?=[{_UPPER}{_Q}])"
        rf"|(?<=[{_A}]),(?=[{_A}])|(?<=[{before_hyphen}])(?:{_any(_HYPHENS)})(?=[{_A}])|(?<=[{_A}0-9])[:<>=/](?=[{_A}]))"
    )


# A link, with or without its scheme, or an e-mail address; no address that only a private network knows.
_HOST = (
    r"(?:"
    r"(?!(?:10|127)(?:\.\d{1,3}){3})(?!(?:169\.254|192\.168)(?:\.\d{1,3}){2})(?!172\.(?:1[6-9]|2\d|3[01])(?:\.\d{1,3}){2})"
    r"(?:[1-9]\d?|1\d\d|2[01]\d|22[0-3])(?:\.(?:1?\d{1,2}|2[0-4]\d|25[0-5])){2}\.(?:[1-9]\d?|1\d\d|2[0-4]\d|25[0-4])"
    rf"|(?:(?:[A-Za-z0-9\u00a1-\uffff][A-Za-z0-9\u00a1-\uffff_-]{{0,62}})?[A-Za-z0-9\u00a1-\uffff]\.)+(?:[{_LOWER}]{{2,63}})"
    r")(?::\d{2,5})?(?:[/?#]\S*)?$"
)
_SCHEME = r"(?:[\w+\-.]{2,}://)?"
# The part before an @ is dear to look for, and most chunks have none.
_URL, _URL_AT = re.compile(_SCHEME + _HOST), re.compile(rf"{_SCHEME}(?:\S+(?::\S*)?@)?{_HOST}")

# ── chunks that are split as the language has it ─────────────────────────────────────────────────────────────────────

_FACES = (
    ":) :-) :)) :-)) :))) :-))) (: (-: =) (= :] :-] [: [-: [= =] :o) (o: :} :-} 8) 8-) (-8 ;) ;-) (; (-; :( :-( "
    ":(( :-(( :((( :-((( ): )-: =( >:( :') :'-) :'( :'-( :/ :-/ =/ =| :| :-| ]= =[ :1 :P :-P :p :-p :O :-O :o :-o "
    ":0 :-0 :() >:o :* :-* :3 :-3 =3 :> :-> :X :-X :x :-x :D :-D ;D ;-D =D xD XD xDD XDD 8D 8-D ^_^ ^__^ ^___^ "
    ">.< >.> <.< ._. ;_; -_- -__- v.v V.V v_v V_V o_o o_O O_o O_O 0_o o_0 0_0 o.O O.o O.O o.o 0.0 o.0 0.o @_@ <3 "
    "<33 <333 </3 (^_^) (-_-) (._.) (>_<) (*_*) (¬_¬) ಠ_ಠ ಠ︵ಠ (ಠ_ಠ) ¯\\(ツ)/¯ (╯°□°）╯︵┻━┻ ><(((*>"
)
_ABBREVIATIONS = (
    "Mt. Ak. Ala. Apr. Ariz. Ark. Aug. Calif. Colo. Conn. Dec. Del. Feb. Fla. Ga. Ia. Id. Ill. Ind. Jan. Jul. "
    "Jun. Kan. Kans. Ky. La. Mar. Mass. Mich. Minn. Miss. N.C. N.D. N.H. N.J. N.M. N.Y. Neb. Nebr. Nev. Nov. Oct. "
    "Okla. Ore. Pa. S.C. Sep. Sept. Tenn. Va. Wash. Wis. a.m. Adm. Bros. co. Co. Corp. D.C. Dr. e.g. E.g. E.G. "
    "Gen. Gov. i.e. I.e. I.E. Inc. Jr. Ltd. Md. Messrs. Mo. Mont. Mr. Mrs. Ms. p.m. Ph.D. Prof. Rep. Rev. Sen. "
    "St. vs. v.s."
)
_WHOLE = "'d 'S 's ‘S ‘s and/or w/o 're 'Cause 'cause 'cos 'Cos 'coz 'Coz 'cuz 'Cuz 'bout ma'am Ma'am o'clock O'clock"
_PIECES = (
    "y'|all y|all how|'d|'y How|'d|'y not|'ve not|ve Not|'ve Not|ve can|not Can|not gon|na Gon|na got|ta Got|ta "
    "let|'s Let|'s c'm|on C'm|on"
)
_DROPPED_G = "doin goin nothin nuthin ol somethin lovin havin"
_NOT_CONTRACTED = "Ill ill Its its Hell hell Shell shell Shed shed were Were Well well Whore whore"


def _endings(stems: str, *endings: str) -> Iterator[str]:
    """Yield stem|ending, with and without the apostrophe, for the stem in lower case and capitalised."""
    for stem in stems.split():
        for word in (stem, stem.title()):
            for ending in endings:
                yield f"{word}|{ending}"
                yield f"{word}|{ending}".replace("'", "")


def _contractions() -> Iterator[str]:
    yield from _endings("i", "'m", "'m|a")
    yield from _endings("i you he she it we they", "'ll", "'ll|'ve", "'d", "'d|'ve")
    yield from _endings("i you we they", "'ve")
    yield from _endings("you we they", "'re")
    yield from _endings("he she it", "'s")
    asked = "who what when where why how there"
    yield from _endings(f"{asked} that this these those", "'ll", "'ll|'ve", "'d", "'d|'ve")
    yield from _endings(f"{asked} that this", "'s")
    yield from _endings(f"{asked} these those", "'re", "'ve")
    yield from _endings("ca could do does did had may might must need ought sha should wo would", "n't", "n't|'ve")
    yield from _endings("could might must should would", "'ve")
    yield from _endings("ai are is was were have has dare", "n't")
    for hour in range(1, 13):
        yield from (f"{hour}|{half}" for half in ("a.m.", "am", "p.m.", "pm"))


def _base_exceptions() -> dict[str, list[str]]:
    single = [
        *["\\t", "\\n", "—", "'", "''", "C++", "<space>"],
        '\\")',
        *(f"{char}." for char in "abcdefghijklmnopqrstuvwxyzäöü"),
    ]
    whole = {chunk: [chunk] for chunk in [*single, *_FACES.split()]}
    return whole | {f"°{unit}.": ["°", unit, "."] for unit in "cfkCFK"}


def _english_exceptions() -> dict[str, list[str]]:
    rules = {"".join(pieces): pieces for rule in _contractions() for pieces in [rule.split("|")]}
    dropped_g = [end for word in _DROPPED_G.split(" ") for end in (word, word.title())]
    spoken = [*dropped_g, *(f"{word}'" for word in dropped_g), *["em", "'em", "ll", "'ll", "nuff", "'nuff"]]
    rules |= {chunk: [chunk] for chunk in [*spoken, *_WHOLE.split(), *_ABBREVIATIONS.split()]}
    rules |= {"".join(pieces): pieces for rule in _PIECES.split() for pieces in [rule.split("|")]}
    for chunk in _NOT_CONTRACTED.split(" "):
        rules.pop(chunk, None)
    rules = _base_exceptions() | rules
    return rules | {_curly(chunk): [_curly(piece) for piece in pieces] for chunk, pieces in rules.items()}


def _curly(text: str) -> str:
    return text.replace("'", "’")


# ── splitting ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Splitter:
    """Cuts a text into words, by one of the rules of `SPLITTERS`.

    Parameters
    ----------
    name : str
    exceptions : dict of str to list of str
        Chunks split as told.
    infix : pattern or None
        Where the inside of a chunk is cut. None: a chunk is one word.
    characters : bool
        Whether a character of a script without blanks is a word by itself.

    Notes
    -----
    spaCy joins words again that together spell an exception (``x:)`` is ``x``, ``:)``). It looks for them over the
    whole text and gives way where two overlap; here it is done inside a chunk, which differs only for emoticons with
    blanks in them.

    Source
    ------
    spaCy 3.8 (tokenizer, character classes, English rules), as datatrove 0.10 uses it.
    """

    def __init__(self, name: str, exceptions: dict[str, list[str]], infix: re.Pattern[str] | None, characters: bool):
        self.name, self.exceptions, self.infix, self.characters = name, exceptions, infix, characters

    def split(self, text: str) -> list[str]:
        """Return the words of `text`; blanks are in none of them."""
        return [word for chunk in text.split() for word in self.split_chunk(chunk)]

    def split_chunk(self, chunk: str) -> list[str]:
        """Return the words of a chunk without white space; one longer than `LONG` is read in pieces."""
        if len(chunk) > LONG:
            return [word for at in range(0, len(chunk), LONG) for word in self.split_chunk(chunk[at : at + LONG])]
        if self.infix is None:
            return [chunk]
        if self.characters:
            return [word for piece in _PIECE.findall(chunk) for word in self._split_piece(piece)]
        return self._split_plain(chunk)

    def _split_piece(self, piece: str) -> list[str]:
        return [piece] if _IS_UNSPACED.match(piece) else self._split_plain(piece)

    def _split_plain(self, chunk: str) -> list[str]:
        if chunk in self.exceptions:
            return self.exceptions[chunk]
        before, middle, behind = self._strip(chunk)
        words = [*before, *self._middle(middle), *reversed(behind)]
        return self._rejoin(words) if len(words) > 1 else words

    def _strip(self, rest: str) -> tuple[list[str], str, list[str]]:
        """Take marks from both ends, one from each at a time, until an exception or nothing to take is left."""
        before: list[str] = []
        behind: list[str] = []
        while rest and rest not in self.exceptions:
            start = _prefix(rest)
            if start and rest[start:] in self.exceptions:
                before.append(rest[:start])
                return before, rest[start:], behind
            stop = len(rest) - _suffix(rest[start:])
            if stop < len(rest) and rest[:stop] in self.exceptions:
                behind.append(rest[stop:])
                return before, rest[:stop], behind
            if start:
                before.append(rest[:start])
            if stop < len(rest):
                behind.append(rest[stop:])
            if not start and stop == len(rest):
                break
            rest = rest[start:stop]
        return before, rest, behind

    def _middle(self, rest: str) -> list[str]:
        if not rest:
            return []
        if rest in self.exceptions:
            return self.exceptions[rest]
        if "." in rest and (_URL_AT if "@" in rest else _URL).match(rest):
            return [rest]
        # Nothing is cut in a name of A to Z, 0 to 9 and _.
        return [rest] if rest.isascii() and rest.isidentifier() else self._cut_inside(rest)

    def _cut_inside(self, rest: str) -> list[str]:
        assert self.infix is not None
        words, at = [], 0
        for match in self.infix.finditer(rest):
            if match.start() == 0:
                continue
            if match.start() != at:
                words.append(rest[at : match.start()])
            words.append(match[0])
            at = match.end()
        return [*words, rest[at:]] if at < len(rest) else words

    def _rejoin(self, words: list[str]) -> list[str]:
        """Join neighbours that together spell an exception: the longest first, of two as long the first."""
        found = [
            (length, start)
            for start, word in enumerate(words)
            for length in self._lengths.get(word, ())
            if start + length <= len(words) and tuple(words[start : start + length]) in self._joined
        ]
        if not found:
            return words
        taken: set[int] = set()
        chosen: dict[int, int] = {}
        for length, start in sorted(found, key=lambda span: (-span[0], span[1])):
            if start not in taken and start + length - 1 not in taken:
                chosen[start] = length
            taken.update(range(start, start + length))
        return list(self._apply(words, chosen))

    def _apply(self, words: list[str], chosen: dict[int, int]) -> Iterator[str]:
        at = 0
        while at < len(words):
            length = chosen.get(at, 0)
            if length:
                yield from self.exceptions["".join(words[at : at + length])]
            else:
                yield words[at]
            at += length or 1

    @cached_property
    def _joined(self) -> frozenset[tuple[str, ...]]:
        """The exceptions as the rules alone would split them, where the rules would touch them at all."""
        assert self.infix is not None
        bare = Splitter(self.name, {}, self.infix, self.characters)
        bare.__dict__["_joined"], bare.__dict__["_lengths"] = frozenset(), {}
        odd = [c for c in self.exceptions if _PREFIX.match(c) or _SUFFIX.search(c) or self.infix.search(c)]
        return frozenset(tuple(bare._split_plain(chunk)) for chunk in odd)

    @cached_property
    def _lengths(self) -> dict[str, tuple[int, ...]]:
        out: dict[str, set[int]] = {}
        for words in self._joined:
            out.setdefault(words[0], set()).add(len(words))
        return {word: tuple(sorted(lengths)) for word, lengths in out.items()}


def _prefix(rest: str) -> int:
    """Return how many characters at the begin are a mark."""
    if rest[0] in _ALONE:
        return 1
    found = None if rest[0] in _NO_FIRST else _PREFIX.match(rest)
    return found.end() if found else 0


def _suffix(rest: str) -> int:
    """Return how many characters at the end are a mark, a unit or 's."""
    last = rest[-1:]
    if last in _ALONE:
        return 1
    # A unit stands behind a number, and 's behind an apostrophe.
    if last in _NO_LAST or (last in _LETTERS and _BEFORE_UNIT.isdisjoint(rest[-6:-1])):
        return 0
    # Only a run of dots is longer than this: looking at the whole of a long chunk for each mark would be quadratic.
    found = _SUFFIX.search(rest, max(min(len(rest) - 16, len(rest.rstrip(".")) - 1), 0))
    return found.end() - found.start() if found else 0


_LETTERS = frozenset(string.ascii_letters + string.digits)
#: Characters no mark or unit begins with or ends in, and marks that are nothing but themselves: most words need not be
#: searched.
_NO_FIRST = _LETTERS - {money[0] for money in _CURRENCY}
_NO_LAST = _LETTERS - {unit[-1] for unit in _UNITS.split(" ")} - {"s", "S"}
_ALONE = frozenset(mark for mark in (*_MARKS, *_QUOTES) if len(mark) == 1) - {"…"}
_BEFORE_UNIT = frozenset(string.digits + "'’")
_IS_UNSPACED = re.compile(rf"[{_class(_UNSPACED)}]")
# A character and the marks that sit on it (Thai vowels and tones, voiced kana marks), or a run of anything else.
_ON_TOP = "".join(c for c in _runs("e31 e34-e3a e47-e4e eb1 eb4-ebc ec8-ecd 102b-103e 17b4-17d3 3099-309a"))
_PIECE = re.compile(rf"[{_class(_UNSPACED)}][{_ON_TOP}]*|[^{_class(_UNSPACED)}]+")

SPLITTERS: Registry[Callable[[], Splitter]] = Registry("text/word", "way of splitting words")
SPLITTERS.add("english", lambda: Splitter("english", _english_exceptions(), _infix(_A + "0-9"), False))
SPLITTERS.add("base", lambda: Splitter("base", _base_exceptions(), _infix(_A), False))
SPLITTERS.add("character", lambda: Splitter("character", _base_exceptions(), _infix(_A), True))
SPLITTERS.add("blank", lambda: Splitter("blank", {}, None, False))


@cache
def splitter(name: str) -> Splitter:
    """Return the splitter of this name, made once.

    Raises
    ------
    UnknownName
        If there is none.

    Examples
    --------
    >>> splitter("english").split('He said: "I can\\'t (yet)."')
    ['He', 'said', ':', '"', 'I', 'ca', "n't", '(', 'yet', ')', '.', '"']
    >>> splitter("character").split("我说 OK。"), splitter("blank").split("He said: no.")
    (['我', '说', 'OK', '。'], ['He', 'said:', 'no.'])
    """
    return SPLITTERS[name]()


def is_symbol(word: str) -> bool:
    """Tell whether every character of the word is in `SYMBOLS`."""
    return all(char in SYMBOLS for char in word)


def is_punctuation(word: str) -> bool:
    """Tell whether every character of the word is punctuation for Unicode."""
    return all(unicodedata.category(char)[0] == "P" for char in word)


def count_sentences(text: str, split: Splitter) -> int:
    """Return how many sentences spaCy's rule makes of `text`.

    A sentence ends behind a word that is a sentence mark, together with the punctuation that follows it. White space
    other than one blank between two words is a word here: behind a full stop it begins the next sentence.
    """
    count, ended, any_word = 0, False, False
    for word in _with_blanks(text, split):
        any_word = True
        mark = word in SENTENCE_MARKS
        if ended and not mark and not is_punctuation(word):
            count, ended = count + 1, False
        elif mark:
            ended = True
    return count + any_word


def _with_blanks(text: str, split: Splitter) -> Iterator[str]:
    for index, piece in enumerate(re.split(r"(\s+)", text)):
        if index % 2 == 0:
            yield from split.split_chunk(piece) if piece else ()
        elif blank := (piece.removeprefix(" ") if index > 1 or not text[0].isspace() else piece):
            yield blank


# ── many words at once ───────────────────────────────────────────────────────────────────────────────────────────────

#: What is known of a word, as bits; the number of the stop word it is (from 1) stands above them.
PLAIN, LETTER, ENDS, MARK, STOP = 1, 2, 4, 8, 4


@lru_cache(maxsize=10_000)
def word_bits(word: str) -> int:
    """Return what `cut_words` tells of a word, but for stop words."""
    letter = any(map(str.isalpha, word))
    return (
        PLAIN * (not is_symbol(word)) | LETTER * letter | ENDS * (word in SENTENCE_MARKS) | MARK * is_punctuation(word)
    )


# What a character below U+10000 is to the rules, as bits: a mark at the begin or the end of a chunk, 0-9, a small
# letter, a capital, any letter of spaCy's; a quote, what a full stop may stand behind, an icon, what a unit ends in,
# where a chunk may be cut inside; part of `SYMBOLS`, a letter of Unicode's, a sentence mark, punctuation.
(
    _FRONT, _BACK, _DIGIT, _LOW, _CAPITAL, _ALPHA, _QUOTE, _STOPS, _ICON, _UNIT_END, _INSIDE,
    _SYMBOL, _ISALPHA, _SENTENCE, _PUNCTUATION,
) = (1 << bit for bit in range(15))  # fmt: skip


@cache
def kind_table() -> np.ndarray:
    """Return what each character below U+10000 is to the kernels, as bits."""
    out = np.zeros(65536, np.int32)
    every = "".join(map(chr, range(65536)))
    ends = {mark for mark in (*_MARKS, *_QUOTES, *"—–", *_runs(_ICONS)) if len(mark) == 1}
    for bit, chars in {
        _FRONT: ends | {*"§%="} | {money for money in _CURRENCY if len(money) == 1},
        _BACK: ends,
        _DIGIT: string.digits,
        _LOW: re.findall(f"[{_LOWER}]", every),
        _CAPITAL: re.findall(f"[{_UPPER}]", every),
        _ALPHA: re.findall(f"[{_A}]", every),
        _QUOTE: _QUOTES,
        _STOPS: re.findall(_BEFORE_STOP, every),
        _ICON: _runs(_ICONS),
        _UNIT_END: {unit[-1] for unit in _BEHIND_DIGIT},
        _INSIDE: {*".…+-*^,–—~:<>=/"} | _runs(_ICONS),
        _SYMBOL: SYMBOLS,
        _ISALPHA: filter(str.isalpha, every),
        _SENTENCE: SENTENCE_MARKS,
        _PUNCTUATION: (char for char in every if unicodedata.category(char)[0] == "P"),
    }.items():
        points = [ord(char) for char in chars if ord(char) < 65536]
        out[points] |= bit
    return out


@cache
def script_table() -> np.ndarray:
    """Return what characters below U+10000 are for a splitter by character: the bits of a word, with 128 where the
    character is one, with 64 too where it may sit on top of one.
    """
    out = np.zeros(65536, np.uint8)
    for char in _runs(_UNSPACED):
        if ord(char) < 65536:
            out[ord(char)] = 128 | word_bits(char)
    for char in _ON_TOP:
        out[ord(char)] = 128 | 64 | word_bits(char)
    return out


#: What an entry of `Seen` is, as bits: an exception, a whole chunk whose words are known, part of an exception that the
#: rules split, something that stands behind a number, a word with a number of its own or that such a part begins with.
_EXCEPTION, _CHUNK, _JOINED, _BEHIND, _WORD = 1, 2, 4, 8, 16
_BEHIND_DIGIT = ("+", *_CURRENCY, *_UNITS.split(" "))


class Tables(NamedTuple):
    """What the kernels need to know to split a chunk.

    Parameters
    ----------
    slots : (power of two,) int32
        Number of the entry whose hash falls here, or -1; the next free slot where it is taken.
    entries : (entries, 7) int64
        Hash, first byte of the text in `store`, its length in bytes, first row in `words`, what it is, bytes of the
        longest exception that may begin with it, number of the stop word it is (shifted by `STOP`).
    words : (words, 3) int32
        Bytes, characters and bits of each word; the row behind an entry's last word begins the next entry.
    store : (bytes,) uint8
    filter : (power of two,) uint8
        What the entries are whose hash falls here, as bits.
    kinds : (65536,) int32
        `kind_table`.
    longest : int
        Bytes of the longest entry that is no chunk of a text.
    marks : int
        0: chunks are words, marks at their ends and all. 1: marks are words; a hyphen between letters, too. 2: and a
        hyphen between a digit and a letter.
    """

    slots: np.ndarray
    entries: np.ndarray
    words: np.ndarray
    store: np.ndarray
    filter: np.ndarray
    kinds: np.ndarray
    longest: int
    marks: int


class Seen:
    """Chunks whose words are known, in arrays a kernel can read: exceptions, and what only Python could split.

    Parameters
    ----------
    split : Splitter
    stop_words : tuple of str
        At most 4,000.

    Attributes
    ----------
    tables : Tables
    """

    def __init__(self, split: Splitter, stop_words: tuple[str, ...]) -> None:
        self.split = split
        self.stops = {word: place << STOP for place, word in enumerate(stop_words, 1)}
        self.facts = _facts(split, self.stops)
        self.clear()

    def clear(self) -> None:
        """Forget all but the exceptions, the units and the stop words."""
        marks = 0 if self.split.infix is None else 2 if self.split.name == "english" else 1
        longest = max(map(len, self.facts), default=0)
        self.tables = Tables(
            np.full(1 << 13, -1, np.int32), np.zeros((1 << 12, 7), np.int64), np.zeros((1 << 13, 3), np.int32),
            np.zeros(1 << 17, np.uint8), np.zeros(1 << 15, np.uint8), kind_table(), longest, marks,
        )  # fmt: skip
        self.count = self.used_words = self.used_bytes = 0
        self._add({text: (chunk_hash(text), *facts) for text, facts in self.facts.items()})

    def add(self, chunks: Mapping[bytes, int]) -> None:
        """Split chunks and remember them.

        Parameters
        ----------
        chunks : mapping of bytes to int
            Chunks that are not in it yet, and their `chunk_hash`.
        """
        self._add({chunk: (hashed, _CHUNK, 0, 0) for chunk, hashed in chunks.items()})

    def _add(self, texts: Mapping[bytes, tuple[int, int, int, int]]) -> None:
        """Remember texts; of each its hash and the last three columns of its entry."""
        rows: list[tuple[int, int, int]] = []
        entries: list[tuple[int, ...]] = []
        start = self.used_bytes
        for text, (hashed, *facts) in texts.items():
            entries.append((hashed, start, len(text), self.used_words + len(rows), *facts))
            start += len(text)
            for word in self.split.split_chunk(text.decode()):
                rows.append((len(word.encode()), len(word), word_bits(word) | self.stops.get(word, 0)))
        held = _roomy(self.tables.entries, self.count + len(entries) + 1)
        words = _roomy(self.tables.words, self.used_words + len(rows))
        store = _roomy(self.tables.store, start)
        store[self.used_bytes : start] = np.frombuffer(b"".join(texts), np.uint8)
        words[self.used_words : self.used_words + len(rows)] = np.array(rows, np.int32).reshape(-1, 3)
        held[self.count : self.count + len(entries)] = np.array(entries, np.int64).reshape(-1, 7)
        self.used_bytes, self.used_words = start, self.used_words + len(rows)
        held[self.count + len(entries), 3] = self.used_words
        for hashed, _, _, _, what, *_ in entries:
            self.tables.filter[hashed & (len(self.tables.filter) - 1)] |= what
        self.tables = self.tables._replace(entries=held, words=words, store=store)
        self._place(len(entries))

    def _place(self, new: int) -> None:
        """Give slots to the last `new` entries, or to all in a wider table."""
        first, self.count = self.count, self.count + new
        if 2 * self.count > len(self.tables.slots):
            self.tables = self.tables._replace(slots=np.full(1 << (2 * self.count).bit_length() + 1, -1, np.int32))
            first = 0
        mask = len(self.tables.slots) - 1
        slots = self.tables.slots.data
        for entry, hashed in enumerate(self.tables.entries[first : self.count, 0].tolist(), first):
            slot = hashed & mask
            while slots[slot] >= 0:
                slot = (slot + 1) & mask
            slots[slot] = entry


def _facts(split: Splitter, stops: Mapping[str, int]) -> dict[bytes, tuple[int, int, int]]:
    """Return what the kernels must know of texts by heart: what it is, how far it reaches, its number."""
    bits: dict[str, int] = dict.fromkeys(split.exceptions, _EXCEPTION | _CHUNK)
    reach: dict[str, int] = {}
    for words in split._joined if split.infix else ():
        bits["".join(words)] |= _JOINED
        reach[words[0]] = max(reach.get(words[0], 0), len("".join(words).encode()))
    for text in (*reach, *stops):
        bits[text] = bits.get(text, 0) | _WORD
    for text in _BEHIND_DIGIT:
        bits[text] = bits.get(text, 0) | _BEHIND
    return {text.encode(): (bit, reach.get(text, 0), stops.get(text, 0)) for text, bit in bits.items()}


def _roomy(array: np.ndarray, size: int) -> np.ndarray:
    if size <= len(array):
        return array
    wider = np.zeros((max(2 * len(array), size), *array.shape[1:]), array.dtype)
    wider[: len(array)] = array
    return wider


_BASE = np.uint64(0x9E3779B97F4A7C15)
_POWERS = np.multiply.accumulate(np.append(np.uint64(1), np.full(1023, _BASE)))


def chunk_hash(chunk: bytes) -> int:
    """Return the hash `cut_words` looks a chunk up by; equal hashes are told apart by the bytes."""
    out = 0
    for byte in chunk:
        out = (out * int(_BASE) + byte + 1) & 0xFFFFFFFFFFFFFFFF
    return (((out ^ (out >> 29)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF) >> 33


@part
def text_hash(running: Any, start: int, stop: int) -> Any:
    """Return the hash of a piece of a text from those of the text up to each byte: numbers with the bytes as digits."""
    power, rest = np.uint64(1), stop - start
    while rest >= len(_POWERS):
        power, rest = power * _POWERS[-1], rest - len(_POWERS) + 1
    return running[u64(stop)] - running[u64(start)] * (power * _POWERS[u64(rest)])


@part
def spread(h: Any) -> int:
    """Return 31 bits of a hash that all its bits had a say in."""
    return i64(((h ^ (h >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)) >> np.uint64(33))


@part
def point_at(data: Any, i: int) -> int:
    """Return the code point that begins at byte `i`."""
    byte = i64(data[u64(i)])
    if byte < 128:
        return byte
    if byte < 0xE0:
        return ((byte & 31) << 6) | (i64(data[u64(i + 1)]) & 63)
    if byte < 0xF0:
        return ((byte & 15) << 12) | ((i64(data[u64(i + 1)]) & 63) << 6) | (i64(data[u64(i + 2)]) & 63)
    return (
        ((byte & 7) << 18)
        | ((i64(data[u64(i + 1)]) & 63) << 12)
        | ((i64(data[u64(i + 2)]) & 63) << 6)
        | (i64(data[u64(i + 3)]) & 63)
    )


@part
def width_at(data: Any, i: int) -> int:
    """Return the bytes of the character that begins at byte `i`."""
    byte = i64(data[u64(i)])
    return 1 + (byte >= 0xC0) + (byte >= 0xE0) + (byte >= 0xF0)


#: White space below 33, as bits.
_BLANKS = sum(1 << point for point in range(33) if chr(point).isspace())


@part
def blank_at(data: Any, i: int) -> int:
    """Return the bytes of the white space that begins at byte `i`, as `str.isspace` has it; 0: none does."""
    byte = i64(data[u64(i)])
    if byte < 128:
        return i64(byte <= 32 and _BLANKS >> byte & 1)
    if byte == 0xC2:
        return 2 * i64(data[u64(i + 1)] == 0xA0 or data[u64(i + 1)] == 0x85)
    if 0xE1 <= byte <= 0xE3:
        second, third = data[u64(i + 1)], data[u64(i + 2)]
        if byte == 0xE2 and second == 0x80:
            return 3 * i64(third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF)
        return 3 * i64(
            (byte == 0xE3 and second == 0x80 and third == 0x80)
            or (byte == 0xE2 and second == 0x81 and third == 0x9F)
            or (byte == 0xE1 and second == 0x9A and third == 0x80)
        )
    return 0


@part
def ends_line(data: Any, i: int) -> bool:
    """Tell whether the white space that begins at byte `i` ends a line, as `str.splitlines` has it."""
    byte = data[i]
    if byte < 128:
        return 10 <= byte <= 13 or 28 <= byte <= 30
    if byte == 0xC2:
        return data[i + 1] == 0x85
    return byte == 0xE2 and data[i + 1] == 0x80 and (data[i + 2] == 0xA8 or data[i + 2] == 0xA9)


# ── the rules of `Splitter`, compiled ────────────────────────────────────────────────────────────────────────────────


@kernel
def look_up(data: Any, start: int, stop: int, key: int, tables: Any, want: int) -> int:
    """Return the entry of a text with this hash that is one of what is wanted; -1: there is none."""
    mask = len(tables.slots) - 1
    slot = key & mask
    while tables.slots[u64(slot)] >= 0:
        entry = i64(tables.slots[u64(slot)])
        if tables.entries[entry, 0] == key and tables.entries[entry, 2] == stop - start:
            at, k = tables.entries[entry, 1], 0
            while k < stop - start and tables.store[at + k] == data[start + k]:
                k += 1
            if k == stop - start and tables.entries[entry, 4] & want:
                return entry
        slot = (slot + 1) & mask
    return -1


@part
def find_entry(data: Any, running: Any, start: int, stop: int, tables: Any, want: int) -> int:
    """Return the entry of a text that is one of what is wanted; -1: there is none, as the filter mostly tells."""
    if stop <= start:
        return -1
    key = spread(text_hash(running, start, stop))
    if not tables.filter[u64(key & (len(tables.filter) - 1))] & want:
        return -1
    return look_up(data, start, stop, key, tables, want)


@part
def find_exception(data: Any, running: Any, start: int, stop: int, tables: Any) -> int:
    """Return the entry of an exception; -1: the text is none."""
    if stop - start > tables.longest:
        return -1
    return find_entry(data, running, start, stop, tables, _EXCEPTION)


@part
def kind_at(data: Any, i: int, kinds: Any) -> int:
    """Return what the character that begins at byte `i` is, as `kind_table` has it."""
    return i64(kinds[u64(point_at(data, i) & 0xFFFF)])


@part
def back_from(data: Any, i: int) -> int:
    """Return where the character before byte `i` begins."""
    i -= 1
    while data[u64(i)] & 0xC0 == 0x80:
        i -= 1
    return i


@part
def front_size(data: Any, start: int, stop: int, kinds: Any) -> int:
    """Return the bytes of the mark at the begin of a text, 0: none."""
    byte = data[start]
    if kind_at(data, start, kinds) & _FRONT:
        return width_at(data, start)
    if byte == 43:
        return i64(start + 1 == stop or not 48 <= data[start + 1] <= 57)
    if byte == 46:
        run = 1
        while start + run < stop and data[start + run] == 46:
            run += 1
        return run if run > 1 else 0
    # US$, C$ and A$.
    if byte == 85 and stop - start > 2 and data[start + 1] == 83 and data[start + 2] == 36:
        return 3
    return 2 if (byte == 65 or byte == 67) and stop - start > 1 and data[start + 1] == 36 else 0


@part
def back_size(data: Any, running: Any, start: int, stop: int, tables: Any) -> int:
    """Return the bytes of the mark, 's, or unit behind a number at the end of a text, 0: none."""
    if stop <= start:
        return 0
    at = back_from(data, stop)
    kind, byte = kind_at(data, at, tables.kinds), data[at]
    if kind & _BACK:
        # Two … are one mark.
        two = at - start >= 3 and point_at(data, at) == 0x2026 and point_at(data, back_from(data, at)) == 0x2026
        return 6 if two else stop - at
    if byte == 46:
        return dots_size(data, start, stop, tables.kinds)
    if (byte == 83 or byte == 115) and at > start:
        mark = back_from(data, at)
        if data[mark] == 39 or point_at(data, mark) == 0x2019:
            return stop - mark
    if kind & _UNIT_END:
        # The longest unit has five characters.
        for _ in range(5):
            if at == start:
                return 0
            before = back_from(data, at)
            if 48 <= data[before] <= 57:
                return stop - at if find_entry(data, running, at, stop, tables, _BEHIND) >= 0 else 0
            at = before
    return 0


@part
def dots_size(data: Any, start: int, stop: int, kinds: Any) -> int:
    """Return how many full stops at the end of a text are a mark."""
    run = 1
    while stop - run > start and data[stop - run - 1] == 46:
        run += 1
    if run > 1:
        return run
    if stop - 1 == start:
        return 0
    one = back_from(data, stop - 1)
    kind, byte = kind_at(data, one, kinds), data[one]
    if kind & _STOPS:
        return 1
    if one == start:
        return 0
    two = back_from(data, one)
    if (byte == 67 or byte == 70 or byte == 75) and point_at(data, two) == 0xB0:
        return 1
    return i64(kind & _CAPITAL > 0 and kind_at(data, two, kinds) & _CAPITAL > 0)


@part
def inside_size(data: Any, start: int, i: int, stop: int, tables: Any) -> int:
    """Return the bytes of what is cut out of the inside of a text at byte `i`, 0: nothing."""
    kinds, point, width = tables.kinds, point_at(data, i), width_at(data, i)
    if point == 46 and i + 1 < stop and data[i + 1] == 46:
        run = 2
        while i + run < stop and data[i + run] == 46:
            run += 1
        return run
    if point == 0x2026 or kinds[point] & _ICON:
        return width
    if i == start or i + width >= stop:
        return 0
    before, after = kind_at(data, back_from(data, i), kinds), kind_at(data, i + width, kinds)
    if point == 46:
        return i64(before & (_LOW | _QUOTE) > 0 and after & (_CAPITAL | _QUOTE) > 0)
    if point == 44:
        return i64(before & _ALPHA > 0 and after & _ALPHA > 0)
    if point == 58 or 60 <= point <= 62 or point == 47:
        return i64(before & (_ALPHA | _DIGIT) > 0 and after & _ALPHA > 0)
    signs = point == 42 or point == 43 or point == 45 or point == 94
    if signs and before & _DIGIT and (after & _DIGIT or data[i + width] == 45):
        return 1
    if not before & (_ALPHA | _DIGIT if tables.marks == 2 else _ALPHA):
        return 0
    return hyphen_size(data, i, stop, kinds)


@part
def hyphen_size(data: Any, i: int, stop: int, kinds: Any) -> int:
    """Return the bytes of the hyphen at byte `i` that a letter follows: up to three -, up to two —, – or ~."""
    point, width = point_at(data, i), width_at(data, i)
    if point != 45 and point != 0x2013 and point != 0x2014 and point != 126:
        return 0
    most = 3 if point == 45 else 2 if point == 0x2014 else 1
    for count in range(1, most + 1):
        at = i + count * width
        if at >= stop:
            return 0
        if kind_at(data, at, kinds) & _ALPHA:
            return count * width
        if point_at(data, at) != point:
            return 0
    return 0


@part
def is_host_letter(data: Any, i: int, kinds: Any) -> bool:
    """Tell whether a character may begin and end a part of a host's name."""
    point = point_at(data, i)
    return point >= 0xA1 or (point < 128 and kinds[point] & (_ALPHA | _DIGIT) > 0)


@part
def host_begin(data: Any, start: int, stop: int, kinds: Any) -> int:
    """Return where the host of a link would begin, behind http:// or the like; -1: Python must look."""
    k = start
    while k < stop and (kind_at(data, k, kinds) & (_ALPHA | _DIGIT) or 43 <= data[k] <= 46 or data[k] == 95):
        if data[k] >= 128 or data[k] == 44:
            break
        k += 1
    for at in range(k, stop - 2):
        if data[at] == 58 and data[at + 1] == 47 and data[at + 2] == 47:
            if at == k and k - start > 1:
                return at + 3
            return -1 if data[k] >= 128 else start
    return start


@part
def is_link(data: Any, start: int, stop: int, kinds: Any) -> int:
    """Tell whether a text is a link: 1, it is; 0, it is not; -1, Python must look."""
    dots = ats = 0
    for k in range(start, stop):
        dots, ats = dots + (data[k] == 46), ats + (data[k] == 64)
    if dots == 0 or ats > 0:
        return -1 if dots > 0 else 0
    at = host_begin(data, start, stop, kinds)
    if at < 0:
        return -1
    begin = at
    number = at < stop and 48 <= data[at] <= 57
    dots = chars = 0
    letter = False
    while at < stop:
        byte = data[at]
        if byte == 46:
            if chars > 64 or not letter:
                return 0
            dots, begin, chars, letter = dots + 1, at + 1, 0, False
        else:
            letter = is_host_letter(data, at, kinds)
            if not letter and byte != 95 and byte != 45:
                break
            if not letter and chars == 0:
                return 0
            chars += 1
        at += width_at(data, at)
    if number and dots == 3 and begin < stop and 48 <= data[begin] <= 57:
        return -1
    if dots == 0 or not 2 <= chars <= 63:
        return 0
    k = begin
    while k < at:
        if not kind_at(data, k, kinds) & _LOW:
            return 0
        k += width_at(data, k)
    return ends_host(data, at, stop)


@part
def ends_host(data: Any, at: int, stop: int) -> int:
    """Tell whether a host may end at byte `at`: 1, before the end, a port or a path; 0, no; -1, Python must look."""
    if at < stop and data[at] == 58:
        begin = at + 1
        at = begin
        while at < stop and 48 <= data[at] <= 57:
            at += 1
        if at < stop and data[at] >= 128:
            return -1
        if not 2 <= at - begin <= 5:
            return 0
    return i64(at == stop or data[at] == 47 or data[at] == 63 or data[at] == 35)


@part
def write_word(data: Any, running: Any, start: int, stop: int, tables: Any, words: Any, w: int) -> int:
    """Write the row of a word; return the row behind it."""
    chars, first, every, at = 0, 0, 0x7FFFFFFF, start
    some = 0
    while at < stop:
        first = kind_at(data, at, tables.kinds)
        every, some = every & first, some | first
        at, chars = at + width_at(data, at), chars + 1
    bits = 0 if every & _SYMBOL else PLAIN
    bits |= LETTER if some & _ISALPHA else 0
    bits |= ENDS if chars == 1 and first & _SENTENCE else 0
    bits |= MARK if every & _PUNCTUATION else 0
    if stop - start <= tables.longest:
        entry = find_entry(data, running, start, stop, tables, _WORD)
        bits |= tables.entries[entry, 6] if entry >= 0 else 0
    words[u64(w), 0], words[u64(w), 1], words[u64(w), 2] = stop - start, chars, bits
    return w + 1


@part
def copy_words(tables: Any, entry: int, words: Any, w: int) -> int:
    """Write the words of an entry; return the row behind them."""
    for row in range(tables.entries[entry, 3], tables.entries[entry + 1, 3]):
        words[w, 0], words[w, 1], words[w, 2] = tables.words[row, 0], tables.words[row, 1], tables.words[row, 2]
        w += 1
    return w


@part
def cut_inside(data: Any, running: Any, start: int, stop: int, tables: Any, words: Any, w: int) -> int:
    """Write what is left of a chunk without the marks at its ends; -1: Python must split it."""
    some = 0
    for k in range(start, stop):
        some |= tables.kinds[data[u64(k)]] if data[u64(k)] < 128 else _INSIDE
    if not some & _INSIDE:
        return write_word(data, running, start, stop, tables, words, w)
    link = is_link(data, start, stop, tables.kinds)
    if link != 0:
        return write_word(data, running, start, stop, tables, words, w) if link > 0 else -1
    at = i = start
    while i < stop:
        size = 0
        if kind_at(data, i, tables.kinds) & _INSIDE:
            size = inside_size(data, start, i, stop, tables)
        if size > 0 and i > start:
            if at < i:
                w = write_word(data, running, at, i, tables, words, w)
            w = write_word(data, running, i, i + size, tables, words, w)
            at = i + size
        i += size if size > 0 else width_at(data, i)
    return write_word(data, running, at, stop, tables, words, w) if at < stop else w


@part
def may_join(data: Any, running: Any, start: int, words: Any, first: int, stop: int, tables: Any) -> bool:
    """Tell whether words beside each other may spell an exception."""
    for row in range(first, stop - 1):
        at = start + words[row, 0]
        reach = 0
        if words[row, 0] <= tables.longest:
            entry = find_entry(data, running, start, at, tables, _WORD)
            reach = tables.entries[entry, 5] if entry >= 0 else 0
        for behind in range(row + 1, stop):
            at += words[behind, 0]
            if at - start > reach:
                break
            if find_entry(data, running, start, at, tables, _JOINED) >= 0:
                return True
        start += words[row, 0]
    return False


@part
def split_piece(data: Any, running: Any, start: int, stop: int, tables: Any, words: Any, w: int, behind: Any) -> int:
    """Split a chunk, or a piece of one, as `Splitter` does.

    Parameters
    ----------
    data : (n,) uint8
        UTF-8 without white space.
    running : (n + 1,) uint64
        Hash of it up to each byte.
    start, stop : int
        The bytes of the piece.
    tables : Tables
    words : (room, 3) int32
        Written: bytes, characters and bits of each word.
    w : int
        Row of the first.
    behind : (stop - start,) int64
        Scratch: bytes of the marks taken off the end.

    Returns
    -------
    int
        The row behind the last word; -1: only Python can tell.
    """
    if tables.marks == 0:
        return write_word(data, running, start, stop, tables, words, w)
    first, begin, taken = w, start, 0
    found = find_exception(data, running, start, stop, tables)
    while start < stop and found < 0:
        front = front_size(data, start, stop, tables.kinds)
        back = 0
        if front > 0:
            found = find_exception(data, running, start + front, stop, tables)
        if found < 0:
            back = back_size(data, running, start + front, stop, tables)
            if back > 0:
                found = find_exception(data, running, start, stop - back, tables)
                front = front if found < 0 else 0
        if front > 0:
            w = write_word(data, running, start, start + front, tables, words, w)
        if back > 0:
            behind[taken] = back
            taken += 1
        if front + back == 0:
            break
        start, stop = start + front, stop - back
        if found < 0 and front > 0 and back > 0:
            found = find_exception(data, running, start, stop, tables)
    if found >= 0:
        w = copy_words(tables, found, words, w)
    elif start < stop:
        w = cut_inside(data, running, start, stop, tables, words, w)
    for at in range(taken - 1, -1, -1):
        if w >= 0:
            w = write_word(data, running, stop, stop + behind[at], tables, words, w)
            stop += behind[at]
    if w - first > 1 and may_join(data, running, begin, words, first, w, tables):
        return -1
    return w


#: Columns of the lines `cut_words` writes: where the text of a line without white space at its ends begins and stops,
#: in bytes and in characters; the last character of its line end; chunks; characters of the longest chunk; sentences;
#: number of its first word and where it stands in `glued`, which are told of a row behind the last line, too; opening
#: braces; whether it begins with a bullet (1) and ends in an ellipsis (2).
LEAD, TRAIL, LEAD_CHAR, TRAIL_CHAR, LINE_END, CHUNKS, LONGEST, SENTENCES, FIRST_WORD, GLUED, BRACES, SHAPE = range(12)

#: What `cut_words` tells of a text: words, lines, line feeds, pieces that are missing, whether there was no room; words
#: that are more than marks and their characters, words with a letter, words that are stop words, different stop words;
#: lines with a bullet, lines that end in an ellipsis, sentences of all lines.
(
    WORDS, LINES, FEEDS, MISSING, NO_ROOM, PLAIN_WORDS, PLAIN_CHARS, LETTERED, STOPS, DIFFERENT_STOPS,
    BULLETS, ELLIPSES, ALL_SENTENCES,
) = range(13)  # fmt: skip


@part
def line_shape(data: Any, start: int, stop: int) -> int:
    """Return 1 for a line that begins with a bullet, with 2 where it ends in an ellipsis."""
    if stop == start:
        return 0
    first = point_at(data, start)
    dots = stop - start > 2 and data[stop - 1] == 46 and data[stop - 2] == 46 and data[stop - 3] == 46
    return i64(first == 45 or first == 0x2022) + 2 * i64(dots or point_at(data, back_from(data, stop)) == 0x2026)


# What a byte of ASCII that is no white space is, as bits: a letter, something else, an opening brace.
_PLAIN_BYTES = np.array(
    [(1 if chr(b).isalpha() else 2 + 4 * (b == 123)) * (32 < b < 128) for b in range(256)], np.uint8
)


@part
def read_piece(data: Any, i: int, chars: int, scripts: Any, tables: Any, glued: Any, running: Any, g: int) -> Any:
    """Read a piece of a chunk: up to white space, `LONG` characters of it, or a character that is a word.

    Parameters
    ----------
    data : (n,) uint8
    i : int
        Its first byte.
    chars : int
        Characters of the chunk before it.
    scripts, tables : see `cut_words`
    glued : (n,) uint8
    running : (n + 1,) uint64
        Written: the piece without white space, and the hash up to each byte.
    g : int
        Where in `glued` it goes.

    Returns
    -------
    int, int, int, int, int
        The byte behind it; its characters; opening braces; 1 where it is a word by itself, 2 where only Python can
        split it, 3 where it is A to Z alone, else 0; and the bits of that word.
    """
    start, n, count, braces = i, len(data), 0, 0
    total = running[u64(g)]
    if len(scripts) > 0 and 0xE0 <= data[u64(i)] < 0xF0:
        # Most pieces of a Chinese text are one character of three bytes.
        kind = i64(scripts[u64(point_at(data, i))])
        on_top = i + 3 < n and 0xE0 <= data[i + 3] < 0xF0 and scripts[point_at(data, i + 3)] & 64 > 0
        if kind & 192 == 128 and not on_top:
            for k in range(i, i + 3):
                glued[u64(g)] = data[u64(k)]
                total = total * _BASE + np.uint64(data[u64(k)] + 1)
                g += 1
                running[u64(g)] = total
            return i + 3, 1, 0, 1, kind & 15
    # Most pieces are ASCII: the loop for any character needs longer.
    limit, kinds = min(n, i + LONG - chars % LONG), 0
    while i < limit:
        byte = data[u64(i)]
        kind = _PLAIN_BYTES[byte]
        if kind == 0:
            break
        kinds |= kind
        glued[u64(g)] = byte
        total = total * _BASE + np.uint64(byte + 1)
        i, g = i + 1, g + 1
        running[u64(g)] = total
    if kinds & 4:
        for k in range(start, i):
            braces += data[u64(k)] == 123
    count = i - start
    if i < n and (data[u64(i)] == 32 or data[u64(i)] == 10):
        return i, count, braces, 3 if kinds == 1 else 0, PLAIN | LETTER
    what, bits = 0, 0
    while i < n and blank_at(data, i) == 0 and (count == 0 or (chars + count) % LONG > 0):
        width = width_at(data, i)
        kind = 0
        if len(scripts) > 0 and width > 2:
            point = point_at(data, i)
            # Planes 2 and 3 hold Han alone, up to U+323AF.
            kind = 128 | PLAIN | LETTER if 0x20000 <= point <= 0x323AF else 0
            if width == 3:
                kind = i64(scripts[u64(point)])
        if what == 1 and not kind & 64:
            break
        if what != 1 and kind & 128:
            if count > 0:
                break
            what, bits = 1, kind & 15
        elif what == 1:
            # A mark on top of the character: letters among them make the word one with a letter.
            bits = (bits | (kind & (PLAIN | LETTER))) & ~(ENDS | (0 if kind & MARK else MARK))
        elif width == 4:
            what = 2
        braces += data[u64(i)] == 123
        for k in range(i, i + width):
            glued[u64(g)] = data[u64(k)]
            total = total * _BASE + np.uint64(data[u64(k)] + 1)
            g += 1
            running[u64(g)] = total
        i, count = i + width, count + 1
    return i, count, braces, what, bits


@kernel
def cut_words(
    data: Any, scripts: Any, tables: Any, words: Any, glued: Any, running: Any, lines: Any, feeds: Any, missing: Any,
    behind: Any, seen: Any, told: Any,
) -> None:  # fmt: skip
    """Cut a text into lines, chunks and words.

    Chunks are split by the rules of `Splitter`, compiled; the few that only it can split are told as missing.

    Parameters
    ----------
    data : (n,) uint8
        UTF-8.
    scripts : (65536,) or (0,) uint8
        `script_table`; empty: no character is a word by itself.
    tables : Tables
        Of a `Seen`.
    words : (room, 3) int32
        Written: bytes, characters and bits of each word.
    glued : (n,) uint8
        Written: the text without white space.
    running : (n + 1,) uint64
        Written: the hash of that up to each byte.
    lines : (room, 12) int64
        Written: see `LEAD`.
    feeds : (room, 3) int64
        Written: of each line feed its byte, its character, and where it would stand in `glued`.
    missing : (room, 3) int64
        Written: first and last byte and hash of pieces to be split and added first; then this is to be run again.
    behind : (4 * LONG,) int64
        Scratch.
    seen : (stop words + 1,) uint8
        Scratch.
    told : (13,) int64
        Written: see `WORDS`.
    """
    n, w, g, line, lost = len(data), 0, 0, 0, 0
    char = i = feed = 0
    running[0] = 0
    told[NO_ROOM] = 1
    while i < n:
        # One line: up to a line end, which is read with it.
        if line + 1 >= len(lines):
            return
        lead = trail = i
        lead_char = trail_char = char
        chunks = longest = sentences = braces = 0
        lines[line, FIRST_WORD], lines[line, GLUED] = w, g
        gap = 0
        ended = False
        after_line = False
        while i < n and not after_line:
            size = blank_at(data, i)
            if size > 0:
                # Two blanks, or any other white space, are a word for the sentences (1: one blank, 2: more).
                gap = 1 if gap == 0 and data[i] == 32 else 2
                after_line = data[i] != 32 and ends_line(data, i)
                if data[i] == 13 and i + 1 < n and data[i + 1] == 10:
                    size, char = 2, char + 1
                i, char = i + size, char + 1
                if data[i - 1] == 10:
                    feeds[feed, 0], feeds[feed, 1], feeds[feed, 2] = i - 1, char - 1, g
                    feed += 1
                continue
            if chunks == 0:
                lead, lead_char = i, char
            elif gap == 2 and ended:
                sentences, ended = sentences + 1, False
            gap = chunk_chars = 0
            while i < n and blank_at(data, i) == 0:
                start, begin, before = i, g, w
                i, chars, opened, what, bits = read_piece(data, i, chunk_chars, scripts, tables, glued, running, g)
                g, chunk_chars, braces = g + i - start, chunk_chars + chars, braces + opened
                if w + (i - start) + 8 >= len(words) or lost >= len(missing):
                    return
                if what == 3:
                    what = 1
                    if i - start <= tables.longest:
                        found = find_entry(glued, running, begin, g, tables, _EXCEPTION | _WORD)
                        if found >= 0:
                            bits |= tables.entries[found, 6]
                            what = 0 if tables.entries[found, 4] & _EXCEPTION else 1
                if what == 1:
                    words[u64(w), 0], words[u64(w), 1], words[u64(w), 2] = i - start, chars, bits
                    w += 1
                else:
                    w = -1
                    if what == 0:
                        w = split_piece(glued, running, begin, g, tables, words, before, behind)
                    if w < 0:
                        found = find_entry(glued, running, begin, g, tables, _CHUNK)
                        if found >= 0:
                            w = copy_words(tables, found, words, before)
                        else:
                            missing[lost, 0], missing[lost, 1] = start, i
                            missing[lost, 2] = spread(text_hash(running, begin, g))
                            lost, w = lost + 1, before
                for k in range(before, w):
                    bits = i64(words[u64(k), 2])
                    if ended and not bits & (ENDS | MARK):
                        sentences, ended = sentences + 1, False
                    elif bits & ENDS:
                        ended = True
            char += chunk_chars
            chunks += 1
            longest = max(longest, chunk_chars)
            trail, trail_char = i, char
        lines[line, LEAD], lines[line, TRAIL] = lead, trail
        lines[line, LEAD_CHAR], lines[line, TRAIL_CHAR], lines[line, LINE_END] = lead_char, trail_char, char - 1
        lines[line, CHUNKS], lines[line, LONGEST] = chunks, longest
        lines[line, SENTENCES], lines[line, BRACES] = sentences + (chunks > 0), braces
        lines[line, SHAPE] = line_shape(data, lead, trail)
        line += 1
    lines[line, FIRST_WORD], lines[line, GLUED] = w, g
    told[WORDS], told[LINES], told[FEEDS], told[MISSING], told[NO_ROOM] = w, line, feed, lost, 0
    sum_up(words, lines, seen, told)


@part
def sum_up(words: Any, lines: Any, seen: Any, told: Any) -> None:
    """Count words and lines by their kind; see `cut_words`."""
    plain = chars = lettered = stopped = different = 0
    for k in range(len(seen)):
        seen[k] = 0
    for k in range(told[WORDS]):
        bits = i64(words[k, 2])
        if bits & PLAIN:
            plain, chars = plain + 1, chars + words[k, 1]
        lettered += (bits & LETTER) >> 1
        if bits >> STOP:
            stopped += 1
            different += seen[bits >> STOP] == 0
            seen[bits >> STOP] = 1
    told[PLAIN_WORDS], told[PLAIN_CHARS], told[LETTERED] = plain, chars, lettered
    told[STOPS], told[DIFFERENT_STOPS] = stopped, different
    bullets = ellipses = sentences = 0
    for k in range(told[LINES]):
        bullets, ellipses = bullets + (lines[k, SHAPE] & 1), ellipses + (lines[k, SHAPE] >> 1)
        sentences += lines[k, SENTENCES]
    told[BULLETS], told[ELLIPSES], told[ALL_SENTENCES] = bullets, ellipses, sentences


class Cutter:
    """Cuts text after text into words with the same arrays.

    Parameters
    ----------
    split : Splitter
    stop_words : tuple of str

    Attributes
    ----------
    told : (13,) int64
        How much there is of the last text; see `WORDS`.
    words, glued, running, lines, feeds : arrays
        What `cut_words` wrote for the last text.

    Examples
    --------
    >>> cutter = Cutter(splitter("english"), ("the",))
    >>> cutter.cut("See the end. (The end.)".encode())
    >>> cutter.told[[WORDS, PLAIN_WORDS, STOPS, ALL_SENTENCES]].tolist()
    [9, 5, 1, 2]
    """

    def __init__(self, split: Splitter, stop_words: tuple[str, ...] = ()) -> None:
        self.seen = Seen(split, stop_words)
        self.scripts = script_table() if split.characters else np.zeros(0, np.uint8)
        self.told = np.zeros(13, np.int64)
        self._scratch = (np.zeros(4 * LONG, np.int64), np.zeros(len(stop_words) + 1, np.uint8))
        self._make_room(1 << 16)

    def _make_room(self, size: int) -> None:
        self.words = np.zeros((size // 2 + 64, 3), np.int32)
        self.glued, self.running = np.zeros(size, np.uint8), np.zeros(size + 1, np.uint64)
        self.lines = np.zeros((size // 8 + 64, 12), np.int64)
        self.feeds = np.zeros((len(self.lines), 3), np.int64)
        self.missing = np.zeros((size // 8 + 64, 3), np.int64)

    def cut(self, utf8: bytes) -> None:
        """Cut one text."""
        if self.seen.count > MANY:
            self.seen.clear()
        if len(utf8) > len(self.glued):
            self._make_room(len(utf8))
        data = np.frombuffer(utf8, np.uint8)
        while self._unfinished(data):
            rows = self.missing[: self.told[MISSING]].tolist()
            self.seen.add({utf8[start:stop]: hashed for start, stop, hashed in rows})

    @property
    def scratch(self) -> tuple[np.ndarray, ...]:
        """The last arguments of `cut_words`."""
        return (self.missing, *self._scratch, self.told)

    def _unfinished(self, data: np.ndarray) -> bool:
        written = (self.words, self.glued, self.running, self.lines, self.feeds)
        cut_words(data, self.scripts, self.seen.tables, *written, *self.scratch)
        if self.told[NO_ROOM]:
            self.told[MISSING] = 0
            self._make_room(2 * max(len(self.glued), 8 * len(data)))
            return True
        return bool(self.told[MISSING])


#: Chunks remembered before a new text begins afresh: about 50 MB.
MANY = 400_000
