"""The only Jinja environment: sandboxed, limited by counts, text out.

    template source ──parse──▶ tree ──guard──▶ tree with counters ──compile──▶ render(messages=…) ──▶ str
                                      │
                                      ├ each turn of a loop, each call of a macro     1 step        (1,000,000)
                                      ├ each character that leaves the template       1 character   (10,000,000)
                                      └ everything built or read on the way           work          (10 x characters)

A template is data from elsewhere. It may be wrong, and it may be hostile: loops in loops, ``"a" * 10**9``, lists that
hold themselves twice. Every such thing ends as one `BadTemplate` with the template's name, the line and the cause. The
limits are counts, never seconds, so a template that renders here renders everywhere, and the same text.

What chat templates expect is here: ``tojson`` that leaves characters alone, ``raise_exception``, ``strftime_now`` (with
a fixed date), ``break`` and ``continue``, ``{% generation %}``. What costs without bound and serves no chat template is
absent: ``lipsum``, ``include``, ``urlize``, ``pprint`` and their like.
"""

from __future__ import annotations

import datetime
import io
import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache, wraps
from string import Formatter
from typing import Any

import jinja2
import markupsafe
from jinja2 import filters, nodes
from jinja2.exceptions import TemplateError, TemplateSyntaxError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, pass_context, pass_environment
from jinja2.visitor import NodeTransformer

from prep_lib.errors import BadTemplate

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

    def __init__(self, steps: int, characters: int, now: datetime.datetime) -> None:
        self.max_steps, self.max_characters = steps, characters
        self.max_work = MIN_WORK + 10 * characters
        self.steps, self.work, self.depth, self.now = steps, self.max_work, 0, now

    def step(self, weight: int) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise _Refused(f"more than {self.max_steps:,} loop steps")
        self.spend(weight)

    def spend(self, work: int) -> int:
        self.work -= work
        if self.work < 0:
            raise _Refused(f"builds or reads more than {self.max_work:,} characters on the way")
        return work

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
        if isinstance(value, str):
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
        return OBJECT * len(value)
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
    return text


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
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left)
        _check_bits(right)
    elif name in "-//" and not (_is_number(left) and _is_number(right)) and not _has_undefined(left, right):
        raise _Refused(f"{type(left).__name__} {name} {type(right).__name__} is not arithmetic")
    return _BUDGET.get().settle(_BINARY[name](left, right))


def _has_undefined(*values: Any) -> bool:
    return any(isinstance(value, Undefined) for value in values)


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        if len(left) == len(right):
            _BUDGET.get().spend(len(left) >> 4)
    elif not isinstance(left, _SCALARS) and not isinstance(right, _SCALARS):
        _BUDGET.get().deep(left, right)
    return left == right


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


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def ordered(left: Any, right: Any) -> bool:
        if not (_is_number(left) and _is_number(right)):
            _BUDGET.get().deep(left, right)
        return compare(left, right)

    return ordered


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": _equal, "ne": lambda left, right: not _equal(left, right),
    "in": _within, "notin": lambda left, right: not _within(left, right),
    "lt": _ordered(operator.lt), "lteq": _ordered(operator.le),
    "gt": _ordered(operator.gt), "gteq": _ordered(operator.ge),
}  # fmt: skip


# ---------------------------------------------------------------- the guarded tree, and what it calls


# No template can spell these names: an identifier does not begin with a middle dot.


def _tick(weight: int) -> bool:
    _BUDGET.get().step(weight)
    return True


def _compare(left: Any, names: tuple[str, ...], *others: Any) -> bool:
    for name, right in zip(names, others, strict=True):
        if not _COMPARE[name](left, right):
            return False
        left = right
    return True


def _slice(value: Any, start: Any, stop: Any, step: Any) -> Any:
    return _BUDGET.get().settle(value[slice(start, stop, step)])


def _concat(parts: list[Any]) -> str:
    texts = [_text(part) for part in parts]
    _BUDGET.get().spend(sum(map(len, texts)))
    return "".join(texts)


def _key(value: Any) -> Any:
    _BUDGET.get().deep(value)  # a tuple is hashed as a tree
    return value


