"""Small conversations a template is tried on, and what it does with them, measured: its traits.

    QQ1 AA1 QQ2 AA2 ──▶ <|im_start|>user↵QQ1<|im_end|>↵<|im_start|>assistant↵AA1<|im_end|>↵…
                        text_before_first_user           generation_prompt        between_assistant_and_next_user

Nothing is concluded from the source: a trait is what came out.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from prep_lib.chat.template import ChatTemplate
from prep_lib.errors import BadTemplate
from prep_lib.record import Conversation, Message
from prep_lib.special import MARKER
from prep_lib.tokens.tokenizer import AutoTokenizer

Said = Mapping[str, Any]

#: Two dates no template knows; a render that differs between them depends on the day.
DATES = ("2001-02-03", "2019-11-28")
#: A text before the first question of up to so many characters counts as a header.
HEADER = 60

_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "count_words",
        "description": "Counts words.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
}


#: As long as the strictest template wants it.
_ID = "call00001"


def _call(arguments: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "count_words", "arguments": arguments}}


def _talk(*contents: str, first: str = "user") -> list[dict[str, Any]]:
    roles = ("user", "assistant") if first == "user" else ("assistant", "user")
    return [{"role": roles[at % 2], "content": content} for at, content in enumerate(contents)]


# ---------------------------------------------------------------- traits


def traits(template: ChatTemplate | str) -> dict[str, Any]:
    """Return what a template does, by name.

    Parameters
    ----------
    template : ChatTemplate or str
        Its variables are kept; BOS and EOS are spelled ``<BOS>`` and ``<EOS>``.

    Returns
    -------
    dict
        ``renders_multiturn`` False where a plain chat of two turns does not render, and then nothing else.

    Examples
    --------
    >>> found = traits("{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}")
    >>> found["between_assistant_and_next_user"], found["user_whitespace"], found["reasoning_field"]
    ('<user>', 'trimmed', 'dropped in history / dropped in last')
    """
    chat = _spelled(template)
    try:
        full = chat.text(_talk("QQ1", "AA1", "QQ2", "AA2"))
    except BadTemplate:
        return {"renders_multiturn": False}
    return {
        "renders_multiturn": True,
        **_frame(chat, full),
        **_thoughts(chat),
        **_system(chat),
        "user_whitespace": _blanks(chat, "user"),
        "assistant_whitespace": _blanks(chat, "assistant"),
        "tool_call_args_dict": _called(chat, {"text": "ARG1"}),
        "tool_call_args_json_str": _called(chat, json.dumps({"text": "ARG1"})),
        "date_dependent": date_dependent(chat),
        "two_assistant_turns": _tried(chat, [*_talk("QQ1", "AA1"), *_talk("AA2", first="assistant")]),
        "assistant_first": _tried(chat, _talk("AA1", "QQ1", "AA2", first="assistant")),
        **_tags(chat),
    }


def _spelled(template: ChatTemplate | str) -> ChatTemplate:
    source = template if isinstance(template, str) else template.source
    own = {} if isinstance(template, str) else template.variables
    return ChatTemplate(source, variables={**own, "bos_token": "<BOS>", "eos_token": "<EOS>"})


def _frame(chat: ChatTemplate, full: str) -> dict[str, Any]:
    """Return what stands around and between the turns."""
    before, between, after = full.partition("QQ1")[0], _between(full, "AA1", "QQ2"), full.rpartition("AA2")[2]
    with contextlib.suppress(BadTemplate):
        prompt, asked = chat.text(_talk("QQ1"), add_generation_prompt=True), chat.text(_talk("QQ1"))
        return {
            "bos_in_template": full.count("<BOS>"), "bos_first": full.startswith("<BOS>"),
            "text_before_first_user": before if len(before) <= HEADER else before[: HEADER - 3] + "...",
            "default_system_chars": max(0, len(before) - HEADER),
            "between_assistant_and_next_user": between, "after_final_assistant": after,
            "prefix_preserving_plain": full.startswith(chat.text(_talk("QQ1", "AA1"))),
            "gen_prompt_is_prefix_of_training_render": full.startswith(prompt),
            "generation_prompt": prompt[len(asked) :] if prompt.startswith(asked) else prompt[-30:],
        }  # fmt: skip
    return {"bos_in_template": full.count("<BOS>"), "between_assistant_and_next_user": between}


def _between(text: str, left: str, right: str) -> str:
    return text.partition(left)[2].partition(right)[0]


def _thoughts(chat: ChatTemplate) -> dict[str, Any]:
    """Return what becomes of reasoning, written inline and as a field."""
    inline = [f"<think>\nRR{at}\n</think>\n\nAA{at}" for at in (1, 2)]
    forms = {
        "inline": _talk("QQ1", inline[0], "QQ2", inline[1]),
        "field": [
            {**said, "reasoning_content": f"RR{said['content'][-1]}"} if said["role"] == "assistant" else said
            for said in _talk("QQ1", "AA1", "QQ2", "AA2")
        ],
    }
    found: dict[str, Any] = {}
    for name, said in forms.items():
        try:
            text, start = chat.text(said), chat.text(said[:2])
        except BadTemplate as error:
            found[f"reasoning_{name}"] = _error(error)
            continue
        past, last = ("kept" if f"RR{at}" in text else "dropped" for at in (1, 2))
        found[f"reasoning_{name}"] = f"{past} in history / {last} in last"
        found[f"prefix_preserving_reasoning_{name}"] = text.startswith(start)
    return found


def _system(chat: ChatTemplate) -> dict[str, Any]:
    system = {"role": "system", "content": "SYS1"}
    first, talk = _tried(chat, [system, *_talk("QQ1", "AA1")], "SYS1"), _talk("QQ1", "AA1", "QQ2", "AA2")
    found = {"system": first, "mid_system": _tried(chat, [*talk[:2], system, *talk[2:]], "SYS1")}
    if first == "rendered":
        text = chat.text([system, *_talk("QQ1", "AA1")])
        found["system_position"] = ("before" if text.index("SYS1") < text.index("QQ1") else "after") + " first user"
    return found


def _tried(chat: ChatTemplate, said: Sequence[Said], *wanted: str) -> str:
    try:
        text = chat.text(said)
    except BadTemplate:
        return "error"
    return "rendered" if all(part in text for part in wanted) else "silently dropped"


def _blanks(chat: ChatTemplate, role: str) -> str:
    said = [{**one, "content": f"  {one['content']}  "} if one["role"] == role else one for one in _talk("QQ1", "AA1")]
    try:
        return "kept" if ("  QQ1  " if role == "user" else "  AA1  ") in chat.text(said) else "trimmed"
    except BadTemplate as error:
        return _error(error)


def _called(chat: ChatTemplate, arguments: Any) -> str:
    said = [
        *_talk("QQ1"),
        {"role": "assistant", "content": "", "tool_calls": [{"id": _ID, **_call(arguments)}]},
        {"role": "tool", "content": "TR1", "tool_call_id": _ID, "name": "count_words"},
        {"role": "assistant", "content": "AA1"},
    ]
    try:
        text = chat.text(said)
    except BadTemplate as error:
        return _error(error)
    if "ARG1" in text:
        return "rendered"
    return "tool_calls dropped" if "TR1" in text else "tool turn dropped"


def _error(error: BadTemplate) -> str:
    return "ERR:" + str(error).split(": ", 2)[-1]


def date_dependent(chat: ChatTemplate) -> bool:
    """Tell whether the same conversation renders otherwise on another day."""
    said, texts = _talk("QQ1", "AA1"), set()
    for date in DATES:
        dated = ChatTemplate(chat.source, chat.tokenizer, variables=chat.variables, now=date)
        with contextlib.suppress(BadTemplate):
            texts.add(dated.text(said))
    return len(texts) > 1


def _tags(chat: ChatTemplate) -> dict[str, Any]:
    rendered = chat.render(_talk("QQ1", "AA1", "QQ2", "AA2"))
    spans: list[tuple[int, int, int | None]] = []
    for run in rendered.runs:
        if run.generated and spans and spans[-1][1:] == (run.start, run.frame):
            spans[-1] = spans[-1][0], run.stop, run.frame
        elif run.generated:
            spans.append((run.start, run.stop, run.frame))
    found: dict[str, Any] = {"generation_tags": bool(spans)}
    return {**found, "generation_spans": [rendered.text[start:stop] for start, stop, _ in spans]} if spans else found


# ---------------------------------------------------------------- probes


def _conversation(name: str, said: Sequence[Said], tools: Sequence[Said] = ()) -> Conversation:
    messages = (
        Message(
            one["role"], one.get("content") or "", one.get("reasoning_content"), tuple(one.get("tool_calls", ())),
            one.get("tool_call_id"),
        )
        for one in said
    )  # fmt: skip
    return Conversation(name, tuple(messages), tuple(tools))


_PLAIN = _talk("Count the words.", "Three words.", "And now?", "Ten words.")
_SYSTEM = {"role": "system", "content": "Be brief."}
_THOUGHT = "<think>\nonce\n</think>\n\n"
_RESULT = {"role": "tool", "content": "3", "tool_call_id": _ID}


def _using(arguments: Any) -> list[dict[str, Any]]:
    """Return a chat with one call, its result and the answer."""
    called = {"role": "assistant", "content": "", "tool_calls": [{"id": _ID, **_call(arguments)}]}
    return [*_PLAIN[:1], called, _RESULT, *_PLAIN[1:2]]


_CALLS_TWICE = [
    _PLAIN[0],
    {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [{"id": f"call0000{at}", **_call({"text": text})} for at, text in ((1, "a"), (2, "b c"))],
    },
    _RESULT,
    {**_RESULT, "content": "4", "tool_call_id": "call00002"},
    _PLAIN[1],
]

#: What any template should take: rendered for every diagnosis.
PLAIN = _conversation("plain", _PLAIN)

#: What a diagnosis looks at where no data are given, each for one thing templates do.
PROBES: tuple[Conversation, ...] = (
    PLAIN,
    _conversation("one turn", _PLAIN[:2]),
    _conversation("system", [_SYSTEM, *_PLAIN]),
    _conversation("system in the middle", [*_PLAIN[:2], _SYSTEM, *_PLAIN[2:]]),
    _conversation("inline think", _talk(_PLAIN[0]["content"], _THOUGHT + "Three.", "And now?", _THOUGHT + "Ten.")),
    _conversation(
        "reasoning field",
        [{**one, "reasoning_content": "once"} if one["role"] == "assistant" else one for one in _PLAIN],
    ),
    _conversation("tools", _using({"text": "a b c", "deep": {"n": [1, 2]}}), [_TOOL]),
    _conversation("tools with text arguments", _using('{"text": "a b c"}'), [_TOOL]),
    _conversation("two calls", _CALLS_TWICE, [_TOOL]),
    _conversation("blanks", _talk("  for i in range(10):", "    print(i)\n", "and?", "  nothing  ")),
    _conversation("code", _talk("Write it.", "```python\ndef f(x):\n    return x ** 2\n```", "Shorter.", "x*x")),
    _conversation("languages", _talk("你好，世界。", "こんにちは 👩‍👧", "naïve café", "بخير")),
    _conversation("empty answer", _talk("Say nothing.", "", "And now?", "Ten words.")),
    _conversation("two answers", [*_PLAIN[:2], {"role": "assistant", "content": "Or four."}]),
)

#: A message as some data sets have it: a call with null content, which `transformers` hands on without content.
NULL_CONTENT: tuple[dict[str, Any], ...] = (
    _PLAIN[0],
    {"role": "assistant", "content": None, "tool_calls": [{"id": _ID, **_call({"text": "a"})}]},
    _RESULT,
    _PLAIN[1],
)


# ---------------------------------------------------------------- a tokenizer where none was given

#: What such a tokenizer is called.
STAND_IN = "stand-in"
_BRACKETED = re.compile(r"</?[A-Za-z][\w:]*>|\[/?[A-Za-z_]+\]")


def stand_in(source: str) -> AutoTokenizer:
    """Return a tokenizer in which every marker a template spells is one token.

    Examples
    --------
    >>> stand_in("{{ '<|im_start|>' }}").id("<|im_start|>")
    2
    """
    found = dict.fromkeys(["<s>", "</s>", *MARKER.findall(source), *_BRACKETED.findall(source)])
    tokenizer = AutoTokenizer().train(["a"], vocab_size=256 + len(found), special_tokens=list(found))
    tokenizer.name = STAND_IN
    return tokenizer
