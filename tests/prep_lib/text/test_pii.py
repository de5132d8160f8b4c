"""Personal data: a kind is found where it stands, nothing is found inside something else, masking twice is once."""

from __future__ import annotations

import gzip
import json
import pickle
import re
import sys

import numpy as np
import pytest
from bench_pii import framed, negatives, positives
from conftest import shared
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prep_lib.errors import BadParameter, UnknownName
from prep_lib.record import Document, Drop
from prep_lib.stage import run
from prep_lib.text import pii
from prep_lib.text.pii import EDGES, KINDS, Found, Pii, find, issuer, luhn, mod97, resident_id

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJraW0ifQ.c2lnbmF0dXJlLW9mLXNvbWVib2R5"
LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
PEM = f"-----BEGIN PRIVATE KEY-----\n{LINE}\n{LINE}\n-----END PRIVATE KEY-----"

#: One text a line; between ⟦ and ⟧ stands what must be found, and nothing else may be.
MARKED = {
    "email": f"""
        write to ⟦kim@mail.example⟧, or ⟦x_y+z@a-b.co.uk⟧.
        邮箱⟦li.lei88@163.com⟧电话    ⟦müller@grün.de⟧
        <⟦kim@mail.example⟧> mailto:⟦kim@mail.example⟧?subject=x 'cc: ⟦kim@mail.example⟧'
        ⟦kim＠mail．example⟧ ⟦13812345678@qq.com⟧ ⟦kim@mail.cn⟧(work)
        icon@2x.png @property.setter
        git@github.com:a/b lodash@4.17.21 A@B.sum(0) x@y @kim {"x" * 70}@mail.example
        kim@-mail.example kim@mail.example2 .@mail.example n.@d.co
    """,
    "phone": """
        call ⟦+49 (0)30 123456⟧ or ⟦+44 20 7946 0958⟧ 24/7, ⟦+1 (202) 555-0173⟧; 电话⟦+86-10-62771234⟧。
        ⟦(+48) 22 525 80 00⟧ (⟦+33 1 23 45 67 89⟧) ⟦＋４４２０７９４６０９５８⟧
        ⟦+1.202.555.0173⟧ ⟦+390612345678⟧
        202-555-0173 (202) 555-0173 030 123456 +20 000 000 +12345678.90 +44.1234-20.5678
        a+442079460958 +999 123 456 789
        i+1 +1 800 FLOWERS +1 1111 111 +49 +0049 30 123456 +1111111111111
    """,
    "ip": """
        ping ⟦93.184.216.34⟧. http://⟦93.184.216.34⟧:80/x, ⟦8.8.8.8⟧;
        from ⟦45.33.32.156⟧-⟦45.33.32.160⟧ 主机⟦93.184.216.34⟧的
        ⟦2606:4700:4700::1111⟧ [⟦2a00:1450:4001:81b::200e⟧]:443 IP: ⟦1.2.3.4⟧ ⟦1.2.3.4⟧:8080
        ⟦９３．１８４．２１６．３４⟧
        10.1.2.3 172.31.0.9 192.168.7.7 127.0.0.1 100.64.0.9 169.254.3.3 192.0.2.7 198.51.100.7 203.0.113.7 224.0.0.251
        fe80::1:2 ::1 2001:db8::7:1
        2001::7:1 12:34:56 x[2000::2] 2021:03:04 de:ad:be:ef:00:01
        300.1.1.1 93.184.216.340 93.184.216.34.5 093.184.216.34 93.184.216.34-beta
        lib-93.184.216.34.jar App/93.184.216.34
        v93.184.216.34 version 93.184.216.34 releases 93.1.2.3 and 94.1.2.3 § 93.184.2.3 第93.184.2.3条
        1.3.6.1 1.2.0.0 8.8.8.0/24
    """,
    "card": """
        Visa ⟦4539 5787 6362 1486⟧, ⟦4539-5787-6362-1486⟧, 卡号⟦6222021234567890128⟧。⟦378282246310005⟧
        ⟦3782 822463 10005⟧
        ⟦4539 5787 6362 1486⟧ 12/27 123; ⟦4539 5787 6362 1486⟧ 124; card ⟦4222222222222⟧
        ⟦４５３９５７８７６３６２１４８６⟧
        4539 5787 6362 1487 4539578763621486789012 x4539578763621486 0.4539578763621486
        4222222222222 4539 5787-6362 1486
        4539 5787 6362 1486 7777 7777 9539578763621486 0000000000000000 /item4539578763621486 id=4539578763621486
        4539578763621486*x 4,539,578,763,621,486 $4539578763621486 4539578763621486.5
    """,
    "iban": """
        ⟦DE89 3704 0044 0532 0130 00⟧ ⟦DE89370400440532013000⟧. ⟦GB82 WEST 1234 5698 7654 32⟧
        账号⟦NO9386011117947⟧是
        DE88 3704 0044 0532 0130 00 DE893704004405320130001 XDE89370400440532013000 DE89 37040044 0532 0130 00
        XX12 3456
        de89370400440532013000 DE89-3704 0044 0532 0130 00 FP16 DE89
    """,
    "cn_mobile": """
        手机⟦13812345678⟧邮箱 Tel⟦13812345678⟧; ⟦138 1234 5678⟧, ⟦138-1234-5678⟧; ⟦+86 13812345678⟧ ⟦0086-13812345678⟧。
        ⟦１３８１２３４５６７８⟧ {"phone": ⟦13812345678⟧} ⟦13812345678⟧、⟦13912345678⟧ ⟦13812345678⟧,⟦13912345678⟧
        ⟦(+86)13812345678⟧
        12812345678 138123456789 1.13812345678 13812345678.5 a13812345678 13812345678b ¥13812345678
        13812345678元
        x + 13812345678*y = -13812345678 "id":13812345678 href="13812345678"
        x/13812345678 138 1234 5678 9012 7,13812345678,9
        ab-13812345678
    """,
    "cn_id": """
        身份证⟦11010519491231002X⟧，⟦11010519491231002x⟧ ⟦110105 19491231 002X⟧ ⟦１１０１０５１９４９１２３１００２Ｘ⟧号
        110105194912310021 99010519491231002X 11010519491331002X 11010518491231002X a11010519491231002X
        11010519491231002XY
    """,
    "ssn": """
        SSN ⟦078-05-1121⟧ or ⟦078-05-1121⟧; social security number: ⟦078 05 1121⟧
        000-12-3456 666-12-3456 912-12-3456 078-00-1121 078-05-0000 078 05 1121 1078-05-1121 078-05-11212 078-05-1121-9
    """,
    "key": f"""
        ⟦AKIAIOSFODNN7EXAMPLE⟧ "⟦ghp_{"aB3" * 12}⟧" xoxo
        ⟦xoxb-123456789012-abcdefGHIJKL⟧ key=⟦AIza{"Sy0-_" * 7}⟧&x
        ⟦hf_{"abc" * 12}⟧
        ⟦sk_live_{"4eC39H" * 4}⟧ ⟦sk-{"a1" * 24}⟧ ⟦sk-proj-{"a1_-" * 10}⟧ Bearer ⟦abcDEF123456/ghi+JKL789==⟧
        密钥⟦{JWT}⟧。
        https://x.example/?token=⟦glpat-{"a1B2" * 5}⟧ https://⟦ghp_{"aB3" * 12}⟧@github.com
        Authorization: Bearer ⟦{JWT}⟧
        AKIAIOSFODNN7 xAKIAIOSFODNN7EXAMPLE sk-learn-is-a-library-of-models-0
        eyJub3QiOiJhIGhlYWRlciJ9.eyJzdWIiOiJraW0ifQ.x
        the bearer of this letter, 6f1ed002ab5595859014ebf0951522d96f1ed002 Bearer short
        ghp_{"aB3" * 11} task-{"a1" * 12}
    """,
    "pem": "",
}  # fmt: skip

