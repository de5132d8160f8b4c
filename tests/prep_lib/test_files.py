"""Files are whole or not there, spans tile them, and damage costs one record."""

from __future__ import annotations

import gzip
import io
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import fsspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib import files
from prep_lib.errors import BadInput, BadRecord, NoSpace
from prep_lib.files import Span, digest, natural, read_lines, survey, write_whole


def shown(found):
    """Lines as they are, bad records by their reason."""
    return [(n, line.reason if isinstance(line, BadRecord) else line) for n, line in found]


def put(folder, name, content):
    path = Path(folder, name)
    path.write_bytes(content)
    return str(path)


# Whole or not at all


def test_an_error_leaves_what_was_there_and_nothing_else(tmp_path):
    path = tmp_path / "new" / "a.txt"
    with write_whole(path, "w") as file:
        file.write("old")
    with pytest.raises(UnicodeEncodeError), write_whole(path, "w") as file:
        file.write("new \udcff")
    assert path.read_text() == "old"
    assert os.listdir(path.parent) == ["a.txt"]


def test_text_has_plain_line_feeds_and_utf8(tmp_path):
    with write_whole(tmp_path / "a.txt", "w") as file:
        file.write("你\n好\n")
    assert (tmp_path / "a.txt").read_bytes() == "你\n好\n".encode()


def test_a_kill_in_the_middle_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    code = (
        "import sys, time; from prep_lib.files import write_whole\n"
        "with write_whole(sys.argv[1], 'w') as file:\n"
        "    file.write('new'); file.flush(); print('half', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"half\n"
        child.send_signal(signal.SIGKILL)
    left = [name for name in os.listdir(tmp_path) if name != "a.txt"]
    assert path.read_text() == "old"
    assert len(left) == 1
    assert files.is_temporary(left[0])


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_one_clear_line_and_the_next_try_succeeds(small_disk):
    ballast = put(small_disk, "ballast", bytes(900_000))
    target = small_disk / "out" / "a.bin"
    with pytest.raises(NoSpace, match=r"^files: no space left for a.bin in .*out; free some and run the same command"):
        with write_whole(target) as file:
            file.write(bytes(500_000))
    assert os.listdir(target.parent) == []
    os.unlink(ballast)
    with write_whole(target) as file:
        file.write(bytes(500_000))
    assert target.stat().st_size == 500_000


def test_a_full_disk_that_a_library_tells_only_in_its_text_is_known_too():
    with pytest.raises(NoSpace, match=r"no space left for a\.h5 in "), files.space_for("a.h5"):
        raise RuntimeError("Unable to flush (file write failed: errno = 28, error message = 'No space left')")
    with pytest.raises(RuntimeError, match="errno = 2,"), files.space_for("a.h5"):
        raise RuntimeError("Unable to open (errno = 2, error message)")


# Names and digests


def test_natural_order_takes_numbers_as_numbers():
    assert sorted(["c10.x", "c2.x", "c01", "b3", "c1"], key=natural) == ["b3", "c01", "c1", "c2.x", "c10.x"]


@given(st.lists(st.text("ab01.", max_size=4)))
def test_natural_order_is_total_and_the_same_from_any_start(names):
    assert sorted(set(names), key=natural) == sorted(sorted(set(names)), key=natural)


def test_digest_is_sha256(tmp_path):
    assert digest(put(tmp_path, "a", b"abc")).startswith("ba7816bf8f01cfea")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.jsonl", None), ("a.JSONL.GZ", "gz"), ("gz", "gz"), ("s3://b/a.zst", "zst"), ("https://h/a.gz?key=a.b", "gz")],
)
def test_compression_is_read_from_the_name(name, kind):
    assert files.compression(name) == kind


# Spans

content = st.lists(st.sampled_from([b"{}", b"", b" ", "é\u2028\u0085".encode(), b"x" * 9, b"\xff", b"\r"])).map(
    b"\n".join
) | st.binary(max_size=60)


@settings(max_examples=150, deadline=None)
@given(content, st.integers(1, 20))
def test_spans_tile_the_file_and_know_their_first_line(data, size):
    with tempfile.TemporaryDirectory() as folder:
        found = survey(put(folder, "a.jsonl", data), size)
        pieces = [data[span.start : span.stop] for span in found.spans]
        assert b"".join(pieces) == data
        assert all(piece.endswith(b"\n") and len(piece) > size for piece in pieces[:-1])
        assert [span.first for span in found.spans] == [data[: span.start].count(b"\n") + 1 for span in found.spans]
        assert (found.size, found.rows) == (len(data), data.count(b"\n") + (data[-1:] not in (b"", b"\n")))


