"""One spelling for every way to write a host; lists that cover what they say and nothing beside it."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prep_lib.errors import BadInput, BadParameter
from prep_lib.keys import function_digest
from prep_lib.record import Document, Drop
from prep_lib.stage import run
from prep_lib.text.url import Url, fold_host, fold_url, url_words

LABEL = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
HOSTS = st.lists(LABEL, min_size=2, max_size=4).map(".".join)


def page(url: object, source: str = "web") -> Document:
    return Document("1", "text", source, {"url": url})


def reason(stage: Url, url: object) -> str | None:
    verdict = stage.judge(page(url))
    return verdict.reason if verdict else None


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com",
        "https://example.com/a",
        "HTTPS://EXAMPLE.COM/",
        "//example.com/x",
        "example.com",
        "example.com:8443/x",
        "http://example.com.",
        "http://user:pass@example.com:80/",
        "http://good.org@example.com/",
        "http:\\\\example.com\\a",
        "http:/example.com",
        " https://exam\nple.com/ ",
        "http://ex%61mple.com/",
        "http://ｅｘａｍｐｌｅ。com/",
        "ftp://example.com/file",
        "http://a.b.example.com/",
        "http://www.example.com./?q",
        "http://my_shop.example.com?x",
    ],
)
def test_a_host_is_found_however_it_is_written(url: str) -> None:
    assert reason(Url(block_hosts=["example.com"]), url) == "url_host"


@pytest.mark.parametrize(
    "url",
    [
        "http://notexample.com/",
        "http://example.com.evil.org/",
        "http://example.org/?u=http://example.com/",
        "http://example.org/#@example.com",
        "http://example.com@other.org/",
        "http://good.org\\@example.com/",
        "http://com/",
        "http://example.co/",
    ],
)
def test_another_host_is_not_covered(url: str) -> None:
    assert reason(Url(block_hosts=["example.com"]), url) is None


@given(HOSTS, LABEL)
def test_law_a_host_covers_its_subdomains_and_no_other_name_with_that_ending(host: str, label: str) -> None:
    stage = Url(block_hosts=[host])
    assert reason(stage, f"https://{label}.{host}/") == "url_host"
    assert reason(stage, f"https://{label}{host}/") is None


@given(st.text(max_size=60))
def test_law_any_text_gives_a_clear_result_and_folding_is_done_once(text: str) -> None:
    address = fold_url(text)
    assert reason(Url(), text) == (None if address or not text else "url_malformed")
    if address:
        assert fold_url(address.exact) == address
        assert address.exact.isascii()
    url_words(text)


@pytest.mark.parametrize(
    "bad",
    [
        "http://", "javascript:void(0)", "http://a b.com/", "http://[::1", "http://a..b/",
        "http://" + "a" * 64 + ".com", "http://" + "a." * 200 + "com", "http://host:port/", "http://<b>/", "file:///x",
        7, ["http://a.com"],
    ],
)  # fmt: skip
def test_a_malformed_url_is_a_drop_by_name_or_judged_by_its_words(bad: object) -> None:
    assert Url().judge(page(bad)) == Drop("url_malformed")
    assert Url(keep_malformed=True).judge(page(bad)) is None
    assert reason(Url(keep_malformed=True, block_words=["adult"]), "http:// adult") == "url_word"


@pytest.mark.parametrize("meta", [{}, {"url": None}, {"url": ""}])
def test_a_document_without_url_passes_all_but_the_list_of_sources(meta: dict[str, Any]) -> None:
    stage = Url(block_hosts=["example.com"], block_words=["text"], block_sources=["spam"])
    assert stage.judge(Document("1", "text", "web", meta)) is None
    assert stage.judge(Document("1", "text", "spam", meta)) == Drop("source")


def test_punycode_and_its_letters_are_one_host() -> None:
    for entry in ("bücher.example", "BÜCHER.example", "xn--bcher-kva.example", "Bu\u0308cher.example"):
        assert reason(Url(block_hosts=[entry]), "https://www.bücher.example/") == "url_host"
        assert reason(Url(block_hosts=[entry]), "https://XN--BCHER-KVA.example") == "url_host"


def test_public_suffixes_are_not_known_so_a_whole_top_level_domain_is_written_with_its_dot() -> None:
    stage = Url(block_hosts=["co.uk", ".xxx", "*.example.com"])
    hosts = ["shop.co.uk", "co.uk", "a.xxx", "xxx", "notxxx", "example.com", "a.example.com", "uk", "notco.uk"]
    found = [reason(stage, host) is not None for host in hosts]
    assert found == [True, True, True, True, False, True, True, False, False]
    with pytest.raises(BadParameter, match=r"an entry of block_hosts is 'com'; it must be a host, .* written \.com"):
        Url(block_hosts=["com"])


def test_an_ip_address_has_no_subdomains() -> None:
    stage = Url(block_hosts=["2.3.4.5", "[2001:DB8::1]"])
    assert reason(stage, "http://2.3.4.5:8080/") == "url_host"
    assert reason(stage, "http://[2001:0db8:0:0::1]/x") == "url_host"
    assert reason(stage, "http://1.2.3.4.5/") is None
    assert reason(Url(block_hosts=["3.4"]), "http://1.2.3.4/") is None


def test_exact_urls_differ_in_what_matters_alone() -> None:
    stage = Url(block_urls=["http://Example.com/a/Ä?x=1"])
    same = ["https://example.com:443/a/%c3%84?x=1", "example.com./a/Ä?x=1#top", "//u@EXAMPLE.com/a/%C3%84?x=1"]
    other = ["example.com/a/ä?x=1", "example.com/a/Ä?x=2", "example.com/a/Ä", "www.example.com/a/Ä?x=1",
             "example.com:81/a/Ä?x=1"]  # fmt: skip
    assert [reason(stage, url) for url in same + other] == ["url_exact"] * 3 + [None] * 5
    assert reason(Url(block_urls=["example.com"]), "https://example.com/") == "url_exact"


def test_words_hard_soft_and_parts() -> None:
    stage = Url(block_words=["Casino"], soft_words=["free", "girls", "live"], block_parts=["p0rn", "赌场"])
    found = {
        "https://casino.example/": Drop("url_word"),
        "https://example.com/CASINO-night": Drop("url_word"),
        "https://casinos.example/": None,
        "https://example.com/free": None,
        "https://example.com/free/free": None,
        "https://example.com/free/live": Drop("url_soft_words", 2, 1),
        "https://free.example/live_girls": Drop("url_soft_words", 3, 1),
        "https://example.com/xp-0rn": Drop("url_part"),
        "https://example.com/%E8%B5%8C%E5%9C%BA%E6%96%B0": Drop("url_part"),
    }
    assert {url: stage.judge(page(url)) for url in found} == found
    assert Url(soft_words=["free", "live"], soft_needed=1).judge(page("a.com/live")) == Drop("url_soft_words", 1, 0)


def test_what_is_allowed_wins_over_every_rule_of_the_url() -> None:
    lists = {"block_hosts": ["example.com"], "block_words": ["adult"], "block_parts": ["dul"]}
    stage = Url(**lists, allow_hosts=["ok.example.com"], allow_urls=["example.com/adult"], block_sources=["spam"])
    assert reason(stage, "http://a.ok.example.com/adult") is None
    assert reason(stage, "https://example.com/adult#x") is None
    assert reason(stage, "https://example.com/adult/2") == "url_host"
    assert stage.judge(page("http://ok.example.com/", "spam")) == Drop("source")


def test_the_entry_is_told() -> None:
    stage = Url(block_hosts=["b.example"], soft_words=["x", "y"])
    assert stage.find(page("http://a.b.example/")) == (Drop("url_host"), "b.example")
    assert stage.find(page("http://a.com/y/x")) == (Drop("url_soft_words", 2, 1), "x y")
    assert stage.find(page("http://a.com/")) is None


def test_files_plain_or_gz_with_comments(tmp_path: Path) -> None:
    text = "\ufeff# hosts\n\nexample.com  # the first\r\n  Bücher.example\n"
    (tmp_path / "a.txt").write_text(text, "utf-8", newline="")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "urls").write_text("example.org/a#b\n", "utf-8")
    expected = frozenset({"example.com", "xn--bcher-kva.example"})
    assert Url(block_hosts=tmp_path / "a.txt").block_hosts == expected
    assert Url(block_hosts=str(tmp_path / "a.txt.gz")).block_hosts == expected
    assert Url(block_urls=tmp_path / "urls").block_urls == {"example.org/a"}
    assert Url(block_hosts="").block_hosts == frozenset()


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("block_hosts", "http://example.com/", "it must be a host, such as example.com"),
        ("block_hosts", "0.0.0.0 example.com", "it must be a host"),
        ("block_hosts", "com", "a whole top-level domain is written .com"),
        ("block_words", "two words", "it must be one word of letters and digits"),
        ("soft_words", "a-b", "it must be one word"),
        ("block_parts", "--", "it must be letters or digits"),
        ("allow_urls", "http://", "it must be a URL"),
    ],
)
def test_a_bad_line_is_one_error_with_its_number(tmp_path: Path, name: str, line: str, said: str) -> None:
    path = tmp_path / "list.txt"
    path.write_text(f"# a list\nfine.example\n{line}\n".replace("fine.example", "" if "hosts" not in name else "a.b"))
    with pytest.raises(BadInput, match=rf"^text/url: line 3 \(.*list\.txt\) of {name} is {line!r}; ") as error:
        Url(**{name: path})
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cannot read block_hosts .*: No such file"):
        Url(block_hosts=tmp_path / "none.txt")
    (tmp_path / "latin.txt").write_bytes(b"a.b\nb\xfccher.de\n")
    with pytest.raises(BadInput, match=r"line 2 of block_hosts .* is not UTF-8"):
        Url(block_hosts=tmp_path / "latin.txt")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"a.b\n" * 999)[:-9])
    with pytest.raises(BadInput, match=r"of block_hosts .* cannot be read: cut_stream"):
        Url(block_hosts=tmp_path / "cut.gz")


@pytest.mark.parametrize(
    "nonsense",
    [{"block_hosts": 3}, {"block_words": [3]}, {"block_sources": [""]}, {"soft_needed": 0}, {"soft_needed": "2"}],
)
def test_nonsense_is_refused_at_birth(nonsense: dict[str, Any]) -> None:
    with pytest.raises(BadParameter, match="text/url"):
        Url(**nonsense)


def test_pickle_and_digest_carry_the_lists(tmp_path: Path) -> None:
    path = tmp_path / "hosts.txt"
    path.write_text("example.com\n")
    stage = Url(block_hosts=path)
    path.write_text("other.example\n")
    copy = pickle.loads(pickle.dumps(stage))
    assert copy == stage
    assert reason(copy, "http://example.com/") == "url_host"
    assert function_digest(stage) == function_digest(Url(block_hosts=["EXAMPLE.com"])) is not None
    assert function_digest(stage) != function_digest(Url(block_hosts=path))


def test_it_is_a_stage_and_the_ledger_balances() -> None:
    docs = [page("http://a.example/"), page("http://b.example/"), Document("3", "text")]
    result = run([Url(block_hosts=["a.example"])], docs)
    assert (len(result.kept), result.ledger.reasons("url", "dropped")) == (2, {"url_host": 1})


def test_a_host_too_long_for_any_name_server_is_none() -> None:
    assert fold_host("a." * 126 + "a") == "a." * 126 + "a"
    assert fold_host("a." * 127 + "a") is None
