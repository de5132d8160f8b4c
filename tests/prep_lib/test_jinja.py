"""Templates render as Jinja does, and hostile ones end as one clear line within the counts."""

# ruff: noqa: E501 (a template reads best on its own line)

from __future__ import annotations

import datetime
import json
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import jinja2.ext
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment

from prep_lib import jinja
from prep_lib.errors import BadTemplate
from prep_lib.jinja import Template

TEMPLATES = Path(__file__).parents[2] / ".." / "shared" / "data" / "chat_templates"
FIXTURES = TEMPLATES.parent / "doctor_fixtures" / "fixtures.json"

CHAT = [
    {"role": "user", "content": "Hi <b>&amp; 'you'"},
    {"role": "assistant", "content": "Yes. {x} %s\n  indented"},
    {"role": "user", "content": "你好 👩‍👩‍👧"},
    {"role": "assistant", "content": "ok"},
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "description": "说 <x>",
            "parameters": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        },
    }
]
TOOL_CHAT = [
    *CHAT[:1],
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "id": "a" * 9, "function": {"name": "f", "arguments": {"a": "é"}}}],
    },
    {"role": "tool", "content": "42", "name": "f", "tool_call_id": "a" * 9},
    CHAT[-1],
]
REASONING = [CHAT[0], {"role": "assistant", "content": "x", "reasoning_content": "because"}]
CASES: dict[str, dict[str, Any]] = {
    "plain": {"messages": CHAT},
    "prompt": {"messages": CHAT[:3], "add_generation_prompt": True},
    "system": {"messages": [{"role": "system", "content": " Be brief. "}, *CHAT]},
    "tools": {"messages": TOOL_CHAT, "tools": TOOLS},
    "reasoning": {"messages": REASONING, "enable_thinking": True},
    "wrong roles": {"messages": [CHAT[1], CHAT[1]]},
    "empty": {"messages": []},
}


def plain_jinja(source: str, variables: dict[str, Any]) -> str | None:
    """Return what Jinja alone gives, set up as chat templates expect; None where the template raises."""

    class Body(jinja2.ext.Extension):
        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            return jinja2.nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    def dump(value: Any, **options: Any) -> str:
        return json.dumps(value, **{"ensure_ascii": False, **options})

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, Body]
    )
    env.filters["tojson"] = dump
    env.globals["raise_exception"] = refuse
    env.globals["strftime_now"] = lambda form: datetime.datetime(2026, 1, 2).strftime(form)
    try:
        return env.from_string(source).render(**variables)
    except Exception:
        return None


def real_templates() -> list[Path]:
    return sorted(TEMPLATES.glob("*.jinja"))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("path", real_templates() or [None], ids=lambda path: path.stem if path else "none")
def test_a_real_template_renders_as_in_jinja(path: Path | None, case: str) -> None:
    if path is None:
        pytest.skip(f"shared data not here: {TEMPLATES}")
    source = path.read_text("utf-8")
    variables = {"bos_token": "<BOS>", "eos_token": "<EOS>", "add_generation_prompt": False, "tools": None} | CASES[
        case
    ]
    expected = plain_jinja(source, variables)
    if expected is None:
        with pytest.raises(BadTemplate, match=f"^jinja: {path.stem}, line \\d+: .+"):
            Template(source, path.stem).render(**variables)
    else:
        assert Template(source, path.stem).render(**variables) == expected


def test_fixtures_render_to_their_recorded_text() -> None:
    if not FIXTURES.exists():
        pytest.skip(f"shared data not here: {FIXTURES}")
    for case in json.loads(FIXTURES.read_text("utf-8")):
        variables = {"messages": case["messages"], **case["render_kwargs"]}
        tokens = {"bos_token": "<s>", "eos_token": "</s>"} if "metaspace" in case["tokenizer"] else {}
        if "rendered" in case:
            assert Template(case["template"], case["id"]).render(**tokens, **variables) == case["rendered"], case["id"]


