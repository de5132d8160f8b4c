"""The only Jinja environment: sandboxed, limited by counts, text out.

    template source ──parse──▶ tree ──guard──▶ tree with counters ──compile──▶ render(messages=…) ──▶ str
                                      │
                                      ├ each turn of a loop, each call of a macro     1 step        (1,000,000)
                                      ├ each character that leaves the template       1 character   (10,000,000)
                                      └ everything built or read on the way           work          (10 x characters)

`Template.trace` gives the same text, and whose every character is: while origins are kept they are built and read as
well, and paid for from the same work.

A template is data from elsewhere. It may be wrong, and it may be hostile: loops in loops, ``"a" * 10**9``, lists that
hold themselves twice. Every such thing ends as one `BadTemplate` with the template's name, the line and the cause. The
limits are counts, never seconds, so a template that renders here renders everywhere, and the same text.

What chat templates expect is here: ``tojson`` that leaves characters alone, ``raise_exception``, ``strftime_now`` (with
a fixed date), ``break`` and ``continue``, ``{% generation %}``. What costs without bound and serves no chat template is
absent: ``lipsum``, ``include``, ``urlize``, ``pprint`` and their like.
"""

from __future__ import annotations

import datetime
import functools
import json
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from string import Formatter
from typing import Any, NoReturn

import jinja2
import markupsafe
from jinja2 import filters, nodes
from jinja2.compiler import CodeGenerator
from jinja2.exceptions import TemplateError, TemplateSyntaxError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, pass_context, pass_environment
from jinja2.visitor import NodeTransformer

from prep_lib.errors import BadTemplate
from prep_lib.traced import (
    Rendering,
    Traced,
    TracedDict,
    TracedList,
    concat,
    generated,
    joined,
    json_text,
    rewritten,
    runs_of,
    spans_of,
    spelled,
    traced,
)  # fmt: skip

#: What ``strftime_now`` says unless told otherwise: the same rows give the same ids tomorrow.
FIXED_DATE = datetime.date(2026, 1, 2)
#: Turns of all loops and calls of all macros together.
MAX_STEPS = 1_000_000
#: Characters that leave the template.
MAX_CHARACTERS = 10_000_000
#: What may be built or read on the way however little may leave; ten times the characters that may leave come on top.
MIN_WORK = 1_000_000
#: The longest template read; the longest of 26 published ones has 17,057 characters.
MAX_SOURCE = 200_000
#: Macros inside macros, recursive loops inside themselves.
MAX_DEPTH = 100
#: What ``f(*items)`` may spread.
MAX_ARGUMENTS = 1_000
#: Bits of an integer. A larger one has no use here and makes one multiplication last for minutes.
MAX_BITS = 10_000
#: Field widths and precisions of ``%`` and ``format``.
MAX_WIDTH = 10_000

#: Work units: one is a character built (up to 4 bytes). A place in a list is 8 bytes; a small object of its own, and a
#: place walked through when a whole tree is printed or compared, count as 64.
SLOT, OBJECT, NODE = 2, 16, 64
#: While origins are kept: one span made or walked over, and a piece of a text that is an object with a span of its own.
SPAN, PIECE = 32, 64
#: Comparing with a text of up to so many characters costs nothing.
_SHORT = 15
#: Integers up to this need no counting of bits.
_SMALL = 2**63

_TEXTS = frozenset({str, Traced})
_SCALARS = (str, int, float, bool, type(None))
_VIEWS: Any = (type({}.keys()), type({}.values()), type({}.items()))
_LISTS: Any = (list, tuple, *_VIEWS)
_SIZED: Any = (dict, range, *_LISTS)


class _Refused(Exception):
    """A limit was passed, or something that is not allowed was asked for; becomes `BadTemplate` with its line."""


class _Raised(Exception):
    """The template itself called ``raise_exception``."""


class _Once:
    """What ``map``, ``select`` and their like give: to be read once, always true, without a length, as in Jinja."""

    def __init__(self, items: list[Any]) -> None:
        self.items, self.at = items, 0

    def __iter__(self) -> _Once:
        return self

    def __next__(self) -> Any:
        if self.at >= len(self.items):
            raise StopIteration
        self.at += 1
        return self.items[self.at - 1]

    def rest(self) -> list[Any]:
        return self.items[self.at :]


class _Budget:
    """What one rendering may still spend."""

    __slots__ = (
        "depth", "frame", "loop", "max_characters", "max_steps", "max_work", "now", "outer", "steps", "tracing", "work",
    )  # fmt: skip

    def __init__(self, steps: int, characters: int, now: datetime.datetime, tracing: bool) -> None:
        self.max_steps, self.max_characters = steps, characters
        self.max_work = MIN_WORK + 10 * characters
        self.steps, self.work, self.depth, self.now = steps, self.max_work, 0, now
        #: Whether origins are kept; the message whose turn of a loop is running, which loop that is, and those around.
        self.tracing = tracing
        self.frame: int | None = None
        self.loop = 0
        self.outer: list[tuple[int, int | None]] = []

    def step(self, weight: int) -> None:
        self.steps -= 1
        self.work -= weight
        if self.steps < 0 or self.work < 0:
            self.refuse()

    def enter(self, loop: int, message: int) -> None:
        """Open the frame of a message, or go on from the message before it in the same loop."""
        if self.loop != loop:
            self.outer.append((self.loop, self.frame))
            self.loop = loop
        self.frame = message

    def leave(self, loop: int) -> None:
        """Close the frame this loop opened, if it did; that of a loop around it goes on."""
        if self.loop == loop:
            self.loop, self.frame = self.outer.pop()

    def spend(self, work: int) -> int:
        self.work -= work
        if self.work < 0:
            self.refuse()
        return work

    def refuse(self) -> NoReturn:
        """Say which limit was passed."""
        if self.steps < 0:
            raise _Refused(f"more than {self.max_steps:,} loop steps")
        raise _Refused(f"builds or reads more than {self.max_work:,} characters on the way")

    def deep(self, *values: Any, printed: bool = False) -> int:
        """Pay for the whole trees of `values`; each place counts each time it is reached, as printing would."""
        todo, paid = list(values), 0
        while todo:
            value = todo.pop()
            if isinstance(value, str):
                paid += self.spend(NODE + len(value))
            elif isinstance(value, int):
                _check_bits(value)
            elif inside := _inside(value):
                paid += self.spend(NODE * len(inside))
                todo.extend(inside)
            elif printed and not isinstance(value, (float, type(None), Undefined, list, tuple, dict, range, *_VIEWS)):
                raise _Refused(f"a {type(value).__name__.strip('_').lower()} is not text")
        return paid

    def settle(self, value: Any) -> Any:
        """Pay for what an operation gave; read an iterator whole, so that its cost falls here."""
        kind = type(value)
        if kind is bool or value is None:
            return value
        if kind is Traced:
            self.spend(len(value) + SPAN * len(value.spans))
        elif isinstance(value, str):
            self.spend(len(value))
        elif isinstance(value, (list, tuple)):
            self.spend(SLOT * len(value))
        elif isinstance(value, int):
            _check_bits(value)
        elif isinstance(value, Iterator) and not isinstance(value, (_Once, LoopContext)):
            return _Once(list(value))
        return value


