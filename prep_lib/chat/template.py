"""A model's chat template: a conversation becomes text, each character with its origin, and then ids in one encoding.

    messages ──▶ Jinja, traced ──▶ <|im_start|>user↵Hi <|im_end|> there<|im_end|>↵
                                   ════════════ t    ──────────────────══════════ t       ═ control: an id of its own
                                                     what a person wrote: text            ─ data, t the template's text

Rendered as `transformers` (5.24) renders: the same variables, the same text. Encoded as inference encodes: the whole
conversation at once. A control token is what the template spells, alone or around a role (``<|`` + role + ``|>``); the
same letters inside a message are text, unless ``content_specials="parse"`` asks for what `transformers` does.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prep_lib.chat import folder as files
from prep_lib.errors import BadParameter, BadTemplate
from prep_lib.jinja import FIXED_DATE, Template
from prep_lib.record import Message
from prep_lib.special import IM_END, IM_START
from prep_lib.traced import Origin, Run

if TYPE_CHECKING:
    from prep_lib.tokens.joint import Placed, Row
    from prep_lib.tokens.tokenizer import AutoTokenizer

#: What control tokens spelled inside messages become.
CONTENT_SPECIALS = ("text", "parse")

#: Where templates look for what a model thought, in the order in which `transformers` takes it.
REASONING = ("reasoning_content", "thinking", "reasoning")

#: What a template keeps of what was found out about it.
_FOUND_OUT = ("declared_stops", "one_prompt", "stop_ids", "terminators")

#: Templates that are always there, by name. ``chatml`` is the strategy of that name, with tools and reasoning.
BUILT_IN = {
    "chatml": f"""
{{%- if tools -%}}
{{{{- '{IM_START}system\\n' -}}}}
{{%- if messages and messages[0].role == 'system' -%}}{{{{- messages[0].content + '\\n\\n' -}}}}{{%- endif -%}}
{{{{- 'Tools, one JSON schema a line. To call one, write its name and arguments as JSON in <tool_call> tags.\\n' -}}}}
{{%- for tool in tools -%}}{{{{- tool | tojson + '\\n' -}}}}{{%- endfor -%}}
{{{{- '{IM_END}\\n' -}}}}
{{%- endif -%}}
{{%- for message in messages -%}}
{{%- if not (tools and loop.first and message.role == 'system') -%}}
{{{{- '{IM_START}' + message.role + '\\n' -}}}}
{{%- if message.role == 'assistant' -%}}
{{%- generation -%}}
{{%- if message.reasoning_content -%}}
{{{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' -}}}}
{{%- endif -%}}
{{{{- message.content or '' -}}}}
{{%- for call in message.tool_calls or [] -%}}
{{%- set asked = call.function or call -%}}
{{{{- '\\n<tool_call>\\n{{"name": ' + asked.name | tojson + ', "arguments": ' -}}}}
{{{{- asked.arguments if asked.arguments is string else asked.arguments | tojson -}}}}
{{{{- '}}\\n</tool_call>' -}}}}
{{%- endfor -%}}
{{{{- '{IM_END}' -}}}}
{{%- endgeneration -%}}
{{%- else -%}}
{{{{- (message.content or '') + '{IM_END}' -}}}}
{{%- endif -%}}
{{{{- '\\n' -}}}}
{{%- endif -%}}
{{%- endfor -%}}
{{%- if add_generation_prompt -%}}{{{{- '{IM_START}assistant\\n' -}}}}{{%- endif -%}}
""".strip()
}


@dataclass(frozen=True)
class Rendered:
    """A conversation as text.

    Parameters
    ----------
    text : str
    runs : tuple of Run
        Whose characters they are; together they cover the text.
    controls : tuple of (start, stop, id)
        The control tokens and other added tokens in it, in order: characters ``start:stop`` are the one id.
    literal : int
        Control tokens spelled by data: text, and counted.
    """

    text: str
    runs: tuple[Run, ...]
    controls: tuple[tuple[int, int, int], ...] = ()
    literal: int = 0

    @cached_property
    def _starts(self) -> list[int]:
        return [run.start for run in self.runs]

    def run_at(self, at: int) -> Run:
        """Return the run of one character."""
        return self.runs[bisect_right(self._starts, at) - 1]

    def between(self, start: int, stop: int) -> tuple[Run, ...]:
        """Return the runs that hold characters of ``start:stop``."""
        first = max(0, bisect_right(self._starts, start) - 1)
        return tuple(run for run in self.runs[first : bisect_right(self._starts, stop - 1)] if run.stop > start)

    def runs_before(self, at: int) -> int:
        """Return how many runs begin before a character."""
        return bisect_left(self._starts, at)

    def controls_in(self, start: int, stop: int | None = None) -> Sequence[tuple[int, int, int]]:
        """Return the control tokens that begin in ``start:stop``; None: up to the end."""
        last = None if stop is None else bisect_left(self.controls, (stop,))
        return self.controls[bisect_left(self.controls, (start,)) : last]


@dataclass(frozen=True)
class Encoded:
    """A rendered conversation as ids.

    Parameters
    ----------
    rendered : Rendered
    ids : (n,) int32
    starts, stops : (n,) int64, characters
        Token i stands for ``text[starts[i]:stops[i]]``. Tokens that share a character (bytes of one letter) share its
        place.
    """

    rendered: Rendered
    ids: np.ndarray
    starts: np.ndarray
    stops: np.ndarray

    def place(self, at: int) -> tuple[int, bool]:
        """Return the index of the first token that starts at or behind a character, and whether none lies across it."""
        index = int(np.searchsorted(self.starts, at))
        return index, index == 0 or bool(self.stops[:index].max() <= at)


class ChatTemplate:
    """A chat template, the tokenizer it is for, and what it is rendered with.

    Parameters
    ----------
    source : str
        Jinja.
    tokenizer : AutoTokenizer or None
        Its special tokens are the template's variables. None: rendering only, and special tokens are empty.
    name : str
    variables : mapping
        What else the template reads for every conversation (``enable_thinking``); plain values.
    now : date, str (ISO 8601) or None
        The date a template may print. None: `FIXED_DATE`, never today, so that the same data gives the same ids.
    content_specials : str
        ``text``: a control token spelled inside a message stays text. ``parse``: it becomes the control token, as
        `transformers` would have it.
    stops : sequence of int
        Ids at which a server stops besides those of the tokenizer (``generation_config.json``).

    Raises
    ------
    BadTemplate
        If the source does not parse.
    BadParameter
        If `content_specials` is not known.

    Examples
    --------
    >>> chat = ChatTemplate("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}")
    >>> chat.render([{"role": "user", "content": "hi"}]).text
    '<user>hi'
    """

    def __init__(
        self,
        source: str,
        tokenizer: AutoTokenizer | None = None,
        *,
        name: str = "template",
        variables: Mapping[str, Any] | None = None,
        now: datetime.date | str | None = None,
        content_specials: str = "text",
        stops: Sequence[int] = (),
    ) -> None:
        if content_specials not in CONTENT_SPECIALS:
            raise BadParameter(
                f"chat/template: content_specials must be {' or '.join(CONTENT_SPECIALS)}, got {content_specials!r}"
            )
        self.source, self.tokenizer, self.name = source, tokenizer, name
        self.variables, self.now, self.content_specials = dict(variables or {}), now, content_specials
        self.stops = tuple(stops)
        self._template = Template(source, name)

    @classmethod
    def load(cls, place: str | Path, tokenizer: AutoTokenizer | None = None, **options: Any) -> ChatTemplate:
        """Return the template at a place.

        Parameters
        ----------
        place : path or str
            A model's folder, its ``tokenizer_config.json``, a ``.jinja`` file, Jinja text (it holds ``{``), or a name
            of `BUILT_IN`.
        tokenizer : AutoTokenizer or None
            None: the folder's own, if it has one.

        Raises
        ------
        BadInput
            If nothing is there.
        BadTemplate
            If there is no template, or it does not parse.
        """
        if "{" in str(place):
            return cls(str(place), tokenizer, **options)
        if str(place) in BUILT_IN:
            return cls(BUILT_IN[str(place)], tokenizer, **{"name": str(place), **options})
        folder = files.load(place)
        if folder.template is None:
            raise BadTemplate(f"chat/template: {place} has no chat template; give a .jinja file beside the tokenizer")
        own: dict[str, Any] = {"name": folder.name, "stops": folder.stop_ids}
        if tokenizer is None:
            tokenizer = folder.tokenizer
            known = tokenizer.special_variables if tokenizer is not None else {}
            own["variables"] = {name: text for name, text in folder.variables.items() if name not in known}
        return cls(folder.template.source, tokenizer, **{**own, **options})

    # ------------------------------------------------------------ text

    def render(
        self,
        messages: Sequence[Mapping[str, Any] | Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        **variables: Any,
    ) -> Rendered:
        """Return the text of a conversation and where its characters came from.

        Parameters
        ----------
        messages : sequence of mappings or Message
            Mappings go to the template as they are.
        tools : sequence of mappings or None
            None: the template is told that there are none.
        add_generation_prompt : bool
            True: end where the model begins to answer.
        **variables
            For this conversation; they go before those of the template.

        Raises
        ------
        BadTemplate
            If the template raises or passes a limit.
        """
        given = self._variables(messages, tools, add_generation_prompt, variables)
        text, runs = self._template.trace(now=self.now, **given)
        if self.tokenizer is None:
            return Rendered(text, runs)
        answers = {at for at, said in enumerate(given["messages"]) if said.get("role") == "assistant"}
        return Rendered(text, runs, *self.tokenizer.spelled(text, runs, answers, self.content_specials == "parse"))

    def text(
        self,
        messages: Sequence[Mapping[str, Any] | Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        **variables: Any,
    ) -> str:
        """Return the text alone, which is quicker than `render`."""
        given = self._variables(messages, tools, add_generation_prompt, variables)
        return self._template.render(now=self.now, **given)

    def _variables(
        self,
        messages: Sequence[Any],
        tools: Sequence[Any] | None,
        add_generation_prompt: bool,
        variables: Mapping[str, Any],
    ) -> dict[str, Any]:
        spoken = [_spoken(message.as_dict() if type(message) is Message else message) for message in messages]
        special = {} if self.tokenizer is None else self.tokenizer.special_variables
        known = {**special, "documents": None, **self.variables, **variables}
        return {
            **known,
            "messages": spoken,
            "tools": tools if tools is None else list(tools),
            "add_generation_prompt": add_generation_prompt,
        }

    def uses(self, name: str) -> bool:
        """Tell whether the template mentions a variable: ``tools``, ``strftime_now``, ``add_generation_prompt``."""
        return self._template.uses(name)

    def reads(self, field: str) -> bool:
        """Tell whether the template looks at a field: ``tool_calls``, ``reasoning_content``."""
        return self._template.reads(field)

    @cached_property
    def one_prompt(self) -> bool:
        """Whether the source shows that the generation prompt is one text, whatever messages and tools are."""
        return self._template.ends_alike("add_generation_prompt", ("messages", "tools"))

    @property
    def date(self) -> str | None:
        """The date the template prints, as it is recorded; None if it prints none."""
        return str(self.now or FIXED_DATE) if self.uses("strftime_now") else None

    # ------------------------------------------------------------ ids

    def encode(self, rendered: Rendered) -> Encoded:
        """Return the ids of a rendered conversation, encoded at once, and the characters of each.

        Raises
        ------
        BadParameter
            If there is no tokenizer.
        """
        return Encoded(rendered, *self._tokenizer().encode_joint(rendered.text, rendered.controls))

    def encode_rows(self, rows: Sequence[Row]) -> list[Placed]:
        """Return the ids of many rendered conversations and the places of their borders, at full speed."""
        return self._tokenizer().encode_rows(rows)

    @cached_property
    def stop_ids(self) -> frozenset[int]:
        """The ids that end an answer: those of the tokenizer, those given, and what the template itself puts there."""
        return frozenset((*self.declared_stops, *self.terminators))

    @cached_property
    def declared_stops(self) -> frozenset[int]:
        """The ids that end an answer by what the tokenizer and the model's files say."""
        return frozenset((*(self.tokenizer.stop_ids if self.tokenizer is not None else ()), *self.stops))

    @cached_property
    def terminators(self) -> tuple[int, ...]:
        """The ids of the control tokens this template writes first behind a plain answer, tried on a small chat."""
        said = [Message(role, text) for role, text in zip(("user", "assistant") * 2, "aqbr", strict=True)]
        try:
            probe = self.render(said)
        except BadTemplate:
            return ()
        control = self._tokenizer().control_ids
        found = [_terminator(probe, at, control) for at in (1, 3)]
        return tuple(dict.fromkeys(id for id in found if id is not None))

    def _tokenizer(self) -> AutoTokenizer:
        if self.tokenizer is None:
            raise BadParameter(f"chat/template: {self.name}: a tokenizer is needed for ids, got None")
        return self.tokenizer

    # ------------------------------------------------------------ what it is

    @property
    def sha256(self) -> str:
        """The digest of the source."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    def describe(self) -> dict[str, Any]:
        """Return what a manifest keeps: name, digest, variables, date and how control tokens in content are read."""
        return {
            "name": self.name,
            "sha256": self.sha256,
            "variables": json.loads(json.dumps(self.variables, default=str)),
            "date": self.date,
            "content_specials": self.content_specials,
            "stops": list(self.stops),
        }

    def __getstate__(self) -> dict[str, Any]:
        # What was found out so far is neither sent to workers nor part of a digest.
        return {name: value for name, value in vars(self).items() if name not in _FOUND_OUT}

    def __repr__(self) -> str:
        return f"ChatTemplate({self.name!r}, {len(self.source):,} characters)"


def _spoken(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as `transformers` hands it to a template: without nulls, its reasoning under every usual name.

    Source: ``transformers`` 5.24, ``render_jinja_template``.

    Examples
    --------
    >>> _spoken({"role": "assistant", "content": None, "reasoning": "r"})
    {'thinking': 'r', 'role': 'assistant', 'reasoning': 'r', 'reasoning_content': 'r'}
    """
    said = {name: value for name, value in message.items() if value is not None}
    for name in REASONING:
        if name in said:
            return {"thinking": said[name], **said, "reasoning_content": said[name]}
    return said


def _terminator(probe: Rendered, message: int, control: frozenset[int]) -> int | None:
    """Return the first control token behind a plain answer in its turn, where the template's loop tells its turns."""
    said = max((run.stop for run in probe.runs if run.origin == Origin(message, "content")), default=None)
    end = max((run.stop for run in probe.runs if run.frame == message), default=None)
    if said is None or end is None:
        return None
    return next((id for start, stop, id in probe.controls if said <= start and stop <= end and id in control), None)
