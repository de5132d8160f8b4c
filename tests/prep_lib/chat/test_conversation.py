"""Every usual form becomes the same messages; what cannot be said is an error with its place."""

from __future__ import annotations

import contextlib
import copy
import datetime
import gzip
import json
import pickle
from collections import ChainMap
from typing import Any

import pyarrow as pa
import pytest
from conftest import shared
from hypothesis import given
from hypothesis import strategies as st

from prep_lib.chat.conversation import FORMS, ROLES, Recognised, form_of, forms, read, recognise
from prep_lib.errors import BadRecord, UnknownName
from prep_lib.record import Conversation, Document, Message, Preference, Rated

ASKED = {"role": "user", "content": "2 + 2?"}
ANSWERED = {"role": "assistant", "content": "4"}
USER, FOUR, FIVE = Message("user", "2 + 2?"), Message("assistant", "4"), Message("assistant", "5")
CALL = {"type": "function", "id": "c1", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}
TOOL = {"type": "function", "function": {"name": "weather", "description": "Now", "parameters": {"type": "object"}}}


def talk(*messages: dict[str, Any], **columns: Any) -> Conversation:
    found = read({"messages": list(messages), **columns})
    assert isinstance(found, Conversation)
    return found


def only(message: dict[str, Any]) -> Message:
    """The message read from one message behind a question."""
    return talk(ASKED, message).messages[1]


def pair(record: dict[str, Any], form: str | None = None) -> Preference:
    found = read(record, form)
    assert isinstance(found, Preference)
    return found


# ---------------------------------------------------------------- the forms


FORMS_BY_EXAMPLE: list[tuple[str, dict[str, Any], Any]] = [
    ("messages", {"messages": [ASKED, ANSWERED]}, Conversation("r", (USER, FOUR))),
    ("messages", {"conversations": [ASKED, ANSWERED]}, Conversation("r", (USER, FOUR))),
    (
        "sharegpt",
        {"conversations": [{"from": "human", "value": "2 + 2?"}, {"from": "gpt", "value": "4"}]},
        Conversation("r", (USER, FOUR)),
    ),
    ("alpaca", {"instruction": "2 + 2?", "input": "", "output": "4"}, Conversation("r", (USER, FOUR))),
    ("query_response", {"query": "2 + 2?", "response": "4"}, Conversation("r", (USER, FOUR))),
    ("prompt_completion", {"prompt": "2 + 2?", "completion": "4"}, Conversation("r", (USER, FOUR))),
    ("prompt_completion", {"prompt": [ASKED], "completion": [ANSWERED]}, Conversation("r", (USER, FOUR))),
    ("kto", {"messages": [ASKED, ANSWERED], "label": True}, Rated("r", (USER, FOUR), True)),
    ("kto", {"prompt": "2 + 2?", "completion": "5", "label": False}, Rated("r", (USER, FIVE), False)),
    ("kto", {"instruction": "2 + 2?", "output": "5", "kto_tag": False}, Rated("r", (USER, FIVE), False)),
    (
        "preference_prompt",
        {"prompt": "2 + 2?", "chosen": "4", "rejected": "5"},
        Preference("r", (USER,), (FOUR,), (FIVE,)),
    ),
    (
        "preference_prompt",
        {"prompt": [ASKED], "chosen": [ANSWERED], "rejected": [{"role": "assistant", "content": "5"}]},
        Preference("r", (USER,), (FOUR,), (FIVE,)),
    ),
    (
        "preference_query",
        {"query": "2 + 2?", "chosen": "4", "rejected": "5"},
        Preference("r", (USER,), (FOUR,), (FIVE,)),
    ),
    (
        "preference_alpaca",
        {"instruction": "2 + 2?", "input": "", "chosen": "4", "rejected": "5"},
        Preference("r", (USER,), (FOUR,), (FIVE,)),
    ),
    (
        "preference_messages",
        {"messages": [ASKED], "chosen": ANSWERED, "rejected": "5"},
        Preference("r", (USER,), (FOUR,), (FIVE,)),
    ),
    (
        "preference_sharegpt",
        {
            "conversations": [{"from": "human", "value": "2 + 2?"}],
            "chosen": {"from": "gpt", "value": "4"},
            "rejected": {"from": "gpt", "value": "5"},
        },
        Preference("r", (USER,), (FOUR,), (FIVE,)),
    ),
    (
        "preference_implicit",
        {"chosen": [ASKED, ANSWERED], "rejected": [ASKED, {"role": "assistant", "content": "5"}]},
        Preference("r", (USER,), (FOUR,), (FIVE,)),
    ),
    (
        "preference_pair",
        {"chosen_messages": [ASKED, ANSWERED], "rejected_messages": [ASKED, {"role": "assistant", "content": "5"}]},
        Preference("r", (USER,), (FOUR,), (FIVE,)),
    ),
    (
        "preference_rejected",
        {"messages": [ASKED, ANSWERED], "rejected_messages": [ASKED, {"role": "assistant", "content": "5"}]},
        Preference("r", (USER,), (FOUR,), (FIVE,)),
    ),
    (
        "preference_response",
        {"messages": [ASKED, ANSWERED], "rejected_response": "5"},
        Preference("r", (USER,), (FOUR,), (FIVE,)),
    ),
    ("text", {"text": "Once upon a time"}, Document("r", "Once upon a time")),
]