def _few(value: Any) -> Any:
    if isinstance(value, (str, range)) or _size(value) > MAX_ARGUMENTS:
        raise _Refused(f"only lists and maps of at most {MAX_ARGUMENTS} items can be spread into a call")
    return value


_INTERNAL = {
    "·tick": _tick, "·compare": _compare, "·slice": _slice, "·concat": _concat, "·key": _key, "·few": _few,
}  # fmt: skip


class _Guard(NodeTransformer):
    """Rewrite a parsed template so that what repeats is counted and what builds is paid for."""

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        if isinstance(node, (nodes.For, nodes.Macro, nodes.CallBlock, nodes.Block)):
            weight = _weight(node.body)
            super().generic_visit(node)
            node.body.insert(0, nodes.ExprStmt(_tick_node(node, weight), lineno=node.lineno))
            if isinstance(node, nodes.For) and node.test is not None:
                node.test = nodes.And(_tick_node(node, 1), node.test, lineno=node.lineno)
            return node
        for spread in ("dyn_args", "dyn_kwargs"):
            if getattr(node, spread, None) is not None:
                setattr(node, spread, _call_node("·few", node, getattr(node, spread)))
        return super().generic_visit(node, *args, **kwargs)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
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
        return _call_node("·concat", node, nodes.List(node.nodes, lineno=node.lineno))

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.key = _call_node("·key", node, node.key)
        return node

    def _refuse(self, node: nodes.Node) -> nodes.Node:
        raise TemplateSyntaxError(f"{type(node).__name__.lower()} is not allowed in a chat template", node.lineno)

    visit_Extends = visit_Include = visit_Import = visit_FromImport = _refuse  # noqa: N815
    visit_ScopedEvalContextModifier = visit_EvalContextModifier = _refuse  # noqa: N815


def _call_node(name: str, at: nodes.Node, value: nodes.Expr, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(value, name, list(args), [], None, None, lineno=at.lineno)


def _tick_node(at: nodes.Node, weight: int) -> nodes.Filter:
    return _call_node("·tick", at, nodes.Const(weight, lineno=at.lineno))


def _weight(body: Iterable[nodes.Node]) -> int:
    """Return what one pass through `body` costs: its nodes and literal characters, inner loops and macros apart."""
    total, todo = 0, list(body)
    while todo:
        node = todo.pop()
        total += 1 + (len(node.data) if isinstance(node, nodes.TemplateData) else 0)
        if not isinstance(node, (nodes.For, nodes.Macro, nodes.CallBlock, nodes.Block)):
            todo.extend(node.iter_child_nodes())
    return total


class _Generation(Extension):
    """``{% generation %} … {% endgeneration %}``: marks the answer; its body is rendered, its names stay inside."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


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
    return len(text) + text.count(old) * len(new)


def _split_cost(text: str, sep: str | None = None, *_: Any, **__: Any) -> int:
    return OBJECT * len(text) if sep is None else len(text) + OBJECT * 4 * (text.count(sep) + 1)


def _lines_cost(text: str, *_: Any, **__: Any) -> int:
    return OBJECT * len(text)


def _join_cost(text: str, parts: Iterable[Any]) -> int:
    return len(text) * _size(parts)


class _Format(Formatter):
    """``"{}".format(…)`` whose widths are small and whose names reach only what the sandbox gives."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
        first, rest = field_name.split(".", 1)[0].split("[", 1)[0], re.split(r"[.\[]", field_name, maxsplit=1)[1:]
        if rest:
            raise _Refused(f"format reaches into {field_name[:40]!r}; write the expression outside the text")
        return self.get_value(int(first) if first.isdigit() and len(first) < 6 else first, args, kwargs), first

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
    **dict.fromkeys(("split", "rsplit", "partition", "rpartition"), _split_cost),
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


def _allowed(value: Any, attribute: str) -> bool:
    if isinstance(value, Namespace):
        return not attribute.startswith("_")
    if isinstance(value, tuple) and attribute in ("grouper", "list"):
        return hasattr(value, "_fields")  # what groupby gives
    for kind, names in ((LoopContext, _LOOP), (Macro, _MACRO), *_METHODS):
        if isinstance(value, kind):
            return attribute in names
    return False


def _method(function: Any) -> tuple[Any, Cost | None]:
    owner = getattr(function, "__self__", None)
    for kind, costs in _METHODS:
        if isinstance(owner, kind):
            return owner, costs.get(function.__name__)
    return None, None


# ---------------------------------------------------------------- filters


def _free(*_: Any, **__: Any) -> None:
    """Cost nothing: the filter looks at one place and builds nothing."""


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
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys, default=_not_json
    )


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
    "first": (filters.do_first, _free), "float": (filters.do_float, _deep), "forceescape": (_escape, _free),
    "format": (_format_filter, _free), "groupby": (filters.do_groupby, _sorting),
    "indent": (filters.do_indent, _indent), "int": (filters.do_int, _deep), "items": (filters.do_items, _each),
    "join": (filters.do_join, _join), "last": (filters.do_last, _free), "length": (len, _free),
    "list": (filters.do_list, _each), "lower": (filters.do_lower, _string), "map": (filters.do_map, _each),
    "max": (filters.do_max, _sorting), "min": (filters.do_min, _sorting), "reject": (filters.do_reject, _each),
    "rejectattr": (filters.do_rejectattr, _each), "replace": (filters.do_replace, _replace),
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
    "boolean", "callable", "defined", "escaped", "false", "filter", "float", "integer", "iterable", "mapping", "none",
    "number", "sameas", "sequence", "string", "test", "true", "undefined",
)  # fmt: skip
_COMPARING_TESTS = {
    "==": "eq", "eq": "eq", "equalto": "eq", "!=": "ne", "ne": "ne", "in": "in",
    "<": "lt", "lt": "lt", "lessthan": "lt", "<=": "lteq", "le": "lteq",
    ">": "gt", "gt": "gt", "greaterthan": "gt", ">=": "gteq", "ge": "gteq",
}  # fmt: skip


