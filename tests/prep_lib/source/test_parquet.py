"""Parquet: row groups are spans, and values become what JSON has."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys
import textwrap
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prep_lib.errors import BadInput, BadParameter, BadRecord
from prep_lib.files import Span
from prep_lib.record import Document
from prep_lib.source import parquet


def write(path: Path, columns: dict, **options: object) -> Span:
    pq.write_table(pa.table(columns), path, **options)
    return Span(str(path), first=0)


def records(span: Span, **options: str) -> list:
    return [record for _, record in parquet.read_records(span, **options)]


def test_spans_are_row_groups_and_together_every_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, {"n": list(range(10))}, row_group_size=4)
    survey = parquet.survey(path)
    assert survey.rows == 10
    assert survey.spans == tuple(Span(str(path), at, at + 1, 4 * at) for at in range(3))
    found = [item for span in survey.spans for item in parquet.read_records(span)]
    assert found == [(n, {"n": n}) for n in range(10)]
    assert parquet.columns(path) == ["n"]


def test_an_empty_table_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    span = write(path, {"text": pa.array([], pa.string())})
    assert parquet.survey(path).rows == 0
    assert records(span) == []


def test_values_json_does_not_have(tmp_path: Path) -> None:
    day = datetime.datetime(2024, 1, 2, 3, 4, 5)
    span = write(
        tmp_path / "a.parquet",
        {
            "s": pa.array([day], pa.timestamp("s")),
            "ns": pa.array([1_704_164_645_123_456_789], pa.timestamp("ns")),
            "utc": pa.array([day], pa.timestamp("us", "UTC")),
            "date": pa.array([day.date()]),
            "time": pa.array([day.time()], pa.time64("us")),
            "for": pa.array([datetime.timedelta(hours=2)], pa.duration("us")),
            "price": pa.array([decimal.Decimal("1.10")]),
            "kind": pa.array(["a"]).dictionary_encode(),
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            "half": pa.array([0.1], pa.float32()),
        },
    )
    assert records(span) == [
        {
            "s": "2024-01-02T03:04:05", "ns": "2024-01-02T03:04:05.123456789", "utc": "2024-01-02T03:04:05+00:00",
            "date": "2024-01-02", "time": "03:04:05", "for": "PT2H", "price": "1.10", "kind": "a", "map": [["k", 1]],
            "half": pytest.approx(0.1),
        }
    ]  # fmt: skip


def test_what_json_cannot_hold_costs_its_row_only(tmp_path: Path) -> None:
    span = write(tmp_path / "a.parquet", {"score": [0.5, float("nan"), None], "raw": [None, None, b"\xff"]})
    first, *bad = records(span)
    assert first == {"score": 0.5, "raw": None}
    assert [str(error) for error in bad] == ["nan: at score", "bytes: at raw"]
    assert records(span, nan="null", bytes="base64")[1:] == [
        {"score": None, "raw": None},
        {"score": None, "raw": "/w=="},
    ]
    with pytest.raises(BadParameter, match="nan='keep'"):
        records(span, nan="keep")


def test_a_value_python_cannot_hold_costs_its_row_only(tmp_path: Path) -> None:
    text = pa.array([b"a", b"\xff", b"c"]).cast(pa.binary()).view(pa.string())
    span = write(tmp_path / "a.parquet", {"text": text, "at": pa.array([1, 2, 2**50], pa.timestamp("s"))})
    first, second, third = records(span)
    assert first == {"text": "a", "at": "1970-01-01T00:00:01"}
    assert isinstance(second, BadRecord)
    assert second.reason == "invalid_utf8"
    assert isinstance(third, BadRecord)
    assert third.reason == "unreadable_value"


def test_nulls_of_a_struct_are_kept_whatever_made_them(tmp_path: Path) -> None:
    messages = [[{"role": "user", "content": "a"}, {"role": "tool", "content": "b", "name": None, "args": {"x": 1}}]]
    span = write(tmp_path / "a.parquet", {"messages": messages})
    (record,) = records(span)
    assert record["messages"][0] == {"role": "user", "content": "a", "name": None, "args": None}
    assert record["messages"][1]["args"] == {"x": 1}


@pytest.mark.skipif(not hasattr(pa, "json_"), reason="this pyarrow has no JSON type")
def test_json_text_by_type_comes_out_as_the_value(tmp_path: Path) -> None:
    def messages(*calls: list[str]) -> pa.Array:
        texts = pa.array([text for row in calls for text in row], pa.string())
        offsets = pa.array([0, len(calls[0]), len(texts)], pa.int32())
        lists = pa.ListArray.from_arrays(offsets, pa.ExtensionArray.from_storage(pa.json_(), texts))
        return pa.StructArray.from_arrays([lists, pa.array(["x", None])], ["calls", "name"])

    span = write(tmp_path / "a.parquet", {"m": messages(['{"a": 18446744073709551616}', "[1]"], ["null"])})
    assert records(span) == [{"m": {"calls": [{"a": 2**64}, [1]], "name": "x"}}, {"m": {"calls": [None], "name": None}}]
    twice, good = records(write(tmp_path / "b.parquet", {"m": messages(['{"a": 1, "a": 2}'], [])}))
    assert str(twice) == "duplicate_key: a"
    assert good == {"m": {"calls": [], "name": None}}


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, {"text": [f"line {n}" * 50 for n in range(1000)]}, compression="zstd")
    whole = path.read_bytes()
    for content in (b"", b"not parquet at all", whole[:-20]):
        path.write_bytes(content)
        with pytest.raises(BadInput, match=r"^parquet: cannot read .*a\.parquet: [^\n]+$"):
            parquet.survey(path)
    path.write_bytes(whole[:40] + bytes(60) + whole[100:])
    with pytest.raises(BadInput, match=r"^parquet: .*a\.parquet is damaged after row 0: [^\n]+$"):
        records(Span(str(path), first=0))
    with pytest.raises(BadInput, match="cannot read"):
        parquet.survey(tmp_path / "missing.parquet")


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), path)
    with pytest.raises(BadInput, match="more than one column a; rename"):
        parquet.survey(path)


def test_memory_is_bounded_by_the_batch(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    with pq.ParquetWriter(path, pa.schema([("text", pa.string())])) as writer:
        # 240 MB of text in one row group.
        writer.write_table(pa.table({"text": pa.array([f"{n:06d}" * 5_000 for n in range(8_000)])}), 8_000)
    code = """
        import sys
        from prep_lib.files import Span
        from prep_lib.source import parquet
        peak = lambda: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
        before = peak()
        size = sum(len(record["text"]) for _, record in parquet.read_records(Span(sys.argv[1], first=0)))
        print(size, peak() - before)
    """
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(path)], capture_output=True, text=True, check=True
    )
    size, kib = map(int, out.stdout.split())
    assert size == 240_000_000
    assert kib < 180_000


def test_documents_are_rows_by_their_number(tmp_path: Path) -> None:
    span = write(tmp_path / "a.parquet", {"text": ["a", None, "c"], "n": [1, 2, 3]})
    found = list(parquet.documents(span, name="in/a.parquet"))
    assert found[0] == ("in/a.parquet[0]", Document("in/a.parquet[0]", "a", "in/a.parquet", {"n": 1}))
    assert [place for place, _ in found] == [f"in/a.parquet[{number}]" for number in range(3)]
    assert isinstance(found[1][1], BadRecord)
    assert found[1][1].reason == "text_not_a_string"
    own = write(tmp_path / "b.parquet", {"id": ["x"], "text": ["a"], "source": ["web"], "meta": [{"n": 1}]})
    assert list(parquet.documents(own)) == [("x", Document("x", "a", "web", {"n": 1}))]


def test_a_damaged_row_group_costs_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, {"text": [f"{n:04d}" * 20 for n in range(30)]}, row_group_size=10, compression="zstd")
    with pq.ParquetFile(path) as file:
        start = file.metadata.row_group(1).column(0).data_page_offset
    whole = bytearray(path.read_bytes())
    whole[start : start + 40] = bytes(40)
    path.write_bytes(whole)
    found = list(parquet.documents(Span(str(path), first=0)))
    assert [place for place, item in found if isinstance(item, Document)] == [
        f"a.parquet[{n}]" for n in (*range(10), *range(20, 30))
    ]
    (bad,) = [(place, item) for place, item in found if isinstance(item, BadRecord)]
    assert (bad[0], bad[1].reason) == ("a.parquet[10]", "damaged_row_group")
    assert bad[1].detail.startswith("10 rows lost; parquet: ")


def test_a_file_behind_an_address_is_surveyed_and_read(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", {"text": ["a", "b", "c"]}, row_group_size=2)
    address = "memory://parquet/a.parquet"
    with fsspec.open(address, "wb") as file:
        file.write((tmp_path / "a.parquet").read_bytes())
    there, here = parquet.survey(address), parquet.survey(tmp_path / "a.parquet")
    assert (there.digest, there.size, there.rows) == (here.digest, here.size, here.rows)
    assert [span.path for span in there.spans] == [address] * 2
    texts = [item.text for span in there.spans for _, item in parquet.documents(span) if isinstance(item, Document)]
    assert texts == ["a", "b", "c"]
    with pytest.raises(BadInput, match="cannot read memory://parquet/missing"):
        parquet.survey("memory://parquet/missing.parquet")
