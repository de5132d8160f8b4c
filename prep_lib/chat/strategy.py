"""Prompt strategies: turns of a chat become token ids, and each token knows why it is trained or not.

    <｜im▁start｜>user↵  你好     <｜im▁end｜>  ↵      <｜im▁start｜>assistant↵  Hi!      <｜im▁end｜>  ↵
    start               content  stop        after   start                    content  stop        after
    ·                   ·        ·           ·       ·                        ■        ■           ·       ■ trained

Trained is what the model must say: from the end of the generation prompt up to and including the token it stops at.
"""

from __future__ import annotations

import inspect
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from prep_lib.errors import BadParameter, BadRecord
from prep_lib.registry import Registry
from prep_lib.special import BRACKETED, EOS, IM_END, IM_START, markers

if TYPE_CHECKING:
    from prep_lib.tokens.tokenizer import AutoTokenizer

#: Parameters every strategy takes beside its own texts, and their defaults.
OPTIONS = {"allow_multi_token": False, "train_after_stop": False}


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of tokens of one kind.

    Parameters
    ----------
    ids : list of int
    trained : bool
        Whether these tokens are targets (token-aligned: the trainer shifts).
    turn : int
        Index of the message. The opening of an answer belongs to the answer's turn.
    part : str
        ``start``, ``content``, ``stop`` (up to and including the token the model stops at) or ``after`` (behind it).
    """

    ids: list[int]
    trained: bool
    turn: int
    part: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One message as ids: `trained` says whether it is a target."""

    role: str
    ids: list[int]
    trained: bool


class Frame(NamedTuple):
    """The format tokens around the content of one role."""

    start: list[int]
    stop: list[int]
    after: list[int]


