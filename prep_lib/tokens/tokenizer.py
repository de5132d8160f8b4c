"""AutoTokenizer: text becomes token ids; a special token written inside content stays text.

    "Say <｜im▁end｜>."
        encode(text)                       S ay ␣< ｜ im ▁ end ｜ > .        content: what people wrote
        encode(text, parse_special=True)   S ay ␣ [<｜im▁end｜>] .           only for text a template made

                       ┌ holds a literal added token? ─ yes ─▶ tokenizers   (the reference, always there)
    encode_many(texts) ┤
                       └ no ─▶ fastokens ── sampled documents by both ── differ? ─▶ all again by the reference

No BOS and no EOS is ever added here, whatever a tokenizer file's post-processor says.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import itertools
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import tokenizers
import zstandard
from tokenizers import decoders, models, pre_tokenizers, trainers

from prep_lib import special
from prep_lib.errors import AcceleratorMismatch, BadInput, BadParameter, BadRecord, BadTemplate
from prep_lib.files import write_whole
from prep_lib.jinja import Template
from prep_lib.seeds import stream
from prep_lib.tokens import joint
from prep_lib.traced import Run

#: What a tokenizer without a configuration may call them, in the order they are looked for.
BOS_NAMES = (special.BOS, "<|begin_of_text|>", "<|startoftext|>", "<s>", "<bos>", "[BOS]")
EOS_NAMES = (special.EOS, "<|end_of_text|>", "<|endoftext|>", "</s>", "<eos>", "[EOS]")
PAD_NAMES = (special.PAD, "<|pad|>", "<|finetune_right_pad_id|>", "<pad>", "[PAD]")
STOP_NAMES = (special.IM_END, "<|im_end|>")

#: Characters handed to an engine at once: memory stays bounded, and one call is long enough to hide its overhead.
BATCH = 2**22
#: The same for the reference, whose result holds the text of every token until it is read.
REFERENCE_BATCH = 2**20
#: Documents and characters both engines encode before the accelerator serves, in every process.
PROOF_DOCUMENTS, PROOF_CHARACTERS = 200, 2**18
#: After that, one document in so many. The reference is about 25 times slower, so this costs a tenth of the time.
RECHECK = 256
#: A longer document is compared in a window of this many characters.
WINDOW = 2**16

#: What both engines must agree on before the accelerator serves: everything that ever told two tokenizers apart.
ADVERSARIAL: tuple[str, ...] = (
    "", " ", "  ", "\n", "\r\n", "\r", "\t", "\x00", "\x07\x1b[0m\x7f", "\u0085\u2028\u2029\u00a0\u3000", "\ufeff",
    "a" * 3000, " " * 3000, "\n" * 500, "\t \t " * 200, "!" * 1000, "=" * 77 + "\n", "ab" * 2000, "9" * 1001,
    "hello world", " leading", "trailing ", "two  blanks   three", "line\r\nline\n\n\nline\r", "I'm we'LL they'Ve 'S",
    "naïve café", "nai\u0308ve cafe\u0301", "\u0301\u0308", "e" + "\u0301" * 64, "Å Å Å", "ﬁ ﬂ ½ ① Ⅷ ﷺ", "İıſßẞ",
    "你好，世界。", "中文English混排123", "バスでデパートへ", "カ\u3099", "한국어 하나 ᄒ\u1161\u11ab", "ไทยภาษา",
    "हिन्दी क्षत्रिय", "שלום עולם", "العربية \u200f123\u200e", "\u202eright to left\u202c", "🇩🇪🇨🇳🇯", "1️⃣",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽", "\U0001f468\u200d",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "\U0010ffff\ue000\ufffd\ufffe", "▁ a ▁▁ b", "Ġ Ċ ĉ Â", "<0x0A><0xE4>",
    "12345678901234567890 3.14e-10 0x1F 1,000,000", "def f(x):\n    return x ** 2  # no\n\tif x:\n",
    '<div class="a">&amp;</div>', "https://example.org/?a=1&b=%20#x", "</s><s><unk>[INST][/INST]<pad>",
    "<|endoftext|><|im_start|>user\n<|im_end|>", "".join(special.CONTROL_TOKENS), "<|", "<｜", "<｜im▁end",
    "< | im_end | >", "<think>\n</think>", "\\n\\t\\u0041", "$\\int_0^1 x\\,dx$", "a\u200bb\u00adc\u2060d",
)  # fmt: skip

#: Short texts a tokenizer should give back as they were.
PROBES = ("naïve café", "你好，世界", "バスでデパートへ", "العربية", "👩‍👧", " a", "a  b", "a ▁ b", "a\n\tb", "ABC")

#: A noncharacter: valid in a string and in JSON, absent from text that was ever meant to be exchanged.
_MARK = "\ufdd0"


class _Finder:
    """Find any of many strings in a text: one regular expression made from their common beginnings."""

    def __init__(self, strings: Iterable[str]) -> None:
        strings = sorted(set(strings))
        # Nearly every text is ruled out by its letters alone; each look for two of them costs several times as much.
        self._firsts = sorted({text[:1] for text in strings})
        self._starts = sorted({text[:2] for text in strings})
        self._pattern = re.compile(_trie(strings)) if strings else None

    def holds(self, text: str) -> bool:
        for first in self._firsts:
            if first in text:
                break
        else:
            return False
        if self._pattern is None or not any(start in text for start in self._starts):
            return False
        return self._pattern.search(text) is not None

    def all(self, text: str) -> list[str]:
        return self._pattern.findall(text) if self._pattern and self.holds(text) else []

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [found.span() for found in self._pattern.finditer(text)] if self._pattern and self.holds(text) else []


def _trie(strings: Sequence[str]) -> str:
    """Return a pattern for sorted `strings` that prefers the longest, as the engines do.

    Examples
    --------
    >>> _trie(["<a>", "<ab>", "x"])
    '(?:<a(?:>|b>)|x)'
    """
    branches = []
    for first, group in itertools.groupby((text for text in strings if text), key=lambda text: text[0]):
        rests = [text[1:] for text in group]
        branches.append(re.escape(first) + (_trie(rests) if rests != [""] else ""))
    if not branches:
        return ""
    body = branches[0] if len(branches) == 1 and "" not in strings else f"(?:{'|'.join(branches)})"
    return f"{body}?" if "" in strings else body


# ---------------------------------------------------------------- one model, loaded once per process


class _Model:
    """What one ``tokenizer.json`` holds, with the engines that read it; shared by all tokenizers of a process."""

    def __init__(self, text: str) -> None:
        spec = _parse(text)
        spec["truncation"] = spec["padding"] = None  # settings of somebody's last call; they would cut our text
        self.text = orjson.dumps(spec).decode()
        self.sha256 = _digest(spec)
        self.added = frozenset(token["content"] for token in spec["added_tokens"] if token["content"])
        self.control = [
            token["content"]
            for token in spec["added_tokens"]
            if token.get("special") or special.MARKER.fullmatch(token["content"])
        ]
        self.unknown = _unknown(spec["model"])
        self.kind = str(spec["model"].get("type", "BPE"))
        self.byte_level = '"ByteLevel"' in json.dumps([spec.get("decoder"), spec.get("pre_tokenizer")])
        self.byte_fallback = bool(spec["model"].get("byte_fallback"))
        self.prefix = str(spec["model"].get("continuing_subword_prefix") or "")
        self.normalizes_added = _normalizes(spec) and any(token.get("normalized") for token in spec["added_tokens"])
        self.splits = self.byte_level and not _normalizes(spec) and _cuts_cleanly(spec)
        self.heads: dict[str, np.ndarray] = {}
        self.checked = self.batches = 0

    @cached_property
    def parsing(self) -> tokenizers.Tokenizer:
        """The engine as the file describes it: control tokens written in the text become ids."""
        return _engine(self.text)

    @cached_property
    def content(self) -> tokenizers.Tokenizer:
        """The engine for what people wrote: no spelling of a control token is one."""
        engine = self._renamed()
        engine.encode_special_tokens = True
        return engine

    @cached_property
    def marked(self) -> tokenizers.Tokenizer:
        """The engine for a rendered template whose content spells control tokens: only `aliases` become ids."""
        return self._renamed()

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Control token -> a spelling no text has. The blank keeps it out of reach of every pre-tokenizer's pieces."""
        return {token: f"{_MARK} {number} {_MARK}" for number, token in enumerate(self.control)}

    def _renamed(self) -> tokenizers.Tokenizer:
        spec = _parse(self.text)
        spec["post_processor"] = None
        for token in spec["added_tokens"]:
            if token["content"] in self.aliases:
                token |= {"content": self.aliases[token["content"]], "special": True, "normalized": False}
        _rename_vocabulary(spec["model"], self.aliases)
        engine = _engine(orjson.dumps(spec).decode())
        moved = [token for token, alias in self.aliases.items() if engine.token_to_id(alias) != self.id(token)]
        if moved:
            raise BadInput(f"tokens/tokenizer: cannot keep {moved[0]!r} apart from text spelled alike in this model")
        return engine

    def id(self, token: str) -> int | None:
        found: int | None = self.parsing.token_to_id(token)
        return found

    @cached_property
    def max_id(self) -> int:
        return max(self.parsing.get_vocab(with_added_tokens=True).values(), default=0)

    @cached_property
    def control_ids(self) -> frozenset[int]:
        ids = (self.id(token) for token in self.control if token != self.unknown)
        return frozenset(number for number in ids if number is not None)

    @cached_property
    def added_ids(self) -> dict[str, int]:
        """The ids of all added tokens."""
        return {token: id for token in self.added if (id := self.id(token)) is not None}

    @cached_property
    def control_spellings(self) -> frozenset[str]:
        return frozenset(self.control)

    def find(self, text: str) -> list[tuple[int, int]]:
        """Return where added tokens are spelled in a text, leftmost and longest first."""
        return self.find_added.spans(text)

    @cached_property
    def byte_sizes(self) -> np.ndarray:
        """Bytes of each id, (max_id + 1,) int64, of a byte-level model: one letter of a piece is one byte."""
        sizes = np.zeros(self.max_id + 1, np.int64)
        for piece, id in self.parsing.get_vocab(with_added_tokens=True).items():
            sizes[id] = len(piece.encode()) if piece in self.added else len(piece)
        return sizes

    @cached_property
    def find_control(self) -> _Finder:
        return _Finder(self.control)

    @cached_property
    def find_added(self) -> _Finder:
        return _Finder(self.added)

    @cached_property
    def packed(self) -> bytes:
        """The JSON, small enough to travel with every task."""
        return zstandard.compress(self.text.encode(), 3)

    @cached_property
    def accelerator(self) -> tuple[Any, str]:
        """The accelerator and one sentence; None where it does not serve, and the sentence says why."""
        if self.normalizes_added:
            return None, "this tokenizer looks for added tokens in normalised text"
        try:
            engine = importlib.import_module("fastokens").Tokenizer.from_json_str(self.text)
        except ImportError:
            return None, 'fastokens is not installed; pip install "prep-workbench[fast]"'
        except BaseException as error:  # a panic of the library is no Exception
            _reraise_interrupt(error)
            return None, f"fastokens does not take this model: {_first_line(error)}"
        texts = [text for text in ADVERSARIAL if not self.find_added.holds(text)]
        differing = _disagreement(engine, self.content, texts)
        if differing is not None:
            return None, f"fastokens gives other ids for {differing[:40]!r}"
        return engine, f"fastokens agrees with tokenizers on {len(texts)} adversarial texts and every sampled document"