@pytest.mark.parametrize(("form", "record", "expected"), FORMS_BY_EXAMPLE)
def test_a_form_is_recognised_and_read(form: str, record: dict[str, Any], expected: Any) -> None:
    before = copy.deepcopy(record)
    assert form_of(record) == form
    assert read(record, id="r") == expected
    assert read(record, form, id="r") == expected
    assert record == before


def test_every_form_has_an_example() -> None:
    assert {form for form, _, _ in FORMS_BY_EXAMPLE} == set(FORMS)


@pytest.mark.parametrize(("form", "record", "expected"), FORMS_BY_EXAMPLE)
def test_columns_of_other_forms_filled_with_nulls_change_nothing(
    form: str, record: dict[str, Any], expected: Any
) -> None:
    names = {name for _, other, _ in FORMS_BY_EXAMPLE for name in other}
    padded = {**dict.fromkeys(sorted(names)), **record}
    assert form_of(padded) == form
    assert read(padded, id="r") == expected


def test_any_mapping_is_a_record() -> None:
    assert read(ChainMap({"query": "2 + 2?"}, {"response": "4"})) == Conversation("", (USER, FOUR))


def test_a_form_can_be_named_where_columns_allow_several() -> None:
    record = {"query": "2 + 2?", "response": "4", "messages": [ASKED, {"role": "assistant", "content": "5"}]}
    assert form_of(record) == "messages"
    assert read(record, "query_response") == Conversation("", (USER, FOUR))
    with pytest.raises(UnknownName, match=r"unknown form 'sharegtp'; did you mean 'sharegpt'\?"):
        read(record, "sharegtp")


def test_alpaca_has_history_system_and_an_input_on_a_line_of_its_own() -> None:
    record = {
        "instruction": "Add.",
        "input": "2, 2",
        "output": "4",
        "system": "Be brief.",
        "history": [["Hi", "Hello"]],
    }
    found = read(record)
    assert isinstance(found, Conversation)
    assert [(m.role, m.content) for m in found.messages] == [
        ("system", "Be brief."),
        ("user", "Hi"),
        ("assistant", "Hello"),
        ("user", "Add.\n2, 2"),
        ("assistant", "4"),
    ]


@pytest.mark.parametrize("record", [{"instruction": "", "input": "2, 2"}, {"instruction": None, "input": "2, 2"}])
def test_an_alpaca_record_of_input_alone_has_no_line_feed(record: dict[str, Any]) -> None:
    found = read({**record, "output": "4"}, "alpaca")
    assert isinstance(found, Conversation)
    assert found.messages[0].content == "2, 2"


def test_query_and_response_have_history_too() -> None:
    found = read({"query": "2 + 2?", "response": "4", "history": [["Hi", "Hello"]]})
    assert found == Conversation("", (Message("user", "Hi"), Message("assistant", "Hello"), USER, FOUR))


def test_answers_inside_a_prompt_are_context() -> None:
    prompt = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}, ASKED]
    found = read({"prompt": prompt, "completion": "4"})
    assert isinstance(found, Conversation)
    assert [m.train for m in found.messages] == [None, False, None, None]


def test_a_system_column_stands_before_the_messages_once() -> None:
    system = Message("system", "Be brief.")
    assert talk(ASKED, ANSWERED, system="Be brief.").messages == (system, USER, FOUR)
    assert talk({"role": "system", "content": "Be brief."}, ASKED, system="Be brief.").messages == (system, USER)
    assert talk(ASKED, ANSWERED, system="").messages == (USER, FOUR)
    with pytest.raises(BadRecord, match="two_systems: system: the first message is a system text too"):
        talk({"role": "system", "content": "Be long."}, ASKED, system="Be brief.")


# ---------------------------------------------------------------- roles


@pytest.mark.parametrize("spelled", sorted(set(ROLES) - {"function_call", "tool_call"}))
def test_roles_are_mapped_in_both_spellings_of_a_message(spelled: str) -> None:
    assert talk({"role": spelled, "content": "x"}).messages[0].role == ROLES[spelled]
    assert talk({"from": spelled, "value": "x"}).messages[0].role == ROLES[spelled]


def test_log_8_aliases_are_mapped_before_anyone_compares_them() -> None:
    # axolotl PR 2123: roles_to_train "gpt" was compared with the mapped name, and whole rows were ignored.
    assert only({"from": "gpt", "value": "4", "train": True}) == Message("assistant", "4", train=True)


def test_section_2_item_16_an_unmapped_role_is_an_error_and_never_a_vanished_turn() -> None:
    with pytest.raises(BadRecord, match=r"unknown_role: messages\[1\]\.role: 'narrator'; known: ai, assistant, bot"):
        talk(ASKED, {"role": "narrator", "content": "Once"})
    with pytest.raises(BadRecord, match=r"unknown_role: conversations\[0\]\.from: 'Human'; known"):
        read({"conversations": [{"from": "Human", "value": "Hi"}]})


def test_logs_34_and_58_system_texts_stay_wherever_they_stand() -> None:
    # What a template does with them is told by the template's findings; reading loses none.
    found = talk(ASKED, ANSWERED, {"role": "system", "content": "Be brief."}, ASKED, ANSWERED)
    assert [m.role for m in found.messages] == ["user", "assistant", "system", "user", "assistant"]


def test_roles_in_any_order_are_read() -> None:
    assert [m.role for m in talk(ANSWERED, ASKED, ASKED).messages] == ["assistant", "user", "user"]


