"""Conversations in any of the usual forms become one form: messages with roles, reasoning, tool calls and flags.

    {"messages": [{"role", "content"}, …]}                              messages          ─┐
    {"conversations": [{"from", "value"}, …], "tools"}                  sharegpt           │
    {"instruction", "input", "output", "history", "system"}             alpaca             ├─▶ Conversation
    {"query", "response"}                                               query_response     │
    {"prompt", "completion"}                                            prompt_completion ─┘
    any of these with {"label"} or {"kto_tag"}, true or false           kto ─────────────────▶ Rated
    {"prompt" | "query" | "instruction", "chosen", "rejected"}          preference_…      ─┐
    {"messages" | "conversations", "chosen", "rejected"}                preference_…       ├─▶ Preference
    {"messages"}, {"rejected_messages" | "rejected_response"}           preference_…       │
    {"chosen", "rejected"}, both whole conversations                    preference_implicit│
    {"chosen_messages", "rejected_messages"}, the same                  preference_pair   ─┘
    {"text"}                                                            text ────────────────▶ Document

The form is recognised from the columns that hold something. What a record says and the one form cannot is an error
with its place, ``messages[3].content[1].type: …``; nothing is left out in silence.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from prep_lib.errors import BadRecord, unknown
from prep_lib.record import Conversation, Document, Message, Preference, Rated
from prep_lib.source.jsonl import parse, plain

#: What a record becomes.
Read = Conversation | Preference | Rated | Document

#: Every spelling of a role that is understood, case as data sets have it.
ROLES: Mapping[str, str] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "prompter": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "ai": "assistant",
    "function_call": "assistant",
    "tool_call": "assistant",
    "tool": "tool",
    "observation": "tool",
    "function": "tool",
    "function_response": "tool",
    "tool_response": "tool",
    "tool_result": "tool",
    "ipython": "tool",
}

#: Roles whose text is the JSON of tool calls.
CALLERS = frozenset({"function_call", "tool_call"})

#: Field of a message here -> the keys data sets write it under.
KEYS: Mapping[str, tuple[str, ...]] = {
    "role": ("role", "from"),
    "content": ("content", "value"),
    "reasoning": ("reasoning_content", "reasoning", "thinking"),
    "tool_calls": ("tool_calls", "function_call"),
    "tool_call_id": ("tool_call_id",),
    "name": ("name",),
    "train": ("train", "training", "trainable"),
    "weight": ("weight", "loss_weight", "loss"),
}

#: Type of a content part -> the keys its text may stand under.
PARTS: Mapping[str, tuple[str, ...]] = {
    "text": ("text", "value"),
    "reasoning": ("reasoning", "value", "text"),
    "thinking": ("thinking", "value", "text"),
    "tool_call": ("tool_call", "value"),
}

#: Columns that would change what a model reads and that no form here can say.
UNREAD = frozenset(
    {"audio", "audios", "chat_template_kwargs", "documents", "image", "images", "objects", "video", "videos"}
)

#: Columns a conversation may stand in, the first that holds something.
TALKS = ("messages", "conversations", "conversation")
LABELS = ("label", "kto_tag")
TOOLS = ("tools", "functions")

_FIELD_OF = {key: field for field, keys in KEYS.items() for key in keys}
_SIMPLE = {spelled: role for spelled, role in ROLES.items() if spelled not in CALLERS}
#: A part may not stand before one of a lower rank: the one form has reasoning, content, calls, in this order.
_RANK = {"reasoning": 0, "thinking": 0, "text": 1, "tool_call": 2}

#: Dates and objects are left to `plain`, which converts or refuses them.
_STRICT = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS

#: What `plain` says: what, and the place where.
_AT = re.compile(r"(.*?) ?(?:\bat (.*))?", re.DOTALL)

_Calls = tuple[dict[str, Any], ...]

#: Field of a message -> the key it stands under, and its value.
_Found = dict[str, tuple[str, Any]]


class Form(NamedTuple):
    """One form of records.

    Attributes
    ----------
    needs : tuple of tuple of str
        Columns that must hold something, one of each inner tuple.
    says : mapping
        What the columns become: ``{"user": ("instruction", "input")}``.
    read : callable
        ``read(record, id, ignore)``.
    """

    needs: tuple[tuple[str, ...], ...]
    says: Mapping[str, tuple[str, ...]]
    read: Callable[[Mapping[str, Any], str, Collection[str]], Read]


class Recognised(NamedTuple):
    """What `recognise` found: the form, which columns say what, and the columns nothing is made of.

    Examples
    --------
    >>> recognise({"query": "2 + 2?", "response": "4", "level": 1})
    Recognised(form='query_response', columns={'user': ('query',), 'assistant': ('response',)}, unused=('level',))
    """

    form: str
    columns: dict[str, tuple[str, ...]]
    unused: tuple[str, ...]


def form_of(record: Mapping[str, Any]) -> str:
    """Name the form of a record from the columns that hold something (tables fill the others with nulls).

    Raises
    ------
    BadRecord
        ``unknown_form``: no form has these columns. ``wrong_type``: not a record at all.

    Examples
    --------
    >>> form_of({"conversations": [{"from": "human", "value": "Hi"}], "label": True})
    'kto'
    >>> form_of({"question": "2 + 2?", "answer": "4"})
    Traceback (most recent call last):
    prep_lib.errors.BadRecord: unknown_form: columns 'question', 'answer'; rename them to those of a known form: ...
    """
    form = _form_without_label(record)
    return "kto" if form in _RATEABLE and any(isinstance(record.get(name), bool) for name in LABELS) else form


def read(record: Mapping[str, Any], form: str | None = None, *, id: str = "", ignore: Collection[str] = ()) -> Read:
    """Read one record.

    Parameters
    ----------
    record : mapping
        A row of a data set. It is not changed; tools and arguments of tool calls are shared with it, not copied.
    form : str or None
        A name of `FORMS`. None: recognised, record by record; name it where all rows must have the same one.
    id : str
        Where the record was read from.
    ignore : collection of str
        Keys of messages and columns that may be lost although they hold something: ``{"timestamp"}``.

    Returns
    -------
    Conversation, Preference, Rated or Document
        As drawn above. Messages of a conversation and of the record correspond one to one, behind a system column and
        a history.

    Raises
    ------
    BadRecord
        ``unknown_form``, ``missing_field``, ``missing_content``, ``wrong_type``, ``unknown_role``, ``unknown_field``,
        ``unknown_part``, ``part_order``, ``unread_column``, ``two_fields``, ``two_systems``, ``role_field``,
        ``train_role``, ``bad_weight``, ``bad_tool_call``, ``bad_tool``, ``empty_conversation``, ``no_answer``,
        ``no_shared_prompt``, ``prompt_differs``, ``implicit_prompt_text``, ``lone_surrogate``, and those of
        `prep_lib.source.jsonl.parse` for JSON inside strings. The detail begins with the place.
    UnknownName
        If `form` is none of `FORMS`.

    Notes
    -----
    The null ``content`` of an answer is ""; inline ``<think>`` blocks stay in the content (templates decide). A user,
    system or tool message without content is an error. Nulls that a table adds to tools, calls and arguments are taken
    out; an argument string, and JSON inside any string, is taken as it is.

    ``train`` and ``weight`` are kept as told, both: either may make an answer context (False, or 0).

    Examples
    --------
    >>> read({"query": "2 + 2?", "response": "4"}, id="a.jsonl#L1").messages[1].content
    '4'
    >>> read({"messages": [{"role": "narrator", "content": "Once"}]})
    Traceback (most recent call last):
    prep_lib.errors.BadRecord: unknown_role: messages[0].role: 'narrator'; known: ai, assistant, bot, ...
    """
    made = _form(record, form)[1]
    if not UNREAD.isdisjoint(record):
        _refuse_unread(record, ignore)
    return made.read(record, id, ignore)


def recognise(record: Mapping[str, Any], form: str | None = None) -> Recognised:
    """Tell what a record is taken for and which columns and keys become what; nothing is read.

    Parameters
    ----------
    form : str or None
        A name of `FORMS`. None: recognised.

    Raises
    ------
    BadRecord
        As `form_of`.
    UnknownName
        If `form` is none of `FORMS`.

    Examples
    --------
    >>> found = recognise({"conversations": [{"from": "human", "value": "Hi"}], "tools": "[]", "source": "web"})
    >>> found.form, found.unused
    ('sharegpt', ('source',))
    >>> found.columns
    {'role': ('conversations[].from',), 'content': ('conversations[].value',), 'tools': ('tools',)}
    """
    name, made = _form(record, form)
    columns: dict[str, tuple[str, ...]] = {}
    used: set[str] = set()
    for told, names in made.says.items():
        # Of several columns for one thing the first counts, but an instruction and its input are both used.
        held = [column for column in names if record.get(column) is not None]
        for column in held if told == "user" else held[:1]:
            used.add(column)
            for field, place in _places(told, column, record[column]):
                columns[field] = tuple(dict.fromkeys((*columns.get(field, ()), place)))
    unused = tuple(column for column in record if column not in used and _says(record[column]))
    return Recognised(name, columns, unused)


def forms(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tell which forms records have, how their columns are read and how many there are of each, the commonest first.

    Returns
    -------
    list of dict
        ``form``, ``rows``, ``read as`` and ``unused``, as a table shows them; a record of no form says so in its place.

    Examples
    --------
    >>> forms([{"query": "a", "response": "b", "id": 1}, {"query": "c", "response": "d", "id": 2}])
    [{'form': 'query_response', 'rows': 2, 'read as': 'user: query · assistant: response', 'unused': 'id'}]
    """
    counts: dict[tuple[str, str, str], int] = {}
    for record in records:
        try:
            found = recognise(record)
        except BadRecord as error:
            told = error.reason, error.detail, ""
        else:
            columns = " · ".join(f"{name}: {', '.join(places)}" for name, places in found.columns.items())
            told = found.form, columns, ", ".join(found.unused)
        counts[told] = counts.get(told, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return [{"form": form, "rows": rows, "read as": read, "unused": unused} for (form, read, unused), rows in ordered]


def _places(told: str, name: str, value: object) -> list[tuple[str, str]]:
    """Return (what it becomes, place) of a column: one a key where it holds messages, else the column itself."""
    said = value if isinstance(value, list) else [value]
    if told in ("tools", "history") or not any(isinstance(message, dict) for message in said):
        return [(told, name)]
    inside = f"{name}[]" if isinstance(value, list) else name
    keys = dict.fromkeys(key for message in said if isinstance(message, dict) for key in message if _says(message[key]))
    # Which column an answer stands in is not told by its keys.
    column = [(told, name)] if told in ("chosen", "rejected") else []
    return column + [(_FIELD_OF[key], f"{inside}.{key}") for key in keys if key in _FIELD_OF]


# ---------------------------------------------------------------- columns


def _form(record: Mapping[str, Any], name: str | None) -> tuple[str, Form]:
    """Look up a named form, or recognise it."""
    if name is None:
        name = form_of(record)
    elif name not in FORMS:
        raise unknown("chat/conversation", "form", name, FORMS)
    elif not isinstance(record, Mapping):
        raise BadRecord("wrong_type", f"a record must be an object, got {type(record).__name__}")
    return name, FORMS[name]


def _form_without_label(record: Mapping[str, Any]) -> str:
    if not isinstance(record, Mapping):
        raise BadRecord("wrong_type", f"a record must be an object, got {type(record).__name__}")
    form = _form_of_columns(tuple([name for name in record if record[name] is not None]))
    if form is None:
        columns = ", ".join(repr(name) for name in list(record)[:12]) or "none"
        raise BadRecord("unknown_form", f"columns {columns}; {_nearest(record)}")
    return form.replace("messages", "sharegpt") if form.endswith("messages") and _from_value(record) else form


def _nearest(record: Mapping[str, Any]) -> str:
    """Say what is missing for the form that is nearest, or which forms there are."""
    present = {name for name in record if record[name] is not None}
    lacks = {
        name: [" or ".join(map(repr, choice)) for choice in form.needs if present.isdisjoint(choice)]
        for name, form in FORMS.items()
        if not all(present.isdisjoint(choice) for choice in form.needs)
    }
    if not lacks:
        return f"rename them to those of a known form: {', '.join(FORMS)}"
    name = min(lacks, key=lambda form: len(lacks[form]))
    return f"the form {name} also needs {' and '.join(lacks[name])}"


@lru_cache(maxsize=1024)
def _form_of_columns(columns: tuple[str, ...]) -> str | None:
    # Remembered: a data set has a handful of combinations, and trying all forms takes longer than reading a record.
    for name, form in FORMS.items():
        if name != "kto" and all(any(one in columns for one in names) for names in form.needs):
            return name
    return None


def _held(record: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """Return the first of some columns that holds something."""
    for name in names:
        if record.get(name) is not None:
            return name
    return None


def _from_value(record: Mapping[str, Any]) -> bool:
    talk = record[_held(record, TALKS) or ""]
    first = talk[0] if isinstance(talk, list) and talk else None
    return isinstance(first, dict) and first.get("from") is not None


def _column(record: Mapping[str, Any], *names: str) -> str:
    """Return the first of some columns that holds something, or fail."""
    if (name := _held(record, names)) is None:
        known = ", ".join(map(repr, list(record)[:8])) or "nothing"
        raise BadRecord("missing_field", f"{' or '.join(names)}: missing; the record has {known}")
    return name


def _text_column(record: Mapping[str, Any], name: str) -> str:
    return _text_at(record[_column(record, name)], name)


def _text_at(value: object, place: str) -> str:
    try:
        return _text(value)
    except BadRecord as error:
        raise _inside(error, place) from None


def _refuse_unread(record: Mapping[str, Any], ignore: Collection[str]) -> None:
    for name in record:
        if name in UNREAD and name not in ignore and _says(record[name]):
            raise BadRecord(
                "unread_column", f"{name}: no conversation here can say it; remove it, or name it in ignore"
            )


def _inside(error: BadRecord, place: str) -> BadRecord:
    """Put a place before the place an error already names."""
    return BadRecord(error.reason, place + error.detail)


def _says(value: object) -> bool:
    """Say whether a field holds anything: tables fill what is missing with nulls, or with structs of nulls.

    Examples
    --------
    >>> _says({"name": None, "arguments": None}), _says([None]), _says(""), _says({"name": ""}), _says(0)
    (False, False, False, True, True)
    """
    return not (isinstance(value, str) and not value) and not _is_null(value)


def _is_null(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_null, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_null, value))
    return value is None


# ---------------------------------------------------------------- messages


def _messages(said: object, ignore: Collection[str]) -> list[Message]:
    """Read a list of messages, or one message that stands alone."""
    if isinstance(said, dict):
        return [_message(said, ignore)]
    if not isinstance(said, list | tuple):
        raise BadRecord("wrong_type", f": must be a list of messages, got {type(said).__name__}")
    if not said:
        raise BadRecord("empty_conversation", ": holds no message")
    out: list[Message] = []
    try:
        for message in said:
            out.append(_message(message, ignore))
    except BadRecord as error:
        raise _inside(error, f"[{len(out)}]") from None
    return out


def _talk(record: Mapping[str, Any], name: str, ignore: Collection[str]) -> list[Message]:
    try:
        return _messages(record[name], ignore)
    except BadRecord as error:
        raise _inside(error, name) from None


def _message(said: Any, ignore: Collection[str]) -> Message:
    if not isinstance(said, dict):
        raise BadRecord("wrong_type", f": a message must be an object, got {type(said).__name__}")
    if len(said) == 2:
        # Nearly all messages are a known role and a text: told apart first, they cost a third.
        spelled, content = said.get("role"), said.get("content")
        if spelled is None and content is None:
            spelled, content = said.get("from"), said.get("value")
        if type(spelled) is str and type(content) is str and spelled in _SIMPLE and is_clean(content):
            return Message(_SIMPLE[spelled], content)
    return _whole_message(said, ignore)


def _whole_message(said: dict[str, Any], ignore: Collection[str]) -> Message:
    found = _fields(said, ignore)
    spelled, role = _role(found, said)
    content, thought, calls = _content(found, ignore)
    if spelled in CALLERS and not calls and "tool_calls" not in found:
        content, calls = "", _spoken_calls(content, found, ignore)
    if "reasoning" in found:
        _refuse_twice(found, "reasoning", thought)
        thought = thought or _text_field(found, "reasoning")
    if "tool_calls" in found:
        _refuse_twice(found, "tool_calls", calls)
        calls = _calls(*found["tool_calls"], ignore)
    if role != "assistant":
        _check_no_answer(found, spelled, thought, calls)
        thought = None
    elif not (content or thought or calls or "content" in said or "value" in said):
        raise _no_content(said)
    names = _text_field(found, "tool_call_id"), _text_field(found, "name")
    return Message(role, content, thought, calls, *names, *_flags(found, role))


def _fields(said: dict[str, Any], ignore: Collection[str]) -> _Found:
    """Sort the keys of a message that hold something by the field they spell, and refuse those nobody reads."""
    found: _Found = {}
    for key, value in said.items():
        if value is None:
            continue
        field = _FIELD_OF.get(key)
        if field is None:
            _refuse_unknown({key: value}, (), ignore)
        elif field == "tool_calls" and not _says(value):
            continue
        elif field not in found or not _says(found[field][1]):
            found[field] = key, value
        elif _says(value) and found[field][1] != value:
            raise BadRecord("two_fields", f".{key}: says something else than {found[field][0]!r}; keep one of them")
    return found


def _refuse_unknown(said: Mapping[str, Any], known: Collection[str], ignore: Collection[str]) -> None:
    for key in said:
        if key not in known and key not in ignore and _says(said[key]):
            raise BadRecord(
                "unknown_field", f".{key}: would be lost; move it into a field that is read, or name it in ignore"
            )


def _refuse_twice(found: _Found, field: str, parted: object) -> None:
    """Refuse a field of the message that its content fills too."""
    if parted and _says(found[field][1]):
        raise BadRecord("two_fields", f".{found[field][0]}: the content says it too; keep one of them")


def _role(found: _Found, said: Mapping[str, Any]) -> tuple[str, str]:
    """Return a role as spelled, and ours."""
    if "role" not in found:
        raise BadRecord(
            "missing_field", f".{'from' if 'from' in said else 'role'}: missing; a message names who speaks"
        )
    key, spelled = found["role"]
    if not isinstance(spelled, str):
        raise BadRecord("wrong_type", f".{key}: must be a text, got {type(spelled).__name__}")
    if spelled not in ROLES:
        raise BadRecord("unknown_role", f".{key}: {spelled[:40]!r}; known: {', '.join(sorted(ROLES))}")
    return spelled, ROLES[spelled]


def _check_no_answer(found: _Found, spelled: str, thought: str | None, calls: tuple[Any, ...]) -> None:
    """Refuse what only an answer may have, and a message of nothing."""
    if thought or calls:
        field = "reasoning" if thought else "tool_calls"
        key = found[field][0] if field in found else found["content"][0]
        raise BadRecord("role_field", f".{key}: only an assistant has {field}, got role {spelled!r}")
    if "content" not in found:
        raise _no_content({found["role"][0]: spelled})


def _no_content(said: Mapping[str, Any]) -> BadRecord:
    key = "value" if "from" in said else "content"
    return BadRecord("missing_content", f".{key}: missing or null, and nothing else is said")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise BadRecord("wrong_type", f": must be a text, got {type(value).__name__}")
    if not value.isascii():
        _encodable(value)
    return value


def is_clean(text: str) -> bool:
    """Tell whether a text has a UTF-8 form: no half of a surrogate pair is in it.

    Examples
    --------
    >>> is_clean("é"), is_clean("\\ud800")
    (True, False)
    """
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _encodable(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadRecord("lone_surrogate", f": half of a surrogate pair at character {error.start}") from None


def _text_field(found: _Found, field: str) -> str | None:
    if field not in found:
        return None
    key, value = found[field]
    return _text_at(value, f".{key}")


def _flags(found: _Found, role: str) -> tuple[bool | None, float | None]:
    """Return whether a message is a target and how much it counts; only an assistant's can be one."""
    train_key, train = found.get("train", ("train", None))
    if train is not None and not isinstance(train, bool):
        raise BadRecord("wrong_type", f".{train_key}: must be true, false or null, got {type(train).__name__}")
    weight_key, number = found.get("weight", ("weight", None))
    weight = None if number is None else _weight(number, weight_key)
    if role != "assistant" and (train or weight):
        key = train_key if train else weight_key
        raise BadRecord("train_role", f".{key}: only an assistant's message can be trained, got role {role!r}")
    return train, weight


def _weight(number: object, key: str) -> float:
    if not isinstance(number, int | float):
        raise BadRecord("wrong_type", f".{key}: must be a number, true or false, got {type(number).__name__}")
    if not 0 <= number <= sys.float_info.max:
        raise BadRecord("bad_weight", f".{key}: must be 0 or more and finite, got {number}")
    return float(number)


# ---------------------------------------------------------------- content parts


def _content(found: _Found, ignore: Collection[str]) -> tuple[str, str | None, _Calls]:
    """Return content, reasoning and calls of what a message says; without a content, nothing of each."""
    if "content" not in found:
        return "", None, ()
    key, value = found["content"]
    if isinstance(value, str):
        return _text_at(value, f".{key}"), None, ()
    if not isinstance(value, list | tuple):
        kind = type(value).__name__
        raise BadRecord("wrong_type", f".{key}: must be a text, null or a list of parts, got {kind}")
    return _parts(value, f".{key}", ignore)


def _parts(parts: list[Any] | tuple[Any, ...], place: str, ignore: Collection[str]) -> tuple[str, str | None, _Calls]:
    """Join typed parts: reasoning, then text, then tool calls, as the one form has them."""
    texts: dict[int, list[str]] = {0: [], 1: []}
    calls: list[dict[str, Any]] = []
    last = 0
    for at, part in enumerate(parts):
        try:
            kind, value = _part(part, ignore)
            rank = _RANK[kind]
            if rank < last and value:
                raise BadRecord("part_order", f".type: {kind!r} behind what must follow it: reasoning, text, tool_call")
            last = rank if value else last
            if rank == 2:
                calls += _part_calls(value, ignore)
            else:
                texts[rank].append(_text(value))
        except BadRecord as error:
            raise _inside(error, f"{place}[{at}]") from None
    return "".join(texts[1]), "".join(texts[0]) if texts[0] else None, tuple(calls)


def _part(part: object, ignore: Collection[str]) -> tuple[str, Any]:
    """Return type and value of a part."""
    if not isinstance(part, dict):
        raise BadRecord("wrong_type", f": a part must be an object, got {type(part).__name__}")
    kind = part.get("type")
    if not isinstance(kind, str) or kind not in PARTS:
        raise BadRecord("unknown_part", f".type: {str(kind)[:40]!r}; known: {', '.join(PARTS)}")
    keys = PARTS[kind]
    _refuse_unknown(part, ("type", *keys), ignore)
    held = [part[key] for key in keys if part.get(key) is not None]
    if not held:
        raise BadRecord("missing_content", f".{keys[0]}: missing or null, and nothing else is said")
    if len(held) > 1:
        raise BadRecord("two_fields", f": holds more than one of {', '.join(keys)}; keep one of them")
    return kind, held[0]


def _part_calls(value: object, ignore: Collection[str]) -> _Calls:
    if isinstance(value, str):
        return _json_calls(value, ignore)
    return (_call(_without_padding(value), ignore),)


# ---------------------------------------------------------------- tools and calls


def _calls(key: str, value: object, ignore: Collection[str]) -> _Calls:
    """Return the calls of a message's own field, the old ``function_call`` as a list of one."""
    calls = [value] if key == "function_call" else value
    if not isinstance(calls, list | tuple):
        raise BadRecord("wrong_type", f".{key}: must be a list of calls, got {type(value).__name__}")
    out: list[dict[str, Any]] = []
    try:
        for call in calls:
            out.append(_call(_without_padding(call), ignore))
    except BadRecord as error:
        raise _inside(error, f".{key}" if key == "function_call" else f".{key}[{len(out)}]") from None
    return tuple(out)


def _spoken_calls(text: str, found: _Found, ignore: Collection[str]) -> _Calls:
    """Read the text of a ``function_call`` turn."""
    try:
        return _json_calls(text, ignore)
    except BadRecord as error:
        raise _inside(error, f".{found['content'][0] if 'content' in found else 'content'}") from None


def _json_calls(text: str, ignore: Collection[str]) -> _Calls:
    """Read one call or a list of them written as JSON: what is null there was meant."""
    value = _parsed(text)
    calls = value if isinstance(value, list) else [value]
    if not calls:
        raise BadRecord("bad_tool_call", ": holds no call")
    return tuple(_call(call, ignore) for call in calls)


def _parsed(text: str) -> Any:
    """Parse JSON inside a string; duplicate keys and numbers no float holds are errors, as in a file."""
    try:
        return parse(_encodable(text))
    except BadRecord as error:
        detail = error.detail if error.detail.startswith(":") else f": {error.detail}"
        raise BadRecord(error.reason, f"{detail} of the JSON inside") from None


def _call(call: object, ignore: Collection[str]) -> dict[str, Any]:
    """Return one call in the form of the field; one that has it already is not copied."""
    if not isinstance(call, dict):
        raise BadRecord("bad_tool_call", f": a call must be an object, got {type(call).__name__}")
    function = call.get("function")
    wrapped = function is not None
    if not wrapped:
        function = {key: call[key] for key in call if key not in ("id", "type")}
    else:
        _refuse_unknown(call, ("id", "type", "function"), ignore)
    _check_function(function, ".function" if wrapped else "", ignore)
    kind, id = call.get("type"), call.get("id")
    if kind not in (None, "function"):
        raise BadRecord("bad_tool_call", f".type: {str(kind)[:40]!r}; known: function")
    if id is not None:
        _text_at(id, ".id")
    if wrapped and kind and len(call) == 2 + (id is not None):
        return call
    return {"type": "function", **({} if id is None else {"id": id}), "function": function}


def _check_function(function: object, place: str, ignore: Collection[str]) -> None:
    if not isinstance(function, dict):
        raise BadRecord("bad_tool_call", f"{place}: must be an object, got {type(function).__name__}")
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or not name:
        raise BadRecord("bad_tool_call", f"{place}.name: must be a text that is not empty, got {name!r:.60}")
    if arguments is None:
        raise BadRecord("bad_tool_call", f"{place}.arguments: missing; a call without any has {{}}")
    if not isinstance(arguments, dict | str):
        kind = type(arguments).__name__
        raise BadRecord("bad_tool_call", f"{place}.arguments: must be an object or a text, got {kind}")
    try:
        _refuse_unknown(function, ("name", "arguments"), ignore)
    except BadRecord as error:
        raise _inside(error, place) from None


def _tools_of(record: Mapping[str, Any]) -> _Calls:
    """Return the tools of a record: a list, or the JSON of one; ``functions`` is the old name."""
    name = _held(record, TOOLS)
    if name is None:
        return ()
    try:
        return _tools(record[name])
    except BadRecord as error:
        raise _inside(error, name) from None


def _tools(value: object) -> _Calls:
    if isinstance(value, str):
        tools = _parsed(value) if value.strip() else []
    else:
        tools = value
    if not isinstance(tools, list | tuple):
        raise BadRecord("bad_tool", f": must be a list, or the JSON of one, got {type(tools).__name__}")
    out: list[dict[str, Any]] = []
    try:
        for tool in tools:
            # Inside JSON a null was meant; in a table most are padding.
            out.append(_tool(tool if isinstance(value, str) else _without_padding(tool)))
    except BadRecord as error:
        raise _inside(error, f"[{len(out)}]") from None
    return tuple(out)


def _tool(tool: object) -> dict[str, Any]:
    if isinstance(tool, str):
        tool = _parsed(tool)
    if not isinstance(tool, dict):
        raise BadRecord("bad_tool", f": a tool must be an object, got {type(tool).__name__}")
    function = tool.get("function", tool)
    place = ".function.name" if "function" in tool else ".name"
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise BadRecord("bad_tool", f"{place}: missing; a tool is a function with a name, a description and parameters")
    if "function" in tool:
        return tool if "type" in tool else {"type": "function", **tool}
    # A server is given tools in the field's form and hands them on like that; a bare one would be another prompt.
    return {"type": "function", "function": tool}


def _without_padding(value: Any) -> Any:
    """Return a value without the nulls a table adds to its structs, the same object if there are none.

    Examples
    --------
    >>> _without_padding({"name": "f", "arguments": {"city": "Oslo", "unit": None, "days": [None]}})
    {'name': 'f', 'arguments': {'city': 'Oslo'}}
    >>> _without_padding({"arguments": {"unit": None}, "enum": ["a", None]})  # the struct itself was there
    {'arguments': {}, 'enum': ['a', None]}
    """
    try:
        # Far cheaper than a walk, and it refuses lone surrogates and whatever JSON does not have.
        if b"null" not in orjson.dumps(value, option=_STRICT):
            return value
    except TypeError:
        pass
    try:
        return _pruned(plain(value))  # orjson writes NaN as null: plain refuses it
    except BadRecord as error:
        what, place = _AT.fullmatch(error.detail).groups()  # type: ignore[union-attr]
        raise BadRecord(error.reason, f"{f'.{place}' if place else ''}: {what or 'JSON has no such value'}") from None


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _pruned(inner) for key, inner in value.items() if not _padding(inner)}
    if isinstance(value, list):
        return [_pruned(inner) for inner in value]
    return value


def _padding(value: object) -> bool:
    return value is None or (isinstance(value, list) and bool(value) and all(inner is None for inner in value))


# ---------------------------------------------------------------- forms


def _opened(record: Mapping[str, Any], messages: list[Message]) -> tuple[Message, ...]:
    """Put the system column before the messages."""
    text = record.get("system")
    if text is None or text == "":
        return tuple(messages)
    system = Message("system", _text_at(text, "system"))
    if any(message.role == "system" for message in messages[:1]):
        if messages[0].content == system.content:
            return tuple(messages)
        raise BadRecord("two_systems", "system: the first message is a system text too, and another; keep one of them")
    return (system, *messages)


def _history(record: Mapping[str, Any]) -> list[Message]:
    """Read earlier turns written as ``[[question, answer], …]``."""
    pairs = record.get("history")
    if pairs is None:
        return []
    if not isinstance(pairs, list | tuple):
        raise BadRecord("wrong_type", f"history: must be a list of pairs, got {type(pairs).__name__}")
    out = []
    for at, pair in enumerate(pairs):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise BadRecord("wrong_type", f"history[{at}]: must be a pair of question and answer")
        out += [
            Message("user", _text_at(pair[0], f"history[{at}][0]")),
            Message("assistant", _text_at(pair[1], f"history[{at}][1]")),
        ]
    return out


def _instruction(record: Mapping[str, Any]) -> str:
    """Join an instruction and its input by a line feed; one that is empty or missing leaves no line feed.

    Notes
    -----
    *Source*: LLaMA-Factory, ``AlpacaDatasetConverter``. Its newer ``v1`` joins without the line feed; the prompt of
    Stanford Alpaca has its own frame around each, which is a template's business.
    """
    texts = [_text_at(record[name], name) for name in ("instruction", "input") if record.get(name) is not None]
    return "\n".join(filter(None, texts))


def _asked(record: Mapping[str, Any], text: str) -> list[Message]:
    return [*_history(record), Message("user", text)]


def _speech(record: Mapping[str, Any], name: str, role: str, ignore: Collection[str]) -> list[Message]:
    """Read a column that holds a text, a message or messages."""
    value = record[_column(record, name)]
    return [Message(role, _text_at(value, name))] if isinstance(value, str) else _talk(record, name, ignore)


def _read_talk(record: Mapping[str, Any], id: str, ignore: Collection[str]) -> Conversation:
    messages = _talk(record, _column(record, *TALKS), ignore)
    return Conversation(id, _opened(record, messages), _tools_of(record))


def _read_alpaca(record: Mapping[str, Any], id: str, ignore: Collection[str]) -> Conversation:
    _column(record, "instruction", "input")
    answer = Message("assistant", _text_column(record, "output"))
    return Conversation(id, _opened(record, [*_asked(record, _instruction(record)), answer]), _tools_of(record))


def _read_query(record: Mapping[str, Any], id: str, ignore: Collection[str]) -> Conversation:
    asked = _asked(record, _text_column(record, "query"))
    answer = Message("assistant", _text_column(record, "response"))
    return Conversation(id, _opened(record, [*asked, answer]), _tools_of(record))


def _read_completion(record: Mapping[str, Any], id: str, ignore: Collection[str]) -> Conversation:
    """Read prompt and completion; answers inside the prompt are context, as in TRL."""
    prompt = [_as_context(message) for message in _speech(record, "prompt", "user", ignore)]
    completion = _speech(record, "completion", "assistant", ignore)
    _need_answer(completion, "completion")
    return Conversation(id, _opened(record, [*prompt, *completion]), _tools_of(record))


def _as_context(message: Message) -> Message:
    return replace(message, train=False) if message.role == "assistant" and message.train is None else message


def _read_text(record: Mapping[str, Any], id: str, ignore: Collection[str]) -> Document:
    return Document(id, _text_column(record, "text"))


def _read_rated(record: Mapping[str, Any], id: str, ignore: Collection[str]) -> Rated:
    name = _column(record, *LABELS)
    label = record[name]
    if not isinstance(label, bool):
        raise BadRecord("wrong_type", f"{name}: must be true or false, got {type(label).__name__}")
    form = _form_without_label(record)
    if form not in _RATEABLE:
        raise BadRecord("unknown_form", f"{name}: a rating of the form {form!r}; known: {', '.join(_RATEABLE)}")
    talk = FORMS[form].read(record, id, ignore)
    assert isinstance(talk, Conversation)
    if talk.messages[-1].role != "assistant":
        raise BadRecord("no_answer", f"{name}: rates the last message, and that is no answer")
    return Rated(id, talk.messages, label, talk.tools)


def _need_answer(messages: Collection[Message], place: str) -> None:
    if not any(message.role == "assistant" for message in messages):
        raise BadRecord("no_answer", f"{place}: holds no message of an assistant")


# ---------------------------------------------------------------- preferences


def _read_explicit(record: Mapping[str, Any], id: str, ignore: Collection[str]) -> Preference:
    """Read a prompt and two answers; the answers may repeat the prompt."""
    chosen, rejected = (_speech(record, name, "assistant", ignore) for name in ("chosen", "rejected"))
    asked = _preference_prompt(record, ignore)
    if all(len(answer) >= len(asked) and _shared(asked, answer) == len(asked) for answer in (chosen, rejected)):
        return _preference(record, id, asked, chosen[len(asked) :], rejected[len(asked) :])
    if all(answer[0].role in ("user", "system") for answer in (chosen, rejected)):
        whole = _split(record, id, chosen, rejected)
        if any(asked[-1].content == message.content for message in whole.prompt):
            return whole
        raise BadRecord("prompt_differs", "prompt: chosen and rejected begin with another one")
    return _preference(record, id, asked, chosen, rejected)


def _preference_prompt(record: Mapping[str, Any], ignore: Collection[str]) -> list[Message]:
    name = _column(record, "prompt", "query", "instruction", *TALKS)
    if name == "query":
        return _asked(record, _text_column(record, name))
    return _asked(record, _instruction(record)) if name == "instruction" else _speech(record, name, "user", ignore)


def _read_implicit(record: Mapping[str, Any], id: str, ignore: Collection[str]) -> Preference:
    """Read two whole conversations; what they share from the start, up to an answer, is the prompt."""
    chosen = _column(record, "chosen", "chosen_messages", "messages")
    rejected = _column(record, "rejected", "rejected_messages")
    for name in (chosen, rejected):
        if isinstance(record[name], str | dict):
            raise BadRecord(
                "implicit_prompt_text",
                f"{name}: without a prompt it must be a list of messages: inside a text the border is a guess; add a "
                "column 'prompt'",
            )
    return _split(record, id, _talk(record, chosen, ignore), _talk(record, rejected, ignore))


def _read_rejected_response(record: Mapping[str, Any], id: str, ignore: Collection[str]) -> Preference:
    """Read messages whose last one is the chosen answer, and a text that was rejected."""
    messages = _talk(record, _column(record, *TALKS), ignore)
    rejected = _speech(record, "rejected_response", "assistant", ignore)
    return _preference(record, id, messages[:-1], messages[-1:], rejected)


def _split(record: Mapping[str, Any], id: str, chosen: list[Message], rejected: list[Message]) -> Preference:
    """Cut the shared prompt off; never inside a message, so never inside a word."""
    shared = min(_shared(chosen, rejected), len(chosen) - 1, len(rejected) - 1)
    # An answer begins with an assistant: a tool's result belongs to the call before it.
    while shared and "tool" in (chosen[shared].role, rejected[shared].role):
        shared -= 1
    if not shared:
        raise BadRecord("no_shared_prompt", "chosen and rejected: begin with different messages; add a column 'prompt'")
    return _preference(record, id, chosen[:shared], chosen[shared:], rejected[shared:])


def _shared(one: list[Message], other: list[Message]) -> int:
    """Count the messages two conversations begin with alike; their flags are not compared."""
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        if a is not b and _said(a) != _said(b):
            return at
    return min(len(one), len(other))


def _said(message: Message) -> tuple[Any, ...]:
    told = message.tool_calls, message.tool_call_id, message.name
    return (message.role, message.content, message.reasoning, *told)


def _preference(
    record: Mapping[str, Any], id: str, prompt: list[Message], chosen: list[Message], rejected: list[Message]
) -> Preference:
    for name, answer in (("chosen", chosen), ("rejected", rejected)):
        _need_answer(answer, name)
        if answer[0].role in ("user", "system"):
            raise BadRecord(
                "prompt_differs", f"{name}: the answer begins with role {answer[0].role!r}; both need one shared prompt"
            )
    return Preference(id, _opened(record, prompt), tuple(chosen), tuple(rejected), _tools_of(record))


# ---------------------------------------------------------------- the table

_FRAME = {"tools": TOOLS, "system": ("system",)}
_TURNS = {"history": ("history",), **_FRAME}
_ANSWERS = {"chosen": ("chosen",), "rejected": ("rejected",)}
_TALK = {"messages": TALKS, **_FRAME}
_RATEABLE = ("messages", "sharegpt", "alpaca", "query_response", "prompt_completion")


def _needs(*columns: str | tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(names if isinstance(names, tuple) else (names,) for names in columns)


#: Every form in the order it is looked for; ``sharegpt`` and ``preference_sharegpt`` are told from the messages.
FORMS: Mapping[str, Form] = {
    "preference_pair": Form(
        _needs("chosen_messages", "rejected_messages"),
        {"chosen": ("chosen_messages",), "rejected": ("rejected_messages",), **_FRAME},
        _read_implicit,
    ),
    "preference_rejected": Form(
        _needs("messages", "rejected_messages"),
        {"chosen": ("messages",), "rejected": ("rejected_messages",), **_FRAME},
        _read_implicit,
    ),
    "preference_response": Form(
        _needs(TALKS, "rejected_response"),
        {"chosen": TALKS, "rejected": ("rejected_response",), **_FRAME},
        _read_rejected_response,
    ),
    "preference_prompt": Form(
        _needs("prompt", "chosen", "rejected"), {"user": ("prompt",), **_ANSWERS, **_FRAME}, _read_explicit
    ),
    "preference_query": Form(
        _needs("query", "chosen", "rejected"), {"user": ("query",), **_ANSWERS, **_TURNS}, _read_explicit
    ),
    "preference_alpaca": Form(
        _needs("instruction", "chosen", "rejected"),
        {"user": ("instruction", "input"), **_ANSWERS, **_TURNS},
        _read_explicit,
    ),
    "preference_messages": Form(_needs(TALKS, "chosen", "rejected"), {**_TALK, **_ANSWERS}, _read_explicit),
    "preference_sharegpt": Form(_needs(TALKS, "chosen", "rejected"), {**_TALK, **_ANSWERS}, _read_explicit),
    "preference_implicit": Form(_needs("chosen", "rejected"), {**_ANSWERS, **_FRAME}, _read_implicit),
    "kto": Form(
        _needs(LABELS),
        {
            **_TALK,
            "user": ("instruction", "input", "query", "prompt"),
            "assistant": ("output", "response", "completion"),
            **_TURNS,
            "label": LABELS,
        },
        _read_rated,
    ),
    "messages": Form(_needs(TALKS), _TALK, _read_talk),
    "sharegpt": Form(_needs(TALKS), _TALK, _read_talk),
    "alpaca": Form(
        _needs("instruction", "output"),
        {"user": ("instruction", "input"), "assistant": ("output",), **_TURNS},
        _read_alpaca,
    ),
    "query_response": Form(
        _needs("query", "response"), {"user": ("query",), "assistant": ("response",), **_TURNS}, _read_query
    ),
    "prompt_completion": Form(
        _needs("prompt", "completion"), {"user": ("prompt",), "assistant": ("completion",), **_FRAME}, _read_completion
    ),
    "text": Form(_needs("text"), {"text": ("text",)}, _read_text),
}