@settings(max_examples=150, deadline=None)
@given(content, st.integers(1, 20))
def test_reading_by_spans_is_reading_the_whole(data, size):
    with tempfile.TemporaryDirectory() as folder:
        path = put(folder, "a.jsonl", data)
        whole = list(read_lines(Span(path)))
        assert [pair for span in survey(path, size).spans for pair in read_lines(span)] == whole
        lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        assert whole == [(n, line.removesuffix(b"\r")) for n, line in enumerate(lines, 1) if line.strip()]


@settings(max_examples=40, deadline=None)
@given(content, st.sampled_from(["gz", "zst"]))
def test_compressed_reads_like_plain(data, kind):
    pack = gzip.compress if kind == "gz" else zstandard.compress
    with tempfile.TemporaryDirectory() as folder:
        plain, packed = put(folder, "a.jsonl", data), put(folder, f"a.jsonl.{kind}", pack(data))
        assert list(read_lines(Span(packed))) == list(read_lines(Span(plain)))


def test_a_pinned_file(tmp_path):
    data = b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"a": "x\xe2\x80\xa8y\xc2\x85z"}\n  \n{"a": 3}'
    path = put(tmp_path, "a.jsonl", data)
    assert list(read_lines(Span(path))) == [
        (1, b'{"a": 1}'),
        (3, '{"a": "x\u2028y\u0085z"}'.encode()),
        (5, b'{"a": 3}'),
    ]
    found = survey(path, 11)
    assert [(span.start, span.stop, span.first) for span in found.spans] == [(0, 13, 1), (13, 33, 2), (33, 44, 4)]
    assert (found.rows, found.digest) == (5, digest(path))


def test_only_the_first_line_of_the_file_may_have_a_byte_order_mark(tmp_path):
    mark = b"\xef\xbb\xbf"
    path = put(tmp_path, "a.jsonl", mark + b"\n" + mark + b"a\n")
    assert list(read_lines(Span(path))) == [(2, mark + b"a")]
    assert list(read_lines(Span(put(tmp_path, "b.jsonl", mark)))) == []


def test_an_empty_file_has_no_span(tmp_path):
    found = survey(put(tmp_path, "a.jsonl", b""))
    assert (found.rows, found.spans) == (0, ())
    assert list(read_lines(Span(str(tmp_path / "a.jsonl")))) == []
    assert list(read_lines(Span(str(tmp_path / "a.jsonl"), 0, 0))) == []


def test_a_span_larger_than_the_read_block(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK", 4)
    data = b"".join(b"line %d\n" % n for n in range(100))
    found = survey(put(tmp_path, "a.jsonl", data), 250)
    assert b"".join(data[span.start : span.stop] for span in found.spans) == data
    assert [span.first for span in found.spans] == [1, 34, 66, 98]


def test_a_file_that_shrank_after_the_survey_is_an_error_and_no_silent_loss(tmp_path):
    path = put(tmp_path, "a.jsonl", b"1\n2\n3\n4\n")
    *_, last = survey(path, 3).spans
    put(tmp_path, "a.jsonl", b"1\n2\n3\n")
    with pytest.raises(BadInput, match=r"a.jsonl ends 2 bytes before it did when it was surveyed"):
        list(read_lines(last))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(BadInput, match=r"^files: cannot read .*no.jsonl: No such file"):
        survey(tmp_path / "no.jsonl")


# Long lines


def test_a_line_of_50_megabytes_is_read(tmp_path):
    path = put(tmp_path, "a.jsonl", b"{}\n" + b"x" * 50_000_000 + b"\n{}\n")
    assert [(n, len(line)) for n, line in read_lines(Span(path))] == [(1, 2), (2, 50_000_000), (3, 2)]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_line_over_the_limit_fails_alone(tmp_path, monkeypatch, name):
    monkeypatch.setattr(files, "MAX_LINE", 10)
    monkeypatch.setattr(files, "BLOCK", 7)
    data = b"a\n" + b"x" * 10 + b"\n" + b"y" * 11 + b"\n" + b"z" * 40 + b"\nb\n" + b"w" * 11
    path = put(tmp_path, name, gzip.compress(data) if name.endswith("gz") else data)
    long = "line_too_long"
    wanted = [(1, b"a"), (2, b"x" * 10), (3, long), (4, long), (5, b"b"), (6, long)]
    assert shown(read_lines(Span(path))) == wanted
    assert shown(pair for span in survey(path, 3).spans for pair in read_lines(span)) == wanted


# Damaged streams

LINES = b"".join(b'{"n": %d}\n' % n for n in range(2000))
WHOLE = list(enumerate(LINES.splitlines(), 1))
FRAME = zstandard.compress(LINES)
SKIPPED = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("members.gz", gzip.compress(LINES[:5000]) + gzip.compress(b"") + gzip.compress(LINES[5000:])),
        ("many.gz", b"".join(gzip.compress(line + b"\n") for line in LINES.splitlines())),
        ("zeros.gz", gzip.compress(LINES) + bytes(10_000)),
        ("zeros_between.gz", gzip.compress(LINES[:5000]) + bytes(600) + gzip.compress(LINES[5000:])),
        ("frames.zst", zstandard.compress(LINES[:5000]) + zstandard.compress(LINES[5000:])),
        ("skipped.zst", SKIPPED + FRAME + SKIPPED),
    ],
)
def test_whole_streams_of_many_members(tmp_path, name, packed):
    assert list(read_lines(Span(put(tmp_path, name, packed)))) == WHOLE