class PromptStrategy(ABC):
    """How format tokens are put around turns; subclass it with `name`, `assemble_prompt` and `assemble_response`.

    Parameters
    ----------
    tokenizer : AutoTokenizer
    **params : str
        The texts named in `defaults`. Each marker inside (``<｜…｜>`` or ``<|…|>``) must be exactly one id.
    allow_multi_token : bool
        True: a marker may be cut into several ids, and is then plain text to the model.
    train_after_stop : bool
        True: what stands behind the stop token (a line feed) is trained too, so that the whole response is.

    Attributes
    ----------
    params : dict
        Every parameter as used, derived ones filled in; creates the same strategy again.
    encoded : dict of str to list of int
        The ids of each text. A text that is None (not derivable) has none.

    Raises
    ------
    BadParameter
        An unknown parameter, a text that is no str, a marker of several ids, a backslash followed by n.

    Notes
    -----
    A strategy that only has the two methods speaks in pairs, user then assistant, repeated. No strategy writes a BOS.

    Examples
    --------
    >>> class Bare(PromptStrategy):
    ...     name = "bare"
    ...     def assemble_prompt(self, query_tokens):
    ...         return [7, *query_tokens, 8]
    ...     def assemble_response(self, response_tokens):
    ...         return [*response_tokens, 9]
    >>> Bare(None).assemble_turns([Turn("user", [50], False), Turn("assistant", [60, 61], True)])
    ([7, 50, 8, 60, 61, 9], [False, False, False, True, True, True], [0, 0, 1, 1, 1, 1])
    """

    #: The texts a strategy takes, and what they are when not given (None: derived, see the class).
    defaults: ClassVar[Mapping[str, str | None]] = {}

    tokenizer: AutoTokenizer | None
    params: dict[str, Any]
    _stops: frozenset[int]

    def __new__(cls, tokenizer: AutoTokenizer | None = None, *args: Any, **params: Any) -> PromptStrategy:
        """Keep what was given, so that a subclass whose `__init__` does not call ours works all the same."""
        made = super().__new__(cls)
        made.tokenizer, made.params, made._stops = tokenizer, params, frozenset()
        return made

    def __init__(self, tokenizer: AutoTokenizer | None, **params: Any) -> None:
        self._refuse_unknown(params)
        options = {name: _flag(self.name, name, params.pop(name, default)) for name, default in OPTIONS.items()}
        given = {**self.defaults, **params}
        for name, text in given.items():
            _check_text(self.name, name, text, optional=self.defaults[name] is None)
        if not options["allow_multi_token"]:
            self._check_markers(given)
        texts = self._derive(given, options["allow_multi_token"])
        self.params = {**texts, **options}
        self.encoded = {name: self._encode(text) for name, text in texts.items() if text is not None}
        self._stops = self._one_id_pieces(texts.values())

    @property
    @abstractmethod
    def name(self) -> str:
        """The name it is registered and stored under."""

    @abstractmethod
    def assemble_prompt(self, query_tokens: list[int]) -> list[int]:
        """Return the query with its format tokens, up to where the answer begins (the generation prompt)."""

    @abstractmethod
    def assemble_response(self, response_tokens: list[int]) -> list[int]:
        """Return the answer with what stands behind it."""

    @property
    def train_after_stop(self) -> bool:
        """Whether the tokens behind the stop token are targets."""
        return bool(self.params.get("train_after_stop", False))

    def layout(self, roles: Sequence[str], trained: Sequence[bool]) -> list[Piece] | None:
        """Return the pieces of a conversation of this shape, contents left empty; None if they depend on the ids."""
        return None

    def pieces(self, turns: Sequence[Turn]) -> list[Piece]:
        """Return the tokens of a conversation in order, each run with its reason; everything else follows from it.

        Raises
        ------
        BadRecord
            ``consecutive_roles``, ``assistant_first`` or ``role_unsupported``.
        """
        plan = self.layout([turn.role for turn in turns], [turn.trained for turn in turns])
        if plan is None:
            return _solid(self._pairs(turns))
        return _solid(replace(p, ids=list(turns[p.turn].ids if p.part == "content" else p.ids)) for p in plan)

    def assemble_turns(self, turns: Sequence[Turn]) -> tuple[list[int], list[bool], list[int]]:
        """Return ids, mask (True: a target) and turn index, one entry a token."""
        pieces = self.pieces(turns)
        ids = [token for piece in pieces for token in piece.ids]
        mask = [piece.trained for piece in pieces for _ in piece.ids]
        turn = [piece.turn for piece in pieces for _ in piece.ids]
        return ids, mask, turn

    def _pairs(self, turns: Sequence[Turn]) -> list[Piece]:
        _check_pairs(self.name, [turn.role for turn in turns])
        pieces = []
        for at, turn in enumerate(turns):
            if turn.role == "user":
                pieces += self._prompt_pieces(turn, at, answered=at + 1 < len(turns))
            else:
                pieces += self._response_pieces(turn, at)
        return pieces

    def _prompt_pieces(self, turn: Turn, at: int, answered: bool) -> list[Piece]:
        before, content, behind = _around(self.assemble_prompt(list(turn.ids)), turn.ids)
        # The border between the end of the question and the opening of the answer is known to nobody but the strategy.
        last = Piece(behind, False, at + 1, "start") if answered else Piece(behind, False, at, "after")
        return [Piece(before, False, at, "start"), Piece(content, False, at, "content"), last]

    def _response_pieces(self, turn: Turn, at: int) -> list[Piece]:
        before, content, behind = _around(self.assemble_response(list(turn.ids)), turn.ids)
        stop, after = self._split_stop(behind)
        return [
            Piece(before, turn.trained, at, "start"),
            Piece(content, turn.trained, at, "content"),
            Piece(stop, turn.trained, at, "stop"),
            Piece(after, turn.trained and self.train_after_stop, at, "after"),
        ]

    def _split_stop(self, suffix: list[int]) -> tuple[list[int], list[int]]:
        """Cut behind the first control token; without one the whole suffix is a stop made of text."""
        control = self.tokenizer.control_ids if self.tokenizer is not None else frozenset[int]()
        stops = control | self._stops
        behind = next((at + 1 for at, token in enumerate(suffix) if token in stops), len(suffix))
        return suffix[:behind], suffix[behind:]

    def _encode(self, text: str) -> list[int]:
        if self.tokenizer is None:
            raise BadParameter(f"chat/strategy: {self.name}: a tokenizer is needed to encode the parameters, got None")
        return list(self.tokenizer.encode(text, parse_special=True))

    def _refuse_unknown(self, params: Mapping[str, Any]) -> None:
        known = sorted({*self.defaults, *OPTIONS})
        for name in params:
            if name not in known:
                raise BadParameter(f"chat/strategy: {self.name}: unknown parameter {name!r}; known: {', '.join(known)}")

    def _derive(self, texts: dict[str, str | None], lax: bool) -> dict[str, str | None]:
        """Fill in texts that are None from the others, where a strategy knows how."""
        return texts

    def _check_markers(self, texts: Mapping[str, str | None]) -> None:
        loose: dict[str, None] = {}
        for name, text in texts.items():
            for marker in markers(text or ""):
                if len(ids := self._encode(marker)) != 1:
                    raise BadParameter(self._several_ids(name, marker, ids))
            loose |= dict.fromkeys(piece for piece in BRACKETED.findall(text or "") if len(self._encode(piece)) != 1)
        if loose:
            shown = ", ".join(map(repr, loose))
            warnings.warn(f"chat/strategy: {self.name}: not one id here, used as text: {shown}", stacklevel=3)

    def _one_id_pieces(self, texts: Iterable[str | None]) -> frozenset[int]:
        """Return the ids of markers and bracketed pieces: they stop a turn even where not declared special."""
        found = [piece for text in texts if text for piece in (*markers(text), *BRACKETED.findall(text))]
        return frozenset(ids[0] for piece in found if len(ids := self._encode(piece)) == 1)

    def _several_ids(self, name: str, marker: str, ids: list[int]) -> str:
        near = [twin for twin in _near_spellings(marker) if self.tokenizer and self.tokenizer.id(twin) is not None]
        hint = f"did you mean {near[0]!r}? " if near else ""
        return (
            f"chat/strategy: {self.name}: {name}: marker {marker!r} is {len(ids)} ids {ids} in this tokenizer, must be "
            f"exactly one; {hint}allow_multi_token=True uses it as text"
        )