# ---------------------------------------------------------------- content, reasoning, parts


def test_log_33_blanks_at_the_end_of_a_message_stay() -> None:
    assert only({"role": "assistant", "content": "4 \n"}).content == "4 \n"


def test_inline_think_blocks_stay_in_the_content() -> None:
    told = only({"role": "assistant", "content": "<think>\n2 + 2\n</think>\n4"})
    assert told.reasoning is None
    assert told.content.startswith("<think>")


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking"])
def test_log_37_reasoning_travels_with_its_message(key: str) -> None:
    assert only({**ANSWERED, key: "add"}) == Message("assistant", "4", reasoning="add")
    assert only({**ANSWERED, key: None}) == FOUR
    assert only({**ANSWERED, key: ""}).reasoning == ""  # a thought of nothing, which templates tell from none


def test_two_spellings_may_say_the_same() -> None:
    assert only({**ANSWERED, "reasoning": "add", "reasoning_content": "add"}).reasoning == "add"
    assert only({**ANSWERED, "reasoning": "", "reasoning_content": "add"}).reasoning == "add"
    with pytest.raises(BadRecord, match=r"two_fields: messages\[1\]\.thinking: says something else than 'reasoning'"):
        only({**ANSWERED, "reasoning": "add", "thinking": "count"})


def test_text_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "2 + "}, {"type": "text", "value": "2?", "image_url": None}]
    assert talk({"role": "user", "content": parts}).messages == (USER,)
    assert talk({"role": "user", "content": []}).messages[0].content == ""


def test_reasoning_and_calls_may_be_parts() -> None:
    parts = [
        {"type": "reasoning", "value": "Ask "},
        {"type": "thinking", "thinking": "the service."},
        {"type": "text", "value": "Wait."},
        {"type": "tool_call", "value": '{"name": "weather", "arguments": {"city": "Oslo", "unit": null}}'},
        {"type": "tool_call", "value": {"name": "weather", "arguments": {"city": "Bergen"}}},
    ]
    told = only({"role": "assistant", "content": parts})
    assert (told.reasoning, told.content) == ("Ask the service.", "Wait.")
    assert [call["function"]["arguments"] for call in told.tool_calls] == [
        {"city": "Oslo", "unit": None},
        {"city": "Bergen"},
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([{"type": "image_url", "image_url": {"url": "x"}}], "unknown_part: {}[0].type: 'image_url'; known: text"),
        ([{"text": "x"}], "unknown_part: {}[0].type: 'None'; known: text, reasoning, thinking, tool_call"),
        (["x"], "wrong_type: {}[0]: a part must be an object, got str"),
        ([{"type": "text"}], "missing_content: {}[0].text: missing or null, and nothing else is said"),
        ([{"type": "text", "text": 4}], "wrong_type: {}[0]: must be a text, got int"),
        ([{"type": "text", "text": "x", "value": "y"}], "two_fields: {}[0]: holds more than one of text, value"),
        ([{"type": "text", "text": "x", "train": False}], "unknown_field: {}[0].train: would be lost"),
        (
            [{"type": "text", "text": "x"}, {"type": "reasoning", "value": "y"}],
            "part_order: {}[1].type: 'reasoning' behind what must follow it: reasoning, text, tool_call",
        ),
        ([{"type": "tool_call", "value": "weather()"}], "bad_json: {}[0]: "),
        ([{"type": "tool_call", "value": "[]"}], "bad_tool_call: {}[0]: holds no call"),
        (4, "wrong_type: {}: must be a text, null or a list of parts, got int"),
    ],
)
def test_content_that_cannot_be_said_is_an_error_with_its_place(content: Any, sentence: str) -> None:
    with pytest.raises(BadRecord) as caught:
        only({"role": "assistant", "content": content})
    assert sentence.format("messages[1].content") in str(caught.value)


def test_section_2_item_28_null_content_beside_tool_calls_is_an_empty_text() -> None:
    told = only({"role": "assistant", "content": None, "tool_calls": [CALL]})
    assert told == Message("assistant", "", tool_calls=(CALL,))
    assert told.as_dict()["content"] == ""
    assert only({"role": "assistant", "tool_calls": [CALL]}) == told
    assert only({"role": "assistant", "content": None}).content == ""


@pytest.mark.parametrize("role", ["system", "user", "tool"])
@pytest.mark.parametrize("content", [{}, {"content": None}])
def test_others_need_a_content(role: str, content: dict[str, Any]) -> None:
    with pytest.raises(BadRecord, match=r"missing_content: messages\[0\]\.content: missing or null"):
        talk({"role": role, **content})


# ---------------------------------------------------------------- tool calls and tools


def test_section_2_item_28_arguments_stay_as_they_were_written() -> None:
    as_text = {"type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo", "unit": null}'}}
    calls = only({"role": "assistant", "content": None, "tool_calls": [CALL, as_text]}).tool_calls
    assert calls[0] is CALL
    assert calls[1] == as_text


def test_bare_calls_and_the_old_function_call_get_the_form_of_the_field() -> None:
    bare = {"name": "weather", "arguments": "{}"}
    wrapped = {"type": "function", "function": bare}
    assert only({"role": "assistant", "content": None, "function_call": bare}).tool_calls == (wrapped,)
    assert only({"role": "assistant", "content": None, "tool_calls": [bare]}).tool_calls == (wrapped,)
    with_id = only({"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": bare}]}).tool_calls
    assert with_id == ({"type": "function", "id": "c1", "function": bare},)


