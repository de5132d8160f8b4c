"""What is shared holds no word of the data, in whatever spelling; it is one small file without script, and repeats."""

from __future__ import annotations

import base64
import html
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from toy_runs import instantly, workspace, write_cell
from toy_twins import CANARIES, TEXT, twins

from prep_lib.alerts import Alert
from prep_lib.comparison import compare_runs
from prep_lib.errors import BadParameter
from prep_lib.ledger import Ledger
from prep_lib.markup import Html
from prep_lib.press import run_recipe
from prep_lib.recipes import read
from prep_lib.share import Section, fit, share
from prep_lib.workspace import Run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    return twins(tmp_path_factory.mktemp("quetzalcoatl") / "ws")


def spellings(word: str) -> set[str]:
    """A word as a page might hide it: escaped, in an address, in base64 at each of three places, in hex."""
    plain = {word, word.upper(), word.title()}
    raw = {form.encode(code) for form in plain for code in ("utf-8", "utf-16-be", "utf-16-le", "gb18030")}
    packed = {base64.b64encode(b"\0" * shift + one)[4:-4].decode() for one in raw for shift in range(3)}
    escaped = {"".join(f"{mark}{ord(char):{form}}" for char in word) for mark, form in (("&#x", "x"), ("\\u", "04x"))}
    return plain | {quote(one) for one in plain} | {one.hex() for one in raw} | packed | escaped


def leaks(content: bytes) -> set[str]:
    """The canaries a file holds, tags and blanks between their letters taken out too."""
    text = content.decode("utf-8", "replace")
    bare = html.unescape(re.sub(r"<[^>]*>|U\+[0-9A-F]{4}", "", text))
    squeezed = re.sub(r"[\s·↵→]+", "", bare)
    everywhere = [text.lower(), html.unescape(text).lower(), bare.lower(), squeezed.lower(), content.decode("latin-1")]
    octal = re.sub(rb"\\(\d{3})", lambda found: bytes([int(found[1], 8)]), content)
    everywhere += [octal[shift:].decode("utf-16-be", "replace").lower() for shift in (0, 1)]
    return {
        word
        for word in CANARIES
        for form in spellings(word) | {word[:6], word[-6:]}
        if len(form) > 3 and any(form.lower() in place.lower() for place in everywhere)
    }


