"""Encodings: what is declared, what decodes, what reads like writing; measured on real text."""

from __future__ import annotations

import gzip
import itertools
import json
import re

import numpy as np
import pytest
from conftest import shared
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib import seeds
from prep_lib.source.encoding import ENCODINGS, decode, named, plausibility

GERMAN = "Die Größe zählt nicht, sagt der Müller: über alles entscheidet das Mehl, und süß ist es trotzdem."
RUSSIAN = "Каждый вечер он записывал одну строку о ветре, потому что ветер решал, придёт ли лодка."
CHINESE = "山里的茶园在清明以前最忙。天刚亮，采茶的人就背着竹篓上山，只摘枝头最嫩的一芽一叶。"
JAPANESE = "町の図書館には、貸し出し用の傘が百本ある。雨の日に借りて、晴れた日に返せばよい。"
KOREAN = "등대지기는 매일 저녁 바람에 대하여 한 줄을 적었다. 바람이 배가 올 수 있는지를 정하기 때문이다."
CZECH = "Včely hlasují o novém domově: kdo našel dutý strom, tančí déle, a ostatní letí podívat se sami."
ENGLISH = "It's “done”, she said – at last…"

SAMPLES = {
    "windows-1252": (GERMAN, ENGLISH), "windows-1251": (RUSSIAN,), "koi8-r": (RUSSIAN,), "gb18030": (CHINESE,),
    "shift_jis": (JAPANESE,), "euc-jp": (JAPANESE,), "euc-kr": (KOREAN,), "windows-1250": (CZECH,),
    "iso-8859-2": (CZECH,), "iso-2022-jp": (JAPANESE,), "hz-gb-2312": (CHINESE,),
}  # fmt: skip
CASES = [(name, text) for name, texts in SAMPLES.items() for text in texts]


def packed(text: str, name: str) -> bytes:
    return text.encode(ENCODINGS[name][0][0])


@pytest.mark.parametrize(("name", "text"), CASES)
def test_a_sentence_is_read_without_a_declaration(name: str, text: str) -> None:
    found = decode(packed(text, name))
    assert (found.text, found.encoding, found.by, found.replaced) == (text, name, "detected", 0)


@pytest.mark.parametrize(("name", "text"), CASES)
def test_a_true_declaration_is_believed_wherever_it_stands(name: str, text: str) -> None:
    data = packed(text, name)
    by_header = decode(data, http=f'"{name.upper()}"')
    assert (by_header.text, by_header.encoding, by_header.by) == (text, name, "http")
    for head in (
        f'<meta charset="{name}">',
        f"<META content='text/html; charset={name}' http-equiv=Content-Type>",
        f'<?xml version="1.0" encoding="{name}"?><html>',
        f'<!-- <meta charset="utf-8"> --><script>"<meta charset=big5>"</script><meta name=x charset = {name} >',
    ):
        by_page = decode(head.encode() + data, html=True)
        assert (by_page.text, by_page.encoding, by_page.by) == (head + text, name, "meta")
        assert decode(head.encode() + data, http="utf-8", html=True).by == "meta" or data.isascii()


@pytest.mark.parametrize(("name", "text"), CASES)
@pytest.mark.parametrize("wrong", ["utf-8", "iso-8859-1", "us-ascii", "x-unknown"])
def test_a_wrong_declaration_is_not_believed(name: str, text: str, wrong: str) -> None:
    assert decode(packed(text, name), http=wrong).text == text


def test_bug_076_a_page_that_says_utf8_and_is_windows_1252() -> None:
    page = '<meta charset="utf-8"><p>Größe über alles</p>'
    found = decode(page.encode("cp1252"), html=True)
    assert (found.text, found.encoding, found.by) == (page, "windows-1252", "detected")


@pytest.mark.parametrize("text", [GERMAN, RUSSIAN, CHINESE, KOREAN])
@pytest.mark.parametrize("http", [None, "iso-8859-1", "gb2312", "utf-8"])
def test_utf8_is_utf8_whatever_is_said(text: str, http: str | None) -> None:
    found = decode(text.encode(), http=http)
    assert (found.text, found.encoding) == (text, "utf-8")
    assert found.by == ("http" if http == "utf-8" else "detected")


@pytest.mark.parametrize("by", [None, "utf-8"])
def test_one_broken_byte_costs_one_character(by: str | None) -> None:
    for text in (GERMAN, CHINESE):
        data = text.encode()
        found = decode(data[:30] + b"\xff" + data[30:], http=by)
        assert found.replaced == found.text.count("\ufffd") == 1
        assert found.text.replace("\ufffd", "") == text
    undefined = decode(b"\x81" + packed(GERMAN, "windows-1252"))
    assert (undefined.text, undefined.encoding, undefined.replaced) == ("\ufffd" + GERMAN, "windows-1252", 1)


