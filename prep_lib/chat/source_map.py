"""A template's source cut into segments and pieces, and a marked copy that tells what each piece wrote.

    {{ '<|im_start|>' + m.role + '\\n' + m.content }}     an expression, four pieces
       ──────────────   ──────   ────   ─────────
    ▸0▪<|im_start|>▹▸1▪user▹▸2▪↵▹▸3▪Hi▹                   rendered with marks: which piece, under which conditions

Jinja's parser keeps no columns, so the source is cut here; whether it was cut well is proven by rendering both.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


class Stuck(Exception):
    """The source is of a kind that is not edited here."""


# ---------------------------------------------------------------- a source, cut into segments


@dataclass
class Segment:
    """A part of a source: ``data``, an ``expr``, a ``block`` or a ``comment``, with the signs that trim around it."""

    kind: str
    body: str
    left: str = ""
    right: str = ""
    pieces: list[Piece] = field(default_factory=list)

    def source(self, left: str | None = None, right: str | None = None) -> str:
        """Return it as written, with other signs if asked for."""
        if self.kind == "data":
            return self.body
        opening, closing = {"expr": ("{{", "}}"), "block": ("{%", "%}"), "comment": ("{#", "#}")}[self.kind]
        left, right = self.left if left is None else left, self.right if right is None else right
        return f"{opening}{left}{self.body}{right}{closing}"

    @property
    def word(self) -> str:
        """The first word of a block: ``for``, ``endif``, ``generation``."""
        found = re.match(r"\s*(\w+)", self.body) if self.kind == "block" else None
        return found[1] if found else ""


@dataclass
class Piece:
    """What writes text by itself: an operand of an expression, or text between tags.

    Parameters
    ----------
    code : str
        An expression.
    text : str or None
        What it always writes; None: that depends.
    conditions : tuple of str
        What may be asked where it stands; only if `asked`, because each makes the marked copy longer.
    seen : list of (label, values)
        One a time it wrote: whether that was trained, and which conditions held.
    cuts : set of int, characters
        Where a target begins or ends inside its text.
    """

    code: str
    text: str | None
    conditions: tuple[str, ...]
    seen: list[tuple[bool, tuple[bool, ...]]] = field(default_factory=list)
    cuts: set[int] = field(default_factory=set)
    asked: bool = True

    def verdict(self) -> str | None:
        """Return when it writes what is trained: ``""`` always, a condition, or None for never.

        Raises
        ------
        Stuck
            If no simple condition tells.
        """
        labels = {label for label, _ in self.seen}
        if labels <= {False}:
            return None
        if labels == {True}:
            return ""
        seen = set(self.seen)
        for test in _tests(self.conditions):
            if all(test.holds(values) == label for label, values in seen):
                return test.words
        raise Stuck


_END = {"expr": re.compile(r"([-+]?)\}\}"), "block": re.compile(r"([-+]?)%\}")}
_OPEN = re.compile(r"\{([{%#])([-+]?)")


def segments(source: str) -> list[Segment]:
    """Cut a source into its segments.

    Raises
    ------
    Stuck
        For raw blocks, and where a tag does not end.

    Examples
    --------
    >>> [(one.kind, one.body) for one in segments("a{{ '}}' }}{%- if b %}")]
    [('data', 'a'), ('expr', " '}}' "), ('block', ' if b ')]
    """
    source = source.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    out, at = [], 0
    while found := _OPEN.search(source, at):
        if found.start() > at:
            out.append(Segment("data", source[at : found.start()]))
        if found[1] == "#":
            stop = source.find("#}", found.end())
            body = source[found.end() : stop]
            sign = body[-1:] if body[-1:] in ("-", "+") else ""
            out.append(Segment("comment", body.removesuffix(sign), found[2], sign))
            at = stop + 2
        else:
            kind = "expr" if found[1] == "{" else "block"
            end = _end(source, found.end(), _END[kind])
            out.append(Segment(kind, source[found.end() : end.start()], found[2], end[1]))
            at = end.end()
        if at < 2 or out[-1].word == "raw":
            raise Stuck
    return [*out, Segment("data", source[at:])] if at < len(source) else out


def _end(source: str, at: int, closing: re.Pattern[str]) -> re.Match[str]:
    """Return where a tag ends: behind its strings, and behind its brackets."""
    depth = 0
    while at < len(source):
        if source[at] in "'\"":
            at = _string_end(source, at)
            continue
        if depth == 0 and (found := closing.match(source, at)):
            return found
        depth += (source[at] in "([{") - (source[at] in ")]}")
        at += 1
    raise Stuck


def _string_end(source: str, at: int) -> int:
    quote, at = source[at], at + 1
    while at < len(source) and source[at] != quote:
        at += 2 if source[at] == "\\" else 1
    return at + 1


#: What binds less tightly than ``+``, or as tightly and is no joining.
_OTHER = re.compile(r"[-<>=!]|(?<!\w)(?:if|else|and|or|not|in|is)\b")


def operands(code: str) -> list[str]:
    """Return what an expression joins by ``+`` or ``~``; the whole where it is of another kind.

    Examples
    --------
    >>> operands("'<' + m['a + b'] ~ x|trim"), operands("a + b if c else d")
    (["'<'", "m['a + b']", 'x|trim'], ['a + b if c else d'])
    """
    parts, start, at, depth = [], 0, 0, 0
    while at < len(code):
        if code[at] in "'\"":
            at = _string_end(code, at)
            continue
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if depth == 0 and _OTHER.match(code, at):
            return [code.strip()]
        if depth == 0 and code[at] in "+~":
            parts.append(code[start:at].strip())
            start = at + 1
        at += 1
    parts.append(code[start:].strip())
    return parts if all(parts) else [code.strip()]


def effective(found: Sequence[Segment]) -> list[str]:
    """Return for each segment the text it writes if it is data, "" otherwise: as Jinja trims around tags."""
    out = []
    for at, one in enumerate(found):
        if one.kind != "data":
            out.append("")
            continue
        text, before, after = one.body, found[at - 1] if at else None, found[at + 1] if at + 1 < len(found) else None
        if before is not None:
            if before.right == "-":
                text = text.lstrip()
            elif before.right != "+" and before.kind != "expr":
                text = text.removeprefix("\n")
        if after is not None:
            if after.left == "-":
                text = text.rstrip()
            elif after.left != "+" and after.kind != "expr":
                text = _without_indent(text, opened=before is None or one.body.startswith("\n") or "\n" in text)
        out.append(text)
    return out


def _without_indent(text: str, opened: bool) -> str:
    """Return a text without the blanks of its last line, if nothing else stands in that line."""
    line = text.rpartition("\n")[2]
    return text[: len(text) - len(line)] if opened and not line.strip() else text


def literal(text: str) -> str:
    """Return a text as Jinja spells it in an expression.

    Examples
    --------
    >>> literal("it's\\n")
    '"it\\'s\\\\n"'
    """
    quote = '"' if "'" in text else "'"
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    return quote + text.replace(quote, "\\" + quote) + quote


def plain_string(code: str) -> str | None:
    """Return the text of an operand that is one plain string."""
    if len(code) < 2 or code[0] not in "'\"" or _string_end(code, 0) != len(code):
        return None
    return code[1:-1].encode("ascii", "backslashreplace").decode("unicode-escape")


# ---------------------------------------------------------------- pieces and what they wrote


_CLOSED = ("macro", "set", "call", "filter")
_MARKS = "\ufdd1\ufdd2\ufdd3"
_FOUND = re.compile(f"{_MARKS[0]}(\\d+):([01]*){_MARKS[1]}|{_MARKS[2]}")


def cut_up(found: list[Segment]) -> list[Piece]:
    """Give every segment outside macros and captures its pieces; return all."""
    stack: list[tuple[str, str]] = []
    texts, pieces = effective(found), []
    for one, text in zip(found, texts, strict=True):
        if one.kind == "block":
            track(stack, one)
        elif one.kind in ("expr", "data") and not one.pieces and not any(word in _CLOSED for word, _ in stack):
            loops = [name for word, name in stack if word == "for"]
            codes = operands(one.body) if one.kind == "expr" else [literal(text)] * bool(text)
            one.pieces = [Piece(code, plain_string(code), _conditions(loops)) for code in codes]
        pieces += one.pieces
    return pieces


def track(stack: list[tuple[str, str]], block: Segment) -> None:
    """Follow which blocks are open, and the names of loops."""
    word = block.word
    if word.startswith("end"):
        if not stack or stack[-1][0] != word[3:]:
            raise Stuck
        stack.pop()
    elif word in ("for", "if", "macro", "call", "filter", "generation") or (word == "set" and "=" not in block.body):
        name = re.match(r"\s*for\s+(\w+)\s+in\b", block.body)
        stack.append((word, name[1] if name else ""))


def _conditions(loops: Sequence[str]) -> tuple[str, ...]:
    """Return what may be asked inside these loops; a loop over pairs has no name."""
    out: list[str] = []
    for name in dict.fromkeys(name for name in reversed(loops) if name):
        out.append(f"{name}.role == 'assistant'")
        out += [f"{name}.{field}" for field in ("content", "tool_calls", "reasoning_content")]
    return (*out, "loop.first", "loop.last") if loops else tuple(out)


@dataclass(frozen=True)
class Condition:
    """A condition in words, and as places: each with whether it must hold; joined by ``and`` or ``or``."""

    words: str
    places: tuple[tuple[int, bool], ...]
    both: bool = True

    def holds(self, values: Sequence[bool]) -> bool:
        """Tell whether it holds where the single conditions have these values."""
        return (all if self.both else any)(values[at] is wanted for at, wanted in self.places)


def _tests(conditions: Sequence[str]) -> Iterator[Condition]:
    """Yield conditions from simple to less simple: one, none of it, two joined."""
    single = [Condition(words, ((at, True),)) for at, words in enumerate(conditions)]
    single += [Condition(_denied(one.words), ((one.places[0][0], False),)) for one in single]
    yield from single
    for word, both in (("and", True), ("or", False)):
        for one, other in itertools.combinations(single, 2):
            yield Condition(f"{one.words} {word} {other.words}", one.places + other.places, both)


def _denied(words: str) -> str:
    return words.replace(" == ", " != ") if " " in words else f"not {words}"


def marked_copy(found: Sequence[Segment], pieces: Sequence[Piece]) -> str:
    """Return the source with marks around every piece; all its text stands in expressions, so nothing is trimmed."""
    numbers = {id(piece): number for number, piece in enumerate(pieces)}
    texts, out = effective(found), []
    for one, text in zip(found, texts, strict=True):
        if one.kind == "block":
            out.append(one.source("+", "+"))
        elif one.pieces:
            out += [_mark(piece, numbers[id(piece)]) for piece in one.pieces]
        elif one.kind == "expr":
            out.append(one.source("", ""))
        elif text:
            out.append("{{ " + literal(text) + " }}")
    return "".join(out)


def _mark(piece: Piece, number: int) -> str:
    bits = "".join("{{ 1 if (" + words + ") else 0 }}" for words in piece.conditions if piece.asked)
    opening = f"{_MARKS[0]}{number}:", _MARKS[1]
    return f"{{{{ '{opening[0]}' }}}}{bits}{{{{ '{opening[1]}' }}}}{{{{ {piece.code} }}}}{{{{ '{_MARKS[2]}' }}}}"


def wrote_by(marked: str) -> tuple[str, list[tuple[int, tuple[bool, ...], int, int]]]:
    """Return the text without marks, and what each piece wrote: (number, conditions, start, stop)."""
    parts: list[str] = []
    open_: list[tuple[int, tuple[bool, ...], int]] = []
    out, at, size = [], 0, 0
    for found in _FOUND.finditer(marked):
        parts.append(marked[at : found.start()])
        size += found.start() - at
        at = found.end()
        if found[1] is not None:
            open_.append((int(found[1]), tuple(bit == "1" for bit in found[2]), size))
        else:
            number, bits, start = open_.pop()
            out.append((number, bits, start, size))
    return "".join([*parts, marked[at:]]), out