_BUDGET: ContextVar[_Budget] = ContextVar("budget")


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, _Once):
        return value.rest()
    return list(value) if isinstance(value, _LISTS) else []


def _check_bits(value: int) -> None:
    if value.bit_length() > MAX_BITS:
        raise _Refused(f"an integer of {value.bit_length():,} bits (at most {MAX_BITS:,})")


def _size(value: Any) -> int:
    """Return how many items reading `value` gives; a character read alone is a new object."""
    if isinstance(value, str):
        return (PIECE if _BUDGET.get().tracing else OBJECT) * len(value)
    if isinstance(value, _Once):
        return len(value.items) - value.at
    return len(value) if isinstance(value, _SIZED) else 0


def _text(value: Any) -> str:
    """Return what ``{{ value }}`` prints; only data can be printed."""
    if isinstance(value, str):
        return value
    budget = _BUDGET.get()
    budget.deep(value, printed=True)
    text = str(value)
    budget.spend(len(text))
    return spelled(text, value) if budget.tracing else text


# ---------------------------------------------------------------- operators


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _add(left: Any, right: Any) -> Any:
    for kind in (str, list, tuple):
        if isinstance(left, kind) and isinstance(right, kind):
            _BUDGET.get().spend((1 if kind is str else SLOT) * (len(left) + len(right)))
    return operator.add(left, right)


def _multiply(left: Any, right: Any) -> Any:
    for thing, times in ((left, right), (right, left)):
        if isinstance(thing, (str, list, tuple)) and isinstance(times, int):
            _BUDGET.get().spend((1 if isinstance(thing, str) else SLOT) * len(thing) * max(times, 0))
    return operator.mul(left, right)


def _power(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() * max(right, 0) > MAX_BITS:
        raise _Refused(f"{left} ** {right} has more than {MAX_BITS:,} bits")
    return operator.pow(left, right)


_PERCENT = re.compile(r"%(?:\([^)]*\))?[#0\- +]*(\*|\d+)?(?:\.(\*|\d*))?[hlL]?.", re.DOTALL)


def _percent(left: Any, right: Any) -> Any:
    if isinstance(left, str):
        fields = _PERCENT.findall(left)
        for width in (part for field in fields for part in field if part):
            _check_width(width)
        cost = _BUDGET.get().deep(right, printed=True)
        _BUDGET.get().spend(len(left) + len(fields) * cost + sum(int(width or 0) for f in fields for width in f))
        if _BUDGET.get().tracing:
            return Traced(left) % right if type(left) is str else left % right
    return operator.mod(left, right)


def _check_width(text: str) -> None:
    if not text.isdigit() or len(text) > 9 or int(text) > MAX_WIDTH:
        raise _Refused(f"a field width of {text[:20]} (at most {MAX_WIDTH:,}, written as a number)")


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": _add, "*": _multiply, "**": _power, "%": _percent,
    "-": operator.sub, "/": operator.truediv, "//": operator.floordiv,
}  # fmt: skip


def _binary(name: str, left: Any, right: Any) -> Any:
    """Compute ``left name right`` and pay for it."""
    if type(left) is int and type(right) is int and name in "+-":
        made = left + right if name == "+" else left - right
        return made if -_SMALL < made < _SMALL else _BUDGET.get().settle(made)
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left)
        _check_bits(right)
    elif name in "-//" and not (_is_number(left) and _is_number(right)) and not _has_undefined(left, right):
        raise _Refused(f"{type(left).__name__} {name} {type(right).__name__} is not arithmetic")
    return _BUDGET.get().settle(_BINARY[name](left, right))


def _plus(*parts: Any) -> Any:
    """Add from left to right; texts all at once."""
    kinds = set(map(type, parts))
    if not kinds <= _TEXTS:
        return functools.reduce(lambda left, right: _binary("+", left, right), parts)
    _BUDGET.get().spend(2 * sum(map(len, parts)))
    return joined(parts) if Traced in kinds else "".join(parts)


def _has_undefined(*values: Any) -> bool:
    return any(isinstance(value, Undefined) for value in values)


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        if len(left) == len(right) > _SHORT:
            _BUDGET.get().spend(len(left) >> 4)
    elif not isinstance(left, _SCALARS) and not isinstance(right, _SCALARS):
        _BUDGET.get().deep(left, right)
    return left == right


def _differs(left: Any, right: Any) -> bool:
    return not _equal(left, right)


def _within(left: Any, right: Any) -> bool:
    budget = _BUDGET.get()
    if isinstance(right, str):
        budget.spend(len(right) >> 3)
    elif isinstance(right, dict):
        budget.deep(left)
    elif isinstance(left, str):
        budget.spend(_size(right) * (1 + (len(left) >> 4)))
    else:
        budget.deep(left, right)
    return left in right


def _outside(left: Any, right: Any) -> bool:
    return not _within(left, right)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def ordered(left: Any, right: Any) -> bool:
        if not (type(left) is type(right) is int or (_is_number(left) and _is_number(right))):
            _BUDGET.get().deep(left, right)
        return compare(left, right)

    return ordered


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": _equal, "ne": _differs, "in": _within, "notin": _outside,
    "lt": _ordered(operator.lt), "lteq": _ordered(operator.le),
    "gt": _ordered(operator.gt), "gteq": _ordered(operator.ge),
}  # fmt: skip


# ---------------------------------------------------------------- what a tree shows before it runs

#: What gives the same for the same parts and changes nothing; a call may do anything.
_PURE = (
    nodes.BinExpr, nodes.UnaryExpr, nodes.Compare, nodes.Operand, nodes.Concat, nodes.CondExpr, nodes.Filter,
    nodes.Test, nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Literal, nodes.Pair, nodes.Keyword,
)  # fmt: skip
#: What Jinja itself names inside loops, blocks and macros.
_BOUND = frozenset({"loop", "self", "super", "caller", "varargs", "kwargs"})
#: How often names are gone through: each time those are found that are set from names found before.
_PASSES = 20


