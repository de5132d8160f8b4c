r"""Web archives, record by record: a damaged one is counted where it stands, and the next one is read.

    pages.warc.gz   member at 0        WARC/1.0 … warcinfo                   Drop warc_warcinfo
                    member at 353      WARC/1.0 … request                    Drop warc_request
                    member at 784      WARC/1.0 … response                   Document pages.warc.gz@784
                                         HTTP/1.1 200 OK, text/html            unchunked, unpacked, decoded
                    member at 2012     cut, does not unpack, no header       BadRecord, with its place
                    member at 3207     …                                     read on at the next member or header

    all.warc.gz     one member         the second record in it               all.warc.gz@0+488
    old.arc, old.arc.gz, WET: the same
    pages.warc.zst  frames as members; one without data is passed over, a dictionary in the first serves for all

A record whose length is wrong ends where the next one begins. If that gives all of it, it is a Document whose meta says
``damage: wrong_length``; if it is cut, a BadRecord. So does one whose length takes in whole records behind it, and one
whose header is cut: the next record may begin in the middle of a line.

Reasons of a Drop: ``warc_request``, ``warc_revisit`` … (no page in them), ``http_status``, ``content_type``,
``too_large``, ``not_text``. Of a BadRecord: ``no_record_header``, ``bad_header``, ``cut_record``, ``wrong_length``
(nothing to read in it), ``bad_chunks``, ``bad_content_encoding``, ``damaged_member`` (and the next one is read), and
behind the last member that can be read those of `DamagedStream`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import zstandard
from isal import isal_zlib

from prep_lib.errors import BadRecord, DamagedStream
from prep_lib.files import PACKED, Span, compression, open_stored
from prep_lib.record import Document, Drop
from prep_lib.source.encoding import decode
from prep_lib.source.html import page
from prep_lib.source.plain import MAX_BYTES, is_text, told

#: Longest header of a record, bytes.
MAX_HEADER = 2**16

#: A record may be this much longer than it says and still be taken as one, bytes: writers that miscount do so by a
#: blank line or a chunk's header.
SLIP = 2**10


def documents(
    span: Span, *, name: str | None = None, max_bytes: int = MAX_BYTES
) -> Iterator[tuple[str, Document | Drop | BadRecord]]:
    """Yield (id, what it is) of every record of an archive.

    Parameters
    ----------
    name : str or None
        What the ids begin with; None: the file's name.
    max_bytes : int
        Of a record as stored, and of its body unpacked. What is longer is passed over, never held.

    Yields
    ------
    (str, Document or Drop or BadRecord)
        The id is ``file@offset``, the place of the record in the file as stored; for a record inside a packed member
        ``file@offset of the member+offset inside``.

    Drops
    -----
    warc_*, http_status, content_type, too_large, not_text

    Source
    ------
    ISO 28500 (WARC 1.1), the ARC 1 format of the Internet Archive, IIPC's Zstandard Compression for WARC Files 1.0, RFC
    8878 (frames of zstd), RFC 9112 (chunks).

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.warc")
    >>> body = b"HTTP/1.1 200 OK\\r\\nContent-Type: text/html\\r\\n\\r\\n<p>one"
    >>> head = f"WARC/1.1\\r\\nWARC-Type: response\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n"
    >>> _ = path.write_bytes(head.encode() + body + b"\\r\\n\\r\\n" + b"WARC/1.1\\r\\nnonsense")
    >>> for place, found in documents(Span(str(path))):
    ...     print(place, getattr(found, "text", found))
    a.warc@0 <p>one
    a.warc@107 bad_header: the header does not end
    """
    name = os.path.basename(span.path) if name is None else name
    try:
        at = ""
        with contextlib.closing(open_stored(span.path)) as file:
            for place, found in _records(_Tape(file, compression(span.path)), max_bytes):
                at = f"{name}@{place}"
                yield at, found.document(at, name, max_bytes) if isinstance(found, _Record) else found
        if not at:
            yield name, BadRecord("no_records", "an archive begins with a record that describes it")
    except OSError as error:
        yield name, BadRecord("unreadable_file", error.strerror or type(error).__name__)


# The archive as one tape of bytes, whatever it is packed in

#: How packed members begin.
_MEMBER = {"gz": b"\x1f\x8b\x08", "zst": b"\x28\xb5\x2f\xfd"}

#: How frames of zstd begin that hold no data, and the one of them that holds a dictionary if it is the first of a file.
_SKIPPABLE = tuple(bytes([0x50 + number]) + b"\x2a\x4d\x18" for number in range(16))
_GZIP, _ZSTD = (_MEMBER["gz"],), (_MEMBER["zst"], *_SKIPPABLE)
_DICTIONARY_FRAME = _SKIPPABLE[13]

#: Largest dictionary, bytes, packed and not: usual ones have some hundred thousand.
MAX_DICTIONARY = 2**25

#: How records begin: the version and a first field, in a line of its own or, behind a record that is cut, in any; in an
#: ARC file a line of URL, address, time, type and length.
_WARC = re.compile(
    rb"WARC/(?:(?:(?<=\nWARC/)|(?<=^WARC/))\d\.\d+\r?\n[A-Za-z]"
    rb"|\d\.\d+\r\n(?:WARC|warc|Content|content)-[\w-]+:)"
)
_ARC = re.compile(
    rb"((?:(?:(?<=\n)|^)[a-z][a-z0-9+.-]{0,20}:|https?://)[^\s]*) "
    rb"([\w.:-]+) (\d{8,18}) ([^ \n]+) (?:[^\n]* )?(-?\w+)\r?\n"
)

#: Bytes that hold the beginning of a record.
_LOOK = 2**12


class _Tape:
    """The unpacked bytes of an archive, held as far as they are looked at; each knows its place in the file.

    Where a member does not unpack the tape ends with a `damage`; `resume` goes on behind it.
    """

    def __init__(self, file: IO[bytes], packed: str | None = None) -> None:
        self.buffer = bytearray()
        self.damage: DamagedStream | None = None
        self.damaged_at = 0  # offset in the file of what is damaged
        self._file, self._raw = file, file.read(PACKED)
        # A name may lie, and the first bytes may be what is damaged.
        told = _MEMBER.get(packed or "", b"") if not self._raw.startswith((b"WARC/", b"filedesc:")) else b""
        told = _MEMBER["zst"] if self._raw.startswith(_SKIPPABLE) else told
        self._packed = next((magic for magic in _MEMBER.values() if self._raw.startswith(magic)), told)
        self._dictionary: zstandard.ZstdCompressionDict | None = None
        self._read = len(self._raw)  # bytes read of the file
        self._at = 0  # place of the buffer on the tape
        self._over = False  # nothing behind the last damage can be read
        self._member: Any = None
        self._members: list[tuple[int, int]] = []  # (place on the tape, offset in the file) of what is in the buffer
        self.fill(_LOOK)
        self.header = _ARC if self.buffer.startswith(b"filedesc:") else _WARC

    def fill(self, size: int) -> bool:
        """Hold `size` bytes, if there are so many before the end or a damage."""
        while len(self.buffer) < size and not self._over:
            piece = self._unpacked() if self._packed else self._stored()
            if not piece:
                break
            self.buffer += piece
        return len(self.buffer) >= size

    def drop(self, size: int) -> None:
        """Go on behind the next `size` bytes, which are held."""
        del self.buffer[:size]
        self._at += size
        while len(self._members) > 1 and self._members[1][0] <= self._at:
            del self._members[0]

    def skip(self, size: int) -> bool:
        """Go on behind `size` bytes without holding them; False: there are fewer."""
        while size > len(self.buffer):
            size -= len(self.buffer)
            self.drop(len(self.buffer))
            if not self.fill(1):
                return False
        self.drop(size)
        return True

    def skip_blank(self) -> None:
        """Go on at what is no line end."""
        while self.fill(1) and not (rest := self.buffer.lstrip(b"\r\n")):
            self.drop(len(self.buffer))
        if self.buffer:
            self.drop(len(self.buffer) - len(rest))

    def place(self) -> tuple[int, int]:
        """Return (offset of the member in the file, offset inside it); of a file that is not packed (offset, 0)."""
        if not self._packed:
            return self._at, 0
        begin, stored = self._members[0] if self._members else (self._at, 0)
        # What is damaged may be no member at all.
        damaged = self.damage is not None and not self.buffer and stored != self.damaged_at
        return (self.damaged_at, 0) if damaged else (stored, self._at - begin)

    def next_header(self, start: int, stop: int = sys.maxsize) -> int | None:
        """Return where in the buffer the next record begins, from `start` on; its header ends before `stop`."""
        if found := self.header.search(self.buffer, start, stop):
            return found.start()
        # A member may follow without a blank line before it.
        places = (begin - self._at for begin, _ in self._members)
        return next(
            (at for at in places if start <= at < stop and self.header.match(self.buffer[at : at + _LOOK])), None
        )

    def ends(self, start: int) -> bool:
        """Tell whether a record can end at `start`: only line ends are between there and the next, or the end."""
        self.fill(start + _LOOK)
        rest = self.buffer[start : start + _LOOK].lstrip(b"\r\n")
        at = self._at + min(start + _LOOK, len(self.buffer)) - len(rest)
        return not rest or self.header.match(rest) is not None or any(begin == at for begin, _ in self._members)

    def seek_header(self) -> None:
        """Go on at the next beginning of a record, or the end."""
        while (at := self.next_header(1)) is None:
            # A beginning that reaches beyond the buffer is found when the rest of it is there.
            self.drop(max(0, len(self.buffer) - _LOOK))
            if not self.fill(len(self.buffer) + 1):
                self.drop(len(self.buffer))
                return
        self.drop(at)

    def back(self, place: tuple[int, int]) -> bool:
        """Go back to a place; False: this file cannot."""
        if not self._file.seekable():
            return False
        self._enter(place[0])
        return self.skip(place[1])

    def resume(self) -> bool:
        """Go on at the next member behind a damage that holds the beginning of a record; False: there is none."""
        start, self.damage = self.damaged_at + 1, None
        self.drop(len(self.buffer))
        while self._file.seekable() and (start := self._find(start)) >= 0:
            self._enter(start)
            self.fill(2**16)
            if self.next_header(0) is not None:
                return True
            self.damage, start = None, start + 1
            self.drop(len(self.buffer))
        self._over = True
        return False

    def _enter(self, offset: int) -> None:
        self._file.seek(offset)
        self.drop(len(self.buffer))
        self._raw, self._read, self._member, self.damage, self._members = b"", offset, None, None, []
        if not self._packed:
            self._at = offset

    def _find(self, start: int) -> int:
        """Return the offset of the next stored bytes that look like the beginning of a member, or -1."""
        self._file.seek(start)
        tail = b""
        while block := self._file.read(2**20):
            if (at := (tail + block).find(self._packed)) >= 0:
                return start + at - len(tail)
            start += len(block)
            tail = (tail + block)[-3:]
        return -1

    def _stored(self) -> bytes:
        """Return the next bytes of the file."""
        if self._raw:
            stored, self._raw = self._raw, b""
            return stored
        stored = self._file.read(PACKED if self._packed else 2**16)
        self._read += len(stored)
        return stored

    def _unpacked(self) -> bytes:
        """Return the next bytes of the tape; none at its end and at a damage."""
        piece = b""
        try:
            while not piece and self.damage is None and (stored := self._of_member()):
                piece = self._member.decompress(stored)
        except (isal_zlib.IsalError, zstandard.ZstdError, EOFError) as error:  # type: ignore[misc]  # no stubs
            self._damaged("corrupt_stream", str(error), self._members[-1][1])
        return piece

    def _damaged(self, reason: str, detail: str, offset: int) -> bytes:
        self.damage, self.damaged_at = DamagedStream(reason, detail), offset
        return b""

    def _of_member(self) -> bytes:
        """Return the next stored bytes, with a member open for them."""
        if self._member is None or self._member.eof:
            return self._begin_member(self._member.unused_data if self._member is not None else b"")
        return self._stored() or self._damaged("cut_stream", "a member ends too early", self._members[-1][1])

    def _begin_member(self, head: bytes) -> bytes:
        gz = self._packed == _MEMBER["gz"]
        while (head := self._unpadded(head)).startswith(_SKIPPABLE) and not gz:
            head = self._behind_skippable(head)
        if not head:
            return b""
        offset = self._read - len(head)
        if not head.startswith(self._packed):
            reason = "corrupt_stream" if self._member is None else "bytes_after_stream"
            reason = "cut_stream" if self._packed.startswith(head) else reason
            return self._damaged(reason, f"{head[:4].hex(' ')} begins no member", offset)
        self._member = isal_zlib.decompressobj(wbits=31) if gz else _unpack_zstd(self._dictionary)
        self._members.append((self._at + len(self.buffer), offset))
        return head

    def _unpadded(self, head: bytes) -> bytes:
        """Return the beginning of what follows; zeros may pad a file to a block."""
        while len(head := head.lstrip(b"\0")) < 4 and self.damage is None and (more := self._stored()):
            head += more
        return head

    def _behind_skippable(self, head: bytes) -> bytes:
        """Return what follows a frame without data; a dictionary in it serves from here on."""
        offset, held = self._read - len(head), bytearray(head)
        first = offset == 0 and head.startswith(_DICTIONARY_FRAME)
        while len(held) < 8 and (more := self._stored()):
            held += more
        left = 8 + int.from_bytes(held[4:8], "little")
        if first and left > MAX_DICTIONARY:
            return self._damaged("corrupt_stream", f"a dictionary of {left:,} bytes", offset)
        while left > len(held):
            if not first:
                left -= len(held)
                held.clear()
            if not (more := self._stored()):
                return self._damaged("cut_stream", "a skippable frame ends too early", offset)
            held += more
        self._dictionary = _dictionary(bytes(held[8:left])) if first else self._dictionary
        if first and self._dictionary is None:
            return self._damaged("corrupt_stream", "the dictionary cannot be read", offset)
        return bytes(held[left:])


def _unpack_zstd(dictionary: zstandard.ZstdCompressionDict | None = None) -> Any:
    return zstandard.ZstdDecompressor(dict_data=dictionary).decompressobj()


def _dictionary(data: bytes) -> zstandard.ZstdCompressionDict | None:
    """Return the dictionary, which may be packed itself; None if it is none."""
    try:
        if data.startswith(_MEMBER["zst"]):
            data = _members_unpacked(data, _unpack_zstd, (), MAX_DICTIONARY)
        found = zstandard.ZstdCompressionDict(data, dict_type=zstandard.DICT_TYPE_FULLDICT)
        _unpack_zstd(found)
    except (zstandard.ZstdError, BadRecord):
        return None
    return found if len(data) <= MAX_DICTIONARY else None


# Records on the tape


def _records(tape: _Tape, max_bytes: int) -> Iterator[tuple[str, _Record | Drop | BadRecord]]:
    while True:
        tape.skip_blank()
        if not tape.buffer and tape.damage is None:
            return
        stored, inside = tape.place()
        place = f"{stored}+{inside}" if inside else f"{stored}"
        yield place, _record(tape, max_bytes) if tape.buffer else _damaged(tape)


def _damaged(tape: _Tape) -> BadRecord:
    """Say what is damaged, and go on behind it."""
    damage = tape.damage or DamagedStream("cut_record", "")
    # Where a next member is read, one record is lost, as archives are packed; only behind the last nobody knows.
    return BadRecord("damaged_member" if tape.resume() else damage.reason, damage.detail)


def _record(tape: _Tape, max_bytes: int) -> _Record | Drop | BadRecord:
    """Read the record that begins here, and go on where the next one may."""
    found = _head(tape)
    if isinstance(found, BadRecord):
        if tape.damage is not None and not tape.fill(len(tape.buffer) + 1):
            return _damaged(tape)
        tape.seek_header()
        return found
    size, fields = found
    length = int(fields["content-length"])
    if length > max_bytes:
        return _passed_over(tape, size, length, max_bytes)
    return _block(tape, size, length, fields)


def _head(tape: _Tape) -> tuple[int, dict[str, str]] | BadRecord:
    """Return the size of the record's header, and its fields."""
    if tape.header is _ARC:
        return _arc_head(tape)
    if not (tape.fill(5) and tape.buffer.startswith(b"WARC/")):
        return BadRecord("no_record_header", f"begins with {bytes(tape.buffer[:20])!r}")
    while not (end := _BLANK.search(tape.buffer)):
        if len(tape.buffer) > MAX_HEADER or not tape.fill(len(tape.buffer) + 1):
            return BadRecord("bad_header", "the header does not end")
    if tape.next_header(1, end.end()) is not None:
        return BadRecord("bad_header", _CUT_HEADER)
    fields = _fields(bytes(tape.buffer[: end.start()]))
    if not re.fullmatch(r"\d{1,18}", length := fields.get("content-length", "")):
        return BadRecord("bad_header", f"Content-Length: {length[:40]}")
    return end.end(), fields


