"""JSON lines: every reason has a line that shows it, and the neighbours go on."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import gzip
import json
import math
import uuid
from pathlib import Path

import fsspec
import numpy as np
import orjson
import pandas as pd
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.errors import BadParameter, BadRecord
from prep_lib.files import Span
from prep_lib.record import Document
from prep_lib.source import jsonl
from prep_lib.source.jsonl import MAX_DEPTH, check_policies, document, documents, dumps, loads, plain, read_records

GOOD = b'{"text":"x"}'


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text":"a', "bad_json"),
        (b'{"text":"a"}{"text":"b"}', "bad_json"),
        (b"{'text':'a'}", "bad_json"),
        (b'{"text":"a\tb"}', "bad_json"),
        (b'\xef\xbb\xbf{"text":"a"}', "bad_json"),
        (b'{"n":-NaN}', "bad_json"),
        (b'{"score":NaN}', "not_json_nan"),
        (b'{"score":[1,-Infinity]}', "not_json_nan"),
        (b"NaN", "not_json_nan"),
        (b'{"text":"a \\udcb2 b"}', "lone_surrogate"),
        (b'{"\\ud83d":1}', "lone_surrogate"),
        (b'{"text":"\\ude00\\ud83d"}', "lone_surrogate"),
        (b'{"text":"\xff"}', "invalid_utf8"),
        (b'{"text":"\xed\xa0\x80"}', "invalid_utf8"),
        (b'["a"]', "not_an_object"),
        (b'"a"', "not_an_object"),
        (b"1", "not_an_object"),
        (b"null", "not_an_object"),
        (b'{"n":1e400}', "number_too_large"),
        (b'{"n":' + b"1" * 4301 + b"}", "number_too_large"),
        (nested(MAX_DEPTH + 1), "too_deep"),
        (nested(1500), "too_deep"),
        (nested(100_000), "too_deep"),
        (b'{"a":1,"a":1}', "duplicate_key"),
        (b'{"a":1,"\\u0061":2}', "duplicate_key"),
        (b'{"a" :1,"a"\t: 2}', "duplicate_key"),
        (b'{"x":{"a":{"a":1},"a":2}}', "duplicate_key"),
        (b'{"x":[{"a":1},{"a":1,"b":"\\":","a":1}]}', "duplicate_key"),
        # Counts that cancel out for a careless counter: a key merged, and something that looks like a key.
        (b'{"x\\\\":1,"a":1,"a":2}', "duplicate_key"),
        (b'{"a" :1,"a" :2,"t":"\\":"}', "duplicate_key"),
        (b'{"a":1, "a":18446744073709551616}', "duplicate_key"),
    ],
)
def test_a_line_that_is_no_record_says_why(line: bytes, reason: str) -> None:
    with pytest.raises(BadRecord) as caught:
        loads(line)
    assert caught.value.reason == reason


def test_the_duplicate_key_is_named() -> None:
    with pytest.raises(BadRecord, match=r"^duplicate_key: role$"):
        loads(b'{"messages":[{"role":"user","role":"system"}]}')


@pytest.mark.parametrize(
    "number", [2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**300, -(10**4000), 2**53 + 1], ids=repr
)
def test_integers_of_any_size_are_exact(number: int) -> None:
    line = b'{"n": [%d], "f": 0.5}' % number
    assert loads(line) == {"n": [number], "f": 0.5}
    assert loads(dumps({"n": number})) == {"n": number}
    assert type(loads(line)["n"][0]) is int


@pytest.mark.parametrize(
    ("line", "record"),
    [
        (b' {"a" : 1} \r', {"a": 1}),
        (b'{"a":1e20,"b":-0.0,"c":1E3}', {"a": 1e20, "b": -0.0, "c": 1000.0}),
        (b'{"a":"Nan","b":null}', {"a": "Nan", "b": None}),
        (b'{"a":"\\ud83d\\ude00\\u0000"}', {"a": "😀\0"}),
        (rb'{"a":"\": \\\": \\","b\\":": :"}', {"a": '": \\": \\', "b\\": ": :"}),
        (nested(MAX_DEPTH), None),
    ],
)
def test_what_is_valid_is_read(line: bytes, record: dict | None) -> None:
    assert loads(line) == (record if record is not None else orjson.loads(line))


awkward = st.text(alphabet='":\\ ,{}a0\t\n é\U0001f600', max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | awkward,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(awkward, inner, max_size=3),
    max_leaves=12,
)
records = st.dictionaries(awkward, values, max_size=4)


@settings(max_examples=200, deadline=None)
@given(records, st.sampled_from([(",", ":"), (", ", ": "), (" , ", "\t:  ")]), st.booleans())
def test_whatever_wrote_it_every_record_reads_back_equal(record: dict, separators: tuple, ascii_only: bool) -> None:
    line = json.dumps(record, separators=separators, ensure_ascii=ascii_only).encode()
    assert loads(line) == record
    assert loads(dumps(record)) == record


@settings(max_examples=200, deadline=None)
@given(records.filter(bool), st.data(), st.sampled_from([":", " :", ": "]))
def test_a_duplicate_key_never_slips_through(record: dict, data: st.DataObject, colon: str) -> None:
    key = data.draw(st.sampled_from(sorted(record)))
    pairs = [*record.items(), (key, data.draw(values))]
    line = "{" + ",".join(json.dumps(name) + colon + json.dumps(value) for name, value in pairs) + "}"
    with pytest.raises(BadRecord, match="duplicate_key"):
        loads(line.encode())


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: int = 0


Pair = type("Pair", (tuple,), {})

CONVERTED = [
    (datetime.datetime(2024, 1, 2, 3, 4, 5), "2024-01-02T03:04:05"),
    (datetime.datetime(2024, 1, 2, 3, 4, 5, 67, datetime.UTC), "2024-01-02T03:04:05.000067+00:00"),
    (datetime.date(2024, 1, 2), "2024-01-02"),
    (datetime.time(3, 4), "03:04:00"),
    (datetime.time(3, 4, tzinfo=datetime.UTC), "03:04:00+00:00"),
    (datetime.timedelta(days=1, hours=2, minutes=3, milliseconds=4500), "P1DT2H3M4.5S"),
    (datetime.timedelta(seconds=-1), "-PT1S"),
    (datetime.timedelta(0), "PT0S"),
    (pd.Timestamp("2024-01-02T03:04:05.123456789"), "2024-01-02T03:04:05.123456789"),
    (pd.Timedelta(1, "ns"), "PT0.000000001S"),
    (pd.NaT, None),
    (pd.NA, None),
    (np.datetime64("2024-01-02"), "2024-01-02"),
    (np.datetime64("NaT"), None),
    (np.timedelta64(90, "s"), "PT1M30S"),
    (np.array(["2024-01-02T03"], "datetime64[ns]"), ["2024-01-02T03:00:00.000000000"]),
    (np.int64(-7), -7),
    (np.uint64(2**64 - 1), 2**64 - 1),
    (np.bool_(True), True),
    (np.float32(0.1), 0.1),
    (np.float64(0.1), 0.1),
    (np.str_("é"), "é"),
    (np.array([[1, 2], [3, 4]], np.uint16), [[1, 2], [3, 4]]),
    (np.array(0.5, np.float16), 0.5),
    (np.array([0.1], np.float32), [0.1]),
    (np.array(["a", "b"]), ["a", "b"]),
    (np.array([{"a": (1,)}], object), [{"a": [1]}]),
    (decimal.Decimal("1.10"), "1.10"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Colour.RED, "red"),
    (Level.HIGH, 3),
    ((1, None), [1, None]),
    (Pair((1, 2)), [1, 2]),
    ([None, {"a": None}], [None, {"a": None}]),
]


@pytest.mark.parametrize("beside", [0, 2**70], ids=["fast", "exact"])
@pytest.mark.parametrize(("value", "written"), CONVERTED, ids=[f"{type(value).__name__}" for value, _ in CONVERTED])
def test_values_json_does_not_have_are_converted(value: object, written: object, beside: int) -> None:
    # An integer over 64 bits sends the whole record the slow way: both ways must write the same.
    line = dumps({"v": value, "n": beside})
    assert json.loads(line) == {"v": written, "n": beside}
    assert loads(line) == {"v": written, "n": beside}


@pytest.mark.parametrize(
    ("value", "reason", "place"),
    [
        (math.nan, "nan", "v"),
        ([1.0, math.inf], "nan", r"v\[1\]"),
        ({"null": [{"s": -math.inf}]}, "nan", r"v\.null\[0\]\.s"),
        (np.float32("nan"), "nan", "v"),
        (np.array([1, math.nan]), "nan", r"v\[1\]"),
        (decimal.Decimal("NaN"), "nan", "v"),
        (b"x", "bytes", "v"),
        ([{"image": bytearray(b"x")}], "bytes", r"v\[0\]\.image"),
        (np.array([b"x"]), "bytes", r"v\[0\]"),
        ("a\ud800", "lone_surrogate", "v"),
        ({"\udcb2": 1}, "lone_surrogate", "v"),
        ({1: 2}, "key_not_str", "v"),
        ([{None: 2}], "key_not_str", r"v\[0\]"),
        ({1, 2}, "not_json", "v"),
        (1 + 2j, "not_json", "v"),
        (np.complex64(1), "not_json", "v"),
        (Point(), "not_json", "v"),
        (10**5000, "number_too_large", ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_written_names_its_place(value: object, reason: str, place: str) -> None:
    with pytest.raises(BadRecord, match=f"{place}$") as caught:
        dumps({"v": value})
    assert caught.value.reason == reason


def test_nesting_has_one_limit_for_reading_and_writing() -> None:
    assert dumps(loads(nested(MAX_DEPTH))) == nested(MAX_DEPTH) + b"\n"
    deep: dict = {"a": 1}
    for _ in range(MAX_DEPTH):
        deep = {"a": deep}
    loop: dict = {}
    loop["self"] = loop
    for record in (deep, loop, {"n": 2**70, "v": deep}):
        with pytest.raises(BadRecord, match="too_deep"):
            dumps(record)


def test_by_option_nan_becomes_null_and_bytes_base64() -> None:
    record = {"a": [1.5, math.nan, np.float64("inf")], "b": b"\xff\x00", "c": None}
    expected = {"a": [1.5, None, None], "b": "/wA=", "c": None}
    assert loads(dumps(record, nan="null", bytes="base64")) == expected
    assert loads(dumps({**record, "n": 2**70}, nan="null", bytes="base64")) == {**expected, "n": 2**70}


def test_text_is_written_as_utf8_and_its_line_separators_raw() -> None:
    assert dumps({"t": "你好\u2028\u0085\n"}) == '{"t":"你好\u2028\u0085\\n"}\n'.encode()
    with pytest.raises(BadRecord, match="not_an_object: a list"):
        dumps([])  # type: ignore[arg-type]


def test_plain_keeps_what_json_has() -> None:
    record = {"a": [1, 2.5, "x", None, True], "b": {}}
    assert plain(record) == record
    with pytest.raises(BadParameter, match="bytes='hex'; allowed: 'reject', 'base64'"):
        check_policies("null", "hex")


def read(path: Path, content: bytes) -> list[tuple[int, object]]:
    path.write_bytes(content)
    found = list(read_records(Span(str(path))))
    return [(number, item.reason if isinstance(item, BadRecord) else item["text"]) for number, item in found]


def test_bug_037_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    content = '{"text":"a\u2028b\u0085c"}\n{"text":"x"}\n'.encode()
    assert read(tmp_path / "a.jsonl", content) == [(1, "a\u2028b\u0085c"), (2, "x")]


def test_bug_038_lone_surrogates_are_refused_where_they_are_read(tmp_path: Path) -> None:
    assert read(tmp_path / "a.jsonl", b'{"text":"a \\udcb2 b"}\n' + GOOD) == [(1, "lone_surrogate"), (2, "x")]


def test_bug_039_one_bad_line_is_one_failed_record(tmp_path: Path) -> None:
    lines = [b'{"text":%d}' % number for number in range(1, 10_001)]
    lines[4_999] = b'{"text":"Nan"}'
    lines[9_999] = lines[9_999][:-1]
    found = read(tmp_path / "a.jsonl", b"\n".join(lines))
    assert len(found) == 10_000
    assert found[4_999] == (5_000, "Nan")
    assert found[-1] == (10_000, "bad_json")


def test_bug_040_nan_is_refused_both_ways(tmp_path: Path) -> None:
    assert read(tmp_path / "a.jsonl", b'{"text":"a","score":NaN}\n' + GOOD) == [(1, "not_json_nan"), (2, "x")]
    with pytest.raises(BadRecord, match=r"^nan: at score$"):
        dumps({"text": "a", "score": math.nan})


def test_bug_041_all_members_are_read_and_a_cut_is_told(tmp_path: Path) -> None:
    members = gzip.compress(b'{"text":"a"}\n' * 3) + gzip.compress(b'{"text":"b"}\n' * 2)
    assert [text for _, text in read(tmp_path / "c.jsonl.gz", members)] == ["a", "a", "a", "b", "b"]
    found = read(tmp_path / "c.jsonl.gz", members[:-20])
    assert [text for _, text in found[:3]] == ["a", "a", "a"]
    assert found[-1][1] == "cut_stream"


def test_bug_042_garbage_behind_the_stream_costs_one_record(tmp_path: Path) -> None:
    packed = gzip.compress(GOOD + b"\n" + GOOD + b"\n")
    assert read(tmp_path / "a.jsonl.gz", packed + bytes(16)) == [(1, "x"), (2, "x")]
    assert read(tmp_path / "a.jsonl.gz", packed + bytes(16) + b"xyz") == [(1, "x"), (2, "x"), (3, "bytes_after_stream")]


def test_bug_043_a_line_of_50_mb_among_short_ones(tmp_path: Path) -> None:
    long = "é" * 25_000_000
    content = GOOD + b"\n" + f'{{"text":"{long}"}}\n'.encode() + GOOD
    assert read(tmp_path / "a.jsonl", content) == [(1, "x"), (2, long), (3, "x")]


def test_every_frame_of_a_zst_is_read_and_a_cut_is_told(tmp_path: Path) -> None:
    pack = zstandard.ZstdCompressor().compress
    frames = pack(b'{"text":"a"}\n' * 2) + pack(b'{"text":"b"}\n')
    assert [text for _, text in read(tmp_path / "a.jsonl.zst", frames)] == ["a", "a", "b"]
    assert [text for _, text in read(tmp_path / "a.jsonl.zst", frames[:-3])] == ["a", "a", "cut_stream"]


def test_byte_order_mark_carriage_returns_and_blank_lines(tmp_path: Path) -> None:
    content = b'\xef\xbb\xbf{"text":"a"}\r\n\r\n  \n{"text":"b"}\r\n{"text":"c"'
    assert read(tmp_path / "a.jsonl", content) == [(1, "a"), (4, "b"), (5, "bad_json")]


def test_documents_carry_their_place(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text":"a","n":1}\n{"text":7}\n{"t":"b"}\n{"text":\n')
    first, *rest = documents(Span(str(path)))
    assert first == ("a.jsonl#L1", Document("a.jsonl#L1", "a", "a.jsonl", {"n": 1}))
    assert [(place, item.reason) for place, item in rest if isinstance(item, BadRecord)] == [
        ("a.jsonl#L2", "text_not_a_string"),
        ("a.jsonl#L3", "missing_text"),
        ("a.jsonl#L4", "bad_json"),
    ]
    named = [item for _, item in documents(Span(str(path)), name="in/a", text="t")]
    assert [item for item in named if isinstance(item, Document)] == [Document("in/a#L3", "b", "in/a")]


def test_our_own_documents_come_back_as_they_were() -> None:
    doc = Document("web/a.html", "one", "web", {"url": "http://a.example"})
    own = {"id": doc.id, "text": doc.text, "source": doc.source, "meta": dict(doc.meta)}
    assert document("part-00000.jsonl.zst#L9", "part-00000.jsonl.zst", own) == (doc.id, doc)


@pytest.mark.parametrize("strange", [{"id": 7}, {"source": None}, {"meta": "x"}, {"more": 1}])
def test_records_that_only_look_like_ours_keep_all_they_say(strange: dict) -> None:
    record = {"id": "a", "text": "one", "source": "web", "meta": {}, **strange}
    place, found = document("b.jsonl#L1", "b.jsonl", record)
    assert isinstance(found, Document)
    assert (place, found.id, found.source) == ("b.jsonl#L1", "b.jsonl#L1", "b.jsonl")
    assert found.meta == {key: value for key, value in record.items() if key != "text"}


def test_one_invalid_byte_costs_one_line_of_a_hundred(tmp_path: Path) -> None:
    """Defect D1 of a peer: behind it the rest of the file was gone, uncounted."""
    lines = [b'{"text":"line %d"}' % number for number in range(100)]
    lines[24] = b'{"text":"line \xff"}'
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(lines))
    found = [item for _, item in documents(Span(str(path)))]
    assert sum(isinstance(item, Document) for item in found) == 99
    assert [item.reason for item in found if isinstance(item, BadRecord)] == ["invalid_utf8"]


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "jsonl.zst"])
def test_lines_behind_any_address(ending: str) -> None:
    pack = {"jsonl": bytes, "jsonl.gz": gzip.compress, "jsonl.zst": zstandard.compress}[ending]
    address = f"memory://jsonl/a.{ending}"
    with fsspec.open(address, "wb") as file:
        file.write(pack('{"text":"a\u2028b\u0085c"}\n{"text":"x"}\n'.encode()))
    found = [(place, item.text) for place, item in documents(Span(address)) if isinstance(item, Document)]
    assert found == [(f"a.{ending}#L1", "a\u2028b\u0085c"), (f"a.{ending}#L2", "x")]


def test_only_records_whose_id_may_be_wanted_are_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        b'{"text": "one"}',
        b'{"id":"web#1","text":"two","source":"web","meta":{}}',
        b'{"text": "three", "source": "web", "id": "web#2", "meta": {}}',
        b'{"id": "a\\"b", "text": "four"}',
        b'{"id": "web#\xff"}',
        b"broken",
    ]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    parsed, load = [], jsonl.load_or_reason
    monkeypatch.setattr(jsonl, "load_or_reason", lambda line: parsed.append(line) or load(line))

    def found(*names: str) -> list[str]:
        parsed.clear()
        rows = jsonl.documents(Span(str(tmp_path / "a.jsonl")), wanted=lambda name: name in names)
        return [name for name, _ in rows if name in names]

    everything = [name for name, _ in jsonl.documents(Span(str(tmp_path / "a.jsonl")))]
    assert everything == ["a.jsonl#L1", "web#1", "web#2", "a.jsonl#L4", "a.jsonl#L5", "a.jsonl#L6"]
    for name in everything:
        assert found(name) == [name]
    assert found("a.jsonl#L1", "web#1") == ["a.jsonl#L1", "web#1"]
    assert lines[0] in parsed
    assert lines[1] in parsed
    assert lines[3] not in parsed, "its id begins it and is another one"
    assert lines[5] not in parsed