class _Reader:
    """Reads off a syntax tree what is the same whatever the data are, while a flag is given."""

    def __init__(self, tree: nodes.Template, flag: str, data: Collection[str]) -> None:
        self.flag = flag
        #: The names whose values may hang on data. Values of other names are those given, or set from such alone.
        self.moving = {*data, *_BOUND}
        for _ in range(_PASSES):
            known = len(self.moving)
            self._learn(tree.body, True)
            if len(self.moving) == known:
                return
        self.moving.add(flag)

    def _learn(self, body: Iterable[nodes.Node], fixed: bool) -> None:
        """Note the names that are set from data, or where data decide; and the flag, should it be set at all."""
        for node in body:
            if isinstance(node, nodes.If):
                inside = fixed
                for test, way in [] if self._never(node) else _branches(node):
                    inside = inside and self.same(test)
                    self._learn(way, inside)
            elif isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name):
                if node.target.name == self.flag or not (fixed and self.same(node.node)):
                    self.moving.add(node.target.name)
            else:
                # Whatever is set in a loop, a macro or a block may be set by data.
                self.moving |= {name.name for name in node.find_all(nodes.Name) if name.ctx != "load"}
                self.moving |= {ref.name for ref in node.find_all(nodes.NSRef)}
                self.moving |= {macro.name for macro in node.find_all(nodes.Macro)}
                if isinstance(node, nodes.Macro):
                    self.moving.add(node.name)

    def same(self, node: nodes.Node) -> bool:
        """Tell whether an expression has one value whatever the data are."""
        todo = [node]
        while todo:
            node = todo.pop()
            if node.name in self.moving if isinstance(node, nodes.Name) else not isinstance(node, _PURE):
                return False
            todo.extend(node.iter_child_nodes())
        return True

    def ends_alike(self, body: Iterable[nodes.Node]) -> bool:
        """Tell whether a body asks for the flag, and all it writes from there on is one text while the flag is on."""
        asked = False
        if self.flag in self.moving:
            return False
        for node in body:
            for part in node.nodes if isinstance(node, nodes.Output) else [node]:
                if not self._never(part):
                    asked = asked or self._asks(part)
                    if asked and not self._writes_one(part):
                        return False
        return asked

    def _asks(self, node: nodes.Node) -> bool:
        found = [node] if isinstance(node, nodes.Name) else node.find_all(nodes.Name)
        return any(name.name == self.flag for name in found)

    def _never(self, node: nodes.Node) -> bool:
        """Tell whether a block is never entered, as a default for a flag that is given."""
        if not isinstance(node, nodes.If) or node.elif_ or node.else_:
            return False
        return self._truth(node.test, True) is False and self._truth(node.test, False) is False

    def _writes_one(self, node: nodes.Node) -> bool:
        """Tell whether a node writes one text while the flag is on."""
        if isinstance(node, nodes.Output):
            return all(map(self.same, node.nodes))
        if not isinstance(node, nodes.If):
            return isinstance(node, nodes.Expr) and self.same(node)
        for test, body in _branches(node):
            truth = self._truth(test, True)
            if truth is None and not self.same(test):
                return False
            if truth is not False and not all(map(self._writes_one, body)):
                return False
            if truth:
                break
        return True

    def _truth(self, test: nodes.Node, on: bool) -> bool | None:
        """Return what a condition gives for a flag that is on or off; None: that hangs on more."""
        if isinstance(test, nodes.Name):
            return on if test.name == self.flag else None
        if isinstance(test, nodes.Const):
            return bool(test.value)
        if isinstance(test, nodes.Not):
            truth = self._truth(test.node, on)
            return None if truth is None else not truth
        if isinstance(test, (nodes.And, nodes.Or)):
            sides, least = (self._truth(test.left, on), self._truth(test.right, on)), isinstance(test, nodes.Or)
            return least if least in sides else None if None in sides else not least
        if isinstance(test, nodes.Test) and test.name in ("defined", "undefined"):
            given = isinstance(test.node, nodes.Name) and test.node.name == self.flag
            return test.name == "defined" if given else None
        return None


def _branches(node: nodes.If) -> list[tuple[nodes.Node, list[nodes.Node]]]:
    """Return what is written under which condition, in the order in which it is asked."""
    ways: list[nodes.If] = [node, *node.elif_]
    return [*((way.test, way.body) for way in ways), (nodes.Const(True), node.else_)]


# ---------------------------------------------------------------- the guarded tree, and what it calls


# No template can spell these names: an identifier does not begin with a middle dot.


def _tick(weight: int, loop: int = 0, item: Any = None) -> bool:
    """Count one step; a turn over a message opens its frame."""
    budget = _BUDGET.get()
    budget.step(weight)
    if type(item) is TracedDict and item.origin.message is not None and not item.origin.field:
        budget.enter(loop, item.origin.message)
    elif budget.loop == loop:
        budget.frame = None
    return True


def _leave(loop: int) -> None:
    """Close the frame if this loop opened it."""
    budget = _BUDGET.get()
    if budget.loop == loop:
        budget.leave(loop)


def _generated(text: str) -> str:
    budget = _BUDGET.get()
    if not budget.tracing:
        return text
    budget.spend(SPAN * len(spans_of(text)))
    return generated(text)


def _compare(left: Any, names: tuple[str, ...], *others: Any) -> bool:
    for name, right in zip(names, others, strict=True):
        if not _COMPARE[name](left, right):
            return False
        left = right
    return True


def _slice(value: Any, start: Any, stop: Any, step: Any) -> Any:
    budget = _BUDGET.get()
    if type(value) is Traced:
        budget.spend(SPAN * len(value.spans) + (0 if step in (None, 1) else PIECE * len(value)))
    return budget.settle(value[slice(start, stop, step)])


def _concat(*parts: Any) -> str:
    texts = [_text(part) for part in parts]
    budget = _BUDGET.get()
    budget.spend(2 * sum(map(len, texts)))
    return concat(texts) if budget.tracing else "".join(texts)


def _key(value: Any) -> Any:
    _BUDGET.get().deep(value)  # a tuple is hashed as a tree
    return value


def _few(value: Any) -> Any:
    if isinstance(value, (str, range)) or _size(value) > MAX_ARGUMENTS:
        raise _Refused(f"only lists and maps of at most {MAX_ARGUMENTS} items can be spread into a call")
    return value


_INTERNAL = {
    "·tick": _tick, "·leave": _leave, "·generated": _generated, "·compare": _compare, "·slice": _slice,
    "·concat": _concat, "·plus": _plus, "·key": _key, "·few": _few,
    **{f"·{name}": compare for name, compare in _COMPARE.items()},
}  # fmt: skip