def _arc_head(tape: _Tape) -> tuple[int, dict[str, str]] | BadRecord:
    tape.fill(_LOOK)
    found = tape.header.match(tape.buffer)
    if not found:
        return BadRecord("no_record_header", f"begins with {bytes(tape.buffer[:20])!r}")
    if _ARC.search(tape.buffer, found.end(1), found.end()):
        return BadRecord("bad_header", _CUT_HEADER)
    url, _, date, kind, length = (part.decode("utf-8", "replace") for part in found.groups())
    if not length.isdecimal():
        return BadRecord("bad_header", f"length {length[:40]}")
    date = "{}-{}-{}T{}:{}:{}Z".format(date[:4], *(date[at : at + 2] or "00" for at in range(4, 14, 2)))
    return found.end(), {
        "warc-type": "warcinfo" if url.startswith("filedesc:") else "response",
        "warc-target-uri": url, "warc-date": date, "content-type": kind, "content-length": length,
    }  # fmt: skip


_CUT_HEADER = "the next record begins inside the header"

_BLANK = re.compile(rb"\r?\n\r?\n")
_LAST_BLANK = re.compile(rb"\r?\n(\r?\n)?\Z")


def _fields(header: bytes) -> dict[str, str]:
    """Return the fields of a header by their names in small letters; of one given twice, the first."""
    fields: dict[str, str] = {}
    text = re.sub(r"\r?\n[ \t]+", " ", header.decode("utf-8", "replace"))
    for line in text.split("\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip().lower(), value.strip())
    return fields


def _block(tape: _Tape, size: int, length: int, fields: dict[str, str]) -> _Record | BadRecord:
    """Take a record as long as it says, or, where that cannot be, up to where the next one begins."""
    end = size + length
    whole = tape.fill(end)
    if whole and tape.ends(end) and not _swallows(tape, size, end):
        return _Record(fields, _taken(tape, size, end))
    if not whole and tape.damage is not None:
        return _damaged(tape)
    more = tape.fill(end + SLIP + _LOOK)
    at = tape.next_header(size)
    if whole and (at is None or at > end) and _AFTER[tape.header].match(tape.buffer, end):
        # The length is right: what follows is no record.
        return _Record(fields, _taken(tape, size, end))
    if at is None and not whole:
        tape.drop(held := len(tape.buffer))
        return BadRecord("cut_record", f"{held - size:,} of {length:,} bytes")
    if at is None and not more:
        at = len(tape.buffer)
    if at is None or at > end + SLIP:
        return _Record(fields, _taken(tape, size, end), "wrong_length")
    block = _LAST_BLANK.sub(b"", _taken(tape, size, at))
    return _Record(fields, block, "wrong_length") if block else BadRecord("wrong_length", f"says {length:,}, is empty")


def _swallows(tape: _Tape, size: int, end: int) -> bool:
    """Tell whether a block that would end at `end` takes in other records: by its own length the last one ends there.

    An archive in a page is no such case: it begins right behind a header, and a blank line more follows on it.
    """
    head = _BLANK.search(tape.buffer, size, end) if tape.buffer.startswith(b"HTTP/", size) else None
    inside = (size, head.end() if head else size)
    following = _LINE_ENDS.match(tape.buffer, end).end()  # type: ignore[union-attr]  # matches nothing, too
    for found in _LIKE_HEADER[tape.header].finditer(tape.buffer, size - 1, end):
        at = found.start() + 1
        own = _own_end(tape, at, end)
        if own is not None and own <= end and following - own <= 4 and at not in inside:
            return True
    return False


def _own_end(tape: _Tape, at: int, stop: int) -> int | None:
    """Return where a record that begins inside the block of another ends by its own length."""
    if tape.header is _ARC:
        found = _ARC.match(tape.buffer[at:stop])
        return at + found.end() + int(found[5]) if found and found[5].isdigit() else None
    head = _BLANK.search(tape.buffer, at, stop)
    length = _LENGTH.search(tape.buffer, at, head.end()) if head else None
    return head.end() + int(length[1]) if head and length else None


#: What follows on a record, also where the next one is damaged: one line end is too little to prove that it ended.
_AFTER = {_WARC: _BLANK, _ARC: re.compile(rb"\r?\nhttps?://")}

#: What is searched for in every block, so begins with a byte that can be skipped to.
_LIKE_HEADER = {
    _WARC: re.compile(rb"\nWARC/\d\.\d+\r?\n[A-Za-z]"),
    _ARC: re.compile(rb"\n[a-z][a-z0-9+.-]{0,20}:\S* [\w.:-]+ \d{8,18} "),
}
_LINE_ENDS = re.compile(rb"[\r\n]*")
_LENGTH = re.compile(rb"\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r?\n", re.IGNORECASE)


def _taken(tape: _Tape, start: int, stop: int) -> bytes:
    block = bytes(tape.buffer[start:stop])
    tape.drop(stop)
    return block


def _passed_over(tape: _Tape, size: int, length: int, max_bytes: int) -> Drop | BadRecord:
    """Go on behind a record that is too long to hold, if it is as long as it says; else at the next header."""
    place = tape.place()
    if tape.skip(size + length) and tape.ends(0):
        return Drop("too_large", length, max_bytes)
    if tape.damage is not None:
        return _damaged(tape)
    if tape.back(place):
        tape.seek_header()
    return BadRecord("wrong_length", f"says {length:,} bytes")


# A record becomes a document


@dataclass(frozen=True)
class _Record:
    """The fields of a header, by their names in small letters, and the bytes below it."""

    fields: Mapping[str, str]
    block: bytes
    damage: str = ""

    def document(self, place: str, source: str, max_bytes: int) -> Document | Drop | BadRecord:
        """Return the page or text in it."""
        kind = self.fields.get("warc-type", "").lower()
        if kind not in ("response", "resource", "conversion"):
            return Drop(f"warc_{kind if kind in _NO_PAGE else 'other'}")
        url, date = self.fields.get("warc-target-uri", "").strip("<>"), self.fields.get("warc-date", "")
        meta: dict[str, Any] = {"url": url, "date": date}
        meta |= {"truncated": cut} if (cut := self.fields.get("warc-truncated", "")) else {}
        if not self.block.startswith(b"HTTP/"):
            return _document(place, source, self.fields.get("content-type", ""), self.block, meta, self.damage)
        status, fields, body = _http(self.block)
        if not 200 <= status < 300:
            return Drop("http_status", status)
        try:
            body, damage = _body(body, fields, max_bytes)
        except BadRecord as error:
            return error.with_traceback(None)
        if len(body) > max_bytes:
            return Drop("too_large", len(body), max_bytes)
        meta["status"] = status
        return _document(place, source, fields.get("content-type", ""), body, meta, self.damage or damage)


#: Types of records that hold no page.
_NO_PAGE = ("warcinfo", "request", "metadata", "revisit", "continuation")

_PAGE = ("text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml")
_UNTOLD = ("", "application/octet-stream", "application/unknown", "unknown/unknown", "no-type", "unk")
_BEGINS_PAGE = re.compile(rb"<(?:!doctype\s+html|html|head|body|title|meta)\b", re.IGNORECASE)


def _document(
    place: str, source: str, content_type: str, body: bytes, meta: dict[str, Any], damage: str
) -> Document | Drop:
    kind, _, parameters = content_type.partition(";")
    kind = kind.strip().lower()
    if kind in _UNTOLD and _BEGINS_PAGE.search(body[:1024]):
        kind = "text/html"
    charset = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", parameters, re.IGNORECASE)
    meta = {**{key: value for key, value in meta.items() if value}, "content_type": kind}
    meta |= {"damage": damage} if damage else {}
    if kind in _PAGE:
        found = page(place, source, body, charset[1] if charset else None)
        return found if isinstance(found, Drop) else Document(place, found.text, source, {**meta, **found.meta})
    if kind != "text/plain":
        return Drop("content_type")
    text = decode(body, http=charset[1] if charset else None)
    return Document(place, text.text, source, {**meta, **told(text)}) if is_text(text) else Drop("not_text")


def _http(block: bytes) -> tuple[int, dict[str, str], bytes]:
    """Return the status (0 if there is none), the fields and the body of a response."""
    end = _BLANK.search(block)
    header, body = (block[: end.start()], block[end.end() :]) if end else (block, b"")
    status = re.match(rb"HTTP/\S+\s+(\d{3})\b", header)
    # One crawler put a second blank line before the body.
    return int(status[1]) if status else 0, _fields(header), body.removeprefix(b"\r\n")


def _body(body: bytes, fields: Mapping[str, str], max_bytes: int) -> tuple[bytes, str]:
    """Undo transfer and content encoding; return the body and what was wrong with it, if it is whole all the same.

    Crawlers often store the body as it came out and the header as it was, so a header alone proves nothing.
    """
    damage = ""
    if "chunked" in fields.get("transfer-encoding", "").lower():
        body, damage = _unchunked(body)
    names = [name.strip() for name in fields.get("content-encoding", "").lower().split(",")]
    for name in reversed(names):
        if name in _UNPACK and len(body) <= max_bytes:
            body = _UNPACK[name](body, max_bytes)
    return body, damage


_CHUNK = re.compile(rb"(?:\r?\n)?[ \t]*([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")


def _unchunked(body: bytes) -> tuple[bytes, str]:
    r"""Join the chunks of a body, if it has any.

    >>> _unchunked(b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"), _unchunked(b"<p>one")
    ((b'abcde', ''), (b'<p>one', 'not_chunked'))
    """
    pieces: list[bytes] = []
    at = 0
    while found := _CHUNK.match(body, at):
        size, at = int(found[1], 16), found.end()
        if size == 0:
            return b"".join(pieces), ""
        if at + size > len(body):
            raise BadRecord("bad_chunks", f"a chunk of {size:,} bytes is cut to {len(body) - at:,}")
        pieces.append(body[at : at + size])
        at += size
    if not pieces:
        return body, "not_chunked"
    if body[at:].strip():
        raise BadRecord("bad_chunks", f"no chunk begins at byte {at:,}")
    return b"".join(pieces), "no_last_chunk"


def _inflated(body: bytes, max_bytes: int) -> bytes:
    """Unpack gzip or deflate, with or without zlib's header; a body that is neither is one that was unpacked before.

    >>> _inflated(zlib.compress(b"<p>one"), 100), _inflated(b"<p>one", 100)
    (b'<p>one', b'<p>one')
    """
    with contextlib.suppress(zlib.error):
        return _members_unpacked(body, lambda: zlib.decompressobj(47), _GZIP, max_bytes)
    with contextlib.suppress(zlib.error, BadRecord):
        return _members_unpacked(body, lambda: zlib.decompressobj(-15), (), max_bytes)
    if body[:2] != b"\x1f\x8b" and is_text(decode(body[:1000])):
        return body
    raise BadRecord("bad_content_encoding", "the body does not unpack")


def _unzstd(body: bytes, max_bytes: int) -> bytes:
    try:
        return _members_unpacked(body, _unpack_zstd, _ZSTD, max_bytes)
    except zstandard.ZstdError as error:
        return _unpacked_before(body, str(error))


def _unbrotlied(body: bytes, max_bytes: int) -> bytes:
    from fastwarc.stream_io import BrotliReader

    try:
        return bytes(BrotliReader(io.BytesIO(body)).read(max_bytes + 1))
    except OSError as error:
        return _unpacked_before(body, str(error))


def _unpacked_before(body: bytes, detail: str) -> bytes:
    if body[:1] == b"<":
        return body
    raise BadRecord("bad_content_encoding", detail)


def _members_unpacked(body: bytes, new: Callable[[], Any], begins: tuple[bytes, ...], max_bytes: int) -> bytes:
    """Unpack a first member and all that follow; what begins none is passed over. Stop behind `max_bytes`."""
    text, at, stored = bytearray(), 0, memoryview(body)
    while len(text) <= max_bytes and (at == 0 or body.startswith(begins, at)):
        unpacker = new()
        while not unpacker.eof and len(text) <= max_bytes:
            if at >= len(body):
                raise BadRecord("bad_content_encoding", "the packed body is cut")
            text += unpacker.decompress(stored[at : at + PACKED])
            at += PACKED
        at = min(at, len(body)) - len(unpacker.unused_data)
    return bytes(text)


_UNPACK = {"gzip": _inflated, "x-gzip": _inflated, "deflate": _inflated, "br": _unbrotlied, "zstd": _unzstd}
