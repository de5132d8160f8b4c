"""One page, whatever there is to say: text is text, what does not fit is counted, and the bytes repeat."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from prep_lib.onepage import CHINESE, MISSING, Bars, Figures, Pairs, Said, plain, write

BLOCKS = [
    Said("Finished. 保留了 42 篇文档。"),
    Figures([("records", "48,120"), ("记录", "99.6 %")]),
    Said("No benchmark was given.", "warn"),
    Bars("Funnel", [("quality", "426 kept", {"kept": 426, "dropped": 30, "failed": 0})]),
    Pairs("Parameters", [("12_dedup.threshold", "0.7", "0.8")]),
]


#: What a backslash and a letter stand for in a string of PDF.
ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}


def unescaped(text: bytes) -> bytes:
    def one(found: re.Match[bytes]) -> bytes:
        return bytes([int(found[1], 8)]) if found[1].isdigit() else ESCAPED.get(found[1], found[1])

    return re.sub(rb"\\(\d{3}|.)", one, text, flags=re.DOTALL)


def texts(pdf: bytes) -> str:
    """What a reader's program finds: each string by the code of its typeface."""
    wide = set(re.findall(rb"/UniGB-UCS2-H /Name /(F\d)", pdf))
    out, face = "", b""
    for font, text in re.findall(rb"/(F\d) [\d.]+ Tf|\(((?:\\.|[^()\\])*)\) Tj", pdf, re.DOTALL):
        face = font or face
        out += "" if font else unescaped(text).decode("utf-16-be" if face in wide else "cp1252")
    return out


def test_text_stays_text_in_both_languages(tmp_path: Path) -> None:
    write(tmp_path / "a.pdf", "Run 演示", BLOCKS, "zh")
    pdf = (tmp_path / "a.pdf").read_bytes()
    told = texts(pdf)
    for said in ("Run ", "演示", "保留了", "48,120", "99.6 %", "0.7", "quality", "其余内容见同时生成的网页"):
        assert said in told, said
    assert b"/Count 1 /Kids" in pdf
    assert CHINESE.encode() in pdf


def test_the_bytes_repeat_and_hold_no_clock(tmp_path: Path) -> None:
    for name in ("a.pdf", "b.pdf"):
        write(tmp_path / name, "T", BLOCKS)
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()
    assert b"2026" not in (tmp_path / "a.pdf").read_bytes()


@pytest.mark.parametrize("many", [0, 3, 400])
def test_it_is_one_page_however_much_there_is(tmp_path: Path, many: int) -> None:
    blocks = [
        Said("word " * many), Figures([("n", "1" * many)] * 4), *[Said("long " * 90, "bad")] * many,
        Bars("B", [("s" * many, "t" * many, {"kept": 1})] * many), Pairs("P", [("a" * many, "文" * many)] * many),
    ]  # fmt: skip
    write(tmp_path / "a.pdf", "T" * many, blocks)
    pdf = (tmp_path / "a.pdf").read_bytes()
    assert b"/Count 1 /Kids" in pdf
    assert len(pdf) < 200_000
    assert ("more lines did not fit" in texts(pdf)) == (many == 400)
    heights = [float(y) for y in re.findall(rb"1 0 0 1 [\d.]+ ([-\d.]+) Tm", pdf)]
    assert min(heights) > 30


def test_a_character_without_a_face_is_a_box() -> None:
    assert plain("a\n b 한 🙂 文 Ж é") == f"a b {MISSING} {MISSING} 文 Ж é"