LINES = [(kind, line.strip()) for kind, text in MARKED.items() for line in text.strip().splitlines()]


def marked(line: str) -> tuple[str, list[tuple[int, int]]]:
    """Take the marks out of a text, and return where they stood."""
    parts, spans, at = re.split("[⟦⟧]", line), [], 0
    for number, part in enumerate(parts):
        if number % 2:
            spans.append((at, at + len(part)))
        at += len(part)
    return "".join(parts), spans


@pytest.mark.parametrize(("kind", "line"), LINES)
def test_a_kind_is_found_where_it_stands_and_nowhere_else(kind: str, line: str) -> None:
    text, spans = marked(line)
    found = find(text, kinds=(kind,))
    assert [text[each.start : each.stop] for each in found] == [text[start:stop] for start, stop in spans]
    assert [(each.start, each.stop) for each in found] == spans
    assert all(each.kind == kind for each in found)


def test_private_keys() -> None:
    """From the first dash to the last, also as one line of a program; without its end as far as it is a key."""
    [found] = find(f"key:\n{PEM}\nend")
    assert (found.kind, found.start, found.stop) == ("pem", 5, 5 + len(PEM))
    assert [each.kind for each in find(repr(PEM))] == ["pem"]
    assert [each.kind for each in find(PEM.replace("PRIVATE KEY", "PGP PRIVATE KEY BLOCK"))] == ["pem"]
    cut = f"-----BEGIN RSA PRIVATE KEY-----\n{LINE}\n{LINE}\nThen they left."
    [found] = find(cut)
    assert cut[found.stop :] == "\nThen they left."
    assert find("-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----") == []
    assert find(PEM.replace("PRIVATE KEY", "CERTIFICATE")) == []


