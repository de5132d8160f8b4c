"""One tree, one line, and every error survives the way from a worker."""

from __future__ import annotations

import copy
import inspect
import pickle
import sys

import pytest

from prep_lib import errors
from prep_lib.errors import BadParameter, BadRecord, PrepError, last_traceback, unknown

CLASSES = [item for _, item in inspect.getmembers(errors, inspect.isclass) if issubclass(item, PrepError)]


def made(kind: type[PrepError]) -> PrepError:
    return kind("cut_stream", "part.gz ends early") if "__init__" in vars(kind) else kind("a: b")


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn, above = {}, {}
    for line in (errors.__doc__ or "").splitlines():
        name = line.replace("│", " ").replace("├──", "   ").replace("└──", "   ")
        word = name.split()[0] if name.split() else ""
        if isinstance(getattr(errors, word, None), type):
            depth = name.index(word)
            above = {at: parent for at, parent in above.items() if at < depth} | {depth: word}
            drawn[word] = above[max((at for at in above if at < depth), default=depth)]
    assert drawn == {
        kind.__name__: kind.__mro__[1].__name__ if kind is not PrepError else "PrepError" for kind in CLASSES
    }


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_comes_back_from_a_worker_whole(kind: type[PrepError]) -> None:
    error = made(kind)
    error.add_note("in task 3")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert str(again) == str(error)
        assert vars(again) == vars(error)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_notebook_shows_one_line_and_where_the_rest_is(kind: type[PrepError]) -> None:
    shown = made(kind)._render_traceback_()
    assert shown[0] == f"{kind.__name__}: {made(kind)}"
    assert "last_traceback()" in shown[1]
    assert len(shown) == 2


def test_a_bad_record_says_its_reason_and_perhaps_more() -> None:
    assert str(BadRecord("invalid_utf8")) == "invalid_utf8"
    error = BadRecord("bad_json", "a.jsonl#L3")
    assert (error.reason, error.detail, str(error)) == ("bad_json", "a.jsonl#L3", "bad_json: a.jsonl#L3")


def test_python_catches_bad_values_as_value_errors() -> None:
    with pytest.raises(ValueError, match="unknown colour 'rot'; known: green, red"):
        raise unknown("example", "colour", "rot", ["red", "green"])
    assert issubclass(BadParameter, ValueError)


def test_the_nearest_name_is_offered_only_when_it_is_near() -> None:
    assert "did you mean 'alpaca'?" in str(unknown("x", "y", "alpacca", ["chatml", "alpaca"]))
    assert "did you mean" not in str(unknown("x", "y", "zzz", ["chatml", "alpaca"]))
    assert str(unknown("x", "y", "z", [])) == "x: unknown y 'z'; known: none"


def test_the_last_traceback_is_printed_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(sys, "last_value", raising=False)
    last_traceback()
    assert capsys.readouterr().out == "no error yet\n"
    try:
        raise BadParameter("a: b")
    except BadParameter as error:
        monkeypatch.setattr(sys, "last_value", error, raising=False)
    last_traceback()
    shown = capsys.readouterr().err
    assert "test_errors.py" in shown
    assert "BadParameter: a: b" in shown