#: Pieces of the language that templates use; each must print what Jinja alone prints.
EXPRESSIONS = [
    "{{ xs|join(', ') }}",
    "{{ ms|map(attribute='role')|join(',') }}",
    "{{ ms|selectattr('role', 'equalto', 'a')|list|length }}",
    "{{ ms|rejectattr('role', 'eq', 'a')|map(attribute='content')|first }}",
    "{{ xs[1:] }}{{ xs[::-1] }}{{ s[:3] }}{{ s[-2:] }}",
    "{{ s.split('l') }}{{ s.strip('h').upper()|lower }}",
    "{{ s.startswith('he') and 'l' in s and 'z' not in s }}",
    "{{ 1 < 2 < 3 }}{{ 3 > 2 > 2 }}{{ s == 'hello' }}{{ xs != [1] }}{{ 2 in xs }}{{ 'a' in d }}{{ 9 not in xs }}",
    "{{ 7 // 2 }}{{ 7 % 4 }}{{ 2 ** 8 }}{{ 7 / 2 }}{{ 3 - 5 }}{{ -x }}{{ 'ab' * 2 }}{{ [1] * 2 }}{{ [1] + [2] }}",
    "{{ '%s-%05d' % ('a', 7) }}{{ '%(k)s' % {'k': 1} }}{{ '{:>4}|{}|{k!r}'.format('a', 1, k='q') }}{{ '%s!'|format(s) }}",
    "{{ s ~ 1 ~ none ~ xs }}",
    "{{ d.items()|list }}{{ d|items|list }}{% for k, v in d.items() %}{{ k }}{{ v }}{% endfor %}",
    "{{ d|dictsort }}{{ xs|sort(reverse=true) }}{{ xs|unique|list }}{{ xs|sum }}{{ xs|max }}{{ xs|min }}{{ xs|reverse|list }}",
    "{{ ms|sum(attribute='n') }}{{ ms|sort(attribute='n')|map(attribute='n')|list }}",
    "{{ xs|batch(2, 0)|list }}{{ xs|slice(2)|list }}",
    "{{ s|replace('l', 'LL') }}{{ s|center(11) }}|{{ 'a\nb'|indent(2) }}{{ s|title }}{{ s|capitalize }}{{ s|trim }}{{ s|truncate(4) }}",
    "{{ none|default('x') }}{{ nothing|default('x') }}{{ ''|default('y', true) }}{{ nothing }}{{ nothing is defined }}",
    "{{ s is string }}{{ d is mapping }}{{ xs is iterable }}{{ xs is sequence }}{{ 1 is number }}{{ none is none }}{{ x is odd }}",
    "{{ s is eq 'hello' }}{{ 1 is in [1] }}{{ true is true }}{{ 1 is boolean }}{{ s is upper }}{{ 'x' is sameas 'x' }}",
    "{{ d.a }}{{ d['a'] }}{{ d.get('zz', 5) }}{{ d.nothing }}{{ ms[0].role }}{{ ms[-1]['role'] }}",
    "{% for a in xs %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}",
    "{% for a in xs if a > 1 %}{{ loop.index0 }}:{{ a }}{% else %}none{% endfor %}{% for a in [] %}{% else %}none{% endfor %}",
    "{% for a in xs %}{% if a == 2 %}{% continue %}{% endif %}{% if a == 3 %}{% break %}{% endif %}{{ a }}{% endfor %}",
    "{% for a in xs|map('string') %}{{ loop.revindex }}{{ loop.cycle('x', 'y') }}{{ loop.changed(a) }}{% endfor %}",
    "{% set ns = namespace(a=1, b=[]) %}{% for a in xs %}{% set ns.a = ns.a + a %}{% set ns.b = ns.b + [a] %}{% endfor %}{{ ns.a }}{{ ns.b }}",
    "{% macro m(a, b='z') %}<{{ a }}{{ b }}{{ caller() if caller }}>{% endmacro %}{{ m(1) }}{{ m(1, b=2) }}{% call m(3) %}in{% endcall %}",
    "{% for a in [[1, [2]], [3]] recursive %}{{ a if a is number else '(' ~ loop(a) ~ ')' }}{% endfor %}",
    "{% set t %}x{{ s }}{% endset %}{{ t }}{% set t | upper %}abc{% endset %}{{ t }}{% filter upper %}q{% endfilter %}",
    "{% with a = 5 %}{{ a }}{% endwith %}{{ 'y' if x else 'n' }}{{ 'q' if nothing }}{{ (1, 2) }}{{ {'a': [none, true, 1.5]} }}",
    "{{ d|tojson }}{{ d|tojson(indent=2) }}{{ ms|tojson(sort_keys=true) }}{{ s|tojson }}{{ '<é>'|tojson(ensure_ascii=true) }}",
    "{{ 'a&b'|e }}{{ 'a'|safe }}{{ '7'|int + 1 }}{{ 'x'|int }}{{ '1.5'|float }}{{ 2.567|round(1) }}{{ -3|abs }}{{ 'a b'|urlencode }}",
    "{{ strftime_now('%d %B %Y') }}",
    "  {% if x %}\n  kept\n  {%- endif %}\n{# gone #}\ntail\n",
    "{{ range(3)|list }}{{ dict(a=1) }}",
    "{% for g in ms|groupby('role') %}{{ g.grouper }}{{ g.list|length }}{% endfor %}{{ 'a,b'.split(',')[0] }}{{ s|length }}{{ xs|last }}",
    "{% generation %}{% set inner = 1 %}{{ s }}{% endgeneration %}{{ inner }}",
    "{{ xs if xs|select('gt', 9) else 'no' }}",
]
VARIABLES: dict[str, Any] = {
    "s": "hello",
    "x": 3,
    "xs": [3, 1, 2, 3],
    "d": {"b": 2, "a": 1},
    "ms": [{"role": "a", "content": "1", "n": 2}, {"role": "b", "content": "2", "n": 1}],
}


@pytest.mark.parametrize("source", EXPRESSIONS)
def test_expressions_print_what_jinja_prints(source: str) -> None:
    expected = plain_jinja(source, VARIABLES)
    assert expected is not None, "the case itself is broken"
    assert Template(source).render(**VARIABLES) == expected


