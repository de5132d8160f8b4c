"""A run is read again when it looks wrong and what it says fits in; everything else stays, character by character."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.text.mojibake import ENCODINGS, leads_and_rest, may_hold_runs, repair


def misread(text: str, encoding: str) -> str:
    """UTF-8 read in another encoding; bytes it leaves undefined keep their number, as browsers have it."""
    return "".join(bytes([byte]).decode(encoding, "ignore") or chr(byte) for byte in text.encode("utf-8"))


@pytest.mark.parametrize(
    ("broken", "meant"),
    [
        ("Track 3 – DrÃ¥ber", "Track 3 – Dråber"),  # BUG-009: the dash beside it stays
        ("Ã…lesund", "Ålesund"),  # BUG-011
        ("RÄ«ga", "Rīga"),
        ("NicolÃ¡s", "Nicolás"),
        ("WidgetProâ„¢", "WidgetPro™"),  # BUG-012
        ("mÄ…ka w BrnÄ›", "mąka w Brně"),
        ("isnâ€™t â€” itâ€™s", "isn’t — it’s"),
        ("Ã\x85lesund", "Ålesund"),  # Latin-1 and not Windows-1252
        ("don\x92t \x93so\x94", "don’t “so”"),
        ("РџСЂРёРІРµС‚, РјРёСЂ", "Привет, мир"),
        ("PĹ™Ă\xadliĹˇ", "Příliš"),
        ("caf√© itâ€™s ‚Äîso ‚Ä¶", "café it’s —so …"),
        ("f├╝r ΓÇö isnΓÇÖt", "für — isn’t"),
        ("Pythonç¼–ç¨‹", "Python编程"),
        ("Î•Î»Î»Î¬Î´Î±", "Ελλάδα"),
        ("ðŸ˜€ good", "😀 good"),
        ("donÃ¢â‚¬â„¢t", "don’t"),  # read wrongly twice
        ("ÃƒÂ©tÃƒÂ©", "été"),
        ("Â\xa0x ï»¿y", "\xa0x \ufeffy"),
        ("KÃ¶ln CÃ´te Ã–sterreich Ã„rger ESPAÃ‘A CÃ”TE GRÃœN", "Köln Côte Österreich Ärger ESPAÑA CÔTE GRÜN"),
        ("oÃ¹ Ã© Ã¨ Ã€ jÅ³ BrnÄ›” cafÃ©… oraÈ™", "où é è À jų Brně” café… oraș"),
        ("mÂ² 20Â°C Â© so.Â» motÂ» 3Ã—4 Â· â†’", "m² 20°C © so.» mot» 3×4 · →"),
        ("Espa√±a K√∂ln M├ñrz", "España Köln März"),
        (misread("мы вКонтакте", "cp1251"), "мы вКонтакте"),
    ],
)
def test_what_is_read_again(broken: str, meant: str) -> None:
    found = repair(broken)
    assert (found.text, found.left) == (meant, ())
    assert found.runs > 0
    assert repair(meant).text is meant


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Belgiâš´ en coâš´rdinatie", 2),  # BUG-010: an astronomical symbol in a word
        ("ÖÐ¹ú", 1),  # GB 2312 read as Latin-1: a Cyrillic letter in it is chance
        ("Ä…hm", 1),  # somebody stammers, or a word is broken: nobody can say
        ("aâ˜ƒb", 1),
        ("Spaß… „Größe“ Maß”", 0),
        ("«CAFÉ» AMANHÃ… É» à l’été»…", 0),
        ("Сілас СІРІ ВІН Рівне", 0),
        ("├── a\n│  └─┐", 0),
        ("n√π + √2", 0),
        ("5 £ · ½ × § 20°C", 0),
        ("Ã", 0),
        ("", 0),
    ],
)
def test_what_is_left_is_the_same_and_counted_if_it_looks_wrong(text: str, left: int) -> None:
    found = repair(text)
    assert found.text is text
    assert (found.runs, len(found.left)) == (0, left)


#: What closes a quotation, marks a name or a note, or makes a pause.
MARKS_BEHIND = "”’“‘»›«‹´™®…–—•†‡¹²³¶!"
CAPITALS = [*filter(str.isupper, map(chr, range(0xC0, 0x180))), *"ВГРСЁЖΑΩ"]


@pytest.mark.parametrize("mark", MARKS_BEHIND)
def test_a_capital_letter_and_the_mark_behind_it_are_no_letter(mark: str) -> None:
    """A repair never makes clean text worse: A MANHÃ in quotes is no MANHÔ."""
    words = [f"{before}{letter}{mark}" for letter in CAPITALS for before in ("", "“", "l’", "“MANH", "“A ", "字“")]
    for behind in (" e", ".", "”", "…", ")", "的"):
        text = "\n".join(word + behind for word in words)
        assert repair(text).text is text


@pytest.mark.parametrize("mark", "…–—’•")
def test_a_pause_between_capitals_is_no_letter(mark: str) -> None:
    words = [f"{word}{letter}{mark}{behind}" for letter in CAPITALS for word in ("MANH", "") for behind in "SÉ"]
    if mark != "•":  # Õ•Õ• are bytes of Armenian before they are a list
        words += [f"“{(letter + mark) * times}{end}" for letter in CAPITALS for times in (2, 3) for end in "”!"]
    text = "\n".join(words)
    assert repair(text).text is text
    text = "\n".join(f"{word}{mark}disse" for word in ("MANHÃ", "É", "Ä", "perchÈ", "HYVÄ"))
    assert repair(text).text is text


@pytest.mark.parametrize(
    "text",
    [
        "5 Å², 5Å³, 5 Å±0.1, N·Å·m",
        "√µ, √±1, ≈£5 ├édition",
        "LIBERTÉ¹ UNICITÉ¶ CAFÉ¦BAR NESTLÉ‘S NESTLÉ’s",
        "“modernità¹” touché†… é†” à²” Numâ†…",
        "muß‡ daß® Schuß«的 Tomáš›的",
        "TUDÍŽ² OPÄŤ³ TOTÉŽ¹",
        "ДӘРІС® ДӘРІС† СІЛАС•СІЛАС ВІСАГІНАС•ВІСАГІНАС «СССР» “СССР”",
        "¨MANHÃ¨ ´Ã´ ¨Ã¨",
    ],
)
def test_signs_as_people_write_them_stay(text: str) -> None:
    assert repair(text).text is text


def test_the_bytes_of_a_run_that_is_left_stay_as_they_came() -> None:
    """As Windows-1252 they would be other bytes, or none, of the encoding the run was read in."""
    for run in (misread("Ş☘Č", "cp1250"), "Ĺ\x98", "Ă\x83", "Р\x98"):
        beside = "中" + run + "中" if len(run) == 2 else "a" + run + "b"
        found = repair(f"\x93{beside}\x94")
        assert found.text == f"“{beside}”"
        assert [found.text[start:stop] for start, stop in found.left] == [run]
    assert repair("\x93LIBERTÉ\x94 É…\x94").text == "“LIBERTÉ” É…”"  # the same bytes either way


def test_what_is_left_is_told_by_place() -> None:
    text = "é Belgiâš´"
    assert [text[start:stop] for start, stop in repair(text).left] == ["âš´"]


WORDS = ["Ã…lesund", "RÄ«ga", "NicolÃ¡s", "Belgiâš´", "Spaß…", "РјРёСЂ", "Ä…hm", "isnâ€™t", "Ã©", "ΓÇÖ", "x", "你好"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=8), st.sampled_from([" ", "\n", " \t"]))
def test_a_word_is_treated_the_same_alone_and_in_a_text(words: list[str], between: str) -> None:
    """BUG-011."""
    alone = [repair(word) for word in words]
    together = repair(between.join(words))
    assert together.text == between.join(found.text for found in alone)
    assert together.runs == sum(found.runs for found in alone)
    assert len(together.left) == sum(len(found.left) for found in alone)


MEANT = st.text(st.sampled_from("éåßž’“…ЯяИŘÃ中ا😀א\xa0\u2028 a"), max_size=5)
BROKEN = st.builds(misread, MEANT, st.sampled_from([*ENCODINGS, "latin-1"]))
TEXTS = st.lists(
    st.sampled_from([*"Ã©…â€™ÂÅžÐ¸ÑРС°ёГ√‚Ä├ΓÇö”»²ÉĂĹ\x98\x83\x94\x92\x81\xa0\u2028aAéß \n"])
    | BROKEN
    | BROKEN.map(lambda text: misread(text, "cp1252"))
    | st.characters(codec="utf-8"),
    max_size=12,
).map("".join)


@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_a_second_pass_changes_nothing_and_says_the_same(text: str) -> None:
    found = repair(text)
    again = repair(found.text)
    assert (again.text, again.runs, again.left) == (found.text, 0, found.left)
    assert (found.runs == 0) == (found.text == text)


@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_what_is_outside_of_runs_stays_in_its_order(text: str) -> None:
    leads, rest = (set(letters) for letters in leads_and_rest())
    c1 = {chr(code) for code in range(0x80, 0xA0)}

    def others(string: str) -> list[str]:
        return [character for character in string if character.isascii()]

    assert others(repair(text).text) == others(text)
    if not (leads & set(text) and rest & set(text)) and not c1 & set(text):
        assert repair(text).text is text


@settings(max_examples=100, deadline=None)
@given(TEXTS)
def test_the_cheap_look_misses_no_run(text: str) -> None:
    without = "".join(character for character in text if not "\x80" <= character <= "\x9f")
    if not may_hold_runs(without):
        assert repair(without) == type(repair(""))(without)


@pytest.mark.parametrize(
    ("text", "encodings"),
    [
        ("Größe über alles, français déjà vu, señor Núñez, coração", ["cp1252", "latin-1", "cp437"]),
        ("Příliš žluťoučký kůň, Żółć gęślą jaźń", ["cp1252", "cp1250"]),
        ("Добрый день, это тут и сегодня: хорошая погода", ["cp1252", "latin-1"]),
        ("Добрый день, сегодня хорошая погода", ["cp1251"]),
        ("中文文本和标点符号。", ["cp1252", "latin-1"]),
        ("“quoted” – dashed — isn’t… • €5 ™", ["cp1252", "latin-1", "cp1251", "cp1250", "mac_roman", "cp437"]),
    ],
)
def test_whole_sentences_come_back(text: str, encodings: list[str]) -> None:
    for encoding in encodings:
        assert repair(misread(text, encoding)).text == text, encoding