class FramedStrategy(PromptStrategy):
    """A strategy told by a table: for each role the text that opens its turns and the text that closes them.

    Notes
    -----
    A subclass that overrides `assemble_prompt` or `assemble_response` speaks in pairs like any other strategy.

    Examples
    --------
    >>> class Dialogue(FramedStrategy):
    ...     name = "dialogue"
    ...     defaults = {"ask": "Q: ", "answer": "A: ", "end": "<eos>"}
    ...     roles = {"user": ("ask", None), "assistant": ("answer", "end")}
    >>> sorted(Dialogue.roles)
    ['assistant', 'user']
    """

    #: role -> (parameter that opens a turn, parameter that closes it; None: nothing does)
    roles: ClassVar[Mapping[str, tuple[str, str | None]]]

    #: True: turns must alternate, user first. False: any order, each message a turn of its own.
    pairs_only: ClassVar[bool] = False

    def frame(self, role: str) -> Frame | None:
        """Return the format tokens around a turn of `role`; None if the strategy cannot say it."""
        start, end = self.roles.get(role, (None, None))
        if start not in self.encoded:
            return None
        return Frame(self.encoded[start], *self._split_stop(self.encoded.get(end or "", [])))

    def assemble_prompt(self, query_tokens: list[int]) -> list[int]:
        """Return the user's turn and the opening of the answer."""
        user, assistant = self._need("user", 0), self._need("assistant", 1)
        return [*user.start, *query_tokens, *user.stop, *user.after, *assistant.start]

    def assemble_response(self, response_tokens: list[int]) -> list[int]:
        """Return the answer and its closing text."""
        assistant = self._need("assistant", 1)
        return [*response_tokens, *assistant.stop, *assistant.after]

    def layout(self, roles: Sequence[str], trained: Sequence[bool]) -> list[Piece] | None:
        """Return start, content, stop and after of every turn, contents left empty; None if a method is overridden."""
        mine, ours = type(self), FramedStrategy
        if (mine.assemble_prompt, mine.assemble_response) != (ours.assemble_prompt, ours.assemble_response):
            return None
        if self.pairs_only:
            _check_pairs(self.name, roles)
        pieces = []
        for at, (role, target) in enumerate(zip(roles, trained, strict=True)):
            frame = self._need(role, at)
            pieces += [
                Piece(frame.start, False, at, "start"),
                Piece([], target, at, "content"),
                Piece(frame.stop, target, at, "stop"),
                Piece(frame.after, target and self.train_after_stop, at, "after"),
            ]
        return pieces

    def _need(self, role: str, at: int) -> Frame:
        frame = self.frame(role)
        if frame is None:
            raise _role_unsupported(self.name, role, at, [known for known in self.roles if self.frame(known)])
        return frame


