"""Text that remembers which field of the data each of its characters came from, through whatever a template does to it.

    messages = traced([{"role": "user", "content": "  Hi "}], "messages")
    "<s>" + messages[0]["content"].strip() + "</s>"
     ───    ──                                ────
     None   messages[0].content, from character 2      None: nobody's data, the template wrote it

A `Traced` is a `str` in every respect. Pieces of it (slices, splits, strips) know their characters exactly; what is
rewritten (escaped, formatted, padded) still knows its field, with ``at = -1`` in place of a position.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count, islice, pairwise
from typing import Any, NamedTuple, SupportsIndex


class Origin(NamedTuple):
    """A field of the data: of a message (its index), or of something else that was given (None)."""

    message: int | None
    field: str


#: size in characters, whose they are, place of the first one in its field (-1: rewritten), inside {% generation %}
Span = tuple[int, Origin | None, int, bool]


class Run(NamedTuple):
    """Characters ``start:stop`` of a rendered text that came together.

    Parameters
    ----------
    start, stop : int, characters
    origin : Origin or None
        The field they came from. None: the template wrote them.
    at : int
        Place of the first one inside that field; -1 if the template rewrote it on the way.
    frame : int or None
        The message whose turn of the template's loop over messages wrote them. None: outside such a loop.
    generated : bool
        Inside ``{% generation %}``.
    """

    start: int
    stop: int
    origin: Origin | None
    at: int
    frame: int | None
    generated: bool


class Rendering(NamedTuple):
    """A rendered text and its runs, which cover it without gaps."""

    text: str
    runs: tuple[Run, ...]


class Traced(str):
    """A text with one span a run of characters; sizes of `spans` add up to its length, and none is 0.

    Examples
    --------
    >>> text = traced(" a,b ", "x").strip()
    >>> [(part, part.spans[0][2]) for part in text.split(",")]
    [('a', 1), ('b', 3)]
    """

    __slots__ = ("spans",)
    spans: tuple[Span, ...]

    def __new__(cls, text: str, spans: tuple[Span, ...] | None = None) -> Traced:
        """Make a text; without spans it is the template's own."""
        made = _new(cls, text)
        made.spans = (((len(text), None, 0, False),) if text else ()) if spans is None else spans
        return made

    def __str__(self) -> str:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Traced, (self._plain(), self.spans)

    def _plain(self) -> str:
        return str.__str__(self)

    # ------------------------------------------------------------ pieces: every position is kept

    def _cut(self, start: int, stop: int) -> Traced:
        text = str.__getitem__(self, slice(start, stop))
        if len(text) == len(self):
            return self
        made: Traced = _new(Traced, text)
        made.spans = _cut(self.spans, start, start + len(text))
        return made

    def _cuts(self, bounds: Iterable[tuple[int, int]]) -> Iterator[Traced]:
        """Yield the pieces between rising bounds, in one walk over the spans."""
        walk = _Walk(self.spans)
        for start, stop in bounds:
            yield Traced(str.__getitem__(self, slice(start, stop)), tuple(walk.spans(start, stop)))

    def __getitem__(self, index: SupportsIndex | slice) -> Traced:
        if not isinstance(index, slice):
            at = range(len(self))[index]
            return self._cut(at, at + 1)
        start, stop, step = index.indices(len(self))
        if step == 1:
            return self._cut(start, max(start, stop))
        chosen = range(start, stop, step)
        letters = list(self._cuts((at, at + 1) for at in (chosen if step > 0 else reversed(chosen))))
        return joined(letters if step > 0 else letters[::-1])

    def __iter__(self) -> Iterator[str]:
        return self._cuts((at, at + 1) for at in range(len(self)))

    def strip(self, chars: str | None = None) -> Traced:
        """Return the piece without blanks, or `chars`, at both ends."""
        left = str.lstrip(self, chars)
        start = len(self) - len(left)
        return self._cut(start, start + len(left.rstrip(chars)))

    def lstrip(self, chars: str | None = None) -> Traced:
        """Return the piece without those at its begin."""
        return self._cut(len(self) - len(str.lstrip(self, chars)), len(self))

    def rstrip(self, chars: str | None = None) -> Traced:
        """Return the piece without those at its end."""
        return self._cut(0, len(str.rstrip(self, chars)))

    def removeprefix(self, prefix: str) -> Traced:
        """Return the piece behind a prefix."""
        return self._cut(len(prefix) if self.startswith(prefix) else 0, len(self))

    def removesuffix(self, suffix: str) -> Traced:
        """Return the piece before a suffix."""
        return self._cut(0, len(self) - (len(suffix) if suffix and self.endswith(suffix) else 0))

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[Traced]:  # type: ignore[override]
        """Return the pieces between separators."""
        parts = str.split(self, sep, maxsplit)
        return list(self._cuts(self._between_blanks(parts) if sep is None else _apart(parts, len(sep))))

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[Traced]:  # type: ignore[override]
        """Return the pieces between separators, counted from the end."""
        parts = str.rsplit(self, sep, maxsplit)
        return list(self._cuts(self._between_blanks(parts) if sep is None else _apart(parts, len(sep))))

    def _between_blanks(self, parts: Sequence[str]) -> list[tuple[int, int]]:
        """Find parts that lie in this text in this order, with blanks between."""
        out, at = [], 0
        for part in parts:
            at = self.find(part, at)
            out.append((at, at + len(part)))
            at += len(part)
        return out

    def splitlines(self, keepends: bool = False) -> list[Traced]:  # type: ignore[override]
        """Return the lines."""
        lines, at = [], 0
        for line, whole in zip(str.splitlines(self, keepends), str.splitlines(self, True), strict=True):
            lines.append((at, at + len(line)))
            at += len(whole)
        return list(self._cuts(lines))

    def partition(self, sep: str) -> tuple[Traced, Traced, Traced]:
        """Return what is before the first separator, it, and what is behind."""
        return self._three(str.partition(self, sep))

    def rpartition(self, sep: str) -> tuple[Traced, Traced, Traced]:
        """Return what is before the last separator, it, and what is behind."""
        return self._three(str.rpartition(self, sep))

    def _three(self, parts: tuple[str, str, str]) -> tuple[Traced, Traced, Traced]:
        a, b = len(parts[0]), len(parts[0]) + len(parts[1])
        return self._cut(0, a), self._cut(a, b), self._cut(b, len(self))

    # ------------------------------------------------------------ put together: every position is kept

    def __add__(self, other: str) -> Traced:
        return joined((self, other)) if isinstance(other, str) else str.__add__(self, other)  # which says why not

    def __radd__(self, other: str) -> Traced:
        return joined((other, self)) if isinstance(other, str) else NotImplemented

    def __mul__(self, times: SupportsIndex) -> Traced:
        return Traced(str.__mul__(self, times), self.spans * times.__index__())

    __rmul__ = __mul__

    def __mod__(self, values: Any) -> Traced:
        return _percent(self, values)

    def replace(self, old: str, new: str, count: SupportsIndex = -1) -> Traced:
        """Return the text with `new` in place of `old`."""
        text = str.replace(self, old, new, count)
        if not old:
            return rewritten(text, self)
        spans: list[Span] = []
        walk, inserted, at, left = _Walk(self.spans), spans_of(new), 0, count.__index__()
        while left and (found := self.find(old, at)) >= 0:
            spans += walk.spans(at, found)
            spans += inserted
            at, left = found + len(old), left - 1
        spans += walk.spans(at, len(self))
        return Traced(text, tuple(spans))

    def join(self, parts: Iterable[str]) -> Traced:
        """Return the parts with this text between."""
        return joined([piece for part in parts for piece in (self, part)][1:])

    def ljust(self, width: SupportsIndex, fillchar: str = " ") -> Traced:
        """Return the text, filled up behind."""
        return joined((self, str.ljust(self, width, fillchar)[len(self) :]))

    def rjust(self, width: SupportsIndex, fillchar: str = " ") -> Traced:
        """Return the text, filled up before."""
        text = str.rjust(self, width, fillchar)
        return joined((text[: len(text) - len(self)], self))

    # ------------------------------------------------------------ rewritten: the field is kept

    def lower(self) -> Traced:
        """Return the text in small letters."""
        return self._mapped(str.lower)

    def upper(self) -> Traced:
        """Return the text in capital letters."""
        return self._mapped(str.upper)

    def title(self) -> Traced:
        """Return the text with a capital letter in each word."""
        return self._mapped(str.title)

    def capitalize(self) -> Traced:
        """Return the text with a capital letter at its begin."""
        return self._mapped(str.capitalize)

    def swapcase(self) -> Traced:
        """Return the text with small and capital letters exchanged."""
        return self._mapped(str.swapcase)

    def casefold(self) -> Traced:
        """Return the text as it is compared without regard to case."""
        return self._mapped(str.casefold)

    def _mapped(self, change: Callable[[str], str]) -> Traced:
        """Change letters; a span whose letters stay keeps its position. ß becomes SS: then only the field is known."""
        before, text = self._plain(), change(self._plain())
        if len(text) != len(before):
            return rewritten(text, self)
        spans, here = [], 0
        for size, origin, at, flag in self.spans:
            same = origin is None or text[here : here + size] == before[here : here + size]
            spans.append((size, origin, at if same else -1, flag))
            here += size
        return Traced(text, tuple(spans))

    def format(self, *args: Any, **kwargs: Any) -> Traced:
        """Return the filled pattern."""
        return rewritten(str.format(self, *args, **kwargs), self, *args, *kwargs.values())

    def format_map(self, mapping: Mapping[str, Any], /) -> Traced:  # type: ignore[override]
        """Return the filled pattern."""
        return rewritten(str.format_map(self, mapping), self, *mapping.values())

    def translate(self, table: Any, /) -> Traced:
        """Return the text with letters exchanged by a table."""
        return rewritten(str.translate(self, table), self)

    def center(self, width: SupportsIndex, fillchar: str = " ") -> Traced:
        """Return the text, filled up on both sides."""
        return rewritten(str.center(self, width, fillchar), self)

    def zfill(self, width: SupportsIndex) -> Traced:
        """Return the text, filled up with zeros behind its sign."""
        return rewritten(str.zfill(self, width), self)

    def expandtabs(self, tabsize: SupportsIndex = 8) -> Traced:
        """Return the text with blanks in place of tabs."""
        return rewritten(str.expandtabs(self, tabsize), self)