def test_a_function_call_turn_is_an_assistant_calling_and_its_observation_a_tool() -> None:
    turns = [
        {"from": "human", "value": "Weather?"},
        {"from": "function_call", "value": '{"name": "weather", "arguments": {"city": "Oslo", "unit": null}}'},
        {"from": "observation", "value": "rain"},
        {"from": "function_call", "value": '[{"name": "a", "arguments": {}}, {"name": "b", "arguments": {}}]'},
    ]
    found = read({"conversations": turns, "tools": json.dumps([TOOL["function"]])})
    assert isinstance(found, Conversation)
    assert [m.role for m in found.messages] == ["user", "assistant", "tool", "assistant"]
    assert found.messages[1].content == ""
    # A null inside JSON was meant.
    assert found.messages[1].tool_calls[0]["function"]["arguments"] == {"city": "Oslo", "unit": None}
    assert [call["function"]["name"] for call in found.messages[3].tool_calls] == ["a", "b"]
    assert found.tools == (TOOL,)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"tool_calls": "weather()"}, "wrong_type: {}.tool_calls: must be a list of calls, got str"),
        ({"tool_calls": ["weather"]}, "bad_tool_call: {}.tool_calls[0]: a call must be an object, got str"),
        ({"tool_calls": [CALL, {"name": "f"}]}, "bad_tool_call: {}.tool_calls[1].arguments: missing; a call without"),
        (
            {"tool_calls": [{"function": {"name": "f", "arguments": [1]}}]},
            "bad_tool_call: {}.tool_calls[0].function.arguments: must be an object or a text, got list",
        ),
        ({"tool_calls": [{"function": {"name": "", "arguments": {}}}]}, "{}.tool_calls[0].function.name: must be a"),
        ({"tool_calls": [{**CALL, "type": "web"}]}, "bad_tool_call: {}.tool_calls[0].type: 'web'; known: function"),
        ({"tool_calls": [{**CALL, "index": 0}]}, "unknown_field: {}.tool_calls[0].index: would be lost"),
        ({"tool_calls": [{**CALL, "id": 7}]}, "wrong_type: {}.tool_calls[0].id: must be a text, got int"),
        ({"tool_calls": [{"function": "f"}]}, "bad_tool_call: {}.tool_calls[0].function: must be an object, got str"),
        (
            {"tool_calls": [{"function": {"name": "f", "arguments": {}, "strict": True}}]},
            "unknown_field: {}.tool_calls[0].function.strict: would be lost",
        ),
        (
            {"tool_calls": [{"name": "f", "arguments": {"n": float("nan")}}]},
            "nan: {}.tool_calls[0].arguments.n: JSON has",
        ),
        (
            {"tool_calls": [{"name": "f", "arguments": {"n": {1}}}]},
            "not_json: {}.tool_calls[0].arguments.n: builtins.set",
        ),
        ({"tool_calls": [{"name": "f", "arguments": {1: 2}}]}, "key_not_str: {}.tool_calls[0].arguments: int key"),
        ({"function_call": "weather()"}, "bad_tool_call: {}.function_call: a call must be an object, got str"),
        ({"function_call": {"name": "f", "arguments": "{}"}, "tool_calls": [CALL]}, "two_fields: {}.tool_calls: says"),
        ({"role": "user", "content": "x", "tool_calls": [CALL]}, "role_field: {}.tool_calls: only an assistant has"),
        ({"role": "user", "content": "x", "reasoning": "y"}, "role_field: {}.reasoning: only an assistant has"),
        ({"role": "function_call", "content": "weather()"}, "bad_json: {}.content: "),
        ({"role": "function_call", "content": '{"name": "f", "name": "g"}'}, "duplicate_key: {}.content: name of the"),
        ({"role": "tool_call", "content": "4"}, "bad_tool_call: {}.content: a call must be an object, got int"),
        (
            {"content": [{"type": "tool_call", "value": '{"name": "f", "arguments": {}}'}], "tool_calls": [CALL]},
            "two_fields: {}.tool_calls: the content says it too; keep one of them",
        ),
        ({"content": [{"type": "reasoning", "value": "x"}], "thinking": "y"}, "two_fields: {}.thinking: the content"),
        ({"role": "tool", "content": "x", "tool_call_id": 7}, "wrong_type: {}.tool_call_id: must be a text, got int"),
    ],
)
def test_calls_that_cannot_be_said_are_errors_with_their_place(said: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadRecord) as caught:
        only({"role": "assistant", "content": None, **said})
    assert sentence.format("messages[1]") in str(caught.value)


@pytest.mark.parametrize("tools", [[TOOL], [TOOL["function"]]])
def test_tools_are_a_list_or_its_json(tools: list[dict[str, Any]]) -> None:
    assert talk(ASKED, tools=tools).tools == (TOOL,)
    assert talk(ASKED, tools=json.dumps(tools)).tools == (TOOL,)
    assert talk(ASKED, tools=[json.dumps(tool) for tool in tools]).tools == (TOOL,)
    assert talk(ASKED, functions=tools).tools == (TOOL,)


@pytest.mark.parametrize("tools", [None, "", " ", "[]", []])
def test_no_tools_are_no_tools(tools: Any) -> None:
    assert talk(ASKED, tools=tools).tools == ()