def _paid(function: Callable[..., Any], cost: Callable[..., None]) -> Callable[..., Any]:
    """Return `function` that pays before it runs and for what it gives; Jinja's own first arguments are passed by."""
    hidden = (jinja2.Environment, nodes.EvalContext, Context)

    @wraps(function)
    def paid(*args: Any, **kwargs: Any) -> Any:
        cost(*args[1:] if args and isinstance(args[0], hidden) else args, **kwargs)
        return _BUDGET.get().settle(function(*args, **kwargs))

    return paid


# ---------------------------------------------------------------- globals and the environment


class _Namespace(Namespace):
    """``namespace(found=false)``: what a loop may write to."""


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
    text = _text(value)
    _BUDGET.get().spend(NODE + len(text))
    return text


class _Environment(ImmutableSandboxedEnvironment):
    """Jinja with an allow list in place of a deny list."""

    intercepted_binops = frozenset(_BINARY)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return _allowed(obj, attr)

    def is_safe_callable(self, obj: Any) -> bool:
        if isinstance(obj, (Undefined, Macro, BlockReference, LoopContext)) or obj in _GLOBALS.values():
            return True
        return _method(obj)[1] is not None or isinstance(getattr(obj, "__self__", None), LoopContext)

    def getattr(self, obj: Any, attribute: str) -> Any:
        try:
            value = getattr(obj, attribute)
        except AttributeError:
            return self._item(obj, attribute)
        return value if _allowed(obj, attribute) else self.unsafe_undefined(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if not isinstance(argument, _SCALARS):
            _BUDGET.get().deep(argument)
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
        if not __self.is_safe_callable(__obj):
            raise _Refused("only macros, the listed functions and plain methods of text, lists and maps can be called")
        budget = _BUDGET.get()
        budget.depth += 1
        if budget.depth > MAX_DEPTH:
            raise _Refused(f"macros or loops call themselves more than {MAX_DEPTH} deep")
        try:
            given = {name: value for name, value in kwargs.items() if name not in _HIDDEN}
            return __self._call(budget, __context, __obj, args, given)
        finally:
            budget.depth -= 1

    def _call(self, budget: _Budget, context: Context, function: Any, args: Any, kwargs: Any) -> Any:
        owner, cost = _method(function)
        budget.spend(SLOT * (len(args) + len(kwargs)))
        if cost is not None:
            budget.deep(*args, *kwargs.values())
            budget.spend(cost(owner, *args, **kwargs))
            if owner.__class__ is str and function.__name__ == "format":
                return _Format().vformat(owner, args, kwargs)
        elif isinstance(getattr(function, "__self__", None), LoopContext):
            budget.deep(*args)  # loop.changed compares
        return budget.settle(context.call(function, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        return _binary(operator, left, right)


def _environment() -> _Environment:
    # Never optimized: constants are folded while a template is compiled, before anything is counted.
    environment = _Environment(
        trim_blocks=True, lstrip_blocks=True, optimized=False, finalize=_print,
        extensions=[LoopControlExtension, _Generation],
    )  # fmt: skip
    comparing = {test: _COMPARE[name] for test, name in _COMPARING_TESTS.items()}
    given: Any = environment.tests
    environment.tests = {
        name: comparing.get(name) or _paid(test, _free if name in _FREE_TESTS else _deep)
        for name, test in given.items()
    }
    environment.filters = {name: _paid(*pair) for name, pair in _FILTERS.items()} | _INTERNAL
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
            self._names, self._template = _compile(source)
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
        budget = _Budget(self.max_steps, self.max_characters, _moment(now))
        token = _BUDGET.set(budget)
        try:
            return self._run({name: _plain(value, name) for name, value in variables.items()})
        except (MemoryError, Exception) as error:
            raise self._bad(error, self._line(error)) from None
        finally:
            _BUDGET.reset(token)

    def _run(self, variables: dict[str, Any]) -> str:
        text, left = io.StringIO(), self.max_characters
        for piece in self._template.root_render_func(self._template.new_context(variables)):
            left -= len(piece)
            if left < 0:
                raise _Refused(f"gives more than {self.max_characters:,} characters")
            text.write(piece)
        return text.getvalue()

    def uses(self, name: str) -> bool:
        """Tell whether the template mentions a name: ``tools``, ``strftime_now``, ``add_generation_prompt``.

        Examples
        --------
        >>> Template("{{ strftime_now('%Y') }}").uses("strftime_now")
        True
        """
        return name in self._names

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


@lru_cache(maxsize=64)
def _compile(source: str) -> tuple[frozenset[str], jinja2.Template]:
    if len(source) > MAX_SOURCE:
        raise _Refused(f"the template has {len(source):,} characters (at most {MAX_SOURCE:,})")
    tree = _ENVIRONMENT.parse(source)
    names = frozenset(node.name for node in tree.find_all(nodes.Name))
    _Guard().visit(tree)
    tree.set_environment(_ENVIRONMENT)
    code = _ENVIRONMENT.compile(tree)
    return names, jinja2.Template.from_code(_ENVIRONMENT, code, _ENVIRONMENT.make_globals(None))


def _cause(error: BaseException) -> str:
    """Return one line that says what went wrong."""
    if isinstance(error, _Raised):
        return "the template refuses: " + _one_line(str(error))
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, MemoryError):
        return "needs more memory than there is"
    if isinstance(error, TemplateError):
        return _one_line(error.message or type(error).__name__)
    if isinstance(error, (_Refused, SyntaxError)):  # Python's own: more loops inside each other than it compiles
        return _one_line(str(error.args[0]))
    return f"{type(error).__name__}: {_one_line(str(error))}"


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


def _plain(value: Any, where: str, depth: int = 0) -> Any:
    """Return a copy made of text, numbers, booleans, None, lists, tuples and dicts only."""
    if value is None or type(value) in (str, bool, int, float):
        return value
    if depth > MAX_DEPTH:
        raise _Refused(f"variable {where} is nested more than {MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        return {_plain(key, where, depth + 1): _plain(item, where, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, where, depth + 1) for item in value]
    for kind, copy in ((str, str.__str__), (int, int), (float, float)):
        if isinstance(value, kind):
            return copy(value)
    if hasattr(value, "tolist"):  # a NumPy number or array, as Parquet rows hold them
        return _plain(value.tolist(), where, depth + 1)
    raise _Refused(f"variable {where} holds a {type(value).__name__}; give text, numbers, lists and maps")


__all__ = ["FIXED_DATE", "MAX_CHARACTERS", "MAX_STEPS", "Template", "tojson"]