@pytest.mark.parametrize("samples", ["none", "masked"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_no_word_of_the_data_leaves(runs: tuple[Run, Run], tmp_path: Path, samples: str, lang: str) -> None:
    found = compare_runs(*runs)
    for number, other in enumerate((None, found)):
        files = share(runs[0], other, samples=samples, lang=lang, out=tmp_path / f"{number}.html")
        for file in files:
            assert not leaks(file.read_bytes()), file
            assert b"/home/" not in file.read_bytes()


DIGITS = ("13800138000", "4155550001", "4155550002", "4155550003", "4155559999")


def test_no_name_of_digits_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources, reasons, stages, files, folders and parameters may all be somebody's number."""
    ws = workspace(tmp_path)
    write_cell(ws, "10_read", 'run = ""  # which\nn = 4  # rows\nmine = ""  # anything\n')

    def work(values: dict[str, Any], run: Run) -> None:
        ledger = Ledger(stages=["read", DIGITS[1]])
        for stage in ledger.stages:
            for flow, n in {"in": 200, "dropped": 150 + values["n"], "failed": 1, "kept": 49 - values["n"]}.items():
                ledger.add(stage, flow, DIGITS[0], DIGITS[2] if flow in ("dropped", "failed") else "", documents=n)
        (run.data / "ledger.json").write_text(ledger.to_json())
        (run.data / DIGITS[3]).mkdir()
        (run.data / DIGITS[3] / f"{DIGITS[1]}.bin").write_bytes(b"x")

    instantly(monkeypatch, {"10_read": work})
    runs = [Run(ws, "r"), Run(ws, "s")]
    (ws / "r.yaml").write_text("notebooks: [10_read]")
    for run, given in zip(runs, ((), ("10.n=7", f"10.mine=/home/ann/{DIGITS[4]}")), strict=True):
        run_recipe(read("r.yaml", ws, given), run, tell=lambda _: None)
    for samples in ("none", "masked", "full"):
        for number, (one, other) in enumerate((runs, runs[::-1])):
            for file in share(one, compare_runs(one, other), samples=samples, out=tmp_path / f"{samples}{number}.html"):
                seen = [name for name in DIGITS if name.encode() in file.read_bytes()]
                assert bool(seen) == (samples == "full"), (file, seen)
                assert b"/home/ann" not in file.read_bytes(), file


def test_the_page_of_pdf_keeps_the_worst_warnings_and_that_it_is_a_sample(
    runs: tuple[Run, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = {"notebook": "12_dedup"}
    found = [Alert("bad", "failed", notebook | {"text": f"cause {n}", "again": "x"}) for n in range(5)]
    found += [Alert("bad", "more", {"n": 40}), Alert("bad", "reveal", notebook), *[Alert("warn", "pii", notebook)] * 3]
    found += [Alert("warn", "sample", notebook | {"n": n}) for n in (3, 4)] + [Alert("warn", "built_in", {})]
    monkeypatch.setattr("prep_lib.share.alerts", lambda _: found)
    everywhere = ["And 40 more", "12_dedup read only a sample of 3", "5 more warnings stand in the page"]
    for samples, told in (("full", [*everywhere, "cause 4", "text from this machine"]), ("masked", everywhere)):
        pdf = share(runs[0], samples=samples, out=tmp_path / f"{samples}.html")[1].read_bytes()
        for part in told:
            assert part.encode() in pdf, part
        assert b"sample of 4" not in pdf
        assert b"reveal" not in pdf
    few = found[-3:]
    monkeypatch.setattr("prep_lib.share.alerts", lambda _: few)
    assert b"more warnings" not in share(runs[0], samples="full", out=tmp_path / "few.html")[1].read_bytes()
    few.insert(0, Alert("bad", "more", {"n": 40}))
    monkeypatch.setattr("prep_lib.share.WARNINGS", 0)
    assert b"41 more warnings" in share(runs[0], samples="full", out=tmp_path / "some.html")[1].read_bytes()


def test_full_shows_the_texts_and_so_the_test_can_fail(runs: tuple[Run, Run], tmp_path: Path) -> None:
    page, _ = share(runs[0], compare_runs(*runs), samples="full", out=tmp_path / "full.html")
    assert b"secret.jsonl" in page.read_bytes()
    assert b"/home/" not in page.read_bytes()
    assert leaks(page.read_bytes()) == set(CANARIES)
    assert leaks(TEXT.encode()) == set(CANARIES)
    assert leaks(base64.b64encode(TEXT.encode())) == set(CANARIES)
    assert leaks("".join(f"<b>{char}</b>" for char in TEXT).encode()) == set(CANARIES)
    assert leaks("".join(f"\\{byte:03o}" for byte in TEXT.encode("utf-16-be")).encode()) == set(CANARIES)
    assert not leaks(b"the words of this house")


def test_masked_shows_shapes_and_none_shows_none(runs: tuple[Run, Run], tmp_path: Path) -> None:
    masked, none = (
        share(runs[0], samples=samples, out=tmp_path / f"{samples}.html")[0].read_text("utf-8")
        for samples in ("masked", "none")
    )
    shape = "Xxx Xxxxxxxxxxxx xx 某某某某 xxxxx 0000000000,"
    assert shape in masked
    assert 'class="chip on"' in masked
    assert shape not in none
    assert "某某" not in none
    for page in (masked, none):
        assert "too_few_chars" in page
        assert "reason 1" in page
        assert "quetz" not in page


def test_names_are_shown_when_they_may_be(runs: tuple[Run, Run], tmp_path: Path) -> None:
    page, _ = share(runs[0], names=True, samples="none", out=tmp_path / "named.html")
    text = page.read_text("utf-8")
    assert "quetzalcoatl0" in text
    assert CANARIES[1] not in text
    assert CANARIES[2] not in text


@pytest.mark.parametrize("samples", ["none", "masked", "full"])
def test_one_file_without_script_or_neighbours_and_the_same_again(
    runs: tuple[Run, Run], tmp_path: Path, samples: str
) -> None:
    found = compare_runs(*runs)
    first, second = (share(runs[0], found, samples=samples, out=tmp_path / name) for name in ("1.html", "2.html"))
    page = first[0].read_text("utf-8")
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]
    assert len(page.encode()) < 2_000_000
    assert "<script" not in page
    assert "onerror=alert" not in re.sub(r"&lt;.*?&gt;", "", page)
    assert "Content-Security-Policy" in page
    assert {link for link in re.findall(r'href="([^"]*)"', page) if not link.startswith("#")} == set()
    ids = re.findall(r'\sid="?([^\s">]+)', re.sub(r"&lt;.*?&gt;", "", page))
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in re.findall(r'href="(#[^"]+)"', page)} <= set(ids)
    assert str(tmp_path) not in page
    assert first[1].read_bytes().startswith(b"%PDF")


def test_what_does_not_fit_goes_samples_first_and_it_is_said() -> None:
    def section(name: str, kind: str, count: int) -> Section:
        return Section(name, name.title(), Html(f"<p>{name}</p>" * count), kind)

    told = [section("summary", "head", 10), section("words", "sample", 3000), section("lists", "table", 3000)]
    told += [section("letters", "sample", 5000)]
    whole = fit("T", told, "en")
    assert all(f"<p>{section.name}</p>" in whole for section in told)
    small = fit("T", told, "en", limit=len(whole.encode()) - 1)
    assert "<p>letters</p>" not in small
    assert "<p>words</p>" in small
    assert "Left out to keep this file small: Letters (70 kB)." in small
    least = fit("T", told, "en", limit=30_000)
    assert "<p>summary</p>" in least
    assert not any(f"<p>{name}</p>" in least for name in ("words", "letters", "lists"))


def test_links_between_pages_become_links_between_sections() -> None:
    page = fit("T", [
        Section("index", "Index", Html('<a href="15_pack.html">pack</a><a href="csv/a.csv">csv</a><b id=x>x</b>')),
        Section("15_pack", "Pack", Html('<a href="#x">x</a><b id="x">&lt;a id=x href="y"&gt;</b>'), "page"),
    ], "en")  # fmt: skip
    assert 'href="#15_pack">pack' in page
    assert "csv/a.csv" not in page
    assert 'id="index-x"' in page
    assert 'href="#15_pack-x"' in page
    assert '&lt;a id=x href="y"&gt;' in page


def test_what_is_asked_wrongly_is_said_before_anything_is_written(runs: tuple[Run, Run], tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="share: samples is one of none, masked, full; got 'some'"):
        share(runs[0], samples="some", out=tmp_path / "a.html")
    with pytest.raises(BadParameter, match=r"share: the file must end in \.html, got 'a\.pdf'"):
        share(runs[0], out=tmp_path / "a.pdf")
    assert not list(tmp_path.iterdir())