def test_keys_of_a_tool_keep_their_order() -> None:
    (tool,) = talk(ASKED, tools='[{"parameters": {}, "name": "f", "description": "b"}]').tools
    assert list(tool["function"]) == ["parameters", "name", "description"]


@pytest.mark.parametrize(
    ("tools", "sentence"),
    [
        ({"name": "f"}, "bad_tool: tools: must be a list, or the JSON of one, got dict"),
        ('{"name": "f"}', "bad_tool: tools: must be a list, or the JSON of one, got dict"),
        ("weather", "bad_json: tools: "),
        ([TOOL, 4], "bad_tool: tools[1]: a tool must be an object, got int"),
        ([{"type": "web_search"}], "bad_tool: tools[0].name: missing; a tool is a function with a name"),
        ([{"type": "function", "function": {}}], "bad_tool: tools[0].function.name: missing"),
        ([{"name": "f", "description": "\ud800"}], "lone_surrogate: tools[0].description: JSON has"),
        ("[\ud800]", "lone_surrogate: tools: half of a surrogate pair at character 1"),
    ],
)
def test_tools_that_are_none_are_errors_with_their_place(tools: Any, sentence: str) -> None:
    with pytest.raises(BadRecord) as caught:
        talk(ASKED, tools=tools)
    assert sentence in str(caught.value)


def test_section_2_item_29_nulls_a_table_adds_are_taken_out() -> None:
    def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"type": "function", "function": {"name": name, "arguments": arguments}}

    def tool(name: str, properties: dict[str, Any]) -> dict[str, Any]:
        return {"type": "function", "function": {"name": name, "parameters": {"properties": properties}}}

    weather, add = {"city": {"type": "string"}}, {"n": {"type": "array", "items": {"type": "number"}}}
    rows = [
        {
            "messages": [
                ASKED,
                {"role": "assistant", "tool_calls": [call("weather", {"city": "Oslo"}), call("now", {})]},
            ],
            "tools": [tool("weather", weather), tool("now", {})],
        },
        {
            "messages": [{"role": "assistant", "tool_calls": [call("add", {"n": [1, 2]})]}, {**ANSWERED, "weight": 1}],
            "tools": [tool("add", add)],
        },
    ]
    table = pa.Table.from_pylist(rows).to_pylist()
    assert table[0]["tools"][0]["function"]["parameters"]["properties"]["n"] is None
    assert table[0]["messages"][0]["tool_calls"] is None
    for row, padded in zip(rows, table, strict=True):
        assert read(padded) == read(row)


def test_dates_a_table_made_of_arguments_become_texts() -> None:
    arguments = {"at": datetime.datetime(2024, 1, 2, 3, 4), "unit": None}
    (call,) = only({"role": "assistant", "tool_calls": [{"name": "f", "arguments": arguments}]}).tool_calls
    assert call["function"]["arguments"] == {"at": "2024-01-02T03:04:00"}


def test_nulls_that_are_no_padding_stay() -> None:
    text = '{"unit": null}'
    (call,) = only({"role": "assistant", "tool_calls": [{"name": "f", "arguments": text}]}).tool_calls
    assert call["function"]["arguments"] == text
    tools = [{"name": "f", "parameters": {"unit": {"enum": ["c", None], "default": None}}}]
    assert talk(ASKED, tools=tools).tools[0]["function"]["parameters"] == {"unit": {"enum": ["c", None]}}
    assert talk(ASKED, tools=json.dumps(tools)).tools[0]["function"] == tools[0]


def test_a_struct_of_nulls_says_nothing() -> None:
    padded = {
        "function_call": {"name": None, "arguments": None},
        "tool_calls": [],
        "audio": {"id": None},
        "refusal": "",
    }
    assert only({**ANSWERED, **padded}) == FOUR


# ---------------------------------------------------------------- flags


@pytest.mark.parametrize("key", ["train", "training", "trainable"])
@pytest.mark.parametrize("flag", [True, False, None])
def test_train_flags(key: str, flag: bool | None) -> None:
    assert only({**ANSWERED, key: flag}).train is flag


@pytest.mark.parametrize("key", ["weight", "loss_weight", "loss"])
@pytest.mark.parametrize(("told", "weight"), [(0, 0.0), (0.5, 0.5), (True, 1.0), (False, 0.0), (None, None)])
def test_weights(key: str, told: Any, weight: float | None) -> None:
    found = only({**ANSWERED, key: told}).weight
    assert found == weight
    assert type(found) is type(weight)


def test_flag_and_weight_are_both_kept() -> None:
    assert only({**ANSWERED, "train": True, "weight": 0}) == Message("assistant", "4", train=True, weight=0.0)


def test_what_is_context_anyway_may_say_so() -> None:
    assert talk({**ASKED, "train": False, "loss_weight": 0.0}).messages == (
        Message("user", "2 + 2?", train=False, weight=0.0),
    )


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({**ANSWERED, "train": 1}, "wrong_type: {}.train: must be true, false or null, got int"),
        ({**ANSWERED, "weight": "1"}, "wrong_type: {}.weight: must be a number, true or false, got str"),
        ({**ANSWERED, "weight": -1}, "bad_weight: {}.weight: must be 0 or more and finite, got -1"),
        ({**ANSWERED, "loss": float("nan")}, "bad_weight: {}.loss: must be 0 or more and finite, got nan"),
        ({**ANSWERED, "loss": float("inf")}, "bad_weight: {}.loss: must be 0 or more and finite, got inf"),
        ({**ANSWERED, "weight": 10**400}, "bad_weight: {}.weight: must be 0 or more and finite, got 1000"),
        ({**ASKED, "training": True}, "train_role: {}.training: only an assistant's message can be trained, got role"),
        (
            {**ASKED, "weight": 0.5},
            "train_role: {}.weight: only an assistant's message can be trained, got role 'user'",
        ),
        ({**ANSWERED, "train": True, "training": False}, "two_fields: {}.training: says something else than 'train'"),
    ],
)
def test_flags_that_mean_nothing_are_errors(said: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadRecord) as caught:
        only(said)
    assert sentence.format("messages[1]") in str(caught.value)