class _Guard(NodeTransformer):
    """Rewrite a parsed template so that what repeats is counted and what builds is paid for."""

    loops = 0

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        if isinstance(node, (nodes.For, nodes.Macro, nodes.CallBlock, nodes.Block)):
            tick = _tick_node(node, _weight(node.body))
            super().generic_visit(node)
            node.body.insert(0, nodes.ExprStmt(tick, lineno=node.lineno))
            return node
        for spread in ("dyn_args", "dyn_kwargs"):
            if getattr(node, spread, None) is not None:
                setattr(node, spread, _call_node("·few", node, getattr(node, spread)))
        return super().generic_visit(node, *args, **kwargs)

    def visit_For(self, node: nodes.For) -> list[nodes.Node]:  # noqa: N802
        """Count each turn, and tell which message a loop over messages is at."""
        self.loops += 1
        loop = nodes.Const(self.loops, lineno=node.lineno)
        tick = _tick_node(node, _weight(node.body))
        if isinstance(node.target, nodes.Name):
            tick.args += [loop, nodes.Name(node.target.name, "load", lineno=node.lineno)]
        super().generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(tick, lineno=node.lineno))
        if node.test is not None:
            node.test = nodes.And(_tick_node(node, 1), node.test, lineno=node.lineno)
        return [node, nodes.ExprStmt(_call_node("·leave", node, loop), lineno=node.lineno)]

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if len(node.ops) == 1 and node.ops[0].op in ("eq", "ne") and _is_short(node.expr, node.ops[0].expr):
            return node
        if len(node.ops) == 1:
            return _call_node(f"·{node.ops[0].op}", node, node.expr, node.ops[0].expr)
        names = nodes.Const(tuple(operand.op for operand in node.ops), lineno=node.lineno)
        return _call_node("·compare", node, node.expr, names, *(operand.expr for operand in node.ops))

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        ends = (node.arg.start, node.arg.stop, node.arg.step)
        none = nodes.Const(None, lineno=node.lineno)
        return _call_node("·slice", node, node.node, *(none if end is None else end for end in ends))

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _call_node("·concat", node, node.nodes[0], *node.nodes[1:])

    def visit_Add(self, node: nodes.Add) -> nodes.Node:  # noqa: N802
        """Make one call of a chain of sums: what is built on the way is built once."""
        chain: list[nodes.Expr] = []
        left: nodes.Expr = node
        while isinstance(left, nodes.Add):
            chain.append(self.visit(left.right))
            left = left.left
        return _call_node("·plus", node, self.visit(left), *reversed(chain))

    def visit_Output(self, node: nodes.Output) -> nodes.Node:  # noqa: N802
        """Make template data of texts that are printed as they stand: ``{{ '<|im_end|>' }}``."""
        node.nodes = [
            nodes.TemplateData(child.value, lineno=child.lineno)
            if isinstance(child, nodes.Const) and type(child.value) is str
            else child
            for child in node.nodes
        ]
        return self.generic_visit(node)

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.key = _call_node("·key", node, node.key)
        return node

    def _refuse(self, node: nodes.Node) -> nodes.Node:
        raise TemplateSyntaxError(f"{type(node).__name__.lower()} is not allowed in a chat template", node.lineno)

    visit_Extends = visit_Include = visit_Import = visit_FromImport = _refuse  # noqa: N815
    visit_ScopedEvalContextModifier = visit_EvalContextModifier = _refuse  # noqa: N815


def _is_short(*sides: nodes.Expr) -> bool:
    """Tell whether a comparison costs nothing: one side is a short text, ``message.role == "user"``."""
    return any(
        isinstance(side, nodes.Const) and type(side.value) is str and len(side.value) <= _SHORT for side in sides
    )


def _call_node(name: str, at: nodes.Node, value: nodes.Expr, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(value, name, list(args), [], None, None, lineno=at.lineno)


def _tick_node(at: nodes.Node, weight: int) -> nodes.Filter:
    return _call_node("·tick", at, nodes.Const(weight, lineno=at.lineno))


def _weight(body: Iterable[nodes.Node]) -> int:
    """Return what one pass through `body` costs: its nodes and literal characters, inner loops and macros apart."""
    total, todo = 0, list(body)
    while todo:
        node = todo.pop()
        total += 1
        if isinstance(node, nodes.TemplateData):
            total += len(node.data)
        elif isinstance(node, nodes.Const) and type(node.value) is str:  # printed, it becomes template data
            total += len(node.value)
        if not isinstance(node, (nodes.For, nodes.Macro, nodes.CallBlock, nodes.Block)):
            todo.extend(node.iter_child_nodes())
    return total


class _Generation(Extension):
    """``{% generation %} … {% endgeneration %}``: marks the answer; its body is rendered, its names stay inside."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        mark: Any = nodes.Filter(None, "·generated", [], [], None, None, lineno=line)
        return nodes.FilterBlock(body, mark, lineno=line)


# ---------------------------------------------------------------- methods

Cost = Callable[..., int]


def _copy_cost(text: str, *_: Any, **__: Any) -> int:
    return len(text)


def _scan_cost(text: str, *_: Any, **__: Any) -> int:
    return len(text) >> 3


def _width_cost(text: str, width: int = 0, *_: Any, **__: Any) -> int:
    return max(len(text), int(width))


def _tabs_cost(text: str, tabsize: int = 8) -> int:
    return len(text) + text.count("\t") * max(int(tabsize), 0)


def _replace_cost(text: str, old: str, new: str, *_: Any, **__: Any) -> int:
    return len(text) + text.count(old) * (len(new) + (2 * SPAN if _BUDGET.get().tracing else 0))


def _split_cost(text: str, sep: str | None = None, *_: Any, **__: Any) -> int:
    return _size(text) if sep is None else len(text) + PIECE * (text.count(sep) + 1)


def _lines_cost(text: str, *_: Any, **__: Any) -> int:
    return _size(text)


def _join_cost(text: str, parts: Iterable[Any]) -> int:
    return len(text) * _size(parts)


class _Format(Formatter):
    """``"{}".format(…)`` whose widths are small and whose names reach only what the sandbox gives."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
        first, rest = field_name.split(".", 1)[0].split("[", 1)[0], re.split(r"[.\[]", field_name, maxsplit=1)[1:]
        if rest:
            raise _Refused(f"format reaches into {field_name[:40]!r}; write the expression outside the text")
        return self.get_value(int(first) if first.isdigit() and len(first) < 6 else first, args, kwargs), first

    def vformat(self, format_string: str, args: Any, kwargs: Any) -> str:
        """Format each field alone, so that a plain ``{}`` keeps the origin of every character."""
        plain = super().vformat(str.__str__(format_string), args, kwargs)
        if not _BUDGET.get().tracing:
            return plain
        pieces, number = [], 0
        for before, name, spec, conversion in self.parse(format_string):
            pieces.append(before)
            if name is not None:
                value = self.get_field(name or str(number), args, kwargs)[0]
                text = self.format_field(self.convert_field(value, conversion), self.vformat(spec or "", args, kwargs))
                pieces.append(value if type(value) is Traced and text == value else rewritten(text, value))
                number += not name
        made = concat(pieces)
        return made if made == plain else str(rewritten(plain, format_string, args, kwargs))

    def format_field(self, value: Any, format_spec: str) -> str:
        for width in re.findall(r"\d+", format_spec):
            _check_width(width)
            _BUDGET.get().spend(int(width))
        _BUDGET.get().deep(value, printed=True)
        return _BUDGET.get().settle(format(value, format_spec))

    def convert_field(self, value: Any, conversion: Any) -> Any:
        _BUDGET.get().deep(value, printed=True)
        return _BUDGET.get().settle(super().convert_field(value, conversion))


_TESTING = (
    "isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper"
)
_COPYING = "capitalize casefold lower lstrip removeprefix removesuffix rstrip strip swapcase title upper"
_STR: dict[str, Cost] = {
    **dict.fromkeys(f"{_TESTING} count endswith find index rfind rindex startswith".split(), _scan_cost),
    **dict.fromkeys(_COPYING.split(), _copy_cost),
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _width_cost),
    **dict.fromkeys(("split", "rsplit"), _split_cost), **dict.fromkeys(("partition", "rpartition"), _copy_cost),
    "expandtabs": _tabs_cost, "replace": _replace_cost, "splitlines": _lines_cost, "join": _join_cost,
    "format": _copy_cost,
}  # fmt: skip


