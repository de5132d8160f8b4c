"""JSON lines, read and written by stated rules: one bad line is one failed record.

    {"text": "a"}\\n                  record
    {"text": "a", "text": "b"}\\n     duplicate_key     parsers silently keep the last
    {"score": NaN}\\n                 not_json_nan      not JSON; strict readers elsewhere stop at it
    {"text": "\\\\udcb2"}\\n             lone_surrogate    reads fine, breaks every UTF-8 writer later
    {"n": 18446744073709551616}\\n    record, exact     fast parsers make a float of it
    {"text": "a                      bad_json          a cut last line

Other reasons: ``invalid_utf8``, ``not_an_object``, ``number_too_large``, ``too_deep``; and, from `read_lines`,
``line_too_long`` and those of `DamagedStream`. Writing refuses ``nan``, ``bytes``, ``key_not_str``, ``not_json``,
``lone_surrogate``, ``too_deep``, ``number_too_large``.

The work is done by orjson. It keeps the last of duplicate keys, turns integers outside 64 bits into floats and writes
NaN as null, all without a word; what could be touched by that is found cheaply and goes through the standard library.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import decimal
import enum
import functools
import json
import math
import os
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal, NoReturn

import numpy as np
import orjson

from prep_lib.errors import BadInput, BadParameter, BadRecord, DamagedStream
from prep_lib.files import Span, open_bytes, read_lines
from prep_lib.record import Document
from prep_lib.verdicts import Column, called

#: How deep objects and lists may nest, read or written: what orjson writes.
MAX_DEPTH = 254

#: Python converts no longer ones, because the time grows with the square of the length.
_LONG_INTEGER = "an integer of more than 4,300 digits"

_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_PASSTHROUGH_DATACLASS


def loads(line: bytes) -> dict[str, Any]:
    """Parse one line that must be a JSON object.

    Parameters
    ----------
    line : bytes
        UTF-8, without byte order mark; a line feed or carriage return at the end is fine.

    Raises
    ------
    BadRecord
        With one of the reasons of the module's drawing.

    Examples
    --------
    >>> loads('{"text": "你好", "n": 18446744073709551616}'.encode())
    {'text': '你好', 'n': 18446744073709551616}
    >>> loads(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    prep_lib.errors.BadRecord: duplicate_key: a
    """
    record = parse(line)
    if type(record) is not dict:
        raise BadRecord("not_an_object", f"a JSON {_JSON_NAMES[type(record)]}")
    return record


_JSON_NAMES = {list: "array", str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def parse(line: bytes) -> Any:
    """Parse any JSON value by the rules of `loads`.

    Examples
    --------
    >>> parse(b'[1, null]')
    [1, None]
    """
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return _parse_exactly(line)
    try:
        again = orjson.dumps(value)
    except orjson.JSONEncodeError:
        raise _too_deep() from None
    # What is written back as the same bytes has lost nothing, and most files are compact: no further look.
    return value if again == line or _is_complete(line, again, value) else _parse_exactly(line)


def _is_complete(line: bytes, again: bytes, value: Any) -> bool:
    """Tell, without parsing again, that no duplicate key was merged and no integer became a float.

    A line has two quotes a string and one more for each quote inside a string, unless that is spelled ``\\u0022``. The
    copy written from what was kept has the same number, less the two of each key that was merged.
    """
    return line.count(b'"') == again.count(b'"') and b"\\u0022" not in line and not _has_huge_float(value)


def _has_huge_float(value: Any) -> bool:
    """Tell whether a float may have been an integer of more than 64 bits."""
    stack: list[Any] = [(value,)]
    while stack:
        for child in stack.pop():
            kind = type(child)
            if kind is float and abs(child) >= 2.0**63:
                return True
            if kind is list:
                stack.append(child)
            elif kind is dict:
                stack.append(child.values())
    return False


def _parse_exactly(line: bytes) -> Any:
    """Parse with the standard library, ten times slower, and name what is wrong."""
    try:
        text = line.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
        return plain(value)
    except UnicodeDecodeError as error:
        raise BadRecord("invalid_utf8", f"byte 0x{line[error.start]:02x} at {error.start}") from None
    except json.JSONDecodeError as error:
        raise BadRecord("bad_json", f"{error.msg} at character {error.pos}") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        raise BadRecord("number_too_large", _LONG_INTEGER) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        raise BadRecord("duplicate_key", next(name for name in names if names.count(name) > 1))
    return record


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise BadRecord("number_too_large", "a number beyond 1.8e308")
    return number


def _no_constant(name: str) -> NoReturn:
    raise BadRecord("not_json_nan", name)


def _too_deep() -> BadRecord:
    return BadRecord("too_deep", f"nested more than {MAX_DEPTH} levels")


Nan = Literal["reject", "null"]
Bytes = Literal["reject", "base64"]


def check_policies(nan: str, bytes: str) -> None:
    """Refuse a policy `dumps` does not know.

    Examples
    --------
    >>> check_policies("keep", "reject")
    Traceback (most recent call last):
    prep_lib.errors.BadParameter: jsonl: nan='keep'; allowed: 'reject', 'null'
    """
    for name, got, allowed in (("nan", nan, ("reject", "null")), ("bytes", bytes, ("reject", "base64"))):
        if got not in allowed:
            raise BadParameter(f"jsonl: {name}={got!r}; allowed: {', '.join(map(repr, allowed))}")


def dumps(record: dict[str, Any], *, nan: Nan = "reject", bytes: Bytes = "reject") -> bytes:
    """Write one record as a line of UTF-8, compact and not ASCII-escaped, with its line feed.

    Parameters
    ----------
    record : dict
        Keys are strings. Written as JSON has it: str, bool, int of any size, float, None, list, tuple, dict.
        Converted: datetime, date, time, pandas Timestamp, NumPy datetime64 to ISO 8601; durations to ISO 8601
        (``P1DT2H``); Decimal to a string, because a JSON number would be read back as a float; UUID to a string;
        an enum to its value; NumPy scalars and arrays to numbers and lists; NaT and pandas NA to null.
    nan : "reject" or "null"
        What to do with NaN and Infinity, which JSON does not have.
    bytes : "reject" or "base64"

    Raises
    ------
    BadRecord
        ``nan``, ``bytes``, ``key_not_str``, ``lone_surrogate``, ``too_deep``, ``number_too_large``, ``not_json`` (sets,
        dataclasses, images …), with the place inside the record; ``not_an_object`` if it is no dict.

    Examples
    --------
    >>> dumps({"text": "你好", "created": datetime.date(2024, 1, 2)}).decode()
    '{"text":"你好","created":"2024-01-02"}\\n'
    >>> dumps({"scores": [1.0, float("nan")]})
    Traceback (most recent call last):
    prep_lib.errors.BadRecord: nan: at scores[1]
    """
    if not isinstance(record, dict):
        raise BadRecord("not_an_object", f"a {type(record).__name__}")
    try:
        line = orjson.dumps(record, default=_HOOKS[nan, bytes], option=_OPTIONS)
    except orjson.JSONEncodeError:
        return _dumps_exactly(record, nan, bytes)
    if nan == "null" or _TEXT.issuperset(map(type, record.values())):
        return line
    # orjson writes NaN as null: where no null was written there was none.
    return _dumps_exactly(record, nan, bytes) if b"null" in line and _has_nan(record) else line


_TEXT = frozenset({str, int, bool})


def _dumps_exactly(record: dict[str, Any], nan: Nan, bytes: Bytes) -> bytes:
    """Write with the standard library, for integers over 64 bits and to name what is wrong."""
    try:
        text = json.dumps(plain(record, nan=nan, bytes=bytes), ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        raise BadRecord("number_too_large", _LONG_INTEGER) from None
    return text.encode("utf-8") + b"\n"


def _has_nan(value: Any) -> bool:
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, float):
            if not math.isfinite(node):
                return True
        elif isinstance(node, dict):
            stack.extend(node.values())
        elif isinstance(node, list | tuple):
            stack.extend(node)
    return False


def plain(value: Any, *, nan: Nan = "reject", bytes: Bytes = "reject", at: str = "", depth: int = 0) -> Any:
    """Return `value` with everything JSON does not have converted or refused, by the rules of `dumps`.

    Parameters
    ----------
    at : str
        The place inside the record, for the error.
    depth : int, levels
        How deep this value stands in its record.

    Examples
    --------
    >>> plain({"id": np.int64(7), "at": (datetime.timedelta(hours=2),)})
    {'id': 7, 'at': ['PT2H']}
    """
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _checked_text(value, at)
    if isinstance(value, dict | list):
        if depth >= MAX_DEPTH:
            raise _too_deep()
        inner: Any = value.items() if isinstance(value, dict) else enumerate(value)
        place = _key_place if isinstance(value, dict) else _item_place
        below = [(key, plain(child, nan=nan, bytes=bytes, at=place(at, key), depth=depth + 1)) for key, child in inner]
        return dict(below) if isinstance(value, dict) else [child for _, child in below]
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, int):
        return int(value)
    return plain(_converted(value, nan, bytes, at), nan=nan, bytes=bytes, at=at, depth=depth)


def _key_place(at: str, key: Any) -> str:
    if not isinstance(key, str):
        raise BadRecord("key_not_str", f"{type(key).__name__} key{_place(at)}")
    _checked_text(key, at)
    return f"{at}.{key}" if at else key


def _item_place(at: str, index: int) -> str:
    return f"{at}[{index}]"


def _place(at: str) -> str:
    return f" at {at}" if at else ""


def _checked_text(text: str, at: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRecord("lone_surrogate", _place(at).strip()) from None
    return text


def _converted(value: Any, nan: Nan, bytes: Bytes, at: str = "") -> Any:
    """Turn a value JSON does not have into one nearer to it, or refuse it; one step, not its children."""
    if isinstance(value, float | np.floating | decimal.Decimal):
        return _number(value, nan, at)
    if isinstance(value, _BYTES):
        if bytes == "reject":
            raise BadRecord("bytes", _place(at).strip())
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, np.ndarray):
        return value.tolist() if value.dtype.kind in "biuSU" or value.dtype == np.float64 else _scalars(value)
    if isinstance(value, np.datetime64 | np.timedelta64):
        return _numpy_time(value)
    if isinstance(value, np.generic) and not isinstance(value, np.complexfloating):
        return value.item()
    if isinstance(value, datetime.timedelta):
        whole = (value.days * 86_400 + value.seconds) * 10**9 + value.microseconds * 1_000
        return _duration(whole + getattr(value, "nanoseconds", 0)) if value == value else None
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat() if value == value else None  # pandas NaT is a datetime that equals nothing
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, uuid.UUID):
        return str(value)
    # pandas is not imported for one name: whoever made the NA has it.
    return None if type(value).__name__ in ("NAType", "NaTType") else _refused(value, at)


_BYTES = (bytes, bytearray, memoryview)


def _refused(value: Any, at: str) -> NoReturn:
    raise BadRecord("not_json", f"{type(value).__module__}.{type(value).__qualname__}{_place(at)}")


def _scalars(value: np.ndarray) -> Any:
    # tolist() would make integers of nanoseconds and a long tail of a float32.
    return list(value) if value.ndim else value[()]


def _number(value: Any, nan: Nan, at: str) -> Any:
    if math.isfinite(value):
        if isinstance(value, decimal.Decimal):
            return str(value)
        # A float32 of 0.1 is meant as 0.1, not as the 0.10000000149011612 it is nearest to.
        return float(str(value)) if isinstance(value, np.floating) else float(value)
    if nan == "reject":
        raise BadRecord("nan", _place(at).strip())
    return None


def _numpy_time(value: np.datetime64 | np.timedelta64) -> str | None:
    if np.isnat(value):
        return None
    if isinstance(value, np.datetime64):
        return str(np.datetime_as_string(value))
    return _duration(int(value.astype("timedelta64[ns]").astype(np.int64)))


def _duration(nanoseconds: int) -> str:
    """Return an ISO 8601 duration.

    >>> _duration(93_784_500_000_000), _duration(-1_000_000_000), _duration(0)
    ('P1DT2H3M4.5S', '-PT1S', 'PT0S')
    """
    whole, rest = divmod(abs(nanoseconds), 10**9)
    seconds = f"{whole % 60}.{rest:09d}".rstrip("0").rstrip(".") if rest else str(whole % 60)
    parts = ((whole // 86_400, "D"), (whole // 3_600 % 24, "H"), (whole // 60 % 60, "M"))
    days, hours, minutes = (f"{number}{unit}" if number else "" for number, unit in parts)
    clock = hours + minutes + (f"{seconds}S" if seconds != "0" else "")
    text = f"P{days}T{clock}" if clock else f"P{days}" if days else "PT0S"
    return f"-{text}" if nanoseconds < 0 else text


def _hook(nan: Nan, bytes: Bytes) -> Callable[[Any], Any]:
    return functools.partial(plain, nan=nan, bytes=bytes)


#: What orjson calls for a value it does not know, made once. It names no place: that takes the slow way.
_HOOKS = {(nan, bytes): _hook(nan, bytes) for nan in ("reject", "null") for bytes in ("reject", "base64")}


def read_records(span: Span) -> Iterator[tuple[int, dict[str, Any] | BadRecord]]:
    """Yield (line number, record) of a span; a `BadRecord` stands in the place of a line that is none.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.jsonl")
    >>> _ = path.write_bytes(b'{"text": "a"}\\n\\n{"text": "b')
    >>> list(read_records(Span(str(path))))
    [(1, {'text': 'a'}), (3, BadRecord('bad_json', 'Unterminated string starting at at character 9'))]
    """
    for number, line in read_lines(span):
        yield number, line if isinstance(line, BadRecord) else load_or_reason(line)


def load_or_reason(line: bytes) -> dict[str, Any] | BadRecord:
    """Return what `loads` returns or raises.

    Examples
    --------
    >>> load_or_reason(b'[]')
    BadRecord('not_an_object', 'a JSON array')
    """
    try:
        return loads(line)
    except BadRecord as error:
        return error.with_traceback(None)


def read_array(path: str) -> Iterator[tuple[int, bytes]]:
    """Yield (number, member) of a file that is one JSON array; the members are not parsed yet.

    The text of the file is held in memory, its objects are not.

    Raises
    ------
    BadInput
        If it is no valid array to its end: behind an error no member can be told from another.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.json")
    >>> _ = path.write_text('[{"a": 1}, [2]]')
    >>> list(read_array(str(path)))
    [(0, b'{"a": 1}'), (1, b'[2]')]
    """
    try:
        with contextlib.closing(open_bytes(path)) as file:
            text = file.read().decode("utf-8-sig")
        for number, member in enumerate(_members(text)):
            yield number, member.encode("utf-8")
    except json.JSONDecodeError as error:
        raise BadInput(f"jsonl: {path} is no JSON array: {error.msg} at line {error.lineno}") from None
    except (UnicodeDecodeError, DamagedStream, OSError) as error:
        raise BadInput(f"jsonl: cannot read {path}: {error}") from None


def _members(text: str) -> Iterator[str]:
    decoder = json.JSONDecoder()
    at, sign = _next_sign(text, 0)
    begin, sign = _next_sign(text, at + 1) if sign == "[" else (at, "")
    while sign != "]":
        try:
            _, end = decoder.raw_decode(text, begin)
        except RecursionError:
            raise json.JSONDecodeError("nested too deeply", text, begin) from None
        yield text[begin:end]
        at, sign = _next_sign(text, end)
        if sign not in (",", "]"):
            raise json.JSONDecodeError("expected , or ]", text, at)
        begin = _next_sign(text, at + 1)[0] if sign == "," else at
    if _next_sign(text, begin + 1)[1]:
        raise json.JSONDecodeError("something follows the array", text, begin + 1)


def _next_sign(text: str, at: int) -> tuple[int, str]:
    at = _BLANK.match(text, at).end()  # type: ignore[union-attr]
    return at, text[at : at + 1]


_BLANK = re.compile(r"[ \t\r\n]*")


def documents(
    span: Span,
    *,
    name: str | None = None,
    text: str = "text",
    column: Column | None = None,
    wanted: Callable[[str], bool] | None = None,
) -> Iterator[tuple[str, Document | BadRecord]]:
    """Yield (id, document) of a span; the rest of a record becomes its meta.

    Parameters
    ----------
    name : str or None
        What the ids begin with; None: the file's name.
    text : str
        The key that holds the text.
    column : Column or None
        What was decided about the records; see `prep_lib.verdicts`. None: all are read.
    wanted : callable of str, or None
        Asked for each id that a record may have before it is parsed, which is what reading costs: a record none of
        whose ids is wanted may be left out. None: all are wanted.

    Yields
    ------
    (str, Document or BadRecord)
        As `document` makes them. The id is ``file.jsonl#L12``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.jsonl")
    >>> _ = path.write_bytes(b'{"text": "a", "lang": "en"}\\n{"txt": "b"}\\n')
    >>> [*documents(Span(str(path)))]  # doctest: +NORMALIZE_WHITESPACE
    [('a.jsonl#L1', Document(id='a.jsonl#L1', text='a', source='a.jsonl', meta={'lang': 'en'})),
     ('a.jsonl#L2', BadRecord('missing_text', 'no key text'))]
    """
    return (found for _, found in numbered(span, name=name, text=text, column=column, wanted=wanted))


def numbered(
    span: Span,
    *,
    name: str | None = None,
    text: str = "text",
    column: Column | None = None,
    wanted: Callable[[str], bool] | None = None,
) -> Iterator[tuple[int, tuple[str, Document | BadRecord]]]:
    """Yield the number of each line that is read, and what `documents` yields."""
    name = os.path.basename(span.path) if name is None else name
    copy, name = (column.copy, column.original(name)) if column else (0, name)
    if column is not None:
        column.check(text)
    for number, line in read_lines(span):
        place = f"{called(name, copy)}#L{number}"
        if column is not None and not column.takes(number):
            continue
        if wanted is not None and isinstance(line, bytes) and not _may_be(line, place, copy, wanted):
            continue
        found = document(place, name, load_or_reason(line) if isinstance(line, bytes) else line, text)
        yield number, found if column is None else decided(found, place, number, column)


def _may_be(line: bytes, place: str, copy: int, wanted: Callable[[str], bool]) -> bool:
    """Tell whether a record may be wanted, before it is parsed: by its place, and by the id it begins with."""
    if line.startswith(_OURS):
        # As we write it: no escape in it is the rule, and then nothing need be parsed.
        spelled = line[len(_OURS) : line.find(b'"', len(_OURS))]
        if b"\\" not in spelled:
            return wanted(place) or wanted(called(spelled.decode("utf-8", "replace"), copy))
    if b'"id"' not in line:
        return wanted(place)
    told = _ID.match(line)
    own = load_or_reason(told[0] + b"}") if told else None
    if not isinstance(own, dict):
        return True  # it stands elsewhere in the record
    return wanted(place) or wanted(called(own["id"], copy))


#: How a record begins that tells its id first, as ours do; how ours do it.
_OURS = b'{"id":"'
_ID = re.compile(rb'\{\s*"id"\s*:\s*"(?:[^"\\]|\\.)*"')


def decided(
    found: tuple[str, Document | BadRecord], place: str, number: int, column: Column
) -> tuple[str, Document | BadRecord]:
    """Return a document as verdicts let it through: without what is cut, and a copy under a name of its own.

    Parameters
    ----------
    found : (str, Document or BadRecord)
        As `document` makes it.
    place : str
        Where it stands in which copy of its file: ``a.jsonl~2#L3``; the id of a record that has none of its own.
    number : int
    column : Column
    """
    doc, cut = found[1], column.cut(number)
    if isinstance(doc, BadRecord) or (cut is None and not column.copy):
        return found
    name = place if doc.id == place else called(doc.id, column.copy)
    return name, replace(doc, id=name, text=cut.apply(doc.text) if cut else doc.text)


#: The keys of a record of our own documents, as a run writes them.
OWN = {"id", "text", "source", "meta"}


def document(
    place: str, source: str, record: dict[str, Any] | BadRecord, text: str = "text"
) -> tuple[str, Document | BadRecord]:
    """Return (id, what a record is as a document).

    Parameters
    ----------
    place : str
        Where the record stands, and so its id. A record of exactly ``id, text, source, meta`` is a document of an
        earlier run and keeps its own id and source.
    source : str
    record : dict or BadRecord
        Its other keys become the meta. A BadRecord stays what it is.
    text : str
        The key that holds the text. Without it the record is ``missing_text``; with something else there
        ``text_not_a_string``.

    Examples
    --------
    >>> document("a.jsonl#L1", "a.jsonl", {"text": "b", "n": 1})
    ('a.jsonl#L1', Document(id='a.jsonl#L1', text='b', source='a.jsonl', meta={'n': 1}))
    >>> document("b.jsonl#L7", "b.jsonl", {"id": "a.jsonl#L1", "text": "b", "source": "web", "meta": {"n": 1}})
    ('a.jsonl#L1', Document(id='a.jsonl#L1', text='b', source='web', meta={'n': 1}))
    """
    if isinstance(record, BadRecord):
        return place, record
    if text not in record:
        return place, BadRecord("missing_text", f"no key {text}")
    if not isinstance(record[text], str):
        return place, BadRecord("text_not_a_string", type(record[text]).__name__)
    if record.keys() == OWN and _is_own(record):
        return record["id"], Document(record["id"], record[text], record["source"], record["meta"])
    return place, Document(place, record[text], source, {key: value for key, value in record.items() if key != text})


def _is_own(record: dict[str, Any]) -> bool:
    return isinstance(record["id"], str) and isinstance(record["source"], str) and isinstance(record["meta"], dict)
