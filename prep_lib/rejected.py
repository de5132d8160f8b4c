"""What was turned down, by whom and why, with the text of a sample: the same however the work was cut.

    {"id": "a.jsonl#L3", "source": "web", "stage": "quality", "flow": "dropped", "reason": "gopher/datatrove:words",
     "value": 12, "limit": 50, "twin": null, "detail": "", "text": "Buy now …"}

Every record has its line; a text has it only if its lot, a hash of the id, is among the smallest of its source and
reason. The smallest of all are among the smallest of each part, so parts written apart join to what one would hold.
"""

from __future__ import annotations

import contextlib
import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import orjson
import zstandard

from prep_lib import files as fs
from prep_lib.errors import BadRecord
from prep_lib.record import Drop
from prep_lib.seeds import key as draw

#: What the file is called beside any output.
NAME = "rejected.jsonl.zst"

#: Texts kept, per reason and source.
KEPT_TEXTS = 1000

#: Characters kept of such a text.
EXCERPT = 4000

_LINE = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY


class RejectedWriter:
    """Writes one part; a context manager.

    Parameters
    ----------
    path : path
    seed : int
        Of the sample.
    everything : bool
        True: every text is kept, whole.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), NAME)
    >>> with RejectedWriter(path) as rejected:
    ...     rejected.add("a#L1", "web", "quality", Drop("too_short", 2, 50), lambda: "Hi")
    >>> [(line["id"], line["flow"], line["value"], line["text"]) for line in read(path)]
    [('a#L1', 'dropped', 2, 'Hi')]
    """

    def __init__(self, path: str | Path, seed: int = 42, *, everything: bool = False) -> None:
        self.path, self.seed, self.everything = Path(path), seed, everything
        self._heaps: dict[tuple[str, str], list[int]] = {}

    def __enter__(self) -> RejectedWriter:
        self._stack = contextlib.ExitStack()
        raw = self._stack.enter_context(self.path.open("wb"))
        self._file: IO[bytes] = self._stack.enter_context(zstandard.ZstdCompressor(3).stream_writer(raw))
        return self

    def __exit__(self, *error: object) -> None:
        with fs.space_for(self.path):
            self._stack.close()

    def add(self, id: str, source: str, stage: str, why: Drop | BadRecord, text: Callable[[], str | None]) -> None:
        """Write one record; `text` is called only if the text is wanted."""
        reason = valid(why.reason)
        wanted = self.everything or among_smallest(
            self._heaps.setdefault((source, reason), []), draw(self.seed, "rejected", id)
        )
        told = text() if wanted else None
        told = told if told is None else valid(told)
        line = {
            "id": valid(id), "source": valid(source), "stage": stage,
            "flow": "dropped" if isinstance(why, Drop) else "failed", "reason": reason,
            "value": getattr(why, "value", None), "limit": getattr(why, "limit", None),
            "twin": getattr(why, "twin", None), "detail": valid(getattr(why, "detail", "")),
            "text": told if told is None or self.everything else told[:EXCERPT],
        }  # fmt: skip
        try:
            self._file.write(orjson.dumps(line, default=repr, option=_LINE))
        except (OSError, RuntimeError):
            with fs.space_for(self.path):
                raise


def valid(text: str) -> str:
    """Spell out half surrogate pairs, which no UTF-8 file can hold: they may be what is wrong with a record."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def among_smallest(heap: list[int], lot: int) -> bool:
    """Keep the `KEPT_TEXTS` smallest lots in a heap; say whether this one is (still) among them."""
    if len(heap) < KEPT_TEXTS:
        heapq.heappush(heap, -lot)
        return True
    return -heapq.heappushpop(heap, -lot) != lot


def join(parts: Sequence[str | Path], path: str | Path, seed: int = 42, *, everything: bool = False) -> None:
    """Join the parts of one output; over all of them the same number of texts stays."""
    heaps: dict[tuple[bytes, bytes], list[int]] = {}
    for line in () if everything else _lines(parts):
        group, lot = _drawn(line, seed)
        among_smallest(heaps.setdefault(group, []), lot)
    limits = {at: max(-lot for lot in heap) for at, heap in heaps.items()}
    with fs.write_whole(path) as raw, zstandard.ZstdCompressor(3).stream_writer(raw, closefd=False) as file:
        for line in _lines(parts):
            # Millions of lines may have no text, and need not be parsed.
            if not everything and not line.endswith(_NO_TEXT):
                group, lot = _drawn(line, seed)
                if lot > limits[group]:
                    # Within a text a quotation mark is escaped, so that this key can only be the last one.
                    line = line[: line.rfind(_TEXT)] + _NO_TEXT
            file.write(line)


def _lines(parts: Iterable[str | Path]) -> Iterator[bytes]:
    for part in parts:
        with fs.open_bytes(part) as file:
            yield from file


def _drawn(line: bytes, seed: int) -> tuple[tuple[bytes, bytes], int]:
    """Return source and reason of a line that `add` wrote, and its lot."""
    found = _HEAD.match(line)
    if found:
        name, source, reason = found.groups()
    else:
        # What is escaped may look like what stands between.
        told = orjson.loads(line)
        name, source, reason = (told[key].encode() for key in ("id", "source", "reason"))
    return (source, reason), draw(seed, "rejected", name)


#: How a line begins that `add` wrote, if nothing in it is escaped.
_HEAD = re.compile(rb'{"id":"([^"\\]*)","source":"([^"\\]*)","stage":"[^"\\]*","flow":"[^"\\]*","reason":"([^"\\]*)"')
#: What begins its text, and what ends one without a text.
_TEXT, _NO_TEXT = b'"text":"', b'"text":null}\n'


def read(path: str | Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a part, or of a joined file."""
    with fs.open_bytes(path) as file:
        yield from map(orjson.loads, file)