# ---------------------------------------------------------------- what cannot be said


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({"question": "2 + 2?", "answer": "4"}, "unknown_form: columns 'question', 'answer'; rename them"),
        ({}, "unknown_form: columns none; rename them to those of a known form: preference_pair, "),
        ([ASKED], "wrong_type: a record must be an object, got list"),
        ({"messages": []}, "empty_conversation: messages: holds no message"),
        ({"conversations": "Hi"}, "wrong_type: conversations: must be a list of messages, got str"),
        ({"messages": ["Hi"]}, "wrong_type: messages[0]: a message must be an object, got str"),
        ({"messages": [ASKED, {"content": "4"}]}, "missing_field: messages[1].role: missing; a message names who"),
        ({"conversations": [{"from": None, "value": "4"}]}, "missing_field: conversations[0].from: missing"),
        ({"messages": [{"role": ["user"], "content": "4"}]}, "wrong_type: messages[0].role: must be a text, got list"),
        ({"messages": [{**ASKED, "images": ["a.png"]}]}, "unknown_field: messages[0].images: would be lost"),
        ({"messages": [{**ASKED, "timestamp": 7}]}, "unknown_field: messages[0].timestamp: would be lost"),
        ({"messages": [ASKED], "images": ["a.png"]}, "unread_column: images: no conversation here can say it"),
        ({"messages": [{"role": "user", "content": "a\ud800"}]}, "lone_surrogate: messages[0].content: half of a"),
        ({"conversations": [{"from": "gpt", "value": "\udcff"}]}, "lone_surrogate: conversations[0].value: half of a"),
        ({"query": "2", "response": "\udcff"}, "lone_surrogate: response: half of a surrogate pair at character 0"),
        ({"query": 2, "response": "4"}, "wrong_type: query: must be a text, got int"),
        ({"instruction": 2, "output": "4"}, "wrong_type: instruction: must be a text, got int"),
        ({"instruction": "2", "output": "4", "history": "Hi"}, "wrong_type: history: must be a list of pairs, got str"),
        ({"query": "2", "response": "4", "history": [["Hi"]]}, "wrong_type: history[0]: must be a pair of question"),
        ({"query": "2", "response": "4", "history": [["Hi", None]]}, "wrong_type: history[0][1]: must be a text"),
        ({"query": "2", "response": "4", "system": 7}, "wrong_type: system: must be a text, got int"),
        ({"prompt": "2", "completion": [ASKED]}, "no_answer: completion: holds no message of an assistant"),
        ({"messages": [ASKED], "label": True}, "no_answer: label: rates the last message, and that is no answer"),
        ({"text": 4}, "wrong_type: text: must be a text, got int"),
        ({"prompt": "2", "chosen": [ASKED], "rejected": "5"}, "no_answer: chosen: holds no message of an assistant"),
        ({"chosen": "Hi 4", "rejected": "Hi 5"}, "implicit_prompt_text: chosen: without a prompt it must be a list"),
        ({"chosen": [ANSWERED], "rejected": [ANSWERED]}, "no_shared_prompt: chosen and rejected: begin with different"),
        (
            {"chosen": [ASKED, ANSWERED], "rejected": [{"role": "user", "content": "3?"}, ANSWERED]},
            "no_shared_prompt: chosen and rejected: begin with different messages",
        ),
        (
            {"prompt": "9?", "chosen": [ASKED, ANSWERED], "rejected": [ASKED, ANSWERED]},
            "prompt_differs: prompt: chosen and rejected begin with another one",
        ),
        (
            {
                "chosen": [ASKED, ANSWERED, {"role": "user", "content": "3?"}, ANSWERED],
                "rejected": [ASKED, ANSWERED, {"role": "user", "content": "4?"}, ANSWERED],
            },
            "prompt_differs: chosen: the answer begins with role 'user'; both need one shared prompt",
        ),
    ],
)
def test_what_cannot_be_said_is_an_error_with_its_place(record: Any, sentence: str) -> None:
    with pytest.raises(BadRecord) as caught:
        read(record)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ("sharegpt", "missing_field: messages or conversations or conversation: missing; the record has 'text'"),
        ("alpaca", "missing_field: instruction or input: missing; the record has 'text'"),
        ("query_response", "missing_field: query: missing; the record has 'text'"),
        ("prompt_completion", "missing_field: prompt: missing; the record has 'text'"),
        ("kto", "missing_field: label or kto_tag: missing; the record has 'text'"),
        ("preference_prompt", "missing_field: chosen: missing; the record has 'text'"),
        ("preference_implicit", "missing_field: chosen or chosen_messages or messages: missing"),
        ("preference_response", "missing_field: messages or conversations or conversation: missing"),
    ],
)
def test_a_named_form_needs_its_columns(form: str, sentence: str) -> None:
    with pytest.raises(BadRecord) as caught:
        read({"text": "x"}, form)
    assert sentence in str(caught.value)
    with pytest.raises(BadRecord, match="wrong_type: a record must be an object, got str"):
        read("x", form)  # type: ignore[arg-type]