def _list_cost(items: Any, *_: Any) -> int:
    return _BUDGET.get().deep(items)


def _shallow_cost(items: Any, *_: Any) -> int:
    return SLOT * len(items)


_SEQUENCE: dict[str, Cost] = {"index": _list_cost, "count": _list_cost, "copy": _shallow_cost}
_DICT: dict[str, Cost] = {
    **dict.fromkeys(("get", "items", "keys", "values"), lambda *_: 0), "copy": _shallow_cost,
}  # fmt: skip
#: The methods a template may call, and what a call costs before it is made. Nothing else of an object is in reach.
_METHODS: tuple[tuple[type, dict[str, Cost]], ...] = (
    (str, _STR), (list, _SEQUENCE), (tuple, _SEQUENCE), (dict, _DICT),
)  # fmt: skip
_LOOP = (
    "changed", "cycle", "depth", "depth0", "first", "index", "index0", "last", "length", "nextitem", "previtem",
    "revindex", "revindex0",
)  # fmt: skip
#: What Jinja's compiled code passes beside a template's own arguments.
_HIDDEN = ("_block_vars", "_loop_vars")
_MACRO = ("arguments", "caller", "catch_kwargs", "catch_varargs", "name")


#: The same by exact type, and what else may be looked up; things of other types are asked for what they inherit.
_COSTS: dict[type, dict[str, Cost]] = {
    str: _STR, Traced: _STR, list: _SEQUENCE, TracedList: _SEQUENCE, tuple: _SEQUENCE, dict: _DICT, TracedDict: _DICT,
    type(None): {},
}  # fmt: skip
_NAMES: dict[type, Collection[str]] = {**_COSTS, LoopContext: frozenset(_LOOP), Macro: frozenset(_MACRO)}


def _allowed(value: Any, attribute: str) -> bool:
    names = _NAMES.get(type(value))
    if names is not None:
        return attribute in names
    if isinstance(value, Namespace):
        return not attribute.startswith("_")
    if isinstance(value, tuple) and attribute in ("grouper", "list"):
        return hasattr(value, "_fields")  # what groupby gives
    for kind, names in _METHODS:
        if isinstance(value, kind):
            return attribute in names
    return False


def _method(function: Any) -> tuple[Any, Cost | None]:
    """Return whose method this is, and what a call of it costs; no cost: it is none that may be called."""
    owner = getattr(function, "__self__", None)
    costs = _COSTS.get(type(owner))
    if costs is None:
        costs = next((costs for kind, costs in _METHODS if isinstance(owner, kind)), {})
    return owner, costs.get(function.__name__) if costs else None


# ---------------------------------------------------------------- filters


def _free(*_: Any, **__: Any) -> None:
    """Cost nothing: the filter looks at one place and builds nothing."""


def _joined(eval_ctx: nodes.EvalContext, value: Any, d: Any = "", attribute: Any = None) -> str:
    """Join as Jinja does; the parts keep their origins."""
    if not _BUDGET.get().tracing:
        return filters.do_join(eval_ctx, value, d, attribute)
    items = value if attribute is None else map(filters.make_attrgetter(_ENVIRONMENT, attribute), value)
    joint, texts = _text(d), [_text(item) for item in items]
    return concat([piece for text in texts for piece in (joint, text)][1:])


_joined.jinja_pass_arg = filters.do_join.jinja_pass_arg  # type: ignore[attr-defined]


def _replaced(eval_ctx: nodes.EvalContext, value: Any, old: Any, new: Any, count: int | None = None) -> str:
    if not _BUDGET.get().tracing:
        return filters.do_replace(eval_ctx, value, old, new, count)
    return Traced.replace(concat([Traced(""), _text(value)]), _text(old), _text(new), -1 if count is None else count)


_replaced.jinja_pass_arg = filters.do_replace.jinja_pass_arg  # type: ignore[attr-defined]


def _walk(value: Any) -> None:
    """Pay for finding a place among the spans of a text."""
    if type(value) is Traced:
        _BUDGET.get().spend(SPAN * len(value.spans))


def _deep(*args: Any, **kwargs: Any) -> None:
    _BUDGET.get().deep(*args, *kwargs.values())


def _each(value: Any, *args: Any, **kwargs: Any) -> None:
    budget = _BUDGET.get()
    budget.spend(_size(value) * (NODE + budget.deep(*args, *kwargs.values())))


def _sorting(value: Any, *args: Any, **kwargs: Any) -> None:
    _each(value, *args, **kwargs)
    budget = _BUDGET.get()
    budget.spend(budget.deep(value) * _size(value).bit_length())


def _string(value: Any, *args: Any, **kwargs: Any) -> None:
    """Pay for printing what is not yet text, and for the arguments."""
    _text(value)
    _deep(*args, **kwargs)


def _pieces(value: Any, *_: Any, **__: Any) -> None:
    _BUDGET.get().spend(OBJECT * len(_text(value)))


def _center(value: Any, width: int = 80) -> None:
    _BUDGET.get().spend(_width_cost(_text(value), width))