DOUBLE = "{% set ns = namespace(x=[1], y=[1], t=(1,)) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}"
LONG = "{% set x = 'a' * 900000 %}"
#: What hostile templates try, and a word of the line they end in; None: harmless text.
HOSTILE: dict[str, tuple[str, str | None]] = {
    "loops in loops": ("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "loop steps"),
    "a filtered loop": ("{% for a in range(9999) if range(9999)|select('eq', 5)|list %}{% endfor %}", "characters"),
    "a recursive loop": ("{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}", "deep"),
    "a branching loop": (
        "{% for a in [1, 2] recursive %}{% if loop.depth < 60 %}{{ loop([1, 2]) }}{% endif %}{% endfor %}",
        "steps",
    ),
    "an endless macro": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deep"),
    "a branching macro": (
        "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "steps",
    ),
    "blocks": ("{% block a %}{{ self.a() }}{{ self.a() }}{% endblock %}", "deep"),
    "times": ("{{ 'a' * 10**9 }}", "characters"),
    "times turned": ("{{ 10**9 * 'a' }}", "characters"),
    "a list times": ("{{ ([1] * 10**9)|length }}", "characters"),
    "power": ("{{ 10 ** (10 ** 10) }}", "bits"),
    "squares": (
        "{% set ns = namespace(x=7) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
        "bits",
    ),
    "a hexadecimal integer": ("{{ ('f' * 100000)|int(0, 16) * 2 }}", "bits"),
    "doubling +": (
        "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "characters",
    ),
    "doubling ~": (
        "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "characters",
    ),
    "doubling a list": (
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "characters",
    ),
    "printing a doubled tree": (DOUBLE + "{{ ns.x }}", "characters"),
    "its JSON": (DOUBLE + "{{ ns.x|tojson }}", "characters"),
    "comparing it": (DOUBLE + "{{ ns.x == ns.y }}", "characters"),
    "hashing it": (DOUBLE + "{{ {ns.t: 1}|length }}", "characters"),
    "looking it up": (DOUBLE + "{{ {}[ns.t] }}", "characters"),
    "testing it": (DOUBLE + "{{ ns.t is filter }}", "characters"),
    "its own get": (DOUBLE + "{{ {}.get(ns.t) }}", "characters"),
    "its uniques": (DOUBLE + "{{ [ns.t]|unique|list }}", "characters"),
    "formatting it": (DOUBLE + "{{ '{}'.format(ns.x) }}", "characters"),
    "percent it": (DOUBLE + "{{ '%s' % ns.t }}", "characters"),
    "watching it": (DOUBLE + "{% for z in [ns.x, ns.y] %}{{ loop.changed(z) }}{% endfor %}", "characters"),
    "a deep list": (
        "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
        "nested",
    ),
    "a namespace in itself": ("{% set ns = namespace() %}{% set ns.me = ns %}{{ [ns] }}", "not text"),
    "percent width": ("{{ '%99999999999d' % 1 }}", "width"),
    "percent star": ("{{ '%*d' % (999999999, 1) }}", "width"),
    "percent precision": ("{{ '%.999999999f' % 1.0 }}", "width"),
    "format filter": ("{{ '%99999999d'|format(1) }}", "width"),
    "format width": ("{{ '{:99999999}'.format(1) }}", "width"),
    "nested width": ("{{ '{:{}}'.format(1, 99999999) }}", "width"),
    "format reaching": ("{{ '{0.__class__.__mro__}'.format(1) }}", "reaches into"),
    "format_map": ("{{ '{a}'.format_map({'a': 1}) }}", "unsafe"),
    "ljust": ("{{ 'a'.ljust(10**9) }}", "characters"),
    "zfill": ("{{ 'a'.zfill(10**9) }}", "characters"),
    "expandtabs": ("{{ '\t'.expandtabs(10**9) }}", "characters"),
    "a kept method": ("{% set f = 'a'.ljust %}{{ f(10**9) }}", "characters"),
    "a method by attr": ("{{ ('a'|attr('ljust'))(10**9) }}", "characters"),
    "center": ("{{ 'a'|center(10**9) }}", "characters"),
    "indent": ("{{ 'a\nb'|indent(10**9) }}", "characters"),
    "batch": ("{{ [1]|batch(10**9, 0)|list }}", "characters"),
    "slice": ("{{ [1]|slice(10**9)|list }}", "characters"),
    "range": ("{{ range(10**12)|list }}", "range"),
    "replace": ("{{ ('a' * 99999)|replace('a', 'b' * 99999) }}", "characters"),
    "replace nothing": ("{{ ('a' * 99999).replace('', 'b' * 99999) }}", "characters"),
    "join": ("{{ range(99999)|join('b' * 99999) }}", "characters"),
    "join method": ("{{ ('b' * 99999).join(['a'] * 99999) }}", "characters"),
    "sum of lists": ("{{ ([[1] * 1000] * 9999)|sum(start=[]) }}", "characters"),
    "sort": ("{{ (['a' * 99999] * 99999)|sort }}", "characters"),
    "searching": (LONG + "{% for i in range(99999) %}{% if 'b' in x %}{% endif %}{% endfor %}", "characters"),
    "cutting": (
        LONG + "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = ns.l + [x[1:]] %}{% endfor %}",
        "characters",
    ),
    "splitting": (LONG + "{% for i in range(99999) %}{% set y = x.split('a') %}{% endfor %}", "characters"),
    "a block kept": (LONG + "{% set y %}{% for i in range(99999) %}{{ x }}{% endfor %}{% endset %}", "characters"),
    "much output": ("{% for i in range(99999) %}" + "x" * 1000 + "{% endfor %}", "more than 1,000,000 characters"),
    "a heavy body": ("{% for i in range(99999) %}" + "{{ 1 }}" * 1000 + "{% endfor %}", "characters"),
    "a spread text": ("{% macro m() %}{% endmacro %}{{ m(*('é' * 900000)) }}", "spread"),
    "parentheses": ("{{ " + "(" * 50000 + "1" + ")" * 50000 + " }}", "nested"),
    "a chain": ("{{ " + "1+" * 5000 + "1 }}", "nested"),
    "sixty loops": ("{% for a in [1] %}" * 60 + "{% endfor %}" * 60, "nested"),
    "a long source": ("x" * 300_000, "at most 200,000"),
    "a long integer": ("{{ " + "9" * 100_000 + " }}", "limit"),
    "rounding": ("{{ 1|round(10**9, 'ceil') }}", "places"),
    "a padded date": ("{{ strftime_now('%999999999Y') }}", "strftime_now"),
    "JSON indent": ("{{ [1]|tojson(indent=10**9) }}", "indent"),
    "mro": ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
    "mro by key": ("{{ ''['__class__']['__mro__'] }}", "no attribute"),
    "mro by attr": ("{{ ''|attr('__class__') }}", None),
    "mro by map": ("{{ ['']|map(attribute='__class__.__mro__')|list }}", "no attribute"),
    "lipsum": ("{{ lipsum.__globals__ }}", "undefined"),
    "cycler": ("{{ cycler.__init__.__globals__ }}", "unsafe"),
    "namespace": ("{{ namespace.__init__.__globals__ }}", "unsafe"),
    "globals": ("{{ raise_exception.__globals__['x'] }}", "unsafe"),
    "self": ("{{ self._TemplateReference__context }}", None),
    "loop": ("{% for a in [1] %}{{ loop._iterator }}{{ loop.__class__ }}{% endfor %}", None),
    "include": ("{% include 'x' %}", "include is not allowed"),
    "import": ("{% import 'os' as os %}", "import is not allowed"),
    "autoescape": ("{% autoescape 'a'|center(10**9) %}{% endautoescape %}", "not allowed"),
    "appending": ("{{ [1].append(2) }}", "unsafe"),
    "changing data": ("{{ messages[0].update(role='x') }}", "unsafe"),
    "calling data": ("{{ messages() }}", "can be called"),
}


#: A text with as many spans as letters, and what hostile templates do with it: harmless to render, dear to trace.
MANY = "{% set x = (messages[0].content * 4000).replace('x', messages[1].content) %}"
AGAIN = MANY + "{% for i in range(40000) %}{% set y = @ %}{% endfor %}"
DOUBLING = "{% set ns = namespace(x=messages[0].content + 'x') %}{% for i in range(18) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"
HOSTILE_WHILE_TRACED: dict[str, str] = {
    "pieces added": "{% set ns = namespace(x='') %}{% for i in range(40000) %}{% set ns.x = ns.x + messages[0].content %}{% endfor %}",
    "pieces joined": "{% set ns = namespace(x='') %}{% for i in range(40000) %}{% set ns.x = ns.x ~ messages[0].content %}{% endfor %}",
    "pieces doubled": DOUBLING + "{{ ns.x }}",
    "pieces times": "{{ (messages[0].content + 'x') * 400000 }}",
    "pieces replaced": "{{ ('a' * 400000).replace('a', messages[0].content) }}",
    "pieces filtered": "{{ ('a' * 400000)|replace('a', messages[0].content) }}",
    "an index": AGAIN.replace("@", "x[-1]"),
    "a slice": AGAIN.replace("@", "x[-3:]"),
    "a backward slice": AGAIN.replace("@", "x[::-1]"),
    "first": AGAIN.replace("@", "x|first"),
    "last": AGAIN.replace("@", "x|last"),
    "strip": AGAIN.replace("@", "x.strip('y')"),
    "trim": AGAIN.replace("@", "x|trim"),
    "upper": AGAIN.replace("@", "x|upper"),
    "split": AGAIN.replace("@", "x.split('x')"),
    "list": AGAIN.replace("@", "x|list"),
    "partition": AGAIN.replace("@", "x.partition('z')"),
    "join": AGAIN.replace("@", "x|join('x')"),
    "format": AGAIN.replace("@", "'{}{}'.format(x, x)"),
    "percent": AGAIN.replace("@", "'%s%s' % (x, x)"),
    "JSON": AGAIN.replace("@", "[x, x]|tojson"),
    "quotation marks": AGAIN.replace("@", "('\"' * 900000)|tojson"),
    "generation": AGAIN.replace("{% set y = @ %}", "{% generation %}{{ x }}{% endgeneration %}"),
    "a captured block": AGAIN.replace("{% set y = @ %}", "{% set y %}{{ x }}{% endset %}"),
    "a tree beside a text": DOUBLE + "{{ ('x'|default(ns.t) ~ (['x', ns.t]|first)) * 2000000 }}",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("traced", [False, True], ids=["rendered", "traced"])
def test_a_hostile_template_ends_within_its_counts(name: str, traced: bool) -> None:
    source, word = HOSTILE[name]
    variables = {"messages": [{"role": "user", "content": "x"}]}
    # A tenth of the usual limits: the laws are the same and the table takes seconds.
    limits = {"max_steps": 50_000, "max_characters": 1_000_000}
    if word is None:
        assert Template(source, **limits).render(**variables) == ""
        return
    with pytest.raises(BadTemplate, match=word) as caught:
        getattr(Template(source, "hostile", **limits), "trace" if traced else "render")(**variables)
    assert str(caught.value).startswith("jinja: hostile")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", HOSTILE_WHILE_TRACED)
def test_origins_are_paid_for_as_well(name: str) -> None:
    """What a template makes of origins is limited, in time and in memory, wherever rendering is."""
    template = Template(HOSTILE_WHILE_TRACED[name], "hostile", max_steps=50_000, max_characters=1_000_000)
    messages = [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]
    tracemalloc.start()
    try:
        with pytest.raises(BadTemplate, match="characters"):
            template.trace(messages=messages)
        assert tracemalloc.get_traced_memory()[1] < 150 * 2**20
    finally:
        tracemalloc.stop()


# ---------------------------------------------------------------- origins


def told(source: str, **variables: Any) -> list[tuple[str, str | None, int]]:
    """Return each run of a traced template: its text, the field it came from, and where in it."""
    text, runs = Template(source).trace(**variables)
    assert Template(source).render(**variables) == text
    return [(text[run.start : run.stop], run.origin and run.origin.field, run.at) for run in runs]


@pytest.mark.parametrize("source", EXPRESSIONS)
def test_tracing_gives_the_text_of_rendering(source: str) -> None:
    told(source, **VARIABLES)


SAID = st.text("ab \n<>|你é👩\u0301{}%\"'\\", max_size=12) | st.sampled_from(
    ["<think>\na\n</think>\n\nb", "<|im_end|>", "[INST] x [/INST]", "<tool_call>{}</tool_call>", " a "]
)
ARGUMENTS = st.dictionaries(st.text("ab_é", min_size=1, max_size=4), SAID | st.integers() | st.booleans(), max_size=3)
CALL = st.builds(
    lambda arguments: {"type": "function", "id": "a" * 9, "function": {"name": "f", "arguments": arguments}},
    ARGUMENTS | SAID,
)
ANSWER = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": SAID},
    optional={"reasoning_content": SAID, "tool_calls": st.lists(CALL, min_size=1, max_size=2)},
)
OTHER = st.fixed_dictionaries({"role": st.sampled_from(["user", "user", "tool", "system"]), "content": SAID})
TALK = st.lists(st.tuples(OTHER, ANSWER), max_size=3).map(lambda pairs: [said for pair in pairs for said in pair])


def outcome(call: Any, given: dict[str, Any]) -> tuple[str, Any]:
    """Return text and runs, or the error line and no runs."""
    try:
        made = call(**given)
    except BadTemplate as error:
        return str(error), ()
    return (made, ()) if isinstance(made, str) else made


@given(TALK, st.booleans(), st.booleans())
@settings(max_examples=30, deadline=None)
def test_all_real_templates_trace_the_text_they_render(messages: list[Any], tools: bool, prompt: bool) -> None:
    variables = {"bos_token": "<BOS>", "eos_token": "<EOS>", "tools": TOOLS if tools else None}
    for path in real_templates():
        template = Template(path.read_text("utf-8"), path.stem)
        given = {**variables, "messages": messages, "add_generation_prompt": prompt}
        rendered, (text, runs) = outcome(template.render, given), outcome(template.trace, given)
        assert text == rendered[0]
        if runs:
            assert [*(run.start for run in runs), len(text)] == [0, *(run.stop for run in runs)]
        for run in runs:
            if run.origin and run.at >= 0 and run.origin.field in ("content", "reasoning_content"):
                field = messages[run.origin.message][run.origin.field]
                assert field[run.at : run.at + run.stop - run.start] == text[run.start : run.stop]


def test_origins_pass_through_what_templates_do() -> None:
    m = [{"content": " hi, you ", "n": 7, "args": {"k": "v", "l": [1]}}]
    assert told("{{ m[0].content | trim }}", m=m) == [("hi, you", "m[0].content", 1)]
    assert told("{{ m[0].content.split(',')[-1].strip() }}!", m=m)[0] == ("you", "m[0].content", 5)
    assert told("{{ m[0].content[::-1] | length }}{{ m[0].content[3:] }}", m=m)[1] == (", you ", "m[0].content", 3)
    assert told("{{ m[0]['content'] | replace('hi', 'ho') | trim }}", m=m) == [
        ("ho", None, 0), (", you", "m[0].content", 3),
    ]  # fmt: skip
    assert told("{{ '%s|%d' | format(m[0].content, m[0].n) }}", m=m)[0] == (" hi, you ", "m[0].content", 0)
    assert told("{{ '<' ~ m[0].n ~ '>' }}", m=m) == [("<", None, 0), ("7", "m[0].n", -1), (">", None, 0)]
    assert told("{% for k, v in m[0].args | items %}{{ k }}={{ v }};{% endfor %}", m=m)[:3] == [
        ("k", "m[0].args.k", -1), ("=", None, 0), ("v", "m[0].args.k", 0),
    ]  # fmt: skip
    assert ("v", "m[0].args.k", 0) in told("{{ m[0].args | tojson }}", m=m)
    assert told("{{ [m[0].content, 'x'] | join(', ') }}", m=m)[1] == (", x", None, 0)
    assert told("{% set t %}<{{ m[0].n }}>{% endset %}{{ t | upper }}", m=m)[1] == ("7", "m[0].n", -1)
    assert told("{% macro f(a) %}({{ a }}){% endmacro %}{{ f(m[0].content) | title }}", m=m) == [
        ("( Hi, You )", "m[0].content", -1),
    ]  # fmt: skip


def test_a_text_that_is_chosen_keeps_its_own_origin_or_none() -> None:
    m = [{"content": "hi"}]
    assert told("{{ m[0].other | default('none') }}", m=m) == [("none", None, 0)]
    assert told("{{ 'mine' | default(m[0].content) }}", m=m) == [("mine", None, 0)]
    assert told("{{ m[0].content | default('none') }}", m=m) == [("hi", "m[0].content", 0)]
    assert told("{{ ['a', m[0].content] | first }}{{ ['a', m[0].content] | last }}", m=m) == [
        ("a", None, 0), ("hi", "m[0].content", 0),
    ]  # fmt: skip


def test_what_goes_wrong_is_told_in_the_same_words() -> None:
    variables = {"m": [{"n": 1, "x": 0.5, "t": "a"}]}
    for wrong in (
        "m[7].x",
        "m.a.b",
        "m[0].n.a.b",
        "m[0].t + 1",
        "m[0].n + 'a'",
        "1 - m[0].t",
        "m[0].x + [1]",
        "m + {}",
    ):
        template = Template("{{ " + wrong + " }}")
        told_plainly = outcome(template.render, variables)
        assert told_plainly == outcome(template.trace, variables)
        assert told_plainly[0].startswith("jinja: template, line 1: ")


def test_special_tokens_given_are_the_template_s_own() -> None:
    assert told("{{ bos_token }}{{ other }}", bos_token="<s>", other="x") == [("<s>", None, 0), ("x", "other", 0)]


def frames(source: str, count: int = 3) -> list[tuple[str, int | None]]:
    """Return each run of a conversation of `count` messages a, b, c, …: its text and its frame."""
    messages = [{"role": "user", "content": "abcdef"[at]} for at in range(count)]
    text, runs = Template(source).trace(messages=messages)
    return [(text[run.start : run.stop], run.frame) for run in runs]


def test_a_turn_of_the_loop_over_messages_is_a_frame() -> None:
    assert frames("<{% for m in messages %}[{{ m.role }}]{% endfor %}>", 2) == [
        ("<", None), ("[", 0), ("user", 0), ("]", 0), ("[", 1), ("user", 1), ("]", 1), (">", None),
    ]  # fmt: skip
    assert frames("{% for m in messages[1:] %}.{% endfor %}") == [(".", 1), (".", 2)]
    assert frames("{% for m in messages | reverse %}.{% endfor %}") == [(".", 2), (".", 1), (".", 0)]
    assert frames("{% for m in messages if m.content != 'b' %}.{% endfor %}") == [(".", 0), (".", 2)]
    assert frames("{% for m in messages | selectattr('content', 'eq', 'c') %}.{% endfor %}") == [(".", 2)]
    assert frames("{% for m in messages %}{% for x in [1, 2] %}.{% endfor %}{% endfor %}") == [
        ("..", 0),
        ("..", 1),
        ("..", 2),
    ]
    assert frames("{% for m in [] %}{% else %}.{% endfor %}") == [(".", None)]


def test_a_frame_ends_with_its_loop_however_it_ends() -> None:
    broken = "{% for m in messages %}.{% if loop.index0 == 1 %}{% break %}{% endif %}{% endfor %}!"
    assert frames(broken) == [(".", 0), (".", 1), ("!", None)]
    skipped = "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}.{% endfor %}!"
    assert frames(skipped) == [(".", 1), (".", 2), ("!", None)]


def test_a_loop_inside_a_turn_gives_the_frame_back() -> None:
    inner = "{% for m in messages %}<{% for n in messages %}{% if n.content == 'b' %}.{% break %}{% endif %}{% endfor %}>{% endfor %}"
    assert frames(inner, 2) == [("<", 0), (".", 1), (">", 0), ("<.>", 1)]
    macro = "{% macro f() %}{% for n in messages %}{% endfor %}{% endmacro %}"
    assert frames(macro + "{% for m in messages %}.{{ f() }}.{% endfor %}", 2) == [("..", 0), ("..", 1)]
    mixed = "{% for m in [messages[0], 'x', messages[1]] %}.{% endfor %}"
    assert frames(mixed, 2) == [(".", 0), (".", None), (".", 1)]


def generations(source: str, **variables: Any) -> str:
    text, runs = Template(source).trace(**variables)
    return "|".join(text[run.start : run.stop] for run in runs if run.generated)


def test_generation_marks_its_text_in_loops_and_macros() -> None:
    m = [{"role": "user", "content": "q"}, {"role": "assistant", "content": " a "}]
    loop = "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content | trim }}.{% endgeneration %}{% endif %}-{% endfor %}"
    assert generations(loop, messages=m) == "a|."
    macro = "{% macro say(t) %}<{% generation %}{{ t }}{% endgeneration %}>{% endmacro %}{% for m in messages %}{{ say(m.content) }}{% endfor %}"
    assert generations(macro, messages=m) == "q| a "
    kept = "{% set t %}{% generation %}{{ messages[1].content }}{% endgeneration %}{% endset %}{{ t.strip() }}{{ t | upper }}"
    assert generations(kept, messages=m) == "a| A "
    inside = "{% generation %}{% for m in messages %}{{ m.content }}{% endfor %}{% endgeneration %}{{ 1 }}"
    assert generations(inside, messages=m) == "q| a "
    assert Template(inside).render(messages=m) == "q a 1"


def test_sums_of_anything_are_as_in_jinja() -> None:
    for source in (
        "{{ 1 + 2 + 3 }}",
        "{{ [1] + [2] + [3] }}",
        "{{ 'a' + 'b' + s + 'c' }}",
        "{{ 1.5 + 2 - 1 + 3 }}",
        "{{ (1, ) + (2,) }}",
    ):
        assert Template(source).render(**VARIABLES) == plain_jinja(source, VARIABLES)
    for source in ("{{ 'a' + 1 }}", "{{ 'a' + 'b' + nothing }}", "{{ 1 + 2 + 'a' }}", "{{ nothing + 'a' + 'b' }}"):
        assert plain_jinja(source, VARIABLES) is None
        with pytest.raises(BadTemplate):
            Template(source).render(**VARIABLES)
    chain = Template("{{ " + "s + " * 500 + "s }}", max_characters=100)
    with pytest.raises(BadTemplate, match="more than 100 characters"):
        chain.render(s="a")


def test_what_is_compared_with_a_short_text_may_be_anything() -> None:
    source = "{% for a in [1, none, 'x', [], {}, nothing, 'user', 1.5, true] %}{{ a == 'user' }}{{ 'user' != a }}{% endfor %}"
    assert Template(source).render() == plain_jinja(source, {})


def test_a_namespace_holds_what_it_is_given_and_shows_nothing_else() -> None:
    source = "{% set ns = namespace({'a': 1}, b=2) %}{% set ns.c = 3 %}{{ ns.a + ns.b + ns.c }}{{ ns.d }}{{ ns['a'] is defined }}"
    assert Template(source).render() == plain_jinja(source, {})
    for look in ("ns._held", "ns['_held']", "ns|attr('_held')", "ns.__class__", "ns.__init__"):
        with pytest.raises(BadTemplate):
            Template("{% set ns = namespace(a=1) %}{{ " + look + ".x }}").render()


def test_the_line_and_the_template_s_own_words_are_told() -> None:
    source = "line one\n{% if true %}\n{{ raise_exception('roles must\\nalternate') }}\n{% endif %}"
    with pytest.raises(BadTemplate, match=r"^jinja: mine, line 3: the template refuses: roles must alternate$"):
        Template(source, "mine").render()


def test_a_template_that_does_not_parse_tells_its_line() -> None:
    with pytest.raises(BadTemplate, match=r"^jinja: mine, line 2: "):
        Template("a\n{% if %}", "mine")


def test_the_date_is_fixed_or_given_and_never_the_clock() -> None:
    template = Template("{{ strftime_now('%Y-%m-%d') }}")
    assert template.render() == jinja.FIXED_DATE.isoformat() == "2026-01-02"
    assert template.render(now=datetime.date(2024, 2, 29)) == template.render(now="2024-02-29") == "2024-02-29"
    with pytest.raises(BadTemplate, match="is not a date"):
        template.render(now="tomorrow")


def test_variables_are_copied_and_must_be_data() -> None:
    with pytest.raises(BadTemplate, match="variable x holds a object; give text, numbers, lists and maps"):
        Template("{{ x }}").render(x=object())
    knot: list[Any] = []
    knot.append(knot)
    with pytest.raises(BadTemplate, match="variable x is nested more than 100 deep"):
        Template("").render(x=knot)


def test_numpy_rows_are_data() -> None:
    np = pytest.importorskip("numpy")
    assert Template("{{ x }}{{ y }}").render(x=np.array([1, 2]), y=np.float64(0.5)) == "[1, 2]0.5"


def test_a_template_travels_to_another_process() -> None:
    template = pickle.loads(pickle.dumps(Template("{{ 'a' * n }}", "mine", max_characters=5)))
    assert template.render(n=5) == "aaaaa"
    with pytest.raises(BadTemplate, match=r"mine.*5 characters"):
        template.render(n=6)


def test_uses_names_what_a_template_mentions() -> None:
    template = Template("{% if tools %}{{ strftime_now('%Y') }}{% endif %}")
    assert template.uses("tools")
    assert template.uses("strftime_now")
    assert not template.uses("messages")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda t: st.lists(t) | st.dictionaries(st.text(), t),
)