def test_made_up_values_of_every_kind_are_found_exactly() -> None:
    """400 values in sentences, English and Chinese; the bench tells precision and recall of the same."""
    wrong = [
        (kind, text)
        for kind, text, start, value in framed(positives(seed=1), seed=1)
        if [each[:3] for each in find(text)] != [(start, start + len(value), kind)]
    ]
    assert wrong == []


def test_nothing_is_found_in_what_only_looks_like_it() -> None:
    """1,080 hashes, floats, versions, ISBN, part numbers, times, coordinates, sections …"""
    values = list(framed(negatives(seed=1), seed=1))
    assert len(values) > 1000
    assert [(family, text) for family, text, _, _ in values if find(text)] == []


# ── what went wrong elsewhere ────────────────────────────────────────────────────────────────────────────────────────


def test_bug_030_a_version_of_four_parts_is_no_address() -> None:
    text = "Upgrade to release 3.0.1.2 (before: 11.4.0.12) on 93.184.216.34; as section 1.4.2.3 says, not 256.3.4.400"
    assert [text[each.start : each.stop] for each in find(text)] == ["93.184.216.34"]
    assert find("The private host 192.168.1.20 runs version 1.2.3.4.") == []


def test_bug_031_digits_inside_longer_numbers_are_nothing() -> None:
    inside = "4539578763621486"
    assert luhn(inside)
    for text in (f"0.{inside}", f"2.{inside}E-2", f"7{inside}{inside}", f"{inside}.5", f"1,{inside}", f"-{inside}e3"):
        assert find(text) == [], text


def test_bug_032_a_grouped_card_is_a_card() -> None:
    text = "Visa 5111 1111 1111 1118, phone +1 202 555 0173"
    assert [(each.kind, text[each.start : each.stop]) for each in find(text)] == [
        ("card", "5111 1111 1111 1118"),
        ("phone", "+1 202 555 0173"),
    ]


def test_bug_033_words_behind_a_find_stay() -> None:
    text = "Ich wohne Hauptstrasse 5, 10115 Berlin, kim@mail.example Und Marie kommt um 7"
    assert Pii().map(Document("1", text)).text == text.replace("kim@mail.example", "<EMAIL>")


def test_the_order_of_documents_changes_nothing() -> None:
    """Where replacements take turns, a text depends on the texts before it."""
    docs = [Document(str(at), text) for at, (_, text, _, _) in enumerate(framed(positives()))]
    there, back = (run([Pii()], each).kept for each in (docs, docs[::-1]))
    assert there == back[::-1]