class ChatML(FramedStrategy):
    r"""``<｜im▁start｜>role↵ content <｜im▁end｜>↵`` for every turn, same roles in a row kept apart.

    Parameters
    ----------
    user_start, user_end, assistant_start, assistant_end : str
        Around a question and an answer.
    system_start, tool_start : str or None
        Open a system or tool turn; `user_end` closes it. None: `user_start` with its word ``user`` replaced by the
        role; where that gives no text of whole markers, such turns are refused (``role_unsupported``).

    Examples
    --------
    >>> ChatML.defaults["user_start"]
    '<｜im▁start｜>user\n'
    """

    name = "chatml"
    defaults: ClassVar[Mapping[str, str | None]] = {
        "user_start": f"{IM_START}user\n",
        "user_end": f"{IM_END}\n",
        "assistant_start": f"{IM_START}assistant\n",
        "assistant_end": f"{IM_END}\n",
        "system_start": None,
        "tool_start": None,
    }
    roles: ClassVar[Mapping[str, tuple[str, str | None]]] = {
        "system": ("system_start", "user_end"),
        "user": ("user_start", "user_end"),
        "assistant": ("assistant_start", "assistant_end"),
        "tool": ("tool_start", "user_end"),
    }

    def _derive(self, texts: dict[str, str | None], lax: bool) -> dict[str, str | None]:
        user_start = texts["user_start"] or ""
        for role in ("system", "tool"):
            text = texts[f"{role}_start"]
            texts[f"{role}_start"] = text if text is not None else self._derived(user_start, role, lax)
        return texts

    def _derived(self, user_start: str, role: str, lax: bool) -> str | None:
        text, found = re.subn(r"(?<![A-Za-z])user(?![A-Za-z])", role, user_start)
        whole = lax or all(len(self._encode(marker)) == 1 for marker in markers(text))
        return text if found == 1 and whole else None


class Alpaca(FramedStrategy):
    r"""``### Instruction:↵ query ### Response:↵ answer <｜end▁of▁sentence｜>``, user then assistant, repeated.

    Parameters
    ----------
    instruction_start, response_start, response_suffix : str
        Nothing stands between the query and `response_start`; begin that text with a line feed if one should.

    Examples
    --------
    >>> Alpaca.defaults["response_suffix"]
    '<｜end▁of▁sentence｜>'
    """

    name = "alpaca"
    defaults: ClassVar[Mapping[str, str | None]] = {
        "instruction_start": "### Instruction:\n",
        "response_start": "### Response:\n",
        "response_suffix": EOS,
    }
    roles: ClassVar[Mapping[str, tuple[str, str | None]]] = {
        "user": ("instruction_start", None),
        "assistant": ("response_start", "response_suffix"),
    }
    pairs_only: ClassVar[bool] = True


_STRATEGIES: Registry[type[PromptStrategy]] = Registry("chat/strategy", "strategy")
_STRATEGIES.add("chatml", ChatML)
_STRATEGIES.add("alpaca", Alpaca)


