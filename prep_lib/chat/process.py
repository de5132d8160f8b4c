"""Processors: records become the arrays a trainer reads, in batches, with a reason for each one that is lost.

    pt    a text                  sequence                       text ids, then one EOS
    sft   a conversation          sequence, loss_mask
    dpo   a prompt, two answers   chosen, chosen_mask, rejected, rejected_mask, prompt_length
    kto   a conversation, rated   sequence, loss_mask, label

    record ──read──┬─ strategy: texts ──encode_many──▶ ids ──lay──▶ strands ──weave──▶ Row │ Drop │ BadRecord
                   └─ chat template: rendered.rows ──────────────────────────────────▶ Row │ Drop │ BadRecord

All texts of a batch are encoded in one call and all sequences woven in one copy; nothing is done token by token.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import chain, compress, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from prep_lib.chat import conversation, rendered
from prep_lib.chat.mask import Policy
from prep_lib.chat.row import Row, no_target
from prep_lib.chat.strategy import ChatML, Piece, PromptStrategy, StrategyFactory, Turn
from prep_lib.chat.template import ChatTemplate
from prep_lib.errors import AcceleratorMismatch, BadParameter, BadRecord
from prep_lib.record import Conversation, Drop, Message, Preference, Rated
from prep_lib.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

    from prep_lib.tokens.tokenizer import AutoTokenizer

T = TypeVar("T")

#: Shapes of conversations remembered per processor; a data set with more of them starts afresh.
SHAPES = 4096


class _Read(NamedTuple):
    """A record after checking: its texts, the role of each, which of them are targets, and what a row keeps of it.

    Of a preference `split` tells how many texts are the prompt, and where the rejected answer begins.
    """

    texts: list[str]
    roles: tuple[str, ...]
    trained: tuple[bool, ...]
    split: tuple[int, int] = (0, 0)
    talk: Conversation | Rated | None = None


class _Shape(NamedTuple):
    """What conversations of the same roles share: the format tokens, None where a content goes."""

    parts: list[np.ndarray | None]
    trained: list[bool]
    turns: list[int]
    targets: int
    control: int
    eos: int


class _Strand(NamedTuple):
    """One sequence before weaving: runs of ids, and one flag and one turn a run."""

    parts: list[np.ndarray]
    trained: Sequence[bool]
    turns: Sequence[int]
    targets: int
    content: int
    control: int
    eos: int
    talk: Conversation | Rated | None = None

    def verdict(self) -> Drop | None:
        """Judge the mask: all of one kind teaches nothing, or was never meant."""
        if self.targets == 0:
            return Drop("no_target")
        return Drop("no_context") if self.targets == self.content + self.control + self.eos else None


#: A record laid out: its sequences, or why there are none.
_Draft = tuple[_Strand, ...] | Drop | BadRecord


class _Woven(NamedTuple):
    """All sequences of a batch behind one another: sequence k is ``bounds[k]:bounds[k + 1]``."""

    ids: np.ndarray
    mask: np.ndarray
    turn: np.ndarray
    bounds: list[int]

    def span(self, at: int) -> slice:
        return slice(self.bounds[at], self.bounds[at + 1])


class Processor:
    """Turns records into arrays; subclass it with `arrays` or `process` alone and it works everywhere.

    Parameters
    ----------
    tokenizer : AutoTokenizer
    strategy : PromptStrategy, ChatTemplate or None
        None: the processor needs none.

    Attributes
    ----------
    type : str
        The name it is registered under.
    keys : tuple of str
        The names of its arrays in order. Empty: whatever the first row has.
    id_keys : tuple of str
        Those that hold token ids. Empty: every one-dimensional array of integers.
    packs : bool
        Whether its rows may be packed: they are one sequence, and nothing in them belongs to the row as a whole.

    Examples
    --------
    >>> class Lengths(Processor):
    ...     def arrays(self, record):
    ...         return {"sequence": np.arange(record["n"])}
    >>> Lengths(None).rows([{"n": 3}])[0].arrays
    {'sequence': array([0, 1, 2], dtype=int32)}
    """

    type: ClassVar[str] = ""
    keys: tuple[str, ...] = ()
    id_keys: ClassVar[tuple[str, ...]] = ()
    packs: ClassVar[bool] = True

    tokenizer: AutoTokenizer | None = None
    strategy: PromptStrategy | ChatTemplate | None = None

    def __init__(self, tokenizer: AutoTokenizer | None, strategy: PromptStrategy | ChatTemplate | None = None) -> None:
        self.tokenizer, self.strategy = tokenizer, strategy

    def arrays(self, record: dict[str, Any]) -> dict[str, np.ndarray] | Drop:
        """Return the arrays of one record, or why it goes.

        Raises
        ------
        BadRecord
            If the record cannot be used at all.
        """
        return _settled(self.process(record)) if self._only_process() else self._made(record)

    def process(self, record: dict[str, Any]) -> dict[str, Tensor]:
        """Return the tensors of one record.

        Raises
        ------
        BadRecord
            If the record cannot be used, or is dropped: the reason is the drop's.
        """
        from prep_lib.tensors import to_tensor

        # In a child with a process of its own, its call of ours must not come back to it.
        arrays = self._made(record) if self._only_process() else self.arrays(record)
        if isinstance(arrays, Drop):
            raise BadRecord(arrays.reason, "dropped")
        return {name: to_tensor(array) for name, array in arrays.items()}

    def rows(self, records: Sequence[dict[str, Any]]) -> list[Row | Drop | BadRecord]:
        """Return one verdict a record, in order; a record that fails takes no other with it."""
        return [self._alone(record) for record in records]

    def pieces(self, record: dict[str, Any], key: str | None = None) -> list[Piece]:
        """Return the tokens of one array of ids in runs, each with its reason (built-in processors only)."""
        raise BadParameter(f"chat/process: {type(self).__name__} cannot explain its tokens; define pieces(record, key)")

    def describe(self) -> dict[str, Any]:
        """Return what the manifest keeps: type, strategy with its parameters or template, and the mask rule."""
        strategy = self.strategy
        plain = strategy if isinstance(strategy, PromptStrategy) else None
        return {
            "type": self.type,
            "id_keys": list(self.id_keys),
            "strategy": plain and {"name": plain.name, "params": _plain(plain.params)},
            "template": strategy.describe() if isinstance(strategy, ChatTemplate) else None,
            "train_after_stop": plain is not None and plain.train_after_stop,
        }

    def _made(self, record: dict[str, Any]) -> dict[str, np.ndarray] | Drop:
        """Make the arrays our own way; a user's processor has none but its two methods."""
        raise BadParameter(f"chat/process: {type(self).__name__} must define arrays(record) or process(record)")

    def _overrides(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(Processor, method)

    def _only_process(self) -> bool:
        return self._overrides("process") and not self._overrides("arrays")

    def _alone(self, record: dict[str, Any]) -> Row | Drop | BadRecord:
        try:
            with _user_code("processor_failed"):
                arrays = _settled(self.arrays(record))
                return arrays if isinstance(arrays, Drop) else self._row_of(arrays)
        except BadRecord as error:
            return error

    def _row_of(self, made: dict[str, np.ndarray]) -> Row | Drop:
        ids = self.id_keys or tuple(name for name, array in made.items() if array.ndim == 1 and array.dtype.kind == "i")
        if no_target(made):
            return Drop("no_target")
        return Row(made, *self._count([made[name] for name in ids]), ids=ids)

    def _count(self, sequences: list[np.ndarray]) -> tuple[int, int, int]:
        """Count content, control and EOS by id: all that is known of a user's arrays."""
        ids = np.concatenate(sequences) if sequences else np.empty(0, np.int32)
        if self.tokenizer is None:
            return len(ids), 0, 0
        end = self.tokenizer.eos_token_id
        eos = 0 if end is None else int(np.count_nonzero(ids == end))
        marked = int(np.isin(ids, sorted({*self.tokenizer.control_ids, *([] if end is None else [end])})).sum())
        return len(ids) - marked, marked - eos, eos


class _Batched(Processor):
    """What the built-in processors share: all texts of a batch are encoded in one call."""

    tokenizer: AutoTokenizer

    def rows(self, records: Sequence[dict[str, Any]]) -> list[Row | Drop | BadRecord]:
        """Return one verdict a record, in order; a record that fails takes no other with it."""
        if self._overrides("arrays") or self._overrides("process"):
            return super().rows(records)
        return self._batch(records)

    def _made(self, record: dict[str, Any]) -> dict[str, np.ndarray] | Drop:
        (row,) = self._batch([record])
        if isinstance(row, BadRecord):
            raise row
        return row if isinstance(row, Drop) else row.arrays

    def _batch(self, records: Sequence[dict[str, Any]]) -> list[Row | Drop | BadRecord]:
        reads = [_caught(self._read, record) for record in records]
        contents, literals = self._encode(reads)
        drafts = [self._draft(read, parts) for read, parts in zip(reads, contents, strict=True)]
        woven = _weave([strand for draft in drafts if isinstance(draft, tuple) for strand in draft])
        return self._finish(drafts, literals, woven)

    def pieces(self, record: dict[str, Any], key: str | None = None) -> list[Piece]:
        """Return the tokens of one array of ids in runs, each with its reason.

        Parameters
        ----------
        record : dict
        key : str or None
            Which of `id_keys`. None: the first.

        Raises
        ------
        BadRecord
            If the record cannot be used or is dropped.
        BadParameter
            If there is no such key.
        """
        if key is not None and key not in self.id_keys:
            raise BadParameter(f"chat/process: {self.type}: no ids under {key!r}; known: {', '.join(self.id_keys)}")
        reads: list[_Read | Drop | BadRecord] = [self._read(record)]
        (contents,), _ = self._encode(reads)
        read = reads[0]
        draft = self._draft(read, contents)
        if not isinstance(draft, tuple) or not isinstance(read, _Read):
            raise draft if isinstance(draft, BadRecord) else BadRecord(getattr(draft, "reason", ""), "dropped")
        return self._explain(_turns(read, contents), self.id_keys.index(key or self.id_keys[0]))

    def _draft(self, read: _Read | Drop | BadRecord, contents: list[np.ndarray]) -> _Draft:
        try:
            return self._lay(read, contents) if isinstance(read, _Read) else read
        except BadRecord as error:
            return error

    def _read(self, record: dict[str, Any]) -> _Read:
        """Check a record and take its texts out."""
        raise NotImplementedError

    def _lay(self, read: _Read, contents: list[np.ndarray]) -> _Draft:
        """Judge a record whose texts are ids, and lay out its sequences."""
        raise NotImplementedError

    def _explain(self, turns: list[Turn], which: int) -> list[Piece]:
        raise NotImplementedError

    def _row(self, draft: tuple[_Strand, ...], at: int, woven: _Woven) -> Row:
        """Cut the arrays of one record out of the woven batch; its first sequence is number `at`."""
        raise NotImplementedError

    def _encode(self, reads: list[_Read | Drop | BadRecord]) -> tuple[list[list[np.ndarray]], list[int]]:
        """Return the ids of each record's texts, and how many control tokens are spelled in them; spoils bad reads."""
        literals = self._inspect(reads)
        texts = [text for read in reads if isinstance(read, _Read) for text in read.texts]
        flat, offsets = self.tokenizer.encode_many(texts)
        parts = iter([flat[a:b] for a, b in pairwise(offsets.tolist())])
        return [[next(parts) for _ in read.texts] if isinstance(read, _Read) else [] for read in reads], literals

    def _inspect(self, reads: list[_Read | Drop | BadRecord]) -> list[int]:
        """Count literal control tokens a record; records with lone surrogates become BadRecords in place."""
        # One look at all texts together: most batches hold neither, and then no text is looked at alone.
        joined = _joined(reads)
        if not conversation.is_clean(joined):
            for at, read in enumerate(reads):
                if isinstance(read, _Read) and not all(map(conversation.is_clean, read.texts)):
                    reads[at] = BadRecord("lone_surrogate", "half of a surrogate pair has no UTF-8")
            joined = _joined(reads)
        spelled = self.tokenizer.literal_specials
        if not spelled(joined):
            return [0] * len(reads)
        return [sum(len(spelled(text)) for text in read.texts) if isinstance(read, _Read) else 0 for read in reads]

    def _finish(self, drafts: list[_Draft], literals: list[int], woven: _Woven) -> list[Row | Drop | BadRecord]:
        out: list[Row | Drop | BadRecord] = []
        at = 0
        for draft, spelled in zip(drafts, literals, strict=True):
            if isinstance(draft, tuple):
                row = self._row(draft, at, woven)
                row.literal_specials = spelled
                out.append(row)
                at += len(draft)
            else:
                out.append(draft)
        return out


class PreTrainProcessor(_Batched):
    """``{"text"}`` becomes its ids and one EOS; the EOS is an id, never text.

    Parameters
    ----------
    tokenizer : AutoTokenizer
        With an EOS token.

    Notes
    -----
    *Drops* ``empty``: the text gives no ids.

    Raises
    ------
    BadParameter
        If the tokenizer has no EOS token.
    """

    type = "pt"
    keys: tuple[str, ...] = ("sequence",)
    id_keys = ("sequence",)

    def __init__(self, tokenizer: AutoTokenizer) -> None:
        super().__init__(tokenizer)
        if tokenizer.eos_token_id is None:
            raise BadParameter(
                "chat/process: pt: one EOS is appended to each document, but the tokenizer has none; set eos_token"
            )
        self._end = np.array([tokenizer.eos_token_id], dtype=np.int32)

    def _read(self, record: dict[str, Any]) -> _Read:
        return _Read([_text(record, "text")], ("document",), (True,))

    def _lay(self, read: _Read, contents: list[np.ndarray]) -> _Draft:
        (ids,) = contents
        if not len(ids):
            return Drop("empty")
        return (_Strand([ids, self._end], (True, True), (0, 0), len(ids) + 1, len(ids), 0, 1),)

    def _batch(self, records: Sequence[dict[str, Any]]) -> list[Row | Drop | BadRecord]:
        # A document is one text and one EOS: nothing has to be woven, which takes half of what encoding leaves.
        reads: list[_Read | Drop | BadRecord] = [_caught(self._read, record) for record in records]
        literals = self._inspect(reads)
        ids, offsets = self.tokenizer.encode_many([read.texts[0] for read in reads if isinstance(read, _Read)])
        sequences = np.insert(ids, offsets[1:], self._end[0])
        spans = iter(pairwise((offsets + np.arange(len(offsets))).tolist()))
        return [
            self._ended(sequences, *next(spans), spelled) if isinstance(read, _Read) else read
            for read, spelled in zip(reads, literals, strict=True)
        ]

    @staticmethod
    def _ended(sequences: np.ndarray, begin: int, end: int, spelled: int) -> Row | Drop:
        content = end - begin - 1
        arrays = {"sequence": sequences[begin:end]}
        return Row(arrays, content, 0, 1, literal_specials=spelled) if content else Drop("empty")

    def _explain(self, turns: list[Turn], which: int) -> list[Piece]:
        return [Piece(turns[0].ids, True, 0, "content"), Piece(self._end.tolist(), True, 0, "stop")]


class _Chat(_Batched):
    """What processors of conversations share.

    With a strategy, texts are encoded apart and format tokens put around them. With a chat template, conversations are
    rendered and encoded as a whole (`chat.rendered`). Both know the same forms of records and the same policy.
    """

    strategy: PromptStrategy | ChatTemplate

    def __init__(
        self,
        tokenizer: AutoTokenizer,
        strategy: PromptStrategy | ChatTemplate | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(tokenizer, ChatML(tokenizer) if strategy is None else _checked(strategy, tokenizer, self.type))
        self.policy = Policy() if policy is None else policy
        if self.policy.weights:
            self.keys = (*type(self).keys, "loss_weight")
        self._shapes: dict[tuple[Any, ...], _Shape | None] = {}

    def __getstate__(self) -> dict[str, Any]:
        # What was seen so far must not change the digest of a processor.
        return {**self.__dict__, "_shapes": {}}

    def describe(self) -> dict[str, Any]:
        """Return what the manifest keeps: type, strategy or template, and the mask rule."""
        told = super().describe()
        after = told["train_after_stop"] or self.policy.train_after_stop
        return {**told, "policy": asdict(self.policy), "train_after_stop": after}

    def _batch(self, records: Sequence[dict[str, Any]]) -> list[Row | Drop | BadRecord]:
        if not isinstance(self.strategy, ChatTemplate):
            return super()._batch(records)
        return self._rendered(self.strategy, [_caught(self._take, record) for record in records])

    def _take(self, record: dict[str, Any]) -> Any:
        """Read a record of any known form as what this processor is for."""
        raise NotImplementedError

    def _rendered(self, template: ChatTemplate, taken: list[Any]) -> list[Row | Drop | BadRecord]:
        raise NotImplementedError

    def _explain(self, turns: list[Turn], which: int) -> list[Piece]:
        return self._plain_strategy.pieces(turns)

    @property
    def _plain_strategy(self) -> PromptStrategy:
        if isinstance(self.strategy, ChatTemplate):
            raise BadParameter(
                f"chat/process: {self.type}: pieces are a strategy's; use chat.mask.explain for a template"
            )
        return self.strategy

    def _weighed(self, messages: Sequence[Message]) -> None:
        for at, message in enumerate(messages):
            if message.weight is not None and message.weight not in (0, 1) and not self.policy.weights:
                raise BadRecord("weight_refused", f"messages[{at}]: a weight that is neither 0 nor 1; ask for weights")

    def _strand(self, roles: tuple[str, ...], trained: tuple[bool, ...], contents: list[np.ndarray]) -> _Strand:
        """Lay out one conversation: from its shape when the strategy has one, else from its pieces."""
        shape = self._shape(roles, trained)
        if shape is None:
            return self._from_pieces(roles, trained, contents)
        fill = iter(contents)
        parts = [next(fill) if part is None else part for part in shape.parts]
        sizes = list(map(len, contents))
        targets = shape.targets + sum(compress(sizes, trained))
        return _Strand(parts, shape.trained, shape.turns, targets, sum(sizes), shape.control, shape.eos)

    def _shape(self, roles: tuple[str, ...], trained: tuple[bool, ...]) -> _Shape | None:
        key = roles, trained
        if key not in self._shapes:
            if len(self._shapes) >= SHAPES:
                self._shapes.clear()
            self._shapes[key] = self._shape_of(roles, trained)
        return self._shapes[key]

    def _shape_of(self, roles: tuple[str, ...], trained: tuple[bool, ...]) -> _Shape | None:
        # A strategy that overrides pieces has the last word: its pieces are what is stored.
        strategy = self._plain_strategy
        if type(strategy).pieces is not PromptStrategy.pieces:
            return None
        with _user_code("strategy_failed"):
            layout = strategy.layout(roles, trained)
        if layout is None:
            return None
        shown = [piece for piece in layout if piece.ids or piece.part == "content"]
        parts = [None if piece.part == "content" else np.array(piece.ids, np.int32) for piece in shown]
        targets = sum(len(piece.ids) for piece in shown if piece.trained)
        flags, turns = [piece.trained for piece in shown], [piece.turn for piece in shown]
        return _Shape(parts, flags, turns, targets, *self._count_format(shown))

    def _from_pieces(self, roles: tuple[str, ...], trained: tuple[bool, ...], contents: list[np.ndarray]) -> _Strand:
        with _user_code("strategy_failed"):
            turns = [Turn(*turn) for turn in zip(roles, (ids.tolist() for ids in contents), trained, strict=True)]
            pieces = self._plain_strategy.pieces(turns)
            parts = [np.array(piece.ids, dtype=np.int32) for piece in pieces]
        targets = sum(len(piece.ids) for piece in pieces if piece.trained)
        content = sum(len(piece.ids) for piece in pieces if piece.part == "content")
        flags, at = [piece.trained for piece in pieces], [piece.turn for piece in pieces]
        return _Strand(parts, flags, at, targets, content, *self._count_format(pieces))

    def _count_format(self, pieces: Iterable[Piece]) -> tuple[int, int]:
        ids = [token for piece in pieces if piece.part != "content" for token in piece.ids]
        eos = ids.count(self.tokenizer.eos_token_id) if self.tokenizer.eos_token_id is not None else 0
        return len(ids) - eos, eos


class SFTProcessor(_Chat):
    """A conversation of any known form becomes a sequence and the mask of its targets.

    Parameters
    ----------
    tokenizer : AutoTokenizer
    strategy : PromptStrategy, ChatTemplate or None
        None: ChatML with its defaults.
    policy : Policy or None
        Which answers are trained. None: all.

    Notes
    -----
    Records are read by `conversation.read`: messages, ShareGPT, Alpaca, query and response, prompt and completion. An
    answer of no tokens is never a target: its stop token alone would teach silence.

    *Drops* ``empty``: no message. ``empty_response``: all answers to train are empty. ``no_target``: no answer is to be
    trained. ``no_context``: every token would be a target, so there is nothing to answer. With a template also the
    reasons of `mask.Unproven`.
    *Fails* as `conversation.read`; ``unwritten_field``: a strategy cannot write tools, calls or reasoning;
    ``weight_refused``; ``template_failed``.
    """

    type = "sft"
    keys: tuple[str, ...] = ("sequence", "loss_mask")
    id_keys = ("sequence",)

    def _take(self, record: dict[str, Any]) -> Conversation | Rated:
        made = conversation.read(record)
        if not isinstance(made, Conversation):
            raise _other_form(self.type, made)
        self._weighed(made.messages)
        return made

    def _rendered(self, template: ChatTemplate, taken: list[Any]) -> list[Row | Drop | BadRecord]:
        return rendered.rows(template, self.policy, taken)

    def _read(self, record: dict[str, Any]) -> _Read:
        talk = self._take(record)
        trained = [False] * len(talk.messages)
        for at in self.policy.wanted(talk.messages):
            trained[at] = True
        roles = tuple([message.role for message in talk.messages])
        return _Read(_texts(talk.messages, talk.tools), roles, tuple(trained), (0, 0), talk)

    def _lay(self, read: _Read, contents: list[np.ndarray]) -> _Draft:
        # An answer of no tokens is no target; in nearly all records there is none, and the flags stay as read.
        sized = all(map(len, contents))
        trained = read.trained if sized else tuple(map(_both, read.trained, map(len, contents)))
        strand = self._strand(read.roles, trained, contents)
        if not any(trained) and (any(read.trained) or (read.talk and self.policy.silent(read.talk.messages))):
            return Drop("empty_response")
        return strand.verdict() or (strand._replace(talk=read.talk) if self._keeps_talk else strand,)

    @property
    def _keeps_talk(self) -> bool:
        """Whether a row holds more of its record than the strategy writes."""
        return self.policy.weights

    def _row(self, draft: tuple[_Strand, ...], at: int, woven: _Woven) -> Row:
        (strand,), span = draft, woven.span(at)
        arrays = {"sequence": woven.ids[span], "loss_mask": woven.mask[span]}
        row = Row(arrays, strand.content, strand.control, strand.eos, woven.turn[span])
        if self.policy.weights and strand.talk is not None and row.turn is not None:
            arrays["loss_weight"] = rendered.weights(strand.talk.messages, row.turn, arrays["loss_mask"])
        return row


class KTOProcessor(SFTProcessor):
    """A conversation whose last answer was called good or bad: its sequence, the mask of that answer, and the label.

    Notes
    -----
    ``label`` is (1,) int32, 1 for good. Earlier answers are context. Rows are never packed.

    *Drops* and *fails* as `SFTProcessor`.
    """

    type = "kto"
    keys: tuple[str, ...] = ("sequence", "loss_mask", "label")
    packs = False

    def _take(self, record: dict[str, Any]) -> Rated:
        made = conversation.read(record)
        if not isinstance(made, Rated):
            raise _other_form(self.type, made)
        self._weighed(made.messages)
        return replace(made, messages=(*rendered.context(made.messages[:-1]), *made.messages[-1:]))

    def _rendered(self, template: ChatTemplate, taken: list[Any]) -> list[Row | Drop | BadRecord]:
        rows = super()._rendered(template, taken)
        return [_labelled(row, talk) if isinstance(row, Row) else row for row, talk in zip(rows, taken, strict=True)]

    _keeps_talk = True

    def _row(self, draft: tuple[_Strand, ...], at: int, woven: _Woven) -> Row:
        return _labelled(super()._row(draft, at, woven), draft[0].talk)


class DPOProcessor(_Chat):
    """A prompt and two answers become two sequences that begin alike, and their masks.

    Parameters
    ----------
    tokenizer : AutoTokenizer
    strategy : PromptStrategy, ChatTemplate or None
        None: ChatML with its defaults.
    policy : Policy or None

    Notes
    -----
    ``prompt_length`` is (1,) int32, tokens: both sequences begin with the same `prompt_length` ids. Only what stands
    behind the prompt is trained, in both answers alike. Rows are never packed.

    *Drops* ``empty_response``: an answer has no tokens. ``chosen_equals_rejected``: the same ids, so nothing to prefer.
    ``no_target`` and ``no_context`` as in `SFTProcessor`.
    *Fails* ``prompt_differs``: two prompts were written for one query.
    """

    type = "dpo"
    keys: tuple[str, ...] = ("chosen", "chosen_mask", "rejected", "rejected_mask", "prompt_length")
    id_keys = ("chosen", "rejected")
    packs = False

    def __init__(
        self,
        tokenizer: AutoTokenizer,
        strategy: PromptStrategy | ChatTemplate | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(tokenizer, strategy, policy)
        if self.policy.weights:
            raise BadParameter("chat/process: dpo stores no weights; use weights=False")

    def _take(self, record: dict[str, Any]) -> Preference:
        made = conversation.read(record)
        if not isinstance(made, Preference):
            raise _other_form(self.type, made)
        self._weighed((*made.prompt, *made.chosen, *made.rejected))
        return made

    def _rendered(self, template: ChatTemplate, taken: list[Any]) -> list[Row | Drop | BadRecord]:
        return rendered.pairs(template, self.policy, taken)

    def _read(self, record: dict[str, Any]) -> _Read:
        pair = self._take(record)
        said = (*pair.prompt, *pair.chosen, *pair.rejected)
        trained = tuple(at >= len(pair.prompt) and message.role == "assistant" for at, message in enumerate(said))
        split = len(pair.prompt), len(pair.prompt) + len(pair.chosen)
        return _Read(_texts(said, pair.tools), tuple(message.role for message in said), trained, split)

    def _lay(self, read: _Read, contents: list[np.ndarray]) -> _Draft:
        prompt, second = read.split
        chosen, rejected = contents[prompt:second], contents[second:]
        if not any(map(len, chosen)) or not any(map(len, rejected)):
            return Drop("empty_response")
        if len(chosen) == len(rejected) and all(map(np.array_equal, chosen, rejected)):
            return Drop("chosen_equals_rejected")
        both = self._answer(read, contents, slice(prompt, second)), self._answer(read, contents, slice(second, None))
        lost = both[0].verdict() or both[1].verdict()
        if lost is None and not _same_prompt(*both):
            return BadRecord("prompt_differs", "both answers need one shared prompt")
        return lost or both

    def _answer(self, read: _Read, contents: list[np.ndarray], answer: slice) -> _Strand:
        before = slice(0, read.split[0])
        said = contents[before] + contents[answer]
        trained = tuple(map(_both, read.trained[before] + read.trained[answer], map(len, said)))
        return self._strand(read.roles[before] + read.roles[answer], trained, said)

    def _row(self, draft: tuple[_Strand, ...], at: int, woven: _Woven) -> Row:
        arrays: dict[str, np.ndarray] = {}
        for which, name in enumerate(self.id_keys):
            span = woven.span(at + which)
            arrays |= {name: woven.ids[span], f"{name}_mask": woven.mask[span]}
        arrays["prompt_length"] = np.array([_prompt_tokens(draft[0])], dtype=np.int32)
        one, other = draft
        content, control, eos = one.content + other.content, one.control + other.control, one.eos + other.eos
        return Row(arrays, content, control, eos, ids=self.id_keys)

    def _explain(self, turns: list[Turn], which: int) -> list[Piece]:
        trained = [at for at, turn in enumerate(turns) if turn.trained]
        first = trained[0] if trained else len(turns)
        behind = len(turns) - first
        chosen, rejected = turns[first : first + behind // 2], turns[first + behind // 2 :]
        return self._plain_strategy.pieces([*turns[:first], *(rejected if which else chosen)])


_PROCESSORS: Registry[type[Processor]] = Registry("chat/process", "processor")
for _built_in in (PreTrainProcessor, SFTProcessor, DPOProcessor, KTOProcessor):
    _PROCESSORS.add(_built_in.type, _built_in)

P = TypeVar("P", bound=type[Processor])


class ProcessorFactory:
    """Processors by type.

    Examples
    --------
    >>> ProcessorFactory.create("stf", None)
    Traceback (most recent call last):
    prep_lib.errors.UnknownName: chat/process: unknown processor 'stf'; did you mean 'sft'? known: dpo, kto, pt, sft
    """

    @staticmethod
    def create(processor_type: str, tokenizer: AutoTokenizer | None) -> Processor:
        """Build a processor; those that need a strategy take ChatML with its defaults."""
        return _born(_PROCESSORS[processor_type], tokenizer)

    @staticmethod
    def create_with_strategy(
        processor_type: str,
        tokenizer: AutoTokenizer | None,
        strategy: PromptStrategy | ChatTemplate,
        policy: Policy | None = None,
    ) -> Processor:
        """Build a processor around a strategy or a chat template.

        Raises
        ------
        BadParameter
            If this processor takes no strategy, or `strategy` is none.
        """
        made = _PROCESSORS[processor_type]
        known = inspect.signature(made.__init__).parameters
        if "strategy" not in known:
            raise BadParameter(f"chat/process: {processor_type} takes no strategy; use ProcessorFactory.create")
        if policy is not None and "policy" not in known:
            raise BadParameter(f"chat/process: {processor_type} takes no policy")
        extra = {} if policy is None else {"policy": policy}
        return _born(made, tokenizer, strategy=_checked(strategy, tokenizer, processor_type), **extra)

    @staticmethod
    def create_with_strategy_name(
        processor_type: str, tokenizer: AutoTokenizer | None, strategy_name: str, **kwargs: Any
    ) -> Processor:
        """Build a processor around the strategy `strategy_name`; `kwargs` are the strategy's parameters."""
        strategy = StrategyFactory.create(strategy_name, tokenizer, **kwargs)
        return ProcessorFactory.create_with_strategy(processor_type, tokenizer, strategy)

    @staticmethod
    def create_named(
        processor_type: str,
        tokenizer: AutoTokenizer | None,
        strategy_name: str = "",
        *,
        template: str = "",
        answers: str = "all",
        reasoning: bool = True,
        tool_calls: bool = True,
        weights: bool = False,
        **params: Any,
    ) -> Processor:
        """Build a processor from the parameters of a notebook: one that takes no strategy goes without.

        Parameters
        ----------
        strategy_name : str
            Empty: ChatML.
        template : str
            Where a chat template is (`ChatTemplate.load`); it goes before the strategy. Empty: the strategy.
        answers, reasoning, tool_calls, weights
            The policy, see `Policy`.
        **params
            Of the strategy; of a template only ``train_after_stop`` counts.
        """
        if "strategy" not in inspect.signature(_PROCESSORS[processor_type].__init__).parameters:
            return ProcessorFactory.create(processor_type, tokenizer)
        after = bool(template) and bool(params.get("train_after_stop", False))
        policy = Policy(
            answers=answers, reasoning=reasoning, tool_calls=tool_calls, weights=weights, train_after_stop=after
        )
        strategy: PromptStrategy | ChatTemplate = (
            ChatTemplate.load(template, tokenizer)
            if template
            else StrategyFactory.create(strategy_name or ChatML.name, tokenizer, **params)
        )
        chosen = None if policy == Policy() else policy
        return ProcessorFactory.create_with_strategy(processor_type, tokenizer, strategy, chosen)

    @staticmethod
    def register(processor_type: str) -> Callable[[P], P]:
        """Make a subclass of `Processor` known as `processor_type` (a decorator).

        Raises
        ------
        BadParameter
            If the class is no `Processor` or the name is taken.
        """

        def known(cls: P) -> P:
            if not (isinstance(cls, type) and issubclass(cls, Processor)):
                raise BadParameter(
                    f"chat/process: register {processor_type!r}: must be a subclass of Processor, got {cls!r}"
                )
            _PROCESSORS.add(processor_type, cls)
            cls.type = processor_type
            return cls

        return known

    @staticmethod
    def names() -> list[str]:
        """Return the known types, sorted."""
        return list(_PROCESSORS)


def _born(cls: type[Processor], tokenizer: AutoTokenizer | None, **extra: Any) -> Processor:
    made = cls(tokenizer, **extra)
    # A user's __init__ may not call ours.
    made.tokenizer = tokenizer if made.tokenizer is None else made.tokenizer
    return made


def _checked(
    strategy: PromptStrategy | ChatTemplate, tokenizer: AutoTokenizer | None, processor: str
) -> PromptStrategy | ChatTemplate:
    if not isinstance(strategy, PromptStrategy | ChatTemplate):
        raise BadParameter(
            f"chat/process: {processor}: strategy must be a PromptStrategy or ChatTemplate object, got {strategy!r}"
        )
    other = strategy.tokenizer
    if isinstance(strategy, ChatTemplate) and other is None:
        raise BadParameter(f"chat/process: {processor}: template {strategy.name!r} was made without a tokenizer")
    if other is None or tokenizer is None or other is tokenizer:
        return strategy
    if other.describe()["sha256"] != tokenizer.describe()["sha256"]:
        raise BadParameter(f"chat/process: {processor}: strategy {strategy.name!r} was built for another tokenizer")
    return strategy


def _text(record: dict[str, Any], name: str, where: str = "") -> str:
    if not isinstance(record, dict):
        raise BadRecord("wrong_type", f"{where}a record must be an object, got {type(record).__name__}")
    if name not in record:
        known = ", ".join(map(repr, list(record)[:8])) or "nothing"
        raise BadRecord("missing_field", f"{where}{name!r} must be a text; the record has {known}")
    if not isinstance(record[name], str):
        raise BadRecord("wrong_type", f"{where}{name!r} must be a text, got {type(record[name]).__name__}")
    return record[name]


def _texts(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what a strategy can write, and refuse a record that says more."""
    if tools:
        raise BadRecord("unwritten_field", "tools: a strategy does not write them; use a chat template")
    for at, message in enumerate(messages):
        if message.tool_calls or message.reasoning:
            where = f"messages[{at}].{'tool_calls' if message.tool_calls else 'reasoning'}"
            raise BadRecord("unwritten_field", f"{where}: a strategy does not write it; use a chat template")
    return [message.content for message in messages]


def _other_form(processor: str, made: object) -> BadRecord:
    forms = {Conversation: "a conversation", Preference: "a preference pair", Rated: "a rated conversation"}
    return BadRecord("other_form", f"{forms.get(type(made), 'a text')} is nothing for {processor}")


def _labelled(row: Row, talk: Conversation | Rated | None) -> Row:
    row.arrays["label"] = np.array([isinstance(talk, Rated) and talk.label], np.int32)
    return row


def _caught(take: Callable[[dict[str, Any]], T], record: dict[str, Any]) -> T | Drop | BadRecord:
    try:
        return take(record)
    except BadRecord as error:
        # A conversation without a word is data that teaches nothing, not data that cannot be read.
        return Drop("empty") if error.reason == "empty_conversation" else error


def _joined(reads: Iterable[_Read | Drop | BadRecord]) -> str:
    return "\0".join(text for read in reads if isinstance(read, _Read) for text in read.texts)


@contextmanager
def _user_code(reason: str) -> Iterator[None]:
    """What a user's code raises fails the record it was given; a run with too many of them stops by itself."""
    try:
        yield
    except (BadRecord, BadParameter, AcceleratorMismatch):
        raise
    except Exception as error:
        raise BadRecord(reason, f"{type(error).__name__}: {error}"[:200]) from error


def _both(flag: bool, size: int) -> bool:
    return flag and size > 0


def _turns(read: _Read, contents: list[np.ndarray]) -> list[Turn]:
    trained = map(_both, read.trained, map(len, contents))
    return [Turn(role, ids.tolist(), flag) for role, ids, flag in zip(read.roles, contents, trained, strict=True)]


def _weave(strands: list[_Strand]) -> _Woven:
    """Put all runs of a batch behind one another in three copies; no work a token is done in Python."""
    if not strands:
        return _Woven(np.empty(0, np.int32), np.empty(0, bool), np.empty(0, np.int32), [0])
    parts = list(chain.from_iterable(strand.parts for strand in strands))
    sizes = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
    flags = np.fromiter(chain.from_iterable(strand.trained for strand in strands), dtype=bool, count=len(parts))
    turns = np.fromiter(chain.from_iterable(strand.turns for strand in strands), dtype=np.int32, count=len(parts))
    runs = np.cumsum([0, *(len(strand.parts) for strand in strands)])
    bounds = np.concatenate([[0], np.cumsum(sizes)])[runs].tolist()
    ids = np.concatenate(parts).astype(np.int32, copy=False)
    return _Woven(ids, np.repeat(flags, sizes), np.repeat(turns, sizes), bounds)


def _prompt_tokens(strand: _Strand) -> int:
    """Count the tokens before the first trained run; no run of a pair that gets here is empty."""
    return sum(map(len, strand.parts[: list(strand.trained).index(True)]))


def _same_prompt(one: _Strand, other: _Strand) -> bool:
    if one.trained is other.trained:  # laid out from one shape and one query
        return True
    size = _prompt_tokens(one)
    same = size == _prompt_tokens(other)
    return same and np.array_equal(np.concatenate(one.parts)[:size], np.concatenate(other.parts)[:size])


def _settled(arrays: Any) -> dict[str, np.ndarray] | Drop:
    """Take what a user's processor returned, tensors and lists too, as the arrays we store."""
    if isinstance(arrays, Drop):
        return arrays
    if not isinstance(arrays, Mapping) or not arrays:
        raise BadRecord("no_arrays", f"a processor must return a dict of arrays, got {type(arrays).__name__}")
    return {name: _settle(name, np.asarray(array)) for name, array in arrays.items()}


def _settle(name: str, array: np.ndarray) -> np.ndarray:
    """Store integers as int32; one that does not fit is refused, never wrapped."""
    if array.dtype.kind not in "iufb":
        raise BadRecord("wrong_type", f"{name!r} must hold numbers, got an array of {array.dtype}")
    if array.dtype.kind in "fb" or array.dtype == np.int32:
        return array
    if array.size and not -(2**31) <= int(array.min()) <= int(array.max()) < 2**31:
        raise BadRecord("id_out_of_range", f"{name!r} holds {int(array.max())}, int32 takes up to {2**31 - 1}")
    return array.astype(np.int32)


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it; an object is told by its type, never by its address."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value if value is None or isinstance(value, str | int | float | bool) else f"<{type(value).__name__}>"