def test_a_rating_is_true_or_false() -> None:
    with pytest.raises(BadRecord, match="wrong_type: label: must be true or false, got int"):
        read({"messages": [ASKED, ANSWERED], "label": 1}, "kto")
    with pytest.raises(BadRecord, match="unknown_form: label: a rating of the form 'text'; known: messages, sharegpt"):
        read({"text": "x", "label": True}, "kto")
    # A column of that name that rates nothing is one of those nothing is made of, and said so.
    assert recognise({"messages": [ASKED, ANSWERED], "label": "maths"}).unused == ("label",)


def test_what_may_be_lost_can_be_named() -> None:
    record = {"messages": [{**ASKED, "timestamp": 7}], "images": ["a.png"]}
    assert read(record, ignore={"timestamp", "images"}) == Conversation("", (USER,))


# ---------------------------------------------------------------- preferences


def test_log_24_prompt_and_answer_reproduce_the_conversation() -> None:
    # trl PR 6433: the prompt shrank after chosen was cut, and first characters of the answer were missing.
    chosen = [ASKED, {"role": "assistant", "content": "It is 4."}]
    rejected = [ASKED, {"role": "assistant", "content": "It is 5."}]
    found = pair({"chosen": chosen, "rejected": rejected})
    assert found.prompt == (USER,)  # section 2 item 30: never cut inside a message, so never inside a word
    assert [m.as_dict() for m in found.prompt + found.chosen] == chosen
    assert [m.as_dict() for m in found.prompt + found.rejected] == rejected


def test_log_42_both_answers_share_one_prompt() -> None:
    system = {"role": "system", "content": "Be brief."}
    for prompt in ([ASKED], "2 + 2?"):
        whole = {
            "prompt": prompt,
            "chosen": [ASKED, ANSWERED],
            "rejected": [ASKED, {"role": "assistant", "content": "5"}],
        }
        assert pair(whole) == Preference("", (USER,), (FOUR,), (FIVE,))
    longer = {"prompt": "2 + 2?", "chosen": [system, ASKED, ANSWERED], "rejected": [system, ASKED, ANSWERED, ASKED]}
    assert pair(longer).prompt == (Message("system", "Be brief."), USER)


def test_equal_answers_are_read_and_left_to_the_processor() -> None:
    found = pair({"chosen": [ASKED, ANSWERED], "rejected": [ASKED, ANSWERED]})
    assert found.chosen == found.rejected == (FOUR,)


def test_a_tool_result_belongs_to_the_call_before_it() -> None:
    calling = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    found = pair(
        {
            "chosen": [ASKED, calling, {"role": "tool", "content": "rain"}, ANSWERED],
            "rejected": [ASKED, calling, {"role": "tool", "content": "sun"}, ANSWERED],
        }
    )
    assert found.prompt == (USER,)
    assert [m.role for m in found.chosen] == ["assistant", "tool", "assistant"]


def test_flags_do_not_keep_prompts_apart() -> None:
    found = pair(
        {"chosen": [{**ASKED, "weight": 0}, ANSWERED], "rejected": [ASKED, {"role": "assistant", "content": "5"}]}
    )
    assert found.prompt[0].weight == 0.0


def test_system_tools_and_history_go_with_a_pair() -> None:
    record = {"query": "2 + 2?", "chosen": "4", "rejected": "5", "history": [["Hi", "Hello"]], "system": "Be brief."}
    found = pair({**record, "tools": [TOOL]})
    assert [m.role for m in found.prompt] == ["system", "user", "assistant", "user"]
    assert found.tools == (TOOL,)


# ---------------------------------------------------------------- what was recognised


def test_what_was_recognised_is_told() -> None:
    record = {
        "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "4", "weight": 0.5}],
        "system": "Be brief.",
        "tools": "[]",
        "source": "web",
        "category": None,
    }
    assert recognise(record) == Recognised(
        "sharegpt",
        {
            "role": ("conversations[].from",),
            "content": ("conversations[].value",),
            "weight": ("conversations[].weight",),
            "tools": ("tools",),
            "system": ("system",),
        },
        ("source",),
    )


def test_an_instruction_and_its_input_become_one_question() -> None:
    found = recognise({"instruction": "Add.", "input": "2, 2", "output": "4", "history": [["a", "b"]]})
    assert found.columns == {"user": ("instruction", "input"), "assistant": ("output",), "history": ("history",)}
    assert recognise({"query": "2", "response": "4", "text": "x"}, "text").unused == ("query", "response")
    with pytest.raises(UnknownName, match="unknown form 'alpacca'"):
        recognise({"text": "x"}, "alpacca")


def test_answers_tell_their_column() -> None:
    found = recognise({"prompt": "2?", "chosen": [ANSWERED], "rejected": ["x"]})
    assert found.columns["chosen"] == ("chosen",)
    assert found.columns["role"] == ("chosen[].role",)
    assert found.columns["rejected"] == ("rejected",)


# ---------------------------------------------------------------- laws