def _indent(value: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> None:
    text, columns = _text(value), len(width) if isinstance(width, str) else int(width)
    _BUDGET.get().spend(_lines_cost(text) + (len(text.splitlines()) + 1) * max(columns, 0))


def _replace(value: Any, old: Any, new: Any, count: int | None = None) -> None:
    _BUDGET.get().spend(_replace_cost(_text(value), _text(old), _text(new)))


def _join(value: Any, d: Any = "", attribute: Any = None) -> None:
    _each(value, attribute)
    _BUDGET.get().deep(value)
    _BUDGET.get().spend(len(_text(d)) * _size(value))


def _batch(value: Any, linecount: int, fill_with: Any = None) -> None:
    _BUDGET.get().spend(SLOT * (_size(value) + int(linecount)))


def _rows(value: Any, slices: int, fill_with: Any = None) -> None:
    _BUDGET.get().spend(OBJECT * (_size(value) + int(slices)))


def _round(value: Any, precision: int = 0, method: str = "common") -> None:
    _deep(value)
    if abs(int(precision)) > 300:
        raise _Refused(f"round to {precision} places (at most 300)")


def _quote(value: Any, *_: Any) -> None:
    _BUDGET.get().spend(9 * _BUDGET.get().deep(value, printed=True))


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Return JSON as chat templates expect it: characters as they are, no HTML escapes.

    Examples
    --------
    >>> Template("{{ value|tojson }}").render(value={"b": "<é>", "a": [1, None]})
    '{"b": "<é>", "a": [1, null]}'
    """
    widest = max(len(indent) if isinstance(indent, str) else int(indent or 0), *map(len, separators or ("",)))
    if widest > 100:
        raise _Refused(f"tojson with an indent or separator of {widest:,} characters (at most 100)")
    depth_cost = MAX_DEPTH if indent is not None else 1
    budget = _BUDGET.get()
    budget.spend(budget.deep(value) // NODE * max(widest, 1) // 8 * depth_cost)
    options: dict[str, Any] = {
        "ensure_ascii": ensure_ascii, "indent": indent, "separators": separators, "sort_keys": sort_keys,
    }  # fmt: skip
    text = json.dumps(value, **options, default=_not_json)
    if not budget.tracing:
        return text
    return json_text(value, text, lambda spans: budget.spend(SPAN * spans), **options)


def _not_json(value: Any) -> Any:
    raise _Refused(f"tojson: {value!r} is not data" if isinstance(value, Undefined) else "tojson: this is not data")


def _sum(value: Any, attribute: Any = None, start: Any = 0) -> Any:
    items = value if attribute is None else map(filters.make_attrgetter(_ENVIRONMENT, attribute), value)
    for item in items:
        start = _binary("+", start, item)
    return start


def _format_filter(value: Any, *args: Any, **kwargs: Any) -> str:
    return str(_binary("%", _text(value), kwargs or args))


def _escape(value: Any) -> str:
    text = _text(value)
    _BUDGET.get().spend(5 * len(text))
    return str(markupsafe.escape(text))


@pass_environment
def _attr(environment: jinja2.Environment, value: Any, name: Any) -> Any:
    found = getattr(value, str(name), None)
    if found is not None and _allowed(value, str(name)):
        return found
    return environment.undefined(obj=value, name=str(name))


_FILTERS: dict[str, tuple[Callable[..., Any], Callable[..., None]]] = {
    "abs": (abs, _deep), "attr": (_attr, _deep), "batch": (filters.do_batch, _batch),
    "capitalize": (filters.do_capitalize, _string), "center": (filters.do_center, _center),
    "count": (len, _free), "d": (filters.do_default, _free), "default": (filters.do_default, _free),
    "dictsort": (filters.do_dictsort, _sorting), "e": (_escape, _free), "escape": (_escape, _free),
    "first": (filters.do_first, _walk), "float": (filters.do_float, _deep), "forceescape": (_escape, _free),
    "format": (_format_filter, _free), "groupby": (filters.do_groupby, _sorting),
    "indent": (filters.do_indent, _indent), "int": (filters.do_int, _deep), "items": (filters.do_items, _each),
    "join": (_joined, _join), "last": (filters.do_last, _walk), "length": (len, _free),
    "list": (filters.do_list, _each), "lower": (filters.do_lower, _string), "map": (filters.do_map, _each),
    "max": (filters.do_max, _sorting), "min": (filters.do_min, _sorting), "reject": (filters.do_reject, _each),
    "rejectattr": (filters.do_rejectattr, _each), "replace": (_replaced, _replace),
    "reverse": (filters.do_reverse, _each), "round": (filters.do_round, _round), "safe": (_text, _free),
    "select": (filters.do_select, _each), "selectattr": (filters.do_selectattr, _each),
    "slice": (filters.do_slice, _rows), "sort": (filters.do_sort, _sorting), "string": (_text, _free),
    "sum": (_sum, _each), "title": (filters.do_title, _pieces), "tojson": (tojson, _free),
    "trim": (filters.do_trim, _string), "truncate": (filters.do_truncate, _string),
    "unique": (filters.do_unique, _sorting), "upper": (filters.do_upper, _string),
    "urlencode": (filters.do_urlencode, _quote), "wordcount": (filters.do_wordcount, _pieces),
}  # fmt: skip

#: Tests that look at a type or at one place; the rest compare and pay for what they read.
_FREE_TESTS = (
    "boolean", "callable", "defined", "escaped", "false", "float", "integer", "iterable", "mapping", "none", "number",
    "sameas", "sequence", "string", "true", "undefined",
)  # fmt: skip
_COMPARING_TESTS = {
    "==": "eq", "eq": "eq", "equalto": "eq", "!=": "ne", "ne": "ne", "in": "in",
    "<": "lt", "lt": "lt", "lessthan": "lt", "<=": "lteq", "le": "lteq",
    ">": "gt", "gt": "gt", "greaterthan": "gt", ">=": "gteq", "ge": "gteq",
}  # fmt: skip


#: These hand on what they are given: it has its own origin, or none.
_CHOOSING = ("attr", "d", "default", "first", "last", "max", "min", "safe", "string")


def _paid(name: str, function: Callable[..., Any], cost: Callable[..., None]) -> Callable[..., Any]:
    """Return a filter or test that pays before it runs and for what it gives; what Jinja passes first is passed by."""
    choosing = name in _CHOOSING
    hidden = getattr(function, "jinja_pass_arg", None) is not None

    @functools.wraps(function)
    def paid(*args: Any, **kwargs: Any) -> Any:
        cost(*args[1:] if hidden else args, **kwargs)
        budget = _BUDGET.get()
        made = budget.settle(function(*args, **kwargs))
        if type(made) is str and budget.tracing and not choosing:
            return rewritten(made, *args[1:] if hidden else args)
        return made

    return paid


# ---------------------------------------------------------------- globals and the environment


class _Namespace(Namespace):
    """``namespace(found=false)``: what a loop may write to."""

    # Jinja's own computes each look at itself, its class included, in Python.
    __getattribute__ = object.__getattribute__

    def __init__(self, /, *args: Any, **kwargs: Any) -> None:
        self._held = dict(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._held[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setitem__(self, name: str, value: Any) -> None:
        self._held[name] = value


def _namespace(*args: Any, **kwargs: Any) -> _Namespace:
    _BUDGET.get().spend(OBJECT * sum(_size(arg) for arg in args))
    return _Namespace(*args, **kwargs)


def _dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    _BUDGET.get().deep(*args)
    return dict(*args, **kwargs)


def _range(*args: int) -> range:
    numbers = range(*args)
    if len(numbers) > MAX_STEPS:
        raise _Refused(f"a range of more than {MAX_STEPS:,} numbers")
    return numbers


def _raise_exception(message: Any = "") -> None:
    raise _Raised(_text(message))


def _strftime_now(pattern: str) -> str:
    if len(pattern) > 200 or re.search(r"%[^A-Za-z%]", pattern):
        raise _Refused("strftime_now takes a short pattern of plain fields such as '%Y-%m-%d'")
    return _BUDGET.get().now.strftime(pattern)


_GLOBALS: dict[str, Callable[..., Any]] = {
    "range": _range, "dict": _dict, "namespace": _namespace,
    "raise_exception": _raise_exception, "strftime_now": _strftime_now,
}  # fmt: skip


@pass_context
def _print(_: Context, value: Any) -> str:
    """Turn what stands in ``{{ }}`` into text. Taking the context keeps Jinja from computing it while it compiles."""
    budget = _BUDGET.get()
    if type(value) is Traced:
        budget.spend(NODE + len(value) + SPAN * len(value.spans))
        return value
    text = _text(value)
    budget.spend(NODE + len(text))
    return text


class _Code(CodeGenerator):
    """Jinja's own, without a ``str()`` around what `_print` gives, which is text."""

    def _output_child_pre(self, node: nodes.Expr, frame: Any, finalize: Any) -> None:
        self.write(finalize.src)

    def _output_child_post(self, node: nodes.Expr, frame: Any, finalize: Any) -> None:
        self.write(")")


#: What a map has beside its entries; every other name can only be one of these.
_DICT_NAMES = frozenset(dir(TracedDict))


class _Environment(ImmutableSandboxedEnvironment):
    """Jinja with an allow list in place of a deny list."""

    intercepted_binops = frozenset(_BINARY)
    code_generator_class = _Code
    concat = staticmethod(concat)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return _allowed(obj, attr)

    def is_safe_callable(self, obj: Any) -> bool:
        if isinstance(obj, (Undefined, Macro, BlockReference, LoopContext)) or obj in _GLOBALS.values():
            return True
        return isinstance(getattr(obj, "__self__", None), LoopContext)

    def getattr(self, obj: Any, attribute: str) -> Any:
        kind = type(obj)
        if kind is TracedDict or kind is dict:
            if attribute not in _DICT_NAMES:
                return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        elif kind is _Namespace:
            if attribute in obj._held and attribute[:1] != "_":
                return obj._held[attribute]
        elif attribute in _NAMES.get(kind, ()):
            return getattr(obj, attribute)
        try:
            value = getattr(obj, attribute)
        except AttributeError:
            return self._item(obj, attribute)
        return value if _allowed(obj, attribute) else self.unsafe_undefined(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if not isinstance(argument, _SCALARS):
            _BUDGET.get().deep(argument)
        _walk(obj)
        found = self._item(obj, argument)
        if isinstance(found, Undefined) and isinstance(argument, str) and _allowed(obj, argument):
            return getattr(obj, argument, found)
        return found

    def _item(self, obj: Any, argument: Any) -> Any:
        try:
            return obj[argument]
        except (AttributeError, TypeError, LookupError):
            return self.undefined(obj=obj, name=argument)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        # Double underscores, as in Jinja: a template may name its own arguments "self", "context" and "obj".
        for name in _HIDDEN if kwargs else ():
            kwargs.pop(name, None)
        budget = _BUDGET.get()
        owner, cost = _method(__obj)
        if cost is not None:
            return _call_method(budget, owner, __obj, cost, args, kwargs)
        if not __self.is_safe_callable(__obj):
            raise _Refused("only macros, the listed functions and plain methods of text, lists and maps can be called")
        budget.spend(SLOT * (len(args) + len(kwargs)))
        if isinstance(getattr(__obj, "__self__", None), LoopContext):
            budget.deep(*args)  # loop.changed compares
        budget.depth += 1
        if budget.depth > MAX_DEPTH:
            raise _Refused(f"macros or loops call themselves more than {MAX_DEPTH} deep")
        try:
            return budget.settle(__context.call(__obj, *args, **kwargs))
        finally:
            budget.depth -= 1

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        return _binary(operator, left, right)


def _call_method(budget: _Budget, owner: Any, method: Any, cost: Cost, args: Any, kwargs: Any) -> Any:
    """Call a plain method and pay: for its arguments, for what it reads and builds, and for what it gives."""
    if args or kwargs:
        budget.deep(*args, *kwargs.values())
    budget.spend(SLOT * (len(args) + len(kwargs)) + cost(owner, *args, **kwargs))
    if type(owner) is Traced:
        budget.spend(SPAN * len(owner.spans))
    name = method.__name__
    if name == "format":
        return _Format().vformat(owner, args, kwargs)
    if budget.tracing and type(owner) is str and name in ("join", "replace"):
        method = getattr(Traced(owner), name)
    return budget.settle(method(*args, **kwargs))


def _environment() -> _Environment:
    # Never optimized: constants are folded while a template is compiled, before anything is counted.
    environment = _Environment(
        trim_blocks=True, lstrip_blocks=True, optimized=False, finalize=_print,
        extensions=[LoopControlExtension, _Generation],
    )  # fmt: skip
    comparing = {test: _COMPARE[name] for test, name in _COMPARING_TESTS.items()}
    given: Any = environment.tests
    environment.tests = {
        name: comparing.get(name) or (test if name in _FREE_TESTS else _paid(name, test, _deep))
        for name, test in given.items()
    }
    environment.filters = {name: _paid(name, *pair) for name, pair in _FILTERS.items()} | _INTERNAL
    environment.globals = dict(_GLOBALS)
    return environment


_ENVIRONMENT = _environment()


# ---------------------------------------------------------------- the door


class Template:
    """One chat template, parsed once.

    Parameters
    ----------
    source : str
        Jinja, as in a ``chat_template.jinja``; at most 200,000 characters.
    name : str
        What error lines call it.
    max_steps : int
        Turns of all loops and calls of all macros, together, in one rendering.
    max_characters : int
        Characters one rendering may give. Ten times as many may be built or read on the way.

    Raises
    ------
    BadTemplate
        If the source does not parse, or uses what is not allowed.

    Examples
    --------
    >>> greet = Template("{% for m in messages %}{{ m.role }}: {{ m.content | trim }}\\n{% endfor %}")
    >>> greet.render(messages=[{"role": "user", "content": " hi "}])
    'user: hi\\n'
    >>> Template("{{ 'a' * 10**9 }}", name="bomb").render()
    Traceback (most recent call last):
    prep_lib.errors.BadTemplate: jinja: bomb, line 1: builds or reads more than 101,000,000 characters on the way
    """

    def __init__(
        self,
        source: str,
        name: str = "template",
        *,
        max_steps: int = MAX_STEPS,
        max_characters: int = MAX_CHARACTERS,
    ) -> None:
        self.source, self.name = source, name
        self.max_steps, self.max_characters = max_steps, max_characters
        try:
            self._names, self._fields, self._template = _compile(source)
        except (MemoryError, Exception) as error:
            raise self._bad(error, error.lineno if isinstance(error, TemplateSyntaxError) else None) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.source, self.name, self.max_steps, self.max_characters)

    def render(self, *, now: datetime.date | str | None = None, **variables: Any) -> str:
        """Return the text.

        Parameters
        ----------
        now : date, str (ISO 8601) or None
            The date ``strftime_now`` tells. None: `FIXED_DATE`, never the clock.
        **variables : data
            Text, numbers, booleans, None, lists and maps of these. They are copied: a template changes nothing outside.

        Raises
        ------
        BadTemplate
            If the template raises, passes a limit, or a variable is not data.
        """
        return "".join(self._pieces(now, variables, tracing=False)[0])

    def trace(self, *, now: datetime.date | str | None = None, **variables: Any) -> Rendering:
        """Return the same text as `render`, and where each of its characters came from.

        A variable whose name ends in ``_token`` is the template's own text; everything else is data.

        Examples
        --------
        >>> chat = Template("{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}")
        >>> rendering = chat.trace(messages=[{"role": "user", "content": " hi "}])
        >>> [(rendering.text[run.start : run.stop], run.origin and run.origin.field, run.at) for run in rendering.runs]
        [('<', None, 0), ('user', 'role', 0), ('>', None, 0), ('hi', 'content', 1)]
        """
        pieces, frames = self._pieces(now, variables, tracing=True)
        return Rendering("".join(pieces), tuple(runs_of(pieces, frames)))

    def _pieces(self, now: Any, variables: Mapping[str, Any], tracing: bool) -> tuple[list[str], list[int | None]]:
        """Return what the template writes, bit by bit, and whose turn of the loop over messages wrote it."""
        budget = _Budget(self.max_steps, self.max_characters, _moment(now), tracing)
        token = _BUDGET.set(budget)
        pieces: list[str] = []
        frames: list[int | None] = []
        left = self.max_characters
        try:
            given = {name: _given(value, name, tracing) for name, value in variables.items()}
            for piece in self._template.root_render_func(self._template.new_context(given)):
                left -= len(piece)
                if left < 0:
                    raise _Refused(f"gives more than {self.max_characters:,} characters")
                pieces.append(piece)
                frames.append(budget.frame)
        except (MemoryError, Exception) as error:
            raise self._bad(error, self._line(error)) from None
        finally:
            _BUDGET.reset(token)
        return pieces, frames

    def uses(self, name: str) -> bool:
        """Tell whether the template mentions a name: ``tools``, ``strftime_now``, ``add_generation_prompt``.

        Examples
        --------
        >>> Template("{{ strftime_now('%Y') }}").uses("strftime_now")
        True
        """
        return name in self._names

    def reads(self, field: str) -> bool:
        """Tell whether the template looks at a field of something: ``tool_calls``, ``reasoning_content``.

        Examples
        --------
        >>> Template("{{ messages[0].content }}{{ messages[0]['role'] }}").reads("role")
        True
        """
        return field in self._fields

    def ends_alike(self, flag: str, data: Collection[str]) -> bool:
        """Tell whether, once a flag is on, all from where it is asked for to the end is one text, whatever `data` are.

        Parameters
        ----------
        flag : str
            A variable that is always given, True or False: ``add_generation_prompt``.
        data : collection of str
            The variables that change from one rendering to the next: ``messages``.

        Notes
        -----
        It is read off the syntax tree. False means that it is not seen there: the flag is asked for inside a loop, a
        macro or a block, or what is written from there on, or whether it is written, hangs on data, on a name set from
        data or in a loop, or on a call.

        Examples
        --------
        >>> loop = "{% for m in messages %}{{ m }}{% endfor %}"
        >>> Template(loop + "{% if ask %}<a>{{ '<think>' if deep }}{% endif %}").ends_alike("ask", ["messages"])
        True
        >>> Template(loop + "{% if ask %}<a>{{ messages[-1] }}{% endif %}").ends_alike("ask", ["messages"])
        False
        """
        return _ends_alike(self.source, flag, frozenset(data))

    def _line(self, error: BaseException) -> int | None:
        """Return the template's line the error came from: the innermost frame of its compiled code."""
        frame, line = error.__traceback__, None
        while frame is not None:
            if frame.tb_frame.f_globals.get("__jinja_template__") is self._template:
                line = self._template.get_corresponding_lineno(frame.tb_lineno)
            frame = frame.tb_next
        return line

    def _bad(self, error: BaseException, line: int | None) -> BadTemplate:
        where = f"jinja: {self.name}" + (f", line {line}" if line else "")
        return BadTemplate(f"{where}: {_cause(error)}")


def _restore(source: str, name: str, max_steps: int, max_characters: int) -> Template:
    return Template(source, name, max_steps=max_steps, max_characters=max_characters)


@functools.lru_cache(maxsize=64)
def _compile(source: str) -> tuple[frozenset[str], frozenset[str], jinja2.Template]:
    if len(source) > MAX_SOURCE:
        raise _Refused(f"the template has {len(source):,} characters (at most {MAX_SOURCE:,})")
    tree = _ENVIRONMENT.parse(source)
    names = frozenset(node.name for node in tree.find_all(nodes.Name))
    fields = frozenset(node.attr for node in tree.find_all(nodes.Getattr))
    fields |= frozenset(node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str))
    _Guard().visit(tree)
    tree.set_environment(_ENVIRONMENT)
    code = _ENVIRONMENT.compile(tree)
    return names, fields, jinja2.Template.from_code(_ENVIRONMENT, code, dict(_GLOBALS))