@pytest.mark.parametrize("http", [None, "utf-8"])
@pytest.mark.parametrize(
    "text",
    [
        "la liberté de réunion",
        "Größe",
        "naïve – and “done”",
        "żaden człowiek",
        "всё ясно",
        "山里的茶",
        "हिन्दी",
        "caffè, però",
    ],
)
def test_a_cut_or_stray_byte_does_not_make_mojibake_of_a_short_text(text: str, http: str | None) -> None:
    """Wherever the byte is, also in a page that says nearly nothing beyond ASCII."""
    around = ("plain words " * 20, " and more of them" * 20)
    data = text.encode().join(word.encode() for word in around)
    places = [at for at, byte in enumerate(data) if byte > 0x7F]
    for at in places:
        for damaged in (data[:at] + data[at + 1 :], data[:at] + b"\xfe" + data[at:], data[:at] + b"x" + data[at + 1 :]):
            found = decode(damaged, http=http)
            assert (found.text, found.encoding) == (damaged.decode("utf-8", "replace"), "utf-8")
            assert 1 <= found.replaced <= 5
            assert found.by == ("http" if http else "detected")
    ended = data[: places[-1]]
    assert decode(ended, http=http).text == ended.decode("utf-8", "replace")


def test_one_broken_character_is_utf8_only_where_that_is_said_and_nothing_else_fits() -> None:
    cut = b"<p>la comunidad sin distinci\xc3n alguna"
    assert decode(cut, http="utf-8").text == "<p>la comunidad sin distinci\ufffdn alguna"
    for text in ("<p>der Müller", "<p>Käse und Brot", "<p>© 2026", "<p>NÃO", "<p>It’s"):
        assert decode(text.encode("cp1252"), http="utf-8").text == text


def test_a_replacement_character_of_the_text_is_not_counted() -> None:
    assert decode("Gr\ufffdße".encode()).replaced == 0
    assert decode("Gr\ufffdße".encode() + b"\xff" + GERMAN.encode()).replaced == 1


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_mark_says_it_all_and_is_no_text(codec: str) -> None:
    found = decode(CHINESE.encode(codec), http="big5", html=True)
    assert (found.text, found.by, found.replaced) == (CHINESE, "bom", 0)


def test_a_mark_that_nothing_bears_out_is_no_mark() -> None:
    found = decode(b"\xff\xfe" + b"\x00\xd8" * 200)
    assert found.by != "bom"


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark(codec: str) -> None:
    found = decode(("<meta charset=utf-16>" + GERMAN).encode(codec), html=True)
    assert (found.text[21:], found.by) == (GERMAN, "detected")
    # A page in which a declaration could be read is none, as the standard has it.
    assert decode(f"<meta charset=utf-16>{GERMAN}".encode(), html=True).encoding == "utf-8"


def test_ascii_is_what_it_says_and_else_utf8() -> None:
    assert decode(b"plain") == decode(b"plain", http="x-unknown")
    assert (decode(b"plain").encoding, decode(b"plain").by) == ("utf-8", "default")
    assert (decode(b"plain", http="big5").encoding, decode(b"plain", http="big5").by) == ("big5", "http")
    assert decode(b"a ~{ b } and x~{y~}z").encoding == "utf-8"
    assert decode(b"").text == ""


def test_labels_are_those_of_the_standard() -> None:
    pairs = {
        "gb2312": "gb18030", "GBK": "gb18030", "iso-8859-1": "windows-1252", "Shift_JIS": "shift_jis",
        "ks_c_5601-1987": "euc-kr", "big5-hkscs": "big5", "ISO-8859-9": "windows-1254", "tis-620": "windows-874",
        " 'utf8' ": "utf-8", "none": None, "": None,
    }  # fmt: skip
    assert {label: named(label) for label in pairs} == pairs


@pytest.mark.parametrize("garbled", ["Ïðèâåò, êàê äåëà", "пРИВЕТ, кАК дЕЛА", "GrцЯe ьber", "ﾃｩﾃﾟ", "Ã¼ber Ã¤lter"])
def test_what_nobody_wrote_does_not_read_like_writing(garbled: str) -> None:
    assert plausibility(garbled) < 0.8


