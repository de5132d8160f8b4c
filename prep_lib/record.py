"""What flows: Document, Drop, Cut, Repeat, Message, Conversation.

raw file ──▶ Document ──map──▶ Document ──judge──▶ None │ Drop │ Cut
                                        └─decide─▶ None │ Drop │ Cut │ Repeat
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from prep_lib.errors import BadParameter


@dataclass(frozen=True)
class Document:
    """One text and where it came from.

    Parameters
    ----------
    id : str
        The place it was read from: ``file.jsonl#L12``, ``pages.warc.gz@10234``, ``squad[17]``. Unique in a run.
    text : str
    source : str
        The name the ledger and the mixture count it under.
    meta : mapping
        Whatever else the record carried; never read by a stage unless it says so. Not part of the hash.

    Examples
    --------
    >>> Document("a.jsonl#L1", "你好").utf8
    b'\\xe4\\xbd\\xa0\\xe5\\xa5\\xbd'
    """

    id: str
    text: str
    source: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @cached_property
    def utf8(self) -> bytes:
        """The text as UTF-8, encoded once and shared by every kernel."""
        return self.text.encode("utf-8")

    def __getstate__(self) -> dict[str, Any]:
        # Without the cached bytes: they would travel to every worker a second time.
        return {name: value for name, value in self.__dict__.items() if name != "utf8"}


@dataclass(frozen=True)
class Drop:
    """A verdict: this record goes, and why.

    Parameters
    ----------
    reason : str
        A short name, the same for all records dropped by one rule; the ledger counts by it.
    value, limit : float or None
        What was measured and what was allowed; None where the rule has no number.
    twin : str or None
        The id of the document kept in its place.

    Examples
    --------
    >>> Drop("too_few_chars", value=3, limit=200)
    Drop(reason='too_few_chars', value=3, limit=200)
    """

    reason: str
    value: float | None = None
    limit: float | None = None
    twin: str | None = None

    def __repr__(self) -> str:
        extras = ((name, getattr(self, name)) for name in ("value", "limit", "twin"))
        shown = [f"reason={self.reason!r}", *(f"{name}={value!r}" for name, value in extras if value is not None)]
        return f"Drop({', '.join(shown)})"


@dataclass(frozen=True)
class Cut:
    """A verdict: keep the document without these spans.

    Parameters
    ----------
    spans : tuple of (start, stop)
        Character offsets into the text, half open, in order, not touching.
    reason : str

    Raises
    ------
    BadParameter
        If a span is empty, negative, or does not lie behind the one before it.
    """

    spans: tuple[tuple[int, int], ...]
    reason: str

    def __post_init__(self) -> None:
        before = -1
        for start, stop in self.spans:
            if not before < start < stop:
                raise BadParameter(
                    f"record: span ({start}, {stop}) of a Cut must be non-empty and lie behind {before}; "
                    "sort the spans and join those that touch"
                )
            before = stop

    def apply(self, text: str) -> str:
        """Return `text` without the spans.

        Examples
        --------
        >>> Cut(((0, 2), (4, 5)), "example").apply("abcdef")
        'cdf'
        """
        kept, at = [], 0
        for start, stop in self.spans:
            kept.append(text[at:start])
            at = stop
        return "".join(kept) + text[at:]


@dataclass(frozen=True)
class Repeat:
    """A verdict: the document appears `n` times, n >= 1, in the output."""

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise BadParameter(f"record: a document cannot repeat {self.n} times; use 1 or more, or a Drop")


@dataclass(frozen=True, init=False)
class Message:
    """One turn: who speaks and what is said.

    Parameters
    ----------
    role : str
        ``system``, ``user``, ``assistant`` or ``tool``.
    content : str
        What is said; empty where a turn is only tool calls.
    reasoning : str or None
        What was thought before the content. None: nothing was recorded, which is not the same as an empty thought.
    tool_calls : tuple of mapping
        ``{"type": "function", "id"?: str, "function": {"name": str, "arguments": mapping or str}}``, as in the data.
    tool_call_id, name : str or None
        Which call a tool answers, and who speaks. None: not told.
    train : bool or None
        Whether an assistant turn is a target. None: the policy decides (by default every assistant turn is).
    weight : float or None
        How much its tokens count, 0 or more; 0 makes it context whatever `train` says. None: not told, so 1.

    Examples
    --------
    >>> Message("assistant", "4", reasoning="2 + 2").as_dict()
    {'role': 'assistant', 'content': '4', 'reasoning_content': '2 + 2'}
    """

    role: str
    content: str = ""
    reasoning: str | None = None
    tool_calls: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    tool_call_id: str | None = None
    name: str | None = None
    train: bool | None = None
    weight: float | None = None

    def __init__(
        self,
        role: str,
        content: str = "",
        reasoning: str | None = None,
        tool_calls: tuple[Mapping[str, Any], ...] = (),
        tool_call_id: str | None = None,
        name: str | None = None,
        train: bool | None = None,
        weight: float | None = None,
    ) -> None:
        # A frozen dataclass sets each field through object.__setattr__: 1.4 us a message where this takes 0.7, and
        # reading a conversation is little more than making its messages.
        values = self.__dict__
        values["role"] = role
        values["content"] = content
        values["reasoning"] = reasoning
        values["tool_calls"] = tool_calls
        values["tool_call_id"] = tool_call_id
        values["name"] = name
        values["train"] = train
        values["weight"] = weight

    def as_dict(self) -> dict[str, Any]:
        """Return the message as chat templates read it: role and content, the rest only where there is some."""
        told: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.reasoning is not None:
            told["reasoning_content"] = self.reasoning
        if self.tool_calls:
            told["tool_calls"] = list(self.tool_calls)
        if self.tool_call_id is not None:
            told["tool_call_id"] = self.tool_call_id
        if self.name is not None:
            told["name"] = self.name
        return told


@dataclass(frozen=True)
class Conversation:
    """Messages in order, the tools they may call, and the id of the record they came from."""

    id: str
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)


@dataclass(frozen=True)
class Preference:
    """One prompt and two answers to it, the better one first.

    Parameters
    ----------
    id : str
    prompt, chosen, rejected : tuple of Message
        ``prompt + chosen`` and ``prompt + rejected`` are the two conversations.
    tools : tuple of mapping
    """

    id: str
    prompt: tuple[Message, ...]
    chosen: tuple[Message, ...]
    rejected: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)


@dataclass(frozen=True)
class Rated:
    """A conversation whose last answer somebody called good (True) or bad."""

    id: str
    messages: tuple[Message, ...]
    label: bool
    tools: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