@functools.lru_cache(maxsize=64)
def _ends_alike(source: str, flag: str, data: frozenset[str]) -> bool:
    tree = _ENVIRONMENT.parse(source)
    try:
        return _Reader(tree, flag, data).ends_alike(tree.body)
    except RecursionError:
        return False


def _cause(error: BaseException) -> str:
    """Return one line that says what went wrong."""
    if isinstance(error, _Raised):
        return "the template refuses: " + _one_line(str(error))
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, MemoryError):
        return "needs more memory than there is"
    if isinstance(error, TemplateError):
        return _one_line(_plainly(error.message or type(error).__name__))
    if isinstance(error, (_Refused, SyntaxError)):  # Python's own: more loops inside each other than it compiles
        return _one_line(_plainly(str(error.args[0])))
    return f"{type(error).__name__}: {_one_line(_plainly(str(error)))}"


def _plainly(text: str) -> str:
    """Name data by the types it has outside: a `TracedList` is a list."""
    return re.sub(r"(?:prep_lib\.traced\.)?\bTraced(Dict|List|Int|Float|)\b", lambda it: it[1].lower() or "str", text)


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:299] + "…"


def _moment(now: datetime.date | str | None) -> datetime.datetime:
    """Return the time ``strftime_now`` tells: midnight of a date given without a time."""
    if isinstance(now, str):
        try:
            now = datetime.datetime.fromisoformat(now)
        except ValueError:
            raise BadTemplate(f"jinja: now={now!r} is not a date; write it as 2026-01-02") from None
    now = now or FIXED_DATE
    return now if isinstance(now, datetime.datetime) else datetime.datetime.combine(now, datetime.time())