# ── neighbours, escapes, versions, products ──────────────────────────────────────────────────────────────────────────

ID, CARD, MOBILE = "110105199003071239", "4539578763621486", "13812345678"

#: What must be found stands between ⟦ and ⟧, whatever its kind.
BESIDE = rf"""
    张三,25,⟦{ID}⟧,男
    张三,⟦{ID}⟧,25,男
    ⟦{ID}⟧,5
    ⟦{CARD}⟧,737
    Kim,⟦{CARD}⟧,12/25
    ⟦{CARD}⟧:12/25:123
    Kim,25,⟦{MOBILE}⟧,北京
    1001,张三,25,⟦{MOBILE}⟧,100020
    ⟦{MOBILE}⟧,25,男
    张三;25;⟦{MOBILE}⟧;3
    30,⟦078-05-1121⟧,7
    Kim,3,⟦+44 20 7946 0958⟧,5
    Kim,25,⟦+8613812345678⟧,3
    Kim,3,⟦DE89370400440532013000⟧,5
    Kim,3,⟦93.184.216.34⟧,5
    Kim,3,⟦kim@mail.cn⟧,5
    7,{MOBILE},9
    x = [1,{MOBILE},9]
    0,{CARD}
    3,{MOBILE} kg; 0,{CARD}; 0,{MOBILE}
    4,539,578,763,621,486
    1,234,567,{MOBILE},5
    +33 111 222 333,50
    "id_number": ⟦{ID}⟧
    "id": ⟦{ID}⟧, "idNumber":⟦{ID}⟧
    "card_number": ⟦{CARD}⟧, "cardNo":⟦{CARD}⟧
    "uid": {CARD}, "n":{CARD}
    "userMobile": ⟦{MOBILE}⟧, "mobile_number": ⟦{MOBILE}⟧, "phoneNumber":⟦{MOBILE}⟧
    {{\"phone\": \"⟦{MOBILE}⟧\"}} {{\"phone\": ⟦{MOBILE}⟧}}
    \n⟦kim@mail.cn⟧\t⟦kim@mail.cn⟧\n
    \\n⟦kim@mail.cn⟧\\n
    \u003c⟦kim@mail.cn⟧\u003e \x3c⟦kim@mail.cn⟧\x3e %3C⟦kim@mail.cn⟧%3E
    \n⟦{MOBILE}⟧\n⟦{CARD}⟧\n⟦{ID}⟧\n⟦93.184.216.34⟧\n⟦078-05-1121⟧\n
    \n⟦+442079460958⟧\n⟦DE89370400440532013000⟧\n⟦AKIAIOSFODNN7EXAMPLE⟧
    \u624b\u673a⟦{MOBILE}⟧\uff0c
    \nabla {MOBILE}x
    <version>52.14.33.7</version> <Version n="1">52.14.33.7</Version> <AssemblyVersion>52.14.33.7</AssemblyVersion>
    AssemblyVersion("52.14.33.7") AssemblyFileVersion("52.14.33.7") "version_name": "52.14.33.7"
    oldVersion="0.0.0.0-52.14.33.7" newVersion="52.14.33.7" versions 52.14.33.7, 52.14.34.1, 52.14.35.2 and 52.14.36.9
    upgrade from 52.14.33.7 to 52.14.34.1; bumped from 52.14.33.7 to 52.14.34.1
    从52.14.33.7升级到52.14.34.1
    Firefox 78.23.45.67
    ffmpeg 52.14.33.7
    Python 3.11.20.1
    52.14.33.7 and later
    a >= 52.14.33.7, b ~> 52.14.33.7, c ^52.14.33.7
    52.14.33.7版
    <ip>⟦93.184.216.34⟧</ip> <host>⟦93.184.216.34⟧</host> version 2 runs at ⟦93.184.216.34⟧
    Chrome 78.23.45.67 on ⟦93.184.216.34⟧; release 52.14.33.7; host ⟦93.184.216.34⟧
    from ⟦93.184.216.34⟧ to ⟦93.184.217.34⟧ at ⟦5.9.1.2⟧ - - [10/Oct/2000:13:55:36]
    ⟦93.184.216.34⟧ ⟦93.184.216.35⟧ ⟦93.184.216.36⟧ 7
    ⟦user@example.xn--p1ai⟧ ⟦user@xn--e1afmkfd.xn--p1ai⟧, ⟦user@xn--e1afmkfd.xn--p1ai⟧.
    y = x@self.weight + b
    y = x@W.transpose
    self.W@self.x
    return x@W.proj, h@model.weight, q@k.mT
    x@w.to(device) x@y.is_leaf a@b.mean() out = q@layer.proj
    h@x.proj + b
    ⟦me@foo.zip⟧ ⟦me@foo.museum⟧ (⟦me@foo.photography⟧) ⟦kim@self.com⟧ ⟦kim@foo.photography⟧(work)
    email = ⟦kim@mail.cn⟧ - ⟦kim@mail.foundation⟧ - home
    ⟦{"k" * 64}@mail.cn⟧
    bearer authentication-based-on-oauth2 is old
"""