@pytest.mark.parametrize(
    ("name", "packed", "reason"),
    [
        ("garbage.gz", gzip.compress(LINES) + b"xyz", "bytes_after_stream"),
        ("zeros_garbage.gz", gzip.compress(LINES) + bytes(16) + b"xyz", "bytes_after_stream"),
        ("garbage.zst", FRAME + b"xyzw", "bytes_after_stream"),
        ("trailer.gz", gzip.compress(LINES)[:-4], "cut_stream"),
        ("second.gz", gzip.compress(LINES) + gzip.compress(LINES)[:3], "cut_stream"),
        ("second.zst", FRAME + FRAME[:2], "cut_stream"),
    ],
)
def test_every_line_before_the_damage_is_given(tmp_path, name, packed, reason):
    assert shown(read_lines(Span(put(tmp_path, name, packed)))) == [*WHOLE, (len(WHOLE) + 1, reason)]


@pytest.mark.parametrize("kind", ["gz", "zst"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.999])
def test_a_cut_stream_gives_whole_lines_then_says_so(tmp_path, kind, share, monkeypatch):
    monkeypatch.setattr(files, "PACKED", 64)
    packed = gzip.compress(LINES) if kind == "gz" else FRAME
    found = shown(read_lines(Span(put(tmp_path, f"a.{kind}", packed[: int(len(packed) * share)]))))
    assert found[-1] == (len(found), "cut_stream")
    assert found[:-1] == WHOLE[: len(found) - 1]
    assert share < 0.5 or kind == "zst" or len(found) > 500


def test_a_wrong_checksum_is_found(tmp_path):
    packed = bytearray(gzip.compress(LINES))
    packed[-6] ^= 1
    found = shown(read_lines(Span(put(tmp_path, "a.gz", bytes(packed)))))
    assert found[-1][1] == "corrupt_stream"
    assert found[:-1] == WHOLE[: len(found) - 1]


@pytest.mark.parametrize(("kind", "data"), [("gz", b"{}\n{}\n"), ("zst", b"{}\n"), ("gz", bytes(20))])
def test_what_is_not_compressed_at_all(tmp_path, kind, data):
    assert shown(read_lines(Span(put(tmp_path, f"a.{kind}", data)))) == [(1, "corrupt_stream")]


@pytest.mark.parametrize("kind", ["gz", "zst"])
@pytest.mark.parametrize("size", [0, 1, 2])
def test_a_packed_file_of_almost_nothing_is_a_cut_one(tmp_path, kind, size):
    whole = gzip.compress(b"{}\n") if kind == "gz" else zstandard.compress(b"{}\n")
    assert shown(read_lines(Span(put(tmp_path, f"a.{kind}", whole[:size])))) == [(1, "cut_stream")]


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_a_stream_made_to_swell_is_unpacked_in_bounded_steps(tmp_path, kind):
    size = 300_000_000
    if kind == "gz":
        target = io.BytesIO()
        with gzip.GzipFile(fileobj=target, mode="wb", compresslevel=1) as file:
            for _ in range(300):
                file.write(bytes(1_000_000))
        packed = target.getvalue()
    else:
        packed = zstandard.ZstdCompressor(level=1).compress(bytes(size))
    with files.open_bytes(put(tmp_path, f"a.{kind}", packed)) as file:
        total = largest = 0
        while piece := file.read1():
            total, largest = total + len(piece), max(largest, len(file.raw._pending))
    assert total == size
    assert largest <= 128 * 2**20


def test_behind_an_address(tmp_path):
    system = fsspec.filesystem("memory")
    for name, data in (("a.jsonl", LINES), ("a.jsonl.gz", gzip.compress(LINES))):
        system.pipe(f"/prep/{name}", data)
        found = survey(f"memory://prep/{name}", 9000)
        assert found.size == len(data)
        assert [pair for span in found.spans for pair in read_lines(span)] == WHOLE
    assert len(survey("memory://prep/a.jsonl", 9000).spans) == 3