def _parse(text: str) -> dict[str, Any]:
    try:
        spec = orjson.loads(text)
        _ = spec["model"]["vocab"], spec["added_tokens"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise BadInput(f"tokens/tokenizer: this is no tokenizer.json: {_first_line(error)}") from None
    return dict(spec)


def _engine(text: str) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_str(text)
    except Exception as error:
        raise BadInput(f"tokens/tokenizer: tokenizers does not take this model: {_first_line(error)}") from None


def _digest(spec: dict[str, Any]) -> str:
    """Return the sha256 of the JSON with sorted keys and without blanks: the same model, however it was printed."""
    return hashlib.sha256(orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _normalizes(spec: dict[str, Any]) -> bool:
    normalizer: dict[str, Any] = spec.get("normalizer") or {"normalizers": []}
    return normalizer.get("normalizers") != []


def _cuts_cleanly(spec: dict[str, Any]) -> bool:
    """Tell whether the text on both sides of an added token is encoded as if it stood alone.

    So it is if an added token takes no blanks with it, and no blank is put before a text.
    """
    flags = ("lstrip", "rstrip", "single_word")
    if any(token.get(flag) for token in spec["added_tokens"] for flag in flags):
        return False
    return '"add_prefix_space":true' not in orjson.dumps(spec.get("pre_tokenizer")).decode()


def _unknown(model: dict[str, Any]) -> str | None:
    """Return the piece that stands for unknown characters."""
    number = model.get("unk_id")
    return model.get("unk_token") if number is None else model["vocab"][number][0]


def _rename_vocabulary(model: dict[str, Any], aliases: dict[str, str]) -> None:
    """Take the spellings of control tokens out of a model's own pieces; their ids stay."""
    vocabulary = model["vocab"]
    if isinstance(vocabulary, list):  # Unigram: pairs of piece and score
        model["vocab"] = [[aliases.get(piece, piece), score] for piece, score in vocabulary]
        return
    if aliases.keys().isdisjoint(vocabulary):
        return
    model["vocab"] = {aliases.get(piece, piece): number for piece, number in vocabulary.items()}
    if model.get("unk_token") in aliases:
        model["unk_token"] = aliases[model["unk_token"]]
    if "merges" in model:
        model["merges"] = [merge for merge in model["merges"] if not _makes(merge, aliases)]


def _makes(merge: str | list[str], pieces: Collection[str]) -> bool:
    """Tell whether a merge takes one of the pieces, or gives one."""
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left in pieces or right in pieces or left + right in pieces


def _reraise_interrupt(error: BaseException) -> None:
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        raise error


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


_MODELS: dict[str, _Model] = {}


def _model(text: str) -> _Model:
    """Return the model of this JSON, the one already loaded if there is one."""
    return _remember(_Model(text))


def _remember(model: _Model) -> _Model:
    while len(_MODELS) > 8 and model.sha256 not in _MODELS:
        del _MODELS[next(iter(_MODELS))]
    return _MODELS.setdefault(model.sha256, model)


# ---------------------------------------------------------------- engines


def _flat(engine: Any, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Encode by the accelerator: (n,) int32 ids and (len(texts),) int64 lengths, no Python integer between."""
    ids, offsets = engine.encode_batch_flat(texts)
    return np.frombuffer(ids, np.int32), np.diff(np.frombuffer(offsets, np.uint64).astype(np.int64))


def _reference(engine: tokenizers.Tokenizer, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Encode by the reference, in batches: what it gives is far larger than the ids."""
    lists: list[np.ndarray] = []
    for first, last in _batches(texts, REFERENCE_BATCH):
        encodings = engine.encode_batch_fast(texts[first:last], add_special_tokens=False)
        lists.extend(np.array(encoding.ids, dtype=np.int32) for encoding in encodings)
    lengths = np.fromiter((len(ids) for ids in lists), np.int64, len(lists))
    return (np.concatenate(lists) if lists else np.empty(0, np.int32)), lengths


def _batches(texts: Sequence[str], limit: int) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of runs with at most `limit` characters; a longer text stands alone."""
    first = size = 0
    for at, text in enumerate(texts):
        if size and size + len(text) > limit:
            yield first, at
            first, size = at, 0
        size += len(text) + 1
    if first < len(texts):
        yield first, len(texts)


def _disagreement(engine: Any, reference: tokenizers.Tokenizer, texts: Sequence[str]) -> str | None:
    """Return the first text on which the accelerator differs from the reference; None where there is none."""
    expected, expected_lengths = _reference(reference, texts)
    try:
        ids, lengths = _flat(engine, texts)
    except BaseException as error:
        _reraise_interrupt(error)
        return texts[0]
    if np.array_equal(lengths, expected_lengths) and np.array_equal(ids, expected):
        return None
    if len(texts) == 1:
        return texts[0]
    return next((text for text in texts if _disagreement(engine, reference, [text]) is not None), texts[0])


def _merge(
    at: np.ndarray, few: tuple[np.ndarray, np.ndarray], many: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Put the documents of `few` at places `at` (sorted) between those of `many`, which keep their order."""
    (few_ids, few_lengths), (many_ids, many_lengths) = few, many
    lengths = np.empty(len(few_lengths) + len(many_lengths), np.int64)
    rest = np.ones(len(lengths), bool)
    rest[at] = False
    lengths[at], lengths[rest] = few_lengths, many_lengths
    belongs = np.repeat(rest, lengths)
    ids = np.empty(len(belongs), np.int32)
    ids[belongs], ids[~belongs] = many_ids, few_ids
    return ids, lengths


# ---------------------------------------------------------------- the tokenizer


class AutoTokenizer:
    """A tokenizer with its special tokens and its chat template.

    Parameters
    ----------
    path : path, str or None
        A ``tokenizer.json``, a folder that holds one, or a hub name (read from the local cache; downloaded only where
        that is allowed). None: nothing yet, call `train`.

    Attributes
    ----------
    name : str
    bos_token, eos_token, pad_token : str or None
    chat_template : str or None
    notes : tuple of str
        What a person should know: names that were guessed, texts that are not given back.
    raise_on_mismatch : bool
        What `encode_many` does when the accelerator errs: False, it encodes again by the reference and goes on with
        it; True, it raises `AcceleratorMismatch`, for a caller that must also redo what other processes did.

    Raises
    ------
    BadInput
        If nothing is there, if it is not a tokenizer, or if it drops characters without a word.

    Examples
    --------
    >>> tokenizer = AutoTokenizer().train(["abc abc"], vocab_size=270)
    >>> tokenizer.decode(tokenizer.encode("a<｜im▁end｜>b"))
    'a<｜im▁end｜>b'
    >>> tokenizer.eos_token, tokenizer.eos_token_id, tokenizer.stop_ids
    ('<｜end▁of▁sentence｜>', 1, [1, 4])
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._known: _Model | None = None
        self.name = "untrained"
        self.bos_token: str | None = None
        self.eos_token: str | None = None
        self.pad_token: str | None = None
        self.chat_template: str | None = None
        self.notes: tuple[str, ...] = ()
        self.raise_on_mismatch = False
        self._reference_only = ""
        if path is not None:
            self._take(_found(path))

    @classmethod
    def load(cls, path: str | Path) -> AutoTokenizer:
        """Return the tokenizer at `path`; the same as ``AutoTokenizer(path)``."""
        return cls(path)

    def train(
        self,
        texts: Iterable[str],
        vocab_size: int = 32_000,
        min_frequency: int = 0,
        special_tokens: Sequence[str] | None = None,
        byte_fallback: bool = False,
    ) -> AutoTokenizer:
        """Train a BPE and become it. The same texts give the same ``tokenizer.json``, byte for byte.

        Parameters
        ----------
        texts : iterable of str
            Read once, in bounded memory.
        vocab_size : int
            Ids at most, all 256 bytes and the special tokens counted.
        min_frequency : int
            A pair seen less often is not merged; 0 as 1.
        special_tokens : sequence of str or None
            They take the first ids. None: `special.CONTROL_TOKENS`.
        byte_fallback : bool
            False: byte-level, every merge begins with bytes. True: it begins with the characters seen, and a character
            that was not seen becomes its bytes, ``<0xE4><0xBD><0xA0>``. Both give every text back as it was.

        Raises
        ------
        BadParameter
            If the ids do not suffice for bytes, special tokens and, with `byte_fallback`, the characters seen.
        BadInput
            If a text is not valid Unicode.
        """
        specials = list(special.CONTROL_TOKENS if special_tokens is None else special_tokens)
        if isinstance(texts, str):
            raise BadParameter("tokens/tokenizer: train takes many texts; put one text into a list")
        if vocab_size < 256 + len(specials):
            raise BadParameter(
                f"tokens/tokenizer: vocab_size={vocab_size} is too small; 256 bytes and {len(specials)} special tokens"
                f" need at least {256 + len(specials)}"
            )
        train = _trained_on_characters if byte_fallback else _trained
        self._take(_Found(train(texts, vocab_size, min_frequency, specials), f"bpe-{vocab_size}"))
        return self

    def _take(self, found: _Found) -> None:
        self._known = _model(found.text)
        self.name, self.chat_template = found.name, None
        named = _names(self._known, found)
        self.bos_token, self.eos_token, self.pad_token = (named[role][0] for role in ("bos", "eos", "pad"))
        guessed = [note for _, note in named.values() if note]
        self.notes = tuple(f"{self.name} {note}" for note in (*guessed, *found.notes, *self._losses()))
        if found.chat_template:
            self.set_chat_template(found.chat_template)

    def _losses(self) -> list[str]:
        """Refuse a model that drops characters; tell which probes it does not give back."""
        for probe in PROBES:
            dropped = next((letter for letter in probe if letter.isalpha() and not self.encode(letter)), None)
            if dropped:
                raise BadInput(
                    f"tokens/tokenizer: {self.name} drops {dropped!r} and every character it does not know, because it"
                    " has neither a byte alphabet nor an unknown token; train it again byte-level"
                )
        lost = [probe for probe in PROBES if not self.round_trips(probe)]
        shown = ", ".join(f"{probe!r} as {self.decode(self.encode(probe))!r}" for probe in lost[:3])
        return [f"gives back {shown}: text is changed on the way"] if lost else []

    @property
    def _model(self) -> _Model:
        if self._known is None:
            raise BadParameter("tokens/tokenizer: nothing is loaded; give a path or call train")
        return self._known

    # ------------------------------------------------------------ text to ids

    def encode(self, text: str, parse_special: bool = False) -> list[int]:
        """Return the ids of one text, by the reference.

        Parameters
        ----------
        parse_special : bool
            False: content, where a literal control token is text. True: control tokens become their ids.

        Raises
        ------
        BadRecord
            If `text` is not valid Unicode.
        """
        engine = self._model.parsing if parse_special else self._model.content
        try:
            ids: list[int] = engine.encode(text, add_special_tokens=False).ids
        except TypeError:
            raise _unusable([text]) from None
        return ids

    def encode_many(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of many texts as content, by the accelerator where it is proven.

        Returns
        -------
        ids : (n,) int32
        offsets : (len(texts) + 1,) int64
            Text `i` is ``ids[offsets[i]:offsets[i + 1]]``.

        Raises
        ------
        BadRecord
            If a text is not valid Unicode; the detail tells which.
        AcceleratorMismatch
            With `raise_on_mismatch`, if a sampled document shows that the accelerator errs.
        """
        texts = texts if isinstance(texts, list) else list(texts)
        parts, lengths = [np.empty(0, np.int32)], [np.zeros(1, np.int64)]
        try:
            for first, last in _batches(texts, BATCH):
                ids, counts = self._encode_batch(texts[first:last])
                parts.append(ids)
                lengths.append(counts)
        except (TypeError, UnicodeEncodeError):
            raise _unusable(texts) from None
        except AcceleratorMismatch as error:
            if self.raise_on_mismatch:
                raise
            self.use_reference(str(error))
            return self.encode_many(texts)
        return np.concatenate(parts), np.cumsum(np.concatenate(lengths))

    def encode_joint(self, text: str, controls: Sequence[joint.Control]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ids, first and last characters of a text made by a template, by the reference; see `tokens.joint`."""
        try:
            return joint.encode(self._model, text, controls)
        except TypeError:
            raise _unusable([text]) from None

    def encode_rows(self, rows: Sequence[joint.Row]) -> list[joint.Placed]:
        """Return the ids of many texts made by a template, and where their borders lie; see `tokens.joint`."""
        return joint.encode_rows(self._model, rows, self.encode_many)

    def spelled(
        self, text: str, runs: Sequence[Run], answers: Collection[int] = (), parse: bool = False
    ) -> tuple[tuple[joint.Control, ...], int]:
        """Return the added tokens of a rendered text that count, and how many control tokens only data spells."""
        return joint.spelled(self._model, text, runs, answers, parse)

    def _encode_batch(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        model, engine = self._model, self._accelerator()[0]
        if engine is None:
            return _reference(model.content, texts)
        held = np.fromiter((model.find_added.holds(text) for text in texts), bool, len(texts))
        if not held.any():
            return self._accelerated(engine, texts)
        at = np.flatnonzero(held)
        few = _reference(model.content, [texts[i] for i in at])
        return _merge(at, few, self._accelerated(engine, [texts[i] for i in np.flatnonzero(~held)]))

    def _accelerated(self, engine: Any, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        sample = self._sample(texts)
        differing = _disagreement(engine, self._model.content, sample) if sample else None
        if differing is not None:
            raise AcceleratorMismatch(
                f"tokens/tokenizer: fastokens gives other ids than tokenizers for a document that begins"
                f" {differing[:40]!r}; everything is done again by tokenizers"
            )
        return _flat(engine, texts) if texts else (np.empty(0, np.int32), np.empty(0, np.int64))

    def _sample(self, texts: list[str]) -> list[str]:
        """Return what both engines encode: the first documents of this process, then a seeded few."""
        model = self._model
        rng = stream(42, "accelerator", model.batches)
        model.batches += 1
        drawn, spent = rng.random(len(texts)) < 1 / RECHECK, 0
        first = range(min(len(texts), max(0, PROOF_DOCUMENTS - model.checked)))
        for at in first:
            spent += len(texts[at])
            drawn[at] |= spent <= PROOF_CHARACTERS or at == 0
        model.checked += len(first)
        starts = rng.random(len(texts))
        return [_window(texts[at], starts[at]) for at in np.flatnonzero(drawn)]

    def _accelerator(self) -> tuple[Any, str]:
        if self._reference_only:
            return None, self._reference_only
        return self._model.accelerator

    def use_reference(self, why: str = "asked for") -> None:
        """Encode by `tokenizers` alone from now on; the choice travels with the tokenizer to other processes."""
        self._reference_only = why

    @property
    def engine_used(self) -> str:
        """Which engine `encode_many` uses: "fastokens" or "tokenizers"."""
        return "tokenizers" if self._accelerator()[0] is None else "fastokens"

    @property
    def why(self) -> str:
        """One sentence that says why that engine is used."""
        return self._accelerator()[1]

    def literal_specials(self, text: str) -> list[str]:
        """Return the control tokens spelled inside a text, in order: text for us, and worth a look.

        Examples
        --------
        >>> AutoTokenizer().train(["a"], vocab_size=270).literal_specials("a <｜im▁end｜> b")
        ['<｜im▁end｜>']
        """
        return self._model.find_control.all(text)

    def round_trips(self, text: str) -> bool:
        """Tell whether a text comes back from its ids as it was: no normaliser and no model lost a part of it."""
        return self.decode(self.encode(text)) == text

    # ------------------------------------------------------------ ids to text

    def decode(self, ids: Iterable[int], skip_special: bool = False) -> str:
        """Return the text of ids; with `skip_special` without control tokens.

        Raises
        ------
        BadParameter
            If an id is not in the vocabulary: it would be left out without a word.
        """
        numbers = [int(number) for number in ids]
        if numbers and not 0 <= min(numbers) <= max(numbers) <= self.max_id:
            raise BadParameter(
                f"tokens/tokenizer: ids {min(numbers)} to {max(numbers)}; {self.name} has ids 0 to {self.max_id}"
            )
        if skip_special:
            numbers = [number for number in numbers if number not in self.control_ids]
        return str(self._model.parsing.decode(numbers, skip_special_tokens=False))

    def token(self, id: int) -> str:
        """Return the piece as the model stores it: ``Ġthe``, ``▁the``, ``<｜im▁end｜>``."""
        piece = self._model.parsing.id_to_token(int(id)) if int(id) >= 0 else None
        if piece is None:
            raise BadParameter(f"tokens/tokenizer: {self.name} has no token with id {id}; its ids end at {self.max_id}")
        return str(piece)

    def token_bytes(self, id: int) -> bytes:
        """Return the bytes a token stands for; half a character has no other spelling.

        Examples
        --------
        >>> tokenizer = AutoTokenizer().train(["a"], vocab_size=270)
        >>> [tokenizer.token_bytes(id) for id in tokenizer.encode("é")]
        [b'\\xc3', b'\\xa9']
        """
        piece, model = self.token(id), self._model
        if piece in model.added:
            return piece.encode()
        if model.byte_level and all(letter in _BYTES for letter in piece):
            return bytes(_BYTES[letter] for letter in piece)
        if model.byte_fallback and (found := re.fullmatch(r"<0x([0-9A-Fa-f]{2})>", piece)):
            return bytes.fromhex(found.group(1))
        if model.kind == "WordPiece":
            piece = piece.removeprefix(model.prefix)
        return piece.replace("▁", " ").encode()

    def id(self, token: str) -> int | None:
        """Return the id of a piece as stored, None if there is none."""
        return self._model.id(token)

    # ------------------------------------------------------------ special tokens and sizes

    @property
    def bos_token_id(self) -> int | None:
        """The id of `bos_token`."""
        return None if self.bos_token is None else self.id(self.bos_token)

    @property
    def eos_token_id(self) -> int | None:
        """The id of `eos_token`."""
        return None if self.eos_token is None else self.id(self.eos_token)

    @property
    def pad_token_id(self) -> int | None:
        """The id of `pad_token`."""
        return None if self.pad_token is None else self.id(self.pad_token)

    @property
    def pad_id(self) -> int:
        """What fills a row: the padding token, else the end token, else 0. Padding is known by length, never by id."""
        return next((id for id in (self.pad_token_id, self.eos_token_id) if id is not None), 0)

    @property
    def stop_ids(self) -> list[int]:
        """The ids that end an answer: EOS and the end of a chat turn, those that exist."""
        ids = [self.eos_token_id, *(self.id(name) for name in STOP_NAMES)]
        return list(dict.fromkeys(id for id in ids if id is not None))

    @property
    def size(self) -> int:
        """How many tokens there are, added ones counted."""
        return int(self._model.parsing.get_vocab_size(with_added_tokens=True))

    @property
    def max_id(self) -> int:
        """The largest id there is; the vocabulary may have holes, so this and not `size` decides a dtype."""
        return self._model.max_id

    @property
    def control_ids(self) -> frozenset[int]:
        """The ids content never has: control tokens, without the one that stands for unknown characters."""
        return self._model.control_ids

    def added_around(self) -> tuple[list[int], list[int]]:
        """Return the ids that programs which ask for special tokens get before and behind a text, as the file says.

        Nothing here asks for them; a program that does so for a rendered conversation may write a second BOS.

        Examples
        --------
        >>> AutoTokenizer().train(["a"], 300).added_around()
        ([], [])
        """
        engine = self._model.parsing
        plain, whole = (engine.encode("a", add_special_tokens=asked).ids for asked in (False, True))
        extra = len(whole) - len(plain)
        at = next((at for at in range(extra + 1) if whole[at : at + len(plain)] == plain), 0)
        return (whole[:at], whole[at + len(plain) :]) if extra else ([], [])

    # ------------------------------------------------------------ chat template

    def set_chat_template(self, text: str) -> None:
        """Take a Jinja chat template; `BadTemplate` if it does not parse."""
        Template(text, f"chat template of {self.name}")
        self.chat_template = text

    def apply_chat_template(
        self,
        messages: Sequence[dict[str, Any]],
        tokenize: bool = True,
        add_generation_prompt: bool = False,
        **variables: Any,
    ) -> list[int] | str:
        """Render a conversation; its ids, or its text with ``tokenize=False``.

        The template's control tokens become their ids. One that is spelled inside a message stays text: each character
        is known to come from the template or from the message.

        Parameters
        ----------
        messages : sequence of dict
            ``role``, ``content`` and whatever else the template reads.
        **variables
            What else the template reads (``tools``, ``enable_thinking``), and ``now``, the date it may print.

        Raises
        ------
        BadTemplate
            If there is no template, or if it fails.
        """
        given = self._variables(messages, add_generation_prompt, variables)
        if not tokenize:
            return self._chat().render(**given)
        text, runs = self._chat().trace(**given)
        answers = {at for at, message in enumerate(messages) if message.get("role") == "assistant"}
        ids: list[int] = self.encode_joint(text, self.spelled(text, runs, answers)[0])[0].tolist()
        return ids

    def _chat(self) -> Template:
        if self.chat_template is None:
            raise BadTemplate(f"tokens/tokenizer: {self.name} has no chat template; call set_chat_template")
        return Template(self.chat_template, f"chat template of {self.name}")

    def _variables(
        self, messages: Sequence[Any], add_generation_prompt: bool, variables: dict[str, Any]
    ) -> dict[str, Any]:
        given = {"messages": list(messages), "add_generation_prompt": add_generation_prompt}
        return {"tools": None, "documents": None, **self.special_variables, **variables, **given}

    @property
    def special_variables(self) -> dict[str, str]:
        """What a template knows of special tokens: those there are, as in `transformers`."""
        named = {"bos_token": self.bos_token, "eos_token": self.eos_token, "pad_token": self.pad_token}
        return {name: token for name, token in named.items() if token is not None}

    # ------------------------------------------------------------ storing and travelling

    def save(self, folder: str | Path) -> Path:
        """Write ``tokenizer.json``, ``tokenizer_config.json`` and ``chat_template.jinja``; return the folder."""
        folder = Path(folder)
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": self.bos_token, "eos_token": self.eos_token,
            "pad_token": self.pad_token, "add_bos_token": False, "add_eos_token": False,
            "clean_up_tokenization_spaces": False,
        }  # fmt: skip
        files = {
            "chat_template.jinja": self.chat_template,
            "tokenizer_config.json": json.dumps(config, ensure_ascii=False, indent=2) + "\n",
            "tokenizer.json": self._model.text,
        }
        for name, text in files.items():
            if text is not None:
                with write_whole(folder / name, "w") as file:
                    file.write(text)
        return folder

    def describe(self) -> dict[str, Any]:
        """Return what a manifest says of it: ``name, size, max_id, eos_id, sha256``."""
        told = {"name": self.name, "size": self.size, "max_id": self.max_id, "eos_id": self.eos_token_id}
        return {**told, "sha256": self._model.sha256}

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: value for name, value in vars(self).items() if name != "_known"}
        model = self._known
        return _restore, (type(self), state, model and model.sha256, model and model.packed)

    def __repr__(self) -> str:
        known = f"{self.size:,} tokens" if self._known else "nothing loaded"
        return f"AutoTokenizer({self.name!r}, {known})"


def _restore(
    kind: type[AutoTokenizer], state: dict[str, Any], sha256: str | None, packed: bytes | None
) -> AutoTokenizer:
    """Unpickle; a process that has the model already does not read it again."""
    tokenizer = kind()
    vars(tokenizer).update(state)
    if sha256 and packed:
        tokenizer._known = _MODELS.get(sha256) or _model(zstandard.decompress(packed).decode())
    return tokenizer


def _trained(texts: Iterable[str], vocab_size: int, min_frequency: int, specials: list[str]) -> str:
    engine = tokenizers.Tokenizer(models.BPE(unk_token=None))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=specials,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    _train(engine, texts, trainer)
    return str(engine.to_str())


def _train(engine: tokenizers.Tokenizer, texts: Iterable[str], trainer: trainers.BpeTrainer) -> None:
    try:
        engine.train_from_iterator(texts, trainer)
    except (TypeError, UnicodeEncodeError) as error:
        raise BadInput(f"tokens/tokenizer: a training text is not valid Unicode: {_first_line(error)}") from None


def _trained_on_characters(texts: Iterable[str], vocab_size: int, min_frequency: int, specials: list[str]) -> str:
    engine = tokenizers.Tokenizer(models.BPE(byte_fallback=True))
    engine.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(_PIECES), "isolated")
    engine.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    spelled = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=min_frequency, special_tokens=[*specials, *spelled], show_progress=False
    )
    _train(engine, texts, trainer)
    spec = _parse(engine.to_str())
    if len(spec["model"]["vocab"]) > vocab_size:
        raise BadParameter(
            f"tokens/tokenizer: vocab_size={vocab_size} is too small; 256 bytes, {len(specials)} special tokens and "
            f"the characters of the texts are {len(spec['model']['vocab']):,}; use more, or byte_fallback=False"
        )
    # Bytes are pieces of the model, not control: and a text that spells one must not become it by merges.
    pieces = set(spelled)
    spec["added_tokens"] = [token for token in spec["added_tokens"] if token["content"] not in pieces]
    spec["model"]["merges"] = [merge for merge in spec["model"]["merges"] if not _makes(merge, pieces)]
    return orjson.dumps(spec).decode()


#: Where words are cut, as GPT-2 does (Radford et al. 2019): contractions, letters, digits and others, each with the
#: blank before it.
_PIECES = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def _unusable(texts: Sequence[Any]) -> BadRecord:
    """Make the error for the first text no engine takes."""
    for at, text in enumerate(texts):
        if not isinstance(text, str):
            return BadRecord("not_text", f"text {at} of {len(texts)} is a {type(text).__name__}")
        try:
            text.encode()
        except UnicodeEncodeError:
            return BadRecord("lone_surrogate", f"text {at} of {len(texts)} holds half a surrogate pair")
    return BadRecord("not_text", "no engine takes these texts")


def _window(text: str, start: float) -> str:
    first = int(start * max(0, len(text) - WINDOW))
    return text[first : first + WINDOW]


def _byte_alphabet() -> dict[str, int]:
    """Return letter -> byte of byte-level models: printable bytes are themselves, the others moved above them.

    Source: GPT-2 (Radford et al. 2019), whose alphabet all byte-level tokenizers share.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(moved)}


_BYTES = _byte_alphabet()


# ---------------------------------------------------------------- where tokenizers are found


@dataclasses.dataclass(frozen=True)
class _Found:
    """What was read: the JSON, a name, and what the files beside it say."""

    text: str
    name: str
    config: dict[str, Any] | None = None
    chat_template: str | None = None
    notes: tuple[str, ...] = ()


def _found(path: str | Path) -> _Found:
    place = Path(path).expanduser()
    if place.is_file():
        name = place.parent.resolve().name if place.name == "tokenizer.json" else place.stem
        return _Found(_read(place), name)
    if place.is_dir():
        return _in_folder(place, place.resolve().name)
    if re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", str(path)) and not str(path).endswith(".json"):
        return _in_folder(_from_hub(str(path)), str(path))
    raise BadInput(
        f"tokens/tokenizer: nothing at {path}; give a tokenizer.json, a folder that holds one, or a hub name"
    )


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"tokens/tokenizer: cannot read {path}: {_first_line(error)}") from None


def _in_folder(folder: Path, name: str) -> _Found:
    if not (folder / "tokenizer.json").is_file():
        raise BadInput(
            f"tokens/tokenizer: {folder} holds no tokenizer.json; older formats (tokenizer.model, vocab.json)"
            " are not read, save them as a fast tokenizer first"
        )
    config = _read_config(folder / "special_tokens_map.json") | _read_config(folder / "tokenizer_config.json")
    template, notes = _chosen_template(config.get("chat_template"))
    if (folder / "chat_template.jinja").is_file():
        template, notes = _read(folder / "chat_template.jinja"), ()
    return _Found(_read(folder / "tokenizer.json"), name, config or None, template, notes)


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(_read(path)))
    except ValueError as error:
        raise BadInput(f"tokens/tokenizer: {path} is not JSON: {_first_line(error)}") from None


def _chosen_template(stored: Any) -> tuple[str | None, tuple[str, ...]]:
    """Return the template of a configuration: one text, or a list of named ones of which "default" serves."""
    if not isinstance(stored, list):
        return (stored if isinstance(stored, str) else None), ()
    named = {str(item["name"]): str(item["template"]) for item in stored}
    chosen = "default" if "default" in named else next(iter(named), "")
    note = f"has {len(named)} chat templates ({', '.join(named)}); {chosen!r} is used"
    return named.get(chosen), (note,)


def _names(model: _Model, found: _Found) -> dict[str, tuple[str | None, str]]:
    """Return role -> (token, note): from the configuration, or else by known names, and then the note says so."""
    known = {"bos": BOS_NAMES, "eos": EOS_NAMES, "pad": PAD_NAMES}
    if found.config is None or not any(f"{role}_token" in found.config for role in known):
        return {role: _guess(model, role, names) for role, names in known.items()}
    return {role: _configured(model, role, found.config.get(f"{role}_token")) for role in known}


def _guess(model: _Model, role: str, names: Sequence[str]) -> tuple[str | None, str]:
    token = next((name for name in names if name in model.added), None)
    return token, f"has no configuration; {token} is taken for {role}_token" if token else ""


def _configured(model: _Model, role: str, stored: Any) -> tuple[str | None, str]:
    token = stored.get("content") if isinstance(stored, dict) else stored
    if token is not None and model.id(token) is None:
        return None, f"its configuration names {token!r} as {role}_token, but no token is spelled so; it is left out"
    return token, ""


def _from_hub(name: str) -> Path:
    """Return the cached folder of a hub name; download the few small files only where that is allowed."""
    hub = importlib.import_module("huggingface_hub")
    cache = os.environ.get("HF_HUB_CACHE") or (os.environ.get("HF_HOME") and str(Path(os.environ["HF_HOME"]) / "hub"))
    cached = hub.try_to_load_from_cache(name, "tokenizer.json", cache_dir=cache or None)
    if isinstance(cached, str):
        return Path(cached).parent
    if _offline():
        raise BadInput(
            f"tokens/tokenizer: nothing at {name}, and no such tokenizer in the local hub cache; HF_HUB_OFFLINE is set,"
            " so nothing is downloaded"
        )
    wanted = ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"]
    try:
        return Path(hub.snapshot_download(name, allow_patterns=wanted, cache_dir=cache or None))
    except Exception as error:
        raise BadInput(
            f"tokens/tokenizer: nothing at {name}, and the hub does not give it: {type(error).__name__}:"
            f" {_first_line(error)}; give a folder or fill the cache first"
        ) from None


def _offline() -> bool:
    return any(
        os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE")
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    )
