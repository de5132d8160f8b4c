"""Where a look at large inputs looks: at the beginnings of spans, spread evenly over all of them.

    up to 128 MiB of text      everything
    more                       ▓▓······│▓▓······│▓▓······│▓▓······    the beginning of every span
    more than 128 spans        ▓▓······│········│········│▓▓······    1 MiB, of as many spans as it takes

The spans are those that tasks get, so what a run writes of a window lies at the beginning of a part, and the next
notebook looks at the same documents. What lies between windows is not read; the lines of a plain JSONL file are counted
up to its last window, because their numbers are the ids.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO

from prep_lib import files as fs
from prep_lib.files import Span
from prep_lib.inputs import UNPACKED, Input, is_remote
from prep_lib.source import read

#: Bytes of text that are looked at: what a task reads.
LOOKED = fs.SPAN

#: Bytes of a window at least: some hundred documents.
LEAST = 2**20


@dataclass(frozen=True)
class _Place:
    """The beginning of a span: of which input, at which byte, and how many bytes of text follow."""

    input: Input
    start: int
    weight: int

    @property
    def lines(self) -> bool:
        """Whether it can be left after any line; of other kinds a file is read whole."""
        return read.kind_of(self.input.span.path) == "jsonl"


def windows(inputs: Sequence[Input], looked: int = LOOKED) -> list[Input]:
    """Return what is read of some inputs so that it is not much more than `looked` bytes of text.

    Parameters
    ----------
    inputs : sequence of Input
        Whole files.
    looked : int, bytes
        What is no more than `LOOKED` is read whole in any case.

    Returns
    -------
    list of Input
        In the same order; the inputs themselves where they are small enough.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.jsonl")
    >>> _ = path.write_text('{"text": "a"}\\n')
    >>> windows([Input(Span(str(path)), 0, "a.jsonl", [])])[0].span.stop is None
    True
    """
    sizes = [_text_bytes(one.span.path) for one in inputs]
    if sum(sizes) <= max(looked, LOOKED):
        return list(inputs)
    places = [place for one, size in zip(inputs, sizes, strict=True) for place in _places(one, size)]
    each = max(looked // len(places), LEAST)
    held = sum(min(place.weight, each) if place.lines else place.weight for place in places)
    chosen = [place for at, place in enumerate(places) if _is_chosen(at, min(1.0, looked / held))]
    found = itertools.groupby(chosen, key=lambda place: place.input)
    return [window for one, mine in found for window in _cut(one, [place.start for place in mine], each)]


def _is_chosen(at: int, share: float) -> bool:
    """Tell whether a place is one of a share of all, evenly spread, the first among them."""
    return int((at + 1) * share) > int(at * share) or (at == 0 and share < 1)


def _text_bytes(path: str) -> int:
    packed = path.endswith(".parquet") or fs.compression(path)
    return fs.stamp(path)[0] * (UNPACKED if packed else 1)


def _places(one: Input, size: int) -> Iterator[_Place]:
    """Yield the beginnings of the spans of a file, as `files.survey` cuts it, without reading what is between."""
    path = one.span.path
    # An address is not read through to count its lines.
    if fs.compression(path) or is_remote(path) or read.kind_of(path) != "jsonl":
        yield _Place(one, 0, size)
        return
    with open(path, "rb") as file:
        start = 0
        while start < size:
            yield _Place(one, start, min(fs.SPAN, size - start))
            start = _behind_line(file, start + fs.SPAN)


def _behind_line(file: IO[bytes], at: int) -> int:
    """Return where the line that holds this byte ends."""
    file.seek(at)
    return at + len(file.readline())


def _cut(one: Input, starts: Sequence[int], each: int) -> Iterator[Input]:
    """Yield the windows of a file that begin at these bytes."""
    path = one.span.path
    if read.kind_of(path) != "jsonl":
        yield one
    elif fs.compression(path) or is_remote(path):
        yield replace(one, span=Span(path, 0, each))
    else:
        yield from (replace(one, span=span) for span in _lines_of(path, starts, each))


def _lines_of(path: str, starts: Sequence[int], each: int) -> Iterator[Span]:
    size, lines, at = os.path.getsize(path), 0, 0
    with open(path, "rb") as file:
        for start in starts:
            file.seek(at)
            for block in _blocks(file, start - at):
                lines += block.count(b"\n")
            at = start
            # A window is at least as long as its first line, and the file may end before it does.
            yield Span(path, start, min(size, _behind_line(file, start + each)), lines + 1)


def _blocks(file: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0 and (block := file.read(min(size, 8 * fs.BLOCK))):
        size -= len(block)
        yield block