_new = str.__new__


def _apart(parts: Iterable[str], gap: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of parts that lie `gap` characters apart."""
    at = 0
    for part in parts:
        yield at, at + len(part)
        at += len(part) + gap


class _Walk:
    """Spans read from left to right, each once; only those that a bound goes through are made anew."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.rest, self.here, self.end = iter(spans), 0, 0
        self.span: Span = (0, None, 0, False)

    def spans(self, start: int, stop: int) -> Iterator[Span]:
        """Yield the spans of ``start:stop``, which lies at or behind the last one asked for."""
        while start < stop:
            while self.end <= start:
                self.span = next(self.rest)
                self.here, self.end = self.end, self.end + self.span[0]
            last = min(stop, self.end)
            whole = start == self.here and last == self.end
            yield self.span if whole else _part(self.span, start - self.here, last - start)
            start = last


def _part(span: Span, start: int, size: int) -> Span:
    _, origin, at, flag = span
    return size, origin, at if at < 0 or origin is None else at + start, flag


class TracedDict(dict[Any, Any]):
    """A map of the data that knows which field it is."""

    __slots__ = ("origin",)
    origin: Origin


class TracedList(list[Any]):
    """A list of the data that knows which field it is."""

    __slots__ = ("origin",)
    origin: Origin


class TracedInt(int):
    """A whole number of the data that knows which field it is."""

    origin: Origin


class TracedFloat(float):
    """A number of the data that knows which field it is."""

    origin: Origin


#: The same few fields come again in every conversation.
_origin = lru_cache(maxsize=4096)(Origin)


def traced(value: Any, name: str, message: int | None = None) -> Any:
    """Return plain data with its origin in every text, number, list and map. True, False and None cannot carry one.

    Parameters
    ----------
    value : text, number, list or map of these
    name : str
        What the field is called.
    message : int or None
        The message it belongs to. A list named "messages" that belongs to none numbers its own.

    Examples
    --------
    >>> traced([{"role": "user", "content": "hi"}], "messages")[0]["content"].spans
    ((2, Origin(message=0, field='content'), 0, False),)
    """
    kind = type(value)
    if kind is str:
        made: Any = _new(Traced, value)
        made.spans = ((len(value), _origin(message, name), 0, False),) if value else ()
        return made
    if kind is dict:
        made = _traced_dict(value, name, message)
    elif kind is list and name == "messages" and message is None:
        made = TracedList(map(_traced_message, value, count()))
    elif kind is list:
        made = TracedList([traced(item, f"{name}[{at}]", message) for at, item in enumerate(value)])
    elif kind is int or kind is float:
        made = TracedInt(value) if kind is int else TracedFloat(value)
    else:
        return value
    made.origin = _origin(message, name)
    return made


def _traced_message(value: Any, at: int) -> Any:
    if type(value) is not dict:
        return traced(value, "message", at)
    made = TracedDict()
    made.origin = _origin(at, "")
    for key, item in value.items():
        if type(item) is str and item:  # as `traced` does; most of what there is goes through here
            text: Traced = _new(Traced, item)
            text.spans = ((len(item), _origin(at, str(key)), 0, False),)
            made[key] = text
        else:
            made[key] = traced(item, str(key), at)
    return made


def _traced_dict(value: Mapping[Any, Any], name: str, message: int | None) -> TracedDict:
    made = TracedDict()
    for key, item in value.items():
        field = f"{name}.{key}"
        # A key that is printed is data as well: the names of a tool's arguments are what a model must learn.
        made[_rewritten(key, _origin(message, field)) if type(key) is str else key] = traced(item, field, message)
    return made


def _rewritten(text: str, origin: Origin) -> Traced:
    return Traced(text, ((len(text), origin, -1, False),) if text else ())


# ---------------------------------------------------------------- building


def concat(parts: Iterable[str]) -> Any:
    """Join texts; a `Traced` if one of them is, else a `str`.

    Examples
    --------
    >>> concat(["a", traced("b", "x")]).spans
    ((1, None, 0, False), (1, Origin(message=None, field='x'), 0, False))
    """
    parts = parts if isinstance(parts, list | tuple) else list(parts)
    for part in parts:
        if type(part) is Traced:
            return joined(parts)
    return "".join(parts)


def joined(parts: Sequence[str]) -> Traced:
    """Join texts, of which one at least is a `Traced`."""
    made: Traced = _new(Traced, "".join(parts))
    spans: list[Span] = []
    for part in parts:
        if type(part) is Traced:
            spans += part.spans
        elif part:
            spans.append((len(part), None, 0, False))
    made.spans = tuple(spans)
    return made


def spans_of(text: str) -> tuple[Span, ...]:
    """Return the spans of any text; without any it is the template's own."""
    return text.spans if type(text) is Traced else ((len(text), None, 0, False),) if text else ()


def rewritten(text: str, *sources: Any) -> Any:
    """Return a text made from `sources` without keeping positions: all of it belongs to the first field found."""
    origin = next((found for source in sources if (found := origin_of(source)) is not None), None)
    generated = any(span[3] for source in sources if type(source) is Traced for span in source.spans)
    if origin is None and not generated:
        return text
    return Traced(text, ((len(text), origin, -1 if origin else 0, generated),) if text else ())


#: Places looked at for an origin inside lists and maps the template made.
_LOOKED = 1000


def origin_of(value: Any) -> Origin | None:
    """Return the first field a value came from, looking into lists and maps; None if it is nobody's data."""
    todo = [value]
    for _ in range(_LOOKED):
        if not todo:
            break
        value = todo.pop()
        if type(value) is Traced:
            found = next((span[1] for span in value.spans if span[1] is not None), None)
            if found is not None:
                return found
        elif isinstance(value, TracedDict | TracedList | TracedInt | TracedFloat):
            return value.origin
        elif isinstance(value, dict):
            todo += [*islice(value.values(), _LOOKED), *islice(value, _LOOKED)][::-1]
        elif isinstance(value, list | tuple):
            todo += value[:_LOOKED][::-1]
    return None


def generated(text: str) -> Traced:
    """Mark a text as written inside ``{% generation %}``."""
    return Traced(text, tuple((size, origin, at, True) for size, origin, at, _ in spans_of(text)))


def _cut(spans: tuple[Span, ...], start: int, stop: int) -> tuple[Span, ...]:
    if len(spans) == 1:
        return (_part(spans[0], start, stop - start),) if start < stop else ()
    return tuple(_Walk(spans).spans(start, stop))


def spelled(text: str, value: Any) -> Any:
    """Return `text`, which is `value` as printed, with the value's origin.

    Examples
    --------
    >>> spelled("3", traced(3, "n")).spans
    ((1, Origin(message=None, field='n'), -1, False),)
    """
    return text if type(value) is Traced else rewritten(text, value)


_FIELD = re.compile(r"%(?:\(([^)]*)\))?[#0\- +]*(?:\*|\d+)?(?:\.(?:\*|\d*))?[hlL]?(.)", re.DOTALL)


def _percent(pattern: str, values: Any) -> Any:
    """Format by ``%``, each field alone, so that a plain ``%s`` keeps every position."""
    plain = str.__mod__(str.__str__(pattern), values)
    fields = [found for found in _FIELD.finditer(pattern) if found.group(2) != "%"]
    if any("*" in found.group() for found in fields) or "%%" in pattern:
        return rewritten(plain, pattern, values)
    items: Sequence[Any] = values if isinstance(values, tuple) else [values] * len(fields)
    if isinstance(values, Mapping) and fields and fields[0].group(1) is not None:
        items = [values[found.group(1)] for found in fields]
    pieces, at = [], 0
    for found, item in zip(fields, items, strict=False):
        pieces.append(pattern[at : found.start()])
        text = "%" + found.group().rsplit(")", 1)[-1].removeprefix("%")
        pieces.append(item if text == "%s" and type(item) is Traced else rewritten(text % (item,), item))
        at = found.end()
    made = concat([*pieces, pattern[at:]])
    return made if made == plain else rewritten(plain, pattern, values)


def runs_of(pieces: Iterable[str], frames: Iterable[int | None]) -> list[Run]:
    """Return the runs of pieces that follow each other; what came from one place in one go is one run.

    Examples
    --------
    >>> [(run.start, run.stop, run.frame) for run in runs_of(["a", "b", "c"], [None, None, 0])]
    [(0, 2, None), (2, 3, 0)]
    """
    runs: list[Run] = []
    start = here = first = 0
    origin: Origin | None = None
    frame: int | None = None
    flag = False
    for piece, turn in zip(pieces, frames, strict=True):
        if not piece:
            continue
        for size, whose, at, marked in piece.spans if type(piece) is Traced else ((len(piece), None, 0, False),):
            goes_on = whose is origin or whose == origin
            if origin is not None and goes_on:
                goes_on = at < 0 > first or at == first + here - start >= 0 <= first
            if not (goes_on and turn == frame and marked == flag):
                if here > start:
                    runs.append(Run(start, here, origin, first, frame, flag))
                start, origin, first, frame, flag = here, whose, at, turn, marked
            here += size
    if here > start:
        runs.append(Run(start, here, origin, first, frame, flag))
    return runs


# ---------------------------------------------------------------- JSON

_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_ESCAPED_ASCII = re.compile(r'["\\]|[^ -~]')
#: Characters an escape takes: two for these, six for the others (\u0001), twelve above U+FFFF.
_SHORT = frozenset('"\\\n\r\t\f\b')


def _free(_: int) -> None:
    """Take no pay."""


def json_text(value: Any, plain: str, pay: Callable[[int], Any] = _free, **options: Any) -> Any:
    """Return `plain`, which is ``json.dumps(value, **options)``, with the origin of every character.

    Parameters
    ----------
    value : data
    plain : str
    pay : callable
        Given the number of spans about to be made; it raises where that is too many.

    Examples
    --------
    >>> json_text(traced({"n": "é"}, "args"), '{"n": "é"}').spans[-2:]
    ((1, Origin(message=None, field='args.n'), -1, False), (1, Origin(message=None, field='args'), -1, False))
    """
    owner = origin_of(value)
    if owner is None:
        return plain
    writer = _Json(pay, **options)
    try:
        writer.write(value, owner, 0)
    except (TypeError, ValueError):  # keys that cannot be sorted: only the whole can be told
        return rewritten(plain, value)
    if sum(span[0] for span in writer.spans) != len(plain):
        return rewritten(plain, value)
    return Traced(plain, tuple(writer.spans))


class _Json:
    """Walks a value as `json.dumps` does and notes whose the characters are."""

    def __init__(
        self,
        pay: Callable[[int], Any],
        ensure_ascii: bool = False,
        indent: int | str | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> None:
        self.pay, self.sort_keys = pay, sort_keys
        self.spans: list[Span] = []
        self.indent = -1 if indent is None else len(indent) if isinstance(indent, str) else max(int(indent), 0)
        self.item, self.colon = map(len, separators or ((", ", ": ") if indent is None else (",", ": ")))
        self.escaped = _ESCAPED_ASCII if ensure_ascii else _ESCAPED

    def put(self, size: int, origin: Origin | None, at: int = -1, flag: bool = False) -> None:
        if not size:
            return
        if at < 0 and self.spans and self.spans[-1][1:] == (origin, at, flag):
            size += self.spans.pop()[0]
        self.spans.append((size, origin, at, flag))

    def line(self, depth: int, owner: Origin | None) -> None:
        if self.indent >= 0:
            self.put(1 + self.indent * depth, owner)

    def write(self, value: Any, owner: Origin | None, depth: int) -> None:
        if isinstance(value, str):
            self.text(value, owner)
        elif isinstance(value, dict):
            pairs = sorted(value.items()) if self.sort_keys else list(value.items())
            self.block(pairs, getattr(value, "origin", owner), depth)
        elif isinstance(value, list | tuple):
            self.block([(None, item) for item in value], getattr(value, "origin", owner), depth)
        else:
            self.put(len(json.dumps(value)), getattr(value, "origin", owner))

    def block(self, pairs: list[tuple[Any, Any]], owner: Origin | None, depth: int) -> None:
        self.pay(4 * len(pairs) + 2)
        self.put(1, owner)
        for number, (key, item) in enumerate(pairs):
            self.put(self.item if number else 0, owner)
            self.line(depth + 1, owner)
            if key is not None:
                self.write(key if isinstance(key, str) else json.dumps(key), owner, depth + 1)
                self.put(self.colon, owner)
            self.write(item, owner, depth + 1)
        if pairs:
            self.line(depth, owner)
        self.put(1, owner)

    def text(self, value: str, owner: Origin | None) -> None:
        spans = spans_of(value) if type(value) is Traced else ((len(value), owner, -1, False),) if value else ()
        first = next((span[1] for span in spans if span[1] is not None), owner)
        marks = [found.start() for found in self.escaped.finditer(value)]
        self.pay(len(spans) + 2 * len(marks) + 2)
        self.put(1, first)
        walk = _Walk(spans)
        for before, mark in pairwise([-1, *marks, len(value)]):
            for size, origin, at, flag in walk.spans(before + 1, mark):
                self.put(size, origin or owner, at if origin is not None else -1, flag)
            for _, origin, _, flag in walk.spans(mark, min(mark + 1, len(value))):
                self.put(_escape_size(str.__getitem__(value, mark)), origin or owner, -1, flag)
        self.put(1, first)


def _escape_size(letter: str) -> int:
    return 2 if letter in _SHORT else 6 if letter <= "\uffff" else 12
