"""Personal data on a page: every find in its place with its kind and reason, the doubtful first; data stays data."""

from __future__ import annotations

import re

from prep_lib.record import Document
from prep_lib.text.pii import EVIDENCE, Pii, find
from widgets.pii.page import EACH, MOST, SOURCES, view


def toy() -> list[Document]:
    """A sure find, a doubtful one beside a sure one, and nothing."""
    return [
        Document("a", "Paid with 4539 5787 6362 1486 in May.", "mail"),
        Document("b", "编号13812345678，邮箱kim@mail.cn。", "web"),
        Document("c", "Nothing here but <EMAIL>.", "web"),
    ]


def test_finds_are_counted_by_kind_and_source() -> None:
    shown = view(toy())
    assert repr(shown) == "<personal data: 3 finds in 2 of 3 documents>"
    assert "3 finds in 2 of 3 documents" in shown.html
    rows = re.findall(r"<tr>(.*?)</tr>", shown.html)
    cells = [[re.sub(r"</?div[^>]*>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in rows]
    assert ["card", "payment cards", "&lt;CARD&gt;", "1", "1", "1", "0", "0", "0"] in cells
    assert ["web", "2", "1", "50.0 %", "1", "0", "1"] in cells


def test_a_find_stands_in_its_place_with_kind_reason_and_placeholder() -> None:
    html = view(toy()).html
    assert "Paid with <b" in html
    chips = re.findall(r'<b class="chip (\w+)"><small>(.*?)</small>(.*?)</b><span class="dim"> → (.*?) </span>', html)
    assert chips == [
        ("ctl", "cn_mobile · only its shape", "13812345678", "&lt;CN_MOBILE&gt;"),
        ("on", "email · its form", "kim@mail.cn", "&lt;EMAIL&gt;"),
        ("on", "card · a check digit · visa", "4539 5787 6362 1486", "&lt;CARD&gt;"),
    ]
    assert "Paid with &lt;CARD&gt; in May." in html


def test_the_doubtful_come_first_and_every_kind_before_one_comes_again() -> None:
    docs = [Document(f"n{at}", "ping 93.184.216.34 a@b.cn 13812345678", "x") for at in range(MOST)]
    docs.append(Document("z", "DE89370400440532013000"))
    titles = re.findall(r"<h2>(n\d+ · x|z)</h2>", view(docs).html)
    assert titles[:3] == ["n0 · x", "z", "n1 · x"]
    assert len(titles) == MOST
    assert "1 more documents with finds" in view(docs).html


def test_finds_may_come_with_their_documents_and_a_stage_says_what_they_become() -> None:
    doc = toy()[1]
    only = [each for each in find(doc.text) if each.kind == "email"]
    stage = Pii(placeholders={"email": "[MAIL]"})
    html = view([(doc, only)], stage=stage).html
    assert "[MAIL]" in html
    assert "cn_mobile" not in html
    assert "13812345678" in html  # not found, so it is text beside a find


def test_values_can_be_hidden() -> None:
    html = view(toy(), reveal=False).html
    assert "4539 5787 6362 1486" not in html
    assert "•••• •••• •••• ••••" in html
    assert "kim@mail.cn" not in html
    assert "reveal=False" in view(toy()).html


def test_what_is_left_out_is_said() -> None:
    many = Document("many", " ".join(f"k{at}@mail.cn" for at in range(EACH + 3)))
    html = view([many]).html
    assert html.count('<b class="chip') == EACH
    assert "3 more finds" in html
    sources = [Document(str(at), "a@b.cn", f"s{at}") for at in range(SOURCES + 2)]
    assert "2 more sources" in view(sources).html
    long = Document("long", f"{'x' * 500} a@b.cn {'y' * 500}")
    assert "x" * 100 not in view([long]).html


def test_values_beyond_the_shown_ones_are_not_on_a_hidden_page() -> None:
    many = Document("many", ", ".join(f"k{at}@mail.cn" for at in range(EACH + 3)))
    assert not re.search(r"k\d+@mail", view([many], reveal=False).html)


def test_nothing_found() -> None:
    for docs in ([], [Document("1", "plain")]):
        html = view(docs).html
        assert "Nothing was found." in html
        assert "<table" not in html


def test_chinese() -> None:
    html = view(toy(), lang="zh").html
    assert 'lang="zh-CN"' in html
    assert "个人信息" in html
    assert "银行卡" in html


def test_data_is_escaped(nasty: str) -> None:
    html = view([Document(nasty, f"{nasty} kim@mail.cn {nasty}", nasty)]).html
    html.encode("utf-8")
    assert "<script" not in html
    assert "<img" not in html
    assert "\u202e" not in html


def test_the_same_documents_give_the_same_bytes_in_any_order() -> None:
    assert view(toy()).html == view(toy()[::-1]).html


def test_every_evidence_has_a_column() -> None:
    assert view(toy()).html.count('<th scope="col">') >= len(EVIDENCE)
