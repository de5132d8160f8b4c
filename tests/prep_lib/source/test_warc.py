"""Web archives: every record is accounted for, and a damaged one never takes the next."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path

import fsspec
import pytest
import zstandard
from conftest import shared
from fastwarc.stream_io import BrotliWriter
from fastwarc.warc import ArchiveIterator
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib import corpus
from prep_lib.errors import BadRecord
from prep_lib.files import Span
from prep_lib.record import Document, Drop
from prep_lib.source import warc
from prep_lib.source.warc import documents

PAGE = b"<!doctype html><title>one</title><p>The wind decided whether the boat could land.</p>"


def http(body: bytes = PAGE, *more: str, kind: str = "text/html", status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Type: {kind}", *more]).encode() + b"\r\n\r\n" + body


def record(block: bytes, kind: str = "response", length: object = None, end: bytes = b"\r\n\r\n") -> bytes:
    size = len(block) if length is None else length
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: <http://a.example/>\r\nContent-Length: {size}\r\n\r\n"
    return head.encode() + block + end


def read(data: bytes, packed: str = "", **options: int) -> list[tuple[str, str]]:
    """What is told of an archive: place, and the text or the reason."""
    address = f"memory://warc/a.warc{packed}"
    with fsspec.open(address, "wb") as file:
        file.write(data)
    told = []
    for place, found in documents(Span(address), name="a", **options):
        assert place.startswith("a@") or place == "a"
        told.append((place.removeprefix("a@"), found.text.strip() if isinstance(found, Document) else found.reason))
    return told


def texts(data: bytes, packed: str = "", **options: int) -> list[str]:
    return [text for _, text in read(data, packed, **options)]


def numbered(count: int) -> list[bytes]:
    return [record(http(b"<p>page %d %s" % (number, b"." * 40 * number))) for number in range(count)]


def words(told: list[str]) -> list[str]:
    return [text[3:9] if text.startswith("<p>") else text for text in told]


# What is a document


def test_a_page_tells_where_it_is_from() -> None:
    block = http(PAGE, kind="text/html; charset=UTF-8")
    data = record(block).replace(
        b"WARC-Type", b"WARC-Date: 2026-03-01T12:00:00Z\r\nWARC-Truncated: length\r\nWARC-Type"
    )
    with fsspec.open("memory://warc/b.warc", "wb") as file:
        file.write(data)
    (found,) = documents(Span("memory://warc/b.warc"), name="crawl/b.warc")
    assert found == (
        "crawl/b.warc@0",
        Document(
            "crawl/b.warc@0", PAGE.decode(), "crawl/b.warc",
            {"url": "http://a.example/", "date": "2026-03-01T12:00:00Z", "truncated": "length", "status": 200,
             "content_type": "text/html", "format": "html", "encoding": "utf-8", "encoding_by": "http"},
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        *[(record(b"x: y", kind), f"warc_{kind}") for kind in ("warcinfo", "request", "metadata", "revisit")],
        (record(b"x", "continuation"), "warc_continuation"),
        (record(b"x", "made up"), "warc_other"),
        (record(http(status="404 Not Found")), "http_status"),
        (record(http(status="304 Not Modified")), "http_status"),
        (record(b"HTTP/1.1 what\r\n\r\nx"), "http_status"),
        (record(http(b"\x89PNG", kind="image/png")), "content_type"),
        (record(http(b"a{}", kind="text/css")), "content_type"),
        (record(http(b"nothing like a page", kind="")), "content_type"),
        (record(http(bytes(range(256)) * 3)), "not_text"),
        (record(http(PAGE * 100)), "too_large"),
        (record(http(gzip.compress(bytes(10**6)), "Content-Encoding: gzip")), "too_large"),
    ],
)
def test_what_is_no_document_has_a_reason(stored: bytes, reason: str) -> None:
    assert read(stored + record(http()), max_bytes=5000) == [("0", reason), (str(len(stored)), PAGE.decode())]


def test_http_status_and_size_are_told_as_numbers() -> None:
    with fsspec.open("memory://warc/c.warc", "wb") as file:
        file.write(record(http(status="503 Busy")) + record(http(PAGE * 10)))
    found = [drop for _, drop in documents(Span("memory://warc/c.warc"), max_bytes=500)]
    assert found == [Drop("http_status", 503), Drop("too_large", len(http(PAGE * 10)), 500)]


def test_pages_are_known_by_their_looks_where_no_type_is_told() -> None:
    untold = b"HTTP/1.0 200 OK\r\n\r\n" + PAGE
    assert texts(record(untold) + record(http(kind="application/octet-stream"))) == [PAGE.decode()] * 2
    resource = record(PAGE, "resource").replace(b"WARC-Type", b"Content-Type: text/html\r\nWARC-Type")
    assert texts(resource) == [PAGE.decode()]


def brotli(data: bytes) -> bytes:
    out = io.BytesIO()
    writer = BrotliWriter(out)
    writer.write(data)
    writer.close()
    return out.getvalue()


def skippable(content: bytes, kind: int = 13) -> bytes:
    """A frame of zstd without data; the kind 13 may hold a dictionary."""
    return bytes([0x50 + kind]) + b"\x2a\x4d\x18" + len(content).to_bytes(4, "little") + content


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def chunked(*pieces: bytes, end: bytes = b"0\r\n\r\n", size: str = "%x\r\n") -> bytes:
    return b"".join((size % len(piece)).encode() + piece + b"\r\n" for piece in pieces) + end


CHUNKED = "Transfer-Encoding: chunked"


@pytest.mark.parametrize(
    "block",
    [
        http(gzip.compress(PAGE), "Content-Encoding: gzip"),
        http(gzip.compress(PAGE), "content-encoding: X-GZIP"),
        http(gzip.compress(PAGE) + b"\0\0xyz", "Content-Encoding: gzip"),
        http(zlib.compress(PAGE), "Content-Encoding: deflate"),
        http(raw_deflate(PAGE), "Content-Encoding: deflate"),
        http(brotli(PAGE), "Content-Encoding: br"),
        http(zstandard.compress(PAGE), "Content-Encoding: zstd"),
        http(zstandard.compress(PAGE[:9]) + skippable(b"x") + zstandard.compress(PAGE[9:]), "Content-Encoding: zstd"),
        http(skippable(b"x" * 9000) + zstandard.compress(PAGE) + b"xyz", "Content-Encoding: zstd"),
        http(gzip.compress(PAGE[:9]) + gzip.compress(PAGE[9:]), "Content-Encoding: gzip"),
        http(PAGE, "Content-Encoding: zstd"),
        http(gzip.compress(zlib.compress(PAGE)), "Content-Encoding: deflate, gzip"),
        http(PAGE, "Content-Encoding: gzip"),
        http(PAGE, "Content-Encoding: br"),
        http(PAGE, "Content-Encoding: utf-8"),
        http(chunked(PAGE[:16], PAGE[16:]), CHUNKED),
        http(chunked(PAGE[:16], PAGE[16:], size="%X ;name=value\r\n"), CHUNKED),
        http(chunked(PAGE, end=b""), CHUNKED),
        http(chunked(PAGE, end=b"0\r\nTrailer: x\r\n\r\n"), CHUNKED),
        http(chunked(gzip.compress(PAGE)), CHUNKED, "Content-Encoding: gzip"),
        http(PAGE, CHUNKED),
        b"\n".join([b"HTTP/1.1 200 OK", b"Content-Type: text/html", b"", PAGE]),
        http(PAGE, "Folded: one\r\n  two", "no colon here"),
        http(b"\r\n" + PAGE),
    ],
)
def test_however_a_server_packed_it_the_page_comes_out(block: bytes) -> None:
    assert texts(record(block)) == [PAGE.decode()]


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (http(gzip.compress(PAGE * 9)[:-12], "Content-Encoding: gzip"), "bad_content_encoding"),
        (http(b"\x1f\x8b\x08\x00" + bytes(range(128, 250)), "Content-Encoding: gzip"), "bad_content_encoding"),
        (http(gzip.compress(PAGE) + gzip.compress(PAGE)[:-12], "Content-Encoding: gzip"), "bad_content_encoding"),
        (http(zstandard.compress(PAGE * 9)[:-5], "Content-Encoding: zstd"), "bad_content_encoding"),
        (http(zstandard.compress(PAGE)[:5], "Content-Encoding: zstd"), "bad_content_encoding"),
        (http(zstandard.compress(PAGE) * 2 + b"\x28\xb5\x2f\xfd", "Content-Encoding: zstd"), "bad_content_encoding"),
        (http(b"", "Content-Encoding: zstd"), "bad_content_encoding"),
        (http(brotli(PAGE * 9)[:-5], "Content-Encoding: br"), "bad_content_encoding"),
        (http(b"\x8b" * 90, "Content-Encoding: br"), "bad_content_encoding"),
        (http(chunked(PAGE)[:-30], CHUNKED), "bad_chunks"),
        (http(chunked(PAGE[:16]) .removesuffix(b"0\r\n\r\n") + b"no chunk", CHUNKED), "bad_chunks"),
    ],
)  # fmt: skip
def test_half_a_page_is_a_failed_record(block: bytes, reason: str) -> None:
    assert texts(record(block) + record(http())) == [reason, PAGE.decode()]


def test_the_charset_of_the_header_decides() -> None:
    block = http("<p>ёлка</p>".encode("koi8-r"), kind='text/html; charset="KOI8-R"')
    assert texts(record(block)) == ["<p>ёлка</p>"]


def test_bug_006_chunks_leave_no_numbers_in_the_page() -> None:
    path = shared("warc/warcio/example-iana.org-chunked.warc")
    (found,) = [found for _, found in documents(Span(str(path))) if isinstance(found, Document)]
    assert found.text.startswith(
        "<!doctype html>\n<html>\n<head>\n\t<title>Internet Assigned Numbers Authority</title>"
    )
    assert found.text.rstrip().endswith("</html>")
    assert "damage" not in found.meta


def test_bug_007_an_extra_blank_line_and_a_length_two_too_small() -> None:
    block = http(b"\r\n" + PAGE)
    assert read(record(block, length=len(block) - 2) + record(http())) == [
        ("0", PAGE.decode()),
        (str(len(record(block))), PAGE.decode()),
    ]
    assert texts(record(block, length=len(block) - 2)) == [PAGE.decode()]


@pytest.mark.parametrize("wrong", [-40, -1, 1, 3, 100, 300])
def test_bug_008_a_wrong_length_ends_at_the_next_record(wrong: int) -> None:
    _, second, third = numbered(3)
    block = http(b"<p>page 0 " + b"." * 60)
    first = record(block, length=len(block) + wrong)
    told = read(first + second + third)
    assert words([text for _, text in told]) == ["page 0", "page 1", "page 2"]
    assert told[0][1] == "<p>page 0 " + "." * 60
    assert [place for place, _ in told] == ["0", f"{len(first)}", f"{len(first + second)}"]


def test_a_wrong_length_is_said() -> None:
    with fsspec.open("memory://warc/d.warc", "wb") as file:
        file.write(record(http(), length=7) + record(http()))
    metas = [found.meta for _, found in documents(Span("memory://warc/d.warc")) if isinstance(found, Document)]
    assert [meta.get("damage") for meta in metas] == ["wrong_length", None]


@pytest.mark.parametrize("length", ["", "-1", "abc", "1e3", "9" * 30])
def test_a_header_that_cannot_be_read_costs_its_record(length: str) -> None:
    first, _, third = numbered(3)
    assert words(texts(first + record(http(), length=length) + third)) == ["page 0", "bad_header", "page 2"]


@pytest.mark.parametrize(
    "junk", [b"junk", b"\x00" * 5000, b"WARC-Type: response\r\n\r\nx\r\n\r\n", b"WARC/1.0\r\n" * 9]
)
def test_junk_between_records_is_one_failed_record(junk: bytes) -> None:
    first, second = numbered(2)
    told = words(texts(first + junk + b"\r\n\r\n" + second))
    assert (told[0], told[-1]) == ("page 0", "page 1")
    assert all(reason in ("no_record_header", "bad_header") for reason in told[1:-1])
    assert len(told) == 3 or junk.startswith(b"WARC/1.0")


def test_a_length_beyond_the_file_is_neither_held_nor_believed() -> None:
    first, second, third = numbered(3)
    for length in (10**6, 10**12, 10**17):
        data = first + record(http(), length=length) + second + third
        told = words(texts(data, max_bytes=2**16))
        assert told == ["page 0", "wrong_length", "page 1", "page 2"]
        packed = b"".join(map(gzip.compress, (first, record(http(), length=length), second, third)))
        assert words(texts(packed, max_bytes=2**16)) == told


def test_a_page_that_quotes_a_record_is_one_page() -> None:
    quoted = b"<pre>\r\n\r\n" + record(b"x", "request") + b"</pre>"
    assert texts(record(http(quoted)) + record(http())) == [quoted.decode(), PAGE.decode()]


def placed(pack, parts: list[bytes]) -> bytes:
    return b"".join(map(pack, parts))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_record_whose_header_is_cut_never_takes_the_next(pack) -> None:
    """Wherever it is cut, within a line or behind one, and the next one follows without a line end."""
    first, second, third, fourth = numbered(4)
    for cut in range(1, len(second)):
        told = words(texts(placed(pack, [first, second[:cut], third, fourth])))
        assert (told[0], *told[-2:]) == ("page 0", "page 2", "page 3"), cut
        assert len(told) == 4
        in_header = cut < second.index(b"\r\n\r\n") + 4
        assert not in_header or told[1] in ("no_record_header", "bad_header"), cut


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_whatever_length_a_record_tells_its_neighbours_are_read(pack) -> None:
    """Also one that ends where another record does, so that all in between would pass for a part of the page."""
    first, second, third, fourth = numbered(4)
    block = second[second.index(b"HTTP/") :].removesuffix(b"\r\n\r\n")
    for length in range(0, len(second + third + fourth) + 20):
        told = words(texts(placed(pack, [first, record(block, length=length), third, fourth])))
        assert (told[0], *told[-2:]) == ("page 0", "page 2", "page 3"), length
        # What is left behind a blank line at which the record says it ends is a damaged record of its own.
        assert len(told) == 4 or told[2:-2] == ["no_record_header"]


def test_an_archive_that_is_a_page_is_one_record() -> None:
    inner = b"".join(numbered(2))
    told = texts(record(http(inner, kind="text/plain")) + record(inner, "metadata") + record(http()))
    assert told == [inner.decode().strip(), "warc_metadata", PAGE.decode()]


# Packed archives


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_members_and_places_in_them(pack) -> None:
    first, second, third = numbered(3)
    one, two = pack(first), pack(second + third)
    assert [place for place, _ in read(first + second)] == ["0", str(len(first))]
    assert [place for place, _ in read(one + two)] == ["0", str(len(one)), f"{len(one)}+{len(second)}"]
    # A record may go on in the next member.
    halves = pack(first + second[:100]) + pack(second[100:] + third)
    assert words(texts(halves)) == ["page 0", "page 1", "page 2"]
    assert words(texts(one + bytes(512) + two)) == ["page 0", "page 1", "page 2"] or pack is zstandard.compress


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_one_damaged_member_costs_itself(data: st.DataObject) -> None:
    """Whatever byte of it is changed, all the other records are read."""
    members = [gzip.compress(stored, mtime=0) for stored in numbered(5)]
    hit = data.draw(st.integers(0, 4))
    at = data.draw(st.integers(0, len(members[hit]) - 1))
    damaged = bytearray(members[hit])
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    found = read(b"".join([*members[:hit], bytes(damaged), *members[hit + 1 :]]), ".gz")
    assert len({place for place, _ in found}) == len(found)
    told = words([text for _, text in found])
    others = [f"page {number}" for number in range(5) if number != hit]
    assert [text for text in told if text in others] == others
    # A flipped bit of the member's own header (its time, the file system) may mean nothing.
    assert len(told) >= 5 or at < 10


_PAGES = [f"page {number}" for number in range(4)]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_a_cut_archive_gives_all_before_the_cut(cut: int, packed: bool) -> None:
    stored = [gzip.compress(one) if packed else one for one in numbered(4)]
    whole = b"".join(stored)
    cut %= len(whole)
    told = words(texts(whole[:cut], ".gz" if packed else ""))
    ends = [sum(map(len, stored[: number + 1])) for number in range(4)]
    complete = [f"page {number}" for number, end in enumerate(ends) if end <= cut]
    assert told[: len(complete)] == complete
    rest = told[len(complete) :]
    # Of the last record only the checksum or the blank line behind it may be missing.
    assert set(rest) <= {"no_records", "no_record_header", "bad_header", "cut_record", "cut_stream", *_PAGES}
    assert len(rest) <= 1 + (rest[:1] == [f"page {len(complete)}"])


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=400), st.booleans())
def test_no_bytes_stop_the_reader(junk: bytes, packed: bool) -> None:
    first, last = numbered(2)
    pack = gzip.compress if packed else bytes
    told = words(texts(pack(first) + junk + b"\r\n\r\n" + pack(last), ".gz" if packed else ""))
    assert (told[0], told[-1]) == ("page 0", "page 1")


def test_a_member_inside_a_damaged_one_is_not_taken_for_a_record() -> None:
    inner = record(http(gzip.compress(PAGE * 20), "Content-Encoding: gzip"))
    member = bytearray(gzip.compress(inner, 0))
    member[40] ^= 0xFF
    assert words(texts(bytes(member) + gzip.compress(numbered(1)[0]))) == ["damaged_member", "page 0"]


def test_garbage_behind_the_last_member_is_one_failed_record() -> None:
    assert words(texts(gzip.compress(numbered(1)[0]) + bytes(16) + b"xyz")) == ["page 0", "bytes_after_stream"]


def with_dictionary(parts: list[bytes]) -> tuple[bytes, list[bytes]]:
    """A dictionary and the records packed with it, which nobody reads without."""
    samples = [b"%d %s" % (number, record(http(PAGE))) for number in range(300)]
    dictionary = zstandard.train_dictionary(4000, samples)
    packer = zstandard.ZstdCompressor(dict_data=dictionary)
    return dictionary.as_bytes(), [packer.compress(part) for part in parts]


@pytest.mark.parametrize("packed", ["", ".zst"])
@pytest.mark.parametrize("pack", [bytes, zstandard.compress])
def test_an_archive_in_zstd_may_bring_its_dictionary(pack, packed: str) -> None:
    parts = numbered(3)
    dictionary, members = with_dictionary(parts)
    frame = skippable(pack(dictionary))
    data = frame + members[0] + skippable(b"an index", 3) + members[1] + skippable(b"", 0) + members[2]
    told = read(data, packed)
    assert words([text for _, text in told]) == ["page 0", "page 1", "page 2"]
    assert [int(place) for place, _ in told] == [data.index(member) for member in members]
    # A record that is too long is gone back to with the dictionary at hand.
    wrong = with_dictionary([parts[0], record(http(), length=10**6), parts[2]])[1]
    assert words(texts(frame + b"".join(wrong), packed, max_bytes=5000)) == ["page 0", "wrong_length", "page 2"]


@pytest.mark.parametrize("content", [b"", b"an index", b"x" * 10**5])
def test_frames_without_data_are_passed_over(content: bytes) -> None:
    first, second = map(zstandard.compress, numbered(2))
    for kind in range(13):
        assert words(texts(skippable(content, kind) + first + skippable(content) + second)) == ["page 0", "page 1"]


def test_a_dictionary_that_cannot_be_read_is_one_failed_record() -> None:
    dictionary, members = with_dictionary(numbered(3))
    broken = [
        skippable(b"no dictionary"), skippable(b""), skippable(dictionary[:9]), skippable(zstandard.compress(b"x")),
        skippable(zstandard.compress(dictionary)[:-9]), skippable(dictionary)[:4] + b"\xff" * 4 + dictionary,
        skippable(dictionary, 2), b"",
    ]  # fmt: skip
    for frame in broken:
        assert texts(frame + b"".join(members), ".zst") == ["corrupt_stream"], frame[:20]
    for cut in range(4, len(skippable(dictionary)), 99):
        assert texts(skippable(dictionary)[:cut], ".zst") == ["cut_stream"]
    # What needs no dictionary is read.
    plain = zstandard.compress(numbered(1)[0])
    assert words(texts(broken[0] + members[0] + plain, ".zst")) == ["damaged_member", "page 0"]


class Pipe(io.BytesIO):
    """A file that can only be read on."""

    def seekable(self) -> bool:
        return False


def test_a_stream_that_cannot_go_back_ends_at_the_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = numbered(3)
    torn = bytearray(gzip.compress(second))
    torn[30] ^= 0xFF
    data = gzip.compress(first) + bytes(torn) + gzip.compress(third)
    monkeypatch.setattr(warc, "open_stored", lambda path: Pipe(data))
    told = [item for _, item in documents(Span("a.warc.gz"))]
    assert [item.reason for item in told if isinstance(item, BadRecord)] == ["corrupt_stream"]
    assert len(told) == 2


def test_an_empty_archive_holds_nothing_and_a_page_is_no_archive() -> None:
    assert read(b"") == read(b"\r\n\r\n") == read(b"", ".gz") == [("a", "no_records")]
    assert texts(PAGE) == ["no_record_header"]


# ARC


def arc(url: str, body: bytes, length: object = None, kind: str = "text/html") -> bytes:
    size = len(body) if length is None else length
    return f"{url} 192.0.2.1 20140216050221 {kind} {size}\n".encode() + body + b"\n"


def test_arc_records_are_read_and_bad_ones_passed() -> None:
    data = (
        arc("filedesc://a.arc", b"1 0 Somebody\nURL IP-address Archive-date Content-type Archive-length\n\n")
        + arc("http://a.example/1", http(b"<p>page 1"))
        + arc("http://a.example/2", http(b"<p>page 2"), length=-1)
        + arc("http://a.example/3", http(b"<p>page 3"), length=9)
        + arc("http://a.example/4", http(b"<p>page 4"))
    )
    for stored in (data, gzip.compress(data)):
        assert words(texts(stored)) == ["warc_warcinfo", "page 1", "bad_header", "page 3", "page 4"]
    with fsspec.open("memory://warc/a.arc", "wb") as file:
        file.write(data)
    page = next(found for _, found in documents(Span("memory://warc/a.arc")) if isinstance(found, Document))
    assert (page.meta["url"], page.meta["date"]) == ("http://a.example/1", "2014-02-16T05:02:21Z")


def test_an_arc_record_never_takes_the_next() -> None:
    """By a length that ends where another record does, or by a header that is cut behind the address."""
    told_of = b"1 0 Somebody\nURL IP-address Archive-date Content-type Archive-length\n\n"
    first, second, third = (arc(f"http://a.example/{number}", http(b"<p>page %d" % number)) for number in range(3))
    head = arc("filedesc://a.arc", told_of) + first
    for length in range(len(second + third) + 9):
        wrong = arc("http://a.example/1", http(b"<p>page 1"), length=length)
        told = words(texts(head + wrong + third))
        assert (told[1], told[-1], len(told)) == ("page 0", "page 2", 4), length
    for cut in range(len("http://a.example/1 "), second.index(b"\n")):
        told = words(texts(head + second[:cut] + third))
        assert (told[1], told[-1], len(told)) == ("page 0", "page 2", 4), cut


# Real archives

_USUAL = "warc_warcinfo warc_warcinfo document warc_request warc_revisit warc_request"

EXPECTED = {
    "warcio/bad.arc": "bad_header bad_header document bad_header",
    "warcio/example-bad-non-chunked.warc.gz": _USUAL,
    "warcio/example-bad.warc.gz.bad": "warc_warcinfo document warc_request warc_revisit warc_request http_status",
    "warcio/example-digest.warc": "warc_request warc_request warc_request warc_request",
    "warcio/example-iana.org-chunked.warc": "warc_warcinfo document warc_request",
    "warcio/example-resource.warc.gz": "warc_warcinfo warc_warcinfo document",
    "warcio/example-space-in-target-uri.warc.gz": "warc_warcinfo content_type",
    "warcio/example-trunc.warc": "warc_warcinfo warc_warcinfo document(wrong_length) warc_request",
    "warcio/example-wrong-chunks.warc.gz": "document warc_request",
    "warcio/example.arc.gz": "warc_warcinfo document",
    "warcio/example.warc": _USUAL,
    "warcio/example.warc.gz": _USUAL,
    "whirlwind.warc.gz": "warc_warcinfo warc_request document warc_metadata",
    "whirlwind.warc.wat.gz": "warc_warcinfo warc_metadata",
    "whirlwind.warc.wet.gz": "warc_warcinfo document",
}


def reason_of(found: Document | Drop | BadRecord) -> str:
    if isinstance(found, Document):
        return f"document({found.meta['damage']})" if "damage" in found.meta else "document"
    return found.reason


@pytest.mark.parametrize(("name", "expected"), EXPECTED.items())
def test_every_record_of_a_real_archive_is_accounted_for(name: str, expected: str) -> None:
    found = list(documents(Span(str(shared(f"warc/{name}")))))
    assert " ".join(reason_of(item) for _, item in found) == expected
    assert len({place for place, _ in found}) == len(found)


@pytest.mark.parametrize(
    "name", ["warcio/example.warc", "warcio/example.warc.gz", "warcio/example-digest.warc", "whirlwind.warc.gz"]
)
def test_the_same_records_as_fastwarc_where_it_reads_all(name: str) -> None:
    path = shared(f"warc/{name}")
    with open(path, "rb") as file:
        theirs = [one.stream_pos for one in ArchiveIterator(file, parse_http=False)]
    assert [int(place.rsplit("@")[-1]) for place, _ in documents(Span(str(path)))] == theirs


def test_the_planted_archive_is_read_as_it_was_planted(tmp_path: Path) -> None:
    stored = [capture.data for capture in corpus.captures()]
    path = tmp_path / "pages.warc.gz"
    path.write_bytes(b"".join(stored))
    found = list(documents(Span(str(path))))
    assert [reason_of(item) for _, item in found] == [capture.answer for capture in corpus.captures()]
    for capture, (_, item) in zip(corpus.captures(), found, strict=True):
        assert not isinstance(item, Document) or all(line in item.text for line in capture.keep), capture.name
    places = [sum(map(len, stored[:number])) for number in range(len(stored))]
    assert [int(place.split("@")[1]) for place, _ in found] == places


def test_memory_is_bounded_by_the_record(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    with gzip.open(path, "wb", 1) as file:
        for _ in range(30):
            file.write(record(http(b"<p>" + b"wind and weather " * 2**17)))
        file.write(record(http(), length=2**40))
    code = """
        import sys
        from prep_lib.files import Span
        from prep_lib.source import warc
        peak = lambda: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
        before = peak()
        count = sum(1 for _ in warc.documents(Span(sys.argv[1]), max_bytes=2**22))
        print(count, peak() - before)
    """
    run = [sys.executable, "-c", textwrap.dedent(code), str(path)]
    count, kib = map(int, subprocess.run(run, capture_output=True, text=True, check=True).stdout.split())
    assert count == 31
    assert kib < 60_000