TEXTS = st.text(max_size=8)  # without surrogates, as hypothesis makes them
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**60), 2**60) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
CALLS = st.builds(
    lambda name, arguments, id: {
        "type": "function",
        **({} if id is None else {"id": id}),
        "function": {"name": name, "arguments": arguments},
    },
    st.text(min_size=1, max_size=5),
    st.dictionaries(TEXTS, VALUES, max_size=2) | TEXTS,
    st.none() | TEXTS,
)
MESSAGES = st.one_of(
    st.builds(Message, st.sampled_from(["system", "user"]), TEXTS, name=st.none() | TEXTS),
    st.builds(
        Message,
        st.just("assistant"),
        TEXTS,
        reasoning=st.none() | TEXTS,
        tool_calls=st.lists(CALLS, max_size=2).map(tuple),
    ),
    st.builds(Message, st.just("tool"), TEXTS, tool_call_id=st.none() | TEXTS, name=st.none() | TEXTS),
)


@given(st.lists(MESSAGES, min_size=1, max_size=5).map(tuple))
def test_messages_as_templates_read_them_are_read_back(messages: tuple[Message, ...]) -> None:
    found = talk(*(message.as_dict() for message in messages))
    assert found.messages == messages
    assert read(json.loads(json.dumps({"messages": [m.as_dict() for m in messages]}))) == found
    assert pickle.loads(pickle.dumps(found)) == found


JUNK = st.recursive(
    st.none() | st.booleans() | st.floats() | st.sampled_from(["user", "assistant", "\ud800", "{}", "[1]", "x", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "from", "content", "value", "type", "text", "tool_calls", "function", "name", "weight"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(sorted({name for _, record, _ in FORMS_BY_EXAMPLE for name in record} | {"tools", "system"})),
        JUNK,
        max_size=4,
    ),
    st.sampled_from([None, *FORMS]),
)
def test_junk_is_a_bad_record_and_nothing_worse(record: dict[str, Any], form: str | None) -> None:
    recognised: Recognised | None = None
    with contextlib.suppress(BadRecord):
        recognised = recognise(record, form)
    with contextlib.suppress(BadRecord):
        read(record, form)
        assert recognised, "what can be read can be recognised"


# ---------------------------------------------------------------- real data


def rows(name: str) -> list[dict[str, Any]]:
    path = shared(name)
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return json.loads(raw) if raw.lstrip().startswith(b"[") else [json.loads(line) for line in raw.splitlines()]


@pytest.mark.parametrize(
    ("name", "form", "count"),
    [
        ("sft/alpaca_style_derived.json", "alpaca", 1300),
        ("sft/gsm8k_train_query_response.jsonl.gz", "query_response", 3000),
        ("sft/identity_placeholders.json", "alpaca", 91),
        ("sft/messages_loss_weight_derived.jsonl", "messages", 106),
        ("sft/messages_reasoning_tools.jsonl", "messages", 50),
        ("sft/openai_messages_en.jsonl", "messages", 300),
        ("sft/toolcall_sharegpt_en.json", "sharegpt", 300),
        ("sft/toolcall_sharegpt_zh.json", "sharegpt", 300),
        ("pref/dpo_messages_en.jsonl", "preference_pair", 10),
        ("pref/dpo_sharegpt_en.json", "preference_sharegpt", 300),
        ("pref/dpo_sharegpt_zh.json", "preference_sharegpt", 300),
        ("pref/gsm8k_query_chosen_rejected.jsonl", "preference_query", 731),
        ("pref/kto_en.json", "kto", 300),
    ],
)
def test_real_files_are_read_to_the_last_row(name: str, form: str, count: int) -> None:
    records = rows(name)
    assert len(records) == count
    assert {form_of(record) for record in records} == {form}
    assert {recognise(record).unused for record in records} == {()}
    for record in records:
        said = json.dumps(record, ensure_ascii=False)
        for message in every_message(read(record)):
            # No text is invented or changed, but for the one join of an instruction and its input.
            assert form == "alpaca" or json.dumps(message.content, ensure_ascii=False)[1:-1] in said


def every_message(found: Any) -> tuple[Message, ...]:
    return found.prompt + found.chosen + found.rejected if isinstance(found, Preference) else found.messages


def test_real_reasoning_and_calls_are_all_there() -> None:
    told = [m for record in rows("sft/messages_reasoning_tools.jsonl") for m in every_message(read(record))]
    assert sum(len(m.tool_calls) for m in told) == 41 + 2 * 9 + 3 * 3
    assert sum(m.reasoning is not None for m in told) == 59 + 41 + 9 + 3
    assert sum(m.role == "tool" for m in told) == 42
    assert {type(call["function"]["arguments"]) for m in told for call in m.tool_calls} == {dict}


def test_real_weights_are_all_there() -> None:
    told = [m for record in rows("sft/messages_loss_weight_derived.jsonl") for m in every_message(read(record))]
    assert [sum(m.weight == weight for m in told) for weight in (0.0, 0.5, 1.0)] == [369, 263, 106]


def test_a_table_of_forms_says_how_each_is_read() -> None:
    pair = {"query": "a", "response": "b", "score": 1}
    talk = {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}
    assert forms([talk, pair, {"x": 1}, pair]) == [
        {"form": "query_response", "rows": 2, "read as": "user: query · assistant: response", "unused": "score"},
        {
            "form": "sharegpt",
            "rows": 1,
            "read as": "role: conversations[].from · content: conversations[].value",
            "unused": "",
        },
        {"form": "unknown_form", "rows": 1, "read as": forms([{"x": 1}])[0]["read as"], "unused": ""},
    ]
