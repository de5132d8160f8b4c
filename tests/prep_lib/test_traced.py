"""A traced text is a plain text in every respect, and each of its characters is where it says it is."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.traced import (
    Origin,
    Run,
    Traced,
    TracedDict,
    TracedList,
    concat,
    generated,
    json_text,
    origin_of,
    rewritten,
    runs_of,
    spans_of,
    spelled,
    traced,
)

#: Letters that grow when their case changes, blanks of many kinds, astral and combining characters, and few enough
#: others that separators are found.
LETTERS = 'ab  \n\t\r\x0b\x1c\u2028,.ßŉİǅΣé你👩\u0301%{}"\\\x01\x7f'
PIECE = st.text(LETTERS, max_size=6)
#: A field's text and the piece of it that was taken: spans with positions, next to what the template wrote.
PARTS = st.lists(st.tuples(st.booleans(), st.text(LETTERS, max_size=8), st.integers(0, 3)), max_size=5)
MANY = settings(max_examples=150, deadline=None)


def made_of(parts: list[tuple[bool, str, int]]) -> tuple[Traced, dict[str, str]]:
    """Return a text from slices of fields and literals, and the fields."""
    fields = {f"f{at}": text for at, (ours, text, _) in enumerate(parts) if ours}
    pieces = [traced(text, f"f{at}", 0)[cut:] if ours else text for at, (ours, text, cut) in enumerate(parts)]
    return concat([Traced(""), *pieces]), fields


TEXTS = PARTS.map(made_of)


def check(found: Any, plain: str, fields: dict[str, str]) -> None:
    """The law: same text; spans as long as the text, none empty; what has a position stands there in its field."""
    assert str.__eq__(found, plain)
    spans = spans_of(found)
    assert sum(span[0] for span in spans) == len(plain)
    here = 0
    for size, origin, at, _ in spans:
        assert size > 0
        if origin is not None and at >= 0:
            assert fields[origin.field][at : at + size] == plain[here : here + size]
        here += size


def check_all(found: Any, plain: Any, fields: dict[str, str]) -> None:
    assert len(found) == len(plain)
    for one, other in zip(found, plain, strict=True):
        assert type(one) is Traced
        check(one, other, fields)


@given(TEXTS, st.integers(-9, 9), st.integers(-9, 9), st.sampled_from([1, 2, -1, -3]))
@MANY
def test_slices(made: tuple[Traced, dict[str, str]], start: int, stop: int, step: int) -> None:
    text, fields = made
    plain = str.__str__(text)
    check(text, plain, fields)
    check(text[start:stop:step], plain[start:stop:step], fields)
    check(text[start:], plain[start:], fields)
    check_all(list(text), list(plain), fields)
    if plain:
        check(text[start % len(plain)], plain[start % len(plain)], fields)
        check(text[-1], plain[-1], fields)
    with pytest.raises(IndexError):
        text[len(plain)]


@given(TEXTS, st.sampled_from([None, " ", "a", ",.", "a\n ", "\u2028"]))
@MANY
def test_strips_and_affixes(made: tuple[Traced, dict[str, str]], chars: str | None) -> None:
    text, fields = made
    plain = str.__str__(text)
    for name in ("strip", "lstrip", "rstrip"):
        check(getattr(text, name)(chars), getattr(plain, name)(chars), fields)
    for name in ("removeprefix", "removesuffix"):
        for affix in ("", chars or "b", plain[:2], plain[-2:]):
            check(getattr(text, name)(affix), getattr(plain, name)(affix), fields)


@given(TEXTS, st.sampled_from([None, " ", "a", "ab", ", ", "\n", "aa"]), st.sampled_from([-1, 0, 1, 2]))
@MANY
def test_splits(made: tuple[Traced, dict[str, str]], sep: str | None, most: int) -> None:
    text, fields = made
    plain = str.__str__(text)
    check_all(text.split(sep, most), plain.split(sep, most), fields)
    check_all(text.rsplit(sep, most), plain.rsplit(sep, most), fields)
    for keep in (False, True):
        check_all(text.splitlines(keep), plain.splitlines(keep), fields)
    if sep:
        check_all(text.partition(sep), plain.partition(sep), fields)
        check_all(text.rpartition(sep), plain.rpartition(sep), fields)


@given(TEXTS, TEXTS, st.integers(-1, 4))
@MANY
def test_sums_products_and_joins(one: Any, two: Any, times: int) -> None:
    (text, fields), (other, more) = one, two
    both = {**fields, **{name: fields.get(name, item) for name, item in more.items()}}
    other = concat([Traced(""), *(traced(item, name, 0) for name, item in both.items())])
    plain, second = str.__str__(text), str.__str__(other)
    check(text + other, plain + second, both)
    check(text + "x", plain + "x", both)
    check("x" + text, "x" + plain, both)
    check(text * times, plain * times, both)
    check(times * text, plain * times, both)
    check(text.join([other, "x", text]), plain.join([second, "x", plain]), both)
    check(text.join([]), "", both)
    check(text.join(iter([other])), second, both)
    check(Traced(", ").join(other), ", ".join(second), both)


@given(TEXTS, PIECE, TEXTS, st.sampled_from([-1, 0, 1, 2]))
@MANY
def test_replace(made: Any, old: str, new: Any, count: int) -> None:
    (text, fields), plain = made, str.__str__(made[0])
    inserted = traced(str.__str__(new[0]), "new", 0)
    fields = {**fields, "new": str.__str__(inserted)}
    for wanted in (old, "a", " ", plain[1:2]):
        check(text.replace(wanted, inserted, count), plain.replace(wanted, str(inserted), count), fields)
        check(text.replace(wanted, "x"), plain.replace(wanted, "x"), fields)


@given(TEXTS, st.integers(0, 30), st.sampled_from([" ", "*", "a"]))
@MANY
def test_what_is_rewritten_keeps_its_field(made: tuple[Traced, dict[str, str]], width: int, fill: str) -> None:
    text, fields = made
    plain = str.__str__(text)
    for name in ("lower", "upper", "title", "capitalize", "swapcase", "casefold", "expandtabs"):
        check(getattr(text, name)(), getattr(plain, name)(), fields)
    for name in ("center", "ljust", "rjust"):
        check(getattr(text, name)(width, fill), getattr(plain, name)(width, fill), fields)
    check(text.zfill(width), plain.zfill(width), fields)
    check(text.translate({97: "xyz"}), plain.translate({97: "xyz"}), fields)


def test_a_letter_that_changes_loses_its_position_and_its_neighbours_keep_theirs() -> None:
    text = traced("ab", "x") + traced("CD", "y")
    assert [span[2] for span in text.upper().spans] == [-1, 0]
    assert traced("ß", "x").upper().spans == ((2, Origin(None, "x"), -1, False),)


@given(TEXTS, st.one_of(PIECE, st.integers(), st.floats(allow_nan=False)))
@MANY
def test_percent_and_format(made: tuple[Traced, dict[str, str]], other: Any) -> None:
    text, fields = made
    plain = str.__str__(text)
    for pattern in ("<%s|%s>", "%-9s|%r", "%%%s%s", "%.2s %s", "%s%s%%"):
        check(Traced(pattern) % (text, other), pattern % (plain, other), fields)
    check(Traced("[%s]") % text, f"[{plain}]", fields)
    check(Traced("%(a)s-%(b)5s%(a)s") % {"a": text, "b": other}, "%(a)s-%(b)5s%(a)s" % {"a": plain, "b": other}, fields)  # noqa: UP031
    check(Traced("{}-{b!r}").format(text, b=other), "{}-{b!r}".format(plain, b=other), fields)  # noqa: UP032
    check(Traced("{a}").format_map({"a": text}), plain, fields)
    with pytest.raises(TypeError, match="not enough arguments"):
        Traced("%s %s") % text


def test_percent_keeps_the_position_of_a_plain_field() -> None:
    found = Traced("<%s> %d%5s") % (traced(" hi", "x")[1:], traced(7, "n"), traced("a", "y"))
    assert found == "<hi> 7    a"
    assert found.spans == (
        (1, None, 0, False),
        (2, Origin(None, "x"), 1, False),
        (2, None, 0, False),
        (1, Origin(None, "n"), -1, False),
        (5, Origin(None, "y"), -1, False),
    )


def test_it_is_a_text_in_every_respect() -> None:
    text = traced("abc", "x", 1)
    assert text == "abc"
    assert "abc" == text  # noqa: SIM300
    assert hash(text) == hash("abc")
    assert {"abc": 1}[text] == 1
    assert f"{text}" == "abc"
    assert json.dumps(text) == '"abc"'
    assert sorted([text, "abb"]) == ["abb", text]
    assert str(text) is text
    again = pickle.loads(pickle.dumps(text))
    assert (type(again), again, again.spans) == (Traced, text, text.spans)
    with pytest.raises(TypeError):
        text + 1


# ---------------------------------------------------------------- data

DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(LETTERS, max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(LETTERS, max_size=4), inner, max_size=4),
    max_leaves=12,
)


def leaves(value: Any, name: str) -> dict[str, str]:
    """Return field -> text of all texts in plain data."""
    if isinstance(value, str):
        return {name: value}
    inside: Any = {}
    if isinstance(value, dict):
        inside = {f"{name}.{key}": item for key, item in value.items()}
    elif isinstance(value, list):
        inside = {f"{name}[{at}]": item for at, item in enumerate(value)}
    return {field: text for path, item in inside.items() for field, text in leaves(item, path).items()}


def unambiguous(value: Any) -> bool:
    """Keys with dots could spell the name of another field; the law needs names that tell fields apart."""
    if isinstance(value, dict):
        return all(not set(key) & set(".[]") and unambiguous(item) for key, item in value.items())
    return all(map(unambiguous, value)) if isinstance(value, list) else True


JSON_OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "ensure_ascii": st.booleans(),
        "indent": st.sampled_from([None, 0, 1, 4, "\t", ""]),
        "separators": st.sampled_from([None, (",", ":"), (" , ", " : ")]),
        "sort_keys": st.booleans(),
    },
)


@given(DATA.filter(unambiguous), JSON_OPTIONS)
@settings(max_examples=300, deadline=None)
def test_json_keeps_every_position(value: Any, options: dict[str, Any]) -> None:
    options = {"ensure_ascii": False, **options}
    known = traced(value, "v", 3)
    plain = json.dumps(value, **options)
    assert json.dumps(known, **options) == plain
    found = json_text(known, plain, **options)
    if value is None or isinstance(value, bool) or value == "":
        assert type(found) is str  # nothing there can carry an origin
        return
    check(found, plain, leaves(value, "v"))
    assert all(span[1] is not None and span[1].message == 3 for span in found.spans)


@given(DATA.filter(unambiguous), st.sampled_from([False, True]), JSON_OPTIONS)
@MANY
def test_json_of_what_a_template_puts_around_data(value: Any, flag: bool, options: dict[str, Any]) -> None:
    options = {"ensure_ascii": False, **options}
    known = {"z": [1, traced(value, "v")], "a": "text", "b": None, "k": generated("in") if flag else "in"}
    plain = json.dumps(known, **options)
    check(json_text(known, plain, **options), plain, leaves(value, "v"))


def test_json_of_keys_that_are_no_text_is_told_as_a_whole() -> None:
    value = {1: traced("a", "x"), None: 2, 2.5: 3}
    plain = json.dumps(value)
    check(json_text(value, plain), plain, {"x": "a"})
    value = {"b": traced("a", "x"), 1: 2}
    assert json_text(value, plain, sort_keys=True).spans == ((len(plain), Origin(None, "x"), -1, False),)


def test_json_pays_before_it_makes_spans() -> None:
    value = traced(['"' * 1000], "x")
    paid: list[int] = []
    found = json_text(value, json.dumps(value), paid.append)
    assert sum(paid) >= len(found.spans)
    with pytest.raises(ZeroDivisionError):
        json_text(value, json.dumps(value), lambda _: 1 / 0)


def test_data_gets_its_origins_and_messages_their_numbers() -> None:
    chat = traced(
        [{"role": "user", "content": "hi", "tool_calls": [{"n": [2, 0.5, True, None, ""]}]}, "odd"], "messages"
    )
    assert chat[0]["content"].spans == ((2, Origin(0, "content"), 0, False),)
    assert chat[0].origin == Origin(0, "")
    assert chat[1].spans == ((3, Origin(1, "message"), 0, False),)
    inside = chat[0]["tool_calls"][0]
    assert (type(inside), inside.origin) == (TracedDict, Origin(0, "tool_calls[0]"))
    assert next(iter(inside)).spans == ((1, Origin(0, "tool_calls[0].n"), -1, False),)
    numbers = inside["n"]
    assert type(numbers) is TracedList
    assert [origin_of(item) for item in numbers] == [
        Origin(0, "tool_calls[0].n[0]"), Origin(0, "tool_calls[0].n[1]"), None, None, None,
    ]  # fmt: skip
    assert numbers == [2, 0.5, True, None, ""]
    assert numbers[2] is True


def test_an_origin_is_looked_for_in_bounded_time() -> None:
    x = traced("a", "x")
    assert origin_of({"k": (1, [2, x])}) == Origin(None, "x")
    assert origin_of({x: 1}) == Origin(None, "x")
    assert origin_of(["a", 1, None]) is None
    tree: list[Any] = [1]
    for _ in range(200):
        tree = [tree, tree]
    assert origin_of(tree) is None
    assert origin_of([0] * 10**6) is None


def test_rewritten_takes_the_first_field_and_keeps_the_mark() -> None:
    assert type(rewritten("text", "plain", 3)) is str
    assert rewritten("text", "plain", traced("a", "x"), traced("b", "y")).spans == ((4, Origin(None, "x"), -1, False),)
    assert rewritten("text", generated("a")).spans == ((4, None, 0, True),)
    assert rewritten("", traced("a", "x")).spans == ()
    text = traced("3", "n")
    assert spelled(text, text) is text


@given(TEXTS)
@MANY
def test_generated_marks_all(made: tuple[Traced, dict[str, str]]) -> None:
    text = generated(made[0])
    check(text, str.__str__(made[0]), made[1])
    assert all(span[3] for span in text.spans)


@given(st.lists(st.tuples(TEXTS, st.sampled_from([None, 0, 1]), st.booleans()), max_size=5))
@MANY
def test_runs_cover_the_text_and_join_what_belongs_together(pieces: list[Any]) -> None:
    texts = [generated(text) if flag else text for (text, _), _, flag in pieces]
    runs = runs_of(texts, [frame for _, frame, _ in pieces])
    assert [run.start for run in runs] == [0, *(run.stop for run in runs)][: len(runs)]
    assert sum(run.stop - run.start for run in runs) == sum(map(len, texts))
    marks = [(o, f, g) for t, (_, f, _) in zip(texts, pieces, strict=True) for n, o, _, g in t.spans for _ in range(n)]
    assert marks == [(run.origin, run.frame, run.generated) for run in runs for _ in range(run.start, run.stop)]


def test_a_run_goes_on_only_where_its_field_goes_on() -> None:
    text = traced("abcdef", "x")
    origin = Origin(None, "x")
    assert runs_of([text[:2], text[2:4]], [None, None]) == [Run(0, 4, origin, 0, None, False)]
    assert runs_of([text[:2], text[3:4]], [None, None]) == [
        Run(0, 2, origin, 0, None, False), Run(2, 3, origin, 3, None, False),
    ]  # fmt: skip
    assert len(runs_of([text[:2], text[2:4]], [None, 0])) == 2
    assert len(runs_of([text.upper(), text.upper()], [0, 0])) == 1
    assert len(runs_of([text.upper(), text], [0, 0])) == 2
    assert len(runs_of([text, text.upper()], [0, 0])) == 2
    assert runs_of(["", Traced("")], [0, 1]) == []