def test_text_without_letters_beyond_ascii_reads_well() -> None:
    assert plausibility("plain") == plausibility("") == plausibility("© 2026 – 20 °C, 5 m²") == 1.0


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([None, "utf-8", "big5", "iso-2022-jp", "utf-16", "hz"]), st.booleans())
def test_any_bytes_become_text_that_can_be_written(data: bytes, http: str | None, html: bool) -> None:
    found = decode(data, http=http, html=html)
    found.text.encode("utf-8")
    assert 0 <= found.replaced <= found.text.count("\ufffd")
    assert found == decode(data, http=http, html=html)


@settings(max_examples=40, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\ufeff\0\x1b~"), max_size=60))
def test_utf8_comes_back(text: str) -> None:
    assert decode(text.encode()).text == text


def test_pages_of_a_dozen_languages_in_legacy_encodings() -> None:
    """Every file of the declaration of human rights, with no declaration at all; two end in a cut character."""
    folder = shared("langid/udhr_legacy_encodings")
    index = json.loads((folder / "index.json").read_text())
    assert len(index) == 16
    for name, told in index.items():
        data = (folder / name).read_bytes()
        found = decode(data)
        cut = told["last_character_cut"]
        assert found.text == data.decode(told["true_encoding"], "ignore") + "\ufffd" * cut, (name, found.encoding)
        assert found.replaced == cut


def test_pages_of_the_web_that_are_not_utf8() -> None:
    """The ten or so pages of the set: right by what they declare, and by detection alone."""
    seen = []
    for path in sorted(shared("html/traf").glob("*.html.gz")):
        data = gzip.decompress(path.read_bytes())
        declared = decode(data, html=True)
        if declared.encoding == "utf-8":
            continue
        seen.append(declared.encoding)
        assert decode(data).text == declared.text, path.name
        assert declared.replaced == 0
    assert set(seen) == {"windows-1252", "iso-8859-2"}
    assert len(seen) >= 9


#: Encodings a language was written in before UTF-8.
LEGACY = {
    "deu_1996": "windows-1252", "fra": "windows-1252", "spa": "windows-1252", "por_PT": "windows-1252",
    "isl": "windows-1252", "pol": "windows-1250 iso-8859-2", "ces": "windows-1250 iso-8859-2",
    "hun": "windows-1250 iso-8859-2", "rus": "windows-1251 koi8-r ibm866 iso-8859-5", "ukr": "koi8-u windows-1251",
    "ell_monotonic": "windows-1253 iso-8859-7", "tur": "windows-1254", "heb": "windows-1255",
    "arb": "windows-1256", "lit": "windows-1257", "tha": "windows-874", "cmn_hans": "gb18030", "cmn_hant": "big5",
    "jpn": "shift_jis euc-jp", "kor": "euc-kr",
}  # fmt: skip


def test_a_thousand_characters_are_enough() -> None:
    """Every pair of language and encoding, no declaration, all right."""
    with gzip.open(shared("langid/udhr.jsonl.gz"), "rt", encoding="utf-8") as file:
        texts = {row["code"]: "\n".join(row["paragraphs"])[:1000] for row in map(json.loads, file)}
    wrong = []
    for code, names in LEGACY.items():
        for name in names.split():
            data = texts[code].encode(ENCODINGS[name][0][0], "ignore")
            if decode(data).text != data.decode(ENCODINGS[name][0][0]):
                wrong.append((code, name, decode(data).encoding))
    assert wrong == []


def test_a_bad_byte_costs_a_character_in_forty_languages() -> None:
    """A byte deleted, put in or changed in sentences: UTF-8 wherever two characters are left to tell it by."""
    rng = seeds.stream(5, "bad bytes")
    with gzip.open(shared("langid/udhr.jsonl.gz"), "rt", encoding="utf-8") as file:
        texts = [row["paragraphs"][:6] for row in map(json.loads, file)]
    assert len(texts) >= 40
    seen, wrong = 0, []
    for text in itertools.chain(*texts):
        data = text.encode()
        places = [at for at, byte in enumerate(data) if byte > 0x7F]
        at = places[rng.integers(len(places))] if places else 0
        new = rng.integers(128, 256, dtype=np.uint8).tobytes()
        for damaged in (data[:at] + data[at + 1 :], data[:at] + new + data[at:], data[:at] + b"?" + data[at + 1 :]):
            expected = damaged.decode("utf-8", "replace")
            if len(re.findall("[^\x00-\x7f\ufffd]", expected)) >= 2 and "\ufffd" in expected:
                seen += 1
                wrong += [damaged] if decode(damaged).text != expected else []
    assert seen > 600
    assert wrong == []