@pytest.mark.parametrize("line", [line.strip() for line in BESIDE.strip().splitlines()])
def test_what_stands_beside_decides(line: str) -> None:
    """Rows of tables, JSON, escapes in strings, versions, products of matrices: with all kinds looked for."""
    text, spans = marked(line)
    assert [text[each.start : each.stop] for each in find(text)] == [text[start:stop] for start, stop in spans]


#: Finds that free each other one by one, from both ends, and others that stand close.
CHAINS = {
    "+14155552671": 1, "+1415-555-2671-": 1, "93.184.216.34--": 0, "93.184.216.34 ": 1, "93.184.216.34,": 1,
    "93.184.216.34\n": 1, "93.184.216.34-": 1, "078-05-1121,": 1, "078-05-1121 - ": 1, "13812345678-": 0,
    "13812345678\n": 1, "13812345678,": 1, f"{CARD}-": 0, f"{CARD},": 1, f"{CARD}\n": 1, "DE89370400440532013000-": 1,
    "11010519491231002X,": 1, "kim@mail.cn,": 1, "AKIAIOSFODNN7EXAMPLE-": 1, "2606:4700::1:1 ": 1,
}  # fmt: skip


@pytest.mark.parametrize("unit", CHAINS)
def test_work_grows_with_the_text_alone(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters looked at, not seconds: four times the finds are four times the work."""
    looked = [0]

    def counting(utf8: bytes) -> list[int]:
        looked[0] += len(utf8)
        return anchors(utf8)

    anchors = pii._anchors
    monkeypatch.setattr(pii, "_anchors", counting)
    work = []
    for count in (100, 400):
        looked[0] = 0
        found = len(find(unit * count))
        work.append(looked[0])
        assert found >= CHAINS[unit] * (count - 2)
    assert work[1] <= 4.5 * work[0]


# ── laws ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

PIECES = st.sampled_from([
    "kim@mail.cn", "13812345678", "138-1234-5678", "+1 202 555 0173", "4539578763621486", "4539 5787 6362 1486",
    "DE89370400440532013000", "11010519491231002X", "93.184.216.34", "2606:4700::1:1", "078-05-1121", "SSN ",
    "AKIA" + "A1" * 8, JWT, PEM, f"-----BEGIN PRIVATE KEY-----\n{LINE}", "-----END PRIVATE KEY-----", LINE, "Bearer ",
    "version ", "IP ", "tel:", " ", "-", ".", ",", "/", "(", ")", "+", "86", "00", "@", "x", "7", "手机", "\n",
    "<EMAIL>", "<", ">", "=", '"', "é", "\ud800", "\0", "\\n", "\\u624b", "25,", "Kim,", "\\", "u00", "%3C", "self.",
])  # fmt: skip
TEXTS = st.lists(PIECES, max_size=12).map("".join)


@settings(deadline=None, max_examples=300)
@given(TEXTS)
@example("kim@mail.cn-13812345678")
@example("DE89370400440532013000-13812345678")
def test_masking_twice_is_masking_once(text: str) -> None:
    masked = Pii().map(Document("1", text))
    assert Pii().map(masked) is masked
    odd = Pii(placeholders={kind: f"【{kind}】" for kind in KINDS})
    again = odd.map(Document("1", text))
    assert odd.map(again) is again


@settings(deadline=None, max_examples=300)
@given(TEXTS)
def test_everything_outside_the_finds_stays(text: str) -> None:
    found = find(text)
    gaps = [0, *(at for each in found for at in (each.start, each.stop)), len(text)]
    assert gaps == sorted(gaps)
    kept = [text[start:stop] for start, stop in zip(gaps[::2], gaps[1::2], strict=True)]
    made = "".join(part + f"<{each.kind.upper()}>" for part, each in zip(kept, found, strict=False))
    assert Pii().map(Document("1", text)).text == made + kept[-1]


@settings(deadline=None, max_examples=300)
@given(st.lists(TEXTS, max_size=5))
@example(["4539 5787 ", "6362 1486", "kim@", "mail.cn", "\ud800a", "\\n13812345678", "手机", "13812345678", ""])
def test_of_many_documents_each_is_masked_as_it_is_alone(texts: list[str]) -> None:
    docs = [Document(str(at), text) for at, text in enumerate(texts)]
    for stage in (Pii(), Pii(action="drop"), Pii(kinds=("email",), max_found=0)):
        assert stage.map_many(docs) == [stage.map(doc) for doc in docs]


@settings(deadline=None, max_examples=200)
@given(TEXTS)
def test_the_kernel_equals_its_python(text: str) -> None:
    data = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    outs = np.zeros((2, 4096), np.int64)
    for out, call in zip(outs, (pii.find_anchors, pii.find_anchors.python), strict=True):
        out[-1] = call(data, pii._CLASSES, pii._TOKENS, out[:-1])
    assert outs[0].tolist() == outs[1].tolist()


def test_the_kernel_says_when_there_is_no_room() -> None:
    text = "a@b " * 100
    assert (
        pii.find_anchors(np.frombuffer(text.encode(), np.uint8), pii._CLASSES, pii._TOKENS, np.empty(50, np.int64))
        == -1
    )
    assert len(find("a@b.cn " * 100)) == 100


@given(st.text("0123456789", min_size=12, max_size=18))
def test_a_check_digit_tells_every_slip_of_one_digit(body: str) -> None:
    right = next(body + digit for digit in "0123456789" if luhn(body + digit))
    assert sum(luhn(body + digit) for digit in "0123456789") == 1
    assert not any(luhn(right[:5] + digit + right[6:]) for digit in "0123456789" if digit != right[5])


def test_check_digits() -> None:
    assert [mod97(f"DE{check:02}370400440532013000") for check in (88, 89, 90)] == [False, True, False]
    assert [resident_id(f"11010519491231002{check}") for check in "0123456789Xx"] == [False] * 10 + [True] * 2
    assert [issuer(digits) for digits in ("5" * 16, "2221" + "0" * 12, "62" + "0" * 17, "4" * 15)] == [
        "mastercard", "mastercard", "unionpay", None,
    ]  # fmt: skip


# ── the stage ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_finds_are_counted_by_kind_and_source() -> None:
    docs = [
        Document("1", "a@b.cn, c@d.cn, 13812345678", "web", {"url": "x"}),
        Document("2", "Nothing of <EMAIL> kind.", "web"),
        Document("3", "ping 93.184.216.34", "logs"),
    ]
    result = run([Pii()], docs)
    assert [doc.text for doc in result.kept] == [
        "<EMAIL>, <EMAIL>, <CN_MOBILE>", "Nothing of <EMAIL> kind.", "ping <IP>",
    ]  # fmt: skip
    assert result.kept[0].meta == {"url": "x", "pii": {"email": 2, "cn_mobile": 1}}
    assert result.kept[1] is docs[1]
    assert dict(result.tallies) == {
        ("pii", "pii", "web", "email"): 2, ("pii", "pii", "web", "cn_mobile"): 1, ("pii", "pii", "logs", "ip"): 1,
    }  # fmt: skip


def test_a_document_with_too_much_goes() -> None:
    two, one = Document("1", "a@b.cn c@d.cn"), Document("2", "a@b.cn")
    assert Pii(max_found=1).map(two) == Drop("too_much_pii", value=2, limit=1)
    assert Pii(max_found=2).map(two).text == "<EMAIL> <EMAIL>"
    assert Pii(action="drop").map(one) == Drop("too_much_pii", value=1, limit=0)
    kept = Pii(action="drop", max_found=1).map(one)
    assert (kept.text, kept.meta["pii"]) == ("a@b.cn", {"email": 1})


def test_kinds_and_placeholders_are_chosen() -> None:
    stage = Pii(kinds=("phone", "email"), placeholders={"email": "|||MAIL_ADDRESS|||"})
    assert stage.map(Document("1", "a@b.cn 93.184.216.34 +44 20 7946 0958")).text == (
        "|||MAIL_ADDRESS||| 93.184.216.34 <PHONE>"
    )


def test_a_find_says_what_speaks_for_it() -> None:
    text = "tel 13812345678, 13912345678 card 4539578763621486 +44 20 7946 0958"
    assert [(each.rule, each.evidence) for each in find(text)] == [
        ("", "word"), ("", "shape"), ("visa", "check"), ("+44", "form"),
    ]  # fmt: skip


def test_of_what_overlaps_secrets_stay_and_then_the_longest() -> None:
    text = f"https://{JWT}@mail.example/"
    assert [each.kind for each in find(text)] == ["key"]
    assert [each.kind for each in find(f"https://kim:ghp_{'aB3' * 12}@mail.example/")] == ["key"]
    assert [each.kind for each in find("13812345678@qq.com")] == ["email"]
    assert [each.kind for each in find("13812345678@qq.com", kinds=("cn_mobile",))] == ["cn_mobile"]
    assert [each.kind for each in find("+86 13812345678")] == ["cn_mobile"]
    assert [each.kind for each in find("+86 13812345678", kinds=("phone",))] == ["phone"]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"kinds": ("mail",)}, "unknown kind 'mail'"),
        ({"kinds": "email"}, 'kinds must be "all" or a tuple'),
        ({"kinds": ()}, "kinds must be"),
        ({"action": "hide"}, "action must be 'mask' or 'drop', got 'hide'"),
        ({"max_found": -1}, "max_found must be a whole number >= 0 or None, got -1"),
        ({"max_found": True}, "max_found must be"),
        ({"placeholders": {"mail": "<X>"}}, "unknown kind 'mail'"),
        ({"placeholders": {"email": "name@example.com"}}, "the placeholder of email must be letters"),
        ({"placeholders": {"email": "EMAIL"}}, "the placeholder of email must be letters"),
        ({"placeholders": {"email": ""}}, "the placeholder of email must be letters"),
        ({"placeholders": {"email": "<>"}}, "the placeholder of email must be letters"),
        ({"placeholders": {"email": f"<{'X' * 40}>"}}, "at most 32"),
        ({"placeholders": {"email": "<PHONE>"}}, "'<PHONE>' stands for two kinds"),
    ],
)
def test_nonsense_is_refused(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadParameter, match=re.escape(sentence)):
        Pii(**wrong)


def test_the_edges_of_placeholders_say_nothing_to_any_rule() -> None:
    for edge in EDGES:
        text = f"{edge}13812345678{edge}kim@mail.cn{edge}93.184.216.34{edge}+442079460958{edge}"
        assert [each.kind for each in find(text)] == ["cn_mobile", "email", "ip", "phone"], edge


def test_a_stage_travels_and_names_what_it_depends_on() -> None:
    stage = Pii(kinds=("ip", "email"), max_found=3)
    stage.map(Document("1", "a@b.cn"))
    assert pickle.loads(pickle.dumps(stage)) == stage
    assert stage.kinds == ("email", "ip")
    assert stage.packages == ()


def test_odd_texts_come_through() -> None:
    for text in (
        "",
        "@",
        "\ud800 13812345678",
        "a@" * 5000,
        "-----BEGIN PRIVATE KEY-----" * 300,
        "sk-" * 5000,
        "1." * 5000,
    ):
        masked = Pii().map(Document("1", text))
        assert masked.text == text or "<CN_MOBILE>" in masked.text


# ── telephone numbers of a country ───────────────────────────────────────────────────────────────────────────────────


def test_a_country_needs_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "phonenumbers", None)
    with pytest.raises(BadParameter, match=re.escape("country='US' needs the package phonenumbers")):
        Pii(country="US")
    assert Pii(country="US", kinds=("email",)).map(Document("1", "+44 20 7946 0958 a@b.cn")).text.endswith("<EMAIL>")


NATIONAL = {
    "US": """
        phone ⟦555-010-0199⟧ or ⟦(415) 555-2671⟧, ⟦415.555.2671⟧; call ⟦4155552671⟧ now,
        ⟦1-800-356-9377⟧ ⟦+44 20 7946 0958⟧
        4155552671 415-555-26712 2021-03-04 10:15 1990-1995 (1808-1871) 0-306-40615-2 94105-1234
        0.4155552671 415-555-2671-9
    """,
    "CN": """
        电话：⟦010-62771234⟧，传真⟦(0755)2698 1234⟧ 座机⟦02162771234⟧ ⟦０１０－６２７７１２３４⟧
        编号01062771234 2021-03-04 88888888 1234-5678 0.2255859375
    """,
    "DE": """
        Tel. ⟦030 123456⟧, ⟦(089) 1234567⟧, ⟦0171/1234567⟧
        am 01.02.2021 um 10 Uhr, 2.500.000 Euro, 10115 Berlin, 0.2255859375
    """,
}  # fmt: skip


@pytest.mark.parametrize(
    ("country", "line"),
    [(country, line.strip()) for country, text in NATIONAL.items() for line in text.strip().splitlines()],
)
def test_numbers_as_they_are_written_in_a_country(country: str, line: str) -> None:
    pytest.importorskip("phonenumbers", reason="the extra pii is not installed")
    text, spans = marked(line)
    found = find(text, kinds=("phone",), country=country)
    assert [text[each.start : each.stop] for each in found] == [text[start:stop] for start, stop in spans]
    assert Pii(country=country).packages == ("phonenumbers",)


def test_an_unknown_country_is_refused() -> None:
    pytest.importorskip("phonenumbers", reason="the extra pii is not installed")
    with pytest.raises(UnknownName, match="unknown country 'USA'"):
        Pii(country="USA")


# ── real texts ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("legal_zh.jsonl.gz", set()),
        ("poetry_zh.jsonl", set()),
        ("speech_en.jsonl.gz", set()),
        ("drama_en_shakespeare.jsonl.gz", set()),
        ("wiki_en.jsonl", set()),
        ("web_en_c4.jsonl", {"email"}),
        ("legal_en_spdx.jsonl.gz", {"email"}),
        ("textbook_zh_d2l.jsonl.gz", {"email"}),
    ],
)
def test_texts_without_personal_data_stay(name: str, kinds: set[str]) -> None:
    """Their e-mail addresses were replaced by one, and their telephone numbers, before they came here."""
    data = shared(f"mixture/{name}").read_bytes()
    lines = (gzip.decompress(data) if name.endswith("gz") else data).decode().splitlines()
    texts = [json.loads(line)["text"] for line in lines if line.strip()]
    found = [(each, text[each.start : each.stop]) for text in texts for each in find(text)]
    assert {each.kind for each, _ in found} == kinds
    assert {written for _, written in found} <= {"name@example.com"}
    assert sum(text.count("name@example.com") for text in texts) == len(found)


def test_found_is_sorted_and_plain() -> None:
    assert find("a@b.cn") == [Found(0, 6, "email", "", "form")]