def _given(value: Any, name: str, tracing: bool) -> Any:
    """Return a copy of a variable, with its origins if they are kept; special tokens are the template's own."""
    copy = _plain(value, name)
    return traced(copy, name) if tracing and not name.endswith("_token") else copy


def _plain(value: Any, where: str, depth: int = 0) -> Any:
    """Return a copy made of text, numbers, booleans, None, lists, tuples and dicts only."""
    if value is None or type(value) in _EXACT:
        return value
    if depth > MAX_DEPTH:
        raise _Refused(f"variable {where} is nested more than {MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        return {
            key if type(key) is str else _plain(key, where, depth + 1):
            item if type(item) is str else _plain(item, where, depth + 1)
            for key, item in value.items()
        }  # fmt: skip
    if isinstance(value, (list, tuple)):
        return [_plain(item, where, depth + 1) for item in value]
    for kind, copy in ((str, str.__str__), (int, int), (float, float)):
        if isinstance(value, kind):
            return copy(value)
    if hasattr(value, "tolist"):  # a NumPy number or array, as Parquet rows hold them
        return _plain(value.tolist(), where, depth + 1)
    raise _Refused(f"variable {where} holds a {type(value).__name__}; give text, numbers, lists and maps")


_EXACT = frozenset({str, bool, int, float})

__all__ = ["FIXED_DATE", "MAX_CHARACTERS", "MAX_STEPS", "Template", "tojson"]
