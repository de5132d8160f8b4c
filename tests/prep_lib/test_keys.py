"""The key of a task changes when its bytes may change, and not when only words about it do."""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import logging
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from prep_lib import keys
from prep_lib.errors import BadParameter
from prep_lib.keys import changed, code_digest, function_digest, make_key
from prep_lib.record import Drop


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Three files of a user's: a -> b, and one inside a package that c names from within."""
    monkeypatch.syspath_prepend(tmp_path)
    texts = {
        "toy_a.py": "import toy_b\nfrom toy_room import inner\n",
        "toy_b.py": '"""Words."""\nimport numpy\n\ndef f(x):\n    """More words."""\n    return x + 1\n',
        "toy_room/__init__.py": "",
        "toy_room/inner.py": "from . import other\nfrom .other import g\n",
        "toy_room/other.py": "def g():\n    return 1\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("toy_")]:
        del sys.modules[name]
    keys._digest_source.cache_clear()


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    keys._digest_source.cache_clear()


# Keys


def test_a_key_names_what_changed():
    old = make_key(inputs=["a"], parameters={"n": 1}, modules=["prep_lib.special"], packages=["numpy"])
    assert changed(old, old) == []
    assert changed(
        old, make_key(inputs=["b"], parameters={"n": 1}, modules=["prep_lib.special"], packages=["numpy"])
    ) == ["inputs"]
    new = old | {"code": {"prep_lib.special": "other"}, "versions": {}}
    assert changed(old, new) == ["code of prep_lib.special", "versions of numpy"]


def test_the_order_of_names_does_not_count_and_every_value_does():
    assert make_key(parameters={"a": 1, "b": 2}) == make_key(parameters={"b": 2, "a": 1})
    assert make_key(parameters={"path": Path("x"), "n": np.int64(1), "s": {"b", "a"}}) == make_key(
        parameters={"path": "x", "n": 1, "s": ["a", "b"]}
    )
    values = [None, 0, 1, 0.5, "", "1", [], [1], {}, True, "\udcff"]
    assert len({make_key(parameters=[value])["parameters"] for value in values}) == len(values)


def test_a_value_without_exact_text_is_refused_because_two_would_look_the_same():
    with pytest.raises(BadParameter, match="keys: a ndarray has no exact text to tell it by; give a digest"):
        make_key(parameters={"table": np.zeros(10_000)})


# Modules


def test_code_follows_imports_of_the_users_and_not_of_installed_modules(package):
    assert sorted(code_digest("toy_a")) == ["toy_a", "toy_b", "toy_room.inner", "toy_room.other"]


def test_words_keep_the_digest_and_code_changes_it(package):
    before = code_digest("toy_a")
    edit(package / "toy_b.py", '"""More words."""', '"""Other words."""  # and a comment')
    edit(package / "toy_b.py", "x + 1", "(x\n        +  1)")
    assert code_digest("toy_a") == before
    edit(package / "toy_room" / "other.py", "return 1", "return 2")
    assert changed({"code": before}, {"code": code_digest("toy_a")}) == ["code of toy_room.other"]


def test_nothing_is_imported_to_find_the_code(package):
    edit(package / "toy_b.py", "import numpy\n", "raise RuntimeError('imported')\n")
    assert "toy_b" in code_digest("toy_a")
    assert "toy_b" not in sys.modules
    code = (
        "import sys; from prep_lib.keys import code_digest; code_digest('prep_lib.files'); print('isal' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_the_front_door_leads_to_every_room(package):
    edit(package / "toy_b.py", "import numpy\n", "from prep_lib import Drop\n")
    assert {"prep_lib.record", "prep_lib.engine", "toy_b"} <= code_digest("toy_b").keys()
    assert "prep_lib.engine" not in code_digest("prep_lib.seeds")


def test_what_is_known_of_a_module_is_kept_until_its_file_changes(package, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(keys, "SETTLED", -1)
    made, digest = [], keys._digest_text
    monkeypatch.setattr(keys, "_digest_text", lambda name, path: made.append(name) or digest(name, path))

    def anew() -> dict[str, str]:
        keys._known.cache_clear()
        keys._digest_source.cache_clear()
        made.clear()
        return code_digest("toy_a")

    try:
        before = anew()
        assert sorted(made) == sorted(before)
        assert anew() == before
        assert made == []
        path = package / "toy_b.py"
        about = path.stat()
        edit(path, "x + 1", "x + 2")
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
        assert changed({"code": before}, {"code": anew()}) == ["code of toy_b"]
        assert made == ["toy_b"], "size and time of change are as before, and yet it is read"
        keys._known().file.write_text("harmed")
        assert anew() == code_digest("toy_a")
        assert sorted(made) == sorted(before)
        assert [found.suffix for found in keys._known().file.parent.glob("*") if found.is_file()] == [".json"]
    finally:
        keys._known.cache_clear()


def test_a_file_written_just_now_is_not_remembered(package, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    keys._known.cache_clear()
    try:
        assert code_digest("toy_a")
        assert keys._known().modules == {}
    finally:
        keys._known.cache_clear()


def test_the_same_in_another_process():
    code = "import sys; sys.path[:0] = [sys.argv[1]]\nfrom prep_lib.keys import *\nprint(code_digest('prep_lib.keys'))"
    ran = subprocess.run([sys.executable, "-c", code, ""], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == str(code_digest("prep_lib.keys"))


# Functions


def define(text, name="f", **values):
    """A function as a notebook makes one: its text is in no file."""
    space = {"__name__": "__main__", **values}
    exec(compile(text, "<cell>", "exec", dont_inherit=True), space)
    return space[name]


def digests(text, *spaces):
    return [function_digest(define(text, **space)) for space in spaces]


def test_words_about_a_function_do_not_count():
    bare = "def f(x):\n    return [y + 1 for y in x]\n"
    told = 'def f(x):\n    """Words."""\n\n    # why\n    return [\n        y + 1 for y in x]\n'
    other = told.replace("Words", "Other words")
    more = "def f(x):\n    return [y + 2 for y in x]\n"
    first, second, third, fourth = (function_digest(define(text)) for text in (bare, told, other, more))
    assert second == third
    assert first != fourth
    assert first == second or sys.version_info >= (3, 13)


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        ("def f(x): return x + K", {"K": 1}, {"K": 2}),
        ("def f(x): return [x + K for _ in x]", {"K": 1}, {"K": 2}),
        ("def f(x): return (lambda: K)()", {"K": "a"}, {"K": "b"}),
        ("def f(x=K): return x", {"K": 1}, {"K": 2}),
        ("def f(*, x=K): return x", {"K": 1}, {"K": 2}),
        ("def f(x):\n  class C:\n    k = K\n  return C", {"K": 1}, {"K": 2}),
        ("def make():\n  k = K\n  return lambda x: x + k\nf = make()", {"K": 1}, {"K": 2}),
        ("def g(): return K\ndef f(x): return g()", {"K": 1}, {"K": 2}),
        ("import functools\nf = functools.partial(max, K)", {"K": 1}, {"K": 2}),
        ("def f(x): return K", {"K": np.zeros(3)}, {"K": np.ones(3)}),
        ("def f(x): return K", {"K": np.zeros(3)}, {"K": np.zeros(3, "int32")}),
        ("def f(x): return K", {"K": {"a": 1, "b": 2}}, {"K": {"b": 2, "a": 1}}),
        ("def f(x): return K.sub('', x)", {"K": re.compile("a")}, {"K": re.compile("a", re.I)}),
        ("def f(x): return K", {"K": Drop("a")}, {"K": Drop("b")}),
        ("def f(x): return K", {"K": np}, {"K": re}),
        ("def f(x): return K(x)", {"K": len}, {"K": sum}),
        ("class C:\n  k = K\n  def f(self): return 1\nf = C().f\nf = C.f", {"K": 1}, {"K": 1.0}),
    ],
)
def test_every_value_a_function_uses_counts(text, one, other):
    first, again, second = digests(text, one, one, other)
    if "C.f" in text:  # the class is not part of its own plain function
        assert first == again == second
    else:
        assert None not in (first, second)
        assert first == again != second


def test_a_method_counts_its_class():
    text = "class C:\n  k = K\n  @classmethod\n  def g(cls, x): return cls.k\nf = C.g"
    first, again, second = digests(text, {"K": 1}, {"K": 1}, {"K": 2})
    assert first == again != second


def test_two_lambdas_of_one_line_differ():
    f, g = lambda x: x + 1, lambda x: x + 2
    assert function_digest(f) != function_digest(g)


def test_recursion_and_functions_that_call_each_other_end():
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    assert function_digest(even) == function_digest(even) != function_digest(odd)


def test_many_functions_that_share_helpers_take_no_time():
    text = "def f0(): return K\n" + "".join(
        f"def f{n}(): return f{n - 1}() + f{max(n - 2, 0)}()\n" for n in range(1, 60)
    )
    first, second = (function_digest(define(text, "f59", K=k)) for k in (1, 2))
    assert first != second


def test_a_module_a_function_imports_counts_with_all_it_imports(package):
    inside = define("def f(x):\n  import toy_a\n  return toy_a")
    sys.modules.pop("toy_a", None)
    named = define("def f(x): return toy_b.f(x)", toy_b=importlib.import_module("toy_b"))
    taken = define("def f(x): return g(x)", g=importlib.import_module("toy_b").f)
    before = [function_digest(f) for f in (inside, named)]
    assert None not in before
    assert function_digest(taken) is not None
    edit(package / "toy_b.py", "x + 1", "x + 2")
    assert not set(before) & {function_digest(f) for f in (inside, named)}


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Rule:
    limit: int = 3
    names: list = dataclasses.field(default_factory=list)

    @property
    def double(self):
        return 2 * self.limit

    @functools.cached_property
    def triple(self):
        return 3 * self.limit


class Plain:
    def __init__(self, state):
        self.state = state

    def get(self):
        return self.state


@functools.lru_cache
def remembered(x):
    return x


def test_values_of_the_users_own_classes_count():
    text = "def f(x): return K"
    values = [
        Rule(1), Rule(2), Rule, Colour.RED, Colour, remembered, "a".join, str.strip, Plain(1), Plain(2), Plain(1).get,
        logging.getLogger("a"), np.random.default_rng(1), np.random.default_rng(2), iter([1]), Plain, object(),
    ]  # fmt: skip
    found = [function_digest(define(text, K=value)) for value in values]
    assert None not in found
    assert len(set(found)) == len(found)
    assert found == [function_digest(define(text, K=value)) for value in values]


def test_what_cannot_be_digested_is_none():
    text = "def f(x): return K"
    with open(__file__) as file:
        for value in (file, file.read, (n for n in "abc"), threading.Lock(), np.array([object()]), [[file]]):
            assert function_digest(define(text, K=value)) is None
    endless: list = []
    endless.append(endless)
    assert function_digest(define(text, K=endless)) is not None


def test_a_function_of_an_installed_package_counts_by_its_version(monkeypatch):
    import orjson

    before = [function_digest(orjson.dumps), function_digest(np.mean), function_digest(re.sub)]
    assert None not in before
    monkeypatch.setattr(keys.importlib.metadata, "version", lambda name: "0.0.0")
    after = [function_digest(orjson.dumps), function_digest(np.mean), function_digest(re.sub)]
    assert [a == b for a, b in zip(before, after, strict=True)] == [False, False, True]


def test_functions_are_the_same_in_another_process():
    text = "import re\ndef f(x, s={'a', 'b', 'c'}): return [re.sub('a', K, y) for y in x if y in s]"
    code = f"""
from prep_lib.keys import function_digest
K = "k"
exec(compile({text!r}, "<other>", "exec"))
print(function_digest(f))"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == function_digest(define(text, K="k"))