class StrategyFactory:
    """Strategies by name.

    Examples
    --------
    >>> StrategyFactory.create("chatlm", None)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    prep_lib.errors.UnknownName: chat/strategy: unknown strategy 'chatlm'; did you mean 'chatml'? known: ...
    """

    @staticmethod
    def create(name: str, tokenizer: AutoTokenizer | None, /, **params: Any) -> PromptStrategy:
        """Build the strategy registered under `name`; see its class for the parameters.

        Raises
        ------
        UnknownName
            Nobody registered `name`.
        BadParameter
            As the strategy says.
        """
        made = _STRATEGIES[name]
        try:
            inspect.signature(made.__init__).bind(None, tokenizer, **params)
        except TypeError as error:
            raise BadParameter(f"chat/strategy: {name}: {error}; known: {', '.join(_parameters(made))}") from error
        return made(tokenizer, **params)

    @staticmethod
    def register(name: str, cls: type[PromptStrategy]) -> None:
        """Make `cls` known as `name`.

        Raises
        ------
        BadParameter
            If `cls` is no subclass of `PromptStrategy`, or `name` is taken.
        """
        if not (isinstance(cls, type) and issubclass(cls, PromptStrategy)):
            raise BadParameter(f"chat/strategy: register {name!r}: must be a subclass of PromptStrategy, got {cls!r}")
        _STRATEGIES.add(name, cls)

    @staticmethod
    def names() -> list[str]:
        """Return the known names, sorted."""
        return list(_STRATEGIES)


def _parameters(cls: type[PromptStrategy]) -> list[str]:
    return [name for name in inspect.signature(cls.__init__).parameters if name not in ("self", "tokenizer")]


def _solid(pieces: Iterable[Piece]) -> list[Piece]:
    return [piece for piece in pieces if piece.ids]


def _around(whole: Iterable[int], content: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Split what a strategy returned into before, content and behind; a rewritten content is content as a whole."""
    ids = whole.tolist() if hasattr(whole, "tolist") else list(whole)
    for at in range(len(ids) - len(content) + 1):
        if ids[at : at + len(content)] == content:
            return ids[:at], ids[at : at + len(content)], ids[at + len(content) :]
    return [], ids, []


def _check_pairs(name: str, roles: Sequence[str]) -> None:
    for at, role in enumerate(roles):
        if role not in ("user", "assistant"):
            raise _role_unsupported(name, role, at, ["user", "assistant"])
        if at and role == roles[at - 1]:
            raise BadRecord("consecutive_roles", f"messages {at - 1} and {at}: both {role!r}; {name} speaks in pairs")
    if roles and roles[0] == "assistant":
        raise BadRecord("assistant_first", f"message 0 is an answer; {name} speaks in pairs, user first")


def _role_unsupported(name: str, role: str, at: int, known: Iterable[str]) -> BadRecord:
    return BadRecord("role_unsupported", f"message {at}: role {role[:40]!r}; {name} knows: {', '.join(sorted(known))}")


def _flag(strategy: str, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise BadParameter(f"chat/strategy: {strategy}: {name} must be True or False, got {value!r}")
    return value


def _check_text(strategy: str, name: str, text: object, optional: bool) -> None:
    if text is None and optional:
        return
    if not isinstance(text, str):
        raise BadParameter(f"chat/strategy: {strategy}: {name} must be str, got {type(text).__name__}")
    if "\\n" in text:
        right = text.replace("\\n", "\n")
        raise BadParameter(
            f"chat/strategy: {strategy}: {name}: {text!r} holds a backslash and the letter n, two characters of text; "
            f"a line feed is written {right!r}"
        )


def _near_spellings(marker: str) -> list[str]:
    """Return the looks-alike forms: ASCII or full-width bars, underscore or low line block."""
    forms = [
        marker.translate({ord("|"): bar, ord("｜"): bar, ord("_"): line, ord("▁"): line})
        for bar in "｜|"
        for line in "▁_"
    ]
    return [form for form in dict.fromkeys(forms) if form != marker]
