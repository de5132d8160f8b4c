"""A table's numbers come back from its file to the last digit, and no text in it is a formula."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.markup import Part, bar, number, percent, size, table
from prep_lib.safe import safe_html
from prep_lib.sheets import Sheets, csv_text, links

TEXT = st.text(st.characters(codec=None), max_size=20)


def read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


@settings(max_examples=60)
@given(st.lists(st.tuples(TEXT, st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False)))))
def test_numbers_come_back_and_texts_are_no_formulas(rows):
    text = csv_text(["text", "number"], rows)
    text.encode("utf-8")
    found = read(text)
    assert found[0] == ["text", "number"]
    assert [type(n)(cell) for (_, n), (_, cell) in zip(rows, found[1:], strict=True)] == [n for _, n in rows]
    for cell, _ in found[1:]:
        assert not cell.lstrip()[:1] or cell.lstrip()[0] not in "=+@" or cell[0] == "'"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"), ("+a", "'+a"), ("-a", "'-a"), ("@a", "'@a"), ("\t=1", "→=1"), ("＝1", "'＝1"), ("-5", "-5"),
        ("1,200", "1,200"), ("12.5 %", "12.5 %"), ("1.10", "1.10"), ("1e5", "1e5"), ("-1e5", "-1e5"), ("2024", "2024"),
        ("-1+1", "'-1+1"), (number(1200), "1200"), (number(2**60 + 1), str(2**60 + 1)),
        ("–", ""), (None, ""), (True, "true"), ("007", "007"),
        (percent(1, 3), "0.3333333333333333"), (size(45_678_901), "45678901"), (number(2.0), "2"),
        ("a\x00\u202e\ud800", "a[U+0000][U+202E][U+D800]"),
    ],
)  # fmt: skip
def test_a_cell(value, cell):
    assert read(csv_text(["a"], [[value]]))[1:] in ([[cell]], [[]] if not cell else [])


def test_links_stand_beside_the_tables_and_lead_to_their_numbers(tmp_path):
    one = table(["source", "share"], [("=web", percent(1, 3)), ("<b>", percent(1, 2))])
    words = table(["a", "b"], [("no", "number")], words=2)
    drawn = bar([Part("kept", 7, "kept 7,000"), Part("dropped", 3, "dropped 3")], 10, "read")
    sheets = Sheets(tmp_path, "10_a")
    page = links(safe_html(one + words + drawn), sheets, "2-1")
    assert page.count("<a ") == 2
    assert '</table><p class="small csv"><a href="csv/10_a-2-1-1.csv" download="10_a-2-1-1.csv">' in page
    files = {path.name: path.read_text("utf-8") for path in (tmp_path / "csv").iterdir()}
    assert files == {
        "10_a-2-1-1.csv": "source,share\n'=web,0.3333333333333333\n<b>,0.5\n",
        "10_a-2-1-bars.csv": "figure,part,value\nread,kept,7000\nread,dropped,3\n",
    }
    sheets.forget()
    assert list((tmp_path / "csv").iterdir()) == []
    assert links("<p>a</p>", sheets, "1") == "<p>a</p>"
    assert links(one, None, "1") == one


def test_a_text_that_looks_like_a_number_is_a_text_in_every_column(tmp_path):
    rows = [
        ["007", "1.10", 1200, "1,200"],
        ["2024", number(2.5, 2), percent(1, 8), "12.5 %"],
        [12345, 2**60 + 1, "7", ""],
    ]
    links(safe_html(table(["2024", "a", "b", "c"], rows)), Sheets(tmp_path, "p"), "t")
    assert read((tmp_path / "csv/p-t-1.csv").read_text())[:4] == [
        ["2024", "a", "b", "c"], ["007", "1.10", "1200", "1,200"], ["2024", "2.5", "0.125", "12.5 %"],
        ["12345", str(2**60 + 1), "7", ""],
    ]  # fmt: skip


def test_a_table_of_somebody_else_stays_as_it_is_written(tmp_path):
    import pandas as pd

    told = pd.DataFrame({"source": ["007", "1.10", "1,5"], "n": [1, 22, 333]}, index=["1.0", "2e3", "x"])
    links(safe_html(told.to_html()), Sheets(tmp_path, "p"), "t")
    assert read((tmp_path / "csv/p-t-1.csv").read_text())[1:] == [
        ["1.0", "007", "1"], ["2e3", "1.10", "22"], ["x", "1,5", "333"],
    ]  # fmt: skip


def test_a_part_of_a_bar_keeps_its_name_and_a_share_its_value(tmp_path):
    drawn = bar([Part("d0", 42, "2024 42"), Part("d1", 3, "web 2 1,003"), Part("d2", 1, "asked 12.5 %")], 100, "1.10")
    links(safe_html(drawn), Sheets(tmp_path, "p"), "t")
    assert read((tmp_path / "csv/p-t-bars.csv").read_text())[1:] == [
        ["1.10", "2024", "42"], ["1.10", "web 2", "1003"], ["1.10", "asked", "0.125"],
    ]  # fmt: skip


def test_a_label_pandas_writes_once_stands_in_each_of_its_rows(tmp_path):
    import pandas as pd

    index = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "x")], names=["one", "two"])
    links(pd.DataFrame({"n": [1234, 2, 3]}, index=index).to_html(), Sheets(tmp_path, "p"), "t")
    assert (tmp_path / "csv/p-t-1.csv").read_text().splitlines()[-3:] == ["a,x,1234", "a,y,2", "b,x,3"]
    links("<table><tr><td rowspan=999999 colspan=99999999>1</table>", Sheets(tmp_path, "q"), "t")


def test_without_a_folder_the_file_stands_in_the_link():
    link = Sheets(None, "p").link("t", ["a"], [['茶 #&"']])
    assert 'href="data:text/csv;charset=utf-8,a%0A%22%E8%8C%B6%20%23%26%22%22%22%0A"' in link
