"""Where one word ends and the next begins: as spaCy splits English, by the marks all languages share, or by character.

english     He said: "don't" (U.S.A.)      ──▶  He│said│:│"│do│n't│"│(│U.S.A.│)
base        Er sagte: „nein“.              ──▶  Er│sagte│:│„│nein│“│.        the same rules without English contractions
character   我说 OK。                        ──▶  我│说│OK│。         Han, kana, hangul, Thai …: a word each
blank       He said: "don't"               ──▶  He│said:│"don't"

text ──cut at white space──▶ chunks ──plain ones, or seen before──▶ words      compiled, most of a text
                                    ──the others, once each──▶ `Splitter.split_chunk`      Python, remembered
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from prep_lib.jit import kernel
from prep_lib.registry import Registry

#: For kernels: to mypy a number of numpy is no int.
i64: Any = np.int64

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


class Seen:
    """Chunks seen before and the words they are made of, in arrays a kernel can read.

    Parameters
    ----------
    split : Splitter
    stop_words : tuple of str
        At most 4,000.

    Attributes
    ----------
    slots : (power of two,) int32
        Number of the entry whose hash falls here, or -1; the next free slot where it is taken.
    entries : (entries, 4) int64
        Hash, first byte of the chunk in `store`, its length in bytes, first row in `words`.
    words : (words, 3) int32
        Bytes, characters and bits of each word; the row behind an entry's last word begins the next entry.
    """

    def __init__(self, split: Splitter, stop_words: tuple[str, ...]) -> None:
        self.split = split
        self.stops = {word: place << STOP for place, word in enumerate(stop_words, 1)}
        self.clear()

    def clear(self) -> None:
        """Forget all but the exceptions and the stop words."""
        self.slots = np.full(1 << 13, -1, np.int32)
        self.entries = np.zeros((1 << 12, 4), np.int64)
        self.words = np.zeros((1 << 13, 3), np.int32)
        self.store = np.zeros(1 << 17, np.uint8)
        self.count = self.used_words = self.used_bytes = 0
        known = dict.fromkeys(chunk.encode() for chunk in (*self.split.exceptions, *self.stops))
        self.add({chunk: chunk_hash(chunk) for chunk in known})

    def add(self, chunks: Mapping[bytes, int]) -> None:
        """Split chunks and remember them.

        Parameters
        ----------
        chunks : mapping of bytes to int
            Chunks that are not in it yet, and their `chunk_hash`.
        """
        rows: list[tuple[int, int, int]] = []
        entries: list[tuple[int, int, int, int]] = []
        start = self.used_bytes
        for chunk, hashed in chunks.items():
            entries.append((hashed, start, len(chunk), self.used_words + len(rows)))
            start += len(chunk)
            for word in self.split.split_chunk(chunk.decode()):
                rows.append((len(word.encode()), len(word), word_bits(word) | self.stops.get(word, 0)))
        self.entries = _roomy(self.entries, self.count + len(entries) + 1)
        self.words = _roomy(self.words, self.used_words + len(rows))
        self.store = _roomy(self.store, start)
        self.store[self.used_bytes : start] = np.frombuffer(b"".join(chunks), np.uint8)
        self.words[self.used_words : self.used_words + len(rows)] = np.array(rows, np.int32).reshape(-1, 3)
        self.entries[self.count : self.count + len(entries)] = np.array(entries, np.int64).reshape(-1, 4)
        self.used_bytes, self.used_words = start, self.used_words + len(rows)
        self.entries[self.count + len(entries), 3] = self.used_words
        self._place(len(entries))

    def _place(self, new: int) -> None:
        """Give slots to the last `new` entries, or to all in a wider table."""
        first, self.count = self.count, self.count + new
        if 2 * self.count > len(self.slots):
            self.slots, first = np.full(1 << (2 * self.count).bit_length() + 1, -1, np.int32), 0
        mask = len(self.slots) - 1
        slots = self.slots.data
        for entry, hashed in enumerate(self.entries[first : self.count, 0].tolist(), first):
            slot = hashed & mask
            while slots[slot] >= 0:
                slot = (slot + 1) & mask
            slots[slot] = entry


def _roomy(array: np.ndarray, size: int) -> np.ndarray:
    if size <= len(array):
        return array
    wider = np.zeros((max(2 * len(array), size), *array.shape[1:]), array.dtype)
    wider[: len(array)] = array
    return wider


def chunk_hash(chunk: bytes) -> int:
    """Return the 63-bit hash `cut_words` looks a chunk up by; equal hashes are told apart by the bytes."""
    out = 0xCBF29CE484222325
    for byte in chunk:
        out = ((out ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return (out ^ (out >> 32)) & 0x7FFFFFFFFFFFFFFF


#: Columns of the lines `cut_words` writes: where the text of a line without white space at its ends begins and stops,
#: in bytes and in characters; the last character of its line end; chunks; characters of the longest chunk; sentences;
#: number of its first word; opening braces; whether it begins with a bullet (1) and ends in an ellipsis (2).
LEAD, TRAIL, LEAD_CHAR, TRAIL_CHAR, LINE_END, CHUNKS, LONGEST, SENTENCES, FIRST_WORD, BRACES, SHAPE = range(11)


@kernel
def cut_words(
    data: Any, marks: int, letters: Any, scripts: Any, slots: Any, entries: Any, known: Any, store: Any,
    words: Any, glued: Any, lines: Any, missing: Any, stops: Any, told: Any,
) -> None:  # fmt: skip
    """Cut a text into lines, chunks and words.

    Parameters
    ----------
    data : (n,) uint8
        UTF-8.
    marks : int
        0: chunks are words, marks at their ends and all. 1: marks are words; a hyphen between letters, too. 2: and a
        hyphen between a digit and a letter.
    letters : (2048,) uint8
        `letter_table`.
    scripts : (65536,) or (0,) uint8
        `script_table`; empty: no character is a word by itself.
    slots, entries, known, store : arrays
        Of a `Seen`.
    words : (room, 3) int32
        Written: bytes, characters and bits of each word.
    glued : (n,) uint8
        Written: the text without white space.
    lines : (room, 11) int64
        Written: see `LEAD`.
    missing : (room, 3) int64
        Written: first and last byte and hash of pieces to be split and added first; then this is to be run again.
    stops : (stop words + 1,) uint8
        Scratch.
    told : (11,) int64
        Written: words, lines, missing pieces, whether there was no room; plain words, their characters, words with a
        letter, words that are stop words, how many different stop words; lines with a bullet, lines with an ellipsis.
    """
    n, w, g, line, lost, bullets, ellipses = len(data), 0, 0, 0, 0, 0, 0
    char = i = 0
    mask = len(slots) - 1
    by_character = len(scripts) > 0
    told[3] = 0
    while i < n:
        # One line: up to a line end, which is read with it.
        if line >= len(lines):
            told[3] = 1
            return
        lead = trail = i
        lead_char = trail_char = char
        chunks = longest = sentences = braces = 0
        first = w
        gap = 0
        ended = False
        after_line = False
        while i < n and not after_line:
            byte = i64(data[i])
            width, blank = 1, False
            if byte < 128:
                blank = byte == 32 or 9 <= byte <= 13 or 28 <= byte <= 31
                after_line = 10 <= byte <= 13 or 28 <= byte <= 30
                if byte == 13 and i + 1 < n and data[i + 1] == 10:
                    i, char = i + 1, char + 1
            elif byte == 0xC2:
                blank, width = data[i + 1] == 0xA0 or data[i + 1] == 0x85, 2
                after_line = data[i + 1] == 0x85
            elif byte == 0xE2 and data[i + 1] == 0x80:
                third = data[i + 2]
                blank = third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF
                after_line = third == 0xA8 or third == 0xA9
                width = 3
            elif byte == 0xE1 or byte == 0xE2 or byte == 0xE3:
                second, third, width = i64(data[i + 1]), i64(data[i + 2]), 3
                blank = (
                    (byte == 0xE3 and second == 0x80 and third == 0x80)
                    or (byte == 0xE2 and second == 0x81 and third == 0x9F)
                    or (byte == 0xE1 and second == 0x9A and third == 0x80)
                )
            if blank:
                # Two blanks, or any other white space, are a word for the sentences (1: one blank, 2: more).
                gap = 1 if gap == 0 and byte == 32 else 2
                i, char = i + width, char + 1
                continue
            if chunks == 0:
                lead, lead_char = i, char
            elif gap == 2 and ended:
                sentences, ended = sentences + 1, False
            gap = 0
            chunk_chars, inside = 0, True
            while inside:
                start, piece_chars, alone = i, 0, False
                h = np.uint64(0xCBF29CE484222325)
                bits = 0
                # Most pieces are ASCII or, by character, one character of three bytes: the loop for any character needs
                # longer.
                only_letters = True
                if i < n and data[i] < 128:
                    limit = min(n, i + LONG - chunk_chars % LONG)
                    while i < limit and 32 < data[i] < 128:
                        byte = data[i]
                        h = (h ^ np.uint64(byte)) * np.uint64(0x100000001B3)
                        only_letters &= 97 <= byte | 32 <= 122
                        braces += byte == 123
                        glued[g] = byte
                        i, g = i + 1, g + 1
                elif by_character and i < n and 0xE0 <= data[i] < 0xF0 and w + 8 < len(words):
                    second, third = i64(data[i + 1]) & 63, i64(data[i + 2]) & 63
                    kind = i64(scripts[((i64(data[i]) & 15) << 12) | (second << 6) | third])
                    on_top = 0
                    if i + 3 < n and 0xE0 <= data[i + 3] < 0xF0:
                        second, third = i64(data[i + 4]) & 63, i64(data[i + 5]) & 63
                        on_top = i64(scripts[((i64(data[i + 3]) & 15) << 12) | (second << 6) | third]) & 64
                    if kind & 192 == 128 and on_top == 0:
                        glued[g], glued[g + 1], glued[g + 2] = data[i], data[i + 1], data[i + 2]
                        bits = kind & 15
                        words[w, 0], words[w, 1], words[w, 2] = 3, 1, bits
                        i, g, w, chunk_chars = i + 3, g + 3, w + 1, chunk_chars + 1
                        if ended and not bits & (ENDS | MARK):
                            sentences, ended = sentences + 1, False
                        elif bits & ENDS:
                            ended = True
                        continue
                piece_chars = run = i - start
                chunk_chars += run
                while True:
                    if i >= n:
                        inside = False
                        break
                    byte = i64(data[i])
                    width = 1
                    if byte < 128:
                        if byte == 32 or 9 <= byte <= 13 or 28 <= byte <= 31:
                            inside = False
                            break
                    elif byte < 0xE0:
                        width = 2
                        if byte == 0xC2 and (data[i + 1] == 0xA0 or data[i + 1] == 0x85):
                            inside = False
                            break
                    elif byte < 0xF0:
                        width = 3
                        second, third = i64(data[i + 1]), i64(data[i + 2])
                        if byte <= 0xE3 and (
                            (byte == 0xE3 and second == 0x80 and third == 0x80)
                            or (
                                byte == 0xE2
                                and second == 0x80
                                and (third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF)
                            )
                            or (byte == 0xE2 and second == 0x81 and third == 0x9F)
                            or (byte == 0xE1 and second == 0x9A and third == 0x80)
                        ):
                            inside = False
                            break
                    else:
                        width = 4
                    if piece_chars > 0 and chunk_chars % LONG == 0:
                        break
                    if by_character and byte >= 0xE0:
                        if width == 3:
                            point = ((byte & 15) << 12) | ((second & 63) << 6) | (third & 63)
                            kind = i64(scripts[point])
                        else:
                            # Planes 2 and 3 hold Han alone, up to U+323AF.
                            second, third = i64(data[i + 1]), i64(data[i + 2])
                            point = ((byte & 7) << 18) | ((second & 63) << 12) | ((third & 63) << 6)
                            kind = 128 | PLAIN | LETTER if 0x20000 <= point <= 0x323AF else 0
                        if alone and not kind & 64:
                            break
                        if not alone and kind & 128:
                            if piece_chars > 0:
                                break
                            alone, bits = True, kind & 15
                        elif alone:
                            # A mark on top of the character: letters among them make the word one with a letter.
                            bits = (bits | (kind & (PLAIN | LETTER))) & ~(ENDS | (0 if kind & MARK else MARK))
                    elif alone:
                        break
                    for k in range(i, i + width):
                        h = (h ^ np.uint64(data[k])) * np.uint64(0x100000001B3)
                        glued[g] = data[k]
                        g += 1
                    braces += byte == 123
                    i += width
                    piece_chars += 1
                    chunk_chars += 1
                if w + (i - start) + 8 >= len(words):
                    told[3] = 1
                    return
                before = w
                if alone:
                    words[w, 0], words[w, 1], words[w, 2] = i - start, piece_chars, bits
                    w += 1
                elif i > start:
                    # Look the piece up; while it is not known, take a mark off its front, then marks off its end, then
                    # 's, and look up the rest: an exception may stand there. -1: look on, -2: not plain, -3: plain.
                    lo, hi, found = start, i, -1
                    only_letters &= run == piece_chars
                    front = hyphens = step = 0
                    core_end = own_end = start
                    while found == -1:
                        if step > 0:
                            h = np.uint64(0xCBF29CE484222325)
                            for k in range(lo, hi):
                                h = (h ^ np.uint64(data[k])) * np.uint64(0x100000001B3)
                        key = i64((h ^ (h >> np.uint64(32))) & np.uint64(0x7FFFFFFFFFFFFFFF))
                        if step == 0:
                            whole = key
                        slot = key & mask
                        while slots[slot] >= 0:
                            entry = i64(slots[slot])
                            if entries[entry, 0] == key and entries[entry, 2] == hi - lo:
                                at, same = entries[entry, 1], True
                                for k in range(hi - lo):
                                    if store[at + k] != data[lo + k]:
                                        same = False
                                        break
                                if same:
                                    found = entry
                                    break
                            slot = (slot + 1) & mask
                        if found >= 0:
                            break
                        if only_letters:
                            core_end = own_end = hi
                            found = -3
                            break
                        if step > 0:
                            if hi > own_end:
                                hi -= 1
                                while data[hi] & 0xC0 == 0x80:
                                    hi -= 1
                            elif hi > core_end:
                                hi = core_end
                            else:
                                found = -3
                            continue
                        # Is it plain? A mark, letters and numbers joined by hyphens, 's, at most two marks.
                        step, k = 1, start
                        byte = i64(data[k])
                        if marks > 0 and i - k > 1:
                            if byte == 34 or byte == 40 or byte == 91 or (byte == 36 and 48 <= data[k + 1] <= 57):
                                front = 1
                            elif byte == 0xE2 and data[k + 1] == 0x80 and data[k + 2] == 0x9C and i - k > 3:
                                front = 3
                        k += front
                        last = previous = piece = digits = 0
                        while True:
                            piece, last, previous = k, 0, 0
                            digits = 0
                            while k < i:
                                point = i64(data[k])
                                if point >= 128:
                                    if point >= 0xE0:
                                        break
                                    point = ((point & 31) << 6) | (i64(data[k + 1]) & 63)
                                if letters[point] == 0:
                                    break
                                previous, last = last, i64(letters[point])
                                k += 1 if point < 128 else 2
                            only_digits = k == piece
                            while k < i and 48 <= data[k] <= 57:
                                digits, last = digits + 1, 1
                                k += 1
                                if (
                                    only_digits
                                    and k + 1 < i
                                    and (data[k] == 44 or data[k] == 46)
                                    and 48 <= data[k + 1] <= 57
                                ):
                                    k += 1
                            if k == piece:
                                found = -2
                                break
                            after = kind = 0
                            if k < i:
                                at = k + 1 if data[k] == 45 else k
                                if at < i:
                                    after = i64(data[at])
                                    if 0xC2 <= after < 0xE0:
                                        after = ((after & 31) << 6) | (i64(data[at + 1]) & 63)
                                    kind = i64(letters[after]) if after < 2048 else 0
                            if k < i and data[k] == 45 and marks > 0:
                                if (kind > 0 and (digits == 0 or marks == 2)) or (digits > 0 and 48 <= after <= 57):
                                    hyphens, k = hyphens + 1, k + 1
                                    continue
                                found = -2
                            elif digits > 0 and kind > 0:
                                found = -2
                            break
                        core_end = own_end = k
                        if found == -1 and marks > 0 and k + 1 < i:
                            own = 0
                            if data[k] == 39 and (data[k + 1] == 115 or data[k + 1] == 83):
                                own = 2
                            elif k + 3 < i and data[k] == 0xE2 and data[k + 1] == 0x80 and data[k + 2] == 0x99:
                                own = 4 if data[k + 3] == 115 or data[k + 3] == 83 else 0
                            own_end = k + own
                        k = own_end
                        behind = 0
                        single = False
                        while found == -1 and k < i:
                            byte = i64(data[k])
                            if byte == 0xE2 and i - k >= 3 and data[k + 1] == 0x80 and data[k + 2] == 0x9D:
                                k += 2
                            elif (
                                byte == 58 or byte == 59 or byte == 39 or (byte == 37 and digits > 0 and k == core_end)
                            ):
                                single = True
                            elif byte == 46:
                                if data[k - 1] == 46:
                                    found = -2
                                elif k == core_end:
                                    # A full stop stays with a single capital: J. but not USA. or end.
                                    if not (last & 1 == 1 or (last & 2 == 2 and previous & 2 == 2)):
                                        if hyphens > 0:
                                            found = -2
                                        core_end, own_end, behind = core_end + 1, own_end + 1, behind - 1
                                    elif hyphens > 0 and k - piece < 8:
                                        # non-Dr. ends in an exception.
                                        found = -2
                                elif k == own_end and data[k - 1] == 83:
                                    found = -2
                            elif not (byte == 44 or byte == 33 or byte == 63 or byte == 41 or byte == 34 or byte == 93):
                                found = -2
                            k += 1
                            behind += 1
                        if (
                            behind > 2
                            or (behind == 2 and single)
                            or (behind > 0 and hyphens > 0 and core_end - piece < 2)
                        ):
                            found = -2
                        if marks == 0 and own_end < i:
                            found = -2
                        lo += front
                        if front == 0 and found == -1:
                            # The whole was looked up; go on with what is left without its last mark.
                            if hi > own_end:
                                hi -= 1
                                while data[hi] & 0xC0 == 0x80:
                                    hi -= 1
                            elif hi > core_end:
                                hi = core_end
                            else:
                                found = -3
                    if found == -2:
                        if lost >= len(missing):
                            told[3] = 1
                            return
                        missing[lost, 0], missing[lost, 1], missing[lost, 2] = start, i, whole
                        lost += 1
                    else:
                        if lo > start:
                            words[w, 0], words[w, 1] = lo - start, 1
                            words[w, 2] = 0 if data[start] == 36 else MARK
                            w += 1
                        if found >= 0:
                            row, stop = entries[found, 3], entries[found + 1, 3]
                            if w + (stop - row) + 8 >= len(words):
                                told[3] = 1
                                return
                            while row < stop:
                                for k in range(3):
                                    words[w, k] = known[row, k]
                                w, row = w + 1, row + 1
                        at = hi if found >= 0 else lo
                        if only_letters and found < 0:
                            words[w, 0], words[w, 1], words[w, 2] = run, run, PLAIN | LETTER
                            w, at = w + 1, i
                        while at < i:
                            # One word: a piece of the core, a hyphen, 's, or a mark.
                            stop, bits = at, 0
                            if at < core_end:
                                if data[at] == 45:
                                    stop, bits = at + 1, MARK
                                else:
                                    bits = PLAIN
                                    while stop < core_end and data[stop] != 45:
                                        byte = i64(data[stop])
                                        if byte >= 65:
                                            bits |= LETTER
                                        stop += 1
                            elif at < own_end:
                                stop, bits = own_end, PLAIN | LETTER
                            else:
                                byte = i64(data[at])
                                stop = at + 3 if byte >= 128 else at + 1
                                bits = MARK | ENDS if byte == 46 or byte == 33 or byte == 63 else MARK
                            count = 0
                            for k in range(at, stop):
                                count += data[k] & 0xC0 != 0x80
                            if bits & PLAIN and (hyphens > 0 or at >= core_end):
                                # Words inside a piece were not looked up yet: one may be a stop word.
                                h = np.uint64(0xCBF29CE484222325)
                                for k in range(at, stop):
                                    h = (h ^ np.uint64(data[k])) * np.uint64(0x100000001B3)
                                key = i64((h ^ (h >> np.uint64(32))) & np.uint64(0x7FFFFFFFFFFFFFFF))
                                slot = key & mask
                                while slots[slot] >= 0:
                                    entry = i64(slots[slot])
                                    row = entries[entry, 3]
                                    if entries[entry, 0] == key and entries[entry + 1, 3] == row + 1:
                                        bits |= i64(known[row, 2]) & ~((1 << STOP) - 1)
                                        break
                                    slot = (slot + 1) & mask
                            words[w, 0], words[w, 1], words[w, 2] = stop - at, count, bits
                            w, at = w + 1, stop
                for k in range(before, w):
                    bits = i64(words[k, 2])
                    if ended and not bits & (ENDS | MARK):
                        sentences, ended = sentences + 1, False
                    elif bits & ENDS:
                        ended = True
            char += chunk_chars
            chunks += 1
            longest = max(longest, chunk_chars)
            trail, trail_char = i, char
        lines[line, 0], lines[line, 1], lines[line, 2], lines[line, 3] = lead, trail, lead_char, trail_char
        lines[line, 4], lines[line, 5], lines[line, 6] = char - 1, chunks, longest
        lines[line, 7], lines[line, 8], lines[line, 9] = sentences + (chunks > 0), first, braces
        shape = 0
        if chunks > 0:
            if data[lead] == 45 or (
                trail - lead >= 3 and data[lead] == 0xE2 and data[lead + 1] == 0x80 and data[lead + 2] == 0xA2
            ):
                shape = 1
            if trail - lead >= 3 and (
                (data[trail - 1] == 46 and data[trail - 2] == 46 and data[trail - 3] == 46)
                or (data[trail - 1] == 0xA6 and data[trail - 2] == 0x80 and data[trail - 3] == 0xE2)
            ):
                shape |= 2
        lines[line, 10] = shape
        bullets, ellipses = bullets + (shape & 1), ellipses + (shape >> 1)
        line += 1
    plain = chars = lettered = stopped = different = 0
    for k in range(len(stops)):
        stops[k] = 0
    for k in range(w):
        bits = i64(words[k, 2])
        if bits & PLAIN:
            plain, chars = plain + 1, chars + words[k, 1]
        lettered += (bits & LETTER) >> 1
        if bits >> STOP:
            stopped += 1
            different += stops[bits >> STOP] == 0
            stops[bits >> STOP] = 1
    told[0], told[1], told[2] = w, line, lost
    told[4], told[5], told[6], told[7], told[8] = plain, chars, lettered, stopped, different
    told[9], told[10] = bullets, ellipses


@cache
def letter_table() -> np.ndarray:
    """Return what characters below U+0800 are, for `cut_words`: 0 no letter a word can be made of, else 8, with 1 where
    a full stop behind it is a word, with 2 for a capital or a letter without case.
    """
    out = np.zeros(2048, np.uint8)
    lower, upper = re.compile(f"[{_LOWER}]"), re.compile(f"[{_UPPER}]")
    for char in _runs(_CASED) | _runs(_UNCASED):
        if ord(char) < 2048 and char.isalpha() and char not in SYMBOLS:
            out[ord(char)] = 8 | bool(lower.match(char)) | 2 * bool(upper.match(char))
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


class Cutter:
    """Cuts text after text into words with the same arrays.

    Parameters
    ----------
    split : Splitter
    stop_words : tuple of str

    Attributes
    ----------
    words, lines : arrays
        What `cut_words` wrote for the last text, and `word_count`, `line_count` how much of them.
    plain, plain_chars, lettered, stops, different_stops : int
        Words that are more than marks, their characters, words with a letter, words that are stop words, and how many
        different ones.
    bullet_lines, ellipsis_lines : int
        Lines that begin with a bullet, and that end in an ellipsis.

    Examples
    --------
    >>> cutter = Cutter(splitter("english"), ("the",))
    >>> cutter.cut("See the end. (The end.)".encode())
    >>> cutter.word_count, cutter.plain, cutter.stops, cutter.lines[0, SENTENCES].item()
    (9, 5, 1, 2)
    """

    def __init__(self, split: Splitter, stop_words: tuple[str, ...] = ()) -> None:
        self.seen = Seen(split, stop_words)
        self.tables = (
            0 if split.infix is None else 2 if split.name == "english" else 1,
            letter_table(),
            script_table() if split.characters else np.zeros(0, np.uint8),
        )
        self.told = np.zeros(11, np.int64)
        self.found = np.zeros(len(stop_words) + 1, np.uint8)
        self._make_room(1 << 16)

    def _make_room(self, size: int) -> None:
        self.words = np.zeros((size // 2 + 64, 3), np.int32)
        self.glued = np.zeros(size, np.uint8)
        self.lines = np.zeros((size // 8 + 64, 11), np.int64)
        self.missing = np.zeros((size // 8 + 64, 3), np.int64)

    def cut(self, utf8: bytes) -> None:
        """Cut one text."""
        if self.seen.count > MANY:
            self.seen.clear()
        if len(utf8) > len(self.glued):
            self._make_room(len(utf8))
        data = np.frombuffer(utf8, np.uint8)
        while self._unfinished(data):
            rows = self.missing[: self.told[2]].tolist()
            self.seen.add({utf8[start:stop]: hashed for start, stop, hashed in rows})

    def _unfinished(self, data: np.ndarray) -> bool:
        seen = self.seen
        known = (seen.slots, seen.entries, seen.words, seen.store)
        cut_words(data, *self.tables, *known, self.words, self.glued, self.lines, self.missing, self.found, self.told)
        if self.told[3]:
            self._make_room(2 * max(len(self.glued), 8 * len(data)))
            return True
        self.word_count, self.line_count, missing, _, *counts = self.told.tolist()
        self.plain, self.plain_chars, self.lettered, self.stops, self.different_stops, *shapes = counts
        self.bullet_lines, self.ellipsis_lines = shapes
        return bool(missing)


#: Chunks remembered before a new text begins afresh: about 50 MB.
MANY = 400_000