@given(JSON)
@settings(max_examples=50, deadline=None)
def test_tojson_gives_back_what_it_was_given(value: Any) -> None:
    assert json.loads(Template("{{ value|tojson }}").render(value=value)) == value


# ---------------------------------------------------------------- what a template shows before it runs

LOOP = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"


def alike(source: str) -> bool:
    return Template(source).ends_alike("ask", ("messages", "tools"))


@pytest.mark.parametrize(
    "source",
    [
        LOOP + "{% if ask %}<a>{% endif %}",
        LOOP
        + "{% if ask %}{{ '<a>' }}{% if deep is defined and not deep %}<t>{% else %}{{ bos_token + '!' }}{% endif %}{% endif %}",
        LOOP + "{{ '<a>' if ask }}",
        "{{ messages[0].content }}{{ '<a>' if ask else '' }}{{ eos_token }}",
        LOOP + "{% if ask %}<a>{% else %}{{ messages[-1].content }}{% endif %}",
        LOOP + "{% if not ask %}{{ messages[-1].content }}{% else %}<a>{% endif %}",
        LOOP + "{% if ask %}<a>{% elif messages[-1].role == 'user' %}{% generation %}<e>{% endgeneration %}{% endif %}",
        "{% if not ask is defined %}{% set ask = false %}{% endif %}" + LOOP + "{% if ask %}<a>{% endif %}",
        "{% if ask is undefined %}{% set ask = messages %}{% endif %}" + LOOP + "{% if ask %}<a>{% endif %}",
        "{% set opens = '<a>' %}{% if level is not defined %}{% set level = 3 %}{% endif %}"
        + LOOP
        + "{% if ask and level > 2 %}{{ opens ~ level }}{% endif %}",
        LOOP + "{% if ask and true %}<a>{% endif %}{% if ask and deep %}<t>{% endif %}",
    ],
)
def test_a_template_that_ends_alike(source: str) -> None:
    assert alike(source)
    ends = {
        Template(source).render(messages=chat, tools=None, ask=True, bos_token="<s>", eos_token="</s>")[-6:]
        for chat in ([{"role": "user", "content": "111111"}], [{"role": "user", "content": "111111" * 2}])
    }
    assert len(ends) == 1


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(LOOP, id="never asks"),
        pytest.param(LOOP + "{% if not ask %}<e>{% endif %}" + LOOP, id="goes on with data"),
        pytest.param("{% if ask %}<a>{% endif %}" + LOOP, id="stands before data"),
        pytest.param(LOOP + "{% if ask %}{{ messages[-1].content }}{% endif %}", id="data"),
        pytest.param(
            LOOP + "{% if ask %}<a>{% if '/no' in messages[-1].content %}<t>{% endif %}{% endif %}", id="condition"
        ),
        pytest.param(LOOP + "{% if ask and messages[-1].role == 'user' %}<a>{% endif %}", id="condition of the whole"),
        pytest.param(LOOP + "{% if messages %}{% if ask %}<a>{% endif %}{% endif %}", id="condition around"),
        pytest.param(LOOP + "{% if tools %}<t>{% elif ask %}<a>{% endif %}", id="elif behind data"),
        pytest.param(LOOP + "{% if ask and deep %}<t>{% elif tools %}<a>{% endif %}", id="elif of data"),
        pytest.param(LOOP + "{% if ask and deep %}<t>{% else %}{{ messages }}{% endif %}", id="else of data"),
        pytest.param(LOOP + "{{ '<a>' if ask and messages[-1].content }}", id="short condition"),
        pytest.param("{% set x = messages[-1].content %}" + LOOP + "{% if ask %}{{ x }}{% endif %}", id="set"),
        pytest.param("{% set x %}{{ messages }}{% endset %}" + LOOP + "{% if ask %}{{ x }}{% endif %}", id="set block"),
        pytest.param("{% set x, y = messages[0].content, 1 %}{% if ask %}{{ x }}{% endif %}", id="set of two"),
        pytest.param("{% set y = x %}{% set x = messages %}{% if ask and y %}<a>{% endif %}", id="set in a chain"),
        pytest.param(
            "{% if messages[0].content %}{% set x = 1 %}{% endif %}{% if ask and x is defined %}<a>{% endif %}",
            id="set under data",
        ),
        pytest.param(
            "{% if deep %}{% elif messages %}{% else %}{% set x = 1 %}{% endif %}{% if ask and x %}<a>{% endif %}",
            id="set in an else",
        ),
        pytest.param(
            "{% set ns = namespace(x=0) %}{% for m in messages %}{% set ns.x = 1 %}{% endfor %}{% if ask and ns.x %}<a>{% endif %}",
            id="namespace",
        ),
        pytest.param("{% set ns = namespace(x=0) %}{% if ask %}{{ ns.x }}{% endif %}", id="namespace, though still"),
        pytest.param(
            "{% for m in messages %}{{ m.content }}{% if loop.last and ask %}<a>{% endif %}{% endfor %}", id="loop"
        ),
        pytest.param(
            "{% for m in messages %}{% if loop.last and not ask %}x{% endif %}{% endfor %}{% if ask %}<a>{% endif %}",
            id="loop and behind",
        ),
        pytest.param("{% macro p() %}{% if ask %}<a>{% endif %}{% endmacro %}" + LOOP + "{{ p() }}", id="macro"),
        pytest.param(
            "{% macro p(m) %}{{ m }}{% endmacro %}" + LOOP + "{% if ask %}{{ p(messages) }}{% endif %}",
            id="macro called",
        ),
        pytest.param(
            "{% if messages[0].content %}{% macro p() %}{% endmacro %}{% endif %}{% if ask and p is defined %}<a>{% endif %}",
            id="macro defined",
        ),
        pytest.param(LOOP + "{% call p() %}{% if ask %}<a>{% endif %}{% endcall %}", id="call block"),
        pytest.param(LOOP + "{% generation %}{% if ask %}<a>{% endif %}{% endgeneration %}", id="filter block"),
        pytest.param(LOOP + "{% block b %}{% if ask %}<a>{% endif %}{% endblock %}", id="block"),
        pytest.param(LOOP + "{% with x = messages %}{% if ask %}{{ x }}{% endif %}{% endwith %}", id="with"),
        pytest.param(
            "{% set ask = messages | length > 1 %}" + LOOP + "{% if ask %}<a>{% endif %}", id="the flag set from data"
        ),
        pytest.param("{% set ask = true %}" + LOOP + "{% if ask %}<a>{% endif %}", id="the flag set"),
        pytest.param(
            "{% if not ask %}{% set ask = true %}{% endif %}" + LOOP + "{% if ask %}<a>{% endif %}",
            id="the flag set where it is off",
        ),
        pytest.param(
            "{% set other = ask %}{% for m in messages %}{% if other %}x{% endif %}{% endfor %}", id="by another name"
        ),
        pytest.param(LOOP + "{% if ask %}<a>{{ raise_exception('no') }}{% endif %}", id="a call"),
    ],
)
def test_a_template_that_may_end_otherwise(source: str) -> None:
    assert not alike(source)


@pytest.mark.parametrize("size", [3, 15, 200])
def test_names_set_from_each_other(size: int) -> None:
    """The last is set from data, and all before it from the next; a long chain is not followed to its end."""
    chain = "".join(f"{{% set a{at} = a{at + 1} %}}" for at in range(size))
    asked = "{% if ask %}{{ a0 }}{% endif %}"
    assert not alike(f"{chain}{{% set a{size} = messages %}}{asked}")
    assert alike(f"{chain}{{% set a{size} = deep %}}{asked}")
